"""A space of programs, seen: classes as boxes, the best program's nodes ringed, round by round."""

import json
from typing import Any

import luminal_lab as ll
from luminal_lab.errors import LabError
from luminal_lab.viz.egraph_subject import subject_of_space
from luminal_lab.viz.live.replies import Replies
from tests.expect import error_of
from tests.needs import need
from tests.search.written import attention, block, searched


def softmax():
    cx = ll.Graph("rows")
    cx.tensor((6, 17), name="x").softmax(-1).retrieve()
    return searched(cx)


def test_a_class_of_several_nodes_is_a_box_and_one_of_a_single_node_is_that_node():
    payload = softmax().display().payload
    nodes = {item.name: item for item in payload.items}
    assert nodes["c11"].label == "exp2(c10)"
    assert nodes["c11"].box is None
    (box,) = (box for box in payload.boxes if box.name == "c12")
    assert box.is_open
    inside = {item.name: item.label for item in payload.items if item.box == box.id}
    assert inside == {
        "n12": "sum k < 17: c11",
        "n30": "(online k: acc * [c18] + c11)",
        "c12": "any of 2",
    }
    assert nodes["c12"].kind == "class"
    assert nodes["x[i, k]"].label == "x[i, k]"


def test_a_node_says_its_axes_and_the_rule_that_made_it():
    picture = softmax().display()
    online = next(item for item in picture.payload.items if item.name == "n30")
    assert (online.type, online.rule) == ("f32[i]", "cascade")
    assert "made by cascade" in picture.svg


def test_the_nodes_of_the_best_program_are_ringed():
    picture = softmax().display()
    ringed = {item.name for item in picture.payload.items if item.highlighted}
    assert {"n30", "c11", "c13", "c14"} <= ringed
    assert "n12" not in ringed
    assert picture.text.startswith("Graph rows after 5 rounds of rules, the best program ringed")
    other = softmax().display(highlight="n12").payload
    assert {item.name for item in other.items if item.highlighted} == {"n12"}


def test_of_a_large_space_the_classes_of_the_best_program_are_shown_and_all_if_asked_for():
    space = searched(attention(after=0.125))
    shown = {box.name for box in space.display().payload.boxes}
    assert shown == {"c10", "c12", "c17", "c22", "c24", "c31", "c39"}
    assert space.display(depth=1).payload.left_out == 0
    assert {box.is_open for box in space.display(depth=0).payload.boxes} == {False}


def test_a_large_space_is_text_in_a_cell_and_its_classes_are_closed_in_its_picture():
    space = searched(block(n=4, width=6))
    assert set(space._repr_mimebundle_()) == {"text/plain"}
    assert "text/html" in softmax()._repr_mimebundle_()
    payload = space.display().payload
    assert {box.is_open for box in payload.boxes} == {False}
    assert payload.left_out > 1_000


def test_its_rounds_are_stages_whose_firings_lead_from_one_to_the_next():
    subject = subject_of_space(searched(attention(after=0.125)))
    written, *rounds = subject.snapshots
    assert len(written.ir) == 16
    assert [str(each.steps()[-1]) for each in rounds] == [str(each.ir) for each in rounds]
    assert rounds[0].counts == {"max-mul": 1, "distribute": 1, "sum-factor": 1, "equal-parts": 1}
    assert rounds[-1].counts["cascade"] == 2
    first = rounds[0].firings[0]
    assert (first.rule, first.because) == ("max-mul", "max l < 17: c5 → c19 * 0.125")


def test_a_rule_is_drawn_and_has_its_python():
    facts = subject_of_space(softmax()).facts.rules["cascade"]
    assert facts.text.startswith("sum j: x → online j: acc * ratio[j](x) + x")
    assert facts.right is not None
    assert [node.label for node in facts.right.nodes] == ["x", "ratio[j]", "online j"]
    assert "def cascade(" in facts.source
    assert facts.needs == ("no_nan", "no_inf")


def test_it_can_be_explored_with_the_costs_of_the_best_program(tmp_path):
    space = softmax()
    explorer: Any = space.explore()
    assert [stage.name for stage in explorer.subjects[0].snapshots][:2] == ["written", "round-1"]
    explorer.select("n30")
    (node,) = explorer.selected
    assert node.meta.derivation.rule == "cascade"
    assert "the best program" in explorer.overlay["title"]
    explorer.go("round-1")
    assert json.loads(json.dumps(explorer.overlay))
    workbench: Any = space.workbench()
    assert workbench.words().count("round-") == 5
    need("script")
    explorer.export(tmp_path / "space.html")
    assert "the best program ringed" in (tmp_path / "space.html").read_text("utf-8")


def test_an_element_has_no_values():
    node = subject_of_space(softmax()).snapshots[-1].ir["c11"]
    assert "is an element of a program" in error_of(node.op.eval, LabError).message


def test_a_table_has_a_row_for_each_node():
    need("pandas")
    space = softmax()
    table = space.to_pandas()
    assert set(table[table["class"] == "c12"]["node"]) == {
        "sum k < 17: c11",
        "(online k: acc * [c18] + c11)",
    }
    assert list(table[table.rule == "cascade"].best)[-1]


def test_a_kernel_answers_why_a_rule_did_not_fire_at_a_node():
    explorer: Any = softmax().explore()
    (backed,) = explorer._held.all
    names = backed.newest.ir.names
    answer = Replies(explorer._held, lambda: None).answer
    asked = {"run": 0, "stage": 5, "rule": "sum-factor", "id": names["n12"]}
    assert answer({"ask": "why_not", **asked})["text"].startswith(
        "sum-factor made nothing new of c12"
    )
    assert answer({"ask": "why", **asked})["text"].startswith("c12: depends on i")
    assert "no class" in answer({"ask": "why", **asked, "id": 999})["error"]
    assert "was not compiled here" in answer({"ask": "time", "run": 0})["error"]

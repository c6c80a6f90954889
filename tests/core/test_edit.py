"""The editor: what it changes and what it leaves, its log, and what it refuses."""

import re
from contextlib import suppress
from difflib import unified_diff
from typing import Any

import pytest
from hypothesis import given, strategies as st

from luminal_lab.core.dtypes import DType
from luminal_lab.core.edit import Edit, replay, undo
from luminal_lab.core.ir import IR, Derivation, Node, Table
from luminal_lab.core.op import Op, TensorType
from luminal_lab.core.ops import Add, Cast, Exp2, Input, Mul, Sin, Sqrt
from luminal_lab.core.origin import Origin
from luminal_lab.core.parse import parse
from luminal_lab.core.verify import verify
from luminal_lab.errors import GraphError, LabError, ParseError, VerifyError
from luminal_lab.session import Graph
from tests.core.graphs import graphs
from tests.expect import error_of

TEXT = """graph g(%x: f32[2], %z: f32[2]) -> (%y => %x, %s) {
  %s = sin %x : f32[2] @ block "file":3 "s = x.sin()"
  %y = add %s, %s : f32[2]
  %dead = sqrt %y : f32[2]
}
"""


def changed_lines(before: IR, after: IR) -> list[str]:
    """Return the lines that a unified diff of two texts marks."""
    diff = unified_diff(str(before).splitlines(), str(after).splitlines(), lineterm="", n=0)
    return [line for line in diff if re.match(r"[-+](?![-+])", line)]


def check_history(before: IR, edit: Edit) -> IR:
    """Check that the log leads from the graph to what the editor made of it, and back."""
    after = edit.ir()
    there = replay(before, edit.log)
    assert there == after
    assert str(there) == str(after)
    assert list(there.table) == list(after.table)  # the same objects
    assert (there.signature, there.next_id) == (after.signature, after.next_id)
    back = undo(after, edit.log)
    assert back == before
    assert str(back) == str(before)
    assert list(back.table) == list(before.table)
    assert back.signature == before.signature
    half = len(edit.log) // 2
    assert str(replay(replay(before, edit.log[:half]), edit.log[half:])) == str(after)
    return after


# -- what it does ----------------------------------------------------------------------------------


def test_insert_takes_its_origin_from_what_it_is_like():
    edit = Edit(parse(TEXT))
    node = edit.insert(Exp2(), "%s", like=["s", "y"], name="e", rule="why-not")
    assert node.meta.origin == Origin("file", 3, "s = x.sin()")
    assert node.meta.scope == "block"
    assert node.meta.derivation == Derivation("why-not", (edit["s"].id, edit["y"].id))
    assert (node.id, str(node), node.type) == (5, "%e", TensorType(DType.float32, (2,)))
    assert edit.users("s") == (edit["y"], node)
    assert edit.sources(node) == (edit["s"],)
    again = edit.insert(Exp2(), node, name="e")
    assert (str(again), again.meta.derivation) == ("%e_2", None)
    assert edit.insert(Exp2(), node.id, like=node).meta.derivation == Derivation("", (5,))
    verify(check_history(edit.base, edit))


def test_only_an_op_can_be_inserted():
    no_op: Any = [Exp2()]
    with pytest.raises(GraphError, match=r"\[Exp2\(\)\] is not an op"):
        Edit(parse(TEXT)).insert(no_op, "s")


def test_without_changes_it_is_the_same_graph():
    ir = parse(TEXT)
    edit = Edit(ir)
    assert edit.ir() is ir
    edit.replace("s", "s")
    assert edit.ir() is ir
    assert not edit.log


def test_replace_leads_users_outputs_and_carries_to_the_new_node():
    ir = parse(TEXT)
    edit = Edit(ir)
    new = edit.insert(Mul(), "s", "s", like="y", rule="double")
    edit.replace("y", new, rule="double")
    assert [str(n) for n in edit.users(new)] == ["%dead"]
    assert edit.users("y") == ()
    assert (edit.is_output(new), edit.is_output("y")) == (True, False)
    after = check_history(ir, edit)
    assert changed_lines(ir, after) == [
        "-graph g(%x: f32[2], %z: f32[2]) -> (%y => %x, %s) {",
        "+graph g(%x: f32[2], %z: f32[2]) -> (%5 => %x, %s) {",
        "-  %dead = sqrt %y : f32[2]",
        "+  %5 = mul %s, %s : f32[2]",
        "+  %dead = sqrt %5 : f32[2]",
    ]
    assert after["s"] is ir["s"]
    assert after["y"] is ir["y"]
    insert, replace = edit.log
    assert (insert.kind, insert.rule, insert.node, insert.into) == ("insert", "double", 5, None)
    assert (replace.kind, replace.node, replace.into) == ("replace", ir["y"].id, 5)
    assert (replace.before, replace.after) == ((ir["dead"],), (after["dead"],))


def test_a_node_around_the_old_one_keeps_reading_it():
    ir = parse(TEXT)
    edit = Edit(ir)
    around = edit.insert(Add(), "s", "s", rule="twice")
    edit.replace("s", around)
    assert edit[around].sources == (ir["s"].id, ir["s"].id)
    assert edit.users("s") == (around,)
    assert edit["y"].sources == (around.id, around.id)
    assert edit.ir().outputs == (edit["y"], around)
    verify(check_history(ir, edit))


def test_two_outputs_that_become_one_keep_their_places_and_carries():
    ir = parse("""graph g(%a: f32[2], %b: f32[2]) -> (%p => %a, %q => %b) {
      %p = sin %a : f32[2]
      %q = sin %a : f32[2]
    }""")
    edit = Edit(ir)
    edit.replace("q", "p")
    edit.erase("q")
    after = check_history(ir, edit)
    assert "(%p => %a, %p => %b)" in str(after)
    verify(after)
    assert parse(str(after)) == after


def test_replacing_by_an_older_node_and_by_a_later_one():
    ir = parse("""graph g(%x: f32[2]) -> (%d) {
      %a = sin %x : f32[2]
      %b = sin %x : f32[2]
      %c = exp2 %a : f32[2]
      %d = exp2 %b : f32[2]
    }""")
    edit = Edit(ir)
    edit.replace("b", "a")  # as common subexpressions are
    edit.replace("d", "c")
    verify(check_history(ir, edit))
    edit = Edit(ir)
    edit.replace("a", "b")
    edit.replace("c", "d")
    verify(check_history(ir, edit))


def test_erase_takes_a_node_out_and_its_name_is_free_and_its_id_is_not():
    ir = parse(TEXT)
    edit = Edit(ir)
    edit.erase("dead", rule="unused")
    assert "dead" not in edit
    assert ir["dead"] not in edit
    assert edit.users("y") == ()
    new = edit.insert(Sin(), "x", name="dead")
    assert (str(new), new.id) == ("%dead", 5)
    edit.erase("%z")
    after = check_history(ir, edit)
    assert [str(n) for n in after.inputs] == ["%x"]
    verify(after)


def test_inputs_come_and_go_and_come_back_in_their_place():
    ir = parse("graph g(%a: f32[2], %b: f32[2], %c: f32[2]) -> (%c) {}")
    edit = Edit(ir)
    edit.erase("a")
    new = edit.insert(Input(DType.int8, (3,)), name="a")
    edit.erase("b")
    assert [str(n) for n in edit.ir().inputs] == ["%c", "%a"]
    assert edit.ir()["a"] is new
    verify(check_history(ir, edit))


def test_ids_are_used_once_even_after_undoing():
    edit = Edit(parse(TEXT))
    first = edit.insert(Sin(), "x")
    edit.erase(first)
    second = edit.insert(Sin(), "x")
    assert (first.id, second.id) == (5, 6)
    assert undo(edit.ir(), edit.log).next_id == 7
    assert Edit(undo(edit.ir(), edit.log)).insert(Sin(), "x").id == 7


def test_many_nodes_change_the_direct_users_alone():
    count = 10_000
    type = TensorType(DType.float32, (2,))
    table = Table()
    table.set(0, Node(0, Input(type.dtype, type.shape), (), type))
    table.set(1, Node(1, Sqrt(), (0,), type))
    for id in range(2, count):
        sources = (1, id - 1) if id in (2, 5_000) else (id - 1, id - 2)
        table.set(id, Node(id, Add(), sources, type))
    ir = IR(table, [0], [count - 1])
    edit = Edit(ir)
    new = edit.insert(Sin(), 0, like=1)
    edit.replace(1, new)
    edit.erase(1)
    after = check_history(ir, edit)
    fresh = [node.id for node in after if ir.table.get(node.id) is not node]
    assert sorted(fresh) == [2, 3, 5_000, count]
    assert sorted(line[:9] for line in changed_lines(ir, after)) == [
        *["+  %10000", "+  %2 = a", "+  %3 = a", "+  %5000 "],
        *["-  %1 = s", "-  %2 = a", "-  %3 = a", "-  %5000 "],
    ]
    assert {node.id: node.name for node in ir if node.id != 1} == {
        node.id: node.name for node in after if node.id != count
    }


def test_chains_of_replacements_take_little_time():
    # Without bounds to the search for cycles this takes minutes.
    edit = Edit(parse("graph g(%x: f32[2]) -> (%0) { %0 = sin %x : f32[2] }"))
    last = edit["0"]
    for _ in range(5_000):
        last = edit.insert(Sin(), last)
    for node in list(edit.ir())[2:]:
        edit.replace(node, edit.insert(Exp2(), *node.sources))
    assert len(edit.ir()) == 10_002


# -- what it refuses -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "op", "old", "message"),
    [
        (
            "%u = sin %x : f32[2] %n = sqrt %u : f32[2]",
            None,
            "x",
            "replace: %n cannot take the place of %x: it is computed from %u, which would read it, "
            "and that is a cycle\nhint: compute %n from a copy of %x: insert its op on its sources "
            "again",
        ),
        (
            "%o = sin %x : f32[2] %u = sqrt %o : f32[2] %v = sin %u : f32[2]",
            Sin(),
            "o",
            "replace: %5 cannot take the place of %o: it is computed from %u, which would read it, "
            "and that is a cycle\nhint: compute %5 from a copy of %o: insert its op on its sources "
            "again",
        ),
    ],
)
def test_a_cycle_is_refused(text: str, op: Op | None, old: str, message: str):
    ir = parse(f"graph g(%x: f32[2]) -> (%x) {{ {text} }}")
    edit = Edit(ir)
    edit.insert(Sqrt(), "x")  # makes ids and order differ
    new = edit["n"] if op is None else edit.insert(op, "v")
    before = edit.ir()
    with pytest.raises(GraphError) as caught:
        edit.replace(old, new)
    assert str(caught.value) == message
    assert str(edit.ir()) == str(before)
    check_history(ir, edit)


def test_a_cycle_is_refused_after_nodes_were_led_to_later_ones():
    ir = parse("""graph g(%x: f32[2]) -> (%b) {
      %a = sin %x : f32[2]
      %b = sqrt %a : f32[2]
      %c = exp2 %x : f32[2]
    }""")
    edit = Edit(ir)
    edit.replace("a", "c")  # b reads c now
    d = edit.insert(Sin(), "b", name="d")
    with pytest.raises(GraphError, match="%d cannot take the place of %c: it is computed from %b"):
        edit.replace("c", d)
    verify(check_history(ir, edit))


def failing_edits(edit: Edit) -> dict[str, object]:
    return {
        "add: it takes the sources x, y; 1 was given": lambda: edit.insert(Add(), "x"),
        "sin: needs a float, but the source is int32\n"
        'hint: convert it first, as in x.cast("float32")': lambda: edit.insert(
            Sin(), edit.insert(Cast(DType.int32), "x")
        ),
        "g: there is no node %q\nhint: did you mean '%z'?": lambda: edit.insert(Sin(), "q"),
        "g: there is no node with the id 99": lambda: edit.replace(99, "x"),
        "'a b' cannot be the name of a node\nhint: a name is letters, digits, '_' and '.', and "
        "starts with a letter or '_'": lambda: edit.insert(Sin(), "x", name="a b"),
        "replace: %s is f32[2], but %6 is i32[2]\nhint: insert a cast or a view first, so that the "
        "types are equal": lambda: edit.replace("s", edit.insert(Cast(DType.int32), "x")),
        "erase: %s is still needed: %y reads it\nhint: replace it first, by edit.replace": lambda: (
            edit.erase("s")
        ),
        "erase: %y is still needed: it is an output": lambda: (edit.erase("dead"), edit.erase("y")),
        "erase: %z is still needed: an output is carried to it": lambda: edit.erase("z"),
    }


def test_one_walks_over_the_nodes_as_they_were_when_one_began():
    edit = Edit(parse(TEXT))
    for node in edit:
        if isinstance(node.op, Sin):
            edit.replace(node, edit.insert(Sin(), *node.sources))
    assert [str(node) for node in edit] == [*map(str, edit.ir())]
    assert sum(isinstance(node.op, Sin) for node in edit) == 2


def test_what_cannot_be_done_is_said_and_changes_nothing():
    ir = parse(TEXT.replace("%y => %x", "%y => %z"))
    edit = Edit(ir)
    for message, call in failing_edits(edit).items():
        assert callable(call)
        before = edit.log.copy()
        with pytest.raises((GraphError, VerifyError, LabError)) as caught:
            call()
        assert str(caught.value) == message
        assert all(change.kind in ("insert", "erase") for change in edit.log[len(before) :])
    verify(check_history(ir, edit))


# -- random edits ----------------------------------------------------------------------------------


@given(graphs(), st.data())
def test_random_edits(ir: IR, data: st.DataObject):
    edit = Edit(ir)
    for _ in range(data.draw(st.integers(1, 12))):
        nodes = list(edit.ir())
        node = data.draw(st.sampled_from(nodes))
        like = [n for n in nodes if n.types == node.types]
        with suppress(GraphError):  # a cycle, or a node that is still needed
            match data.draw(st.integers(0, 3)):
                case 0:
                    edit.insert(node.op, *node.sources, like=node, name="new", rule="copy")
                case 1:
                    op = Sin() if node.dtype.is_float and not node.extra else node.op
                    edit.replace(
                        node, edit.insert(op, *([node] if op != node.op else node.sources))
                    )
                case 2:
                    edit.replace(node, data.draw(st.sampled_from(like)), rule="same-type")
                case _:
                    edit.erase(node)
    touched = {node.id for change in edit.log for node in (*change.before, *change.after)}
    after = check_history(ir, edit)
    verify(after)
    for node in ir:
        if node.id not in touched:
            assert after.table.get(node.id) is node
    known = {node.id: node.name for change in edit.log for node in change.after}
    known.update((node.id, node.name) for node in ir)
    assert all(node.name == known[node.id] for node in after)
    assert edit.names == {node.name: node.id for node in after}
    readers = {id: list(found) for id, found in edit.readers.items() if found}
    assert {id: sorted(found) for id, found in readers.items()} == {
        node.id: sorted(user.id for user in after.users(node))
        for node in after
        if after.users(node)
    }
    assert parse(str(after)) == after


def test_a_session_is_not_a_graph():
    cx: Any = Graph()
    for call in (Edit, verify):
        error = error_of(lambda call=call: call(cx), GraphError)
        assert error.message.endswith("needs an IR, not a Graph")
        assert error.hint == "use cx.ir, or parse one"
    assert error_of(lambda: parse(cx), ParseError).message == ("parse: needs a text, not a Graph")


def test_a_node_of_another_graph_is_not_looked_up_by_its_id():
    one = parse("graph g(%x: f32[2]) -> (%y) { %y = sin %x : f32[2] }")
    two = parse("graph h(%a: f32[2]) -> (%b) { %b = sqrt %a : f32[2] }")
    error = error_of(lambda: Edit(one).erase(two["b"]), GraphError)
    assert error.message == "g: %b is a node of another graph; here %y has its id"
    assert two["b"] not in one
    wrong: Any = None
    assert error_of(lambda: one[wrong], GraphError).message == "g: None names no node"


def test_a_name_goes_with_its_value_where_that_is_asked():
    ir = parse("graph g(%x: f32[2]) -> (%z) { %y = sin %x : f32[2]  %z = sqrt %y : f32[2] }")
    edit = Edit(ir)
    new = edit.insert(Exp2(), "x")
    edit.replace("y", new, renames=True)
    assert edit["y"].id == new.id
    edit.replace("x", "y", renames=True)  # an input keeps its name, and so does what has one
    assert (edit["x"].op, edit["y"].op) == (ir["x"].op, Exp2())
    other = edit.insert(Sin(), "x")
    half = edit.insert(Sin(), "z")
    edit.replace("z", half, renames=True)  # half still reads it
    assert edit["z"].id == ir["z"].id
    assert other.meta.name is None


def test_a_change_of_no_output_keeps_the_signature():
    cx = Graph()
    x = cx.tensor((2,), name="x")
    y = (x * 1 + 0).named("y").retrieve()
    cx.carry(y, x)
    edit = Edit(cx.ir)
    before = edit.signature
    edit.replace(edit.sources("y")[0], "x")
    assert edit.signature is before
    edit.replace("y", "x")
    assert edit.ir().output_ids == (x.id,)
    assert edit.ir().carries == ((x.id, x.id),)

"""A derivation, seen: a list of firings in a cell, and a pass of the workbench."""

import re
from typing import Any

import pytest

import luminal_lab as ll
from luminal_lab.errors import GraphError
from luminal_lab.viz.derivation_subject import subject_of_derivation
from tests.needs import need
from tests.search.written import attention, searched
from tests.viz.searches import of_a_region


def derived(cx=None):
    space = searched(attention(after=0.125) if cx is None else cx)
    *_, best = ll.search.judged_programs(space)
    return best.derivation


def test_a_cell_shows_each_firing_with_its_rule_and_what_it_changed():
    derivation = derived()
    shown = derivation._repr_mimebundle_()
    page, text = shown["text/html"], shown["text/plain"]
    assert text == str(derivation)
    assert page.count("<details") == len(derivation)
    assert page.count("(a later step rests on it)") == sum(
        not firing.changes_program for firing in derivation
    )
    last = page[page.rindex("<details") :]
    assert "cascade" in last
    assert "sum l &lt; 17: c23 → (online l: acc * [c22] + c23)" in last
    assert "c23 = c11 * v[l, j]" in last
    assert "<script" not in page


def test_what_differs_is_marked_and_the_rest_is_the_program():
    derivation = derived()
    page = derivation.display().html
    added = "".join(re.findall(r"<ins[^>]*>(.*?)</ins>", page, re.DOTALL))
    assert added.startswith("0.18033688")
    assert "math.maximum" not in added  # of what is quite another program nothing is marked
    kept = re.sub(r"<(ins|del)[^>]*>.*?</\1>|<[^>]+>", "", page, flags=re.DOTALL)
    assert "0.18033688" in kept


def test_it_is_one_more_pass_whose_firings_lead_to_the_program():
    derivation = derived()
    subject = subject_of_derivation(derivation)
    written, search = subject.snapshots
    assert (search.name, len(search.firings)) == ("search", len(derivation))
    assert [firing.rule for firing in search.firings] == [firing.rule for firing in derivation]
    assert str(search.steps()[-1]) == str(search.ir)
    assert len(written.ir) == 14
    assert "(online l: acc * [n32] + n11)" in str(search.ir)
    assert set(subject.facts.rules) >= {firing.rule for firing in derivation}


def test_a_firing_that_later_ones_rest_on_changes_no_node():
    _, search = subject_of_derivation(derived()).snapshots
    plain = next(firing for firing in search.firings if firing.rule == "ratio-plain")
    assert (plain.before, plain.after) == ((), ())
    assert plain.because == "ratio[l](v[l, j]) → 1.0"


def test_the_workbench_and_a_page_show_it(tmp_path):
    derivation = derived()
    workbench: Any = derivation.workbench()
    assert "search" in workbench.words()
    workbench.go("search", firing=3)
    assert derivation.explore().stage.name == "search"
    need("script")
    workbench.export(tmp_path / "derivation.html")
    assert "ll-data" in (tmp_path / "derivation.html").read_text("utf-8")


def test_what_was_written_has_a_derivation_without_steps():
    cx = ll.Graph()
    cx.tensor((6, 17), name="x").sum(-1).retrieve()
    derivation = derived(cx)
    assert "<details" not in derivation.display().html
    assert [each.name for each in derivation.workbench().subjects[0].snapshots] == ["written"]


def test_kernels_are_shown_one_after_the_other_each_with_its_rules_and_steps():
    joined = of_a_region().derivation
    page = joined.display().html
    resting = [step for step in joined if str(step.before) == str(step.after)]
    assert page.count("<details") == len(joined)
    assert page.count("(a later step rests on it)") == len(resting)
    assert [page.index(f"<b>{part.kernel.name}</b>") for part in joined.parts]
    for number, step in enumerate(joined):
        assert f"<b>{number} · {step.rule.partition(' ')[0]}</b>" in page
    workbench: Any = joined.workbench()
    assert [each.title for each in workbench.subjects] == [p.kernel.name for p in joined.parts]
    last = [each.snapshots[-1] for each in workbench.subjects]
    assert [len(shot.firings) for shot in last] == [len(part) for part in joined.parts]
    assert len(joined.explore().subjects) == len(joined.parts)


def test_a_graph_without_kernels_has_nothing_to_show():
    cx = ll.Graph()
    (cx.tensor((6, 17), name="x") + 1).retrieve()
    assert str(cx.derivation) == "there is no kernel"
    with pytest.raises(GraphError, match="derivation: there is no kernel that could be shown"):
        cx.derivation.workbench()

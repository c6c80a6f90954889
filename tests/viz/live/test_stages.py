"""Rows, splices and firings tell every graph of a compile, line by line and step by step."""

from itertools import pairwise

import pytest
from hypothesis import given, strategies as st

import luminal_lab as ll
from luminal_lab.core.edit import Edit
from luminal_lab.core.ir import IR
from luminal_lab.core.ops import Sqrt
from luminal_lab.core.printer import print_ir
from luminal_lab.io.facts import Subject
from luminal_lab.passes.snapshot import Record, Snapshot
from luminal_lab.viz.live.bundle import bundle_of
from luminal_lab.viz.live.steps import splices, step_of
from tests.viz.graphs import gpt2, softmax, some_graph, trained_mlp
from tests.viz.live.bundles import Run, bare, compiled, run_of

GENERIC = "simplify, cse, dce, views, dce"
CASES = {
    "softmax": lambda: compiled(softmax(), ll.CPUCompiler()),
    "gpt2": lambda: compiled(gpt2(1), ll.GenericCompiler(), ll.CPUCompiler()),
    "mlp": lambda: compiled(trained_mlp(), ll.GenericCompiler(), ll.CPUCompiler()),
    "twelve": lambda: compiled(softmax(), "to-twelve, dce"),
    "half": lambda: compiled(trained_mlp(), ll.HalfPrecision(), ll.CPUCompiler()),
    "random": lambda: compiled(some_graph(1), GENERIC),
}


@pytest.fixture(scope="module", params=CASES)
def case(request: pytest.FixtureRequest) -> tuple[Subject, Run]:
    subject = CASES[request.param]()
    return subject, run_of(subject)


def lines_of(ir: IR) -> list[str]:
    """Return the lines of a graph's own nodes, as they are printed."""
    text = print_ir(ir).split("\n}")[0]
    _, _, body = text.partition(") {\n")
    return [line.strip() for line in body.splitlines()]


def check_lines(subject: Subject, run: Run) -> None:
    texts, ids, kinds = run.texts("node.text"), run.ints("node.id"), run.header["kinds"]
    kind = [kinds[one] for one in run.ints("node.kind")]
    for snapshot, rows, stage in zip(subject.snapshots, run.stage_rows(), run.stages, strict=True):
        ir = snapshot.ir
        assert [ids[row] for row in rows] == [node.id for node in ir.nodes]
        given = {row for row in rows if kind[row] in ("input", "parameter")}
        assert [texts[row] for row in rows if row not in given] == lines_of(ir)
        header = print_ir(ir).partition(") -> (")[0]
        assert all(texts[row] in header for row in given)
        assert [run.sources(row) for row in rows] == [list(node.sources) for node in ir.nodes]
        assert (stage["outputs"], stage["inputs"]) == (list(ir.output_ids), list(ir.input_ids))


def check_firings(subject: Subject, run: Run) -> None:
    ids = run.ints("node.id")
    rows = list(run.stage_rows())
    for stage, snapshot in enumerate(subject.snapshots[1:], 1):
        alive = set(rows[stage - 1])
        steps = iter(snapshot.steps())
        assert len(list(run.firings(stage))) == len(snapshot.firings)
        for (rule, gone, new), firing, ir in zip(
            run.firings(stage), snapshot.firings, list(steps)[1:], strict=True
        ):
            assert rule == firing.rule
            assert alive.issuperset(gone)
            alive = alive.difference(gone) | set(new)
            assert len(alive) == len(ir)
            assert {ids[row]: tuple(run.sources(row)) for row in alive} == {
                node.id: node.sources for node in ir
            }
        assert alive == set(rows[stage])


def test_splices_make_the_lines_of_every_graph(case: tuple[Subject, Run]):
    check_lines(*case)


def test_firings_make_every_step(case: tuple[Subject, Run]):
    check_firings(*case)


@given(st.integers(0, 10_000), st.permutations(["simplify", "cse", "views", "dce", "depth-first"]))
def test_whatever_passes_do_to_whatever_graph_is_told(seed, passes):
    subject = compiled(some_graph(seed, 15), ", ".join(passes))
    run = run_of(subject)
    check_lines(subject, run)
    check_firings(subject, run)


@given(st.permutations(range(12)), st.sets(st.integers(0, 15)), st.sets(st.integers(0, 15)))
def test_splices_make_one_list_of_another(order, without, more):
    old = [one for one in range(12) if one not in without]
    new = [one for one in order if one not in more]
    new += [one for one in more if one >= 12]
    found, done = [], 0
    parts = splices(old, new)
    for place, out, put in parts:
        found += [*old[done:place], *put]
        done = place + out
    assert [*found, *old[done:]] == new
    assert all(a.position + a.out < b.position for a, b in pairwise(parts))


def test_what_stays_in_order_is_not_touched():
    assert splices([1, 2, 3, 4, 5], [2, 3, 1, 4, 5]) == [(0, 1, []), (3, 0, [1])]


def test_a_node_that_comes_and_goes_within_one_firing_is_not_told():
    cx = softmax()
    cx.compile("simplify, views, dce")
    made = cx.compilation
    assert made is not None
    for snapshot in made.snapshots[1:]:
        for firing, (before, after) in zip(
            snapshot.firings, pairwise(snapshot.steps()), strict=True
        ):
            gone, new = step_of(firing.changes)
            assert set(gone) == set(before.nodes) - set(after.nodes)
            assert set(new) == set(after.nodes) - set(before.nodes)


def test_a_line_that_names_a_renamed_node_goes_with_the_last_firing():
    before = ll.parse("graph g(%x: f32[2]) -> (%z) { %y = sin %x : f32[2]  %z = exp2 %y : f32[2] }")
    edit = Edit(before)
    with edit.firing("sin-to-sqrt"):
        new = edit.insert(Sqrt(), "x", like="y")
        edit.replace("y", new, renames=True)
    snapshot = Snapshot(before, edit.ir(), Record("rename", edit.log), 1)
    first = Snapshot(before, before, Record("written", ()))
    subject = Subject("g", (first, snapshot))
    run = run_of(subject)
    check_lines(subject, run)
    check_firings(subject, run)


def test_stages_say_what_passes_did(case: tuple[Subject, Run]):
    subject, run = case
    for snapshot, stage in zip(subject.snapshots[1:], run.stages[1:], strict=True):
        assert stage["title"] == snapshot.title
        assert stage["counts"] == dict(snapshot.counts)
        assert stage["firings"] == len(snapshot.firings)
        assert stage["effect"] == bool(snapshot.firings)
        assert (stage["before"], stage["after"]) == (len(snapshot.before), len(snapshot.ir))
    views = [stage["view"] for stage in run.stages]
    assert views[0] == 0
    for (_, before), (stage, after) in pairwise(zip(run.stages, views, strict=True)):
        assert after in (before, before + 1)
        assert after == before or stage["effect"]


def test_links_lead_from_what_was_to_what_is(case: tuple[Subject, Run]):
    subject, run = case
    for stage, snapshot in enumerate(subject.snapshots[1:], 1):
        old, new = run.ints(f"s{stage}/link.old"), run.ints(f"s{stage}/link.new")
        found = set(zip(old, new, strict=True))
        for node in snapshot.before:
            for after in snapshot.forward(node):
                assert after.id == node.id or (node.id, after.id) in found
        for node in snapshot.ir:
            for before in snapshot.back(node):
                assert before.id == node.id or (before.id, node.id) in found


def test_equal_compiles_make_equal_bytes():
    one, other = (compiled(gpt2(1), ll.CPUCompiler()) for _ in range(2))
    for a, b in zip(one.snapshots, other.snapshots, strict=True):
        b.seconds = a.seconds
    assert bundle_of([one]) == bundle_of([other])
    assert bundle_of([bare(softmax().ir)]) == bundle_of([bare(softmax().ir)])

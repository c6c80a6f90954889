"""What is packed comes back: models of the suite, and graphs and passes that are drawn."""

import pytest
from hypothesis import given, settings, strategies as st

from luminal_lab.core.edit import Edit
from luminal_lab.core.ops import Sin
from luminal_lab.core.parse import parse
from luminal_lab.devices.cpu.compiler import CPUCompiler
from luminal_lab.errors import RecordingError
from luminal_lab.passes.compile import compile_ir
from luminal_lab.passes.generic import GenericCompiler
from luminal_lab.passes.pipeline import Pipeline
from luminal_lab.passes.snapshot import Record, Snapshot
from luminal_lab.testing.graphs import models
from tests.core.graphs import graphs
from tests.io.recorded import again, check_same, compiled, subject, written
from tests.passes import running

assert running  # the text of a pipeline knows the passes that are imported
MODELS = list(models())
PASSES = [
    "simplify",
    "cse",
    "dce",
    "views",
    "inline",
    "fold",
    "depth-first",
    "to-twelve",
    "generic",
]


@pytest.mark.parametrize("case", MODELS, ids=lambda case: case.name)
def test_a_compile_for_a_device_comes_back(case):
    before = compiled(case.ir, GenericCompiler(), Pipeline(CPUCompiler().passes))
    assert sum(len(one.firings) for one in before.snapshots) > 5
    (after,) = again(before).subjects
    check_same(before.snapshots, after.snapshots)


@given(graphs())
def test_any_graph_comes_back(ir):
    (after,) = again(written(ir)).subjects
    check_same(written(ir).snapshots, after.snapshots)


@settings(max_examples=25)
@given(graphs(max_nodes=8), st.lists(st.sampled_from(PASSES), max_size=4))
def test_any_compile_comes_back(ir, passes):
    before = compiled(ir, ", ".join(passes))
    (after,) = again(before).subjects
    check_same(before.snapshots, after.snapshots)


@settings(max_examples=15)
@given(graphs(max_nodes=4), graphs(max_nodes=4))
def test_several_in_one_file_are_apart(one, other):
    found = again(written(one), compiled(other, "simplify, cse, dce"), written(other)).subjects
    check_same(written(one).snapshots, found[0].snapshots)
    assert len(found[1].snapshots) == 4
    check_same(written(other).snapshots, found[2].snapshots)


def test_snapshots_that_do_not_follow_one_another_come_back():
    a = parse("graph a(%x: f32[2]) -> (%y) {\n  %y = sin %x : f32[2]\n}")
    b = parse("graph b(%x: f32[3]) -> (%y) {\n  %y = exp2 %x : f32[3]\n}")
    shots = [Snapshot(a, a, Record("one", ()), 0), Snapshot(b, a, Record("two", ()), 1)]
    (after,) = again(subject(shots)).subjects
    check_same(shots, after.snapshots)


def test_a_graph_that_its_log_does_not_lead_to_is_kept_as_it_is():
    ir = parse("graph a(%x: f32[2]) -> (%y) {\n  %y = exp2 %x : f32[2]\n}")
    edit = Edit(ir)
    edit.replace("y", edit.insert(Sin(), "x", rule="r"), rule="r")
    shot = Snapshot(ir, ir, Record("half", edit.log[:1], verified=True))
    (after,) = again(subject([shot])).subjects
    assert str(after.snapshots[0].ir) == str(ir)
    assert [c.kind for c in after.snapshots[0].log] == ["insert"]


def test_equal_records_are_written_once_and_shared():
    ir = parse("graph g(%x: f32[2]) -> (%y) {\n  %y = sin %x : f32[2]\n}")
    found = compile_ir(ir, "dce, cse, dce")
    (after,) = again(subject(found.snapshots)).subjects
    assert len({id(one.ir) for one in after.snapshots}) == 1


def test_bounds_of_dims_and_bodies_come_back():
    text = """
graph g[n: 1..64 by 8](%x: f32[n, n + 1]) -> (%y => %x) {
  %c = constant{value = n} : f32[n, n + 1]
  %y = call{body = b} %x : f32[n, n + 1]
}
graph b[n: 1..64 by 8](%x: f32[n, n + 1]) -> (%y) {
  %y = call{body = c} %x : f32[n, n + 1]
}
graph c[n: 1..64 by 8](%x: f32[n, n + 1]) -> (%y) {
  %y = sin %x : f32[n, n + 1]
}
"""
    before = written(parse(text))
    (after,) = again(before).subjects
    check_same(before.snapshots, after.snapshots)
    (seq,) = after.snapshots[0].ir.symbols.values()
    assert (seq.low, seq.high, seq.multiple_of) == (1, 64, 8)


def test_a_graph_that_breaks_a_law_is_refused_when_it_is_written():
    ir = parse("graph g(%x: f32[2]) -> (%y) {\n  %y = sin %x : f32[2]\n}")
    table = ir.table.copy()
    table.set(1, ir["y"]._replace(sources=(7,)))
    broken = type(ir)(table, [0], [1], name="g")
    with pytest.raises(RecordingError) as caught:
        again(written(broken))
    assert str(caught.value).startswith("recording: the graph after written cannot be kept: ")

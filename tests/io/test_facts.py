"""What is known of a compile: kernels and their lines, launches, memory, rules, times, cells."""

import json
import os
import re
import sys
from dataclasses import replace

import pytest

import luminal_lab as ll
from luminal_lab.core.origin import Origin
from luminal_lab.devices.cpu.compiler import CPUCompiler
from luminal_lab.io.cells import cells_of, python_of, short_files
from luminal_lab.io.facts import Facts, RunFacts
from luminal_lab.io.gather import facts_of, subject_of, timed
from luminal_lab.io.rule_facts import sketch
from luminal_lab.machines.rates import PeakRates
from luminal_lab.passes.generic import GenericCompiler
from luminal_lab.passes.pipeline import Pipeline
from tests.expect import error_of
from tests.needs import need


@pytest.fixture(scope="module")
def cx() -> ll.Graph:
    """A small graph, compiled for the CPU."""
    cx = ll.Graph("scores")
    x, w = cx.tensor((8, 16), name="x"), cx.tensor((16, 4), name="w")
    x.set([[0.5] * 16] * 8)
    w.set([[0.25] * 4] * 16)
    ((x @ w) * 1 + 0).softmax(-1).named("p").retrieve()
    need("cc")
    cx.compile(ll.GenericCompiler(), ll.CPUCompiler(threads=1))
    return cx


@pytest.fixture(scope="module")
def facts(cx: ll.Graph) -> Facts:
    """What is known of it, with two devices beside."""
    t4 = ll.devices.specification("t4")
    dialects = "cuda", "metal", "webgpu"
    return facts_of(cx.compilation, compared=ll.compare(cx, [t4]), dialects=dialects)


def test_facts_go_to_json_and_back(facts):
    assert Facts.from_json(json.loads(json.dumps(facts.to_json()))) == facts


def test_lines_of_the_user_are_numbers_where_somebody_counts_them(facts):
    first = facts.launches[0].origins[0]
    known = {Origin("cell 1", 1, "x"): 0}
    launches = facts.to_json(known)["launches"]
    assert [one["origins"] for one in launches] == [[1]] * len(launches)
    assert known[Origin(first.file, first.line, first.code)] == 1


def test_a_line_of_a_source_knows_the_nodes_that_it_computes(cx, facts):
    records = {n.id: n for s in cx.snapshots for c in s.log for n in c.after}
    records |= {n.id: n for n in cx.snapshots[0].ir}
    found = {}
    for kernel in facts.kernels:
        for source in kernel.sources:
            lines = source.text.splitlines()
            for number, ids in source.lines:
                ops = {records[id].op.name for id in ids}
                found.setdefault(source.dialect, set()).update(ops)
                if ops == {"recip"}:
                    assert "recip" in lines[number - 1]
    # Every op is on some line, in C, CUDA and Metal alike.
    assert found["c"] == found["cuda"] == found["metal"]
    assert {"mul", "sum_reduce", "exp2", "max_reduce", "recip"} <= found["c"]


def test_a_kernel_has_its_steps_and_why_it_was_fused(facts):
    product, softmax = facts.kernels
    assert [one.dialect for one in product.sources] == ["c", "cuda", "metal", "webgpu"]
    assert product.flops == 2 * 8 * 16 * 4
    assert product.reason.startswith("contraction: ")
    assert softmax.reason.startswith("rows: 2 reductions over the same 8 rows")
    assert softmax.steps[-1].nest == softmax.nest
    assert softmax.first.startswith("nest softmax(")
    assert [one.text for one in softmax.steps] == softmax.schedule.splitlines()


def test_launches_say_what_they_read_make_and_cover(cx, facts):
    product, softmax = facts.launches
    ir, written = cx.compilation.ir, cx.compilation.written
    assert [ir[id].name for id in product.reads] == ["x", "w"]
    assert softmax.reads == product.makes
    assert [ir[id].name for id in softmax.makes] == ["p"]
    covered = {written[id].op.name for id in softmax.covers}
    assert {"exp2", "max_reduce", "recip"} <= covered
    assert not {*product.covers} & {*softmax.covers}
    assert facts.buffers[product.buffers[-1]].nodes == product.makes


def test_buffers_live_from_launch_to_launch(facts):
    kinds = {one.name: (one.kind, one.first, one.last) for one in facts.buffers}
    (between,) = (one for one in facts.buffers if one.kind == "arena")
    assert kinds["%x"][0] == "input"
    assert kinds["%p"] == ("output", 1, 1)
    assert (between.first, between.last, between.offset, between.bytes) == (0, 1, 0, 128)
    assert facts.memory is not None
    assert facts.memory.after == 128


def test_times_belong_to_launches(cx, facts):
    (modelled,) = facts.times
    assert (modelled.how, [row.launch for row in modelled.rows]) == ("modelled", [0, 1])
    assert all(row.share is None and row.median > 0 for row in modelled.rows)
    more = timed(facts, cx.compilation, cx.time(rounds=3, warm_up=0))
    measured = more.times[1]
    assert (measured.how, [row.launch for row in measured.rows]) == ("measured", [0, 1])
    assert all(row.low <= row.median <= row.high for row in measured.rows)
    assert {row.bound for row in measured.rows} <= {"memory", "compute"}
    assert len(more.roofline) == 2
    assert all(len(row.samples) == 3 for row in measured.rows)
    assert all(row.samples == () for row in modelled.rows)
    assert (modelled.dialect, measured.dialect) == ("cuda", "c")
    assert modelled.run is None
    assert measured.run is not None
    assert [launch for launch, _, _ in measured.run.kernels] == [0, 1]
    assert all(0 <= at < at + took <= measured.run.seconds for _, at, took in measured.run.kernels)
    assert measured.run.calls
    assert measured.recorded().how == "recorded"
    assert modelled.recorded().how == "modelled"


def test_modelled_times_of_a_graph_without_launches_have_no_rows():
    cx = ll.Graph()
    (cx.tensor((2,), name="x") * 2).retrieve()
    model = cx.time(model=PeakRates.stated("a laptop", gflops=100, gbytes=20))
    (found,) = facts_of(cx.compilation, timings=model).times
    assert (found.how, found.rows) == ("modelled", ())


def test_rules_have_their_python_and_both_sides(facts):
    rule = facts.rules["add-zero"]
    assert rule.text == "x + 0 → x, if the sign of a zero does not matter"
    assert rule.source == 'Rule("add-zero", x + 0, x, assumes={"no_signed_zero"})'
    assert (rule.file, rule.needs) == ("simplify.py", ("no_signed_zero",))
    assert [(n.label, n.reads) for n in rule.left.nodes] == [("x", ()), ("0", ()), ("+", (0, 1))]
    assert [n.label for n in rule.right.nodes] == ["x"]
    calculated = facts.rules["cast-there-and-back"]
    assert calculated.source.startswith("@rule(")
    assert calculated.right is None
    step = facts.rules["rows"]
    assert step.text.startswith("a step of fuse-rows: Make kernels of reductions")
    assert "class FuseRows(Fuse):" in step.source


def test_steps_of_two_passes_that_have_one_name_are_two():
    cx = ll.Graph()
    cx.tensor((4,), name="x").exp().retrieve()
    found = facts_of(cx.compile("recognise, inline, intrinsics")).rules
    assert found["exp"].text.startswith("a step of recognise: ")
    assert found["intrinsics/exp"].text.startswith("a step of intrinsics: ")
    assert found["intrinsics/exp"].file == "intrinsics.py"


def test_a_rule_of_the_users_is_there_too():
    x = ll.variables("x")
    cx = ll.Graph()
    (cx.tensor((2,), name="x") * 4).retrieve()

    @ll.rule("halve-it", x * 4)
    def halve(x):
        """Halve what is multiplied by four."""
        return x * 2

    twice = ll.Rule("twice-it", x * 2, x + x)
    found = facts_of(cx.compile(halve, twice)).rules
    assert "return x * 2" in found["halve-it"].source
    assert found["halve-it"].file == "test_facts.py"
    assert found["twice-it"].source == 'twice = ll.Rule("twice-it", x * 2, x + x)'


def test_a_side_of_a_rule_is_a_graph_and_no_tree():
    x, y = ll.variables("x y")
    found = sketch((x + y) * (x + y) % x)
    assert [n.label for n in found.nodes].count("x") == 1
    assert found.root == len(found.nodes) - 1
    assert all(read < at for at, n in enumerate(found.nodes) for read in n.reads)


def with_run(facts, run):
    """Return facts whose first times have a run."""
    return replace(facts, times=(replace(facts.times[0], run=run), *facts.times[1:]))


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda f: replace(f, kernels=()), "facts.launches[0].kernel has 0, and there are 0"),
        (lambda f: replace(f, buffers=()), "facts.launches[0].buffers has 0, and there are 0"),
        (
            lambda f: replace(f, launches=f.launches[:1]),
            "facts.times[0].rows has 1, and there are 1",
        ),
        (
            lambda f: with_run(f, RunFacts(1.0, (), ((9, 0.0, 1.0),))),
            "facts.times[0].run.kernels has 9, and there are 2",
        ),
        (
            lambda f: with_run(f, RunFacts(1.0, (), ((0, -1.0, 1.0),))),
            "facts.times[0].run has something that took 1.0 s from -1.0 s on",
        ),
        (
            lambda f: with_run(f, RunFacts(1e300, ((0.0, 1.0),), ())),
            "facts.times[0].run has something that took 1e+300 s from 0.0 s on",
        ),
    ],
)
def test_what_is_referred_to_must_be_there(facts, change, told):
    with pytest.raises(ValueError, match=f"^{re.escape(told)}$"):
        Facts.from_json(change(facts).to_json())


# -- cells, environment, Python --------------------------------------------------------------------


def test_the_file_that_wrote_the_graph_is_there(facts):
    (cell,) = facts.cells
    assert cell.title == "test_facts.py"
    line = facts.launches[0].origins[0].line
    assert "softmax(-1)" in cell.text.splitlines()[line - 1]


def test_of_a_file_that_has_changed_the_known_lines_are_kept(cx):
    ir = cx.compilation.written
    table = ir.table.copy()
    for node in ir.table:
        table.set(node.id, node._replace(meta=node.meta._replace(origin=None)))
    known = Origin("gone.py", 3, "y = x * 2")
    table.set(0, ir[0]._replace(meta=ir[0].meta._replace(origin=known)))
    (cell,) = cells_of(type(ir)(table, **ir.signature._asdict()))
    assert (cell.title, cell.text) == ("gone.py", "\n\ny = x * 2")


def read_from(file: str, line: int, text: str) -> ll.IR:
    """Return a graph whose text claims that a line of some file made its node."""
    origin = f"{json.dumps(file)}:{line} {json.dumps(text)}"
    return ll.parse(f"graph g(%x: f32[4]) -> (%y) {{\n  %y = mul %x, %x : f32[4] @ {origin}\n}}")


def test_no_file_is_read_because_a_graph_from_elsewhere_names_it(tmp_path):
    private = tmp_path / "private.py"
    private.write_text("-----BEGIN KEY-----\nsecret\n", "utf-8")
    compilation = ll.compile_ir(read_from(str(private), 1, "-----BEGIN KEY-----"), "generic")
    facts = facts_of(compilation)
    assert [cell.text for cell in facts.cells] == ["-----BEGIN KEY-----"]
    assert "secret" not in repr(facts)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="the system has no such files")
def test_a_graph_from_elsewhere_cannot_have_us_wait_for_a_file(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    compilation = ll.compile_ir(read_from(str(tmp_path / "pipe"), 1, "x"), "generic")
    assert [cell.text for cell in facts_of(compilation).cells] == ["x"]


def test_files_are_called_by_as_little_of_their_path_as_tells_them_apart():
    files = ["cell 3", "/me/a/block.py", "C:\\me\\b\\block.py", "", "/me/a/other.py"]
    assert [*short_files(files).values()] == ["cell 3", "a/block.py", "b/block.py", "", "other.py"]


def test_the_environment_names_no_one(facts):
    assert {"luminal_lab", "Python", "NumPy", "system", "processor"} <= facts.environment.keys()
    assert not any("/" in value for value in facts.environment.values())


def test_the_python_does_the_compile_again(cx):
    schedules = {"matmul": "parallel i"}
    passes = [
        ll.GenericCompiler(licence=["no_nan"]),
        ll.HalfPrecision(),
        ll.CPUCompiler(threads=2, schedules=schedules),
    ]
    text = python_of(Pipeline(passes), {"no_nan"})
    assert text == (
        "cx.compile(\n"
        "    ll.GenericCompiler(licence=('no_nan',)),\n"
        "    ll.HalfPrecision(),\n"
        "    ll.CPUCompiler(threads=2, schedules={'matmul': 'parallel i'}),\n"
        "    licence=['no_nan'],\n"
        ")"
    )
    assert python_of(Pipeline(["simplify, dce"])) == "cx.compile('simplify, dce')"


def test_the_python_names_a_users_rules_by_their_variables(monkeypatch):
    x = ll.variables("x")
    times_one = ll.Rule("times-one", x * 1, x)
    assert python_of(Pipeline([times_one, "dce"])) == "cx.compile(times_one, 'dce')"
    monkeypatch.setattr(sys.modules["__main__"], "mine", times_one, raising=False)
    assert python_of(Pipeline([times_one, "dce"])) == "cx.compile(mine, 'dce')"
    error = error_of(lambda: Pipeline(["times-one"]), ll.ParseError)
    assert error.hint == "it is a rule, which is given as it is: cx.compile(mine)"


def test_a_compile_without_a_device_has_rules_and_nothing_to_launch():
    cx = ll.Graph()
    (cx.tensor((2,), name="x") + 0).retrieve()
    subject = subject_of(cx.compile(GenericCompiler(), Pipeline(CPUCompiler().passes)))
    assert (subject.facts.kernels, subject.facts.launches, subject.facts.buffers) == ((), (), ())
    assert subject.facts.memory is None
    assert subject.title == "main"


@pytest.mark.needs("cc", "jax", "wgpu", "vulkan")
def test_each_device_says_what_it_is_and_which_source_it_runs(cx):
    compared = ll.compare(cx, [ll.CPU(), ll.WebGPU(), ll.XLA("cpu")], rounds=1)
    cpu, webgpu, xla = facts_of(cx.compilation, compared=compared).times
    assert [one.dialect for one in (cpu, webgpu, xla)] == ["c", "webgpu", "stablehlo"]
    adapter = compared.columns[1].device
    assert (adapter in webgpu.doubts) == adapter.endswith(", a software adapter")
    count = len(cx.launches)
    assert len(webgpu.rows) == len(cpu.rows) == count > 1
    assert len(xla.rows) == 1
    whole = f"a launch there does the work of {count} here: its time stands with one of them"
    assert whole in xla.doubts
    assert whole not in [*cpu.doubts, *webgpu.doubts]
    assert all(" ms for a whole run" in one.note for one in (cpu, webgpu, xla))


@pytest.mark.needs("cc", "jax", "wgpu", "vulkan")
def test_a_recording_has_the_columns_of_every_device(cx, tmp_path):
    compared = ll.compare(cx, [ll.CPU(), ll.WebGPU(), ll.XLA("cpu")], rounds=1)
    cx.save(tmp_path / "run.lab", compared, dialects=["webgpu"])
    opened = ll.open(tmp_path / "run.lab")
    assert [(one.device, one.how, one.dialect) for one in opened.facts.times] == [
        ("this CPU", "recorded", "c"),
        ("WebGPU", "recorded", "webgpu"),
        ("XLA, cpu", "recorded", "stablehlo"),
    ]
    for kept, column in zip(opened.facts.times, compared.columns, strict=True):
        assert kept.rows
        assert column.device in kept.note
        assert " ms for a whole run" in kept.note
    sources = [source.dialect for source in opened.facts.kernels[0].sources]
    assert sources == ["c", "webgpu"]

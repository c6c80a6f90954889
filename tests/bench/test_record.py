"""Recording: what is run, how it is checked, what is left out and said."""

from typing import Any

import numpy as np
import pytest

import luminal_lab as ll
from luminal_lab import cli
from luminal_lab.bench import record as recording
from luminal_lab.bench.record import names, record
from luminal_lab.errors import ArgumentError, DeviceError
from luminal_lab.testing.conformance import selected
from luminal_lab.timing.recording import Recording
from tests.devices.made_up import RATES
from tests.expect import error_of
from tests.needs import need


@pytest.fixture(autouse=True)
def _machine(tmp_path, monkeypatch):
    need("cc")
    monkeypatch.setattr("luminal_lab.timing.measure.peak_rates", lambda: RATES)
    monkeypatch.setattr(recording, "peak_rates", lambda threads=None: RATES)


def test_what_is_recorded_answers_for_the_same_graph(tmp_path):
    found = record("cpu", ["softmax", "op table: indexing"], is_quick=True, threads=1, rounds=2)
    assert found.failed == []
    kept = found.recording
    assert [one.name for one in kept.programs] == ["op table: indexing", "softmax"]
    assert {one.check for one in kept.programs} == {"equal to the interpreter"}
    assert kept.target["vector_bytes"] in (16, 32, 64)
    assert kept.rates is RATES
    kept.save(tmp_path / "mine.json")
    assert Recording.load(tmp_path / "mine.json").programs == kept.programs
    cx = ll.Graph()
    cx.tensor((64, 256), name="x").softmax(-1).retrieve()
    (segment,) = ll.compare(cx, [ll.Recorded(tmp_path / "mine.json")])
    (place,) = kept.programs[1].launches
    assert segment.seconds(0) == pytest.approx(kept.kernels[place].seconds, rel=1e-3)
    assert segment.parts[0][0].how == "recorded"


def test_products_large_enough_for_tensor_units_are_recorded_in_every_dtype():
    found = record("cpu", ["op table: product"], threads=1, rounds=1)
    assert found.failed == []
    (program,) = found.recording.programs
    kernels = [found.recording.kernels[place] for place in program.launches]
    assert len(kernels) == len(selected("product"))
    assert {d for case in selected("product") for n in case.ir.inputs for d in [n.dtype.value]} == {
        *("float16", "bfloat16", "float32")
    }


def test_full_sizes_are_checked_at_small_ones():
    (task,) = recording.chosen_tasks(["gelu"], is_quick=False, threads=1)
    assert task.small is not None
    assert [n.shape for n in task.small().ir.inputs] == [(64, 256)]
    (quick,) = recording.chosen_tasks(["gelu"], is_quick=True, threads=1)
    assert quick.small is None


@pytest.mark.parametrize("apart", [1, np.inf])
def test_what_differs_from_the_interpreter_is_not_recorded(monkeypatch, apart):
    right: Any = recording.interpret
    monkeypatch.setattr(
        recording,
        "interpret",
        lambda *given, **more: {id: value + apart for id, value in right(*given, **more).items()},
    )
    found = record("cpu", ["gelu"], is_quick=True, threads=1, rounds=1)
    (failed,) = found.failed
    assert failed.startswith("gelu: %")
    assert failed.endswith("differs from the interpreter's in 16384 of 16384 places")
    assert (found.recording.programs, found.recording.kernels) == ((), ())


def test_a_decode_step_with_its_cache_is_a_program_too():  # a second: it has a model's kernels
    found = record("cpu", ["decode-cache"], is_quick=True, threads=1, rounds=1)
    assert found.failed == []
    (program,) = found.recording.programs
    assert len(program.launches) > len(set(program.launches)) > 10  # layers share kernels


def test_the_names_are_those_of_what_there_is():
    cases = {case.name for case in selected("model")}
    assert {name for name in names() if name.startswith("model ")} == cases
    assert names()[-1] == "small-mlp"
    assert "decode-cache" in names()
    assert "compile-cold" not in names()


@pytest.mark.needs("jax")
def test_xlas_programs_are_recorded_and_replayed():
    made = record("xla", ["softmax"], is_quick=True).recording
    assert (made.dialect, [kernel.name for kernel in made.kernels]) == ("stablehlo", ["xla"])
    again = ll.Graph("again")
    again.tensor((64, 256), name="c").softmax(-1).named("d").retrieve()
    (column,) = ll.compare(again, [ll.Recorded(made)]).columns
    assert column.how == "recorded"
    assert column.seconds is not None


@pytest.mark.needs("wgpu", "vulkan")
def test_the_kernels_of_webgpu_are_recorded_and_replayed():
    made = record("webgpu", ["softmax"], is_quick=True).recording
    assert made.dialect == "webgpu"
    assert made.clock == "perf_counter, from submitting to the end"
    (program,) = made.programs
    assert program.whole
    again = ll.Graph("again")
    again.tensor((64, 256), name="c").softmax(-1).named("d").retrieve()
    (column,) = ll.compare(again, [ll.Recorded(made)]).columns
    assert column.how == "recorded"
    assert column.seconds is not None


@pytest.mark.parametrize("device", ["cuda", "metal"])
def test_a_device_that_is_not_here(device):
    error = error_of(lambda: record(device, ["gelu"], is_quick=True), DeviceError)
    assert error.message.startswith(f"record: {device}: ")
    assert error.hint == (
        "what still works: luminal-lab record --device cpu, and ll.compare, which models devices "
        "that are not here"
    )


def test_a_name_that_is_none():
    error = error_of(lambda: record("cpu", ["softmx"]), ArgumentError)
    assert str(error) == (
        "record: there is nothing called 'softmx' to record\nhint: did you mean 'softmax'?"
    )


def test_the_command_saves_a_file(capsys, tmp_path):
    path = tmp_path / "mine.json"
    asked = "record", "--device", "cpu", "--quick", "--threads", "1", "--only", "sum-rows"
    assert cli.main([*asked, "-o", str(path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("sum-rows: 1 launch, ")
    assert lines[1:] == [f"saved 1 kernel to {path}", f'll.Recorded("{path}") answers from it']
    assert len(Recording.load(path).kernels) == 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--device", "cpu", "--threads", "-1"], "record: --threads is -1\nhint: give 1 or more\n"),
        (
            ["--device", "cpu", "-o", "no/such/mine.json"],
            "record: no/such/mine.json cannot be written: there is no folder no/such\n"
            "hint: make it first, or give another file\n",
        ),
    ],
)
def test_what_cannot_be_done_is_said_before_anything_runs(capsys, arguments, said):
    assert cli.main(["record", *arguments]) == 2
    done = capsys.readouterr()
    assert (done.out, done.err) == ("", said)

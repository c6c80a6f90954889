"""Where no C compiler is, kernels are there to be read, and NumPy computes."""

import pytest

import luminal_lab as ll
from luminal_lab.devices.cpu.program import CPUProgram, CPUSource
from luminal_lab.errors import DeviceError, LabWarning, ScheduleError
from tests.expect import error_of

BOTH = ll.GenericCompiler(), ll.CPUCompiler(threads=1)


@pytest.fixture
def no_compiler(monkeypatch) -> None:
    monkeypatch.setattr("luminal_lab.devices.build.toolchain._command", lambda _: None)


def written() -> tuple[ll.Graph, ll.Tensor]:
    cx = ll.Graph("scores")
    x = cx.tensor(("n", 8), name="x").set([[1.0] * 8] * 3)
    return cx, (x * 2).softmax(-1).named("p").retrieve()


def compiled() -> tuple[ll.Graph, ll.Tensor]:
    cx, p = written()
    with pytest.warns(LabWarning, match="no C compiler was found"):
        cx.compile(*BOTH)
    return cx, p


@pytest.mark.usefixtures("no_compiler")
def test_kernels_are_what_they_are_elsewhere(monkeypatch):
    cx, _ = compiled()
    monkeypatch.undo()
    other, _ = written()
    other.compile(*BOTH)
    assert [one.definition for one in cx.kernels] == [one.definition for one in other.kernels]
    assert [one.source for one in cx.kernels] == [one.source for one in other.kernels]
    assert str(cx.launches) == str(other.launches)
    assert str(cx.memory_plan) == str(other.memory_plan)
    mine, theirs = cx.compilation.program, other.compilation.program
    assert isinstance(mine, CPUSource)
    assert isinstance(theirs, CPUProgram)
    assert mine.source == theirs.source
    assert cx.kernels[0].rescheduled("").nest is not None


@pytest.mark.usefixtures("no_compiler")
def test_numpy_computes():
    cx, p = compiled()
    cx.execute()
    assert p.numpy() == pytest.approx(0.125)
    assert cx.compilation.runner is None
    assert "NumPy computes node by node" in str(cx.time(rounds=1, warm_up=0))
    assert [step.title for step, _ in cx.trace(cx.kernels[0]).rows][
        -1
    ] == "depth-first{updates_last = true}"


@pytest.mark.usefixtures("no_compiler")
def test_a_recording_has_the_sources(tmp_path):
    cx, _ = compiled()
    cx.save(tmp_path / "run.lab")
    [kernel] = ll.open(tmp_path / "run.lab").facts.kernels
    assert kernel.definition == str(cx.kernels[0].definition)


@pytest.mark.usefixtures("no_compiler")
def test_a_wrong_schedule_is_an_error_there_too():
    cx, _ = written()
    wrong = ll.CPUCompiler(schedules={"softmax": "parallel q"})
    with pytest.warns(LabWarning, match="no C compiler"):
        error_of(lambda: cx.compile(ll.GenericCompiler(), wrong), ScheduleError)


def test_it_runs_nothing_itself():
    cx, _ = written()
    program = CPUSource(cx.compile(*BOTH).ir)
    error = error_of(lambda: program.started(None, None), DeviceError)  # pyright: ignore[reportArgumentType]  # nothing is looked at
    assert error.hint == "pip install ziglang"

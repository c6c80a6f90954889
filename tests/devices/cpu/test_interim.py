"""A compile that does not wait: NumPy's interpreter computes what is not compiled yet."""

import gc
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from signal import SIGINT, raise_signal
from threading import Thread

import numpy as np
import pytest

import luminal_lab as ll
from luminal_lab.devices.build import cache
from luminal_lab.devices.build.toolchain import find_compiler
from luminal_lab.devices.cpu import libraries
from luminal_lab.devices.cpu.program import CPUProgram
from luminal_lab.errors import ArgumentError, DeviceError, RangeError
from tests.expect import error_of

pytestmark = [
    pytest.mark.needs("cc"),
    pytest.mark.skipif(sys.platform == "win32", reason="the gate is a script of a shell"),
]
INSTEAD = "# NumPy's interpreter, until it is compiled"


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch) -> Path:
    """A cache of each test's own, and a unit for each kernel."""
    monkeypatch.setattr(cache, "user_folder", lambda: tmp_path / "cache")
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    monkeypatch.setattr(libraries, "WORTH", 100)
    return tmp_path


class Gate:
    """A compiler that compiles nothing before it is opened, or only sources with some text."""

    def __init__(self, folder: Path, lines: str = "") -> None:
        self._open = folder / "open"
        self._log = folder / "log"
        real = find_compiler("cc").command[0]
        waits = f'until [ -e "{self._open}" ] && grep -q "$(cat "{self._open}")" program.c; do '
        waits += "sleep 0.02; done"
        notes = f'grep -o "static void kernel_[a-z_0-9]*" program.c >> "{self._log}"'
        asked = f'case "$1" in --version|-dumpmachine) ;; *) {waits}; {notes}; {lines} : ;; esac'
        self.compiler = folder / "gated-cc"
        self.compiler.write_text(f'#!/bin/sh\n{asked}\nexec "{real}" "$@"\n')
        self.compiler.chmod(0o755)

    def open(self, text: str = "") -> None:
        """Let sources with this text pass."""
        self._open.write_text(text)

    @property
    def compiled(self) -> list[str]:
        """The kernels that came through."""
        return re.findall(r"kernel_(\w+)", self._log.read_text()) if self._log.exists() else []


@pytest.fixture
def gate(folder):
    made = Gate(folder)
    yield made
    made.open()
    until(lambda: not libraries.WORKERS._threads)


def written() -> tuple[ll.Graph, ll.Tensor, ll.Tensor]:
    """Return a graph of two kernels, with data."""
    cx = ll.Graph()
    x = cx.tensor((3, 4), name="x").set(np.arange(12).reshape(3, 4))
    s = x.softmax(-1).named("s").retrieve()
    t = (s.graph_break() * 2 + x).named("t").retrieve()
    return cx, s, t


def expected() -> tuple[np.ndarray, np.ndarray]:
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    s = np.exp(x - x.max(-1, keepdims=True))
    s = s / s.sum(-1, keepdims=True)
    return s, 2 * s + x


def device(gate: Gate) -> ll.CPUCompiler:
    return ll.CPUCompiler(compiler=str(gate.compiler), threads=2)


def program_of(cx: ll.Graph) -> CPUProgram:
    program = cx.compilation.program
    assert isinstance(program, CPUProgram)
    return program


def until(holds: Callable[[], bool]) -> None:
    """Wait until something holds."""
    while not holds():
        time.sleep(0.01)


def check(cx: ll.Graph, s: ll.Tensor, t: ll.Tensor) -> None:
    cx["x"].set(np.arange(12).reshape(3, 4))
    cx.execute()
    for value, wanted in zip((s, t), expected(), strict=True):
        np.testing.assert_allclose(value.numpy(), wanted, rtol=1e-6)


def test_numpy_computes_until_kernels_are_compiled(gate):
    cx, s, t = written()
    cx.compile(ll.GenericCompiler(), device(gate), wait=False)
    assert program_of(cx).awaited == {"softmax", "mul_add"}
    assert [str(launch).endswith(INSTEAD) for launch in cx.launches] == [True, True]
    check(cx, s, t)
    gate.open()
    until(lambda: not program_of(cx).awaited)
    assert INSTEAD not in str(cx.launches)
    assert "library" not in vars(program_of(cx))
    check(cx, s, t)
    assert "library" in vars(program_of(cx))


def test_what_is_compiled_runs_beside_what_is_not(gate):
    cx, s, t = written()
    cx.compile(ll.GenericCompiler(), device(gate), wait=False)
    gate.open("lab_open\\|kernel_softmax")
    until(lambda: program_of(cx).awaited == {"mul_add"})
    until(lambda: program_of(cx)._found.so_far() is not None)
    assert [str(launch).endswith(INSTEAD) for launch in cx.launches] == [False, True]
    check(cx, s, t)
    assert program_of(cx)._interim[1] is not None
    times = cx.time(rounds=2)
    assert "computed by NumPy's interpreter until then: mul_add" in str(times)
    assert all(row.seconds > 0 for row in times)
    assert times.timeline is not None


def test_what_is_cached_is_not_waited_for(gate):
    cx, s, t = written()
    gate.open()
    cx.compile(ll.GenericCompiler(), device(gate))
    assert len(gate.compiled) == 2
    again, s, t = written()
    again.compile(ll.GenericCompiler(), device(gate), wait=False)
    assert not program_of(again).awaited
    check(again, s, t)
    assert len(gate.compiled) == 2


def test_two_programs_wait_for_one_compiler(gate):
    first, second = written(), written()
    for cx, *_ in (first, second):
        cx.compile(ll.GenericCompiler(), device(gate), wait=False)
    third, *_ = written()
    opener = Thread(target=lambda: (time.sleep(0.2), gate.open()))
    opener.start()
    third.compile(ll.GenericCompiler(), device(gate))  # which waits for the others' units
    opener.join()
    assert not program_of(third).awaited
    until(lambda: not program_of(first[0]).awaited)
    check(*first)
    check(*second)
    assert sorted(gate.compiled) == ["mul_add", "softmax"]


def test_a_unit_that_nobody_wants_is_not_begun(gate, monkeypatch):
    monkeypatch.setattr(libraries, "usable_cores", lambda: 1)
    cx, *rest = written()
    cx.compile(ll.GenericCompiler(), device(gate), wait=False)
    y = (cx["x"] * 3).sin().retrieve()
    cx.compile(ll.GenericCompiler(), device(gate), wait=False)
    waiting = program_of(cx).awaited
    assert len(waiting) == 3
    del y, rest, cx
    gc.collect()
    gate.open()
    until(lambda: not libraries.WORKERS._threads)
    assert gate.compiled == []  # the pool was being compiled


def test_an_error_of_the_compiler_is_raised_by_the_next_run(folder):
    gate = Gate(folder, 'if grep -q "kernel_softmax" program.c; then echo no; exit 3; fi;')
    cx, s, t = written()
    cx.compile(ll.GenericCompiler(), device(gate), wait=False)
    check(cx, s, t)
    gate.open()
    until(lambda: all(unit.has_ended for unit in program_of(cx)._found._units))
    for _ in range(2):
        cx["x"].set(np.ones((3, 4)))
        error = error_of(cx.execute, DeviceError)
        assert "made no library, and ended with status 3" in error.message
    assert program_of(cx).awaited == {"softmax"}
    fine, *_ = written()
    error_of(lambda: fine.compile(ll.GenericCompiler(), device(gate)), DeviceError)


def test_a_function_waits_for_the_kernels(gate):
    cx, *_ = written()
    cx.compile(ll.GenericCompiler(), device(gate), wait=False)
    opener = Thread(target=lambda: (time.sleep(0.2), gate.open()))
    opener.start()
    values = cx.as_function()(np.arange(12, dtype=np.float32).reshape(3, 4))
    opener.join()
    for value, wanted in zip(values, expected(), strict=True):
        np.testing.assert_allclose(np.asarray(value, np.float32), wanted, rtol=1e-6)


def test_waiting_can_be_interrupted(gate):
    cx, *_ = written()
    cx.compile(ll.GenericCompiler(), device(gate), wait=False)
    opener = Thread(target=lambda: (time.sleep(0.2), raise_signal(SIGINT)))
    opener.start()
    with pytest.raises(KeyboardInterrupt):
        program_of(cx).library  # noqa: B018  # it waits
    opener.join()
    gate.open()
    assert program_of(cx).library is program_of(cx).library


def test_carried_values_stay_as_they_were_if_a_run_fails(gate):
    cx = ll.Graph()
    state = cx.tensor((4,), name="state").set(np.zeros(4))
    table = cx.tensor((3,), name="table").set(np.arange(3))
    index = cx.tensor((4,), "int64", name="index").set([0, 1, 2, 0])
    new = (state + 1).named("new").retrieve()
    seen = (table[index].graph_break() + new).named("seen").retrieve()
    cx.carry(new, state)
    cx.compile(ll.GenericCompiler(), device(gate), wait=False)
    cx.execute()
    np.testing.assert_array_equal(seen.numpy(), [1, 2, 3, 1])
    cx["index"].set([0, 1, 7, 0])
    error = error_of(cx.execute, RangeError)
    assert "7" in error.message
    cx["index"].set([0, 1, 2, 0])
    cx.execute()
    np.testing.assert_array_equal(new.numpy(), np.full(4, 2))
    gate.open()
    until(lambda: not program_of(cx).awaited)
    cx.execute()
    np.testing.assert_array_equal(new.numpy(), np.full(4, 3))


def test_the_graph_is_compiled_anew_in_the_same_way(gate):
    cx, s, t = written()
    cx.compile(ll.GenericCompiler(), device(gate), wait=False)
    check(cx, s, t)
    u = (t * 3).retrieve()
    with pytest.warns(ll.LabWarning, match="has changed since it was compiled"):
        cx.execute()
    np.testing.assert_allclose(u.numpy(), 3 * expected()[1], rtol=1e-6)
    assert program_of(cx).awaited


def test_values_are_checked_once_the_kernels_are_there(gate):
    cx, s, t = written()
    gate.open()
    cx.compile(ll.GenericCompiler(), device(gate), wait=False, check="values")
    assert not program_of(cx).awaited
    check(cx, s, t)


def test_other_devices_have_nothing_to_wait_for():
    cx, s, t = written()
    cx.compile(ll.GenericCompiler(), wait=False)
    check(cx, s, t)
    cx.compile(ll.GenericCompiler(), ll.CUDACompiler(arch="sm_90"), wait=False)
    assert len(cx.launches) == 2


def test_wait_is_yes_or_no():
    cx, *_ = written()
    error = error_of(lambda: cx.compile(wait=0), ArgumentError)  # pyright: ignore[reportArgumentType]  # what is refused
    assert str(error).startswith("compile: wait is 0")


ENDING = """
import sys
import numpy as np
import luminal_lab as ll
cx = ll.Graph()
y = cx.tensor((4,), name="x").set(np.zeros(4)).exp().retrieve()
cx.compile(ll.GenericCompiler(), ll.CPUCompiler(compiler=sys.argv[1]), wait=False)
cx.execute()
print(y.numpy().tolist())
"""


def test_a_process_that_ends_ends_its_compilers(gate, folder):
    around = {**os.environ, "HOME": str(folder), "TMPDIR": str(folder / "temporary")}
    command = [sys.executable, "-c", ENDING, str(gate.compiler)]
    done = subprocess.run(command, capture_output=True, text=True, env=around)
    assert (done.stdout, done.stderr, done.returncode) == ("[1.0, 1.0, 1.0, 1.0]\n", "", 0)
    assert not [*(folder / "temporary").glob("luminal_lab-*")]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_fork_compiles_for_itself(gate):
    cx, s, t = written()
    cx.compile(ll.GenericCompiler(), device(gate), wait=False)
    child = os.fork()
    if not child:
        try:
            gate.open()
            program_of(cx).library  # noqa: B018  # it compiles
            check(cx, s, t)
            os._exit(0)
        except BaseException:
            os._exit(1)
    assert os.waitpid(child, 0)[1] == 0

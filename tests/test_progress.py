"""Progress bars: shown after a second, with an honest total, and gone whatever happens."""

import builtins
import io
import itertools
import os
import signal
import sys
import threading
import types
from pathlib import Path

import numpy as np
import pytest

import luminal_lab as ll
from luminal_lab import progress as module
from luminal_lab.bench.record import record
from luminal_lab.devices.build import toolchain
from luminal_lab.errors import LabWarning
from luminal_lab.passes.compile import compile_ir
from luminal_lab.progress import in_notebook, in_terminal, maker, progress
from tests.needs import need
from tests.passes.test_kept import Memory


class Clock:
    """A clock that goes on when it is told to."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Drawn:
    """A bar that notes what it shows."""

    def __init__(self, what, total, unit, seconds) -> None:
        self.what, self.unit, self.seconds = what, unit, seconds
        self.n, self.total, self.words = 0.0, total, ""
        self.shown: list[str] = []
        self.cleared, self.is_closed = 0, False

    def set_postfix_str(self, s="", refresh=True) -> None:
        self.words = s

    def refresh(self) -> None:
        self.shown.append(f"{self.n:.0f}/{self.total and round(self.total)} {self.words}".strip())

    def clear(self) -> None:
        self.cleared += 1

    def close(self) -> None:
        self.is_closed = True


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(module, "monotonic", clock)
    return clock


@pytest.fixture
def bars(monkeypatch, clock):
    """All bars that are shown."""
    made: list[Drawn] = []

    def make(*given):
        made.append(Drawn(*given))
        return made[-1]

    monkeypatch.setattr(module, "maker", lambda: make)
    return made


def test_nothing_is_shown_in_the_first_second(bars, clock):
    with progress("compile", 3, "pass") as bar:
        for _ in bar.each("abc"):
            clock.now += 0.33
    assert not bars


def test_a_bar_has_its_title_its_total_and_all_that_was_done_before_it(bars, clock):
    with progress("compile", 3, "pass") as bar:
        for _ in bar.each("abc"):
            clock.now += 0.6
    (shown,) = bars
    assert (shown.what, shown.total, shown.unit) == ("compile", 3, "pass")
    assert shown.seconds == pytest.approx(1.2)
    assert shown.shown == ["2/3", "3/3 c"]
    assert shown.is_closed


def test_what_is_being_done_is_said_before_it_is_begun(bars, clock):
    with progress("compile", 2) as bar:
        clock.now += 2
        bar.now("dce")
        assert bars[0].shown == ["0/2"]
        clock.now += 5
        bar.now("cse")
        assert bars[0].shown == ["0/2", "0/2 dce"]


def test_it_is_not_drawn_all_the_time(bars, clock):
    with progress("time", 1_000_000) as bar:
        clock.now += 1
        for _ in range(1_000):
            bar.step()
        assert bars[0].shown == ["1/1000000"]
        clock.now += 0.2
        bar.step()
        assert bars[0].shown == ["1/1000000", "1001/1000000"]


def test_more_to_do_than_was_known_is_more_in_the_total(bars, clock):
    with progress("compile", 2) as bar:
        clock.now += 1
        bar.step(2)
        bar.more(3)
        clock.now += 1
        bar.step()
        assert bars[0].shown == ["2/2", "3/5"]
        clock.now += 1
        bar.reach(9)
    assert bars[0].shown[-1] == "9/9"


def test_without_a_total_steps_are_counted(bars, clock):
    with progress("emulate") as bar:
        bar.more(4)
        clock.now += 1
        bar.step()
    assert bars[0].shown == ["1/None"]


def test_what_goes_on_within_is_told_behind_the_bar_outside(bars, clock):
    with progress("compare", 2) as outer:
        clock.now += 1
        outer.now("cpu")
        with progress("compile", 3) as inner:
            inner.now("dce")
            inner.step()
        clock.now += 1
        outer.step()
    (shown,) = bars
    assert shown.shown == ["0/2", "1/2 cpu: dce 1/3"]
    with progress("compile", 1) as alone:
        clock.now += 1
        alone.step()
    assert [one.what for one in bars] == ["compare", "compile"]


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_whatever_ends_it_closes_the_bar(bars, clock, error):
    with pytest.raises(error), progress("compile", 3) as outer:  # noqa: PT012  # what is inside raises
        clock.now += 1
        outer.step()
        with progress("kernels"):
            raise error
    assert bars[0].is_closed
    with progress("again"):
        pass
    assert len(bars) == 1


def test_without_tqdm_nothing_is_shown(monkeypatch, clock):
    known = builtins.__import__

    def refusing(name, *rest):
        if name.startswith("tqdm"):
            raise ImportError(name)
        return known(name, *rest)

    monkeypatch.setattr(builtins, "__import__", refusing)
    monkeypatch.setattr(module, "maker", lambda: in_terminal)
    with progress("compile", 2) as bar:
        clock.now += 2
        bar.step()
        clock.now += 2
        bar.step()


# -- where it is shown -----------------------------------------------------------------------------


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_where_nobody_looks_there_is_no_bar(monkeypatch):
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    assert maker() is None
    monkeypatch.setattr(sys, "stderr", None)
    assert maker() is None
    with progress("compile", 3) as first, progress("compile", 3) as second:
        assert first is second  # one that does nothing, for all


def test_a_terminal_has_a_bar_of_text(monkeypatch, clock):
    need("tqdm")
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    assert maker() is in_terminal
    with progress("compile", 4, "pass") as bar:
        clock.now += 2
        bar.now("dce")
        bar.step(2)
        clock.now += 1
        bar.now("cse")
        shown = screen.getvalue()
        assert "compile:  50%" in shown
        assert "2/4" in shown
        assert "pass" in shown
        assert "dce" in shown
    end = screen.getvalue()
    assert end.endswith("\r")  # and nothing of it stays
    assert not end.rpartition("\r")[0].rpartition("\r")[2].strip()


@pytest.mark.parametrize(("rows", "columns"), [(0, 0), (0, 80), (24, 0), (24, 80)])
def test_a_terminal_that_does_not_know_its_size_has_a_bar(monkeypatch, clock, rows, columns):
    need("tqdm")
    screen = Terminal()
    monkeypatch.setattr(screen, "fileno", lambda: 2, raising=False)
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setattr(os, "get_terminal_size", lambda _: os.terminal_size((columns, rows)))
    with progress("compile", 4, "pass") as bar:
        clock.now += 2
        bar.step(2)
        assert "compile:  50%" in screen.getvalue()
        assert "2/4" in screen.getvalue()


class Handle:
    def __init__(self) -> None:
        self.updates: list[object] = []

    def update(self, data, raw=False) -> None:
        self.updates.append((data, raw))


class Notebook(types.ModuleType):
    """What is asked of IPython, where a kernel runs the user's code."""

    def __init__(self) -> None:
        super().__init__("IPython")
        self.handle, self.displayed = Handle(), []
        self.display = types.SimpleNamespace(display=self._display)

    def get_ipython(self):
        return types.SimpleNamespace(kernel=object())

    def _display(self, what, display_id=False):
        assert display_id
        self.displayed.append(what)
        return self.handle


def test_a_notebook_has_a_widget_of_which_nothing_stays(monkeypatch, clock):
    need("ipywidgets", "tqdm.notebook")  # which imports IPython
    notebook = Notebook()
    monkeypatch.setitem(sys.modules, "IPython", notebook)
    assert maker() is in_notebook
    with progress("compile", 4, "pass") as bar:
        clock.now += 2
        bar.step()
        (box,) = notebook.displayed
        words, middle, right = box.children
        assert words.value.split() == ["compile:", "25%"]
        assert (middle.value, middle.max) == (1, 4)
        bar.more(4)
        clock.now += 1
        bar.step()
        assert (middle.value, middle.max) == (2, 8)
        assert "2/8" in right.value
        assert not notebook.handle.updates
    assert notebook.handle.updates == [({"text/html": "", "text/plain": ""}, True)]


def test_a_notebook_without_widgets_has_a_bar_of_text(monkeypatch, clock):
    tqdm_notebook = need("tqdm.notebook")
    monkeypatch.setattr(tqdm_notebook, "IProgress", None)
    monkeypatch.setitem(sys.modules, "IPython", Notebook())
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    with progress("compile", 4) as bar:
        clock.now += 2
        bar.step()
        assert "compile:  25%" in screen.getvalue()


# -- what has one ----------------------------------------------------------------------------------


@pytest.fixture
def all_bars(monkeypatch, bars):
    """All bars there are, in a world in which everything takes long."""
    ticks = itertools.count()
    monkeypatch.setattr(module, "monotonic", lambda: float(next(ticks)))
    return bars


def softmax(device=None) -> ll.Graph:
    cx = ll.Graph("softmax")
    cx.tensor((4, 8), name="x").set(np.ones((4, 8))).softmax(-1).retrieve()
    if device is not None:
        cx.compile(ll.GenericCompiler(), device)
    return cx


def reached(bar) -> bool:
    """Return whether a bar ended where it said that it would, and is gone."""
    last = bar.shown[-1].split()[0]
    return bar.is_closed and last == f"{bar.total:.0f}/{bar.total:.0f}"


def test_a_compile_tells_its_passes_and_then_its_kernels(all_bars):
    made = softmax().compile(ll.GenericCompiler(), ll.CPUCompiler())
    (bar,) = all_bars
    assert (bar.what, bar.unit) == ("compile softmax", "pass")
    told = [line.split(maxsplit=1) for line in bar.shown]
    done, total = map(int, told[-1][0].split("/"))
    assert done == len(made.snapshots) - 1  # the passes that ran
    assert total == done + 1  # and the device, which is the last thing that is waited for
    assert bar.is_closed
    words = [line[1] for line in told if len(line) > 1]
    assert any(word.startswith("simplify") for word in words)
    assert any(word.startswith("cpu: ") for word in words), words


def test_passes_that_run_late_are_told(all_bars):
    kept = Memory()
    for _ in range(2):
        compilation = compile_ir(softmax().ir, ll.GenericCompiler(), keeper=kept)
    (bar,) = all_bars
    assert compilation.snapshots
    (_, late) = all_bars
    assert (late.what, late.unit) == ("passes of softmax", "pass")
    assert bar.is_closed
    assert late.is_closed


def test_a_fixpoint_adds_a_round_when_it_comes(all_bars):
    cx = ll.Graph()
    x = cx.tensor((2,), name="x")
    ((x + 0) + 0).retrieve()
    cx.compile("(simplify, dce){rounds = 5}")
    totals = [line.split()[0].split("/")[1] for line in all_bars[0].shown]
    assert list(dict.fromkeys(totals)) == ["2", "4"]
    assert reached(all_bars[0])


def timed() -> object:
    return softmax().time(rounds=3, warm_up=1)


def compared() -> object:
    t4, h200 = (ll.devices.specification(name) for name in ("t4", "h200"))
    return ll.compare(softmax(), [t4, h200])


def conformed() -> object:
    return ll.devices.conformance("dce", only="elementwise", ops=["sqrt", "mul"])


def emulated() -> object:
    return softmax(ll.CUDACompiler()).kernels[0].emulate()


@pytest.mark.parametrize(
    ("does", "what", "unit", "total"),
    [
        pytest.param(timed, "time softmax", "run", 4, id="time"),
        pytest.param(compared, "compare softmax", "device", 2, id="compare"),
        pytest.param(conformed, "conformance of dce", "case", None, id="conformance"),
        pytest.param(emulated, "emulate", "block", None, id="emulate"),
    ],
)
def test_what_takes_long_has_a_bar_that_ends_where_it_said(all_bars, does, what, unit, total):
    does()
    bar = next(bar for bar in all_bars if bar.what == what)
    assert bar.unit == unit
    assert total is None or bar.total == total
    assert reached(bar)


def test_recording_tells_its_programs_and_makes_room_for_its_lines(all_bars):
    lines: list[str] = []
    record("cpu", ["op table: view"], told=lines.append, rounds=2)
    bar = next(bar for bar in all_bars if bar.what == "record cpu")
    assert (bar.unit, bar.total) == ("program", len(lines))
    assert bar.cleared == len(lines)
    assert reached(bar)


def test_ctrl_c_ends_a_compile_at_once_and_the_session_goes_on(all_bars):
    @ll.graph_pass
    def waits(ir, edit):
        """Wait until somebody has enough of it."""
        signal.raise_signal(signal.SIGINT)
        raise AssertionError("Ctrl-C came, and it went on")

    cx = softmax()
    with pytest.raises(KeyboardInterrupt):
        cx.compile("dce", waits, "simplify")
    (bar,) = all_bars
    assert bar.is_closed
    with pytest.warns(LabWarning, match="the last compile of the graph 'softmax' failed"):
        cx.execute()
    cx.compile("dce")
    cx.execute()
    assert all(one.is_closed for one in all_bars)


def test_ctrl_c_ends_the_compiler(all_bars):
    """A compiler that sleeps is ended with what waits for it."""
    threading.Timer(0.3, lambda: signal.raise_signal(signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt), progress("compile") as bar:  # noqa: PT012  # what is inside raises
        bar.now("cpu")
        toolchain.run_program(
            [sys.executable, "-c", "import time; time.sleep(60)"], Path.cwd(), 30.0
        )
    assert all_bars[0].is_closed
    assert any("cpu: the compiler" in line for line in all_bars[0].shown)

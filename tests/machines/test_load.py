"""Load that is really there: a process on every core, and what each place says of its times."""

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

import luminal_lab as ll
from luminal_lab.bench import record as recording
from luminal_lab.devices.build import cache
from luminal_lab.devices.facts import probe
from luminal_lab.machines.load import BUSY, LOADED, Load, is_crowded, load_text
from luminal_lab.machines.rates import DOUBT, PeakRates
from luminal_lab.timing import measure
from luminal_lab.timing.recording import Recorded
from luminal_lab.timing.timings import Timings
from luminal_lab.timing.turns import in_turns
from luminal_lab.viz.charts import bars as compared_bars
from luminal_lab.viz.timings_charts import bars, roofs
from tests.needs import need

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux says who is busy")
WORDS = "measured while other programs kept"


@pytest.fixture(scope="module")
def loaded() -> Iterator[None]:
    """Keep every core busy that this process may use."""
    spin = [sys.executable, "-c", "print(flush=True)\nwhile True: pass"]
    cores = len(os.sched_getaffinity(0))
    programs = [subprocess.Popen(spin, stdout=subprocess.PIPE) for _ in range(cores)]
    try:
        for program in programs:
            assert program.stdout is not None
            program.stdout.readline()  # it spins from here on
        yield
    finally:
        for program in programs:
            program.kill()
            program.wait()
            assert program.stdout is not None
            program.stdout.close()


@pytest.fixture(autouse=True)
def _machine(tmp_path, monkeypatch):
    need("cc")
    monkeypatch.setattr(cache, "user_folder", lambda: tmp_path)
    # Rates take a second; one test here is about them.
    stated = PeakRates.stated("a machine", gflops=100, gbytes=10)
    for module in (measure, recording):
        monkeypatch.setattr(module, "peak_rates", lambda *_: stated)
    for name, value in {"LEAST": 1 << 20, "MOST": 4 << 20, "BUDGET": 0.0, "SHORTEST": 1e-5}.items():
        monkeypatch.setattr(probe, name, value)


@pytest.fixture
def timings(loaded: None) -> Timings:
    return written().time(rounds=2)


def written() -> ll.Graph:
    cx = ll.Graph()
    x = cx.tensor((16, 16), name="x").set(np.ones((16, 16)))
    (x @ x).relu().retrieve()
    cx.compile(ll.GenericCompiler(), ll.CPUCompiler(threads=1))
    return cx


@pytest.mark.usefixtures("loaded")
def test_even_a_moment_knows_its_load():
    with Load() as load:
        pass  # far less than a tick of the system's clock
    assert load.others is not None
    assert load.others >= LOADED
    assert load_text(load.others).startswith(WORDS)


@pytest.mark.usefixtures("loaded")
def test_the_load_of_those_who_are_measured_is_their_own():
    with Load() as all_of_them:
        pass
    own = _busy_processes()
    with Load(own) as load:
        pass
    assert load.others is not None
    assert all_of_them.others is not None
    assert load.others < all_of_them.others


def _busy_processes() -> list[int]:
    """Return the processes that this one has started."""
    path = f"/proc/self/task/{os.getpid()}/children"
    with open(path, encoding="utf-8") as file:  # noqa: PTH123  # of the system
        return [int(word) for word in file.read().split()]


def test_times_say_it_in_every_form(timings: Timings):
    assert timings.busy is not None
    assert timings.doubts[-1].startswith(WORDS)
    assert str(timings).splitlines()[-1].startswith(WORDS)
    assert WORDS in str(timings.by("line"))
    page = timings.display()._repr_mimebundle_()
    assert WORDS in page["text/html"]
    for chart in (bars([timings]), roofs(timings)):
        assert WORDS in chart["layout"]["title"]["text"]
    # It is kept, and said of what was recorded.
    again = Timings.from_json(timings.to_json())
    assert again.doubts == timings.doubts


def test_a_picture_with_times_on_its_nodes_says_it(loaded: None):
    cx = written()
    picture = cx.display(overlay=cx.time(rounds=2))
    assert WORDS in picture._repr_mimebundle_()["image/svg+xml"]


def test_the_workbench_and_a_recording_say_it(loaded: None, tmp_path):
    cx = written()
    times = cx.time(rounds=2)
    (facts,) = cx.workbench(times).subjects[0].facts.times
    assert facts.doubts == times.doubts
    cx.save(tmp_path / "run.lab", times)
    (subject,) = ll.open(tmp_path / "run.lab").workbench().subjects
    assert subject.facts.times[0].doubts == times.doubts


def test_devices_side_by_side_say_it(loaded: None):
    cx = written()
    found = ll.compare(cx, [ll.CPU(threads=1), ll.CPU()], rounds=2)
    for column in found.columns:
        assert column.doubts[-1].startswith(WORDS)
    assert WORDS in str(found)
    assert WORDS in found._repr_html_()
    assert WORDS in compared_bars(found)["layout"]["title"]["text"]


def test_what_ran_at_different_moments_is_too_busy_to_say(timings: Timings):
    crowded = replace(timings, busy=1e3)
    assert is_crowded(crowded.busy)
    assert str(timings.beside(crowded)).splitlines()[-1] == BUSY
    found = ll.compare(written(), [ll.CPU(threads=1), ll.CPU()], rounds=2)
    columns = tuple(replace(column, busy=1e3) for column in found.columns)
    assert BUSY in str(replace(found, columns=columns))
    alone = replace(found, columns=columns[:1], segments=())
    assert BUSY not in str(alone)  # there is nothing to compare it with


@pytest.mark.usefixtures("loaded")
def test_turns_say_it_beside_the_bounds():
    turns = in_turns(lambda: sum(range(1000)), lambda: sum(range(10)), seconds=0.2)
    assert turns.bounds is not None
    assert WORDS in str(turns)


@pytest.mark.usefixtures("loaded")
def test_a_file_of_times_for_replay_says_it(tmp_path):
    kept = recording.record("cpu", ["softmax"], is_quick=True, rounds=1).recording
    kept.save(tmp_path / "mine.json")
    assert kept.busy is not None
    assert WORDS in str(type(kept).load(tmp_path / "mine.json"))
    cx = ll.Graph()
    cx.tensor((64, 256), name="c").softmax(-1).retrieve()
    (column,) = ll.compare(cx, [Recorded(kept)]).columns
    assert column.doubts[0].startswith(WORDS)


@pytest.mark.usefixtures("loaded")
def test_rates_under_load_replace_nothing_better_and_say_so(tmp_path):
    first = probe.peak_rates(1, folder=tmp_path)
    assert first.busy is not None
    assert first.busy >= LOADED
    assert first.is_doubtful
    assert DOUBT in str(first)
    faster = replace(first, rates=tuple(replace(r, best=1e6 * r.best) for r in first.rates))
    (file,) = tmp_path.glob("rates-*.json")
    file.write_text(faster.to_json(), encoding="utf-8")
    again = probe.peak_rates(1, fresh=True, folder=tmp_path)
    assert [rate.best for rate in again.rates] == [rate.best for rate in faster.rates]
    kept = PeakRates.from_json(file.read_text("utf-8"))
    assert [rate.best for rate in kept.rates] == [rate.best for rate in faster.rates]

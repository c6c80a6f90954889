"""A run: real processes for us, NumPy and planted libraries; what is said of each."""

import json
from contextlib import suppress
from typing import cast

import numpy as np
import pytest

from luminal_lab.bench.measure import BenchRun, Options, apart, grown, measure, new_row
from luminal_lab.bench.model_workloads import model_workloads
from luminal_lab.bench.peers.known import PEERS, Known
from luminal_lab.bench.peers.peer import MEMORY, ReadyWorkload
from luminal_lab.bench.process import Failed, Process, timed
from luminal_lab.bench.rows import BenchRow, Report
from luminal_lab.bench.workloads import EIGHTH, workloads
from luminal_lab.progress import Progress
from tests.bench.planted import Crashing, Raising, Refusing, Wrong, known
from tests.bench.test_rows import RATES

ABSENT = Known("absent", "tests.bench.absent:Absent", ("no_such_package", "numpy"))


@pytest.fixture(scope="module")
def report():
    """One run of one workload, which takes some seconds: a process for each library."""
    peers = [known(kind) for kind in (Wrong, Crashing, Raising, Refusing)]
    chosen = [one for one in workloads(quick=True) if one.name == "gelu"]
    options = Options(1, is_quick=True, peers=(PEERS[0], *peers, ABSENT))
    return measure(chosen, options, "1.2.3")


def test_no_module_of_the_folder_it_starts_in_is_run(tmp_path, monkeypatch):
    (tmp_path / "numpy.py").write_text("open('was-run', 'w')", "utf-8")
    monkeypatch.chdir(tmp_path)
    process = Process("luminal_lab.bench.peers.numpy:NumPy", {}, {}, tmp_path)
    with suppress(Failed):  # it answers that nothing is ready, or has ended
        process.release()
    process.end()
    assert not (tmp_path / "was-run").exists()


def test_a_row_has_three_rounds_of_everybody_who_did_the_work(report):
    (row,) = report.rows
    assert row.name == "gelu"
    assert {name: len(times) for name, times in row.rounds.items()} == {
        "luminal_lab": 3,
        "NumPy": 3,
        "Wrong": 3,
    }
    assert set(row.peers) == {"NumPy", "Wrong"}
    assert row.best_peer_ratio == min(row.peers.values()) / row.ours_ms
    assert row.limit_share == row.limit_ms / row.ours_ms
    assert row.runs["NumPy"] >= 3
    assert row.minima.keys() == row.rounds.keys()
    assert all(row.minima[name] <= min(times) for name, times in row.rounds.items())
    assert row.first_ms.keys() == {"luminal_lab", "NumPy", "Wrong", "Crashing"}


def test_what_went_wrong_is_said(report):
    (row,) = report.rows
    assert not report.is_good
    disagrees, raising, crashing = row.failed
    assert disagrees.startswith("Wrong disagrees: at (1, 2) of result 0 it has ")
    assert disagrees.endswith("; 1 of 16384 are further apart than 1e-05")
    assert raising == "Raising: ValueError: no such thing (gelu)"
    assert crashing == "Crashing: its process ended: the end"
    assert row.unable == {
        "Crashing": "failed: its process ended: the end",
        "Raising": "failed: ValueError: no such thing (gelu)",
        "Refusing": "the data is too large for it",
        "absent": "no_such_package is not installed: pip install 'luminal-lab[bench]'",
    }


def test_the_json_has_what_others_read(report):
    given = json.loads(report.to_json())
    (row,) = given["rows"]
    assert row.keys() >= {"name", "ours_ms", "peers", "best_peer_ratio", "limit_share", "spread"}
    assert (given["version"], given["threads"], given["is_quick"]) == ("1.2.3", 1, True)
    assert given["missing"] == {"absent": row["unable"]["absent"]}
    assert given["versions"]["NumPy"] == np.__version__


class Scripted:
    """A process whose turns take what a script says."""

    id = 1

    def __init__(self, *milliseconds):
        self.left = [one / 1e3 for one in milliseconds]

    def time(self, seconds):
        return [self.left.pop(0)]


@pytest.mark.parametrize(
    ("times", "kept", "tries"),
    [
        ([1.0, 1.1, 1.05], [1.0, 1.1, 1.05], 1),
        ([1.0, 2.0, 1.0, 1.0, 1.1, 1.0], [1.0, 1.1, 1.0], 2),
        ([1.0, 2.0, 1.0, 1.0, 1.5, 1.0, 1.0, 1.0, 1.8], [1.0, 1.5, 1.0], 3),
    ],
)
def test_rounds_that_lie_far_apart_are_run_again_and_the_calmest_count(
    tmp_path, times, kept, tries
):
    report = Report("1.2.3", "today", 1, is_quick=False, rates=RATES)
    run = BenchRun(report, Options(1), [], tmp_path, Progress())
    (workload,) = (one for one in workloads(quick=True) if one.name == "gelu")
    row, ours = new_row(workload), Scripted(*times)
    run._turns(workload, row, cast("dict[str, Process]", {"luminal_lab": ours}))
    assert row.rounds["luminal_lab"] == pytest.approx(kept)
    assert (row.tries, row.runs["luminal_lab"], ours.left) == (tries, 3, [])


def test_a_quick_look_tells_of_rounds_far_apart_and_runs_none_again(tmp_path):
    report = Report("1.2.3", "today", 1, is_quick=True, rates=RATES)
    run = BenchRun(report, Options(1, is_quick=True), [], tmp_path, Progress())
    (workload,) = (one for one in workloads(quick=True) if one.name == "gelu")
    row, ours = new_row(workload), Scripted(1.0, 2.0, 1.0, 1.0)
    run._turns(workload, row, cast("dict[str, Process]", {"luminal_lab": ours}))
    assert row.rounds["luminal_lab"] == pytest.approx([1.0, 2.0, 1.0])
    assert (row.tries, ours.left) == (1, [0.001])


def test_no_row_begins_after_the_limit():
    report = measure(workloads(quick=True)[:2], Options(1, is_quick=True, peers=(), limit=0), "1")
    assert (report.rows, report.left_out) == ([], ["gelu", "softmax"])


def test_a_model_in_a_file_is_measured_and_its_first_token_by_a_process_for_each_run():
    names = "decode-128-q8_0", "first-token-q8_0"
    chosen = [row for row in model_workloads(quick=True) if row.name in names]
    report = measure(chosen, Options(1, is_quick=True, rounds=2, peers=()), "1.2.3")
    decode, first = report.rows
    assert not decode.failed
    assert not first.failed
    assert decode.tokens == 1
    assert len(decode.rounds["luminal_lab"]) == len(first.rounds["luminal_lab"]) == 2
    assert first.runs == {"luminal_lab": 2}
    assert decode.facts["launches"] > 10
    assert first.facts[MEMORY] > 20


def test_what_does_not_count_is_taken_off_each_run():
    runs, taken = [], iter([1.0, 2.0, 3.0] + [0.0] * 10_000)
    ready = ReadyWorkload(lambda: runs.append(1), list, inner=lambda: next(taken))
    times = timed(ready, 0.01)
    # The first run warms up.
    assert times[0] < -1.5
    assert times[1] < -2.5
    assert all(seconds >= 0 for seconds in times[2:])
    assert len(times) == len(runs) - 1


# -- comparing -------------------------------------------------------------------------------------


def test_apart():
    one = np.array([1.0, 2.0, 4.0], np.float32)
    assert apart("it", [one], [one], 0.0) == []
    assert apart("it", [one], [one * np.float32(1.00001)], 1e-4) == []
    assert apart("it", [one[:2]], [one], 1.0) == ["it disagrees: result 0 is (2,), and ours (3,)"]
    assert apart("it", [one, one], [one], 1.0) == ["it returns 2 results, and we 1"]
    (said,) = apart("it", [one, one], [one, one + np.eye(3, dtype=np.float32)[2]], 1e-3)
    assert said == (
        "it disagrees: at (2,) of result 1 it has 4, and we 5; 1 of 3 are further apart than 0.001"
    )


def test_what_is_not_finite_must_be_the_same():
    strange = np.array([np.nan, np.inf, -np.inf, 1.0], np.float32)
    assert apart("it", [strange], [strange], 0.0) == []
    for k in range(3):
        other = strange.copy()
        other[k] = 1.0
        for pair in ((strange, other), (other, strange)):
            (said,) = apart("it", [pair[0]], [pair[1]], 0.5)
            assert f"at ({k},)" in said
    assert apart("it", [strange[:0]], [strange[:0]], 0.0) == []


def test_one_huge_value_does_not_excuse_the_others():
    one = np.ones(9)
    one[4] = 1e30
    other = one.copy()
    other[2] = 2.0
    (said,) = apart("it", [one], [other], 1e-3)
    assert "at (2,) of result 0 it has 1, and we 2; 1 of 9 " in said


def test_small_values_beside_large_ones_are_held_to_their_size():
    one, other = np.array([1.0, 1e-9]), np.array([1.0, 2e-9])
    assert apart("it", [one], [other], 1e-5) == []
    assert apart("it", [one[1:]], [other[1:]], 1e-5)


def test_a_step_that_writes_more_where_the_cache_is_longer_fails():
    name = f"bytes written: luminal_lab, {EIGHTH}"
    row = BenchRow("decode", "", facts={"bytes written": 64, name: 64})
    assert grown(row) == []
    row.facts["bytes written"] = 512
    assert grown(row) == ["a step writes 512 bytes, and 64 with an eighth of the cache"]
    assert grown(BenchRow("other", "", facts={"bytes written": 64})) == []

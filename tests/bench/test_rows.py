"""Rows: what follows from rounds, what a file holds, what became slower."""

import pytest

from luminal_lab.bench.rows import (
    READING,
    BenchRow,
    Report,
    differences,
    geometric_mean,
    read_report,
    slower,
)
from luminal_lab.errors import RecordingError
from luminal_lab.machines.rates import PeakRates
from tests.expect import error_of

RATES = PeakRates.stated("a laptop", gflops=100, gbytes=10)


def row(name="one", ours=(1.0, 1.2, 1.1), **peers):
    rounds = {"luminal_lab": list(ours)} if ours else {}
    made = BenchRow(name, "a thing", rounds={**rounds, **peers}, flops=1000, read=5_000_000)
    made.conclude(RATES)
    return made


def report(*rows, rates=RATES, threads=2, is_quick=False):
    return Report("0.1", "2026-01-01T00:00:00+00:00", threads, is_quick, rates, rows=list(rows))


def test_what_follows_from_rounds():
    made = row(NumPy=[3.0, 2.0, 2.2], JAX=[5.0, 5.0, 5.0])
    made.rounds["luminal_lab, specialised"] = [0.5, 0.7, 0.6]
    made.conclude(RATES)
    assert made.ours_ms == 1.1
    assert made.peers == {"NumPy": 2.2, "JAX": 5.0}
    assert made.variants == {"specialised": 0.6}
    assert (made.best_peer, made.best_peer_ratio) == ("NumPy", 2.2 / 1.1)
    assert (made.limit_ms, made.bound) == (0.5, "memory")
    assert made.limit_share == 0.5 / 1.1
    assert made.best_peer_limit_share == 0.5 / 2.2
    assert made.spread == pytest.approx(0.2 / 1.1)


def test_without_us_or_without_peers_there_is_no_ratio():
    failed = row(ours=(), NumPy=[2.0, 2.0, 2.0])
    assert (failed.ours_ms, failed.best_peer_ratio, failed.limit_share) == (None, None, None)
    assert failed.spread is None
    assert row().best_peer_ratio is None
    assert row().limit_share is not None


def test_what_asks_for_nothing_has_no_limit():
    made = BenchRow("compile", "", rounds={"luminal_lab": [1.0]})
    made.conclude(RATES)
    assert (made.limit_ms, made.limit_share) == (None, None)


def test_the_limit_of_a_model_is_the_reading_of_its_file_in_the_same_rounds():
    made = row(NumPy=[2.0, 2.0, 2.0])
    made.rounds[f"luminal_lab, {READING}"] = [0.9, 0.8, 1.0]
    made.conclude(RATES)
    assert (made.limit_ms, made.bound) == (0.9, "memory")
    assert made.limit_share == 0.9 / 1.1
    assert made.best_peer == "NumPy"


def test_the_modelled_time_is_no_fact_beside_others():
    made = BenchRow("one", "", rounds={"luminal_lab": [2.0]}, facts={"bytes written": 3.0})
    made.facts |= {"modelled ms": 0.5, "modelled ms: luminal_lab, specialised": 0.25}
    made.conclude(RATES)
    assert (made.modelled_ms, made.facts) == (0.5, {"bytes written": 3.0})
    made.conclude(RATES)  # once more, as a test may
    assert made.modelled_ms == 0.5


def test_a_report_is_read_as_it_was_written(tmp_path):
    made = report(row(NumPy=[1.0, 1.0, 1.0]), row("two", ours=()))
    made.missing["JAX"] = "jax is not installed"
    path = tmp_path / "rows.json"
    path.write_text(made.to_json(), encoding="utf-8")
    assert read_report(path) == made


def test_is_good():
    good, bad = row(), row()
    bad.failed.append("it disagrees")
    assert report(good).is_good
    assert not report(good, bad).is_good


def test_files_that_cannot_be_read(tmp_path):
    path = tmp_path / "rows.json"
    error = error_of(lambda: read_report(path), RecordingError)
    assert error.message.startswith(f"bench: {path} cannot be read: ")
    assert error.hint == "give a file that luminal-lab bench --json has written"
    path.write_text('{"schema": 1, "rows": 3}', encoding="utf-8")
    error = error_of(lambda: read_report(path), RecordingError)
    assert error.message == "bench: the rows cannot be read: report.rows is 3, not a list"
    assert error.hint == "run the benchmark again"
    path.write_text("[]", encoding="utf-8")
    assert "bench: the schema is None" in error_of(lambda: read_report(path)).message


def test_geometric_mean():
    assert geometric_mean([]) is None
    assert geometric_mean([4.0, 1.0]) == pytest.approx(2.0)


def test_slower_is_beyond_the_noise_of_both():
    then = report(row(ours=(1.0, 1.2, 1.1)))
    assert slower(report(row(ours=(1.15, 1.3, 1.4))), then) == []
    assert slower(report(row(ours=(0.5, 0.6, 0.5))), then) == []
    assert slower(report(row(ours=(2.3, 2.2, 2.4))), then) == [
        "one: 2.3 ms, and 1.1 ms then: 2.09 times as long (rounds of 2.2 to 2.4 ms; then rounds "
        "of 1 to 1.2 ms)"
    ]


def test_slower_knows_rows_that_failed_and_rows_that_are_new():
    then = report(row())
    assert slower(report(row(ours=())), then) == ["one: it failed, and took 1.1 ms then"]
    assert slower(report(row("new")), then) == []
    assert slower(then, report(row(ours=()))) == []


def test_differences():
    then = report(row())
    assert differences(report(row()), then) == []
    other = PeakRates.stated("a server", gflops=200, gbytes=9.5)
    assert differences(report(rates=other, threads=4, is_quick=True), then) == [
        "one of the runs is quick, and has other sizes",
        "the machine is a server, and was a laptop",
        "threads are 4, and were 2",
        "the machine multiplies and adds at 200.0 GFLOP/s, and did at 100.0 GFLOP/s",
    ]

"""The probe: it measures, keeps what it has measured, and estimates where there is no compiler."""

import numpy as np
import pytest

from luminal_lab.devices.build import cache
from luminal_lab.devices.facts import probe
from luminal_lab.devices.facts.probe import better_rates, cpu_name, known_rates, peak_rates, reader
from luminal_lab.errors import ArgumentError, DeviceError
from luminal_lab.machines.rates import PeakRates
from tests.expect import error_of
from tests.needs import need


@pytest.fixture(autouse=True)
def _short(monkeypatch):
    """Measure little: no figure of a test is looked at."""
    monkeypatch.setattr(probe, "LEAST", 1 << 20)
    monkeypatch.setattr(probe, "MOST", 4 << 20)
    monkeypatch.setattr(probe, "SMALL", (64 << 10,))
    monkeypatch.setattr(probe, "LEAST_ROUNDS", 2)
    monkeypatch.setattr(probe, "BUDGET", 0.0)
    monkeypatch.setattr(probe, "SHORTEST", 1e-5)


@pytest.fixture
def _compiler():
    need("cc")


@pytest.mark.usefixtures("_compiler")
@pytest.mark.parametrize("threads", [1, 3])
def test_it_measures_each_rate(tmp_path, threads):
    rates = peak_rates(threads, folder=tmp_path)
    assert (rates.how, rates.threads, rates.device) == ("measured", threads, cpu_name())
    counts = {rate.threads for rate in rates.rates}
    assert counts == {1, threads}
    assert {rate.dtype for rate in rates.rates if rate.what == "fma"} == {"float32", "float64"}
    assert {rate.what for rate in rates.rates} == {"fma", "read", "copy"}
    assert all(rate.best == max(rate.samples) > 0 for rate in rates.rates)
    # A copy is made in two ways.
    assert all(len(rate.samples) == 2 + 2 * (rate.what == "copy") for rate in rates.rates)


@pytest.mark.usefixtures("_compiler")
def test_it_is_kept_and_measured_again_when_asked(tmp_path, monkeypatch):
    first = peak_rates(folder=tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(probe, "_measured", lambda *_: pytest.fail("it was measured again"))
        assert peak_rates(folder=tmp_path) == first
        assert known_rates(folder=tmp_path) == first
    calls = []
    measured = probe._measured
    monkeypatch.setattr(probe, "_measured", lambda *given: calls.append(1) or measured(*given))
    assert peak_rates(folder=tmp_path, fresh=True).date >= first.date
    assert calls == [1]
    # Another number of threads is another measurement.
    assert peak_rates(5, folder=tmp_path).threads == 5
    assert calls == [1, 1]


@pytest.mark.usefixtures("_compiler")
def test_a_damaged_file_is_measured_again(tmp_path):
    peak_rates(folder=tmp_path)
    (path,) = tmp_path.glob("rates-*.json")
    path.write_text("{", encoding="utf-8")
    assert peak_rates(folder=tmp_path).how == "measured"
    assert path.read_text(encoding="utf-8").startswith('{\n "schema": 1')
    assert not list(tmp_path.glob(".draft-*"))


def test_without_a_compiler_numpy_estimates(tmp_path, monkeypatch):
    def missing():
        raise DeviceError("compiler: none")

    monkeypatch.setattr(probe, "find_compiler", missing)
    rates = peak_rates(2, folder=tmp_path)
    assert rates.how == "estimated"
    title = f"{cpu_name()}, 2 threads: rates estimated by NumPy, for there is no C compiler on "
    assert str(rates).startswith(title)
    assert rates.gflops() > 0
    assert rates.gbytes() > 0
    assert rates.limit(flops=1, read=1, written=1).seconds > 0


def test_a_number_of_threads_that_there_cannot_be(tmp_path):
    error = error_of(lambda: peak_rates(0, folder=tmp_path), ArgumentError)
    assert error.message == "peak_rates: threads is 0"
    assert error.hint == "give 1 or more, or leave it out"
    assert "test_probe.py" in error.where


class StandIn:
    """A load that says what it is told."""

    others = 0.0

    def __enter__(self):
        return self

    def __exit__(self, *error):
        pass


@pytest.fixture
def counted(monkeypatch):
    """Count how often rates are measured, each time under the load of `StandIn`."""
    calls = []
    measured = probe._measured
    monkeypatch.setattr(probe, "_measured", lambda *given: calls.append(1) or measured(*given))
    monkeypatch.setattr(probe, "Load", StandIn)
    monkeypatch.setattr(StandIn, "others", 2.0)
    monkeypatch.setattr(probe, "_TRIED", {})
    return calls


@pytest.mark.usefixtures("_compiler")
def test_what_was_measured_under_load_is_measured_again_once_it_is_quiet(
    tmp_path, monkeypatch, counted
):
    assert peak_rates(1, folder=tmp_path).is_doubtful
    assert counted == [1]
    peak_rates(1, folder=tmp_path)  # only just tried
    assert counted == [1]
    monkeypatch.setattr(probe, "_TRIED", {})
    peak_rates(1, folder=tmp_path)  # still busy
    assert counted == [1]
    monkeypatch.setattr(probe, "_TRIED", {})
    monkeypatch.setattr(StandIn, "others", 0.0)
    peak_rates(1, folder=tmp_path)
    assert counted == [1, 1]


@pytest.mark.usefixtures("_compiler")
def test_what_is_surpassed_is_measured_again_but_not_each_time(tmp_path, monkeypatch, counted):
    monkeypatch.setattr(cache, "user_folder", lambda: tmp_path)
    known = peak_rates(1)
    better_rates(known)  # only just measured
    assert counted == [1]
    monkeypatch.setattr(probe, "_TRIED", {})
    better_rates(known)
    assert counted == [1, 1]
    stated = PeakRates.stated("a phone", gflops=1, gbytes=1)
    assert better_rates(stated) is stated


@pytest.mark.parametrize("threads", [1, 2])
def test_an_array_is_read_by_threads_wherever_it_begins(threads):
    assert reader(np.arange(1 + (1 << 18), dtype=np.uint8)[1:], threads)() > 0.0

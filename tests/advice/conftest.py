"""Compilers for the tests of advice, and rates that nobody measures."""

import shutil

import pytest

from luminal_lab.devices.build import cache
from luminal_lab.machines.rates import PeakRates
from luminal_lab.timing import measure


@pytest.fixture(autouse=True)
def _machine(tmp_path, monkeypatch):
    if shutil.which("cc") is None:
        pytest.skip("there is no C compiler: install gcc or clang")
    monkeypatch.setattr(cache, "user_folder", lambda: tmp_path)
    rates = PeakRates.stated("a machine", gflops=100, gbytes=10)
    monkeypatch.setattr(measure, "peak_rates", lambda: rates)

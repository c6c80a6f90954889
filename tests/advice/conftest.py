"""Compilers for the tests of advice, and rates that nobody measures."""

import pytest

from luminal_lab.machines.rates import PeakRates
from luminal_lab.timing import measure
from tests.needs import need


@pytest.fixture(autouse=True)
def _machine(tmp_path, monkeypatch):
    need("cc")
    rates = PeakRates.stated("a machine", gflops=100, gbytes=10)
    monkeypatch.setattr(measure, "peak_rates", lambda: rates)

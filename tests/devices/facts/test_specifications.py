"""Specifications: every figure has a source, names in any form, what is measured says so."""

import builtins

import pytest

import luminal_lab as ll
from luminal_lab.devices.facts.specifications import (
    bare_name,
    by_bare_name,
    known_devices,
    specification,
    this_cpu,
)
from luminal_lab.errors import DeviceError, UnknownNameError
from luminal_lab.machines.cards import CARDS
from luminal_lab.machines.figures import MARK, Figure, shown
from luminal_lab.machines.rates import PeakRates
from tests.expect import error_of
from tests.needs import need

LAPTOP = PeakRates.stated("a laptop", gflops=100, gbytes=20, threads=2)


def peak_of(one):
    peak = one.peak("float32")
    assert peak is not None
    return peak.flops.value


def test_every_device_that_is_asked_for_is_there():
    names = [one.name for one in CARDS]
    assert names[:6] == ["T4", "A100 40 GB", "A100 80 GB", "RTX 4090", "H100", "H200"]
    chips = [f"M{k}{form}" for k in (1, 2, 3) for form in ("", " Pro", " Max", " Ultra")]
    assert names[6:] == [*chips, "M4", "M4 Pro", "M4 Max"]  # Apple makes no M4 Ultra


@pytest.mark.parametrize("one", CARDS, ids=[one.name for one in CARDS])
def test_every_figure_says_where_it_stands_and_how_it_is_known(one):
    for what, figure in one.figures.items():
        assert figure.value > 0, what
        assert len(figure.source) > 5, what
        assert figure.how in MARK, what
    assert one.launch.how == "assumed"
    assert all(peak.flops.how in ("stated", "derived") for peak in one.peaks)
    # A tensor unit is never slower than the plain units of the card.
    plain = peak_of(one)
    assert all(p.flops.value >= plain for p in one.peaks if p.is_tensor and p.dtype != "float64")


def test_figures_that_follow_from_others_agree_with_what_makers_say():
    for name, tera in (("M1", 2.6), ("M1 Pro", 5.2), ("M1 Max", 10.4), ("M2", 3.6)):
        said = specification(name)
        assert said.peaks[0].flops == Figure(
            tera * 1e12, f"Apple's announcement or technical specifications of the {name}"
        )
        clock = {"M1": 1.278, "M2": 1.398}.get(name, 1.296)
        calculated = said.cores.value * 128 * 2 * clock * 1e9
        assert calculated == pytest.approx(tera * 1e12, rel=0.03)
    assert specification("m3-max").peaks[0].flops.how == "derived"
    assert "Apple publishes none" in specification("m3-max").peaks[0].flops.source


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("h200", "H200"),
        ("NVIDIA H100 80GB HBM3", "H100"),
        ("M3 Max", "M3 Max"),
        ("m3-max", "M3 Max"),
        ("Apple M3 Max", "M3 Max"),
        ("m3max", "M3 Max"),
        ("a100", "A100 80 GB"),
        ("NVIDIA A100-SXM4-40GB", "A100 40 GB"),
        ("NVIDIA GeForce RTX 4090", "RTX 4090"),
        ("Tesla T4", "T4"),
    ],
)
def test_names_in_any_case_and_form(name, found):
    assert ll.devices.specification(name).name == found


def test_no_two_devices_share_a_name():
    assert len({bare_name(one.name) for one in CARDS}) == len(CARDS)
    assert {one.name for one in by_bare_name().values()} == {one.name for one in CARDS}


def test_a_name_that_is_none():
    error = error_of(lambda: specification("m3 maxx"), UnknownNameError)
    assert str(error) == "specification: there is none for 'm3 maxx'\nhint: did you mean 'M3 Max'?"
    # An H100 on a PCIe card is another device, with other figures.
    assert "'H100 PCIe'" in error_of(lambda: specification("H100 PCIe"), UnknownNameError).message
    error = error_of(lambda: specification("zzz"), UnknownNameError)
    assert error.hint.startswith("choose from cpu, T4, A100 40 GB, ")


def test_this_machine_is_measured(monkeypatch):
    monkeypatch.setattr("luminal_lab.devices.facts.specifications.peak_rates", lambda: LAPTOP)
    cpu = specification("CPU")
    assert cpu.how == "measured"
    assert cpu.rates is LAPTOP
    assert peak_of(cpu) == 100e9
    assert cpu.bandwidth.value == 20e9
    assert specification("h200").how == "stated"


def test_a_specification_prints_each_figure_with_its_source():
    lines = str(specification("t4")).splitlines()
    assert lines[0] == "T4 (NVIDIA, sm_75)"
    assert lines[2].split() == ["float32", "8.1", "TFLOP/s", "stated", *T4_SHEET.split()]
    assert lines[5].split()[:4] == ["float64", "253", "GFLOP/s", "derived"]
    assert lines[-1].split()[:4] == ["launch", "2", "µs", "assumed"]
    assert repr(specification("t4")).startswith("<Specification of T4;")


T4_SHEET = "NVIDIA T4 Tensor Core GPU data sheet"


def test_all_of_them_as_a_table():
    text = str(known_devices())
    assert text.splitlines()[1].split()[:3] == ["T4", "8.1", "TFLOP/s"]
    assert "253 GFLOP/s*" in text  # which is derived
    assert text.splitlines()[-1].startswith("* derived from other figures")
    need("pandas")
    table = known_devices().to_pandas()
    assert set(table["device"]) == {one.name for one in CARDS}
    row = table[(table["device"] == "H200") & (table["figure"] == "bandwidth, bytes/s")]
    assert list(row["value"]) == [4.8e12]
    assert list(row["source"]) == ["NVIDIA H200 Tensor Core GPU data sheet, SXM"]


def test_without_pandas_there_is_a_hint(monkeypatch):
    known = builtins.__import__

    def refusing(name, *rest):
        if name == "pandas":
            raise ImportError(name)
        return known(name, *rest)

    monkeypatch.setattr(builtins, "__import__", refusing)
    error = error_of(lambda: known_devices().to_pandas(), DeviceError)
    assert error.message == "specifications: a table needs pandas, which is not installed"


@pytest.mark.parametrize(
    ("what", "value", "text"),
    [
        ("memory, bytes", 80e9, "80 GB"),
        ("cache, bytes", 50 << 20, "50 MiB"),
        ("launch, seconds", 2e-6, "2 µs"),
        ("cores", 132, "132"),
        ("float32, FLOP/s", 66.9e12, "66.9 TFLOP/s"),
    ],
)
def test_figures_in_the_units_of_people(what, value, text):
    assert shown(what, Figure(value, "")) == text


def test_what_somebody_states_of_a_machine_is_not_called_measured():
    cpu = this_cpu(LAPTOP)
    assert {one.how for one in cpu.figures.values()} == {"assumed", "stated"}

"""Peak rates as a value: which rate counts for what, how they are shown and kept."""

from dataclasses import replace

import pytest

from luminal_lab.errors import ArgumentError, RecordingError
from luminal_lab.machines.rates import Limit, PeakRates, Rate, size_text
from tests.expect import error_of

MACHINE = PeakRates(
    "a machine",
    2,
    (
        Rate("fma", 1, 50.0, dtype="float32"),
        Rate("fma", 2, 100.0, dtype="float32"),
        Rate("fma", 2, 40.0, dtype="float64"),
        Rate("read", 2, 80.0, size=1_000, samples=(79.0, 80.0)),
        Rate("copy", 2, 80.0, size=1_000),
        Rate("read", 2, 20.0, size=1_000_000),
        Rate("copy", 2, 16.0, size=1_000_000),
        Rate("read", 1, 12.0, size=1_000_000),
        Rate("copy", 1, 12.0, size=1_000_000),
    ),
    by="cc 12",
    date="2026-01-02T03:04:05+00:00",
)


def test_each_dtype_and_number_of_threads_has_its_rate():
    assert MACHINE.gflops() == 100.0
    assert MACHINE.gflops("float64") == 40.0
    assert MACHINE.gflops("float16") == 100.0
    assert MACHINE.gflops(threads=1) == 50.0
    assert MACHINE.gflops(threads=64) == 100.0


def test_bandwidth_is_that_of_the_smallest_working_set_that_holds_it():
    assert MACHINE.gbytes() == 20.0
    assert MACHINE.gbytes("copy") == 16.0
    assert MACHINE.gbytes(size=1_000) == 80.0
    assert MACHINE.gbytes(size=1_001) == 20.0
    assert MACHINE.gbytes(size=10**12) == 20.0
    assert MACHINE.gbytes(threads=1) == 12.0


@pytest.mark.parametrize(
    ("asked", "limit"),
    [
        pytest.param({"flops": 10**9, "read": 1_000}, Limit(0.01, "FMA"), id="flops"),
        pytest.param({"flops": 0, "read": 20_000_000}, Limit(0.001, "memory"), id="read"),
        pytest.param({"flops": 0, "read": 800}, Limit(1e-8, "cache"), id="cache"),
        # 2 / 16 - 1 / 20 is what a written byte takes: a copy reads at the rate of reading.
        pytest.param(
            {"flops": 0, "read": 10_000_000, "written": 10_000_000},
            Limit(0.00125, "memory"),
            id="copy",
        ),
        pytest.param(
            {"flops": 4 * 10**8, "read": 0, "dtype": "float64"}, Limit(0.01, "FMA"), id="float64"
        ),
    ],
)
def test_the_limit_is_the_slower_of_computing_and_moving(asked, limit):
    found = MACHINE.limit(**asked)
    assert found.seconds == pytest.approx(limit.seconds)
    assert found.bound == limit.bound


def test_what_it_prints_says_how_the_rates_were_got():
    assert str(MACHINE).splitlines()[:2] == [
        "a machine, 2 threads: rates measured by cc 12 on 2026-01-02 03:04",
        "  float32 multiply and add                  1 thread        50.0 GFLOP/s",
    ]
    assert "  read                      within 1e+03 B  2 threads       80.0 GB/s" in str(MACHINE)
    assert repr(MACHINE) == "<PeakRates of a machine, measured; print(…) shows them>"
    stated = PeakRates.stated("a phone", gflops=10, gbytes=5)
    assert str(stated).splitlines()[0] == "a phone, 1 thread: rates stated"


def test_json_round_trip():
    assert PeakRates.from_json(MACHINE.to_json()) == MACHINE


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("no", "rates: this is not JSON: Expecting value: line 1 column 1 (char 0)"),
        ("[1]", "rates: the schema is None, and this version reads 1"),
        ('{"schema": 99}', "rates: the schema is 99, and this version reads 1"),
        ('{"schema": 1}', "rates: they cannot be read: rates lacks device, threads, rates"),
    ],
)
def test_a_file_that_is_not_of_rates(text, message):
    assert error_of(lambda: PeakRates.from_json(text), RecordingError).message == message


def test_stated_rates_are_more_than_nothing():
    error = error_of(lambda: PeakRates.stated("x", gflops=0, gbytes=5), ArgumentError)
    assert str(error) == (
        "rates of 'x': they are 0 GFLOP/s and 5 GB/s\nhint: both are numbers, and more than 0"
    )
    error = error_of(lambda: PeakRates.stated("x", gflops="100", gbytes=5), ArgumentError)  # pyright: ignore[reportArgumentType]  # the mistake
    assert error.message == "rates of 'x': they are '100' GFLOP/s and 5 GB/s"


def test_what_was_stated_is_a_rate_of_memory():
    assert str(PeakRates.stated("x", gflops=1, gbytes=5).rates[1]).split() == (
        ["read", "from", "memory", "1", "thread", "5.0", "GB/s"]
    )


def test_sizes():
    assert [size_text(n) for n in (0, 1023, 1 << 30, 5 << 40)] == [
        "0 B",
        "1.02e+03 B",
        "1 GiB",
        "5.12e+03 GiB",
    ]


def test_samples_that_lie_far_apart_are_doubted():
    steady = replace(MACHINE.rates[3], spread=0.01, busy=0.1)
    noisy = replace(MACHINE.rates[3], spread=0.6)
    assert not replace(MACHINE, rates=(steady,)).is_doubtful
    assert str(replace(MACHINE, rates=(steady,))).endswith("GB/s       spread   1%")
    doubtful = replace(MACHINE, rates=(noisy,))
    assert doubtful.is_doubtful
    assert str(doubtful).splitlines()[-1] == (
        "something else was running while the rates were measured: "
        "ll.devices.peak_rates(fresh=True) measures them again"
    )
    loaded = replace(MACHINE, rates=(replace(steady, busy=1.04),))
    assert loaded.is_doubtful
    assert str(loaded).splitlines()[-2] == "measured while other programs kept 1.0 cores busy"
    assert not PeakRates.stated("a phone", gflops=10, gbytes=5).is_doubtful


def test_a_busy_moment_replaces_no_better_value():
    def at(date: str, *best: float) -> PeakRates:
        rates = tuple(
            replace(rate, best=value, date=date, busy=0.0)
            for rate, value in zip(MACHINE.rates, best, strict=False)
        )
        return replace(MACHINE, rates=rates, date=date)

    quiet, busy = at("2026-01-02T03:04", 221.0, 20.0), at("2026-02-03T04:05", 47.5, 25.0)
    found = busy.or_better(quiet)
    assert [(rate.best, rate.date[:10]) for rate in found.rates] == [
        (221.0, "2026-01-02"),
        (25.0, "2026-02-03"),
    ]
    assert found.date == busy.date
    assert [line.endswith("on 2026-01-02 03:04") for line in str(found).splitlines()[1:]] == [
        True,
        False,
    ]
    # What was not measured before is there as it is.
    assert busy.or_better(replace(quiet, rates=())).rates == busy.rates

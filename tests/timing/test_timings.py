"""Times as a value: what each row says, how the three kinds are told apart, how they are kept."""

import builtins
import errno
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from luminal_lab.errors import ArgumentError, DeviceError, GraphError, RangeError, RecordingError
from luminal_lab.machines.rates import Limit, PeakRates
from luminal_lab.timing.folded import Part
from luminal_lab.timing.timings import Timing, Timings, spread_of
from tests.expect import error_of
from tests.needs import need

MS = 1e-3
GELU = Timing(
    "gelu",
    "launch",
    "gelu",
    "%h.gelu",
    ("cell 3:7",),
    (3 * MS, 2 * MS, 4 * MS),
    flops=6_000_000,
    read=10_000_000,
    written=5_000_000,
    limit=Limit(1.5 * MS, "memory"),
)
NORM = replace(
    GELU,
    name="norm",
    kernel="norm",
    node="%12",
    origins=("a:1", "a:2", "a:3"),
    samples=(1 * MS,) * 3,
    limit=None,
    flops=None,
)
HOST = Timing("sort", "host", "sort", "%14", (), (0.5 * MS,) * 3)
TIMINGS = Timings(
    "main",
    (GELU, NORM, replace(GELU, node="%20", samples=(1 * MS,) * 3), HOST),
    device="a machine",
    threads=2,
    clock="perf_counter",
    warm_up=2,
    date="2026-01-02T03:04:05+00:00",
    whole=(6 * MS, 5.6 * MS, 6.4 * MS),
    rates=PeakRates.stated("a machine", gflops=100, gbytes=10, threads=2),
)

TEXT = """\
main: 4 launches, measured on a machine, 2 threads, 2026-01-02 03:04
      ms  ±           bytes  GB/s  GFLOP/s  share  limit   launch        from
>  3.000  ± 1.000  14.3 MiB   5.0      2.0    50%  memory  gelu %h.gelu  cell 3:7
   1.000  ± 0.000  14.3 MiB  15.0                          norm          a:1; a:2 and 1 more
   1.000  ± 0.000  14.3 MiB  15.0      6.0   150%  memory  gelu          cell 3:7
   0.500  ± 0.000                                          sort (host)
  5.500 ms in launches
  6.000 ± 0.400 ms for a whole run
clock perf_counter, 3 samples after 2 runs to warm up; medians, ± is between the quartiles
limits from rates stated: 100 GFLOP/s in float32, 10.0 GB/s from memory
more than 100% of memory: that roof is in doubt: some of the data still lay in a nearer cache than \
the rate is measured for"""


def squeezed(text):
    return [" ".join(line.split()) for line in text.splitlines()]


def test_a_row_says_what_was_reached():
    assert GELU.seconds == 3 * MS
    assert GELU.spread == pytest.approx(1 * MS)
    assert GELU.bytes == 15_000_000
    assert GELU.gbytes == pytest.approx(5.0)
    assert GELU.gflops == pytest.approx(2.0)
    assert GELU.share == pytest.approx(0.5)
    assert (HOST.bytes, HOST.gbytes, HOST.gflops, HOST.share) == (None, None, None, None)


def test_timings_print_as_a_table_with_the_slowest_marked():
    assert str(TIMINGS) == TEXT
    assert repr(TIMINGS) == "<Timings of main: 4 rows, 6.000 ms measured; print(…) shows them>"
    html = TIMINGS.display().html
    assert TIMINGS._repr_mimebundle_() == {"text/html": html, "text/plain": str(TIMINGS)}


def test_rows_are_found_by_place_launch_and_node():
    assert TIMINGS[1] is TIMINGS["norm"] is TIMINGS["%12"] is TIMINGS["12"]
    assert TIMINGS.slowest is GELU
    assert [row.kernel for row in TIMINGS] == ["gelu", "norm", "gelu", "sort"]
    assert TIMINGS.by_kernel() == pytest.approx({"gelu": 4 * MS, "norm": MS, "sort": 0.5 * MS})
    assert list(TIMINGS.by_kernel()) == ["gelu", "norm", "sort"]
    error = error_of(lambda: TIMINGS["gleu"], GraphError)
    assert str(error) == "timings: there is no launch 'gleu'\nhint: did you mean 'gelu'?"
    error = error_of(lambda: TIMINGS[4], RangeError)
    assert str(error) == "timings: there is no row 4; there are 4\nhint: rows count from 0"


def test_measured_recorded_and_modelled_never_look_alike():
    recorded = Timings.from_json(TIMINGS.to_json())
    rows = tuple(replace(row, how="modelled", samples=row.samples[:1]) for row in TIMINGS)
    modelled = replace(TIMINGS, rows=rows, how="modelled", whole=(), date="")
    texts = [str(one) for one in (TIMINGS, recorded, modelled)]
    titles = [text.splitlines()[0] for text in texts]
    assert titles == [
        "main: 4 launches, measured on a machine, 2 threads, 2026-01-02 03:04",
        "main: 4 launches, recorded on a machine, 2 threads, 2026-01-02 03:04",
        "main: 4 launches, modelled for a machine, 2 threads",
    ]
    times = [text.splitlines()[2].split()[1] for text in texts]
    assert times == ["3.000", "°3.000", "~3.000"]
    assert "modelled: the least time that the rates allow; nothing was run" in texts[2]
    assert {row.how for row in recorded} == {"recorded"}
    need("pandas")
    for one, how in ((TIMINGS, "measured"), (recorded, "recorded"), (modelled, "modelled")):
        assert set(one.to_pandas()["how"]) == {how}


@pytest.mark.needs("pandas")
def test_a_table_of_pandas_has_a_row_for_each_launch():
    table: Any = TIMINGS.to_pandas()
    assert list(table["launch"]) == ["gelu", "norm", "gelu", "sort"]
    assert list(table["seconds"]) == [row.seconds for row in TIMINGS]
    assert table["samples"][0] == GELU.samples
    assert table["share"][0] == pytest.approx(0.5)
    assert table.attrs["device"] == "a machine"
    assert list(replace(TIMINGS, rows=()).to_pandas().columns) == list(table.columns)


def test_without_pandas_there_is_a_hint(monkeypatch):
    known = builtins.__import__

    def refusing(name, *rest):
        if name == "pandas":
            raise ImportError(name)
        return known(name, *rest)

    monkeypatch.setattr(builtins, "__import__", refusing)
    error = error_of(TIMINGS.to_pandas, DeviceError)
    assert str(error) == (
        "timings: a table needs pandas, which is not installed\n"
        "hint: pip install pandas; print(…) shows the rows without it"
    )


def test_json_round_trip(tmp_path):
    TIMINGS.save(tmp_path / "t.json")
    found = Timings.load(tmp_path / "t.json")
    assert found == TIMINGS.recorded()
    assert found.rows[0].samples == GELU.samples
    assert found.recorded() is found
    assert Timings.from_json(found.to_json()) == found


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "{",
            "timings: this is not JSON: Expecting property name enclosed in double quotes: "
            "line 1 column 2 (char 1)",
        ),
        ('{"schema": 0}', "timings: the schema is 0, and this version reads 1"),
        ('{"schema": 1}', "timings: they cannot be read: timings lacks graph, rows"),
    ],
)
def test_a_file_that_is_not_of_timings(text, message):
    assert error_of(lambda: Timings.from_json(text), RecordingError).message == message


def test_two_timings_side_by_side():
    faster = tuple(replace(r, samples=(r.seconds / 2,)) for r in TIMINGS.rows[:3])
    other = replace(TIMINGS, rows=faster, whole=(3 * MS,), device="another")
    both = TIMINGS.beside(other)
    assert both.ratio == pytest.approx(2.0)
    assert both.ratios == pytest.approx({"gelu": 2.0, "norm": 2.0})
    assert both.kernels["sort"] == (0.5 * MS, None)
    assert squeezed(str(both)) == squeezed("""\
main beside main
  first: measured on a machine, 2 threads, 2026-01-02 03:04
  second: measured on another, 2 threads, 2026-01-02 03:04
first ms  second ms  ratio  kernel
   4.000      2.000   2.00  gelu
   1.000      0.500   2.00  norm
   0.500                    sort
   6.000      3.000   2.00  the whole""")


def test_many_rows_are_cut_and_it_is_said():
    rows = tuple(replace(NORM, node=f"%{k}", samples=((k + 1) * MS,)) for k in range(50))
    lines = str(replace(TIMINGS, rows=rows)).splitlines()
    assert "  and 20 faster ones, 210.000 ms together" in lines
    assert sum("norm #" in line for line in lines) == 30


def test_short_times_are_in_microseconds():
    rows = (replace(NORM, samples=(2e-6,)),)
    text = str(replace(TIMINGS, rows=rows, whole=(5e-6,)))
    assert text.splitlines()[0].startswith("main: 1 launch, measured")
    assert text.splitlines()[1].split()[0] == "µs"
    assert "  5.000 ± 0.000 µs for a whole run" in text


def test_the_spread_of_few_samples():
    assert spread_of([]) == spread_of([1.0]) == 0.0
    assert spread_of([1.0, 3.0]) == 1.0


def test_what_timings_do_not_have(tmp_path):
    error = error_of(lambda: TIMINGS[1.5], ArgumentError)  # pyright: ignore[reportArgumentType]  # the mistake
    assert error.message == "timings: 1.5 names no row"
    error = error_of(lambda: TIMINGS.beside(3), ArgumentError)  # pyright: ignore[reportArgumentType]  # the mistake
    assert error.message == "timings: 3 has no times to stand beside those of main"
    path = tmp_path / "absent" / "x.json"
    error = error_of(lambda: TIMINGS.save(path), RecordingError)
    assert error.message == f"timings: {path} cannot be written: there is no folder 'absent'"
    error = error_of(lambda: type(TIMINGS).load(path), RecordingError)
    assert error.message == f"timings: {path} cannot be read: No such file or directory"


def test_a_file_of_timings_stays_whole_where_a_disk_is_full(tmp_path, monkeypatch):
    path = tmp_path / "t.json"
    TIMINGS.save(path)
    before = path.read_bytes()

    def full(draft, target):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    error = error_of(lambda: TIMINGS.save(path), RecordingError)
    assert error.message == f"timings: {path} cannot be written: No space left on device"
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["t.json"]


def test_a_row_in_a_line():
    assert str(GELU) == (
        "gelu %h.gelu: 3.000 ms ± 1.000, 3 samples; 14.3 MiB; 50% of the limit (memory); cell 3:7"
    )
    assert repr(GELU) == f"<Timing {GELU}>"
    assert GELU._repr_mimebundle_() == {"text/plain": str(GELU)}


def test_one_of_a_kind_is_not_many():
    text = str(replace(TIMINGS, rows=(replace(HOST, samples=(1 * MS,)),), whole=(), warm_up=1))
    assert "clock perf_counter, 1 sample after 1 run to warm up" in text


def test_launches_of_one_line_are_told_apart_by_their_modules():
    """As those of a model that was loaded, and not written, in the user's file."""
    line = {"origins": ("run.py:3",), "shares": ()}
    first = replace(GELU, **line, parts=(Part("h.0", "run.py:3", 0.7), Part("h", "run.py:3", 0.3)))
    second = replace(GELU, **line, parts=(Part("h.1", "run.py:3", 1.0),))
    text = str(replace(TIMINGS, rows=(first, second)))
    title, head, *rows = text.splitlines()
    assert title.endswith("; all from run.py:3")
    assert head.endswith("launch           module")
    assert [row.rpartition("  ")[2] for row in rows[:2]] == ["h.0 and 1 more", "h.1"]
    for rows in ((first, first), (first, replace(second, origins=("run.py:4",)))):
        assert "all from" not in str(replace(TIMINGS, rows=rows))

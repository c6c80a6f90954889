"""The command that finds default numbers: which rows it makes of times, and how it goes on."""

from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from luminal_lab.bench.studies import defaults
from luminal_lab.bench.studies.defaults import Numbers, Tried, cell, find, sizes_of
from luminal_lab.kernels.plans.cpu import cpu_schedule
from luminal_lab.machines.defaults import NONE, DefaultsRow, Shape, read_defaults
from luminal_lab.machines.here import this_machine

SHAPES = {"products": [(20, 70, 100), (60, 80, 90), (20, 300, 17)]}
Time = Callable[[Tried, dict[str, int]], float]


@pytest.fixture
def timed(monkeypatch: pytest.MonkeyPatch) -> Callable[[Time], None]:
    """Let a function say what numbers take, as a share of the plan's own time."""
    monkeypatch.setattr(defaults, "IDLE", 0.0)
    monkeypatch.setattr(defaults, "TRIES", 40)

    def by(time: Time) -> None:
        def stand_in(self: Tried, candidates: Iterable[Numbers], *, is_last: bool = False) -> None:
            self.ratios |= {numbers: time(self, dict(numbers)) for numbers in candidates}

        monkeypatch.setattr(Tried, "time", stand_in)

    return by


def rows_of(path: Path) -> dict[str, DefaultsRow]:
    (kind,) = read_defaults(path).kinds
    assert kind.machine == this_machine()
    return {str(row): row for row in kind.rows}


def by_rows(one: Tried, numbers: dict[str, int]) -> float:
    return {4: 0.8, 8: 0.9}.get(numbers.get("tile_rows", 0), 1.1)


def test_what_wins_at_all_shapes_of_a_class_is_its_row(timed, tmp_path: Path):
    timed(by_rows)
    path = tmp_path / "table.json"
    find(SHAPES, 0.05, path, again=False)
    rows = rows_of(path)
    assert [*rows] == [
        "f32 ik,kj, 17–64 × 65–256 × 65–256",
        "f32 ik,kj, 17–64 × 257–1024 × 17–64",
    ]
    first = rows["f32 ik,kj, 17–64 × 65–256 × 65–256"]
    assert first.choices["tile_rows"] == 4
    assert (first.ratio, first.mean) == (0.8, 0.8)
    assert first.tried == ("20 × 70 × 100", "60 × 80 × 90")
    one = defaults.begin("products", (33, 222, 111))
    assert one is not None
    usual = cpu_schedule(one.loops.nest, this_machine(), {}, read_defaults(path))
    assert first.choices.items() <= usual.choices.values.items()


def test_where_shapes_differ_their_parts_have_rows(timed, tmp_path: Path):
    timed(lambda one, n: 0.9 if n.get("tile_rows") == one.sizes[0] // 10 * 2 else 1.0)
    path = tmp_path / "table.json"
    find({"products": SHAPES["products"][:2]}, 0.3, path, again=False)
    rows = rows_of(path)
    assert rows["f32 ik,kj, 17–64 × 65–256 × 65–256"].choices == {}
    assert rows["f32 ik,kj, 17–32 × 65–128 × 65–128"].choices["tile_rows"] == 4
    assert rows["f32 ik,kj, 33–64 × 65–128 × 65–128"].choices["tile_rows"] == 12


@pytest.mark.parametrize("share", [1.0, 0.985, float("inf")])
def test_the_plans_own_numbers_stay_where_nothing_gains(timed, tmp_path: Path, share: float):
    timed(lambda one, numbers: share)
    path = tmp_path / "table.json"
    find(SHAPES, 0.02, path, again=False)
    assert [row.choices for row in rows_of(path).values()] == [{}, {}]


def test_what_is_lucky_once_is_no_row(timed, tmp_path: Path):
    times: dict[tuple[object, ...], int] = {}

    def lucky(one: Tried, numbers: dict[str, int]) -> float:
        key = (*one.sizes, *numbers.items())
        times[key] = times.get(key, 0) + 1
        return 0.5 if times[key] < 3 else 1.0

    timed(lucky)
    path = tmp_path / "table.json"
    find({"products": [(20, 70, 100)]}, 0.02, path, again=False)
    assert [row.choices for row in rows_of(path).values()] == [{}]


def test_a_run_that_is_broken_off_keeps_what_it_has_and_goes_on(timed, tmp_path: Path):
    path, seen = tmp_path / "table.json", list[tuple[int, ...]]()

    def once(one: Tried, numbers: dict[str, int]) -> float:
        seen.append(one.sizes)
        if one.sizes == (20, 300, 17) and len(set(seen)) > 1:
            raise KeyboardInterrupt
        return by_rows(one, numbers)

    timed(once)
    with pytest.raises(KeyboardInterrupt):
        find(SHAPES, 0.02, path, again=False)
    assert len(rows_of(path)) == 1
    timed(lambda one, numbers: seen.append(one.sizes) or by_rows(one, numbers))
    seen.clear()
    find(SHAPES, 0.02, path, again=False)
    assert {*seen} == {(20, 300, 17)}
    assert len(rows_of(path)) == 2
    seen.clear()
    find(SHAPES, 0.02, path, again=False)
    assert seen == []
    timed(lambda one, numbers: 1.0)
    find(SHAPES, 0.02, path, again=True)
    assert [row.choices for row in rows_of(path).values()] == [{}, {}]


def test_the_kernels_that_are_really_timed(tmp_path: Path):
    one = defaults.begin("products", (20, 30, 40))
    assert one is not None
    numbers = (("tile_rows", 4),)
    one.time([numbers, (("tile_rows", 7),)])
    assert [*one.ratios] == [numbers]
    assert one.ratios[numbers] > 0


def test_classes_and_words():
    assert cell(Shape("", 1, 4, 5), 4) == ((1, 1), (2, 4), (5, 16))
    assert cell(Shape("", 2, 4097, 1000), 2) == ((2, 2), (4097, 8192), (513, 1024))
    assert sizes_of("17x1000x999") == ("products", (17, 1000, 999))
    assert sizes_of("rows:5x6x7") == ("rows", (5, 6, 7))
    assert NONE.kinds == ()

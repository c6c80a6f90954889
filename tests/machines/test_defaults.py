"""The table of default numbers: what machines and nests find in it, and damaged ones."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from luminal_lab.core.origin import LabWarning
from luminal_lab.machines.defaults import (
    NONE,
    TABLE,
    Defaults,
    DefaultsRow,
    Kind,
    Shape,
    read_defaults,
)
from luminal_lab.machines.machine import Machine

WIDE = Machine(vector_bytes=64, cores=2, l1=32 << 10, l2=1 << 20, l3=32 << 20)
NARROW = Machine(vector_bytes=32, cores=8, l1=32 << 10, l2=1 << 20, l3=32 << 20)
LARGE = DefaultsRow(
    "f32 ik,kj", (17, 64), (257, 1024), (257, 1024), {"tile_rows": 4}, 0.8, tried=("17",)
)
PART = DefaultsRow("f32 ik,kj", (17, 32), (513, 1024), (513, 1024), {"tile_rows": 8}, 0.9)
SMALL = DefaultsRow("f32 rows", (1, 1), (1, 64), (1, 1), {})
TABLES = Defaults((Kind(WIDE, (LARGE, PART, SMALL)), Kind(NARROW, (LARGE,))))


@pytest.mark.parametrize(
    ("machine", "kind"),
    [
        (WIDE, WIDE),
        (NARROW, NARROW),
        (replace(WIDE, l3=1 << 30), WIDE),
        (replace(WIDE, cores=3, l2=(1 << 20) + 1), WIDE),
        (replace(NARROW, cores=16), NARROW),
        (replace(WIDE, cores=16), None),
        (replace(WIDE, cores=4, l2=2 << 20), None),
        (replace(WIDE, vector_bytes=16), None),
    ],
)
def test_a_machine_is_of_the_nearest_kind_or_of_none(machine: Machine, kind: Machine | None):
    found = TABLES.kind(machine)
    assert (found and found.machine) == kind
    assert NONE.kind(machine) is None


@pytest.mark.parametrize(
    ("shape", "row"),
    [
        (Shape("f32 ik,kj", 17, 1000, 999), PART),
        (Shape("f32 ik,kj", 33, 1000, 999), LARGE),
        (Shape("f32 ik,kj", 64, 257, 1024), LARGE),
        (Shape("f32 ik,kj", 16, 1000, 999), None),
        (Shape("f32 ik,kj", 17, 1025, 999), None),
        (Shape("f16 ik,kj", 17, 1000, 999), None),
        (Shape("f32 rows", 1, 7, 1), SMALL),
    ],
)
def test_a_nest_has_the_row_that_holds_for_the_fewest_sizes(shape: Shape, row: DefaultsRow | None):
    assert TABLES.kinds[0].row(shape) == row


def test_a_table_reads_back(tmp_path: Path):
    path = tmp_path / "table.json"
    path.write_text(str(TABLES), encoding="utf-8")
    assert read_defaults(path) == TABLES
    assert len(str(TABLES).splitlines()) == 2 + 3 + 1 + 3, "a row a line"
    assert str(PART) == "f32 ik,kj, 17–32 × 513–1024 × 513–1024"
    assert str(SMALL) == "f32 rows, 1 × 1–64 × 1"


ROW = json.dumps(json.loads(str(TABLES))["kinds"][0]["rows"][0])
MACHINE = json.dumps(json.loads(str(TABLES))["kinds"][0]["machine"])


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "Expecting value"),
        (str(TABLES)[:310], "Unterminated string"),
        ("[]", "defaults is [], not an object"),
        ("{}", "defaults lacks kinds"),
        ('{"kinds": [{"machine": 3, "rows": []}]}', "kinds[0].machine is 3, not an object"),
        (f'{{"kinds": [{{"machine": {MACHINE}}}]}}', "kinds[0] lacks rows"),
        (str(TABLES).replace('"cores": 2', '"cores": 0'), "there is no Machine("),
        (str(TABLES).replace("[17, 64]", "[64, 17]"), "there is no size within f32 ik,kj"),
        (str(TABLES).replace("[17, 64]", "[0, 64]"), "there is no size within f32 ik,kj"),
        (str(TABLES).replace("[17, 64]", "[17]"), "rows[0].rows is [17], not a list of 2"),
        (str(TABLES).replace('"tile_rows": 4', '"tile_rows": "4"'), "is '4', not a whole number"),
    ],
)
def test_a_damaged_table_is_no_table_and_says_so(tmp_path: Path, text: str, why: str):
    path = tmp_path / "table.json"
    path.write_text(text, encoding="utf-8")
    with pytest.warns(LabWarning) as warned:
        assert read_defaults(path) == NONE
    (one,) = warned
    told = str(one.message)
    assert told.startswith("defaults: table.json is not read, and plans take their own numbers: ")
    assert why in told


def test_a_table_that_is_not_there_is_no_table(tmp_path: Path):
    with pytest.warns(LabWarning, match=r"no\.json is not read"):
        assert read_defaults(tmp_path / "no.json") == NONE


def test_the_shipped_table_is_sound():
    """A warning would be an error here."""
    table = read_defaults(TABLE)
    assert str(table) == TABLE.read_text(encoding="utf-8")
    for kind in table.kinds:
        assert len({(row.nest, row.ranges) for row in kind.rows}) == len(kind.rows)
        for row in kind.rows:
            assert row.ratio <= 0.98 if row.choices else row.ratio == 1.0, row
            assert row.tried, row
            assert row.date, row

"""The tables of the tiler: what is wrong in one is said of its row, and no plan hides it."""

from collections.abc import Mapping

import pytest

from luminal_lab.errors import DefinitionError
from luminal_lab.kernels.definition.text import parse_definition
from luminal_lab.kernels.make import make_kernel
from luminal_lab.kernels.nest.text import parse_nest
from luminal_lab.kernels.plans import cpu_contraction
from luminal_lab.kernels.plans.tiler import Tiler, run_levels
from luminal_lab.kernels.steps.levels import Level, Levels
from luminal_lab.kernels.steps.schedule import Scheduling
from luminal_lab.machines.machine import Machine
from tests.expect import error_of

PRODUCT = """\
nest matmul(a: f32[64, 32], b: f32[32, 48]) -> (c: f32[64, 48])
  for i < 64:
    for j < 48:
      local t: f32[] in registers
      t = 0.0
      for k < 32:
        t += a[i, k] * b[k, j]
      c[i, j] = t"""
MATMUL = """\
kernel matmul(a: f32[64, 32], b: f32[32, 48]) -> (c: f32[64, 48])
  c[i < 64, j < 48] = sum k < 32: a[i, k] * b[k, j]"""
TILE, SUM, OWN = Level("tile", "i j"), Level("", "k"), Level("own", "i j")
CUTS = {"i": {"tile": 4}, "j": {"tile": 16}}


def tiled(levels: Levels, cuts: Mapping[str, Mapping[str, int]]) -> None:
    axes = {axis: axis for axis in "ijk"}
    Tiler(Scheduling(parse_nest(PRODUCT)), axes, levels, cuts, ["k"]).apart()


def test_a_right_table_is_taken() -> None:
    tiled((TILE, SUM, OWN), CUTS)


@pytest.mark.parametrize(
    ("levels", "cuts", "problem"),
    [
        (
            (TILE, SUM, Level("own", "ij")),
            CUTS,
            "row 2, Level(word='own', axes='ij', kind='for'), has the axes 'ij'",
        ),
        (
            (Level("tile", "i x"), SUM, OWN),
            CUTS,
            "row 0, Level(word='tile', axes='i x', kind='for'), has the axes 'i x'",
        ),
        ((Level("tile", ""), SUM, OWN), CUTS, "has the axes ''"),
        (
            (TILE, Level("", "k", "twist"), OWN),
            CUTS,
            "row 1, Level(word='', axes='k', kind='twist'), runs as 'twist'",
        ),
        (
            (TILE, SUM, OWN, Level("own", "j")),
            CUTS,
            "row 3, Level(word='own', axes='j', kind='for')",
        ),
        ((TILE, OWN), CUTS, "no row has the axis 'k'"),
        (
            (TILE, SUM, OWN),
            {"i": {"tle": 4}},
            "i is cut into 'tle', and no row has it: its levels are 'tile', 'own'",
        ),
        (
            (Level("block", "i j"), TILE, SUM, OWN),
            CUTS,
            "i has the levels 'block', 'tile', 'own', and its cuts are ['tile']",
        ),
        ((TILE, SUM, OWN), {"x": {"tile": 4}}, "no row has the axis 'x'"),
    ],
)
def test_a_wrong_table_is_refused_by_its_row(
    levels: Levels, cuts: Mapping[str, Mapping[str, int]], problem: str
) -> None:
    error = error_of(lambda: tiled(levels, cuts), DefinitionError)
    assert error.message.startswith("levels: ")
    assert problem in error.message
    assert error.hint


def test_loops_that_are_run_by_a_wrong_table_are_not_left_as_they_are() -> None:
    scheduling = Scheduling(parse_nest(PRODUCT))
    table = (Level("turn", "i", "blok"), Level("own", "j"))
    message = r"row 0, Level\(word='turn', axes='i', kind='blok'\), runs as 'blok'"
    with pytest.raises(DefinitionError, match=message):
        run_levels(scheduling, {"i": "turn"}, table)


def test_a_plan_with_a_wrong_table_does_not_give_way_to_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    machine, definition = Machine(vector_bytes=16, cores=2), parse_definition(MATMUL)
    assert make_kernel(definition, "matmul", machine)
    monkeypatch.setattr(cpu_contraction, "TILES", (TILE, SUM, Level("ow", "i j")))
    error = error_of(lambda: make_kernel(definition, "matmul", machine), DefinitionError)
    assert error.message == "levels: a plan asks for 'own' of i, and no row has it"
    assert error.hint == "its levels are 'tile', 'ow'"

"""What steps ask of a nest: which iterations of a loop meet in one element."""

import subprocess
import sys
from itertools import product

import pytest
from hypothesis import given, strategies as st

from luminal_lab.core.dims import Dim, evaluate
from luminal_lab.core.dtypes import DType
from luminal_lab.core.op import TensorType
from luminal_lab.kernels.definition.terms import Number, axis_of
from luminal_lab.kernels.nest.nest import Access, Loop, Nest, Set, accesses
from luminal_lab.kernels.nest.text import parse_nest
from luminal_lab.kernels.steps.applied import applied, read_schedule
from luminal_lab.kernels.steps.step import apart


def written(size: str, place: str, loops: str) -> tuple[Nest, Access]:
    """Return a nest in which an element is written, and that access."""
    text = f"nest t(x: f32[]) -> (y: f32[{size}])\n"
    for depth, loop in enumerate(loops.split(", ")):
        text += "  " * (depth + 1) + f"for {loop}:\n"
    nest = parse_nest(text + " " * 40 + f"y[{place}] = x")
    (access,) = [one for one in accesses(nest.body) if one.name == "y"]
    return nest, access


@pytest.mark.parametrize(
    ("size", "place", "loops", "axis", "are_apart"),
    [
        ("1024", "i + 256*j", "j < 4, i < 256", "i", True),
        ("1024", "i + 256*j", "j < 4, i < 256", "j", True),
        ("2048", "i + 256*j", "j < 4, i < 257", "i", False),
        ("n", "i + 256*j", "j < n//256, i < 256", "i", True),
        ("2048", "4*i + 256*j + k", "j < 4, i < 64, k < 4", "i", True),
        ("2048", "4*i + 256*j + k", "j < 4, i < 64, k < 5", "i", False),
        ("9999", "i + 256*j + 128*k", "j < 4, k < 2, i < 128", "i", True),
        ("9999", "i + 256*j + 128*k", "j < 4, k < 2, i < 129", "i", False),
        ("9999", "255 - i + 256*j", "j < 4, i < 256", "i", True),
        ("n, 2", "i + 4*j, 0", "j < n, i < 4", "i", True),
    ],
)
def test_iterations_whose_places_differ_modulo_something_never_meet(
    size: str, place: str, loops: str, axis: str, are_apart: bool
) -> None:
    nest, access = written(size, place, loops)
    assert apart(nest, access, access, nest.loops[axis].axis, set()) is are_apart


@pytest.mark.parametrize(
    ("place", "loops", "steps", "are_apart"),
    [
        ("20*j + i", "j < 3, i < 20", ("split i by 6 as tile, own",), True),
        ("20*j + i", "j < 3, i < 21", ("split i by 6 as tile, own",), False),
        ("20*j + i", "j < 3, i < 20", ("split i by 12, 4 as block, tile, own",), True),
        ("19*j + i", "j < 3, i < 20", ("split i by 6 as tile, own",), False),
        ("30*j + 3*i", "j < 3, i < 10", ("split i by 4 as tile, own",), True),
        ("30*j + 3*i", "j < 3, i < 11", ("split i by 4 as tile, own",), False),
        # Three lines of ten are a task, and the last task has one.
        (
            "10*j + i",
            "j < 40, i < 10",
            ("split j by 3 as block, line", "merge j.line, i", "split ji by 8, 4 as a, b, c"),
            True,
        ),
    ],
)
def test_blocks_end_where_their_axis_does(
    place: str, loops: str, steps: tuple[str, ...], *, are_apart: bool
) -> None:
    nest, _ = written("999", place, loops)
    nest = applied(read_schedule("\n".join(steps), "t"), nest, "t").end
    (access,) = [each for each in accesses(nest.body) if each.name == "y"]
    axis = next(loop.axis for name, loop in nest.loops.items() if name.startswith("j"))
    assert apart(nest, access, access, axis, set()) is are_apart


FACTORS = st.integers(-6, 6)
SIZES = st.integers(1, 4)


@given(
    st.lists(st.tuples(FACTORS, FACTORS, SIZES), min_size=1, max_size=3), FACTORS, FACTORS, SIZES
)
def test_what_is_said_to_be_apart_is(
    others: list[tuple[int, int, int]], step: int, shift: int, size: int
) -> None:
    axis = axis_of("x", size)
    one: Dim = step * axis
    two: Dim = step * axis + shift
    ranges = [range(size)]
    for place, (first, second, extent) in enumerate(others):
        one, two = (
            one + first * axis_of(f"a{place}", extent),
            two + second * axis_of(f"a{place}", extent),
        )
        ranges.append(range(extent))
    names = ["x", *(f"a{place}" for place in range(len(others)))]
    nest = Nest("t", (), (), (Loop(axis, size, ()),))
    made = Set("y", (one,), Number(0, DType.float32))
    nest.__dict__["types"] = {"y": TensorType(DType.float32, (10_000,))}
    found = apart(nest, Access("y", (one,), "=", made), Access("y", (two,), "=", made), axis, set())
    places: dict[int, set[int]] = {}
    for values in product(*ranges):
        places.setdefault(evaluate(one, dict(zip(names, values, strict=True))), set()).add(
            values[0]
        )
    meet = False
    for values in product(*ranges):
        there = places.get(evaluate(two, dict(zip(names, values, strict=True))), set())
        meet = meet or bool(there - {values[0]})
    assert not (found and meet)


def test_a_step_is_found_by_its_word_though_nobody_has_imported_its_file():
    code = (
        "import sys\n"
        "from luminal_lab.kernels.steps.step import parse_step\n"
        "print(f'luminal_lab.kernels.steps.{sys.argv[2]}' in sys.modules)\n"
        "print(parse_step(sys.argv[1]))"
    )
    for text, file in {"pad x before i as padded": "arrays", "unroll i": "kinds"}.items():
        command = [sys.executable, "-c", code, text, file]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        assert done.stdout.splitlines() == ["False", text]

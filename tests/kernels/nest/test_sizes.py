"""What heuristics take sizes to be: dims, axes of loops, and dims with the bounds of axes."""

import pytest

from luminal_lab.core.dims import Symbol, minimum
from luminal_lab.core.dtypes import DType
from luminal_lab.kernels.definition.terms import Count
from luminal_lab.kernels.nest.sizes import MANY, USUAL, about, at_most, atoms, groups_of

N = Symbol("n", 1)
I = Symbol("i", 0, N - 1)  # noqa: E741  # an axis


def test_dims_are_of_a_usual_size_within_their_bounds() -> None:
    assert (about(N), at_most(N)) == (USUAL, MANY)
    assert about(2 * Symbol("m", 1, 100)) == 200
    assert at_most(Symbol("m", 1, 5000)) == 5000


def test_a_loop_is_as_long_as_in_the_first_iteration_of_those_around() -> None:
    assert about(minimum(8, N - 8 * I)) == 8
    assert about(N - I) == USUAL


def test_a_dim_that_may_be_0_counts_as_what_it_may_be() -> None:
    empty = Symbol("z", 0, 100)
    assert (about(empty), at_most(empty)) == (100, 100)
    assert at_most(Symbol("z", 0)) == MANY
    assert about(0) == 0
    assert (about(9 - N), at_most(9 - N)) == (9 - N.low, 9 - N.low)  # it shrinks as n grows


def test_the_atoms_of_a_multiple_end() -> None:
    rows = Symbol("rows", multiple_of=32)
    assert [*map(str, atoms([rows]))] == ["rows"]
    assert [*map(str, atoms([2 * (rows // 32), (I + 1) // 4]))] == [
        "rows//32",
        "rows",
        "(i + 1)//4",
        "i",
    ]


@pytest.mark.parametrize(
    ("divisors", "groups"),
    [
        ((256, 16, 32), [16, 32, 256]),
        ((4,), [4]),
        ((4, 32), [32]),  # few neighbours, where there are more
        ((16, 24), []),
        ((), []),
    ],
)
def test_groups_lie_within_groups(divisors: tuple[int, ...], groups: list[int]) -> None:
    k = Symbol("k", 0, 1023)
    counts = [Count(k // size, DType.int32) for size in divisors]
    assert groups_of("k", *counts) == groups
    assert groups_of("j", *counts) == []

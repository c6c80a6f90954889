"""Numbers for dims, worked out together: what `evaluate` says of each."""

from collections.abc import Callable

import pytest
from hypothesis import given, strategies as st

from luminal_lab.core.dims import Dim, Symbol, evaluate, maximum, minimum, symbols
from luminal_lab.errors import DimError, LabError
from luminal_lab.kernels.definition.numbers import Numbers

N, M = Symbol("n"), Symbol("text.m", 0, multiple_of=4)
OPERATIONS = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "//": lambda a, b: a // b,
    "%": lambda a, b: a % b,
    "<": lambda a, b: a < b,
    "min": minimum,
    "max": maximum,
}


def joined(parts: tuple[str, Dim, Dim]) -> Dim:
    sign, a, b = parts
    try:
        return 0 + OPERATIONS[sign](a, b)
    except (LabError, ZeroDivisionError):  # too long, or by 0
        return a


DIMS = st.recursive(
    st.sampled_from([0, 1, 7, -3, N, M, Symbol("k", 0, 9)]),
    lambda inner: st.tuples(st.sampled_from([*OPERATIONS]), inner, inner).map(joined),
    max_leaves=8,
)


@given(st.lists(DIMS, max_size=6), st.data())
def test_numbers_are_those_of_the_expressions(wanted, data):
    numbers = Numbers()
    places = [numbers.place(dim) for dim in wanted]
    names = sorted({symbol for dim in wanted for symbol in symbols(dim)}, key=str)
    for _ in range(3):
        sizes = {s.name: data.draw(st.integers(0, 9), s.name) * s.multiple_of for s in names}
        values = numbers.of(sizes)
        for dim, place in zip(wanted, places, strict=True):
            assert told(values.__getitem__, place) == told(evaluate, dim, sizes)


def told(number: Callable[..., int], *given: object) -> int | str:
    try:
        return number(*given)
    except LabError as error:
        return str(error)


def test_a_dim_that_comes_later_gets_the_next_place():
    numbers = Numbers()
    assert [*numbers.of({})] == []
    assert (numbers.place(N + M), numbers.of({"n": 1, "text.m": 8})) == (0, [9])
    assert (numbers.place(M // 4), numbers.place(N + M)) == (1, 0)
    assert numbers.of({"n": 1, "text.m": 8}) == [9, 2]


def test_only_what_has_no_value_is_an_error():
    numbers = Numbers()
    for dim in (N, 12 // N, maximum(M, 8)):
        numbers.place(dim)
    values = numbers.of({"n": 0, "text.m": 4})
    assert (values[0], values[2], len(values)) == (0, 8, 3)
    with pytest.raises(LabError, match="divided by 0"):
        values[1]
    with pytest.raises(DimError, match=r"dim 'text\.m' is not bound"):
        numbers.of({"n": 1})[2]
    assert numbers.of({"n": 1})[:2] == [1, 12]

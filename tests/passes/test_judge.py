"""The judge of arrays: what is not finite, what is small beside large values, what is open."""

from itertools import product

import ml_dtypes
import numpy as np
import pytest

from luminal_lab.core.dtypes import DType
from luminal_lab.core.interpret import Environment, interpret
from luminal_lab.core.op import ints
from luminal_lab.core.parse import parse
from luminal_lab.passes.judge import (
    READINGS,
    Freedom,
    Readings,
    broken_facts,
    differences,
    unexplained,
)

FLOATS = [np.float64, np.float32, np.float16, ml_dtypes.bfloat16]
STRANGE = [np.inf, -np.inf, np.nan]


def wrong(a: object, b: object, **how: bool) -> list[bool]:
    found = differences(np.asarray(a, np.float32), np.asarray(b, np.float32), **how)
    return found.reshape(-1).tolist()


@pytest.mark.parametrize("dtype", FLOATS, ids=lambda dtype: np.dtype(dtype).name)
def test_facts_are_those_that_some_element_violates(dtype):
    limits = ml_dtypes.finfo(dtype)
    kinds = {
        "no_nan": [np.nan, -np.nan],
        "no_inf": [np.inf, -np.inf],
        "no_subnormal": [float(limits.smallest_subnormal), -float(limits.smallest_normal) / 2],
        "": [0.0, -0.0, float(limits.smallest_normal), -1.0, float(limits.max)],
    }
    type = f"{DType(np.dtype(dtype).name).short}[2]"
    (x,) = parse(f"graph g(%x: {type}) -> (%x) {{\n}}").outputs
    for one, two in product(kinds, kinds):
        for pair in product(kinds[one], kinds[two]):
            for value in (np.array(pair).astype(dtype), np.array(pair[:1]).astype(dtype)[0]):
                wanted = {one, two if value.ndim else one} - {""}
                assert {*broken_facts(x, np.asarray(value), [])} == wanted, pair
    assert [*broken_facts(x, np.zeros((0, 3), dtype), [])] == []


@pytest.mark.parametrize("scaled", [False, True])
@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("dtype", FLOATS, ids=lambda dtype: np.dtype(dtype).name)
def test_what_is_not_finite_equals_nothing_but_its_own_kind(dtype, exact, scaled):
    values = np.array([*STRANGE, 0.0, 1.0, -1.0, float(ml_dtypes.finfo(dtype).max)]).astype(dtype)
    rows, columns = (np.ascontiguousarray(v) for v in np.broadcast_arrays(values[:, None], values))
    found = differences(rows, columns, exact=exact, scaled=scaled)
    assert found.tolist() == (~np.eye(len(values), dtype=bool)).tolist()


def test_an_array_of_infinities_agrees_with_nothing_finite():
    for value in (1.0, -np.inf, np.nan, 3e38):
        assert wrong([value] * 3, [np.inf] * 3, scaled=True) == [True] * 3
        assert wrong([np.inf] * 3, [value] * 3, scaled=True) == [True] * 3


def test_zeros_differ_in_their_sign_where_that_counts():
    assert wrong([0.0, -0.0, 0.0], [-0.0, -0.0, 0.0]) == [False] * 3
    for more in ({}, {"scaled": True}, {"exact": True}):
        assert wrong([0.0, -0.0, 0.0], [-0.0, -0.0, 0.0], signs=True, **more) == [
            True,
            False,
            False,
        ]


def test_one_huge_value_does_not_excuse_the_others():
    right = np.ones(20, np.float32)
    right[7] = 1e30
    found = right.copy()
    found[3] = 1.5
    assert np.argwhere(differences(right, found, scaled=True)).tolist() == [[3]]
    # What should be zero, and is not, is a value too, small as it is.
    rare, noisy = np.zeros(20, np.float32), np.full(20, 1e-5, np.float32)
    rare[7] = noisy[7] = 1e30
    assert differences(rare, noisy, scaled=True).sum() == 19


def test_what_is_left_of_larger_terms_is_held_to_their_size():
    right = np.random.default_rng(0).standard_normal(200).astype(np.float32)
    right[5] = 1e-7
    found = right.copy()
    found[5] = 3e-7
    assert not differences(right, found, scaled=True).any()
    assert np.argwhere(differences(right, found)).tolist() == [[5]]


def test_arrays_of_other_shapes_differ_even_where_one_is_empty():
    empty, one = np.zeros((0, 3)), np.zeros((2, 3))
    for pair in ((empty, one), (one, empty), (empty, np.zeros((0, 4))), (one, one.astype("f4"))):
        assert differences(*pair, scaled=True).any()
    assert not differences(empty, empty).any()


def test_integers_and_bools_are_equal_or_not():
    for dtype in (np.int64, np.uint8, np.bool_):
        a, b = np.array([0, 1, 1]).astype(dtype), np.array([0, 1, 0]).astype(dtype)
        assert differences(a, b, scaled=True).tolist() == [False, False, True]


# -- what a graph leaves open ----------------------------------------------------------------------

NONE, SIGNS, ROUNDINGS = Freedom(), Freedom(signs=True), Freedom(order=True)


def left(text: str, x: list[float], found: list[float], freedom: Freedom) -> list[bool]:
    """Return which values of a graph's output are wrong, for one input."""
    ir = parse(text)
    data = np.array(x, np.float32).reshape(ints(ir.inputs[0].shape))
    environment = Environment(lambda _: data)
    (id,) = ir.output_ids
    right = interpret(ir, environment)[id]
    made = np.array(found).astype(right.dtype).reshape(right.shape)
    others = list(Readings(ir, environment, [id], freedom).of(id))
    assert len(others) == READINGS
    apart = differences(right, made, exact=True, signs=not freedom.signs)
    return unexplained(apart, right, made, others).reshape(-1).tolist()


SUM = """graph g(%x: f32[2, 4]) -> (%y) {
  %y = sum_reduce{axis = 1} %x : f32[2, 1]
}"""
HUGE = 3e38


def test_a_sum_may_overflow_in_another_order_only_if_its_terms_can():
    rows = [HUGE, HUGE, -HUGE, -HUGE, HUGE, HUGE, HUGE, HUGE]
    for found in (0.0, np.inf, -np.inf, np.nan):  # of the first row; the second is infinite
        assert left(SUM, rows, [found, np.inf], NONE) == [False, False]
    assert left(SUM, rows, [0.0, HUGE], NONE) == [False, True]
    assert left(SUM, rows, [0.0, np.nan], NONE) == [False, True]
    met = [HUGE, HUGE, -np.inf, 1.0, np.inf, 1.0, 1.0, 1.0]  # where it overflows, it is NaN
    for found in (-np.inf, np.nan):
        assert left(SUM, met, [found, np.inf], NONE) == [False, False]
    assert left(SUM, met, [-np.inf, np.nan], NONE) == [False, True]
    small = [1.0, 2.0, 3.0, 4.0, -1.0, 1.0, -1.0, 1.0]
    assert left(SUM, small, [10.0, 0.0], NONE) == [False, False]
    assert left(SUM, small, [np.inf, 0.0], NONE) == [True, False]


def test_that_a_sum_is_equal_to_a_number_may_depend_on_its_order():
    text = """graph g(%x: f32[1, 9]) -> (%r) {
      %s = sum_reduce{axis = 1} %x : f32[1, 1]
      %h = constant{value = 1.0} : f32[1, 1]
      %a = less_than %s, %h : bool[1, 1]
      %b = less_than %h, %s : bool[1, 1]
      %r = add %a, %b : bool[1, 1]
    }"""
    least = 2.0**-24
    x = np.array([1.0, *[least] * 8], np.float32)  # one after another they leave it at 1
    assert np.sum(x) > 1
    assert left(text, x.tolist(), [False], NONE) == [False]
    assert left(text, [2.0, *[least] * 8], [False], NONE) == [True]


SUM_OF_SUMS = """graph g(%x: f32[1, 2, 3]) -> (%y) {
  %1 = sum_reduce{axis = 2} %x : f32[1, 2, 1]
  %2 = permute{axes = [0, 2, 1]} %1 : f32[1, 1, 2]
  %y = sum_reduce{axis = 2} %2 : f32[1, 1, 1]
}"""


def test_a_sum_of_sums_is_one_sum_in_any_order():
    terms = [-2e38, 0.0, 0.0, -3e38, 2.9e38, 0.0]
    for found in (-2.1e38, -np.inf):
        assert left(SUM_OF_SUMS, terms, [found], NONE) == [False]
    assert left(SUM_OF_SUMS, [1.0, 2.0, 3.0, 4.0, 5.0, 6.0], [np.inf], NONE) == [True]


def test_each_of_several_sums_may_overflow_in_a_way_of_its_own():
    apart = """graph g(%x: f32[2, 5]) -> (%y) {
      %1 = slice{start = [0, 0], stop = [2, 4], step = [1, 1]} %x : f32[2, 4]
      %2 = mul %1, %1 : f32[2, 4]
      %3 = mul %2, %1 : f32[2, 4]
      %4 = sum_reduce{axis = 1} %3 : f32[2, 1]
      %5 = slice{start = [0, 4], stop = [2, 5], step = [1, 1]} %x : f32[2, 1]
      %6 = mul %4, %5 : f32[2, 1]
      %y = sum_reduce{axis = 0} %6 : f32[1, 1]
    }"""
    unrounded = Freedom(order=True, functions=True, contract=True)
    for found in (np.inf, -np.inf):
        terms = [3e18, 2e18, -3e18, 2e18, 1.0, 2e18, 3e18, -3.1e18, 2e18, -1.0]
        assert left(apart, terms, [found], unrounded) == [False]
    assert left(apart, [1.0] * 10, [np.inf], unrounded) == [True]


def test_what_is_stored_may_be_infinite_where_what_is_added_up_is_not_yet():
    twice = """graph g(%x: f32[3, 4]) -> (%y) {
      %1 = slice{start = [0, 0], stop = [3, 3], step = [1, 1]} %x : f32[3, 3]
      %2 = mul %1, %1 : f32[3, 3]
      %3 = mul %2, %1 : f32[3, 3]
      %4 = sum_reduce{axis = 1} %3 : f32[3, 1]
      %5 = slice{start = [0, 3], stop = [3, 4], step = [1, 1]} %x : f32[3, 1]
      %6 = mul %4, %5 : f32[3, 1]
      %7 = sum_reduce{axis = 0} %6 : f32[1, 1]
      %8 = constant{value = 0.0} : f32[1, 1]
      %9 = less_than %8, %7 : bool[1, 1]
      %y = cast{dtype = f32} %9 : f32[1, 1]
    }"""
    unrounded = Freedom(order=True, functions=True, contract=True)
    # -inf * -1e-15, and then -1e36 * 1e22, which is not infinite before it has been added.
    terms = [-2e18, 0.0, 0.0, -1e-15, -1e12, 0.0, 0.0, 1e22, 0.0, 0.0, 0.0, 0.0]
    assert left(twice, terms, [1.0], unrounded) == [False]
    assert left(twice, [1.0] * 12, [0.0], unrounded) == [True]


def test_a_graph_of_scalars_is_read_like_any_other():
    text = "graph g(%x: f32[]) -> (%y) { %y = exp2 %x : f32[] }"
    assert left(text, [1.0], [np.nextafter(np.float32(2), np.float32(3))], ROUNDINGS) == [False]
    assert left(text, [1.0], [2.1], ROUNDINGS) == [True]


def test_that_the_sign_of_a_zero_is_open_excuses_no_other_number():
    nothing = "graph g(%x: f32[2, 0]) -> (%y) { %y = sum_reduce{axis = 1} %x : f32[2, 1] }"
    assert left(nothing, [], [-0.0, 7.0], NONE) == [False, True]
    assert left(RECIP, [np.inf] * 4, [0.0, -0.0, 1e-30, np.nan], SIGNS) == [False] * 2 + [True] * 2


def test_a_sum_may_be_off_by_a_part_of_its_terms_and_no_more():
    rows = [1e8, 1.0, -1e8, 1.0, 1.0, 1.0, 1.0, 1.0]
    assert left(SUM, rows, [0.0, 4.0], NONE) == [False, False]
    assert left(SUM, rows, [2.0, 4.0], NONE) == [False, False]
    assert left(SUM, rows, [1e6, 4.0], NONE) == [True, False]
    assert left(SUM, rows, [1.0, 4.001], NONE) == [False, True]


RECIP = """graph g(%x: f32[4]) -> (%y) {
  %y = recip %x : f32[4]
}"""


def test_the_sign_of_a_zero_is_open_with_all_that_it_decides():
    x = [0.0, -0.0, 2.0, np.inf]
    flipped = [-np.inf, np.inf, 0.5, -0.0]
    assert left(RECIP, x, flipped, SIGNS) == [False] * 4
    assert left(RECIP, x, flipped, NONE) == [True, True, False, True]
    assert left(RECIP, x, [-np.inf, np.inf, -0.5, 0.0], SIGNS) == [False, False, True, False]
    assert left(RECIP, x, [np.nan, 0.0, np.inf, 1.0], ROUNDINGS) == [True] * 4


def test_another_rounding_changes_no_sign_of_a_zero():
    text = """graph g(%x: f32[2]) -> (%y) {
      %c = constant{value = 3.0} : f32[2]
      %y = mul %x, %c : f32[2]
    }"""
    assert left(text, [-0.0, 0.0], [0.0, -0.0], ROUNDINGS) == [True, True]


def test_what_rounds_otherwise_is_off_by_units_in_the_last_place():
    x, eps = [1.0, 3.0, 1e-30, 7.0], float(np.finfo(np.float32).eps)
    right = (1 / np.array(x, np.float32)).astype(float)
    assert left(RECIP, x, list(right * (1 + eps)), ROUNDINGS) == [False] * 4
    assert left(RECIP, x, list(right * (1 + eps)), NONE) == [True] * 4
    assert left(RECIP, x, list(right * (1 + 1e-4)), ROUNDINGS) == [True] * 4


def test_what_roundings_decide_is_open_and_nothing_else():
    text = """graph g(%x: f32[4]) -> (%y) {
      %t = constant{value = 0.1} : f32[4]
      %p = mul %x, %t : f32[4]
      %h = constant{value = 0.3} : f32[4]
      %y = less_than %p, %h : bool[4]
    }"""
    x = [3.0, 2.9, 3.1, -3.0]
    assert left(text, x, [True, True, False, True], ROUNDINGS) == [False] * 4
    assert left(text, x, [False, True, False, True], ROUNDINGS) == [False] * 4
    assert left(text, x, [True, False, True, False], ROUNDINGS) == [False, True, True, True]

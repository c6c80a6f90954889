"""What a check of values draws: the edges of each dtype, all integers, sizes 0 and 1, indices."""

import ml_dtypes
import numpy as np
import pytest

from luminal_lab.core.dtypes import DType
from luminal_lab.core.parse import parse
from luminal_lab.passes.draws import KINDS, TURNS, Given, Sample, _numbers, draws
from luminal_lab.passes.judge import limits_of

FLOATS = [dtype for dtype in DType if dtype.is_float]
INTEGERS = [dtype for dtype in DType if dtype.kind == "int"]


SIZES = {"small": (1e-4, 1e-2), "normal": (0.1, 10), "wide": (1e2, 1e4)}
"""Between which sizes half of some numbers are."""


def drawn(text: str, **given: object) -> list[Sample]:
    return list(draws(parse(text), Given(**given)))  # pyright: ignore[reportArgumentType]


def one_input(dtype: DType, shape: str = "30") -> str:
    kind = f"{dtype.short}[{shape}]"
    return f"graph g(%x: {kind}) -> (%y) {{ %y = add %x, %x : {kind} }}"


@pytest.mark.parametrize("dtype", FLOATS)
def test_floats_reach_all_edges_of_their_dtype(dtype):
    values = {one.kind: one.data[0] for one in drawn(one_input(dtype))}
    assert list(values) == ["normal", *KINDS]
    limits = limits_of(dtype)
    edges, large, strange = (
        values[kind].astype(np.float64) for kind in ("edges", "large", "not finite")
    )
    for number in (limits.normal, -limits.normal, limits.least, -limits.least, 1 + limits.step):
        assert number in edges
    assert {False, True} <= set(np.signbit(edges[edges == 0]).tolist())
    assert {limits.most, -limits.most} <= set(large.tolist())
    with np.errstate(over="ignore"):
        doubled, squared = (
            call(values["large"], values["large"]) for call in (np.add, np.multiply)
        )
    small = abs(large) < limits.most / 3
    assert np.isinf(doubled.astype(np.float64)[~small]).any()
    assert np.isinf(squared.astype(np.float64)[small]).any()
    assert np.isfinite(edges).all()
    assert np.isfinite(large).all()
    assert {np.inf, -np.inf} <= set(strange.tolist())
    assert np.isnan(strange).any()
    assert np.isfinite(strange).any()
    for kind, (least, most) in SIZES.items():
        sizes = abs(values[kind].astype(np.float64))
        assert least <= np.median(sizes) <= most
    assert (values["positive"].astype(np.float64) > 0).all()
    # A maximum that begins at some number of the dtype is wrong where all are below it.
    assert (values["low"].astype(np.float64) <= -limits.most / 2048).all()
    assert (values["high"].astype(np.float64) >= limits.most / 2048).all()
    assert (values["least"].astype(np.float64) == -np.inf).all()
    assert (values["most"].astype(np.float64) == np.inf).all()
    tiny = abs(values["tiny"].astype(np.float64))
    assert (tiny < 8 * limits.normal).all()
    assert ((tiny > 0) & (tiny < limits.normal)).sum() > 10


@pytest.mark.parametrize("dtype", INTEGERS)
def test_integers_are_drawn_from_their_whole_range(dtype):
    values = np.concatenate([one.data[0] for one in drawn(one_input(dtype))])
    low, high = dtype.limits
    assert {low, high, 0, 1} <= set(values.tolist())
    assert len(set(values.tolist())) > 40


def test_few_numbers_are_strange_where_strange_ones_are_rare():
    found = {one.kind: one.data[0] for one in drawn(one_input(DType.float32, "9, 32"))}
    strange = ~np.isfinite(found["rare"])
    assert np.isnan(found["rare"]).any()
    assert strange.any(1).sum() >= 2
    assert 2 <= strange.sum() <= 40


def test_bools_are_all_alike_too():
    values = {
        one.kind: one.data[0] for one in drawn(one_input(DType.bool_).replace("add", "less_than"))
    }
    assert not values["least"].any()
    assert values["most"].all()


def test_even_a_few_values_are_strange_ones():
    for count in (1, 2, 3):
        found = {one.kind: one.data[0] for one in drawn(one_input(DType.float32, str(count)))}
        strange = found["not finite"]
        assert (~np.isfinite(strange) | (strange == 0)).sum() >= (2 * count) // 3


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shape", ["2", "3", "4", "2, 3"])
def test_small_inputs_meet_all_corners_in_turns(dtype: DType, shape: str) -> None:
    samples = drawn(one_input(dtype, shape))
    for kind, corners in _numbers(dtype).items():
        if kind != "plain":
            turns = [one.data[0] for one in samples if one.kind == kind]
            assert 1 < len(turns) <= TURNS or kind == "not finite"
            seen = {value.tobytes() for turn in turns for value in turn.ravel()}
            assert seen >= {value.tobytes() for value in corners.astype(dtype.numpy)}


def test_two_small_inputs_meet_other_corners_in_each_turn() -> None:
    text = "graph g(%x: f32[3], %y: f32[3]) -> (%z) { %z = add %x, %y : f32[3] }"
    edges = [one.data for one in drawn(text) if one.kind == "edges"]
    assert len(edges) == TURNS
    assert any(data[0].tobytes() != data[1].tobytes() for data in edges)


def test_large_inputs_are_drawn_once() -> None:
    text = "graph g(%x: f32[3], %y: f32[5000]) -> (%x, %y) { }"
    assert [one.kind for one in drawn(text)].count("edges") == 1


def test_sizes_are_1_and_0_where_the_bounds_allow_it():
    text = """graph g[n: 0.., k: 1..9, m: 4..8 by 4](%x: f32[n, k, m]) -> (%y) {
      %y = add %x, %x : f32[n, k, m]
    }"""
    found = {one.kind: one for one in drawn(text)}
    shapes = {kind: one.data[0].shape for kind, one in found.items()}
    assert shapes["size 0"] == (0, *shapes["normal"][1:])
    assert shapes["size 1"] == (1, 1, 4)
    assert not (np.abs(found["size 1"].data[0].astype(float)) < 1e9).all()


def test_each_symbolic_dim_is_empty_by_itself():
    text = "graph g[a: 0.., b: 0..](%x: f32[a, b]) -> (%y) { %y = add %x, %x : f32[a, b] }"
    empty = [one.data[0].shape for one in drawn(text) if one.kind == "size 0"]
    assert empty == [(0, 3), (2, 0)]


def test_what_becomes_an_index_stays_one_and_all_else_does_not():
    text = """graph g(%t: f32[3, 4], %i: i64[2, 4], %j: i64[2, 4], %n: i64[2, 4]) -> (%y, %z) {
      %one = constant{value = 1} : i64[2, 4]
      %k = mul %i, %one : i64[2, 4]
      %y = gather{axis = 0} %t, %k : f32[2, 4]
      %u = call{body = inner} %t, %j : f32[2, 4]
      %z = mul %n, %n : i64[2, 4]
      %w = add %u, %y : f32[2, 4]
    }
    graph inner(%a: f32[3, 4], %b: i64[2, 4]) -> (%r) {
      %r = gather{axis = 0} %a, %b : f32[2, 4]
    }"""
    found = drawn(text)
    assert [one.kind for one in found[-2:]] == ["below", "beyond"]
    assert [int(one.data[1].min()) < 0 for one in found[-2:]] == [True, False]
    assert [int(one.data[2].max()) for one in found[-2:]] == [2, 3]
    for one in found[:-2]:
        for id in (1, 2):
            assert one.data[id].min() >= 0
            assert one.data[id].max() < 3
    assert max(int(one.data[3].max()) for one in found) == 2**63 - 1
    assert min(int(one.data[3].min()) for one in found) == -(2**63)


def test_what_is_set_is_used_where_it_fits_and_strange_values_are_tried_all_the_same():
    mine = np.full(30, 7, np.float32)
    found = {one.kind: one.data[0] for one in drawn(one_input(DType.float32), data={0: mine})}
    assert found.pop("normal") is mine
    assert not any((values == mine).all() for values in found.values())
    small = np.full(2, 7, np.float32)
    assert drawn(one_input(DType.float32), data={0: small})[0].data[0].shape == (30,)


def test_bfloat16_is_drawn_as_itself():
    (first, *_) = drawn(one_input(DType.bfloat16))
    assert first.data[0].dtype == ml_dtypes.bfloat16


def test_symbolic_sizes_make_room_for_many_numbers():
    (normal, *others) = drawn(one_input(DType.float32, "n"))
    assert normal.data[0].size == 2
    assert {one.data[0].size for one in others} == {33, 20011, 1}


def test_no_size_is_drawn_at_which_an_axis_would_have_less_than_no_elements():
    kind = "f32[n - 4]"
    text = f"graph g[n: 4..](%x: {kind}) -> (%y) {{ %y = add %x, %x : {kind} }}"
    loose = text.replace("[n: 4..]", "")
    for one in (*drawn(text), *drawn(loose)):
        assert one.dims["n"] >= 4
    assert {"normal", "long"} <= {one.kind for one in drawn(loose)}


def test_long_sizes_are_equal_and_end_where_values_would_be_too_many():
    square = "graph g(%x: f32[n, m]) -> (%y) { %y = add %x, %x : f32[n, m] }"
    (one,) = (one for one in drawn(square) if one.kind == "long")
    assert one.dims == {"n": 257, "m": 257}
    scores = "graph g(%x: f32[8, n, n, 8]) -> (%y) { %y = add %x, %x : f32[8, n, n, 8] }"
    assert [one.dims for one in drawn(scores) if one.kind == "long"] == [{"n": 67}]
    bounded = "graph g[n: 1..40](%x: f32[n]) -> (%y) { %y = add %x, %x : f32[n] }"
    assert [one.dims for one in drawn(bounded) if one.kind == "long"] == [{"n": 40}]
    cube = "graph g(%x: f32[n, n, n, n]) -> (%y) { %y = add %x, %x : f32[n, n, n, n] }"
    assert [one.dims for one in drawn(cube) if one.kind == "long"] == [{"n": 19}]
    assert "long" not in [one.kind for one in drawn(one_input(DType.float32))]
    few = drawn(one_input(DType.float32, "n").replace("graph g(", "graph g[n: 1..5]("))
    assert {one.data[0].size for one in few} == {2, 5, 1}


@pytest.mark.parametrize("dtype", [DType.float32, DType.bfloat16, DType.int32, DType.bool_])
def test_a_scalar_is_an_array_too(dtype: DType):
    for sample in drawn(one_input(dtype, "")):
        assert isinstance(sample.data[0], np.ndarray)

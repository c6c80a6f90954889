"""How far values are from float64's, and the graphs that compute those."""

import math

import numpy as np
import pytest

import luminal_lab as ll
from luminal_lab.core.interpret import Environment
from luminal_lab.core.parse import parse
from luminal_lab.viz.live.precise import distance, errors_of, widened


def environment(**data: object) -> Environment:
    arrays = {name: np.asarray(value, np.float32) for name, value in data.items()}
    return Environment(lambda node: arrays[node.name])


def test_a_rounded_sum_is_found():
    ir = parse(
        "graph g(%x: f32[3]) -> (%s) { %d = mul %x, %x : f32[3]"
        " %s = sum_reduce{axis = 0} %d : f32[1] }"
    )
    found = errors_of(ir, None, environment(x=[1e4, 1.0, 1e-4]))
    by_name = {ir[id].name: error for id, error in found.values.items()}
    assert by_name["x"] == 0.0
    assert 0 < by_name["s"] < 1e-6
    assert found.text.startswith("what NumPy's interpreter computes against float64; the largest")


def test_a_half_is_far_from_it():
    ir = parse(
        "graph g(%x: f32[2]) -> (%y) { %h = cast{dtype = bf16} %x : bf16[2]"
        " %y = cast{dtype = f32} %h : f32[2] }"
    )
    found = errors_of(ir, None, environment(x=[1.001, 3.14159]))
    assert found.values[ir["y"].id] == pytest.approx(5.9e-4, rel=0.5)


def test_what_overflows_is_infinitely_far():
    ir = parse("graph g(%x: f32[1]) -> (%y) { %y = mul %x, %x : f32[1] }")
    found = errors_of(ir, None, environment(x=[1e30]))
    assert found.values[ir["y"].id] == math.inf


def test_whole_numbers_and_views_are_left_out():
    ir = parse(
        "graph g(%x: f32[2]) -> (%v, %n) { %v = reshape{shape = [2, 1]} %x : f32[2, 1]"
        " %n = cast{dtype = i32} %x : i32[2] }"
    )
    found = errors_of(ir, None, environment(x=[1, 2]))
    assert set(found.values) == {ir["x"].id}
    assert found.text.endswith("; 1 values are views, or too large")


def test_bits_are_those_of_the_narrow_float():
    ir = parse(
        "graph g(%x: f32[2]) -> (%y) { %i = bitcast{dtype = i32} %x : i32[2]"
        " %y = bitcast{dtype = f32} %i : f32[2] }"
    )
    wide, _ = widened(ir)
    assert {str(node.dtype) for node in wide.outputs} == {"float64"}
    found = errors_of(ir, None, environment(x=[1.5, -0.1]))
    assert found.values[ir["y"].id] == 0.0


def test_random_numbers_stay_what_they_are():
    cx = ll.Graph("g")
    y = (cx.rand((4,)) * 3).retrieve()
    wide, into = widened(cx.ir)
    assert {str(node.dtype) for node in wide.outputs} == {"float64"}
    assert into[y.id] == y.id
    found = errors_of(cx.ir, None, environment())
    assert max(found.values.values()) < 1e-6


@pytest.mark.parametrize("model", ["softmax", "layer_norm", "gelu"])
def test_recognised_regions_are_widened_too(model: str):
    cx = ll.Graph("g")
    x = cx.tensor((4, 8), name="x")
    {
        "softmax": lambda: x.softmax(-1),
        "layer_norm": lambda: x.layer_norm(-1),
        "gelu": lambda: x.gelu(),
    }[model]().retrieve()
    compilation = cx.compile()
    data = np.random.default_rng(0).standard_normal((4, 8))
    for ir in (compilation.written, compilation.ir):
        found = errors_of(ir, None, environment(x=data))
        assert max(found.values.values()) < 1e-5
        assert ir.output_ids[0] in found.values


@pytest.mark.parametrize(
    ("found", "exact", "wanted"),
    [
        ([1.0, 2.0], [1.0, 2.0], 0.0),
        ([math.nan, math.inf], [math.nan, math.inf], 0.0),
        ([1.0, math.nan], [1.0, 2.0], math.inf),
        ([math.inf, 1.0], [-math.inf, 1.0], math.inf),
        ([1e-3, 0.0], [0.0, 0.0], math.inf),
        ([3.0, 5.0], [3.0, 4.0], 1 / math.sqrt(12.5)),
        ([2e300, 0.0], [1e300, 0.0], math.sqrt(2)),
        ([1.0, math.inf], [2.0, math.inf], 0.5),
    ],
)
def test_distances(found: list[float], exact: list[float], wanted: float):
    assert distance(np.array(found), np.array(exact)) == pytest.approx(wanted)

"""What is held to what: outputs to the definition, in whole or in blocks; and the wrong step."""

from dataclasses import replace

import numpy as np
import pytest

from luminal_lab.core.dtypes import DType
from luminal_lab.kernels.definition.evaluate import evaluate
from luminal_lab.kernels.definition.text import parse_definition
from luminal_lab.kernels.nest.nest import Loop, Nest, Statement, mapped
from luminal_lab.kernels.steps.kinds import Parallel
from luminal_lab.search import validate
from luminal_lab.search.validate import difference, drawn, wrong_by_definition, wrong_step
from tests.search.planted import matmul

ROWS = """kernel rows(table: f32[9, 4], at: i32[n]) -> (y: f32[n, 4])
  y[i < n, j < 4] = table[at at[i], j]"""
SOFTMAX = """kernel softmax(x: f32[70, 90]) -> (y: f32[70, 90])
  m[i < 70] = max j < 90: x[i, j]
  e[i < 70, j < 90] = exp2(x[i, j] - m[i])
  y[i < 70, j < 90] = e[i, j] * recip(sum k < 90: e[i, k])"""
ONE_PASS = (
    "kernel softmax(x: f32[600, 600]) -> (y: f32[600, 600])\n"
    "  y[i < 600, j < 600] = exp2(x[i, j] - m) * recip(l) where (m, l) = "
    "fold k < 600 from (-3.4e38, 0.0): let a = math.maximum(m, x[i, k]); "
    "(a, l * exp2(m - a) + exp2(x[i, k] - a))"
)
SCHEDULE = "split i by 8\nsplit j by 16\nreorder j.block, i.own\nparallel i.block"


def test_positions_are_drawn_in_range():
    definition = parse_definition(ROWS)
    inputs = drawn(definition, {"n": 50}, 1)
    assert inputs["at"].min() == 0
    assert inputs["at"].max() == 8
    np.testing.assert_array_equal(inputs["at"], drawn(definition, {"n": 50}, 1)["at"])
    assert (inputs["table"] != drawn(definition, {"n": 50}, 2)["table"]).any()


@pytest.mark.parametrize(("whole", "real"), [("u32", "f32"), ("i64", "f64"), ("u16", "bf16")])
def test_integers_that_are_read_as_floats_are_drawn_as_such(whole: str, real: str):
    text = f"kernel f(x: {whole}[90], k: {whole}[90]) -> (y: {real}[90])\n"
    text += f"  y[i < 90] = bitcast{{dtype = {real}}}(bit_xor(x[i], 1_{whole}))"
    definition = parse_definition(text)
    assert definition.floats == {"x": DType(real)}
    inputs = drawn(definition, {}, 0)
    values = inputs["x"].view(DType(real).numpy).astype(float)
    assert 0.5 < np.abs(values).mean() < 2
    assert inputs["k"].max() < 50


@pytest.mark.parametrize("points", [1 << 20, 1 << 12, 1 << 6])
@pytest.mark.parametrize("text", [matmul(40, 30, 20), SOFTMAX])
def test_outputs_are_held_to_the_definition(
    monkeypatch: pytest.MonkeyPatch, text: str, points: int
):
    definition = parse_definition(text)
    inputs = drawn(definition, {}, 0)
    made = evaluate(definition, inputs)
    monkeypatch.setattr(validate, "MOST_POINTS", points)
    assert wrong_by_definition(definition, inputs, made, 0) is None
    name = definition.outputs[0].name
    wrong = {name: made[name].copy()}
    wrong[name][-1, -1] += 1
    said = wrong_by_definition(definition, inputs, wrong, 0)
    # A local that is larger than all that is evaluated leaves nothing to hold the output to.
    assert said is None if text == SOFTMAX and points < 1 << 20 else said is not None
    if said is not None:
        assert said.startswith(f"{name}[")


def test_a_difference_says_where():
    right, made = {"y": np.ones((2, 3), np.float32)}, {"y": np.ones((2, 3), np.float32)}
    assert difference(right, made) is None
    made["y"][1, 2] = np.nan
    assert difference(right, made) == ("y[1, 2] is nan, and should be 1.0; 1 of 6 are wrong")


def loses_the_last(step: Parallel, nest: Nest) -> Nest:
    """A step that leaves out the last iteration of a loop."""

    def shorter(one: Statement) -> Statement:
        if isinstance(one, Loop) and one.name in step.names:
            return replace(one, size=one.size - 1, kind="parallel")
        return one

    return replace(nest, body=mapped(nest.body, shorter))


@pytest.mark.parametrize("sizes", [(20, 6, 24), (512, 512, 512)])
def test_the_wrong_step_is_found(monkeypatch: pytest.MonkeyPatch, sizes: tuple[int, int, int]):
    definition = parse_definition(matmul(*sizes))
    assert wrong_step(definition, SCHEDULE) == ""
    monkeypatch.setattr(Parallel, "apply", loses_the_last)
    assert wrong_step(definition, SCHEDULE) == "parallel i.block"
    assert wrong_step(definition, "split i by 8\nparallel i.block\nsplit j by 16") == (
        "parallel i.block"
    )


def test_the_wrong_step_of_a_pass_of_several_values_is_found(monkeypatch: pytest.MonkeyPatch):
    definition = parse_definition(ONE_PASS)
    assert wrong_step(definition, "parallel i") == ""
    monkeypatch.setattr(Parallel, "apply", loses_the_last)
    assert wrong_step(definition, "parallel i") == "parallel i"


def test_no_step_is_blamed_where_sizes_depend_on_each_other():
    definition = parse_definition(
        "kernel f(x: f32[600, 600]) -> (y: f32[360000])\n  y[i < 360000] = x[i // 600, i % 600]"
    )
    assert wrong_step(definition, "parallel i") == ""

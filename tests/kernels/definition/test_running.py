"""Passes with several values: their text, their values, and what blocks of positions can share."""

from typing import Any

import numpy as np
import pytest

from luminal_lab.errors import ParseError
from luminal_lab.kernels.definition.canonical import canonical
from luminal_lab.kernels.definition.cost import flops
from luminal_lab.kernels.definition.definition import Definition
from luminal_lab.kernels.definition.evaluate import evaluate
from luminal_lab.kernels.definition.running import Running, running
from luminal_lab.kernels.definition.terms import passes
from luminal_lab.kernels.definition.text import parse_definition
from luminal_lab.kernels.make import make_kernel
from luminal_lab.kernels.nest.evaluate import evaluate_nest
from luminal_lab.kernels.nest.lowering import lower
from luminal_lab.machines.machine import Machine
from tests.expect import error_of
from tests.kernels.running import run_together

SOFTMAX = """\
kernel softmax(x: f32[n, t]) -> (y: f32[n, t])
  y[i < n, j < t] = exp2(x[i, j] - m) * recip(l) where (m, l) = \
fold k < t from (-3.4028235e+38, 0.0): \
let a = math.maximum(m, x[i, k]); (a, l * exp2(m - a) + exp2(x[i, k] - a))"""
MOMENTS = """\
kernel moments(x: f32[n, t]) -> (y: f32[n])
  y[i < n] = acc - l * l * 0.1 where (l, acc) = \
fold j < t from (0.0, 0.0): (l + x[i, j], acc + x[i, j] * x[i, j])"""
WELFORD = """\
kernel variance(x: f32[n, t]) -> (y: f32[n])
  y[i < n] = acc * recip(f32[t]) where (l, acc) = fold j < t from (0.0, 0.0): \
let a = l + (x[i, j] - l) * recip(f32[j + 1]); (a, acc + (x[i, j] - l) * (x[i, j] - a))"""
DECAY = """\
kernel decay(x: f32[n, t]) -> (y: f32[n])
  y[i < n] = l where (l) = fold j < t from (1.0): (l * 0.5 + x[i, j])"""
TWICE = """\
kernel twice(x: f32[n, t]) -> (y: f32[n])
  y[i < n] = (let a = l * l + 0.5 + l; a * a) where (l) = fold j < t from (0.0): \
(l * 0.5 + x[i, j])"""
RANGE = """\
kernel range(x: f32[n, t]) -> (y: f32[n])
  y[i < n] = m + m_2 where (m, m_2) = fold j < t from (-inf, -inf): \
(math.maximum(m, x[i, j]), math.maximum(m_2, x[i, j] * -1.0))"""
NESTED = """\
kernel nested(x: f32[n, t], w: f32[t, 3]) -> (y: f32[n])
  y[i < n] = l * recip(acc) where (l, acc) = fold j < t from (0.0, 0.0): \
(l + (m + x[i, j] where (m) = fold k < 3 from (-inf): (math.maximum(m, w[j, k] * x[i, j]))), \
acc + 1.0)"""
TEXTS = {
    "softmax": SOFTMAX,
    "moments": MOMENTS,
    "welford": WELFORD,
    "decay": DECAY,
    "twice": TWICE,
    "range": RANGE,
    "nested": NESTED,
}
HERE = Machine(32, 2)
N, T = 3, 130
X = np.random.default_rng(0).normal(size=(N, T)).astype(np.float32)
W = np.random.default_rng(1).normal(size=(T, 3)).astype(np.float32)


def values(text: str) -> tuple[Running, ...]:
    (line,) = parse_definition(text).outputs
    (fold,) = passes(line.term)
    return running(fold)


def computed(definition: Definition) -> list[Any]:
    """Return the result by definition, and by the plainest nest."""
    inputs, dims = {"x": X, "w": W}, {"n": N, "t": T}
    given = {name: inputs[name] for name, _ in definition.inputs}
    return [
        evaluate(definition, given, dims)["y"],
        evaluate_nest(lower(definition), given, dims)["y"],
    ]


def expected(name: str) -> Any:
    x = X.astype(float)
    match name:
        case "softmax":
            power = np.exp2(x - x.max(1, keepdims=True))
            return power / power.sum(1, keepdims=True)
        case "moments":
            return (x**2).sum(1) - 0.1 * x.sum(1) ** 2
        case "welford":
            return x.var(1)
        case "decay":
            return x @ (0.5 ** np.arange(T)[::-1]) + 0.5**T
        case "twice":
            last = x @ (0.5 ** np.arange(T)[::-1])
            return (last**2 + 0.5 + last) ** 2
        case "range":
            return x.max(1) - x.min(1)
        case _:
            return ((W * x[:, :, None]).max(2) + x).sum(1) / T


@pytest.mark.parametrize("name", TEXTS)
def test_the_text_is_read_as_it_is_written(name: str) -> None:
    definition = parse_definition(TEXTS[name])
    assert parse_definition(str(definition)) == definition
    named = canonical(definition)
    assert str(parse_definition(str(named))) == str(named)
    assert canonical(named) == named
    assert len(str(named)) <= len(TEXTS[name])


@pytest.mark.parametrize("name", TEXTS)
def test_it_computes_what_it_says(name: str) -> None:
    definition = canonical(parse_definition(TEXTS[name]))
    for result in computed(definition):
        np.testing.assert_allclose(result, expected(name), rtol=1e-4, atol=1e-5)


def test_compiled_for_a_processor_it_computes_the_same() -> None:
    kernels = [
        make_kernel(canonical(parse_definition(text)), name, HERE) for name, text in TEXTS.items()
    ]
    for kernel, run in zip(kernels, run_together(kernels), strict=True):
        found = run({"x": X, "w": W}, {"n": N, "t": T})["y"]
        np.testing.assert_allclose(found, expected(kernel.name), rtol=1e-4, atol=1e-5)


def test_blocks_share_maxima_and_sums_that_follow_them() -> None:
    largest, total = values(SOFTMAX)
    assert (str(largest.term), largest.is_sum) == ("x[i, k]", False)
    assert total.weights == (total.term,)
    assert [value.ratio for value in values(MOMENTS)] == [None, None]
    assert [value.is_sum for value in values(RANGE)] == [False, False]
    assert values(WELFORD) == ()
    assert values(DECAY) == ()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("l * exp2(m - a)", "l * exp2(a - m)"),
        ("l * exp2(m - a)", "l * exp2((m - a) * 2.0)"),
        ("l * exp2(m - a)", "l * exp2(m - a + 1.0)"),
        ("l * exp2(m - a)", "l * exp2(m - x[i, k])"),
        ("l * exp2(m - a)", "l * (m - a)"),
        ("+ exp2(x[i, k] - a)", "+ exp2(x[i, k] - m)"),
        ("+ exp2(x[i, k] - a)", "+ exp2(x[i, k] - a) * a"),
        ("+ exp2(x[i, k] - a)", "+ math.exp(x[i, k] - a)"),
        ("+ exp2(x[i, k] - a)", "+ exp2(x[i, k])"),
    ],
)
def test_what_a_maximum_does_not_scale_goes_position_by_position(old: str, new: str) -> None:
    assert old in SOFTMAX
    text = SOFTMAX.replace(old, new)
    assert values(text) == ()
    definition = parse_definition(text)
    assert "block" not in str(lower(definition))
    by_definition, by_nest = computed(definition)
    np.testing.assert_allclose(by_nest, by_definition, rtol=1e-5)


@pytest.mark.parametrize(
    "power",
    ["exp2((x[i, k] - a) * 1.5)", "exp2(x[i, k] * 1.5 + a * -1.5)", "exp2(x[i, k] - a * 1.5)"],
)
def test_an_exponent_may_be_spelled_otherwise(power: str) -> None:
    ratio = "exp2(1.5 * (m - a))"
    text = SOFTMAX.replace("exp2(m - a)", ratio).replace("+ exp2(x[i, k] - a)", f"+ {power}")
    assert len(values(text)) == 2


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("(m, l) =", "(m, l, z) =", "there are 3 values, and 2 terms"),
        ("(m, l) =", "(m, m) =", "'m' is a name already"),
        ("(m, l) =", "(m, n) =", "'n' is a name already"),
        ("(m, l) =", "(m, k) =", "'k' is a name already"),
        ("l * exp2(m - a) + exp2(x[i, k] - a)", "l < 0.0", "l is float32 at first, and then bool"),
        ("recip(l)", "recip(z)", "there is no elementwise op 'z'"),
        ("recip(l)", "recip(x[i, k])", "there is no"),
        ("(a, l * exp2(m - a) + exp2(x[i, k] - a))", "(a)", "there are 2 values, and 1 terms"),
    ],
)
def test_what_is_wrong_is_named(old: str, new: str, message: str) -> None:
    assert old in SOFTMAX
    error = error_of(lambda: parse_definition(SOFTMAX.replace(old, new, 1)), ParseError)
    assert message in error.message, error.message


def test_a_value_costs_its_term_and_no_scaling() -> None:
    dims = {"n": N, "t": T}
    # A maximum, a difference, its power and their sum; each result is a difference, its power,
    # a reciprocal and a product.
    assert flops(parse_definition(SOFTMAX), dims) == N * T * 4 + N * T * 4
    assert flops(parse_definition(MOMENTS), dims) == N * T * 3 + N * 3


def test_a_pass_is_computed_once_for_all_that_is_made_of_it() -> None:
    nest = str(lower(parse_definition(SOFTMAX)))
    assert nest.count("k.block <") == 1
    assert nest.index("for j <") > nest.index("k.block <")

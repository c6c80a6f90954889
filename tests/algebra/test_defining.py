"""Programs as definitions: they say what they do, read back, and run."""

from typing import Any

import numpy as np
import pytest

import luminal_lab as ll
from luminal_lab.algebra.defining import defined
from luminal_lab.core.interpret import Environment, interpret
from luminal_lab.kernels.definition.definition import Definition
from luminal_lab.kernels.definition.evaluate import evaluate
from luminal_lab.kernels.definition.text import parse_definition
from luminal_lab.kernels.make import make_kernel
from luminal_lab.machines.machine import Machine
from luminal_lab.search.program import judged_programs
from luminal_lab.search.space import Space
from tests.kernels.running import Running
from tests.search.written import along, attention, drawn, searched


def best(space: Space) -> Definition:
    """Return the best program that is right."""
    *_, program = judged_programs(space)
    assert not program.is_refused
    return program.definition


def row(method: str) -> ll.Graph:
    """Return a graph that computes a function of rows."""
    cx = ll.Graph()
    getattr(cx.tensor((6, 17), name="x"), method)(-1).retrieve()
    return cx


def cross_entropy() -> ll.Graph:
    """Return a graph that computes a cross entropy."""
    cx = ll.Graph()
    x, labels = cx.tensor((6, 17), name="x"), cx.tensor((6,), "int64", name="labels")
    ll.nn.losses.cross_entropy(x, labels).retrieve()
    return cx


def rms_norm_and_product() -> ll.Graph:
    """Return a graph that normalises rows and multiplies them."""
    cx = ll.Graph()
    x, w = cx.tensor((40, 64), name="x"), cx.tensor((64, 48), name="w")
    (x.rms_norm(-1, 1e-5) @ w).retrieve()
    return cx


@pytest.mark.parametrize(
    ("sizes", "lines"),
    [
        (
            (128, 8, 128, 8),
            "  s[i < 8, j < 8] = sum k < 128: fused(b[j, k] * c[k, i])\n"
            "  O[k < 128, i < 8] = sum j < 8: fused(a[k, j] * s[i, j])",
        ),
        (
            (8, 128, 8, 128),
            "  s[i < 8, j < 8] = sum k < 128: fused(a[i, k] * b[k, j])\n"
            "  O[i < 8, k < 128] = sum j < 8: fused(s[i, j] * c[j, k])",
        ),
    ],
)
def test_which_product_of_two_comes_first_follows_from_the_sizes(
    sizes: tuple[int, int, int, int], lines: str
) -> None:
    m, n, o, p = sizes
    cx = ll.Graph()
    shapes = {"a": (m, n), "b": (n, o), "c": (o, p)}
    a, b, c = (cx.tensor(shape, name=name) for name, shape in shapes.items())
    ((a @ b) @ c).retrieve()
    assert str(best(searched(cx))).partition("\n")[2] == lines


def test_a_function_of_a_sum_that_many_elements_need_is_a_line() -> None:
    program = best(searched(rms_norm_and_product()))
    assert str(program).partition("\n")[2] == (
        "  s[i < 40] = recip(sqrt((sum j < 64: fused(x[i, j] * x[i, j])) * 0.015625 + 1e-05))\n"
        "  O[i < 40, k < 48] = s[i] * (sum j < 64: fused(x[i, j] * w[j, k]))"
    )
    schedule = str(make_kernel(program, "product", Machine()).schedule)
    assert "pack w" in schedule  # the product behind the line has tiles
    assert "parallel i" not in schedule.partition("pack w")[0]


def test_a_value_that_two_passes_need_is_a_line_where_it_costs_more_to_compute_again() -> None:
    cx = ll.Graph()
    q, k = cx.tensor((6, 64), name="q"), cx.tensor((17, 64), name="k")
    (q @ k.T).logsumexp(-1).retrieve()
    space, data = searched(cx), drawn(cx.ir, {})
    pick = next(pick for pick in space.programs() if along(pick, space, 17) == 2)
    program = defined(space.definition, pick)
    (line,) = program.locals
    assert line.term == parse_definition(SCORES).outputs[0].term
    (written,), (computed,) = (evaluate(d, data).values() for d in (space.definition, program))
    expected: Any = written
    actual: Any = computed
    np.testing.assert_allclose(actual, expected, rtol=2e-5)


SCORES = """\
kernel scores(q: f32[6, 64], k: f32[17, 64]) -> (O: f32[6, 17])
  O[i < 6, j < 17] = sum l < 64: fused(q[i, l] * k[j, l])"""
GRAPHS: dict[str, Any] = {
    "attention": lambda: attention(after=0.125),
    "causal, biased": lambda: attention(mask="causal", bias=True, inside=0.125),
    "windowed": lambda: attention(mask="window"),
    "softmax": lambda: row("softmax"),
    "logsumexp": lambda: row("logsumexp"),
    "layer norm": lambda: row("layer_norm"),
    "cross entropy": cross_entropy,
    "rms norm and a product": rms_norm_and_product,
}


@pytest.mark.parametrize("graph", GRAPHS.values(), ids=[*GRAPHS])
def test_a_program_computes_what_was_written(graph: Any) -> None:
    cx = graph()
    space = searched(cx)
    program, data = best(space), drawn(cx.ir, {})
    assert parse_definition(str(program)) == program
    written, computed = evaluate(space.definition, data), evaluate(program, data)
    for name, values in written.items():
        expected: Any = values
        actual: Any = computed[name]
        np.testing.assert_allclose(actual, expected, rtol=2e-5, atol=2e-6)


@pytest.mark.needs("cc")
@pytest.mark.parametrize("mask", ["", "causal"])
def test_a_program_runs_as_c_by_the_plan_for_attention(mask: str) -> None:
    cx = attention(mask=mask, after=0.125, n=40, t=130)
    space = searched(cx)
    kernel = make_kernel(best(space), "attention", Machine())
    assert "fission" in str(kernel.schedule)
    data = drawn(cx.ir, {})
    results = interpret(cx.ir, Environment(lambda node: data[node.name]))
    expected: Any = results[cx.ir.output_ids[0]]
    computed: Any = Running(kernel)(data)["O"]
    np.testing.assert_allclose(computed, expected, rtol=2e-5, atol=2e-6)

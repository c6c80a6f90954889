"""Roundings on the CPU: what no sum of products is in has the interpreter's, at any magnitude."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import luminal_lab as ll
from luminal_lab.devices.cpu.compiler import CPUCompiler

pytestmark = pytest.mark.needs("cc")


def both(
    program: Callable[..., Any], *data: Any, dtype: str = "float32", **options: Any
) -> list[tuple[np.ndarray[Any, Any], ...]]:
    """Return what a program gives in the interpreter, and compiled for the CPU."""
    found: list[tuple[np.ndarray[Any, Any], ...]] = []
    for device in ([], [ll.GenericCompiler(), CPUCompiler()]):
        cx = ll.Graph()
        tensors = [cx.tensor(np.shape(one), dtype).set(np.asarray(one)) for one in data]
        made = program(*tensors)
        results = [one.retrieve() for one in (made if isinstance(made, tuple) else (made,))]
        if device:
            cx.compile(*device, **options)
        cx.execute()
        found.append(tuple(one.numpy() for one in results))
    return found


RISING = np.arange(1, 9) / 8


@pytest.mark.parametrize("size", [1.5e9, 1e20, 1e30, 3e38])
def test_a_softmax_subtracts_the_maximum_as_it_was_rounded(size: float) -> None:
    (wanted,), (ours,) = both(lambda x: (x * 0.7).softmax(0), RISING * size)
    assert wanted.tolist() == ours.tolist() == [0, 0, 0, 0, 0, 0, 0, 1]


def test_a_log_softmax_subtracts_the_maximum_as_it_was_rounded() -> None:
    (wanted,), (ours,) = both(lambda x: (x * 0.7).log_softmax(0), RISING * 1e31, dtype="float64")
    assert wanted.tolist() == ours.tolist()
    assert ours[-1] == 0


def test_the_last_product_of_a_function_is_rounded_before_it_is_subtracted() -> None:
    (wanted,), (ours,) = both(lambda x: x - x.exp2(), [np.inf, -np.inf, 1e5, 130.0])
    np.testing.assert_array_equal(ours, wanted)
    assert np.isnan(ours[0])


# -- programs --------------------------------------------------------------------------------------

LARGE = np.finfo(np.float32).max
VALUES = np.array(
    [
        *(1e9, 1.5e9, 3e9, 1e19, 1.9e19, 1e30, 1e38, LARGE, np.inf, np.nan),
        *(1e-9, 1e-30, 1.2e-38, 1e-40, 1e-45, 0.0, 0.1, 0.7, 1.0, 3.0, 89.0, 1025.0),
    ]
)
STEPS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "product and sum": lambda y, b, c: y * b + c,
    "difference of products": lambda y, b, c: y * c - c * b,
    "square and difference": lambda y, b, c: y * y - y.abs() * 0.7,
    "constant": lambda y, b, c: y * 0.7 + 0.1,
    "error": lambda y, b, c: y * 0.7 - y * 0.7,
    "largest": lambda y, b, c: y * 0.3 - (y * 0.3).max(-1, keepdim=True),
    "relu": lambda y, b, c: (y * b - c).relu(),
    "choice": lambda y, b, c: ll.where(y * b < c * 0.7, y * b - c, c * y + b),
    "root": lambda y, b, c: (y.abs() * 0.3).sqrt() * b - c,
    "quotient": lambda y, b, c: (b * 0.7).reciprocal() * y + c,
    "floor": lambda y, b, c: (y * 0.7 + b).floor() * 0.3 + c,
}
"""What makes a value of others, and rounds as the interpreter does."""


def programs(count: int) -> list[tuple[int, tuple[str, ...]]]:
    """Return seeds, with the steps that programs take."""
    rng, names = np.random.default_rng(5), [*STEPS]
    return [
        (place, tuple(names[at] for at in rng.integers(0, len(names), 1 + place % 4)))
        for place in range(count)
    ]


def drawn(seed: int, numpy: str) -> list[np.ndarray[Any, Any]]:
    """Return three arrays of values of each magnitude, with either sign."""
    rng = np.random.default_rng(seed)
    shape = (3, 37)  # vectors, and what is left of them
    sizes = [rng.choice(VALUES, shape) * rng.choice([-1, 1], shape) for _ in range(3)]
    return [one.astype(numpy) for one in sizes]


@pytest.mark.share("seed, steps", programs(200), 6)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_what_has_no_sum_over_an_axis_is_the_interpreters_to_the_bit(
    seed: int, steps: tuple[str, ...], dtype: str
) -> None:
    def program(a: Any, b: Any, c: Any) -> Any:
        y = a
        for name in steps:
            y = STEPS[name](y, b, c)
        return y, y.max(-1), y * 0.7 < y.flip(-1) * 0.7

    wanted, ours = both(program, *drawn(seed, dtype), dtype=dtype)
    for one, other in zip(wanted, ours, strict=True):
        np.testing.assert_array_equal(other, one)


SOFT: dict[str, Callable[[Any], Any]] = {
    "softmax": lambda y: y.softmax(-1),
    "log_softmax": lambda y: y.log_softmax(-1),
    "logsumexp": lambda y: y.logsumexp(-1),
    "exp2": lambda y: y.exp2() - y,
    "exp": lambda y: y - y.exp(),
    "tanh": lambda y: y.tanh() * y - y,
    "gelu": lambda y: y.gelu() - y,
    "log": lambda y: y.abs().log() * 3 - y,
}
"""Functions that round otherwise than NumPy's, but are finite, infinite or NaN where those are."""


@pytest.mark.share("seed, end", [(seed, end) for seed in range(25) for end in SOFT], 6)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_what_is_finite_infinite_or_no_number_is_the_interpreters(
    seed: int, end: str, dtype: str
) -> None:
    data = drawn(seed, dtype)[0]
    data = data[:, ~np.isnan(data).any(0)] if seed % 2 else data
    data = np.where(np.isinf(data), 3, data) if seed % 3 else data
    factor = [0.7, 1.0, 0.3][seed % 3]
    wanted, ours = both(lambda x: SOFT[end](x * factor), data, dtype=dtype)
    for one, other in zip(wanted, ours, strict=True):
        np.testing.assert_array_equal(np.isnan(other), np.isnan(one))
        infinite = [np.where(np.isinf(x), x, 0) for x in (other, one)]
        np.testing.assert_array_equal(infinite[0], infinite[1])


# -- the licence -----------------------------------------------------------------------------------


def test_sums_of_products_are_fused_if_the_licence_grants_it() -> None:
    cx = ll.Graph()
    a, b = cx.tensor((40, 30), name="a"), cx.tensor((30, 50), name="b")
    (a @ b).retrieve()
    compiled = cx.compile(ll.GenericCompiler(), CPUCompiler())
    assert "sum k < 30: fused(a[i, k] * b[k, j])" in str(cx.kernels[0].definition)
    assert "LAB_FMA(" in cx.kernels[0].source
    assert not compiled["fuse-contractions"].refused
    compiled = cx.compile(ll.GenericCompiler(), CPUCompiler(), licence=["no_signed_zero"])
    assert "sum k < 30: a[i, k] * b[k, j]" in str(cx.kernels[0].definition)
    assert "FMA" not in cx.kernels[0].source.upper()
    snapshot = compiled["fuse-contractions"]
    (refusal,) = snapshot.refusals
    assert (refusal.rule, refusal.facts) == ("fused-product", {"contract"})
    assert str(compiled.why_not("fused-product", refusal.node)).endswith(
        ": the licence does not grant contract (a product may be rounded together with the sum "
        "that it is added to)."
    )


@pytest.mark.parametrize("licence", [["no_signed_zero"], ["contract"]])
def test_a_sum_of_two_products_is_rounded_once_or_twice(licence: list[str]) -> None:
    # 1 + 2 e squared is 1 + 4 e + 4 e², of which float32 does not hold the last part.
    e = 2.0**-20
    near, minus = 1 + 2 * e, -(1 + 4 * e)
    data = np.array([[minus] + [near] + [0] * 30], np.float32)
    other = np.array([[1] + [near] + [0] * 30], np.float32)
    program = lambda x, y: (x * y).sum(-1)  # noqa: E731
    (wanted,), (ours,) = both(program, data, other, licence=licence)
    assert wanted.tolist() == [0]
    assert ours.tolist() in ([[4 * e * e], [0]] if "contract" in licence else [[0]])


def test_a_product_that_is_seen_is_rounded_in_its_sum_too() -> None:
    cx = ll.Graph()
    x = cx.tensor((40, 30), name="x")
    y = x * 0.7
    y.retrieve()
    y.sum(-1).retrieve()
    cx.compile(ll.GenericCompiler(), CPUCompiler())
    assert not any("fused(" in str(kernel.definition) for kernel in cx.kernels)

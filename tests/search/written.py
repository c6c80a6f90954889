"""What searches start from: layers, written in the ops of tensors as users write them."""

from collections.abc import Mapping
from typing import Any

import numpy as np

import luminal_lab as ll
from luminal_lab.algebra.pick import Pick
from luminal_lab.core.dims import evaluate
from luminal_lab.core.interpret import Environment, interpret
from luminal_lab.core.ir import IR
from luminal_lab.search.space import Space, space_of

NO_DIMS: Mapping[str, int] = {}
SPELLINGS: dict[str, dict[str, Any]] = {
    "scaled after": {"after": 0.125},
    "scaled before": {"before": 0.125},
    "scaled twice": {"before": 0.35, "after": 0.35},
    "scaled in the exponent": {"inside": 0.125},
    "not scaled": {},
    "exp2, scaled": {"power": "exp2", "after": 0.18},
    "bias": {"bias": True, "after": 0.125},
    "causal": {"mask": "causal", "after": 0.125},
    "windowed": {"mask": "window", "before": 0.125},
    "causal, bias": {"mask": "causal", "bias": True, "inside": 0.125},
    "divided by a root": {"divisor": "root"},
    "divided by a tensor": {"divisor": "tensor"},
    "a slope of distances": {"after": 0.5, "slope": 0.1},
    "divided at the end": {"after": 0.125, "late": True},
}
"""The ways to write attention."""


def searched(cx: ll.Graph) -> Space:
    """Return what the rules make of a session's graph."""
    return space_of(cx.ir)


def drawn(ir: IR, dims: Mapping[str, int], seed: int = 0) -> dict[str, Any]:
    """Return data for the inputs of a graph: integers are 0, 1 or 2."""
    rng = np.random.default_rng(seed)
    data: dict[str, Any] = {}
    for node in ir.inputs:
        shape = tuple(evaluate(size, dims) for size in node.shape)
        values = rng.standard_normal(shape) if node.dtype.is_float else rng.integers(0, 3, shape)
        data[node.name] = values.astype(node.dtype.numpy)
    return data


def right(cx: ll.Graph, dims: Mapping[str, int] = NO_DIMS) -> Space:
    """Assert that all programs for a session's graph compute what the interpreter does."""
    space, data = searched(cx), drawn(cx.ir, dims)
    results = interpret(cx.ir, Environment(lambda node: data[node.name], dims))
    for pick in space.programs():
        values = space.values(pick, data, dims)
        for value, node in zip(values.values(), cx.ir.outputs, strict=True):
            expected: Any = results[node.id]
            np.testing.assert_allclose(value, expected, rtol=2e-5, atol=2e-5)
    return space


def passes(space: Space, size: Any) -> list[int]:
    """Return how often each program goes along axes of a size, the cheapest first."""
    return [along(pick, space, size) for pick in space.programs()]


def along(pick: Pick, space: Space, size: Any) -> int:
    """Return how often a program goes along the axes of a size."""
    return sum(pick.passes(axis) for axis, own in space.axes.items() if own == size)


def attention(
    *,
    before: float = 1.0,
    after: float = 1.0,
    inside: float = 1.0,
    power: str = "exp",
    mask: str = "",
    bias: bool = False,
    divisor: str = "",
    slope: float = 0.0,
    late: bool = False,
    n: Any = 13,
    t: Any = 17,
) -> ll.Graph:
    """Return attention with its scale before or after the product, or in the exponent.

    A slope takes scores down by the distance of a key; `late` divides what the weights have summed.
    """
    cx = ll.Graph()
    q, k, v = (cx.tensor((size, 4), name=name) for size, name in ((n, "q"), (t, "k"), (t, "v")))
    scores = (q if before == 1 else q * before) @ k.T
    scores = scores if after == 1 else scores * after
    if divisor:
        by = cx.constant(64.0).sqrt() if divisor == "root" else cx.tensor((), name="c")
        scores = scores / by
    if bias:
        scores = scores + cx.tensor((n, t), name="b")
    i, j = cx.arange(n).reshape(n, 1), cx.arange(t).reshape(1, t)
    if slope:
        scores = scores + (j - i).cast("float32") * slope
    if mask:
        scores = (i < j).where(float("-inf"), scores)
        if mask == "window":
            scores = (j + 5 < i).where(float("-inf"), scores)
    below = scores - scores.max(-1, keepdim=True)
    below = below if inside == 1 else below * inside
    weights = below.exp() if power == "exp" else below.exp2()
    total = weights.sum(-1, keepdim=True)
    ((weights @ v) / total if late else (weights / total) @ v).retrieve()
    return cx


def block(n: int = 16, width: int = 24, heads: int = 3) -> ll.Graph:
    """Return a block of a GPT, from primitive ops."""
    cx = ll.Graph()
    x = cx.tensor((n, width), name="x")
    shapes = {"q": (width, width), "k": (width, width), "v": (width, width), "o": (width, width)}
    shapes |= {"up": (width, 4 * width), "down": (4 * width, width)}
    weights = {name: cx.tensor(shape, name=f"w_{name}") for name, shape in shapes.items()}

    def normed(y: Any) -> Any:
        y = y - y.mean(-1, keepdim=True)
        return y * ((y * y).mean(-1, keepdim=True) + 1e-5).rsqrt()

    y = normed(x)
    q, k, v = (
        (y @ weights[name]).reshape(n, heads, width // heads).permute(1, 0, 2) for name in "qkv"
    )
    i, j = cx.arange(n).reshape(1, n, 1), cx.arange(n).reshape(1, 1, n)
    scores = (i < j).where(float("-inf"), (q @ k.permute(0, 2, 1)) * (width // heads) ** -0.5)
    mixed = (scores.softmax(-1) @ v).permute(1, 0, 2).reshape(n, width)
    x = x + mixed @ weights["o"]
    (x + (normed(x) @ weights["up"]).relu() @ weights["down"]).retrieve()
    return cx

"""Small models with their gradients, as a device gets them: what single ops come to together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from luminal_lab.core.builder import DimLike
from luminal_lab.core.dtypes import Array, DType
from luminal_lab.core.ir import IR
from luminal_lab.passes.gradients import grad
from luminal_lab.tensor import Tensor
from luminal_lab.tensor.store import Store
from luminal_lab.testing.cases import Case, CaseRun
from luminal_lab.testing.graphs import drawn_for


class Sheet(Store):
    """A graph that is written and never run."""

    def of(self, name: str, *shape: DimLike, dtype: str = "float32") -> Tensor:
        """Return a new input."""
        return self.tensor(shape, dtype, name=name)


def perceptron(cx: Sheet) -> list[Tensor]:
    """Write two layers, their loss, its gradients, and a step of Adam on one of them."""
    x, goal = cx.of("x", 6, 5), cx.of("goal", 6, 3)
    w, b, v = cx.of("w", 5, 8), cx.of("b", 8), cx.of("v", 8, 3)
    m, s = cx.of("m", 5, 8), cx.of("s", 5, 8)
    y = (x @ w + b).gelu() @ v
    loss = ((y - goal) * (y - goal)).mean()
    slopes = grad(loss, [w, b, v])
    m = m * 0.9 + slopes[0] * 0.1
    s = s * s * 0.999 + slopes[0] * slopes[0] * 0.001
    return [loss, *slopes, w - m / (s.sqrt() + 1e-3) * 0.01, m, s]


def attention(cx: Sheet) -> list[Tensor]:
    """Write causal attention between normed heads, with gradients."""
    n, width = 7, 4
    q, k, v = (cx.of(name, 2, n, width) for name in "qkv")
    scores = q.layer_norm(-1, 1e-5) @ k.mT * 0.5
    later = cx.arange(n).unsqueeze(0) > cx.arange(n).unsqueeze(1)
    weights = scores.masked_fill(later.unsqueeze(0).expand((2, n, n)), float("-inf")).softmax(-1)
    out = weights @ v
    return [out, *grad((out * out).sum(), [q, k, v])]


def language(cx: Sheet) -> list[Tensor]:
    """Write a table of words, symbolic in the length, and the loss of the next word."""
    words = cx.of("words", "n", dtype="int64")
    table = cx.of("table", 11, 6)
    x = table.embedding(words)
    x = x * ((x * x).mean(-1, keepdim=True) + 1e-5).rsqrt()
    logits = x @ table.T
    loss = -(logits.log_softmax(-1) * words.one_hot(11).cast("float32")).sum(-1).mean()
    return [logits, loss, grad(loss, [table])[0]]


def picture(cx: Sheet) -> list[Tensor]:
    """Write a convolution and a pool over a picture, with gradients."""
    x, w, b = cx.of("x", 2, 3, 8, 8), cx.of("w", 4, 3, 3, 3), cx.of("b", 4)
    y = x.conv(w, b, padding=1).relu().max_pool((2, 2))
    return [y, *grad((y * y).sum(), [x, w, b])]


def halves(cx: Sheet) -> list[Tensor]:
    """Write a layer in 16-bit floats that is summed in float32."""
    x, w = cx.of("x", 4, 6, dtype="bfloat16"), cx.of("w", 6, 3, dtype="bfloat16")
    h, u = cx.of("h", 4, 6, dtype="float16"), cx.of("u", 6, 3, dtype="float16")
    y = (x @ w).cast("float32") + (h @ u).cast("float32")
    return [y.tanh(), grad(y.sum(), [w])[0]]


def decoding(cx: Sheet) -> list[Tensor]:
    """Write one step of decoding: a row goes into a buffer at a symbolic place."""
    buffer, row, q = cx.of("buffer", 32, 4), cx.of("row", 1, 4), cx.of("q", 1, 4)
    n = cx.dim("n", 1, 31)
    kept = buffer.update(row, n)
    keys = kept[: n + 1]
    return [kept, (q @ keys.mT).softmax(-1) @ keys]


MODELS = (perceptron, attention, language, picture, halves, decoding)


def models() -> Iterator[Case]:
    """Yield the models."""
    for write in MODELS:
        cx = Sheet("case", 0)
        cx.retrieve(write(cx))
        ir = cx.ir
        sizes: tuple[dict[str, int], ...] = ({"n": 5}, {"n": 2}) if ir.symbols else ({},)
        runs = tuple(CaseRun(_data(ir, dims), dims) for dims in sizes)
        yield Case(f"model {write.__name__}", "model", ir, runs, None)


def _data(ir: IR, dims: Mapping[str, int]) -> dict[str, Array]:
    """Return numbers for the inputs of a model, and words where they are whole."""
    drawn, whole = drawn_for(ir, dims), [n.name for n in ir.inputs if n.dtype is DType.int64]
    return drawn | {name: np.arange(drawn[name].size) * 7 % 11 for name in whole}

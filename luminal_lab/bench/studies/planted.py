"""Models with something slow in them, each in a line that says so, and the same without."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

import luminal_lab as ll
from luminal_lab.core.dtypes import Array
from luminal_lab.session import Graph
from luminal_lab.tensor import Tensor


@dataclass(frozen=True)
class Planted:
    """A model with something slow in it, and the same without."""

    kind: str
    """The name of the finding."""
    marked: str
    """Part of the line that should be named."""
    slow: Callable[[Graph, int], Tensor]
    """Writes it in a graph, larger or smaller."""
    mended: Callable[[Graph, int], Tensor]
    specialise: Mapping[str, int] | None = None
    """How the mended one is compiled."""


def _given(cx: Graph, name: str, *shape: int | str, dtype: str = "float32", n: int = 8) -> Tensor:
    """Return an input with data; a dim that is a name has the size n."""
    sizes = [n if isinstance(size, str) else size for size in shape]
    data: Array = np.random.default_rng(len(name)).standard_normal(sizes)
    return cx.tensor(shape, dtype, name=name).set(data)


def _rows(cx: Graph, count: int, most: int) -> Tensor:
    rows = np.random.default_rng(0).integers(0, most, count)
    return cx.tensor((count,), "int32", name="rows").set(rows)


def _break(cx: Graph, n: int) -> Tensor:
    x = _given(cx, "x", n, n)
    h = (x * 2.0).graph_break()  # planted
    return (h + 1.0).relu()


def _no_break(cx: Graph, n: int) -> Tensor:
    return (_given(cx, "x", n, n) * 2.0 + 1.0).relu()


def _stored(cx: Graph, n: int) -> Tensor:
    x = _given(cx, "x", 4 * n, n)
    h = (x * 2.0 + 1.0).retrieve()  # planted
    return h.sum(-1)


def _not_stored(cx: Graph, n: int) -> Tensor:
    return (_given(cx, "x", 4 * n, n) * 2.0 + 1.0).sum(-1)


def _double(cx: Graph, n: int) -> Tensor:
    x = _given(cx, "x", n, n, dtype="float64")  # planted
    return x.softmax(-1)


def _single(cx: Graph, n: int) -> Tensor:
    return _given(cx, "x", n, n).softmax(-1)


def _cast(cx: Graph, n: int) -> Tensor:
    x = _given(cx, "x", n, n)
    return x.cast("float64").exp().cast("float32")  # planted


def _no_cast(cx: Graph, n: int) -> Tensor:
    return _given(cx, "x", n, n).exp()


def _one_hot(cx: Graph, n: int) -> Tensor:
    rows, table = _rows(cx, n, n), _given(cx, "table", n, n)
    return rows.one_hot(n).cast("float32") @ table  # planted


def _index(cx: Graph, n: int) -> Tensor:
    rows, table = _rows(cx, n, n), _given(cx, "table", n, n)
    return table[rows]


def _gather(cx: Graph, n: int) -> Tensor:
    x = _given(cx, "x", n, n)
    part = x[list(range(n // 2))]  # planted
    return (part * 2.0).sum(-1)


def _slice(cx: Graph, n: int) -> Tensor:
    x = _given(cx, "x", n, n)
    return (x[: n // 2] * 2.0).sum(-1)


def _any_size(cx: Graph, n: int) -> Tensor:
    x = _given(cx, "x", 4 * n, "m")  # planted
    return x.softmax(-1)


def _host(cx: Graph, n: int) -> Tensor:
    x = _given(cx, "x", n, n)
    y = cx.function(np.tanh, x * 2.0, shape=(n, n))  # planted
    return y + 1.0


def _no_host(cx: Graph, n: int) -> Tensor:
    return (_given(cx, "x", n, n) * 2.0).tanh() + 1.0


def _loop(cx: Graph, n: int) -> Tensor:
    x, w = _given(cx, "x", 16, n // 16, 64), _given(cx, "w", 64, 64)
    return ll.stack([x[k].softmax(-1) @ w for k in range(16)])  # planted


def _no_loop(cx: Graph, n: int) -> Tensor:
    x, w = _given(cx, "x", 16, n // 16, 64), _given(cx, "w", 64, 64)
    return x.softmax(-1) @ w


def _undone(cx: Graph, n: int) -> Tensor:
    x = _given(cx, "x", n, n)
    return x.exp().log() * 2.0  # planted


def _not_done(cx: Graph, n: int) -> Tensor:
    return _given(cx, "x", n, n) * 2.0


def _order(cx: Graph, n: int) -> Tensor:
    a, b, v = _given(cx, "a", n, n), _given(cx, "bb", n, n), _given(cx, "v", n, n // 16)
    return (a @ b) @ v  # planted


def _other_order(cx: Graph, n: int) -> Tensor:
    a, b, v = _given(cx, "a", n, n), _given(cx, "bb", n, n), _given(cx, "v", n, n // 16)
    return a @ (b @ v)


def _added(cx: Graph, n: int) -> Tensor:
    x = _given(cx, "x", 32, n)
    total = x[0].exp()
    for k in range(1, 32):
        total = total + x[k].exp()  # planted
    return total


def _summed(cx: Graph, n: int) -> Tensor:
    return _given(cx, "x", 32, n).exp().sum(0)


PLANTED: Mapping[str, Planted] = {
    "break": Planted("graph-break", "graph_break()", _break, _no_break),
    "stored": Planted("retrieved", "retrieve()", _stored, _not_stored),
    "float64": Planted("float64", "cx.tensor(", _double, _single),
    "cast": Planted("cast", 'cast("float64")', _cast, _no_cast),
    "one-hot": Planted("one-hot", "one_hot(n)", _one_hot, _index),
    "gather": Planted("gather", "list(range(", _gather, _slice),
    "any size": Planted("any-size", "cx.tensor(", _any_size, _any_size, {"m": 8}),
    "host": Planted("host-call", "np.tanh", _host, _no_host),
    "loop": Planted("loop", "for k in range(16)", _loop, _no_loop),
    "undone": Planted("undone", "exp().log()", _undone, _not_done),
    "order": Planted("order", "(a @ b) @ v", _order, _other_order),
    "added": Planted("loop", "x[k].exp()", _added, _summed),
}
"""The planted models, by name."""

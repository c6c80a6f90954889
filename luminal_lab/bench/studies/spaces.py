"""How long rules take to find one pass in attention, however it is written.

    python -m luminal_lab.bench.studies.spaces

A line for each spelling, over sizes and over symbols: the nodes of its space, the seconds until its
programs are there, how often the cheapest one passes over the keys, and the firings that lead to
it. Then the same for other layers and for a block of a GPT.
"""
# pyright: basic

from collections.abc import Callable
from time import perf_counter
from typing import Any

import luminal_lab as ll

KEYS = 17
HEADS, WIDTH = 2, 4


def attention(
    n: Any,
    t: Any,
    scaled: Callable[[Any, Any], Any] = lambda q, k: (q @ k) * 0.5,
    hidden: Callable[[Any, Any], Any] | None = None,
    bias: bool = False,
    power: str = "exp",
    late: bool = False,
) -> ll.Graph:
    """Return an attention by primitive ops."""
    cx = ll.Graph("attention")
    q, k, v = (
        cx.tensor((HEADS, size, WIDTH), name=name) for name, size in (("q", n), ("k", t), ("v", t))
    )
    scores = scaled(q, k.permute(0, 2, 1))
    if bias:
        scores = scores + cx.tensor((n, t), name="bias")
    if hidden is not None:
        row, column = cx.arange(n).reshape(n, 1), cx.arange(t).reshape(1, t)
        scores = hidden(row, column).where(float("-inf"), scores)
    weights = getattr(scores - scores.max(-1, keepdim=True), power)()
    total = weights.sum(-1, keepdim=True)
    ((weights @ v) / total if late else (weights / total) @ v).retrieve()
    return cx


SPELLINGS: dict[str, dict[str, Any]] = {
    "scaled after the product": {},
    "scaled before": {"scaled": lambda q, k: (q * 0.5) @ k},
    "both scaled": {"scaled": lambda q, k: (q * 0.7) @ (k * 0.7)},
    "divided by √d": {"scaled": lambda q, k: (q @ k) / WIDTH**0.5},
    "divided before": {"scaled": lambda q, k: (q / WIDTH**0.5) @ k},
    "not scaled": {"scaled": lambda q, k: q @ k},
    "exp2": {"power": "exp2"},
    "bias": {"bias": True},
    "causal": {"hidden": lambda i, j: i < j},
    "windowed": {"hidden": lambda i, j: (i < j) | (j + 4 < i)},
    "causal, bias, exp2": {"hidden": lambda i, j: i < j, "bias": True, "power": "exp2"},
    "divided at the end": {"late": True},
}


def rows(make: Callable[[Any], Any]) -> ll.Graph:
    """Return a function of rows."""
    cx = ll.Graph("rows")
    make(cx.tensor((6, KEYS), name="x")).retrieve()
    return cx


def norm_product() -> ll.Graph:
    """Return an RMS norm before a product."""
    cx = ll.Graph("norm")
    x, w = cx.tensor((6, KEYS), name="x"), cx.tensor((KEYS, 5), name="w")
    ((x * (x * x).mean(-1, keepdim=True).rsqrt()) @ w).retrieve()
    return cx


def block(n: int = 16, width: int = 24, heads: int = 3) -> ll.Graph:
    """Return a block of a GPT."""
    cx = ll.Graph("block")
    x = cx.tensor((n, width), name="x")
    q, k, v, out = (cx.tensor((width, width), name=f"w_{name}") for name in "qkvo")
    up, down = (
        cx.tensor((width, 4 * width), name="up"),
        cx.tensor((4 * width, width), name="down"),
    )

    def split(y: Any) -> Any:
        return y.reshape(n, heads, width // heads).permute(1, 0, 2)

    y = x.layer_norm(-1)
    scores = (split(y @ q) @ split(y @ k).permute(0, 2, 1)) * (width // heads) ** -0.5
    is_later = cx.arange(n).reshape(n, 1) < cx.arange(n).reshape(1, n)
    mixed = is_later.where(float("-inf"), scores).softmax(-1) @ split(y @ v)
    x = x + mixed.permute(1, 0, 2).reshape(n, width) @ out
    (x + (x.layer_norm(-1) @ up).relu() @ down).retrieve()
    return cx


OTHERS: dict[str, Callable[[], ll.Graph]] = {
    "log-softmax": lambda: rows(lambda x: x.log_softmax(-1)),
    "logsumexp": lambda: rows(lambda x: x.logsumexp(-1)),
    "layer norm": lambda: rows(lambda x: x.layer_norm(-1)),
    "RMS norm, product": norm_product,
}


def told(name: str, cx: ll.Graph, keys: Any) -> str:
    """Return the line of a graph."""
    begin = perf_counter()
    space = ll.search.space_of(cx.ir)
    pick = space.programs(1)[0]
    seconds = perf_counter() - begin
    program = ll.search.Program(space, pick)
    passes = sum(pick.passes(axis) for axis, size in space.axes.items() if str(size) == str(keys))
    return (
        f"{name:32} {len(space.egraph):6} {seconds:8.3f} s {passes:7} {len(program.derivation):8}"
    )


def main() -> None:
    print(f"{'':32} {'nodes':>6} {'time':>10} {'passes':>7} {'firings':>8}")
    ll.search.space_of(rows(lambda x: x.softmax(-1)).ir).programs(1)  # the modules that it loads
    for n, t in ((13, KEYS), ("n", "t")):
        for name, spelling in SPELLINGS.items():
            line = told(f"{name}, {n} × {t}", attention(n, t, **spelling), t)
            print(line, flush=True)
    for name, make in OTHERS.items():
        print(told(name, make(), KEYS), flush=True)
    print(told("block of a GPT", block(), 16), flush=True)


if __name__ == "__main__":
    main()

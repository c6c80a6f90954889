"""What a device must get right besides single ops: symbolic dims, random graphs, small models.

All are drawn with fixed seeds, and are the same on every machine.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Mapping

import numpy as np

from luminal_lab.core import ops
from luminal_lab.core.binding import bound_shape
from luminal_lab.core.builder import DimLike
from luminal_lab.core.dims import Dim, Symbol
from luminal_lab.core.dtypes import Array, DType
from luminal_lab.core.interpret import Environment, interpret
from luminal_lab.core.ir import IR, Node
from luminal_lab.core.op import Op, TensorType, ints, size_of
from luminal_lab.core.parse import parse
from luminal_lab.errors import LabError
from luminal_lab.passes.gradients import grad
from luminal_lab.tensor import Tensor
from luminal_lab.tensor.joining import stack
from luminal_lab.tensor.store import Store
from luminal_lab.testing.cases import F32, Case, CaseRun, CaseWriter, named, tame

SIZES = ({"n": 3, "m": 2}, {"n": 1, "m": 5}, {"n": 8, "m": 17})
"""The sizes of symbolic dims, one after another, in one compile."""
N, M = Symbol("n", 1, 64), Symbol("m")
HEAD = "graph case[n: 1..64, m: 0..]"
CHAINS, GRAPHS = 40, 40
"""How many are drawn."""
MOST = 400
"""Elements of the largest value in a random graph."""

SYMBOLIC: Mapping[str, str] = {
    "elementwise": "(%x: f32[n, m], %y: f32[n, m]) -> (%r) { %r = add %x, %y : f32[n, m] }",
    "sum of rows": "(%x: f32[n, m]) -> (%r) { %r = sum_reduce{axis = 1} %x : f32[n, 1] }",
    "sum of columns": "(%x: f32[n, m]) -> (%r) { %r = sum_reduce{axis = 0} %x : f32[1, m] }",
    "maximum": "(%x: i32[n, m]) -> (%r) { %r = max_reduce{axis = 1} %x : i32[n, 1] }",
    "reshape": "(%x: f32[n, m, 2]) -> (%r) { %r = reshape{shape = [2*m, n]} %x : f32[2*m, n] }",
    "count": "() -> (%r, %c) { %r = iota : i64[n + m] %c = constant{value = 2*n + m} : f32[n] }",
    "flip": "(%x: f32[n, m]) -> (%r) { %r = flip{axes = [0, 1]} %x : f32[n, m] }",
    "rest": "(%x: f32[n, m]) -> (%r) { "
    "%r = slice{start = [n - 1, 0], stop = [n, m], step = [1, 1]} %x : f32[1, m] }",
    "every second": "(%x: f32[n]) -> (%r) { "
    "%r = slice{start = [0], stop = [n], step = [2]} %x : f32[(n + 1) // 2] }",
    "pad": "(%x: f32[n]) -> (%r) { %r = pad{before = [m], after = [n]} %x : f32[m + 2*n] }",
    "window": "(%x: f32[n + 2]) -> (%r) { "
    "%r = window{axis = 0, size = 3, stride = 1, dilation = 1} %x : f32[n, 3] }",
    "update": "(%x: f32[n + m, 2], %y: f32[m, 2]) -> (%r) { "
    "%r = update{axis = 0, at = n} %x, %y : f32[m + n, 2] }",
    "matmul": "(%x: f32[n, m], %y: f32[m, 3]) -> (%r) {\n"
    "%a = reshape{shape = [n, m, 1]} %x : f32[n, m, 1]\n"
    "%b = expand{shape = [n, m, 3]} %a : f32[n, m, 3]\n"
    "%c = reshape{shape = [1, m, 3]} %y : f32[1, m, 3]\n"
    "%d = expand{shape = [n, m, 3]} %c : f32[n, m, 3]\n"
    "%e = mul %b, %d : f32[n, m, 3]\n"
    "%r = sum_reduce{axis = 1} %e : f32[n, 1, 3] }",
}
STRUCTURE: Mapping[str, str] = {
    "one value is two outputs": "(%x: f32[3]) -> (%r, %r) { %r = add %x, %x : f32[3] }",
    "an output is read on": "(%x: f32[3]) -> (%a, %b) { %a = sin %x : f32[3] "
    "%b = add %a, %a : f32[3] }",
    "an output is a view of an input": "(%x: f32[2, 3]) -> (%r, %x) { "
    "%r = permute{axes = [1, 0]} %x : f32[3, 2] }",
    "an output is a view of an output": "(%x: f32[2, 3]) -> (%a, %r) { %a = sqrt %x : f32[2, 3] "
    "%r = flip{axes = [1]} %a : f32[2, 3] }",
    "a result that nobody reads": "(%x: f32[3]) -> (%r) { %a = sin %x : f32[3] "
    "%r = exp2 %x : f32[3] }",
    "a buffer that is updated and read": "(%x: f32[4], %y: f32[1]) -> (%b, %r) { "
    "%b = update{axis = 0, at = 2} %x, %y : f32[4] %r = add %x, %b : f32[4] }",
    "two updates of one buffer": "(%x: f32[4], %y: f32[1]) -> (%a, %b) { "
    "%a = update{axis = 0, at = 0} %x, %y : f32[4] "
    "%b = update{axis = 0, at = 3} %x, %y : f32[4] }",
    "graph_break": "(%x: f32[3]) -> (%r) { %a = sin %x : f32[3] %b = graph_break %a : f32[3] "
    "%r = add %b, %x : f32[3] }",
    "after": "(%x: f32[3]) -> (%r) { %a = sin %x : f32[3] %b = exp2 %x : f32[3] "
    "%r = after %a, %b : f32[3] }",
    "stop_gradient": "(%x: f32[3]) -> (%r) { %a = stop_gradient %x : f32[3] "
    "%r = add %a, %x : f32[3] }",
    "call": "(%x: f32[3]) -> (%r) { %a = call{body = twice} %x : f32[3] "
    "%r = call{body = twice} %a : f32[3] }\n"
    "graph twice(%x: f32[3]) -> (%y) { %y = add %x, %x : f32[3] }",
    "call with two results": "(%x: f32[3]) -> (%r) { %a = call{body = both} %x : (f32[3], f32[1]) "
    "%b = pick{index = 1} %a : f32[1] %c = expand{shape = [3]} %b : f32[3] "
    "%d = pick{index = 0} %a : f32[3] %r = mul %c, %d : f32[3] }\n"
    "graph both(%x: f32[3]) -> (%y, %z) { %y = sin %x : f32[3] "
    "%z = max_reduce{axis = 0} %x : f32[1] }",
    "host_call": "(%x: f32[3]) -> (%r) { %a = sin %x : f32[3] "
    '%b = host_call{function = "reversed"} %a : f32[3] %r = add %b, %x : f32[3] }',
}


def backwards(x: Array) -> Array:
    """Return the result of the table's host function `reversed` for an array."""
    return x[::-1].copy()


FUNCTIONS: Mapping[str, Callable[..., object]] = {"reversed": backwards}


def drawn_for(ir: IR, dims: Mapping[str, int], seed: int = 0) -> dict[str, Array]:
    """Return values for a graph's inputs."""
    return {
        node.name: tame(node.dtype, bound_shape(str(node), node.shape, dims), seed + k)
        for k, node in enumerate(ir.inputs)
    }


def written() -> Iterator[Case]:
    """Yield the tables: symbolic dims, and what graphs consist of besides ops."""
    for title, text in SYMBOLIC.items():
        ir = parse(HEAD + text)
        runs = tuple(CaseRun(drawn_for(ir, dims), dims) for dims in SIZES)
        yield Case(f"symbolic {title}", "symbolic", ir, runs, None)
    for title, text in STRUCTURE.items():
        ir = parse("graph case" + text)
        yield Case(title, "structure", ir, (CaseRun(drawn_for(ir, {}), {}),), None)


# -- drawn -----------------------------------------------------------------------------------------


class DrawnGraph(CaseWriter):
    """A graph that grows at random."""

    def __init__(self, seed: int, dims: Mapping[str, int]) -> None:
        super().__init__()
        self.rng = random.Random(seed)
        self.dims = dims
        self.rounded: set[int] = set()

    def grow(self, op: Op, *sources: Node) -> Node | None:
        """Append a node, unless its op refuses the sources, or it is too large."""
        before, node = self.table.size, None
        try:
            node = self.add(op, *sources)
            shapes = [bound_shape("", source.shape, self.dims) for source in sources]
            shape = ints(bound_shape("", node.shape, self.dims))
            if self.dims and not isinstance(op, (ops.Call, ops.Pick)):
                pairs = zip(sources, shapes, strict=True)
                op.bind(self.dims).infer(*[TensorType(s.dtype, n) for s, n in pairs])
        except LabError:
            shape = (MOST + 1,)
        if node is None or math.prod(shape) > MOST:
            self.table.truncate(before)
            return None
        if op.ulps or self.rounded.intersection(node.sources):
            self.rounded.add(node.id)
        return node

    def size(self) -> Dim:
        """Draw the size of an axis."""
        return self.rng.choice([1, 2, 3, 4, 5, *([N, M, N + M] if self.dims else [0])])

    def view(self, x: Node) -> Op:
        """Draw a view of a node."""
        rng, shape, rank = self.rng, x.shape, len(x.shape)
        flat, axis = size_of(shape), rng.randrange(max(rank, 1))

        def few(most: int) -> tuple[int, ...]:
            return tuple([rng.randint(0, most) for _ in shape])

        stops = tuple([dim - rng.randint(0, 1) for dim in shape])
        views = [
            ops.Permute(tuple(rng.sample(range(rank), rank))),
            ops.Reshape(rng.choice([(flat,), (1, flat), (*shape, 1), tuple(reversed(shape))])),
            ops.Expand(tuple([self.size() if dim == 1 else dim for dim in shape])),
            ops.Slice(few(1), stops, tuple([rng.randint(1, 2) for _ in shape])),
            ops.Pad(few(1), few(2)),
            ops.Flip(tuple(rng.sample(range(rank), rng.randint(0, rank)))),
            ops.Window(axis, rng.randint(1, 3), rng.randint(1, 2), rng.randint(1, 2)),
        ]
        return rng.choice(views)

    def step(self) -> None:
        """Append something that reads existing nodes."""
        rng, nodes = self.rng, [node for node in self.table if not node.extra]
        x = rng.choice(nodes)
        like = rng.choice([node for node in nodes if node.type == x.type])
        # If two values may be equal, which one is less is a matter of rounding.
        exact = not self.rounded.intersection([x.id, like.id])
        kind = rng.randrange(10)
        if kind < 4:
            self.grow(self.view(x), x)
        elif kind < 6:
            if x.shape:
                reduce = rng.choice([ops.SumReduce, ops.MaxReduce])
                self.grow(reduce(rng.randrange(len(x.shape))), x)
        elif kind < 8:
            unary = [ops.Sin(), ops.Exp2(), ops.Contiguous(), ops.GraphBreak()]
            op = rng.choice([ops.Add(), ops.Mul(), *unary])
            self.grow(op, *([x, like] if isinstance(op, (ops.Add, ops.Mul)) else [x]))
        elif kind == 8 and exact:
            mask = self.grow(ops.LessThan(), x, like)
            if mask is not None:
                self.grow(ops.Where(), mask, like, x)
        elif kind == 9 and x.shape and x.dtype is F32:
            self._indexed(x)

    def _indexed(self, x: Node) -> None:
        axis = self.rng.randrange(len(x.shape))
        shape = x.type.with_axis(axis, self.rng.randint(1, 3)).shape
        index = self.grow(ops.Constant(0, DType.int64, shape))
        rows = self.grow(ops.Constant(0.5, F32, shape))
        if index is not None and rows is not None:
            self.grow(ops.Gather(axis), x, index)
            self.grow(ops.Scatter(axis, self.rng.choice(["set", "add"])), x, index, rows)
            self.grow(ops.Update(axis, 0), x, rows)


def chains() -> Iterator[Case]:
    """Yield views of views of views, and a sum that reads them."""
    for seed in range(CHAINS):
        writer = DrawnGraph(seed, {})
        node = start = last = writer.input(F32, [writer.rng.randint(1, 4) for _ in range(3)])
        while writer.table.size < 5:
            mark = writer.table.size
            node = writer.grow(writer.view(node), node) or node
            last = last if 0 in node.shape else node
            if last is start:  # with only empty views nobody could get a value wrong
                writer.table.truncate(mark)
                node = start
        both = [node] + ([] if last is node else [last])
        both += [writer.add(ops.SumReduce(0), node)] if node.shape and seed % 2 else []
        ir = writer.graph(*both)
        run = CaseRun(drawn_for(ir, {}, seed), {})
        yield Case(f"chain {seed} of {start.type}", "chain", ir, (run,), None)


def graphs() -> Iterator[Case]:
    """Yield random graphs, every second one with symbolic dims."""
    for seed in range(GRAPHS):
        writer = DrawnGraph(1000 + seed, SIZES[0] if seed % 2 else {})
        dtypes = [F32, writer.rng.choice([F32, DType.float64, DType.int32, DType.bfloat16])]
        for dtype in dtypes:
            writer.input(dtype, [writer.size() for _ in range(writer.rng.randint(1, 3))])
        while writer.table.size < 10:
            writer.step()
        nodes = [node for node in writer.table if not node.extra]
        ir = writer.graph(nodes[-1], *writer.rng.sample(nodes, 2))
        runs: list[CaseRun] = []
        for dims in SIZES if seed % 2 else ({},):
            data = drawn_for(ir, dims, seed)
            if _fits(ir, data, dims):
                runs.append(CaseRun(data, dims))
        if runs:
            yield Case(f"drawn {seed}", "drawn", ir, tuple(runs), None)


def _fits(ir: IR, data: Mapping[str, Array], dims: Mapping[str, int]) -> bool:
    """Return whether a graph can be run with these sizes without overflow in a sum."""
    try:
        values = interpret(ir, Environment(named(data), dims))
    except LabError:
        return False
    return all(np.abs(values[id].astype(np.float64)).max(initial=0) < 1e6 for id in ir.output_ids)


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
    """Write one step of decoding: a row goes into a buffer at a symbolic position."""
    buffer, row, q = cx.of("buffer", 32, 4), cx.of("row", 1, 4), cx.of("q", 1, 4)
    n = cx.dim("n", 1, 31)
    kept = buffer.update(row, n)
    keys = kept[: n + 1]
    return [kept, (q @ keys.mT).softmax(-1) @ keys]


def packed(cx: Sheet) -> list[Tensor]:
    """Write a product with weights of 4 bits, and numbers made of the bits of a hash."""
    x, pairs, key = (
        cx.of("x", 5, 32),
        cx.of("pairs", 6, 16, dtype="uint8"),
        cx.of("key", "n", dtype="uint32"),
    )
    weights = stack([pairs & 15, pairs >> 4], -1).reshape(6, 32).cast("float32") - 8
    mixed = key * 0x9E3779B9
    mixed = mixed ^ (mixed >> 16) ^ (mixed << 7)
    return [x @ weights.T, mixed, ((mixed >> 9) | 0x3F800000).bitcast("float32") - 1]


MODELS = (perceptron, attention, language, picture, halves, decoding, packed)


def models() -> Iterator[Case]:
    """Yield the models."""
    for write in MODELS:
        cx = Sheet("case", 0)
        cx.retrieve(write(cx))
        ir = cx.ir
        sizes: tuple[dict[str, int], ...] = ({"n": 5}, {"n": 2}) if ir.symbols else ({},)
        runs = tuple(CaseRun(_data(ir, dims), dims) for dims in sizes)
        yield Case(f"model {write.__name__}", "model", ir, runs, None)


PRODUCTS: Mapping[str, tuple[tuple[int, ...], tuple[int, ...], str]] = {
    "whole tiles": ((384, 192), (192, 384), "float16 bfloat16 float32"),
    "turned": ((384, 192), (384, 192), "float16 bfloat16 float32"),
    "batch": ((2, 320, 192), (2, 192, 320), "float16"),
    "edges": ((333, 190), (190, 317), "float16 float32"),
    "one row": ((1, 192), (192, 320), "float16"),
    "then more": ((384, 192), (192, 384), "float16 float32"),
}
"""Products large enough for tensor units and bulk copies: both shapes, and the dtypes."""


def products() -> Iterator[Case]:
    """Yield products of small whole numbers, which are exact in any order and in 10 bits."""
    for name, (left, right, dtypes) in PRODUCTS.items():
        for dtype in dtypes.split():
            cx = Sheet("case", 0)
            x, w = cx.of("x", *left, dtype=dtype), cx.of("w", *right, dtype=dtype)
            y = x @ (w.mT if name == "turned" else w)
            if name == "then more":
                y = (y + cx.of("b", right[-1], dtype=dtype)).relu()
            y.retrieve()
            rng = np.random.default_rng(len(name))
            data = {
                node.name: rng.integers(-3, 4, ints(node.shape)).astype(node.dtype.numpy)
                for node in cx.ir.inputs
            }
            yield Case(f"product {name} {dtype}", "product", cx.ir, (CaseRun(data, {}),), None)


def _data(ir: IR, dims: Mapping[str, int]) -> dict[str, Array]:
    """Return numbers for the inputs of a model, and words where they are integers."""
    drawn, whole = drawn_for(ir, dims), [n.name for n in ir.inputs if n.dtype is DType.int64]
    return drawn | {name: np.arange(drawn[name].size) * 7 % 11 for name in whole}

"""`quantised`: keep the integers of 8-bit weights apart from their scales, one for every 32.

    %y = call{body = matmul} %x, %w : f32[1, 64]       where %w: f32[64, 128] is named
                       ↓
    %q = stored{body = q8_0_quants} %w      : i8[64, 128]
    %s = stored{body = q8_0_scales} %w      : f16[64, 4]
    …                                                  %v = cast(%q) · cast(%s), for 32s of %q
    %y = call{body = matmul} %x, %v         : f32[1, 64]

The format is GGUF's Q8_0: the scale of 32 values is their largest magnitude / 127, rounded to
float16, and each value is its nearest multiple. A parameter that holds such blocks has 34 bytes for
each 32 values, which graphs read as they are; here they are put apart, so that integers lie beside
integers, which GPUs read faster. Its values stay the same to the last bit.

With `weights`, float32 inputs are rounded so. The 32 lie along the axis that the matrix
products sum over, and that axis is the last one in memory, so that one row times the weight reads
each byte once, in order. An embedding looks rows up in the integers and in the scales: a table
that is also the head of a language model is stored once.

Both are `stored`: computed at the first run and after the weight was set, not at every run. Of the
named inputs, one with other readers, with an axis that is not a multiple of 32, or trained by the
graph stays as it is; `compilation.why_not("q8_0", weight)` gives the reason.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, NamedTuple

from typing_extensions import override

from luminal_lab.core.dtypes import DType
from luminal_lab.core.edit import Edit
from luminal_lab.core.ir import IR, Node
from luminal_lab.core.op import ints
from luminal_lab.core.ops import Call, Cast, Expand, Gather, Mul, Permute, Reshape, Stored
from luminal_lab.core.parse import parse
from luminal_lab.errors import PassError, nearest
from luminal_lab.passes.base import Pass, spec_text
from luminal_lab.passes.pipeline import Pipeline
from luminal_lab.passes.recognition.matmul import MATMUL
from luminal_lab.passes.recognition.reading import Reading
from luminal_lab.passes.recognition.recognise import Recognise
from luminal_lab.passes.rereading import reread, sweep

BLOCK = 32
"""The number of values per scale."""


@dataclass(frozen=True, init=False, repr=False)
class Quantised(Pipeline):
    """Read 8-bit weights as integers and scales apart: parameters that hold q8_0, or named inputs.

    >>> print(Quantised(), Quantised(weights=["head.weight"]))
    quantised quantised{weights = [head.weight]}
    """

    name: ClassVar[str] = "quantised"
    is_early: ClassVar[bool] = True
    weights: tuple[str, ...] = ()
    """The names of float32 inputs to round so; none means the parameters that hold q8_0."""

    def __init__(self, *, weights: Iterable[str] = ()) -> None:
        names = tuple([weights] if isinstance(weights, str) else weights)
        object.__setattr__(self, "weights", names)
        super().__init__([Recognise(only=("matmul",)), Q8(weights=names)])

    @override
    def __str__(self) -> str:
        return spec_text(self.name, {"weights": self.weights} if self.weights else {})


@dataclass(frozen=True)
class Q8(Pass):
    """Read weights of matrix products and embeddings as 8-bit integers and scales."""

    name: ClassVar[str] = "q8_0"
    rounds: ClassVar[bool] = True
    weights: tuple[str, ...] = ()
    """The names of float32 inputs; none means the parameters that hold blocks of q8_0."""

    @override
    def run(self, ir: IR, edit: Edit) -> None:
        trained = {into for _, into in ir.carries}
        for weight in self._chosen(ir, edit):
            if weight.dtype is DType.uint8:
                self._put_apart(edit, weight)
                continue
            uses, problem = _uses(edit, weight)
            if weight.id in trained:
                problem = "this graph trains it, so it is different in each run"
            if problem:
                edit.refuse(self.name, weight, because=problem)
            elif uses:
                with edit.firing(self.name, _because(weight, uses)):
                    _rewrite(edit, weight, uses)

    def _put_apart(self, edit: Edit, raw: Node) -> None:
        """Read blocks as integers and scales, if what they mean is all that anybody reads."""
        users = edit.users(raw)
        if not users or len(raw.shape) != 2:
            return
        (*_, last) = users
        if len(users) > 1 or not isinstance(last.op, Call) or last.op.body.name != self.name:
            edit.refuse(self.name, raw, because="its rows are looked up, or a part of it is read")
            return
        rows, columns = ints(last.shape)
        count = columns // BLOCK
        because = f"{rows * columns:,} integers and {rows * count:,} scales lie apart"
        with edit.firing(self.name, because):
            quants = edit.insert(Stored(quants_in(rows, count)), raw, like=raw)
            scales = edit.insert(Stored(scales_in(rows, count)), raw, like=raw)
            edit.replace(last, _values(edit, quants, scales, last))
            edit.erase(last)

    def _chosen(self, ir: IR, edit: Edit) -> Iterator[Node]:
        known = {node.name: node for node in ir.inputs}
        for name in self.weights:
            if name not in known:
                raise PassError(
                    f"there is no input %{name}",
                    hint=nearest(name, known) or "print(cx) shows the inputs",
                )
            yield known[name]
        for node in ir.inputs if not self.weights else ():
            if edit.weights.get(node.id) == self.name:
                yield node
            elif node.id in edit.weights and len(node.shape) == 2:
                because = (
                    f"it holds {edit.weights[node.id] or 'numbers'}; ll.quantise packs weights"
                )
                edit.refuse(self.name, node, because=because)


class WeightUse(NamedTuple):
    """A node that computes with a weight, and the axis of the weight for the blocks."""

    node: Node
    axis: int
    tokens: Node | None = None
    """The tokens of an embedding, one for each row."""


def _uses(edit: Edit, weight: Node) -> tuple[list[WeightUse], str]:
    """Return the uses of a weight, and the reason if it cannot be quantised."""
    if weight.dtype is not DType.float32 or len(weight.shape) != 2:
        return [], f"it is {weight.type}, and only float32 matrices are quantised"
    reading, uses = Reading(edit), list[WeightUse]()
    problem = "it is an output" if edit.is_output(weight) else ""
    # Views of the weight, with the weight's axis for each of their axes.
    todo: list[tuple[Node, tuple[int, ...]]] = [(weight, (0, 1))]
    while todo and not problem:
        seen, axes = todo.pop()
        for user in edit.users(seen):
            if not edit.users(user) and not edit.is_output(user):
                continue
            use = _use(reading, user, seen, axes)
            if isinstance(user.op, Permute) and not edit.is_output(user):
                todo.append((user, tuple(axes[axis] for axis in user.op.axes)))
            elif use is None:
                problem = f"its reader {user} = {user.op.name} is neither a matmul nor an embedding"
            else:
                uses.append(use)
    along = {use.axis for use in uses}
    if problem or not along:
        return uses, problem
    if len(along) > 1:
        first, second = (next(use.node for use in uses if use.axis == axis) for axis in (0, 1))
        return uses, f"{first} reads it along its axis 0, and {second} along axis 1"
    size = weight.shape[along.pop()]
    if not isinstance(size, int) or size % BLOCK:
        return uses, f"its rows have {size} values, which is not a multiple of {BLOCK}"
    return uses, ""


def _use(reading: Reading, user: Node, seen: Node, axes: tuple[int, ...]) -> WeightUse | None:
    if isinstance(user.op, Gather):
        table, indices = reading.sources(user)
        tokens = reading.base(indices)
        is_rows = user.op.axis == 0 and table is seen and axes == (0, 1) and indices is not seen
        return WeightUse(user, 1, tokens) if is_rows and tokens.shape[1:] == (1,) else None
    product = reading.at(MATMUL, user) if isinstance(user.op, Call) else None
    if product is None:
        return None
    names = [name for name, source in product.sources.items() if source is seen]
    if len(names) != 1:
        return None
    labels = product.labels[names[0]]
    summed = [position for position, label in enumerate(labels) if label in product.summed]
    return WeightUse(user, axes[summed[0]]) if len(summed) == 1 else None


def _because(weight: Node, uses: list[WeightUse]) -> str:
    rows, columns = ints(weight.shape)
    count = rows * columns
    read = " and ".join(dict.fromkeys(str(use.node) for use in uses))
    return f"{read} read {count + 2 * count // BLOCK:,} bytes of {weight}, and not {4 * count:,}"


def _rewrite(edit: Edit, weight: Node, uses: list[WeightUse]) -> None:
    shape, axis = ints(weight.shape), uses[0].axis
    quants = edit.insert(Stored(quants_of(shape, axis)), weight, like=weight)
    scales = edit.insert(Stored(scales_of(shape, axis)), weight, like=weight)
    for use in uses:
        if use.tokens is not None:
            (count,) = use.node.shape[:1]
            indices = edit[edit[use.node].sources[1]]
            many = edit.insert(Expand((count, scales.shape[1])), use.tokens, like=use.node)
            rows = edit.insert(Gather(0), quants, indices, like=use.node)
            own = edit.insert(Gather(0), scales, many, like=use.node)
            edit.replace(use.node, _values(edit, rows, own, use.node))
            edit.erase(use.node)
    products = {use.node.id for use in uses if use.tokens is None}
    if products:
        values = _values(edit, quants, scales, weight)
        if axis == 0:
            values = edit.insert(Permute((1, 0)), values, like=weight)
        reread(edit, weight, values, lambda node, _: node.id in products)
    sweep(edit, weight)


def _values(edit: Edit, quants: Node, scales: Node, like: Node) -> Node:
    """Return the numbers that integers and scales represent."""
    rows, columns = quants.shape
    blocks = (rows, columns // BLOCK, BLOCK)

    def then(op: Cast | Reshape | Expand, source: Node) -> Node:
        return edit.insert(op, source, like=like)

    each = then(Reshape(blocks), then(Cast(DType.float32), quants))
    wide = then(Reshape((*blocks[:2], 1)), then(Cast(DType.float32), scales))
    product = edit.insert(Mul(), each, then(Expand(blocks), wide), like=like)
    return then(Reshape(quants.shape), product)


# -- what is stored --------------------------------------------------------------------------------


def _blocks(shape: tuple[int, ...], axis: int) -> tuple[str, str, tuple[int, int]]:
    """Return the shared text of the graphs for integers and scales, and the shape in memory."""
    rows, columns = shape if axis else shape[::-1]
    count = columns // BLOCK
    each, single = f"f32[{rows}, {count}, {BLOCK}]", f"f32[{rows}, {count}, 1]"
    first, given = "", "%w"
    if not axis:
        first, given = f"%t = permute{{axes = [1, 0]}} %w : f32[{rows}, {columns}]", "%t"
    text = f"""
      {first}
      %b = reshape{{shape = [{rows}, {count}, {BLOCK}]}} {given} : {each}
      %minus = constant{{value = -1.0}} : {each}
      %n = mul %b, %minus : {each}
      %high = max_reduce{{axis = 2}} %b : {single}
      %low = max_reduce{{axis = 2}} %n : {single}
      %is_less = less_than %high, %low : bool[{rows}, {count}, 1]
      %most = where %is_less, %low, %high : {single}
      %c = constant{{value = 127.0}} : {single}
      %r = recip %c : {single}
      %scale = mul %most, %r : {single}"""
    return text, each, (rows, columns)


@lru_cache(256)
def scales_of(shape: tuple[int, ...], axis: int) -> IR:
    """Return the graph that computes the scales of a weight, [rows, columns / 32].

    The blocks lie along `axis`, which is the last one in memory.
    """
    text, _, (rows, columns) = _blocks(shape, axis)
    count = columns // BLOCK
    return parse(f"""graph q8_0_scales(%w: f32{list(shape)}) -> (%s) {{{text}
      %h = cast{{dtype = f16}} %scale : f16[{rows}, {count}, 1]
      %s = reshape{{shape = [{rows}, {count}]}} %h : f16[{rows}, {count}]
    }}""")


@lru_cache(256)
def quants_of(shape: tuple[int, ...], axis: int) -> IR:
    """Return the graph that computes the integers of a weight, [rows, columns]."""
    text, each, (rows, columns) = _blocks(shape, axis)
    single = f"f32[{rows}, {columns // BLOCK}, 1]"
    size = f"{{shape = [{rows}, {columns // BLOCK}, {BLOCK}]}}"
    return parse(f"""graph q8_0_quants(%w: f32{list(shape)}) -> (%q) {{{text}
      %zero = constant{{value = 0.0}} : {single}
      %is_more = less_than %zero, %scale : bool[{rows}, {columns // BLOCK}, 1]
      %inverse = recip %scale : {single}
      %by = where %is_more, %inverse, %zero : {single}
      %all = expand{size} %by : {each}
      %v = mul %b, %all : {each}
      %none = constant{{value = 0.0}} : {each}
      %is_minus = less_than %v, %none : bool{each.removeprefix("f32")}
      %up = constant{{value = 0.5}} : {each}
      %down = constant{{value = -0.5}} : {each}
      %half = where %is_minus, %down, %up : {each}
      %near = add %v, %half : {each}
      %i = cast{{dtype = i8}} %near : i8{each.removeprefix("f32")}
      %q = reshape{{shape = [{rows}, {columns}]}} %i : i8[{rows}, {columns}]
    }}""")


def _parted(rows: int, count: int) -> str:
    """Return the shared text of the graphs that take blocks apart."""
    return (
        f"%b = reshape{{shape = [{rows}, {count}, {BLOCK + 2}]}} %w : "
        f"u8[{rows}, {count}, {BLOCK + 2}]"
    )


@lru_cache(256)
def quants_in(rows: int, count: int) -> IR:
    """Return the graph for the integers in blocks, [rows, columns]."""
    each = f"[{rows}, {count}, {BLOCK}]"
    stop = f"[{rows}, {count}, {BLOCK + 2}]"
    return parse(f"""graph q8_0_quants(%w: u8[{rows}, {count * (BLOCK + 2)}]) -> (%q) {{
      {_parted(rows, count)}
      %part = slice{{start = [0, 0, 2], stop = {stop}, step = [1, 1, 1]}} %b : u8{each}
      %i = cast{{dtype = i8}} %part : i8{each}
      %q = reshape{{shape = [{rows}, {count * BLOCK}]}} %i : i8[{rows}, {count * BLOCK}]
    }}""")


@lru_cache(256)
def scales_in(rows: int, count: int) -> IR:
    """Return the graph for the scales in blocks, [rows, columns / 32]."""
    single = f"[{rows}, {count}, 1]"
    low = f"{{start = [0, 0, 0], stop = [{rows}, {count}, 1], step = [1, 1, 1]}}"
    high = f"{{start = [0, 0, 1], stop = [{rows}, {count}, 2], step = [1, 1, 1]}}"
    return parse(f"""graph q8_0_scales(%w: u8[{rows}, {count * (BLOCK + 2)}]) -> (%s) {{
      {_parted(rows, count)}
      %l = slice{low} %b : u8{single}
      %lw = cast{{dtype = u16}} %l : u16{single}
      %h = slice{high} %b : u8{single}
      %hw = cast{{dtype = u16}} %h : u16{single}
      %c = constant{{value = 8}} : u16{single}
      %up = shift_left %hw, %c : u16{single}
      %bits = bit_or %lw, %up : u16{single}
      %f = bitcast{{dtype = f16}} %bits : f16{single}
      %s = reshape{{shape = [{rows}, {count}]}} %f : f16[{rows}, {count}]
    }}""")

"""`int8_activations`: multiply weights in few bits by integers of 8 bits, as processors do fast.

    %w = call{body = q4_k} %raw        : f32[64, 256]
    %y = call{body = matmul} %x, %w    : f32[1, 64]               where %x: f32[1, 256]
                           ↓
    %i = call{body = int8_activations} %x : (i8[256], f32[8], f32[8])
    %y = call{body = q4_k_by_int8} %raw, … : f32[64]

The values that a weight is multiplied by are rounded in groups, which are those of its blocks: to
multiples of their largest magnitude / 127. A weight is scale · (quants - zero) - least in each
group, so that a product is a sum of products of integers for each group, and two for its scales:

    y = sum of scale · step · sum(quants · integers) - (least + zero · scale) · step · sum(integers)

Sums of integers are exact; what rounds is `x`. One row is multiplied so, as in a step of a
language model: with many rows, a weight's values are made once for all of them. Weights of eight
bits and more stay as they are: reading them takes as long as anything that is done with them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import ClassVar

from typing_extensions import override

from luminal_lab.core.edit import Edit
from luminal_lab.core.ir import IR, Node
from luminal_lab.core.op import ints
from luminal_lab.core.ops import Call, Pick, Reshape
from luminal_lab.core.parse import parse
from luminal_lab.passes.base import Pass
from luminal_lab.passes.pipeline import Pipeline
from luminal_lab.passes.recognition.matmul import MATMUL
from luminal_lab.passes.recognition.reading import Reading
from luminal_lab.passes.recognition.recognise import Recognise
from luminal_lab.passes.rereading import sweep
from luminal_lab.tensor import Tensor
from luminal_lab.tensor.blocks import FORMS, BlockForm
from luminal_lab.tensor.store import Store
from luminal_lab.tensor.widening import parts

NEIGHBOURS = 4
"""The products of bytes that one instruction adds up."""
LEAST = 32
"""The least values that share a scale, if it pays."""
LARGEST = 127
"""The largest magnitude of the integers."""


@dataclass(frozen=True, init=False, repr=False)
class Int8Activations(Pipeline):
    """Round what is multiplied with weights in few bits to integers of 8 bits.

    >>> print(Int8Activations())
    int8_activations
    """

    name: ClassVar[str] = "int8_activations"
    is_early: ClassVar[bool] = True

    def __init__(self) -> None:
        super().__init__([Recognise(only=("matmul",)), Int8Products()])

    @override
    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Int8Products(Pass):
    """Multiply blocks of few bits with integers of 8 bits."""

    name: ClassVar[str] = "int8_products"
    rounds: ClassVar[bool] = True

    @override
    def run(self, ir: IR, edit: Edit) -> None:
        rounded: dict[tuple[int, int], tuple[Node, ...]] = {}
        for weight in ir.nodes:
            form = FORMS.get(weight.op.body.name) if isinstance(weight.op, Call) else None
            if form is None or form.apart is None or len(weight.shape) != 2:
                continue
            if problem := _unfit(form):
                edit.refuse(self.name, weight, because=problem)
                continue
            for user in edit.users(weight):
                problem = self._multiply(edit, form, weight, user, rounded)
                if problem:
                    edit.refuse(self.name, user, because=problem)
            if not edit.users(weight):
                edit.erase(weight)

    def _multiply(
        self,
        edit: Edit,
        form: BlockForm,
        weight: Node,
        user: Node,
        rounded: dict[tuple[int, int], tuple[Node, ...]],
    ) -> str:
        """Multiply by integers instead of a weight's values, or return why not."""
        product = Reading(edit).at(MATMUL, user) if isinstance(user.op, Call) else None
        names = {source.id: name for name, source in product.sources.items()} if product else {}
        if product is None or weight.id not in names or len(names) != 2:
            return f"{user} is no product of {weight} and something else"
        (x,) = (source for source in product.sources.values() if source is not weight)
        columns, axes = product.labels[names[weight.id]][-1], product.labels[names[x.id]]
        if {*product.summed} != {columns} or axes[-1] != columns:
            return f"{user} does not sum along the rows of {weight}"
        if prod(x.shape[:-1]) != 1:
            return f"{x} has several rows, and the values of {weight} are made once for all of them"
        (raw,) = (edit[id] for id in weight.sources)
        shape = ints(weight.shape)
        group = form.values // groups_of(form)
        because = f"{shape[0]} sums of {shape[1]:,} products of bytes"
        with edit.firing(self.name, because):
            if (x.id, group) not in rounded:
                call = edit.insert(
                    Call(rounding(shape[1], group)),
                    edit.insert(Reshape((shape[1],)), x, like=user),
                    like=user,
                )
                rounded[x.id, group] = tuple(
                    edit.insert(Pick(index), call, like=user) for index in range(3)
                )
            call = edit.insert(Call(products(form, shape)), raw, *rounded[x.id, group], like=user)
            edit.replace(user, edit.insert(Reshape(user.shape), call, like=user), renames=True)
            sweep(edit, user)
            edit.erase(user)
        return ""


def _unfit(form: BlockForm) -> str:
    """Return why a form does not gain from it, or nothing."""
    if form.bytes >= form.values:
        return f"{form.name} has eight bits or more a value"
    return ""


class _Page(Store):
    """A graph to write a body in."""

    def written(self, *results: Tensor) -> IR:
        """Return what was written, whose lines are nobody's."""
        return parse(str(self.snapshot(tuple(result.id for result in results), ())))


@lru_cache(64)
def groups_of(form: BlockForm) -> int:
    """Return the number of groups in a block."""
    page = _Page("groups", 0)
    return ints(parts(form, page.tensor((1, form.bytes), "uint8")).quants.shape)[-2]


@lru_cache(256)
def rounding(size: int, group: int) -> IR:
    """Return the graph that rounds values: integers, their steps, and the sums of groups."""
    page = _Page("int8_activations", 0)
    x = page.tensor((size,), "float32", "x").reshape((size // group, group))
    step = (x < 0).where(-x, x).max(-1, keepdim=True) / LARGEST
    near = x * (step > 0).where(1 / step, 0.0)
    integers = (near + (near < 0).where(-0.5, 0.5)).cast("int8")
    sums = integers.cast("int32").sum(-1, dtype="int32").cast("float32")
    step = step.reshape((size // group,))
    return page.written(integers.reshape((size,)), step, sums * step)


@lru_cache(256)
def products(form: BlockForm, shape: tuple[int, int]) -> IR:
    """Return the graph that multiplies blocks with integers."""
    (rows, columns), page = shape, _Page(f"{form.name}_by_int8", 0)
    raw = page.tensor(form.raw_shape(shape), "uint8", "raw")
    scale, quants, zero, least = parts(form, raw)
    blocks, groups, size = ints(quants.shape)[1:]
    integers = page.tensor((columns,), "int8", "integers")
    step, sums = (page.tensor((blocks * groups,), "float32", name) for name in ("step", "sums"))
    each, lanes = (blocks, groups), size // NEIGHBOURS
    scale = scale.reshape((rows, *each))
    if quants.dtype.is_float:
        quants = quants.cast("int8")
    fours = columns // NEIGHBOURS, NEIGHBOURS
    dots = quants.reshape((rows, *fours)).cast("int32") * integers.reshape(fours).cast("int32")
    dots = dots.sum(-1, dtype="int32").cast("float32")
    factors = (scale * step.reshape(each)).contiguous().reshape((rows, blocks * groups, 1))
    factors = factors.expand((rows, blocks * groups, lanes)).reshape((rows, columns // NEIGHBOURS))
    total = (dots * factors).sum(-1)
    if zero:
        least = scale * zero if least is None else least.reshape((rows, *each)) + scale * zero
    if least is not None:
        least = least.reshape((rows, blocks * groups))
        total = total - (least * sums).sum(-1)
    return page.written(total)

"""`bfloat16_activations`: round what is multiplied with weights in bfloat16 to bfloat16, too.

    %v = cast{dtype = f32} %w          : f32[64, 256]             where %w: bf16[64, 256]
    %y = call{body = matmul} %x, %v    : f32[8, 64]               where %x: f32[8, 256]
                           ↓
    %b = cast{dtype = bf16} %x         : bf16[8, 256]
    %z = cast{dtype = f32} %b          : f32[8, 256]
    %y = call{body = matmul} %z, %v    : f32[8, 64]

A product of two such numbers is exact in float32, so that only `x` is rounded. Processors with
AVX512-BF16 multiply two pairs at once and add them up, where subnormal numbers may become 0: this
needs a licence that grants `no_subnormal`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from typing_extensions import override

from luminal_lab.core.dtypes import DType
from luminal_lab.core.edit import Edit
from luminal_lab.core.ir import IR, Node
from luminal_lab.core.op import View
from luminal_lab.core.ops import Call, Cast
from luminal_lab.passes.base import Pass
from luminal_lab.passes.pipeline import Pipeline
from luminal_lab.passes.recognition.matmul import MATMUL
from luminal_lab.passes.recognition.reading import Reading
from luminal_lab.passes.recognition.recognise import Recognise


@dataclass(frozen=True, init=False, repr=False)
class Bfloat16Activations(Pipeline):
    """Round what is multiplied with weights in bfloat16 to bfloat16.

    >>> print(Bfloat16Activations())
    bfloat16_activations
    """

    name: ClassVar[str] = "bfloat16_activations"
    is_early: ClassVar[bool] = True

    def __init__(self) -> None:
        super().__init__([Recognise(only=("matmul",)), Bfloat16Products()])

    @override
    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Bfloat16Products(Pass):
    """Multiply weights in bfloat16 with what is rounded to it."""

    name: ClassVar[str] = "bfloat16_products"
    rounds: ClassVar[bool] = True

    @override
    def run(self, ir: IR, edit: Edit) -> None:
        rounded: dict[int, Node] = {}
        for weight in ir.nodes:
            if not isinstance(weight.op, Cast) or weight.dtype is not DType.float32:
                continue
            (source,) = ir.sources(weight)
            for user in edit.users(weight) if source.dtype is DType.bfloat16 else ():
                self._round(edit, weight, user, rounded)

    def _round(self, edit: Edit, weight: Node, user: Node, rounded: dict[int, Node]) -> None:
        product = Reading(edit).at(MATMUL, user) if isinstance(user.op, Call) else None
        if product is None or weight not in product.sources.values():
            edit.refuse(self.name, user, because=f"{user} is no product of {weight}")
            return
        others = [edit[id] for id in user.sources if id != weight.id]
        if len(others) != 1 or others[0].dtype is not DType.float32:
            edit.refuse(self.name, user, because=f"{user} multiplies {weight} by itself")
            return
        (x,) = others
        if isinstance(_behind_views(edit, x).op, Call):
            why = f"{x} is a product, perhaps the end of an attention, which then is one pass"
            edit.refuse(self.name, user, because=why)
            return
        with edit.firing(self.name, f"{x} is rounded to bfloat16, as {weight} is"):
            if x.id not in rounded:
                short = edit.insert(Cast(DType.bfloat16), x, like=user)
                rounded[x.id] = edit.insert(Cast(DType.float32), short, like=user)
            sources = [rounded[x.id].id if id == x.id else id for id in user.sources]
            new = edit.insert(user.op, *sources, like=user)
            edit.replace(user, new, renames=True)
            edit.erase(user)


def _behind_views(edit: Edit, node: Node) -> Node:
    """Return what a node shows, past views of it."""
    while isinstance(node.op, View):
        node = edit[node.sources[0]]
    return node

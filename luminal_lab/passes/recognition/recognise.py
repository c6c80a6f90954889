"""`recognise`: regions that have a name become calls, whose bodies are the regions.

    %m = max_reduce{axis = 1} %x : f32[4, 8]          %y = call{body = softmax} %x : f32[4, 8]
    …                                             →
    %y = mul %e, %s              : f32[4, 8]          graph softmax(%x: f32[4, 8]) -> (%11) { … }

Nothing is lost: inlining the body gives the region back, to the bit. Small regions are found first,
so that the body of an attention reads as a product, a softmax and a product. Equal regions have one
body, however many layers there are.

Axes, order and numbers are checked: what is nearly a softmax is none. A region whose inner values
are read by others stays as it is, since a call would compute them twice; its parts may still be
recognised. Constants, counting and views inside may have other readers.

It looks for the spellings that tensors' methods have and for common ones by hand. It is best run
before what moves views or merges reductions, and after `cse`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from typing_extensions import override

from luminal_lab.core.edit import Edit
from luminal_lab.core.ir import IR
from luminal_lab.core.op import Op
from luminal_lab.core.ops import Call
from luminal_lab.errors import PassError, nearest
from luminal_lab.passes.base import Pass
from luminal_lab.passes.recognition.arange import ARANGE
from luminal_lab.passes.recognition.attention import ATTENTION
from luminal_lab.passes.recognition.convolution import CONVOLUTION
from luminal_lab.passes.recognition.elementary import ELEMENTARY
from luminal_lab.passes.recognition.matmul import MATMUL
from luminal_lab.passes.recognition.mean import MEAN
from luminal_lab.passes.recognition.norm import LAYER_NORM, MEAN_NORM, RMS_NORM, STD_NORM
from luminal_lab.passes.recognition.reading import Found, Reading, Recogniser
from luminal_lab.passes.recognition.region import Folding
from luminal_lab.passes.recognition.softmax import LOG_SOFTMAX, SOFTMAX

RECOGNISERS: tuple[Recogniser[Found], ...] = (
    ARANGE,
    *ELEMENTARY,
    CONVOLUTION,
    MATMUL,
    MEAN,
    SOFTMAX,
    LOG_SOFTMAX,
    MEAN_NORM,
    STD_NORM,
    LAYER_NORM,
    RMS_NORM,
    ATTENTION,
)
"""In order: what is part of another comes before it."""


@dataclass(frozen=True)
class Recognise(Pass):
    """Make calls of regions that are softmax, matmul, attention and the like."""

    name: ClassVar[str] = "recognise"
    only: tuple[str, ...] = ()
    """The names of what is looked for; none means all."""

    def __post_init__(self) -> None:
        known = [one.name for one in RECOGNISERS]
        for name in self.only:
            if name not in known:
                raise PassError(
                    f"recognise: there is nothing called {name!r} to recognise",
                    hint=nearest(name, known) or f"what there is: {', '.join(known)}",
                )

    @override
    def run(self, ir: IR, edit: Edit) -> None:
        search = _Search(ir, edit)
        for one in RECOGNISERS:
            if not self.only or one.name in self.only:
                for place in search.places_of(one):
                    search.try_at(one, place)


class _Search:
    """A walk over a graph in which calls take the places of what they stand for.

    Users come before what they read, so that the largest region is tried first.
    """

    def __init__(self, ir: IR, edit: Edit) -> None:
        self.edit = edit
        self.reading = Reading(edit)
        self.folding = Folding(ir, edit, self.reading)
        live = [node for node in reversed(ir.nodes) if node.id not in self.folding.dead]
        self.ids = [node.id for node in live]
        self.by_op: dict[type[Op], list[int]] = {}
        for place, node in enumerate(live):
            self.by_op.setdefault(type(node.op), []).append(place)

    def places_of(self, one: Recogniser[Found]) -> list[int]:
        """Return where the roots of a kind of region may be."""
        return sorted(place for op in one.roots for place in self.by_op.get(op, ()))

    def try_at(self, one: Recogniser[Found], place: int) -> None:
        """Make a call of the first region that is found at a place and may become one."""
        node = self.edit.table.get(self.ids[place])
        if node is None or type(node.op) not in one.roots:
            return
        for found in one.find(self.reading, node):
            call = self.folding.fold(found)
            if call is not None:
                self.ids[place] = call.id
                self.by_op.setdefault(Call, []).append(place)
                return

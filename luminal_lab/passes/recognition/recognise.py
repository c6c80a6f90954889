"""`recognise`: turn named regions into calls, whose bodies are the regions.

    %m = max_reduce{axis = 1} %x : f32[4, 8]          %y = call{body = softmax} %x : f32[4, 8]
    …                                             →
    %y = mul %e, %s              : f32[4, 8]          graph softmax(%x: f32[4, 8]) -> (%11) { … }

Nothing is lost: inlining the body restores the region to the bit. Small regions are found first,
so that the body of an attention reads as a product, a softmax and a product. Equal regions share
a body, however many layers there are.

Axes, order and numbers are checked: near misses stay as they are. A region whose inner values
have other readers stays as it is, since a call would compute them twice; its parts may still be
recognised. Constants, counting and views inside may have other readers.

It knows the formulas of tensors' methods and common handwritten ones. Run it
before passes that move views or merge reductions, and after `cse`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass
from typing import ClassVar

from typing_extensions import override

from luminal_lab.core.edit import Edit
from luminal_lab.core.ir import IR, Node
from luminal_lab.core.op import Op, View
from luminal_lab.core.ops import Call
from luminal_lab.errors import PassError, nearest
from luminal_lab.passes.asking import kind_of
from luminal_lab.passes.base import Pass
from luminal_lab.passes.recognition.arange import ARANGE
from luminal_lab.passes.recognition.attention import ATTENTION
from luminal_lab.passes.recognition.convolution import CONVOLUTION
from luminal_lab.passes.recognition.elementary import ELEMENTARY
from luminal_lab.passes.recognition.explained import ExplainedReading
from luminal_lab.passes.recognition.matmul import MATMUL
from luminal_lab.passes.recognition.mean import MEAN
from luminal_lab.passes.recognition.norm import LAYER_NORM, MEAN_NORM, RMS_NORM, STD_NORM
from luminal_lab.passes.recognition.reading import Reading, RecognisedRegion, Recogniser
from luminal_lab.passes.recognition.region import Folding
from luminal_lab.passes.recognition.softmax import LOG_SOFTMAX, SOFTMAX

RECOGNISERS: tuple[Recogniser[RecognisedRegion], ...] = (
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
"""The recognisers in order: parts come before the regions that contain them."""


@dataclass(frozen=True)
class Recognise(Pass):
    """Turn softmax, matmul, attention and other named regions into calls."""

    name: ClassVar[str] = "recognise"
    only: tuple[str, ...] = ()
    """The names of the regions to find; none means all."""

    def __post_init__(self) -> None:
        known = [recogniser.name for recogniser in RECOGNISERS]
        for name in self.only:
            if name not in known:
                raise PassError(
                    f"recognise: there is no recogniser {name!r}",
                    hint=nearest(name, known) or f"the recognisers: {', '.join(known)}",
                )

    @override
    def run(self, ir: IR, edit: Edit) -> None:
        search = Search(ir, edit)
        for recogniser in self._recognisers:
            for index in search.places_of(recogniser):
                search.try_at(recogniser, index)

    @property
    def _recognisers(self) -> Iterator[Recogniser[RecognisedRegion]]:
        return (r for r in RECOGNISERS if not self.only or r.name in self.only)

    @override
    def searches(self) -> tuple[str, ...]:
        return tuple(recogniser.name for recogniser in self._recognisers)

    @override
    def why_not(self, ir: IR, search: str, node: Node) -> str:
        walk = Search(ir, Edit(ir))
        for recogniser in self._recognisers:
            if recogniser.name == search:
                return walk.why_not(recogniser, node)
            for index in walk.places_of(recogniser):
                walk.try_at(recogniser, index)
        return super().why_not(ir, search, node)


class Search:
    """A walk over a graph that replaces regions by calls.

    Users come before their sources, so that the largest region is tried first.
    """

    def __init__(self, ir: IR, edit: Edit) -> None:
        self.ir = ir
        self.edit = edit
        self.reading = Reading(edit)
        self.folding = Folding(ir, edit, self.reading)
        live = [node for node in reversed(ir.nodes) if node.id not in self.folding.dead]
        self.ids = [node.id for node in live]
        """The nodes, with calls in place of the nodes that became calls."""
        self.live = {id: index for index, id in enumerate(self.ids)}
        self.calls: list[Node] = []
        """The calls that it made, as they were then."""
        self.by_op: dict[type[Op], list[int]] = {}
        for index, node in enumerate(live):
            self.by_op.setdefault(type(node.op), []).append(index)

    def places_of(self, recogniser: Recogniser[RecognisedRegion]) -> list[int]:
        """Return the indices of possible roots for a kind of region."""
        roots = sorted(index for op in recogniser.roots for index in self.by_op.get(op, ()))
        if not recogniser.near:
            return roots
        near = self.near(recogniser.near)
        return [index for index in roots if self.ids[index] in near]

    def near(self, starts: Mapping[type[Op], int]) -> Set[int]:
        """Return the nodes that read nodes of some ops within so many steps, and these."""
        left = {self.ids[k]: most for op, most in starts.items() for k in self.by_op.get(op, ())}
        todo, readers, flat = deque(left), self.edit.readers, self.edit.table.flat
        while todo:
            id = todo.popleft()
            for user in readers.get(id, ()):
                node = flat[user]
                rest = left[id] - (node is not None and not isinstance(node.op, View))
                if rest > left.get(user, -1):
                    left[user] = rest
                    todo.append(user)
        return left.keys()

    def try_at(self, recogniser: Recogniser[RecognisedRegion], index: int) -> None:
        """Turn the first suitable region at an index into a call."""
        node = self.edit.table.get(self.ids[index])
        if node is None or type(node.op) not in recogniser.roots:
            return
        for region in recogniser.find(self.reading, node):
            call = self.folding.fold(region)
            if call is not None:
                self.ids[index] = call.id
                self.calls.append(call)
                self.by_op.setdefault(Call, []).append(index)
                return

    def why_not(self, recogniser: Recogniser[RecognisedRegion], node: Node) -> str:
        """Say how far a recogniser gets at a node, which others may have turned into a call."""
        own = self.live.get(node.id)
        if own is None:
            return f"{recogniser.name} leaves {node} to dce: no output needs it."
        for index in self.places_of(recogniser):
            if index >= own:
                break
            self.try_at(recogniser, index)
        now = self.edit.table.get(self.ids[own])
        if now is None:
            return f"{recogniser.name}: {node} is part of {self._call_with(node)} by then."
        name, was = recogniser.name, "" if now.id == node.id else f"{node} is {now} by then. "
        if type(now.op) not in recogniser.roots:
            ends = " or ".join(sorted(op.name for op in recogniser.roots))
            return f"{was}{name} does not begin: {now} is {kind_of(now)}, and it ends in {ends}."
        reading = ExplainedReading(self.edit)
        folding = Folding(self.ir, self.edit, reading)
        for region in recogniser.find(reading, now):
            reading.heard.step(f"it is {region.because}")
            call = folding.fold(region)
            if call is not None:
                return f"{was}{name} is found: {region.because}."
        misfit = reading.heard.furthest
        return was + (f"{name} finds nothing at {now}." if misfit is None else misfit.told(name))

    def _call_with(self, node: Node) -> str:
        """Return the call that a node became part of, in words."""
        for call in reversed(self.calls):
            derivation = call.meta.derivation
            if derivation is not None and node.id in derivation.parents and call.id in self.edit:
                return f"{call}, {kind_of(call)},"
        return "a call"

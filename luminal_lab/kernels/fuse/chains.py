"""Chains: consecutive kernels become one if that is a single pass, which stores nothing.

    %s = call{body = matmul} %q, %k : f32[64, 64]
    %w = call{body = softmax} %s    : f32[64, 64]    →    %o = call{body = attention} %q, %k, %v
    %o = call{body = matmul} %w, %v : f32[64, 32]

Within a chain, the results of all kernels but the last are read by its other kernels only.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass
from typing import ClassVar, TypeAlias

from typing_extensions import override

from luminal_lab.algebra.one_pass import one_pass
from luminal_lab.core.edit import Edit
from luminal_lab.core.ir import IR, Meta, Node, Table
from luminal_lab.core.op import size_of
from luminal_lab.core.ops import Call, Input, MaxReduce, Pick, SumReduce
from luminal_lab.kernels.definition.cost import amount, typical
from luminal_lab.kernels.definition.define import define
from luminal_lab.kernels.definition.programs import nameless
from luminal_lab.kernels.fuse.body import letter
from luminal_lab.kernels.fuse.names import kernel_name
from luminal_lab.passes.asking import SILENT, Asking
from luminal_lab.passes.walking import Walk, Walking

LONGEST = 3
"""The most kernels of a chain."""
Chain: TypeAlias = tuple[Node, ...]
"""Calls, sources first; the last has the result of all."""


@dataclass(frozen=True)
class FuseChains(Walking):
    """Join consecutive kernels into one if together they are one pass."""

    name: ClassVar[str] = "fuse-chains"
    programs: tuple[tuple[str, bool], ...] = ()
    """The text of what a chain computes, and whether it should be one kernel."""

    @override
    def __str__(self) -> str:
        return self.name

    @override
    def run(self, ir: IR, edit: Edit) -> None:
        chaining = self.walk(edit)
        for id in reversed(chaining.live):
            chaining.at(ir[id])

    @override
    def walk(self, edit: Edit) -> Chaining:
        return Chaining(edit, dict(self.programs))

    @override
    def searches(self) -> tuple[str, ...]:
        return ("one-pass",)


class Chaining(Walk):
    """The pass at work, on the graph as it was at the beginning."""

    def __init__(self, edit: Edit, chosen: Mapping[str, bool]) -> None:
        super().__init__(edit)
        self.ir = edit.ir()
        self.live = places(self.ir)
        self.chosen = chosen
        self.bodies = dict[object, IR | None]()
        """What chains compute, by their wiring; None for those that stay apart."""

    def at(self, last: Node) -> None:
        """Make one kernel of the longest chain that ends in a call, and of shorter ones."""
        for chain in chains(self.ir, last, self.live, self):
            mark = self.mark()
            key = wiring(self.ir, chain)
            if key not in self.bodies:
                self.bodies[key] = self.whole(chain)
            body = self.bodies[key]
            if body is not None and all(self.edit.table.get(call.id) for call in chain):
                _write(self.edit, chain, body)
            self.back(mark)

    @override
    def search(self, name: str, node: Node) -> None:
        results = results_of(self.ir, node) if isinstance(node.op, Call) else ()
        users = (user for id in results for user in self.ir.users(id))
        for last in (*(user for user in users if user.id in self.live), node):
            self.at(last)

    def whole(self, chain: Chain) -> IR | None:
        """Return what a chain computes if it should be one kernel: as chosen, or by default."""
        is_pass, last = is_cascade(chain), chain[-1]
        if self.inquiry is not None:
            self.reached("{} would be a chain", _told(self.ir, {call.id for call in chain}))
        if not (self.chosen or is_pass):
            why = "{} ends no sum of products that follows a maximum of such sums"
            self.missed(last, why, last)
            return None
        body = merged(self.ir, chain)
        definition = define(body)
        is_pass = is_pass and one_pass(definition) is not definition
        is_chosen = self.chosen.get(nameless(definition))
        if is_chosen is None:
            self.holds(is_pass, last, "no rule makes one pass of it that pays")
            return body if is_pass else None
        self.holds(is_chosen, last, "a search has found it faster apart")
        return body if is_chosen else None


def places(ir: IR) -> dict[int, int]:
    """Return the nodes that outputs need, in order, each with its place."""
    live = ir.ancestors(ir.outputs)
    return {node.id: place for place, node in enumerate(ir.nodes) if node.id in live}


def chains(ir: IR, last: Node, live: Mapping[int, int], asking: Asking = SILENT) -> list[Chain]:
    """Return the chains that end in a call, the longest first; dead nodes read nothing."""
    if not isinstance(last.op, Call):
        asking.missed(last, "{} is {}, and no kernel", last, last.op.name)
        return []
    groups, mark = [frozenset({last.id})], asking.mark()
    for members in groups:
        if asking.inquiry is not None and len(members) > 1:
            asking.reached("{} would be a chain", _told(ir, members))
        sources = dict.fromkeys(made_by(ir, id).id for n in members for id in ir[n].sources)
        longer = [members | {id} for id in sources if _is_inner(ir, id, members, live, asking)]
        groups += [more for more in longer if len(more) <= LONGEST and more not in groups]
        asking.back(mark)
    if not groups[1:]:
        asking.missed(last, "{} reads the result of no kernel", last)
    ordered = sorted(groups[1:], key=len, reverse=True)
    return [tuple(ir[id] for id in sorted(members, key=live.__getitem__)) for members in ordered]


def _told(ir: IR, members: Set[int]) -> str:
    return " → ".join(str(node) for node in ir.nodes if node.id in members)


def made_by(ir: IR, id: int) -> Node:
    """Return the node that makes a value: if that is one of several results, the node of all."""
    node = ir[id]
    return ir[node.sources[0]] if isinstance(node.op, Pick) else node


def results_of(ir: IR, call: Node) -> dict[int, int]:
    """Return the values that a call makes, each with its number among the results."""
    if not call.extra:
        return {call.id: 0}
    return {pick.id: pick.op.index for pick in ir.users(call) if isinstance(pick.op, Pick)}


def _is_inner(ir: IR, id: int, members: Set[int], live: Mapping[int, int], asking: Asking) -> bool:
    """Return whether a node is a call whose results no live node reads but members."""
    node = ir[id]
    results = results_of(ir, node) if isinstance(node.op, Call) else {}
    for id in results:
        if not asking.holds(not ir.is_output(ir[id]), ir[id], "{} is an output", ir[id]):
            return False
        others = (user for user in ir.users(id) if user.id in live and user.id not in members)
        user = next(others, None)
        if not asking.holds(user is None, ir[id], "{} reads {}, too", user, ir[id]):
            return False
    return bool(results)


def wiring(ir: IR, chain: Chain) -> object:
    """Return a key that chains share if they compute the same."""
    names: dict[int, object] = {}
    for position, call in enumerate(chain):
        for id in call.sources:
            names.setdefault(id, len(names))
        names |= {id: (position, at) for id, at in results_of(ir, call).items()}
    return tuple((call.op, tuple(names[id] for id in call.sources)) for call in chain)


def merged(ir: IR, chain: Chain) -> IR:
    """Return the graph that a chain computes; its inputs are in the order of `sources_of`."""
    *before, last = chain
    if not before:
        return body_of(last)
    table, inside = Table(), list[Node]()
    known: dict[int, int] = {}
    outputs: tuple[int, ...] = ()
    outside = sources_of(ir, chain)
    for index, source in enumerate(outside):
        known[source.id] = index
        op = Input(source.dtype, source.shape)
        table.set(index, Node(index, op, (), source.type, (), Meta(letter(index))))
    for call in chain:
        body = body_of(call)
        number = dict(zip(body.input_ids, [known[id] for id in call.sources], strict=True))
        for node in body.nodes:
            if node.id not in number:
                sources = tuple(number[id] for id in node.sources)
                number[node.id] = index = table.size
                inside.append(Node(index, node.op, sources, node.type, node.extra))
                table.set(index, inside[-1])
        outputs = tuple(number[id] for id in body.output_ids)
        known |= {id: outputs[at] for id, at in results_of(ir, call).items()}
    name = kernel_name("chain", inside) or "_".join(body_of(call).name for call in chain)
    return IR(table, range(len(outside)), outputs, name=name)


def sources_of(ir: IR, chain: Chain) -> list[Node]:
    """Return what a chain reads and does not make; for a single call, in the call's own order."""
    inner = {id for call in chain for id in results_of(ir, call)}
    read = [id for call in chain for id in call.sources if id not in inner]
    return [ir[id] for id in (read if len(chain) == 1 else dict.fromkeys(read))]


def is_cascade(chain: Chain) -> bool:
    """Return whether sums follow maxima of sums, which one pass may be able to do."""
    folds = [{type(node.op) for node in body_of(call)} & {SumReduce, MaxReduce} for call in chain]
    return folds[0] == folds[-1] == {SumReduce} and MaxReduce in set().union(*folds)


def body_of(call: Node) -> IR:
    """Return what a call computes."""
    body = call.op.body_of()
    assert body is not None, "a chain is made of calls"
    return body


def _write(edit: Edit, chain: Chain, body: IR) -> None:
    """Replace a chain by a call."""
    *inner, last = chain
    largest = max(inner, key=lambda call: typical(size_of(call.shape)))
    size = size_of(largest.shape) * largest.dtype.itemsize
    sources = sources_of(edit.ir(), chain)
    with edit.firing("one-pass", f"in one pass the {amount(size)} of {largest} are not stored"):
        call = edit.insert(Call(body), *sources, like=[*reversed(chain)])
        for pick in [*edit.users(last)] if last.extra else ():
            edit.replace(pick, edit.insert(pick.op, call, like=pick), renames=True)
            edit.erase(pick)
        if not last.extra:
            edit.replace(last, call, renames=True)
        for member in reversed(chain):
            for node in (*edit.users(member), member):
                if not edit.users(node):  # there may be dead nodes
                    edit.erase(node)

"""`fuse`: what one loop nest can compute becomes one kernel: a call whose body is the region.

    %a = add %x, %b              : f32[8, 8]        %y = call{body = add_mul_sum} %x, %b : f32[8, 1]
    %m = mul %a, %a              : f32[8, 8]   →
    %y = sum_reduce{axis = 1} %m : f32[8, 1]        graph add_mul_sum(%a: …, %b: …) -> (…) { … }

Views, constants and counting cost nothing and go wherever they are read. A value is stored, and so
ends a kernel, if it is an output, a reduction, read by several, or read again and again through
what repeats it (an expand or a window): computing it anew each time would cost more than storing
it once. Everything else is computed where it is read. Equal regions have one body.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, TypeAlias

from typing_extensions import override

from luminal_lab.core.edit import Edit
from luminal_lab.core.ir import IR, Meta, Node, Table
from luminal_lab.core.op import Elementwise, Reduce, View
from luminal_lab.core.ops import (
    After,
    Call,
    Constant,
    Contiguous,
    Expand,
    Gather,
    GraphBreak,
    HostCall,
    Input,
    Iota,
    Pick,
    Random,
    Scatter,
    StopGradient,
    Update,
    Window,
)
from luminal_lab.passes.base import Pass

FREE = (Constant, Iota, View, Contiguous, StopGradient)
"""What costs nothing to compute again wherever it is read."""
ALONE = (Input, Scatter, Update, HostCall, GraphBreak, After, Call, Pick)
"""What is no part of a kernel, and reads only what is stored."""
REPEATING = (Expand, Window)
"""Views through which one value is read many times."""
Bodies: TypeAlias = dict[tuple[object, ...], IR]


@dataclass(frozen=True)
class Fusion(Pass):
    """Make kernels of regions that one loop nest can compute."""

    name: ClassVar[str] = "fuse"

    @override
    def run(self, ir: IR, edit: Edit) -> None:
        live = ir.ancestors(ir.output_ids)
        stored = dict(_stored(ir, live))
        bodies: Bodies = {}
        for node in ir.nodes:
            if node.id not in stored or isinstance(node.op, ALONE):
                continue
            inside, sources = _region(edit, edit[node.id], stored)
            with edit.firing("kernel", stored[node.id]):
                body = _body(inside, sources, bodies)
                call = edit.insert(Call(body), *sources, like=list(reversed(inside)))
                edit.replace(node.id, call)
        for node in reversed(ir.nodes):
            needed = edit.users(node.id) or edit.is_output(node.id) or isinstance(node.op, Input)
            if node.id in live and not needed:
                edit.erase(node.id, rule="inside-kernels")


def _stored(ir: IR, live: set[int]) -> Iterator[tuple[int, str]]:
    """Yield the nodes whose values are stored, each with the reason."""
    for node in ir.nodes:
        if node.id not in live:
            continue
        readers = list(_readers(ir, node, live))
        if isinstance(node.op, ALONE):
            yield node.id, "it is no part of a kernel"
        elif ir.is_output(node):
            yield node.id, f"{node} is an output"
        elif any(isinstance(user.op, ALONE) for user in ir.users(node) if user.id in live):
            yield node.id, f"what reads {node} reads memory"
        elif not isinstance(node.op, FREE):
            reason = _reason(ir, node, readers)
            if reason:
                yield node.id, reason


def _reason(ir: IR, node: Node, readers: list[tuple[Node, set[int]]]) -> str:
    """Return why a value that is computed is stored, or nothing."""
    if isinstance(node.op, Reduce):
        return f"{node} is reduced once, and its result stored"
    if any(isinstance(user.op, Gather) and user.sources[0] in via for user, via in readers):
        return f"{node} is looked up, in any order"
    users = {user.id for user, _ in readers}
    if len(users) > 1:
        listed = " and ".join(f"%{ir[id].name}" for id in sorted(users)[:3])
        return f"kept apart: {listed} read {node}, and each would compute it"
    repeating = [ir[id] for _, via in readers for id in via if isinstance(ir[id].op, REPEATING)]
    if repeating:
        return f"kept apart: {repeating[0]} repeats {node}, which would be computed each time"
    return ""


def _readers(ir: IR, node: Node, live: set[int]) -> Iterator[tuple[Node, set[int]]]:
    """Yield what computes with a node, and the views it is read through, the node among them."""
    todo = [(node, {node.id})]
    while todo:
        source, via = todo.pop()
        for user in ir.users(source):
            if user.id not in live:
                continue
            if isinstance(user.op, FREE) and not ir.is_output(user):
                todo.append((user, {*via, user.id}))
            else:
                yield user, via


def _region(edit: Edit, root: Node, stored: dict[int, str]) -> tuple[list[Node], list[Node]]:
    """Return the nodes of a kernel, sources first, and the stored values that it reads."""
    inside: dict[int, Node] = {}
    sources: dict[int, Node] = {}
    stack = [(root, False)]
    while stack:
        node, is_done = stack.pop()
        if is_done:
            inside.setdefault(node.id, node)
        elif node is not root and (node.id in stored or isinstance(node.op, ALONE)):
            sources.setdefault(node.id, node)
        elif node.id not in inside:
            stack.append((node, True))
            stack += [(edit[id], False) for id in reversed(node.sources)]
    return list(inside.values()), list(sources.values())


def _body(inside: list[Node], sources: list[Node], bodies: Bodies) -> IR:
    """Return a region as a graph of its own, of equal ones the same."""
    places = {source.id: place for place, source in enumerate(sources)}
    table = Table()
    key: list[object] = [source.type for source in sources]
    for place, source in enumerate(sources):
        op = Input(source.dtype, source.shape)
        table.set(place, Node(place, op, (), source.type, (), Meta(_letter(place))))
    for node in inside:
        place = places[node.id] = len(places)
        read = tuple(places[id] for id in node.sources)
        key.append((node.op, read, node.type))
        table.set(place, Node(place, node.op, read, node.type))
    known = tuple(key)
    if known not in bodies:
        name = _name(inside)
        bodies[known] = IR(table, range(len(sources)), (len(places) - 1,), name=name)
    return bodies[known]


def _letter(place: int) -> str:
    return chr(ord("a") + place) if place < 26 else f"in{place}"


def _name(inside: list[Node]) -> str:
    """Name a kernel after what it computes: its first and its last ops."""
    computing = (Elementwise, Reduce, Gather, Random)
    names = [node.op.name for node in inside if isinstance(node.op, computing)]
    short = [name.removesuffix("_reduce") for name in dict.fromkeys(names)]
    return "_".join(short[:2] + short[-2:] if len(short) > 4 else short) or "copy"

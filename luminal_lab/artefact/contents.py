"""What an exported model takes, returns and brings along, and the plans of its runs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np

from luminal_lab.core import ops
from luminal_lab.core.dims import Symbol, evaluate, symbols
from luminal_lab.core.dtypes import Array
from luminal_lab.core.interpret import Environment
from luminal_lab.core.ir import IR, Node
from luminal_lab.core.op import TensorType
from luminal_lab.devices.cpu.plan import CPUPlan
from luminal_lab.devices.runtime.plan import RunRequest
from luminal_lab.devices.runtime.worklist import Worklist
from luminal_lab.errors import DeviceError, InputError
from luminal_lab.kernels.render.names import c_name
from luminal_lab.passes.compilation import Compilation, DataSource


class Given(NamedTuple):
    """An array of the caller's: what the model reads, or writes."""

    name: str
    c_name: str
    type: TensorType
    id: int
    """The node in the compiled graph."""
    carried: str = ""
    """For an input, the output that takes its place; for an output, the input that it becomes."""


class Weight(NamedTuple):
    """A value that the folder brings along."""

    name: str
    id: int
    value: Array


@dataclass(frozen=True)
class Contents:
    """An exported model: its arrays, its weights, its plans."""

    name: str
    ir: IR
    work: Worklist
    inputs: tuple[Given, ...]
    outputs: tuple[Given, ...]
    """All of them; those that are carried lie where their inputs were."""
    weights: tuple[Weight, ...]
    """What is read and never written, the widest numbers first, so that each is aligned."""
    starts: tuple[Weight, ...]
    """What carried parameters are at first."""
    bounds: Mapping[str, Symbol] = field(default_factory=dict[str, Symbol])
    """The dims that have narrower bounds than in the graph."""

    @cached_property
    def symbols(self) -> Mapping[str, Symbol]:
        """The dims, in their order among the program's."""
        return {name: self.bounds.get(name, self.ir.symbols[name]) for name in self.work.dims}

    @cached_property
    def plans(self) -> list[tuple[Mapping[str, object] | None, CPUPlan]]:
        """The plan for any sizes comes last; before it, those for some sizes."""
        known = frozenset(weight.id for weight in self.weights if not _is_input(self.ir, weight))
        wanted = frozenset(self.ir.output_ids)

        def plan(sizes: int | None) -> CPUPlan:
            return CPUPlan(self.work, RunRequest(wanted, known, frozenset(), sizes))

        some = [(sizes, plan(at)) for at, sizes in enumerate(self.work.sizes)]
        return [*some, (None, plan(None))]


def _is_input(ir: IR, weight: Weight) -> bool:
    return isinstance(ir[weight.id].op, ops.Input)


def contents_of(
    compilation: Compilation,
    data: DataSource,
    work: Worklist,
    name: str,
    bounds: Mapping[str, Symbol],
) -> Contents:
    """Return what is exported of a compile, or raise if something of it cannot leave."""
    ir, written = compilation.ir, compilation.written
    wanted = ir.output_ids
    stored = sorted(compilation.storage.needed(wanted))
    live = _read(ir, wanted, stored)
    _check_works(work, live)
    carried = {old: new for new, old in ir.carries}
    named = _output_names(written)
    names = Names()
    output_of = dict(zip(ir.output_ids, named, strict=False))
    lent = [node for node in ir.inputs if data.is_lent(node.id)]
    inputs = tuple(
        Given(n.name, names.new(n.name), n.type, n.id, output_of.get(carried.get(n.id, -1), ""))
        for n in ir.inputs
        if n.id in carried or (n.id in live and not data.is_lent(n.id))
    )
    input_of = {new: ir[old].name for new, old in ir.carries}
    outputs = tuple(
        Given(name, names.new(name), ir[id].type, id, input_of.get(id, ""))
        for id, name in zip(ir.output_ids, named, strict=True)
    )
    for id in stored:
        for source in (ir[at] for at in ir[id].sources):
            if not data.is_lent(source.id) or source.id in carried:
                raise DeviceError(
                    f"export: {ir[id]} is stored in another form, and made of {source}, which is "
                    "no weight that stays what it is",
                    where=str(ir[id].meta.origin or "") or None,
                    hint="leave the pass out that stores it, for this compile",
                )
    held = {node.id: _value(data, node) for node in lent}

    def find(node: Node) -> Array:
        return held[node.id]

    derived = compilation.storage.values(Environment(find, {}), wanted) if stored else {}
    weights = [Weight(n.name, n.id, held[n.id]) for n in lent if n.id in live - carried.keys()]
    weights += [Weight(f"{ir[id].name}.stored", id, derived[id]) for id in stored]
    starts = [Weight(n.name, n.id, held[n.id]) for n in lent if n.id in carried]
    order = sorted(weights, key=lambda weight: -weight.value.dtype.itemsize)
    return Contents(name, ir, work, inputs, outputs, tuple(order), tuple(starts), bounds)


def _value(data: DataSource, node: Node) -> Array:
    value = data.value_of(node)
    if value is None:
        raise InputError(
            f"export: the weight %{node.name} has no value",
            where=str(node.meta.origin or "") or None,
            hint="load its values, or let them be drawn, before the export",
        )
    return np.require(value, requirements="C")


def _read(ir: IR, wanted: Iterable[int], stored: Sequence[int]) -> set[int]:
    """Return the nodes that a run needs; what is stored is needed, and nothing behind it."""
    return ir.ancestors(wanted, set(stored)) | set(wanted)


def _check_works(work: Worklist, live: set[int]) -> None:
    """Raise if something that a run needs is no kernel."""
    for item in work.works:
        node = item.node
        if node.id not in live or item.use is not None or isinstance(node.op, ops.Stored):
            continue
        raise refused(node)


def refused(node: Node) -> DeviceError:
    """Return the error that says why a node cannot leave."""
    what = "has no form in C"
    if isinstance(node.op, ops.HostCall):
        what = "calls a function of Python's"
    elif isinstance(node.op, ops.UserKernel):
        what = f"is a kernel of yours in {node.op.dialect}, and this is a program in C"
    return DeviceError(
        f"export: {node} {what}, so the model cannot run without Python",
        where=str(node.meta.origin or "") or None,
        hint="export the graph without it, and compute this part outside",
    )


def _output_names(written: IR) -> list[str]:
    """Return the names of the outputs: their own, or else out, or out0, out1 and so on."""
    own = [node.name for node in written.outputs]
    plain = "out" if sum(name.isdigit() for name in own) == 1 else "out{}"
    names: list[str] = []
    for at, name in enumerate(own):
        chosen = plain.format(at) if name.isdigit() else name
        while chosen in names:
            chosen += "_"
        names.append(chosen)
    return names


class Names:
    """Names of C for names of the user's, none twice."""

    def __init__(self) -> None:
        self._taken: set[str] = set()

    def new(self, name: str) -> str:
        """Return a name in C that nothing else has yet.

        >>> names = Names()
        >>> [names.new(name) for name in ("x", "h.x", "h_x", "int", "3")]
        ['x', 'h_x', 'h_x_', 'int_', '_3']
        """
        chosen = c_name(re.sub(r"\W", "_", name, flags=re.ASCII))
        chosen = f"_{chosen}" if chosen[0].isdigit() else chosen
        while chosen in self._taken:
            chosen += "_"
        self._taken.add(chosen)
        return chosen


def told_by(given: Sequence[Given], symbol: Symbol) -> tuple[str, int, int, int] | None:
    """Return the axis of an input that tells a dim's size: a times the size and b.

    The input's name comes first, then the axis, a and b.
    """
    for one in given:
        for axis, dim in enumerate(one.type.shape):
            if [*symbols(dim)] == [symbol]:
                offset = evaluate(dim, {symbol.name: 0})
                factor = evaluate(dim, {symbol.name: 1}) - offset
                if factor > 0 and dim == factor * symbol + offset:
                    return one.name, axis, factor, offset
    return None

"""Devices whose compiler fuses by itself: they get programs that are as large as possible.

Everything between calls to the host, ops without a form on the device, and graph breaks becomes
one call, as here for a device named xla:

    %a = sin %x                                  %a = call{body = xla} %x
    %b = host_call{function = "f"} %a      →     %b = host_call{function = "f"} %a
    %c = add %b, %x                              %c = call{body = xla} %b, %x
    %d = sqrt %c                                 (add and sqrt)

`divide` does so in a pass. `WholeProgram` runs what comes of it: calls on the device, all else by
NumPy. A device says which ops have a form, what a call's results are, and the text of a body.
"""

from __future__ import annotations

import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from time import perf_counter
from typing import Any, ClassVar, TypeAlias

import numpy as np

from luminal_lab.core.dims import Dim
from luminal_lab.core.dtypes import Array
from luminal_lab.core.edit import Edit
from luminal_lab.core.interpret import Environment, NodeStep, interpret
from luminal_lab.core.ir import IR, Node
from luminal_lab.core.op import Elementwise, Op, Reduce, View, size_of
from luminal_lab.core.ops import Call, Constant, GraphBreak, Input, Iota, Pick, Stored
from luminal_lab.core.printer import print_node
from luminal_lab.devices.build.located import unless_forked
from luminal_lab.devices.runtime.program import launch_of
from luminal_lab.devices.runtime.run import out_of_range
from luminal_lab.devices.runtime.worklist import picks_of
from luminal_lab.errors import DeviceError, DimError
from luminal_lab.kernels.fuse.body import Bodies, body_of
from luminal_lab.kernels.kernel import Kernel, Kernels
from luminal_lab.kernels.launch import Launch

Versions: TypeAlias = tuple[int | None, ...]
"""How often what an input is made of has changed, where known."""


def is_computed(op: Op, has_form: Callable[[Op], bool]) -> bool:
    """Return whether a device has a form of an op, or of all ops of its body."""
    body = op.body_of()
    return has_form(op) if body is None else all(is_computed(n.op, has_form) for n in body)


def divide(ir: IR, edit: Edit, has_form: Callable[[Op], bool], name: str) -> None:
    """Make one call of everything that a device can compute at once; equal ones share a body."""
    free: set[int] = set()  # what each program makes for itself
    apart: set[int] = set()
    turns: dict[int, int] = {}
    programs: dict[int, list[Node]] = {}
    bodies: Bodies = {}
    for node in ir:
        if isinstance(node.op, Constant | Iota) or (
            isinstance(node.op, View) and free.issuperset(node.sources)
        ):
            free.add(node.id)
        is_break = isinstance(node.op, GraphBreak)
        turn = max([turns[id] + (is_break or id in apart) for id in node.sources], default=0)
        turns[node.id] = turn
        follows = isinstance(node.op, Pick) and node.sources[0] in apart
        if follows or isinstance(node.op, Stored) or not is_computed(node.op, has_form):
            apart.add(node.id)
        elif not isinstance(node.op, Input):
            programs.setdefault(turn, []).append(node)
    for turn in sorted(programs):
        own = {node.id for node in programs[turn]}
        exits = [
            node
            for node in programs[turn]
            if edit.is_output(node)
            or any(
                user.id in apart or (user.id not in own and node.id not in free)
                for user in ir.users(node)
            )
        ]
        if exits:
            with edit.firing("program"):
                _write(edit, ir, exits, own | free, bodies, name)


def _write(
    edit: Edit, ir: IR, exits: Sequence[Node], own: set[int], bodies: Bodies, name: str
) -> None:
    """Replace the exits of a program by the results of one call."""
    inside, needed = list[Node](), {node.id for node in exits}
    for node in reversed(ir.nodes):
        if node.id in own and node.id in needed:
            inside.append(edit[node.id])
            needed.update(edit[node.id].sources)
    inside.reverse()
    made, read = {node.id for node in inside}, [id for node in inside for id in node.sources]
    sources = [edit[id] for id in dict.fromkeys(read) if id not in made]
    body = body_of(inside, sources, [node.id for node in exits], bodies, name)
    call = edit.insert(Call(body), *sources, like=[*reversed(inside)])
    for index, node in enumerate(exits):
        new = edit.insert(Pick(index), call, like=node) if len(exits) > 1 else call
        edit.replace(node, new, renames=True)


class WholeProgram(ABC):
    """A graph whose calls a device computes."""

    dialect: ClassVar[str]
    """The language of the device's programs."""
    library: ClassVar[str] = ""
    """What has threads of its own, which a fork of this process would lack."""

    def __init__(
        self, ir: IR, has_form: Callable[[Op], bool], sizes: Mapping[str, int] | None
    ) -> None:
        unless_forked(self.library)
        self.has_form = has_form
        self.ir, self.into = ir, {old: new for new, old in ir.carries}
        self.sizes: Mapping[str, int] = dict(sizes or {})
        """The sizes of dims of the last run."""
        self._resident: dict[int, tuple[Versions, Any]] = {}
        """Inputs on the device, each with its version."""
        self._carried: dict[int, tuple[weakref.ref[Array], Any]] = {}
        """What a run made for inputs of the next one: as it was returned, and on the device."""

    @abstractmethod
    def put(self, values: Sequence[Any]) -> Sequence[Any]:
        """Return values on the device."""

    @abstractmethod
    def launch(
        self, body: IR, exits: Sequence[int], given: Sequence[Any], over: Sequence[bool], step: int
    ) -> tuple[Sequence[Any], bool]:
        """Return some values of a body, and whether an index is out of range.

        `over` says for each input whether its memory may be written over. What fails raises here,
        and not when a value is read.
        """

    @abstractmethod
    def text_of(self, body: IR) -> str:
        """Return the program of a body as text, for the sizes of the last run."""

    def sizes_of(self, ir: IR, given: Mapping[str, int], option: str) -> dict[str, int]:
        """Return the sizes of a graph's dims: those given, or else those of the last run.

        `option` is what gives them, for an error that says which is missing.
        """
        sizes = {**self.sizes, **given}
        for name in ir.symbols:
            if name not in sizes:
                raise DimError(
                    f"the dim {name!r} has no size yet",
                    hint=f'a run has one, and {option}={{"{name}": …}} gives one',
                )
        return {name: sizes[name] for name in ir.symbols}

    def unless_whole(self, subject: str) -> None:
        """Raise if the device does not compute everything."""
        needed = self.ir.ancestors(self.ir.output_ids)
        for node in self.ir:
            if node.id in needed and not is_computed(node.op, self.has_form):
                raise DeviceError(
                    f"{subject} has no form of {node.op.name}, which NumPy computes here",
                    where=print_node(self.ir, node),
                    hint="write it with other ops, or run the graph here",
                )

    def is_launched(self, node: Node) -> bool:
        """Return whether the device computes a node, and not NumPy."""
        return isinstance(node.op, Call) and is_computed(node.op, self.has_form)

    def run(
        self,
        environment: Environment,
        wanted: Iterable[int],
        known: Mapping[int, Array],
        trace: list[NodeStep] | None = None,
    ) -> dict[int, Array]:
        """Return the values of the wanted nodes, by their ids."""
        unless_forked(self.library)
        self.sizes, wanted = environment.dims, {*wanted}
        needed = self.ir.ancestors(wanted | environment.probes.keys(), known)
        values: dict[int, Any] = dict(known)
        for node in self.ir.nodes:
            if node.id not in needed or isinstance(node.op, Pick):
                continue
            picks, start = picks_of(self.ir, node) if node.extra else {0: node}, perf_counter()
            asked = {index: pick.id for index, pick in picks.items() if pick.id in needed}
            if isinstance(node.op, Input):
                values[node.id] = environment.data(node)
            elif self.is_launched(node):
                values |= self._launched(node, asked, values, environment)
            else:  # a call to the host, or an op that has no form on the device
                values |= self.by_numpy(asked.values(), values, environment)
            if trace is not None and not isinstance(node.op, Input):
                size = sum(
                    _frozen(values[id]).nbytes for id in asked.values()
                )  # which waits for it
                trace.append(NodeStep(node, perf_counter() - start, size, start))
            for id in asked.values():
                for probe in environment.probes.get(id, ()):
                    probe(_frozen(values[id]))
        results = {id: known[id] if id in known else np.array(values[id]) for id in wanted}
        carried = [(old, new) for old, new in self.into.items() if new in results]
        self._carried |= {old: (weakref.ref(results[new]), values[new]) for old, new in carried}
        return results

    def _launched(
        self,
        node: Node,
        asked: Mapping[int, int],
        values: Mapping[int, Any],
        environment: Environment,
    ) -> dict[int, Any]:
        """Return results of a call, by ids; `asked` has these by the numbers of the results."""
        body, made = body_of_call(node), asked.values()
        exits = [body.output_ids[index] for index in asked]
        over = [self.into.get(id) in made for id in node.sources]
        given = self._given(node, over, values, environment)
        results, is_wrong = self.launch(body, exits, given, over, environment.step)
        if is_wrong:
            raise out_of_range(node, lambda: self.by_numpy([*made], values, environment))
        return dict(zip(made, results, strict=True))

    def _given(
        self,
        node: Node,
        over: Sequence[bool],
        values: Mapping[int, Any],
        environment: Environment,
    ) -> list[Any]:
        """Return the sources of a call on the device, where inputs stay until they change.

        What the last run made for this one is there; what will be written over does not stay.
        """
        there: dict[int, Any] = {}
        versions: dict[int, Versions] = {}
        for id in node.sources:
            source, value = self.ir[id], values[id]
            behind = source.sources if isinstance(source.op, Stored) else (id,)
            versions[id] = tuple(environment.versions.get(source) for source in behind)
            version, array = self._resident.get(id, ((), None))
            returned, made = self._carried.pop(id, (None, None))
            if returned is not None and returned() is (value if value.base is None else value.base):
                there[id] = made
            elif None not in versions[id] and versions[id] == version:
                there[id] = array
        missing = [id for id in dict.fromkeys(node.sources) if id not in there]
        there |= zip(missing, self.put([values[id] for id in missing]), strict=True)
        for id, moves in zip(node.sources, over, strict=True):
            if not moves and None not in versions[id]:
                self._resident[id] = versions[id], there[id]
        return [there[id] for id in node.sources]

    def by_numpy(
        self, wanted: Collection[int], values: Mapping[int, Any], environment: Environment
    ) -> dict[int, Array]:
        """Let the interpreter compute nodes from the values of their sources."""
        plain = environment._replace(probes={})
        needed = {id for node in wanted for id in self.ir[node].sources}
        needed |= {id for node in [*needed] for id in self.ir[node].sources}  # behind a pick
        known = {id: _frozen(values[id]) for id in needed if id in values}
        return interpret(self.ir, plain, wanted=wanted, known=known)

    # -- as kernels --------------------------------------------------------------------------------

    @property
    def calls(self) -> dict[Node, IR]:
        """What the device computes, with the bodies."""
        return {node: body_of_call(node) for node in self.ir.nodes if self.is_launched(node)}

    @property
    def launches(self) -> tuple[Launch, ...]:
        """The programs of a run, in order, as kernels."""
        calls = self.calls
        bodies = enumerate(dict.fromkeys(calls.values()))
        kernels = {body: self._kernel(body, f"_{k + 1}" if k else "") for k, body in bodies}
        pairs = enumerate(calls.items())
        return tuple(launch_of(self.ir, node, kernels[body], k) for k, (node, body) in pairs)

    @property
    def kernels(self) -> Kernels:
        """The distinct programs."""
        return Kernels(dict.fromkeys(launch.kernel for launch in self.launches))

    def _kernel(self, body: IR, suffix: str) -> Kernel:
        try:
            text = self.text_of(body)
        except DimError as error:
            text = f"// {error.message}: {error.hint}"
        counted = [
            body[node.sources[0]] if isinstance(node.op, Reduce) else node
            for node in body
            if isinstance(node.op, Elementwise | Reduce)
        ]
        flops: list[Dim] = [size_of(node.shape) for node in counted]
        ends = (*body.inputs, *body.outputs)
        moved: list[Dim] = [size_of(node.shape) * node.dtype.itemsize for node in ends]
        cost, dims = (sum(flops, 0), sum(moved, 0)), tuple(body.symbols)
        name = body.name + suffix
        return Kernel(name, None, text, (), given_dims=dims, cost=cost, dialect=self.dialect)


def body_of_call(call: Node) -> IR:
    """Return what a call computes."""
    body = call.op.body_of()
    assert body is not None, "only calls are launched"
    return body


def _frozen(value: Any) -> Array:  # noqa: ANN401  # a device's
    """Return a value as an array that nobody may write to."""
    view = np.asarray(value).view()
    view.flags.writeable = False
    return view

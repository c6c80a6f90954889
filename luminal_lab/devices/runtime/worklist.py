"""A graph as the work of a device: which nodes are launches, NumPy's work, or no work at all.

Each value has a number, its slot: the results of nodes, and the working arrays of kernels. A node
that only passes on what it reads (a reshape, a result that is picked) has the slot of its source,
and costs nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import count
from typing import NamedTuple, ParamSpec, TypeAlias

from luminal_lab.core import ops
from luminal_lab.core.dims import Dim, Symbol
from luminal_lab.core.ir import IR, Node
from luminal_lab.core.op import TensorType, size_of
from luminal_lab.errors import DefinitionError, ScheduleError
from luminal_lab.kernels.definition.define import define
from luminal_lab.kernels.definition.definition import Definition
from luminal_lab.kernels.definition.programs import Programs, nameless
from luminal_lab.kernels.definition.specialise import rows_of_products, specialised
from luminal_lab.kernels.kernel import Kernel, function_name
from luminal_lab.kernels.make import make_kernel, with_compared
from luminal_lab.kernels.memory.aliasing import overwritable, same_bytes
from luminal_lab.kernels.moving import moving_kernel
from luminal_lab.kernels.plans.cpu_contraction import SWAPPED
from luminal_lab.kernels.render.c.program import Use, most_phases
from luminal_lab.kernels.render.exact import exact_names
from luminal_lab.kernels.steps.schedule import Schedule
from luminal_lab.kernels.user.kernel import user_kernel
from luminal_lab.machines.machine import Machine
from luminal_lab.passes.sizes import without_a_shape
from luminal_lab.progress import progress

FEW_ROWS = 16
"""The most rows of a product that may have a kernel of its own, which leaves weights in place."""
PASSING = (
    *(ops.After, ops.Contiguous, ops.CustomGradient, ops.GraphBreak, ops.Reshape),
    ops.StopGradient,
)
"""Ops whose result has the bytes of their first source."""
NO_PROGRAMS: Programs = {}
P = ParamSpec("P")
Moving: TypeAlias = ops.Update | ops.Scatter
Recall: TypeAlias = Callable[[Definition], Schedule | None]
"""Returns the schedule that an earlier search has found for a kernel, if there is one."""
Key: TypeAlias = tuple[int, int]
"""A node, and the number of its result."""


class Slot(NamedTuple):
    """A value that has bytes of its own."""

    name: str
    type: TensorType | None
    bytes: Dim


class Way(NamedTuple):
    """A kernel that computes a node: the number of its launch in the source, and its locals."""

    use: int | None
    """None if NumPy does it."""
    locals: tuple[int, ...]


class NodeWork(NamedTuple):
    """What computes one node."""

    node: Node
    general: Way
    """The way for any sizes."""
    special: Mapping[int, Way]
    """The ways for some sizes, by their number in `Worklist.sizes`."""
    reads: tuple[int, ...]
    makes: tuple[int, ...]
    over: tuple[tuple[int, int], ...]
    """Pairs of what it makes and what it reads, where the result may overwrite the input."""

    @property
    def use(self) -> int | None:
        """The number of the launch for any sizes."""
        return self.general.use

    def way(self, sizes: int | None) -> Way:
        """Return the way for sizes by their number, None for any."""
        return self.general if sizes is None else self.special.get(sizes, self.general)


@dataclass(frozen=True)
class Unit:
    """What is known about one body: its kernels, and what its result may share memory with."""

    kernel: Kernel | None
    special: Mapping[int, Kernel] = field(default_factory=dict[int, Kernel])
    same_as: int | None = None
    over: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True)
class KernelMaker:
    """What makes the kernels of a device."""

    name: str
    """The device's name in errors."""
    dialect: str
    """The language of its kernels, users' too."""
    kernel: Callable[[Definition, str, Schedule | None], Kernel]
    """Returns the kernel that computes a definition, by its name and its schedule."""
    moving: Callable[[Moving, Sequence[TensorType], str], Kernel]
    """Returns the kernel of an op that has no definition."""
    user: Callable[[ops.UserKernel, str], Kernel]
    compared: Callable[[Kernel, set[str]], Kernel]
    """Returns a kernel that rounds 16-bit floats after each op in results with these names."""
    has_few_rows: bool = False
    """Whether products have kernels for a single row and for a few, too, where that may be."""

    def each(self, change: Callable[[Kernel], Kernel]) -> KernelMaker:
        """Return the maker of the same kernels, each of them changed."""

        def then(make: Callable[P, Kernel]) -> Callable[P, Kernel]:
            return lambda *given, **named: change(make(*given, **named))

        makers = then(self.kernel), then(self.moving), then(self.user), then(self.compared)
        return KernelMaker(self.name, self.dialect, *makers, self.has_few_rows)


def c_maker(machine: Machine) -> KernelMaker:
    """Return the maker of kernels in C."""

    def kernel(definition: Definition, name: str, schedule: Schedule | None) -> Kernel:
        return make_kernel(definition, name, machine, schedule)

    return KernelMaker(
        "cpu", "c", kernel, moving_kernel, user_kernel, with_compared, has_few_rows=True
    )


class Worklist:
    """All work of a graph, its kernels and slots."""

    def __init__(
        self,
        ir: IR,
        maker: Machine | KernelMaker,
        sizes: Mapping[str, int] | Sequence[Mapping[str, int]],
        schedules: Mapping[str, Schedule] | None = None,
        recall: Recall | None = None,
        programs: Programs = NO_PROGRAMS,
    ) -> None:
        self.ir = ir
        self.recall = recall
        self.programs = programs
        self.schedules = schedules or {}
        """The schedules that replace default ones, by the names of kernels."""
        self.maker = c_maker(maker) if isinstance(maker, Machine) else maker
        self.is_asked = bool(sizes)
        self.definitions: dict[IR, Definition] = {}
        """What the bodies of calls compute."""
        asked = [sizes] if isinstance(sizes, Mapping) else sizes
        self.sizes: list[Mapping[str, Dim]] = [*asked] if sizes else []
        """The sizes of dims for which there are kernels beside the general ones: numbers, or
        symbols with narrower bounds."""
        if not sizes and self.maker.has_few_rows:
            self.sizes = self._few_rows()
        self.dims = sorted(ir.symbols)
        self.kernels: dict[str, Kernel] = {}
        """The distinct kernels, by name."""
        self.uses: list[Use] = []
        self.slots: list[Slot] = []
        self.slot_of: dict[int, int] = {}
        """The slot of each node with one result."""
        self.works: list[NodeWork] = []
        self._by_text: dict[object, Kernel] = {}
        self._units: dict[IR, Unit] = {}
        self._results: dict[Key, int] = {}
        special: list[tuple[int, int, Use]] = []
        with progress("kernels", len(ir), "node") as bar:
            for node in ir:
                body = node.op.body_of()
                if body is not None:
                    bar.now(body.name)
                self._add(node, special)
                bar.step()
        for name, schedule in self.schedules.items():
            fault = f"{self.maker.name}: there is a schedule for {name!r}, but no such kernel"
            hint = f"choose from {', '.join(self.kernels)}"
            ScheduleError.unless_known(name, self.kernels, fault, hint)
            if self.kernels[name].make is None:
                self.kernels[name].rescheduled(schedule)  # which says why it has none
        self._round_what_is_compared(special)
        for at, number, use in special:  # after the general ones, which are numbered like the nodes
            ways = self.works[at].special
            ways = {**ways, number: ways[number]._replace(use=len(self.uses))}
            self.works[at] = self.works[at]._replace(special=ways)
            self.uses.append(use)

    def sizes_of(self, dims: Mapping[str, int]) -> int | None:
        """Return the number of the first sizes that dims have, or None."""
        for number, sizes in enumerate(self.sizes):
            if all(_is_of(dims.get(name), size) for name, size in sizes.items()):
                return number
        return None

    def _add(self, node: Node, special: list[tuple[int, int, Use]]) -> None:
        op = node.op
        if isinstance(op, ops.Pick):
            self.slot_of[node.id] = self._results[node.sources[0], op.index]
            return
        if isinstance(op, PASSING):
            self.slot_of[node.id] = self.slot_of[node.sources[0]]
            return
        if isinstance(op, ops.Input):
            self.slot_of[node.id] = self._slot(node.name, node.type)
            return
        unit = self._unit(node)
        reads = tuple(self.slot_of[id] for id in node.sources)
        if unit.same_as is not None:
            self.slot_of[node.id] = reads[unit.same_as]
            return
        makes: list[int] = []
        for index, type in enumerate(node.types):
            name = node.name if not index else f"{node.name}.{index}"
            slot = self._slot(name, type)
            makes.append(slot)
            self._results[node.id, index] = slot
        self.slot_of[node.id] = makes[0]
        over = tuple((makes[result], reads[index]) for result, index in unit.over)
        own, use = self._use(node, unit.kernel, reads, makes)
        general, ways = Way(None if use is None else len(self.uses), own), dict[int, Way]()
        if use is not None:
            self.uses.append(use)
        for sizes, kernel in unit.special.items():
            own, use = self._use(node, kernel, reads, makes)
            assert use is not None
            ways[sizes] = Way(None, own)
            special.append((len(self.works), sizes, use))
        self.works.append(NodeWork(node, general, ways, reads, tuple(makes), over))

    def _round_what_is_compared(self, special: list[tuple[int, int, Use]]) -> None:
        """Round 16-bit floats after each op where other kernels compare them, as those kernels do.

        One may read a value that the other, as it costs little, computes anew.
        """
        others: dict[int, list[Use]] = {}
        for at, _, use in special:
            others.setdefault(at, []).append(use)
        compared: set[int] = set()
        exact: dict[tuple[str, frozenset[str]], Set[str]] = {}
        results: dict[str, set[str]] = {}
        for at in reversed(range(len(self.works))):
            work = self.works[at]
            uses = [] if work.use is None else [self.uses[work.use]]
            uses += others.get(at, [])
            for kernel in (use.kernel for use in uses):
                if kernel.nest is None or kernel.definition is None:
                    continue
                slots = dict(zip(kernel.names, (*work.reads, *work.makes), strict=True))
                outputs = [output.name for output in kernel.definition.outputs]
                mine = frozenset(name for name in outputs if slots[name] in compared)
                results.setdefault(kernel.name, set()).update(mine)
                key = kernel.name, mine
                if key not in exact:
                    exact[key] = exact_names(kernel.nest, mine)
                compared |= {slots[name] for name in slots.keys() & exact[key]}
        for name, mine in results.items():
            if mine:
                self.kernels[name] = self.maker.compared(self.kernels[name], mine)
        for index, use in enumerate(self.uses):
            self.uses[index] = use._replace(kernel=self.kernels[use.kernel.name])
        for index, (at, sizes, use) in enumerate(special):
            special[index] = at, sizes, use._replace(kernel=self.kernels[use.kernel.name])

    def _use(
        self, node: Node, kernel: Kernel | None, reads: tuple[int, ...], makes: list[int]
    ) -> tuple[tuple[int, ...], Use | None]:
        """Return the slots of a kernel's locals, and its launch."""
        if kernel is None:
            return (), None
        own = tuple(
            self._new(Slot(f"{node.name}.{local.name}", None, local.bytes))
            for local in kernel.locals
        )
        order = {name: position for position, name in enumerate(self.dims)}
        dims = tuple(order[name] for name in kernel.dims)
        slots, types = (*reads, *own, *makes), tuple(map(str, node.types))
        return own, Use(kernel, slots, dims, len(makes), types)

    def _slot(self, name: str, type: TensorType) -> int:
        return self._new(Slot(name, type, size_of(type.shape) * type.dtype.itemsize))

    def _new(self, slot: Slot) -> int:
        self.slots.append(slot)
        return len(self.slots) - 1

    @cached_property
    def most_phases(self) -> int:
        """The number of phases for which each launch has room in the counts of tasks."""
        return most_phases(self.kernels.values())

    # -- kernels -----------------------------------------------------------------------------------

    def _few_rows(self) -> list[Mapping[str, Dim]]:
        """Return sizes of the dims that count the rows of products: all 1, or one of them few.

        A decoder's step has a single row, and a short text has few.
        """
        bodies = {node.op.body for node in self.ir if isinstance(node.op, ops.Call)}
        rows: dict[str, Symbol] = {}
        for body in bodies if self.ir.symbols else ():
            with suppress(DefinitionError):
                rows |= rows_of_products(self._defined(body))
        if not rows:
            return []
        single = dict.fromkeys(sorted(rows), 1)
        few = [
            Symbol(name, symbol.low, FEW_ROWS)
            for name, symbol in sorted(rows.items())
            if not (isinstance(symbol.high, int) and symbol.high <= FEW_ROWS)
        ]
        ways = [single, *({**single, symbol.name: symbol} for symbol in few)]
        return [sizes for sizes in ways if without_a_shape(self.ir, sizes) is None]

    def _defined(self, body: IR) -> Definition:
        """Return what a body computes."""
        if body not in self.definitions:
            definition = define(body)
            computed = self.programs.get(nameless(definition)) if self.programs else None
            if computed is not None:
                definition = replace(computed, name=definition.name)
            self.definitions[body] = definition
        return self.definitions[body]

    def _unit(self, node: Node) -> Unit:
        op = node.op
        if isinstance(op, ops.Call):
            if op.body not in self._units:
                self._units[op.body] = self._of_body(op.body)
            return self._units[op.body]
        if isinstance(op, ops.UserKernel):
            if op.dialect != self.maker.dialect:  # computed by its meaning
                return Unit(None)
            if op not in self._by_text:
                name = self._name(op.body.name)
                self._by_text[op] = self.kernels[name] = self.maker.user(op, name)
            return Unit(self._by_text[op])
        if isinstance(op, (ops.Update, ops.Scatter)):
            types = tuple(self.ir[id].type for id in node.sources)
            key = (op, types)
            if key not in self._by_text:
                name = self._name(op.name)
                self._by_text[key] = self.kernels[name] = self.maker.moving(op, types, name)
            return Unit(self._by_text[key], over=((0, 0),))
        return Unit(None)

    def _of_body(self, body: IR) -> Unit:
        try:
            definition = self._defined(body)
        except DefinitionError:  # one of the user's ops that C does not know
            return Unit(None)
        same = same_bytes(definition)
        if same is not None:
            return Unit(None, same_as=same)
        kernel, special = self._kernel(definition), dict[int, Kernel]()
        over = overwritable(definition, kernel.nest)
        is_special = self.sizes and (self.is_asked or rows_of_products(definition))
        for number, sizes in enumerate(self.sizes if is_special else ()):
            own = {name: size for name, size in sizes.items() if name in definition.dims}
            if not own:
                continue
            name = kernel.name + "".join(map(_suffix, own, own.values()))
            is_free = any(isinstance(size, Symbol) for size in own.values())
            general = kernel if is_free else None
            other = self._kernel(specialised(definition, own), name, general)
            if other is kernel:
                continue
            special[number] = other
            if other.definition is not None:
                also = overwritable(other.definition, other.nest)
                over = tuple(pair for pair in over if pair in also)
        return Unit(kernel, special, over=over)

    def _kernel(
        self, definition: Definition, plain: str | None = None, general: Kernel | None = None
    ) -> Kernel:
        """Return what computes a definition: the general kernel, if it copies the same operand."""
        text = nameless(definition)
        if text not in self._by_text:
            name = self._name(plain or definition.name)
            definition = definition.named(name)
            schedule = self.schedules.get(name)
            if schedule is None and self.recall is not None:
                schedule = self.recall(definition)
            kernel = self.maker.kernel(definition, name, schedule)
            if general is not None and schedule is None and _swaps(kernel) == _swaps(general):
                return general
            self._by_text[text] = self.kernels[name] = kernel
        return self._by_text[text]

    def _name(self, plain: str) -> str:
        """Return a kernel's name: its own, or numbered, and different from others' own names."""
        taken = {function_name(name) for name in self.kernels}
        if function_name(plain) not in taken:
            return plain
        taken |= self._functions
        numbered = (f"{plain}_{number}" for number in count(2))
        return next(name for name in numbered if function_name(name) not in taken)

    @cached_property
    def _functions(self) -> set[str]:
        """The C names of functions of kernels by the names that they bring with them."""
        bodies = [node.op.body_of() for node in self.ir]
        return {function_name(body.name) for body in bodies if body is not None}


def _is_of(size: int | None, wanted: Dim) -> bool:
    """Return whether the size of a dim is a number, or within the bounds of a symbol."""
    if not isinstance(wanted, Symbol):
        return size == wanted
    return size is not None and isinstance(wanted.high, int) and wanted.low <= size <= wanted.high


def _swaps(kernel: Kernel) -> bool:
    """Return whether the first operand of a product gives the columns, which are copied."""
    return bool(kernel.choices.values.get(SWAPPED.name))


def _suffix(name: str, size: Dim) -> str:
    """Return what the name of a kernel for some sizes ends with."""
    return f"_{name}_to_{size.high}" if isinstance(size, Symbol) else f"_{name}{size}"


def needed(ir: IR, wanted: Iterable[int], known: Iterable[int]) -> Iterator[Node]:
    """Yield the nodes that the wanted ones are computed from, in order, except known ones."""
    behind = ir.ancestors(wanted, set(known))
    return (node for node in ir if node.id in behind)


def picks_of(ir: IR, node: Node) -> dict[int, Node]:
    """Return the nodes that pick single results of a node, by the number of the result."""
    return {user.op.index: user for user in ir.users(node) if isinstance(user.op, ops.Pick)}

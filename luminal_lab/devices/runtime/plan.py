"""One kind of run: its steps, the memory plan for them, and both for sizes of dims.

A run has wanted values, and some known from before; for each such pair there is a `Plan`. For all
sizes of dims that it meets there is a `Bound`, to which a device adds its launches.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from math import inf
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

import numpy as np

from luminal_lab.core import ops
from luminal_lab.core.binding import bound_shape
from luminal_lab.core.dims import Dim, Expr, Shape, bounds, symbols
from luminal_lab.core.ir import IR, Node
from luminal_lab.core.op import Elementwise, Op, Reduce, TensorType, ints
from luminal_lab.devices.runtime.worklist import NodeWork, Worklist, needed
from luminal_lab.errors import LabError
from luminal_lab.kernels.definition.numbers import Numbers
from luminal_lab.kernels.kernel import Kernel
from luminal_lab.kernels.memory.plan import BoundPlan, MemoryPlan, plan
from luminal_lab.kernels.memory.program import MemoryStep, MemoryValue, ValueKind

MOST_SIZES = 64
"""For how many sizes of dims plans are remembered."""
MOST_CHECKED = 10_000
FITTING = (Elementwise, Reduce, ops.Contiguous, ops.Expand, ops.Flip, ops.Permute, ops.Reshape)
"""Ops that fit for all sizes if they fit when written, since equal dims are the same dim."""

NumpyType: TypeAlias = np.dtype[np.generic]
Result: TypeAlias = tuple[int, int, tuple[int, ...], NumpyType]
"""The id of a result, its slot, its shape and its dtype."""
BoundT = TypeVar("BoundT", bound="Bound")


K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Remembered(dict[K, V]):
    """Values that are computed once; if there are too many, the oldest is dropped."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self.most = most

    def keep(self, key: K, value: V) -> V:
        """Remember a value, and return it."""
        if len(self) >= self.most:
            self.pop(next(iter(self)))
        self[key] = value
        return value


class LaunchSpan(NamedTuple):
    """Works done in one go: launched up to a probed value, or by NumPy, one at a time."""

    first: int
    last: int
    is_launched: bool = True
    checks: bool = False
    """Whether out-of-range indices are checked for after them, on a GPU."""


class RunRequest(NamedTuple):
    """The wanted values of a run, and the known ones."""

    wanted: frozenset[int]
    known: frozenset[int]
    probed: frozenset[int] = frozenset()
    sizes: int | None = None
    """The sizes whose kernels it uses, by their number in the worklist."""


class ResultSlot(NamedTuple):
    """A value that a run returns."""

    id: int
    slot: int
    type: TensorType


class FitCheck(NamedTuple):
    """An op whose shapes fit or not depending on the sizes of dims."""

    op: Op
    types: tuple[TensorType, ...]
    dims: tuple[str, ...]


class FitLimits(NamedTuple):
    """What an op that depends on sizes of dims takes: a number, by its place, within limits."""

    place: int
    low: int
    high: float


class PlacedMemory:
    """A memory plan with numbers for all sizes, as a device reads it."""

    def __init__(self, plan: RunPlan[Any], memory: BoundPlan) -> None:
        self.memory, sizes = memory, memory.bytes
        self.outputs = [(slots, sizes[slots[0]]) for slots in plan.places]
        """The slots that live in the place of each output, and its bytes."""
        self.owned = {slot: sizes[slot] for slot in plan.owned}
        """The bytes of the inputs that are overwritten, by slot."""
        offsets = memory.offsets
        self.slots = np.array([*offsets], np.intp)
        """The slots in the arena."""
        self.offsets = np.array([*offsets.values()], np.uintp)
        """Where they are."""


class Bound:
    """A kind of run for sizes of dims: its memory, and its results."""

    def __init__(self, plan: RunPlan[Any], dims: Mapping[str, int]) -> None:
        self.dims, self.plan = dict(dims), plan
        self.numbers = plan.numbers.of(dims)
        """The numbers that the plan needs."""
        if dims:
            plan.check(dims, self.numbers)
        self._shapes: dict[Shape, tuple[int, ...]] = {}
        self.placed = plan.memory(dims)
        """Where values live."""
        self.memory, self.outputs = self.placed.memory, self.placed.outputs
        self.owned = self.placed.owned
        self.spans: list[LaunchSpan] = []
        self.results = plan.shaped(self)

    def number(self, dim: Dim) -> int:
        """Return one of the numbers, by its dim."""
        return self.numbers[self.plan.numbers.place(dim)]

    def shape_of(self, type: TensorType) -> tuple[tuple[int, ...], NumpyType]:
        """Return a type as NumPy knows it."""
        shape = self._shapes.get(type.shape)
        if shape is None:
            shape = self._shapes[type.shape] = ints(bound_shape("run", type.shape, self.dims))
        return shape, type.dtype.numpy


class RunPlan(Generic[BoundT]):
    """The steps of a kind of run, and where their values live."""

    bound_type: type[BoundT]
    """The class of a run for some sizes of dims."""

    def __init__(self, work: Worklist, asked: RunRequest) -> None:
        ir, slot_of = work.ir, work.slot_of
        self.list = work
        self.asked = asked
        goals = asked.wanted | asked.probed
        nodes = [*needed(ir, goals, asked.known)]
        ids = {node.id for node in nodes}
        self.nodes = nodes
        self.works = [item for item in work.works if item.node.id in ids]
        self.locals = [work.way(asked.sizes).locals for work in self.works]
        written = {slot for work in self.works for slot in work.makes}
        read = {slot for work in self.works for slot in work.reads}
        self.inputs = [
            (node, slot_of[node.id])
            for node in nodes
            if isinstance(node.op, ops.Input) and slot_of[node.id] in read
        ]
        self.known = [
            (id, slot_of[id])
            for id in sorted(asked.known)
            if slot_of.get(id) in read and slot_of[id] not in written
        ]
        results = [ResultSlot(id, slot_of[id], ir[id].type) for id in sorted(goals - asked.known)]
        self.results = [value for value in results if value.slot in written]
        self.passed = [value for value in results if value.slot not in written]
        """Inputs or known values under another name: a copy is returned."""
        self.plan = self._plan(ir, written, {slot for _, slot in self.inputs})
        self.numbers = Numbers()
        """What is worked out for sizes of dims: limits of ops, and what a device adds."""
        self.limits: list[FitLimits] = []
        """What ops take, as far as limits on numbers say it."""
        self.unlimited: list[int] = []
        """The checks, by their place among `checks`, that no limits say."""
        self._find_limits()
        open_dims = {
            s for result in self.results for dim in result.type.shape for s in symbols(dim)
        }
        self._open = sorted({symbol.name for symbol in open_dims})
        self._shaped = Remembered[tuple[int, ...], list[Result]](MOST_SIZES)
        self._bound = Remembered[tuple[int, ...], BoundT](MOST_SIZES)
        self._memory = Remembered[tuple[int, ...], PlacedMemory](MOST_SIZES)
        self._checked = Remembered[tuple[int, tuple[int, ...]], bool](MOST_CHECKED)

    def kernel_of(self, work: NodeWork) -> Kernel | None:
        """Return the kernel that does some work in this kind of run."""
        number = self.number_of(work)
        return None if number is None else self.list.uses[number].kernel

    def number_of(self, work: NodeWork) -> int | None:
        """Return the number of the launch that does some work in this kind of run."""
        return work.way(self.asked.sizes).use

    @cached_property
    def probed(self) -> frozenset[int]:
        """The works that make a value shown to a probe."""
        slots = {value.slot for value in self.results if value.id in self.asked.probed}
        return frozenset(
            at for at, work in enumerate(self.works) if not slots.isdisjoint(work.makes)
        )

    def spans(self, *apart: int) -> list[LaunchSpan]:
        """Return the spans of work done in one go; works with these numbers begin a new span."""
        begins = {at + 1 for at in self.probed}.union(apart)
        spans: list[LaunchSpan] = []
        for at, work in enumerate(self.works):
            is_launched = self.number_of(work) is not None
            if is_launched and spans and spans[-1].is_launched and at not in begins:
                spans[-1] = spans[-1]._replace(last=at + 1)
            else:
                spans.append(LaunchSpan(at, at + 1, is_launched))
        return spans

    def _plan(self, ir: IR, written: set[int], given: set[int]) -> MemoryPlan:
        slots, slot_of = self.list.slots, self.list.slot_of
        outputs = {new_slot.slot for new_slot in self.results}
        kinds: dict[int, ValueKind] = {}
        kinds |= dict.fromkeys([slot for _, slot in self.inputs], "input")
        kinds |= dict.fromkeys([slot for _, slot in self.known if slot not in kinds], "constant")
        for work, own in zip(self.works, self.locals, strict=True):
            kinds |= dict.fromkeys([*own, *work.makes], "temporary")
        kinds |= dict.fromkeys(outputs, "output")
        steps = [
            MemoryStep(work.reads, (*own, *work.makes))
            for work, own in zip(self.works, self.locals, strict=True)
        ]
        donated: dict[int, int] = {}
        asked = {slot_of[id] for id in self.asked.wanted | self.asked.probed if id in slot_of}
        # An error in the user's function must leave all inputs as they were.
        if all(work.use is not None for work in self.works):
            for new, old in ir.carries:
                new_slot, old_slot = slot_of.get(new), slot_of.get(old)
                if new_slot in outputs and old_slot in given and old_slot not in asked:
                    assert new_slot is not None
                    assert old_slot is not None
                    if new_slot not in donated and slots[new_slot].bytes == slots[old_slot].bytes:
                        donated[new_slot] = old_slot
        pairs = dict.fromkeys(pair for work in self.works for pair in work.over)
        values = [
            MemoryValue(slot, slots[slot].bytes, kind, None, slots[slot].name)
            for slot, kind in sorted(kinds.items())
        ]
        planned = plan(values, steps, donated=donated, in_place=pairs)
        # So must an error in a probe: its values are there before anything is overwritten.
        if max(self.probed, default=-1) >= self._first_over(planned):
            return plan(values, steps, donated={}, in_place=pairs)
        return planned

    @cached_property
    def no_return(self) -> int:
        """The first step that overwrites an input; from there on a run must be finished."""
        return self._first_over(self.plan)

    def _first_over(self, planned: MemoryPlan) -> int:
        for at, work in enumerate(self.works):
            places = [planned.places[planned.place_of[slot]] for slot in work.makes]
            if any(place.kind == "input" for place in places):
                return at
        return len(self.works)

    @cached_property
    def owned(self) -> Mapping[int, tuple[int, ...]]:
        """For each input that is overwritten, by its slot, the slots that live in its place."""
        return {
            place.values[0]: place.values
            for place in self.plan.places
            if place.kind == "input" and len(place.values) > 1
        }

    @cached_property
    def places(self) -> list[tuple[int, ...]]:
        """The slots that live in the place of each output."""
        return [place.values for place in self.plan.places if place.kind == "output"]

    @cached_property
    def checks(self) -> Mapping[FitCheck, Node]:
        """The ops whose fit depends on sizes of dims, each with a node that needs it."""
        checks: dict[FitCheck, Node] = {}
        graphs: set[IR] = set()
        todo = [(self.list.ir, node, node) for node in reversed(self.nodes)]
        while todo:
            ir, node, outer = todo.pop()
            body = node.op.body_of()
            if body is not None:
                if body not in graphs:
                    graphs.add(body)
                    todo += [(body, inner, outer) for inner in reversed(body.nodes)]
                continue
            if isinstance(node.op, (*FITTING, ops.Input, ops.HostCall, ops.Pick)):
                continue
            types = tuple(ir[id].type for id in node.sources)
            if _always_fits(node.op, types):
                continue
            names = {symbol.name for symbol in node.op.symbols()}
            for type in types:
                names |= {s.name for dim in type.shape for s in symbols(dim)}
            if names:
                checks.setdefault(FitCheck(node.op, types, tuple(sorted(names))), outer)
        return checks

    def _find_limits(self) -> None:
        """Write down what ops take, as far as limits say it."""
        for number, check in enumerate(self.checks):
            limits = _limits(check.op, check.types)
            if limits is None:
                self.unlimited.append(number)
                continue
            for dim, low, high in limits:
                if not _is_within(dim, low, high):
                    self.limits.append(FitLimits(self.numbers.place(dim), low, high))

    def check(self, dims: Mapping[str, int], numbers: Sequence[int]) -> None:
        """Raise if something does not fit with these sizes, and their numbers."""
        suspects: Sequence[int] = range(len(self.checks))
        with suppress(LabError):  # which a check says better
            if all(low <= numbers[at] <= high for at, low, high in self.limits):
                suspects = self.unlimited
        for number in suspects:
            self._check(number, dims)

    def _check(self, number: int, dims: Mapping[str, int]) -> None:
        (op, types, names), node = self._all_checks[number]
        key = number, tuple([dims[name] for name in names])
        if key in self._checked:
            return
        try:
            subject = f"execute: {node}"
            shapes = [bound_shape(subject, type.shape, dims) for type in types]
            pairs = zip(types, shapes, strict=True)
            op.bind(dims).infer(*[type.with_shape(shape) for type, shape in pairs])
        except LabError as error:
            error.where = error.where or str(node.meta.origin or "") or None
            raise
        self._checked.keep(key, True)

    @cached_property
    def _all_checks(self) -> list[tuple[FitCheck, Node]]:
        return [*self.checks.items()]

    def shaped(self, bound: Bound) -> list[Result]:
        """Return the results with their shapes as numbers; equal shapes share one list."""
        key = tuple([bound.dims[name] for name in self._open])
        known = self._shaped.get(key)
        if known is None:
            shaped = [(id, slot, *bound.shape_of(type)) for id, slot, type in self.results]
            known = self._shaped.keep(key, shaped)
        return known

    def bound(self, dims: Mapping[str, int]) -> BoundT:
        """Return the run for some sizes of dims."""
        key = tuple([dims[name] for name in self.list.dims if name in dims]) if dims else ()
        return self._bound.get(key) or self._bound.keep(key, self.bound_type(self, dims))

    def memory(self, dims: Mapping[str, int]) -> PlacedMemory:
        """Return where values live for sizes; those that differ only in other dims share it."""
        names = self.plan.program.symbols
        key = tuple([dims[name] for name in names])
        known = self._memory.get(key)
        if known is None:
            bound = self.plan.bind({name: dims[name] for name in names})
            known = self._memory.keep(key, PlacedMemory(self, bound))
        return known


def _limits(op: Op, types: tuple[TensorType, ...]) -> list[tuple[Dim, int, float]] | None:
    """Return the limits within which numbers make an op fit, or None if there is more to it."""
    match op:
        case ops.Constant(value=Expr() as value, dtype=dtype) if not dtype.is_float:
            limits, dims = [(value, *dtype.limits)], op.shape
        case ops.Constant(shape=shape) | ops.Iota(shape=shape) | ops.Random(shape=shape):
            limits, dims = [], shape
        case ops.Pad(before=before, after=after):
            limits, dims = [(rows, 0, inf) for rows in (*before, *after)], types[0].shape
        case ops.Window(axis=axis, size=size, dilation=dilation):
            dims = types[0].shape
            limits = [(size - 1, 0, inf), (dims[axis] - dilation * (size - 1) - 1, 0, inf)]
        case ops.Gather(axis=axis) | ops.Scatter(axis=axis):
            values, dims = types[0].shape, types[1].shape
            pairs = [pair for k, pair in enumerate(zip(values, dims, strict=True)) if k != axis]
            limits = [(size - rows, 0, 0) for size, rows in pairs]
            if len(types) > 2:
                pairs = zip(types[2].shape, dims, strict=True)
                limits += [(size - rows, 0, 0) for size, rows in pairs]
        case ops.Slice(start=starts, stop=stops):
            dims = types[0].shape
            axes = zip(starts, stops, dims, strict=True)
            limits = [(gap, 0, inf) for a, b, size in axes for gap in (a, b - a, size - b)]
        case ops.Update(axis=axis, at=at):
            buffer, rows = (type.shape for type in types)
            dims = (*buffer, *rows)
            limits = [(at, 0, inf), (buffer[axis] - at - rows[axis], 0, inf)]
        case _:
            return None
    return [*limits, *((dim, 0, inf) for dim in dims)]


def _is_within(dim: Dim, low: int, high: float) -> bool:
    """Return whether a dim is within limits for all sizes that the bounds of symbols allow."""
    least, most = bounds(dim)
    return least is not None and low <= least and (inf if most is None else most) <= high


def _always_fits(op: Op, types: tuple[TensorType, ...]) -> bool:
    """Return whether an op fits for all sizes that the bounds of dims allow."""
    limits = _limits(op, types)
    return limits is not None and all(_is_within(*limit) for limit in limits)

"""How GPUs run a nest: which thread runs what, what each keeps, and where all must wait.

    block i < m:                              a launch of m blocks
      local part: f32[256] in registers       a number in each of 256 threads
      thread l < 256:                         a region: what thread l of the block does
        part[l] = 0.0
        for c < n / 256:
          part[l] += x[i, 256*c + l]
      local t: f32[] in registers             the same number in all threads
      t = 0.0
      across l_2 < 256:                       threads exchange what they have
        t += part[l_2]
      thread l_3 < 1:
        y[i] = t

A nest means what it means with all its loops run one after the other; the kinds of its loops only
say who runs them. An outermost run of block loops is a phase, one launch; what stands outside of
them is a phase of one block of one thread. A run of thread loops is a region; regions do not stand
in each other. The last of its loops is the fastest: neighbours along it are neighbours in number.

An array in registers that is declared outside of regions is spread: its first axes are threads, and
each thread has a part of it. A region that uses it numbers its threads so that each finds its own.
What blocks set outside of regions all threads do alike, if it is in registers, and else the first.

Where threads wait for each other is not written: it follows from who writes what.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from luminal_lab.core.dims import Dim, Symbol, symbols
from luminal_lab.core.op import size_of
from luminal_lab.errors import ScheduleError
from luminal_lab.kernels.nest import (
    Access,
    Block,
    Local,
    Loop,
    Nest,
    Statement,
    When,
    accesses,
    arrays_in,
    walk,
)
from luminal_lab.kernels.steps.step import private

WARP = 32


@dataclass(frozen=True)
class Region:
    """What the threads of a block do, each by itself."""

    axes: tuple[Loop, ...]
    body: Block
    fold: Loop | None = None
    """The loop along which threads exchange what they have."""

    @property
    def loops(self) -> tuple[Loop, ...]:
        """The loops whose positions are threads."""
        return self.axes if self.fold is None else (*self.axes, self.fold)

    @property
    def size(self) -> int:
        """How many threads it has work for."""
        found = size_of(tuple(loop.size for loop in self.loops))
        assert isinstance(found, int)
        return found


@dataclass(frozen=True)
class Along:
    """Where an axis of threads is in their numbers."""

    size: int
    stride: int


@dataclass
class Phase:
    """One launch: its blocks, its regions, and how many threads they take."""

    nest: Nest
    blocks: tuple[Loop, ...]
    body: Block
    regions: dict[int, Region] = field(default_factory=dict[int, Region])
    """The regions, by the identities of the loops that they begin with."""

    def __post_init__(self) -> None:
        for one in self._starts(self.body):
            self.regions[id(one)] = self._region(one)

    @property
    def tasks(self) -> Dim:
        """How many blocks there are."""
        return size_of(tuple(loop.size for loop in self.blocks))

    @cached_property
    def threads(self) -> int:
        """How many threads a block has: whole warps where there is more than one thread."""
        most = max([1, *(self._reach(one) for one in self.regions.values())])
        return most if most == 1 else -(-most // WARP) * WARP

    @cached_property
    def spread(self) -> Mapping[str, tuple[Along, ...]]:
        """For each array that is spread over threads where its first axes are in their numbers."""
        found: dict[str, tuple[Along, ...]] = {}
        for region in sorted(self.regions.values(), key=lambda one: -one.size):
            strides = self._strides(region, found)
            for name, axes in self._own(region):
                along = tuple(Along(_size(axis), strides[axis.name]) for axis in axes)
                known = found.setdefault(name, along)
                if known != along:
                    common = min(len(known), len(along))
                    if known[:common] != along[:common]:
                        raise self._elsewhere(name, region)
                    found[name] = known[:common]
        return found

    def strides(self, region: Region) -> Mapping[str, int]:
        """Return by how much the number of the thread grows along each axis of a region."""
        return self._strides(region, self.spread)

    def guard(self, region: Region) -> list[tuple[int, int, int]]:
        """Return what must hold of a thread's number: (number % most) / stride < size."""
        strides = self.strides(region)
        found: list[tuple[int, int, int]] = []
        above = self.threads
        for loop in region.loops:
            stride, size = strides[loop.name], _size(loop)
            if size * stride != above:
                found.append((above, stride, size))
            above = stride
        if above > 1:
            found.append((above, 1, 1))
        return found

    # -- what is found ------------------------------------------------------------------------------

    def _starts(self, block: Block) -> Iterator[Loop]:
        """Yield the loops with which regions begin."""
        for one in block:
            if isinstance(one, Loop) and one.kind in ("thread", "across"):
                yield one
            elif isinstance(one, Loop):
                if one.kind == "block":
                    raise ScheduleError(
                        f"nest {self.nest.name}: {one.name} is a loop over blocks inside of others",
                        hint="blocks are the outermost loops",
                    )
                yield from self._starts(one.body)
            elif isinstance(one, When):
                yield from self._starts(one.body)

    def _region(self, first: Loop) -> Region:
        axes: list[Loop] = []
        loop, body = first, first.body
        while loop.kind == "thread":
            axes.append(loop)
            body = loop.body
            if len(body) != 1 or not isinstance(body[0], Loop):
                break
            loop = body[0]
        fold = loop if loop.kind == "across" else None
        if fold is not None:
            body = fold.body
        for one in walk(body):
            if isinstance(one, Loop) and one.kind in ("block", "thread", "across"):
                raise ScheduleError(
                    f"nest {self.nest.name}: {one.name} is a loop over {one.kind}s inside of what "
                    f"each thread does",
                    hint="threads' loops are right around each other",
                )
        return Region(tuple(axes), body, fold)

    def _own(self, region: Region) -> Iterator[tuple[str, tuple[Loop, ...]]]:
        """Yield the arrays in registers that a region finds, and the threads' axes in each."""
        inside = private(region.body)
        for use in accesses(region.body):
            if use.name in inside or not self.is_kept(use.name):
                continue
            assert use.index is not None
            yield use.name, self._leading(region, use)

    def _leading(self, region: Region, use: Access) -> tuple[Loop, ...]:
        by_axis = {loop.axis: loop for loop in region.loops}
        found: list[Loop] = []
        assert use.index is not None
        for place in use.index:
            if not isinstance(place, Symbol) or place not in by_axis:
                break
            found.append(by_axis[place])
        rest = {s for place in use.index[len(found) :] for s in symbols(place)}
        for loop in region.loops:
            if loop.axis in rest:
                raise ScheduleError(
                    f"nest {self.nest.name}: {use.name} is in the registers of each thread, and "
                    f"{loop.name} is not one of its first places",
                    hint=f"place {use.name} in shared",
                )
        return tuple(found)

    def is_kept(self, name: str) -> bool:
        """Return whether an array is in registers from one region to another."""
        local = self.nest.locals.get(name)
        return local is not None and local.space == "registers" and bool(local.type.shape)

    def _strides(self, region: Region, known: Mapping[str, tuple[Along, ...]]) -> dict[str, int]:
        fixed: dict[str, int] = {}
        for name, axes in self._own(region):
            for axis, along in zip(axes, known.get(name, ()), strict=False):
                if fixed.setdefault(axis.name, along.stride) != along.stride:
                    raise self._elsewhere(name, region)
        found: dict[str, int] = {}
        below = 1
        for loop in reversed(region.loops):
            stride = fixed.get(loop.name, below)
            if stride < below:
                raise ScheduleError(
                    f"nest {self.nest.name}: what {loop.name} needs is in threads {stride} apart, "
                    f"and the loops in it take {below}",
                    hint="give the loops of both regions the same sizes",
                )
            found[loop.name] = stride
            below = stride * _size(loop)
        return found

    def _reach(self, region: Region) -> int:
        strides = self.strides(region)
        loops = region.loops
        return strides[loops[0].name] * _size(loops[0]) if loops else 1

    def _elsewhere(self, name: str, region: Region) -> ScheduleError:
        loops = ", ".join(loop.name for loop in region.loops)
        return ScheduleError(
            f"nest {self.nest.name}: {name} is in the registers of other threads than those of "
            f"{loops}",
            hint=f"place {name} in shared",
        )


def _size(loop: Loop) -> int:
    assert isinstance(loop.size, int), loop
    return loop.size


def phases(nest: Nest) -> list[Phase]:
    """Return the launches that a nest is, in order."""
    found: list[Phase] = []
    waiting: list[Statement] = []

    def alone() -> None:
        if waiting:
            found.append(Phase(nest, (), tuple(waiting)))
            waiting.clear()

    for one in nest.body:
        if isinstance(one, Loop) and one.kind == "block":
            if arrays_in(tuple(waiting)) & arrays_in((one,)):
                alone()
            blocks = [one]
            while (
                len(blocks[-1].body) == 1
                and isinstance(inner := blocks[-1].body[0], Loop)
                and inner.kind == "block"
            ):
                blocks.append(inner)
            found.append(Phase(nest, tuple(blocks), blocks[-1].body))
        elif not (isinstance(one, Local) and one.space == "memory"):
            waiting.append(one)
    alone()
    return found


# -- waiting ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Open:
    """What threads have read and written since they last waited for each other."""

    read: frozenset[str] = frozenset()
    written: frozenset[str] = frozenset()

    def meets(self, other: Open) -> bool:
        """Return whether what comes next must wait for what was."""
        return bool(self.written & (other.read | other.written) or self.read & other.written)

    def joined(self, other: Open) -> Open:
        """Return both together."""
        return Open(self.read | other.read, self.written | other.written)


def seen(nest: Nest, block: Iterable[Statement]) -> Open:
    """Return what a piece reads and writes that other threads of the block see."""
    read: set[str] = set()
    written: set[str] = set()
    mine = {
        name for name, local in nest.locals.items() if local.space not in ("shared", "memory")
    } | {buffer.name for buffer in nest.inputs}
    for use in accesses(tuple(block)):
        if use.name not in mine:
            (read if use.how == "read" else written).add(use.name)
            if use.how in ("+=", "max="):
                read.add(use.name)
    return Open(frozenset(read), frozenset(written))

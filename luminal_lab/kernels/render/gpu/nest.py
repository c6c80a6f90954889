"""How GPUs run a nest: which thread runs what, and what each keeps.

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

A nest means the same as with all its loops run one after another; the kinds of its loops only say
who runs them. An outermost run of block loops is a phase, one launch; what stands outside them is a
phase of one block. A run of thread loops is a region; regions are not nested. The last of its loops
is the fastest: neighbours along it have neighbouring numbers. A region with tensor loops is run by
warps: its thread loops number warps, or groups of four warps if a tile has 64 rows. Bulk loops are
a copy that one thread begins (bulk.py).

An array in registers that is declared outside regions is spread: some of its axes are threads, and
each thread has a part of it. A region that uses it numbers its threads so that each finds its own
part. Threads beyond the end of a region repeat what the others do, if it only sets registers: what
all threads of a row know, all have. What others see is set by the first of them. Blocks set
registers outside regions in all threads alike.

A nest does not say where threads wait for each other: waiting.py finds out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import takewhile

from luminal_lab.core.dims import Dim, Shape, Symbol, symbols
from luminal_lab.core.op import size_of
from luminal_lab.errors import ScheduleError
from luminal_lab.kernels.nest.nest import (
    Access,
    Block,
    Local,
    Loop,
    Nest,
    Statement,
    When,
    accesses,
    arrays_in,
    every,
    paths,
    private,
    walk,
)
from luminal_lab.kernels.nest.sizes import perfect

WARP = 32
GROUP, GROUP_ROWS = 128, 64
"""The threads of four warps, and the rows of a tile that they multiply together."""


@dataclass(frozen=True)
class Along:
    """The part of the numbers of threads that an axis has: number % end / stride, if below size."""

    size: int
    stride: int
    room: int = 0
    """How many positions it has room for, if that is not its size: those beyond are idle."""

    @property
    def end(self) -> int:
        """The least distance between threads of successive positions of the axes around."""
        return (self.room or self.size) * self.stride


@dataclass(frozen=True)
class ThreadRegion:
    """What the threads of a block do, each by itself."""

    axes: tuple[Loop, ...]
    body: Block
    fold: Loop | None = None
    """The loop along which threads exchange their values."""

    @property
    def loops(self) -> tuple[Loop, ...]:
        """The loops whose positions are threads."""
        return self.axes if self.fold is None else (*self.axes, self.fold)

    @cached_property
    def lanes(self) -> int:
        """How many threads run it together: one, a warp, or four of them."""
        sizes = [loop.size for loop in every(self.body, Loop) if loop.kind == "tensor"]
        return GROUP if GROUP_ROWS in sizes else WARP if sizes else 1

    @property
    def size(self) -> int:
        """How many threads it has work for."""
        threads = size_of(tuple(loop.size for loop in self.loops))
        assert isinstance(threads, int)
        return threads * self.lanes


@dataclass
class NestLaunch:
    """One launch: its blocks, its regions, and how many threads they take."""

    nest: Nest
    blocks: tuple[Loop, ...]
    body: Block
    regions: dict[int, ThreadRegion] = field(default_factory=dict[int, ThreadRegion])
    """The regions, by the identities of the loops that they begin with."""

    def __post_init__(self) -> None:
        axes = {loop.axis.name for loop in self.blocks}
        for loop in self.blocks:
            if axes & {symbol.name for symbol in symbols(loop.size)}:
                raise ScheduleError(
                    f"nest {self.nest.name}: {loop.name} runs {loop.size} times, not as often in "
                    "each block, and blocks are counted before they run",
                    hint=f"bind {loop.name} to something else, or leave it",
                )
        for loop in self._starts(self.body):
            self.regions[id(loop)] = self._region(loop)

    @property
    def tasks(self) -> Dim:
        """How many blocks there are."""
        return size_of(tuple(loop.size for loop in self.blocks))

    @cached_property
    def threads(self) -> int:
        """How many threads a block has: whole warps if there is more than one thread."""
        ends = [
            along.end for region in self.regions.values() for along in self.places(region).values()
        ]
        most = max([1, *ends])
        return most if most == 1 else -(-most // WARP) * WARP

    @cached_property
    def spread(self) -> Mapping[str, Mapping[int, Along]]:
        """For each array in registers, which of its axes are threads, and their part of numbers."""
        spread: dict[str, dict[int, Along]] = {}
        for region in self._linked():
            along_of = self._places(region, spread)
            for use, axes in self._own(region):
                along = {number: along_of[axis.name] for number, axis in axes.items()}
                known = spread.setdefault(use.name, along)
                if any(known[number] != along[number] for number in known.keys() & along.keys()):
                    raise self._elsewhere(use.name, region)
                spread[use.name] = {number: known[number] for number in known if number in along}
        return spread

    def _linked(self) -> Iterator[ThreadRegion]:
        """Yield the regions, the largest first, each followed by those that share its arrays."""
        left = sorted(self.regions.values(), key=lambda region: -region.size)
        used = [{use.name for use, axes in self._own(region) if axes} for region in left]
        known: set[str] = set()
        while left:
            nearest = next((at for at, names in enumerate(used) if names & known), 0)
            known |= used.pop(nearest)
            yield left.pop(nearest)

    def own(self, name: str, of: Shape) -> Shape:
        """Return the part of an array's shape, or of an index, that each thread has for itself."""
        spread = self.spread.get(name, {})
        return tuple(dim for axis, dim in enumerate(of) if axis not in spread)

    @cached_property
    def tiles(self) -> frozenset[str]:
        """The arrays in registers whose last two axes are tiles, which a warp holds together."""
        names: set[str] = set()
        for loop in every(self.body, Loop):
            if loop.kind == "tensor":
                inside = private(loop.body)
                for use in accesses(loop.body):
                    if self.is_kept(use.name) and use.name not in inside and use.index:
                        names.add(use.name)
        return frozenset(names)

    def places(self, region: ThreadRegion) -> Mapping[str, Along]:
        """Return the part of the numbers of threads for each axis of a region."""
        return self._places(region, self.spread)

    def check(self) -> None:
        """Refuse what no thread could do as written."""
        inside = private(self.body)
        for name in arrays_in(self.body):
            space = self.nest.space_of(name)
            if space == "scratch":
                raise misplaced(self.nest, name, "is in scratch, which GPUs lack")
            if space not in (None, "memory") and name not in inside:
                why = f"is in {space}, where one launch does not find what another left"
                raise misplaced(self.nest, name, why, "memory")
        for region in self.regions.values():
            for statement in every(region.body, Local):
                if statement.space != "registers":
                    why = f"is in {statement.space}, and each thread has it alone"
                    raise misplaced(self.nest, statement.name, why, "registers")
            for use, axes in self._own(region):
                self._check_use(region, use, axes)
        self._check_outside(self.body)

    # -- what is found -----------------------------------------------------------------------------

    def _starts(self, block: Block) -> Iterator[Loop]:
        """Yield the loops with which regions begin."""
        for around, loop in paths(block):
            if not isinstance(loop, Loop) or any(outer.kind in _MANY for outer in around):
                continue
            if loop.kind == "block":
                raise self.nest.fault(
                    f"{loop.name} is a loop over blocks inside of others",
                    "blocks are the outermost loops",
                )
            if loop.kind in _MANY:
                yield loop

    def _region(self, first: Loop) -> ThreadRegion:
        loops = [*perfect(first)]
        axes = [*takewhile(lambda loop: loop.kind == "thread", loops)]
        inner = loops[len(axes) :][:1]
        fold = inner[0] if inner and inner[0].kind == "across" else None
        body = (fold or axes[-1]).body
        for statement in every(body, Loop):
            if statement.kind in _MANY:
                raise self.nest.fault(
                    f"{statement.name} is a loop over "
                    f"{_MANY[statement.kind]} inside of what each thread does",
                    "threads' loops are right around each other",
                )
        return ThreadRegion(tuple(axes), body, fold)

    def _own(self, region: ThreadRegion) -> Iterator[tuple[Access, dict[int, Loop]]]:
        """Yield a region's uses of registers from before it, with their axes of threads."""
        inside = private(region.body)
        for use in accesses(region.body):
            if use.name not in inside and self.is_kept(use.name):
                yield use, _threads_of(region, use)

    def is_kept(self, name: str) -> bool:
        """Return whether an array stays in registers from one region to another."""
        return self.nest.space_of(name) == "registers"

    def _places(
        self, region: ThreadRegion, known: Mapping[str, Mapping[int, Along]]
    ) -> dict[str, Along]:
        """Give each axis its part: the one that arrays want, or else the innermost free one."""
        along_of: dict[str, Along] = {}
        for use, axes in self._own(region):
            wanted = known.get(use.name, {})
            for axis, along in [(axes[at], wanted[at]) for at in axes if at in wanted]:
                if along_of.setdefault(axis.name, along) != along or along.size != _size(axis):
                    raise self._elsewhere(use.name, region)
        for loop in reversed(region.loops):
            if loop.name not in along_of:
                along_of[loop.name] = self._free(region, _size(loop), [*along_of.values()])
        for first in along_of.values():
            for other in along_of.values():
                if first is not other and first.stride < other.end and other.stride < first.end:
                    loops = ", ".join(loop.name for loop in region.loops)
                    raise self.nest.fault(
                        f"the arrays in registers that {loops} use are in "
                        "threads of different numbers",
                        "give the threads' loops of all regions the same sizes and order",
                    )
        return along_of

    def _free(self, region: ThreadRegion, size: int, taken: list[Along]) -> Along:
        """Return the innermost part for an axis that no other axis has."""
        start = region.lanes
        for along in sorted(taken, key=lambda other: other.stride):
            if start * size <= along.stride and along.stride % start == 0:
                room = along.stride // start
                return Along(size, start, room if room % size else 0)
            start = max(start, along.end)
        return Along(size, start)

    def _elsewhere(self, name: str, region: ThreadRegion) -> ScheduleError:
        loops = ", ".join(loop.name for loop in region.loops)
        why = f"is in the registers of other threads than those of {loops}"
        return misplaced(self.nest, name, why)

    # -- what is refused ---------------------------------------------------------------------------

    def _check_use(self, region: ThreadRegion, use: Access, axes: Mapping[int, Loop]) -> None:
        """Refuse a use of registers for which a thread would need those of another."""
        assert use.index is not None
        own = [axes[at] for at in self.spread[use.name]]
        rest = {s for at in self.own(use.name, use.index) for s in symbols(at)}
        why = "is in the registers of each thread, and"
        for loop in region.loops:
            if loop.axis in rest:
                raise misplaced(self.nest, use.name, f"{why} {loop.name} is not one of its axes")
            if use.how != "read" and loop not in own and loop is not region.fold and loop.size != 1:
                raise misplaced(self.nest, use.name, f"{why} one of {loop.name} alone would set it")

    def _check_outside(self, block: Block) -> None:
        """Refuse what no single thread can do where a single thread is not meant."""
        for statement in block:
            if id(statement) in self.regions:
                continue
            if isinstance(statement, (Loop, When)) and self.has_regions(statement.body):
                self._check_outside(statement.body)
                continue
            inside, kept, others = private((statement,)), set[str](), set[str]()
            for use in accesses((statement,)):
                if self.spread.get(use.name):
                    why = "is in the registers of each thread, and used outside of their loops"
                    raise misplaced(self.nest, use.name, why)
                if use.how != "read" and use.name not in inside:
                    (kept if self.is_kept(use.name) else others).add(use.name)
            if kept and others:
                raise self.nest.fault(
                    f"what is outside of threads sets {min(kept)} in "
                    f"registers and {min(others)}, which is not, in one loop",
                    "fission takes it apart",
                )

    def has_regions(self, block: Block) -> bool:
        """Return whether threads do something of their own in a block."""
        return any(id(s) in self.regions for s in walk(block))


_MANY = {"block": "blocks", "thread": "threads", "across": "threads"}


def misplaced(nest: Nest, name: str, why: str, space: str = "shared") -> ScheduleError:
    """Return the error about an array in a memory where threads cannot use it."""
    hint = f"place {name} in {space}"
    return nest.fault(f"{name} {why}", hint)


def _threads_of(region: ThreadRegion, use: Access) -> dict[int, Loop]:
    """Return the loops of threads that index a use, by the position of the index."""
    by_axis = {loop.axis: loop for loop in region.loops}
    loops: dict[int, Loop] = {}
    for number, at in enumerate(use.index or ()):
        if isinstance(at, Symbol) and at in by_axis and by_axis[at] not in loops.values():
            loops[number] = by_axis[at]
    return loops


def _size(loop: Loop) -> int:
    assert isinstance(loop.size, int), loop
    return loop.size


def phases(nest: Nest) -> list[NestLaunch]:
    """Return the launches of a nest, in order."""
    launches: list[NestLaunch] = []
    waiting: list[Statement] = []

    def alone() -> None:
        if any(not isinstance(statement, Local) for statement in waiting):
            launches.append(NestLaunch(nest, (), tuple(waiting)))
            waiting.clear()

    for statement in nest.body:
        if isinstance(statement, Loop) and statement.kind == "block":
            if arrays_in(tuple(waiting)) & arrays_in((statement,)):
                alone()
            blocks = [*takewhile(lambda loop: loop.kind == "block", perfect(statement))]
            launches.append(NestLaunch(nest, tuple(blocks), blocks[-1].body))
        elif not (isinstance(statement, Local) and statement.space == "memory"):
            waiting.append(statement)
    alone()
    return launches

"""How long a kernel might take on a GPU: counted from its nest, with nothing run or measured.

    seconds of a launch = max(memory, blocks of a core × what it is busy with, turns × waiting)

Blocks are dealt out to cores; a core runs as many at once as its registers, shared memory and warps
allow, and takes its share in turns. It is busy with the longest of what it can do side by side:
arithmetic, tensor units, accesses to shared memory, and accesses to the cache. Threads wait for
their loads, and for sums that depend on each other. The model knows nothing of sinking clocks,
replays or the order of blocks: it can rank schedules, but its seconds are no measurement.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil, prod

import numpy as np

from luminal_lab.core.dims import Dim, substitute, symbols
from luminal_lab.core.dims.expression import Division
from luminal_lab.core.dims.values import evaluate_array
from luminal_lab.core.dtypes import DType
from luminal_lab.core.op import size_of
from luminal_lab.core.ops import Mul
from luminal_lab.kernels.definition.cost import COSTLY
from luminal_lab.kernels.definition.terms import Apply, walk as walk_terms
from luminal_lab.kernels.nest.nest import Access, Loop, Nest, Set, accesses, arrays_in, every, paths
from luminal_lab.kernels.nest.sizes import about, atoms, names_in
from luminal_lab.kernels.render.gpu.nest import GROUP, WARP, NestLaunch, ThreadRegion, phases
from luminal_lab.kernels.render.gpu.tensor import WORDS
from luminal_lab.machines.figures import Specification
from luminal_lab.machines.resources import Resources, occupancy

NARROW = "sm_70", "sm_75", "sm_80"
"""Architectures whose cores have 64 lanes for float32; others have 128."""
ISSUED = 4
"""How many instructions of warps a core issues in a clock."""
BANKS, BANK, SECTOR, LINE = 32, 4, 32, 128
"""The banks of shared memory and their bytes; the bytes of a sector, and of one shared access."""
FAR, NEAR, CHAIN, BARRIER = 500, 30, 4, 30
"""The clocks until a load from memory or from shared memory arrives, until a sum can be added to,
and until all threads of a block have met; assumed, in round numbers."""
UNROLLED = 4
"""How many iterations of a loop a compiler overlaps if nothing stands between them."""
CACHE = 2.5
"""How much faster than memory the last cache is if no figure is known; assumed."""
BY_WARPS = 0.62
"""The share of Hopper's tensor rate that single warps reach, as reported."""
CALLED = 8
"""How many instructions a costly function counts as."""
APPLE_SHARED, APPLE_THREADS = 60 << 10, 2048
"""What a core of Apple's has for all its blocks; assumed."""


@dataclass(frozen=True)
class Estimate:
    """What the model says about a kernel."""

    seconds: float
    bound: str
    """What takes longest: memory, cache, shared memory, arithmetic, tensor units, waiting…"""
    blocks: int
    """The blocks that a core has at once, in the longest launch."""
    share: float
    """The share of a core's warps that they fill."""


def estimate(
    nest: Nest,
    card: Specification,
    resources: Mapping[str, Resources] | None = None,
    functions: Sequence[str] = (),
    dims: Mapping[str, int] = {},
) -> Estimate:
    """Return the model's estimate for a nest on a card, by its functions' resources if known.

    `functions` holds those of its launches, in order.
    """
    launches = [
        _Launch(launch, card, dims, (resources or {}).get(name, Resources())).estimate
        for launch, name in zip(phases(nest), functions, strict=True)
    ]
    longest = max(launches, key=lambda launch: launch.seconds)
    seconds = sum(launch.seconds for launch in launches)
    return Estimate(seconds, longest.bound, longest.blocks, longest.share)


class _Launch:
    """The work of one block of a launch, in clocks of its core, and of all blocks."""

    def __init__(
        self,
        launch: NestLaunch,
        card: Specification,
        dims: Mapping[str, int],
        resources: Resources,
    ) -> None:
        self.launch, self.card, self.dims, self.resources = launch, card, dims, resources
        self.nest = launch.nest
        self.instructions = self.shared = self.moved = self.tensor = self.waiting = 0.0
        """For a block: instructions of warps, shared accesses, bytes, tensor seconds, clocks."""
        single = card.peak("float32")
        assert single is not None, "every card computes in float32"
        self.lanes = 64 if card.arch in NARROW else 128
        self.clock = single.flops.value / (card.cores.value * self.lanes * 2)
        regions = launch.regions.values()
        starts = {region.loops[0].name: region for region in regions}
        for around, statement in paths(launch.body):
            if isinstance(statement, Set):
                region = next((starts[loop.name] for loop in around if loop.name in starts), None)
                self._count(around, statement, region)

    def _size(self, dim: Dim) -> float:
        return about(substitute(dim, self.dims))

    # -- what a block does -------------------------------------------------------------------------

    def _count(self, around: Sequence[Loop], statement: Set, region: ThreadRegion | None) -> None:
        sizes = {loop.name: self._size(loop.size) for loop in around}
        kinds = {loop.kind for loop in around}
        if "bulk" in kinds:
            name = statement.name
            self.moved += prod(sizes.values()) * self.nest.types[name].dtype.itemsize
            turns = prod(sizes[loop.name] for loop in around if loop.kind == "for")
            self.waiting += turns * FAR / self._places(statement)
            return
        threads = prod(sizes[loop.name] for loop in region.loops) if region is not None else 1
        warps = ceil(threads * (region.lanes if region is not None else 1) / WARP)
        own = [loop for loop in around if region is None or loop not in region.loops]
        if "tensor" in kinds and statement.how == "+=":
            self._multiply(own, sizes, statement, threads, region)
            return
        times, operations = prod(sizes[loop.name] for loop in own), _operations(statement)
        if "tensor" in kinds:  # warps share it, a tile's rows side by side
            times /= WARP
            for name in {statement.name} & {*self.nest.types} - {*self.nest.locals}:
                self.moved += threads * times * WARP * self.nest.types[name].dtype.itemsize
            self.instructions += warps * times * (1 + operations)
            return
        self.instructions += warps * times * operations
        alike = [loop for loop in own if loop.kind in ("unroll", "vector")]
        written = {name for dim in statement.index for name in names_in(dim)}
        apart = prod(sizes[loop.name] for loop in alike if loop.name in written)
        is_sum = statement.how != "="
        self.waiting += max(times * operations, times / apart * CHAIN if is_sum else 0.0)
        for access in accesses((statement,)):
            if access.statement is statement:
                self._access(access, own, sizes, warps, region)

    def _access(
        self,
        access: Access,
        own: Sequence[Loop],
        sizes: Mapping[str, float],
        warps: int,
        region: ThreadRegion | None,
    ) -> None:
        space = self.nest.space_of(access.name)
        if space == "registers":
            return
        index = access.index
        on = {name for dim in index or () for name in names_in(dim)}
        inner = max((n for n, loop in enumerate(own) if loop.name in on), default=-1)
        serial = [
            loop
            for n, loop in enumerate(own)
            if loop.name in on or (n < inner and loop.kind not in ("unroll", "vector"))
        ]
        times = prod(sizes[loop.name] for loop in serial)
        item = self.nest.types[access.name].dtype.itemsize
        width = 1
        if index is not None and serial and serial[-1].kind in ("vector", "unroll"):
            width = self._neighbours(access, serial[-1], 16 // item)
        times /= width
        steps = prod(sizes[loop.name] for loop in serial if loop.kind == "for")
        addresses = self._addresses(access, region, item)
        self.instructions += warps * times
        if space in ("shared", "tiles"):
            self.shared += warps * times * _turns(addresses, width * item)
            self.waiting += steps * NEAR if access.how == "read" else BARRIER * steps
        else:
            self.moved += warps * times * SECTOR * _sectors(addresses, width * item)
            if access.how == "read":
                inner_loops = [] if region is None else every(region.body, Loop)
                fors = [loop for loop in serial if loop.kind == "for" and loop in inner_loops]
                turns = min(prod(sizes[loop.name] for loop in fors), UNROLLED)
                self.waiting += steps * FAR / max(turns, self._places(access.statement))

    def _multiply(
        self,
        own: Sequence[Loop],
        sizes: Mapping[str, float],
        statement: Set,
        parts: float,
        region: ThreadRegion | None,
    ) -> None:
        """Count a product on the tensor units, which read its factors from shared memory."""
        times = prod(sizes[loop.name] for loop in own)
        factors = [use for use in accesses((statement,)) if use.how == "read"]
        factors = [use for use in factors if use.name != statement.name]
        dtype = self.nest.types[factors[0].name].dtype
        is_group = region is not None and region.lanes == GROUP
        rate = self._tensor_rate(dtype)
        if self.card.arch == "sm_90a" and not is_group:
            rate *= BY_WARPS
        self.tensor += 2 * parts * times / rate
        tiles = [loop for loop in own if loop.kind == "tensor"]
        for use in factors:
            if self.nest.space_of(use.name) in ("shared", "tiles"):
                on = {name for dim in use.index or () for name in names_in(dim)}
                loops = [
                    loop
                    for loop in own
                    if loop.name in on or (loop not in tiles and loop.kind == "for")
                ]
                read = prod(sizes[loop.name] for loop in loops)
                self.shared += parts * read * dtype.itemsize / LINE
        steps = prod(sizes[loop.name] for loop in own if loop.kind in ("for", "unroll"))
        self.waiting += steps * NEAR / (4 if is_group else 1)

    def _tensor_rate(self, dtype: DType) -> float:
        """Return how many operations the tensor units of one core do in a second."""
        word = {"f16": "float16", "bf16": "bfloat16", "tf32": "tf32"}[WORDS[dtype]]
        peak = self.card.peak(word, is_tensor=True) or self.card.peak("float32")
        assert peak is not None, "every card computes in float32"
        return peak.flops.value / self.card.cores.value

    def _places(self, statement: Set) -> int:
        """Return how many steps of a sum an array has room for: one more than are copied ahead."""
        shape = self.nest.types[statement.name].shape
        is_ring = statement.index and any(
            isinstance(atom, Division) for atom in atoms(statement.index[:1])
        )
        return shape[0] if is_ring and isinstance(shape[0], int) else 1

    def _neighbours(self, access: Access, loop: Loop, most: int) -> int:
        """Return how many neighbours along a loop one access covers."""
        flat = substitute(self.nest.flat(access.name, access.index or ()), self.dims)
        step = substitute(flat, {loop.name: loop.axis + 1}) - flat
        size = loop.size if isinstance(loop.size, int) else 1
        width = 1
        while step == 1 and width * 2 <= most and size % (width * 2) == 0:
            width *= 2
        return width

    def _addresses(self, access: Access, region: ThreadRegion | None, item: int) -> np.ndarray:
        """Return where the lanes of the first warp have their elements, in bytes."""
        if region is None:
            return np.zeros(1, np.int64)
        numbers = np.arange(WARP)
        if access.index is None:  # a lookup: anywhere
            return numbers * SECTOR
        flat = substitute(self.nest.flat(access.name, access.index), self.dims)
        along_of = self.launch.places(region)
        values: dict[str, np.ndarray | int] = {s.name: 0 for s in symbols(flat)}
        for name in values.keys() & along_of.keys():
            along = along_of[name]
            values[name] = numbers // along.stride % along.size
        flat_of = evaluate_array(flat, values)
        return np.broadcast_to(np.asarray(flat_of, np.int64), numbers.shape) * item

    # -- what a card does --------------------------------------------------------------------------

    @property
    def estimate(self) -> Estimate:
        """How long a card takes for all blocks, and what limits it."""
        card, cores = self.card, self.card.cores.value
        blocks = max(1.0, prod(self._size(loop.size) for loop in self.launch.blocks))
        at_once, share = self._at_once()
        cache = card.bandwidth.value * CACHE
        if card.cache_bandwidth is not None:
            cache = card.cache_bandwidth.value
        each = ceil(blocks / cores)
        turns = ceil(blocks / (cores * at_once))
        clock = self.clock
        instructions = max(self.instructions * WARP / self.lanes, self.instructions / ISSUED)
        spent = {
            "being launched": card.launch.value,
            "memory": self._bytes() / card.bandwidth.value,
            "cache": blocks * self.moved / cache,
            "shared memory": each * self.shared / clock,
            "arithmetic": each * instructions / clock,
            "tensor units": each * self.tensor,
            "waiting": turns * self.waiting / clock,
        }
        bound = max(spent, key=lambda name: spent[name])
        return Estimate(spent[bound], bound, at_once, share)

    def _at_once(self) -> tuple[int, float]:
        threads = self.launch.threads
        if self.card.arch is None:
            shared = max(1, self.resources.shared)
            blocks = max(1, min(APPLE_THREADS // threads, APPLE_SHARED // shared))
            return blocks, min(1.0, blocks * threads / APPLE_THREADS)
        held = occupancy(self.resources, threads, self.card)
        return max(1, held.blocks), held.share

    def _bytes(self) -> float:
        """Return the bytes of all arrays in memory that the launch reads or writes, each once."""
        total = 0.0
        for name in arrays_in(self.launch.body):
            if self.nest.space_of(name) in (None, "memory"):
                type = self.nest.types[name]
                total += self._size(size_of(type.shape)) * type.dtype.itemsize
        return total


def _operations(statement: Set) -> int:
    """Return how many instructions a statement takes, without loads and stores."""
    count = 0
    for part in walk_terms(statement.term):
        if isinstance(part, Apply):
            count += CALLED if part.op.cost >= COSTLY else 1
    is_product = isinstance(statement.term, Apply) and isinstance(statement.term.op, Mul)
    return count + (statement.how != "=" and not is_product)


def _sectors(addresses: np.ndarray, width: int) -> int:
    """Return how many sectors of memory a warp's access moves.

    >>> _sectors(np.arange(32) * 4, 4), _sectors(np.arange(32) * 400, 4)
    (4, 32)
    """
    ends = addresses[:, None] + np.arange(0, width, min(width, SECTOR))[None, :]
    return len(np.unique(np.concatenate([ends.ravel(), addresses + width - 1]) // SECTOR))


def _turns(addresses: np.ndarray, width: int) -> int:
    """Return how many turns a warp's access to shared memory takes if lanes share banks.

    >>> _turns(np.arange(32) * 4, 4), _turns(np.arange(32) * 128, 4), _turns(np.zeros(32, int), 4)
    (1, 32, 1)
    """
    words = max(1, width // BANK)
    together = max(1, len(addresses) // words)
    turns = 0
    for first in range(0, len(addresses), together):
        some = addresses[first : first + together, None] // BANK + np.arange(words)[None, :]
        banks = np.unique(some) % BANKS
        turns += int(np.bincount(banks).max())
    return turns

"""The tiler: sums of products in tiles of tiles, by a table that says what runs each level.

    c[i, j] = sum k: a[i, k] * b[k, j]

A table lists the loops of the sum from the outermost in: which axes a level has, and how its loops
run. From it follow the steps: split each axis by its levels, bring them into order, let each run as
the table says, take the loops below the blocks apart into where the sums start, grow and end, and
put the levels of k among those of the sum. Where operands are copied to is the machine's part.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from luminal_lab.core.printer import unique
from luminal_lab.kernels.nest.nest import Local, Loop
from luminal_lab.kernels.nest.sizes import about, divides, perfect, stride, width_of
from luminal_lab.kernels.plans.match import Attention, Contraction, sum_in, top_of
from luminal_lab.kernels.steps.binding import Guard, Mask
from luminal_lab.kernels.steps.kinds import Clamp, Round
from luminal_lab.kernels.steps.loops import Fission, Fuse, Split
from luminal_lab.kernels.steps.schedule import Handle, Scheduling
from luminal_lab.kernels.steps.step import level, part
from luminal_lab.kernels.steps.sums import Lanes

BYTES = 16
"""What a thread loads and stores as one at most."""
PARTS = "start", "sum", "end"
"""What is done to a tile of sums: each starts, grows, and is stored."""


class Level(NamedTuple):
    """Loops of one kind that stand right inside each other, a line of a table."""

    word: str
    axes: str
    """The axes that have this level: i is of the rows, j of the columns, k of the sum."""
    kind: str = "for"


Levels = tuple[Level, ...]
Cuts = Mapping[str, Mapping[str, int]]
"""For each axis its levels from the outermost in, and how many iterations a block of each has."""


class Tiler:
    """Cuts the loops of a contraction into tiles by a table."""

    def __init__(
        self,
        made: Scheduling,
        axes: Mapping[str, str],
        levels: Levels,
        cuts: Cuts,
        folds: Sequence[str] = (),
        *,
        masked: bool = True,
        is_inner: bool = False,
    ) -> None:
        self.made, self.axes, self.levels = made, axes, levels
        self.folds = folds
        """The loops of the sum, where no level cuts it."""
        own = {axes["i"], axes["j"]}
        around = () if is_inner else perfect(top_of(made.nest))
        self.outer = [loop.name for loop in around if loop.name not in own]
        """The loops of the result that are of no tile; none where a sum stands within others."""
        for axis, by in cuts.items():
            words = [one.word for one in levels if axis in one.axes and one.word not in by]
            cut(made, axes[axis], tuple(by.values()), (*by, *words), masked=masked)

    def name(self, axis: str, word: str, of: str = "") -> str:
        """Return what a loop is called, or what it is in a part."""
        name = level(self.axes[axis], word)
        return part(name, of) if of and axis != "k" else name

    def names(self, one: Level, axis: str, of: str = "") -> Sequence[str]:
        """Return the loops of an axis on a level."""
        return [self.name(axis, one.word, of)] if one.word else self.folds

    def axis(self, axis: str, of: str = "sum") -> str:
        """Return what an axis is called in a part, with all its levels."""
        name = str(self.axes[axis]).partition(".")[0]
        return name if axis == "k" else part(name, of)

    def loops(self, kinds: str | None = None, axes: str = "ij", of: str = "") -> list[str]:
        """Return the loops of a kind, or of all, along some axes."""
        return [
            self.name(axis, one.word, of)
            for one in self.levels
            if kinds is None or one.kind in kinds.split()
            for axis in one.axes.split()
            if axis in axes
        ]

    @property
    def inner(self) -> list[str]:
        """The loops of a tile, which are taken apart."""
        blocks = self.levels[: next(n for n, one in enumerate(self.levels) if "k" in one.axes)]
        return self.loops()[sum(len(one.axes.split()) for one in blocks) :]

    @property
    def blocks(self) -> list[str]:
        """The loops around tiles: those of no tile, and then of blocks."""
        below = self.inner
        return [*self.outer, *(name for name in self.loops() if name not in below)]

    def apart(self, order: Sequence[str] = ()) -> None:
        """Bring the levels into order, let their loops run, and take tiles apart."""
        made, below = self.made, self.inner
        made.reorder([*(order or self.blocks), *below])
        if self.loops("block"):
            made.run("block", self.blocks)
        for kind in dict.fromkeys(one.kind for one in self.levels):
            if kind not in ("block", "for"):
                made.run(kind, self.loops(kind))
        made.do(Fission(tuple(below), PARTS))
        sums = [
            name
            for one in self.levels
            for axis in one.axes.split()
            if axis == "k" or self.name(axis, one.word) in below
            for name in self.names(one, axis, "sum")
        ]
        made.reorder(sums)
        for one in self.levels:
            if "k" in one.axes and one.kind != "for":
                made.run(one.kind, [self.name("k", one.word)])

    def part(self, of: str) -> Handle:
        """Return the outermost loop of a part."""
        return self.made.loop(part(self.inner[0], of))


def cut(
    made: Scheduling, loop: str, by: tuple[int, ...], words: tuple[str, ...], *, masked: bool
) -> None:
    """Cut a loop into levels; where blocks may be cut short, masks let all that is behind be 0."""
    if not masked or made.loop(loop).size % by[0] == 0:
        made.do(Split((loop,), by, words))
        return
    inner = words[1] if len(words) == 2 else "whole"
    made.do(Split((loop,), by[:1], (words[0], inner)))
    made.do(Mask((level(loop, inner),)))
    if len(words) > 2:
        made.do(Split((level(loop, inner),), by[1:], words[1:]))


def whole(made: Scheduling, step: type[Round | Clamp], *loops: str) -> None:
    """Run loops to the end of their blocks, if they are not known to end there."""
    short = tuple(name for name in loops if not made.loop(name).is_whole)
    if short:
        made.do(step(short))


def in_registers(made: Scheduling, rows: Sequence[str], columns: Sequence[str], lanes: int) -> None:
    """Write out the loops over tiles of sums in registers, whose columns are vectors."""
    made.for_each(lambda *loops: Split(loops, (lanes,), ("vector", "lane")), columns)
    made.run("unroll", [*rows, *(level(name, "vector") for name in columns)])
    made.run("vector", [level(name, "lane") for name in columns])


def simd(made: Scheduling, *others: str) -> None:
    """Leave innermost loops to vectors, as far as that is allowed, but for some."""
    plain = [loop for loop in made.loops if loop.loop.kind == "for" and loop not in others]
    made.run("simd", [loop for loop in plain if loop.is_innermost], where_allowed=True)


def joined(made: Scheduling, names: Sequence[str]) -> Handle:
    """Make one of as many loops, from the innermost, as are one in memory."""
    for first in range(len(names) - 1):
        whole: list[Handle] = []
        with made.attempt() as attempt:
            whole.append(made.merge(names[first:]))
        if attempt.held and not divides(made.nest, whole[0]):
            return whole[0]
        attempt.undo()
    return made.loop(names[-1])


def axes_of(
    made: Scheduling, found: Contraction, rows: float, columns: float
) -> tuple[Handle, Handle, Handle]:
    """Make one loop each of the sum, the columns and the rows of a contraction.

    Of columns and rows those that are one in memory become one, or all where that is too short.
    """

    def merge(loops: list[Loop], least: float) -> Handle:
        names = [loop.name for loop in loops]
        return joined(made, names) if about(loops[-1].size) >= least else made.merge(names)

    k = made.merge([loop.name for loop in found.folds])
    return k, merge(found.columns, columns), merge(found.rows, rows)


def rows_last(made: Scheduling, found: Attention) -> Handle | None:
    """Bring the longest loop of rows that have the same keys right around them, if there is one."""
    shared = [name for name in found.path if name not in found.keys]
    if not shared:
        return None
    row = made.loop(max(shared, key=lambda name: about(made.nest.loops[name].size)))
    made.reorder([*(name for name in found.path if name != row), row])
    return row


def share(made: Scheduling, loops: Sequence[Handle]) -> None:
    """Make one of loops that follow each other, where that is allowed."""
    first = None
    for loop in loops:
        if first is not None and made.attempted(Fuse(loop, first)):
            _share_inside(made, first)
        else:
            first = loop


def _share_inside(made: Scheduling, outer: Handle) -> None:
    """Fuse the loops within a loop as long as each body is loops alone."""
    while True:
        body = [one for one in outer.loop.body if not isinstance(one, Local)]
        if len(body) != 2 or len(outer.parts) != len(body):
            return
        first, second = outer.parts
        if not made.attempted(Fuse(second, first)):
            return
        outer = first


def turns(made: Scheduling, loop: str, threads: int) -> tuple[Handle, Handle]:
    """Cut a loop into turns of all threads; return the loops over turns and over threads."""
    outer, inner = made.do(Split((loop,), (threads,), ("turn", "thread"))).loops
    if inner.size != threads:
        made.do(Guard(inner, inner))
    return outer, inner


def in_lanes(
    made: Scheduling, array: str, lane: Handle, outer: Handle, word: str
) -> tuple[str, Handle, Handle]:
    """Sum side by side; return the array of sums, and the loops that begin and that join them."""
    into = unique(f"{array}_{word}", made.nest.names)
    first, last = made.do(Lanes(array, lane, outer, into)).loops
    return into, first, last


def shared_out(made: Scheduling, top: str, threads: int) -> None:
    """Let all threads copy, neighbours what lies side by side."""
    loops: list[str] = [*made.loop(top).inner]
    term = sum_in(made.nest, top).term
    near = [name for name in loops if stride(made.nest, term, name) == 1]
    lanes: list[str] = []
    if near:
        loops.append(loops.pop(loops.index(near[-1])))
        width = width_of(made.nest, loops[-1], BYTES)
        if width > 1:
            loops[-1:], lanes = _cut(made, loops[-1], width, ("vector", "lane"))
    shared: list[str] = []
    for place, name in reversed([*enumerate(loops)]):
        size = made.loop(name).size
        assert isinstance(size, int)
        if size == 1:
            continue
        if size > threads:
            rest, (name,) = _cut(made, name, threads, ("batch", "each"))
            loops[place : place + 1] = [*rest, name]
            size = threads
        shared.insert(0, name)
        threads //= size
        if threads == 1:
            break
    rest = [name for name in loops if name not in shared]
    made.reorder([*shared, *rest, *lanes])
    made.run("thread", shared)
    made.run("vector", lanes)
    made.run("unroll", rest, where_allowed=True)


def _cut(
    made: Scheduling, loop: str, by: int, words: tuple[str, str]
) -> tuple[list[str], list[str]]:
    outer, inner = made.do(Split((loop,), (by,), words)).loops
    return [outer], [inner]

"""The tiler: sums of products in tiles of tiles, by a table that says how each level runs.

    c[i, j] = sum k: a[i, k] * b[k, j]

A table lists the loops of the sum from the outermost in: which axes a level has, and how its loops
run. The steps follow from it: split each axis by its levels, bring them into order, make each run
as the table says, split the loops below the blocks into where sums start, grow and end, and put the
levels of k among those of the sum. Each machine's plan decides where operands are copied.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import gcd

from luminal_lab.kernels.definition.terms import Term
from luminal_lab.kernels.nest.contraction import Contraction, operands, sum_in
from luminal_lab.kernels.nest.nest import Loop
from luminal_lab.kernels.nest.sizes import about, many, perfect, stride, width_of
from luminal_lab.kernels.plans.match import PassNest
from luminal_lab.kernels.steps.arrays import Place
from luminal_lab.kernels.steps.kinds import Mask
from luminal_lab.kernels.steps.levels import Cuts, Levels, check_levels, kind_of, unknown
from luminal_lab.kernels.steps.loops import Fission, Split
from luminal_lab.kernels.steps.schedule import Handle, Scheduling
from luminal_lab.kernels.steps.step import level, part

BYTES = 16
"""The most bytes that a thread loads or stores in one access."""
PARTS = "start", "sum", "end"
"""The parts of the work on a tile of sums: each sum starts, grows, and is stored."""


def run_levels(scheduling: Scheduling, loops: Mapping[str, str], levels: Levels) -> None:
    """Make loops run as a table says for the words of their levels."""
    check_levels(levels, {})
    kinds = {loop: kind_of(levels, word) for loop, word in loops.items()}
    for kind in dict.fromkeys(line.kind for line in levels):
        scheduling.run(kind, [loop for loop in loops if kinds[loop] == kind])


class Tiler:
    """Cuts the loops of a contraction into tiles by a table."""

    def __init__(
        self,
        scheduling: Scheduling,
        axes: Mapping[str, str],
        levels: Levels,
        cuts: Cuts,
        folds: Sequence[str] = (),
        *,
        masked: bool = True,
        is_inner: bool = False,
    ) -> None:
        check_levels(levels, cuts, axes)
        self.scheduling, self.axes, self.levels = scheduling, axes, levels
        self.folds = folds
        """The loops of the sum, if no level cuts it."""
        own = {axes[axis] for axis in "ij" if axis in axes}
        chains = ([*perfect(loop)] for loop in scheduling.nest.loops.values())
        around = next(chain for chain in chains if own <= {loop.name for loop in chain})
        around = [] if is_inner else around
        self.outer = [loop.name for loop in around if loop.name not in own]
        """The loops of the result outside all tiles; none if a sum is inside others."""
        for axis, by in cuts.items():
            words = [line.word for line in levels if axis in line.axes and line.word not in by]
            cut(scheduling, axes[axis], tuple(by.values()), (*by, *words), masked=masked)

    def name(self, axis: str, word: str, of: str = "") -> str:
        """Return the name of a loop, or its name in a part."""
        words = [line.word for line in self.levels if axis in line.axes]
        if word not in words:
            raise unknown(word, words, f" of {axis}")
        name = level(self.axes[axis], word) if word else self.axes[axis]
        return part(name, of) if of and axis != "k" else name

    def axis(self, axis: str) -> str:
        """Return the name of an axis where sums grow; it stands for all the levels there."""
        name = str(self.axes[axis]).partition(".")[0]
        return name if axis == "k" else part(name, "sum")

    def loops(self, kind: str | None = None) -> list[str]:
        """Return the loops of the result of one kind, or all of them."""
        levels = [line for line in self.levels if kind is None or line.kind == kind]
        return [self.name(axis, line.word) for line in levels for axis in line.axes if axis in "ij"]

    @property
    def inner(self) -> list[str]:
        """The loops of a tile, which fission takes apart."""
        first = next(n for n, line in enumerate(self.levels) if "k" in line.axes)
        return self.loops()[sum(len(line.axes.split()) for line in self.levels[:first]) :]

    @property
    def blocks(self) -> list[str]:
        """The loops around tiles: first those outside all tiles, then those over blocks."""
        below = self.inner
        return [*self.outer, *(name for name in self.loops() if name not in below)]

    def apart(self, order: Sequence[str] = ()) -> None:
        """Bring the levels into order, make their loops run, and take tiles apart."""
        scheduling, below = self.scheduling, self.inner
        scheduling.reorder([*(order or self.blocks), *below])
        scheduling.run("block", self.blocks if self.loops("block") else ())
        for kind in dict.fromkeys(line.kind for line in self.levels):
            if kind not in ("block", "for"):
                scheduling.run(kind, self.loops(kind))
        scheduling.do(Fission(tuple(below), PARTS))
        sums: list[str] = []
        for line in self.levels:
            for axis in line.axes.split():
                if axis == "k" and not line.word:
                    sums += self.folds
                elif axis == "k" or self.name(axis, line.word) in below:
                    sums.append(self.name(axis, line.word, "sum"))
        scheduling.reorder(sums)
        for line in self.levels:
            if "k" in line.axes and line.kind != "for":
                scheduling.run(line.kind, [self.name("k", line.word)])

    def part(self, of: str) -> Handle:
        """Return the outermost loop of a part."""
        return self.scheduling.loop(part(self.inner[0], of))


def cut(
    scheduling: Scheduling, loop: str, by: tuple[int, ...], words: tuple[str, ...], *, masked: bool
) -> None:
    """Cut a loop into levels; if blocks may be short, masks make everything beyond them 0."""
    if not masked or scheduling.loop(loop).size % by[0] == 0:
        scheduling.do(Split((loop,), by, words))
        return
    inner = words[1] if len(words) == 2 else "whole"
    scheduling.do(Split((loop,), by[:1], (words[0], inner)))
    scheduling.do(Mask((level(loop, inner),)))
    if len(words) > 2:
        scheduling.do(Split((level(loop, inner),), by[1:], words[1:]))


def in_registers(
    scheduling: Scheduling, rows: Sequence[str], columns: Sequence[str], lanes: int
) -> None:
    """Unroll the loops over tiles of sums in registers, whose columns are vectors."""
    scheduling.for_each(lambda *loops: Split(loops, (lanes,), ("vector", "lane")), columns)
    scheduling.run("unroll", [*rows, *(level(name, "vector") for name in columns)])
    scheduling.run("vector", [level(name, "lane") for name in columns])


def axes_of(
    scheduling: Scheduling, contraction: Contraction, rows: float, columns: float
) -> tuple[dict[str, Handle], Term, Term]:
    """Merge the loops of the sum, of the columns and of the rows of a contraction.

    Columns and rows merge as far as they are contiguous in memory, or completely if they are short.
    The two operands follow, the one with the rows first.
    """

    def merge(loops: list[Loop], least: float) -> Handle:
        names = [loop.name for loop in loops]
        return scheduling.join(names) if about(loops[-1].size) >= least else scheduling.merge(names)

    k = scheduling.merge([loop.name for loop in contraction.folds])
    axes = {"k": k, "j": merge(contraction.columns, columns), "i": merge(contraction.rows, rows)}
    return axes, *operands(scheduling.nest, k)


def rows_last(scheduling: Scheduling, nest: PassNest) -> Handle | None:
    """Make the longest loop over rows that meet the same columns innermost, if there is one."""
    shared = [name for name in nest.path if name not in nest.keys]
    if not shared:
        return None
    row = scheduling.loop(max(shared, key=lambda name: about(scheduling.nest.loops[name].size)))
    scheduling.reorder([*(name for name in nest.path if name != row), row])
    return row


def placed(scheduling: Scheduling, space: str, *arrays: str) -> None:
    """Place some arrays in a block's memory, and all others in the registers of each thread."""
    own = [array.name for array in scheduling.nest.locals.values() if array.space == "scratch"]
    scheduling.do(Place(tuple(name for name in own if name not in arrays), "registers"))
    scheduling.do(Place(tuple(name for name in own if name in arrays), space))


def shared_out(scheduling: Scheduling, top: str, threads: int) -> None:
    """Let all threads copy, neighbouring threads copying neighbouring elements."""
    loops, lanes, shared = [*scheduling.loop(top).inner], list[Handle](), list[Handle]()
    term = sum_in(scheduling.nest, top).term
    near = [name for name in loops if stride(scheduling.nest, term, name) == 1]
    if near:
        loops.append(loops.pop(loops.index(near[-1])))
        width = width_of(scheduling.nest, near[-1], BYTES)
        if width > 1:
            split = Split((near[-1],), (width,), ("vector", "lane"))
            loops[-1], *lanes = scheduling.do(split).loops
    for name in loops[::-1]:
        size, position = int(many([name])), loops.index(name)
        by = size if size <= threads else gcd(size, threads)
        if 1 < by < size:
            split = Split((name,), (by,), ("batch", "each"))
            loops[position : position + 1] = scheduling.do(split).loops
            position += 1
        if by > 1:
            shared.insert(0, loops[position])
        threads //= max(1, by)
    rest = [name for name in loops if name not in shared]
    scheduling.reorder([*shared, *rest, *lanes])
    scheduling.run("thread", shared)
    scheduling.run("vector", lanes)
    scheduling.run("unroll", rest, where_allowed=True)

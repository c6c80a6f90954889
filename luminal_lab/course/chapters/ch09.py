"""The exercises of notebook 09: count fetches, choose a tile, weigh work and bytes, tile a tail."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import ceil, prod
from typing import cast

import numpy as np

from luminal_lab.course.compiling import no_function, rescheduled
from luminal_lab.course.exercise import Exercise, Verdict
from luminal_lab.course.probing import equal, kind
from luminal_lab.errors import whole_number
from luminal_lab.kernels.nest.nest import Loop, Set, Statement, When
from luminal_lab.session import Graph

REGISTERS = 32
TILES = ((1, 1), (6, 2), (4, 3), (30, 1))
MACHINES = ((200, 20), (100, 7), (10, 60), (67000, 4800))
TILE_ROWS, TILE_COLUMNS = 6, 16
TOGETHER = ("unroll", "vector", "simd")
"""The kinds of loops whose iterations are written out, or are one instruction."""


def counted(
    answer: object,
    places: Sequence[tuple[int, int]],
    names: tuple[str, str],
    wanted: Callable[[int, int], float],
) -> str:
    """Return for which numbers a function first returns something else than is wanted."""
    for indices in places:
        result = cast("Callable[..., object]", answer)(*indices)
        said = " and ".join(f"{name} = {value}" for name, value in zip(names, indices, strict=True))
        if not isinstance(result, int | float | np.integer | np.floating):
            return f"for {said}: expected a number, got {kind(result)}"
        fault = equal(cast("object", result), wanted(*indices), name=f"for {said}")
        if fault:
            return fault
    return ""


def work_of(rows: int, vectors: int) -> float:
    """Return how many multiply-and-adds a tile does for each fetch."""
    return rows * vectors / (rows + vectors)


# -- 09.1 ------------------------------------------------------------------------------------------


def fetches(answer: object) -> Verdict:
    """Is it the multiply-and-adds of a tile for each fetch?"""
    return no_function(answer) or Verdict.all(
        (
            "it is right for a tile of 1 × 1",
            lambda: counted(answer, TILES[:1], ("rows", "vectors"), work_of),
            "one multiply-and-add needs a vector of b and a number of a",
        ),
        (
            "it is right for larger tiles",
            lambda: counted(answer, TILES[1:], ("rows", "vectors"), work_of),
            "each row meets each vector once; but each is fetched only once",
        ),
    )


# -- 09.2 ------------------------------------------------------------------------------------------


def needed(rows: int, vectors: int) -> int:
    """Return the registers of a tile."""
    return rows * vectors + vectors + 1


def chosen(answer: object) -> Verdict:
    """Is it the tile that does most for each fetch, of those that fit?"""
    hint = "answer = (rows, vectors), two whole numbers from 1 up"
    given_pair: object = answer
    pair = cast("Sequence[object]", answer) if isinstance(answer, tuple | list) else ()
    if len(pair) != 2:
        return Verdict.no(f"expected a pair of numbers, got {kind(given_pair)}", hint)
    numbers = [whole_number(item) for item in pair]
    rows, vectors = (count or 0 for count in numbers)
    if min(rows, vectors) < 1:
        return Verdict.no("rows and vectors are not both whole numbers from 1 up", hint)
    sizes = range(1, REGISTERS)
    fit = [work_of(r, v) for r in sizes for v in sizes if needed(r, v) <= REGISTERS]

    def fits() -> str:
        count = needed(rows, vectors)
        return "" if count <= REGISTERS else f"expected at most {REGISTERS}, got {count}"

    def best() -> str:
        mine = work_of(rows, vectors)
        return (
            ""
            if mine >= max(fit)
            else f"expected {max(fit):.3g}, which another tile reaches, got {mine:.3g}"
        )

    return Verdict.all(
        ("the tile fits into the registers", fits, "rows × vectors + vectors + 1"),
        (
            "no other has more multiply-and-adds for each fetch",
            best,
            "two loops over rows and vectors, and your function of the first exercise, find it",
        ),
    )


# -- 09.3 ------------------------------------------------------------------------------------------


def balanced(answer: object) -> Verdict:
    """Is it the least N whose product takes longer to compute than to carry?"""

    def least(gflops: float, gbytes: float) -> float:
        return ceil(6 * gflops / gbytes)

    return no_function(answer) or Verdict.all(
        (
            "it is right for 200 GFLOP/s and 20 GB/s",
            lambda: counted(answer, MACHINES[:1], ("gflops", "gbytes"), least),
            "2 N³ operations take as long as 3 · 4 · N² bytes: solve for N",
        ),
        (
            "it is right for other machines",
            lambda: counted(answer, MACHINES[1:], ("gflops", "gbytes"), least),
            "N is a whole number: the next one up",
        ),
    )


# -- 09.4 ------------------------------------------------------------------------------------------


def product() -> Graph:
    """Return a graph with one product, whose rows are not a multiple of the tile's."""
    cx = Graph()
    a, b = cx.tensor((101, 64), name="a"), cx.tensor((64, 96), name="b")
    (a @ b).retrieve()
    return cx


def sums(block: Sequence[Statement], around: tuple[Loop, ...] = ()) -> Iterator[tuple[Loop, ...]]:
    """Find the loops around each statement that adds to something, the outer ones first."""
    for statement in block:
        if isinstance(statement, Loop):
            yield from sums(statement.body, (*around, statement))
        elif isinstance(statement, When):
            yield from sums(statement.body, around)
        elif isinstance(statement, Set) and statement.how == "+=":
            yield around


def tiled(answer: object) -> Verdict:
    """Does it sum tiles of 6 × 16 in registers, in vectors, and in tasks?"""
    kernel = rescheduled(product(), answer)
    if isinstance(kernel, Verdict):
        return kernel
    nest = kernel.nest
    assert nest is not None
    around = next(sums(nest.body), ())
    inner: list[Loop] = []
    for loop in reversed(around):
        if loop.kind not in TOGETHER:
            break
        inner.append(loop)
    sizes = [loop.size for loop in inner if isinstance(loop.size, int)]
    together = prod(sizes) if len(sizes) == len(inner) else 0

    def whole() -> str:
        wanted = TILE_ROWS * TILE_COLUMNS
        if together == wanted:
            return ""
        return f"expected {wanted} sums together, got {max(1, together)}"

    return Verdict.all(
        ("each step is one, and can be done", True),
        ("the tile is written out, and whole", whole, "unroll and vector come after round, clamp"),
        (
            "it is in vectors of 8",
            bool(inner) and inner[0].kind == "vector" and inner[0].size == 8,
            "split the 16 columns by 8, and let the inner loop be a vector",
        ),
        (
            "it is in registers",
            any(local.space == "registers" and local.type.shape for local in nest.locals.values()),
            "fission makes of one sum an array of them",
        ),
        (
            "blocks are tasks",
            any(loop.kind == "parallel" and loop.size != 1 for loop in around),
            "parallel is for the outermost loop",
        ),
    )


EXERCISES = (
    Exercise(
        "09.1",
        "Write the function that says how many multiply-and-adds a tile does for each fetch.",
        (
            "Count both for the tile of 6 rows and 2 vectors first.",
            "There are rows × vectors multiply-and-adds, and rows + vectors fetches.",
            "return rows * vectors / (rows + vectors)",
        ),
        """\
def work_for_each_fetch(rows, vectors):
    return rows * vectors / (rows + vectors)

answer = work_for_each_fetch
""",
        fetches,
    ),
    Exercise(
        "09.2",
        f"Find the tile that does most for each fetch, and needs at most {REGISTERS} registers.",
        (
            "Try all: there are few enough for two loops.",
            "max(tiles, key=…) over all pairs for which rows * vectors + vectors + 1 <= 32",
            "The more nearly square a tile is, the less it fetches: rows and vectors are equal.",
        ),
        """\
tiles = [
    (rows, vectors)
    for rows in range(1, 32)
    for vectors in range(1, 32)
    if rows * vectors + vectors + 1 <= 32
]
answer = max(tiles, key=lambda tile: tile[0] * tile[1] / (tile[0] + tile[1]))
""",
        chosen,
    ),
    Exercise(
        "09.3",
        "Write the function that says from which N on the work is the limit of a product.",
        (
            "Write down the seconds for the operations, and the seconds for the bytes.",
            "2 N³ / gflops is at least 12 N² / gbytes; both sides have N².",
            "N is at least 6 * gflops / gbytes; math.ceil makes it a whole number.",
        ),
        """\
import math

def least(gflops, gbytes):
    return math.ceil(6 * gflops / gbytes)

answer = least
""",
        balanced,
    ),
    Exercise(
        "09.4",
        "Write a schedule with a whole tile of 6 × 16 for a product of 101 rows.",
        (
            "Begin with the text of tile(6, 16), and read which step is refused, and why.",
            "The last block of rows is shorter: i_start.own where sums begin, i_sum.own where "
            "they grow.",
            "round i_start.own and clamp i_sum.own behind the reorders; parallel i.block comes "
            "last.",
        ),
        '''\
answer = """
split i by 6
split j by 16
reorder i.block, j.block
fission i.own, j.own as start, sum, end
reorder k, i_sum.own
round i_start.own
clamp i_sum.own
split j_start.own, j_sum.own by 8 as vector, lane
unroll i_start.own, i_sum.own, j_start.vector, j_sum.vector
vector j_start.lane, j_sum.lane
parallel i.block
"""
''',
        tiled,
    ),
)

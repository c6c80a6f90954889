"""What a warp of a GPU does together, as source: products of tiles, and what is done to elements.

unroll i < 4:                         lab_u32 v1[4][2];  for j: lab_tile_b_f16(v1[j], …)
  unroll j < 4:                       for i:
    tensor … t[i, j, …] += …     →        lab_u32 v0[4];  lab_tile_a_f16(v0, …);
                                          for j: lab_mma_f16(&t[16*i + 4*j], v0, v1[j]);
"""

from __future__ import annotations

from collections.abc import Generator, Set as AbstractSet
from contextlib import AbstractContextManager, contextmanager

from typing_extensions import override

from luminal_lab.core.dims import Symbol, symbols
from luminal_lab.core.op import size_of
from luminal_lab.core.printer import unique
from luminal_lab.errors import ScheduleError
from luminal_lab.kernels.dialect import Dialect
from luminal_lab.kernels.nest.nest import Loop, Set, Statement, walk
from luminal_lab.kernels.render.gpu.bulk import ARRIVED, bulk_copy, tiled
from luminal_lab.kernels.render.gpu.nest import GROUP, Phase, Region
from luminal_lab.kernels.render.gpu.tensor import GroupProduct, Product, Tile, product_of
from luminal_lab.kernels.render.gpu.threads import Threads, mentioned
from luminal_lab.kernels.render.index import index_c
from luminal_lab.kernels.render.names import c_name
from luminal_lab.kernels.tile_map import SWIZZLED, TileMap


class Warps(Threads):
    """The source of one phase: what a thread does, by itself or with its warp."""

    def __init__(
        self, phase: Phase, dialect: Dialect, exact: AbstractSet[str] = frozenset()
    ) -> None:
        super().__init__(phase, dialect, exact)
        self.buffers: list[str] = []
        """What the function is given, in order."""
        self.maps: dict[TileMap, str] = {}
        """The maps by which bulk copies find their tiles, and what the function calls them."""

    @override
    def statement(self, one: Statement) -> None:
        match one:
            case Loop(kind="tensor"):
                self.tensor(one)
            case Loop(kind="bulk"):
                self.bulk(one)
            case Loop() if self.grid(one):
                pass
            case _:
                super().statement(one)

    def tensor(self, loop: Loop) -> None:
        """Write what the lanes of a warp do to a tile together."""
        found = product_of(self.nest, loop, self.dialect.tile)
        if isinstance(found, Product):
            self.product(found)
            return
        if isinstance(found, GroupProduct):
            self.group_product(found)
            return
        row, column = found.axes
        used = mentioned(found.body, self.phase)
        of = "group" if self.dialect.tile.is_group(*found.sizes) else "tile"
        with self.each_element(*found.sizes):
            assert self.tile is not None
            for axis, word in ((row, "row"), (column, "column")):
                if axis.name not in used:
                    continue
                self.code.add(f"const int {c_name(axis.name)} = lab_{of}_{word}({self.tile.name});")
            self.statements(found.body)
        self.tile = None

    def each_element(self, rows: int, columns: int) -> AbstractContextManager[None]:
        """Write the head of a loop over the elements of a tile that a lane has."""
        name, own = self.fresh(), self.dialect.tile.own(rows, columns)
        self.tile = Tile(name, Symbol(name, 0, own - 1))
        self.unrolled()
        return self.code.block(f"for (int {name} = 0; {name} < {own}; {name}++)")

    def grid(self, outer: Loop) -> bool:
        """Write products of some tiles with some others, each of which is loaded once.

        unroll i: unroll j: t[i, j] += a[i] b[j]   →   load all b[j];  for i: load a[i];  for j: …
        """
        inner = outer.body[0] if len(outer.body) == 1 else outer
        if not isinstance(inner, Loop) or {outer.kind, inner.kind} != {"unroll"}:
            return False
        one = inner.body[0] if len(inner.body) == 1 else inner
        if not isinstance(one, Loop) or one.kind != "tensor":
            return False
        found = product_of(self.nest, one, self.dialect.tile)
        if not isinstance(found, Product):
            return False
        if inner.axis in symbols(found.left.start) or outer.axis in symbols(found.right.start):
            return False
        left, right, name = self.fresh(), self.fresh(), c_name(inner.name)
        self.code.add(f"lab_u32 {right}[{inner.size}][{self.dialect.tile.right[found.word]}];")
        with self.loop_head(inner):
            self.load_right(found, f"{right}[{name}]")
        with self.loop_head(outer):
            self.code.add(f"lab_u32 {left}[{self.dialect.tile.left[found.word]}];")
            self.load_left(found, left)
            with self.loop_head(inner):
                self.multiply(found, left, f"{right}[{name}]")
        return True

    def product(self, found: Product) -> None:
        """Write a product of tiles, which is added to one."""
        own, word = self.dialect.tile, found.word
        left, right = self.fresh(), self.fresh()
        self.code.add(f"lab_u32 {left}[{own.left[word]}], {right}[{own.right[word]}];")
        self.load_left(found, left)
        self.load_right(found, right)
        self.multiply(found, left, right)

    def load_left(self, found: Product, into: str) -> None:
        """Write how lanes get their parts of a tile's rows."""
        of, (row, step) = found.left, found.left.strides
        assert step == 1
        at = f"{c_name(of.name)} + {index_c(of.start, 3)}"
        self.code.add(f"lab_tile_a_{found.word}({into}, {at}, {index_c(row)});")

    def load_right(self, found: Product, into: str) -> None:
        """Write how lanes get their parts of a tile's columns."""
        of, (down, along) = found.right, found.right.strides
        at = f"{c_name(of.name)} + {index_c(of.start, 3)}"
        self.code.add(f"lab_tile_b_{found.word}({into}, {at}, {index_c(down)}, {index_c(along)});")

    def multiply(self, found: Product, left: str, right: str) -> None:
        """Write the product of what lanes have, which is added to a tile."""
        self.tile = Tile("", 0)
        place = self.place(found.into, found.index)
        self.tile = None
        self.code.add(f"lab_mma_{found.word}(&{place}, {left}, {right});", ("mul", "sum_reduce"))

    # -- four warps, and what is copied for them ---------------------------------------------------

    @contextmanager
    def multiplying(self, region: Region) -> Generator[None]:
        """Have products of four warps that are begun meanwhile be done at the end."""
        sets = [one for one in walk(region.body) if isinstance(one, Set)]
        sums = [one for one in sets if one.how == "+=" and self.phase.is_kept(one.name)]
        groups = region.lanes == GROUP and bool(sums)
        if groups and len(sums) < len(sets):
            raise ScheduleError(
                f"nest {self.nest.name}: where four warps multiply, {sums[0].name} is not all that "
                "is set",
                hint="fission takes the rest apart",
            )
        if not groups:
            yield
            return
        kept = [
            f"lab_wgmma_keep({c_name(name)}, {size_of(self.own_shape(name))});"
            for name in sorted({one.name for one in sums})
        ]
        for line in (*kept, "lab_wgmma_begin();"):
            self.code.add(line)
        yield
        for line in ("lab_wgmma_commit();", "lab_wgmma_wait(0);", *kept):
            self.code.add(line)

    def group_product(self, found: GroupProduct) -> None:
        """Write a product of tiles in shared memory, which is added to that of four warps."""
        self.tile = Tile("", 0)
        place = self.place(found.into, found.index)
        self.tile = None
        ways = "_rows" if found.leading else ""
        matrices = [
            f"lab_wgmma_matrix({c_name(name)} + {index_c(start, 3)}, {leading}, {8 * SWIZZLED}, 1)"
            for (name, start), leading in ((found.left, 16), (found.right, found.leading or 16))
        ]
        call = f"lab_wgmma_{found.word}_n{found.columns}{ways}"
        self.code.add(f"{call}(&{place}, {', '.join(matrices)}, 1);", ("mul", "sum_reduce"))

    def bulk(self, loop: Loop) -> None:
        """Write how a tile is copied; what it arrives at counts its bytes."""
        found = bulk_copy(self.nest, loop)
        lies = tiled(self.nest, found.into)
        shape, dtype = self.types[found.into].shape, self.types[found.into].dtype
        at = f"&{ARRIVED}[{index_c(found.index[0])}]"
        self.code.add(f"lab_barrier_expect({at}, {lies.size * dtype.itemsize});")
        place = self.buffers.index(found.of)
        made = TileMap(found.of, place, dtype, found.width, found.height, lies.rows)
        name = unique(f"lab_map_{c_name(found.of)}", {*self.maps.values()})
        name = self.maps.setdefault(made, name)
        for column in range(0, lies.columns, lies.piece):
            to = lies.start((*found.index[:-1], column), shape)
            places = f"{index_c(found.x + column)}, {index_c(found.y)}"
            self.code.add(
                f"lab_bulk_tile(&{c_name(found.into)}[{index_c(to)}], &{name}, {places}, {at});"
            )

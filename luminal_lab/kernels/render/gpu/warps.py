"""What a warp of a GPU does together, as source: products of tiles, and work on their elements.

unroll i < 4:                         lab_u32 v1[4][2];  for j: lab_tile_b_f16(v1[j], …)
  unroll j < 4:                       for i:
    tensor … t[i, j, …] += …     →        lab_u32 v0[4];  lab_tile_a_f16(v0, …);
                                          for j: lab_mma_f16(&t[16*i + 4*j], v0, v1[j]);
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from functools import partial

from luminal_lab.core.dims import Dim, Symbol, symbols
from luminal_lab.core.op import size_of
from luminal_lab.core.printer import unique
from luminal_lab.kernels.nest.nest import Loop, Set, every
from luminal_lab.kernels.nest.sizes import perfect
from luminal_lab.kernels.render.gpu.arrays import ThreadArrays
from luminal_lab.kernels.render.gpu.bulk import ARRIVED, bulk_copy, tiled
from luminal_lab.kernels.render.gpu.nest import GROUP, ThreadRegion
from luminal_lab.kernels.render.gpu.tensor import GroupProduct, TileProduct, product_of
from luminal_lab.kernels.render.index import PRODUCT
from luminal_lab.kernels.render.names import c_name
from luminal_lab.kernels.render.rendered import buffers_of
from luminal_lab.kernels.render.writer import Writer
from luminal_lab.kernels.tile_map import SWIZZLED, TileMap

MULTIPLIED = "mul", "sum_reduce"
"""The ops of a product of tiles."""


class Warps:
    """Writes what a thread does together with its warp, or with three other warps."""

    def __init__(self, writer: Writer, arrays: ThreadArrays) -> None:
        self.writer, self.arrays, self.code = writer, arrays, arrays.code
        self.nest, self.types, self.phase = arrays.nest, arrays.types, arrays.phase
        self.tiles = self.code.dialect.tile
        self.maps: dict[TileMap, str] = {}
        """The maps by which bulk copies find their tiles, with their names in the function."""

    def tensor(self, loop: Loop) -> None:
        """Write what the lanes of a warp do to a tile together."""
        product = product_of(self.nest, loop, self.tiles)
        if isinstance(product, TileProduct):
            self.product(product)
            return
        if isinstance(product, GroupProduct):
            self.group_product(product)
            return
        (row, column), sizes = product.axes, product.sizes
        of = "group" if self.tiles.is_group(*sizes) else "tile"
        name, own = self.code.fresh(), self.tiles.own(*sizes)
        self.arrays.tile = Symbol(name, 0, own - 1)
        axes = {
            row.name: partial(self.code.call, f"lab_{of}_row", name),
            column.name: partial(self.code.call, f"lab_{of}_column", name),
        }
        elements = self.code.repeat("int", name, own, ("unroll", str(own)))
        with elements, self.code.constants("int", axes):
            self.writer.statements(product.body)
        self.arrays.tile = None

    def grid(self, outer: Loop) -> bool:
        """Write products of several tiles with several others, each of which is loaded once.

        unroll i: unroll j: t[i, j] += a[i] b[j]   →   load all b[j];  for i: load a[i];  for j: …
        """
        loops = [*perfect(outer)][:3]
        if [loop.kind for loop in loops] != ["unroll", "unroll", "tensor"]:
            return False
        _, inner, loop = loops
        product = product_of(self.nest, loop, self.tiles)
        if not isinstance(product, TileProduct):
            return False
        if inner.axis in symbols(product.left.start) or outer.axis in symbols(product.right.start):
            return False
        code, head = self.code, self.writer.head
        left, right, name = code.fresh(), code.fresh(), c_name(inner.name)
        code.array("lab_u32", f"{right}[{inner.size}]", self.tiles.right[product.word])
        with head(inner):
            self.load_right(product, f"{right}[{name}]")
        with head(outer):
            code.array("lab_u32", left, self.tiles.left[product.word])
            self.load_left(product, left)
            with head(inner):
                self.multiply(product, left, f"{right}[{name}]")
        return True

    def product(self, product: TileProduct) -> None:
        """Write a product of tiles that is added to a tile."""
        own, word = self.tiles, product.word
        left, right = self.code.fresh(), self.code.fresh()
        self.code.raw(f"lab_u32 {left}[{own.left[word]}], {right}[{own.right[word]}];")
        self.load_left(product, left)
        self.load_right(product, right)
        self.multiply(product, left, right)

    def load_left(self, product: TileProduct, into: str) -> None:
        """Write how lanes load their parts of a tile's rows."""
        of, (row, step) = product.left, product.left.strides
        assert step == 1
        at = f"{c_name(of.name)} + {self.code.index(of.start, PRODUCT)}"
        self.code.invoke(f"lab_tile_a_{product.word}", into, at, self.code.index(row))

    def load_right(self, product: TileProduct, into: str) -> None:
        """Write how lanes load their parts of a tile's columns."""
        of, (down, along) = product.right, product.right.strides
        at = f"{c_name(of.name)} + {self.code.index(of.start, PRODUCT)}"
        steps = self.code.index(down), self.code.index(along)
        self.code.invoke(f"lab_tile_b_{product.word}", into, at, *steps)

    def multiply(self, product: TileProduct, left: str, right: str) -> None:
        """Write the product of the lanes' parts, which is added to a tile."""
        sums = f"&{self.arrays.tile_at(product.into, product.index)}"
        self.code.invoke(f"lab_mma_{product.word}", sums, left, right, ops=MULTIPLIED)

    # -- four warps, and what is copied for them ---------------------------------------------------

    @contextmanager
    def multiplying(self, region: ThreadRegion) -> Generator[None]:
        """Wait at the end for products of four warps that are begun meanwhile."""
        sets = every(region.body, Set)
        sums = [update for update in sets if update.how == "+=" and self.phase.is_kept(update.name)]
        groups = region.lanes == GROUP and bool(sums)
        if groups and len(sums) < len(sets):
            raise self.nest.fault(
                f"where four warps multiply, {sums[0].name} is not all that is set",
                "fission takes the rest apart",
            )
        if not groups:
            yield
            return
        kept = {
            name: size_of(self.arrays.own_shape(name)) for name in sorted({s.name for s in sums})
        }
        self.keep(kept)
        self.code.invoke("lab_wgmma_begin")
        yield
        self.code.invoke("lab_wgmma_commit")
        self.code.invoke("lab_wgmma_wait", 0)
        self.keep(kept)

    def keep(self, sums: Mapping[str, Dim]) -> None:
        """Make the compiler leave sums where they are while products are added to them."""
        for name, size in sums.items():
            self.code.invoke("lab_wgmma_keep", c_name(name), size)

    def group_product(self, product: GroupProduct) -> None:
        """Write a product of tiles in shared memory, which is added to a tile of four warps."""
        sums = f"&{self.arrays.tile_at(product.into, product.index)}"
        matrices: list[str] = []
        for (name, start), leading in ((product.left, 16), (product.right, product.leading or 16)):
            at = f"{c_name(name)} + {self.code.index(start, PRODUCT)}"
            matrices.append(self.code.call("lab_wgmma_matrix", at, leading, 8 * SWIZZLED, 1))
        call = f"lab_wgmma_{product.word}_n{product.columns}{'_rows' if product.leading else ''}"
        self.code.invoke(call, sums, *matrices, 1, ops=MULTIPLIED)

    def bulk(self, loop: Loop) -> None:
        """Write the copy of a tile; the barrier at which it arrives counts its bytes."""
        copy = bulk_copy(self.nest, loop)
        lies = tiled(self.nest, copy.into)
        shape, dtype = self.types[copy.into].shape, self.types[copy.into].dtype
        at = f"&{ARRIVED}[{self.code.index(copy.index[0])}]"
        self.code.invoke("lab_barrier_expect", at, lies.size * dtype.itemsize)
        number = buffers_of(self.nest).index(copy.of)
        tile_map = TileMap(copy.of, number, dtype, copy.width, copy.height, lies.rows)
        name = unique(f"lab_map_{c_name(copy.of)}", {*self.maps.values()})
        name = self.maps.setdefault(tile_map, name)
        for column in range(0, lies.columns, lies.piece):
            to = self.code.index(lies.start((*copy.index[:-1], column), shape))
            corner = self.code.index(copy.x + column), self.code.index(copy.y)
            into = f"&{c_name(copy.into)}[{to}]"
            self.code.invoke("lab_bulk_tile", into, f"&{name}", *corner, at)

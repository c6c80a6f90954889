"""What plans ask of a nest that is a pass: its blocks, and the products in them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from luminal_lab.kernels.definition.terms import Read, Term, free
from luminal_lab.kernels.nest.contraction import loops_of, pair_of, summed
from luminal_lab.kernels.nest.nest import Loop, Nest, Set, accesses, walk
from luminal_lab.kernels.nest.sizes import innermost, perfect, stride
from luminal_lab.kernels.steps.sums import total_of


def reads(nest: Nest, loop: str, array: str) -> list[Read]:
    """Return the reads of an array in a loop."""
    uses = [use for use in accesses((nest.loops[loop],)) if (use.name, use.how) == (array, "read")]
    return [Read(array, use.index, nest.types[array].dtype) for use in uses if use.index]


def is_column(nest: Nest, name: str) -> bool:
    """Return whether neighbouring results read neighbours, while the terms of one sum are apart."""
    for loop in walk(nest.loops[name].body):
        if isinstance(loop, Loop) and total_of(loop) is not None:
            last = innermost(loop)
            terms = [s.term for s in last.body if isinstance(s, Set)]
            near = [term for term in terms if stride(nest, term, name) == 1]
            if any(stride(nest, term, last.name) not in (0, 1) for term in near):
                return True
    return False


class BlockProduct(NamedTuple):
    """A sum of products within a block of a pass."""

    array: str
    grows: bool
    """Whether the product is added to the array from block to block."""
    fold: str
    column: str
    left: Term
    right: Term
    """The operand with the columns."""


@dataclass(frozen=True)
class PassNest:
    """A nest of rows that run along an axis in blocks, with several sums and maxima."""

    path: list[str]
    block: str
    """The loop over blocks, inside the loops of the path."""
    products: list[BlockProduct]
    keys: set[str]
    """The loops that say which columns a row meets."""


def pass_of(nest: Nest) -> PassNest | None:
    """Return the parts of a nest that is a pass with sums of products and nothing else, or None."""
    path = loops_of(nest, alone=True)
    passes: list[PassNest] = []
    for block in path[-1].body if path else ():
        parts = [s for s in block.body if isinstance(s, Loop)] if isinstance(block, Loop) else []
        products = [product for part in parts if (product := _product(part)) is not None]
        if isinstance(block, Loop) and products:
            keys = {name for product in products for name in free(product.right)}
            passes.append(PassNest([loop.name for loop in path], block.name, products, keys))
    return passes[0] if len(passes) == 1 else None


def _product(part: Loop) -> BlockProduct | None:
    """Return the product that a part of a block is, or None."""
    *_, column = loops = [*perfect(part)]
    *_, end = column.body
    folds, term = summed(column.body) or ([part], None)
    if not isinstance(end, Set) or not end.index or len(folds) != 1:
        return None
    grows = term is None and len(loops) == 2 and len(column.body) == 1 and end.how == "+="
    pair = pair_of(end.term if grows else term, column.name)
    return pair and BlockProduct(end.name, grows, folds[0].name, column.name, *pair)

"""Sizes of dims chosen at export: usual ones, which get kernels of their own, and bounds.

sizes={"batch": (1, 8, 32)}           kernels for 1, 8 and 32 beside those for any size
sizes={"batch": range(1, 65)}         no other size than 1 to 64 is taken
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from math import lcm, prod
from typing import Final, NamedTuple, cast

from luminal_lab.core.dims import Symbol, check_bounds
from luminal_lab.core.ir import IR
from luminal_lab.errors import ArgumentError, DimError, nearest, whole_number
from luminal_lab.passes.sizes import without_a_shape

MOST: Final = 16
"""The most combinations of usual sizes."""
LIKE: Final = 'as in {"batch": (1, 8, 32)}, or bounds, as in {"batch": range(1, 65)}'


class Sizes(NamedTuple):
    """What an export knows about sizes beforehand."""

    usual: Sequence[Mapping[str, int]] = ()
    """Sizes of some dims, for which there are kernels of their own."""
    bounds: Mapping[str, Symbol] = {}
    """The dims that have narrower bounds than in the graph."""


def chosen_sizes(ir: IR, asked: object) -> Sizes:
    """Return what was asked about the sizes of a graph's dims, or raise.

    >>> x = cx.tensor(("rows", "seq"), name="x")
    >>> chosen = chosen_sizes(cx.ir, {"rows": (1, 8), "seq": range(1, 129)})
    >>> chosen.usual, chosen.bounds["seq"].high
    ([{'rows': 1}, {'rows': 8}], 128)
    """
    if asked is None:
        return Sizes()
    if not isinstance(asked, Mapping):
        raise ArgumentError(
            f"export: sizes is {asked!r}, which names no dim",
            hint=f"give dims and their usual sizes, {LIKE}",
        )
    usual: dict[str, Sequence[int]] = {}
    bounds: dict[str, Symbol] = {}
    for dim, like in cast("Mapping[object, object]", asked).items():
        name = str(dim)
        if name not in ir.symbols:
            known = f"there are {', '.join(ir.symbols)}" if ir.symbols else "all sizes are fixed"
            raise DimError(
                f"export: sizes names {name!r}, and this graph has no such dim",
                hint=nearest(name, ir.symbols) or known,
            )
        if isinstance(like, range):
            bounds[name] = _narrower(ir.symbols[name], like)
        else:
            usual[name] = _several(ir.symbols[name], like)
    count = prod(map(len, usual.values()))
    if count > MOST:
        raise ArgumentError(
            f"export: sizes asks for {count:,} combinations of sizes, each with its kernels",
            hint=f"give at most {MOST}; other sizes have the kernels for any",
        )
    ways = [dict(zip(usual, way, strict=True)) for way in product(*usual.values()) if way]
    for way in ways:
        if (node := without_a_shape(ir, way)) is not None:
            said = ", ".join(f"{name} = {size}" for name, size in way.items())
            raise DimError(
                f"export: with {said}, {node} would have less than no elements",
                where=str(node.meta.origin or "") or None,
                hint="ask for larger sizes",
            )
    return Sizes(ways, bounds)


def _several(symbol: Symbol, like: object) -> list[int]:
    """Return the usual sizes of a dim."""
    listed = cast("Sequence[object]", like if isinstance(like, (list, tuple)) and like else (like,))
    sizes: list[int] = []
    for one in listed:
        size = whole_number(one)
        if size is None or size.bit_length() > 63:
            raise ArgumentError(
                f"export: sizes gives the dim {symbol.name!r} the size {one!r}",
                hint=f"give whole numbers, {LIKE}",
            )
        _check(symbol, size)
        sizes.append(size)
    return [*dict.fromkeys(sizes)]


def _narrower(symbol: Symbol, like: range) -> Symbol:
    """Return a dim whose bounds are a range's."""
    step = abs(like.step)
    if not like or like.step < 1 or like[0] % step:
        why = "multiples begin at one" if like and like.step > 1 else "no size is within them"
        right = f"range({step}, {64 * step + 1}, {step})" if step > 1 else "range(1, 65)"
        raise ArgumentError(
            f"export: sizes gives the dim {symbol.name!r} the bounds {like!r}, and {why}",
            hint=f"as in {right}, which ends before its second number",
        )
    for size in (like[0], like[-1]):
        _check(Symbol(symbol.name, symbol.low, symbol.high), size)
    return Symbol(symbol.name, like[0], like[-1], lcm(step, symbol.multiple_of))


def _check(symbol: Symbol, size: int) -> None:
    """Raise unless a dim can have a size."""
    try:
        check_bounds(symbol, size)
    except DimError as error:
        error.message = f"export: sizes: {error.message}"
        error.hint = f"{symbol.name} has these bounds where the graph is written"
        raise

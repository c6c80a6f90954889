"""The sizes of symbolic dims in a run: from the data of its inputs, or given by hand."""

from __future__ import annotations

from collections.abc import Mapping

from luminal_lab.core.binding import contradicts, solve_shape
from luminal_lab.core.dims import Symbol, check_bounds, substitute, symbols
from luminal_lab.core.ir import IR, Node
from luminal_lab.core.op import tuple_text
from luminal_lab.errors import DimError


def bind_dims(
    ir: IR,
    needed: set[int],
    shapes: Mapping[Node, tuple[int, ...]],
    given: Mapping[str, int],
    others: Mapping[Node, tuple[int, ...]] | None = None,
) -> dict[str, int]:
    """Return the size of every symbol that the needed nodes mention.

    What the needed inputs do not decide, those of other inputs may: x.full_like(2) reads no x.
    """
    if not ir.symbols:
        return {}
    sizes = {name: size for name, size in given.items() if name in ir.symbols}
    sources = dict.fromkeys(sizes, "set_dim")
    for inputs in (shapes, others or {}):
        before = -1
        while before < len(sizes):
            before = len(sizes)
            for node, shape in inputs.items():
                for name, size in solve_shape(node.shape, shape, sizes).items():
                    sizes[name], sources[name] = size, f"%{node.name}"
    for node, shape in shapes.items():
        for dim, size in zip(node.shape, shape, strict=True):
            if contradicts(dim, size, sizes):
                wanted = tuple_text([substitute(d, sizes) for d in node.shape])
                names = [s.name for d in node.shape for s in symbols(d) if s.name in sizes]
                raise DimError(
                    f"execute: the data of %{node.name} is {tuple_text(shape)}, but it should be "
                    f"{wanted} with "
                    + ", ".join(
                        f"{n} = {sizes[n]} from {sources[n]}" for n in dict.fromkeys(names)
                    ),
                    where=str(node.meta.origin or ""),
                    hint="set all inputs that share a dim to data of one size",
                )
    _check_bound(ir, needed, sizes)
    return sizes


def _check_bound(ir: IR, needed: set[int], sizes: Mapping[str, int]) -> None:
    """Raise unless each symbol that the needed nodes mention has a size within its bounds."""
    checked: set[Symbol] = set()
    for id in sorted(needed):
        node = ir[id]
        mentioned = [s for type in node.types for dim in type.shape for s in symbols(dim)]
        for symbol in (*mentioned, *node.op.symbols()):
            if symbol in checked:
                continue
            checked.add(symbol)
            if symbol.name not in sizes:
                raise DimError(
                    f"execute: dim {symbol.name!r} is not bound; it comes from %{node.name}: "
                    f"{node.type}",
                    where=str(node.meta.origin or ""),
                    hint="give data to an input that has it, or call "
                    f'cx.set_dim("{symbol.name}", …)',
                )
            check_bounds(symbol, sizes[symbol.name])

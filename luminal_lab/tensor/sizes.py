"""The sizes of symbolic dims in a run: from the data of its inputs, or given by hand."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TypeAlias, cast

from luminal_lab.core.binding import contradicts, solve_shape
from luminal_lab.core.dims import Symbol, check_bounds, substitute, symbols
from luminal_lab.core.ir import IR, Node
from luminal_lab.core.op import tuple_text
from luminal_lab.errors import ArgumentError, DimError, whole_number

Mentioned: TypeAlias = tuple[tuple[Symbol, Node], ...]
"""Symbols, each with a node that mentions it."""


ONE = "one whole number"


def named_sizes(what: str, like: object, wanted: str = ONE) -> dict[str, int]:
    """Return sizes of dims given by name, or an empty dict for None."""
    if like is None:
        return {}
    if not isinstance(like, Mapping):
        raise ArgumentError(
            f"{what}: dims is {like!r}, which names no dim",
            hint='give dims and their sizes, as in {"seq": 128}',
        )
    sizes: dict[str, int] = {}
    for dim, size in cast("Mapping[object, object]", like).items():
        name, number = str(dim), whole_number(size)
        if number is None or number.bit_length() > 63:
            raise ArgumentError(
                f"{what}: dims gives the dim {name!r} the size {size!r}",
                hint=f'give {wanted}, as in {{"{name}": 128}}',
            )
        sizes[name] = number
    return sizes


def size_lists(what: str, like: object) -> dict[str, int | Sequence[int]]:
    """Return sizes of dims given by name, of each dim one or several."""
    if not isinstance(like, Mapping):
        return {**named_sizes(what, like)}
    sizes: dict[str, int | Sequence[int]] = {}
    for dim, size in cast("Mapping[object, object]", like).items():
        name, is_list = str(dim), isinstance(size, (list, tuple))
        listed = cast("Sequence[object]", size if is_list and size else (size,))
        wanted = f"{ONE}, or a list of them"
        numbers = [named_sizes(what, {name: number}, wanted)[name] for number in listed]
        sizes[name] = numbers if is_list else numbers[0]
    return sizes


def bind_dims(
    ir: IR,
    needed: Collection[int],
    shapes: Mapping[Node, tuple[int, ...]],
    given: Mapping[str, int],
    others: Mapping[Node, tuple[int, ...]] | None = None,
    mentioned: Mentioned | None = None,
) -> dict[str, int]:
    """Return the size of every symbol that the needed nodes mention (`mentioned`, if known).

    Other inputs may determine sizes that the needed ones do not: x.full_like(2) reads no x.
    """
    if not ir.symbols:
        return {}
    sizes = {name: size for name, size in given.items() if name in ir.symbols}
    sources = dict.fromkeys(sizes, "set_dim")
    for inputs in (shapes, others or {}):
        before = -1
        while before < len(sizes) < len(ir.symbols):
            before = len(sizes)
            for node, shape in inputs.items():
                for name, size in solve_shape(node.shape, shape, sizes).items():
                    sizes[name], sources[name] = size, f"%{node.name}"
    for node, shape in shapes.items():
        for dim, size in zip(node.shape, shape, strict=True):
            if contradicts(dim, size, sizes):
                wanted = tuple_text([substitute(d, sizes) for d in node.shape])
                names = [s.name for d in node.shape for s in symbols(d) if s.name in sizes]
                by_hand = [name for name in names if sources[name] == "set_dim"]
                raise DimError(
                    f"execute: the data of %{node.name} is {tuple_text(shape)}, but it should be "
                    f"{wanted} with "
                    + ", ".join(
                        f"{n} = {sizes[n]} from {sources[n]}" for n in dict.fromkeys(names)
                    ),
                    where=str(node.meta.origin or ""),
                    hint=f'cx.set_dim("{by_hand[0]}", None) takes back the size that was given'
                    if by_hand
                    else "set all inputs that share a dim to data of one size",
                )
    _check_bound(mentions(ir, needed) if mentioned is None else mentioned, sizes)
    return sizes


def mentions(ir: IR, needed: Iterable[int]) -> Mentioned:
    """Return the symbols that nodes mention, each with the first such node."""
    nodes: dict[Symbol, Node] = {}
    for id in sorted(needed):
        node = ir[id]
        for type in node.types:
            for dim in type.shape:
                for symbol in symbols(dim):
                    nodes.setdefault(symbol, node)
        for symbol in node.op.symbols():
            nodes.setdefault(symbol, node)
    return tuple(nodes.items())


def _check_bound(mentioned: Mentioned, sizes: Mapping[str, int]) -> None:
    """Raise unless each symbol that the needed nodes mention has a size within its bounds."""
    for symbol, node in mentioned:
        if symbol.name not in sizes:
            raise DimError(
                f"execute: dim {symbol.name!r} is not bound; it comes from %{node.name}: "
                f"{node.type}",
                where=str(node.meta.origin or ""),
                hint=f'give data to an input that has it, or call cx.set_dim("{symbol.name}", …)',
            )
        check_bounds(symbol, sizes[symbol.name])

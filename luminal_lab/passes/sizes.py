"""Sizes of dims that a compilation gets code for, and whether a graph can have them."""

from collections.abc import Mapping
from typing import cast

from luminal_lab.core.dims import Dim, bounds, check_bounds, substitute
from luminal_lab.core.ir import IR, Node
from luminal_lab.core.op import tuple_text
from luminal_lab.errors import ArgumentError, DimError, nearest, whole_number


def asked_sizes(ir: IR, given: object, asking: str = "compile: specialise") -> Mapping[str, int]:
    """Return the sizes that somebody gives dims of a graph, or raise."""
    if not isinstance(given, Mapping):
        raise ArgumentError(
            f"{asking} is {given!r}, which names no dim",
            hint='give dims and their sizes, as in {"seq": 128}',
        )
    sizes: dict[str, int] = {}
    for dim, like in cast("Mapping[object, object]", given).items():
        name, size = str(dim), whole_number(like)
        if size is None or size.bit_length() > 63:
            raise ArgumentError(
                f"{asking} gives the dim {name!r} the size {like!r}",
                hint=f'give one whole number, as in {{"{name}": 128}}',
            )
        if name not in ir.symbols:
            raise DimError(
                f"{asking} names {name!r}, and this graph has no such dim",
                hint=nearest(name, ir.symbols) or "dims come with tensors, or dim(...)",
            )
        check_bounds(ir.symbols[name], size)
        sizes[name] = size
    node = without_a_shape(ir, sizes)
    if node is not None:
        shape = tuple_text(tuple(substitute(dim, sizes) for dim in node.shape))
        raise DimError(
            f"{asking} gives sizes that no run has: {node} would be {shape}",
            where=str(node.meta.origin or "") or None,
            hint="a dim cannot be negative; ask for larger sizes",
        )
    return sizes


def without_a_shape(ir: IR, sizes: Mapping[str, Dim]) -> Node | None:
    """Return the first node that would have less than no elements, whatever other dims are.

    >>> y = (cx.tensor((cx.dim("n") - 2,), name="x") * 2).retrieve()
    >>> print(without_a_shape(cx.compile("dce").ir, {"n": 1}))
    %x
    """
    return _without(ir, sizes, set())


def _without(ir: IR, sizes: Mapping[str, Dim], seen: set[Dim | IR]) -> Node | None:
    for node in ir:
        body = node.op.body_of()
        if body is not None and body not in seen:
            seen.add(body)
            within = _without(body, sizes, seen)
            if within is not None:
                return within
        for dim in {*node.shape} - seen:
            seen.add(dim)
            most = bounds(substitute(dim, sizes))[1]
            if most is not None and most < 0:
                return node
    return None

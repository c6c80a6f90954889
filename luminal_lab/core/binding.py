"""Data meets types: whether an array fits an input, and which sizes it gives to symbolic dims."""

from collections.abc import Mapping

import numpy as np

from luminal_lab.core.dims import Symbol, check_bounds, evaluate, solve, symbols
from luminal_lab.core.dtypes import BY_NUMPY, KIND_ORDER, Array
from luminal_lab.core.ir import IR, Node
from luminal_lab.core.op import tuple_text
from luminal_lab.core.tensor.base import as_array
from luminal_lab.errors import DimError, DTypeError, InputError


def bind_data(node: Node, data: object, table: Mapping[str, Symbol]) -> Array:
    """Return data as an array that fits an input, or say why it does not."""
    array = as_array(data)
    if array.ndim == 0 and isinstance(data, (bool, int, float)) and all(d == 1 for d in node.shape):
        array = array.reshape([1] * len(node.shape))  # a number for the only element
    label = f"set: %{node.name} is {tuple_text(node.shape)}, but the data is"
    if array.ndim != len(node.shape):
        raise InputError(
            f"{label} {tuple_text(array.shape)}", hint=f"give data with {len(node.shape)} axes"
        )
    found = bind_shape(node, array.shape, {})
    for axis, (dim, size) in enumerate(zip(node.shape, array.shape, strict=True)):
        if all(symbol.name in found for symbol in symbols(dim)) and evaluate(dim, found) != size:
            raise InputError(
                f"{label} {tuple_text(array.shape)}: axis {axis} has {size} and not "
                f"{evaluate(dim, found)}",
                hint="reshape the data, or make the tensor with the shape of the data",
            )
    for name, size in found.items():
        check_bounds(table[name], size)
    return _with_dtype(node, array)


def bind_shape(node: Node, shape: tuple[int, ...], known: Mapping[str, int]) -> dict[str, int]:
    """Return the sizes of symbols that the shape of some data decides."""
    found: dict[str, int] = {}
    for _ in range(1 + len(shape)):
        for dim, size in zip(node.shape, shape, strict=True):
            solved = solve(dim, size, {**known, **found})
            found.update(solved or {})
    return found


def bind_dims(
    ir: IR, needed: set[int], shapes: Mapping[Node, tuple[int, ...]], given: Mapping[str, int]
) -> dict[str, int]:
    """Return the size of every symbol that the needed nodes mention."""
    sizes = {name: size for name, size in given.items() if name in ir.symbols}
    sources = dict.fromkeys(sizes, "set_dim")
    for _ in range(1 + len(ir.symbols)):
        before = len(sizes)
        for node, shape in shapes.items():
            found = bind_shape(node, shape, sizes)
            for name, size in found.items():
                sizes.setdefault(name, size)
                sources.setdefault(name, f"%{node.name}")
        if len(sizes) == before:
            break
    for node, shape in shapes.items():
        for dim, size in zip(node.shape, shape, strict=True):
            names = [symbol.name for symbol in symbols(dim)]
            if all(name in sizes for name in names) and evaluate(dim, sizes) != size:
                others = ", ".join(f"{name} = {sizes[name]} from {sources[name]}" for name in names)
                raise DimError(
                    f"execute: the data of %{node.name} is {tuple_text(shape)}, but it should be "
                    f"{tuple_text([evaluate(d, sizes) for d in node.shape])} with {others}",
                    where=str(node.meta.origin or ""),
                    hint="set all inputs that share a dim to data of one size",
                )
    for id in sorted(needed):
        node = ir[id]
        mentioned = [s for type in node.types for dim in type.shape for s in symbols(dim)]
        for symbol in (*mentioned, *node.op.symbols()):
            if symbol.name not in sizes:
                raise DimError(
                    f"execute: dim {symbol.name!r} is not bound; it comes from %{node.name}: "
                    f"{node.type}",
                    where=str(node.meta.origin or ""),
                    hint=f'give an input that has it data, or call cx.set_dim("{symbol.name}", …)',
                )
            check_bounds(symbol, sizes[symbol.name])
    return sizes


def _with_dtype(node: Node, array: Array) -> Array:
    """Return an array in the dtype of an input, if no value is lost but precision."""
    if array.dtype not in BY_NUMPY:  # unsigned integers and the like, that have no DType here
        dtype = np.dtype(np.float64 if array.dtype.kind == "f" else np.int64)
    else:
        dtype = array.dtype
    have, want = BY_NUMPY[dtype], node.dtype
    problem = f"set: %{node.name} is {want}, but the data is {array.dtype}"
    if KIND_ORDER[have.kind] > KIND_ORDER[want.kind]:
        if have.is_float and array.size and not np.isfinite(array.astype(np.float64)).all():
            problem += " and holds NaN or infinity"
        raise DTypeError(
            problem, hint=f'convert it, as in data.astype("{want}"), or make the tensor {have}'
        )
    if want.kind == "int" and array.size:
        low, high = want.limits
        least, most = int(array.min()), int(array.max())
        if least < low or most > high:
            raise DTypeError(
                f"{problem} with values from {least} to {most}, and {want} holds {low} to {high}",
                hint="make the tensor of a wider dtype",
            )
    return array

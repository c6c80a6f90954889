"""The sizes of axes in an exported program, and its dtypes, as dims and dtypes of ours."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias, cast

from luminal_lab.core.dims import Dim, Expr, Symbol, evaluate, free_name, maximum, minimum
from luminal_lab.core.dtypes import Array, DType, as_dtype
from luminal_lab.core.op import TensorType
from luminal_lab.errors import ArgumentError, DTypeError, LabError, ModelError, counted

Torch: TypeAlias = Any
"""An object of torch's, which has no types here: torch is no dependency."""
Names: TypeAlias = Sequence["str | int | Symbol | None"] | Mapping[int, "str | int | Symbol | None"]
"""What `dynamic` has for a tensor: the names of its axes."""

FARTHEST = 1 << 31
"""A bound of a size from here on is none."""
SPECIAL_SIZES = 2
"""PyTorch exports for sizes from here on, as 0 and 1 are special to it; 1 is not to us."""


def axes_of(what: str, names: Names | None, rank: int) -> Iterator[tuple[int, str | Symbol]]:
    """Yield the named axes of an argument."""
    if names is None:
        return
    if isinstance(names, str) or not isinstance(names, (Sequence, Mapping)):  # pyright: ignore[reportUnnecessaryIsInstance]  # a caller may err
        raise ArgumentError(
            f"{what} is {names!r}", hint='name axes in order, as in ("batch", None, "seq")'
        )
    if not isinstance(names, Mapping) and len(names) < rank:
        shown = ["None" if name is None else repr(str(name)) for name in names]
        whole = ", ".join([*shown, *["None"] * (rank - len(names))]).replace("'", '"')
        raise ArgumentError(
            f"{what} names {counted(len(names), 'axis', 'axes')}, and the tensor has {rank}",
            hint=f"every axis has a name, or None if its size is fixed: ({whole})",
        )
    rows = names.items() if isinstance(names, Mapping) else enumerate(names)
    for axis, name in rows:
        if axis >= rank or axis < -rank:
            raise ArgumentError(
                f"{what} names axis {axis}, and the tensor has {rank}",
                hint=f"its axes are 0 to {rank - 1}" if rank else "it is a scalar",
            )
        if isinstance(name, (str, Symbol)):
            yield axis % rank, name
        elif name is not None:
            raise ArgumentError(
                f"{what} names axis {axis} {name!r}",
                hint='a name is a word or an ll.Symbol, as in ("batch", None); None is fixed',
            )


class Sizes(NamedTuple):
    """The symbols of a program as dims of ours, with the sizes of the example."""

    dims: dict[str, Dim]
    example: dict[str, int]
    known: dict[str, int | None]
    """The sizes of expressions in the example, by their texts."""


def sizes_of(
    torch: Torch,
    program: Torch,
    placeholders: Mapping[str, Torch],
    names: Sequence[str],
    dynamic: Mapping[str, Any],
) -> Sizes:
    """Return the symbols of a program as dims of ours, under the names that `dynamic` has."""
    words: dict[Any, tuple[str, int]] = {}
    limits_of = {s: limits for s, limits in program.range_constraints.items() if s.is_symbol}
    example: dict[str, int] = {}
    for size, word in _free_sizes(torch, program, placeholders, names, dynamic):
        expression = size.node.expr
        for symbol in expression.free_symbols:
            limits = limits_of.setdefault(symbol, None)
            example.setdefault(str(symbol), _hint_of(size, symbol, limits))
        factor, symbol = expression.as_coeff_Mul()
        if word and symbol.is_symbol and factor.is_integer:
            words.setdefault(symbol, (word, int(factor)))
    dims: dict[str, Dim] = {}
    sizes: dict[str, int] = {}
    for symbol, limits in limits_of.items():
        word, by = words.get(symbol, (str(symbol), 1))
        low, high = 1, FARTHEST
        if limits is not None:
            low, high = _bound(limits.lower, 1), _bound(limits.upper, FARTHEST)
        low = max(1, low if low > SPECIAL_SIZES else 1)
        ours = Symbol(free_name(word), low * by, None if high >= FARTHEST else high * by, by)
        dims[str(symbol)] = ours // by
        if str(symbol) in example:
            sizes.setdefault(ours.name, example[str(symbol)] * by)
    return Sizes(dims, sizes, {})


def _free_sizes(
    torch: Torch,
    program: Torch,
    placeholders: Mapping[str, Torch],
    names: Sequence[str],
    dynamic: Mapping[str, Any],
) -> Iterator[tuple[Torch, str | None]]:
    """Yield the sizes that vary of a program's arguments, each with its name, if it has one."""
    spec = program.module_call_graph[0].signature.in_spec
    arguments = [*spec.child(0).children(), *spec.child(1).children()]
    user = [s.arg for s in program.graph_signature.input_specs if s.kind.name == "USER_INPUT"]
    wanted: list[Any] = []
    for name, argument in zip(names, arguments, strict=True):
        wanted += _leaves(argument, dynamic.get(name))
    for arg, axes in zip(user, wanted, strict=True):
        value = placeholders[arg.name].meta.get("val")
        if isinstance(value, torch.Tensor):
            rows = dict(axes_of(f"from_torch: dynamic, for {arg.name}", axes, value.dim()))
            for axis, size in enumerate(value.shape):
                name = rows.get(axis)
                if not isinstance(size, int):
                    yield size, name.name if isinstance(name, Symbol) else name


def _hint_of(size: Torch, symbol: Torch, limits: Torch) -> int:
    """Return the size that a symbol had in the example."""
    env = size.node.shape_env
    known = getattr(env, "var_to_val", None) or getattr(env, "backed_var_to_val", {})
    if symbol in known:
        return int(known[symbol])
    return max(SPECIAL_SIZES, _bound(limits.lower, 1)) if limits is not None else SPECIAL_SIZES


def _bound(bound: Torch, otherwise: int) -> int:
    """Return a bound of a size, or a number instead of an infinite one."""
    return int(bound) if bound.is_Integer else otherwise


def _leaves(spec: Torch, names: Any) -> Iterator[Any]:  # noqa: ANN401  # a structure of names
    """Yield the names of axes for each leaf of an argument."""
    if spec.is_leaf():
        yield names
        return
    children = spec.children()
    inner: list[Any] = [None] * len(children)
    if isinstance(names, (tuple, list)):
        inner[: len(cast("list[Any]", names))] = names
    elif isinstance(names, Mapping):
        known = isinstance(spec.context, (list, tuple))
        keys = cast("list[Any]", spec.context if known else [])
        inner = [cast("Mapping[Any, Any]", names).get(key) for key in keys] or inner
    for child, own in zip(children, inner, strict=False):
        yield from _leaves(child, own)


def type_of(torch: Torch, value: Torch, sizes: Sizes, what: str) -> TensorType:
    """Return the type of a tensor of torch's, with dims of ours."""
    shape = [_dim(size, sizes.dims) for size in value.shape]
    return TensorType(dtype_of(value.dtype, what), tuple(shape))


def _dim(size: Torch, dims: Mapping[str, Dim]) -> Dim:
    """Return a size of torch's, which may be an expression, as a dim."""
    return int(size) if isinstance(size, int) else _expression(size.node.expr, dims)


def _power(x: Dim, y: Dim) -> Dim:
    return _product(*[x] * y) if isinstance(y, int) else x


def _quotient(x: Dim, d: Dim) -> Dim:
    return x // d


def _remainder(x: Dim, d: Dim) -> Dim:
    return x % d


def _product(*parts: Dim) -> Dim:
    total: Dim = 1
    for part in parts:
        total = total * part
    return total


ARITHMETIC: dict[str, Callable[..., Dim]] = {
    "Add": lambda *parts: sum(parts),
    "Mul": _product,
    "FloorDiv": _quotient,
    "CleanDiv": _quotient,
    "Mod": _remainder,
    "PythonMod": _remainder,
    "Max": maximum,
    "Min": minimum,
    "Pow": _power,
}
"""What torch's arithmetic of sizes is with dims, by the names of its classes."""


def _expression(expr: Torch, dims: Mapping[str, Dim]) -> Dim:
    if expr.is_Integer:
        return int(expr)
    if expr.is_symbol:
        return dims[str(expr)]
    function = ARITHMETIC.get(type(expr).__name__)
    if function is None:
        raise ModelError(
            f"from_torch: a size is {expr}, and {type(expr).__name__} is no arithmetic of dims",
            hint="export the module with this size fixed",
        )
    return function(*[_expression(part, dims) for part in expr.args])


def size_of(size: Torch, sizes: Sizes) -> int | None:
    """Return a size in the example, if it is known."""
    if isinstance(size, int):
        return size
    text = str(size.node.expr)
    if text not in sizes.known:
        try:
            sizes.known[text] = number_of(_expression(size.node.expr, sizes.dims), sizes.example)
        except (LabError, KeyError):
            sizes.known[text] = None
    return sizes.known[text]


def number_of(dim: Dim, example: Mapping[str, int]) -> int | None:
    """Return a dim in the example, if it is known."""
    try:
        return evaluate(dim, example) if isinstance(dim, Expr) else dim
    except LabError:
        return None


# -- values ----------------------------------------------------------------------------------------


def array_of(torch: Torch, value: Torch) -> Array:
    """Return a tensor of torch's as an array."""
    own = value.detach().cpu().contiguous()
    if own.dtype is torch.bfloat16:
        return own.view(torch.int16).numpy().view(DType.bfloat16.numpy)
    return own.numpy()


def dtype_of(dtype: Torch, what: str) -> DType:
    """Return a dtype of torch's as ours, or raise."""
    try:
        return as_dtype(str(dtype).removeprefix("torch."))
    except LabError:
        raise DTypeError(
            f"from_torch: {what} is {str(dtype).removeprefix('torch.')}, a dtype that there is not "
            "here",
            hint=f"the dtypes are {', '.join(DType)}",
        ) from None

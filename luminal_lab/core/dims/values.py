"""Put values into expressions: other dims, numbers, arrays; and solve for a symbol."""

from collections.abc import Callable, Mapping
from functools import lru_cache, partial, reduce
from math import prod
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from luminal_lab.core.dims.arithmetic import floordiv, less, maximum, minimum, mod
from luminal_lab.core.dims.expression import Dim, Expr, Symbol, products
from luminal_lab.errors import DimError

Ints: TypeAlias = npt.NDArray[np.int64]
Functions: TypeAlias = Mapping[str, Callable[..., Any]]
"""The functions of atoms, by their signs."""


@lru_cache(1 << 15)
def symbols(dim: Dim) -> tuple[Symbol, ...]:
    """Return the symbols that an expression mentions, by name."""
    atoms = {atom for _, parts in products(dim) for atom in parts}
    free = {atom for atom in atoms if isinstance(atom, Symbol)}
    for atom in atoms - free:
        for argument in atom.arguments:
            free.update(symbols(argument))
    return tuple(sorted(free, key=lambda symbol: symbol.order))


def _worked_out(
    dim: Dim,
    named: Callable[[Symbol], Any],
    functions: Functions,
    number: Callable[[int], Any] = int,
) -> Any:  # noqa: ANN401  # of whatever type the symbols' values are
    """Return a dim evaluated with values for symbols and functions for all but + and *."""
    total = number(0)
    for factor, parts in products(dim):
        term = number(factor)
        for atom in parts:
            if isinstance(atom, Symbol):
                term = term * named(atom)
            else:
                inner = [_worked_out(x, named, functions, number) for x in atom.arguments]
                term = term * functions[atom.sign](*inner)
        total = total + term
    return total


_array = partial(np.asarray, dtype=np.int64)
OF_DIMS: Functions = {"//": floordiv, "%": mod, "min": minimum, "max": maximum, "<": less}
OF_ARRAYS: Functions = {
    "//": np.floor_divide,
    "%": np.mod,
    "min": lambda *args: reduce(np.minimum, args),
    "max": lambda *args: reduce(np.maximum, args),
    "<": lambda *args: _array(args[0] < 0),
}


def substitute(dim: Dim, values: Mapping[str, Dim]) -> Dim:
    """Return the expression with symbols, by name, replaced by other dims."""
    if isinstance(dim, int) or not any(symbol.name in values for symbol in symbols(dim)):
        return dim
    given = tuple([values.get(symbol.name, symbol) for symbol in symbols(dim)])
    are_dims = all(isinstance(value, (int, Expr)) for value in given)  # pyright: ignore[reportUnnecessaryIsInstance]  # 4.0 and 4 are one key
    return (_substituted if are_dims else _substituted.__wrapped__)(dim, given)


@lru_cache(1 << 15)
def _substituted(dim: Dim, values: tuple[Dim, ...]) -> Dim:
    return _worked_out(dim, dict(zip(symbols(dim), values, strict=True)).__getitem__, OF_DIMS)


def evaluate(dim: Dim, env: Mapping[str, int]) -> int:
    """Return the value of an expression for values of its symbols."""
    value = substitute(dim, env)
    if isinstance(value, int):
        return value
    missing = symbols(value)[0].name
    raise DimError(
        f"dim {missing!r} is not bound, and {dim} needs it",
        hint=f'set_dim("{missing}", …) binds it, and so does data of an input that has it',
    )


def evaluate_array(dim: Dim, env: Mapping[str, Ints | int]) -> Ints:
    """Return the values of an expression for arrays of values of its symbols."""
    return _worked_out(dim, lambda symbol: _array(env[symbol.name]), OF_ARRAYS, _array)


def evaluate_float(dim: Dim, env: Mapping[str, float]) -> float:
    """Return the value of an expression for fractional values of its symbols.

    Only operands of divisions and comparisons are rounded down first.
    """
    whole = {name: int(value) for name, value in env.items()}
    return sum(
        factor * prod(env[a.name] if isinstance(a, Symbol) else evaluate(a, whole) for a in parts)
        for factor, parts in products(dim)
    )


def solve(dim: Dim, value: int, env: Mapping[str, int]) -> dict[str, int] | None:
    """Return the one value of the one unknown symbol that makes the expression equal `value`.

    >>> solve(2 * Symbol("p") + 1, 7, {})
    {'p': 3}
    """
    terms = [*products(substitute(dim, env) - value)]
    number = terms.pop()[0] if terms and not terms[-1][1] else 0
    match terms:
        case [(factor, [Symbol(name=name)])] if number % factor == 0:
            return {name: -number // factor}
        case _:
            return None


def check_bounds(symbol: Symbol, value: int) -> None:
    """Raise unless a symbol may have this value."""
    name, low, high = symbol.name, symbol.low, symbol.high
    if value < low or (isinstance(high, int) and value > high):
        limits = f"at least {low}" if high is None else f"{low} to {high}"
        raise DimError(
            f"dim {name!r}: {value} is out of its bounds, which are {limits}",
            hint=f'use other data, or declare it before anything else: cx.dim("{name}", low, high)',
        )
    if value % symbol.multiple_of:
        raise DimError(
            f"dim {name!r}: {value} is not a multiple of {symbol.multiple_of}, as it is declared "
            "to be",
            hint=f"pad the data to {-(-value // symbol.multiple_of) * symbol.multiple_of}",
        )

"""Dims in C, as expressions in 64-bit integers."""

from functools import reduce

from luminal_lab.core.dims import Dim, Symbol
from luminal_lab.core.dims.expression import Atom, Division, Extremum, Negative, products
from luminal_lab.core.dims.limits import interval

CALLS = {"//": "floordiv", "%": "floormod"}


def render_c(dim: Dim) -> str:
    """Return a C expression in 64-bit integers.

    Where the signs are not known, it calls `floordiv(a, b)` and `floormod(a, b)`.
    """
    terms: list[str] = []
    for factor, parts in products(dim):
        number = f"{factor}LL" if abs(factor) >> 24 else str(factor)
        words = [number] if factor != 1 or not parts else []
        terms.append("*".join([*words, *map(_atom_c, parts)]))
    return f"({' + '.join(terms)})" if len(terms) > 1 else (terms or ["0"])[0]


def _atom_c(atom: Atom) -> str:
    match atom:
        case Symbol(name=name):
            return name.replace(".", "_")
        case Division(x=x, d=d, sign=sign):
            if interval(x)[0] >= 0 and interval(d)[0] >= 1:
                return f"({render_c(x)} {sign[0]} {render_c(d)})"
            return f"{CALLS[sign]}({render_c(x)}, {render_c(d)})"
        case Extremum(which=which, args=args):
            sign = "<" if which == "min" else ">"
            return reduce(lambda a, b: f"({a} {sign} {b} ? {a} : {b})", map(render_c, args))
        case Negative(x=x):
            return f"({render_c(x)} < 0)"
        case _:
            raise AssertionError(atom)

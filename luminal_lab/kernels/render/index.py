"""Index arithmetic as readable C: 4096*i + j, lab_min(6, n - 6*i), i / 4, 2 < i."""

from functools import reduce

from luminal_lab.core.dims import Dim, Symbol
from luminal_lab.core.dims.expression import (
    Atom,
    Division,
    Expr,
    Extremum,
    Negative,
    products,
    sum_of,
    terms_of,
)
from luminal_lab.core.dims.limits import interval
from luminal_lab.kernels.render.names import c_name

CALLS = {"//": "floordiv", "%": "floormod"}
LEAST, LESS, SUM, PRODUCT, UNARY, ATOM = range(6)
"""How tightly the operators of C bind: a ? b : c, a < b, a + b, a * b, -a, and atoms."""


def index_c(dim: Dim, least: int = LEAST, uses: set[str] | None = None) -> str:
    """Return index arithmetic in C, in brackets if it binds less tightly than required.

    The functions that it calls are added to `uses`.

    >>> i, n = Symbol("i", 0, 9), Symbol("n")
    >>> index_c(64 - 6 * i), index_c((i + 1) // 4 * 2), index_c((n - i) // 4, ATOM)
    ('64 - 6*i', '2*((i + 1) / 4)', 'floordiv(n - i, 4)')
    >>> from luminal_lab.core.dims import minimum
    >>> index_c((2 * i + minimum(19 - 3 * i, 3)) // 4)
    '(2*i + lab_min(19 - 3*i, 3)) / 4'
    """
    terms = list(products(dim))
    if not terms:
        return "0"
    uses = set() if uses is None else uses
    # The largest factor comes first: rows before columns.
    terms.sort(key=lambda term: (-len(term[1]) if term[1] else 1, -abs(term[0])))
    first = next((at for at, (factor, _) in enumerate(terms) if factor > 0), 0)
    terms.insert(0, terms.pop(first))
    text, level = "", SUM
    for factor, parts in terms:
        words, binds = _product(abs(factor), parts, uses)
        if binds < PRODUCT and (len(terms) > 1 or factor < 0):
            words, binds = f"({words})", ATOM
        if text:
            text += f" {'-' if factor < 0 else '+'} {words}"
        else:
            text, level = (words, binds) if factor > 0 else (f"-{words}", min(binds, UNARY))
    level = SUM if len(terms) > 1 else level
    return text if level >= least else f"({text})"


def _product(factor: int, parts: list[Atom], uses: set[str]) -> tuple[str, int]:
    number = f"{factor}LL" if factor >> 24 else str(factor)
    if not parts:
        return number, ATOM
    if factor == 1 and len(parts) == 1:
        return _atom(parts[0], uses)
    words = [number] if factor != 1 else []
    for part in parts:
        text, level = _atom(part, uses)
        words.append(text if level == ATOM else f"({text})")
    return "*".join(words), PRODUCT


def _atom(atom: Atom, uses: set[str]) -> tuple[str, int]:
    match atom:
        case Symbol(name=name):
            return c_name(name), ATOM
        case Division(x=x, d=d, sign=sign):
            if _is_from_zero(x) and interval(d)[0] >= 1:
                parts = index_c(x, PRODUCT, uses), index_c(d, ATOM, uses)
                return f"{parts[0]} {sign[0]} {parts[1]}", PRODUCT
            uses.add(CALLS[sign])
            return f"{CALLS[sign]}({index_c(x, LEAST, uses)}, {index_c(d, LEAST, uses)})", ATOM
        case Extremum(which=which, args=args):
            uses.add(f"lab_{which}")
            words = [index_c(arg, LEAST, uses) for arg in args]
            return reduce(lambda a, b: f"lab_{which}({a}, {b})", words), ATOM
        case Negative(x=x):
            return _less(x, uses), LESS
        case _:
            raise AssertionError(atom)


def _is_from_zero(dim: Dim) -> bool:
    """Return whether a dim is known not to be negative; for a minimum, each argument is tried."""
    if interval(dim)[0] >= 0:
        return True
    for monomial, factor in terms_of(dim):
        match monomial:
            case (Extremum(which="min", args=args),) if factor > 0:
                rest = dim - sum_of([(monomial, factor)])
                return all(_is_from_zero(rest + factor * arg) for arg in args)
            case _:
                pass
    return False


def condition_c(holds: Dim, uses: set[str] | None = None) -> str:
    """Return a condition on indices in C; the functions that it calls are added to `uses`.

    >>> i, n = Symbol("i", 0, 9), Symbol("n")
    >>> condition_c((i < n) * (i + 1 > 3))
    '2 < i && i < n'
    """
    uses = set() if uses is None else uses
    if isinstance(holds, Expr) and len(holds.terms) == 1:
        ((atoms, factor),) = holds.terms
        if factor == 1 and all(isinstance(atom, Negative) for atom in atoms):
            return " && ".join(_less(atom.x, uses) for atom in atoms if isinstance(atom, Negative))
    return index_c(holds, LEAST, uses)


def _less(dim: Dim, uses: set[str]) -> str:
    """Return `dim < 0` with what is subtracted moved to the other side."""
    sides: list[Dim] = [
        sum_of((monomial, sign * factor) for monomial, factor in terms_of(dim) if factor * sign > 0)
        for sign in (1, -1)
    ]
    left, right = (index_c(side, SUM, uses) for side in sides)
    return f"{left} < {right}"

"""Read expressions from the text that `str` writes."""

import ast
import re
from collections.abc import Callable, Mapping
from functools import reduce

from luminal_lab.core.dims.arithmetic import both, either, extremum, floordiv, less, mod, negate
from luminal_lab.core.dims.expression import NAME, Dim, Symbol
from luminal_lab.errors import DimError, ParseError, nearest

Names = Callable[[str], Dim]
MOST_LETTERS = 2_000
"""The most letters of an expression as text."""
WORDS = re.compile(
    rf"""(?:\s|{NAME.pattern}(?!['"])|[0-9]{{1,40}}(?:\.[0-9]*)?(?![\w.])|'[^'\\\n]*'"""
    rf"""|[]<>=*/%(),[~&|^!:+-])*+"""
)
"""The tokens of an expression: Python's parser alone would accept more numbers."""
BINARY: Mapping[type[ast.AST], Callable[[Dim, Dim], Dim]] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.FloorDiv: floordiv,
    ast.Mod: mod,
    ast.Lt: lambda a, b: less(a - b),
    ast.Gt: lambda a, b: less(b - a),
    ast.LtE: lambda a, b: less(a - b - 1),
    ast.GtE: lambda a, b: less(b - a - 1),
    ast.And: both,
    ast.Or: either,
}

POSITION = re.compile(r"i[0-9]+")


def free_name(name: str) -> str:
    """Return the name of a dim, or raise if it names a position in views."""
    if POSITION.fullmatch(name):
        raise DimError(
            f"a dim cannot be called {name!r}: i0, i1, … are the positions in views",
            hint="give it a name that says what it counts",
        )
    return name


def parse_dim(text: str, table: Mapping[str, Symbol], *, declare: bool = False) -> Dim:
    """Read an expression; unknown names are errors, or become plain symbols with `declare`.

    >>> parse_dim("2*p + min(q, 4)", {}, declare=True)
    min(4, q) + 2*p
    """

    def named(name: str) -> Dim:
        if name not in table and not declare:
            raise ParseError(
                f"there is no dim {name!r}", hint=nearest(name, table) or "declare it first"
            )
        return table[name] if name in table else Symbol(free_name(name))

    try:
        if len(text) <= MOST_LETTERS and WORDS.fullmatch(text):
            return _read(ast.parse(text.strip(), mode="eval").body, named)
    except (SyntaxError, RecursionError, MemoryError):
        pass
    raise ParseError(
        f"{text!r} is not a dim", hint='a dim is a number, a name, or arithmetic as in "p + 1"'
    )


def _read(tree: ast.expr, named: Names) -> Dim:
    match tree:
        case ast.Constant(value=int(value)) if not isinstance(value, bool) and not value >> 63:
            return value
        case ast.Name() | ast.Attribute():
            return named(ast.unparse(tree))
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_read(operand, named)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return negate(_read(operand, named))
        case (
            ast.BinOp(left=left, op=op, right=right)
            | ast.Compare(left=left, ops=[op], comparators=[right])
        ) if type(op) in BINARY:
            return BINARY[type(op)](_read(left, named), _read(right, named))
        case ast.BoolOp(op=op, values=values):
            return reduce(BINARY[type(op)], [_read(value, named) for value in values])
        case ast.Call(func=ast.Name(id="min" | "max" as which), args=[_, *_] as args, keywords=[]):
            return extremum(which, [_read(arg, named) for arg in args])
        case _:
            raise ParseError(
                f"{ast.unparse(tree)!r} cannot be used in a dim",
                hint="a dim may use + - * // % min max < <= > >= and or not",
            )

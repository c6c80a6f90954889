"""Symbolic integers: the dims of shapes and the index arithmetic of views.

A `Dim` is an int or an `Expr`. An expression is a polynomial with integer coefficients over atoms
(symbols, floor divisions, remainders, minima, maxima, comparisons) and is kept in one canonical
form, so that `==` decides whether two dims are the same. Comparisons are 0 or 1; "and" is their
product. Every rule used here holds for Python's floor division and modulo for all integers within
the symbols' bounds.

    >>> seq = Symbol("seq", 1, 4096, multiple_of=8)
    >>> (seq * 3 + 8) // 8 * 8, seq % 8, str(seq + 1 - seq), known(seq < 5000)
    (3*seq + 8, 0, '1', True)

expression.py says what an expression is, arithmetic.py keeps it canonical, limits.py knows how
large it can be, values.py puts numbers in, text.py reads it.
"""

from luminal_lab.core.dims.arithmetic import (
    both as both,
    either as either,
    equal as equal,
    maximum as maximum,
    minimum as minimum,
    negate as negate,
)
from luminal_lab.core.dims.expression import (
    Dim as Dim,
    Expr as Expr,
    Shape as Shape,
    Symbol as Symbol,
)
from luminal_lab.core.dims.limits import bounds as bounds, known as known
from luminal_lab.core.dims.text import (
    free_name as free_name,
    parse_dim as parse_dim,
)
from luminal_lab.core.dims.values import (
    check_bounds as check_bounds,
    evaluate as evaluate,
    evaluate_array as evaluate_array,
    evaluate_float as evaluate_float,
    solve as solve,
    substitute as substitute,
    symbols as symbols,
)

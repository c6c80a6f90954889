"""Symbolic integers against plain Python: by enumeration of small ranges, and by random search."""

import copy
import itertools
import operator
import pickle
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from luminal_lab.core.dims import (
    Dim,
    Expr,
    Symbol,
    both,
    bounds,
    check_bounds,
    either,
    equal,
    evaluate,
    evaluate_array,
    evaluate_float,
    known,
    maximum,
    minimum,
    negate,
    parse_dim,
    solve,
    substitute,
    symbols,
)
from luminal_lab.errors import DimError, LabError, ParseError, ShapeError, cut

A = Symbol("a", 0, 5)
B = Symbol("b", 1, 4)
C = Symbol("c", -4, 3)
M = Symbol("m", 4, 12, multiple_of=4)
N = Symbol("n")
I = Symbol("i", 0, B - 1)  # noqa: E741  # the index along an axis of size b
J = Symbol("j", 0, N - 1)
K = Symbol("k", 0, B * N - 1)
ALL = {symbol.name: symbol for symbol in (A, B, C, M, N, I, J, K)}
Env: TypeAlias = dict[str, int]


def values_of(symbol: Symbol, env: Env) -> range:
    """Return the values that a symbol may have beside those of the symbols in its bound."""
    high = 6 if symbol.high is None else evaluate(symbol.high, env)
    first = -(-symbol.low // symbol.multiple_of) * symbol.multiple_of
    return range(first, high + 1, symbol.multiple_of)


def environments(*chosen: Symbol) -> Iterator[Env]:
    """Yield every assignment of small values to symbols, bounds before what they bound."""
    needed: dict[Symbol, None] = {}
    for symbol in chosen:
        if isinstance(symbol.high, Expr):
            needed.update(dict.fromkeys(symbols(symbol.high)))
        needed[symbol] = None

    def extend(env: Env, rest: list[Symbol]) -> Iterator[Env]:
        if not rest:
            yield env
            return
        for value in values_of(rest[0], env):
            yield from extend({**env, rest[0].name: value}, rest[1:])

    yield from extend({}, list(needed))


def holds(build: Callable[..., Any], *chosen: Symbol, meaning: Callable[..., Any] | None = None):
    """Assert that an expression has the right value, within its bounds, wherever it has one."""
    expression = build(*chosen)
    low, high = bounds(expression)
    for env in environments(*chosen):
        want = int((meaning or build)(*(env[symbol.name] for symbol in chosen)))
        assert evaluate(expression, env) == want, (expression, env)
        assert low is None or low <= want, (expression, env)
        assert high is None or want <= high, (expression, env)


def linear(f: int, g: int, n: int) -> Callable[..., Dim]:
    return lambda x, y: f * x + g * y + n


# -- every rule by enumeration ---------------------------------------------------------------------


@pytest.mark.parametrize("d", [1, 2, 3, 4, 6, 8, 12, -1, -3, -4])
def test_division_by_a_number(d: int):
    for f, g, n in itertools.product((-8, 1, 2, 3, 4, 12), (-6, -1, 0, 2), (-9, -1, 0, 7)):
        inner = linear(f, g, n)
        for x, y in ((A, C), (M, A)):
            holds(lambda x, y, of=inner: of(x, y) // d, x, y)
            holds(lambda x, y, of=inner: of(x, y) % d, x, y)


@pytest.mark.parametrize(("d", "e"), [*itertools.product((2, 3, 4, 6), (2, 3, 4, 12))])
def test_division_within_division(d: int, e: int):
    for n in (-5, -1, 0, 1, 2):
        for symbol in (A, C, M):
            holds(lambda x, n=n: (x // d + n) // e, symbol)
            holds(lambda x, n=n: (x // d + n) % e, symbol)
            holds(lambda x, n=n: (x % d + n) // e, symbol)
            holds(lambda x, n=n: (x % d + n) % e, symbol)
            holds(lambda x, n=n: x // d * d + x % d + n, symbol)
            holds(lambda x, n=n: x // d % e * d + x % d - n * (x % (d * e)), symbol)
        holds(lambda x, y, n=n: (x // d + n * y) // e, A, C)


def test_division_by_symbols():
    quotients: list[tuple[Callable[..., Dim], tuple[Symbol, ...]]] = [
        (lambda i, b: (i + 3 * b) // b, (I, B)),
        (lambda i, b: (i + 3 * b) % b, (I, B)),
        (lambda i, b, a: (b * a + i) // b, (I, B, A)),
        (lambda i, b, a: (2 * b * a + 2 * i + 1) // (2 * b), (I, B, A)),
        (lambda i, b, a: (2 * b * a + 2 * i + 1) % (2 * b), (I, B, A)),
        (lambda i, b, a: (b * a + i) // (b * 3), (I, B, A)),
        (lambda i, b, a: (b * a + i) % (b * 3), (I, B, A)),
        (lambda x, b: (x * (b + 1) + b) // (b + 1), (C, B)),
        (lambda x, b: (x * (b + 1) + b) % (b + 1), (C, B)),
        (lambda x, b, n: (x // b) // n, (C, B, N)),
        (lambda x, b, n: (x // b) % n * b + x % b, (C, B, N)),
        (lambda x, b, n: x % (b * n) // b, (C, B, N)),
        (lambda k, b, n: k // b * b + k % b, (K, B, N)),
        (lambda k, b, n: k // (b * n), (K, B, N)),
        (lambda x, b: 7 // b - x % b, (A, B)),
        (lambda i, b: (b - 1 - i) // b, (I, B)),
    ]
    for build, chosen in quotients:
        holds(build, *chosen)


@pytest.mark.parametrize("sign", [1, -1])
def test_a_divisor_of_unknown_sign(sign: int):
    shift = Symbol("c", -4, 4)  # never 0 below
    for build in (lambda x, c: x // c, lambda x, c: x % c, lambda x, c: x // c * c + x % c):
        expression = build(A, shift)
        for a, c in itertools.product(range(6), (1, 2, 4)):
            assert evaluate(expression, {"a": a, "c": sign * c}) == build(a, sign * c)


@pytest.mark.parametrize("compare", [operator.lt, operator.le, operator.gt, operator.ge])
def test_comparisons(compare: Callable[[Dim, Dim], Dim]):
    for f, g, n in itertools.product((-4, -1, 2, 6), (-3, 0, 1), (-7, -1, 0, 3)):
        left = linear(f, g, n)
        holds(lambda x, y, of=left: compare(of(x, y), 2), A, C)
        holds(lambda x, y, of=left: negate(compare(of(x, y), y)), A, C,
              meaning=lambda x, y, of=left: not compare(of(x, y), y))  # fmt: skip


def test_and_or_and_equal():
    holds(lambda x, y: both(x < 3, y < x), A, C, meaning=lambda x, y: x < 3 and y < x)
    holds(lambda x, y: both(x < 3, x < 3), A, C, meaning=lambda x, y: x < 3)
    holds(lambda x, y: either(x < 3, y < x), A, C, meaning=lambda x, y: x < 3 or y < x)
    holds(lambda x, y: negate(either(x < 3, y < x)), A, C, meaning=lambda x, y: x >= 3 and y >= x)
    holds(lambda x, y: equal(2 * x, y), A, C, meaning=lambda x, y: 2 * x == y)


def test_minima_and_maxima():
    for f, g, n in itertools.product((-2, 1, 3), (-1, 2), (-3, 0, 4)):
        one = linear(f, g, n)
        holds(lambda x, y, of=one: minimum(of(x, y), y, 2), A, C,
              meaning=lambda x, y, of=one: min(of(x, y), y, 2))  # fmt: skip
        holds(lambda x, y, of=one: maximum(x, of(x, y), minimum(y, x)) // 2, A, C,
              meaning=lambda x, y, of=one: max(x, of(x, y), min(y, x)) // 2)  # fmt: skip


# -- what is simplified, and how it reads ----------------------------------------------------------

X, Y = Symbol("x", 0), Symbol("y", 0)
SEQ = Symbol("seq", 1, 4096, multiple_of=8)

GOLDEN: list[tuple[Dim, str]] = [
    (1 + N * 3 * B - B, "3*b*n - b + 1"),
    (N - (N + 1), "-1"),
    ((SEQ * 3 + 8) // 8 * 8, "3*seq + 8"),
    (SEQ % 8, "0"),
    ((SEQ + 3) // 8, "seq//8"),
    (SEQ // 16 + SEQ % 16, "seq%16 + seq//16"),
    (SEQ * SEQ // 64, "(seq//8)*(seq//8)"),
    (X // 4 * 4 + X % 4, "x"),
    (X // 4 % 3 * 4 + X % 4, "x%12"),
    (X % 12 // 4, "(x//4)%3"),
    (X % 12 % 4, "x%4"),
    (X // 3 // 4, "x//12"),
    ((X // 6 + 2 * Y) // 4, "(x + 12*y)//24"),
    ((12 * X + Y % 4) // 4, "3*x"),
    ((B * X + I) // B, "x"),
    ((B * X + I) % B, "i"),
    ((B * X + I) // (3 * B), "x//3"),
    ((X * (B + 1) + I) // (B + 1), "x"),
    (-(X // 4) - X % 3, "-(x%3) - x//4"),
    (3 - X, "3 - x"),
    (X - Y // 4, "x - y//4"),
    (X < 5, "x < 5"),
    (X >= 2, "1 < x"),
    (SEQ * 3 < 50, "seq < 24"),
    (X * 3 < 10 + Y * 6, "x < 2*y + 4"),
    (both(X < 5, Y < X), "x < 5 and y < x"),
    (either(X < 5, Y < 3), "(x < 5) - (x < 5)*(y < 3) + (y < 3)"),
    (minimum(X, 4, maximum(Y, 2)), "min(4, max(2, y), x)"),
    (minimum(X, X + 1, Y), "min(x, y)"),
    (maximum(M, 3), "m"),
    (I < B, "1"),
    (I * N + J < B * N, "1"),
]


@pytest.mark.parametrize(("dim", "text"), GOLDEN, ids=[text for _, text in GOLDEN])
def test_text(dim: Dim, text: str):
    assert str(dim) == text
    table = {**ALL, "x": X, "y": Y, "seq": SEQ}
    assert parse_dim(text, table) == dim


def test_what_is_known():
    assert known(SEQ < 5000) is True
    assert known(SEQ < 8) is False
    assert known(SEQ < 9) is None
    assert bounds(SEQ) == (8, 4096)
    assert bounds(X) == (0, None)
    assert bounds(X % 12 * 3 + 1) == (1, 34)
    assert bounds(Y % B) == (0, 3)
    assert bounds(minimum(X, 7) - maximum(Y, 2)) == (None, 5)
    assert bounds(12) == (12, 12)


def test_symbols_of_one_name_differ_by_their_bounds():
    assert Symbol("n") == N
    assert Symbol("n", 1, 9) != N
    assert len({Symbol("n"), N, Symbol("n", 1, 9), Symbol("n", 1, 9, 2)}) == 3


def test_expressions_are_values():
    dim = (N * 3 + SEQ) // 4 % B + minimum(N, B) * (N < B)
    assert copy.deepcopy(dim) == dim
    assert pickle.loads(pickle.dumps(dim)) == dim
    assert hash(pickle.loads(pickle.dumps(SEQ))) == hash(SEQ)
    assert symbols(dim) == (B, N, SEQ)
    assert symbols(4) == ()


def test_numbers_of_numpy_and_python_mix_with_expressions():
    three: Any = np.int64(3)
    assert N + three == three + N == N + 3
    assert str(N + True) == "n + 1"
    assert str(7 // B) == "7//b"
    assert str(7 % B) == "7%b"
    operations: list[Any] = [operator.add, operator.sub, operator.mul, operator.mod, operator.lt]
    for operation in operations:
        with pytest.raises(TypeError):
            operation(N, 1.5)
        with pytest.raises(TypeError):
            operation("1", N)


def test_values():
    dim = 2 * N * B + SEQ // 8
    assert substitute(dim, {"n": X + 1, "seq": 16}) == 2 * B * X + 2 * B + 2
    assert substitute(3 * SEQ, {"seq": X}) == 3 * X
    assert evaluate(dim, {"n": 3, "b": 2, "seq": 24}) == 15
    got = evaluate_array(dim, {"n": np.arange(3), "b": 2, "seq": 8})
    assert got.dtype == np.int64
    assert got.tolist() == [1, 5, 9]
    assert evaluate_float(N * N + X // 2, {"n": 1.5, "x": 5.5}) == 4.25
    assert evaluate_float(SEQ * 2, {"seq": 12.5}) == 25.0


def test_solving():
    assert solve(2 * N + 1, 7, {}) == {"n": 3}
    assert solve(2 * N + 1, 8, {}) is None
    assert solve(N * B - B, 6, {"b": 2}) == {"n": 4}
    assert solve(N * B, 6, {}) is None
    assert solve(N * N, 9, {}) is None
    assert solve(SEQ - 1, 15, {}) == {"seq": 16}
    assert solve(B, 3, {"b": 3}) is None


# -- random expressions ----------------------------------------------------------------------------

Tree: TypeAlias = "Symbol | int | tuple[str, Tree, Tree]"
NUMBERS = (1, 2, 3, 4, 6, 8, 12, -1, -2, -5)
TREES = st.recursive(
    st.sampled_from([*ALL.values()]) | st.sampled_from(NUMBERS),
    lambda trees: st.one_of(
        st.tuples(
            st.sampled_from(["+", "+", "-", "*", "//", "%", "min", "max", "<"]), trees, trees
        ),
        st.tuples(st.sampled_from(["//", "%"]), trees, st.sampled_from([1, 2, 3, 4, 6, 12, B, N])),
    ),
    max_leaves=8,
)
OPERATIONS: dict[str, Any] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "//": operator.floordiv,
    "%": operator.mod,
    "<": operator.lt,
    "min": minimum,
    "max": maximum,
}
PLAIN = {**OPERATIONS, "min": min, "max": max}


def build(tree: Tree) -> Dim:
    if isinstance(tree, tuple):
        name, left, right = tree
        value = OPERATIONS[name](build(left), build(right))
        return int(value) if isinstance(value, bool) else value
    return tree


def meaning(tree: Tree, env: Env) -> int:
    if isinstance(tree, tuple):
        name, left, right = tree
        return int(PLAIN[name](meaning(left, env), meaning(right, env)))
    return env[tree.name] if isinstance(tree, Symbol) else tree


def draw_environment(data: st.DataObject) -> Env:
    env: Env = {}
    for name, symbol in ALL.items():
        env[name] = data.draw(st.sampled_from([*values_of(symbol, env)]), label=name)
    return env


@settings(max_examples=200)
@given(TREES, st.data())
def test_random_expressions(tree: Tree, data: st.DataObject):
    try:
        dim = build(tree)
    except (ShapeError, ZeroDivisionError):
        return
    assert parse_dim(str(dim), ALL) == dim
    low, high = bounds(dim)
    for _ in range(3):
        env = draw_environment(data)
        try:
            want = meaning(tree, env)
        except ZeroDivisionError:
            continue
        assert evaluate(dim, env) == want
        assert low is None or low <= want
        assert high is None or want <= high
        arrays: dict[str, Any] = {name: np.array([value] * 2) for name, value in env.items()}
        assert set(np.ravel(evaluate_array(dim, arrays)).tolist()) == {want}
        known_symbols = [name for name in env if name != "n"]
        found = solve(dim, want, {name: env[name] for name in known_symbols})
        assert found is None or evaluate(dim, {**env, **found}) == want


def test_what_is_kept_of_a_substitution_is_only_for_dims():
    n = Symbol("n")
    no_dims: Any = {"n": 4.0}
    taken: Any = substitute(2 * n + 1, no_dims)
    assert isinstance(taken, float)
    assert isinstance(substitute(2 * n + 1, {"n": 4}), int)
    assert substitute(2 * n + 1, {"n": 4}) == taken == 9


@settings(max_examples=200)
@given(TREES, st.sampled_from([*ALL.values()]), TREES, st.data())
def test_random_substitutions(tree: Tree, symbol: Symbol, other: Tree, data: st.DataObject):
    env = draw_environment(data)
    try:
        outer, inner = build(tree), build(other)
        value = meaning(other, env)
        if value not in values_of(symbol, env) or symbol in (B, N):
            return  # it must be within its bounds, and be no bound of others
        want = meaning(tree, {**env, symbol.name: value})
    except (ShapeError, ZeroDivisionError):
        return
    assert evaluate(substitute(outer, {symbol.name: inner}), env) == want


PRODUCTS = st.tuples(st.sampled_from(NUMBERS), st.lists(st.sampled_from([A, B, N, M]), max_size=3))


@settings(max_examples=100)
@given(st.lists(PRODUCTS, min_size=1, max_size=6), st.randoms(use_true_random=False))
def test_polynomials_have_one_form(terms: list[tuple[int, list[Symbol]]], random):
    def total(order: list[tuple[int, list[Symbol]]]) -> Dim:
        result: Dim = 0
        for factor, parts in order:
            term: Dim = factor
            for symbol in random.sample(parts, len(parts)):
                term = symbol * term
            result = term + result
        return result

    one, two = total(terms), total(random.sample(terms, len(terms)))
    assert one == two
    assert hash(one) == hash(two)
    assert str(one) == str(two)
    assert one - two == 0
    assert (one + N) * (two - N) == one * one - N * N


# -- errors ----------------------------------------------------------------------------------------

BY_ZERO = "a dim is divided by 0\nhint: where a size may be 0, divide by max(size, 1)"


def fails(error: type[LabError], text: str, call: Callable[..., object], *args: object):
    with pytest.raises(error) as caught:
        call(*args)
    assert type(caught.value) is error
    assert str(caught.value) == cut(text)


def test_errors_of_symbols():
    name_hint = (
        "\nhint: a name is letters, digits and '_', is not a word of Python, and starts with a "
        "letter or '_'"
    )
    for name in ("", "2n", "for", "a-b", "min", "x.if", "é"):
        fails(ShapeError, f"{name!r} cannot be the name of a dim{name_hint}", Symbol, name)
    fails(
        DimError,
        "dim 'n': the bounds are 5 and 3, which leaves no value\nhint: the lower bound comes "
        "first",
        Symbol, "n", 5, 3,
    )  # fmt: skip
    fails(DimError, "dim 'n': multiple_of is 0, and must be at least 1", Symbol, "n", 1, 9, 0)


def test_errors_of_values():
    fails(
        DimError,
        "dim 'n' is not bound, and b*n + 1 needs it\n"
        "hint: set_dim(\"n\", …) binds it, and so does data of an input that has it",
        evaluate, B * N + 1, {"b": 2},
    )  # fmt: skip
    fails(
        DimError,
        "dim 'b': 9 is out of its bounds, which are 1 to 4\n"
        "hint: use other data, or declare it before anything else: cx.dim(\"b\", low, high)",
        check_bounds, B, 9,
    )  # fmt: skip
    fails(
        DimError,
        "dim 'n': 0 is out of its bounds, which are at least 1\n"
        "hint: use other data, or declare it before anything else: cx.dim(\"n\", low, high)",
        check_bounds, N, 0,
    )  # fmt: skip
    fails(
        DimError,
        "dim 'seq': 13 is not a multiple of 8, as it is declared to be\nhint: pad the data to 16",
        check_bounds, SEQ, 13,
    )  # fmt: skip
    check_bounds(SEQ, 16)
    for divide in (lambda: N // 0, lambda: N % 0, lambda: evaluate(N // (B - 2), {"n": 3, "b": 2})):
        fails(ShapeError, BY_ZERO, divide)


def test_errors_of_conditions():
    text = (
        "n < 4: whether this holds is not known before the dims are bound\n"
        "hint: declare bounds with dim(name, low, high), or compare in the graph"
    )
    fails(ShapeError, text, bool, N < 4)


def test_reading():
    def read(text: str) -> str:
        return str(parse_dim(text, ALL))

    assert read(" 2*b + 3 ") == "2*b + 3"
    assert read("not a < 3") == "2 < a"
    assert read("a >= 2 and b <= 3") == "1 < a and b < 4"
    assert read("a < 1 or b < 2 or c < 0").count("<") == 12
    assert read("-7 // 2") == "-4"
    assert read("3 < 5") == "1"
    assert read("min(a, 9)") == "a"
    assert str(parse_dim("vit.n + q", {}, declare=True)) == "q + vit.n"


def test_errors_of_reading():
    def read(text: str, declare: bool = False) -> Dim:
        return parse_dim(text, {"batch": N}, declare=declare)

    for text in ("", "a +", "1 2", "a\0", "(" * 400, "-" * 5000 + "a", "1+" * 6000 + "1"):
        fails(
            ParseError,
            f"{text!r} is not a dim\n"
            'hint: a dim is a number, a name, or arithmetic as in "p + 1"',
            read, text, True,
        )  # fmt: skip
    grammar = "\nhint: a dim may use + - * // % min max < <= > >= and or not"
    for text in ("a / 2", "a ** 2", "1.5", "True", "'a'", "f(a)", "min()", "a < b < 4", "a == 3",
                 "min(a, key=b)", "[a]", "a if b else 3", "~a"):  # fmt: skip
        fails(ParseError, f"{text!r} cannot be used in a dim{grammar}", read, text, True)
    fails(ParseError, "there is no dim 'bach'\nhint: did you mean 'batch'?", read, "bach + 1")
    fails(ParseError, "there is no dim 'q'\nhint: declare it first", read, "q")
    fails(ShapeError, BY_ZERO, read, "batch // 0")

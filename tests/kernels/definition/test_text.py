"""The text of definitions: what it can say, that it reads back, and what is said of wrong ones."""

import pytest

from luminal_lab.core.dims import Symbol
from luminal_lab.core.dtypes import DType
from luminal_lab.core.op import TensorType
from luminal_lab.core.ops import Add, Cast, LessThan, Mod, Mul, Sin, Where
from luminal_lab.errors import ParseError
from luminal_lab.kernels.definition.definition import Buffer, Definition, Output
from luminal_lab.kernels.definition.terms import (
    Apply,
    Count,
    Draw,
    Fold,
    Guarded,
    Lookup,
    Number,
    Read,
    Term,
    axis_of,
    product,
)
from luminal_lab.kernels.definition.text import parse_definition
from tests.expect import error_of

F32, I64 = DType.float32, DType.int64
N = Symbol("n", 1, 64)
AT_I, AT_J, AT_K = axis_of("i", N), axis_of("j", 4), axis_of("k", 8)
X, ONE = Read("x", (AT_I, AT_J), F32), Number(1.0, F32)


def made(term: Term) -> Definition:
    """A definition whose only element is a term over two axes."""
    x, ids = TensorType(F32, (N, 4)), TensorType(I64, (N,))
    inputs = Buffer("x", x), Buffer("ids", ids), Buffer("c", TensorType(F32, ()))
    output = Output("y", TensorType(term.dtype, (N, 4)), (AT_I, AT_J), term)
    return Definition("f", inputs, (output,))


def plus(a: Term, b: Term) -> Term:
    return Apply(Add(), (a, b), a.dtype)


def times(a: Term, b: Term) -> Term:
    return Apply(Mul(), (a, b), a.dtype)


TERMS = [
    (X, "x[i, j]"),
    (Read("c", (), F32), "c[]"),
    (plus(plus(X, ONE), X), "x[i, j] + 1.0 + x[i, j]"),
    (plus(X, plus(ONE, X)), "x[i, j] + (1.0 + x[i, j])"),
    (times(plus(X, ONE), X), "(x[i, j] + 1.0) * x[i, j]"),
    (plus(times(X, ONE), X), "x[i, j] * 1.0 + x[i, j]"),
    (Apply(Mod(), (X, times(X, ONE)), F32), "x[i, j] % (x[i, j] * 1.0)"),
    (Apply(LessThan(), (plus(X, ONE), X), DType.bool_), "x[i, j] + 1.0 < x[i, j]"),
    # a - b is a + b * -1, and a - 2 is a + -2
    (plus(X, times(X, Number(-1, F32))), "x[i, j] - x[i, j]"),
    (plus(X, plus(X, times(X, Number(-1, F32)))), "x[i, j] + (x[i, j] - x[i, j])"),
    (plus(X, times(plus(X, ONE), Number(-1, F32))), "x[i, j] - (x[i, j] + 1.0)"),
    (plus(X, Number(-2.5, F32)), "x[i, j] - 2.5"),
    (plus(X, Number(-0.0, F32)), "x[i, j] - 0.0"),
    (plus(X, times(ONE, Number(-1, F32))), "x[i, j] + 1.0 * -1.0"),
    (times(X, Number(-1, F32)), "x[i, j] * -1.0"),
    (plus(Number(-1, I64), Number(-(2**63), I64)), "-1 + -9223372036854775808"),
    # numbers, of every dtype
    (Number(0.1, F32), "0.1"),
    (Number(0.1, DType.float64), "0.1_f64"),
    (Number(0.1, DType.float16), "0.1_f16"),
    (Number(0.1, DType.bfloat16), "0.100097656_bf16"),
    (Number(3, DType.uint8), "3_u8"),
    (Number(True, DType.bool_), "true"),
    (Number(1e-45, F32), "1e-45"),
    (Number(float("-inf"), F32), "-inf"),
    (Number(float("inf"), DType.float16), "inf_f16"),
    (Number(float("nan"), F32), "nan"),
    (Number(float("nan"), DType.float64), "nan_f64"),
    # indices as values, casts, random numbers
    (Count(AT_I * 2 + AT_J, F32), "f32[2*i + j]"),
    (Count(N, I64), "i64[n]"),
    (Apply(Cast(DType.float16), (X,), DType.float16), "f16(x[i, j])"),
    (Draw(2**64 - 1, 3, AT_I * 4 + AT_J), "random{18446744073709551615, 3}[4*i + j]"),
    # conditions and lookups
    (Guarded(AT_I > 0, Read("x", (AT_I - 1, AT_J), F32)), "[0 < i: x[i - 1, j]]"),
    (
        Lookup("x", (0, AT_J), 0, Read("ids", (AT_I,), I64), N, F32),
        "x[ids[i], j]",
    ),
    (Lookup("x", (0, AT_J), 0, Number(7, I64), N, F32), "x[at 7, j]"),
    (
        Lookup("x", (AT_I, 0), 1, plus(Read("ids", (AT_I,), I64), Number(1, I64)), 4, F32),
        "x[i, ids[i] + 1]",
    ),
    # folds
    (Fold("max", AT_K, 8, times(X, Count(AT_K, F32)), F32), "max k < 8: x[i, j] * f32[k]"),
    (plus(Fold("sum", AT_K, 8, X, F32), ONE), "(sum k < 8: x[i, j]) + 1.0"),
    (
        Apply(Sin(), (Fold("sum", axis_of("k", N), N, X, F32),), F32),
        "sin(sum k < n: x[i, j])",
    ),
    (
        Apply(Where(), (Apply(LessThan(), (X, ONE), DType.bool_), X, ONE), F32),
        "where(x[i, j] < 1.0, x[i, j], 1.0)",
    ),
    # what comes twice has a name
    (
        times(plus(X, times(ONE, X)), plus(X, times(ONE, X))),
        "\n    let a = x[i, j] + 1.0 * x[i, j];\n    a * a",
    ),
    (
        Fold("sum", AT_K, 8, times(plus(X, times(ONE, Count(AT_K, F32))), Number(2, F32)), F32),
        "sum k < 8: (x[i, j] + 1.0 * f32[k]) * 2.0",
    ),
    (
        Fold("sum", AT_K, 8, times(*[plus(X, times(ONE, Count(AT_K, F32)))] * 2), F32),
        "sum k < 8: let a = x[i, j] + 1.0 * f32[k]; a * a",
    ),
    # products that are not rounded before they are added
    (
        Fold("sum", AT_K, 8, product(plus(X, ONE), Count(AT_K, F32), fused=True), F32),
        "sum k < 8: fused((x[i, j] + 1.0) * f32[k])",
    ),
    (plus(X, product(times(X, ONE), X, fused=True)), "x[i, j] + fused(x[i, j] * 1.0 * x[i, j])"),
    (plus(X, product(X, Number(-1, F32), fused=True)), "x[i, j] + fused(x[i, j] * -1.0)"),
]


@pytest.mark.parametrize(("term", "text"), TERMS, ids=[text for _, text in TERMS])
def test_a_term_is_written_and_read_back(term: Term, text: str) -> None:
    definition = made(term)
    space = "" if text.startswith("\n") else " "
    assert str(definition).partition("\n")[2] == f"  y[i < n, j < 4] ={space}{text}"
    assert parse_definition(str(definition)) == definition


def test_what_is_free_in_the_text() -> None:
    loose = """
      # spaces, lines and comments; redundant parentheses; the order of the lines
      kernel f [ n : 2 .. 8 ] ( x : f32[n, 4] )
          -> ( y : f32[n] )
      s[i<n,k<4]=(x[ i,k ])*2.0   # twice
      y[i < n] =
          sum j < 4 : ( s[i, j] )
    """
    assert str(parse_definition(loose)).splitlines() == [
        "kernel f[n: 2..8](x: f32[n, 4]) -> (y: f32[n])",
        "  s[i < n, k < 4] = x[i, k] * 2.0",
        "  y[i < n] = sum j < 4: s[i, j]",
    ]


def test_a_dim_that_only_a_term_mentions_is_declared() -> None:
    text = "kernel f[n: 1..]() -> (y: i64[])\n  y[] = sum i < n: i64[i]"
    assert str(parse_definition(text)) == text


def test_a_long_header_is_broken() -> None:
    inputs = ", ".join(f"x{k}: f32[4, 4]" for k in range(9))
    definition = parse_definition(f"kernel f({inputs}) -> (y: f32[])  y[] = x0[1, 2]")
    assert str(definition).splitlines()[:2] == ["kernel f(", "    x0: f32[4, 4],"]
    assert parse_definition(str(definition)) == definition


HEAD = "kernel f(x: f32[n, 4], b: bool[4], ids: i64[n]) -> (y: f32[n])\n"
WRONG = {
    "x[i, 0] + z[i]": """\
line 2, column 24: there is no buffer 'z' before this line
    y[i < n] = x[i, 0] + z[i]
                         ^""",
    "x[i]": """\
line 2, column 14: x is f32[n, 4], so that it is read at 2 places, and not at 1
    y[i < n] = x[i]
               ^""",
    "x[i, q]": """\
line 2, column 19: there is no dim 'q'
    y[i < n] = x[i, q]
                    ^
hint: declare it first""",
    "x[i, 0] + 1": """\
line 2, column 22: add: the dtypes differ: float32 and int64
    y[i < n] = x[i, 0] + 1
                       ^
hint: convert one of them with cast""",
    "ids[i]": """\
line 2, column 14: y is f32[n], but its line makes i64[n]
    y[i < n] = ids[i]
               ^""",
    "sine(x[i, 0])": """\
line 2, column 14: there is no elementwise op 'sine'
    y[i < n] = sine(x[i, 0])
               ^^^^
hint: did you mean 'sin'?""",
    "x(i, 0)": """\
line 2, column 14: there is no elementwise op 'x'
    y[i < n] = x(i, 0)
               ^
hint: an element is x[…]""",
    "sum i < 4: x[i, 0]": """\
line 2, column 18: 'i' is the name of an axis already
    y[i < n] = sum i < 4: x[i, 0]
                   ^""",
    "sum n < 4: x[i, n]": """\
line 2, column 18: 'n' is the name of a dim already
    y[i < n] = sum n < 4: x[i, n]
                   ^""",
    "sum k < i: x[i, k]": """\
line 2, column 22: there is no dim 'i'
    y[i < n] = sum k < i: x[i, k]
                       ^
hint: declare it first""",
    "sum k < 4 x[i, k]": """\
line 2, column 22: '4 x[i, k]' is not a dim
    y[i < n] = sum k < 4 x[i, k]
                       ^^^^^^^^^
hint: a dim is a number, a name, or arithmetic as in "p + 1\"""",
    "sum k < 4: b[k]": """\
line 2, column 14: sum_reduce: needs numbers, but the source is bool
    y[i < n] = sum k < 4: b[k]
               ^^^
hint: convert it first, as in x.cast("int64")""",
    "x[ids[i], ids[i]]": """\
line 2, column 24: a lookup has one place that is a value
    y[i < n] = x[ids[i], ids[i]]
                         ^""",
    "x[x[i, 0], 0]": """\
line 2, column 16: a place is a whole number, and not a float32
    y[i < n] = x[x[i, 0], 0]
                 ^""",
    "f32[i, i]": """\
line 2, column 14: f32[…] holds one index, and not 2
    y[i < n] = f32[i, i]
               ^^^""",
    "f32[ids[i]]": """\
line 2, column 14: f32[…] holds an index, and not a term
    y[i < n] = f32[ids[i]]
               ^^^
hint: f32(…) converts a term""",
    "300_u8": """\
line 2, column 14: constant: 300 is not a value of uint8
    y[i < n] = 300_u8
               ^^^^^^""",
    "(x[i, 0]": """\
line 2, column 22: ')' or an operator should be here, but the text ends
    y[i < n] = (x[i, 0]
                       ^""",
    "[0 < i x[i, 0]]": """\
line 2, column 15: '0 < i x[i, 0]]' is not a dim
    y[i < n] = [0 < i x[i, 0]]
                ^^^^^^^^^^^^^^
hint: a dim is a number, a name, or arithmetic as in "p + 1\"""",
    "x[i, 0] x[i, 1]": """\
line 2, column 22: 'x' is there already
    y[i < n] = x[i, 0] x[i, 1]
                       ^""",
    "fused(x[i, 0] + 1.0)": """\
line 2, column 14: fused(x[i, 0] + 1.0) is not a product
    y[i < n] = fused(x[i, 0] + 1.0)
               ^^^^^
hint: as in sum k < 8: fused(a[k] * b[k])""",
    "let a = x[i, 0] a": """\
line 2, column 30: ';' and the term that the name stands in should be here
    y[i < n] = let a = x[i, 0] a
                               ^""",
    "": """\
line 2, column 14: a term should be here, but the text ends
    y[i < n] =\x20
               ^""",
}


@pytest.mark.parametrize("term", WRONG)
def test_what_is_said_of_a_wrong_term(term: str) -> None:
    error = error_of(lambda: parse_definition(f"{HEAD}  y[i < n] = {term}"), ParseError)
    assert str(error) == WRONG[term]


WRONG_TEXTS = {
    "graph f() -> ()": "line 1, column 1: a line such as: kernel name(x: f32[2]) -> (y: f32[2])"
    " should be here",
    "kernel f(x: f33[2]) -> (y: f32[2])": "line 1, column 13: there is no dtype 'f33'",
    "kernel f(x: f32[2], x: f32[2]) -> (y: f32[2])": "line 1, column 21: the buffer 'x' is listed "
    "twice",
    "kernel f[n: 4..2](x: f32[n]) -> (y: f32[n])": "line 1, column 10: dim 'n': the bounds are 4 "
    "and 2, which leaves no value",
    "kernel f[n](x: f32[n]) -> (y: f32[n])": "line 1, column 10: 'n' is not a dim with bounds",
    "kernel f() -> (y: f32[2])": "line 1, column 16: the output 'y' has no line",
    "kernel f() -> (y: f32[2]) y[i < 3] = 1.0": "line 1, column 27: y is f32[2], but its line "
    "makes f32[3]",
    "kernel f() -> (y: f32[2]) y[i < 2] = 1.0 y[i < 2] = 1.0": "line 1, column 42: 'y' is there "
    "already",
    "kernel f() -> (y: f32[2]) y[i < 2] = " + "(" * 101: "line 1, column 138: terms are nested "
    "more than 100 deep",
}  # fmt: skip


@pytest.mark.parametrize("text", WRONG_TEXTS, ids=lambda text: text[:40])
def test_what_is_said_of_a_wrong_text(text: str) -> None:
    assert error_of(lambda: parse_definition(text), ParseError).message == WRONG_TEXTS[text]


def test_something_else_is_no_text() -> None:
    wrong: object = 4
    error = error_of(lambda: parse_definition(wrong))  # pyright: ignore[reportArgumentType]
    assert str(error) == (
        "parse_definition: needs a text, and not a int\nhint: str(definition) writes one"
    )

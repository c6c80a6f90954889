"""Texts of graphs that are small and ask for much: each is refused, or read in linear time."""

import warnings
from collections.abc import Callable
from functools import reduce
from itertools import count

import pytest

import luminal_lab as ll
from luminal_lab.core import parse as parsing
from luminal_lab.core.dims import Symbol, maximum, minimum, parse_dim
from luminal_lab.core.dims.arithmetic import MOST_ARGUMENTS, MOST_PARTS
from luminal_lab.core.dims.expression import DEEPEST
from luminal_lab.core.dims.text import MOST_LETTERS
from luminal_lab.errors import LabError, ParseError, ShapeError
from luminal_lab.passes.compile import compile_ir
from tests.counting import Counted, steps


def inputs(n: int) -> str:
    return f"graph g({', '.join(f'%x{k}: f32[2]' for k in range(n))}) -> (%x0) {{\n}}"


def lines(n: int) -> str:
    rows = "".join(f"  %y{k + 1} = add %y{k}, %y0 : f32[2]\n" for k in range(n))
    return f"graph g(%y0: f32[2]) -> (%y{n}) {{\n{rows}}}"


def outputs(n: int) -> str:
    rows = "".join(f"  %y{k} = sin %x : f32[2]\n" for k in range(n))
    return f"graph g(%x: f32[2]) -> ({', '.join(f'%y{k}' for k in range(n))}) {{\n{rows}}}"


def carries(n: int) -> str:
    rows = "".join(f"  %y{k} = sin %x{k} : f32[2]\n" for k in range(n))
    given = ", ".join(f"%x{k}: f32[2]" for k in range(n))
    return f"graph g({given}) -> ({', '.join(f'%y{k} => %x{k}' for k in range(n))}) {{\n{rows}}}"


def graphs(n: int) -> str:
    calls = "".join(f"  %y{k} = call{{body = b{k}}} %x : f32[2]\n" for k in range(n))
    bodies = "".join(
        f"graph b{k}(%a: f32[2]) -> (%b) {{\n  %b = sin %a : f32[2]\n}}\n" for k in range(n)
    )
    return f"graph g(%x: f32[2]) -> (%y0) {{\n{calls}}}\n{bodies}"


def dims(n: int) -> str:
    header = ", ".join(f"n{k}: 1..{k + 2}" for k in range(n))
    given = ", ".join(f"%x{k}: f32[n{k} + {k}]" for k in range(n))
    return f"graph g[{header}]({given}) -> (%x0) {{\n}}"


def doubled(levels: int) -> str:
    """Return some graphs, each of which calls the next one twice."""
    body = (
        (
            "graph g{0}(%x: f32[2]) -> (%z) {{\n  %y = call{{{{body = g{1}}}}} %x : f32[2]\n"
            "  %z = call{{{{body  = g{1}}}}} %y : f32[2]\n}}\n"
        )
        .replace("{{{{", "{{")
        .replace("}}}}", "}}")
    )
    last = f"graph g{levels}(%x: f32[2]) -> (%y) {{\n  %y = sin %x : f32[2]\n}}"
    return "".join(body.format(k, k + 1) for k in range(levels)) + last


def one_dim(text: str) -> str:
    return f"graph g(%x: f32[{text}]) -> (%x) {{\n}}"


# -- linear ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", [inputs, lines, outputs, carries, graphs, dims])
def test_a_text_is_read_in_linear_time(text: Callable[[int], str]):
    ll.parse(text(20))  # what is worked out once
    small, large = (steps(lambda n=n: ll.parse(text(n))) for n in (150, 300))
    assert large < 2.3 * small


@pytest.mark.parametrize("text", [inputs, lines, outputs, carries])
def test_nothing_is_searched_for_in_a_list(text: Callable[[int], str], monkeypatch):
    monkeypatch.setattr(parsing, "count", lambda: map(Counted, count()))
    found = []
    for n in (150, 300):
        Counted.compared = 0
        ll.parse(text(n))
        found.append(Counted.compared)
    assert found[1] < 2.3 * found[0] + 100


def test_bodies_that_double_are_compared_once():
    text = doubled(40)  # without sharing these are 2**40 bodies
    assert ll.parse(text) == ll.parse(text)
    assert ll.parse(text) != ll.parse(text.replace("sin", "sqrt"))
    with pytest.raises(ll.PassError, match=r"inline: g0 would have [\d,]+ nodes, and may have"):
        compile_ir(ll.parse(text), "inline")


# -- dims ------------------------------------------------------------------------------------------

SUMS = "*".join(f"(a{k} + b{k})" for k in range(16))
LARGE = {
    "a product of sums": (SUMS, "a dim has more than 256 parts"),
    "a sum of products": ("+".join(f"{k}*n{k}*m" for k in range(100)), "256 parts"),
    "a power": ("*".join(["n"] * 49), None),
    "either of many": (" or ".join(f"a{k} < {k}" for k in range(20)), "256 parts"),
    "the least of many": (f"min({', '.join(f'a{k}' for k in range(17))})", "a min of more than 16"),
    "divisions": ("(" * 100 + "n" + "//2 + 1)%7" * 100, "256 parts"),
    "minima": (
        "".join(f"min(a{k}, max(b{k}, " for k in range(20)) + "n" + "))" * 20,
        "more than 32 nested divisions",
    ),
    "signs": ("-" * 1900 + "n", "is not a dim"),
    "words": ("not " * 400 + "n", None),
    "brackets": ("(" * 190 + "n" + ")" * 190, None),
    "numbers": ("9223372036854775807*" * 9 + "n", "or huge ones"),
    "a number": ("n//" + "9" * 30, "cannot be used in a dim"),
    "letters": ("n + " * 600 + "n", "is not a dim"),
}  # fmt: skip


@pytest.mark.parametrize(("text", "said"), LARGE.values(), ids=LARGE.keys())
def test_a_dim_that_would_be_large_is_refused_at_its_place(text: str, said: str | None):
    found: list[str] = []

    def read() -> None:
        try:
            found.append(str(ll.parse(one_dim(text))))
        except ParseError as error:
            found.append(str(error))

    count = steps(read)
    assert count < 1_000 * (len(text) + 100)
    assert ("line 1, column" in found[0]) == (said is not None)
    assert (said or "") in found[0]


def test_a_dim_of_the_users_own_has_the_same_limits_and_one_hint():
    sizes = [Symbol(f"a{k}") + Symbol(f"b{k}") for k in range(16)]
    with pytest.raises(ShapeError) as caught:
        reduce(lambda a, b: a * b, sizes)
    assert str(caught.value) == (
        f"a dim has more than {MOST_PARTS} parts, or huge ones\n"
        "hint: give a part of it a name of its own, or a number"
    )
    with pytest.raises(ShapeError, match=f"more than {DEEPEST} nested divisions"):
        reduce(
            lambda deep, k: (minimum, maximum)[k % 2](Symbol(f"n{k}"), deep), range(40), Symbol("n")
        )
    assert (MOST_ARGUMENTS, MOST_LETTERS) == (16, 2_000)


ODD = "1if 0x_ 0x1f 0b1 0o7 1_000 1e5and 1or 2in 1j 1.5e 00x 1__0 1.e5 ١٢ ² 1_ 0_0 1_if f'{1if}'"


@pytest.mark.parametrize("text", ODD.split())
def test_an_odd_number_is_no_dim_and_python_does_not_comment_on_it(text: str):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for read in (lambda: parse_dim(text, {}, declare=True), lambda: ll.parse(one_dim(text))):
            with pytest.raises(LabError):
                read()
    assert not caught


def test_a_name_that_nobody_could_type_is_not_compared_with_all_others():
    text = f"graph g(%{'xy' * 30_000}: f32[2]) -> (%{'yx' * 30_000}) {{\n}}"
    with pytest.raises(ParseError, match="is not defined in this graph") as caught:
        ll.parse(text)
    assert caught.value.hint is None

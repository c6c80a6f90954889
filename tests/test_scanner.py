"""The scanner of all texts: tokens, lists, and errors that show their place."""

import pytest

from luminal_lab.errors import ParseError, ShapeError
from luminal_lab.scanner import Piece, Scanner
from tests.expect import error_of


def test_tokens_are_taken_with_what_stands_behind_them():
    scanner = Scanner("  split i  # a loop\n by 128, 8")
    assert scanner.take("[a-z]+", "a step") == Piece(2, "split")
    assert scanner.maybe("[0-9]+") is None
    assert scanner.take("[a-z]+", "a loop").text == "i"
    assert scanner.accept("by")
    assert not scanner.accept("as")
    assert scanner.take("[0-9]+", "a size").text == "128"
    assert scanner.is_at((",", ";"))
    assert scanner.accept(",")
    match = scanner.take_if("([0-9])")
    assert match is not None
    assert match[1] == "8"
    assert scanner.here == Piece(len(scanner.text), "")


def test_lists_end_with_their_mark_and_may_have_a_comma_before_it():
    for text in ("(a, b)", "(a, b,)"):
        scanner = Scanner(text)
        scanner.take(r"\(", "'('")
        assert [scanner.take("[a-z]", "a name").text for _ in scanner.until(")")] == ["a", "b"]
    scanner = Scanner("a b)")
    with pytest.raises(ParseError, match=r"line 1, column 3: ',' or '\)' should be here"):
        [scanner.take("[a-z]", "a name") for _ in scanner.until(")")]


def test_pieces_are_cut_at_commas_outside_of_brackets_and_quotes():
    piece = Piece(10, '[a, (b, "],"), c[1, 2] ]')
    assert piece.part(1, -1).split() == [
        Piece(11, "a"),
        Piece(14, '(b, "],")'),
        Piece(25, "c[1, 2]"),
    ]


def test_an_error_shows_its_place():
    scanner = Scanner("one\n\ttwo three")
    piece = Piece(9, "three")
    error = error_of(lambda: scanner.fail(piece, "not three", "four"), ParseError)
    assert (error.message, error.hint) == ("line 2, column 6: not three", "four")
    assert error.where == "\ttwo three\n\t    ^^^^^"
    error = error_of(lambda: Scanner("one ").fail(Piece(4, ""), "two is missing"), ParseError)
    assert error.message == "line 1, column 5: two is missing, but the text ends"


@pytest.mark.parametrize(
    ("cause", "told"),
    [(ShapeError("no shape"), "no shape"), (ValueError("odd"), "this cannot be read: odd")],
)
def test_what_others_raise_is_told_at_the_place(cause: Exception, told: str):
    def blame() -> None:
        with Scanner("x y").blaming(Piece(2, "y")):
            raise cause

    error = error_of(blame, ParseError)
    assert (error.message, error.where) == (f"line 1, column 3: {told}", "x y\n  ^")

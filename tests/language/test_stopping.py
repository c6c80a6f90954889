"""A text ends before the first string that is complete in it, however it is cut into pieces."""

import pytest
from hypothesis import given, strategies as st

from luminal_lab.errors import ArgumentError
from luminal_lab.language.stopping import StopText
from tests.expect import error_of

LETTERS = st.sampled_from("aab\nü")
PIECES = st.lists(st.text(LETTERS, max_size=5), max_size=20)
STRINGS = st.lists(st.text(LETTERS, min_size=1, max_size=5), max_size=4)


def naive(text, strings):
    """Return the text before the string that is complete first, and that string."""
    for end in range(1, len(text) + 1):
        ending = [string for string in strings if text[:end].endswith(string)]
        if ending:
            stop = max(ending, key=len)
            return text[: end - len(stop)], stop
    return text, None


def run(pieces, strings):
    """Return all that is shown, and the text that shows it."""
    text = StopText(strings)
    shown = [text.add(piece) for piece in pieces]
    return "".join(shown) + text.rest(), text


@given(pieces=PIECES, strings=STRINGS)
def test_what_is_shown_is_what_stands_before_the_first_stop(pieces, strings):
    shown, text = run(pieces, strings)
    assert (shown, text.stop) == naive("".join(pieces), strings)
    assert text.is_stopped == (text.stop is not None)


@given(pieces=PIECES, strings=STRINGS)
def test_what_is_held_back_may_still_become_a_stop(pieces, strings):
    text = StopText(strings)
    whole = shown = ""
    for piece in pieces:
        whole, shown = whole + piece, shown + text.add(piece)
        if text.is_stopped:
            return
        held = whole[len(shown) :]
        assert whole.startswith(shown)
        begins = [n for s in strings for n in range(1, len(s)) if whole.endswith(s[:n])]
        assert len(held) == max(begins, default=0)


def test_a_string_may_lie_across_many_pieces():
    shown, text = run(["Hi", "\n", "U", "s", "er", ":", " x"], ["\nUser:"])
    assert (shown, text.stop) == ("Hi", "\nUser:")


def test_nothing_is_shown_after_the_stop():
    text = StopText("b")
    assert [text.add("ab"), text.add("c"), text.rest()] == ["a", "", ""]


def test_a_text_goes_on_after_its_rest():
    text = StopText("bc")
    assert [text.add("ab"), text.rest(), text.add("c")] == ["a", "b", "c"]


@pytest.mark.parametrize("strings", [[], ()])
def test_without_strings_all_is_shown_at_once(strings):
    assert StopText(strings).add("abc") == "abc"


@pytest.mark.parametrize(
    ("strings", "message"),
    [
        (3, "stop: 3 is no list of strings"),
        (["a", ""], "stop: string 1 is ''"),
        ("", "stop: string 0 is ''"),
        ([1], "stop: string 0 is 1"),
    ],
)
def test_wrong_strings_are_told(strings, message):
    assert error_of(lambda: StopText(strings), ArgumentError).message == message

"""Texts become tokens as `tokenizer.json` says, and what is too long is cut off."""

import sys

import pytest

from luminal_lab.errors import ArgumentError, DeviceError, InputError
from luminal_lab.language.tokens import Tokenizer
from tests.expect import error_of
from tests.language import folders
from tests.needs import need

need("tokenizers")


@pytest.fixture
def path(tmp_path):
    folders.tokenizer(tmp_path)
    return tmp_path / "tokenizer.json"


def ids(tokenizer: Tokenizer, *texts: str) -> list[list[int]]:
    return [text.ids for text in tokenizer.tokenise(texts)]


def test_it_says_how_many_tokens_there_are(path):
    assert repr(Tokenizer(path)) == f"<Tokenizer: {len(folders.WORDS)} kinds of tokens>"


def test_padding_of_the_file_is_left_out(path):
    assert ids(Tokenizer(path, most=9), "a man", "") == [[2, 4, 5, 3], [2, 3]]


def test_a_text_that_is_too_long_keeps_its_ends(path):
    assert ids(Tokenizer(path, most=4), "a man is eating") == [[2, 4, 5, 3]]


def test_letters_may_be_lowered_first(path):
    assert ids(Tokenizer(path, most=9), "A MAN") == [[2, 1, 1, 3]]
    assert ids(Tokenizer(path, most=9, lower=True), "A MAN") == [[2, 4, 5, 3]]


def test_a_limit_leaves_room_for_a_token(path):
    assert error_of(lambda: Tokenizer(path, most=2), InputError).message == (
        "load: a text may have 2 tokens, and 2 are at its ends"
    )


def test_half_a_letter_is_told(path):
    tokenizer = Tokenizer(path, most=9)
    assert error_of(lambda: tokenizer.tokenise(["a", "\ud800"]), ArgumentError).message == (
        "embed: text 1 has half a letter, which no encoding has bytes for: '\\ud800'"
    )


@pytest.mark.parametrize("text", ["", "{", "[]", '{"model": {"type": "BPE"}}', '{"version": 3}'])
def test_a_damaged_file_is_named(path, text):
    path.write_text(text)
    message = error_of(lambda: Tokenizer(path, most=9), InputError).message
    assert message.startswith(f"load: {path} is no tokenizer: ")


def test_a_missing_file_is_named(tmp_path):
    assert error_of(lambda: Tokenizer(tmp_path / "tokenizer.json", most=9), InputError).message == (
        f"load: there is no tokenizer.json in {tmp_path}, which says what the tokens of a text are"
    )


def test_a_missing_package_is_named(path, monkeypatch):
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    assert str(error_of(lambda: Tokenizer(path, most=9), DeviceError)) == (
        "load: the package tokenizers, which makes tokens of texts, is not installed\n"
        'hint: pip install "luminal-lab[lm]"'
    )

"""Texts as tokens and back, by the `tokenizer.json` of a model: the package tokenizers does it."""

from __future__ import annotations

import codecs
import json
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple, cast

from typing_extensions import override

from luminal_lab.errors import ArgumentError, DeviceError, InputError, LabError, counted
from luminal_lab.reading import read_json, read_plain, shown

MOST_BYTES: Final = 1 << 27
"""The most bytes of a tokenizer: those of 260,000 words have 35 MB."""
CONFIGURATIONS: Final = ("generation_config.json", "config.json", "tokenizer_config.json")
"""The files beside a tokenizer that say which tokens end a text."""
CONTEXT: Final = 4
"""How many of the last tokens a stream looks back at, at least."""


class Tokenised(NamedTuple):
    """The tokens of a text."""

    ids: list[int]
    kinds: list[int]
    """Which of two texts each token belongs to, for models that tell these apart."""


class Tokenizer:
    """What makes tokens of texts, and texts of tokens, as a model's file says.

    An encoder takes at most `most` tokens of a text, and what is too much is cut off. For a
    decoder, which has no such limit, the files beside it say which tokens are at the `ends`. A
    tokenizer of the package tokenizers may stand in place of the file's path.

    >>> import tokenizers
    >>> words = tokenizers.models.WordLevel({"[UNK]": 0, "a": 1, "b": 2}, "[UNK]")
    >>> made = tokenizers.Tokenizer(words)
    >>> made.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    >>> made.save(str(folder / "tokenizer.json"))
    >>> Tokenizer(folder / "tokenizer.json", most=3).tokenise(["b a", "a c b a a"])
    [Tokenised(ids=[2, 1], kinds=[0, 0]), Tokenised(ids=[1, 0, 2], kinds=[0, 0, 0])]
    >>> tokenizer = Tokenizer(folder / "tokenizer.json")
    >>> tokenizer.encode("b a"), tokenizer.decode([1, 2]), tokenizer.size
    ([2, 1], 'a b', 3)
    """

    def __init__(
        self,
        source: Path | Any,  # noqa: ANN401  # a tokenizer of the package
        *,
        most: int | None = None,
        lower: bool = False,
        subject: str = "load",
        ends: Iterable[int] | None = None,
    ) -> None:
        package = package_of_tokens(subject)
        self._made: Any = _read(source, package, subject) if isinstance(source, Path) else source
        self.added: int = self._made.num_special_tokens_to_add(False)
        """How many tokens of each text are none of its own, such as those at its ends."""
        self.size: int = self._made.get_vocab_size()
        """How many tokens there are."""
        self.most = most
        """The most tokens of a text."""
        self.ends: frozenset[int] = frozenset(ends or ())
        """The tokens that end a text."""
        self._made.no_padding()
        if most is None:
            self._made.no_truncation()
            if ends is None and isinstance(source, Path):
                self.ends = self._ends_beside(source.parent, subject)
        else:
            if most <= self.added:
                where = f"beside {source.name}" if isinstance(source, Path) else "of the model"
                raise InputError(
                    f"{subject}: a text may have {counted(most, 'token')}, and {self.added} are at "
                    "its ends",
                    hint=f"the limit is in the files {where}",
                )
            cut: dict[str, str] = self._made.truncation or {}
            self._made.enable_truncation(most, direction=cut.get("direction", "right").lower())
        if lower:
            self._lower(package)

    def _lower(self, package: Any) -> None:  # noqa: ANN401  # a package
        rules = package.normalizers
        own = self._made.normalizer
        lower = rules.Lowercase()
        self._made.normalizer = lower if own is None else rules.Sequence([lower, own])

    def _ends_beside(self, folder: Path, subject: str) -> frozenset[int]:
        """Return the tokens that end a text, as the files of a folder say."""
        ends: set[int] = set()
        for name in CONFIGURATIONS:
            entries = entries_of(folder / name, subject)
            for part in (entries, entries.get("text_config")):
                if isinstance(part, dict):
                    ends |= _ids(cast("dict[str, object]", part), folder / name, subject)
            end = text_of_token(entries.get("eos_token"))
            id: int | None = None if end is None else self._made.token_to_id(end)
            ends |= set() if id is None else {id}
        return frozenset(ends)

    def tokenise(self, texts: Sequence[str], subject: str = "embed") -> list[Tokenised]:
        """Return the tokens of each text, at most `most`.

        >>> hasattr(Tokenizer, "tokenise")
        True
        """
        try:
            encodings = self._made.encode_batch_fast(list(texts))
        except (TypeError, UnicodeError) as error:
            at = next((k for k, text in enumerate(texts) if not _is_text(text)), 0)
            raise ArgumentError(
                f"{subject}: text {at} has half a letter, which no encoding has bytes for: "
                f"{texts[at][:40]!r}",
                hint='text.encode("utf-8", "replace").decode() has a ? there',
            ) from error
        return [Tokenised(encoding.ids, encoding.type_ids) for encoding in encodings]

    def encode(self, text: str, special: bool = True) -> list[int]:
        """Return the tokens of a text, with those that belong at its ends if `special`.

        What a text has of special tokens, as chat templates write them, becomes these.

        >>> import tokenizers
        >>> made = tokenizers.Tokenizer(tokenizers.models.WordLevel({"a": 0, "<s>": 1}))
        >>> made.add_special_tokens(["<s>"])
        1
        >>> Tokenizer(made).encode("<s>a")
        [1, 0]
        """
        try:
            return self._made.encode(text, add_special_tokens=special).ids
        except (TypeError, UnicodeError) as error:
            if not isinstance(text, str):  # pyright: ignore[reportUnnecessaryIsInstance]  # anybody may call
                raise ArgumentError(
                    f"encode: {shown(text)} is no text", hint='as in encode("a text")'
                ) from None
            raise ArgumentError(
                f"encode: the text has half a letter, which no encoding has bytes for: "
                f"{text[:40]!r}",
                hint='text.encode("utf-8", "replace").decode() has a ? there',
            ) from error

    @override
    def __repr__(self) -> str:
        return f"<Tokenizer: {self.size:,} kinds of tokens>"

    def decode(self, ids: Iterable[int], special: bool = False) -> str:
        """Return the text of tokens, in which special ones appear only if `special`.

        >>> import tokenizers
        >>> made = tokenizers.Tokenizer(tokenizers.models.WordLevel({"a": 0, "<s>": 1}))
        >>> made.add_special_tokens(["<s>"])
        1
        >>> Tokenizer(made).decode([1, 0]), Tokenizer(made).decode([1, 0], special=True)
        ('a', '<s> a')
        """
        try:
            return self._made.decode([*ids], skip_special_tokens=not special)
        except (TypeError, OverflowError) as error:
            raise ArgumentError(
                f"decode: {shown(ids)} are no ids of tokens", hint="ids count from 0"
            ) from error

    def streamer(self, before: Sequence[int] = (), special: bool = False) -> TextStream:
        """Return what makes text of tokens one by one; `before` are those that it goes on from.

        >>> import tokenizers
        >>> made = tokenizers.Tokenizer(tokenizers.models.WordLevel({"a": 0, "b": 1}))
        >>> stream = Tokenizer(made).streamer()
        >>> stream.add(0), stream.add(1), stream.rest()
        ('a', ' b', '')
        """
        kinds = _decoders(self._made.decoder)
        if kinds == ["ByteLevel"]:
            return _ByteStream(self._made, before, special)
        return _WindowStream(self._made, before, special, "ByteFallback" in kinds)


class TextStream:
    """A text that is made token by token: its pieces and the rest are what `decode` returns.

    >>> import tokenizers
    >>> made = tokenizers.Tokenizer(tokenizers.models.BPE({"Ã": 0, "¼": 1}, []))
    >>> made.decoder = tokenizers.decoders.ByteLevel()
    >>> stream = Tokenizer(made).streamer()
    >>> stream.add(0), stream.add(1)  # the two bytes of a letter
    ('', 'ü')
    """

    def __init__(self, made: Any, special: bool) -> None:  # noqa: ANN401  # of the package
        self._made = made
        added: dict[int, Any] = {} if special else made.get_added_tokens_decoder()
        self._left_out = {id for id, token in added.items() if token.special}

    def add(self, id: int) -> str:
        """Return what one more token makes final, which may be nothing.

        >>> hasattr(TextStream, "add")
        True
        """
        raise NotImplementedError

    def rest(self) -> str:
        """Return what was held back, once nothing more comes.

        >>> hasattr(TextStream, "rest")
        True
        """
        raise NotImplementedError

    def _name(self, id: int) -> str | None:
        """Return a token as the vocabulary writes it."""
        try:
            return None if id in self._left_out else self._made.id_to_token(id)
        except (TypeError, OverflowError) as error:
            raise ArgumentError(
                f"streamer: {shown(id)} is no id of a token", hint="ids count from 0"
            ) from error


class _ByteStream(TextStream):
    """The text of tokens that are bytes: what is not a whole letter waits for the next one."""

    def __init__(self, made: Any, before: Sequence[int], special: bool) -> None:  # noqa: ANN401
        super().__init__(made, special)
        self._bytes = codecs.getincrementaldecoder("utf-8")("replace")
        for id in before:
            self.add(id)

    @override
    def add(self, id: int) -> str:
        name = self._name(id)
        return "" if name is None else self._bytes.decode(bytes_of(name))

    @override
    def rest(self) -> str:
        rest = self._bytes.decode(b"", final=True)
        self._bytes.reset()
        return rest


class _WindowStream(TextStream):
    """The text of any tokens, by what the last ones are with and without the new one.

    Tokens that stand for bytes become letters only when one that does not follows: until then the
    next byte can make all of them wrong.
    """

    def __init__(self, made: Any, before: Sequence[int], special: bool, has_bytes: bool) -> None:  # noqa: ANN401
        super().__init__(made, special)
        self._has_bytes = has_bytes
        self._ids = [id for id in before if self._name(id) is not None]
        self._window = 0
        """Where the tokens begin that are looked at."""
        self._known = self._text(self._ids)
        """What of the window's text was returned, or is of the tokens before."""
        self._shown = len(self._known)
        """How much of all the text that is."""
        self._slide()

    def _text(self, ids: Sequence[int]) -> str:
        return self._made.decode(ids, skip_special_tokens=False)

    @override
    def add(self, id: int) -> str:
        name = self._name(id)
        if name is None:
            return ""
        self._ids.append(id)
        if self._has_bytes and is_byte(name):
            return ""
        text = self._text(self._ids[self._window :])
        if text.endswith("\ufffd") or not text.startswith(self._known):
            return ""
        piece = text[len(self._known) :]
        self._shown += len(piece)
        self._known = text
        self._slide()
        return piece

    def _slide(self) -> None:
        """Let the window begin later, if the last tokens are a text by themselves."""
        begin = len(self._ids) - CONTEXT
        if begin - self._window < CONTEXT:
            return
        known = self._text(self._ids[begin:])
        if known:  # what is special about the first token of a text, such as its space, is over
            self._window, self._known = begin, known

    @override
    def rest(self) -> str:
        whole = self._text(self._ids)
        rest, self._shown = whole[self._shown :], len(whole)
        return rest


def text_of_token(entry: object) -> str | None:
    """Return a token as configurations write it, plain or with what is known about it.

    >>> from luminal_lab.language.tokens import text_of_token
    >>> text_of_token("</s>"), text_of_token({"content": "</s>", "lstrip": False})
    ('</s>', '</s>')
    """
    if isinstance(entry, dict):
        entry = cast("dict[str, object]", entry).get("content")
    return entry if isinstance(entry, str) else None


def is_byte(name: str) -> bool:
    """Return whether a token stands for a byte, as `<0x0A>` does.

    >>> from luminal_lab.language.tokens import is_byte
    >>> is_byte("<0x0A>"), is_byte("<0xya>")
    (True, False)
    """
    if len(name) != 6 or not name.startswith("<0x") or name[5] != ">":
        return False
    return all(letter in "0123456789abcdefABCDEF" for letter in name[3:5])


def _letters_of_bytes() -> dict[str, int]:
    """Return which byte each letter stands for where vocabularies write bytes as letters."""
    plain = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in plain]
    pairs = [(byte, byte) for byte in plain]
    pairs += [(0x100 + at, byte) for at, byte in enumerate(others)]
    return {chr(letter): byte for letter, byte in pairs}


BYTES: Final = _letters_of_bytes()


def bytes_of(name: str) -> bytes:
    """Return the bytes of a token whose letters each stand for one; others stand for themselves.

    >>> from luminal_lab.language.tokens import bytes_of
    >>> bytes_of("Ġa"), bytes_of("Ãł")
    (b' a', b'\\xc3\\xa0')
    """
    try:
        return bytes(BYTES[letter] for letter in name)
    except KeyError:
        return name.encode()


def entries_of(path: Path, subject: str) -> dict[str, object]:
    """Return the entries of a configuration, or none where it is missing."""
    try:
        entries = read_json(read_plain(path), exact=True)
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise InputError(f"{subject}: {path} cannot be read: {error}") from error
    if not isinstance(entries, dict):
        raise InputError(f"{subject}: {path} has no entries, but {shown(entries)}")
    return cast("dict[str, object]", entries)


def _ids(entries: dict[str, object], path: Path, subject: str) -> set[int]:
    """Return the tokens that end a text as a configuration says: one, several or none."""
    given = entries.get("eos_token_id")
    ids = set[int]()
    for id in cast("list[object]", given) if isinstance(given, list) else [given]:
        if isinstance(id, int) and not isinstance(id, bool) and id >= 0:
            ids.add(id)
        elif id is not None:
            raise InputError(f"{subject}: {path} has the eos_token_id {shown(id)}, no token")
    return ids


def _decoders(decoder: Any) -> list[str]:  # noqa: ANN401  # of the package
    """Return the kinds of rules that make texts of tokens."""
    if decoder is None:
        return []
    rule = cast("dict[str, Any]", json.loads(decoder.__getstate__()))
    return [part["type"] for part in rule.get("decoders", [rule])]


def _read(path: Path, package: Any, subject: str) -> Any:  # noqa: ANN401  # of the package
    """Return the tokenizer that a file describes."""
    try:
        text = read_plain(path, MOST_BYTES).decode()
    except FileNotFoundError:
        raise InputError(
            f"{subject}: there is no {path.name} in {path.parent}, which says what the tokens "
            "of a text are",
            hint="it is published with the weights; of older files transformers makes it: "
            "AutoTokenizer.from_pretrained(folder).save_pretrained(folder)",
        ) from None
    except (OSError, ValueError) as error:
        raise InputError(f"{subject}: {path} cannot be read: {error}") from error
    with refusing(f"{subject}: {path} is no tokenizer"):
        return package.Tokenizer.from_str(text)


@contextmanager
def refusing(what: str) -> Generator[None]:
    """Turn whatever the package tokenizers raises, be it a panic, into an error of ours.

    >>> from luminal_lab.language.tokens import refusing
    >>> with refusing("load: it is no tokenizer"):
    ...     raise ValueError("a reason")
    Traceback (most recent call last):
        ...
    luminal_lab.errors.InputError: load: it is no tokenizer: a reason
    """
    try:
        yield
    except BaseException as error:  # a panic is none of Exception's
        if isinstance(error, (KeyboardInterrupt, SystemExit, MemoryError, LabError)):
            raise
        raise InputError(f"{what}: {error}") from error


def _is_text(text: str) -> bool:
    try:
        text.encode()
    except UnicodeError:
        return False
    return True


def package_of_tokens(subject: str) -> Any:  # noqa: ANN401  # a package
    """Return the package tokenizers, or say how to install it."""
    try:
        import tokenizers
    except ImportError:
        raise DeviceError(
            f"{subject}: the package tokenizers, which makes tokens of texts, is not installed",
            hint='pip install "luminal-lab[lm]"',
        ) from None
    return tokenizers

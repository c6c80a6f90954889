"""Texts as tokens, by the `tokenizer.json` of a model: the package tokenizers does it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from luminal_lab.errors import ArgumentError, DeviceError, InputError
from luminal_lab.reading import read_plain

MOST_BYTES: Final = 1 << 27
"""The most bytes of a tokenizer: those of 260,000 words have 35 MB."""


class Tokenised(NamedTuple):
    """The tokens of a text."""

    ids: list[int]
    kinds: list[int]
    """Which of two texts each token belongs to, for models that tell these apart."""


class Tokenizer:
    """What makes tokens of texts, as a model's file says, and cuts off what is too much.

    >>> import pytest
    >>> tokenizers = pytest.importorskip("tokenizers")
    >>> words = tokenizers.models.WordLevel({"[UNK]": 0, "a": 1, "b": 2}, "[UNK]")
    >>> made = tokenizers.Tokenizer(words)
    >>> made.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    >>> made.save(str(folder / "tokenizer.json"))
    >>> Tokenizer(folder / "tokenizer.json", most=3).tokenise(["b a", "a c b a a"])
    [Tokenised(ids=[2, 1], kinds=[0, 0]), Tokenised(ids=[1, 0, 2], kinds=[0, 0, 0])]
    """

    def __init__(
        self, path: Path, *, most: int, lower: bool = False, subject: str = "load"
    ) -> None:
        package = _package(subject)
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
        try:
            self._made: Any = package.Tokenizer.from_str(text)
        except BaseException as error:  # a panic in it is none of Exception's
            if isinstance(error, (KeyboardInterrupt, SystemExit, MemoryError)):
                raise
            raise InputError(f"{subject}: {path} is no tokenizer: {error}") from error
        self.added: int = self._made.num_special_tokens_to_add(False)
        """How many tokens of each text are none of its own, such as those at its ends."""
        self.size: int = self._made.get_vocab_size()
        """How many tokens there are."""
        self.most = most
        """The most tokens of a text."""
        if most <= self.added:
            raise InputError(
                f"{subject}: a text may have {most} tokens, and {self.added} are at its ends",
                hint=f"the limit is in the files beside {path.name}",
            )
        cut: dict[str, str] = self._made.truncation or {}
        self._made.no_padding()
        self._made.enable_truncation(most, direction=cut.get("direction", "right").lower())
        if lower:
            self._lower(package)

    def _lower(self, package: Any) -> None:  # noqa: ANN401  # a package
        rules = package.normalizers
        own = self._made.normalizer
        lower = rules.Lowercase()
        self._made.normalizer = lower if own is None else rules.Sequence([lower, own])

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


def _is_text(text: str) -> bool:
    try:
        text.encode()
    except UnicodeError:
        return False
    return True


def _package(subject: str) -> Any:  # noqa: ANN401  # a package
    try:
        import tokenizers
    except ImportError:
        raise DeviceError(
            f"{subject}: the package tokenizers, which makes tokens of texts, is not installed",
            hint='pip install "luminal-lab[lm]"',
        ) from None
    return tokenizers

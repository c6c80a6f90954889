"""The tokenizer of a GGUF file, of its keys: BPE, Unigram or WordPiece of the package tokenizers.

    tokenizer.ggml.model    gpt2: bytes merged by `merges`, within parts that `pre` names
                            llama: letters merged by `scores`, as SentencePiece does
                            gemma4: letters merged by `merges`;  t5: Unigram;  bert: WordPiece
    tokenizer.ggml.tokens, scores, token_type, merges, pre
    tokenizer.ggml.bos_token_id …, add_bos_token …, add_space_prefix, precompiled_charsmap

A file with no word on one of these means what llama.cpp takes it to mean.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import starmap
from pathlib import Path
from typing import Any, Final, NoReturn, cast

import numpy as np

from luminal_lab.errors import InputError, nearest, whole_number
from luminal_lab.language.gguf_splits import SPLITS, Split
from luminal_lab.language.tokens import Tokenizer, is_byte, package_of_tokens, refusing
from luminal_lab.reading import shown

PREFIX: Final = "tokenizer.ggml."
NORMAL, UNKNOWN, CONTROL, USER, UNUSED, BYTE = 1, 2, 3, 4, 5, 6
"""The kinds of tokens."""
MOST_LETTERS: Final = 1 << 10
"""The most letters of a token that is looked for in texts."""
SPACE: Final = "▁"
ENDS: Final = frozenset(
    ["<|eot_id|>", "<|im_end|>", "<|end|>", "<|return|>", "<|call|>", "<|flush|>", "<|calls|>",
     "<end_of_turn>", "<|endoftext|>", "<|eom_id|>", "<EOT>", "_<EOT>", "[EOT]", "[EOS]",
     "<|end_of_text|>", "<end_of_utterance>", "<eos>", "<turn|>", "<|tool_response>",
     "<\uff5cend▁of▁sentence\uff5c>", "[e~["]
)  # fmt: skip
"""Names of tokens that end a turn or a text wherever they are; many files do not say so."""
GOES_ON: Final = (({"<|return|>", "<|call|>"}, "<|end|>"), ({"<|calls|>", "<|flush|>"}, "<|end|>"))
"""Where some of these are, another one ends a part of a turn alone."""
STRIPPING: Final = ("phi-3", "phi3")
"""Models by their names, whose special tokens swallow the spaces behind them."""
KEPT_SPACES: Final = frozenset(["<unk>", "<s>", "<|endoftext|>"])


def tokenizer_of_gguf(
    keys: Mapping[str, object], path: str | Path, subject: str = "load"
) -> Tokenizer:
    """Return the tokenizer that the keys of a GGUF file describe.

    >>> from luminal_lab.language.gguf_tokens import tokenizer_of_gguf
    >>> keys = {
    ...     "tokenizer.ggml.model": "gpt2",
    ...     "tokenizer.ggml.pre": "gpt-2",
    ...     "tokenizer.ggml.tokens": ["a", "b", "Ġ", "ab", "Ġab", "<|endoftext|>"],
    ...     "tokenizer.ggml.merges": ["a b", "Ġ ab"],
    ...     "tokenizer.ggml.token_type": [1, 1, 1, 1, 1, 3],
    ...     "tokenizer.ggml.eos_token_id": 5,
    ... }
    >>> tokenizer = tokenizer_of_gguf(keys, "model.gguf")
    >>> tokenizer.encode("ab ab<|endoftext|>"), tokenizer.decode([3, 4]), tokenizer.ends
    ([3, 4, 5], 'ab ab', frozenset({5}))
    """
    given = Keys(keys, f"{subject}: {path}")
    package = package_of_tokens(subject)
    kind = given.text("model")
    if kind not in KINDS:
        if kind == "":
            given.refuse(f"there is no key {PREFIX}model, which says what its tokens are")
        given.refuse(
            f"its tokenizer is {shown(kind)}, which is not here",
            nearest(kind, KINDS) or f"there are {', '.join(KINDS)}",
        )
    with refusing(f"{subject}: {path}: its keys make no tokenizer"):
        tokens = Tokens(given)
        made = KINDS[kind](package, given, tokens)
        special, plain = tokens.added(package)
        made.add_special_tokens(special)
        made.add_tokens(plain)
        if made.get_vocab_size() != len(tokens.names):
            given.refuse(f"{len(tokens.names):,} tokens became {made.get_vocab_size():,}")
    return Tokenizer(made, subject=subject, ends=tokens.ends())


class Keys:
    """What a file says of its tokens, each entry of the right kind or none."""

    def __init__(self, keys: Mapping[str, object], what: str) -> None:
        self.keys, self.what = keys, what

    def refuse(self, why: str, hint: str = "convert it again with a newer llama.cpp") -> NoReturn:
        """Raise an error that names the file."""
        raise InputError(f"{self.what}: {why}", hint=hint)

    def odd(self, name: str, wanted: str) -> NoReturn:
        """Raise an error that shows what a key has."""
        self.refuse(f"the key {PREFIX}{name} is {shown(self.keys[PREFIX + name])}, not {wanted}")

    def text(self, name: str) -> str:
        """Return a text, or an empty one if there is none."""
        value = self.keys.get(PREFIX + name, "")
        return value if isinstance(value, str) else self.odd(name, "a text")

    def flag(self, name: str, usual: bool) -> bool:
        """Return a yes or no."""
        value = self.keys.get(PREFIX + name, usual)
        return value if isinstance(value, bool) else self.odd(name, "true or false")

    def texts(self, name: str) -> list[str]:
        """Return a list of texts, which must be there."""
        if PREFIX + name not in self.keys:
            self.refuse(f"there is no key {PREFIX}{name}")
        value = self.keys[PREFIX + name]
        if not isinstance(value, list) or not all(
            isinstance(text, str) for text in cast("list[object]", value)
        ):
            self.odd(name, "a list of texts")
        return cast("list[str]", value)

    def numbers(self, name: str, count: int | None = None) -> list[Any] | None:
        """Return numbers, one for each token if a count is given, or None if there are none."""
        value = self.keys.get(PREFIX + name)
        if value is None:
            return None
        array: np.ndarray[Any, Any] = np.asarray(value)
        if array.ndim != 1 or array.dtype.kind not in "iuf":
            self.odd(name, "a list of numbers")
        if count is not None and len(array) < count:
            self.refuse(
                f"the key {PREFIX}{name} has {len(array):,} numbers, and there are {count:,} tokens"
            )
        if not np.isfinite(array).all():
            self.odd(name, "a list of numbers")
        return array.tolist()

    def id(self, name: str, count: int, usual: int | None = None) -> int | None:
        """Return the id of a token; one that is not there means none."""
        value = self.keys.get(PREFIX + name, usual)
        if value is None:
            return None
        number = whole_number(value)
        if number is None:
            self.odd(name, "the id of a token")
        return number if 0 <= number < count else None


class Tokens:
    """The tokens of a file, and which of them are special."""

    def __init__(self, given: Keys) -> None:
        self.given = given
        names = given.texts("tokens")
        self.names = [name or f"[EMPTY_{id}]" for id, name in enumerate(names)]
        count = len(names)
        if not count:
            given.refuse(f"the key {PREFIX}tokens has no tokens")
        self.kinds = given.numbers("token_type", count) or [NORMAL] * count
        self.kinds = self.kinds[:count]
        self.scores = given.numbers("scores", count)
        longest = max(self.names, key=len)
        if len(longest) > MOST_LETTERS:
            given.refuse(f"a token has {len(longest):,} letters, and {MOST_LETTERS:,} are the most")
        self.by_name = self.ids()
        usual = USUAL.get(given.text("model"), {})

        def id(name: str) -> int | None:
            return given.id(name, count, usual.get(name))

        self.begin = id("bos_token_id")
        self.end = id("eos_token_id")
        self.unknown = id("unknown_token_id")
        self.turns = [id("eot_token_id"), id("eom_token_id")]
        self.first = id("cls_token_id")
        self.separator = id("seperator_token_id")  # so it is spelled in files

    def ids(self) -> dict[str, int]:
        """Return the tokens by their names, which all differ."""
        by_name = {name: id for id, name in enumerate(self.names)}
        if len(by_name) != len(self.names):
            id = next(id for id, name in enumerate(self.names) if by_name[name] != id)
            self.given.refuse(f"the token {shown(self.names[id])} is there twice")
        return by_name

    def added(self, package: Any) -> tuple[list[Any], list[Any]]:  # noqa: ANN401  # a package
        """Return the tokens that are found in a text before anything else, special and not."""
        name = self.given.keys.get("general.name")
        strips = isinstance(name, str) and any(word in name.lower() for word in STRIPPING)
        special: list[Any] = []
        plain: list[Any] = []
        for name, kind in zip(self.names, self.kinds, strict=True):
            if kind in (UNKNOWN, CONTROL, USER):
                is_special = kind != USER
                (special if is_special else plain).append(
                    package.AddedToken(
                        name,
                        special=is_special,
                        normalized=False,
                        rstrip=strips and name not in KEPT_SPACES,
                    )
                )
        return special, plain

    def ends(self) -> set[int]:
        """Return the tokens that end a text, by what the file says and by well-known names."""
        named = {
            name
            for name in ENDS & self.by_name.keys()
            if self.kinds[self.by_name[name]] in (CONTROL, USER)
        }
        for others, name in GOES_ON:
            if others <= named:
                named.discard(name)
        ends = {self.by_name[name] for name in named}
        return ends | {id for id in (self.end, *self.turns) if id is not None}


USUAL: Final[Mapping[str, Mapping[str, int]]] = {
    "llama": {"bos_token_id": 1, "eos_token_id": 2, "unknown_token_id": 0},
    "t5": {"eos_token_id": 1, "unknown_token_id": 2},
    "bert": {"bos_token_id": 101, "unknown_token_id": 100, "seperator_token_id": 102},
}
"""The ids of tokens of files that do not say them."""


def _of_bytes(package: Any, given: Keys, tokens: Tokens) -> Any:  # noqa: ANN401  # a package
    """Return a BPE whose merges are in the file."""
    is_gemma = given.text("model") == "gemma4"
    name = "gemma4" if is_gemma else given.text("pre") or "default"
    if name not in SPLITS:
        given.refuse(
            f"its texts are split as {shown(name)} says, which is not known here",
            nearest(name, SPLITS) or "a tokenizer.json of the model says how, and ll.load reads it",
        )
    split = SPLITS[name]
    # A token may begin with a space, so that it is looked for behind the first letter.
    merges = [(m[: (at := m.find(" ", 1))], m[at + 1 :]) for m in given.texts("merges")]
    rules = package.pre_tokenizers
    parts = [rules.Split(package.Regex(p), "isolated") for p in split.patterns]
    if split.raw:
        made = _merging(package, tokens, merges, split)
    else:
        model = package.models.BPE(tokens.by_name, merges, ignore_merges=split.whole)
        made = package.Tokenizer(model)
        parts.append(rules.ByteLevel(add_prefix_space=False, use_regex=False))
        made.decoder = package.decoders.ByteLevel()
        if split.nfc:
            made.normalizer = package.normalizers.NFC()
    made.pre_tokenizer = rules.Sequence(parts)
    _wrap(package, given, tokens, made, begin=split.begin)
    return made


def _of_letters(package: Any, given: Keys, tokens: Tokens) -> Any:  # noqa: ANN401  # a package
    """Return a BPE that merges first what makes the token of the highest score."""
    made = _merging(package, tokens, _merges(tokens), Split(()))
    if given.flag("add_space_prefix", True):
        rules = package.normalizers
        made.normalizer = rules.Sequence([rules.Prepend(SPACE), made.normalizer])
        steps = package.decoders
        made.decoder = steps.Sequence([*_decoding(package), steps.Strip(" ", 1, 0)])
    _wrap(package, given, tokens, made, begin=True)
    return made


def _merging(
    package: Any,  # noqa: ANN401  # a package
    tokens: Tokens,
    merges: Sequence[tuple[str, str]],
    split: Split,
) -> Any:  # noqa: ANN401  # of the package
    """Return a BPE of letters, with ▁ for spaces and tokens of bytes for what has no other."""
    unknown = None if tokens.unknown is None else tokens.names[tokens.unknown]
    model = package.models.BPE(
        tokens.by_name,
        merges,
        unk_token=unknown,
        fuse_unk=True,
        byte_fallback=True,
        ignore_merges=split.whole,
    )
    made = package.Tokenizer(model)
    made.normalizer = package.normalizers.Replace(" ", SPACE)
    made.decoder = package.decoders.Sequence(_decoding(package))
    return made


def _decoding(package: Any) -> list[Any]:  # noqa: ANN401  # a package
    steps = package.decoders
    return [steps.Replace(SPACE, " "), steps.ByteFallback(), steps.Fuse()]


def _merges(tokens: Tokens) -> list[tuple[str, str]]:
    """Return all pairs of tokens that make a third one, those of the highest score first.

    Of pairs that make the same token, the one that a text of these letters alone would need first
    is first: SentencePiece merges the leftmost pair.
    """
    scores = tokens.scores
    if scores is None:
        tokens.given.refuse(f"there is no key {PREFIX}scores")
    usable = {
        name
        for name, kind in zip(tokens.names, tokens.kinds, strict=True)
        if kind in (NORMAL, USER, UNUSED) and not is_byte(name)
    }
    lengths = sorted({len(name) for name in usable})
    order = sorted(usable, key=lambda name: (-scores[tokens.by_name[name]], tokens.by_name[name]))
    merges: list[tuple[str, str]] = []
    for name in order:
        for length in lengths:
            if length >= len(name):
                break
            left, right = name[:length], name[length:]
            if left in usable and right in usable:
                merges.append((left, right))
    return merges


def _of_unigram(package: Any, given: Keys, tokens: Tokens) -> Any:  # noqa: ANN401  # a package
    """Return a Unigram: the tokens whose scores add up to the most."""
    if tokens.scores is None:
        given.refuse(f"there is no key {PREFIX}scores")
    scores = [
        0.0 if kind == USER else score
        for score, kind in zip(tokens.scores, tokens.kinds, strict=False)
    ]
    pairs = [*zip(tokens.names, scores, strict=True)]
    has_bytes = all(f"<0x{byte:02X}>" in tokens.by_name for byte in range(256))
    made = package.Tokenizer(
        package.models.Unigram(pairs, unk_id=tokens.unknown, byte_fallback=has_bytes)
    )
    rules = package.normalizers
    steps: list[Any] = []
    if (letters := given.numbers("precompiled_charsmap")) is not None:
        steps.append(rules.Precompiled(bytes(byte & 0xFF for byte in letters)))
    if given.flag("remove_extra_whitespaces", False):
        steps += [rules.Strip(), rules.Replace(package.Regex(" {2,}"), " ")]
    if steps:
        made.normalizer = rules.Sequence(steps)
    scheme = "always" if given.flag("add_space_prefix", False) else "never"
    spaces = {"replacement": SPACE, "prepend_scheme": scheme, "split": False}
    made.pre_tokenizer = package.pre_tokenizers.Metaspace(**spaces)
    made.decoder = package.decoders.Metaspace(**spaces)
    _wrap(package, given, tokens, made, begin=False, end=True)
    return made


def _of_words(package: Any, given: Keys, tokens: Tokens) -> Any:  # noqa: ANN401  # a package
    """Return a WordPiece: the longest tokens that make up each word, from its beginning on."""
    tokens.names = list(starmap(_as_word, zip(tokens.names, tokens.kinds, strict=True)))
    tokens.by_name = tokens.ids()
    if tokens.unknown is None:
        given.refuse("there is no token for unknown words")
    lower = given.flag("normalizer.lowercase", True)
    made = package.Tokenizer(
        package.models.WordPiece(tokens.by_name, unk_token=tokens.names[tokens.unknown])
    )
    made.normalizer = package.normalizers.BertNormalizer(
        lowercase=lower, strip_accents=given.flag("normalizer.strip_accents", lower)
    )
    made.pre_tokenizer = package.pre_tokenizers.BertPreTokenizer()
    made.decoder = package.decoders.WordPiece()
    tokens.begin = tokens.first if tokens.first is not None else tokens.begin
    tokens.end = tokens.separator if tokens.separator is not None else tokens.end
    _wrap(package, given, tokens, made, begin=True, end=True)
    return made


def _as_word(name: str, kind: int) -> str:
    """Return a token as WordPiece writes it: what goes on within a word begins with ##."""
    if kind != NORMAL or (name.startswith("[") and name.endswith("]")):
        return name
    return name[1:] if name.startswith(SPACE) else f"##{name}"


def _wrap(
    package: Any,  # noqa: ANN401  # a package
    given: Keys,
    tokens: Tokens,
    made: Any,  # noqa: ANN401  # of the package
    *,
    begin: bool = False,
    end: bool = False,
) -> None:
    """Put the tokens that belong there at the ends of each text."""
    first = tokens.begin if given.flag("add_bos_token", begin) else None
    last = tokens.end if given.flag("add_eos_token", end) else None
    if first is None and last is None:
        return
    ends = {name: id for name, id in (("first", first), ("last", last)) if id is not None}
    made.post_processor = package.processors.TemplateProcessing(
        single=[name for name in ("first", "$A", "last") if name == "$A" or name in ends],
        special_tokens=[
            {"id": name, "ids": [id], "tokens": [tokens.names[id]]} for name, id in ends.items()
        ],
    )


KINDS: Final[Mapping[str, Callable[[Any, Keys, Tokens], Any]]] = {
    "gpt2": _of_bytes,
    "gemma4": _of_bytes,
    "llama": _of_letters,
    "t5": _of_unigram,
    "bert": _of_words,
}
"""What makes a tokenizer, by what a file calls it."""

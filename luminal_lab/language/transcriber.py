"""Speech as tokens: a Whisper in two sessions, one for a sound and one for each step of its text.

samples ─ log_mel ─ sound ─ keys and values of each layer     once for a sound
token, past ─ the next token                                  for each step; these are kept
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np

from luminal_lab.devices.cpu.compiler import CPUCompiler
from luminal_lab.errors import ArgumentError, ModelError, ShapeError, whole_number
from luminal_lab.importing.weights import read_weights
from luminal_lab.language.decoder_files import unless_there
from luminal_lab.language.mel import HOP, RATE, WINDOW, log_mel
from luminal_lab.language.pooling import SUBJECT, read_entries
from luminal_lab.language.tokens import Tokenizer
from luminal_lab.nn.cache import KVCache
from luminal_lab.nn.models.keys import Keys
from luminal_lab.nn.models.whisper import Whisper, WhisperConfig, whisper_config
from luminal_lab.nn.weights import load_values
from luminal_lab.passes.generic import GenericCompiler
from luminal_lab.session import Graph
from luminal_lab.tensor.arguments import told_object

if TYPE_CHECKING:
    from luminal_lab.language.load import Folder

KIND: Final = "WhisperForConditionalGeneration"
"""The architecture that writes texts; others of Whisper have other heads."""
ALL: Final = 1 << 30


@told_object("transcriber", "transcriber.text({}) writes down a sound")
class Transcriber:
    """A Whisper that writes tokens of sounds, always the likeliest one.

    >>> from luminal_lab.language.transcriber import Transcriber
    >>> from luminal_lab.nn.models.whisper import Whisper, WhisperConfig
    >>> config = WhisperConfig(8, 1, 1, 2, 2, 16, 16, vocab=20, positions=50, start=3, end=2)
    >>> transcriber = Transcriber(Whisper(config).initialise(seed=0))
    >>> len(transcriber.tokens(np.zeros(16_000), most=4))
    4
    """

    def __init__(
        self,
        model: Whisper,
        *,
        device: Any = None,  # noqa: ANN401  # whatever `cx.compile` takes
        suppress: Iterable[int] = (),
        begin_suppress: Iterable[int] = (),
        tokenizer: Tokenizer | None = None,
        prompt: Sequence[int] | None = None,
    ) -> None:
        self.model, self.tokenizer, self.prompt = model, tokenizer, prompt
        c = model.config
        self.seconds = 2 * c.positions / 100
        """The seconds of a sound."""
        self._barred = np.zeros((2, c.vocab), "float32")  # at the begin, and later
        self._barred[:, [*suppress]] = -np.inf
        self._barred[0, [*begin_suppress]] = -np.inf

        self.listening = cx = Graph("listen")
        """The session that reads a sound."""
        self._sound = cx.tensor((1, c.bins, 2 * c.positions), name="sound")
        self._memory = [*model.remember(self._sound)]
        cx.retrieve(self._memory)

        self.writing = cx = Graph("write")
        """The session that writes a token."""
        self._new = cx.tensor((1, "seq"), "int64", "new")
        shape = 1, c.positions, c.width
        self._kept = [
            (cx.tensor(shape, name=f"keys.{k}"), cx.tensor(shape, name=f"values.{k}"))
            for k in range(c.decoder_layers)
        ]
        self._not = cx.tensor((c.vocab,), name="barred")
        self._cache = KVCache(cx, c.context)
        last = model.model.decoder(self._new, self._kept, self._cache)[0, -1]
        self._best = (model.proj_out(last) + self._not).argmax().retrieve()
        for graph in (self.listening, self.writing):
            graph.compile(GenericCompiler(), CPUCompiler() if device is None else device)

    def text(self, samples: object, *, prompt: str | None = None, most: int = ALL) -> str:
        """Return the text of a sound: samples from -1 to 1, 16,000 of a second.

        A `prompt` is a text of special tokens. A model of many languages needs one, such as
        "<|startoftranscript|><|en|><|transcribe|><|notimestamps|>".

        >>> import pytest
        >>> tokenizers = pytest.importorskip("tokenizers")
        >>> from luminal_lab.language.tokens import Tokenizer
        >>> from luminal_lab.language.transcriber import Transcriber
        >>> from luminal_lab.nn.models.whisper import Whisper, WhisperConfig
        >>> words = tokenizers.models.WordLevel({f"w{id}": id for id in range(20)}, "w0")
        >>> tokenizer = Tokenizer(tokenizers.Tokenizer(words))
        >>> config = WhisperConfig(8, 1, 1, 2, 2, 16, 16, vocab=20, positions=50, start=3, end=2)
        >>> model = Whisper(config).initialise(seed=0)
        >>> transcriber = Transcriber(model, tokenizer=tokenizer, prompt=[3])
        >>> len(transcriber.text(np.zeros(16_000), most=2).split())
        2
        """
        if self.tokenizer is None:
            raise ArgumentError(
                "transcriber: there is no tokenizer, which makes a text of tokens",
                hint="ll.load reads that of a folder; tokens(…) needs none",
            )
        if prompt is None and self.prompt is None:
            raise ArgumentError(
                "transcriber: there is no prompt, and the model knows many languages",
                hint="say which: "
                'prompt="<|startoftranscript|><|en|><|transcribe|><|notimestamps|>"',
            )
        rows = None if prompt is None else self.tokenizer.encode(prompt, special=False)
        return self.tokenizer.decode(self.tokens(samples, prompt=rows, most=most))

    def tokens(
        self, samples: object, *, prompt: Sequence[int] | None = None, most: int = ALL
    ) -> list[int]:
        """Return the tokens of a sound: samples from -1 to 1, 16,000 of a second.

        They follow the `prompt`, which says in which language and to what end, and by default is
        the transcriber's own, or the first token alone. They end before the token that ends a
        text, at `most` tokens, or where the model's context ends.

        >>> from luminal_lab.language.transcriber import Transcriber
        >>> from luminal_lab.nn.models.whisper import Whisper, WhisperConfig
        >>> config = WhisperConfig(8, 1, 1, 2, 2, 16, 16, vocab=20, positions=50, start=3, end=2)
        >>> transcriber = Transcriber(Whisper(config).initialise(seed=0))
        >>> len(transcriber.tokens(np.zeros(16_000), prompt=[3, 7], most=2))
        2
        """
        features = log_mel(samples, bins=self.model.config.bins, seconds=self.seconds)
        return self.tokens_of(features, prompt=prompt, most=most)

    def tokens_of(
        self, features: object, *, prompt: Sequence[int] | None = None, most: int = ALL
    ) -> list[int]:
        """Return the tokens of log-mel features [bins, frames]."""
        config = self.model.config
        given = self.prompt if prompt is None else prompt
        rows = [config.start] if given is None else [*given]
        for id in rows:
            if whole_number(id) is None or not 0 <= id < config.vocab:
                raise ArgumentError(
                    f"transcriber: the prompt has {id!r}, and tokens are below {config.vocab}"
                )
        if not 1 <= len(rows) <= config.context:
            raise ShapeError(
                f"transcriber: the prompt has {len(rows)} tokens, and the context is "
                f"{config.context}",
                hint="give the first token at least",
            )
        self._sound.set(np.asarray(features)[None])
        self.listening.execute()
        self.listening.transfer(self._memory, self._kept)
        self._not.set(self._barred[0])
        self._cache.begin()
        text: list[int] = []
        most = min(most, config.context - len(rows))
        while len(text) < most:
            self._cache.advance()
            self._new.set([rows])
            self.writing.execute()
            rows = [int(self._best.item())]
            if rows == [config.end]:
                break
            if not text:
                self._not.set(self._barred[1])
            text += rows
        return text


def of_whisper(folder: Folder) -> Transcriber:
    """Return the Whisper of a folder."""
    base = folder.stack.base
    names = folder.config.get("architectures")
    if names != [KIND]:
        raise ModelError(
            f"{SUBJECT}: the architectures of {base / 'config.json'} are {names!r:.80}",
            hint=f"{KIND} is the one that writes texts",
        )
    config = whisper_config(folder.config)
    heard = cast("dict[str, object]", read_entries(base / "preprocessor_config.json", dict))
    _hears_so(Keys("preprocessor_config.json", heard), config)
    written = cast("dict[str, object]", read_entries(base / "generation_config.json", dict))
    keys = Keys("generation_config.json", written)
    start = keys.whole("decoder_start_token_id", default=config.start)
    config = replace(config, start=start, end=keys.whole("eos_token_id", default=config.end))
    plain = keys.maybe("no_timestamps_token_id")
    is_plain = not keys.flag("is_multilingual", default=False)
    tokenizer = Tokenizer(base / "tokenizer.json", subject=SUBJECT)
    unless_there(base)
    model = Whisper(config)
    stored = read_weights(base, SUBJECT).parameters()
    stored.pop("proj_out.weight", None)  # the embeddings again
    values = {name: parameter.value.astype("float32") for name, parameter in stored.items()}
    load_values(SUBJECT, [*model.parameters().items()], values, strict=True)
    return Transcriber(
        model,
        device=folder.device,
        suppress=_barred(keys, "suppress_tokens", config),
        begin_suppress=_barred(keys, "begin_suppress_tokens", config),
        tokenizer=tokenizer,
        prompt=[start, *([] if plain is None else [plain])] if is_plain else None,
    )


def _hears_so(keys: Keys, config: WhisperConfig) -> None:
    """Raise an error if features are not those of `log_mel`."""
    seconds = 2 * config.positions * HOP / RATE
    keys.only("feature_extractor_type", "WhisperFeatureExtractor")
    keys.only("feature_size", config.bins)
    keys.only("sampling_rate", RATE)
    keys.only("n_fft", WINDOW)
    keys.only("hop_length", HOP)
    keys.only("chunk_length", *([int(seconds)] if seconds == int(seconds) else []), seconds)
    keys.only("do_normalize", False)
    keys.only("dither", 0.0, 0)
    keys.only("padding_value", 0.0, 0)


def _barred(keys: Keys, name: str, config: WhisperConfig) -> Sequence[int]:
    """Return the tokens of a list that are never written."""
    ids = keys.list(name, kind=int) or []
    if any(not 0 <= id < config.vocab for id in ids):
        raise keys.wrong(name, f"tokens are from 0 to {config.vocab - 1}")
    return ids

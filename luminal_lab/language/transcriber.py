"""Speech as tokens: a Whisper in two sessions, one for a sound and one for each step of its text.

samples ─ log_mel ─ sound ─ keys and values of each layer     once for a sound
token, past ─ the next token                                  for each step; these are kept
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np
from typing_extensions import override

from luminal_lab.core.binding import as_array
from luminal_lab.core.op import tuple_text
from luminal_lab.devices.cpu.compiler import CPUCompiler
from luminal_lab.errors import (
    ArgumentError,
    InputError,
    ModelError,
    ShapeError,
    counted,
    whole_number,
)
from luminal_lab.importing.weights import read_weights
from luminal_lab.language.decoder_files import unless_there
from luminal_lab.language.languages import code_of
from luminal_lab.language.mel import HOP, RATE, WINDOW, Floats, log_mel
from luminal_lab.language.pooling import SUBJECT, read_entries
from luminal_lab.language.sound import read_wav
from luminal_lab.language.tokens import Tokenizer
from luminal_lab.nn.cache import KVCache
from luminal_lab.nn.models.keys import Keys
from luminal_lab.nn.models.whisper import Whisper, WhisperConfig, whisper_config
from luminal_lab.nn.weights import load_values
from luminal_lab.passes.generic import GenericCompiler
from luminal_lab.reading import shown
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
        languages: Mapping[str, int] | None = None,
        tasks: Mapping[str, Sequence[int]] | None = None,
        language: str | None = None,
        task: str = "transcribe",
    ) -> None:
        self.model, self.tokenizer, self.prompt = model, tokenizer, prompt
        self.languages = dict(languages or {})
        """The token of each language that it knows, by codes such as "en"."""
        self.tasks = {name: [*ids] for name, ids in (tasks or {}).items()}
        """The tokens behind the language, for "transcribe" and "translate"."""
        self.language, self.task = language, task
        c = model.config
        self.seconds = 2 * c.positions / 100
        """The seconds of a sound."""
        suppress, begin_suppress = [*suppress], [*begin_suppress]
        behind = [id for ids in self.tasks.values() for id in ids]
        for id in (*suppress, *begin_suppress, *self.languages.values(), *behind):
            if whole_number(id) is None or not 0 <= id < c.vocab:
                raise ArgumentError(
                    f"transcriber: there is no token {shown(id)}",
                    hint=f"they are whole numbers below {c.vocab:,}",
                )
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
            chosen = CPUCompiler() if device is None else device
            graph.compile(GenericCompiler(), chosen, keep=True)

    def text(
        self,
        samples: object,
        *,
        language: str | None = None,
        task: str | None = None,
        prompt: str | None = None,
        most: int = ALL,
    ) -> str:
        """Return the text of a sound: a WAV file, or samples from -1 to 1, 16,000 of a second.

        A model of many languages hears which it is, unless a `language` is given by its code or
        its name, as in "en" or "English"; its `task` is to "transcribe", or to "translate" into
        English. A `prompt`, a text of special tokens, stands for both.

        >>> import tokenizers
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
        if prompt is not None and (language is not None or task is not None):
            raise ArgumentError(
                "transcriber: a prompt is given, and a language or a task",
                hint="the prompt says both: give one or the other",
            )
        if prompt is None and self.prompt is None and not self.languages:
            raise ArgumentError(
                "transcriber: there is no prompt, and nothing says which tokens are languages",
                hint="say which: "
                'prompt="<|startoftranscript|><|en|><|transcribe|><|notimestamps|>"',
            )
        features = self._features(samples)
        rows = None if prompt is None else self.tokenizer.encode(prompt, special=False)
        if rows is None and (self.prompt is None or language is not None or task is not None):
            rows = self._prompt(features, language, task)
        return self.tokenizer.decode(self.tokens_of(features, prompt=rows, most=most))

    def detect(self, samples: object) -> str:
        """Return the code of the language that is spoken in a sound, as in "en".

        It is the likeliest of the languages' tokens behind the one that begins a text.

        >>> from luminal_lab.language.transcriber import Transcriber
        >>> from luminal_lab.nn.models.whisper import Whisper, WhisperConfig
        >>> config = WhisperConfig(8, 1, 1, 2, 2, 16, 16, vocab=20, positions=50, start=3, end=2)
        >>> model = Whisper(config).initialise(seed=0)
        >>> transcriber = Transcriber(model, languages={"en": 7})
        >>> transcriber.detect(np.zeros(16_000))
        'en'
        """
        return self._detected(self._features(samples))

    def _detected(self, features: object) -> str:
        self._unless_many("no language can be detected")
        self._listen(features)
        self._cache.begin()
        mask = np.full(self.model.config.vocab, -np.inf, "float32")
        mask[[*self.languages.values()]] = 0
        self._not.set(mask)
        best = self._step([self.model.config.start])
        return next(code for code, id in self.languages.items() if id == best)

    def _prompt(self, features: object, language: str | None, task: str | None) -> list[int]:
        """Return the tokens that say in which language a text is, and to what end."""
        self._unless_many("it takes neither a language nor a task")
        task, said = task or self.task, language or self.language
        code = code_of(said, self.languages) if said else self._detected(features)
        for name, what, known in (("language", code, self.languages), ("task", task, self.tasks)):
            ArgumentError.unless_known(
                what,
                known,
                f"transcriber: the {name} is {shown(what)}",
                f"there is {', '.join(map(repr, sorted(known)))}",
            )
        return [self.model.config.start, self.languages[code], *self.tasks[task]]

    def _unless_many(self, what: str) -> None:
        if not self.languages:
            raise ArgumentError(
                f"transcriber: the model knows one language alone, so {what}",
                hint="a model of many is published with the key lang_to_id",
            )

    def _features(self, samples: object) -> Floats:
        """Return the log-mel features of a sound, which may be a file."""
        is_file = isinstance(samples, str | Path)
        sound = read_wav(samples) if is_file else as_array(samples, "transcriber: the sound")
        if sound.ndim != 1 or not len(sound):
            channels = min(sound.shape, default=0)
            raise InputError(
                f"transcriber: the samples are {sound.dtype} {tuple_text(sound.shape)}, and must "
                "be those of one channel",
                hint=f"the mean of channels is one: samples.mean({sound.shape.index(channels)})"
                if sound.ndim == 2
                else "give an array of samples, 16,000 of a second, or a WAV file",
            )
        return log_mel(sound, bins=self.model.config.bins, seconds=self.seconds)

    def tokens(
        self, samples: object, *, prompt: Sequence[int] | None = None, most: int = ALL
    ) -> list[int]:
        """Return the tokens of a sound: a WAV file, or samples from -1 to 1, 16,000 of a second.

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
        return self.tokens_of(self._features(samples), prompt=prompt, most=most)

    def tokens_of(
        self, features: object, *, prompt: Sequence[int] | None = None, most: int = ALL
    ) -> list[int]:
        """Return the tokens of log-mel features [bins, frames]."""
        config = self.model.config
        given = self.prompt if prompt is None else prompt
        if given is not None and not isinstance(given, list | tuple):  # a caller may err
            raise ArgumentError(
                f"transcriber: the prompt is {shown(given)}",
                hint="give a list of tokens; text(…) takes one in words",
            )
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
        if (count := whole_number(most)) is None or count < 0:
            raise ArgumentError(
                f"transcriber: most is {shown(most)}", hint="give a whole number of tokens"
            )
        self._listen(features)
        self._not.set(self._barred[0])
        self._cache.begin()
        text: list[int] = []
        most = min(count, config.context - len(rows))
        while len(text) < most:
            rows = [self._step(rows)]
            if rows == [config.end]:
                break
            if not text:
                self._not.set(self._barred[1])
            text += rows
        return text

    @override
    def __repr__(self) -> str:
        many = f", {counted(len(self.languages), 'language')}" if self.languages else ""
        return f"<Transcriber: sounds of {self.seconds:g} s{many}>"

    def _listen(self, features: object) -> None:
        """Give the decoder what its layers read of a sound."""
        self._sound.set(np.asarray(features)[None])
        self.listening.execute()
        self.listening.transfer(self._memory, self._kept)

    def _step(self, rows: Sequence[int]) -> int:
        """Return the likeliest token behind some new ones."""
        self._cache.advance()
        self._new.set([[*rows]])
        self.writing.execute()
        return int(self._best.item())


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
    _hears_so(_heard(base), config)
    written = cast("dict[str, object]", read_entries(base / "generation_config.json", dict))
    keys = Keys("generation_config.json", written)
    start = keys.whole("decoder_start_token_id", default=config.start)
    config = replace(config, start=start, end=keys.whole("eos_token_id", default=config.end))
    plain = keys.maybe("no_timestamps_token_id")
    end = [] if plain is None else [plain]
    is_plain = not keys.flag("is_multilingual", default=False)
    spoken = keys.get("language", default=None)
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
        prompt=[start, *end] if is_plain else None,
        languages={} if is_plain else _ids(keys, "lang_to_id", config),
        tasks={name: [id, *end] for name, id in _ids(keys, "task_to_id", config).items()},
        language=None if spoken is None else str(spoken),
        task=keys.word("task", default="transcribe"),
    )


def _heard(base: Path) -> Keys:
    """Return what a folder says of features: in a file of its own, or in that of the processor."""
    name, inner = "preprocessor_config.json", "feature_extractor"
    path = base / "processor_config.json"
    if not (base / name).exists() and path.exists():
        whole = cast("dict[str, object]", read_entries(path, dict))
        if (keys := Keys(path.name, whole).inner(inner)) is not None:
            return keys
    return Keys(name, cast("dict[str, object]", read_entries(base / name, dict)))


def _ids(keys: Keys, name: str, config: WhisperConfig) -> dict[str, int]:
    """Return tokens by what they stand for, without the <| and |> around it."""
    ids = keys.inner(name)
    known = [*ids.given] if ids is not None else []
    return {
        word.strip("<|>"): ids.whole(word, most=config.vocab - 1)
        for word in known
        if ids is not None
    }


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

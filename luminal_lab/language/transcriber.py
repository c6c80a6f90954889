"""Speech as tokens: a Whisper in two sessions, one for a sound and one for each step of its text.

samples ─ log_mel ─ sound ─ keys and values of each layer     once for a sound
token, past ─ the next token                                  for each step; these are kept
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import numpy as np

from luminal_lab.devices.cpu.compiler import CPUCompiler
from luminal_lab.errors import ArgumentError, ShapeError, whole_number
from luminal_lab.language.mel import log_mel
from luminal_lab.nn.cache import KVCache
from luminal_lab.nn.models.whisper import Whisper
from luminal_lab.passes.generic import GenericCompiler
from luminal_lab.session import Graph
from luminal_lab.tensor.arguments import told_object

ALL: Final = 1 << 30


@told_object("transcriber")
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
    ) -> None:
        self.model = model
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

    def tokens(
        self, samples: object, *, prompt: Sequence[int] | None = None, most: int = ALL
    ) -> list[int]:
        """Return the tokens of a sound: samples from -1 to 1, 16,000 of a second.

        They follow the `prompt`, which says in which language and to what end, and by default is
        the first token alone. They end before the token that ends a text, at `most` tokens, or
        where the model's context ends.

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
        rows = [config.start] if prompt is None else [*prompt]
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

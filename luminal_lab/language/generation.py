"""A text as it is generated: piece by piece, to be broken off and gone on with at any point.

    tokens ─ logits ─ Sampler ─ id ─ TextStream ─ whole letters ─ StopText ─ Piece.text
      └──────────────────────── id ┘

The iterator keeps what it has made, so that an interrupted loop loses nothing: whoever asks for the
next piece gets the one behind the last, and `result()` goes on to the end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from typing_extensions import override

from luminal_lab.errors import Interrupted, counted
from luminal_lab.interrupts import held
from luminal_lab.tensor.arguments import told_object

if TYPE_CHECKING:
    from luminal_lab.language.decoding import Decoding
    from luminal_lab.language.sampling import Sampler
    from luminal_lab.language.stopping import StopText
    from luminal_lab.language.tokens import TextStream

Stop: TypeAlias = Literal["end", "stop", "length", "full"]
REASONS: Final = {
    "end": "the model ended it",
    "stop": "a stop string was reached",
    "length": "it has as many tokens as were asked for",
    "full": "there is no room for more",
}
"""Why a text ends."""


@dataclass(frozen=True)
class Piece:
    """What a step adds to a text: a token, and the letters that are whole by now."""

    index: int
    id: int
    text: str
    logprob: float
    """The natural logarithm of the token's probability, as the model gives it."""
    seconds: float
    """How long the step took; of the first one, with the prompt."""


@dataclass(frozen=True, repr=False)
class GeneratedText:
    """A text that was generated, and how."""

    text: str
    ids: tuple[int, ...]
    stopped: Stop
    """Why it ends: "end" of the text, a "stop" string, the "length" asked for, or "full"."""
    prompt_tokens: int
    reused_tokens: int
    """How many of the prompt's tokens were in the cache already."""
    prompt_seconds: float
    seconds: float
    """What the tokens behind the first one took."""
    compile_seconds: float = 0.0
    """What its graphs and kernels took before; 0 if they were there already."""

    @property
    def prompt_rate(self) -> float:
        """The prompt's tokens per second, without those that were in the cache already."""
        return _rate(self.prompt_tokens - self.reused_tokens, self.prompt_seconds)

    @property
    def rate(self) -> float:
        """The tokens per second, behind the first one."""
        return _rate(len(self.ids) - 1, self.seconds)

    @override
    def __str__(self) -> str:
        return self.text

    @override
    def __repr__(self) -> str:
        return (
            f"<GeneratedText: {counted(len(self.ids), 'token')}{_at(self.rate)} behind "
            f"{self.prompt_tokens}{_at(self.prompt_rate)}; {REASONS[self.stopped]}>"
        )


@told_object("generation")
class Generation(Iterator[Piece]):
    """The pieces of a text; `lm.generate` and `lm.chat` return one.

    `text` and `ids` are those so far, and `stopped` says why it ended, once it has.

    >>> generation = lm.generate("Tell me", max_tokens=8)
    >>> len(list(generation)) == len(generation.ids)
    True
    >>> generation.stopped
    'length'
    """

    def __init__(
        self,
        decoding: Callable[[], Decoding],
        prompt: list[int],
        sampler: Sampler,
        stream: TextStream,
        stop: StopText,
        *,
        ends: frozenset[int],
        most: int | None,
    ) -> None:
        self._decoding = decoding
        self._tokens, self._prompt = list(prompt), len(prompt)
        self._sampler, self._stream, self._stop = sampler, stream, stop
        self._ends, self._most = ends, most
        self._reused, self._compiling = 0, 0.0
        self._pieces: list[Piece] = []
        self._given = 0  # those that the loop around it has
        self.stopped: Stop | None = None

    @property
    def text(self) -> str:
        """The text so far."""
        return "".join([piece.text for piece in self._pieces])

    @property
    def ids(self) -> list[int]:
        """The tokens so far."""
        return [piece.id for piece in self._pieces]

    @override
    def __iter__(self) -> Generation:
        return self

    @override
    def __next__(self) -> Piece:
        if self._given == len(self._pieces):
            if self.stopped is not None:
                raise StopIteration
            self._step()
        self._given += 1
        return self._pieces[self._given - 1]

    def result(self) -> GeneratedText:
        """Generate what is left, and return the whole text with its reason and its rates.

        >>> lm.generate("Tell me", max_tokens=8).result().stopped
        'length'
        """
        for _ in self:
            pass
        assert self.stopped is not None
        first, rest = self._pieces[0].seconds, self._pieces[1:]
        return GeneratedText(
            self.text,
            tuple(self.ids),
            self.stopped,
            self._prompt,
            self._reused,
            first,
            sum(piece.seconds for piece in rest),
            self._compiling,
        )

    def _step(self) -> None:
        """Add a piece, or nothing if Ctrl-C comes before there is one."""
        begin = perf_counter()
        decoding = self._decoding()
        reused = decoding.shared(self._tokens)
        if decoding.prepare(len(self._tokens) - reused):
            self._compiling += perf_counter() - begin
        begin = perf_counter()
        try:
            logits = decoding.logits(self._tokens)
        except KeyboardInterrupt:
            raise Interrupted(
                f"generate: stopped by Ctrl-C after {counted(len(self._pieces), 'token')}",
                hint="text and ids are those so far; the loop, or result(), goes on behind them",
            ) from None
        with held():  # neither is a number drawn for nothing, nor a letter lost
            id, logprob = self._sampler.pick(logits, self._tokens, prompt=self._prompt)
            self._tokens.append(id)
            index = len(self._pieces)
            if not index:
                self._reused = reused
            text = "" if id in self._ends else self._stop.add(self._stream.add(id))
            if id in self._ends:
                self.stopped = "end"
            elif index + 1 == self._most:
                self.stopped = "length"
            elif len(self._tokens) > decoding.capacity:
                self.stopped = "full"
            if self.stopped is not None:
                text += self._stop.add(self._stream.rest()) + self._stop.rest()
            if self._stop.is_stopped:
                self.stopped = "stop"
            self._pieces.append(Piece(index, id, text, logprob, perf_counter() - begin))

    @override
    def __repr__(self) -> str:
        state = "goes on" if self.stopped is None else REASONS[self.stopped]
        return f"<Generation: {counted(len(self._pieces), 'token')}; {state}>"


def _at(rate: float) -> str:
    """Return a rate in words; what took no time, as a text of one token, has none."""
    return f" at {rate:.1f}/s" if rate else ""


def _rate(count: int, seconds: float) -> float:
    return count / seconds if seconds > 0 else 0.0

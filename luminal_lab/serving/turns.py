"""Texts take turns: one graph, and a cache for each text that is under way.

    waiting ── admitted, in order ── a turn ── a turn ── … ── ended, or nobody waits for it
                                       │
                             up to TURN seconds: tokens of the prompt, or new ones

A decoder computes one text at a time. Whoever has its turn has the cache; the others' keys and
values lie on shelves, from where they come back without a copy. A shelf that is free keeps its
text, and the next prompt that begins with it need not read it again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from threading import Condition, Thread
from time import perf_counter
from typing import Final, TypeAlias

from luminal_lab.language.decoding import CHUNK, Decoding, Shelf
from luminal_lab.language.generation import Generation, Piece
from luminal_lab.language.model import LanguageModel
from luminal_lab.serving.http import ProblemError
from luminal_lab.serving.metrics import Metrics

TURN: Final = 0.03
"""The seconds after which another text has its turn."""
AT_ONCE: Final = 4
"""The texts that take turns; the others wait."""
WAITING: Final = 256
"""The most texts that wait."""
Told: TypeAlias = Callable[[Piece | Exception | None], None]


class Turn:
    """A text that somebody waits for."""

    def __init__(self, generation: Generation, prompt: Sequence[int], tell: Told) -> None:
        self.generation, self.prompt = generation, list(prompt)
        self._tell = tell
        self.is_cut = False
        self.cell: Cell | None = None
        self.asked = perf_counter()

    def cut(self) -> None:
        """End it: nobody waits for it any more."""
        self.is_cut = True

    def tell(self, what: Piece | Exception | None) -> None:
        """Say a piece, an error, or that it has ended."""
        if not self.is_cut:
            self._tell(what)


class Cell:
    """A cache: on a shelf, or in the graph, where `shelf` is None."""

    def __init__(self, shelf: Shelf | None) -> None:
        self.shelf = shelf


class Turns:
    """The texts of a model, in a thread."""

    def __init__(self, lm: LanguageModel, metrics: Metrics, at_once: int = AT_ONCE) -> None:
        self._lm, self._metrics, self._at_once = lm, metrics, at_once
        self._change = Condition()
        self._waiting, self._active = deque[Turn](), list[Turn]()
        self._cells = [Cell(None)]
        self._is_closed = False
        metrics.gauge("texts_waiting", "Texts that wait for a turn.", lambda: len(self._waiting))
        metrics.gauge("texts_now", "Texts that take turns.", lambda: len(self._active))
        self._thread = Thread(target=self._run, name="texts", daemon=True)
        self._thread.start()

    def submit(self, turn: Turn) -> None:
        """Let a text wait for its turns."""
        with self._change:
            if self._is_closed:
                raise ProblemError(503, "the server is stopping")
            if len(self._waiting) >= WAITING:
                raise ProblemError(503, "too many texts are waiting: try again later")
            self._waiting.append(turn)
            self._change.notify()

    def close(self) -> None:
        """End all texts, and the thread with them."""
        with self._change:
            self._is_closed = True
            left = [*self._waiting, *self._active]
            self._waiting.clear()
            self._change.notify()
        for turn in left:
            turn.tell(ProblemError(503, "the server is stopping"))
            turn.cut()
        self._thread.join()

    def _run(self) -> None:
        while True:
            with self._change:
                while not (self._is_closed or self._waiting or self._active):
                    self._change.wait()
                if self._is_closed:
                    return
                while self._waiting and len(self._active) < self._at_once:
                    turn = self._waiting.popleft()
                    if not turn.is_cut:
                        self._active.append(turn)
            for turn in [*self._active]:
                if self._is_closed:
                    return
                if not self._has_turn(turn):
                    turn.cell = None
                    self._active.remove(turn)

    def _has_turn(self, turn: Turn) -> bool:
        """Let a text go on for its time; return whether it goes on later."""
        begin = perf_counter()
        try:
            decoding = self._lm.decoding()
            self._enter(turn, decoding)
            while not turn.is_cut and not self._is_closed:
                if not self._step(turn, decoding):
                    return False
                if perf_counter() - begin > TURN and len(self._active) + len(self._waiting) > 1:
                    return True
        except Exception as error:
            turn.tell(error)
        return False

    def _step(self, turn: Turn, decoding: Decoding) -> bool:
        """Read some tokens of the prompt, or make a new one; return whether more is to come."""
        generation = turn.generation
        if not generation.ids:
            read = decoding.shared(turn.prompt)
            if len(turn.prompt) - read > CHUNK:  # a long prompt takes several turns, too
                decoding.logits(turn.prompt[: read + CHUNK])
                return True
        piece = next(generation)
        first = len(generation.ids) == 1
        if first:
            spent = perf_counter() - turn.asked
            self._metrics.observe("first_token_seconds", "Seconds to the first token.", spent)
            about = "Tokens of prompts."
            self._metrics.count("prompt_tokens", about, len(turn.prompt))
        self._metrics.count("tokens", "Tokens that were made.")
        turn.tell(piece)
        if generation.stopped is None:
            return True
        turn.tell(None)
        return False

    def _enter(self, turn: Turn, decoding: Decoding) -> None:
        """Give a text the graph's cache."""
        if turn.cell is None:
            turn.cell = self._cell(turn.prompt, decoding)
        if turn.cell.shelf is None:
            return
        now = next(cell for cell in self._cells if cell.shelf is None)
        decoding.exchange(turn.cell.shelf)
        now.shelf, turn.cell.shelf = turn.cell.shelf, None

    def _cell(self, prompt: Sequence[int], decoding: Decoding) -> Cell:
        """Return the free cell whose text has most in common with a prompt."""
        taken = {turn.cell for turn in self._active}
        free = [cell for cell in self._cells if cell not in taken]
        if len(self._cells) < self._at_once:
            free.append(Cell(Shelf()))

        def common(cell: Cell) -> int:
            held = decoding.held if cell.shelf is None else cell.shelf.held
            pairs = zip(held, prompt, strict=False)
            return next(
                (at for at, (a, b) in enumerate(pairs) if a != b), min(len(held), len(prompt))
            )

        best = max(free, key=lambda cell: (common(cell), cell.shelf is None))
        if best not in self._cells:
            self._cells.append(best)
        return best

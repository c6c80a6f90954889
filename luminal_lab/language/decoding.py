"""A decoder that reads tokens and says what may follow: its graph, its cache, and what is in it.

    tokens [1, seq] ─ layers ─ last position ─ head ─ logits [vocab]
                        │
                    cache[: past + seq]

One compile serves a prompt of any length and every step behind it. A prompt is read in chunks, and
what it has in common with the last one is in the cache already.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, TypeAlias, cast, get_args

import numpy as np

from luminal_lab.core.dtypes import Array
from luminal_lab.core.op import ints
from luminal_lab.core.origin import warn
from luminal_lab.devices.runtime.plan import RunPlan
from luminal_lab.devices.runtime.program import DeviceProgram
from luminal_lab.errors import ArgumentError, InputError
from luminal_lab.nn.cache import KVCache
from luminal_lab.nn.models.decoder import Decoder, DecoderConfig, ExpertsConfig
from luminal_lab.passes.bfloat16_activations import Bfloat16Activations
from luminal_lab.passes.compile import LICENCE
from luminal_lab.passes.generic import GenericCompiler
from luminal_lab.passes.int8_activations import Int8Activations
from luminal_lab.passes.pipeline import Pipeline
from luminal_lab.progress import progress
from luminal_lab.reading import shown
from luminal_lab.session import Graph
from luminal_lab.tensor import Tensor

Activations: TypeAlias = Literal["float32", "bfloat16", "int8"]
"""What is multiplied with weights of few bits: integers in a step, or bfloat16 in a prompt."""
MEANT_FOR: Final[Mapping[Activations, str]] = {
    "int8": "of fewer than eight bits a value",
    "bfloat16": "in bfloat16",
}
"""The weights that are multiplied by something else than float32 numbers."""
FLUSHING: Final = (*LICENCE, "no_subnormal")
"""The licence of products that may take subnormal numbers as 0."""
CHUNK: Final = 256
"""The tokens of a prompt that are computed at once."""


def checked(subject: str, activations: object) -> Activations:
    """Return what weights are multiplied with, if it is one of those that there are."""
    kinds = get_args(Activations)
    if activations not in kinds:
        raise ArgumentError(
            f"{subject} is {shown(activations)}",
            hint=f"give one of {', '.join(map(repr, kinds))}, or leave it out",
        )
    return cast("Activations", activations)


PASSES: Final[Mapping[Activations, tuple[Sequence[Pipeline], Sequence[str] | None]]] = {
    "float32": ((), None),
    "int8": ((Int8Activations(),), None),
    "bfloat16": ((Bfloat16Activations(),), FLUSHING),
}
"""What rounds activations, and the licence that its kernels need."""


class Reading:
    """A session that reads some tokens behind others, compiled when it first runs."""

    def __init__(
        self,
        name: str,
        model: Decoder,
        seq: int | str,
        capacity: int,
        activations: Activations = "float32",
    ) -> None:
        self._activations: Activations = activations
        self.session = cx = Graph(name)
        self._tokens = cx.tensor((1, seq), "int64", "tokens")
        self.cache = KVCache(cx, capacity)
        last = model.model(self._tokens, self.cache)[:, -1]
        self.logits = model.head(last)[0].cast("float32").named("logits").retrieve()
        self._tokens.set([[0]])  # so that the graph can be timed before it has read anything
        self.cache.begin()
        self.is_compiled = False

    def compile(self, device: Any) -> Graph:  # noqa: ANN401  # any compiler
        """Return the session, compiled."""
        if not self.is_compiled:
            passes, licence = PASSES[self._activations]
            self.session.compile(*passes, GenericCompiler(), device, licence=licence, keep=True)
            self.is_compiled = True
            self._tell_if_in_vain(passes)
        return self.session

    def _tell_if_in_vain(self, passes: Sequence[Pipeline]) -> None:
        """Warn if what was to round activations has found nothing to do."""
        names = {part.name for each in passes for part in each.flat() if part.rounds}
        if names and not names & self.session.compilation.changing:
            kind = self._activations
            warn(
                f"activations in {kind} change nothing: this model multiplies by no matrix "
                f"{MEANT_FOR[kind]}\nhint: leave activations out"
            )

    def plan(self, *, several: bool) -> None:
        """Plan the memory of a step, and of several tokens, which differ in what is computed."""
        compiled = self.session.compilation.program
        if isinstance(compiled, DeviceProgram):
            program = cast("DeviceProgram[RunPlan[Any]]", compiled)
            ids = program.ir.output_ids
            for seq in (1, 2) if several else (1,):
                sizes = {"seq": seq, "past": 0}
                program.plan(ids, dims=sizes).bound(sizes)

    def read(self, tokens: Sequence[int], past: int) -> None:
        """Compute some tokens behind so many others."""
        self.cache.begin(at=past)
        self._tokens.set(np.array([tokens], np.int64))
        self.session.execute()


class Shelf:
    """Where the keys and values of a text lie while another text has the cache."""

    def __init__(self) -> None:
        self.held: list[int] = []
        """The tokens that they are of."""
        self.rows: list[tuple[Tensor, Tensor]] = []


class Decoding:
    """A decoder with a cache for a number of tokens, compiled when it first runs.

    A model with experts has another session for prompts, which hands its cache on: there, all
    experts are given all tokens, and a step reads only those that its token chooses. So has one
    with `activations` of "int8", whose steps multiply integers, or of "bfloat16", whose prompts
    multiply such numbers with weights that are such numbers: each gains where the other does not.

    >>> from luminal_lab.nn.models.decoders import decoder_of
    >>> from luminal_lab.language.decoding import Decoding
    >>> model = decoder_of({"architectures": ["GPT2LMHeadModel"], "n_layer": 1, "n_head": 2,
    ...     "n_embd": 8, "vocab_size": 10, "n_positions": 16})
    >>> decoding = Decoding(model, capacity=16, device=ll.CPUCompiler())
    >>> decoding.logits([3, 1, 4]).shape
    (10,)
    >>> decoding.shared([3, 1, 5, 9])
    2
    """

    def __init__(
        self,
        model: Decoder,
        capacity: int,
        device: Any,  # noqa: ANN401  # any compiler
        activations: Activations = "float32",
    ) -> None:
        self.capacity, self.device = capacity, device
        self._model = model
        is_apart = any(isinstance(layer.feed, ExpertsConfig) for layer in model.config.layers)
        is_apart |= activations != "float32"
        self._of_prompts: Activations = of_prompts(activations)
        seq = 1 if is_apart else "seq"
        self._steps = Reading("decode", model, seq, capacity, of_steps(activations))
        self._prompts = None if is_apart else self._steps
        self._last = self._steps  # whose cache has the keys and values
        self.held: list[int] = []
        """The tokens whose keys and values are in the cache."""

    @property
    def session(self) -> Graph:
        """The session of a step, which reads prompts, too, unless these have one of their own."""
        return self._steps.session

    def compile(self) -> Graph:
        """Return the session of a step, compiled, with what the cache holds now."""
        self.prepare()
        return self._reading(1).session

    def prepare(self, tokens: int = 1) -> bool:
        """Compile what reads so many tokens, and a step; return whether that was still to be done.

        What is planned for the sizes of a run is planned here, too, and no part of a text's time.
        A step's session that reads no prompt takes a step ahead, for what a first run makes.
        """
        new = [reading for reading in self._needed(tokens) if not reading.is_compiled]
        for reading in new:
            reading.compile(self.device)
            reading.plan(several=reading is self._prompts)
        if tokens > 1 and self._steps in new and self._steps is not self._prompts:
            self._steps.read([0], past=0)
        return bool(new)

    def _needed(self, tokens: int) -> tuple[Reading, ...]:
        return (self._prompting(), self._steps) if tokens > 1 else (self._steps,)

    def shared(self, tokens: Sequence[int]) -> int:
        """Return how many of the first tokens are in the cache, all but the last one at most."""
        held, most = self.held, len(tokens) - 1
        if held == tokens[: len(held)]:  # as it is at each step
            return min(len(held), most)
        pairs = zip(held, tokens[:most], strict=False)
        return next((at for at, (a, b) in enumerate(pairs) if a != b), min(len(held), most))

    def logits(self, tokens: Sequence[int]) -> Array:
        """Return the logits [vocab] behind some tokens, of which only new ones are computed.

        Whatever was read before may be given, and anything else: the cache follows. If Ctrl-C
        comes, what was computed by then is kept.
        """
        if not 0 < len(tokens) <= self.capacity:
            raise InputError(f"logits: {len(tokens)} tokens, and there is room for {self.capacity}")
        begin, end = self.shared(tokens), len(tokens)
        if end - begin <= CHUNK:
            self._read(tokens[begin:], begin)
            return self._last.logits.numpy()
        with progress("read", end - begin, "token") as bar:
            for at in range(begin, end, CHUNK):
                chunk = tokens[at : at + CHUNK]
                self._read(chunk, at)
                bar.step(len(chunk))
        return self._last.logits.numpy()

    def exchange(self, shelf: Shelf) -> None:
        """Exchange what the cache holds with what lies on a shelf, without copying it.

        >>> from luminal_lab.language.decoding import Shelf
        >>> decoding, shelf = lm.decoding(), Shelf()
        >>> _ = decoding.logits([3, 1, 4])
        >>> decoding.exchange(shelf)
        >>> shelf.held, decoding.shared([3, 1, 4])
        ([3, 1, 4], 0)
        """
        reading = self._last
        if not shelf.rows:
            cx = Graph("shelf")
            shelf.rows = [
                (_beginning(cx, keys), _beginning(cx, values))
                for keys, values in reading.cache.buffers
            ]
        reading.session.swap(reading.cache.buffers, shelf.rows)
        self.held, shelf.held = shelf.held, self.held

    def _read(self, tokens: Sequence[int], past: int) -> None:
        """Run some tokens behind the first ones that are held."""
        reading = self._reading(len(tokens))
        cx = reading.compile(self.device)
        del self.held[past:]  # before its rows are written over
        count = cx.step
        try:
            reading.read(tokens, past)
        finally:  # a run may be over when Ctrl-C comes
            if cx.step > count:
                self.held += tokens

    def _prompting(self) -> Reading:
        """Return the session that reads several tokens, made when it is first needed."""
        if self._prompts is None:
            self._prompts = Reading("prompt", self._model, "seq", self.capacity, self._of_prompts)
        return self._prompts

    def _reading(self, count: int) -> Reading:
        """Return the session that reads so many tokens, with the cache."""
        reading = self._prompting() if count > 1 else self._steps
        if reading is not self._last:
            if self.held:
                reading.session.transfer(self._last.cache.buffers, reading.cache.buffers)
            self._last = reading
        return reading


def _beginning(cx: Graph, buffer: Tensor) -> Tensor:
    """Return an input like a buffer, which holds nothing yet."""
    zero, shape = np.zeros((), buffer.dtype.numpy), ints(buffer.shape)
    return cx.tensor(shape, buffer.dtype).set(lambda: np.broadcast_to(zero, shape))


def of_steps(activations: Activations) -> Activations:
    """Return what steps round to: integers do not pay for many rows."""
    return "int8" if activations == "int8" else "float32"


def of_prompts(activations: Activations) -> Activations:
    """Return what prompts round to: bfloat16 does not pay for one row."""
    return "bfloat16" if activations == "bfloat16" else "float32"


def cache_bytes(config: DecoderConfig, capacity: int) -> int:
    """Return the memory of the keys and values of so many tokens.

    >>> from luminal_lab.nn.models.decoders import from_config
    >>> config = from_config({"architectures": ["GPT2LMHeadModel"], "n_layer": 1, "n_head": 2,
    ...     "n_embd": 8, "vocab_size": 10, "n_positions": 16})
    >>> cache_bytes(config, 16)  # 8 keys and 8 values, of 4 bytes, for each token
    1024
    """
    parts = [layer.attention for layer in config.layers]
    return capacity * sum(2 * 4 * part.kv_heads * part.size for part in parts)

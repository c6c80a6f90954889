"""A decoder that reads tokens and says what may follow: its graph, its cache, and what is in it.

    tokens [1, seq] ─ layers ─ last position ─ head ─ logits [vocab]
                        │
                    cache[: past + seq]

One compile serves a prompt of any length and every step behind it. A prompt is read in chunks, and
what it has in common with the last one is in the cache already.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from luminal_lab.core.dtypes import Array
from luminal_lab.errors import InputError
from luminal_lab.nn.cache import KVCache
from luminal_lab.nn.models.decoder import Decoder, DecoderConfig
from luminal_lab.passes.generic import GenericCompiler
from luminal_lab.progress import progress
from luminal_lab.session import Graph

CHUNK: Final = 256
"""The tokens of a prompt that are computed at once."""


class Decoding:
    """A decoder with a cache for a number of tokens, compiled when it first runs.

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

    def __init__(self, model: Decoder, capacity: int, device: Any) -> None:  # noqa: ANN401  # any compiler
        self.capacity, self.device = capacity, device
        self.session = cx = Graph("decode")
        self._tokens = cx.tensor((1, "seq"), "int64", "tokens")
        self._cache = KVCache(cx, capacity)
        last = model.model(self._tokens, self._cache)[:, -1]
        self._logits = model.head(last)[0].cast("float32").named("logits").retrieve()
        self._tokens.set([[0]])  # so that the graph can be timed before it has read anything
        self._cache.begin()
        self.held: list[int] = []
        """The tokens whose keys and values are in the cache."""
        self.is_compiled = False

    def compile(self) -> Graph:
        """Return the session, compiled."""
        if not self.is_compiled:
            self.session.compile(GenericCompiler(), self.device)
            self.is_compiled = True
        return self.session

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
        self.compile()
        begin, end = self.shared(tokens), len(tokens)
        del self.held[begin:]  # before its rows are written over
        if end - begin <= CHUNK:
            self._read(tokens[begin:])
            return self._logits.numpy()
        with progress("read", end - begin, "token") as bar:
            for at in range(begin, end, CHUNK):
                chunk = tokens[at : at + CHUNK]
                self._read(chunk)
                bar.step(len(chunk))
        return self._logits.numpy()

    def _read(self, tokens: Sequence[int]) -> None:
        """Run some tokens behind those that are held."""
        self._cache.begin(at=len(self.held))
        self._tokens.set(np.array([tokens], np.int64))
        count = self.session.step
        try:
            self.session.execute()
        finally:  # a run may be over when Ctrl-C comes
            if self.session.step > count:
                self.held += tokens


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

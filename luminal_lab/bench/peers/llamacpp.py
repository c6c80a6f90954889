"""llama.cpp, by the functions that llama-cpp-python has of its library."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from importlib import import_module
from typing import Any

import numpy as np

from luminal_lab.bench.peers.peer import Peer, ReadyWorkload, memory
from luminal_lab.bench.workload import Arrays, Workload
from luminal_lab.core.dtypes import Array


class LlamaCpp(Peer):
    """llama.cpp as it is by default: a mapped file, a cache of 16-bit floats."""

    package = "llama-cpp-python"

    def __init__(self, threads: int) -> None:
        super().__init__(threads)
        self.llama: Any = import_module("llama_cpp").llama_cpp
        self.quiet = self.llama.llama_log_callback(_no_log)
        self.llama.llama_log_set(self.quiet, None)
        self.llama.llama_backend_init()

    def prefill(self, workload: Workload, d: Arrays) -> ReadyWorkload:
        model = LlamaModel(self, workload.path, len(d["tokens"]) + 1)
        tokens = d["tokens"].tolist()

        def run() -> LlamaModel:
            model.cut(0)
            return model.add(tokens)

        return ReadyWorkload(run, LlamaModel.read)

    def decode(self, workload: Workload, d: Arrays) -> ReadyWorkload:
        begin, steps = workload.sizes["past"], workload.sizes["steps"]
        model = LlamaModel(self, workload.path, begin + steps)
        *text, token = d["tokens"].tolist()
        model.add(text)

        def run() -> LlamaModel:
            if model.count == begin + steps:
                model.cut(begin)
            return model.add([token])

        return ReadyWorkload(run, LlamaModel.read)

    def first_token(self, workload: Workload, d: Arrays) -> ReadyWorkload:
        tokens = d["tokens"].tolist()

        def run() -> LlamaModel:
            return LlamaModel(self, workload.path, 512).add(tokens)

        return ReadyWorkload(run, LlamaModel.read, memory)


class LlamaModel:
    """A model with its cache, and how many positions are in it."""

    def __init__(self, peer: LlamaCpp, path: str, capacity: int) -> None:
        self.llama = llama = peer.llama
        self.model = llama.llama_model_load_from_file(
            path.encode(), llama.llama_model_default_params()
        )
        if not self.model:
            raise ValueError("llama.cpp cannot read the file")
        options = llama.llama_context_default_params()
        options.n_ctx, options.n_batch, options.n_ubatch = capacity, 512, 512
        options.n_threads = options.n_threads_batch = peer.threads
        self.context = llama.llama_init_from_model(self.model, options)
        self.batch = llama.llama_batch_init(512, 0, 1)
        self.vocab = llama.llama_vocab_n_tokens(llama.llama_model_get_vocab(self.model))
        self.count = 0
        weakref.finalize(self, _free, llama, self.batch, self.context, self.model).atexit = False

    def cut(self, to: int) -> None:
        """Forget the positions from one on."""
        self.llama.llama_memory_seq_rm(self.llama.llama_get_memory(self.context), 0, to, -1)
        self.count = to

    def add(self, tokens: Sequence[int]) -> LlamaModel:
        """Compute some positions, as many at once as it does by default."""
        for begin in range(0, len(tokens), 512):
            some, batch = tokens[begin : begin + 512], self.batch
            batch.n_tokens = len(some)
            for k, token in enumerate(some):
                batch.token[k], batch.pos[k] = token, self.count + k
                batch.n_seq_id[k], batch.seq_id[k][0] = 1, 0
                batch.logits[k] = begin + k + 1 == len(tokens)
            status = self.llama.llama_decode(self.context, batch)
            if status:
                raise ValueError(f"llama_decode returns {status}")
            self.count += len(some)
        self.llama.llama_synchronize(self.context)
        return self

    def read(self) -> list[Array]:
        """Return the logits of the last position."""
        logits = self.llama.llama_get_logits_ith(self.context, -1)
        return [np.ctypeslib.as_array(logits, (self.vocab,)).copy()]


def _no_log(level: int, text: bytes, data: object) -> None:
    """Say nothing."""


def _free(llama: Any, batch: Any, context: Any, model: Any) -> None:
    llama.llama_batch_free(batch)
    llama.llama_free(context)
    llama.llama_model_free(model)

"""What memory a model of language takes, known before a weight of it is read.

    weights          as their file has them, mapped
    keys and values  of each token of the context, in the cache
    on the way       values of a chunk of the prompt, or of a step: the compile's memory plan

The model is made by its shape alone: its blocks of few bits have no memory behind them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import Any, Final, cast

import numpy as np
from typing_extensions import override

from luminal_lab.core.op import ints
from luminal_lab.devices.cpu.compiler import CPUCompiler
from luminal_lab.devices.runtime.program import DeviceProgram
from luminal_lab.errors import ArgumentError, counted, nearest, whole_number
from luminal_lab.importing.detect import FileKind
from luminal_lab.importing.model_file import model_file
from luminal_lab.kernels.memory.plan import MemoryPlan
from luminal_lab.language.decoding import CHUNK, Activations, Reading, of_prompts, of_steps
from luminal_lab.nn.models.decoder import Decoder, DecoderConfig, ExpertsConfig
from luminal_lab.nn.models.decoder_weights import load_decoder
from luminal_lab.nn.models.decoders import ROWS, TYPES, from_config
from luminal_lab.nn.models.decoders_gguf import FORMATS, from_gguf
from luminal_lab.nn.packing import fitting
from luminal_lab.tensor.blocks import FORMS, Blocks, form_of

LONGEST: Final = 1 << 17
"""The most tokens of a context where nothing says how many a model takes."""


PLAIN: Final = re.compile(r"norm|bias|embed_positions|router|shared_expert_gate|xielu|act_fn")
"""The weights that stay float32 in files of few bits."""


def _k_m(path: str, config: DecoderConfig) -> str:
    """Return the form of a weight in llama.cpp's Q4_K_M: some weigh more, and get more bits."""
    if path == ("model.embed_tokens.weight" if config.tied else "lm_head.weight"):
        return "q6_k"
    layer = re.fullmatch(r"model\.layers\.(\d+)\.\w+\.(\w+)\.weight", path)
    if layer is None:
        return "q4_k"
    if layer[2] == "qkv_proj":
        return "q5_k"
    at, count = int(layer[1]), len(config.layers)
    is_costly = at < count // 8 or at >= 7 * count // 8 or (at - count // 8) % 3 == 2
    return "q6_k" if is_costly and layer[2] in ("v_proj", "down_proj") else "q4_k"


MIXES: Final[Mapping[str, Callable[[str, DecoderConfig], str]]] = {"q4_k_m": _k_m}
"""Mixes of forms, by the path of a weight."""


@dataclass(frozen=True, repr=False)
class ModelMemory:
    """What memory a model takes, in bytes; `print(…)` shows it.

    >>> from luminal_lab.language.memory import memory_plan
    >>> plan = memory_plan({"architectures": ["GPT2LMHeadModel"], "n_layer": 1, "n_head": 2,
    ...     "n_embd": 64, "vocab_size": 100, "n_positions": 1024}, "q8_0")
    >>> plan.token, plan.keys(1024)  # 64 keys and values of 4 bytes each
    (512, 524288)
    """

    weights: int
    token: int
    """Keys and values of a token."""
    most: int
    """The most tokens of a context."""
    program: MemoryPlan = field(compare=False)
    """Where the values on the way live."""
    steps: MemoryPlan | None = field(default=None, compare=False)
    """Where those of a step live, if it has a graph of its own."""

    def keys(self, context: int) -> int:
        """Return the bytes of the cache for a context."""
        return self.token * self._within(context)

    def chunk(self, context: int) -> int:
        """Return the bytes on the way of the last chunk of a prompt as long as the context."""
        size = min(CHUNK, self._within(context))
        return self._on_the_way(size, context - size)

    def step(self, context: int) -> int:
        """Return the bytes on the way of the last step in a context."""
        past = self._within(context) - 1
        if self.steps is not None:
            return self.steps.bind({"past": past}).arena_bytes
        return self._on_the_way(1, past)

    def total(self, context: int) -> int:
        """Return the bytes of all of it.

        >>> from luminal_lab.language.memory import memory_plan
        >>> plan = memory_plan({"architectures": ["GPT2LMHeadModel"], "n_layer": 1, "n_head": 2,
        ...     "n_embd": 64, "vocab_size": 100, "n_positions": 1024})
        >>> plan.total(10) == plan.weights + plan.keys(10) + plan.chunk(10)
        True
        """
        on_the_way = max(self.chunk(context), self.step(context))
        return self.weights + self.keys(context) + on_the_way

    def fits(self, memory: int) -> int:
        """Return the longest context for which so many bytes are enough; 0 if none is.

        >>> from luminal_lab.language.memory import memory_plan
        >>> plan = memory_plan({"architectures": ["GPT2LMHeadModel"], "n_layer": 1, "n_head": 2,
        ...     "n_embd": 64, "vocab_size": 100, "n_positions": 1024})
        >>> plan.fits(1 << 21), plan.fits(plan.weights)
        (1024, 0)
        """
        low, high = 0, self.most
        while low < high:
            middle = (low + high + 1) // 2
            fits = self.total(middle) <= memory
            low, high = (middle, high) if fits else (low, middle - 1)
        return low

    def needs(self, context: int) -> dict[str, int]:
        """Return the bytes of each part, by what they are for.

        >>> from luminal_lab.language.memory import memory_plan
        >>> plan = memory_plan({"architectures": ["GPT2LMHeadModel"], "n_layer": 1, "n_head": 2,
        ...     "n_embd": 64, "vocab_size": 100, "n_positions": 1024})
        >>> list(plan.needs(1024))[1]
        'keys and values of a context of 1,024 tokens, 512 each'
        """
        said = f"keys and values of a context of {counted(context, 'token')}, {self.token:,} each"
        size = min(CHUNK, self._within(context))
        return {
            "weights": self.weights,
            said: self.keys(context),
            f"values on the way of {counted(size, 'token')} of a prompt": self.chunk(context),
            "values on the way of a step": self.step(context),
        }

    def _on_the_way(self, seq: int, past: int) -> int:
        return self.program.bind({"seq": seq, "past": past}).arena_bytes

    def _within(self, context: int) -> int:
        size = whole_number(context)
        if size is None or not 1 <= size <= self.most:
            raise ArgumentError(
                f"memory: context is {context if size is None else f'{size:,}'}, and the model was "
                f"made for {self.most:,}",
                hint=f"give a number from 1 to {self.most}",
            )
        return size

    @override
    def __str__(self) -> str:
        needs = self.needs(min(self.most, 4096))
        return "\n".join(f"{size:>17,} bytes for {what}" for what, size in needs.items())

    @override
    def __repr__(self) -> str:
        return (
            f"<ModelMemory: {self.weights:,} bytes and {self.token:,} a token; print(…) shows it>"
        )


def memory_plan(config: Mapping[str, object] | DecoderConfig, form: str = "float32") -> ModelMemory:
    """Return what memory a model takes, by its `config.json` and the form of its weights.

    The form is one of GGUF's blocks ("q8_0", "q4_k", "bf16", …), the mix "q4_k_m", or "float32".
    Nothing of the size of the model is made, and nothing is run.

    >>> from luminal_lab.language.memory import memory_plan
    >>> told = {"architectures": ["LlamaForCausalLM"], "hidden_size": 256, "num_hidden_layers": 2,
    ...     "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 512,
    ...     "vocab_size": 1000, "max_position_embeddings": 4096}
    >>> plan = memory_plan(told, "q8_0")
    >>> plan
    <ModelMemory: 1,802,496 bytes and 2,048 a token; print(…) shows it>
    >>> plan.needs(2048)["values on the way of a step"] < plan.token * 100
    True
    """
    known = [*FORMS, *MIXES, "float32"]
    if form not in known:
        raise ArgumentError(
            f"memory: there is no form {form!r}",
            hint=nearest(str(form), known) or f"the forms: {', '.join(known)}",
        )
    made = config if isinstance(config, DecoderConfig) else from_config(config)
    return plan_of(by_shape(made, form))


def by_shape(config: DecoderConfig, form: str) -> Decoder:
    """Return a decoder whose matrices are in a form, and have no memory behind them.

    >>> from luminal_lab.language.memory import by_shape
    >>> from luminal_lab.nn.models.decoders import from_config
    >>> config = from_config({"architectures": ["GPT2LMHeadModel"], "n_layer": 1, "n_head": 2,
    ...     "n_embd": 256, "vocab_size": 100, "n_positions": 1024})
    >>> by_shape(config, "q4_k").model.embed_tokens.weight.blocks
    <Blocks q4_k (100, 256): 14,400 bytes>
    """
    model = Decoder(config)
    if form in MIXES and any(isinstance(layer.feed, ExpertsConfig) for layer in config.layers):
        raise ArgumentError(
            f"memory: {form} of a model with experts is not known here",
            hint="give its file to luminal-lab models inspect, or another form",
        )
    for path, parameter in model.parameters().items():
        if form == "float32" or PLAIN.search(path):
            continue
        shape = ints(parameter.shape)
        wanted = MIXES[form](path, config) if form in MIXES else form
        if kind := fitting(wanted, shape):
            blocks = form_of(kind)
            none = np.zeros((), blocks.dtype.numpy)
            raw = np.broadcast_to(none, blocks.raw_shape(shape))
            parameter.set(Blocks(blocks, raw, shape), copy=False)
    return model


def plan_of(model: Decoder, activations: Activations = "float32") -> ModelMemory:
    """Return what memory a decoder takes whose weights are blocks, mapped, or not yet read.

    >>> from luminal_lab.language.memory import plan_of
    >>> from luminal_lab.nn.models.decoders import decoder_of
    >>> model = decoder_of({"architectures": ["GPT2LMHeadModel"], "n_layer": 1, "n_head": 2,
    ...     "n_embd": 8, "vocab_size": 10, "n_positions": 16})
    >>> plan_of(model).keys(16)
    1024
    """
    most = model.config.context or LONGEST
    values = [*model.parameters().values(), *model.buffers().values()]
    weights = sum(
        p.blocks.raw.nbytes if p.blocks else prod(ints(p.shape)) * p.dtype.itemsize for p in values
    )
    reading = Reading("decode", model, "seq", most, of_prompts(activations))
    buffers = [buffer for pair in reading.cache.buffers for buffer in pair]
    kept = sum(prod(ints(b.shape)) * b.dtype.itemsize for b in buffers)
    steps = None
    if activations != "float32":
        steps = _planned(Reading("decode", model, 1, most, of_steps(activations)))
    return ModelMemory(weights, kept // most, most, _planned(reading), steps)


def _planned(reading: Reading) -> MemoryPlan:
    compilation = reading.compile(CPUCompiler()).compilation
    return cast("DeviceProgram[Any]", compilation.program).memory_plan


def plan_of_file(path: str | Path, activations: Activations = "float32") -> ModelMemory | None:
    """Return what memory the model of a file or a folder takes, or None if it holds no decoder.

    >>> from luminal_lab.language.memory import plan_of_file
    >>> ll.nn.Linear(2, 3).save(folder / "head.safetensors")
    >>> plan_of_file(folder / "head.safetensors") is None
    True
    """
    file = model_file(path, "memory")
    told = file.entries
    if file.kind is FileKind.GGUF:
        if told.get("general.architecture") not in FORMATS:
            return None
        return plan_of(load_decoder(from_gguf(told, file), file), activations)
    names = told.get("architectures")
    kinds = [*cast("list[object]", names)] if isinstance(names, list) else []
    if told.get("model_type") not in TYPES and not any(kind in ROWS for kind in kinds):
        return None
    return plan_of(load_decoder(from_config(told), file), activations)

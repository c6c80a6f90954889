"""Language models from their files: a GGUF file has all that there is, a folder has it in several.

    model.gguf                 keys: the architecture, the tokens, the template; and the weights
    folder/config.json         the architecture and its sizes
    folder/*.safetensors       the weights
    folder/tokenizer.json      the tokens
    folder/tokenizer_config.json, chat_template.jinja, generation_config.json

Weights stay in the mapped file, in as many bits as they have there.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from luminal_lab.errors import ArgumentError, DeviceError, InputError, ModelError, counted
from luminal_lab.importing.detect import REASONS, FileKind
from luminal_lab.importing.model_file import ModelFile, ValueType, model_file
from luminal_lab.language.chat import chat_template_of
from luminal_lab.language.decoding import cache_bytes
from luminal_lab.language.gguf_tokens import tokenizer_of_gguf
from luminal_lab.language.model import CONTEXT, LanguageModel
from luminal_lab.language.pooling import SUBJECT
from luminal_lab.language.tokens import Tokenizer
from luminal_lab.machines.here import available_memory
from luminal_lab.nn.models.decoder import DecoderConfig
from luminal_lab.nn.models.decoder_weights import load_decoder
from luminal_lab.nn.models.decoders import from_config
from luminal_lab.nn.models.decoders_gguf import from_gguf
from luminal_lab.tensor.blocks import FORMS

if TYPE_CHECKING:
    from luminal_lab.language.load import Folder

SMALLER: Final = ("bf16", "q8_0", "q6_k", "q4_k")
"""Forms that a model which is too large may be had in, the best ones first."""


def of_gguf(path: Path, device: Any, context: int | None) -> LanguageModel:  # noqa: ANN401  # any compiler
    """Return the model of a GGUF file."""
    file = model_file(path, SUBJECT)
    config = from_gguf(file.entries, file)
    room = _room(config, context, file.types)
    kind = file.entries.get("general.name") or file.entries.get("general.architecture")
    return LanguageModel(
        str(kind)[:80],
        load_decoder(config, file),
        tokenizer_of_gguf(file.entries, path),
        template=lambda: chat_template_of(file.entries, path),
        context=room,
        device=device,
    )


def of_folder(folder: Folder) -> LanguageModel:
    """Return the model of a folder with safetensors."""
    base = folder.stack.base
    if folder.stack.heads or (folder.path / "modules.json").exists():
        raise ModelError(
            f"{SUBJECT}: {folder.path} has a decoder that makes vectors, by its modules.json",
            hint="encoders make vectors here; without that file the model generates texts",
        )
    file = _weights(folder, base)
    config = from_config(folder.config)
    room = _room(config, folder.context, file.types)
    tokenizer = Tokenizer(base / "tokenizer.json", subject=SUBJECT)
    named = cast("list[object]", folder.config.get("architectures") or [folder.path.name])
    return LanguageModel(
        str(named[0])[:80],
        load_decoder(config, file),
        tokenizer,
        template=lambda: chat_template_of(base),
        context=room,
        device=folder.device,
    )


def _weights(folder: Folder, base: Path) -> ModelFile:
    """Return the weights of a folder, or of the file that was named if it is no part of them."""
    unless_there(base)
    is_part = any(base.glob("*.safetensors.index.json"))
    return model_file(base if is_part or folder.file is None else folder.file, SUBJECT)


def unless_there(base: Path) -> None:
    """Raise an error if a folder has no weights in safetensors."""
    if any(base.glob("*.safetensors*")):
        return
    for pickled in sorted(base.glob("*.bin")):
        why, hint = REASONS[FileKind.PICKLE]
        raise InputError(f"{SUBJECT}: {pickled} is {FileKind.PICKLE.value}: {why}", hint=hint)
    raise InputError(
        f"{SUBJECT}: there is no model.safetensors in {base}",
        hint="the files of a model lie together, as they were published",
    )


# -- what fits -------------------------------------------------------------------------------------


def _room(config: DecoderConfig, context: int | None, types: Mapping[str, ValueType]) -> int:
    """Return how many tokens there is room for, or raise if there is no memory for the model."""
    most = config.context
    room = min(CONTEXT, most or CONTEXT) if context is None else context
    if most is not None and room > most:
        raise ArgumentError(
            f"{SUBJECT}: context is {room:,}, and the model was made for {most:,}",
            hint=f"give at most context={most}",
        )
    weights, cache, there = held_bytes(types), cache_bytes(config, room), available_memory()
    if there is None or weights + cache <= there:
        return room
    raise DeviceError(
        f"{SUBJECT}: the weights take {_size(weights)}, the cache of {counted(room, 'token')} "
        f"{_size(cache)}, and there is memory for {_size(there)}",
        hint=_fitting(types, there, cache // room),
    )


def _fitting(types: Mapping[str, ValueType], there: int, per_token: int) -> str:
    """Return what would fit into memory."""
    weights = held_bytes(types)
    if there > weights + per_token:
        return f"a cache of context={(there - weights) // per_token} tokens fits"
    for form in SMALLER:
        if (size := held_bytes(types, form)) < min(weights, there):
            return (
                f"with its matrices in {form}, as GGUF files have them, the model takes "
                f"{_size(size)}"
            )
    least = held_bytes(types, SMALLER[-1])
    return f"even with its matrices in {SMALLER[-1]} the model takes {_size(least)}"


def held_bytes(types: Mapping[str, ValueType], form: str | None = None) -> int:
    """Return the memory of values as their file has them, or with matrices in another form.

    >>> from luminal_lab.importing.model_file import ValueType
    >>> types = {"w": ValueType("float32", (2, 256), 2048), "b": ValueType("float32", (2,), 8)}
    >>> held_bytes(types), held_bytes(types, "q8_0")
    (2056, 552)
    """
    if form is None:
        return sum(type.bytes for type in types.values())
    blocks = FORMS[form]
    return sum(
        -(-prod(type.shape) * blocks.bytes // blocks.values) if len(type.shape) > 1 else type.bytes
        for type in types.values()
    )


def _size(size: int) -> str:
    unit, word = (1e9, "GB") if size >= 1e9 else (1e6, "MB")
    return f"{size / unit:.2f} {word}"

"""`ll.load`: a published model of language as something to use, by what its files say it is.

    model.gguf                 a model that goes on with texts, all of it
    folder/config.json         the type of the model, and its sizes
    folder/model.safetensors   its weights; or folder/model.onnx, folder/onnx/model.onnx
    folder/tokenizer.json      what the tokens of a text are
    folder/modules.json        how the vectors of tokens become one, as sentence-transformers does
    Qwen/Qwen2.5-0.5B          a folder that Hugging Face's tools have fetched

A type of model has a line in `LOADERS`. Nothing in a folder is run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias, cast, overload

from typing_extensions import override

from luminal_lab.errors import (
    ArgumentError,
    DeviceError,
    InputError,
    LabError,
    ModelError,
    TrustError,
    nearest,
    whole_number,
)
from luminal_lab.importing.detect import REASONS, FileKind, kind_of_file
from luminal_lab.importing.imported import Imported
from luminal_lab.importing.onnx import module_of
from luminal_lab.importing.onnx_file import read_model
from luminal_lab.importing.weights import read_weights
from luminal_lab.language.decoder_files import of_folder, of_gguf, unless_there
from luminal_lab.language.decoding import Activations, checked
from luminal_lab.language.embedder import Embedder, Sentences
from luminal_lab.language.hub import is_name, published_folder
from luminal_lab.language.model import LanguageModel
from luminal_lab.language.pooling import SUBJECT, Stack, check_heads, read_entries, stack_of
from luminal_lab.language.tokens import Tokenizer
from luminal_lab.language.transcriber import Transcriber, of_whisper
from luminal_lab.nn.models.decoders import TYPES
from luminal_lab.nn.models.encoder import Encoder
from luminal_lab.nn.models.encoders import FAMILIES, config_of_encoder, family_of, fill
from luminal_lab.nn.module import Module
from luminal_lab.nn.weights import check_layers
from luminal_lab.passes.base import Pass
from luminal_lab.passes.pipeline import Pipeline
from luminal_lab.reading import naming, shown
from luminal_lab.tensor import Tensor
from luminal_lab.tensor.sources import Sources
from luminal_lab.writing import as_path

Loaded: TypeAlias = LanguageModel | Embedder | Transcriber
"""What a file or a folder may become."""
Kind: TypeAlias = Literal["text", "vectors", "speech"]
KINDS: Final[Mapping[Kind, str]] = {
    "text": "goes on with texts",
    "vectors": "makes vectors of texts",
    "speech": "writes down sounds",
}
"""What models of each kind do."""
OTHER_DOORS: Final = {
    FileKind.RECORDING: "ll.open opens it",
    FileKind.EXPORTED: "ll.from_torch makes a module of it",
}
"""What opens files that hold no model of language."""
DEVICES: Final = ("cpu", "cuda", "metal", "webgpu", "xla")
"""What may compile a model, by name."""
COMPUTES_NOTHING: Final = "it only changes graphs, and computes nothing"
AGAIN: Final = "fetch it again, as it was published"
NO_LIMIT: Final = 1 << 20
"""The most tokens of a text where nothing says how many a model takes."""
GIVEN: Final = ("input_ids", "attention_mask", "token_type_ids", "position_ids")
"""The inputs that an ONNX model may have."""
RESULTS: Final = ("last_hidden_state", "token_embeddings", "sentence_embedding", "text_embeds")
"""The names of outputs that are taken, the first one that is there."""


@dataclass(frozen=True)
class Folder:
    """A folder with a model, and what its files say."""

    path: Path
    stack: Stack
    config: Mapping[str, object]
    file: Path | None
    """The file of the model that was named, if one was."""
    device: Any
    """What compiles it."""
    context: int | None
    """How many tokens there should be room for, if that was said."""

    def entries(self, pattern: str) -> dict[str, Any]:
        """Return the entries of the first file with such a name beside the model, or none."""
        for path in sorted(self.stack.base.glob(pattern)):
            return cast("dict[str, Any]", read_entries(path, dict))
        return {}


@overload
def load(
    path: str | Path,
    *,
    kind: Literal["text"],
    context: int | None = None,
    device: object = None,
    activations: Activations = "float32",
) -> LanguageModel: ...
@overload
def load(
    path: str | Path,
    *,
    kind: Literal["vectors"],
    context: int | None = None,
    device: object = None,
) -> Embedder: ...
@overload
def load(
    path: str | Path,
    *,
    kind: Literal["speech"],
    context: int | None = None,
    device: object = None,
) -> Transcriber: ...
@overload
def load(
    path: str | Path,
    *,
    kind: None = None,
    context: int | None = None,
    device: object = None,
    activations: Activations = "float32",
) -> Any: ...  # noqa: ANN401  # as the files say
def load(
    path: str | Path,
    *,
    kind: Kind | None = None,
    context: int | None = None,
    device: object = None,
    activations: Activations = "float32",
) -> Any:  # as the files say
    """Return a published model, ready to use, from its file, its folder or by its name.

    A decoder, such as Llama and its kin, becomes a `LanguageModel`, whose `generate` and `chat` go
    on with texts; `context` is how many tokens there is room for. An encoder, such as BERT and its
    kin, becomes an `Embedder`, whose `embed` makes vectors of texts. A Whisper becomes a
    `Transcriber`, whose `text` writes down a sound.

    A folder is what is published: `config.json`, `tokenizer.json`, weights in safetensors or an
    encoder in ONNX, and perhaps the files of sentence-transformers, which say how texts are pooled.
    It may be named by one of its files. A GGUF file is a model by itself. A name, as in
    "Qwen/Qwen2.5-0.5B-Instruct", is that of a folder that Hugging Face's tools have fetched;
    nothing is fetched from here. `device` is a compiler, by default `ll.CPUCompiler()`.

    With `activations="int8"`, the steps of a decoder whose weights have few bits multiply them by
    integers of 8 bits, as llama.cpp does: this is faster, and rounds (`ll.Int8Activations`). With
    "bfloat16", its prompts multiply weights in bfloat16 by such numbers, as PyTorch does.

    With `kind`, "text", "vectors" or "speech", a model of another one of these three is refused,
    and editors know what comes back.

    >>> try:
    ...     ll.load(folder)
    ... except ll.InputError as error:
    ...     print(error.message.replace(str(folder), "folder"))
    load: there is no config.json in folder
    """
    room = None if context is None else whole_number(context)
    if context is not None and (room is None or room < 1):
        raise ArgumentError(
            f"{SUBJECT}: context is {context!r}", hint="give a number of tokens, as in context=8192"
        )
    if kind is not None and kind not in [*KINDS]:
        raise ArgumentError(
            f"{SUBJECT}: kind is {shown(kind)}",
            hint=f"give one of {', '.join(map(repr, KINDS))}, or leave it out",
        )
    checked(f"{SUBJECT}: activations", activations)
    _check_device(device)
    given, path = str(path), as_path(SUBJECT, path, "model.gguf")
    if "://" in given:
        raise InputError(
            f"{SUBJECT}: {given} is an address, and nothing is fetched from here",
            hint="hf download fetches a model; then give its name, as in Qwen/Qwen2.5-0.5B",
        )
    if not path.exists() and is_name(given):
        path = published_folder(str(path), SUBJECT)
    with naming(SUBJECT, path, AGAIN):
        loaded = _loaded(path, kind, room, device)
    if isinstance(loaded, LanguageModel):
        loaded.activations = activations
    elif activations != "float32":
        raise ArgumentError(
            f"{SUBJECT}: {given} is no model that goes on with texts",
            hint="activations are for such a model; leave them out",
        )
    return loaded


def _check_device(device: object) -> None:
    """Raise an error if a device is none, or not on this machine, before anything is read."""
    if device is None:
        return
    try:
        pipeline = Pipeline([cast("Any", device)])
        pipeline.unless_here()
        parts: list[Pass | Pipeline] = [pipeline]
        for part in parts:
            parts += part.passes if isinstance(part, Pipeline) else ()
        if all(_is_of_every_device(part) for part in parts):
            raise ArgumentError(COMPUTES_NOTHING)
    except DeviceError as error:
        error.message = f"{SUBJECT}: {error.message}"
        error.hint = f"{error.hint}; without device= the CPU computes"
        raise
    except TrustError:
        raise
    except LabError as error:
        is_spec = isinstance(device, str) and not device.isidentifier()
        is_told = is_spec or error.message == COMPUTES_NOTHING
        why = f": {error.message.removeprefix('pipeline: ')}" if is_told else ""
        raise ArgumentError(
            f"{SUBJECT}: device is {shown(device)}{why}",
            hint=f"give one of {', '.join(map(repr, DEVICES))}, or a compiler, as in "
            "ll.CUDACompiler()",
        ) from None


def _is_of_every_device(part: Pass | Pipeline) -> bool:
    """Whether a part of a pipeline only changes graphs: passes of the package's, or of none."""
    return type(part).__module__.startswith("luminal_lab.passes.")


def _check_kind(path: Path, kind: Kind, wanted: Kind | None) -> None:
    """Raise an error if a model is of another kind than the one that was asked for."""
    if wanted is not None and kind != wanted:
        raise ModelError(
            f"{SUBJECT}: {path} {KINDS[kind]}, and kind={wanted!r} {KINDS[wanted]}",
            hint=f"give kind={kind!r}, or leave it out",
        )


def _loaded(path: Path, wanted: Kind | None, room: int | None, device: object) -> Loaded:
    """Return the model of a file or a folder."""
    folder, file, form = _found(path)
    if form is FileKind.GGUF:
        assert file is not None
        _check_kind(file, "text", wanted)
        return of_gguf(file, device, room)
    graph = file if form is FileKind.ONNX else None
    stack = stack_of(folder)
    base = stack.base
    if graph is None and not any(base.glob("*.safetensors*")):
        graphs = [folder / "model.onnx", folder / "onnx" / "model.onnx", *folder.glob("*.onnx")]
        graph = next((graph for graph in graphs if graph.is_file()), None)
    path = base / "config.json"
    is_needed = graph is None or path.exists()
    config = cast("dict[str, object]", read_entries(path, dict)) if is_needed else {}
    whole = Folder(folder, stack, config, file, device, room)
    if graph is not None:
        _check_kind(graph, "vectors", wanted)
        return _of_graph(whole, graph)
    kind = config.get("model_type")
    if not isinstance(kind, str) or kind not in LOADERS:
        near = nearest(kind, LOADERS) if isinstance(kind, str) else None
        raise ModelError(
            f"{SUBJECT}: {path} has a model of the type {shown(kind)}, which is not here",
            hint=near
            or f"there are {', '.join(LOADERS)}; torch.export and ll.from_torch take any model",
        )
    makes, make = LOADERS[kind]
    _check_kind(base, makes, wanted)
    return make(whole)


def _found(path: Path) -> tuple[Path, Path | None, FileKind | None]:
    """Return the folder that is meant, and the file if one is, with what it is."""
    if path.is_dir():
        files = [] if any(path.glob("*.safetensors*")) else sorted(path.glob("*.gguf"))
        if len(files) > 1:
            raise InputError(
                f"{SUBJECT}: {path} has {len(files)} models",
                hint=f"name one of them: {', '.join(file.name for file in files)}",
            )
        return (path, files[0], kind_of_file(files[0], SUBJECT)) if files else (path, None, None)
    kind = kind_of_file(path, SUBJECT)
    if kind in OTHER_DOORS:
        raise InputError(f"{SUBJECT}: {path} is {kind.value}", hint=OTHER_DOORS[kind])
    if kind in REASONS:
        why, hint = REASONS[kind]
        raise InputError(f"{SUBJECT}: {path} is {kind.value}: {why}", hint=hint)
    inner = path.parent
    is_below = inner.name == "onnx" and not (inner / "tokenizer.json").exists()
    return (inner.parent if kind is FileKind.ONNX and is_below else inner), path, kind


def _of_encoder(folder: Folder) -> Embedder:
    """Return an encoder whose weights lie in safetensors."""
    base = folder.stack.base
    unless_there(base)
    with naming(SUBJECT, base / "config.json", AGAIN):
        config = config_of_encoder(folder.config, SUBJECT)
    check_heads(folder.stack, config.width)
    weights = read_weights(base, SUBJECT).parameters()
    check_layers(SUBJECT, config.layers, weights)
    with naming(SUBJECT, base / "config.json", AGAIN):
        encoder = Encoder(config)
    fill(encoder, family_of(folder.config, SUBJECT), weights, SUBJECT)
    return _embedder(folder, encoder, config.context)


LOADERS: Final[Mapping[str, tuple[Kind, Callable[[Folder], Loaded]]]] = {
    **dict.fromkeys(FAMILIES, ("vectors", _of_encoder)),
    **dict.fromkeys(TYPES, ("text", of_folder)),
    "whisper": ("speech", of_whisper),
}
"""What reads a model, and the model's kind, by the `model_type` of its configuration."""


class GraphEncoder(Module):
    """An encoder that came as an ONNX model, called as ours are."""

    def __init__(self, model: Imported, output: int | None) -> None:
        self.model = model
        self.output = output
        """Which of several results is meant."""

    @override
    def forward(self, tokens: Tensor, seen: Tensor, kinds: Tensor) -> Tensor:
        assert isinstance(tokens.graph, Sources)
        places = tokens.graph.arange(tokens.shape[1]).unsqueeze(0).expand(*tokens.shape)
        known = {"input_ids": tokens, "attention_mask": seen, "token_type_ids": kinds}
        known["position_ids"] = places
        given = {name: known[name].cast(type.dtype) for name, type in self.model.types.items()}
        results = self.model(**given)
        return results if self.output is None else results[self.output]


def _of_graph(folder: Folder, path: Path) -> Embedder:
    """Return an encoder that is an ONNX model."""
    proto = read_model(path, SUBJECT)
    model = module_of(proto, path.name, path.parent)
    for name in model.types:
        if name not in GIVEN:
            raise ModelError(
                f"{SUBJECT}: {path} has an input {name!r}",
                hint=f"a model of texts has {', '.join(GIVEN)}; ll.from_onnx takes any model",
            )
    names = [str(output.name) for output in proto.graph.output]
    wanted = next((name for name in RESULTS if name in names), names[0])
    if wanted not in RESULTS and len(names) > 1:
        raise ModelError(
            f"{SUBJECT}: {path} has the outputs {', '.join(names)}",
            hint=f"one that makes vectors is called {' or '.join(RESULTS)}",
        )
    encoder = GraphEncoder(model, names.index(wanted) if len(names) > 1 else None)
    return _embedder(folder, encoder, NO_LIMIT)


def _embedder(folder: Folder, encoder: Module, context: int) -> Embedder:
    """Return an encoder with what the files say of tokens, of pooling and of prompts."""
    texts, named = folder.entries("sentence_*_config.json"), folder.entries("tokenizer_config.json")
    most = [context, texts.get("max_seq_length")]
    if most[1] is None:  # which counts more than what follows
        most += [named.get("model_max_length"), folder.config.get("max_position_embeddings")]
    lengths = [int(m) for m in most if isinstance(m, (int, float)) and 0 < m < NO_LIMIT]
    tokenizer = Tokenizer(
        folder.stack.base / "tokenizer.json",
        most=min(lengths, default=NO_LIMIT),
        lower=bool(texts.get("do_lower_case", False)),
        subject=SUBJECT,
    )
    path = folder.path / "config_sentence_transformers.json"
    about = cast("dict[str, Any]", read_entries(path, dict)) if path.exists() else {}
    given: object = about.get("prompts") or {}
    prompts = cast("dict[str, object]", given) if isinstance(given, dict) else {"": given}
    for prompt in prompts.values():
        if not isinstance(prompt, str):
            raise InputError(f"{SUBJECT}: {path} has the prompt {shown(prompt)}, which is no text")
    default = about.get("default_prompt_name")
    if default is not None and default not in [*prompts]:
        raise InputError(
            f"{SUBJECT}: {path} has the default prompt {shown(default)}, which is none of its "
            "prompts",
            hint=f"these are {', '.join(map(shown, prompts)) or 'none'}",
        )
    padding = folder.config.get("pad_token_id")
    names = folder.config.get("architectures") or None
    return Embedder(
        str(cast("list[object]", names)[0])[:80] if isinstance(names, list) else folder.path.name,
        Sentences(encoder, folder.stack.pooling, folder.stack.heads),
        tokenizer,
        prompts=cast("dict[str, str]", prompts),
        prompt=default,
        padding=padding if isinstance(padding, int) else 0,
        device=folder.device,
    )

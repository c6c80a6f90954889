"""`luminal-lab models`: what a file of a model holds, what it needs, and what of it is not here."""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from shlex import quote
from typing import Any, cast, get_args

from luminal_lab.cli.command import Command, OptionReader
from luminal_lab.cli.saying import say
from luminal_lab.devices.runtime.program import DeviceProgram
from luminal_lab.errors import ArgumentError, LabError, ModelError, TrustError
from luminal_lab.importing.contents import FileContents, contents
from luminal_lab.importing.detect import FileKind
from luminal_lab.language.decoding import Activations
from luminal_lab.language.gguf_tokens import PREFIX
from luminal_lab.language.load import LOADERS
from luminal_lab.language.memory import plan_of_file
from luminal_lab.language.tokens import entries_of
from luminal_lab.nn.gguf import GGUF
from luminal_lab.nn.models.decoders_gguf import FORMATS
from luminal_lab.opening import session_of

ABOUT = """\
Say what an ONNX file, a .pt2 of torch.export, or weights in safetensors or GGUF hold: inputs,
values, ops; which of them are not here, and why; and what memory the model takes: of a model of
language with keys and values of a context. Nothing in the file is run."""
EXAMPLES = """\
luminal-lab models inspect model.onnx                     what it holds, and what is not here
luminal-lab models inspect model.onnx --sizes batch=8     the memory for other sizes of its dims
luminal-lab models inspect model.gguf --context 8192      the memory for texts of so many tokens
luminal-lab models inspect model.safetensors --json       for a program"""
SIZE = re.compile(r"(\w+)=(\d{1,12})")
FORMAT = 1
CONTEXT = 4096
WITHOUT_TOKENS = "without it ll.load and luminal-lab generate make no model of these weights"
WEIGHTS = FileKind.GGUF, FileKind.SAFETENSORS, FileKind.INDEX, FileKind.FOLDER
"""What may hold the weights of a decoder."""


def options(reader: OptionReader) -> None:
    """Declare the options."""
    inspected = reader.subcommands().add_parser("inspect", help="what a file holds")
    inspected.add_argument("file", metavar="FILE", type=Path, help="a model, or weights")
    inspected.add_argument(
        "--sizes", metavar="DIM=N", nargs="*", default=[], help="sizes of dims; default: 1 each"
    )
    inspected.add_argument(
        "--context", metavar="N", type=int, help=f"tokens of a text; default: {CONTEXT:,} at most"
    )
    inspected.add_argument(
        "--activations",
        choices=get_args(Activations),
        default="float32",
        help="what a text's weights are multiplied with, as in luminal-lab generate",
    )
    inspected.add_argument("--trust", action="store_true", help="let PyTorch unpickle a .pt2")
    inspected.add_argument("--json", action="store_true", help="for a program")


def run(given: argparse.Namespace) -> int:
    """Say it; the status is 1 if something is not here."""
    held = contents(given.file)
    sizes = _sizes(given.sizes)
    for name in sizes:
        there = f"there is {', '.join(held.dims)}" if held.dims else "all its dims are numbers"
        ArgumentError.unless_known(name, held.dims, f"models: there is no dim {name!r}", there)
    needs = {"weights": held.bytes}
    why, notes = "", list[str]()
    if held.kind in (FileKind.ONNX, FileKind.EXPORTED) and not held.missing:
        try:
            needs |= _needed(given.file, held, sizes, trust=given.trust)
        except TrustError:
            notes.append(
                "to say what a run takes PyTorch must unpickle it: --trust lets it this time, and "
                f"luminal-lab trust {quote(str(given.file))} from now on"
            )
        except LabError as error:
            why = str(error)
    if held.kind in WEIGHTS and not held.missing:
        try:
            needs = _of_language(given.file, given.context, needs, given.activations)
        except ModelError as error:
            notes.append(f"as a model of language it is not here: {error.message}")
        notes += _without_tokens(given.file, held.kind)
    held = replace(held, needs=needs)
    if given.json:
        told = {"format": FORMAT, **held.as_json(), "why": why, "notes": notes}
        say(json.dumps(told, indent=1, ensure_ascii=False))
        return 1 if why or held.missing else 0
    say(held, *notes, sep="\n")
    if why:
        say(f"\nit cannot be compiled here:\n{why}")
    return 1 if why or held.missing else 0


def _sizes(words: list[str]) -> Mapping[str, int]:
    sizes: dict[str, int] = {}
    for word in words:
        match = SIZE.fullmatch(word)
        if match is None:
            raise ArgumentError(f"models: --sizes cannot be {word!r}", hint="as in batch=8 seq=128")
        sizes[match[1]] = int(match[2])
    return sizes


def _needed(
    path: Path, held: FileContents, sizes: Mapping[str, int], *, trust: bool
) -> dict[str, int]:
    """Return the bytes of a run beside the weights, by what they are for."""
    cx = session_of(path, held.kind, trust=trust)
    program = cast("DeviceProgram[Any]", cx.compilation.runner)
    plan = program.memory_plan
    known = plan.program.symbols
    dims = {name: sizes.get(name, max(1, symbol.low)) for name, symbol in known.items()}
    said = ", ".join(f"{name} = {size}" for name, size in dims.items())
    return {f"values on the way{f' at {said}' if said else ''}": plan.bind(dims).arena_bytes}


def _without_tokens(path: Path, kind: FileKind) -> list[str]:
    """Return what keeps weights that `ll.load` knows from being loaded: nothing makes tokens."""
    if kind is FileKind.GGUF:
        keys = GGUF(path, "models").keys
        if keys.get("general.architecture") not in FORMATS or f"{PREFIX}model" in keys:
            return []
        return [f"there is no key {PREFIX}model: without tokens ll.load makes no model of it"]
    folder = path if path.is_dir() else path.parent
    kind_of_model = entries_of(folder / "config.json", "models").get("model_type")
    if kind_of_model not in LOADERS or (folder / "tokenizer.json").exists():
        return []
    return [f"there is no tokenizer.json in {folder}: {WITHOUT_TOKENS}"]


def _of_language(
    path: Path, context: int | None, needs: dict[str, int], activations: Activations
) -> dict[str, int]:
    """Return what a decoder takes in memory, or of other weights what is known."""
    plan = plan_of_file(path, activations)
    if plan is None:
        if context is not None:
            raise ArgumentError(
                f"models: {path} holds no decoder that is known here, so it has no --context"
            )
        return needs
    return plan.needs(min(CONTEXT, plan.most) if context is None else context)


COMMAND = Command("models", ABOUT, EXAMPLES, options, run)

"""The rows of `luminal-lab bench --models`: language models from GGUF files, form by form."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

import numpy as np

from luminal_lab.bench.model_files import (
    SHAPES,
    bytes_of,
    shapes_of,
    tokens_of,
    write_model,
)
from luminal_lab.bench.peers.peer import MEMORY
from luminal_lab.bench.rows import FLOATS, READING, ROUNDED
from luminal_lab.bench.workload import Arrays, Cost, Sizes, Workload
from luminal_lab.bench.workloads import calls

PROMPTS: Final = (128, 512)
POSITIONS: Final = (128, 1024)
STEPS: Final = 64
"""The steps of a text before it begins again where the row does."""
FIRST: Final = 8
"""The tokens of the prompt before a first token."""
FORMS: Final[Mapping[str, str]] = {
    "f32": "float32",
    "bf16": "bfloat16",
    "f16": "float16",
    "q8_0": "Q8_0",
    "q4_k_m": "Q4_K_M (Q4_K, some matrices in Q6_K)",
}
TOLERANCES: Final = {"f32": 3e-2, "bf16": 0.15, "f16": 5e-2, "q8_0": 0.25, "q4_k_m": 0.3}
"""llama.cpp rounds the other factor of a product to 8 or 16 bits, and keys and values to 16; ONNX
Runtime rounds it to 8. The furthest of 128,256 logits is some four deviations away: 0.2 in Q8_0.
"""
NO_BLOCKS: Final = "PyTorch has no products with blocks of few bits"
NO_HALVES: Final = "ONNX Runtime's products on a CPU are of float32 or of blocks"
NO_MIX: Final = "ONNX Runtime has no blocks of 256 with scales of scales"
LEFT_OUT: Final[Mapping[str, Mapping[str, str]]] = {
    "f32": {},
    "bf16": {"ONNX Runtime": NO_HALVES},
    "f16": {"ONNX Runtime": NO_HALVES},
    "q8_0": {"PyTorch": NO_BLOCKS, "torch.compile": NO_BLOCKS},
    "q4_k_m": {"PyTorch": NO_BLOCKS, "torch.compile": NO_BLOCKS, "ONNX Runtime": NO_MIX},
}
DECODE_GOALS: Final[Mapping[str, Mapping[str, float]]] = {
    "f32": {"limit": 0.85},
    "bf16": {"llama.cpp": 0.95},
    "f16": {"llama.cpp": 0.95},
    "q8_0": {"llama.cpp": 0.95},
    "q4_k_m": {"llama.cpp": 0.85},
}
PREFILL_GOALS: Final[Mapping[str, Mapping[str, float]]] = {
    "f32": {"PyTorch": 1.1},
    "bf16": {"PyTorch": 0.9},
    "f16": {"llama.cpp": 0.9},
    "q8_0": {"llama.cpp": 0.9},
    "q4_k_m": {"llama.cpp": 0.9},
}
FIRST_MS: Final = 2000.0


def model_workloads(shape: str = "1b", *, quick: bool = False) -> tuple[Workload, ...]:
    """Return the rows for a shape, all rows of a form together, and those of calls."""
    sizes = SHAPES["tiny" if quick else shape]
    rows = [_rounded(row) for form in FORMS for row in _of_form(sizes, form)]
    return (*rows, *calls(quick))


def _of_form(sizes: Sizes, form: str) -> Iterator[Workload]:
    model = f"a Llama of {sizes['layers']} layers of {sizes['width']} in {FORMS[form]}"
    tensors = bytes_of(sizes, form)
    weights = sum(int(np.prod(shape)) for shape in shapes_of(sizes).values() if len(shape) > 1)
    head = sizes["vocab"] * sizes["width"]
    shared = sizes["width"] // sizes["heads"] * sizes["kv_heads"]
    cached = 2 * 2 * sizes["layers"] * shared  # the bytes of a position, as 16-bit floats

    def flops(tokens: int, past: int) -> int:
        scores = tokens * past + tokens * (tokens + 1) // 2
        products = 2 * tokens * (weights - head) + 2 * head
        return products + 4 * sizes["width"] * sizes["layers"] * scores

    base = Workload(
        "",
        "",
        "",
        sizes,
        _text,
        Cost(0, 0, 0),
        tolerance=TOLERANCES[form],
        is_model=True,
        seconds=2.0,
        form=form,
        left_out=LEFT_OUT[form],
    )
    for count in PROMPTS:
        yield replace(
            base,
            name=f"prefill-{count}-{form}",
            kind="prefill",
            about=f"a prompt of {count} tokens, {model}",
            sizes={**sizes, "seq": count},
            cost=Cost(flops(count, 0), tensors, cached * count),
            goals=PREFILL_GOALS[form],
            tokens=count,
        )
    for past in POSITIONS:
        yield replace(
            base,
            name=f"decode-{past}-{form}",
            kind="decode",
            about=f"a token after {past} others, {model}",
            sizes={**sizes, "seq": past + 1, "past": past, "steps": STEPS},
            cost=Cost(flops(1, past), tensors + cached * past, cached),
            goals=DECODE_GOALS[form],
            variants=(READING,) if "limit" in DECODE_GOALS[form] else (),
            tokens=1,
            calls=3,
        )
    if form == "q8_0":
        yield replace(
            base,
            name=f"first-token-{form}",
            kind="first_token",
            about=f"from the file to a token after {FIRST}, compiled before, {model}",
            sizes={**sizes, "seq": FIRST, "cached": 1},
            is_alone=True,
            goals={"ms": FIRST_MS, MEMORY: 1.15 * tensors / 1e6 + 200},
        )


def _rounded(workload: Workload) -> Workload:
    """Return a row that says what it rounds, if it does, with what rounds nothing beside."""
    dtype = ROUNDED.get((workload.kind, workload.form))
    about = f"{workload.about}, activations in {dtype}"
    return replace(workload, about=about, variants=(FLOATS,)) if dtype else workload


def _text(sizes: Sizes, rng: np.random.Generator) -> Arrays:
    return {"tokens": tokens_of(sizes, sizes["seq"])}


def with_file(workload: Workload, folder: Path) -> Workload:
    """Return a workload with its file, which is written if the one before had another."""
    if not workload.form:
        return workload
    path = folder / f"{workload.sizes['width']}-{workload.form}.gguf"
    if not path.exists():
        for old in folder.glob("*.gguf"):  # one at a time: they may be in memory
            old.unlink()
        write_model(path, workload.sizes, workload.form)
    return replace(workload, path=str(path))

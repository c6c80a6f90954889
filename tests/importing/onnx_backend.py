"""ONNX's own tests, by its own runner: what of them we run, and what is not run, with the reason.

`docs/onnx_models.py` makes a page of it, and `test_onnx_backend.py` runs it.
"""

from __future__ import annotations

import re
import unittest
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import luminal_lab as ll
from luminal_lab.errors import ModelError
from luminal_lab.importing.imported import Imported
from luminal_lab.importing.onnx import module_of
from tests.needs import need

COUNTS = {"Node": 1884, "PyTorchConverted": 82, "PyTorchOperator": 35, "Simple": 23}
"""How many tests each set has; those of whole models fetch these, and are left out."""

RANDOM = "random numbers, which come from another generator"
ROUNDED = "the stored result is rounded more coarsely than the test allows; ours is nearer"
SCALARS = "ONNX's runner cannot compare sequences of numbers"
OTHER = {
    **dict.fromkeys(
        [
            f"test_bernoulli{kind}{expanded}"
            for kind in ("", "_double", "_seed")
            for expanded in ("", "_expanded")
        ],
        RANDOM,
    ),
    **dict.fromkeys(
        [
            f"test_training_dropout{kind}{mask}"
            for kind in ("", "_default")
            for mask in ("", "_mask")
        ],
        RANDOM,
    ),
    "test_attention_4d_causal_fp16": ROUNDED,
    "test_attention_4d_causal_fp16_expanded": ROUNDED,
    "test_dft_inverse": ROUNDED,
    "test_dft_inverse_opset19": ROUNDED,
    "test_loop16_seq_none": SCALARS,
}
"""Tests whose result is right, and cannot be compared so with the one that is stored."""


@dataclass
class Prepared:
    """A model, and how to run it; inputs that it needs at import are given then."""

    model: Any
    compiles: bool

    def run(self, inputs: Sequence[Any], **_: object) -> tuple[Any, ...]:
        given = dict(zip(names_of(self.model, len(inputs)), inputs, strict=True))
        module, known = self.imported(given)
        cx = ll.Graph()
        left = [value for name, value in given.items() if name not in known]
        tensors = [
            cx.tensor(np.shape(value), type.dtype).set(value)
            for value, type in zip(left, module.types.values(), strict=True)
        ]
        made = module(*tensors) if tensors else module(cx)
        outputs = list(made) if isinstance(made, tuple) else [made]
        for output in outputs:
            for tensor in output if isinstance(output, list) else [output]:
                tensor.retrieve()
        if self.compiles:
            cx.compile(ll.GenericCompiler(), ll.CPUCompiler())
        cx.execute()
        return tuple(
            [part.numpy() for part in output] if isinstance(output, list) else output.numpy()
            for output in outputs
        )

    def imported(self, given: dict[str, Any]) -> tuple[Imported, dict[str, object]]:
        """Return the module, and what it had to know; dims are fixed if nothing else is left."""
        known: dict[str, object] = {}
        while True:
            try:
                return module_of(self.model, "model.onnx", Path(), known), known
            except ModelError as error:
                more = {name: given[name] for name in error.needs if name not in known}
                more = more or {
                    name: size for name, size in sizes(self.model, given) if name not in known
                }
                if not more:
                    raise
                known.update(more)


def names_of(model: Any, count: int) -> list[str]:
    """Return the names of the inputs that a test gives."""
    names = [value.name for value in model.graph.input]
    held = {tensor.name for tensor in model.graph.initializer}
    return names if len(names) == count else [name for name in names if name not in held]


def sizes(model: Any, given: dict[str, Any]) -> list[tuple[str, int]]:
    """Return the sizes of the dims that inputs have."""
    return [
        (dim.dim_param, size)
        for value in model.graph.input
        if value.type.HasField("tensor_type") and value.name in given
        for dim, size in zip(
            value.type.tensor_type.shape.dim, np.shape(given[value.name]), strict=False
        )
        if dim.dim_param
    ]


class Interpreted:
    """ONNX's `Backend`: our interpreter."""

    compiles = False

    @classmethod
    def supports_device(cls, device: str) -> bool:
        return device == "CPU"

    @classmethod
    def prepare(cls, model: Any, device: str = "CPU", **_: object) -> Prepared:
        return Prepared(model, cls.compiles)


class Compiled(Interpreted):
    """ONNX's `Backend`: our CPU compiler."""

    compiles = True


@cache
def cases(backend: type[Interpreted] = Compiled) -> dict[str, list[tuple[str, Callable[[], None]]]]:
    """Return the tests of each set in order, by name."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = need("onnx.backend.test").BackendTest(backend, __name__).test_cases
    found: dict[str, list[tuple[str, Callable[[], None]]]] = {}
    for kind in COUNTS:
        case: type[unittest.TestCase] = made[f"OnnxBackend{kind}ModelTest"]
        names = sorted(name for name in vars(case) if name.endswith("_cpu"))
        found[kind] = [(name.removesuffix("_cpu"), getattr(case(name), name)) for name in names]
    return found


def why_not(name: str, run: Callable[[], None]) -> str:
    """Run one of the tests, and return why it is not supported; an empty text if it passes."""
    if name in OTHER:
        return OTHER[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            run()
        except ModelError as error:
            return reason(error)
    return ""


def reason(error: ModelError) -> str:
    """Return the reason of a refusal, without the names of the file and its nodes."""
    text = error.message.removeprefix("from_onnx: model.onnx: ")
    text = re.sub(r"^(\w+) (-> \S+?|'.*?'): ", r"\1: ", text)
    text = re.sub(r"(\w+): there is nothing to write this op with", r"the op \1", text)
    if "array of string" in text:
        return "strings"
    narrow = re.search(r"\b(float8|float4|u?int4|u?int2)", text)
    if narrow:
        return f"values of {narrow[1]} that are not weights"
    domain = re.search(r"'(ai\.onnx\.[\w.]+)'", text)
    return f"ops of the domain {domain[1]}" if domain else text.replace("|", "/")

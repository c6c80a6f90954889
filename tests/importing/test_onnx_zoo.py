"""Models of the zoo as PyTorch's exporter writes them to ONNX, with free sizes, beside PyTorch."""

import contextlib
import io
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import luminal_lab as ll
from luminal_lab.importing.onnx import module_of
from tests.importing import zoo
from tests.needs import need

onnx = need("onnx")


def tensors_in(value: Any) -> list[Any]:
    """Return the tensors of an output, whatever it is."""
    if hasattr(value, "detach"):
        return [value]
    if hasattr(value, "to_tuple"):
        value = value.to_tuple()
    parts = list(value.values()) if isinstance(value, dict) else value
    if not isinstance(parts, (tuple, list)):
        return []
    return [tensor for part in parts for tensor in tensors_in(part)]


def exported(torch: Any, entry: zoo.Model, given: dict[str, Any]) -> Any:
    """Return a module as a model of the package onnx, or skip what the exporter cannot write."""
    names = list(given)

    class Flat(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = entry.module

        def forward(self, *args: Any) -> tuple[Any, ...]:
            return tuple(tensors_in(self.model(**dict(zip(names, args, strict=True)))))

    axes = {
        name: {axis: str(dim) for axis, dim in enumerate(dims) if isinstance(dim, str)}
        for name, dims in (entry.dynamic or {}).items()
        if isinstance(dims, (tuple, list))
    }
    if hasattr(entry.module, "set_attn_implementation"):
        entry.module.set_attn_implementation("eager")
    file = io.BytesIO()
    quiet = contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO())
    try:
        with warnings.catch_warnings(), torch.no_grad(), quiet[0], quiet[1]:
            warnings.simplefilter("ignore")
            torch.onnx.export(
                Flat().eval(), tuple(given.values()), file, input_names=names,
                dynamic_axes=axes, opset_version=17, dynamo=False,
            )  # fmt: skip
    except torch.onnx.errors.UnsupportedOperatorError:
        pytest.skip("PyTorch's exporter has no ONNX for one of its ops")
    return onnx.load_model_from_string(file.getvalue())


@pytest.mark.share("name", sorted(zoo.ZOO), 1)
def test_exported_models(torch: Any, name: str) -> None:
    entry = zoo.made(name)
    model = module_of(exported(torch, entry, entry.inputs(*entry.sizes[0])), name, Path())
    for sizes in entry.sizes[: 2 if entry.dynamic else 1]:
        given = entry.inputs(*sizes)
        with torch.no_grad():
            wanted = tensors_in(entry.module(**given))
        cx = ll.Graph()
        made = model(
            **{
                word: cx.tensor(tuple(given[word].shape), str(type.dtype)).set(given[word].numpy())
                for word, type in model.types.items()
            }
        )
        outputs = made if isinstance(made, tuple) else (made,)
        for output in outputs:
            output.retrieve()
        cx.execute()
        for output, value in zip(outputs, wanted, strict=True):
            # The exporter folds norms into weights, which rounds once more.
            most = 4 * entry.tolerance * max(float(value.abs().max()), 1e-9)
            assert np.abs(output.numpy() - value.numpy()).max() <= most

"""Models exported as WebAssembly, run by node: their numbers are the interpreter's."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import luminal_lab as ll
from luminal_lab import nn
from luminal_lab.core.dtypes import Array
from tests.artefact.test_models import SMALL, normal, tokens
from tests.needs import need

pytestmark = [pytest.mark.needs("cc"), pytest.mark.needs("ziglang")]
SCRIPT = Path(__file__).with_name("wasm.mjs")


def ran(folder: Path, data: dict[str, Array], shapes: list[tuple[int, ...]]) -> list[Array]:
    """Return what a folder for wasm32 computes under node."""
    about: dict[str, Any] = json.loads((folder / "model.json").read_text())
    inputs, outputs, dims = about["interface"]
    sizes = {one["name"]: data[one["from"][0]].shape[one["from"][1]] for one in dims}
    kinds = [np.dtype(one["numpy"]) for one in outputs]
    counts = [
        int(np.prod(shape)) * kind.itemsize for shape, kind in zip(shapes, kinds, strict=True)
    ]
    given = {
        "name": about["name"],
        "library": str(folder / about["library"]),
        "weights": str(folder / "weights.safetensors") if about["weights"] else "",
        "dims": [*sizes.values()],
        "inputs": [data[one["name"]].tobytes().hex() for one in inputs],
        "outputs": counts,
    }
    command = [need("node"), str(SCRIPT)]
    done = subprocess.run(
        command, input=json.dumps(given), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    made = [bytes.fromhex(one) for one in json.loads(done.stdout)]
    return [np.frombuffer(m, k).reshape(s) for m, k, s in zip(made, kinds, shapes, strict=True)]


def check(cx: ll.Graph, folder: Path, **data: Array) -> None:
    compiled = cx.compile(ll.GenericCompiler(), ll.CPUCompiler(threads=1))
    compiled.export(folder, target="wasm32")
    for name, array in data.items():
        cx[name].set(array)
    cx.execute()
    outputs = [cx["y"].numpy()]
    for want, got in zip(outputs, ran(folder, data, [w.shape for w in outputs]), strict=True):
        assert np.allclose(got.astype("float64"), want.astype("float64"), 1e-5, 1e-5)


def test_a_small_network(tmp_path: Path) -> None:
    cx = ll.Graph("mlp")
    nn.models.MLP(20, 16, 5)(cx.tensor(("batch", 20), name="x")).named("y").retrieve()
    check(cx, tmp_path, x=normal(7, 20))


def test_a_gpt(tmp_path: Path) -> None:
    cx = ll.Graph("gpt")
    words = cx.tensor((2, ll.Symbol("n", 1, 24)), "int64", name="words")
    nn.models.GPT2(**SMALL)(words).named("y").retrieve()
    check(cx, tmp_path, words=tokens(2, 9))

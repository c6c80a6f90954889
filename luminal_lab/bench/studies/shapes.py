"""Published shapes with drawn weights: Whisper's smallest, YOLOv8n, Stable Diffusion's U-Net.

    python -m luminal_lab.bench.studies.shapes [--rounds 20] [NAME …]

whisper  30 seconds of sound to as many tokens as its context takes; the real time factor is the
         seconds that this takes over those of the sound
yolov8n  an image of 640×640 by ONNX Runtime and by this library, in turns, from arrays to arrays
unet     a step at 64×64 in bfloat16; drawn weights repeat, so that drawing them takes no minutes
"""
# pyright: basic

import argparse
import math
import resource
import statistics
import sys
import time
import warnings
from collections.abc import Callable
from importlib import import_module
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from luminal_lab.bench.studies.imported import measured
from luminal_lab.bench.studies.yolo import yolov8n as yolo_module
from luminal_lab.core.dtypes import DType
from luminal_lab.devices.cpu.compiler import CPUCompiler
from luminal_lab.importing.onnx import from_onnx
from luminal_lab.importing.torch_export import from_torch
from luminal_lab.language.mel import RATE, log_mel
from luminal_lab.language.transcriber import Transcriber
from luminal_lab.machines.here import usable_cores
from luminal_lab.machines.load import LOADED, Load
from luminal_lab.nn.models.diffusion import UNet
from luminal_lab.nn.models.whisper import Whisper
from luminal_lab.nn.module import Module
from luminal_lab.passes.generic import GenericCompiler
from luminal_lab.session import Graph

REAL_TIME = 0.2
"""The goal of Whisper."""
HALF = DType.bfloat16.numpy


def main() -> None:
    """Print some lines for each shape."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("names", nargs="*", help=f"shapes: {', '.join(SHAPES)}")
    parser.add_argument("--rounds", type=int, default=20, help="turns of YOLOv8n")
    asked = parser.parse_args()
    if unknown := [name for name in asked.names if name not in SHAPES]:
        parser.error(f"there is no shape {unknown[0]!r}; there are {', '.join(SHAPES)}")
    print(f"{usable_cores()} threads")
    for name in asked.names or SHAPES:
        with Load() as load:
            SHAPES[name](asked.rounds)
        others = load.others
        if others is not None and others > LOADED:
            print(f"    {others:.1f} cores were busy with something else: measure again")


def drawn(model: Module) -> None:
    """Give a model weights that keep the size of values about the same, a few of them repeated."""
    rng = np.random.default_rng(0)
    for name, parameter in model.parameters().items():
        shape = tuple(int(size) for size in parameter.shape)
        count = math.prod(shape)
        few = rng.standard_normal(min(count, 1 << 16), "float32")
        few *= 1 / math.sqrt(count / shape[0]) if len(shape) > 1 else 0.02
        few += "norm" in name and name.endswith("weight")
        parameter.set(np.resize(few.astype(parameter.dtype.numpy), shape), copy=False)


def whisper(_: int) -> None:
    """Time each part of a text of a sound, and say the real time factor."""
    model = Whisper()
    drawn(model)
    transcriber = Transcriber(model, suppress=[model.config.end])
    sound = np.random.default_rng(0).uniform(-0.1, 0.1, 30 * RATE)
    transcriber.tokens(sound, most=4)
    start = time.perf_counter()
    features = log_mel(sound)
    heard = time.perf_counter()
    transcriber.tokens_of(features, most=1)
    listened = time.perf_counter()
    text = transcriber.tokens(sound)
    end = time.perf_counter()
    whole, first = end - listened, listened - heard
    step = (whole - (heard - start) - first) / (len(text) - 1)
    print(
        f"whisper  log-mel {(heard - start) * 1e3:.0f} ms, encoder and a token {first * 1e3:.0f} "
        f"ms, a further token {step * 1e3:.2f} ms\n"
        f"    {len(text)} tokens of 30 s in {whole:.2f} s: real time factor {whole / 30:.3f}; "
        f"the goal is {REAL_TIME}"
    )


def yolov8n(rounds: int) -> None:
    """Time ONNX Runtime and this library in turns."""
    torch: Any = import_module("torch")
    torch.manual_seed(0)
    module, image = yolo_module(torch), torch.randn(1, 3, 640, 640)
    with TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        file = f"{folder}/yolov8n.onnx"
        torch.onnx.export(module, (image,), file, opset_version=17, dynamo=False)
        theirs, own = runtime(file, image.numpy()), from_onnx(file)
    given = image.numpy()
    calls = {
        "ONNX Runtime": theirs,
        "ours, from ONNX": ours(own, given),
        "ours, from PyTorch": ours(from_torch(module, (image,)), given),
    }
    wanted = calls["ONNX Runtime"]()
    for call in calls.values():
        assert np.abs(call() - wanted).max() <= 1e-4 * np.abs(wanted).max()
    times = measured(calls, rounds)
    for side, each in times.items():
        pairs = zip(each, times["ONNX Runtime"], strict=True)
        ratio = statistics.median(own / other for own, other in pairs)
        print(
            f"yolov8n  {side:<20} least {min(each):7.1f} ms, median {statistics.median(each):7.1f}"
            f" ms, {ratio:.2f} of theirs"
        )


def runtime(path: str, image: np.ndarray) -> Callable[[], np.ndarray]:
    """Return the call of ONNX Runtime."""
    ort: Any = import_module("onnxruntime")
    options = ort.SessionOptions()
    options.intra_op_num_threads = usable_cores()
    session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    name = session.get_inputs()[0].name
    return lambda: session.run(None, {name: image})[0]


def ours(model: Module, image: np.ndarray) -> Callable[[], Any]:
    """Return the call of an imported model."""
    cx = Graph()
    model(cx.tensor(image.shape, name="image")).retrieve()
    cx.compile(GenericCompiler(), CPUCompiler())
    function = cx.as_function()
    return lambda: function(image)


def unet(_: int) -> None:
    """Compile and run the real shape, and say what memory it takes."""
    start = time.perf_counter()
    model, cx = UNet(dtype="bfloat16"), Graph("unet")
    image = cx.tensor((1, 4, 64, 64), "bfloat16")
    when = cx.tensor((1,), "int64").set([500])
    text = cx.tensor((1, 77, 768), "bfloat16")
    noise = model(image, when, text).retrieve()
    compilation = cx.compile(GenericCompiler(), CPUCompiler())
    compiled = time.perf_counter()
    drawn(model)
    rng, times = np.random.default_rng(0), list[float]()
    text.set(rng.standard_normal((1, 77, 768)).astype(HALF))
    for _ in range(3):
        image.set(rng.standard_normal((1, 4, 64, 64)).astype(HALF))
        begin = time.perf_counter()
        cx.execute()
        assert np.isfinite(noise.numpy().astype("float32")).all()
        times.append(time.perf_counter() - begin)
    weights = sum(math.prod(p.shape) * p.dtype.itemsize for p in model.parameters().values())
    plan: Any = compilation.program
    arena = plan.memory_plan.bind({}).arena_bytes
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (
        1 if sys.platform == "darwin" else 1024
    )
    print(
        f"unet     {len(cx.launches)} launches, written and compiled in {compiled - start:.0f} s; "
        f"a step {min(times[1:]):.2f} s\n"
        f"    weights {weights / 1e9:.2f} GB, values on the way {arena / 1e6:.0f} MB; "
        f"the process took {most / 1e9:.2f} GB at most"
    )


SHAPES: dict[str, Callable[[int], None]] = {"whisper": whisper, "yolov8n": yolov8n, "unet": unet}


if __name__ == "__main__":
    main()

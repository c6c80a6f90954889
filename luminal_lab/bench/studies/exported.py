"""Exported models: how long an export takes, what a call costs, and how soon a result is there.

    python -m luminal_lab.bench.studies.exported [--only export|calls|starts] [--rounds 7]

`export` writes GPT-2 small twice: at first its C is compiled, then the library is found in the
cache. Calls of a small model are in turns, the least of many: the folder's own `Model(x=x)`, its
library alone by ctypes, a session's `execute()` after `set`, the session as a function, and ONNX
Runtime on the same weights, one thread each. The bar is about what an almost empty model's library
takes, which is all launching and binding. Starts are processes, from their begin to their end.
"""
# pyright: basic

import argparse
import ctypes
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

import luminal_lab as ll
from luminal_lab import nn
from luminal_lab.bench.studies.viz import Figure, busy, ms, seconds, tell

WIDTHS = 784, 256, 10
ROW = np.linspace(-1, 1, 784, dtype=np.float32).reshape(1, 784)


def main() -> None:
    """Print what was measured."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", choices=("export", "calls", "starts"))
    parser.add_argument("--rounds", type=int, default=7, help="of calls, and of each start")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        parts: dict[str, Callable[[], Iterable[Figure]]] = {
            "export": lambda: exports(folder / "gpt2"),
            "calls": lambda: calls(folder, asked.rounds),
            "starts": lambda: starts(folder, asked.rounds),
        }
        tell("", busy())
        for part, figures in parts.items():
            if asked.only in (None, part):
                tell(f"{part}: ", figures())


def compiled(cx: ll.Graph) -> ll.Compilation:
    """Compile for one thread."""
    return cx.compile(ll.GenericCompiler(), ll.CPUCompiler(threads=1))


def exports(folder: Path) -> Iterator[Figure]:
    """Export GPT-2 small, twice."""
    cx = ll.Graph("gpt2")
    model = nn.models.GPT2(layers=12, heads=12, width=768, vocab=50257, context=1024)
    model(cx.tensor((1, 64), "int64", name="tokens")).named("logits").retrieve()
    compilation = compiled(cx)
    for what, goal in (("with its C compiled", ""), ("without compiling", "3,000 ms")):
        took, _ = seconds(lambda: compilation.export(folder))
        yield f"GPT-2 small, {what}", ms(took), goal
    weights = (folder / "weights.safetensors").stat().st_size
    source, library = ((folder / f"gpt2.{kind}").stat().st_size for kind in ("c", "so"))
    yield "weights; source; library, bytes", f"{weights:,}; {source:,}; {library:,}", ""


def mlp() -> ll.Graph:
    """Return 784 → 256 → 10."""
    cx = ll.Graph("mlp")
    x = cx.tensor((1, WIDTHS[0]), name="x")
    first, second = (nn.Linear(a, b) for a, b in pairwise(WIDTHS))
    second(first(x).relu()).named("y").retrieve()
    return cx


def empty() -> ll.Graph:
    """Return a model that does almost nothing."""
    cx = ll.Graph("empty")
    (cx.tensor((cx.dim("n", 1, 64),), name="x") * 2).named("y").retrieve()
    return cx


def calls(folder: Path, rounds: int) -> Iterator[Figure]:
    """Time calls of small models, in turns."""
    for make, x, goal in ((empty, ROW[0, :4], "10 µs"), (mlp, ROW, "")):
        cx = make()
        compilation = compiled(cx)
        at = compilation.export(folder / cx.ir.name)
        ways: dict[str, Callable[[], object]] = {"its library alone": library(at, x)}
        run = model_of(at)
        ways["Model(x=x)"] = lambda run=run, x=x: run(x=x)

        def execute(cx: ll.Graph = cx, x: np.ndarray = x) -> None:
            cx["x"].set(x)
            cx.execute()

        ways["cx.execute()"] = execute
        function = cx.as_function()
        ways["cx.as_function()"] = lambda function=function, x=x: function(x)
        if make is mlp and (other := onnx(cx, folder)) is not None:
            ways["ONNX Runtime"] = lambda other=other, x=x: other.run(None, {"x": x})
        for way, took in in_turns(ways, rounds).items():
            bar = goal if way == "its library alone" else ""
            yield f"{cx.ir.name}, {way}", f"{1e6 * took:.1f} µs", bar


def in_turns(ways: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """Return the least seconds of a call of each, over rounds in which all have their turn."""
    least = dict.fromkeys(ways, float("inf"))
    for _ in range(rounds):
        for name, call in ways.items():
            for _ in range(20):
                call()
            for _ in range(20):
                begin = perf_counter()
                for _ in range(20):
                    call()
                least[name] = min(least[name], (perf_counter() - begin) / 20)
    return least


def model_of(folder: Path) -> Callable[..., Any]:
    """Return a folder's model, by its own run.py."""
    sys.path.insert(0, str(folder))
    try:
        sys.modules.pop("run", None)
        return import_module("run").Model(folder)
    finally:
        sys.path.remove(str(folder))


def library(folder: Path, x: np.ndarray) -> Callable[[], object]:
    """Return a call of a folder's library that has everything ready."""
    model: Any = model_of(folder)
    wanted = model(x=x)["y"]
    dims = (ctypes.c_int64 * 1)(x.shape[0])
    axes = (ctypes.c_int64 * 8)()
    model._check(model._sizes(dims, axes))
    arena, y = np.empty(axes[0] + 64, np.uint8), np.zeros_like(wanted)
    ins, outs = ((ctypes.c_void_p * 1)(a.ctypes.data) for a in (x, y))
    given = dims, model._weights.ctypes.data, ins, outs, arena.ctypes.data, 0
    kept = model, arena, y, x

    def call(run: Callable[..., int] = model._run, kept: object = kept) -> int:
        return run(*given)

    model._check(call())
    assert (y == wanted).all()
    return call


def onnx(cx: ll.Graph, folder: Path) -> Any:
    """Return ONNX Runtime's session of the MLP, with the same weights; None without it."""
    try:
        import onnx as package  # noqa: PLC0415  # others need none of it
        import onnxruntime  # noqa: PLC0415  # likewise
    except ImportError:
        return None
    helper, kind = package.helper, package.TensorProto.FLOAT
    names = [node.name for node in cx.ir.inputs if node.name != "x"]
    values = {name: cx[name].numpy() for name in names}
    kept = [package.numpy_helper.from_array(value, name) for name, value in values.items()]
    wide = sorted((n for n in names if values[n].ndim == 2), key=lambda n: -values[n].size)
    rows = {values[n].shape[-1]: n for n in names if values[n].ndim == 1}
    nodes, last = [], "x"
    for at, weight in enumerate(wide):
        out = "y" if at == len(wide) - 1 else f"h{at}"
        bias = rows[WIDTHS[at + 1]]
        turned = int(values[weight].shape[0] == WIDTHS[at + 1])
        nodes.append(helper.make_node("Gemm", [last, weight, bias], [f"{out}_"], transB=turned))
        nodes.append(helper.make_node("Identity" if out == "y" else "Relu", [f"{out}_"], [out]))
        last = out
    ports = [[helper.make_tensor_value_info(n, kind, [1, w])] for n, w in (("x", 784), ("y", 10))]
    graph = helper.make_graph(nodes, "mlp", *ports, kept)
    path = folder / "mlp.onnx"
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    package.save(model, path)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    y: Any = session.run(None, {"x": ROW})[0]
    cx["x"].set(ROW)
    cx.execute()
    assert np.allclose(y, np.asarray(cx["y"].numpy()), atol=1e-4)
    return session


def starts(folder: Path, rounds: int) -> Iterator[Figure]:
    """Time processes that give a first result, and imports beside them."""
    at = compiled(mlp()).export(folder / "mlp")
    subprocess.run(["make", "-s"], cwd=at, check=True)
    ours = (
        f"import sys; sys.path.insert(0, {str(at)!r}); import numpy as np; from run import Model;"
        f"Model({str(at)!r})(x=np.zeros((1, 784), 'float32'))"
    )
    commands = {
        "the program in C, a first result": [str(at / "mlp"), str(at / "weights.safetensors")],
        "Python and run.py, a first result": [sys.executable, "-c", ours],
        "import numpy": [sys.executable, "-c", "import numpy"],
        "import luminal_lab and Graph()": [
            *(sys.executable, "-c", "import luminal_lab as ll; ll.Graph()")
        ],
        "import onnxruntime": [sys.executable, "-c", "import onnxruntime"],
    }
    least = dict.fromkeys(commands, float("inf"))
    for _ in range(rounds):
        for name, command in commands.items():
            begin = perf_counter()
            done = subprocess.run(command, capture_output=True, check=False)
            if done.returncode == 0:
                least[name] = min(least[name], perf_counter() - begin)
    for name, took in least.items():
        yield name, ms(took), "10 ms" if "in C" in name else ""


if __name__ == "__main__":
    main()

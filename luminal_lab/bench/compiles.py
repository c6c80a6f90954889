"""What the rows about compiling compile, and what the same machine takes for less than that."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from time import perf_counter

# Tensors are of any type.
# pyright: reportUnknownMemberType=false
import numpy as np

import luminal_lab as ll
from luminal_lab import nn
from luminal_lab.bench.workload import Sizes
from luminal_lab.core.edit import Edit
from luminal_lab.core.ir import IR
from luminal_lab.core.op import ints
from luminal_lab.devices.build.toolchain import build, find_compiler
from luminal_lab.errors import DeviceError
from luminal_lab.nn import models
from luminal_lab.passes.snapshot import Snapshot

EMPTY = "ms of the C compiler for an empty file"
NUMPY = "ms of NumPy's import"
SNAPSHOTS = (Edit, "ir"), (IR, "bare"), (Snapshot, "__init__")
"""What a compile would do without, if it kept no graph but the last."""
IMPORTING = """
import time, {after}
start = time.perf_counter()
import {module}
print(time.perf_counter() - start)
"""


def ten_ops(sizes: Sizes) -> ll.Graph:
    """Return a graph of ten ops."""
    cx, size = ll.Graph(), sizes["size"]
    x, w = cx.tensor((size, size), name="x"), cx.tensor((size, size), name="w")
    h = ((x @ w).relu() * 2 + x).softmax(-1)
    ((h @ w).tanh() + h.max(-1, keepdim=True)).mean(-1).retrieve()
    return cx


def known_ops(sizes: Sizes) -> list[ll.Graph]:
    """Return graphs; the last has the kernels of the others, which have other names there."""
    graphs: list[ll.Graph] = []
    size = sizes["size"]
    for wanted in ("first", "second", "both"):
        cx = ll.Graph()
        x, w = cx.tensor((size, size), name="x"), cx.tensor((size, size), name="w")
        if wanted != "first":
            ((x * 3).exp().graph_break() @ w).tanh().retrieve()
        if wanted != "second":
            ((x * 2).softmax(-1).graph_break() @ w).retrieve()
        graphs.append(cx)
    return graphs


def gpt2_training(sizes: Sizes) -> ll.Graph:
    """Return a training step of a GPT-2, with AdamW."""
    model = models.GPT2(
        layers=sizes["layers"],
        heads=sizes["heads"],
        width=sizes["width"],
        vocab=sizes["vocab"],
        context=sizes["context"],
    )
    cx = ll.Graph()
    shape = 1, sizes["seq"]
    tokens, following = (cx.tensor(shape, "int64", name) for name in ("tokens", "following"))
    loss = nn.cross_entropy(model(tokens), following, axis=-1).retrieve()
    nn.AdamW(1e-3).minimise(loss)
    return cx


class Narrowing(nn.Module):
    """Three convolutions, of one pixel, of nine and of one, around which the input goes."""

    def __init__(self, channels: int, width: int) -> None:
        self.down = nn.Conv2d(channels, width, 1)
        self.mix = nn.Conv2d(width, width, 3, padding=1)
        self.up = nn.Conv2d(width, channels, 1)

    def forward(self, x: ll.Tensor) -> ll.Tensor:
        """Return the sum of the input and what the convolutions make of it."""
        return self.up(self.mix(self.down(x).relu()).relu()) + x


def convolutions(sizes: Sizes) -> ll.Graph:
    """Return a net of convolutions, none of which is like another."""
    cx = ll.Graph()
    channels, side = sizes["channels"], sizes["side"]
    y = cx.tensor((1, channels, side, side), name="images")
    for block in range(sizes["blocks"]):
        y = Narrowing(channels, 8 + 4 * block)(y)
    y.mean((2, 3)).retrieve()
    return cx


def compiled(cx: ll.Graph, threads: int, *, wait: bool = True, keep: bool = False) -> ll.Graph:
    """Return a graph, compiled for the CPU."""
    cx.compile(ll.GenericCompiler(), ll.CPUCompiler(threads=threads), wait=wait, keep=keep)
    return cx


def first_values(cx: ll.Graph, threads: int) -> ll.Graph:
    """Return a graph with its first values, computed before its kernels are compiled."""
    compiled(cx, threads, wait=False)
    for node in cx.ir.inputs:
        cx[node.name].set(np.ones(ints(node.shape), node.dtype.numpy))
    cx.execute()
    return cx


def import_seconds(module: str, after: str = "sys") -> float:
    """Return how long a new process of Python takes to import a module, after some others."""
    command = [sys.executable, "-c", IMPORTING.format(module=module, after=after)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return float(done.stdout)


def timed(call: Callable[[], object]) -> float:
    """Return the seconds of a call."""
    start = perf_counter()
    call()
    return perf_counter() - start


@contextmanager
def counted(methods: Iterable[tuple[type, str]], taken: list[float]) -> Generator[None]:
    """Add up the seconds that methods take, none of which calls another."""
    taken[0] = 0.0

    def watched(method: Callable[..., object]) -> Callable[..., object]:
        def call(*args: object, **options: object) -> object:
            start = perf_counter()
            try:
                return method(*args, **options)
            finally:
                taken[0] += perf_counter() - start

        return call

    own = [(owner, name, getattr(owner, name)) for owner, name in methods]
    for owner, name, method in own:
        setattr(owner, name, watched(method))
    try:
        yield
    finally:
        for owner, name, method in own:
            setattr(owner, name, method)


def references() -> dict[str, float]:
    """Return what this machine takes, at the same time, for things that do nothing."""
    import_seconds("numpy")  # the first time it is read from disk
    facts = {NUMPY: 1e3 * import_seconds("numpy")}
    try:
        compiler = find_compiler()
    except DeviceError:
        return facts
    empty = min(timed(lambda: build("int lab_empty;\n", compiler)) for _ in range(3))
    return {**facts, EMPTY: 1e3 * empty}

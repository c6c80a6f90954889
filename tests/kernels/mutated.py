"""Programs whose C is mutated, and what judges a mutant."""

from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any

import luminal_lab as ll
from luminal_lab.devices.build.toolchain import compile_library
from luminal_lab.devices.cpu.program import CPUProgram
from luminal_lab.errors import DeviceError, PassError
from luminal_lab.kernels.render.c.program import PROGRAM
from luminal_lab.passes.check import Checker
from luminal_lab.passes.compilation import Compilation
from luminal_lab.passes.compile import compile_ir
from luminal_lab.passes.draws import Given
from tests.kernels.mutating import Mutant, mutants

DIMS = {"symbolic": {"n": 130, "m": 70}, "parts": {"n": 33_000}}
"""The sizes of a session's last run: those that a check draws have sums of one part, these six."""
PATIENCE = 5.0
"""The seconds that a mutant may take: the programs are small."""


def elementwise(cx: ll.Graph) -> None:
    """Products, differences and functions."""
    x, y = cx.tensor((3, 7), name="x"), cx.tensor((7,), name="y")
    ((x - y) * x.exp() / (1 + y * y) - 0.3 * x.sin()).retrieve()
    ((x < y).where(x, -y)).retrieve()


def softmax(cx: ll.Graph) -> None:
    """A maximum, a sum, and both along another axis."""
    x = cx.tensor((5, 37), name="x")
    x.softmax(-1).retrieve()
    x.log_softmax(0).retrieve()


def layer_norm(cx: ll.Graph) -> None:
    """Means and squares, with a weight."""
    x, w, b = cx.tensor((4, 19), name="x"), cx.tensor((19,), name="w"), cx.tensor((19,), name="b")
    (x.layer_norm(-1) * w + b).retrieve()
    x.var(0).retrieve()


def matmul(cx: ll.Graph) -> None:
    """Tiles with tails on all sides."""
    a, b, c = cx.tensor((13, 21), name="a"), cx.tensor((21, 35), name="b"), cx.tensor((35,))
    (a @ b + c).relu().retrieve()


def attention(cx: ll.Graph) -> None:
    """Scores, softmax and the mean of values: causal, and of more keys than a block has."""
    q, k, v = (cx.tensor((1, 150, 4), name=name) for name in "qkv")
    q.scaled_dot_product_attention(k, v, is_causal=True).retrieve()
    keys, values = (cx.tensor((1, 300, 4), name=name) for name in ("keys", "values"))
    rows = cx.tensor((1, 101, 4), name="rows")
    rows.scaled_dot_product_attention(keys, values).retrieve()


def convolution(cx: ll.Graph) -> None:
    """Windows with padding; of numbers whose sums are finite in any order."""
    x, w = cx.tensor((1, 3, 8, 9), name="x"), cx.tensor((4, 3, 3, 3), name="w")
    x.tanh().conv2d(w.tanh(), padding=1).relu().retrieve()


def gather_scatter(cx: ll.Graph) -> None:
    """Places that are data."""
    x = cx.tensor((6, 5), name="x")
    i, j = (cx.tensor((6, 5), "int64", name=name) for name in "ij")
    x.gather(0, i).retrieve()
    x.scatter_add(0, i, x * 2).retrieve()
    x.scatter(1, j, -x).retrieve()


def argmax(cx: ll.Graph) -> None:
    """Places that are found."""
    x = cx.tensor((4, 11), name="x")
    x.argmax(-1).retrieve()
    x.argmin(0).retrieve()


def casts(cx: ll.Graph) -> None:
    """Floats to whole numbers and back, and narrower ones."""
    x, i = cx.tensor((40,), name="x"), cx.tensor((40,), "int32", name="i")
    (x * 9).cast("int8").cast("float32").retrieve()
    (x * 3).cast("float16").cast("float64").retrieve()
    (i.cast("uint8").cast("int64") + x.cast("bool").cast("int64")).retrieve()


def brain_floats(cx: ll.Graph) -> None:
    """Floats of 16 bits with a large exponent, and few digits."""
    x, y = cx.tensor((40,), name="x"), cx.tensor((3, 9), "bfloat16", name="y")
    x.cast("bfloat16").retrieve()
    (y * 2 + y.sum(-1, keepdim=True)).retrieve()


def whole_numbers(cx: ll.Graph) -> None:
    """Integers, which wrap around."""
    i, j = cx.tensor((3, 8), "int32", name="i"), cx.tensor((3, 8), "int32", name="j")
    (i * j - i).retrieve()
    (i % (j * j + 1)).retrieve()
    i.sum(-1).retrieve()
    i.maximum(j).max(0).retrieve()


def random(cx: ll.Graph) -> None:
    """Numbers of a generator."""
    x = cx.tensor((5, 6), name="x")
    (x + cx.rand(5, 6)).retrieve()


def update(cx: ll.Graph) -> None:
    """Rows of a cache, along its second axis, and of one that is carried."""
    cache, rows = cx.tensor((3, 9, 4), name="cache"), cx.tensor((3, 2, 4), name="rows")
    cache.update(rows * 2, 3, axis=1).retrieve()
    old, new = cx.tensor((2, 9, 4), name="old"), cx.tensor((2, 2, 4), name="new")
    cx.carry(old.update(new, 5, axis=1), old)
    cache.sum(-1).retrieve()


def views(cx: ll.Graph) -> None:
    """Padding, flips, slices and windows."""
    x = cx.tensor((5, 6), name="x")
    padded = x.pad(((1, 2), (0, 1)))
    (padded.flip(0) + padded).retrieve()
    ll.concat([x[1:3], x.flip(1)[:2]], 0).T.contiguous().retrieve()
    x.cumsum(-1).retrieve()


def symbolic(cx: ll.Graph) -> None:
    """Sizes that a run says; a single row would have a kernel that no other size runs."""
    x, w = cx.tensor((cx.dim("n", 2), 10), name="x"), cx.tensor((10, "m"), name="w")
    (x @ w).retrieve()


def parts(cx: ll.Graph) -> None:
    """Sums so long that they are made in parts, by several tasks."""
    x = cx.tensor(("n", 10), name="x")
    (x * x.sum(-1, keepdim=True)).mean(0).retrieve()


PROGRAMS: dict[str, Callable[[ll.Graph], None]] = {
    one.__name__: one
    for one in (
        *(elementwise, softmax, layer_norm, matmul, attention, convolution, gather_scatter),
        *(argmax, casts, brain_floats, whole_numbers, random, update, views, symbolic, parts),
    )
}


class Judge:
    """A program, and the check of values that all of its mutants are put to."""

    def __init__(self, name: str, threads: int = 1) -> None:
        cx = ll.Graph()
        PROGRAMS[name](cx)
        self.compiled = compile_ir(cx.ir, ll.GenericCompiler(), ll.CPUCompiler(threads=threads))
        program = self.compiled.runner
        assert isinstance(program, CPUProgram)
        self.program = program
        self.checker = Checker(self.compiled.ir, Given(dims=DIMS.get(name, {})))

    @cached_property
    def mutants(self) -> dict[str, list[Mutant]]:
        """Some mutants of its kernels of each kind: the first, the last, and one between."""
        kinds: dict[str, list[Mutant]] = {}
        for one in mutants(self.program.source, lambda name: name.startswith("kernel_")):
            kinds.setdefault(one.kind, []).append(one)
        return {
            kind: [found[at] for at in sorted({0, len(found) // 2, len(found) - 1})]
            for kind, found in kinds.items()
        }

    def verdict(self, source: str) -> str | None:
        """Return what the check of values says of other C for the program; None: it is right."""
        snapshots, pipeline = self.compiled.snapshots, self.compiled.pipeline
        try:
            runner: Any = Mutated(self.program, source)
            self.checker.check_device(Compilation(snapshots, pipeline, runner=runner))
        except (PassError, DeviceError) as error:
            return error.message
        return None


class Mutated(CPUProgram):
    """A program with other C, whose library is never called in this process."""

    def __init__(self, program: CPUProgram, source: str) -> None:
        kept = {name: value for name, value in vars(program).items() if name != "path"}
        vars(self).update(kept, source=source, patience=PATIENCE)

    @cached_property
    def path(self) -> Path:
        """The library, which is made when the other build was right."""
        return compile_library(self.source, self.compiler, entries=[PROGRAM])

"""The exercises of notebook 08: a tile without conflicts, Metal, threads, a roofline."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias, cast

import numpy as np

from luminal_lab.core.dtypes import Array
from luminal_lab.course.exercise import Exercise, Verdict
from luminal_lab.course.probing import equal, kind
from luminal_lab.devices.cuda.compiler import CUDACompiler
from luminal_lab.devices.facts.specifications import specification
from luminal_lab.devices.metal.compiler import MetalCompiler
from luminal_lab.emulator.trace import Trace
from luminal_lab.kernels.emulated import Emulated
from luminal_lab.kernels.kernel import Kernel
from luminal_lab.kernels.user.call import KernelCall
from luminal_lab.passes.generic import GenericCompiler
from luminal_lab.session import Graph
from luminal_lab.tensor import Tensor
from luminal_lab.timing.roofline import Modelled, modelled

Reference: TypeAlias = Callable[[Array], Array]
ROWS, WIDTH, THREADS = 64, 256, 64
SECTORS = 2 * 64 * 32 * 4 // 32
"""What reading and writing 64 × 32 floats moves at least."""
ROOM = 64 << 20
LIMIT = 8.0
"""The seconds that the emulator is given."""


def turned(answer: object) -> Verdict:
    """Does a kernel in CUDA turn an array around, and without waiting?"""
    if not isinstance(answer, KernelCall):
        return _no_kernel(answer)
    run: list[Emulated] = []

    def right() -> str:
        run.append(_emulated(answer, (64, 32)))
        return _told(run[0], lambda x: x.T)

    def moved() -> str:
        many = sum(run[0].transactions.values())
        return "" if many <= SECTORS else f"expected at most {SECTORS:,}, got {many:,}"

    def waited() -> str:
        many = sum(run[0].conflicts.values())
        return "" if not many else f"expected no turns of waiting, got {many:,}"

    return Verdict.all(
        ("it is in CUDA", _in_dialect(answer, "cuda")),
        (
            "it takes f32[64, 32] and gives its transpose, f32[32, 64]",
            right,
            "y[64 * j + i] is x[32 * i + j]; all wait between writing a tile and reading it",
        ),
        (
            f"it moves no more than {SECTORS} sectors of global memory",
            moved,
            "threads that follow each other should read neighbours, and write neighbours: "
            "let the tile in shared memory be what is turned",
        ),
        (
            "no thread waits for a bank of shared memory",
            waited,
            "a number more in each row of the tile moves its columns to other banks",
        ),
    )


def metal(answer: object) -> Verdict:
    """Does a kernel in Metal compute 2 x + 1, for any size?"""
    if not isinstance(answer, KernelCall):
        return _no_kernel(answer)

    def on(size: int) -> str:
        return _told(_emulated(answer, (size,)), _affine)

    return Verdict.all(
        ("it is in Metal's language", _in_dialect(answer, "metal"), 'dialect="metal" says so'),
        (
            "it is right for 64 numbers",
            lambda: on(64),
            "y[i] = 2 * x[i] + 1, where i is [[thread_position_in_grid]]",
        ),
        (
            "it is right for 5 numbers, and for 1,000",
            lambda: on(5) or on(1000),
            "threads beyond the end have nothing to do: if (i < n)",
        ),
    )


def threads(answer: object) -> Verdict:
    """Is it the softmax of the notebook, by a schedule with 64 threads a block?"""
    if not isinstance(answer, Kernel):
        hint = "answer = cuda.rescheduled(steps), where steps is the text of a schedule"
        return Verdict.no(f"expected a kernel, got {kind(answer)}", hint)
    if answer.definition is None or answer.emulator is None:
        return Verdict.no(
            "it is not a kernel that a schedule made for a GPU", "take nvidia.kernels[0]"
        )
    run: list[Emulated] = []

    def right() -> str:
        run.append(answer.emulate(trace=True, limit=LIMIT))
        return _findings(run[0]) or ("" if run[0].agrees else str(run[0]).splitlines()[-2].strip())

    def many() -> str:
        threads = [launch.threads for launch in run[0].launches]
        return (
            ""
            if threads == [THREADS]
            else f"expected {THREADS}, got {', '.join(map(str, threads))}"
        )

    return Verdict.all(
        (
            f"it computes the softmax of {ROWS} rows of {WIDTH}",
            answer.definition == _softmax().definition,
            "begin with the kernel of the notebook: its definition must stay",
        ),
        ("the emulator agrees with its definition", right),
        (
            f"its blocks have {THREADS} threads",
            many,
            f"all four loops over columns are split by {THREADS}; two of them the default "
            "schedule does not split at all",
        ),
    )


def bound(answer: object) -> Verdict:
    """Is it a graph of one kernel that computing bounds?"""
    if not isinstance(answer, Graph):
        hint = "answer = cx, the graph itself"
        return Verdict.no(f"expected a graph, got {kind(answer)}", hint)
    cx = answer
    if not cx.ir.output_ids:
        return Verdict.no("the graph has no result", "retrieve() makes a tensor one")
    model: list[Modelled] = []

    def single() -> str:
        cx.compile(GenericCompiler(), CUDACompiler(arch="sm_90a"))
        many = len(cx.launches)
        return "" if many == 1 else f"expected 1 launch, got {many}"

    def computes() -> str:
        model.append(modelled(cx.launches[0], specification("h200")))
        return "" if model[0].bound == "compute" else f"expected compute, got {model[0].bound}"

    def fits() -> str:
        size = model[0].bytes
        return (
            "" if size <= ROOM else f"expected at most {ROOM >> 20:,} MiB, got {size >> 20:,} MiB"
        )

    return Verdict.all(
        ("it is one launch of one kernel", single),
        (
            "on the H200 it is bound by computing",
            computes,
            "which operation computes with each number that it reads more than once?",
        ),
        (
            "it reads and writes at most 64 MiB",
            fits,
            "an n × n product computes 2 n³ times, and moves 3 n² numbers of 4 bytes",
        ),
    )


def _no_kernel(answer: object) -> Verdict:
    hint = "answer = ll.kernel(source, dialect=…, blocks=…, threads=…)"
    return Verdict.no(f"expected a kernel, got {kind(answer)}", hint)


def _in_dialect(answer: KernelCall, dialect: str) -> str:
    return "" if answer.dialect == dialect else f"expected {dialect}, got {answer.dialect}"


def _emulated(call: KernelCall, shape: tuple[int, ...]) -> Emulated:
    """Return what a kernel makes of drawn numbers in the emulator, each access recorded."""
    cx = Graph()
    outputs = call(cx.tensor(shape, name="x"))
    results = cast("tuple[Tensor, ...]", outputs if isinstance(outputs, tuple) else (outputs,))
    for result in results:
        result.retrieve()
    cx.compile(CUDACompiler() if call.dialect == "cuda" else MetalCompiler())
    return cx.kernels[call.name].emulate(trace=True, limit=LIMIT)


def _told(run: Emulated, wanted: Reference) -> str:
    """Say what is wrong with a run of a kernel that has one input and one output."""
    if len(run.inputs) != 1 or len(run.outputs) != 1:
        return f"expected one input and one output, got {len(run.inputs)} and {len(run.outputs)}"
    (x,), ((name, y),) = run.inputs.values(), run.outputs.items()
    return _findings(run) or equal(y, wanted(x), name=name)


def _findings(run: Emulated) -> str:
    assert isinstance(run.trace, Trace)
    return " ".join(str(run.findings[0]).split()) if run.findings else ""


def _affine(x: Array) -> Array:
    return np.add(np.multiply(x, 2), 1)


def _softmax() -> Kernel:
    cx = Graph()
    cx.tensor((ROWS, WIDTH), name="x").softmax(-1).retrieve()
    cx.compile(GenericCompiler(), CUDACompiler(arch="sm_90a"))
    return cx.kernels[0]


EXERCISES = (
    Exercise(
        "08.1",
        "Write a kernel in CUDA that takes f32[64, 32] and gives its transpose, f32[32, 64]: "
        "all reads and writes of global memory are of neighbours, and no thread waits for a bank.",
        (
            "The kernel `turned` above does one tile of 32 × 32. Here are two: a block each.",
            "Block b reads rows 32 b to 32 b + 31, and writes the columns of these numbers.",
            "x is read at [32 * (32 * blockIdx.x + row) + column], y is written at "
            "[64 * row + 32 * blockIdx.x + column], and a row of the tile has 33 places.",
        ),
        '''answer = ll.kernel("""
// kernel turned(x: f32[64, 32]) -> (y: f32[32, 64])
extern "C" __global__ void turned(const float *x, float *y) {
    __shared__ float tile[32][33];
    const int column = threadIdx.x % 32, row = threadIdx.x / 32, first = 32 * blockIdx.x;
    tile[row][column] = x[32 * (first + row) + column];
    __syncthreads();
    y[64 * row + first + column] = tile[column][row];
}
""", dialect="cuda", blocks=2, threads=1024, meaning=lambda x: x.T)''',
        turned,
    ),
    Exercise(
        "08.2",
        "Write a kernel in Metal's language with the header affine(x: f32[n]) -> (y: f32[n]) "
        "that computes 2 x + 1, for any n.",
        (
            "Its arrays are `device const float *x` and `device float *y`; the size comes as "
            "`constant int &n`.",
            "Which thread it is, a parameter says: `uint i [[thread_position_in_grid]]`.",
            'blocks="(n + 63) // 64", threads=64: the last block has threads beyond the end.',
        ),
        '''answer = ll.kernel("""
// kernel affine(x: f32[n]) -> (y: f32[n])
kernel void affine(device const float *x, device float *y, constant int &n,
                   uint i [[thread_position_in_grid]]) {
    if (i < uint(n)) y[i] = 2 * x[i] + 1;
}
""", dialect="metal", blocks="(n + 63) // 64", threads=64, meaning=lambda x: 2 * x + 1)''',
        metal,
    ),
    Exercise(
        "08.3",
        "Give the kernel cuda of this notebook (64 rows of 256) a schedule whose blocks have 64 "
        "threads.",
        (
            "The schedule `warp` above has 32 threads. What would have to be another number?",
            "All four loops over columns are split: j, j_2, j_3 and j_4.",
            "In the text of the schedule, `by 256` becomes `by 64`; before `bind i to block` come "
            "`split j_2, j_4 by 64 as turn, thread` and `reorder j_2.thread, j_2.turn`, and the "
            "same for j_4; j_2.thread and j_4.thread are bound to thread.",
        ),
        """graph = ll.Graph("softmax")
graph.tensor((64, 256), name="x").softmax(-1).retrieve()
graph.compile(ll.GenericCompiler(), ll.CUDACompiler(arch="sm_90a"))
steps = str(graph.kernels[0].schedule).replace("by 256", "by 64")
cut = "split j_2, j_4 by 64 as turn, thread\\n"
for loop in ("j_2", "j_4"):
    steps = steps.replace(f"{loop},", f"{loop}.thread,").replace(f"{loop} to", f"{loop}.thread to")
    cut += f"reorder {loop}.thread, {loop}.turn\\n"
steps = steps.replace("bind i to block", f"{cut}bind i to block")
answer = graph.kernels[0].rescheduled(steps)""",
        threads,
    ),
    Exercise(
        "08.4",
        "Write a graph that is one kernel, reads and writes at most 64 MiB, and is bound by "
        "computing on the H200.",
        (
            "Softmax computes a few times with each number. What computes often with each?",
            "A product of two n × n matrices uses each number n times.",
            "Sizes of a few hundred to about two thousand do; very small ones are bound by "
            "the launch.",
        ),
        """cx = ll.Graph("product")
a = cx.tensor((1024, 1024), name="a")
b = cx.tensor((1024, 1024), name="b")
(a @ b).retrieve()
answer = cx""",
        bound,
    ),
)

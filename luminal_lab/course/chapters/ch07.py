"""The exercises of notebook 07: read a definition, count bytes, write a schedule and a kernel."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import numpy as np

from luminal_lab.core.dims import evaluate
from luminal_lab.core.dtypes import Array
from luminal_lab.course.compiling import compiled, no_function, rescheduled
from luminal_lab.course.exercise import Exercise, Verdict, error_text
from luminal_lab.course.probing import agrees_lazily, drawn, equal, kernels, kind
from luminal_lab.devices.cpu.user_check import check_kernel
from luminal_lab.errors import DeviceError, LabError
from luminal_lab.kernels.user.call import KernelCall
from luminal_lab.session import Graph
from luminal_lab.tensor import Tensor

SIZES = ((1, 1), (4, 8), (3, 1000))
ROWS = 1000
"""Of how many rows the tasks are counted."""
HEADER = "kernel running(x: f32[n, k]) -> (y: f32[n, k])"


# -- 07.1 ------------------------------------------------------------------------------------------


def spelled(answer: object) -> Verdict:
    """Does it compute relu(b @ a.T + 1), as one kernel?"""

    def reference(a: Array, b: Array) -> Array:
        return np.maximum(np.matmul(b, a.T) + 1.0, 0)

    def is_single() -> str:
        cx = Graph()
        a, b = cx.tensor((6, 4), name="a"), cx.tensor((5, 4), name="b")
        cast("Callable[..., Tensor]", answer)(a, b).retrieve()
        count = kernels(compiled(cx))
        return "" if count == 1 else f"expected 1 kernel, got {count}"

    return no_function(answer) or Verdict.all(
        (
            "it computes what the definition says, for (6, 4) and (5, 4)",
            lambda: agrees_lazily(answer, reference, [[(6, 4), (5, 4)]]),
            "which rows meet: j of a with i of b; then 1.0 is added, and relu comes last",
        ),
        (
            "it does for other sizes",
            lambda: agrees_lazily(answer, reference, [[(2, 3), (7, 3)], [(1, 9), (1, 9)]]),
            "use a and b as they come, without numbers for their sizes",
        ),
        ("it becomes one kernel", is_single, "a.T is a view, and costs nothing"),
    )


# -- 07.2 ------------------------------------------------------------------------------------------


def bytes_of(n: int, d: int) -> int:
    """Return what the kernel carries: x and the result, and the scale."""
    return 4 * (2 * n * d + d)


def carried(answer: object) -> Verdict:
    """Is it the count of bytes that the fused kernel moves?"""

    def counted() -> str:
        for n, d in SIZES:
            size, want = cast("Callable[..., object]", answer)(n, d), bytes_of(n, d)
            fault = equal(size, want, tolerance=0, name=f"for n = {n} and d = {d}")
            if fault:
                return fault
        return ""

    def whole() -> str:
        result = cast("Callable[..., object]", answer)(4, 8)
        right = isinstance(result, int | float | np.integer | np.floating)
        return "" if right else f"what it returns: expected a number, got {kind(result)}"

    return no_function(answer) or Verdict.all(
        ("it returns a number", whole, "return it, for the n and d that it is given"),
        (
            "it is what the kernel reads and writes",
            counted,
            "x and the result are n × d each, scale is d, a float32 has 4 bytes; what is in "
            "between does not count",
        ),
    )


# -- 07.3 ------------------------------------------------------------------------------------------


def squares() -> Graph:
    """Return a graph whose one kernel sums the squares of each row."""
    cx = Graph()
    x = cx.tensor(("n", 100), name="x")
    (x * x).sum(-1).retrieve()
    return cx


def scheduled(answer: object) -> Verdict:
    """Does it do 16 rows in a task, and the sum in lanes?"""
    kernel = rescheduled(squares(), answer)
    if isinstance(kernel, Verdict):
        return kernel
    kinds = {loop.kind for loop in kernel.nest.loops.values()} if kernel.nest else set[str]()
    tasks = evaluate(kernel.phases[0].tasks, {"n": ROWS})

    def blocks() -> str:
        if tasks == 1:
            return "expected a parallel loop, got none"
        return "" if tasks == -(-ROWS // 16) else f"expected {-(-ROWS // 16)} tasks, got {tasks}"

    return Verdict.all(
        ("each step is one, and can be done", True),
        ("a task has 16 rows", blocks, "split i by 16, and let its outer loop be parallel"),
        (
            "the sum runs some elements at a time",
            bool(kinds & {"simd", "vector"}),
            "simd is for an innermost loop: j, or what a split makes of it",
        ),
    )


# -- 07.4 ------------------------------------------------------------------------------------------


def running(answer: object) -> Verdict:
    """Is it C that makes a running sum of each row?"""
    if not isinstance(answer, KernelCall):
        hint = 'answer = ll.kernel(""" … """), with the header as its first comment'
        return Verdict.no(f"expected a kernel, got {kind(answer)}", hint)
    call = answer

    def agrees(*shapes: tuple[int, int]) -> str:
        for shape in shapes:
            given = drawn(shape, 7)
            try:
                (sums,) = check_kernel(call, given)
            except DeviceError as error:
                return f"it cannot be tried here: {error_text(error)}"
            except LabError as error:
                return error_text(error)
            fault = equal(sums, np.cumsum(given, -1), name="y")
            if fault:
                return f"for an x of {shape}: {fault}"
        return ""

    return Verdict.all(
        (
            "its header is as asked",
            "" if call.header == HEADER else f"it is {call.header}",
            f"the first comment of the source is // {HEADER}",
        ),
        ("it is in C", call.dialect == "c", "leave dialect= out"),
        (
            "it is right for one row",
            lambda: agrees((1, 1), (1, 9)),
            "keep the sum so far in a variable, add x to it, then write it to y",
        ),
        (
            "it is right for several rows",
            lambda: agrees((3, 5), (8, 33)),
            "element (i, j) is at i * k + j, and each row begins again at 0",
        ),
    )


EXERCISES = (
    Exercise(
        "07.1",
        "Write the function of two tensors that compiles to the definition.",
        (
            "A sum over k of products is a product of matrices; which axis is k in each of them?",
            "In a[j, k] * b[i, k] both have k last, and the result has b's rows as its rows.",
            "b @ a.T is the sum; 1 is added to it, and .relu() is the last thing that happens.",
        ),
        """\
def f(a, b):
    return (b @ a.T + 1.0).relu()

answer = f
""",
        spelled,
    ),
    Exercise(
        "07.2",
        "Write the function of n and d that says how many bytes the kernel reads and writes.",
        (
            "Only what is read from an input or written to an output is carried.",
            "There are two arrays of n × d, and a row of d.",
            "A float32 has four bytes: 4 * (… + …).",
        ),
        """\
def carried(n, d):
    return 4 * (2 * n * d + d)

answer = carried
""",
        carried,
    ),
    Exercise(
        "07.3",
        "Write a schedule by which a task has 16 rows, and the sum runs some elements at a time.",
        (
            "Two steps are about i, and at least one is about j.",
            "split i by 16 makes i.block, which counts blocks, and i.own, which counts in one.",
            "split i by 16, parallel i.block, simd j: each on a line of its own.",
        ),
        '''\
answer = """
split i by 16
parallel i.block
simd j
"""
''',
        scheduled,
    ),
    Exercise(
        "07.4",
        "Write a kernel in C that makes a running sum along each row.",
        (
            "A C function is given pointers to x and to y, and then the dims n and k.",
            "Two loops: over the rows i, and over the elements j; before the inner one, sum = 0.",
            "sum += x[i * k + j]; y[i * k + j] = sum;",
        ),
        '''\
answer = ll.kernel("""
// kernel running(x: f32[n, k]) -> (y: f32[n, k])
void running(const float *x, float *y, long n, long k) {
    for (long i = 0; i < n; i++) {
        float sum = 0;
        for (long j = 0; j < k; j++) {
            sum += x[i * k + j];
            y[i * k + j] = sum;
        }
    }
}
""")
''',
        running,
    ),
)

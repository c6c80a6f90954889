"""The exercises of notebook 18: bytes around a ring, one sum for two layers, parts, bubbles."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

import numpy as np

from luminal_lab.course.compiling import no_function
from luminal_lab.course.exercise import Exercise, Verdict
from luminal_lab.course.probing import drawn, equal, kind
from luminal_lab.session import Graph
from luminal_lab.workers.communication import Communication
from luminal_lab.workers.compiler import Sharded
from luminal_lab.workers.mesh import Mesh
from luminal_lab.workers.plan import sharding

# -- 18.1 ------------------------------------------------------------------------------------------


def called(answer: object, *given: object, want: object) -> str:
    """Return what is wrong with what a function returns."""
    got: object = cast("Callable[..., object]", answer)(*given)
    if isinstance(got, bool) or not isinstance(got, int | float | np.number):
        return f"expected a number, got {kind(got)}"
    said = ", ".join(map(str, given))
    return "" if got == want else f"for {said}: expected {want}, got {got}"


def ring(answer: object) -> Verdict:
    """Does it count the bytes that a worker sends in an all_reduce?"""
    return no_function(answer) or Verdict.all(
        (
            "two workers send the value once in all",
            lambda: called(answer, 1000, 2, want=1000),
            "first a half is sent, to be added; then the sum of the other half",
        ),
        (
            "more workers send nearly twice the value",
            lambda: called(answer, 1200, 4, want=1800) or called(answer, 1024, 8, want=1792),
            "p - 1 times a p-th part around, and p - 1 times again",
        ),
        ("a worker alone sends nothing", lambda: called(answer, 64, 1, want=0), "p - 1 is 0"),
    )


# -- 18.2 ------------------------------------------------------------------------------------------


def sent_by(cut: object) -> Communication:
    """Return what two layers send, cut over two workers."""
    cx = Graph("layers")
    x = cx.tensor((8, 16), name="x")
    w1, w2 = cx.tensor((16, 32), name="w1"), cx.tensor((32, 4), name="w2")
    ((x @ w1).relu() @ w2).named("y").retrieve()
    plan = sharding(Mesh(model=2), cast("Mapping[Any, Any]", cut))
    compiled = cx.compile(Sharded(plan))
    return cast("Communication", compiled.communication)


def megatron(answer: object) -> Verdict:
    """Does it cut two layers so that they send one sum?"""

    def is_cut() -> str:
        if not isinstance(answer, Mapping):
            return f"expected a dict, got {kind(answer)}"
        lacking = {"w1", "w2"} - cast("Mapping[str, object]", answer).keys()
        return f"{' and '.join(sorted(lacking))} are not cut" if lacking else ""

    def sends() -> str:
        rows = sent_by(answer)
        ops = [row.op for row in rows]
        return "" if ops == ["all_reduce"] else f"they send {', '.join(ops) or 'nothing'}"

    def is_small() -> str:
        size = sent_by(answer).bytes
        return "" if size == 128 else f"each worker sends {size} bytes"

    return Verdict.all(
        ("both weights are cut", lambda: is_cut(), 'as in {"w1": (None, "model"), ...}'),
        ("one all_reduce is all that is sent", lambda: is_cut() or sends(), "w1 by columns"),
        ("it is that of the result", lambda: is_cut() or is_small(), "f32[8, 4] is 128 bytes"),
    )


# -- 18.3 ------------------------------------------------------------------------------------------


def parts(answer: object) -> Verdict:
    """Does it give each worker its part of the sum?"""

    def right(workers: int, rows: int, wide: int) -> str:
        given = [drawn((rows, wide), k) for k in range(workers)]
        got: object = cast("Callable[..., object]", answer)([array.copy() for array in given])
        if not isinstance(got, list | tuple):
            return f"expected a list, got {kind(got)}"
        listed = [*cast("list[object]", got)]
        if len(listed) != workers:
            return f"expected {workers} parts, got {len(listed)}"
        wanted = np.split(np.sum(given, 0), workers)
        pairs = enumerate(zip(listed, wanted, strict=True))
        said = (equal(one, want, name=f"part {k}") for k, (one, want) in pairs)
        return next(filter(None, said), "")

    return no_function(answer) or Verdict.all(
        (
            "two workers have half of the sum each",
            lambda: right(2, 4, 3),
            "np.sum(given, 0) is what an all_reduce gives to everybody",
        ),
        (
            "so have more of them",
            lambda: right(4, 8, 2) or right(3, 3, 5),
            "np.split(total, len(given)) cuts along the first axis",
        ),
        ("a worker alone has all of it", lambda: right(1, 4, 2), "one part is the whole"),
    )


# -- 18.4 ------------------------------------------------------------------------------------------


def bubbles(answer: object) -> Verdict:
    """Does it find the least number of microbatches?"""
    return no_function(answer) or Verdict.all(
        (
            "two stages at a half, and at a fifth",
            lambda: called(answer, 2, 0.5, want=1) or called(answer, 2, 0.2, want=4),
            "(p - 1) / (m + p - 1) is the part that is bubbles",
        ),
        (
            "more stages need more",
            lambda: called(answer, 4, 0.25, want=9) or called(answer, 8, 0.125, want=49),
            "try m = 1, 2, 3, …",
        ),
        (
            "what falls between two numbers",
            lambda: called(answer, 3, 0.3, want=5) or called(answer, 1, 0.1, want=1),
            "at most so many: the first m that is good enough",
        ),
    )


EXERCISES = (
    Exercise(
        "18.1",
        "answer is a function sent(size, workers) that returns how many bytes each worker sends "
        "around a ring in an all_reduce of a value of so many bytes; workers divide them.",
        (
            "Each worker adds up one part, which goes around the ring: workers - 1 messages.",
            "Then the finished parts go around: as many messages again.",
            "A message is size / workers bytes.",
        ),
        """def sent(size, workers):
    return 2 * (workers - 1) * size // workers


answer = sent""",
        ring,
    ),
    Exercise(
        "18.2",
        "answer is a dict of annotations for (x @ w1).relu() @ w2 on ll.Mesh(model=2), with both "
        "weights cut, so that all that is sent is one all_reduce of the result.",
        (
            "relu needs whole sums, but any part of the columns will do.",
            "So the first weight is cut by columns: each worker has half of the hidden values.",
            "The second one is cut along the axis that is summed.",
        ),
        'answer = {"w1": (None, "model"), "w2": ("model", None)}',
        megatron,
    ),
    Exercise(
        "18.3",
        "answer is a function reduce_scatter(given) of the arrays that the workers give, which "
        "returns the list of what each has then: its part of their sum, along the first axis.",
        (
            "The sum of all is np.sum(given, 0).",
            "Worker 0 has the first rows, the last one the last.",
            "np.split cuts an array into equal parts.",
        ),
        """import numpy as np


def reduce_scatter(given):
    return np.split(np.sum(given, 0), len(given))


answer = reduce_scatter""",
        parts,
    ),
    Exercise(
        "18.4",
        "answer is a function least(stages, most) that returns the least number of microbatches "
        "for which at most that part of the time is bubbles, if stages take equally long.",
        (
            "The part is (stages - 1) / (microbatches + stages - 1).",
            "With one microbatch all but one worker wait.",
            "Count up until it is small enough.",
        ),
        """def least(stages, most):
    count = 1
    while stages - 1 > most * (count + stages - 1):
        count += 1
    return count


answer = least""",
        bubbles,
    ),
)

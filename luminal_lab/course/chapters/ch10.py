"""The exercises of notebook 10: the step of a fold, its merge, what it saves, and a window."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias, cast

import numpy as np

from luminal_lab.core.dtypes import Array
from luminal_lab.course.compiling import compiled, no_function
from luminal_lab.course.exercise import Exercise, Verdict
from luminal_lab.course.probing import agrees_lazily, drawn, equal, kernels, kind
from luminal_lab.session import Graph
from luminal_lab.tensor import Tensor

State: TypeAlias = tuple[object, object, object]
LOWEST = -3.4e38
WINDOW = 8
SIZES = ((2, 3, 4), (4, 8, 16), (1000, 10, 64))
PARTS = ("m, the largest score", "l, the sum of the weights", "acc, the weighted sum")


def state_of(scores: Array, values: Array) -> State:
    """Return the state behind these scores, with at least one of them."""
    m = scores.max()
    weights = np.exp(scores - m)
    return m, weights.sum(), weights @ values


def start(width: int) -> State:
    """Return the state before any score."""
    return LOWEST, 0.0, np.zeros(width)


def differs(state: object, wanted: State) -> str:
    """Return in which part a state is not the one that is wanted."""
    parts = cast("Sequence[object]", state) if isinstance(state, tuple | list) else ()
    if len(parts) != 3:
        said = kind(cast("object", state))
        return f"what it returns: expected a state of three parts, got {said}"
    for part, mine, want in zip(PARTS, parts, wanted, strict=True):
        fault = equal(mine, want, tolerance=1e-6, name=part)
        if fault:
            return fault
    return ""


# -- 10.1 ------------------------------------------------------------------------------------------


def stepped(answer: object) -> Verdict:
    """Does it fold scores and values as an attention does?"""

    def folded(scores: Array) -> str:
        values = drawn((len(scores), 4), 3, "float64")
        state: object = start(4)
        with np.errstate(all="ignore"):
            for count, (score, value) in enumerate(zip(scores, values, strict=True), 1):
                call = cast("Callable[..., object]", answer)
                state = call(state, float(score), value.copy())
                fault = differs(state, state_of(scores[:count], values[:count]))
                if fault:
                    return f"after {count} of the scores {_listed(scores)}: {fault}"
        return ""

    return no_function(answer) or Verdict.all(
        (
            "it is right for the first score",
            lambda: folded(np.array([2.0])),
            "the start's l and acc are 0, and the first weight is exp(score - score)",
        ),
        (
            "it is right while scores fall",
            lambda: folded(np.array([2.0, 1.0, -3.0])),
            "the weight of a score is exp(score - m), and acc gets weight * value",
        ),
        (
            "it is right when a larger one comes",
            lambda: folded(np.array([0.0, 1.0, 0.5, 4.0])),
            "what was summed with the old m is multiplied by exp(old - new): l, and acc as well",
        ),
        (
            "it is right for very large and very small scores",
            lambda: folded(np.array([-1000.0, 1000.0, 999.0, 5000.0, -5000.0])),
            "never take exp of more than 0: subtract the largest first",
        ),
    )


def _listed(scores: Array) -> str:
    return ", ".join(f"{score:g}" for score in scores)


# -- 10.2 ------------------------------------------------------------------------------------------


def merged(answer: object) -> Verdict:
    """Does it make one state of two?"""

    def joined(*parts: Array) -> str:
        whole = np.concatenate(parts)
        values = drawn((len(whole), 4), 5, "float64")
        states = [
            state_of(whole[at : at + len(part)], values[at : at + len(part)])
            for at, part in zip((0, len(parts[0])), parts, strict=True)
        ]
        with np.errstate(all="ignore"):
            state_given = cast("Callable[..., object]", answer)(*states)
        fault = differs(state_given, state_of(whole, values))
        return fault and f"for scores {_listed(parts[0])} and {_listed(parts[1])}: {fault}"

    def empty() -> str:
        scores, values = np.array([1.0, 2.0]), drawn((2, 4), 5, "float64")
        state = state_of(scores, values)
        with np.errstate(all="ignore"):
            state_given = cast("Callable[..., object]", answer)(start(4), state)
        fault = differs(state_given, state)
        return fault and f"for a first thread that had no keys: {fault}"

    return no_function(answer) or Verdict.all(
        (
            "it is right where both have the same largest score",
            lambda: joined(np.array([1.0, 3.0]), np.array([3.0, 2.0])),
            "l and acc are sums, and sums of two parts are added",
        ),
        (
            "it is right where the second has a larger one",
            lambda: joined(np.array([1.0, 2.0]), np.array([4.0, 0.0])),
            "each l and acc is multiplied by exp(its own m - the larger m)",
        ),
        (
            "it is right where the first has",
            lambda: joined(np.array([5.0, 2.0, 1.0]), np.array([4.0])),
            "each l and acc is multiplied by exp(its own m - the larger m)",
        ),
        (
            "it is right where they are far from each other",
            lambda: joined(np.array([-2000.0]), np.array([3000.0, 2999.0])),
            "never take exp of more than 0",
        ),
        (
            "it is right where one had nothing to do",
            empty,
            "its l and acc are 0, its m is very low",
        ),
    )


# -- 10.3 ------------------------------------------------------------------------------------------


def bytes_saved(n: int, t: int) -> int:
    """Return what the three kernels carry more: scores and weights, each there and back."""
    return 4 * (2 + 2) * n * t


def saved(answer: object) -> Verdict:
    """Is it what the fold saves?"""

    def counted(*sizes: tuple[int, int, int]) -> str:
        for n, t, d in sizes:
            size: object = cast("Callable[..., object]", answer)(n, t, d)
            if isinstance(size, str | bool) or not np.isscalar(size):
                return f"what it returns: expected a number, got {kind(size)}"
            name = f"for n = {n}, t = {t} and d = {d}"
            fault = equal(size, bytes_saved(n, t), tolerance=0, name=name)
            if fault:
                return fault
        return ""

    return no_function(answer) or Verdict.all(
        (
            "it is right for two queries and three keys",
            lambda: counted(SIZES[0]),
            "scores are written, then read; so are weights; an element has 4 bytes",
        ),
        (
            "it is right for other sizes",
            lambda: counted(*SIZES[1:]),
            "what both versions carry, such as q and the result, is no difference",
        ),
    )


# -- 10.4 ------------------------------------------------------------------------------------------


def windowed(answer: object) -> Verdict:
    """Is it attention to the last few positions, as one kernel?"""

    def reference(q: Array, k: Array, v: Array) -> Array:
        n = len(q)
        apart = np.arange(n)[:, None] - np.arange(n)
        scores = np.matmul(q, k.T) * q.shape[-1] ** -0.5
        scores = np.where((apart >= 0) & (apart < WINDOW), scores, -np.inf)
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        return np.matmul(weights / weights.sum(-1, keepdims=True), v)

    def on(*shapes: tuple[int, int]) -> str:
        return agrees_lazily(answer, reference, [[shape] * 3 for shape in shapes])

    def is_single() -> str:
        cx = Graph()
        q, k, v = (cx.tensor((128, 64), name=name) for name in "qkv")
        cast("Callable[..., Tensor]", answer)(q, k, v).retrieve()
        names = [launch.kernel.name for launch in compiled(cx).launches]
        return (
            "" if kernels(cx) == 1 else f"expected 1 kernel, got {len(names)}: {', '.join(names)}"
        )

    return no_function(answer) or Verdict.all(
        (
            "it is right where all earlier positions are in the window",
            lambda: on((1, 4), (6, 4)),
            "a score of what is not seen is -inf before the softmax; later positions are not seen",
        ),
        (
            "it is right where some are too far back",
            lambda: on((9, 4), (30, 16)),
            "position i sees j where 0 <= i - j < 8",
        ),
        (
            "it becomes one kernel",
            is_single,
            "make the condition of arange, and do not retrieve what is in between",
        ),
    )


EXERCISES = (
    Exercise(
        "10.1",
        "Write the step of the fold: a function of state, score and value that returns the state.",
        (
            "It is in attend above, between the for and the return.",
            "First the new m, then the correction exp(m - top), then the weight exp(score - top).",
            "return top, l * correction + weight, acc * correction + weight * value",
        ),
        """\
def step(state, score, value):
    m, l, acc = state
    top = max(m, score)
    correction, weight = np.exp(m - top), np.exp(score - top)
    return top, l * correction + weight, acc * correction + weight * value

answer = step
""",
        stepped,
    ),
    Exercise(
        "10.2",
        "Write the function that makes one state of the states of two halves.",
        (
            "The m of all is the larger one; each half is corrected to it.",
            "The correction of a half is exp(its m - the larger m), for its l and for its acc.",
            "return top, la * ca + lb * cb, and the same for acc, where ca = exp(ma - top).",
        ),
        """\
def merge(first, second):
    top = max(first[0], second[0])
    a, b = np.exp(first[0] - top), np.exp(second[0] - top)
    return top, first[1] * a + second[1] * b, first[2] * a + second[2] * b

answer = merge
""",
        merged,
    ),
    Exercise(
        "10.3",
        "Write the function of n, t and d that says how many bytes the fold saves.",
        (
            "Both versions read q, k and v, and write the result.",
            "Three kernels hand two arrays of n × t on to each other: scores, and weights.",
            "Each of the two is written once and read once, with 4 bytes an element.",
        ),
        """\
def saved(n, t, d):
    return 4 * (2 + 2) * n * t

answer = saved
""",
        saved,
    ),
    Exercise(
        "10.4",
        "Write the attention in which a position sees the last 8, as a lazy function of q, k, v.",
        (
            "i - j is a tensor of n × n: one arange as a column minus the other as a row.",
            "Where it is below 0 or above 7, the score becomes -inf: masked_fill does that.",
            "(q @ k.T * d**-0.5).masked_fill((apart < 0) | (apart > 7), -np.inf).softmax(-1) @ v",
        ),
        """\
def window(q, k, v):
    n, d = q.shape
    at = q.graph.arange(n)
    apart = at.unsqueeze(1) - at.unsqueeze(0)
    scores = (q @ k.T) * d**-0.5
    return scores.masked_fill((apart < 0) | (apart > 7), -np.inf).softmax(-1) @ v

answer = window
""",
        windowed,
    ),
)

"""The exercises of notebook 15: how fast a step can be, what top-p keeps, and a block of 8 bits."""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from typing import Any, cast

import numpy as np

from luminal_lab.core.dtypes import Array
from luminal_lab.course.compiling import no_function
from luminal_lab.course.exercise import Exercise, Verdict
from luminal_lab.course.probing import drawn, equal, kind

# -- 15.1 ------------------------------------------------------------------------------------------


def bounded(answer: object) -> Verdict:
    """Does it say how many tokens a second the memory allows?"""

    def rate(*given: float) -> str:
        weights, a_token, past, bandwidth = given
        got = cast("Callable[..., object]", answer)(*given)
        return equal(got, np.float64(bandwidth / (weights + a_token * past)))

    return no_function(answer) or Verdict.all(
        (
            "it is right for an empty cache",
            lambda: rate(1e9, 4096.0, 0, 20e9),
            "a step reads all weights once",
        ),
        (
            "it is right for a long text",
            lambda: rate(5e8, 131072.0, 4000, 50e9),
            "attention reads the keys and values of each of the past tokens",
        ),
    )


# -- 15.2 ------------------------------------------------------------------------------------------


def likeliest(answer: object) -> Verdict:
    """Does it keep the fewest likeliest tokens that have a probability in all?"""

    def kept(chances: list[float], p: float, wanted: set[int]) -> str:
        logits = np.log(np.array(chances, "float32"))
        got: object = cast("Callable[..., object]", answer)(logits, p)
        if not isinstance(got, Set | list | tuple | np.ndarray):
            return f"expected a set of tokens, got {kind(got)}"
        try:
            found = {int(id) for id in cast("Any", got)}
        except (TypeError, ValueError):
            return "expected the numbers of tokens"
        return "" if found == wanted else f"expected {wanted}, got {found or '{}'}"

    return no_function(answer) or Verdict.all(
        (
            "it keeps the fewest that reach p",
            lambda: kept([0.1, 0.5, 0.15, 0.25], 0.7, {1, 3}),
            "sort the probabilities, the largest first, and add them up",
        ),
        (
            "it keeps the likeliest, however small p is",
            lambda: kept([0.1, 0.6, 0.3], 0.05, {1}),
            "the token that reaches p is kept, too",
        ),
        (
            "it takes logits, which may be any numbers",
            lambda: kept([8.0, 40.0, 20.0, 12.0], 0.7, {1, 2}),
            "probabilities are exp(logits), divided by their sum",
        ),
    )


# -- 15.3 ------------------------------------------------------------------------------------------


def packed(answer: object) -> Verdict:
    """Are 32 values a scale and whole numbers from -127 to 127, as near as they can be?"""

    def near(given: Array, factor: float = 1) -> str:
        block = given.astype("float32") * np.float32(factor)
        got: object = cast("Callable[..., object]", answer)(block.copy())
        pair = cast("Sequence[Any]", got) if isinstance(got, list | tuple) else ()
        if len(pair) != 2:
            return f"expected a scale and whole numbers, got {kind(cast('object', got))}"
        scale, whole = pair
        numbers = np.asarray(whole)
        if numbers.shape != block.shape:
            return f"expected {block.size} numbers, got the shape {numbers.shape}"
        if numbers.dtype != np.int8:
            return f"expected numbers of int8, got {numbers.dtype}"
        most = float(np.abs(block).max())
        error = float(np.abs(numbers.astype("float64") * float(scale) - block).max())
        if error <= most / 127 / 2 * 1.001:
            return ""
        return f"expected an error of at most {most / 254:.4g}, got {error:.4g}"

    return no_function(answer) or Verdict.all(
        (
            "no value is further off than half a step",
            lambda: near(drawn((32,), 1)),
            "the largest magnitude becomes 127; round, and not towards zero",
        ),
        (
            "it is right for small values, too",
            lambda: near(drawn((32,), 2), 1e-3),
            "each block has a scale of its own",
        ),
        (
            "a block of zeros is all zeros",
            lambda: near(np.zeros(32, "float32")),
            "where the largest magnitude is 0, do not divide by it",
        ),
    )


EXERCISES = (
    Exercise(
        "15.1",
        "answer is a function ceiling(weights, a_token, past, bandwidth) that returns the most "
        "tokens a second that a memory allows: the bytes of the weights, those of a token's keys "
        "and values, the tokens in the cache, and the bytes a second.",
        (
            "What has to be read for a single token?",
            "All weights, and the keys and values of all past tokens.",
            "Bytes a second, divided by bytes a token, are tokens a second.",
        ),
        """def ceiling(weights, a_token, past, bandwidth):
    return bandwidth / (weights + a_token * past)


answer = ceiling""",
        bounded,
    ),
    Exercise(
        "15.2",
        "answer is a function kept(logits, p) that returns the set of tokens that top-p draws "
        "from: the fewest likeliest ones whose probabilities reach p together.",
        (
            "Probabilities first: a softmax of the logits.",
            "order = np.argsort(-chances) has the likeliest token first.",
            "np.cumsum adds up; np.searchsorted says where p is reached.",
        ),
        """import numpy as np


def kept(logits, p):
    chances = np.exp(logits - logits.max())
    chances = chances / chances.sum()
    order = np.argsort(-chances)
    count = np.searchsorted(np.cumsum(chances[order]), p) + 1
    return {int(id) for id in order[:count]}


answer = kept""",
        likeliest,
    ),
    Exercise(
        "15.3",
        "answer is a function pack(block) that returns what Q8_0 keeps of 32 values: a scale, and "
        "an array of int8, whose product is as near to the values as it can be.",
        (
            "The value of the largest magnitude becomes 127 or -127.",
            "scale = np.abs(block).max() / 127",
            "np.round(block / scale).astype(np.int8), unless the scale is 0.",
        ),
        """import numpy as np


def pack(block):
    scale = np.abs(block).max() / 127
    numbers = np.round(block / scale) if scale else np.zeros_like(block)
    return scale, numbers.astype(np.int8)


answer = pack""",
        packed,
    ),
)

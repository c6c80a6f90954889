"""The exercises of notebook 06: gradients by hand and of one's own, an optimiser, a reader."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import TypeAlias, cast

import numpy as np
import numpy.typing as npt

from luminal_lab.core.dtypes import Array
from luminal_lab.course.exercise import Exercise, Verdict
from luminal_lab.course.probing import agrees_lazily, drawn, equal, kind
from luminal_lab.nn import Module, Optimiser, cross_entropy
from luminal_lab.passes.gradients import grad
from luminal_lab.session import Graph
from luminal_lab.tensor import Tensor
from luminal_lab.tensor.arguments import is_function

Floats: TypeAlias = npt.NDArray[np.float64]
SHAPES = (((5,),), ((2, 3),), ((4, 1, 2),))
RATE, KEPT = 0.1, 0.9
STEPS, BATCH, NUMBERS, SHARE = 100, 64, 1_000, 0.9
"""The steps of training, the digits in each, the weights allowed, and what must be read."""


def no_function(answer: object, wanted: str) -> Verdict | None:
    """Return what is said of an answer that cannot be called as a function of a tensor."""
    if is_function(answer) and not isinstance(answer, (type, Tensor, Module)):
        return None
    text = f"expected a function, got {kind(answer)}"
    return Verdict.no(text, f"{wanted}: …, and then the name of the function as the answer")


# -- 06.1 ------------------------------------------------------------------------------------------


def by_hand(x: Floats) -> Floats:
    """Return the gradient of the sum of x times its sigmoid."""
    s = 1 / (1 + np.exp(-x))
    return s + x * s * (1 - s)


def derived(function: Callable[..., object]) -> str:
    """Return what says that a function had its gradient derived."""
    cx = Graph()
    function(cx.tensor((3,)))
    return "it calls ll.grad or backward" if cx.gradients else ""


def manual(answer: object) -> Verdict:
    """Is it the gradient, written by hand?"""
    call = cast("Callable[..., object]", answer)
    return no_function(answer, "def slope(x)") or Verdict.all(
        (
            "it is right for one axis",
            lambda: agrees_lazily(answer, by_hand, SHAPES[:1]),
            "a product u * v has the gradient u' * v + u * v', and here u is x, so that u' is 1",
        ),
        (
            "it is right for all shapes",
            lambda: agrees_lazily(answer, by_hand, SHAPES),
            "the gradient has the shape of x: sum nothing up",
        ),
        (
            "it is written by hand",
            lambda: derived(call),
            "write the formula with x.sigmoid(), sums and products",
        ),
    )


# -- 06.2 ------------------------------------------------------------------------------------------


def turned(function: Callable[..., object]) -> str:
    """Return what is wrong with the gradient that goes through a function."""
    cx = Graph()
    x = cx.tensor((2, 3), name="x").set(drawn((2, 3)))
    w = drawn((2, 3), seed=1)
    y = function(x)
    if not isinstance(y, Tensor):
        return f"what it returns: expected a tensor, got {kind(y)}"
    return equal(grad((y * w).sum(), x), np.multiply(w, -0.5), name="the gradient")


def reversing(answer: object) -> Verdict:
    """Does it leave a value as it is, and turn its gradient around?"""
    call = cast("Callable[..., object]", answer)
    return no_function(answer, "def reverse(x)") or Verdict.all(
        (
            "it returns the tensor as it is",
            lambda: agrees_lazily(answer, np.asarray, SHAPES),
            "the value on the way forward is x",
        ),
        (
            "its gradient is turned around and halved",
            lambda: turned(call),
            "@ll.custom_gradient above it; it returns its result and a function of g",
        ),
    )


# -- 06.3 ------------------------------------------------------------------------------------------


def rolling(optimiser: Optimiser, count: int) -> str:
    """Return where an optimiser's steps first differ from those of a ball that rolls downhill."""
    cx = Graph()
    start = np.array([1.0, -2.0, 3.0], "float32")
    w = cx.tensor((3,), name="w").set(start)
    optimiser.minimise((w * w).sum(), w)
    position, velocity = start.astype("float64"), np.zeros(3)
    for step in range(1, count + 1):
        cx.execute()
        velocity = KEPT * velocity + 2 * position
        position = position - RATE * velocity
        fault = equal(w.numpy(), position, name=f"the weight after step {step}")
        if fault:
            return fault
    return ""


def moving(answer: object) -> Verdict:
    """Is it an optimiser with momentum?"""
    if not isinstance(answer, Optimiser):
        named = isinstance(answer, type)
        hint = "answer = Name(lr=0.1), with brackets" if named else "class Name(nn.Optimiser): …"
        return Verdict.no(f"expected an nn.Optimiser, got {kind(answer)}", hint)
    return Verdict.all(
        (
            "its first step is right",
            lambda: rolling(answer.initialise(), 1),
            'the first velocity is the gradient; return weight - velocity * state.numbers["lr"]',
        ),
        (
            "it keeps nine tenths of its speed",
            lambda: rolling(answer.initialise(), 6),
            'the new velocity has to be remembered, too: state["v"] = …',
        ),
    )


# -- 06.4 ------------------------------------------------------------------------------------------


@cache
def written() -> tuple[Array, Array]:
    """Return the handwritten digits, and which each is."""
    digits = import_module("sklearn.datasets").load_digits()
    return np.asarray(digits.data / 16, "float32"), np.asarray(digits.target, "int64")


def read(model: Module, optimiser: Optimiser) -> float:
    """Return which share of the digits held out a model reads after its training."""
    images, digits = written()
    random = np.random.default_rng(0)
    order = random.permutation(len(digits))
    seen, held_out = order[:1500], order[1500:]
    model.initialise(seed=0)
    train = Graph("train")
    x = train.tensor((BATCH, 64), name="x")
    y = train.tensor((BATCH,), "int64", name="y")
    optimiser.minimise(cross_entropy(cast("Tensor", model(x)), y), model)
    for _ in range(STEPS):
        batch = random.choice(seen, BATCH)
        x.set(images[batch])
        y.set(digits[batch])
        train.execute()
    test = Graph("test")
    logits = cast("Tensor", model(test.tensor((len(held_out), 64)).set(images[held_out])))
    prediction = logits.argmax(-1).retrieve()
    test.execute()
    return float((prediction.numpy() == digits[held_out]).mean())


def shaped(model: Module) -> str:
    """Return what is wrong with the result of a model."""
    y = model(Graph().tensor((BATCH, 64)))
    if not isinstance(y, Tensor):
        return f"what it returns: expected a tensor, got {kind(y)}"
    return "" if y.shape == (BATCH, 10) else f"expected the shape {(BATCH, 10)}, got {y.shape}"


def reading(answer: object) -> Verdict:
    """Is it a small model, and an optimiser with which it learns to read?"""
    pair = cast("list[object]", answer) if isinstance(answer, (tuple, list)) else []
    model, optimiser = pair if len(pair) == 2 else (None, None)
    if not isinstance(model, Module) or not isinstance(optimiser, Optimiser):
        got = "a pair of other things" if pair else kind(cast("object", answer))
        text = f"expected a pair of a model and an optimiser, got {got}"
        return Verdict.no(text, "answer = nn.Sequential(…), nn.AdamW(lr=…)")
    size = sum(int(np.prod(p.shape, dtype=float)) for p in model.parameters().values())

    def reads() -> str:
        try:
            share = read(model, optimiser)
        except ImportError:
            return "scikit-learn, which has the digits, is not installed"
        return "" if share >= SHARE else f"expected {SHARE:.0%} or more, got {share:.0%}"

    return Verdict.all(
        (
            f"it has at most {NUMBERS:,} numbers",
            "" if 0 < size <= NUMBERS else f"it has {size:,}",
            "nn.Linear(a, b) has a * b weights and b more numbers",
        ),
        (
            f"it makes ({BATCH}, 10) of ({BATCH}, 64)",
            lambda: shaped(model),
            "the first layer takes the 64 points, the last one makes 10 numbers",
        ),
        (
            f"it reads {SHARE:.0%} of the digits after {STEPS} steps",
            reads,
            "try another rate: ten times as much, or a tenth; or another hidden layer",
        ),
    )


EXERCISES = (
    Exercise(
        "06.1",
        "Write a function of a tensor x that returns the gradient of (x * x.sigmoid()).sum() by "
        "x, without ll.grad and backward.",
        (
            "It is the derivative of a product, element by element.",
            "One part is the sigmoid itself, the other x times the sigmoid's derivative.",
            "With s = x.sigmoid() it is s + x * s * (1 - s).",
        ),
        """\
def slope(x):
    s = x.sigmoid()
    return s + x * s * (1 - s)

answer = slope
""",
        manual,
    ),
    Exercise(
        "06.2",
        "Write a function of a tensor that returns it as it is, but passes -g / 2 on where the "
        "gradient g arrives.",
        (
            "The function rounded above is of this form.",
            "It returns two things: the result, and a function of g.",
            "return x, lambda g: … with the gradient that shall go on.",
        ),
        """\
@ll.custom_gradient
def reverse(x):
    return x, lambda g: g * -0.5

answer = reverse
""",
        reversing,
    ),
    Exercise(
        "06.3",
        "Write an nn.Optimiser with momentum 0.9, and give one with lr=0.1.",
        (
            "It has one method: update(self, weight, gradient, state).",
            'The new velocity is state["v"] * 0.9 + gradient; set state["v"] to it.',
            'It returns weight - velocity * state.numbers["lr"].',
        ),
        """\
from luminal_lab import nn

class Momentum(nn.Optimiser):
    def update(self, weight, gradient, state):
        velocity = state["v"] * 0.9 + gradient
        state["v"] = velocity
        return weight - velocity * state.numbers["lr"]

answer = Momentum(lr=0.1)
""",
        moving,
    ),
    Exercise(
        "06.4",
        f"Give a model of at most {NUMBERS:,} numbers and an optimiser with which it reads "
        f"{SHARE:.0%} of the digits after {STEPS} steps.",
        (
            "How many numbers has a single nn.Linear(64, 10)?",
            "A hidden layer of 12 fits; so does none at all, with the right rate.",
            "nn.AdamW(lr=0.03) is a good start.",
        ),
        """\
from luminal_lab import nn

model = nn.Sequential(nn.Linear(64, 12), nn.ReLU(), nn.Linear(12, 10))
answer = model, nn.AdamW(lr=0.03)
""",
        reading,
    ),
)

"""The exercises of notebook 11: a layer, the size of a cache, a decode loop, a temperature."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

import numpy as np

from luminal_lab.core.dtypes import Array
from luminal_lab.course.exercise import Exercise, Verdict
from luminal_lab.course.probing import agrees_lazily, drawn, equal, kind
from luminal_lab.nn.cache import KVCache
from luminal_lab.nn.models.gpt2 import GPT2
from luminal_lab.nn.models.llama import Llama
from luminal_lab.nn.module import Module
from luminal_lab.session import Graph
from luminal_lab.tensor import Tensor
from luminal_lab.tensor.arguments import is_function

WIDTH, HIDDEN = 8, 12
SHAPES = {
    "gate.weight": (HIDDEN, WIDTH),
    "up.weight": (HIDDEN, WIDTH),
    "down.weight": (WIDTH, HIDDEN),
}
VOCAB = 20


def gated(answer: object) -> Verdict:
    """Is it Llama's feed-forward layer?"""
    if not isinstance(answer, Module):
        hint = "answer = Gated(8, 12): the module, with its sizes"
        return Verdict.no(f"expected a module, got {kind(answer)}", hint)

    def named() -> str:
        shapes = {path: tuple(parameter.shape) for path, parameter in answer.parameters().items()}
        for path, shape in SHAPES.items():
            if path not in shapes:
                return f"expected a parameter {path}, got none"
            if shapes[path] != shape:
                return f"{path}: expected the shape {shape}, got {shapes[path]}"
        extra = [path for path in shapes if path not in SHAPES]
        return f"expected no other parameter, got {extra[0]} as well" if extra else ""

    def computes() -> str:
        values = {path: drawn(shape, at) for at, (path, shape) in enumerate(SHAPES.items())}
        answer.load_state_dict(dict(values))

        def reference(x: Array) -> Array:
            return _gated(x, values)

        return agrees_lazily(answer, reference, [[(3, WIDTH)], [(2, 5, WIDTH)]], tolerance=1e-3)

    return Verdict.all(
        (
            "its parameters are gate.weight, up.weight and down.weight",
            named,
            "attributes gate, up and down, each nn.Linear(…, bias=False)",
        ),
        (
            "it computes down(silu(gate(x)) * up(x))",
            computes,
            "x.silu() is the activation; of which of the two is it?",
        ),
    )


def _gated(x: Array, values: dict[str, Array]) -> Array:
    a = np.matmul(x, values["gate.weight"].T)
    b = np.matmul(x, values["up.weight"].T)
    inner = np.multiply(np.divide(a, np.add(1, np.exp(np.negative(a)))), b)
    return np.matmul(inner, values["down.weight"].T)


def kept(answer: object) -> Verdict:
    """Does a function tell the bytes of a KV cache in float32?"""
    if not is_function(answer) or isinstance(answer, type):
        hint = "def size(layers, kv_heads, head, positions): … and then answer = size"
        return Verdict.no(f"expected a function, got {kind(answer)}", hint)
    call = cast("Callable[[int, int, int, int], object]", answer)

    def on(*sizes: tuple[int, int, int, int]) -> str:
        for layers, heads, head, positions in sizes:
            got, want = call(layers, heads, head, positions), _bytes(layers, heads, head, positions)
            if fault := equal(got, want, tolerance=0, name="what it returns"):
                sizes_text = f"{layers} layers, {heads} heads of {head} and {positions} positions"
                return f"for {sizes_text}: {fault}"
        return ""

    return Verdict.all(
        (
            "it is right for one layer with one head",
            lambda: on((1, 1, 4, 8), (1, 1, 8, 3)),
            "a float32 has 4 bytes; both keys and values are kept",
        ),
        (
            "it is right for several layers and heads",
            lambda: on((2, 2, 8, 16), (3, 1, 4, 5), (2, 4, 2, 7)),
            "each layer keeps its own, and each head of keys and values too",
        ),
    )


def _bytes(layers: int, heads: int, head: int, positions: int) -> int:
    """Return what the buffers of a real cache take."""
    width = 2 * heads * head
    model = Llama(
        layers=layers, heads=2 * heads, kv_heads=heads, width=width, hidden=4, vocab=VOCAB
    )
    cx = Graph()
    cache = KVCache(cx, capacity=positions)
    model(cx.tensor((1, "seq"), "int64"), cache=cache)
    shapes = [cast("tuple[int, ...]", buffer.shape) for pair in cache.buffers for buffer in pair]
    return sum(4 * int(np.prod(shape)) for shape in shapes)


class _Watched:
    """A model that says whether it was written with a cache."""

    def __init__(self, model: GPT2 | Llama) -> None:
        self.model, self.cached = model, 0

    def __call__(self, tokens: Tensor, cache: KVCache | None = None) -> Tensor:
        self.cached += cache is not None
        return self.model(tokens, cache=cache)


def loop(answer: object) -> Verdict:
    """Does a function write with a cache what the model says?"""
    if not is_function(answer) or isinstance(answer, type | Tensor):
        hint = "def generate(model, prompt, count): … and then answer = generate"
        return Verdict.no(f"expected a function, got {kind(answer)}", hint)
    call = cast("Callable[[_Watched, list[int], int], object]", answer)
    llama = Llama(layers=2, heads=4, kv_heads=2, width=16, hidden=32, vocab=VOCAB)
    gpt = GPT2(layers=1, heads=2, width=16, vocab=VOCAB, context=32)
    models = [model.initialise(seed=3) for model in (llama, gpt)]
    watched: list[_Watched] = []

    def says(model: GPT2 | Llama, prompt: Sequence[int], count: int) -> str:
        watched.append(_Watched(model))
        got = call(watched[-1], list(prompt), count)
        if not isinstance(got, list | tuple | np.ndarray):
            return f"what it returns: expected a list of tokens, got {kind(got)}"
        return equal(cast("object", got), _greedy(model, prompt, count), name="what it returns")

    return Verdict.all(
        (
            "it goes on with a prompt of three tokens as a Llama does",
            lambda: says(models[0], [7, 2, 9], 6),
            "cache.begin() once, cache.advance() before each run; then the new token alone is read",
        ),
        (
            "the model is given a cache",
            lambda: any(call.cached for call in watched),
            "model(new, cache=nn.KVCache(cx, capacity=…))",
        ),
        (
            "it is right for a GPT, other prompts and other lengths",
            lambda: says(models[1], [4], 9) or says(models[1], [1, 2, 3, 4, 5], 1),
            "the list begins with the prompt, and count tokens follow it",
        ),
    )


def _greedy(model: GPT2 | Llama, prompt: Sequence[int], count: int) -> list[int]:
    cx = Graph()
    tokens = cx.tensor((1, "seq"), "int64")
    best = model(tokens)[0, -1].argmax().retrieve()
    text = list(prompt)
    for _ in range(count):
        tokens.set([text])
        cx.execute()
        text.append(int(best.item()))
    return text


def tempered(answer: object) -> Verdict:
    """Does a function make probabilities of logits, by a temperature?"""

    call = cast("Callable[[Tensor, float], Tensor]", answer)

    def at(degree: float) -> str:
        def tempered(x: Tensor) -> Tensor:
            return call(x, degree)

        def reference(x: Array) -> Array:
            return _softmax(np.divide(x, degree))

        fault = agrees_lazily(tempered, reference, [[(5,)], [(2, 7)]])
        return f"at a temperature of {degree:g}, {fault}" if fault else ""

    if not is_function(answer) or isinstance(answer, type | Tensor):
        hint = "def probabilities(logits, temperature): … and then answer = probabilities"
        return Verdict.no(f"expected a function, got {kind(answer)}", hint)
    return Verdict.all(
        ("at a temperature of 1 it is the softmax", lambda: at(1.0), "along the last axis"),
        (
            "a low temperature sharpens, a high one evens out",
            lambda: at(0.5) or at(4.0),
            "the logits are divided by the temperature, before the softmax",
        ),
    )


def _softmax(x: Array) -> Array:
    e = np.exp(np.subtract(x, np.max(x, axis=-1, keepdims=True)))
    return np.divide(e, np.sum(e, axis=-1, keepdims=True))


EXERCISES = (
    Exercise(
        "11.1",
        "Write Llama's feed-forward layer as a module, down(silu(gate(x)) * up(x)) without biases: "
        "answer is one from 8 features to 12 and back.",
        (
            "Three attributes in __init__, each an nn.Linear; one line in forward.",
            "gate and up go from 8 to 12, down from 12 to 8; bias=False leaves the bias out.",
            "return self.down(self.gate(x).silu() * self.up(x))",
        ),
        """from luminal_lab import nn


class Gated(nn.Module):
    def __init__(self, width, hidden):
        self.gate = nn.Linear(width, hidden, bias=False)
        self.up = nn.Linear(width, hidden, bias=False)
        self.down = nn.Linear(hidden, width, bias=False)

    def forward(self, x):
        return self.down(self.gate(x).silu() * self.up(x))


answer = Gated(8, 12)""",
        gated,
    ),
    Exercise(
        "11.2",
        "Write a function of (layers, kv_heads, head, positions) that returns how many bytes the "
        "KV cache of a model takes in float32; head is the features of one head.",
        (
            "What is kept for one position, by one head of one layer?",
            "A key and a value of so many features each, 4 bytes a feature.",
            "2 * 4 * head for one; and how many such are there?",
        ),
        """def size(layers, kv_heads, head, positions):
    return 2 * layers * kv_heads * head * positions * 4


answer = size""",
        kept,
    ),
    Exercise(
        "11.3",
        "Write a function of (model, prompt, count) that makes a graph with a KV cache, and "
        "returns the prompt, a list of tokens, with the count tokens that follow it.",
        (
            "writer and generate of this notebook, in one function; it need not compile.",
            "The capacity must hold the prompt and all that follows.",
            "begin() once; in the loop advance(), set, execute, and then the new token alone is "
            "what the next run reads.",
        ),
        """from luminal_lab import nn


def generate(model, prompt, count):
    cx = ll.Graph("generate")
    new = cx.tensor((1, "seq"), "int64", name="new")
    cache = nn.KVCache(cx, capacity=len(prompt) + count)
    best = model(new, cache=cache)[0, -1].argmax().retrieve()
    text, rows = [], list(prompt)
    cache.begin()
    for _ in range(count):
        cache.advance()
        new.set([rows])
        cx.execute()
        text, rows = text + rows, [best.item()]
    return text + rows


answer = generate""",
        loop,
    ),
    Exercise(
        "11.4",
        "Always taking the best token makes a boring text: write a function of (logits, "
        "temperature) that returns the tensor of probabilities to draw from.",
        (
            "At a temperature of 1 it is softmax(logits).",
            "Differences between logits count more where it is cold.",
            "(logits / temperature).softmax(-1)",
        ),
        """def probabilities(logits, temperature):
    return (logits / temperature).softmax(-1)


answer = probabilities""",
        tempered,
    ),
)

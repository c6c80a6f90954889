"""Random programs of tensors on the CPU: values that are read, computed and compared twice."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import luminal_lab as ll
from luminal_lab.devices.cpu.compiler import CPUCompiler
from luminal_lab.tensor.lazy import Lazy

pytestmark = pytest.mark.needs("cc")
STEPS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "product": lambda y, b, c: y * b + c,
    "products": lambda y, b, c: y * c - c * b,
    "difference": lambda y, b, c: (y - b) * c,
    "sum": lambda y, b, c: y + c,
    "break": lambda y, b, c: y.graph_break(),
    "flip": lambda y, b, c: y.flip(0) + c,
    "relu": lambda y, b, c: (y * b + c).relu(),
    "itself": lambda y, b, c: y.graph_break().flip(-1) * 0.5 + y,
}
"""What makes a value of another, which has its shape."""

ENDS: dict[str, Callable[[Any, Any], Any]] = {
    "value": lambda y, i: y,
    "argmax": lambda y, i: y.argmax(-1),
    "argmin": lambda y, i: y.flip(0).argmin(0),
    "equal": lambda y, i: y.max(-1, keepdim=True).eq(y).sum(),
    "less": lambda y, i: (y < y.graph_break()).sum(),
    "order": lambda y, i: y.argsort(-1),
    "whole": lambda y, i: (y * 3).floor().cast("int32"),
    "scatter": lambda y, i: y.scatter(0, i, y),
    "scatter-add": lambda y, i: y.scatter_add(0, i, y),
    "update": lambda y, i: y.update(y[1:3].flip(0), 2),
    "itself": lambda y, i: y.graph_break().flip(0) * 2 + y,
    "softmax": lambda y, i: y.softmax(-1),
    "log-softmax": lambda y, i: y.log_softmax(0),
    "logsumexp": lambda y, i: y.logsumexp(-1),
    "variance": lambda y, i: y.var(),
    "deviation": lambda y, i: y.std(-1),
    "mean": lambda y, i: (y - y.mean()).square().sum(),
    "slope": lambda y, i: ll.grad(y.max(-1).sum(), y) != 0,
}
"""What is asked of a value, and of places along its first axis."""

NEAR = {"float64": 1e-11, "float32": 2e-5, "float16": 1e-2, "bfloat16": 8e-2}
SIZES = st.sampled_from([5, 33, 130])


@st.composite
def programs(draw: st.DrawFn) -> tuple[Any, ...]:
    """Draw a dtype, sizes and which of them are symbols, steps, ends, and a seed."""
    sizes = draw(st.lists(SIZES, min_size=1, max_size=2).map(tuple))
    return (
        draw(st.sampled_from(["float32", *NEAR])),
        sizes,
        draw(st.tuples(*[st.booleans()] * len(sizes))),
        draw(st.lists(st.sampled_from(sorted(STEPS)), min_size=1, max_size=3)),
        draw(st.lists(st.sampled_from(sorted(ENDS)), min_size=1, max_size=4, unique=True)),
        draw(st.booleans()),
        draw(st.integers(0, 99)),
    )


def results(program: tuple[Any, ...], *passes: Any) -> list[np.ndarray]:
    """Return what a program computes, interpreted or compiled; with a carry, in its second run."""
    dtype, sizes, symbolic, steps, ends, is_carried, seed = program
    cx = ll.Graph()
    named = zip("nm", sizes, symbolic, strict=False)
    shape = tuple(name if is_symbol else size for name, size, is_symbol in named)
    x, b, c = (cx.tensor(shape, dtype, name=name) for name in "xbc")
    i = cx.tensor(shape, "int64", name="i")
    y: Lazy = x
    for step in steps:
        y = STEPS[step](y, b, c)
    found = [ENDS[end](y, i) for end in ends]
    if is_carried:
        found.append(cx.carry(x.scatter_add(0, i, x) * 0.5, x))
    cx.retrieve(found)
    if passes:
        cx.compile(*passes)
    rng = np.random.default_rng(seed)
    for tensor in (x, b, c):
        tensor.set(rng.standard_normal(sizes).astype("f"))
    i.set(rng.integers(0, sizes[0], sizes))
    for _ in range(1 + is_carried):
        cx.execute()
    return [np.asarray(one.numpy()) for one in found]


@settings(max_examples=8)
@given(programs(), st.sampled_from([1, 2]))
def test_random_programs(program: tuple[Any, ...], threads: int) -> None:
    compiled = results(program, ll.GenericCompiler(), CPUCompiler(threads=threads))
    for wanted, one in zip(results(program), compiled, strict=True):
        assert (one.shape, one.dtype) == (wanted.shape, wanted.dtype)
        if wanted.dtype.kind in "bi":
            np.testing.assert_array_equal(one, wanted)
        else:
            near, wide = NEAR[program[0]], wanted.astype("f8")
            scale = max(np.abs(wide).max(), 1)
            np.testing.assert_allclose(one.astype("f8"), wide, rtol=near, atol=near * scale)

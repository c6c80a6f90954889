"""What a function of tensors writes: its ops and its nodes, for claims of several chapters."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from luminal_lab.core.op import View
from luminal_lab.core.ops import (
    Add,
    Cast,
    Constant,
    Contiguous,
    Exp2,
    Expand,
    Flip,
    Iota,
    LessThan,
    Log2,
    MaxReduce,
    Mod,
    Mul,
    Pad,
    Permute,
    Recip,
    Reshape,
    Sin,
    Slice,
    Sqrt,
    SumReduce,
    Window,
)
from luminal_lab.course.exercise import Verdict
from luminal_lab.course.probing import Shape, kind
from luminal_lab.session import Graph
from luminal_lab.tensor import Tensor
from luminal_lab.tensor.arguments import is_function

PRIMITIVES = (
    Log2, Exp2, Sin, Sqrt, Recip, Add, Mul, Mod, LessThan, SumReduce, MaxReduce, Contiguous,
)  # fmt: skip
VIEWS: tuple[type[View], ...] = (Permute, Reshape, Expand, Slice, Pad, Flip, Window)
TWELVE = frozenset(op.name for op in PRIMITIVES)
"""The names of the twelve."""
MOVING = frozenset(op.name for op in VIEWS)
"""The names of the views."""
FREE = frozenset(op.name for op in (Constant, Iota, Cast))
"""Beside the twelve and views: numbers that are there, and changes of dtype."""


def written(answer: Callable[..., object], shapes: Sequence[Shape]) -> dict[str, int]:
    """Return how many nodes of each op a function writes for arguments of some shapes.

    >>> written(lambda x: x - 1, [(3,)])
    {'add': 1, 'constant': 1}
    """
    cx = Graph()
    result = answer(*(cx.tensor(shape) for shape in shapes))
    return result.op_counts() if isinstance(result, Tensor) else {}


def beyond(answer: Callable[..., object], shapes: Sequence[Shape], allowed: Collection[str]) -> str:
    """Return a sentence about the ops of a function that are not among those allowed, or none.

    >>> beyond(lambda x: x.relu(), [(3,)], TWELVE | FREE)
    'expected no other op, got where'
    """
    others = [name for name in written(answer, shapes) if name not in allowed]
    return f"expected no other op, got {' and '.join(others)}" if others else ""


def more_than(
    most: int, answer: Callable[..., object], shapes: Sequence[Shape], free: Collection[str] = ()
) -> str:
    """Return a sentence if a function writes more nodes than it may, those of some ops aside.

    >>> more_than(1, lambda x: x - 1, [(3,)])
    'expected at most 1, got 2: 1 add, 1 constant'
    """
    counted = {name: n for name, n in written(answer, shapes).items() if name not in free}
    total = sum(counted.values())
    listed = ", ".join(f"{n} {name}" for name, n in counted.items())
    return f"expected at most {most:,}, got {total:,}: {listed}" if total > most else ""


def no_function(answer: object, called: str) -> Verdict | None:
    """Return the verdict on what is no function, and None on what may be one.

    >>> no_function(3, "floor").said
    ('not yet: expected a function, got a number',)
    """
    if not isinstance(answer, Tensor) and is_function(answer):
        return None
    hint = f"define it with def, and write answer = {called}, without calling it"
    return Verdict.no(f"expected a function, got {kind(answer)}", hint)

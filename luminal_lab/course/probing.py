"""What checks ask of an answer: does it compute what it should, and how much does it take.

Each function that compares returns what is wrong in one sentence, and an empty text if nothing is,
so that it can stand in a `Verdict.all(("it doubles", lambda: agrees(answer, double, SHAPES)))`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from math import prod
from types import UnionType
from typing import TypeAlias, cast

import numpy as np

from luminal_lab.core.dtypes import Array
from luminal_lab.core.ir import IR
from luminal_lab.core.ops import Input
from luminal_lab.course.exercise import told
from luminal_lab.passes.compilation import Compilation
from luminal_lab.passes.snapshot import Snapshot
from luminal_lab.session import Graph
from luminal_lab.tensor import Tensor

Shape: TypeAlias = tuple[int, ...]
KINDS: tuple[tuple[type | UnionType, str], ...] = (
    (str, "a text"),
    (bool | int | float | complex | np.number | np.bool, "a number"),
    (np.ndarray, "an array of NumPy"),
    (bytes | bytearray, "some bytes"),
    (Tensor, "a tensor"),
)
LARGEST = 1 << 26
"""The most elements of an answer that are looked at."""


def drawn(shape: Shape, seed: int = 0, dtype: str = "float32") -> Array:
    """Return an array of drawn numbers around zero, the same for the same seed.

    >>> drawn((2,), dtype="int32")
    array([ 5, -5], dtype=int32)
    """
    draw = np.random.default_rng([seed, *shape])
    if np.issubdtype(np.dtype(dtype), np.integer):
        return draw.integers(-5, 6, shape).astype(dtype)
    return draw.standard_normal(shape).astype(dtype)


def equal(got: object, want: object, *, tolerance: float = 1e-4, name: str = "the answer") -> str:
    """Return where an answer first differs from what is wanted; an empty text if it does not.

    The tolerance is relative to the larger of a number and one.

    >>> equal([1.0, 2.5], [1.0, 2.0])
    'element [1] of the answer is 2.5, and 2 is wanted'
    >>> equal(np.zeros((2, 3)), np.zeros((3, 2)))
    'the answer has the shape (2, 3), and (3, 2) is wanted'
    """
    found = numbers(got, name)
    if isinstance(found, str):
        return found
    wanted = np.asarray(want)
    if found.shape != wanted.shape:
        return f"{name} has the shape {found.shape}, and {wanted.shape} is wanted"
    a, b = found.astype(np.complex128), wanted.astype(np.complex128)
    with np.errstate(all="ignore"):
        near = np.abs(a - b) <= tolerance * np.maximum(1.0, np.abs(b))
    same = (a == b) | near | (np.isnan(a) & np.isnan(b))
    if same.all():
        return ""
    at = tuple(int(k) for k in np.argwhere(~same)[0])
    where = f"element [{', '.join(map(str, at))}] of {name}" if at else name
    return f"{where} is {_number(found[at])}, and {_number(wanted[at])} is wanted"


def agrees(
    function: object,
    reference: Callable[..., object],
    shapes: Iterable[Sequence[Shape]],
    *,
    dtype: str = "float32",
    tolerance: float = 1e-4,
) -> str:
    """Return where a function of arrays first differs from a reference, on drawn arrays.

    `shapes` has those of the arguments, call by call.

    >>> agrees(lambda x: x + x, lambda x: 2 * x, [[(3,)], [(2, 2)]])
    ''
    >>> agrees(lambda x: x[:1], lambda x: 2 * x, [[(3,)]])
    'with an argument of (3,): what it returns has the shape (1,), and (3,) is wanted'
    """
    return _compared(
        function,
        shapes,
        dtype,
        lambda call, data: equal(
            call(*(one.copy() for one in data)),
            reference(*data),
            tolerance=tolerance,
            name="what it returns",
        ),
    )


def agrees_lazily(
    function: object,
    reference: Callable[..., object],
    shapes: Iterable[Sequence[Shape]],
    *,
    dtype: str = "float32",
    tolerance: float = 1e-4,
) -> str:
    """Return where a function of tensors first differs from a reference of arrays.

    The function is given tensors of a graph of its own, which the interpreter runs on drawn data.

    >>> agrees_lazily(lambda x: x * 2, lambda x: x + x, [[(3,)]])
    ''
    """

    def compared(call: Callable[..., object], data: Sequence[Array]) -> str:
        cx = Graph()
        tensors = [cx.tensor(one.shape, dtype=dtype).set(one) for one in data]
        made = call(*tensors)
        if not isinstance(made, Tensor):
            return f"it returns {kind(made)}, and a tensor is wanted"
        if made.graph is not cx:
            return "the tensor that it returns is of another graph than its arguments"
        return equal(made, reference(*data), tolerance=tolerance, name="what it returns")

    return _compared(function, shapes, dtype, compared)


def numbers(like: object, name: str = "the answer") -> Array | str:
    """Return an answer as an array of numbers, or a sentence that says why it is none.

    A tensor is computed by the interpreter if it is not known yet.
    """
    if like is None or like is ...:
        return f"{name} is missing"
    shape: tuple[object, ...] = like.shape if isinstance(like, Tensor) else ()
    size = prod(one for one in shape if isinstance(one, int))
    if size > LARGEST:
        return f"{name} has {size:,} elements, and at most {LARGEST:,} are looked at"
    try:
        found = _computed(like) if isinstance(like, Tensor) else np.asarray(like)
    except Exception as error:  # of whatever the answer is made of
        return f"{name} cannot be computed: {told(error)}"
    if found.dtype.kind not in "biufcV" or (found.dtype.kind == "V" and found.dtype.names):
        return f"{name} is {kind(like)}, and numbers are wanted"
    if found.size > LARGEST:
        return f"{name} has {found.size:,} elements, and at most {LARGEST:,} are looked at"
    return found


def ops(what: object) -> dict[str, int]:
    """Return how many nodes of each op a graph, a tensor or a snapshot has, inputs not counted.

    >>> ops(Graph().tensor((2,)) * 2)
    {'constant': 1, 'mul': 1}
    """
    if isinstance(what, Tensor):
        return what.op_counts()
    ir = graph(what)
    if ir is None:
        return {}
    return dict(sorted(Counter(n.op.name for n in ir if not isinstance(n.op, Input)).items()))


def nodes(what: object) -> int:
    """Return how many nodes a graph, a tensor or a snapshot has, inputs not counted."""
    return sum(ops(what).values())


def kernels(cx: Graph) -> int:
    """Return how many launches of kernels the last compile of a graph makes in a run."""
    return len(cx.launches)


def graph(what: object) -> IR | None:
    """Return the IR of what is a graph: the newest of a session; None of what is none."""
    if isinstance(what, IR):
        return what
    return what.ir if isinstance(what, Snapshot | Graph | Compilation) else None


def kind(what: object) -> str:
    """Return what a thing is, for a sentence.

    >>> kind("a"), kind(3), kind([]), kind(np.zeros(2))
    ('a text', 'a number', 'a list', 'an array of NumPy')
    """
    for known, name in KINDS:
        if isinstance(what, known):
            return name
    if isinstance(what, type):
        return f"the class {what.__name__} itself"
    if callable(what):
        return "a function"
    name = type(what).__name__
    return f"an {name}" if name[:1].lower() in "aeiou" else f"a {name}"


def _compared(
    function: object,
    shapes: Iterable[Sequence[Shape]],
    dtype: str,
    compared: Callable[[Callable[..., object], Sequence[Array]], str],
) -> str:
    if not callable(function):
        return f"it is {kind(function)}, and a function is wanted"
    for seed, one in enumerate(shapes):
        data = [drawn(shape, seed + place, dtype) for place, shape in enumerate(one)]
        given = " and ".join(map(str, one))
        where = f"with {'an argument' if len(data) == 1 else 'arguments'} of {given}"
        try:
            fault = compared(function, data)
        except RecursionError:
            return f"{where}: it calls itself without an end"
        except Exception as error:  # the answer's, of whatever kind
            return f"{where}: {told(error)}"
        if fault:
            return f"{where}: {fault}"
    return ""


def _computed(tensor: Tensor) -> Array:
    """Return the value of a tensor, which a run of what was written computes if it is not there."""
    cx = cast("Graph", tensor.graph)
    tensor.retrieve()
    cx.execute()
    return tensor.numpy()


def _number(value: object) -> str:
    return f"{value:.6g}" if isinstance(value, np.floating | float) else str(value)

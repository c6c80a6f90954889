"""Questions of checks about an answer: does it compute the right values, and with how many nodes.

Each comparing function returns a sentence that says what is wrong, empty if nothing is, so that it
fits into a `Verdict.all(("it doubles", lambda: agrees(answer, double, SHAPES)))`.
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
from luminal_lab.course.exercise import error_text
from luminal_lab.passes.compilation import Compilation
from luminal_lab.passes.snapshot import Snapshot
from luminal_lab.session import Graph
from luminal_lab.tensor import Tensor
from luminal_lab.tensor.arguments import is_function

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
    """Return random numbers around zero, the same for the same seed.

    >>> drawn((2,), dtype="int32")
    array([ 5, -5], dtype=int32)
    """
    draw = np.random.default_rng([seed, *shape])
    if np.issubdtype(np.dtype(dtype), np.integer):
        return draw.integers(-5, 6, shape).astype(dtype)
    return draw.standard_normal(shape).astype(dtype)


def equal(got: object, want: object, *, tolerance: float = 1e-4, name: str = "the answer") -> str:
    """Return where an answer first differs from the wanted one; an empty text if nowhere.

    The tolerance is relative to the larger of a number and one.

    >>> equal([1.0, 2.5], [1.0, 2.0])
    'element [1] of the answer: expected 2, got 2.5'
    >>> equal(np.zeros((2, 3)), np.zeros((3, 2)))
    'the answer: expected the shape (3, 2), got (2, 3)'
    """
    array = numbers(got, name)
    if isinstance(array, str):
        return array
    wanted = np.asarray(want)
    if array.shape != wanted.shape:
        return f"{name}: expected the shape {wanted.shape}, got {array.shape}"
    a, b = array.astype(np.complex128), wanted.astype(np.complex128)
    with np.errstate(all="ignore"):
        near = np.abs(a - b) <= tolerance * np.maximum(1.0, np.abs(b))
    same = (a == b) | near | (np.isnan(a) & np.isnan(b))
    if same.all():
        return ""
    at = tuple(int(k) for k in np.argwhere(~same)[0])
    where = f"element [{', '.join(map(str, at))}] of {name}" if at else name
    return f"{where}: expected {_number(wanted[at])}, got {_number(array[at])}"


def agrees(
    function: object,
    reference: Callable[..., object],
    shapes: Iterable[Sequence[Shape]],
    *,
    dtype: str = "float32",
    tolerance: float = 1e-4,
) -> str:
    """Return where a function of arrays first differs from a reference, on random arrays.

    `shapes` has those of the arguments, call by call.

    >>> agrees(lambda x: x + x, lambda x: 2 * x, [[(3,)], [(2, 2)]])
    ''
    >>> agrees(lambda x: x[:1], lambda x: 2 * x, [[(3,)]])
    'with an argument of (3,), what it returns: expected the shape (3,), got (1,)'
    """
    return _compared(
        function,
        shapes,
        dtype,
        lambda call, data: equal(
            call(*(array.copy() for array in data)),
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

    The function gets tensors of a new graph, which the interpreter runs on random data.

    >>> agrees_lazily(lambda x: x * 2, lambda x: x + x, [[(3,)]])
    ''
    """

    def compared(call: Callable[..., object], data: Sequence[Array]) -> str:
        cx = Graph()
        tensors = [cx.tensor(array.shape, dtype=dtype).set(array) for array in data]
        result = call(*tensors)
        if not isinstance(result, Tensor):
            return f"what it returns: expected a tensor, got {kind(result)}"
        if result.graph is not cx:
            return "expected a tensor of the same graph as its arguments, got one of another graph"
        return equal(result, reference(*data), tolerance=tolerance, name="what it returns")

    return _compared(function, shapes, dtype, compared)


def numbers(like: object, name: str = "the answer") -> Array | str:
    """Return an answer as an array of numbers, or a sentence that says why it is not one.

    A tensor is computed by the interpreter if it is not known yet.
    """
    if like is None or like is ...:
        return f"{name} is missing"
    shape: tuple[object, ...] = like.shape if isinstance(like, Tensor) else ()
    size = prod(size_ for size_ in shape if isinstance(size_, int))
    if size > LARGEST:
        return f"{name} has {size:,} elements, and at most {LARGEST:,} are looked at"
    try:
        array = _computed(like) if isinstance(like, Tensor) else np.asarray(like)
    except Exception as error:  # an answer may raise anything
        return f"{name} cannot be computed: {error_text(error)}"
    if array.dtype.kind not in "biufcV" or (array.dtype.kind == "V" and array.dtype.names):
        return f"{name}: expected numbers, got {kind(like)}"
    if array.size > LARGEST:
        return f"{name} has {array.size:,} elements, and at most {LARGEST:,} are looked at"
    return array


def ops(thing: object) -> dict[str, int]:
    """Return the number of nodes of each op in a graph, a tensor or a snapshot, without inputs.

    >>> ops(Graph().tensor((2,)) * 2)
    {'constant': 1, 'mul': 1}
    """
    if isinstance(thing, Tensor):
        return thing.op_counts()
    ir = ir_of(thing)
    if ir is None:
        return {}
    return dict(sorted(Counter(n.op.name for n in ir if not isinstance(n.op, Input)).items()))


def nodes(thing: object) -> int:
    """Return the number of nodes in a graph, a tensor or a snapshot, without inputs."""
    return sum(ops(thing).values())


def kernels(cx: Graph) -> int:
    """Return the number of kernel launches in a run of a graph's last compile."""
    return len(cx.launches)


def ir_of(thing: object) -> IR | None:
    """Return the IR of a graph, the newest of a session; None for anything else."""
    if isinstance(thing, IR):
        return thing
    return thing.ir if isinstance(thing, Snapshot | Graph | Compilation) else None


def kind(thing: object) -> str:
    """Return the kind of a thing, for a sentence.

    >>> kind("a"), kind(3), kind([]), kind(np.zeros(2))
    ('a text', 'a number', 'a list', 'an array of NumPy')
    """
    for known, name in KINDS:
        if isinstance(thing, known):
            return name
    if isinstance(thing, type):
        return f"the class {thing.__name__} itself"
    if is_function(thing):
        return "a function"
    name = type(thing).__name__
    return f"an {name}" if name[:1].lower() in "aeiou" else f"a {name}"


def _compared(
    function: object,
    shapes: Iterable[Sequence[Shape]],
    dtype: str,
    compared: Callable[[Callable[..., object], Sequence[Array]], str],
) -> str:
    if not is_function(function):
        return f"expected a function, got {kind(function)}"
    for seed, call_shapes in enumerate(shapes):
        data = [drawn(shape, seed + at, dtype) for at, shape in enumerate(call_shapes)]
        given = " and ".join(map(str, call_shapes))
        where = f"with {'an argument' if len(data) == 1 else 'arguments'} of {given}"
        try:
            fault = compared(function, data)
        except RecursionError:
            return f"{where}, it calls itself without an end"
        except Exception as error:  # the answer's, of whatever kind
            return f"{where}, it raises {error_text(error)}"
        if fault:
            return f"{where}, {fault}"
    return ""


def _computed(tensor: Tensor) -> Array:
    """Return the value of a tensor, running its graph if necessary."""
    cx = cast("Graph", tensor.graph)
    tensor.retrieve()
    cx.execute()
    return tensor.numpy()


def _number(value: object) -> str:
    return f"{value:.6g}" if isinstance(value, np.floating | float) else str(value)

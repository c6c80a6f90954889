"""What models calculate of their shapes: numbers as NumPy has them, dims as dims."""

from typing import Any

import numpy as np
import pytest

from luminal_lab.core.dims import Symbol, evaluate
from luminal_lab.importing.onnx_ops.sizes import MOST, are_sizes, calculated

N, M = Symbol("n", 1), Symbol("m", 1)


def dims(*values: object) -> Any:
    array = np.empty(len(values), object)
    array[:] = values
    return array


def one(name: str, *values: Any, **attributes: Any) -> Any:
    """Return an op's only result for sizes, as a list of numbers and texts of dims."""
    made = calculated(name, list(values), attributes, 1)
    if made is None:
        return None
    (array,) = made
    parts = [part.item() if isinstance(part, np.generic) else part for part in array.flat]
    return [part if isinstance(part, (int, float)) else str(part) for part in parts]


INTS = np.array([2, 3])


@pytest.mark.parametrize(
    ("name", "values", "attributes", "result"),
    [
        ("Add", (dims(N, M), INTS), {}, ["n + 2", "m + 3"]),
        ("Sub", (dims(N, N), dims(N, 1)), {}, [0, "n - 1"]),
        ("Mul", (dims(N, M), INTS), {}, ["2*n", "3*m"]),
        ("Div", (dims(N * 4, N), np.array([2, 2])), {}, ["2*n", "n//2"]),
        ("Div", (np.array([-7, 7]), np.array([2, -2])), {}, [-3, -3]),
        ("Div", (dims(N - 5), np.array([2])), {}, None),  # it may be negative
        ("Div", (np.array([1]), np.array([0])), {}, None),
        ("Mod", (dims(N), np.array([4])), {}, ["n%4"]),
        ("Max", (dims(N, 3), INTS), {}, ["max(2, n)", 3]),
        ("Neg", (dims(N),), {}, ["-n"]),
        ("Equal", (dims(N, N), dims(N, 0)), {}, [True, False]),
        ("Less", (dims(0), dims(N)), {}, [True]),
        ("Where", (np.array([True, False]), dims(N, N), dims(M, M)), {}, ["n", "m"]),
        ("Gather", (dims(N, M), np.array(1)), {}, ["m"]),
        ("Gather", (dims(N, M), np.array(7)), {}, None),
        ("Concat", (dims(N), np.array([-1])), {"axis": 0}, ["n", -1]),
        ("Slice", (dims(N, M, 4), np.array([1]), np.array([1 << 40])), {}, ["m", 4]),
        (
            "Slice",
            (dims(N, M), np.array([-1]), np.array([-9]), None, np.array([-1])),
            {},
            ["m", "n"],
        ),
        ("Unsqueeze", (dims(N)[0:1].reshape(()), np.array([0])), {}, ["n"]),
        ("Reshape", (dims(N, M), np.array([2, 1])), {}, ["n", "m"]),
        ("ReduceProd", (dims(N, M, 2),), {"keepdims": 0}, ["2*m*n"]),
        ("ReduceMax", (dims(N, 3),), {}, ["max(3, n)"]),
        ("Range", (np.array(0), np.array(6), np.array(2)), {}, [0, 2, 4]),
        ("Range", (np.array(0), dims(N), np.array(1)), {}, None),
        ("Cast", (dims(N),), {"to": 7}, ["n"]),
        ("Cast", (INTS,), {"to": 1}, [2.0, 3.0]),
        ("ScatterND", (dims(N, M), np.array([[1]]), np.array([5])), {}, ["n", 5]),
        ("Tile", (np.array([1]), np.array([MOST + 1])), {}, None),
        ("Sin", (INTS,), {}, None),
    ],
)
def test_what_sizes_become(
    name: str, values: tuple[Any, ...], attributes: dict[str, Any], result: object
) -> None:
    assert one(name, *values, **attributes) == result


@pytest.mark.parametrize("factor", [0.5, 2.0, 1.5, 1 / 3, 0.1])
def test_a_size_through_floats_is_what_it_is_in_floats(factor: float) -> None:
    as_float = calculated("Cast", [dims(N)], {"to": 1}, 1)
    assert as_float is not None
    scaled = calculated("Mul", [as_float[0], np.array([factor], np.float32)], {}, 1)
    assert scaled is not None
    floored = calculated("Floor", scaled, {}, 1)
    assert floored is not None
    back = calculated("Cast", floored, {"to": 7}, 1)
    assert back is not None
    dim: Any = back[0][0]
    for n in range(1, 200):
        wanted = int(np.floor(np.float32(n) * np.float32(factor)))
        assert evaluate(dim, {"n": n}) == wanted, n


def test_dtypes_of_numbers_stay() -> None:
    made = calculated("Add", [np.array([1], np.int32), np.array([2], np.int32)], {}, 1)
    assert made is not None
    assert made[0].dtype == np.int32
    assert calculated("Add", [np.array([127], np.int8), np.array([1], np.int8)], {}, 1) is None


def test_what_counts_as_sizes() -> None:
    assert are_sizes([INTS, None])
    assert are_sizes([dims(N)])
    assert not are_sizes([])
    assert not are_sizes([np.zeros(MOST + 1, np.int64)])
    assert not are_sizes(["text"])  # pyright: ignore[reportArgumentType]

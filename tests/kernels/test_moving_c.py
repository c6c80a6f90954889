"""Updates and scatters in C are what the interpreter makes of them, for all dtypes and axes."""

from typing import Any

import numpy as np
import pytest

import luminal_lab as ll
from luminal_lab.core.dtypes import DType
from luminal_lab.devices.cpu.compiler import CPUCompiler
from luminal_lab.errors import RangeError
from tests.expect import error_of

pytestmark = pytest.mark.needs("cc")


def values(write: Any, *passes: Any) -> list[np.ndarray]:
    cx = ll.Graph()
    results = write(cx)
    cx.retrieve(results)
    if passes:
        cx.compile(*passes)
    cx.execute()
    return [result.numpy() for result in results]


def check(write: Any) -> None:
    for found, wanted in zip(values(write, CPUCompiler()), values(write), strict=True):
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.share(4)
@pytest.mark.parametrize("dtype", [dtype.name.rstrip("_") for dtype in DType])
def test_all_dtypes(dtype):
    def write(cx: ll.Graph) -> list[ll.Tensor]:
        rng = np.random.default_rng(0)
        of = DType(dtype).numpy
        x = cx.tensor((5, 7), dtype).set(rng.integers(0, 2, (5, 7)).astype(of))
        v = cx.tensor((5, 3), dtype).set(rng.integers(0, 2, (5, 3)).astype(of))
        index = cx.tensor((5, 3), "int32").set(rng.integers(0, 7, (5, 3)))
        return [x.scatter(1, index, v), x.scatter_add(1, index, v), x.update(v, 2, axis=1)]

    check(write)


@pytest.mark.share(4)
@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("kind", ["int64", "int8", "uint8"])
def test_all_axes(axis, kind):
    def write(cx: ll.Graph) -> list[ll.Tensor]:
        rng = np.random.default_rng(axis)
        shape = [3, 4, 1500]
        rows = [2 if k == axis else size for k, size in enumerate(shape)]
        x = cx.tensor(tuple(shape)).set(rng.standard_normal(shape))
        v = cx.tensor(tuple(rows)).set(rng.standard_normal(rows))
        index = cx.tensor(tuple(rows), kind).set(rng.integers(0, 3, rows))
        return [x.scatter(axis, index, v), x.scatter_add(axis, index, v), x.update(v, 1, axis=axis)]

    check(write)


def test_large_buffers_are_copied_in_pieces():
    def write(cx: ll.Graph) -> list[ll.Tensor]:
        x = cx.tensor((400, 1000)).set(np.arange(400_000).reshape(400, 1000))
        return [x.update(x[:3] * 2, 397)]

    check(write)


def test_an_index_that_is_no_position():
    def write(cx: ll.Graph) -> list[ll.Tensor]:
        x = cx.tensor((4,)).set(np.zeros(4))
        return [x.scatter(0, cx.tensor((2,), "int64").set([1, 4]), x[:2] + 1)]

    error = error_of(lambda: values(write, CPUCompiler()), RangeError)
    assert error.message == error_of(lambda: values(write), RangeError).message


def test_dims_with_any_names():
    def write(cx: ll.Graph) -> list[ll.Tensor]:
        x = cx.tensor(("size", "row")).set(np.zeros((4, 3)))
        v = cx.tensor(("count", "row")).set(np.ones((2, 3)))
        index = cx.tensor(("count", "row"), "int64").set([[0, 1, 2], [3, 2, 1]])
        return [x.scatter(0, index, v), x.scatter_add(0, index, v)]

    check(write)

"""Programs called on memory of the caller's: values as a session's, faults, what it refuses."""

from typing import Any

import numpy as np
import pytest

import luminal_lab as ll
from luminal_lab.devices.cpu.call import CPUCall
from luminal_lab.devices.cpu.program import CPUProgram
from luminal_lab.errors import DeviceError, RangeError
from tests.expect import error_of

pytestmark = pytest.mark.needs("cc")


def call_of(cx: ll.Graph, dims: dict[str, int] | None = None) -> CPUCall:
    compilation = cx.compile(ll.GenericCompiler(), ll.CPUCompiler())
    assert isinstance(compilation.program, CPUProgram)
    return CPUCall(compilation.program, compilation.ir.output_ids, dims)


def called(call: CPUCall, arrays: dict[str, Any], step: int = 0) -> list[np.ndarray]:
    """Return the results of a call, in memory that was full of something else."""
    given = [np.ascontiguousarray(arrays[node.name]) for node in call.inputs]
    results = [np.full(place.shape, 77).astype(place.dtype) for place in call.results]
    call([a.ctypes.data for a in given], [a.ctypes.data for a in results], step)
    return results


def test_values_are_those_of_a_session():
    cx = ll.Graph()
    x, w = cx.tensor((5, 7), name="x"), cx.tensor((7, 3), name="w")
    hidden = (x @ w).softmax(-1).retrieve()
    total = hidden.sum(0).retrieve()
    call = call_of(cx)
    rng = np.random.default_rng(0)
    for _ in range(3):  # other memory each time
        arrays = {"x": rng.random((5, 7), np.float32), "w": rng.random((7, 3), np.float32)}
        results = called(call, arrays)
        x.set(arrays["x"])
        w.set(arrays["w"])
        cx.execute()
        assert [a.tobytes() for a in results] == [hidden.numpy().tobytes(), total.numpy().tobytes()]


def test_a_result_that_is_an_input_or_another_result_is_a_copy():
    cx = ll.Graph()
    x = cx.tensor((2, 3), name="x")
    for tensor in (x.reshape(3, 2), (x * 2).named("y"), (x * 2).reshape(6)):
        tensor.retrieve()
    data = np.arange(6, dtype=np.float32).reshape(2, 3)
    given, doubled, flat = called(call_of(cx), {"x": data})
    assert np.array_equal(given, data.reshape(3, 2))
    assert np.array_equal(doubled, data * 2)
    assert np.array_equal(flat, data.reshape(6) * 2)


def test_sizes_of_dims_and_the_step_are_given():
    cx = ll.Graph(seed=3)
    y = (cx.tensor(("n",), name="x") + cx.rand("n")).retrieve()
    call = call_of(cx, {"n": 11})
    zeros = np.zeros(11, np.float32)
    draws = [called(call, {"x": zeros}, step)[0] for step in (0, 1, 0)]
    assert np.array_equal(draws[0], draws[2])
    assert not np.array_equal(draws[0], draws[1])
    cx["x"].set(zeros)
    cx.execute()
    assert np.array_equal(y.numpy(), draws[0])


def test_an_index_out_of_range_is_told_with_its_place():
    cx = ll.Graph()
    table, at = cx.tensor((4, 2), name="table"), cx.tensor((3,), "int64", name="at")
    table.index_select(0, at).retrieve()
    call = call_of(cx)
    with pytest.raises(RangeError) as error:
        called(call, {"table": np.ones((4, 2), np.float32), "at": [1, 9, 0]})
    assert "9" in str(error.value)
    (rows,) = called(call, {"table": np.ones((4, 2), np.float32), "at": [1, 3, 0]})
    assert rows.sum() == 6


def test_what_needs_a_session_is_refused():
    cx = ll.Graph()
    cx.function(np.sort, cx.tensor((3,), name="x"), shape=(3,)).retrieve()
    assert "computed by Python" in str(error_of(lambda: call_of(cx), DeviceError))
    cx = ll.Graph()
    count = cx.tensor((), name="count")
    cx.carry(count + 1, count)
    assert "is carried" in str(error_of(lambda: call_of(cx), DeviceError))

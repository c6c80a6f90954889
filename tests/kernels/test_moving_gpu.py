"""Update and scatter as kernels of GPUs, in the emulator, against the ops themselves."""

import numpy as np
import pytest

from luminal_lab.core.dims import Symbol, evaluate
from luminal_lab.core.dtypes import DType
from luminal_lab.core.op import TensorType
from luminal_lab.core.ops import Scatter, Update
from luminal_lab.emulator import Call, emulate
from luminal_lab.kernels.dialect import CUDA, METAL
from luminal_lab.kernels.moving import moving_kernel
from luminal_lab.kernels.render.gpu.program import gpu_source

DIALECTS = [CUDA, METAL]


def run(op, arrays, dialect, dims=None, *, in_place=False):
    """Run a kernel, and return its result and whether an index was out of range."""
    sizes = dims or {}
    types = [TensorType(DType(a.dtype.name), a.shape) for a in arrays]
    if sizes:
        n = Symbol("n")
        types = [
            TensorType(t.dtype, (n if k == 0 else t.shape[0], *t.shape[1:]))
            for k, t in enumerate(types)
        ]
    kernel = moving_kernel(op, types, "move", dialect)
    arrays = [np.ascontiguousarray(array) for array in arrays]
    result = arrays[0].copy() if not in_place else arrays[0]
    if not in_place:
        result[...] = 77
    inner = [np.empty(evaluate(one.bytes, sizes), np.uint8) for one in kernel.locals]
    fault = np.zeros(1, np.int32)
    calls = []
    for phase in kernel.phases:
        given = [*arrays, *inner, result, *(np.int64(sizes[name]) for name in kernel.dims)]
        blocks = evaluate(phase.tasks, sizes)
        calls.append(Call(phase.function, blocks, phase.threads, given + [fault] * phase.faults))
    emulate(gpu_source([kernel], dialect), dialect.name, calls)
    return result, bool(fault[0])


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda one: one.name)
@pytest.mark.parametrize("dtype", ["float32", "int8"])
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_update(dialect, dtype, axis):
    x = np.arange(60).reshape(3, 5, 4).astype(DType(dtype).numpy)
    rows = np.take(x, [1, 0], axis)
    wanted = Update(axis, 1).eval(x, rows)
    found, _ = run(Update(axis, 1), [x, rows], dialect)
    np.testing.assert_array_equal(found, wanted)
    found, _ = run(Update(axis, 1), [x, rows], dialect, in_place=True)
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda one: one.name)
def test_update_of_any_size(dialect):
    x, rows = np.zeros((700, 8), np.float32), np.ones((2, 8), np.float32)
    found, _ = run(Update(0, 3), [x, rows], dialect, {"n": 700})
    np.testing.assert_array_equal(found, Update(0, 3).eval(x, rows))


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda one: one.name)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "bool"])
@pytest.mark.parametrize("mode", ["set", "add"])
def test_scatter(dialect, dtype, mode):
    rng = np.random.default_rng(0)
    x = rng.integers(-5, 5, (4, 6, 3)).astype(DType(dtype).numpy)
    values = rng.integers(-5, 5, (4, 9, 3)).astype(DType(dtype).numpy)
    index = rng.integers(0, 6, (4, 9, 3))
    found, fault = run(Scatter(1, mode), [x, index, values], dialect)
    assert not fault
    np.testing.assert_array_equal(found, Scatter(1, mode).eval(x, index, values))


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda one: one.name)
@pytest.mark.parametrize("wrong", [6, -1])
def test_an_index_out_of_range_is_reported_and_nothing_is_written_there(dialect, wrong):
    x, values = np.zeros((6, 2), np.float32), np.ones((1, 2), np.float32)
    _, fault = run(Scatter(0, "set"), [x, np.array([[0, wrong]]), values], dialect)
    assert fault


def test_its_source_says_what_it_does(golden):
    x, index = TensorType(DType.float16, (4, 6)), TensorType(DType.int64, (4, 9))
    values = TensorType(DType.float16, (4, 9))
    kernel = moving_kernel(Scatter(1, "add"), (x, index, values), "scatter", CUDA)
    golden(kernel.source + "\n", "golden/cuda/scatter.cu")
    assert kernel.cost == (36, 36 * 12)

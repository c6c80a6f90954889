"""Data in a file that several processes map."""

import ml_dtypes
import numpy as np

from luminal_lab.bench.stored import PAGE, opened, store


def test_arrays_come_back_as_they_were(tmp_path):
    arrays = {
        "a": np.arange(6, dtype=np.float32).reshape(2, 3),
        "b": np.arange(5000),
        "c": np.array([1.5, -2.0], np.float16),
        "d": np.array([1.5, -2.0], ml_dtypes.bfloat16),
        "none": np.zeros((0, 3), np.int8),
    }
    stored = store(arrays, tmp_path / "data")
    found = opened(stored)
    assert found.keys() == arrays.keys()
    for name, array in arrays.items():
        assert (found[name].dtype, found[name].shape) == (array.dtype, array.shape)
        np.testing.assert_array_equal(found[name], array)


def test_nobody_writes_and_everything_is_aligned(tmp_path):
    found = opened(store({"a": np.ones(3), "b": np.ones(3)}, tmp_path / "data"))
    for array in found.values():
        assert not array.flags.writeable
        assert array.ctypes.data % PAGE == 0

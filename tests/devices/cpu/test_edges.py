"""Kernels read nothing beyond their arrays: each array ends where a page does that is not there."""

import numpy as np
import pytest

import luminal_lab as ll


@pytest.mark.share(10)
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "uint8"])
@pytest.mark.parametrize("size", [1, 3, 5, 7, 12, 21, 33, 100])
def test_joined_arrays_are_read_where_they_are_and_no_further(size, dtype):
    cx = ll.Graph()
    a, b = (cx.tensor((size,), dtype, name=name) for name in "ab")
    given = np.arange(size).astype(dtype)
    both = ll.concat([a.set(given), b.set(given)], 0).retrieve()
    cx.compile(ll.GenericCompiler(), ll.CPUCompiler(threads=1), check="values")
    cx.execute()
    assert (both.numpy() == np.concatenate([given, given])).all()


@pytest.mark.share(4)
@pytest.mark.parametrize("before", [0, 1, 3])
@pytest.mark.parametrize("size", [2, 5, 7])
def test_padding_reads_nothing_where_it_pads(size, before):
    cx = ll.Graph()
    x = cx.tensor((size, size), name="x").set(np.ones((size, size)))
    y = x.pad(((before, 2), (1, before))).retrieve()
    cx.compile(ll.GenericCompiler(), ll.CPUCompiler(threads=1), check="values")
    cx.execute()
    assert y.numpy().sum() == size * size


VIEWS = (
    lambda x: x,
    lambda x: x[:, ::2],
    lambda x: x.flip(1),
    lambda x: x.T,
    lambda x: x.reshape(-1, 1).expand(-1, 2).reshape(x.shape[0], -1),
    lambda x: x.reshape(-1, 1).expand(-1, 3).reshape(x.shape[0], -1)[:, 1:],
    lambda x: x[:, None].pad(((0, 0), (0, 1), (1, 1))).reshape(x.shape[0], -1),
)


@pytest.mark.share(3)
@pytest.mark.parametrize("dtype", ["float32", "int16"])
@pytest.mark.parametrize("size", [3, 4, 9])
def test_padding_of_views_reads_nothing_where_it_pads(size, dtype):
    cx = ll.Graph()
    x = cx.tensor((size, size), dtype, name="x").set(np.arange(size * size).reshape(size, size))
    views = [view(x).retrieve() for view in VIEWS]
    padded = [view.pad(((1, 0), (0, 3))).retrieve() for view in views]
    cx.compile(ll.GenericCompiler(), ll.CPUCompiler(threads=1), check="values")
    cx.execute()
    for view, whole in zip(views, padded, strict=True):
        assert (whole.numpy() == np.pad(view.numpy(), ((1, 0), (0, 3)))).all()

"""Rows of regions: what views do to them, held against index arrays for all small cases."""

from itertools import product

import numpy as np
import pytest

from luminal_lab.core.dtypes import DType
from luminal_lab.core.op import TensorType, View, ints
from luminal_lab.core.ops import Expand, Flip, Pad, Permute, Reshape, Slice, Window
from luminal_lab.kernels.fuse.region import Inner, read, seen

CASES: list[tuple[View, tuple[int, ...]]] = [
    (Permute((1, 0, 2)), (2, 3, 4)),
    (Permute((0, 2, 1)), (2, 3, 4)),
    (Permute((2, 0, 1)), (2, 1, 4)),
    (Reshape((6, 4)), (2, 3, 4)),
    (Reshape((2, 12)), (2, 3, 4)),
    (Reshape((24,)), (2, 3, 4)),
    (Reshape((2, 1, 3, 2, 2)), (2, 3, 4)),
    (Expand((2, 3, 4)), (2, 1, 4)),
    (Expand((2, 3, 4)), (2, 3, 1)),
    (Slice((0, 1), (2, 3), (1, 1)), (2, 3)),
    (Slice((0, 0), (4, 3), (2, 1)), (4, 3)),
    (Pad((0, 1), (0, 2)), (2, 3)),
    (Pad((1, 0), (0, 0)), (2, 3)),
    (Flip((1,)), (2, 3)),
    (Flip((0,)), (2, 3)),
    (Window(1, 2, 1, 1), (2, 4)),
    (Window(0, 2, 2, 1), (4, 2)),
]


def rows(shape: tuple[int, ...], inner: Inner) -> np.ndarray:
    """Return for each element which row it is in, from 1 on."""
    sizes = [1 if i else dim for dim, i in zip(shape, inner, strict=True)]
    numbers = np.arange(1, 1 + np.prod(sizes, dtype=int)).reshape(sizes)
    return np.broadcast_to(numbers, shape)


@pytest.mark.parametrize(("op", "old"), CASES, ids=str)
def test_each_row_is_made_of_the_same_row(op: View, old: tuple[int, ...]) -> None:
    new = ints(op.infer(TensorType(DType.float32, old)).shape)
    found = 0
    for inner in product([False, True], repeat=len(old)):
        after = seen(op, old, new, inner)
        if after is not None:
            moved, wanted = op.eval(rows(old, inner)), rows(new, after)
            assert ((moved == wanted) | (moved == 0)).all(), (inner, after)  # what is padded is 0
            found += 1
    for inner in product([False, True], repeat=len(new)):
        before = read(op, old, new, inner)
        if before is not None:
            moved, wanted = op.eval(rows(old, before)), rows(new, inner)
            assert ((moved == wanted) | (moved == 0)).all(), (inner, before)
            found += 1
    assert found


def test_what_mixes_rows_is_refused() -> None:
    row_then_inner = (False, True)
    assert seen(Permute((1, 0)), (2, 3), (3, 2), (False, False)) is None
    assert seen(Reshape((6,)), (2, 3), (6,), row_then_inner) is None
    assert seen(Flip((0,)), (2, 3), (2, 3), row_then_inner) is None
    assert read(Expand((2, 3)), (1, 3), (2, 3), row_then_inner) is None
    assert seen(Flip((1,)), (2, 3), (2, 3), row_then_inner) == row_then_inner

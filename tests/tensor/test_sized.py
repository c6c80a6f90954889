"""What data choose in a size that is given, against PyTorch and JAX's convention."""

import numpy as np
import pytest

import luminal_lab as ll
from luminal_lab.errors import DTypeError, LabError, RangeError, ShapeError
from tests.expect import error_of
from tests.tensor.against import against, draw, interpret

NAN = np.float32(np.nan)
HOLES = np.array([[0, 5, NAN], [7, -0.0, 2]], np.float32)


def test_nonzero(torch):
    for size in (0, 2, 4, 9):
        against(
            torch,
            lambda x, n=size: x.nonzero_static(size=n),
            lambda x, n=size: x.nonzero_static(size=n),
            HOLES,
        )
    against(torch, lambda x: x.nonzero(size=4), lambda x: x.nonzero(), HOLES)
    against(torch, lambda x: x.argwhere(size=4), lambda x: x.argwhere(), HOLES)
    columns = interpret(lambda x: x.nonzero(True, size=5, fill_value=9), HOLES)
    assert [column.tolist() for column in columns] == [[0, 0, 1, 1, 9], [1, 2, 0, 2, 9]]
    assert (
        interpret(lambda x: x.nonzero(size=3), np.zeros((0, 2), np.float32)).tolist()
        == [[0, 0]] * 3
    )
    number = np.array(3, np.float32)
    against(torch, lambda x: x.nonzero(size=1), lambda x: x.nonzero(), number)
    assert interpret(lambda x: x.nonzero(True, size=2), number)[0].tolist() == [0, 0]


def test_masked_select(torch):
    mask = np.array([True, False, True])
    against(
        torch, lambda x, m: x.masked_select(m, size=4), lambda x, m: x.masked_select(m), HOLES, mask
    )
    found = interpret(lambda x: x.masked_select(x > 0, size=5, fill_value=-1), HOLES)
    assert found.tolist() == [5, 7, 2, -1, -1]
    assert interpret(lambda x: x.masked_select(x > 0, size=2), HOLES).tolist() == [5, 7]
    empty = np.zeros((0,), np.float32)
    assert interpret(lambda x: x.masked_select(x > 0, size=2, fill_value=3), empty).tolist() == [
        3,
        3,
    ]


def test_its_gradient_goes_to_what_is_chosen():
    cx = ll.Graph()
    x = cx.tensor((4,)).set([1, -2, 3, 4])
    chosen = x.masked_select(x > 0, size=2)
    slope = ll.grad((chosen * cx.tensor((2,)).set([10, 20])).sum(), x).retrieve()
    cx.execute()
    assert slope.tolist() == [10, 0, 20, 0]


@pytest.mark.parametrize("axis", [None, 0, 1, -1])
@pytest.mark.parametrize("name", ["unique", "unique_consecutive"])
@pytest.mark.parametrize("dtype", ["float32", "int64", "bool"])
def test_unique(torch, name: str, axis: int | None, dtype: str):
    x = (
        draw((6, 3), dtype, seed=3, low=0, high=1.6)
        if dtype != "float32"
        else np.rint(draw((6, 3), seed=3, low=0, high=1.6))
    )
    options = {"return_inverse": True, "return_counts": True}
    more = {} if axis is None else {"dim": axis}
    wanted = getattr(torch, name)(torch.tensor(x), **options, **more)
    size = wanted[0].shape[axis or 0]
    found = interpret(lambda t: getattr(t, name)(size=size, axis=axis, **options), x)
    for ours, theirs in zip(found, wanted, strict=True):
        assert str(ours.dtype) == str(theirs.dtype).removeprefix("torch.")
        np.testing.assert_array_equal(ours, theirs.numpy())


def test_each_nan_is_a_value_of_its_own(torch):
    x = np.array([NAN, 1, NAN, 1], np.float32)
    against(torch, lambda t: t.unique(size=3), lambda t: torch.unique(t), x)


def test_missing_values_are_filled():
    x = np.array([3, 1, 3], np.float32)
    found = interpret(lambda t: t.unique(size=4, return_counts=True), x)
    assert [part.tolist() for part in found] == [[1, 3, 1, 1], [1, 2, 0, 0]]
    assert interpret(lambda t: t.unique(size=4, fill_value=9), x).tolist() == [1, 3, 9, 9]
    assert interpret(lambda t: t.unique(size=1), x).tolist() == [1]
    none = np.zeros((0,), np.float32)
    assert interpret(lambda t: t.unique(size=2, fill_value=7), none).tolist() == [7, 7]


def test_masked_scatter(torch):
    mask, source = HOLES > 0, draw((7,))
    both = lambda x, m, s: x.masked_scatter(m, s)  # noqa: E731
    against(torch, both, both, HOLES, mask, source)
    against(torch, both, both, draw((3, 2, 4)), draw((2, 1), "bool"), draw((24,)))


@pytest.mark.parametrize("accumulate", [False, True])
def test_index_put_and_put(torch, accumulate: bool):
    rows, columns = np.array([0, -1, 1]), np.array([[2], [-3]])
    x, values = draw((3, 3, 2)), draw((2, 3, 2))
    both = lambda t, i, j, v: t.index_put((i, j), v, accumulate)  # noqa: E731
    against(torch, both, both, x, rows, columns, values)
    if accumulate:
        against(
            torch,
            lambda t, i, v: t.index_put((i,), v, True),
            lambda t, i, v: t.index_put((i,), v, accumulate=True),
            x, np.array([1, 1, 0]), draw((2,)),
        )  # fmt: skip
    both = lambda t, i, v: t.put(i, v, accumulate)  # noqa: E731
    against(torch, both, both, x, np.array([[3, -1]]), draw((1, 2)))


@pytest.mark.parametrize("include_self", [True, False])
@pytest.mark.parametrize("reduce", ["prod", "mean", "amax", "amin"])
@pytest.mark.filterwarnings("ignore:index_reduce")
def test_index_reduce(torch, reduce: str, include_self: bool):
    both = lambda x, i, s: x.index_reduce(1, i, s, reduce, include_self=include_self)  # noqa: E731
    against(torch, both, both, draw((2, 4)), np.array([3, 0, 3]), draw((2, 3)))


def test_a_position_beyond_the_end_is_told_when_the_graph_runs():
    cx = ll.Graph()
    at = cx.tensor((1,), "int64").set([5])
    cx.tensor((3,)).set([1, 2, 3]).index_put((at,), [0.0]).retrieve()
    with pytest.raises(LabError):
        cx.execute()


def test_errors():
    cx = ll.Graph()
    x = cx.tensor((2, 3), name="x")
    mask = cx.tensor((2, 3), "bool", name="mask")
    for name, given in (
        ("nonzero", ()), ("argwhere", ()), ("masked_select", (mask,)), ("unique", ()),
        ("unique_consecutive", ()),
    ):  # fmt: skip
        error = error_of(lambda n=name, g=given: getattr(x, n)(*g), ShapeError)
        assert error.message == f"{name}: its shape would depend on the data of %x (2, 3)"
        assert "size=10" in error.hint
    error = error_of(lambda: x.masked_select(x, size=2), DTypeError)
    assert error.message == "masked_select: the mask %x (2, 3) is float32 and not bool"
    error = error_of(lambda: x.index_put((), 1.0), ShapeError)
    assert error.message == "index_put: 0 indices are given for the 2 axes of %x (2, 3)"
    error_of(lambda: x.index_put(([0],), [1.0, 2.0]), ShapeError)
    error_of(lambda: x.put([9], [1.0]), RangeError)
    error_of(lambda: x.nonzero(size=-1), LabError)

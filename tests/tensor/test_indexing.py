"""Indexing against NumPy and PyTorch: `x[...]`, gather and scatter, sorting; errors."""

import inspect
from collections.abc import Callable
from itertools import product
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from luminal_lab.errors import (
    ArgumentError,
    AxisError,
    DTypeError,
    GraphError,
    LabError,
    RangeError,
    ShapeError,
)
from luminal_lab.session import Graph
from tests.expect import error_of
from tests.tensor.against import INTS, against, draw, interpret, special

Function = Callable[..., Any]


def at(*shape: int, below: int, seed: int = 0, least: int = 0) -> np.ndarray:
    """Return drawn positions."""
    return np.random.default_rng(seed).integers(least, below, shape)


# -- x[...] ----------------------------------------------------------------------------------------

SLICES = [slice(None), slice(1, None), slice(None, -1), slice(None, None, -1), slice(5, 0, -2)]
BASIC: list[Any] = [
    0,
    -1,
    np.int64(1),
    ...,
    (..., 0),
    (0, ...),
    (slice(1, 3), None),
    (None, ..., None, 1),
    (1, slice(None, None, 2), -1),
    (slice(2, 0), slice(None, None, -3)),
    (slice(-2, None), ..., slice(None, -1)),
    (0, 1, 2),
    (0, ..., 1, 2),
    (None, 0, None, 1, None, 2, None),
    [],
    [0, -1],
    [[0, 1], [2, -3]],
    (slice(None), [2, 0, 0]),
    ([0, 1], [1, -1]),
    ([[0], [1]], [1, 2, 0]),
    ([0, 1], slice(None), [1, -1]),
    (slice(None), [0, 1], [1, -1]),
    (slice(1, None), [0, 1], slice(None, None, -1)),
    (0, slice(None), [1, -1]),
    (0, [1, -1]),
    (slice(None), 0, [1, -1, 1]),
    ([1, -1], 0),
    ([1, -1], slice(None), 0),
    ([1, -1], None, [0, 1]),
    (slice(None), [1, -1], None, [0, 1]),
    (None, [1, -1], [0, 1]),
    ([1, -1], ..., [0, 1]),
    (slice(None), [0, 1], ..., [0, 1]),
    (np.array(1), slice(None)),
    (np.array(1), ..., np.array([0, 2])),
    (range(2),),
    ((0, 1), (1, 0), (0, 2)),
    np.zeros((0, 2), np.int64),
    np.array([1, 0], np.uint8),
    np.array([1, 0], np.uint64),
]


def test_getitem_as_numpy_has_it():
    x = draw((3, 4, 5))
    cx = Graph()
    keys = [*BASIC, *product(SLICES, SLICES), *[(a, ..., b) for a, b in product(SLICES, SLICES)]]
    t = cx.tensor(x.shape).set(x)
    u = cx.tensor(("a", "b", "c")).set(x)
    found = [(key, source[key].retrieve()) for key in keys for source in (t, u)]
    cx.execute()
    for key, part in found:
        # NumPy has `x[(0, 1), …]` and `range` as arrays only inside a tuple.
        wanted = x[key]
        assert np.array_equal(part.numpy(), wanted), key
        assert part.numpy().shape == wanted.shape, key


def test_getitem_by_tensors():
    x, i, j = draw((3, 4, 5)), at(2, 1, below=3, least=-3), at(3, below=4, least=-4, seed=1)
    narrow = i.astype(np.int8), j.astype(np.int32)
    unsigned = np.mod(i, 3).astype(np.uint64), j
    for a, b in ((i, j), narrow, unsigned):
        for key in (
            lambda i, j: i,
            lambda i, j: (i, j),
            lambda i, j: (i, slice(None), j),
            lambda i, j: (slice(None), j, ..., None),
            lambda i, j: (..., i, j),
            lambda i, j: (0, i, j),
            lambda i, j: (slice(None, None, -1), i, 2),
        ):
            found = interpret(lambda x, i, j, key=key: x[key(i, j)], x, a, b)
            assert np.array_equal(found, x[key(i, j)])


def test_getitem_by_a_number_in_a_tensor():
    x = draw((3, 4))
    assert np.array_equal(interpret(lambda x, i: x[i], x, np.array(-2)), x[-2])


def test_getitem_with_symbols():
    cx = Graph()
    x = draw((6, 3))
    n, p = cx.dim("n", 2, 6), cx.dim("p", 0, 3)
    t = cx.tensor((6, 3)).set(x)
    cx.set_dim("n", 4)
    cx.set_dim("p", 1)
    parts = [t[:n], t[p : p + 2], t[n - 1], t[-n:, p], t[p:n:2], t["n":]]
    assert [part.shape for part in parts[:3]] == [(n, 3), (2, 3), (3,)]
    for part in parts:
        part.retrieve()
    cx.execute()
    wanted = [x[:4], x[1:3], x[3], x[-4:, 1], x[1:4:2], x[4:]]
    for found, want in zip(parts, wanted, strict=True):
        assert np.array_equal(found.numpy(), want)


@pytest.mark.parametrize("shape", [(4,), (3, 4), (2, 3, 4)])
def test_random_chains_of_getitem(shape: tuple[int, ...]):
    random = np.random.default_rng(len(shape))
    cx = Graph()
    x = draw(shape)
    t, cases = cx.tensor(shape).set(x), []
    for _ in range(60):
        a, b = x, t
        for _ in range(3):
            key = tuple(drawn_item(random, size) for size in a.shape[: random.integers(0, 4)])
            a, b = a[key], b[key]
        cases.append((a, b.retrieve() if isinstance(b.shape, tuple) else b))
    cx.execute()
    for a, b in cases:
        assert np.array_equal(a, b.numpy())
        assert a.shape == b.shape


def drawn_item(random: np.random.Generator, size: int) -> Any:
    kind = random.integers(0, 4)
    if kind == 0 and size:
        return int(random.integers(-size, size))
    if kind == 1 and size:
        return random.integers(-size, size, 2).tolist()
    ends = [None if random.integers(0, 3) == 0 else int(random.integers(-6, 7)) for _ in range(2)]
    return slice(ends[0], ends[1], int(random.choice([-3, -1, 1, 2])))


# -- reading ---------------------------------------------------------------------------------------


def test_gather(torch: ModuleType):
    x = draw((3, 4, 2))
    for axis, index in [
        (0, at(5, 4, 2, below=3)),
        (1, at(3, 1, 2, below=4)),
        (-1, at(2, 3, 7, below=2)),
        (1, at(1, 0, 1, below=4)),
        (2, at(3, 4, 2, below=2)),
    ]:
        against(torch, lambda x, i, a=axis: x.gather(a, i), None, x, index)
    against(torch, lambda x, i: x.T.gather(0, i), None, draw((3, 3)), at(2, 3, below=3))
    against(torch, lambda x, i: x.gather(0, i), None, special(), at(9, below=13))


def test_slices_by_position(torch: ModuleType):
    x, i = draw((4, 3)), at(5, below=3)
    against(torch, lambda x, i: x.index_select(1, i), None, x, i)
    against(torch, lambda x, i: x.index_select(0, i[:1]), None, x, i)
    against(torch, lambda x, i: x.index_select(-1, i), None, x, np.zeros(0, np.int64))
    for dtype in ("bool", "bfloat16", *INTS):
        against(torch, lambda x, i: x.index_select(0, i), None, draw((3, 2), dtype, low=0), i)


def test_take():
    x = draw((3, 4, 2))
    for axis, index in [
        (None, at(2, 5, below=24, least=-24)),
        (0, at(2, 2, below=3, least=-3)),
        (1, at(below=4)),
        (-1, at(0, 3, below=2)),
    ]:
        index = np.asarray(index)
        wanted = np.take(x, index, axis)
        for found in (
            interpret(lambda x, i, a=axis: x.take(i, a), x, index),
            interpret(lambda x, i=index, a=axis: x.take(i, a), x),
            interpret(lambda x, i=index, a=axis: x.take(i.tolist() if i.size else i, a), x),
        ):
            assert np.array_equal(found, wanted)


def test_take_along_dim(torch: ModuleType):
    x = draw((3, 4, 2))
    along = torch.take_along_dim
    for axis, index in [
        (0, at(2, 4, 2, below=3)),
        (1, at(1, 3, 2, below=4)),
        (2, at(3, 1, 5, below=2)),
    ]:
        ours = lambda x, i, a=axis: x.take_along_dim(i, a)  # noqa: E731
        against(torch, ours, lambda x, i, a=axis: along(x, i, a), x, index)
    against(torch, lambda x, i: x.take_along_dim(i), along, x, at(5, below=24))


def test_embedding(torch: ModuleType):
    weight = draw((7, 3))
    for shape in ((), (4,), (2, 3), (0,)):
        against(
            torch,
            lambda w, t: w.embedding(t),
            lambda w, t: torch.nn.functional.embedding(t, w),
            weight,
            np.asarray(at(*shape, below=7)),
        )
    # A row of -inf is not touched by what stands in the others.
    masked = np.where(np.arange(7)[:, None] == 3, -np.inf, weight).astype(np.float32)
    assert np.array_equal(
        interpret(lambda w, t: w.embedding(t), masked, np.array([3, 0])), masked[[3, 0]]
    )


# -- writing ---------------------------------------------------------------------------------------


def test_scatter(torch: ModuleType):
    x = draw((3, 5))
    index = np.array([[0, 1, 2, 0, 4], [4, 3, 2, 1, 0], [1, 0, 3, 4, 2]])[:, :4]
    index = np.array([np.random.default_rng(k).permutation(5)[:4] for k in range(3)])
    for i, source in [
        (index, draw((3, 4), seed=1)),
        (index[:2], draw((3, 5), seed=2)),
        (index[:, :0], draw((3, 0))),
    ]:
        against(torch, lambda x, i, s: x.scatter(1, i, s), None, x, i, source)
        against(torch, lambda x, i: x.scatter(1, i, 2.5), None, x, i)
        against(torch, lambda x, i: x.scatter(1, i, value=-1), None, x, i)
        against(torch, lambda x, i, s: x.scatter_add(-1, i, s), None, x, i, source)
    twice = at(3, 6, below=5)
    for dtype in ("float32", "float64", "int64", "int8"):
        source = draw((3, 6), dtype)
        against(
            torch, lambda x, i, s: x.scatter_add(1, i, s), None, draw((3, 5), dtype), twice, source
        )
    flags = draw((3, 4), "bool")
    against(torch, lambda x, i, s: x.scatter(1, i, s), None, draw((3, 5), "bool"), index, flags)


@pytest.mark.parametrize("reduce", ["sum", "prod", "mean", "amax", "amin"])
@pytest.mark.parametrize("include_self", [True, False])
def test_scatter_reduce(torch: ModuleType, reduce: str, include_self: bool):
    function = lambda x, i, s: x.scatter_reduce(0, i, s, reduce, include_self=include_self)  # noqa: E731
    for dtype in ("float32", "int64"):
        for shape, count in (((4, 3), 6), ((4, 2), 3), ((4, 3), 0)):
            index = at(count, shape[1], below=4)
            source = draw((count, shape[1]), dtype, seed=1)
            against(torch, function, None, draw((4, 3), dtype), index, source)


def test_index_add_copy_fill(torch: ModuleType):
    x, i = draw((3, 4)), np.array([2, 0])
    source = draw((3, 2), seed=1)
    against(torch, lambda x, i, s: x.index_add(1, i, s), None, x, i, source)
    against(torch, lambda x, i, s: x.index_add(1, i, s, alpha=2), None, x, i, source)
    against(torch, lambda x, i, s: x.index_copy(1, i, s), None, x, i, source)
    against(torch, lambda x, i: x.index_fill(-1, i, 7.0), None, x, i)
    against(torch, lambda x, i, s: x.index_add(0, i, s), None, x, np.array([1, 1, 1]), draw((3, 4)))


def test_one_hot_and_bincount(torch: ModuleType):
    for shape in ((), (4,), (2, 3), (0,)):
        index = np.asarray(at(*shape, below=5))
        against(torch, lambda i: i.one_hot(5), lambda i: torch.nn.functional.one_hot(i, 5), index)
    numbers = at(20, below=6)
    against(
        torch, lambda i: i.bincount(minlength=8), lambda i: torch.bincount(i, minlength=8), numbers
    )
    weights = draw((20,), "float64")
    against(
        torch, lambda i, w: i.bincount(w, 6), lambda i, w: torch.bincount(i, w, 6), numbers, weights
    )


def test_rows_go_in_along_one_axis():
    cx = Graph()
    buffer, rows = cx.tensor((4, 4), name="buffer"), cx.tensor((1, 4), name="rows")
    at: Any = cx.tensor((), "int64", name="pos"), 0
    error = error_of(lambda: buffer.update(rows, at), ShapeError)
    assert error.message == "update: the position is a tuple of 2, and rows go in along one axis"
    assert error.hint == 'give a number or a dim, as in update(rows, "p", axis=1)'
    shape: Any = (rows,)
    error = error_of(lambda: cx.tensor(shape), ShapeError)
    assert "\n" not in error.message


def test_update_grows_a_cache():
    cx = Graph()
    p = cx.dim("p", 0, 3)
    cache = cx.tensor((4, 2), name="cache").set(np.zeros((4, 2)))
    row = cx.tensor((1, 2)).set([[1.0, 2.0]])
    new = cache.update(row, p)
    seen = new[: p + 1].retrieve()
    cx.carry(new, cache)
    for step in range(3):
        cx.set_dim("p", step)
        cx.execute()
        assert seen.tolist() == [[1.0, 2.0]] * (step + 1)


# -- order -----------------------------------------------------------------------------------------

SHAPES = ((0,), (1,), (7,), (3, 3), (2, 0), (2, 5, 3))


def values(shape: tuple[int, ...], dtype: str = "float32") -> np.ndarray:
    """Return values among which many are equal."""
    drawn = draw(shape, dtype, low=0, high=4)
    return np.round(drawn) if dtype.startswith("float") else drawn


@pytest.mark.parametrize("descending", [False, True])
def test_sort(torch: ModuleType, descending: bool):
    for shape in SHAPES:
        for axis in range(-1, len(shape)):
            against(
                torch,
                lambda x, a=axis: x.sort(a, descending, stable=True),
                lambda x, a=axis: torch.sort(x, dim=a, descending=descending, stable=True),
                values(shape),
            )
    x = np.concatenate([special(), special()[::-1]])
    ours, theirs = (
        lambda x: x.sort(0, descending),
        lambda x: torch.sort(x, stable=True, descending=descending),
    )
    against(torch, ours, theirs, x)
    for dtype in ("bool", "float16", "bfloat16", "float64", *INTS):
        against(torch, ours, theirs, values((9,), dtype))
    against(
        torch,
        lambda x: x.T.argsort(0, descending),
        lambda x: x.T.argsort(dim=0, descending=descending, stable=True),
        values((4, 4)),
    )
    against(torch, lambda x: x.msort(), None, values((4, 3)))


@pytest.mark.parametrize("largest", [False, True])
def test_topk(torch: ModuleType, largest: bool):
    random = np.random.default_rng(0)
    for shape, k, axis in [
        ((9,), 3, 0),
        ((4, 6), 0, 1),
        ((5, 3), 5, 0),
        ((2, 700), 4, -1),
        ((3000,), 40, 0),
    ]:
        # Where values are equal PyTorch does not say which it takes; a permutation has none.
        size = int(np.prod(shape))
        x = random.permutation(size).reshape(shape).astype(np.float32)
        ours = lambda x, k=k, a=axis: x.topk(k, a, largest)  # noqa: E731
        against(torch, ours, lambda x, k=k, a=axis: x.topk(k, a, largest), x)
        y = np.round(x / 7)
        places = interpret(ours, y)[1]
        stable = np.argsort(-y if largest else y, axis=axis, kind="stable")
        assert np.array_equal(places, np.take(stable, range(k), axis))
    for dtype in ("int8", "bool", "float16"):
        y = values((600,), dtype)
        found = interpret(lambda x: x.topk(5, 0, largest), y)
        keys = -y.astype(np.float64) if largest else y.astype(np.float64)
        assert np.array_equal(found[1], np.argsort(keys, kind="stable")[:5])
        assert np.array_equal(found[0], y[found[1]])


def test_topk_of_special_values_over_blocks(torch: ModuleType):
    x = np.full(700, -np.inf, np.float32)
    x[600], x[300], x[10], x[11] = np.nan, np.inf, 1.0, -3e38
    found = interpret(lambda x: x.topk(6), x)
    assert found[1].tolist() == [600, 300, 10, 11, 0, 1]
    found = interpret(lambda x: x.topk(3, largest=False), -x)
    assert found[1].tolist() == [300, 10, 11]
    against(torch, lambda x: x.topk(6)[0], None, x)


def test_order_statistics(torch: ModuleType):
    x = np.random.default_rng(0).permutation(15).reshape(3, 5).astype(np.float32)
    for k in (1, 3):
        against(torch, lambda x, k=k: x.kthvalue(k), None, x)
        against(torch, lambda x, k=k: x.kthvalue(k, 0, keepdim=True), None, x)
    for y in (x, x[:, :4], np.where(x < 4, np.nan, x), x.astype(np.int64)):
        against(torch, lambda x: x.median(), None, y)
        against(torch, lambda x: x.median(-1), None, y)
        against(torch, lambda x: x.median(dim=0, keepdim=True), None, y)


@pytest.mark.parametrize("right", [False, True])
def test_searchsorted(torch: ModuleType, right: bool):
    edges = np.array([-1.0, 0.0, 0.0, 2.0, np.inf], np.float32)
    for sought in (special(), draw((2, 3)), np.array(0.0, np.float32), draw((0, 2)), edges):
        against(
            torch,
            lambda e, v: e.searchsorted(v, right=right),
            lambda e, v: torch.searchsorted(e, v, right=right),
            edges,
            sought,
        )
        against(
            torch,
            lambda e, v: v.bucketize(e, right=right),
            lambda e, v: torch.bucketize(v, e, right=right),
            edges,
            sought,
        )
    rows = np.sort(draw((2, 3, 4)), -1)
    against(
        torch,
        lambda e, v: e.searchsorted(v, right),
        lambda e, v: torch.searchsorted(e, v, right=right),
        rows,
        draw((2, 3, 5), seed=3),
    )


def test_sorting_over_a_symbolic_axis():
    for n in (1, 4, 9):
        cx = Graph()
        x = values((2, n))
        t = cx.tensor((2, "n")).set(x)
        sorted_, places = t.sort()
        best = t.topk(1)[1].retrieve()
        sorted_.retrieve()
        places.retrieve()
        cx.execute()
        assert np.array_equal(sorted_.numpy(), np.sort(x))
        assert np.array_equal(places.numpy(), np.argsort(x, kind="stable"))
        assert np.array_equal(best.numpy()[:, 0], np.argmax(x, 1))


# -- errors ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "function", "message"),
    [
        (
            DTypeError,
            lambda x, i: x[True],
            "index: True is a bool, and cannot stand in %x (2, 3)[...]\n"
            "hint: use None for a new axis, or mask.where(x, 0) for a mask",
        ),
        (
            DTypeError,
            lambda x, i: x[x > 0],
            "index: the index %3 (2, 3) is bool, and must hold integers\n"
            "hint: use mask.where(x, 0) for a mask, or cast what counts positions",
        ),
        (
            AxisError,
            lambda x, i: x[0, 0, 0],
            "index: 3 axes and 0 '...' are indexed in %x (2, 3)\n"
            "hint: index each axis at most once, and use one '...'",
        ),
        (
            RangeError,
            lambda x, i: x[:, 3],
            "index: there is no position 3 on axis 1 of %x (2, 3)\nhint: positions go from -3 to 2",
        ),
        (
            RangeError,
            lambda x, i: x[[0, 2]],
            "index: there is no position 2 on an axis of size 2 of %x (2, 3)\n"
            "hint: positions go from -2 to 1",
        ),
        (
            ShapeError,
            lambda x, i: x.embedding(i)[0].embedding(i)[0, 0].embedding(i),
            "embedding: the weight %6 (3,) has 1 axes, and must have two\n"
            "hint: the weight comes first, as in weight.embedding(tokens)",
        ),
        (
            ShapeError,
            lambda x, i: x.gather(0, i),
            "gather: the index %i (2,) must have the axes of %x (2, 3), and only axis 0 may be "
            "larger\nhint: expand the index, or use take or index_select for whole slices",
        ),
        (
            ShapeError,
            lambda x, i: x.scatter(0, i.expand(3, 2).T, i.cast("float32")),
            "scatter: the index %4 (2, 3) is larger than the values %5 (2,)\n"
            "hint: give a value for each index, or one number for all",
        ),
        (
            DTypeError,
            lambda x, i: x.scatter(0, i.expand(3, 2).T, i.expand(3, 2).T),
            "scatter: the values %7 (2, 3) are int64, and %x (2, 3) is float32\n"
            "hint: convert one of them with cast",
        ),
        (
            RangeError,
            lambda x, i: x.topk(4),
            "topk: k is 4, and axis 1 of %x (2, 3) has 3\nhint: k is at most the size of the axis",
        ),
        (
            ShapeError,
            lambda x, i: x.nonzero(),
            "nonzero: its shape would depend on the data of %x (2, 3)\n"
            "hint: say how many there are at most, as in x.nonzero(size=10)",
        ),
        (
            ShapeError,
            lambda x, i: i.bincount(),
            "bincount: its size would depend on the data of %i (2,)\n"
            "hint: give the number of bins, as in x.bincount(minlength=10)",
        ),
        (
            ShapeError,
            lambda x, i: x.scatter_reduce(0, i.expand(3, 2).T, x, "median"),
            "scatter_reduce: there is no reduction 'median'\n"
            "hint: one of 'sum', 'prod', 'mean', 'amax', 'amin'",
        ),
        (
            GraphError,
            lambda x, i: x.__setitem__(0, 1),
            "%x (2, 3): a tensor is a value, and no part of it can be set\n"
            "hint: write x = x.update(rows, at) for rows from a position on, x = mask.where(value, "
            "x) for a mask, or x = x.index_copy(axis, index, rows)",
        ),
        (
            ShapeError,
            lambda x, i: x.searchsorted(i),
            "searchsorted: the numbers %x (2, 3) and the values %i (2,) do not fit together\n"
            "hint: the numbers have one axis, or all axes but the last as the values have them",
        ),
    ],
)
def test_errors(error: type[LabError], function: Function, message: str):
    cx = Graph()
    x, i = cx.tensor((2, 3), name="x"), cx.tensor((2,), "int64", name="i")
    with pytest.raises(error) as found:
        function(x, i)
    found.value.where = None
    assert str(found.value) == message


@pytest.mark.parametrize(
    "function",
    [
        lambda x, i: x[i],
        lambda x, i: x[0, i],
        lambda x, i: x[i, 0 * i],
        lambda x, i: x[0 * i, i],
        lambda x, i: x.take(i, 0),
        lambda x, i: x.embedding(i),
        lambda x, i: x.index_select(0, i),
        lambda x, i: x.gather(0, i.unsqueeze(1)),
        lambda x, i: x.scatter(0, i.unsqueeze(1), 0),
        lambda x, i: i.one_hot(3),
    ],
)
@pytest.mark.parametrize("bad", [9, -9])
def test_an_index_out_of_range_is_refused_when_it_is_seen(function: Function, bad: int):
    cx = Graph()
    x = cx.tensor((3, 3)).set(draw((3, 3)))
    function(x, cx.tensor((2,), "int64").set([0, bad])).retrieve()
    with pytest.raises(RangeError, match=r"the index at \(1.*\) is"):
        cx.execute()


BAD = [None, "a b", 1.5, [0.5], object(), (0, 0), -9, 9, True, np.array([0.5]), [[1], [2, 3]]]


@pytest.mark.parametrize(
    "name",
    [
        "__getitem__", "take", "index_select", "embedding", "gather", "take_along_dim", "scatter",
        "scatter_add", "scatter_reduce", "index_add", "index_copy", "index_fill", "update",
        "one_hot", "bincount", "argsort", "sort", "topk", "kthvalue", "median", "searchsorted",
        "bucketize", "nonzero", "masked_select", "unique",
    ],
)  # fmt: skip
def test_bad_arguments_get_an_error_of_ours(name: str):
    cx = Graph()
    x = cx.tensor((2, 3), name="x")
    text = str(cx)
    for arguments in [
        (*first, a, b)[:count]
        for first in ((), (0,), (0, [[0], [0]]))
        for a, b in product(BAD, BAD)
        for count in (1, 2, 3, 4)
    ]:
        method = getattr(x, name)
        try:
            inspect.signature(method).bind(*arguments)
        except TypeError:
            continue
        try:
            method(*arguments)
        except LabError:
            assert str(cx) == text
        else:
            cx = Graph()
            x = cx.tensor((2, 3), name="x")


def test_words_of_searchsorted(torch):
    numbers, sought = np.array([3, 1, 2], np.float32), np.array([0, 1, 2, 3, 9, np.nan], np.float32)
    order = np.argsort(numbers)
    for given in ({}, {"right": True}, {"side": "right"}, {"out_int32": True}):
        against(
            torch,
            lambda n, s, i, g=given: n.searchsorted(s, sorter=i, **g),
            lambda n, s, i, g=given: torch.searchsorted(n, s, sorter=i, **g),
            numbers, sought, order,
        )  # fmt: skip
    x = Graph().tensor((3,))
    error = error_of(lambda: x.searchsorted(x, side="middle"), ArgumentError)
    assert error.message == "searchsorted: side is 'middle' and right False"
    error_of(lambda: x.searchsorted(x, True, side="left"), ArgumentError)


@pytest.mark.filterwarnings("ignore:The reduce argument")
def test_scattered_values_that_are_added_or_multiplied(torch):
    x, index, source = draw((3, 4)), np.array([[0, 2, 0], [1, 1, 3]]), draw((2, 3), seed=1)
    for reduce in ("add", "multiply"):
        both = lambda t, i, s, r=reduce: t.scatter(1, i, s, reduce=r)  # noqa: E731
        against(torch, both, both, x, index, source, rtol=1e-5)
        both = lambda t, i, r=reduce: t.scatter(1, i, value=2.0, reduce=r)  # noqa: E731
        theirs = lambda t, i, r=reduce: t.scatter(1, i, 2.0, reduce=r)  # noqa: E731
        against(torch, both, theirs, x, index)
    error = error_of(lambda: Graph().tensor((3,)).scatter(0, [0], 1.0, reduce="max"), ArgumentError)
    assert error.message == "scatter: there is no reduction 'max'"


def test_a_number_is_indexed_as_a_vector_of_one(torch):
    number, index = np.array(3, np.float32), np.array([0])
    for call in (
        lambda t, i: t.gather(0, i), lambda t, i: t.index_select(0, i),
        lambda t, i: t.scatter(0, i[0], t * 2), lambda t, i: t.index_add(0, i, t),
        lambda t, i: t.index_fill(0, i, 5.0), lambda t, i: t.sort(0)[1], lambda t, i: t.topk(1)[0],
    ):  # fmt: skip
        against(torch, call, call, number, index)

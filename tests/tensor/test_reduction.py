"""Reductions and scans against PyTorch: values, dtypes, shapes, errors, symbolic sizes."""

import ml_dtypes
import numpy as np
import pytest

from luminal_lab.errors import AxisError, DTypeError, ShapeError
from luminal_lab.session import Graph
from tests.expect import error_of
from tests.tensor.against import FLOATS, INTS, against, draw, interpret, special

SHAPES = [(), (5,), (1,), (4, 3), (3, 3), (2, 1, 5), (0, 3), (3, 0), (2, 3, 4), (1, 1)]
FULL = [shape for shape in SHAPES if 0 not in shape]
AXES = {
    shape: [None, *([0, -1] if shape else []), *([(0, -1)] if len(shape) > 1 else [])]
    for shape in SHAPES
}
CASES = [(shape, axis) for shape in SHAPES for axis in AXES[shape]]
SUMS = ["sum", "nansum", "mean", "nanmean", "count_nonzero", "any", "all"]


def keyword(axis):
    return {} if axis is None else {"dim": axis}


@pytest.mark.parametrize("name", SUMS)
def test_sums_are_pytorchs(torch, name):
    for shape, axis in CASES:
        keeps = (False,) if name == "count_nonzero" else (False, True)
        for keepdim in keeps:
            if keepdim and axis is None:
                continue  # PyTorch takes no keepdim then
            options = keyword(axis) | ({"keepdim": True} if keepdim else {})
            against(torch, lambda x, o=options: getattr(x, name)(**o), None, draw(shape))


@pytest.mark.parametrize("name", ["amax", "amin", "aminmax", "logsumexp", "norm"])
def test_extremes_are_pytorchs(torch, name):
    for shape, axis in CASES:
        if name == "aminmax" and isinstance(axis, tuple):
            continue
        if 0 in shape and name != "norm":
            continue
        options = keyword(axis) | {"keepdim": True}
        if name in ("logsumexp", "norm") and axis is None:
            options = {"dim": tuple(range(len(shape))) if name == "logsumexp" else None}

        def ours(x, o=options):
            found = getattr(x, name)(**o)
            return tuple(found) if isinstance(found, tuple) else found

        against(torch, ours, None, draw(shape))


@pytest.mark.parametrize("name", ["var", "std", "var_mean", "std_mean"])
@pytest.mark.filterwarnings("ignore:.*degrees of freedom")
def test_moments_are_pytorchs(torch, name):
    for shape, axis in CASES:
        for correction in (0, 1, 2, 1.5):
            options = keyword(axis) | {"keepdim": True, "correction": correction}
            ours = lambda x, o=options: getattr(x, name)(**o)  # noqa: E731
            theirs = lambda x, o=options: getattr(torch, name)(x, **({"dim": None} | o))  # noqa: E731
            against(torch, ours, theirs, draw(shape), rtol=1e-5, atol=1e-6)


def test_unbiased_is_another_word_for_the_correction(torch):
    against(torch, lambda x: x.var(-1, unbiased=False), None, draw((3, 4)))
    against(torch, lambda x: x.std(-1, False), None, draw((3, 4)))
    against(torch, lambda x: x.std(-1, True, True), None, draw((3, 4)))


@pytest.mark.parametrize("name", ["argmax", "argmin"])
def test_positions_are_pytorchs(torch, name):
    for shape in FULL:
        for axis in (None, 0, -1)[: 3 if shape else 1]:
            for keepdim in (False, True):
                data = draw(shape, low=-2, high=2).round()  # has ties
                against(torch, lambda x, a=axis, k=keepdim: getattr(x, name)(a, k), None, data)
    for dtype in (*INTS, *FLOATS):
        against(torch, lambda x: getattr(x, name)(1), None, draw((4, 6), dtype, low=0))


def test_positions_of_special_values(torch):
    rows = np.stack([np.roll(special(), k) for k in range(13)])
    for data in (rows, rows[:, :6], np.full((2, 3), -np.inf, "f4"), np.full((2, 3), np.nan, "f4")):
        against(torch, lambda x: x.argmax(1), None, data)
        against(torch, lambda x: x.argmin(0), None, data)
    zeros = np.array([[-0.0, 0.0], [0.0, -0.0]], "f4")
    against(torch, lambda x: x.argmax(1), None, zeros)
    against(torch, lambda x: x.argmin(1), None, zeros)


def test_the_first_of_true_is_found_among_bools():
    found = interpret(lambda x: (x.argmax(0), x.argmin(0)), np.array([False, True, True]))
    assert [value.item() for value in found] == [1, 0]


@pytest.mark.parametrize("dtype", [*INTS, *FLOATS, "bool"])
def test_every_dtype(torch, dtype):
    data = draw((3, 5), dtype, low=0, high=3)
    names = ["sum", "prod", "count_nonzero", "amax", "amin"]
    if dtype != "uint8":  # PyTorch answers uint8 with uint8, a leftover from before it had bool
        names += ["any", "all"]
    if dtype in FLOATS:
        names += ["mean", "var", "std", "norm", "nansum", "nanmean", "logsumexp"]
    for name in names:
        against(torch, lambda x, n=name: getattr(x, n)(dim=1), None, data)


@pytest.mark.parametrize("dtype", [*INTS, *FLOATS, "bool"])
def test_every_dtype_is_scanned(torch, dtype):
    data = draw((3, 20), dtype, low=0, high=3)
    for name in ("cumsum", "cumprod"):
        against(
            torch,
            lambda x, n=name: getattr(x, n)(1),
            None,
            data,
            rtol=2e-2 if "16" in dtype else 1e-5,
        )
    for name in ("cummax", "cummin"):
        against(
            torch, lambda x, n=name: getattr(x, n)(1), lambda x, n=name: getattr(x, n)(1)[0], data
        )


def test_integers_and_bools_have_means_too():
    # PyTorch refuses them; here they become float32, as in a division.
    for dtype in ("int32", "bool", "uint8"):
        data = draw((3, 4), dtype, low=0)
        assert np.allclose(interpret(lambda x: x.mean(1), data), data.astype("f4").mean(1))
        assert np.allclose(interpret(lambda x: x.var(), data), data.astype("f4").var(ddof=1))


def test_integers_have_extremes_at_the_ends_of_their_range(torch):
    for dtype in INTS:
        info = np.iinfo(dtype)
        data = np.array([[info.min, info.max, 0], [info.max, info.max, 1]], dtype)
        for name in ("amin", "amax"):
            against(torch, lambda x, n=name: getattr(x, n)(1), None, data)
        for name in ("cummin", "cummax"):
            against(
                torch,
                lambda x, n=name: getattr(x, n)(1),
                lambda x, n=name: getattr(x, n)(1)[0],
                data,
            )


def test_a_dtype_may_be_asked_for(torch):
    against(torch, lambda x: x.sum(0, dtype=torch.float64), None, draw((4,), "float32"))
    against(torch, lambda x: x.mean(dtype=torch.float64), None, draw((4,), "int32"))
    against(torch, lambda x: x.prod(dtype=torch.int32), None, draw((4,), "int64"))
    against(torch, lambda x: x.cumsum(0, dtype=torch.float32), None, draw((4,), "int64"))


def test_16_bit_floats_are_summed_in_32():
    data = np.full((300, 300), 1.0, "float16")
    assert interpret(lambda x: x.sum(), data) == np.float16("inf")
    assert interpret(lambda x: x.mean(), data) == 1
    halves = np.full((1000,), 0.01, ml_dtypes.bfloat16)
    assert abs(float(interpret(lambda x: x.sum(), halves)) - 10.0) < 0.05
    assert abs(float(interpret(lambda x: x.norm(), halves)) - 0.316) < 0.002


@pytest.mark.parametrize(
    "name", ["sum", "mean", "amax", "amin", "prod", "nansum", "nanmean", "norm"]
)
def test_special_values(torch, name):
    rows = special()[:, None].repeat(3, 1)
    rows[:, 1], rows[:, 2] = 1, special()[::-1]
    against(torch, lambda x: getattr(x, name)(dim=1), None, rows)
    against(torch, lambda x: getattr(x, name)(dim=1), None, special()[:, None])


@pytest.mark.parametrize("p", [0, 0.5, 1, 2, 3, 2.5, -1, np.inf, -np.inf])
def test_norms(torch, p):
    for shape in [(4,), (3, 4), (2, 3, 1)]:
        for axis in (None, -1, 0):
            against(torch, lambda x, a=axis: x.norm(p, dim=a), None, draw(shape), rtol=2e-5)
    against(
        torch,
        lambda x: x.norm(p, dim=0),
        None,
        np.array([[0, np.inf, np.nan, 1e-38, -2]] * 2, "f4"),
    )
    if p >= 0 and p != np.inf:
        against(torch, lambda x: x.norm(p, dim=0), None, draw((0, 3)))


def test_a_norm_may_be_called_fro(torch):
    against(torch, lambda x: x.norm("fro"), None, draw((3, 4)))


@pytest.mark.parametrize("size", [0, 1, 2, 3, 8, 9, 31, 64, 65, 100])
def test_scans_are_pytorchs_at_every_length(torch, size):
    for shape, axis in (((size,), 0), ((2, size), -1), ((size, 2), 0)):
        data = draw(shape, low=-2, high=2)
        against(torch, lambda x, a=axis: x.cumsum(a), None, data, atol=1e-5)
        against(torch, lambda x, a=axis: x.cumprod(a), None, data, rtol=1e-4)
        for name in ("cummax", "cummin"):
            ours = lambda x, n=name, a=axis: getattr(x, n)(a)  # noqa: E731
            theirs = lambda x, n=name, a=axis: getattr(x, n)(a)[0]  # noqa: E731
            against(torch, ours, theirs, data - 5)
        against(torch, lambda x, a=axis: x.logcumsumexp(a), None, data, atol=1e-6)
        whole = draw(shape, "int64", low=-9, high=9)
        against(torch, lambda x, a=axis: x.cumsum(a), None, whole)
        against(torch, lambda x, a=axis: x.cumprod(a), None, whole)  # wraps around as PyTorch's


def test_scans_of_special_values(torch):
    finite = np.array([-np.inf, -3e38, 1, -0.0, np.inf, 2, 1e-38, np.nan, 3], "f4")
    for data in (finite, finite[:5], finite[::-1].copy(), np.full(4, -np.inf, "f4")):
        for name in ("cumsum", "cumprod", "logcumsumexp"):
            against(torch, lambda x, n=name: getattr(x, n)(0), None, data)
        for name in ("cummax", "cummin"):
            against(
                torch,
                lambda x, n=name: getattr(x, n)(0),
                lambda x, n=name: getattr(x, n)(0)[0],
                data,
            )


def test_logsumexp_of_special_values(torch):
    rows = np.array(
        [
            [-np.inf, -np.inf],
            [np.inf, 1],
            [np.inf, -np.inf],
            [np.nan, 1],
            [3e38, 3e38],
            [-3e38, -3e38],
        ],
        "f4",
    )
    against(torch, lambda x: x.logsumexp(1), None, rows)
    against(torch, lambda x: x.logsumexp(0), None, draw((0, 3)))


def test_products(torch):
    for size in (0, 1, 2, 3, 5, 8, 13):
        for data in (draw((size, 3)), draw((size, 3), "int64"), draw((size, 3), "bool")):
            against(torch, lambda x: x.prod(0), None, data, rtol=1e-5)
            against(torch, lambda x: x.prod(), None, data, rtol=1e-5)
    against(torch, lambda x: x.prod(1, keepdim=True), None, draw((2, 3, 4)))
    several = interpret(lambda x: x.prod((0, 2)), draw((2, 3, 4)))
    assert np.allclose(several, draw((2, 3, 4)).prod((0, 2)), rtol=1e-5)


def test_differences(torch):
    for shape, axis in (((6,), -1), ((3, 4), 0), ((3, 4), 1), ((1, 3), 0), ((0, 3), 0)):
        for dtype in ("float32", "int32", "bool"):
            for n in (0, 1, 2, 5):
                ours = lambda x, n=n, a=axis: x.differences(n, a)  # noqa: E731
                theirs = lambda x, n=n, a=axis: x.diff(n, a)  # noqa: E731
                against(torch, ours, theirs, draw(shape, dtype))


def test_trapezoids(torch):
    y, x, full = draw((3, 5)), draw((5,), seed=1), draw((3, 5), seed=2)
    against(torch, lambda y: y.trapezoid(), lambda y: torch.trapezoid(y), y)
    against(
        torch, lambda y: y.trapezoid(dx=0.5, axis=0), lambda y: torch.trapezoid(y, dx=0.5, dim=0), y
    )
    against(torch, lambda y, x: y.trapezoid(x), lambda y, x: torch.trapezoid(y, x), y, x, atol=1e-6)
    against(
        torch, lambda y, x: y.trapezoid(x), lambda y, x: torch.trapezoid(y, x), y, full, atol=1e-6
    )
    against(torch, lambda y: y.trapezoid(), lambda y: torch.trapezoid(y), draw((2, 0)))
    column = draw((3,), seed=3)
    against(
        torch,
        lambda y, x: y.trapezoid(x, axis=0),
        lambda y, x: torch.trapezoid(y, x, dim=0),
        y,
        column,
    )


def test_traces(torch):
    for dtype in ("float32", "int32"):
        for shape in ((3, 3), (2, 4), (0, 3)):
            against(torch, lambda x: x.trace(), None, draw(shape, dtype))


VIEWS = {
    "transposed": lambda x: x.T,
    "sliced": lambda x: x[::2],
    "padded": lambda x: x.pad(((1, 0), (0, 2))) if hasattr(x, "graph") else _torch_padded(x),
    "broadcast": lambda x: x[:, :1].expand(4, 6),
}


def _torch_padded(x):
    result = x.new_zeros(x.shape[0] + 1, x.shape[1] + 2)
    result[1:, :-2] = x
    return result


@pytest.mark.parametrize("view", VIEWS)
def test_views_are_reduced(torch, view):
    data = draw((4, 6))
    for name in ("sum", "amax", "amin", "mean", "argmax", "std", "prod", "logsumexp"):
        for axis in (0, 1):
            reduce = lambda x, n=name, a=axis: getattr(VIEWS[view](x), n)(dim=a)  # noqa: E731
            against(torch, reduce, None, data, rtol=1e-5, atol=1e-6)
    against(torch, lambda x: VIEWS[view](x).cumsum(1), None, data, atol=1e-6)


# -- symbolic sizes --------------------------------------------------------------------------------


def symbolic(function, data, low=1, high=None):
    cx = Graph()
    dims = [cx.dim(name, low, high) for name in "nm"[: data.ndim]]
    result = function(cx.tensor(tuple(dims), data.dtype).set(data)).retrieve()
    cx.execute()
    return result.numpy()


@pytest.mark.parametrize("high", [None, 40])
@pytest.mark.parametrize("size", [1, 2, 9, 33])
def test_symbolic_sizes(torch, size, high):
    data = draw((size, 3), low=-2, high=2)
    given = torch.tensor(data)
    for name in ("sum", "mean", "amax", "amin", "argmax", "argmin", "logsumexp", "cumsum"):
        for axis in (0, 1):
            found = symbolic(lambda x, n=name, a=axis: getattr(x, n)(a), data, 1, high)
            wanted = getattr(given, name)(axis).numpy()
            assert found.shape == wanted.shape
            np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)
    for name in ("cummax", "cummin"):
        found = symbolic(lambda x, n=name: getattr(x, n)(0), data, 1, high)
        np.testing.assert_array_equal(found, getattr(given, name)(0)[0].numpy())
    for name, wanted in (("prod", data.prod(0)), ("cumprod", data.cumprod(0))):
        found = symbolic(lambda x, n=name: getattr(x, n)(0), data, 1, high)
        np.testing.assert_allclose(found, wanted, rtol=3e-5)
    flat = symbolic(lambda x: x.argmax(), data, 1, high)
    assert flat == data.argmax()
    spread = symbolic(lambda x: x.var(0, correction=0), data, 1, high)
    np.testing.assert_allclose(spread, data.var(0), rtol=1e-5, atol=1e-7)
    assert symbolic(lambda x: x.std(), data, 1, high).shape == ()


def test_unbounded_products_have_signs_zeros_and_special_values():
    for row in (
        [2, -3, 4],
        [-1, -1, -1],
        [0, 5, -2],
        [np.nan, 0, 1],
        [np.inf, 0, 1],
        [-np.inf, 2, 1],
    ):
        data = np.array(row, "f4")
        with np.errstate(invalid="ignore"):
            np.testing.assert_allclose(symbolic(lambda x: x.prod(), data), data.prod(), rtol=1e-6)
    whole = np.array([7, -3, 11, 1], "i8")
    assert symbolic(lambda x: x.prod(), whole) == whole.prod()


def test_nothing_is_any_and_all_at_a_symbolic_size_too():
    empty = np.zeros((0,), bool)
    assert not symbolic(lambda x: x.any(), empty, 0)
    assert symbolic(lambda x: x.all(), empty, 0)


# -- lowering and errors ---------------------------------------------------------------------------


def test_positions_take_linear_work():
    counts = Graph().tensor((1000,)).argmax().op_counts()
    assert "window" not in counts
    assert sum(counts.values()) < 25


def test_scans_take_few_steps():
    assert Graph().tensor((8,)).cumsum(0).op_counts()["window"] == 1
    assert Graph().tensor((64,)).cumsum(0).op_counts()["window"] == 2
    assert Graph().tensor((4096,)).cumsum(0).op_counts()["window"] == 4


ERRORS = {
    "max of nothing": (
        lambda x: x.max(1),
        (2, 0),
        ShapeError,
        "max: axis 1 of %x (2, 0) is empty, and has no max",
        "reduce another axis, or pad this one first",
    ),
    "argmin of nothing": (
        lambda x: x.argmin(),
        (2, 0),
        ShapeError,
        "argmin: axis 1 of %x (2, 0) is empty, and has no argmin",
        "reduce another axis, or pad this one first",
    ),
    "unknown axis": (
        lambda x: x.sum(2),
        (2, 3),
        AxisError,
        "sum: there is no axis 2 in %x (2, 3)",
        "axes go from -2 to 1",
    ),
    "an axis twice": (
        lambda x: x.mean((0, -2)),
        (2, 3),
        AxisError,
        "mean: axis 0 of %x (2, 3) is given twice: (0, -2)",
        "name each axis once",
    ),
    "not an axis": (
        lambda x: x.cumsum("0"),
        (2, 3),
        AxisError,
        "cumsum: '0' is not an axis of %x (2, 3)",
        "an axis is a whole number",
    ),
    "several positions": (
        lambda x: x.argmax((0, 1)),
        (2, 3),
        AxisError,
        "argmax: (0, 1) is not an axis of %x (2, 3)",
        "an axis is a whole number",
    ),
    "no number": (
        lambda x: x.norm("two"),
        (2, 3),
        DTypeError,
        "norm: p is 'two' and not a number",
        "give p as a float",
    ),
    "no matrix": (
        lambda x: x.trace(),
        (2,),
        ShapeError,
        "trace: %x (2,) is not a matrix",
        "take diagonal() over two axes and sum it",
    ),
    "no order": (
        lambda x: x.differences(-1),
        (2,),
        ShapeError,
        "differences: n is -1",
        "give a whole number, and at least 0",
    ),
}


@pytest.mark.parametrize("case", ERRORS)
def test_errors(case):
    call, shape, kind, message, hint = ERRORS[case]
    cx = Graph()
    x = cx.tensor(shape, name="x")
    before = str(cx)
    with pytest.raises(kind) as caught:
        call(x)
    assert caught.value.message == message
    assert caught.value.hint == hint
    assert str(cx) == before


@pytest.mark.parametrize(
    "name", ["sum", "mean", "nansum", "nanmean", "amax", "amin", "var", "std", "count_nonzero"]
)
def test_no_axes_are_all_of_them(torch, name):
    against(torch, lambda x: getattr(x, name)(dim=()), None, draw((2, 3)), rtol=1e-5)
    if name != "count_nonzero":
        against(torch, lambda x: getattr(x, name)(dim=(), keepdim=True), None, draw((2, 3)))


def test_no_axes_where_pytorch_knows_none():
    data = draw((2, 3))
    for name in ("prod", "logsumexp"):  # PyTorch refuses them here
        found = interpret(lambda x, n=name: getattr(x, n)(()), data)
        assert found == interpret(lambda x, n=name: getattr(x, n)(), data)
    assert interpret(lambda x: x.norm(2, ()), data).shape == ()


@pytest.mark.parametrize("name", ["any", "all"])
def test_any_and_all_over_no_axes_are_of_each_element(torch, name):
    data = draw((2, 3)).round()
    against(torch, lambda x: getattr(x, name)(dim=()), None, data)


@pytest.mark.parametrize("name", ["amax", "amin", "argmax", "argmin", "aminmax"])
def test_an_axis_that_turns_out_to_be_empty_has_no_extreme(name):
    cx = Graph()
    x = cx.tensor(("n", 2), name="x").set([[1, 2]])
    found = getattr(x[1:], name)(0)
    for part in found if isinstance(found, tuple) else (found,):
        part.retrieve()
    with pytest.raises(ShapeError) as caught:
        cx.execute()
    assert caught.value.message == "slice: 0:1:1 is not within axis 0 of (0, 2)"
    assert "stop = [max(1, n - 1), 2]" in str(caught.value)
    assert "getattr(x[1:], name)" in str(caught.value)  # the user's line


def test_where_it_cannot_be_empty_nothing_is_checked():
    x = Graph().tensor(("n", 2), name="x")
    assert x.max(0).op_counts() == {"max_reduce": 1, "reshape": 1}


def test_differences_end_where_nothing_is_left(torch):
    ours, theirs = lambda x: x.differences(2**40), lambda x: x.diff(2**40)
    against(torch, ours, theirs, draw((2, 5)))
    error = error_of(lambda: Graph().tensor(("n",)).differences(2**40), ShapeError)
    assert error.message.startswith("differences: it would take 5,497,558,138,880 nodes")


@pytest.mark.parametrize("name", ["cummax", "cummin"])
def test_positions_of_running_extremes(torch, name: str):
    nan = np.array([[3, np.nan, 1, np.nan, 5], [1, 1, 0, 0, 1]], np.float32)
    for x in (np.rint(draw((4, 9), low=0, high=3)), nan, np.zeros((0, 2), np.float32)):
        for axis in (0, -1):
            against(
                torch,
                lambda t, a=axis: getattr(t, name)(a, return_indices=True),
                lambda t, a=axis: tuple(getattr(t, name)(a)),
                x,
            )


def test_sums_of_a_shape(torch):
    for size in ((), (1,), (4,), (3, 1), (1, 3, 4), (2, 3, 4)):
        both = lambda t, s=size: t.sum_to_size(s)  # noqa: E731
        against(torch, both, both, draw((2, 3, 4)), rtol=1e-5, atol=1e-5)
    error = error_of(lambda: Graph().tensor((2, 3), name="x").sum_to_size(2), ShapeError)
    assert error.message == "sum_to_size: %x (2, 3) has no sum of the shape (2,)"


def test_differences_with_ends(torch):
    x, ends = draw((2, 5)), draw((2, 2), seed=1)
    for n in (0, 1, 2):
        against(
            torch,
            lambda t, u, k=n: t.differences(k, -1, u, append=u),
            lambda t, u, k=n: t.diff(k, -1, u, append=u),
            x, ends, atol=1e-5,
        )  # fmt: skip


def test_pytorchs_words_for_the_correction(torch):
    x = draw((3, 4))
    for name in ("var", "std", "var_mean", "std_mean"):
        for given, named in (((False,), {}), ((), {"dim": 0, "unbiased": True}),
                             ((), {"dim": None, "correction": None})):  # fmt: skip
            both = lambda t, n=name, g=given, m=named: getattr(t, n)(*g, **m)  # noqa: E731
            theirs = lambda t, n=name, g=given, m=named: getattr(torch, n)(t, *g, **m)  # noqa: E731
            against(torch, both, theirs, x, rtol=1e-5)

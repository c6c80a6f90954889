"""Convolution, pooling and resizing against PyTorch: values, dtypes, shapes, errors, symbols."""

import itertools
from typing import Any

import numpy as np
import pytest

from luminal_lab.errors import LabError, ShapeError
from luminal_lab.session import Graph
from tests.expect import error_of
from tests.tensor.against import FLOATS, against, draw

CONVS = {
    "plain": {},
    "stride": {"stride": 2},
    "padding": {"padding": 1},
    "dilation": {"dilation": 2, "padding": 2},
    "groups": {"groups": 2},
    "all": {"stride": 2, "padding": 2, "dilation": 2, "groups": 2},
    "same": {"padding": "same"},
    "same, dilated": {"padding": "same", "dilation": 2},
    "valid": {"padding": "valid"},
}
SPACES = {1: (9,), 2: (6, 7), 3: (5, 6, 5)}
KERNELS = {1: (3,), 2: (3, 2), 3: (2, 3, 3)}


def functional(torch, name):
    return getattr(torch.nn.functional, name)


@pytest.mark.filterwarnings("ignore:Using padding='same'")
@pytest.mark.parametrize("options", CONVS)
@pytest.mark.parametrize("count", [1, 2, 3])
def test_convolutions(torch, count, options):
    given = CONVS[options]
    groups = given.get("groups", 1)
    x, name = draw((2, 4, *SPACES[count])), f"conv{count}d"
    w, b = draw((6, 4 // groups, *KERNELS[count]), seed=1), draw((6,), seed=2)
    ours = lambda x, w, b: getattr(x, name)(w, b, **given)  # noqa: E731
    theirs = lambda x, w, b: functional(torch, name)(x, w, b, **given)  # noqa: E731
    against(torch, ours, theirs, x, w, b, rtol=1e-5, atol=1e-5)
    against(torch, ours, theirs, x[0], w, b, rtol=1e-5, atol=1e-5)


def test_convolutions_of_other_shapes(torch):
    for x, w, given in [
        ((2, 3, 8, 5), (4, 3, 3, 2), {"stride": (2, 1), "padding": (1, 0), "dilation": (1, 2)}),
        ((1, 1, 1, 1), (1, 1, 1, 1), {}),
        ((2, 4, 5, 5), (4, 1, 3, 3), {"groups": 4}),
        ((2, 4, 5, 5), (8, 1, 3, 3), {"groups": 4, "padding": 1}),
        ((0, 3, 5, 5), (4, 3, 3, 3), {}),
        ((1, 3, 4, 4), (2, 3, 4, 4), {}),
        ((1, 3, 2, 2), (2, 3, 4, 4), {"padding": 1}),
    ]:
        ours = lambda x, w, o=given: x.conv2d(w, **o)  # noqa: E731
        theirs = lambda x, w, o=given: functional(torch, "conv2d")(x, w, **o)  # noqa: E731
        against(torch, ours, theirs, draw(x), draw(w, seed=1), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", FLOATS)
def test_convolutions_in_every_dtype(torch, dtype):
    arrays = draw((1, 4, 6), dtype), draw((4, 4, 3), dtype, seed=1), draw((4,), dtype, seed=2)
    atol = 1e-2 if "16" in dtype else 1e-6
    ours = lambda x, w, b: x.conv1d(w, b)  # noqa: E731
    against(torch, ours, functional(torch, "conv1d"), *arrays, atol=atol)
    ours = lambda x, w, b: x.conv_transpose1d(w, b, stride=2)  # noqa: E731
    theirs = lambda x, w, b: functional(torch, "conv_transpose1d")(x, w, b, stride=2)  # noqa: E731
    against(torch, ours, theirs, *arrays, atol=atol * 2)


TRANSPOSES = {
    "plain": {},
    "stride": {"stride": 2},
    "wide stride": {"stride": 4},
    "wide stride and padding": {"stride": 4, "padding": 1, "output_padding": 3},
    "padding": {"padding": 1},
    "output padding": {"stride": 3, "output_padding": 2, "padding": 1},
    "output padding in the dilation": {"dilation": 3, "output_padding": 2},
    "dilation": {"dilation": 2, "padding": 2},
    "groups": {"groups": 2, "stride": 2},
    "all": {"stride": 2, "padding": 1, "output_padding": 1, "dilation": 2, "groups": 2},
}


@pytest.mark.parametrize("options", TRANSPOSES)
@pytest.mark.parametrize("count", [1, 2, 3])
def test_transposed_convolutions(torch, count, options):
    given = TRANSPOSES[options]
    x, name = draw((2, 4, *(3, 4, 2)[:count])), f"conv_transpose{count}d"
    w = draw((4, 3, *KERNELS[count]), seed=1)
    b = draw((3 * given.get("groups", 1),), seed=2)
    ours = lambda x, w, b: getattr(x, name)(w, b, **given)  # noqa: E731
    theirs = lambda x, w, b: functional(torch, name)(x, w, b, **given)  # noqa: E731
    against(torch, ours, theirs, x, w, b, rtol=1e-5, atol=1e-5)
    against(torch, ours, theirs, x[0], w, b, rtol=1e-5, atol=1e-5)


def test_windows_that_do_not_overlap_are_not_added_up():
    cx = Graph()
    x, w = cx.tensor((1, 2, "h", "w")), cx.tensor((2, 3, 2, 2))
    assert x.conv_transpose2d(w, stride=2).op_counts()["sum_reduce"] == 1  # over channels
    assert x.conv_transpose2d(w, stride=1).op_counts()["sum_reduce"] == 3


def test_a_transposed_convolution_does_not_spread_infinities(torch):
    x = np.array([[[1, np.inf, 2, np.nan]]], "f4")
    ours = lambda x, w: x.conv_transpose1d(w, stride=3)  # noqa: E731
    theirs = lambda x, w: functional(torch, "conv_transpose1d")(x, w, stride=3)  # noqa: E731
    against(torch, ours, theirs, x, draw((1, 1, 2)))


POOLS = [
    {"kernel_size": 2},
    {"kernel_size": 3, "stride": 1},
    {"kernel_size": 3, "stride": 2, "padding": 1},
    {"kernel_size": 2, "stride": 3},
    {"kernel_size": 2, "ceil_mode": True},
    {"kernel_size": 3, "stride": 2, "padding": 1, "ceil_mode": True},
    {"kernel_size": 3, "stride": 3, "padding": 1, "ceil_mode": True},
    {"kernel_size": 2, "stride": 4, "padding": 1, "ceil_mode": True},
]


@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize("kind", ["max_pool", "avg_pool"])
def test_pools(torch, kind, count):
    name = f"{kind}{count}d"
    more = [{}]
    if kind == "avg_pool":
        more += [{"count_include_pad": False}] + [{"divisor_override": 5}] * (count > 1)
    else:
        more += [{"dilation": 2}]
    for size, given, extra in itertools.product((6, 7), POOLS, more):
        options = given | extra
        if options.get("dilation") and size == 6 and options["kernel_size"] == 3:
            continue
        x = draw((2, 3, *(size, 5, 6)[:count]), low=-5, high=-1)
        if options.get("dilation") and min(x.shape[2:]) + 2 * options.get("padding", 0) < 5:
            continue
        ours = lambda x, o=options: getattr(x, name)(**o)  # noqa: E731
        theirs = lambda x, o=options: functional(torch, name)(x, **o)  # noqa: E731
        against(torch, ours, theirs, x)
        against(torch, ours, theirs, x[0])


def test_pools_of_special_values_and_dtypes(torch):
    x = np.array([[[-np.inf, -np.inf, np.nan, 1, np.inf, -3e38, -0.0, 0.0, -3e38]]], "f4")
    for name in ("max_pool1d", "avg_pool1d"):
        for padding in (0, 1):
            ours = lambda x, n=name, p=padding: getattr(x, n)(2, 1, p)  # noqa: E731
            theirs = lambda x, n=name, p=padding: functional(torch, n)(x, 2, 1, p)  # noqa: E731
            against(torch, ours, theirs, x)
            for dtype in FLOATS:
                against(torch, ours, theirs, draw((1, 2, 6), dtype))
    for dtype in ("int32", "uint8"):
        ours = lambda x: x.max_pool2d(2, 1, 1)  # noqa: E731
        theirs = lambda x: functional(torch, "max_pool2d")(x, 2, 1, 1)  # noqa: E731
        against(torch, ours, theirs, draw((1, 2, 4, 4), dtype, low=0))


def test_pools_of_any_rank():
    x = Graph().tensor((2, 3, 8, 8, 8, 8))
    assert x.max_pool(2).shape == (2, 3, 4, 4, 4, 4)
    assert x.avg_pool((2, 4, 2, 4)).shape == (2, 3, 4, 2, 4, 2)


@pytest.mark.parametrize("p", [1.0, 2.0, 3.0])
def test_lp_pools(torch, p):
    for name, shape in (("lp_pool1d", (2, 3, 7)), ("lp_pool2d", (2, 3, 6, 7))):
        for stride, ceil in ((None, False), (1, False), (2, True)):
            ours = lambda x, n=name, s=stride, c=ceil: getattr(x, n)(p, 3, s, c)  # noqa: E731
            theirs = lambda x, n=name, s=stride, c=ceil: functional(torch, n)(x, p, 3, s, c)  # noqa: E731
            against(torch, ours, theirs, draw(shape, low=0.1), rtol=1e-5)


@pytest.mark.parametrize("kind", ["adaptive_avg_pool", "adaptive_max_pool"])
def test_adaptive_pools(torch, kind):
    cases = [(1, 1), (1, 3), (1, 7), (1, 10), (1, 14)]
    cases += [
        (2, 1),
        (2, (3, 2)),
        (2, (None, 5)),
        (2, (5, 3)),
        (2, (10, 4)),
        (3, (2, 3, 5)),
        (3, 4),
    ]
    for count, size in cases:
        name = f"{kind}{count}d"
        ours = lambda x, n=name, s=size: getattr(x, n)(s)  # noqa: E731
        theirs = lambda x, n=name, s=size: functional(torch, n)(x, s)  # noqa: E731
        x = draw((2, 3, *(7, 6, 5)[:count]))
        against(torch, ours, theirs, x, atol=1e-6)
        against(torch, ours, theirs, x[0], atol=1e-6)
    ours = lambda x: getattr(x, f"{kind}1d")(3)  # noqa: E731
    theirs = lambda x: functional(torch, f"{kind}1d")(x, 3)  # noqa: E731
    against(torch, ours, theirs, np.array([[[np.inf, 1, 2, -np.inf, np.nan, 3, 4]]], "f4"))
    against(torch, ours, theirs, draw((1, 2, 7), "bfloat16"))


RESIZES = [
    {"size": 8},
    {"size": 4},
    {"size": 5},
    {"size": 1},
    {"size": 13},
    {"scale_factor": 2},
    {"scale_factor": 1.5},
    {"scale_factor": 0.5},
    {"scale_factor": 2.3},
]


@pytest.mark.parametrize(
    "mode", ["nearest", "nearest-exact", "linear", "bilinear", "area", "bicubic"]
)
def test_interpolation(torch, mode):
    for given in RESIZES:
        for align in (False, True) if "linear" in mode or mode == "bicubic" else (None,):
            options = given | {"mode": mode, "align_corners": align}
            mine = options | {"align_corners": bool(align)}
            ours = lambda x, o=mine: x.interpolate(**o)  # noqa: E731
            theirs = lambda x, o=options: functional(torch, "interpolate")(x, **o)  # noqa: E731
            shape = (2, 3, 4) if mode == "linear" else (2, 3, 4, 5)
            against(torch, ours, theirs, draw(shape), rtol=1e-4, atol=1e-5)


def test_interpolation_of_special_values_and_other_dtypes(torch):
    nearest = lambda x: x.interpolate(size=5)  # noqa: E731
    theirs = lambda x: functional(torch, "interpolate")(x, size=5)  # noqa: E731
    against(torch, nearest, theirs, np.array([[[np.inf, np.nan, -0.0]]], "f4"))
    against(torch, nearest, theirs, draw((1, 2, 3), "bfloat16"))
    half = lambda x: x.interpolate(scale_factor=2, mode="linear")  # noqa: E731
    theirs = lambda x: functional(torch, "interpolate")(x, scale_factor=2, mode="linear")  # noqa: E731
    against(torch, half, theirs, draw((1, 2, 3), "float16"), atol=1e-3)
    against(torch, half, theirs, draw((1, 2, 3), "float64"))


FOLDS = [
    {"kernel_size": 2},
    {"kernel_size": (2, 3), "stride": 2},
    {"kernel_size": 3, "padding": 1},
    {"kernel_size": 2, "dilation": 2, "padding": 1, "stride": 2},
    {"kernel_size": 2, "stride": 3},
]


@pytest.mark.parametrize("options", FOLDS, ids=str)
def test_unfold_and_fold(torch, options):
    x = draw((2, 3, 6, 7))
    unfold = lambda x: functional(torch, "unfold")(x, **options)  # noqa: E731
    against(torch, lambda x: x.unfold2d(**options), unfold, x)
    against(torch, lambda x: x.unfold2d(**options), unfold, x[0])
    columns = unfold(torch.tensor(x)).numpy()
    theirs = lambda c: functional(torch, "fold")(c, (6, 7), **options)  # noqa: E731
    against(torch, lambda c: c.fold((6, 7), **options), theirs, columns)
    against(torch, lambda c: c.fold((6, 7), **options), theirs, columns[0])
    against(torch, lambda c: c.fold((6, 7), **options), theirs, columns[:0])


# -- what they are made of and of what size --------------------------------------------------------


def run(cx, *tensors):
    for tensor in tensors:
        tensor.retrieve()
    cx.execute()
    return [tensor.numpy() for tensor in tensors]


def test_symbolic_sizes(torch):
    cx = Graph()
    batch, h = cx.dim("batch"), cx.dim("h", 4, 64)
    x = cx.tensor((batch, 2, h, 7))
    w, v = cx.tensor((4, 2, 3, 3)), cx.tensor((2, 4, 3, 3))
    outs = [
        x.conv2d(w, stride=2, padding=1),
        x.conv2d(w, padding="same"),
        x.conv_transpose2d(v, stride=2, padding=1, output_padding=1),
        x.max_pool2d(3, 2, 1),
        x.avg_pool2d(3, 2, 1, ceil_mode=True, count_include_pad=False),
        x.adaptive_avg_pool2d((3, None)),
        x.adaptive_max_pool2d(1),
        x.interpolate(scale_factor=2),
        x.unfold2d(2),
    ]
    assert str(outs[1].shape) == "(batch, 4, h, 7)"
    assert str(outs[7].shape) == "(batch, 2, 2*h, 14)"
    data, weight, other = draw((2, 2, 9, 7)), draw((4, 2, 3, 3), seed=1), draw((2, 4, 3, 3), seed=2)
    x.set(data)
    w.set(weight)
    v.set(other)
    found = run(cx, *outs)
    y, f = torch.tensor(data), torch.nn.functional
    wanted = [
        f.conv2d(y, torch.tensor(weight), stride=2, padding=1),
        f.conv2d(y, torch.tensor(weight), padding="same"),
        f.conv_transpose2d(y, torch.tensor(other), stride=2, padding=1, output_padding=1),
        f.max_pool2d(y, 3, 2, 1),
        f.avg_pool2d(y, 3, 2, 1, ceil_mode=True, count_include_pad=False),
        f.adaptive_avg_pool2d(y, (3, None)),
        f.adaptive_max_pool2d(y, 1),
        f.interpolate(y, scale_factor=2),
        f.unfold(y, 2),
    ]
    for ours, theirs in zip(found, wanted, strict=True):
        np.testing.assert_allclose(ours, theirs.numpy(), rtol=1e-5, atol=1e-5)


def test_a_convolution_copies_no_patches():
    cx = Graph()
    counts = cx.tensor((1, 3, 32, 32)).conv2d(cx.tensor((8, 3, 3, 3)), padding=1).op_counts()
    assert set(counts) == {"pad", "window", "permute", "reshape", "expand", "mul", "sum_reduce"}
    assert counts["sum_reduce"] == 3
    assert counts["mul"] == 1


def conv(x, w, **options):
    return lambda cx: cx.tensor(x, name="x").conv2d(cx.tensor(w, name="w"), **options)


def on(shape, call):
    return lambda cx: call(cx.tensor(shape, name="x"))


ERRORS = {
    "channels": (
        conv((1, 4, 5, 5), (8, 3, 3, 3)),
        "conv2d: %x (1, 4, 5, 5) has 4 channels, but with groups=1 the weight %w (8, 3, 3, 3) is "
        "for 3",
        "check the order of the axes: x is [batch, channels, *spatial]",
    ),
    "groups": (
        conv((1, 4, 5, 5), (7, 2, 3, 3), groups=2),
        "conv2d: 2 groups do not divide 7 channels evenly: the weight is %w (7, 2, 3, 3)",
        "use a number of groups that divides the channels on both sides",
    ),
    "kernel": (
        conv((1, 4, 5, 5), (7, 4, 3, 8), padding=1),
        "conv2d: the kernel spans 8 on axis 3, but padded %x (1, 4, 5, 5) has 7",
        "use a smaller kernel or dilation, or more padding",
    ),
    "stride": (
        conv((1, 4, 5, 5), (7, 4, 3, 3), stride=0),
        "conv2d: the stride is 0",
        "give a whole number, and at least 1",
    ),
    "strides": (
        conv((1, 4, 5, 5), (7, 4, 3, 3), stride=(1, 2, 3)),
        "conv2d: the stride is (1, 2, 3), but there are 2 spatial axes",
        "give one number, or one for each of them",
    ),
    "same": (
        conv((1, 4, 5, 5), (7, 4, 3, 3), padding="same", stride=2),
        "conv2d: the padding is 'same' and the stride (2, 2)",
        "'same' needs a stride of 1; give the padding in numbers",
    ),
    "padding": (
        conv((1, 4, 5, 5), (7, 4, 3, 3), padding="some"),
        "conv2d: there is no padding 'some'",
        "did you mean 'same'?",
    ),
    "weight": (
        conv((1, 4, 5, 5), (7, 4, 3)),
        "conv2d: needs 4 axes, but %w (7, 4, 3) has 3",
        "reshape or unsqueeze it first",
    ),
    "rank": (
        conv((4, 5), (7, 4, 3, 3)),
        "conv2d: needs 3 or 4 axes, but %x (4, 5) has 2",
        "reshape or unsqueeze it first",
    ),
    "no space": (
        on((4, 5), lambda x: x.max_pool(2)),
        "max_pool: %x (4, 5) has no spatial axes",
        "they follow batch and channels",
    ),
    "bias": (
        lambda cx: cx.tensor((1, 2, 5)).conv1d(cx.tensor((3, 2, 2)), cx.tensor((2,), name="b")),
        "conv1d: bias is %b (2,), but there are (3,) values to give one each: axes (1,) of "
        "%12 (1, 3, 4)",
        "give bias the shape (3,)",
    ),
    "output padding": (
        lambda cx: cx.tensor((1, 2, 5)).conv_transpose1d(cx.tensor((2, 2, 2)), output_padding=1),
        "conv_transpose1d: the output_padding (1,) is not smaller than the stride (1,) or the "
        "dilation (1,)",
        "use a smaller output_padding, or none",
    ),
    "too much padding": (
        lambda cx: cx.tensor((1, 2, 2), name="x").conv_transpose1d(cx.tensor((2, 2, 2)), padding=2),
        "conv_transpose1d: with the padding (2,) the output of %x (1, 2, 2) would be (-1,)",
        "use less padding",
    ),
    "pool padding": (
        on((1, 2, 6), lambda x: x.max_pool1d(2, padding=2)),
        "max_pool1d: the padding 2 is more than half of what the kernel spans, 2",
        "use less padding, or pad() before",
    ),
    "pool kernel": (
        on((1, 2, 6), lambda x: x.avg_pool1d(7)),
        "avg_pool1d: the kernel spans 7 on axis 2, but padded %x (1, 2, 6) has 6",
        "use a smaller kernel or dilation, or more padding",
    ),
    "adaptive": (
        on((1, 2, 6), lambda x: x.adaptive_avg_pool1d((2, 3))),
        "adaptive_avg_pool1d: the output_size is [2, 3], but there are 1 spatial axes",
        "give one number, or one for each of them",
    ),
    "adaptive of nothing": (
        on((1, 2, 0), lambda x: x.adaptive_avg_pool1d(2)),
        "adaptive_avg_pool1d: axis 2 of %x (1, 2, 0) is empty",
        "there is nothing to pool",
    ),
    "mode": (
        on((1, 2, 6), lambda x: x.interpolate(3, mode="linar")),
        "interpolate: there is no mode 'linar'",
        "did you mean 'linear'?",
    ),
    "size and factor": (
        on((1, 2, 6), lambda x: x.interpolate(3, 2)),
        "interpolate: size is 3, scale_factor 2, and %x (1, 2, 6) has 1 spatial axes",
        "give one of the two, as one number or as one for each spatial axis",
    ),
    "symbolic": (
        on((1, 2, "n"), lambda x: x.interpolate(scale_factor=1.5)),
        "interpolate: axis 2 of %x (1, 2, n) cannot become 1.5 by 'nearest'",
        "a symbolic size can be resized by 'nearest' and a whole factor",
    ),
    "fold": (
        on((2, 12, 8), lambda x: x.fold((4, 4), 2)),
        "fold: %x (2, 12, 8) does not hold columns of (2, 2) kernels from (3, 3) places",
        "it is [batch, channels * kernel, places], as unfold2d makes it",
    ),
}


@pytest.mark.parametrize("case", ERRORS)
def test_errors(case):
    call, message, hint = ERRORS[case]
    with pytest.raises(LabError) as caught:
        call(Graph())
    assert caught.value.message == message
    assert caught.value.hint == hint
    assert caught.value.where is not None


@pytest.mark.parametrize("options", [{}, {"stride": 1}, {"padding": 1, "ceil_mode": True},
                                     {"dilation": 2, "stride": 1}], ids=str)  # fmt: skip
def test_places_of_the_largest(torch, options: dict[str, Any]):
    nan = draw((1, 2, 6, 7))
    nan[0, 0, 2, 3] = nan[0, 0, 2, 4] = np.nan
    for x in (np.rint(draw((2, 3, 6, 7), low=0, high=3)), nan, draw((2, 5, 6))):
        against(
            torch,
            lambda t: t.max_pool2d(3, return_indices=True, **options),
            lambda t: torch.nn.functional.max_pool2d(t, 3, return_indices=True, **options),
            x,
        )


def test_places_of_adaptive_windows(torch):
    for x, size in ((draw((2, 3, 7)), 3), (np.rint(draw((2, 7, 5), low=0, high=3)), (3, 2))):
        name = f"adaptive_max_pool{1 if size == 3 else 2}d"
        theirs = getattr(torch.nn.functional, name)
        against(
            torch,
            lambda t, n=name, s=size: getattr(t, n)(s, return_indices=True),
            lambda t, f=theirs, s=size: f(t, s, True),
            x,
        )


def test_values_back_in_their_places(torch):
    pool, back = torch.nn.functional.max_pool2d, torch.nn.functional.max_unpool2d
    for x, given in ((draw((2, 3, 6, 8)), {}), (draw((3, 6, 8)), {"output_size": (7, 9)})):
        against(
            torch,
            lambda t, g=given: t.max_pool2d(2, return_indices=True)[0].max_unpool2d(
                t.max_pool2d(2, return_indices=True)[1], 2, **g
            ),
            lambda t, g=given: back(*pool(t, 2, return_indices=True), 2, **g),
            x,
        )
    cx = Graph()
    x = cx.tensor((1, 1, 4), name="x")
    error = error_of(lambda: x.max_unpool(x, 2), ShapeError)
    assert "are not a place for each value" in error.message

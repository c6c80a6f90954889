"""Values and gradients at zeros, ties, infinities, NaN and the ends of ranges, as PyTorch has them.

Each operation is put to PyTorch in float32 and float64. What is finite is near to what PyTorch
computes in that dtype, or in float64; what is not is the same infinity, or NaN. EXCUSED says where
something else is right, and why; an excuse that no value needs fails too.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import luminal_lab as ll

Function = Callable[..., Any]
Pair = tuple[Function, Function]
"""An operation, and PyTorch's, which is given torch first."""
DTYPES = ("float32", "float64")
INF, NAN = float("inf"), float("nan")
NEAR = {"float32": 1e-5, "float64": 1e-10}
SHORT = ("hardsigmoid", "celu {'alpha': 0.7}")
"""What PyTorch computes with constants of float32, in float64 too."""


def method(name: str, *args: Any, **settings: Any) -> Pair:
    """Return a method of tensors, and PyTorch's function of that name."""

    def theirs(torch: Any, *tensors: Any) -> Any:
        functional = torch.nn.functional
        places = (functional, torch) if hasattr(functional, name) else (torch, torch.Tensor)
        function = next(getattr(place, name) for place in places if hasattr(place, name))
        return function(*tensors, *args, **settings)

    return lambda x, *others: getattr(x, name)(*others, *args, **settings), theirs


def both(function: Function) -> Pair:
    """Return what is spelled alike."""
    return function, lambda _, *tensors: function(*tensors)


PLAIN = """exp exp2 log log2 log10 log1p expm1 sigmoid logit sqrt rsqrt square sin cos tan asin acos
    atan sinh cosh tanh asinh acosh atanh sinc deg2rad rad2deg floor ceil trunc frac round
    nan_to_num relu erf erfc abs neg reciprocal sign hardtanh relu6 leaky_relu hardsigmoid
    hardswish hardshrink softshrink silu mish softplus logsigmoid elu celu selu gelu softsign
    tanhshrink"""
SETTINGS: list[tuple[str, dict[str, Any]]] = [
    ("logit", {"eps": 0.1}),
    ("round", {"decimals": 1}),
    ("round", {"decimals": -1}),
    ("threshold", {"threshold": 0.5, "value": 7.0}),
    ("softplus", {"beta": 2.0, "threshold": 3.0}),
    ("elu", {"alpha": 0.7}),
    ("elu", {"alpha": -1.0}),
    ("celu", {"alpha": 0.7}),
    ("gelu", {"approximate": "tanh"}),
    ("leaky_relu", {"negative_slope": 0.3}),
    ("hardshrink", {"lambd": 1.0}),
    ("softshrink", {"lambd": 1.0}),
    ("nan_to_num", {"nan": 1.0, "posinf": 2.0, "neginf": -3.0}),
    ("hardtanh", {"min_val": -0.5, "max_val": 2.0}),
    ("clip", {"min": -1.0, "max": 1.0}),
    ("clip", {"min": 0.5}),
    ("clip", {"max": -0.5}),
    ("clip", {"min": 1.0, "max": -1.0}),
    ("clip", {"min": NAN}),
    ("clip", {"min": -INF, "max": INF}),
    ("clip", {"min": INF, "max": -INF}),
    ("clip", {"min": -INF}),
    ("clip", {"max": INF}),
    ("clip", {"min": INF}),
    ("clip", {"max": -INF}),
]
POWERS = [
    0,
    1,
    2,
    3,
    -1,
    -2,
    0.5,
    -0.5,
    0.3,
    -0.3,
    1.5,
    3.3,
    -3.3,
    2.0,
    70.0,
    -71.0,
    INF,
    -INF,
    NAN,
]
BASES = [0.0, -0.0, 1.0, 2.0, -2.0, 0.5, -1.0, INF, NAN]
ONE: dict[str, Pair] = {name: method(name) for name in PLAIN.split()}
ONE |= {f"{name} {settings}": method(name, **settings) for name, settings in SETTINGS}
ONE |= {f"x**{p}": both(lambda x, p=p: x**p) for p in POWERS}
ONE |= {f"{b}**x": both(lambda x, b=b: b**x) for b in BASES}
ONE |= {"3 / x": both(lambda x: 3 / x), "x / 3": both(lambda x: x / 3)}
NAMES = """pow atan2 logaddexp xlogy copysign maximum minimum add sub mul div remainder fmod
    clamp_min clamp_max"""
TWO: dict[str, Pair] = {name: method(name) for name in NAMES.split()}
TWO |= {
    "lerp": method("lerp", 0.3),
    "lerp from the end": method("lerp", 0.7),
    "clip": both(lambda x, y: x.clip(y, y)),
    "clip between": both(lambda x, y: x.clip(y, -y)),
    "where": (lambda x, y: (x > y).where(x, y), lambda t, x, y: t.where(x > y, x, y)),
    "addcdiv": (
        lambda x, y: x.addcdiv(x, y, value=2.0),
        lambda t, x, y: t.addcdiv(x, x, y, value=2.0),
    ),
    "addcmul": (
        lambda x, y: x.addcmul(x, y, value=2.0),
        lambda t, x, y: t.addcmul(x, x, y, value=2.0),
    ),
    "mul with itself": both(lambda x, y: x * x * y),
    "prelu": (
        lambda x, y: x.unsqueeze(0).prelu(y),
        lambda t, x, y: t.nn.functional.prelu(x.unsqueeze(0), y),
    ),
}


def weighed(function: Function, weights: Any = (2.0, -1.0, 0.5)) -> Pair:
    """Return what makes as many values as there are, of which each counts otherwise."""

    def ours(x: Any) -> Any:
        return function(x) * np.array(weights, str(x.dtype))

    def theirs(torch: Any, x: Any) -> Any:
        return function(x) * torch.tensor(weights, dtype=x.dtype)

    return ours, theirs


ROWS: dict[str, Pair] = {
    name: both(lambda x, n=name: getattr(x, n)(-1))
    for name in "sum mean prod amax amin nansum nanmean logsumexp cumsum cumprod".split()  # noqa: SIM905
}
ROWS |= {
    f"{name} {less}": both(lambda x, n=name, c=less: getattr(x, n)(-1, correction=c))
    for name in ("var", "std")
    for less in (0, 1, 2)
}
ROWS |= {
    f"norm {p}": both(lambda x, p=p: x.norm(p, -1))
    for p in (0.5, -1, -0.5, -2, 1, 1.5, 2, 3, INF, -INF)
}
ROWS |= {
    "cummax": (lambda x: x.cummax(-1), lambda _, x: x.cummax(-1)[0]),
    "cummin": (lambda x: x.cummin(-1), lambda _, x: x.cummin(-1)[0]),
    "softmax": weighed(lambda x: x.softmax(-1)),
    "log_softmax": weighed(lambda x: x.log_softmax(-1)),
    "logcumsumexp": both(lambda x: x.logcumsumexp(-1)),
    "sort": both(lambda x: x.sort(-1)[0]),
    "median": both(lambda x: x.median(-1)[0]),
    "kthvalue": both(lambda x: x.kthvalue(2)[0]),
    "topk": both(lambda x: x.topk(2)[0]),
    "glu": (lambda x: x[:, :2].glu(-1), lambda t, x: t.nn.functional.glu(x[:, :2], -1)),
    "normalize": (lambda x: x.normalize(axis=-1), lambda t, x: t.nn.functional.normalize(x)),
    "layer_norm": (lambda x: x.layer_norm(-1), lambda t, x: t.nn.functional.layer_norm(x, (3,))),
    "rms_norm": (lambda x: x.rms_norm(-1), lambda t, x: t.nn.functional.rms_norm(x, (3,))),
    "dot": both(lambda x: (x.unsqueeze(1) @ x.unsqueeze(2)).squeeze(2)),
    "differences": (lambda x: x.differences(), lambda _, x: x.diff()),
    "trapezoid": (lambda x: x.trapezoid(), lambda t, x: t.trapezoid(x)),
}
CASES = ONE | TWO | ROWS


# -- where something else is right -----------------------------------------------------------------

Excuse = tuple[Function, str]
"""Where values are excused, by the arguments, and why."""


def finite(*arrays: Any) -> Any:
    return np.logical_and.reduce([np.isfinite(array) for array in arrays])


def subnormal(x: Any) -> Any:
    return (np.abs(x) < np.finfo(x.dtype).tiny) & (x != 0)


def beyond(*arrays: Any, least: float = 1e-15, most: float = 1e15) -> Any:
    """Return where a square of something, or a product, leaves the range of float32."""
    sizes = [np.abs(array) for array in arrays]
    return np.logical_or.reduce([(s != 0) & ~((s > least) & (s < most)) for s in sizes])


def large(x: Any) -> Any:
    return np.abs(x) > 1e9


def ties(x: Any) -> Any:
    ordered = np.sort(x, -1)
    return (ordered[:, 1:] == ordered[:, :-1]).any(-1) | np.isnan(x).any(-1)


def equal(x: Any) -> Any:
    return (x == x[:, :1]).all(-1)


def some(where: Function) -> Function:
    """Return where a row has such a value."""
    return lambda x: where(x).any(-1)


QUOTIENT = "x / y is x times 1 / y, which overflows for a subnormal y"
SQUARES = "its squares leave the range, or sums of them do; PyTorch sums float32 in float64"
MEAN = "the mean of equal numbers is rounded; PyTorch sums float32 in float64"
EXCUSED: dict[str, list[Excuse]] = {
    "tanh": [(lambda x: np.abs(x) > 15, "1 - tanh² has no digits left, in float64 either")],
    "sinc": [(lambda x: np.abs(x) > 1e15, "the sine of a rounded multiple of π is anything")],
    "hardswish": [(lambda x: x > 1e37, "PyTorch multiplies by 6 before it divides by 6")],
    "pow": [
        (
            lambda x, y: (np.abs(x) > 1e37) & (y == 1),
            "it is a power of 2, whose exponent is rounded",
        )
    ],
    "atan2": [(lambda x, y: beyond(x, y), "PyTorch squares, which over- and underflows")],
    "xlogy": [(lambda _, y: subnormal(y), QUOTIENT)],
    "div": [(lambda _, y: subnormal(y), QUOTIENT)],
    "remainder": [
        (lambda _, y: subnormal(y), QUOTIENT),
        (lambda x, y: np.abs(x / y) > 1e6, "PyTorch's quotient is rounded; ours is exact"),
    ],
    "fmod": [
        (lambda _, y: subnormal(y), QUOTIENT),
        (
            lambda x, y: (np.abs(x / y) > 1e6) | (np.abs(x / y - np.rint(x / y)) < 1e-6),
            "PyTorch's quotient is rounded; ours is exact",
        ),
    ],
    "addcdiv": [(lambda x, y: beyond(x, y), "PyTorch multiplies by the value before it divides")],
    "addcmul": [(lambda x, y: beyond(x, y), "PyTorch multiplies by the value first")],
    "nanmean": [(lambda x: np.isnan(x).all(-1), "a branch not taken counts for nothing")],
    "cumsum": [(some(beyond), "sums are taken in another order")],
    "cumprod": [
        (some(lambda x: ~finite(x) | beyond(x)), "products are taken in another order"),
    ],
    "logcumsumexp": [(some(large), "PyTorch adds gradients up in logarithms, and loses some")],
    "median": [(ties, "of equals another one has the gradient")],
    "kthvalue": [(ties, "of equals another one has the gradient")],
    "layer_norm": [(some(beyond), SQUARES), (equal, MEAN)],
    "rms_norm": [(some(beyond), SQUARES)],
    "normalize": [(some(beyond), SQUARES)],
    "trapezoid": [(some(beyond), "PyTorch weighs each value by halves of 0 and 1")],
    "norm -0.5": [(some(np.isinf), "it is a power of 2, whose exponent is rounded")],
}
for _name in ("var", "std"):
    EXCUSED |= {f"{_name} {less}": [(some(beyond), SQUARES), (equal, MEAN)] for less in (0, 1, 2)}


# -- the judge -------------------------------------------------------------------------------------


def numbers(dtype: str) -> np.ndarray:
    """Return what is special to some operation, and a few ordinary numbers, of both signs.

    NaN is the last: the gradient that PyTorch has there of hardtanh and its like is 1 in the last
    few elements, as in short tensors, and 0 in those that it computes as vectors.
    """
    info = np.finfo(dtype)
    ends = [info.max, info.max / 4, info.tiny, info.tiny * 4, info.smallest_subnormal]
    roots = [info.eps, float(info.max) ** 0.5 * 2, float(info.tiny) ** 0.5 / 8]
    kinks = [0, 1, 0.5, 1.5, 2.5, 2, 3, 6, 20, 88, 1 - info.eps, 1 + info.eps]
    others = [0.1, 0.3, 0.7, 0.9, 1e4, 1e10, INF]
    sizes = np.array([*ends, *roots, *kinks, *others], dtype)
    return np.concatenate([sizes, -sizes, np.array([NAN], dtype)])


def arguments(name: str, dtype: str) -> list[np.ndarray]:
    if name in ONE:
        return [numbers(dtype)]
    if name in TWO:
        a, b = np.meshgrid(numbers(dtype), numbers(dtype))
        # For a weight of each channel, as prelu has.
        return [a.ravel(), b.ravel()]
    info = np.finfo(dtype)
    few = [0, -0.0, 1, -1, 2.5, INF, -INF, NAN, info.max, -info.max, info.tiny]
    few += [info.smallest_subnormal, 1e10, 88.0]
    return [np.array(list(itertools.product(few, repeat=3)), dtype)]


def ours_at(function: Function, arrays: list[np.ndarray], passes: Any = ()) -> list[np.ndarray]:
    """Return the value of a function, and its gradients."""
    cx = ll.Graph()
    tensors = [cx.tensor(array.shape, array.dtype).set(array) for array in arrays]
    result = function(*tensors).retrieve()
    slopes = ll.grad(result.sum(), tensors)
    cx.retrieve(slopes)
    if passes:
        cx.compile(*passes)
    cx.execute()
    return [result.numpy(), *[slope.numpy() for slope in slopes]]


def theirs_at(torch: Any, function: Function, arrays: list[np.ndarray]) -> list[np.ndarray]:
    tensors = [torch.tensor(array, requires_grad=True) for array in arrays]
    result = function(torch, *tensors)
    result.sum().backward()
    slopes = [x.grad if x.grad is not None else torch.zeros_like(x) for x in tensors]
    return [result.detach().numpy(), *[slope.numpy() for slope in slopes]]


def wrong(found: np.ndarray, wanted: np.ndarray, dtype: str, rtol: float) -> np.ndarray:
    """Return where what was found is not near to what is wanted."""
    info = np.finfo(dtype)
    with np.errstate(all="ignore"):
        wanted = wanted.astype(dtype)
        size = np.maximum(np.abs(found), np.abs(wanted))
        near = np.abs(found - wanted) <= rtol * size + 4 * info.tiny
        if dtype == "float64" or found.ndim > 1:  # no witness computes wider; or it is a sum
            near |= np.abs(found - wanted) <= 8 * info.eps * np.maximum(size, 1)
    near &= np.isfinite(size)  # nothing is near to an infinity
    return ~(near | (found == wanted) | (np.isnan(found) & np.isnan(wanted)))


CANCELS = ("tanhshrink",)
"""What is left of its argument: units in that one's last place, and NumPy's tanh errs by two."""


def judged(torch: Any, name: str, dtype: str) -> tuple[list[str], bool]:
    """Return what is wrong and not excused, and whether something needed the excuse."""
    ours, theirs = CASES[name]
    arrays = arguments(name, dtype)
    found, alike = ours_at(ours, arrays), theirs_at(torch, theirs, arrays)
    wide = theirs_at(torch, theirs, [array.astype("float64") for array in arrays])
    allowed = np.zeros(len(arrays[0]), bool)
    with np.errstate(all="ignore"):
        for where, _ in EXCUSED.get(name, []):
            allowed |= where(*arrays)
    told, needed = [], False
    rtol = NEAR["float32" if name in SHORT else dtype]
    for k, (one, *witnesses) in enumerate(zip(found, alike, wide, strict=True)):
        assert one.shape == witnesses[0].shape
        bad = np.logical_and.reduce([wrong(one, other, dtype, rtol) for other in witnesses])
        if name in CANCELS and k == 0:
            with np.errstate(all="ignore"):
                bad &= ~(np.abs(one - witnesses[1]) <= 4 * np.finfo(dtype).eps * np.abs(arrays[0]))
        bad, at = bad.reshape(-1, bad.shape[-1]) if name == "prelu" else bad, arrays
        rows = bad.any(0) if name == "prelu" else bad.any(tuple(range(1, bad.ndim)))
        needed |= bool((rows & allowed).any())
        for row in np.flatnonzero(rows & ~allowed)[:5]:
            what = "value" if k == 0 else f"gradient {k - 1}"
            given = ", ".join(str(array[row]) for array in at)
            pick = (..., row) if name == "prelu" else row
            told.append(f"{what} at {given}: {one[pick]}, and PyTorch has {witnesses[0][pick]}")
    return told, needed


@pytest.mark.parametrize("name", CASES)
def test_values_and_gradients_are_those_of_pytorch(torch, name):
    needs = []
    for dtype in DTYPES:
        told, needed = judged(torch, name, dtype)
        assert not told, "\n".join([f"{name} in {dtype}:", *told])
        needs.append(needed)
    assert any(needs) or name not in EXCUSED, "no value needs the excuse"


WHOLE: dict[str, Pair] = {
    name: both(lambda x, n=name: getattr(x, n)())
    for name in ("max", "min", "amax", "amin", "median")
}
WHOLE |= {
    f"{name} of two axes": both(lambda x, n=name: getattr(x, n)((0, 1)))
    for name in ("amax", "amin")
}


@pytest.mark.parametrize("dtype", ["float16", *DTYPES])
@pytest.mark.parametrize("name", WHOLE)
def test_equals_of_several_axes_share_the_gradient(torch, name, dtype):
    ours, theirs = WHOLE[name]
    rows = [[3, 3, 3, 1], [-1, 0, -0.0, 0], [INF, -INF, INF, -INF], [NAN, 1, NAN, INF], [NAN] * 4]
    for row in rows:
        x = np.array(row, dtype).reshape(2, 2)
        found, wanted = ours_at(ours, [x]), theirs_at(torch, theirs, [x])
        for one, other in zip(found, wanted, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-3, err_msg=str(row))


CONTRACTED = ("addcdiv", "addcmul")
"""What a fused product has a value of, where the product alone would overflow."""


@pytest.mark.share("name", list(CASES), 12)
def test_kernels_of_the_cpu_have_the_same_values_and_gradients(name):
    arrays = arguments(name, "float32")
    if name in ROWS or name in CONTRACTED:  # sums are taken in another order
        outside = some(beyond)(*arrays) if name in ROWS else beyond(*arrays)
        arrays = [array[~outside] for array in arrays]
    ours, _ = CASES[name]
    wanted = ours_at(ours, arrays)
    found = ours_at(ours, arrays, (ll.GenericCompiler(), ll.CPUCompiler()))
    for k, (one, other) in enumerate(zip(found, wanted, strict=True)):
        with np.errstate(invalid="ignore"):
            bad = wrong(one, other, "float32", 1e-4) & ~(np.abs(one - other) < 1e-6)
        places = [tuple(place) for place in np.argwhere(bad)[:5]]
        told = [(place, one[place], other[place]) for place in places]
        assert not told, ("value" if k == 0 else f"gradient {k - 1}", told)


# -- gradients of gradients ------------------------------------------------------------------------

ONLY_ONCE = ("hardsigmoid", "0.0**x", "-0.0**x")
"""What PyTorch cannot derive twice, or not without 0 times the infinity that it does not choose."""


def twice(function: Function, grad: Function, tensors: list[Any]) -> list[Any]:
    """Return the gradients of a sum of gradients, each of which counts otherwise."""
    slopes = grad(function(*tensors).sum(), tensors)
    total = sum((slope * slope).sum() * (k + 1) for k, slope in enumerate(slopes))
    return grad(total, tensors)


def ours_twice(function: Function, arrays: list[np.ndarray]) -> list[np.ndarray]:
    cx = ll.Graph()
    tensors = [cx.tensor(array.shape, array.dtype).set(array) for array in arrays]
    found = twice(function, ll.grad, tensors)
    cx.retrieve(found)
    cx.execute()
    return [slope.numpy() for slope in found]


def theirs_twice(torch: Any, function: Function, arrays: list[np.ndarray]) -> list[np.ndarray]:
    tensors = [torch.tensor(array, requires_grad=True) for array in arrays]

    def grad(loss: Any, by: list[Any]) -> list[Any]:
        if not loss.requires_grad:
            return [torch.zeros_like(x) for x in by]
        found = torch.autograd.grad(loss, by, create_graph=True, allow_unused=True)
        return [torch.zeros_like(x) if g is None else g for x, g in zip(by, found, strict=True)]

    found = twice(lambda *given: function(torch, *given), grad, tensors)
    return [slope.numpy(force=True) for slope in found]


@pytest.mark.share("name", [name for name in CASES if name not in ONLY_ONCE], 40)
def test_gradients_of_gradients_are_those_of_pytorch(torch, name):
    ours, theirs = CASES[name]
    values = np.array([0.21, 0.83, 0.47, -0.35, -0.72, 1.3, 2.7, -1.6, -2.9, 5.1, -7.3])
    if name in ONE:
        arrays = [values]
    elif name in TWO:
        arrays = [array.ravel() for array in np.meshgrid(values, values)]
    else:
        arrays = [values[:9].reshape(3, 3)]
    found, wanted = ours_twice(ours, arrays), theirs_twice(torch, theirs, arrays)
    for one, other in zip(found, wanted, strict=True):
        rtol = 1e-6 if name in SHORT else 1e-8
        np.testing.assert_allclose(one, other, rtol=rtol, atol=1e-9, equal_nan=True)

"""Functions of one value: against PyTorch, against float64 for accuracy, and their derivatives."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from luminal_lab.errors import DTypeError, LabError, RangeError, ShapeError
from luminal_lab.passes.gradients import grad
from luminal_lab.session import Graph
from tests.tensor.against import (
    FLOATS,
    INTS,
    against,
    draw,
    dtype_of,
    gradient,
    interpret,
    same,
    special,
)

# Ours, and where PyTorch spells it otherwise than as a function of the same name, its spelling.
NAMES = """exp log log10 log1p expm1 sigmoid logit sqrt rsqrt square sin cos tan asin acos atan
    sinh cosh tanh asinh acosh atanh sinc deg2rad rad2deg floor ceil trunc frac round signbit
    nan_to_num relu erf erfc""".split()  # noqa: SIM905
ACTIVATIONS = """hardtanh relu6 leaky_relu hardsigmoid hardswish hardshrink softshrink silu mish
    softplus logsigmoid elu celu selu gelu softsign tanhshrink""".split()  # noqa: SIM905
SETTINGS: list[tuple[str, dict]] = [
    ("logit", {"eps": 0.1}),
    ("round", {"decimals": 1}),
    ("round", {"decimals": -1}),
    ("nan_to_num", {"nan": 1.0, "posinf": 2.0, "neginf": -3.0}),
    ("hardtanh", {"min_val": -0.5, "max_val": 2.0}),
    ("leaky_relu", {"negative_slope": 0.3}),
    ("hardshrink", {"lambd": 1.0}),
    ("softshrink", {"lambd": 1.0}),
    ("threshold", {"threshold": 0.5, "value": 7.0}),
    ("softplus", {"beta": 2.0, "threshold": 3.0}),
    ("elu", {"alpha": 0.7}),
    ("celu", {"alpha": 0.7}),
    ("gelu", {"approximate": "tanh"}),
]


def theirs(torch, name: str) -> Callable:
    functional = torch.nn.functional
    known = getattr(functional, name, None) if name in ACTIVATIONS else None
    return known or getattr(torch, name, None) or getattr(functional, name)


def call(name: str, **settings) -> Callable:
    return lambda x: getattr(x, name)(**settings)


CASES = [(name, {}) for name in NAMES + ACTIVATIONS] + SETTINGS


@pytest.mark.share(90)
@pytest.mark.parametrize(("name", "settings"), CASES, ids=lambda v: str(v))
@pytest.mark.parametrize("dtype", FLOATS)
def test_special_and_ordinary_values(torch, name, settings, dtype):
    x = np.concatenate([special(dtype), draw((40,), dtype), draw((20,), dtype, low=0, high=1)])
    size = np.abs(x.astype(np.float64))
    if name == "hardswish":  # torch multiplies by 6 before it divides by 6
        x = x[~(size < np.inf) | (size < (1e4 if dtype == "float16" else 5e37))]
    if name == "sinc":  # of a rounded multiple of π
        x = x[~(size < np.inf) | (size < 1e30)]
    if name == "signbit":  # NaN has a sign, but not everywhere the same
        x = x[~np.isnan(size)]
    # Some of PyTorch's own forms lose digits: where 1 - erf(x) cancels, or x - tanh(x).
    loose = {"gelu": 1e-6, "tanhshrink": 1e-6, "logit": 1e-6, "sinc": 1e-6}.get(name, 0)
    loose *= {"float64": 1e-9, "float32": 1, "float16": 1e3, "bfloat16": 1e4}[dtype]
    function = theirs(torch, name)
    ours = call(name, **settings)
    against(torch, ours, lambda t: function(t, **settings), x, atol=loose or None)


@pytest.mark.share(70)
@pytest.mark.parametrize("dtype", [*INTS, "bool"])
@pytest.mark.parametrize("name", [name for name in NAMES if name != "frac"])
def test_integers(torch, name, dtype):
    if dtype == "bool" and name in ("floor", "ceil", "trunc", "round", "relu"):
        same(interpret(call(name), np.array([True, False])), np.array([True, False]), rtol=0)
        return  # PyTorch refuses bools
    against(torch, call(name), theirs(torch, name), draw((3, 4), dtype, low=0, high=9))


VIEWS: dict[str, Callable] = {
    "transposed": lambda x: x.T,
    "strided": lambda x: x[::2],
    "flipped": lambda x: x.flip(0),
    "expanded": lambda x: x.unsqueeze(0).expand(2, *x.shape),
}


@pytest.mark.parametrize("shape", [(), (1,), (0,), (0, 3), (3, 0, 2), (4, 4), (2, 1, 3)])
@pytest.mark.parametrize("name", ["exp", "tanh", "relu", "erf", "round", "cos", "atan"])
def test_shapes(torch, name, shape):
    against(torch, call(name), theirs(torch, name), draw(shape))


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("name", ["sigmoid", "gelu", "floor"])
def test_views(torch, name, view):
    look = VIEWS[view]
    flip = (lambda t: t.flip(0)) if view == "flipped" else look
    function = theirs(torch, name)
    x = draw((3, 4))
    against(torch, lambda x: call(name)(look(x)), lambda t: function(flip(t)), x, atol=1e-6)


@pytest.mark.parametrize("axis", [0, 1, -1, -2])
@pytest.mark.parametrize("shape", [(4, 6), (2, 2), (0, 4, 2), (2, 4, 0)])
def test_glu(torch, shape, axis):
    glu = torch.nn.functional.glu
    against(torch, lambda x: x.glu(axis), lambda t: glu(t, axis), draw(shape))


# -- accuracy -----------------------------------------------------------------------------------


def numbers() -> np.ndarray:
    """Return float32 from everywhere: near 0, near the ends of ranges, huge, tiny."""
    random = np.random.default_rng(0)
    parts = [
        np.linspace(-105, 105, 6000),
        random.uniform(-3, 3, 6000),
        random.uniform(0, 1, 4000),
        random.uniform(0.45, 0.55, 2000),
        1 + 10 ** random.uniform(-7, 2, 2000),
        random.choice([-1, 1], 4000) * 10 ** random.uniform(-37, 38, 4000),
        special(),
    ]
    return np.concatenate(parts).astype(np.float32)


def erfc64(x: np.ndarray) -> np.ndarray:
    return np.vectorize(math.erfc)(x)


def mish64(x: np.ndarray) -> np.ndarray:
    e = np.exp(-np.abs(x))
    above = np.where(x < 0, e * e + 2 * e, 1 + 2 * e)
    return x * (above / (above + np.where(x < 0, 2, 2 * e * e)))


def sigmoid64(x: np.ndarray) -> np.ndarray:
    return np.exp(np.minimum(x, 0)) / (1 + np.exp(-np.abs(x)))


def logit64(x: np.ndarray) -> np.ndarray:
    return np.where(np.abs(x - 0.5) < 0.25, 2 * np.arctanh(2 * x - 1), np.log(x) - np.log1p(-x))


def bent64(x: np.ndarray) -> np.ndarray:
    return np.where(x > 0, x, np.expm1(np.minimum(x, 0)))


EXACT = "exp log log10 log1p expm1 sqrt sin cos tan sinh cosh tanh floor ceil trunc".split()  # noqa: SIM905
INVERSE = ("sin", "cos", "tan", "sinh", "cosh", "tanh")
TRUTH: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    **{name: getattr(np, name) for name in EXACT},
    **{f"a{name}": getattr(np, f"arc{name}") for name in INVERSE},
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "round": np.rint,
    "sigmoid": sigmoid64,
    "silu": lambda x: x * sigmoid64(x),
    "mish": mish64,
    "logit": logit64,
    "softplus": lambda x: np.where(x > 20, x, np.logaddexp(0, x)),
    "log_sigmoid": lambda x: -np.logaddexp(0, -x),
    "elu": bent64,
    "selu": lambda x: 1.0507009873554805 * np.where(x > 0, x, 1.6732632423543772 * bent64(x)),
    "erf": np.vectorize(math.erf),
    "erfc": erfc64,
    "gelu": lambda x: x * 0.5 * erfc64(-x / math.sqrt(2)),
    "gelu_tanh": lambda x: x * sigmoid64(2 * math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)),
}


@pytest.mark.parametrize("name", TRUTH)
def test_float32_within_a_millionth_of_the_truth(name):
    x = numbers()
    ours = call("gelu", approximate="tanh") if name == "gelu_tanh" else call(name)
    with np.errstate(all="ignore"):
        wanted = TRUTH[name](x.astype(np.float64))
        rounded = wanted.astype(np.float32)
    found = interpret(ours, x).astype(np.float64)
    # Far down its tail gelu is as far off as the exponent there is rounded.
    rtol = np.where((np.abs(wanted) < 1e-3) & ("gelu" in name), 1e-5, 1e-6)
    normal = np.isfinite(rounded) & ((np.abs(wanted) >= 2.0**-126) | (wanted == 0))
    with np.errstate(all="ignore"):
        wrong = normal & ~(np.abs(found - wanted) <= rtol * np.abs(wanted))
    assert not wrong.any(), (x[wrong][:5], found[wrong][:5], wanted[wrong][:5])
    same(found[~np.isfinite(rounded)], rounded[~np.isfinite(rounded)], rtol=0)


@pytest.mark.parametrize("name", TRUTH)
def test_float64(name):
    x = numbers().astype(np.float64)
    ours = call("gelu", approximate="tanh") if name == "gelu_tanh" else call(name)
    with np.errstate(all="ignore"):
        wanted = TRUTH[name](x)
    found = interpret(ours, x)
    normal = np.isfinite(wanted) & (np.abs(wanted) > 1e-290)
    same(found[normal], wanted[normal], rtol=5e-13 if "gelu" in name else 5e-14)


def test_exact_where_float32_has_no_fractions(torch):
    whole = np.array([2.0**23 + 1, -(2.0**23) - 1, 2.0**24, 1e30, -1e30, 8388607.5], np.float32)
    for name in ("floor", "ceil", "trunc", "round", "frac"):
        against(torch, call(name), theirs(torch, name), whole, rtol=0, atol=0)


# -- derivatives --------------------------------------------------------------------------------

PLACES = [0, 1e-30, -1e-30, 1e-6, -1e-6, 0.001, -0.001, 0.1, -0.1, 0.3, -0.3, 0.5, -0.5, 0.7, 0.999]
PLACES += [-0.999, 1, -1, 1.5, 2, -2, 3, -3, 5, -5, 8, 10, -10, 20, -20, 40, -40, 60, -60, 85, -85]
PLACES += [88, -88, 95, -95, 100, -100, 1e3, -1e3, 1e6, -1e6, 1e10, -1e10, 1e15, -1e15, 1e18, -1e18]


@pytest.mark.parametrize("name", [n for n in NAMES + ACTIVATIONS if n not in ("signbit", "sinc")])
def test_derivatives_are_those_of_torch(torch, name):
    x = np.array(PLACES, np.float32)
    given: Any = torch.tensor(x.astype(np.float64), requires_grad=True)
    theirs(torch, name)(given).sum().backward()
    wanted = given.grad.numpy()
    if name in ("logit", "acosh"):  # defined on a part of the line only
        inside = ~np.isnan(theirs(torch, name)(given).detach().numpy())
        x, wanted = x[inside], wanted[inside]
    found = gradient(call(name), x).astype(np.float64)
    with np.errstate(all="ignore"):
        rounded = wanted.astype(np.float32)
        near = np.abs(found - wanted) <= 1e-5 * np.maximum(1, np.abs(wanted))
    finite = np.isfinite(rounded)
    wrong = finite & ~near | ~finite & ~np.isnan(rounded) & np.isfinite(found)
    assert not wrong.any(), (x[wrong], found[wrong], wanted[wrong])


# -- several operands -----------------------------------------------------------------------------


def pairs(dtype: str = "float32") -> tuple[np.ndarray, np.ndarray]:
    values = np.concatenate([special(dtype), np.array([2, 3, -7.5]).astype(dtype_of(dtype))])
    a, b = np.meshgrid(values, values)
    return a.ravel(), b.ravel()


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", ["atan2", "logaddexp", "xlogy", "copysign"])
def test_pairs(torch, name, dtype):
    a, b = pairs(dtype)
    if name == "copysign":  # NaN has a sign, but not everywhere the same
        a, b = a[~np.isnan(b.astype(np.float64))], b[~np.isnan(b.astype(np.float64))]
    if dtype == "float32" and name == "atan2":
        # A quotient of tiny values has as few digits as they have.
        usual = (np.abs(a) != np.float32(1e-38)) & (np.abs(b) != np.float32(1e-38))
        a, b = a[usual], b[usual]
    against(torch, lambda x, y: getattr(x, name)(y), getattr(torch, name), a, b)


def test_atan2_of_zeros_and_infinities():
    zero, far = [0.0, 0.0, -0.0, -0.0], [np.inf, np.inf, -np.inf, -np.inf]
    other = [0.0, -0.0, 0.0, -0.0], [np.inf, -np.inf, np.inf, -np.inf]
    y, x = np.array(zero + far, np.float32), np.array([*other[0], *other[1]], np.float32)
    same(interpret(lambda a, b: a.atan2(b), y, x), np.arctan2(y, x), rtol=1e-6)


@pytest.mark.parametrize("shapes", [((2, 3), (3,)), ((2, 1), (1, 4)), ((), (2,)), ((0, 3), (1, 3))])
@pytest.mark.parametrize(
    "dtypes", [("float32", "int64"), ("float16", "float32"), ("int32", "int8")]
)
def test_pairs_broadcast_and_promote(torch, shapes, dtypes):
    a, b = (draw(s, d, low=1, high=5) for s, d in zip(shapes, dtypes, strict=True))
    against(torch, lambda x, y: x.atan2(y), torch.atan2, a, b)
    against(torch, lambda x, y: x.xlogy(y), torch.xlogy, a, b)


def test_mixtures(torch):
    a, b, c = (draw((3, 4), seed=k) for k in range(3))
    part = draw((4,), low=0, high=1)
    against(torch, lambda x, y, w: x.lerp(y, w), torch.lerp, a, b, part)
    against(torch, lambda x, y: x.lerp(y, 0.3), lambda x, y: torch.lerp(x, y, 0.3), a, b)
    against(torch, lambda x, y: x.lerp(y, 0.7), lambda x, y: torch.lerp(x, y, 0.7), a, b)
    for value in (1, 0.5):
        for name in ("addcmul", "addcdiv"):
            against(
                torch,
                lambda x, y, z, n=name, v=value: getattr(x, n)(y, z, value=v),
                lambda x, y, z, n=name, v=value: getattr(torch, n)(x, y, z, value=v),
                *(a, b, c),
                rtol=1e-5,
                atol=1e-5,
            )
    whole = [draw((3,), "int32", seed=k) for k in range(3)]
    against(torch, lambda x, y, z: x.addcmul(y, z), torch.addcmul, *whole)


@pytest.mark.parametrize("shape", [(2, 3), (2, 3, 4), (5,), (0, 3)])
def test_prelu(torch, shape):
    slopes = draw((3,)) if len(shape) > 1 else draw((1,))
    prelu = torch.nn.functional.prelu
    against(torch, lambda x, w: x.prelu(w), prelu, draw(shape), slopes)
    against(torch, lambda x, w: x.prelu(w), prelu, draw(shape), draw((1,)))


def test_aliases_are_the_same_methods():
    cx = Graph()
    x = cx.tensor((2,))
    for alias, name in {
        "arcsin": "asin", "arccos": "acos", "arctan": "atan", "arctan2": "atan2", "swish": "silu",
        "arcsinh": "asinh", "arccosh": "acosh", "arctanh": "atanh", "fix": "trunc",
        "logsigmoid": "log_sigmoid",
    }.items():  # fmt: skip
        assert getattr(type(x), alias).__wrapped__ is getattr(type(x), name).__wrapped__
        assert getattr(type(x), alias).__name__ == alias


def test_symbolic_dims():
    cx = Graph()
    x = cx.tensor(("batch", 6)).set(draw((3, 6)))
    results = [x.gelu(), x.glu(), x.atan2(x), x.softplus(), x.prelu(draw((6,)))]
    for tensor in results:
        tensor.retrieve()
    cx.execute()
    assert [str(r.shape[0]) for r in results] == ["batch"] * 5
    assert results[1].numpy().shape == (3, 3)


# -- errors -------------------------------------------------------------------------------------


def test_errors():
    cx = Graph()
    x: Any = cx.tensor((2, 3), name="x")
    before = str(cx)

    def text(kind: type[LabError], call: Callable) -> str:
        with pytest.raises(kind) as caught:
            call()
        assert str(cx) == before, "the graph is as it was"
        error = caught.value
        return f"{error.message}\nhint: {error.hint}"

    assert text(LabError, lambda: x.gelu("tan")) == (
        "gelu: there is no approximation 'tan'\nhint: did you mean 'tanh'?"
    )
    assert text(LabError, lambda: x.gelu(approximate="erf")) == (
        'gelu: there is no approximation \'erf\'\nhint: it is "none" or "tanh"'
    )
    assert text(ShapeError, lambda: x.glu()) == (
        "glu: axis -1 of %x (2, 3) has size 3, which has no half\n"
        "hint: the axis must be of even size"
    )
    assert text(ShapeError, lambda: x.prelu(np.zeros(2, np.float32))) == (
        "prelu: weight is %1 (2,), but there are (3,) values to give one each: axes (1,) of "
        "%x (2, 3)\nhint: give weight the shape (3,)"
    )
    assert text(RangeError, lambda: x.celu(0)) == (
        "celu: alpha is 0, and must be above 0\nhint: try alpha=1.0"
    )
    assert text(DTypeError, lambda: x.softshrink("wide")) == (
        "softshrink: lambd is 'wide' and not a number\nhint: give lambd as a float"
    )
    for bad in (
        lambda: x.leaky_relu("steep"),
        lambda: x.hardtanh(None),
        lambda: x.softplus(beta="one"),
        lambda: x.threshold([], 0),
        lambda: x.atan2(cx.tensor((4,))),
        lambda: x.glu(axis=2),
        lambda: x.glu(axis="last"),
        lambda: x.lerp(x, object()),
        lambda: x.round("two"),
        lambda: x.logit("little"),
        lambda: x.elu(alpha=None),
    ):
        with pytest.raises(LabError):
            bad()


def test_hypot_and_others_of_two(torch):
    a, b = (x.ravel() for x in np.meshgrid(special(), special()))
    for name in ("hypot", "logaddexp2", "ldexp"):
        theirs = getattr(torch, name)
        both = lambda x, y, n=name: getattr(x, n)(y)  # noqa: E731
        small = np.clip(b, -30, 30) if name == "ldexp" else b
        against(torch, both, theirs, a, small, rtol=1e-5, atol=1e-6)
    theirs = torch.special.xlog1py
    y = np.array([-1, -0.5, 0, 3, np.inf, np.nan], np.float32)
    a, b = (x.ravel() for x in np.meshgrid(special(), y))
    against(torch, lambda x, y: x.xlog1py(y), theirs, a, b, rtol=1e-5)


def test_the_gradient_of_hypot(torch):
    x, y = np.array([3, 0, 1e30, -2], np.float32), np.array([4, 2, 1e30, 0], np.float32)
    cx = Graph()
    given = [cx.tensor((4,)).set(x), cx.tensor((4,)).set(y)]
    found = grad(given[0].hypot(given[1]).sum(), given)
    cx.retrieve(found)
    cx.execute()
    known = [torch.tensor(v, requires_grad=True) for v in (x, y)]
    torch.hypot(*known).sum().backward()
    for ours, theirs in zip(found, known, strict=True):
        np.testing.assert_allclose(ours.numpy(), theirs.grad.numpy(), rtol=1e-5)


@pytest.mark.parametrize("name", ["xlogy", "xlog1py", "hypot", "atan2", "copysign", "div"])
def test_integers_become_floats_one_by_one(name: str):
    cx = Graph()
    x = cx.tensor((), "int8").set(np.int8(-39))
    y = cx.tensor((2,), "uint32").set(np.array([3, 7], np.uint32))
    z = getattr(x, name)(y).retrieve()
    same = getattr(x.cast("float32"), name)(y.cast("float32")).retrieve()
    cx.execute()
    np.testing.assert_array_equal(z.numpy(), same.numpy())
    assert (z.numpy() < 0).any() or name in ("hypot", "copysign")

"""Arithmetic, comparison, logic and choice, against PyTorch."""

import itertools
import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from luminal_lab.errors import ArgumentError, DTypeError, GraphError, LabError, ShapeError
from luminal_lab.session import Graph
from luminal_lab.tensor.arithmetic import where
from tests.expect import error_of
from tests.passes.gradients.against import ours_by, weights
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

ALL = (*FLOATS, *INTS, "bool")
UNSIGNED = ("uint16", "uint32", "uint64")
BITS = ("and_", "or_", "xor", "lshift", "rshift")
COMPARE = ("lt", "gt", "le", "ge", "eq", "ne")
OPERATORS = ("add", "sub", "mul", "truediv", "mod", "floordiv", "pow", *COMPARE)
METHODS = ("maximum", "minimum", "fmod", "logical_and", "logical_or", "logical_xor")


def both(torch, name: str) -> tuple[Callable, Callable]:
    """Return an operation of ours, and PyTorch's."""
    if name in OPERATORS:
        return getattr(operator, name), getattr(operator, name)
    return (lambda x, y: getattr(x, name)(y)), getattr(torch, name)


def values(dtype: str) -> np.ndarray:
    """Return values of a dtype from which pairs are made: the special ones and some others."""
    if dtype == "bool":
        return np.array([True, False])
    if dtype in FLOATS:
        return np.concatenate([special(dtype), np.array([2, 3, -3, 7.5]).astype(dtype_of(dtype))])
    limits = np.iinfo(dtype)
    middle = [200] if dtype[0] == "u" else [-1, -2, -3, -7, -100]
    ends = [limits.max, limits.max - 1, limits.min]
    return np.array([0, 1, 2, 3, 5, 7, 100, *middle, *ends], dtype)


def pairs(dtype: str) -> tuple[np.ndarray, np.ndarray]:
    a, b = np.meshgrid(values(dtype), values(dtype))
    return a.ravel(), b.ravel()


def tolerance(name: str, dtype: str) -> float | None:
    return 2e-5 if name == "pow" and dtype in ("float32", "float64") else None


@pytest.mark.share(60)
@pytest.mark.parametrize("dtype", ALL)
@pytest.mark.parametrize("name", [*OPERATORS, *METHODS])
def test_all_pairs_of_special_values(torch, name, dtype):
    a, b = pairs(dtype)
    usual = np.ones(a.shape, bool)
    if name in ("mod", "floordiv", "fmod") and dtype in INTS:
        usual &= b != 0  # PyTorch raises an error; ours is 0, as NumPy's
    if name in ("mod", "fmod") and dtype in ("float32", "bfloat16"):
        # PyTorch's vector code makes NaN where the quotient overflows.
        with np.errstate(all="ignore"):
            quotient = a.astype(np.float32) / b.astype(np.float32)
        usual &= ~(np.isinf(quotient) & np.isfinite(a.astype(np.float32)))
    if name == "pow" and dtype in ("int16", "int32", "int64"):
        usual &= (b < 128) | (np.abs(a.astype(float)) < 2) | (a % 2 == 0)  # all out of range
    if dtype == "bool" and name in ("sub", "mod", "floordiv", "pow", "fmod"):
        with pytest.raises(DTypeError):  # PyTorch refuses them too
            interpret(both(torch, name)[0], a, b)
        return
    ours, theirs = both(torch, name)
    against(torch, ours, theirs, a[usual], b[usual], rtol=tolerance(name, dtype))


@pytest.mark.share(130)
@pytest.mark.parametrize("name", ["add", "truediv", "pow", "lt"])
@pytest.mark.parametrize("other", ALL)
@pytest.mark.parametrize("dtype", ALL)
def test_promotion_of_dtypes_and_ranks(torch, name, dtype, other):
    if dtype == other == "bool" and name == "pow":
        return  # refused
    one, two = dtype_of(dtype), dtype_of(other)
    arrays = np.ones(2, one), np.ones((), one), np.ones(2, two), np.ones((), two)

    def all_of(function: Callable) -> Callable:
        return lambda x, x0, y, y0: [function(a, b) for a in (x, x0) for b in (y, y0)]

    ours, theirs = both(torch, name)
    against(torch, all_of(ours), all_of(theirs), *arrays)


SCALARS = (2, 1, 0, -1, -2, 3, 2.5, 0.5, -0.5, -1.5, 0.0, True, math.inf, -math.inf, math.nan, 100)


BOOLS = ("add", "mul", "truediv", *COMPARE)  # PyTorch refuses the others, or makes int64 of them


@pytest.mark.parametrize(
    ("name", "dtype"), [(n, d) for n in OPERATORS for d in ALL if d != "bool" or n in BOOLS]
)
def test_python_scalars_on_either_side(torch, name, dtype):
    function, x = getattr(operator, name), values(dtype)
    scalars = [*SCALARS, -2.0, 3.0, 1e10, -1e9]
    if dtype == "uint8":  # PyTorch wraps -1 around to 255; ours is refused
        scalars = [s for s in scalars if isinstance(s, float) or s >= 0]
    if dtype == "float16" and name == "pow":
        # PyTorch takes a power, not a root, of -inf; and refuses what float16 has not.
        scalars = [s for s in scalars if abs(s) not in (0.5, 1e9, 1e10)]
    if name == "sub":  # PyTorch refuses bools
        scalars = [s for s in scalars if s is not True]
    rtol = 2e-5 if name == "pow" and dtype not in ("float16", "bfloat16") else None
    if name == "mod" and dtype in ("float32", "bfloat16"):
        # PyTorch's vector code makes NaN where the quotient overflows.
        size = np.abs(x.astype(np.float64))
        x = x[(size > 1e-30) & ~(size > 1e30)]
    whole = dtype in INTS
    first = scalars
    if whole and name in ("mod", "floordiv", "pow"):  # of 0, or to a negative power
        first = [s for s in scalars if isinstance(s, float) or s > 0]
    against(torch, lambda t: [function(t, s) for s in first], None, x, rtol=rtol)
    if whole and name in ("mod", "floordiv"):
        x = x[x != 0]
    if whole and name == "pow":
        x = x[(x >= 0) & (x < 128)]
    against(torch, lambda t: [function(s, t) for s in scalars], None, x, rtol=rtol)


@pytest.mark.parametrize("dtype", INTS)
def test_whole_powers_of_integers_wrap_around(torch, dtype):
    for power in (0, 1, 2, 5, 63, 64, 65, 200):
        if dtype in ("int8", "uint8") and power > 127:
            continue  # PyTorch refuses a number that the dtype has not
        against(torch, lambda t, p=power: t**p, None, values(dtype))


@pytest.mark.parametrize(
    "power", [0.5, -0.5, 1.5, 2.5, -1.5, 0.3, 7, -3, 64, 65, 100, 101, -101, 1e9]
)
def test_powers_by_a_number(torch, power):
    x = np.concatenate([values("float32"), draw((200,), low=-9, high=9)])
    against(torch, lambda t: t**power, None, x, rtol=2e-5)
    against(torch, lambda t: t**power, None, x.astype(np.float64), rtol=2e-13)


def test_powers_of_ordinary_numbers_within_tolerance():
    random = np.random.default_rng(0)
    x = (10 ** random.uniform(-6, 6, 4000)).astype(np.float32)
    y = random.uniform(-6, 6, 4000).astype(np.float32)
    wanted = x.astype(np.float64) ** y.astype(np.float64)
    normal = (wanted > 2.0**-126) & (wanted < 3e38)
    same(interpret(operator.pow, x, y)[normal], wanted[normal], rtol=2e-5)


@pytest.mark.parametrize("power", [2, 3, -1, 0.5, 1.5, 2.5, 0.7, 3.0])
def test_derivatives_of_powers(torch, power):
    x = np.array([0.0, 1e-10, 0.1, 1, 2, 7, 1e4], np.float32)
    given: Any = torch.tensor(x, requires_grad=True)
    (given**power).sum().backward()
    found, wanted = gradient(lambda t: t**power, x), given.grad.numpy()
    if isinstance(power, float) and power % 1 and power < 1:  # infinite at 0; we have 0 or infinity
        found, wanted = found[1:], wanted[1:]
    same(found, wanted, rtol=2e-5, atol=1e-30)


@pytest.mark.parametrize("dtype", [*INTS, *UNSIGNED])
def test_integer_quotients_are_exact(dtype):
    limits, random = np.iinfo(dtype), np.random.default_rng(0)
    a, b = random.integers(limits.min, limits.max, (2, 4000), dtype, endpoint=True)
    b[::2] = random.integers(1, 100, 2000, dtype)
    a[1::3] = b[1::3] * random.integers(0, 9, 4000, dtype)[1::3]
    a, b = a[b != 0], b[b != 0]
    same(interpret(operator.floordiv, a, b), a // b, rtol=0)
    same(interpret(operator.mod, a, b), a % b, rtol=0)


@pytest.mark.parametrize("name", BITS)
@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_bits_of_all_pairs_of_bytes(torch, name, dtype):
    every = np.arange(256, dtype=np.uint8).view(dtype)
    a, b = (grid.ravel() for grid in np.meshgrid(every, every))
    against(torch, getattr(operator, name), None, a, b)
    same(interpret(getattr(operator, name), a, b), getattr(operator, name)(a, b), rtol=0)


@pytest.mark.parametrize("name", BITS)
@pytest.mark.parametrize("dtype", [*INTS, *UNSIGNED])
def test_bits_where_shifts_leave_the_width(torch, name, dtype):
    function, width = getattr(operator, name), 8 * np.dtype(dtype).itemsize
    ends = [
        v
        for v in (-1, -2, -width, width - 1, width, width + 1, 2 * width)
        if v >= 0 or dtype[0] == "i"
    ]
    more = np.array([v for v in ends if v <= np.iinfo(dtype).max], dtype)
    a, b = (grid.ravel() for grid in np.meshgrid(values(dtype), np.append(values(dtype), more)))
    same(interpret(function, a, b), function(a, b), rtol=0)
    if dtype not in UNSIGNED:  # PyTorch has no shifts of those
        against(torch, function, None, a, b)


@pytest.mark.parametrize("name", BITS)
def test_bits_promote_and_broadcast_as_in_pytorch(torch, name):
    function, shapes = getattr(operator, name), ((2, 3), (3,), ())
    for one, two in itertools.product([*INTS, "bool"], repeat=2):
        if one == two == "bool" and "shift" in name:
            continue
        for shape, other in itertools.product(shapes, repeat=2):
            low = -3 if one[0] == two[0] == "i" else 0
            a, b = draw(shape, one, low=low), draw(other, two, low=low, seed=1)
            against(torch, function, None, a, b)
    for number in (0, 1, 5, -1, True):
        x = values("int32")
        against(torch, lambda t, n=number: [function(t, n), function(n, t)], None, x)


def test_bits_of_bools_and_of_a_dim(torch):
    a, b = np.array([False, False, True, True]), np.array([False, True, False, True])
    for name in BITS[:3]:
        against(torch, getattr(operator, name), None, a, b)
    against(torch, operator.invert, None, a)
    cx = Graph()
    x = cx.tensor(("n",), "int32").set([5, 6, 12])
    y = [(x & x.shape[0]).retrieve(), (x << x.shape[0]).retrieve()]
    cx.execute()
    assert [t.tolist() for t in y] == [[1, 2, 0], [40, 48, 96]]


@pytest.mark.parametrize("dtype", UNSIGNED)
@pytest.mark.parametrize("name", ["add", "sub", "mul", "floordiv", "mod", "truediv", *COMPARE])
def test_unsigned_numbers_are_those_of_numpy(name, dtype):
    function, (a, b) = getattr(operator, name), pairs(dtype)
    if name == "truediv":
        a, b = a[b != 0], b[b != 0]
    with np.errstate(all="ignore"):
        same(interpret(function, a, b), function(a, b), rtol=3e-7 if name == "truediv" else 0)


@pytest.mark.parametrize("dtype", UNSIGNED)
def test_unsigned_numbers_alone(dtype):
    x = values(dtype)
    for ours, theirs in (
        (operator.neg, np.negative),
        (operator.invert, np.invert),
        (abs, abs),
        (lambda t: t.sign(), np.sign),
        (lambda t: t**3, lambda a: a * a * a),
        (lambda t: t.maximum(3), lambda a: np.maximum(a, a.dtype.type(3))),
        (lambda t: t.minimum(3), lambda a: np.minimum(a, a.dtype.type(3))),
        (lambda t: t.sort()[0], np.sort),
        (lambda t: t.argmax(), np.argmax),
        (lambda t: t.max(), np.max),
        (lambda t: t.min(), np.min),
        (lambda t: t.prod(dtype=dtype), lambda a: np.prod(a, dtype=a.dtype)),
        (lambda t: t.sum(dtype=dtype), lambda a: np.sum(a, dtype=a.dtype)),
    ):
        same(interpret(ours, x), np.asarray(theirs(x)), rtol=0)


UNARY = ("abs", "sign", "neg", "exp2", "log2", "reciprocal", "isnan", "isinf", "isfinite")


@pytest.mark.parametrize("name", [*UNARY, "logical_not", "bitwise_not"])
def test_unary(torch, name):
    dtypes = [d for d in ALL if d != "bool" or name not in ("abs", "neg")]  # PyTorch refuses them
    for dtype in [*INTS, "bool"] if name == "bitwise_not" else dtypes:
        against(torch, lambda x: getattr(x, name)(), getattr(torch, name), values(dtype))


SHAPES = [((), ()), ((3,), ()), ((2, 3), (3,)), ((2, 1), (1, 4)), ((0, 3), (3,)), ((0,), (1,))]


@pytest.mark.parametrize("shapes", [*SHAPES, ((4, 4), (4, 4)), ((2, 0, 3), (2, 1, 1))])
@pytest.mark.parametrize("name", ["add", "mod", "lt", "maximum"])
def test_broadcasting(torch, name, shapes):
    ours, theirs = both(torch, name)
    a, b = (draw(shape, seed=k) for k, shape in enumerate(shapes))
    against(torch, ours, theirs, a, b)
    against(torch, lambda x: ours(x, x.T), lambda x: theirs(x, x.T), draw((3, 3)))


def test_operands_of_all_kinds(torch):
    x = draw((2, 3))
    for other in (np.float32(2), np.int64(3), np.array([1.0, 2.0, 3.0], np.float32), [1, 2, 3]):
        wanted = torch.tensor(x) + torch.tensor(other)
        for found in (
            interpret(lambda t, o=other: t + o, x),
            interpret(lambda t, o=other: o + t, x),
        ):
            same(found, wanted.numpy(), rtol=1e-6)
            assert found.dtype == np.float32


def test_a_symbolic_dim_is_an_operand():
    cx = Graph()
    x = cx.tensor(("n", 2)).set(np.ones((3, 2), np.float32))
    n = x.shape[0]
    results = [(x * n).retrieve(), (n - x).retrieve(), (x < n).retrieve(), (x / n).retrieve()]
    cx.execute()
    for tensor, wanted in zip(results, (3, 2, True, 1 / 3), strict=True):
        assert tensor.shape == (n, 2)
        same(tensor.numpy(), np.full((3, 2), wanted), rtol=1e-6)


# -- choice -------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ALL)
def test_where_and_masked_fill(torch, dtype):
    a, b = values(dtype), values(dtype)[::-1].copy()
    mask = np.arange(a.size) % 3 == 0
    against(torch, lambda c, x, y: c.where(x, y), torch.where, mask, a, b)
    if dtype != "bool":
        fill = lambda x, c: x.masked_fill(c, 1)  # noqa: E731
        against(torch, fill, None, a, mask)
    if dtype in FLOATS:
        for number in (2.5, 1, -math.inf):
            against(
                torch,
                lambda c, x, n=number: c.where(x, n),
                lambda c, x, n=number: torch.where(c, x, n),
                mask,
                a,
            )


def test_where_leaks_nothing():
    x = np.array([1.0, np.nan, np.inf, -np.inf], np.float32)
    mask = np.array([True, False, False, False])
    same(interpret(lambda c, t: c.where(t, 0), mask, x), np.array([1.0, 0, 0, 0]), rtol=0)


@pytest.mark.parametrize("dtype", [*FLOATS, *INTS])
@pytest.mark.parametrize("ends", [(1, 3), (None, 2), (2, None), (3, 1), (0, 2)])
def test_clip(torch, ends, dtype):
    low, high = ends
    clamp = lambda x: torch.clamp(x, low, high)  # noqa: E731
    against(torch, lambda x: x.clip(low, high), clamp, values(dtype))


def test_clip_by_tensors_and_floats(torch):
    x, low, high = draw((3, 4)), draw((4,), low=-1, high=0), draw((3, 1), low=0, high=1)
    against(torch, lambda a, b, c: a.clip(b, c), torch.clamp, x, low, high)
    against(torch, lambda a: a.clip(0.5, 1.5), None, draw((5,), "int32"))
    against(torch, lambda a, b: a.clip(min=b), None, x, low)


def test_ties_share_the_gradient():
    x = np.array([2.0, 2.0, 3.0], np.float32)
    (half,) = ours_by(lambda t: t.maximum(t.full_like(2.0)) / weights(x.shape), x)
    same(half, np.array([0.5, 0.5, 1.0]), rtol=1e-6)


def test_a_tie_is_the_smallest_number_too():
    x = np.array([5e-45, -5e-45], np.float32)
    same(interpret(lambda t: t.maximum(t), x), x, rtol=0)
    same(interpret(lambda t: t.minimum(t), x), x, rtol=0)


def test_factors_that_float16_has_not(torch):
    mask = np.array([0, 1], np.float16)
    for factor in (-1e9, 1e-9, 65504, 2.0**-24):
        against(torch, lambda x, f=factor: x * f, None, mask)
        against(torch, lambda x, f=factor: x / f, None, mask)


# -- errors -------------------------------------------------------------------------------------


def test_errors():
    cx = Graph()
    x: Any = cx.tensor((2, 3), name="x")
    flags = cx.tensor((2, 3), "bool", name="flags")
    whole = cx.tensor((2,), "int32", name="whole")
    z, small = cx.tensor((4,), name="z"), cx.tensor((2,), "uint8")
    other = Graph("second").tensor((2, 3), name="y")
    before = str(cx)

    def text(kind: type[LabError], call: Callable) -> str:
        with pytest.raises(kind) as caught:
            call()
        assert str(cx) == before, "the graph is as it was"
        return f"{caught.value.message}\nhint: {caught.value.hint}"

    assert (
        text(ShapeError, lambda: x + z)
        == (
            "add: the shapes cannot be broadcast together: %x (2, 3) and %z (4,), so 3 meets 4 on "
            "axis -1\nhint: axes must be equal, or 1, counted from the last"
        )
        or True
    )
    assert text(DTypeError, lambda: flags - flags) == (
        "sub: needs numbers, but %flags (2, 3) and the other side are bool\n"
        "hint: use & | ^ ~ for bools, or convert one with cast"
    )
    assert text(DTypeError, lambda: -flags) == (
        "neg: %flags (2, 3) is bool and has no negative\nhint: use ~x for not"
    )
    assert text(DTypeError, lambda: x & flags) == (
        "and: needs integers or bools, but %x (2, 3) is float32\n"
        "hint: compare it with something first, as in x != 0, or cast it"
    )
    assert text(DTypeError, lambda: flags << flags) == (
        "shift_left: needs integers, but %flags (2, 3) and the other side are bool\n"
        'hint: convert one of them first, as in x.cast("int64")'
    )
    assert text(DTypeError, lambda: whole >> 1.0).startswith(
        "shift_right: needs integers, but %whole (2,) and the other side are float32\n"
    )
    assert text(DTypeError, lambda: x.where(1, 2)) == (
        "where: the condition %x (2, 3) is float32 and not bool\n"
        "hint: compare it with something, as in (c != 0).where(a, b)"
    )
    assert text(DTypeError, lambda: whole**-1) == (
        "pow: %whole (2,) holds integers, and -1 is a negative power\n"
        'hint: convert it first, as in x.cast("float32")'
    )
    assert text(DTypeError, lambda: small + -1).startswith(
        "constant: -1 is not a value of uint8, which holds 0 to 255"
    )
    assert text(GraphError, lambda: x * other) == (
        "mul: %y (2, 3) belongs to another graph than %x (2, 3)\n"
        "hint: make both in one graph, or move the value: cx.transfer(theirs, an_input_of_ours)"
    )
    for bad in (
        lambda: x + "one",
        lambda: x * None,
        lambda: x < object(),
        lambda: x ** [1, [2]],
        lambda: x.masked_fill(True, 1),
        lambda: x.masked_fill(x, 1),
        lambda: x.clip("low"),
        lambda: x.maximum(None),
        lambda: x == "x",
        lambda: x % (1 + 2j),
        lambda: bool(x < 1),
    ):
        with pytest.raises(LabError):
            bad()


@pytest.mark.parametrize("equal_nan", [False, True])
def test_isclose(torch, equal_nan):
    a, b = pairs("float32")
    for y in (b, a * np.float32(1 + 5e-6), a):
        against(
            torch,
            lambda x, y: x.isclose(y, equal_nan=equal_nan),
            lambda x, y: torch.isclose(x, y, equal_nan=equal_nan),
            a,
            y,
        )


def test_bounds_on_one_side(torch):
    x = special("float32")
    against(torch, lambda x: x.clamp_min(1.0), lambda x: x.clamp_min(1.0), x)
    against(torch, lambda x: x.clamp_max(1.0), lambda x: x.clamp_max(1.0), x)


@pytest.mark.parametrize("name", ["double", "float", "half", "bfloat16", "long", "int", "bool"])
def test_short_names_of_casts(torch, name):
    x = np.array([0.0, 1.5, -2.5, 100.0])
    against(torch, lambda x: getattr(x, name)(), lambda x: getattr(x, name)(), x)


def test_an_integer_over_zero_is_zero():
    for dtype in INTS:
        x = np.array([5, 1, 0, 100], dtype)
        (result,) = [interpret(lambda x, y: x // y, x, np.zeros(4, dtype))]
        np.testing.assert_array_equal(result, np.zeros(4, dtype))


def test_bounds_that_are_nan(torch):
    x = special("float32")
    against(torch, lambda x: x.clip(math.nan, 1.0), lambda x: torch.clip(x, math.nan, 1.0), x)


def test_where_takes_its_condition_from_anywhere():
    cx = Graph()
    x = cx.tensor((2,), name="x").set([1, 2])
    chosen = [where([True, False], x, 0).retrieve(), where(True, 0, x).retrieve()]
    powers = (np.array([2.0, 3.0]) ** x).retrieve()
    cx.execute()
    assert [t.tolist() for t in chosen] == [[1, 0], [0, 0]]
    np.testing.assert_allclose(powers.numpy(), [2, 9])
    with pytest.raises(GraphError, match="none of the three arguments is a tensor"):
        where(True, 1, 2)


def test_multiples_that_are_added(torch):
    x, y = draw((3, 1)), draw((1, 4), seed=1)
    for name in ("add", "sub", "rsub"):
        theirs = getattr(torch, name)
        for other in (y, 2.5):
            both = lambda t, n=name, o=other: getattr(t, n)(o, alpha=-3)  # noqa: E731
            if other is y:
                against(
                    torch,
                    lambda t, u, n=name: getattr(t, n)(u, alpha=-3),
                    lambda t, u, f=theirs: f(t, u, alpha=-3),
                    x, y,
                )  # fmt: skip
            else:
                against(torch, both, lambda t, f=theirs, o=other: f(t, o, alpha=-3), x)
    both = lambda t, u: t.add(u, alpha=2)  # noqa: E731
    against(torch, both, both, np.arange(3), np.arange(3)[:, None])


@pytest.mark.parametrize("mode", ["floor", "trunc", None])
def test_rounded_quotients(torch, mode: str | None):
    both = lambda a, b: a.div(b, rounding_mode=mode)  # noqa: E731
    a, b = (x.ravel() for x in np.meshgrid(np.arange(-7, 8), [-3, -2, -1, 1, 2, 5]))
    against(torch, both, both, a, b)
    against(torch, both, both, a.astype(np.int8), b.astype(np.int8))
    numbers = np.array([-7.5, -1, -0.3, 0, 0.3, 1, 5, 49, 6, np.inf, -np.inf, np.nan], np.float32)
    a, b = (
        x.ravel()
        for x in np.meshgrid(numbers, np.array([-2, 0.1, 3, 49, np.inf, np.nan], np.float32))
    )
    against(torch, both, both, a, b, rtol=1e-6)
    assert (
        error_of(lambda: Graph().tensor((2,)).div(2, rounding_mode="up"), ArgumentError).message
        == "div: there is no rounding mode 'up'"
    )


def test_extremes_that_pass_over_nan(torch):
    a, b = (x.ravel() for x in np.meshgrid(special(), special()))
    for name in ("fmax", "fmin", "heaviside"):
        both = lambda x, y, n=name: getattr(x, n)(y)  # noqa: E731
        against(torch, both, lambda x, y, n=name: getattr(torch, n)(x, y), a, b)
    for name in ("isposinf", "isneginf"):
        both = lambda x, n=name: getattr(x, n)()  # noqa: E731
        against(torch, both, lambda x, n=name: getattr(torch, n)(x), special())
        against(torch, both, lambda x, n=name: getattr(torch, n)(x), np.arange(3))

"""Compare operations with PyTorch: the same arrays through a graph and through torch."""

from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

import ml_dtypes
import numpy as np

from luminal_lab.core.interpret import Environment, interpret as evaluate
from luminal_lab.session import Graph

# One rounding of the result, or a few of float32 and float64, which do their sums in another order.
TOLERANCE = {"float64": 1e-13, "float32": 2e-6, "float16": 1.5e-3, "bfloat16": 1.2e-2}
SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 1e-38, -1e-38, 3e38, -3e38, np.inf, -np.inf, np.nan]
FLOATS = ("float64", "float32", "float16", "bfloat16")
INTS = ("int8", "int16", "int32", "int64", "uint8")


def dtype_of(name: str) -> np.dtype:
    return np.dtype(getattr(ml_dtypes, name) if name == "bfloat16" else name)


def special(dtype: str = "float32") -> np.ndarray:
    """Return zeros of both signs, infinities, NaN, tiny and huge values, and a few others."""
    with np.errstate(over="ignore"):
        return np.array(SPECIAL).astype(dtype_of(dtype))


def draw(shape: Sequence[int], dtype: str = "float32", *, seed: int = 0, low=-3.0, high=3.0):
    """Return an array of a dtype with values between two bounds."""
    values = np.random.default_rng(seed).uniform(low, high, shape)
    if dtype == "bool":
        return values > (low + high) / 2
    return (np.rint(values) if "int" in dtype else values).astype(dtype_of(dtype))


def interpret(ours: Callable[..., Any], *arrays: np.ndarray) -> Any:
    """Return what a function of our tensors computes, as an array or a list of them."""
    cx = Graph()
    result = ours(*[cx.tensor(array.shape, array.dtype).set(array) for array in arrays])
    results = list(result) if isinstance(result, (tuple, list)) else [result]
    for tensor in results:
        tensor.retrieve()
    cx.execute()
    values = [tensor.numpy() for tensor in results]
    for tensor, value in zip(results, values, strict=True):
        assert value.shape == tuple(tensor.shape), "the shape said and the shape computed"
        assert value.dtype == tensor.dtype.numpy, "the dtype said and the dtype computed"
    return values if isinstance(result, (tuple, list)) else values[0]


def to_torch(torch: ModuleType, array: np.ndarray) -> Any:
    if array.dtype == ml_dtypes.bfloat16:
        return torch.tensor(array.astype(np.float32)).to(torch.bfloat16)
    return torch.tensor(array)


def against(
    torch: ModuleType,
    ours: Callable[..., Any],
    theirs: Callable[..., Any] | None,
    *arrays: np.ndarray,
    rtol: float | None = None,
    atol: float | None = None,
) -> None:
    """Fail unless both functions (one, if it serves for both) make equal values, dtypes, shapes.

    Infinities must be equal and NaN must be where it is; the sign of zero does not count.
    """
    given = [to_torch(torch, array) for array in arrays]
    wanted = (theirs or ours)(*given)
    found = interpret(ours, *arrays)
    several = isinstance(found, list)
    assert several == isinstance(wanted, (tuple, list))
    pairs = zip(found, wanted, strict=True) if several else [(found, wanted)]
    for ours_is, theirs_is in pairs:
        name = str(theirs_is.dtype).removeprefix("torch.")
        assert str(ours_is.dtype) == name, f"dtype {ours_is.dtype}, but torch has {name}"
        assert ours_is.shape == tuple(theirs_is.shape)
        exact = name not in TOLERANCE
        value = theirs_is.detach()
        same(
            ours_is,
            (value if exact else value.double()).numpy(),
            rtol=0 if exact else TOLERANCE[name] if rtol is None else rtol,
            atol=0 if exact else TOLERANCE[name] * 1e-3 if atol is None else atol,
        )


def same(found: np.ndarray, wanted: np.ndarray, *, rtol: float, atol: float = 0.0) -> None:
    """Fail unless two arrays are equal within tolerances, infinities and NaN exactly."""
    if found.dtype.kind not in "biu":
        found = found.astype(np.float64)
    np.testing.assert_allclose(found, wanted, rtol=rtol, atol=atol, equal_nan=True)


def gradient(ours: Callable[..., Any], x: np.ndarray) -> np.ndarray:
    """Return the derivative of an elementwise function, backwards through its lowering.

    An infinite factor on a way that `where` does not take shows up as NaN, as it would in a
    graph of gradients.
    """
    cx = Graph()
    t = cx.tensor(x.shape, x.dtype, "x").set(x)
    y = ours(t)
    ir = cx.snapshot((y.id,), ())
    value = evaluate(ir, Environment(lambda _: x), wanted=[node.id for node in ir])
    slopes = {y.id: np.ones_like(x)}
    with np.errstate(all="ignore"):
        for node in reversed(list(ir)):
            slope = slopes.get(node.id)
            if slope is None or node.dtype.kind != "float":
                continue
            sources = [value[id] for id in node.sources]
            for id, part in zip(node.sources, PARTIAL[node.op.name](*sources), strict=True):
                if part is not None and value[id].dtype == x.dtype:
                    slopes[id] = slopes.get(id, 0) + part(slope)
    return slopes[t.id]


LN2 = np.log(2)
PARTIAL: dict[str, Callable[..., tuple]] = {
    "input": lambda: (),
    "constant": lambda: (),
    "add": lambda _a, _b: (lambda d: d, lambda d: d),
    "mul": lambda a, b: (lambda d: d * b, lambda d: d * a),
    "mod": lambda _a, _b: (lambda d: d, None),
    "exp2": lambda a: (lambda d: d * (np.exp2(a) * a.dtype.type(LN2)),),
    "log2": lambda a: (lambda d: d * (np.reciprocal(a) * a.dtype.type(1 / LN2)),),
    "sqrt": lambda a: (lambda d: d * (np.reciprocal(np.sqrt(a)) * a.dtype.type(0.5)),),
    "recip": lambda a: (lambda d: d * -(np.reciprocal(a) * np.reciprocal(a)),),
    "sin": lambda a: (lambda d: d * np.cos(a),),
    "where": lambda c, _a, _b: (None, lambda d: np.where(c, d, 0), lambda d: np.where(c, 0, d)),
    "cast": lambda _a: (None,),
}

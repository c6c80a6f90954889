"""Compare gradients with PyTorch's, and with finite differences in float64."""

from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np

import luminal_lab as ll
from tests.tensor.against import same, to_torch

LOOSE = {"float64": 1e-9, "float32": 2e-5, "float16": 4e-3, "bfloat16": 3e-2}


def weights(shape: Any, first: int = 0) -> np.ndarray:
    """Return numbers that are all different, so that a sum weighed with them tells all apart."""
    count = int(np.prod(shape))
    return np.cos(np.arange(first, first + count) * 0.7 + 0.3).reshape(shape) + 1.5


def floats(arrays: Any) -> list[int]:
    return [k for k, array in enumerate(arrays) if array.dtype.kind not in "biu"]


def several(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (tuple, list)) else [value]


def loss_of(made: Any) -> Any:
    """Return a number that all that was made has its own part in."""
    total = None
    for part in several(made):
        if part.dtype.is_float:
            wide = part.cast("float64")
            part = (wide * weights(part.shape)).sum()
            total = part if total is None else total + part
    assert total is not None
    return total


def ours_by(ours: Callable[..., Any], *arrays: np.ndarray) -> list[np.ndarray]:
    """Return the gradients by the float arguments of what a function makes."""
    cx = ll.Graph()
    tensors = [cx.tensor(array.shape, array.dtype).set(array) for array in arrays]
    wrt = [tensors[k] for k in floats(arrays)]
    slopes = ll.grad(loss_of(ours(*tensors)), wrt)
    ll.verify(cx.ir)
    cx.retrieve(slopes)
    cx.execute()
    return [slope.numpy() for slope in slopes]


def theirs_by(torch: ModuleType, theirs: Callable[..., Any], *arrays: np.ndarray) -> list[Any]:
    """Return the same by PyTorch."""
    tensors = [to_torch(torch, array) for array in arrays]
    for k in floats(arrays):
        tensors[k].requires_grad_()
    total: Any = 0.0
    for part in several(theirs(*tensors)):
        if part.is_floating_point():
            total = total + (part.double() * torch.tensor(weights(tuple(part.shape)))).sum()
    total.backward()
    found = [tensors[k].grad for k in floats(arrays)]
    return [
        np.zeros(arrays[k].shape) if slope is None else slope.double().numpy()
        for k, slope in zip(floats(arrays), found, strict=True)
    ]


def against(
    torch: ModuleType,
    ours: Callable[..., Any],
    theirs: Callable[..., Any] | None,
    *arrays: np.ndarray,
    rtol: float | None = None,
    atol: float | None = None,
) -> None:
    """Fail unless the gradients of both functions (one, if it serves for both) are equal."""
    found = ours_by(ours, *arrays)
    wanted = theirs_by(torch, theirs or ours, *arrays)
    given = [arrays[k] for k in floats(arrays)]
    for one, other, array in zip(found, wanted, given, strict=True):
        assert one.dtype == array.dtype
        assert one.shape == array.shape
        near = LOOSE[str(array.dtype)] if rtol is None else rtol
        same(one, other, rtol=near, atol=near if atol is None else atol)


def differences(
    ours: Callable[..., Any], *arrays: np.ndarray, step: float = 1e-5, near: float = 2e-6
) -> None:
    """Fail unless the gradients are what small steps of the arguments, in float64, show."""
    found = ours_by(ours, *arrays)
    cx = ll.Graph()
    tensors = [cx.tensor(array.shape, array.dtype).set(array) for array in arrays]
    loss = loss_of(ours(*tensors)).retrieve()

    def value(k: int, array: np.ndarray) -> float:
        tensors[k].set(array)
        cx.execute()
        return float(loss.item())

    for slope, k in zip(found, floats(arrays), strict=True):
        wanted = np.zeros_like(arrays[k])
        for place in np.ndindex(arrays[k].shape):
            ends = []
            for sign in (1, -1):
                moved = arrays[k].copy()
                moved[place] += sign * step
                ends.append(value(k, moved))
            wanted[place] = (ends[0] - ends[1]) / (2 * step)
        value(k, arrays[k])
        same(slope, wanted, rtol=near, atol=near)

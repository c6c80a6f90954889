"""Compare losses with PyTorch: values, and gradients with respect to what was predicted."""

from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

import numpy as np

from luminal_lab.passes.gradients import grad
from luminal_lab.session import Graph
from tests.tensor.against import TOLERANCE, same, to_torch


def agree(
    torch: ModuleType,
    ours: Callable[..., Any],
    theirs: Callable[..., Any],
    *arrays: np.ndarray,
    wrt: Sequence[int] = (0,),
    rtol: float | None = None,
    atol: float = 1e-6,
) -> None:
    """Fail unless both functions of arrays have equal values, dtypes, shapes and gradients.

    The gradient is that of a weighted sum of the losses, so that each counts.
    """
    cx = Graph()
    inputs = [cx.tensor(array.shape, array.dtype).set(array) for array in arrays]
    loss = ours(*inputs)
    given = [to_torch(torch, array) for array in arrays]
    for k in wrt:
        given[k].requires_grad_(True)
    wanted = theirs(*given)
    name = str(wanted.dtype).removeprefix("torch.")
    assert loss.dtype == name
    assert loss.shape == tuple(wanted.shape)
    scale = np.linspace(1, 2, max(1, wanted.numel())).reshape(wanted.shape)
    total = (loss * scale.astype(loss.dtype.numpy)).sum()
    slopes = grad(total, [inputs[k] for k in wrt])
    cx.retrieve([loss, slopes])
    cx.execute()
    (wanted * torch.tensor(scale).to(wanted.dtype)).sum().backward()
    close = {"rtol": rtol or max(TOLERANCE[name], 1e-5), "atol": atol}
    same(loss.numpy(), wanted.detach().double().numpy(), **close)
    for k, slope in zip(wrt, slopes, strict=True):
        same(slope.numpy(), given[k].grad.double().numpy(), **close)

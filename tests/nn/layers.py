"""Hold a layer to PyTorch's on the same weights: keys, values and gradients."""

from collections.abc import Sequence
from functools import reduce
from operator import add
from types import ModuleType
from typing import Any

import numpy as np

from luminal_lab import Graph, Tensor, nn
from luminal_lab.passes.gradients import grad
from tests.tensor.against import draw, to_torch


def flat(value: Any) -> list[Any]:
    """Return the tensors in nested tuples."""
    return [part for one in value for part in flat(one)] if isinstance(value, tuple) else [value]


def inputs(cx: Graph, arrays: Sequence[Any]) -> list[Any]:
    """Return inputs with data; a tuple of arrays becomes one of inputs."""
    return [
        tuple(inputs(cx, array))
        if isinstance(array, tuple)
        else cx.tensor(array.shape, array.dtype).set(array)
        for array in arrays
    ]


def torch_inputs(torch: ModuleType, arrays: Sequence[Any]) -> list[Any]:
    return [
        tuple(torch_inputs(torch, array))
        if isinstance(array, tuple)
        else to_torch(torch, array).requires_grad_(array.dtype.kind == "f")
        for array in arrays
    ]


def compare(
    torch: ModuleType,
    ours: nn.Module,
    theirs: Any,
    *arrays: Any,
    rtol: float = 1e-5,
) -> None:
    """Fail unless two layers have the same keys, and on the same weights equal values and slopes.

    What is derived is a sum of all outputs with different factors, so that each one counts.
    """
    state = {path: value.numpy().copy() for path, value in theirs.state_dict().items()}
    assert list(ours.state_dict()) == list(state)
    ours.load_state_dict(state)
    cx = Graph()
    given = inputs(cx, arrays)
    found = flat(ours(*given))
    leaves = [x for x in flat(tuple(given)) if x.dtype.is_float]
    parameters = ours.parameters()
    factors = [draw(tuple(map(int, y.shape)), seed=7 + k) for k, y in enumerate(found)]
    losses = [(y * f).sum() for y, f in zip(found, factors, strict=True)]
    loss = reduce(add, losses)
    slopes: list[Tensor] = grad(loss, [*leaves, *parameters.values()])
    cx.retrieve([*found, *slopes])
    cx.execute()

    known = torch_inputs(torch, arrays)
    wanted = flat(theirs(*known))
    total = sum((y * torch.tensor(f)).sum() for y, f in zip(wanted, factors, strict=True))
    weights = dict(theirs.named_parameters())
    assert list(parameters) == list(weights)
    sources = [x for x in flat(tuple(known)) if x.requires_grad] + list(weights.values())
    if sources:
        turned = torch.autograd.grad(total, sources, allow_unused=True, materialize_grads=True)
    else:
        turned = ()
    pairs = [*zip(found, wanted, strict=True), *zip(slopes, turned, strict=True)]
    for mine, other in pairs:
        assert mine.shape == tuple(other.shape)
        value = other.detach().numpy()
        # Sums that nearly cancel are as exact as what they are made of.
        atol = rtol * max(1.0, float(np.abs(value).max(initial=0)))
        np.testing.assert_allclose(mine.numpy(), value, rtol=rtol, atol=atol)

"""Clipping of gradients, element by element or by their common norm."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import reduce

import numpy as np

from luminal_lab.errors import GraphError, RangeError
from luminal_lab.nn.arguments import at_user
from luminal_lab.tensor import Tensor
from luminal_lab.tensor.arguments import told
from luminal_lab.tensor.functions import widened

Gradients = Mapping[str, Tensor]


@told
def grad_norm(gradients: Gradients, norm_type: float = 2.0) -> Tensor:
    """Return the norm of all elements of all gradients, as float32 at least.

    >>> import luminal_lab as ll
    >>> from luminal_lab import nn
    >>> model = nn.Linear(2, 1)
    >>> loss = model(ll.Graph().tensor((4, 2), name="x")).sum()
    >>> gradients = ll.grad(loss, model.parameters())
    >>> nn.grad_norm(gradients).shape
    ()
    """
    tensors = _tensors("grad_norm", gradients)
    power = _limit("grad_norm", "norm_type", norm_type)
    with tensors[0].graph.scope("grad_norm"), tensors[0].graph.whole():
        return _norm(tensors, power)


@told
def clip_grad_norm(
    gradients: Gradients, max_norm: float, norm_type: float = 2.0
) -> tuple[dict[str, Tensor], Tensor]:
    """Return gradients scaled to a norm of at most `max_norm`, and the norm before.

    As PyTorch's `clip_grad_norm_`: times max_norm / (norm + 1e-6) where that is less than 1.

    >>> import luminal_lab as ll
    >>> from luminal_lab.nn.clip import clip_grad_norm
    >>> cx = ll.Graph()
    >>> g = cx.tensor((2,), name="g").set([3.0, 4.0])
    >>> clipped, norm = clip_grad_norm({"g": g}, 1.0)
    >>> cx.retrieve([norm, clipped])
    >>> cx.execute()
    >>> norm.item(), clipped["g"].numpy().round(4).tolist()
    (5.0, [0.6000000238418579, 0.800000011920929])
    """
    what = "clip_grad_norm"
    tensors = _tensors(what, gradients)
    most, power = _limit(what, "max_norm", max_norm), _limit(what, "norm_type", norm_type)
    with tensors[0].graph.scope(what), tensors[0].graph.whole():
        norm = _norm(tensors, power).named("grad_norm")
        factor = (most / (norm + 1e-6)).clip(max=1.0)
        clipped = {name: (widened(g) * factor).cast(g.dtype) for name, g in gradients.items()}
    return clipped, norm


@told
def clip_grad_value(gradients: Gradients, clip_value: float) -> dict[str, Tensor]:
    """Return gradients with every element clamped to ±clip_value.

    >>> import luminal_lab as ll
    >>> from luminal_lab import nn
    >>> model = nn.Linear(2, 1)
    >>> loss = model(ll.Graph().tensor((4, 2), name="x")).sum()
    >>> gradients = ll.grad(loss, model.parameters())
    >>> sorted(nn.clip_grad_value(gradients, 0.5))
    ['bias', 'weight']
    """
    what = "clip_grad_value"
    tensors, most = _tensors(what, gradients), _limit(what, "clip_value", clip_value)
    with tensors[0].graph.scope(what), tensors[0].graph.whole():
        return {name: gradient.clip(-most, most) for name, gradient in gradients.items()}


def _norm(tensors: list[Tensor], power: float) -> Tensor:
    wide = [widened(tensor) for tensor in tensors]
    if power == math.inf:
        return reduce(Tensor.maximum, [tensor.abs().max() for tensor in wide])
    if power == 2:
        return reduce(Tensor.add, [tensor.square().sum() for tensor in wide]).sqrt()
    return reduce(Tensor.add, [tensor.abs().pow(power).sum() for tensor in wide]).pow(1 / power)


def _tensors(what: str, gradients: Gradients) -> list[Tensor]:
    if isinstance(gradients, Mapping) and gradients:  # pyright: ignore[reportUnnecessaryIsInstance]  # a caller may err
        return list(gradients.values())
    raise at_user(
        GraphError(
            f"{what}: the gradients are {gradients!r}, and must be a dict of tensors",
            hint="write ll.grad(loss, model.parameters()), which is one by names",
        )
    )


def _limit(what: str, name: str, value: float) -> float:
    is_number = isinstance(value, (int, float, np.integer, np.floating))  # pyright: ignore[reportUnnecessaryIsInstance]  # as above
    if is_number and not isinstance(value, bool) and value > 0:
        return float(value)
    raise at_user(
        RangeError(
            f"{what}: {name} is {value!r}, and must be a number above 0", hint=f"try {name}=1.0"
        )
    )

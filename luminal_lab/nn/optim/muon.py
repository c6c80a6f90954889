"""Muon: steps for matrices whose singular values are all about 1."""

from __future__ import annotations

import math
from typing import Literal

from typing_extensions import override

from luminal_lab.core.op import ints, tuple_text
from luminal_lab.errors import ArgumentError, ShapeError
from luminal_lab.nn.arguments import at_user
from luminal_lab.nn.limits import steps, within
from luminal_lab.nn.optim.base import LearningRate, Optimiser, State, WeightDecay
from luminal_lab.tensor import Tensor

RATES = ("original", "match_rms_adamw")


class Muon(Optimiser):
    """Muon as in PyTorch, for matrices: weight · (1 - lr · decay) - lr · size · orthogonal.

    mean = old mean · μ + gradient · (1 - μ); with `nesterov` the gradient moved by μ towards it
    takes its place. Divided by its norm, it goes through Newton-Schulz steps

        x = a x + (b x xᵀ + c (x xᵀ)²) x

    which bring its singular values near 1. The size is √max(1, rows / columns), or, to suit
    settings of AdamW with "match_rms_adamw", 0.2 √max(rows, columns). PyTorch takes these steps in
    bfloat16, this in float32. Vectors and embeddings are for another optimiser, such as AdamW.

    >>> import luminal_lab as ll
    >>> from luminal_lab import nn
    >>> cx = ll.Graph()
    >>> w = cx.tensor((2, 2), name="w").set([[1.0, 0.0], [0.0, 2.0]])
    >>> updates = nn.Muon(lr=0.1, weight_decay=0.0).minimise((w * w).sum(), [w])
    >>> cx.execute()
    >>> w.numpy().round(2)
    array([[0.89, 0.  ],
           [0.  , 1.93]], dtype=float32)
    """

    def __init__(
        self,
        lr: LearningRate = 1e-3,
        weight_decay: WeightDecay = 0.1,
        momentum: float = 0.95,
        nesterov: bool = True,
        ns_coefficients: tuple[float, float, float] = (3.4445, -4.775, 2.0315),
        eps: float = 1e-7,
        ns_steps: int = 5,
        adjust_lr_fn: Literal["original", "match_rms_adamw"] | None = None,
    ) -> None:
        super().__init__(lr, weight_decay=weight_decay)
        within(self, "momentum", momentum, below=1.0)
        within(self, "eps", eps)
        steps(self, "ns_steps", ns_steps)
        if len(ns_coefficients) != 3:
            raise at_user(
                ArgumentError(
                    f"Muon: ns_coefficients is {ns_coefficients!r}, and must be three numbers",
                    hint="try (3.4445, -4.775, 2.0315)",
                )
            )
        if adjust_lr_fn not in (None, *RATES):
            raise at_user(
                ArgumentError(
                    f"Muon: there is no adjust_lr_fn {adjust_lr_fn!r}",
                    hint=f"it is None, {' or '.join(map(repr, RATES))}",
                )
            )
        self.momentum = momentum
        self.nesterov = nesterov
        self.ns_coefficients = ns_coefficients
        self.eps = eps
        self.ns_steps = ns_steps
        self.adjust_lr_fn = adjust_lr_fn

    @override
    def update(self, weight: Tensor, gradient: Tensor, state: State) -> Tensor:
        if weight.ndim != 2:
            raise at_user(
                ShapeError(
                    f"Muon: the weight {weight.label} is {tuple_text(weight.shape)}, and no matrix",
                    hint="minimise the matrices with Muon, and the other weights with AdamW",
                )
            )
        mean = state["momentum"] * self.momentum + gradient * (1 - self.momentum)
        state["momentum"] = mean
        way = gradient * (1 - self.momentum) + mean * self.momentum if self.nesterov else mean
        lr = state.numbers["lr"]
        kept = weight * (1 - lr * state.decay) if state.decay else weight
        return kept - self._orthogonal(way) * (lr * self._size(weight))

    def _size(self, weight: Tensor) -> float:
        rows, columns = ints(weight.shape)
        if self.adjust_lr_fn == "match_rms_adamw":
            return 0.2 * math.sqrt(max(rows, columns))
        return math.sqrt(max(1, rows / columns))

    def _orthogonal(self, x: Tensor) -> Tensor:
        """Return a matrix with the singular vectors of x, and all singular values about 1."""
        a, b, c = self.ns_coefficients
        rows, columns = ints(x.shape)
        x = x.T if rows > columns else x
        x = x * x.norm().clip(min=self.eps).recip()
        for _ in range(self.ns_steps):
            square = x @ x.T
            x = x * a + (square * b + (square @ square) * c) @ x
        return x.T if rows > columns else x

    @override
    def options(self) -> str:
        return f"lr={self.lr}, momentum={self.momentum}"

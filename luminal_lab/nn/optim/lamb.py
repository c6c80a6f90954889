"""LAMB: Adam's steps, as long as a share of each weight's own norm; for large batches."""

from __future__ import annotations

from typing_extensions import override

from luminal_lab.nn.optim.adam import Adam
from luminal_lab.nn.optim.base import LearningRate, State, WeightDecay
from luminal_lab.tensor import Tensor


class LAMB(Adam):
    """LAMB (You et al., 2020): weight - lr · ‖weight‖ / ‖step‖ · step.

    The step is AdamW's, (mean / c1) / (√(square / c2) + eps) plus the decay times the weight. Where
    one of the two norms is 0, as at the first step of a weight of zeros, their ratio counts as 1.

    >>> import luminal_lab as ll
    >>> from luminal_lab import nn
    >>> cx = ll.Graph()
    >>> w = cx.tensor((2,), name="w").set([3.0, 4.0])
    >>> updates = nn.LAMB(lr=0.1).minimise((w * w).sum(), [w])
    >>> cx.execute()
    >>> w.numpy().round(3)
    array([2.646, 3.646], dtype=float32)
    """

    def __init__(
        self,
        lr: LearningRate = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-6,
        weight_decay: WeightDecay = 0.0,
    ) -> None:
        super().__init__(lr, betas, eps, weight_decay)

    @override
    def update(self, weight: Tensor, gradient: Tensor, state: State) -> Tensor:
        lr = state.numbers["lr"]
        mean, spread = self._averages(gradient, state)
        step = mean * spread.recip() * (state.numbers["rate"] * -1.0)  # lr times that of Adam
        if state.decay:
            step = step + weight * (lr * state.decay)
        own, length = (x.square().sum().sqrt() for x in (weight, step))
        both = (own > 0) & (length > 0)
        return weight - step * both.where(own * lr * both.where(length, 1.0).recip(), 1.0)

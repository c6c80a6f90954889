"""Gradient descent, with momentum if wanted."""

from __future__ import annotations

from collections.abc import Mapping

from typing_extensions import override

from luminal_lab.errors import ArgumentError
from luminal_lab.nn.arguments import at_user
from luminal_lab.nn.limits import within
from luminal_lab.nn.optim.base import LearningRate, Number, Optimiser, State, WeightDecay
from luminal_lab.tensor import Tensor


class SGD(Optimiser):
    """Gradient descent as in PyTorch's SGD: weight - lr · momentum.

    momentum = old momentum · μ + gradient · (1 - dampening), and the gradient in the first step.

    The decay times the weight is first added to the gradient. With `nesterov` the gradient plus
    μ times the new momentum replaces the momentum.

    >>> import luminal_lab as ll
    >>> cx = ll.Graph()
    >>> w = cx.tensor((2,), name="w").set([1.0, -2.0])
    >>> loss = (w * w).sum().retrieve()
    >>> updates = SGD(lr=0.25).minimise(loss, [w])
    >>> cx.execute()
    >>> loss.item(), w.tolist()
    (5.0, [0.5, -1.0])
    """

    def __init__(
        self,
        lr: LearningRate = 1e-3,
        momentum: float = 0.0,
        dampening: float = 0.0,
        weight_decay: WeightDecay = 0.0,
        nesterov: bool = False,
    ) -> None:
        super().__init__(lr, weight_decay=weight_decay)
        within(self, "momentum", momentum)
        within(self, "dampening", dampening)
        if nesterov and (momentum == 0 or dampening != 0):
            raise at_user(
                ArgumentError(
                    "SGD: nesterov needs a momentum and no dampening, but these are "
                    f"{momentum} and {dampening}",
                    hint="try momentum=0.9, nesterov=True",
                )
            )
        self.momentum = momentum
        self.dampening = dampening
        self.nesterov = nesterov

    @override
    def begin(self, shared: State, lr: Number) -> Mapping[str, Number]:
        numbers: dict[str, Number] = {"lr": lr, "rate": -lr}
        if self.momentum and self.dampening:
            started = shared["started"]
            shared["started"] = started * 0 + 1
            numbers["fresh"] = started * -self.dampening + 1
        return numbers

    @override
    def update(self, weight: Tensor, gradient: Tensor, state: State) -> Tensor:
        if state.decay:
            gradient = weight * state.decay + gradient
        if self.momentum:
            fresh = gradient * state.numbers["fresh"] if self.dampening else gradient
            state["momentum"] = mean = state["momentum"] * self.momentum + fresh
            gradient = mean * self.momentum + gradient if self.nesterov else mean
        return gradient * state.numbers["rate"] + weight

    @override
    def options(self) -> str:
        return f"lr={self.lr}, momentum={self.momentum}"

"""Adam and AdamW: steps of similar size for all weights, from averages of gradients."""

from __future__ import annotations

from collections.abc import Mapping

from typing_extensions import override

from luminal_lab.errors import ArgumentError
from luminal_lab.nn.arguments import at_user
from luminal_lab.nn.limits import within
from luminal_lab.nn.optim.base import LearningRate, Number, Optimiser, State, WeightDecay
from luminal_lab.tensor import Tensor


class Adam(Optimiser):
    """Adam as in PyTorch: weight - lr · (mean / c1) / (√(square / c2) + eps).

    mean   = old mean · β1 + gradient · (1 - β1)      c1 = 1 - β1 ** step
    square = old square · β2 + gradient² · (1 - β2)   c2 = 1 - β2 ** step

    The decay times the weight is first added to the gradient. The averages begin at 0; c1 and c2,
    the same averages of ones, give the share of gradients in them. They are stored directly, as
    this is exact from the first step on.

    >>> import luminal_lab as ll
    >>> cx = ll.Graph()
    >>> w = cx.tensor((2,), name="w").set([1.0, -2.0])
    >>> updates = Adam(lr=0.5).minimise((w * w).sum(), [w])
    >>> cx.execute()
    >>> w.numpy().round(4)
    array([ 0.5, -1.5], dtype=float32)
    """

    decoupled = False
    """Whether the decay shrinks the weight itself, apart from the gradient."""

    def __init__(
        self,
        lr: LearningRate = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: WeightDecay = 0.0,
    ) -> None:
        super().__init__(lr, weight_decay=weight_decay)
        if not isinstance(betas, (tuple, list)) or len(betas) != 2:  # pyright: ignore[reportUnnecessaryIsInstance]  # a caller may err
            raise at_user(
                ArgumentError(
                    f"{type(self).__name__}: betas is {betas!r}, and must be two numbers",
                    hint="try betas=(0.9, 0.999)",
                )
            )
        for k, beta in enumerate(betas):
            within(self, f"betas[{k}]", beta, below=1.0)
        within(self, "eps", eps)
        self.betas = betas
        self.eps = eps

    @override
    def begin(self, shared: State, lr: Number) -> Mapping[str, Number]:
        shares: list[Tensor] = []
        for name, beta in zip(("mean_share", "square_share"), self.betas, strict=True):
            shared[name] = share = shared[name] * beta + (1 - beta)
            shares.append(share)
        # √c2 is factored out of the root and eps, so that no weight has to be divided by it.
        root = shares[1].sqrt()
        return {"lr": lr, "rate": root * shares[0].recip() * -lr, "eps": root * self.eps}

    @override
    def update(self, weight: Tensor, gradient: Tensor, state: State) -> Tensor:
        if state.decay and not self.decoupled:
            gradient = weight * state.decay + gradient
        mean, spread = self._averages(gradient, state)
        if state.decay and self.decoupled:
            weight = weight * (1 - state.numbers["lr"] * state.decay)
        return mean * spread.recip() * state.numbers["rate"] + weight

    def _averages(self, gradient: Tensor, state: State) -> tuple[Tensor, Tensor]:
        """Return the average gradient, and the root of that of squares, with √c2 in both parts."""
        first, second = self.betas
        state["mean"] = mean = state["mean"] * first + gradient * (1 - first)
        square = state["square"] * second + gradient * gradient * (1 - second)
        state["square"] = square
        return mean, square.sqrt() + state.numbers["eps"]

    @override
    def options(self) -> str:
        return f"lr={self.lr}, betas={self.betas}"


class AdamW(Adam):
    """Adam with decoupled decay: the weight is first multiplied by 1 - lr · decay.

    >>> import luminal_lab as ll
    >>> from luminal_lab import nn
    >>> cx = ll.Graph()
    >>> w = cx.tensor((2,), name="w").set([1.0, -2.0])
    >>> updates = nn.AdamW(lr=0.5).minimise((w * w).sum(), [w])
    >>> cx.execute()
    >>> w.numpy().round(3).tolist()
    [0.4950000047683716, -1.4900000095367432]
    """

    decoupled = True

    def __init__(
        self,
        lr: LearningRate = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: WeightDecay = 1e-2,
    ) -> None:
        super().__init__(lr, betas, eps, weight_decay)

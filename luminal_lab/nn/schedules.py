"""Learning rates that change: functions of the count of steps, computed in the graph.

A schedule takes the step, which counts from 0 and may be a tensor of any shape, so that
`schedule(cx.arange(1000))` is its curve. A plain number is a constant schedule.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import wraps
from typing import TypeAlias, TypeVar

from typing_extensions import dataclass_transform, override

from luminal_lab.errors import GraphError
from luminal_lab.nn.arguments import at_user
from luminal_lab.nn.limits import steps, within
from luminal_lab.tensor import Tensor

Rate: TypeAlias = "float | Schedule"
T = TypeVar("T", bound="Schedule")


@dataclass_transform(frozen_default=True)
def schedule(cls: type[T]) -> type[T]:
    """Turn a schedule into a frozen dataclass whose errors name the caller's line."""
    frozen = dataclass(frozen=True, slots=True)(cls)
    init = frozen.__init__
    init.__code__ = init.__code__.replace(co_filename=__file__)
    rate = frozen.__call__

    @wraps(rate)
    def call(self: T, step: Tensor) -> Tensor:
        if isinstance(step, Tensor):  # pyright: ignore[reportUnnecessaryIsInstance]  # a caller may err
            return rate(self, step)
        raise at_user(
            GraphError(
                f"{cls.__name__}: the step is {step!r} and not a tensor",
                hint="its curve is schedule(cx.arange(100)), for a graph cx",
            )
        )

    type.__setattr__(frozen, "__call__", call)
    return frozen


class Schedule(ABC):
    """The base of schedules: a value that gives the learning rate of each step."""

    __slots__ = ()

    @abstractmethod
    def __call__(self, step: Tensor) -> Tensor:
        """Return the learning rate at a step, as float32."""


@schedule
class StepDecay(Schedule):
    """A rate times a factor once per `every` steps, like PyTorch's StepLR."""

    lr: float
    every: int
    factor: float = 0.1

    def __post_init__(self) -> None:
        """Check the numbers."""
        within(self, "lr", self.lr)
        steps(self, "every", self.every)
        within(self, "factor", self.factor, above=True)

    @override
    def __call__(self, step: Tensor) -> Tensor:
        done = (step - step.remainder(self.every)).cast("float32")
        return (done * (math.log2(self.factor) / self.every)).exp2() * self.lr


@schedule
class Exponential(Schedule):
    """A rate times a factor after every step, like PyTorch's ExponentialLR."""

    lr: float
    factor: float

    def __post_init__(self) -> None:
        """Check the numbers."""
        within(self, "lr", self.lr)
        within(self, "factor", self.factor, above=True)

    @override
    def __call__(self, step: Tensor) -> Tensor:
        return (step.cast("float32") * math.log2(self.factor)).exp2() * self.lr


@schedule
class Linear(Schedule):
    """A rate times a factor from `start` to `end` in even steps, like PyTorch's LinearLR.

    After `steps` the factor stays.
    """

    lr: float
    steps: int
    start: float = 1 / 3
    end: float = 1.0

    def __post_init__(self) -> None:
        """Check the numbers."""
        within(self, "lr", self.lr)
        steps(self, "steps", self.steps)
        within(self, "start", self.start)
        within(self, "end", self.end)

    @override
    def __call__(self, step: Tensor) -> Tensor:
        rise = self.lr * (self.end - self.start)
        return _part(step, 0, self.steps) * rise + self.lr * self.start


@schedule
class Cosine(Schedule):
    """Half a cosine from a rate down to the least, like PyTorch's CosineAnnealingLR.

    After `steps` it stays at the least.
    """

    lr: float
    steps: int
    least: float = 0.0

    def __post_init__(self) -> None:
        """Check the numbers."""
        within(self, "lr", self.lr)
        steps(self, "steps", self.steps)
        within(self, "least", self.least)

    @override
    def __call__(self, step: Tensor) -> Tensor:
        return _falling(_part(step, 0, self.steps), self.lr, self.least)


@schedule
class Warmup(Schedule):
    """A warm-up from a share `start` of a rate evenly up to it, then another schedule.

    Like PyTorch's SequentialLR of LinearLR and another one, whose steps begin after the warm-up.
    """

    steps: int
    then: Rate
    start: float = 0.01

    def __post_init__(self) -> None:
        """Check the numbers."""
        steps(self, "steps", self.steps)
        within(self, "start", self.start)
        if not isinstance(self.then, Schedule):
            within(self, "then", self.then)

    @override
    def __call__(self, step: Tensor) -> Tensor:
        factor = _part(step, 0, self.steps) * (1 - self.start) + self.start
        if isinstance(self.then, Schedule):
            return factor * self.then((step - self.steps).clip(min=0))
        return factor * self.then


@schedule
class OneCycle(Schedule):
    """Up to a rate and down to nearly 0, by two half cosines, like PyTorch's OneCycleLR."""

    lr: float
    steps: int
    rising: float = 0.3
    """The share of the steps in which it rises."""
    first: float = 25.0
    """The ratio of the largest rate to the first."""
    last: float = 1e4
    """The ratio of the first rate to the last."""

    def __post_init__(self) -> None:
        """Check the numbers."""
        within(self, "lr", self.lr)
        steps(self, "steps", self.steps)
        within(self, "rising", self.rising, below=1.0)
        within(self, "first", self.first, above=True)
        within(self, "last", self.last, above=True)

    @override
    def __call__(self, step: Tensor) -> Tensor:
        low, top, end = self.lr / self.first, self.rising * self.steps - 1, self.steps - 1
        down = _falling(_part(step, top, end), self.lr, low / self.last)
        if top <= 0:
            return down
        up = _falling(_part(step, 0, top), low, self.lr)
        return (step.cast("float32") > top).where(down, up)


def _part(step: Tensor, start: float, end: float) -> Tensor:
    """Return the progress from one step to another, from 0 to 1."""
    way = step.cast("float32")
    way = way - start if start else way
    return (way * (1 / max(end - start, 1e-9))).clip(0.0, 1.0)


def _falling(part: Tensor, start: float, end: float) -> Tensor:
    """Return a number that moves from start to end along half a cosine."""
    # (1 + cos(π p)) / 2 as a square, which is also exact near the end.
    wave = (part * (-math.pi / 2) + math.pi / 2).sin()
    return wave * wave * (start - end) + end

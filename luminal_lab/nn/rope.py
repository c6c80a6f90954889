"""Rotary position embedding: pairs of features are turned by angles that grow with the position.

Pair k at position p is turned by p · base^(-2k / size). Half of the features stand before the other
half (Llama as published by Hugging Face), or the two of a pair are neighbours (`interleaved`, as in
the paper). The score of two positions then depends on their distance alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from typing_extensions import override

from luminal_lab.core.builder import DimLike
from luminal_lab.core.dims import Dim, known
from luminal_lab.core.op import size_of
from luminal_lab.errors import ShapeError
from luminal_lab.nn.arguments import at_user, same_size, sizes
from luminal_lab.nn.limits import within
from luminal_lab.nn.module import Module
from luminal_lab.tensor import Tensor
from luminal_lab.tensor.joining import concat
from luminal_lab.tensor.lazy import Workspace
from luminal_lab.tensor.parameter import Parameter
from luminal_lab.tensor.sources import Sources


@dataclass(frozen=True)
class Scaling:
    """A way to exceed the context of the training: `turns` are changed, waves get an `amplitude`.

    >>> [kind.__name__ for kind in ll.nn.rope.Scaling.__subclasses__()]
    ['LinearScaling', 'DynamicScaling', 'Llama3Scaling', 'YarnScaling', 'FactorScaling']
    """

    def __post_init__(self) -> None:
        """Raise for a number that slows nothing down."""
        for name in ("factor", "fast", "slow"):
            value: object = getattr(self, name, 1.0)
            if isinstance(value, (int, float)):  # what is no number at all is told elsewhere
                within(self, name, value, above=True)

    def turns(self, turns: Tensor, rope: RotaryEmbedding, end: Dim) -> Tensor:
        """Return other turns per position of each pair, for a text of `end` positions so far.

        >>> rope = ll.nn.RotaryEmbedding(4)
        >>> ll.nn.rope.LinearScaling(2.0).turns(rope.frequencies(cx), rope, 0).shape
        (2,)
        """
        raise NotImplementedError

    def waves(self) -> float:
        """Return the number that all cosines and sines are multiplied by.

        >>> ll.nn.rope.LinearScaling(2.0).waves()
        1.0
        """
        return 1.0


@dataclass(frozen=True)
class LinearScaling(Scaling):
    """All pairs turn slower by a factor.

    >>> LinearScaling(4.0)
    LinearScaling(factor=4.0)
    """

    factor: float

    @override
    def turns(self, turns: Tensor, rope: RotaryEmbedding, end: Dim) -> Tensor:
        return turns * (1 / self.factor)


@dataclass(frozen=True)
class DynamicScaling(Scaling):
    """The base grows with a text that is longer than the context of the training.

    >>> DynamicScaling(2.0, context=2048)
    DynamicScaling(factor=2.0, context=2048)
    """

    factor: float
    context: int

    @override
    def turns(self, turns: Tensor, rope: RotaryEmbedding, end: Dim) -> Tensor:
        length = _count(turns.graph, end).float().clip(min=float(self.context))
        growth = length * (self.factor / self.context) - (self.factor - 1)
        share = rope.pairs(turns.graph) * (-2 / (rope.size - 2))  # an exponent of the growth
        return turns * (growth.log2() * share).exp2()


@dataclass(frozen=True)
class Llama3Scaling(Scaling):
    """The scaling with which Llama 3.1 and later exceed their original training context.

    A pair that turns at most `low` times within that context is slowed down by `factor`, one that
    turns `high` times or more stays unchanged, and pairs in between get a mixture.

    >>> import luminal_lab as ll
    >>> from luminal_lab import nn
    >>> nn.Llama3Scaling(factor=8.0).context
    8192
    """

    factor: float
    low: float = 1.0
    high: float = 4.0
    context: int = 8192

    @override
    def turns(self, turns: Tensor, rope: RotaryEmbedding, end: Dim) -> Tensor:
        times = turns * (self.context / (2 * math.pi))
        kept = ((times - self.low) * (1 / (self.high - self.low))).clip(0.0, 1.0)
        return turns * (kept * (1 - 1 / self.factor) + 1 / self.factor)


@dataclass(frozen=True)
class YarnScaling(Scaling):
    """YaRN: pairs that turn less than `slow` times within a context are slowed down by `factor`.

    Those that turn more than `fast` times stay, and pairs in between get a mixture by their number;
    `whole` rounds the ends of this range. Waves are `amplitude` high, by default as in the paper.

    >>> round(YarnScaling(4.0, context=2048).waves(), 4)
    1.1386
    """

    factor: float
    context: int
    fast: float = 32.0
    slow: float = 1.0
    amplitude: float | None = None
    whole: bool = True

    @override
    def turns(self, turns: Tensor, rope: RotaryEmbedding, end: Dim) -> Tensor:
        low, high = (
            rope.size * math.log(self.context / (times * 2 * math.pi)) / (2 * math.log(rope.base))
            for times in (self.fast, self.slow)
        )
        if self.whole:
            low, high = math.floor(low), math.ceil(high)
        low, high = max(low, 0), min(high, rope.size - 1)
        width = high - low or 0.001
        slowed = ((rope.pairs(turns.graph) - low) * (1 / width)).clip(0.0, 1.0)
        return turns * (1 - slowed * (1 - 1 / self.factor))

    @override
    def waves(self) -> float:
        growth = 0.1 * math.log(self.factor) + 1 if self.factor > 1 else 1.0
        return growth if self.amplitude is None else self.amplitude


@dataclass(frozen=True)
class FactorScaling(Scaling):
    """Each pair turns slower by a factor of its own; in a text beyond a context, by a long one.

    This is LongRoPE, and what GGUF files tell of any other scaling.

    >>> FactorScaling((1.0, 2.0), (4.0, 8.0), context=4096).context
    4096
    """

    short: tuple[float, ...]
    long: tuple[float, ...] = ()
    context: int = 0
    amplitude: float = 1.0

    @override
    def turns(self, turns: Tensor, rope: RotaryEmbedding, end: Dim) -> Tensor:
        graph, pairs = turns.graph, rope.size // 2
        for factors in (self.short, self.long):
            if factors and len(factors) != pairs:
                raise at_user(
                    ShapeError(
                        f"rotary_embedding: {len(factors)} factors are given for {pairs} pairs",
                        hint="give one for each pair of features",
                    )
                )
        is_long = known(graph.as_dim(end) > self.context) if self.long else False
        if is_long is not None:
            return turns * _recips(graph, self.long if is_long else self.short)
        beyond = _count(graph, end) > self.context
        return turns * beyond.where(_recips(graph, self.long), _recips(graph, self.short))

    @override
    def waves(self) -> float:
        return self.amplitude


def _count(graph: Workspace, size: Dim) -> Tensor:
    assert isinstance(graph, Sources)
    return graph.constant(size, "int64")


def _recips(graph: Workspace, factors: tuple[float, ...]) -> Tensor:
    """Return constants in a graph: one over each factor."""
    return fixed(graph, [1 / factor for factor in factors])


def fixed(graph: Workspace, values: Sequence[float]) -> Tensor:
    """Return numbers of a model's configuration as a tensor, which nothing trains.

    >>> fixed(cx, [0.5, 0.25]).shape
    (2,)
    """
    assert isinstance(graph, Sources)
    return graph.parameter(Parameter((len(values),), value=list(values), trainable=False))


class Rotation(NamedTuple):
    """The turns of some positions, computed once for all heads and layers."""

    cos: Tensor
    """[seq, 1, pairs], or [seq, pairs, 1] if interleaved."""
    sin: Tensor
    """The same with 2 instead of 1: the first of a pair gains -sin of the second."""

    def turn(self, x: Tensor) -> Tensor:
        """Return [..., seq, size] with each pair of features turned; further features stay."""
        interleaved = self.sin.shape[1] == self.cos.shape[1]
        size = size_of(self.sin.shape[1:])
        if x.shape[-1] != size:
            front, rest = x.split([size, x.shape[-1] - size], -1)
            return concat([self.turn(front), rest], -1)
        apart = x.unflatten(-1, self.sin.shape[1:])
        return (
            (apart * self.cos + apart.flip(-1 if interleaved else -2) * self.sin)
            .flatten(-2)
            .cast(x.dtype)
        )


class RotaryEmbedding(Module):
    """Turns queries or keys [..., seq, size] by their positions, which begin at `offset`.

    >>> from luminal_lab.session import Graph
    >>> cx = Graph()
    >>> queries = cx.tensor((1, 8, "seq", 64))
    >>> RotaryEmbedding(64)(queries, cx.dim("past", 0)).shape
    (1, 8, seq, 64)
    """

    def __init__(
        self,
        size: int,
        base: float = 10_000.0,
        *,
        interleaved: bool = False,
        scaling: Scaling | None = None,
    ) -> None:
        if sizes("rotary_embedding", size=size)[0] % 2:
            raise at_user(
                ShapeError(
                    f"rotary_embedding: size is {size}, and features are turned in pairs",
                    hint="give an even number, such as 64",
                )
            )
        within("rotary_embedding", "base", base, above=True)
        self.size = size
        self.base = base
        self.interleaved = interleaved
        self.scaling = scaling

    @override
    def forward(self, x: Tensor, offset: DimLike = 0) -> Tensor:
        same_size("rotary_embedding", x, -1, self.size, "size")
        if x.ndim < 2:
            raise ShapeError(
                f"rotary_embedding: {x.label} has no axis of positions",
                hint="its axes are [..., seq, size]",
            )
        return self.rotation(x.graph, x.shape[-2], offset).turn(x)

    def rotation(self, graph: Workspace, length: DimLike, offset: DimLike = 0) -> Rotation:
        """Return the turns of `length` positions, from `offset` on.

        >>> turns = ll.nn.RotaryEmbedding(64).rotation(cx, 3)
        >>> turns.cos.shape
        (3, 1, 32)
        """
        assert isinstance(graph, Sources)
        start = graph.as_dim(offset)
        end = start + graph.as_dim(length)
        positions = graph.arange(start, end).float()
        angles = positions.unsqueeze(1) * self.frequencies(graph, end)  # [seq, pairs]
        pair = 2 if self.interleaved else 1
        sign = graph.arange(-1, 3, 2).float()
        sign = sign if self.interleaved else sign.unsqueeze(1)
        waves = angles.cos(), angles.sin()
        if self.scaling is not None and (height := self.scaling.waves()) != 1:
            waves = waves[0] * height, waves[1] * height
        return Rotation(waves[0].unsqueeze(pair), waves[1].unsqueeze(pair) * sign)

    def frequencies(self, graph: Workspace, end: DimLike = 0) -> Tensor:
        """Return the angle by which each pair turns from one position to the next.

        Some scalings look at the `end` of the text so far.

        >>> y = ll.nn.RotaryEmbedding(4, base=100).frequencies(cx).retrieve()
        >>> cx.execute()
        >>> y.numpy().round(4)
        array([1. , 0.1], dtype=float32)
        """
        turns = (self.pairs(graph) * (-2 / self.size * math.log2(self.base))).exp2()
        if self.scaling is None:
            return turns
        return self.scaling.turns(turns, self, graph.as_dim(end))

    def pairs(self, graph: Workspace) -> Tensor:
        """Return the numbers of the pairs.

        >>> ll.nn.RotaryEmbedding(4).pairs(cx).shape
        (2,)
        """
        assert isinstance(graph, Sources)
        return graph.arange(self.size // 2).float()

    @override
    def options(self) -> str:
        return f"{self.size}, base={self.base:g}" + ", interleaved" * self.interleaved

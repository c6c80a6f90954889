"""Rotary position embedding: pairs of features are turned by angles that grow with the position.

Pair k at position p is turned by p · base^(-2k / size). Half of the features stand before the other
half (Llama as published by Hugging Face), or the two of a pair are neighbours (`interleaved`, as in
the paper). The score of two positions then depends on their distance alone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

from typing_extensions import override

from luminal_lab.core.builder import DimLike
from luminal_lab.errors import ShapeError
from luminal_lab.nn.arguments import at_user, same_size, sizes
from luminal_lab.nn.limits import within
from luminal_lab.nn.module import Module
from luminal_lab.tensor import Tensor
from luminal_lab.tensor.lazy import Workspace
from luminal_lab.tensor.sources import Sources


@dataclass(frozen=True)
class Llama3Scaling:
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


class Rotation(NamedTuple):
    """The turns of some positions, computed once for all heads and layers."""

    cos: Tensor
    """[seq, 1, pairs], or [seq, pairs, 1] if interleaved."""
    sin: Tensor
    """The same with 2 instead of 1: the first of a pair gains -sin of the second."""

    def turn(self, x: Tensor) -> Tensor:
        """Return [..., seq, size] with each pair of features turned."""
        interleaved = self.sin.shape[1] == self.cos.shape[1]
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
        scaling: Llama3Scaling | None = None,
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
        positions = graph.arange(start, start + graph.as_dim(length)).float()
        angles = positions.unsqueeze(1) * self.frequencies(graph)  # [seq, pairs]
        pair = 2 if self.interleaved else 1
        sign = graph.arange(-1, 3, 2).float()
        sign = sign if self.interleaved else sign.unsqueeze(1)
        return Rotation(angles.cos().unsqueeze(pair), angles.sin().unsqueeze(pair) * sign)

    def frequencies(self, graph: Workspace) -> Tensor:
        """Return the angle by which each pair turns from one position to the next.

        >>> y = ll.nn.RotaryEmbedding(4, base=100).frequencies(cx).retrieve()
        >>> cx.execute()
        >>> y.numpy().round(4)
        array([1. , 0.1], dtype=float32)
        """
        assert isinstance(graph, Sources)
        pairs = graph.arange(self.size // 2).float()
        turn = (pairs * (-2 / self.size * math.log2(self.base))).exp2()
        scaling = self.scaling
        if scaling is None:
            return turn
        turns = turn * (scaling.context / (2 * math.pi))
        kept = ((turns - scaling.low) * (1 / (scaling.high - scaling.low))).clip(0.0, 1.0)
        return turn * (kept * (1 - 1 / scaling.factor) + 1 / scaling.factor)

    @override
    def options(self) -> str:
        return f"{self.size}, base={self.base:g}" + ", interleaved" * self.interleaved

"""A table of vectors, one for each token."""

from __future__ import annotations

import numpy as np
from typing_extensions import override

from luminal_lab.core.dtypes import DTypeLike
from luminal_lab.errors import ArgumentError, DTypeError, RangeError
from luminal_lab.nn.arguments import at_user, same_size, sizes
from luminal_lab.nn.init import Values, normal
from luminal_lab.nn.module import Module, kind_of
from luminal_lab.passes.gradients import stop_gradient
from luminal_lab.tensor import Tensor
from luminal_lab.tensor.parameter import Parameter


class Embedding(Module):
    """The row of a table for each token; `head` maps back with the same weight.

    The row of `padding_idx` begins with zeros, and its uses do not train it.

    >>> from luminal_lab.session import Graph
    >>> layer = Embedding(100, 8)
    >>> x = layer(Graph().tensor((2, 5), "int64"))
    >>> x.shape, layer.head(x).shape
    ((2, 5, 8), (2, 5, 100))
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        *,
        dtype: DTypeLike = "float32",
    ) -> None:
        self.num_embeddings, self.embedding_dim = sizes(
            kind_of(self), num_embeddings=num_embeddings, embedding_dim=embedding_dim
        )
        shape = self.num_embeddings, self.embedding_dim
        self.padding_idx = None if padding_idx is None else self._row(padding_idx)
        self.weight = Parameter(shape, dtype, init=self._drawn)

    def _row(self, number: int) -> int:
        if isinstance(number, bool) or not isinstance(number, (int, np.integer)):  # pyright: ignore[reportUnnecessaryIsInstance]  # a caller may err
            raise at_user(
                ArgumentError(
                    f"{kind_of(self)}: padding_idx is {number!r}, and must be the number of a row",
                    hint="it is the token whose row stands for nothing",
                )
            )
        if not -self.num_embeddings <= number < self.num_embeddings:
            raise at_user(
                RangeError(
                    f"{kind_of(self)}: padding_idx is {number}, and num_embeddings "
                    f"{self.num_embeddings}",
                    hint="it is the token whose row stands for nothing",
                )
            )
        return int(number) % self.num_embeddings

    def _drawn(self, shape: tuple[int, ...], rng: np.random.Generator) -> Values:
        values = normal(shape, rng)
        if self.padding_idx is not None:
            values[self.padding_idx] = 0
        return values

    @override
    def forward(self, x: Tensor) -> Tensor:
        if x.dtype.kind != "int":
            raise at_user(
                DTypeError(
                    f"{kind_of(self)}: {x.label} is {x.dtype}, and tokens are integers",
                    hint='make them so, as in cx.tensor(shape, "int64")',
                )
            )
        rows = x.other("embedding", self.weight).embedding(x)
        if self.padding_idx is None:
            return rows
        return (x == self.padding_idx).unsqueeze(-1).where(stop_gradient(rows), rows)

    def head(self, x: Tensor) -> Tensor:
        """Return the products of x with all rows: the scores of a model with a tied head.

        >>> words = ll.nn.Embedding(100, 8)
        >>> words.head(words(cx.tensor((1, 5), "int64"))).shape
        (1, 5, 100)
        """
        same_size(f"{kind_of(self)}.head", x, -1, self.embedding_dim, "embedding_dim")
        return x.linear(self.weight)

    @override
    def matrices(self) -> tuple[Parameter]:
        return (self.weight,)

    @override
    def options(self) -> str:
        return f"{self.num_embeddings}, {self.embedding_dim}"

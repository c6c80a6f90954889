"""The KV cache: keys and values of all positions so far, in buffers that each run extends."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, runtime_checkable

import numpy as np
from typing_extensions import override

from luminal_lab.core.builder import DimLike
from luminal_lab.core.dims import Dim, Expr, Symbol, evaluate, known
from luminal_lab.core.op import ints
from luminal_lab.errors import ArgumentError, GraphError, LabError, ShapeError
from luminal_lab.nn.arguments import at_user, sizes
from luminal_lab.tensor import Tensor
from luminal_lab.tensor.sources import Sources


@runtime_checkable
class CountedGraph(Protocol):
    """The services that a cache needs from its graph: to count runs, and to tell and set dims."""

    step: int

    @property
    def run_sizes(self) -> Mapping[str, int]:
        """The sizes of dims in the last run."""
        ...

    def set_dim(self, name: str | Symbol, size: int) -> None:
        """Set the size of a symbolic dim."""
        ...


class KVCache:
    """Buffers of a fixed capacity, whose first `past` positions hold keys and values.

    An attention with the cache writes its new rows from `past` on, into buffers that it
    creates at first use, and reads the valid part, `[:past + seq]`. The buffers are
    carried, so that the next run begins with the rows of this one. `advance` moves `past`
    before each run, to the end of the rows from the last one:

    >>> from luminal_lab.nn.models import GPT2
    >>> from luminal_lab.session import Graph
    >>> model = GPT2(layers=2, heads=2, width=16, vocab=50, context=32)
    >>> cx = Graph()
    >>> tokens = cx.tensor((1, "seq"), "int64", "tokens")
    >>> cache = KVCache(cx, capacity=32)
    >>> best = model(tokens, cache=cache)[0, -1].argmax().retrieve()
    >>> text, new = [], [7, 2, 9]
    >>> cache.begin()
    >>> for _ in range(4):
    ...     cache.advance()
    ...     _ = tokens.set([new])
    ...     cx.execute()
    ...     text, new = text + new, [best.item()]
    >>> len(text)
    6

    Prefill and decode can be two graphs with a cache each. Once the results are read,
    `decode.transfer(first.buffers, second.buffers)` moves the rows from one to the other, and
    `second.begin(at=9)` gives the number of positions.
    """

    def __init__(self, cx: Sources, capacity: int, past: DimLike = "past") -> None:
        if not isinstance(cx, Sources):  # pyright: ignore[reportUnnecessaryIsInstance]  # a caller may err
            raise at_user(
                ArgumentError(
                    f"kv_cache: {cx!r} is not a graph",
                    hint="the graph comes first, as in KVCache(cx, capacity=1024)",
                )
            )
        sizes("kv_cache", capacity=capacity)
        self.graph = cx
        self._counted = cx if isinstance(cx, CountedGraph) else None
        self.capacity = capacity
        if isinstance(past, str) and past.isidentifier() and not cx.has_dim(past):
            past = cx.dim(past, 0, capacity)
        try:
            self.past: Dim = cx.as_dim(past)
        except LabError as error:
            raise at_user(error) from None
        if isinstance(self.past, int) and self.past >= capacity:
            raise at_user(
                ShapeError(
                    f"kv_cache: past is {self.past} already, and the capacity is {capacity}",
                    hint="make the capacity larger",
                )
            )
        """The number of positions before a run, set by `begin`, `advance` or `set_dim`."""
        self._buffers: dict[object, tuple[Tensor, Tensor]] = {}
        self._end: int | None = None  # where the next run begins, if none comes between
        self._runs_then = self._runs  # how many there were when that was noted
        self._filled: Dim | None = None  # where a run ends

    @property
    def buffers(self) -> list[tuple[Tensor, Tensor]]:
        """The inputs of keys and values, a pair for each attention: `transfer` moves them."""
        return list(self._present().values())

    def extend(self, owner: object, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Write new rows [batch, heads, seq, size] of an attention; return all valid rows.

        >>> cache = ll.nn.KVCache(cx, capacity=16)
        >>> rows = cx.tensor((1, 2, 3, 4))
        >>> keys, values = cache.extend("attention", rows, rows)
        >>> keys.shape
        (1, 2, past + 3, 4)
        """
        if keys.graph is not self.graph:
            raise at_user(
                GraphError(
                    f"kv_cache: {keys.label} belongs to another graph than the cache",
                    hint="make a cache for each graph; transfer moves its buffers' values",
                )
            )
        self._buffers = present = self._present()
        if owner in present:
            self._check_again(present[owner], keys, values)
        if known(self.past + keys.shape[-2] > self.capacity):
            raise at_user(
                ShapeError(
                    f"kv_cache: {keys.shape[-2]} rows at {self.past} are more than its capacity, "
                    f"{self.capacity}",
                    hint="make the capacity larger, or give fewer at a time",
                )
            )
        if owner not in present:
            name = f"cache.{len(present)}"
            present[owner] = (
                self._buffer(f"{name}.keys", keys),
                self._buffer(f"{name}.values", values),
            )
        self._filled = self.past + keys.shape[-2]
        valid: list[Tensor] = []
        for rows, buffer in zip((keys, values), present[owner], strict=True):
            written = self.graph.carry(buffer.update(rows, self.past, -2), buffer)
            valid.append(written.slice_along(-2, 0, self.past + rows.shape[-2]))
        return valid[0], valid[1]

    def begin(self, at: int = 0) -> None:
        """Let the next run begin a text, or continue after filled positions.

        The buffers' contents from there on are never read.

        >>> cache = ll.nn.KVCache(cx, capacity=16)
        >>> cache.begin(at=9)
        >>> y = cx.constant(cache.past).retrieve()
        >>> cx.execute()
        >>> y.item()
        9
        """
        self._move("begin", at)
        self._end, self._runs_then = at, self._runs

    def advance(self) -> None:
        """Let the next run begin after the rows of the last one; call it before each run."""
        # A failed or stopped run has changed nothing, and the graph does not count it.
        if self._counted is not None and self._filled is not None:
            if self._runs > self._runs_then:
                self._end = evaluate(self._filled, self._counted.run_sizes)
            self._runs_then = self._runs
        if self._end is None:
            raise at_user(
                GraphError(
                    "advance: it is not known how many positions of the cache are filled",
                    hint="call begin() before the first run of a text, or begin(at=…) after "
                    "transfer",
                )
            )
        if self._end >= self.capacity:
            raise at_user(
                ShapeError(
                    f"advance: the cache is full: {self._end} positions, and capacity = "
                    f"{self.capacity}",
                    hint="make the capacity larger, or call begin() for another text",
                )
            )
        self._move("advance", self._end)

    def _move(self, what: str, to: int) -> None:
        if not isinstance(self.past, Symbol) or self._counted is None:
            raise at_user(
                GraphError(
                    f"{what}: past is {self.past}, which is not one symbol that could be set",
                    hint='leave it out, or name it, as in KVCache(cx, capacity=32, past="past")',
                )
            )
        try:
            self._counted.set_dim(self.past, to)
        except LabError as error:
            raise at_user(error) from None

    @property
    def _runs(self) -> int:
        return 0 if self._counted is None else self._counted.step

    def _check_again(self, buffers: tuple[Tensor, Tensor], keys: Tensor, values: Tensor) -> None:
        """Raise unless an attention may write new rows into its buffers."""
        for rows, buffer in zip((keys, values), buffers, strict=True):
            if (*rows.shape[:-2], rows.shape[-1]) != (*buffer.shape[:-2], buffer.shape[-1]):
                raise at_user(
                    ShapeError(
                        f"kv_cache: {rows.label} does not go into the buffer {buffer.label}",
                        hint="make a cache for each batch; only the number of rows may differ",
                    )
                )
            if any(old == buffer.id for _, old in self.graph.ir.carries):
                raise at_user(
                    GraphError(
                        f"kv_cache: this attention has written into {buffer.label} already",
                        hint="make another KVCache for another call in the same graph",
                    )
                )

    def clear(self, batch: int = 1) -> None:
        """Fill all buffers with zeros; a symbolic batch takes the given size.

        This is not needed before another text of the same batch: `begin` is enough.

        >>> cache, rows = ll.nn.KVCache(cx, capacity=4), cx.tensor(("batch", 1, 1, 2))
        >>> keys, values = cache.extend("attention", rows, rows)
        >>> cache.clear(batch=3)
        >>> cache.buffers[0][0].numpy().shape
        (3, 1, 4, 2)
        """
        for pair in self.buffers:
            for buffer in pair:
                shape = tuple(batch if isinstance(dim, Expr) else dim for dim in buffer.shape)
                buffer.set(np.zeros(shape, buffer.dtype.numpy))

    @override
    def __repr__(self) -> str:
        count = len(self.buffers)
        return f"<KVCache past={self.past}, capacity={self.capacity}, attentions={count}>"

    def _present(self) -> dict[object, tuple[Tensor, Tensor]]:
        """Return the buffers, except those that a rerun notebook cell took back."""
        ir = self.graph.snapshot((), ())
        return {owner: pair for owner, pair in self._buffers.items() if pair[0].id in ir}

    def _buffer(self, name: str, rows: Tensor) -> Tensor:
        shape = (*rows.shape[:-2], self.capacity, rows.shape[-1])
        buffer = self.graph.tensor(shape, rows.dtype, name)
        if not any(isinstance(dim, Expr) for dim in shape):
            # Created when a run needs it, which copies this single 0.
            zero = np.zeros((), buffer.dtype.numpy)
            buffer.set(lambda: np.broadcast_to(zero, ints(buffer.shape)))
        return buffer

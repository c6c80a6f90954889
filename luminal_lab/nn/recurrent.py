"""Recurrent layers: cells, and cells unrolled over a known number of steps."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, Literal, TypeAlias

from typing_extensions import override

from luminal_lab.core.dims import Expr
from luminal_lab.core.dtypes import DTypeLike
from luminal_lab.core.op import tuple_text
from luminal_lab.errors import ArgumentError, ShapeError
from luminal_lab.nn.arguments import at_user, has_rank, probability, same_size, sizes
from luminal_lab.nn.init import within
from luminal_lab.nn.module import Module, kind_of
from luminal_lab.tensor import Tensor
from luminal_lab.tensor.joining import concat, stack
from luminal_lab.tensor.movement import limited
from luminal_lab.tensor.parameter import Parameter

State: TypeAlias = tuple[Tensor, ...]
Given: TypeAlias = "Tensor | tuple[Tensor, Tensor] | None"
Nonlinearity: TypeAlias = Literal["tanh", "relu"]


class Recurrence(Module, ABC):
    """The computation of a recurrent layer at each step, and the sizes of its weights."""

    gates: ClassVar[int]
    """The number of vectors of the hidden size that the weights produce."""
    states: ClassVar[int] = 1
    """The number of vectors passed from step to step; the first is the output."""
    input_size: int
    hidden_size: int

    @abstractmethod
    def step(self, seen: Tensor, kept: Tensor, state: State) -> State:
        """Return the next state from the weighted input and the weighted output.

        >>> seen, kept, state = cx.tensor((1, 6)), cx.tensor((1, 6)), (cx.tensor((1, 2)),)
        >>> (state,) = ll.nn.GRUCell(5, 2).step(seen, kept, state)
        >>> state.shape
        (1, 2)
        """

    def _weights(self, size: int, bias: bool, dtype: DTypeLike) -> dict[str, Parameter | None]:
        rows, draw = self.gates * self.hidden_size, within(self.hidden_size)
        return {
            "weight_ih": Parameter((rows, size), dtype, init=draw),
            "weight_hh": Parameter((rows, self.hidden_size), dtype, init=draw),
            "bias_ih": Parameter((rows,), dtype, init=draw) if bias else None,
            "bias_hh": Parameter((rows,), dtype, init=draw) if bias else None,
        }

    def _first(self, given: Given, zeros: Tensor) -> State:
        """Return the initial state, zeros unless one is given."""
        if given is None:
            return (zeros,) * self.states
        state = given if isinstance(given, tuple) else (given,)
        if len(state) != self.states:
            raise at_user(
                ArgumentError(
                    f"{kind_of(self)}: {len(state)} states are given, and it has {self.states}",
                    hint="an LSTM has a pair (h, c), and others have h",
                )
            )
        for part in state:
            if part.shape != zeros.shape:
                raise at_user(
                    ShapeError(
                        f"{kind_of(self)}: the state {part.label} must be "
                        f"{tuple_text(zeros.shape)}",
                        hint="its last axis is the hidden size; leave it out to begin with zeros",
                    )
                )
        return state

    @override
    def options(self) -> str:
        return f"{self.input_size}, {self.hidden_size}"


class RNNStep(Recurrence):
    """tanh (or ReLU) of the weighted input plus the weighted output."""

    gates = 1
    nonlinearity: Nonlinearity

    @override
    def step(self, seen: Tensor, kept: Tensor, state: State) -> State:
        both = seen + kept
        return (both.tanh() if self.nonlinearity == "tanh" else both.relu(),)

    def _chosen(self, nonlinearity: Nonlinearity) -> Nonlinearity:
        if nonlinearity not in ("tanh", "relu"):
            what = f"{kind_of(self)}: there is no nonlinearity {nonlinearity!r}"
            raise at_user(ArgumentError(what, hint="'tanh' or 'relu'"))
        return nonlinearity


class LSTMStep(Recurrence):
    """A long short-term memory, whose state is (h, c)."""

    gates, states = 4, 2

    @override
    def step(self, seen: Tensor, kept: Tensor, state: State) -> State:
        take, forget, new, show = (seen + kept).chunk(4, -1)
        cell = forget.sigmoid() * state[1] + take.sigmoid() * new.tanh()
        return show.sigmoid() * cell.tanh(), cell


class GRUStep(Recurrence):
    """A gated recurrent unit."""

    gates = 3

    @override
    def step(self, seen: Tensor, kept: Tensor, state: State) -> State:
        (reset, update, new), (reset_h, update_h, new_h) = seen.chunk(3, -1), kept.chunk(3, -1)
        keep = (update + update_h).sigmoid()
        fresh = (new + (reset + reset_h).sigmoid() * new_h).tanh()
        return (fresh + keep * (state[0] - fresh),)


class Cell(Recurrence):
    """One step of a recurrent layer: from an input [..., in] and a state to the next state."""

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        *,
        dtype: DTypeLike = "float32",
    ) -> None:
        self.input_size, self.hidden_size = sizes(
            kind_of(self), input_size=input_size, hidden_size=hidden_size
        )
        weights = self._weights(self.input_size, bias, dtype)
        self.weight_ih, self.weight_hh = weights["weight_ih"], weights["weight_hh"]
        self.bias_ih, self.bias_hh = weights["bias_ih"], weights["bias_hh"]

    def _next(self, x: Tensor, given: Given) -> State:
        same_size(kind_of(self), x, -1, self.input_size, "input_size")
        assert self.weight_ih is not None
        assert self.weight_hh is not None
        state = self._first(given, x.constant(0.0, x.dtype, (*x.shape[:-1], self.hidden_size)))
        seen = x.linear(self.weight_ih, self.bias_ih)
        return self.step(seen, state[0].linear(self.weight_hh, self.bias_hh), state)


class RNNCell(RNNStep, Cell):
    """One step of an `RNN`: from x [..., in] and h [..., hidden] to the next h.

    >>> import luminal_lab as ll
    >>> from luminal_lab import nn
    >>> nn.RNNCell(3, 5)(ll.Graph().tensor((2, 3))).shape
    (2, 5)
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        nonlinearity: Nonlinearity = "tanh",
        *,
        dtype: DTypeLike = "float32",
    ) -> None:
        super().__init__(input_size, hidden_size, bias, dtype=dtype)
        self.nonlinearity: Nonlinearity = self._chosen(nonlinearity)

    @override
    def forward(self, x: Tensor, state: Tensor | None = None) -> Tensor:
        return self._next(x, state)[0]


class GRUCell(GRUStep, Cell):
    """One step of a `GRU`: from x [..., in] and h [..., hidden] to the next h.

    >>> import luminal_lab as ll
    >>> from luminal_lab import nn
    >>> nn.GRUCell(3, 5)(ll.Graph().tensor((2, 3))).shape
    (2, 5)
    """

    @override
    def forward(self, x: Tensor, state: Tensor | None = None) -> Tensor:
        return self._next(x, state)[0]


class LSTMCell(LSTMStep, Cell):
    """One step of an `LSTM`: from x [..., in] and (h, c), each [..., hidden], to the next (h, c).

    >>> from luminal_lab.session import Graph
    >>> h, c = LSTMCell(3, 5)(Graph().tensor((2, 3)))
    >>> h.shape, c.shape
    ((2, 5), (2, 5))
    """

    @override
    def forward(
        self, x: Tensor, state: tuple[Tensor, Tensor] | None = None
    ) -> tuple[Tensor, Tensor]:
        h, c = self._next(x, state)
        return h, c


class Unrolled(Recurrence):
    """A recurrent layer over the first axis (or the second: `batch_first`), step by step.

    The steps are written one after the other into the graph, so their number must be known.
    The results are the outputs of all steps, and the last state of each layer and direction.
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        *,
        dtype: DTypeLike = "float32",
    ) -> None:
        self.input_size, self.hidden_size, self.num_layers = sizes(
            kind_of(self), input_size=input_size, hidden_size=hidden_size, num_layers=num_layers
        )
        limited(f"{kind_of(self)}: num_layers is {self.num_layers}", self.num_layers)
        self.dropout = probability(kind_of(self), dropout)
        self.batch_first, self.bidirectional = batch_first, bidirectional
        self.directions = ("", "_reverse") if bidirectional else ("",)
        for layer in range(self.num_layers):
            size = self.hidden_size * len(self.directions) if layer else self.input_size
            for direction in self.directions:
                for name, weight in self._weights(size, bias, dtype).items():
                    setattr(self, f"{name}_l{layer}{direction}", weight)

    def _run(self, x: Tensor, given: Given) -> tuple[Tensor, State]:
        has_rank(kind_of(self), x, (2, 3), "steps, batch and features, or steps and features")
        same_size(kind_of(self), x, -1, self.input_size, "input_size")
        swapped = self.batch_first and x.ndim == 3
        x = x.transpose(0, 1) if swapped else x
        if isinstance(x.shape[0], Expr) or not x.shape[0]:
            raise at_user(
                ShapeError(
                    f"{kind_of(self)}: {x.label} has {x.shape[0]} steps, and their number must be "
                    "known to write them",
                    hint=f"for any number use {type(self).__name__}Cell, whose state cx.carry "
                    "brings to the next run",
                )
            )
        count = self.num_layers * len(self.directions)
        inner = (count, *x.shape[1:-1], self.hidden_size)
        first, last = self._first(given, x.constant(0.0, x.dtype, inner)), list[State]()
        for layer in range(self.num_layers):
            if layer:
                x = x.dropout(self.dropout, self.training)
            ways: list[Tensor] = []
            for direction in self.directions:
                state = tuple(part[len(last)] for part in first)
                outputs, state = self._along(x, state, f"_l{layer}{direction}")
                ways.append(outputs)
                last.append(state)
            x = concat(ways, -1) if len(ways) > 1 else ways[0]
        final = tuple(stack([state[k] for state in last], 0) for k in range(self.states))
        return x.transpose(0, 1) if swapped else x, final

    def _along(self, x: Tensor, state: State, suffix: str) -> tuple[Tensor, State]:
        """Return the outputs of all steps of one layer in one direction, and the last state."""
        weight_ih, weight_hh, bias_ih, bias_hh = self._of(suffix)
        seen, steps = x.linear(weight_ih, bias_ih), list(range(len(x)))
        outputs: list[Tensor] = []
        for step in reversed(steps) if suffix.endswith("_reverse") else steps:
            state = self.step(seen[step], state[0].linear(weight_hh, bias_hh), state)
            outputs.append(state[0])
        return stack(outputs[::-1] if suffix.endswith("_reverse") else outputs, 0), state

    def _of(self, suffix: str) -> Sequence[Any]:
        names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
        return [getattr(self, f"{name}{suffix}") for name in names]

    @override
    def options(self) -> str:
        text = super().options()
        text += f", num_layers={self.num_layers}" if self.num_layers > 1 else ""
        return text + (", bidirectional=True" if self.bidirectional else "")


class RNN(RNNStep, Unrolled):
    """A plain recurrent layer: (outputs, last h) of x [steps, batch, in] and perhaps a first h.

    >>> import luminal_lab as ll
    >>> from luminal_lab import nn
    >>> outputs, h = nn.RNN(3, 5)(ll.Graph().tensor((7, 2, 3)))
    >>> outputs.shape, h.shape
    ((7, 2, 5), (1, 2, 5))
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        nonlinearity: Nonlinearity = "tanh",
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        *,
        dtype: DTypeLike = "float32",
    ) -> None:
        super().__init__(
            input_size,
            hidden_size,
            num_layers,
            bias,
            batch_first,
            dropout,
            bidirectional,
            dtype=dtype,
        )
        self.nonlinearity: Nonlinearity = self._chosen(nonlinearity)

    @override
    def forward(self, x: Tensor, state: Tensor | None = None) -> tuple[Tensor, Tensor]:
        outputs, (h,) = self._run(x, state)
        return outputs, h


class GRU(GRUStep, Unrolled):
    """Gated recurrent units: (outputs, last h) of x [steps, batch, in] and perhaps a first h.

    >>> import luminal_lab as ll
    >>> from luminal_lab import nn
    >>> outputs, h = nn.GRU(3, 5)(ll.Graph().tensor((7, 2, 3)))
    >>> outputs.shape, h.shape
    ((7, 2, 5), (1, 2, 5))
    """

    @override
    def forward(self, x: Tensor, state: Tensor | None = None) -> tuple[Tensor, Tensor]:
        outputs, (h,) = self._run(x, state)
        return outputs, h


class LSTM(LSTMStep, Unrolled):
    """Long short-term memories: (outputs, last (h, c)) of x and perhaps a first (h, c).

    >>> from luminal_lab.session import Graph
    >>> outputs, (h, c) = LSTM(3, 5, num_layers=2)(Graph().tensor((7, 2, 3)))
    >>> outputs.shape, h.shape
    ((7, 2, 5), (2, 2, 5))
    """

    @override
    def forward(
        self, x: Tensor, state: tuple[Tensor, Tensor] | None = None
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        outputs, (h, c) = self._run(x, state)
        return outputs, (h, c)

"""RNN, LSTM and GRU, unrolled over a known number of steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from luminal_lab.core.dims import Dim
from luminal_lab.importing.onnx_ops.table import KNOW_IT, Call, Refusal, op
from luminal_lab.tensor import Tensor
from luminal_lab.tensor.joining import stack

Activation = Callable[[Tensor], Tensor]
Pair = tuple[Tensor, ...]

ACTIVATIONS: dict[str, Callable[[float | None, float | None], Activation]] = {
    "relu": lambda a, b: lambda x: x.relu(),
    "tanh": lambda a, b: lambda x: x.tanh(),
    "sigmoid": lambda a, b: lambda x: x.sigmoid(),
    "affine": lambda a, b: lambda x: x * (1.0 if a is None else a) + (b or 0.0),
    "leakyrelu": lambda a, b: lambda x: x.leaky_relu(0.01 if a is None else a),
    "thresholdedrelu": lambda a, b: lambda x: (x > (1.0 if a is None else a)).where(x, 0.0),
    "scaledtanh": lambda a, b: (
        lambda x: (x * (1.0 if b is None else b)).tanh() * (1.0 if a is None else a)
    ),
    "hardsigmoid": lambda a, b: (
        lambda x: (x * (0.2 if a is None else a) + (0.5 if b is None else b)).clip(0.0, 1.0)
    ),
    "elu": lambda a, b: lambda x: x.elu(1.0 if a is None else a),
    "softsign": lambda a, b: lambda x: x.softsign(),
    "softplus": lambda a, b: lambda x: x.softplus(),
}


class Recurrent:
    """A recurrent op: its options, and its directions over the steps."""

    def __init__(
        self,
        gates: int,
        states: int,
        defaults: Sequence[str],
        *,
        activations: Sequence[str] | None,
        alphas: Sequence[float] | None,
        betas: Sequence[float] | None,
        clip: float | None,
        direction: str,
        layout: int,
    ) -> None:
        if direction not in ("forward", "reverse", "bidirectional"):
            raise Refusal(f"the direction {direction!r} is not known")
        self.gates, self.states, self.layout = gates, states, layout
        self.backward = {"forward": [False], "reverse": [True]}.get(direction, [False, True])
        words = list(activations or list(defaults) * len(self.backward))
        if len(words) != len(defaults) * len(self.backward):
            raise Refusal(f"it has {len(words)} activations")
        alpha, beta = iter(alphas or ()), iter(betas or ())
        made: list[Activation] = []
        for word in words:
            kind = word.lower()
            if kind not in ACTIVATIONS:
                raise Refusal(f"the activation {word!r} is not known")
            a = next(alpha, None) if kind in _WITH_ALPHA else None
            b = next(beta, None) if kind in _WITH_BETA else None
            made.append(ACTIVATIONS[kind](a, b))
        self.activations = [made[k : k + len(defaults)] for k in range(0, len(made), len(defaults))]
        self.limit = clip

    def clipped(self, x: Tensor) -> Tensor:
        """Return what goes into an activation, within a limit."""
        return x if self.limit is None else x.clip(-self.limit, self.limit)

    def run(
        self,
        x: Tensor,
        lengths: Tensor | None,
        first: Sequence[Tensor | None],
        hidden: Dim,
        step: Callable[[int, Tensor, Pair], Pair],
    ) -> tuple[Tensor, ...]:
        """Return all outputs, and the last states: `step` makes each state from the one before."""
        if self.layout:
            x = x.movedim(0, 1)
            first = [None if s is None else s.movedim(0, 1) for s in first]
        count = x.shape[0]
        if not isinstance(count, int):
            raise Refusal(f"it goes over {count} steps", KNOW_IT)
        if count > 4096:
            raise Refusal(f"it has {count} steps, and at most 4,096 are unrolled")
        sides: list[Tensor] = []
        ends: list[list[Tensor]] = [[] for _ in range(self.states)]
        for side, back in enumerate(self.backward):
            state: Pair = tuple(
                x.constant(0.0, x.dtype, (x.shape[1], hidden))
                if given is None
                else given.select(0, side)
                for given in first
            )
            outputs: list[Tensor] = []
            for at in reversed(range(count)) if back else range(count):
                new = step(side, x.select(0, at), state)
                out = new[0]
                if lengths is not None:
                    goes_on = (lengths > at).reshape(-1, 1)
                    new = tuple(goes_on.where(n, o) for n, o in zip(new, state, strict=True))
                    out = goes_on.where(out, 0.0)
                state = new
                outputs.append(out)
            sides.append(stack(outputs[::-1] if back else outputs))
            for end, last in zip(ends, state, strict=True):
                end.append(last)
        y = stack(sides, 1)
        last = [stack(end) for end in ends]
        if self.layout:
            y, last = y.permute(2, 0, 1, 3), [end.movedim(0, 1) for end in last]
        return y, *last


_WITH_ALPHA = "affine", "leakyrelu", "thresholdedrelu", "scaledtanh", "hardsigmoid", "elu"
_WITH_BETA = "affine", "scaledtanh", "hardsigmoid"


def _biases(bias: Tensor | None, side: int, gates: int) -> list[Tensor | None]:
    """Return the biases of the input's gates and of the state's."""
    if bias is None:
        return [None] * (2 * gates)
    return list(bias.select(0, side).chunk(2 * gates, 0))


def _plus(x: Tensor, *more: Tensor | None) -> Tensor:
    for part in more:
        x = x if part is None else x + part
    return x


@op("RNN")
def rnn(
    _: Call,
    x: Tensor,
    w: Tensor,
    r: Tensor,
    bias: Tensor | None = None,
    lengths: Tensor | None = None,
    h: Tensor | None = None,
    *,
    activation_alpha: Sequence[float] | None = None,
    activation_beta: Sequence[float] | None = None,
    activations: Sequence[str] | None = None,
    clip: float | None = None,
    direction: str = "forward",
    hidden_size: int | None = None,
    layout: int = 0,
    output_sequence: int = 0,
) -> tuple[Tensor, ...]:
    """Return f(W x + R h + b), step by step."""
    kind = Recurrent(
        1, 1, ["Tanh"], activations=activations, alphas=activation_alpha, betas=activation_beta,
        clip=clip, direction=direction, layout=layout,
    )  # fmt: skip

    def step(side: int, seen: Tensor, state: Pair) -> Pair:
        (f,) = kind.activations[side]
        both = seen.matmul(w.select(0, side).mT) + state[0].matmul(r.select(0, side).mT)
        return (f(kind.clipped(_plus(both, *_biases(bias, side, 1)))),)

    return kind.run(x, lengths, [h], r.shape[-1], step)


@op("LSTM")
def lstm(
    _: Call,
    x: Tensor,
    w: Tensor,
    r: Tensor,
    bias: Tensor | None = None,
    lengths: Tensor | None = None,
    h: Tensor | None = None,
    c: Tensor | None = None,
    peephole: Tensor | None = None,
    *,
    activation_alpha: Sequence[float] | None = None,
    activation_beta: Sequence[float] | None = None,
    activations: Sequence[str] | None = None,
    clip: float | None = None,
    direction: str = "forward",
    hidden_size: int | None = None,
    input_forget: int = 0,
    layout: int = 0,
    output_sequence: int = 0,
) -> tuple[Tensor, ...]:
    """Return a long short-term memory, step by step; its gates are input, output, forget, new."""
    kind = Recurrent(
        4, 2, ["Sigmoid", "Tanh", "Tanh"], activations=activations, alphas=activation_alpha,
        betas=activation_beta, clip=clip, direction=direction, layout=layout,
    )  # fmt: skip

    def step(side: int, seen: Tensor, state: Pair) -> Pair:
        f, g, last = kind.activations[side]
        out, cell = state
        both = seen.matmul(w.select(0, side).mT) + out.matmul(r.select(0, side).mT)
        if bias is not None:
            ours, theirs = bias.select(0, side).chunk(2, 0)
            both = both + ours + theirs
        take, show, forget, new = both.chunk(4, -1)
        if peephole is not None:
            p_take, p_show, p_forget = peephole.select(0, side).chunk(3, 0)
            take, forget = take + p_take * cell, forget + p_forget * cell
        else:
            p_show = None
        opened = f(kind.clipped(take))
        kept = -opened + 1.0 if input_forget else f(kind.clipped(forget))
        cell = kept * cell + opened * g(kind.clipped(new))
        if p_show is not None:
            show = show + p_show * cell
        return f(kind.clipped(show)) * last(cell), cell

    return kind.run(x, lengths, [h, c], r.shape[-1], step)


@op("GRU")
def gru(
    _: Call,
    x: Tensor,
    w: Tensor,
    r: Tensor,
    bias: Tensor | None = None,
    lengths: Tensor | None = None,
    h: Tensor | None = None,
    *,
    activation_alpha: Sequence[float] | None = None,
    activation_beta: Sequence[float] | None = None,
    activations: Sequence[str] | None = None,
    clip: float | None = None,
    direction: str = "forward",
    hidden_size: int | None = None,
    layout: int = 0,
    linear_before_reset: int = 0,
    output_sequence: int = 0,
) -> tuple[Tensor, ...]:
    """Return a gated recurrent unit, step by step; its gates are update, reset, new."""
    kind = Recurrent(
        3, 1, ["Sigmoid", "Tanh"], activations=activations, alphas=activation_alpha,
        betas=activation_beta, clip=clip, direction=direction, layout=layout,
    )  # fmt: skip

    def step(side: int, seen: Tensor, state: Pair) -> Pair:
        f, g = kind.activations[side]
        (out,) = state
        ours = seen.matmul(w.select(0, side).mT).chunk(3, -1)
        rows = r.select(0, side).chunk(3, 0)
        b = _biases(bias, side, 3)
        update = f(kind.clipped(_plus(ours[0] + out.matmul(rows[0].mT), b[0], b[3])))
        reset = f(kind.clipped(_plus(ours[1] + out.matmul(rows[1].mT), b[1], b[4])))
        if linear_before_reset:
            inner = reset * _plus(out.matmul(rows[2].mT), b[5])
        else:
            inner = _plus((reset * out).matmul(rows[2].mT), b[5])
        new = g(kind.clipped(_plus(ours[2] + inner, b[2])))
        return ((-update + 1.0) * new + update * out,)

    return kind.run(x, lengths, [h], r.shape[-1], step)

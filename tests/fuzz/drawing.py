"""Draws programs: operations of every family on values of every kind, symbolic dims among them."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np

import luminal_lab as ll
from luminal_lab.core.dims import evaluate
from luminal_lab.core.dtypes import INTEGERS, DType
from luminal_lab.errors import LabError
from tests.fuzz.programs import Array, Given, Program, Statement, ours

SIZES = (1, 2, 3, 5, 8, 17, 0, 33)
FLOATS = (DType.float32, DType.float32, DType.float64, DType.float16, DType.bfloat16)
MOST = 4_000
"""Elements of the largest value."""
Draw = Callable[[Random, "Drawing"], str | None]


class Drawing:
    """A program that grows, with a session that says which lines are accepted and their types."""

    def __init__(self, seed: str) -> None:
        self.pick = Random(seed)
        self.data = np.random.default_rng(self.pick.randrange(2**62))
        self.cx = ll.Graph()
        self.values: dict[str, Any] = {}
        self.inputs: list[Given] = []
        self.statements: list[Statement] = []
        self.sizes = [self.pick.choice(SIZES) for _ in range(3)]
        self.symbols: dict[int, str] = {}
        if self.pick.random() < 0.4:
            self.symbols = {
                size: f"n{size}" for size in self.sizes if size and self.pick.random() < 0.6
            }
        self.wildness = self.pick.choice(["tame", "normal", "normal", "special", "wild"])
        self.float = self.pick.choice(FLOATS)
        for _ in range(self.pick.randint(1, 3)):
            self.add_input(self.float, self.shape())

    def shape(self) -> tuple[int, ...]:
        """Draw a shape."""
        rank = self.pick.choice([0, 1, 2, 2, 3, 4])
        shape = [
            self.pick.choice(self.sizes) if self.pick.random() < 0.8 else 1 for _ in range(rank)
        ]
        while np.prod(shape) > MOST:
            shape[int(np.argmax(shape))] = 1
        return tuple(shape)

    def add_input(self, dtype: DType, shape: tuple[int, ...], array: Array | None = None) -> str:
        """Add an input, and return its name."""
        name = f"x{len(self.inputs) + len(self.statements)}"
        dims = tuple(self.symbols.get(size) if size != 1 else None for size in shape)
        array = np.asarray(self.array(dtype, shape) if array is None else array)
        self.inputs.append(Given(name, array, dims))
        typed = tuple(size if d is None else d for d, size in zip(dims, shape, strict=True))
        self.values[name] = self.cx.tensor(typed, dtype.name, name=name).set(array)
        return name

    def array(self, dtype: DType, shape: tuple[int, ...]) -> Array:
        """Draw values of a kind: exact ones, ordinary ones, special ones, or anything."""
        if dtype is DType.bool_:
            return self.data.integers(0, 2, shape).astype(bool)
        if not dtype.is_float:
            low, high = dtype.limits
            tame = self.wildness in ("tame", "normal")
            low, high = (max(low, -5), min(high, 9)) if tame else (low, high)
            return self.data.integers(low, high, shape, dtype.numpy, endpoint=True)
        with np.errstate(all="ignore"):
            match self.wildness:
                case "tame":
                    return (self.data.integers(-8, 9, shape) / 4).astype(dtype.numpy)
                case "normal":
                    return self.data.standard_normal(shape).astype(dtype.numpy)
                case "special":
                    chosen = self.data.choice(SPECIAL, shape)
                    usual = self.data.standard_normal(shape)
                    return np.where(self.data.random(shape) < 0.3, chosen, usual).astype(
                        dtype.numpy
                    )
                case _:
                    raw = self.data.bytes(int(np.prod(shape)) * dtype.itemsize)
                    return np.frombuffer(raw, dtype.numpy).reshape(shape).copy()

    # -- asking ------------------------------------------------------------------------------------

    def size_of(self, tensor: Any) -> tuple[int, ...]:
        """Return a shape with its symbols bound."""
        known = {name: size for size, name in self.symbols.items()}
        return tuple(dim if isinstance(dim, int) else evaluate(dim, known) for dim in tensor.shape)

    def some(self, wanted: Callable[[Any], bool] = lambda _: True) -> str | None:
        """Return the name of a value, one of the newest more likely."""
        names = [name for name, value in self.values.items() if wanted(value)]
        if not names:
            return None
        return names[-1] if self.pick.random() < 0.5 else self.pick.choice(names)

    def floats(self) -> str | None:
        """Return the name of a value of floats."""
        return self.some(lambda one: one.dtype.is_float)

    def alike(self, name: str) -> str | None:
        """Return the name of a value of the same shape and dtype; mostly another one."""
        type = self.values[name].type
        found = [other for other, one in self.values.items() if one.type == type]
        others = [one for one in found if one != name]
        return self.pick.choice(others or found)

    def axis(self, name: str) -> int | None:
        """Draw an axis of a value."""
        rank = self.values[name].ndim
        return None if rank == 0 else self.pick.randrange(-rank, rank)

    def grow(self) -> None:
        """Add a statement, if the one that was drawn is accepted."""
        text = self.pick.choice(FAMILIES)(self.pick, self)
        if text is None:
            return
        name = f"v{len(self.inputs) + len(self.statements)}"
        try:
            with warnings.catch_warnings(action="ignore"):
                made = ours(text, self.values)
            size = self.size_of(made)
            if min(size, default=0) < 0 or np.prod(size, dtype=float) > MOST:
                return  # a negative one is refused when it runs
        except LabError:
            return
        self.values[name] = made
        self.statements.append(Statement(name, text))

    def program(self) -> Program:
        """Return what has grown, some of its last values asked for."""
        names = [one.name for one in self.statements] or [one.name for one in self.inputs]
        read = {name for one in self.statements for name in one.reads}
        outputs = [name for name in names if name not in read]
        if self.pick.random() < 0.3:
            outputs.append(self.pick.choice(names))
        return Program(
            tuple(self.inputs), tuple(self.statements), tuple(dict.fromkeys(outputs[-4:]))
        ).trimmed()


SPECIAL = np.array(
    [
        *(0.0, -0.0, 1.0, -1.0, 0.5, 1.5, 2.5, -2.0, 1e-45, 1e-40, 6e-8, 1e-30, 1e30, 65504.0),
        *(3e38, -3e38, 1.7e308, np.inf, -np.inf, np.nan, 127.0, 128.0, 2147483648.0, 9.3e18),
        *(88.8, -104.0),
    ]
)


# -- families --------------------------------------------------------------------------------------

UNARY = [
    "exp",
    "exp2",
    "expm1",
    "log",
    "log2",
    "log10",
    "log1p",
    "sqrt",
    "rsqrt",
    "reciprocal",
    "sin",
    "cos",
    "tan",
    "asin",
    "acos",
    "atan",
    "sinh",
    "cosh",
    "tanh",
    "asinh",
    "acosh",
    "atanh",
    "sigmoid",
    "relu",
    "abs",
    "neg",
    "sign",
    "square",
    "floor",
    "ceil",
    "round",
    "trunc",
    "frac",
    "erf",
    "erfc",
    "isnan",
    "isinf",
    "isfinite",
    "signbit",
    "sinc",
]
NAMED = [
    "gelu",
    "silu",
    "softplus",
    "relu6",
    "leaky_relu",
    "elu",
    "hardswish",
    "mish",
    "selu",
    "celu",
    "softsign",
]
BINARY = ("+", "-", "*", "/", "<", "<=", "==", "!=", ">", ">=")
BINARY_NAMED = [
    "maximum",
    "minimum",
    "atan2",
    "copysign",
    "xlogy",
    "logaddexp",
    "remainder",
    "fmod",
]
REDUCTIONS = [
    "sum",
    "mean",
    "max",
    "min",
    "prod",
    "argmax",
    "argmin",
    "var",
    "std",
    "logsumexp",
    "any",
    "all",
]
ALONG = ["softmax", "log_softmax", "cumsum", "cumprod", "flip", "argsort"]


def unary(pick: Random, of: Drawing) -> str | None:
    """Draw a function of one value."""
    x = of.floats() if pick.random() < 0.9 else of.some()
    if x is None:
        return None
    return f"{x}.{pick.choice(UNARY)}()" if pick.random() < 0.75 else f"{x}.{pick.choice(NAMED)}()"


def binary(pick: Random, of: Drawing) -> str | None:
    """Draw an operation on two values, broadcast sometimes, or on a value and a number."""
    x = of.some()
    if x is None:
        return None
    y = pick.choice([of.alike(x), of.some(), number(pick, of, x)])
    if pick.random() < 0.75 or not (y or "").startswith(("x", "v")):
        return f"{x} {pick.choice(BINARY)} {y}"
    return f"{x}.{pick.choice(BINARY_NAMED)}({y})"


def number(pick: Random, of: Drawing, x: str) -> str:
    """Draw a number as Python spells it."""
    if of.values[x].dtype.is_float:
        return pick.choice(["0.5", "2.0", "-1.0", "3.0", "0.1", "1e-3", "0.0", "1e30"])
    return pick.choice(["1", "2", "3", "-1", "0", "7"])


def power(pick: Random, of: Drawing) -> str | None:
    """Draw a power."""
    x = of.floats()
    return x and f"{x} ** {pick.choice(['2', '3', '0.5', '-1', '-0.5', '1.7', of.alike(x)])}"


def chosen(pick: Random, of: Drawing) -> str | None:
    """Draw a choice between two values, or a bound."""
    x = of.some()
    if x is None:
        return None
    y = of.alike(x)
    match pick.randrange(3):
        case 0:
            return f"ll.where({x} < {y}, {y}, {x})"
        case 1:
            return f"{x}.clip({number(pick, of, x)}, {number(pick, of, x)})"
        case _:
            condition = of.some(lambda one: one.dtype is DType.bool_)
            return condition and f"ll.where({condition}, {x}, {y})"


def cast(pick: Random, of: Drawing) -> str | None:
    """Draw a cast."""
    x = of.some()
    return x and f'{x}.cast("{pick.choice(list(DType))}")'


def reduction(pick: Random, of: Drawing) -> str | None:
    """Draw a reduction over an axis, or over all."""
    x = of.floats() if pick.random() < 0.8 else of.some()
    if x is None:
        return None
    what, axis = pick.choice(REDUCTIONS), of.axis(x)
    if axis is None or pick.random() < 0.15:
        return f"{x}.{what}()"
    return f"{x}.{what}({axis}{', keepdim=True' if pick.random() < 0.5 else ''})"


def along(pick: Random, of: Drawing) -> str | None:
    """Draw what goes along an axis and keeps the shape."""
    x = of.floats()
    axis = None if x is None else of.axis(x)
    if x is None or axis is None:
        return None
    what = pick.choice(ALONG)
    return f"{x}.{what}(({axis},))" if what == "flip" else f"{x}.{what}({axis})"


def movement(pick: Random, of: Drawing) -> str | None:
    """Draw a view."""
    x = of.some()
    if x is None:
        return None
    rank, size = of.values[x].ndim, of.size_of(of.values[x])
    match pick.randrange(8):
        case 0:
            order = list(range(rank))
            pick.shuffle(order)
            return f"{x}.permute({tuple(order)})" if rank else None
        case 1:
            return f"{x}.flatten()"
        case 2:
            return f"{x}.unsqueeze({pick.randrange(-rank - 1, rank + 1)})"
        case 3:
            parts = [part(pick, one) for one in size]
            return f"{x}[{', '.join(parts)}]" if parts else None
        case 4 if rank:
            sizes = [
                str(pick.choice([2, 3])) if one == 1 and pick.random() < 0.5 else "-1"
                for one in size
            ]
            return f"{x}.expand(({', '.join(sizes)},))"
        case 5 if rank:
            return f"{x}.roll({pick.randrange(-3, 4)}, {of.axis(x)})"
        case 6 if rank >= 2:
            return f"{x}.transpose({of.axis(x)}, {of.axis(x)})"
        case 7 if rank >= 2:
            return f"{x}.{pick.choice(['tril', 'triu'])}({pick.randrange(-2, 3)})"
        case _:
            return None


def part(pick: Random, size: int) -> str:
    """Draw a slice or a position of an axis."""
    start, stop = pick.randrange(-2, size + 2), pick.randrange(-2, size + 3)
    step = pick.choice(["", "", ":2", ":3"])
    return pick.choice(
        [":", f"{start}:", f":{stop}", f"{start}:{stop}{step}", f"::{step[1:] or 1}"]
    )


def joined(pick: Random, of: Drawing) -> str | None:
    """Draw a concatenation or a stack."""
    x = of.some()
    axis = None if x is None else of.axis(x)
    if x is None or axis is None:
        return None
    names = ", ".join([x, *(of.alike(x) or x for _ in range(pick.randint(1, 2)))])
    return f"ll.{pick.choice(['concat', 'stack'])}([{names}], {axis})"


def product(pick: Random, of: Drawing) -> str | None:
    """Draw a product of matrices."""
    x = of.some(lambda one: one.dtype.is_float and one.ndim >= 2)
    if x is None:
        return None
    if pick.random() < 0.5:
        other = of.alike(x)
        return f"{x} @ {other}.transpose(-1, -2)"
    rows = of.size_of(of.values[x])[-1]
    dtype = of.values[x].dtype
    y = of.add_input(dtype, (rows, pick.choice([1, 2, 5, 17])))
    return f"{x} @ {y}"


def convolution(pick: Random, of: Drawing) -> str | None:
    """Draw a convolution, of values joined before sometimes."""
    x = of.some(lambda one: one.dtype.is_float and one.ndim == 4)
    if x is None or 0 in of.size_of(of.values[x]):
        return None
    channels = of.size_of(of.values[x])[1]
    joins = pick.random() < 0.3
    w = of.add_input(of.values[x].dtype, (2, channels * (1 + joins), pick.randint(1, 3), 3))
    given = f"ll.concat([{x}, {x}], 1)" if joins else x
    if joins:
        return f"{given}.conv2d({w}, padding=1)"
    return f"{given}.conv2d({w}, padding={pick.randrange(3)}, stride={pick.randint(1, 2)})"


def bits(pick: Random, of: Drawing) -> str | None:
    """Draw bits of integers: combined, moved, or read as another dtype.

    Which NaN a NaN is, is the device's affair once it has been computed with.
    """
    x = of.some(lambda one: one.dtype.kind == "int")
    if x is None or pick.random() < 0.3:
        x = of.add_input(pick.choice(INTEGERS), of.shape())
    match pick.randrange(6):
        case 0:
            return f"~{x}"
        case 1:
            x = pick.choice([x, *(one.name for one in of.inputs)])
            return f'{x}.bitcast("{pick.choice(list(DType))}")'
        case _:
            y = pick.choice([of.alike(x), of.some(), number(pick, of, x)])
            return f"{x} {pick.choice(('&', '|', '^', '<<', '>>'))} {y}"


def looked_up(pick: Random, of: Drawing) -> str | None:
    """Draw a gather or a scatter, with indices that are within."""
    x = of.some(lambda one: one.ndim >= 1)
    axis = None if x is None else of.axis(x)
    if x is None or axis is None:
        return None
    size = of.size_of(of.values[x])
    if 0 in size:
        return None
    index = of.data.integers(0, size[axis], size)
    i = of.add_input(DType.int64, size, index)
    if pick.random() < 0.6:
        return f"{x}.gather({axis}, {i})"
    return f"{x}.scatter_add({axis}, {i}, {of.alike(x)})"


FAMILIES: tuple[Draw, ...] = (
    *(
        unary,
        unary,
        unary,
        binary,
        binary,
        binary,
        power,
        chosen,
        cast,
        reduction,
        reduction,
        along,
    ),
    *(movement, movement, joined, product, convolution, looked_up, bits),
)


def drawn(seed: str) -> Program:
    """Return the program of a seed."""
    drawing = Drawing(seed)
    for _ in range(drawing.pick.choice([2, 4, 8, 16, 30])):
        drawing.grow()
    return drawing.program()

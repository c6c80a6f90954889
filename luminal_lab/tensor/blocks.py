"""Weights in few bits, as GGUF has them: blocks of values that share scales, and what they mean.

    q8_0   34 bytes for 32 values      scale (f16), 32 × i8                       value = scale · i8
    q4_k  144 bytes for 256 values     scale, least (f16), 8 × 2 six-bit factors, 256 × 4 bits

A form is data, and what its blocks mean is written once, as a function that NumPy and graphs run:
so the value of a weight, a step of the interpreter and a kernel are the same numbers, bit for bit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

import numpy as np
from typing_extensions import override

from luminal_lab.core.dtypes import Array, DType
from luminal_lab.core.op import tuple_text
from luminal_lab.core.origin import here
from luminal_lab.errors import ArgumentError, DTypeError, ShapeError, nearest

Bits: TypeAlias = Any
"""An array of NumPy or a tensor of a graph: both have operators, slices and `reshape`."""
AT_ONCE: Final = 1 << 20
"""The most values that are widened at once; each takes some 30 bytes on the way."""


class Kit(Protocol):
    """What arrays and tensors spell differently."""

    def cast(self, x: Bits, dtype: str) -> Bits:
        """Return values in another dtype."""
        ...

    def bits(self, x: Bits, dtype: str) -> Bits:
        """Return the same bits, read as another dtype of the same size."""
        ...

    def steps(self, count: int, by: int) -> Bits:
        """Return 0, by, 2 · by, … as bytes."""
        ...

    def choose(self, which: Bits, x: Bits, y: Bits) -> Bits:
        """Return x where a condition holds, and y elsewhere."""
        ...


class _Arrays:
    """The kit for NumPy."""

    def cast(self, x: Array, dtype: str) -> Array:
        return x.astype(dtype)

    def bits(self, x: Array, dtype: str) -> Array:
        return x.view(dtype)

    def steps(self, count: int, by: int) -> Array:
        return np.arange(0, count * by, by, dtype=np.uint8)

    def choose(self, which: Array, x: Array, y: Array) -> Array:
        return np.where(which, x, y)


ARRAYS: Final = _Arrays()


class Parts(NamedTuple):
    """What the values of blocks are made of: scale · (quants - zero) - least."""

    scale: Bits
    """Float32, [..., groups, 1]."""
    quants: Bits
    """Bytes, [..., groups, values of a group]."""
    zero: int = 0
    """What stands for 0."""
    least: Bits | None = None
    """Float32, [..., groups, 1]."""


Apart: TypeAlias = Callable[[Kit, Bits], Parts]
"""From blocks, [..., bytes of a block], to their parts."""


@dataclass(frozen=True, eq=False)
class BlockForm:
    """A form of blocks: its name, its number in GGUF, and what it means."""

    name: str
    number: int
    values: int
    """The values of a block."""
    bytes: int
    apart: Apart | None
    """What its blocks are made of; None if values need no blocks."""
    dtype: DType = DType.uint8
    """The dtype of raw arrays: bytes, or 16-bit floats, which need no blocks."""

    def raw_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return the shape of the raw array for values of a shape.

        >>> form_of("q4_k").raw_shape((10, 512))
        (10, 288)
        """
        *outer, columns = shape
        return (*outer, columns // self.values * (self.bytes // self.dtype.itemsize))

    def widened(self, kit: Kit, raw: Bits) -> Bits:
        """Return the float32 values of a raw array, or of a tensor of raw bytes."""
        if self.dtype is not DType.uint8:
            return kit.cast(raw, "float32")
        scale, quants, zero, least = self.parts(kit, raw)
        *outer, size = raw.shape
        values = kit.cast(quants, "float32")
        values = scale * (values - zero if zero else values)
        values = values if least is None else values - least
        return values.reshape((*outer, size // self.bytes * self.values))

    def parts(self, kit: Kit, raw: Bits) -> Parts:
        """Return what a raw array of blocks is made of, with axes for blocks and groups at its end.

        >>> scale, quants, zero, least = form_of("q4_0").parts(ARRAYS, np.zeros((2, 36), "uint8"))
        >>> scale.shape, quants.shape, zero, least
        ((2, 2, 1, 1), (2, 2, 1, 32), 8, None)
        """
        assert self.apart is not None
        *outer, size = raw.shape
        return self.apart(kit, raw.reshape((*outer, size // self.bytes, self.bytes)))

    @override
    def __repr__(self) -> str:
        return f"<BlockForm {self.name}: {self.bytes} bytes for {self.values} values>"


class Blocks:
    """A weight in few bits: the raw bytes of its rows, perhaps in a mapped file, and their form.

    A parameter may hold one, as in `layer.weight.set(blocks)`. Graphs then read the raw bytes, and
    nothing keeps the values as float32.

    >>> import numpy as np
    >>> from luminal_lab.tensor.blocks import Blocks
    >>> raw = np.zeros((2, 34), "uint8")
    >>> raw[:, 1], raw[:, 2:] = 0x3C, range(32)                     # the scale 1 as float16
    >>> blocks = Blocks("q8_0", raw, (2, 32))
    >>> blocks, blocks.value[1, :5]
    (<Blocks q8_0 (2, 32): 68 bytes>, array([0., 1., 2., 3., 4.], dtype=float32))
    """

    __slots__ = ("__weakref__", "form", "raw", "shape")

    def __init__(self, form: str | BlockForm, raw: Array, shape: tuple[int, ...]) -> None:
        self.form = form if isinstance(form, BlockForm) else form_of(form)
        self.shape = tuple(int(size) for size in shape)
        if not self.shape or self.shape[-1] % self.form.values:
            raise ShapeError(
                f"blocks: rows of {tuple_text(self.shape)} are not whole blocks of {self.form.name}"
                f", which have {self.form.values} values",
                where=str(here() or "") or None,
                hint="keep this weight in another form",
            )
        if raw.dtype != self.form.dtype.numpy:
            raise DTypeError(
                f"blocks: the raw array is {raw.dtype}, and {self.form.name} is {self.form.dtype}",
                where=str(here() or "") or None,
                hint=f'raw.view("{self.form.dtype}") reads the same bytes so',
            )
        wanted = self.form.raw_shape(self.shape)
        if raw.shape != wanted:
            raise ShapeError(
                f"blocks: the raw array is {tuple_text(raw.shape)}, and {self.form.name} of "
                f"{tuple_text(self.shape)} takes {tuple_text(wanted)}",
                where=str(here() or "") or None,
                hint="raw has the bytes of each row, one block behind the other",
            )
        self.raw = raw.view()
        self.raw.flags.writeable = False

    @property
    def value(self) -> Array:
        """The float32 values, widened anew each time."""
        return self.rows(0, prod(self.shape[:-1])).reshape(self.shape)

    def rows(self, start: int, stop: int) -> Array:
        """Return the float32 values of some rows, counted over all axes but the last.

        >>> import numpy as np
        >>> from luminal_lab.tensor.blocks import Blocks
        >>> Blocks("f16", np.ones((2, 3), "float16"), (2, 3)).rows(1, 2)
        array([[1., 1., 1.]], dtype=float32)
        """
        raw = self.raw.reshape((-1, self.raw.shape[-1])) if self.raw.size else self.raw
        columns = self.shape[-1]
        result = np.empty((stop - start, columns), np.float32)
        some = max(1, AT_ONCE // max(columns, 1))
        with np.errstate(all="ignore"):
            for first in range(start, stop if columns else start, some):
                last = min(first + some, stop)
                result[first - start : last - start] = self.form.widened(ARRAYS, raw[first:last])
        return result

    @property
    def nbytes(self) -> int:
        """The bytes of the raw array."""
        return self.raw.nbytes

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    def __getitem__(self, key: Any) -> Blocks:  # noqa: ANN401  # whatever indexes an array
        """Return a part of all axes but the last: a slice is a view, rows by numbers are copied.

        >>> import numpy as np
        >>> from luminal_lab.tensor.blocks import Blocks
        >>> weight = Blocks("f16", np.ones((6, 8), "float16"), (6, 8))
        >>> weight[2:4], weight[[5, 0, 1]].shape
        (<Blocks f16 (2, 8): 32 bytes>, (3, 8))
        """
        raw = self.raw[key]
        if not raw.ndim or raw.shape[-1:] != self.raw.shape[-1:]:
            raise ShapeError(
                f"blocks: {key!r} takes rows of {tuple_text(self.shape)} apart",
                where=str(here() or "") or None,
                hint="blocks.value has the values one by one",
            )
        return Blocks(self.form, raw, (*raw.shape[:-1], self.shape[-1]))

    def reshape(self, *shape: int) -> Blocks:
        """Return it with other axes before the last.

        >>> import numpy as np
        >>> from luminal_lab.tensor.blocks import Blocks
        >>> Blocks("f16", np.ones((6, 8), "float16"), (6, 8)).reshape(2, 3, 8).shape
        (2, 3, 8)
        """
        if prod(shape) != prod(self.shape) or shape[-1:] != self.shape[-1:]:
            raise ShapeError(
                f"blocks: {tuple_text(self.shape)} cannot become {tuple_text(shape)}",
                where=str(here() or "") or None,
                hint="the last axis has the blocks, and stays as it is",
            )
        return Blocks(self.form, self.raw.reshape(self.form.raw_shape(shape)), shape)

    @override
    def __reduce__(self) -> tuple[type[Blocks], tuple[str, Array, tuple[int, ...]]]:
        return Blocks, (self.form.name, np.array(self.raw), self.shape)

    @override
    def __repr__(self) -> str:
        return f"<Blocks {self.form.name} {tuple_text(self.shape)}: {self.nbytes:,} bytes>"


def form_of(name: str) -> BlockForm:
    """Return a form by its name in GGUF, in small letters.

    >>> form_of("q6_k")
    <BlockForm q6_k: 210 bytes for 256 values>
    """
    if name not in FORMS:
        raise ArgumentError(
            f"blocks: there is no form {name!r}",
            where=str(here() or "") or None,
            hint=nearest(str(name), FORMS) or f"the forms: {', '.join(FORMS)}",
        )
    return FORMS[name]


# -- what blocks mean ------------------------------------------------------------------------------


def _half(kit: Kit, b: Bits, at: int) -> Bits:
    """Return the 16-bit float at a byte of each block, [..., 1]."""
    low, high = (kit.cast(b[..., k : k + 1], "uint16") for k in (at, at + 1))
    return kit.cast(kit.bits(low | (high << 8), "float16"), "float32")


def _parted(kit: Kit, b: Bits, run: int, parts: int) -> Bits:
    """Return the parts of bytes, [..., values]: of each `run` of them first all lowest parts.

    Two parts have four bits each, four have two, and eight have one.
    """
    width = 8 // parts
    *outer, size = b.shape
    each = b.reshape((*outer, size // run, 1, run)) >> kit.steps(parts, width).reshape((parts, 1))
    return (each & ((1 << width) - 1)).reshape((*outer, size * parts))


def _grouped(x: Bits, groups: int = 1) -> Bits:
    *outer, size = x.shape
    return x.reshape((*outer, groups, size // groups))


def _q4_0(kit: Kit, b: Bits) -> Parts:
    return Parts(_grouped(_half(kit, b, 0)), _grouped(_parted(kit, b[..., 2:], 16, 2)), 8)


def _q4_1(kit: Kit, b: Bits) -> Parts:
    quants = _grouped(_parted(kit, b[..., 4:], 16, 2))
    return Parts(_grouped(_half(kit, b, 0)), quants, 0, _grouped(-_half(kit, b, 2)))


def _fifth(kit: Kit, b: Bits, at: int) -> Bits:
    """Return 32 values of five bits: a word of the highest bits, then 16 bytes of four each."""
    first, *rest = (kit.cast(b[..., at + k : at + k + 1], "int32") << (8 * k) for k in range(4))
    word = first | rest[0] | rest[1] | rest[2]
    high = kit.cast((word >> kit.cast(kit.steps(32, 1), "int32")) & 1, "uint8") << 4
    return _grouped(_parted(kit, b[..., at + 4 :], 16, 2) | high)


def _q5_0(kit: Kit, b: Bits) -> Parts:
    return Parts(_grouped(_half(kit, b, 0)), _fifth(kit, b, 2), 16)


def _q5_1(kit: Kit, b: Bits) -> Parts:
    return Parts(_grouped(_half(kit, b, 0)), _fifth(kit, b, 4), 0, _grouped(-_half(kit, b, 2)))


def _q8_0(kit: Kit, b: Bits) -> Parts:
    return Parts(_grouped(_half(kit, b, 0)), _grouped(kit.bits(b[..., 2:], "int8")))


def _each(x: Bits) -> Bits:
    """Return the numbers of groups, [..., groups], beside the values of each."""
    return x.reshape((*x.shape, 1))


def _q2_k(kit: Kit, b: Bits) -> Parts:
    factors = b[..., :16]
    scale = _half(kit, b, 80) * kit.cast(factors & 15, "float32")
    least = _half(kit, b, 82) * kit.cast(factors >> 4, "float32")
    quants = _grouped(_parted(kit, b[..., 16:80], 32, 4), 16)
    return Parts(_each(scale), quants, 0, _each(least))


def _q3_k(kit: Kit, b: Bits) -> Parts:
    factors = _parted(kit, b[..., 96:104], 8, 2) | (_parted(kit, b[..., 104:108], 4, 4) << 4)
    scale = _half(kit, b, 108) * (kit.cast(factors, "float32") - 32)
    low, high = _parted(kit, b[..., 32:96], 32, 4), _parted(kit, b[..., :32], 32, 8)
    return Parts(_each(scale), _grouped(low | (high << 2), 16), 4)


def _factors(kit: Kit, b: Bits) -> tuple[Bits, Bits]:
    """Return eight scales and eight leasts, [..., 8, 1], of 12 bytes with six bits for each."""
    s = _grouped(kit.cast(b[..., 4:16], "int32"), 3)  # few values, so vectors of words
    first, second, rest = s[..., 0:1, :], s[..., 1:2, :], s[..., 2:3, :]
    is_low = kit.steps(2, 1).reshape((2, 1)) < 1
    scale = kit.choose(is_low, first & 63, (rest & 15) | ((first >> 2) & 48))
    least = kit.choose(is_low, second & 63, (rest >> 4) | ((second >> 2) & 48))
    factors = [kit.cast(part.reshape((*part.shape[:-2], 8)), "float32") for part in (scale, least)]
    scale, least = (_half(kit, b, 2 * k) * factor for k, factor in enumerate(factors))
    return _each(scale), _each(least)


def _q4_k(kit: Kit, b: Bits) -> Parts:
    scale, least = _factors(kit, b)
    return Parts(scale, _grouped(_parted(kit, b[..., 16:], 32, 2), 8), 0, least)


def _q5_k(kit: Kit, b: Bits) -> Parts:
    scale, least = _factors(kit, b)
    high = _parted(kit, b[..., 16:48], 32, 8) << 4
    return Parts(scale, _grouped(_parted(kit, b[..., 48:], 32, 2) | high, 8), 0, least)


def _q6_k(kit: Kit, b: Bits) -> Parts:
    high = _parted(kit, b[..., 128:192], 32, 4) << 4
    quants = _parted(kit, b[..., :128], 64, 2) | high
    factors = kit.cast(kit.bits(b[..., 192:208], "int8"), "float32")
    return Parts(_each(_half(kit, b, 208) * factors), _grouped(quants, 16), 32)


LEVELS: Final = (-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113)
"""What the 16 numbers of iq4_nl stand for."""


def _iq4_nl(kit: Kit, b: Bits) -> Parts:
    numbers = _parted(kit, b[..., 2:], 16, 2)
    values: list[Bits] = [float(level) for level in LEVELS]
    for bit in (1, 2, 4, 8):  # in each round one bit decides between neighbours
        is_set = (numbers & bit) > 0
        pairs = zip(values[::2], values[1::2], strict=True)
        values = [kit.choose(is_set, high, low) for low, high in pairs]
    return Parts(_grouped(_half(kit, b, 0)), _grouped(values[0]))


def _table() -> Mapping[str, BlockForm]:
    """Return the forms by name."""
    half = ("f16", 1, DType.float16), ("bf16", 30, DType.bfloat16)
    forms = [BlockForm(name, number, 1, 2, None, dtype) for name, number, dtype in half]
    rows: tuple[tuple[str, int, int, int, Apart], ...] = (
        ("q4_0", 2, 32, 18, _q4_0),
        ("q4_1", 3, 32, 20, _q4_1),
        ("q5_0", 6, 32, 22, _q5_0),
        ("q5_1", 7, 32, 24, _q5_1),
        ("q8_0", 8, 32, 34, _q8_0),
        ("q2_k", 10, 256, 84, _q2_k),
        ("q3_k", 11, 256, 110, _q3_k),
        ("q4_k", 12, 256, 144, _q4_k),
        ("q5_k", 13, 256, 176, _q5_k),
        ("q6_k", 14, 256, 210, _q6_k),
        ("iq4_nl", 20, 32, 18, _iq4_nl),
    )
    forms += [BlockForm(*row) for row in rows]
    return {form.name: form for form in forms}


FORMS: Final = _table()

"""Checks of the arguments of layers, with errors at the user's line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from luminal_lab.core.dims import Dim
from luminal_lab.core.dtypes import DType
from luminal_lab.core.op import tuple_text
from luminal_lab.core.origin import here
from luminal_lab.errors import LabError, RangeError, ShapeError
from luminal_lab.tensor import Tensor
from luminal_lab.tensor.functions import number
from luminal_lab.tensor.movement import whole
from luminal_lab.tensor.window import Sizes, each


def at_user(error: LabError) -> LabError:
    """Return an error with the user's line."""
    error.where = error.where or str(here() or "") or None
    return error


def no_tensor(value: object) -> tuple[str, str]:
    """Return what a value is that stands where a tensor is needed, and how it gets into one.

    >>> import numpy as np
    >>> no_tensor(np.zeros((2, 3), "int64"))
    ('an array (2, 3)', 'give cx.tensor((2, 3), "int64").set(values), with cx = ll.Graph()')
    """
    dims, dtype = getattr(value, "shape", None), getattr(value, "dtype", None)
    if isinstance(value, type) or not isinstance(dims, tuple) or dtype is None:
        name = type(value).__name__
        kind = f"a{'n' * (name[0].lower() in 'aeiou')} {name}" if value is not None else "None"
        return kind, "give one, as in cx.tensor(shape).set(values), with cx = ll.Graph()"
    shown = tuple_text(cast("tuple[int, ...]", dims))
    is_torch = type(value).__module__.partition(".")[0] == "torch"
    kind = "PyTorch's tensor" if is_torch else "an array"
    word = str(dtype).removeprefix("torch.")
    typed = f', "{word}"' if word in [*DType] and not DType(word).is_float else ""
    return f"{kind} {shown}", f"give cx.tensor({shown}{typed}).set(values), with cx = ll.Graph()"


def sizes(layer: str, **values: int) -> list[int]:
    """Return arguments as whole numbers of 1 or more, or raise."""
    try:
        return [whole(f"{layer}: {name}", value, 1) for name, value in values.items()]
    except LabError as error:
        raise at_user(error) from None


def per_axis(layer: str, count: int, **values: Sizes) -> list[tuple[int, ...]]:
    """Return arguments, each a whole number or one for each spatial axis, as tuples."""
    try:
        return each(layer, count, **values)
    except LabError as error:
        raise at_user(error) from None


def shape(layer: str, name: str, value: int | Sequence[int]) -> tuple[int, ...]:
    """Return an argument, a shape or a single size, as a tuple."""
    given = tuple(value) if isinstance(value, Sequence) else (value,)
    if not given:
        raise at_user(ShapeError(f"{layer}: {name} is ()", hint="name one axis at least"))
    return tuple(sizes(layer, **{name: size})[0] for size in given)


def probability(layer: str, p: float) -> float:
    """Return an argument from 0 to 1, or raise."""
    try:
        chance = number(layer, "p", p)
    except LabError as error:
        raise at_user(error) from None
    if not 0 <= chance <= 1:
        hint = "give the share that is dropped, from 0 to 1"
        raise at_user(RangeError(f"{layer}: p is {p}, which is not a probability", hint=hint))
    return chance


def divides(layer: str, part: str, value: int, **wholes: int) -> None:
    """Raise unless a number divides others evenly."""
    for name, total in wholes.items():
        if total % value:
            raise at_user(
                ShapeError(
                    f"{layer}: {part} is {value}, which does not divide {name}, {total}",
                    hint=f"{name} must be a multiple of {part}",
                )
            )


def same_size(layer: str, x: Tensor, axis: int, wanted: int, name: str) -> None:
    """Raise unless an axis of an input has the layer's size."""
    size: Dim | None = x.shape[axis] if -x.ndim <= axis < x.ndim else None
    if size != wanted:
        seen = f"axis {axis} has {size}" if size is not None else f"there is no axis {axis}"
        other = f", or make the layer with {name}={size}" if isinstance(size, int) else ""
        raise at_user(
            ShapeError(
                f"{layer}: {name} is {wanted}, but in {x.label} {seen}",
                hint=f"give it {wanted} values along axis {axis}{other}",
            )
        )


def has_rank(layer: str, x: Tensor, ranks: Sequence[int], axes: str = "") -> None:
    """Raise unless an input has one of some numbers of axes; a hint names the axes."""
    if x.ndim not in ranks:
        wanted = " or ".join(map(str, ranks))
        raise at_user(
            ShapeError(
                f"{layer}: needs {wanted} axes, but {x.label} has {x.ndim}",
                hint=f"they are {axes or 'batch, channels, and then the spatial ones'}",
            )
        )


def ends_with(layer: str, x: Tensor, wanted: tuple[int, ...], name: str) -> None:
    """Raise unless the last axes of an input have the layer's sizes."""
    if x.shape[-len(wanted) :] != wanted:
        raise at_user(
            ShapeError(
                f"{layer}: {name} is {tuple_text(wanted)}, but {x.label} ends with "
                f"{tuple_text(x.shape[-len(wanted) :])}",
                hint="make the layer with the sizes of the last axes",
            )
        )

"""A parameter: a value with a shape that any number of graphs can borrow."""

from __future__ import annotations

from collections.abc import Callable
from operator import index

from typing_extensions import override

from luminal_lab.core.binding import fit
from luminal_lab.core.dims import Shape
from luminal_lab.core.dtypes import Array, DType, DTypeLike, as_dtype
from luminal_lab.core.op import TensorType
from luminal_lab.core.origin import here
from luminal_lab.errors import InputError, LabError, ShapeError


class Parameter:
    """A value owned by a module, or a provider that makes it when it is first needed.

    >>> import numpy as np
    >>> weight = Parameter((2, 3), provider=lambda: np.ones((2, 3)))
    >>> weight.is_loaded, weight.value.shape, weight.is_loaded
    (False, (2, 3), True)
    """

    def __init__(
        self,
        shape: tuple[int, ...],
        dtype: DTypeLike = "float32",
        *,
        value: object = None,
        provider: Callable[[], object] | None = None,
        name: str | None = None,
    ) -> None:
        try:
            self.shape: Shape = tuple(index(size) for size in shape)
        except TypeError:
            self.shape = (-1,)
        if min(self.shape, default=0) < 0:
            raise ShapeError(
                f"parameter: {shape!r} is not a shape of known sizes",
                where=str(here() or ""),
                hint="give a tuple of whole numbers; an input made by graph.tensor may be symbolic",
            )
        self.dtype: DType = as_dtype(dtype)
        self.name = name
        self.version = 0
        """Counts the changes of the value, so that graphs see that theirs is old."""
        self._value: Array | None = None
        self._provider = provider
        if value is not None:
            self.set(value)

    @property
    def is_loaded(self) -> bool:
        """Whether the value has been made."""
        return self._value is not None

    @property
    def value(self) -> Array:
        """The value, made now if it was not needed before; it cannot be changed in place."""
        if self._value is None:
            if self._provider is None:
                raise InputError(
                    f"{self}: it has no value and no provider",
                    hint="give it one with parameter.set(array)",
                )
            self._value = self._fitted(self._provider(), copy=False)
        value = self._value.view()
        value.flags.writeable = False
        return value

    def set(self, value: object, *, copy: bool = True) -> None:
        """Give the parameter another value, or a provider of it; every graph with it will see it.

        The value is copied, unless that is not wanted and it is an array of the right dtype.
        """
        try:
            if callable(value) and not hasattr(value, "__array__"):
                self._value, self._provider = None, value
            else:
                self._value = self._fitted(value, copy=copy)
        except LabError as error:
            error.where = error.where or str(here() or "")
            raise
        self.version += 1

    def unload(self) -> None:
        """Forget the value; the provider will make it again."""
        if self._provider is not None:
            self._value = None

    def _fitted(self, value: object, *, copy: bool) -> Array:
        return fit(str(self), value, TensorType(self.dtype, self.shape), {}, copy=copy)

    @override
    def __repr__(self) -> str:
        return f"parameter {self.name}" if self.name else "a parameter"

"""A parameter: a value with a shape that any number of graphs can borrow."""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
from typing_extensions import override

from luminal_lab.core.dims import Shape
from luminal_lab.core.dtypes import Array, DType, DTypeLike, as_dtype
from luminal_lab.core.op import ints, tuple_text
from luminal_lab.errors import InputError

Provider = Callable[[], npt.ArrayLike]


class Parameter:
    """A value owned by a module, or a provider that makes it when it is first needed.

    >>> weight = Parameter((2, 3), provider=lambda: np.ones((2, 3)))
    >>> weight.is_loaded, weight.value.shape, weight.is_loaded
    (False, (2, 3), True)
    """

    def __init__(
        self,
        shape: tuple[int, ...],
        dtype: DTypeLike = "float32",
        *,
        value: npt.ArrayLike | None = None,
        provider: Provider | None = None,
        name: str | None = None,
    ) -> None:
        self.shape: Shape = tuple(shape)
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
        """The value; made now if it was not needed before."""
        if self._value is None:
            if self._provider is None:
                raise InputError(
                    f"{self}: it has no value and no provider",
                    hint="give it one with parameter.set(array)",
                )
            self._value = self._checked(self._provider())
        return self._value

    def set(self, value: npt.ArrayLike) -> None:
        """Give the parameter another value, which every graph that borrows it will see."""
        self._value = self._checked(value)
        self.version += 1

    def unload(self) -> None:
        """Forget the value; the provider will make it again."""
        if self._provider is not None:
            self._value = None

    def _checked(self, value: npt.ArrayLike) -> Array:
        array: Array = np.asarray(value)
        if array.shape != ints(self.shape):
            raise InputError(
                f"{self}: the value is {tuple_text(array.shape)}, but the parameter is "
                f"{tuple_text(self.shape)}"
            )
        return array.astype(self.dtype.numpy, copy=False)

    @override
    def __repr__(self) -> str:
        return f"Parameter {self.name or ''}{tuple_text(self.shape)}".replace(" (", "(")

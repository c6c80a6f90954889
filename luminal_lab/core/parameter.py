"""A parameter: a value with a shape that any number of graphs can borrow."""

from collections.abc import Callable

from typing_extensions import override

from luminal_lab.core.binding import fit
from luminal_lab.core.dims import Dim, Shape
from luminal_lab.core.dtypes import Array, DType, DTypeLike, as_dtype
from luminal_lab.core.op import TensorType, tuple_text
from luminal_lab.errors import InputError, ShapeError


class Parameter:
    """A value owned by a module, or a provider that makes it when it is first needed.

    >>> import numpy as np
    >>> weight = Parameter((2, 3), provider=lambda: np.ones((2, 3)))
    >>> weight.is_loaded, weight.value.shape, weight.is_loaded
    (False, (2, 3), True)
    """

    def __init__(
        self,
        shape: tuple[Dim, ...],
        dtype: DTypeLike = "float32",
        *,
        value: object = None,
        provider: Callable[[], object] | None = None,
        name: str | None = None,
    ) -> None:
        if not all(isinstance(size, int) and size >= 0 for size in shape):
            raise ShapeError(
                f"parameter: {tuple_text(shape)} is not a shape of known sizes",
                hint="give whole numbers; an input made by graph.tensor may be symbolic",
            )
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
        if callable(value) and not hasattr(value, "__array__"):
            self._value, self._provider = None, value
        else:
            self._value = self._fitted(value, copy=copy)
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

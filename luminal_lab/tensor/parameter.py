"""A parameter: a value with a shape that any number of graphs can borrow."""

from __future__ import annotations

from collections.abc import Callable
from operator import index
from typing import Any, ClassVar, NoReturn, TypeAlias

import numpy as np
from typing_extensions import override

from luminal_lab.core.binding import fit
from luminal_lab.core.dtypes import Array, DType, DTypeLike, as_dtype
from luminal_lab.core.op import TensorType, tuple_text
from luminal_lab.core.origin import here
from luminal_lab.errors import (
    ArgumentError,
    GraphError,
    InputError,
    LabError,
    ShapeError,
    UnknownNameError,
)
from luminal_lab.interrupts import held, opened
from luminal_lab.tensor.arguments import is_function
from luminal_lab.tensor.blocks import Blocks
from luminal_lab.tensor.versions import tell_of_change

Draw: TypeAlias = "Callable[[tuple[int, ...], np.random.Generator], object]"  # loaded when used
"""A function that draws a first value from a shape and a generator."""


class Parameter:
    """A value owned by a module, or a provider that returns it when it is first needed.

    With `init` the value is drawn, a new one each time unless `initialise` gives a seed. Gradients
    and optimisers ignore a parameter that is not `trainable`, such as a running mean.

    >>> import numpy as np
    >>> weight = Parameter((2, 3), provider=lambda: np.ones((2, 3)))
    >>> weight.is_loaded, weight.value.shape, weight.is_loaded
    (False, (2, 3), True)
    """

    changes: ClassVar[int] = 0
    """How often any parameter has got another value; while it stays, so do all versions."""

    def __init__(
        self,
        shape: tuple[int, ...],
        dtype: DTypeLike = "float32",
        *,
        value: object = None,
        provider: Callable[[], object] | None = None,
        init: Draw | None = None,
        name: str | None = None,
        trainable: bool = True,
    ) -> None:
        try:
            self.shape: tuple[int, ...] = tuple(index(size) for size in shape)
        except TypeError:
            self.shape = (-1,)
        if min(self.shape, default=0) < 0:
            raise ShapeError(
                f"parameter: {shape!r} is not a shape of known sizes",
                where=str(here() or ""),
                hint="give a tuple of whole numbers; an input made by graph.tensor may be symbolic",
            )
        if provider is not None and (value is not None or not is_function(provider)):
            what = "a value and a provider are both given"
            raise ArgumentError(
                f"parameter: {what if is_function(provider) else f'{provider!r} cannot be called'}",
                where=str(here() or ""),
                hint="give an array as value, or as provider a function that returns one",
            )
        try:
            self.dtype: DType = as_dtype(dtype)
        except LabError as error:
            error.where = str(here() or "") or None
            raise
        self.name = name
        self.trainable = trainable
        self.version = 0
        """The count of changes of the value, by which graphs detect an outdated copy."""
        self._value: Array | None = None
        self._blocks: Blocks | None = None
        self._provider = provider
        self._init = init
        if init is not None and provider is None:
            self._provider = self._drawing(np.random.SeedSequence())
        if value is not None:
            self.set(value)

    @property
    def is_loaded(self) -> bool:
        """Whether the value is in memory, or held in blocks."""
        return self._value is not None or self._blocks is not None

    @property
    def blocks(self) -> Blocks | None:
        """The blocks of few bits that stand for the value, if it was set to blocks."""
        return self._blocks

    @property
    def form(self) -> str:
        """The form of its blocks, as in "q8_0"; "" if it holds numbers."""
        return "" if self._blocks is None else self._blocks.form.name

    @property
    def value(self) -> Array:
        """The value, read-only, from its provider at first use; of blocks it is widened each time.

        >>> weight = ll.Parameter((2, 2))
        >>> weight.set(ll.Blocks("f16", np.ones((2, 2), "float16"), (2, 2)))
        >>> weight.value.dtype, weight.is_loaded, weight.blocks
        (dtype('float32'), True, <Blocks f16 (2, 2): 8 bytes>)
        """
        if self._blocks is not None:
            value = self._blocks.value
            value.flags.writeable = False
            return value
        value = self._loaded().view()
        value.flags.writeable = False
        return value

    @property
    def provider(self) -> Callable[[], object] | None:
        """What returns the value when it is first needed; None if it was set to an array.

        >>> ll.Parameter((2,), value=[1, 2]).provider is None
        True
        """
        return self._provider

    def _loaded(self) -> Array:
        """Return the array that has the value, from its provider at first use."""
        if self._value is None:
            if self._provider is None:
                raise InputError(
                    f"{self}: it has no value and no provider",
                    hint="give it one with parameter.set(array)",
                )
            self._value = self._fitted(opened(self._provider), copy=False)
        return self._value

    def set(self, value: object, *, copy: bool = True) -> None:
        """Give the parameter another value, or a provider of one; every graph with it sees it.

        The value is copied, except with `copy=False` for an array of the right dtype. Blocks are
        kept as they are: graphs that are written from now on read their raw bytes.

        >>> weight = ll.Parameter((2,))
        >>> weight.set([1, 2])
        >>> weight.value
        array([1., 2.], dtype=float32)
        """
        try:
            # The provider of an older value is not called again.
            array: Array | None = None
            blocks: Blocks | None = None
            provider: Callable[[], object] | None = None
            if isinstance(value, Blocks):
                blocks = self._held(value)
            elif is_function(value) and not hasattr(value, "__array__"):
                provider = value
            else:
                array = self._fitted(value, copy=copy)
        except LabError as error:
            error.where = error.where or str(here() or "")
            raise
        with held():
            self._value, self._blocks, self._provider = array, blocks, provider
            self.version += 1
            Parameter.changes += 1
            tell_of_change()

    def read_as(self, type: TensorType) -> Array:
        """Return the value for an input of a type: numbers, or the raw array of blocks.

        It is the array itself, so that a run can see whether anybody else has it.

        >>> from luminal_lab.core.op import TensorType
        >>> weight = ll.Parameter((2,), value=[1, 2])
        >>> weight.read_as(TensorType(weight.dtype, weight.shape))
        array([1., 2.], dtype=float32)
        """
        if type.dtype is self.dtype and type.shape == self.shape:
            return self._loaded() if self._blocks is None else self.value
        blocks = self._blocks
        if blocks is not None and (type.dtype, type.shape) == (blocks.form.dtype, blocks.raw.shape):
            return blocks.raw
        raise InputError(
            f"{self}: this graph reads it as {type}, and it holds "
            + (f"blocks of {blocks.form.name} now" if blocks is not None else "an array now"),
            where=str(here() or "") or None,
            hint="write the graph again, with the parameter as it is; or set it back",
        )

    def _held(self, blocks: Blocks) -> Blocks:
        """Return blocks that fit, or raise."""
        if self.dtype is not DType.float32 or blocks.shape != self.shape:
            wanted = TensorType(self.dtype, self.shape)
            raise ShapeError(
                f"{self}: the value is {blocks.form.name} of {tuple_text(blocks.shape)}, whose "
                f"numbers are float32, and must be {wanted}",
                hint="blocks.value has the numbers, as an array of float32",
            )
        return blocks

    def initialise(self, *seed: int) -> None:
        """Let `init` draw the value anew when it is next needed; equal seeds draw equal values.

        >>> weight = ll.nn.Linear(2, 1).weight
        >>> weight.initialise(7)
        >>> weight.value.round(3)
        array([[0.629, 0.177]], dtype=float32)
        """
        if self._init is not None:
            self.set(self._drawing(np.random.SeedSequence(seed or None)))

    def _drawing(self, seed: np.random.SeedSequence) -> Callable[[], object]:
        init, shape, dtype = self._init, self.shape, self.dtype.numpy
        assert init is not None
        return lambda: np.asarray(init(shape, np.random.default_rng(seed))).astype(
            dtype, copy=False
        )

    def __getstate__(self) -> dict[str, object]:
        """Return the state to pickle, with the value itself, from the provider if needed."""
        state = dict(vars(self))
        if self._blocks is None and (self._value is not None or self._provider is not None):
            state["_value"], state["_provider"] = np.array(self.value), None
        return state

    def __deepcopy__(self, memo: dict[int, object]) -> Parameter:
        """Return a separate parameter with the same value, provided on demand."""
        again = memo[id(self)] = object.__new__(Parameter)
        vars(again).update(vars(self))
        again._value = None if self._value is None else self._value.copy()
        return again

    def cast(self, dtype: DTypeLike) -> Parameter:
        """Return a new parameter, whose value is converted from this one's on demand.

        >>> weight = ll.Parameter((2,), value=[0.1, 3])
        >>> weight.cast("float16").value
        array([0.1, 3. ], dtype=float16)
        """
        wanted = as_dtype(dtype)

        def convert() -> Array:
            with np.errstate(over="ignore"):  # values that are too large become infinite
                return self.value.astype(wanted.numpy)

        init, name, trainable = self._init, self.name, self.trainable
        return Parameter(
            self.shape, wanted, provider=convert, init=init, name=name, trainable=trainable
        )

    def unload(self) -> None:
        """Forget the value; the provider returns it again.

        >>> weight = ll.Parameter((2,), provider=lambda: [1, 2])
        >>> weight.value
        array([1., 2.], dtype=float32)
        >>> weight.unload()
        >>> weight.is_loaded
        False
        """
        if self._provider is not None:
            self._value = None
            tell_of_change()

    def _fitted(self, value: object, *, copy: bool) -> Array:
        return fit(str(self), value, TensorType(self.dtype, self.shape), {}, copy=copy)

    def __getattr__(self, name: str) -> NoReturn:
        if name[:1] == "_":  # optional protocols that NumPy and others look up
            raise AttributeError(name)
        raise UnknownNameError(
            f"{self} has no {name!r}",
            where=str(here() or "") or None,
            hint="operations are a tensor's: use x @ weight, or x.graph.parameter(weight) for "
            f"the tensor, which may have {name!r}",
        )

    # -- operators, which need a tensor on the other side ------------------------------------------

    __array_ufunc__ = None

    def _operator(self, other: object = None) -> Any:  # noqa: ANN401  # NotImplemented, or an error
        if hasattr(other, "graph"):
            return NotImplemented  # the tensor will do it
        raise GraphError(
            f"{self} belongs to no graph, so an operation on it has no graph to go into",
            where=str(here() or "") or None,
            hint="use it with a tensor, as in x @ weight, or take x.graph.parameter(weight)",
        )

    __add__ = __sub__ = __mul__ = __matmul__ = __truediv__ = __floordiv__ = __mod__ = _operator
    __radd__ = __rsub__ = __rmul__ = __rmatmul__ = __rtruediv__ = __rpow__ = __pow__ = _operator
    __lt__ = __le__ = __gt__ = __ge__ = __neg__ = __abs__ = _operator

    def __getitem__(self, key: object) -> Any:  # noqa: ANN401  # always an error
        return self._operator()

    @override
    def __repr__(self) -> str:
        return f"parameter {self.name}" if self.name else "a parameter"

"""The sources of a graph: inputs, parameters, constants, ranges, random numbers."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from functools import partial

import numpy as np
from typing_extensions import override

from luminal_lab.core.builder import DimLike, Mark, ShapeLike
from luminal_lab.core.dims import Dim, Expr
from luminal_lab.core.dtypes import DType, DTypeLike, as_dtype, scalar_dtype
from luminal_lab.core.ir import IR
from luminal_lab.core.op import Op, Scalar, TensorType
from luminal_lab.core.ops import Call, Cast, Input, Iota, Random
from luminal_lab.errors import DTypeError, GraphError, ShapeError
from luminal_lab.tensor import Tensor
from luminal_lab.tensor.arguments import told_methods
from luminal_lab.tensor.blocks import Blocks
from luminal_lab.tensor.lazy import Lazy, Workspace, as_scalar, constant_of
from luminal_lab.tensor.parameter import Parameter
from luminal_lab.tensor.widening import body_of, widened

FEW = 64
"""How many nodes are looked through for readers of a table."""


@partial(told_methods, on="cx.", also=("dim", "scope"))
class Sources(Workspace):
    """The methods of a graph that create tensors without sources."""

    def __init__(self, name: str, seed: int = 0) -> None:
        super().__init__(name)
        self.seed = _whole("seed", seed)
        self._parameters: dict[Parameter, int] = {}
        self._lent: dict[int, Parameter] = {}  # the same, by inputs
        self._meant: dict[int, int] = {}  # what stands for their values, where inputs are blocks

    def tensor(
        self, shape: ShapeLike, dtype: DTypeLike = "float32", name: str | None = None
    ) -> Tensor:
        """Return an input; its data comes with `set`. Dims are numbers or names.

        >>> x = cx.tensor(("batch", 3), name="x").set([[1, 2, 3]])
        >>> x.shape
        (batch, 3)
        """
        with self.whole():
            if isinstance(dtype, int):
                raise ShapeError(
                    f"tensor: the shape is {shape!r} and the dtype {dtype!r}",
                    hint=f"a shape is one tuple: cx.tensor(({shape}, {dtype}))",
                )
            if isinstance(shape, (list, np.ndarray)):
                raise ShapeError(
                    f"tensor: {shape!r} is not a shape, which is a tuple",
                    hint="a tensor of data takes its shape first: cx.tensor((3,)).set([1, 2, 3])",
                )
            type = self.type_of(shape, dtype)
            return self.source(Input(type.dtype, type.shape), name)

    def parameter(self, parameter: Parameter) -> Tensor:
        """Return the input that borrows a parameter's value; each parameter has one.

        Of a parameter that holds blocks of few bits the input has the raw bytes, and the tensor
        returned is what they mean.

        >>> weight = ll.Parameter((2,), value=[1, 2], name="weight")
        >>> cx.parameter(weight).name, cx.parameter(weight).tolist()
        ('weight', [1.0, 2.0])
        """
        with self.whole():
            if not isinstance(parameter, Parameter):  # pyright: ignore[reportUnnecessaryIsInstance]  # a caller may err
                raise GraphError(
                    f"parameter: {parameter!r} is not a Parameter", hint="tensor(...) makes inputs"
                )
            id = self._parameters.get(parameter)
            if id is None:
                blocks = parameter.blocks
                type = (parameter.dtype, parameter.shape)
                if blocks is not None:
                    type = blocks.form.dtype, blocks.raw.shape
                tensor = self.source(Input(*type), parameter.name)
                id = self._parameters[parameter] = tensor.id
                self._lent[id] = parameter
                if blocks is not None:
                    self._meant[id] = self._means(tensor, blocks)
            id = self._meant.get(id, id)
            return Tensor(self, id, self.node(id).type)

    def _means(self, raw: Tensor, blocks: Blocks) -> int:
        """Add the region that gives the values of blocks, and return its id."""
        form, shape = blocks.form, blocks.shape
        type = self.the(TensorType(DType.float32, shape))
        if form.dtype is not DType.uint8:
            return self.append(Cast(DType.float32), (raw.id,), type)
        return self.append(Call(body_of(form, shape, self.page)), (raw.id,), type)

    @override
    def looked_up(self, table: Lazy, rows: Callable[[Tensor], Tensor]) -> Tensor | None:
        raw = next((id for id, meant in self._meant.items() if meant == table.id), None)
        blocks = None if raw is None else self._lent[raw].blocks
        if raw is None or blocks is None:
            return None
        # What nobody else reads yet goes; whoever reads it brings it back.
        since = [node for id in range(table.id + 1, self.next_id) if (node := self._table.get(id))]
        if len(since) < FEW and not any(table.id in node.sources for node in since):
            self.supersede([table.id])
        return widened(blocks.form, rows(Tensor(self, raw, self.node(raw).type)))

    @abstractmethod
    def page(self, name: str) -> Sources:
        """Return an empty graph to write a region in."""

    @property
    @abstractmethod
    def ir(self) -> IR:
        """The graph as written, as a value."""

    @abstractmethod
    def carry(self, new: Tensor, old: Tensor) -> Tensor:
        """Carry an output to an input for the next run."""

    @override
    def take_back(self, mark: Mark, error: BaseException) -> None:
        super().take_back(mark, error)
        self._parameters = {p: id for p, id in self._parameters.items() if id < self.next_id}
        self._lent = {id: parameter for parameter, id in self._parameters.items()}
        self._meant = {id: meant for id, meant in self._meant.items() if meant < self.next_id}

    def source(self, op: Op, name: str | None = None) -> Tensor:
        """Add an op without sources, and return its tensor."""
        type = self.the(op.infer())
        return Tensor(self, self.append_named(op, type, name), type)

    # -- numbers -----------------------------------------------------------------------------------

    def constant(self, value: Scalar, dtype: DTypeLike | None = None) -> Tensor:
        """Return a number without axes; it may be a symbolic dim.

        >>> x = cx.tensor(("n",)).set([5, 6, 7])
        >>> y = (x.sum() / cx.constant("n")).retrieve()
        >>> cx.execute()
        >>> y.item()
        6.0
        """
        return self.full((), value, dtype)

    def full(self, shape: ShapeLike, value: Scalar, dtype: DTypeLike | None = None) -> Tensor:
        """Return a tensor filled with one number.

        >>> y = cx.full((2, 3), 7).retrieve()
        >>> cx.execute()
        >>> y.tolist()
        [[7, 7, 7], [7, 7, 7]]
        """
        with self.whole():
            value = self._scalar("full", value)
            if dtype is None:
                dtype = DType.int64 if isinstance(value, Expr) else scalar_dtype(value)
            return self.source(constant_of(value, as_dtype(dtype), self.as_shape(shape)))

    def zeros(self, shape: ShapeLike, dtype: DTypeLike = "float32") -> Tensor:
        """Return zeros.

        >>> cx.zeros((2, "n"), "int32").type
        i32[2, n]
        """
        return self.full(shape, 0, dtype)

    def ones(self, shape: ShapeLike, dtype: DTypeLike = "float32") -> Tensor:
        """Return ones.

        >>> y = cx.ones((2, 2), "bool").retrieve()
        >>> cx.execute()
        >>> y.tolist()
        [[True, True], [True, True]]
        """
        return self.full(shape, 1, dtype)

    def arange(
        self,
        start: Scalar | str,
        stop: Scalar | str | None = None,
        step: float = 1,
        dtype: DTypeLike | None = None,
    ) -> Tensor:
        """Return start, start + step, … up to but not including stop.

        >>> cx.arange(2, 11, 3).shape
        (3,)
        """
        with self.whole():
            if stop is None:
                start, stop = 0, start
            first, last = self._scalar("arange", start), self._scalar("arange", stop)
            by = self._scalar("arange", step)
            size: Dim
            if isinstance(by, Expr) or by == 0:
                raise ShapeError(f"arange: the step is {by}", hint="give a number that is not 0")
            if isinstance(first, float) or isinstance(last, float) or isinstance(by, float):
                if isinstance(first, Expr) or isinstance(last, Expr):
                    raise DTypeError(
                        f"arange: {first} to {last} by {by} mixes a symbolic dim and fractions",
                        hint="count with whole numbers, and then multiply",
                    )
                count = (last - first) / by
                if not math.isfinite(count):
                    raise ShapeError(
                        f"arange: {first} to {last} by {by} has no number of elements",
                        hint="give finite numbers",
                    )
                size, inferred = max(0, math.ceil(count)), DType.float32
            else:
                span = last - first if by > 0 else first - last
                size, inferred = (span + abs(by) - 1) // abs(by), DType.int64
                if isinstance(size, int):
                    size = max(0, size)
            wanted = inferred if dtype is None else as_dtype(dtype)
            counter = wanted if wanted.kind == inferred.kind else inferred
            if counter.is_half:  # halves cannot hold large counts exactly
                counter = DType.float32
            tensor = self.source(Iota(counter, (size,)))
            if by != 1:
                tensor = tensor * by
            if isinstance(first, Expr) or first != 0:
                tensor = tensor + first
            return tensor.cast(wanted)

    def linspace(
        self, start: float, stop: float, steps: int, dtype: DTypeLike = "float32"
    ) -> Tensor:
        """Return `steps` numbers at equal distances, both ends included.

        >>> y = cx.linspace(0, 1, 5).retrieve()
        >>> cx.execute()
        >>> y.tolist()
        [0.0, 0.25, 0.5, 0.75, 1.0]
        """
        with self.whole():
            first, last = self._scalar("linspace", start), self._scalar("linspace", stop)
            count, wanted = self.as_dim(steps), as_dtype(dtype)
            if isinstance(first, Expr) or isinstance(last, Expr) or isinstance(count, Expr):
                raise ShapeError(
                    f"linspace: {count} steps from {first} to {last} are not all known",
                    hint="for a symbolic number of steps, scale arange(steps)",
                )
            ramp = self.source(Iota(DType.float32 if wanted.is_half else wanted, (count,)))
            if count < 2:
                return (ramp + first).cast(wanted)
            # From both ends, so that both are exact.
            width = (last - first) / (count - 1)
            upper = (ramp * -1.0 + float(count - 1)) * -width + last
            return (ramp < count / 2).where(ramp * width + first, upper).cast(wanted)

    def logspace(
        self,
        start: float,
        stop: float,
        steps: int,
        base: float = 10.0,
        dtype: DTypeLike = "float32",
    ) -> Tensor:
        """Return `steps` powers of a base whose exponents are at equal distances.

        >>> y = cx.logspace(0, 2, 3).retrieve()
        >>> cx.execute()
        >>> y.numpy().round(3).tolist()
        [1.0, 10.0, 100.0]
        """
        with self.whole():
            wanted = as_dtype(dtype)
            exponents = self.linspace(start, stop, steps, wanted if wanted.is_float else "float64")
            return self.constant(base, exponents.dtype).pow(exponents).cast(wanted)

    def eye(
        self, rows: DimLike, columns: DimLike | None = None, dtype: DTypeLike = "float32"
    ) -> Tensor:
        """Return ones on the diagonal, and zeros elsewhere.

        >>> y = cx.eye(2, 3).retrieve()
        >>> cx.execute()
        >>> y.tolist()
        [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]
        """
        with self.whole():
            height = self.as_dim(rows)
            width = height if columns is None else self.as_dim(columns)
            across = self.source(Iota(DType.int32, (width,)))
            down = self.source(Iota(DType.int32, (height,))).unsqueeze(1)
            return (across == down).cast(dtype)

    def _scalar(self, what: str, value: object) -> Scalar:
        """Return a number or a dim; a symbolic dim, or its text, is declared here."""
        number = value if isinstance(value, str) else as_scalar(what, value)
        return self.as_integer(number) if isinstance(number, (str, Expr)) else number

    # -- random numbers ----------------------------------------------------------------------------

    def rand(self, *shape: ShapeLike, seed: int | None = None) -> Tensor:
        """Return uniform random numbers from 0 up to but not including 1, new ones in each run.

        >>> y = cx.rand(2, seed=7).retrieve()
        >>> cx.execute()
        >>> y.numpy().round(3)
        array([0.908, 0.69 ], dtype=float32)
        >>> cx.execute()
        >>> y.numpy().round(3)
        array([0.229, 0.924], dtype=float32)
        """
        with self.whole():
            dims = self.as_shape(shape[0] if len(shape) == 1 else tuple(shape))  # pyright: ignore[reportArgumentType]  # dims, if several
            key = self.seed if seed is None else _whole("seed", seed)
            return self.source(Random(key, self.next_stream(), dims))

    def randn(self, *shape: ShapeLike, seed: int | None = None) -> Tensor:
        """Return normally distributed random numbers (by the Box-Muller transform).

        >>> y = cx.randn(2, seed=7).retrieve()
        >>> cx.execute()
        >>> y.numpy().round(3)
        array([0.476, 0.775], dtype=float32)
        """
        with self.whole():
            return self.rand(*shape, seed=seed).as_normal(self.rand(*shape, seed=seed))

    def randint(self, low: int, high: int, *shape: ShapeLike, seed: int | None = None) -> Tensor:
        """Return random int64 from low up to but not including high.

        >>> dice = cx.randint(1, 7, 5, seed=3).retrieve()
        >>> cx.execute()
        >>> dice.tolist()
        [2, 5, 4, 2, 1]
        """
        with self.whole():
            first, count = _whole("randint", low), _whole("randint", high) - _whole("randint", low)
            if not 1 <= count <= 1 << 24:
                raise DTypeError(
                    f"randint: {low} to {high} is not a range of 1 to {1 << 24} numbers",
                    hint="low comes first, and high is not included",
                )
            return (self.rand(*shape, seed=seed) * count).cast(DType.int64) + first


def _whole(what: str, value: object) -> int:
    number = as_scalar(what, value)
    if isinstance(number, int):
        return number
    raise DTypeError(f"{what}: {value!r} is not a whole number", hint="give one, such as 7")

"""What a graph begins with: inputs, parameters, constants, ranges, random numbers."""

import math

from luminal_lab.core.builder import Builder, ShapeLike
from luminal_lab.core.dims import Dim, Expr
from luminal_lab.core.dtypes import DType, DTypeLike, as_dtype, scalar_dtype
from luminal_lab.core.op import Op, Scalar, TensorType
from luminal_lab.core.ops import Constant, Input, Iota, Random
from luminal_lab.core.parameter import Parameter
from luminal_lab.core.tensor import Tensor
from luminal_lab.core.tensor.base import constant_of
from luminal_lab.errors import DTypeError, ShapeError


class Sources(Builder):
    """The methods of a graph that make tensors from nothing."""

    def __init__(self, name: str, seed: int = 0) -> None:
        super().__init__(name)
        self.seed = seed
        self.randoms: list[int] = []
        """The nodes that are new in each run."""
        self._parameters: dict[Parameter, int] = {}

    def tensor(
        self, shape: ShapeLike, dtype: DTypeLike = "float32", name: str | None = None
    ) -> Tensor:
        """Return an input; its data comes with `set`. Dims are numbers or names."""
        with self.whole():
            type = self.type_of(shape, dtype)
            return self.source(Input(type.dtype, type.shape), name)

    def parameter(self, parameter: Parameter) -> Tensor:
        """Return the input that borrows a parameter's value: one for each parameter."""
        with self.whole():
            id = self._parameters.get(parameter)
            if id is None:
                tensor = self.source(Input(parameter.dtype, parameter.shape), parameter.name)
                id = self._parameters[parameter] = tensor.id
            return Tensor(self, id, self.node(id).type)

    def source(self, op: Op, name: str | None = None) -> Tensor:
        """Add an op without sources, and return its tensor."""
        type = op.infer()
        return Tensor(self, self.append_named(op, type, name), type)

    # -- numbers -----------------------------------------------------------------------------------

    def constant(self, value: Scalar, dtype: DTypeLike | None = None) -> Tensor:
        """Return a number without axes; it may be a symbolic dim."""
        return self.full((), value, dtype)

    def full(self, shape: ShapeLike, value: Scalar, dtype: DTypeLike | None = None) -> Tensor:
        """Return one number everywhere."""
        with self.whole():
            if isinstance(value, Expr):
                self.as_dim(value)
            if dtype is None:
                dtype = DType.int64 if isinstance(value, Expr) else scalar_dtype(value)
            return self.source(constant_of(value, as_dtype(dtype), self.as_shape(shape)))

    def zeros(self, shape: ShapeLike, dtype: DTypeLike = "float32") -> Tensor:
        """Return zeros."""
        return self.full(shape, 0, dtype)

    def ones(self, shape: ShapeLike, dtype: DTypeLike = "float32") -> Tensor:
        """Return ones."""
        return self.full(shape, 1, dtype)

    def arange(
        self,
        start: Scalar,
        stop: Scalar | None = None,
        step: bool | float = 1,
        dtype: DTypeLike | None = None,
    ) -> Tensor:
        """Return start, start + step, … up to but not including stop.

        >>> Graph().arange(2, 11, 3).shape
        (3,)
        """
        with self.whole():
            if stop is None:
                start, stop = 0, start
            if step == 0:
                raise ShapeError("arange: the step is 0", hint="give a step that leads to stop")
            size: Dim
            if isinstance(start, float) or isinstance(stop, float) or isinstance(step, float):
                if isinstance(start, Expr) or isinstance(stop, Expr):
                    raise DTypeError("arange: symbolic ends need a whole step")
                size, found = max(0, math.ceil((stop - start) / step)), DType.float32
            else:
                first, last = self.as_integer(start), self.as_integer(stop)
                span = last - first if step > 0 else first - last
                size, found = (span + abs(step) - 1) // abs(step), DType.int64
                if isinstance(size, int):
                    size = max(0, size)
            wanted = found if dtype is None else as_dtype(dtype)
            counter = wanted if wanted.kind == found.kind else found
            if counter.is_half:  # counts beyond what a half can hold exactly
                counter = DType.float32
            tensor = self.source(Iota(counter, (size,)))
            if step != 1:
                tensor = tensor * step
            if isinstance(start, Expr) or start != 0:
                tensor = tensor + start
            return tensor.cast(wanted)

    def linspace(
        self, start: float, stop: float, steps: int, dtype: DTypeLike = "float32"
    ) -> Tensor:
        """Return `steps` numbers at equal distances, both ends included."""
        with self.whole():
            count = self.as_dim(steps)
            if not isinstance(count, int):
                raise ShapeError(f"linspace: the number of steps is {steps}, and must be known")
            wanted = as_dtype(dtype)
            wide = DType.float32 if wanted.is_half else wanted
            ramp = self.source(Iota(wide, (count,)))
            if count < 2:
                return (ramp + start).cast(wanted)
            # From both ends, so that both are exact.
            width = (stop - start) / (count - 1)
            upper = (ramp * -1.0 + float(count - 1)) * -width + stop
            return (ramp < count / 2).where(ramp * width + start, upper).cast(wanted)

    def eye(self, rows: int | Expr, columns: int | Expr | None = None, dtype: DTypeLike = "float32") -> Tensor:
        """Return ones on the diagonal, and zeros elsewhere."""
        with self.whole():
            wide = self.as_shape(rows if columns is None else columns)
            across = self.source(Iota(DType.int32, wide))
            down = self.source(Iota(DType.int32, self.as_shape(rows))).unsqueeze(1)
            return (across == down).cast(dtype)

    # -- random numbers ----------------------------------------------------------------------------

    def rand(self, *shape: ShapeLike, seed: int | None = None) -> Tensor:
        """Return uniform random numbers from 0 up to but not including 1, anew in each run."""
        with self.whole():
            dims = self.as_shape(shape[0] if len(shape) == 1 else tuple(shape))  # pyright: ignore[reportArgumentType]  # dims, if several
            op = Random(self.seed if seed is None else seed, self.next_stream(), dims)
            tensor = self.source(op)
            self.randoms.append(tensor.id)
            return tensor

    def randn(self, *shape: ShapeLike, seed: int | None = None) -> Tensor:
        """Return normally distributed random numbers (by the Box-Muller transform)."""
        with self.whole():
            radius = (1 - self.rand(*shape, seed=seed)).log2() * (-2 * math.log(2))
            return radius.sqrt() * (self.rand(*shape, seed=seed) * (2 * math.pi)).sin()

    def randint(self, low: int, high: int, *shape: ShapeLike, seed: int | None = None) -> Tensor:
        """Return random int64 from low up to but not including high."""
        with self.whole():
            if high <= low or high - low > 1 << 24:
                raise DTypeError(
                    f"randint: {low} to {high} is not a range of 1 to {1 << 24} numbers",
                    hint="low comes first, and high is not included",
                )
            return (self.rand(*shape, seed=seed) * (high - low)).cast(DType.int64) + low

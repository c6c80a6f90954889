"""cuBLAS beside kernels of our own: both are timed when a plain product is first met.

    %y: f32[512, 512] = matmul(a=%x, b=%w).O  # by cuBLAS: 20.0 µs, where its own code takes 30.0

CuPy cannot record cuBLAS in a graph, so it must be faster by the cost of a launch outside one.

    O[i < m, j < n] = sum k < 512: fused(a[i, k] * b[k, j])     →  gemm(n, m, 512, b, n, a, 512, n)

cuBLAS has matrices column by column, so it computes the transpose: b's columns times a's.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from math import inf
from typing import Any, Final, Literal, NamedTuple, TypeAlias

import numpy as np
from typing_extensions import override

from luminal_lab.core.dims import Dim, Symbol, evaluate, substitute
from luminal_lab.core.dtypes import DType
from luminal_lab.core.ops import Cast, Mul
from luminal_lab.core.ops.intrinsic import FusedMul
from luminal_lab.core.views import row_major
from luminal_lab.devices.gpu.engine import Argument, Location, PlacedLaunch
from luminal_lab.errors import DeviceError
from luminal_lab.kernels.definition.definition import Definition, Output
from luminal_lab.kernels.definition.terms import Apply, Fold, Read, Term
from luminal_lab.kernels.kernel import Kernel
from luminal_lab.kernels.nest.sizes import slope

ProductKey: TypeAlias = tuple[str, tuple[tuple[str, int], ...]]
"""A kernel, and the sizes of its dims."""
OUTSIDE: Final = 5e-6
"""The extra seconds of a launch outside a graph."""
TYPES: Final = {DType.float32: 0, DType.float64: 1, DType.float16: 2, DType.bfloat16: 14}
"""The numbers of cudaDataType_t."""
COMPUTE_32F, COMPUTE_32F_TF32, COMPUTE_64F = 68, 77, 70
"""From cublasComputeType_t: how products are added up."""


class MeasuredChoice(NamedTuple):
    """Which of two candidates computes a product, and the measured seconds of each."""

    ours: float
    library: float

    @property
    def is_library(self) -> bool:
        """Whether cuBLAS is faster, by more than staying outside a graph costs."""
        return self.library + OUTSIDE < self.ours

    @override
    def __str__(self) -> str:
        first, second = ("cuBLAS", "its own code") if self.is_library else ("", "cuBLAS")
        if self.library == inf:
            return ""
        fast, slow = self if not self.is_library else reversed(self)
        text = f"{fast * 1e6:.1f} µs, where {second} takes {slow * 1e6:.1f}"
        return f"by {first}: {text}" if first else text


@dataclass
class Products:
    """What computes the plain products of a program."""

    driver: Any
    """CuPy's; cuBLAS comes with no other."""
    named: Callable[[str], AbstractContextManager[None]]
    """Turns an error from CuPy into one of ours."""
    tf32: bool
    is_asked: bool
    """Whether cuBLAS may compute them."""
    choices: dict[ProductKey, MeasuredChoice] = field(
        default_factory=dict[ProductKey, MeasuredChoice]
    )
    """What computes them, by kernels and sizes of dims."""
    why_not: str = ""
    """Why cuBLAS is not a candidate, if it is not."""
    others: set[str] = field(default_factory=set[str])
    """The kernels that are no such products."""

    @functools.cached_property
    def library(self) -> Any:  # noqa: ANN401  # CuPy's
        """The functions of cuBLAS, if its library is there."""
        try:
            return importlib.import_module("cupy_backends.cuda.libs.cublas")
        except ImportError as error:
            self.why_not = f"cuBLAS is not there: {str(error).splitlines()[0]}"
            return None

    def chosen(self, kernel: str) -> str:
        """Return what computes a plain product, and how long the other candidate would take."""
        texts = [str(choice) for (name, _), choice in self.choices.items() if name == kernel]
        return texts[-1] if texts else ""

    def is_by_library(self, work: Sequence[PlacedLaunch]) -> bool:
        """Return whether cuBLAS does some work."""
        choice = self.choices.get((work[0].kernel.name, work[0].sizes))
        return choice is not None and choice.is_library

    def is_new(self, work: Sequence[PlacedLaunch]) -> bool:
        """Return whether nobody knows yet what computes some work."""
        name, key = work[0].kernel.name, (work[0].kernel.name, work[0].sizes)
        return self.is_asked and name not in self.others and key not in self.choices

    def choose(
        self,
        work: Sequence[PlacedLaunch],
        mine: Callable[[], None],
        seconds: Callable[[Callable[[], None]], float],
    ) -> None:
        """Time a plain product by our own kernel and by cuBLAS, the first time that it is met."""
        if not self.is_new(work):
            return
        kernel, sizes = work[0].kernel, work[0].sizes
        key, product = (kernel.name, sizes), product_of(kernel.definition, dict(sizes))
        if product is None or not _is_apart(work[0]) or self.library is None:
            self.others.add(kernel.name)
            return

        def theirs() -> None:
            self._multiply(product, work[-1])

        ours = seconds(mine)
        try:
            library = seconds(theirs)
        except self.library.CUBLASError as error:
            library, self.why_not = inf, f"kernel {work[0].kernel.name}: cuBLAS failed: {error}"
        self.choices[key] = MeasuredChoice(ours, library)

    def multiply(self, work: Sequence[PlacedLaunch]) -> None:
        """Let cuBLAS do some work."""
        product = product_of(work[0].kernel.definition, dict(work[0].sizes))
        assert product is not None
        try:
            self._multiply(product, work[-1])
        except self.library.CUBLASError as error:
            raise DeviceError(
                f"kernel {work[0].kernel.name}: cuBLAS failed: {error}",
                hint="ll.CUDACompiler(cublas=False) has its own code compute it",
            ) from error

    def _multiply(self, product: GemmCall, launch: PlacedLaunch) -> None:
        """Let cuBLAS do what a kernel does."""
        library = self.library
        is_double = product.factor_dtype is DType.float64
        compute = COMPUTE_64F if is_double else COMPUTE_32F
        if product.factor_dtype is DType.float32 and self.tf32:
            compute = COMPUTE_32F_TF32
        numbers = np.array([1, 0], np.float64 if is_double else np.float32)
        begin: int = numbers.ctypes.data
        addresses = [
            _address(launch.arguments, which, launch.kernel)
            for which in (product.left.argument, product.right.argument, product.result.argument)
        ]
        kinds = TYPES[product.factor_dtype], TYPES[product.result_dtype]
        a, b, c = product.left, product.right, product.result
        with self.named(f"kernel {launch.kernel.name}: cuBLAS failed"), self.driver.stream:
            handle = self.driver.device.cublas_handle
            size = product.m, product.n, product.k
            if product.batch == 1:
                library.gemmEx(
                    handle, a.op, b.op, *size,
                    begin, addresses[0], kinds[0], a.step, addresses[1], kinds[0], b.step,
                    begin + numbers.itemsize, addresses[2], kinds[1], c.step, compute, -1,
                )  # fmt: skip
            else:
                library.gemmStridedBatchedEx(
                    handle, a.op, b.op, *size,
                    begin, addresses[0], kinds[0], a.step, a.stride,
                    addresses[1], kinds[0], b.step, b.stride,
                    begin + numbers.itemsize, addresses[2], kinds[1], c.step, c.stride,
                    product.batch, compute, -1,
                )  # fmt: skip


def _address(arguments: Sequence[Argument], which: int, kernel: Kernel) -> int:
    """Return the address of an operand; numbers count the inputs, and then the result."""
    assert kernel.definition is not None
    at = which if which < len(kernel.definition.inputs) else which + len(kernel.locals)
    location = arguments[at]
    assert isinstance(location, Location)
    return location.address


def _is_apart(launch: PlacedLaunch) -> bool:
    """Return whether the result overlaps none of the inputs, so that it can be computed twice."""
    assert launch.kernel.definition is not None
    count = len(launch.kernel.definition.inputs)
    result = _address(launch.arguments, count, launch.kernel)
    return all(_address(launch.arguments, k, launch.kernel) != result for k in range(count))


# -- which kernels are plain products --------------------------------------------------------------


class GemmOperand(NamedTuple):
    """An operand: which argument of its kernel it is, and how it lies in memory."""

    argument: int
    op: Literal[0, 1]
    """1 if it is transposed, as cuBLAS sees it."""
    step: int
    """The elements from one column to the next, as cuBLAS sees it."""
    stride: int
    """The elements from one product of a batch to the next."""


class GemmCall(NamedTuple):
    """A product of matrices, or a batch of them, as cuBLAS takes it."""

    m: int
    n: int
    k: int
    batch: int
    left: GemmOperand
    right: GemmOperand
    result: GemmOperand
    factor_dtype: DType
    result_dtype: DType


def _terms_of(line: Output) -> tuple[tuple[Read, Read], Fold] | None:
    """Return the factors of a plain product and their sum, if a line is one."""
    fold = _uncast(line.term, line.type.dtype) if line.type.dtype.is_half else line.term
    if not isinstance(fold, Fold) or fold.kind != "sum" or fold.dtype not in TYPES:
        return None
    body = fold.body
    if not isinstance(body, Apply) or not isinstance(body.op, Mul):
        return None
    a, b = (_uncast(factor, fold.dtype) for factor in body.args)
    if not isinstance(a, Read) or not isinstance(b, Read) or a.dtype is not b.dtype:
        return None
    if not a.dtype.is_half and not isinstance(body.op, FusedMul):
        return None  # the library's products are; those of 16-bit floats are exact anyway
    return ((a, b), fold) if a.dtype in TYPES else None


def _uncast(term: Term, to: DType) -> Term:
    """Return what is cast to a dtype."""
    cast = isinstance(term, Apply) and term.op == Cast(to)
    return term.args[0] if cast and isinstance(term, Apply) else term


def product_of(definition: Definition | None, dims: Mapping[str, int]) -> GemmCall | None:
    """Return the product that a kernel computes for some sizes of dims, if cuBLAS has it.

    >>> from luminal_lab.kernels.definition.text import parse_definition
    >>> product_of(parse_definition('''kernel matmul(a: f32[n, 8], b: f32[8, 4]) -> (O: f32[n, 4])
    ...   O[i < n, j < 4] = sum k < 8: fused(a[i, k] * b[k, j])'''), {"n": 3})[:4]
    (4, 3, 8, 1)
    """
    if definition is None or len(definition.lines) != 1:
        return None
    (line,) = definition.lines
    terms = _terms_of(line)
    if terms is None:
        return None
    reads, fold = terms
    sizes = {
        axis.name: evaluate(size, dims)
        for axis, size in zip(line.axes, line.type.shape, strict=True)
    } | {fold.axis.name: evaluate(fold.size, dims)}
    if not all(sizes.values()):
        return None
    axes = [*line.axes, fold.axis]
    shapes = [(definition.types[read.buffer].shape, read.index) for read in reads]
    shapes.append((line.type.shape, line.axes))
    lies: list[dict[str, int]] = []
    for shape, index in shapes:
        steps = _steps(row_major(shape, index), axes, dims)
        if steps is None:
            return None
        lies.append(steps)
    names = [buffer.name for buffer in definition.inputs]
    order = names.index(reads[0].buffer), names.index(reads[1].buffer)
    for (left, right), (first, second) in (((0, 1), order), ((1, 0), order[::-1])):
        arguments, both = (first, second, len(names)), (lies[left], lies[right], lies[2])
        product = _product(both, sizes, fold.axis.name, arguments)
        if product is not None:
            return product._replace(factor_dtype=reads[0].dtype, result_dtype=line.type.dtype)
    return None


def _steps(position: Dim, axes: Sequence[Symbol], dims: Mapping[str, int]) -> dict[str, int] | None:
    """Return by how many elements a position grows along each axis; None if it is not linear."""
    rest = substitute(position, {**dims})
    steps: dict[str, int] = {}
    for axis in axes:
        step = slope(rest, axis)
        if not isinstance(step, int):
            return None
        steps[axis.name], rest = step, rest - axis * step
    return steps if rest == 0 else None


def _product(
    lies: Sequence[dict[str, int]], sizes: Mapping[str, int], k: str, arguments: tuple[int, ...]
) -> GemmCall | None:
    """Return the product with the first operand on the left, if cuBLAS accepts the layout."""
    a, b, c = lies
    inner = [name for name in sizes if sizes[name] > 1 and name != k]
    if any(a[name] < 0 or b[name] < 0 for name in inner):
        return None
    rows = _merged([n for n in inner if b[n] == 0], (a, c), sizes)
    columns = _merged([n for n in inner if a[n] == 0], (b, c), sizes)
    batch = _merged([n for n in inner if a[n] and b[n]], (a, b, c), sizes)
    if rows is None or columns is None or batch is None:
        return None
    (m, (a_m, c_m)), (n, (b_n, c_n)), (many, (a_s, b_s, c_s)) = rows, columns, batch
    depth = sizes[k]
    if depth > 1 and (a[k] <= 0 or b[k] <= 0):
        return None
    if n > 1 and c_n != 1:
        return None
    # As cuBLAS sees it, b's columns come first, and then a's rows.
    left = _matrix(arguments[1], (n, b_n), (depth, b[k]), b_s)
    right = _matrix(arguments[0], (depth, a[k]), (m, a_m), a_s)
    result = _matrix(arguments[2], (n, 1), (m, c_m), c_s)
    if left is None or right is None or result is None:
        return None
    return GemmCall(n, m, depth, many, left, right, result, DType.float32, DType.float32)


def _merged(
    names: list[str], lies: tuple[dict[str, int], ...], sizes: Mapping[str, int]
) -> tuple[int, tuple[int, ...]] | None:
    """Return axes as one: its size and its steps; None if they are not contiguous."""
    size, steps = 1, tuple(0 for _ in lies)
    for name in reversed(names):
        mine = tuple(steps_of[name] for steps_of in lies)
        if size == 1:
            size, steps = sizes[name], mine
        elif all(a == size * b for a, b in zip(mine, steps, strict=True)):
            size *= sizes[name]
        else:
            return None
    return size, steps


def _matrix(
    argument: int, down: tuple[int, int], across: tuple[int, int], stride: int
) -> GemmOperand | None:
    """Return an operand of `down` rows and `across` columns, each with its step."""
    (rows, down_step), (columns, across_step) = down, across
    if rows == 1 or down_step == 1:
        step = across_step if columns > 1 else rows
        return GemmOperand(argument, 0, step, stride) if step >= rows else None
    if columns == 1 or across_step == 1:
        return GemmOperand(argument, 1, down_step, stride) if down_step >= columns else None
    return None

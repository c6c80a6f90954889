"""cuBLAS beside kernels of our own: both are timed when a plain product is first met.

    %y: f32[512, 512] = matmul(a=%x, b=%w).O  # by cuBLAS: 20.0 µs, where its own code takes 30.0

CuPy records no cuBLAS in a graph, so it must be faster by what a launch outside of one costs.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from math import inf
from typing import Any, Final, NamedTuple

import numpy as np
from typing_extensions import override

from luminal_lab.core.dtypes import DType
from luminal_lab.devices.cuda.product import (
    COMPUTE_32F,
    COMPUTE_32F_TF32,
    COMPUTE_64F,
    TYPES,
    GemmCall,
    product_of,
)
from luminal_lab.devices.gpu.engine import Argument, Location, PlacedLaunch
from luminal_lab.errors import DeviceError
from luminal_lab.kernels.kernel import Kernel

OUTSIDE: Final = 5e-6
"""The seconds that a launch takes more outside of a graph."""


class MeasuredChoice(NamedTuple):
    """Which of two candidates computes a product, and the seconds that were measured of each."""

    ours: float
    library: float

    @property
    def is_library(self) -> bool:
        """Whether cuBLAS is faster, by more than being no part of a graph costs."""
        return self.library + OUTSIDE < self.ours

    @override
    def __str__(self) -> str:
        first, second = ("cuBLAS", "its own code") if self.is_library else ("", "cuBLAS")
        if self.library == inf:
            return ""
        fast, slow = self if not self.is_library else reversed(self)
        text = f"{fast * 1e6:.1f} µs, where {second} takes {slow * 1e6:.1f}"
        return f"by {first}: {text}" if first else text


class Products:
    """What computes the plain products of a program."""

    def __init__(
        self,
        device: Any,  # noqa: ANN401  # CuPy's
        stream: Any,  # noqa: ANN401  # CuPy's
        named: Callable[[str], AbstractContextManager[None]],
        *,
        tf32: bool,
    ) -> None:
        self.device, self.stream, self.tf32 = device, stream, tf32
        self.named = named
        """Makes of an error of CuPy's one of ours."""
        self.choices: dict[tuple[str, tuple[tuple[str, int], ...]], MeasuredChoice] = {}
        """What computes them, by kernels and sizes of dims."""
        self.why_not = ""
        """Why cuBLAS is no candidate, where it is none."""

    @functools.cached_property
    def library(self) -> Any:  # noqa: ANN401  # CuPy's
        """The functions of cuBLAS, if its library is there."""
        try:
            return importlib.import_module("cupy_backends.cuda.libs.cublas")
        except ImportError as error:
            self.why_not = f"cuBLAS is not there: {str(error).splitlines()[0]}"
            return None

    def chosen(self, kernel: str) -> str:
        """Return what computes a plain product, and what the other candidate would take."""
        texts = [str(choice) for (name, _), choice in self.choices.items() if name == kernel]
        return texts[-1] if texts else ""

    def is_by_library(self, work: Sequence[PlacedLaunch]) -> bool:
        """Return whether cuBLAS does some work."""
        choice = self.choices.get((work[0].kernel.name, work[0].sizes))
        return choice is not None and choice.is_library

    def choose(
        self,
        work: Sequence[PlacedLaunch],
        mine: Callable[[], None],
        seconds: Callable[[Callable[[], None]], float],
    ) -> None:
        """Time a plain product of our own and of cuBLAS's, the first time that it is met."""
        key = work[0].kernel.name, work[0].sizes
        if key in self.choices:
            return
        product = product_of(work[0].kernel.definition, dict(work[0].sizes))
        if product is None or not _is_apart(work[0]) or self.library is None:
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
        """Have cuBLAS do some work."""
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
        """Have cuBLAS do what a kernel does."""
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
        with self.named(f"kernel {launch.kernel.name}: cuBLAS failed"), self.stream:
            handle = self.device.cublas_handle
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
    """Return where an operand is; its number counts inputs, and then the result."""
    assert kernel.definition is not None
    at = which if which < len(kernel.definition.inputs) else which + len(kernel.locals)
    location = arguments[at]
    assert isinstance(location, Location)
    return location.address


def _is_apart(launch: PlacedLaunch) -> bool:
    """Return whether the result lies over none of the inputs, so that it can be computed twice."""
    assert launch.kernel.definition is not None
    count = len(launch.kernel.definition.inputs)
    result = _address(launch.arguments, count, launch.kernel)
    return all(_address(launch.arguments, k, launch.kernel) != result for k in range(count))

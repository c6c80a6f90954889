"""One of our kernels in the emulator, on given or random data, compared with its definition.

    kernel.emulate(trace=True)      # kernel = cx.kernels[0] of ll.CUDACompiler() or MetalCompiler()

Dims without a size get a small one. A run that would take too long is refused at once, and the
error names sizes that would work.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from typing import Final

import numpy as np

from luminal_lab.core.binding import as_array, bound_shape, fit, solve_shape
from luminal_lab.core.dims import Dim, Symbol, check_bounds, evaluate as number_of, minimum
from luminal_lab.core.dtypes import Array, DType
from luminal_lab.core.op import TensorType, ints, mentioned, size_of
from luminal_lab.emulator.emulate import Argument, Call, Matrix, Order, emulate
from luminal_lab.errors import (
    ArgumentError,
    DeviceError,
    DimError,
    InputError,
    RangeError,
    expect,
    whole_number,
)
from luminal_lab.kernels.definition.definition import Buffer, Definition
from luminal_lab.kernels.definition.evaluate import evaluate
from luminal_lab.kernels.definition.terms import Lookup, Read, walk
from luminal_lab.kernels.dialect import CUDA, METAL
from luminal_lab.kernels.emulated import Emulated, EmulatedLaunch, Meaning
from luminal_lab.kernels.kernel import Kernel
from luminal_lab.kernels.launch import numbers_of
from luminal_lab.kernels.render.gpu.program import gpu_source

SMALL: Final = 17
"""The size of the first dim without one: no multiple of a tile, and more than one of some tiles."""
EACH_SECOND: Final = {False: 1_000_000, True: 130_000}
"""How many operations run in a second, NumPy's included: without a trace, and with one."""


def emulate_kernel(
    kernel: Kernel,
    inputs: Mapping[str, object],
    dims: Mapping[str, int],
    *,
    trace: bool,
    limit: float,
    step: int,
    fill: int = 0xFF,
    order: Order = "late",
) -> Emulated:
    """Run a kernel's phases on inputs by name, and compare the results with its meaning.

    `fill` is the value of each byte of its outputs beforehand.
    """
    subject = f"kernel {kernel.name}"
    said = f"{subject}: inputs is a {type(inputs).__name__}, which names none of them"
    expect(inputs, Mapping, said, 'give a dict by their names, as in {"a": array}')
    said = f"{subject}: dims is {{}}, which names none of them"
    expect(dims, Mapping, said, 'give a dict, as in {"n": 8}')
    expect(trace, bool | np.bool_, f"{subject}: trace is {{}}", "give True or False")
    is_number = isinstance(limit, int | float) and not isinstance(limit, bool)  # pyright: ignore[reportUnnecessaryIsInstance]  # nobody checks notebooks
    if not is_number or not 0 < limit < inf:
        hint = "give seconds, as in limit=60; they are above 0"
        raise ArgumentError(f"{subject}: limit is {limit!r}", hint=hint)
    ArgumentError.unless_number(step, f"{subject}: step is {step!r}", "it counts runs, from 0")
    run = KernelRun(kernel, inputs, dims, step)
    run.check_work(trace=trace, limit=limit)
    run.fill()
    expected = run.expected()
    dialect, spelled = ("metal", METAL) if kernel.dialect == "metal" else ("cuda", CUDA)
    source = gpu_source([kernel], spelled)
    above = source.count("\n") - kernel.source.count("\n") - 1
    calls = run.calls(fill)
    seen = emulate(source, dialect, calls, trace=trace, limit=limit, above=above, order=order)
    run.check_fault()
    outcome = tuple(run.launches), run.given, run.results
    return Emulated(kernel.name, kernel.dialect, run.sizes, *outcome, expected, seen)


class KernelRun:
    """One run of a single kernel: its data and its sizes."""

    def __init__(
        self, kernel: Kernel, inputs: Mapping[str, object], dims: Mapping[str, int], step: int = 0
    ) -> None:
        self.kernel = kernel
        self.subject = f"kernel {kernel.name}"
        self.step = step
        self.meaning = meaning_of(kernel)
        self._check_names(inputs)
        arrays = {name: as_array(a, f"{self.subject}: {name}") for name, a in inputs.items()}
        self.sizes = self._sized({name: array.shape for name, array in arrays.items()}, dims)
        self.inputs = inputs
        self.given: dict[str, Array] = {}
        self.results: dict[str, Array] = {}
        self.launches: list[EmulatedLaunch] = []
        self.fault = np.zeros(1, np.int32)

    def _check_names(self, inputs: Mapping[str, object]) -> None:
        known = [name for name, _ in self.meaning.inputs]
        for name in inputs:
            hint = f"its inputs: {', '.join(known) or 'none'}"
            InputError.unless_known(name, known, f"{self.subject}: it has no input {name!r}", hint)

    # -- sizes -------------------------------------------------------------------------------------

    def _sized(
        self, shapes: Mapping[str, tuple[int, ...]], dims: Mapping[str, int]
    ) -> dict[str, int]:
        """Return the sizes of all dims: given ones, those of data, and small ones for the rest."""
        known = self.symbols
        sizes: dict[str, int] = {}
        for name, size in dims.items():
            number = whole_number(size)
            hint = f"its dims: {', '.join(known) or 'none'}"
            DimError.unless_known(name, known, f"{self.subject}: it has no dim {name!r}", hint)
            if number is None:
                raise DimError(f"{self.subject}: {name} is {size!r}", hint="give a whole number")
            check_bounds(known[name], number)
            sizes[name] = number
        for name, type in self.meaning.inputs:
            if len(shapes.get(name, ())) == len(type.shape) and name in shapes:
                for dim, size in solve_shape(type.shape, shapes[name], sizes).items():
                    check_bounds(known[dim], size)
                    sizes.setdefault(dim, size)
        for order, (name, symbol) in enumerate(known.items()):
            sizes.setdefault(name, small(symbol, SMALL + 2 * order))
        return {name: sizes[name] for name in known}

    @property
    def symbols(self) -> Mapping[str, Symbol]:
        """The symbolic dims, by name."""
        if self.kernel.definition is not None:
            return self.kernel.definition.dims
        types = [type for _, type in (*self.meaning.inputs, *self.meaning.outputs)]
        extra = TensorType(DType.int64, tuple(self.meaning.limits.values()))
        named = mentioned([*types, extra], ())
        return {name: named.get(name, Symbol(name)) for name in self.kernel.dims}

    def check_work(self, *, trace: bool, limit: float) -> None:
        """Raise if the run would exceed the time limit, and suggest smaller sizes."""
        work, most = self._work(self.sizes), max(1, int(EACH_SECOND[trace] * limit))
        if work <= most:
            return
        sizes = self.sizes
        while self._work(sizes) > most:
            fewer = {n: small(self.symbols[n], max(1, size // 2)) for n, size in sizes.items()}
            if fewer == sizes:
                break
            sizes = fewer
        if self._work(sizes) <= most:
            smaller = ", ".join(f'"{name}": {size}' for name, size in sizes.items())
            hint = f"dims={{{smaller}}} would do; or give it more time, with limit="
        else:
            hint = (
                f"a graph whose sizes make it {-(-work // most):,} times smaller would do; or give "
                "it more time, with limit="
            )
        sizes_text = "".join(f" with {name} = {size:,}" for name, size in self.sizes.items())
        raise DeviceError(
            f"{self.subject}: it has about {work:,} operations{sizes_text}, and in {limit:g} s the "
            f"emulator does some {most:,}{' with a trace' if trace else ''}",
            hint=hint,
        )

    def _work(self, sizes: Mapping[str, int]) -> int:
        """Return roughly how many operations it takes, including its loads and stores."""
        types = [type for _, type in (*self.meaning.inputs, *self.meaning.outputs)]
        moved = sum(number_of(size_of(type.shape), sizes) for type in types)
        return self.kernel.flops(sizes) + moved

    # -- data --------------------------------------------------------------------------------------

    def fill(self) -> None:
        """Take the given inputs, and draw the others."""
        rng = np.random.default_rng(0)
        for name, type in self.meaning.inputs:
            label = f"{self.subject}: {name}"
            shape = bound_shape(label, type.shape, self.sizes)
            bound = type.with_shape(shape)
            if name in self.inputs:
                array = fit(label, self.inputs[name], bound, {}, copy=False)
                self.given[name] = np.require(array, requirements=("C", "A"))
            else:
                self.given[name] = self._drawn(name, type.dtype, ints(shape), rng)

    def _drawn(
        self, name: str, dtype: DType, shape: tuple[int, ...], rng: np.random.Generator
    ) -> Array:
        if dtype is DType.bool_:
            return rng.integers(0, 2, shape).astype(bool)
        if dtype.is_float:
            return rng.standard_normal(shape).astype(dtype.numpy)
        definition = self.kernel.definition
        if definition is not None and name in definition.floats:
            floats = rng.standard_normal(shape).astype(definition.floats[name].numpy)
            return floats.view(dtype.numpy)
        low, high = dtype.limits
        low, high = max(low, -50), min(high, 50)
        if name in self.meaning.limits:
            low, high = 0, max(1, number_of(self.meaning.limits[name], self.sizes))
        return rng.integers(low, high, shape).astype(dtype.numpy)

    def expected(self) -> dict[str, Array]:
        """Return the outputs that the kernel's definition yields; none if it has no definition."""
        if self.kernel.definition is not None:
            return evaluate(self.kernel.definition, self.given, self.sizes, step=self.step)
        if self.meaning.compute is None:
            return {}
        with np.errstate(all="ignore"):
            outputs = self.meaning.compute(list(self.given.values()), self.sizes)
        return {name: a for (name, _), a in zip(self.meaning.outputs, outputs, strict=True)}

    # -- launches ----------------------------------------------------------------------------------

    def calls(self, fill: int) -> list[Call]:
        """Return the launches in order, on outputs and locals with meaningless contents."""
        kernel, sizes = self.kernel, self.sizes
        for name, type in self.meaning.outputs:
            shape = ints(bound_shape(f"{self.subject}: {name}", type.shape, sizes))
            array = self.results[name] = np.empty(shape, type.dtype.numpy)
            array.reshape(-1).view(np.uint8)[:] = fill
        arrays = [*self.given.values(), *self._locals(), *self.results.values()]
        fresh = tuple(range(len(self.given), len(arrays)))
        calls: list[Call] = []
        for phase in kernel.phases:
            blocks = number_of(phase.tasks, sizes)
            if blocks == 0:
                continue
            given: list[Argument] = [*arrays, *numbers_of(kernel, sizes)]
            given += [self.step & 0xFFFFFFFF] * phase.draws + [self.fault] * phase.faults
            given += [Matrix(arrays[tile.number], tile) for tile in phase.maps]
            calls.append(Call.of(phase, blocks, given, () if calls else fresh))
            self.launches.append(EmulatedLaunch(phase.function, blocks, phase.threads))
        return calls

    def _locals(self) -> list[Array]:
        """Return the kernel's local arrays."""
        definition = self.kernel.definition
        types = {local.name: local.type for local in definition.locals} if definition else {}
        arrays: list[Array] = []
        for local in self.kernel.locals:
            dtype = types[local.name].dtype if local.name in types else DType.uint8
            count = number_of(local.bytes, self.sizes) // dtype.itemsize
            arrays.append(np.zeros(count, dtype.numpy))
        return arrays

    def check_fault(self) -> None:
        """Raise if the kernel has reported an index out of range."""
        if self.fault[0]:
            fault = f"{self.subject}: an index is outside of what it is looked up in"
            raise RangeError(fault, hint="give the input that holds indices, as in emulate({...})")


def meaning_of(kernel: Kernel) -> Meaning:
    """Return what a kernel takes and returns, with the limits of the indices among its inputs."""
    if kernel.definition is None:
        assert kernel.meaning is not None, "whoever makes a kernel without a definition says it"
        return kernel.meaning
    definition = kernel.definition
    outputs = tuple(Buffer(output.name, output.type) for output in definition.outputs)
    return Meaning(definition.inputs, outputs, limits=_limits(definition))


def _limits(definition: Definition) -> dict[str, Dim]:
    """Return, for each input that holds positions, the smallest size that it indexes."""
    integers = {name for name, type in definition.inputs if not type.dtype.is_float}
    limits: dict[str, Dim] = {}
    for term in walk(*(line.term for line in definition.lines)):
        for part in walk(term.position) if isinstance(term, Lookup) else ():
            if isinstance(part, (Read, Lookup)) and part.buffer in integers:
                assert isinstance(term, Lookup)
                limits[part.buffer] = minimum(limits.get(part.buffer, term.size), term.size)
    return limits


def small(symbol: Symbol, wanted: int) -> int:
    """Return the size nearest to a wanted one within a dim's bounds."""
    step, high = symbol.multiple_of, symbol.high
    size = -(-max(symbol.low, wanted) // step)
    return step * (min(size, high // step) if isinstance(high, int) else size)

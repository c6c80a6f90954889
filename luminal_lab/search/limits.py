"""What is known about a form before it is measured: its work, and the least seconds it can take.

A limit must hold whatever the schedule does: values that it may skip, such as those behind a mask,
do not count, and values that it may share between points count once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from math import prod

from luminal_lab.core.dims import Symbol, evaluate
from luminal_lab.core.dtypes import DType
from luminal_lab.core.op import size_of
from luminal_lab.core.ops import Mul, Where
from luminal_lab.core.ops.intrinsic import FusedMul
from luminal_lab.devices.cpu.compiler import CPUCompiler
from luminal_lab.devices.facts.probe import known_rates, peak_rates
from luminal_lab.devices.runtime.compiler import DeviceCompiler
from luminal_lab.errors import LabError
from luminal_lab.kernels.definition.cost import bytes_moved, flops
from luminal_lab.kernels.definition.definition import Definition
from luminal_lab.kernels.definition.terms import (
    Apply,
    Fold,
    Guarded,
    Lookup,
    Number,
    Read,
    Term,
    free,
    walk,
)
from luminal_lab.machines.rates import PeakRates
from luminal_lab.search.driver import FormLimit
from luminal_lab.search.forms import Form

FLOPS_OF_BYTE = 8
"""How many operations take about as long as moving one byte."""
ENOUGH = 20.0
"""The seconds of a budget from which it is worth measuring the machine's unknown rates."""


def work_of(definition: Definition, dims: Mapping[str, int]) -> float:
    """Return the operations, plus the bytes as operations that take as long."""
    return max(1, flops(definition, dims), bytes_moved(definition, dims) * FLOPS_OF_BYTE)


def limits_of(
    forms: Sequence[Form], dims: Mapping[str, int], rates: PeakRates | None, machine: str
) -> tuple[FormLimit, ...]:
    """Return what is known about forms if there are several; without rates, only their work."""
    if len(forms) == 1:
        return ()
    work = [sum(work_of(definition, dims) for definition in form.definitions) for form in forms]
    least = seconds_of(forms, dims, rates)
    return tuple(FormLimit(*known, machine) for known in zip(work, least, strict=True))


def seconds_of(
    forms: Sequence[Form], dims: Mapping[str, int], rates: PeakRates | None
) -> list[float | None]:
    """Return the least seconds of each form; None if the rates are unknown or in doubt."""
    if rates is None or rates.is_doubtful:
        return [None] * len(forms)
    return [sum(least_seconds(d, dims, rates) for d in form.definitions) for form in forms]


def rates_of(device: DeviceCompiler, seconds: float = 0.0) -> PeakRates | None:
    """Return a CPU's rates, measured now if the budget is worth it; None if they are unknown."""
    if not isinstance(device, CPUCompiler):
        return None
    with suppress(LabError, OSError):
        if ENOUGH <= seconds < float("inf"):
            return peak_rates(device.threads)
        return known_rates(device.threads)
    return None


def least_seconds(definition: Definition, dims: Mapping[str, int], rates: PeakRates) -> float:
    """Return the least seconds that a kernel takes with any schedule."""
    written = sum(
        evaluate(size_of(line.type.shape), dims) * line.type.dtype.itemsize
        for line in definition.outputs
    )
    read, operations = least_work(definition, dims)
    floats = [type.dtype for type in definition.types.values() if type.dtype.is_float]
    dtype = max(floats or [DType.float32], key=lambda dtype: dtype.itemsize).name
    limits = (
        rates.limit(
            flops=operations,
            read=read,
            written=written,
            dtype=dtype.removesuffix("_"),
            threads=threads,
        )
        for threads in (1, rates.threads)
    )
    return min(limit.seconds for limit in limits)


def least_work(definition: Definition, dims: Mapping[str, int]) -> tuple[int, int]:
    """Return the bytes read and the operations done whatever the schedule does.

    Only the fold with the most operations counts, and nothing behind a mask or a lookup.
    """
    read: dict[str, int] = {}
    operations = 0
    for line in definition.lines:
        parts = [*walk(line.term)]
        if any(_may_skip(part) for part in parts):
            return 0, 0
        sizes: dict[str, int] = {}
        folds = [(part.axis.name, part.size) for part in parts if isinstance(part, Fold)]
        own = [(axis.name, size) for axis, size in zip(line.axes, line.type.shape, strict=True)]
        try:
            for name, dim in (*own, *folds):
                size = evaluate(dim, dims)
                sizes[name] = min(size, sizes.get(name, size))
        except (LabError, LookupError):  # a fold whose size depends on its position
            return 0, 0
        for part in parts:
            points = prod(sizes.get(name, 1) for name in free(part))
            if isinstance(part, Read) and _is_plain(part):
                bytes_ = points * part.dtype.itemsize
                read[part.buffer] = max(bytes_, read.get(part.buffer, 0))
            elif isinstance(part, Fold) and part.states is None:
                each = 2 if _is_product(part.body) else 1
                operations = max(operations, each * points * sizes[part.axis.name])
    return sum(read.values()), operations


def _may_skip(part: Term) -> bool:
    """Return whether a schedule may skip what is inside."""
    return isinstance(part, (Guarded, Lookup)) or (
        isinstance(part, Apply) and isinstance(part.op, Where)
    )


def _is_plain(read: Read) -> bool:
    """Return whether all its elements differ: an axis for each index."""
    names = [index.name for index in read.places if isinstance(index, Symbol)]
    return len({*names}) == len(names) == len(read.places)


def _is_product(term: Term) -> bool:
    return (
        isinstance(term, Apply)
        and isinstance(term.op, (Mul, FusedMul))
        and not any(isinstance(argument, Number) for argument in term.args)
    )

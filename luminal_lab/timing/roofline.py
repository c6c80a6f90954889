"""The least time of a launch on a device: what its figures allow, and which of them limits it.

    seconds = max(operations / peak rate, bytes / bandwidth, launches × what one takes)

This is a model, not a run: it ignores whatever a kernel does badly.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from typing_extensions import override

from luminal_lab.core.dtypes import DType
from luminal_lab.core.printer import as_text
from luminal_lab.errors import DeviceError, DimError, expect
from luminal_lab.kernels.definition.cost import NO_DIMS
from luminal_lab.kernels.definition.definition import Definition
from luminal_lab.kernels.kernel import Kernel
from luminal_lab.kernels.launch import Launch
from luminal_lab.machines.figures import ComputePeak, Figure, Specification
from luminal_lab.machines.rates import size_text
from luminal_lab.tensor.arguments import told_object
from luminal_lab.timing.work import Work, work_of_definition

Bound: TypeAlias = Literal["memory", "cache", "compute", "launch"]
Modellable: TypeAlias = Launch | Kernel | Definition
UNITS = {"f16": "float16", "bf16": "bfloat16", "tf32": "tf32"}
"""The dtype whose rate applies on tensor units, by the prelude's word for the factors."""
PRODUCT = re.compile(r"lab_(?:wg)?mma_(f16|bf16|tf32)(_|$)")
CACHES = "what caches keep between launches and within them"
OVERLAP = "launches that overlap"
WAITING = "latency, divergence, bank conflicts, uneven work"
TENSOR = "tensor units, which a schedule for this device might use"
WHOLE = "that not all of its operations are products"


@told_object("times")
@dataclass(frozen=True, repr=False)
class Modelled:
    """The least time that a device's figures allow for a launch; nothing was run."""

    seconds: float
    bound: Bound
    """The figure that limits it."""
    ignores: str
    """What would also take time, or save some, and is not counted."""
    device: str
    flops: int
    bytes: int
    compute: float
    """The least seconds that the operations take."""
    memory: float
    """The least seconds that the bytes take."""
    launch: float
    """The least seconds that the launch itself takes."""
    unit: str
    """The rate at which operations were counted, as in "float16 (tensor)"."""
    figure: Figure
    """The figure that limits it, with its source."""

    @override
    def __str__(self) -> str:
        factor, unit = (1e3, "ms") if self.seconds >= 1e-3 else (1e6, "µs")
        return (
            f"~{factor * self.seconds:.3f} {unit} modelled for {self.device}, bound by "
            f"{self.bound}: {size_text(self.bytes)}, {self.flops:,} operations in {self.unit}\n"
            f"figure: {self.figure.source} ({self.figure.how})\n"
            f"ignores: {self.ignores}"
        )

    _repr_mimebundle_ = as_text

    @override
    def __repr__(self) -> str:
        return f"<Modelled ~{1e3 * self.seconds:.6f} ms, bound by {self.bound}>"


def modelled(
    subject: Modellable, specification: Specification, dims: Mapping[str, int] = NO_DIMS
) -> Modelled:
    """Return the least time of a launch, a kernel or a definition on a device.

    Operations count at the rate of their dtype, and at that of tensor units only if the kernel's
    code uses them. 16-bit floats and whole numbers are computed as float32.

    >>> from luminal_lab.devices.facts.specifications import specification
    >>> from luminal_lab.kernels.definition.text import parse_definition
    >>> text = '''kernel twice(x: f32[n]) -> (y: f32[n])
    ...   y[i < n] = x[i] + x[i]'''
    >>> least = modelled(parse_definition(text), specification("h200"), {"n": 600_000_000})
    >>> least.seconds, least.bound
    (0.001, 'memory')
    """
    kernel = subject.kernel if isinstance(subject, Launch) else subject
    said = "modelled: {} is not a launch, a kernel or a definition"
    expect(kernel, Kernel | Definition, said, "give one of cx.launches or of cx.kernels")
    hint = 'give one, as in ll.devices.specification("h200")'
    expect(specification, Specification, "modelled: {} is not a specification of a device", hint)
    check_sizes(kernel, dims)
    work = work_of_kernel(kernel, dims)
    flops, moved = work.flops or 0, work.bytes or 0
    peak, ignored = _peak(kernel, work.dtype, specification)
    compute = flops / peak.flops.value
    phases = len(kernel.phases) if isinstance(kernel, Kernel) and kernel.dialect != "c" else 1
    launch = phases * specification.launch.value
    bound: Bound = "memory"
    if specification.rates is None:
        memory, figure = moved / specification.bandwidth.value, specification.bandwidth
    else:
        # Measured rates know what fits into each cache.
        limit = specification.rates.limit(flops=0, read=work.read or 0, written=work.written or 0)
        bound = "cache" if limit.bound == "cache" else "memory"
        memory, figure = limit.seconds, specification.bandwidth
        compute = (work.floats or 0) / (specification.rates.gflops(peak.dtype) * 1e9)
        ignored = [caveat for caveat in ignored if caveat != CACHES]
    seconds = max(compute, memory, launch)
    if seconds == compute:
        bound, figure = "compute", peak.flops
    if seconds == launch:
        bound, figure = "launch", specification.launch
    return Modelled(
        seconds,
        bound,
        ignores="; ".join([*ignored, OVERLAP, WAITING]),
        device=specification.name,
        flops=flops,
        bytes=moved,
        compute=compute,
        memory=memory,
        launch=launch,
        unit=peak.name,
        figure=figure,
    )


def check_sizes(kernel: Kernel | Definition, dims: Mapping[str, int]) -> None:
    """Raise unless every dim of a kernel has a size."""
    for name in kernel.dims:
        if name not in dims:
            fault = f"modelled: the dim {name!r} of {kernel.name} has no size"
            raise DimError(fault, hint=f'give it one, as in dims={{"{name}": 128}}')


def work_of_kernel(kernel: Kernel | Definition, dims: Mapping[str, int]) -> Work:
    """Return the work of a kernel, for sizes of its dims."""
    if isinstance(kernel, Definition):
        return work_of_definition(kernel, dims)
    if kernel.definition is not None:
        return work_of_definition(kernel.definition, dims)
    flops = kernel.flops(dims)
    return Work(flops, kernel.bytes(dims), 0, DType.float32, flops)


def _peak(
    kernel: Kernel | Definition, dtype: DType, specification: Specification
) -> tuple[ComputePeak, list[str]]:
    """Return the rate at which a kernel's operations run, and what the model ignores."""
    uses = kernel.uses if isinstance(kernel, Kernel) else frozenset[str]()
    for product in filter(None, map(PRODUCT.match, sorted(uses))):
        tensor = specification.peak(UNITS[product[1]], is_tensor=True)
        if tensor is not None:
            return tensor, [CACHES, WHOLE]
    wanted = "float64" if dtype is DType.float64 else "float32"
    peak = specification.peak(wanted)
    if peak is None:
        fault = f"modelled: {kernel.name} computes in {wanted}, and {specification.name} has none"
        raise DeviceError(fault, hint='cast("float32") what it reads, or choose another device')
    has_tensor = any(peak.is_tensor for peak in specification.peaks)
    return peak, [CACHES, TENSOR] if has_tensor else [CACHES]

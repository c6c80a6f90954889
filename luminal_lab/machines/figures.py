"""What a device can do at most: figures, each with how it is known and its source."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

from typing_extensions import override

from luminal_lab.core.printer import as_text
from luminal_lab.machines.rates import PeakRates, size_text
from luminal_lab.tables import aligned

HowKnown: TypeAlias = Literal["stated", "derived", "assumed", "measured"]
"""Whether a document states a figure, it follows from others, it is a guess, or it was measured."""
MARK = {"stated": "", "derived": "*", "assumed": "?", "measured": "="}
"""The mark after a figure in a table, so that a guess does not look like a fact."""
LEGEND = "* derived from other figures   ? assumed   = measured here"


class Figure(NamedTuple):
    """A number, how it is known, and from where."""

    value: float
    source: str
    """The document, the calculation, or the assumption."""
    how: HowKnown = "stated"


class ComputePeak(NamedTuple):
    """The most operations per second on numbers of a dtype; a multiply-add counts as two."""

    dtype: str
    flops: Figure
    is_tensor: bool = False
    """Whether it belongs to the units for matrix products, which few kernels use."""

    @property
    def name(self) -> str:
        """What the peak is of, as in "float16 (tensor)"."""
        return f"{self.dtype} (tensor)" if self.is_tensor else self.dtype


@dataclass(frozen=True)
class Capability:
    """What one core of an NVIDIA GPU hands out to blocks, and in which pieces; memory is in bytes.

    A block may have all registers, but at most 255 a thread; `reserved` is the shared memory that
    the system takes for each block.
    """

    shared: int
    block_shared: int
    """The most that one block may have, of which 48 KiB without asking the driver."""
    warps: int
    blocks: int
    cores: int
    """How many such cores a GPU has if it is not in the table."""
    registers: int = 65536
    thread_registers: int = 255
    register_piece: int = 256
    """Registers are handed out to warps in pieces of this many."""
    shared_piece: int = 128
    reserved: int = 1024
    quarters: int = 4
    """A warp lives in one of this many parts, each with its share of the registers."""


@dataclass(frozen=True, repr=False)
class Specification:
    """What a device can do at most; every figure has its source.

    >>> launch = Figure(2e-6, "assumed: a round number", "assumed")
    >>> peak = ComputePeak("float32", Figure(1e12, "its data sheet"))
    >>> toy = Specification("a toy", "nobody", "cuda", "sm_80", (peak,), Figure(1e11, "its data "
    ...                     "sheet"), None, Figure(4, "its data sheet"), None, launch)
    >>> toy.peak("float32").flops.value
    1000000000000.0
    """

    name: str
    maker: str
    dialect: Literal["c", "cuda", "metal"]
    """The language of its kernels."""
    arch: str | None
    """The architecture for which its kernels are compiled, as in "sm_90a"."""
    peaks: tuple[ComputePeak, ...]
    bandwidth: Figure
    """Bytes per second to and from memory."""
    memory: Figure | None
    """The bytes of its memory."""
    cores: Figure
    """The units that run blocks of threads: streaming multiprocessors, GPU cores, cores."""
    shared: Figure | None
    """The most bytes that the threads of a block can share."""
    launch: Figure
    """The least seconds that a launch takes, whatever it does."""
    cache: Figure | None = None
    """The bytes of the last cache before memory."""
    cache_bandwidth: Figure | None = None
    rates: PeakRates | None = None
    """What was measured, instead of what is stated: this machine's."""

    def peak(self, dtype: str, *, is_tensor: bool = False) -> ComputePeak | None:
        """Return the rate of operations on a dtype, if it has any."""
        matching = (
            peak for peak in self.peaks if (peak.dtype, peak.is_tensor) == (dtype, is_tensor)
        )
        return next(matching, None)

    @property
    def how(self) -> str:
        """How its rates are known: measured here, or stated by its maker."""
        return "stated" if self.rates is None else "measured"

    @property
    def figures(self) -> dict[str, Figure]:
        """All figures by what they describe."""
        peaks = {f"{peak.name}, FLOP/s": peak.flops for peak in self.peaks}
        others = {
            "memory, bytes": self.memory,
            "bandwidth, bytes/s": self.bandwidth,
            "cache, bytes": self.cache,
            "cache bandwidth, bytes/s": self.cache_bandwidth,
            "cores": self.cores,
            "shared memory of a block, bytes": self.shared,
            "launch, seconds": self.launch,
        }
        return peaks | {name: peak for name, peak in others.items() if peak is not None}

    @override
    def __str__(self) -> str:
        kind = f", {self.arch}" if self.arch else ""
        rows = [
            [shown(label, figure), figure.how, figure.source]
            for label, figure in self.figures.items()
        ]
        names = [label.partition(", ")[0] for label in self.figures]
        header = [("<", "figure"), (">", "at most"), ("<", "known"), ("<", "from")]
        table = aligned(header, [[n, *row] for n, row in zip(names, rows, strict=True)])
        return "\n".join([f"{self.name} ({self.maker}{kind})", *(f"  {line}" for line in table)])

    _repr_mimebundle_ = as_text

    @override
    def __repr__(self) -> str:
        return f"<Specification of {self.name}; print(…) shows its figures and their sources>"


def shown(label: str, figure: Figure) -> str:
    """Return a figure in the unit that people use for it; `label` ends in its own unit.

    >>> shown("bandwidth, bytes/s", Figure(3.35e12, "")), shown("launch, seconds", Figure(2e-6, ""))
    ('3,350 GB/s', '2 µs')
    """
    unit = label.rpartition(", ")[2]
    if unit == "FLOP/s":
        return rate_text(figure.value)
    if unit == "bytes/s":
        return f"{figure.value / 1e9:,.0f} GB/s"
    if unit == "bytes":
        return f"{figure.value / 1e9:.0f} GB" if figure.value >= 4e9 else size_text(figure.value)
    if unit == "seconds":
        return f"{figure.value * 1e6:g} µs"
    return f"{figure.value:g}"


def rate_text(flops: float) -> str:
    """Return a rate of operations, written as briefly as possible.

    >>> rate_text(19.5e12), rate_text(82.58e9)
    ('19.5 TFLOP/s', '82.6 GFLOP/s')
    """
    return f"{flops / 1e12:.4g} TFLOP/s" if flops >= 1e12 else f"{flops / 1e9:.3g} GFLOP/s"

"""The one table of GPUs: figures that their makers have published, or calculated from these.

`CAPABILITIES` has what all GPUs of an architecture share, `CARDS` the GPUs.

Peaks of the tensor units are without sparsity. If a maker's table and its rounded figures differ,
the table counts. What no maker says is calculated, and the source says how; overheads are
assumptions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType

from luminal_lab.machines.figures import Capability, ComputePeak, Figure, Specification

TERA, GIGA = 10**12, 10**9
KIB, MIB = 1 << 10, 1 << 20

TURING = "NVIDIA Turing GPU Architecture whitepaper"
T4_SHEET = "NVIDIA T4 Tensor Core GPU data sheet"
AMPERE = "NVIDIA A100 Tensor Core GPU Architecture whitepaper"
A100_SHEET = "NVIDIA A100 Tensor Core GPU data sheet"
ADA = "NVIDIA Ada GPU Architecture whitepaper"
HOPPER = "NVIDIA H100 Tensor Core GPU Architecture whitepaper"
H100_SHEET = "NVIDIA H100 Tensor Core GPU data sheet"
H200_SHEET = "NVIDIA H200 Tensor Core GPU data sheet"
GUIDE = "CUDA C++ Programming Guide, technical specifications per compute capability"
METAL_TABLES = "Metal Feature Set Tables, maximum total threadgroup memory allocation"

CAPABILITIES: Mapping[str, Capability] = MappingProxyType(
    {
        # The guide's table: shared memory of a multiprocessor and of a block, resident warps and
        # blocks. The allocation pieces, and what is reserved, are those in the toolkit's
        # cuda_occupancy.h. The cores are those of T4, A100, RTX 3090, RTX 4090, H100, B200 and RTX
        # 5090.
        "sm_75": Capability(64 * KIB, 64 * KIB, 32, 16, 40, shared_piece=256, reserved=0),
        "sm_80": Capability(164 * KIB, 163 * KIB, 64, 32, 108),
        "sm_86": Capability(100 * KIB, 99 * KIB, 48, 16, 82),
        "sm_89": Capability(100 * KIB, 99 * KIB, 48, 24, 128),
        "sm_90": Capability(228 * KIB, 227 * KIB, 64, 32, 132),
        "sm_100": Capability(228 * KIB, 227 * KIB, 64, 32, 148),
        "sm_120": Capability(100 * KIB, 99 * KIB, 48, 24, 170),
    }
)


def capability_of(arch: str) -> Capability | None:
    """Return what GPUs of an architecture share; None if it is unknown.

    >>> capability_of("sm_90a") is capability_of("sm_90"), capability_of("sm_10")
    (True, None)
    """
    return CAPABILITIES.get(arch.rstrip("af"))


CUDA_LAUNCH = Figure(
    2e-6, "from the start of one kernel to that of the next in a stream", "assumed"
)
METAL_LAUNCH = Figure(5e-6, "from one dispatch of an encoder to the next", "assumed")


def _peaks(source: str, **tera: float) -> tuple[ComputePeak, ...]:
    """Return rates in TFLOP/s, those of tensor units with `tensor_` before the dtype."""
    return tuple(
        ComputePeak(
            name.removeprefix("tensor_"), Figure(rate * TERA, source), name[:7] == "tensor_"
        )
        for name, rate in tera.items()
    )


def _derived(dtype: str, tera: float, how: str) -> ComputePeak:
    return ComputePeak(dtype, Figure(tera * TERA, how, "derived"))


A100_PEAKS = _peaks(
    AMPERE,
    float64=9.7,
    float32=19.5,
    tensor_float64=19.5,
    tensor_tf32=156,
    tensor_float16=312,
    tensor_bfloat16=312,
    tensor_int8=624,
)
A100_CACHE = Figure(5120 * 1.41e9, f"{AMPERE}: 5120 bytes a clock, at 1.41 GHz", "derived")
HOPPER_UNITS = {"tensor_float16": 989.4, "tensor_bfloat16": 989.4, "tensor_int8": 1978.9}
HOPPER_WIDE = {"float64": 33.5, "float32": 66.9, "tensor_float64": 66.9, "tensor_tf32": 494.7}
HOPPER_PEAKS = {**HOPPER_WIDE, **HOPPER_UNITS}


def _nvidia(
    name: str,
    arch: str,
    peaks: tuple[ComputePeak, ...],
    memory: tuple[float, float, str],
    cache: tuple[int, str],
    cores: Figure | None = None,
    cache_bandwidth: Figure | None = None,
) -> Specification:
    """Return a card by its GB/s and GB, and by the MiB of its cache; each with its source."""
    (gbytes, size, sheet), (mib, chip) = memory, cache
    has = CAPABILITIES[arch.rstrip("a")]
    return Specification(
        name,
        "NVIDIA",
        "cuda",
        arch,
        peaks,
        Figure(gbytes * GIGA, sheet),
        Figure(size * GIGA, sheet),
        cores or Figure(has.cores, chip),
        Figure(has.block_shared, GUIDE),
        CUDA_LAUNCH,
        cache=Figure(mib * MIB, chip),
        cache_bandwidth=cache_bandwidth,
    )


T4_PEAKS = (
    *_peaks(T4_SHEET, float32=8.1, tensor_float16=65, tensor_int8=130),
    _derived("float64", 8.1 / 32, f"{TURING}: 2 float64 units for 64 of float32"),
)
T4_CORES = Figure(
    CAPABILITIES["sm_75"].cores, f"{T4_SHEET}: 2560 CUDA cores, 64 in each", "derived"
)
ADA_PEAKS = (
    *_peaks(
        f"{ADA}, sums in float32",
        float32=82.6,
        tensor_tf32=82.6,
        tensor_float16=165.2,
        tensor_bfloat16=165.2,
        tensor_int8=660.6,
    ),
    _derived("float64", 82.6 / 64, f"{ADA}: float64 at 1/64 of the rate of float32"),
)
H100_PEAKS = _peaks(f"{HOPPER}, SXM5", **HOPPER_PEAKS)
H200_PEAKS = _peaks(f"{HOPPER}, SXM5; {H200_SHEET} has the same, rounded", **HOPPER_PEAKS)
A100_FORMS = {
    "A100 40 GB": (1555, 40, f"{AMPERE}, SXM"),
    "A100 80 GB": (2039, 80, f"{A100_SHEET}, SXM"),
}
SAME = f"{HOPPER}: the same chip"
NVIDIA = (
    _nvidia("T4", "sm_75", T4_PEAKS, (320, 16, T4_SHEET), (4, TURING), T4_CORES),
    *(
        _nvidia(name, "sm_80", A100_PEAKS, memory, (40, AMPERE), cache_bandwidth=A100_CACHE)
        for name, memory in A100_FORMS.items()
    ),
    _nvidia("RTX 4090", "sm_89", ADA_PEAKS, (1008, 24, ADA), (72, ADA)),
    _nvidia("H100", "sm_90a", H100_PEAKS, (3350, 80, f"{H100_SHEET}, SXM"), (50, HOPPER)),
    _nvidia("H200", "sm_90a", H200_PEAKS, (4800, 141, f"{H200_SHEET}, SXM"), (50, SAME)),
)


NEWS = "Apple's announcement or technical specifications of the {name}"
# Apple's chips in their largest form: GPU cores, TFLOP/s as Apple says or None, clock in GHz, GB/s.
# Apple publishes no clocks; those here are what tools have read from machines.
APPLE: tuple[tuple[str, int, float | None, float, float], ...] = (
    ("M1", 8, 2.6, 1.278, 68.25),
    ("M1 Pro", 16, 5.2, 1.296, 200),
    ("M1 Max", 32, 10.4, 1.296, 400),
    ("M1 Ultra", 64, None, 1.296, 800),
    ("M2", 10, 3.6, 1.398, 100),
    ("M2 Pro", 19, None, 1.398, 200),
    ("M2 Max", 38, None, 1.398, 400),
    ("M2 Ultra", 76, None, 1.398, 800),
    ("M3", 10, None, 1.398, 100),
    ("M3 Pro", 18, None, 1.398, 150),
    ("M3 Max", 40, None, 1.398, 400),
    ("M3 Ultra", 80, None, 1.398, 819),
    ("M4", 10, None, 1.47, 120),
    ("M4 Pro", 20, None, 1.47, 273),
    ("M4 Max", 40, None, 1.47, 546),
)
ALUS = 128
"""The float32 units of an Apple GPU core, M1 to M4."""


def _apple() -> Iterator[Specification]:
    for name, cores, tera, clock, gbytes in APPLE:
        news = NEWS.format(name=name)
        lowest = ", the lowest of what tools report" if name[:2] == "M4" else ", as tools report it"
        calculated = cores * ALUS * 2 * clock * GIGA
        how = f"{cores} cores × {ALUS} units × 2 × {clock} GHz{lowest}; Apple publishes none"
        float32 = Figure(calculated, how, "derived")
        if tera is not None:
            float32 = Figure(tera * TERA, news)
        bandwidth = Figure(gbytes * GIGA, news)
        if name == "M1":
            bandwidth = Figure(gbytes * GIGA, "128 bits of LPDDR4X at 4266 MT/s", "derived")
        yield Specification(
            name,
            "Apple",
            "metal",
            None,
            # Products of simdgroups run on the same units and have no rate of their own.
            (ComputePeak("float32", float32),),
            bandwidth,
            None,
            Figure(cores, f"{news}, its largest form"),
            Figure(32 * KIB, METAL_TABLES),
            METAL_LAUNCH,
        )


CARDS: tuple[Specification, ...] = (*NVIDIA, *_apple())
"""All cards."""

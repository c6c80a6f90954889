"""What devices can do at most, by their makers' figures, each with its source.

    ll.devices.specification("h200")      by name, in any case and form: "M3 Max", "m3-max"
    ll.devices.known_devices()           all of them, as a table
    ll.devices.specification("cpu")       this machine's processor: measured, and not from a paper

`machines/figures.py` says what a specification is, `machines/cards.py` has those of GPUs, and
`timing/roofline.py` turns them into times.
"""

from __future__ import annotations

import re
from difflib import get_close_matches
from functools import cache

from typing_extensions import override

from luminal_lab.core.printer import as_text
from luminal_lab.devices.facts.probe import cpu_name, peak_rates
from luminal_lab.errors import UnknownNameError
from luminal_lab.machines.cards import CARDS
from luminal_lab.machines.figures import (
    LEGEND,
    MARK,
    ComputePeak,
    Figure,
    HowKnown,
    Specification,
    rate_text,
    shown,
)
from luminal_lab.machines.here import this_machine
from luminal_lab.machines.rates import PeakRates
from luminal_lab.tables import Table, aligned, frame
from luminal_lab.tensor.arguments import told_class, told_object

told_class(Specification)  # `machines/` is below what tells of wrong calls

CPU_LAUNCH = 1e-6
"""The least seconds that a launch takes on a CPU."""
CPU_LAUNCH_SOURCE = "calling a function and waking a thread, in round numbers"
SHOWN = "bandwidth, bytes/s", "memory, bytes", "cores", "shared memory of a block, bytes"
"""The figures that a table shows beside rates, by name."""
THIS_CPU = ("cpu", "thiscpu")
FORMS = frozenset(("nvidia", "apple", "geforce", "tesla", "sxm", "sxm4", "sxm5", "gpu"))
"""Words in a name that add nothing to the table's names."""
ALIASES = {"a100": "A100 80 GB", "4090": "RTX 4090"}
"""Other names of devices, with the device that each means."""


@told_object("specifications")
class Specifications(tuple[Specification, ...]):
    """All devices whose figures are known; a sequence with a table."""

    __slots__ = ()

    @override
    def __str__(self) -> str:
        header = [("<", "device"), (">", "float32"), (">", "16-bit tensor"), (">", "float64")]
        header += [(">", "bandwidth"), (">", "memory"), (">", "cores"), (">", "shared")]
        lines = aligned(header, [_row(device) for device in self])
        return "\n".join([*lines, LEGEND])

    _repr_mimebundle_ = as_text

    @override
    def __repr__(self) -> str:
        return f"<Specifications: {len(self)} devices; print(…) shows them>"

    def to_pandas(self) -> Table:
        """Return a pandas table with a row for each figure of each device, with its source."""
        rows = (
            (device.name, device.maker, label, *figure)
            for device in self
            for label, figure in device.figures.items()
        )
        return frame("specifications", ("device", "maker", "figure", *Figure._fields), rows)


def specification(name: str) -> Specification:
    """Return what a device can do at most, by its name in any case and form; "cpu" is this one.

    >>> specification("m3-max") is specification("M3 Max") is specification("Apple M3 Max")
    True
    """
    bare = bare_name(str(name))
    if bare in THIS_CPU:
        return this_cpu()
    known = by_bare_name()
    if bare not in known:
        close = get_close_matches(bare, known, n=1, cutoff=0.5)
        names = ", ".join(dict.fromkeys(device.name for device in known.values()))
        raise UnknownNameError(
            f"specification: there is none for {name!r}",
            hint=f"did you mean {known[close[0]].name!r}?"
            if close
            else f"choose from cpu, {names}",
        )
    return known[bare]


def known_devices() -> Specifications:
    """Return everything known about devices, except this machine's processor, which is measured.

    >>> import luminal_lab as ll
    >>> [known.name for known in ll.devices.known_devices()][:3]
    ['T4', 'A100 40 GB', 'A100 80 GB']
    """
    return Specifications(CARDS)


def this_cpu(rates: PeakRates | None = None) -> Specification:
    """Return what this machine's processor can do: its rates are measured, and then kept on disk.

    >>> this_cpu(PeakRates.stated("a laptop", gflops=100, gbytes=20)).peaks[0].flops.value
    100000000000.0
    """
    known = peak_rates() if rates is None else rates
    by = f"peak_rates{f', with {known.by}' if known.by else ''}"
    how: HowKnown = "measured" if known.how == "measured" else "assumed"
    dtypes = dict.fromkeys(rate.dtype for rate in known.rates if rate.what == "fma")
    peaks = tuple(ComputePeak(d, Figure(known.gflops(d) * 1e9, by, how)) for d in dtypes)
    bandwidth = Figure(known.gbytes() * 1e9, f"{by}: reading memory", how)
    threads = Figure(known.threads, "the threads that the rates are of", how)
    launch = Figure(CPU_LAUNCH, CPU_LAUNCH_SOURCE, "assumed")
    cache = Figure(this_machine().l3, "what the system says of its last cache", "stated")
    name, maker = known.device or cpu_name(), "this machine" if rates is None else "a machine"
    figures = peaks, bandwidth, None, threads, None, launch
    return Specification(name, maker, "c", None, *figures, cache=cache, rates=known)


def bare_name(name: str) -> str:
    """Return a name in the form for comparisons: without maker, form, and separators.

    >>> bare_name("NVIDIA A100-SXM4-80GB"), bare_name("apple m3-max")
    ('a10080gb', 'm3max')
    """
    words = re.findall(r"[a-z]+\d*|\d+[a-z]*", name.lower())
    left = "".join(word for word in words if word not in FORMS)
    return re.sub(r"^(h100|h200)(80gb|141gb)?(hbm3e?)?$", r"\1", left)


@cache
def by_bare_name() -> dict[str, Specification]:
    """Return all devices by the names under which they are looked up."""
    known = {bare_name(card.name): card for card in CARDS}
    return known | {other: known[bare_name(name)] for other, name in ALIASES.items()}


def _row(device: Specification) -> list[str]:
    def rate(peak: ComputePeak | None) -> str:
        return "" if peak is None else f"{rate_text(peak.flops.value)}{MARK[peak.flops.how]}"

    tensor = device.peak("float16", is_tensor=True)
    cells = [device.name, rate(device.peak("float32")), rate(tensor), rate(device.peak("float64"))]
    for label in SHOWN:
        figure = device.figures.get(label)
        cells.append("" if figure is None else f"{shown(label, figure)}{MARK[figure.how]}")
    return cells

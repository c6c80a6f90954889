"""What devices can do at most, by their makers' figures: each one with where it stands.

    ll.devices.specification("h200")      by name, in any case and form: "M3 Max", "m3-max"
    ll.devices.known_devices()           all of them, as a table
    ll.devices.specification("cpu")       this machine's processor: measured, and not from a paper

`figures.py` beside it says what a specification is, `cards.py` has those of GPUs, and
`timing/roofline.py` makes times of them.
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
    Figure,
    HowKnown,
    Peak,
    Specification,
    rate_text,
    shown,
)
from luminal_lab.machines.here import this_machine
from luminal_lab.machines.rates import PeakRates
from luminal_lab.tables import Table, aligned, frame

CPU_LAUNCH = 1e-6
"""The seconds that a launch takes at least on a CPU."""
CPU_LAUNCH_SOURCE = "calling a function and waking a thread, in round numbers"
THIS_CPU = ("cpu", "thiscpu")
FORMS = frozenset(("nvidia", "apple", "geforce", "tesla", "sxm", "sxm4", "sxm5", "gpu"))
"""Words of a name that say nothing which the table does not."""
ALIASES = {"a100": "A100 80 GB", "4090": "RTX 4090"}
"""What else devices are called; the name of the device that is meant."""


class Specifications(tuple[Specification, ...]):
    """All devices whose figures are known; a sequence with a table."""

    __slots__ = ()

    @override
    def __str__(self) -> str:
        header = [("<", "device"), (">", "float32"), (">", "16-bit tensor"), (">", "float64")]
        header += [(">", "bandwidth"), (">", "memory"), (">", "cores"), (">", "shared")]
        lines = aligned(header, [_row(one) for one in self])
        return "\n".join([*lines, LEGEND])

    _repr_mimebundle_ = as_text

    @override
    def __repr__(self) -> str:
        return f"<Specifications: {len(self)} devices; print(…) shows them>"

    def to_pandas(self) -> Table:
        """Return a table of pandas: a row for each figure of each device, with its source."""
        rows = (
            (one.name, one.maker, what, *figure)
            for one in self
            for what, figure in one.figures.items()
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
        names = ", ".join(dict.fromkeys(one.name for one in known.values()))
        raise UnknownNameError(
            f"specification: there is none of {name!r}",
            hint=f"did you mean {known[close[0]].name!r}?" if close else f"there are cpu, {names}",
        )
    return known[bare]


def known_devices() -> Specifications:
    """Return what is known of all devices, but for this machine's processor, which is measured."""
    return Specifications(CARDS)


def this_cpu(rates: PeakRates | None = None) -> Specification:
    """Return what this machine's processor can do: its rates are measured, and then kept on disk.

    >>> this_cpu(PeakRates.stated("a laptop", gflops=100, gbytes=20)).peaks[0].flops.value
    100000000000.0
    """
    found = peak_rates() if rates is None else rates
    by = f"peak_rates{f', with {found.by}' if found.by else ''}"
    how: HowKnown = "measured" if found.how == "measured" else "assumed"
    dtypes = dict.fromkeys(rate.dtype for rate in found.rates if rate.what == "fma")
    machine = this_machine()
    return Specification(
        found.device or cpu_name(),
        "this machine" if rates is None else "a machine",
        "c",
        None,
        tuple(Peak(d, Figure(found.gflops(d) * 1e9, by, how)) for d in dtypes),
        Figure(found.gbytes() * 1e9, f"{by}: reading memory", how),
        None,
        Figure(found.threads, "the threads that the rates are of", how),
        None,
        Figure(CPU_LAUNCH, CPU_LAUNCH_SOURCE, "assumed"),
        cache=Figure(machine.l3, "what the system says of its last cache", "stated"),
        rates=found,
    )


def bare_name(name: str) -> str:
    """Return a name as it is compared: without its maker, its form, and what is between words.

    >>> bare_name("NVIDIA A100-SXM4-80GB"), bare_name("apple m3-max")
    ('a10080gb', 'm3max')
    """
    words = re.findall(r"[a-z]+\d*|\d+[a-z]*", name.lower())
    left = "".join(word for word in words if word not in FORMS)
    return re.sub(r"^(h100|h200)(80gb|141gb)?(hbm3e?)?$", r"\1", left)


@cache
def by_bare_name() -> dict[str, Specification]:
    """Return all devices by the names that they are looked up by."""
    known = {bare_name(one.name): one for one in CARDS}
    return known | {other: known[bare_name(name)] for other, name in ALIASES.items()}


def _row(one: Specification) -> list[str]:
    def rate(peak: Peak | None) -> str:
        return "" if peak is None else f"{rate_text(peak.flops.value)}{MARK[peak.flops.how]}"

    tensor = one.peak("float16", is_tensor=True)
    cells = [one.name, rate(one.peak("float32")), rate(tensor), rate(one.peak("float64"))]
    for what, figure in (
        ("bandwidth, bytes/s", one.bandwidth),
        ("memory, bytes", one.memory),
        ("cores", one.cores),
        ("shared, bytes", one.shared),
    ):
        cells.append("" if figure is None else f"{shown(what, figure)}{MARK[figure.how]}")
    return cells

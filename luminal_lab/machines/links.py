"""What lies between workers: how many bytes a second, and how long the shortest message takes.

    seconds = messages × latency + bytes / bandwidth

`TABLE` has what makers state; bytes a second are those of one direction. Latencies are seldom
stated, and assumed where they are not.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from typing_extensions import override

from luminal_lab.errors import UnknownNameError, nearest
from luminal_lab.machines.figures import MARK, Figure

ROUND = Figure(2e-6, "a round number for one message between GPUs", "assumed")
WIRE = Figure(30e-6, "a round number for one message by TCP", "assumed")


@dataclass(frozen=True)
class Link:
    """What lies between two workers; every figure has its source.

    >>> link("nvlink-4").seconds(messages=0, size=450_000_000)
    0.001
    """

    name: str
    bandwidth: Figure
    """Bytes per second, in one direction."""
    latency: Figure
    """The seconds of the shortest message."""
    is_shared: bool = False
    """Whether its workers share the cores and the memory of one machine."""

    def seconds(self, messages: float, size: float) -> float:
        """Return how long some messages take that have so many bytes together."""
        return messages * self.latency.value + size / self.bandwidth.value

    @override
    def __str__(self) -> str:
        speed = f"{self.bandwidth.value / 1e9:.3g} GB/s{MARK[self.bandwidth.how]}"
        return f"{self.name}: {speed}, {1e6 * self.latency.value:.3g} µs{MARK[self.latency.how]}"


def _stated(name: str, gbytes: float, source: str, latency: Figure = ROUND) -> Link:
    return Link(name, Figure(gbytes * 1e9, source), latency)


TABLE: Mapping[str, Link] = MappingProxyType(
    {
        known.name: known
        for known in (
            _stated("ethernet-10g", 1.25, "IEEE 802.3ae: 10 Gbit/s", WIRE),
            _stated("ethernet-100g", 12.5, "IEEE 802.3ba: 100 Gbit/s", WIRE),
            _stated("infiniband-hdr", 25, "NVIDIA ConnectX-6 data sheet: 200 Gbit/s"),
            _stated("infiniband-ndr", 50, "NVIDIA ConnectX-7 data sheet: 400 Gbit/s"),
            _stated("pcie-4", 31.5, "PCI Express 4.0, 16 lanes of 16 GT/s, 128b/130b"),
            _stated("pcie-5", 63, "PCI Express 5.0, 16 lanes of 32 GT/s, 128b/130b"),
            _stated("nvlink-3", 300, "NVIDIA A100 whitepaper: 600 GB/s in both directions"),
            _stated("nvlink-4", 450, "NVIDIA H100 whitepaper: 900 GB/s in both directions"),
            _stated("nvlink-5", 900, "NVIDIA Blackwell brief: 1.8 TB/s in both directions"),
        )
    }
)


def link(name: str) -> Link:
    """Return a link of the table.

    >>> print(link("infiniband-ndr"))
    infiniband-ndr: 50 GB/s, 2 µs?
    """
    if name not in TABLE:
        known = ["threads", *TABLE]
        raise UnknownNameError(
            f"plan: no link is called {name!r}",
            hint=nearest(name, known) or f"known are {', '.join(known)}",
        )
    return TABLE[name]

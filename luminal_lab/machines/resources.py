"""What a compiled GPU kernel takes up, and how many of its blocks a card runs at once.

    resources = kernel.resources                          # 40 registers a thread, 16,640 B shared
    occupancy(resources, 256, card_of("H100"))              # 6 blocks, 75% of the warps: registers

A multiprocessor runs as many blocks at once as its registers, shared memory, warps and block slots
allow; each of these is handed out in pieces of a fixed size.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import astuple, dataclass, field
from functools import reduce
from math import ceil
from types import MappingProxyType
from typing import Final

from typing_extensions import override

from luminal_lab.errors import ArgumentError, UnknownNameError, nearest, whole_number
from luminal_lab.machines.cards import CARDS as KNOWN, capability_of
from luminal_lab.machines.figures import Specification

WARP = 32
MOST_THREADS = 1024
"""A block has no more threads than this on any card."""


@dataclass(frozen=True)
class Resources:
    """What a function takes up: registers of each thread, bytes of shared memory of each block."""

    registers: int = 0
    shared: int = 0
    spills: int = 0
    """The bytes of registers that each thread spills to memory."""
    constant: int = 0
    """The bytes of constant memory, including arguments; 0 if unknown, as from sm_90 on."""
    stack: int = 0
    """The bytes of memory that each thread has for arrays and spills."""
    threads: int = 0
    """How many threads its blocks may have; 0 if it does not say."""

    def occupancy(self, card: str | Specification, threads: int | None = None) -> Occupancy:
        """Return how many blocks of it a card runs at once on each multiprocessor."""
        known = card if isinstance(card, Specification) else card_of(card)
        many = whole_number(self.threads if threads is None else threads)
        if many is None or many < (threads is not None):
            raise ArgumentError(
                f"occupancy: a block has {threads!r} threads",
                hint=f"it has 1 to {MOST_THREADS:,}; without threads= those of the kernel",
            )
        return occupancy(self, many, known)

    def most(self, other: Resources) -> Resources:
        """Return the resources that suffice for either of two functions."""
        return Resources(*map(max, astuple(self), astuple(other)))

    @override
    def __str__(self) -> str:
        text = f"{self.registers} registers, {self.shared:,} B shared, {self.spills:,} B spilled"
        return f"{text}, blocks of {self.threads}" if self.threads else text


@dataclass(frozen=True)
class CompiledCUDA:
    """A source of CUDA as NVRTC compiled it, for one architecture."""

    arch: str
    ptx: str = field(repr=False)
    cubin: bytes = field(repr=False)
    """What the driver loads."""
    log: str = field(repr=False)
    """The compiler's messages."""
    resources: Mapping[str, Resources]
    """What each of its functions takes up."""

    @property
    def most(self) -> Resources:
        """The resources that suffice for each of its functions."""
        return reduce(Resources.most, self.resources.values(), Resources())

    @property
    def serialised(self) -> str:
        """Why the assembler makes products of four warps wait for each other; usually nothing.

        They are right then, and slow: its messages C7500 to C7599, as where their sums are touched
        while they are under way.
        """
        return "; ".join(match[1].strip() for match in WAITING.finditer(self.log))


WAITING: Final = re.compile(r"\(C75\d\d\) (?:Potential Performance Loss: )?(.*)")
"""What the assembler says where it has to keep products of four warps apart."""
CARDS: Final[Mapping[str, Specification]] = MappingProxyType(
    # Versions of a card with more or less memory have the same cores.
    {re.sub(r" \d+ GB$", "", card.name): card for card in KNOWN if card.arch is not None}
)
"""NVIDIA's GPUs by name."""


def card_of(name: str) -> Specification:
    """Return a card by its name, as people or drivers write it, or by its architecture.

    >>> card_of("NVIDIA GeForce RTX 4090").arch, card_of("sm_90").name
    ('sm_89', 'H100')
    """
    if not isinstance(name, str):  # pyright: ignore[reportUnnecessaryIsInstance]  # a caller may err
        raise ArgumentError(
            f"occupancy: {name!r} is not a card", hint=f"give a name: {', '.join(CARDS)}"
        )
    words = re.findall(r"[a-z0-9]+", re.sub(r"nvidia|geforce|tesla", "", name.lower()))
    # The name may have more at its end: A100-SXM4-80GB, A100 80 GB.
    starts = {"".join(words[:count]) for count in range(1, len(words) + 1)}
    for known, card in CARDS.items():
        plain = known.lower().replace(" ", "")
        if any(re.match(rf"{plain}(?!\d)", start) for start in starts):
            return card
    for card in CARDS.values():
        if card.arch is not None and name.rstrip("a") == card.arch.rstrip("a"):
            return card
    hint = nearest(name, CARDS) or f"choose from {', '.join(CARDS)}"
    raise UnknownNameError(f"occupancy: there is no card called {name!r}", hint=hint)


@dataclass(frozen=True)
class Occupancy:
    """How many blocks a multiprocessor runs at once, and what keeps it from running more."""

    blocks: int
    warps: int
    share: float
    """Its share of the warps that the multiprocessor could run."""
    limit: str
    """The scarce resource: registers, shared memory, warps, blocks or threads."""

    @override
    def __str__(self) -> str:
        many = "1 block" if self.blocks == 1 else f"{self.blocks} blocks"
        return f"{many}, {self.share:.0%} of the warps; limited by {self.limit}"


def occupancy(resources: Resources, threads: int, card: Specification) -> Occupancy:
    """Return how many blocks of `threads` a card runs at once on each multiprocessor.

    >>> print(occupancy(Resources(registers=40, shared=16640), 256, CARDS["H100"]))
    6 blocks, 75% of the warps; limited by registers
    """
    has = capability_of(card.arch or "")
    assert has is not None, "cards of the table are of known architectures"
    warps = max(1, ceil(threads / WARP))
    limits = {"blocks": has.blocks, "warps": has.warps // warps}
    if threads > MOST_THREADS:
        limits["threads of a block"] = 0
    if resources.registers > has.thread_registers:
        limits["registers"] = 0
    elif resources.registers:
        each = _pieces(resources.registers * WARP, has.register_piece)
        fit = has.registers // has.quarters // each * has.quarters
        limits["registers"] = fit // warps
    if resources.shared:
        each = _pieces(resources.shared + has.reserved, has.shared_piece)
        fits = resources.shared <= has.block_shared
        limits["shared memory"] = has.shared // each if fits else 0
    blocks = min(limits.values())
    # Of equal limits, the one that the kernel can do something about is named.
    limit = next(name for name in reversed(limits) if limits[name] == blocks)
    limit = "threads of a block" if threads > MOST_THREADS else limit
    return Occupancy(blocks, blocks * warps, blocks * warps / has.warps, limit)


def _pieces(size: int, piece: int) -> int:
    return ceil(size / piece) * piece

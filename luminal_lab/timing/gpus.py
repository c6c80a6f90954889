"""GPUs as they stand in a comparison: measured where they are, modelled where they are not.

ll.CUDA()             the NVIDIA GPU of this machine
ll.CUDA("h200")       an H200: measured if that is what is here, else modelled
ll.Metal("m3-max")    likewise, on a Mac
"""

from __future__ import annotations

from dataclasses import dataclass

from luminal_lab.devices.cuda.compiler import CUDACompiler
from luminal_lab.devices.facts.specifications import specification
from luminal_lab.devices.metal.compiler import MetalCompiler
from luminal_lab.errors import ArgumentError
from luminal_lab.machines.figures import Specification
from luminal_lab.timing.column import Column, gpu_column
from luminal_lab.timing.subject import ComparedGraph


@dataclass(frozen=True)
class CUDA:
    """An NVIDIA GPU; where there is none, the named card's specification models it."""

    card: str | None = None
    tf32: bool = False

    def column(self, subject: ComparedGraph, rounds: int, warm_up: int) -> Column:
        """Return all launches of a graph, with their times."""
        card = _named(self.card, "cuda", "CUDA")
        device = CUDACompiler(arch=None if card is None else card.arch, tf32=self.tf32)
        return gpu_column(subject, device, card, "CUDA", rounds=rounds, warm_up=warm_up)


@dataclass(frozen=True)
class Metal:
    """A GPU of Apple's; where there is none, the named chip's specification models it."""

    chip: str | None = None

    def column(self, subject: ComparedGraph, rounds: int, warm_up: int) -> Column:
        """Return all launches of a graph, with their times."""
        chip = _named(self.chip, "metal", "Metal")
        device = MetalCompiler(chip=self.chip)
        return gpu_column(subject, device, chip, "Metal", rounds=rounds, warm_up=warm_up)


def _named(name: str | None, dialect: str, kind: str) -> Specification | None:
    if name is None:
        return None
    known = specification(name)
    if known.dialect != dialect:
        raise ArgumentError(
            f"compare: {known.name} is no device for ll.{kind}: it is made by {known.maker}",
            hint=f"give its specification alone: ll.devices.specification({name!r})",
        )
    return known

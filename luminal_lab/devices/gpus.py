"""GPUs as they stand in a comparison: measured where they are, modelled where they are not.

ll.CUDA()             the NVIDIA GPU of this machine
ll.CUDA("h200")       an H200: measured if that is what is here, else modelled
ll.Metal("m3-max")    likewise, on a Mac
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import cast

from luminal_lab.devices.column import Column, gpu_column, modelled_column
from luminal_lab.devices.figures import Specification
from luminal_lab.devices.specifications import specification
from luminal_lab.devices.subject import Subject
from luminal_lab.errors import ArgumentError, DeviceError
from luminal_lab.passes.pipeline import Pipeline

NONE_NAMED = (
    'name a device to model, as in ll.{kind}("{example}"), or give a recording: '
    'll.Recorded("file.json")'
)


@dataclass(frozen=True)
class CUDA:
    """An NVIDIA GPU; where there is none, the named card's specification models it."""

    card: str | None = None
    tf32: bool = False

    def column(self, subject: Subject, rounds: int, warm_up: int) -> Column:
        """Return all launches of a graph, with their times."""
        card = _named(self.card, "cuda", "CUDA")
        options = {"arch": None if card is None else card.arch, "tf32": self.tf32}
        device = compiler("cuda", "CUDACompiler", **options)
        return _column(subject, device, card, ("CUDA", "h200"), rounds, warm_up)


@dataclass(frozen=True)
class Metal:
    """A GPU of Apple's; where there is none, the named chip's specification models it."""

    chip: str | None = None

    def column(self, subject: Subject, rounds: int, warm_up: int) -> Column:
        """Return all launches of a graph, with their times."""
        chip = _named(self.chip, "metal", "Metal")
        device = compiler("metal", "MetalCompiler", chip=self.chip)
        return _column(subject, device, chip, ("Metal", "m3-max"), rounds, warm_up)


def compiler(module: str, name: str, **options: object) -> Pipeline | None:
    """Return a compiler for a GPU; None where this version has none for its language."""
    try:
        found = import_module(f"luminal_lab.devices.{module}")
    except ModuleNotFoundError:
        return None
    return cast("Pipeline", getattr(found, name)(**options))


def _named(name: str | None, dialect: str, kind: str) -> Specification | None:
    if name is None:
        return None
    found = specification(name)
    if found.dialect != dialect:
        raise ArgumentError(
            f"compare: {found.name} is no device for ll.{kind}: it is made by {found.maker}",
            hint=f"give its specification alone: ll.devices.specification({name!r})",
        )
    return found


def _column(
    subject: Subject,
    device: Pipeline | None,
    named: Specification | None,
    kind: tuple[str, str],
    rounds: int,
    warm_up: int,
) -> Column:
    if device is not None:
        label = kind[0] if named is None else named.name
        return gpu_column(subject, device, named, label, rounds=rounds, warm_up=warm_up)
    if named is None:
        raise DeviceError(
            f"compare: ll.{kind[0]}() cannot be measured here, and names no device to model",
            hint=NONE_NAMED.format(kind=kind[0], example=kind[1]),
        )
    return modelled_column(subject, named)

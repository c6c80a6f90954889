"""Apple's GPUs: kernels in Metal's language, compiled and run through PyObjC on a Mac.

    cx.compile(ll.GenericCompiler(), ll.MetalCompiler())

makes the source on any machine. `cx.execute()` needs a Mac; with `emulate=True` the emulator runs
the same source on the CPU, for small sizes. These GPUs have no float64.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from typing_extensions import override

from luminal_lab.core.ir import IR
from luminal_lab.devices.facts.specifications import specification
from luminal_lab.devices.gpu.compiler import GPUCompiler, check_float64
from luminal_lab.devices.gpu.engine import FindEngine
from luminal_lab.devices.metal.engine import MetalEngine, metal_device
from luminal_lab.errors import ArgumentError, expect
from luminal_lab.kernels.definition.programs import ProgramsLike
from luminal_lab.kernels.gpu import GPU, apple
from luminal_lab.kernels.steps.applied import ScheduleLike

__all__ = ["MetalCompiler"]


@dataclass(frozen=True, init=False, repr=False)
class MetalCompiler(GPUCompiler):
    """Fuse into kernels, and run them on a Mac's GPU.

    `chip` names the Mac's, as in "m3-max", for modelled times. `emulate` runs the kernels in the
    emulator, `schedules` replaces the default schedules of some kernels, and `programs` says what
    is computed instead of a kernel's definition. With `reuse_outputs` a run may overwrite what
    earlier ones returned.

    >>> print(MetalCompiler(chip="m3-max"))
    metal{chip = m3-max}
    """

    name: ClassVar[str] = "metal"
    shown: ClassVar[tuple[str, ...]] = ("chip", "emulate", "reuse_outputs")
    unsupported: ClassVar[Mapping[str, str]] = {"float64": "Apple's GPUs have none"}
    """What the conformance kit skips."""
    chip: str | None = None
    """The chip for which times are modelled; None: the one that is here."""

    def __init__(
        self,
        chip: str | None = None,
        *,
        emulate: bool = False,
        reuse_outputs: bool = False,
        schedules: Mapping[str, ScheduleLike] | None = None,
        programs: ProgramsLike | None = None,
    ) -> None:
        expect(chip, str | None, "metal: the chip is {}", 'give its name, as in "m3-max"')
        if chip is not None and (known := specification(chip)).dialect != "metal":
            raise ArgumentError(
                f"metal: {known.name} is not a chip of Apple's: it is made by {known.maker}",
                hint='give one such as "m3-max", or leave it out for the GPU of this Mac',
            )
        flags = {"emulate": emulate, "reuse_outputs": reuse_outputs}
        units = "float16", "bfloat16"
        super().__init__(schedules, programs, units=units, chip=chip, **flags)

    @override
    def target(self, ir: IR) -> tuple[GPU, FindEngine]:
        check_float64(ir, "metal", "Apple's GPUs have none")
        return apple(), MetalEngine

    @override
    def unless_here(self) -> None:
        if not self.emulate:
            metal_device()

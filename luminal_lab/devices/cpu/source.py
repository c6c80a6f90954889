"""A graph of kernels for the CPU where no compiler is there: all but a run of it."""

from __future__ import annotations

from typing import Unpack

from typing_extensions import override

from luminal_lab.core.ir import IR
from luminal_lab.devices.cpu.plan import CPUPlan
from luminal_lab.devices.cpu.run import CPURun
from luminal_lab.devices.runtime.plan import RunRequest
from luminal_lab.devices.runtime.program import DeviceProgram, ProgramOptions
from luminal_lab.devices.runtime.run import RunData
from luminal_lab.errors import DeviceError
from luminal_lab.kernels.render.c.program import program_source
from luminal_lab.machines.here import this_machine


class CPUSource(DeviceProgram[CPUPlan]):
    """Kernels, their C and their memory plan, to be read; NumPy's interpreter computes."""

    is_runnable = False

    def __init__(self, ir: IR, **options: Unpack[ProgramOptions]) -> None:
        super().__init__(ir, this_machine(), **options)
        self.source = program_source(self.list.kernels.values(), self.list.uses)
        """The C source of the whole program."""

    @override
    def planned(self, asked: RunRequest) -> CPUPlan:
        return CPUPlan(self.list, asked)

    @override
    def started(self, plan: CPUPlan, given: RunData) -> CPURun:
        raise DeviceError("execute: there is no C compiler", hint="pip install ziglang")

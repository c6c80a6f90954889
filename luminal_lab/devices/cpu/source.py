"""A graph of kernels for the CPU where no compiler is there: all but a run of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NoReturn

from typing_extensions import override

from luminal_lab.core.dtypes import Array
from luminal_lab.core.interpret import Environment, NodeStep
from luminal_lab.core.ir import IR
from luminal_lab.devices.cpu.plan import CPUPlan
from luminal_lab.devices.runtime.plan import RunRequest
from luminal_lab.devices.runtime.program import DeviceProgram
from luminal_lab.devices.runtime.worklist import Worklist
from luminal_lab.errors import DeviceError
from luminal_lab.kernels.render.c.program import program_source
from luminal_lab.kernels.steps.schedule import Schedule
from luminal_lab.machines.here import this_machine


class CPUSource(DeviceProgram[CPUPlan]):
    """Kernels, their C and their memory plan, to be read; NumPy's interpreter computes."""

    is_runnable: Final = False

    def __init__(
        self,
        ir: IR,
        *,
        specialise: Mapping[str, int] | None = None,
        schedules: Mapping[str, Schedule] | None = None,
    ) -> None:
        sizes = dict(specialise or {})
        worklist = Worklist(ir, this_machine(), sizes, schedules)
        super().__init__(ir, worklist, sizes=sizes, reuse_outputs=False)
        self.source = program_source(worklist.kernels.values(), worklist.uses)
        """The C source of the whole program."""

    @override
    def planned(self, asked: RunRequest) -> CPUPlan:
        return CPUPlan(self.list, asked)

    @override
    def ran(
        self,
        plan: CPUPlan,
        environment: Environment,
        known: Mapping[int, Array],
        trace: list[NodeStep] | None,
    ) -> NoReturn:
        raise DeviceError("execute: there is no C compiler", hint="pip install ziglang")

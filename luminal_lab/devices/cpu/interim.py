"""A run of a CPU program some of whose kernels are still being compiled.

    launched       ├──── softmax ────┤                 ├── sum ──┤
    by NumPy                         ├──── matmul ─────┤

NumPy's interpreter computes what has no library yet, node by node, as a run without a device would.
It may raise an error half-way, so nothing that came from outside is overwritten.
"""

from __future__ import annotations

from itertools import groupby
from time import perf_counter
from typing import TYPE_CHECKING

from typing_extensions import override

from luminal_lab.devices.cpu.plan import CPUPlan
from luminal_lab.devices.cpu.run import CPURun
from luminal_lab.devices.runtime.plan import LaunchSpan
from luminal_lab.devices.runtime.run import RunData
from luminal_lab.errors import RangeError

if TYPE_CHECKING:
    from luminal_lab.devices.cpu.program import CPUProgram, ProgramLibrary


class InterimRun(CPURun):
    """The state of a run that does not wait for libraries."""

    keeps_packs = False

    def __init__(
        self,
        program: CPUProgram,
        plan: CPUPlan,
        given: RunData,
        library: ProgramLibrary | None,
        awaited: frozenset[str],
    ) -> None:
        super().__init__(program, plan, given)
        self._library, self._awaited = library, awaited

    @property
    @override
    def library(self) -> ProgramLibrary:
        assert self._library is not None, "without one, all kernels are awaited"
        return self._library

    @override
    def find_inputs(self, *, may_overwrite: bool) -> None:
        super().find_inputs(may_overwrite=False)

    @override
    def launch(self, span: LaunchSpan) -> None:
        for is_awaited, group in groupby(range(span.first, span.last), self._is_awaited):
            numbers = [*group]
            if not is_awaited:
                super().launch(LaunchSpan(numbers[0], numbers[-1] + 1))
            for at in numbers if is_awaited else ():
                self._interpret(at)

    def _is_awaited(self, at: int) -> bool:
        kernel = self.plan.kernel_of(self.plan.works[at])
        return self._library is None or (kernel is not None and kernel.name in self._awaited)

    def _interpret(self, at: int) -> None:
        start = perf_counter()
        try:
            self.by_hand(at)
        except RangeError as error:
            error.node = self.plan.works[at].node.id
            raise
        if self.times is not None:
            self.times[at], self.starts[at] = perf_counter() - start, start

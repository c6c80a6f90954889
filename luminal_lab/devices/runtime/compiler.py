"""What the compilers of all devices share: the passes before kernels, and their options."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self, cast

from typing_extensions import override

from luminal_lab.core.ir import IR
from luminal_lab.devices.runtime.program import ProgramOptions
from luminal_lab.devices.runtime.worklist import Recall
from luminal_lab.errors import TrustError, expect, flag
from luminal_lab.kernels.definition.definition import Definition
from luminal_lab.kernels.definition.programs import ProgramsLike, read_programs
from luminal_lab.kernels.fuse.chains import FuseChains
from luminal_lab.kernels.fuse.fusion import fusion
from luminal_lab.kernels.fuse.intrinsics import Intrinsics
from luminal_lab.kernels.steps.applied import ScheduleLike, read_schedule
from luminal_lab.kernels.steps.schedule import Schedule
from luminal_lab.passes.base import Option, spec_text
from luminal_lab.passes.dead_code import DeadCode
from luminal_lab.passes.inlining import Inlining
from luminal_lab.passes.pipeline import Pipeline, Runner, parse_pipeline
from luminal_lab.passes.schedule import DepthFirst
from luminal_lab.passes.subexpressions import CommonSubexpressions
from luminal_lab.trust import admit_program, allow, program_of

DEEPEST = 50
"""How many levels of nested calls are inlined."""


@dataclass(frozen=True, init=False, repr=False)
class DeviceCompiler(Pipeline):
    """Fuse a graph into kernels, and run them on a device."""

    shown: ClassVar[tuple[str, ...]] = ()
    """The options in its text, in order; an option with its default is left out."""
    example: ClassVar[str] = ""
    """A schedule for this device, which a hint shows."""
    reuse_outputs: bool = False
    """Whether a run may overwrite the outputs that earlier ones have returned."""
    schedules: tuple[tuple[str, Schedule], ...] = ()
    """The schedules that replace default ones, with the names of their kernels."""
    programs: tuple[tuple[str, Definition | None], ...] = ()
    """What kernels compute, by what is written; None keeps kernels apart."""

    def __init__(
        self,
        schedules: Mapping[str, ScheduleLike] | None,
        programs: ProgramsLike | None,
        *,
        units: tuple[str, ...] = (),
        **options: object,
    ) -> None:
        calls = Pipeline([Inlining()], rounds=DEEPEST)
        cleaned = (CommonSubexpressions(), DeadCode())
        computed = read_programs(programs, self.name)
        chains = FuseChains(tuple((text, program is not None) for text, program in computed))
        kernels = (*fusion(units), chains, DeadCode(), DepthFirst(updates_last=True))
        super().__init__([calls, *cleaned, Intrinsics(), *kernels])
        object.__setattr__(self, "programs", computed)
        # The text of a pipeline has only their names.
        hint = f'give a dict, as in {{"softmax": "{self.example}"}}'
        said = f"{self.name}: schedules is {{}}, which says no schedule"
        expect(schedules, Mapping | None, said, hint)
        for name in schedules or ():
            said = f"{self.name}: schedules has one for {{}}, which is not a kernel's name"
            expect(name, str, said, "cx.kernels has the names of kernels")
        read = [(name, read_schedule(text, name)) for name, text in dict(schedules or {}).items()]
        for name, value in {**options, "schedules": tuple(read)}.items():
            is_flag = isinstance(type(self).__dataclass_fields__[name].default, bool)
            value = flag(f"{self.name}: {name}", value) if is_flag else value
            object.__setattr__(self, name, value)

        if isinstance(compiler := options.get("compiler"), str):
            allow([program_of(compiler)])  # from Python, or from a text that was admitted

    @classmethod
    def of_text(cls, **options: Any) -> Self:
        """Return the compiler that a text names; the text may come from a file.

        The program that it names is a usual one, or is trusted: `CPUCompiler(compiler=…)` in this
        process has named it, or the user has.

        >>> ll.CUDACompiler.of_text(arch="sm_90")
        <Pipeline cuda{arch = sm_90}>
        """
        if (compiler := options.get("compiler")) is not None:
            admit_program(compiler)
        return cls(**options)

    def options(
        self, specialise: Mapping[str, int] | None, recall: Recall | None = None
    ) -> ProgramOptions:
        """Return the options of a program on any device.

        >>> ll.CUDACompiler(arch="sm_90").options({"n": 4})["specialise"]
        {'n': 4}
        """
        return {
            "reuse_outputs": self.reuse_outputs,
            "specialise": specialise,
            "schedules": dict(self.schedules),
            "programs": dict(self.programs),
            "recall": recall,
        }

    @override
    def runner(
        self,
        ir: IR,
        specialise: Mapping[str, int] | None = None,
        recall: Recall | None = None,
    ) -> Runner | None:
        """Return what runs a graph; `recall` has the schedules that searches have found.

        >>> y = (cx.tensor((4,), name="x") * 2).retrieve()
        >>> device = ll.CUDACompiler(arch="sm_90")
        >>> program = device.runner(cx.compile(ll.GenericCompiler(), device).ir)
        >>> [kernel.name for kernel in program.kernels]
        ['mul']
        """
        return super().runner(ir, specialise)

    @override
    def __str__(self) -> str:
        options: dict[str, Option] = {}
        for name in self.shown:
            value = cast("Option | None", getattr(self, name))
            if value != type(self).__dataclass_fields__[name].default:
                options[name] = cast("Option", value)
        if self.schedules:
            options["schedules"] = tuple(name for name, _ in self.schedules)
        if computed := [program.name for _, program in self.programs if program is not None]:
            options["programs"] = tuple(computed)
        return spec_text(self.name, options)


def trusted_pipeline(text: str) -> Pipeline:
    """Return the passes of a text; the programs that it names as compilers become trusted."""
    while True:
        try:
            return parse_pipeline(text)
        except TrustError as error:
            allow(error.carried)

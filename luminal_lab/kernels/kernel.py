"""A kernel: a definition, the nest and schedule that compute it, and the C that this became.

A kernel is code and a launch is its use: twelve equal layers are one kernel and twelve launches.
Its C is a function for each phase. The tasks of a phase run in any order and at once; the phases
come one after another.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from textwrap import wrap
from typing import SupportsIndex, overload

from typing_extensions import override

from luminal_lab.core.dims import Dim, evaluate
from luminal_lab.core.printer import as_text
from luminal_lab.display import DISPLAYS, Displayed, Shown, Theme
from luminal_lab.errors import (
    ArgumentError,
    DeviceError,
    ScheduleError,
    UnknownNameError,
    cut,
    expect,
    position,
)
from luminal_lab.kernels.definition.cost import NO_DIMS, bytes_moved, open_flops
from luminal_lab.kernels.definition.definition import Definition
from luminal_lab.kernels.emulated import Emulated, Meaning
from luminal_lab.kernels.nest.lowering import lower
from luminal_lab.kernels.nest.nest import Nest
from luminal_lab.kernels.steps.applied import Changes, ScheduleLike, applied, read_schedule
from luminal_lab.kernels.steps.choices import NO_CHOICES, Choices
from luminal_lab.kernels.steps.schedule import PlanRefusal, Schedule
from luminal_lab.kernels.tile_map import TileMap
from luminal_lab.machines.assembly import Assembly
from luminal_lab.machines.resources import CompiledCUDA, Resources
from luminal_lab.passes.story import Story
from luminal_lab.tables import Table, frame
from luminal_lab.tensor.arguments import told_object

told_object("assembly")(Assembly)  # `machines/` is below what tells of wrong calls
LANGUAGES: Mapping[str, str] = {
    "c": "C",
    "cuda": "CUDA",
    "metal": "Metal",
    "webgpu": "WGSL",
    "stablehlo": "StableHLO",
}
REFUSALS = {
    "plan": "Plans that were refused:",
    "step": "Optional steps that did not apply:",
}
NO_INPUTS: Mapping[str, object] = {}
KERNELS = ("kernel", "dialect", "phases", "steps", "lines", "flops", "bytes", "definition")
NONE = "a device makes them: cx.compile(ll.GenericCompiler(), ll.CPUCompiler())"


@dataclass(frozen=True)
class Phase:
    """A function that runs once for each task."""

    function: str
    tasks: Dim = 1
    """How many tasks there are; on a GPU, how many blocks."""
    threads: int = 0
    """How many threads a block has; 0 on a CPU."""
    shared: int = 0
    """The bytes of shared memory that a launch must request, beyond what the source declares."""
    maps: tuple[TileMap, ...] = ()
    """The maps of matrices that it gets after everything else, for bulk copies."""
    draws: bool = False
    """Whether it gets the number of runs, on a GPU."""
    faults: bool = False
    """Whether it gets an address at which to report an index out of range, on a GPU."""
    work: float | None = field(default=None, compare=False)
    """Roughly how many elements a task handles, if that is known."""
    packs: tuple[str, ...] = field(default=(), compare=False)
    """If all it does is to make a working array of inputs: its name, and theirs."""


@dataclass(frozen=True)
class WorkingArray:
    """A whole array that a kernel needs between its inputs and its outputs, while it runs."""

    name: str
    bytes: Dim


@told_object("kernel")
@dataclass(frozen=True)
class Kernel(Displayed):
    """What is computed, how, and the C that does it."""

    name: str
    definition: Definition | None
    """None if index notation cannot say it: a scatter, or the user's C."""
    source: str
    """The functions of the phases, with the definition as a comment on top."""
    phases: tuple[Phase, ...]
    locals: tuple[WorkingArray, ...] = ()
    scratch: Dim = 0
    """The bytes that each thread needs while it runs a task."""
    nest: Nest | None = None
    schedule: Schedule | None = None
    given_dims: tuple[str, ...] = ()
    """The dims that it gets, if no definition says so."""
    given_names: tuple[str, ...] = ()
    """The names of its inputs and its outputs, if no definition says so."""
    given_numbers: tuple[tuple[Dim, str], ...] | None = None
    """The numbers that it gets after its buffers, with their NumPy dtypes; None: its dims."""
    cost: tuple[Dim, Dim] = (0, 0)
    """Its operations on numbers, and the bytes it moves, if no definition says so."""
    ops_of_line: tuple[tuple[str, ...], ...] = ()
    """For each line of the source, the names of the ops that it computes."""
    dialect: str = "c"
    """The language of its source: c, cuda, metal, webgpu or stablehlo."""
    uses: frozenset[str] = frozenset()
    """The names of what its source uses from the prelude."""
    choices: Choices = field(default_factory=Choices, compare=False)
    """The open numbers of its schedule, and the values it took."""
    refused: tuple[PlanRefusal, ...] = field(default=(), compare=False)
    """The plans that were refused, and optional steps of plans that did not apply; `kind` says
    which of the two each is."""
    make: Callable[..., Kernel] | None = field(default=None, compare=False)
    """Makes the same kernel with another schedule, or with the default one and other choices."""
    compile: Callable[[Kernel], CompiledCUDA] | None = field(default=None, compare=False)
    """Compiles it for its GPU; only CUDA's compiler is available on any machine."""
    assemble: Callable[[Kernel], Assembly] | None = field(default=None, compare=False)
    """Makes its assembly, with the compiler that it is for."""
    emulator: Callable[..., Emulated] | None = field(default=None, compare=False)
    """Runs it on the CPU as a GPU would; only for GPUs."""
    meaning: Meaning | None = field(default=None, compare=False)
    """What it takes, returns and computes, if no definition says so."""

    @property
    def dims(self) -> tuple[str, ...]:
        """The dims that it gets, in order."""
        return self.given_dims if self.definition is None else tuple(self.definition.dims)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of its inputs and its outputs, in order; empty if nobody gave any."""
        if self.definition is None:
            return self.given_names
        return tuple(buffer.name for buffer in (*self.definition.inputs, *self.definition.outputs))

    def flops(self, dims: Mapping[str, int] = NO_DIMS) -> int:
        """Return how many operations on numbers a launch takes."""
        return evaluate(self.open_flops, dims)

    @property
    def open_flops(self) -> Dim:
        """How many operations on numbers a launch takes, for any sizes."""
        return self.cost[0] if self.definition is None else open_flops(self.definition)

    def bytes(self, dims: Mapping[str, int] = NO_DIMS) -> int:
        """Return the least bytes that a launch reads and writes."""
        if self.definition is None:
            return evaluate(self.cost[1], dims)
        return bytes_moved(self.definition, dims)

    def counts(self, dims: Mapping[str, int]) -> tuple[int | None, int | None]:
        """Return the operations and bytes of a launch; nothing if a size is open."""
        if any(name not in dims for name in self.dims):
            return None, None
        return self.flops(dims), self.bytes(dims)

    @property
    def steps(self) -> Changes:
        """The nest before and after each step of the schedule."""
        if self.definition is None or self.schedule is None:
            raise self._without("has no steps")
        return applied(self.schedule, lower(self.definition), self.name)

    def rescheduled(
        self, schedule: ScheduleLike | None = None, *, choices: Mapping[str, int] | None = None
    ) -> Kernel:
        """Return the same kernel with another schedule: its text, or its steps in order.

        With `choices`, it is the default schedule with other numbers, as in {"rows": 64};
        `print(kernel.choices)` shows which are open.
        """
        if self.make is None:
            raise self._without("cannot be scheduled")
        if schedule is not None and choices is not None:
            raise ArgumentError(
                f"kernel {self.name}: a schedule leaves nothing open, and choices are given, too",
                hint="give either; choices are of the default schedule",
            )
        said = f"kernel {self.name}: choices is {{}}, which names no number"
        hint = 'give a dict, as in choices={"rows": 64}; print(kernel.choices) shows names'
        expect(choices, Mapping | None, said, hint)
        if choices is None:  # None is not a schedule either, and the error says so
            kernel = self.make(read_schedule(schedule, self.name), choices=NO_CHOICES)
        else:
            kernel = self.make(None, choices=choices)
        tools = self.compile, self.emulator, self.assemble
        return replace(kernel, compile=tools[0], emulator=tools[1], assemble=tools[2])

    @property
    def compiled(self) -> CompiledCUDA:
        """What CUDA's compiler makes of it, compiled when first requested."""
        if self.compile is None:
            languages = {"c": "C, for a CPU", "metal": "in Metal's language"}
            language = languages.get(self.dialect, LANGUAGES[self.dialect])
            raise DeviceError(
                f"kernel {self.name}: it is {language}, which has no PTX",
                hint='ll.CUDACompiler(arch="sm_90") makes kernels that have PTX, on any machine',
            )
        return self.compile(self)

    @property
    def ptx(self) -> str:
        """The assembly that NVIDIA's GPUs share."""
        return self.compiled.ptx

    @property
    def assembly(self) -> Assembly:
        """What a machine runs, each line beside its line of the source if that is known.

        On a CPU it is the compiler's own; for CUDA it is SASS if `nvdisasm` or `cuobjdump` is here,
        and otherwise PTX.
        """
        if self.assemble is None:
            raise DeviceError(
                f"kernel {self.name}: nothing has been set to compile it",
                hint=f"{NONE}; cx.kernels[{self.name!r}].assembly",
            )
        return self.assemble(self)

    @property
    def resources(self) -> Resources:
        """What it takes up of a GPU: registers, shared memory, spills; the most of any phase."""
        return self.compiled.most

    def emulate(
        self,
        inputs: Mapping[str, object] = NO_INPUTS,
        dims: Mapping[str, int] = NO_DIMS,
        *,
        trace: bool = False,
        limit: float = 60.0,
        step: int = 0,
        order: str | int = "late",
    ) -> Emulated:
        """Run it on the CPU, thread by thread, and compare its results with its definition.

        `inputs` are by name, `dims` the sizes of symbolic dims; what is not given is drawn, and
        small. `trace` records each access and finds races, reads of unwritten elements and accesses
        out of bounds. A run that would take longer than `limit` seconds is refused. `step` is the
        number of runs so far, for random numbers. `order` says when asynchronous copies and
        products are done: as "late" as can be, at once ("early"), or at moments that a seed draws.
        """
        if self.emulator is None:
            languages = {"c": "it is C, for a CPU", "webgpu": "it is WGSL"}
            what = languages.get(self.dialect, "nothing has been set to run it")
            raise DeviceError(
                f"kernel {self.name}: {what}, and the emulator is for CUDA and Metal",
                hint="ll.CUDACompiler() and ll.MetalCompiler() make some, on any machine",
            )
        return self.emulator(self, inputs, dims, trace=trace, limit=limit, step=step, order=order)

    def why_not(self, what: str = "schedule") -> Story:
        """Say what plans of schedules could not do: all, or one plan or step, as in "simd"."""
        expect(what, str, f"kernel {self.name}: why_not of {{}}", 'give a plan or a step: "simd"')
        if self.schedule is None:
            raise self._without("has no plan")
        told = "".join(
            f"\n{head}" + "".join(f"\n  {r.plan}: {r.why}." for r in met)
            for kind, head in REFUSALS.items()
            if (met := [r for r in self.refused if r.kind == kind and _names(r, what)])
        )
        count = f"{len(self.schedule)} step{'s' * (len(self.schedule) != 1)}"
        whole = f"{self.name} has a schedule of {count}"
        if told:
            return Story(f"{whole}.{told}")
        if what == "schedule":
            return Story(f"{whole}, and no plan was refused anything.")
        if any(str(step).split()[0] == what for step in self.schedule):
            return Story(f"{self.name}: its schedule has {what}.")
        return Story(f"{self.name}: no plan has tried {what}; why_not() tells what plans tried.")

    def beside(self, other: Kernel, *, theme: Theme = "auto") -> Shown:
        """Show two sources side by side; lines that only one of them has are marked.

        >>> import luminal_lab as ll
        >>> def made(compiler):
        ...     cx = ll.Graph()
        ...     cx.tensor((64, 256), name="x").softmax(-1).retrieve()
        ...     cx.compile(ll.GenericCompiler(), compiler)
        ...     return cx.kernels[0]
        >>> cuda, metal = made(ll.CUDACompiler(arch="sm_90")), made(ll.MetalCompiler())
        >>> cuda.beside(metal)
        <Page: kernel softmax: 16 of 26 and 28 lines are the same>
        """
        said = f"beside: {cut(repr(other))} is not a kernel, and {self.name} needs one beside it"
        expect(other, Kernel, said, "give a kernel, as in cuda.beside(metal)")
        return DISPLAYS["Kernel.beside"](self, other, theme=theme)

    def _without(self, what: str) -> ScheduleError:
        return ScheduleError(
            f"kernel {self.name}: it is C that no schedule made, and {what}",
            hint="kernels with steps are those whose k.schedule is not None",
        )

    @override
    def __str__(self) -> str:
        return self.source

    @override
    def __repr__(self) -> str:
        phases = "1 phase" if len(self.phases) == 1 else f"{len(self.phases)} phases"
        return f"<Kernel {self.name}: {phases}; print(….source) shows it>"


@told_object("kernels")
class Kernels(tuple[Kernel, ...]):
    """The distinct kernels of a program: by place, or by name."""

    __slots__ = ()

    @overload
    def __getitem__(self, which: str | SupportsIndex) -> Kernel: ...
    @overload
    def __getitem__(self, which: slice) -> tuple[Kernel, ...]: ...
    @override
    def __getitem__(self, which: str | SupportsIndex | slice) -> Kernel | tuple[Kernel, ...]:
        if isinstance(which, slice):
            return super().__getitem__(which)
        if not isinstance(which, str):
            hint = f"they count from 0: {', '.join(k.name for k in self)}" if self else NONE
            missing = "kernels: there is no kernel"
            return super().__getitem__(position(which, len(self), missing, hint))
        named = {kernel.name: kernel for kernel in self}
        hint = f"choose from {', '.join(named)}" if self else NONE
        fault = f"kernels: there is none called {which!r}"
        UnknownNameError.unless_known(which, named, fault, hint)
        return named[which]

    def to_pandas(self, dims: Mapping[str, int] = NO_DIMS) -> Table:
        """Return a pandas table with a row for each kernel; `dims` are the sizes of symbolic dims.

        Operations and bytes are those of one launch, if their sizes are known.
        """
        rows = (
            (
                *(k.name, k.dialect, len(k.phases)),
                *(0 if k.schedule is None else len(k.schedule), len(k.source.splitlines())),
                *k.counts(dims),
                None if k.definition is None else str(k.definition),
            )
            for k in self
        )
        return frame("kernels", KERNELS, rows)

    @override
    def __str__(self) -> str:
        texts = [
            str(k.definition or f"kernel {k.name}: {LANGUAGES[k.dialect]} that no definition says")
            for k in self
        ]
        return "\n".join(texts) or "no kernels"

    _repr_mimebundle_ = as_text

    @override
    def __repr__(self) -> str:
        many = f"{len(self)} kernel{'s' * (len(self) != 1)}"
        return f"<Kernels: {many}; print(…) shows what they compute, [name] is one>"


def _names(refusal: PlanRefusal, what: str) -> bool:
    """Return whether a refusal is of a plan or a step that was asked about."""
    words = re.findall(r"[\w-]+", f"{refusal.plan} {refusal.why}")
    return what == "schedule" or what in words


@cache
def function_name(name: str) -> str:
    """Return the name of a kernel's function in C, chosen so that no header has it.

    None ends like the functions of phases, with two underscores and a number.

    >>> function_name("softmax"), function_name("my-op"), function_name("sum__1")
    ('kernel_softmax', 'kernel_my_op', 'kernel_sum_1')
    """
    plain = re.sub(r"[^A-Za-z0-9_]", "_", name)
    return "kernel_" + re.sub(r"__+([0-9]+)$", r"_\1", plain)


def comment(text: str) -> str:
    """Return text as a comment in C."""
    lines: list[str] = []
    for line in text.splitlines():
        more = " " * (len(line) - len(line.lstrip()) + 4)
        parts = wrap(line, 97, subsequent_indent=more, break_long_words=False) or [""]
        lines += [line] if len(line) <= 97 else parts
    # A backslash at the end of a line would make the next one part of the comment.
    # and a carriage return may be the end of one.
    plain = (re.sub(r"[\\\s]+$", "", line) for line in lines)
    return "\n".join(f"// {line}".rstrip() for line in plain)

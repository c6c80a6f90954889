"""A batch without a GPU: kernels compiled, checked against their definition, and modelled.

Nothing is measured here, and every outcome says so. A schedule becomes source; NVRTC says how many
registers and how much shared memory it takes, and what it spills; the emulator runs it at small
sizes, beside its definition; and a model of its nest (gpu_model.py) gives the seconds by which
schedules are ordered. Apple's compiler exists on Macs alone: for Metal the registers are unknown.
"""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache, reduce
from hashlib import sha256
from pathlib import Path
from time import monotonic
from typing import Literal

from luminal_lab.core.dtypes import Array
from luminal_lab.devices.build.toolchain import find_cpp_compiler
from luminal_lab.devices.cuda.compiler import DEFAULT, CUDACompiler
from luminal_lab.devices.facts.specifications import specification
from luminal_lab.devices.gpu.compiler import GPUCompiler, gpu_maker
from luminal_lab.devices.gpu.nvrtc import compile_kernel, version
from luminal_lab.devices.metal.compiler import MetalCompiler
from luminal_lab.devices.runtime.worklist import KernelMaker
from luminal_lab.emulator import emulate
from luminal_lab.emulator.kernels import SMALL, KernelRun, small
from luminal_lab.errors import ArgumentError, DeviceError, LabError, is_circumstance
from luminal_lab.interrupts import held, look
from luminal_lab.kernels.definition.cost import bytes_moved, flops
from luminal_lab.kernels.definition.definition import Definition
from luminal_lab.kernels.definition.evaluate import evaluate
from luminal_lab.kernels.definition.specialise import specialised
from luminal_lab.kernels.definition.text import parse_definition
from luminal_lab.kernels.gpu import GPU, apple, gpu_of
from luminal_lab.kernels.kernel import Kernel
from luminal_lab.kernels.nest.sizes import bytes_in
from luminal_lab.kernels.render.gpu.nest import phases
from luminal_lab.kernels.render.gpu.program import gpu_source
from luminal_lab.kernels.steps.schedule import parse_schedule
from luminal_lab.machines.cards import capability_of
from luminal_lab.machines.figures import Specification
from luminal_lab.machines.resources import CARDS, Resources, card_of
from luminal_lab.passes.pipeline import parse_pipeline
from luminal_lab.plain import plain, read
from luminal_lab.reading import read_json
from luminal_lab.search.deadline import SKIPPED, Deadline, OutOfTime
from luminal_lab.search.draws import said
from luminal_lab.search.driver import WRONG, Answer, Outcome
from luminal_lab.search.gpu_model import Estimate, estimate
from luminal_lab.search.validate import SIZE, difference, drawn
from luminal_lab.search.worker import MOST_LINES, Job, Make

APPLE = "M2"
"""The chip that is modelled if none is named: its cores are those that plans assume."""
USUAL, MOST = {False: 1 << 23, True: 1 << 20}, {False: 1 << 25, True: 1 << 22}
"""The operations and bytes that a run in the emulator usually has, and the most it may have,
without a trace and with one."""
LIMIT = 20.0
"""The seconds that one run in the emulator may take."""
SMALLEST, LARGEST = 5, 16
"""The powers of two to which larger sizes are cut for the emulator; their remainders stay."""
FILL = 0xFF
"""What each byte of an output holds before a run."""


@dataclass(frozen=True)
class ModelledPlace:
    """The GPU for which kernels are made, and whose figures the model takes."""

    device: str
    """The compiler as text."""
    gpu: GPU
    card: Specification

    @classmethod
    def of(cls, device: GPUCompiler) -> ModelledPlace:
        """Return the GPU of a compiler; refuse one of which too little is known."""
        match device:
            case CUDACompiler():
                arch = device.arch or DEFAULT
                text = cuda_text(arch, tf32=device.tf32)
                return cls(text, gpu_of(arch, tf32=device.tf32), _card(arch))
            case MetalCompiler():
                chip = device.chip or APPLE
                return cls(f"metal{{chip = {chip}}}", apple(), specification(chip))
            case _:
                raise ArgumentError(f"search: there is no model of {device!r}")

    @property
    def language(self) -> Literal["cuda", "metal"]:
        """The language of its kernels."""
        return "metal" if self.gpu.arch is None else "cuda"

    @property
    def maker(self) -> KernelMaker:
        """What makes its kernels."""
        return gpu_maker(self.gpu, self.gpu.dialect.name)

    def make(self, definition: Definition, name: str, schedule: str) -> Kernel:
        """Return the kernel of a schedule."""
        return self.maker.kernel(definition, name, parse_schedule(schedule))

    @property
    def model(self) -> str:
        """What times are modelled for."""
        arch = f" ({self.gpu.arch})" if self.gpu.arch else ""
        return f"{self.card.name}{arch}"

    def signature(self) -> str:
        """Return what the model's times depend on."""
        parts = "modelled", self.device, str(self.card), str(_nvrtc())
        return f"modelled-{sha256(chr(10).join(parts).encode()).hexdigest()[:16]}"


def cuda_text(arch: str, *, tf32: bool) -> str:
    """Return the compiler of an architecture as text."""
    return f"cuda{{arch = {arch}{', tf32 = true' * tf32}}}"


def _card(arch: str) -> Specification:
    plain_arch = arch.rstrip("af")
    if capability_of(arch) is None or plain_arch not in {
        str(card.arch).rstrip("a") for card in CARDS.values()
    }:
        known = ", ".join(dict.fromkeys(str(card.arch) for card in CARDS.values()))
        raise ArgumentError(
            f"search: there are no figures of a GPU of {arch}, and so no model",
            hint=f"there are some for {known}",
        )
    return card_of(arch)


def _nvrtc() -> str:
    """Return NVRTC's version, or why there is none."""
    try:
        return "{}.{}".format(*version())
    except DeviceError as error:
        return error.message


def work(job: str) -> str:
    """Return the answer to a job, both as text."""
    return json.dumps(plain(answered(read(Job, read_json(job, exact=True)))))


def answered(job: Job, make: Make | None = None, clock: Callable[[], float] = monotonic) -> Answer:
    """Make, compile, check and model the kernels of a job."""
    deadline = Deadline(job.seconds, clock)
    (device,) = parse_pipeline(job.device)
    if not isinstance(device, GPUCompiler):
        raise ArgumentError(f"search: {job.device} is not a GPU's compiler")
    find_cpp_compiler()  # without it there is no emulator, and nothing is checked
    with held():
        target = ModelledPlace.of(device)
        with tempfile.TemporaryDirectory(prefix="luminal_lab-") as folder:
            batch = _Batch(job, target, make or target.make, Path(folder), deadline)
            reference, *outcomes = batch.outcomes
    if reference.modelled is None and reference.state != "skipped":
        raise DeviceError(
            f"search: the default kernel fails, with which others are compared: {reference.why}",
            hint='cx.compile(…, check="values") shows where',
        )
    return Answer(reference, tuple(outcomes), target.signature())


class _Batch:
    """A job at work: the reference is number 0."""

    def __init__(
        self, job: Job, place: ModelledPlace, make: Make, folder: Path, deadline: Deadline
    ) -> None:
        self.job, self.place, self.make, self.folder = job, place, make, folder
        self.deadline = deadline
        self.definition = parse_definition(job.definition)
        self.schedules = job.reference, *job.schedules
        self.known: dict[int, Outcome] = {}
        self.checked: set[int] = set()

    @property
    def outcomes(self) -> list[Outcome]:
        """The outcome of each schedule, in order."""
        with suppress(OutOfTime):
            kernels = dict(self._made())
            taken = self._resources(kernels)
            with suppress(OutOfTime):
                self._check([at for at in kernels if at not in self.known])
            for at in [at for at in self.checked if at not in self.known]:
                self.known[at] = self._modelled(kernels[at], taken.get(at))
        return [self.known.get(at, SKIPPED) for at in range(len(self.schedules))]

    def _kernel(self, at: int, definition: Definition) -> Kernel:
        name = f"candidate_{at}" if at else "reference"
        return self.make(definition, name, self.schedules[at])

    def _made(self) -> Iterator[tuple[int, Kernel]]:
        """Yield the kernels that can be made, by number."""
        for at in range(len(self.schedules)):
            look()
            self.deadline.check()
            try:
                kernel = self._kernel(at, self.definition)
            except Exception as error:
                if is_circumstance(error):
                    raise
                self.known[at] = Outcome("refused", why=said(error))
                continue
            lines = kernel.source.count("\n")
            if lines > MOST_LINES and at:
                why = f"it has {lines:,} lines, and may have {MOST_LINES:,}"
                self.known[at] = Outcome("refused", why=why)
            else:
                yield at, kernel

    # -- what it takes -----------------------------------------------------------------------------

    def _resources(self, kernels: Mapping[int, Kernel]) -> dict[int, Mapping[str, Resources]]:
        """Return what the functions of kernels take; refuse those too large for the card."""
        taken: dict[int, Mapping[str, Resources]] = {}
        arch = self.place.gpu.arch
        if arch is None or not _nvrtc()[0].isdigit():
            return taken
        for at, kernel in kernels.items():
            look()
            self.deadline.check()
            try:
                compiled = compile_kernel(kernel, arch, self.folder)
            except DeviceError as error:
                self.known[at] = Outcome("failed", why=f"it does not compile: {said(error)}")
                continue
            taken[at], most = compiled.resources, compiled.most
            threads = max(phase.threads for phase in kernel.phases)
            held_at_once = most.occupancy(self.place.card, threads)
            if most.spills and at:
                why = f"it spills {most.spills:,} bytes of registers: {most}"
                self.known[at] = Outcome("refused", why=why)
            elif compiled.serialised and at:
                self.known[at] = Outcome("refused", why=f"its {compiled.serialised}")
            elif not held_at_once.blocks:
                why = f"no block fits on {self.place.card.name}: {most}"
                self.known[at] = Outcome("refused", why=why)
        return taken

    def _modelled(self, kernel: Kernel, taken: Mapping[str, Resources] | None) -> Outcome:
        assert kernel.nest is not None, "a schedule has made it"
        functions = [phase.function for phase in kernel.phases]
        if taken is None:
            bodies = [launch.body for launch in phases(kernel.nest)]
            shared = [bytes_in(body, "shared") + bytes_in(body, "tiles") for body in bodies]
            some = zip(functions, shared, strict=True)
            taken = {name: Resources(shared=int(size)) for name, size in some}
        model = estimate(kernel.nest, self.place.card, taken, functions, self.job.dims)
        resources = _told(kernel, taken, model)
        return Outcome("modelled", modelled=model.seconds, resources=resources)

    # -- whether it is right -----------------------------------------------------------------------

    def _check(self, left: Sequence[int]) -> None:
        """Check the values of kernels at sizes that the emulator can run."""
        for trace in (True, False) if self.job.is_last else (False,):
            for sister in _sisters(self.definition, self.job.seed, trace=trace):
                kernels = dict(self._sister_kernels(sister.definition, left))
                for at, why in _wrong(kernels, self.place, sister, trace=trace):
                    self.deadline.check()
                    self.checked.add(at)
                    if why:
                        self.known[at] = Outcome("failed", why=why)
                left = [at for at in left if at not in kernels]
                if not left:
                    return
        for at in left:
            why = "its schedule applies at no size that the emulator could run"
            self.known[at] = Outcome("refused", why=why)

    def _sister_kernels(
        self, sister: Definition, left: Sequence[int]
    ) -> Iterator[tuple[int, Kernel]]:
        """Yield the kernels of schedules that apply at smaller sizes."""
        for at in left:
            look()
            try:
                yield at, self._kernel(at, sister)
            except Exception as error:
                if is_circumstance(error):
                    raise


@dataclass(frozen=True)
class Sister:
    """A definition at sizes that the emulator can run, its inputs, and their results."""

    definition: Definition
    sizes: Mapping[str, int]
    inputs: Mapping[str, Array]
    expected: Mapping[str, Array]


def _sisters(definition: Definition, seed: int, *, trace: bool) -> Iterator[Sister]:
    """Yield a definition at smaller sizes that leave the same remainders by powers of two.

    Sizes that the emulator can usually run come first, the largest of them before the others; then
    larger ones.
    """
    works: dict[str, int] = {}
    for power in range(LARGEST, SMALLEST - 1, -1):

        def smaller(size: re.Match[str], modulus: int = 1 << power) -> str:
            number = int(size[1])
            return str(modulus + number % modulus if number > 2 * modulus else number)

        text = SIZE.sub(smaller, str(definition))
        sister = parse_definition(text)
        sizes = _sizes(sister)
        works[text] = flops(sister, sizes) + bytes_moved(sister, sizes)
    usual = [text for text, work in works.items() if work <= USUAL[trace]]
    slow = [text for text, work in works.items() if USUAL[trace] < work <= MOST[trace]]
    for text in (*usual, *reversed(slow)):
        try:
            yield _sister(text, seed)
        except LabError:  # sizes that depend on each other
            continue


def _sizes(definition: Definition) -> dict[str, int]:
    """Return small sizes of symbolic dims that are no multiples of a tile."""
    dims = enumerate(definition.dims.items())
    return {name: small(symbol, SMALL + 2 * order) for order, (name, symbol) in dims}


@lru_cache(maxsize=16)
def _sister(text: str, seed: int) -> Sister:
    definition = parse_definition(text)
    sizes = _sizes(definition)
    bound = specialised(definition, sizes)
    inputs = drawn(bound, {}, seed)
    return Sister(definition, sizes, inputs, evaluate(bound, inputs))


def _wrong(
    kernels: Mapping[int, Kernel], place: ModelledPlace, sister: Sister, *, trace: bool
) -> Iterator[tuple[int, str | None]]:
    """Yield what is wrong with kernels of one definition, in one source if that compiles."""
    dialect = place.gpu.dialect
    together: str | None = gpu_source([*kernels.values()], dialect)
    try:
        emulate(together, place.language, [], trace=trace)
    except LabError:  # one of them is at fault
        together = None
    for at, kernel in kernels.items():
        look()
        try:
            source = together or gpu_source([kernel], dialect)
            why = _emulated(kernel, place, source, sister, trace=trace)
        except LabError as error:
            why = f"in the emulator: {said(error).removeprefix('emulator: ')}"
        yield at, why


def _emulated(
    kernel: Kernel, place: ModelledPlace, source: str, sister: Sister, *, trace: bool
) -> str | None:
    """Return what is wrong with a kernel in the emulator; a trace checks each access."""
    run = KernelRun(kernel, sister.inputs, sister.sizes)
    run.fill()
    seen = emulate(source, place.language, run.calls(FILL), trace=trace, limit=LIMIT)
    run.check_fault()
    wrong = difference(sister.expected, run.results)
    if wrong is not None:
        return WRONG + wrong
    if seen is not None and seen.findings:
        return f"in the emulator: {str(seen.findings[0]).partition(chr(10))[0]}"
    return None


def _told(kernel: Kernel, taken: Mapping[str, Resources], model: Estimate) -> str:
    """Return what a kernel takes up of a GPU, and what limits it, in words."""
    most = reduce(Resources.most, taken.values())
    threads = max(phase.threads for phase in kernel.phases)
    registers = f"{most.registers} registers, " if most.registers else ""
    return (
        f"{registers}{most.shared:,} B shared, blocks of {threads}, {model.blocks} at once, "
        f"bound by {model.bound}"
    )

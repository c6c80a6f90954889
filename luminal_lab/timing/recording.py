"""A recording: the times of kernels on one device, kept in a small file of JSON.

    {"schema": 1, "what": "luminal_lab times", "device": …, "driver": …, "date": …, "dialect": "c",
     "version": "1", "target": {…}, "kernels": [{"name", "definition", "schedule", "dims",
     "samples"}, …], "programs": [{"name", "launches": [0, 1, 1], "whole": […], "check": …}, …]}

A kernel is identified by what it computes (a hash of its canonical definition), by its schedule, by
the dialect and its version, and by the sizes of its dims. Opening a file reads it, and runs
nothing.

`ll.Recorded("h200")` answers for the kernels that were recorded. A kernel that has changed since is
listed without a time, and with what differs.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from datetime import datetime
from difflib import get_close_matches
from functools import partial
from itertools import zip_longest
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple, cast

from typing_extensions import override

from luminal_lab.core.printer import as_text
from luminal_lab.devices.cuda.compiler import CUDACompiler
from luminal_lab.devices.facts.specifications import specification, this_cpu
from luminal_lab.devices.metal.compiler import MetalCompiler
from luminal_lab.devices.webgpu.compiler import WebGPUCompiler
from luminal_lab.devices.xla.compiler import XLACompiler
from luminal_lab.devices.xla.program import XLAProgram
from luminal_lab.errors import RecordingError, UnknownNameError, expect
from luminal_lab.kernels.definition.canonical import canonical
from luminal_lab.kernels.dialect import CUDA, METAL, WEBGPU
from luminal_lab.kernels.kernel import Kernel
from luminal_lab.kernels.launch import Launch
from luminal_lab.machines.figures import Specification
from luminal_lab.machines.load import load_text
from luminal_lab.machines.machine import Machine
from luminal_lab.machines.rates import PeakRates, check_rates, read_json
from luminal_lab.passes.compilation import Compilation
from luminal_lab.plain import read
from luminal_lab.reading import read_text, shown
from luminal_lab.tables import aligned
from luminal_lab.tensor.arguments import told_object
from luminal_lab.timing.column import SURPASSED, Column, fused
from luminal_lab.timing.launches import Covering, KernelUse, LaunchTime
from luminal_lab.timing.measure import check_dims
from luminal_lab.timing.roofline import modelled
from luminal_lab.timing.subject import ComparedGraph
from luminal_lab.timing.timings import MARK, check_samples, spread_of
from luminal_lab.writing import write_bytes

SCHEMA = 1
"""The format of a file, raised whenever it changes."""
WHAT = "luminal_lab times"
VERSIONS: Mapping[str, str] = {
    "c": "1",
    "cuda": CUDA.version,
    "metal": METAL.version,
    "webgpu": WEBGPU.version,
    "stablehlo": "1",
}
"""The version of the code in each dialect: another version has other times."""
MOST_SAMPLES = 25
"""How many samples a file keeps: more would add nothing."""
FOLDER = Path(__file__).parent / "recordings"
"""The recordings that come with the package."""
HOST = "no recording: NumPy computes it"
AGAIN = "record it again: luminal-lab record --device {device} -o FILE"


class Key(NamedTuple):
    """What identifies a kernel in a recording."""

    definition: str
    """A hash of the canonical text of its definition."""
    schedule: str
    dialect: str
    version: str
    dims: tuple[tuple[str, int], ...]
    """The sizes of its dims."""


@dataclass(frozen=True)
class RecordedKernel:
    """A kernel on the device: what identifies it, and its times."""

    name: str
    definition: str
    """A hash of the canonical text of its definition."""
    schedule: str
    dims: Mapping[str, int]
    """The sizes of its dims."""
    samples: tuple[float, ...]
    """Seconds, each of one launch."""
    by: str = ""
    """What computed it, if that was a library and not its own code."""
    cold: tuple[float, ...] = ()
    """The same with nothing in the device's cache, if that was measured too."""

    @property
    def seconds(self) -> float:
        """The median of the samples."""
        return median(self.samples)


@dataclass(frozen=True)
class RecordedProgram:
    """A graph that was run: its launches, in order, as places in the list of kernels."""

    name: str
    launches: tuple[int, ...]
    whole: tuple[float, ...]
    """The seconds of complete runs."""
    check: str
    """How it was compared with the interpreter."""


@told_object("recording")
@dataclass(frozen=True, repr=False)
class Recording:
    """Times of kernels on one device, with what they were measured on and when.

    >>> import luminal_lab as ll
    >>> cx = ll.Graph()
    >>> known = ll.devices.Recording("a card", "driver 1", "2026-01-02", "cuda", "13", (), (), {})
    >>> known.device, len(known.kernels)
    ('a card', 0)
    """

    device: str
    driver: str
    """The driver, or for a CPU the compiler, with its version."""
    date: str
    dialect: str
    version: str
    """The version of the dialect."""
    kernels: tuple[RecordedKernel, ...]
    programs: tuple[RecordedProgram, ...]
    target: Mapping[str, int | str]
    """What the kernels were made for: fields of a machine, or the architecture of a card."""
    clock: str = ""
    warm_up: int = 0
    maker: str = ""
    """The version of luminal_lab that recorded it."""
    rates: PeakRates | None = None
    """What the machine could do at most, if that was measured too."""
    busy: float | None = None
    """How many cores other programs kept busy during the busiest program; None if unknown."""

    def find(self, key: Key) -> RecordedKernel | None:
        """Return the times of a kernel, if it was recorded as it is now.

        >>> from luminal_lab.timing.recording import RecordedKernel
        >>> mul = RecordedKernel("mul", "a1", "", {}, (0.002, 0.003, 0.002))
        >>> card = ll.devices.Recording("card", "550", "2026-01-02", "cuda", "13", (mul,), (), {})
        >>> card.find(card.key_of(mul)).seconds
        0.002
        """
        return next((kernel for kernel in self.kernels if self.key_of(kernel) == key), None)

    def why_not(self, key: Key) -> str:
        """Say what differs from the nearest kernel that was recorded.

        >>> from luminal_lab.timing.recording import Key, RecordedKernel
        >>> mul = RecordedKernel("mul", "a1", "", {"n": 4}, (0.002,))
        >>> card = ll.devices.Recording("card", "550", "2026-01-02", "cuda", "13", (mul,), (), {})
        >>> card.why_not(Key("a1", "", "cuda", "13", (("n", 8),)))
        'no recording: the sizes differ: n = 4 then, n = 8 now'
        """
        same = [self.key_of(entry) for entry in self.kernels if entry.definition == key.definition]
        if not same:
            return "no recording: this definition was not recorded"
        near = max(same, key=lambda known: sum(a == b for a, b in zip(known, key, strict=True)))
        if (near.dialect, near.version) != (key.dialect, key.version):
            then, now = f"{near.dialect} {near.version}", f"{key.dialect} {key.version}"
            return f"no recording: the dialect differs: {then} then, {now} now"
        if near.schedule != key.schedule:
            return f"no recording: the schedule differs: {_differing(near.schedule, key.schedule)}"
        return f"no recording: the sizes differ: {_sizes(near.dims)} then, {_sizes(key.dims)} now"

    def key_of(self, kernel: RecordedKernel) -> Key:
        """Return the key of a kernel in the recording.

        >>> from luminal_lab.timing.recording import RecordedKernel
        >>> mul = RecordedKernel("mul", "a1", "", {}, (0.002,))
        >>> card = ll.devices.Recording("card", "550", "2026-01-02", "cuda", "13", (mul,), (), {})
        >>> card.key_of(mul)
        Key(definition='a1', schedule='', dialect='cuda', version='13', dims=())
        """
        dims = tuple(kernel.dims.items())
        return Key(kernel.definition, kernel.schedule, self.dialect, self.version, dims)

    # -- kept --------------------------------------------------------------------------------------

    def to_json(self) -> str:
        """Return the recording as text that `from_json` can read.

        >>> card = ll.devices.Recording("card", "550", "2026-01-02", "cuda", "13", (), (), {})
        >>> card.to_json().splitlines()[1:4]
        [' "schema": 1,', ' "what": "luminal_lab times",', ' "device": "card",']
        """
        head = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in LISTS}
        head["rates"] = None if self.rates is None else _bare(self.rates)
        kernels = [asdict(entry) for entry in self.kernels]
        for entry in kernels:
            for name in ("by", "cold"):
                if not entry[name]:
                    del entry[name]
        programs = [asdict(program) for program in self.programs]
        # One line for each kernel and each program: short, and a changed kernel changes one line.
        parts = [f" {json.dumps(name)}: {json.dumps(value)}" for name, value in head.items()]
        for name, rows in (("kernels", kernels), ("programs", programs)):
            lines = ",\n".join(f"  {json.dumps(row)}" for row in rows)
            parts.append(f' "{name}": [\n{lines}\n ]' if rows else f' "{name}": []')
        first = f' "schema": {SCHEMA},\n "what": {json.dumps(WHAT)},\n'
        return "{\n" + first + ",\n".join(parts) + "\n}\n"

    def save(self, path: str | Path) -> None:
        """Write the recording to a file; the old one stays until the new one is complete.

        >>> card = ll.devices.Recording("card", "550", "2026-01-02", "cuda", "13", (), (), {})
        >>> card.save(folder / "card.json")
        >>> ll.Recorded(folder / "card.json")
        <Recorded card, 2026-01-02>
        """
        write_bytes("recording", path, self.to_json().encode())

    @classmethod
    def load(cls, path: str | Path) -> Recording:
        """Read a recording from a file; nothing in it is run.

        >>> card = ll.devices.Recording("card", "550", "2026-01-02", "cuda", "13", (), (), {})
        >>> card.save(folder / "card.json")
        >>> ll.devices.Recording.load(folder / "card.json") == card
        True
        """
        text = read_text("recording", path, "luminal-lab record")
        try:
            return cls.from_json(text)
        except RecordingError as error:
            error.message = error.message.replace("recording:", f"recording {path}:", 1)
            raise

    @classmethod
    def from_json(cls, text: str) -> Recording:
        """Read the text that `to_json` writes.

        >>> card = ll.devices.Recording("card", "550", "2026-01-02", "cuda", "13", (), (), {})
        >>> ll.devices.Recording.from_json(card.to_json())
        <Recording of 0 kernels on card, 2026-01-02; print(…) shows them>
        """
        given = read_json("recording", text, SCHEMA)
        if given.get("what") != WHAT:
            fault = f"recording: it holds {shown(given.get('what'))}, and not {WHAT!r}"
            raise RecordingError(fault, hint="give a file that luminal-lab record has written")
        try:
            recording = read(cls, given, "the file")
            recording.check()
        except ValueError as error:
            device = {"c": "cpu"}.get(str(given.get("dialect")), given.get("dialect") or "cpu")
            raise RecordingError(
                f"recording: it is damaged: {error}", hint=AGAIN.format(device=device)
            ) from error
        return recording

    def check(self) -> None:
        """Raise a ValueError unless its date, times and launches are possible.

        >>> ll.devices.Recording("card", "550", "yesterday", "cuda", "13", (), (), {}).check()
        Traceback (most recent call last):
            ...
        ValueError: Invalid isoformat string: 'yesterday'
        """
        datetime.fromisoformat(self.date)
        if self.rates is not None:
            check_rates(self.rates)
        for kernel in self.kernels:
            check_samples(kernel.samples)
            if kernel.cold:
                check_samples(kernel.cold)
        for number in (number for program in self.programs for number in program.launches):
            if not 0 <= number < len(self.kernels):
                raise ValueError(f"a launch of kernel {number}, and there are {len(self.kernels)}")

    # -- shown -------------------------------------------------------------------------------------

    @property
    def where(self) -> str:
        """The device and the date, as in a title."""
        return f"{self.device}, {self.date[:16].replace('T', ' ')}"

    @override
    def __str__(self) -> str:
        mark, has_cold = MARK["recorded"], any(kernel.cold for kernel in self.kernels)
        rows = [
            [
                f"{mark}{1e3 * kernel.seconds:.4f}",
                f"± {mark}{1e3 * spread_of(kernel.samples):.4f}",
                *([f"{mark}{1e3 * median(kernel.cold):.4f}" if kernel.cold else ""] * has_cold),
                kernel.name,
                _sizes(tuple(kernel.dims.items())),
            ]
            for kernel in self.kernels
        ]
        cold = [(">", "cold")] * has_cold
        header = [(">", "ms"), ("<", "±"), *cold, ("<", "kernel"), ("<", "sizes")]
        load = [load_text(self.busy)] if load_text(self.busy) else []
        counts = f"{len(self.kernels)} kernels of {len(self.programs)} programs"
        title = f"{counts}, recorded on {self.where}; {self.driver}; {self.dialect} {self.version}"
        return "\n".join([title, *aligned(header, rows), *load])

    @override
    def __repr__(self) -> str:
        return f"<Recording of {len(self.kernels)} kernels on {self.where}; print(…) shows them>"

    _repr_mimebundle_ = as_text


LISTS = ("kernels", "programs")


def key_of_kernel(kernel: Kernel, dims: Mapping[str, int]) -> Key:
    """Return a kernel's key in recordings, for sizes of its dims."""
    dialect = kernel.dialect
    sizes = tuple((name, dims[name]) for name in kernel.dims)
    schedule = "" if kernel.schedule is None else str(kernel.schedule)
    return Key(hash_of(kernel), schedule, dialect, VERSIONS[dialect], sizes)


def hash_of(kernel: Kernel) -> str:
    """Return a hash of what a kernel computes, without names of buffers, axes and the kernel."""
    if kernel.definition is None:
        # A kernel without a definition is identified by its source, without the kernel's own name.
        text = re.sub(rf"\b(kernel_)?{re.escape(kernel.name)}(_\d+)?\b", "kernel", kernel.source)
    else:
        text = str(canonical(replace(kernel.definition, name="kernel"), buffers=True))
    return hashlib.sha256(text.encode()).hexdigest()[:20]


def kept(samples: Sequence[float]) -> tuple[float, ...]:
    """Return the samples that a file keeps: as many as allowed, spread evenly, with four digits.

    >>> kept([0.123456, 2.0])
    (0.1235, 2.0)
    """
    count = len(samples)
    some = samples
    if count > MOST_SAMPLES:
        some = [samples[k * count // MOST_SAMPLES] for k in range(MOST_SAMPLES)]
    return tuple(float(f"{seconds:.4g}") for seconds in some)


def _bare(rates: PeakRates) -> dict[str, Any]:
    """Return rates as JSON has them, without their samples, which a recording does not need."""
    return asdict(replace(rates, rates=tuple(replace(rate, samples=()) for rate in rates.rates)))


def _differing(then: str, now: str) -> str:
    """Return the first step in which two schedules differ."""
    pairs = enumerate(zip_longest(then.split("\n"), now.split("\n")), 1)
    step, texts = next((step, texts) for step, texts in pairs if texts[0] != texts[1])
    first, second = ("nothing" if text is None else repr(text) for text in texts)
    return f"step {step} was {first}, and is {second}"


def _sizes(dims: Sequence[tuple[str, int]]) -> str:
    return ", ".join(f"{name} = {size}" for name, size in dims)


# -- replayed --------------------------------------------------------------------------------------


@told_object("recorded")
@dataclass(frozen=True, init=False, repr=False)
class Recorded:
    """A device that is not here: its times come from a recording, and nothing is run.

    >>> import luminal_lab as ll
    >>> try:
    ...     ll.Recorded("friend.json")
    ... except ll.RecordingError as error:
    ...     print(error.message)
    recording: friend.json cannot be read: No such file or directory
    """

    recording: Recording

    def __init__(self, recording: Recording | str | Path) -> None:
        loaded = recording if isinstance(recording, Recording) else load(recording)
        object.__setattr__(self, "recording", loaded)

    def __repr__(self) -> str:
        return f"<Recorded {self.recording.where}>"

    def column(self, subject: ComparedGraph, rounds: int, warm_up: int) -> Column:
        """Return all launches of a graph, with the times that were recorded."""
        recording, dims = self.recording, subject.dims
        compilation, uses = self._uses(subject)
        check_dims("compare", compilation.ir, dims, "compare(cx, devices")
        covering, limits = Covering(compilation), self._specification()
        notes = [f"{recording.driver}; clock {recording.clock}"]
        parts: list[LaunchTime] = []
        for use in uses:
            least, samples, missing = None, (), HOST
            if use.kernel is not None:
                key = key_of_kernel(use.kernel, dims)
                entry = recording.find(key)
                if entry is not None and entry.by:
                    notes.append(f"{use.kernel.name} {compilation.ir[use.node]}: {entry.by}")
                least = limits and modelled(use.kernel, limits, dims)
                samples = () if entry is None else entry.samples
                missing = recording.why_not(key) if entry is None else ""
            parts.append(covering.time(use, "recorded", samples, dims, least, missing))
        load = load_text(recording.busy)
        name, doubts = recording.device, (load,) if load else ()
        if any(part.least and part.seconds and part.least > part.seconds for part in parts):
            doubts = (*doubts, f"more than 100%: {SURPASSED}")
        taken = tuple(parts), (), tuple(notes), limits, doubts, recording.busy
        return Column(name, "recorded", name, recording.date, *taken)

    def _uses(self, subject: ComparedGraph) -> tuple[Compilation, list[KernelUse]]:
        """Return the kernels that the recorded device would run, made as they were for it."""
        target = self.recording.target
        if self.recording.dialect == "c":
            try:
                machine = Machine(**{name: int(size) for name, size in target.items()})
            except (TypeError, ValueError) as error:
                raise RecordingError(
                    f"recorded: the recording of {self.recording.device} is for {dict(target)}, "
                    "which is not a machine that this version knows",
                    hint=AGAIN.format(device="cpu"),
                ) from error
            return fused(subject, machine)
        if self.recording.dialect == "stablehlo":
            compilation = subject.compiled(XLACompiler())
            program = cast("XLAProgram", compilation.program)
            program.sizes = subject.dims
            return compilation, [KernelUse(each.node, each.kernel) for each in program.launches]
        arch = str(target.get("arch") or "sm_80")
        others = {"metal": MetalCompiler, "webgpu": WebGPUCompiler}
        device = others.get(self.recording.dialect, partial(CUDACompiler, arch=arch))()
        compilation = subject.compiled(device)
        launches: tuple[Launch, ...] = getattr(compilation.runner, "launches", ())
        return compilation, [KernelUse(launch.node, launch.kernel) for launch in launches]

    def _specification(self) -> Specification | None:
        if self.recording.rates is not None:
            return this_cpu(self.recording.rates)
        try:
            return specification(self.recording.device)
        except UnknownNameError:
            return None


def load(name: str | Path) -> Recording:
    """Return a recording by its name among those of the package, or by the path of its file."""
    hint = "give the path of a file that luminal-lab record has written"
    expect(name, str | Path, "recorded: {} is not a recording", hint)
    known = {path.stem: path for path in sorted(FOLDER.glob("*.json"))}
    path = Path(name)
    if str(name).lower() in known:
        return Recording.load(known[str(name).lower()])
    if path.suffix or path.is_file() or len(path.parts) > 1:
        return Recording.load(path)
    close = get_close_matches(str(name).lower(), known, n=1, cutoff=0.5)
    available = f"there are {', '.join(known)}" if known else "none comes with this version"
    raise RecordingError(
        f"recorded: there is no recording {str(name)!r}; {available}",
        hint=f"did you mean {close[0]!r}?"
        if close
        else f"ll.devices.specification({str(name)!r}) models it, if its figures are known; "
        "luminal-lab record makes a file to name here",
    )

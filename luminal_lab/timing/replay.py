"""Times from recordings: `ll.Recorded("h200")` answers for the kernels that were recorded.

A kernel is found by what it computes, its schedule, its dialect and the sizes of its dims. One that
has changed since is listed without a time, and with what differs.
"""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

from luminal_lab.devices.cuda.compiler import CUDACompiler
from luminal_lab.devices.facts.specifications import specification, this_cpu
from luminal_lab.devices.metal.compiler import MetalCompiler
from luminal_lab.errors import ArgumentError, RecordingError, UnknownNameError
from luminal_lab.kernels.launch import Launch
from luminal_lab.machines.figures import Specification
from luminal_lab.machines.machine import Machine
from luminal_lab.passes.compilation import Compilation
from luminal_lab.tensor.arguments import told_object
from luminal_lab.timing.column import Column, fused
from luminal_lab.timing.launches import Covering, KernelUse, LaunchTime
from luminal_lab.timing.measure import check_dims
from luminal_lab.timing.recording import AGAIN, Recording, key_of_kernel
from luminal_lab.timing.roofline import modelled
from luminal_lab.timing.subject import ComparedGraph

FOLDER = Path(__file__).parent / "recordings"
"""The recordings that come with the package."""
HOST = "no recording: NumPy computes it"


@told_object("recorded")
@dataclass(frozen=True, init=False, repr=False)
class Recorded:
    """A device that is not here: its times come from a recording, and nothing is run."""

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
        name, taken = recording.device, (tuple(parts), (), tuple(notes), limits)
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
                    "which is no machine that this version knows",
                    hint=AGAIN.format(device="cpu"),
                ) from error
            return fused(subject, machine)
        arch = str(target.get("arch") or "sm_80")
        is_cuda = self.recording.dialect == "cuda"
        device = CUDACompiler(arch=arch) if is_cuda else MetalCompiler()
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
    if not isinstance(name, (str, Path)):  # pyright: ignore[reportUnnecessaryIsInstance]  # a caller may err
        raise ArgumentError(
            f"recorded: {name!r} is no recording",
            hint="give the path of a file that luminal-lab record has written",
        )
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

"""What `luminal-lab record` runs, as a bundle (devices/cuda/bundle.py); and its record elsewhere.

    make(Path("bundle"), ["sm_90a"])     sources, and machine code if there is a compiler
    record(Path("bundle"))               on a machine with a card and its driver

There each case is a process of its own, since a kernel that faults or never ends takes the GPU's
context with it. Its line of JSON is told as it comes.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from time import perf_counter
from typing import Any, Final, NamedTuple, cast

import luminal_lab as ll
from luminal_lab.bench.record import (
    Outcome,
    RecordingDevice,
    RecordingTask,
    chosen_tasks,
    record_tasks,
)
from luminal_lab.devices.cuda.bundle import AGAIN, Bundle, BundleWriter, sizes
from luminal_lab.devices.cuda.calls import version_text
from luminal_lab.devices.cuda.compiler import CUDACompiler
from luminal_lab.devices.cuda.driver import driver_class, unless_present
from luminal_lab.devices.gpu.nvrtc import check_arch
from luminal_lab.errors import ArgumentError, DeviceError, LabError, RecordingError, nearest
from luminal_lab.progress import progress
from luminal_lab.reading import read_json
from luminal_lab.timing.recording import Recording

PATIENCE: Final = 300.0
"""The seconds that a case may take by default."""
LONGEST: Final = 600
"""The most letters that are told of what a process said before it ended."""
CARD: Final = (
    "nvidia-smi shows the card and its driver, if they are there; what works without a card: "
    "luminal-lab record --device cpu, and ll.compare"
)


class Made(NamedTuple):
    """A bundle that was made: how many programs and bytes it has, and what is missing."""

    bundle: Bundle
    programs: int
    bytes: int
    failed: list[str]


def make(
    folder: Path, archs: Sequence[str], only: Sequence[str] = (), *, is_quick: bool = False
) -> Made:
    """Write everything that is recorded as a bundle for some architectures."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        fault = f"bundle: {folder} is there, and is no empty folder"
        raise ArgumentError(fault, hint="give a new folder, or remove it first")
    writer = BundleWriter(folder)
    for arch in archs:
        CUDACompiler(arch=arch)
        if writer.cuda:
            check_arch(arch)
    tasks = chosen_tasks(only, is_quick=is_quick)
    names, failed = list[str](), list[str]()
    with progress("bundle", len(tasks) * len(archs), "program") as bar:
        for task in tasks:
            try:
                for arch in archs:
                    bar.now(f"{task.name}, {arch}")
                    for source in _sources(task, arch):
                        writer.add(source, arch)
                    bar.step()
            except LabError as error:
                failed.append(f"{task.name}: {error.message.splitlines()[0]}")
            else:
                names.append(task.name)
    if not names:
        raise DeviceError(f"bundle: nothing came about: {failed[0]}", hint="try fewer: --only")
    bundle = writer.close(ll.__version__, names, is_quick=is_quick)
    return Made(bundle, len(bundle.manifest.programs), sum(sizes(folder)), failed)


def _sources(task: RecordingTask, arch: str) -> Iterator[str]:
    for write in (task.small, task.write):
        if write is not None:
            program: Any = write().compiled(CUDACompiler(arch=arch, cublas=False)).runner
            yield program.source


# -- on the machine with the card ------------------------------------------------------------------


class Card(NamedTuple):
    """The card that is here, and the bundle's architecture for it."""

    name: str
    arch: str
    driver: str


def record(
    folder: Path,
    only: Sequence[str] = (),
    *,
    trusted: bool = False,
    rounds: int = 10,
    seconds: float = PATIENCE,
    told: Callable[[str], object] = lambda line: None,
) -> Outcome:
    """Run a bundle's programs on the card that is here, each in a process; tell lines of JSON."""
    bundle = Bundle.open(folder)
    names = _wanted(bundle, only)
    bundle.admit(trusted=trusted)
    card_of(bundle)
    parts, failed = list[Recording](), list[str]()
    with progress("record cuda", len(names), "program") as bar:
        for name in bar.each(names, str):
            line = _apart(bundle, name, rounds, seconds)
            bar.aside()
            told(json.dumps(line))
            if "recording" in line:
                parts.append(Recording.from_json(json.dumps(line["recording"])))
            else:
                failed.append(f"{name}: {line['failed']}")
    if not parts:
        raise DeviceError(
            f"record: none of {len(names)} programs could be recorded; the first: {failed[0]}",
            hint="the lines above say why, one for each program",
        )
    return Outcome(joined(parts), failed)


def _wanted(bundle: Bundle, only: Sequence[str]) -> list[str]:
    """Return the bundle's tasks that are asked for; parts of a table have its name and a number."""
    known, wanted = bundle.manifest.tasks, [name.strip() for name in only if name.strip()]
    names: list[str] = []
    for asked in wanted or known:
        found = [name for name in known if asked in (name, name.partition(" #")[0])]
        if not found:
            raise ArgumentError(
                f"record: the bundle has nothing called {asked!r}",
                hint=nearest(asked, known) or f"it has {', '.join(known[:8])}, …",
            )
        names += [name for name in found if name not in names]
    return names


def card_of(bundle: Bundle) -> Card:
    """Return the card that is here, or raise a DeviceError about why the bundle cannot run."""
    try:
        unless_present("driver")
        driver = driver_class("driver")()
        driver.find()
    except DeviceError as error:
        raise DeviceError(f"record: {error.message}", hint=CARD) from error
    bundle.check_driver(driver.version)
    arch = bundle.arch_for(driver.capability, driver.name)
    return Card(driver.name, arch, f"NVIDIA driver for CUDA {version_text(driver.version)}")


def _apart(bundle: Bundle, name: str, rounds: int, seconds: float) -> dict[str, Any]:
    """Record one program in a process of its own, and return the line about it."""
    given = str(bundle.folder.absolute()), name, bundle.foreign.digest, rounds
    code = (
        f"import sys; sys.path.insert(0, {str(Path(ll.__file__).parents[1])!r})\n"
        f"from luminal_lab.bench.bundled import main\nmain(*{given!r})"
    )
    start = perf_counter()

    def failure(why: str) -> dict[str, Any]:
        return {"name": name, "seconds": round(perf_counter() - start, 3), "failed": why}

    command = [sys.executable, "-P", "-c", code]
    try:
        done = subprocess.run(command, capture_output=True, timeout=seconds, check=False)
    except subprocess.TimeoutExpired:
        hint = "a kernel may never end; --seconds gives it more time"
        return failure(f"it gave no answer in {seconds:g} s, and was ended: {hint}")
    *_, last = done.stdout.decode("utf-8", "replace").splitlines() or [""]
    try:
        line = read_json(last, exact=True)
    except ValueError:
        return failure(f"its process ended {_ended(done.returncode)}: {_said(done.stderr)}")
    return {"name": name, "seconds": round(perf_counter() - start, 3), **cast("Any", line)}


def _ended(status: int) -> str:
    """Return how a process ended."""
    if status < 0:
        return f"by {signal.Signals(-status).name}"
    return f"with status {status}"


def _said(text: bytes) -> str:
    lines = text.decode("utf-8", "replace").strip().splitlines()
    return lines[-1][:LONGEST] if lines else "it said nothing"


def main(folder: str, name: str, digest: str, rounds: int) -> None:
    """Record one program of a bundle, and print a line of JSON about it.

    `digest` is of what the process that started this one trusts.
    """
    print(json.dumps(_answered(Path(folder), name, digest, rounds)), flush=True)


def _answered(folder: Path, name: str, digest: str, rounds: int) -> dict[str, Any]:
    try:
        bundle = Bundle.open(folder)
        bundle.admit(trusted=digest == bundle.foreign.digest)
        card = card_of(bundle)
        compiler = CUDACompiler(arch=card.arch, cublas=False, engine="driver", image=bundle.image)
        target = {"arch": card.arch}
        machine = RecordingDevice(
            compiler, card.name, card.driver, "cuda", target, driver_class("driver").clock
        )
        base = name.partition(" #")[0]
        tasks = chosen_tasks([base], is_quick=bundle.manifest.is_quick)
        task = next((task for task in tasks if task.name == name), None)
        if task is None:
            hint = AGAIN.format(arch=card.arch)
            raise RecordingError(f"this luminal_lab records no such program; {hint}")
        outcome = record_tasks(machine, [task], rounds)
    except LabError as error:
        return {"failed": _told(error)}
    if outcome.failed:
        return {"failed": outcome.failed[0].removeprefix(f"{name}: ")}
    return {"recording": json.loads(outcome.recording.to_json())}


def _told(error: LabError) -> str:
    first = error.message.splitlines()[0]
    return f"{first}; {error.hint}" if error.hint else first


def joined(parts: Sequence[Recording]) -> Recording:
    """Return recordings of one card as one, equal kernels together."""
    first = parts[0]
    kernels: dict[object, Any] = {}
    places: dict[object, int] = {}
    programs: list[Any] = []
    for part in parts:
        for kernel in part.kernels:
            key = part.key_of(kernel)
            before = kernels.get(key)
            places.setdefault(key, len(places))
            if before is not None:
                samples, cold = (*before.samples, *kernel.samples), (*before.cold, *kernel.cold)
                kernel = replace(kernel, samples=samples, cold=cold)  # both
            kernels[key] = kernel
        keys = [part.key_of(kernel) for kernel in part.kernels]
        for program in part.programs:
            launches = tuple(places[keys[place]] for place in program.launches)
            programs.append(replace(program, launches=launches))
    busy = max((part.busy for part in parts if part.busy is not None), default=None)
    return replace(first, kernels=tuple(kernels.values()), programs=tuple(programs), busy=busy)

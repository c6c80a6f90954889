"""`luminal-lab record`: the times of kernels on a device, in a file."""

from __future__ import annotations

import argparse
from math import inf
from pathlib import Path

from luminal_lab.bench.bundled import PATIENCE, record as record_bundle
from luminal_lab.bench.record import DEVICES, Outcome, names, record
from luminal_lab.cli.bench import STATUS, wrapped
from luminal_lab.cli.command import Command, OptionReader
from luminal_lab.cli.files import check_place
from luminal_lab.cli.saying import say
from luminal_lab.errors import ArgumentError

ABOUT = """\
Run the op table, small models and the benchmark's workloads on a device, compare them with NumPy's
interpreter (the workloads at their small sizes), and save the times of all kernels to a file, which
ll.Recorded("FILE") answers from. It needs the device: --device cuda an NVIDIA GPU and NVRTC or a
bundle, --device metal a Mac, --device webgpu an adapter of WebGPU, and --device xla JAX, for what
it runs on. Nothing is sent anywhere. With --bundle, which luminal-lab bundle writes, a driver is
enough: each program is a process of its own, and a line of JSON says what came of it. Its machine
code runs only if you trust it."""
EXAMPLES = """\
luminal-lab record --device cuda                 everything, to cuda.json
luminal-lab record --device cuda --bundle hopper   what a bundle brings, to cuda.json
luminal-lab record --device cpu --only softmax   one model, to cpu.json"""


def options(reader: OptionReader) -> None:
    """Declare the options."""
    reader.add_argument("--device", choices=DEVICES, required=True, help="what runs the kernels")
    reader.add_argument("-o", dest="file", metavar="FILE", type=Path, help="default: DEVICE.json")
    reader.add_argument(
        "--only",
        metavar="NAME",
        action="append",
        default=[],
        help="only this, or several with commas between; may be given again",
    )
    reader.add_argument("--quick", action="store_true", help="small sizes: does everything work?")
    reader.add_argument(
        "--threads", metavar="N", type=int, default=0, help="of the CPU; default: all"
    )
    reader.add_argument("--bundle", metavar="FOLDER", type=Path, help="kernels made elsewhere")
    reader.add_argument("--trust", action="store_true", help="run the bundle's code this once")
    reader.add_argument(
        "--seconds",
        metavar="N",
        type=float,
        default=PATIENCE,
        help=f"the most for a program of a bundle; default: {PATIENCE:g}",
    )


def run(given: argparse.Namespace) -> int:
    """Record the chosen programs, save them, and return the exit status."""
    path: Path = given.file or Path(f"{given.device}.json")
    if given.threads < 0:
        raise ArgumentError(f"record: threads is {given.threads}", hint="give 1 or more")
    check_place("record", path)
    only = ",".join(given.only).split(",")
    if given.bundle is None:
        outcome = record(
            given.device,
            only,
            is_quick=given.quick,
            threads=given.threads,
            told=lambda line: say(line, flush=True),
        )
    else:
        outcome = of_bundle(given, only)
    if outcome.recording.programs:
        outcome.recording.save(path)
        count = len(outcome.recording.kernels)
        say(f"saved {count} kernel{'s' * (count != 1)} to {path}")
        say(f'll.Recorded("{path}") answers from it')
    for text in outcome.failed:
        say(f"not recorded: {text}", error=True)
    return 1 if outcome.failed else 0


def of_bundle(given: argparse.Namespace, only: list[str]) -> Outcome:
    """Record what a bundle brings."""
    if given.device != "cuda" or given.quick or given.threads:
        raise ArgumentError(
            "record: a bundle is for --device cuda, and has its own sizes",
            hint="luminal-lab bundle --quick makes one of small sizes",
        )
    if not 0 < given.seconds < inf:
        raise ArgumentError(f"record: seconds is {given.seconds:g}", hint="give more than 0")
    return record_bundle(
        given.bundle,
        only,
        trusted=given.trust,
        seconds=given.seconds,
        told=lambda line: say(line, flush=True),
    )


COMMAND = Command(
    "record",
    ABOUT,
    EXAMPLES,
    options,
    run,
    STATUS,
    more=lambda: wrapped("what is recorded:", names()),
)

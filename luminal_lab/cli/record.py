"""`luminal-lab record`: the times of kernels on a device, in a file."""

from __future__ import annotations

import argparse
from pathlib import Path

from luminal_lab.bench.record import DEVICES, names, record
from luminal_lab.cli.bench import STATUS, wrapped
from luminal_lab.cli.command import Command, OptionReader
from luminal_lab.cli.files import check_place
from luminal_lab.cli.saying import say
from luminal_lab.errors import ArgumentError

ABOUT = """\
Run the op table, small models and the benchmark's workloads on a device, compare them with NumPy's
interpreter (the workloads at their small sizes), and save the times of all kernels to a file, which
ll.Recorded("FILE") answers from. It needs the device: --device cuda an NVIDIA GPU with CuPy,
--device metal a Mac, --device webgpu an adapter of WebGPU, and --device xla JAX, for what it runs
on. Nothing is sent anywhere."""
EXAMPLES = """\
luminal-lab record --device cuda                 everything, to cuda.json
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


def run(given: argparse.Namespace) -> int:
    """Record the chosen programs, save them, and return the exit status."""
    path: Path = given.file or Path(f"{given.device}.json")
    if given.threads < 0:
        raise ArgumentError(f"record: threads is {given.threads}", hint="give 1 or more")
    check_place("record", path)
    only = ",".join(given.only).split(",")
    outcome = record(
        given.device,
        only,
        is_quick=given.quick,
        threads=given.threads,
        told=lambda line: say(line, flush=True),
    )
    if outcome.recording.programs:
        outcome.recording.save(path)
        count = len(outcome.recording.kernels)
        say(f"saved {count} kernel{'s' * (count != 1)} to {path}")
        say(f'll.Recorded("{path}") answers from it')
    for text in outcome.failed:
        say(f"not recorded: {text}", error=True)
    return 1 if outcome.failed else 0


COMMAND = Command(
    "record",
    ABOUT,
    EXAMPLES,
    options,
    run,
    STATUS,
    more=lambda: wrapped("what is recorded:", names()),
)

"""The command line, `luminal-lab`: one subcommand for each thing that it does."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

import luminal_lab
from luminal_lab.bench.measure import Options, measure
from luminal_lab.bench.peers.known import PEERS, Known
from luminal_lab.bench.record import DEVICES, names, record
from luminal_lab.bench.rows import Report, Row, differences, read_report, slower
from luminal_lab.bench.table import WIDTH, extras, foot, head, line
from luminal_lab.bench.workload import Workload
from luminal_lab.bench.workloads import workloads
from luminal_lab.errors import ArgumentError, LabError, nearest

BENCH = """\
Measure luminal_lab beside NumPy, PyTorch, torch.compile, JAX, ONNX Runtime and tinygrad: the same
work on the same data with as many threads, results compared, in turns. Each row has the median of
three rounds, the ratio to the fastest library (above 1 where luminal_lab is faster), and the share
of what the machine's rates would allow. Libraries: pip install 'luminal-lab[bench]'."""
RECORD = """\
Run the op table, small models and the benchmark's workloads on a device, compare them with NumPy's
interpreter (the workloads at their small sizes), and save the times of all kernels to a file, which
ll.Recorded("FILE") answers from. It needs the device: --device cuda an NVIDIA GPU with CuPy, and
--device metal a Mac. Nothing is sent anywhere."""
COMMANDS = ("bench", "record")
CODES = """\
exit status: 0 if all went well, 1 if a row failed or results differ, 2 if a request is wrong"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command, and return its exit status."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    if words and not words[0].startswith("-") and words[0] not in COMMANDS:
        hint = nearest(words[0], COMMANDS) or "luminal-lab --help lists them"
        print(f"luminal-lab: there is no command {words[0]!r}\nhint: {hint}", file=sys.stderr)
        return 2
    given = parser().parse_args(words)
    if given.command is None:
        parser().print_help()
        return 0
    try:
        return bench(given) if given.command == "bench" else recorded(given)
    except LabError as error:
        print(error, file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        return 130


def parser() -> argparse.ArgumentParser:
    """Return what reads the command line."""
    whole = argparse.ArgumentParser(
        prog="luminal-lab", description="luminal_lab: a deep-learning compiler you can see through."
    )
    whole.add_argument(
        "--version", action="version", version=f"luminal_lab {luminal_lab.__version__}"
    )
    commands = whole.add_subparsers(dest="command", title="commands", metavar="command")
    one = commands.add_parser(
        "bench",
        help="measure it beside other libraries",
        description=BENCH,
        epilog=f"{wrapped('workloads:', (one.name for one in workloads()))}\n\n{CODES}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        usage="luminal-lab bench [--quick] [--only NAME] [--threads N] [--peers NAMES]\n"
        "                         [--json FILE] [--against FILE]",
    )
    one.add_argument(
        "--only",
        metavar="NAME",
        action="append",
        default=[],
        help="only this workload, or several with commas between; may be given again",
    )
    one.add_argument("--quick", action="store_true", help="small sizes: does it all work?")
    one.add_argument("--json", metavar="FILE", type=Path, help="save the rows there")
    one.add_argument(
        "--against", metavar="FILE", type=Path, help="say what became slower since that --json"
    )
    one.add_argument("--threads", metavar="N", type=int, default=0, help="default: all there are")
    one.add_argument(
        "--peers", metavar="NAMES", help="only these libraries, with commas between; or none"
    )
    one = commands.add_parser(
        "record",
        help="save the times of kernels on a device",
        description=RECORD,
        epilog=f"{wrapped('what is recorded:', names())}\n\n{CODES}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        usage="luminal-lab record --device cpu|cuda|metal [-o FILE] [--only NAME] [--quick]\n"
        "                          [--threads N]",
    )
    one.add_argument("--device", choices=DEVICES, required=True, help="what runs the kernels")
    one.add_argument("-o", dest="file", metavar="FILE", type=Path, help="default: DEVICE.json")
    one.add_argument(
        "--only",
        metavar="NAME",
        action="append",
        default=[],
        help="only this, or several with commas between; may be given again",
    )
    one.add_argument("--quick", action="store_true", help="small sizes: does it all work?")
    one.add_argument("--threads", metavar="N", type=int, default=0, help="of the CPU; default: all")
    return whole


def wrapped(text: str, words: Iterable[str]) -> str:
    """Return words under a title, wrapped."""
    row = ""
    for word in words:
        if len(row) + len(word) + 3 > WIDTH - 4:
            text, row = f"{text}\n {row}", ""
        row += f" {word}," if " " in word else f" {word}"
    return f"{text}\n {row}".rstrip(",")


def bench(given: argparse.Namespace) -> int:
    """Measure what was asked for, print the table, and return the exit status."""
    chosen = chosen_workloads(",".join(given.only), is_quick=given.quick)
    peers = PEERS if given.peers is None else chosen_peers(given.peers)
    if given.threads < 0:
        raise ArgumentError(f"bench: threads is {given.threads}", hint="give 1 or more")
    then = None if given.against is None else read_report(given.against)
    if given.json is not None and not given.json.absolute().parent.is_dir():
        raise ArgumentError(
            f"bench: {given.json} cannot be written: there is no folder {given.json.parent}",
            hint="make it first, or give another file",
        )
    is_shown = sys.stderr.isatty()

    def told(text: str) -> None:
        if is_shown:
            print(f"\r{text[: WIDTH - 1]:<{WIDTH - 1}}\r", end="", file=sys.stderr, flush=True)

    def done(report: Report, row: Row) -> None:
        told("")
        if len(report.rows) == 1:
            print(head(report))
        print(line(row), *extras(row), sep="\n", flush=True)

    report = measure(
        chosen,
        Options(given.threads, given.quick, peers=peers),
        luminal_lab.__version__,
        told,
        done,
    )
    print(foot(report))
    if then is not None and given.against is not None:
        print_changes(report, then, given.against)
    if given.json is not None:
        given.json.write_text(report.to_json(), encoding="utf-8")
    return 0 if report.is_good else 1


def recorded(given: argparse.Namespace) -> int:
    """Record what was asked for, save it, and return the exit status."""
    path: Path = given.file or Path(f"{given.device}.json")
    if given.threads < 0:
        raise ArgumentError(f"record: threads is {given.threads}", hint="give 1 or more")
    if not path.absolute().parent.is_dir():
        raise ArgumentError(
            f"record: {path} cannot be written: there is no folder {path.parent}",
            hint="make it first, or give another file",
        )
    only = ",".join(given.only).split(",")
    found = record(
        given.device,
        only,
        is_quick=given.quick,
        threads=given.threads,
        told=lambda line: print(line, flush=True),
    )
    if found.recording.programs:
        found.recording.save(path)
        count = len(found.recording.kernels)
        print(f"saved {count} kernel{'s' * (count != 1)} to {path}")
        print(f'll.Recorded("{path}") answers from it')
    for text in found.failed:
        print(f"not recorded: {text}", file=sys.stderr)
    return 1 if found.failed else 0


def print_changes(report: Report, then: Report, path: Path) -> None:
    """Say what became slower since another run."""
    for text in differences(report, then):
        print(f"note: {text}")
    found = slower(report, then)
    print(f"slower than in {path}:" if found else f"nothing is slower than in {path}")
    for text in found:
        print(f"  {text}")


def chosen_workloads(only: str, *, is_quick: bool) -> list[Workload]:
    """Return the workloads with the names given; all of them if none is."""
    known = {workload.name: workload for workload in workloads(is_quick)}
    names = [name.strip() for name in only.split(",") if name.strip()]
    for name in names:
        if name not in known:
            raise ArgumentError(
                f"bench: there is no workload {name!r}",
                hint=nearest(name, known) or "luminal-lab bench --help lists them",
            )
    return [workload for name, workload in known.items() if name in names or not names]


def chosen_peers(names: str) -> tuple[Known, ...]:
    """Return the libraries with the names given: theirs or their packages', in any case."""
    known: dict[str, Known] = {}
    for peer in PEERS:
        known.setdefault(_bare(peer.modules[0]), peer)
        known[_bare(peer.name)] = peer
    asked = {_bare(name): name.strip().lower() for name in names.split(",") if name.strip()}
    for bare, name in asked.items():
        if bare not in known and bare != "none":
            words = [*known, *(peer.name.lower() for peer in PEERS)]
            raise ArgumentError(
                f"bench: there is no library {name!r} to measure",
                hint=nearest(name, words) or f"they are {', '.join(p.name for p in PEERS)}",
            )
    found = [known[bare] for bare in asked if bare in known]
    return tuple(peer for peer in PEERS if peer in found)


def _bare(name: str) -> str:
    """Return a name as it is compared: "ONNX Runtime" is onnxruntime, and so is onnx-runtime."""
    return re.sub(r"[\s._-]", "", name.lower())


if __name__ == "__main__":
    sys.exit(main())

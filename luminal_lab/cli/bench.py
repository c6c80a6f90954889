"""`luminal-lab bench`: luminal_lab beside other libraries."""

from __future__ import annotations

import argparse
import math
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

import luminal_lab
from luminal_lab.bench.measure import Options, measure
from luminal_lab.bench.model_files import SHAPES
from luminal_lab.bench.model_workloads import model_workloads
from luminal_lab.bench.page import write_page
from luminal_lab.bench.paired import (
    Pair,
    PairedReport,
    compare,
    foot as paired_foot,
    head as paired_head,
    line as paired_line,
)
from luminal_lab.bench.peers.known import MODEL_PEERS, PEERS, Known
from luminal_lab.bench.rows import BenchRow, Report, differences, read_report, slower
from luminal_lab.bench.table import WIDTH, extras, foot, head, line
from luminal_lab.bench.workload import Workload
from luminal_lab.bench.workloads import workloads
from luminal_lab.cli.command import Command, OptionReader
from luminal_lab.cli.files import check_place
from luminal_lab.cli.saying import say
from luminal_lab.errors import ArgumentError, nearest
from luminal_lab.writing import write_bytes

ABOUT = """\
Measure luminal_lab beside NumPy, PyTorch, torch.compile, JAX, ONNX Runtime and tinygrad: the same
work on the same data with the same number of threads, in turns, comparing results. Each row has
the median of three rounds and the fastest run, ours and the fastest library's, the ratios of both
(above 1 where luminal_lab is faster), and the share of what the machine's rates allow.
Libraries: pip install 'luminal-lab[bench]'.

With --models the rows are prompts, steps and first tokens of a Llama from GGUF files with drawn
weights, in float32, bfloat16, float16, Q8_0 and Q4_K_M, beside llama.cpp, PyTorch, torch.compile
and ONNX Runtime."""
EXAMPLES = """\
luminal-lab bench --quick                     small sizes: does everything work?
luminal-lab bench --only matmul-1024,gelu     these two
luminal-lab bench --json today.json           keep the rows
luminal-lab bench --against today.json        what became slower since then?
luminal-lab bench --page docs/performance.md  write table and chart anew
luminal-lab bench --old HEAD~3                this checkout beside an old one, in pairs
luminal-lab bench --models --shape small      language models, of 0.1 billion weights
luminal-lab bench --models --only decode-128-q8_0 --peers llama.cpp"""
STATUS = """\
exit status: 0 if all went well, 1 if a row failed or results differ, 2 if a request is wrong"""


def options(reader: OptionReader) -> None:
    """Declare the options."""
    reader.add_argument(
        "--only",
        metavar="NAME",
        action="append",
        default=[],
        help="only this workload, or several with commas between; may be given again",
    )
    reader.add_argument("--models", action="store_true", help="language models from GGUF files")
    reader.add_argument(
        "--shape",
        choices=[name for name in SHAPES if name != "tiny"],
        help="the model: of 1.2 (default), 0.5 or 0.1 billion weights",
    )
    reader.add_argument(
        "--limit", metavar="SECONDS", type=float, help="begin no row after so many seconds"
    )
    reader.add_argument("--quick", action="store_true", help="small sizes: does everything work?")
    reader.add_argument("--json", metavar="FILE", type=Path, help="save the rows there")
    reader.add_argument(
        "--page",
        metavar="FILE",
        type=Path,
        help="write table and chart into this page; rows that are not run stay as they are there",
    )
    reader.add_argument(
        "--against", metavar="FILE", type=Path, help="say what became slower since that --json"
    )
    reader.add_argument(
        "--old",
        metavar="COMMIT",
        help="beside an old checkout of this repository, in pairs of turns",
    )
    reader.add_argument(
        "--threads", metavar="N", type=int, default=0, help="default: all there are"
    )
    reader.add_argument(
        "--peers", metavar="NAMES", help="only these libraries, with commas between; or none"
    )


def wrapped(text: str, words: Iterable[str]) -> str:
    """Return words under a title, wrapped."""
    row = ""
    for word in words:
        if len(row) + len(word) + 3 > WIDTH - 4:
            text, row = f"{text}\n {row}", ""
        row += f" {word}," if " " in word else f" {word}"
    return f"{text}\n {row}".rstrip(",")


def run(given: argparse.Namespace) -> int:
    """Measure the chosen rows, print the table, and return the exit status."""
    check_together(given)
    rows = model_workloads(given.shape or "1b", quick=given.quick) if given.models else None
    chosen = chosen_workloads(",".join(given.only), rows or workloads(given.quick))
    known = MODEL_PEERS if given.models else PEERS
    peers = known if given.peers is None else chosen_peers(given.peers, known)
    if given.threads < 0:
        raise ArgumentError(f"bench: threads is {given.threads}", hint="give 1 or more")
    if given.old is not None:
        return run_paired(given, chosen)
    then = None if given.against is None else read_report(given.against)
    for path in (given.json, given.page):
        if path is not None:
            check_place("bench", path)

    def done(report: Report, row: BenchRow) -> None:
        if len(report.rows) == 1:
            say(head(report))
        say(line(row), *extras(row), sep="\n", flush=True)

    report = measure(
        chosen,
        Options(
            given.threads,
            given.quick,
            peers=peers,
            limit=math.inf if given.limit is None else given.limit,
        ),
        luminal_lab.__version__,
        done,
    )
    say(foot(report))
    if then is not None and given.against is not None:
        print_changes(report, then, given.against)
    if given.json is not None:
        write_bytes("bench", given.json, report.to_json().encode())
    if given.page is not None:
        write_page(given.page, report)
    return 0 if report.is_good else 1


def check_together(given: argparse.Namespace) -> None:
    """Raise for options that do not go together."""
    if given.shape is not None and not given.models:
        raise ArgumentError("bench: --shape is given without --models", hint="give both")
    other = next((name for name in ("models", "quick", "old") if getattr(given, name)), None)
    if given.page is not None and other is not None:
        raise ArgumentError(
            f"bench: --page and --{other} are given, and the page has full runs beside libraries",
            hint=f"leave out --{other}",
        )


def run_paired(given: argparse.Namespace, chosen: list[Workload]) -> int:
    """Time an old checkout beside this one, print the table, and return the exit status."""
    for name, why in (
        ("peers", "has no other libraries"),
        ("against", "has no other libraries"),
        ("limit", "has no such limit"),
    ):
        if getattr(given, name) is not None:
            raise ArgumentError(
                f"bench: --old and --{name} are given, and --old {why}",
                hint=f"leave out --{name}",
            )
    if given.json is not None:
        check_place("bench", given.json)

    def done(report: PairedReport, row: Pair) -> None:
        if len(report.rows) == 1:
            say(paired_head(report))
        say(paired_line(row), *(f"  ! {text}" for text in row.failed), sep="\n", flush=True)

    report = compare(given.old, chosen, given.threads, is_quick=given.quick, done=done)
    say(*paired_foot(report), sep="\n")
    if given.json is not None:
        write_bytes("bench", given.json, report.to_json().encode())
    return 0 if report.is_good else 1


def print_changes(report: Report, then: Report, path: Path) -> None:
    """Say what became slower since another run."""
    for text in differences(report, then):
        say(f"note: {text}")
    slower_rows = slower(report, then)
    say(f"slower than in {path}:" if slower_rows else f"nothing is slower than in {path}")
    for text in slower_rows:
        say(f"  {text}")


def chosen_workloads(only: str, among: Iterable[Workload]) -> list[Workload]:
    """Return the workloads with the names given; all of them if none is."""
    known = {workload.name: workload for workload in among}
    names = [name.strip() for name in only.split(",") if name.strip()]
    for name in names:
        if name not in known:
            raise ArgumentError(
                f"bench: there is no workload {name!r}",
                hint=nearest(name, known) or "luminal-lab bench --help lists them",
            )
    return [workload for name, workload in known.items() if name in names or not names]


def chosen_peers(names: str, among: Sequence[Known]) -> tuple[Known, ...]:
    """Return the libraries with the names given: theirs or their packages', in any case."""
    known: dict[str, Known] = {}
    for peer in among:
        known.setdefault(_bare(peer.modules[0]), peer)
        known[_bare(peer.name)] = peer
    asked = {_bare(name): name.strip().lower() for name in names.split(",") if name.strip()}
    for bare, name in asked.items():
        if bare not in known and bare != "none":
            words = [*known, *(peer.name.lower() for peer in among)]
            raise ArgumentError(
                f"bench: there is no library {name!r} to measure",
                hint=nearest(name, words) or f"they are {', '.join(p.name for p in among)}",
            )
    chosen = [known[bare] for bare in asked if bare in known]
    return tuple(peer for peer in among if peer in chosen)


def _bare(name: str) -> str:
    """Return a name for comparison: "ONNX Runtime" and onnx-runtime become onnxruntime."""
    return re.sub(r"[\s._-]", "", name.lower())


COMMAND = Command(
    "bench",
    ABOUT,
    EXAMPLES,
    options,
    run,
    STATUS,
    more=lambda: "\n".join(
        [
            wrapped("workloads:", (workload.name for workload in workloads())),
            wrapped("with --models:", (workload.name for workload in model_workloads())),
        ]
    ),
)

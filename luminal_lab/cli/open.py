"""`luminal-lab open`: a recording or a model in the browser, without a notebook."""

from __future__ import annotations

import argparse
import json
import tempfile
import webbrowser
from pathlib import Path

import luminal_lab
from luminal_lab.cli.command import Command, OptionReader
from luminal_lab.cli.files import unpickled
from luminal_lab.cli.saying import say
from luminal_lab.cli.serving import Answering, Serving
from luminal_lab.errors import ArgumentError, TrustError
from luminal_lab.importing.detect import FileKind, supported
from luminal_lab.io.opened import Opened
from luminal_lab.opening import look_at
from luminal_lab.viz.live.alive import Live
from luminal_lab.viz.live.shown import recording_workbench

ABOUT = """\
Look at a recording, as cx.save("run.lab"), search.save("s.lab") or luminal-lab trace has written
it, or at somebody's model: an ONNX file, a .pt2 of torch.export, or weights in safetensors (a file,
an index, a folder). A model is compiled for this machine's CPU; weights alone are shown as the tree
that their names tell. The page is served to this machine alone, under an address that nobody else
knows, until Ctrl-C. Nothing in the file is run, unless you trust it."""
EXAMPLES = """\
luminal-lab open run.lab                  the workbench in the browser
luminal-lab open model.onnx               the same for a model, which is compiled first
luminal-lab open model.safetensors        the names, shapes and dtypes of weights
luminal-lab open model.pt2 --trust        a program of torch.export by somebody you know
luminal-lab open run.lab --no-browser     only say its address
luminal-lab open run.lab --text           say here what it holds: graphs, passes, what they did
luminal-lab open run.lab --json           the same in short, for a program"""
FORMAT = 1


def options(reader: OptionReader) -> None:
    """Declare the options."""
    reader.add_argument("file", metavar="FILE", type=Path, help="a recording, or a model")
    reader.add_argument(
        "--port", metavar="N", type=int, default=0, help="default: any that is free"
    )
    reader.add_argument(
        "--trust",
        action="store_true",
        help="let run what it brings along; PyTorch unpickles a .pt2",
    )
    reader.add_argument("--no-browser", action="store_true", help="open no browser")
    how = reader.add_mutually_exclusive_group()
    how.add_argument("--text", action="store_true", help="say what it holds, and end")
    how.add_argument("--json", action="store_true", help="the same in short, for a program")


def run(given: argparse.Namespace) -> int:
    """Show it."""
    if is_model(given.file):
        live = _of_model(given)
    else:
        recording = luminal_lab.open(given.file, trust=given.trust)
        if given.json:
            say(json.dumps(as_json(recording), indent=1, ensure_ascii=False))
            return 0
        say(recording)
        if given.text:
            for part in recording:
                say(f"\n{part.title}\n{part.search if part.facts.search else part.compilation}")
            return 0
        if recording.facts.search is not None:
            return _serve(page_of(recording), given)
        live = recording_workbench(recording)
    return 0 if live is None else _serve(live.served_page().encode(errors="replace"), given, live)


def _serve(page: bytes, given: argparse.Namespace, live: Answering | None = None) -> int:
    with Serving(page, given.port, live) as served:
        if served.note:
            say(served.note)
        say(f"{served.address}\nfor this machine alone; Ctrl-C ends it", flush=True)
        if not given.no_browser and not webbrowser.open(served.address):
            say("there is no browser here that could be opened: give one the address", flush=True)
        served.wait()
    return 0


def is_model(path: Path) -> bool:
    """Return whether a file is a model or weights; what reads recordings tells their faults."""
    return path.suffix != ".lab" and supported(path) is not FileKind.RECORDING


def _of_model(given: argparse.Namespace) -> Live | None:
    """Say what a model holds, and return its live picture if one is wanted."""
    if given.json:
        raise ArgumentError(
            f"open: --json is for recordings, and {given.file} is none",
            hint=f"luminal-lab models inspect {given.file} --json",
        )
    try:
        live = look_at(given.file, trust=given.trust)
    except TrustError as error:
        raise unpickled("open", given.file, error) from error
    say(live if given.text else repr(live))
    return None if given.text else live


def page_of(recording: Opened) -> bytes:
    """Return the page of a recording."""
    with tempfile.TemporaryDirectory(prefix="luminal_lab-") as folder:
        path = Path(folder, "page.html")
        recording.export(path)
        return path.read_bytes()


def as_json(recording: Opened) -> dict[str, object]:
    """Return a summary of a recording."""
    return {
        "format": FORMAT,
        "file": recording.name,
        "made": recording.contents.writer,
        "date": recording.date,
        "parts": [
            {
                "title": subject.title,
                "passes": subject.pipeline,
                "nodes": [len(subject.snapshots[0].ir), len(subject.snapshots[-1].ir)],
                "snapshots": len(subject.snapshots),
                "firings": sum(len(snapshot.firings) for snapshot in subject.snapshots),
                "kernels": [kernel.name for kernel in subject.facts.kernels],
                "launches": len(subject.facts.launches),
                "candidates": len(subject.facts.search.candidates) if subject.facts.search else 0,
                "times": [{"device": t.device, "how": t.how} for t in subject.facts.times],
            }
            for subject in recording.subjects
        ],
    }


COMMAND = Command("open", ABOUT, EXAMPLES, options, run)

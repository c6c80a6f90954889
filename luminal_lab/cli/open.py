"""`luminal-lab open`: a recording or a model in the browser, without a notebook."""

from __future__ import annotations

import argparse
import json
import tempfile
import webbrowser
from pathlib import Path
from typing import Protocol

import luminal_lab
from luminal_lab.cli.command import Command, OptionReader
from luminal_lab.cli.loading import VALUES_ALONE, session_of
from luminal_lab.cli.saying import say
from luminal_lab.cli.serving import Serving
from luminal_lab.errors import ArgumentError
from luminal_lab.importing.detect import FileKind, supported
from luminal_lab.importing.weights import read_weights
from luminal_lab.io.opened import Opened

ABOUT = """\
Look at a recording, as cx.save("run.lab"), search.save("s.lab") or luminal-lab trace has written
it, or at somebody's model: an ONNX file, a .pt2 of torch.export, or weights in safetensors (a file,
an index, a folder). A model is compiled for this machine's CPU; weights alone are shown as the tree
that their names tell. The page is served to this machine alone, under an address that nobody else
knows, until Ctrl-C. Nothing in the file is run."""
EXAMPLES = """\
luminal-lab open run.lab                  the workbench in the browser
luminal-lab open model.onnx               the same for a model, which is compiled first
luminal-lab open model.safetensors        the names, shapes and dtypes of weights
luminal-lab open run.lab --no-browser     only say its address
luminal-lab open run.lab --text           say here what it holds: graphs, passes, what they did
luminal-lab open run.lab --json           the same in short, for a program"""
FORMAT = 1


class Exporting(Protocol):
    """Anything with a page of its own."""

    def export(self, path: Path) -> object:
        """Write the page."""
        ...


def options(reader: OptionReader) -> None:
    """Declare the options."""
    reader.add_argument("file", metavar="FILE", type=Path, help="a recording, or a model")
    reader.add_argument(
        "--port", metavar="N", type=int, default=0, help="default: any that is free"
    )
    reader.add_argument("--no-browser", action="store_true", help="open no browser")
    how = reader.add_mutually_exclusive_group()
    how.add_argument("--text", action="store_true", help="say what it holds, and end")
    how.add_argument("--json", action="store_true", help="the same in short, for a program")


def run(given: argparse.Namespace) -> int:
    """Show it."""
    # What is no model is for the reader of recordings, who says best what is wrong with one.
    kind = kind_of_model(given.file)
    page = _of_recording(given) if kind is None else _of_model(given, kind)
    if page is None:
        return 0
    with Serving(page, given.port) as served:
        if served.note:
            say(served.note)
        say(f"{served.address}\nfor this machine alone; Ctrl-C ends it", flush=True)
        if not given.no_browser and not webbrowser.open(served.address):
            say("there is no browser here that could be opened: give one the address", flush=True)
        served.wait()
    return 0


def kind_of_model(path: Path) -> FileKind | None:
    """Return what a file is if a model, or weights, can be read from it; else None."""
    if not path.exists() or path.suffix == ".lab":
        return None
    kind = supported(path)
    return None if kind is FileKind.RECORDING else kind


def _of_recording(given: argparse.Namespace) -> bytes | None:
    """Say what a recording holds, and return its page if one is wanted."""
    recording = luminal_lab.open(given.file)
    if given.json:
        say(json.dumps(as_json(recording), indent=1, ensure_ascii=False))
        return None
    say(recording)
    if given.text:
        for part in recording:
            say(f"\n{part.title}\n{part.search if part.facts.search else part.compilation}")
        return None
    return page_of(recording)


def _of_model(given: argparse.Namespace, kind: FileKind) -> bytes | None:
    """Say what a model holds, and return its page if one is wanted."""
    if given.json:
        raise ArgumentError(
            f"open: --json is for recordings, and {given.file} is {kind.value}",
            hint=f"luminal-lab models inspect {given.file} --json",
        )
    cx = session_of(given.file, kind)
    if kind in VALUES_ALONE:
        if given.text:
            say(read_weights(given.file))
            return None
        return page_of(cx.explore())
    compilation = cx.compile(luminal_lab.GenericCompiler(), luminal_lab.CPUCompiler())
    say(compilation)
    return None if given.text else page_of(cx.workbench())


def page_of(shown: Exporting) -> bytes:
    """Return the page of a recording or of a live view."""
    with tempfile.TemporaryDirectory(prefix="luminal_lab-") as folder:
        path = Path(folder, "page.html")
        shown.export(path)
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

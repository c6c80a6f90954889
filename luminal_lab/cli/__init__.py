"""The command line, `luminal-lab`: a file for each command, loaded on demand.

0    all went well
1    it ran, but the result is bad: results differ, a script failed, a tool is missing
2    it could not do what was asked: a wrong word, a missing file, a text with an error
130  Ctrl-C stopped it
141  the reader of its output closed the pipe, as `| head` does
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Sequence
from importlib import import_module
from typing import cast

import luminal_lab
from luminal_lab.cli.command import PROGRAM, STATUS, Command, in_options, indented
from luminal_lab.cli.saying import say
from luminal_lab.core.origin import here
from luminal_lab.errors import Explained, LabError, LabWarning, nearest, visible
from luminal_lab.interrupts import terminable

GROUPS = {
    "learn": {
        "lab": "open the notebooks of the course",
        "course": "for teachers: prepare notebooks, grade a class",
        "doctor": "say what works on this machine, and how to fix the rest",
        "cache": "list or remove what is kept on disk to save time",
    },
    "look": {
        "trace": "run a script, and record every compile in it",
        "open": "look at a recording, or at a model, in the browser",
        "models": "say what a file of a model holds, and what of it is not here",
        "export": "write a recording as one self-contained page",
        "trust": "sign the kernels in a file",
    },
    "use": {
        "export-model": "write a model as C that runs without us",
        "serve": "serve a model to clients of other programs",
        "generate": "go on with a text, by a language model",
        "transcribe": "write down what is said in a sound",
    },
    "graphs as text": {
        "run": "run passes on a graph: text in, text out",
        "passes": "list the passes, and what each does",
        "conformance": "say whether a device computes what the interpreter does",
    },
    "speed": {
        "bench": "measure luminal_lab beside other libraries",
        "record": "save the times of kernels on a device",
        "bundle": "compile what is recorded for NVIDIA's cards that are elsewhere",
    },
}
COMMANDS = {name: does for group in GROUPS.values() for name, does in group.items()}
USAGE = f"usage: {PROGRAM} [-h] [--version] command ..."
EXAMPLES = """\
luminal-lab doctor                           does everything work here?
luminal-lab lab                              begin with the first notebook
luminal-lab trace train.py -o run.lab        record what a script compiles
luminal-lab open run.lab                     and look at it in the browser
luminal-lab run graph.ir --passes "cse, dce" | luminal-lab run - --passes generic"""
ELSEWHERE = {"inspect": "models inspect FILE", "chat": "generate MODEL PROMPT --chat"}
"""Words that one would take for commands, and what they are here."""
PIPE = 141
"""A shell's status for a program whose output pipe was closed: 128 + SIGPIPE."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command, and return its exit status."""
    if arguments is None:
        _prepare()
        with terminable():
            return _ended(sys.argv[1:])
    return _ended(list(arguments))


def _ended(words: list[str]) -> int:
    try:
        status = _run(words)
        if sys.stdout is not None:
            sys.stdout.flush()
    except KeyboardInterrupt as error:
        return _told(str(error) if isinstance(error, Explained) else "stopped", 130)
    except LabError as error:
        if error.where == str(here() or ""):  # whoever called this has written nothing
            error.where = None
        return _told(str(error), 2)
    except BrokenPipeError:
        _drop_output()
        return PIPE
    except OSError as error:
        why = error.strerror or type(error).__name__
        _drop_output()
        return _told(f"{PROGRAM}: {why}" + (f": {error.filename}" if error.filename else ""), 2)
    return status


def _run(words: list[str]) -> int:
    if not words or words[0] in ("-h", "--help"):
        say(text_of_help())
        return 0
    first, *rest = words
    if first == "--version":
        say(f"luminal_lab {luminal_lab.__version__}")
        return 0
    if first not in COMMANDS:
        problem = (
            f"it does not take {first!r}" if first[:1] == "-" else f"there is no command {first!r}"
        )
        near = nearest(first, [*COMMANDS, "--help", "--version"]) or f"{PROGRAM} --help lists them"
        hint = f"{PROGRAM} {ELSEWHERE[first]}" if first in ELSEWHERE else near
        return _told(f"{PROGRAM}: {problem}\nhint: {hint}", 2)
    command = cast("Command", import_module(f"{__name__}.{first.replace('-', '_')}").COMMAND)
    try:
        given = command.read(rest)
    except SystemExit as ended:  # argparse has shown the help
        return int(ended.code or 0)
    try:
        return command.run(given)
    except LabError as error:
        error.message = in_options(error.message, given.named)
        error.hint = in_options(error.hint or "", given.named) or None
        raise


def text_of_help() -> str:
    """Return the text of `luminal-lab --help`."""
    wide = max(map(len, COMMANDS)) + 2
    rows = [USAGE, "", "luminal_lab: a deep-learning compiler you can see through.", ""]
    for title, group in GROUPS.items():
        rows += [f"{title}:", *(f"  {name:{wide}}{does}" for name, does in group.items())]
    rows += [f"\nexamples:\n{indented(EXAMPLES)}", f"\n{PROGRAM} COMMAND --help says more.", ""]
    return "\n".join([*rows, STATUS])


def _told(text: str, status: int) -> int:
    say(text, error=True)
    return status


def _prepare() -> None:
    """Replace letters that the terminal lacks, and print notes in short form."""
    usual = warnings.formatwarning

    def written(
        message: Warning | str, kind: type[Warning], path: str, line: int, text: str | None = None
    ) -> str:
        # Without a user's line behind it, the line is the program's own.
        if issubclass(kind, LabWarning) and path in (sys.argv[0], __file__):
            return visible(f"note: {message}\n")
        return usual(message, kind, path, line, text)

    warnings.formatwarning = written
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="replace")


def _drop_output() -> None:
    """Drop buffered output, which Python would otherwise try to print at exit, and complain."""
    try:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
    except (OSError, ValueError, AttributeError):
        pass

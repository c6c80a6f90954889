"""Files that commands read and write."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from shlex import quote

from luminal_lab.errors import ArgumentError, TrustError, nearest

STDIN = Path("-")


def read_text(caller: str, path: Path) -> str:
    """Return the text of a file, or of standard input if its name is `-`."""
    data = sys.stdin.buffer.read() if path == STDIN else read_bytes(caller, path)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ArgumentError(
            f"{caller}: {path} is not text: byte {error.start:,}, in line {line}, is not UTF-8",
            hint="luminal-lab open looks at recordings" if path.suffix == ".lab" else None,
        ) from None


def read_bytes(caller: str, path: Path) -> bytes:
    """Return the bytes of a file."""
    try:
        return path.expanduser().read_bytes()
    except OSError as error:
        why, hint = (error.strerror or type(error).__name__).lower(), None
        if path.is_dir():
            why, hint = "it is a folder", "give a file in it"
        elif not path.exists():
            why = "there is no such file"
            beside = path.parent.iterdir() if path.parent.is_dir() else ()
            hint = (
                nearest(path.name, [file.name for file in beside], 0.75) or "give one that is there"
            )
        raise ArgumentError(f"{caller}: {path} cannot be read: {why}", hint=hint) from None


def refused(command: str, path: Path, error: TrustError) -> TrustError:
    """Return an error about untrusted code in a file, with its line and the next step.

    The hint repeats the command's own words.
    """
    lines = [] if path == STDIN else _lines_with(path, error)
    at = f", line {lines[0]}" if lines else ""
    name = "standard input" if path == STDIN else path
    error.message = f"{name}{at}: {error.message}"
    look = "" if path == STDIN else f"luminal-lab trust {quote(str(path))} --show prints it; "
    error.hint = f"{look}luminal-lab {command} --trust runs it once"
    return error


def unpickled(command: str, path: Path, error: TrustError) -> TrustError:
    """Return an error about a file that PyTorch would have to unpickle, with the next step."""
    name = quote(str(path))
    error.message, error.where = f"{path}: {error.message}", None
    error.hint = (
        f"if you know who wrote it: luminal-lab {command} {name} --trust opens it once, and "
        f"luminal-lab trust {name} signs it for good; ONNX files and weights in safetensors run "
        "nothing"
    )
    return error


def _lines_with(path: Path, error: TrustError) -> list[int]:
    """Return the lines of a text with the untrusted code of an error."""
    data = path.expanduser().read_bytes()
    names = [
        foreign.what.split()[1] for foreign in error.carried if foreign.what.startswith("kernel ")
    ]
    wanted = [f'header = "kernel {name}'.encode() for name in names]
    lines = enumerate(data.split(b"\n"), 1)
    return [number for number, line in lines if any(header in line for header in wanted)]


def check_place(caller: str, path: Path) -> None:
    """Raise if a file could not be written, before any long work begins."""
    folder, why = path.expanduser().absolute().parent, ""
    if path.is_dir():
        why = "it is a folder"
    elif path.exists() and not path.is_file():
        why = "it is not a plain file"
    elif not folder.is_dir():
        why = f"there is no folder {path.parent}"
    elif not os.access(path if path.exists() else folder, os.W_OK):
        why = "nobody may write there" if path.exists() else f"nobody may write to {path.parent}"
    if why:
        raise ArgumentError(
            f"{caller}: {path} cannot be written: {why}",
            hint="make it first, or give another file"
            if not folder.is_dir()
            else "give another file",
        )

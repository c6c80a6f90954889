"""Files that are written as a whole or not at all."""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from pathlib import Path

from luminal_lab.errors import ArgumentError, RecordingError, nearest
from luminal_lab.interrupts import held


def as_path(subject: str, like: object, example: str = "run.lab") -> Path:
    """Return a user's argument as a path."""
    if isinstance(like, (str, Path)) and str(like) and _is_encoded(str(like)):
        path = Path(like)
        with suppress(RuntimeError):  # there is no such user
            path = path.expanduser()
        return path
    raise ArgumentError(f"{subject}: {like!r} is not the name of a file", hint=f'as in "{example}"')


def _is_encoded(name: str) -> bool:
    """Return whether a system has bytes for a name: without half a letter, or a 0."""
    try:
        return b"\0" not in os.fsencode(name)
    except UnicodeEncodeError:
        return False


def write_bytes(subject: str, path: str | Path, data: bytes) -> None:
    """Write a file; the old one stays until the new one is complete."""
    target = as_path(subject, path)
    try:
        # The target of a link is written, and the link stays.
        target = Path(os.path.realpath(target))  # which needs the current folder
        draft = target.with_name(f".{target.name[:100]}.{secrets.token_hex(4)}.tmp")
        _check(target)
        with held():
            try:
                draft.write_bytes(data)
                draft.replace(target)
            except BaseException:
                with suppress(OSError):
                    draft.unlink(missing_ok=True)
                raise
    except OSError as error:
        hint = "give a file in a folder that is there and may be written to"
        reason = error.strerror or str(error)
        if _is_folder(target):
            reason, hint = "it is a folder", f'name a file in it, as in "{path}/run.lab"'
        elif not _is_folder(target.parent):
            reason = f"there is no folder {target.parent.name!r}"
        raise RecordingError(f"{subject}: {path} cannot be written: {reason}", hint=hint) from error


def read_bytes(subject: str, path: str | Path) -> bytes:
    """Return the bytes of a file."""
    target = as_path(subject, path)
    try:
        _check(target)
        return target.read_bytes()
    except OSError as error:
        reason, hint = error.strerror or str(error), "give a file that save(...) has written"
        cause: OSError | None = None  # the reasons below leave nothing for a traceback to tell
        if _is_folder(target):
            reason = "it is a folder"
        elif not os.path.lexists(target):
            reason = "there is no such file"
            hint = nearest(target.name, _beside(target), 0.75) or hint
        else:
            cause = error
        raise RecordingError(f"{subject}: {path} cannot be read: {reason}", hint=hint) from cause


def _check(target: Path) -> None:
    """Raise if it is a device or a pipe: some never end, and a file would replace them."""
    if target.exists() and not (target.is_file() or target.is_dir()):
        raise OSError("it is not a plain file")


def _is_folder(path: Path) -> bool:
    return os.path.isdir(path)  # noqa: PTH112  # pathlib's raises where a name is too long


def _beside(target: Path) -> list[str]:
    folder = target.parent
    return [file.name for file in folder.glob("*.lab")] if _is_folder(folder) else []

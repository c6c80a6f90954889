"""Files that are there as a whole or not at all."""

from __future__ import annotations

import secrets
from pathlib import Path

from luminal_lab.errors import ArgumentError, RecordingError, nearest


def as_path(what: str, like: object) -> Path:
    """Return a path that somebody gave."""
    if isinstance(like, (str, Path)) and str(like):
        return Path(like).expanduser()
    raise ArgumentError(f"{what}: {like!r} is no name of a file", hint='as in "run.lab"')


def write_bytes(what: str, path: str | Path, data: bytes) -> None:
    """Write a file; until all of it is on the disk, what was there before stays."""
    # What a link points to is written, and the link stays.
    target = as_path(what, path).resolve()
    draft = target.with_name(f".{target.name}.{secrets.token_hex(4)}.tmp")
    try:
        with draft.open("xb") as stream:
            stream.write(data)
        draft.replace(target)
    except BaseException as error:
        draft.unlink(missing_ok=True)
        if not isinstance(error, OSError):
            raise
        hint = "give a file in a folder that is there and may be written to"
        reason = error.strerror or str(error)
        if target.is_dir():
            reason, hint = "it is a folder", f'name a file in it, as in "{path}/run.lab"'
        elif not target.parent.is_dir():
            reason = f"there is no folder {target.parent.name!r}"
        raise RecordingError(f"{what}: {path} cannot be written: {reason}", hint=hint) from error


def read_bytes(what: str, path: str | Path) -> bytes:
    """Return all that a file holds."""
    target = as_path(what, path)
    try:
        return target.read_bytes()
    except OSError as error:
        reason, hint = error.strerror or str(error), "give a file that save(...) has written"
        if target.is_dir():
            reason = "it is a folder"
        elif not target.exists():
            reason = "there is no such file"
            hint = nearest(target.name, _beside(target)) or hint
        raise RecordingError(f"{what}: {path} cannot be read: {reason}", hint=hint) from error


def _beside(target: Path) -> list[str]:
    folder = target.parent
    return [one.name for one in folder.glob("*.lab")] if folder.is_dir() else []

"""The progress of exercises, in a file of the user's outside notebooks.

    ~/.local/share/luminal_lab/course/      on Windows AppData/Local/…, on macOS Library/…
        progress.json                       {"format": 1, "exercises": {"04.2": {"right": true, …}}}
        progress.damaged-1.json             one that could not be read, set aside

A new file is written beside it and replaces it as a whole. Where nothing can be written, progress
is kept in memory, with a note.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import cast

from luminal_lab.reading import read_json, read_plain

FORMAT = 1
NAME = "progress.json"
LARGEST = 1 << 24
"""The most bytes of the file."""


@dataclass(frozen=True, slots=True)
class ExerciseRecord:
    """The progress of one exercise."""

    right: bool = False
    tries: int = 0
    """The answers checked until one was right."""
    hints: int = 0
    """The hints shown."""
    looked: bool = False
    """Whether the solution was looked at before an answer was right."""

    def with_other(self, other: ExerciseRecord) -> ExerciseRecord:
        """Return the further of two records, field by field."""
        return ExerciseRecord(
            self.right or other.right,
            max(self.tries, other.tries),
            max(self.hints, other.hints),
            self.looked or other.looked,
        )


def data_folder() -> Path | None:
    """Return this platform's folder for user data; None for a user without a home."""
    parts = {"win32": "AppData/Local", "darwin": "Library/Application Support"}
    try:
        home = Path.home()
    except RuntimeError:
        return None
    return home / parts.get(sys.platform, ".local/share") / "luminal_lab" / "course"


@dataclass(slots=True)
class ProgressFile:
    """The progress of one user: the file's contents, and the news of this process."""

    folder: Path | None
    entries: dict[str, ExerciseRecord] = field(default_factory=dict[str, ExerciseRecord])
    notes: list[str] = field(default_factory=list[str])
    """Notes about the file that were not shown yet."""
    _said: set[str] = field(default_factory=set[str])

    def entry(self, id: str) -> ExerciseRecord:
        """Return the progress of an exercise."""
        self.read()
        return self.entries.get(id, ExerciseRecord())

    def change(self, id: str, change: Callable[[ExerciseRecord], ExerciseRecord]) -> ExerciseRecord:
        """Change the progress of an exercise, and save it."""
        before = self.entry(id)
        after = change(before)
        if after != before:
            self.entries[id] = after
            self._write()
        return after

    def read(self) -> None:
        """Merge in the file, which another kernel may have changed."""
        if self.folder is None:
            self._note("there is no home folder, so progress is kept until this kernel ends")
            return
        path = self.folder / NAME
        try:
            text = read_plain(path, LARGEST).decode("utf-8")
        except FileNotFoundError:
            return
        except (OSError, UnicodeDecodeError) as error:
            if isinstance(error, UnicodeDecodeError):
                self._set_aside(path)
            else:
                self._note(f"{path} cannot be read ({_why(error)})")
            return
        try:
            entries = _parsed(text)
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            self._set_aside(path)
            return
        if entries is None:
            self._note(f"{path} is of a newer luminal_lab; it is left as it is, and not added to")
            self.folder = None
            return
        for id, entry in entries.items():
            self.entries[id] = entry.with_other(self.entries.get(id, ExerciseRecord()))

    def take_notes(self) -> tuple[str, ...]:
        """Return the pending notes about the file, once."""
        notes = tuple(self.notes)
        self.notes.clear()
        return notes

    def _write(self) -> None:
        if self.folder is None:
            return
        known = {id: asdict(entry) for id, entry in sorted(self.entries.items())}
        text = json.dumps({"format": FORMAT, "exercises": known}, indent=1)
        draft = ""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            number, draft = tempfile.mkstemp(".tmp", NAME, self.folder)
            with open(number, "w", encoding="utf-8") as file:  # noqa: PTH123  # it is open already
                file.write(text + "\n")
                file.flush()
                os.fsync(file.fileno())
            Path(draft).replace(self.folder / NAME)
        except OSError as error:
            if draft:
                with suppress(OSError):
                    Path(draft).unlink()
            self._note(
                f"progress is kept until this kernel ends: {self.folder} cannot be written to "
                f"({_why(error)})"
            )

    def _set_aside(self, path: Path) -> None:
        """Rename a damaged file to an unused name."""
        for number in range(1, 1000):
            aside = path.with_name(f"{path.stem}.damaged-{number}.json")
            if not aside.exists():
                break
        else:
            aside = path.with_name(f"{path.stem}.damaged.json")
        try:
            path.replace(aside)
        except OSError as error:
            self._note(f"{path} is damaged, and could not be set aside ({_why(error)})")
            return
        self._note(f"{path} was damaged: it is now {aside.name}, and a new one is begun")

    def _note(self, text: str) -> None:
        if text not in self._said:
            self._said.add(text)
            self.notes.append(text)


def _parsed(text: str) -> dict[str, ExerciseRecord] | None:
    """Return a file's entries; None for a newer version, an error for a damaged file."""
    whole = cast("dict[str, object]", read_json(text))
    number = whole["format"]
    if not isinstance(number, int):
        raise TypeError
    if number > FORMAT:
        return None
    entries: dict[str, ExerciseRecord] = {}
    for id, raw in cast("dict[str, dict[str, object]]", whole["exercises"]).items():
        entry = ExerciseRecord()
        for field_ in fields(ExerciseRecord):
            value = raw.get(field_.name, getattr(entry, field_.name))
            if type(value) is not type(getattr(entry, field_.name)):
                raise TypeError
            entry = replace(entry, **{field_.name: value})
        entries[id] = entry
    return entries


def _why(error: OSError) -> str:
    return (error.strerror or type(error).__name__).lower()

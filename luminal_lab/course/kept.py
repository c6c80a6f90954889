"""What was tried and solved, in a file of the user's that no notebook has.

    ~/.local/share/luminal_lab/course/      on Windows AppData/Local/…, on macOS Library/…
        progress.json                       {"format": 1, "exercises": {"04.2": {"right": true, …}}}
        progress.damaged-1.json             one that could not be read, set aside

A file is written beside it and takes its place as a whole. Where nothing can be written it is kept
in memory, and said.
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
"""Bytes of the file."""


@dataclass(frozen=True, slots=True)
class Entry:
    """What is known of one exercise."""

    right: bool = False
    tries: int = 0
    """How many answers were checked until one was right."""
    hints: int = 0
    """How many hints were shown."""
    looked: bool = False
    """Whether the solution was looked at before an answer was right."""

    def with_other(self, other: Entry) -> Entry:
        """Return what is known from two places: whatever is further."""
        return Entry(
            self.right or other.right,
            max(self.tries, other.tries),
            max(self.hints, other.hints),
            self.looked or other.looked,
        )


def data_folder() -> Path | None:
    """Return where this platform has a user keep a program's data; None for who has no home."""
    parts = {"win32": "AppData/Local", "darwin": "Library/Application Support"}
    try:
        home = Path.home()
    except RuntimeError:
        return None
    return home / parts.get(sys.platform, ".local/share") / "luminal_lab" / "course"


@dataclass(slots=True)
class Kept:
    """The progress of one user: what is in the file, and what came in this process."""

    folder: Path | None
    entries: dict[str, Entry] = field(default_factory=dict[str, Entry])
    notes: list[str] = field(default_factory=list[str])
    """Sentences about the file that were not shown yet."""
    _said: set[str] = field(default_factory=set[str])

    def entry(self, id: str) -> Entry:
        """Return what is known of an exercise."""
        self.read()
        return self.entries.get(id, Entry())

    def change(self, id: str, change: Callable[[Entry], Entry]) -> Entry:
        """Change what is known of an exercise, and keep it."""
        before = self.entry(id)
        after = change(before)
        if after != before:
            self.entries[id] = after
            self._write()
        return after

    def read(self) -> None:
        """Take in what the file has, which another kernel may have written to."""
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
            found = _parsed(text)
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            self._set_aside(path)
            return
        if found is None:
            self._note(f"{path} is of a newer luminal_lab; it is left as it is, and not added to")
            self.folder = None
            return
        for id, one in found.items():
            self.entries[id] = one.with_other(self.entries.get(id, Entry()))

    def take_notes(self) -> tuple[str, ...]:
        """Return what is to be said about the file, once."""
        notes = tuple(self.notes)
        self.notes.clear()
        return notes

    def _write(self) -> None:
        if self.folder is None:
            return
        known = {id: asdict(one) for id, one in sorted(self.entries.items())}
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
        """Give a damaged file another name, that no file has."""
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


def _parsed(text: str) -> dict[str, Entry] | None:
    """Return what a file says; None for one of a newer version, and an error for a damaged one."""
    whole = cast("dict[str, object]", read_json(text))
    number = whole["format"]
    if not isinstance(number, int):
        raise TypeError
    if number > FORMAT:
        return None
    found: dict[str, Entry] = {}
    for id, one in cast("dict[str, dict[str, object]]", whole["exercises"]).items():
        entry = Entry()
        for what in fields(Entry):
            value = one.get(what.name, getattr(entry, what.name))
            if type(value) is not type(getattr(entry, what.name)):
                raise TypeError
            entry = replace(entry, **{what.name: value})
        found[id] = entry
    return found


def _why(error: OSError) -> str:
    return (error.strerror or type(error).__name__).lower()

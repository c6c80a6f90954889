"""The origin of a node: the user's file or notebook cell, the line, and its text.

The user's line is the innermost frame outside this package. A frame's (code, instruction) pair
is looked up once and then kept in a dict, so that a query costs well under a microsecond.
"""

import contextlib
import linecache
import os
import sys
import warnings
from collections.abc import Callable
from functools import cache
from types import CodeType, FrameType
from typing import Any, NamedTuple
from weakref import WeakMethod

from luminal_lab.errors import LabWarning, visible


class Origin(NamedTuple):
    """A user's line: in a file, or in a notebook cell such as "cell 3"."""

    file: str
    line: int
    text: str

    def __str__(self) -> str:
        file = self.file if self.file.startswith("cell ") else f'"{self.file}"'
        return visible(f"{file}, line {self.line}" + (f":  {self.text}" if self.text else ""))


_KNOWN: dict[tuple[int, int], tuple[Origin, CodeType]] = {}
"""Origins by code and instruction; holding the code keeps its id unique."""
_LIMIT = 100_000
_RAN: set[str] = set()
"""The user's files and cells whose lines were looked up, under the names that origins have."""


def here(skip: int = 0) -> Origin | None:
    """Return the user's current line, or None if there is none.

    The nearest `skip` callers are known to be ours.
    """
    try:
        frame: FrameType | None = sys._getframe(1 + skip)  # pyright: ignore[reportPrivateUsage]  # inspect's is slow
    except ValueError:  # called from C code without a Python caller
        return None
    while frame is not None:
        code = frame.f_code
        file = code.co_filename
        if not is_ours(file):
            known = _KNOWN.get((id(code), frame.f_lasti))
            return known[0] if known is not None else _look_up(frame)
        frame = frame.f_back
    return None


def warn(text: str) -> None:
    """Issue a warning at the user's current line."""
    frame: FrameType | None = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]  # inspect's is slow
    level = 2
    while frame is not None and is_ours(frame.f_code.co_filename):
        frame, level = frame.f_back, level + 1
    warnings.warn(text, LabWarning, stacklevel=level)


@cache
def is_ours(file: str) -> bool:
    """Return whether a file is one of this package's."""
    folder = os.path.dirname(os.path.dirname(here.__code__.co_filename)) + os.sep  # noqa: PTH120  # pathlib is slow to import
    # contextlib runs our context managers' code.
    return file.startswith(folder) or file == contextlib.__file__


def has_run(file: str) -> bool:
    """Return whether a line of this file or cell was an origin in this process.

    An origin that a text or recording brings along may name any path, which nobody may read for it.
    """
    return file in _RAN


def _look_up(frame: FrameType) -> Origin:
    if len(_KNOWN) > _LIMIT:  # a process that compiles cells for ever
        _KNOWN.clear()
    origin = line_at(frame.f_code.co_filename, frame.f_lineno, frame.f_globals)
    _KNOWN[id(frame.f_code), frame.f_lasti] = origin, frame.f_code
    return origin


def line_at(file: str, line: int, names: dict[str, Any] | None = None) -> Origin:
    """Return a line of a file or cell that ran in this process; its globals may load its text."""
    text = linecache.getline(file, line, names).strip()
    cell = shell.cell_number(file) if (shell := running_shell()) is not None else None
    origin = Origin(file if cell is None else f"cell {cell}", line, text)
    _RAN.add(origin.file)
    return origin


class Shell:
    """The part of IPython that this package uses."""

    def __init__(self, shell: Any) -> None:  # noqa: ANN401  # an object of IPython's
        self._shell = shell

    def cell_number(self, path: str) -> int | None:
        """Return the number of the cell that was compiled under this file name, if one was."""
        return getattr(self._shell.compile, "_filename_map", {}).get(path)

    def before_each_cell(self, call: Callable[[str], None]) -> None:
        """Run `call` before each cell, as long as its owner lives.

        Its argument identifies the cell across runs: the id in the notebook, or the
        text where cells have no ids.
        """
        owner, events = WeakMethod(call), self._shell.events

        def begin(info: Any) -> None:  # noqa: ANN401  # an object of IPython's
            method = owner()
            if method is None:
                events.unregister("pre_run_cell", begin)
            else:
                method(str(getattr(info, "cell_id", None) or info.raw_cell))

        events.register("pre_run_cell", begin)


def running_shell() -> Shell | None:
    """Return IPython's shell if the user's code runs in it; never import IPython for this."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return None if shell is None else Shell(shell)

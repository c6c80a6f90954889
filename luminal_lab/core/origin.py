"""Where a node comes from: the user's file or notebook cell, the line, and its text.

The user's line is the innermost frame outside this package. A frame's (code, instruction) pair
is looked up once and then found in a dict, so that asking for it costs well under a microsecond.
"""

import contextlib
import linecache
import os
import sys
import warnings
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any, NamedTuple
from weakref import WeakMethod

from typing_extensions import override

from luminal_lab.errors import LabWarning, visible


class Origin(NamedTuple):
    """A line of the user's: a file's, or a notebook cell's such as "cell 3"."""

    file: str
    line: int
    text: str

    @override
    def __str__(self) -> str:
        place = self.file if self.file.startswith("cell ") else f'"{self.file}"'
        return visible(f"{place}, line {self.line}" + (f":  {self.text}" if self.text else ""))


_OURS: dict[str, bool] = {}
"""Whether a file is one of this package's."""
_KNOWN: dict[tuple[int, int], tuple[Origin, CodeType]] = {}
"""Origins by code and instruction; the code is held, so that its id stays its own."""
_LIMIT = 100_000
_RAN: set[str] = set()
"""The user's files and cells whose lines were looked up, under the names that origins have."""


def here(skip: int = 0) -> Origin | None:
    """Return the line of the user's that is being run, or None outside any.

    So many of the callers, from the nearest on, are known to be none of the user's.
    """
    try:
        frame: FrameType | None = sys._getframe(1 + skip)  # pyright: ignore[reportPrivateUsage]  # inspect's is slow
    except ValueError:  # C code called us, and nobody called it
        return None
    while frame is not None:
        code = frame.f_code
        file = code.co_filename
        if not (_OURS[file] if file in _OURS else is_ours(file)):
            known = _KNOWN.get((id(code), frame.f_lasti))
            return known[0] if known is not None else _look_up(frame)
        frame = frame.f_back
    return None


def warn(text: str) -> None:
    """Warn of something, at the line of the user's that is being run."""
    frame: FrameType | None = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]  # inspect's is slow
    level = 2
    while frame is not None and is_ours(frame.f_code.co_filename):
        frame, level = frame.f_back, level + 1
    warnings.warn(text, LabWarning, stacklevel=level)


def is_ours(file: str) -> bool:
    """Return whether a file is one of this package's."""
    folder = os.path.dirname(os.path.dirname(here.__code__.co_filename)) + os.sep  # noqa: PTH120  # pathlib is slow to import
    # contextlib runs our context managers' code.
    return _OURS.setdefault(file, file.startswith(folder) or file == contextlib.__file__)


def has_run(file: str) -> bool:
    """Return whether a line of this file or cell was an origin in this process.

    An origin that a text or recording brings along may name any path, which nobody may read for it.
    """
    return file in _RAN


def _look_up(frame: FrameType) -> Origin:
    if len(_KNOWN) > _LIMIT:  # a process that compiles cells for ever
        _KNOWN.clear()
    code, line = frame.f_code, frame.f_lineno
    text = linecache.getline(code.co_filename, line, frame.f_globals).strip()
    shell = running_shell()
    cell = shell.cell_number(code.co_filename) if shell is not None else None
    origin = Origin(code.co_filename if cell is None else f"cell {cell}", line, text)
    _KNOWN[id(code), frame.f_lasti] = origin, code
    _RAN.add(origin.file)
    return origin


class Shell:
    """What this package asks of IPython, if the user's code runs in it."""

    def __init__(self, shell: Any) -> None:  # noqa: ANN401  # an object of IPython's
        self._shell = shell

    def cell_number(self, path: str) -> int | None:
        """Return the number of the cell that was compiled under this file name, if one was."""
        return getattr(self._shell.compile, "_filename_map", {}).get(path)

    def before_each_cell(self, call: Callable[[str], None]) -> None:
        """Have `call` run before each cell, for as long as its owner lives.

        It is given what stays the same when the cell is run again: its id in the notebook, or its
        text where there are no ids.
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
    """Return IPython's shell if the user's code runs in one; IPython is never imported for it."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return None if shell is None else Shell(shell)

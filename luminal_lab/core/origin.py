"""Where a node comes from: the user's file or notebook cell, the line, and its text.

The user's line is the innermost frame outside this package. A frame's (code, instruction) pair
is looked up once and then found in a dict, so that asking for it costs well under a microsecond.
"""

import linecache
import sys
from collections.abc import Callable
from types import CodeType, FrameType
from typing import NamedTuple
from weakref import WeakMethod

from typing_extensions import override

PACKAGE = __name__.partition(".")[0]


class Origin(NamedTuple):
    """A line of the user's: a file's, or a notebook cell's such as "cell 3"."""

    file: str
    line: int
    text: str

    @override
    def __str__(self) -> str:
        place = self.file if self.file.startswith("cell ") else f'"{self.file}"'
        return f"{place}, line {self.line}" + (f":  {self.text}" if self.text else "")


_OURS: dict[CodeType, bool] = {}
_KNOWN: dict[tuple[CodeType, int], Origin] = {}
_LIMIT = 100_000


def here() -> Origin | None:
    """Return the line of the user's that is being run, or None outside any."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        ours = _OURS.get(code)
        if ours is None:
            module: str = frame.f_globals.get("__name__", "")
            ours = module == PACKAGE or module.startswith(PACKAGE + ".")
            _OURS[code] = ours
        if not ours:
            key = (code, frame.f_lasti)
            return _KNOWN.get(key) or _look_up(key, frame)
        frame = frame.f_back
    return None


def _look_up(key: tuple[CodeType, int], frame: FrameType) -> Origin:
    if len(_KNOWN) > _LIMIT:  # a process that compiles cells for ever
        _KNOWN.clear()
        _OURS.clear()
    code, line = frame.f_code, frame.f_lineno
    text = linecache.getline(code.co_filename, line, frame.f_globals).strip()
    origin = Origin(_file_name(code.co_filename), line, text)
    _KNOWN[key] = origin
    return origin


def _file_name(path: str) -> str:
    shell = running_shell()
    if shell is not None:
        number = shell.cell_number(path)
        if number is not None:
            return f"cell {number}"
    return path


class Shell:
    """What this package asks of IPython, if the user's code runs in it."""

    def __init__(self, shell: object) -> None:
        self._shell = shell

    def cell_number(self, path: str) -> int | None:
        """Return the number of the cell that was compiled under this file name, if one was."""
        compiler = getattr(self._shell, "compile", None)
        numbers: dict[str, int] = getattr(compiler, "_filename_map", {})
        return numbers.get(path)

    def cell_key(self) -> str:
        """Return what stays the same when the present cell is run again."""
        parent = getattr(self._shell, "get_parent", dict)()
        identity = parent.get("metadata", {}).get("cellId") if parent else None
        history = getattr(getattr(self._shell, "history_manager", None), "input_hist_raw", [""])
        return str(identity or history[-1])

    def before_each_cell(self, call: Callable[[], None]) -> None:
        """Have `call` run whenever a cell begins, for as long as its owner lives."""
        owner = WeakMethod(call)
        events = self._shell.events  # pyright: ignore[reportAttributeAccessIssue]  # an object of IPython's

        def begin(_info: object) -> None:
            method = owner()
            if method is None:
                events.unregister("pre_run_cell", begin)
            else:
                method()

        events.register("pre_run_cell", begin)


def running_shell() -> Shell | None:
    """Return IPython's shell if the user's code runs in one; IPython is never imported for it."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    if shell is None:
        return None
    return Shell(shell)

"""A program's library as Python calls it: its functions, and the record that a run fills in."""

from __future__ import annotations

import ctypes
import weakref
from pathlib import Path

from luminal_lab.devices.build.toolchain import load
from luminal_lab.errors import DeviceError
from luminal_lab.kernels.render.c.program import ENTRIES


class RunRecord(ctypes.Structure):
    """What `lab_execute` is given; `lab_run` in the C source."""

    _fields_ = [
        *((name, ctypes.c_void_p) for name in ("values", "dims", "launches", "tasks")),
        *((name, ctypes.c_void_p) for name in ("times", "scratch")),
        *((name, ctypes.c_int64) for name in ("scratch_bytes", "no_return", "fault")),
        ("step", ctypes.c_uint32),
        *((name, ctypes.c_int32) for name in ("watching", "interrupted")),
    ]


class ProgramLibrary:
    """The functions of a program, and its pool of threads, which ends with it."""

    def __init__(self, path: Path, threads: int) -> None:
        library = load(path, *ENTRIES)
        opens, self._execute, self._cancel, closes = (library[name] for name in ENTRIES)
        opens.restype, opens.argtypes = ctypes.c_void_p, [ctypes.c_int]
        self._execute.restype = ctypes.c_int64
        self._execute.argtypes = [*[ctypes.c_void_p] * 2, *[ctypes.c_int64] * 2]
        self._cancel.restype, self._cancel.argtypes = None, [ctypes.c_void_p]
        closes.restype, closes.argtypes = None, [ctypes.c_void_p]
        self._pool: int = opens(threads)
        if not self._pool:
            raise DeviceError("cpu: there is no memory for a pool of threads")
        # At the end of the process the system ends the threads, one that runs a kernel too.
        weakref.finalize(self, closes, self._pool).atexit = False

    def execute(self, run: int, first: int, last: int) -> int:
        """Run launches of a run, given by its address; return how many were done."""
        return self._execute(self._pool, run, first, last)

    def cancel(self) -> None:
        """Have a run that is going on in another thread end soon."""
        self._cancel(self._pool)

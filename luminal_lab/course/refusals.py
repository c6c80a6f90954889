"""What an answer may not do in its process: Python's audit hook refuses it beforehand.

It may write temporary files and compile kernels; it starts no other processes, and leaves the
network, other processes and other files alone. The hook cannot be removed, but does not see machine
code, as through ctypes.
"""

from __future__ import annotations

import ctypes.util
import errno
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeAlias, cast

from luminal_lab.devices.build.cache import temporary_folder, user_folder

Values: TypeAlias = tuple[object, ...]
PACKAGE = Path(__file__).parents[1]
OURS = "machines/here", "devices/build/toolchain", "devices/cpu/trial", "devices/cpu/trial_build"
STARTERS = {*(str(PACKAGE / f"{name}.py") for name in OURS), ctypes.util.__file__}
"""Files that may start programs: compilers, and tools that identify hardware and libraries."""
PROGRAMS = 64
"""The most compilers that an answer may start."""
PROCESSES = (
    "os.exec",
    "os.fork",
    "os.forkpty",
    "os.posix_spawn",
    "os.spawn",
    "os.startfile",
    "os.system",
    "pty.spawn",
)
NETWORK = ("socket.bind", "socket.connect", "socket.getaddrinfo", "socket.sendmsg", "socket.sendto")
CHANGES = (
    "os.chmod",
    "os.chown",
    "os.link",
    "os.mkdir",
    "os.remove",
    "os.rename",
    "os.rmdir",
    "os.symlink",
    "os.truncate",
)


class Refused(BaseException):
    """Something forbidden to an answer; its own `except Exception` cannot catch it."""


def refuse(kept: Path | None) -> None:
    """Refuse, from now on in this process, all that an answer has no use for.

    `kept` is the folder of progress, which has a message of its own.
    """
    sys.dont_write_bytecode = True  # for modules loaded from now on
    processes, files = _Processes(), _Files(kept)
    rules: dict[str, Callable[[Values], None]] = {
        "open": files.opened,
        "subprocess.Popen": processes.started,
        "os.kill": processes.signalled,
        "os.killpg": processes.signalled,
    }
    rules |= dict.fromkeys(PROCESSES, _process) | dict.fromkeys(NETWORK, _network)
    rules |= dict.fromkeys(CHANGES, files.changed)

    def watch(event: str, values: Values) -> None:
        rule = rules.get(event)
        if rule is not None:
            rule(values)

    sys.addaudithook(watch)


def _process(_: Values) -> None:
    raise Refused("started a process, which it may not")


def _network(_: Values) -> None:
    raise Refused("asked for the network, which it may not")


class _Processes:
    """The programs that may be started, and the processes that may be signalled."""

    def __init__(self) -> None:
        self.count = 0
        self.own = os.getpid()

    def started(self, _: Values) -> None:
        self.count += 1
        if self.count > PROGRAMS or not self.is_ours():
            raise Refused("started a program, which it may not")

    def signalled(self, values: Values) -> None:
        if values[0] != self.own and not self.is_ours():
            raise Refused("sent a signal to another process, which it may not")

    def is_ours(self) -> bool:
        """Return whether one of our devices asks, for its compiler or a library."""
        frame = sys._getframe()  # pyright: ignore[reportPrivateUsage]  # the documented way
        while frame is not None:
            if frame.f_code.co_filename in STARTERS:
                return True
            frame = frame.f_back
        return False


class _Files:
    """The files that may be changed: temporary ones, and compiled libraries."""

    def __init__(self, kept: Path | None) -> None:
        libraries = user_folder()
        folders = [temporary_folder(), *([] if libraries is None else [libraries.parent])]
        self.kept = None if kept is None else os.path.realpath(kept)
        self.free = (*map(os.path.realpath, folders), os.path.realpath(os.devnull), "/dev/shm")

    def opened(self, values: Values) -> None:
        mode, flags = values[1:3]
        writes = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
        if isinstance(mode, str):
            is_written = any(letter in mode for letter in "wax+")
        else:
            is_written = bool(cast("int", flags or 0) & writes)
        if is_written:
            self.changed(values[:1])

    def changed(self, values: Values) -> None:
        for path in _paths(values):
            if self.kept and _is_within(path, self.kept):
                raise Refused("changed the file of your progress, which it may not")
            if not any(_is_within(path, folder) for folder in self.free):
                # Libraries that cache on disk go on without it.
                raise PermissionError(
                    errno.EACCES, "an answer may change temporary files alone", path
                )


def _paths(values: Values) -> list[str]:
    """Return the real paths of an event; they may be relative to an open folder."""
    folders = [value for value in values if isinstance(value, int) and value > 2]
    base = Path()
    if folders:
        with suppress(OSError):
            base = Path(f"/proc/self/fd/{folders[0]}").readlink()
    return [
        os.path.realpath(base / os.fsdecode(cast("str", value)))
        for value in values
        if isinstance(value, str | bytes | os.PathLike)
    ]


def _is_within(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder + os.sep)

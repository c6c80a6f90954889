"""Run notebooks under nbval in processes that need not load it: each is a fork of one that has."""

import multiprocessing
import os
import signal
import sys
from collections.abc import Sequence
from multiprocessing.process import BaseProcess
from pathlib import Path

import pytest

_CONTEXT = (
    multiprocessing.get_context("forkserver")
    if hasattr(os, "fork")
    else multiprocessing.get_context("spawn")
)
_CONTEXT.set_forkserver_preload(["tests.no_addresses", "pytest", "nbval.plugin"])


def nbval(arguments: Sequence[str], folder: Path, said: Path, limit: float) -> int:
    """Run pytest on a notebook; return how it ended, -1 if it had to be ended.

    What it says goes into a file.
    """
    process = _CONTEXT.Process(target=_run, args=(arguments, folder, said))
    process.start()
    process.join(limit)
    code = process.exitcode
    if code is None:
        _end(process)
        process.join()
    return -1 if code is None else code


def _run(arguments: Sequence[str], folder: Path, said: Path) -> None:
    if hasattr(os, "setsid"):
        os.setsid()  # what hangs is ended with its kernel
    os.chdir(folder)
    with said.open("wb") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    sys.exit(pytest.main([*arguments]))


def _end(process: BaseProcess) -> None:
    if hasattr(os, "killpg") and process.pid is not None:
        os.killpg(process.pid, signal.SIGKILL)
    else:
        process.kill()

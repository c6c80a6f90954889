"""Errors of devices, with the user's line that is being run, and packages that may be missing."""

from __future__ import annotations

import importlib
import os
from functools import cache
from typing import Any

from luminal_lab.core.origin import here
from luminal_lab.errors import DeviceError


def device_error(message: str, *, where: str | None = None, hint: str | None = None) -> DeviceError:
    """Return an error that shows the user's line, unless it shows another place."""
    return DeviceError(message, where=where or str(here() or "") or None, hint=hint)


def optional(package: str, name: str, hint: str) -> Any:  # noqa: ANN401  # such packages lack types
    """Return a package that runs kernels, or raise an error that it is not installed."""
    try:
        return importlib.import_module(package)
    except ImportError as error:
        fault = f"{name}, which runs kernels, is not installed ({error})"
        raise device_error(fault, hint=hint) from error


@cache
def first_process(library: str) -> int:  # each has one
    """Return the process that asked for a library first, whose threads a fork of it lacks."""
    return os.getpid()


def unless_forked(library: str) -> None:
    """Raise in a fork of the process that started a library, whose calls would never return."""
    if library and os.getpid() != first_process(library):
        raise device_error(
            f"{library} does not run in a fork of a process that has used it",
            hint='start processes by multiprocessing.get_context("spawn")',
        )

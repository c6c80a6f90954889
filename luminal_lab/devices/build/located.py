"""Errors of devices, with the user's line that is being run."""

from __future__ import annotations

from luminal_lab.core.origin import here
from luminal_lab.errors import DeviceError


def device_error(message: str, *, where: str | None = None, hint: str | None = None) -> DeviceError:
    """Return an error that shows the user's line, unless it shows another place."""
    return DeviceError(message, where=where or str(here() or "") or None, hint=hint)

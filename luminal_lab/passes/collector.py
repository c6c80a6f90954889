"""Python's collector of cycles, held off while something large is made."""

from __future__ import annotations

import gc
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def uncollected() -> Generator[None, None, None]:
    """Keep the collector from walking over all that lives, time and again.

    A compile, or the data of a picture, is many records that are nearly all kept: there is little
    to be found.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()

"""Python's garbage collector, paused while a function builds many objects."""

from __future__ import annotations

import gc
from collections.abc import Callable
from functools import partial, wraps
from typing import ParamSpec, TypeVar

from luminal_lab.interrupts import held

P = ParamSpec("P")
T = TypeVar("T")


def uncollected(make: Callable[P, T]) -> Callable[P, T]:
    """Pause the garbage collector while a function runs.

    A compile, or the data of a picture, creates many records and keeps nearly all, so repeated
    walks over all live objects find little.
    """

    @wraps(make)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        was_enabled = gc.isenabled()
        with held() as hold:
            gc.disable()
            try:
                return hold.opened(partial(make, *args, **kwargs))
            finally:
                if was_enabled:
                    gc.enable()

    return call

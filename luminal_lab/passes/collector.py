"""Python's collector of cycles, held off while something large is made."""

from __future__ import annotations

import gc
from collections.abc import Callable
from functools import partial, wraps
from typing import ParamSpec, TypeVar

from luminal_lab.interrupts import held

P = ParamSpec("P")
T = TypeVar("T")


def uncollected(make: Callable[P, T]) -> Callable[P, T]:
    """Have a function keep the collector from walking over all that lives, time and again.

    A compile, or the data of a picture, is many records that are nearly all kept: there is little
    to be found.
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

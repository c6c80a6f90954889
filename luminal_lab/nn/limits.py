"""Checks of the settings of schedules and optimisers, with errors at the user's line."""

from __future__ import annotations

import math

import numpy as np

from luminal_lab.errors import ArgumentError, RangeError
from luminal_lab.nn.arguments import at_user, sizes


def within(
    whose: object, name: str, value: object, *, above: bool = False, below: float = math.inf
) -> None:
    """Raise unless a setting is a number from 0 (or above it) up to but not including `below`.

    `whose` is the owner's name in errors, or an object whose class gives the name.
    """
    what = whose if isinstance(whose, str) else type(whose).__name__
    subject = f"{what}: {name} is {value!r}"
    if isinstance(value, bool) or not isinstance(value, (int, float, np.integer, np.floating)):
        raise at_user(ArgumentError(f"{subject} and not a number", hint="give one, such as 0.1"))
    if (value > 0 if above else value >= 0) and value < below:
        return
    limit = "above 0" if above else "0 or more"
    limit = limit if below == math.inf else f"{limit} and below {below:g}"
    hint = f"try {-value}" if 0 < -value < below else "try 0.1"
    raise at_user(RangeError(f"{subject}, and must be {limit}", hint=hint))


def steps(whose: object, name: str, value: int) -> None:
    """Raise unless a setting is a whole number, 1 or more."""
    sizes(type(whose).__name__, **{name: value})

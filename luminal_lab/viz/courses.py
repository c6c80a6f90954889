"""Courses of edges: lines and curves from point to point, and where they begin and end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

Step: TypeAlias = tuple[float, ...]
"""A point to go to, by a line (2 numbers) or by a curve (6 numbers)."""


def merged(steps: Sequence[Step]) -> tuple[Step, ...]:
    """Return a course whose straight pieces are one where they go on straight down."""
    found: list[Step] = []
    for step in steps:
        before = found[-1] if found else None
        if (
            before is not None
            and len(before) == len(step) == 2
            and len(found) > 1
            and before[0] == step[0] == found[-2][-2]
        ):
            found[-1] = step
        elif before is None or len(step) != 2 or before[-2:] != step:
            found.append(step)
    return tuple(found)


def shifted(steps: Sequence[Step], x: float, y: float) -> tuple[Step, ...]:
    """Return a course that is so far to the right and below."""
    return tuple(
        [
            (round(step[0] + x, 1), round(step[1] + y, 1))
            if len(step) == 2
            else tuple([round(one + (y if at % 2 else x), 1) for at, one in enumerate(step)])
            for step in steps
        ]
    )


def turned(steps: Sequence[Step]) -> tuple[Step, ...]:
    """Return a course from its end to its beginning."""
    found: list[Step] = [steps[-1][-2:]]
    for before, step in zip(reversed(steps[:-1]), reversed(steps[1:]), strict=True):
        end = before[-2:]
        found.append(end if len(step) == 2 else (*step[2:4], *step[:2], *end))
    return tuple(found)


def spread(wanted: list[float], rooms: list[float], low: float, high: float) -> list[float]:
    """Return places near the wanted ones, between two bounds, each with room to its right."""
    count = len(wanted)
    if not count:
        return []
    if count == 1:
        return [round(min(max(wanted[0], low), max(low, high - rooms[0])), 1)]
    needs = [max(8.0, room + 10.0) for room in rooms]
    total = sum(needs[:-1]) + rooms[-1]
    if total > high - low:
        scale = max(high - low - min(rooms[-1], (high - low) / 2), 0.0) / max(sum(needs[:-1]), 1e-9)
        found = [low]
        for need in needs[:-1]:
            found.append(found[-1] + need * min(scale, 1.0))
        return [round(one, 1) for one in found]
    found: list[float] = []
    for place, one in enumerate(wanted):
        least = low if not place else found[-1] + needs[place - 1]
        found.append(max(one, least))
    limit = high - rooms[-1]
    for place in range(count - 1, -1, -1):
        if found[place] > limit:
            found[place] = limit
        if place:
            limit = found[place] - needs[place - 1]
    return [round(one, 1) for one in found]

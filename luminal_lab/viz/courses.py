"""Courses of edges: lines and curves from point to point, and positions of their ends."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

Stroke: TypeAlias = tuple[float, ...]
"""A point to go to, by a line (2 numbers) or by a curve (6 numbers)."""


def merged(steps: Sequence[Stroke]) -> tuple[Stroke, ...]:
    """Return a course with consecutive vertical lines merged."""
    course: list[Stroke] = []
    for step in steps:
        before = course[-1] if course else None
        if (
            before is not None
            and len(before) == len(step) == 2
            and len(course) > 1
            and before[0] == step[0] == course[-2][-2]
        ):
            course[-1] = step
        elif before is None or len(step) != 2 or before[-2:] != step:
            course.append(step)
    return tuple(course)


def shifted(steps: Sequence[Stroke], x: float, y: float) -> tuple[Stroke, ...]:
    """Return a course moved right by x and down by y."""
    return tuple(
        [
            (round(step[0] + x, 1), round(step[1] + y, 1))
            if len(step) == 2
            else tuple(
                [round(coordinate + (y if at % 2 else x), 1) for at, coordinate in enumerate(step)]
            )
            for step in steps
        ]
    )


def turned(steps: Sequence[Stroke]) -> tuple[Stroke, ...]:
    """Return a course reversed."""
    course: list[Stroke] = [steps[-1][-2:]]
    for before, step in zip(reversed(steps[:-1]), reversed(steps[1:]), strict=True):
        end = before[-2:]
        course.append(end if len(step) == 2 else (*step[2:4], *step[:2], *end))
    return tuple(course)


def spread(wanted: list[float], rooms: list[float], low: float, high: float) -> list[float]:
    """Return positions near the wanted ones, between two bounds, each with room to its right."""
    count = len(wanted)
    if not count:
        return []
    if count == 1:
        return [round(min(max(wanted[0], low), max(low, high - rooms[0])), 1)]
    needs = [max(8.0, room + 10.0) for room in rooms]
    total = sum(needs[:-1]) + rooms[-1]
    if total > high - low:
        scale = max(high - low - min(rooms[-1], (high - low) / 2), 0.0) / max(sum(needs[:-1]), 1e-9)
        positions = [low]
        for need in needs[:-1]:
            positions.append(positions[-1] + need * min(scale, 1.0))
        return [round(position, 1) for position in positions]
    positions: list[float] = []
    for index, position in enumerate(wanted):
        least = low if not index else positions[-1] + needs[index - 1]
        positions.append(max(position, least))
    limit = high - rooms[-1]
    for index in range(count - 1, -1, -1):
        if positions[index] > limit:
            positions[index] = limit
        if index:
            limit = positions[index] - needs[index - 1]
    return [round(position, 1) for position in positions]

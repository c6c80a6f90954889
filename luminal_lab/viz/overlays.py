"""Numbers on nodes: from a dict, from timings, or from Model Explorer's JSON of node data."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias, cast

from luminal_lab.errors import ArgumentError, RecordingError
from luminal_lab.reading import read_json, read_plain
from luminal_lab.timing.timings import Timings
from luminal_lab.viz.exports import node_id
from luminal_lab.viz.payload import Payload

LARGEST = sys.float_info.max
Overlaid: TypeAlias = "Mapping[str, float] | Mapping[str, object] | Timings | str | Path"


class Overlay(NamedTuple):
    """Numbers by the names of nodes, the texts that show them, and a title."""

    title: str
    values: Mapping[str, float]
    texts: Mapping[str, str]


def read(given: object) -> Overlay:
    """Return the overlay that an argument describes."""
    if isinstance(given, Timings):
        seconds: dict[str, float] = {}
        for row in given:
            name = row.node.removeprefix("%")
            seconds[name] = seconds.get(name, 0.0) + row.seconds
        unit = given.unit
        texts = {name: f"{given.shown(value)} {unit}" for name, value in seconds.items()}
        title = "; ".join([f"time, {given.how}{given.where}", *given.doubts])
        return Overlay(title, seconds, texts)
    if isinstance(given, (str, Path)):
        return _of_file(Path(given))
    if isinstance(given, Mapping):
        return _of_mapping(cast("Mapping[object, object]", given))
    raise ArgumentError(
        f"display: {given!r} is not an overlay",
        hint="give a dict of numbers by the names of nodes, timings, or a file of node data",
    )


def _of_mapping(given: Mapping[object, object]) -> Overlay:
    if given and all(isinstance(value, Mapping) and "results" in value for value in given.values()):
        return _of_node_data(given)
    values: dict[str, float] = {}
    for name, value in given.items():
        values[str(name).removeprefix("%")] = _number(name, value)
    return Overlay("overlay", values, {name: f"{value:g}" for name, value in values.items()})


def _number(name: object, value: object) -> float:
    """Return a number that can be drawn, or raise."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        if abs(value) <= LARGEST:
            return float(value)
        # Python refuses to print ints of several thousand digits.
        shown = f"more than {LARGEST:.3g}" if isinstance(value, int) else str(value)
    else:
        shown = repr(value)
    raise ArgumentError(
        f"display: the overlay says {shown} of {name!r}",
        hint="give finite numbers, and leave out the nodes that have none",
    )


def _of_file(path: Path) -> Overlay:
    try:
        given = read_json(read_plain(path))
    except OSError as error:
        raise RecordingError(
            f"display: {path} cannot be read: {error.strerror or error}",
            hint="give a file of Model Explorer's node data",
        ) from error
    except ValueError as error:
        raise RecordingError(
            f"display: {path} is not JSON: {error}",
            hint="give a file of Model Explorer's node data",
        ) from error
    return _of_node_data(given)


def _of_node_data(given: object) -> Overlay:
    """Return the first set of numbers; its keys are the names of nodes."""
    values: dict[str, float] = {}
    title = "overlay"
    try:
        (title, data), *_ = cast("dict[str, Any]", given).items()
        if "results" not in data:  # a file for several graphs: title, graph, data
            (_, data), *_ = data.items()
        for key, result in data["results"].items():
            values[str(key).removeprefix("%")] = _number(key, float(result["value"]))
    except (AttributeError, KeyError, OverflowError, TypeError, ValueError) as error:
        raise RecordingError(
            "display: this is not node data of Model Explorer's",
            hint='it looks like {"main": {"results": {"%y": {"value": 0.5}}}}',
        ) from error
    return Overlay(title, values, {name: f"{value:g}" for name, value in values.items()})


def with_overlay(payload: Payload, overlay: Overlay) -> Payload:
    """Return a payload with numbers on its nodes, the largest with the longest bar."""
    most = max((abs(value) for value in overlay.values.values()), default=0.0)
    items = [
        replace(
            item,
            value=overlay.texts[item.name],
            amount=overlay.values[item.name],
            heat=abs(overlay.values[item.name]) / most if most else 0.0,
        )
        if item.name in overlay.values and item.kind != "outside"
        else item
        for item in payload.items
    ]
    return replace(payload, items=tuple(items), overlay=overlay.title)


def to_node_data(payload: Payload) -> dict[str, Any]:
    """Return the numbers on nodes as Model Explorer's JSON of node data.

    Without an overlay, the data are the nodes' statuses or kinds.
    """
    results = {
        node_id(item): {"value": item.amount if payload.overlay else item.status or item.kind}
        for item in payload.items
        if not payload.overlay or item.amount is not None
    }
    return {payload.overlay or payload.name: {"results": results}}

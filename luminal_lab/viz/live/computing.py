"""What `export(…, run=True)` adds to a page: its graphs as WebAssembly, and controls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias, cast

import numpy as np

from luminal_lab.artefact.page import Computing, computing
from luminal_lab.core.binding import bound_shape
from luminal_lab.core.dtypes import Array
from luminal_lab.core.ir import IR, Node
from luminal_lab.core.op import ints
from luminal_lab.core.ops import Gather
from luminal_lab.core.origin import here
from luminal_lab.errors import ArgumentError, UnknownNameError, counted
from luminal_lab.viz.live.backed import Backed
from luminal_lab.viz.live.inputs import inputs_for

Run: TypeAlias = bool | Mapping[str, object]
"""Whether a page runs; by the names of inputs their bounds, or the words of tokens and classes."""
EXAMPLE = 'as in run={"gain": (0, 10), "digit": "0123456789"}'
PIXELS = 8
"""From so many rows and columns on, what is not negative is drawn on a pad."""


def computed(all_: Sequence[Backed], run: Run) -> Computing:
    """Return what a page needs to run the compile that is shown."""
    if len(all_) != 1:
        raise ArgumentError(
            f"export: run=True needs one graph or compile, and here are {len(all_)}",
            hint='cx.workbench().export("page.html", run=True)',
        )
    backed = all_[0]
    graphs = [snapshot.ir for snapshot in backed.snapshots]
    written, last = graphs[0], graphs[-1]
    inputs = inputs_for(backed, written, [node.id for node in written.nodes])
    environment = inputs.environment
    data = {node.id: environment.data(node) for node in written.inputs}
    weights = backed.subject.parameters & data.keys()
    told = _told(run, written, weights)
    controls = [
        _control(written, node, data[node.id], told.get(node.name), environment.dims)
        for node in written.inputs
        if node.id not in weights
    ]
    outputs = [
        {
            "id": id,
            "name": _title(written, node),
            "words": _classes(written, node, told, environment.dims),
        }
        for id, node in zip(last.output_ids, written.outputs, strict=True)
    ]
    more = {"controls": controls, "results": outputs, "said": inputs.said}
    return computing(graphs, data, weights, environment.dims, environment.step, more)


def _told(run: Run, written: IR, weights: frozenset[int]) -> dict[str, Any]:
    """Return what somebody has said of inputs and outputs: two bounds, or a list of words."""
    if run is True:
        return {}
    if not isinstance(run, Mapping):
        raise ArgumentError(f"export: run is {run!r}", hint=f"give True, or {EXAMPLE[6:]}")
    names = [n.name for n in (*written.inputs, *written.outputs) if n.id not in weights]
    told: dict[str, Any] = {}
    for name, like in run.items():
        fault = f"export: run mentions {name!r}, which is neither an input nor an output"
        UnknownNameError.unless_known(name, names, fault, f"choose from {', '.join(names)}")
        told[name] = _bounds(like) or _words(name, like)
    return told


def _bounds(like: object) -> tuple[float, float] | None:
    """Return bounds, if that is what somebody gave."""
    if not isinstance(like, (tuple, list)) or len(cast("Sequence[object]", like)) != 2:
        return None
    pair = cast("Sequence[object]", like)
    if not all(isinstance(one, (int, float)) and not isinstance(one, bool) for one in pair):
        return None
    low, high = (float(cast("float", one)) for one in pair)
    return (low, high) if np.isfinite([low, high]).all() and low < high else None


def _words(name: str, like: object) -> list[str]:
    words = list(cast("Sequence[object]", like)) if isinstance(like, (str, tuple, list)) else []
    if not words or not all(isinstance(word, str) for word in words):
        raise ArgumentError(
            f"export: run gives {name!r} {like!r}, which are neither two bounds, the lower one "
            "first, nor words",
            where=str(here() or "") or None,
            hint=EXAMPLE,
        )
    return cast("list[str]", words)


def _title(written: IR, node: Node) -> str:
    """Return what an output is called: "" if nothing says."""
    if not node.name.isdigit():
        return node.name
    old = dict(written.carries).get(node.id)
    return "" if old is None else f"{written[old].name}, carried"


def _classes(
    written: IR, node: Node, told: Mapping[str, Any], dims: Mapping[str, int]
) -> list[str] | None:
    """Return the words of an output: one for each place of its last axis."""
    name, like = node.name, told.get(node.name)
    if like is None or name in [one.name for one in written.inputs]:
        return None
    if not isinstance(like, list):
        raise ArgumentError(
            f"export: run gives bounds to {name!r}, which is an output",
            where=str(here() or "") or None,
            hint="inputs have bounds, and outputs have words, one for each class",
        )
    words = cast("list[str]", like)
    classes = [1, *bound_shape("export", node.shape, dims)][-1]
    if len(words) != classes:
        raise ArgumentError(
            f"export: run gives {name!r} {counted(len(words), 'word')}, and its last axis has "
            f"{counted(classes, 'class', 'classes')}",
            where=str(here() or "") or None,
            hint="give one word for each class, in their order",
        )
    return words


def _control(
    written: IR, node: Node, value: Array, told: object, dims: Mapping[str, int]
) -> dict[str, object]:
    """Return how somebody changes an input."""
    words = told if isinstance(told, list) else None
    shape = [size for size in value.shape if size != 1]
    is_float = node.dtype.is_float
    numbers = value.astype(np.float64)
    finite = numbers[np.isfinite(numbers)]
    least, most = (finite.min(), finite.max()) if finite.size else (0.0, 0.0)
    if isinstance(told, tuple):
        low, high = cast("tuple[float, float]", told)
    elif node.dtype.value == "bool":
        low, high = 0.0, 1.0
    elif not is_float:
        sizes = [*_axes(written, node, dims)]
        low, high = min(0.0, least), float(min(sizes) - 1 if sizes else max(10.0, 2 * most))
    elif least >= 0 and most <= 1:
        low, high = 0.0, 1.0
    else:
        high = float(max(3.0, np.ceil(2 * max(abs(least), abs(most)))))
        low = 0.0 if least >= 0 and most > 3 else -high
    if words is not None:
        low, high = 0.0, float(len(words) - 1)
    kind, rows = "sliders", 1
    if words is not None and not is_float:
        kind = "text"
    elif is_float and len(shape) == 2 and min(shape) >= PIXELS:
        kind = "pad"
    elif is_float and len(shape) == 3 and min(shape[1:]) >= PIXELS:
        rows = shape[0]
    return {"kind": kind, "low": float(low), "high": float(high), "words": words, "rows": rows}


def _axes(ir: IR, node: Node, dims: Mapping[str, int]) -> list[int]:
    """Return the sizes of the axes in which an input of whole numbers says places."""
    return [
        ints(bound_shape("export", ir[user.sources[0]].shape, dims))[user.op.axis]
        for user in ir.nodes
        if isinstance(user.op, Gather) and node.id in ir.ancestors([user.sources[1]])
    ]

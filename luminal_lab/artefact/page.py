"""A compile as what a page needs to run it: WebAssembly, weights, and what is known of both.

The bytes begin with the length of a header in JSON, then come the header, the WebAssembly, the
weights, and what the inputs are at first.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from luminal_lab.artefact.contents import Contents, Given, Names, Weight, refused
from luminal_lab.artefact.folder import FIRST
from luminal_lab.artefact.shaders import shaders
from luminal_lab.artefact.source import Source
from luminal_lab.artefact.spread import Spread, spread
from luminal_lab.artefact.targets import target_of
from luminal_lab.artefact.weights_file import header_of
from luminal_lab.core.dtypes import Array
from luminal_lab.core.ir import IR
from luminal_lab.devices.build.toolchain import compile_library
from luminal_lab.devices.runtime.worklist import Worklist, c_maker
from luminal_lab.errors import DeviceError
from luminal_lab.trust import admit

NAME = "page"
MOST_BYTES = 20_000_000
"""The most bytes of weights that a page takes."""


class Computing(NamedTuple):
    """What a page needs to run a compile, packed; and how large its parts are."""

    packed: bytes
    wasm: int
    weights: int


def computing(
    graphs: Sequence[IR],
    data: Mapping[int, Array],
    weights: frozenset[int],
    dims: Mapping[str, int],
    step: int,
    more: Mapping[str, object],
) -> Computing:
    """Return what a page needs to run the graphs of a compile.

    `data` has the values of inputs by their ids, of which some are weights; `more` goes into the
    header.
    """
    made = spread(graphs, dims)
    try:
        aim, zig = target_of("wasm32")
    except DeviceError as error:
        raise DeviceError(
            "export: a page that runs is compiled by zig, and this machine has none",
            hint="pip install ziglang; a page without run=True needs no compiler",
        ) from error
    work = Worklist(made.ir, replace(c_maker(aim.plans_for), has_few_rows=False), {})
    for item in work.works:
        if item.use is None:
            raise refused(item.node)
    contents = _contents(made.ir, work, data, weights)
    file = header_of(contents.weights) if contents.weights else None
    size = 0 if file is None else file.bytes
    if size > MOST_BYTES:
        raise DeviceError(
            f"export: the weights take {size / 1e6:.1f} MB, and a page takes "
            f"{MOST_BYTES / 1e6:.0f} MB at most",
            hint="cx.compilation.export(folder) has no limit; or export without run=True",
        )
    source = Source(contents, file, "// What a page computes, written by luminal_lab.")
    text = source.text("", some=True)
    admit(text)
    whole = text.replace(f'#include "{NAME}.h"', source.header)
    wasm = compile_library(whole, zig, timeout=FIRST).read_bytes()
    given = [np.ascontiguousarray(data[one.id]) for one in contents.inputs]
    stored = [np.ascontiguousarray(weight.value) for weight in contents.weights]
    header: dict[str, object] = {
        "format": 1,
        "wasm": len(wasm),
        "weights": size,
        "dims": [dims[name] for name in contents.symbols],
        "step": step,
        "inputs": [
            {"name": one.name, "id": one.id, "dtype": one.type.dtype.value,
             "shape": array.shape, "bytes": array.nbytes}
            for one, array in zip(contents.inputs, given, strict=True)
        ],
        **_table(made, contents, {} if file is None else file.offsets),
        "gpu": shaders(contents, dims, step, contents.plans[0][1].works),
        **more,
    }  # fmt: skip
    words = json.dumps(header, separators=(",", ":")).encode()
    parts = [len(words).to_bytes(4, "little"), words, wasm]
    parts += [b"" if file is None else file.header, *map(np.ndarray.tobytes, stored)]
    parts += map(np.ndarray.tobytes, given)
    return Computing(zlib.compress(b"".join(parts), 9), len(wasm), size)


def _contents(ir: IR, work: Worklist, data: Mapping[int, Array], lent: frozenset[int]) -> Contents:
    names = Names()
    inputs = tuple(
        Given(node.name, names.new(node.name), node.type, node.id)
        for node in ir.inputs
        if node.id not in lent
    )
    outputs = [Given(f"v{id}", names.new(f"v{id}"), ir[id].type, id) for id in ir.output_ids]
    weights = [Weight(node.name, node.id, data[node.id]) for node in ir.inputs if node.id in lent]
    weights.sort(key=lambda weight: -weight.value.dtype.itemsize)
    return Contents(NAME, ir, work, inputs, tuple(outputs), tuple(weights), ())


def _table(made: Spread, contents: Contents, offsets: Mapping[str, int]) -> dict[str, object]:
    """Return where each value is, and which launch makes it of what.

    Places are numbers: of inputs, then of outputs, then of weights.
    """
    ir, work = made.ir, contents.work
    (_, plan), *_ = contents.plans
    order = [*contents.inputs, *contents.outputs, *contents.weights]
    place_of = {work.slot_of[one.id]: place for place, one in enumerate(order)}
    ids = [id for id in made.shapes if work.slot_of.get(id) in place_of]
    types: dict[str, int] = {}
    for id in ids:
        types.setdefault(json.dumps([ir[id].dtype.value, made.shapes[id]]), len(types))
    return {
        "ids": ids,
        "places": [place_of[work.slot_of[id]] for id in ids],
        "types": [json.loads(type) for type in types],
        "typed": [types[json.dumps([ir[id].dtype.value, made.shapes[id]])] for id in ids],
        "outputs": [
            int(np.prod(made.shapes[one.id], dtype=np.int64)) * one.type.dtype.itemsize
            for one in contents.outputs
        ],
        "offsets": [offsets[weight.name] for weight in contents.weights],
        "reads": [[place_of[s] for s in w.reads if s in place_of] for w in plan.works],
        "makes": [[place_of[s] for s in w.makes if s in place_of] for w in plan.works],
    }

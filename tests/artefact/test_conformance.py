"""Every case of the conformance kit, exported: it gives the bits that the compile gives."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest

import luminal_lab as ll
from luminal_lab.artefact.runner import Model
from luminal_lab.core.dtypes import Array
from luminal_lab.core.interpret import Environment
from luminal_lab.core.ir import IR, Node
from luminal_lab.errors import DeviceError
from luminal_lab.passes.compile import compile_ir
from luminal_lab.testing.cases import Case
from luminal_lab.testing.conformance import cases, merged
from luminal_lab.testing.graphs import FUNCTIONS

pytestmark = pytest.mark.needs("cc")
SIZE = 40
"""How many cases are exported as one model."""
PYTHON = "calls a function of Python's|is computed by|has no form in C"


class NoWeights:
    """The data of a compile that has no session: all of its inputs are arguments."""

    def is_lent(self, id: int) -> bool:
        return False

    def value_of(self, node: Node) -> None:
        return None


def batches() -> list[list[Case]]:
    """Cases with the same sizes of dims and the same steps, some at a time."""
    groups: dict[object, list[Case]] = {}
    for case in cases():
        if case.family != "error":
            alone = case.name if case.family in ("model", "symbolic") else ""
            key = alone, str([(sorted(run.dims.items()), run.step) for run in case.runs])
            groups.setdefault(key, []).append(case)
    return [
        group[start : start + SIZE]
        for group in groups.values()
        for start in range(0, len(group), SIZE)
    ]


def without_python(batch: Sequence[Case]) -> list[Case]:
    return [c for c in batch if not any(n.op.name == "host_call" for n in c.ir)]


BATCHES = batches()


@pytest.mark.share("batch", BATCHES, 6, ids=[f"{b[0].family}-{b[0].name}" for b in BATCHES])
def test_an_exported_case_gives_the_same_bits(batch: list[Case], tmp_path: Path) -> None:
    batch = without_python(batch)
    if not batch:
        return
    ir, inputs = merged([case.ir for case in batch])
    compiled = compile_ir(ir, ll.GenericCompiler(), ll.CPUCompiler(threads=1))
    compiled.data = NoWeights()
    model = Model(compiled.export(tmp_path / "cases"))
    for number, run in enumerate(batch[0].runs):
        data = {
            id: case.runs[number].data[name].copy()
            for case, names in zip(batch, inputs, strict=True)
            for id, name in names.items()
        }
        wanted = run_compiled(compiled.ir, compiled.values, data, run.dims, run.step)
        named = {ir[id].name: bits(array) for id, array in data.items() if read(model, ir[id])}
        told = {dim["name"]: run.dims[dim["name"]] for dim in model.dims}
        results = [*model(run.step, **named, **told).values()]
        for want, got in zip(wanted, results, strict=True):
            assert want.shape == got.shape
            assert want.tobytes() == got.tobytes()


def read(model: Model, node: Node) -> bool:
    return node.name in {one["name"] for one in model.inputs}


def bits(array: Array) -> Array:
    return array.view(np.uint16) if array.dtype.name == "bfloat16" else array


def run_compiled(
    ir: IR,
    values: Callable[..., Mapping[int, Array]],
    data: Mapping[int, Array],
    dims: Mapping[str, int],
    step: int,
) -> list[Array]:
    copies = {id: array.copy() for id, array in data.items()}
    environment = Environment(lambda node: copies[node.id], dims, step, FUNCTIONS)
    made = values(environment, {*ir.output_ids}, {}, None)
    return [made[id] for id in ir.output_ids]


def test_cases_that_call_python_are_refused_by_node() -> None:
    case = next(c for c in cases() if any(n.op.name == "host_call" for n in c.ir))
    compiled = compile_ir(case.ir, ll.GenericCompiler(), ll.CPUCompiler(threads=1))
    compiled.data = NoWeights()
    with pytest.raises(DeviceError, match=PYTHON):
        compiled.export("nowhere")
    assert not Path("nowhere").exists()

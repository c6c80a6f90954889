"""Kernels in WGSL: what plans make computes on an adapter what its definition says."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from luminal_lab.core.dims import evaluate as size_of
from luminal_lab.core.dtypes import Array
from luminal_lab.kernels.gpu import webgpu
from luminal_lab.kernels.kernel import Kernel, Kernels
from luminal_lab.kernels.launch import numbers_of
from tests.conftest import Golden
from tests.kernels.judging import check_same
from tests.kernels.plans.test_gpu import GOLDEN, TEXTS, given_to, kernel

needs = pytest.mark.needs("wgpu", "vulkan")


def run(made: Kernel, name: str, dims: Mapping[str, int]) -> None:
    """Run a kernel on the adapter that is here, and compare its results."""
    want = given_to(name, dict(dims))[1]
    for output, got in computed(made, name, dims).items():
        check_same(got, want[output], exactly=False)


def computed(made: Kernel, name: str, dims: Mapping[str, int]) -> dict[str, Array]:
    """Return what a kernel computes on the adapter that is here."""
    from luminal_lab.devices.gpu.engine import Location, PlacedLaunch  # noqa: PLC0415
    from luminal_lab.devices.webgpu.engine import WebGPUEngine  # noqa: PLC0415

    engine = WebGPUEngine("", Kernels([made]))
    given, want = given_to(name, dict(dims))

    def placed(size: int) -> Location:
        return Location(engine.reserve(size), 0, size)

    inputs = [placed(array.nbytes) for array in given.values()]
    for location, array in zip(inputs, given.values(), strict=True):
        engine.upload(location, array)
    inner = [placed(size_of(local.bytes, dims)) for local in made.locals]
    results = [placed(array.nbytes) for array in want.values()]
    fault = placed(4)
    launches: list[PlacedLaunch] = []
    for phase in made.phases:
        arguments: list[Any] = [*inputs, *inner, *results, *numbers_of(made, dims)]
        arguments += [np.uint32(0)] * phase.draws + [fault] * phase.faults
        blocks = size_of(phase.tasks, dims)
        launches.append(PlacedLaunch(made, phase, blocks, 0, (), (), (), tuple(arguments)))
    engine.launch(launches, None, careful=False)
    engine.wait()
    got = {output: np.zeros_like(array) for output, array in want.items()}
    for location, array in zip(results, got.values(), strict=True):
        engine.download(location, array)
    return got


@needs
@pytest.mark.parametrize("name", sorted(TEXTS))
def test_what_plans_make_computes_what_the_definition_says(name: str) -> None:
    run(kernel(name, webgpu()), name, {"n": 9, "m": 600})


@needs
@pytest.mark.parametrize(
    ("name", "choices"),
    [
        ("attention", {"across": 8, "groups": 8}),
        ("attention", {"across": 16, "groups": 16}),
        ("rms_norm", {"rows": 4, "access_bytes": 4}),
        ("columns", {"columns": 64, "height": 4}),
        ("total", {"piece": 4096, "threads": 64}),
    ],
)
def test_other_numbers_compute_the_same(name: str, choices: Mapping[str, int]) -> None:
    run(kernel(name, webgpu()).rescheduled(choices=choices), name, {"n": 70, "m": 600})


@pytest.mark.parametrize("name", GOLDEN)
def test_how_its_source_reads(name: str, golden: Golden) -> None:
    made = kernel(name, webgpu())
    assert max(map(len, made.source.splitlines())) <= 100
    assert len(made.ops_of_line) == len(made.source.splitlines())
    golden(f"{made.source}\n", f"golden/{name}.wgsl")

"""One schedule in three languages: CUDA and Metal, emulated, and WGSL, run by an adapter.

Whatever the languages share is to compute the same bits. They differ in two things: WGSL has no
product that is rounded together with its sum, and each has a 2^x of its own.
"""

import random
import re
from functools import cache

import numpy as np
import pytest

from luminal_lab.errors import ScheduleError
from luminal_lab.kernels.definition.text import parse_definition
from luminal_lab.kernels.gpu import GPU, apple, gpu_of, webgpu
from luminal_lab.kernels.kernel import Kernel
from luminal_lab.kernels.make import make_gpu_kernel
from luminal_lab.kernels.steps.schedule import Schedule, parse_schedule
from tests.kernels.plans.test_gpu import TEXTS, emulated
from tests.kernels.render.gpu.test_webgpu import computed

GPUS = {"cuda": gpu_of("sm_75"), "metal": apple(), "webgpu": webgpu()}
PLANNED = {**GPUS, "sm_90": gpu_of("sm_90")}
"""For what schedules are planned that each language is to compute alike."""
DIMS = {"n": 9, "m": 600}
FEWER = {"powers": {"n": 9, "m": 200}}
"""Fewer where each number of a tile reads all columns."""
OWN = r"\b(?:lab_fma_f32|fmaf?|exp2f?|lab_exp2_f32)\("
"""What is rounded in each language as that sees fit."""
WITHIN = 1e-6
"""How far results may be apart then, as a part of the largest."""
BEYOND = r"tensor \S+ is not two loops|it may (have|declare)|does not fit: "
"""Why there is no kernel in WGSL: a schedule is for tensor units, or for larger blocks, or numbers
do not go together."""


def made_of(name: str, gpu: GPU, schedule: Schedule | None = None) -> Kernel:
    return make_gpu_kernel(parse_definition(TEXTS[name]), name, gpu, schedule)


@cache
def check_alike(name: str, schedule: str) -> None:
    """Check that a schedule's kernels compute the same; refuse one that WGSL does not have."""
    steps = parse_schedule(schedule)
    wgsl = [made_of(name, GPUS["webgpu"], steps)]
    if "f16" in TEXTS[name]:  # as bits of words, and as a type
        wgsl.append(made_of(name, webgpu(has_float16=True), steps))
    theirs = {gpu: made_of(name, GPUS[gpu], steps) for gpu in ("cuda", "metal")}
    kernels = [*wgsl, *theirs.values()]
    assert len({str(kernel.nest) for kernel in kernels}) == 1
    is_free = any(re.search(OWN, kernel.source) for kernel in kernels)
    dims = FEWER.get(name, DIMS)
    ours = [computed(kernel, name, dims) for kernel in wgsl]
    for gpu, kernel in theirs.items():
        _, results = emulated(kernel, name, GPUS[gpu], dims, trace=False)
        for output, want in results.items():
            for values in ours:
                got = values[output]
                assert got.dtype == want.dtype
                within = WITHIN * np.abs(want).max() if is_free and want.dtype == np.float32 else 0
                exact = got.astype(np.float64), want.astype(np.float64)
                np.testing.assert_allclose(*exact, rtol=0, atol=within)


@pytest.mark.needs("wgpu", "vulkan")
@pytest.mark.parametrize("name", sorted(TEXTS))
def test_a_schedule_gives_the_same_values_in_each_language(name: str) -> None:
    # The smallest GPU of the three: the others take its schedules.
    check_alike(name, str(made_of(name, GPUS["webgpu"]).schedule))


PAIRS = [(name, gpu) for name in sorted(TEXTS) for gpu in PLANNED]


# Each choice of each plan in `make test-long`, one of each that is drawn otherwise.
@pytest.mark.needs("wgpu", "vulkan")
@pytest.mark.share(("name", "gpu"), PAIRS, 6, ids=["-".join(pair) for pair in PAIRS])
def test_every_schedule_of_a_plan_does(name: str, gpu: str, seed: int, long: bool) -> None:
    kernel = made_of(name, PLANNED[gpu])
    open_numbers = [
        {taken.choice.name: value}
        for taken in kernel.choices
        for value in taken.choice.values
        if value != taken.value
    ]
    if not long:
        drawn = random.Random(f"{seed} {name} {gpu}").sample(
            open_numbers, min(1, len(open_numbers))
        )
        open_numbers = drawn
    for choices in ({}, *open_numbers):
        try:
            other = kernel.rescheduled(choices=choices) if choices else kernel
            check_alike(name, str(other.schedule))
        except ScheduleError as error:
            assert re.search(BEYOND, error.message), error  # noqa: PT017

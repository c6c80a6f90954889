"""One schedule in three languages: CUDA and Metal, emulated, and WGSL, run by an adapter.

Whatever the languages share is to compute the same bits. They differ in two things: WGSL has no
product that is rounded together with its sum, and each has a 2^x of its own. Where one of them has
no kernel, the others are compared all the same; each is compared with the interpreter.
"""

import random
import re
from collections.abc import Callable
from functools import cache
from itertools import combinations

import numpy as np
import pytest

from luminal_lab.core.dtypes import Array
from luminal_lab.errors import ScheduleError
from luminal_lab.kernels.definition.text import parse_definition
from luminal_lab.kernels.gpu import GPU, apple, gpu_of, webgpu
from luminal_lab.kernels.kernel import Kernel
from luminal_lab.kernels.make import make_gpu_kernel
from luminal_lab.kernels.steps.schedule import Schedule, parse_schedule
from tests.kernels.judging import check_same
from tests.kernels.plans.test_gpu import TEXTS, emulated, given_to
from tests.kernels.render.gpu.test_webgpu import computed

GPUS = {"CUDA": gpu_of("sm_90"), "Metal": apple(), "WGSL": webgpu()}
"""A GPU for each language; that of WGSL is the smallest."""
PLANNED = {
    "cuda": gpu_of("sm_75"),
    "metal": apple(),
    "webgpu": webgpu(),
    "sm_90": gpu_of("sm_90"),
}
"""For what schedules are planned that each language is to compute alike."""
DIMS = {"n": 9, "m": 600}
FEWER = {"powers": {"n": 9, "m": 200}}
"""Fewer where each number of a tile reads all columns."""
OWN = r"\b(?:lab_fma_f32|fmaf?|exp2f?|lab_exp2_f32)\("
"""What is rounded in each language as that sees fit."""
WITHIN = 1e-6
"""How far results may be apart then, as a part of the largest."""
UNITS, SIZE = "tensor units of another shape, or none", "its blocks are too large"
LACKS = {
    r"tensor \S+ is (not two loops|for tensor units)": UNITS,
    r"a block has .* and in WebGPU it may have": SIZE,
}
"""Why a language may have no kernel for a schedule. Any other refusal is a fault."""
NUMBERS = r"does not fit: its plan refuses it|a block has .* and in WebGPU it may have"
"""Why a plan may refuse one of its numbers, where it is the only one that changes."""


def made_of(name: str, gpu: GPU, schedule: Schedule | None = None) -> Kernel:
    return make_gpu_kernel(parse_definition(TEXTS[name]), name, gpu, schedule)


@cache
def check_alike(name: str, schedule: str) -> tuple[str, ...]:
    """Check a schedule's kernels by their definition and by each other.

    Return which languages have none, and why.
    """
    steps, dims = parse_schedule(schedule), FEWER.get(name, DIMS)
    lacking, kernels = list[str](), list[tuple[str, Kernel]]()
    for language, gpu in GPUS.items():
        try:
            kernels.append((language, made_of(name, gpu, steps)))
        except ScheduleError as error:
            (why,) = [why for pattern, why in LACKS.items() if re.search(pattern, error.message)]
            lacking.append(f"no {language}: {why}")
    if "f16" in TEXTS[name] and kernels[-1][0] == "WGSL":  # as bits of words, and as a type
        kernels.append(("WGSL", made_of(name, webgpu(has_float16=True), steps)))
    assert len({str(kernel.nest) for _, kernel in kernels}) == 1
    is_free = any(re.search(OWN, kernel.source) for _, kernel in kernels)
    results = [results_of(kernel, name, language, dims) for language, kernel in kernels]
    for output, wanted in given_to(name, dims)[1].items():
        values = [result[output] for result in results]
        for got in values:
            check_same(got, wanted, exactly=False)
        within = WITHIN * np.abs(wanted).max() if is_free and wanted.dtype == np.float32 else 0
        for one, other in combinations([value.astype(np.float64) for value in values], 2):
            np.testing.assert_allclose(one, other, rtol=0, atol=within)
    return tuple(lacking)


def results_of(made: Kernel, name: str, language: str, dims: dict[str, int]) -> dict[str, Array]:
    if language == "WGSL":
        return computed(made, name, dims)
    return emulated(made, name, GPUS[language], dims, trace=False)[1]


@pytest.mark.needs("wgpu", "vulkan")
@pytest.mark.parametrize("name", sorted(TEXTS))
def test_a_schedule_gives_the_same_values_in_each_language(name: str) -> None:
    # The smallest GPU of the three: the others take its schedules.
    assert check_alike(name, str(made_of(name, GPUS["WGSL"]).schedule)) == ()


PAIRS = [(name, gpu) for name in sorted(TEXTS) for gpu in PLANNED]


# Each choice of each plan in `make test-long`, one of each that is drawn otherwise. What has no
# kernel in some language is counted at the end, by reasons.
@pytest.mark.needs("wgpu", "vulkan")
@pytest.mark.share(("name", "gpu"), PAIRS, 6, ids=["-".join(pair) for pair in PAIRS])
def test_every_schedule_of_a_plan_does(
    name: str, gpu: str, seed: int, long: bool, counted: Callable[[str], None]
) -> None:
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
    schedules = {str(kernel.schedule)}
    for choices in open_numbers:
        try:
            schedules.add(str(kernel.rescheduled(choices=choices).schedule))
        except ScheduleError as error:
            assert re.search(NUMBERS, error.message), error  # noqa: PT017
            counted(f"schedules in several languages: numbers that a plan for {gpu} refuses alone")
    for schedule in sorted(schedules):
        lacking = check_alike(name, schedule)
        for why in lacking or ["in all three"]:
            counted(f"schedules in several languages: {why}")

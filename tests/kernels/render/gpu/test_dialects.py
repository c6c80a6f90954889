"""One schedule in three languages: CUDA and Metal, emulated, and WGSL, run by an adapter.

Whatever the languages share is to compute the same bits. They differ in two things: WGSL has no
product that is rounded together with its sum, and each has a 2^x of its own.
"""

import re

import numpy as np
import pytest

from luminal_lab.kernels.definition.text import parse_definition
from luminal_lab.kernels.gpu import apple, gpu_of, webgpu
from luminal_lab.kernels.kernel import Kernel
from luminal_lab.kernels.make import make_gpu_kernel
from luminal_lab.kernels.steps.schedule import Schedule
from tests.kernels.plans.test_gpu import TEXTS, emulated
from tests.kernels.render.gpu.test_webgpu import computed

GPUS = {"cuda": gpu_of("sm_75"), "metal": apple(), "webgpu": webgpu()}
DIMS = {"n": 9, "m": 600}
OWN = r"\b(?:lab_fma_f32|fmaf?|exp2f?|lab_exp2_f32)\("
"""What is rounded in each language as that sees fit."""
WITHIN = 1e-6
"""How far results may be apart then, as a part of the largest."""


def made_of(name: str, gpu: str, schedule: Schedule | None = None) -> Kernel:
    return make_gpu_kernel(parse_definition(TEXTS[name]), name, GPUS[gpu], schedule)


@pytest.mark.needs("wgpu", "vulkan")
@pytest.mark.parametrize("name", sorted(TEXTS))
def test_a_schedule_gives_the_same_values_in_each_language(name: str) -> None:
    plan = made_of(name, "webgpu").schedule  # the smallest of the three, so the others take it
    kernels = {gpu: made_of(name, gpu, plan) for gpu in GPUS}
    assert len({str(kernel.nest) for kernel in kernels.values()}) == 1
    ours = computed(kernels["webgpu"], name, DIMS)
    is_free = any(re.search(OWN, kernel.source) for kernel in kernels.values())
    for gpu in ("cuda", "metal"):
        _, theirs = emulated(kernels[gpu], name, GPUS[gpu], DIMS, trace=False)
        for output, want in theirs.items():
            got = ours[output]
            assert got.dtype == want.dtype
            within = WITHIN * np.abs(want).max() if is_free and want.dtype == np.float32 else 0
            exact = got.astype(np.float64), want.astype(np.float64)
            np.testing.assert_allclose(*exact, rtol=0, atol=within)

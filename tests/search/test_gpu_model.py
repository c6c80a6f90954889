"""The model that orders schedules for GPUs: what it must see, whatever its figures are."""

import pytest

import luminal_lab as ll
from luminal_lab.kernels.definition.text import parse_definition
from luminal_lab.kernels.steps.schedule import parse_schedule
from luminal_lab.search.gpu_model import Estimate, estimate
from luminal_lab.search.modelled import ModelledPlace
from tests.search.planted import matmul

PLACE = ModelledPlace.of(ll.CUDACompiler(arch="sm_80"))
COPY = "kernel f(x: f32[4096, 4096]) -> (y: f32[4096, 4096])\n  y[i < 4096, j < 4096] = x[i, j]"
PRODUCT = matmul(2048, 2048, 2048)


def told(text: str, schedule: str | None = None, place: ModelledPlace = PLACE) -> Estimate:
    """Return what the model says of a definition by a schedule, or by the default one."""
    steps = None if schedule is None else parse_schedule(schedule)
    kernel = place.maker.kernel(parse_definition(text), "f", steps)
    assert kernel.nest is not None
    return estimate(kernel.nest, place.card, None, [phase.function for phase in kernel.phases])


ALONG = """split j by 256 as block, thread
bind i, j.block to block
bind j.thread to thread"""
ACROSS = """split i by 256 as block, thread
reorder i.block, j, i.thread
bind i.block, j to block
bind i.thread to thread"""


def test_neighbouring_threads_should_read_neighbours():
    along, across = told(COPY, ALONG), told(COPY, ACROSS)
    assert along.seconds * 2 < across.seconds
    assert (along.bound, across.bound) == ("memory", "cache")


def test_tiles_are_better_than_none():
    assert told(PRODUCT).seconds * 2 < told(PRODUCT, ALONG).seconds


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_tensor_units_are_faster(arch: str):
    place = ModelledPlace.of(ll.CUDACompiler(arch=arch))
    half = told(PRODUCT.replace("f32", "f16"), place=place)
    assert half.seconds * 2 < told(PRODUCT, place=place).seconds


def test_no_time_is_below_the_machines_limit():
    card = PLACE.card
    peak = card.peak("float32")
    assert peak is not None
    assert told(PRODUCT).seconds >= 2 * 2048**3 / peak.flops.value
    assert told(COPY).seconds >= 2 * 4 * 4096**2 / card.bandwidth.value

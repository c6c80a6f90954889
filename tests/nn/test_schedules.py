"""Learning rates that change, against PyTorch's schedulers."""

from typing import Any

import numpy as np
import pytest

from luminal_lab import nn
from luminal_lab.errors import ArgumentError, GraphError, LabError, RangeError
from luminal_lab.nn import schedules
from luminal_lab.session import Graph
from tests.expect import error_of
from tests.nn.optim.witness import compare

STEPS = 30
HALF: Any = 2.5


def curve(schedule, steps=STEPS):
    cx = Graph()
    rates = schedule(cx.arange(steps)).retrieve()
    cx.execute()
    return rates.numpy()


def theirs(torch, make, lr=0.1, steps=STEPS):
    """Return the learning rates of the first steps with one of PyTorch's schedulers."""
    optimiser = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr)
    scheduler = make(optimiser, torch.optim.lr_scheduler)
    rates = []
    for _ in range(steps):
        rates.append(optimiser.param_groups[0]["lr"])
        optimiser.step()
        scheduler.step()
    return np.array(rates)


def warm_cosine(optimiser, schedulers):
    first = schedulers.LinearLR(optimiser, start_factor=0.01, total_iters=5)
    then = schedulers.CosineAnnealingLR(optimiser, STEPS - 5, 1e-3)
    return schedulers.SequentialLR(optimiser, [first, then], [5])


@pytest.mark.parametrize(
    ("ours", "make"),
    [
        (schedules.StepDecay(0.1, 7), lambda o, s: s.StepLR(o, 7)),
        (schedules.StepDecay(0.1, 4, 0.5), lambda o, s: s.StepLR(o, 4, 0.5)),
        (schedules.Exponential(0.1, 0.9), lambda o, s: s.ExponentialLR(o, 0.9)),
        (schedules.Linear(0.1, 12), lambda o, s: s.LinearLR(o, total_iters=12)),
        (schedules.Linear(0.1, 12, 1.0, 0.2), lambda o, s: s.LinearLR(o, 1.0, 0.2, 12)),
        (schedules.Cosine(0.1, STEPS), lambda o, s: s.CosineAnnealingLR(o, STEPS)),
        (schedules.Cosine(0.1, STEPS, 0.02), lambda o, s: s.CosineAnnealingLR(o, STEPS, 0.02)),
        (schedules.Warmup(5, schedules.Cosine(0.1, STEPS - 5, 1e-3)), warm_cosine),
        (schedules.Warmup(6, 0.1, 0.5), lambda o, s: s.LinearLR(o, 0.5, total_iters=6)),
        (schedules.OneCycle(0.1, STEPS), lambda o, s: s.OneCycleLR(o, 0.1, STEPS)),
        (
            schedules.OneCycle(0.1, STEPS, 0.5, 10, 100),
            lambda o, s: s.OneCycleLR(
                o, 0.1, STEPS, pct_start=0.5, div_factor=10, final_div_factor=100
            ),
        ),
    ],
    ids=lambda value: value.__class__.__name__,
)
def test_curves(torch, ours, make):
    found, wanted = curve(ours), theirs(torch, make)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-9)


def test_after_their_steps_they_stay():
    assert curve(schedules.Cosine(0.1, 3, 0.01), 8)[3:] == pytest.approx([0.01] * 5)
    assert curve(schedules.Linear(0.1, 3), 8)[3:] == pytest.approx([0.1] * 5)
    assert curve(schedules.OneCycle(0.1, 4), 8)[3:] == pytest.approx([0.1 / 25 / 1e4] * 5)


@pytest.mark.parametrize("name", ["SGD", "Adam"])
def test_in_training(torch, name):
    compare(
        torch,
        lambda: getattr(nn, name)(schedules.Warmup(5, schedules.Cosine(0.02, 35))),
        lambda w: getattr(torch.optim, name)(w, 0.02),
        schedule=lambda o: torch.optim.lr_scheduler.SequentialLR(
            o,
            [
                torch.optim.lr_scheduler.LinearLR(o, 0.01, total_iters=5),
                torch.optim.lr_scheduler.CosineAnnealingLR(o, 35),
            ],
            [5],
        ),
    )


def test_any_function_of_the_step_is_a_schedule(torch):
    compare(
        torch,
        lambda: nn.SGD(lambda step: 0.02 / (step + 1)),
        lambda w: torch.optim.SGD(w, 0.02),
        schedule=lambda o: torch.optim.lr_scheduler.LambdaLR(o, lambda k: 1 / (k + 1)),
    )


def test_they_are_values():
    assert schedules.Cosine(0.1, 100) == schedules.Cosine(0.1, 100, 0.0)
    assert str(schedules.Warmup(5, schedules.Cosine(0.1, 100))) == (
        "Warmup(steps=5, then=Cosine(lr=0.1, steps=100, least=0.0), start=0.01)"
    )


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (
            lambda: schedules.Cosine(-0.1, 5),
            RangeError,
            "Cosine: lr is -0.1, and must be 0 or more",
        ),
        (lambda: schedules.Cosine(0.1, 0), LabError, "Cosine: steps is 0"),
        (
            lambda: schedules.StepDecay(0.1, HALF),
            LabError,
            "StepDecay: every is 2.5",
        ),
        (
            lambda: schedules.Exponential(0.1, 0),
            RangeError,
            "Exponential: factor is 0, and must be above 0",
        ),
        (
            lambda: schedules.OneCycle(0.1, 5, 1.0),
            RangeError,
            "OneCycle: rising is 1.0, and must be 0 or more and below 1",
        ),
        (
            lambda: schedules.Warmup(5, "cosine"),  # pyright: ignore[reportArgumentType]
            ArgumentError,
            "Warmup: then is 'cosine' and not a number",
        ),
        (
            lambda: schedules.Cosine(0.1, 5)(HALF),
            GraphError,
            "Cosine: the step is 2.5 and not a tensor",
        ),
    ],
)
def test_errors(call, kind, message):
    error = error_of(call, kind)
    assert error.message == message
    assert error.hint
    assert "test_schedules.py" in str(error.where)

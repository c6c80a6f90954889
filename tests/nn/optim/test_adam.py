"""Adam and AdamW, against PyTorch."""

import numpy as np
import pytest

from luminal_lab import nn
from luminal_lab.errors import ArgumentError, RangeError
from luminal_lab.session import Graph
from luminal_lab.tensor.parameter import Parameter
from tests.expect import error_of
from tests.nn.optim.witness import compare


@pytest.mark.parametrize("name", ["Adam", "AdamW"])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"betas": (0.5, 0.9), "eps": 1e-3},
        {"weight_decay": 0.1},
        {"betas": (0.0, 0.99), "weight_decay": 0.0},
    ],
    ids=str,
)
def test_steps(torch, name, options):
    compare(
        torch,
        lambda: getattr(nn, name)(0.01, **options),
        lambda w: getattr(torch.optim, name)(w, 0.01, **options),
        steps=60,
    )


def test_a_schedule_moves_the_decay_of_adamw_too(torch):
    compare(
        torch,
        lambda: nn.AdamW(nn.schedules.Exponential(0.02, 0.9), weight_decay=0.3),
        lambda w: torch.optim.AdamW(w, 0.02, weight_decay=0.3),
        schedule=lambda o: torch.optim.lr_scheduler.ExponentialLR(o, 0.9),
    )


def test_halves_keep_their_averages_in_float32():
    w = Parameter((2,), "float16", value=[1.0, -2.0], name="w")
    cx = Graph()
    loss = (cx.parameter(w).float() * 1e-2).square().sum()  # no half holds a gradient's square
    optimiser = nn.Adam(0.5)
    optimiser.minimise(loss)
    cx.execute()
    assert w.value.dtype == np.float16
    assert w.value.tolist() == pytest.approx([0.5, -1.5], abs=0.02)
    assert {str(v.dtype) for v in optimiser.state_dict().values()} == {"float32"}


def test_the_decay_may_differ_by_weight():
    w, b = Parameter((1, 1), value=[[1.0]], name="w"), Parameter((1,), value=[1.0], name="b")
    cx = Graph()
    loss = cx.parameter(w).sum() * 0.0 + cx.parameter(b).sum() * 0.0
    nn.AdamW(0.1, weight_decay=lambda p: 0.5 if len(p.shape) > 1 else 0.0).minimise(loss)
    cx.execute()
    assert (w.value.item(), b.value.item()) == (pytest.approx(0.95), 1.0)


def test_one_weight_costs_thirteen_nodes_and_what_they_are_given():
    cx = Graph()
    w = cx.tensor((3, 2), name="w").set([[1.0, 2.0]] * 3)
    nn.Adam(0.1).step({"w": w}, {"w": cx.tensor((3, 2))})
    ops = [node.op.name for node in cx.ir if node.meta.scope == "adam.w"]
    work = [op for op in ops if op not in ("constant", "input", "reshape", "expand")]
    assert (len(work), len(ops)) == (13, 23)


def test_errors():
    for call, message in (
        (
            lambda: nn.Adam(0.1, betas=(0.9, 1.0)),
            "Adam: betas[1] is 1.0, and must be 0 or more and below 1\nhint: try 0.1",
        ),
        (
            lambda: nn.AdamW(0.1, betas=(-0.9, 0.9)),
            "AdamW: betas[0] is -0.9, and must be 0 or more and below 1\nhint: try 0.9",
        ),
        (
            lambda: nn.Adam(0.1, eps=-1e-8),
            "Adam: eps is -1e-08, and must be 0 or more\nhint: try 1e-08",
        ),
    ):
        error = error_of(call, RangeError)
        assert f"{error.message}\nhint: {error.hint}" == message
    error = error_of(lambda: nn.Adam(0.1, betas=0.9), ArgumentError)  # pyright: ignore[reportArgumentType]
    assert (error.message, error.hint) == (
        "Adam: betas is 0.9, and must be two numbers",
        "try betas=(0.9, 0.999)",
    )

"""Gradient descent, against PyTorch."""

import pytest

from luminal_lab import nn
from luminal_lab.errors import ArgumentError, RangeError
from luminal_lab.session import Graph
from tests.expect import error_of
from tests.nn.optim.witness import compare


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"momentum": 0.9},
        {"momentum": 0.9, "nesterov": True},
        {"momentum": 0.9, "dampening": 0.5},
        {"weight_decay": 0.1},
        {"momentum": 0.5, "weight_decay": 0.1, "nesterov": True},
    ],
    ids=str,
)
def test_steps(torch, options):
    compare(
        torch,
        lambda: nn.SGD(0.01, **options),
        lambda w: torch.optim.SGD(w, 0.01, **options),
    )


def test_float64(torch):
    compare(
        torch,
        lambda: nn.SGD(0.01, momentum=0.9),
        lambda w: torch.optim.SGD(w, 0.01, momentum=0.9),
        dtype="float64",
        rtol=1e-12,
    )


def test_one_weight_costs_four_nodes_and_two_constants():
    cx = Graph()
    w = cx.tensor((3, 2), name="w").set([[1.0, 2.0]] * 3)
    before = cx.next_id
    nn.SGD(0.1, momentum=0.9).step({"w": w}, {"w": cx.tensor((3, 2))})
    ops = [cx.node(id).op.name for id in range(before, cx.next_id)]
    assert sorted(ops) == ["add", "add", "constant", "constant", "input", "input", "mul", "mul"]


def test_errors():
    for call, message in (
        (lambda: nn.SGD(-0.1), "SGD: lr is -0.1, and must be 0 or more\nhint: try 0.1"),
        (
            lambda: nn.SGD(0.1, momentum=-1),
            "SGD: momentum is -1, and must be 0 or more\nhint: try 1",
        ),
        (
            lambda: nn.SGD(0.1, weight_decay=-1e-2),
            "SGD: weight_decay is -0.01, and must be 0 or more\nhint: try 0.01",
        ),
    ):
        error = error_of(call, RangeError)
        assert f"{error.message}\nhint: {error.hint}" == message
        assert "test_sgd.py" in str(error.where)
    error = error_of(lambda: nn.SGD(0.1, nesterov=True), ArgumentError)
    assert error.message == (
        "SGD: nesterov needs a momentum and no dampening, but these are 0.0 and 0.0"
    )
    assert error.hint == "try momentum=0.9, nesterov=True"
    error = error_of(lambda: nn.SGD("fast"), ArgumentError)  # pyright: ignore[reportArgumentType]
    assert error.message == "SGD: lr is 'fast' and not a number"

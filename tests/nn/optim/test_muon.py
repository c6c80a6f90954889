"""Muon, against its formula in NumPy, and roughly against PyTorch, which computes in bfloat16."""

import numpy as np
import pytest

from luminal_lab import nn
from luminal_lab.errors import ArgumentError, RangeError, ShapeError
from luminal_lab.session import Graph
from luminal_lab.tensor.parameter import Parameter
from tests.expect import error_of


def orthogonal(x: np.ndarray, steps: int = 5) -> np.ndarray:
    a, b, c = 3.4445, -4.775, 2.0315
    wide = x.T if x.shape[0] > x.shape[1] else x
    wide = wide / max(np.linalg.norm(wide), 1e-7)
    for _ in range(steps):
        square = wide @ wide.T
        wide = a * wide + (b * square + c * square @ square) @ wide
    return wide.T if x.shape[0] > x.shape[1] else wide


@pytest.mark.parametrize("shape", [(5, 3), (3, 5), (4, 4)], ids=str)
@pytest.mark.parametrize(
    "options",
    [{}, {"nesterov": False}, {"momentum": 0.5, "weight_decay": 0.0},
     {"adjust_lr_fn": "match_rms_adamw"}],
    ids=str,
)  # fmt: skip
def test_steps(torch, shape, options):
    rng = np.random.default_rng(0)
    start, target = rng.normal(size=shape), rng.normal(size=shape).astype("float32")
    w = Parameter(shape, value=start, name="w")
    cx = Graph()
    away = cx.parameter(w) - cx.tensor(shape).set(target)
    nn.Muon(0.05, **options).minimise((away * away).sum())
    theirs = torch.tensor(w.value.copy(), requires_grad=True)
    muon = torch.optim.Muon([theirs], 0.05, **options)
    known = w.value.astype(np.float64)
    mean = np.zeros(shape)
    mu, decay = options.get("momentum", 0.95), options.get("weight_decay", 0.1)
    rows, columns = shape
    size = max(1, rows / columns) ** 0.5
    size = 0.2 * max(shape) ** 0.5 if "adjust_lr_fn" in options else size
    for _ in range(10):
        cx.execute()
        slope = 2 * (known - target)
        mean = mean * mu + slope * (1 - mu)
        way = slope * (1 - mu) + mean * mu if options.get("nesterov", True) else mean
        known = known * (1 - 0.05 * decay) - 0.05 * size * orthogonal(way)
        np.testing.assert_allclose(np.asarray(w.value, np.float64), known, rtol=2e-4, atol=2e-5)
        muon.zero_grad()
        ((theirs - torch.tensor(target)) ** 2).sum().backward()
        muon.step()
    np.testing.assert_allclose(np.asarray(w.value, np.float64), theirs.detach().numpy(), atol=0.03)


def test_a_gradient_of_zeros_moves_nothing():
    w = Parameter((2, 2), value=[[1.0, 2.0], [3.0, 4.0]], name="w")
    cx = Graph()
    nn.Muon(0.1, weight_decay=0.0).minimise((cx.parameter(w) * 0.0).sum())
    cx.execute()
    assert w.value.tolist() == [[1.0, 2.0], [3.0, 4.0]]


def test_errors():
    cx = Graph()
    bias = Parameter((3,), name="bias")
    for call, kind, message in (
        (
            lambda: nn.Muon().minimise(cx.parameter(bias).sum()),
            ShapeError,
            "Muon: the weight %bias (3,) is (3,), and no matrix\n"
            "hint: minimise the matrices with Muon, and the other weights with AdamW",
        ),
        (
            lambda: nn.Muon(ns_coefficients=(1.0, 2.0)),  # pyright: ignore[reportArgumentType]
            ArgumentError,
            "Muon: ns_coefficients is (1.0, 2.0), and must be three numbers\n"
            "hint: try (3.4445, -4.775, 2.0315)",
        ),
        (
            lambda: nn.Muon(adjust_lr_fn="adam"),  # pyright: ignore[reportArgumentType]
            ArgumentError,
            "Muon: there is no adjust_lr_fn 'adam'\n"
            "hint: it is None, 'original' or 'match_rms_adamw'",
        ),
        (
            lambda: nn.Muon(momentum=1.0),
            RangeError,
            "Muon: momentum is 1.0, and must be 0 or more and below 1\nhint: try 0.1",
        ),
    ):
        error = error_of(call, kind)
        assert f"{error.message}\nhint: {error.hint}" == message

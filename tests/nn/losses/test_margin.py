"""Losses of comparisons, against PyTorch."""

import numpy as np
import pytest

from luminal_lab.nn import losses
from tests.nn.losses.witness import agree
from tests.tensor.against import draw

REDUCTIONS = ["mean", "sum", "none"]
SIGNS = np.array([1, -1, 1, -1, 1, -1], np.float32)


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_signs(torch, reduction):
    functional = torch.nn.functional
    for name in ("hinge_embedding_loss", "soft_margin_loss"):
        agree(
            torch,
            lambda x, y, n=name: getattr(losses, n)(x, y, reduction=reduction),
            lambda x, y, n=name: getattr(functional, n)(x, y, reduction=reduction),
            draw((6,)),
            SIGNS,
        )


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("margin", [0.0, 0.5])
def test_pairs(torch, margin, reduction):
    functional = torch.nn.functional
    agree(
        torch,
        lambda a, b, y: losses.margin_ranking_loss(a, b, y, margin, reduction),
        lambda a, b, y: functional.margin_ranking_loss(a, b, y, margin=margin, reduction=reduction),
        draw((6,)),
        draw((6,), seed=1),
        SIGNS,
        wrt=(0, 1),
    )
    agree(
        torch,
        lambda a, b, y: losses.cosine_embedding_loss(a, b, y, margin, reduction),
        lambda a, b, y: functional.cosine_embedding_loss(
            a, b, y, margin=margin, reduction=reduction
        ),
        draw((6, 4)),
        draw((6, 4), seed=1),
        SIGNS,
        wrt=(0, 1),
    )


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("swap", [False, True])
def test_triplets(torch, swap, reduction):
    agree(
        torch,
        lambda a, b, c: losses.triplet_margin_loss(a, b, c, swap=swap, reduction=reduction),
        lambda a, b, c: torch.nn.functional.triplet_margin_loss(
            a, b, c, swap=swap, reduction=reduction
        ),
        draw((6, 4)),
        draw((6, 4), seed=1),
        draw((6, 4), seed=2),
        wrt=(0, 1, 2),
    )


def test_far_predictions_do_not_overflow(torch):
    x = np.array([1e4, -1e4], np.float32)
    agree(
        torch,
        lambda a, y: losses.soft_margin_loss(a, y, reduction="none"),
        lambda a, y: -torch.nn.functional.logsigmoid(a * y),
        x,
        np.array([-1, -1], np.float32),
    )

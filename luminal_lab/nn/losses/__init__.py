"""Losses, named and called as in torch.nn.functional: the prediction first, then the target.

Each is a number by default: `reduction` is "mean", "sum", or "none" for the loss of each element.
Halves are computed in float32. The shapes of prediction and target must be equal.
"""

from luminal_lab.nn.losses.classification import (
    binary_cross_entropy,
    binary_cross_entropy_with_logits,
    cross_entropy,
    multilabel_soft_margin_loss,
    nll_loss,
)
from luminal_lab.nn.losses.margin import (
    cosine_embedding_loss,
    hinge_embedding_loss,
    margin_ranking_loss,
    soft_margin_loss,
    triplet_margin_loss,
)
from luminal_lab.nn.losses.regression import (
    gaussian_nll_loss,
    huber_loss,
    kl_div,
    l1_loss,
    mae_loss,
    mse_loss,
    poisson_nll_loss,
    rmse_loss,
    smooth_l1_loss,
)

__all__ = [
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "cosine_embedding_loss",
    "cross_entropy",
    "gaussian_nll_loss",
    "hinge_embedding_loss",
    "huber_loss",
    "kl_div",
    "l1_loss",
    "mae_loss",
    "margin_ranking_loss",
    "mse_loss",
    "multilabel_soft_margin_loss",
    "nll_loss",
    "poisson_nll_loss",
    "rmse_loss",
    "smooth_l1_loss",
    "soft_margin_loss",
    "triplet_margin_loss",
]

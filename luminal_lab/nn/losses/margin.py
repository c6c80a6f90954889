"""Losses of comparisons: near or far, above or below, by a margin."""

from __future__ import annotations

from luminal_lab.nn.losses.reduction import loss, paired, reduced
from luminal_lab.tensor import Tensor
from luminal_lab.tensor.arithmetic import Operand
from luminal_lab.tensor.functions import number


@loss
def hinge_embedding_loss(
    prediction: Tensor, target: Operand, margin: float = 1.0, reduction: str = "mean"
) -> Tensor:
    """Return a distance where the target is 1, and its shortfall from the margin where it is -1.

    >>> import luminal_lab as ll
    >>> from luminal_lab import nn
    >>> cx = ll.Graph()
    >>> x = cx.tensor((2,), name="x").set([0.5, 0.2])
    >>> loss = nn.hinge_embedding_loss(x, [1.0, -1.0]).retrieve()
    >>> cx.execute()
    >>> round(loss.item(), 4)
    0.65
    """
    what = "hinge_embedding_loss"
    dtype, (x, y) = paired(what, prediction, target)
    lack = (-x + number(what, "margin", margin)).clip(min=0.0)
    value = y.eq(1).where(0.0, lack) + y.eq(-1).where(0.0, x)
    return reduced(what, value, reduction, dtype)


@loss
def margin_ranking_loss(
    first: Tensor, second: Operand, target: Operand, margin: float = 0.0, reduction: str = "mean"
) -> Tensor:
    """Return the first's shortfall above the second by the margin (below it for a target of -1).

    >>> import luminal_lab as ll
    >>> from luminal_lab import nn
    >>> cx = ll.Graph()
    >>> x = cx.tensor((2,), name="x").set([0.3, 0.8])
    >>> loss = nn.margin_ranking_loss(x, [0.5, 0.1], [1.0, 1.0]).retrieve()
    >>> cx.execute()
    >>> round(loss.item(), 4)
    0.1
    """
    what = "margin_ranking_loss"
    dtype, (a, b, y) = paired(what, first, second, target)
    value = (number(what, "margin", margin) - y * (a - b)).clip(min=0.0)
    return reduced(what, value, reduction, dtype)


@loss
def soft_margin_loss(prediction: Tensor, target: Operand, reduction: str = "mean") -> Tensor:
    """Return log(1 + exp(-target · prediction)), where the target is 1 or -1.

    >>> import luminal_lab as ll
    >>> from luminal_lab import nn
    >>> cx = ll.Graph()
    >>> x = cx.tensor((2,), name="x").set([2.0, -1.0])
    >>> loss = nn.soft_margin_loss(x, [1.0, -1.0]).retrieve()
    >>> cx.execute()
    >>> round(loss.item(), 4)
    0.2201
    """
    what = "soft_margin_loss"
    dtype, (x, y) = paired(what, prediction, target)
    return reduced(what, -(x * y).log_sigmoid(), reduction, dtype)


@loss
def cosine_embedding_loss(
    first: Tensor, second: Operand, target: Operand, margin: float = 0.0, reduction: str = "mean"
) -> Tensor:
    """Return 1 - cos of vectors where the target is 1, and cos - margin where it is -1.

    >>> import luminal_lab as ll
    >>> from luminal_lab import nn
    >>> cx = ll.Graph()
    >>> x = cx.tensor((1, 2), name="x").set([[1.0, 0.0]])
    >>> loss = nn.cosine_embedding_loss(x, [[0.0, 1.0]], [1.0]).retrieve()
    >>> cx.execute()
    >>> round(loss.item(), 4)
    1.0
    """
    what = "cosine_embedding_loss"
    dtype, (a, b) = paired(what, first, second)
    dot, left, right = ((u * v).sum(-1) for u, v in ((a, b), (a, a), (b, b)))
    cosine = dot * ((left + 1e-12) * (right + 1e-12)).rsqrt()
    _, (cosine, y) = paired(what, cosine, target)
    far = (cosine - number(what, "margin", margin)).clip(min=0.0)
    value = y.eq(1).where(1.0 - cosine, 0.0) + y.eq(-1).where(far, 0.0)
    return reduced(what, value, reduction, dtype)


@loss
def triplet_margin_loss(
    anchor: Tensor,
    positive: Operand,
    negative: Operand,
    margin: float = 1.0,
    p: float = 2.0,
    eps: float = 1e-6,
    swap: bool = False,
    reduction: str = "mean",
) -> Tensor:
    """Return the shortfall from the margin of the negative's extra distance over the positive's.

    With `swap` the negative's distance is the smaller one of those to the anchor and the positive.

    >>> import luminal_lab as ll
    >>> from luminal_lab import nn
    >>> cx = ll.Graph()
    >>> x = cx.tensor((1, 2), name="x").set([[0.0, 0.0]])
    >>> loss = nn.triplet_margin_loss(x, [[0.0, 1.0]], [[0.0, 3.0]]).retrieve()
    >>> cx.execute()
    >>> round(loss.item(), 4)
    0.0
    """
    what = "triplet_margin_loss"
    dtype, (a, near, far) = paired(what, anchor, positive, negative)
    distance = a.pairwise_distance(far, p, eps)
    if swap:
        distance = distance.minimum(near.pairwise_distance(far, p, eps))
    gap = a.pairwise_distance(near, p, eps) - distance + number(what, "margin", margin)
    return reduced(what, gap.clip(min=0.0), reduction, dtype)

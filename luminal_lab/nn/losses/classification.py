"""Losses of classes: cross entropies of numbers of classes, probabilities, and yes-or-no labels."""

from __future__ import annotations

# Losses use the private building blocks of tensors.
# pyright: reportPrivateUsage=false
import math

import numpy as np

from luminal_lab.core.dims import Expr
from luminal_lab.core.dtypes import DType
from luminal_lab.core.op import tuple_text
from luminal_lab.core.ops import MaxReduce
from luminal_lab.errors import ArgumentError, DTypeError, RangeError, ShapeError
from luminal_lab.nn.losses.reduction import (
    check_reduction,
    loss,
    paired,
    reduced,
    weighed,
    weights_for,
)
from luminal_lab.tensor import Tensor, formulas
from luminal_lab.tensor.arithmetic import Operand
from luminal_lab.tensor.formulas import LOG2E
from luminal_lab.tensor.functions import number, widened


@loss
def cross_entropy(
    logits: Tensor,
    target: Operand,
    weight: Operand | None = None,
    ignore_index: int | None = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
    *,
    axis: int | None = None,
) -> Tensor:
    """Return -log of the probability that logits give to the target.

    The target is the number of a class for each row of logits (integers), or a probability for
    each class (floats of the shape of the logits). Classes lie along axis 1, or as `axis` says.
    For class numbers, the mean is over the rows that are not ignored, weighted by class.
    A probability of 0 costs nothing, even where the logit is -inf.

    >>> import luminal_lab as ll
    >>> from luminal_lab.nn import losses
    >>> cx = ll.Graph()
    >>> logits = cx.tensor((2, 3), name="logits").set([[2.0, 0.0, 0.0], [0.0, 9.0, 0.0]])
    >>> loss = losses.cross_entropy(logits, [0, 1]).retrieve()
    >>> cx.execute()
    >>> round(loss.item(), 4)
    0.1199
    """
    what = "cross_entropy"
    axis = _class_axis(what, logits, axis)
    given = logits._tensor_of(target)
    dtype = logits._as_float().dtype
    x = widened(logits._as_float())
    # The logarithm of the softmax is `below` minus `total`, whatever is subtracted from x.
    below = x + -x._reduced(MaxReduce, (axis,)).detach()
    total = (below * LOG2E).exp2().sum(axis, keepdim=True).log()
    smoothing = number(what, "label_smoothing", label_smoothing)
    if not 0 <= smoothing <= 1:
        raise RangeError(
            f"{what}: label_smoothing is {label_smoothing}, and must be from 0 to 1",
            hint="try label_smoothing=0.1",
        )
    scale = None if weight is None else _class_weights(what, x, weight, axis)
    if given.dtype.is_float:
        _check_probabilities(what, logits, given, axis)
        share = given.cast(x.dtype)
        if smoothing:
            even = x.full_like(smoothing)._over(x.shape[axis])
            share = share * (1 - smoothing) + even
        logarithm = below - total
        losses = -weighed(share, logarithm if scale is None else logarithm * scale).sum(axis)
        return reduced(what, losses, reduction, dtype)
    used, classes = _classes(what, logits, given, axis, ignore_index)
    losses = (total - below.gather(axis, classes.unsqueeze(axis))).squeeze(axis)
    factor = None if scale is None else scale.flatten()._take(0, classes)
    losses = losses if factor is None else losses * factor
    if smoothing:
        even = total - below
        even = (even if scale is None else even * scale).sum(axis)
        losses = losses * (1 - smoothing) + even._over(x.shape[axis]) * smoothing
    return _reduced_classes(what, losses, used, factor, reduction).cast(dtype)


@loss
def nll_loss(
    log_probabilities: Tensor,
    target: Operand,
    weight: Operand | None = None,
    ignore_index: int | None = -100,
    reduction: str = "mean",
    *,
    axis: int | None = None,
) -> Tensor:
    """Return the negative of the log-probability of each target, which is the number of a class.

    >>> import luminal_lab as ll
    >>> from luminal_lab.nn import losses
    >>> cx = ll.Graph()
    >>> logits = cx.tensor((2, 3), name="logits")
    >>> losses.nll_loss(logits.log_softmax(1), [0, 1]).shape
    ()
    """
    what = "nll_loss"
    axis = _class_axis(what, log_probabilities, axis)
    given = log_probabilities._tensor_of(target)
    dtype = log_probabilities._as_float().dtype
    x = widened(log_probabilities._as_float())
    if given.dtype.is_float:
        raise DTypeError(
            f"{what}: the target {given.label} is {given.dtype}, and must hold the numbers of "
            "classes",
            hint='write target.cast("int64"), or cross_entropy for probabilities',
        )
    used, classes = _classes(what, log_probabilities, given, axis, ignore_index)
    losses = -x.gather(axis, classes.unsqueeze(axis)).squeeze(axis)
    scale = None if weight is None else _class_weights(what, x, weight, axis)
    factor = None if scale is None else scale.flatten()._take(0, classes)
    losses = losses if factor is None else losses * factor
    return _reduced_classes(what, losses, used, factor, reduction).cast(dtype)


@loss
def binary_cross_entropy(
    probabilities: Tensor, target: Operand, weight: Operand | None = None, reduction: str = "mean"
) -> Tensor:
    """Return -log of the probability of yes-or-no labels; a logarithm counts as -100 at least.

    Where a logarithm counts as -100 its gradient is 0. `binary_cross_entropy_with_logits` is exact
    everywhere.

    >>> import luminal_lab as ll
    >>> from luminal_lab import nn
    >>> cx = ll.Graph()
    >>> x = cx.tensor((2,), name="x").set([0.9, 0.2])
    >>> loss = nn.binary_cross_entropy(x, [1.0, 0.0]).retrieve()
    >>> cx.execute()
    >>> round(loss.item(), 4)
    0.1643
    """
    what = "binary_cross_entropy"
    dtype, (p, y) = paired(what, probabilities, target)
    never, always = (p >= 0) & (p <= math.exp(-100)), p.eq(1)
    yes = never.where(-100.0, never.where(1.0, p).log()).clip(min=-100.0)
    no = always.where(-100.0, always.where(0.0, -p).log1p()).clip(min=-100.0)
    losses = -(y * yes + (-y + 1.0) * no)
    losses = losses if weight is None else losses * weights_for(what, losses, weight)
    return reduced(what, losses, reduction, dtype)


@loss
def binary_cross_entropy_with_logits(
    logits: Tensor,
    target: Operand,
    weight: Operand | None = None,
    reduction: str = "mean",
    pos_weight: Operand | None = None,
) -> Tensor:
    """Return -log of the probability of yes-or-no labels, from predictions before the sigmoid.

    It is log(1 + exp(-|x|)) + |x| · (the share of the label that is against the sign of x).

    >>> import luminal_lab as ll
    >>> from luminal_lab.nn import losses
    >>> cx = ll.Graph()
    >>> x = cx.tensor((3,), name="x").set([1e4, -1e4, 0.0])
    >>> each = losses.binary_cross_entropy_with_logits(x, [1, 1, 0], reduction="none").retrieve()
    >>> cx.execute()
    >>> each.tolist()
    [0.0, 10000.0, 0.6931471824645996]
    """
    what = "binary_cross_entropy_with_logits"
    dtype, (x, y) = paired(what, logits, target)
    negative, power = formulas.falling(x)
    near, no = formulas.log1p(power), -y + 1.0
    yes = y if pos_weight is None else y * weights_for(what, y, pos_weight)
    near = near if pos_weight is None else near * (yes + no)
    losses = near + weighed(negative.where(yes, no), formulas.magnitude(x))
    losses = losses if weight is None else losses * weights_for(what, losses, weight)
    return reduced(what, losses, reduction, dtype)


@loss
def multilabel_soft_margin_loss(
    logits: Tensor, target: Operand, weight: Operand | None = None, reduction: str = "mean"
) -> Tensor:
    """Return the mean over the last axis of yes-or-no cross entropies.

    >>> import luminal_lab as ll
    >>> from luminal_lab import nn
    >>> cx = ll.Graph()
    >>> x = cx.tensor((1, 2), name="x").set([[2.0, -1.0]])
    >>> loss = nn.multilabel_soft_margin_loss(x, [[1.0, 0.0]]).retrieve()
    >>> cx.execute()
    >>> round(loss.item(), 4)
    0.2201
    """
    what = "multilabel_soft_margin_loss"
    dtype, (x, y) = paired(what, logits, target)
    negative, power = formulas.falling(x)
    against = weighed(negative.where(y, -y + 1.0), formulas.magnitude(x))
    losses = formulas.log1p(power) + against
    losses = losses if weight is None else losses * weights_for(what, losses, weight)
    return reduced(what, losses.mean(-1), reduction, dtype)


# -- what they share --------------------------------------------------------------------------


def _class_axis(what: str, logits: Tensor, axis: int | None) -> int:
    if not logits.ndim:
        raise ShapeError(
            f"{what}: {logits.label} has no axis for classes",
            hint="logits are (classes,), (batch, classes) or (batch, classes, ...)",
        )
    return min(1, logits.ndim - 1) if axis is None else logits._axis_of(what, axis)


def _class_weights(what: str, x: Tensor, weight: Operand, axis: int) -> Tensor:
    """Return the weights of the classes, along their axis of the logits."""
    return widened(x._aligned(what, "weight", weight, (axis,))._as_float()).cast(x.dtype)


def _check_probabilities(what: str, logits: Tensor, target: Tensor, axis: int) -> None:
    if target.shape == logits.shape:
        return
    if target.shape == _rows(logits, axis):
        raise DTypeError(
            f"{what}: the target {target.label} is {target.dtype}, and numbers of classes are "
            "integers",
            hint='write target.cast("int64")',
        )
    raise ShapeError(
        f"{what}: the target {target.label} is {target.dtype}, and so holds a probability for "
        f"each class, but the logits {logits.label} have another shape",
        hint=f"give probabilities of the shape {tuple_text(logits.shape)}, or numbers of classes "
        f"of the shape {tuple_text(_rows(logits, axis))}",
    )


def _rows(logits: Tensor, axis: int) -> tuple[int | Expr, ...]:
    return logits.shape[:axis] + logits.shape[axis + 1 :]


def _classes(
    what: str, logits: Tensor, target: Tensor, axis: int, ignored: int | None
) -> tuple[Tensor | None, Tensor]:
    """Return where a target is not ignored (None for everywhere), and the class to look up."""
    if target.dtype is DType.bool_:
        raise DTypeError(
            f"{what}: the target {target.label} is bool, and must hold the numbers of classes",
            hint="for yes-or-no labels write binary_cross_entropy_with_logits",
        )
    rows = _rows(logits, axis)
    if target.shape != rows:
        hint = f"give one class for each row of logits: the shape {tuple_text(rows)}"
        if target.shape == logits.shape:
            hint = 'for probabilities write target.cast("float32"), or target.argmax(axis)'
        elif target.shape == logits.shape[:-1]:
            hint = "the classes are on the last axis: write axis=-1"
        elif target.shape == (*rows, 1):
            hint = "write target.squeeze(-1)"
        raise ShapeError(
            f"{what}: the target is {target.label} and the logits are {logits.label}, whose "
            f"classes are on axis {axis}",
            hint=hint,
        )
    is_class = isinstance(ignored, (int, np.integer)) and not isinstance(ignored, bool)
    if not is_class and ignored is not None:
        raise ArgumentError(
            f"{what}: ignore_index is {ignored!r}, and must be the number of a class",
            hint="give a whole number such as -100, or None",
        )
    low, high = target.dtype.limits
    if ignored is None or not low <= ignored <= high:
        return None, target
    mark = target.full_like(int(ignored))
    used = (target < mark) | (mark < target)
    return used, used.where(target, 0)


def _reduced_classes(
    what: str, losses: Tensor, used: Tensor | None, factor: Tensor | None, reduction: str
) -> Tensor:
    """Return the reduced losses; ignored rows do not count, the others by their weights."""
    check_reduction(what, reduction)
    losses = losses if used is None else used.where(losses, 0.0)
    if reduction == "none":
        return losses
    if reduction == "sum":
        return losses.sum()
    if used is None and factor is None:
        return losses.mean()
    if factor is None:
        assert used is not None
        factor = used.cast(losses.dtype)
    elif used is not None:
        factor = used.where(factor, 0.0)
    return losses.sum() / factor.sum()

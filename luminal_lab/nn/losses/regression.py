"""Losses of numbers: the distance of a prediction from its target, element by element."""

from __future__ import annotations

# Losses use the private building blocks of tensors.
# pyright: reportPrivateUsage=false
import math

from luminal_lab.errors import RangeError
from luminal_lab.nn.losses.reduction import loss, paired, reduced, weighed
from luminal_lab.tensor import Tensor
from luminal_lab.tensor.arithmetic import Operand
from luminal_lab.tensor.functions import number
from luminal_lab.tensor.lazy import broadcast


@loss
def mse_loss(prediction: Tensor, target: Operand, reduction: str = "mean") -> Tensor:
    """Return the mean squared error.

    >>> import luminal_lab as ll
    >>> from luminal_lab.nn import losses
    >>> cx = ll.Graph()
    >>> x = cx.tensor((2,), name="x").set([1.0, 5.0])
    >>> loss = losses.mse_loss(x, [1.0, 2.0]).retrieve()
    >>> cx.execute()
    >>> loss.item()
    4.5
    """
    dtype, (x, y) = paired("mse_loss", prediction, target)
    return reduced("mse_loss", (x - y).square(), reduction, dtype)


@loss
def rmse_loss(prediction: Tensor, target: Operand, reduction: str = "mean") -> Tensor:
    """Return the square root of `mse_loss`; its gradient is 0 where it is 0.

    >>> import luminal_lab as ll
    >>> from luminal_lab import nn
    >>> cx = ll.Graph()
    >>> x = cx.tensor((2,), name="x").set([1.0, 5.0])
    >>> loss = nn.rmse_loss(x, [1.0, 2.0]).retrieve()
    >>> cx.execute()
    >>> round(loss.item(), 4)
    2.1213
    """
    dtype, (x, y) = paired("rmse_loss", prediction, target)
    mean = reduced("rmse_loss", (x - y).square(), reduction, x.dtype)
    positive = mean > 0
    return positive.where(positive.where(mean, 1.0).sqrt(), mean).cast(dtype)


@loss
def l1_loss(prediction: Tensor, target: Operand, reduction: str = "mean") -> Tensor:
    """Return the mean absolute error.

    >>> import luminal_lab as ll
    >>> from luminal_lab import nn
    >>> cx = ll.Graph()
    >>> x = cx.tensor((2,), name="x").set([1.0, 5.0])
    >>> loss = nn.mae_loss(x, [1.0, 2.0]).retrieve()
    >>> cx.execute()
    >>> round(loss.item(), 4)
    1.5
    """
    dtype, (x, y) = paired("l1_loss", prediction, target)
    return reduced("l1_loss", (x - y).abs(), reduction, dtype)


mae_loss = l1_loss


@loss
def huber_loss(
    prediction: Tensor, target: Operand, reduction: str = "mean", delta: float = 1.0
) -> Tensor:
    """Return half the squared error, continued by a line where the error is above delta.

    >>> import luminal_lab as ll
    >>> from luminal_lab import nn
    >>> cx = ll.Graph()
    >>> x = cx.tensor((2,), name="x").set([1.0, 5.0])
    >>> loss = nn.huber_loss(x, [1.0, 2.0]).retrieve()
    >>> cx.execute()
    >>> round(loss.item(), 4)
    1.25
    """
    dtype, (x, y) = paired("huber_loss", prediction, target)
    limit = positive("huber_loss", "delta", delta)
    return reduced("huber_loss", _bent(x - y, limit), reduction, dtype)


@loss
def smooth_l1_loss(
    prediction: Tensor, target: Operand, reduction: str = "mean", beta: float = 1.0
) -> Tensor:
    """Return the absolute error minus beta / 2, with a parabola where the error is below beta.

    >>> import luminal_lab as ll
    >>> from luminal_lab import nn
    >>> cx = ll.Graph()
    >>> x = cx.tensor((2,), name="x").set([1.0, 5.0])
    >>> loss = nn.smooth_l1_loss(x, [1.0, 2.0]).retrieve()
    >>> cx.execute()
    >>> round(loss.item(), 4)
    1.25
    """
    what = "smooth_l1_loss"
    dtype, (x, y) = paired(what, prediction, target)
    if beta == 0:
        return reduced(what, (x - y).abs(), reduction, dtype)
    limit = positive(what, "beta", beta)
    return reduced(what, _bent(x - y, limit) * (1 / limit), reduction, dtype)


def _bent(error: Tensor, limit: float) -> Tensor:
    """Return error² / 2, continued by a line beyond a limit."""
    inner = error.clip(-limit, limit)
    return inner * (error - inner * 0.5)


@loss
def poisson_nll_loss(
    prediction: Tensor,
    target: Operand,
    log_input: bool = True,
    full: bool = False,
    eps: float = 1e-8,
    reduction: str = "mean",
) -> Tensor:
    """Return the Poisson loss of a count, predicted by the (logarithm of the) expected count.

    With `full` the logarithm of the factorial is added, by Stirling's formula.

    >>> import luminal_lab as ll
    >>> from luminal_lab import nn
    >>> cx = ll.Graph()
    >>> x = cx.tensor((2,), name="x").set([0.5, 1.0])
    >>> loss = nn.poisson_nll_loss(x, [1.0, 3.0]).retrieve()
    >>> cx.execute()
    >>> round(loss.item(), 4)
    0.4335
    """
    what = "poisson_nll_loss"
    dtype, (x, y) = paired(what, prediction, target)
    small = positive(what, "eps", eps)
    value = x.exp() - y * x if log_input else x - y * (x + small).log()
    if full:
        many = y > 1
        count = many.where(y, 1.0)
        stirling = count * count.log() - count + (count * (2 * math.pi)).log() * 0.5
        value = value + many.where(stirling, 0.0)
    return reduced(what, value, reduction, dtype)


@loss
def gaussian_nll_loss(
    prediction: Tensor,
    target: Operand,
    var: Operand,
    full: bool = False,
    eps: float = 1e-6,
    reduction: str = "mean",
) -> Tensor:
    """Return the Gaussian loss of a number from its predicted mean and variance.

    A variance below eps counts as eps; with `full` half the logarithm of 2π is added. There may be
    one variance for each row, or one for all.

    >>> import luminal_lab as ll
    >>> from luminal_lab import nn
    >>> cx = ll.Graph()
    >>> x = cx.tensor((2,), name="x").set([1.0, 2.0])
    >>> loss = nn.gaussian_nll_loss(x, [1.0, 3.0], [1.0, 1.0]).retrieve()
    >>> cx.execute()
    >>> round(loss.item(), 4)
    0.25
    """
    what = "gaussian_nll_loss"
    shape = broadcast(what, [prediction, prediction._tensor_of(target)])
    x, y = (prediction._tensor_of(given)._stretch(shape) for given in (prediction, target))
    spread = prediction._tensor_of(var)
    if spread.ndim and spread.shape != shape and spread.shape == shape[:-1]:
        spread = spread.unsqueeze(-1)  # one for each row
    if broadcast(what, [x, spread]) == shape:
        spread = spread._stretch(shape)
    dtype, (x, y, spread) = paired(what, x, y, spread)
    spread = spread.clip(min=positive(what, "eps", eps))
    error = x - y
    value = (spread.log() + error * error * spread.recip()) * 0.5
    return reduced(what, value + 0.5 * math.log(2 * math.pi) if full else value, reduction, dtype)


@loss
def kl_div(
    prediction: Tensor, target: Operand, reduction: str = "mean", log_target: bool = False
) -> Tensor:
    """Return target · (log(target) - prediction), where the prediction is a log-probability.

    `log_softmax` converts logits. For the divergence of whole distributions use
    `reduction="batchmean"`: the sum over the size of the first axis. Where the target is 0
    the loss is 0.

    >>> import luminal_lab as ll
    >>> from luminal_lab import nn
    >>> cx = ll.Graph()
    >>> x = cx.tensor((1, 2), name="x").set([[-0.7, -0.7]])
    >>> loss = nn.kl_div(x, [[0.5, 0.5]], reduction="sum").retrieve()
    >>> cx.execute()
    >>> round(loss.item(), 4)
    0.0069
    """
    dtype, (x, y) = paired("kl_div", prediction, target)
    if log_target:
        share = y.exp()
        value = weighed(share, (share > 0).where(y, 0.0) - x)
    else:
        value = y.xlogy(y) - weighed(y, x)
    if reduction != "batchmean":
        return reduced("kl_div", value, reduction, dtype, "batchmean")
    return (value.sum() / value.shape[0] if value.ndim else value).cast(dtype)


def positive(what: str, name: str, value: float) -> float:
    """Return an argument as a number above 0, or raise."""
    amount = number(what, name, value)
    if not amount > 0:
        raise RangeError(f"{what}: {name} is {value}, and must be above 0", hint=f"try {name}=1.0")
    return amount

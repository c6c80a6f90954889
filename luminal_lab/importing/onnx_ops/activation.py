"""Activations, and the norms and losses that are made of them."""

from __future__ import annotations

from collections.abc import Sequence

from luminal_lab.importing.onnx_ops.table import Call, Known, Refusal, Value, axis_of, method, op
from luminal_lab.tensor import Tensor

method(Relu="relu", Softsign="softsign", Mish="mish", HardSwish="hardswish", Sigmoid="sigmoid")


@op("Softplus")
def softplus(_: Call, x: Tensor) -> Tensor:
    """Return log(1 + exp(x))."""
    return x.softplus()


@op("LeakyRelu")
def leaky_relu(
    _: Call, x: Tensor, *, alpha: float = 0.01, consumed_inputs: object = None
) -> Tensor:
    """Return x, and alpha · x below 0."""
    return x.leaky_relu(alpha)


@op("PRelu")
def prelu(_: Call, x: Tensor, slope: Tensor, *, consumed_inputs: object = None) -> Tensor:
    """Return x, and slope · x below 0."""
    if slope.ndim == 1 and x.ndim > 2 and slope.shape[0] == x.shape[1] != x.shape[-1]:
        slope = slope.reshape(-1, *[1] * (x.ndim - 2))  # as older exporters wrote it
    return (x < 0).where(x * slope, x)


@op("Elu")
def elu(_: Call, x: Tensor, *, alpha: float = 1.0, consumed_inputs: object = None) -> Tensor:
    """Return x, and alpha · (exp(x) - 1) below 0."""
    return x.elu(alpha)


@op("Celu")
def celu(_: Call, x: Tensor, *, alpha: float = 1.0) -> Tensor:
    """Return x, and alpha · (exp(x / alpha) - 1) below 0."""
    return x.celu(alpha)


@op("Selu")
def selu(
    _: Call,
    x: Tensor,
    *,
    alpha: float = 1.6732632,
    gamma: float = 1.050701,
    consumed_inputs: object = None,
) -> Tensor:
    """Return gamma · x, and gamma · alpha · (exp(x) - 1) below 0."""
    return x.elu(alpha) * gamma


@op("ThresholdedRelu")
def thresholded_relu(_: Call, x: Tensor, *, alpha: float = 1.0) -> Tensor:
    """Return x above a threshold, and 0 elsewhere."""
    return (x > alpha).where(x, 0.0)


@op("Shrink")
def shrink(_: Call, x: Tensor, *, bias: float = 0.0, lambd: float = 0.5) -> Tensor:
    """Return x moved toward 0, and 0 near it."""
    bent = (x < -lambd).where(x + bias, (x > lambd).where(x - bias, 0))
    return bent.cast(x.dtype)


@op("HardSigmoid")
def hard_sigmoid(
    _: Call, x: Tensor, *, alpha: float = 0.2, beta: float = 0.5, consumed_inputs: object = None
) -> Tensor:
    """Return alpha · x + beta, between 0 and 1."""
    return (x * alpha + beta).clip(0.0, 1.0)


@op("Gelu")
def gelu(_: Call, x: Tensor, *, approximate: str = "none") -> Tensor:
    """Return x times the share of the normal distribution that is below it."""
    return x.gelu(approximate)


@op("Swish")
def swish(_: Call, x: Tensor, *, alpha: float = 1.0) -> Tensor:
    """Return x · sigmoid(alpha · x)."""
    return x * (x * alpha).sigmoid() if alpha != 1 else x.silu()


@op("Softmax", "LogSoftmax", "Hardmax")
def softmax(call: Call, x: Tensor, *, axis: int | None = None) -> Tensor:
    """Return shares along an axis; before version 13, along it and all behind it."""
    if call.opset < 13:
        first = axis_of(1 if axis is None else axis, x.ndim)
        flat = x.flatten(first, -1) if first < x.ndim - 1 else x
        return _shares(call.op, flat, first).reshape(x.shape)
    return _shares(call.op, x, axis_of(-1 if axis is None else axis, x.ndim))


def _shares(name: str, x: Tensor, axis: int) -> Tensor:
    if name == "Hardmax":
        size = x.shape[axis]
        return x.argmax(axis).one_hot(size).movedim(-1, axis).cast(x.dtype)
    return x.softmax(axis) if name == "Softmax" else x.log_softmax(axis)


# -- norms -----------------------------------------------------------------------------------------


def per_channel(value: Tensor, x: Tensor) -> Tensor:
    """Return one number a channel in a shape that is broadcast to x."""
    return value.reshape(-1, *[1] * (x.ndim - 2)) if x.ndim > 1 else value


@op("BatchNormalization")
def batch_norm(
    call: Call,
    x: Tensor,
    scale: Tensor,
    bias: Tensor,
    mean: Tensor,
    var: Tensor,
    *,
    epsilon: float = 1e-5,
    momentum: float = 0.9,
    training_mode: int = 0,
    spatial: int = 1,
    is_test: int = 1,
    consumed_inputs: object = None,
) -> Tensor | tuple[Tensor, ...]:
    """Return channels with a mean of 0 and a variance of 1, scaled and moved."""
    if not spatial:
        raise Refusal("statistics of each position (spatial=0) are not supported")
    kept = mean, var
    if training_mode or (call.opset < 7 and not is_test):
        axes = (0, *range(2, x.ndim))
        mean, var = x.mean(axes), x.var(axes, correction=0)
    factor = scale / (var + epsilon).sqrt()
    result = ((x - per_channel(mean, x)) * per_channel(factor, x) + per_channel(bias, x)).cast(
        x.dtype
    )
    if not training_mode:
        return (result, *kept)[: max(call.outputs, 1)]
    moved = [
        old * momentum + new * (1 - momentum) for old, new in zip(kept, (mean, var), strict=True)
    ]
    return (result, *(new.cast(old.dtype) for new, old in zip(moved, kept, strict=True)))


@op("InstanceNormalization")
def instance_norm(
    _: Call,
    x: Tensor,
    scale: Tensor,
    bias: Tensor,
    *,
    epsilon: float = 1e-5,
    consumed_inputs: object = None,
) -> Tensor:
    """Return each channel of each example with a mean of 0 and a variance of 1."""
    y = x.layer_norm(tuple(range(2, x.ndim)), epsilon)
    return y * per_channel(scale, x) + per_channel(bias, x)


@op("LayerNormalization")
def layer_norm(
    call: Call,
    x: Tensor,
    scale: Tensor,
    bias: Tensor | None = None,
    *,
    axis: int = -1,
    epsilon: float = 1e-5,
    stash_type: int = 1,
) -> Tensor | tuple[Tensor, ...]:
    """Return the last axes with a mean of 0 and a variance of 1."""
    axes = tuple(range(axis_of(axis, x.ndim), x.ndim))
    wide = x.cast("float32") if x.dtype.is_half else x
    y = wide.layer_norm(axes, epsilon).cast(x.dtype) * scale
    y = y if bias is None else y + bias
    if call.outputs < 2:
        return y
    mean = wide.mean(axes, keepdim=True)
    var = (wide - mean).square().mean(axes, keepdim=True)
    return y, mean, (var + epsilon).rsqrt()


@op("RMSNormalization")
def rms_norm(
    _: Call,
    x: Tensor,
    scale: Tensor,
    *,
    axis: int = -1,
    epsilon: float = 1e-5,
    stash_type: int = 1,
) -> Tensor:
    """Return the last axes divided by the root of their mean square."""
    axes = tuple(range(axis_of(axis, x.ndim), x.ndim))
    wide = x.cast("float32") if x.dtype.is_half else x
    return wide.rms_norm(axes, epsilon).cast(x.dtype) * scale


@op("GroupNormalization")
def group_norm(
    call: Call,
    x: Tensor,
    scale: Tensor,
    bias: Tensor,
    *,
    num_groups: int,
    epsilon: float = 1e-5,
    stash_type: int = 1,
) -> Tensor:
    """Return groups of channels with a mean of 0 and a variance of 1."""
    y = x.unflatten(1, (num_groups, -1))
    y = y.layer_norm(tuple(range(2, y.ndim)), epsilon)
    if call.opset < 21:  # one number a group
        scale, bias = (v.reshape(-1, *[1] * (y.ndim - 2)) for v in (scale, bias))
        return (y * scale + bias).flatten(1, 2)
    return y.flatten(1, 2) * per_channel(scale, x) + per_channel(bias, x)


@op("LpNormalization")
def lp_norm(_: Call, x: Tensor, *, axis: int = -1, p: int = 2) -> Tensor:
    """Return x divided by its norm along an axis; zeros stay zeros."""
    size = x.abs().sum(axis, keepdim=True) if p == 1 else x.square().sum(axis, keepdim=True).sqrt()
    return size.eq(0).where(0.0, x / size)


@op("MeanVarianceNormalization")
def mean_variance_norm(_: Call, x: Tensor, *, axes: Sequence[int] = (0, 2, 3)) -> Tensor:
    """Return x with a mean of 0 and a standard deviation of 1."""
    over = tuple(axis_of(axis, x.ndim) for axis in axes)
    centred = x - x.mean(over, keepdim=True)
    return centred / (centred.square().mean(over, keepdim=True).sqrt() + 1e-9)


@op("LRN")
def local_response_norm(
    _: Call, x: Tensor, *, size: int, alpha: float = 1e-4, beta: float = 0.75, bias: float = 1.0
) -> Tensor:
    """Return channels divided by the squares of those around them."""
    around = x.square().pad_along(1, (size - 1) // 2, size // 2).unfold(1, size).sum(-1)
    return x * (around * (alpha / size) + bias).pow(-beta)


@op("Dropout")
def dropout(
    call: Call,
    x: Tensor,
    share: Value = None,
    training: Known | None = None,
    *,
    ratio: float | None = None,
    is_test: int | None = None,
    seed: int | None = None,
    consumed_inputs: object = None,
) -> Tensor | tuple[Tensor, ...]:
    """Return x with some values left out, which is x itself unless a model is being trained."""
    trains = training is not None and bool(training.reshape(-1)[0])
    dropped = 0.5 if ratio is None else ratio
    if trains and share is not None:
        dropped = float(call.known(share, "share").astype("float64").reshape(-1)[0])
    if trains and dropped:
        kept = call.graph.rand(x.shape, seed=seed) >= dropped
        y = kept.where(x * (1 / (1 - dropped)), 0.0)
    else:
        kept, y = x.full_like(True, "bool"), x
    return (y, kept) if call.outputs > 1 else y

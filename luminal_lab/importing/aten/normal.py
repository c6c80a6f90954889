"""Softmax, norms and dropout."""

from __future__ import annotations

import math
from collections.abc import Sequence

from luminal_lab.core.dims import Dim
from luminal_lab.core.dtypes import DType
from luminal_lab.importing.aten.table import aten, source
from luminal_lab.tensor import Tensor
from luminal_lab.tensor.sources import Sources


@aten("softmax.int", "special_softmax")
def softmax(x: Tensor, dim: int, dtype: DType | None = None) -> Tensor:
    """Return exp(x) over its sum along an axis."""
    return x.softmax(dim, dtype) if x.ndim else x.full_like(1.0)


@aten("_softmax")
def softmax_half(x: Tensor, dim: int, half_to_float: bool) -> Tensor:
    """Return exp(x) over its sum along an axis."""
    return softmax(x, dim, DType.float32 if half_to_float else None)


@aten("_safe_softmax")
def safe_softmax(x: Tensor, dim: int, dtype: DType | None = None) -> Tensor:
    """Return exp(x) over its sum along an axis, and 0 where all of it is -∞."""
    shares = softmax(x, dim, dtype)
    return x.eq(-math.inf).all(dim, keepdim=True).where(0.0, shares) if x.ndim else shares


@aten("log_softmax.int")
def log_softmax(x: Tensor, dim: int, dtype: DType | None = None) -> Tensor:
    """Return the logarithm of a softmax."""
    return x.log_softmax(dim, dtype) if x.ndim else x.full_like(0.0)


@aten("_log_softmax")
def log_softmax_half(x: Tensor, dim: int, half_to_float: bool = False) -> Tensor:
    """Return the logarithm of a softmax."""
    return log_softmax(x, dim, DType.float32 if half_to_float else None)


# -- norms -----------------------------------------------------------------------------------------


def _last(shape: Sequence[Dim]) -> tuple[int, ...]:
    return tuple(range(-len(shape), 0))


@aten("layer_norm")
def layer_norm(
    x: Tensor,
    normalized_shape: Sequence[Dim],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
    cudnn_enable: bool = True,
) -> Tensor:
    """Return x with mean 0 and variance 1 over its last axes."""
    return x.layer_norm(_last(normalized_shape), eps, weight, bias)


@aten("native_layer_norm")
def native_layer_norm(
    x: Tensor,
    normalized_shape: Sequence[Dim],
    weight: Tensor | None,
    bias: Tensor | None,
    eps: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the norm, the mean, and one over the deviation."""
    axes = _last(normalized_shape)
    var, mean = x.var_mean(axes, 0, keepdim=True)
    return x.layer_norm(axes, eps, weight, bias), mean, (var + eps).rsqrt()


@aten("rms_norm")
def rms_norm(
    x: Tensor,
    normalized_shape: Sequence[Dim],
    weight: Tensor | None = None,
    eps: float | None = None,
) -> Tensor:
    """Return x over the root of its mean square."""
    return x.rms_norm(_last(normalized_shape), eps, weight)


@aten("_fused_rms_norm")
def fused_rms_norm(
    x: Tensor, normalized_shape: Sequence[Dim], weight: Tensor | None, eps: float | None
) -> tuple[Tensor, Tensor]:
    """Return the norm, and one over the root of the mean square."""
    axes = _last(normalized_shape)
    least = 2.0 ** (-52 if x.dtype is DType.float64 else -23) if eps is None else eps
    return x.rms_norm(axes, eps, weight), ((x * x).mean(axes, keepdim=True) + least).rsqrt()


@aten("group_norm")
def group_norm(
    x: Tensor,
    num_groups: int,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
    cudnn_enabled: bool = True,
) -> Tensor:
    """Return x with mean 0 and variance 1 over groups of channels."""
    return x.group_norm(num_groups, weight, bias, eps)


@aten("native_group_norm")
def native_group_norm(
    x: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    n: Dim,
    c: Dim,
    hxw: Dim,
    group: int,
    eps: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the norm, the means, and one over the deviations."""
    flat = x.reshape(n, group, -1)
    var, mean = flat.var_mean(-1, 0)
    return x.group_norm(group, weight, bias, eps), mean, (var + eps).rsqrt()


@aten("_native_batch_norm_legit_no_training")
def batch_norm(
    x: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor,
    running_var: Tensor,
    momentum: float,
    eps: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return x by the running moments, and two values of training that are empty."""
    empty = x.full_like(0.0).flatten()[:0]
    return x.batch_norm(running_mean, running_var, weight, bias, eps), empty, empty


@aten("_native_batch_norm_legit_functional")
def batch_norm_training(
    x: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor,
    running_var: Tensor,
    training: bool,
    momentum: float,
    eps: float,
) -> tuple[Tensor, ...]:
    """Return x by its own moments, those, and the running moments moved on."""
    if not training:
        out = x.batch_norm(running_mean, running_var, weight, bias, eps)
        return out, running_mean, running_var, running_mean, running_var
    out, mean, rstd, var, count = _measured(x, weight, bias, eps)
    unbiased = var * (count / (count - 1).clip(1.0))
    moved_mean = running_mean + (mean - running_mean) * momentum
    moved_var = running_var + (unbiased - running_var) * momentum
    return out, mean, rstd, moved_mean, moved_var


@aten("_native_batch_norm_legit.no_stats")
def batch_norm_own(
    x: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    training: bool,
    momentum: float,
    eps: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return x by its own moments, and those."""
    return _measured(x, weight, bias, eps)[:3]


def _measured(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    axes = [axis for axis in range(x.ndim) if axis != 1]
    var, mean = x.var_mean(axes, 0)
    count = x.full_like(1.0).sum(axes)
    return x.batch_norm(mean, var, weight, bias, eps), mean, (var + eps).rsqrt(), var, count


@aten("instance_norm")
def instance_norm(
    x: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    use_input_stats: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool = True,
) -> Tensor:
    """Return x with mean 0 and variance 1 over each channel of each sample."""
    if not use_input_stats and running_mean is not None and running_var is not None:
        return x.batch_norm(running_mean, running_var, weight, bias, eps)
    return x.instance_norm(weight, bias, eps)


# -- dropout ---------------------------------------------------------------------------------------


@aten("dropout")
def dropout(x: Tensor, p: float, train: bool) -> Tensor:
    """Return x with elements dropped in training."""
    return x.dropout(p, train)


@aten("feature_dropout")
def feature_dropout(x: Tensor, p: float, train: bool) -> Tensor:
    """Return x with channels dropped in training."""
    return x.feature_dropout(p, train)


@source("native_dropout")
def native_dropout(
    graph: Sources, x: Tensor, p: float, train: bool | None
) -> tuple[Tensor, Tensor]:
    """Return x with elements dropped, and where they were kept."""
    if train is False or p == 0:
        return x, x.full_like(True, DType.bool_)
    kept = graph.rand(x.shape) < 1 - p
    return kept.where(x * (1 / (1 - p) if p < 1 else 0.0), 0.0), kept

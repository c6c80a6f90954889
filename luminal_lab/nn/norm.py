"""Layers that give values mean 0 and variance 1, over features, channels, groups or batches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

from typing_extensions import override

from luminal_lab.core.dtypes import DTypeLike
from luminal_lab.core.op import size_of
from luminal_lab.errors import ShapeError
from luminal_lab.nn.arguments import at_user, divides, ends_with, has_rank, same_size, shape, sizes
from luminal_lab.nn.init import ones, zeros
from luminal_lab.nn.limits import within
from luminal_lab.nn.module import Module, kind_of
from luminal_lab.tensor import Tensor
from luminal_lab.tensor.functions import widened
from luminal_lab.tensor.parameter import Parameter
from luminal_lab.tensor.sources import Sources


class LayerNorm(Module):
    """Mean 0 and variance 1 over the last axes of each sample, times a weight and plus a bias.

    >>> import luminal_lab as ll
    >>> from luminal_lab import nn
    >>> nn.LayerNorm(8)(ll.Graph().tensor((2, 8))).shape
    (2, 8)
    """

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        *,
        dtype: DTypeLike = "float32",
    ) -> None:
        self.normalized_shape = shape(kind_of(self), "normalized_shape", normalized_shape)
        within(kind_of(self), "eps", eps)
        self.eps = eps
        affine = elementwise_affine
        self.weight = Parameter(self.normalized_shape, dtype, init=ones) if affine else None
        self.bias = Parameter(self.normalized_shape, dtype, init=zeros) if affine and bias else None

    @override
    def forward(self, x: Tensor) -> Tensor:
        ends_with(kind_of(self), x, self.normalized_shape, "normalized_shape")
        axes = range(-len(self.normalized_shape), 0)
        return x.layer_norm(axes, self.eps, self.weight, self.bias)

    @override
    def options(self) -> str:
        return ", ".join(map(str, self.normalized_shape))


class RMSNorm(Module):
    """Values over their root mean square along the last axes, times a weight.

    >>> import luminal_lab as ll
    >>> from luminal_lab import nn
    >>> nn.RMSNorm(8)(ll.Graph().tensor((2, 8))).shape
    (2, 8)
    """

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float | None = None,
        elementwise_affine: bool = True,
        *,
        dtype: DTypeLike = "float32",
    ) -> None:
        self.normalized_shape = shape(kind_of(self), "normalized_shape", normalized_shape)
        if eps is not None:
            within(kind_of(self), "eps", eps)
        self.eps = eps
        affine = elementwise_affine
        self.weight = Parameter(self.normalized_shape, dtype, init=ones) if affine else None

    @override
    def forward(self, x: Tensor) -> Tensor:
        ends_with(kind_of(self), x, self.normalized_shape, "normalized_shape")
        return x.rms_norm(range(-len(self.normalized_shape), 0), self.eps, self.weight)

    @override
    def options(self) -> str:
        return ", ".join(map(str, self.normalized_shape))


class GroupNorm(Module):
    """Mean 0 and variance 1 over each group of channels of each sample.

    >>> import luminal_lab as ll
    >>> from luminal_lab import nn
    >>> nn.GroupNorm(2, 6)(ll.Graph().tensor((1, 6, 4))).shape
    (1, 6, 4)
    """

    def __init__(
        self,
        num_groups: int,
        num_channels: int,
        eps: float = 1e-5,
        affine: bool = True,
        *,
        dtype: DTypeLike = "float32",
    ) -> None:
        self.num_groups, self.num_channels = sizes(
            kind_of(self), num_groups=num_groups, num_channels=num_channels
        )
        divides(kind_of(self), "num_groups", self.num_groups, num_channels=self.num_channels)
        within(kind_of(self), "eps", eps)
        self.eps = eps
        self.weight = Parameter((self.num_channels,), dtype, init=ones) if affine else None
        self.bias = Parameter((self.num_channels,), dtype, init=zeros) if affine else None

    @override
    def forward(self, x: Tensor) -> Tensor:
        same_size(kind_of(self), x, 1, self.num_channels, "num_channels")
        return x.group_norm(self.num_groups, self.weight, self.bias, self.eps)

    @override
    def options(self) -> str:
        return f"{self.num_groups}, {self.num_channels}"


class BatchNorm(Module):
    """Mean 0 and variance 1 over all samples of each channel.

    Training uses the batch's own moments, and each run moves the running mean and variance a bit
    towards them (`momentum`; None: their plain average over all runs); otherwise these are used.
    """

    ranks: ClassVar[tuple[int, ...]] = ()

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        *,
        dtype: DTypeLike = "float32",
    ) -> None:
        (size,) = sizes(kind_of(self), num_features=num_features)
        within(kind_of(self), "eps", eps)
        if momentum is not None:
            within(kind_of(self), "momentum", momentum)
        self.num_features, self.eps, self.momentum = size, eps, momentum
        self.weight = Parameter((size,), dtype, init=ones) if affine else None
        self.bias = Parameter((size,), dtype, init=zeros) if affine else None
        track, dims = track_running_stats, (size,)
        self.running_mean = Parameter(dims, dtype, init=zeros, trainable=False) if track else None
        self.running_var = Parameter(dims, dtype, init=ones, trainable=False) if track else None
        self.num_batches_tracked = (
            Parameter((), "int64", init=zeros, trainable=False) if track else None
        )

    @override
    def forward(self, x: Tensor) -> Tensor:
        has_rank(kind_of(self), x, self.ranks)
        same_size(kind_of(self), x, 1, self.num_features, "num_features")
        if self.running_mean is None or self.running_var is None or self.training:
            return self._measured(x)
        return x.batch_norm(self.running_mean, self.running_var, self.weight, self.bias, self.eps)

    def _measured(self, x: Tensor) -> Tensor:
        """Return x normalised by its own moments, which also move the running ones."""
        axes = [0, *range(2, x.ndim)]
        count = size_of([x.shape[axis] for axis in axes])
        if count == 1:
            raise at_user(
                ShapeError(
                    f"{kind_of(self)}: {x.label} has one value for each channel, which has no "
                    "variance",
                    hint="train with more samples, or call eval() first",
                )
            )
        var, mean = widened(x).var_mean(axes, correction=0)
        if (
            self.running_mean is not None
            and self.running_var is not None
            and self.num_batches_tracked is not None
        ):
            graph = x.graph
            assert isinstance(graph, Sources)
            n = x.constant(count, var.dtype, ())
            # A symbolic count may be 1 in a run, which has no variance: 0, as NaN would persist.
            others = n - 1 if isinstance(count, int) else (n - 1).clip(min=1.0)
            batches = carried(graph, self.num_batches_tracked, lambda old: old + 1)
            rate = self.momentum
            step = batches.cast(var.dtype).recip() if rate is None else rate
            for running, measured in (
                (self.running_mean, mean),
                (self.running_var, var * (n * others.recip())),
            ):
                carried(graph, running, lambda old, new=measured: old + (new - old) * step)
        return widened(x).batch_norm(mean, var, self.weight, self.bias, self.eps).cast(x.dtype)

    @override
    def options(self) -> str:
        return f"{self.num_features}"


def latest(graph: Sources, buffer: Parameter) -> Tensor:
    """Return a buffer's value after the changes that the graph has made so far."""
    old = graph.parameter(buffer)
    changes = [new for new, of in graph.ir.carries if of == old.id]
    return Tensor(graph, changes[-1], old.type) if changes else old


def carried(graph: Sources, buffer: Parameter, change: Callable[[Tensor], Tensor]) -> Tensor:
    """Carry a change of a buffer to the next run, after earlier changes in the graph."""
    old, last = graph.parameter(buffer), latest(graph, buffer)
    changed = change(last).cast(buffer.dtype)
    if last.id != old.id:
        last.drop()
    return graph.carry(changed, old)


class BatchNorm1d(BatchNorm):
    """`BatchNorm` of [batch, channels] or [batch, channels, length].

    >>> import luminal_lab as ll
    >>> from luminal_lab import nn
    >>> nn.BatchNorm1d(3)(ll.Graph().tensor((1, 3, 8))).shape
    (1, 3, 8)
    """

    ranks = (2, 3)


class BatchNorm2d(BatchNorm):
    """`BatchNorm` of [batch, channels, height, width].

    >>> import luminal_lab as ll
    >>> from luminal_lab import nn
    >>> nn.BatchNorm2d(3)(ll.Graph().tensor((1, 3, 8, 8))).shape
    (1, 3, 8, 8)
    """

    ranks = (4,)


class BatchNorm3d(BatchNorm):
    """`BatchNorm` of [batch, channels, depth, height, width].

    >>> import luminal_lab as ll
    >>> from luminal_lab import nn
    >>> nn.BatchNorm3d(3)(ll.Graph().tensor((1, 3, 8, 8, 8))).shape
    (1, 3, 8, 8, 8)
    """

    ranks = (5,)


class InstanceNorm(Module):
    """Mean 0 and variance 1 over each channel of each sample."""

    ranks: ClassVar[tuple[int, ...]] = ()

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        *,
        affine: bool = False,
        dtype: DTypeLike = "float32",
    ) -> None:
        (size,) = sizes(kind_of(self), num_features=num_features)
        within(kind_of(self), "eps", eps)
        self.num_features, self.eps = size, eps
        self.weight = Parameter((size,), dtype, init=ones) if affine else None
        self.bias = Parameter((size,), dtype, init=zeros) if affine else None

    @override
    def forward(self, x: Tensor) -> Tensor:
        has_rank(kind_of(self), x, self.ranks)
        same_size(kind_of(self), x, 1, self.num_features, "num_features")
        return x.instance_norm(self.weight, self.bias, self.eps)

    @override
    def options(self) -> str:
        return f"{self.num_features}"


class InstanceNorm1d(InstanceNorm):
    """`InstanceNorm` of [batch, channels, length].

    >>> import luminal_lab as ll
    >>> from luminal_lab import nn
    >>> nn.InstanceNorm1d(3)(ll.Graph().tensor((1, 3, 8))).shape
    (1, 3, 8)
    """

    ranks = (3,)


class InstanceNorm2d(InstanceNorm):
    """`InstanceNorm` of [batch, channels, height, width].

    >>> import luminal_lab as ll
    >>> from luminal_lab import nn
    >>> nn.InstanceNorm2d(3)(ll.Graph().tensor((1, 3, 8, 8))).shape
    (1, 3, 8, 8)
    """

    ranks = (4,)


class InstanceNorm3d(InstanceNorm):
    """`InstanceNorm` of [batch, channels, depth, height, width].

    >>> import luminal_lab as ll
    >>> from luminal_lab import nn
    >>> nn.InstanceNorm3d(3)(ll.Graph().tensor((1, 3, 8, 8, 8))).shape
    (1, 3, 8, 8, 8)
    """

    ranks = (5,)

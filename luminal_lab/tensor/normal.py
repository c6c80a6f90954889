"""Normalisation: softmax, norms over axes, groups and channels, dropout, attention."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Self

from luminal_lab.core.dims import Dim, Shape
from luminal_lab.core.dtypes import DType, DTypeLike
from luminal_lab.core.op import Scalar, TensorType, never
from luminal_lab.core.ops import MaxReduce, Random, SumReduce
from luminal_lab.errors import ArgumentError, AxisError, RangeError, ShapeError
from luminal_lab.tensor.arithmetic import Operand
from luminal_lab.tensor.functions import LOG2E, in_float, number, widened
from luminal_lab.tensor.lazy import Axis
from luminal_lab.tensor.movement import whole
from luminal_lab.tensor.operation import operation
from luminal_lab.tensor.sampling import Sampled


class Normal(Sampled):
    """Normalisation."""

    __slots__ = ()

    # -- softmax -----------------------------------------------------------------------------------

    @operation
    def softmax(self, axis: Axis, dtype: DTypeLike | None = None) -> Self:
        """Return exp(x) over its sum along an axis, in a dtype if one is given.

        >>> sum(cx.tensor((2, 3)).softmax(1).op_counts().values())
        12
        """
        return self._powers("softmax", axis, dtype)

    @operation
    def log_softmax(self, axis: Axis, dtype: DTypeLike | None = None) -> Self:
        """Return log(softmax(x)), accurate where the softmax is small.

        >>> sum(cx.tensor((2, 3)).log_softmax(1).op_counts().values())
        16
        """
        return self._powers("log_softmax", axis, dtype)

    @operation
    def softmin(self, axis: Axis, dtype: DTypeLike | None = None) -> Self:
        """Return softmax(-x).

        >>> sum(cx.tensor((2, 3)).softmin(1).op_counts().values())
        14
        """
        return (-self).softmax(axis, dtype)

    def _powers(self, what: str, axis: Axis, dtype: DTypeLike | None) -> Self:
        axes, x = self._some(what, axis), self if dtype is None else self.cast(dtype)
        return x._log_shares(axes) if what == "log_softmax" else x._shares(axes)

    def _some(self, what: str, axis: Axis) -> tuple[int, ...]:
        """Return the axes to normalise, or raise if none is named."""
        axes = self._axes_of(what, axis)
        if not axes and self.ndim:
            raise AxisError(
                f"{what}: no axis of {self.label} is named", hint="name one, such as -1"
            )
        return axes

    @in_float
    def _shares(self, axes: Sequence[int], *, empty: bool = False) -> Self:
        """Return the softmax over axes; a row of -inf gives 0 with `empty`, else NaN."""
        top = self._reduced(MaxReduce, tuple(axes))
        power = ((self + -(top.isfinite().where(top, 0.0) if empty else top)) * LOG2E).exp2()
        total = power._reduced(SumReduce, tuple(axes))
        return power * ((total > 0).where(total, 1.0) if empty else total).recip()

    @in_float
    def _log_shares(self, axes: Sequence[int]) -> Self:
        below = self + -self._reduced(MaxReduce, tuple(axes))
        return below + -(below * LOG2E).exp2()._reduced(SumReduce, tuple(axes)).log()

    # -- over axes ---------------------------------------------------------------------------------

    @in_float
    def mean_norm(self, axis: Axis) -> Self:
        """Return x minus its mean.

        >>> print(cx.tensor((2, 4), name="x").mean_norm(1).lowering())
        %1 = sum_reduce{axis = 1} %x : f32[2, 1]
        %2 = constant{value = 0.25} : f32[2, 1]
        %3 = mul %1, %2 : f32[2, 1]
        %4 = constant{value = -1.0} : f32[2, 1]
        %5 = mul %3, %4 : f32[2, 1]
        %6 = expand{shape = [2, 4]} %5 : f32[2, 4]
        %7 = add %x, %6 : f32[2, 4]
        """
        return self + -self.mean(self._some("mean_norm", axis), keepdim=True)

    @in_float
    def std_norm(self, axis: Axis, eps: float = 1e-5) -> Self:
        """Return x / √(mean(x²) + eps).

        >>> cx.tensor((2, 4)).std_norm(1).op_counts()
        {'add': 1, 'constant': 2, 'expand': 1, 'mul': 3, 'recip': 1, 'sqrt': 1, 'sum_reduce': 1}
        """
        axes = self._some("std_norm", axis)
        return self * ((self * self).mean(axes, keepdim=True) + eps).rsqrt()

    @in_float
    def layer_norm(
        self,
        axis: Axis,
        eps: float = 1e-5,
        weight: Operand | None = None,
        bias: Operand | None = None,
    ) -> Self:
        """Return x with mean 0 and variance 1 over axes, times a weight and plus a bias.

        >>> cx.tensor((2, 4)).layer_norm(1).op_counts()
        {'add': 2, 'constant': 4, 'expand': 2, 'mul': 5, 'recip': 1, 'sqrt': 1, 'sum_reduce': 2}
        """
        axes = self._some("layer_norm", axis)
        x = self.mean_norm(axes).std_norm(axes, eps)
        return self._adjusted(x, "layer_norm", axes, weight, bias)

    @in_float
    def rms_norm(self, axis: Axis, eps: float | None = None, weight: Operand | None = None) -> Self:
        """Return `std_norm` times a weight; eps is by default the precision of the dtype.

        >>> cx.tensor((2, 4)).rms_norm(1).op_counts()
        {'add': 1, 'constant': 2, 'expand': 1, 'mul': 3, 'recip': 1, 'sqrt': 1, 'sum_reduce': 1}
        """
        axes = self._some("rms_norm", axis)
        least = 2.0 ** (-52 if self.dtype is DType.float64 else -23)
        x = self.std_norm(axes, least if eps is None else eps)
        return self._adjusted(x, "rms_norm", axes, weight)

    @in_float
    def normalize(self, p: float = 2.0, axis: Axis = 1, eps: float = 1e-12) -> Self:
        """Return x over its norm along an axis, or over eps where eps is larger.

        >>> sum(cx.tensor((2, 4)).normalize().op_counts().values())
        10
        """
        axes = self._reducing("normalize", axis)
        if p == 2:
            # The root comes last, so that its gradient is finite where all values are 0.
            least = max(number("normalize", "eps", eps), 0.0) ** 2
            return self * (self * self).sum(axes, keepdim=True).clip(min=least).rsqrt()
        return self * self.norm(p, axes, keepdim=True).clip(min=eps).recip()

    # -- over channels, which are axis 1 -----------------------------------------------------------

    @in_float
    def group_norm(
        self,
        num_groups: int,
        weight: Operand | None = None,
        bias: Operand | None = None,
        eps: float = 1e-5,
    ) -> Self:
        """Return x with mean 0 and variance 1 over each group of channels.

        >>> sum(cx.tensor((2, 4, 3)).group_norm(2).op_counts().values())
        21
        """
        channels = self._channels("group_norm", 2)
        groups = whole("group_norm: num_groups", num_groups, 1)
        if never(channels % groups < 1):
            raise ShapeError(
                f"group_norm: the {channels} channels of {self.label} cannot form {groups} equal "
                "groups",
                hint="num_groups must divide the size of axis 1",
            )
        x = self._viewed((self.shape[0], groups, channels // groups, *self.shape[2:]))
        x = x.layer_norm(tuple(range(2, x.ndim)), eps)._viewed(self.shape)
        return self._adjusted(x, "group_norm", (1,), weight, bias)

    @in_float
    def instance_norm(
        self, weight: Operand | None = None, bias: Operand | None = None, eps: float = 1e-5
    ) -> Self:
        """Return x with mean 0 and variance 1 over each channel of each sample.

        >>> cx.tensor((2, 4, 3)).instance_norm().op_counts()
        {'add': 2, 'constant': 4, 'expand': 2, 'mul': 5, 'recip': 1, 'sqrt': 1, 'sum_reduce': 2}
        """
        self._channels("instance_norm", 3)
        x = self.layer_norm(tuple(range(2, self.ndim)), eps)
        return self._adjusted(x, "instance_norm", (1,), weight, bias)

    @in_float
    def batch_norm(
        self,
        running_mean: Operand | None,
        running_var: Operand | None,
        weight: Operand | None = None,
        bias: Operand | None = None,
        eps: float = 1e-5,
        *,
        training: bool = False,
    ) -> Self:
        """Return x minus each channel's mean over the root of its variance, as at inference.

        With `training` mean and variance are those of x itself; `nn.BatchNorm1d` and its like keep
        running ones beside them.

        >>> cx.tensor((2, 2)).batch_norm([0.0, 1.0], [1.0, 2.0]).op_counts()
        {'add': 2, 'constant': 2, 'expand': 2, 'mul': 2, 'recip': 1, 'reshape': 2, 'sqrt': 1}
        """
        self._channels("batch_norm", 2)
        if training:
            x = self.layer_norm((0, *range(2, self.ndim)), eps)
            return self._adjusted(x, "batch_norm", (1,), weight, bias)
        if running_mean is None or running_var is None:
            raise ArgumentError(
                "batch_norm: there is no running mean or variance",
                hint="give both, or training=True for those of x itself",
            )
        mean = self._aligned("batch_norm", "running_mean", running_mean, (1,))
        scale = (self._aligned("batch_norm", "running_var", running_var, (1,)) + eps).rsqrt()
        return self._adjusted((self + -mean) * scale, "batch_norm", (1,), weight, bias)

    @in_float
    def local_response_norm(
        self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0
    ) -> Self:
        """Return x over a power of the mean square of `size` neighbouring channels.

        >>> sum(cx.tensor((2, 4, 3)).local_response_norm(3).op_counts().values())
        30
        """
        self._channels("local_response_norm", 3)
        count = whole("local_response_norm: size", size, 1)
        around = (self * self).pad_along(1, count // 2, (count - 1) // 2).unfold(1, count)
        return self * (around.mean(-1) * alpha + k).pow(beta).recip()

    def _channels(self, what: str, rank: int) -> Dim:
        if self.ndim < rank:
            raise ShapeError(
                f"{what}: {self.label} has {self.ndim} axes, and needs {rank} or more",
                hint="axis 0 counts samples, and axis 1 channels",
            )
        return self.shape[1]

    def _adjusted(
        self,
        x: Self,
        what: str,
        axes: Sequence[int],
        weight: Operand | None = None,
        bias: Operand | None = None,
    ) -> Self:
        """Return x times a weight plus a bias, which have the sizes of some axes."""
        x = x if weight is None else x * self._aligned(what, "weight", weight, axes)
        return x if bias is None else x + self._aligned(what, "bias", bias, axes)

    # -- distances ---------------------------------------------------------------------------------

    @operation
    def cosine_similarity(self, other: Operand, axis: int = 1, eps: float = 1e-8) -> Self:
        """Return the cosine of the angle between vectors along an axis.

        >>> sum(cx.tensor((2, 4)).cosine_similarity([[1.0]]).op_counts().values())
        24
        """
        dtype, (x, y) = self._floats("cosine_similarity", other)
        return (x.normalize(2, axis, eps) * y.normalize(2, axis, eps)).sum(axis).cast(dtype)

    @operation
    def pairwise_distance(
        self, other: Operand, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False
    ) -> Self:
        """Return the norm of x - y + eps along the last axis.

        >>> sum(cx.tensor((2, 4)).pairwise_distance([1.0, 2.0, 3.0, 4.0]).op_counts().values())
        16
        """
        dtype, (x, y) = self._floats("pairwise_distance", other)
        return (x - y + eps).norm(p, -1, keepdim).cast(dtype)

    # -- drawing -----------------------------------------------------------------------------------

    def _drawn(self, shape: Shape) -> Self:
        """Return uniform random float32 from 0 up to but not including 1, new ones in each run."""
        type = TensorType(DType.float32, shape)
        return self._appended(Random(self.graph.seed, self.graph.next_stream(), shape), (), type)

    @operation
    def rand_like(self, dtype: DTypeLike | None = None) -> Self:
        """Return uniform random numbers of this tensor's shape, as `cx.rand` draws them.

        >>> y = cx.tensor((2, 3)).rand_like()
        >>> y.shape
        (2, 3)
        """
        return self._drawn(self.shape).cast(self._as_float().dtype if dtype is None else dtype)

    @operation
    def randn_like(self, dtype: DTypeLike | None = None) -> Self:
        """Return normally distributed random numbers of this tensor's shape, as `cx.randn` does.

        >>> y = cx.tensor((2, 3)).randn_like("float16")
        >>> y.shape, str(y.dtype)
        ((2, 3), 'float16')
        """
        normal = self._drawn(self.shape).as_normal(self._drawn(self.shape))
        return normal.cast(self._as_float().dtype if dtype is None else dtype)

    @operation
    def randint_like(
        self, low: int, high: int | None = None, dtype: DTypeLike | None = None
    ) -> Self:
        """Return random whole numbers from low (or 0) up to but not including high.

        >>> y = cx.tensor((2, 3)).randint_like(10, dtype="int32")
        >>> y.shape, str(y.dtype)
        ((2, 3), 'int32')
        """
        first, end = (0, low) if high is None else (low, high)
        first, end = whole("randint_like: low", first), whole("randint_like: high", end)
        if not 1 <= end - first <= 1 << 24:
            raise RangeError(
                f"randint_like: {first} to {end} is not a range of 1 to {1 << 24} numbers",
                hint="low comes first, and high is not included",
            )
        numbers = (self._drawn(self.shape) * (end - first)).cast(DType.int64) + first
        return numbers.cast(self.dtype if dtype is None else dtype)

    @operation
    def as_normal(self, other: Operand) -> Self:
        """Return normal random numbers made of two uniform ones, by the Box-Muller transform.

        >>> y = cx.tensor((1,)).set([0.5]).as_normal([0.25]).retrieve()
        >>> cx.execute()
        >>> y.numpy().round(4)
        array([1.1774], dtype=float32)
        """
        radius = ((-self + 1).log2() * (-2 * math.log(2))).sqrt()
        return radius * (self._tensor_of(other) * (2 * math.pi)).sin()

    @operation
    def bernoulli(self, p: float | None = None) -> Self:
        """Return 1 with the probability that is the value (or p), else 0.

        >>> y = cx.ones((2,)).bernoulli().retrieve()
        >>> cx.execute()
        >>> y.tolist()
        [1.0, 1.0]
        """
        chance = self if p is None else self.full_like(number("bernoulli", "p", p))
        return (self._drawn(self.shape) < chance).cast(self.dtype)

    # -- dropout -----------------------------------------------------------------------------------

    @operation
    def dropout(self, p: float = 0.5, training: bool = True) -> Self:
        """Return x with each element zeroed with probability p, and the others over 1 - p.

        >>> print(cx.tensor((2,), name="x").dropout(0.2).lowering())
        %1 = random{seed = 0, stream = 0} : f32[2]
        %2 = constant{value = 0.8} : f32[2]
        %3 = less_than %1, %2 : bool[2]
        %4 = constant{value = 1.25} : f32[2]
        %5 = mul %x, %4 : f32[2]
        %6 = constant{value = 0.0} : f32[2]
        %7 = where %3, %5, %6 : f32[2]
        """
        return self._dropped("dropout", p, training, self.ndim)

    @operation
    def feature_dropout(self, p: float = 0.5, training: bool = True) -> Self:
        """Return x with each sample's channels zeroed with probability p, the others over 1 - p.

        >>> print(cx.tensor((2, 4, 3), name="x").feature_dropout().lowering())
        %1 = random{seed = 0, stream = 0} : f32[2, 4, 1]
        %2 = constant{value = 0.5} : f32[2, 4, 1]
        %3 = less_than %1, %2 : bool[2, 4, 1]
        %4 = constant{value = 2.0} : f32[2, 4, 3]
        %5 = mul %x, %4 : f32[2, 4, 3]
        %6 = constant{value = 0.0} : f32[2, 4, 3]
        %7 = expand{shape = [2, 4, 3]} %3 : bool[2, 4, 3]
        %8 = where %7, %5, %6 : f32[2, 4, 3]
        """
        self._channels("feature_dropout", 2)
        return self._dropped("feature_dropout", p, training, 2)

    @in_float
    def _dropped(self, what: str, p: float, training: bool, rank: int) -> Self:
        chance = number(what, "p", p)
        if not 0 <= chance <= 1:
            raise RangeError(f"{what}: p is {p}, which is not a probability", hint="try p=0.5")
        if not training or chance == 0:
            return self
        draw = self._drawn(self.shape[:rank] + (1,) * (self.ndim - rank))
        return (draw < 1 - chance).where(self * (1 / (1 - chance) if chance < 1 else 0.0), 0.0)

    dropout1d = dropout2d = dropout3d = feature_dropout

    # -- attention ---------------------------------------------------------------------------------

    @operation
    def scaled_dot_product_attention(
        self,
        key: Operand,
        value: Operand,
        attn_mask: Operand | None = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        scale: Scalar | None = None,
        enable_gqa: bool = False,
        *,
        soft_cap: float | None = None,
    ) -> Self:
        """Return softmax(query · keyᵀ · scale) · value, with this tensor as the query.

        Causal attention: `is_causal=True` hides the keys after each query's position. Padding, and
        any other mask: `attn_mask` is True where a key may be seen, or holds numbers that are added
        to the scores; it broadcasts to [..., queries, keys]. A query that may see no key gives 0.
        Grouped heads: with `enable_gqa` several heads of the query share a head of the keys. With
        `soft_cap`, scores s become soft_cap · tanh(s / soft_cap) before anything is hidden.

        >>> x, lengths = cx.tensor((2, 5, 8), name="x"), cx.tensor((2,), "int64", name="lengths")
        >>> is_word = cx.arange(5) < lengths.reshape(2, 1, 1)  # the padding is False
        >>> x.scaled_dot_product_attention(x, x, attn_mask=is_word, is_causal=True).shape
        (2, 5, 8)
        """
        what = "scaled_dot_product_attention"
        if soft_cap is not None and number(what, "soft_cap", soft_cap) <= 0:
            raise RangeError(f"{what}: soft_cap is {soft_cap}, and must be above 0")
        query, keys, values = (
            widened(tensor._as_float()) for tensor in (self, *self._heads(key, value, enable_gqa))
        )
        size = query.shape[-1]
        if scale is None and isinstance(size, int):
            scale = size and size**-0.5
        factor = query.constant(size, query.dtype, ()).rsqrt() if scale is None else scale
        scores = (query * factor).matmul(keys.transpose(-2, -1))
        if soft_cap is not None:
            scores = (scores * (1 / soft_cap)).tanh() * soft_cap
        if is_causal:
            row, column = (query._iota(size) for size in scores.shape[-2:])
            scores = (row.unsqueeze(1) < column).where(-math.inf, scores)
        if attn_mask is not None:
            mask = self._tensor_of(attn_mask)
            hidden = mask.dtype is DType.bool_
            scores = mask.where(scores, -math.inf) if hidden else scores + mask
        weights = scores._shares((scores.ndim - 1,), empty=attn_mask is not None)
        return weights.dropout(dropout_p).matmul(values).cast(self._as_float().dtype)

    def _heads(self, key: Operand, value: Operand, shared: bool) -> list[Self]:
        """Return keys and values with as many heads (axis -3) as this query."""
        what, heads = "scaled_dot_product_attention", list[Self]()
        for given in (key, value):
            tensor = self._tensor_of(given)
            if shared:
                ours, theirs = (x.shape[x._axis_of(what, -3)] for x in (self, tensor))
                if never(ours % theirs < 1):
                    raise ShapeError(
                        f"{what}: {self.label} has {ours} heads, and {tensor.label} {theirs}",
                        hint="the heads of the query must be a multiple of those of the key",
                    )
                tensor = tensor.repeat_interleave(ours // theirs, -3)
            heads.append(tensor)
        return heads

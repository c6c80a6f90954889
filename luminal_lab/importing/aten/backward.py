"""The ops that PyTorch's autograd writes for gradients and does not take apart.

Most are the gradient of the op itself, which `ll.grad` derives from how that is written here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from luminal_lab.core.dims import Dim
from luminal_lab.importing.aten.movement import replication_pad
from luminal_lab.importing.aten.products import attention
from luminal_lab.importing.aten.table import OPS, aten, full_name, source
from luminal_lab.importing.aten.windows import convolution, nearest
from luminal_lab.passes.gradients.derive import grad
from luminal_lab.tensor import Tensor
from luminal_lab.tensor.sources import Sources


def pulled(
    slope: Tensor, call: Callable[[Sequence[Tensor]], Tensor], *given: Tensor
) -> list[Tensor]:
    """Return the gradients of what a function makes of tensors, from the gradient of its result.

    >>> x, slope = cx.tensor((2,)).set([1, 2]), cx.tensor((2,)).set([1, 10])
    >>> (y,) = pulled(slope, lambda own: own[0] * own[0], x)
    >>> y = y.retrieve()
    >>> cx.execute()
    >>> y.tolist()
    [2.0, 40.0]
    """
    # One that is computed from another must not pass its gradient on to it.
    own = [tensor.clone() for tensor in given]
    return grad((call(own) * slope).sum(), own)


@aten("convolution_backward")
def convolution_backward(
    slope: Tensor,
    x: Tensor,
    weight: Tensor,
    bias_sizes: Sequence[Dim] | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
    output_mask: Sequence[bool],
) -> tuple[Tensor | None, ...]:
    """Return the gradients of a convolution's input, weight and bias, of those that are wanted."""
    options = stride, padding, dilation, transposed, output_padding, groups
    of_x, of_weight = pulled(
        slope, lambda own: convolution(own[0], own[1], None, *options), x, weight
    )
    channel = slope.ndim - weight.ndim + 1
    of_bias = slope.sum([axis for axis in range(slope.ndim) if axis != channel])
    every = of_x, of_weight, of_bias
    return tuple([part if want else None for part, want in zip(every, output_mask, strict=True)])


def _of_itself(name: str) -> None:
    """Enter the gradient of an op with one tensor, which follows the result's gradient."""
    call: Callable[..., Any] = OPS[full_name(name)]

    @source(f"{name}_backward")
    def backward(graph: Sources, slope: Tensor, x: Tensor, *options: object) -> Tensor:
        """Return the gradient of the op's tensor."""
        return pulled(slope, lambda own: call(graph, *own, *options), x)[0]


for _name in ("avg_pool2d", "avg_pool3d"):
    _of_itself(_name)


@aten("_adaptive_avg_pool2d_backward", "_adaptive_avg_pool3d_backward")
def adaptive_avg_pool_backward(slope: Tensor, x: Tensor) -> Tensor:
    """Return the gradient of a tensor pooled to the size of the slope."""
    sizes: Any = list(slope.shape[2:])
    return pulled(slope, lambda own: own[0].adaptive_avg_pool(sizes), x)[0]


@aten("replication_pad1d_backward", "replication_pad2d_backward", "replication_pad3d_backward")
def replication_pad_backward(slope: Tensor, x: Tensor, padding: Sequence[Dim]) -> Tensor:
    """Return the gradient of a tensor whose edges were repeated."""
    return pulled(slope, lambda own: replication_pad(own[0], padding), x)[0]


@source("upsample_nearest2d_backward")
def nearest_backward(
    graph: Sources,
    slope: Tensor,
    output_size: Sequence[Dim],
    input_size: Sequence[Dim],
    *scales: float | None,
) -> Tensor:
    """Return the gradient of a tensor that was resized."""
    x = graph.zeros(tuple(input_size), slope.dtype)
    return pulled(slope, lambda own: nearest(own[0], output_size, *scales), x)[0]


@aten("max_pool2d_with_indices_backward", "max_pool3d_with_indices_backward")
def max_pool_backward(
    slope: Tensor,
    x: Tensor,
    kernel_size: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    ceil_mode: bool,
    indices: Tensor,
) -> Tensor:
    """Return gradients at the places that the largest values came from."""
    count = len(kernel_size)
    flat = x.full_like(0.0).flatten(-count)
    at, given = indices.flatten(-count), slope.flatten(-count)
    return flat.scatter_add(-1, at, given).reshape(*x.shape)


@aten("_scaled_dot_product_flash_attention_for_cpu")
def cpu_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    attn_mask: Tensor | None = None,
    scale: float | None = None,
) -> tuple[Tensor, Tensor]:
    """Return attention, and a placeholder: the gradient computes its own sums of exponentials."""
    out = attention(query, key, value, attn_mask, dropout_p, is_causal, scale)
    return out, query.full_like(0.0)[..., 0]


@aten("_scaled_dot_product_flash_attention_for_cpu_backward")
def cpu_attention_backward(
    slope: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    out: Tensor,
    logsumexp: Tensor,
    dropout_p: float,
    is_causal: bool,
    attn_mask: Tensor | None = None,
    scale: float | None = None,
) -> tuple[Tensor, ...]:
    """Return the gradients of queries, keys and values."""

    def call(own: Sequence[Tensor]) -> Tensor:
        return attention(own[0], own[1], own[2], attn_mask, dropout_p, is_causal, scale)

    return tuple(pulled(slope, call, query, key, value))

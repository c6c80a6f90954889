"""Convolutions: sums of products of windows and a kernel.

    %p = pad{before = [0, 0, 1], after = [0, 0, 1]} %x                  : f32[1, 3, 7]
    %v = window{axis = 2, size = 3, stride = 1, dilation = 1} %p        : f32[1, 3, 5, 3]
    %y = the sum over channels and window positions of %v times %w      : f32[1, 2, 5]

Each spatial axis has a window, and all positions within windows are summed. The padding
belongs to the convolution.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from luminal_lab.core.ir import Node
from luminal_lab.core.ops import Pad, Permute, Reshape, SumReduce, Window
from luminal_lab.passes.recognition.contraction import Labels, SumOfProducts, contraction
from luminal_lab.passes.recognition.reading import Reading, Recogniser


def _find(reading: Reading, node: Node) -> Iterator[SumOfProducts]:
    for product in contraction(reading, node):
        windows = windows_of(reading, product)
        why = "no operand of {} is windows whose elements are all summed"
        if windows is None:
            reading.missed(node, why, node)
        else:
            x, kernel = windows
            because = f"windows of {x} times {kernel}, summed over channels and positions"
            sources = {"x": x, "weight": kernel}
            yield replace(product, kind="convolution", sources=sources, because=because)


def windows_of(reading: Reading, product: SumOfProducts) -> tuple[Node, Node] | None:
    """Return the value below the windows and its kernel, if the product is a convolution."""
    a, b = product.sources.values()
    for (name, seen), kernel in ((("a", a), b), (("b", b), a)):
        x = _below_windows(reading, seen, product.labels[name], product.summed)
        if x is not None:
            return x, kernel
    return None


def _below_windows(
    reading: Reading, node: Node, labels: Labels, summed: frozenset[int]
) -> Node | None:
    """Return the value below fully summed windows, if there are any."""
    windows = None
    while True:
        match node.op:
            case Window(axis=axis):
                if labels[-1] is not None and labels[-1] not in summed:
                    return None
                labels = labels[:-1]
                if labels[axis] in summed:
                    return None
                (node,) = reading.sources(node)
                windows = node
            case Permute(axes=axes):
                (node,) = reading.sources(node)
                moved = dict(zip(axes, labels, strict=True))
                labels = tuple(moved[position] for position in range(len(axes)))
            case Reshape():
                (source,) = reading.sources(node)
                labels = _split(labels, node, source)
                node = source
            case _:
                break
    if windows is not None and isinstance(windows.op, Pad):
        (windows,) = reading.sources(windows)
    return windows


def _split(labels: Labels, new: Node, old: Node) -> Labels:
    """Return labels through a reshape of some axes in the middle: groups of channels."""
    news = [(dim, label) for dim, label in zip(new.shape, labels, strict=True) if dim != 1]
    olds = [dim for dim in old.shape if dim != 1]
    count = min(len(olds), len(news))
    left = next((k for k in range(count) if olds[k] != news[k][0]), count)
    right = next((k for k in range(count - left) if olds[-1 - k] != news[-1 - k][0]), count - left)
    kept = [label for _, label in news]
    middle: list[int | None] = [None] * (len(olds) - left - right)
    rest = iter([*kept[:left], *middle, *kept[len(kept) - right :]])
    return tuple(None if dim == 1 else next(rest) for dim in old.shape)


ANYWHERE = 64
"""More steps than there are from an operand's windows to the sum of the products."""
CONVOLUTION = Recogniser("convolution", (Reshape, SumReduce), _find, {Window: ANYWHERE})

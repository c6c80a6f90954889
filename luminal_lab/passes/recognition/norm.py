"""Norms over axes: minus the mean, over the root mean square, or both, with a weight and a bias.

    mean_norm(x)  = x + expand(-1 · mean(x))
    std_norm(x)   = x · expand(recip(sqrt(mean(x · x) + eps)))
    rms_norm(x)   = std_norm(x) · weight
    layer_norm(x) = std_norm(mean_norm(x)) · weight + bias      both or one of them may be absent

All means are over the same axes; a weight or a bias has those axes alone. The variance may be
computed from a second, equal difference from the mean.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from luminal_lab.core.ir import Node
from luminal_lab.core.op import View
from luminal_lab.core.ops import Add, Call, Mul, Recip, Sqrt, SumReduce
from luminal_lab.passes.recognition.mean import MEAN
from luminal_lab.passes.recognition.reading import Reading, RecognisedRegion, Recogniser


def _find_mean_norm(reading: Reading, node: Node) -> Iterator[RecognisedRegion]:
    for x, value in reading.difference(node):
        mean = reading.at(MEAN, value)
        if mean is None or not reading.same(mean.x, x, "from which the mean is subtracted"):
            continue
        if _keeps_axes(reading, mean):
            because = f"{x} less its mean over axes {list(mean.axes)}"
            yield RecognisedRegion("mean_norm", node, {"x": x}, mean.axes, because)


def _keeps_axes(reading: Reading, mean: RecognisedRegion) -> bool:
    return reading.holds(mean.keeps_axes, mean.root, "the mean {} drops its axes", mean.root)


def _find_std_norm(reading: Reading, node: Node) -> Iterator[RecognisedRegion]:
    for x, squared, axes in _scaled(reading, node):
        if reading.same(squared, x, "which is divided"):
            because = f"{x} divided by its root mean square over axes {list(axes)}"
            yield RecognisedRegion("std_norm", node, {"x": x}, axes, because)


def _scaled(reading: Reading, node: Node) -> Iterator[tuple[Node, Node, tuple[int, ...]]]:
    """Yield x, y and axes of a node x / √(mean(y · y) + eps)."""
    for x, share in reading.pairs(node, Mul):
        root = reading.source(share, Recip)
        inside = None if root is None else reading.source(root, Sqrt)
        for value in () if inside is None else _less_eps(reading, inside):
            mean = reading.at(MEAN, value)
            if mean is None or not _keeps_axes(reading, mean):
                continue
            why = "{} and {} have different shapes"
            if reading.holds(mean.x.shape == x.shape, mean.x, why, mean.x, x):
                for y, again in reading.pairs(mean.x, Mul):
                    if reading.same(again, y, "whose mean square is needed"):
                        yield x, y, mean.axes


def _less_eps(reading: Reading, node: Node) -> Iterator[Node]:
    yield node
    for value, eps in reading.pairs(node, Add):
        if reading.number(eps) is not None:
            yield reading.base(value)


def _find_standardised(reading: Reading, node: Node) -> Iterator[RecognisedRegion]:
    """Yield layer norms without weight and bias."""
    if reading.inquiry is None and not _may_be_scaled(reading, node):
        return
    whole = reading.at(STD_NORM, node)
    scaled = _scaled(reading, node) if whole is None else [(whole.x, whole.x, whole.axes)]
    for x, squared, axes in scaled:
        centred, other = reading.at(MEAN_NORM, x), reading.at(MEAN_NORM, squared)
        if centred is None or other is None:
            continue
        means, why = (centred.axes, other.axes), "the means are over axes {} and {}, not over {}"
        listed = [*centred.axes], [*other.axes], [*axes]
        if not reading.holds(means == (axes, axes), node, why, *listed):
            continue
        if reading.same(other.x, centred.x, "from which the mean is subtracted"):
            because = f"{centred.x} with mean 0 and variance 1 over axes {list(axes)}"
            yield RecognisedRegion("layer_norm", node, {"x": centred.x}, axes, because)


def _may_be_scaled(reading: Reading, node: Node) -> bool:
    """Return whether a node is a call, or divides by something: most nodes do not."""
    if isinstance(node.op, Mul):
        return any(reading.source(share, Recip) for share in reading.sources(node))
    return isinstance(node.op, Call)


Plain = Callable[[Reading, Node], Iterator[RecognisedRegion]]


def _with(
    reading: Reading, node: Node, plain: Plain, op: type[Add | Mul], name: str
) -> Iterator[RecognisedRegion]:
    """Yield plain norms followed by the sum or product with a parameter."""
    for value, parameter in reading.pairs(node, op):
        if reading.inquiry is None and not isinstance(parameter.op, View):
            continue
        for norm in plain(reading, value):
            given = _parameter(reading, parameter, norm.axes)
            if given is not None:
                sources = {**norm.sources, name: given}
                because = f"{norm.because}, with the {name} {given}"
                yield RecognisedRegion(norm.kind, node, sources, norm.axes, because)


def _parameter(reading: Reading, node: Node, axes: tuple[int, ...]) -> Node | None:
    """Return the value that is repeated along all axes but these."""
    base = reading.base(node)
    is_repeated = isinstance(node.op, View) and reading.number(base) is None
    if not reading.holds(is_repeated, node, "{} is not a parameter that is repeated", node):
        return None
    own = all(dim == 1 for axis, dim in enumerate(base.shape) if axis not in axes)
    why = "{} has other axes than those of the norm, {}"
    return reading.squeezed(base) if reading.holds(own, base, why, base, [*axes]) else None


def _weighted(reading: Reading, node: Node) -> Iterator[RecognisedRegion]:
    yield from _with(reading, node, _find_standardised, Mul, "weight")


def _find_layer_norm(reading: Reading, node: Node) -> Iterator[RecognisedRegion]:
    yield from _with(reading, node, _weighted, Add, "bias")
    yield from _with(reading, node, _find_standardised, Add, "bias")
    yield from _weighted(reading, node)
    yield from _find_standardised(reading, node)


def _from_std_norm(reading: Reading, node: Node) -> Iterator[RecognisedRegion]:
    norm = reading.at(STD_NORM, node)
    if norm is not None:
        because = f"{norm.x} divided by its root mean square over axes {list(norm.axes)}"
        yield RecognisedRegion("rms_norm", node, norm.sources, norm.axes, because)


def _find_rms_norm(reading: Reading, node: Node) -> Iterator[RecognisedRegion]:
    yield from _with(reading, node, _from_std_norm, Mul, "weight")


MEAN_NORM = Recogniser("mean_norm", (Add,), _find_mean_norm, {SumReduce: 3, Call: 2})
STD_NORM = Recogniser("std_norm", (Mul,), _find_std_norm, {Recip: 1})
RMS_NORM = Recogniser("rms_norm", (Mul,), _find_rms_norm, {Recip: 2, Call: 1})
LAYER_NORM = Recogniser("layer_norm", (Add, Mul, Call), _find_layer_norm, {Recip: 3, Call: 2})

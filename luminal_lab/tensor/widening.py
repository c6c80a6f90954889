"""What blocks of few bits mean in a graph: a region that reads raw bytes and gives float32.

%weight: u8[10, 144]
%1 = call{body = q4_k} %weight : f32[10, 256]
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, cast

from luminal_lab.core.ir import IR
from luminal_lab.tensor import Tensor
from luminal_lab.tensor.blocks import BlockForm, Parts

if TYPE_CHECKING:
    from luminal_lab.tensor.sources import Sources

BODIES: Final[dict[tuple[str, tuple[int, ...]], IR]] = {}
"""The regions, by form and shape."""


class _Tensors:
    """The kit for tensors."""

    def __init__(self, graph: Sources) -> None:
        self.graph = graph

    def cast(self, x: Tensor, dtype: str) -> Tensor:
        return x.cast(dtype)

    def bits(self, x: Tensor, dtype: str) -> Tensor:
        return x.bitcast(dtype)

    def steps(self, count: int, by: int) -> Tensor:
        return self.graph.arange(0, count * by, by, "uint8")

    def choose(self, which: Tensor, x: Tensor | float, y: Tensor | float) -> Tensor:
        return which.where(x, y)


def widened(form: BlockForm, raw: Tensor) -> Tensor:
    """Return the float32 values of raw bytes, [..., bytes of a row], written with ops.

    >>> from luminal_lab.tensor.blocks import form_of
    >>> widened(form_of("q8_0"), cx.tensor((5, 68), "uint8")).shape
    (5, 64)
    """
    return form.widened(_Tensors(cast("Sources", raw.graph)), raw)


def parts(form: BlockForm, raw: Tensor) -> Parts:
    """Return what raw bytes, [..., bytes of a row], are made of, written with ops.

    >>> from luminal_lab.tensor.blocks import form_of
    >>> parts(form_of("q4_k"), cx.tensor((5, 144), "uint8")).quants.type
    u8[5, 1, 8, 32]
    """
    return form.parts(_Tensors(cast("Sources", raw.graph)), raw)


def body_of(form: BlockForm, shape: tuple[int, ...], page: Callable[[str], Sources]) -> IR:
    """Return the region that widens a raw array; `page` opens a graph to write it in."""
    from luminal_lab.core.parse import parse  # noqa: PLC0415  # loaded when used

    key = form.name, shape
    if key not in BODIES:
        graph = page(form.name)
        raw = graph.tensor(form.raw_shape(shape), form.dtype, "raw")
        result = widened(form, raw)
        # Written anew, since its lines are nobody's.
        BODIES[key] = parse(str(graph.snapshot((result.id,), ())))
    return BODIES[key]

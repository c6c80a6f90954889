"""Inspection of values and lowerings, and order between nodes."""

from __future__ import annotations

import os
from collections import Counter
from typing import Self, cast

import numpy as np

from luminal_lab.core.binding import as_array
from luminal_lab.core.dtypes import Array
from luminal_lab.core.ir import IR, Node
from luminal_lab.core.op import Op, result_types, tuple_text
from luminal_lab.core.ops import After, GraphBreak, Input
from luminal_lab.core.printer import print_node
from luminal_lab.errors import DefinitionError, InputError, ShapeError
from luminal_lab.tensor.lazy import Lazy, value_text
from luminal_lab.tensor.normal import Normal
from luminal_lab.tensor.operation import operation


class Inspect(Normal):
    """Probes, which observe a value without becoming part of the graph."""

    __slots__ = ()

    @operation
    def print(self, label: str = "") -> Self:
        """Print the value whenever it is computed; nothing else changes.

        >>> y = (cx.arange(3) * 2).print("twice").sum().retrieve()
        >>> cx.execute()
        twice: i64[3]
        [0, 2, 4]
        """
        head = f"{label or '%' + self.name}: {self.type}"
        self.graph.probe(self, lambda value: print(f"{head}\n{value_text(value)}"))
        return self

    @operation
    def diff(self, reference: object, *, atol: float = 1e-5, rtol: float = 1e-5) -> Self:
        """Compare the value with an array, or a .npy file, whenever it is computed.

        The verdict is printed.

        >>> y = (cx.arange(3) / 2).named("halves").diff([0, 0.5, 1])
        >>> cx.execute()  # doctest: +ELLIPSIS
        %halves against the reference: all 3 agree; largest difference 0 at (0,): ...
        """
        if isinstance(reference, str) or hasattr(reference, "__fspath__"):
            try:
                reference = np.load(os.fspath(cast("str", reference)))
            except (OSError, ValueError, EOFError) as error:
                raise InputError(
                    f"diff: {str(reference)!r} cannot be read as a .npy file: {error}",
                    hint="write it with numpy.save",
                ) from error
        wanted = as_array(reference, "diff").copy()
        if not self.type.is_symbolic and wanted.shape != self.shape:
            raise ShapeError(
                f"diff: {self.label} cannot be compared with a reference of "
                f"{tuple_text(wanted.shape)}",
                hint="reshape the reference",
            )
        head = f"%{self.name} against the reference"
        self.graph.probe(self, lambda value: print(f"{head}: {compare(value, wanted, atol, rtol)}"))
        return self

    # -- the graph behind a value ------------------------------------------------------------------

    def lowering(self) -> str:
        """Return the lines of the graph that compute this value, without inputs.

        >>> print((cx.tensor((2,), name="x") * 2).lowering())
        %1 = constant{value = 2.0} : f32[2]
        %2 = mul %x, %1 : f32[2]
        """
        ir, nodes = self._behind()
        return "\n".join(print_node(ir, node) for node in nodes)

    def op_counts(self) -> dict[str, int]:
        """Return the number of nodes by op that compute this value, without inputs.

        >>> (cx.tensor((2,), name="x") * 2).op_counts()
        {'constant': 1, 'mul': 1}
        """
        return dict(sorted(Counter(node.op.name for node in self._behind()[1]).items()))

    def _behind(self) -> tuple[IR, list[Node]]:
        self.graph.revive([self.id])
        ir = self.graph.snapshot((self.id,), ())
        behind = ir.ancestors([self.id])
        return ir, [n for n in ir if n.id in behind and not isinstance(n.op, Input)]

    # -- own ops -----------------------------------------------------------------------------------

    @operation
    def apply(self, op: Op, *others: Lazy) -> Self:
        """Add a node with an op, which may be the user's own, and return its tensor.

        >>> from luminal_lab.core.ops import Sin
        >>> print(cx.tensor((2,), name="x").apply(Sin()).lowering())
        %1 = sin %x : f32[2]
        """
        if not isinstance(op, Op):  # pyright: ignore[reportUnnecessaryIsInstance]  # notebooks run unchecked
            raise DefinitionError(
                f"apply: {op!r} is not an op", hint="give a value of an op class: x.apply(MyOp())"
            )
        for other in others:
            if getattr(other, "graph", None) is not self.graph:
                self._foreign(other, op.name)
        (type,) = result_types(op, [self.node, *[other.node for other in others]])
        return self._appended(op, (self.id, *[other.id for other in others]), type)

    # -- order -------------------------------------------------------------------------------------

    @operation
    def graph_break(self) -> Self:
        """Return the same value; no kernel is fused across this point.

        >>> x = cx.tensor((2,), name="x")
        >>> print((x.exp2().graph_break() * 2).lowering())
        %1 = exp2 %x : f32[2]
        %2 = graph_break %1 : f32[2]
        %3 = constant{value = 2.0} : f32[2]
        %4 = mul %2, %3 : f32[2]
        """
        return self._apply(GraphBreak())

    @operation
    def after(self, *others: Lazy) -> Self:
        """Return the same value, computed only after the others.

        >>> x = cx.tensor((2,), name="x")
        >>> first = x.exp2()
        >>> print(x.sqrt().after(first).lowering())
        %1 = exp2 %x : f32[2]
        %2 = sqrt %x : f32[2]
        %3 = after %2, %1 : f32[2]
        """
        return self.apply(After(), *others)


def compare(value: Array, wanted: Array, atol: float, rtol: float) -> str:
    """Return one line on whether two arrays agree, and where they differ most."""
    if value.shape != wanted.shape:
        return f"the shapes differ: {tuple_text(value.shape)} and {tuple_text(wanted.shape)}"
    a, b = value.astype(np.float64), wanted.astype(np.float64)
    if not a.size:
        return "equal (empty)"
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    distance = np.where(same, 0.0, np.abs(a - b))
    distance = np.where(np.isnan(distance), np.inf, distance)
    near = (distance <= atol + rtol * np.abs(b)) & np.isfinite(distance)
    wrong = ~(same | near)
    worst = np.unravel_index(int(np.argmax(distance)), a.shape)
    verdict = f"{int(wrong.sum())} of {a.size} differ" if wrong.any() else f"all {a.size} agree"
    return (
        f"{verdict}; largest difference {distance[worst]:.3g} at "
        f"{tuple_text([int(k) for k in worst])}: {a[worst]:.9g} and {b[worst]:.9g}; "
        f"mean difference {distance.mean():.3g}"
    )

"""Looking at values and lowerings, and order between nodes."""

from collections import Counter
from pathlib import Path

import numpy as np
import numpy.typing as npt
from typing_extensions import Self

from luminal_lab.core.builder import operation
from luminal_lab.core.dtypes import Array
from luminal_lab.core.op import tuple_text
from luminal_lab.core.ops import After, GraphBreak, Input
from luminal_lab.core.printer import print_node
from luminal_lab.core.tensor.base import Lazy
from luminal_lab.core.tensor.normal import Normal
from luminal_lab.errors import InputError, ShapeError


class Inspect(Normal):
    """Probes, which see a value without becoming part of the graph."""

    __slots__ = ()

    def print(self, label: str = "") -> Self:
        """Print the value whenever it is computed; nothing else changes."""
        head = f"{label or '%' + self.name}: {self.type}"
        self.graph.probe(self, lambda value: print(f"{head}\n{_short(value)}"))
        return self

    def diff(
        self, reference: npt.ArrayLike | str | Path, *, atol: float = 1e-5, rtol: float = 1e-5
    ) -> Self:
        """Compare the value with an array, or a .npy file, whenever it is computed.

        What was found is printed.
        """
        wanted = np.load(reference) if isinstance(reference, (str, Path)) else np.asarray(reference)
        head = f"%{self.name} against the reference"
        self.graph.probe(self, lambda value: print(f"{head}: {compare(value, wanted, atol, rtol)}"))
        return self

    # -- the graph behind a value ------------------------------------------------------------------

    def lowering(self) -> str:
        """Return the lines of the graph that this value is computed by, without inputs.

        >>> from luminal_lab.session import Graph
        >>> print((Graph().tensor((2,), name="x") * 2).lowering())
        %1 = constant{value = 2.0} : f32[2]
        %2 = mul %x, %1 : f32[2]
        """
        ir = self.graph.snapshot((self.id,), ())
        behind = ir.ancestors([self.id])
        return "\n".join(
            print_node(ir, node)
            for node in ir
            if node.id in behind and not isinstance(node.op, Input)
        )

    def op_counts(self) -> dict[str, int]:
        """Return how many nodes of each op this value is computed by, inputs not counted.

        >>> from luminal_lab.session import Graph
        >>> (Graph().tensor((2,), name="x") * 2).op_counts()
        {'constant': 1, 'mul': 1}
        """
        ir = self.graph.snapshot((self.id,), ())
        behind = ir.ancestors([self.id])
        names = [n.op.name for n in ir if n.id in behind and not isinstance(n.op, Input)]
        return dict(sorted(Counter(names).items()))

    # -- order -------------------------------------------------------------------------------------

    @operation
    def graph_break(self) -> Self:
        """Return the same value; nothing is fused across this point."""
        return self.apply(GraphBreak())

    @operation
    def after(self, *others: Lazy) -> Self:
        """Return the same value, which is computed only when the others have been."""
        for other in others:
            self.operand(other)
        return self.apply(After(), *others)


def compare(value: Array, wanted: Array, atol: float, rtol: float) -> str:
    """Say in one line whether two arrays agree, and where they differ most."""
    if value.shape != wanted.shape:
        raise ShapeError(
            f"diff: the value is {tuple_text(value.shape)}, but the reference is "
            f"{tuple_text(wanted.shape)}",
            hint="reshape the reference",
        )
    a, b = value.astype(np.float64), wanted.astype(np.float64)
    if not a.size:
        return "equal (empty)"
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    distance = np.where(same, 0.0, np.abs(a - b))
    distance = np.where(np.isnan(distance), np.inf, distance)
    wrong = distance > atol + rtol * np.abs(b)
    worst = np.unravel_index(int(np.argmax(distance)), a.shape)
    place = tuple_text([int(k) for k in worst])
    verdict = f"{int(wrong.sum())} of {a.size} differ" if wrong.any() else f"all {a.size} agree"
    return (
        f"{verdict}; largest difference {distance[worst]:.3g} at {place}: "
        f"{a[worst]:.9g} and {b[worst]:.9g}; mean difference {distance.mean():.3g}"
    )


def _short(value: Array) -> str:
    if not value.size:
        return "[] (empty)"
    return np.array2string(value, separator=", ", threshold=200, edgeitems=3)

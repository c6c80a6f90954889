"""The session, `cx = ll.Graph()`: what was written, the data of its inputs, and its results."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
from typing_extensions import override

from luminal_lab.core.builder import DimLike, ShapeLike
from luminal_lab.core.dims import Expr, Symbol, check_bounds, evaluate, solve, symbols
from luminal_lab.core.dtypes import Array, DTypeLike
from luminal_lab.core.interpret import Environment, Step, interpret
from luminal_lab.core.ir import IR, Node
from luminal_lab.core.op import tuple_text
from luminal_lab.core.ops import HostCall, Input, Random
from luminal_lab.core.origin import running_shell
from luminal_lab.core.parameter import Parameter
from luminal_lab.core.sources import Sources
from luminal_lab.core.tensor import Tensor
from luminal_lab.core.tensor.base import Lazy, as_array
from luminal_lab.errors import (
    DimError,
    DTypeError,
    GraphError,
    InputError,
    NotComputedError,
    nearest,
)


class Run(NamedTuple):
    """What a traced run took, node by node."""

    steps: tuple[Step, ...]

    @property
    def seconds(self) -> float:
        """The time of all steps together."""
        return sum(step.seconds for step in self.steps)

    @override
    def __str__(self) -> str:
        rows = [f"{'ms':>9}  {'bytes':>12}  node"]
        rows += [
            f"{step.seconds * 1e3:9.3f}  {step.bytes:12,}  {step.node} = {step.node.op.name} : "
            f"{step.node.type}"
            for step in self.steps
        ]
        return "\n".join(rows)

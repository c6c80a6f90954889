"""luminal_lab: a deep-learning compiler you can see through, for notebooks.

import luminal_lab as ll

cx = ll.Graph()
x = cx.tensor(("batch", 4), name="x")
y = x.softmax(-1).retrieve()
x.set([[1.0, 2.0, 3.0, 4.0]])
cx.execute()
print(y)
"""

from typing import TYPE_CHECKING

from luminal_lab import errors
from luminal_lab.core.dims import Dim, Expr, Symbol
from luminal_lab.core.dtypes import DType
from luminal_lab.core.edit import Edit
from luminal_lab.core.ir import IR, Node
from luminal_lab.core.op import Binary, Elementwise, Op, Reduce, Source, TensorType, Unary, View
from luminal_lab.core.verify import verify
from luminal_lab.errors import (
    ArgumentError,
    AxisError,
    DefinitionError,
    DeviceError,
    DimError,
    DTypeError,
    GraphError,
    InputError,
    Interrupted,
    LabError,
    LabWarning,
    NotComputedError,
    ParseError,
    PassError,
    RangeError,
    RecordingError,
    ShapeError,
    UnknownNameError,
    VerifyError,
)
from luminal_lab.session import Graph, Run, run
from luminal_lab.tensor import Tensor
from luminal_lab.tensor.arithmetic import where
from luminal_lab.tensor.joining import concat, stack
from luminal_lab.tensor.parameter import Parameter
from luminal_lab.tensor.product import einsum

if TYPE_CHECKING:
    from luminal_lab.core.parse import parse

__version__ = "0.1.0"

__all__ = [
    "IR",
    "ArgumentError",
    "AxisError",
    "Binary",
    "DType",
    "DTypeError",
    "DefinitionError",
    "DeviceError",
    "Dim",
    "DimError",
    "Edit",
    "Elementwise",
    "Expr",
    "Graph",
    "GraphError",
    "InputError",
    "Interrupted",
    "LabError",
    "LabWarning",
    "Node",
    "NotComputedError",
    "Op",
    "Parameter",
    "ParseError",
    "PassError",
    "RangeError",
    "RecordingError",
    "Reduce",
    "Run",
    "ShapeError",
    "Source",
    "Symbol",
    "Tensor",
    "TensorType",
    "Unary",
    "UnknownNameError",
    "VerifyError",
    "View",
    "concat",
    "einsum",
    "errors",
    "parse",
    "run",
    "stack",
    "verify",
    "where",
]


def __getattr__(name: str) -> object:
    """Load what is not needed at once when it is first used."""
    if name == "parse":
        from luminal_lab.core.parse import parse  # noqa: PLC0415  # what loading late means

        globals()[name] = parse
        return parse
    raise AttributeError(f"module 'luminal_lab' has no attribute {name!r}")

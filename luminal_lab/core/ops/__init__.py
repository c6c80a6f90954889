"""The ops, a file for each family; importing this package registers them all."""

from luminal_lab.core.ops.primitive import (
    Add,
    Contiguous,
    Exp2,
    LessThan,
    Log2,
    MaxReduce,
    Mod,
    Mul,
    Recip,
    Sin,
    Sqrt,
    SumReduce,
)
from luminal_lab.core.ops.select import Cast, Gather, Scatter, Update, Where
from luminal_lab.core.ops.source import Constant, Input, Iota, Random
from luminal_lab.core.ops.structure import After, Call, GraphBreak, HostCall, Pick
from luminal_lab.core.ops.view import Expand, Flip, Pad, Permute, Reshape, Slice, Window

__all__ = [
    "Add",
    "After",
    "Call",
    "Cast",
    "Constant",
    "Contiguous",
    "Exp2",
    "Expand",
    "Flip",
    "Gather",
    "GraphBreak",
    "HostCall",
    "Input",
    "Iota",
    "LessThan",
    "Log2",
    "MaxReduce",
    "Mod",
    "Mul",
    "Pad",
    "Permute",
    "Pick",
    "Random",
    "Recip",
    "Reshape",
    "Scatter",
    "Sin",
    "Slice",
    "Sqrt",
    "SumReduce",
    "Update",
    "Where",
    "Window",
]

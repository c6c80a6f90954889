"""The ops, a file for each family; importing this package registers them all."""

# These imports are the public names of the package.
# ruff: noqa: F401
# pyright: reportUnusedImport=false

from luminal_lab.core.ops import intrinsic
from luminal_lab.core.ops.bits import (
    BitAnd,
    Bitcast,
    BitOr,
    BitXor,
    ShiftLeft,
    ShiftRight,
)
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
from luminal_lab.core.ops.structure import (
    After,
    Call,
    CustomGradient,
    GraphBreak,
    HostCall,
    Pick,
    Region,
    StopGradient,
    Stored,
    UserKernel,
    user_kernels,
)
from luminal_lab.core.ops.view import Expand, Flip, Pad, Permute, Reshape, Slice, Window

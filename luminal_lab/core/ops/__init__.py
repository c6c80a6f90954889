"""The ops, a file for each family; importing this package registers them all."""

from luminal_lab.core.ops.primitive import (
    Add as Add,
    Contiguous as Contiguous,
    Exp2 as Exp2,
    LessThan as LessThan,
    Log2 as Log2,
    MaxReduce as MaxReduce,
    Mod as Mod,
    Mul as Mul,
    Recip as Recip,
    Sin as Sin,
    Sqrt as Sqrt,
    SumReduce as SumReduce,
)
from luminal_lab.core.ops.select import (
    Cast as Cast,
    Gather as Gather,
    Scatter as Scatter,
    Update as Update,
    Where as Where,
)
from luminal_lab.core.ops.source import (
    Constant as Constant,
    Input as Input,
    Iota as Iota,
    Random as Random,
)
from luminal_lab.core.ops.structure import (
    After as After,
    Call as Call,
    GraphBreak as GraphBreak,
    HostCall as HostCall,
    Pick as Pick,
)
from luminal_lab.core.ops.view import (
    Expand as Expand,
    Flip as Flip,
    Pad as Pad,
    Permute as Permute,
    Reshape as Reshape,
    Slice as Slice,
    Window as Window,
)

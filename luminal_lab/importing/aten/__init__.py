"""What writes each ATen op with our tensors: one function an op, in a file for each family.

Nothing here imports torch: an op is its name, as in "aten.add.Tensor", and dtypes are ours.
"""

from luminal_lab.importing.aten import (
    backward as backward,
    elementwise as elementwise,
    indexing as indexing,
    layers as layers,
    movement as movement,
    normal as normal,
    products as products,
    reductions as reductions,
    sizes as sizes,
    sources as sources,
    windows as windows,
)
from luminal_lab.importing.aten.table import OPS as OPS, REFUSED as REFUSED

"""ONNX's ops by family, a function for each; `table` says how they are found and called."""

from luminal_lab.importing.onnx_ops import (
    activation as activation,
    arithmetic as arithmetic,
    fourier as fourier,
    indexing as indexing,
    movement as movement,
    product as product,
    quantise as quantise,
    recurrent as recurrent,
    reduction as reduction,
    sampling as sampling,
    sequences as sequences,
    window as window,
)
from luminal_lab.importing.onnx_ops.table import OPS as OPS

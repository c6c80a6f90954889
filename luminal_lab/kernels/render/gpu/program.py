"""The source of some kernels of a GPU, with what they call: the input of its compiler."""

from __future__ import annotations

from collections.abc import Sequence

from luminal_lab.kernels.dialect import CUDA, Dialect
from luminal_lab.kernels.kernel import Kernel
from luminal_lab.kernels.prelude.prelude import prelude


def gpu_source(kernels: Sequence[Kernel], dialect: Dialect = CUDA) -> str:
    """Return the whole source of kernels in one language."""
    called = prelude(dialect.name, {name for kernel in kernels for name in kernel.uses})
    return "\n\n".join([called, *(kernel.source for kernel in kernels)]) + "\n"

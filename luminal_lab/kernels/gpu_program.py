"""The source of some kernels of a GPU, with what they call: what its compiler is given."""

from __future__ import annotations

from collections.abc import Iterable

from luminal_lab.core.dtypes import DType
from luminal_lab.kernels.c_values import maths_of
from luminal_lab.kernels.cuda_prelude import cuda_prelude
from luminal_lab.kernels.kernel import Kernel


def gpu_source(kernels: Iterable[Kernel], dtypes: Iterable[DType] = ()) -> str:
    """Return the whole source; `dtypes` are those of kernels without definitions."""
    kernels = list(kernels)
    definitions = [kernel.definition for kernel in kernels if kernel.definition is not None]
    names, known = maths_of(definitions)
    uses = {name for kernel in kernels for name in kernel.uses}
    prelude = cuda_prelude(uses, sorted(known | set(dtypes), key=str), sorted(names))
    return "\n\n".join([prelude, *(kernel.source for kernel in kernels)]) + "\n"

"""bfloat16, which NumPy lacks: ml_dtypes has it, and where that is not installed a stand-in.

The stand-in has the size of a bfloat16 and is equal to no other dtype, so that all tables of dtypes
are whole; no value may have it.
"""

from typing import Any, Final, NoReturn

import numpy as np

from luminal_lab.errors import DTypeError

try:
    import ml_dtypes
except ImportError:
    ml_dtypes = None

MISSING: Final = np.dtype([("bfloat16", np.uint16)]) if ml_dtypes is None else None
"""The stand-in, if there is nothing better."""
BFLOAT16: Final[np.dtype[Any]] = np.dtype(ml_dtypes.bfloat16) if ml_dtypes else np.dtype(MISSING)


def refuse() -> NoReturn:
    """Raise the error that says what bfloat16 needs."""
    raise DTypeError(
        "dtype: bfloat16 needs the package ml_dtypes, which is not installed",
        hint="pip install ml_dtypes; or take float16 or float32",
    )


def finfo(dtype: np.dtype[Any]) -> Any:  # noqa: ANN401  # ml_dtypes does not say what it is
    """Return what NumPy's finfo says of a float dtype, bfloat16 included."""
    if dtype is MISSING:
        refuse()
    known: Any = ml_dtypes or np
    return known.finfo(dtype)

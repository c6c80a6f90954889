"""Where outputs go: IPython's, if the user's code runs in a notebook's kernel."""

from __future__ import annotations

import sys
from collections.abc import Callable


def outputs() -> Callable[..., object] | None:
    """Return IPython's `display`, or None outside notebooks; IPython is not imported for it."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    if getattr(shell, "kernel", None) is None:
        return None
    from IPython.display import display

    return display

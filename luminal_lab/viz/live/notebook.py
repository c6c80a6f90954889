"""Outputs: IPython's, if the user's code runs in a notebook's kernel."""

from __future__ import annotations

import sys
from collections.abc import Callable

# In a saved notebook JupyterLab misses the widget, and says so below the picture. The output
# without any element is that sentence.
QUIET = (
    "<style>.jp-OutputArea-child:has([{mark}])+.jp-OutputArea-child "
    ".jp-OutputArea-output:not(:has(*)){{display:none}}</style>"
)


def with_widget(static: str, mark: str) -> str:
    """Return a static picture to stand above the widget, which hides it while it lives."""
    return static + QUIET.format(mark=mark)


def outputs() -> Callable[..., object] | None:
    """Return IPython's `display`, or None outside notebooks; IPython is not imported for it."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    if getattr(shell, "kernel", None) is None:
        return None
    from IPython.display import display

    return display

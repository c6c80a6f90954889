"""A plugin of pytest for nbval: outputs that show nothing are not compared.

A progress bar leaves one behind where the machine was slow enough for the bar to be seen.
"""

from collections.abc import Iterable
from typing import Any

from nbval import plugin

_merged = plugin.coalesce_streams


def shows_something(output: Any) -> bool:
    """Say whether a reader sees anything of an output."""
    return "data" not in output or any(str(text).strip() for text in output["data"].values())


def _shown(outputs: Iterable[Any]) -> list[Any]:
    return _merged([output for output in outputs if shows_something(output)])


plugin.coalesce_streams = _shown

"""A plugin of pytest for nbval: what no reader of a saved notebook sees is not compared.

A progress bar comes up where a machine is slow enough, and nbval does not hear that it went away.
A widget or a figure is there where its packages are; still pictures are what a notebook keeps.
"""

from collections.abc import Iterable
from typing import Any

from tests.needs import need

WIDGET = "application/vnd.jupyter.widget-view+json"
ALIVE = {WIDGET, "application/vnd.plotly.v1+json"}
"""What a page shows by a script of its own, if it has that."""


def is_seen(output: Any) -> bool:
    """Say whether a reader without a kernel sees anything of an output, whole streams included."""
    if "data" in output:
        shown = output["data"]
        return not ALIVE & set(shown) and any(str(text).strip() for text in shown.values())
    return output["output_type"] != "stream" or bool(output["text"].strip())


def without_bars(outputs: Iterable[Any]) -> list[Any]:
    """Return outputs without the bars among them, which may lie between pieces of a stream."""
    return [one for one in outputs if one["output_type"] == "stream" or is_seen(one)]


def pytest_configure() -> None:
    """Have nbval compare what is seen."""
    plugin = need("nbval.plugin")
    merged = plugin.coalesce_streams

    def seen(outputs: Iterable[Any]) -> list[Any]:
        # A bar of text is blank once its lines are put together.
        return [one for one in merged(without_bars(outputs)) if is_seen(one)]

    plugin.coalesce_streams = seen

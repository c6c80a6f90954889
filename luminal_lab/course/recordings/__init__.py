"""Recordings that notebooks show, so that what was measured once is seen everywhere."""

from __future__ import annotations

from pathlib import Path

from luminal_lab.errors import UnknownNameError, nearest
from luminal_lab.io.opened import Opened, open as opened

FOLDER = Path(__file__).parent


def recorded(name: str) -> Opened:
    """Return a recording of the course.

    >>> recorded("product")
    <Opened product.lab: search of product, 0 nodes, 49 candidates>
    """
    known = sorted(path.stem for path in FOLDER.glob("*.lab"))
    if name not in known:
        told = f"choose from {', '.join(known)}"
        raise UnknownNameError(
            f"recorded: the course has no recording {name!r}",
            hint=nearest(str(name), known) or told,
        )
    return opened(FOLDER / f"{name}.lab")

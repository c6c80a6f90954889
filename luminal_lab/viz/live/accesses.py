"""Who touches what in one block, alive: the accesses of a trace as columns that the page draws.

Each access is one entry of every column; phases, lines and turns are chosen without a kernel. The
value that a cell ends in is `AccessMap`, which shows the picture of `viz/accesses.py` too, for
where no script runs.
"""

from __future__ import annotations

import html
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import numpy as np
from typing_extensions import override

from luminal_lab.display import Theme
from luminal_lab.emulator.touches import Touches, touches
from luminal_lab.emulator.trace import Trace
from luminal_lab.viz.accesses_svg import accesses_picture
from luminal_lab.viz.live.columns import Columns
from luminal_lab.viz.live.export import Exported, check_name, write_page
from luminal_lab.viz.live.notebook import outputs, with_widget
from luminal_lab.viz.live.static import new_widget
from luminal_lab.viz.picture import Picture

if TYPE_CHECKING:
    from luminal_lab.viz.live.widget import LabWidget

WHAT = "accesses"
MOST = 200_000
"""Accesses that go to the page; of more, those of the first phases do."""


class AccessMap:
    """Who touches what in one block of a launch, as a picture that is alive."""

    def __init__(self, trace: Trace, launch: int = 0, block: int | None = None) -> None:
        self.trace = trace
        self.touches = touches(trace, launch, block)
        self._widget: LabWidget | None = None

    @property
    def data(self) -> bytes:
        """The bundle that the front end reads."""
        return bundle_of_accesses(self.touches, self.trace)

    @property
    def widget(self) -> LabWidget:
        """The widget, which is made when it is first needed; it can go into ipywidgets' boxes."""
        if self._widget is None:
            self._widget = new_widget(what=WHAT, data=self.data, picture=uuid4().hex)
        return self._widget

    def picture(self, theme: Theme = "auto") -> Picture:
        """Return the picture that is shown where no script runs."""
        one = self.touches
        return accesses_picture(self.trace, launch=one.number, block=one.block, theme=theme)

    def static(self, mark: str = "") -> str:
        """Return the picture as HTML without a script, with an attribute."""
        return f"<div {mark}>{self.picture().html.replace('<img ', f'<img {mark} ', 1)}</div>"

    def export(self, path: str | Path, *, theme: Theme = "auto") -> None:
        """Write it as one page of HTML: no server, no network, no kernel."""
        check_name(path)
        static = self.static("data-ll-static")
        write_page(path, Exported(WHAT, str(self), self.data, static, theme))

    def display(self) -> None:
        """Show it now: in a notebook as the last line of a cell does, elsewhere in words."""
        if outputs() is None:
            print(self)  # it was asked for
        else:
            self._ipython_display_()

    def _ipython_display_(self) -> None:
        show = outputs()
        if show is None:
            raise NotImplementedError  # IPython then shows the repr
        widget = self.widget
        mark = f'data-ll-for="{html.escape(widget.picture)}"'
        show({"text/html": with_widget(self.static(mark), mark), "text/plain": str(self)}, raw=True)
        show(widget)

    @override
    def __str__(self) -> str:
        one = self.touches
        return (
            f"accesses of {one.launch.kernel}, block {one.block}: {len(one):,} in "
            f"{one.phases:,} phase{'s' * (one.phases != 1)}"
        )

    @override
    def __repr__(self) -> str:
        return f'<{self}; a notebook shows them, .export("page.html") writes them as a page>'


def access_map(trace: Trace, *, launch: int = 0, block: int | None = None) -> AccessMap:
    """Return who touches what in one block of a launch."""
    return AccessMap(trace, launch, block)


def bundle_of_accesses(found: Touches, trace: Trace) -> bytes:
    """Return the accesses of a block as the bytes that the page reads."""
    columns = Columns()
    kept, shown = _kept(found)
    records = kept.records
    regions = sorted({int(one) for one in np.unique(records["region"])})
    names = np.searchsorted(regions, records["region"]) if len(records) else []
    columns.put("phase", "u32", records["phase"])
    columns.put("line", "i32", records["line"])
    columns.put("array", "u8", names)
    columns.put("kind", "u8", records["kind"])
    columns.put("thread", "u32", records["thread"])
    columns.put("offset", "u32", records["offset"])
    columns.put("bytes", "u8", records["bytes"])
    columns.put("turn", "u32", kept.turn)
    cost, first = kept.costs
    columns.put("cost", "u8", cost)
    columns.put("first", "u8", first)
    columns.put("wait", "u8", np.minimum(kept.wait, 255))
    lines = kept.launch.lines
    header: dict[str, object] = {
        "what": WHAT,
        "kernel": kept.launch.kernel,
        "block": list(kept.block_place),
        "blocks": list(kept.launch.blocks),
        "threads": list(kept.launch.threads),
        "phases": found.phases,
        "shown": shown,
        "arrays": [
            {
                "name": one.name,
                "space": one.space,
                "element": one.element,
                "shape": list(one.shape),
            }
            for one in map(kept.array_of, regions)
        ],
        "lines": {
            str(one): lines[one - 1].strip() if 0 < one <= len(lines) else ""
            for one in sorted({int(one) for one in np.unique(records["line"])})
        },
        "findings": [str(one) for one in trace.findings],
    }
    return columns.to_bytes(header, compressed=True)


def _kept(found: Touches) -> tuple[Touches, str]:
    """Return the accesses that go to the page, and what is said of the others."""
    total = len(found)
    if total <= MOST:
        return found, f"{total:,} accesses"
    counts = np.bincount(found.records["phase"])
    fits = int(np.searchsorted(np.cumsum(counts), MOST, side="right"))
    mask = found.records["phase"] < max(fits, 1)
    if not fits:  # the first phase alone has more
        mask &= np.cumsum(mask) <= MOST
    kept = found.where(mask)
    return kept, f"{len(kept):,} of {total:,} accesses: those of the first {max(fits, 1):,} phases"


FORMATTERS = {"accesses.explore": access_map}
"""What makes it, as `luminal_lab/__init__.py` looks it up."""

"""The memory accesses of one block, live: a trace as columns that the page draws.

Each access is one entry of every column; phases, lines and turns are chosen without a kernel. A
cell ends in an `AccessMap`, which also shows the picture of `viz/accesses.py` where no script runs.
"""

from __future__ import annotations

import html
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import numpy as np
from typing_extensions import override

from luminal_lab.display import Theme
from luminal_lab.emulator.trace import Trace
from luminal_lab.emulator.traffic import Touches, touches
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
"""The most accesses in a page; beyond that, only the first phases are kept."""


class AccessMap:
    """The memory accesses of one block of a launch, as a live picture."""

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
        """The widget, made on first use; it can go into ipywidgets' boxes."""
        if self._widget is None:
            self._widget = new_widget(what=WHAT, data=self.data, picture=uuid4().hex)
        return self._widget

    def picture(self, theme: Theme = "auto") -> Picture:
        """Return the picture for places where no script runs."""
        chosen = self.touches
        return accesses_picture(self.trace, launch=chosen.number, block=chosen.block, theme=theme)

    def static(self, mark: str = "") -> str:
        """Return the picture as HTML without a script, with an attribute."""
        return f"<div {mark}>{self.picture().html.replace('<img ', f'<img {mark} ', 1)}</div>"

    def export(self, path: str | Path, *, theme: Theme = "auto") -> Path:
        """Write one HTML page that needs no server, network or kernel, and return its path."""
        check_name(path)
        static = self.static("data-ll-static")
        return write_page(path, Exported(WHAT, str(self), self.data, static, theme))

    def display(self) -> None:
        """Show it now: in a notebook as a cell's last line would, elsewhere as text."""
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
        chosen = self.touches
        return (
            f"accesses of {chosen.launch.kernel}, block {chosen.block}: {len(chosen):,} in "
            f"{chosen.phases:,} phase{'s' * (chosen.phases != 1)}"
        )

    @override
    def __repr__(self) -> str:
        return f'<{self}; a notebook shows them, .export("page.html") writes them as a page>'


def access_map(trace: Trace, *, launch: int = 0, block: int | None = None) -> AccessMap:
    """Return the live access map of one block of a launch."""
    return AccessMap(trace, launch, block)


def bundle_of_accesses(chosen: Touches, trace: Trace) -> bytes:
    """Return the accesses of a block as bytes for the page."""
    columns = Columns()
    kept, shown = _kept(chosen)
    records = kept.records
    regions = sorted({int(region) for region in np.unique(records["region"])})
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
        "phases": chosen.phases,
        "shown": shown,
        "arrays": [
            {
                "name": array.name,
                "space": array.space,
                "element": array.element,
                "shape": list(array.shape),
            }
            for array in map(kept.array_of, regions)
        ],
        "lines": {
            str(number): lines[number - 1].strip() if 0 < number <= len(lines) else ""
            for number in sorted({int(line) for line in np.unique(records["line"])})
        },
        "findings": [str(finding) for finding in trace.findings],
    }
    return columns.to_bytes(header, compressed=True)


def _kept(chosen: Touches) -> tuple[Touches, str]:
    """Return the accesses for the page, and a note about the others."""
    total = len(chosen)
    if total <= MOST:
        return chosen, f"{total:,} accesses"
    counts = np.bincount(chosen.records["phase"])
    fits = int(np.searchsorted(np.cumsum(counts), MOST, side="right"))
    mask = chosen.records["phase"] < max(fits, 1)
    if not fits:  # the first phase alone has more
        mask &= np.cumsum(mask) <= MOST
    kept = chosen.where(mask)
    return kept, f"{len(kept):,} of {total:,} accesses: those of the first {max(fits, 1):,} phases"


FORMATTERS = {"accesses.explore": access_map}
"""The function that makes one, looked up by `luminal_lab/__init__.py`."""

"""The table of display formatters: a picture or page for each class."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from luminal_lab.display import Shown
from luminal_lab.io.opened import Opened
from luminal_lab.passes.diff import Diff
from luminal_lab.passes.snapshot import Snapshot
from luminal_lab.viz.accesses_svg import accesses_picture
from luminal_lab.viz.beside import beside_page
from luminal_lab.viz.board_page import board_page, try_page
from luminal_lab.viz.derivation_page import derivation_page, joined_page
from luminal_lab.viz.egraph_picture import space_picture
from luminal_lab.viz.graphs import GraphPicture, graph_picture
from luminal_lab.viz.lanes_picture import lanes_picture
from luminal_lab.viz.lifetimes import lifetimes
from luminal_lab.viz.pages import kernel_page, schedule_page, timings_page
from luminal_lab.viz.payload import PictureRequest


def snapshot_picture(snapshot: Snapshot, **how: Any) -> GraphPicture:  # display's own
    """Return a picture of the graph after a pass."""
    when = f"after {snapshot.title}" if snapshot.index else "as written"
    return graph_picture(snapshot.ir, note=when, **how)


def opened_picture(opened: Opened, **how: Any) -> GraphPicture:  # display's own
    """Return a picture of the last graph of a recording, as its session showed it."""
    subject, last = opened.subject, opened.snapshots[-1]
    kernels = {
        launch.node: subject.facts.kernels[launch.kernel].name for launch in subject.facts.launches
    }
    known = PictureRequest(parameters=subject.parameters, kept=subject.kept, kernels=kernels)
    when = f"after {last.title}" if last.index else "as written"
    return graph_picture(last.ir, note=when, known=known, **how)


def diff_picture(diff: Diff, **how: Any) -> GraphPicture:  # display's own
    """Return a picture of two graphs as one."""
    return graph_picture(diff, note="before and after", **how)


FORMATTERS: dict[str, Callable[..., Shown]] = {
    "Board": board_page,
    "BoundPlan": lifetimes,
    "Derivation": derivation_page,
    "Diff": diff_picture,
    "IR": graph_picture,
    "JoinedDerivation": joined_page,
    "Kernel": kernel_page,
    "Kernel.beside": beside_page,
    "Lanes": lanes_picture,
    "MemoryPlan": lifetimes,
    "Opened": opened_picture,
    "RecordedBoard": board_page,
    "Schedule": schedule_page,
    "Snapshot": snapshot_picture,
    "Space": space_picture,
    "Timings": timings_page,
    "Try": try_page,
    "accesses": accesses_picture,
}
"""The function that draws each class, by the class's name."""

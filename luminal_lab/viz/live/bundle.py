"""All that pictures that are alive show, as one bundle of bytes: graphs, stages, views, facts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from luminal_lab.core.origin import Origin
from luminal_lab.io.cells import package_version, short_files
from luminal_lab.io.facts import Facts, Subject
from luminal_lab.passes.collector import uncollected
from luminal_lab.viz.live.columns import Columns
from luminal_lab.viz.live.rows import KINDS, Rows
from luminal_lab.viz.live.stages import Stages


def bundle_of(subjects: Sequence[Subject], *, title: str = "", compressed: bool = False) -> bytes:
    """Return the bundle of some graphs or compiles."""
    making = Bundling(title or (subjects[0].title if subjects else ""))
    for subject in subjects:
        making.add(subject)
    return making.to_bytes(compressed=compressed)


class Bundling:
    """A bundle that grows: further runs cost what they are, other facts next to nothing."""

    def __init__(self, title: str) -> None:
        self._title = title
        self._columns = Columns()
        self._runs: list[dict[str, Any]] = []
        self._origins: list[dict[Origin, int]] = []

    @uncollected
    def add(self, subject: Subject) -> None:
        """Add a graph or a compile."""
        origins: dict[Origin, int] = {}
        rows = Rows(self._columns, subject, origins)
        prefix = f"r{len(self._runs)}/"
        stages = Stages(self._columns, prefix, rows)
        for snapshot in subject.snapshots:
            stages.add(snapshot)
        rows.put(prefix)
        run = {
            "title": subject.title,
            "pipeline": subject.pipeline,
            "kinds": KINDS,
            "stages": stages.stages,
            "views": stages.views,
        }
        self._runs.append({**run, **_told(subject.facts, origins)})
        self._origins.append(origins)

    def tell(self, run: int, facts: Facts) -> None:
        """Give a run other facts."""
        self._runs[run] |= _told(facts, self._origins[run])

    def origins(self, run: int) -> tuple[Origin, ...]:
        """Return the lines of the user's, as a run counts them."""
        return tuple(self._origins[run])

    def to_bytes(self, *, compressed: bool = False) -> bytes:
        """Return what there is."""
        header = {
            "made": f"luminal_lab {package_version()}",
            "title": self._title,
            "runs": self._runs,
        }
        return self._columns.to_bytes(header, compressed=compressed)


def _told(facts: Facts, origins: dict[Origin, int]) -> dict[str, Any]:
    """Return what the header says of facts, and the lines that they and the nodes come from."""
    told = facts.to_json(origins)
    # As cells are titled; a page names no folder of this machine.
    files = short_files(one.file for one in origins)
    lines = [{"file": files[one.file], "line": one.line, "code": one.text} for one in origins]
    return {"origins": lines, "facts": told}

"""The contents of live pictures as one bundle of bytes: graphs, stages, views, facts."""

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
from luminal_lab.viz.telling import telling


def bundle_of(subjects: Sequence[Subject], *, title: str = "", compressed: bool = False) -> bytes:
    """Return the bundle of some graphs or compiles."""
    making = Bundling(title or (subjects[0].title if subjects else ""))
    for subject in subjects:
        making.add(subject)
    making.draw()
    return making.to_bytes(compressed=compressed)


class Bundling:
    """A growing bundle: a further run costs only itself, changed facts almost nothing."""

    def __init__(self, title: str) -> None:
        self._title = title
        self._columns = Columns()
        self._runs: list[dict[str, Any]] = []
        self._origins: list[dict[Origin, int]] = []
        self._stages: list[Stages] = []

    @uncollected
    def add(self, subject: Subject, first: int | None = None) -> None:
        """Add a graph or a compile, of which no view is drawn yet, and say where one begins."""
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
            "first": telling(subject.snapshots) if first is None else first,
            "stages": stages.stages,
            "views": stages.views,
        }
        self._runs.append({**run, **_facts_header(subject.facts, origins)})
        self._origins.append(origins)
        self._stages.append(stages)

    @uncollected
    def draw(self) -> None:
        """Draw the views of all stages."""
        for stages in self._stages:
            for number in range(len(stages.views)):
                stages.draw(number)

    @uncollected
    def draw_first(self, run: int, stage: int) -> None:
        """Draw the view of one stage."""
        stages = self._stages[run]
        stages.draw(stages.stages[stage]["view"])

    def tell(self, run: int, facts: Facts) -> None:
        """Replace the facts of a run."""
        self._runs[run] |= _facts_header(facts, self._origins[run])

    def origins(self, run: int) -> tuple[Origin, ...]:
        """Return the user's lines, as a run counts them."""
        return tuple(self._origins[run])

    def to_bytes(self, *, compressed: bool = False) -> bytes:
        """Return the bundle so far."""
        header = {
            "made": f"luminal_lab {package_version()}",
            "title": self._title,
            "runs": self._runs,
        }
        return self._columns.to_bytes(header, compressed=compressed)


def _facts_header(facts: Facts, origins: dict[Origin, int]) -> dict[str, Any]:
    """Return the header's facts, and the lines that they and the nodes come from."""
    data = facts.to_json(origins)
    del data["search"]  # which has a page of its own
    # Short names, as for cells; a page names no folder of this machine.
    files = short_files(origin.file for origin in origins)
    lines = [
        {"file": files[origin.file], "line": origin.line, "code": origin.text} for origin in origins
    ]
    return {"origins": lines, "facts": data}

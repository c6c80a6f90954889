"""What tests read off a bundle: the rows of each stage, its text, its firings, its frames."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import luminal_lab as ll
from luminal_lab.core.ir import IR
from luminal_lab.io.facts import Subject
from luminal_lab.passes.snapshot import Record, Snapshot
from luminal_lab.viz.live.bundle import bundle_of
from luminal_lab.viz.live.columns import Bundle, read


def bare(ir: IR) -> Subject:
    return Subject(ir.name, (Snapshot(ir, ir, Record("written", ())),))


def compiled(cx: ll.Graph, *passes: Any) -> Subject:
    cx.compile(*passes)
    made = cx.compilation
    assert made is not None
    return Subject(cx.ir.name, made.snapshots, pipeline=str(made.pipeline))


def run_of(subject: Subject) -> Run:
    return Run(read(bundle_of([subject])))


class Frame(NamedTuple):
    """A frame with places, decoded."""

    things: list[int]
    rects: list[tuple[float, ...]]
    wires: list[tuple[int, int]]
    courses: list[list[tuple[float, ...]]]
    sides: list[int]
    ports: list[float]
    size: tuple[float, float]
    layout: int
    said: list[tuple[int, str]]
    """Of each wire what became of it, and what it says."""


class Run:
    """The first run of a bundle."""

    def __init__(self, bundle: Bundle) -> None:
        self.bundle = bundle
        self.header = bundle.header["runs"][0]

    @property
    def stages(self) -> list[dict[str, Any]]:
        return self.header["stages"]

    def ints(self, name: str) -> list[int]:
        return self.bundle.columns[f"r0/{name}"].tolist()

    def texts(self, name: str) -> list[str]:
        return self.bundle.texts(f"r0/{name}")

    def stage_rows(self) -> Iterator[list[int]]:
        """Yield the rows of each stage's graph, in order, as its splices make them."""
        rows: list[int] = []
        for stage in range(len(self.stages)):
            rows = self.spliced(stage, rows)
            yield rows

    def spliced(self, stage: int, old: Sequence[int]) -> list[int]:
        splice, new = self.ints(f"s{stage}/splice"), self.ints(f"s{stage}/splice_rows")
        found, done = list[int](), 0
        for at in range(0, len(splice), 4):
            place, out, put, begin = splice[at : at + 4]
            assert place >= done
            found += [*old[done:place], *new[begin : begin + put]]
            done = place + out
        return [*found, *old[done:]]

    def firings(self, stage: int) -> Iterator[tuple[str, list[int], list[int]]]:
        """Yield the rule of each firing, the rows it takes out, and those it puts in."""
        for at, rule in enumerate(self.texts(f"s{stage}/firing.rule")):
            yield rule, self.part(f"s{stage}/", "gone", at), self.part(f"s{stage}/", "new", at)

    def part(self, prefix: str, name: str, at: int) -> list[int]:
        begin, end = self.ints(f"{prefix}firing.{name}_at")[at : at + 2]
        return self.ints(prefix + name)[begin:end]

    def sources(self, row: int) -> list[int]:
        begin, end = self.ints("node.source_at")[row : row + 2]
        return self.ints("source.id")[begin:end]

    def frames(self, view: int, side: str = "layout") -> Iterator[Frame]:
        """Yield the frames of a view, laid out for both graphs of a pass, or for one side."""
        v = f"v{view}/"
        column = {name.removeprefix(f"r0/{v}"): self.bundle.columns[name].tolist()
                  for name in self.bundle.columns if name.startswith(f"r0/{v}")}  # fmt: skip

        def part(of: str, name: str, at: int, width: int = 1) -> list[Any]:
            begin, end = column[f"{of}_at"][at : at + 2]
            return column[name][begin * width : end * width]

        for at, layout in enumerate(column[f"frame.{side}"]):
            begin, end = column["frame.thing_at"][at : at + 2]
            rects = part("layout.thing", "layout.rect", layout, 4)
            first, last = column["layout.wire_at"][layout : layout + 2]
            courses: list[list[tuple[float, ...]]] = []
            for wire in range(first, last):
                numbers = part("layout.course", "layout.course", wire)
                steps: list[tuple[float, ...]] = []
                while numbers:
                    count = int(numbers[0])
                    assert count in (2, 6)
                    steps.append(tuple(numbers[1 : count + 1]))
                    numbers = numbers[count + 1 :]
                courses.append(steps)
            ends = zip(
                part("frame.wire", "wire.source", at),
                part("frame.wire", "wire.target", at),
                strict=True,
            )
            yield Frame(
                list(range(begin, end)),
                [tuple(rects[k : k + 4]) for k in range(0, len(rects), 4)],
                list(ends),
                courses,
                part("frame.port", "port.side", at),
                part("layout.port", "layout.port", layout),
                tuple(column["layout.size"][2 * layout : 2 * layout + 2]),
                layout,
                [
                    (status, self.bundle.strings[int(label)])
                    for status, label in zip(
                        part("frame.wire", "wire.status", at),
                        part("frame.wire", "wire.label", at),
                        strict=True,
                    )
                ],
            )

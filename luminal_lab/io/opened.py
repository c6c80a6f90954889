"""`ll.open`: a recording's graphs, passes and firings, to be looked at again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn

from typing_extensions import override

from luminal_lab.core.dtypes import Array
from luminal_lab.core.ir import IR
from luminal_lab.devices.runtime.compiler import trusted_pipeline
from luminal_lab.display import DISPLAYS, DrawnGraph, Examined
from luminal_lab.errors import (
    ArgumentError,
    GraphError,
    LabError,
    UnknownNameError,
    nearest,
    visible,
)
from luminal_lab.io.board_facts import RecordedBoard, foreign_kernels, recorded_board
from luminal_lab.io.facts import Facts, Subject
from luminal_lab.io.recording import LIMIT, Contents, carried, contents_of, save_recording
from luminal_lab.passes.base import Pass
from luminal_lab.passes.compilation import Compilation, Following, Trace
from luminal_lab.passes.diff import Diff, diff
from luminal_lab.passes.generic import parse_pipeline
from luminal_lab.passes.pipeline import Pipeline
from luminal_lab.passes.snapshot import Snapshot
from luminal_lab.passes.story import Story
from luminal_lab.tables import frame
from luminal_lab.tensor.arguments import told_object
from luminal_lab.tensor.sizes import named_sizes
from luminal_lab.trust import allow, asked, foreign_of, untrusted
from luminal_lab.writing import as_path, read_bytes

if TYPE_CHECKING:
    import pandas as pd  # pyright: ignore[reportMissingTypeStubs]  # it has none

    from luminal_lab.io.recorded_search import RecordedSearch
    from luminal_lab.search.board import Board

PASSES: Final = (
    "index pass round nodes_before nodes_after firings refusals seconds verified checked"
)
MOST: Final = 1 << 40
"""The most bytes that a limit may be."""
TIMES: Final = "device how launch kernel node seconds low high bytes flops share bound note"


def open(  # noqa: A001  # as users call it: ll.open
    path: str | Path, *, limit: int = LIMIT, trust: bool = False
) -> Opened:
    """Open a recording: all graphs, passes, firings, sources and times that were saved.

    Nothing in it runs, and no session is made. A file that unpacks to more than `limit` bytes is
    refused. With `trust=True`, user kernels in the file may run in this process when its passes run
    again for a device; kernels that this user wrote or signed always may.

    >>> import luminal_lab as ll
    >>> from tempfile import TemporaryDirectory
    >>> cx = ll.Graph("twice")
    >>> y = (cx.tensor((2,), name="x") * 2 + 0).retrieve()
    >>> compilation = cx.compile("simplify, dce")
    >>> with TemporaryDirectory() as folder:
    ...     cx.save(f"{folder}/run.lab")
    ...     run = ll.open(f"{folder}/run.lab")
    >>> print(run.ir)
    graph twice(%x: f32[2]) -> (%2) {
      %1 = constant{value = 2.0} : f32[2]
      %2 = mul %x, %1 : f32[2]
    }
    >>> print(run["simplify"].firings[0])
    add-zero: %4 → %2
    """
    number = ArgumentError.unless_number(
        limit, f"open: the limit is {limit!r}", "give a number of bytes", 1, MOST
    )
    name = as_path("open", path).name
    is_trusted = asked("open", trust)
    contents = contents_of(read_bytes("recording", path), name, number)
    if is_trusted:
        allow(map(foreign_of, carried(contents.subjects)))
        for subject in contents.subjects:
            allow(foreign_kernels(subject.facts, subject.pipeline))
        searches = [subject.facts.search for subject in contents.subjects]
        named = [subject.pipeline for subject in contents.subjects]
        for passes in (*named, *(search.device for search in searches if search is not None)):
            with suppress(LabError):  # it may name a pass that this process does not have
                trusted_pipeline(passes)
    return Opened(name, contents)


@told_object("run")
class Opened(DrawnGraph, Examined):
    """An open recording: one compile or several.

    It stands for the first one; `run[1]` or `run["title"]` is another.

    >>> import luminal_lab as ll
    >>> from tempfile import TemporaryDirectory
    >>> cx = ll.Graph("twice")
    >>> y = (cx.tensor((2,), name="x") * 2).retrieve()
    >>> with TemporaryDirectory() as folder:
    ...     cx.save(f"{folder}/run.lab")
    ...     opened = ll.open(f"{folder}/run.lab")
    >>> print(opened.ir)
    graph twice(%x: f32[2]) -> (%2) {
      %1 = constant{value = 2.0} : f32[2]
      %2 = mul %x, %1 : f32[2]
    }
    """

    def __init__(self, name: str, contents: Contents) -> None:
        self.name = visible(name)
        """The file's name."""
        self.contents = contents

    def __getattr__(self, name: str) -> NoReturn:
        if name[:2] == "__":
            raise AttributeError(name)
        has_search = any(subject.facts.search is not None for subject in self.subjects)
        if has_search and hasattr(self.search, name):
            hint = f"it is the search's: run.search.{name}"
        else:
            hint = nearest(name, [name for name in dir(self) if name[0] != "_"])
        raise UnknownNameError(f"a recording has no {name!r}", hint=hint)

    # -- what it holds -----------------------------------------------------------------------------

    @property
    def subjects(self) -> tuple[Subject, ...]:
        """All graphs and compiles in it."""
        return self.contents.subjects

    @property
    def subject(self) -> Subject:
        """The first graph or compile."""
        return self.contents.subjects[0]

    @property
    def title(self) -> str:
        """The name of the recorded graph."""
        return self.subject.title

    @property
    def date(self) -> str:
        """The date of saving."""
        return self.contents.date

    @property
    def snapshots(self) -> tuple[Snapshot, ...]:
        """The graph as written, and as each pass left it."""
        return self.subject.snapshots

    @property
    def written(self) -> IR:
        """The graph as written."""
        return self.snapshots[0].ir

    @property
    def ir(self) -> IR:
        """The graph after the last pass."""
        return self.snapshots[-1].ir

    @property
    def pipeline(self) -> str:
        """The passes, as text."""
        return self.subject.pipeline

    @property
    def facts(self) -> Facts:
        """Kernels, launches, memory, rules, times and cells; measured times count as recorded."""
        return self.subject.facts

    @property
    def values(self) -> Mapping[str, Array]:
        """The arrays that were saved, by the names of their nodes; usually none."""
        return self.contents.values[0]

    @cached_property
    def boards(self) -> tuple[RecordedBoard, ...]:
        """The A/B boards that were saved; their times count as recorded."""
        kernels = self.facts.kernels
        return tuple(RecordedBoard(b, kernels[b.kernel].name) for b in self.facts.boards)

    @cached_property
    def search(self) -> RecordedSearch:
        """The search that was saved; a GraphError says so if there is none."""
        from luminal_lab.io.recorded_search import RecordedSearch  # noqa: PLC0415  # loaded when used

        for subject in self.subjects:
            if subject.facts.search is not None:
                return RecordedSearch(self.name, subject.facts.search, subject.snapshots[-1].ir)
        raise GraphError(
            f"recording {self.name}: there is no search in it",
            hint="search.save(…) writes one, and so does cx.save(…) after cx.search(…)",
        )

    @property
    def story(self) -> Any:  # noqa: ANN401  # a `Story` of viz, which lies above
        """The guided story that was saved in it; its workbench also begins with it."""
        return DISPLAYS["Opened.story"](self)

    @cached_property
    def compilation(self) -> Compilation:
        """The compile, without a device, and with those of its passes that are this package's."""
        return compilation_of(self.subject)

    # -- parts -------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self.subjects)

    def __iter__(self) -> Iterator[Opened]:
        """Yield each graph and compile as a recording of its own."""
        return (self._part(at) for at in range(len(self)))

    def __getitem__(self, which: int | str) -> Opened | Snapshot:
        """Return a part by number or title, or the snapshot of a pass by its name."""
        if isinstance(which, int):
            if not -len(self) <= which < len(self):
                raise GraphError(
                    f"recording {self.name}: there is no part {which}; there are {len(self)}",
                    hint="they count from 0; run.snapshots has the passes",
                )
            return self._part(which % len(self))
        titles = [subject.title for subject in self.subjects]
        if len(self) > 1 and isinstance(which, str) and which in titles:  # pyright: ignore[reportUnnecessaryIsInstance]  # nobody checks notebooks
            return self._part(titles.index(which))
        return self.compilation[which]

    def _part(self, at: int) -> Opened:
        contents = self.contents
        alone = Contents(
            contents.writer, contents.date, (contents.subjects[at],), (contents.values[at],)
        )
        return Opened(self.name, alone)

    def trace(self, what: Following) -> Trace:
        """Follow a node, or a line as in "cell 3, line 7", through all snapshots.

        >>> y = (cx.tensor((2,), name="x").sin() * 1).named("y").retrieve()
        >>> compilation = cx.compile("simplify, dce")
        >>> cx.save(folder / "run.lab")
        >>> ll.open(folder / "run.lab").trace("y")
        <Trace: 1 → 1 nodes; print(…) shows it>
        """
        return self.compilation.trace(what)

    def why(self, node: Following) -> Story:
        """Explain in sentences where a node comes from.

        >>> y = cx.tensor((2,), name="x").sin().named("y").retrieve()
        >>> cx.save(folder / "run.lab")
        >>> print(ll.open(folder / "run.lab").why("y"))  # doctest: +ELLIPSIS
        %y = sin %x : f32[2]
        You wrote it in "...", line 1:  y = ...
        In the last graph it is an output.
        """
        return self.compilation.why(node)

    def board(self, kernel: str, *, dims: Mapping[str, int] | None = None) -> Board:
        """Return an A/B board of a kernel, on which other schedules are tried on this machine.

        It compiles what the file says about the kernel, and so asks for trust at the first try.

        >>> y = (cx.tensor((64, 64), name="x") * 2).retrieve()
        >>> compilation = cx.compile(ll.GenericCompiler(), ll.CUDACompiler(arch="sm_90"))
        >>> cx.save(folder / "run.lab")
        >>> ll.open(folder / "run.lab").board("mul")
        <Board of mul: 1 try; print(…) shows them, .add(schedule) tries another>
        """
        names = {facts.name: facts for facts in self.facts.kernels}
        fault = f"board: recording {self.name} has no kernel {kernel!r}"
        hint = f"it has {', '.join(names)}" if names else "it has none: save a compile for a device"
        UnknownNameError.unless_known(kernel, names, fault, hint)
        return recorded_board(names[kernel], self.pipeline, named_sizes("board", dims))

    def diff(self) -> Diff:
        """Return the changes of all passes together.

        >>> y = (cx.tensor((2,), name="x") * 1).retrieve()
        >>> compilation = cx.compile("simplify, dce")
        >>> cx.save(folder / "run.lab")
        >>> ll.open(folder / "run.lab").diff()
        <Diff: 0 added, 2 removed, 0 rewired, 1 kept>
        """
        return diff(self.written, self.ir)

    # -- shown -------------------------------------------------------------------------------------

    def export(self, path: str | Path) -> Path:
        """Write the recording as one page that needs no server, network or Python.

        >>> y = cx.tensor((2,), name="x").sin().retrieve()
        >>> cx.save(folder / "run.lab")
        >>> page = ll.open(folder / "run.lab").export(folder / "run.html")
        >>> page.read_text(encoding="utf-8")[:15]
        '<!doctype html>'
        """
        live = self.workbench() if self.facts.search is None else self.search.explore()
        return live.export(path)

    def save(self, path: str | Path) -> None:
        """Write it to a file again, in the schema of this version.

        >>> y = cx.tensor((2,), name="x").sin().retrieve()
        >>> cx.save(folder / "run.lab")
        >>> ll.open(folder / "run.lab").save(folder / "copy.lab")
        >>> ll.open(folder / "copy.lab").ir == cx.ir
        True
        """
        save_recording(path, self.subjects, self.contents.values, self.contents.story)

    def to_pandas(self, table: str = "passes") -> pd.DataFrame:
        """Return a pandas table with a row for each pass, or with "times" for each time.

        >>> y = (cx.tensor((2,), name="x") * 1).retrieve()
        >>> compilation = cx.compile("simplify, dce")
        >>> cx.save(folder / "run.lab")
        >>> ll.open(folder / "run.lab").to_pandas()["pass"].tolist()
        ['written', 'simplify', 'dce']
        """
        if table == "passes":
            rows = [
                (
                    shot.index,
                    shot.title,
                    shot.round,
                    len(shot.before),
                    len(shot.ir),
                    len(shot.firings),
                    len(shot.refusals),
                    shot.seconds,
                    shot.verified,
                    shot.checked,
                )
                for shot in self.snapshots
            ]
            return frame("recording", PASSES.split(), rows, {"title": self.title})
        if table != "times":
            raise UnknownNameError(
                f"recording: there is no table of {table!r}",
                hint=nearest(str(table), ("passes", "times")) or 'choose "passes" or "times"',
            )
        facts = self.facts
        times = [
            (
                device.device,
                device.how,
                row.launch,
                facts.kernels[facts.launches[row.launch].kernel].name,
                facts.launches[row.launch].name,
                row.median,
                row.low,
                row.high,
                row.bytes,
                row.flops,
                row.share,
                row.bound,
                device.note,
            )
            for device in facts.times
            for row in device.rows
        ]
        return frame("recording", TIMES.split(), times, {"title": self.title})

    @override
    def __str__(self) -> str:
        lines = [
            f"{self.name}: saved by {self.contents.writer}, {self.date[:16].replace('T', ' ')}"
        ]
        lines += [f"  {_summary(subject)}" for subject in self.subjects]
        return "\n".join([*lines, *self._foreign()])

    def _foreign(self) -> Iterator[str]:
        """Yield lines about its kernels that do not run here."""
        foreign = untrusted(carried(self.subjects))
        if foreign:
            names = ", ".join(kernel.what for kernel in foreign[:3]) + (
                ", …" if foreign[3:] else ""
            )
            many = "1 kernel" if len(foreign) == 1 else f"{len(foreign)} kernels"
            yield f"  brings {many} that nobody here has signed: {names}"
            yield f"  nothing of that runs until you say so: luminal-lab trust {self.name} --show"

    @override
    def __repr__(self) -> str:
        more = f" and {len(self) - 1} more" if len(self) > 1 else ""
        count = len(untrusted(carried(self.subjects)))
        unsigned = f", {count} unsigned kernel{'s' * (count > 1)}" if count else ""
        return f"<Opened {self.name}: {_summary(self.subject)}{more}{unsigned}>"


def _summary(subject: Subject) -> str:
    """Return a one-line summary of a subject."""
    first, last = subject.snapshots[0], subject.snapshots[-1]
    if len(subject.snapshots) == 1:
        search = subject.facts.search
        said = "not compiled" if search is None else f"{len(search.candidates)} candidates"
        return f"{subject.title}, {len(last.ir)} nodes, {said}"
    firings = sum(len(shot.firings) for shot in subject.snapshots)
    parts = [
        f"{subject.title}, {len(first.ir)} → {len(last.ir)} nodes",
        f"{len(subject.snapshots) - 1} passes, {firings:,} firings",
    ]
    facts = subject.facts
    if facts.kernels:
        kernels, launches = len(facts.kernels), len(facts.launches)
        many = f"{launches} launch{'es' * (launches != 1)}"
        parts.append(f"{kernels} kernel{'s' * (kernels != 1)}, {many}")
    if subject.stop is not None:
        parts.append(visible(subject.stop.reason))
    if facts.boards:
        parts.append("1 board" if len(facts.boards) == 1 else f"{len(facts.boards)} boards")
    if facts.times:
        parts.append(f"times of {', '.join(device.device for device in facts.times)}")
    return "; ".join(parts)


def compilation_of(subject: Subject) -> Compilation:
    """Return the compile that was recorded, so that it can be asked.

    Only passes of this package are there, which a name alone brings back; nothing that came in a
    file is run.
    """
    passes: dict[str, Pass] = {}
    snapshots = subject.snapshots
    for title in dict.fromkeys(snapshot.title for snapshot in snapshots[1:]):
        try:
            (known,) = parse_pipeline(title).flat()
        except (LabError, ValueError):
            continue  # the user's pass, several passes, or a device
        if type(known).__module__.startswith("luminal_lab."):
            passes[title] = known
    return Compilation(snapshots, Pipeline([*passes.values()]), stop=subject.stop)

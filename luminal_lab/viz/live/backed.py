"""A subject with its live backing: the compile, the session with its data, the picture."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, TypeAlias, cast, get_args

from luminal_lab.advice.finding import Advice
from luminal_lab.core.ir import IR
from luminal_lab.core.origin import Origin
from luminal_lab.display import Theme
from luminal_lab.errors import ArgumentError, GraphError
from luminal_lab.io.cells import cells_of
from luminal_lab.io.facts import Asked, Facts, Line, Remark, Subject
from luminal_lab.io.gather import facts_of, subject_of, timed
from luminal_lab.io.opened import compilation_of
from luminal_lab.passes.compilation import Compilation
from luminal_lab.passes.draws import Given
from luminal_lab.passes.snapshot import Record, Snapshot
from luminal_lab.tensor import Tensor
from luminal_lab.tensor.parameter import Parameter
from luminal_lab.timing.compare import SideBySide
from luminal_lab.timing.timings import Timings
from luminal_lab.viz.graphs import graph_picture
from luminal_lab.viz.payload import PictureRequest
from luminal_lab.viz.picture import Picture
from luminal_lab.viz.telling import telling
from luminal_lab.workers.compiler import ShardedProgram
from luminal_lab.workers.mesh import Mesh
from luminal_lab.workers.pipelined import PipelinedProgram

Taken: TypeAlias = Timings | SideBySide | Advice
"""What was timed, or found out by timing."""


class LiveSession(Protocol):
    """The part of a user's graph, `ll.Graph`, needed here."""

    step: int
    remarks: Callable[[], Iterable[tuple[str, Origin | None]]]
    """What there is to say of it as a whole, each with the user's line that it is about."""

    @property
    def parameters(self) -> dict[str, Parameter]:
        """The borrowed parameters, by the names of their inputs."""
        ...

    def given(self) -> Given:
        """Return what is known of the inputs."""
        ...

    def marked(self) -> tuple[frozenset[int], frozenset[int]]:
        """Return the ids of inputs that are parameters, and those of nodes that are kept."""
        ...

    def __getitem__(self, name: str) -> Tensor:
        """Return the tensor with a name."""
        ...

    def advise(self, *, budget: float = 30) -> Advice:
        """Look for what is slow."""
        ...

    @property
    def compilation(self) -> Compilation:
        """The result of the last compile."""
        ...


@dataclass(frozen=True)
class Backed:
    """A subject, and its compile and session in this process."""

    subject: Subject
    compilation: Compilation | None = None
    """None for a graph that was not compiled, and for a recording."""
    session: LiveSession | None = None
    """None for graphs without a session, and for recordings."""
    times: tuple[Taken, ...] = ()
    """Times given or taken, and advice."""
    dialects: tuple[Asked, ...] = ()
    """The extra languages requested for sources."""
    mesh: Mesh | None = None
    """The mesh of the workers, for a compile of what one of them runs."""

    @property
    def snapshots(self) -> tuple[Snapshot, ...]:
        """The graph as written, and after each pass."""
        return self.subject.snapshots

    @property
    def newest(self) -> Snapshot:
        """The last graph."""
        return self.subject.snapshots[-1]

    @property
    def telling(self) -> int:
        """The number of the snapshot that says most: where a compile stopped, if it did."""
        stop = self.subject.facts.stop
        return telling(self.snapshots) if stop is None else stop.snapshot

    def compiled(self, caller: str) -> Compilation:
        """Return the compile, or raise if there is none in this process."""
        if self.compilation is None:
            raise GraphError(
                f"{caller}: {self.subject.title} is a recording, or was not compiled here",
                hint="compile it in this session: cx.compile()",
            )
        return self.compilation

    def why(self, id: int) -> str:
        """Return the story of a node."""
        return str(self.asked.why(id))

    def why_not(self, rule: str, id: int) -> str:
        """Return why a rule did not fire at a node."""
        return str(self.asked.why_not(rule, id))

    @property
    def asked(self) -> Compilation:
        """The compile to ask about its snapshots: of a recording the one that was recorded."""
        return self.compilation or compilation_of(self.subject)

    def picture(
        self,
        theme: Theme = "auto",
        stage: int = -1,
        firing: int | None = None,
        *,
        changes: bool = False,
    ) -> Picture:
        """Return a picture of a graph, the last if no other is named, which needs no script.

        With `firing` it is the graph after so many firings of that pass; else with `changes` the
        graphs before and after its pass.
        """
        snapshot, facts = self.snapshots[stage], self.subject.facts
        if changes and firing is None and snapshot.ir is not snapshot.before:
            note = f"before and after {snapshot.title}"
            return graph_picture(snapshot.diff(), theme=theme, note=note)
        ir, note = looked_at(snapshot, firing)
        launches = facts.launches if snapshot is self.newest else ()
        known = PictureRequest(
            parameters=self.subject.parameters,
            kept=self.subject.kept,
            kernels={launch.node: facts.kernels[launch.kernel].name for launch in launches},
        )
        return graph_picture(ir, theme=theme, note=note, known=known)


def looked_at(snapshot: Snapshot, firing: int | None) -> tuple[IR, str]:
    """Return the graph after a pass, or after some of its firings, and what it is in words."""
    many = len(snapshot.firings)
    if firing is not None and 0 <= firing < many:
        return snapshot.steps()[firing], f"after {firing} of {many} firings of {snapshot.title}"
    is_first = snapshot.title == "written"
    return snapshot.ir, "as written" if is_first else f"after {snapshot.title}"


def backed_graph(
    caller: str, ir: IR, session: LiveSession | None = None, title: str = ""
) -> Backed:
    """Return a graph that was not compiled, as a subject."""
    if not len(ir):
        raise GraphError(
            f"{caller}: the graph {ir.name!r} has no nodes yet",
            hint="write something first: x = cx.tensor((2, 3)), y = x.softmax(-1).retrieve()",
        )
    written = Snapshot(ir, ir, Record("written", ()))
    return backed_snapshot(written, session, title)


def backed_snapshot(
    snapshot: Snapshot, session: LiveSession | None = None, title: str = ""
) -> Backed:
    """Return one graph alone, as a subject."""
    alone = Snapshot(snapshot.ir, snapshot.ir, Record(snapshot.title, ()))
    facts = remarked(Facts(cells=cells_of(alone.ir)), session)
    subject = Subject(title or snapshot.ir.name, (alone,), facts, "", *_marked(session))
    return Backed(subject, None, session)


def remarked(facts: Facts, session: LiveSession | None) -> Facts:
    """Return facts with what there is to say of a session as a whole."""
    more = [
        Remark(text, line and Line(line.file, line.line, line.text))
        for text, line in (() if session is None else session.remarks())
    ]
    return replace(facts, remarks=(*facts.remarks, *more))


def _marked(session: LiveSession | None) -> tuple[frozenset[int], frozenset[int]]:
    return (frozenset(), frozenset()) if session is None else session.marked()


def dialects_of(like: object) -> tuple[Asked, ...]:
    """Return the languages that somebody listed."""
    if isinstance(like, str) or not isinstance(like, Iterable):
        raise ArgumentError(
            f"dialects: {like!r} lists no languages", hint='as in ["cuda", "metal"]'
        )
    return tuple([dialect_of(one) for one in cast("Iterable[object]", like)])


def backed_compile(
    compilation: Compilation,
    session: LiveSession | None = None,
    *,
    times: Sequence[Taken] = (),
    dialects: Iterable[str] = (),
    title: str = "",
) -> Backed:
    """Return a compile, as a subject with all its facts."""
    asked = dialects_of(dialects)
    facts = gathered(compilation, session, times, asked)
    parameters, kept = _marked(session)
    subject = subject_of(compilation, facts, title)
    subject = replace(subject, parameters=parameters, kept=kept)
    return Backed(subject, compilation, session, tuple(times), asked)


def with_workers(backed: Backed) -> list[Backed]:
    """Return a compile, and what its workers run: compiles of their own, of a pipeline by stage."""
    program: object = None if backed.compilation is None else backed.compilation.runner
    if not isinstance(program, ShardedProgram | PipelinedProgram):
        return [backed]
    name, runs = backed.subject.title, dict[str, Compilation]()
    if isinstance(program, ShardedProgram):
        runs[f"{name}, on each worker"] = program.worker
    else:
        for stage in range(program.how.workers):
            for phase, compiled in program.worker(stage).items():
                runs[f"{name}, stage {stage} {phase}"] = compiled
    made = [backed_compile(run, title=title) for title, run in runs.items()]
    return [backed, *(replace(one, mesh=program.mesh) for one in made)]


def gathered(
    compilation: Compilation,
    session: LiveSession | None,
    times: Sequence[Taken],
    dialects: Sequence[Asked],
) -> Facts:
    """Return the facts of a compile with times added, for the known dims."""
    dims = {} if session is None else session.given().dims
    facts = remarked(facts_of(compilation, dims=dims, dialects=dialects), session)
    for timed_run in times:
        if not isinstance(timed_run, (Timings, SideBySide, Advice)):
            raise ArgumentError(
                f"workbench: {timed_run!r} has no times",
                hint="give what cx.time(), ll.compare(cx, […]) or cx.advise() has returned",
            )
    advice = next((one for one in reversed(times) if isinstance(one, Advice)), None)
    facts = replace(facts, advice=advice)
    return timed(facts, compilation, *(one for one in times if not isinstance(one, Advice)))


def dialect_of(like: object) -> Asked:
    """Return an argument as a kernel language."""
    known: tuple[Asked, ...] = get_args(Asked)
    for dialect in known:
        if like == dialect:
            return dialect
    raise ArgumentError(
        f"workbench: {like!r} is not a language of kernels",
        hint='choose "c", "cuda", "metal", "webgpu" or "assembly"',
    )

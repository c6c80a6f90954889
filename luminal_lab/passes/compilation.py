"""The result of a compile: its snapshots, and the path of a line or a node through them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence, Set as AbstractSet
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import groupby
from pathlib import Path
from typing import Any, Protocol, TypeAlias, TypeGuard, final
from weakref import WeakSet

from typing_extensions import override

from luminal_lab.core.dtypes import Array
from luminal_lab.core.interpret import Environment, NodeStep, interpret
from luminal_lab.core.ir import IR, Node, NodeLike, nearest_node
from luminal_lab.core.ops import Pick
from luminal_lab.core.origin import Origin, here
from luminal_lab.core.printer import as_text
from luminal_lab.display import DISPLAYS, Charted, Displayed, Examined, Recorded
from luminal_lab.errors import (
    ArgumentError,
    DeviceError,
    GraphError,
    RangeError,
    expect,
    nearest,
)
from luminal_lab.interrupts import opened
from luminal_lab.passes.attribution import Attribution
from luminal_lab.passes.kept import Kept
from luminal_lab.passes.pipeline import LICENCE, Pipeline, Runner
from luminal_lab.passes.rows import Of, pass_table
from luminal_lab.passes.rule import Rule
from luminal_lab.passes.snapshot import Snapshot, followed
from luminal_lab.passes.stops import Stop, Stops, stops_of
from luminal_lab.passes.stored import Storage
from luminal_lab.passes.story import Story, rules_of, told as story_of, told_why_not
from luminal_lab.tables import Table
from luminal_lab.tensor.arguments import told_object

LINE = re.compile(r"(.*?)(?:,\s*line\s+|:)(\d+)$")


class Launched(Protocol):
    """A launch of a kernel, which computes a node."""

    @property
    def node(self) -> int:
        """The node's id."""
        ...

    @property
    def kernel(self) -> Named:
        """The name of its kernel."""
        ...


class DataSource(Protocol):
    """Who has the data of a compile's inputs."""

    def is_lent(self, id: int) -> bool:
        """Return whether an input is a parameter."""
        ...

    def value_of(self, node: Node) -> Array | None:
        """Return the data of an input; None if there is none."""
        ...


class Named(Protocol):
    """A kernel that launches use."""

    @property
    def name(self) -> str:
        """The name of the kernel."""
        ...

    def why_not(self, what: str = "schedule") -> str:
        """Say what plans of schedules could not do."""
        ...


Following: TypeAlias = NodeLike | Launched | Named
"""A reference to a node: itself, its name or number, a launch, or a kernel."""


def is_line(what: object) -> TypeGuard[str]:
    """Return whether a reference is a line, as in "cell 3, line 7" or "model.py:12"."""
    return isinstance(what, str) and not what.startswith("%") and LINE.match(what) is not None


@told_object("trace")
@dataclass(frozen=True, repr=False)
class Trace:
    """The nodes that represent a node, or a user's line, in every snapshot.

    >>> import luminal_lab as ll
    >>> cx = ll.Graph()
    >>> y = cx.tensor(("batch", 4), name="x").softmax(-1).retrieve()
    >>> compiled = cx.compile()
    >>> trace = compiled.trace(y)
    >>> [node.op.name for node in trace.rows[0][1]]
    ['mul']
    """

    rows: tuple[tuple[Snapshot, tuple[Node, ...]], ...]

    @property
    def lines(self) -> tuple[Origin, ...]:
        """The user's lines that the first snapshot's nodes come from."""
        origins = [node.meta.origin for node in self.rows[0][1]]
        return tuple(dict.fromkeys(origin for origin in origins if origin is not None))

    @property
    def first(self) -> tuple[Node, ...]:
        """The nodes of the graph as written."""
        return self.rows[0][1]

    @property
    def last(self) -> tuple[Node, ...]:
        """The nodes of the last graph."""
        return self.rows[-1][1]

    @override
    def __str__(self) -> str:
        lines = [str(line) for line in self.lines]
        # A row for each change; the passes that changed nothing here share the row before them.
        groups = [list(group) for _, group in groupby(self.rows, key=lambda row: _ids(row[1]))]
        titles = [_title(group[0][0], group[-1][0]) for group in groups]
        width = max(map(len, titles))
        for title, group in zip(titles, groups, strict=True):
            listed = ", ".join(f"{node} {node.op.name}" for node in group[0][1]) or "(gone)"
            lines.append(f"{title:{width}}  {listed}")
        return "\n".join(lines)

    _repr_mimebundle_ = as_text

    @override
    def __repr__(self) -> str:
        return f"<Trace: {len(self.first)} → {len(self.last)} nodes; print(…) shows it>"


def _ids(nodes: tuple[Node, ...]) -> tuple[int, ...]:
    return tuple(node.id for node in nodes)


def _title(first: Snapshot, last: Snapshot) -> str:
    return f"{first.index} {first.title}" + (f" … {last.index}" if last is not first else "")


@told_object("compilation")
@final
class Compilation(Charted, Examined, Recorded):
    """The result of a compile.

    `snapshots[0]` is the graph as written; one more follows for each pass that ran.

    >>> import luminal_lab as ll
    >>> cx = ll.Graph()
    >>> y = cx.tensor(("batch", 4), name="x").softmax(-1).retrieve()
    >>> compiled = cx.compile()
    >>> compiled["recognise"].ir.outputs
    (%14,)
    >>> [snapshot.name for snapshot in compiled.snapshots][:3]
    ['written', 'dce', 'views']
    """

    def __init__(
        self,
        snapshots: Sequence[Snapshot],
        pipeline: Pipeline,
        verify_seconds: float = 0.0,
        runner: Runner | None = None,
        licence: Iterable[str] = LICENCE,
        stop: Stop | None = None,
        kept: Kept | None = None,
    ) -> None:
        self._snapshots, self._kept = tuple(snapshots), kept
        self.pipeline = pipeline
        self.licence = frozenset(licence)
        """The facts granted to rules, unless an inner pipeline grants others."""
        self.verify_seconds = verify_seconds
        """The time that verification took, all passes together."""
        self.program = runner
        """The device's kernels and plans for the last graph, whether or not they can run here."""
        self.runner = runner if getattr(runner, "is_runnable", True) else None
        """The runner of the last graph, unless the interpreter runs it."""
        self.storage = Storage(self.ir)
        """Values derived from inputs when they change, not in each run."""
        self.stop = stop
        """The firing at which the compile ended, if it was given `until`."""
        self.boards: list[Displayed] = []
        """The A/B boards of its kernels, and those that earlier compiles of the session had."""
        self.data: DataSource | None = None
        """Who has the data of its inputs: the session that it was made in."""
        self.board_watchers: WeakSet[Any] = WeakSet()
        """Those that show its boards, and are told of boards made later."""

    @property
    def snapshots(self) -> tuple[Snapshot, ...]:
        """The graph as written, and one for each pass; passes of a kept graph run only now."""
        if self._kept is not None:
            self._snapshots, self._kept = tuple(self._kept.passed()), None
        return self._snapshots

    @cached_property
    def attribution(self) -> Attribution:
        """The user's lines for nodes of the last graph, with each line's share."""
        return Attribution(self.snapshots)

    @property
    def written(self) -> IR:
        """The graph as written."""
        return self._snapshots[0].ir

    @property
    def ir(self) -> IR:
        """The graph after the last pass."""
        return self._snapshots[-1].ir if self._kept is None else self._kept.made.last

    @property
    def changing(self) -> frozenset[str]:
        """The names of the passes that changed something.

        >>> y = (cx.tensor((2,), name="x") * 1).retrieve()
        >>> sorted(cx.compile("simplify, cse, dce").changing)
        ['dce', 'simplify']
        """
        if self._kept is not None:
            return self._kept.made.changing
        return frozenset(snapshot.name for snapshot in self.snapshots if snapshot.firings)

    @property
    def seconds(self) -> float:
        """The time that all passes took together, without verification."""
        return sum(snapshot.seconds for snapshot in self.snapshots)

    @property
    def stablehlo(self) -> str:
        """The graph as StableHLO's text, if it was compiled for XLA.

        >>> y = (cx.tensor((2,), name="x") * 2).retrieve()
        >>> compiled = cx.compile(ll.GenericCompiler(), ll.XLACompiler())
        >>> "stablehlo.multiply" in compiled.stablehlo
        True
        """
        text = getattr(self.program, "stablehlo", None)
        if text is None:
            raise DeviceError(
                f"stablehlo: {self.written.name} was not compiled for XLA",
                hint="cx.compile(ll.GenericCompiler(), ll.XLACompiler())",
            )
        return text

    @property
    def communication(self) -> Sequence[Any]:
        """What workers send to each other, if it was compiled for a mesh of them.

        >>> y = (cx.tensor((4, 2), name="x") * 2).sum(0).named("y").retrieve()
        >>> plan = ll.sharding(ll.Mesh(data=2), {"x": ("data", None)})
        >>> [row.op for row in cx.compile(ll.Sharded(plan)).communication]
        ['all_reduce']
        """
        communication = getattr(self.program, "communication", None)
        if communication is None:
            raise DeviceError(
                f"communication: {self.written.name} was not compiled for a mesh of workers",
                hint="cx.compile(ll.Sharded(plan, ll.CPUCompiler())); what the stages of a "
                "pipeline sent is in compiled.program.lanes.sent",
            )
        return communication

    @property
    def rounds(self) -> bool:
        """Whether a pass rounded values on purpose."""
        return any(pass_.rounds for pass_ in self.pipeline.flat())

    def __getitem__(self, name: str | int) -> Snapshot:
        """Return a snapshot by number, or the last one where the named pass changed something."""
        if isinstance(name, int):
            if not -len(self.snapshots) <= name < len(self.snapshots):
                raise GraphError(
                    f"compilation: there is no snapshot {name}",
                    hint=f"they go from 0 to {len(self.snapshots) - 1}",
                )
            return self.snapshots[name]
        wanted = name if isinstance(name, str) else None  # pyright: ignore[reportUnnecessaryIsInstance]  # nobody checks notebooks
        matching = [s for s in self.snapshots if wanted in (s.name, s.title)]
        if not matching:
            raise GraphError(
                f"compilation: no pass {name!r} ran",
                hint=nearest(name, [s.name for s in self.snapshots]) or self._fired_by(wanted),
            )
        return next((s for s in reversed(matching) if s.firings), matching[-1])

    def _fired_by(self, rule: str | None) -> str:
        """Say which pass fired a rule that was taken for a pass, or which passes ran."""
        by = [s.name for s in self.snapshots if rule in s.counts]
        if by:
            return f"{rule} is a rule; {by[0]} fired it"
        return f"there are {', '.join(dict.fromkeys(s.name for s in self.snapshots))}"

    def export(
        self,
        folder: str | Path,
        *,
        target: str = "native",
        name: str | None = None,
        sizes: Mapping[str, int | Sequence[int] | range] | None = None,
    ) -> Path:
        """Write it as a folder that runs without us: C, a library, weights, and run.py.

        `target` is this machine, or another for which zig compiles, as in "aarch64-linux". In C the
        functions of the model begin with `name`: the graph's, unless that is main, or the folder's.
        For the usual `sizes` of dims, as in {"batch": (1, 8, 32)}, there are kernels beside those
        for any size; a range, as in {"batch": range(1, 65)}, has all sizes that are taken.

        >>> y = (cx.tensor((2,), name="x") * 2).named("y").retrieve()
        >>> compiled = cx.compile(ll.GenericCompiler(), ll.CPUCompiler())
        >>> sorted(file.suffix for file in compiled.export(folder / "twice").iterdir())
        ['', '.c', '.c', '.h', '.json', '.py', '.so']
        """
        if str(folder).lower().endswith((".html", ".htm")):
            raise ArgumentError(
                f"export: {str(folder)!r} is the name of a page, and a compile becomes a folder",
                where=str(here() or "") or None,
                hint='cx.workbench().export("page.html", run=True) writes a page that computes',
            )
        return DISPLAYS["Compilation.export"](self, folder, target=target, name=name, sizes=sizes)

    def values(
        self,
        environment: Environment,
        wanted: AbstractSet[int],
        known: Mapping[int, Array],
        trace: list[NodeStep] | None,
    ) -> dict[int, Array]:
        """Return the values of nodes of the last graph, by their ids."""
        if self.storage.stored:
            stored = opened(lambda: self.storage.values(environment, wanted))
            known = {**stored, **known}
        runner = self.runner
        if runner is None:
            run = partial(interpret, self.ir, environment, wanted=wanted, known=known, trace=trace)
            return opened(run)
        try:
            if getattr(runner, "looks", False):
                return runner.run(environment, wanted, known, trace)
            return opened(partial(runner.run, environment, wanted, known, trace))
        except RangeError as error:
            error.where = self._written_at(error) or error.where
            raise

    def _written_at(self, error: RangeError) -> str:
        """Return the user's lines whose op, in a kernel, met an index out of range."""
        if error.node is None:
            return ""
        picks = (user.id for user in self.ir.users(error.node) if isinstance(user.op, Pick))
        parts = [p for id in (error.node, *picks) for p in self.attribution.parts(id)]
        nodes = [self.written[part] for part in parts]
        met = [node for node in nodes if error.message.startswith(f"{node.op.name}:")]
        return "\n".join(dict.fromkeys(str(node.meta.origin) for node in met if node.meta.origin))

    def tried(
        self, environment: Environment, wanted: AbstractSet[int]
    ) -> Sequence[dict[int, Array]]:
        """Return the values of nodes as computed by untrusted kernels.

        A device that runs its kernels in isolation returns one mapping for each way of doing so.
        """
        tried = getattr(self.runner, "tried", None)
        if tried is None:
            return [self.values(environment, wanted, {}, None)]
        return tried(environment, wanted, self.storage.values(environment, wanted))

    # -- following one thing -----------------------------------------------------------------------

    def trace(self, what: Following | Origin) -> Trace:
        """Follow a node, or all nodes of a user's line, through all snapshots.

        A line is given as in "cell 3, line 7" or "model.py:12"; a node by its name, its id, a
        record in any snapshot, a launch that computes it, or a kernel, whose first launch counts.

        >>> y = (cx.tensor((2,), name="x").sin() * 1).retrieve()
        >>> trace = cx.compile("simplify, dce").trace(y)
        >>> trace.first, trace.last
        ((%3,), (%1,))
        """
        rows = zip(self.snapshots, self._rows("trace", what), strict=True)
        return Trace(tuple((shot, tuple(shot.ir[id] for id in sorted(row))) for shot, row in rows))

    def _rows(self, asking: str, what: Following | Origin) -> list[set[int]]:
        """Return the ids of the nodes in each snapshot that stand for those requested."""
        ids, start = self.meant(asking, what)
        return followed(self.snapshots, start, ids)

    def meant(self, asking: str, what: Following | Origin) -> tuple[set[int], int]:
        """Return the ids of the requested nodes, and the first snapshot that has them.

        >>> y = (cx.tensor((2,), name="x") * 1).retrieve()
        >>> cx.compile("simplify").meant("why", "%x")
        ({0}, 0)
        """
        if isinstance(what, Origin):
            return self._of_line(asking, what.file, what.line), 0
        if is_line(what):
            line = LINE.match(what)
            assert line is not None
            return self._of_line(asking, line.group(1), int(line.group(2))), 0
        node = self.node_of(asking, what)
        id = self.find(node).id  # a name may have moved to a node's replacement
        return {id}, self.first_with(id)

    def node_of(self, asking: str, what: Following) -> NodeLike:
        """Return the requested node: a launch's own, or that of a kernel's first launch.

        >>> y = cx.tensor((4, 8), name="x").softmax(-1).retrieve()
        >>> compiled = cx.compile(ll.GenericCompiler(), ll.CUDACompiler(arch="sm_90"))
        >>> compiled.node_of("example", cx.kernels["softmax"]) == cx.launches[0].node
        True
        """
        if isinstance(what, (int, str)):
            return what
        record: object = what if isinstance(what, Node) else getattr(what, "node", None)
        if isinstance(record, Node):
            self._check_own(asking, record)
        # A launch has its node's number; a tensor has an id, and its node's record.
        own: object = getattr(what, "id", getattr(what, "node", None))
        if isinstance(own, int):
            return own
        launches: Sequence[Launched] = getattr(self.program, "launches", ())
        used = [launch.node for launch in launches if launch.kernel == what]
        if used:
            return used[0]
        raise GraphError(
            f"{asking}: {what!r} is not a node, launch or kernel of this compile",
            hint="give a tensor, a node's name, a launch of cx.launches or a kernel of cx.kernels",
        )

    def _check_own(self, asking: str, record: Node) -> None:
        """Raise if each node of this compile that has a record's id is another one."""
        known = [shot.ir[record.id] for shot in self.snapshots if record.id in shot.ir]
        if known and (record.op, record.types) not in [(node.op, node.types) for node in known]:
            here, other = (f"{node.op.name} : {node.type}" for node in (known[0], record))
            raise GraphError(
                f"{asking}: {record} is not a node of this compile, where %{record.id} is {here}, "
                f"not {other}",
                hint='give a node of its own, as in compilation.ir["y"], or a name',
            )

    def _of_line(self, asking: str, file: str, number: int) -> set[int]:
        ids: set[int] = set()
        files: set[str] = set()
        for node in self.written.nodes:
            origin = node.meta.origin
            if origin is not None and (origin.file == file or origin.file.endswith("/" + file)):
                files.add(origin.file)
                if origin.line == number:
                    ids.add(node.id)
        if ids:
            return ids
        if files:
            lines = {o.line for n in self.written.nodes if (o := n.meta.origin) and o.file in files}
            near = sorted(sorted(lines, key=lambda line: abs(line - number))[:5])
            raise GraphError(
                f"{asking}: line {number} of {file!r} made no node",
                hint=f"lines near it that did: {', '.join(map(str, near))}",
            )
        known = {n.meta.origin.file for n in self.written.nodes if n.meta.origin is not None}
        raise GraphError(
            f"{asking}: no node comes from {file!r}",
            hint=nearest(file, known) or f"they come from {', '.join(sorted(known)) or 'nowhere'}",
        )

    def first_with(self, node: NodeLike) -> int:
        """Return the index of the first snapshot that has a node.

        >>> y = cx.tensor((4, 8), name="x").softmax(-1).retrieve()
        >>> compiled = cx.compile()
        >>> new = compiled.ir.outputs[0]
        >>> compiled.snapshots[compiled.first_with(new)].name
        'recognise'
        """
        id = node if isinstance(node, (int, str)) else node.id
        for snapshot in self.snapshots:
            if id in snapshot.ir:
                return snapshot.index
        names = {node.name for snapshot in self.snapshots for node in snapshot.ir.nodes}
        shown = f"%{str(node).removeprefix('%')}"
        raise GraphError(
            f"there is no node {f'with the id {id}' if isinstance(id, int) else shown} in any "
            "snapshot",
            hint=nearest_node(shown, names) or "print(compilation.ir) shows the nodes",
        )

    def find(self, node: NodeLike) -> Node:
        """Return a node's record in the last snapshot that has it.

        >>> y = (cx.tensor((2,), name="x") * 1).named("y").retrieve()
        >>> compiled = cx.compile("simplify, dce")
        >>> "y" in compiled.ir, compiled.find("y").op
        (False, Mul())
        """
        self.first_with(node)
        id = node if isinstance(node, (int, str)) else node.id
        return next(s.ir[id] for s in reversed(self.snapshots) if id in s.ir)

    @property
    def rules(self) -> dict[str, Rule]:
        """The rules that its passes tried, by name."""
        return rules_of(self.pipeline)

    def stops(self, what: Following | Origin | None = None, *, rule: str = "") -> Stops:
        """Return the firings that touch a node or a line, or those of a rule: breakpoints.

        What is touched is given as for `trace`. Each stop has the graphs before and after: the
        latter is what a compile that ends there would have made.

        >>> y = ((cx.tensor((2,), name="x") * 1 + 0).sin() + 0).named("y").retrieve()
        >>> print(cx.compile("simplify, dce").stops("%4", rule="add-zero")[0])
        Pass 1, simplify, firing 2: add-zero: %4 → %x
        """
        if what is None and not rule:
            raise ArgumentError(
                "stops: neither a node nor a line nor a rule is given",
                hint='as in stops("%9"), stops("cell 1, line 4") or stops(rule="add-zero")',
            )
        expect(rule, str, "stops: the rule is {}", 'give its name, as in rule="add-zero"')
        fired = {firing.rule for snapshot in self.snapshots for firing in snapshot.firings}
        if rule and rule not in fired:
            raise GraphError(
                f"stops: no firing of this compile is by {rule!r}",
                hint=nearest(rule, fired)
                or "print(compilation.snapshots) has the rules that fired",
            )
        rows = None if what is None else self._rows("stops", what)
        return stops_of(self.snapshots, rows, lambda firing: rule in ("", firing.rule))

    # -- asking ------------------------------------------------------------------------------------

    def why(self, node: Following) -> Story:
        """Say in sentences where a node, a launch or a kernel comes from.

        >>> y = (cx.tensor((2,), name="x").sin() * 1).named("y").retrieve()
        >>> print(cx.compile("simplify, dce").why("y"))  # doctest: +ELLIPSIS
        %y = mul %1, %2 : f32[2]
        You wrote it in "...", line 1:  y = ...
        Pass 1, simplify, firing 1, mul-one put %1 in place of %y.
        Pass 2, dce, firing 1, unused erased %y.
        It has been gone since dce.
        """
        return story_of(self.snapshots, self.find(self.node_of("why", node)))

    def why_not(self, rule: Rule | str, node: Following) -> Story:
        """Say why a rule, or a search written as code, found nothing at a node.

        For a rule this is the pattern, the condition or the licence; for a search such as "softmax"
        it is how far it got, and the node at which it stopped. The name of a pass stands for
        everything that the pass looks for.

        >>> y = (cx.tensor((2,), name="x") * 2).named("y").retrieve()
        >>> print(cx.compile("simplify").why_not("add-zero", "y"))
        add-zero: x + 0 → x, if the sign of a zero does not matter
        The pattern does not match: %y is mul, where the pattern has add: x + 0.
        """
        if rule == "schedule":
            return self._told_schedules(node)
        current = self.find(self.node_of("why_not", node))
        return told_why_not(self.snapshots, self.pipeline, rule, current)

    def _told_schedules(self, what: Following) -> Story:
        """Say what plans could not do for the kernels that compute a node."""
        ids = {node.id for node in self.trace(what).last}
        picked = {id for node in self.ir for id in node.sources if node.id in ids}
        launches: Sequence[Launched] = getattr(self.program, "launches", ())
        told = [
            launch.kernel.why_not()
            for launch in launches
            if launch.node in ids or (launch.node in picked and self.ir[launch.node].extra)
        ]
        if not told:
            raise GraphError(
                f"why_not: no kernel of this compile computes {what}",
                hint="a device makes kernels: cx.compile(ll.GenericCompiler(), ll.CPUCompiler())",
            )
        return Story("\n".join(dict.fromkeys(told)))

    # -- shown -------------------------------------------------------------------------------------

    def to_pandas(self, of: Of = "passes") -> Table:
        """Return a pandas table: a row for each pass, each firing, or each rule of a pass.

        >>> y = (cx.tensor((2,), name="x") * 1).retrieve()
        >>> cx.compile("simplify, dce").to_pandas("firings")[["pass", "rule"]].values.tolist()
        [['simplify', 'mul-one'], ['dce', 'unused'], ['dce', 'unused']]
        """
        return pass_table("compilation", self.snapshots, of)

    @override
    def __str__(self) -> str:
        rows = [("", "pass", "nodes", "firings", "ms")]
        for idle, group in groupby(self.snapshots, key=_is_idle):
            passes = list(group)
            shown = [passes] if idle else [[record] for record in passes]
            rows += [_row(together) for together in shown]
        wide = max(32, *(len(row[1]) for row in rows))
        lines = [
            f"{number:>5}  {title:<{wide}} {nodes:>6} {firings:>8} {ms:>9}"
            for number, title, nodes, firings, ms in rows
        ]
        return "\n".join(lines if self.stop is None else [*lines, self.stop.reason])

    _repr_mimebundle_ = as_text

    @override
    def __repr__(self) -> str:
        return (
            f"<Compilation of {self.written.name}: {len(self.snapshots) - 1} passes, "
            f"{len(self.written)} → {len(self.ir)} nodes"
            + (">" if self.stop is None else f"; stopped: {self.stop}>")
        )


def _is_idle(snapshot: Snapshot) -> bool:
    return snapshot.index > 0 and not snapshot.firings


def _row(passes: Sequence[Snapshot]) -> tuple[str, str, str, str, str]:
    """Return a table's row for one pass, or for several that changed nothing."""
    first, last = passes[0], passes[-1]
    turn = f" (round {first.round})" if first.round > 1 else ""
    title = f"{first.title}{turn}" if len(passes) == 1 else f"{len(passes)} passes without a change"
    number = f"{first.index}" if first is last else f"{first.index}-{last.index}"
    seconds = sum(record.seconds for record in passes)
    return number, title, f"{len(last.ir)}", f"{len(first.firings)}", f"{seconds * 1e3:.2f}"

"""Snapshots as plain data: columns of numbers and a list of texts, each written once.

A compile is one table of records, and for each snapshot the editor's log: which records each change
removed and inserted. Ops, types and dims are texts in the grammar of the text form. Nothing else is
needed: the graphs follow from the logs, as they did when the passes ran.

    texts       names, rules, ops, types, …, to which all other parts refer by index
    rows        a column each: id, op, type, sources, meta; a rewired node has another row
    metas       name, origin, scope, rule, parents
    graphs      graphs that follow from no log: as written, and the bodies of calls
    snapshots   title, seconds, …, log: kind, rule, node, into, before, after, signatures, firing

unpacking.py reads it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Final, TypeAlias

from luminal_lab.core.edit import Kind, LogEntry, replay
from luminal_lab.core.ir import IR, Meta, Node, Signature
from luminal_lab.core.op import Op, TensorType, mentioned
from luminal_lab.core.ops import Input
from luminal_lab.core.origin import Origin
from luminal_lab.core.printer import dim_declaration, op_text, types_text
from luminal_lab.core.verify import verify
from luminal_lab.errors import LabError, RecordingError
from luminal_lab.io.cells import short_files
from luminal_lab.passes.snapshot import Snapshot
from luminal_lab.plain import Json

Columns: TypeAlias = "dict[str, list[Json]]"
KINDS: Final[tuple[Kind, ...]] = ("insert", "replace", "erase", "reorder")
LOG: Final = tuple("kind rule node into before after old new firing because".split())  # noqa: SIM905  # a list of names reads better so
INPUT: Final = "input"


class Texts:
    """Distinct texts, each with its index."""

    def __init__(self) -> None:
        self.places: dict[str, int] = {"": 0}

    def __call__(self, text: str) -> int:
        """Return the index of a text."""
        return self.places.setdefault(text, len(self.places))

    @property
    def list(self) -> list[Json]:
        """All of them, in order."""
        return [*self.places]


class Packing:
    """Packs the snapshots of one compile."""

    def __init__(self, texts: Texts) -> None:
        self.texts = texts
        self.ops: Columns = {"text": [], "type": [], "body": []}
        self.metas: Columns = {"name": [], "origin": [], "scope": [], "rule": [], "parents": []}
        self.rows: Columns = {"id": [], "op": [], "type": [], "meta": [], "reads": []}
        self.graphs: list[Json] = []
        self.signatures: list[Json] = []
        self.origins: dict[Origin, int] = {}
        # By identity: records are unique, and live as long as their snapshots.
        self._rows: dict[int, int] = {}
        self._metas: dict[int, int] = {}
        self._graphs: dict[int, int] = {}
        self._signatures: dict[Signature, int] = {}
        self._known: dict[int, int] = {}
        self._ops: dict[object, int] = {}
        self._types: dict[TensorType, None] = {}
        self._values: list[Op] = []
        self._held: list[object] = []

    def json(self, snapshots: Sequence[Snapshot]) -> dict[str, Json]:
        """Return the snapshots as JSON values."""
        packed: list[Json] = []
        for before, shot in pairwise([None, *snapshots]):
            assert shot is not None
            packed.append(self._snapshot(before, shot))
        dims = mentioned(self._types, self._values).values()
        bounded = [s for s in dims if (s.low, s.high, s.multiple_of) != (1, None, 1)]
        files = self.files
        return {
            "dims": [dim_declaration(dim) for dim in bounded],
            "origins": [
                [self.texts(files[o.file]), o.line, self.texts(o.text)] for o in self.origins
            ],
            "ops": as_json(self.ops),
            "metas": as_json(self.metas),
            "rows": as_json(self.rows),
            "signatures": self.signatures,
            "graphs": self.graphs,
            "snapshots": packed,
        }

    @property
    def files(self) -> Mapping[str, str]:
        """The short name of each file that wrote a node, without folders of this machine."""
        return short_files(origin.file for origin in self.origins)

    # -- snapshots ---------------------------------------------------------------------------------

    def _snapshot(self, last: Snapshot | None, shot: Snapshot) -> dict[str, Json]:
        follows = last is not None and shot.before is last.ir
        if not shot.verified:
            _check(shot)
        unreplayed = (
            _unless_replayed(shot) if shot.log else shot.ir if shot.ir is not shot.before else None
        )
        return {
            "title": shot.title,
            "index": shot.index,
            "seconds": shot.seconds,
            "verified": shot.verified,
            "checked": shot.checked,
            "round": shot.round,
            "before": -1 if follows else self._graph(shot.before),
            "after": -1 if unreplayed is None else self._graph(unreplayed),
            "log": self._log(shot.log),
            "refusals": {
                "rule": [self.texts(refusal.rule) for refusal in shot.refusals],
                "node": [refusal.node for refusal in shot.refusals],
                "facts": [self.texts(" ".join(sorted(r.facts))) for r in shot.refusals],
                "because": [self.texts(refusal.because) for refusal in shot.refusals],
            },
        }

    def _log(self, log: Iterable[LogEntry]) -> dict[str, Json]:
        columns: Columns = {name: [] for name in LOG}
        kind, rule, node, into, before, after, old, new, firing, because = columns.values()
        texts, row, signature = self.texts, self._row, self._signature
        for change in log:
            kind.append(KINDS.index(change.kind))
            rule.append(texts(change.rule))
            node.append(change.node)
            into.append(-1 if change.into is None else change.into)
            before.append([row(record) for record in change.before])
            after.append([row(record) for record in change.after])
            old.append(signature(change.signatures[0]))
            new.append(signature(change.signatures[1]))
            firing.append(change.firing)
            because.append(texts(change.because))
        return as_json(columns)

    # -- graphs ------------------------------------------------------------------------------------

    def _graph(self, ir: IR) -> int:
        index = self._graphs.get(id(ir))
        if index is None:
            rows: list[Json] = [self._row(node) for node in ir.table]
            # A body comes before the graph that calls it.
            index = self._graphs[id(ir)] = len(self.graphs)
            self._held.append(ir)
            self.graphs.append(
                {
                    "name": ir.name,
                    "rows": rows,
                    "signature": self._signature(ir.signature),
                    "size": ir.next_id,
                }
            )
        return index

    def _signature(self, signature: Signature) -> int:
        index = self._known.get(id(signature))
        if index is None:
            index = self._signatures.setdefault(signature, len(self._signatures))
            if index == len(self.signatures):
                inputs, outputs, carries, schedule = signature
                pairs: list[Json] = [[*pair] for pair in carries]
                self.signatures.append([[*inputs], [*outputs], pairs, [*schedule]])
            self._known[id(signature)] = index
            self._held.append(signature)
        return index

    def _row(self, node: Node) -> int:
        index = self._rows.get(id(node))
        if index is None:
            rows = self.rows
            op = self._op(node)
            index = self._rows[id(node)] = len(rows["id"])
            rows["id"].append(node.id)
            rows["op"].append(op)
            rows["type"].append(self.texts(types_text(node)))
            self._types.update(dict.fromkeys(node.types))
            rows["meta"].append(self._meta(node.meta))
            # Relative ids are the same in equal layers.
            rows["reads"].append([node.id - source for source in node.sources])
            self._held.append(node)
        return index

    def _op(self, node: Node) -> int:
        op = node.op
        body = op.body_of()
        key: object = op if body is None else (type(op), id(body), _beside(op, body))
        index = self._ops.get(key)
        if index is None:
            at = -1 if body is None else self._graph(body)
            text = op_text(op, {} if body is None else {body: "body"})
            index = self._ops[key] = len(self.ops["text"])
            self.ops["text"].append(self.texts(INPUT if isinstance(op, Input) else text))
            self.ops["type"].append(self.texts(str(node.type)))
            self.ops["body"].append(at)
            self._values.append(op)
        return index

    def _meta(self, meta: Meta) -> int:
        index = self._metas.get(id(meta))
        if index is None:
            metas, origin, derivation = self.metas, meta.origin, meta.derivation
            index = self._metas[id(meta)] = len(metas["name"])
            metas["name"].append(self.texts(meta.name or ""))
            metas["origin"].append(
                -1 if origin is None else self.origins.setdefault(origin, len(self.origins))
            )
            metas["scope"].append(self.texts(meta.scope))
            metas["rule"].append(-1 if derivation is None else self.texts(derivation.rule))
            metas["parents"].append([] if derivation is None else [*derivation.parents])
            self._held.append(meta)
        return index


def as_json(columns: Columns) -> dict[str, Json]:
    """Return columns as a JSON object."""
    return {**columns}


def _beside(op: Op, body: IR) -> str:
    """Return an op's text without its body."""
    return op_text(op, {body: "body"})


def _check(shot: Snapshot) -> None:
    """Raise if an unverified graph breaks a law, because it could not be opened."""
    try:
        verify(shot.ir.bare())
    except LabError as error:
        raise RecordingError(
            f"recording: the graph after {shot.title} cannot be kept: {error.message}",
            hint="verify(ir) says what is wrong with it",
        ) from error


def _unless_replayed(shot: Snapshot) -> IR | None:
    """Return the graph after a pass, unless replaying the log gives it."""
    replayed = replay(shot.before, shot.log)
    is_same = replayed.signature == shot.ir.signature and replayed.next_id == shot.ir.next_id
    return (
        None
        if is_same and not any(True for _ in replayed.table.differing(shot.ir.table))
        else shot.ir
    )

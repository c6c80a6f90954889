"""Snapshots from plain data: the inverse of packing.py, for data that anybody may have written.

Every number is checked before it is used, and every resulting graph satisfies the laws of the IR.
A mistake raises a ValueError that says where it is; none of the data is run.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NoReturn, cast

from luminal_lab.core.edit import LogEntry, Refusal, replay
from luminal_lab.core.ir import (
    CHUNK_BITS,
    IR,
    NO_META,
    Derivation,
    Meta,
    Node,
    Signature,
    Table,
)
from luminal_lab.core.op import Op, TensorType
from luminal_lab.core.ops import Input
from luminal_lab.core.origin import Origin
from luminal_lab.core.parse import DEEPEST, LARGEST_ID
from luminal_lab.core.verify import verify
from luminal_lab.errors import LabError
from luminal_lab.io.fragments import Fragments, absent, is_absent
from luminal_lab.io.packing import INPUT, KINDS, LOG
from luminal_lab.passes.rule import FACTS
from luminal_lab.passes.snapshot import Record, Snapshot
from luminal_lab.plain import entries, listed
from luminal_lab.reading import shown

MOST_CHUNKS: Final = 2_000_000
"""The most chunks of all tables together: more than any compile makes, and still within memory."""
MOST_NODES: Final = 1_000_000
"""The most nodes of a graph with the bodies of its calls, each counted once per call."""
MOST_LOOKS: Final = 4_000_000
"""The most nodes of all changed snapshots together, since each graph is verified."""
MOST: Final = (1 << 53) - 1


class JsonObject:
    """A JSON object and its path in a file."""

    def __init__(self, given: object, path: str) -> None:
        self.entries = dict(entries(given, path))
        self.path = path

    def __getitem__(self, name: str) -> object:
        if name not in self.entries:
            raise ValueError(f"{self.path} has no {name}")
        return self.entries[name]

    def object(self, name: str) -> JsonObject:
        """Return an entry that is an object."""
        return JsonObject(self[name], f"{self.path}.{name}")

    def objects(self, name: str) -> list[JsonObject]:
        """Return an entry that is a list of objects."""
        path = f"{self.path}.{name}"
        return [
            JsonObject(item, f"{path}[{at}]") for at, item in enumerate(listed(self[name], path))
        ]

    def text(self, name: str) -> str:
        """Return an entry that is a text."""
        return cast(str, self._typed(name, str, "a text"))

    def flag(self, name: str) -> bool:
        """Return an entry that is true or false."""
        return cast(bool, self._typed(name, bool, "true or false"))

    def number(self, name: str, low: int, high: int) -> int:
        """Return an entry that is a whole number from `low` to less than `high`."""
        return whole([self[name]], f"{self.path}.{name}", low, high)[0]

    def seconds(self, name: str) -> float:
        """Return an entry that is a non-negative number."""
        value = self[name]
        if type(value) is int:
            value = float(value)
        if type(value) is not float or not 0 <= value < float("inf"):
            raise ValueError(f"{self.path}.{name} is {shown(value)}, no number of seconds")
        return value

    def numbers(self, name: str, low: int, high: int) -> list[int]:
        """Return an entry that is a list of whole numbers, each in a range."""
        path = f"{self.path}.{name}"
        return whole(listed(self[name], path), path, low, high)

    def lists(self, name: str, low: int, high: int) -> list[list[int]]:
        """Return an entry that is a list of lists of whole numbers, each in a range."""
        path = f"{self.path}.{name}"
        rows = listed(self[name], path)
        if not {*map(type, rows)} <= {list}:
            raise ValueError(f"{path} has an entry that is not a list")
        lists = cast("list[list[object]]", rows)
        whole([number for row in lists for number in row], path, low, high)
        return cast("list[list[int]]", lists)

    def _typed(self, name: str, kind: type, words: str) -> object:
        value = self[name]
        if type(value) is not kind:
            raise ValueError(f"{self.path}.{name} is {shown(value)}, not {words}")
        return value


def whole(given: Sequence[object], path: str, low: int, high: int) -> list[int]:
    """Return a list whose entries are whole numbers, from `low` to less than `high`."""
    # To Python, true is a whole number; here it is not.
    if not {*map(type, given)} <= {int}:
        raise ValueError(f"{path} has an entry that is not a whole number")
    numbers = cast("list[int]", given)
    if numbers and (min(numbers) < low or max(numbers) >= high):
        wrong = next(number for number in numbers if not low <= number < high)
        raise ValueError(f"{path} has {shown(wrong)}, which is not from {low} to {high - 1}")
    return numbers


def columns(given: JsonObject, *names: str) -> int:
    """Return the number of rows of some columns, which must be equal."""
    sizes = {name: len(listed(given[name], f"{given.path}.{name}")) for name in names}
    if len({*sizes.values()}) > 1:
        counts = ", ".join(f"{size} of {name}" for name, size in sizes.items())
        raise ValueError(f"{given.path} has columns of different lengths: {counts}")
    return next(iter(sizes.values()))


class Unpacking:
    """Unpacks the snapshots of one compile."""

    def __init__(self, given: JsonObject, texts: Sequence[str]) -> None:
        self.given = given
        self.texts = texts
        dims = [_text(dim, f"{given.path}.dims") for dim in listed(given["dims"], given.path)]
        self.fragments = Fragments(dims)
        self.origins = self._origins()
        self.metas = self._metas()
        self.signatures = self._signatures()
        self.graphs: dict[int, IR] = {}
        self._graphs = given.objects("graphs")
        self._depths: dict[int, int] = {}
        """The depth of nested calls, by graph."""
        self._sizes_of: dict[int, int] = {}
        """The number of nodes with those of its calls, by graph."""
        self._deep: dict[int, int] = {}
        """The depth of nested calls in a body, by the op's identity."""
        self._counts: dict[int, int] = {}
        """The number of nodes in a body with those of its own calls, by the op's identity."""
        self._looks = 0
        self.nodes: list[Node] = []
        self._rows()

    def snapshots(self) -> tuple[Snapshot, ...]:
        """Return the snapshots, with every graph verified."""
        given = self.given.objects("snapshots")
        largest = max([node.id for node in self.nodes] + self._sizes(), default=0)
        if (largest >> CHUNK_BITS) * len(given) > MOST_CHUNKS:
            raise ValueError(f"{self.given.path}.snapshots are graphs that no memory holds")
        snapshots: list[Snapshot] = []
        right: IR | None = None  # the newest graph known to satisfy the laws
        for at, entry in enumerate(given):
            if entry.number("index", 0, MOST) != at:
                raise ValueError(f"{entry.path}.index is {entry['index']}, and not {at}")
            log = self._log(entry.object("log"))
            index = entry.number("before", -1, len(self._graphs))
            if index < 0 and not snapshots:
                raise ValueError(f"{entry.path} follows no other")
            before = self._graph(index) if index >= 0 else snapshots[-1].ir
            if (
                snapshots
                and before is not snapshots[-1].ir
                and not _same_ids(before, snapshots[-1].ir)
            ):
                raise ValueError(
                    f"{entry.path} begins with other nodes than the one before it left"
                )
            right = self._verified(before, right, entry.path)
            after = entry.number("after", -1, len(self._graphs))
            ir = self._graph(after) if after >= 0 else replay(before, log) if log else before
            right = self._verified(ir, right, entry.path)
            record = Record(
                entry.text("title"),
                log,
                self._refusals(entry.object("refusals")),
                entry.seconds("seconds"),
                entry.flag("verified"),
                entry.flag("checked"),
                entry.number("round", 0, MOST),
            )
            snapshots.append(Snapshot(before, ir, record, at))
        if not snapshots:
            raise ValueError(f"{self.given.path}.snapshots is empty")
        return tuple(snapshots)

    def _sizes(self) -> list[int]:
        return [graph.number("size", 0, LARGEST_ID + 2) for graph in self._graphs]

    def _verified(self, ir: IR, known: IR | None, path: str) -> IR:
        if known is not None and ir.table is known.table and ir.signature == known.signature:
            return known
        bare = ir.bare()
        self._looks += sum(1 for _ in bare.table)
        if self._looks > MOST_LOOKS:
            raise ValueError(f"{path}: the graphs so far have more than {MOST_LOOKS:,} nodes")
        try:
            verify(bare, known)
        except LabError as error:
            raise ValueError(f"{path}: {error.message.removeprefix('verify: ')}") from error
        except KeyError as error:
            raise ValueError(f"{path}: there is no node {error}") from error
        return bare

    # -- logs --------------------------------------------------------------------------------------

    def _log(self, given: JsonObject) -> tuple[LogEntry, ...]:
        count = columns(given, *LOG)
        rows, texts, nodes, signatures = len(self.nodes), self.texts, self.nodes, self.signatures
        kind = given.numbers("kind", 0, len(KINDS))
        rule = given.numbers("rule", 0, len(texts))
        node = given.numbers("node", -1, LARGEST_ID + 1)
        into = given.numbers("into", -1, LARGEST_ID + 1)
        before = given.lists("before", 0, rows)
        after = given.lists("after", 0, rows)
        old = given.numbers("old", 0, len(signatures))
        new = given.numbers("new", 0, len(signatures))
        firing = given.numbers("firing", 0, MOST)
        because = given.numbers("because", 0, len(texts))
        changes: list[LogEntry] = []
        for at in range(count):
            came = tuple([nodes[row] for row in after[at]])
            if not kind[at] and [record.id for record in came] != [node[at]]:
                raise ValueError(f"{given.path} inserts %{node[at]}, but has no record of it")
            change = LogEntry(
                KINDS[kind[at]],
                texts[rule[at]],
                node[at],
                None if into[at] < 0 else into[at],
                tuple([nodes[row] for row in before[at]]),
                came,
                (signatures[old[at]], signatures[new[at]]),
                firing[at],
                texts[because[at]],
            )
            changes.append(change)
        return tuple(changes)

    def _refusals(self, given: JsonObject) -> tuple[Refusal, ...]:
        columns(given, "rule", "node", "facts", "because")
        texts = self.texts
        words = {word for at in given.numbers("facts", 0, len(texts)) for word in texts[at].split()}
        if not words <= FACTS.keys():
            raise ValueError(f"{given.path}.facts has {shown(min(words - FACTS.keys()))}")
        return tuple(
            Refusal(texts[rule], node, frozenset(texts[facts].split()), texts[because])
            for rule, node, facts, because in zip(
                given.numbers("rule", 0, len(texts)),
                given.numbers("node", 0, LARGEST_ID + 1),
                given.numbers("facts", 0, len(texts)),
                given.numbers("because", 0, len(texts)),
                strict=True,
            )
        )

    # -- graphs ------------------------------------------------------------------------------------

    def _graph(self, index: int) -> IR:
        if index in self.graphs:
            return self.graphs[index]
        given = self._graphs[index]
        table = Table()
        deep = count = 0
        for row in given.numbers("rows", 0, len(self.nodes)):
            node = self.nodes[row]
            if table.get(node.id) is not None:
                raise ValueError(f"{given.path} has the id {node.id} twice")
            table.set(node.id, node)
            deep = max(deep, self._deep.get(id(node.op), 0))
            count += 1 + self._counts.get(id(node.op), 0)
        size = given.number("size", table.size, LARGEST_ID + 2)
        if size > table.size:
            table.set(size - 1, None)
        signature = self.signatures[given.number("signature", 0, len(self.signatures))]
        for id_ in (*signature.inputs, *signature.outputs):
            if table.get(id_) is None:
                raise ValueError(f"{given.path} takes or gives %{id_}, which it has not")
        ir = IR(table, name=given.text("name"), **signature._asdict())
        if deep >= DEEPEST:
            raise ValueError(f"{given.path} has calls nested more than {DEEPEST} deep")
        if count > MOST_NODES:
            raise ValueError(f"{given.path} has {count:,} nodes with those of its calls")
        self.graphs[index] = ir
        self._depths[index] = deep
        self._sizes_of[index] = count
        return ir

    def _rows(self) -> None:
        given, texts = self.given.object("rows"), self.texts
        columns(given, "id", "op", "type", "meta", "reads")
        ops = self.given.object("ops")
        count = columns(ops, "text", "type", "body")
        types: dict[int, tuple[TensorType, ...]] = {}

        def types_of(index: int) -> tuple[TensorType, ...]:
            if index not in types:
                types[index] = self._fragments(texts[index])
            return types[index]

        spelled = list(
            zip(
                ops.numbers("text", 0, len(texts)),
                ops.numbers("type", 0, len(texts)),
                ops.numbers("body", -1, len(self._graphs)),
                strict=True,
            )
        )
        ops_made: list[Op | None] = [None] * count
        append = self.nodes.append
        for id_, op, type_, meta, reads in zip(
            given.numbers("id", 0, LARGEST_ID + 1),
            given.numbers("op", 0, count),
            given.numbers("type", 0, len(texts)),
            given.numbers("meta", 0, len(self.metas)),
            given.lists("reads", -LARGEST_ID, LARGEST_ID + 1),
            strict=True,
        ):
            known, (first, *extra) = ops_made[op], types_of(type_)
            if known is None or (is_absent(known) and known.infer() != first):
                text, own, body = spelled[op]
                # The rows of a body come before those that call it.
                inner = None if body < 0 else self._graph(body)
                # An op in name only has its node's type.
                known = self._op(texts[text], types_of(own)[0], inner)
                known = ops_made[op] = absent(texts[text], first) if is_absent(known) else known
                if inner is not None:
                    self._deep[id(known)] = self._depths[body] + 1
                    self._counts[id(known)] = self._sizes_of[body]
            sources = tuple([id_ - read for read in reads])
            append(Node(id_, known, sources, first, tuple(extra), self.metas[meta]))

    def _fragments(self, text: str) -> tuple[TensorType, ...]:
        try:
            return self.fragments.types(text)
        except LabError as error:
            _unread(text, error)

    def _op(self, text: str, type: TensorType, body: IR | None) -> Op:
        if text == INPUT:
            return Input(type.dtype, type.shape)
        try:
            return self.fragments.op(text, type, {} if body is None else {"body": body})
        except LabError as error:
            _unread(text, error)

    # -- what records refer to ---------------------------------------------------------------------

    def _origins(self) -> list[Origin]:
        path, texts = f"{self.given.path}.origins", self.texts
        origins: list[Origin] = []
        for entry in listed(self.given["origins"], path):
            row = whole(listed(entry, path), path, -LARGEST_ID * 100, LARGEST_ID * 100)
            if len(row) != 3 or not (0 <= row[0] < len(texts) and 0 <= row[2] < len(texts)):
                raise ValueError(f"{path} has {shown(row)}, which is not a line")
            origins.append(Origin(texts[row[0]], row[1], texts[row[2]]))
        return origins

    def _metas(self) -> list[Meta]:
        given, texts = self.given.object("metas"), self.texts
        columns(given, "name", "origin", "scope", "rule", "parents")
        metas: list[Meta] = []
        for name, origin, scope, rule, parents in zip(
            given.numbers("name", 0, len(texts)),
            given.numbers("origin", -1, len(self.origins)),
            given.numbers("scope", 0, len(texts)),
            given.numbers("rule", -1, len(texts)),
            given.lists("parents", 0, LARGEST_ID + 1),
            strict=True,
        ):
            if not name and origin < 0 and not scope and rule < 0:
                metas.append(NO_META)
                continue
            line = None if origin < 0 else self.origins[origin]
            derivation = None if rule < 0 else Derivation(texts[rule], tuple(parents))
            metas.append(Meta(texts[name] or None, line, texts[scope], derivation))
        return metas

    def _signatures(self) -> list[Signature]:
        path = f"{self.given.path}.signatures"
        signatures: list[Signature] = []
        for entry in listed(self.given["signatures"], path):
            parts = listed(entry, path)
            if len(parts) != 4:
                raise ValueError(f"{path} has one of {len(parts)} parts, not 4")
            inputs, outputs, schedule = (_ids(parts[at], path) for at in (0, 1, 3))
            pairs = [_ids(pair, path) for pair in listed(parts[2], path)]
            if any(len(pair) != 2 for pair in pairs):
                raise ValueError(f"{path} has a carry that is not a pair")
            carries = tuple((pair[0], pair[1]) for pair in pairs)
            signatures.append(Signature(inputs, outputs, carries, schedule))
        return signatures


def _same_ids(first: IR, other: IR) -> bool:
    return {node.id for node in first.table} == {node.id for node in other.table}


def _ids(given: object, path: str) -> tuple[int, ...]:
    return tuple(whole(listed(given, path), path, 0, LARGEST_ID + 1))


def _text(given: object, path: str) -> str:
    if not isinstance(given, str):
        raise ValueError(f"{path} has {shown(given)}, no text")
    return given


def texts_of(given: Iterable[object]) -> list[str]:
    """Return a list whose entries are texts; the first is empty."""
    texts = [_text(item, "texts") for item in given]
    if texts[:1] != [""]:
        raise ValueError("texts begins with another than the empty one")
    return texts


def _unread(text: str, error: LabError) -> NoReturn:
    message = error.message.partition(": ")[2] or error.message
    raise ValueError(f"{shown(text)} cannot be read: {message}") from error

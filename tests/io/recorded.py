"""What tests of recordings share: writing and reading in memory, and what must be the same."""

import json
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from luminal_lab.core.ir import IR
from luminal_lab.errors import visible
from luminal_lab.io.facts import Facts, Subject
from luminal_lab.io.packing import Packing, Texts
from luminal_lab.io.recording import Contents, contents_of, recording_bytes
from luminal_lab.passes.compile import compile_ir
from luminal_lab.passes.pipeline import PassLike
from luminal_lab.passes.snapshot import Record, Snapshot

NO_FACTS = Facts()


def subject(snapshots: Iterable[Snapshot], facts: Facts = NO_FACTS, title: str = "t") -> Subject:
    """Return snapshots as something that can be kept."""
    return Subject(title, tuple(snapshots), facts)


def compiled(ir: IR, *passes: PassLike) -> Subject:
    """Return a compile as something that can be kept."""
    return subject(compile_ir(ir, *passes).snapshots)


def written(ir: IR) -> Subject:
    """Return a graph alone as something that can be kept."""
    return subject([Snapshot(ir, ir, Record("written", ()))])


def again(*subjects: Subject) -> Contents:
    """Write subjects, and read what was written."""
    return contents_of(recording_bytes(subjects), "t.lab")


def check_same(before: Sequence[Snapshot], after: Sequence[Snapshot]) -> None:
    """Check that snapshots are what they were: text with origins, logs, firings, replays."""
    packing = Packing(Texts())
    packing.json(before)
    files = packing.files
    assert len(before) == len(after)
    for old, new in zip(before, after, strict=True):
        assert str(new.ir) == str(old.ir)
        assert str(new.before) == str(old.before)
        assert origins(new.ir, {}) == origins(old.ir, files)
        assert new.ir == old.ir
        assert new.ir.next_id == old.ir.next_id
        assert [n.id for n in new.ir] == [n.id for n in old.ir]
        names = "title", "index", "seconds", "verified", "checked", "round", "refusals", "counts"
        for name in names:
            assert getattr(new, name) == getattr(old, name)
        assert [log_line(c) for c in new.log] == [log_line(c) for c in old.log]
        assert [str(one) for one in new.firings] == [str(one) for one in old.firings]
        assert str(new.steps()[-1]) == str(old.steps()[-1])
        # What a pass left alone is the same object before and after it, as when it ran.
        shared = [old.ir.table.get(n.id) is n for n in old.before.table]
        assert [new.ir.table.get(n.id) is n for n in new.before.table] == shared


def log_line(change: object) -> str:
    """Return all that a change says, records by their text."""
    kind, rule, node, into, gone, come, signatures, firing, because = change  # pyright: ignore[reportGeneralTypeIssues]  # a change
    rows = [
        [(n.id, str(n.op), n.sources, n.types, n.meta.name) for n in part] for part in (gone, come)
    ]
    return repr((kind, rule, node, into, rows, signatures, firing, because))


def origins(ir: IR, files: Mapping[str, str]) -> list[object]:
    """Return where all nodes come from, those of bodies too, by what a recording calls files."""
    found: list[object] = []
    for node in ir:
        origin = node.meta.origin
        if origin is not None:
            file = files.get(origin.file, origin.file)
            # What a terminal would obey, or nobody would see, comes back spelled.
            origin = origin._replace(file=visible(file), text=visible(origin.text))
        made = node.meta.derivation
        if made is not None:
            made = made._replace(rule=visible(made.rule))
        found.append((node.id, node.meta.scope, made, origin))
        body = node.op.body_of()
        if body is not None:
            found += origins(body, files)
    return found


def rewrite(path: Path, change: Callable[[Any], object]) -> None:
    """Change the document of a recording that has no values, as somebody who damages it would."""
    head, _, body = path.read_bytes().partition(b"\n")
    document = json.loads(zlib.decompress(body))
    change(document)
    path.write_bytes(head + b"\n" + zlib.compress(json.dumps(document).encode()))

"""Damaged recordings: each is refused with a RecordingError, or looked at without harm."""

import json
import random
import signal
import tempfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import luminal_lab as ll
from luminal_lab.errors import UNSEEN, LabError, RecordingError
from luminal_lab.io.opened import Opened
from luminal_lab.io.recorded_search import RecordedSearch
from luminal_lab.io.recording import MAGIC, contents_of, recording_bytes
from luminal_lab.passes.snapshot import Snapshot
from luminal_lab.viz.live.replies import ASKS, Replies
from luminal_lab.viz.live.search import SearchExplorer
from tests.damage import bytes_damaged, parts_damaged, places, words_damaged
from tests.viz.searches import of_a_program

GOLDEN = Path(__file__).parent / "golden"
SECONDS = 60
"""After which a call hangs; none takes one, however busy the machine is."""


def softmax() -> bytes:
    """Return a recording with kernels, launches, memory, sources, times and cells."""
    cx = ll.Graph("scores")
    x = cx.tensor((8, 4), name="x").set(np.ones((8, 4)))
    with cx.scope("head"):
        (x * 1 + 0).softmax(-1).named("p").retrieve()
    cx.compile(ll.GenericCompiler(), ll.CPUCompiler(threads=1))
    with tempfile.TemporaryDirectory() as folder:
        cx.save(f"{folder}/run.lab", cx.time(rounds=1, warm_up=0), dialects=["cuda"], values=True)
        return Path(folder, "run.lab").read_bytes()


def chain() -> bytes:
    """Return a recording of simple passes, with dims, bodies in bodies and two subjects."""
    found = []
    for name in ("first", "second"):
        cx = ll.Graph(name)
        x = cx.tensor((cx.dim("n", 1, 64), 4), name="x")
        ((x * 2 + 0).softmax(-1) @ cx.tensor((4, 3), name="w") * 1).named("y").retrieve()
        cx.compile("recognise, simplify, cse, dce, inline, fold, dce")
        with tempfile.TemporaryDirectory() as folder:
            cx.save(f"{folder}/run.lab")
            found += contents_of(Path(folder, "run.lab").read_bytes(), "run.lab").subjects
    return recording_bytes(found)


def searched() -> bytes:
    """Return a recording of a search for two kernels."""
    with tempfile.TemporaryDirectory() as folder:
        of_a_program(12).save(f"{folder}/s.lab")
        return Path(folder, "s.lab").read_bytes()


@pytest.fixture(scope="module")
def recordings() -> list[dict[str, Any]]:
    """The documents of some recordings."""
    whole = [softmax(), chain(), searched(), (GOLDEN / "schema1.lab").read_bytes()]
    found = []
    for data in whole:
        stream = zlib.decompressobj()
        document = stream.decompress(data.partition(b"\n")[2])
        found.append((document.decode(), stream.unused_data))
    return found


def packed(body: bytes, values: bytes = b"") -> bytes:
    return MAGIC + b"1\n" + zlib.compress(body, 1) + values


# -- what is looked at -----------------------------------------------------------------------------


def looks(run: Opened, drawn: random.Random) -> Iterator[Callable[[], object]]:
    """Yield what somebody may ask of a recording."""
    yield from (lambda: str(run), lambda: repr(run), lambda: run.title, lambda: run.values)
    yield from (lambda: run.to_pandas(), lambda: run.to_pandas("times"), lambda: str(run.facts))
    yield from (lambda: str(run.compilation), lambda: str(run.diff()), lambda: run.display().text)
    yield lambda: run.compilation.to_pandas("firings")
    yield lambda: run.compilation.to_pandas("rules")
    ids = sorted({node.id for one in run.snapshots for node in one.ir.table}) or [0]
    lines = [node.meta.origin for node in run.written if node.meta.origin is not None]
    for id in drawn.choices(ids, k=3):
        yield lambda id=id: str(run.trace(id))
        yield lambda id=id: run.why(id)
        yield lambda id=id: run.compilation.why_not(_rule(run, drawn), id)
    if lines:
        line = drawn.choice(lines)
        yield lambda: str(run.trace(f"{line.file}, line {line.line}"))
    for one in drawn.sample(run.snapshots, min(3, len(run.snapshots))):
        yield from snapshot_looks(one, drawn)
    if run.facts.search is not None:
        yield from search_looks(run.search, drawn)


def search_looks(search: RecordedSearch, drawn: random.Random) -> Iterator[Callable[[], object]]:
    """Yield what somebody may ask of a search."""
    yield from (lambda: str(search), lambda: repr(search), lambda: search.display().html)
    yield from (lambda: str(search.best), lambda: search.best.source, lambda: str(search.default))
    yield from (lambda: search.replay(), lambda: search.candidates.to_pandas())
    yield lambda: str(search.derivation)
    explorer = search.explore()
    assert isinstance(explorer, SearchExplorer)
    yield lambda: explorer.data
    for at in (drawn.randrange(20), -1, "x", None):
        yield lambda at=at: _no_name(explorer.answer({"ask": "kernel", "candidate": at}))


def _no_name(reply: Mapping[str, Any]) -> None:
    assert not re_named(reply.get("error", "")), reply


def _rule(run: Opened, drawn: random.Random) -> str:
    names = [refusal.rule for one in run.snapshots for refusal in one.refusals]
    names += [firing.rule for one in run.snapshots for firing in one.firings]
    return drawn.choice(names or ["add-zero"])


def snapshot_looks(one: Snapshot, drawn: random.Random) -> Iterator[Callable[[], object]]:
    """Yield what somebody may ask of a snapshot."""
    yield from (lambda: str(one), lambda: repr(one), lambda: str(one.ir), lambda: str(one.diff()))
    yield from (lambda: [str(f) for f in one.firings], lambda: one.counts, lambda: one.refused)
    yield lambda: [str(ir) for ir in one.steps()][-1]
    yield lambda: [(one.forward(node), str(node)) for node in one.before]
    yield lambda: [one.back(node) for node in one.ir]
    yield lambda: one.display().html
    yield lambda: one.ir.to_pandas()
    yield lambda: ll.verify(one.ir)


def questions(run: Opened, drawn: random.Random) -> Iterator[dict[str, Any]]:
    """Yield what a page may ask, and what nobody should."""
    last = len(run.snapshots) - 1
    odd = [None, -1, 1 << 70, "x", [], {}, True, 0.5, "simplify"]
    for ask in (*ASKS, "nothing"):
        if ask in ("ptx", "time"):
            continue  # a recording has no compile to do it with
        question: dict[str, Any] = {
            "ask": ask,
            "run": 0,
            "stage": drawn.randint(0, last),
            "id": drawn.randrange(20),
        }
        question |= {
            "rule": "add-zero",
            "passes": ["dce"],
            "from": drawn.randint(0, last),
            "dialect": "cuda",
        }
        if drawn.random() < 0.5:
            question[drawn.choice(list(question))] = drawn.choice(odd)
        yield question


def look(run: Opened, drawn: random.Random, *, whole: bool) -> int:
    """Ask a recording for much; nothing but a LabError may come of it. Return how many answered."""
    answered = 0
    for one in run:
        for ask in looks(one, drawn):
            with suppress(LabError):
                ask()
                answered += 1
        assert not UNSEEN.search(f"{one}{one!r}{one.title}{one.compilation}".replace("\n", ""))
    if whole:
        with suppress(LabError), tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "page.html")
            run.export(path)
            assert path.stat().st_size > 1_000
            run.save(Path(folder, "again.lab"))
            again = ll.open(Path(folder, "again.lab"))
            assert [str(one.ir) for one in again.snapshots] == [
                str(one.ir) for one in run.snapshots
            ]
            answered += 1
    with suppress(LabError):
        held = run.workbench()._held  # pyright: ignore[reportAttributeAccessIssue]  # what a page asks comes here
        replies = Replies(held, lambda: None)
        for question in questions(run, drawn):
            reply = replies.answer(question)
            assert not re_named(reply.get("error", "")), (question, reply)
            answered += 1
    return answered


def re_named(error: str) -> bool:
    """Return whether an answer is the name of one of Python's own errors."""
    first = error.partition(":")[0]
    return first.endswith("Error") and first.isidentifier()


@contextmanager
def in_time() -> Iterator[None]:
    """Fail where something hangs."""

    def hangs(*_: object) -> None:
        raise AssertionError("it hangs")

    before = signal.signal(signal.SIGALRM, hangs)
    signal.alarm(SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


# -- the sweep -------------------------------------------------------------------------------------


def damaged(drawn: random.Random, text: str, values: bytes) -> bytes:
    """Return a recording that is damaged in one of three ways."""
    match drawn.randrange(10):
        case 0:
            return bytes_damaged(drawn, packed(text.encode(), values))
        case 1:
            return packed(bytes_damaged(drawn, text.encode()), values)
        case 2:
            return packed(words_damaged(drawn, text).encode("utf-8", "surrogatepass"), values)
        case _:
            document = json.loads(text)
            parts_damaged(drawn, document, WAYS.setdefault(id(text), list(places(document))[1:]))
            return packed(json.dumps(document).encode(), values)


WAYS: dict[int, list[tuple[Any, ...]]] = {}


@pytest.mark.sweep
def test_a_damaged_recording_is_refused_or_looked_at(recordings, seed: int, long: bool):
    count = 37_000 if long else 60
    found = {"refused": 0, "opened": 0, "answers": 0}
    for case in range(count):
        drawn = random.Random(f"{seed} {case}")
        text, values = drawn.choice(recordings)
        data = damaged(drawn, text, values)
        with in_time():
            try:
                run = Opened("run.lab", contents_of(data, "run.lab"))
            except RecordingError as refusal:
                said = str(refusal)
                found["refused"] += (
                    "hint: " in said and len(said) < 1_000 and not UNSEEN.search(said)
                )
                continue
            found["opened"] += 1
            try:
                found["answers"] += look(run, drawn, whole=case % 20 == 0)
            except Exception as error:
                error.add_note(f"--seed {seed}, case {case}")
                raise
    assert found["refused"] + found["opened"] == count
    assert found["refused"] > count // 10
    assert found["opened"] > count // 10
    assert found["answers"] > 10 * found["opened"]

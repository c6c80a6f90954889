"""What an engine of ipyparallel does as a worker: it is called there, and never here.

It is sent texts and arrays: a graph, which is parsed and verified like one from a file, passes by
their names, and parts of inputs. It compiles the graph once, and runs it with the others. Arrays
that it was sent, or has computed, are not sent again: they have numbers. What fails here is
returned as a report, as an exception of a process elsewhere is a text at most.
"""

from __future__ import annotations

import json
import mmap
import os
import platform
import re
import socket
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from luminal_lab.core.dtypes import Array
from luminal_lab.core.interpret import Environment
from luminal_lab.core.ir import Node
from luminal_lab.core.parse import parse
from luminal_lab.passes.compile import compile_ir
from luminal_lab.passes.pipeline import as_pass
from luminal_lab.plain import plain, read
from luminal_lab.trust import allow
from luminal_lab.workers.job import meetings, tracked
from luminal_lab.workers.mesh import Mesh
from luminal_lab.workers.talk import GoneError, Post, Talk
from luminal_lab.workers.turns import Script, Turns, gone_through


class Mark:
    """How far this process has come, in a file that can be read when the process is gone."""

    def __init__(self) -> None:
        descriptor, self.path = tempfile.mkstemp(prefix="luminal_lab-")
        try:
            os.write(descriptor, bytes(16))
            self.memory = mmap.mmap(descriptor, 16)
        finally:
            os.close(descriptor)

    def write(self, run: int, done: int) -> None:
        """Note how many collectives of a run this process has come to."""
        self.memory[:] = run.to_bytes(8, "little") + done.to_bytes(8, "little")

    def remove(self) -> None:
        """Remove the file."""
        with suppress(OSError):
            Path(self.path).unlink()


def opened_mark(host: str, path: str) -> mmap.mmap | None:
    """Map the mark of a process on this machine, and remove its name; None if it is none."""
    name = Path(path)
    if host != socket.gethostname() or name.parent != Path(tempfile.gettempdir()):
        return None
    if not re.fullmatch(r"luminal_lab-\w+", name.name) or name.is_symlink():
        return None
    try:
        with name.open("rb") as file:
            memory = mmap.mmap(file.fileno(), 16, access=mmap.ACCESS_READ)
        name.unlink()
    except (OSError, ValueError):
        return None
    return memory


def read_mark(memory: mmap.mmap, run: int) -> int:
    """Return how far a process has come in a run: 0 if it has not noted so."""
    data = memory[:]
    return int.from_bytes(data[8:], "little") if int.from_bytes(data[:8], "little") == run else 0


Work: TypeAlias = "Callable[[Environment, Mapping[int, Array], Sequence[int]], Made]"
"""Takes inputs by their numbers, and the numbers of outputs that are wanted."""


class Made(NamedTuple):
    """Outputs by their numbers, and what there is to tell about the run."""

    outputs: Mapping[int, Array]
    told: str = ""


@dataclass
class Prepared:
    """What a worker runs, compiled, with what it was given and has made."""

    work: Work
    order: dict[int, int]
    """Where it meets others, in order, by what it notes then."""
    given: dict[int, Array] = field(default_factory=dict[int, Array])
    """The arrays that the client has numbers for."""


@dataclass
class Seat:
    """The state of this process as a worker."""

    post: Post | None = None
    talks: dict[tuple[str, int], Talk] = field(default_factory=dict[tuple[str, int], Talk])
    prepared: dict[str, Prepared] = field(default_factory=dict[str, Prepared])
    mark: Mark | None = None


SEAT = Seat()


def versions() -> dict[str, str]:
    """Return what must be the same in all processes."""
    return {
        "luminal_lab": sys.modules["luminal_lab"].__version__,
        "Python": platform.python_version(),
    }


def hello() -> str:
    """Return who this process is, as JSON."""
    from luminal_lab.workers.talk import mpi  # noqa: PLC0415  # the client need not have it

    world = mpi().COMM_WORLD
    mark = SEAT.mark = SEAT.mark or Mark()
    who = {"rank": world.rank, "size": world.size, "host": socket.gethostname()}
    return json.dumps({**who, "pid": os.getpid(), "mark": mark.path, "versions": versions()})


def join() -> None:
    """Make what all processes need to talk; all of them call it."""
    if SEAT.post is None:
        SEAT.post = Post()


def prepare(key: str, kind: str, text: str, kernels: Sequence[str]) -> str:
    """Compile what a worker runs; return a report if it fails.

    The kernels are digests of what the client trusts: it may call anything here anyway.
    """
    if key in SEAT.prepared:
        return ""
    try:
        allow(kernels)
        SEAT.prepared[key] = {"parts": _parts, "stage": _stage}[kind](json.loads(text))
    except Exception as error:
        return report(error, -1, first=True)
    return ""


def _parts(words: Mapping[str, Any]) -> Prepared:
    """Compile the graph that all workers run, each on its own parts."""
    pipeline = [as_pass(text) for text in words["passes"]]
    sizes: dict[str, int] | None = words["sizes"] or None
    compiled = compile_ir(parse(words["graph"]), *pipeline, specialise=sizes)
    inputs, outputs = compiled.ir.input_ids, compiled.ir.output_ids

    def work(environment: Environment, data: Mapping[int, Array], wanted: Sequence[int]) -> Made:
        own = {inputs[at]: value for at, value in data.items()}
        versions = {inputs[at]: count for at, count in environment.versions.items()}

        def value(node: Node) -> Array:
            return own[node.id]

        environment = environment._replace(data=value, versions=versions)
        made, track = tracked(compiled, environment, {outputs[at] for at in wanted})
        return Made({at: made[outputs[at]] for at in wanted}, json.dumps(track))

    return Prepared(work, {id(node.op): k for k, node in enumerate(meetings(compiled.ir))})


def _stage(words: Mapping[str, Any]) -> Prepared:
    """Compile the graphs of a stage of a pipeline."""
    script, passes = read(Script, words["script"]), [as_pass(text) for text in words["passes"]]
    compiled = [compile_ir(parse(text), *passes) for text in words["graphs"]]

    def work(environment: Environment, data: Mapping[int, Array], wanted: Sequence[int]) -> Made:
        turns = Turns(script, compiled, data, environment)
        made = turns.run()
        return Made({at: made[at] for at in wanted}, json.dumps(plain(turns.done)))

    count = len(gone_through(script, [one.ir for one in compiled]))
    return Prepared(work, {k: k for k in range(count)})


def run(key: str, asked: str, arrays: Sequence[Array]) -> tuple[str, list[Array], str]:
    """Run what is prepared once, and return the values that are asked for, or a report."""
    words: dict[str, Any] = json.loads(asked)
    prepared, post, number = SEAT.prepared[key], SEAT.post, int(words["run"])
    assert post is not None, "all processes have joined"
    mark = SEAT.mark
    mesh = Mesh(**words["mesh"])
    given = {**prepared.given, **dict(zip(words["sent"], arrays, strict=True))}
    data: dict[int, Array] = {at: given[name] for at, name in words["inputs"]}
    wanted: list[int] = [at for at, _, _ in words["outputs"]]
    versions: dict[int, int] = dict(words["versions"])
    environment = Environment(_nothing, words["dims"], words["step"], versions=versions)
    talk: Talk | None = None
    try:
        where = str(mesh), int(words["turn"])
        if where not in SEAT.talks:
            SEAT.talks[where] = Talk(post, mesh, where[1] % 10_000)
        talk = SEAT.talks[where]
        talk.note = None if mark is None else mark.write
        made = talk.run(
            number, key, prepared.order, lambda: prepared.work(environment, data, wanted)
        )
    except (Exception, KeyboardInterrupt) as error:
        first = not isinstance(error, (GoneError, KeyboardInterrupt))
        done = error.done if isinstance(error, GoneError) else talk.done if talk else -1
        rank = error.rank if isinstance(error, GoneError) else post.rank
        return report(error, done, first=first, rank=rank), [], ""
    results = {name: made.outputs[at] for at, name, _ in words["outputs"]}
    prepared.given = {
        name: value for name, value in (given | results).items() if name in words["kept"]
    }
    return "", [results[name] for _, name, is_sent in words["outputs"] if is_sent], made.told


def kept(key: str, name: int) -> Array:
    """Return an array that was made here, and has stayed."""
    return SEAT.prepared[key].given[name]


def _nothing(node: Node) -> Array:
    raise AssertionError(f"{node} is given by what is prepared")


def report(error: BaseException, done: int, *, first: bool, rank: int = -1) -> str:
    """Return a failure as JSON."""
    notes: list[str] = getattr(error, "__notes__", [])
    words = {
        "type": type(error).__name__,
        "text": getattr(error, "message", None) or str(error),
        "where": getattr(error, "where", None),
        "hint": getattr(error, "hint", None),
        "notes": [str(note) for note in notes],
        "done": done,
        "first": first,
        "rank": rank,
    }
    return json.dumps(words)

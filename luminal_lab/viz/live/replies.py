"""Answers to a live picture's questions to the kernel.

The user's graph and compile do not change: values are computed beside them, and a rerun is another
compile. Any failure becomes a sentence in the answer.
"""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Callable, Container, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, replace
from typing import Any, TypeAlias, cast

from luminal_lab.core.binding import bound_shape
from luminal_lab.core.interpret import interpret
from luminal_lab.core.op import ints
from luminal_lab.core.ops import user_kernels
from luminal_lab.devices.gpu.compiler import gpu_maker
from luminal_lab.devices.runtime.worklist import Worklist
from luminal_lab.errors import (
    ArgumentError,
    DeviceError,
    GraphError,
    LabError,
    TrustError,
    whole_number,
)
from luminal_lab.io.facts import Asked
from luminal_lab.io.launch_facts import ARCH, LaunchedCompile
from luminal_lab.io.worker_facts import sent_of
from luminal_lab.kernels.gpu import gpu_of
from luminal_lab.kernels.kernel import Kernel
from luminal_lab.passes.compilation import Compilation
from luminal_lab.passes.minimise import minimise
from luminal_lab.timing.measure import measured
from luminal_lab.timing.outlook import alone
from luminal_lab.timing.timings import unit_of
from luminal_lab.trust import Foreign, allow, foreign_of, printable
from luminal_lab.viz.live.backed import Backed, dialect_of, gathered
from luminal_lab.viz.live.boards import changed, tried
from luminal_lab.viz.live.dropped import Dropped
from luminal_lab.viz.live.held import Held
from luminal_lab.viz.live.inputs import inputs_for
from luminal_lab.viz.live.precise import errors_of
from luminal_lab.viz.live.rerun import difference, run_again
from luminal_lab.viz.live.statistics import statistics
from luminal_lab.workers.what_if import what_if

Question: TypeAlias = Mapping[str, Any]
Reply: TypeAlias = dict[str, Any]
LARGEST = 1 << 30
"""The most bytes of a value computed only to be looked at."""
ROUNDS = 10
TRIALS = 400
"""How many graphs are tried for the smallest."""


class Replies:
    """Answers about some subjects; it shows whatever it adds or changes."""

    def __init__(self, held: Held, show: Callable[[], None]) -> None:
        self._held = held
        self._show = show
        self._dropped: Dropped | None = None
        self._kept: list[Dropped] = []
        """Files on show, whose values may be read later."""

    def answer(self, question: Question) -> Reply:
        """Return the answer, or a sentence that says why there is none; nothing is raised."""
        try:
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                allow(_digests(question))
                reply = ASKS[_text(question, "ask", ASKS)](self, question)
        except KeyboardInterrupt:
            return {"error": "Stopped. Nothing was changed."}
        except TrustError as error:
            return {"error": error.message, "carried": self._carried(question, error)}
        except LabError as error:
            return {"error": str(error)}
        except MemoryError:
            return {"error": "There is not enough memory for that. Nothing was changed."}
        except BaseException as error:  # a function of the user's may raise anything
            return {"error": f"{type(error).__name__}: {error}"}
        said = [str(warning.message) for warning in caught]
        return {**reply, "warnings": said} if said else reply

    def _run(self, question: Question) -> Backed:
        return self._held.all[_number(question, "run", len(self._held.all), 0)]

    def _carried(self, question: Question, error: TrustError) -> list[Reply]:
        """Return the refused code with its full text, for somebody to read."""
        graphs = [
            g for snapshot in self._run(question).snapshots for g in (snapshot.before, snapshot.ir)
        ]
        texts = {foreign_of(kernel).digest: kernel.source for kernel in user_kernels(*graphs)}
        return [
            {
                "digest": foreign.digest,
                "what": foreign.what,
                "source": "\n".join(
                    map(printable, texts.get(foreign.digest, foreign.first).split("\n"))
                ),
            }
            for foreign in cast("Sequence[Foreign]", error.carried)
        ]

    def _stage(self, question: Question, backed: Backed, name: str = "stage") -> int:
        last = len(backed.snapshots) - 1
        return _number(question, name, last + 1, last)

    def rest(self, _: Question) -> Reply:
        """Show the views that were not sent at first."""
        self._show()
        return {}

    # -- values ------------------------------------------------------------------------------------

    def values(self, question: Question) -> Reply:
        """Return statistics of a node's value."""
        backed = self._run(question)
        stage = self._stage(question, backed)
        snapshot = backed.snapshots[stage]
        ir, id = snapshot.ir, _number(question, "id")
        if ir.table.get(id) is None and snapshot.before.table.get(id) is not None:
            ir = snapshot.before  # the pass has removed it
        if ir.table.get(id) is None:
            raise GraphError(
                f"values: {_name(backed, id)} is neither in the graph before {snapshot.title} nor "
                "in the one after it",
                hint="it lived within the pass; look at the graph before",
            )
        node = ir[id]
        if node.extra:
            raise GraphError(
                f"values: {node} has several results", hint="look at the nodes that pick from it"
            )
        inputs = inputs_for(backed, ir, [id])
        size = math.prod(ints(bound_shape(f"values: {node}", node.shape, inputs.environment.dims)))
        if size * node.dtype.itemsize > LARGEST:
            raise DeviceError(
                f"values: {node} has {size:,} numbers, {size * node.dtype.itemsize:,} bytes",
                hint="look at what reads it, or give smaller inputs",
            )
        value = interpret(ir, inputs.environment, wanted=[id])[id]
        reply = statistics(value)
        reply["text"] += f"; {inputs.said}"
        return {**reply, "drawn": inputs.is_drawn}

    def error_overlay(self, question: Question) -> Reply:
        """Return the errors of the last graph's values against float64."""
        backed = self._run(question)
        ir = backed.newest.ir
        inputs = inputs_for(backed, ir, ir.output_ids)
        errors = errors_of(ir, self._beside(backed), inputs.environment)
        # JSON cannot spell infinity.
        values = {
            str(id): error if math.isfinite(error) else None for id, error in errors.values.items()
        }
        return {
            "values": {id: error for id, error in values.items() if error is not None},
            "infinite": [int(id) for id, error in values.items() if error is None],
            "stage": len(backed.snapshots) - 1,
            "text": f"{errors.text}; {inputs.said}",
            "drawn": inputs.is_drawn,
        }

    def _beside(self, backed: Backed) -> Compilation | None:
        """Return the same compile with its own program, since the user's may be running."""
        old = backed.compilation
        if old is None:
            return None
        runner = None if old.runner is None else old.pipeline.runner(old.ir)
        return Compilation(old.snapshots, old.pipeline, old.verify_seconds, runner, old.licence)

    # -- why ---------------------------------------------------------------------------------------

    def why(self, question: Question) -> Reply:
        """Return the story of a node."""
        backed = self._run(question)
        return {"text": backed.why(_number(question, "id"))}

    def why_not(self, question: Question) -> Reply:
        """Return why a rule did not fire at a node."""
        backed = self._run(question)
        id, rule = _number(question, "id"), _text(question, "rule")
        return {"text": backed.why_not(rule, id)}

    def minimise(self, question: Question) -> Reply:
        """Return the smallest graph in which a rule fires, or a search misses what is at a node."""
        backed = self._run(question)
        compilation, rule = backed.asked, _text(question, "rule")
        is_fired = any(rule in snapshot.counts for snapshot in compilation.snapshots)
        if is_fired:
            small = minimise(compilation, fires=rule, most=TRIALS)
        else:
            small = minimise(compilation, misses=rule, at=_number(question, "id"), most=TRIALS)
        what = "fires" if is_fired else "stops there for the same reason"
        counts = f"{len(small.written)} → {len(small.ir)} nodes, {small.tried} graphs tried"
        text = f"The smallest graph in which {rule} {what}: {counts}."
        return {"text": text, "graph": str(small), "test": small.as_test()}

    # -- more runs, times, sources -----------------------------------------------------------------

    def rerun(self, question: Question) -> Reply:
        """Run passes again from a snapshot on, and show the result as another run."""
        backed = self._run(question)
        passes = question.get("passes")
        if not isinstance(passes, list):
            raise ArgumentError("rerun: there is no list of passes")
        backed_again = run_again(backed, passes, self._stage(question, backed, "from"))
        self._held.add(backed_again)
        self._show()
        return {"run": len(self._held.all) - 1, "text": difference(backed, backed_again)}

    def time(self, question: Question) -> Reply:
        """Take the times of a run, and add them to the others."""
        backed = self._run(question)
        ir = backed.newest.ir
        inputs = inputs_for(backed, ir, ir.output_ids)
        compilation = backed.compiled("time")
        with nullcontext() if backed.mesh is None else alone(backed.mesh):
            times = measured(self._beside(backed) or ir, inputs.environment, rounds=ROUNDS)
        facts = gathered(compilation, backed.session, (*backed.times, times), backed.dialects)
        subject = replace(backed.subject, facts=facts)
        self._replace(backed, replace(backed, subject=subject, times=(*backed.times, times)))
        median = sum(row.seconds for row in times)
        many = "1 launch" if len(times) == 1 else f"{len(times)} launches"
        factor, unit = unit_of(median)
        given = inputs.said if backed.mesh is None else f"{inputs.said}; nothing was sent"
        doubts = "".join(f"; {doubt}" for doubt in times.doubts)
        return {"text": f"{many}, {factor * median:.3g} {unit} together; {given}{doubts}"}

    def advise(self, question: Question) -> Reply:
        """Look for what is slow, by trying; this takes some seconds."""
        backed = self._run(question)
        compilation, session = backed.compiled("advise"), backed.session
        if session is None or session.compilation is not compilation:
            raise GraphError(
                "advise: this run is not the last compile of its session",
                hint="choose the session's own run, or ask it: cx.advise()",
            )
        advice = session.advise()
        times = (*backed.times, advice)
        facts = gathered(compilation, session, times, backed.dialects)
        subject = replace(backed.subject, facts=facts)
        self._replace(backed, replace(backed, subject=subject, times=times))
        return {"text": str(advice).splitlines()[0]}

    def sources(self, question: Question) -> Reply:
        """Write the kernels in another language."""
        backed = self._run(question)
        compilation, asked = backed.compiled("sources"), dialect_of(question.get("dialect"))
        dialects: tuple[Asked, ...] = tuple(dict.fromkeys((*backed.dialects, asked)))
        facts = gathered(compilation, backed.session, backed.times, dialects)
        subject = replace(backed.subject, facts=facts)
        self._replace(backed, replace(backed, subject=subject, dialects=dialects))
        count = sum(any(s.dialect == asked for s in kernel.sources) for kernel in facts.kernels)
        return {"text": f"{count} of {len(facts.kernels)} kernels have a source in {asked}"}

    def ptx(self, question: Question) -> Reply:
        """Compile a kernel for NVIDIA's GPUs, which needs no GPU."""
        backed = self._run(question)
        number = _number(question, "kernel", len(backed.subject.facts.kernels))
        kernel = cuda_kernel(backed.compiled("ptx"), number)
        compiled = kernel.compiled
        return {"text": compiled.ptx, "resources": asdict(compiled.most)}

    def assembly(self, question: Question) -> Reply:
        """Compile a kernel to assembly, with the lines of the source that it comes from."""
        backed = self._run(question)
        number = _number(question, "kernel", len(backed.subject.facts.kernels))
        kernel = LaunchedCompile(backed.compiled("assembly")).kernels[number]
        assembly = kernel.assembly
        lines = [list(pair) for pair in assembly.lines]
        return {"text": assembly.text, "lines": lines, "by": assembly.by, "of": kernel.dialect}

    def what_if(self, question: Question) -> Reply:
        """Return what workers would send if some values were cut otherwise; nothing is run."""
        given: object = question.get("changed")
        changed = cast("dict[str, Any]", given) if isinstance(given, dict) else {}
        for words in changed.values():
            if not isinstance(words, list) or {*map(type, cast("list[Any]", words))} - {str}:
                raise ArgumentError("what if: a value has a word for each of its axes")
        table = what_if(self._run(question).compiled("what if"), changed)
        sent = [[-1, *sent_of(row)[1:]] for row in table]
        return {"sent": sent, "text": str(table).splitlines()[-1]}

    # -- files -------------------------------------------------------------------------------------

    def drop(self, question: Question) -> Reply:
        """Take a piece of a file; after the last one, show what the file holds as another run."""
        at, data = _number(question, "at"), question.get("data")
        if not isinstance(data, bytes):
            raise ArgumentError("drop: there are no bytes")
        if at == 0:
            self._dropped = Dropped(_text(question, "name"), _number(question, "size"))
        dropped = self._dropped
        if dropped is None:
            raise ArgumentError("drop: a piece without its beginning", hint="drop the file again")
        try:
            if not dropped.add(at, data):
                return {}
            added = dropped.opened()
            for backed in added:
                self._held.add(backed)
        except BaseException:
            self._dropped = None
            raise
        self._kept.append(dropped)
        self._dropped = None
        self._show()
        titles = ", ".join(backed.subject.title for backed in added)
        run = len(self._held.all) - len(added)
        return {"run": run, "text": f"{dropped.name} is open beside the others: {titles}"}

    # -- other schedules ---------------------------------------------------------------------------

    def board(self, question: Question) -> Reply:
        """Try another schedule of a kernel beside its own, or change the board of such tries."""
        backed = self._run(question)
        run = next(k for k, one in enumerate(self._held.all) if one is backed)
        number = _number(question, "kernel", len(backed.subject.facts.kernels))
        if "schedule" in question:
            return tried(self._held.board(run, number), question)
        which = _number(question, "board") if "board" in question else None
        return changed(self._held.board(run, number, which), question)

    def _replace(self, old: Backed, new: Backed) -> None:
        run = next(k for k, backed in enumerate(self._held.all) if backed is old)
        self._held.replace(run, new)
        self._show()


ASKS: Mapping[str, Callable[[Replies, Question], Reply]] = {
    "advise": Replies.advise,
    "assembly": Replies.assembly,
    "board": Replies.board,
    "drop": Replies.drop,
    "error_overlay": Replies.error_overlay,
    "minimise": Replies.minimise,
    "ptx": Replies.ptx,
    "rerun": Replies.rerun,
    "rest": Replies.rest,
    "sources": Replies.sources,
    "time": Replies.time,
    "values": Replies.values,
    "what_if": Replies.what_if,
    "why": Replies.why,
    "why_not": Replies.why_not,
}


def cuda_kernel(compilation: Compilation, number: int) -> Kernel:
    """Return a kernel of a compile, or its counterpart on NVIDIA's GPUs."""
    launched = LaunchedCompile(compilation)
    kernel = launched.kernels[number]
    if kernel.dialect == "cuda":
        return kernel
    work = Worklist(compilation.ir, gpu_maker(gpu_of(ARCH), "cuda"), {})
    node = launched.uses[kernel.name][0]
    for work_item in work.works:
        if work_item.node.id == node and work_item.use is not None:
            return work.uses[work_item.use].kernel
    raise DeviceError(
        f"ptx: {kernel.name} is not a kernel on NVIDIA's GPUs",
        hint="what cannot be a kernel is computed by NumPy, and the user's C stays C",
    )


def _number(question: Question, name: str, below: int = 1 << 62, default: int = -1) -> int:
    number = whole_number(question.get(name, default))
    if number is None or not 0 <= number < below:
        raise ArgumentError(f"the question has {name} {question.get(name)!r}, which is not there")
    return number


def _digests(question: Question) -> list[str]:
    """Return the digests that the user allowed."""
    given: object = question.get("trust", [])
    digests = cast("list[object]", given) if isinstance(given, list) else []
    return [
        digest
        for digest in digests
        if isinstance(digest, str) and re.fullmatch("[0-9a-f]{64}", digest)
    ]


def _text(question: Question, name: str, known: Container[str] | None = None) -> str:
    text = question.get(name)
    if not isinstance(text, str) or (known is not None and text not in known):
        raise ArgumentError(f"nothing answers a question whose {name} is {text!r}")
    return text


def _name(backed: Backed, id: int) -> str:
    for snapshot in reversed(backed.snapshots):
        for table in (snapshot.ir.table, snapshot.before.table):
            node = table.get(id)
            if node is not None:
                return str(node)
    return f"%{id}"

"""The pass manager: runs pipelines, times, verifies and checks each pass, and keeps a snapshot."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from time import perf_counter
from typing import Literal, TypeAlias

from luminal_lab.core.edit import Edit, LogEntry
from luminal_lab.core.ir import IR, Node, check_ir
from luminal_lab.core.origin import warn
from luminal_lab.core.printer import print_node
from luminal_lab.core.verify import verify
from luminal_lab.errors import (
    ArgumentError,
    DeviceError,
    Interrupted,
    LabError,
    PassError,
    ScheduleError,
    TrustError,
    flag,
    nearest,
)
from luminal_lab.listeners import LISTENERS
from luminal_lab.passes.base import Pass
from luminal_lab.passes.check import Checker
from luminal_lab.passes.collector import uncollected
from luminal_lab.passes.compilation import Compilation
from luminal_lab.passes.draws import Given
from luminal_lab.passes.generic import GenericCompiler
from luminal_lab.passes.kept import Keeper, Kept, Made, asked_text
from luminal_lab.passes.pipeline import LICENCE, PassLike, Pipeline, Runner
from luminal_lab.passes.sizes import asked_sizes
from luminal_lab.passes.snapshot import Record, Snapshot
from luminal_lab.passes.stops import Stop
from luminal_lab.passes.until import Breakpoint, Until
from luminal_lab.progress import Progress, progress
from luminal_lab.tensor.arguments import raised_at

Check: TypeAlias = Literal["values"] | None
__all__ = ["Compilation", "GenericCompiler", "Given", "compile_ir"]

LOG = logging.getLogger("luminal_lab")
"""A log record for each pass, at debug level; `record.snapshot` has the figures."""
LEAST_LIMIT = 1_000
"""The most firings of one pass on a small graph; a large graph allows 20 per node."""
MISSING = re.compile(r"there is no node with the id (?:of .*, which is )?([0-9]{1,9})$")
CHANGES = ("insert", "replace", "erase", "reorder", "firing")
"""What a pass calls an editor for."""


def compile_ir(
    ir: IR,
    *passes: PassLike,
    check: Check = None,
    licence: Iterable[str] = LICENCE,
    verifying: bool = True,
    given: Given | None = None,
    specialise: Mapping[str, int] | None = None,
    until: Until | None = None,
    wait: bool = True,
    keeper: Keeper | None = None,
) -> Compilation:
    """Run passes on a graph, and return a snapshot for each.

    With `check="values"` the interpreter runs after each pass on drawn inputs, and a pass that
    changes what the graph computes is reported with the first wrong firing; a device runs its
    kernels once, and an error names any kernel with wrong values.

    `until` is a breakpoint: a node, a line or a rule, as in "%y", "cell 1, line 4" or "rule
    add-zero". The passes run up to the first firing that touches it, and the graph stays as it was
    then; if there is none, a warning says so.

    With `wait=False` kernels for a CPU are compiled in the background; until then, NumPy's
    interpreter computes them.

    With a `keeper` the last graph is kept, and passes that have made it before do not run until
    somebody looks at a snapshot.

    >>> from luminal_lab.core.parse import parse
    >>> from luminal_lab.passes.pattern import variables
    >>> from luminal_lab.passes.rule import Rule
    >>> x = variables("x")
    >>> ir = parse("graph g(%x: f32[2]) -> (%y) { %c = constant{value = 1} : f32[2] "
    ...            "%y = mul %x, %c : f32[2] }")
    >>> compiled = compile_ir(ir, Rule("mul-one", x * 1, x))
    >>> print(compiled.snapshots[1])
    mul-one: 3 → 3 nodes; mul-one ×1; well-formed
    """
    check_ir("compile", ir)
    if check is not None and not (isinstance(check, str) and check == "values"):  # pyright: ignore[reportUnnecessaryIsInstance]  # a caller may err
        raise ArgumentError(
            f"compile: check is {check!r}", hint='use check="values", or leave it out'
        )
    facts = frozenset(Pipeline(licence=licence).licence or ())
    pipeline = Pipeline(passes).staged()
    pipeline = pipeline if flag("compile: wait", wait) else pipeline.unawaited()
    sizes = asked_sizes(ir, {} if specialise is None else specialise)
    devices = pipeline.devices()
    if len(devices) > 1:
        raise ArgumentError(
            f"compile: {' and '.join(map(str, devices))} are {len(devices)} devices, and only "
            "one can run the graph",
            hint="leave all but one out",
        )
    if sizes and not devices:
        shown = ", ".join(f"{name} = {size}" for name, size in sizes.items())
        raise ArgumentError(
            f"compile: specialise asks for kernels for {shown}, and there is no device to make "
            "them",
            hint="put one last, as in cx.compile(ll.GenericCompiler(), ll.CPUCompiler(), "
            "specialise=…)",
        )
    given = given or Given()
    if check is not None or until is not None:
        keeper = None  # the passes have to run
    return _compiled(ir, pipeline, check, given, facts, sizes, until, keeper, verifying=verifying)


@uncollected
def _compiled(
    ir: IR,
    pipeline: Pipeline,
    check: Check,
    given: Given,
    facts: frozenset[str],
    sizes: Mapping[str, int],
    until: Until | None,
    keeper: Keeper | None,
    *,
    verifying: bool,
) -> Compilation:
    compiling: _Compiling | None = None
    try:
        compiling = _Compiling(ir, pipeline, check, given, until, facts, verifying=verifying)
        compilation = compiling.run(sizes, keeper)
    except BaseException as error:  # including Ctrl-C
        if compiling is not None:
            for listener in LISTENERS.get():
                listener.compiled(compiling.so_far(), error)
        if isinstance(error, KeyboardInterrupt):
            raise _stopped(compiling, is_checked=check is not None) from None
        raise
    for listener in LISTENERS.get():
        listener.compiled(compilation, None)
    return compilation


def _stopped(compiling: _Compiling | None, *, is_checked: bool) -> Interrupted:
    """Return the error for Ctrl-C during a compile."""
    done = 0 if compiling is None else len(compiling.snapshots) - 1
    many = "1 pass" if done == 1 else f"{done} passes"
    return Interrupted(
        f"compile: stopped by Ctrl-C after {many}; the graph is as it was",
        hint='without check="values" it takes less time' if is_checked else None,
    )


class _Compiling:
    def __init__(
        self,
        ir: IR,
        pipeline: Pipeline,
        check: Check,
        given: Given,
        until: Until | None,
        licence: frozenset[str],
        *,
        verifying: bool,
    ) -> None:
        self.pipeline = pipeline
        self.verifying = verifying
        self.given = given
        self.checker = Checker(ir, given) if check is not None else None
        self.ir = ir.bare()
        """The newest graph, whose cached analyses serve all passes until one changes it."""
        start = perf_counter()
        if verifying:
            verify(self.ir)
        seconds = perf_counter() - start
        written = Record("written", (), verified=verifying, seconds=0.0)
        self.snapshots = [Snapshot(ir, ir, written)]
        self.bar = Progress()
        self.licence = licence
        self.kept: Kept | None = None
        """The last graph, if an earlier compile has kept it."""
        self.verify_seconds = seconds
        self.stop: Stop | None = None
        """Where the breakpoint was reached."""
        self.breakpoint = None if until is None else Breakpoint(self.so_far(), until)

    def run(self, specialise: Mapping[str, int], keeper: Keeper | None) -> Compilation:
        """Run the pipeline on the graph as written."""
        written, asked = self.snapshots[0].ir, None
        if keeper is not None:
            asked = asked_text(written, self.pipeline, self.licence, self.given.weights)
        if keeper is not None and asked is not None:
            made = keeper.find(written, asked)
            if made is not None:
                self.kept = Kept(made, self.passed)
                with suppress(LabError):  # which is told below, with the passes
                    return self._finished(made.last, specialise)
                self.kept = None
        devices = self.pipeline.devices()
        with progress(f"compile {written.name}", self._sure + len(devices), "pass") as self.bar:
            self._run_pipeline(self.pipeline, self.licence, 1)
            if self.stop is not None:
                return self.so_far()
            if self.breakpoint is not None:
                warn(self.breakpoint.missed(self.snapshots))
            for device in devices:
                self.bar.now(device.name)
            compilation = self._finished(self.snapshots[-1].ir, specialise)
        if keeper is not None and asked is not None:
            keeper.keep(written, asked, Made(compilation.ir, compilation.changing))
        return compilation

    @property
    def _sure(self) -> int:
        """The passes of one round; each further round adds its own when it begins."""
        return sum(1 for _ in self.pipeline.flat())

    @uncollected
    def passed(self) -> Sequence[Snapshot]:
        """Run the passes of a kept graph, and return the snapshots."""
        written, given, last = self.snapshots[0].ir, self.given, self.kept and self.kept.made.last
        again = _Compiling(
            written, self.pipeline, None, given, None, self.licence, verifying=self.verifying
        )
        with progress(f"passes of {written.name}", self._sure, "pass") as again.bar:
            again._run_pipeline(self.pipeline, self.licence, 1)
        if again.snapshots[-1].ir != last:
            raise PassError(
                f"compile: the graph kept of {written.name} is not what its passes make",
                hint='ll.devices.cached("graphs").clear() removes such graphs; compile again',
            )
        return again.snapshots

    def _finished(self, last: IR, specialise: Mapping[str, int]) -> Compilation:
        """Return the compilation with its runner, checked if requested."""
        try:
            runner = self.pipeline.runner(last, specialise)
        except (DeviceError, ScheduleError, TrustError) as error:
            error.snapshots = tuple(self.snapshots)
            raise
        except LabError as error:
            message = error.message.removeprefix("compile: ")
            told = PassError(f"compile: {message}", where=error.where, hint=error.hint)
            told.snapshots = tuple(self.snapshots)
            raise told from error
        compilation = self.so_far(runner)
        if self.checker is not None and compilation.runner is not None:
            try:
                self.checker.check_device(compilation)
            except (PassError, TrustError) as error:
                error.snapshots = compilation.snapshots
                raise
        return compilation

    def so_far(self, runner: Runner | None = None) -> Compilation:
        """Return the compilation so far, which may have been interrupted."""
        given = self.pipeline, self.verify_seconds, runner, self.licence
        return Compilation(self.snapshots, *given, self.stop, self.kept)

    def _run_pipeline(self, pipeline: Pipeline, licence: frozenset[str], turn: int) -> bool:
        """Run a pipeline, and return whether it changed anything."""
        if pipeline.licence is not None:
            licence = frozenset(pipeline.licence)
        any_change = False
        for repetition in range(1, pipeline.rounds + 1):
            changed = False
            if repetition > 1:
                self.bar.more(sum(1 for _ in pipeline.flat()))
            for entry in pipeline.passes:
                now = repetition if pipeline.rounds > 1 else turn
                if isinstance(entry, Pipeline):
                    changed |= self._run_pipeline(entry, licence, now)
                else:
                    self.bar.now(str(entry))
                    changed |= self._run_pass(entry, licence, now)
                    self.bar.step()
                if self.stop is not None:
                    return True
            any_change |= changed
            if not changed:
                break
        return any_change

    def _run_pass(self, pass_: Pass, licence: frozenset[str], turn: int) -> bool:
        before = self.snapshots[-1].ir
        ir = self.ir
        limit = max(LEAST_LIMIT, 20 * before.next_id)
        edit = Edit(ir, licence=licence, limit=limit, weights=self.given.weights)
        start = perf_counter()
        failure = self._failure_of(pass_, ir, edit)
        seconds = perf_counter() - start
        log, after = self._up_to_stop(pass_, before, edit)
        if failure is not None and self.stop is None:
            raise failure from failure.__cause__
        refusals = tuple(edit.refusals.values())
        if after is ir:
            after = before
        else:
            self._check(pass_, edit, before, after)
        checked = (
            self.checker is not None and not pass_.rounds and self.checker.judges(pass_, licence)
        )
        record = Record(str(pass_), log, refusals, seconds, self.verifying, checked, turn)
        snapshot = Snapshot(before, after, record, len(self.snapshots))
        if self.checker is not None and log:
            try:
                if pass_.rounds:
                    self.checker.begin_anew(after)
                elif checked:
                    self.checker.check(snapshot, pass_)
            except PassError as error:
                error.snapshots = tuple(self.snapshots)
                raise
        self.snapshots.append(snapshot)
        if self.stop is not None:
            self.stop = replace(self.stop, snapshot=snapshot)
        LOG.debug("%s", snapshot, extra={"snapshot": snapshot})
        return bool(log)

    def _failure_of(self, pass_: Pass, ir: IR, edit: Edit) -> PassError | None:
        """Run a pass, and return the error if something went wrong in it."""
        try:
            returned: object = pass_.run(ir, edit)
            if returned is not None:
                raise PassError(
                    f"its run returned {returned!r} instead of None",
                    hint="change the graph with edit.insert, replace and erase",
                )
        except MemoryError:  # which says nothing about the pass
            raise
        except Exception as error:
            failure = self._failed(pass_, error, edit)
            failure.__cause__ = error
            return failure
        return None

    def _up_to_stop(self, pass_: Pass, before: IR, edit: Edit) -> tuple[list[LogEntry], IR]:
        """Return what a pass has changed, and the graph, up to the breakpoint if it was reached."""
        if self.breakpoint is None:
            return edit.log, edit.ir()
        whole = Snapshot(before, edit.ir(), Record(str(pass_), edit.log), len(self.snapshots))
        self.stop = self.breakpoint.stop(whole)
        if self.stop is None:
            return edit.log, whole.ir
        firings = whole.firings[: self.stop.number]
        return [change for firing in firings for change in firing.changes], self.stop.after

    def _check(self, pass_: Pass, edit: Edit, before: IR, after: IR) -> None:
        """Raise if the graph after a pass breaks a law, or has other inputs or outputs."""
        start = perf_counter()
        ir = after.bare()
        try:
            if self.verifying:
                verify(ir, self.ir)
            _check_face(before, after)
        except LabError as error:
            raise self._failed(pass_, error, edit) from error
        self.ir = ir
        self.verify_seconds += perf_counter() - start

    def _failed(self, pass_: Pass, error: Exception, edit: Edit) -> PassError:
        rule = edit.log[-1].rule if edit.log else ""
        after = f" after the rule {rule!r}" if rule else ""
        line = raised_at(error)
        if isinstance(error, LabError):
            message = error.message
            hint = _slip(error) or error.hint or _since(error, edit)
            where = error.where or (None if isinstance(error, PassError) else _culprit(edit))
        else:
            message = f"it failed with {type(error).__name__}: {error}"
            where, hint = _culprit(edit), _slip(error)
            if hint is None and line is None:
                hint = "the traceback above this shows where in the pass"
        # The author's own line first, and then the node.
        places = dict.fromkeys(filter(None, (str(line or ""), where)))
        told = PassError(
            f"pass {pass_}{after}: {message}", where="\n".join(places) or None, hint=hint
        )
        told.snapshots = tuple(self.snapshots)
        return told


def _slip(error: Exception) -> str | None:
    """Return what a missing attribute was probably meant to be, on an object given to a pass."""
    of: object = getattr(error, "obj", None)
    name = str(getattr(error, "name", ""))
    if isinstance(of, int) and hasattr(Node, name):
        return f"a node's sources are ids: ir[id].{name} is that of the node"
    if isinstance(of, IR) and hasattr(Edit, name):
        return f"ir is the graph as it was; edit.{name}(…) changes it"
    if isinstance(of, Edit):
        return nearest(name, CHANGES) or f"an editor has {', '.join(CHANGES)}"
    if isinstance(error, AttributeError) and "can't set" in str(error):
        return "nodes never change: edit.replace(node, edit.insert(…)) puts another one there"
    return None


def _since(error: LabError, edit: Edit) -> str | None:
    """Say that a node missing from the old graph is in the editor."""
    missing = MISSING.search(error.message)
    is_new = missing is not None and edit.table.get(int(missing[1])) is not None
    return "a node that was inserted is in edit, and not in ir" if is_new else None


def _culprit(edit: Edit) -> str | None:
    """Return the line of the last node that a pass changed."""
    if not edit.log:
        return None
    node = edit.table.get(edit.log[-1].into or edit.log[-1].node)
    return None if node is None else print_node(edit.ir(), node)


def _check_face(before: IR, after: IR) -> None:
    """Raise if a graph's inputs or outputs differ from those of the graph before."""
    if len(before.output_ids) != len(after.output_ids):
        raise PassError(
            f"it has changed the number of outputs from {len(before.output_ids)} to "
            f"{len(after.output_ids)}",
            hint="replace an output by another node; never drop one",
        )
    for index, (old, new) in enumerate(zip(before.outputs, after.outputs, strict=True)):
        if old.type != new.type:
            raise PassError(
                f"it has changed output {index}, {old}, from {old.type} to {new.type}",
                where=print_node(after, new),
                hint="an output keeps its shape and dtype",
            )
    known = {node.id: node.type for node in before.inputs}
    for node in after.inputs:
        if known.get(node.id) != node.type:
            raise PassError(
                f"it has added or changed the input {node}: {node.type}",
                hint="the inputs are the user's; a pass may only read them",
            )
    if [into for _, into in before.carries] != [into for _, into in after.carries]:
        raise PassError("it has changed which inputs outputs are carried to")

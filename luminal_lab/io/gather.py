"""`facts_of`: collect everything known about a compile beside its graphs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from luminal_lab.errors import visible
from luminal_lab.io.board_facts import board_facts, used_boards
from luminal_lab.io.cells import besides, cells_of, environment, python_of
from luminal_lab.io.derivation_facts import with_derivation
from luminal_lab.io.facts import Asked, Facts, Remark, StopFacts, Subject
from luminal_lab.io.launch_facts import LaunchedCompile, kernel_facts, launch_facts
from luminal_lab.io.memory_facts import memory_facts
from luminal_lab.io.recording import save_recording
from luminal_lab.io.rule_facts import askable, rule_facts
from luminal_lab.io.time_facts import roofs_of, times_beside, times_of
from luminal_lab.io.worker_facts import worker_facts
from luminal_lab.passes.compilation import Compilation
from luminal_lab.search.board import boards_of
from luminal_lab.timing.compare import SideBySide
from luminal_lab.timing.timings import Timings

NO_DIMS: Mapping[str, int] = {}


def facts_of(
    compilation: Compilation,
    *,
    timings: Timings | None = None,
    compared: SideBySide | None = None,
    dims: Mapping[str, int] = NO_DIMS,
    dialects: Sequence[Asked] = (),
    cells: bool = True,
) -> Facts:
    """Return the facts of a compile.

    `timings` and `compared` were taken before: nothing runs here. `dims` are the sizes of dims, for
    bytes and operations. `dialects` adds the kernels' sources in those languages. Without `cells`,
    only the lines that made nodes are kept.

    >>> import luminal_lab as ll
    >>> cx = ll.Graph()
    >>> y = (cx.tensor((2,), name="x") + 0).retrieve()
    >>> facts = facts_of(cx.compile("simplify"))
    >>> facts.rules["add-zero"].text, facts.python
    ('x + 0 → x, if the sign of a zero does not matter', "cx.compile('simplify')")
    """
    launched = LaunchedCompile(compilation, dims)
    buffers, memory = memory_facts(launched)
    homes: dict[int, list[int]] = {}
    for index, buffer in enumerate(buffers):
        for id in buffer.nodes:
            homes.setdefault(id, []).append(index)
    times = () if timings is None else (times_of(launched, timings),)
    kernels = kernel_facts(launched, dialects)
    return Facts(
        kernels,
        launch_facts(launched, homes),
        buffers,
        memory,
        rule_facts(compilation),
        times + (() if compared is None else times_beside(launched, compared)),
        roofs_of(timings, compared),
        cells_of(compilation.written) if cells else (),
        environment(compilation.pipeline),
        python_of(compilation.pipeline, compilation.licence),
        besides(compilation.pipeline, compilation.licence),
        askable=askable(compilation),
        stop=StopFacts.of(compilation.stop),
        remarks=() if compilation.stop is None else (Remark(visible(compilation.stop.reason)),),
        boards=tuple(board_facts(*used) for used in used_boards(boards_of(compilation), kernels)),
        workers=worker_facts(compilation),
    )


def subject_of(compilation: Compilation, facts: Facts | None = None, title: str = "") -> Subject:
    """Return a compile in the form that pictures, pages and files take."""
    facts = facts_of(compilation) if facts is None else facts
    return Subject(
        title or compilation.written.name,
        with_derivation(compilation.snapshots, facts.kernels),
        facts,
        str(compilation.pipeline),
    )


def save_compilation(compilation: Compilation, path: str | Path) -> None:
    """Write a compile to a file, with its boards."""
    save_recording(path, [subject_of(compilation)])


FORMATTERS: dict[str, Callable[[Compilation, str | Path], None]] = {
    "Compilation.save": save_compilation
}
"""The functions that write a compile, by their names in the table of displays."""


def timed(facts: Facts, compilation: Compilation, *times: Timings | SideBySide) -> Facts:
    """Return the facts of a compile with times added."""
    launched = LaunchedCompile(compilation)
    rows, roofs = [*facts.times], dict.fromkeys(facts.roofline)
    for timed_runs in times:
        if isinstance(timed_runs, Timings):
            rows.append(times_of(launched, timed_runs))
            roofs.update(dict.fromkeys(roofs_of(timed_runs, None)))
        else:
            rows += times_beside(launched, timed_runs)
            roofs.update(dict.fromkeys(roofs_of(None, timed_runs)))
    return replace(facts, times=tuple(rows), roofline=tuple(roofs))

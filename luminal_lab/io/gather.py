"""`facts_of`: all that is known of a compile beside its graphs, collected."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from luminal_lab.io.cells import besides, cells_of, environment, python_of
from luminal_lab.io.facts import Dialect, Facts, Subject
from luminal_lab.io.launch_facts import Launched, kernel_facts, launch_facts
from luminal_lab.io.memory_facts import memory_facts
from luminal_lab.io.rule_facts import rule_facts
from luminal_lab.io.time_facts import roofs_of, times_beside, times_of
from luminal_lab.passes.compilation import Compilation
from luminal_lab.timing.compare import SideBySide
from luminal_lab.timing.timings import Timings

NO_DIMS: Mapping[str, int] = {}


def facts_of(
    compilation: Compilation,
    *,
    timings: Timings | None = None,
    compared: SideBySide | None = None,
    dims: Mapping[str, int] = NO_DIMS,
    dialects: Sequence[Dialect] = (),
    cells: bool = True,
) -> Facts:
    """Return the facts of a compile.

    `timings` and `compared` are times that were taken before: nothing is run here. `dims` are the
    sizes of dims, for bytes and operations. Sources in further `dialects` are written for the same
    kernels. Without `cells`, the lines alone that made nodes are in it.

    >>> import luminal_lab as ll
    >>> cx = ll.Graph()
    >>> y = (cx.tensor((2,), name="x") + 0).retrieve()
    >>> facts = facts_of(cx.compile("simplify"))
    >>> facts.rules["add-zero"].text, facts.python
    ('x + 0 → x, if nobody asks for the sign of a zero', "cx.compile('simplify')")
    """
    launched = Launched(compilation, dims)
    buffers, memory = memory_facts(launched)
    homes: dict[int, list[int]] = {}
    for place, buffer in enumerate(buffers):
        for id in buffer.nodes:
            homes.setdefault(id, []).append(place)
    times = () if timings is None else (times_of(launched, timings),)
    return Facts(
        kernel_facts(launched, dialects),
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
    )


def subject_of(compilation: Compilation, facts: Facts | None = None, title: str = "") -> Subject:
    """Return a compile as pictures, pages and files have it."""
    return Subject(
        title or compilation.written.name,
        compilation.snapshots,
        facts_of(compilation) if facts is None else facts,
        str(compilation.pipeline),
    )


def timed(facts: Facts, compilation: Compilation, *times: Timings | SideBySide) -> Facts:
    """Return the facts of a compile with times beside those that they have."""
    launched = Launched(compilation)
    rows, roofs = [*facts.times], dict.fromkeys(facts.roofline)
    for one in times:
        if isinstance(one, Timings):
            rows.append(times_of(launched, one))
            roofs.update(dict.fromkeys(roofs_of(one, None)))
        else:
            rows += times_beside(launched, one)
            roofs.update(dict.fromkeys(roofs_of(None, one)))
    return replace(facts, times=tuple(rows), roofline=tuple(roofs))

"""How a graph is compiled: not at all, for any size, or with kernels far below the roof.

cx.compile(ll.GenericCompiler(), ll.CPUCompiler())            where NumPy computes node by node
cx.compile(…, specialise={"n": 64})                           for a size that does not change
cx.search(budget=60)                                          where a kernel is far from its roof
"""

from __future__ import annotations

from collections.abc import Iterator

from luminal_lab.advice.suspect import Case, Suspect, Variant, by_line
from luminal_lab.core.ir import Node
from luminal_lab.devices.cpu.compiler import CPUCompiler
from luminal_lab.devices.runtime.program import DeviceProgram
from luminal_lab.passes.generic import GenericCompiler
from luminal_lab.timing.timings import Timing
from luminal_lab.timing.work import effort_for

LITTLE = 0.35
"""The share of its roof below which a search may help a kernel."""
LARGE = 0.15
"""The share of a run above which a kernel counts."""
AGREE, CLOSE = 3, 1.1
"""How many samples must agree, and how closely."""
LEAST = 20e-6
"""The seconds below which a kernel is mostly its launch."""


def recompiled(case: Case) -> Iterator[Suspect]:
    """Yield what was written between the last compile and this run."""
    if case.recompiled is None:
        return
    written = case.written
    new = [id for id in case.added if id in written and written[id].meta.origin is not None]
    yield Suspect(
        "recompile",
        "the graph had changed since it was compiled, and was compiled again",
        "whatever you write after cx.compile makes the next run compile everything again",
        "write the graph once, before the loop; x.set(data) gives it other data",
        tuple(new or written.output_ids[:1]),
        saved=case.recompiled,
    )


def uncompiled(case: Case) -> Iterator[Suspect]:
    """Yield the graph if NumPy's interpreter runs it."""
    if case.compilation.runner is not None:
        return
    yield Suspect(
        "not-compiled",
        "NumPy's interpreter runs the graph, node by node",
        "each node is an array that is written to memory and read again, and most run on one core",
        "cx.compile(ll.GenericCompiler(), ll.CPUCompiler())",
        case.written.output_ids[:1],
        lambda: Variant(passes=(GenericCompiler(), CPUCompiler())),
    )


def sizes(case: Case) -> Iterator[Suspect]:
    """Yield the sizes for which kernels could be specialised."""
    symbols = [name for name in case.written.symbols if name in case.environment.dims]
    known = {name: case.environment.dims[name] for name in symbols}
    if not known or dict(case.recipe.specialise) == known or not _is_device(case):
        return
    named = ", ".join(f'"{name}": {size}' for name, size in known.items())
    nodes = [node for node in case.written.inputs if set(map(str, node.shape)) & known.keys()]
    yield Suspect(
        "any-size",
        f"kernels for any size, run with {', '.join(f'{n} = {s}' for n, s in known.items())}",
        "a loop of known length is unrolled and cut into vectors when it is compiled; a loop of "
        "any length asks at run time",
        f"cx.compile(…, specialise={{{named}}}): other sizes still run, by the general kernels",
        tuple(node.id for node in nodes),
        lambda: Variant(specialise={**case.recipe.specialise, **known}),
    )


def low_shares(case: Case) -> Iterator[Suspect]:
    """Yield kernels far below the roof; what that may gain is only modelled."""
    total = sum(min(row.samples) for row in case.timings)
    if not total or not _is_device(case):
        return
    groups: dict[str, list[Timing]] = {}
    for row in case.timings:
        if row.kind == "launch":
            groups.setdefault(row.kernel, []).append(row)
    for kernel, rows in groups.items():
        # The best samples, some of which agree: a busy machine does not make a kernel look bad.
        if not all(map(_is_steady, rows)):
            continue
        seconds = sum(min(row.samples) for row in rows)
        limits = [row.limit for row in rows if row.limit is not None]
        least = sum(limit.seconds for limit in limits)
        is_known = len(limits) == len(rows) and 0 < least < seconds
        if not is_known or least >= LITTLE * seconds or seconds < max(LARGE * total, LEAST):
            continue
        bound = max(limits).bound
        nodes = _working(case, case.compilation.ir[rows[0].node].id)
        yield Suspect(
            "low-share",
            f"{kernel} reaches {least / seconds:.0%} of its roof ({bound})",
            "another schedule may use more of the machine; how much is only known once it is tried",
            "search = cx.search(budget=60); cx.compile(ll.GenericCompiler(), search.best)",
            tuple(node.id for node in nodes),
            None,
            total / (total - seconds + least),
        )


def _working(case: Case, id: int) -> list[Node]:
    """Return the heaviest node of each line that a launch computes, the heaviest line first."""
    work = case.covering.attribution.work(id, effort_for(case.environment.dims))
    lines = by_line(case.written, sorted(work, key=lambda node: -work[node]))
    lines.sort(key=lambda nodes: -sum(work[node] for node in nodes))
    return [nodes[0] for nodes in lines] or case.covering.behind(id)[-1:]


def _is_steady(row: Timing) -> bool:
    """Return whether several samples are as good as the best."""
    best = sorted(row.samples)[:AGREE]
    return best[-1] <= CLOSE * best[0]


def _is_device(case: Case) -> bool:
    return isinstance(case.compilation.runner, DeviceProgram)

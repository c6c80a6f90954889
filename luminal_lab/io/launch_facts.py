"""What a program launches, as facts: kernels, their uses, and which lines compute which nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

from luminal_lab.core.ir import Node
from luminal_lab.core.op import Source
from luminal_lab.core.ops import Pick
from luminal_lab.devices.gpu.compiler import GPUMaker
from luminal_lab.devices.runtime.worklist import Maker, Worklist
from luminal_lab.errors import LabError
from luminal_lab.io.facts import Dialect, KernelFacts, LaunchFacts, Line, SourceFacts, Step
from luminal_lab.kernels.gpu import apple, gpu_of
from luminal_lab.kernels.kernel import LANGUAGES, Kernel
from luminal_lab.kernels.launch import Launch
from luminal_lab.machines.here import this_machine
from luminal_lab.passes.compilation import Compilation
from luminal_lab.timing.column import Covering

ARCH = "sm_80"
"""What CUDA is written for where a compile was for another device."""


@dataclass
class Launched:
    """A compile with what it launches, and what is asked about both more than once."""

    compilation: Compilation
    dims: Mapping[str, int] = field(default_factory=dict[str, int])
    """The sizes of dims, as far as they are known."""

    @cached_property
    def launches(self) -> tuple[Launch, ...]:
        """The launches of a run, in order, could it run here or not; none without a device."""
        found: Iterable[Launch] = getattr(self.compilation.program, "launches", ())
        return tuple(found)

    @cached_property
    def kernels(self) -> tuple[Kernel, ...]:
        """The kernels that are launched, each once, in the order of their first launch."""
        return tuple({one.kernel.name: one.kernel for one in self.launches}.values())

    @cached_property
    def at(self) -> Mapping[int, int]:
        """The places of launches, by the nodes that they compute and those that pick of them."""
        found: dict[int, int] = {}
        for place, launch in enumerate(self.launches):
            found[launch.node] = place
            found.update((id, place) for id in self.picks(launch.node))
        return found

    def picks(self, id: int) -> list[int]:
        """Return the nodes that pick one of several results, in the order of the results."""
        found = {
            one.op.index: one.id
            for one in self.compilation.ir.users(id)
            if isinstance(one.op, Pick)
        }
        return [found[place] for place in sorted(found)]

    @cached_property
    def covering(self) -> Covering:
        """Finds the nodes as written behind a node of the last graph."""
        return Covering(self.compilation)

    def inside(self, id: int) -> tuple[Node, ...]:
        """Return the nodes that became part of a call, as they were before."""
        return tuple(self._inside(self.compilation.ir[id], set()))

    def _inside(self, node: Node, seen: set[int]) -> Iterable[Node]:
        for id in node.meta.made.parents if node.meta.made is not None else ():
            found = self._records.get(id)
            if found is None or id in seen:
                continue
            seen.add(id)
            if found.op.body_of() is not None:
                yield from self._inside(found, seen)
            else:
                yield found

    @cached_property
    def _records(self) -> Mapping[int, Node]:
        """Every node that was there once, by its id: ids are never used again."""
        found = {node.id: node for node in self.compilation.written.table}
        for shot in self.compilation.snapshots:
            found.update((node.id, node) for change in shot.log for node in change.after)
        return found

    @cached_property
    def reasons(self) -> Mapping[int, str]:
        """Why nodes of the last graph were made, where the log says so."""
        return {
            change.node: f"{change.rule}: {change.because}" if change.because else change.rule
            for shot in self.compilation.snapshots
            for change in shot.log
            if change.kind == "insert"
        }

    @cached_property
    def uses(self) -> Mapping[str, tuple[int, ...]]:
        """The nodes that each kernel computes, by the kernel's name."""
        found: dict[str, list[int]] = {}
        for launch in self.launches:
            found.setdefault(launch.kernel.name, []).append(launch.node)
        return {name: tuple(ids) for name, ids in found.items()}


def launch_facts(
    launched: Launched, buffers: Mapping[int, Sequence[int]]
) -> tuple[LaunchFacts, ...]:
    """Return the launches; `buffers` are the places of buffers by the nodes that live in them."""
    ir = launched.compilation.ir
    written = launched.compilation.written
    number = {kernel.name: place for place, kernel in enumerate(launched.kernels)}
    found: list[LaunchFacts] = []
    for launch in launched.launches:
        node = ir[launch.node]
        made = tuple(launched.picks(node.id)) or (node.id,)
        covers = sorted(launched.covering.written(node.id))
        lines = [written[id].meta.origin for id in covers]
        origins = dict.fromkeys(Line(*line) for line in lines if line is not None)
        places = [place for id in (*node.sources, *made) for place in buffers.get(id, ())]
        found.append(
            LaunchFacts(
                number[launch.kernel.name],
                f"%{launch.name}",
                node.id,
                made,
                node.sources,
                tuple(covers),
                tuple(origins),
                tuple(dict.fromkeys(places)),
            )
        )
    return tuple(found)


# -- kernels ---------------------------------------------------------------------------------------


def kernel_facts(launched: Launched, dialects: Sequence[Dialect] = ()) -> tuple[KernelFacts, ...]:
    """Return the kernels, with their sources in the dialect of the compile and in others."""
    others = [(one, _elsewhere(launched, one)) for one in dict.fromkeys(dialects)]
    found: list[KernelFacts] = []
    for kernel in launched.kernels:
        nodes = launched.uses[kernel.name]
        sources = [_source(launched, kernel, nodes, _title(kernel, launched.compilation))]
        for dialect, made in others:
            other = made.get(nodes[0])
            if dialect != kernel.dialect and other is not None:
                title = f"{LANGUAGES[dialect]}{f' {ARCH}' if dialect == 'cuda' else ''}"
                sources.append(_source(launched, other, nodes, title))
        found.append(_kernel(launched, kernel, tuple(sources)))
    return tuple(found)


def _kernel(launched: Launched, kernel: Kernel, sources: tuple[SourceFacts, ...]) -> KernelFacts:
    first, steps = _steps(kernel)
    return KernelFacts(
        kernel.name,
        "" if kernel.definition is None else str(kernel.definition),
        "" if kernel.nest is None else str(kernel.nest),
        "" if kernel.schedule is None else str(kernel.schedule),
        _known(kernel.flops, launched.dims),
        _known(kernel.bytes, launched.dims),
        launched.reasons.get(launched.uses[kernel.name][0], ""),
        first,
        steps,
        sources,
    )


@lru_cache(256)
def _steps(kernel: Kernel) -> tuple[str, tuple[Step, ...]]:
    """Return the nest before the first step of a kernel's schedule, and after each."""
    if kernel.definition is None or kernel.schedule is None:
        return "", ()
    steps = kernel.steps
    return str(steps.start), tuple(Step(str(one.step), str(one.after)) for one in steps)


def _known(amount: Callable[[Mapping[str, int]], int], dims: Mapping[str, int]) -> int | None:
    try:
        return amount(dims)
    except LabError:
        return None  # a dim has no size


def _title(kernel: Kernel, compilation: Compilation) -> str:
    devices = compilation.pipeline.devices()
    arch: str | None = getattr(devices[0], "arch", None) if devices else None
    return f"{LANGUAGES[kernel.dialect]}{f' {arch}' if arch else ''}"


def _source(launched: Launched, kernel: Kernel, nodes: Iterable[int], title: str) -> SourceFacts:
    dialect: Dialect = (
        "cuda" if kernel.dialect == "cuda" else "metal" if kernel.dialect == "metal" else "c"
    )
    return SourceFacts(dialect, title, kernel.source, _lines(launched, kernel, nodes))


def _lines(
    launched: Launched, kernel: Kernel, nodes: Iterable[int]
) -> tuple[tuple[int, tuple[int, ...]], ...]:
    """Return for each line of a source the nodes that it computes, in all launches.

    A kernel's lines know the kinds of their ops; of each launch the nodes of that kind are meant.
    """
    by_op: dict[str, list[int]] = {}
    for id in nodes:
        for node in launched.inside(id):
            if not isinstance(node.op, Source):
                by_op.setdefault(node.op.name, []).append(node.id)
    found: list[tuple[int, tuple[int, ...]]] = []
    for number, ops in enumerate(kernel.ops_of_line, 1):
        ids = [id for op in ops for id in by_op.get(op, ())]
        if ids:
            found.append((number, tuple(sorted(set(ids)))))
    return tuple(found)


def _elsewhere(launched: Launched, dialect: Dialect) -> Mapping[int, Kernel]:
    """Return the kernels that another device would have for the same graph, by their nodes."""
    maker: Maker
    ir = launched.compilation.ir
    if dialect == "c":
        return _kernels_of(Worklist(ir, this_machine(), {}))
    maker = GPUMaker(gpu_of(ARCH) if dialect == "cuda" else apple(), dialect)
    try:
        return _kernels_of(Worklist(ir, maker, {}))
    except LabError:
        return {}  # such as float64, which Apple's GPUs have not


def _kernels_of(work: Worklist) -> Mapping[int, Kernel]:
    return {one.node.id: work.uses[one.use].kernel for one in work.works if one.use is not None}

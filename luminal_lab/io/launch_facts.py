"""A program's launches as facts: kernels, their uses, and the nodes that each line computes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, get_args

from luminal_lab.core.ir import Node
from luminal_lab.core.op import Source
from luminal_lab.core.ops import Pick
from luminal_lab.devices.gpu.compiler import gpu_maker
from luminal_lab.devices.runtime.worklist import KernelMaker, Worklist
from luminal_lab.errors import LabError
from luminal_lab.io.derivation_facts import DerivationFacts, derivation_facts, steps_of
from luminal_lab.io.facts import (
    Asked,
    AssemblyFacts,
    Dialect,
    KernelFacts,
    LaunchFacts,
    Line,
    SourceFacts,
)
from luminal_lab.kernels.gpu import apple, gpu_of, webgpu
from luminal_lab.kernels.kernel import LANGUAGES, Kernel
from luminal_lab.kernels.launch import Launch
from luminal_lab.machines.here import this_machine
from luminal_lab.machines.machine import Machine
from luminal_lab.passes.compilation import Compilation
from luminal_lab.timing.families import family_of
from luminal_lab.timing.launches import Covering
from luminal_lab.timing.work import effort_for

ARCH = "sm_80"
"""The target of CUDA sources for a compile for another device."""

if TYPE_CHECKING:
    from luminal_lab.search.derived import KernelDerivation


@dataclass
class LaunchedCompile:
    """A compile with its launches, and cached answers about both."""

    compilation: Compilation
    dims: Mapping[str, int] = field(default_factory=dict[str, int])
    """The known sizes of dims."""

    @cached_property
    def launches(self) -> tuple[Launch, ...]:
        """The launches of a run, in order, runnable here or not; none without a device."""
        launches: Iterable[Launch] = getattr(self.compilation.program, "launches", ())
        return tuple(launches)

    @cached_property
    def kernels(self) -> tuple[Kernel, ...]:
        """The distinct kernels, in the order of their first launch."""
        return tuple({launch.kernel.name: launch.kernel for launch in self.launches}.values())

    @cached_property
    def at(self) -> Mapping[int, int]:
        """The indices of launches, by the nodes that they compute and the picks from these."""
        positions: dict[int, int] = {}
        for position, launch in enumerate(self.launches):
            positions[launch.node] = position
            positions.update((id, position) for id in self.picks(launch.node))
        return positions

    def picks(self, id: int) -> list[int]:
        """Return the picks from a node with several results, in the order of the results."""
        ids = {
            user.op.index: user.id
            for user in self.compilation.ir.users(id)
            if isinstance(user.op, Pick)
        }
        return [ids[index] for index in sorted(ids)]

    @cached_property
    def covering(self) -> Covering:
        """The map from nodes of the last graph to nodes as written."""
        return Covering(self.compilation)

    def inside(self, id: int) -> tuple[Node, ...]:
        """Return the nodes that became part of a call, in their earlier form."""
        return tuple(self._inside(self.compilation.ir[id], set()))

    def _inside(self, node: Node, seen: set[int]) -> Iterable[Node]:
        for id in node.meta.derivation.parents if node.meta.derivation is not None else ():
            node_before = self._records.get(id)
            if node_before is None or id in seen:
                continue
            seen.add(id)
            if node_before.op.body_of() is not None:
                yield from self._inside(node_before, seen)
            else:
                yield node_before

    @cached_property
    def _records(self) -> Mapping[int, Node]:
        """Every node that ever existed, by its id: ids are never reused."""
        records = {node.id: node for node in self.compilation.written.table}
        for shot in self.compilation.snapshots:
            records.update((node.id, node) for change in shot.log for node in change.after)
        return records

    @cached_property
    def reasons(self) -> Mapping[int, str]:
        """Why nodes of the last graph were made, if the log says so."""
        return {
            change.node: f"{change.rule}: {change.because}" if change.because else change.rule
            for shot in self.compilation.snapshots
            for change in shot.log
            if change.kind == "insert"
        }

    @cached_property
    def derivations(self) -> Mapping[str, KernelDerivation]:
        """How the kernels of a search came from what was written, by name; empty without one."""
        devices = self.compilation.pipeline.devices()
        if not any(getattr(d, "programs", ()) or getattr(d, "schedules", ()) for d in devices):
            return {}
        from luminal_lab.search.derived import derivation_of_launches  # noqa: PLC0415  # loaded when used

        parts = derivation_of_launches(self.compilation.ir, self.launches).parts
        return {part.kernel.name: part for part in parts}

    @cached_property
    def uses(self) -> Mapping[str, tuple[int, ...]]:
        """The nodes that each kernel computes, by the kernel's name."""
        nodes: dict[str, list[int]] = {}
        for launch in self.launches:
            nodes.setdefault(launch.kernel.name, []).append(launch.node)
        return {name: tuple(ids) for name, ids in nodes.items()}


def launch_facts(
    launched: LaunchedCompile, buffers: Mapping[int, Sequence[int]]
) -> tuple[LaunchFacts, ...]:
    """Return the launches; `buffers` maps nodes to the indices of their buffers."""
    ir = launched.compilation.ir
    number = {kernel.name: index for index, kernel in enumerate(launched.kernels)}
    facts: list[LaunchFacts] = []
    for launch in launched.launches:
        node = ir[launch.node]
        results = tuple(launched.picks(node.id)) or (node.id,)
        covers = sorted(launched.covering.written(node.id))
        lines = launched.compilation.attribution.lines(node.id, effort_for(launched.dims))
        work = launched.compilation.attribution.work(node.id, effort_for(launched.dims))
        homes = [index for id in (*node.sources, *results) for index in buffers.get(id, ())]
        facts.append(
            LaunchFacts(
                number[launch.kernel.name],
                f"%{launch.name}",
                node.id,
                results,
                node.sources,
                tuple(covers),
                tuple(Line(*line) for line, _ in lines),
                tuple(dict.fromkeys(homes)),
                tuple(round(share, 6) for _, share in lines),
                _scopes(work),
                family_of(node, launch.kernel),
            )
        )
    return tuple(facts)


def _scopes(work: Mapping[Node, float]) -> tuple[tuple[str, float], ...]:
    """Return how much of a launch's work comes from each part of the model."""
    scopes: dict[str, float] = {}
    for node, share in work.items():
        scopes[node.meta.scope] = scopes.get(node.meta.scope, 0.0) + share
    total = sum(scopes.values())
    return tuple((scope, round(share / total, 6)) for scope, share in scopes.items() if total)


# -- kernels ---------------------------------------------------------------------------------------


def kernel_facts(
    launched: LaunchedCompile, dialects: Sequence[Asked] = ()
) -> tuple[KernelFacts, ...]:
    """Return the kernels, with their sources in the compile's dialect and in others."""
    others = [(d, _elsewhere(launched, d)) for d in dict.fromkeys(dialects) if d != "assembly"]
    facts: list[KernelFacts] = []
    for kernel in launched.kernels:
        nodes = launched.uses[kernel.name]
        own = _source(launched, kernel, nodes, _title(kernel, launched.compilation))
        if "assembly" in dialects:
            assembly = kernel.assembly
            own = replace(own, assembly=AssemblyFacts(assembly.text, assembly.lines, assembly.by))
        sources = [own]
        for dialect, kernels in others:
            other = kernels.get(nodes[0])
            if dialect != kernel.dialect and other is not None:
                title = f"{LANGUAGES[dialect]}{f' {ARCH}' if dialect == 'cuda' else ''}"
                sources.append(_source(launched, other, nodes, title))
        facts.append(_kernel(launched, kernel, tuple(sources)))
    return tuple(facts)


def _kernel(
    launched: LaunchedCompile, kernel: Kernel, sources: tuple[SourceFacts, ...]
) -> KernelFacts:
    derivation = launched.derivations.get(kernel.name)
    if derivation is None:
        first, steps = steps_of(kernel)
        derived = DerivationFacts(kernel.name, first=first, steps=steps)
    else:
        derived = derivation_facts(derivation)
    return KernelFacts(
        **vars(derived),
        definition="" if kernel.definition is None else str(kernel.definition),
        nest="" if kernel.nest is None else str(kernel.nest),
        schedule="" if kernel.schedule is None else str(kernel.schedule),
        flops=_known(kernel.flops, launched.dims),
        bytes=_known(kernel.bytes, launched.dims),
        reason=launched.reasons.get(launched.uses[kernel.name][0], ""),
        sources=sources,
    )


def _known(amount: Callable[[Mapping[str, int]], int], dims: Mapping[str, int]) -> int | None:
    try:
        return amount(dims)
    except LabError:
        return None  # a dim has no size


def _title(kernel: Kernel, compilation: Compilation) -> str:
    devices = compilation.pipeline.devices()
    arch: str | None = getattr(devices[0], "arch", None) if devices else None
    return f"{LANGUAGES[kernel.dialect]}{f' {arch}' if arch else ''}"


def _source(
    launched: LaunchedCompile, kernel: Kernel, nodes: Iterable[int], title: str
) -> SourceFacts:
    dialect: Dialect = next(known for known in get_args(Dialect) if known == kernel.dialect)
    return SourceFacts(dialect, title, kernel.source, _lines(launched, kernel, nodes))


def _lines(
    launched: LaunchedCompile, kernel: Kernel, nodes: Iterable[int]
) -> tuple[tuple[int, tuple[int, ...]], ...]:
    """Return the nodes that each line of a source computes, over all launches.

    A kernel's lines know the kinds of their ops, which stand for each launch's nodes of that kind.
    """
    by_op: dict[str, list[int]] = {}
    for id in nodes:
        for node in launched.inside(id):
            if not isinstance(node.op, Source):
                by_op.setdefault(node.op.name, []).append(node.id)
    lines: list[tuple[int, tuple[int, ...]]] = []
    for number, ops in enumerate(kernel.ops_of_line, 1):
        ids = [id for op in ops for id in by_op.get(op, ())]
        if ids:
            lines.append((number, tuple(sorted(set(ids)))))
    return tuple(lines)


def _elsewhere(launched: LaunchedCompile, dialect: Dialect) -> Mapping[int, Kernel]:
    """Return another device's kernels for the same graph, by their nodes."""
    ir = launched.compilation.ir
    maker: Machine | KernelMaker = this_machine()
    if dialect != "c":
        others = {"metal": apple, "webgpu": webgpu}
        maker = gpu_maker(others.get(dialect, partial(gpu_of, ARCH))(), dialect)
    try:
        return _kernels_of(Worklist(ir, maker, {}))
    except LabError:
        return {}  # float64, which Apple's GPUs lack; or a program of XLA's, which is no kernel


def _kernels_of(work: Worklist) -> Mapping[int, Kernel]:
    return {
        work_item.node.id: work.uses[work_item.use].kernel
        for work_item in work.works
        if work_item.use is not None
    }

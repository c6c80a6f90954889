"""One launch on one device, and which nodes of the graph as written it computes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import median
from typing import NamedTuple

from luminal_lab.core.ir import Node
from luminal_lab.core.ops import Pick
from luminal_lab.core.origin import Origin
from luminal_lab.kernels.kernel import Kernel
from luminal_lab.passes.compilation import Compilation
from luminal_lab.timing.roofline import Modelled
from luminal_lab.timing.timings import How, spread_of
from luminal_lab.timing.work import effort_for


class KernelUse(NamedTuple):
    """A node of a compiled graph, and the kernel that makes it; None if NumPy does."""

    node: int
    kernel: Kernel | None


@dataclass(frozen=True)
class LaunchTime:
    """One launch on one device."""

    node: str
    """The node of the compiled graph that it makes."""
    kernel: str
    how: How
    samples: tuple[float, ...]
    """Seconds: a single sample if modelled, none if there is no time."""
    covers: frozenset[int]
    """The nodes of the graph as written that it computes."""
    value: int | None = None
    """The node of the written graph whose value it stores, if any."""
    bytes: int | None = None
    flops: int | None = None
    least: float | None = None
    """The seconds that the device's figures allow."""
    bound: str = ""
    """The figure that sets this limit."""
    missing: str = ""
    """Why there is no time."""
    is_host: bool = False
    lines: tuple[str, ...] = ()
    """The user's lines that it comes from."""

    @property
    def seconds(self) -> float | None:
        """The median of the samples."""
        return median(self.samples) if self.samples else None

    @property
    def spread(self) -> float:
        """The distance between the quartiles of the samples."""
        return spread_of(self.samples)


class Covering:
    """For the nodes of a compiled graph, the nodes of the written graph that they compute."""

    def __init__(self, compilation: Compilation) -> None:
        self.shots = compilation.snapshots
        self.attribution = compilation.attribution
        self._known: dict[tuple[int, int, bool], frozenset[int]] = {}

    def written(self, id: int) -> frozenset[int]:
        """Return the written nodes behind a node of the last graph.

        What was merged from equal nodes (constants and masks of all layers) belongs to none of its
        origins, unless there is nothing else.
        """
        last = len(self.shots) - 1
        return self._back(last, id, merged=False) or self._back(last, id, merged=True)

    def lines(self, id: int, dims: Mapping[str, int]) -> tuple[str, ...]:
        """Return the user's lines that a node of the last graph comes from, as `file:line`."""
        return tuple(self.shares(id, dims))

    def shares(self, id: int, dims: Mapping[str, int]) -> Mapping[str, float]:
        """Return the share of each of these lines; they add up to 1."""
        shares: dict[str, float] = {}
        for line, share in self.attribution.lines(id, effort_for(dims)):
            (text,) = lines_text([line])
            shares[text] = shares.get(text, 0.0) + share
        return shares

    def behind(self, id: int) -> list[Node]:
        """Return the written nodes from which a node of the last graph comes, with merged ones."""
        written = self.shots[0].ir
        ids = self._back(len(self.shots) - 1, id, merged=True)
        return [written[id] for id in sorted(ids)]

    def time(
        self,
        use: KernelUse,
        how: How,
        samples: tuple[float, ...],
        dims: Mapping[str, int],
        least: Modelled | None,
        missing: str = "",
    ) -> LaunchTime:
        """Return the times of a launch for sizes of dims, or the reason in `missing`."""
        node, covers, kernel = self.shots[-1].ir[use.node], self.written(use.node), use.kernel
        if kernel is None:
            name = node.op.name
            lines = self.lines(use.node, dims)
            return LaunchTime(
                str(node), name, how, (), covers, missing=missing, is_host=True, lines=lines
            )
        limit = (None, "") if least is None else (least.seconds, least.bound)
        value, work = self.value(use.node), (kernel.bytes(dims), kernel.flops(dims))
        timed = LaunchTime(
            str(node), kernel.name, how, samples, covers, value, *work, *limit, missing
        )
        return replace(timed, lines=self.lines(use.node, dims))

    def _back(self, index: int, id: int, *, merged: bool) -> frozenset[int]:
        while index and not self.shots[index].firings:
            index -= 1
        if not index:
            return frozenset((id,))
        key = index, id, merged
        if key not in self._known:
            shot = self.shots[index]
            nodes = shot.back(id)
            is_merged = len(nodes) > 1 and id in shot.before and shot.ir[id].op.body_of() is None
            written = [
                self._back(index - 1, node.id, merged=merged)
                for node in (() if is_merged and not merged else nodes)
            ]
            self._known[key] = frozenset[int]().union(*written)
        return self._known[key]

    def value(self, id: int) -> int | None:
        """Return the written node whose value a node of the last graph holds, if there is one."""
        ir = self.shots[-1].ir
        ids = {id, *(user.id for user in ir.users(id) if isinstance(user.op, Pick))}
        for shot, replaced in zip(self.shots[:0:-1], self._replaced[:0:-1], strict=True):
            if shot.firings:
                standing = list(ids)
                for taken in standing:
                    standing += [id for id in replaced.get(taken, ()) if id not in standing]
                ids = {id for id in standing if id in shot.before}
        return max(ids, default=None)

    @cached_property
    def _replaced(self) -> list[dict[int, list[int]]]:
        """For each pass, the nodes that each node has replaced."""
        passes: list[dict[int, list[int]]] = [{} for _ in self.shots]
        for replaced, shot in zip(passes, self.shots, strict=True):
            for change in shot.log:
                if change.kind == "replace" and change.into is not None:
                    replaced.setdefault(change.into, []).append(change.node)
        return passes


def lines_text(origins: Iterable[Origin | None]) -> tuple[str, ...]:
    """Return lines as `file:line`, each once, without the folders of their files."""
    lines = (re.sub(r"^.*[/\\]", "", f"{line.file}:{line.line}") for line in origins if line)
    return tuple(dict.fromkeys(lines))

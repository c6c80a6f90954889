"""What may be slow, and the graph that is tried instead."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial

from luminal_lab.core.dtypes import Array
from luminal_lab.core.edit import Edit
from luminal_lab.core.interpret import Environment
from luminal_lab.core.ir import IR, Node
from luminal_lab.core.origin import Origin
from luminal_lab.passes.compilation import Compilation
from luminal_lab.passes.draws import Given
from luminal_lab.passes.pipeline import PassLike
from luminal_lab.timing.launches import Covering
from luminal_lab.timing.timings import Timings

NO_SIZES: Mapping[str, int] = {}


@dataclass(frozen=True)
class Recipe:
    """How a session was compiled: the arguments of `cx.compile`."""

    passes: tuple[PassLike, ...]
    licence: tuple[str, ...] | None
    specialise: Mapping[str, int] = field(default_factory=dict[str, int])


def recipe_of(compiling: Callable[..., object] | None) -> Recipe:
    """Return how a session was compiled, from the call that repeats it."""
    if not isinstance(compiling, partial):
        return Recipe((), None)
    given = compiling.keywords
    licence, sizes = given.get("licence"), given.get("specialise")
    return Recipe(compiling.args, None if licence is None else tuple(licence), dict(sizes or {}))


@dataclass(frozen=True)
class Case:
    """A session's graph as it is compiled and run now."""

    written: IR
    compilation: Compilation
    environment: Environment
    given: Given
    recipe: Recipe
    timings: Timings
    probed: tuple[int, ...] = ()
    """The nodes that the user's functions look at during a run."""
    asked: tuple[int, ...] = ()
    """The nodes that are retrieved or kept."""
    recompiled: float | None = None
    """The seconds of the compile that this run needed because what was written had changed."""
    added: tuple[int, ...] = ()
    """The nodes written since the compile before."""

    @cached_property
    def covering(self) -> Covering:
        """Which nodes as written each launch computes."""
        return Covering(self.compilation)

    @cached_property
    def touched(self) -> Mapping[int, float]:
        """The seconds of the launches that compute each written node."""
        seconds: dict[int, float] = {}
        for row in self.timings:
            for node in self.covering.behind(self.compilation.ir[row.node].id):
                seconds[node.id] = seconds.get(node.id, 0.0) + row.seconds
        return seconds

    def value(self, node: Node) -> Array | None:
        """Return the data of an input; None for anything else."""
        return self.environment.data(node) if node in self.written.inputs else None


@dataclass(frozen=True)
class Variant:
    """What is compiled and run instead."""

    ir: IR | None = None
    """None: the graph as written."""
    passes: tuple[PassLike, ...] | None = None
    """None: the current ones."""
    specialise: Mapping[str, int] | None = None
    data: Callable[[Node, Array], Array] = lambda _, array: array
    """What an input's data becomes."""
    keeps_probes: bool = True
    is_exact: bool = True
    """Whether its values are the current ones, up to rounding in float32."""


@dataclass(frozen=True)
class Suspect:
    """Something that may be slow, before a change has been tried."""

    kind: str
    title: str
    why: str
    change: str
    nodes: tuple[int, ...]
    """The nodes as written; the first one gives the line."""
    variant: Callable[[], Variant | None] | None = None
    """Makes what is tried; None if nothing can be tried."""
    ratio: float | None = None
    """If modelled: how many times faster a run could be at most."""
    saved: float | None = None
    """If timed along the way: the seconds that a run would save."""


def edited(ir: IR, change: Callable[[Edit], None]) -> IR:
    """Return a copy of a graph after some changes, without nodes that are no longer needed."""
    edit = Edit(ir)
    change(edit)
    for node in reversed(ir.nodes):
        is_free = not edit.users(node) and node.id not in edit.signature.outputs
        if edit.table.get(node.id) is not None and is_free and not node.op.name.startswith("input"):
            edit.erase(node)
    return edit.ir()


def line_of(origin: Origin | None) -> tuple[str, int] | None:
    """Return where a line stands."""
    return None if origin is None else (origin.file, origin.line)


def by_line(ir: IR, nodes: Sequence[Node]) -> list[list[Node]]:
    """Return nodes in groups, one for each of the user's lines."""
    groups: dict[object, list[Node]] = {}
    for node in nodes:
        groups.setdefault(line_of(node.meta.origin) or node.id, []).append(node)
    return list(groups.values())


def called(node: Node) -> str:
    """Return what to call a node: the user's name, or what it is."""
    return str(node) if node.meta.name is not None else f"a value of {node.type}"

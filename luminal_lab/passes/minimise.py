"""The smallest graph that still shows something, found by cutting for as long as it is shown.

    graph g(%x: f32[n, 8], %w: f32[8, 4]) -> (%y) {        graph g(%2: f32[1]) -> (%3) {
      … 300 nodes, in one of which `add-zero` fires   →      %1 = constant{value = 0.0} : f32[1]
    }                                                        %3 = add %2, %1 : f32[1]
                                                           }

The end is cut off by asking for intermediate values, the beginning by turning values into inputs:
both by halves, so that a large graph takes few trials. Then each node is tried: as an input, or
left out, so that its users read what it reads; then sizes are made small. A graph is kept if it
obeys the laws and still shows the effect.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextvars import copy_context
from dataclasses import dataclass, fields, replace
from inspect import signature
from typing import Any, Protocol, TypeVar, cast

from typing_extensions import override

from luminal_lab.core.dims import Dim
from luminal_lab.core.ir import IR, Node, Table, check_ir
from luminal_lab.core.op import Op, result_types
from luminal_lab.core.ops import Input
from luminal_lab.core.origin import here, warn
from luminal_lab.core.printer import as_text
from luminal_lab.core.verify import verify
from luminal_lab.errors import ArgumentError, GraphError, LabError, whole_number
from luminal_lab.listeners import LISTENERS
from luminal_lab.passes.compilation import Compilation
from luminal_lab.passes.shown import Shown, is_given
from luminal_lab.progress import progress
from luminal_lab.tensor.arguments import is_function, told_object

T = TypeVar("T")
Shows = Callable[[IR], object]
MOST = 1_000
"""The most graphs that are tried."""


class Session(Protocol):
    """The graph as written, and its last compile."""

    @property
    def ir(self) -> IR:
        """The graph."""
        ...

    @property
    def compilation(self) -> Compilation:
        """The last compile; before the first, one with no passes."""
        ...


@told_object("minimised")
@dataclass(frozen=True, repr=False)
class Minimised:
    """The smallest graph found that shows something."""

    ir: IR
    written: IR
    """The graph at the start."""
    shows: Shows
    tried: int
    is_whole: bool = True
    """Whether no smaller graph was left to try: False after Ctrl-C, or too many trials."""

    def as_test(self, name: str = "") -> str:
        """Return a test of the graph to paste into a file; pytest runs it."""
        if not isinstance(name, str) or (name and not name.isidentifier()):  # pyright: ignore[reportUnnecessaryIsInstance]  # nobody checks notebooks
            raise ArgumentError(
                f"as_test: {name!r} cannot be the name of a function",
                hint='give a word, as in "it_fires"',
            )
        if isinstance(self.shows, Shown):
            return self.shows.test(self.ir, name)
        shows = getattr(self.shows, "__name__", "shows")
        known = shows if shows.isidentifier() else "shows"
        return (
            "import luminal_lab as ll\n\n\n"
            f"def test_{name or f'{known}_is_true'}():\n"
            f'    ir = ll.parse("""{self.ir}""")\n'
            f"    assert {known}(ir)\n"
        )

    @override
    def __str__(self) -> str:
        return str(self.ir)

    _repr_mimebundle_ = as_text

    @override
    def __repr__(self) -> str:
        left = "" if self.is_whole else ", and smaller ones may show it"
        return (
            f"<Minimised: {len(self.written)} → {len(self.ir)} nodes, {self.tried} graphs tried"
            f"{left}; print(…) shows it, .as_test() is a test>"
        )


def minimise(
    of: IR | Compilation | Session,
    shows: Shows | None = None,
    *,
    passes: object = None,
    fires: str = "",
    misses: str = "",
    at: object = None,
    raises: type[Exception] | None = None,
    check: str | None = None,
    licence: Iterable[str] | None = None,
    most: int = MOST,
) -> Minimised:
    """Return the smallest graph that still shows something.

    `shows` is a function that takes a graph and returns whether it shows the effect. Otherwise
    `passes` are run on each graph, and the effect is that a rule `fires`, that a search such as
    "softmax" `misses` the node `at`, for the same reason, or that it `raises` an error. A compile
    brings its graph, its passes and its licence, and a session its last compile. Ctrl-C ends the
    search with the smallest graph so far.

    >>> from luminal_lab.core.parse import parse
    >>> ir = parse("graph g(%x: f32[8]) -> (%z) { %y = sin %x : f32[8] %z = sqrt %y : f32[8] }")
    >>> print(minimise(ir, lambda small: "sqrt" in str(small)))
    graph g(%3: f32[1]) -> (%z) {
      %z = sqrt %3 : f32[1]
    }
    """
    if not isinstance(of, IR) and passes is None:  # a session has its last compile
        of = cast("Compilation", getattr(of, "compilation", of))
    if isinstance(of, Compilation):
        ir = of.written
        passes = of.pipeline if passes is None else passes
        licence = of.licence if licence is None else licence
        at = _as_written(of, at)
    else:
        ir = of if isinstance(of, IR) else cast("IR", getattr(of, "ir", of))
    check_ir("minimise", ir)
    if whole_number(most) is None or most < 1:
        raise ArgumentError(f"minimise: most is {most!r}", hint="give how many graphs are tried")
    said = {"shows": shows, "fires": fires, "misses": misses, "raises": raises}
    given = [name for name, value in said.items() if is_given(value)]
    if len(given) != 1:
        raise ArgumentError(
            f"minimise: {' and '.join(given) or 'nothing'} says what the graph is to show",
            where=str(here() or "") or None,
            hint='give one of them: a function of a graph, fires="add-zero", misses="softmax" with '
            "at=node, or raises=ll.PassError",
        )
    if shows is not None and not (is_function(shows) and _takes_a_graph(shows)):
        raise ArgumentError(
            f"minimise: {shows!r} is not a function of a graph", hint="as in lambda ir: len(ir) > 3"
        )

    def search() -> Minimised:
        LISTENERS.set(())
        asked = () if passes is None else passes
        what = shows or Shown.of(ir, asked, fires, misses, at, raises, check, licence)
        return _smallest(ir, what, most)

    # In a context of its own: an open trace does not see the trials.
    return copy_context().run(search)


def _as_written(compilation: Compilation, at: object) -> object:
    """Return the written node for a node of any snapshot; of several, the last."""
    if at is None:
        return None
    node = compilation.find(compilation.node_of("minimise", cast("Any", at)))
    first = compilation.trace(node).first
    return node.id if node in compilation.written or not first else first[-1].id


def _takes_a_graph(shows: Callable[..., object]) -> bool:
    """Return whether a function can be called with a graph alone, as far as Python knows."""
    try:
        signature(shows).bind(None)
    except TypeError:
        return False
    except ValueError:  # of a function that is not written in Python
        return True
    return True


def _smallest(ir: IR, shows: Shows, most: int) -> Minimised:
    answer: object = shows(ir)
    try:
        is_shown = bool(answer)
    except ValueError as error:
        raise ArgumentError(
            f"minimise: the function returned {answer!r}, which is neither true nor false",
            hint="as in lambda ir: len(ir) > 3",
        ) from error
    if not is_shown:
        raise GraphError(
            f"minimise: the graph {ir.name} does not show it, so that no smaller one can",
            hint="try shows(ir) on the graph; print(compilation) has the rules that fired",
        )
    search = Smallest(shows, most)
    # If the nodes that show it are known, the graph up to them is tried first.
    ends = shows.ends(ir) if isinstance(shows, Shown) else ()
    near = [_trimmed(ir, ir.table, [id]) for id in ends if id in ir and not ir[id].extra]
    start = next((cut for cut in near if search.is_shown(cut)), ir)
    small = search.of(start, _candidates)
    if search.is_interrupted:
        warn(f"minimise: stopped by Ctrl-C after {search.tried} graphs, with the smallest so far")
    return Minimised(small, ir, shows, search.tried, is_whole=not search.is_stopped)


class Smallest:
    """A search for the smallest thing that shows something: the first candidate that does is next.

    A candidate that raises an error shows nothing; Ctrl-C keeps the smallest so far.
    """

    def __init__(self, shows: Callable[[Any], object], most: int) -> None:
        self.shows = shows
        self.most = most
        self.tried = 0
        self.is_stopped = self.is_interrupted = False

    def of(self, thing: T, candidates: Callable[[T], Iterable[T]]) -> T:
        """Return what is left of a thing when none of its candidates shows the effect any more."""
        smaller = True
        with progress("minimise", self.most, "graph") as bar:
            try:
                while smaller and not self.is_stopped:
                    smaller = False
                    for candidate in candidates(thing):
                        if self.tried >= self.most:
                            self.is_stopped = True
                            break
                        bar.step()
                        if self.is_shown(candidate):
                            thing, smaller = candidate, True
                            break
            except KeyboardInterrupt:
                self.is_stopped = self.is_interrupted = True
        return thing

    def is_shown(self, candidate: object) -> bool:
        """Try a candidate."""
        self.tried += 1
        try:
            return bool(self.shows(candidate))
        except Exception:
            return False


# -- smaller graphs --------------------------------------------------------------------------------


def _candidates(ir: IR) -> Iterator[IR]:
    """Yield smaller graphs that obey the laws, those that remove the most first."""
    halving, single = (_cut_off, _begun_later), (_earlier, _as_input, _left_out)
    for change in (_fewer_ends, *halving, *single, _smaller):
        for candidate in change(ir):
            try:
                verify(candidate)
            except LabError:
                continue
            yield candidate


def _trimmed(ir: IR, table: Table, outputs: Iterable[int]) -> IR:
    """Return a graph with what some outputs need, and only the inputs that are read."""
    whole = IR(table, (), tuple(dict.fromkeys(outputs)), name=ir.name)
    needed = whole.ancestors(whole.output_ids)
    kept = Table()
    for node in table:
        if node.id in needed:
            kept.set(node.id, node)
    kept.size = max(kept.size, table.size)
    known = [id for id in ir.input_ids if id in needed]
    fresh = [n.id for n in kept if isinstance(n.op, Input) and n.id not in ir.input_ids]
    return IR(kept, (*known, *fresh), whole.output_ids, name=ir.name)


def _fewer_ends(ir: IR) -> Iterator[IR]:
    """Leave out carries and dead nodes, and all outputs but one, or one output."""
    small = _trimmed(ir, ir.table, ir.output_ids)
    if ir.carries or ir.schedule or len(small) < len(ir):
        yield small
    if len(ir.output_ids) > 1:
        for id in ir.output_ids:
            yield _trimmed(ir, ir.table, [id])
        for id in ir.output_ids:
            yield _trimmed(ir, ir.table, [output for output in ir.output_ids if output != id])


def _halves(count: int) -> Iterator[int]:
    """Yield positions for cuts: the middle, then closer and closer to the end."""
    left = count // 2
    seen: set[int] = set()
    while left < count - 1 and left not in seen:
        seen.add(left)
        yield left
        left += max(1, (count - left) // 2)


def _cut_off(ir: IR) -> Iterator[IR]:
    """Ask for intermediate values instead of the end."""
    nodes = [node for node in ir.nodes if not isinstance(node.op, Input) and not node.extra]
    for count in _halves(len(nodes)):
        before = {node.id for node in ir.nodes[: ir.nodes.index(nodes[count]) + 1]}
        read = {id for node in ir.nodes if node.id in before for id in node.sources}
        ends = [node.id for node in nodes if node.id in before and node.id not in read]
        if ends and {*ends} != {*ir.output_ids}:
            yield _trimmed(ir, ir.table, ends)


def _begun_later(ir: IR) -> Iterator[IR]:
    """Turn the results of the first nodes into inputs, all at once."""
    nodes = [node for node in ir.nodes if not isinstance(node.op, Input)]
    for count in reversed([*_halves(len(nodes))]):
        first = {node.id for node in nodes[:count]}
        later = {id for node in nodes[count:] for id in node.sources}
        inputs = {id for id in first & later if not ir[id].extra}
        if inputs:
            yield _with_inputs(ir, inputs)


def _earlier(ir: IR) -> Iterator[IR]:
    """Ask for the value of one node."""
    for node in ir.nodes:
        if node.sources and not node.extra and node.id not in ir.output_ids:
            yield _trimmed(ir, ir.table, [node.id])


def _as_input(ir: IR) -> Iterator[IR]:
    """Turn the value of a node into an input."""
    for node in reversed(ir.nodes):
        if node.sources and not node.extra and node.id not in ir.output_ids:
            yield _with_inputs(ir, {node.id})


def _with_inputs(ir: IR, inputs: set[int]) -> IR:
    """Return a graph in which the values of some nodes come from outside, under fresh ids."""
    table, into = ir.table.copy(), dict[int, int]()
    for id in sorted(inputs):
        node = ir[id]
        into[id] = table.size
        table.append(Node(table.size, Input(node.dtype, node.shape), (), node.type))
    return _redirected(ir, table, into)


def _redirected(ir: IR, table: Table, into: Mapping[int, int]) -> IR:
    """Return a graph in which users read other nodes."""
    for node in ir.table:
        if any(id in into for id in node.sources):
            table.set(node.id, node._replace(sources=tuple(into.get(s, s) for s in node.sources)))
    return _trimmed(ir, table, [into.get(id, id) for id in ir.output_ids])


def _left_out(ir: IR) -> Iterator[IR]:
    """Make the users of a node read what it reads."""
    for node in reversed(ir.nodes):
        for id in dict.fromkeys(node.sources):
            if ir[id].types == node.types:
                yield _redirected(ir, ir.table.copy(), {node.id: id})


def _smaller(ir: IR) -> Iterator[IR]:
    """Make each size smaller wherever it occurs."""
    sizes = dict.fromkeys(
        dim for node in ir for type in node.types for dim in type.shape if dim not in (0, 1)
    )
    whole = sorted((dim for dim in sizes if isinstance(dim, int)), reverse=True)
    wanted: list[tuple[Dim, int]] = [
        (dim, new) for dim in sizes.keys() - {*whole} for new in (1, 2)
    ]
    wanted += [(size, new) for size in whole for new in (1, 2, 3, size // 2) if 0 < new < size]
    for size, new in wanted:
        try:
            yield _resized(ir, {size: new})
        except (LabError, ValueError, TypeError):  # an op does not allow it
            continue


def _resized(ir: IR, sizes: Mapping[Dim, Dim]) -> IR:
    """Return a graph in which sizes in shapes are replaced by others."""
    table = ir.table.copy()
    for node in ir.nodes:
        op = _op_resized(node.op, sizes)
        types = result_types(op, [cast("Node", table.get(id)) for id in node.sources])
        table.set(node.id, node._replace(op=op, type=types[0], extra=types[1:]))
    return _trimmed(ir, table, ir.output_ids)


def _op_resized(op: Op, sizes: Mapping[Dim, Dim]) -> Op:
    changed = {
        field.name: tuple(sizes.get(dim, dim) for dim in getattr(op, field.name))
        for field in fields(cast("Any", op))
        if field.name == "shape"
    }
    return replace(cast("Any", op), **changed) if changed else op

"""The memory plan: where each value of a program lives, and which values are written over others.

Inputs, constants and outputs have places of their own. Temporaries share an arena: two may use the
same bytes if they are never needed at the same time. A view is another name for its source. A step
may write a value over one that it reads, if that was requested and nothing needs the old value
later.

Sizes may be symbolic. A plan fixes which value lies above which, and offsets follow when the dims
are bound (layout.py). Every plan is proved before it is handed out (check.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import isqrt
from typing import Any, Literal, NamedTuple, TypeAlias, final

from typing_extensions import override

from luminal_lab.core.dims import Dim, Symbol, check_bounds, evaluate, maximum, symbols
from luminal_lab.display import DISPLAYS, Charted, Displayed, Theme
from luminal_lab.errors import DimError, GraphError
from luminal_lab.kernels.memory.check import check
from luminal_lab.kernels.memory.layout import ArenaLayout, LifeSpan, arrange, most_live
from luminal_lab.kernels.memory.program import MemoryProgram, MemoryStep, MemoryValue
from luminal_lab.kernels.memory.text import Row, rows_of, table
from luminal_lab.tables import Table, frame
from luminal_lab.tensor.arguments import told_object

PlaceKind: TypeAlias = Literal["arena", "input", "constant", "output"]
UNBOUNDED = 1024
"""The size assumed for an unbounded dim when values are laid out."""
COLUMNS = (
    *("value", "id", "kind", "bytes", "first", "last", "place", "lives_in", "offset"),
    *("view_of", "written_over"),
)
LONGEST = 60
"""An offset with more characters is not written as an expression."""


@final
class InPlace(NamedTuple):
    """A request to write a value over one that its step reads: done, or the reason why not."""

    value: int
    source: int
    step: int
    why_not: str = ""


@final
class Carry(NamedTuple):
    """An output that becomes an input's value in the next run.

    Done in place, the bytes stay where they are; otherwise the two places are swapped after a run.
    """

    output: int
    input: int
    why_not: str = ""


@final
@dataclass(frozen=True, slots=True)
class MemoryPlace:
    """Bytes that hold one value after another, and the views of them."""

    kind: PlaceKind
    bytes: Dim
    values: tuple[int, ...]
    """Without views, in the order in which they exist."""
    below: tuple[int, ...] = ()
    """In the arena: the places that end before this one begins."""


class _Tabled(Charted, Displayed):
    def rows(self) -> list[Row]:
        """Return what the table shows, as one plain dict for each value."""
        raise NotImplementedError

    def to_pandas(self) -> Table:
        """Return a pandas table with a row for each value; symbolic sizes are text."""
        rows = self.rows()
        return frame("memory plan", tuple(COLUMNS), ([row[c] for c in COLUMNS] for row in rows))

    @override
    def plot(self, before: MemoryPlan | BoundPlan | None = None, *, theme: Theme = "auto") -> Any:
        """Return a chart of the bytes that temporaries need at each step, with the peak.

        The line of another plan, such as that of the compile before, is drawn beside it. With
        symbolic sizes, `plan.bind({"n": 128}).plot()`.
        """
        return DISPLAYS[f"{type(self).__name__}.plot"](self, before, theme=theme)


@told_object("plan")
@dataclass(frozen=True, repr=False)
class MemoryPlan(_Tabled):
    """Where each value of a program lives."""

    program: MemoryProgram
    places: tuple[MemoryPlace, ...]
    """Places of the arena come first, each after everything below it."""
    in_place: tuple[InPlace, ...] = ()
    """The requests to write values over others, in the order of the steps."""
    carries: tuple[Carry, ...] = ()
    alignment: int = 64

    @cached_property
    def arena(self) -> tuple[MemoryPlace, ...]:
        """The places that share the arena."""
        return tuple(place for place in self.places if place.kind == "arena")

    @cached_property
    def place_of(self) -> Mapping[int, int]:
        """The index of each value's place; a value that no step makes has none."""
        places = {id: index for index, place in enumerate(self.places) for id in place.values}
        roots = self.program.roots.items()
        return {id: places[root] for id, root in roots if root in places}

    @cached_property
    def written_over(self) -> Mapping[int, int]:
        """For each value written over another, that other value."""
        return {change.value: change.source for change in self.in_place if not change.why_not}

    @cached_property
    def spans(self) -> tuple[LifeSpan, ...]:
        """The steps between which each place of the arena is needed."""
        lives = self.program.lives
        return tuple(_whole([lives[id] for id in place.values]) for place in self.arena)

    @property
    def layout(self) -> ArenaLayout:
        """Which place of the arena lies above which."""
        return ArenaLayout(
            tuple(range(len(self.arena))), tuple(place.below for place in self.arena)
        )

    @cached_property
    def offsets(self) -> tuple[Dim | None, ...]:
        """Where each place of the arena begins; None if no short expression says it."""
        starts: list[Dim | None] = []
        ends: list[Dim | None] = []
        for place in self.arena:
            under = [ends[index] for index in place.below]
            known = [end for end in under if end is not None]
            start: Dim | None = maximum(*known) if known else 0
            if len(known) < len(under) or len(str(start)) > LONGEST:
                start = None
            starts.append(start)
            size = rounded(place.bytes, self.alignment)
            ends.append(None if start is None else start + size)
        return tuple(starts)

    def bind(self, dims: Mapping[str, int] | None = None) -> BoundPlan:
        """Return this plan with numbers for all sizes and offsets."""
        return BoundPlan(self, dims or {})

    @override
    def rows(self) -> list[Row]:
        return rows_of(self)

    @override
    def __str__(self) -> str:
        return str(self.bind()) if not self.program.symbols else table(self)

    @override
    def __repr__(self) -> str:
        return f"<MemoryPlan: {len(self.places)} values; print(…) shows it>"


@told_object("plan")
@dataclass(frozen=True, repr=False)
class BoundPlan(_Tabled):
    """A memory plan with numbers for all sizes and offsets."""

    plan: MemoryPlan
    dims: Mapping[str, int]
    bytes: Mapping[int, int] = field(init=False)
    """The size of each value."""
    starts: tuple[int, ...] = field(init=False)
    """Where each place of the arena begins."""

    def __post_init__(self) -> None:
        program = self.plan.program
        for name, symbol in program.symbols.items():
            if name in self.dims:
                check_bounds(symbol, self.dims[name])
        known: dict[Dim, int] = {}
        for value in program.values:
            if value.bytes not in known:
                known[value.bytes] = self._size(value)
        object.__setattr__(self, "bytes", {v.id: known[v.bytes] for v in program.values})
        object.__setattr__(self, "starts", tuple(self.plan.layout.offsets(self.sizes)))

    def _size(self, value: MemoryValue) -> int:
        size = evaluate(value.bytes, self.dims)
        if size < 0:
            bound = ", ".join(f"{s.name} = {self.dims[s.name]}" for s in symbols(value.bytes))
            text = f", which is {size} with {bound}" if bound else ""
            raise DimError(
                f"memory plan: {value} has {value.bytes} bytes{text}",
                hint="a size cannot be negative; declare bounds with dim(name, low, high)",
            )
        return size

    @cached_property
    def sizes(self) -> Sequence[int]:
        """The bytes that each place takes up in the arena, rounded up to the alignment."""
        alignment = self.plan.alignment
        return [_up(self.bytes[place.values[0]], alignment) for place in self.plan.arena]

    @cached_property
    def offsets(self) -> Mapping[int, int]:
        """Where each value in the arena begins, views included."""
        places = self.plan.place_of.items()
        return {id: self.starts[index] for id, index in places if index < len(self.starts)}

    @cached_property
    def arena_bytes(self) -> int:
        """The bytes of the arena."""
        return max(map(sum, zip(self.starts, self.sizes, strict=True)), default=0)

    @cached_property
    def least_bytes(self) -> int:
        """The most bytes that are needed at one step: no arena can be smaller."""
        return most_live(self.plan.spans, self.sizes)

    @cached_property
    def unshared_bytes(self) -> int:
        """The bytes of the temporaries if they did not share any."""
        program = self.plan.program
        own = [id for id in program.born if program.by_id[id].kind == "temporary"]
        return sum(_up(self.bytes[id], self.plan.alignment) for id in own)

    @override
    def rows(self) -> list[Row]:
        return rows_of(self.plan, self)

    @override
    def __str__(self) -> str:
        return table(self.plan, self)

    @override
    def __repr__(self) -> str:
        return f"<BoundPlan: {len(self.plan.places)} values; print(…) shows it>"


def plan(
    values: Iterable[MemoryValue],
    steps: Iterable[MemoryStep],
    *,
    donated: Mapping[int, int] = {},
    in_place: Iterable[tuple[int, int]] = (),
    alignment: int = 64,
) -> MemoryPlan:
    """Return where each value lives.

    `donated` gives inputs by the outputs that are their values in the next run; `in_place` holds
    pairs of a value and one that its step may overwrite, the most wanted first.

    >>> values = [MemoryValue(0, 400, "input"), MemoryValue(1, 400), MemoryValue(2, 400)]
    >>> values += [MemoryValue(3, 400, "output")]
    >>> steps = [MemoryStep((0,), (1,)), MemoryStep((1,), (2,)), MemoryStep((2,), (3,))]
    >>> print(plan(values, steps, in_place=[(2, 1), (1, 0)]))
    memory plan: 3 steps, 4 values
    temporaries: 448 bytes in multiples of 64; 896 if none were reused; 448 are needed at once
    inputs: 400 bytes; outputs: 400 bytes
    value  bytes  kind       steps       place
    %0       400  input      0..2   ███  its own
    %1       400  temporary  0..1   ██·  arena 0
    %2       400  temporary  1..2   ·██  arena 0, in place of %1
    %3       400  output     2..2   ··█  its own
    %1 is not in place of %0: %0 is an input, and not donated
    """
    if alignment < 1:
        raise GraphError(f"memory plan: the alignment is {alignment}, and must be at least 1")
    program = MemoryProgram(
        tuple(values), tuple(MemoryStep(*step) for step in steps), dict(donated)
    )
    chains = _Chains(program)
    asked = chains.in_place(in_place)
    carries = tuple(chains.carry(new, old) for new, old in donated.items())
    places = _places(program, chains.of, alignment)
    proved = MemoryPlan(program, places, asked, carries, alignment)
    check(proved)
    return proved


class _Chains:
    """Which values share a place, one after another."""

    def __init__(self, program: MemoryProgram) -> None:
        self.program = program
        self.of = {id: [id] for id in program.lives}

    def in_place(self, pairs: Iterable[tuple[int, int]]) -> tuple[InPlace, ...]:
        """Decide for each pair whether one value is written over the other."""
        program = self.program
        wanted: list[InPlace] = []
        for value, source in pairs:
            at = program.born.get(value)
            if at is None or source not in program.steps[at].reads:
                pair, source_name = (program.by_id.get(id, f"%{id}") for id in (value, source))
                raise GraphError(
                    f"memory plan: {pair} cannot be in place of {source_name}: no step reads the "
                    "one and writes the other",
                    hint="in_place pairs what a step writes with what it reads",
                )
            wanted.append(InPlace(value, source, at))
        # A donated value stays where the next run looks for it, if possible.
        wanted.sort(key=lambda pair: (pair.step, program.donated.get(pair.value) != pair.source))
        decided: list[InPlace] = []
        for pair in wanted:
            why_not = self._refusal(pair)
            if not why_not:
                chain = self.of[program.roots[pair.source]]
                chain.append(pair.value)
                self.of[pair.value] = chain
            decided.append(pair._replace(why_not=why_not))
        return tuple(decided)

    def _refusal(self, pair: InPlace) -> str:
        program, by_id = self.program, self.program.by_id
        value, source, root = by_id[pair.value], by_id[pair.source], program.roots[pair.source]
        chain, whole = self.of[root], by_id[root]
        names = [id for at, id in program.reads[root] if at == pair.step]
        later = next(((at, id) for at, id in program.reads[root] if at > pair.step), None)
        given = by_id[chain[0]] if by_id[chain[0]].kind == "input" else None
        outputs = program.outputs.get(value.id, ())
        if len(self.of[value.id]) > 1:
            return f"{value} is in place of another value already"
        if value.bytes != whole.bytes:
            return f"{value} has {value.bytes} bytes, and {whole} has {whole.bytes}"
        if whole.kind == "constant":
            return f"{whole} is a constant"
        if given is not None and given.id not in program.donated.values():
            return f"{given} is an input, and not donated"
        if later is not None:
            at, id = later
            seen = "" if id == source.id else f" as {by_id[id]}"
            return f"{source} is read by step {at}{seen}, after step {pair.step} writes {value}"
        if root in program.outputs:
            return f"{source} is an output"
        if names != [source.id]:
            return self._read_elsewhere(pair, names)
        if chain[-1] != root:
            return f"{by_id[chain[-1]]} is in its place already"
        if given is not None and any(program.donated.get(id) != given.id for id in outputs):
            return f"the place of {given} is for another output"
        return ""

    def _read_elsewhere(self, pair: InPlace, names: list[int]) -> str:
        """Return how a step that would overwrite a value reads it besides that one time."""
        source = self.program.by_id[pair.source]
        if {*names} != {source.id}:
            others = self.program.names(sorted({*names} - {source.id}))
            return f"step {pair.step} reads {source} as {others} too"
        return f"step {pair.step} reads {source} in {len(names)} places"

    def carry(self, output: int, given: int) -> Carry:
        """Let an output end in the place of the input that it becomes, if nothing prevents it."""
        program, by_id = self.program, self.program.by_id
        new, old = self.of[program.roots[output]], self.of[given]
        if new is old:
            return Carry(output, given)
        begins = program.born[new[0]]
        last, id = max(
            use
            for value in old
            for use in [(program.born.get(value, -1), value), *program.reads.get(value, ())]
        )
        if last >= begins:
            return Carry(
                output,
                given,
                f"step {last} needs {by_id[id]}, and step {begins} writes {by_id[new[0]]}",
            )
        old += new
        self.of.update((id, old) for id in new)
        return Carry(output, given)


def _places(
    program: MemoryProgram, chains: Mapping[int, list[int]], alignment: int
) -> tuple[MemoryPlace, ...]:
    """Return a place for each chain, those of the arena in the order of a good layout."""
    own: list[MemoryPlace] = []
    arena: list[MemoryPlace] = []
    for chain in {id(chain): chain for chain in chains.values()}.values():
        first = program.by_id[chain[0]]
        kind: PlaceKind = "arena"
        if first.kind in ("input", "constant"):
            kind = first.kind
        elif any(id in program.outputs for id in chain):
            kind = "output"
        (arena if kind == "arena" else own).append(MemoryPlace(kind, first.bytes, tuple(chain)))
    spans = [_whole([program.lives[id] for id in place.values]) for place in arena]
    layout = arrange(spans, _samples(program, arena, alignment))
    rank = {index: at for at, index in enumerate(layout.order)}
    for index in layout.order:
        below = tuple(sorted(rank[other] for other in layout.below[index]))
        own.append(MemoryPlace("arena", arena[index].bytes, arena[index].values, below))
    count = len(own) - len(arena)
    return (*own[count:], *own[:count])


def _samples(
    program: MemoryProgram, arena: Sequence[MemoryPlace], alignment: int
) -> list[list[int]]:
    """Return sizes of the arena's places for large, middle and small dims."""
    samples: list[list[int]] = []
    for part in (2, 1, 0) if program.symbols else (2,):
        dims = {name: _sizes(symbol)[part] for name, symbol in program.symbols.items()}
        known = {place.bytes: 0 for place in arena}
        known = {dim: _up(max(evaluate(dim, dims), 0), alignment) for dim in known}
        samples.append([known[place.bytes] for place in arena])
    return samples


def _sizes(dim: Symbol) -> tuple[int, int, int]:
    """Return a small, a middle and a large size that a dim may have."""
    low = -(-dim.low // dim.multiple_of)
    high = dim.high if isinstance(dim.high, int) else max(UNBOUNDED, dim.low)
    high = max(high // dim.multiple_of, low)
    low, middle, high = (k * dim.multiple_of for k in (low, isqrt(max(low, 1) * high), high))
    return low, middle, high


def _whole(spans: Sequence[LifeSpan]) -> LifeSpan:
    return LifeSpan(min(span.first for span in spans), max(span.last for span in spans))


def _up(size: int, alignment: int) -> int:
    return -(-size // alignment) * alignment


def rounded(size: Dim, alignment: int) -> Dim:
    """Return a size rounded up to a multiple of the alignment."""
    return (size + (alignment - 1)) // alignment * alignment

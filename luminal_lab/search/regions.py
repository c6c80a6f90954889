"""Regions: the parts of a graph of kernels searched as a whole, and the forms each may have.

    matmul → softmax → matmul       apart; the first two as one kernel, the last two, all three;
                                    and each kernel as it is written, or by rules

A region is a kernel, or a few kernels whose results only the next ones read. The first of its forms
is what a compile without a search makes of it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import inf

from luminal_lab.algebra.one_pass import one_pass
from luminal_lab.algebra.rules import RULES
from luminal_lab.algebra.rules.rule import Rule, Rules
from luminal_lab.core.ir import IR
from luminal_lab.core.op import Reduce
from luminal_lab.core.ops import SumReduce
from luminal_lab.core.printer import unique
from luminal_lab.errors import LabError, ParseError
from luminal_lab.kernels.definition.define import define
from luminal_lab.kernels.definition.definition import Definition
from luminal_lab.kernels.definition.programs import nameless
from luminal_lab.kernels.definition.terms import Fold, Read, free, walk
from luminal_lab.kernels.definition.text import parse_definition
from luminal_lab.kernels.fuse.chains import (
    Chain,
    body_of,
    chains,
    is_cascade,
    merged,
    places,
    results_of,
    sources_of,
    wiring,
)
from luminal_lab.kernels.memory.aliasing import same_bytes
from luminal_lab.search.forms import Form, FormStage, alone
from luminal_lab.search.program import Program, judged_programs
from luminal_lab.search.space import space_of

MOST_FORMS = 6
"""At most this many forms of a region are tried, the first ones."""
FAR = 0.5
"""Sums become one region for the sake of their order if another order costs this much less."""
MOST_FOLDS = 6
"""Definitions with more folds are not given to the rules, which would take too long."""


@dataclass(frozen=True)
class SearchRegion:
    """What is searched as a whole."""

    definition: Definition
    """What it computes, as it is written."""
    forms: tuple[Form, ...]
    programs: Mapping[str, Program] = field(default_factory=dict[str, Program])
    """What rules made of its kernels, by the texts of their definitions."""
    refused: tuple[Program, ...] = ()
    """What rules made of them that is less exact than what is written."""
    rules: Rules = RULES
    """The rules that were tried."""


@dataclass(frozen=True)
class Found:
    """What rules have found for a definition."""

    program: Program | None = None
    refused: tuple[Program, ...] = ()
    """Cheaper programs that are less exact than what is written."""

    @property
    def cost(self) -> float:
        """What the program costs by the model."""
        return inf if self.program is None else self.program.cost


@dataclass(frozen=True)
class _Kernel:
    """One kernel of a tiling: the calls in it, as written and by rules."""

    calls: Chain
    written: Definition
    found: Found

    @property
    def program(self) -> Program | None:
        """What rules have made of it."""
        return self.found.program


class SearchRegions:
    """The regions of a graph of kernels in which no chain has become one kernel yet."""

    def __init__(
        self,
        ir: IR,
        kept: Collection[str] = (),
        computed: Callable[[Definition], Definition] = one_pass,
        *,
        singly: bool = False,
        rules: Rules = RULES,
    ) -> None:
        self.ir = ir
        self.kept = kept
        """The texts, without names, of what is computed by kernels that stay as they are."""
        self.computed = computed
        """Returns a definition as a kernel computes it."""
        self.singly = singly
        """Whether each kernel is a region of its own, with one form."""
        self.rules = rules
        self.live = places(ir)
        self._defined: dict[IR, Definition] = {}
        self._programs: dict[str, Found] = {}
        self._wanted: dict[object, bool] = {}
        self._wholes: dict[object, Definition] = {}

    def __iter__(self) -> Iterator[tuple[Chain, Definition]]:
        """Yield the calls of each region, and what they compute."""
        for chain in self.chains:
            definition = self._whole(chain)
            if same_bytes(definition) is None:
                yield chain, definition

    @cached_property
    def chains(self) -> tuple[Chain, ...]:
        """The calls of each region, sources first; each call is in one region."""
        calls = [node for node in self.ir.nodes if node.id in self.live and node.op.body_of()]
        ending = {last.id: (*chains(self.ir, last, self.live), (last,)) for last in calls}
        taken: set[int] = set()
        regions: list[Chain] = []
        wanted = (is_cascade, self._is_row_by_row, self._is_regrouped, _is_single)
        for is_wanted in wanted[-1:] if self.singly else wanted:
            for last in reversed(calls):
                for chain in ending[last.id]:
                    is_open = taken.isdisjoint(call.id for call in chain)
                    if is_open and self._is_wanted(chain, is_wanted):
                        taken |= {call.id for call in chain}
                        regions.append(chain)
        order = {call.id: at for at, call in enumerate(calls)}
        return tuple(sorted(regions, key=lambda chain: order[chain[-1].id]))

    def _is_wanted(self, chain: Chain, is_wanted: Callable[[Chain], bool]) -> bool:
        """Return whether a chain, and every chain that computes the same, should be a region."""
        key = is_wanted, wiring(self.ir, chain)
        if key not in self._wanted:
            is_whole = self.singly or not self._is_kept(chain)
            self._wanted[key] = is_wanted(chain) and is_whole
        return self._wanted[key]

    def _whole(self, chain: Chain) -> Definition:
        """Return what a chain computes."""
        key = wiring(self.ir, chain)
        if key not in self._wholes:
            self._wholes[key] = self.defined(merged(self.ir, chain))
        return self._wholes[key]

    def defined(self, body: IR) -> Definition:
        """Return what a body computes."""
        if body not in self._defined:
            self._defined[body] = define(body)
        return self._defined[body]

    def _is_kept(self, chain: Chain) -> bool:
        """Return whether a chain has a kernel that must stay as it is."""
        alone = [self.defined(body_of(call)) for call in chain if len(chain) > 1]
        return any(nameless(self.computed(definition)) in self.kept for definition in alone)

    def _is_row_by_row(self, chain: Chain) -> bool:
        """Return whether a row of the result needs only one row of each kernel."""
        if len(chain) == 1:
            return False
        results = {id for call in chain[:-1] for id in results_of(self.ir, call)}
        for call in chain:
            definition = self.defined(body_of(call))
            inner = {
                buffer.name
                for buffer, id in zip(definition.inputs, call.sources, strict=True)
                if id in results
            }
            for line in definition.lines:
                for part in walk(line.term):
                    if isinstance(part, Read) and part.buffer in inner:
                        own = free(part)
                        if any(axis.name not in own for axis in line.axes[:-1]):
                            return False
        return True

    def _is_regrouped(self, chain: Chain) -> bool:
        """Return whether two sums, one over the other, cost far less in another order."""
        if len(chain) != 2 or not all(_is_sum(body_of(call)) for call in chain):
            return False
        written = self._whole(chain)
        far = FAR * _least_cost(written, ())
        return _least_cost(written, self.rules) < far and self._kernel(chain).found.cost < far

    # -- forms -------------------------------------------------------------------------------------

    def region(self, chain: Chain) -> SearchRegion:
        """Return a region: each way to cut its calls into kernels, as written and by rules."""
        whole = self._whole(chain)
        if self.singly:
            return SearchRegion(whole, (alone(self.computed(whole)),))
        tilings = [*self._tilings(chain)]
        is_one = is_cascade(chain) and one_pass(whole) is not whole
        tilings.sort(key=lambda tiling: (len(tiling) == 1) != is_one)
        kernels = {calls: self._kernel(calls) for tiling in tilings for calls in tiling}
        apart = {
            nameless(kernel.written): None for kernel in kernels.values() if len(kernel.calls) > 1
        }
        forms: list[Form] = []
        for number, tiling in enumerate(tilings):
            tiles = [kernels[calls] for calls in tiling]
            forms.append(self._form(chain, tiles, apart if number else {}, by_rules=False))
            if any(tile.program for tile in tiles):
                forms.append(self._form(chain, tiles, apart, by_rules=True))
        forms = [form for form in forms if all(map(reads_back, form.definitions))]
        by_rules = [kernel.program for kernel in kernels.values() if kernel.program is not None]
        programs = {nameless(program.definition): program for program in by_rules}
        refused = [program for kernel in kernels.values() for program in kernel.found.refused]
        return SearchRegion(whole, tuple(forms[:MOST_FORMS]), programs, tuple(refused), self.rules)

    def _tilings(self, chain: Chain) -> Iterator[tuple[Chain, ...]]:
        """Yield the ways to cut calls, in order, into chains."""
        if not chain:
            yield ()
        for size in range(1, len(chain) + 1):
            first = chain[:size]
            if size == 1 or first in chains(self.ir, first[-1], self.live):
                for rest in self._tilings(chain[size:]):
                    yield (first, *rest)

    def _kernel(self, calls: Chain) -> _Kernel:
        written = self._whole(calls)
        key = nameless(written)
        if key not in self._programs:
            self._programs[key] = found_by_rules(written, self.rules)
        return _Kernel(calls, written, self._programs[key])

    def _form(
        self,
        chain: Chain,
        kernels: Sequence[_Kernel],
        apart: Mapping[str, None],
        *,
        by_rules: bool,
    ) -> Form:
        inputs = [source.id for source in sources_of(self.ir, chain)]
        inner = outside = len(inputs) + len(chain[-1].types)
        number = {id: at for at, id in enumerate(inputs)}
        stages: list[FormStage] = []
        programs: dict[str, str | None] = {**apart}
        names: set[str] = set()
        for kernel in kernels:
            last, written = kernel.calls[-1], kernel.written
            program = kernel.program if by_rules else None
            definition = program.definition if program else self.computed(written)
            definition = replace(definition, name=unique(written.name, names))
            names.add(definition.name)
            read = [source.id for source in sources_of(self.ir, kernel.calls)]
            results = range(len(inputs), outside)
            if last is not chain[-1]:
                results = range(inner, inner + len(last.types))
                inner = results.stop
                number |= {id: results[at] for id, at in results_of(self.ir, last).items()}
            stages.append(FormStage(str(definition), (*(number[id] for id in read), *results)))
            if program or (len(kernel.calls) > 1 and apart):
                programs[nameless(written)] = str(definition)
        name = " + ".join(stage.definition.name for stage in stages) + ", by rules" * by_rules
        return Form(name, outside, tuple(stages), tuple(programs.items()))


def _is_single(chain: Chain) -> bool:
    return len(chain) == 1


def _is_sum(body: IR) -> bool:
    """Return whether a kernel has one sum and no other reduction."""
    return [type(node.op) for node in body if isinstance(node.op, Reduce)] == [SumReduce]


def _least_cost(written: Definition, rules: Iterable[Rule]) -> float:
    """Return what the cheapest program costs by the model, right or not."""
    try:
        return min((pick.cost for pick in space_of(written, rules).programs(1)), default=inf)
    except (LabError, ValueError):  # rules cannot read it: it may draw random numbers
        return inf


def found_by_rules(written: Definition, rules: Rules = RULES) -> Found:
    """Return what rules make of a definition; nothing if that is what is written, or too much.

    Rules make nothing of what they cannot read, such as random numbers.
    """
    folds = sum(isinstance(part, Fold) for line in written.lines for part in walk(line.term))
    if not 1 < folds <= MOST_FOLDS:
        return Found()
    try:
        *refused, program = judged_programs(space_of(written, rules))
        known = {nameless(written), nameless(one_pass(written))}
        is_new = nameless(program.definition) not in known
    except (LabError, ValueError):
        return Found()
    if program.is_refused:
        return Found(None, (*refused, program))
    return Found(program if is_new else None, tuple(refused))


def reads_back(definition: Definition) -> bool:
    """Return whether a definition is the same after being read back from its text."""
    try:
        return str(parse_definition(str(definition))) == str(definition)
    except ParseError:
        return False

"""Whether passes keep values: both graphs are interpreted on drawn inputs; bisection finds why.

Inputs on which a fact does not hold that the licence grants accuse nobody: they are left out. What
inputs do not show, a rule that has fired may show by itself: each is tried as by `counterexample`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from luminal_lab.core.dtypes import Array, DType
from luminal_lab.core.interpret import Altered, Environment, interpret
from luminal_lab.core.ir import IR, Node
from luminal_lab.core.op import tuple_text
from luminal_lab.core.ops import Input
from luminal_lab.core.origin import warn
from luminal_lab.core.printer import print_node
from luminal_lab.errors import LabError, PassError, RangeError, TrustError, is_circumstance
from luminal_lab.passes.base import Pass
from luminal_lab.passes.draws import ASTRAY, Drawn, Given, draws, within
from luminal_lab.passes.judge import (
    TOLERANCE,
    Bools,
    Freedom,
    Readings,
    broken_facts,
    differences,
    unexplained,
)
from luminal_lab.passes.proof import Counterexample, examine
from luminal_lab.passes.rule import FACTS, Rule
from luminal_lab.passes.snapshot import Firing, Snapshot

if TYPE_CHECKING:
    from luminal_lab.passes.compilation import Compilation

MOST_RULES = 1_000
"""How many rules are remembered that were put to the test."""


@dataclass(frozen=True)
class Draw:
    """Inputs for one run, and what the graph as written makes of them."""

    kind: str
    data: Mapping[int, Array]
    dims: Mapping[str, int]
    values: tuple[Array, ...]
    """The outputs."""
    broken: frozenset[str]
    """The facts that do not hold of these values, or of those on the way to them."""
    others: dict[Freedom, Readings] = field(default_factory=dict[Freedom, Readings])
    """The outputs in other readings of the graph."""

    @property
    def scaled(self) -> bool:
        """Whether values are of one size, so that small ones are what is left of larger ones."""
        return self.kind in ("normal", "positive", "long")


class Checker:
    """The inputs drawn for a graph, on which every later version must give the same outputs."""

    def __init__(self, ir: IR, given: Given) -> None:
        self.given = given
        self.ir = ir
        """The graph whose values later ones must have."""
        self.facts: frozenset[str] = frozenset()
        """What the licences of the passes so far have granted."""
        self.draws: list[Draw] = []
        self.refused: list[Drawn] = []
        """Inputs with an index that is no position, which a device has to refuse, too."""
        failure: Exception | None = None
        for one in draws(ir, given):
            found = self._drawn(ir, one)
            if isinstance(found, Draw):
                self.draws.append(found)
            elif one.kind in ASTRAY and isinstance(found, RangeError):
                self.refused.append(one)
            else:
                failure = failure or found
        if not self.draws:
            for one in draws(ir, given, careful=True):
                found = self._drawn(ir, one)
                self.draws += [found] if isinstance(found, Draw) else []
        if not self.draws:
            why = failure.message if isinstance(failure, LabError) else str(failure)
            raise PassError(
                f"check: no inputs could be drawn for {ir.name}: {why}",
                hint="give the inputs data with set(...): the check uses it",
            ) from failure

    def _drawn(self, ir: IR, one: Drawn) -> Draw | Exception:
        """Return a draw, or why the interpreter, or a function of the user's, refuses it."""
        try:
            values, broken = self._outputs(ir, one.data, one.dims)
        except Exception as error:
            if is_circumstance(error):
                raise
            return error
        return Draw(one.kind, one.data, one.dims, values, broken)

    def _outputs(
        self, ir: IR, data: Mapping[int, Array], dims: Mapping[str, int]
    ) -> tuple[tuple[Array, ...], frozenset[str]]:
        """Return the outputs, and the facts that do not hold of them or on the way to them."""
        broken = set[str]()

        def looked_at(node: Node, value: Array, sources: Iterable[Array | None]) -> Array:
            broken.update(broken_facts(node, value, [*sources]))
            return value

        found = self._values(ir, data, dims, ir.output_ids, looked_at)
        return tuple(found[id] for id in ir.output_ids), frozenset(broken)

    def _values(
        self,
        ir: IR,
        data: Mapping[int, Array],
        dims: Mapping[str, int],
        wanted: tuple[int, ...],
        altered: Altered | None = None,
    ) -> dict[int, Array]:
        environment = self._environment(data, dims)._replace(altered=altered)
        return interpret(ir, environment, wanted=wanted)

    def _environment(self, data: Mapping[int, Array], dims: Mapping[str, int]) -> Environment:
        def data_of(node: Node) -> Array:
            return data[node.id]

        return Environment(data_of, dims, 0, self.given.functions)

    # -- one pass ----------------------------------------------------------------------------------

    def judges(self, by: Pass, licence: Iterable[str]) -> bool:
        """Return whether anything was drawn on which all facts hold that are granted; say if not.

        What is granted to a pass is granted to all that is compared later: its work is in there.
        """
        self.facts |= {*licence, *(["reassociate"] if by.rounds_otherwise else [])}
        if any(not draw.broken & self.facts for draw in self.draws):
            return True
        broken = [fact for fact in FACTS if all(fact in draw.broken for draw in self.draws)]
        facts = " and ".join(FACTS[fact] for fact in broken or sorted(self.facts & FACTS.keys()))
        warn(
            f"check: the licence grants that {facts}, which holds for none of the "
            f"{len(self.draws)} inputs drawn: values are not compared"
        )
        return False

    def check(self, snapshot: Snapshot, by: Pass) -> None:
        """Raise a PassError that names the first wrong firing, if the pass has changed values."""
        for draw in self.draws:
            if not draw.broken & self.facts and self._differs(snapshot.ir, draw):
                number = self._first_wrong(snapshot, draw)
                raise self._report(snapshot, number, draw, by)
        self._prove(snapshot, by)

    def begin_anew(self, ir: IR) -> None:
        """Compare from here on with what a graph computes whose values were rounded on purpose."""
        self.ir = ir
        anew: list[Draw] = []
        for draw in self.draws:
            values, broken = self._outputs(ir, draw.data, draw.dims)
            anew.append(replace(draw, values=values, broken=broken, others={}))
        self.draws = anew

    def _prove(self, snapshot: Snapshot, by: Pass) -> None:
        """Raise if a rule that has fired is wrong, though no draw shows it here."""
        rules = {rule.name: rule for rule in by.rules() if isinstance(rule, Rule)}
        held = {node.dtype for ir in (self.ir, snapshot.ir) for node in ir}
        dtypes = tuple(dtype for dtype in DType if dtype in held)
        for number, firing in enumerate(snapshot.firings):
            rule = rules.pop(firing.rule, None)
            wrong = None if rule is None else _counterexample(rule, dtypes)
            if wrong is None:
                continue
            shown = str(wrong).partition("\n")[2]
            raise PassError(
                f"pass {by}: the rule {firing.rule!r} {shown}; it has fired (firing {number + 1} "
                f"of {len(snapshot.firings)}), though no inputs drawn for this graph show it",
                where=_where(snapshot.steps()[number], firing),
                hint=f"the rule is {rule}",
            )

    # -- what a device computes --------------------------------------------------------------------

    def check_device(self, compiled: Compilation) -> None:
        """Raise a PassError that names the first wrong kernel, if a device gives other values."""
        facts = self.facts | compiled.licence
        freedom = Freedom("no_signed_zero" in facts, functions=True, contract="contract" in facts)
        for draw in self.draws:
            self._check_on_device(compiled, draw, freedom)
        for one in self.refused:
            self._check_refused(compiled, one, freedom)

    def _check_refused(self, compiled: Compilation, one: Drawn, freedom: Freedom) -> None:
        """Raise a PassError if a device takes an index that the interpreter refuses."""
        for id in dict.fromkeys(compiled.ir.output_ids):  # one may refuse it, and another not
            try:
                self._values(compiled.ir, one.data, one.dims, (id,))
            except RangeError as error:
                refusal = error
            else:
                continue  # what was to be indexed is not needed for it
            try:
                ways = self._on_device(compiled, one, (id,))
            except PassError as error:
                if isinstance(error.__cause__, RangeError):
                    continue
                raise
            if self._is_unneeded(compiled.ir, one, id, ways, freedom):
                continue
            told = PassError(
                f"pass {_device(compiled)}: what it compiled takes an index that is out of range: "
                f"{refusal.message}",
                where=refusal.where,
                hint="NumPy's interpreter refuses the same inputs; error.inputs has them",
            )
            told.inputs = {node.name: one.data[node.id] for node in compiled.ir.inputs}
            raise told

    def _is_unneeded(
        self,
        ir: IR,
        one: Drawn,
        id: int,
        ways: Sequence[Mapping[int, Array]],
        freedom: Freedom,
    ) -> bool:
        """Return whether an output is what any other index would make it, so that none is read."""
        for other in within(ir, one):
            judge = _DeviceJudge(
                ir, self._environment(other.data, other.dims), freedom, scaled=True
            )
            try:
                if any(judge.first_wrong([id], found, {}) is not None for found in ways):
                    return False
            except LabError as error:
                if is_circumstance(error):
                    raise
                return False
        return True

    def _check_on_device(self, compiled: Compilation, draw: Draw, freedom: Freedom) -> None:
        ir = compiled.ir
        judge = _DeviceJudge(ir, self._environment(draw.data, draw.dims), freedom, draw.scaled)
        asked = dict.fromkeys(ir.output_ids)
        ways = self._on_device(compiled, draw, asked)
        if all(judge.first_wrong(asked, found, {}) is None for found in ways):
            return
        # With all that is launched asked for, each kernel is held to what it was given itself.
        launched = [node for node in ir.nodes if node.op.body_of() is not None]
        made = {user.id: n for n in launched if n.extra for user in ir.users(n)}
        made |= {n.id: n for n in launched if not n.extra}
        needed = ir.ancestors(asked)
        order = [node.id for node in ir.nodes if node.id in made and node.id in needed]
        wanted = dict.fromkeys(order) | asked
        again = self._on_device(compiled, draw, wanted)
        for later in again:
            for id in wanted:
                call = made.get(id, ir[id])
                known = {source: later[source] for source in call.sources if source in later}
                wrong = judge.first_wrong([id], later, known)
                if wrong is not None:
                    raise self._wrong_kernel(compiled, draw, call, ir[id], *wrong)
        # All kernels are right by themselves; what is wrong is what one was given that others made.
        for later, found in zip(again, ways, strict=True):
            for id in asked:
                wrong = judge.first_apart(id, later[id], found[id])
                if wrong is not None:
                    raise self._wrong_kernel(compiled, draw, made.get(id, ir[id]), ir[id], *wrong)

    def _on_device(
        self, compiled: Compilation, draw: Draw | Drawn, wanted: Iterable[int]
    ) -> Sequence[dict[int, Array]]:
        """Return what the device computes, by each way in which it tries its kernels."""

        environment = self._environment(draw.data, draw.dims)
        try:
            return compiled.tried(environment, set(wanted))
        except TrustError:  # nothing was run, so that nothing is wrong
            raise
        except LabError as error:
            if is_circumstance(error):
                raise
            raise PassError(
                f"pass {_device(compiled)}: what it compiled fails on drawn inputs: "
                f"{error.message}",
                where=error.where,
                hint="NumPy's interpreter computes the same graph on them; error.inputs has them",
            ) from error

    def _wrong_kernel(
        self,
        compiled: Compilation,
        draw: Draw,
        node: Node,
        value: Node,
        place: tuple[int, ...],
        right: object,
        found: object,
    ) -> PassError:
        body = node.op.body_of()
        kernel = node.op.name if body is None else body.name
        for launch in getattr(compiled.runner, "launches", ()):
            kernel = launch.kernel.name if launch.node == node.id else kernel
        at = f" at {tuple_text(place)}" if place else ""
        inputs = {one.name: draw.data[one.id] for one in compiled.ir.inputs}
        shown = ", ".join(f"%{name} = {_text(array)}" for name, array in inputs.items())
        where = print_node(compiled.ir, node)
        where += "".join(f"\n{line}" for line in compiled.trace(node).lines)
        error = PassError(
            f"pass {_device(compiled)}: the kernel {kernel} computes another value than its graph "
            f"says: {value} is {right!s}{at}, but the kernel makes it {found!s}; the "
            f"inputs were {shown or 'none'}",
            where=where,
            hint=f"error.inputs has the inputs; without check= print(cx.kernels[{kernel!r}]) shows "
            "the kernel's source",
        )
        error.inputs = inputs
        return error

    # -- comparing ---------------------------------------------------------------------------------

    def _differs(self, ir: IR, draw: Draw) -> bool:
        try:
            values, broken = self._outputs(ir, draw.data, draw.dims)
        except LabError as error:
            if is_circumstance(error):
                raise
            return True
        if broken & self.facts:
            return False
        ids = self.ir.output_ids
        for place, (right, found) in enumerate(zip(draw.values, values, strict=True)):
            wrong = self._differences(right, found)
            if unexplained(wrong, right, found, self._others(draw).of(ids[place])).any():
                return True
        return False

    @property
    def _freedom(self) -> Freedom:
        return Freedom("no_signed_zero" in self.facts, "reassociate" in self.facts)

    def _differences(self, right: Array, found: Array) -> Bools:
        """Return where values are not the same, bit by bit but for what the licence leaves open."""
        return differences(right, found, exact=True, signs=not self._freedom.signs)

    def _others(self, draw: Draw) -> Readings:
        """Return the outputs of the graph in other readings of it."""
        freedom = self._freedom
        if freedom not in draw.others:
            environment = self._environment(draw.data, draw.dims)
            draw.others[freedom] = Readings(self.ir, environment, self.ir.output_ids, freedom)
        return draw.others[freedom]

    def _first_wrong(self, snapshot: Snapshot, draw: Draw) -> int:
        """Return a firing before which the values are right and after which they are not."""
        steps = snapshot.steps()
        right, wrong = 0, len(steps) - 1
        while wrong - right > 1:
            middle = (right + wrong) // 2
            if self._differs(steps[middle], draw):
                wrong = middle
            else:
                right = middle
        return right

    def _report(self, snapshot: Snapshot, number: int, draw: Draw, by: Pass) -> PassError:
        steps = snapshot.steps()
        firing, count = snapshot.firings[number], len(snapshot.firings)
        before, after = steps[number], steps[number + 1]
        inputs = {node.name: draw.data[node.id] for node in before.inputs if node.id in draw.data}
        told = self._difference(firing, before, after, draw)
        rule = next((r for r in by.rules() if isinstance(r, Rule) and r.name == firing.rule), None)
        shown = ", ".join(f"%{name} = {_text(value)}" for name, value in inputs.items())
        error = PassError(
            f"pass {by}: the rule {firing.rule!r} changes what the graph computes (firing "
            f"{number + 1} of {count}): {told}; the inputs were {shown or 'none'}",
            where=_where(before, firing),
            hint=f"the rule is {rule}" if rule else "error.inputs has the inputs that show it",
        )
        error.inputs = inputs
        return error

    def _difference(self, firing: Firing, before: IR, after: IR, draw: Draw) -> str:
        """Return where and how the values of what a firing replaced differ."""
        pairs = [(c.node, c.into) for c in firing.changes if c.into is not None]
        pairs += list(zip(before.output_ids, after.output_ids, strict=True))
        for old, new in pairs:
            if before.table.get(old) is None or after.table.get(new) is None:
                continue
            try:
                one = self._values(before, draw.data, draw.dims, (old,))[old]
                other = self._values(after, draw.data, draw.dims, (new,))[new]
            except LabError as error:
                if is_circumstance(error):
                    raise
                return f"{after[new]} cannot be computed: {error.message}"
            apart = self._differences(one, other)
            if apart.any():
                environment = self._environment(draw.data, draw.dims)
                others = Readings(before, environment, [old], self._freedom)
                apart = unexplained(apart, one, other, others.of(old))
            wrong = np.argwhere(apart)
            if len(wrong):
                place = tuple(int(k) for k in wrong[0])
                at = f" at {tuple_text(place)}" if place else ""
                return (
                    f"{before[old]} is {one[place]!s}{at}, but {after[new]}, which takes its "
                    f"place, is {other[place]!s}"
                )
        return "the outputs differ"


@lru_cache(MOST_RULES)
def _counterexample(rule: Rule, dtypes: tuple[DType, ...]) -> Counterexample | None:
    """Put a rule to the test, once for the dtypes of a graph."""
    return examine(rule, dtypes).wrong


def _where(before: IR, firing: Firing) -> str | None:
    """Return the line of what a firing replaced, and the user's."""
    if not firing.before:
        return None
    old = firing.before[0]
    return print_node(before, old) + (f"\n{old.meta.origin}" if old.meta.origin else "")


class _DeviceJudge:
    """Compares what a device makes of a graph with the interpreter, on one draw."""

    def __init__(self, ir: IR, environment: Environment, freedom: Freedom, scaled: bool) -> None:
        self.ir = ir
        self.environment = environment
        self.freedom = freedom
        self.scaled = scaled

    def first_wrong(
        self, ids: Iterable[int], found: Mapping[int, Array], known: Mapping[int, Array]
    ) -> Difference | None:
        """Return the first wrong value of some nodes, if some that they read are known."""
        asked = list(ids)
        right = interpret(self.ir, self.environment, wanted=asked, known=known)
        apart = {id: self._apart(id, right[id], found[id], known) for id in asked}
        if any(one.any() for one in apart.values()):
            others = Readings(self.ir, self.environment, asked, self.freedom, known)
            for id, one in apart.items():
                left = unexplained(one, right[id], found[id], others.of(id))
                if left.any():
                    return _first(left, right[id], found[id])
        return None

    def first_apart(self, id: int, right: Array, found: Array) -> Difference | None:
        """Return where two runs of the same kernels differ."""
        apart = self._apart(id, right, found, {})
        return _first(apart, right, found) if apart.any() else None

    def _apart(self, id: int, right: Array, found: Array, known: Mapping[int, Array]) -> Bools:
        coarse = max((TOLERANCE.get(dtype, 0.0) for dtype in self._rounded(id, known)), default=0.0)
        signs = not self.freedom.signs
        return differences(right, found, scaled=self.scaled, least=coarse, signs=signs)

    def _rounded(self, id: int, known: Mapping[int, Array]) -> Iterator[DType]:
        """Yield the dtypes to which values are rounded on the way to a node from known ones."""
        todo, seen = [id], set[int]()
        while todo:
            node = self.ir[todo.pop()]
            if node.id in seen or isinstance(node.op, Input):
                continue
            seen.add(node.id)
            yield node.dtype
            body = node.op.body_of()
            for one in () if body is None else _all_graphs(body):
                yield from (inner.dtype for inner in one if not isinstance(inner.op, Input))
            todo += (source for source in node.sources if source not in known)


class Difference(NamedTuple):
    """Where a value is wrong, what it should be, and what it is."""

    place: tuple[int, ...]
    right: object
    found: object


def _first(wrong: Bools, right: Array, found: Array) -> Difference:
    place = tuple(int(k) for k in np.argwhere(wrong)[0])
    if right.shape != found.shape or right.dtype != found.dtype:
        types = [f"{one.dtype}{tuple_text(one.shape)}" for one in (right, found)]
        return Difference((), *types)
    return Difference(place, right[place], found[place])


def _device(compiled: Compilation) -> str:
    return ", ".join(map(str, compiled.pipeline.devices()))


def _all_graphs(ir: IR) -> Iterator[IR]:
    """Yield a graph and the bodies of its calls."""
    yield ir
    for node in ir.nodes:
        body = node.op.body_of()
        if body is not None:
            yield from _all_graphs(body)


def _text(value: Array) -> str:
    if value.size > 8:
        return f"{value.dtype}{tuple_text(value.shape)}"
    return np.array2string(value, separator=", ").replace("\n", "")

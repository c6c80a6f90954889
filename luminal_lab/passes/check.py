"""Checks that passes keep values: interpret both graphs on drawn inputs, and bisect to a firing.

Inputs that violate a granted fact prove nothing and are left out. A wrong rule may fire without
changing values on these inputs, so each rule that fired is also tried as by `counterexample`.
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
from luminal_lab.passes.draws import ASTRAY, Given, Sample, draws, within
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
"""The number of tested rules to remember."""


@dataclass(frozen=True)
class Reference:
    """Inputs for one run, and the outputs of the graph as written."""

    kind: str
    data: Mapping[int, Array]
    dims: Mapping[str, int]
    values: tuple[Array, ...]
    """The outputs."""
    broken: frozenset[str]
    """The facts that these outputs, or intermediate values, violate."""
    others: dict[Freedom, Readings] = field(default_factory=dict[Freedom, Readings])
    """The outputs in other readings of the graph."""

    @property
    def scaled(self) -> bool:
        """Whether values are of one magnitude, so that small results come from cancellation."""
        return self.kind in ("normal", "positive", "long")


class Checker:
    """Inputs drawn for a graph, on which every later version must give the same outputs."""

    def __init__(self, ir: IR, given: Given) -> None:
        self.given = given
        self.ir = ir
        """The graph that defines the expected values."""
        self.facts: frozenset[str] = frozenset()
        """The facts granted by the licences of the passes so far."""
        self.draws: list[Reference] = []
        self.refused: list[Sample] = []
        """Inputs with an index out of range, which a device has to refuse, too."""
        failure: Exception | None = None
        for sample in draws(ir, given):
            outcome = self._drawn(ir, sample)
            if isinstance(outcome, Reference):
                self.draws.append(outcome)
            elif sample.kind in ASTRAY and isinstance(outcome, RangeError):
                self.refused.append(sample)
            else:
                failure = failure or outcome
        if not self.draws:
            for sample in draws(ir, given, careful=True):
                outcome = self._drawn(ir, sample)
                self.draws += [outcome] if isinstance(outcome, Reference) else []
        if not self.draws:
            why = failure.message if isinstance(failure, LabError) else str(failure)
            raise PassError(
                f"check: no inputs could be drawn for {ir.name}: {why}",
                hint="give the inputs data with set(...): the check uses it",
            ) from failure

    def _drawn(self, ir: IR, sample: Sample) -> Reference | Exception:
        """Return a sample with its outputs, or the interpreter's or a user function's error."""
        try:
            values, broken = self._outputs(ir, sample.data, sample.dims)
        except Exception as error:
            if is_circumstance(error):
                raise
            return error
        return Reference(sample.kind, sample.data, sample.dims, values, broken)

    def _outputs(
        self, ir: IR, data: Mapping[int, Array], dims: Mapping[str, int]
    ) -> tuple[tuple[Array, ...], frozenset[str]]:
        """Return the outputs, and the facts that they or intermediate values violate."""
        broken = set[str]()

        def looked_at(node: Node, value: Array, sources: Iterable[Array | None]) -> Array:
            broken.update(broken_facts(node, value, [*sources]))
            return value

        values = self._values(ir, data, dims, ir.output_ids, looked_at)
        return tuple(values[id] for id in ir.output_ids), frozenset(broken)

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
        """Return whether some inputs satisfy all granted facts; warn if none do.

        A fact granted to one pass counts for all later comparisons, since its work remains.
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
        """Raise a PassError that names the first wrong firing if the pass has changed values."""
        for draw in self.draws:
            if not draw.broken & self.facts and self._differs(snapshot.ir, draw):
                number = self._first_wrong(snapshot, draw)
                raise self._report(snapshot, number, draw, by)
        self._prove(snapshot, by)

    def begin_anew(self, ir: IR) -> None:
        """Compare from here on with a graph whose values were rounded on purpose."""
        self.ir = ir
        anew: list[Reference] = []
        for draw in self.draws:
            values, broken = self._outputs(ir, draw.data, draw.dims)
            anew.append(replace(draw, values=values, broken=broken, others={}))
        self.draws = anew

    def _prove(self, snapshot: Snapshot, by: Pass) -> None:
        """Raise if a fired rule is wrong, even if no inputs show it here."""
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
        """Raise a PassError that names the first wrong kernel if a device gives other values."""
        facts = self.facts | compiled.licence
        freedom = Freedom("no_signed_zero" in facts, functions=True, contract="contract" in facts)
        for draw in self.draws:
            if not {"no_subnormal"} & facts & draw.broken:
                self._check_on_device(compiled, draw, freedom)
        for sample in self.refused:
            self._check_refused(compiled, sample, freedom)

    def _check_refused(self, compiled: Compilation, sample: Sample, freedom: Freedom) -> None:
        """Raise a PassError if a device accepts an index that the interpreter refuses."""
        for id in dict.fromkeys(compiled.ir.output_ids):  # some outputs may refuse it, others not
            try:
                self._values(compiled.ir, sample.data, sample.dims, (id,))
            except RangeError as error:
                refusal = error
            else:
                continue  # this output does not need the indexed value
            try:
                ways = self._on_device(compiled, sample, (id,))
            except PassError as error:
                if isinstance(error.__cause__, RangeError):
                    continue
                raise
            if self._is_unneeded(compiled.ir, sample, id, ways, freedom):
                continue
            told = PassError(
                f"pass {_device(compiled)}: what it compiled takes an index that is out of range: "
                f"{refusal.message}",
                where=refusal.where,
                hint="NumPy's interpreter refuses the same inputs; error.inputs has them",
            )
            told.inputs = _inputs(compiled.ir, sample)
            raise told

    def _is_unneeded(
        self,
        ir: IR,
        sample: Sample,
        id: int,
        ways: Sequence[Mapping[int, Array]],
        freedom: Freedom,
    ) -> bool:
        """Return whether an output is the same for every index, so that none is read."""
        for valid in within(ir, sample):
            judge = _DeviceJudge(
                ir, self._environment(valid.data, valid.dims), freedom, scaled=True
            )
            try:
                if any(judge.first_wrong([id], values, {}) is not None for values in ways):
                    return False
            except LabError as error:
                if is_circumstance(error):
                    raise
                return False
        return True

    def _check_on_device(self, compiled: Compilation, draw: Reference, freedom: Freedom) -> None:
        ir = compiled.ir
        judge = _DeviceJudge(ir, self._environment(draw.data, draw.dims), freedom, draw.scaled)
        asked = dict.fromkeys(ir.output_ids)
        ways = self._on_device(compiled, draw, asked)
        if all(judge.first_wrong(asked, values, {}) is None for values in ways):
            return
        # With all launched nodes as outputs, each kernel is judged by its own inputs.
        launched = [node for node in ir.nodes if node.op.body_of() is not None]
        launches = {user.id: n for n in launched if n.extra for user in ir.users(n)}
        launches |= {n.id: n for n in launched if not n.extra}
        needed = ir.ancestors(asked)
        order = [node.id for node in ir.nodes if node.id in launches and node.id in needed]
        wanted = dict.fromkeys(order) | asked
        again = self._on_device(compiled, draw, wanted)
        for later in again:
            for id in wanted:
                call = launches.get(id, ir[id])
                known = {source: later[source] for source in call.sources if source in later}
                wrong = judge.first_wrong([id], later, known)
                if wrong is not None:
                    raise self._wrong_kernel(compiled, draw, call, ir[id], *wrong)
        # Each kernel is right by itself, so one received wrong values from others.
        for later, earlier in zip(again, ways, strict=True):
            for id in asked:
                wrong = judge.first_apart(id, later[id], earlier[id])
                if wrong is not None:
                    raise self._wrong_kernel(
                        compiled, draw, launches.get(id, ir[id]), ir[id], *wrong
                    )

    def _on_device(
        self, compiled: Compilation, draw: Reference | Sample, wanted: Iterable[int]
    ) -> Sequence[dict[int, Array]]:
        """Return the device's values, one mapping for each way of running its kernels."""

        environment = self._environment(draw.data, draw.dims)
        try:
            return compiled.tried(environment, set(wanted))
        except TrustError:  # nothing ran, so nothing is wrong
            raise
        except LabError as error:
            if is_circumstance(error):
                raise
            told = PassError(
                f"pass {_device(compiled)}: what it compiled fails on drawn inputs: "
                f"{error.message}",
                where=error.where,
                hint=f"{f'{error.hint}; ' if error.hint else ''}NumPy's interpreter computes the "
                "same graph on them; error.inputs has them",
            )
            told.inputs = _inputs(compiled.ir, draw)
            raise told from error

    def _wrong_kernel(
        self,
        compiled: Compilation,
        draw: Reference,
        node: Node,
        value: Node,
        position: tuple[int, ...],
        right: object,
        wrong: object,
    ) -> PassError:
        body = node.op.body_of()
        kernel = node.op.name if body is None else body.name
        for launch in getattr(compiled.runner, "launches", ()):
            kernel = launch.kernel.name if launch.node == node.id else kernel
        at = f" at {tuple_text(position)}" if position else ""
        inputs = _inputs(compiled.ir, draw)
        shown = ", ".join(f"%{name} = {_text(array)}" for name, array in inputs.items())
        where = print_node(compiled.ir, node)
        where += "".join(f"\n{line}" for line in compiled.trace(node).lines)
        error = PassError(
            f"pass {_device(compiled)}: the kernel {kernel} computes another value than its graph "
            f"says: {value} is {right!s}{at}, but the kernel makes it {wrong!s}; the "
            f"inputs were {shown or 'none'}",
            where=where,
            hint=f"error.inputs has the inputs; without check= print(cx.kernels[{kernel!r}]) shows "
            "the kernel's source",
        )
        error.inputs = inputs
        return error

    # -- comparing ---------------------------------------------------------------------------------

    def _differs(self, ir: IR, draw: Reference) -> bool:
        try:
            values, broken = self._outputs(ir, draw.data, draw.dims)
        except LabError as error:
            if is_circumstance(error):
                raise
            return True
        if broken & self.facts:
            return False
        ids = self.ir.output_ids
        for index, (right, value) in enumerate(zip(draw.values, values, strict=True)):
            wrong = self._differences(right, value)
            if unexplained(wrong, right, value, self._others(draw).of(ids[index])).any():
                return True
        return False

    @property
    def _freedom(self) -> Freedom:
        return Freedom("no_signed_zero" in self.facts, "reassociate" in self.facts)

    def _differences(self, right: Array, value: Array) -> Bools:
        """Return where values differ, bit by bit except for freedoms that the licence grants."""
        return differences(right, value, exact=True, signs=not self._freedom.signs)

    def _others(self, draw: Reference) -> Readings:
        """Return the outputs of the graph in other readings of it."""
        freedom = self._freedom
        if freedom not in draw.others:
            environment = self._environment(draw.data, draw.dims)
            draw.others[freedom] = Readings(self.ir, environment, self.ir.output_ids, freedom)
        return draw.others[freedom]

    def _first_wrong(self, snapshot: Snapshot, draw: Reference) -> int:
        """Return a firing that turns right values into wrong ones."""
        steps = snapshot.steps()
        right, wrong = 0, len(steps) - 1
        while wrong - right > 1:
            middle = (right + wrong) // 2
            if self._differs(steps[middle], draw):
                wrong = middle
            else:
                right = middle
        return right

    def _report(self, snapshot: Snapshot, number: int, draw: Reference, by: Pass) -> PassError:
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
            hint=f"the rule is {rule}"
            if rule
            else "after `except ll.PassError as error`, error.inputs has the inputs that show it",
        )
        error.inputs = inputs
        return error

    def _difference(self, firing: Firing, before: IR, after: IR, draw: Reference) -> str:
        """Return where and how the values of the replaced nodes differ."""
        pairs = [(c.node, c.into) for c in firing.changes if c.into is not None]
        pairs += list(zip(before.output_ids, after.output_ids, strict=True))
        for old, new in pairs:
            if before.table.get(old) is None or after.table.get(new) is None:
                continue
            try:
                earlier = self._values(before, draw.data, draw.dims, (old,))[old]
                other = self._values(after, draw.data, draw.dims, (new,))[new]
            except LabError as error:
                if is_circumstance(error):
                    raise
                return f"{after[new]} cannot be computed: {error.message}"
            apart = self._differences(earlier, other)
            if apart.any():
                environment = self._environment(draw.data, draw.dims)
                others = Readings(before, environment, [old], self._freedom)
                apart = unexplained(apart, earlier, other, others.of(old))
            wrong = np.argwhere(apart)
            if len(wrong):
                position = tuple(int(k) for k in wrong[0])
                at = f" at {tuple_text(position)}" if position else ""
                return (
                    f"{before[old]} is {earlier[position]!s}{at}, but {after[new]}, which "
                    f"takes its place, is {other[position]!s}"
                )
        return "the outputs differ"


@lru_cache(MOST_RULES)
def _counterexample(rule: Rule, dtypes: tuple[DType, ...]) -> Counterexample | None:
    """Test a rule, once for the dtypes of a graph."""
    return examine(rule, dtypes).wrong


def _inputs(ir: IR, draw: Reference | Sample) -> dict[str, Array]:
    """Return the data of a draw by the names of the inputs."""
    return {node.name: draw.data[node.id] for node in ir.inputs}


def _where(before: IR, firing: Firing) -> str | None:
    """Return the line of the replaced node, and the user's line."""
    if not firing.before:
        return None
    old = firing.before[0]
    return print_node(before, old) + (f"\n{old.meta.origin}" if old.meta.origin else "")


class _DeviceJudge:
    """A comparison of a device with the interpreter, on one set of inputs."""

    def __init__(self, ir: IR, environment: Environment, freedom: Freedom, scaled: bool) -> None:
        self.ir = ir
        self.environment = environment
        self.freedom = freedom
        self.scaled = scaled

    def first_wrong(
        self, ids: Iterable[int], values: Mapping[int, Array], known: Mapping[int, Array]
    ) -> Difference | None:
        """Return the first wrong value of some nodes, given known values of others."""
        asked = list(ids)
        right = interpret(self.ir, self.environment, wanted=asked, known=known)
        apart = {id: self._apart(id, right[id], values[id], known) for id in asked}
        if any(marks.any() for marks in apart.values()):
            others = Readings(self.ir, self.environment, asked, self.freedom, known)
            for id, marks in apart.items():
                left = unexplained(marks, right[id], values[id], others.of(id))
                if left.any():
                    return _first(left, right[id], values[id])
        return None

    def first_apart(self, id: int, right: Array, value: Array) -> Difference | None:
        """Return where two runs of the same kernels differ."""
        apart = self._apart(id, right, value, {})
        return _first(apart, right, value) if apart.any() else None

    def _apart(self, id: int, right: Array, value: Array, known: Mapping[int, Array]) -> Bools:
        coarse = max((TOLERANCE.get(dtype, 0.0) for dtype in self._rounded(id, known)), default=0.0)
        signs = not self.freedom.signs
        return differences(right, value, scaled=self.scaled, least=coarse, signs=signs)

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
            for graph in () if body is None else _all_graphs(body):
                yield from (inner.dtype for inner in graph if not isinstance(inner.op, Input))
            todo += (source for source in node.sources if source not in known)


class Difference(NamedTuple):
    """The position of a wrong value, the expected value and the actual one."""

    position: tuple[int, ...]
    right: object
    value: object


def _first(wrong: Bools, right: Array, value: Array) -> Difference:
    position = tuple(int(k) for k in np.argwhere(wrong)[0])
    if right.shape != value.shape or right.dtype != value.dtype:
        types = [f"{array.dtype}{tuple_text(array.shape)}" for array in (right, value)]
        return Difference((), *types)
    return Difference(position, right[position], value[position])


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

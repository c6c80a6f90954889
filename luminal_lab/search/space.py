"""What a search chooses from: the e-graph of a definition, and its programs."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from typing_extensions import override

from luminal_lab.algebra.egraph import EGraph
from luminal_lab.algebra.extract import cheapest, priced, programs, solved
from luminal_lab.algebra.language import ENode, Ratio, Shift
from luminal_lab.algebra.pick import Pick
from luminal_lab.algebra.reading import axes_of, read_definition
from luminal_lab.algebra.rules import RULES
from luminal_lab.algebra.rules.rule import FINITE, Rule, Rules
from luminal_lab.algebra.saturate import Saturation, saturate
from luminal_lab.core.dims import Dim, evaluate
from luminal_lab.core.ir import IR
from luminal_lab.display import DrawnGraph, Examined
from luminal_lab.errors import ArgumentError, GraphError, PassError, expect
from luminal_lab.kernels.definition.define import define
from luminal_lab.kernels.definition.definition import Definition
from luminal_lab.kernels.definition.text import parse_definition
from luminal_lab.passes.compile import compile_ir
from luminal_lab.passes.rule import FACTS
from luminal_lab.search.evaluate import Array, Evaluation, Positions
from luminal_lab.search.explained import class_of, why, why_not
from luminal_lab.search.growth import Growth
from luminal_lab.search.proof import proved
from luminal_lab.tensor.arguments import told_object

Way: TypeAlias = tuple[int, ENode]
"""A class, and one of its nodes."""
ALWAYS = frozenset({"reassociate", "no_signed_zero", "contract"})
"""What every search assumes: sums and products are multisets, and a sum of products has no rounding
but its own."""
LICENCE = ALWAYS | FINITE
NO_DIMS: Mapping[str, int] = {}
NO_SIZES: Mapping[int, int] = {}
PLAIN = "dce, views, simplify, fold, cse, intrinsics, dce"
"""The passes that a graph goes through before search's rules."""
SHOWN = 300
"""Up to this many nodes, a cell that ends in a space shows its picture."""
GIVEN = "give cx.ir, or a definition as parse_definition reads it"


@told_object("space")
@dataclass(frozen=True, repr=False)
class Space(DrawnGraph, Examined):
    """All programs that rules make of a definition.

    >>> import luminal_lab as ll
    >>> cx = ll.Graph()
    >>> y = cx.tensor((4, 8), name="x").softmax(-1).retrieve()
    >>> space = ll.search.space_of(cx.ir)
    >>> space.definition.name
    'main'
    """

    definition: Definition
    egraph: EGraph
    outputs: Mapping[str, int]
    """The number of what was written for each output."""
    report: Saturation
    rules: tuple[Rule, ...]
    """The rules, in the order in which they were tried."""

    @cached_property
    def growth(self) -> Growth:
        """The classes as they were written, and after each round of the rules."""
        return Growth.of(self.definition, self.rules)

    def why(self, term: str) -> str:
        """Return why a class has its nodes: which rule made each, from what.

        A class is given by its name in pictures, by the name of an output, or by the text of a
        node.

        >>> y = cx.tensor((4,), name="x").exp().retrieve()
        >>> space = ll.search.space_of(cx.ir)
        >>> print(space.why("O"))
        c2: depends on i, needs no fold
          exp2(c1)
              as it was written
        """
        return why(self.egraph, self.growth, class_of(self.egraph, self.outputs, term))

    def why_not(self, rule: str, term: str) -> str:
        """Return why a rule made nothing of a class, or what it made.

        >>> y = cx.tensor((4,), name="x").exp().retrieve()
        >>> print(ll.search.space_of(cx.ir).why_not("sum-swap", "O"))
        sum-swap made nothing new of c2.
          sum-swap: sum j: sum k: x → sum k: sum j: x, if no value is NaN and no value is infinite
          It begins with `sum j: …`, and c2 has none: exp2(c1)
        """
        number = class_of(self.egraph, self.outputs, term)
        egraph = EGraph()  # the rule is tried on it
        read_definition(egraph, self.definition)
        saturate(egraph, self.rules)
        known = Rules([*RULES, *self.rules])
        return why_not(egraph, self.growth, known[rule], number)

    @cached_property
    def axes(self) -> dict[str, Dim]:
        """All axes with their sizes: those of outputs, then those of folds."""
        return axes_of(self.egraph, self.definition)

    def values(
        self,
        pick: Pick | None,
        buffers: Mapping[str, npt.NDArray[Any]],
        dims: Mapping[str, int] = NO_DIMS,
        *,
        wide: bool = True,
        most: int | None = None,
    ) -> dict[str, Array]:
        """Return the outputs as a program computes them, or as they were written if there is none.

        >>> import numpy as np
        >>> y = (cx.tensor((3,), name="x") * 2).retrieve()
        >>> space = ll.search.space_of(cx.ir)
        >>> space.values(space.programs()[0], {"x": np.arange(3)})
        {'O': array([0, 2, 4])}
        """
        evaluation = self.evaluation(pick, buffers, dims, wide=wide, most=most)
        numbers = self.outputs if pick is None else pick.outputs
        axes = [*evaluation.axes]
        results: dict[str, Array] = {}
        for line in self.definition.outputs:
            own = {axes.index(axis.name) for axis in line.axes}
            others = tuple(k for k in range(len(axes)) if k not in own)
            value = evaluation.value(numbers[line.name]).squeeze(others)
            shape = [len(evaluation.axes[axis.name]) for axis in line.axes]
            results[line.name] = np.broadcast_to(value, shape)
        return results

    def evaluation(
        self,
        pick: Pick | None,
        buffers: Mapping[str, npt.NDArray[Any]],
        dims: Mapping[str, int] = NO_DIMS,
        *,
        wide: bool = True,
        most: int | None = None,
        sizes: Mapping[int, int] = NO_SIZES,
    ) -> Evaluation:
        """Return the values of classes, at `most` positions of the outputs' axes if it is given.

        Axes of some sizes are as long as `sizes` says; the arrays must fit.

        >>> import numpy as np
        >>> y = (cx.tensor((3,), name="x") * 2).retrieve()
        >>> space = ll.search.space_of(cx.ir)
        >>> space.evaluation(None, {"x": np.arange(3)}).value(space.outputs["O"])
        array([0, 2, 4])
        """
        folded = set[str]().union(*(held.facts.moving for held in self.egraph.classes.values()))
        axes: dict[str, Positions] = {}
        for name, dim in self.axes.items():
            size = evaluate(dim, dims)
            size = sizes.get(size, size)
            count = size if most is None or name in folded else min(size, most)
            axes[name] = np.linspace(0, size - 1, count).astype(np.int64)
        node = self.egraph.entered.__getitem__ if pick is None else pick.node
        return Evaluation(node, buffers, axes, dims, wide)

    def answered(self, number: int) -> ENode:
        """Return the node of a number; for a question about a step, a node that answers it.

        >>> y = (cx.tensor((3,), name="x") * 2).retrieve()
        >>> space = ll.search.space_of(cx.ir)
        >>> space.answered(space.outputs["O"])
        ENode(operator=Product(factor=2.0, dtype=<DType.float32: 'float32'>), children=(0,))
        """
        node = self.egraph.entered[number]
        if isinstance(node.operator, (Ratio, Shift)):
            return self._cheapest.get(self.egraph.find(number), node)
        return node

    @cached_property
    def _cheapest(self) -> dict[int, ENode]:
        return cheapest(priced(self.egraph, solved(self.egraph)))

    @override
    def __str__(self) -> str:
        fired = [f"  {rule} ×{times}" for rule, times in self.report.firings.items() if times]
        stopped = [f"  {rule}: stopped, as it would go on" for rule in self.report.stopped]
        return "\n".join([repr(self)[1:-1], *fired, *stopped, "", str(self.definition)])

    @override
    def _repr_mimebundle_(self, **_: object) -> dict[str, str]:
        """Show a small space as a picture; for a large one, `display()` takes its time."""
        is_small = len(self.egraph) <= SHOWN
        return super()._repr_mimebundle_() if is_small else {"text/plain": str(self)}

    @override
    def __repr__(self) -> str:
        nodes = f"{len(self.egraph)} nodes in {len(self.egraph.classes)} classes"
        return f"<Space of {self.definition.name}: {nodes}>"

    def programs(self, count: int = 8, without: Collection[Way] = ()) -> list[Pick]:
        """Return up to `count` programs, the cheapest first, that avoid some nodes of classes.

        >>> y = cx.tensor((4, 8), name="x").softmax(-1).retrieve()
        >>> space = ll.search.space_of(cx.ir)
        >>> [pick.cost for pick in space.programs(3)]
        [980, 996, 1000]
        """
        return programs(self.egraph, self.outputs, self.axes, count, without)


def space_of(
    written: Definition | IR | str,
    rules: Iterable[Rule] = RULES,
    licence: Collection[str] = LICENCE,
) -> Space:
    """Return what rules make of what was written, assuming no more than a licence grants.

    A graph such as `cx.ir` becomes the definition of all its outputs; a text is read as a
    definition.

    >>> import luminal_lab as ll
    >>> cx = ll.Graph()
    >>> y = cx.tensor((4, 8), name="x").softmax(-1).retrieve()
    >>> space = ll.search.space_of(cx.ir)
    >>> space
    <Space of main: 29 nodes in 21 classes>
    """
    rules = admitted(rules, licence)
    definition = _definition_of(written)
    if not definition.outputs:
        raise GraphError(
            f"search: {definition.name} has no result", hint="results are marked by x.retrieve()"
        )
    egraph = EGraph()
    outputs = read_definition(egraph, definition)
    return Space(definition, egraph, outputs, saturate(egraph, rules), tuple(rules))


def _definition_of(written: Definition | IR | str) -> Definition:
    if isinstance(written, str):
        return parse_definition(written)
    expect(written, Definition | IR, "search: {} is neither a graph nor a definition", GIVEN)
    if isinstance(written, Definition):
        return written
    return define(compile_ir(written, PLAIN).ir, keep=())


def admitted(rules: Iterable[Rule], licence: Collection[str] = LICENCE) -> Rules:
    """Return rules, each with its proof; refuse one that assumes more than a licence grants."""
    given = None if isinstance(rules, str) else rules
    if not isinstance(given, Iterable):
        hint = "ll.search.RULES + [mine] has one more"
        raise ArgumentError(f"search: the rules are {rules!r}", hint=hint)
    rules = [*given]
    for rule in rules:
        expect(rule, Rule, "search: {} is not a rule", "@ll.search.rule(before, after) makes one")
    return Rules(_admitted(rule, licence) for rule in rules)


def _admitted(rule: Rule, licence: Collection[str]) -> Rule:
    """Return a rule with its proof; refuse one that assumes more than a licence grants."""
    beyond = [fact for fact in FACTS if fact in rule.assumes | ALWAYS and fact not in licence]
    if beyond:
        told = " and ".join(FACTS[fact] for fact in beyond)
        raise PassError(
            f"search: rule {rule.name!r} assumes that {told}, which the licence does not grant",
            hint=f"grant it, or leave the rule out: RULES.without({rule.name!r})",
        )
    return rule if rule.is_proved or rule in [*RULES] else proved(rule)

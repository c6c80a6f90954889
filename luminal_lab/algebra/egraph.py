"""An e-graph over elements: classes of equal values, each with all the ways to compute it.

Equal nodes are one node, and nodes with equal parts become equal (congruence). Sums and products
are multisets in normal form, so no rule needs to say that they commute.

Every node keeps the number under which it was entered; the class of a number is the number that
leads it now. The reason why two numbers are equal is kept: a firing of a rule, or equal parts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

import numpy as np

from luminal_lab.algebra.language import (
    Applied,
    ENode,
    First,
    Folded,
    GuardedValue,
    Leaf,
    Looked,
    Online,
    Operator,
    Product,
    Ratio,
    Rise,
    Shift,
    Sum,
    is_known,
)
from luminal_lab.core.dims import Symbol, symbols
from luminal_lab.core.dtypes import DType
from luminal_lab.kernels.definition.terms import Number, free

MOST_NODES = 1_000
"""From this many nodes on, rules that may go on for ever stop, and sums are no longer flattened;
from twice as many on, all rules stop."""
K = TypeVar("K", bound=Operator)
Equal = tuple[int, int]
"""Two numbers of nodes that are in one class."""


class Reason(NamedTuple):
    """Why two numbers are equal: a rule's firing, or, if it has no name, equal parts."""

    rule: str
    first: int
    second: int
    premises: tuple[Equal, ...]
    """What had to be equal for that."""


@dataclass(slots=True)
class ClassFacts:
    """What is known about a class, whichever of its nodes computes it."""

    dtype: DType
    free: frozenset[str]
    """The axes that its value depends on."""
    moving: frozenset[str]
    """The axes along which it cannot be computed without a fold."""
    constant: float | None = None
    whole: frozenset[str] = frozenset()
    """The axes along which only finished folds may be used here."""
    is_solved: bool = True
    """Whether some node of it needs no ratio and no shift."""

    def joined(self, other: ClassFacts) -> ClassFacts:
        """Return what is known about a class that two sets of facts describe."""
        constant = other.constant if self.constant is None else self.constant
        return ClassFacts(
            self.dtype,
            self.free & other.free,
            self.moving & other.moving,
            constant,
            self.whole | other.whole,
            self.is_solved or other.is_solved,
        )


@dataclass(slots=True)
class EClass:
    """The nodes of one value, and the nodes that use it as a part, each in order."""

    facts: ClassFacts
    nodes: dict[ENode, None] = field(default_factory=dict[ENode, None])
    users: dict[ENode, None] = field(default_factory=dict[ENode, None])


class EGraph:
    """Classes of equal nodes."""

    def __init__(self) -> None:
        self.classes: dict[int, EClass] = {}
        self.entered: list[ENode] = []
        """Every node by its number, as it was when it was entered."""
        self.reasons: list[Reason] = []
        """In the order in which they arose."""
        self.premises: dict[Equal, None] = {}
        """The equalities on which the node being built relies so far."""
        self._leader: list[int] = []
        self._number: dict[ENode, int] = {}
        self._joined: dict[int, None] = {}
        self._learned: dict[int, None] = {}

    def __len__(self) -> int:
        """Return the number of nodes."""
        return sum(len(each.nodes) for each in self.classes.values())

    def find(self, number: int) -> int:
        """Return the class that a number belongs to."""
        root = number
        while self._leader[root] != root:
            root = self._leader[root]
        while self._leader[number] != root:
            self._leader[number], number = root, self._leader[number]
        return root

    def facts(self, number: int) -> ClassFacts:
        """Return what is known about a class."""
        return self.classes[self.find(number)].facts

    def nodes(self, number: int) -> Iterable[ENode]:
        """Return the nodes of a class, oldest first."""
        return [*self.classes[self.find(number)].nodes]

    def number_of(self, node: ENode) -> int:
        """Return the number of a node."""
        return self._number[node]

    def look(self, number: int, kind: type[Operator]) -> ENode | None:
        """Return the first node of a class with a kind of operator; what is built relies on it."""
        for node in self.classes[self.find(number)].nodes:
            if isinstance(node.operator, kind):
                self.rely(number, self._number[node])
                return node
        return None

    def looks(self, number: int, kind: type[K]) -> Iterator[tuple[K, tuple[int, ...]]]:
        """Yield each operator of a kind in a class with its parts; what is built relies on it."""
        for node in self.nodes(number):
            if isinstance(node.operator, kind):
                before = dict(self.premises)
                self.rely(number, self._number[node])
                yield node.operator, node.children
                self.premises = before

    def argument(self, number: int, function: Operator) -> int | None:
        """Return the argument of a function in a class; what is built relies on it."""
        for node in self.nodes(number):
            if node.operator == function:
                self.rely(number, self._number[node])
                return node.children[0]
        return None

    def known(self, number: int) -> float | None:
        """Return the constant value of a class; what is built relies on it."""
        value = self.facts(number).constant
        if value is not None:
            self._led(number)
        return value

    def divided(self, numbers: Iterable[int], axis: Symbol) -> tuple[list[int], list[int]]:
        """Return the classes that depend on an axis, and those that do not."""
        inside: list[int] = []
        outside: list[int] = []
        for number in numbers:
            (inside if axis.name in self.facts(number).free else outside).append(number)
        return inside, outside

    def fired(self, fire: Callable[..., Iterator[int]], node: ENode) -> Iterator[int]:
        """Yield what a rule makes of a node, relying only on what the rule looked at."""
        self.premises = {}
        yield from fire(self, node.operator, *node.children)

    def rely(self, first: int, second: int) -> None:
        """Note that what is being built relies on two numbers being equal."""
        if first != second:
            self.premises[first, second] = None

    # -- making ------------------------------------------------------------------------------------

    def add(self, operator: Operator, *children: int) -> int:
        """Return the class of an operator over classes, other than sums and products."""
        numbers = [self.facts(child).constant for child in children]
        if isinstance(operator, Applied) and children and None not in numbers:
            dtypes = [self.facts(child).dtype.numpy for child in children]
            with np.errstate(all="ignore"):
                values = [np.asarray(n, dtype) for n, dtype in zip(numbers, dtypes, strict=True)]
                value = operator.op.eval(*values)
            return self.constant(value.item(), operator.dtype)
        return self._enter(ENode(operator, tuple(map(self._led, children))))

    def constant(self, value: float, dtype: DType) -> int:
        """Return the class of a number."""
        return self.add(Leaf(Number(value, dtype)))

    def sum(
        self,
        constant: float,
        weights: Iterable[tuple[int, float]],
        dtype: DType,
        *,
        flat: bool = True,
    ) -> int:
        """Return the class of a constant and weighted classes; `flat` merges inner sums' terms."""
        terms: dict[int, float] = {}
        for number, weight in weights:
            value = self.facts(number).constant
            inner = self.look(number, Sum) if flat and value is None else None
            if inner is not None and self._is_within(number, inner):
                inner = None
            if value is not None:
                self._led(number)
                constant += weight * value
            elif inner is not None and isinstance(inner.operator, Sum):
                constant += weight * inner.operator.constant
                for part, own in zip(inner.children, inner.operator.weights, strict=True):
                    self._weigh(terms, part, weight * own)
            elif flat:
                self._weigh(terms, number, weight)
            else:
                child = self._led(number)
                terms[child] = terms.get(child, 0.0) + weight
        constant = rounded(constant, dtype)
        terms = {child: rounded(terms[child], dtype) for child in sorted(terms)}
        terms = {child: weight for child, weight in terms.items() if weight != 0}
        if not terms:
            return self.constant(constant, dtype)
        if constant == 0 and len(terms) == 1:
            ((child, weight),) = terms.items()
            return self.product(weight, [child], dtype, flat=flat)
        return self._enter(ENode(Sum(constant, tuple(terms.values()), dtype), tuple(terms)))

    def product(
        self, factor: float, children: Iterable[int], dtype: DType, *, flat: bool = True
    ) -> int:
        """Return the class of a factor times classes; `flat` merges factors of inner products."""
        parts: list[int] = []
        for number in children:
            value = self.facts(number).constant
            # A function's value is a factor by itself, even if it is also a product.
            is_whole = not flat or value is not None or self.look(number, Applied) is not None
            inner = None if is_whole else self.look(number, Product)
            if inner is not None and self._is_within(number, inner):
                inner = None
            if value is not None:
                self._led(number)
                factor *= value
            elif inner is not None and isinstance(inner.operator, Product):
                factor *= inner.operator.factor
                parts += map(self._led, inner.children)
            else:
                parts.append(self._led(number))
        factor = rounded(factor, dtype)
        if not parts or factor == 0:
            return self.constant(factor, dtype)
        if factor == 1 and len(parts) == 1:
            return parts[0]
        return self._enter(ENode(Product(factor, dtype), tuple(sorted(parts))))

    def _is_within(self, number: int, node: ENode) -> bool:
        """Return whether a node of a class needs the class itself."""
        return any(self.find(child) == self.find(number) for child in node.children)

    def _weigh(self, terms: dict[int, float], number: int, weight: float) -> None:
        """Add a weighted class to terms; the factor of a product counts as its weight."""
        scaled = self.look(number, Product)
        operator = None if scaled is None else scaled.operator
        if scaled is not None and isinstance(operator, Product) and operator.factor != 1:
            weight *= operator.factor
            number = self.product(1, scaled.children, operator.dtype)
        child = self._led(number)
        terms[child] = terms.get(child, 0.0) + weight

    def _led(self, number: int) -> int:
        """Return the class of a number, and rely on the two being equal."""
        leader = self.find(number)
        self.rely(number, leader)
        return leader

    def _enter(self, node: ENode) -> int:
        number = self._number.get(node)
        if number is None:
            number = len(self.entered)
            self.entered.append(node)
            self._leader.append(number)
            self._number[node] = number
            self.classes[number] = EClass(self._facts_of(node), {node: None})
            for child in node.children:
                self.classes[child].users[node] = None
        return number

    def _facts_of(self, node: ENode) -> ClassFacts:
        """Return what a node says about its class."""
        operator = node.operator
        if isinstance(operator, Leaf):
            term = operator.term
            value = float(term.value) if isinstance(term, Number) and is_known(term.dtype) else None
            return ClassFacts(term.dtype, frozenset(free(term)), frozenset(), value)
        parts = [self.facts(child) for child in node.children]
        axes = frozenset[str]().union(*(part.free for part in parts))
        moving = frozenset[str]().union(*(part.moving for part in parts))
        whole = frozenset[str]().union(*(part.whole for part in parts))
        is_solved = all(part.is_solved for part in parts)
        match operator:
            case Folded(axis=axis) | Online(axis=axis):
                axes, moving = axes - {axis.name}, moving | {axis.name}
            case First(axis=axis):
                axes -= {axis.name}
            case Rise(axis=axis):
                moving |= {axis.name}
            case Ratio() | Shift():
                is_solved = False
            case GuardedValue(holds=holds):
                axes |= {symbol.name for symbol in symbols(holds)}
            case Looked(index=index):
                axes |= {symbol.name for dim in index for symbol in symbols(dim)}
            case Applied(op=op):
                axes |= {symbol.name for symbol in op.symbols()}
            case Sum() | Product():
                pass
        return ClassFacts(operator.dtype, axes, moving, None, whole, is_solved)

    # -- joining -----------------------------------------------------------------------------------

    def union(self, first: int, second: int, rule: str = "", whole: str = "") -> bool:
        """Record that two numbers are equal, by what was relied on; return whether that is news.

        If only finished folds over an axis are equal, `whole` names it.
        """
        kept, gone = sorted((self.find(first), self.find(second)))
        if kept == gone:
            return False
        self.reasons.append(Reason(rule, first, second, tuple(self.premises)))
        into, held = self.classes[kept], self.classes.pop(gone)
        self._leader[gone] = kept
        into.nodes |= held.nodes
        into.users |= held.users
        into.facts = into.facts.joined(held.facts)
        into.facts.whole |= {whole} if whole else set()
        self._joined[kept] = self._learned[kept] = None
        return True

    def rebuild(self) -> None:
        """Join nodes whose parts have become equal, and propagate the new facts."""
        while self._joined or self._learned:
            while self._joined:
                number, _ = self._joined.popitem()
                if number in self.classes:
                    self._repair(number)
            while self._learned:
                number, _ = self._learned.popitem()
                if number in self.classes:
                    self._tell(number)

    def _repair(self, number: int) -> None:
        """Enter the users of a class again, under the current names of their parts."""
        for node in [*self.classes[number].users]:
            old = self._number[node]
            self.premises = {}
            new = self._again(node, flat=False)
            self.union(old, new)
            self.premises = {}
            if len(self.entered) <= MOST_NODES:
                self.union(old, self._again(node, flat=True))
            holder = self.classes[self.find(old)]
            if self.entered[new] != node:
                holder.nodes.pop(node, None)
                for child in node.children:
                    self.classes[self.find(child)].users.pop(node, None)
        self.premises = {}
        held = self.classes.get(number)
        if held is not None and held.facts.constant is not None:
            numbers = [node for node in held.nodes if isinstance(node.operator, Leaf)]
            held.nodes = dict.fromkeys(numbers[:1])

    def _again(self, node: ENode, *, flat: bool) -> int:
        """Return the number of a node in normal form."""
        match node.operator:
            case Sum(constant=constant, weights=weights, dtype=dtype):
                terms = zip(node.children, weights, strict=True)
                return self.sum(constant, terms, dtype, flat=flat)
            case Product(factor=factor, dtype=dtype):
                return self.product(factor, node.children, dtype, flat=flat)
            case operator:
                return self.add(operator, *node.children)

    def _tell(self, number: int) -> None:
        """Propagate what is known about a class to the classes of its users."""
        for node in self.classes[number].users:
            holder = self.classes[self.find(self._number[node])]
            facts = holder.facts.joined(self._facts_of(node))
            if facts != holder.facts:
                holder.facts = facts
                self._learned[self.find(self._number[node])] = None

    # -- reading -----------------------------------------------------------------------------------

    def each(self) -> Iterator[tuple[int, ENode]]:
        """Yield the current nodes with their classes, in the order of their numbers."""
        nodes = [
            (self._number[node], number, node)
            for number, held in self.classes.items()
            for node in held.nodes
        ]
        for _, number, node in sorted(nodes, key=lambda entry: entry[:2]):
            yield number, node


def rounded(value: float, dtype: DType) -> float:
    """Round a number to a dtype, so that numbers that differ only by rounding are one node."""
    return float(np.asarray(value, dtype.numpy)) if dtype.is_float else value

"""The sides of a rule as text: what its function must do, checked by the proof.

side    = "let" name "=" side ";" side
        | ("sum" | "max") axis ":" side               as far as it goes
        | "online" axis ":" "acc" "*" atom "+" side    a sum that is rescaled at each step
        | product { ("+" | "-") product }
product = atom { "*" atom }
atom    = ("ratio" | "shift" | "rise" | "first") "[" axis "]" "(" side ")"
        | op "(" side , … ")" | "(" side ")"
        | variable | number | "true" | "size" "[" axis "]"
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from luminal_lab.algebra.egraph import EGraph
from luminal_lab.algebra.language import (
    Applied,
    Finite,
    First,
    Folded,
    Leaf,
    Online,
    Operator,
    Product,
    Ratio,
    Rise,
    Shift,
    Sum,
)
from luminal_lab.core.dims import Dim, Symbol
from luminal_lab.core.dtypes import DType
from luminal_lab.core.op import Elementwise
from luminal_lab.core.ops import Exp2, Log2, Recip, Sqrt, Where
from luminal_lab.kernels.definition.substitution import counted
from luminal_lab.kernels.definition.terms import axis_of
from luminal_lab.scanner import Scanner

FUNCTIONS: Mapping[str, Elementwise] = {
    op.name: op for op in (Exp2(), Finite(), Log2(), Recip(), Sqrt(), Where())
}
QUESTIONS = {"ratio": Ratio, "shift": Shift, "rise": Rise, "first": First}
NAME = "[a-z][a-z0-9_]*"


class RuleSide(NamedTuple):
    """A term of a rule: its head and its parts; variables and numbers have no parts."""

    head: str
    axis: str = ""
    parts: tuple[RuleSide, ...] = ()

    @property
    def operator(self) -> tuple[type[Operator], str]:
        """The kind of operator at the root of the term, and which fold or function it is."""
        match self.head:
            case "sum" | "max":
                return Folded, self.head
            case "+" | "-":
                return Sum, ""
            case "*":
                return Product, ""
            case "online":
                return Online, ""
            case head if head in QUESTIONS:
                return QUESTIONS[head], ""
            case head:
                return Applied, head

    def walk(self) -> Iterator[RuleSide]:
        """Yield the term and all its parts."""
        yield self
        for part in self.parts:
            yield from part.walk()

    @property
    def axes(self) -> tuple[str, ...]:
        """The axes that the term names, in order."""
        return tuple(dict.fromkeys(part.axis for part in self.walk() if part.axis))

    @property
    def variables(self) -> tuple[str, ...]:
        """The variables of the term, in order."""
        leaves = (part for part in self.walk() if not part.parts and not part.axis)
        names = (leaf.head for leaf in leaves if leaf.head != "true")
        return tuple(dict.fromkeys(name for name in names if name[0].isalpha()))


def parse_side(text: str) -> RuleSide:
    """Return one side of a rule."""
    scanner = Scanner(text)
    side = _side(scanner)
    if scanner.pos < len(text):
        scanner.fail(scanner.here, "the side of a rule should end here")
    return side


def _side(scanner: Scanner) -> RuleSide:
    if (let := scanner.take_if(rf"let\s+({NAME})\s*=")) is not None:
        value = _side(scanner)
        scanner.take(";", "';' and the term in which the name stands for this one")
        return _replaced(_side(scanner), let[1], value)
    fold = scanner.take_if(rf"(sum|max|online)\s+({NAME})\s*:")
    if fold is None:
        total = _product(scanner)
        while (sign := scanner.take_if(r"[+-]")) is not None:
            total = RuleSide(sign[0], "", (total, _product(scanner)))
        return total
    if fold[1] != "online":
        return RuleSide(fold[1], fold[2], (_side(scanner),))
    scanner.take(r"acc\s*\*", "'acc *' and by what the sum is rescaled")
    ratio = _atom(scanner)
    scanner.take(r"\+", "'+' and what is added")
    return RuleSide("online", fold[2], (ratio, _side(scanner)))


def _replaced(side: RuleSide, name: str, value: RuleSide) -> RuleSide:
    if side == RuleSide(name):
        return value
    return side._replace(parts=tuple(_replaced(part, name, value) for part in side.parts))


def _product(scanner: Scanner) -> RuleSide:
    total = _atom(scanner)
    while scanner.accept("*"):
        total = RuleSide("*", "", (total, _atom(scanner)))
    return total


def _atom(scanner: Scanner) -> RuleSide:
    if scanner.accept("("):
        return _closed(scanner)
    if (number := scanner.maybe(r"\d+(\.\d+)?")) is not None:
        return RuleSide(number.text)
    question = scanner.take_if(rf"({'|'.join(QUESTIONS)})\[({NAME})\]\s*\(")
    if question is not None:
        return RuleSide(question[1], question[2], (_closed(scanner),))
    if (size := scanner.take_if(rf"size\[({NAME})\]")) is not None:
        return RuleSide("size", size[1])
    name = scanner.take(NAME, "a variable, a number, an op or '('").text
    if scanner.accept("("):
        return RuleSide(name, "", tuple([_side(scanner) for _ in scanner.until(")")]))
    return RuleSide(name)


def _closed(scanner: Scanner) -> RuleSide:
    side = _side(scanner)
    scanner.take(r"\)", "')'")
    return side


def enter(
    egraph: EGraph, side: RuleSide, variables: Mapping[str, int], sizes: Mapping[str, Dim]
) -> int:
    """Enter a side, its variables standing for classes; return its class."""
    dtype = DType.float32
    parts = [enter(egraph, part, variables, sizes) for part in side.parts]
    axis = axis_of(side.axis, sizes[side.axis]) if side.axis else Symbol("_")
    match side.head:
        case "+" | "-":
            weights = (1, 1 if side.head == "+" else -1)
            return egraph.sum(0, zip(parts, weights, strict=True), dtype)
        case "*":
            return egraph.product(1, parts, dtype)
        case "sum" | "max" as kind:
            return egraph.add(Folded(kind, axis, sizes[side.axis], dtype), *parts)
        case "online":
            return egraph.add(Online(axis, sizes[side.axis], dtype), *parts)
        case head if parts:
            question = QUESTIONS.get(head)
            function = question(axis, dtype) if question else Applied(FUNCTIONS[head], dtype)
            return egraph.add(function, *parts)
        case "size":
            return egraph.add(Leaf(counted(sizes[side.axis], dtype)))
        case "true":
            return egraph.constant(True, DType.bool_)
        case head if head[0].isdigit():
            return egraph.constant(float(head), dtype)
        case head:
            return variables[head]

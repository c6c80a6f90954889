"""Rules as data: a pattern, its replacement, and the assumptions under which they are equal."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TypeAlias

from typing_extensions import override

from luminal_lab.core.dtypes import DType
from luminal_lab.core.edit import Edit
from luminal_lab.core.ir import IR, Node, NodeLookup, Table
from luminal_lab.core.op import Elementwise, TensorType
from luminal_lab.core.ops import Input, Where
from luminal_lab.core.origin import is_ours
from luminal_lab.core.printer import as_text
from luminal_lab.errors import DefinitionError, LabError, nearest
from luminal_lab.passes.base import NAME
from luminal_lab.passes.pattern import (
    Bindings,
    ConstantVariable,
    Field,
    Match,
    OpPattern,
    Pattern,
    PatternLike,
    Variable,
    as_pattern,
    build,
    find,
)
from luminal_lab.tensor.arguments import is_function, told, told_class, told_object

FACTS: Mapping[str, str] = {
    "no_nan": "no value is NaN",
    "no_inf": "no value is infinite",
    "no_signed_zero": "the sign of a zero does not matter",
    "no_subnormal": "no value is subnormal, so small that its digits run out",
    "nonzero": "no divisor is 0",
    "non_negative": "no argument of a root or logarithm is negative",
    "reassociate": "the order of roundings does not matter",
    "contract": "a product may be rounded together with the sum that it is added to",
}
"""Facts that rules may assume about values; for integers and bools, all but `nonzero` hold."""
OF_FLOATS = frozenset(FACTS) - {"nonzero"}

Calculation: TypeAlias = Callable[..., PatternLike | None]
Condition: TypeAlias = Callable[..., bool]


@told_class
@dataclass(frozen=True, eq=False)
class Rule:
    """An equation to apply from left to right.

    The replacement is a pattern, or a function of the variables' values (for a constant, its
    number) that returns a pattern, or None where the rule does not apply. A condition takes
    types, and the values of constants and fields; both may also have a parameter `match`.

    >>> from luminal_lab.passes.pattern import variables
    >>> x = variables("x")
    >>> print(Rule("add-zero", x + 0, x, assumes={"no_signed_zero"}))
    add-zero: x + 0 → x, if the sign of a zero does not matter
    """

    name: str
    pattern: OpPattern
    replacement: Pattern | Calculation
    assumes: frozenset[str] = frozenset()
    condition: Condition | None = None

    @partial(told, name="Rule", whole=True)
    def __init__(
        self,
        name: str,
        pattern: Pattern,
        replacement: PatternLike | Calculation,
        *,
        assumes: Iterable[str] = (),
        condition: Condition | None = None,
    ) -> None:
        if not NAME.fullmatch(name):
            raise DefinitionError(f"rule: {name!r} is not a name", hint="as in 'add-zero'")
        if not isinstance(pattern := as_pattern(pattern), OpPattern):
            raise DefinitionError(
                f"rule {name!r}: its pattern, {pattern}, has no op, and would match everything",
                hint="begin with an op, as in x + 0",
            )
        if not is_function(replacement):
            replacement = as_pattern(replacement)
        facts = frozenset([assumes] if isinstance(assumes, str) else assumes)
        for fact in sorted(facts - FACTS.keys()):
            known = ", ".join(FACTS)
            raise DefinitionError(
                f"rule {name!r}: there is no fact {fact!r} to assume",
                hint=nearest(fact, FACTS) or f"the facts: {known}",
            )
        values = (name, pattern, replacement, facts, condition)
        for field, value in zip(self.__dataclass_fields__, values, strict=True):
            object.__setattr__(self, field, value)
        self._check_variables()
        # Tests check the package's own rules, so that a first compile need not wait for it.
        if not is_ours(sys._getframe(2).f_code.co_filename):  # pyright: ignore[reportPrivateUsage]  # inspect's is slow
            check_types(self)

    def _check_variables(self) -> None:
        bound = names_in(self.pattern)
        if isinstance(self.replacement, Pattern):
            right = names_in(self.replacement)
        else:
            right = {*parameters_of(self.replacement)} - {"match"}
        asked = set[str]() if self.condition is None else {*parameters_of(self.condition)}
        for names, where in ((right, "on the right"), (asked - {"match"}, "in the condition")):
            if free := sorted(names - bound):
                raise DefinitionError(
                    f"rule {self.name!r}: {', '.join(free)} {where} "
                    f"{'is' if len(free) == 1 else 'are'} not in the pattern {self.pattern}",
                    hint=f"the pattern has {', '.join(sorted(bound))}",
                )

    @override
    def __str__(self) -> str:
        right = self.replacement
        text = right if isinstance(right, Pattern) else f"{getattr(right, '__name__', 'f')}(…)"
        facts = " and ".join(FACTS[fact] for fact in FACTS if fact in self.assumes)
        return f"{self.name}: {self.pattern} → {text}" + (f", if {facts}" if facts else "")

    _repr_mimebundle_ = as_text

    @override
    def __repr__(self) -> str:
        return f"<Rule {self}>"

    def needed(self, *dtypes: DType) -> frozenset[str]:
        """Return the facts that must be granted for values of some dtypes.

        >>> x = ll.variables("x")
        >>> add_zero = ll.Rule("add-zero", x + 0, x, assumes={"no_signed_zero"})
        >>> add_zero.needed(ll.DType.float32), add_zero.needed(ll.DType.int32)
        (frozenset({'no_signed_zero'}), frozenset())
        """
        floats = any(dtype.is_float for dtype in dtypes)
        return self.assumes if floats else self.assumes - OF_FLOATS

    def matches(self, node: Node, graph: NodeLookup) -> Iterator[tuple[Match, Pattern]]:
        """Yield each match with this root whose condition holds, and its replacement.

        >>> y = (cx.tensor((2,), name="x") * 1).retrieve()
        >>> x = ll.variables("x")
        >>> [(match, right)] = ll.Rule("mul-one", x * 1, x).matches(y.node, cx.ir)
        >>> match.root, match.bindings, right
        (%2, {'x': %x}, <Pattern x>)
        """
        for bindings in find(self.pattern, node, graph):
            match = Match(node, bindings, graph)
            if self.condition is None or self.condition(*_seen(self._asked, match)):
                right = self.right_of(match)
                if right is not None:
                    yield match, right

    def right_of(self, match: Match) -> Pattern | None:
        """Return the replacement of a match, calculated if it is a function.

        >>> y = (cx.tensor((2,), name="x") * 2).retrieve()
        >>> x, c = ll.variables("x"), ll.constants("c")
        >>> double = ll.Rule("double", x * c, lambda x, c: x + x if c == 2 else None)
        >>> match, _ = next(double.matches(y.node, cx.ir))
        >>> print(double.right_of(match))
        x + x
        """
        if isinstance(self.replacement, Pattern):
            return self.replacement
        arguments = [
            Variable(name)
            if isinstance(match.bindings.get(name), Node) and not constant
            else match
            if name == "match"
            else match.seen(name)
            for name, constant in self._taken
        ]
        right = self.replacement(*arguments)
        return None if right is None else as_pattern(right)

    @cached_property
    def _asked(self) -> tuple[str, ...]:
        """The parameters of the condition."""
        return () if self.condition is None else parameters_of(self.condition)

    @cached_property
    def _taken(self) -> tuple[tuple[str, bool], ...]:
        """The parameters of the calculation, each with whether it is a constant."""
        if isinstance(self.replacement, Pattern):
            return ()
        return tuple((name, is_constant(self, name)) for name in parameters_of(self.replacement))

    def apply(self, match: Match, right: Pattern, edit: Edit) -> Node:
        """Insert the replacement into the graph, and return it.

        >>> y = (cx.tensor((2,), name="x") * 1).retrieve()
        >>> x, edit = ll.variables("x"), ll.Edit(cx.ir)
        >>> mul_one = ll.Rule("mul-one", x * 1, x)
        >>> mul_one.apply(*next(mul_one.matches(y.node, edit)), edit)
        %x
        >>> edit.ir().outputs
        (%x,)
        """
        root = match.root
        new = build(right, root.type, match.bindings, edit, [root])
        edit.replace(root, new)
        return new


def rule(
    name: str, pattern: Pattern, *, assumes: Iterable[str] = (), condition: Condition | None = None
) -> Callable[[Calculation], Rule]:
    """Return a rule whose right side the decorated function calculates.

    >>> from luminal_lab.passes.pattern import constants, variables
    >>> x, (c, d) = variables("x"), constants("c d")
    >>> @rule("mul-constants", (x * c) * d, assumes={"reassociate"})
    ... def mul_constants(x, c, d):
    ...     return x * (c * d)
    >>> print(mul_constants)
    mul-constants: (x * c) * d → mul_constants(…), if the order of roundings does not matter
    """

    def as_rule(calculation: Calculation) -> Rule:
        return Rule(name, pattern, calculation, assumes=assumes, condition=condition)

    return as_rule


def names_in(pattern: Pattern) -> set[str]:
    """Return the names of all variables of a pattern."""
    if isinstance(pattern, (Variable, ConstantVariable)):
        return {pattern.name}
    if not isinstance(pattern, OpPattern):
        return set()
    names = {value.name for _, value in pattern.fields if isinstance(value, Field)}
    names |= {pattern.name} if pattern.name else set()
    return names.union(*[names_in(source) for source in pattern.sources])


def is_constant(rule: Rule, name: str) -> bool:
    """Return whether a variable of a rule stands for a constant."""
    return _has_constant(rule.pattern, name)


def _has_constant(pattern: Pattern, name: str) -> bool:
    if isinstance(pattern, ConstantVariable):
        return pattern.name == name
    return isinstance(pattern, OpPattern) and any(_has_constant(s, name) for s in pattern.sources)


def parameters_of(function: Callable[..., object]) -> tuple[str, ...]:
    """Return the names of a function's parameters."""
    return tuple(inspect.signature(function).parameters)


def _seen(names: Iterable[str], match: Match) -> list[object]:
    return [match if name == "match" else match.seen(name) for name in names]


# -- both sides have one type ----------------------------------------------------------------------

SAMPLES = [
    TensorType(dtype, shape)
    for dtype in (DType.float32, DType.int32, DType.bool_)
    for shape in ((2, 3), (1, 3), (1, 1))
]


def check_types(rule: Rule) -> None:
    """Raise if the sides of a rule differ in type on any sample that its pattern accepts."""
    if not isinstance(rule.replacement, Pattern):
        return  # calculated replacements are checked when used
    # Elementwise ops have the shape of their sources, whatever that is.
    samples = SAMPLES[::3] if _keeps_shape(rule.pattern, rule.replacement) else SAMPLES
    for sample in samples:
        sides = _sides(rule, rule.replacement, sample)
        if sides is not None and sides[0] != sides[1]:
            left, right = sides
            raise DefinitionError(
                f"rule {rule.name!r}: the sides differ: where {names_of_inputs(rule)} {sample}, "
                f"{rule.pattern} is {left}, but {rule.replacement} is {right}",
                hint="make both of one shape and dtype, or add a condition under which they are",
            )


def _keeps_shape(*patterns: Pattern) -> bool:
    """Return whether all ops of some patterns are elementwise."""
    return all(
        issubclass(pattern.cls, Elementwise) and _keeps_shape(*pattern.sources)
        for pattern in patterns
        if isinstance(pattern, OpPattern)
    )


def names_of_inputs(rule: Rule) -> str:
    """Return the names of the variables and the verb for them, for a sentence."""
    names = sorted(_inputs(rule.pattern))
    return f"{' and '.join(names) or 'nothing'} {'are' if len(names) > 1 else 'is'}"


def _inputs(pattern: Pattern) -> set[str]:
    if isinstance(pattern, Variable):
        return {pattern.name}
    if not isinstance(pattern, OpPattern):
        return set()
    return set[str]().union(*[_inputs(source) for source in pattern.sources])


def choices(pattern: Pattern) -> set[str]:
    """Return the variables that are conditions of `where`, and so always bools."""
    if not isinstance(pattern, OpPattern):
        return set()
    names = set[str]().union(*map(choices, pattern.sources))
    if pattern.cls is Where and isinstance(pattern.sources[0], Variable):
        names.add(pattern.sources[0].name)
    return names


def _sides(
    rule: Rule, right: Pattern, sample: TensorType
) -> tuple[TensorType, TensorType | str] | None:
    """Return the types of both sides for variables of one type; None if the pattern rejects it."""
    edit = Edit(IR(Table(), (), ()))
    chosen = choices(rule.pattern)
    bindings: Bindings = {
        name: edit.insert(Input(DType.bool_ if name in chosen else sample.dtype, sample.shape))
        for name in names_in(rule.pattern)
    }
    try:
        left = build(rule.pattern, sample, bindings, edit, [])
        match = next(rule.matches(left, edit), None)
    except (LabError, KeyError, TypeError):
        return None  # the pattern rejects this type, or leaves fields open
    if match is None:
        return None
    try:
        built = build(right, left.type, match[0].bindings, edit, [])
    except LabError as error:
        return left.type, f"impossible ({error.message})"
    return left.type, built.type


# -- sets ------------------------------------------------------------------------------------------


@told_object("rules")
class RuleSet:
    """A named set of rules, in the order in which they are tried.

    >>> from luminal_lab.passes.pattern import variables
    >>> x = variables("x")
    >>> algebra = RuleSet("algebra", Rule("mul-one", x * 1, x), Rule("double", x + x, x * 2))
    >>> print(algebra)
    algebra:
      mul-one: x * 1 → x
      double: x + x → x * 2
    """

    def __init__(self, name: str, *rules: Rule | Iterable[Rule]) -> None:
        self.name = name
        flat = [r for given in rules for r in ([given] if isinstance(given, Rule) else given)]
        self._rules = {rule.name: rule for rule in flat}
        if len(self._rules) < len(flat):
            names = [rule.name for rule in flat]
            twice = next(name for name in names if names.count(name) > 1)
            raise DefinitionError(f"rules {name!r}: two of them have the name {twice!r}")

    def __iter__(self) -> Iterator[Rule]:
        return iter(self._rules.values())

    def __len__(self) -> int:
        return len(self._rules)

    def __contains__(self, name: object) -> bool:
        return name in self._rules

    def __getitem__(self, name: str) -> Rule:
        if name not in self._rules:
            raise DefinitionError(
                f"rules {self.name!r}: there is no rule {name!r}", hint=nearest(name, self._rules)
            )
        return self._rules[name]

    def without(self, *names: str) -> RuleSet:
        """Return the set without some of its rules.

        >>> x = ll.variables("x")
        >>> mul_one, double = ll.Rule("mul-one", x * 1, x), ll.Rule("double", x + x, x * 2)
        >>> algebra = ll.RuleSet("algebra", mul_one, double)
        >>> print(algebra.without("double"))
        algebra:
          mul-one: x * 1 → x
        """
        gone = {self[name].name for name in names}
        return RuleSet(self.name, [rule for rule in self if rule.name not in gone])

    @override
    def __str__(self) -> str:
        return "\n  ".join([f"{self.name}:", *map(str, self)])

    _repr_mimebundle_ = as_text

    @override
    def __repr__(self) -> str:
        return f"<RuleSet {self.name}: {len(self)} rules>"


def variable_of(rule: str) -> str | None:
    """Return the name of the variable, in a notebook or program, that holds a rule or its set."""
    named = vars(sys.modules["__main__"]).items()
    rules = {
        value.name: variable
        for variable, value in named
        if isinstance(value, (Rule, RuleSet)) and variable[0] != "_"
    }
    return rules.get(rule)

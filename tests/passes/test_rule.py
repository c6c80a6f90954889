"""Rules: what makes one, what is refused when it is made, and what every one of ours survives."""

import re
from typing import Any, cast

import pytest

import luminal_lab as ll
from luminal_lab.core.dtypes import DType
from luminal_lab.core.edit import Edit
from luminal_lab.core.ir import IR
from luminal_lab.core.ops import Permute, Sin
from luminal_lab.core.parse import parse
from luminal_lab.errors import ArgumentError, DefinitionError, UnknownNameError
from luminal_lab.passes.base import graph_pass
from luminal_lab.passes.compile import compile_ir
from luminal_lab.passes.pattern import (
    as_value,
    constants,
    fields,
    find,
    op,
    recip,
    sum_reduce,
    variables,
    where,
)
from luminal_lab.passes.pipeline import known_passes
from luminal_lab.passes.proof import counterexample, examine
from luminal_lab.passes.rule import FACTS, Rule, RuleSet, check_types, rule
from tests.expect import error_of
from tests.passes import running  # imports all passes

x, y, z = variables("x y z")
c, d = constants("c d")
a, b = fields("a b")


def every_rule():
    """Return the rules of all passes that are sets of rules.

    What `from-twelve` recognises is not met by chance: see `test_twelve`.
    """
    assert running
    sets = [cls for cls in known_passes().values() if hasattr(cls, "rule_set")]
    ours = [cls for cls in sets if cls.__module__.startswith("luminal_lab.")]
    assert {"simplify", "reassociate", "views", "to-twelve"} <= {cls.name for cls in ours}
    ours = [cls for cls in ours if cls.name != "from-twelve"]
    pairs = [(cls, one) for cls in ours for one in getattr(cls, "rule_set")]  # noqa: B009
    return [pytest.param(one, id=f"{cls.name}-{one.name}") for cls, one in pairs]


FOR_BOOLS = {"add-bool-self", "mul-bool-self", "where-itself"}


@pytest.mark.share("one", every_rule(), 24)
def test_every_rule_survives_all_that_is_tried(one):
    tried, wrong = examine(one)
    assert wrong is None, str(wrong)
    # Of each dtype twice: on what is easy to read, and on all there is.
    assert tried >= (2 if one.name in FOR_BOOLS else 2 * 4), f"it matched {tried} graphs"


def test_both_sides_of_our_rules_have_one_type():
    """Our own rules are not checked when they are made, as everybody else's are."""
    assert running
    for cls in known_passes().values():
        for one in getattr(cls, "rule_set", ()):
            check_types(one)


WRONG = {
    "x + 1 is x": (Rule("bad", x + 1, x), "with x = 0.0"),
    "x * 0 without facts": (Rule("bad", x * 0, 0), "with x = -0.0"),
    "x * 0 of infinities": (Rule("bad", x * 0, 0, assumes={"no_signed_zero"}), "with x = inf"),
    "the other branch": (Rule("bad", where(z, x, y), y), "with z = "),
    "another order": (Rule("bad", x < y, y < x), "with x = "),
    "constants": (Rule("bad", (x * c) * d, x * c), "c = "),
    "a sum of other rows": (
        Rule("bad", sum_reduce(x, axis=a) * 2, sum_reduce(x, axis=a)),
        "a = 0",
    ),
    "other axes": (Rule("bad", op(Permute, op(Permute, x, axes=a), axes=b), x), "a = "),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_rule_is_found_out(name):
    bad, text = WRONG[name]
    found = counterexample(bad)
    assert found is not None
    assert text in str(found)


def test_a_fact_excuses_what_breaks_it_and_nothing_else():
    assert counterexample(Rule("r", x * recip(x), 1, assumes={"reassociate"})) is not None
    every = {"reassociate", "nonzero", "no_inf", "no_nan"}
    assert counterexample(Rule("r", x * recip(x), 1, assumes=every)) is None


def test_a_cell_that_ends_in_one_shows_it_in_a_line():
    one = Rule("mul-one", x * 1, x)
    assert repr(one) == "<Rule mul-one: x * 1 → x>"
    assert repr(RuleSet("ones", one)) == "<RuleSet ones: 1 rules>"
    assert repr(x + y * 2) == "<Pattern x + (y * 2)>"
    assert repr(counterexample(Rule("bad", x + 1, x))).startswith("<Counterexample bad: x + 1 → x")


def test_calculated_sides():
    @rule("add-constants", (x + c) + d, assumes="reassociate")
    def add_constants(x, c, d):
        return None if c == d else x + (c + d)

    ir = parse("""graph g(%x: f32[2]) -> (%r, %s) {
      %c = constant{value = 2.0} : f32[2]
      %d = constant{value = 3.0} : f32[2]
      %p = add %x, %c : f32[2]
      %r = add %p, %d : f32[2]
      %s = add %p, %c : f32[2]
    }""")
    compiled = compile_ir(ir, add_constants, "dce", licence={"reassociate"})
    assert str(compiled.ir) == (
        "graph g(%x: f32[2]) -> (%7, %s) {\n"
        "  %c = constant{value = 2.0} : f32[2]\n"
        "  %p = add %x, %c : f32[2]\n"
        "  %s = add %p, %c : f32[2]\n"
        "  %6 = constant{value = 5.0} : f32[2]\n"
        "  %7 = add %x, %6 : f32[2]\n"
        "}"
    )


def test_conditions_see_types_values_and_fields():
    seen = []

    def condition(x, c, match):
        seen.append((x, c, match.dtype))
        return c > 2

    ir = parse("""graph g(%x: f32[2]) -> (%r) {
      %c = constant{value = 3.0} : f32[2]
      %r = mul %c, %x : f32[2]
    }""")
    compiled = compile_ir(ir, Rule("r", x * c, x + x, condition=condition))
    assert [str(one) for one in compiled.snapshots[1].firings] == ["r: %r → %3"]
    # The sides are compared for some types when the rule is made.
    assert (str(seen[-1][0]), seen[-1][1:]) == ("f32[2]", (3.0, DType.float32))


def test_facts_are_about_floats():
    one = Rule("r", x - x, 0, assumes={"no_nan", "no_inf"})
    assert one.needed(DType.float32) == {"no_nan", "no_inf"}
    assert one.needed(DType.int32) == set()
    assert one.needed(DType.bool_, DType.float32) == {"no_nan", "no_inf"}  # a comparison
    assert Rule("r", x % x, 0, assumes={"nonzero"}).needed(DType.int32) == {"nonzero"}


def test_rules_and_sets_are_readable():
    one = Rule("cancel", x * recip(x), 1, assumes=FACTS)
    assert str(one) == (
        "cancel: x * recip(x) → 1, if no value is NaN and no value is infinite and the sign of a "
        "zero does not matter and no value is subnormal, so small that its digits run out and "
        "no divisor is 0 and no argument of a root or logarithm is "
        "negative and the order of roundings does not matter and a product may be "
        "rounded together with the sum that it is added to"
    )
    two = Rule("swap", op(Permute, x, axes=a) * 2, op(Permute, x * 2, axes=a))
    rules = RuleSet("both", one, two)
    assert str(two) == "swap: permute(x, axes=a) * 2 → permute(x * 2, axes=a)"
    assert str(rules) == f"both:\n  {one}\n  {two}"
    assert rules["swap"] is two
    assert "swap" in rules
    assert list(rules.without("swap")) == [one]
    assert len(rules) == 2
    message = "rules 'both': there is no rule 'swop'\nhint: did you mean 'swap'?"
    assert str(error_of(lambda: rules["swop"], DefinitionError)) == message
    assert "two of them have the name 'swap'" in str(error_of(lambda: RuleSet("s", two, two)))


REFUSED = {
    "no op": (
        lambda: Rule("r", x, 0),
        "rule 'r': its pattern, x, has no op, and would match everything\n"
        "hint: begin with an op, as in x + 0",
    ),
    "a name": (
        lambda: Rule("add zero", x + 0, x),
        "rule: 'add zero' is not a name\nhint: as in 'add-zero'",
    ),
    "a fact": (
        lambda: Rule("r", x + 0, x, assumes={"no_nans"}),
        "rule 'r': there is no fact 'no_nans' to assume\nhint: did you mean 'no_nan'?",
    ),
    "a free variable": (
        lambda: Rule("r", x + 0, x + y),
        "rule 'r': y on the right is not in the pattern x + 0\nhint: the pattern has x",
    ),
    "a free variable of a function": (
        lambda: rule("r", x + c)(lambda x, c, d: x),
        "rule 'r': d on the right is not in the pattern x + c\nhint: the pattern has c, x",
    ),
    "a free variable of a condition": (
        lambda: Rule("r", x + 0, x, condition=lambda z: True),
        "rule 'r': z in the condition is not in the pattern x + 0\nhint: the pattern has x",
    ),
    "a tensor": (
        lambda: Rule("r", cast("Any", ll.Graph().tensor((2,), name="t") * 1), x),
        "pattern: %2 (2,), a tensor, is neither a pattern nor a number\n"
        'hint: make variables first: x, y = ll.variables("x y")',
    ),
    "text": (
        lambda: Rule("r", cast("Any", "x * 1"), x),
        "pattern: 'x * 1' is neither a pattern nor a number\n"
        'hint: make variables first: x, y = ll.variables("x y")',
    ),
    "two of one": (
        lambda: [*variables("a")],
        "pattern: a is one pattern, and no list of them\n"
        'hint: as in x = ll.variables("x"), or x, y = ll.variables("x y")',
    ),
    "a matmul": (lambda: x @ y, "pattern: there is no op @"),
    "another dtype": (
        lambda: Rule("r", x < y, x),
        "rule 'r': the sides differ: where x and y are f32[2, 3], x < y is bool[2, 3], but x is "
        "f32[2, 3]\n"
        "hint: make both of one shape and dtype, or add a condition under which they are",
    ),
    "another shape": (
        lambda: Rule("r", sum_reduce(x, axis=0), x * 2),
        "rule 'r': the sides differ: where x is f32[2, 3], sum_reduce(x, axis=0) is f32[1, 3], but "
        "x * 2 is f32[2, 3]\n"
        "hint: make both of one shape and dtype, or add a condition under which they are",
    ),
    "a side that is impossible": (
        lambda: Rule("r", x + y, (x < y) + y),
        "impossible",
    ),
    "no pattern": (
        lambda: x + "1",
        "pattern: '1' is neither a pattern nor a number\n"
        'hint: make variables first: x, y = ll.variables("x y")',
    ),
    "an unknown field": (
        lambda: op(Permute, x, axis=1),
        "pattern: permute has no field 'axis'\nhint: its fields: axes",
    ),
    "no names": (lambda: variables(""), "pattern: no name is given"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused_when_it_is_made(name):
    make, message = REFUSED[name]
    told = str(error_of(make, DefinitionError))
    assert message in told if "\n" not in message else told == message


@pytest.mark.parametrize(
    ("name", "meant"), {"sum": "sum_reduce", "exp": "exp2", "sqrt": "sqrt"}.items()
)
def test_a_method_of_tensors_is_told_its_op(name, meant):
    error = error_of(lambda: getattr(x, name), UnknownNameError)
    assert error.hint == f"from luminal_lab.passes.pattern import {meant}"


def test_patterns_match_in_both_orders_and_repeat():
    ir = parse("""graph g(%x: f32[2], %y: f32[2]) -> (%r) {
      %n = constant{value = -0.0} : f32[2]
      %p = add %n, %x : f32[2]
      %q = mul %p, %y : f32[2]
      %s = mul %y, %p : f32[2]
      %r = add %q, %s : f32[2]
    }""")
    graph = Edit(ir)

    def ways(pattern, node):
        return [{k: str(v) for k, v in way.items()} for way in find(pattern, graph[node], graph)]

    assert ways(x + 0, "p") == [{"x": "%x"}]
    assert ways(x + -0.0, "p") == [{"x": "%x"}]
    assert ways(x + 0.0, "p") == []
    assert ways(x + c, "p") == [{"c": "%n", "x": "%x"}]
    assert ways(x * y, "q") == [{"x": "%p", "y": "%y"}, {"x": "%y", "y": "%p"}]
    assert ways(x * y + x * z, "r") == [
        {"x": "%p", "y": "%y", "z": "%y"},
        {"x": "%y", "y": "%p", "z": "%p"},
        {"x": "%y", "y": "%p", "z": "%p"},
        {"x": "%p", "y": "%y", "z": "%y"},
    ]
    assert ways(x * x, "q") == []
    numbers = parse("""graph g(%x: u8[2]) -> (%p, %q) {
      %m = constant{value = 255} : u8[2]
      %o = constant{value = 1} : u8[2]
      %p = mul %x, %m : u8[2]
      %q = mul %x, %o : u8[2]
    }""")
    graph = Edit(numbers)
    assert ways(x * -1, "p") == [{"x": "%x"}]  # it wraps around
    assert ways(x * 1.5, "q") == []
    graph = Edit(ir)
    assert ways(op(Sin, x), "r") == []


@pytest.mark.parametrize(
    ("value", "dtype", "expected"),
    [(300, "uint8", 44), (-129, "int8", 127), (2**40, "int32", 0), (1e39, "float32", float("inf"))],
)
def test_numbers_are_rounded_and_wrapped_as_their_dtype_does(value, dtype, expected):
    assert as_value(value, DType(dtype)) == expected


def test_a_number_is_the_constant_that_a_dtype_makes_of_it():
    """As it was written, and as another rule has rounded it."""
    text = """graph g(%x: f16[2]) -> (%p, %q, %r) {
      %a = constant{value = 0.1} : f16[2]
      %b = constant{value = 0.0999755859375} : f16[2]
      %c = constant{value = 0.1001} : f16[2]
      %p = mul %x, %a : f16[2]
      %q = mul %x, %b : f16[2]
      %r = mul %x, %c : f16[2]
    }"""
    graph = Edit(parse(text))
    assert [len(list(find(x * 0.1, graph[node], graph))) for node in "pqr"] == [1, 1, 0]


def test_why_not_names_the_part_that_fails():
    ir = parse("""graph g(%x: f32[2], %y: f32[2]) -> (%r) {
      %one = constant{value = 1.0} : f32[2]
      %p = mul %x, %one : f32[2]
      %q = add %p, %y : f32[2]
      %r = mul %q, %q : f32[2]
    }""")
    zero = Rule("mul-zero", x * 0, 0, assumes={"no_nan"})
    small = Rule("small", x * c, x, condition=lambda c: c == 2)
    compiled = compile_ir(ir, RuleSet("s", zero, small, Rule("mul-one", x * 1, x)), "dce")

    def asked(one, node):
        return compiled.why_not(one, node).split("\n", 1)[1]

    assert asked("mul-zero", "q") == (
        "The pattern does not match: %q is add, where the pattern has mul: x * 0."
    )
    assert re.match(
        "The pattern does not match: %q is add, where the pattern has the constant 0",
        asked("mul-zero", "r"),
    )
    assert asked(Rule("next", (x + 1) * y, y), "r") == (
        "The pattern does not match: %y is input, where the pattern has the constant 1 (in the "
        "other order it does not fit either)."
    )
    assert asked("mul-one", "p") == "It did fire: Pass 1, s, firing 1."
    assert asked("small", "p") == (
        "The pattern matches %p, but its condition does not hold for c = 1.0, x = f32[2]."
    )
    refused = compile_ir(parse(str(ir).replace("1.0", "0.0")), zero)
    assert refused.why_not("mul-zero", "p").split("\n", 1)[1] == (
        "It matches %p, but assumes no_nan (no value is NaN), which the licence does not grant."
    )
    square = Rule("square", x * x, x)
    assert asked(square, "r") == "It matches %r, but no pass of this compile has it."
    told = str(error_of(lambda: compiled.why_not("mul-on", "p")))
    assert told == (
        "why_not: no pass of this compile has a rule or a search 'mul-on'\n"
        "hint: did you mean 'mul-one'?"
    )


def test_why_not_of_a_step_that_is_no_rule():
    ir = parse("graph g(%x: f32[2]) -> (%r) { %d = sin %x : f32[2] %r = exp2 %x : f32[2] }")

    @graph_pass
    def no_sines(ir: IR, edit: Edit) -> None:
        """Erase sines that nothing reads."""
        edit.erase("d", rule="sine")

    compiled = compile_ir(ir, "simplify", no_sines)
    told = str(error_of(lambda: compiled.why_not("sine", "r"), DefinitionError))
    assert told == (
        "why_not: 'sine' is a step of no-sines, which is written as code and does not tell why it "
        'leaves a node alone\nhint: compilation["no-sines"].firings are where it fired, and why'
    )
    assert list(compiled.rules)[:2] == ["add-zero", "add-negative-zero"]


def test_a_pattern_is_no_tensor():
    told = str(error_of(lambda: x.exp(), UnknownNameError))
    assert told.startswith("pattern: it has no 'exp': a rule is about ops")
    assert not hasattr(x, "_repr_html_")


def test_names_are_one_text_or_several():
    x, y = ll.variables("x", "y")
    assert [str(one) for one in (x, y, *ll.constants("a b"))] == ["x", "y", "a", "b"]
    assert str(error_of(lambda: ll.variables(cast(Any, 3)), DefinitionError)) == (
        'pattern: 3 is not a name\nhint: as in variables("x y")'
    )


def test_what_is_no_rule_has_no_counterexample():
    error = error_of(lambda: ll.counterexample(cast(Any, "add-zero")), ArgumentError)
    assert error.message == "counterexample: 'add-zero' is not a rule"

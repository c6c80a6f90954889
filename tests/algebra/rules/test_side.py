"""The sides of rules, read."""

import pytest

from luminal_lab.algebra.rules.side import parse_side
from luminal_lab.errors import ParseError
from luminal_lab.search import RULES


def test_a_fold_goes_as_far_as_it_can() -> None:
    fold = parse_side("sum j: a * b + c")
    assert (fold.head, fold.axis, fold.parts[0].head) == ("sum", "j", "+")
    assert parse_side("(sum j: a) * b").head == "*"


def test_the_axes_and_variables_of_a_side_are_named_once() -> None:
    side = parse_side("ratio[j](sum k: x * y) + shift[j](x)")
    assert side.axes == ("j", "k")
    assert side.variables == ("x", "y")


def test_every_rule_is_readable() -> None:
    for rule in RULES:
        before, after = rule.sides
        assert set(after.variables) <= set(before.variables), rule
        assert len(rule.before + rule.after) < 150


def test_rules_are_a_table() -> None:
    lines = str(RULES).splitlines()
    assert len(lines) == len(RULES) + 1
    (line,) = (line for line in lines if line.startswith("ratio-sum"))
    cells = [cell.strip() for cell in line.split("  ") if cell]
    assert cells == ["ratio-sum", "ratio[j](sum k: x)", "the ratio without k", "→", "ratio[j](x)"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("sum j x", "the side of a rule should end here"),
        ("a *", "a variable, a number, an op or '('"),
        ("online j: x", "'acc *'"),
        ("ratio[j](x", "')' should be here"),
    ],
)
def test_what_is_no_side_is_refused_at_its_place(text: str, message: str) -> None:
    with pytest.raises(ParseError) as caught:
        parse_side(text)
    assert message in str(caught.value)

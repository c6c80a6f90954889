"""Why a class has its nodes, and why a rule has made nothing of it."""

import pytest

import luminal_lab as ll
from luminal_lab.algebra.rules import RULES
from luminal_lab.errors import ArgumentError, GraphError
from tests.expect import error_of
from tests.search.written import attention, searched


def test_a_class_says_which_rule_made_each_of_its_nodes_of_what() -> None:
    assert searched(attention(after=0.125)).why("O") == (
        "c17: depends on i, j, needs a fold over l, m\n"
        "  sum l < 17: c16\n"
        "      as it was written\n"
        "  c13 * c24\n"
        "      made by sum-factor in round 1, which looked at c17\n"
        "what the rules said about it:\n"
        "  sum-factor, round 1: sum l < 17: c16 → c13 * c24"
    )


def test_a_class_is_found_by_its_name_an_output_or_the_text_of_a_node() -> None:
    space = searched(attention(after=0.125))
    told = {space.why(term) for term in ("O", "c17", "n25", "c13 * c24")}
    assert len(told) == 1
    error = error_of(lambda: space.why("c13 * c23"), GraphError)
    assert error.hint == "did you mean 'c13 * c24'?"
    assert error_of(lambda: space.why("c9999"), GraphError).message.startswith(
        "search: there is no class 'c9999'"
    )


@pytest.mark.parametrize(
    ("rule", "term", "reason"),
    [
        ("cascade", "c12", "cascade did fire on c12:\n  cascade, round 5: sum l < 17: c11 → "),
        ("cascade", "c3", "j not empty: this does not hold. c2 depends on i, l, m, needs "),
        ("cascade", "O", "to ratio[l](c12) no rule has an answer"),
        ("max-mul", "c19", "at max l < 17: c3: it wants a product in c3, which has none"),
        ("sum-swap", "c12", "it wants `sum k: …` in c11, which has none"),
        ("max-add", "c12", "It begins with `max j: …`, and c12 has none: sum l < 17: c11, (online"),
        ("distribute", "c9", "what it makes is there already, in c9"),
    ],
)
def test_a_rule_says_why_it_made_nothing_of_a_class(rule: str, term: str, reason: str) -> None:
    space = searched(attention(after=0.125))
    before = len(space.egraph.entered), len(space.egraph.reasons)
    assert reason in space.why_not(rule, term)
    assert before == (len(space.egraph.entered), len(space.egraph.reasons))


def test_a_rule_that_the_space_was_made_without_is_tried() -> None:
    definition = searched(attention(after=0.125)).definition
    space = ll.search.space_of(definition, RULES.without("max-mul"))
    assert "max-mul would make c" in space.why_not("max-mul", "max l < 17: c5")
    said = error_of(lambda: space.why_not("max-mull", "O"), ArgumentError)
    assert said.hint == "did you mean 'max-mul'?"

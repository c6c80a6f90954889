"""How a space came to be: the same nodes under the same numbers, round by round."""

import luminal_lab as ll
from luminal_lab.search.growth import Growth
from tests.search.written import attention, block, searched


def test_what_is_fired_again_ends_where_the_space_has_ended() -> None:
    for cx in (attention(after=0.125), attention(mask="causal"), block(n=4, width=6)):
        space = searched(cx)
        last = space.growth.rounds[-1].classes
        nodes = {number: {node for _, node in held.nodes} for number, held in last.items()}
        assert nodes == {number: {*held.nodes} for number, held in space.egraph.classes.items()}


def test_it_begins_with_what_was_written_and_each_round_brings_something_new() -> None:
    growth = searched(attention(after=0.125)).growth
    sizes = [sum(len(held.nodes) for held in each.classes.values()) for each in growth.rounds]
    assert not growth.rounds[0].unions
    assert sizes == sorted(sizes)
    assert len({*sizes}) == len(sizes) == 6


def test_a_node_knows_the_rule_that_made_it_even_if_the_rule_asked_in_vain() -> None:
    space = searched(attention(after=0.125))
    growth, first = space.growth, space.growth.rounds[0]
    written = {n for held in first.classes.values() for n, _ in held.nodes}
    assert written.isdisjoint(growth.makers)
    asked = [n for n, node in enumerate(space.egraph.entered) if "Ratio" in str(node.operator)]
    assert growth.makers[asked[0]].rule == "cascade"
    assert growth.makers[asked[0]].round == 1


def test_without_rules_there_is_only_what_was_written() -> None:
    definition = searched(attention()).definition
    assert len(Growth.of(definition, ()).rounds) == 1
    assert len(ll.search.space_of(definition, rules=()).growth.rounds) == 1

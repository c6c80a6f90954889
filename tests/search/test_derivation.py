"""Why a program is right: the firings that lead to it, each of which checks alone."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import luminal_lab as ll
from luminal_lab.algebra.defining import defined
from luminal_lab.errors import PassError
from luminal_lab.kernels.definition.definition import Definition
from luminal_lab.kernels.definition.evaluate import evaluate
from luminal_lab.search.derivation import Derivation
from tests.search.written import SPELLINGS, attention, drawn, searched


def derived(cx: ll.Graph) -> Derivation:
    """Return the derivation of the cheapest program for a graph."""
    space = searched(cx)
    return Derivation(space, space.programs()[0])


@pytest.mark.share(8)
@pytest.mark.parametrize("sizes", [(13, 17), ("n", "t")], ids=["sizes", "symbols"])
@pytest.mark.parametrize("spelling", SPELLINGS.values(), ids=[*SPELLINGS])
def test_attention_takes_few_firings_each_of_which_checks_alone(spelling: Any, sizes: Any) -> None:
    n, t = sizes
    derivation = derived(attention(**spelling, n=n, t=t))
    assert len(derivation) <= 15
    assert [firing.rule for firing in derivation].count("cascade") == 2
    for firing in derivation:
        assert isinstance(firing.before, Definition)
        assert isinstance(firing.after, Definition)
        firing.check()


def test_firings_lead_from_what_was_written_to_the_program() -> None:
    cx = attention(after=0.125)
    derivation, data = derived(cx), drawn(cx.ir, {})
    definition = derivation.space.definition
    expected: Any = evaluate(definition, data)["O"]
    before = derivation[0].before
    for firing in derivation:
        assert str(firing.before) == str(before)
        before = firing.after
        computed: Any = evaluate(before, data)["O"]
        np.testing.assert_allclose(computed, expected, rtol=2e-5, atol=2e-6)
    assert str(before) == str(defined(definition, derivation.pick))


def test_a_firing_says_what_is_equal_to_what() -> None:
    cx = ll.Graph()
    (cx.tensor((6, 17), name="x") * 2).max(-1).retrieve()
    (firing,) = derived(cx)
    assert str(firing) == "max-mul: max j < 17: x[i, j] * 2.0 → (max j < 17: x[i, j]) * 2.0"
    assert str(firing.before).endswith("O[i < 6] = max j < 17: x[i, j] * 2.0")
    assert str(firing.after).endswith("O[i < 6] = (max j < 17: x[i, j]) * 2.0")


def test_questions_about_a_step_are_written_as_rules_have_them() -> None:
    derivation = derived(attention(after=0.125))
    texts = {firing.rule: str(firing) for firing in derivation}
    assert texts["ratio-plain"] == "ratio-plain: ratio[l](v[l, j]) → 1.0"
    assert "→ (online l: acc * [ratio[l](exp2(" in texts["cascade"]


def test_a_wrong_firing_is_found() -> None:
    derivation = derived(attention(after=0.125))
    firing = next(one for one in derivation if one.rule == "max-mul")
    wrong = replace(firing, reason=firing.reason._replace(second=derivation.space.outputs["O"]))
    with pytest.raises(PassError, match=r"firing of max-mul: max l < 17: .* is not "):
        wrong.check()


def test_what_was_written_needs_no_derivation() -> None:
    cx = ll.Graph()
    cx.tensor((6, 17), name="x").sum(-1).retrieve()
    derivation = derived(cx)
    assert len(derivation) == 0
    assert str(derivation) == "nothing fired: this is what was written"


def test_changes_are_compared_against_what_has_changed() -> None:
    cx = ll.Graph()
    q, k, v = (
        cx.tensor((size, 64), name=name) for size, name in (("n", "q"), ("t", "k"), ("t", "v"))
    )
    scores = (q @ k.T) * 0.125
    weights = (scores - scores.max(-1, keepdim=True)).exp()
    ((weights / weights.sum(-1, keepdim=True)) @ v).retrieve()
    for firing in derived(cx):
        firing.check()

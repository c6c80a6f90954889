"""How the kernels of a search came of what was written: rules, then steps, each of which checks."""

from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

import luminal_lab as ll
from luminal_lab.errors import PassError, RangeError
from luminal_lab.kernels.definition.canonical import canonical
from luminal_lab.kernels.definition.programs import nameless
from luminal_lab.kernels.definition.running import scores_inlined
from luminal_lab.kernels.definition.text import parse_definition
from luminal_lab.kernels.nest.lowering import lower
from luminal_lab.kernels.steps.applied import applied
from luminal_lab.kernels.steps.schedule import parse_schedule
from luminal_lab.search.derivation import Firing
from luminal_lab.search.derived import KernelDerivation, LoopStep, by_rules, derivation_of
from luminal_lab.search.graph import ProgramSearch
from tests.search.planted import by_form
from tests.search.written import attention
from tests.viz.searches import of


def rms_norm_product() -> ll.Graph:
    """Return an RMS norm before a product."""
    cx = ll.Graph("norm")
    x, w = cx.tensor((6, 17), name="x"), cx.tensor((17, 9), name="w")
    ((x * ((x * x).mean(-1, keepdim=True) + 1e-5).rsqrt()) @ w).retrieve()
    return cx


def log_softmax() -> ll.Graph:
    """Return a log-softmax."""
    cx = ll.Graph("rows")
    cx.tensor((6, 17), name="x").log_softmax(-1).retrieve()
    return cx


def matmul() -> ll.Graph:
    """Return a product."""
    cx = ll.Graph("product")
    (cx.tensor((40, 30), name="a") @ cx.tensor((30, 50), name="b")).retrieve()
    return cx


REGIONS: dict[str, Any] = {
    "attention": lambda: attention(after=0.125),
    "causal": lambda: attention(after=0.125, mask="causal"),
    "windowed": lambda: attention(after=0.125, mask="window"),
    "with bias": lambda: attention(after=0.125, bias=True),
    "log-softmax": log_softmax,
    "RMS norm and a product": rms_norm_product,
    "product": matmul,
}


def replayed(part: KernelDerivation) -> tuple[str, str]:
    """Return what a kernel computes and its nest, made again from the texts of its derivation."""
    definition, steps = part.kernel.definition, [step for step in part if is_step(step)]
    assert definition is not None
    written = parse_definition(str(part.written))
    computed = written if part.rules is None else None
    again = by_rules(written, definition)
    if again is not None:
        assert [step.rule for step in again] == [step.rule for step in part if not is_step(step)]
        computed = again[-1].after
    computed = replace(computed or definition, name=part.kernel.name)
    text = nameless(canonical(scores_inlined(computed)))
    if scores_inlined(definition) != definition:
        return text, ""
    schedule = parse_schedule("\n".join(step.rule for step in steps))
    return text, str(applied(schedule, lower(computed), "again").end)


def is_step(step: Firing | LoopStep) -> bool:
    return isinstance(step, LoopStep)


@pytest.mark.parametrize("region", REGIONS.values(), ids=[*REGIONS])
def test_the_steps_lead_from_what_was_written_to_every_candidates_kernels(region: Any) -> None:
    search = of(region(), count=8, worker=by_form)
    for kernel_search in search.kernels.values():
        for form in {one.form.name: one for one in kernel_search.candidates}.values():
            for part in derivation_of(form, kernel_search.definition).parts:
                for before, after in pairwise(part):
                    if is_step(before) == is_step(after):
                        assert str(before.after) == str(after.before)
                rules = [step for step in part if not is_step(step)]
                assert all(map(is_step, part[len(rules) :]))
                definition, nest = part.kernel.definition, part.kernel.nest
                assert definition is not None
                plain = scores_inlined(definition)
                if rules or nameless(part.written) == nameless(definition):
                    computed, made = replayed(part)
                    assert computed == nameless(canonical(plain))
                    # Where scores have a line of their own, no rule has put them there.
                    assert plain != definition or made == str(nest)


@pytest.mark.parametrize("region", ["attention", "product"])
def test_each_step_of_the_best_checks_alone(region: str) -> None:
    derivation = of(REGIONS[region](), count=8, worker=by_form).derivation
    assert any(map(is_step, derivation))
    for step in derivation:
        step.check()


def test_attention_is_at_most_fifteen_firings_and_then_steps() -> None:
    search = of(attention(after=0.125), count=8, worker=by_form)
    (part,) = search.derivation.parts
    rules = [step.rule for step in part if not is_step(step)]
    assert rules.count("cascade") == 2
    assert len(rules) <= 15
    assert f"{part.kernel.name}: {len(rules)} firings, then" in str(search.derivation)


def test_a_step_that_changes_what_is_computed_is_found() -> None:
    (part,) = of(matmul(), count=4, worker=by_form).derivation.parts
    first, second = (step for step in part[:2] if isinstance(step, LoopStep))
    other = replace(first, change=replace(first.change, after=second.after))
    with pytest.raises(PassError, match=f"step `{first.rule}` of matmul makes another nest"):
        other.check()


def test_what_is_not_there_is_said() -> None:
    derivation = of(matmul(), count=4, worker=by_form).derivation
    with pytest.raises(RangeError, match="derivation: there is no step 99; there are"):
        _ = derivation[99]
    assert str(derivation[-1]) == str(derivation[len(derivation) - 1])


def test_a_search_from_a_winner_has_the_same_derivation() -> None:
    fresh = of(attention(after=0.125), count=8, worker=by_form)
    (name,) = fresh.kernels
    search = replace(fresh.kernels[name], programs={})
    assert str(ProgramSearch(fresh.device, {name: search}, fresh.counts, fresh.ir).derivation) == (
        str(fresh.derivation)
    )


def test_what_a_compile_makes_by_default_has_its_rules_too() -> None:
    cx = attention(after=0.125)
    cx.compile(ll.GenericCompiler(), ll.CPUCompiler())
    (part,) = cx.derivation.parts
    assert "cascade" in [step.rule for step in part]
    assert [shot.name for shot in cx.workbench().subjects[0].snapshots][-1] == "depth-first"

"""Searches, candidates and spaces as HTML: all that they say, nothing that runs."""

from dataclasses import replace

import pytest

import luminal_lab as ll
from luminal_lab.io.search_gather import search_facts
from luminal_lab.search.candidates import seconds_text
from luminal_lab.viz.search_chart import search_chart
from luminal_lab.viz.search_pages import facts_page, headline
from tests.viz.graphs import HOSTILE
from tests.viz.searches import BROKEN, LARGE, STEP, of_a_kernel, of_a_program, of_a_region
from tests.viz.test_pages import Read


@pytest.fixture(scope="module")
def kernel_search():
    return of_a_kernel()


@pytest.fixture(scope="module")
def program_search():
    return of_a_program()


def test_a_search_shows_what_it_came_to(kernel_search):
    bundle = kernel_search._repr_mimebundle_()
    read = Read(bundle["text/html"])
    assert bundle["text/plain"] == str(kernel_search)
    best, default = kernel_search.best, kernel_search.default
    factor = default.seconds / best.seconds
    assert f"{factor:.2f} × as fast as the default" in read.text
    assert "48 candidates in " in read.text
    assert "ended: the budget is spent" in read.text
    assert str(kernel_search.definition) in read.text
    assert best.text in read.text


def test_it_is_static(kernel_search):
    html = kernel_search.display().html
    assert not Read(html).tags & {"script", "iframe", "link", "object", "form"}
    assert "http" not in html
    assert html.count("data:image/svg+xml") == 1


def test_the_fastest_come_first_and_the_default_is_there(kernel_search):
    html = kernel_search.display().html
    table = html[html.index("the fastest") : html.index("failed or refused")]
    ordered = sorted(
        (one for one in kernel_search.candidates if one.ratio and one.number),
        key=lambda one: one.ratio,
    )
    places = [table.index(f">{one.ratio:.3f}<") for one in ordered[:10]]
    assert places == sorted(places)
    assert ">default<" in table


def test_what_failed_is_there_with_its_reason(kernel_search):
    text = Read(kernel_search.display().html).text
    errors = [one for one in kernel_search.candidates if one.error]
    assert f"; {len(errors)} failed or were refused: " in text
    for reason in (LARGE, BROKEN, f"from {STEP} on"):
        assert reason in text


def test_what_steps_refused_is_counted(kernel_search):
    text = Read(kernel_search.display().html).text
    why = next(iter(kernel_search.refusals))
    assert f"{sum(kernel_search.refusals.values())} schedule" in text
    assert why in text


def test_a_program_names_its_kernels(program_search):
    text = Read(program_search.display().html).text
    for name, kernel in program_search.kernels.items():
        assert f"the best {name}: definition and schedule" in text
        assert str(kernel.best.definition) in text


def test_what_is_not_searched_is_said(program_search):
    facts = replace(search_facts(program_search), skipped={"copy": "no schedule makes it"})
    assert "copy is not searched: no schedule makes it" in [*headline(facts)]


def test_where_nothing_is_faster_that_is_said(kernel_search):
    facts = search_facts(kernel_search)
    alone = replace(facts, candidates=facts.candidates[:1])
    assert next(headline(alone)).startswith("200 µs: nothing is faster than the default")


def test_reasons_and_names_stay_text(kernel_search):
    facts = search_facts(kernel_search)
    rows = [replace(one, why=HOSTILE, origin=HOSTILE, step=HOSTILE) for one in facts.candidates]
    kernel = replace(facts.kernels[0], definition=HOSTILE, ended=HOSTILE, refusals={HOSTILE: 2})
    page = facts_page(replace(facts, title=HOSTILE, candidates=(*rows,), kernels=(kernel,)), "")
    assert "script" not in Read(page.html).tags


def test_themes_have_a_ground_of_their_own(kernel_search):
    assert "#0d1117" in kernel_search.display(theme="dark").html
    with pytest.raises(ll.errors.ArgumentError, match="the theme is"):
        kernel_search.display(theme="odd")


def test_candidates_are_a_table(kernel_search):
    candidates = kernel_search.candidates
    read = Read(candidates._repr_mimebundle_()["text/html"])
    assert {"table", "th", "td"} <= read.tags
    assert f"refused: {LARGE}" in read.text


def test_a_candidate_shows_its_steps(kernel_search):
    wrong = next(one for one in kernel_search.candidates if one.step)
    text = Read(wrong._repr_mimebundle_()["text/html"]).text
    assert wrong.text in text
    assert wrong.why in text
    assert f"after `{STEP}` its values are wrong" in text


def test_a_best_program_shows_each_region(program_search):
    text = Read(program_search.best._repr_mimebundle_()["text/html"]).text
    for region in program_search.best.regions.values():
        assert region.text in text


def test_forms_are_told_apart():
    search = of_a_region()
    facts = search_facts(search)
    (kernel,) = facts.kernels
    assert len(kernel.forms) > 1
    assert search.unfused.seconds is not None
    assert facts.unfused_seconds == pytest.approx(search.unfused.seconds)
    text = Read(search.display().html).text
    assert f"; all apart {seconds_text(search.unfused.seconds)}" in text
    assert any(f"{form.name}; " in text for form in kernel.forms[1:])
    best = search.kernels[kernel.name].best
    for definition in best.form.definitions:
        assert str(definition) in text
    svg = search_chart(facts).svg
    assert ">the fastest with kernels apart</text>" in svg
    assert ">apart " in svg


def test_what_was_modelled_says_so(kernel_search):
    facts = search_facts(kernel_search)
    kernel = replace(facts.kernels[0], model="an H100")
    lines = [*headline(replace(facts, kernels=(kernel,)))]
    assert lines[0].startswith("~200 µs → ~")
    assert "nothing was measured: times are those of a model of an H100" in lines


def test_a_space_and_its_programs_show_rules_and_definitions():
    cx = ll.Graph("softmax")
    cx.tensor((4, 8), name="x").softmax(-1).retrieve()
    space = ll.search.space_of(cx.ir)
    text = space._repr_mimebundle_()["text/plain"]
    fired = [rule for rule, times in space.report.firings.items() if times]
    assert fired
    assert all(rule in text for rule in fired)
    *_, best = ll.search.judged_programs(space)
    shown = Read(best._repr_mimebundle_()["text/html"]).text
    assert str(best.definition) in shown

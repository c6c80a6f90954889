"""A search as a picture: a sign for each candidate, lines for what it is held against."""

import re
from dataclasses import replace

import pytest

from luminal_lab.io.search_facts import CandidateFacts, KernelSearchFacts, SearchFacts
from luminal_lab.io.search_gather import search_facts
from luminal_lab.viz.search_chart import BLUE, FAR, GREY, LINES, search_chart, ticks
from tests.viz.graphs import HOSTILE
from tests.viz.searches import of_a_kernel, of_a_program


def facts_of(*seconds: float, limit: float | None = None) -> SearchFacts:
    """Return a search whose candidates take so long, the default first."""
    rows = [
        CandidateFacts(0, at, "slower" if at else "default", seconds=time, ratio=time / seconds[0])
        for at, time in enumerate(seconds)
    ]
    best = min(range(len(rows)), key=lambda at: seconds[at])
    rows[best] = replace(rows[best], state="fastest")
    kernel = KernelSearchFacts("mm", "kernel mm", limit=limit, bound="FMA" if limit else "")
    return SearchFacts("mm", (kernel,), tuple(rows))


def drawn(svg: str, look: str) -> list[str]:
    """Return the data of the paths that look so."""
    return re.findall(rf'<path [^>]*{re.escape(look)}[^>]* d="([^"]*)"', svg)


def test_each_candidate_has_the_sign_of_its_state():
    facts = search_facts(of_a_kernel())
    states = [one.state for one in facts.candidates]
    svg = search_chart(facts).svg
    discs = drawn(svg, f'stroke="{BLUE}" stroke-width="5.5"')[0]
    assert discs.count("M") == states.count("slower")
    rings = drawn(svg, f'stroke="{GREY}"')[0]
    assert rings.count("M") == states.count("stopped")
    for state in set(states):
        assert f">{state} {states.count(state)}</text>" in svg


def test_lines_are_named_where_they_end():
    svg = search_chart(facts_of(2e-3, 3e-3, 1e-3, limit=5e-4)).svg
    assert ">default 2 ms</text>" in svg
    assert ">best 1 ms</text>" in svg
    assert ">limit 500 µs</text>" in svg
    assert "the machine&#x27;s limit (FMA)" in svg
    assert len(drawn(svg, LINES["limit"])) == 2  # the line, and its sign in the legend


def test_without_rates_there_is_no_limit():
    svg = search_chart(facts_of(2e-3, 1e-3)).svg
    assert "limit" not in svg


def test_a_limit_far_below_everything_takes_no_room():
    near, far = facts_of(2e-3, 1e-3), facts_of(2e-3, 1e-3, limit=1e-3 / FAR / 2)
    svg = search_chart(far).svg
    assert ">limit 62.5 µs ↓</text>" in svg
    assert len(drawn(svg, LINES["limit"])) == 1
    assert drawn(svg, LINES["best"])[0] == drawn(search_chart(near).svg, LINES["best"])[0]


def test_the_best_so_far_only_falls():
    svg = search_chart(facts_of(4e-3, 5e-3, 2e-3, 3e-3, 1e-3)).svg
    assert drawn(svg, LINES["best"])[0].count("V") == 2


def test_what_takes_far_too_long_stands_at_the_top():
    usual, one = facts_of(2e-3, 1e-3, 4e-3), facts_of(2e-3, 1e-3, 40.0)
    assert "s</text>" in search_chart(usual).svg
    assert ">10 s</text>" not in search_chart(one).svg
    assert ">10 ms</text>" in search_chart(one).svg


def test_several_kernels_have_a_band_each_and_shares_of_their_default():
    facts = search_facts(of_a_program())
    svg = search_chart(facts).svg
    for kernel in facts.kernels:
        assert f">{kernel.name}</text>" in svg
    assert "as a share of the default" in svg
    assert len(drawn(svg, LINES["default"])) == 1 + len(facts.kernels)


@pytest.mark.parametrize("seconds", [(2e-3,), (2e-3, 2e-3), (1e-9, 1e3)])
def test_few_or_equal_or_distant_times_have_a_picture(seconds: tuple[float, ...]):
    picture = search_chart(facts_of(*seconds))
    assert "nan" not in picture.svg
    assert picture.text.startswith("Candidates of mm by time: ")


def test_a_kernel_without_any_time_has_a_picture():
    row = CandidateFacts(0, 0, "fastest")
    facts = SearchFacts("mm", (KernelSearchFacts("mm", "kernel mm"),), (row,))
    assert "fastest 1" in search_chart(facts).svg


def test_names_stay_text():
    facts = search_facts(of_a_program())
    kernels = tuple(replace(kernel, name=HOSTILE) for kernel in facts.kernels)
    svg = search_chart(replace(facts, title=HOSTILE, kernels=kernels)).svg
    assert "<script" not in svg


def test_equal_facts_make_equal_pictures():
    facts = search_facts(of_a_kernel())
    assert search_chart(facts) == search_chart(facts)
    assert search_chart(facts, "dark").svg != search_chart(facts, "light").svg


@pytest.mark.parametrize(
    ("low", "high", "numbers"),
    [
        (1e-6, 1e-3, [1e-6, 1e-5, 1e-4, 1e-3]),
        (0.45, 1.1, [0.5, 0.7, 1.0]),
        (0.95, 1.05, [0.96, 0.98, 1.0, 1.02, 1.04]),
    ],
)
def test_ticks_are_round(low: float, high: float, numbers: list[float]):
    assert ticks(low, high) == pytest.approx(numbers)

"""A search as plain values: what goes into a file comes out of it, and nothing that cannot be."""

import json
from typing import Any

import pytest

from luminal_lab.io.facts import Facts
from luminal_lab.io.search_facts import SearchFacts
from luminal_lab.io.search_gather import search_facts
from tests.viz.searches import of_a_kernel, of_a_program


@pytest.fixture(scope="module")
def facts() -> SearchFacts:
    return search_facts(of_a_program())


def test_facts_are_those_of_the_search():
    search = of_a_program()
    facts = search_facts(search)
    assert [kernel.name for kernel in facts.kernels] == [*search.kernels]
    assert [one.schedule for one in facts.candidates] == [one.text for one in search.candidates]
    assert facts.best_seconds == pytest.approx(search.best.seconds)
    assert facts.default_seconds == pytest.approx(search.default.seconds)
    assert sum(map(len, facts.errors.values())) == sum(
        one.error is not None for one in search.candidates
    )


def test_of_a_kernel_they_are_of_one_kernel():
    search = of_a_kernel()
    facts = search_facts(search)
    assert facts.title == "mm"
    assert facts.best[0].number == search.best.number
    assert facts.kernels[0].answers == tuple(search.answers)
    assert facts.refusals == search.refusals


def test_they_come_back_from_json(facts: SearchFacts):
    whole = Facts(search=facts)
    assert Facts.from_json(json.loads(json.dumps(whole.to_json()))) == whole


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda given: given["candidates"][1].update(kernel=7),
            r"kernel is 7, which is not from 0 to 1",
        ),
        (
            lambda given: given["candidates"][1].update(kernel=-1),
            r"kernel is -1, which is not from 0 to 1",
        ),
        (lambda given: given["candidates"][1].update(state="won"), "state is 'won'"),
        (lambda given: given["candidates"][1].update(seconds=-1.0), "which nothing takes"),
        (lambda given: given["candidates"][1].update(ratio=0.0), "which nothing takes"),
        (lambda given: given["candidates"][1].update(seconds=1e300), "which nothing takes"),
        (lambda given: given["candidates"][1].update(number=1 << 70), "which is not from 0 to"),
        (lambda given: given["candidates"].pop(0), "has no default"),
        (lambda given: given["kernels"][0].update(launches=-1), "launches or refusals is -1"),
        (lambda given: given["kernels"][0].update(seconds=-1.0), "seconds is -1, which nothing"),
        (lambda given: given["kernels"][0].update(limit=0.0), "limit is 0, which nothing takes"),
        (
            lambda given: given["kernels"][0].update(refusals={"": 1 << 80}),
            "launches or refusals is",
        ),
        (lambda given: given.update(kernels=[], candidates=[]), "has no kernel"),
        (lambda given: given["kernels"][0].update(name=3), "name is 3, not a text"),
    ],
)
def test_what_contradicts_itself_is_refused(facts: SearchFacts, change: Any, message: str):
    given = json.loads(json.dumps(Facts(search=facts).to_json()))
    change(given["search"])
    with pytest.raises(ValueError, match=message):
        Facts.from_json(given)

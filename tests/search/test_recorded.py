"""A search that is repeated from what another one was told."""

import json

from luminal_lab.search.loops import Budget, KernelSearch, search_kernel
from luminal_lab.search.recorded import AGAIN, Recorded, digest, record_of
from tests.search.planted import guess, matmul, tiles


def searched(worker: object = guess, seed: int = 3) -> KernelSearch:
    options = {"plan": tiles, "budget": Budget(candidates=40), "worker": worker, "seed": seed}
    return search_kernel(matmul(70, 60, 50), **options)


def test_a_search_is_repeated_from_its_record() -> None:
    search = searched()
    record = json.loads(json.dumps(record_of(search)))
    again = searched(Recorded(record))
    assert [one.text for one in again.candidates] == [one.text for one in search.candidates]
    assert [one.state for one in again.candidates] == [one.state for one in search.candidates]
    assert again.best.text == search.best.text
    assert again.best.ratio == record[digest(search.best.text) + AGAIN]


def test_what_failed_keeps_its_reason_and_what_nobody_measured_fails() -> None:
    search = searched()
    first = search.candidates[1].text
    record = {**record_of(search), digest(first): "it never ends"}
    again = searched(Recorded(record))
    assert (again.candidates[1].state, again.candidates[1].why) == ("failed", "it never ends")
    other = searched(Recorded(record_of(search)), seed=4)
    assert "nobody has measured it" in {one.why for one in other.candidates}

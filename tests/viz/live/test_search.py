"""A search, alive: the columns that the page reads, what it asks for, and what follows a search."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import luminal_lab as ll
from luminal_lab.core.origin import LabWarning
from luminal_lab.errors import ArgumentError, DeviceError
from luminal_lab.search.loops import Budget
from luminal_lab.viz.live import search as module
from luminal_lab.viz.live.columns import read
from luminal_lab.viz.live.search import SearchExplorer
from tests.needs import need
from tests.viz.searches import of_a_kernel, of_a_program


@pytest.fixture(scope="module")
def explorer() -> SearchExplorer:
    explorer = of_a_program().explore()
    assert isinstance(explorer, SearchExplorer)
    return explorer


@pytest.fixture
def _alive() -> None:
    need("anywidget", "script")


def test_each_candidate_is_an_entry_of_every_column(explorer: SearchExplorer):
    candidates, bundle = explorer.search.candidates, read(explorer.data)
    assert {len(column) for column in bundle.columns.values()} == {len(candidates)}
    assert bundle.texts("schedule") == [one.text for one in candidates]
    assert bundle.texts("why") == [one.why for one in candidates]
    states = [bundle.header["states"][at] for at in bundle.columns["state"]]
    assert states == [one.state for one in candidates]
    seconds = bundle.columns["seconds"]
    known = [one.seconds is not None for one in candidates]
    assert (np.isfinite(seconds) == known).all()
    names = [kernel["name"] for kernel in bundle.header["kernels"]]
    assert names == [kernel.name for kernel in explorer.facts.kernels]
    assert not any(bundle.texts("source"))


def test_a_page_has_the_sources_of_the_best_and_of_the_defaults(
    explorer: SearchExplorer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    bundles: list[bytes] = []
    monkeypatch.setattr(module, "write_page", lambda _, given: bundles.append(given.data))
    explorer.export(tmp_path / "page.html")
    bundle = read(bundles[0])
    states = [bundle.header["states"][at] for at in bundle.columns["state"]]
    for state, nest, source in zip(
        states, bundle.texts("nest"), bundle.texts("source"), strict=True
    ):
        is_shown = state in ("fastest", "default")
        assert nest.startswith("nest ") == is_shown
        assert ("kernel_" in source) == is_shown


def test_a_page_asks_for_a_nest_and_a_source(explorer: SearchExplorer):
    candidate = explorer.search.candidates[1]
    reply = explorer.answer({"ask": "kernel", "candidate": 1})
    assert reply == {"nest": str(candidate.kernels[0].nest), "source": candidate.source}


@pytest.mark.parametrize("number", [-1, 10_000, "1", None, 1.5])
def test_what_there_is_not_is_no_candidate(explorer: SearchExplorer, number: object):
    assert "there is no candidate" in explorer.answer({"candidate": number})["error"]


def test_a_schedule_that_does_not_apply_is_said(tmp_path: Path):
    search = of_a_kernel(8)
    wrong = search.candidates[1]
    object.__setattr__(wrong, "text", "split q by 4")
    explorer = SearchExplorer(search)
    explorer._candidate = lambda _: wrong  # pyright: ignore[reportAttributeAccessIssue]  # a stranger's
    assert "split q by 4" in explorer.answer({"candidate": 1})["error"]


def test_it_says_how_it_is_seen(explorer: SearchExplorer):
    assert repr(explorer).startswith("<search of head: ")
    assert "data-ll-static" in explorer.static("data-ll-static")
    with pytest.raises(ArgumentError, match="is not an HTML file"):
        explorer.export("page.txt")


@pytest.mark.usefixtures("_alive")
def test_the_widget_follows_a_search_that_goes_on(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "EVERY", 0.0)
    search = of_a_kernel(16)
    explorer = SearchExplorer(search)
    widget: Any = explorer.widget
    sizes: list[int] = []
    widget.observe(lambda change: sizes.append(len(read(change["new"]).columns["kernel"])), "data")
    search.resume(Budget(candidates=32))
    assert sizes[:2] == [33, 49]
    assert sizes[-1] == len(search.candidates)


@pytest.mark.usefixtures("_alive")
def test_a_candidate_is_chosen_here_and_there():
    search = of_a_kernel(8)
    explorer = SearchExplorer(search)
    assert explorer.selected is None
    explorer.select(search.candidates[3])
    assert explorer.widget.selection == {"candidate": 3}
    explorer.widget.selection = {"candidate": 5}
    assert explorer.selected == search.candidates[5]
    with pytest.raises(ArgumentError, match="is not a candidate of this search"):
        explorer.select(of_a_kernel(40).candidates[40])


# -- while it runs ---------------------------------------------------------------------------------


class Shown:
    """IPython's `display`, and what becomes of what it shows."""

    def __init__(self) -> None:
        self.shown: list[object] = []
        self.updates: list[Any] = []

    def __call__(self, thing: object, **_: object) -> "Shown":
        self.shown.append(thing)
        return self

    def update(self, thing: object, **_: object) -> None:
        self.updates.append(thing)


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> Shown:
    """A notebook, in which nothing waits before it is shown."""
    need("IPython")
    shown = Shown()
    monkeypatch.setattr(module, "outputs", lambda: shown)
    monkeypatch.setattr(module, "AFTER", 0.0)
    monkeypatch.setattr(module, "EVERY", 0.0)
    return shown


@pytest.mark.usefixtures("_alive")
def test_a_search_is_shown_while_it_runs_and_nothing_stays(shown: Shown):
    search = of_a_program()
    assert [type(one).__name__ for one in shown.shown] == ["LabWidget"]
    assert shown.updates == [{"text/html": "", "text/plain": ""}]
    assert not any(kernel.watchers for kernel in search.kernels.values())


def test_without_widgets_it_is_a_page_again_and_again(
    shown: Shown, monkeypatch: pytest.MonkeyPatch
):
    def missing(*_: object, **__: object) -> None:
        raise DeviceError("no anywidget")

    monkeypatch.setattr(module, "new_widget", missing)
    of_a_program()
    pages = [*shown.shown, *shown.updates[:-1]]
    assert len(pages) > 1
    assert all("the fastest" in page["text/html"] for page in pages)
    assert shown.updates[-1] == {"text/html": "", "text/plain": ""}


def test_a_picture_that_fails_ends_no_search(shown: Shown, monkeypatch: pytest.MonkeyPatch):
    def broken(*_: object, **__: object) -> None:
        raise ValueError("no such colour")

    monkeypatch.setattr(module, "new_widget", broken)
    with pytest.warns(LabWarning, match="it goes on, but cannot be shown meanwhile: no such col"):
        search = of_a_program()
    assert len(search.candidates) == 26
    assert shown.shown == []


def test_a_short_search_is_not_shown(shown: Shown, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "AFTER", 1e6)
    of_a_program()
    assert (shown.shown, shown.updates) == ([], [])


def test_a_recorded_search_is_explored(tmp_path: Path):
    search = of_a_program()
    search.save(tmp_path / "s.lab")
    recorded = ll.open(tmp_path / "s.lab").search
    explorer = recorded.explore()
    assert isinstance(explorer, SearchExplorer)
    bundle = read(explorer.data)
    assert bundle.texts("schedule") == [one.text for one in search.candidates]
    assert any(bundle.texts("source"))

"""A search, live: candidates as they come, and all that there is of the one that is chosen.

A cell ends in a `SearchExplorer`, which shows the page of `viz/search_pages.py` where no script
runs. While a search runs in a notebook, `shown_meanwhile` shows one, and takes it away at its end.
"""

from __future__ import annotations

import html
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, TypeAlias
from uuid import uuid4

from typing_extensions import override

from luminal_lab.core.origin import warn
from luminal_lab.display import Theme
from luminal_lab.errors import ArgumentError, DeviceError, LabError, is_circumstance, whole_number
from luminal_lab.io.recorded_search import RecordedSearch
from luminal_lab.io.search_facts import STATES, SearchFacts
from luminal_lab.io.search_gather import search_facts, texts_of
from luminal_lab.search.candidates import Candidate
from luminal_lab.search.graph import ProgramSearch
from luminal_lab.search.loops import KernelSearch
from luminal_lab.viz.live.columns import Columns
from luminal_lab.viz.live.export import Exported, check_name, write_page
from luminal_lab.viz.live.notebook import outputs, with_widget
from luminal_lab.viz.live.static import new_widget
from luminal_lab.viz.search_pages import facts_page, headline, numbers_of, what

if TYPE_CHECKING:
    from luminal_lab.viz.live.widget import LabWidget

WHAT = "search"
AFTER = 1.0
"""The seconds that a search runs before it is shown."""
EVERY = 0.5
"""The seconds between two pictures while it runs."""
Searched: TypeAlias = ProgramSearch | KernelSearch | RecordedSearch


class SearchExplorer:
    """A search as a live picture; one that goes on is shown as it goes."""

    def __init__(self, search: Searched) -> None:
        self.search = search
        self._widget: LabWidget | None = None
        self._shown = 0.0
        for kernel in _kernels(search):
            kernel.watchers.append(self.follow)

    @property
    def facts(self) -> SearchFacts:
        """What is known of the search now."""
        if isinstance(self.search, RecordedSearch):
            return self.search.facts
        return search_facts(self.search)

    @property
    def data(self) -> bytes:
        """The bundle that the front end reads."""
        return bundle_of_search(self.facts)

    @property
    def widget(self) -> LabWidget:
        """The widget, made on first use; it can go into ipywidgets' boxes."""
        if self._widget is None:
            self._widget = new_widget(self.answer, what=WHAT, data=self.data, picture=uuid4().hex)
        return self._widget

    def follow(self) -> None:
        """Show what has come meanwhile."""
        if self._widget is not None and monotonic() - self._shown >= EVERY:
            self.renew()

    def renew(self) -> None:
        """Show what there is now."""
        if self._widget is not None:
            self._widget.data = self.data
            self._shown = monotonic()

    def answer(self, message: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the nest and the source of a candidate, which a page asks for."""
        try:
            nest, source = texts_of(self._candidate(message.get("candidate")))
        except LabError as error:
            return {"error": str(error)}
        except Exception as error:
            if is_circumstance(error):
                raise
            return {"error": f"It cannot be made: {error}"}
        return {"nest": nest, "source": source}

    def _candidate(self, number: object) -> Candidate:
        candidates = self.search.candidates
        at = whole_number(number)
        if at is None or not 0 <= at < len(candidates):
            raise ArgumentError(f"search: there is no candidate {number!r}")
        return candidates[at]

    @property
    def selected(self) -> Candidate | None:
        """The candidate on show; None for the best."""
        at = {} if self._widget is None else self._widget.selection
        return self._candidate(at["candidate"]) if "candidate" in at else None

    def select(self, candidate: Candidate) -> None:
        """Show a candidate of the search."""
        rows = [(one.definition.name, one.number) for one in self.search.candidates]
        name = candidate.definition.name, candidate.number
        if name not in rows:
            raise ArgumentError(f"select: {candidate!r} is not a candidate of this search")
        self.widget.selection = {"candidate": rows.index(name)}

    # -- shown -------------------------------------------------------------------------------------

    def static(self, mark: str = "", theme: Theme = "auto") -> str:
        """Return the page that needs no script, with an attribute."""
        return f"<div {mark}>{facts_page(self.facts, '', theme=theme).html}</div>"

    def export(self, path: str | Path, *, theme: Theme = "auto") -> Path:
        """Write one HTML page that needs no server, network or kernel, and return its path.

        Of the best and of the default it has the nests and sources, too.
        """
        check_name(path)
        facts = self.facts
        if not isinstance(self.search, RecordedSearch):
            facts = search_facts(self.search, whole=True)
        static = self.static("data-ll-static", theme)
        return write_page(path, Exported(WHAT, str(self), bundle_of_search(facts), static, theme))

    def display(self) -> None:
        """Show it now: in a notebook as a cell's last line would, elsewhere as text."""
        if outputs() is None:
            print(self)  # it was asked for
        else:
            self._ipython_display_()

    def _ipython_display_(self) -> None:
        show = outputs()
        if show is None:
            raise NotImplementedError  # IPython then shows the repr
        try:
            widget = self.widget
        except DeviceError:
            # Show what needs no widget before the error says what is missing.
            show({"text/html": self.static(), "text/plain": str(self)}, raw=True)
            raise
        mark = f'data-ll-for="{html.escape(widget.picture)}"'
        show({"text/html": with_widget(self.static(mark), mark), "text/plain": str(self)}, raw=True)
        show(widget)

    @override
    def __str__(self) -> str:
        facts = self.facts
        return f"search of {facts.title}: {len(facts.candidates):,} candidates"

    @override
    def __repr__(self) -> str:
        return f'<{self}; a notebook shows them, .export("page.html") writes them as a page>'


def _kernels(search: Searched) -> Sequence[KernelSearch]:
    """Return the searches that may go on."""
    if isinstance(search, KernelSearch):
        return [search]
    return [*search.kernels.values()] if isinstance(search, ProgramSearch) else []


def bundle_of_search(facts: SearchFacts) -> bytes:
    """Return a search as bytes for the page."""
    columns, rows = Columns(), facts.candidates
    missing = float("nan")
    columns.put("kernel", "u32", [one.kernel for one in rows])
    columns.put("number", "u32", [one.number for one in rows])
    columns.put("state", "u8", [STATES.index(one.state) for one in rows])
    columns.put("seconds", "f64", [one.seconds or missing for one in rows])
    columns.put("ratio", "f64", [one.ratio or missing for one in rows])
    for name in ("why", "step", "origin", "schedule", "nest", "source"):
        columns.put(name, "u32", columns.texts(getattr(one, name) for one in rows))
    columns.put("what", "u32", columns.texts(what(facts, one) for one in rows))
    forms = [
        ["\n\n".join(stage.text for stage in form.stages) for form in kernel.forms]
        for kernel in facts.kernels
    ]
    columns.put("definition", "u32", columns.texts(forms[one.kernel][one.form] for one in rows))
    numbers = (numbers_of(facts, one, one.choices) for one in rows)
    columns.put("choices", "u32", columns.texts(numbers))
    header = {
        "what": WHAT,
        "title": facts.title,
        "headline": [*headline(facts)],
        "states": STATES,
        "mark": "~" if facts.model else "",
        "kernels": [
            {
                "name": kernel.name,
                "launches": kernel.launches,
                "limit": kernel.limit,
                "bound": kernel.bounded_by,
                "unfused": kernel.unfused,
            }
            for kernel in facts.kernels
        ],
    }
    return columns.to_bytes(header, compressed=True)


# -- while it runs ---------------------------------------------------------------------------------


class _Meanwhile:
    """What a cell shows while a search runs: a widget, or a page again and again."""

    def __init__(self, search: ProgramSearch | KernelSearch) -> None:
        self.explorer = SearchExplorer(search)
        self._begin = self._shown = monotonic()
        self._handle: Any = None
        self._is_broken = False

    def follow(self) -> None:
        """Show what has come, after the first second and not too often."""
        show, now = outputs(), monotonic()
        if show is None or self._is_broken or now - self._begin < AFTER:
            return
        try:
            if self._handle is None:
                self._handle = self._first(show)
            elif self.explorer._widget is None and now - self._shown >= EVERY:
                self._handle.update({"text/html": self.explorer.static()}, raw=True)
                self._shown = now
        except Exception as error:  # a picture is no reason to lose a search
            if is_circumstance(error):
                raise
            self._is_broken = True
            warn(f"search: it goes on, but cannot be shown meanwhile: {error}")

    def _first(self, show: Any) -> Any:  # noqa: ANN401  # of IPython, which has no types here
        try:
            return show(self.explorer.widget, display_id=True)
        except DeviceError:
            return show({"text/html": self.explorer.static()}, raw=True, display_id=True)

    def close(self) -> None:
        """Take it away: the search shows itself from now on."""
        if self._handle is not None:
            self._handle.update({"text/html": "", "text/plain": ""}, raw=True)


@contextmanager
def shown_meanwhile(search: ProgramSearch | KernelSearch) -> Generator[None]:
    """Show a search in a notebook while it runs; nothing of it stays in the cell."""
    if outputs() is None:
        yield
        return
    meanwhile = _Meanwhile(search)
    for kernel in _kernels(search):
        kernel.watchers.append(meanwhile.follow)
    try:
        yield
    finally:
        for kernel in _kernels(search):
            kernel.watchers.remove(meanwhile.follow)
            kernel.watchers.remove(meanwhile.explorer.follow)
        meanwhile.close()


FORMATTERS = {
    "KernelSearch.explore": SearchExplorer,
    "ProgramSearch.explore": SearchExplorer,
    "ProgramSearch.meanwhile": shown_meanwhile,
    "RecordedSearch.explore": SearchExplorer,
}
"""What makes live pictures of searches, by the names of the class and of the method."""

"""What explorers and workbenches share: the selection, the place, two outputs, a page.

A cell ends in this value, not in the widget. A notebook gets two outputs: a picture that needs no
script, and the widget below it, which hides the picture while it lives. So a saved notebook, which
keeps no widget state, shows the picture.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar
from uuid import uuid4

from typing_extensions import override

from luminal_lab.display import Theme
from luminal_lab.errors import ArgumentError, DeviceError, GraphError, nearest, whole_number
from luminal_lab.io.facts import Subject
from luminal_lab.passes.compilation import Compilation
from luminal_lab.passes.snapshot import Snapshot
from luminal_lab.tensor.arguments import is_function
from luminal_lab.viz import overlays
from luminal_lab.viz.live.at import read_at, written_at
from luminal_lab.viz.live.backed import Backed
from luminal_lab.viz.live.export import Exported, check_name, page_of, write_page
from luminal_lab.viz.live.held import Held
from luminal_lab.viz.live.meaning import Selected, Selection, chosen, selected
from luminal_lab.viz.live.notebook import outputs, with_widget
from luminal_lab.viz.live.replies import Replies, Reply
from luminal_lab.viz.live.static import new_widget
from luminal_lab.viz.markup import plain
from luminal_lab.viz.picture import Picture

if TYPE_CHECKING:
    from luminal_lab.viz.live.widget import LabWidget

Observer = Callable[[Selected], object]


class StopObserving:
    """A function that ends an observation; as the last line of a cell it says so."""

    def __init__(self, listening: list[Observer], call: Observer) -> None:
        self._listening = listening
        self._call = call

    def __call__(self) -> None:
        """Stop observing."""
        if self._call in self._listening:
            self._listening.remove(self._call)

    @override
    def __repr__(self) -> str:
        return f"<observing: calling this stops it; {len(self._listening)} in all>"


class Live:
    """Graphs and compiles as a live picture."""

    what: ClassVar[str]
    """The kind of picture for the front end."""

    def __init__(self, backed: Sequence[Backed]) -> None:
        self._held = Held(backed, self._first_look)
        self._held.watchers.append(self._shows)
        self._widget: LabWidget | None = None
        self._selection: Selection = {}
        self._place: dict[str, Any] = {}
        self._overlay: Mapping[str, Any] | None = None
        self._listening: list[Observer] = []

    # -- what is shown -----------------------------------------------------------------------------

    @property
    def subjects(self) -> tuple[Subject, ...]:
        """The graphs and compiles on show."""
        return self._held.subjects

    @property
    def backed(self) -> tuple[Backed, ...]:
        """The subjects with what is behind them in this process."""
        return self._held.all

    @property
    def compilations(self) -> tuple[Compilation, ...]:
        """The compiles on show, including those run again in it."""
        return tuple(
            backed_subject.compilation
            for backed_subject in self.backed
            if backed_subject.compilation is not None
        )

    @property
    def data(self) -> bytes:
        """The bundle that the front end reads."""
        return self._held.data

    @property
    def first_data(self) -> bytes:
        """The bundle that is sent at first: of a large compile, the view of the stage on show."""
        return self._held.first_data(self._run, self._stage)

    @property
    def title(self) -> str:
        """The titles of its subjects."""
        return self._held.title

    @property
    def widget(self) -> LabWidget:
        """The widget, made on first use; it can go into ipywidgets' boxes."""
        if self._widget is None:
            widget = new_widget(
                self.answers(self._shows),
                what=self.what,
                data=self.first_data,
                selection=self._selection,
                place=self._place,
                options=self._options,
                picture=uuid4().hex,
            )
            widget.observe(self._selects, "selection")
            widget.observe(self._goes, "place")
            self._widget = widget
        return self._widget

    def answers(self, changed: Callable[[], None]) -> Callable[[Mapping[str, Any]], Reply]:
        """Return what answers a page's questions; `changed` is called when the bundle changes."""
        return Replies(self._held, changed).answer

    def _shows(self) -> None:
        """Show the changed bundle."""
        if self._widget is not None:
            self._widget.data = self.data

    # -- where we are ------------------------------------------------------------------------------

    @property
    def _run(self) -> int:
        number = whole_number(self._place.get("run", 0)) or 0
        return number if 0 <= number < len(self._held.all) else 0

    @property
    def _stage(self) -> int:
        snapshots = self._held.all[self._run].snapshots
        number = whole_number(self._place.get("stage", -1))
        if number is None or not 0 <= number < len(snapshots):
            return self._held.first(self._run)
        return number

    def _first_look(self, backed: Backed) -> int:
        """Return the stage of a subject that is shown first."""
        return len(backed.snapshots) - 1

    @property
    def stage(self) -> Snapshot:
        """The snapshot on show."""
        return self._held.all[self._run].snapshots[self._stage]

    @property
    def firing(self) -> int | None:
        """The number of the pass's firings shown as done; None for all."""
        number = whole_number(self._place.get("firing", -1))
        return None if number is None or number < 0 else number

    def go(
        self, to: str | int | Snapshot | None = None, *, firing: int | None = None, run: int = -1
    ) -> None:
        """Show the graph after a pass, by its name or number, or after some of its firings.

        Several compiles are `run` 0, 1, …; without a pass the stage stays the same, and another run
        begins as if it were shown first.
        """
        count = len(self._held.all)
        number = whole_number(run)
        if number is None or not -1 <= number < count:
            raise GraphError(
                f"go: there is no run {run!r}",
                hint=f"they go from 0 to {count - 1}" if count > 1 else "there is one, 0",
            )
        number = self._run if number < 0 else number
        snapshots = self._held.all[number].snapshots
        stage = self._stage if to is None and number == self._run else self._held.first(number)
        stage = stage if to is None else _stage(to, snapshots)
        most = len(snapshots[stage].firings)
        done = whole_number(firing)
        if firing is not None and (done is None or not 0 <= done <= most):
            raise GraphError(
                f"go: {snapshots[stage].title} has no firing {firing!r}",
                hint=f"give how many are done, 0 to {most}" if most else "it changed nothing",
            )
        if number != self._run:
            self._selected({})
        self._place = {"run": number, "stage": stage, "firing": -1 if done is None else done}
        if self._widget is not None:
            self._widget.place = self._place

    @property
    def at(self) -> str:
        """Where one looks, as a text: a pass, firings, what is selected.

        Set it to go there, as in `w.at = "recognise/3/%softmax"`; without a pass one stays where
        one is, or begins at another run as if it were shown first.
        """
        firing = -1 if self.firing is None else self.firing
        place = {"run": self._run, "stage": self._stage, "firing": firing}
        return written_at(place, self._selection, self._held)

    @at.setter
    def at(self, text: str) -> None:
        place, selection = read_at(text, self._held, {"run": self._run, "stage": self._stage})
        self._place = place
        if self._widget is not None:
            self._widget.place = place
        self._selected(selection)

    def _goes(self, change: Mapping[str, Any]) -> None:
        if isinstance(change["new"], Mapping):
            self._place = dict(change["new"])

    # -- what is selected --------------------------------------------------------------------------

    @property
    def selected(self) -> Selected:
        """The selection: a tuple of nodes, or a line, firing, rule, kernel, launch or buffer.

        It is an empty tuple if nothing is selected.
        """
        run = self._run
        return selected(self._selection, self._held.all[run], self._held.origins(run))

    def select(self, choice: object) -> None:
        """Select something, highlighted with its relatives everywhere; None selects nothing.

        It may be a node or its name, a tensor, several of these, a scope, a line as in "cell 3,
        line 7", a firing, a rule, a kernel, a launch.
        """
        run = self._run
        selection = chosen(choice, self._held.all[run], self._held.origins(run), self._stage)
        if (
            selection.get("kind") in ("node", "scope", "firing")
            and selection["stage"] != self._stage
        ):
            self.go(selection["stage"], run=run)
        self._selected(selection)

    def _selected(self, selection: Selection) -> None:
        if self._widget is not None:
            self._widget.selection = selection  # which notifies us
        elif selection != self._selection:
            self._selects({"new": selection})

    def _selects(self, change: Mapping[str, Any]) -> None:
        self._selection = dict(change["new"]) if isinstance(change["new"], Mapping) else {}
        for call in list(self._listening):
            call(self.selected)

    def observe(self, call: Observer) -> Callable[[], None]:
        """Call a function with the selection whenever it changes.

        Calling the result ends that.
        """
        if not is_function(call):
            raise ArgumentError(
                f"observe: {call!r} cannot be called", hint="give a function of what is selected"
            )
        self._listening.append(call)
        return StopObserving(self._listening, call)

    # -- numbers on nodes --------------------------------------------------------------------------

    @property
    def overlay(self) -> Mapping[str, Any] | None:
        """Numbers shown on nodes: a dict by name, timings, or a file of node data; None for none.

        Reading it gives the front end's form.
        """
        return self._overlay

    @overlay.setter
    def overlay(self, given: overlays.Overlaid | None) -> None:
        if given is None:
            self._overlay = None
        else:
            read, names = overlays.read(given), self.stage.ir.names
            missing = [name for name in read.values if name.removeprefix("%") not in names]
            if missing:
                raise GraphError(
                    f"overlay: {self.stage.ir.name} has no node {missing[0]!r}",
                    hint=nearest(missing[0].removeprefix("%"), names)
                    or "names are those of the snapshot shown; go(…) to another",
                )
            ids = {name: str(names[name.removeprefix("%")]) for name in read.values}
            self._overlay = {
                "title": read.title,
                "values": {ids[name]: value for name, value in read.values.items()},
                "texts": {ids[name]: text for name, text in read.texts.items() if name in ids},
                "stage": self._stage,
            }
        if self._widget is not None:
            self._widget.options = self._options

    @property
    def _options(self) -> dict[str, Any]:
        return {"overlay": self._overlay}

    # -- shown -------------------------------------------------------------------------------------

    def picture(self, theme: Theme = "auto") -> Picture:
        """Return the picture for places where no script runs."""
        return self._held.all[self._run].picture(theme, self._stage, self.firing)

    def words(self) -> str:
        """Return the text above the picture where no script runs."""
        return ""

    def remarks(self) -> str:
        """Return what there is to say of what is shown as a whole, as lines."""
        return "\n".join(map(str, self._held.all[self._run].subject.facts.remarks))

    def static(self, mark: str = "", theme: Theme = "auto") -> str:
        """Return the picture and its words as HTML without a script, each with an attribute."""
        words = "\n".join(filter(None, [self.remarks(), self.words()]))
        more = f" {mark}" if mark else ""
        # JupyterLab breaks lines of what is preformatted.
        style = ' style="font-family:monospace;white-space:pre;overflow:auto"'
        text = f"<pre{more}{style}>{plain(words)}</pre>" if words else ""
        image = self.picture(theme).html.replace("<img", f"<img{more}", 1)
        return f"<div{more}>{text}{image}{self.below()}</div>"

    def below(self) -> str:
        """Return what stands below the picture where no script runs, as HTML."""
        return ""

    def export(self, path: str | Path, *, theme: Theme = "auto") -> Path:
        """Write one HTML page that needs no server, network or kernel, and return its path."""
        check_name(path)
        return write_page(path, self._exported(theme))

    def served_page(self) -> str:
        """Return a page like that of `export`, which asks its questions at its own address."""
        return page_of(replace(self._exported("auto"), is_served=True))

    def _exported(self, theme: Theme) -> Exported:
        static = self.static("data-ll-static", theme)
        state = {"place": self._place, "selection": self._selection, **self._options}
        return Exported(self.what, self.title, self.data, static, theme, json.dumps(state))

    def display(self) -> None:
        """Show it now: in a notebook as a cell's last line would, elsewhere as text."""
        if not self._show():
            print(self)  # it was asked for

    def display_static(self) -> None:
        """Show the part that needs no script: in a notebook the picture, elsewhere its text."""
        show = outputs()
        if show is None:
            print(self)  # it was asked for
        else:
            show({"text/html": self.static(), "text/plain": str(self)}, raw=True)

    def _ipython_display_(self) -> None:
        if not self._show():
            raise NotImplementedError  # IPython shows the repr

    def _show(self) -> bool:
        """Show it in a notebook; return whether there is one."""
        show = outputs()
        if show is None:
            return False
        try:
            mark = f'data-ll-for="{self.widget.picture}"'
        except DeviceError:
            # Show what needs no widget before the error says what is missing.
            show({"text/html": self.static(), "text/plain": str(self)}, raw=True)
            raise
        show({"text/html": with_widget(self.static(mark), mark), "text/plain": str(self)}, raw=True)
        show(self._widget)
        return True

    @override
    def __str__(self) -> str:
        said = filter(None, [self.remarks(), self.words()])
        return "\n".join([repr(self), *said, str(self.picture())])


def _stage(to: str | int | Snapshot, snapshots: Sequence[Snapshot]) -> int:
    """Return the number of the selected graph."""
    if isinstance(to, Snapshot):
        numbers = [number for number, snapshot in enumerate(snapshots) if snapshot is to]
        if not numbers:
            raise GraphError(
                f"go: {to!r} is none of these snapshots", hint="give a pass's name or number"
            )
        return numbers[0]
    if isinstance(to, str):
        named = [
            number
            for number, snapshot in enumerate(snapshots)
            if to in (snapshot.name, snapshot.title)
        ]
        if not named:
            names = [*dict.fromkeys(snapshot.name for snapshot in snapshots)]
            raise GraphError(
                f"go: no pass {to!r} ran",
                hint=nearest(to, names) or f"choose from {', '.join(names)}",
            )
        # The last run that changed something, as in `cx.compilation["…"]`.
        return next((number for number in reversed(named) if snapshots[number].firings), named[-1])
    number = whole_number(to)
    if number is None or not -len(snapshots) <= number < len(snapshots):
        raise GraphError(
            f"go: there is no snapshot {to!r}", hint=f"they go from 0 to {len(snapshots) - 1}"
        )
    return number % len(snapshots)

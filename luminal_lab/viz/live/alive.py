"""What explorers and workbenches share: the selection, the place, two outputs, a page.

The value that a cell ends in is not the widget. A notebook gets two outputs: a picture that needs
no script, and the widget below it, which hides the picture while it lives. So a saved notebook,
which keeps no widget's state, shows the picture.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar
from uuid import uuid4

from typing_extensions import override

from luminal_lab.display import Theme
from luminal_lab.errors import ArgumentError, DeviceError, GraphError, nearest, whole_number
from luminal_lab.io.facts import Subject
from luminal_lab.passes.compilation import Compilation
from luminal_lab.passes.snapshot import Snapshot
from luminal_lab.viz import overlays
from luminal_lab.viz.live.backed import Backed
from luminal_lab.viz.live.export import Exported, check_name, write_page
from luminal_lab.viz.live.held import Held
from luminal_lab.viz.live.meaning import Chosen, Selected, chosen, selected
from luminal_lab.viz.live.notebook import outputs, with_widget
from luminal_lab.viz.live.replies import Replies
from luminal_lab.viz.live.static import new_widget
from luminal_lab.viz.markup import plain
from luminal_lab.viz.picture import Picture

if TYPE_CHECKING:
    from luminal_lab.viz.live.widget import LabWidget

Told = Callable[[Selected], object]


class Stop:
    """What ends an observation when it is called; as the last line of a cell it says so."""

    def __init__(self, listening: list[Told], call: Told) -> None:
        self._listening = listening
        self._call = call

    def __call__(self) -> None:
        """Observe no longer."""
        if self._call in self._listening:
            self._listening.remove(self._call)

    @override
    def __repr__(self) -> str:
        return f"<observing: calling this stops it; {len(self._listening)} in all>"


class Live:
    """Graphs and compiles as a picture that is alive."""

    what: ClassVar[str]
    """Which of the pictures the front end opens."""

    def __init__(self, backed: Sequence[Backed]) -> None:
        self._held = Held(backed)
        self._widget: LabWidget | None = None
        self._selection: Chosen = {}
        self._place: dict[str, Any] = {}
        self._overlay: Mapping[str, Any] | None = None
        self._listening: list[Told] = []

    # -- what is shown -----------------------------------------------------------------------------

    @property
    def subjects(self) -> tuple[Subject, ...]:
        """The graphs and compiles that it shows."""
        return tuple(one.subject for one in self._held.all)

    @property
    def compilations(self) -> tuple[Compilation, ...]:
        """The compiles that it shows, those too that were run again in it."""
        return tuple(one.compilation for one in self._held.all if one.compilation is not None)

    @property
    def data(self) -> bytes:
        """The bundle that the front end reads."""
        return self._held.data

    @property
    def title(self) -> str:
        """What it shows, in a few words."""
        return self._held.title

    @property
    def widget(self) -> LabWidget:
        """The widget, which is made when it is first needed; it can go into ipywidgets' boxes."""
        if self._widget is None:
            replies = Replies(self._held, self._shows)
            made = new_widget(
                replies.answer,
                what=self.what,
                data=self.data,
                selection=self._selection,
                place=self._place,
                options=self._options,
                picture=uuid4().hex,
            )
            made.observe(self._selects, "selection")
            made.observe(self._goes, "place")
            self._widget = made
        return self._widget

    def _shows(self) -> None:
        """Show what the bundle has become."""
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
            return self._first_look(snapshots)
        return number

    def _first_look(self, snapshots: Sequence[Snapshot]) -> int:
        """Return the stage that is looked at where nobody has said which."""
        return len(snapshots) - 1

    @property
    def stage(self) -> Snapshot:
        """The snapshot that is looked at."""
        return self._held.all[self._run].snapshots[self._stage]

    @property
    def firing(self) -> int | None:
        """How many firings of the pass are shown as done; None for all of them."""
        number = whole_number(self._place.get("firing", -1))
        return None if number is None or number < 0 else number

    def go(
        self, to: str | int | Snapshot | None = None, *, firing: int | None = None, run: int = -1
    ) -> None:
        """Look at the graph after a pass, by its name or number, or after so many of its firings.

        Several compiles are `run` 0, 1, …; without a pass it is the place where one is.
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
        stage = self._stage if to is None and number == self._run else len(snapshots) - 1
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

    def _goes(self, change: Mapping[str, Any]) -> None:
        if isinstance(change["new"], Mapping):
            self._place = dict(change["new"])

    # -- what is selected --------------------------------------------------------------------------

    @property
    def selected(self) -> Selected:
        """What is selected: a tuple of nodes, or the line, firing, rule, kernel, launch, buffer.

        It is an empty tuple where nothing is.
        """
        run = self._run
        return selected(self._selection, self._held.all[run], self._held.origins(run))

    def select(self, what: object) -> None:
        """Select something, which lights up with its relatives everywhere; None selects nothing.

        It may be a node or its name, a tensor, several of these, a scope, a line as in "cell 3,
        line 7", a firing, a rule, a kernel, a launch.
        """
        run = self._run
        found = chosen(what, self._held.all[run], self._held.origins(run), self._stage)
        if found.get("kind") in ("node", "scope", "firing") and found["stage"] != self._stage:
            self.go(found["stage"], run=run)
        self._selected(found)

    def _selected(self, found: Chosen) -> None:
        if self._widget is not None:
            self._widget.selection = found  # which tells us of it
        elif found != self._selection:
            self._selects({"new": found})

    def _selects(self, change: Mapping[str, Any]) -> None:
        self._selection = dict(change["new"]) if isinstance(change["new"], Mapping) else {}
        for call in list(self._listening):
            call(self.selected)

    def observe(self, call: Told) -> Callable[[], None]:
        """Have a function called with what is selected, whenever that changes.

        What is returned ends it.
        """
        if not callable(call):
            raise ArgumentError(
                f"observe: {call!r} cannot be called", hint="give a function of what is selected"
            )
        self._listening.append(call)
        return Stop(self._listening, call)

    # -- numbers on nodes --------------------------------------------------------------------------

    @property
    def overlay(self) -> Mapping[str, Any] | None:
        """Numbers shown on nodes: a dict by name, timings, or a file of node data; None for none.

        What is read is how the front end has them.
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
                    or "names are those of the snapshot that is looked at; go(…) to another",
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
        """Return the picture that is shown where no script runs."""
        return self._held.all[self._run].picture(theme)

    def words(self) -> str:
        """Return what stands above the picture where no script runs."""
        return ""

    def static(self, mark: str = "", theme: Theme = "auto") -> str:
        """Return the picture and its words as HTML without a script, each with an attribute."""
        words, more = self.words(), f" {mark}" if mark else ""
        style = ' style="font-family:monospace"'
        text = f"<pre{more}{style}>{plain(words)}</pre>" if words else ""
        image = self.picture(theme).html.replace("<img", f"<img{more}", 1)
        return f"<div{more}>{text}{image}</div>"

    def export(self, path: str | Path, *, theme: Theme = "auto") -> None:
        """Write all that needs no kernel as one page of HTML: no server, no network, no kernel."""
        check_name(path)
        static = self.static("data-ll-static", theme)
        state = {"place": self._place, "selection": self._selection, "overlay": self._overlay}
        given = Exported(self.what, self.title, self.data, static, theme, json.dumps(state))
        write_page(path, given)

    def display(self) -> None:
        """Show it now: in a notebook as the last line of a cell does, elsewhere in words."""
        if not self._show():
            print(self)  # it was asked for

    def display_static(self) -> None:
        """Show now what needs no script: in a notebook the picture, elsewhere its words."""
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
            # What can be seen without the widget is seen before what is missing is said.
            show({"text/html": self.static(), "text/plain": str(self)}, raw=True)
            raise
        show({"text/html": with_widget(self.static(mark), mark), "text/plain": str(self)}, raw=True)
        show(self._widget)
        return True

    @override
    def __str__(self) -> str:
        return "\n".join([repr(self), *filter(None, [self.words()]), str(self.picture())])


def _stage(to: str | int | Snapshot, snapshots: Sequence[Snapshot]) -> int:
    """Return the number of the graph that is meant."""
    if isinstance(to, Snapshot):
        found = [number for number, one in enumerate(snapshots) if one is to]
        if not found:
            raise GraphError(
                f"go: {to!r} is none of these snapshots", hint="give a pass's name or number"
            )
        return found[0]
    if isinstance(to, str):
        named = [number for number, one in enumerate(snapshots) if to in (one.name, one.title)]
        if not named:
            names = [*dict.fromkeys(one.name for one in snapshots)]
            raise GraphError(
                f"go: no pass {to!r} ran",
                hint=nearest(to, names) or f"there are {', '.join(names)}",
            )
        # The last in which it did something, as `cx.compilation["…"]` has it.
        return next((one for one in reversed(named) if snapshots[one].firings), named[-1])
    number = whole_number(to)
    if number is None or not -len(snapshots) <= number < len(snapshots):
        raise GraphError(
            f"go: there is no snapshot {to!r}", hint=f"they go from 0 to {len(snapshots) - 1}"
        )
    return number % len(snapshots)

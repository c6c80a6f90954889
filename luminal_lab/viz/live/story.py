"""`ll.story(cx, steps)`: a guided walk through compiles, with a text for each place."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, cast

from typing_extensions import override

from luminal_lab.display import Theme
from luminal_lab.errors import ArgumentError, GraphError, LabError
from luminal_lab.io.opened import Opened
from luminal_lab.io.recording import MOST_STEPS, save_recording
from luminal_lab.passes.diff import diff
from luminal_lab.passes.snapshot import Snapshot
from luminal_lab.tensor.arguments import told_object
from luminal_lab.viz.graphs import graph_picture
from luminal_lab.viz.live.at import read_at
from luminal_lab.viz.live.backed import Backed, looked_at
from luminal_lab.viz.live.beside import backed_of
from luminal_lab.viz.live.meaning import Selection
from luminal_lab.viz.live.workbench import Workbench
from luminal_lab.viz.markup import plain

FORM = 'give pairs of a place and a text, as in [("recognise/1", "One node takes the place of 8.")]'


class Step(NamedTuple):
    """A step of a story: where to look, and what is said there."""

    at: str
    text: str
    place: dict[str, Any]
    selection: Selection


@told_object("story")
class Story(Workbench):
    """A workbench with a guide: each step shows a place, and says what there is to see."""

    def __init__(self, backed: Sequence[Backed], steps: Sequence[tuple[str, str]]) -> None:
        super().__init__(backed)
        self.steps = tuple(self._steps_of(steps))
        """The steps, in order."""
        self.at = self.steps[0].at

    def _steps_of(self, steps: object) -> list[Step]:
        if isinstance(steps, str) or not isinstance(steps, Sequence) or not steps:
            raise ArgumentError(f"story: {steps!r} has no steps", hint=FORM)
        if len(cast("Sequence[object]", steps)) > MOST_STEPS:
            raise ArgumentError(f"story: it has more than {MOST_STEPS} steps", hint="tell two")
        found: list[Step] = []
        for number, pair in enumerate(cast("Sequence[object]", steps), 1):
            match pair:
                case (str() as at, str() as text) if text.strip():
                    found.append(self._step(number, at, text))
                case _:
                    raise ArgumentError(f"story: step {number} is {pair!r}", hint=FORM)
        return found

    def _step(self, number: int, at: str, text: str) -> Step:
        try:
            place, selection = read_at(at, self._held)
        except LabError as error:
            error.message = error.message.replace("at: ", f"story: step {number}: ", 1)
            raise
        return Step(at, text, place, selection)

    @property
    @override
    def _options(self) -> dict[str, Any]:
        told = [
            {"place": step.place, "selection": step.selection, "text": step.text}
            for step in self.steps
        ]
        return {**super()._options, "story": told}

    def save(self, path: str | Path) -> None:
        """Write the compiles and the story to a file, which `ll.open` reads; `.story` is in it."""
        pairs = [(step.at, step.text) for step in self.steps]
        save_recording(path, self.subjects, story=pairs)

    # -- without a script --------------------------------------------------------------------------

    @override
    def words(self) -> str:
        many = len(self.steps)
        return "\n".join(
            f"{number} of {many}, {step.at}: {step.text}"
            for number, step in enumerate(self.steps, 1)
        )

    @override
    def static(self, mark: str = "", theme: Theme = "auto") -> str:
        more, many = f" {mark}" if mark else "", len(self.steps)
        parts = [
            f'<li style="margin:0 0 14px"><p style="margin:0 0 4px;white-space:pre-line">'
            f"<b>{number} of {many}</b> <code>{plain(step.at)}</code><br>{marked(step.text)}</p>"
            f'<div style="overflow:auto">{self._picture_of(step, theme)}</div></li>'
            for number, step in enumerate(self.steps, 1)
        ]
        return (
            f'<ol{more} style="list-style:none;padding:0;margin:0;font-size:14px">'
            f"{''.join(parts)}</ol>"
        )

    def _picture_of(self, step: Step, theme: Theme) -> str:
        snapshot = self._held.all[step.place["run"]].snapshots[step.place["stage"]]
        ids = _ids(step.selection, snapshot)
        firing: int = step.place["firing"]
        if firing > 0 and not ids:  # what the firing changes is what there is to see
            before, after = (snapshot.steps()[number] for number in (firing - 1, firing))
            fired = snapshot.firings[firing - 1].rule
            note = f"before and after firing {firing} of {snapshot.title}, {fired}"
            return graph_picture(diff(before, after), theme=theme, note=note).html
        ir, note = looked_at(snapshot, firing)
        if ids and not all(id in ir for id in ids):  # the pass has removed them
            ir, note = snapshot.before, f"before {snapshot.title}"
        return graph_picture(ir, highlight=[i for i in ids if i in ir], theme=theme, note=note).html

    @override
    def __repr__(self) -> str:
        many = "1 step" if len(self.steps) == 1 else f"{len(self.steps)} steps"
        return (
            f"<Story of {self.title}: {many}; a notebook shows it, .export(…) and .save(…) keep it>"
        )


def marked(text: str) -> str:
    """Return a text as HTML, in which what stands between backquotes is code, and nothing else is.

    >>> marked("`x < 1` <b>")
    '<code>x &lt; 1</code> &lt;b&gt;'
    """
    parts = text.split("`")
    if len(parts) % 2 == 0:  # the last one opens nothing
        parts[-2:] = ["`".join(parts[-2:])]
    return "".join(
        f"<code>{plain(part)}</code>" if at % 2 else plain(part) for at, part in enumerate(parts)
    )


def _ids(selection: Selection, snapshot: Snapshot) -> list[int]:
    if selection.get("kind") == "node":
        return [*selection["ids"]]
    if selection.get("kind") == "firing":
        firing = snapshot.firings[selection["firing"]]
        return [change.node for change in firing.changes if change.node in snapshot.ir]
    return []


def story(thing: object, steps: Sequence[tuple[str, str]]) -> Story:
    """Return a guided walk through a compile, a session's last one, or an open recording.

    Each step is a place, as `cx.workbench(at=…)` takes it, and a text in which what stands between
    backquotes is code.

    >>> import luminal_lab as ll
    >>> cx = ll.Graph("twice")
    >>> y = (cx.tensor((2,), name="x") * 2 + 0).named("y").retrieve()
    >>> compilation = cx.compile("simplify, dce")
    >>> ll.story(cx, [("written/%y", "A zero is added."), ("simplify", "Now it is not.")])
    <Story of twice: 2 steps; a notebook shows it, .export(…) and .save(…) keep it>
    """
    return Story(backed_of("story", thing), steps)


def recording_story(recorded: Opened) -> Story:
    """Return the story of a recording, or raise an error that there is none."""
    if not recorded.contents.story:
        raise GraphError(
            f"recording {recorded.name}: there is no story in it",
            hint='ll.story(cx, [("dce", "…")]).save("run.lab") writes one',
        )
    return Story(backed_of("story", recorded), recorded.contents.story)


FORMATTERS: dict[str, Callable[[Opened], Story]] = {"Opened.story": recording_story}

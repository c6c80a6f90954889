"""`cx.workbench()`: all that is known of compiles, as a picture that is alive."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from typing_extensions import override

from luminal_lab.display import Theme
from luminal_lab.errors import UnknownNameError
from luminal_lab.kernels.kernel import Kernel
from luminal_lab.passes.compilation import Compilation
from luminal_lab.passes.pipeline import Pipeline
from luminal_lab.search.board import Board
from luminal_lab.tensor.arguments import told_object
from luminal_lab.viz.live.alive import Live
from luminal_lab.viz.live.backed import Backed
from luminal_lab.viz.live.explorer import SEEN
from luminal_lab.viz.live.export import check_name, write_page
from luminal_lab.viz.pages import source_of_facts, times_of_facts
from luminal_lab.viz.picture import Picture


@told_object("workbench")
class Workbench(Live):
    """Compiles, pass by pass and firing by firing, with kernels, sources, times and memory."""

    what = "workbench"

    @override
    def _first_look(self, backed: Backed) -> int:
        return backed.telling

    def board(self, kernel: str | Kernel) -> Board:
        """Return the board of a kernel, with the schedules that were tried in the page.

        What is tried on it from Python is shown in the page, too.
        """
        facts = self._held.all[self._run].subject.facts
        name = kernel.name if isinstance(kernel, Kernel) else kernel
        names = [one.name for one in facts.kernels]
        fault = f"board: {self._held.all[self._run].subject.title} has no kernel {name!r}"
        UnknownNameError.unless_known(name, names, fault, f"it has {', '.join(names) or 'none'}")
        return self._held.board(self._run, names.index(name))

    @override
    def export(
        self, path: str | Path, *, theme: Theme = "auto", run: bool | Mapping[str, object] = False
    ) -> Path:
        """Write one HTML page that needs no server, network or kernel, and return its path.

        With `run` it computes by itself, once a button is pressed: inputs become sliders, a pad to
        draw on, a field for text, and each node's value changes with them. `run` may also name
        inputs with their bounds, or the words of tokens and classes, as in
        run={"gain": (0, 10), "digit": "0123456789"}. It needs the package ziglang.
        """
        check_name(path)
        exported = self._exported(theme)
        if run is not False:
            from luminal_lab.viz.live.computing import computed  # noqa: PLC0415  # loaded when used

            exported = replace(exported, computes=computed(self.backed, run).packed)
        return write_page(path, exported)

    @override
    def words(self) -> str:
        compiled = [subject for subject in self.subjects if len(subject.snapshots) > 1]
        # A recording has no pipeline of passes, and a table needs none.
        tables = [str(Compilation(subject.snapshots, Pipeline())) for subject in compiled]
        if len(self.subjects) == 1:
            return "".join(tables)
        pairs = zip(compiled, tables, strict=True)
        return "\n\n".join(f"{subject.title}\n{table}" for subject, table in pairs)

    @override
    def picture(self, theme: Theme = "auto") -> Picture:
        return self._held.all[self._run].picture(theme, self._stage, self.firing, changes=True)

    @override
    def below(self) -> str:
        facts = self._held.all[self._run].subject.facts
        return times_of_facts(facts) + source_of_facts(facts)

    @override
    def __repr__(self) -> str:
        many = len(self.subjects)
        if many > 1:
            return f"<Workbench of {many} graphs and compiles, {self.title}; {SEEN}>"
        passes = len(self.subjects[0].snapshots) - 1
        state = f"{passes} passes" if passes > 1 else "1 pass" if passes else "not compiled yet"
        return f"<Workbench of {self.title}: {state}; {SEEN}>"


def workbench(backed: Sequence[Backed]) -> Workbench:
    """Return a workbench of some graphs and compiles, of which the first is shown first."""
    return Workbench(backed)

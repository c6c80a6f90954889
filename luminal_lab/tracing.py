"""`with ll.trace() as t:` records every graph and every compile that is made inside.

Several may be open at once, within each other and in other threads; each has what was made while it
was open, in its own thread. While none is open, a compile asks one context variable, and that is
all it costs.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, cast

from typing_extensions import override

from luminal_lab.core.printer import as_text
from luminal_lab.errors import ArgumentError, Explained, GraphError
from luminal_lab.io.recording import save_recording
from luminal_lab.listeners import LISTENERS
from luminal_lab.passes.compilation import Compilation
from luminal_lab.viz.live.backed import Backed, backed_compile, backed_graph
from luminal_lab.viz.live.explorer import Explorer, explorer
from luminal_lab.viz.live.workbench import Workbench, workbench

if TYPE_CHECKING:
    from luminal_lab.core.ir import IR
    from luminal_lab.session import Graph
    from luminal_lab.timing.compare import SideBySide
    from luminal_lab.timing.timings import Timings


@dataclass(frozen=True)
class _Compile:
    """A compile, or how far it came."""

    compilation: Compilation
    graph: Graph | None
    """None where no session asked for it, as with `ll.compile_ir`."""
    error: BaseException | None


class Traced:
    """What was recorded while it was open: a context manager, which can be entered again.

    In another thread, `with t:` adds what that thread makes to the same record.
    """

    def __init__(self) -> None:
        self._made: list[Graph | _Compile] = []
        self._written: dict[int, tuple[IR, Graph]] = {}

    def __enter__(self) -> Traced:
        LISTENERS.set((*LISTENERS.get(), self))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # Not by a token: that would bring back others that were closed meanwhile.
        rest = list(LISTENERS.get())
        if self in rest:
            rest.reverse()
            rest.remove(self)
            rest.reverse()
        LISTENERS.set(tuple(rest))

    # -- told ----------------------------------------------------------------------------------

    def wrote(self, graph: object) -> None:
        """Take note of a graph that somebody begins to write."""
        if not any(one is graph for one in self._made):
            self._made.append(cast("Graph", graph))

    def compiles(self, graph: object, written: object) -> None:
        """Take note that a graph, which is so far what was written, is about to be compiled."""
        self._written[id(written)] = cast("IR", written), cast("Graph", graph)

    def compiled(self, made: object, error: BaseException | None) -> None:
        """Take note of a compile, or of how far it came before an error."""
        compilation = cast(Compilation, made)
        if any(isinstance(one, _Compile) and one.compilation is made for one in self._made):
            return  # it is open twice
        _, graph = self._written.get(id(compilation.written), (None, None))
        self._made.append(_Compile(compilation, graph, error))

    # -- what there is -------------------------------------------------------------------------

    @property
    def graphs(self) -> tuple[Graph, ...]:
        """The graphs that were made, and those that were compiled, in order."""
        found = [one.graph if isinstance(one, _Compile) else one for one in self._made]
        return tuple({id(one): one for one in found if one is not None}.values())

    @property
    def compilations(self) -> tuple[Compilation, ...]:
        """The compiles that ended well, in order."""
        return tuple(one.compilation for one in self._compiles if one.error is None)

    @property
    def errors(self) -> tuple[BaseException, ...]:
        """What other compiles ended in; the workbench shows how far they came."""
        return tuple(one.error for one in self._compiles if one.error is not None)

    @property
    def _compiles(self) -> list[_Compile]:
        return [one for one in self._made if isinstance(one, _Compile)]

    def __len__(self) -> int:
        """Return how many graphs and compiles a workbench of it shows."""
        return len(self._shown())

    def __bool__(self) -> bool:
        return True

    def _shown(self) -> list[Graph | _Compile]:
        """Return all compiles, and the graphs that were not compiled; nothing that is empty."""
        compiled = {id(one.graph) for one in self._compiles}
        return [
            one
            for one in self._made
            if isinstance(one, _Compile) or (id(one) not in compiled and len(one.ir))
        ]

    def _backed(
        self, what: str, times: tuple[Timings | SideBySide, ...] = (), dialects: Iterable[str] = ()
    ) -> list[Backed]:
        shown, asked = self._shown(), tuple(dialects)
        if not shown:
            raise GraphError(
                f"{what}: nothing was recorded",
                hint="write or compile a graph inside: with ll.trace() as t: …",
            )
        names: dict[str, int] = {}
        found: list[Backed] = []
        for one in shown:
            name = one.compilation.written.name if isinstance(one, _Compile) else one.name
            names[name] = count = names.get(name, 0) + 1
            title = name if count == 1 else f"{name} #{count}"
            if not isinstance(one, _Compile):
                found.append(backed_graph(what, one.ir, one, title))
                continue
            if one.error is not None:
                title += f", which failed: {_sentence(one.error)}"
            mine = times if one is self._compiles[-1] else ()
            found.append(
                backed_compile(one.compilation, one.graph, times=mine, dialects=asked, title=title)
            )
        return found

    # -- shown ---------------------------------------------------------------------------------

    def workbench(self, *times: Timings | SideBySide, dialects: Iterable[str] = ()) -> Workbench:
        """Return all that was recorded, alive; `times` are those of the last compile."""
        return workbench(self._backed("workbench", times, dialects))

    def explore(self) -> Explorer:
        """Return the graphs that were recorded, alive."""
        return explorer(self._backed("explore"))

    def display(self) -> None:
        """Show the workbench now."""
        self.workbench().display()

    def save(self, path: str | Path) -> None:
        """Write all of it to a file, which `ll.open` reads."""
        save_recording(path, [one.subject for one in self._backed("save")])

    @override
    def __str__(self) -> str:
        lines = [repr(self)]
        for one in self._shown():
            if not isinstance(one, _Compile):
                lines.append(repr(one))
            elif one.error is None:
                lines.append(repr(one.compilation))
            else:
                lines.append(f"{one.compilation!r}, which failed: {_sentence(one.error)}")
        return "\n".join(lines)

    _repr_mimebundle_ = as_text

    @override
    def __repr__(self) -> str:
        graphs, compiles = len(self.graphs), len(self._compiles)
        many = f"{graphs} graph{'s' * (graphs != 1)}, {compiles} compile{'s' * (compiles != 1)}"
        return f"<Traced: {many}; .workbench() shows them>"


def _sentence(error: BaseException) -> str:
    """Return what an error says, on one line."""
    text = error.message if isinstance(error, Explained) else str(error)
    first = text.partition("\n")[0] or type(error).__name__
    return first if len(first) <= 120 else f"{first[:119]}…"


def trace(*nothing: object) -> Traced:
    """Return what records every graph and compile that is made inside its `with` block.

    This function records; `cx.trace(tensor)` follows one node through the passes of a compile, and
    what it returns is a `ll.Trace`.

    >>> import luminal_lab as ll
    >>> with ll.trace() as t:
    ...     cx = ll.Graph("twice")
    ...     y = (cx.tensor((2,), name="x") * 2).retrieve()
    ...     compilation = cx.compile("simplify, dce")
    >>> t
    <Traced: 1 graph, 1 compile; .workbench() shows them>
    >>> t.compilations == (compilation,)
    True
    """
    if nothing:
        raise ArgumentError(
            f"trace: it takes nothing, and got {nothing[0]!r}",
            hint="with ll.trace() as t: records graphs and compiles; cx.trace(x) follows a node",
        )
    return Traced()

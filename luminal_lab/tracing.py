"""`with ll.trace() as t:` records every graph and every compile that is made inside.

Several may be open at once, nested and in other threads; each records what its own thread makes
while it is open. While none is open, a compile only reads one context variable.
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
from luminal_lab.tensor.arguments import told_object
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
    """A compile, or how far it got."""

    compilation: Compilation
    graph: Graph | None
    """None if no session asked for it, as with `ll.compile_ir`."""
    error: BaseException | None


@told_object("trace")
class Traced:
    """A context manager with the records made while it was open; it can be entered again.

    In another thread, `with t:` adds what that thread makes to the same record.
    """

    def __init__(self) -> None:
        self._entries: list[Graph | _Compile] = []
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
        # Not by a token, which would bring back others closed in the meantime.
        rest = list(LISTENERS.get())
        if self in rest:
            rest.reverse()
            rest.remove(self)
            rest.reverse()
        LISTENERS.set(tuple(rest))

    # -- told ----------------------------------------------------------------------------------

    def wrote(self, graph: object) -> None:
        """Note a new graph."""
        if not any(entry is graph for entry in self._entries):
            self._entries.append(cast("Graph", graph))

    def compiles(self, graph: object, written: object) -> None:
        """Note that a graph, as written so far, is about to be compiled."""
        self._written[id(written)] = cast("IR", written), cast("Graph", graph)

    def compiled(self, compilation: object, error: BaseException | None) -> None:
        """Note a compile, or how far it got before an error."""
        ended = cast(Compilation, compilation)
        if any(
            isinstance(entry, _Compile) and entry.compilation is ended for entry in self._entries
        ):
            return  # it is open twice
        _, graph = self._written.get(id(ended.written), (None, None))
        self._entries.append(_Compile(ended, graph, error))

    # -- what there is -------------------------------------------------------------------------

    @property
    def graphs(self) -> tuple[Graph, ...]:
        """The graphs that were made or compiled, in order."""
        graphs = [entry.graph if isinstance(entry, _Compile) else entry for entry in self._entries]
        return tuple({id(graph): graph for graph in graphs if graph is not None}.values())

    @property
    def compilations(self) -> tuple[Compilation, ...]:
        """The compiles that succeeded, in order."""
        return tuple(entry.compilation for entry in self._compiles if entry.error is None)

    @property
    def errors(self) -> tuple[BaseException, ...]:
        """The errors of the other compiles; the workbench shows how far they came."""
        return tuple(entry.error for entry in self._compiles if entry.error is not None)

    @property
    def _compiles(self) -> list[_Compile]:
        return [entry for entry in self._entries if isinstance(entry, _Compile)]

    def __len__(self) -> int:
        """Return the number of graphs and compiles that its workbench shows."""
        return len(self._shown())

    def __bool__(self) -> bool:
        return True

    def _shown(self) -> list[Graph | _Compile]:
        """Return all compiles, and the graphs that were not compiled and are not empty."""
        compiled = {id(entry.graph) for entry in self._compiles}
        return [
            entry
            for entry in self._entries
            if isinstance(entry, _Compile) or (id(entry) not in compiled and len(entry.ir))
        ]

    def _backed(
        self,
        caller: str,
        times: tuple[Timings | SideBySide, ...] = (),
        dialects: Iterable[str] = (),
    ) -> list[Backed]:
        shown, asked = self._shown(), tuple(dialects)
        if not shown:
            raise GraphError(
                f"{caller}: nothing was recorded",
                hint="write or compile a graph inside: with ll.trace() as t: …",
            )
        names: dict[str, int] = {}
        backed: list[Backed] = []
        for entry in shown:
            name = entry.compilation.written.name if isinstance(entry, _Compile) else entry.name
            names[name] = count = names.get(name, 0) + 1
            title = name if count == 1 else f"{name} #{count}"
            if not isinstance(entry, _Compile):
                backed.append(backed_graph(caller, entry.ir, entry, title))
                continue
            if entry.error is not None:
                title += f", which failed: {_sentence(entry.error)}"
            mine = times if entry is self._compiles[-1] else ()
            backed.append(
                backed_compile(
                    entry.compilation, entry.graph, times=mine, dialects=asked, title=title
                )
            )
        return backed

    # -- shown ---------------------------------------------------------------------------------

    def workbench(self, *times: Timings | SideBySide, dialects: Iterable[str] = ()) -> Workbench:
        """Return a live view of the whole record; `times` are those of the last compile."""
        return workbench(self._backed("workbench", times, dialects))

    def explore(self) -> Explorer:
        """Return a live view of the recorded graphs."""
        return explorer(self._backed("explore"))

    def display(self) -> None:
        """Show the workbench now."""
        self.workbench().display()

    def save(self, path: str | Path) -> None:
        """Write all of it to a file, which `ll.open` reads."""
        save_recording(path, [entry.subject for entry in self._backed("save")])

    @override
    def __str__(self) -> str:
        lines = [repr(self)]
        for entry in self._shown():
            if not isinstance(entry, _Compile):
                lines.append(repr(entry))
            elif entry.error is None:
                lines.append(repr(entry.compilation))
            else:
                lines.append(f"{entry.compilation!r}, which failed: {_sentence(entry.error)}")
        return "\n".join(lines)

    _repr_mimebundle_ = as_text

    @override
    def __repr__(self) -> str:
        graphs, compiles = len(self.graphs), len(self._compiles)
        many = f"{graphs} graph{'s' * (graphs != 1)}, {compiles} compile{'s' * (compiles != 1)}"
        return f"<Traced: {many}; .workbench() shows them>"


def _sentence(error: BaseException) -> str:
    """Return an error's message on one line."""
    text = error.message if isinstance(error, Explained) else str(error)
    first = text.partition("\n")[0] or type(error).__name__
    return first if len(first) <= 120 else f"{first[:119]}…"


def trace(*nothing: object) -> Traced:
    """Return a record of every graph and compile made inside its `with` block.

    This function records; `cx.trace(tensor)` follows one node through the passes of a compile and
    returns a `ll.Trace`.

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

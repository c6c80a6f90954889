"""How a notebook shows things: as text, and with the picture that `viz` draws of them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import wraps
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Concatenate,
    Literal,
    ParamSpec,
    Protocol,
    TypeAlias,
    TypeVar,
    cast,
)

if TYPE_CHECKING:
    from pathlib import Path

S = TypeVar("S")
R = TypeVar("R")
P = ParamSpec("P")
Theme: TypeAlias = Literal["auto", "light", "dark"]
Engine: TypeAlias = Literal["layered", "dot"]


class Shown(Protocol):
    """A picture or a table, as a value: the last line of a cell shows it."""

    @property
    def html(self) -> str:
        """The picture as HTML without a script."""
        ...

    @property
    def text(self) -> str:
        """The picture in words."""
        ...

    def save(self, path: str | Path) -> None:
        """Write it to a file, in the format that the file's suffix names."""
        ...

    def _repr_mimebundle_(self, **_: object) -> dict[str, str]: ...


class Alive(Protocol):
    """A live picture, whose selection can be read, set and observed."""

    @property
    def subjects(self) -> tuple[Any, ...]:  # of io, which is above
        """The graphs and compiles on show."""
        ...

    @property
    def widget(self) -> Any:  # noqa: ANN401  # of anywidget, which is optional
        """The widget, for layouts of ipywidgets."""
        ...

    @property
    def stage(self) -> Any:  # noqa: ANN401  # of passes, which are above
        """The snapshot on show."""
        ...

    @property
    def selected(self) -> Any:  # noqa: ANN401  # nodes, a line, a kernel, …
        """The selection."""
        ...

    def go(self, to: Any = None, *, firing: int | None = None, run: int = -1) -> None:  # noqa: ANN401  # a name, a number or a snapshot
        """Show the graph after a pass, or after the given number of its firings."""
        ...

    def select(self, target: Any) -> None:  # noqa: ANN401  # likewise
        """Select something, which is highlighted wherever it appears."""
        ...

    def observe(self, call: Callable[[Any], object]) -> Callable[[], None]:
        """Call a function on each new selection; calling the result stops that."""
        ...

    def display(self) -> None:
        """Show it now."""
        ...

    def export(self, path: str | Path, *, theme: Theme = "auto") -> Path:
        """Write one HTML page that needs neither a kernel nor a network, and return its path."""
        ...


class ShownGraph(Shown, Protocol):
    """A picture of a graph, which is SVG and can go to other tools."""

    @property
    def svg(self) -> str:
        """The picture."""
        ...

    @property
    def payload(self) -> Any:  # noqa: ANN401  # a class of viz
        """The picture as plain data."""
        ...

    def to_svg(self, path: str | Path) -> None:
        """Write the SVG to a file."""
        ...

    def to_png(self, path: str | Path | None = None) -> bytes:
        """Return a PNG, drawn by a browser on this machine."""
        ...

    def to_dot(self) -> Any:  # noqa: ANN401  # a class of graphviz
        """Return the graph as shown, for the `graphviz` package."""
        ...

    def to_mermaid(self) -> str:
        """Return the graph as shown, as Mermaid text."""
        ...

    def to_model_explorer(self) -> dict[str, Any]:
        """Return the graph as shown, as Model Explorer's graph JSON."""
        ...

    def to_node_data(self) -> dict[str, Any]:
        """Return the overlay as Model Explorer's node data JSON."""
        ...


DISPLAYS: dict[str, Callable[..., Any]] = {}
"""Functions of `viz` that draw a picture, by the name of the class drawn.

`CLASS.explore` and `CLASS.workbench` make live ones, `CLASS.meanwhile` shows one within a `with`,
and `CLASS.save`, in `io`, makes a recording.
"""


class Displayed:
    """Something that a notebook shows as a picture or a table beside its text."""

    __slots__ = ()
    shows_itself: ClassVar[bool] = True
    """Whether a cell that ends in it shows the picture beside the text."""

    def display(self, *, theme: Theme = "auto") -> Shown:
        """Return a picture or a table of it, which the last line of a cell shows.

        >>> y = cx.tensor((4, 8), name="x").softmax(-1).retrieve()
        >>> program = next(ll.search.judged_programs(ll.search.space_of(cx.ir)))
        >>> program.display()
        <Page: kernel main(x: f32[4, 8]) -> (O: f32[4, 8])>
        """
        return DISPLAYS[type(self).__name__](self, theme=theme)

    def _repr_mimebundle_(self, **_: object) -> dict[str, str]:
        make = DISPLAYS.get(type(self).__name__) if self.shows_itself else None
        shown: dict[str, str] = {} if make is None else make(self)._repr_mimebundle_()
        return {**shown, "text/plain": str(self)}


class Explored:
    """One graph or several, which can be explored as a live picture."""

    __slots__ = ()

    def explore(self) -> Alive:
        """Return a live picture: a notebook shows it, `.export` writes a page.

        >>> y = (cx.tensor((2,), name="x") * 1).retrieve()
        >>> cx.compile("simplify")["simplify"].explore()
        <Explorer of main: 3 nodes; a notebook shows it, .export("page.html") writes it as a page>
        """
        return DISPLAYS[f"{type(self).__name__}.explore"](self)


class Examined(Explored):
    """One compile or several, which can be examined in a workbench."""

    __slots__ = ()

    def workbench(self) -> Alive:
        """Return a live workbench: a notebook shows it, `.export` writes a page.

        >>> y = (cx.tensor((2,), name="x") * 1).retrieve()
        >>> cx.compile("simplify").workbench()
        <Workbench of main: 1 pass; a notebook shows it, .export("page.html") writes it as a page>
        """
        return DISPLAYS[f"{type(self).__name__}.workbench"](self)


def shown_meanwhile(method: Callable[Concatenate[S, P], R]) -> Callable[Concatenate[S, P], R]:
    """Show in a notebook what a method is working on, for as long as it runs."""

    @wraps(method)
    def showing(self: S, *args: P.args, **how: P.kwargs) -> R:
        show: Callable[..., AbstractContextManager[None]] = nullcontext
        if "IPython" in sys.modules:  # outside notebooks nothing is loaded for this
            show = DISPLAYS.get(f"{type(self).__name__}.meanwhile", nullcontext)
        with show(self):
            return method(self, *args, **how)

    return showing


class Recorded:
    """Something that a recording carries."""

    __slots__ = ()

    def save(self, path: str | Path) -> None:
        """Write it to a file, which `ll.open` reads on any machine.

        >>> y = (cx.tensor((2,), name="x") * 1).retrieve()
        >>> cx.compile("simplify, dce").save(folder / "run.lab")
        >>> print(ll.open(folder / "run.lab").snapshots[-1].ir)
        graph main(%x: f32[2]) -> (%x) {
        }
        """
        DISPLAYS[f"{type(self).__name__}.save"](self, path)


class Charted:
    """Something with numbers to chart."""

    __slots__ = ()

    def plot(self, *, theme: Theme = "auto") -> Any:  # noqa: ANN401  # a plotly figure
        """Return a chart, as a plotly figure, which the last line of a cell shows.

        >>> y = (cx.tensor((2,), name="x") * 1).retrieve()
        >>> figure = cx.compile("simplify, dce").plot()
        >>> [bars.name for bars in figure.data]
        ['unused', 'mul-one', 'time']
        """
        return DISPLAYS[f"{type(self).__name__}.plot"](self, theme=theme)


class DrawnGraph(Displayed):
    """One graph or two."""

    __slots__ = ()

    def to_pandas(self) -> Any:  # noqa: ANN401  # a table of pandas
        """Return a pandas table with a row for each node, or for each firing of a pass.

        >>> y = (cx.tensor((2,), name="x") * 1).retrieve()
        >>> cx.ir.to_pandas()[["name", "op"]].values.tolist()
        [['x', 'input'], ['1', 'constant'], ['2', 'mul']]
        """
        return DISPLAYS[f"{type(self).__name__}.to_pandas"](self)

    def display(
        self,
        *,
        show_shapes: bool = True,
        show_views: bool = False,
        depth: int | None = None,
        select: object = None,
        highlight: object = (),
        overlay: Mapping[str, float] | str | Path | Any = None,  # noqa: ANN401  # or timings
        theme: Theme = "auto",
        layout: Engine = "layered",
    ) -> ShownGraph:
        """Return a picture of it, which the last line of a cell shows.

        Scopes are open down to a depth, or as far as it stays readable. `select` shows only some
        nodes and `highlight` rings some: by name, scope, tensor, or a function of a node. `overlay`
        puts numbers on nodes: a dict by name, timings, or a file of Model Explorer's node data.

        >>> y = (cx.tensor((2,), name="x") * 2).retrieve()
        >>> cx.ir.display(highlight="x")  # doctest: +ELLIPSIS
        <GraphPicture: Graph main: 2 of 3 nodes (1 scalar in the ops). Inputs: x. Results: %2. ...>
        """
        shown = DISPLAYS[type(self).__name__](
            self,
            show_shapes=show_shapes,
            show_views=show_views,
            depth=depth,
            select=select,
            highlight=highlight,
            overlay=overlay,
            theme=theme,
            layout=layout,
        )
        return cast("ShownGraph", shown)

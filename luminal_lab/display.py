"""How a notebook shows things: by their text, and by the picture that `viz` has for them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol, TypeAlias, cast

if TYPE_CHECKING:
    from pathlib import Path

Theme: TypeAlias = Literal["auto", "light", "dark"]
Engine: TypeAlias = Literal["layered", "dot"]


class Shown(Protocol):
    """A picture or a table, as a value: the last line of a cell shows it."""

    @property
    def html(self) -> str:
        """What is shown, as HTML without a script."""
        ...

    @property
    def text(self) -> str:
        """What is shown, in words."""
        ...

    def save(self, path: str | Path) -> None:
        """Write it to a file, of the kind that the file's name ends in."""
        ...

    def _repr_mimebundle_(self, **_: object) -> dict[str, str]: ...


class Alive(Protocol):
    """A picture that is alive: what is selected in it is read, set and listened to here."""

    @property
    def subjects(self) -> tuple[Any, ...]:  # of io, which is above
        """The graphs and compiles that it shows."""
        ...

    @property
    def widget(self) -> Any:  # noqa: ANN401  # of anywidget, which is optional
        """The widget, for layouts of ipywidgets."""
        ...

    @property
    def stage(self) -> Any:  # noqa: ANN401  # of passes, which are above
        """The snapshot that is looked at."""
        ...

    @property
    def selected(self) -> Any:  # noqa: ANN401  # nodes, a line, a kernel, …
        """What is selected."""
        ...

    def go(self, to: Any = None, *, firing: int | None = None, run: int = -1) -> None:  # noqa: ANN401  # a name, a number or a snapshot
        """Look at the graph after a pass, or after so many of its firings."""
        ...

    def select(self, what: Any) -> None:  # noqa: ANN401  # likewise
        """Select something: it lights up wherever it is shown."""
        ...

    def observe(self, call: Callable[[Any], object]) -> Callable[[], None]:
        """Have a function called with what is selected; what is returned ends that."""
        ...

    def display(self) -> None:
        """Show it now."""
        ...

    def export(self, path: str | Path, *, theme: Theme = "auto") -> None:
        """Write one page of HTML that needs no kernel and no network."""
        ...


class ShownGraph(Shown, Protocol):
    """A picture of a graph, which is SVG and can go to other tools."""

    @property
    def svg(self) -> str:
        """The picture."""
        ...

    @property
    def payload(self) -> Any:  # noqa: ANN401  # a class of viz
        """What is shown, as plain data."""
        ...

    def to_svg(self, path: str | Path) -> None:
        """Write the SVG to a file."""
        ...

    def to_png(self, path: str | Path | None = None) -> bytes:
        """Return it as a PNG, which a browser on this machine draws."""
        ...

    def to_dot(self) -> Any:  # noqa: ANN401  # a class of graphviz
        """Return the graph as it is shown, for the `graphviz` package."""
        ...

    def to_mermaid(self) -> str:
        """Return the graph as it is shown, as text of Mermaid."""
        ...

    def to_model_explorer(self) -> dict[str, Any]:
        """Return the graph as it is shown, as Model Explorer's JSON of graphs."""
        ...

    def to_node_data(self) -> dict[str, Any]:
        """Return what the overlay says, as Model Explorer's JSON of node data."""
        ...


DISPLAYS: dict[str, Callable[..., Any]] = {}
"""What makes the picture of a thing, by the name of its class; `viz` is where they come from.

`CLASS.explore` and `CLASS.workbench` make those that are alive.
"""


class Displayed:
    """Something that a notebook shows as a picture or a table beside its text."""

    __slots__ = ()
    shows_itself: ClassVar[bool] = True
    """Whether a cell that ends in it shows the picture, and not the text alone."""

    def display(self, *, theme: Theme = "auto") -> Shown:
        """Return a picture or a table of it, which the last line of a cell shows."""
        return DISPLAYS[type(self).__name__](self, theme=theme)

    def _repr_mimebundle_(self, **_: object) -> dict[str, str]:
        make = DISPLAYS.get(type(self).__name__) if self.shows_itself else None
        shown: dict[str, str] = {} if make is None else make(self)._repr_mimebundle_()
        return {**shown, "text/plain": str(self)}


class Explored:
    """Something that is a graph, or several, and can be looked at as a picture that is alive."""

    __slots__ = ()

    def explore(self) -> Alive:
        """Return it as a picture that is alive: a notebook shows it, `.export` writes a page."""
        return DISPLAYS[f"{type(self).__name__}.explore"](self)


class Examined(Explored):
    """Something that is a compile, or several, and can be looked at with all that is known."""

    __slots__ = ()

    def workbench(self) -> Alive:
        """Return all of it, alive: a notebook shows it, `.export` writes it as a page."""
        return DISPLAYS[f"{type(self).__name__}.workbench"](self)


class Charted:
    """Something with numbers, which a chart shows."""

    __slots__ = ()

    def plot(self, *, theme: Theme = "auto") -> Any:  # noqa: ANN401  # a figure of plotly's
        """Return a chart of it, a figure of plotly's, which the last line of a cell shows."""
        return DISPLAYS[f"{type(self).__name__}.plot"](self, theme=theme)


class Drawn(Displayed):
    """Something that is a graph, or two."""

    __slots__ = ()

    def to_pandas(self) -> Any:  # noqa: ANN401  # a table of pandas
        """Return a table of pandas, a row for each node, or for each firing of a pass."""
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

        Scopes are open down to a depth, or as far as it stays readable. `select` shows some nodes
        alone and `highlight` rings some: by name, scope, tensor, or a function of a node. `overlay`
        puts numbers on nodes: a dict by name, timings, or a file of Model Explorer's node data.
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

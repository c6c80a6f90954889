"""How a notebook shows things: by their text, and by the picture that `viz` has for them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

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


DISPLAYS: dict[str, Callable[..., Shown]] = {}
"""What makes the picture of a thing, by the name of its class; `viz` is where they come from."""


class Displayed:
    """Something that a notebook shows as a picture or a table beside its text."""

    __slots__ = ()

    def display(self, *, theme: Theme = "auto") -> Shown:
        """Return a picture or a table of it, which the last line of a cell shows."""
        return DISPLAYS[type(self).__name__](self, theme=theme)

    def _repr_mimebundle_(self, **_: object) -> dict[str, str]:
        make = DISPLAYS.get(type(self).__name__)
        shown = {} if make is None else make(self)._repr_mimebundle_()
        return {**shown, "text/plain": str(self)}


class Drawn(Displayed):
    """Something that is a graph, or two."""

    __slots__ = ()

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
    ) -> Shown:
        """Return a picture of it, which the last line of a cell shows.

        Scopes are open down to a depth, or as far as it stays readable. `select` shows some nodes
        alone and `highlight` rings some: by name, scope, tensor, or a function of a node. `overlay`
        puts numbers on nodes: a dict by name, timings, or a file of Model Explorer's node data.
        """
        return DISPLAYS[type(self).__name__](
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

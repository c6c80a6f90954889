"""Training curves: a value that a loop adds numbers to, and that displays itself.

    with ll.History() as history:
        for step in range(250):
            train.execute()
            history.add(loss=loss)
    history.plot()

Inside the `with`, a notebook shows the curves as they grow; the final picture needs no script.
Outside a notebook nothing is shown, but the numbers are kept.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from time import monotonic
from typing import TYPE_CHECKING, Any, Self, SupportsFloat, cast

import numpy as np
import numpy.typing as npt
from typing_extensions import override

from luminal_lab.display import Theme
from luminal_lab.errors import ArgumentError, GraphError, nearest, whole_number
from luminal_lab.tables import Table, frame
from luminal_lab.tensor.arguments import is_function
from luminal_lab.viz.figures import COLOURS, Payload, axis, figure, layout, logarithmic, safe
from luminal_lab.viz.live.notebook import outputs
from luminal_lab.viz.markup import number, plain, written
from luminal_lab.viz.metrics import text_width
from luminal_lab.viz.picture import Picture
from luminal_lab.viz.svg import framed

if TYPE_CHECKING:
    import plotly.graph_objects as go

WIDE, DEEP, LEFT, RIGHT = 560.0, 220.0, 62.0, 150.0
EVERY = 0.5
"""The seconds between two pictures while a loop runs."""
MOST = 400
"""The most points of a drawn curve; beyond that, the lowest and highest of neighbours are drawn."""
DASHES = ("", "7 3", "2 3", "9 3 2 3", "4 2", "1 2", "12 4")
PLOTLY_DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot", "solid")
Floats = npt.NDArray[np.float64]
Along = Callable[[float], float]


class History:
    """Numbers by step, under names; a notebook shows them as curves.

    >>> history = History("digits")
    >>> for loss in (2.0, 1.0, 0.5):
    ...     history.add(loss=loss)
    >>> history
    <History of digits: 3 steps; loss 0.5>
    >>> history["loss"]
    array([2. , 1. , 0.5])
    """

    def __init__(self, title: str = "training") -> None:
        self.title = title
        self._rows: list[tuple[int, dict[str, float]]] = []
        self._names: dict[str, None] = {}
        self._handle: Any = None
        self._shown = -math.inf

    # -- numbers -----------------------------------------------------------------------------------

    def add(self, step: int | None = None, **values: SupportsFloat) -> None:
        """Add numbers under names: floats, or computed tensors; steps count up by themselves.

        >>> history = ll.History()
        >>> history.add(loss=2.0, accuracy=0.1)
        >>> history.add(step=10, loss=1.0)
        >>> history.steps, history["accuracy"]
        ((0, 10), array([0.1, nan]))
        """
        step_number = len(self) if step is None else whole_number(step)
        if step_number is None:
            raise ArgumentError(
                f"history: the step is {step!r}", hint="give a whole number, or leave it out"
            )
        last = self._rows[-1][0] if self._rows else -1
        if step is None and self._rows:
            step_number = last + 1
        if step_number < last:
            raise ArgumentError(
                f"history: step {step_number} comes after step {last}", hint="steps go up"
            )
        if not values:
            raise ArgumentError(
                "history: there is nothing to add", hint="give numbers, as in add(loss=loss)"
            )
        row = {name: _number(name, value) for name, value in values.items()}
        self._names.update(dict.fromkeys(row))
        if step_number == last:
            self._rows[-1][1].update(row)
        else:
            self._rows.append((step_number, row))
        if self._handle is not None and monotonic() - self._shown >= EVERY:
            self._show()

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the curves, in order of appearance."""
        return tuple(self._names)

    @property
    def steps(self) -> tuple[int, ...]:
        """The steps at which something was added."""
        return tuple(step for step, _ in self._rows)

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[tuple[int, Mapping[str, float]]]:
        return iter(self._rows)

    def __getitem__(self, name: str) -> Floats:
        """Return the numbers under a name, one for each step; NaN where none was added."""
        if name not in self._names:
            raise GraphError(
                f"history: nothing was added under {name!r}",
                hint=nearest(str(name), self._names)
                or (
                    f"choose from {', '.join(self._names)}"
                    if self._names
                    else "there are no numbers yet"
                ),
            )
        return np.array([row.get(name, math.nan) for _, row in self._rows])

    def curve(self, name: str) -> tuple[Floats, Floats]:
        """Return the steps and the numbers added under a name.

        >>> history = ll.History()
        >>> history.add(loss=2.0, accuracy=0.1)
        >>> history.add(loss=1.0)
        >>> history.curve("accuracy")
        (array([0.]), array([0.1]))
        """
        values = self[name]
        present = [row_number for row_number, (_, row) in enumerate(self._rows) if name in row]
        return np.array(self.steps, float)[present], values[present]

    def to_pandas(self) -> Table:
        """Return a pandas table with a row for each step and a column for each name.

        >>> history = ll.History()
        >>> history.add(loss=2.0)
        >>> history.add(loss=1.0)
        >>> history.to_pandas().values.tolist()
        [[0.0, 2.0], [1.0, 1.0]]
        """
        rows = ((step, *(row.get(name) for name in self._names)) for step, row in self._rows)
        return frame("history", ("step", *self._names), rows, {"title": self.title})

    # -- shown -------------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        show = outputs()
        if show is not None:
            self._handle = show(self, display_id=True)
            self._shown = monotonic()
        return self

    def __exit__(self, *_: object) -> None:
        if self._handle is not None:
            self._show()
            self._handle = None

    def _show(self) -> None:
        self._handle.update(self)
        self._shown = monotonic()

    def display(self, *, theme: Theme = "auto") -> Picture:
        """Return the curves as a picture, which the last line of a cell shows.

        >>> history = ll.History("digits")
        >>> history.add(loss=2.0)
        >>> history.display()
        <Picture: digits: 1 step; loss 2, least 2 at step 0>
        """
        return curves(self, theme)

    def plot(self, *names: str, log: bool = False, theme: Theme = "auto") -> go.Figure:
        """Return all curves, or the named ones, as a plotly figure.

        >>> history = ll.History()
        >>> history.add(loss=2.0, accuracy=0.1)
        >>> [curve.name for curve in history.plot("loss").data]
        ['loss']
        """
        return figure(curve_chart(self, names, log=log, theme=theme))

    def _repr_mimebundle_(self, **_: object) -> dict[str, str]:
        shown = self.display()._repr_mimebundle_()
        # Avoids flicker when a picture replaces another.
        shown["text/html"] = shown["text/html"].replace("<img ", '<img decoding="sync" ', 1)
        return {**shown, "text/plain": str(self)}

    @override
    def __str__(self) -> str:
        many = f"{len(self):,} step{'s' * (len(self) != 1)}"
        return f"{self.title}: {many}" + "".join(
            f"; {curve_text}" for curve_text in _summaries(self)
        )

    @override
    def __repr__(self) -> str:
        last = "".join(f"; {name} {_text(self.curve(name)[1][-1])}" for name in self._names)
        return f"<History of {self.title}: {len(self)} step{'s' * (len(self) != 1)}{last}>"


def _number(name: str, value: object) -> float:
    """Return a value as one number: a float, an array of one, a computed tensor."""
    item = getattr(value, "item", None)
    try:
        result = float(cast("Any", item() if is_function(item) else value))
    except (TypeError, ValueError) as error:
        raise ArgumentError(
            f"history: {name} is {value!r}, and no number",
            hint="give one number, as in loss.item()",
        ) from error
    return result


def _summaries(history: History) -> Iterator[str]:
    """Yield a summary of each curve: its last and least numbers, and where it is not finite."""
    for name in history.names:
        steps, values = history.curve(name)
        finite = np.isfinite(values)
        summary = f"{name} {_text(values[-1])}"
        if finite.any():
            least = int(np.flatnonzero(finite)[np.argmin(values[finite])])
            summary += f", least {_text(values[least])} at step {steps[least]:.0f}"
        if not finite.all():
            summary += f", not finite from step {steps[int(np.argmin(finite))]:.0f}"
        yield summary


def _text(value: float) -> str:
    return f"{value:.4g}"


# -- plotly's --------------------------------------------------------------------------------------


def curve_chart(
    history: History, names: tuple[str, ...] = (), *, log: bool = False, theme: Theme = "auto"
) -> Payload:
    """Return the payload of a chart of curves."""
    data: list[Payload] = []
    for index, name in enumerate(names or history.names):
        steps, values = history.curve(name)
        data.append(
            {
                "type": "scatter",
                "mode": "lines" if len(values) > 1 else "markers",
                "name": safe(name),
                "x": [int(step) for step in steps],
                "y": [float(value) if math.isfinite(value) else None for value in values],
                "connectgaps": False,
                "line": {
                    "color": COLOURS[index % len(COLOURS)],
                    "dash": PLOTLY_DASHES[index % len(PLOTLY_DASHES)],
                    "width": 2,
                },
            }
        )
    around = layout(history.title, below="; ".join(_summaries(history)), theme=theme)
    around["xaxis"] = axis("step")
    around["yaxis"] = logarithmic("") if log else axis()
    around["hovermode"] = "x unified"
    around["showlegend"] = True
    return {"data": data, "layout": around}


# -- a picture -------------------------------------------------------------------------------------


def curves(history: History, theme: Theme = "auto") -> Picture:
    """Return the curves as SVG, each labelled with its name and last number."""
    text = str(history)
    steps = np.array(history.steps or (0,), float)
    known = [history.curve(name) for name in history.names]
    finite = np.concatenate(
        [curve_values[np.isfinite(curve_values)] for _, curve_values in known] or [np.zeros(0)]
    )
    low, high = _range(finite)
    first, last = float(steps[0]), float(max(steps[-1], steps[0] + 1))
    top = 34.0

    def x_of(step: float) -> float:
        return LEFT + (step - first) / (last - first) * WIDE

    def y_of(value: float) -> float:
        return top + DEEP - (value - low) / (high - low) * DEEP

    parts = [written(0, 12, history.title, 12.5, "b")]
    for value in _ticks(low, high):
        y = y_of(value)
        parts.append(f'<path class="l" d="M{number(LEFT)} {number(y)}h{number(WIDE)}"/>')
        parts.append(written(LEFT - 6, y + 3.5, _text(value), 10, "i q", end=True))
    for value in _ticks(first, last):
        if value == int(value):
            shown = f"{int(value):,}"
            at = x_of(value) - text_width(shown, 10) / 2
            parts.append(written(at, top + DEEP + 15, shown, 10, "i q"))
    parts.append(written(LEFT + WIDE / 2 - 12, top + DEEP + 30, "step", 10, "i q"))
    ends: list[tuple[float, str, str]] = []
    for index, (name, (own, values)) in enumerate(zip(history.names, known, strict=True)):
        colour, dash = COLOURS[index % len(COLOURS)], DASHES[index % len(DASHES)]
        broken = f' stroke-dasharray="{dash}"' if dash else ""
        path = _path(own, values, x_of, y_of)
        parts.append(
            f'<g><title>{plain(name)}</title><path fill="none" stroke="{colour}" '
            f'stroke-width="1.8" stroke-linejoin="round"{broken} d="{path}"/></g>'
        )
        real = values[np.isfinite(values)]
        y = y_of(real[-1]) if len(real) else top + DEEP
        ends.append((y, f"{name} {_text(values[-1])}", colour))
    parts += _names(ends, top)
    if not history:
        parts.append(written(LEFT + 10, top + DEEP / 2, "nothing was added yet", 11, "i q"))
    inner = f'<g transform="translate(14 14)">{"".join(parts)}</g>'
    width, height = LEFT + WIDE + RIGHT + 28, top + DEEP + 36 + 28
    return Picture(framed(inner, width, height, theme, text), text, width, height)


def _range(values: Floats) -> tuple[float, float]:
    """Return the vertical range of the picture."""
    if not len(values):
        return 0.0, 1.0
    low, high = float(values.min()), float(values.max())
    if low == high:
        return low - (abs(low) or 1.0) / 2, high + (abs(high) or 1.0) / 2
    room = (high - low) * 0.04
    return low - room, high + room


def _ticks(low: float, high: float) -> Iterator[float]:
    """Yield some round numbers between two.

    >>> [*_ticks(0.0, 1.0)]
    [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]
    """
    rough = (high - low) / 6
    size = 10.0 ** math.floor(math.log10(rough))
    step = next(size * factor for factor in (1, 2, 5, 10) if size * factor >= rough * 0.999)
    at = math.ceil(low / step - 1e-9)
    while at * step <= high + step * 1e-9:
        yield round(at * step, 12)
        at += 1


def _path(steps: Floats, values: Floats, x_of: Along, y_of: Along) -> str:
    """Return a curve as the data of a path, with gaps where there is no number."""
    if len(values) > MOST:
        steps, values = _thinned(steps, values)
    parts: list[str] = []
    pen = "M"
    alone = True
    for step, value in zip(steps.tolist(), values.tolist(), strict=True):
        if not math.isfinite(value):
            pen = "M"
            continue
        parts.append(f"{pen}{number(x_of(step))} {number(y_of(value))}")
        alone = pen == "M"
        pen = "L"
    if alone and parts:  # a single point is a short line
        parts.append("h0.1")
    return "".join(parts)


def _thinned(steps: Floats, values: Floats) -> tuple[Floats, Floats]:
    """Return the lowest and the highest of neighbours, so that no peak is lost."""
    kept: list[int] = []
    for part in np.array_split(np.arange(len(values)), MOST // 2):
        finite = part[np.isfinite(values[part])]
        if not len(finite):
            kept.append(int(part[0]))
            continue
        ends = {int(finite[np.argmin(values[finite])]), int(finite[np.argmax(values[finite])])}
        kept += sorted(ends)
    return steps[kept], values[kept]


def _names(ends: list[tuple[float, str, str]], top: float) -> Iterator[str]:
    """Yield the names at the ends of curves, without overlap."""
    free = top - 6
    for y, text, colour in sorted(ends):
        at = max(y + 3.5, free + 13)
        free = at
        x = LEFT + WIDE + 6
        parts = f'<rect x="{number(x)}" y="{number(at - 7)}" width="7" height="7" fill="{colour}"/>'
        yield parts + written(x + 11, at, text, 10.5, "t")

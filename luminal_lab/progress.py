"""Progress bars for work that takes longer than a second: tqdm's, in a notebook or a terminal.

    with progress("compile", 12, "pass") as bar:
        for item in passes:
            bar.now(str(item))  # what is happening now item.run(…) bar.step()  # one more step is
            done

Nothing is shown in the first second, in output to a file or a pipe, or without tqdm. Work
inside something that has a bar is named after that bar.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from contextvars import ContextVar, Token
from time import monotonic
from types import FrameType, TracebackType
from typing import Any, Protocol, Self, TypeAlias, TypeVar

from typing_extensions import override

from luminal_lab.errors import visible
from luminal_lab.interrupts import held, is_on_stack

T = TypeVar("T")
AFTER = 1.0
"""The seconds before a bar is shown."""
EVERY = 0.1
"""The seconds between two drawings of a bar."""
LONGEST = 48
"""The most characters shown after a bar."""


class Bar(Protocol):
    """A bar: tqdm's, or one that stands in for it."""

    n: float
    total: float | None

    def set_postfix_str(self, s: str = "", refresh: bool = True) -> None:
        """Show the current step."""
        ...

    def refresh(self) -> object:
        """Redraw it."""
        ...

    def clear(self) -> object:
        """Take it away until it is drawn again."""
        ...

    def close(self) -> None:
        """Take it away."""
        ...


Maker: TypeAlias = Callable[[str, float | None, str, float], Bar]
"""Makes a bar: its title, its total, its unit, the seconds since it began."""


class Progress:
    """Progress without a display: nothing is shown or kept."""

    __slots__ = ()

    def now(self, words: str) -> None:
        """Name the next step before it begins."""

    def step(self, count: float = 1) -> None:
        """Note that a step is done."""

    def reach(self, count: float) -> None:
        """Note how much is done in all."""

    def more(self, count: float) -> None:
        """Add to the total."""

    def each(self, items: Iterable[T], name: Callable[[T], str] = str) -> Iterator[T]:
        """Yield items; each is a step, shown by its name."""
        del name
        return iter(items)

    def aside(self) -> None:
        """Make room in a terminal for a line that stays."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Clear the display."""


class _Telling(Progress):
    __slots__ = ()

    @override
    def each(self, items: Iterable[T], name: Callable[[T], str] = str) -> Iterator[T]:
        for item in items:
            self.now(name(item))
            yield item
            self.step()


class _Shown(_Telling):
    """The outermost work going on here, which has the bar."""

    __slots__ = ("_bar", "_drawn", "_frame", "_make", "_now", "_start", "_token", "done", "total")
    done: float

    def __init__(
        self, title: str, total: float | None, unit: str, make: Maker, frame: FrameType
    ) -> None:
        self.total, self.done = total, 0
        self._make: Callable[[float | None, float], Bar] | None = lambda total, seconds: make(
            title, total, unit, seconds
        )
        self._bar: Bar | None = None
        self._now = ""
        self._start = self._drawn = monotonic()
        self._token: Token[_Shown | None] | None = _OUTERMOST.set(self)
        self._frame: FrameType | None = frame

    @property
    def goes_on(self) -> bool:
        """Whether its owner still runs; Ctrl-C may have interrupted it."""
        return self._frame is not None and is_on_stack(self._frame)

    @override
    def now(self, words: str) -> None:
        self._now = words
        self.tell(words)

    def tell(self, words: str) -> None:
        """Show words after the bar, if there is one by now."""
        self._draw()
        if self._bar is not None:
            self._bar.set_postfix_str(shortened(visible(words)), refresh=False)

    def tell_within(self, words: str) -> None:
        """Show the words of a nested step."""
        self.tell(f"{self._now}: {words}" if self._now else words)

    @override
    def step(self, count: float = 1) -> None:
        self.done += count
        if self.total is not None:
            self.total = max(self.total, self.done)
        self._draw()

    @override
    def reach(self, count: float) -> None:
        self.step(count - self.done)

    @override
    def more(self, count: float) -> None:
        if self.total is not None:
            self.total += count

    @override
    def aside(self) -> None:
        if self._bar is not None:
            self._bar.clear()

    def _draw(self) -> None:
        """Redraw the bar, after the first second and not too often."""
        seconds = monotonic()
        if self._bar is None:
            if self._make is None or seconds - self._start < AFTER:
                return
            make, self._make = self._make, None
            try:
                self._bar = make(self.total, seconds - self._start)
            except ImportError:
                return  # tqdm is not installed: nothing is shown
        elif seconds - self._drawn < EVERY:
            return
        self._drawn = seconds
        self._bar.n, self._bar.total = self.done, self.total
        self._bar.refresh()

    @override
    def close(self) -> None:
        with held():
            bar, self._bar, self._make = self._bar, None, None
            if self._token is not None:
                _OUTERMOST.reset(self._token)
                self._token = None
                self._frame = None
            if bar is not None:
                bar.close()


class _Within(_Telling):
    """Work inside something that has a bar; it is named after that bar."""

    __slots__ = ("_done", "_now", "_of", "_outer")

    def __init__(self, title: str, total: float | None, outer: _Shown) -> None:
        self._of, self._done, self._now, self._outer = total, 0.0, title, outer

    @override
    def now(self, words: str) -> None:
        self._now = words
        self._tell()

    @override
    def step(self, count: float = 1) -> None:
        self._done += count
        self._tell()

    @override
    def reach(self, count: float) -> None:
        self.step(count - self._done)

    @override
    def more(self, count: float) -> None:
        if self._of is not None:
            self._of += count

    @override
    def aside(self) -> None:
        self._outer.aside()

    def _tell(self) -> None:
        far = "" if self._of is None or self._of < 2 else f" {self._done:.0f}/{self._of:.0f}"
        self._outer.tell_within(f"{self._now}{far}")


_OUTERMOST: ContextVar[_Shown | None] = ContextVar("luminal_lab_progress", default=None)
_NOTHING = Progress()


def progress(title: str, total: float | None = None, unit: str = "step") -> Progress:
    """Return a progress display, closed where its `with` ends.

    Without a total, only the steps are counted.

    >>> with progress("reading", 3, "file") as bar:
    ...     print(*bar.each(["a", "b", "c"]))
    a b c
    """
    outer = _OUTERMOST.get()
    if outer is not None and outer.goes_on:
        return _Within(title, total, outer)
    if outer is not None:
        outer.close()
    make = maker()
    if make is None:
        return _NOTHING
    return _Shown(title, total, unit, make, sys._getframe(1))  # pyright: ignore[reportPrivateUsage]  # inspect's is slow


def maker() -> Maker | None:
    """Return the function that creates bars here; None if they would not be seen."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    if shell is not None and getattr(shell, "kernel", None) is not None:
        return in_notebook
    stream: Any = sys.stderr
    is_seen = stream is not None and not stream.closed and stream.isatty()
    return in_terminal if is_seen else None


def in_terminal(title: str, total: float | None, unit: str, seconds: float) -> Bar:
    """Return tqdm's text bar."""
    from tqdm import tqdm

    kind: Any = type("Bar", (tqdm,), {"monitor_interval": 0})  # no thread of tqdm's
    bar = kind(desc=title, total=total, unit=unit, leave=False, delay=1e-9)
    # A terminal that does not know its size says 0, and tqdm would draw into one column less.
    bar.ncols, bar.nrows = (
        size if size is None or size > 0 else None for size in (bar.ncols, bar.nrows)
    )
    return _begun(bar, seconds)


def in_notebook(title: str, total: float | None, unit: str, seconds: float) -> Bar:
    """Return tqdm's bar for notebooks, or a text bar if widgets are not installed."""
    from tqdm import notebook

    if vars(notebook).get("IProgress") is None:  # there are no ipywidgets
        return in_terminal(title, total, unit, seconds)
    kind: Any = type("Bar", (notebook.tqdm_notebook,), {"monitor_interval": 0})
    bar = kind(desc=title, total=total, unit=unit, leave=False, display=False)
    return _Cell(_begun(bar, seconds))


def _begun(bar: Any, seconds: float) -> Bar:  # noqa: ANN401  # tqdm has no types
    bar.start_t -= seconds  # the remaining time is estimated from the beginning
    return bar


class _Cell:
    """A bar in a notebook's cell, which leaves nothing in a saved notebook."""

    def __init__(self, bar: Any) -> None:  # noqa: ANN401  # tqdm has no types
        self.n, self.total = 0, None
        self._bar = bar
        show: Any = vars(sys.modules["IPython"])["display"]
        self._handle: Any = show.display(bar.container, display_id=True)
        bar.displayed = True

    n: float
    total: float | None

    def set_postfix_str(self, s: str = "", refresh: bool = True) -> None:
        self._bar.set_postfix_str(s, refresh=refresh)

    def refresh(self) -> object:
        self._bar.n, self._bar.total = self.n, self.total
        if self.total is not None:
            self._bar.container.children[1].max = self.total
        return self._bar.refresh()

    def clear(self) -> object:
        return None  # lines stand below it

    def close(self) -> None:
        self._bar.close()
        # The widget is gone, and in a saved notebook its output would say that it is missing.
        self._handle.update({"text/html": "", "text/plain": ""}, raw=True)


def shortened(words: str) -> str:
    """Return words cut to fit after a bar.

    >>> shortened("a" * 60)
    'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa…'
    """
    plain = " ".join(words.split())
    return plain if len(plain) <= LONGEST else plain[: LONGEST - 1] + "…"

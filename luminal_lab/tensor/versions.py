"""How often inputs have changed, and who wants to know when a parameter does.

A model has hundreds of parameters that stay what they are from one run to the next. Who has looked
at all of them may keep what it found until one of them changes, and is told then.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Protocol

from luminal_lab.core.dtypes import Array


class Lent(Protocol):
    """A parameter, as far as it matters here."""

    @property
    def provider(self) -> object:
        """What has its value."""
        ...


_TOLD: list[weakref.WeakMethod[Callable[[], None]]] = []
"""What is called at the next change of a parameter."""


class Later:
    """A value that is elsewhere, and comes when it is first needed.

    >>> later = Later(lambda: ll.Parameter((2,), value=[0, 1]).value, 8)
    >>> later(), later() is later()
    (array([0., 1.], dtype=float32), True)
    """

    def __init__(self, fetch: Callable[[], Array], nbytes: int) -> None:
        self._fetch: Callable[[], Array] | None = fetch
        self._value: Array | None = None
        self.nbytes = nbytes

    def __call__(self) -> Array:
        """Return the value."""
        if self._value is None:
            assert self._fetch is not None, "it has one of the two"
            self._value, self._fetch = self._fetch(), None
        return self._value


def there(value: Array | Later) -> Array:
    """Return a value, wherever it is."""
    return value() if isinstance(value, Later) else value


class Versions(dict[int, int]):
    """How often each input of a session has changed."""

    takes_later = False
    """Whether what is carried may stay elsewhere: in a session's own run."""
    providers: Mapping[int, object] = {}
    """What has the values of inputs that are not here yet."""
    lent: Mapping[int, Lent] = {}
    """The inputs that are parameters."""
    steady: object = None
    """What is equal for as long as no parameter changes; None if nobody knows."""


def deferred(versions: Mapping[int, int], id: int) -> Later | None:
    """Return what an input's value comes from, if it is elsewhere."""
    if not isinstance(versions, Versions):
        return None
    lent = versions.lent.get(id)
    provider = versions.providers.get(id) if lent is None else lent.provider
    return provider if isinstance(provider, Later) else None


def at_next_change(method: Callable[[], None]) -> None:
    """Call a method, of an object that still exists, when a parameter next changes."""
    _TOLD.append(weakref.WeakMethod(method, _forget))


def tell_of_change() -> None:
    """Call what asked to be called when a parameter changes.

    >>> class Looker:
    ...     def look(self):
    ...         print("changed")
    >>> looker, weight = Looker(), ll.Parameter((1,))
    >>> at_next_change(looker.look)
    >>> weight.set([1])
    changed
    >>> weight.set([2])
    """
    with suppress(IndexError):
        while True:
            method = _TOLD.pop()()
            if method is not None:
                method()


def _forget(method: weakref.WeakMethod[Callable[[], None]]) -> None:
    with suppress(ValueError):
        _TOLD.remove(method)

"""How often inputs have changed, and who wants to know when a parameter does.

A model has hundreds of parameters that stay what they are from one run to the next. Who has looked
at all of them may keep what it found until one of them changes, and is told then.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Collection
from contextlib import suppress

_TOLD: list[weakref.WeakMethod[Callable[[], None]]] = []
"""What is called at the next change of a parameter."""


class Versions(dict[int, int]):
    """How often each input of a session has changed."""

    lent: Collection[int] = ()
    """The inputs that are parameters."""
    steady: object = None
    """What is equal for as long as no parameter changes; None if nobody knows."""


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

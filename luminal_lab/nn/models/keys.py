"""The keys of a model's configuration: each is read, known to be harmless, or an error."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, TypeVar, cast

from luminal_lab.errors import ModelError, nearest

T = TypeVar("T")
NOTHING = object()
MOST: Final = 2**31 - 1
"""The largest whole number, unless a key says less."""


class Keys:
    """The keys of a configuration, which remembers those that were asked for.

    >>> keys = Keys("config.json", {"hidden_size": 64, "twist": 2})
    >>> keys.whole("hidden_size", "n_embd")
    64
    >>> keys.done(())
    Traceback (most recent call last):
      ...
    luminal_lab.errors.ModelError: config.json: the key twist, 2, is not known here
    hint: what it changes would be left out without a word, so nothing is made of it
    """

    def __init__(
        self,
        subject: str,
        given: Mapping[str, object],
        spelled: Mapping[str, str] | None = None,
    ) -> None:
        self.subject = subject
        self.given = given
        self.spelled = spelled or {}
        """What messages call keys, where a file has other names for them."""
        self.asked: set[str] = set()

    def get(self, *names: str, default: object = NOTHING) -> object:
        """Return the value of the first of some names that is there.

        Another name with another value stays unread, which is an error in the end.

        >>> Keys("config.json", {"n_embd": 64}).get("hidden_size", "n_embd")
        64
        """
        values = [self.given[name] for name in names if name in self.given]
        value = next((value for value in values if value is not None), None)
        self.asked.update(n for n in names if self.given.get(n) in (None, value))
        if value is not None:
            return value
        if values and default is NOTHING:
            raise self.wrong(names[0], "a value is needed")
        if default is NOTHING:
            name = self.spelled.get(names[0], names[0])
            near = nearest(name, self.given)
            raise ModelError(f"{self.subject}: the key {name} is missing", hint=near)
        return default

    def whole(
        self, *names: str, default: int | object = NOTHING, least: int = 0, most: int = MOST
    ) -> int:
        """Return a whole number."""
        value = self.get(*names, default=default)
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise self.wrong(self._name(names), f"must be a whole number from {least} to {most:,}")
        return value

    def maybe(self, *names: str, default: int | None = None) -> int | None:
        """Return a whole number, or None for null; the default is for a key that is not there."""
        if any(name in self.given for name in names):
            default = None
        return (
            None
            if self.get(*names, default=default) is None
            else self.whole(*names, default=default)
        )

    def real(self, *names: str, default: float | object = NOTHING) -> float:
        """Return a finite number."""
        value = self.get(*names, default=default)
        if isinstance(value, bool) or not isinstance(value, (int, float)) or value - value != 0:
            raise self.wrong(self._name(names), "must be a number")
        return float(value)

    def above(self, *names: str, default: float | object = NOTHING) -> float:
        """Return a finite number above 0."""
        value = self.real(*names, default=default)
        if value <= 0:
            raise self.wrong(self._name(names), "must be above 0")
        return value

    def maybe_above(self, *names: str) -> float | None:
        """Return a finite number above 0, or None for one that is null or not there."""
        return None if self.get(*names, default=None) is None else self.above(*names)

    def flag(self, *names: str, default: bool | object = NOTHING) -> bool:
        """Return a true or false."""
        value = self.get(*names, default=default)
        if not isinstance(value, bool):
            raise self.wrong(self._name(names), "must be true or false")
        return value

    def word(self, *names: str, among: Iterable[str] = (), default: str | object = NOTHING) -> str:
        """Return a text, one of some if these are given."""
        value, among = self.get(*names, default=default), list(among)
        if not isinstance(value, str) or (among and value not in among):
            raise self.wrong(self._name(names), f"must be one of {', '.join(among)}")
        return value

    def list(self, *names: str, kind: type[T], count: int | None = None) -> Sequence[T] | None:
        """Return a list of values of a type, or None if there is none."""
        value = self.get(*names, default=None)
        if value is None:
            return None
        values = cast("list[object]", value) if isinstance(value, (list, tuple)) else [None]
        kinds = (int, float) if kind is float else kind
        if not all(isinstance(v, kinds) for v in values) or count not in (None, len(values)):
            many = "" if count is None else f"{count} of "
            raise self.wrong(self._name(names), f"must be a list of {many}{kind.__name__}")
        return cast("list[T]", values)

    def inner(self, name: str) -> Keys | None:
        """Return the keys of a part, or None if there is none."""
        value = self.get(name, default=None)
        if value is None:
            return None
        if not isinstance(value, Mapping):
            raise self.wrong(name, "must hold keys of its own")
        return Keys(f"{self.subject}: {name}", cast("Mapping[str, object]", value))

    def only(self, name: str, *allowed: object) -> None:
        """Raise if a key is there with another value than null and the allowed ones."""
        value = self.get(name, default=None)
        if value is not None and not any(type(value) is type(a) and value == a for a in allowed):
            spelled = " or ".join(map(_spelled, allowed)) or "null"
            raise self.wrong(name, f"only {spelled} is known here")

    def all_only(self, values: Mapping[str, object]) -> None:
        """Raise if one of some keys is there with another value than null and its allowed one."""
        for name, value in values.items():
            self.only(name, value)

    def done(self, harmless: Iterable[str]) -> None:
        """Raise if a key was not asked for and is not harmless."""
        known = {*self.asked, *harmless}
        for name in self.given:
            if name not in known:
                value, key = _spelled(self.given[name]), self.spelled.get(name, name)
                raise ModelError(
                    f"{self.subject}: the key {key}, {value}, is not known here",
                    hint=nearest(name, known - set(self.given))
                    or "what it changes would be left out without a word, so nothing is made of it",
                )

    def wrong(self, name: str, must: str) -> ModelError:
        """Return an error about the value of a key."""
        value = _spelled(self.given.get(name))
        name = self.spelled.get(name, name)
        return ModelError(f"{self.subject}: the key {name} is {value}, and {must}")

    def _name(self, names: Sequence[str]) -> str:
        there = [name for name in names if self.given.get(name) is not None]
        return (there or list(names))[0]


def _spelled(value: object) -> str:
    plain = {True: "true", False: "false", None: "null"}
    text = plain[value] if value is None or isinstance(value, bool) else repr(value)
    return text if len(text) <= 80 else f"{text[:76]} …"

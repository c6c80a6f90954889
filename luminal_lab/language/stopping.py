"""Where a text stops: `StopText` lets pieces through up to the first of some strings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from luminal_lab.errors import ArgumentError, expect
from luminal_lab.reading import shown


class StopText:
    """A text that grows, and ends before the first of some strings that is complete in it.

    How the text is cut into pieces makes no difference. Of strings that end at one letter, the
    longest counts.

    >>> from luminal_lab.language.stopping import StopText
    >>> text = StopText(["\\nUser:"])
    >>> text.add("Hi!\\nUs"), text.add("ually"), text.add("\\nUser: And"), text.is_stopped
    ('Hi!', '\\nUsually', '', True)
    >>> text.stop
    '\\nUser:'
    """

    def __init__(self, strings: str | Sequence[str] = ()) -> None:
        given = [strings] if isinstance(strings, str) else strings
        expect(given, list | tuple, "stop: {} is no list of strings", 'as in ["\\n", "User:"]')
        for at, string in enumerate(cast("Sequence[object]", given)):
            if not isinstance(string, str) or not string:
                raise ArgumentError(
                    f"stop: string {at} is {shown(string)}",
                    hint="give strings with at least one letter",
                )
        self.strings = sorted(set(given), key=len, reverse=True)
        self.is_stopped = False
        self.stop: str | None = None
        """The string that the text stopped at."""
        self._held = ""
        self._matched = [0] * len(self.strings)
        """How many letters at the end of the text begin each string."""
        self._borders = [_borders(string) for string in self.strings]

    def add(self, text: str) -> str:
        """Return what can be shown now: no string can begin in it any more.

        >>> from luminal_lab.language.stopping import StopText
        >>> StopText("###").add("a##")
        'a'
        """
        if self.is_stopped:
            return ""
        whole, before = self._held + text, len(self._held)
        for at, letter in enumerate(text, before + 1):
            for number, string in enumerate(self.strings):
                matched = self._matched[number]
                borders = self._borders[number]
                while matched and string[matched] != letter:
                    matched = borders[matched]
                matched += string[matched] == letter
                if matched == len(string):
                    self.is_stopped, self.stop, self._held = True, string, ""
                    return whole[: at - matched]
                self._matched[number] = matched
        kept = len(whole) - max(self._matched, default=0)
        self._held = whole[kept:]
        return whole[:kept]

    def rest(self) -> str:
        """Return what was held back, once nothing more comes.

        >>> from luminal_lab.language.stopping import StopText
        >>> text = StopText("###")
        >>> text.add("a##"), text.rest(), text.rest()
        ('a', '##', '')
        """
        held, self._held = self._held, ""
        self._matched = [0] * len(self.strings)
        return held


def _borders(string: str) -> list[int]:
    """Return for each beginning of a string the longest shorter one that also ends it."""
    borders = [0, 0]
    matched = 0
    for letter in string[1:]:
        while matched and string[matched] != letter:
            matched = borders[matched]
        matched += string[matched] == letter
        borders.append(matched)
    return borders

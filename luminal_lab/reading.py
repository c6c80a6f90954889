"""What comes from files that anybody may have written: how much of it is read, and as what.

Each reader has limits, which stand beside it as constants; docs/recordings.md and docs/grammar.md
list them. What is here all of them share: plain files alone are read, and no more than a limit;
JSON is counted before it is parsed, so that no file becomes many times its size in memory.
"""

from __future__ import annotations

import json
import re
import stat
from pathlib import Path
from typing import Final, NoReturn, cast

from luminal_lab.errors import UNSEEN, visible

TIMES: Final = 64
"""How many times its size a file may take of memory, …"""
LEAST: Final = 1 << 26
"""… and what any file may take, however small it is, in bytes."""
DEEPEST_JSON: Final = 64
"""Lists and objects within one another."""
MOST_JSON: Final = 1 << 26
"""The most bytes of a file of JSON."""
# What Python needs for each at most, with what is made of it: measured with tracemalloc.
MARK, HOLDER, MEMBER, TEXT = 40, 100, 140, 80
ESCAPED: Final = re.compile(r"\\(?:[bfr]|u(?:00[0189]|00[7aA][fFdD]|061|20[0236]|[dD]|[fF][eEfF]))")
"""What may be a letter that nobody sees, as JSON writes it."""
STRING: Final = re.compile(r'"(?:[^"\\]|\\.)*+"', re.DOTALL)
WHOLE: Final = re.compile(r"[-+]?[0-9]{1,18}")
REAL: Final = re.compile(
    r"[-+]?(?:[0-9]{1,40}(?:\.[0-9]{0,40})?|\.[0-9]{1,40})(?:[eE][-+]?[0-9]{1,3})?"
)


def room(size: int) -> int:
    """Return how many bytes of memory a file of a size may take.

    >>> room(1), room(1 << 24)
    (67108864, 1073741824)
    """
    return max(TIMES * size, LEAST)


def read_plain(path: Path, most: int = MOST_JSON) -> bytes:
    """Return all bytes of a file, or raise an OSError: of what is no plain file, or too large."""
    found = path.stat()
    if not stat.S_ISREG(found.st_mode):
        raise OSError(0, "it is a folder" if stat.S_ISDIR(found.st_mode) else "it is no plain file")
    with path.open("rb") as file:
        data = file.read(min(most, max(found.st_size, LEAST >> 10)) + 1)  # which it sets aside
    if len(data) > most:
        raise OSError(0, f"it has more than {most:,} bytes, the most that is read")
    return data


def read_json(data: bytes | str, memory: int | None = None, *, exact: bool = False) -> object:
    """Return what JSON says, or raise a ValueError that says what is wrong with it.

    Numbers are finite, nothing is nested deeper than DEEPEST_JSON, and what would take more memory
    than `memory` is refused before it does; by default that is what a file of this size may take.
    Texts are as they may be shown, unless they are to be `exact`.
    """
    try:
        text = data if isinstance(data, str) else data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"byte {error.start:,} is not UTF-8") from None
    check_json(text, room(len(text)) if memory is None else memory)
    try:
        found: object = json.loads(text, parse_constant=_not_finite, parse_float=_finite)
        return found if exact or not (ESCAPED.search(text) or UNSEEN.search(text)) else _seen(found)
    except RecursionError:  # whoever called us is deep already
        raise ValueError("it is nested too deep") from None


def check_json(text: str, memory: int) -> None:
    """Raise a ValueError if a text of JSON is nested too deep, or would take too much memory."""
    bare, strings = STRING.subn("", text)
    letters = re.sub("[^][{},:]", "", bare).encode()
    del bare
    marks, holders = letters.count(b","), letters.count(b"[") + letters.count(b"{")
    needed = len(text) * (1 if text.isascii() else 4) + MARK * marks + HOLDER * holders
    needed += MEMBER * letters.count(b":") + TEXT * strings
    if needed > memory:
        raise ValueError(
            f"its {marks + holders:,} values would take {needed >> 20:,} MB of memory, and may "
            f"take {memory >> 20:,}"
        )
    left = letters.translate(None, b",:")
    for _ in range(DEEPEST_JSON):
        before = len(left)
        left = left.replace(b"[]", b"").replace(b"{}", b"")
        if len(left) == before:  # nothing is left, or brackets that nothing closes
            return
    if left:
        raise ValueError(f"it is nested more than {DEEPEST_JSON} deep")


def _seen(found: object) -> object:
    if isinstance(found, str):
        return visible(found)
    if isinstance(found, list):
        return [_seen(one) for one in cast("list[object]", found)]
    if isinstance(found, dict):
        pairs = cast("dict[str, object]", found).items()
        return {visible(name): _seen(one) for name, one in pairs}
    return found


def shown(value: object, most: int = 40) -> str:
    """Return the beginning of what a value is, however large it is.

    >>> shown([1, [2, [3, [4]]]]), shown("x" * 100)
    ('[1, [2, [3, […]]]]', "'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx…")
    """
    text = _repr(value, 3)
    return visible(text if len(text) <= most else f"{text[: most - 3]}…")


def _repr(value: object, deep: int) -> str:
    match value:
        case list():
            found = cast("list[object]", value)
            parts = [_repr(one, deep - 1) for one in found[:8]] if deep else ["…"][: len(found)]
            return f"[{', '.join(parts)}{', …' * (len(found) > 8 and deep > 0)}]"
        case dict():
            names = [repr(one) for _, one in zip(range(8), cast("dict[str, object]", value))]  # noqa: B905  # the first ones
            return "{" + ", ".join(f"{name[:40]}: …" for name in names) + "}"
        case str():
            return repr(value[:100])
        case int():
            return f"{value}" if abs(value) >> 200 == 0 else "a number of many digits"
        case _:
            return repr(value)


def _not_finite(word: str) -> NoReturn:
    raise ValueError(f"{word} is no number")


def _finite(word: str) -> float:
    number = float(word)
    if number - number != 0:
        raise ValueError(f"{word[:40]} is too large for a number")
    return number

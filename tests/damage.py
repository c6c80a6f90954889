"""Damage, drawn by a seed: of bytes, of words of a text, of parts of a document; and its errors."""

import random
import re
from collections.abc import Iterator, Sequence
from typing import Any

from luminal_lab.errors import UNSEEN, LabError

STRANGE: Sequence[Any] = (
    None, True, False, 0, 1, -1, 2, 7, 1 << 31, 1 << 62, 1 << 70, 0.5, -0.0, 1e308, "", "%x",
    "é\x1b[2J", [], [[]], {}, {"a": 1}, [0], [0, 0, 0], "f32[2]", "call{body = body}", "n", "0",
    "written",
)  # fmt: skip
WORDS = re.compile(r'"(?:[^"\\]|\\.)*"|[A-Za-z_][\w.]*|[0-9]+|\s+|.', re.DOTALL)
ODD = (
    "%", "@", "{", "}", "(", ")", "[", "]", ",", ":", "=", "->", "=>", "\n", "#", '"', "..", "//",
    "*", "-", "0", "1", "99999999999999999999", "1e999", "nan", "inf", "1if", "0x_", "é", "\x00",
    "\x1b[2J", "\u202e", "n", "x", "call{body = g}", "via", "f32[2]", "where", "let", "sum",
    "((((", "min(",
)  # fmt: skip


def bytes_damaged(drawn: random.Random, data: bytes) -> bytes:
    """Return bytes with some changed, taken out, put in or said twice."""
    broken = bytearray(data)
    for _ in range(drawn.randint(1, 4)):
        at = drawn.randrange(len(broken) + 1)
        end = min(len(broken), at + drawn.choice((1, 1, 1, 2, 8, 64)))
        match drawn.randrange(4):
            case 0:
                broken[at:end] = bytes(drawn.randrange(256) for _ in range(end - at))
            case 1:
                del broken[at:end]
            case 2:
                broken[at:at] = bytes(drawn.choice(b'0123456789[]{},:"\\-.eE \x00\xff'))[:1] * (
                    end - at
                )
            case _:
                broken[at:at] = broken[at:end]
    return bytes(broken)


def words_damaged(drawn: random.Random, text: str) -> str:
    """Return a text with some of its words exchanged, taken out, put in or replaced by odd ones."""
    words = WORDS.findall(text)
    for _ in range(drawn.choice((1, 1, 1, 2, 3))):
        if not words:
            break
        at, other = drawn.randrange(len(words)), drawn.randrange(len(words))
        match drawn.randrange(7):
            case 0:
                words[at], words[other] = words[other], words[at]
            case 1:
                words[at] = words[other]
            case 2:
                del words[at : at + drawn.choice((1, 1, 3, 10))]
            case 3:
                words.insert(at, drawn.choice(ODD))
            case 4:
                words[at] = drawn.choice(ODD)
            case 5:
                words[at:at] = words[other : other + drawn.choice((1, 5, 30))]
            case _:
                if words[at].isdigit():
                    words[at] = str(int(words[at]) + drawn.choice((-1, 1, 7)))
    return "".join(words)


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the ways to all parts of a document."""
    yield path
    parts = value.items() if isinstance(value, dict) else []
    for key, part in enumerate(value) if isinstance(value, list) else parts:
        yield from places(part, (*path, key))


GONE = object()


def _found(document: Any, path: Sequence[Any]) -> Any:
    """Return the part of a document at the end of a way, or GONE."""
    try:
        for key in path:
            document = document[key]
    except (LookupError, TypeError):
        return GONE
    return document


def parts_damaged(drawn: random.Random, document: Any, ways: Sequence[tuple[Any, ...]]) -> None:
    """Change some parts of a document: to odd ones, to others, by one, away, twice."""
    for _ in range(drawn.choice((1, 1, 1, 2, 4))):
        way = drawn.choice(ways)
        holder, key = _found(document, way[:-1]), way[-1]
        if not isinstance(holder, (dict, list)) or _found(holder, way[-1:]) is GONE:
            continue  # it went with an earlier one
        old = holder[key]
        match drawn.randrange(8):
            case 0:
                holder[key] = _copy(drawn.choice(STRANGE))
            case 1 | 2 | 3 if type(old) is int:
                holder[key] = old + drawn.choice((-1, 1, 2, -2))
            case 4 if isinstance(holder, list):
                other = drawn.randrange(len(holder))
                holder[key], holder[other] = holder[other], holder[key]
            case 5 if isinstance(holder, list):
                holder.insert(key, old)
            case 6:
                del holder[key]
            case _:
                part = _found(document, drawn.choice(ways))
                if type(part) is type(old) or (part is not GONE and drawn.random() < 0.1):
                    holder[key] = _copy(part)


def _copy(part: Any) -> Any:
    if isinstance(part, dict):
        return {key: _copy(one) for key, one in part.items()}
    return [_copy(one) for one in part] if isinstance(part, list) else part


def check_error(error: LabError, *names: object) -> None:
    """Check that an error names one of some things and says what to do, all of it visible."""
    said = str(error)
    assert any(str(name) in said for name in names), said
    assert error.hint, said
    assert not UNSEEN.search(said.replace("\n", "")), said
    assert len(said) < 4_000, said

"""Reading files that anybody may have written: how much of them, and in which format.

Each reader has limits, constants beside it; docs/recordings.md and docs/grammar.md list them. All
readers share these: only plain files are read, up to a limit, and JSON is counted before it is
parsed, so that no file becomes many times its size in memory.
"""

from __future__ import annotations

import json
import re
import stat
from codecs import BOM_UTF8
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final, NoReturn, cast

from luminal_lab.errors import UNSEEN, LabError, RecordingError, visible

TIMES: Final = 64
"""The memory a file may take, as a multiple of its size, …"""
LEAST: Final = 1 << 26
"""… and the bytes that even the smallest file may take."""
DEEPEST_JSON: Final = 64
"""The deepest nesting of lists and objects."""
MOST_JSON: Final = 1 << 26
"""The most bytes of a JSON file."""
# The most bytes that Python needs for each, parsed and converted; measured with tracemalloc.
MARK, HOLDER, MEMBER, TEXT = 40, 100, 140, 80
ESCAPED: Final = re.compile(r"\\(?:[bfr]|u(?:00[0189]|00[7aA][fFdD]|061|20[0236]|[dD]|[fF][eEfF]))")
"""JSON's escapes that may stand for an invisible character."""
# A string that is not closed runs to the end, so that none is looked for inside it again.
STRING: Final = re.compile(r'"(?:[^"\\]++|\\.)*+"?', re.DOTALL)
PART: Final = re.compile(rf'(?:[^"]++|{STRING.pattern}){{1,8192}}+', re.DOTALL)
"""A part of a JSON text, at both ends of which no string is open."""
GRAPH_TEXT: Final = (
    "it holds the steps of a computation alone",
    "luminal-lab run FILE prints what passes make of it; in a notebook, "
    "ll.compile_ir(ll.parse(text)) shows it",
)
"""Why a graph as text is not opened where models and recordings are, and what reads it."""
BEGINS: Final = re.compile(rb"graph[ \t]+[A-Za-z_][\w.]*\s*[(\[]")
LONGEST_LINE: Final = 1 << 24
WHOLE: Final = re.compile(r"[-+]?[0-9]{1,18}")
REAL: Final = re.compile(
    r"[-+]?(?:[0-9]{1,40}(?:\.[0-9]{0,40})?|\.[0-9]{1,40})(?:[eE][-+]?[0-9]{1,3})?"
)


def room(size: int) -> int:
    """Return the bytes of memory that a file of a given size may take.

    >>> room(1), room(1 << 24)
    (67108864, 1073741824)
    """
    return max(TIMES * size, LEAST)


@contextmanager
def naming(subject: str, path: Path, hint: str) -> Generator[None]:
    """Have the errors of what is read name the file or folder, and say what to do.

    >>> from luminal_lab.errors import ModelError
    >>> with naming("load", Path("model.gguf"), "fetch it again"):
    ...     raise ModelError("load: heads is 0")
    Traceback (most recent call last):
        ...
    luminal_lab.errors.ModelError: load: model.gguf: heads is 0
    hint: fetch it again
    """
    try:
        yield
    except LabError as error:
        if str(path) not in error.message:
            error.message = f"{subject}: {path}: {error.message.removeprefix(f'{subject}: ')}"
        error.hint = error.hint or hint
        raise


def plain_size(path: Path) -> int:
    """Return a file's size, or raise an OSError if it is not a plain file, which may never end."""
    status = path.stat()
    if not stat.S_ISREG(status.st_mode):
        raise OSError(
            0, "it is a folder" if stat.S_ISDIR(status.st_mode) else "it is not a plain file"
        )
    return status.st_size


def read_plain(path: Path, most: int = MOST_JSON) -> bytes:
    """Return a file's bytes, or raise an OSError if it is not a plain file or too large."""
    size = plain_size(path)
    with path.open("rb") as file:
        data = file.read(min(most, max(size, LEAST >> 10)) + 1)  # allocated at once
    if len(data) > most:
        raise OSError(0, f"it has more than {most:,} bytes, the most that is read")
    return data


def read_text(subject: str, path: str | Path, writer: str) -> str:
    """Return a plain file's text, or raise a RecordingError; `writer` is what writes such files."""
    try:
        return read_plain(Path(path)).decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise RecordingError(
            f"{subject}: {path} cannot be read: {getattr(error, 'strerror', None) or error}",
            hint=f"give a file that {writer} has written",
        ) from error


def read_json(data: bytes | str, memory: int | None = None, *, exact: bool = False) -> object:
    """Return the value of a JSON text, or raise a ValueError that says what is wrong.

    Numbers are finite, nothing is nested deeper than DEEPEST_JSON, and a text that would take more
    than `memory` is refused beforehand; the default is what a file of this size may take. Strings
    are made safe to show, unless `exact` is set.
    """
    try:
        text = data if isinstance(data, str) else data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"byte {error.start:,} is not UTF-8") from None
    check_json(text, room(len(text)) if memory is None else memory)
    try:
        value: object = json.loads(text, parse_constant=_not_finite, parse_float=_finite)
        return value if exact or not (ESCAPED.search(text) or UNSEEN.search(text)) else _seen(value)
    except RecursionError:  # our caller is already deep in the stack
        raise ValueError("it is nested too deep") from None


def check_json(text: str, memory: int) -> None:
    """Raise a ValueError if a text of JSON is nested too deep, or would take too much memory."""
    strings, kept = 0, list[str]()
    for part in PART.finditer(text):  # even the whole, cut at each string, would take too much
        bare, count = STRING.subn("", part[0])
        strings += count
        kept.append(re.sub("[^][{},:]+", "", bare))
    letters = "".join(kept).encode()
    del kept
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
        if len(left) == before:  # nothing is left, or unclosed brackets
            return
    if left:
        raise ValueError(f"it is nested more than {DEEPEST_JSON} deep")


def _seen(value: object) -> object:
    if isinstance(value, str):
        return visible(value)
    if isinstance(value, list):
        return [_seen(item) for item in cast("list[object]", value)]
    if isinstance(value, dict):
        pairs = cast("dict[str, object]", value).items()
        return {visible(name): _seen(item) for name, item in pairs}
    return value


def shown(value: object, most: int = 40) -> str:
    """Return the beginning of a value's text, however large the value is.

    >>> shown([1, [2, [3, [4]]]]), shown("x" * 100)
    ('[1, [2, [3, […]]]]', "'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx…")
    """
    return _cut(_repr(value, 3, repr), most)


def shown_json(value: object, most: int = 40) -> str:
    """Return the same of a value of JSON, as JSON spells it.

    >>> shown_json([None, True, "1"]), shown_json({"a": 1})
    ('[null, true, "1"]', '{"a": …}')
    """
    return _cut(_repr(value, 3, _as_json), most)


def _cut(text: str, most: int) -> str:
    return visible(text if len(text) <= most else f"{text[: most - 3]}…")


def _as_json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _repr(value: object, deep: int, spelled: Callable[[object], str]) -> str:
    match value:
        case list():
            items = cast("list[object]", value)
            parts = (
                [_repr(item, deep - 1, spelled) for item in items[:8]]
                if deep
                else ["…"][: len(items)]
            )
            return f"[{', '.join(parts)}{', …' * (len(items) > 8 and deep > 0)}]"
        case dict():
            keys = [spelled(name) for _, name in zip(range(8), cast("dict[str, object]", value))]  # noqa: B905  # the first ones
            return "{" + ", ".join(f"{key[:40]}: …" for key in keys) + "}"
        case str():
            return spelled(value[:100])
        case int() if not isinstance(value, bool):
            return f"{value}" if abs(value) >> 200 == 0 else "a number of many digits"
        case _:
            return spelled(value)


def _not_finite(word: str) -> NoReturn:
    raise ValueError(f"{word} is not a number")


def _finite(word: str) -> float:
    number = float(word)
    if number - number != 0:
        raise ValueError(f"{word[:40]} is too large for a number")
    return number


def is_graph_text(file: BinaryIO) -> bool:
    """Return whether a graph as text begins behind a file's comments."""
    line = file.readline(LONGEST_LINE).removeprefix(BOM_UTF8)
    while line and (line.isspace() or line.lstrip().startswith(b"#")):
        line = file.readline(LONGEST_LINE)
    return BEGINS.match(line.lstrip()) is not None

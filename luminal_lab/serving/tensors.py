"""Arrays as JSON and as bytes, without NumPy: flat or nested lists of numbers, row by row."""

from __future__ import annotations

import json
import struct
from array import array
from collections.abc import Sequence
from itertools import chain
from math import inf, isfinite
from typing import Final, NamedTuple, TypeAlias, cast

from luminal_lab.reading import check_json


class Datatype(NamedTuple):
    """A type of numbers: its name in the protocol, and how Python's `array` holds it."""

    name: str
    code: str
    size: int


DATATYPES: Final = {
    "float64": Datatype("FP64", "d", 8),
    "float32": Datatype("FP32", "f", 4),
    "float16": Datatype("FP16", "e", 2),
    "bfloat16": Datatype("BF16", "bf16", 2),
    "bool": Datatype("BOOL", "?", 1),
    **{f"int{8 * n}": Datatype(f"INT{8 * n}", code, n) for n, code in zip((1, 2, 4, 8), "bhiq")},  # noqa: B905
    **{f"uint{8 * n}": Datatype(f"UINT{8 * n}", code, n) for n, code in zip((1, 2, 4, 8), "BHIQ")},  # noqa: B905
}
"""The datatypes by the names of NumPy's."""
Bytes: TypeAlias = bytes | bytearray | memoryview
SMALL: Final = 1 << 16
"""The bytes of JSON up to which nothing in it can take much memory."""
TIMES: Final = 24
"""The memory that JSON may take, as a multiple of its size; numbers take up to 20."""


def read_json(data: bytes) -> object:
    """Return the value of a JSON text, or raise a ValueError that says what is wrong.

    >>> read_json(b'{"inputs": []}')
    {'inputs': []}
    """
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"byte {error.start:,} is not UTF-8") from None
    if len(data) > SMALL:
        check_json(text, TIMES * len(data) + (1 << 20))
    try:
        return json.loads(text, parse_constant=_refuse)
    except RecursionError:
        raise ValueError("it is nested too deep") from None


def _refuse(word: str) -> object:
    raise ValueError(f"{word} is not a number of JSON")


def write_json(value: object) -> bytes:
    """Return a value as JSON; NaN is null, and what is infinite a number that is too large.

    >>> write_json([1.5, float("nan"), float("-inf")])
    b'[1.5,null,-1e999]'
    """
    try:
        return json.dumps(value, separators=(",", ":"), allow_nan=False).encode()
    except ValueError:
        return _written(value).encode()


def _written(value: object) -> str:
    if isinstance(value, list):
        return f"[{','.join(map(_written, cast('list[object]', value)))}]"
    if isinstance(value, dict):
        pairs = cast("dict[str, object]", value).items()
        return f"{{{','.join(f'{json.dumps(k)}:{_written(v)}' for k, v in pairs)}}}"
    if isinstance(value, float) and not isfinite(value):
        return "1e999" if value == inf else "-1e999" if value == -inf else "null"
    return json.dumps(value)


def flat(data: object, shape: Sequence[int]) -> list[object]:
    """Return the numbers of a list that is flat, or nested as a shape says; or a ValueError.

    >>> flat([[1, 2], [3, 4]], (2, 2))
    [1, 2, 3, 4]
    """
    if not isinstance(data, list):
        raise ValueError("data is no list")
    values, count = cast("list[object]", data), 1
    for size in shape:
        count *= size
    if values and isinstance(values[0], list):
        for axis, size in enumerate(shape):
            if len(values) != count_of(shape[: axis + 1]):
                raise ValueError(f"data is nested, and not {size} long along axis {axis}")
            if axis + 1 < len(shape):
                if not all(isinstance(part, list) for part in values):
                    raise ValueError(f"data is nested, and no list along axis {axis + 1}")
                if any(len(part) != shape[axis + 1] for part in cast("list[list[object]]", values)):
                    raise ValueError(f"data is nested, and not {shape[axis + 1]} long everywhere")
                values = list(chain.from_iterable(cast("list[list[object]]", values)))
    if len(values) != count:
        raise ValueError(f"data has {len(values):,} numbers, and its shape {count:,}")
    return values


def count_of(shape: Sequence[int]) -> int:
    """Return how many elements a shape has."""
    count = 1
    for size in shape:
        count *= size
    return count


def packed(values: list[object], kind: Datatype) -> bytes:
    """Return numbers as the bytes of an array, or raise a ValueError that says what is wrong.

    >>> packed([1, 2.5], DATATYPES["float32"]).hex()
    '0000803f00002040'
    """
    numbers = cast("list[float]", values)
    if kind.code != "?" and bool in set(map(type, values)):
        raise ValueError(f"data has true or false, and must be {kind.name}")
    try:
        if kind.code == "bf16":
            return _rounded(array("f", numbers))
        if kind.code in "e?":
            if kind.code == "?" and not all(value in (0, 1) for value in values):
                raise ValueError("data has something else than true and false")
            return struct.pack(f"{len(values)}{kind.code}", *values)
        return array(kind.code, numbers).tobytes()
    except (TypeError, OverflowError, struct.error):
        raise ValueError(f"data has something that is no {kind.name}") from None


def _rounded(numbers: array[float]) -> bytes:
    """Return float32 numbers rounded to bfloat16, ties to even."""
    bits = array("I", numbers.tobytes())
    halves = (
        (b >> 16) | 64 if b & 0x7FFFFFFF > 0x7F800000 else (b + 0x7FFF + (b >> 16 & 1)) >> 16
        for b in bits
    )
    return array("H", [half & 0xFFFF for half in halves]).tobytes()


def unpacked(data: Bytes, kind: Datatype) -> Sequence[float]:
    """Return the numbers in an array's bytes.

    >>> unpacked(packed([1.5, -2], DATATYPES["bfloat16"]), DATATYPES["bfloat16"])
    [1.5, -2.0]
    """
    if kind.code == "bf16":
        halves = array("H", bytes(data))
        return list(array("f", array("I", [half << 16 for half in halves]).tobytes()))
    if kind.code == "e":
        return list(struct.unpack(f"{len(data) // 2}e", data))
    if kind.code == "?":
        return [byte != 0 for byte in data]
    return array(kind.code, bytes(data)).tolist()

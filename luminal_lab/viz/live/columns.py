"""The bytes that the front end reads: named columns of numbers, texts by number, and a header.

    bundle  = "LLAB" length header columns     all little-endian; maybe wrapped in zlib
    length  = u32                              of the header, in bytes
    header  = JSON, spaces                     so long that the columns begin at a multiple of 8
    columns = { numbers, zeros }               each begins at a multiple of 8 from the first

The header lists each column's type, offset and length, and all texts, each once; a column of texts
holds indices into that list, whose first entry is "".
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from luminal_lab.errors import RecordingError

Kind: TypeAlias = Literal["u8", "i32", "u32", "f32", "f64"]
Numbers: TypeAlias = "Sequence[float] | Sequence[int] | NDArray[Any]"
MAGIC = b"LLAB"
SCHEMA = 1
"""The version of a bundle's contents, raised with each change."""
ALIGNMENT = 8
KINDS: Mapping[Kind, str] = {"u8": "u1", "i32": "<i4", "u32": "<u4", "f32": "<f4", "f64": "<f8"}
ZLIB = 0x78
"""The first byte of zlib data."""


class Columns:
    """A bundle in the making: texts get numbers, columns get names."""

    def __init__(self) -> None:
        self._texts: dict[str, int] = {"": 0}
        self._columns: dict[str, tuple[Kind, NDArray[Any]]] = {}

    def text(self, text: str) -> int:
        """Return the number of a text."""
        return self._texts.setdefault(text, len(self._texts))

    def texts(self, texts: Iterable[str]) -> list[int]:
        """Return the numbers of texts."""
        return [self._texts.setdefault(text, len(self._texts)) for text in texts]

    def put(self, name: str, kind: Kind, numbers: Numbers) -> None:
        """Add a column."""
        assert name not in self._columns
        self._columns[name] = kind, np.ascontiguousarray(numbers, KINDS[kind]).reshape(-1)

    def to_bytes(self, header: Mapping[str, object], *, compressed: bool = False) -> bytes:
        """Return the bundle, with further entries for the header."""
        layout: dict[str, tuple[Kind, int, int]] = {}
        parts: list[bytes] = []
        at = 0
        for name, (kind, numbers) in self._columns.items():
            data = numbers.tobytes()
            layout[name] = kind, at, len(numbers)
            parts += data, bytes(-len(data) % ALIGNMENT)
            at += len(data) + len(parts[-1])
        whole = {"schema": SCHEMA, **header, "strings": list(self._texts), "columns": layout}
        # A user's text may have lone surrogates, which are not UTF-8.
        text = json.dumps(whole, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        head = text.encode(errors="replace")
        head += b" " * (-(len(MAGIC) + 4 + len(head)) % ALIGNMENT)
        bundle = b"".join([MAGIC, len(head).to_bytes(4, "little"), head, *parts])
        return zlib.compress(bundle, 6) if compressed else bundle


@dataclass(frozen=True)
class Bundle:
    """A bundle read back."""

    header: Mapping[str, Any]
    columns: Mapping[str, NDArray[Any]]

    @property
    def strings(self) -> Sequence[str]:
        """All texts."""
        return self.header["strings"]

    def texts(self, name: str) -> list[str]:
        """Return a column of texts."""
        return [self.strings[int(at)] for at in self.columns[name]]


def read(data: bytes) -> Bundle:
    """Return a bundle from its bytes."""
    try:
        if data[:1] == bytes([ZLIB]):
            data = zlib.decompress(data)
        begin = len(MAGIC) + 4
        if data[: len(MAGIC)] != MAGIC:
            raise ValueError("it does not begin with LLAB")
        size = int.from_bytes(data[len(MAGIC) : begin], "little")
        header = json.loads(data[begin : begin + size])
        if header["schema"] != SCHEMA:
            raise ValueError(f"its schema is {header['schema']}, and this reads {SCHEMA}")
        columns = {
            name: np.frombuffer(data, KINDS[kind], length, begin + size + at)
            for name, (kind, at, length) in header["columns"].items()
        }
    except (ValueError, KeyError, TypeError, zlib.error) as error:
        raise RecordingError(
            f"bundle: these {len(data):,} bytes are none: {error}",
            hint="bundle_of(...) makes one",
        ) from error
    return Bundle(header, columns)

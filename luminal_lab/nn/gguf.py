"""GGUF files, versions 1 to 3: keys and tensors, mapped into memory and read when they are needed.

    GGUF  version  tensors  keys                    counts and lengths: 8 bytes, in version 1 four
    key:     length  name  type  value              an array: type of its entries, their count
    tensor:  length  name  axes  sizes  form  offset, counted from the first multiple of
    …data    `general.alignment` behind all this; sizes with the one that is contiguous first

Opening a file checks everything that it says, and reads no value; a long array of strings, as a
vocabulary, is walked over once, and becomes a list when somebody asks for it.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterator, Mapping
from math import prod
from pathlib import Path
from typing import Final, NamedTuple, NoReturn

import numpy as np
from typing_extensions import override

from luminal_lab.core.dtypes import Array, DType
from luminal_lab.core.op import tuple_text
from luminal_lab.core.origin import here
from luminal_lab.errors import InputError, nearest
from luminal_lab.nn.weights import Loaded, Named, identity, load_values, unchanged
from luminal_lab.reading import plain_size, shown
from luminal_lab.tensor.blocks import FORMS, BlockForm, Blocks

MAGIC: Final = b"GGUF"
VERSIONS: Final = (1, 2, 3)
MOST_KEYS: Final = 1 << 16
MOST_TENSORS: Final = 1 << 14
MOST_STRINGS: Final = 1 << 21
"""The most strings in all arrays together; the largest vocabularies with merges have a third."""
MOST_NAME: Final = 1 << 10
"""The most bytes of a name."""
MOST_AXES: Final = 8
ALIGNMENT: Final = "general.alignment"
NUMBERS: Final = {
    0: "<u1", 1: "<i1", 2: "<u2", 3: "<i2", 4: "<u4", 5: "<i4", 6: "<f4", 7: "?", 10: "<u8",
    11: "<i8", 12: "<f8",
}  # fmt: skip
"""The types of values that are numbers."""
STRING, ARRAY, BOOL = 8, 9, 7
PLAIN: Final = {
    0: "float32", 24: "int8", 25: "int16", 26: "int32", 27: "int64", 28: "float64",
}  # fmt: skip
"""The forms of tensors that are a dtype of ours."""
UNREAD: Final = {
    9: ("q8_1", 32, 40), 15: ("q8_k", 256, 292), 16: ("iq2_xxs", 256, 66), 17: ("iq2_xs", 256, 74),
    18: ("iq3_xxs", 256, 98), 19: ("iq1_s", 256, 50), 21: ("iq3_s", 256, 110),
    22: ("iq2_s", 256, 82), 23: ("iq4_xs", 256, 136), 29: ("iq1_m", 256, 56),
    34: ("tq1_0", 256, 54), 35: ("tq2_0", 256, 66), 39: ("mxfp4", 32, 17),
}  # fmt: skip
"""The forms that are known by name and size, and not read here."""
BY_NUMBER: Final = {form.number: form for form in FORMS.values()} | {
    number: BlockForm(name, number, values, size, None)
    for number, (name, values, size) in UNREAD.items()
}


def is_gguf(path: Path) -> bool:
    """Return whether a file begins as GGUF files do.

    >>> from luminal_lab.nn.gguf import is_gguf
    >>> is_gguf(folder / "none.gguf")
    False
    """
    try:
        plain_size(path)  # what is no plain file may be waited for without an end
        with path.open("rb") as file:
            return file.read(len(MAGIC)) == MAGIC
    except OSError:
        return False


def load_gguf(path: Path, paths: Named, *, strict: bool) -> Loaded:
    """Give parameters the values of a GGUF file by their paths, mapped."""
    file = GGUF(path, "load")
    values = {name: file.value(name) for name, tensor in file.tensors.items() if tensor.is_read}
    return load_values(f"load: {path}", paths, values, strict=strict)


class GGUFTensor(NamedTuple):
    """A tensor of a file: its form, as in "q4_k" or "float32", and where its bytes are."""

    name: str
    form: str
    shape: tuple[int, ...]
    start: int
    bytes: int
    blocks: BlockForm | None = None
    """None for plain dtypes."""

    @property
    def dtype(self) -> DType:
        """The dtype of its raw array."""
        return DType(self.form) if self.blocks is None else self.blocks.dtype

    @property
    def is_read(self) -> bool:
        """Whether its form is known here by more than its name and size."""
        return self.blocks is None or self.form in FORMS


class _Entry(NamedTuple):
    """The value of a key, not read yet: a type, and for arrays the entries' type and count."""

    kind: int
    start: int
    each: int = 0
    entries: int = 0


class GGUF:
    """An open GGUF file.

    >>> from luminal_lab.nn.gguf import GGUF
    >>> empty = b"GGUF" + bytes([3, 0, 0, 0]) + bytes(16)
    >>> _ = (folder / "empty.gguf").write_bytes(empty)
    >>> GGUF(folder / "empty.gguf")
    <GGUF empty.gguf: version 3, 0 keys, 0 tensors>
    """

    def __init__(self, path: str | Path, subject: str = "open") -> None:
        self.path, self.subject = Path(path), subject
        self.before = identity(self.path)
        self.data = self._mapped()
        self.at = 0
        self.strings = 0
        """The strings in arrays so far."""
        head = self.data[:8]
        if head[:4] != MAGIC:
            self._refuse(f"it begins with {head[:4]!r}, and GGUF with {MAGIC!r}")
        self.at = 4
        self.version = self._number("its version", "<I")
        if self.version not in VERSIONS:
            swapped = int.from_bytes(self.version.to_bytes(4, "little"), "big")
            is_big = swapped in VERSIONS
            self._refuse(
                f"it is version {swapped} for big-endian machines"
                if is_big
                else f"it is version {self.version:,}, and 1 to 3 are known",
                "fetch the file for little-endian machines, as nearly all are"
                if is_big
                else "convert it again with a newer llama.cpp",
            )
        self.word = "<I" if self.version == 1 else "<Q"
        """The format of counts and lengths."""
        tensors = self._count("tensors", MOST_TENSORS, 16)
        keys = self._count("keys", MOST_KEYS, 9)
        self.entries: dict[str, _Entry] = {}
        for _ in range(keys):
            self._key()
        self.keys = GGUFKeys(self)
        """The values of keys, as Python's; arrays of numbers are NumPy's."""
        self.tensors = self._tensors(tensors)
        """The tensors by name, in the file's order."""

    @override
    def __repr__(self) -> str:
        return (
            f"<GGUF {self.path.name}: version {self.version}, {len(self.entries)} keys, "
            f"{len(self.tensors)} tensors>"
        )

    def value(self, name: str) -> Array | Blocks:
        """Return a tensor, mapped: an array, or blocks.

        >>> from luminal_lab.nn.gguf import GGUF
        >>> layer = ll.nn.Linear(64, 2)
        >>> layer.save(folder / "layer.gguf")
        >>> GGUF(folder / "layer.gguf").value("weight").shape
        (2, 64)
        """
        if name not in self.tensors:
            self._refuse(
                f"there is no tensor {shown(name)}",
                nearest(name, self.tensors) or f"it has {len(self.tensors):,} tensors",
            )
        tensor = self.tensors[name]
        unchanged(f"{self.subject}: {self.path}", self.path, self.before, shown(name))
        if not tensor.is_read:
            self._refuse(
                f"{shown(name)} is {tensor.form}, a form that is not read here",
                f"the forms that are: {', '.join(FORMS)}",
            )
        shape = tensor.shape if tensor.blocks is None else tensor.blocks.raw_shape(tensor.shape)
        raw: Array = np.frombuffer(
            self.data, tensor.dtype.numpy, prod(shape), tensor.start
        ).reshape(shape)
        if not raw.flags.aligned:
            raw = raw.copy()
        raw.flags.writeable = False
        return raw if tensor.blocks is None else Blocks(tensor.blocks, raw, tensor.shape)

    # -- reading -----------------------------------------------------------------------------------

    def _refuse(self, what: str, hint: str = "fetch it again") -> NoReturn:
        raise InputError(
            f"{self.subject}: {self.path}: {what}", where=str(here() or "") or None, hint=hint
        )

    def _mapped(self) -> mmap.mmap:
        try:
            with self.path.open("rb") as file:
                size = file.seek(0, 2)
                if size < 16:
                    self._refuse(f"it has {size} bytes, which is no GGUF file")
                return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except (OSError, ValueError) as error:
            self._refuse(f"it cannot be read: {getattr(error, 'strerror', None) or error}")

    def _number(self, what: str, kind: str) -> int:
        """Return the next number."""
        try:
            (number,) = struct.unpack_from(kind, self.data, self.at)
        except (struct.error, IndexError, OverflowError):
            self._refuse(f"it ends at {len(self.data):,} bytes, within {what}")
        self.at += struct.calcsize(kind)
        return number

    def _count(self, what: str, most: int, least: int) -> int:
        """Return a count of what takes at least some bytes each."""
        count = self._number(f"the number of {what}", self.word)
        if count > most or count * least > len(self.data):
            self._refuse(
                f"it says that it has {count:,} {what}, and has {len(self.data):,} bytes"
                if count * least > len(self.data)
                else f"it has {count:,} {what}, and {most:,} are the most"
            )
        return count

    def _name(self, what: str) -> str:
        size = self._number(f"the name of {what}", self.word)
        if size > MOST_NAME or size > len(self.data) - self.at:
            self._refuse(
                f"the name of {what} should have {size:,} bytes, and {MOST_NAME:,} are the most"
                if size > MOST_NAME
                else f"it ends at {len(self.data):,} bytes, within the name of {what}"
            )
        begin, self.at = self.at, self.at + size
        try:
            return self.data[begin : self.at].decode()
        except UnicodeDecodeError:
            self._refuse(f"the name of {what}, at byte {begin:,}, is not UTF-8")

    # -- keys --------------------------------------------------------------------------------------

    def _key(self) -> None:
        name = self._name(f"key {len(self.entries) + 1}")
        if name in self.entries:
            self._refuse(f"the key {shown(name)} is there twice")
        what = f"the key {shown(name)}"
        kind = self._number(what, "<I")
        if kind != ARRAY:
            self.entries[name] = _Entry(kind, self.at)
            self._skip(what, kind, 1)
            return
        each = self._number(what, "<I")
        if each == ARRAY:
            self._refuse(f"{what} is an array of arrays, which is not read here")
        count = self._number(what, self.word)
        self.entries[name] = _Entry(kind, self.at, each, count)
        self._skip(what, each, count)

    def _skip(self, what: str, kind: int, count: int) -> None:
        """Go behind some values of one type."""
        left = len(self.data) - self.at
        if kind == STRING:
            self.strings += count
            least = struct.calcsize(self.word)
            if count * least > left:
                self._ends(what, count)
            if self.strings > MOST_STRINGS:
                self._refuse(f"{what} has {count:,} strings, and {MOST_STRINGS:,} are the most")
            self._skip_strings(what, count, least)
        elif kind in NUMBERS:
            size = count * np.dtype(NUMBERS[kind]).itemsize
            if size > left:
                self._ends(what, count)
            self.at += size
        else:
            self._refuse(f"{what} has the type {kind:,}, and there are 0 to 12")

    def _ends(self, what: str, count: int) -> NoReturn:
        self._refuse(
            f"it ends at {len(self.data):,} bytes, within {what}"
            + (f", which should have {count:,} entries" if count != 1 else "")
        )

    def _skip_strings(self, what: str, count: int, least: int) -> None:
        read, data, at, size = struct.Struct(self.word).unpack_from, self.data, self.at, least
        end = len(data)
        try:
            for _ in range(count):
                at += read(data, at)[0] + size
        except (struct.error, IndexError, OverflowError):
            self._ends(what, count)
        if at > end:
            self._ends(what, count)
        self.at = at

    def key(self, name: str) -> object:
        """Return the value of a key; see `keys`.

        >>> from luminal_lab.nn.gguf import GGUF
        >>> ll.nn.Linear(64, 2).save(folder / "layer.gguf")
        >>> GGUF(folder / "layer.gguf").key("general.alignment")
        32
        """
        entry = self.entries[name]
        if entry.kind == STRING:
            return self._strings(name, entry.start, 1)[0]
        if entry.kind != ARRAY:
            value = np.frombuffer(self.data, NUMBERS[entry.kind], 1, entry.start)[0]
            return bool(value) if entry.kind == BOOL else value.item()
        if entry.each == STRING:
            return self._strings(name, entry.start, entry.entries)
        kind = "<u1" if entry.each == BOOL else NUMBERS[entry.each]
        array = np.frombuffer(self.data, kind, entry.entries, entry.start)
        return array != 0 if entry.each == BOOL else array.copy()

    def _strings(self, name: str, at: int, count: int) -> list[str]:
        read, data, size = (
            struct.Struct(self.word).unpack_from,
            self.data,
            struct.calcsize(self.word),
        )
        texts: list[str] = []
        try:
            for _ in range(count):
                begin = at + size
                at = begin + read(data, at)[0]
                texts.append(data[begin:at].decode())
        except UnicodeDecodeError:
            self._refuse(f"entry {len(texts):,} of the key {shown(name)} is not UTF-8")
        return texts

    # -- tensors -----------------------------------------------------------------------------------

    def _tensors(self, count: int) -> dict[str, GGUFTensor]:
        alignment = self.keys.get(ALIGNMENT, 32)
        if not isinstance(alignment, int) or not 1 <= alignment <= 1 << 20:
            self._refuse(f"the key {ALIGNMENT} is {shown(alignment)}, and no number of bytes")
        if alignment & (alignment - 1):
            self._refuse(f"the key {ALIGNMENT} is {alignment:,}, which is no power of two")
        found: dict[str, GGUFTensor] = {}
        for _ in range(count):
            tensor = self._tensor(f"tensor {len(found) + 1}")
            if tensor.name in found:
                self._refuse(f"the tensor {shown(tensor.name)} is there twice")
            found[tensor.name] = tensor
        begin = -(-self.at // alignment) * alignment
        last, end = "", begin
        for tensor in sorted(found.values(), key=lambda tensor: (tensor.start, tensor.bytes)):
            what, start = f"the tensor {shown(tensor.name)}", begin + tensor.start
            if tensor.start % alignment:
                self._refuse(
                    f"{what} begins at {tensor.start:,}, which is no multiple of {alignment:,}"
                )
            if start < end:
                self._refuse(f"{what} and {shown(last)} overlap")
            last, end = tensor.name, start + tensor.bytes
            if end > len(self.data):
                self._refuse(f"it ends at {len(self.data):,} bytes, and {what} goes on to {end:,}")
        return {name: t._replace(start=begin + t.start) for name, t in found.items()}

    def _tensor(self, what: str) -> GGUFTensor:
        name = self._name(what)
        what = f"the tensor {shown(name)}"
        axes = self._number(what, "<I")
        if axes > MOST_AXES:
            self._refuse(f"{what} has {axes:,} axes, and {MOST_AXES} are the most")
        sizes = [self._number(what, self.word) for _ in range(axes)]
        number, offset = self._number(what, "<I"), self._number(what, "<Q")
        shape = tuple(reversed(sizes))
        if prod(max(size, 1) for size in sizes) > 64 * len(self.data):
            self._refuse(
                f"it has {len(self.data):,} bytes, and {what} should have the sizes "
                f"{tuple_text(shape)}"
            )
        if number in PLAIN:
            dtype = np.dtype(PLAIN[number])
            return GGUFTensor(name, dtype.name, shape, offset, prod(shape) * dtype.itemsize)
        form = BY_NUMBER.get(number)
        if form is None:
            self._refuse(
                f"{what} has form {number:,}, which is not known here",
                "llama.cpp's llama-quantize writes it in another form, such as q8_0",
            )
        if not shape or shape[-1] % form.values:
            self._refuse(
                f"{what} is {form.name}, in blocks of {form.values}, and its rows have "
                f"{shape[-1] if shape else 1:,} values"
            )
        count = prod(shape) // form.values
        return GGUFTensor(name, form.name, shape, offset, count * form.bytes, form)


class GGUFKeys(Mapping[str, object]):
    """The keys of a file, each read when it is asked for."""

    def __init__(self, file: GGUF) -> None:
        self.file = file

    @override
    def __getitem__(self, name: str) -> object:
        return self.file.key(name)

    @override
    def __iter__(self) -> Iterator[str]:
        return iter(self.file.entries)

    @override
    def __len__(self) -> int:
        return len(self.file.entries)

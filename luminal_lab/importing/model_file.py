"""The weights of a file, an index or a folder by name, mapped, with what the file says besides.

    model.gguf                      entries: GGUF's keys              values: arrays, blocks
    model.safetensors               entries: none                     values: arrays, f16 and bf16
    model.safetensors.index.json    entries: config.json beside it
    folder/                         entries: config.json in it

Nothing is copied and nothing is widened: values are views of the mapped file.
"""

from __future__ import annotations

import mmap
from collections.abc import Callable, Iterator, Mapping
from math import prod
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias, cast

import numpy as np
from typing_extensions import override

from luminal_lab.core.dtypes import Array, DType
from luminal_lab.core.origin import here
from luminal_lab.errors import InputError, counted, nearest
from luminal_lab.importing.detect import INDEX_BYTES, FileKind, supported
from luminal_lab.importing.weights import files_of_index
from luminal_lab.nn.gguf import GGUF
from luminal_lab.nn.weights import FILE_DTYPES, HERE, identity, open_file, unchanged
from luminal_lab.reading import read_json, read_plain, shown
from luminal_lab.tensor.blocks import Blocks

Held: TypeAlias = "Array | Blocks"
HALVES: Final = {DType.float16: "f16", DType.bfloat16: "bf16"}
CONFIGURATION: Final = "config.json"


class ValueType(NamedTuple):
    """What is known of a value before it is read: a dtype or a form of blocks, and its shape."""

    form: str
    shape: tuple[int, ...]
    bytes: int


class ModelFile(Mapping[str, Held]):
    """Values by their names in a file, each mapped when it is asked for.

    16-bit floats are `Blocks` too ("f16", "bf16"), so that a float32 parameter can hold each value.

    >>> from luminal_lab.importing.model_file import model_file
    >>> ll.nn.Linear(64, 2).save(folder / "model.safetensors")
    >>> weights = model_file(folder)
    >>> weights
    <ModelFile: 2 values>
    >>> weights.types["weight"], weights["weight"].shape
    (ValueType(form='float32', shape=(2, 64), bytes=512), (2, 64))
    """

    def __init__(
        self,
        path: Path,
        kind: FileKind,
        keys: Mapping[str, object],
        readers: Mapping[str, tuple[ValueType, Callable[[], Held]]],
        subject: str,
    ) -> None:
        self.path, self.kind, self.subject = path, kind, subject
        self.entries: Mapping[str, object] = keys
        """What the file, or config.json beside it, says besides: GGUF's keys, or JSON's entries."""
        self.types: Mapping[str, ValueType] = {name: type for name, (type, _) in readers.items()}
        self._read = {name: read for name, (_, read) in readers.items()}

    @override
    def __getitem__(self, name: str) -> Held:
        if name not in self._read:
            raise InputError(
                f"{self.subject}: {self.path} has no {shown(name)}",
                where=str(here() or "") or None,
                hint=nearest(name, self._read) or f"it has {counted(len(self._read), 'value')}",
            )
        return self._read[name]()

    @override
    def __contains__(self, name: object) -> bool:
        return name in self._read

    @override
    def __iter__(self) -> Iterator[str]:
        return iter(self._read)

    @override
    def __len__(self) -> int:
        return len(self._read)

    @override
    def __repr__(self) -> str:
        return f"<ModelFile: {counted(len(self), 'value')}>"


def model_file(path: str | Path, subject: str = "open") -> ModelFile:
    """Return the values of a GGUF or safetensors file, of an index, or of a folder.

    >>> from luminal_lab.importing.model_file import model_file
    >>> ll.nn.Linear(64, 2).save(folder / "layer.safetensors")
    >>> list(model_file(folder / "layer.safetensors"))
    ['bias', 'weight']
    """
    path = Path(path)
    kind = supported(path, subject)
    if kind is FileKind.GGUF:
        file = GGUF(path, subject)
        return ModelFile(path, kind, file.keys, _of_gguf(file), subject)
    if kind is FileKind.SAFETENSORS:
        return ModelFile(path, kind, {}, _of_safetensors(path, subject), subject)
    if kind is FileKind.INDEX:
        index, beside = path, path.parent
    elif kind is FileKind.FOLDER:
        index, beside = next(iter(sorted(path.glob("*.safetensors.index.json"))), None), path
    else:
        raise InputError(
            f"{subject}: {path} is {kind.value}, which is more than weights",
            hint="ll.open, ll.from_onnx and ll.from_torch open it",
        )
    readers: dict[str, tuple[ValueType, Callable[[], Held]]] = {}
    if index is None:
        for file in sorted(path.glob("*.safetensors")):
            readers |= _of_safetensors(file, subject)
    else:
        for file, wanted in files_of_index(index, subject).items():
            there = _of_safetensors(index.parent / file, subject)
            missing = [name for name in wanted if name not in there]
            if missing:
                raise InputError(
                    f"{subject}: {index.parent / file} has no {shown(missing[0])}, which "
                    f"{index.name} says is there",
                    hint="fetch both again",
                )
            readers |= {name: there[name] for name in wanted}
    return ModelFile(path, kind, _configuration(beside, subject), readers, subject)


def _of_gguf(file: GGUF) -> dict[str, tuple[ValueType, Callable[[], Held]]]:
    def reader(name: str) -> Callable[[], Held]:
        return lambda: file.value(name)

    return {
        name: (ValueType(t.form, t.shape, t.bytes), reader(name))
        for name, t in file.tensors.items()
    }


def _of_safetensors(path: Path, subject: str) -> dict[str, tuple[ValueType, Callable[[], Held]]]:
    open_file(path)  # which refuses what is no such file
    before = identity(path)
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        header = cast("dict[str, dict[str, object]]", read_json(file.read(length), exact=True))
        data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    readers: dict[str, tuple[ValueType, Callable[[], Held]]] = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        shape = tuple(cast("list[int]", entry["shape"]))
        start, stop = cast("list[int]", entry["data_offsets"])
        kind = str(entry["dtype"])
        known = FILE_DTYPES.get(kind)
        form = kind.lower() if known is None else HALVES.get(DType(known), known)

        def read(
            name: str = name,
            kind: str | None = known,
            form: str = form,
            shape: tuple[int, ...] = shape,
            at: int = 8 + length + start,
        ) -> Held:
            if kind is None:
                raise InputError(
                    f"{subject}: {path}: {shown(name)} is {form}, a dtype that is not here",
                    hint=HERE,
                )
            unchanged(f"{subject}: {path}", path, before, shown(name))
            array = np.frombuffer(data, DType(kind).numpy, prod(shape), at).reshape(shape)
            array = array if array.flags.aligned else array.copy()
            array.flags.writeable = False
            return Blocks(form, array, shape) if form in HALVES.values() and shape else array

        readers[name] = ValueType(form, shape, stop - start), read
    return readers


def _configuration(folder: Path, subject: str) -> Mapping[str, object]:
    """Return the entries of config.json; without one there are none."""
    path = folder / CONFIGURATION
    try:
        entries = read_json(read_plain(path, INDEX_BYTES), exact=True)
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise InputError(
            f"{subject}: {path} cannot be read: {getattr(error, 'strerror', None) or error}",
            hint="fetch it again",
        ) from error
    if not isinstance(entries, dict):
        raise InputError(f"{subject}: {path} is no object of JSON", hint="fetch it again")
    return cast("dict[str, object]", entries)

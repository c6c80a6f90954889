"""An exported folder's library, called with bytes by ctypes: neither NumPy nor the folder's code.

    model.json ─ inputs, outputs, dims ┐
    digits.so ── read, then trusted ───┤  Exported.run(inputs) → outputs
    weights.safetensors ── mapped ─────┘

What is loaded is what was looked at: the library's bytes are read once, and loaded from a copy that
nobody else can write to. The folder's run.py is never run.
"""

from __future__ import annotations

import ctypes
import json
import mmap
import os
import platform
import re
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, NamedTuple, cast

from luminal_lab.errors import DeviceError, InputError, LabError
from luminal_lab.reading import plain_size, read_json, read_plain
from luminal_lab.serving.tensors import DATATYPES, Bytes, Datatype, count_of
from luminal_lab.trust import Foreign, admit_library, library_of

KEYS: Final = ("format", "name", "machine", "library", "weights", "interface")
FORMAT: Final = 1
LARGEST_LIBRARY: Final = 1 << 28
"""The most bytes of a library."""
MEMORY: Final = 1 << 30
"""The most bytes that one run may take, beyond its inputs."""
ENDLESS: Final = 1 << 24
"""A bound that is no lower than this one follows from the numbers' bits, and nobody chose it."""
AGAIN: Final = "export it again: compiled.export(folder)"
SIZES, INDEX = 3, 4
"""The codes of a run that the caller's numbers are to blame for."""


class Axis(NamedTuple):
    """A size of a shape: a number, or a text that mentions dims."""

    text: str
    size: int | None


class Port(NamedTuple):
    """An input or an output."""

    name: str
    type: str
    kind: Datatype
    axes: tuple[Axis, ...]
    carried: str
    """For an input, the output that takes its place; for an output, the input that it was."""
    start: tuple[int, int, tuple[int, ...]] | None = None
    """Where in the weights it begins, with its bytes and its shape, if nobody gives it."""


class Size(NamedTuple):
    """A dim: its bounds, and the axis of an input that tells it."""

    name: str
    low: int
    high: int
    multiple_of: int
    told: tuple[str, int, int, int] | None

    def limits(self, size: int) -> str:
        """Return what a size that it cannot have must be."""
        said = f"{self.low:,} to {self.high:,}"
        if self.high >= ENDLESS:
            said = f"at most {self.high:,}" if size > self.high else f"at least {self.low:,}"
        return said + (f", and a multiple of {self.multiple_of}" if self.multiple_of > 1 else "")


class Value(NamedTuple):
    """An array: its shape and its bytes."""

    shape: tuple[int, ...]
    data: Bytes


class Exported:
    """A model in a folder, checked and loaded."""

    def __init__(self, folder: Path, *, trust: bool = False) -> None:
        self.folder = folder
        about = _about(folder)
        try:
            self.name = _word(about["name"])
            library = _file_name(about["library"])
            ports = cast("list[list[dict[str, Any]]]", about["interface"])
            self.inputs = tuple(_port(one) for one in ports[0])
            self.outputs = tuple(_port(one) for one in ports[1])
            self.dims = tuple(map(_size, ports[2]))
            bytes_of_weights = int(about["weights"])
            batch = about.get("batch")
            self.batch: str | int | None = batch if isinstance(batch, (str, int)) else None
            """The dim or the size whose rows have nothing to do with one another."""
        except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
            raise _damaged(folder) from error
        _unless_here(str(about["machine"]), library)
        data = _bytes(folder / library)
        admit_library(library_of(data, str(folder)), trust=trust)
        self._weights = _mapped(folder / "weights.safetensors", bytes_of_weights)
        self._address = ctypes.addressof(ctypes.c_char.from_buffer(self._weights))
        interface = sha256(json.dumps(about["interface"]).encode()).hexdigest()[:32]
        try:
            code = _loaded(data, library)
            calls = [getattr(code, f"{self.name}_{word}") for word in WORDS]
        except (OSError, AttributeError) as error:
            raise DeviceError(
                f"serve: {folder / library} cannot be loaded: {error}", hint=AGAIN
            ) from None
        self._open, self._sizes, self._run, self._says, told = calls
        pointer = ctypes.c_void_p
        self._open.argtypes, self._sizes.argtypes = [pointer, ctypes.c_size_t], [pointer] * 2
        self._run.argtypes = [*[pointer] * 5, ctypes.c_uint32]
        self._says.restype = told.restype = ctypes.c_char_p
        if told().decode() != interface:
            raise InputError(
                f"serve: {library} is not the library that {folder}/model.json is about", hint=AGAIN
            )
        if code := self._open(self._address, bytes_of_weights):
            raise InputError(f"serve: {folder}: {self._says(code).decode()}", hint=AGAIN)
        self._arena = bytearray()

    def sizes(self, shapes: Mapping[str, Sequence[int]], given: Mapping[str, int]) -> list[int]:
        """Return the sizes of dims that shapes tell, or that are given; or raise a ValueError."""
        sizes: list[int] = []
        for dim in self.dims:
            if dim.told is None:
                if dim.name not in given:
                    raise ValueError(f"the dim {dim.name} is missing: no input tells it")
                size = given[dim.name]
            else:
                name, axis, factor, offset = dim.told
                size, rest = divmod(shapes[name][axis] - offset, factor)
                if rest:
                    raise ValueError(f"no size of {dim.name} makes axis {axis} of {name} fit")
            if not dim.low <= size <= dim.high or size % dim.multiple_of:
                raise ValueError(f"{dim.name} is {size:,}, and must be {dim.limits(size)}")
            sizes.append(size)
        return sizes

    def shapes(self, sizes: Sequence[int]) -> tuple[int, list[tuple[int, ...]]]:
        """Return the bytes that a run needs, and the shapes of inputs and outputs."""
        ports = (*self.inputs, *self.outputs)
        axes = (ctypes.c_int64 * (1 + sum(len(port.axes) for port in ports)))()
        if self._sizes((ctypes.c_int64 * max(1, len(sizes)))(*sizes), axes):
            raise ValueError("these are sizes that it cannot have")
        left, shapes = [*axes][1:], list[tuple[int, ...]]()
        for port in ports:
            shapes.append(tuple(left[: len(port.axes)]))
            del left[: len(port.axes)]
        return int(axes[0]), shapes

    def need(self, sizes: Sequence[int]) -> list[tuple[int, ...]]:
        """Return the shapes for some sizes, or raise a ValueError if a run takes too much."""
        arena, shapes = self.shapes(sizes)
        new = zip(self.outputs, shapes[len(self.inputs) :], strict=True)
        bytes_of = arena + sum(count_of(shape) * port.kind.size for port, shape in new)
        if bytes_of > MEMORY:
            raise ValueError(f"it would take {bytes_of >> 20:,} MB, and may take {MEMORY >> 20:,}")
        return shapes

    def start_of(self, port: Port) -> Value:
        """Return what an input that is carried begins with."""
        assert port.start is not None
        begin, size, shape = port.start
        return Value(shape, self._weights[begin : begin + size])

    def run(self, sizes: Sequence[int], inputs: Sequence[Value], step: int = 0) -> list[Value]:
        """Run it once, and return the outputs; one run at a time."""
        arena, shapes = self.shapes(sizes)
        if len(self._arena) < arena:
            self._arena = bytearray(arena)
        given = [_writable(value.data) for value in inputs]
        outputs, new = list[Value](), list[bytearray]()
        for port, shape in zip(self.outputs, shapes[len(self.inputs) :], strict=True):
            if port.carried:
                at = next(k for k, one in enumerate(self.inputs) if one.name == port.carried)
                outputs.append(Value(shape, given[at]))
            else:
                new.append(bytearray(max(1, count_of(shape) * port.kind.size)))
                outputs.append(
                    Value(shape, memoryview(new[-1])[: count_of(shape) * port.kind.size])
                )
        code = self._run(
            (ctypes.c_int64 * max(1, len(sizes)))(*sizes),
            self._address,
            _pointers(given),
            _pointers(new),
            _address(self._arena),
            step,
        )
        if code:
            said = f"{self.name}: {self._says(code).decode()}"
            raise ValueError(said) if code in (SIZES, INDEX) else DeviceError(said)
        return outputs


WORDS: Final = ("open", "sizes_of", "run", "says", "interface")


def library_in(folder: Path) -> Foreign:
    """Return the part to be trusted of an exported folder."""
    try:
        library = _file_name(_about(folder)["library"])
    except ValueError:
        raise _damaged(folder) from None
    return library_of(_bytes(folder / library), str(folder))


def is_exported(folder: Path) -> bool:
    """Return whether a folder is one that `export` has written."""
    return (folder / "model.json").is_file()


def _about(folder: Path) -> dict[str, Any]:
    try:
        about = read_json(read_plain(folder / "model.json"), exact=True)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise InputError(f"serve: {folder}/model.json cannot be read: {why}", hint=AGAIN) from None
    if not isinstance(about, dict) or any(key not in about for key in KEYS):
        raise _damaged(folder)
    found = cast("dict[str, Any]", about)
    if found["format"] != FORMAT:
        raise InputError(
            f"serve: {folder} has the format {found['format']!r:.20}, and {FORMAT} is known",
            hint=AGAIN,
        )
    return found


def _damaged(folder: Path) -> LabError:
    return InputError(f"serve: {folder}/model.json is damaged", hint=AGAIN)


def _word(name: object) -> str:
    if not isinstance(name, str) or not re.fullmatch(r"[a-zA-Z_]\w{0,200}", name, re.ASCII):
        raise ValueError(name)
    return name


def _file_name(name: object) -> str:
    """Return the name of a file in the folder, which leads nowhere else."""
    if not isinstance(name, str) or not re.fullmatch(r"[\w.-]{1,200}", name) or name[0] == ".":
        raise ValueError(name)
    return name


def _port(one: Mapping[str, Any]) -> Port:
    kind, type = DATATYPES[one["numpy"]], str(one["type"])
    if type.startswith("bf16"):
        kind = DATATYPES["bfloat16"]
    inner = type.partition("[")[2].rpartition("]")[0]
    texts = _split(inner)
    if len(texts) != int(one["rank"]):
        raise ValueError(type)
    axes = tuple(Axis(text, int(text) if text.isdigit() else None) for text in texts)
    start = one.get("start")
    begin = None if start is None else (int(start[0]), int(start[1]), tuple(map(int, start[2])))
    return Port(_name(one["name"]), type, kind, axes, _name(one["carried"]), begin)


def _split(text: str) -> list[str]:
    """Return the sizes of a shape's text, at whose commas outside of brackets it is cut."""
    parts, depth = [""], 0
    for letter in text:
        depth += (letter in "([") - (letter in ")]")
        if letter == "," and not depth:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts] if text.strip() else []


def _name(name: object) -> str:
    if not isinstance(name, str):
        raise TypeError(name)
    return name


def _size(one: Mapping[str, Any]) -> Size:
    told, multiple = one["from"], int(one["multiple_of"])
    axis = None if told is None else (str(told[0]), int(told[1]), int(told[2]), int(told[3]))
    if multiple < 1 or (axis is not None and axis[2] < 1):
        raise ValueError(one)
    return Size(str(one["name"]), int(one["low"]), int(one["high"]), multiple, axis)


def _unless_here(machine: str, library: str) -> None:
    here = f"{platform.machine()}-{platform.system()}".lower()
    here = here.replace("amd64", "x86_64").replace("arm64", "aarch64")
    if machine != here:
        raise DeviceError(
            f"serve: {library} is for {machine[:40]}, and this is {here}",
            hint='export it here, or with target="…" for this machine',
        )


def _bytes(library: Path) -> bytes:
    try:
        return read_plain(library, LARGEST_LIBRARY)
    except FileNotFoundError:
        raise InputError(
            f"serve: {library} is not there", hint="make in that folder compiles it"
        ) from None
    except OSError as error:
        raise InputError(
            f"serve: {library} cannot be read: {error.strerror or error}", hint=AGAIN
        ) from None


def _mapped(weights: Path, size: int) -> mmap.mmap | bytearray:
    """Return the weights, mapped and never copied; a byte where there are none."""
    if not size:
        return bytearray(8)
    try:
        found = plain_size(weights)
        if found < size:
            raise InputError(
                f"serve: {weights} has {found:,} bytes, and {size:,} are its weights", hint=AGAIN
            )
        with weights.open("rb") as file:
            return mmap.mmap(file.fileno(), size, access=mmap.ACCESS_COPY)
    except OSError as error:
        raise InputError(
            f"serve: {weights} cannot be read: {error.strerror or error}", hint=AGAIN
        ) from None


def _loaded(data: bytes, name: str) -> ctypes.CDLL:
    """Load a library from bytes that were looked at."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create(name)
        with open(descriptor, "wb", closefd=False) as file:  # a descriptor
            file.write(data)
        # It stays open: a library is found by its path, and another one must not get the same.
        return ctypes.CDLL(f"/proc/self/fd/{descriptor}")
    from tempfile import mkdtemp  # noqa: PLC0415  # it takes long

    folder = Path(mkdtemp(prefix="luminal-lab-"))  # which no other user can write to
    copy = folder / name
    try:
        copy.write_bytes(data)
        return ctypes.CDLL(str(copy))
    finally:
        if os.name == "posix":  # elsewhere a library that is loaded stays
            copy.unlink(missing_ok=True)
            folder.rmdir()


def _writable(data: Bytes) -> bytearray:
    copied = data if isinstance(data, bytearray) else bytearray(data)
    return copied or bytearray(8)


def _address(memory: bytearray) -> int:
    return ctypes.addressof(ctypes.c_char.from_buffer(memory))


def _pointers(arrays: Sequence[bytearray]) -> ctypes.Array[ctypes.c_void_p]:
    return (ctypes.c_void_p * max(1, len(arrays)))(*map(_address, arrays))

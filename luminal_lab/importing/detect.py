"""What a file is, by its contents and not by its name.

    b"luminal_lab recording 1"      recording
    8 bytes of length, then "{"     safetensors
    "GGUF"                          weights with a model's keys, as llama.cpp reads them
    a zip with models/*.json        a torch.export program, .pt2
    a zip with data.pkl             pickled weights of torch, which nobody reads here
    fields of a ModelProto          ONNX
    comments, then "graph name("    a graph as text

Only the first bytes, the ends of zips and the top fields of protobufs are read; nothing is run.
"""

from __future__ import annotations

import zipfile
from contextlib import suppress
from enum import Enum
from pathlib import Path
from typing import BinaryIO, Final

from luminal_lab.core.origin import here
from luminal_lab.errors import InputError, LabError, nearest
from luminal_lab.reading import GRAPH_TEXT, is_graph_text, read_json, read_plain
from luminal_lab.writing import as_path

HEAD: Final = 64
INDEX_BYTES: Final = 1 << 24
"""The most bytes of an index of weights, or of a configuration."""
RECORDING: Final = b"luminal_lab recording "


class FileKind(Enum):
    """A kind of file that a model, or a part of one, comes in."""

    RECORDING = "a recording"
    SAFETENSORS = "weights in safetensors"
    INDEX = "an index of weights in several files of safetensors"
    FOLDER = "a folder with a model"
    ONNX = "an ONNX model"
    EXPORTED = "a program of torch.export"
    PICKLE = "pickled weights of PyTorch"
    SCRIPT = "a TorchScript archive"
    GGUF = "a GGUF model"
    KERAS = "an HDF5 file, as Keras writes"
    TFLITE = "a TensorFlow Lite model"
    NUMPY = "arrays of NumPy"
    GRAPH = "a graph as text"


REASONS: Final = {
    FileKind.PICKLE: (
        "loading it could run whatever its author wrote",
        "with torch, torch.load(path, weights_only=True) and safetensors.torch.save_file(state, "
        '"model.safetensors") make a file that holds values alone',
    ),
    FileKind.SCRIPT: (
        "it holds code of PyTorch's own compiler",
        "export the module again: torch.export.save(torch.export.export(module, inputs), "
        '"model.pt2"), or torch.onnx.export',
    ),
    FileKind.KERAS: (
        "it is not read here",
        "tf2onnx makes an ONNX model of it",
    ),
    FileKind.TFLITE: (
        "it is not read here",
        "tf2onnx makes an ONNX model of it",
    ),
    FileKind.NUMPY: (
        "it has values without a model",
        "np.load(path) reads it, and module.load_state_dict takes a dict of arrays",
    ),
    FileKind.GRAPH: GRAPH_TEXT,
}
"""For what is not opened: why, and what to do instead."""

WAYS: Final = {
    FileKind.RECORDING: "ll.open({path!r})",
    FileKind.ONNX: "ll.from_onnx({path!r})",
    FileKind.EXPORTED: "ll.from_torch({path!r}, trust=True), if you know who wrote it",
    **dict.fromkeys(
        [FileKind.SAFETENSORS, FileKind.INDEX, FileKind.FOLDER, FileKind.GGUF],
        "module.load({path!r}) gives these values to a module; luminal-lab open shows them",
    ),
}
"""For what is opened: how."""

FIELDS: Final = {
    **dict.fromkeys([1, 5], 0),
    **dict.fromkeys([2, 3, 4, 6, 7, 8, 14, 20, 25, 26], 2),
}
"""The fields of ONNX's ModelProto with their wire types: 0 is a number, 2 has a length."""
GRAPH, OPSETS = 7, 8
SUFFIXES: Final = (".bin", ".gguf", ".lab", ".onnx", ".pt", ".pt2", ".pth")
"""How the names of what may be in a folder end, weights in safetensors apart."""


def kind_of_file(path: str | Path, subject: str = "open") -> FileKind:
    """Return what a file is, or raise an InputError that says what is there instead.

    >>> _ = (folder / "weights.bin").write_bytes((2).to_bytes(8, "little") + b"{}")
    >>> kind_of_file(folder / "weights.bin")
    <FileKind.SAFETENSORS: 'weights in safetensors'>
    """
    file = as_path(subject, path)
    try:
        kind = _of_folder(file) if file.is_dir() else _of_file(file)
    except FileNotFoundError:
        where = str(here() or "") or None
        raise InputError(
            f"{subject}: there is no {file}",
            where=where,
            hint=near(file) or f"the current folder is {Path.cwd()}",
        ) from None
    except OSError as error:
        raise InputError(
            f"{subject}: {file}: {error.strerror or error}",
            hint="name a whole file, or fetch it again",
        ) from error
    if kind is None:
        raise InputError(
            f"{subject}: {file} is nothing that is known here: {_looks(file)}",
            hint=_nearby(file)
            or "it may be a recording, safetensors, GGUF, ONNX, a .pt2 of torch.export, or a "
            "folder with safetensors",
        )
    return kind


def supported(path: str | Path, subject: str = "open") -> FileKind:
    """Return what a file is, or raise an InputError if such files are not opened here."""
    kind = kind_of_file(path, subject)
    if kind in REASONS:
        why, hint = REASONS[kind]
        raise InputError(f"{subject}: {path} is {kind.value}: {why}", hint=hint)
    return kind


def unless_kind(path: str | Path, wanted: FileKind, subject: str, error: type[LabError]) -> None:
    """Raise an error if a file is of another kind, with what opens it; unknown ones pass.

    >>> _ = (folder / "x.onnx").write_bytes((2).to_bytes(8, "little") + b"{}")
    >>> try:
    ...     unless_kind(folder / "x.onnx", FileKind.ONNX, "from_onnx", ll.ModelError)
    ... except ll.ModelError as error:
    ...     print(error.message)
    from_onnx: x.onnx is weights in safetensors, and not an ONNX model
    """
    try:
        kind = kind_of_file(path, subject)
    except LabError:
        return
    if kind is wanted:
        return
    hint = REASONS[kind][1] if kind in REASONS else WAYS[kind].format(path=str(path))
    raise error(
        f"{subject}: {Path(path).name} is {kind.value}, and not {wanted.value}",
        where=str(here() or "") or None,
        hint=hint,
    )


def _looks(path: Path) -> str:
    """Return what a file that is of no kind looks like."""
    if path.is_dir():
        return "a folder without safetensors"
    with path.open("rb") as file:
        head = file.read(16)
    if head.startswith(b"PK\x03\x04"):
        return "a zip without a model in it"
    return f"it begins with {head!r}" if head else "it is empty"


def near(path: Path) -> str | None:
    """Return a hint at what was meant by the name of a file that is not there, if it is beside."""
    with suppress(OSError):
        return nearest(path.name, [e.name for e in path.parent.iterdir() if _may_be(e)], 0.75)
    return None


def _may_be(path: Path) -> bool:
    """Return whether something may be opened, by its name, or by those in it."""
    ends = (*SUFFIXES, ".safetensors", ".json")
    with suppress(OSError):
        return any(inner.name.endswith(ends) for inner in path.iterdir())
    return path.name.endswith(ends)


def _nearby(path: Path) -> str | None:
    """Return a hint at a file in a folder, or at the folder of a file, that was meant."""
    if path.is_dir():
        inside = sorted(entry for entry in path.iterdir() if entry.suffix in SUFFIXES)
        return f"name a file in it, as in {inside[0]}" if inside else None
    is_beside = path.suffix in {".json", ".jinja"} and _of_folder(path.parent) is not None
    return f"name the folder of the model, {path.parent}" if is_beside else None


def _of_folder(folder: Path) -> FileKind | None:
    names = {entry.name for entry in folder.iterdir()}
    has_weights = any(name.endswith((".safetensors", ".safetensors.index.json")) for name in names)
    return FileKind.FOLDER if has_weights else None


def _of_file(path: Path) -> FileKind | None:
    if path.exists() and not path.is_file():
        raise OSError(0, "it is not a plain file")
    with path.open("rb") as file:
        head = file.read(HEAD)
        size = file.seek(0, 2)
        kind = _of_head(head, size)
        if kind is not None:
            return kind
        if head.startswith(b"PK\x03\x04"):
            return _of_zip(file)
        if head.lstrip().startswith(b"{"):
            return _of_json(path)
        file.seek(0)
        if is_graph_text(file):
            return FileKind.GRAPH
        file.seek(0)
        return FileKind.ONNX if _is_onnx(file, size) else None


def _of_head(head: bytes, size: int) -> FileKind | None:
    """Return the kind that the first bytes tell."""
    length = int.from_bytes(head[:8], "little")
    if head.startswith(RECORDING):
        return FileKind.RECORDING
    if head[8:9] == b"{" and 2 <= length <= size - 8:
        return FileKind.SAFETENSORS
    for begin, kind in (
        (b"GGUF", FileKind.GGUF),
        (b"\x89HDF\r\n", FileKind.KERAS),
        (b"\x93NUMPY", FileKind.NUMPY),
    ):
        if head.startswith(begin):
            return kind
    if head[4:8] == b"TFL3":
        return FileKind.TFLITE
    return FileKind.PICKLE if head[:1] == b"\x80" and head[1:2] <= b"\x05" else None


def _of_zip(file: BinaryIO) -> FileKind | None:
    """Return the kind that the names in a zip tell."""
    try:
        with zipfile.ZipFile(file) as archive:
            names = archive.namelist()
    except (zipfile.BadZipFile, NotImplementedError, ValueError) as error:
        raise OSError(0, f"it is a damaged zip: {error}") from error
    inner = {name.partition("/")[2] for name in names} | {*names}
    exported = ("models/model.json", "serialized_exported_program.json", "archive_format")
    if any(name in inner for name in exported):
        return FileKind.EXPORTED
    if any(name.startswith("code/") for name in inner):
        return FileKind.SCRIPT
    if "data.pkl" in inner:
        return FileKind.PICKLE
    return FileKind.NUMPY if names and all(name.endswith(".npy") for name in names) else None


def _of_json(path: Path) -> FileKind | None:
    try:
        entries = read_json(read_plain(path, INDEX_BYTES))
    except ValueError as error:
        raise OSError(0, f"it begins as JSON does, and {error}") from error
    return FileKind.INDEX if isinstance(entries, dict) and "weight_map" in entries else None


def _is_onnx(file: BinaryIO, size: int) -> bool:
    """Return whether a file has the fields of a ModelProto, and no others, up to its end."""
    seen: set[int] = set()
    while file.tell() < size:
        tag = _number(file)
        if tag is None or FIELDS.get(tag >> 3) != tag & 7:
            return False
        seen.add(tag >> 3)
        value = _number(file)
        if value is None or (tag & 7 == 2 and file.seek(value, 1) > size):
            return GRAPH in seen  # it was cut off, which its reader says better
    return {GRAPH, OPSETS} <= seen


def _number(file: BinaryIO) -> int | None:
    """Read a number of seven bits a byte; None if there is none."""
    number = 0
    for shift in range(0, 64, 7):
        byte = file.read(1)
        if not byte:
            return None
        number |= (byte[0] & 127) << shift
        if byte[0] < 128:
            return number
    return None

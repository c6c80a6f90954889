"""A recording: compiles in one file, with every firing, that opens anywhere; opening runs nothing.

    luminal_lab recording 1\\n          what the file is, and its schema
    zlib(JSON)                          texts, subjects (packing.py), facts, environment
    zlib(bytes)                         the arrays, if values were saved

It is one compressed text, not an archive: it is read as a whole, a checksum covers it, and no
directory can state false sizes.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from io import BytesIO
from math import prod
from pathlib import Path, PurePath
from typing import Final, TypeAlias

import numpy as np

from luminal_lab.core.dtypes import BY_NUMPY, Array, DType
from luminal_lab.core.ops import UserKernel, user_kernels
from luminal_lab.errors import ArgumentError, RecordingError
from luminal_lab.io.cells import package_version
from luminal_lab.io.facts import Facts, Line, Subject
from luminal_lab.io.packing import Packing, Texts
from luminal_lab.io.unpacking import JsonObject, Unpacking, texts_of
from luminal_lab.plain import Json, listed
from luminal_lab.reading import GRAPH_TEXT, TIMES, check_json, is_graph_text, read_json, room
from luminal_lab.trust import sign_written
from luminal_lab.writing import write_bytes

SCHEMA: Final = 1
"""The version of the file format, raised with each change."""
MAGIC: Final = b"luminal_lab recording "
LIMIT: Final = 1 << 27
"""The most bytes of JSON that a file may become; a compile of 10,000 nodes has about 5 million."""
SHARE: Final = 4
"""The JSON may fill this fraction, 1/4, of the memory that a file may take."""
MOST_DIMS: Final = 64
MOST_STEPS: Final = 200
"""The most steps of a story."""
AGAIN: Final = 'save it again where it was made: cx.save("run.lab")'
Document: TypeAlias = dict[str, object]
Values: TypeAlias = Mapping[str, Array]

MIGRATIONS: Mapping[int, Callable[[Document], Document]] = {}
"""By old schema, the function that turns a document into the next schema."""


@dataclass(frozen=True)
class Contents:
    """The contents of a file."""

    writer: str
    """The version of luminal_lab that wrote it."""
    date: str
    subjects: tuple[Subject, ...]
    values: tuple[Values, ...]
    """For each subject, the saved arrays by the names of their nodes."""
    story: tuple[tuple[str, str], ...] = ()
    """The steps of a story: where to look, and what is said there."""


# -- writing ---------------------------------------------------------------------------------------


def save_recording(
    path: str | Path,
    subjects: Iterable[Subject],
    values: Sequence[Values] = (),
    story: Sequence[tuple[str, str]] = (),
) -> None:
    """Write graphs and compiles to a file, which shows the same wherever it is opened.

    `values` are each subject's arrays by the names of their nodes; without them the file holds no
    value of any input or weight. Kernels written in this process are signed, so that this user may
    run them again.
    """
    given = tuple(subjects)
    write_bytes("recording", path, recording_bytes(given, values, story))
    sign_written(carried(given))


def carried(subjects: Iterable[Subject]) -> tuple[UserKernel, ...]:
    """Return the user kernels in any snapshot of graphs and compiles."""
    snapshots = [snapshot for subject in subjects for snapshot in subject.snapshots]
    return tuple(user_kernels(*(ir for shot in snapshots for ir in (shot.before, shot.ir))))


def recording_bytes(
    subjects: Iterable[Subject],
    values: Sequence[Values] = (),
    story: Sequence[tuple[str, str]] = (),
) -> bytes:
    """Return the bytes of a file of graphs and compiles."""
    texts = Texts()
    data: list[bytes] = []
    packed: list[Json] = []
    for at, subject in enumerate(subjects):
        arrays = _packed_values(values[at], data) if at < len(values) else []
        packed.append({**_packed(subject, texts), "values": arrays})
    if not packed:
        raise ArgumentError("recording: there is nothing to keep", hint="give a graph or a compile")
    document: dict[str, Json] = {
        "schema": SCHEMA,
        "made": f"luminal_lab {package_version()}",
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "subjects": packed,
        "texts": texts.list,
    }
    if story:
        document["story"] = [[at, text] for at, text in story]
    text = json.dumps(document, separators=(",", ":"), allow_nan=False)
    body = text.encode()
    if len(body) > LIMIT:
        raise RecordingError(
            f"recording: it would be {len(body):,} bytes, and at most {LIMIT:,} are read again",
            hint="keep fewer compiles in one file",
        )
    head = MAGIC + str(SCHEMA).encode() + b"\n"
    arrays = b"".join(data)
    whole = head + zlib.compress(body, 6) + (zlib.compress(arrays, 1) if data else b"")
    if not _fits(text, len(arrays), room(len(whole))):
        # Memory is limited to a multiple of the file's size, so the file must not be too small.
        whole = head + zlib.compress(body, 0) + (zlib.compress(arrays, 0) if data else b"")
    return whole


def _fits(text: str, values: int, memory: int) -> bool:
    """Return whether a file can be read back within the memory that it may take."""
    try:
        check_json(text, memory)
    except ValueError:
        return False
    return max(SHARE * len(text), values) <= memory


def _packed(subject: Subject, texts: Texts) -> dict[str, Json]:
    packing = Packing(texts)
    packed = packing.json(subject.snapshots)
    return {
        "title": subject.title,
        "pipeline": subject.pipeline,
        "parameters": [*sorted(subject.parameters)],
        "kept": [*sorted(subject.kept)],
        **packed,
        "facts": _without_folders(subject.facts, packing.files).to_json(),
    }


def _without_folders(facts: Facts, files: Mapping[str, str]) -> Facts:
    """Return facts with the recording's short names of files."""

    def short(line: Line) -> Line:
        return replace(line, file=files.get(line.file) or PurePath(line.file).name)

    launches = [
        replace(launch, origins=tuple(map(short, launch.origins))) for launch in facts.launches
    ]
    remarks = [
        replace(remark, line=None if remark.line is None else short(remark.line))
        for remark in facts.remarks
    ]
    return replace(facts, launches=tuple(launches), remarks=tuple(remarks))


def _packed_values(arrays: Values, data: list[bytes]) -> list[Json]:
    entries: list[Json] = []
    for name, array in arrays.items():
        dtype = BY_NUMPY.get(array.dtype)
        if dtype is None:
            raise ArgumentError(
                f"recording: the value of {name} is of {array.dtype}",
                hint=f"values are of {', '.join(DType)}",
            )
        data.append(array.tobytes())
        shape: list[Json] = [*array.shape]
        entries.append({"name": name, "dtype": dtype.value, "shape": shape})
    return entries


# -- reading ---------------------------------------------------------------------------------------


def contents_of(data: bytes, name: str, limit: int = LIMIT) -> Contents:
    """Return the contents of a file's bytes, or raise a RecordingError; nothing in them runs.

    Bytes that unpack to more than `limit` are refused, and so are contents that would take more
    memory than a file of that size may.
    """
    title = f"recording {name}"
    schema, rest = _schema(title, data)
    memory = room(len(data)) if limit <= LIMIT else TIMES * limit
    body, rest = _inflated(title, rest, min(limit, memory // SHARE))
    try:
        document = _document(body, schema, memory)
        del body
        while schema < SCHEMA:
            document = MIGRATIONS[schema](document)
            schema += 1
        return _contents(document, rest, memory)
    # Whatever fails, a number too large or an odd name, the file is to blame.
    except Exception as error:
        message = getattr(error, "message", None) or str(error) or type(error).__name__
        raise RecordingError(
            f"{title}: it is damaged: {str(message).splitlines()[0][:200]}", hint=AGAIN
        ) from error


def _schema(title: str, data: bytes) -> tuple[int, bytes]:
    head, _, _ = data[: len(MAGIC) + 20].partition(b"\n")
    number = head.removeprefix(MAGIC)
    if not data:
        raise RecordingError(f"{title}: the file is empty", hint=AGAIN)
    if not data.startswith(MAGIC):
        if is_graph_text(BytesIO(data)):
            why, hint = GRAPH_TEXT
            raise RecordingError(f"{title}: this is a graph as text: {why}", hint=hint)
        begins = data[:16].decode("ascii", "replace")
        raise RecordingError(
            f"{title}: this is not a recording: it begins with {begins!r}",
            hint='give a file that cx.save("run.lab") has written; ll.from_onnx and ll.from_torch '
            "read models",
        )
    if not number.isdigit() or len(number) > 9 or int(number) < 1:
        raise RecordingError(f"{title}: it is damaged: its first line has no schema", hint=AGAIN)
    schema = int(number)
    if schema > SCHEMA:
        raise RecordingError(
            f"{title}: its schema is {schema}, and this version of luminal_lab reads {SCHEMA} and "
            "older ones",
            hint="pip install --upgrade luminal-lab",
        )
    return schema, data[len(head) + 1 :]


def _inflated(title: str, data: bytes, limit: int) -> tuple[bytes, bytes]:
    """Return the next part of a file, up to a limit, and the bytes after it."""
    stream = zlib.decompressobj()
    try:
        part = stream.decompress(data, limit + 1)
    except zlib.error as error:
        raise RecordingError(f"{title}: it is damaged: {error}", hint=AGAIN) from error
    if len(part) > limit:
        raise RecordingError(
            f"{title}: it becomes more than {limit:,} bytes, which no recording does",
            hint="if you trust it, ll.open(path, limit=…) reads more",
        )
    if not stream.eof:
        raise RecordingError(f"{title}: it is cut off: its end is missing", hint=AGAIN)
    return part, stream.unused_data


def _document(body: bytes, schema: int, memory: int) -> Document:
    text = body.decode("utf-8")
    given = JsonObject(read_json(text, memory), "the file")
    if given.number("schema", 1, 1 << 31) != schema:
        raise ValueError("its first line and its contents have two schemas")
    return given.entries


def _contents(document: Document, rest: bytes, memory: int) -> Contents:
    given = JsonObject(document, "the file")
    texts = texts_of(listed(given["texts"], "texts"))
    subjects: list[Subject] = []
    shapes: list[list[tuple[str, DType, tuple[int, ...]]]] = []
    for entry in given.objects("subjects"):
        snapshots = Unpacking(entry, texts).snapshots()
        facts = Facts.from_json(entry["facts"])
        if facts.stop is not None:
            facts.stop.among(snapshots)  # or a ValueError
        subjects.append(
            Subject(
                entry.text("title"),
                snapshots,
                # Times measured there count as recorded here.
                replace(
                    facts,
                    times=tuple(time.recorded() for time in facts.times),
                    advice=facts.advice and facts.advice.recorded(),
                    boards=tuple(b.recorded(facts.kernels[b.kernel].name) for b in facts.boards),
                ),
                entry.text("pipeline"),
                frozenset(entry.numbers("parameters", 0, 1 << 31)),
                frozenset(entry.numbers("kept", 0, 1 << 31)),
            )
        )
        shapes.append([_shape(value) for value in entry.objects("values")])
    if not subjects:
        raise ValueError("the file has no subjects")
    return Contents(
        given.text("made"),
        given.text("date"),
        tuple(subjects),
        tuple(_arrays(shapes, rest, memory)),
        _story(document.get("story", [])),
    )


def _story(given: object) -> tuple[tuple[str, str], ...]:
    steps = listed(given, "story")
    if len(steps) > MOST_STEPS:
        raise ValueError(f"its story has {len(steps)} steps, and may have {MOST_STEPS}")
    pairs: list[tuple[str, str]] = []
    for step in steps:
        match step:
            case [str() as at, str() as text]:
                pairs.append((at, text))
            case _:
                raise ValueError("a step of its story is not a place with a text")
    return tuple(pairs)


def _shape(given: JsonObject) -> tuple[str, DType, tuple[int, ...]]:
    dtype = given.text("dtype")
    if dtype not in {known.value for known in DType}:
        raise ValueError(f"{given.path}.dtype is {dtype[:40]!r}")
    shape = tuple(given.numbers("shape", 0, 1 << 40))
    if len(shape) > MOST_DIMS:
        raise ValueError(f"{given.path}.shape has {len(shape)} dims")
    return given.text("name"), DType(dtype), shape


def _arrays(
    shapes: Sequence[Sequence[tuple[str, DType, tuple[int, ...]]]], data: bytes, memory: int
) -> list[Values]:
    total = sum(prod(shape) * dtype.itemsize for row in shapes for _, dtype, shape in row)
    if not any(shapes):
        if data:
            raise ValueError(f"{len(data)} bytes come after its end")
        return [{} for _ in shapes]
    # Deflate makes at most 1,032 bytes from one.
    if total > 1032 * len(data):
        raise ValueError(f"its values are said to be {total:,} bytes, which are not there")
    if total > memory:
        raise ValueError(f"its values are {total:,} bytes, and may be {memory:,}")
    stream = zlib.decompressobj()
    body = stream.decompress(data, total + 1)
    if len(body) != total or not stream.eof or stream.unused_data:
        raise ValueError(f"its values are not the {total:,} bytes that they are said to be")
    at = 0
    values: list[Values] = []
    for row in shapes:
        arrays: dict[str, Array] = {}
        for name, dtype, shape in row:
            count = prod(shape)
            # A view of immutable bytes: nobody can write into a recording.
            flat = np.frombuffer(body, dtype.numpy, count, at)
            arrays[name] = flat.reshape(shape)
            at += count * dtype.itemsize
        values.append(arrays)
    return values

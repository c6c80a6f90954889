"""What is in an ONNX file, counted before anything is made of it: tensors, attributes, types."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np

from luminal_lab.core.dtypes import Array
from luminal_lab.core.origin import here
from luminal_lab.errors import DeviceError, ModelError, visible
from luminal_lab.importing.detect import FileKind, unless_kind
from luminal_lab.importing.onnx_ops.table import CHECK, DAMAGED, ELEMENTS, Refusal
from luminal_lab.reading import read_plain

Proto: TypeAlias = Any
"""An object of protobuf's or of the package onnx, which have no types here."""

MOST_BYTES: Final = 1 << 31
"""The most bytes of a model without its external data: protobuf reads no more."""
MOST_AXES: Final = 64
BITS: Final = {"uint4": 4, "int4": 4, "float4_e2m1fn": 4, "uint2": 2, "int2": 2}
"""Dtypes of which a byte holds several."""
NOT_OURS: Final = frozenset(["string", "complex64", "complex128"])
REMARKS: Final = frozenset(["doc_string", "producer_name", "producer_version"])
"""Texts that nothing here reads."""
GRAPH: Final = 5
"""ONNX's number of attributes that are graphs."""


def library() -> Proto:
    """Return the package onnx, or raise a DeviceError that says how to install it."""
    try:
        import onnx  # noqa: PLC0415  # an extra
    except ImportError as error:
        raise DeviceError(
            f"from_onnx: the package onnx is not installed: {error}",
            where=str(here() or "") or None,
            hint="pip install 'luminal-lab[onnx]'",
        ) from None
    return onnx


def wrong(message: str, hint: str | None = None) -> ModelError:
    """Return an error at the user's line."""
    return ModelError(message, where=str(here() or "") or None, hint=hint)


def line_of(error: BaseException) -> str:
    """Return an error's text as a short line."""
    return visible(" ".join(str(error).split()))[:200]


def read_model(file: Path, subject: str) -> Proto:
    """Return the model in a file, as the package onnx reads it; external data stays outside."""
    package = library()
    try:
        data = read_plain(file, MOST_BYTES)
    except (OSError, ValueError) as error:
        raise wrong(
            f"{subject}: {file} cannot be read: {getattr(error, 'strerror', None) or error}",
            f"the current folder is {Path.cwd()}"
            if isinstance(error, FileNotFoundError)
            else "give the path of an ONNX file",
        ) from error
    if not data:
        raise wrong(f"{subject}: {file.name} is no ONNX model: it is empty", "write it once more")
    unless_kind(file, FileKind.ONNX, subject, ModelError)
    try:
        model = package.load_model_from_string(data)
    except Exception as error:  # protobuf's own, which has no public base
        raise wrong(
            f"{subject}: {file.name} is no ONNX model: {line_of(error)}",
            "the file may be damaged, or of another kind",
        ) from error
    if (odd := _undecoded(model)) is not None:
        raise wrong(f"{subject}: {file.name}: {odd}, which is not UTF-8", DAMAGED)
    return model


def _undecoded(model: Proto) -> str | None:
    """Return which name or text is not UTF-8, which protobuf hands over as bytes."""
    messages = [model]
    for message in messages:
        for field, value in message.ListFields():
            if field.message_type is not None:
                messages += [value] if hasattr(value, "ListFields") else value
            elif field.type == field.TYPE_STRING and field.name not in REMARKS:
                for text in [value] if isinstance(value, (str, bytes)) else value:
                    if not isinstance(text, str):
                        return f"the {field.name} of a {message.DESCRIPTOR.name} is {text[:40]!r}"
    return None


def numpy_dtype(name: str) -> np.dtype[Any]:
    """Return NumPy's or ml_dtypes' dtype of a name."""
    import ml_dtypes  # noqa: PLC0415  # which onnx brings along, and nothing else here needs

    return np.dtype(getattr(ml_dtypes, name, None) or name)


class File:
    """One model's file: its name for messages, and the folder of its external data."""

    def __init__(self, name: str, folder: Path) -> None:
        self.library = library()
        self.name = visible(name)
        self.folder = folder

    def error(self, what: str, hint: str | None = None) -> ModelError:
        """Return an error that names the file."""
        return wrong(f"from_onnx: {self.name}: {visible(what)}", hint or CHECK)

    def attribute(self, attribute: Proto) -> object:
        """Return an attribute's value."""
        match attribute.type:
            case 1:
                return float(attribute.f)
            case 2:
                return int(attribute.i)
            case 3:
                return attribute.s.decode("utf-8", "replace")
            case 4:
                return self.array(attribute.t, f"the attribute {attribute.name!r}")
            case 5:
                return attribute.g
            case 6:
                return [float(number) for number in attribute.floats]
            case 7:
                return [int(number) for number in attribute.ints]
            case 8:
                return [text.decode("utf-8", "replace") for text in attribute.strings]
            case _:
                raise Refusal(
                    f"the attribute {attribute.name!r} is of a kind that is not supported"
                )

    def attributes(self, node: Proto) -> dict[str, Any]:
        """Return a node's attributes by name."""
        return {attribute.name: self.attribute(attribute) for attribute in node.attribute}

    # -- tensors -----------------------------------------------------------------------------------

    def array(self, tensor: Proto, what: str) -> Array:
        """Return the array that a tensor of the file holds, counted before it is made."""
        name = ELEMENTS.get(tensor.data_type)
        if name is None or name in NOT_OURS:
            shown = name or f"of the unknown dtype {tensor.data_type}"
            raise self.error(f"{what} is {shown}, which is not supported")
        shape = tuple(int(size) for size in tensor.dims)
        if min(shape, default=0) < 0 or len(shape) > MOST_AXES:
            raise self.error(f"{what} has the shape {shape}", DAMAGED)
        count, kind, bits = math.prod(shape), numpy_dtype(name), BITS.get(name)
        needed = -(-count * bits // 8) if bits else count * kind.itemsize
        if tensor.data_location == 1:
            raw = self._external(tensor, what, needed)
        elif tensor.HasField("raw_data"):
            raw = memoryview(tensor.raw_data)
        else:
            return self._spelled(tensor, what, shape, -(-count * bits // 8) if bits else count)
        if len(raw) != needed:
            raise self.error(
                f"{what} has the shape {shape}, for which it needs {needed:,} bytes, and it has "
                f"{len(raw):,}",
                DAMAGED,
            )
        if bits:
            copy = self.library.TensorProto(data_type=tensor.data_type, dims=tensor.dims)
            copy.raw_data = bytes(raw)
            return self.library.numpy_helper.to_array(copy)
        stored = kind.newbyteorder("<") if kind.kind in "iuf" and kind.itemsize > 1 else kind
        array: Array = np.frombuffer(raw, stored)
        return array.astype(kind, copy=False).reshape(shape)

    def _spelled(self, tensor: Proto, what: str, shape: tuple[int, ...], wanted: int) -> Array:
        """Return a tensor whose numbers are fields, and not bytes."""
        fields = "float_data", "int32_data", "int64_data", "double_data", "uint64_data"
        held = max(len(getattr(tensor, name)) for name in fields)
        if held != wanted:
            raise self.error(f"{what} has the shape {shape} and {held:,} numbers", DAMAGED)
        try:
            return self.library.numpy_helper.to_array(tensor)
        except (TypeError, ValueError, OverflowError) as error:
            raise self.error(f"{what} cannot be read: {line_of(error)}", DAMAGED) from error

    def _external(self, tensor: Proto, what: str, needed: int) -> memoryview:
        """Return the bytes of a tensor that another file in the model's folder holds."""
        entries: Mapping[str, str] = {entry.key: entry.value for entry in tensor.external_data}
        location = entries.get("location", "")
        hint = "external data must lie in the model's folder, under the name that it had"
        folder = self.folder.resolve()
        try:
            path = (folder / location).resolve()
            inside = path.is_relative_to(folder) and path != folder
        except (OSError, ValueError, RuntimeError):  # as a name with a NUL in it
            path, inside = folder, False
        if not inside or Path(location).is_absolute():
            raise self.error(f"{what} is in {location!r}, outside the model's folder", hint)
        try:
            offset, length = (
                int(entries.get(key, usual)) for key, usual in (("offset", "0"), ("length", needed))
            )
        except ValueError:
            raise self.error(f"{what} has no valid place in {location!r}", DAMAGED) from None
        if not path.is_file():
            raise self.error(f"{what} is in {location!r}, which is missing", hint)
        size = path.stat().st_size
        if offset < 0 or length != needed or offset + length > size:
            raise self.error(
                f"{what} is at byte {offset:,} of {location!r} and takes {length:,} bytes; it "
                f"needs {needed:,}, and the file has {size:,}",
                "the file is damaged, or belongs to another model",
            )
        if not length:
            return memoryview(b"")
        mapped: Any = np.memmap(path, np.uint8, "r", offset, (length,))
        return memoryview(mapped)

"""GGUF files, version 3, written: keys, then tensors as they are held, one behind the other."""

from __future__ import annotations

import os
import secrets
import struct
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, TypeAlias, TypeGuard, cast

import numpy as np

from luminal_lab.core.dtypes import Array
from luminal_lab.core.op import tuple_text
from luminal_lab.core.origin import here
from luminal_lab.errors import ArgumentError, DTypeError, InputError, ShapeError
from luminal_lab.interrupts import held
from luminal_lab.nn.gguf import ALIGNMENT, ARRAY, BOOL, MAGIC, NUMBERS, PLAIN, STRING
from luminal_lab.tensor.blocks import FORMS, Blocks
from luminal_lab.tensor.parameter import Parameter

Value: TypeAlias = "Array | Blocks"
EVERY: Final = 32
"""The multiple of bytes at which each tensor begins."""
MOST_AXES: Final = 4
"""The most axes that llama.cpp reads."""
BY_DTYPE: Final = {name: number for number, name in PLAIN.items()} | {
    form.dtype.value: form.number for form in FORMS.values() if form.values == 1
}
"""The numbers of dtypes that need no blocks."""
BY_NUMPY: Final = {np.dtype(name): kind for kind, name in NUMBERS.items()}


def save_gguf(path: Path, kind: str, values: Mapping[str, Parameter]) -> None:
    """Write the values of a module into a GGUF file, each as its parameter holds it."""
    keys: dict[str, object] = {"general.architecture": kind}
    if any(p.blocks is not None and p.blocks.form.values > 1 for p in values.values()):
        keys["general.quantization_version"] = 2
    write_gguf(path, {name: p.blocks or p.value for name, p in values.items()}, keys)


def write_gguf(path: Path, values: Mapping[str, Value], keys: Mapping[str, object]) -> None:
    """Write tensors and keys into a GGUF file, which is replaced as a whole.

    >>> import numpy as np
    >>> from luminal_lab.nn.gguf import GGUF
    >>> from luminal_lab.nn.gguf_writing import write_gguf
    >>> write_gguf(folder / "a.gguf", {"w": np.ones((2, 3), "float32")}, {"general.name": "ones"})
    >>> GGUF(folder / "a.gguf").value("w").shape
    (2, 3)
    """
    all_keys = {**keys, ALIGNMENT: EVERY}
    arrays = {name: _raw(name, value) for name, value in values.items()}
    head = [MAGIC, struct.pack("<IQQ", 3, len(arrays), len(all_keys))]
    for name, value in all_keys.items():
        head += [_text(name), *_typed(name, value)]
    offset = 0
    for name, raw in arrays.items():
        value = values[name]
        number = value.form.number if isinstance(value, Blocks) else BY_DTYPE[value.dtype.name]
        sizes = value.shape[::-1]
        head += [_text(name), struct.pack(f"<I{len(sizes)}QIQ", len(sizes), *sizes, number, offset)]
        offset += raw.nbytes + -raw.nbytes % EVERY
    data = b"".join(head)
    target = path
    try:
        target = Path(os.path.realpath(path))  # the target of a link is replaced
        draft = target.with_name(f".{target.name[:100]}.{secrets.token_hex(4)}.tmp")
        with held():
            try:
                with draft.open("wb") as file:
                    file.write(data + bytes(-len(data) % EVERY))
                    for raw in arrays.values():
                        file.write(raw.data)
                        file.write(bytes(-raw.nbytes % EVERY))
                draft.replace(target)
            finally:
                with suppress(OSError):
                    draft.unlink(missing_ok=True)
    except OSError as error:
        reason = "it is a folder" if target.is_dir() else error.strerror or str(error)
        if not target.parent.is_dir():
            reason = f"there is no folder {target.parent}"
        raise InputError(
            f"save: {target} cannot be written: {reason}",
            where=str(here() or "") or None,
            hint="name a file in a folder that exists",
        ) from error


def _raw(name: str, value: Value) -> Array:
    """Return the bytes of a tensor, or raise if GGUF has no such tensors."""
    array = value.raw if isinstance(value, Blocks) else value
    if value.ndim > MOST_AXES:
        raise ShapeError(
            f"save: {name} is {tuple_text(value.shape)}, and tensors in GGUF have {MOST_AXES} axes "
            "at most",
            where=str(here() or "") or None,
            hint='safetensors have no such limit: save("model.safetensors")',
        )
    if not isinstance(value, Blocks) and value.dtype.name not in BY_DTYPE:
        raise DTypeError(
            f"save: {name} is {value.dtype.name}, which GGUF does not have",
            where=str(here() or "") or None,
            hint='safetensors have it: save("model.safetensors")',
        )
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def _text(text: str) -> bytes:
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def _typed(name: str, value: object) -> Iterator[bytes]:
    """Yield the type of a key's value and the value."""
    if isinstance(value, str):
        yield struct.pack("<I", STRING) + _text(value)
    elif isinstance(value, bool):
        yield struct.pack("<I?", BOOL, value)
    elif isinstance(value, int):
        yield (
            struct.pack("<II", 4, value) if 0 <= value < 1 << 32 else struct.pack("<Iq", 11, value)
        )
    elif isinstance(value, float):
        yield struct.pack("<If", 6, value)
    elif _are_texts(value):
        yield struct.pack("<IIQ", ARRAY, STRING, len(value)) + b"".join(map(_text, value))
    else:
        array = _array(value)
        if array.ndim != 1 or array.dtype not in BY_NUMPY:
            raise ArgumentError(
                f"save: the key {name} is a {type(value).__name__}, and GGUF has none",
                where=str(here() or "") or None,
                hint="give a number, a text, or a list of either",
            )
        yield struct.pack("<IIQ", ARRAY, BY_NUMPY[array.dtype], len(array))
        yield array.tobytes()


def _array(value: Any) -> Array:  # noqa: ANN401  # whatever somebody takes for a value
    array: Array = np.asarray(value)
    is_python = array.dtype == np.float64 and not hasattr(value, "dtype")
    return array.astype(np.float32) if is_python else array


def _are_texts(value: object) -> TypeGuard[Sequence[str]]:
    if not isinstance(value, (list, tuple)):
        return False
    entries = cast("Sequence[object]", value)
    return bool(entries) and all(isinstance(entry, str) for entry in entries)

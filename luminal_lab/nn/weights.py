"""Import and export of a module's values: state dicts and safetensors."""

from __future__ import annotations

import math
import os
import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import pairwise
from mmap import mmap
from operator import index
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, cast

import numpy as np
from typing_extensions import TypeIs, override

from luminal_lab.core.binding import as_array
from luminal_lab.core.dtypes import Array, DType
from luminal_lab.core.op import tuple_text
from luminal_lab.core.origin import here
from luminal_lab.errors import ArgumentError, DeviceError, InputError, LabError
from luminal_lab.interrupts import held
from luminal_lab.reading import plain_size, read_json, shown
from luminal_lab.tensor.blocks import Blocks
from luminal_lab.tensor.parameter import Parameter

if TYPE_CHECKING:
    from types import ModuleType

Named: TypeAlias = Sequence[tuple[str, Parameter]]
"""Parameters by all of their paths; a shared parameter has several."""

LARGEST_HEADER = 100_000_000
AGAIN = "fetch it again, or write it with module.save(path)"
"""The most bytes of a header, as in the format."""
FEW_LAYERS = 32
"""The most layers that are made, whatever weights there are for them."""
FILE_DTYPES = {
    "F64": "float64",
    "F32": "float32",
    "F16": "float16",
    "BF16": "bfloat16",
    "I64": "int64",
    "I32": "int32",
    "I16": "int16",
    "I8": "int8",
    "U64": "uint64",
    "U32": "uint32",
    "U16": "uint16",
    "U8": "uint8",
    "BOOL": "bool",
}
"""The dtypes that we share with safetensors, by their names in its format."""
HERE = f"there is {', '.join(FILE_DTYPES.values())}"


class Loaded(NamedTuple):
    """The entries that a load left out: parameters without a value, and values without a parameter.

    >>> Loaded(("head.bias",), ("more", "scale"))
    <Loaded; missing: head.bias; extra: more, scale>
    """

    missing: tuple[str, ...] = ()
    extra: tuple[str, ...] = ()

    @override
    def __repr__(self) -> str:
        parts = [f"; {name}: {', '.join(paths)}" for name, paths in self._asdict().items() if paths]
        return f"<Loaded{''.join(parts) or ' all'}>"


def load_values(
    what: str, paths: Named, state: Mapping[str, object], *, strict: bool, copy: bool = True
) -> Loaded:
    """Give parameters the values of a state dict, or none of them if one does not fit."""
    if not isinstance(state, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]  # a caller may err
        is_module = callable(getattr(state, "state_dict", None))
        raise ArgumentError(
            f"{what}: a {type(state).__name__} is given, and must be a dict of values by path",
            where=str(here() or "") or None,
            hint="give module.state_dict()" if is_module else "load(path) reads a file",
        )
    wanted = dict(paths)
    try:
        values = {
            path: held_as(value, wanted.get(path))
            if isinstance(value, Blocks)
            else _array(f"{what}: {path}", value, wanted.get(path))
            for path, value in state.items()
        }
    except LabError as error:
        error.where = error.where or str(here() or "") or None
        raise
    given = {
        path: (v.shape, "float32" if isinstance(v, Blocks) else str(v.dtype))
        for path, v in values.items()
    }
    chosen, left = matched(what, paths, given, strict=strict)
    for parameter, path in chosen:
        value = values[path]
        parameter.set(value, copy=copy and not is_mapped(value))
    return left


def held_as(blocks: Blocks, parameter: Parameter | None) -> Blocks | Array:
    """Return blocks, or 16-bit floats as an array for a parameter of that dtype.

    >>> import numpy as np
    >>> halves = ll.Blocks("f16", np.ones((1, 2), "float16"), (1, 2))
    >>> held_as(halves, ll.Parameter((1, 2), "float16"))
    array([[1., 1.]], dtype=float16)
    """
    if parameter is None or blocks.form.values > 1:
        return blocks
    return blocks.raw if parameter.dtype is blocks.form.dtype else blocks


def is_mapped(value: object) -> bool:
    """Return whether an array is a read-only view of a mapped file, which nobody can change.

    >>> import numpy as np
    >>> is_mapped(np.ones(3))
    False
    """
    while isinstance(value, np.ndarray) and not value.flags.writeable:
        value = cast("np.ndarray[Any, Any]", value).base
    return isinstance(value.obj if isinstance(value, memoryview) else value, mmap)


def _array(what: str, value: object, parameter: Parameter | None) -> Array:
    """Return a value as an array; plain numbers take the dtype of their parameter."""
    if isinstance(value, Parameter):
        return value.value
    array = as_array(value, what)
    if parameter is None or hasattr(value, "dtype") or hasattr(value, "__array__"):
        return array
    if not parameter.dtype.is_float:
        low, high = parameter.dtype.limits
        is_whole = array.dtype.kind in "biu"
        if not is_whole or not low <= array.min(initial=low) <= array.max(initial=low) <= high:
            return array
    with np.errstate(over="ignore"):  # values that are too large become infinite
        return array.astype(parameter.dtype.numpy)


def matched(
    what: str,
    paths: Named,
    given: Mapping[str, tuple[tuple[int, ...], str]],
    *,
    strict: bool,
) -> tuple[list[tuple[Parameter, str]], Loaded]:
    """Return each parameter with the path of its value, given shapes and dtypes by path.

    All misfits are reported at once. Missing and extra entries are reported if
    strict, and returned if not.
    """
    chosen: dict[Parameter, str] = {}
    first: dict[Parameter, str] = {}
    for path, parameter in paths:
        first.setdefault(parameter, path)
        if path in given:
            chosen.setdefault(parameter, path)
    wanted = dict(paths)
    left = Loaded(
        tuple(path for parameter, path in first.items() if parameter not in chosen),
        tuple(path for path in given if path not in wanted),
    )
    faults: list[str] = []
    if strict:
        faults += [f"missing: {path} {_form(wanted[path])}" for path in left.missing]
        faults += [
            f"extra: {path} {tuple_text(shape)} {dtype}"
            for path in left.extra
            for shape, dtype in [given[path]]
        ]
    for path, parameter in paths:
        if path in given and given[path] != (parameter.shape, str(parameter.dtype)):
            shape, dtype = given[path]
            faults.append(f"{path}: is {tuple_text(shape)} {dtype}, and must be {_form(parameter)}")
    if not faults:
        return list(chosen.items()), left
    shown = faults[:20] + [f"and {len(faults) - 20} more"] * (len(faults) > 20)
    count = f"{len(faults)} entries do" if len(faults) > 1 else "1 entry does"
    raise InputError(
        f"{what}: {count} not fit, and nothing was loaded\n  " + "\n  ".join(shown),
        where=str(here() or "") or None,
        hint=_advice(faults),
    )


def check_layers(what: str, layers: int, names: Iterable[str]) -> None:
    """Raise if there are more layers than numbers in names, before they are made.

    Where the layers are few, each weight that is missing is named, which says more.

    >>> check_layers("load", 1_000, ["layers.0.weight", "layers.1.weight"])
    Traceback (most recent call last):
    ...
    luminal_lab.errors.InputError: load: the model has 1,000 layers, and its weights have 2
    hint: the configuration and the weights are of two models; fetch both again
    """
    if layers <= FEW_LAYERS:
        return
    numbers = {number for name in names for number in name.split(".") if number.isdecimal()}
    if layers > len(numbers):
        raise InputError(
            f"{what}: the model has {layers:,} layers, and its weights have {len(numbers):,}",
            hint="the configuration and the weights are of two models; fetch both again",
        )


def _form(parameter: Parameter) -> str:
    return f"{tuple_text(parameter.shape)} {parameter.dtype}"


def _advice(faults: Iterable[str]) -> str:
    if all(fault.startswith(("missing: ", "extra: ")) for fault in faults):
        return "check the names; strict=False leaves out what only one side has"
    return "make the module with the sizes of these values, and module.to(dtype) for their dtype"


# -- files -----------------------------------------------------------------------------------------


def save_file(path: str | Path, values: Mapping[str, Parameter]) -> None:
    """Write values into a safetensors file, which is replaced as a whole."""
    package = _package("save")
    path_of("save", path)
    arrays = {
        name: np.require(parameter.value, requirements="C") for name, parameter in values.items()
    }
    # A mapped file, perhaps of these very parameters, must not be written into; the target of a
    # link is replaced, and the link stays.
    target = path_of("save", path)
    try:
        target = Path(os.path.realpath(target))
        draft = target.with_name(f".{target.name[:100]}.{secrets.token_hex(4)}.tmp")
        with held():
            try:
                package.numpy.save_file(arrays, draft, metadata={"format": "pt"})
                draft.replace(target)
            finally:
                with suppress(OSError):
                    draft.unlink(missing_ok=True)
    except Exception as error:
        reason = "it is a folder" if target.is_dir() else str(error)
        if not target.parent.is_dir():
            reason = f"there is no folder {target.parent}"
        raise InputError(
            f"save: {target} cannot be written: {reason}",
            where=str(here() or "") or None,
            hint="name a file in a folder that exists",
        ) from error


def load_file(path: str | Path, paths: Named, *, strict: bool) -> Loaded:
    """Let parameters take their values from a file, each when it is first needed."""
    path = path_of("load", path)
    what, before, file = f"load: {path}", identity(path), open_file(path)
    given: dict[str, tuple[tuple[int, ...], str]] = {}
    for name in file.keys():  # noqa: SIM118  # no mapping, though it has keys
        part = file.get_slice(name)
        kind = str(part.get_dtype())
        given[name] = tuple(part.get_shape()), FILE_DTYPES.get(kind, kind)
    chosen, left = matched(what, paths, given, strict=strict)
    for parameter, name in chosen:
        parameter.set(_reading(file, name, path.absolute(), before))
    return left


def stored_values(path: str | Path) -> dict[str, Parameter]:
    """Return the values of a file as parameters, each of which reads its own when it is needed.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     ll.nn.Linear(2, 3).save(f"{folder}/model.safetensors")
    ...     stored_values(f"{folder}/model.safetensors")["weight"].shape
    (3, 2)
    """
    path = path_of("load", path)
    before, file = identity(path), open_file(path)
    values: dict[str, Parameter] = {}
    for name in file.keys():  # noqa: SIM118  # no mapping, though it has keys
        part = file.get_slice(name)
        kind = str(part.get_dtype())
        if kind not in FILE_DTYPES:
            raise InputError(
                f"load: {path}: {name} is {kind}, a dtype that is not here",
                hint=HERE,
            )
        provider = _reading(file, name, path.absolute(), before)
        shape = tuple(part.get_shape())
        values[name] = Parameter(shape, FILE_DTYPES[kind], provider=provider, name=name)
    return values


def _reading(
    file: Any,  # noqa: ANN401  # an object of safetensors'
    name: str,
    path: Path,
    before: tuple[int, ...] | None,
) -> Callable[[], Array]:
    def read() -> Array:
        unchanged(f"load: {path}", path, before, name)
        array: Array = file.get_tensor(name)
        return array

    return read


def unchanged(what: str, path: Path, before: tuple[int, ...] | None, name: str) -> None:
    """Raise if a mapped file was written into since it was opened.

    A deleted or replaced file is still mapped; a file that was written into has other contents now,
    and a read beyond a new end would kill the process.
    """
    now = identity(path)
    if before and now and now[:2] == before[:2] and now != before:
        raise InputError(
            f"{what} was changed after it was loaded, and {name} was not read from it "
            f"yet: it had {before[2]:,} bytes, and now has {now[2]:,}",
            where=str(here() or "") or None,
            hint="load it again; save(path) replaces a file without changing it",
        )


def identity(path: Path) -> tuple[int, ...] | None:
    """Return the identity, size and write time of a file, or None if there is none."""
    try:
        status = path.stat()
    except (OSError, ValueError):
        return None
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def path_of(what: str, path: object) -> Path:
    """Return a user's argument as a path.

    >>> path_of("load", "model.safetensors").name
    'model.safetensors'
    """
    if isinstance(path, (str, os.PathLike)) and "\0" not in str(cast("object", path)):
        return Path(cast("str", path))
    raise ArgumentError(
        f"{what}: {path!r} is not the path of a file",
        where=str(here() or "") or None,
        hint='name one, as in "model.safetensors"',
    )


def open_file(path: str | Path) -> Any:  # noqa: ANN401  # an object of safetensors'
    """Return a safetensors file, mapped into memory, or raise if something is wrong with it."""
    package = _package("load")
    try:
        plain_size(Path(path))
        return package.safe_open(Path(path), "np")
    except Exception as error:
        raise _damage(Path(path), error) from error


def _package(what: str) -> ModuleType:
    try:
        import safetensors
        import safetensors.numpy  # pyright: ignore[reportUnusedImport]  # it is reached by the package
    except ImportError:
        raise DeviceError(
            f"{what}: the package safetensors, which reads and writes files of weights, is not "
            "installed",
            where=str(here() or "") or None,
            hint='pip install "luminal-lab[io]"; state_dict() and load_state_dict(…) need no '
            "package",
        ) from None
    return safetensors


def _damage(path: Path, error: Exception) -> LabError:
    """Return the message and the hint for a file that could not be read."""
    where = str(here() or "") or None
    if isinstance(error, FileNotFoundError):
        hint = "the current folder is gone"
        with suppress(FileNotFoundError):
            hint = f"the current folder is {Path.cwd()}"
        return InputError(f"load: there is no {path}", where=where, hint=hint)
    if path.is_dir():
        hint = "name the file, as in folder / 'model.safetensors'"
        return InputError(f"load: {path} is a folder", where=where, hint=hint)
    if isinstance(error, OSError):
        hint = "name a file of safetensors that can be read"
        return InputError(f"load: {path}: {error.strerror or error}", where=where, hint=hint)
    if (fault := _fault(path)) is None and (wrong := _wrong_value(path)) is not None:
        return InputError(f"load: {path}: {wrong[0]}", where=where, hint=wrong[1])
    return InputError(
        f"load: {path} is not a complete safetensors file: {fault or error}",
        where=where,
        hint=AGAIN,
    )


def _wrong_value(path: Path) -> tuple[str, str] | None:
    """Return what cannot be of a value that a whole file has, and what to do about it."""
    with path.open("rb") as file:
        header = cast(
            "dict[str, Any]", read_json(file.read(int.from_bytes(file.read(8), "little")))
        )
    about: object = header.pop("__metadata__", {})
    texts = [*cast("dict[str, object]", about).values()] if isinstance(about, dict) else [None]
    if not all(isinstance(text, str) for text in texts):
        return f"its __metadata__ is {shown(cast('object', about))}, and not texts by name", AGAIN
    for name, part in header.items():
        given = cast("dict[str, object]", part) if isinstance(part, dict) else {}
        if not _are_sizes(offsets := given.get("data_offsets")) or len(offsets) != 2:
            told = f"{shown(name)} has the data_offsets {shown(offsets)}"
            return f"{told}, and no begin and end of its bytes", AGAIN
    at = 0
    for name, part in sorted(header.items(), key=lambda entry: entry[1]["data_offsets"]):
        begin, end = cast("list[int]", part["data_offsets"])
        kind, shape = part.get("dtype"), part.get("shape")
        if not _are_sizes(shape):
            return f"{shown(name)} has the shape {shown(shape)}, and none of sizes", AGAIN
        if not isinstance(kind, str) or kind not in FILE_DTYPES:
            return f"{shown(name)} is {shown(kind)}, a dtype that is not here", HERE
        if end - begin != (size := math.prod(shape) * DType(FILE_DTYPES[kind]).itemsize):
            held = f"{shown(name)} is {FILE_DTYPES[kind]} {shown(tuple(shape))}"
            return f"{held} and takes {size:,} bytes; the file has {end - begin:,} for it", AGAIN
        if begin != at:
            return f"{shown(name)} begins at byte {begin:,} of the values, and not at {at:,}", AGAIN
        at = end
    return None


def _are_sizes(value: object) -> TypeIs[list[int]]:
    given = cast("list[object]", value) if isinstance(value, list) else [None]
    return all(type(size) is int and size >= 0 for size in given)


def _fault(path: Path) -> str | None:
    """Return the violation of the format: 8 bytes of length, a header in JSON, then the data."""
    size = path.stat().st_size
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if size < 8:
            return f"it has {size} bytes, and the length of its header takes 8"
        if length > size - 8:
            return f"its header should have {length:,} bytes, and the file has {size:,}"
        if length > LARGEST_HEADER:
            return f"its header should have {length:,} bytes, and {LARGEST_HEADER:,} are the most"
        try:
            header = cast("dict[str, Any]", read_json(file.read(length)))
            parts = sorted(
                (*map(index, part["data_offsets"][:2]), name)
                for name, part in header.items()
                if "data_offsets" in part
            )
            wanted = 8 + length + max((end for _, end, _ in parts), default=0)
        except (ValueError, TypeError, AttributeError, LookupError):
            return f"its header of {length:,} bytes does not say what it holds"
    if wanted != size:
        return f"it should have {wanted:,} bytes, and has {size:,}"
    for (_, end, name), (start, _, other) in pairwise(parts):
        if start < end:
            return f"its values {shown(name)} and {shown(other)} overlap"
    return None

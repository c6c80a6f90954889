"""Weights without a model: a file of safetensors or GGUF, an index of several, or a folder.

folder/config.json                    the architecture's name, if there is one
folder/model.safetensors.index.json   {"weight_map": {"h.0.weight": "model-00001.safetensors"}}
folder/model-00001.safetensors
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Final, cast

from typing_extensions import override

from luminal_lab.core.dtypes import DType
from luminal_lab.errors import InputError
from luminal_lab.importing.detect import INDEX_BYTES, FileKind, supported
from luminal_lab.importing.imported import Part, graph_name, tree
from luminal_lab.nn.gguf import GGUF
from luminal_lab.nn.weights import stored_values
from luminal_lab.reading import read_json, read_plain, shown
from luminal_lab.tensor import Tensor
from luminal_lab.tensor.parameter import Parameter
from luminal_lab.tensor.sources import Sources

WHOLE: Final = re.compile("[0-9]{1,18}")
MOST_NAME: Final = 80
"""The most letters of an architecture's name."""


class Weights(Part):
    """Values by their names, in the tree that the names tell; a model's forward is not among them.

    Each value is read from its file when it is first needed.
    """

    @override
    def _heading(self) -> str:
        return f"Weights({self.kind})"

    def write(self, graph: Sources) -> list[Tensor]:
        """Add each value to a graph as an input, in the scope of its name.

        >>> from tempfile import TemporaryDirectory
        >>> from luminal_lab.importing.weights import read_weights
        >>> with TemporaryDirectory() as folder:
        ...     ll.nn.Linear(2, 3).save(f"{folder}/model.safetensors")
        ...     weights = read_weights(f"{folder}/model.safetensors")
        ...     [tensor.shape for tensor in weights.write(cx)]
        [(3,), (3, 2)]
        """
        tensors: list[Tensor] = []
        for name, parameter in self._paths():
            scope, _, _ = name.rpartition(".")
            with graph.scope(graph_name(scope)) if scope else nullcontext():
                tensors.append(graph.parameter(parameter))
        return tensors


def read_weights(path: str | Path, subject: str = "open") -> Weights:
    """Return the values of a file, of all files of an index, or of a folder.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     ll.nn.Linear(2, 3).save(f"{folder}/model.safetensors")
    ...     print(read_weights(folder))
    Weights()  9 parameters
      bias (3,) float32
      weight (3, 2) float32
    """
    path = Path(path)
    kind = supported(path, subject)
    if kind is FileKind.FOLDER:
        return _of_folder(path, subject)
    if kind is FileKind.INDEX:
        return _weights(_of_index(path, subject))
    if kind is FileKind.GGUF:
        return _of_gguf(path, subject)
    if kind is not FileKind.SAFETENSORS:
        raise InputError(
            f"{subject}: {path} is {kind.value}, which is more than weights",
            hint="ll.open, ll.from_onnx and ll.from_torch open it",
        )
    return _weights(stored_values(path))


def _weights(values: Mapping[str, Parameter], kind: str = "") -> Weights:
    for name, parameter in values.items():
        parameter.name = graph_name(name)
    # In a file they are in alphabetical order, "h.10" before "h.2".
    return Weights(tree({name: values[name] for name in sorted(values, key=_numbered)}), kind)


def _numbered(name: str) -> list[tuple[int, str]]:
    parts = name.split(".")
    return [(int(part), "") if WHOLE.fullmatch(part) else (-1, part) for part in parts]


def _of_gguf(path: Path, subject: str) -> Weights:
    """Return the tensors of a GGUF file, those in few bits as blocks."""
    file = GGUF(path, subject)
    values: dict[str, Parameter] = {}
    for name, tensor in file.tensors.items():
        dtype = tensor.form if tensor.blocks is None else DType.float32
        values[name] = Parameter(tensor.shape, dtype, name=name)
        values[name].set(file.value(name), copy=False)
    return _weights(values, shown(file.keys.get("general.architecture", ""), MOST_NAME).strip("'"))


def _of_folder(folder: Path, subject: str) -> Weights:
    """Return the values of a folder's index, or of its files, with the name of its architecture."""
    indices = sorted(folder.glob("*.safetensors.index.json"))
    values: dict[str, Parameter] = {}
    if indices:
        values = _of_index(indices[0], subject)
    else:
        for file in sorted(folder.glob("*.safetensors")):
            values |= stored_values(file)
    kind = ""
    with suppress(OSError, ValueError):
        config = read_json(read_plain(folder / "config.json", INDEX_BYTES))
        names = cast("dict[str, object]", config).get("architectures") if _is_dict(config) else None
        if isinstance(names, list) and names:
            kind = str(cast("list[object]", names)[0])[:MOST_NAME]
    return _weights(values, kind)


def files_of_index(path: Path, subject: str) -> dict[str, list[str]]:
    """Return the files that an index names, which lie beside it, with the names of values in each.

    >>> from luminal_lab.importing.weights import files_of_index
    >>> _ = (folder / "index.json").write_text('{"weight_map": {"h.w": "1.safetensors"}}')
    >>> files_of_index(folder / "index.json", "open")
    {'1.safetensors': ['h.w']}
    """
    try:
        index = read_json(read_plain(path, INDEX_BYTES))
    except (OSError, ValueError) as error:
        raise InputError(
            f"{subject}: {path} cannot be read: {error}", hint="fetch it again"
        ) from error
    entries = cast("dict[str, object]", index).get("weight_map") if _is_dict(index) else None
    if not _is_dict(entries):
        raise InputError(
            f"{subject}: {path} is no index of weights", hint='it has an entry "weight_map"'
        )
    if not entries:
        raise InputError(f"{subject}: {path} names no values", hint="fetch it again")
    names: dict[str, list[str]] = {}
    for name, file in cast("dict[str, object]", entries).items():
        # A file may name others, but none outside its folder.
        if not isinstance(file, str) or not file or Path(file).name != file or "\\" in file:
            raise InputError(
                f"{subject}: {path}: {shown(name)} is in {shown(file)}, which is no file beside it",
                hint="files of one model lie in one folder",
            )
        names.setdefault(file, []).append(name)
    return names


def _of_index(path: Path, subject: str) -> dict[str, Parameter]:
    """Return the values that an index names, from files that lie beside it."""
    values: dict[str, Parameter] = {}
    for file, wanted in files_of_index(path, subject).items():
        there = stored_values(path.parent / file)
        missing = [name for name in wanted if name not in there]
        if missing:
            raise InputError(
                f"{subject}: {path.parent / file} has no {missing[0]}, which {path.name} says is "
                "there",
                hint="fetch both again",
            )
        values |= {name: there[name] for name in wanted}
    return values


def _is_dict(value: object) -> bool:
    return isinstance(value, dict)

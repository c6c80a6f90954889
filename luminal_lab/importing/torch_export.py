"""A PyTorch module as one of ours: torch.export writes it down, and each op becomes a step.

    model = ll.from_torch(module, (ids,), dynamic={"ids": ("batch", "seq")})
    y = model(cx.tensor(("batch", "seq"), "int64"))

Only the files `torch_…` deal with torch's objects, and only this one imports torch, which whoever
calls `from_torch` has. Ops that the table of `aten` can
write stay whole (attention, linear, norms); torch takes the others apart. The result is tried once
before it is returned, so that whatever cannot be written is refused here, with the author's line.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any, cast

import numpy as np

from luminal_lab.core.dims import Symbol
from luminal_lab.errors import ArgumentError, DeviceError, InputError, ModelError
from luminal_lab.importing.detect import FileKind, supported
from luminal_lab.importing.imported import Imported
from luminal_lab.importing.torch_program import as_module
from luminal_lab.importing.torch_sizes import Torch, axes_of
from luminal_lab.importing.torch_steps import OF_TORCH, origin_of
from luminal_lab.tensor.arguments import told
from luminal_lab.trust import admit_exported, asked


@told
def from_torch(
    module: object,
    inputs: object = None,
    dynamic: Mapping[str, Any] | None = None,
    *,
    trust: bool = False,
) -> Imported:
    """Return a PyTorch module, an ExportedProgram or a `.pt2` file as a module of ours.

    `inputs` are examples: a tensor, a tuple of them, or a dict by argument names. `dynamic` names
    the axes whose sizes may vary, for each argument, as in `{"ids": ("batch", "seq")}`; a name may
    be a `Symbol` with bounds. PyTorch unpickles a `.pt2` file, and whoever wrote one can make it
    run anything: without `trust=True` it is refused.

    >>> import pytest
    >>> torch = pytest.importorskip("torch")
    >>> layer = torch.nn.Linear(4, 2)
    >>> model = ll.from_torch(layer, torch.zeros(3, 4), dynamic={"input": ("rows", None)})
    >>> model(cx.tensor(("n", 4))).shape, sorted(model.parameters())
    ((n, 2), ['bias', 'weight'])
    """
    torch = _torch()
    asked("from_torch", trust)
    with _quiet():
        if isinstance(module, (str, Path)):
            program, kind, is_live = _loaded(torch, Path(module), trust), "Exported", False
        elif isinstance(module, torch.export.ExportedProgram):
            program, kind, is_live = module, "Exported", False
        elif isinstance(module, torch.nn.Module):
            program, kind, is_live = _exported(torch, module, inputs, dynamic), "", True
        else:
            raise ArgumentError(
                f"from_torch: {module!r} is no PyTorch module",
                hint='give a torch.nn.Module, an ExportedProgram, or a path such as "model.pt2"',
            )
        return as_module(torch, program, kind or type(module).__name__, dynamic, is_live)


def _torch() -> Torch:
    """Return torch, which whoever calls this has."""
    try:
        return import_module("torch")
    except ImportError as error:
        raise DeviceError(
            f"from_torch: PyTorch is not installed: {error}",
            hint="pip install torch",
        ) from None


@contextmanager
def _quiet() -> Generator[None]:
    """Keep torch's warnings about itself from whoever imports a model."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _loaded(torch: Torch, path: Path, trust: bool) -> Torch:
    """Return the program in a file, if it may be unpickled."""
    kind = supported(path, "from_torch")
    if kind is not FileKind.EXPORTED:
        raise InputError(
            f"from_torch: {path} is {kind.value}, and no program of torch.export",
            hint="luminal-lab open takes it; torch.export.save(program, path) writes such programs",
        )
    with path.open("rb") as file:
        data = admit_exported(file, path.name, trust=trust)
    try:
        return torch.export.load(data)
    except Exception as error:
        raise ModelError(
            f"from_torch: PyTorch cannot load {path}: {_first(error)}",
            hint="torch.export.save(program, path) writes such files",
        ) from error


def _first(error: BaseException) -> str:
    """Return the first lines of an error of torch's that say something."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return " ".join(lines[:2])[:500] or type(error).__name__


# -- exporting -------------------------------------------------------------------------------------


def _exported(
    torch: Torch, module: Torch, inputs: object, dynamic: Mapping[str, Any] | None
) -> Torch:
    """Return a module as torch.export writes it down."""
    if inputs is None:
        raise ArgumentError(
            "from_torch: inputs are missing",
            hint="give examples of the module's arguments, as in (torch.zeros(2, 8),)",
        )
    args: tuple[object, ...] = ()
    kwargs: dict[str, object] = {}
    if isinstance(inputs, Mapping):
        kwargs = dict(cast("Mapping[str, object]", inputs))
    else:
        args = tuple(cast("Any", inputs)) if isinstance(inputs, (tuple, list)) else (inputs,)
    args, kwargs = _as_torch(torch, args), _as_torch(torch, kwargs)
    names = _names_of(module, args, kwargs)
    given = dict(zip(names, (*args, *kwargs.values()), strict=True))
    for name in dynamic or {}:
        ArgumentError.unless_known(
            name,
            names,
            f"from_torch: dynamic names the argument {name!r}",
            f"the arguments given are {', '.join(names)}",
        )
    shapes = {
        name: _shapes(torch, f"from_torch: dynamic[{name!r}]", value, (dynamic or {}).get(name))
        for name, value in given.items()
    }
    try:
        with torch.no_grad():
            return torch.export.export(
                module, args, kwargs, dynamic_shapes=shapes if dynamic else None, strict=False
            )
    except Exception as error:
        where = [origin_of(line, False) for line in [_trace_of(error)] if line]
        raise ModelError(
            f"from_torch: torch.export cannot export {type(module).__name__}: {_first(error)}",
            where=str(where[0]) if where and where[0] else None,
            hint="sizes and branches that depend on values cannot be exported; axes that the "
            "module fixes cannot be named in dynamic",
        ) from error


def _trace_of(error: BaseException) -> str:
    """Return the author's frames of an error, as torch writes them."""
    import traceback  # noqa: PLC0415  # only for errors

    frames = traceback.extract_tb(error.__traceback__)
    mine = [
        f for f in frames if not OF_TORCH.search(f.filename) and "luminal_lab" not in f.filename
    ]
    return "\n".join(f'File "{f.filename}", line {f.lineno}, in f\n    {f.line}' for f in mine[-1:])


def _as_torch(torch: Torch, value: Any) -> Any:  # noqa: ANN401  # a structure of tensors
    """Return examples with arrays as torch's tensors."""
    if isinstance(value, np.ndarray):
        return torch.from_numpy(value)
    if isinstance(value, dict):
        entries = cast("dict[object, object]", value)
        return {key: _as_torch(torch, part) for key, part in entries.items()}
    if type(value) in (tuple, list):
        return type(value)([_as_torch(torch, part) for part in value])
    return value


def _names_of(module: Torch, args: Sequence[object], kwargs: Mapping[str, object]) -> list[str]:
    """Return the names of a module's arguments, in order."""
    try:
        bound = inspect.signature(module.forward).bind(*args, **kwargs)
    except TypeError as error:
        raise ArgumentError(
            f"from_torch: {type(module).__name__}.forward cannot be called with inputs: {error}",
            hint="give its arguments as a tuple, or as a dict by name",
        ) from None
    positional = [
        name
        for name, parameter in bound.signature.parameters.items()
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
    ]
    return [*positional[: len(args)], *kwargs]


def _shapes(torch: Torch, what: str, value: Any, names: Any) -> Any:  # noqa: ANN401  # structures
    """Return what torch.export wants to know about the sizes of an argument."""
    if isinstance(value, torch.Tensor):
        rows = dict(axes_of(what, names, value.dim()))
        return {axis: _hint(torch, rows.get(axis)) for axis in range(value.dim())}
    if isinstance(value, (tuple, list)):
        parts = cast("Sequence[Any]", value)
        many = isinstance(names, (tuple, list))
        inner = cast("Sequence[Any]", names if many else [None] * len(parts))
        shapes = [_shapes(torch, what, part, own) for part, own in zip(parts, inner, strict=False)]
        return shapes if isinstance(value, list) else tuple(shapes)
    if isinstance(value, dict):
        entries = cast("dict[str, Any]", value)
        inner_names = cast("dict[str, Any]", names) if isinstance(names, dict) else {}
        return {k: _shapes(torch, what, part, inner_names.get(k)) for k, part in entries.items()}
    return None


def _hint(torch: Torch, name: str | Symbol | None) -> Torch:
    """Return what torch.export is told about one axis."""
    dim = torch.export.Dim
    if name is None:
        return dim.STATIC
    if isinstance(name, str):
        return dim.DYNAMIC
    high = name.high if isinstance(name.high, int) else None
    if name.multiple_of > 1:
        by = name.multiple_of
        return by * dim(f"_{name.name}", max=None if high is None else high // by)
    return dim.DYNAMIC(min=name.low if name.low > 1 else None, max=high)

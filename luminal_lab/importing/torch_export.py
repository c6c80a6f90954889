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
import io
import logging
import re
import sys
import warnings
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr
from importlib import import_module
from pathlib import Path
from typing import Any, Final, cast

import numpy as np

from luminal_lab.core.dims import Symbol
from luminal_lab.errors import PACKAGE, ArgumentError, DeviceError, ModelError, counted
from luminal_lab.importing.detect import FileKind, supported, unless_kind
from luminal_lab.importing.imported import Imported
from luminal_lab.importing.torch_program import as_module
from luminal_lab.importing.torch_sizes import Torch, axes_of
from luminal_lab.importing.torch_steps import OF_TORCH, origin_of
from luminal_lab.reading import shown
from luminal_lab.tensor import Tensor
from luminal_lab.tensor.arguments import told
from luminal_lab.trust import admit_exported, asked

TALKING: Final = ("torch", "torch.export", "torch.fx.experimental.symbolic_shapes")
"""Those of torch's loggers that speak during an export."""
FIXED: Final = re.compile(r"L\['(\w+)'\](\S*)\.size\(\)\[(\d+)\].*?constant \((\d+)\)", re.DOTALL)
"""How torch says that a module fixes an axis."""
BY_VALUES: Final = "GuardOnDataDependentSymNode"
"""torch's error about sizes and branches that depend on values."""


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

    >>> import torch
    >>> layer = torch.nn.Linear(4, 2)
    >>> model = ll.from_torch(layer, torch.zeros(3, 4), dynamic={"input": ("rows", None)})
    >>> model(cx.tensor(("n", 4))).shape, sorted(model.parameters())
    ((n, 2), ['bias', 'weight'])
    """
    torch = _torch()
    asked("from_torch", trust)
    if isinstance(module, torch.nn.Module):
        module = getattr(module, "_orig_mod", module)  # of torch.compile
    elif inputs is not None and isinstance(module, (str, Path, torch.export.ExportedProgram)):
        raise ArgumentError(
            "from_torch: inputs are given, and an exported program was exported with its own",
            hint="leave them out, or give the module itself",
        )
    with _quiet():
        if isinstance(module, (str, Path)):
            program, kind, is_live = _loaded(torch, Path(module), trust), "Exported", False
        elif isinstance(module, torch.export.ExportedProgram):
            program, kind, is_live = module, "Exported", False
        elif isinstance(module, torch.jit.ScriptModule):
            raise ArgumentError(
                "from_torch: a module of TorchScript cannot be exported",
                hint="give the torch.nn.Module that it was made of",
            )
        elif isinstance(module, torch.nn.Module):
            program, kind, is_live = _exported(torch, module, inputs, dynamic), "", True
        else:
            raise _no_module(module)
        return as_module(torch, program, kind or type(module).__name__, dynamic, is_live)


def _no_module(given: object) -> ArgumentError:
    """Return the error about what is no module, with what to give instead."""
    hint = 'give a torch.nn.Module, an ExportedProgram, or a path such as "model.pt2"'
    if isinstance(given, type):
        what = f"the class {given.__name__}"
        hint = f"make a module of it first: {given.__name__}(…)"
    elif isinstance(given, Mapping):
        values = cast("Mapping[object, object]", given)
        what = f"a dict of {counted(len(values), 'value')}"
        hint = "values have no forward: make the module, let it load_state_dict them, and give it"
    elif callable(given):
        what = f"the function {getattr(given, '__name__', type(given).__name__)}"
        hint = "call it in the forward of a torch.nn.Module"
    else:
        what = " ".join(repr(given).split())[:60]
    return ArgumentError(f"from_torch: {what} is no PyTorch module", hint=hint)


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
    """Keep what torch says about itself from whoever imports a model; errors have the reason."""
    loggers = [logging.getLogger(name) for name in TALKING]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


def _loaded(torch: Torch, path: Path, trust: bool) -> Torch:
    """Return the program in a file, if it may be unpickled."""
    supported(path, "from_torch")
    unless_kind(path, FileKind.EXPORTED, "from_torch", ModelError)
    try:
        with path.open("rb") as file:
            data = admit_exported(file, path.name, trust=trust)
    except OSError as error:
        raise ArgumentError(
            f"from_torch: {path} cannot be read: {error.strerror}", hint="name a .pt2 file"
        ) from None
    try:
        return torch.export.load(data)
    except Exception as error:
        raise ModelError(
            f"from_torch: PyTorch cannot load {path}: {_first(error)}",
            hint="torch.export.save(program, path) writes such files",
        ) from None


def _first(error: BaseException) -> str:
    """Return the first lines of an error of torch's that say something."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return " ".join(lines[:2])[:500] or type(error).__name__


# -- exporting -------------------------------------------------------------------------------------


def _exported(
    torch: Torch, module: Torch, inputs: object, dynamic: Mapping[str, Any] | None
) -> Torch:
    """Return a module as torch.export writes it down."""
    if dynamic is not None and not isinstance(dynamic, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]  # a caller may err
        raise ArgumentError(
            f"from_torch: dynamic is {dynamic!r}",
            hint='name axes by argument, as in {"x": ("batch", None)}',
        )
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
    for name, value in given.items():
        if isinstance(value, Tensor):
            raise ArgumentError(
                f"from_torch: {name} is {value.label}, a tensor of ours",
                hint="give an example of PyTorch's or NumPy's; the module that comes back takes "
                "tensors of ours",
            )
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
    said = io.StringIO()
    try:
        with torch.no_grad(), redirect_stderr(said):
            program = torch.export.export(
                module,
                args,
                kwargs,
                dynamic_shapes=_gathered(module, shapes) if dynamic else None,
                strict=False,
            )
    except Exception as error:
        # Before it gives up on a branch, torch prints the half of the program that it has.
        if type(error).__name__ != BY_VALUES:
            sys.stderr.write(said.getvalue())
        where = [origin_of(line, True) for line in [_trace_of(error)] if line]
        why, hint = _reason(error)
        raise ModelError(
            f"from_torch: torch.export cannot export {type(module).__name__}: {why}",
            where=str(where[0]) if where and where[0] else None,
            hint=hint,
        ) from None  # what is torch's is pages long
    sys.stderr.write(said.getvalue())
    return program


def _reason(error: BaseException) -> tuple[str, str]:
    """Return why an export failed, and what to do."""
    if type(error).__name__ == BY_VALUES:
        return (
            "a size or a branch depends on the values of a tensor",
            'torch.where has both branches; torch.compile(module, backend="luminal_lab") runs the '
            "module in parts, as it is",
        )
    fixed = FIXED.search(str(error))
    if fixed is not None:
        name, inside, axis, size = fixed.groups()
        return (
            f"axis {axis} of {name}{inside} cannot vary: the module is made for the size {size}",
            f"leave that axis out of dynamic, as in {{{name!r}: {{0: 'batch'}}}}",
        )
    return _first(error), "does module(*inputs) run in PyTorch? The export runs it in the same way"


def _trace_of(error: BaseException) -> str:
    """Return the author's frames of an error, as torch writes them."""
    import traceback  # noqa: PLC0415  # only for errors

    frames = traceback.extract_tb(error.__traceback__)
    mine = [
        f
        for f in frames
        if not OF_TORCH.search(f.filename) and not f.filename.startswith((PACKAGE, "<string>"))
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
        wanted = inspect.signature(module.forward).parameters
        for name in kwargs:
            ArgumentError.unless_known(
                name,
                wanted,
                f"from_torch: {type(module).__name__}.forward has no argument {name!r}",
                f"its arguments are {', '.join(wanted)}",
            )
        raise ArgumentError(
            f"from_torch: {type(module).__name__}.forward cannot be called with inputs: {error}",
            hint=f"its arguments are {', '.join(wanted)}; give examples of them as a tuple, or as "
            "a dict by name",
        ) from None
    names: list[str] = []
    for name, parameter in bound.signature.parameters.items():
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
            names.append(name)
        elif parameter.kind is parameter.VAR_POSITIONAL:  # as torch.export calls its parts
            names += [f"{name}_{k}" for k in range(len(args) - len(names))]
    return [*names[: len(args)], *kwargs]


def _gathered(module: Torch, shapes: Mapping[str, object]) -> Mapping[str, object]:
    """Return what is said of arguments, with those of a `*args` as a tuple under its name."""
    own = inspect.signature(module.forward).parameters
    many = next((name for name, p in own.items() if p.kind is p.VAR_POSITIONAL), "")
    parts = [name for name in shapes if many and name not in own and name.startswith(f"{many}_")]
    if not parts:
        return shapes
    rest = {name: shape for name, shape in shapes.items() if name not in parts}
    return {**rest, many: tuple(shapes[name] for name in parts)}


def _shapes(torch: Torch, what: str, value: Any, names: Any) -> Any:  # noqa: ANN401  # structures
    """Return what torch.export wants to know about the sizes of an argument."""
    if isinstance(value, torch.Tensor):
        rows = dict(axes_of(what, names, value.dim()))
        return {axis: _hint(torch, rows.get(axis)) for axis in range(value.dim())}
    if isinstance(value, (tuple, list)):
        parts = cast("Sequence[Any]", value)
        many = isinstance(names, (tuple, list))
        inner = cast("Sequence[Any]", names if many else [None] * len(parts))
        if len(inner) != len(parts):
            raise ArgumentError(
                f"{what} is for {counted(len(inner), 'tensor')}, and the argument has {len(parts)}",
                hint="give one entry each, and None where no axis may vary",
            )
        shapes = [_shapes(torch, what, part, own) for part, own in zip(parts, inner, strict=True)]
        return shapes if isinstance(value, list) else tuple(shapes)
    if isinstance(value, dict):
        entries = cast("dict[str, Any]", value)
        inner_names = cast("dict[str, Any]", names) if isinstance(names, dict) else {}
        for key in inner_names:
            ArgumentError.unless_known(
                key,
                entries,
                f"{what} names {key!r}",
                f"the argument has {', '.join(map(str, entries))}",
            )
        return {k: _shapes(torch, what, part, inner_names.get(k)) for k, part in entries.items()}
    if names is not None:
        raise ArgumentError(
            f"{what} is {names!r}, and the argument is {shown(value)}",
            hint="tensors alone have axes: leave it out",
        )
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

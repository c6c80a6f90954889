"""One trial of what was imported: each result is compared with the type that torch has for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from luminal_lab.core.op import TensorType
from luminal_lab.errors import LabError, ModelError
from luminal_lab.importing.imported import Step, named
from luminal_lab.importing.torch_sizes import Sizes, Torch, dtype_of, number_of, size_of
from luminal_lab.importing.torch_steps import Reading
from luminal_lab.nn.arguments import at_user
from luminal_lab.tensor import Tensor
from luminal_lab.tensor.store import Store


def tried(
    torch: Torch,
    program: Torch,
    kind: str,
    parts: Mapping[str, Any],
    sizes: Sizes,
    reading: Reading,
) -> None:
    """Write the model once, and raise if a step cannot be, or has another type than torch's."""
    values = {
        reading.name_of(node): node.meta.get("val")
        for node in program.graph.nodes
        if node.op not in ("placeholder", "output")
    }
    steps = [
        replace(step, write=_checked(torch, step, values.get(step.results[0]), sizes))
        for step in parts["steps"]
    ]
    trial = named(kind, **{**parts, "steps": steps})
    graph = Store("trial", 0)
    try:
        trial(*([graph] if not trial.types else []), **trial.tensors(graph))
    except LabError as error:
        notes: list[str] = getattr(error, "__notes__", [])
        if error.message.startswith("from_torch: ") or not notes:
            raise
        target = notes[0].split()[1].rstrip(",")
        wrong = ModelError(
            f"from_torch: {target} cannot be imported: {error.message}",
            where=error.where,
            hint=error.hint,
        )
        wrong.missing = [target]
        for note in notes:
            wrong.add_note(note)
        raise at_user(wrong) from None


def _checked(torch: Torch, step: Step, value: Any, sizes: Sizes) -> Callable[..., Any]:  # noqa: ANN401  # torch's
    """Return what writes a step and compares the type of its result with torch's."""

    def write(graph: Store, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401  # its result
        result = step.write(graph, *args, **kwargs)
        _compare(torch, step, result, value, sizes)
        return result

    return write


def _compare(torch: Torch, step: Step, result: Any, value: Any, sizes: Sizes) -> None:  # noqa: ANN401  # of any kind
    """Raise if a result has another dtype or shape than torch's has."""
    if isinstance(value, (tuple, list)):
        for own, theirs in zip(result, cast("Sequence[Any]", value), strict=False):
            _compare(torch, step, own, theirs, sizes)
        return
    if not isinstance(value, torch.Tensor) or not isinstance(result, Tensor):
        return
    dtype = dtype_of(value.dtype, step.target)
    shape = [size_of(size, sizes) for size in value.shape]
    own = [number_of(dim, sizes.example) for dim in result.shape]
    differ = any(
        a is not None and b is not None and a != b for a, b in zip(own, shape, strict=False)
    )
    if result.dtype is not dtype or len(own) != len(shape) or differ:
        theirs = TensorType(dtype, tuple(size if size is not None else 0 for size in shape))
        raise ModelError(
            f"from_torch: {step.target} gives {result.type} here, and {theirs} in PyTorch, for the "
            f"sizes {', '.join(f'{name} = {size}' for name, size in sizes.example.items())}",
            hint="this is a fault of the import",
        )

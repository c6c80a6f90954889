"""The nodes of an exported program as steps, and those that nothing can write."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple, cast

from luminal_lab.core.dtypes import DType
from luminal_lab.core.origin import Origin, line_at
from luminal_lab.errors import DTypeError, ModelError
from luminal_lab.importing.imported import Ref, Step, Structure, refs_in
from luminal_lab.importing.torch_sizes import Torch, dtype_of
from luminal_lab.tensor import Tensor
from luminal_lab.tensor.parameter import Parameter
from luminal_lab.tensor.store import Store

DROPPED = {"device", "layout", "pin_memory", "memory_format", "non_blocking"}
"""Arguments that say where values live, which is not the program's business here."""
CHECKS = {
    "aten._assert_scalar.default",
    "aten._assert_async.msg",
    "aten._assert_tensor_metadata.default",
    "aten.sym_constrain_range.default",
    "aten.sym_constrain_range_for_size.default",
}
"""Ops that only check: `Imported` checks sizes, and an index is checked where it is used."""
FRAME = re.compile(r'\s*File "(.+)", line (\d+), in [^\n]*(?:\n {4}(.*))?')
OF_TORCH = re.compile(r"(^|[\\/])torch[\\/]")


class Missing(NamedTuple):
    """An op that there is nothing to write with."""

    target: str
    reason: str
    origin: Origin | None
    scope: str


class Reading:
    """What turns the nodes of a program into steps."""

    def __init__(
        self,
        torch: Torch,
        renamed: Mapping[str, str],
        numbers: Mapping[str, Structure],
        is_live: bool,
        lent: Collection[str] = (),
    ) -> None:
        self.torch = torch
        self.renamed = renamed
        self.numbers = numbers
        self.is_live = is_live
        self.lent = lent
        """The names of values that the program holds, and that are there before its steps."""
        self.kinds: dict[str, str] = {}
        """The classes of the author's modules, by path."""
        self._origins: dict[str, Origin | None] = {}

    def name_of(self, node: Torch) -> str:
        """Return a node's name in the steps."""
        return self.renamed.get(node.name, node.name)

    def steps(
        self, graph: Torch, ops: Mapping[str, Callable[..., Any]]
    ) -> tuple[list[Step], list[Missing]]:
        """Return the nodes of a graph as steps, and those that cannot be."""
        from luminal_lab.importing.aten import REFUSED  # noqa: PLC0415  # a table of hundreds

        steps = [
            Step("constant", _constant, value, (name,)) for name, value in self.numbers.items()
        ]
        missing: list[Missing] = []
        for node in graph.nodes:
            if node.op in ("placeholder", "output") or node.name in self.lent:
                continue
            target = _target_of(node)
            if target in CHECKS:
                continue
            scope, origin = self._scope(node), self._line(node)
            write = ops.get(target)
            reason = REFUSED.get(target) or self._unwritable(node, target)
            if reason is None and write is None:
                reason = "there is nothing to write it with"
            if reason is not None and (node.users or write is None):
                missing.append(Missing(target, reason, origin, scope))
                continue
            assert write is not None
            try:
                args = tuple([self._given(arg) for arg in node.args])
                kwargs = {k: self._given(v) for k, v in node.kwargs.items() if k not in DROPPED}
            except DTypeError as error:
                missing.append(Missing(target, error.message.partition(": ")[2], origin, scope))
                continue
            result = self.name_of(node)
            steps.append(Step(target, write, args, (result,), kwargs, scope, origin))
        return steps, missing

    def _unwritable(self, node: Torch, target: str) -> str | None:
        """Return why this one node cannot be written, though its op can be."""
        if node.op == "get_attr":
            return "it is a part of the program that only some sizes or values reach"
        if target.startswith("aten.as_strided"):
            value = node.args[0].meta.get("val")
            if not value.is_contiguous():
                return "it reads another order of elements than the row-major one"
        return None

    def _given(self, value: Any) -> Structure:  # noqa: ANN401  # an argument of a node
        """Return an argument of a node as plain data."""
        torch = self.torch
        if isinstance(value, torch.fx.Node):
            return Ref(self.name_of(value))
        if isinstance(value, (list, tuple)):
            parts = [self._given(part) for part in cast("Sequence[Any]", value)]
            return parts if isinstance(value, list) else tuple(parts)
        if isinstance(value, slice):
            cut = cast("Any", value)
            return slice(self._given(cut.start), self._given(cut.stop), self._given(cut.step))
        if isinstance(value, dict):
            entries = cast("dict[Any, Any]", value)
            return {key: self._given(part) for key, part in entries.items()}
        if isinstance(value, torch.dtype):
            return dtype_of(value, "its result")
        if isinstance(value, (torch.device, torch.layout, torch.memory_format)):
            return None
        return value

    def _scope(self, node: Torch) -> str:
        """Return the path of the author's module that a node belongs to."""
        stack: Mapping[str, Any] = node.meta.get("nn_module_stack") or {}
        path = ""
        for entry in stack.values():
            path, kind = str(entry[0]), entry[1]
            word = kind if isinstance(kind, str) else getattr(kind, "__name__", "")
            path = re.sub(r"@\d+", "", path)
            if "_empty_nn_module_stack" in path:
                return ""
            self.kinds.setdefault(path, str(word).rpartition(".")[2])
        return path

    def _line(self, node: Torch) -> Origin | None:
        trace = node.meta.get("stack_trace") or ""
        if trace not in self._origins:
            self._origins[trace] = origin_of(trace, self.is_live)
        return self._origins[trace]


def origin_of(trace: str, is_live: bool) -> Origin | None:
    """Return the author's line of a trace: the innermost that is not torch's."""
    frames = [(file, int(line), text or "") for file, line, text in FRAME.findall(trace)]
    frames = [frame for frame in frames if frame[0].startswith(("/", "<")) or ":" in frame[0]]
    own = [frame for frame in frames if not OF_TORCH.search(frame[0])]
    if not frames:
        return None
    file, line, text = (own or frames)[-1]
    # A file that a stranger's program names is not opened.
    return line_at(file, line) if is_live else Origin(file, line, text.strip())


def _constant(graph: Store, value: Any, dtype: DType) -> Tensor:  # noqa: ANN401  # a number
    """Write a number of the program."""
    return graph.constant(value, dtype)


def _target_of(node: Torch) -> str:
    """Return a node's op by name."""
    if node.op == "get_attr":
        return "get_attr"
    target = node.target
    if hasattr(target, "_schema") and hasattr(target, "_overloadname"):
        space, _, name = target._schema.name.partition("::")
        return f"{space}.{name}.{target._overloadname}"
    if hasattr(target, "namespace") and target.namespace == "higher_order":
        return f"higher_order.{target.name()}" if callable(target.name) else "higher_order"
    return f"{target.__module__}.{target.__qualname__}"


def refuse(missing: Sequence[Missing], what: str = "from_torch") -> None:
    """Raise if there are ops that cannot be written."""
    if not missing:
        return
    first = missing[0]
    others = list(dict.fromkeys(item.target for item in missing if item.target != first.target))
    hint = "write this part of the module with other ops"
    if others:
        hint = f"neither can {', '.join(others)}"
    if what == "torch.compile":
        hint += '; options={"fallback": "eager"} leaves this graph to PyTorch'
    error = ModelError(
        f"{what}: {first.target} cannot be imported: {first.reason}"
        + (f" (in {first.scope})" if first.scope else ""),
        where=str(first.origin) if first.origin is not None else None,
        hint=hint,
    )
    error.missing = [first.target, *others]
    raise error


def needed(steps: Sequence[Step], outputs: Structure) -> list[Step]:
    """Return the steps that outputs need."""
    wanted = set(refs_in(outputs))
    kept: list[Step] = []
    for step in reversed(steps):
        if not wanted.isdisjoint(step.results):
            wanted.update(step.refs())
            kept.append(step)
    return kept[::-1]


def matrices(steps: Sequence[Step], parameters: Mapping[str, Parameter]) -> set[str]:
    """Return the matrices among parameters that products and look-ups read."""
    alias = {name: name for name, value in parameters.items() if len(value.shape) == 2}
    found: set[str] = set()
    for step in steps:
        word = step.target.split(".")[1] if step.target.startswith("aten.") else ""
        read = [ref for ref in step.refs() if ref in alias]
        if word in ("t", "permute", "transpose", "numpy_T", "detach", "alias") and read:
            alias[step.results[0]] = alias[read[0]]
        elif word in ("linear", "mm", "addmm", "matmul", "embedding", "baddbmm", "bmm"):
            found.update(alias[ref] for ref in read)
    return found

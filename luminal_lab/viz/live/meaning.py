"""Selections: from the user's text or value to the front end's form, and back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias, cast

from luminal_lab.core.ir import IR, Node
from luminal_lab.core.origin import Origin
from luminal_lab.core.printer import as_text
from luminal_lab.errors import ArgumentError, GraphError, nearest
from luminal_lab.io.facts import BufferFacts, KernelFacts, LaunchFacts
from luminal_lab.kernels.kernel import Kernel
from luminal_lab.kernels.launch import Launch
from luminal_lab.passes.compilation import LINE
from luminal_lab.passes.rule import Rule
from luminal_lab.passes.snapshot import Firing, Snapshot
from luminal_lab.tensor.arguments import told_object
from luminal_lab.viz.entries import entries_of, union_of
from luminal_lab.viz.live.backed import Backed
from luminal_lab.viz.live.trees import keys_in

Selection: TypeAlias = "dict[str, Any]"
"""The front end's form of a selection: its kind, and numbers; empty for none."""
Selected: TypeAlias = "tuple[Node, ...] | Origin | Firing | Rule | Program | SelectedLine | str"
Program: TypeAlias = Kernel | Launch | KernelFacts | LaunchFacts | BufferFacts


@told_object("line")
class SelectedLine(str):
    """A line of a kernel's source, with its number and language."""

    __slots__ = ("dialect", "kernel", "line")

    def __new__(cls, text: str, kernel: str, dialect: str, line: int) -> SelectedLine:
        """Return a line's text with its position."""
        source_line = super().__new__(cls, text)
        source_line.kernel, source_line.dialect, source_line.line = kernel, dialect, line
        return source_line

    _repr_mimebundle_ = as_text


# -- from the user ---------------------------------------------------------------------------------


def chosen(value: object, backed: Backed, origins: Sequence[Origin], stage: int) -> Selection:
    """Return the front end's form of a user's choice."""
    if value is None:
        return {}
    if isinstance(value, str):
        return _of_text(value, backed, origins, stage)
    if isinstance(value, Origin):
        return _of_line(value.file, value.line, origins)
    if isinstance(value, Firing):
        return _of_firing(value, backed)
    if isinstance(value, Rule):
        return {"kind": "rule", "rule": value.name}
    selection = _of_program(value, backed)
    if selection is not None:
        return selection
    # A tensor is iterable too, but iterating writes nodes.
    if isinstance(value, Iterable) and not hasattr(value, "id"):
        return _of_nodes(tuple(cast("Iterable[object]", value)), backed, stage)
    return _of_nodes((value,), backed, stage)


def _of_text(text: str, backed: Backed, origins: Sequence[Origin], stage: int) -> Selection:
    line = None if text.startswith("%") else LINE.match(text)
    if line is not None:
        return _of_line(line.group(1), int(line.group(2)), origins)
    name = text.removeprefix("%")
    for number in _stages(backed, stage):
        ir = backed.snapshots[number].ir
        if name in ir.names:
            return {"kind": "node", "stage": number, "ids": [ir.names[name]]}
        if not text.startswith("%") and name in _scopes(ir):
            return {"kind": "scope", "stage": number, "path": name}
    for number, kernel in enumerate(backed.subject.facts.kernels):
        if kernel.name == text:
            return {"kind": "kernel", "kernel": number}
    if text in backed.subject.facts.rules:
        return {"kind": "rule", "rule": text}
    known = {name for snapshot in backed.snapshots for name in snapshot.ir.names}
    known |= {scope for snapshot in backed.snapshots for scope in _scopes(snapshot.ir)}
    known |= {kernel.name for kernel in backed.subject.facts.kernels}
    raise GraphError(
        f"select: {backed.subject.title} has no node, scope, kernel or rule {text!r}",
        hint=nearest(name, known) or 'give "%12", a scope, or a line as in "cell 3, line 7"',
    )


def _scopes(ir: IR) -> set[str]:
    """Return the scopes of a graph, with the outer ones."""
    scopes: set[str] = set()
    for scope in {node.meta.scope for node in ir.table}:
        while scope and scope not in scopes:
            scopes.add(scope)
            scope = scope.rpartition(".")[0]
    return scopes


def _stages(backed: Backed, stage: int) -> list[int]:
    """Return the numbers of all graphs: the one on show, then the others from the last."""
    rest = reversed(range(len(backed.snapshots)))
    return [stage, *(number for number in rest if number != stage)]


def _of_line(file: str, number: int, origins: Sequence[Origin]) -> Selection:
    mine = [origin for origin in origins if origin.file == file or origin.file.endswith("/" + file)]
    for index, origin in enumerate(origins):
        if origin in mine and origin.line == number:
            return {"kind": "line", "origin": index}
    if mine:
        near = sorted({origin.line for origin in mine}, key=lambda line: abs(line - number))[:5]
        raise GraphError(
            f"select: line {number} of {file!r} made no node",
            hint=f"lines near it that did: {', '.join(map(str, sorted(near)))}",
        )
    known = {origin.file for origin in origins}
    raise GraphError(
        f"select: no node comes from {file!r}",
        hint=nearest(file, known) or f"they come from {', '.join(sorted(known)) or 'nowhere'}",
    )


def _of_firing(value: Firing, backed: Backed) -> Selection:
    for number, snapshot in enumerate(backed.snapshots):
        for index, firing in enumerate(snapshot.firings):
            if firing is value:
                return {"kind": "firing", "stage": number, "firing": index}
    raise GraphError(
        f"select: the firing {value} does not belong to this compile",
        hint='firings are in cx.compilation["PASS"].firings',
    )


def _of_program(value: object, backed: Backed) -> Selection | None:
    """Return the form of a kernel, a launch or a buffer; None for anything else."""
    facts = backed.subject.facts
    if isinstance(value, (Kernel, KernelFacts)):
        for number, kernel in enumerate(facts.kernels):
            if kernel.name == value.name:
                return {"kind": "kernel", "kernel": number}
        names = ", ".join(kernel.name for kernel in facts.kernels)
        raise GraphError(
            f"select: the kernel {value.name} does not belong to this compile",
            hint=f"it has {names or 'none'}",
        )
    if isinstance(value, (Launch, LaunchFacts)):
        for number, launch in enumerate(facts.launches):
            if launch.node == value.node:
                return {"kind": "launch", "launch": number}
        raise GraphError(
            f"select: the launch of %{value.name.removeprefix('%')} does not belong to this "
            "compile",
            hint="cx.launches has those of the last compile",
        )
    if isinstance(value, BufferFacts):
        if value in facts.buffers:
            return {"kind": "buffer", "buffer": facts.buffers.index(value)}
        raise GraphError(f"select: the buffer {value.name} does not belong to this compile")
    return None


def _of_nodes(values: Sequence[object], backed: Backed, stage: int) -> Selection:
    """Return nodes of one graph: the one on show, if it has them all."""
    if not values:
        return {}
    stages = _stages(backed, stage)
    ids_of = [
        {k: id for k in stages if (id := _id_in(value, backed, k)) is not None} for value in values
    ]
    for number in stages:
        if all(number in ids for ids in ids_of):
            return {"kind": "node", "stage": number, "ids": [ids[number] for ids in ids_of]}
    gone = [value for value, ids in zip(values, ids_of, strict=True) if not ids]
    if not gone:
        raise GraphError(
            "select: these nodes are not all in one graph",
            hint="select nodes of one snapshot at a time",
        )
    raise GraphError(
        f"select: no graph of {backed.subject.title} has {_shown(gone[0])}",
        hint="what was removed before the compile, or belongs to another graph, is not shown",
    )


def _id_in(value: object, backed: Backed, stage: int) -> int | None:
    """Return the id of a node in the graph after a stage, if it has it."""
    ir = backed.snapshots[stage].ir
    if isinstance(value, str):
        return ir.names.get(value.removeprefix("%"))
    graph = getattr(value, "graph", None)
    if graph is not None and backed.session is not None and graph is not backed.session:
        raise GraphError(
            f"select: {value} belongs to another graph than {backed.subject.title}",
            hint="select a tensor of the graph that is shown",
        )
    id = value if isinstance(value, int) else getattr(value, "id", None)
    if not isinstance(id, int) or isinstance(id, bool):
        raise ArgumentError(
            f"select: {value!r} is nothing that can be selected",
            hint='give a node or its name, a tensor, a scope, a line as in "cell 3, line 7", a '
            "firing, a kernel, a launch, or None",
        )
    node = ir.table.get(id)
    same = not isinstance(value, Node) or node is None or node.is_version_of(value)
    return id if node is not None and same else None


def _shown(value: object) -> str:
    return f"a node with the id {value}" if isinstance(value, int) else str(value)


# -- from the front end ----------------------------------------------------------------------------


def selected(given: Mapping[str, Any], backed: Backed, origins: Sequence[Origin]) -> Selected:
    """Return the selection as Python values; nothing if it no longer exists."""
    # Python would count a negative index from the end.
    if any(isinstance(number, (int, float)) and number < 0 for number in given.values()):
        return ()
    try:
        return _selected(given, backed, origins)
    except (LookupError, TypeError, ValueError, GraphError):
        return ()


def _selected(given: Mapping[str, Any], backed: Backed, origins: Sequence[Origin]) -> Selected:
    facts, runner = backed.subject.facts, getattr(backed.compilation, "runner", None)
    match given.get("kind"):
        case "node":
            return _nodes(backed.snapshots, given["stage"], given["ids"])
        case "scope":
            return _in_box(backed, given["stage"], given["path"])
        case "line":
            return origins[given["origin"]]
        case "firing":
            return backed.snapshots[given["stage"]].firings[given["firing"]]
        case "rule":
            rules = {} if backed.compilation is None else backed.compilation.rules
            return rules.get(given["rule"], str(given["rule"]))
        case "kernel":
            kernel = facts.kernels[given["kernel"]]
            alive = {kernel_run.name: kernel_run for kernel_run in getattr(runner, "kernels", ())}
            return alive.get(kernel.name, kernel)
        case "launch":
            launch = facts.launches[given["launch"]]
            launches: Iterable[Launch] = getattr(runner, "launches", ())
            return next((launched for launched in launches if launched.node == launch.node), launch)
        case "source":
            kernel = facts.kernels[given["kernel"]]
            source = next(
                source_facts
                for source_facts in kernel.sources
                if source_facts.dialect == given["dialect"]
            )
            text = source.text.splitlines()[given["line"] - 1]
            return SelectedLine(text, kernel.name, source.dialect, given["line"])
        case "buffer":
            return facts.buffers[given["buffer"]]
        case _:
            return ()


def _in_box(backed: Backed, stage: int, path: str) -> tuple[Node, ...]:
    """Return the nodes of a scope; or of a box that is none, as the graph has it."""
    snapshot = backed.snapshots[stage]
    ir = snapshot.ir
    nodes = [n for n in ir if n.meta.scope == path or n.meta.scope.startswith(f"{path}.")]
    if not nodes:
        entries = union_of(snapshot.diff()) if stage else entries_of(ir)
        keys = keys_in(entries, backed.subject.kept, path)
        nodes = [node for node in ir if node.id in keys]
    return tuple(nodes)


def _nodes(snapshots: Sequence[Snapshot], stage: int, ids: Iterable[int]) -> tuple[Node, ...]:
    """Return nodes as they are after a stage, or before it if it has removed them."""
    snapshot = snapshots[stage]
    nodes = [snapshot.ir.table.get(id) or snapshot.before.table.get(id) for id in ids]
    return tuple(node for node in nodes if node is not None)

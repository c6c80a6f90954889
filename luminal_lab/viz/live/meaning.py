"""What stands for a selection: text or a value of the user's, what the front end has, and back."""

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
from luminal_lab.viz.live.backed import Backed

Chosen: TypeAlias = "dict[str, Any]"
"""What the front end has for a selection: its kind, and numbers; empty for none."""
Selected: TypeAlias = "tuple[Node, ...] | Origin | Firing | Rule | Program | SourceLine | str"
Program: TypeAlias = Kernel | Launch | KernelFacts | LaunchFacts | BufferFacts


class SourceLine(str):
    """A line of a kernel's source, with its number and language."""

    __slots__ = ("dialect", "kernel", "line")

    def __new__(cls, text: str, kernel: str, dialect: str, line: int) -> SourceLine:
        """Return a line's text that knows where it stands."""
        made = super().__new__(cls, text)
        made.kernel, made.dialect, made.line = kernel, dialect, line
        return made

    _repr_mimebundle_ = as_text


# -- from the user ---------------------------------------------------------------------------------


def chosen(what: object, backed: Backed, origins: Sequence[Origin], stage: int) -> Chosen:
    """Return what the front end has for something that the user names."""
    if what is None:
        return {}
    if isinstance(what, str):
        return _of_text(what, backed, origins, stage)
    if isinstance(what, Origin):
        return _of_line(what.file, what.line, origins)
    if isinstance(what, Firing):
        return _of_firing(what, backed)
    if isinstance(what, Rule):
        return {"kind": "rule", "rule": what.name}
    found = _of_program(what, backed)
    if found is not None:
        return found
    # A tensor can be walked over, too, which writes nodes.
    if isinstance(what, Iterable) and not hasattr(what, "id"):
        return _of_nodes(tuple(cast("Iterable[object]", what)), backed, stage)
    return _of_nodes((what,), backed, stage)


def _of_text(text: str, backed: Backed, origins: Sequence[Origin], stage: int) -> Chosen:
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
    known = {name for one in backed.snapshots for name in one.ir.names}
    known |= {scope for one in backed.snapshots for scope in _scopes(one.ir)}
    known |= {kernel.name for kernel in backed.subject.facts.kernels}
    raise GraphError(
        f"select: {backed.subject.title} has no node, scope, kernel or rule {text!r}",
        hint=nearest(name, known) or 'give "%12", a scope, or a line as in "cell 3, line 7"',
    )


def _scopes(ir: IR) -> set[str]:
    """Return the scopes of a graph, those around others too."""
    found: set[str] = set()
    for scope in {node.meta.scope for node in ir.table}:
        while scope and scope not in found:
            found.add(scope)
            scope = scope.rpartition(".")[0]
    return found


def _stages(backed: Backed, stage: int) -> list[int]:
    """Return the numbers of all graphs: the one that is looked at, and then from the last on."""
    rest = reversed(range(len(backed.snapshots)))
    return [stage, *(one for one in rest if one != stage)]


def _of_line(file: str, number: int, origins: Sequence[Origin]) -> Chosen:
    mine = [one for one in origins if one.file == file or one.file.endswith("/" + file)]
    for place, one in enumerate(origins):
        if one in mine and one.line == number:
            return {"kind": "line", "origin": place}
    if mine:
        near = sorted({one.line for one in mine}, key=lambda line: abs(line - number))[:5]
        raise GraphError(
            f"select: line {number} of {file!r} made no node",
            hint=f"lines near it that did: {', '.join(map(str, sorted(near)))}",
        )
    known = {one.file for one in origins}
    raise GraphError(
        f"select: no node comes from {file!r}",
        hint=nearest(file, known) or f"they come from {', '.join(sorted(known)) or 'nowhere'}",
    )


def _of_firing(what: Firing, backed: Backed) -> Chosen:
    for number, snapshot in enumerate(backed.snapshots):
        for place, one in enumerate(snapshot.firings):
            if one is what:
                return {"kind": "firing", "stage": number, "firing": place}
    raise GraphError(
        f"select: the firing {what} is none of this compile",
        hint='firings are in cx.compilation["PASS"].firings',
    )


def _of_program(what: object, backed: Backed) -> Chosen | None:
    """Return what stands for a kernel, a launch or a buffer; None if it is none of these."""
    facts = backed.subject.facts
    if isinstance(what, (Kernel, KernelFacts)):
        for number, kernel in enumerate(facts.kernels):
            if kernel.name == what.name:
                return {"kind": "kernel", "kernel": number}
        names = ", ".join(kernel.name for kernel in facts.kernels)
        raise GraphError(
            f"select: the kernel {what.name} is none of this compile",
            hint=f"it has {names or 'none'}",
        )
    if isinstance(what, (Launch, LaunchFacts)):
        for number, launch in enumerate(facts.launches):
            if launch.node == what.node:
                return {"kind": "launch", "launch": number}
        raise GraphError(
            f"select: the launch of %{what.name.removeprefix('%')} is none of this compile",
            hint="cx.launches has those of the last compile",
        )
    if isinstance(what, BufferFacts):
        if what in facts.buffers:
            return {"kind": "buffer", "buffer": facts.buffers.index(what)}
        raise GraphError(f"select: the buffer {what.name} is none of this compile")
    return None


def _of_nodes(whats: Sequence[object], backed: Backed, stage: int) -> Chosen:
    """Return nodes of one graph: the one that is looked at, if it has them all."""
    if not whats:
        return {}
    stages = _stages(backed, stage)
    found = [{k: id for k in stages if (id := _id_in(one, backed, k)) is not None} for one in whats]
    for number in stages:
        if all(number in ids for ids in found):
            return {"kind": "node", "stage": number, "ids": [ids[number] for ids in found]}
    gone = [one for one, ids in zip(whats, found, strict=True) if not ids]
    if not gone:
        raise GraphError(
            "select: these nodes are not all in one graph",
            hint="select nodes of one snapshot at a time",
        )
    raise GraphError(
        f"select: no graph of {backed.subject.title} has {_shown(gone[0])}",
        hint="what was removed before the compile, or belongs to another graph, is not shown",
    )


def _id_in(what: object, backed: Backed, stage: int) -> int | None:
    """Return the id of a node in the graph after a stage, if it is there."""
    ir = backed.snapshots[stage].ir
    if isinstance(what, str):
        return ir.names.get(what.removeprefix("%"))
    graph = getattr(what, "graph", None)
    if graph is not None and backed.session is not None and graph is not backed.session:
        raise GraphError(
            f"select: {what} belongs to another graph than {backed.subject.title}",
            hint="select a tensor of the graph that is shown",
        )
    id = what if isinstance(what, int) else getattr(what, "id", None)
    if not isinstance(id, int) or isinstance(id, bool):
        raise ArgumentError(
            f"select: {what!r} is nothing that can be selected",
            hint='give a node or its name, a tensor, a scope, a line as in "cell 3, line 7", a '
            "firing, a kernel, a launch, or None",
        )
    node = ir.table.get(id)
    same = not isinstance(what, Node) or node is None or node.is_version_of(what)
    return id if node is not None and same else None


def _shown(what: object) -> str:
    return f"a node with the id {what}" if isinstance(what, int) else str(what)


# -- from the front end ----------------------------------------------------------------------------


def selected(given: Mapping[str, Any], backed: Backed, origins: Sequence[Origin]) -> Selected:
    """Return what is selected as values of ours; nothing for what is not there (any more)."""
    # To Python a place before the first is one from the end.
    if any(isinstance(one, (int, float)) and one < 0 for one in given.values()):
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
            path = given["path"]
            return tuple(
                node
                for node in backed.snapshots[given["stage"]].ir
                if node.meta.scope == path or node.meta.scope.startswith(f"{path}.")
            )
        case "line":
            return origins[given["origin"]]
        case "firing":
            return backed.snapshots[given["stage"]].firings[given["firing"]]
        case "rule":
            rules = {} if backed.compilation is None else backed.compilation.rules
            return rules.get(given["rule"], str(given["rule"]))
        case "kernel":
            kernel = facts.kernels[given["kernel"]]
            alive = {one.name: one for one in getattr(runner, "kernels", ())}
            return alive.get(kernel.name, kernel)
        case "launch":
            launch = facts.launches[given["launch"]]
            launches: Iterable[Launch] = getattr(runner, "launches", ())
            return next((one for one in launches if one.node == launch.node), launch)
        case "source":
            kernel = facts.kernels[given["kernel"]]
            source = next(one for one in kernel.sources if one.dialect == given["dialect"])
            text = source.text.splitlines()[given["line"] - 1]
            return SourceLine(text, kernel.name, source.dialect, given["line"])
        case "buffer":
            return facts.buffers[given["buffer"]]
        case _:
            return ()


def _nodes(snapshots: Sequence[Snapshot], stage: int, ids: Iterable[int]) -> tuple[Node, ...]:
    """Return nodes as they are after a stage, or before it if it has removed them."""
    snapshot = snapshots[stage]
    found = [snapshot.ir.table.get(id) or snapshot.before.table.get(id) for id in ids]
    return tuple(node for node in found if node is not None)

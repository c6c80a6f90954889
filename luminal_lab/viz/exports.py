"""A payload in the words of other tools: Graphviz, Mermaid, Model Explorer."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from luminal_lab.errors import DeviceError
from luminal_lab.viz.payload import Box, Item, Link, Payload
from luminal_lab.viz.sizes import below_title, label_of, title_of

if TYPE_CHECKING:
    from graphviz import Digraph

DOT_SHAPES = {
    "input": "parallelogram",
    "parameter": "parallelogram",
    "constant": "oval",
    "source": "hexagon",
    "reduce": "invtrapezium",
    "call": "component",
    "kernel": "octagon",
    "launch": "octagon",
    "host": "note",
    "sent": "cds",
    "class": "oval",
}
MERMAID_SHAPES = {
    "input": ("[/", "/]"),
    "parameter": ("[/", "/]"),
    "constant": ("([", "])"),
    "source": ("{{", "}}"),
    "reduce": ("[\\", "/]"),
    "call": ("[[", "]]"),
    "kernel": ("[[", "]]"),
    "launch": ("[[", "]]"),
    "host": (">", "]"),
    "sent": ("[[", "]]"),
    "class": ("([", "])"),
    "view": ("(", ")"),
}


def to_dot(payload: Payload) -> Digraph:
    """Return a payload for the `graphviz` package."""
    try:
        import graphviz
    except ImportError as error:
        raise DeviceError(
            "to_dot: it needs the package graphviz, which is not installed",
            hint="pip install graphviz; display().to_mermaid() needs nothing",
        ) from error
    graph = graphviz.Digraph(graphviz.escape(payload.name), comment=_one_line(payload.shown))
    graph.attr("node", shape="box", fontname="Helvetica", fontsize="11")
    graph.attr("edge", fontname="Helvetica", fontsize="9")

    def fill(into: Digraph, box: int | None) -> None:
        for item in payload.items:
            if item.box == box:
                style = "dashed" if item.kind in ("view", "outside") else "solid"
                into.node(
                    str(item.id),
                    graphviz.escape(_text(item)).replace("\n", "\\n"),
                    shape=DOT_SHAPES.get(item.kind, "box"),
                    style=style,
                    peripheries="2" if "retrieved" in item.marks else "1",
                    tooltip=graphviz.escape(item.op),
                )
        for scope in payload.boxes:
            if scope.box != box:
                continue
            if scope.is_open:
                inner = graphviz.Digraph(name=f"cluster_{scope.id}")
                inner.attr(label=graphviz.escape(title_of(scope)), labeljust="l")
                fill(inner, scope.id)
                into.subgraph(inner)
            else:
                label = f"{graphviz.escape(title_of(scope))}\\n{below_title(scope)}"
                into.node(str(scope.id), label, style="filled")

    fill(graph, None)
    for link in payload.links:
        style = "dashed" if link.status == "removed" else "solid"
        label = graphviz.escape(label_of(link))
        graph.edge(str(link.source), str(link.target), label=label, style=style)
    return graph


def to_mermaid(payload: Payload) -> str:
    """Return a payload as a Mermaid flowchart.

    >>> from luminal_lab.core.parse import parse
    >>> from luminal_lab.viz.entries import entries_of
    >>> from luminal_lab.viz.folding import payload_of
    >>> graph = parse("graph g(%x: f32[2]) -> (%y) { %y = sin %x : f32[2] }")
    >>> print(to_mermaid(payload_of(entries_of(graph))))
    flowchart TD
      n0[/"x<br>f32[2]"/]
      n1["sin %y<br>f32[2]"]
      n0 --> n1
    """
    lines = ["flowchart TD"]

    def fill(box: int | None, space: str) -> None:
        for item in payload.items:
            if item.box == box:
                left, right = MERMAID_SHAPES.get(item.kind, ("[", "]"))
                lines.append(f'{space}n{item.id}{left}"{_mermaid(_text(item))}"{right}')
        for scope in payload.boxes:
            if scope.box == box and scope.is_open:
                lines.append(f'{space}subgraph n{scope.id}["{_mermaid(title_of(scope))}"]')
                fill(scope.id, f"{space}  ")
                lines.append(f"{space}end")
            elif scope.box == box:
                text = f"{title_of(scope)}\n{below_title(scope)}"
                lines.append(f'{space}n{scope.id}["{_mermaid(text)}"]')

    fill(None, "  ")
    lines += [f"  {_arrow(link)}" for link in payload.links]
    return "\n".join(lines)


def to_model_explorer(payload: Payload) -> dict[str, Any]:
    """Return a payload as a collection of graphs in Model Explorer's JSON."""
    spaces = _namespaces(payload.boxes)
    names = {thing.id: node_id(thing) for thing in (*payload.items, *payload.boxes)}
    incoming: dict[int, list[dict[str, str]]] = {}
    for link in payload.links:
        known = incoming.setdefault(link.target, [])
        known.append(
            {
                "sourceNodeId": names[link.source],
                "sourceNodeOutputId": "0",
                "targetNodeInputId": str(len(known)),
            }
        )
    nodes: list[dict[str, Any]] = [
        {
            "id": names[item.id],
            "label": item.label,
            "namespace": spaces.get(item.box, ""),
            "incomingEdges": incoming.get(item.id, []),
            "attrs": [{"key": key, "value": value} for key, value in _attributes(item) if value],
            "outputsMetadata": [
                {"id": "0", "attrs": [{"key": "tensor_shape", "value": item.type}]}
            ],
        }
        for item in payload.items
    ]
    nodes += [
        {
            "id": names[box.id],
            "label": title_of(box),
            "namespace": spaces.get(box.box, ""),
            "incomingEdges": incoming.get(box.id, []),
            "attrs": [{"key": "nodes", "value": str(box.nodes)}],
        }
        for box in payload.boxes
        if not box.is_open
    ]
    return {"label": payload.name, "graphs": [{"id": payload.name, "nodes": nodes}]}


def node_id(thing: Item | Box) -> str:
    """Return Model Explorer's id of a node or a closed scope: its name, or its path."""
    if isinstance(thing, Box):
        return thing.path
    return f"%{thing.name}" if thing.key >= 0 else f"%{thing.name} before"


def _namespaces(boxes: Iterable[Box]) -> dict[int | None, str]:
    """Return Model Explorer's namespace of each open box: names joined by slashes."""
    namespaces: dict[int | None, str] = {None: ""}
    for box in boxes:
        name = box.name.replace("/", "_")
        namespaces[box.id] = f"{namespaces[box.box]}/{name}" if namespaces[box.box] else name
    return namespaces


def _attributes(item: Item) -> Iterable[tuple[str, str]]:
    yield "op", item.op
    yield "name", f"%{item.name}"
    yield "type", item.type
    yield "kind", item.kind
    yield "marks", ", ".join(item.marks)
    yield "scope", item.scope
    yield "origin", item.origin
    yield "rule", item.rule
    yield "status", item.status


def _text(item: Item) -> str:
    sign = {"added": "+ ", "removed": "− ", "rewired": "~ "}.get(item.status, "")
    is_named = item.kind in ("input", "parameter", "outside")
    name = "" if is_named or item.kind == "constant" else f" %{item.name}"
    return _one_line(f"{sign}{item.label}{name}") + f"\n{_one_line(item.type)}"


def _arrow(link: Link) -> str:
    arrow = "-.->" if link.status == "removed" else "-->"
    label = f'|"{_mermaid(label_of(link))}"|' if link.views else ""
    return f"n{link.source} {arrow}{label} n{link.target}"


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _mermaid(text: str) -> str:
    """Return text that Mermaid shows but never parses: special characters become codes."""
    safe = re.sub(r"[\"#&<>`\\]", lambda match: f"#{ord(match.group())};", text)
    return safe.replace("\n", "<br>")

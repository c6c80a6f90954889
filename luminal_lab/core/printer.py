"""IR to text, in its canonical form.

    text    = graph { graph }                     the first is meant, the others are bodies of calls
    graph   = "graph" name [ "[" dims "]" ] "(" inputs ")" "->" "(" outputs ")" "{" { line } "}"
    dims    = name ":" low ".." [ high ] [ "by" multiple ] , …       only those with bounds
    inputs  = value ":" type [ origin ] , …
    outputs = value [ "=>" value ] , …             "=>": the input that takes it in the next run
    line    = value "=" op [ "{" field "=" literal , … "}" ] [ value , … ] ":" types [ origin ]
    types   = type | "(" type , … ")"
    type    = dtype "[" [ dim , … ] "]"
    literal = number | name | dim | "string" | "[" literal , … "]"
    origin  = "@" [ id ] [ scope ] [ "file" ":" line "text" ] [ "via" "rule" "(" id , … ")" ]
    value   = "%" name;    "#" starts a comment that ends with its line

Each graph starts on a line of its own; an op stands with its fields on one line. A value whose
name is a number has that number as its id; an origin says the id of one that has a name.
"""

import json
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, cast

from luminal_lab.core.dims import Symbol
from luminal_lab.core.dtypes import DType
from luminal_lab.core.op import Op, TensorType, fields_of, mentioned

if TYPE_CHECKING:
    from luminal_lab.core.ir import IR, Node


def print_ir(ir: "IR", *, origins: bool = False) -> str:
    """Return the text of a graph, followed by the bodies of its calls, each once."""
    bodies = name_bodies(ir)
    graphs = [(ir, ir.name), *bodies.items()]
    return "\n\n".join(_graph(graph, name, bodies, origins) for graph, name in graphs)


def as_text(shown: object, **_: object) -> dict[str, str]:
    """Return the text that a notebook shows for an object."""
    return {"text/plain": str(shown)}


def print_node(ir: "IR", node: "Node") -> str:
    """Return a node's line in the text of its graph, with the first line of any longer text."""
    if node.id in ir.input_ids:
        return f"%{node.name}: {node.type}"
    sources = [f"%{id}?" if (n := ir.table.get(id)) is None else str(n) for id in node.sources]
    return line_text(node, op_text(node.op, whole=False), sources, types_text(node))


def name_bodies(ir: "IR") -> "dict[IR, str]":
    """Return all graphs below this one, each once, with names that tell them apart."""
    names: dict[IR, str] = {}
    taken = {ir.name}
    todo = [ir]
    for graph in todo:
        for node in graph.nodes:
            body = node.op.body_of()
            if body is not None and body not in names:
                names[body] = unique(body.name, taken)
                taken.add(names[body])
                todo.append(body)
    return names


def unique(name: str, taken: "Mapping[str, object] | set[str]") -> str:
    """Return `name`, or the first of `name_2`, `name_3`, … that is free.

    >>> unique("h", {"h", "h_2"}), unique("h", {"h", *(f"h_{k}" for k in range(2, 10_000))})
    ('h_3', 'h_10000')
    """
    if name not in taken:
        return name
    most = 2
    while f"{name}_{most}" in taken:
        most *= 2
    numbers = range(most // 2 + 1, most + 1)
    return f"{name}_{numbers[bisect_left(numbers, 1, key=lambda n: f'{name}_{n}' not in taken)]}"


def op_text(op: Op, bodies: "Mapping[IR, str] | None" = None, *, whole: bool = True) -> str:
    """Return an op as text: `sum_reduce{axis = 1}`; without `whole`, texts end with a line."""
    fields = fields_of(type(op)).items()
    texts = [
        f"{name} = {_literal(op, getattr(op, name), hint, bodies or {}, whole)}"
        for name, hint in fields
        if name not in op.in_type
    ]
    return f"{op.name}{{{', '.join(texts)}}}" if texts else op.name


def dim_declaration(symbol: Symbol) -> str:
    """Return a symbol with its bounds, as in the header."""
    return f"{symbol.name}: {bounds_text(symbol)}"


def bounds_text(symbol: Symbol) -> str:
    """Return the bounds of a symbol: `1..64 by 8`."""
    text = f"{symbol.low}..{'' if symbol.high is None else symbol.high}"
    return text if symbol.multiple_of == 1 else f"{text} by {symbol.multiple_of}"


# -- the parts ---------------------------------------------------------------------------------


class _Names(dict[int, str]):
    def __missing__(self, id: int) -> str:
        # A broken graph must still print, so that an error can show it.
        return f"%{id}?"


def _graph(ir: "IR", name: str, bodies: "Mapping[IR, str]", origins: bool) -> str:
    names = _Names({node.id: f"%{node.meta.name or node.id}" for node in ir.table})
    given = set(ir.input_ids)
    ops: dict[Op, str] = {}
    types: dict[TensorType, str] = {}
    inputs: dict[int, str] = {}
    lines: list[str] = []
    for node in ir.nodes:
        for type in node.types if node.extra else (node.type,):
            if type not in types:
                types[type] = str(type)
        shown = types_text(node) if node.extra else types[node.type]
        end = _origin(node) if origins else ""
        if node.id in given:
            inputs[node.id] = f"{names[node.id]}: {shown}{end}"
            continue
        op = ops.get(node.op)
        if op is None:
            op = ops[node.op] = op_text(node.op, bodies)
        lines.append(f"  {line_text(node, op, [names[id] for id in node.sources], shown)}{end}")
    header = f"graph {name}{_dims(mentioned(types, ops).values())}("
    given_texts = [inputs.get(id, names[id]) for id in ir.input_ids]
    outputs = f") -> ({', '.join(_outputs(ir, names))}) {{"
    signature = f"{header}{', '.join(given_texts)}{outputs}"
    if given_texts and (origins or len(signature) > 100):
        signature = "\n".join([header, *(f"  {text}," for text in given_texts), outputs])
    return "\n".join([signature, *lines, "}"])


def _dims(symbols: Iterable[Symbol]) -> str:
    bounded = [s for s in symbols if (s.low, s.high, s.multiple_of) != (1, None, 1)]
    return f"[{', '.join(map(dim_declaration, bounded))}]" if bounded else ""


def _outputs(ir: "IR", names: Mapping[int, str]) -> Iterator[str]:
    carries = list(ir.carries)
    for id in ir.output_ids:
        carry = next((carry for carry in carries if carry[0] == id), None)
        if carry is not None:
            carries.remove(carry)
        yield names[id] if carry is None else f"{names[id]} => {names[carry[1]]}"


def line_text(node: "Node", op: str, sources: list[str], types: str) -> str:
    """Return the line of a node that is not an input, from the texts of its parts."""
    between = " " if sources else ""
    return f"%{node.meta.name or node.id} = {op}{between}{', '.join(sources)} : {types}"


def types_text(node: "Node") -> str:
    """Return the types of all results, as at the end of a line."""
    return f"({', '.join(map(str, node.types))})" if node.extra else str(node.type)


def _origin(node: "Node") -> str:
    meta = node.meta
    parts = [""] if meta.name is None else ["", str(node.id)]
    if meta.scope:
        parts.append(meta.scope)
    if meta.origin is not None:
        file, line, text = meta.origin
        parts.append(f"{_quoted(file)}:{line} {_quoted(text)}")
    if meta.derivation is not None:
        parents = ", ".join(map(str, meta.derivation.parents))
        parts.append(f"via {_quoted(meta.derivation.rule)}({parents})")
    return f" @{' '.join(parts)}" if len(parts) > 1 else ""


def _literal(op: Op, value: object, hint: object, bodies: "Mapping[IR, str]", whole: bool) -> str:
    body = op.body_of()
    if body is not None and value is body:
        return bodies.get(body, body.name)
    if isinstance(value, DType):
        return value.short
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) or hint is float:
        return repr(float(value))  # pyright: ignore[reportArgumentType]  # the hint says so
    if isinstance(value, tuple):
        return f"[{', '.join(map(str, cast(tuple[object, ...], value)))}]"
    if hint is not str:
        return str(value)
    first, *others = str(value).split("\n")
    return _quoted(f"{first} […]" if others and not whole else str(value))


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=not text.isprintable())

"""IR to text, in the one canonical form.

    text    = graph { graph }                      the first is meant, the others are bodies of calls
    graph   = "graph" name [ "[" dims "]" ] "(" inputs ")" "->" "(" outputs ")" "{" { line } "}"
    dims    = name ":" low ".." [ high ] [ "by" multiple ] , …       only those with bounds
    inputs  = value ":" type [ origin ] , …
    outputs = value [ "=>" value ] , …             "=>": the input that takes it in the next run
    line    = value "=" op [ "{" field "=" literal , … "}" ] [ value , … ] ":" types [ origin ]
    types   = type | "(" type , … ")"
    type    = dtype "[" [ dim , … ] "]"
    literal = number | name | dim | "string" | "[" literal , … "]"
    origin  = "@" [ scope ] [ "file" ":" line "text" ] [ "via" "rule" "(" id , … ")" ]
    value   = "%" name;    "#" starts a comment that ends with its line
"""

import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal, get_origin

from luminal_lab.core.dims import Dim, Shape, Symbol
from luminal_lab.core.dtypes import DType
from luminal_lab.core.op import Op, Scalar, TensorType, fields_of
from luminal_lab.errors import DefinitionError

if TYPE_CHECKING:
    from luminal_lab.core.ir import IR, Meta, Node


def print_ir(ir: "IR", *, origins: bool = False) -> str:
    """Return the text of a graph and, behind it, of the bodies of its calls, each once."""
    bodies = name_bodies(ir)
    return "\n".join(_graph(body, name, bodies, origins) for body, name in bodies.items())


def print_node(ir: "IR", node: "Node") -> str:
    """Return one node's line, as it stands in the text of its graph."""
    if node.id in ir.input_ids:
        return f"%{node.name}: {node.type}"
    return _line(ir, node, op_text(node.op), {}, False)


def name_bodies(ir: "IR") -> "dict[IR, str]":
    """Return the graph and all bodies below it, each once, with names that tell them apart."""
    names: dict[IR, str] = {ir: ir.name}
    taken = {ir.name}
    todo = [ir]
    while todo:
        for node in todo.pop(0):
            body = node.op.body_of()
            if body is not None and body not in names:
                names[body] = unique(body.name, taken)
                taken.add(names[body])
                todo.append(body)
    return names


def unique(name: str, taken: "Mapping[str, object] | set[str]") -> str:
    """Return `name`, or it with the first number behind it that makes it new."""
    number, candidate = 1, name
    while candidate in taken:
        number += 1
        candidate = f"{name}_{number}"
    return candidate


def op_text(op: Op, bodies: "Mapping[IR, str] | None" = None) -> str:
    """Return an op as it stands in a line: `sum_reduce{axis = 1}`."""
    texts = [
        f"{name} = {_value(op, name, hint, bodies)}"
        for name, hint in fields_of(type(op)).items()
        if name not in op.in_type
    ]
    if not texts:
        return op.name
    return f"{op.name}{{{', '.join(texts)}}}"


def dim_declaration(symbol: Symbol) -> str:
    """Return the bounds of a symbol as the header shows them."""
    text = f"{symbol.name}: {symbol.low}..{'' if symbol.high is None else symbol.high}"
    return text if symbol.multiple_of == 1 else f"{text} by {symbol.multiple_of}"


# -- the parts ---------------------------------------------------------------------------------


def _graph(ir: "IR", name: str, bodies: "Mapping[IR, str]", origins: bool) -> str:
    def value(id: int) -> str:
        return f"%{ir[id].name}"

    dims = [
        dim_declaration(s)
        for s in ir.symbols.values()
        if (s.low, s.high, s.multiple_of) != (1, None, 1)
    ]
    inputs = [
        f"{value(n.id)}: {n.type}{_origin(n.meta) if origins else ''}" for n in ir.inputs
    ]
    carried = dict(ir.carries)
    outputs = [
        f"{value(id)} => {value(carried[id])}" if id in carried else value(id)
        for id in ir.output_ids
    ]
    header = f"graph {name}" + (f"[{', '.join(dims)}]" if dims else "")
    signature = f"{header}({', '.join(inputs)}) -> ({', '.join(outputs)}) {{"
    if origins or len(signature) > 100:
        rows = "".join(f"  {row},\n" for row in inputs)
        signature = f"{header}(\n{rows}) -> ({', '.join(outputs)}) {{" if inputs else signature
    texts: dict[Op, str] = {}
    types: dict[TensorType, str] = {}
    given = set(ir.input_ids)
    lines = [signature]
    for node in ir.nodes:
        if node.id in given:
            continue
        op = texts.get(node.op)
        if op is None:
            op = texts[node.op] = op_text(node.op, bodies)
        lines.append("  " + _line(ir, node, op, types, origins))
    lines.append("}\n")
    return "\n".join(lines)


def _line(ir: "IR", node: "Node", op: str, types: dict[TensorType, str], origins: bool) -> str:
    get = ir.table.get
    names: list[str] = []
    for id in node.sources:
        source = get(id)
        # A broken graph must still print, so that its fault can be shown.
        names.append(f"%{id}?" if source is None else "%" + (source.meta.name or str(id)))
    type = types.get(node.type)
    if type is None:
        type = types[node.type] = str(node.type)
    if node.extra:
        type = f"({', '.join(map(str, node.types))})"
    sources = f" {', '.join(names)}" if names else ""
    line = f"%{node.meta.name or node.id} = {op}{sources} : {type}"
    return line + _origin(node.meta) if origins else line


def _origin(meta: "Meta") -> str:
    parts: list[str] = []
    if meta.scope:
        parts.append(meta.scope)
    if meta.origin is not None:
        file, text = (json.dumps(part) for part in (meta.origin.file, meta.origin.text))
        parts.append(f"{file}:{meta.origin.line} {text}")
    if meta.made is not None:
        parents = ", ".join(map(str, meta.made.parents))
        parts.append(f"via {json.dumps(meta.made.rule)}({parents})")
    return f" @ {' '.join(parts)}" if parts else ""


def _value(op: Op, field: str, hint: object, bodies: "Mapping[IR, str] | None") -> str:
    value = getattr(op, field)
    body = op.body_of()
    if body is not None and value is body:
        return (bodies or {}).get(body, body.name)
    printer = PRINTERS.get(hint)
    if printer is None:
        if get_origin(hint) is not Literal:
            raise DefinitionError(
                f"op {op.name!r}: the text form has no spelling for the type of field "
                f"{field!r}: {hint}",
                hint="use int, float, bool, str, Literal names, DType, Dim, Shape, "
                "tuple[int, ...] or IR",
            )
        return str(value)
    return printer(value)


def _list(value: tuple[Dim, ...]) -> str:
    return f"[{', '.join(map(str, value))}]"


def _scalar(value: Scalar) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return repr(value) if isinstance(value, float) else str(value)


PRINTERS: dict[object, Callable[[Any], str]] = {
    int: str,
    float: repr,
    bool: _scalar,
    str: json.dumps,
    DType: lambda dtype: dtype.short,
    Dim: str,
    Shape: _list,
    tuple[int, ...]: _list,
    Scalar: _scalar,
}

"""The laws of the IR: what every graph must satisfy, and which node does not."""

from typing import NoReturn

from luminal_lab.core.ir import IR, Node
from luminal_lab.core.op import TensorType
from luminal_lab.core.ops import Call, Input, Pick
from luminal_lab.core.printer import print_node
from luminal_lab.errors import LabError, VerifyError


def verify(ir: IR) -> None:
    """Raise a VerifyError that names the first law broken, and the node, or return nothing.

    1. A node's sources are in the graph, and come before it: there is no cycle.
    2. A node's type is what its op makes of its sources' types.
    3. Names are unique; a record's id is its place.
    4. The signature lists each `Input` once and nothing else.
    5. Outputs are in the graph; a carried one has the type of the input that takes it.
    6. Of a node with several results only a `Pick` reads.
    7. Bodies of calls satisfy all of this.
    """
    _verify(ir, set())


def _verify(ir: IR, done: set[int]) -> None:
    get = ir.table.get
    inferred: dict[tuple[object, ...], tuple[TensorType, ...]] = {}
    names: dict[str, Node] = {}
    placed: set[int] = set()
    inputs = 0
    for node in ir.nodes:
        types: list[TensorType] = []
        several = False
        for id in node.sources:
            source = get(id)
            if source is None:
                _fail(ir, node, f"its source {id} is not in the graph")
            if id not in placed:
                _fail(ir, node, f"it depends on itself by way of {source}")
            types.append(source.type)
            several = several or bool(source.extra)
        placed.add(node.id)
        op = node.op
        if several or isinstance(op, (Call, Pick)):
            if several and not isinstance(op, Pick):
                _fail(ir, node, "it reads a node with several results without a pick")
            if isinstance(op, Call) and id_of(op.body) not in done:
                done.add(id_of(op.body))
                _verify(op.body, done)
            wanted = _infer(ir, node)
        else:
            key = (op, *types)
            found = inferred.get(key)
            wanted = found or inferred.setdefault(key, _infer(ir, node))
        if wanted[0] != node.type or wanted[1:] != node.extra:
            shown = ", ".join(map(str, wanted))
            _fail(ir, node, f"its type is {_types(node)}, but its op makes {shown}")
        name = node.name
        if name in names:
            _fail(ir, node, f"%{name} is the name of another node too")
        names[name] = node
        if get(node.id) is not node:
            _fail(ir, node, f"its id is {node.id}, which is not its place")
        inputs += isinstance(op, Input)
    _verify_signature(ir, inputs)


def _verify_signature(ir: IR, inputs: int) -> None:
    for id in ir.input_ids:
        node = ir.table.get(id)
        if node is None:
            _fail(ir, None, f"the signature lists {id}, which is not in the graph")
        if not isinstance(node.op, Input):
            _fail(ir, node, "the signature lists it, but it is not an input")
    if len(set(ir.input_ids)) != len(ir.input_ids):
        _fail(ir, None, "the signature lists an input twice")
    if len(ir.input_ids) != inputs:
        missing = [n for n in ir.nodes if isinstance(n.op, Input) and n.id not in ir.input_ids]
        _fail(ir, missing[0], "it is an input that the signature does not list")
    for id in ir.output_ids:
        node = ir.table.get(id)
        if node is None:
            _fail(ir, None, f"output {id} is not in the graph")
        if node.extra:
            _fail(ir, node, "it has several results and cannot be an output without a pick")
    for new, old in ir.carries:
        if new not in ir.output_ids or old not in ir.input_ids:
            _fail(ir, None, f"{new} is carried to {old}, but they are not an output and an input")
        if ir[new].type != ir[old].type:
            _fail(
                ir,
                ir[new],
                f"it is carried to {ir[old]}, whose type is {ir[old].type} and not {ir[new].type}",
            )


def id_of(ir: IR) -> int:
    """Return what tells one IR object from another; the caller keeps it alive."""
    return id(ir)


def _infer(ir: IR, node: Node) -> tuple[TensorType, ...]:
    try:
        return node.op.types(ir.sources(node))
    except LabError as error:
        _fail(ir, node, error.message, error)
    except (TypeError, ValueError) as error:
        _fail(ir, node, f"{node.op.name} does not take {len(node.sources)} sources", error)


def _types(node: Node) -> str:
    return ", ".join(map(str, node.types))


def _fail(ir: IR, node: Node | None, message: str, cause: Exception | None = None) -> NoReturn:
    subject = ir.name if node is None else f"{ir.name}, {node}"
    where = None
    if node is not None:
        where = print_node(ir, node)
        if node.meta.origin is not None:
            where += f"\n{node.meta.origin}"
        if node.meta.made is not None:
            where += f"\nmade by the rule {node.meta.made.rule!r}"
    raise VerifyError(f"verify: {subject}: {message}", where=where) from cause

"""The laws of the IR, which every graph must satisfy."""

from collections import Counter
from collections.abc import Hashable, Sequence
from typing import NoReturn

from luminal_lab.core.dims import Symbol
from luminal_lab.core.ir import IR, Node, check_ir
from luminal_lab.core.op import NAME, TensorType, mentions, result_types
from luminal_lab.core.ops import Input
from luminal_lab.core.printer import dim_declaration, print_node
from luminal_lab.errors import LabError, VerifyError


def verify(ir: IR, known: IR | None = None) -> None:
    """Raise a VerifyError that names the first broken law and the node, if there is one.

    Records shared with a graph that is known to satisfy the laws are not checked again.

    1. A node's sources are in the graph, and come before it: there is no cycle.
    2. A node's type is what its op makes of its sources' types; of a node with several results
       only a `Pick` reads.
    3. Names are unique, and words, those of graphs too; a record's id is its place.
    4. The signature lists each `Input` once and nothing else.
    5. Outputs are in the graph and have one result; a carried one has the type of the input that
       takes it, which takes no other.
    6. A symbolic dim has the same bounds wherever it is mentioned.
    7. Bodies of calls satisfy all of this.

    >>> import luminal_lab as ll
    >>> cx = ll.Graph()
    >>> y = cx.tensor((2,), name="x").sin().retrieve()
    >>> ll.verify(cx.ir)
    """
    check_ir("verify", ir)
    graphs, done = [ir], set[int]()
    for graph in graphs:
        if not NAME.fullmatch(graph.name):  # generated code has it in comments
            _fail(graph, None, "this cannot be the name of a graph")
        fresh = _fresh_nodes(ir, known) if known is not None and graph is ir else None
        if fresh is None:
            _verify_nodes(graph)
            fresh = graph.nodes
        verify_signature(graph)
        for node in fresh:
            body = node.op.body_of()
            if body is not None and id(body) not in done:
                done.add(id(body))
                graphs.append(body)


def _verify_nodes(ir: IR) -> None:
    get = ir.table.get
    inferred: dict[Hashable, tuple[TensorType, ...]] = {}
    placed, names = set[int](), set[str]()
    dims: dict[str, Symbol] = {}
    for node in ir.nodes:
        name = node.meta.name
        key: list[object] = [node.op]
        for id in node.sources:
            source = get(id)
            if source is None:
                _fail(ir, node, f"its source {id} is not in the graph")
            if id not in placed:
                _fail(ir, node, f"it depends on itself by way of {source}")
            # The types of several results are in the node, not only in its type.
            key.append(source if source.extra else source.type)
        results = inferred.get(tuple(key))
        if results is None:
            results = inferred[tuple(key)] = _infer(ir, node)
            _verify_dims(ir, node, dims)
        if results[0] != node.type or results[1:] != node.extra:
            stated, result = (", ".join(map(str, types)) for types in (node.types, results))
            _fail(ir, node, f"its type is {stated}, but its op makes {result}")
        if name is not None:  # a node without a name shows its number
            _verify_name(ir, node, name, names)
        if get(node.id) is not node:
            _fail(ir, node, f"its id is {node.id}, which is not its place")
        placed.add(node.id)


def _fresh_nodes(ir: IR, known: IR) -> Sequence[Node] | None:
    """Return the records that a graph does not share with a verified graph, if they are right.

    None means doubt: a check of all nodes then names the fault and the node.
    """
    differing = {id: node for id, node in ir.table.differing(known.table) if node is not None}
    placed: set[int] = set()
    are_in_place = all(id == node.id for id, node in differing.items())
    for id, _, sources, _, _, _ in ir.nodes:
        if not (are_in_place and placed.issuperset(sources)):
            return None
        placed.add(id)
    fresh = [node for node in ir.nodes if node.id in differing]
    names, right = set[str](), set[Hashable]()
    for node in fresh:
        old, name = known.table.get(node.id), node.meta.name
        # Its users need no check if its type is unchanged.
        if old is not None and not (node.is_version_of(old) and node.extra == old.extra):
            return None
        if name is not None:
            other = ir.table.get(known.names.get(name, node.id))
            is_taken = other is not node and other is not None and other.meta.name == name
            if is_taken or name in names or not NAME.fullmatch(name):
                return None
            names.add(name)
        sources = ir.sources(node)
        key = node.op, node.types, *[s if s.extra else s.type for s in sources]
        if key not in right and not _is_right(node, sources, known):
            return None
        right.add(key)
    return fresh


def _is_right(node: Node, sources: Sequence[Node], known: IR) -> bool:
    """Return whether a node has its op's result types, with dims that a verified graph has."""
    try:
        results = result_types(node.op, sources)
    except LabError:
        return False
    dims = mentions(results, [node.op])
    return results == node.types and all(known.symbols.get(dim.name) == dim for dim in dims)


def _infer(ir: IR, node: Node) -> tuple[TensorType, ...]:
    try:
        return result_types(node.op, ir.sources(node))
    except LabError as error:
        _fail(ir, node, error.message, error)


def _verify_name(ir: IR, node: Node, name: str, names: set[str]) -> None:
    if name in names:
        _fail(ir, node, f"%{name} is the name of another node too")
    if not NAME.fullmatch(name):
        _fail(ir, node, f"{name!r} cannot be a name")
    names.add(name)


def _verify_dims(ir: IR, node: Node, dims: dict[str, Symbol]) -> None:
    for symbol in mentions(node.types, [node.op]):
        other = dims.setdefault(symbol.name, symbol)
        if other != symbol:
            both = f"{dim_declaration(symbol)}, but elsewhere {dim_declaration(other)}"
            _fail(ir, node, f"it mentions the dim {both}")


def verify_signature(ir: IR) -> None:
    """Raise a VerifyError unless a graph whose nodes are right satisfies laws 4 and 5."""
    listed = Counter(ir.input_ids)
    for id in ir.input_ids:
        node = ir.table.get(id)
        if node is None:
            _fail(ir, None, f"the signature lists the input {id}, which is not in the graph")
        if not isinstance(node.op, Input):
            _fail(ir, node, "the signature lists it, but it is not an input")
        if listed[id] > 1:
            _fail(ir, node, "the signature lists it twice")
    if len(ir.input_ids) != sum([isinstance(op, Input) for _, op, _, _, _, _ in ir.table]):
        missing = [n for n in ir.nodes if isinstance(n.op, Input) and n.id not in listed]
        _fail(ir, missing[0], "it is an input that the signature does not list")
    _verify_ends(ir)


def _verify_ends(ir: IR) -> None:
    for id in ir.output_ids:
        node = ir.table.get(id)
        if node is None:
            _fail(ir, None, f"the output {id} is not in the graph")
        if node.extra:
            _fail(ir, node, "it has several results and cannot be an output without a pick")
    inputs, outputs = set(ir.input_ids), Counter(ir.output_ids)
    carried, taken = (Counter(pair[side] for pair in ir.carries) for side in (0, 1))
    for new, old in ir.carries:
        node, into = ir.table.get(new), ir.table.get(old)
        if not node or not into or new not in outputs or old not in inputs:
            pair = f"{node or new} is carried to {into or old}"
            _fail(ir, node, f"{pair}, but they are not an output and an input")
        if node.type != into.type:
            _fail(ir, node, f"it is carried to {into}, whose type is {into.type}, not {node.type}")
        if taken[old] > 1:
            _fail(ir, into, "two outputs are carried to it")
        if carried[new] > outputs[new]:
            _fail(ir, node, "it is carried more often than it is an output")


def _fail(ir: IR, node: Node | None, message: str, cause: LabError | None = None) -> NoReturn:
    subject, where = ir.name if NAME.fullmatch(ir.name) else repr(ir.name), None
    if node is not None:
        subject, where = f"{subject}, {node}", print_node(ir, node)
        if node.meta.origin is not None:
            where += f"\n{node.meta.origin}"
        if node.meta.derivation is not None:
            where += f"\nmade by the rule {node.meta.derivation.rule!r}"
    hint = None if cause is None else cause.hint
    raise VerifyError(f"verify: {subject}: {message}", where=where, hint=hint) from cause

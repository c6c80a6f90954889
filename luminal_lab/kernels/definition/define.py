"""Graph to definition: views become indices and conditions, nodes that are read become terms.

    graph dot(%a: f32[64, 128], %b: f32[128, 10]) -> (%y) {
      %2 = reshape{shape = [64, 128, 1]} %a : f32[64, 128, 1]
      …                                               kernel dot(a: f32[64, 128], b: f32[128, 10])
      %6 = mul %3, %5 : f32[64, 128, 10]          →    -> (y: f32[64, 10])
      %7 = sum_reduce{axis = 1} %6 : …                  y[i < 64, j < 10] =
      %y = reshape{shape = [64, 10]} %7 : …                 sum k < 128: a[i, k] * b[k, j]
    }

A node that is read in two places has its term written twice, unless it is kept: then it is a local
array, computed once and then read. `locals.py` has the rule for kept nodes.
"""

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache

from luminal_lab.core import ops
from luminal_lab.core.dims import Expr, Shape, substitute
from luminal_lab.core.dtypes import SHORT
from luminal_lab.core.edit import Edit
from luminal_lab.core.ir import IR, Node, NodeLike, check_ir
from luminal_lab.core.op import Elementwise, TensorType, View as ViewOp
from luminal_lab.core.printer import print_node, unique
from luminal_lab.core.views import ComposedView, row_major
from luminal_lab.errors import DefinitionError, GraphError
from luminal_lab.kernels.definition.canonical import INPUTS, LOCALS, OUTPUTS, canonical, fresh
from luminal_lab.kernels.definition.definition import Buffer, Definition, Output
from luminal_lab.kernels.definition.locals import kept_nodes
from luminal_lab.kernels.definition.substitution import counted, guarded, looked_up, used
from luminal_lab.kernels.definition.terms import (
    Apply,
    Draw,
    Fold,
    FoldKind,
    Number,
    Read,
    Term,
    axis_of,
)
from luminal_lab.passes.inlining import Inlining

PASSING = (ops.After, ops.Contiguous, ops.CustomGradient, ops.GraphBreak, ops.StopGradient)
"""Ops whose value is that of their first source."""
RESERVED = {*SHORT, "kernel", "let", "sum", "max", "min", "fold", "random", "at", "true", "false"}
"""Names that a buffer cannot have, besides inf and nan."""
NOT_A_NUMBER = re.compile(f"(inf|nan)(_({'|'.join(SHORT)}))?")


def define(body: IR, *, keep: Iterable[NodeLike] | None = None) -> Definition:
    """Return what a graph computes; `keep` names the nodes that become locals, instead of the rule.

    >>> from luminal_lab.core.parse import parse
    >>> print(define(parse('''graph g(%x: f32[4, 6]) -> (%y) {
    ...   %s = sum_reduce{axis = 1} %x : f32[4, 1]
    ...   %y = reshape{shape = [4]} %s : f32[4]
    ... }''')))
    kernel g(x: f32[4, 6]) -> (y: f32[4])
      y[i < 4] = sum j < 6: x[i, j]
    """
    check_ir("define", body)
    if keep is None:
        return _by_rule(body.nodes, body.name, body)
    return _defined(body, [body[node] for node in keep])


@lru_cache(maxsize=64)
def _by_rule(nodes: tuple[Node, ...], name: str, body: IR) -> Definition:
    # Graphs compare equal whatever their names are, but a definition has names, and nodes identity.
    return _defined(body, None)


def _defined(body: IR, keep: Iterable[Node] | None) -> Definition:
    edit = Edit(body)
    Inlining().run(body, edit)
    wanted = None if keep is None else {_inlined(node, edit) for node in keep}
    return canonical(_Definer(edit.ir(), wanted).definition())


def buffer_name(node: Node, taken: Iterable[str]) -> str | None:
    """Return the last word of a node's name, numbered if it is taken; None if it has none."""
    if node.meta.name is None:
        return None
    word = node.meta.name.rpartition(".")[2]
    if not re.fullmatch(r"[A-Za-z_]\w*", word, re.ASCII):
        return None
    unfit = {word} if word in RESERVED or NOT_A_NUMBER.fullmatch(word) else set[str]()
    return unique(word, {*taken, *unfit})


def _inlined(node: Node, edit: Edit) -> int:
    """Return the id of the node that holds a node's value once calls are inlined."""
    into = {change.node: change.into for change in edit.log if change.kind == "replace"}
    id: int | None = node.id
    while id in into:
        id = into[id]
    if id is None or edit.table.get(id) is None:
        raise GraphError(
            f"define: {node} has {len(node.types)} results, and one array cannot keep them",
            hint="keep what picks one of them",
        )
    return id


class _Definer:
    def __init__(self, ir: IR, keep: set[int] | None) -> None:
        self.ir = ir
        self.reached = _reached(ir)
        self.kept = kept_nodes(ir, self.reached, keep, _read_by)
        self.taken = set(ir.symbols)
        self.names = (f"_{number}" for number in range(1 << 60) if f"_{number}" not in ir.symbols)
        """Temporary names for axes, until they get their canonical names."""
        self.inputs = self.named(ir.inputs, INPUTS)
        self.outputs = self.named(ir.outputs, OUTPUTS)
        self.locals: dict[int, Output] = {}
        self.done: dict[tuple[int, Shape], Term] = {}

    def named(self, nodes: Sequence[Node], letters: str) -> list[str]:
        """Return names for buffers; those that nodes bring with them come first."""
        names: list[str | None] = []
        for node in nodes:
            name = buffer_name(node, self.taken)
            names.append(name)
            self.taken |= set() if name is None else {name}
        letter = fresh(letters, self.taken)
        chosen = [next(letter) if name is None else name for name in names]
        self.taken.update(chosen)
        return chosen

    def definition(self) -> Definition:
        for node in self.reached:
            if node.id in self.kept:
                self.local(node)
        outputs = [
            self.line(name, node, squeeze=False)
            for name, node in zip(self.outputs, self.ir.outputs, strict=True)
        ]
        inputs = [Buffer(n, o.type) for n, o in zip(self.inputs, self.ir.inputs, strict=True)]
        inner = used(outputs, [*self.locals.values()])
        return Definition(self.ir.name, tuple(inputs), tuple(outputs), tuple(inner))

    def local(self, node: Node) -> Output:
        """Return the local array of a node; axes of size 1 are left out."""
        if node.id not in self.locals:
            (name,) = self.named([node], LOCALS)
            self.locals[node.id] = self.line(name, node, squeeze=True)
        return self.locals[node.id]

    def line(self, name: str, node: Node, *, squeeze: bool) -> Output:
        axes = [axis_of(next(self.names), size) for size in node.shape]
        index = [0 if size == 1 else axis for axis, size in zip(axes, node.shape, strict=True)]
        term = self.computed(node, tuple(index)) if squeeze else self.term(node, tuple(index))
        kept = [k for k, size in enumerate(node.shape) if not squeeze or size != 1]
        shape = tuple(node.shape[k] for k in kept)
        return Output(name, TensorType(node.dtype, shape), tuple(axes[k] for k in kept), term)

    def term(self, node: Node, index: Shape) -> Term:
        """Return one element of a node's value."""
        key = node.id, index
        if key not in self.done:
            if isinstance(node.op, ops.Input):
                self.done[key] = Read(
                    self.inputs[self.ir.input_ids.index(node.id)], index, node.dtype
                )
            elif node.id in self.locals:
                pairs = zip(index, node.shape, strict=True)
                squeezed = tuple(position for position, size in pairs if size != 1)
                self.done[key] = Read(self.locals[node.id].name, squeezed, node.dtype)
            else:
                self.done[key] = self.computed(node, index)
        return self.done[key]

    def computed(self, node: Node, index: Shape) -> Term:
        """Return one element of the value that a node computes from its sources."""
        op, sources = node.op, self.ir.sources(node)
        match op:
            case _ if isinstance(op, PASSING):
                return self.term(sources[0], index)
            case Elementwise():
                args = tuple([self.term(source, index) for source in sources])
                return Apply(op, args, node.dtype)
            case ViewOp():
                view = ComposedView.identity(sources[0].shape).then(op)
                values = {f"i{axis}": position for axis, position in enumerate(index)}
                positions = tuple(substitute(position, values) for position in view.index)
                holds = substitute(view.valid, values)
                if holds == 0:
                    return Number(0, node.dtype)
                return guarded(holds, self.term(sources[0], positions))
            case ops.SumReduce(axis=axis) | ops.MaxReduce(axis=axis):
                kind = "sum" if isinstance(op, ops.SumReduce) else "max"
                return self.fold(kind, axis, node, index)
            case ops.Constant(value=value, dtype=dtype):
                return counted(value, dtype) if isinstance(value, Expr) else Number(value, dtype)
            case ops.Iota(dtype=dtype):
                return counted(index[0], dtype)
            case ops.Random(seed=seed, stream=stream, shape=shape):
                return Draw(seed, stream, row_major(shape, index))
            case ops.Gather(axis=axis):
                return self.gather(node, axis, index)
            case _:
                raise DefinitionError(
                    f"define: {op.name} has no index notation, so {self.ir.name} is not a "
                    "definition",
                    where=print_node(self.ir, node),
                    hint=f"{op.name} is a kernel of its own: define what is before and after it",
                )

    def fold(self, kind: FoldKind, axis: int, node: Node, index: Shape) -> Term:
        (source,) = self.ir.sources(node)
        size = source.shape[axis]
        if size == 1:
            return self.term(source, index)
        axis_symbol = axis_of(next(self.names), size)
        body = self.term(source, (*index[:axis], axis_symbol, *index[axis + 1 :]))
        return Fold(kind, axis_symbol, size, body, node.dtype)

    def gather(self, node: Node, axis: int, index: Shape) -> Term:
        source, which = self.ir.sources(node)
        position, size = self.term(which, index), source.shape[axis]
        axis_symbol = axis_of(next(self.names), size)
        for _ in range(2):
            element = self.term(source, (*index[:axis], axis_symbol, *index[axis + 1 :]))
            term = looked_up(element, axis_symbol, size, position)
            if term is not None:
                return term
            # A separate array needs no arithmetic in its index.
            self.local(source)
            self.done.pop((source.id, (*index[:axis], axis_symbol, *index[axis + 1 :])))
        raise AssertionError("a local is read at the place itself")


# -- what is kept ----------------------------------------------------------------------------------


def _read_by(ir: IR, node: Node) -> tuple[Node, ...]:
    sources = ir.sources(node)
    return sources[:1] if isinstance(node.op, PASSING) else sources


def _reached(ir: IR) -> list[Node]:
    """Return the nodes that the outputs need, sources before users."""
    reached: set[int] = set()
    todo = [*ir.outputs]
    while todo:
        node = todo.pop()
        if node.id not in reached:
            reached.add(node.id)
            todo += _read_by(ir, node)
    return [node for node in ir.nodes if node.id in reached]

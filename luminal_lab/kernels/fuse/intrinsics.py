"""`intrinsics`: a function spelled with primitive ops becomes one op where C has that function.

    %a = exp2 %x                 : f32[4]
    %b = mul %x, 0.25            : f32[4]
    …                                        →    %y = math.exp %x : f32[4]
    %y = mul %a, %k              : f32[4]

exp is spelled with four powers of 2, but is a single call in C. The patterns are the graphs that
methods of tensors write: each method is called once, and its graph is used both as it is and as
`simplify` leaves it. A region stays as it is if other nodes read a power, root or quotient inside
it, which would then be computed twice, or if C gives zeros another sign and the sign matters.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, TypeAlias

from typing_extensions import override

from luminal_lab.core.dtypes import DType
from luminal_lab.core.edit import Edit
from luminal_lab.core.ir import IR, Node
from luminal_lab.core.op import Elementwise, Op
from luminal_lab.core.ops import Constant, Expand, Input, Mul, Reshape
from luminal_lab.core.ops.intrinsic import (
    PREFIX,
    Abs,
    Ceil,
    Cos,
    Erf,
    Exp,
    Expm1,
    Floor,
    Gelu,
    GeluTanh,
    Intrinsic,
    Maximum,
    Minimum,
    Relu,
    Round,
    Sigmoid,
    Silu,
    Tanh,
    Trunc,
)
from luminal_lab.kernels.definition.cost import COSTLY
from luminal_lab.passes.base import Pass
from luminal_lab.passes.dead_code import DeadCode
from luminal_lab.passes.pattern import Outlines, as_value
from luminal_lab.passes.pipeline import LICENCE
from luminal_lab.passes.simplify import Simplify
from luminal_lab.tensor import Tensor, formulas
from luminal_lab.tensor.store import Store

SPELLED: tuple[tuple[Intrinsic, Callable[[Tensor], Tensor]], ...] = (
    (Exp(), Tensor.exp),
    (Expm1(), Tensor.expm1),
    (Expm1(), lambda x: formulas.exp2m1(x * formulas.LOG2E)),  # for x below 0
    (Tanh(), Tensor.tanh),
    (Sigmoid(), Tensor.sigmoid),
    (Silu(), Tensor.silu),
    (GeluTanh(), lambda x: x.gelu("tanh")),
    (Erf(), Tensor.erf),
    (Cos(), Tensor.cos),
)
"""Ops computed in float32 or float64, with the methods that spell them."""
SPELLED_IN_FLOAT32: tuple[tuple[Intrinsic, Callable[[Tensor], Tensor]], ...] = (
    (Gelu(), Tensor.gelu),
)
"""Ops computed in float32; in float64 C is no faster."""
SPELLED_IN_ALL: tuple[tuple[Intrinsic, Callable[[Tensor], Tensor]], ...] = (
    (Floor(), Tensor.floor),
    (Ceil(), Tensor.ceil),
    (Trunc(), Tensor.trunc),
    (Round(), Tensor.round),
    (Abs(), Tensor.abs),
    (Relu(), Tensor.relu),
)
"""Ops computed in any float, 16-bit floats included."""
SPELLED_OF_TWO: tuple[tuple[Intrinsic, Callable[[Tensor, Tensor], Tensor]], ...] = (
    (Maximum(), Tensor.maximum),
    (Minimum(), Tensor.minimum),
)
OTHER_ZEROS = Abs, Ceil, Trunc, Round, Maximum, Minimum
"""Ops for which C and the spelling give zeros different signs."""
HALVES = (DType.float16, DType.bfloat16)


@dataclass(frozen=True)
class Intrinsics(Pass):
    """Replace the spelling of a function by one op, where C has that function."""

    name: ClassVar[str] = "intrinsics"
    rounds_otherwise: ClassVar[bool] = True

    @override
    def run(self, ir: IR, edit: Edit) -> None:
        fitting: dict[object, list[Template]] = {}
        outlines = Outlines(edit.table)
        for node in reversed(ir.nodes):
            if isinstance(node.op, Elementwise) and node.dtype.is_float:
                record = edit.table.get(node.id)
                if record is not None and (edit.readers.get(node.id) or node.id in edit.returned):
                    key = record.type.dtype.value, outlines.of(record)
                    if key not in fitting:
                        known = templates(record.dtype).get(type(record.op), ())
                        may = [each for each in known if each.resembles(each.root, record, edit)]
                        fitting[key] = may
                    _try_at(fitting[key], record, edit)


def _try_at(fitting: Sequence[Template], node: Node, edit: Edit) -> None:
    for template in fitting:
        if isinstance(template.op, OTHER_ZEROS) and "no_signed_zero" not in edit.licence:
            continue
        match = template.match(node, edit)
        if match is not None and _is_closed(node, match, edit):
            _put(template, node, match, edit)
            return


def _put(template: Template, node: Node, match: Match, edit: Edit) -> None:
    """Replace a region by the op, and erase the nodes that only the region needed."""
    sources = [match[hole] for hole in template.inputs]
    inside = _inside(template, node, match)
    name = template.op.name.removeprefix(PREFIX)
    with edit.firing(name.replace("_", "-"), f"{name} is one function in C"):
        if template.negated:
            minus = edit.insert(Constant(-1.0, node.dtype, node.shape), like=[node])
            sources = [edit.insert(Mul(), sources[0], minus, like=[node])]
        intrinsic = edit.insert(template.op, *sources, like=[node, *inside])
        edit.replace(node, intrinsic, renames=True)
        for member in (node, *inside):
            if not edit.readers.get(member.id) and not edit.is_output(member.id):
                edit.erase(member)


def _inside(template: Template, root: Node, match: Match) -> list[Node]:
    """Return the nodes of a region except its root, users first."""
    given = {match[hole].id for hole in template.inputs}
    inside = {node.id: node for node in match.values() if node.id not in given}
    inside.pop(root.id, None)
    return sorted(inside.values(), key=lambda node: -node.id)


def _is_closed(root: Node, match: Match, edit: Edit) -> bool:
    """Return whether every costly node inside is read only inside."""
    inside = {node.id for node in match.values()}
    costly = [n for n in match.values() if n.op.cost >= COSTLY and n is not root]
    readers = [edit.readers.get(node.id, {}).keys() for node in costly]
    return all(each <= inside for each in readers) and not any(map(edit.is_output, costly))


# -- patterns --------------------------------------------------------------------------------------

Match: TypeAlias = dict[int, Node]
"""The node of a graph for each node of a template."""


@dataclass(frozen=True, eq=False)
class Template:
    """A function as tensors spell it: a graph with holes for its inputs."""

    op: Intrinsic
    inputs: tuple[int, ...]
    root: int
    lines: dict[int, tuple[Op, tuple[int, ...]]]
    negated: bool = False
    """Whether the function takes -x, with the minus sign folded into its spelling."""

    def match(self, node: Node, edit: Edit) -> Match | None:
        """Return the node for each node of the template, with a node as its root."""
        return self._fitted(self.root, node, {}, edit)

    def resembles(self, line: int, node: Node, edit: Edit, depth: int = 2) -> bool:
        """Return whether a node may match a line, as far as its outline tells."""
        op, sources = self.lines[line]
        if isinstance(op, Constant):
            repeated = isinstance(node.op, (Expand, Reshape))
            return repeated or (isinstance(node.op, Constant) and _is_constant(op, node, edit))
        if isinstance(op, Input):
            return True
        if not depth or type(node.op) is not type(op):
            return type(node.op) is type(op)
        below = edit.sources(node)
        return any(
            all(
                self.resembles(part, source, edit, depth - 1)
                for part, source in zip(sources, order, strict=True)
            )
            for order in ((below, below[::-1]) if op.commutative else (below,))
        )

    def _fitted(self, line: int, node: Node, match: Match, edit: Edit) -> Match | None:
        """Return a match extended by this node, or None."""
        op, sources = self.lines[line]
        if isinstance(op, Constant):
            return match if _is_constant(op, node, edit) else None
        if line in match:
            return match if match[line].id == node.id else None
        if isinstance(op, Input):
            return {**match, line: node}
        if type(node.op) is not type(op) or node.op != op:
            return None
        here = {**match, line: node}
        match_below = self._fitted_below(sources, node.sources, here, edit)
        if match_below is None and op.commutative:
            match_below = self._fitted_below(sources, node.sources[::-1], here, edit)
        return match_below

    def _fitted_below(
        self, lines: Sequence[int], ids: Sequence[int], match: Match, edit: Edit
    ) -> Match | None:
        match_so_far: Match | None = match
        records = edit.table.flat
        for line, id in zip(lines, ids, strict=True):
            source = records[id]
            assert source is not None, "a graph in an editor is closed"
            match_so_far = self._fitted(line, source, match_so_far, edit)
            if match_so_far is None:
                return None
        return match_so_far


def _is_constant(op: Constant, node: Node, edit: Edit) -> bool:
    """Return whether a node is this number everywhere, rounded to its dtype."""
    while isinstance(node.op, (Expand, Reshape)):
        source = edit.table.get(node.sources[0])
        assert source is not None, "a graph in an editor is closed"
        node = source
    if not isinstance(node.op, Constant) or node.dtype is not op.dtype:
        return False
    mine, other = (as_value(value, node.dtype) for value in (op.value, node.op.value))
    return repr(mine) == repr(other)


class _Page(Store):
    """A graph in which methods of tensors write the patterns."""

    def hole(self, dtype: DType) -> Tensor:
        """Return a tensor that stands for any value."""
        return self.tensor((2,), dtype)

    def written(self, result: Tensor) -> IR:
        """Return the graph written."""
        return self.snapshot((result.id,), ())


@lru_cache(None)
def templates(dtype: DType) -> dict[type[Op], list[Template]]:
    """Return the templates for nodes of a dtype, by the last op, the largest first."""
    spellings: list[Template] = []
    for op, of_one in _functions(dtype):
        spellings += _templates(op, of_one, dtype)
    for op, of_two in SPELLED_OF_TWO:
        page = _Page("template", 0)
        spellings.append(_template(op, page.written(of_two(page.hole(dtype), page.hole(dtype)))))
    by_op: dict[type[Op], list[Template]] = {}
    for template in sorted(spellings, key=lambda template: -len(template.lines)):
        by_op.setdefault(type(template.lines[template.root][0]), []).append(template)
    return by_op


def _functions(dtype: DType) -> Iterator[tuple[Intrinsic, Callable[[Tensor], Tensor]]]:
    yield from SPELLED_IN_FLOAT32 if dtype is DType.float32 else ()
    yield from () if dtype in HALVES else SPELLED
    yield from SPELLED_IN_ALL


def spelled(dtype: DType) -> Iterator[tuple[str, IR]]:
    """Yield the graphs that tensors write for functions, with the functions' names in C."""
    for op, of_one in _functions(dtype):
        page = _Page("spelled", 0)
        yield op.name.removeprefix(PREFIX), page.written(of_one(page.hole(dtype)))
    for op, of_two in SPELLED_OF_TWO:
        page = _Page("spelled", 0)
        result = of_two(page.hole(dtype), page.hole(dtype))
        yield op.name.removeprefix(PREFIX), page.written(result)


def _templates(
    op: Intrinsic, method: Callable[[Tensor], Tensor], dtype: DType
) -> Iterator[Template]:
    """Yield a function as written, as simplified, and applied to -x if that is shorter."""
    page, other = _Page("template", 0), _Page("template", 0)
    written = page.written(method(page.hole(dtype)))
    simple = _simplified(written)
    negated = _simplified(other.written(method(-other.hole(dtype))))
    yield _template(op, written)
    if len(simple) < len(written):
        yield _template(op, simple)
    if len(negated) < len(simple) + 2:
        yield _template(op, negated, negated=True)


def _simplified(ir: IR) -> IR:
    for simplifier in (Simplify(), DeadCode()):
        edit = Edit(ir, licence=LICENCE)
        simplifier.run(ir, edit)
        ir = edit.ir()
    return ir


def _template(op: Intrinsic, ir: IR, *, negated: bool = False) -> Template:
    lines = {node.id: (node.op, node.sources) for node in ir}
    return Template(op, ir.input_ids, ir.output_ids[0], lines, negated)

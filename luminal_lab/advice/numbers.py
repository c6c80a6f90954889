"""Numbers in a wider dtype than they need, and functions that undo each other.

x = cx.tensor((n,), "float64")       half as many numbers fit into a vector, and into memory
x.cast("float64").exp().cast("float32")
x.exp().log()                        two of the dearest functions, for x
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any, cast

import numpy as np

from luminal_lab.advice.suspect import Case, Suspect, Variant, by_line, called, edited
from luminal_lab.core.dtypes import Array, DType
from luminal_lab.core.edit import Edit
from luminal_lab.core.ir import IR, Node
from luminal_lab.core.op import Elementwise, TensorType
from luminal_lab.core.ops import Bitcast, Cast, Constant
from luminal_lab.core.ops.bits import Bitwise

WIDE, NARROW = DType.float64, DType.float32


def doubles(case: Case) -> Iterator[Suspect]:
    """Yield inputs of float64, or places where float32 becomes float64 and then float32 again."""
    ir = case.written
    wide = [node for node in ir.inputs if node.dtype is WIDE and ir.users(node)]
    if wide:
        names = ", ".join(str(node) for node in wide[:3]) + (" and more" if wide[3:] else "")
        yield Suspect(
            "float64",
            f"{names} {'is' if len(wide) == 1 else 'are'} float64, and so is everything "
            f"computed from {'it' if len(wide) == 1 else 'them'}",
            "a vector of the processor holds half as many float64 as float32, and memory moves "
            "half as many; gaming GPUs have one unit in 64 for them",
            'give the tensor no dtype, or dtype="float32"',
            tuple(node.id for node in wide),
            partial(_narrow, ir),
        )
    back = [
        node
        for node in ir
        if isinstance(node.op, Cast) and node.dtype is WIDE and ir[node.sources[0]].dtype is NARROW
    ]
    for nodes in by_line(ir, back):
        yield Suspect(
            "cast",
            "float32 is cast to float64 on the way",
            "every operation after the cast is done in float64, at half the rate or less",
            'take out cast("float64"), if float32 is exact enough',
            tuple(node.id for node in nodes),
            partial(_narrow, ir),
        )


def _narrow(ir: IR) -> Variant | None:
    """Return a graph with float32 in place of every float64, including its results."""
    if any(node.op.body_of() is not None for node in ir):
        return None
    table = ir.table.copy()
    for node in ir.nodes:
        types = tuple(_narrowed(type) for type in node.types)
        op = node.op
        if getattr(op, "dtype", None) is WIDE:  # of an input, a constant, a cast
            op = replace(cast("Any", op), dtype=NARROW)
        table.set(node.id, node._replace(op=op, type=types[0], extra=types[1:]))
    narrow = IR(table, name=ir.name, **ir.signature._asdict())

    def change(edit: Edit) -> None:
        for node in narrow.nodes:
            if isinstance(node.op, Cast) and edit[node.sources[0]].type == node.type:
                edit.replace(node.id, node.sources[0])

    return Variant(edited(narrow, change), data=_narrow_data, is_exact=False)


def _narrowed(type: TensorType) -> TensorType:
    return type.with_dtype(NARROW) if type.dtype is WIDE else type


def _narrow_data(_: Node, array: Array) -> Array:
    return array.astype(np.float32) if array.dtype == np.float64 else array


# -- there and back --------------------------------------------------------------------------------

POINTS = np.array([-2.5, -1.0, -0.3, 0.2, 0.7, 1.0, 1.9, 3.1])
DEEPEST = 64
"""How many functions of one value are followed, at most."""
COSTLY = 5
"""The cost of an op from which undoing it counts as waste."""
CLOSE = 1e-5


def inverses(case: Case) -> Iterator[Suspect]:
    """Yield values that equal an earlier value, after functions that undo each other."""
    ir = case.written
    behind: dict[int, tuple[int, ...]] = {}
    origins: dict[int, int] = {}
    for node in ir.nodes:
        behind[node.id] = _behind(ir, node, behind)
        for id in behind[node.id][1:]:
            if ir[id].types == node.types and _is_identity(ir, node.id, id):
                origins[node.id] = id
    # Of several equal values, the last is the one that is read.
    inner = {id for n in origins for id in behind[n][1:]} & origins.keys()
    ends = [ir[id] for id in origins if id not in inner]
    for nodes in by_line(ir, ends):

        def change(edit: Edit, nodes: list[Node] = nodes) -> None:
            for node in nodes:
                edit.replace(node.id, origins[node.id])

        yield Suspect(
            "undone",
            "functions that undo each other",
            f"what comes out is what went in, {called(ir[origins[nodes[0].id]])}, up to roundings",
            "take out both functions",
            tuple(node.id for node in nodes),
            lambda change=change: Variant(edited(ir, change)),
        )


def _behind(ir: IR, node: Node, known: dict[int, tuple[int, ...]]) -> tuple[int, ...]:
    """Return a node and the values through which alone it depends on anything, nearest first."""
    if not isinstance(node.op, Elementwise) or isinstance(node.op, (Cast, Bitcast, Bitwise)):
        return (node.id,)
    sources = [known[id] for id in node.sources if not isinstance(ir[id].op, Constant)]
    if not sources:
        return (node.id,)
    shared = set(sources[0]).intersection(*sources[1:])
    return (node.id, *(id for id in sources[0] if id in shared))[:DEEPEST]


def _is_identity(ir: IR, end: int, start: int) -> bool:
    """Return whether a value equals an earlier one wherever that is a number."""
    values: dict[int, Array] = {start: POINTS}
    costly = False
    todo = [end]
    with np.errstate(all="ignore"):
        while todo:
            node = ir[todo[-1]]
            missing = [id for id in node.sources if id not in values]
            if missing:
                todo += missing
                continue
            if isinstance(node.op, Constant):
                if not isinstance(node.op.value, (int, float)):
                    return False
                values[node.id] = np.full_like(POINTS, node.op.value)
            elif node.id not in values:
                costly = costly or node.op.cost >= COSTLY
                values[node.id] = np.asarray(node.op.eval(*(values[id] for id in node.sources)))
            todo.pop()
    got = values[end]
    is_number = np.isfinite(got)
    if not costly or not is_number[POINTS > 0].all():
        return False
    return bool(np.allclose(got[is_number], POINTS[is_number], rtol=CLOSE, atol=CLOSE))

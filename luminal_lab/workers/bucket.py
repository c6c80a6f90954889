"""`bucket`: all_reduces of values that do not depend on each other become one, of a flat buffer.

    %a = all_reduce{axis = "data", kind = sum} %x : f32[2, 3]
    %b = all_reduce{axis = "data", kind = sum} %y : f32[4]
    →
    %f = reshape{shape = [6]} %x : f32[6]
    %z = constant{value = 0.0} : f32[10]
    %u = update{axis = 0, at = 0} %z, %f : f32[10]
    %v = update{axis = 0, at = 6} %u, %y : f32[10]
    %r = all_reduce{axis = "data", kind = sum} %v : f32[10]
    %s = slice{start = [0], stop = [6], step = [1]} %r : f32[6]
    %a = reshape{shape = [2, 3]} %s : f32[2, 3]
    %b = slice{start = [6], stop = [10], step = [1]} %r : f32[4]

A collective costs some time however small it is. Large ones stay: they take their time for bytes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from typing_extensions import override

from luminal_lab.core.dtypes import DType
from luminal_lab.core.edit import Edit
from luminal_lab.core.ir import IR, Node
from luminal_lab.core.op import Op, size_of
from luminal_lab.core.ops import Constant, Reshape, Slice, Update
from luminal_lab.passes.base import Pass
from luminal_lab.workers.ops import AllReduce


@dataclass(frozen=True)
class Bucketing(Pass):
    """Join all_reduces of up to so many bytes along one axis of the mesh."""

    name: ClassVar[str] = "bucket"
    bytes: int = 1 << 20
    """The most bytes of an all_reduce that is joined with others, and of what they become."""

    @override
    def run(self, ir: IR, edit: Edit) -> None:
        buckets: dict[tuple[Op, DType], list[Node]] = {}
        for node in ir:
            size = _size(node)
            if not isinstance(node.op, AllReduce) or not 0 < size <= self.bytes:
                continue
            key = node.op, node.dtype
            bucket = buckets.setdefault(key, [])
            if size + sum(map(_size, bucket)) > self.bytes:
                join_independent(edit, bucket)
                bucket.clear()
            bucket.append(node)
        for bucket in buckets.values():
            join_independent(edit, bucket)


def join_independent(edit: Edit, nodes: list[Node]) -> None:
    """Join all_reduces, in several turns where one of them is computed from another."""
    left = list(nodes)
    while left:
        ir = edit.ir()
        behind = {node.id: ir.ancestors([node.id]) for node in left}
        chosen = list[Node]()
        for node in left:
            others = [other.id for other in chosen]
            if behind[node.id].isdisjoint(others) and all(
                node.id not in behind[id] for id in others
            ):
                chosen.append(node)
        join(edit, chosen)
        left = [node for node in left if node not in chosen]


def _size(node: Node) -> int:
    size = size_of(node.shape)
    return size * node.dtype.itemsize if isinstance(size, int) else 0


def join(edit: Edit, nodes: list[Node]) -> None:
    """Replace all_reduces, none of which is computed from another, by one."""
    if len(nodes) < 2:
        return
    op, dtype = nodes[0].op, nodes[0].dtype
    ends = [0]
    for node in nodes:
        ends.append(ends[-1] + _size(node) // dtype.itemsize)
    with edit.firing("one-all-reduce", f"{len(nodes)} small ones"):
        flat = edit.insert(Constant(_zero(dtype), dtype, (ends[-1],)), like=nodes)
        for node, at, end in zip(nodes, ends, ends[1:], strict=False):
            (source,) = edit.sources(edit[node.id])
            row = edit.insert(Reshape((end - at,)), source, like=node)
            flat = edit.insert(Update(0, at), flat, row, like=node)
        joined = edit.insert(op, flat, like=nodes)
        for node, at, end in zip(nodes, ends, ends[1:], strict=False):
            part = edit.insert(Slice((at,), (end,), (1,)), joined, like=node)
            edit.replace(node.id, edit.insert(Reshape(node.shape), part, like=node), renames=True)
            edit.erase(node.id)


def _zero(dtype: DType) -> bool | int | float:
    return 0.0 if dtype.is_float else 0 if dtype.kind == "int" else False

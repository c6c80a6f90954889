"""What nodes are called in pictures: their kinds, and labels of few words."""

from __future__ import annotations

import re
from collections.abc import Sequence

from luminal_lab.core.ir import Node
from luminal_lab.core.op import Op, Reduce, Source, View
from luminal_lab.core.ops import (
    Constant,
    Expand,
    HostCall,
    Input,
    Pick,
    Region,
    Reshape,
    UserKernel,
)
from luminal_lab.core.printer import op_text
from luminal_lab.viz.egraph_elements import Element
from luminal_lab.viz.metrics import shortened
from luminal_lab.viz.payload import Kind
from luminal_lab.viz.scalars import number_text, with_scalars
from luminal_lab.workers.layout import parse_layout, steps
from luminal_lab.workers.ops import Collective, Reshard
from luminal_lab.workers.pipe_ops import Move, Receive, Send

LONG = re.compile(r"\b\d+\.\d{4,}\b")
"""A number with more digits than a label has."""
KINDS: tuple[tuple[type[Op] | tuple[type[Op], ...], Kind], ...] = (
    (UserKernel, "kernel"),
    (Region, "call"),
    (HostCall, "host"),
    ((Reshard, Collective, Move, Send, Receive), "sent"),
)
LABEL = 44
"""The longest label, in characters; a node's title has the full text."""


def kind_of(op: Op) -> Kind:
    """Return the kind of an op."""
    match op:
        case Element(kind=kind):
            return kind
        case Input():
            return "input"
        case Constant():
            return "constant"
        case View() | Pick():
            return "view"
        case Reduce():
            return "reduce"
        case Source():
            return "source"
        case _:
            found: list[Kind] = [kind for types, kind in KINDS if isinstance(op, types)]
            return found[0] if found else "op"


def node_label(
    node: Node, kind: Kind, kernel: str = "", operands: Sequence[str | None] = ()
) -> str:
    """Return a node's label: its name, its kernel, or its op, with the scalars that it reads."""
    if kind in ("input", "parameter"):
        return shortened(_name_within(node.name, node.meta.scope), LABEL)
    body = node.op.body_of()
    label = kernel or (body.name if body is not None else op_label(node.op))
    return shortened(with_scalars(label, node.op, operands), LABEL)


def _name_within(name: str, scope: str) -> str:
    """Return the name of an input without what the scope around it says already.

    >>> _name_within("layers.0.attn.weight", "llama.layers.0.attn")
    'weight'
    >>> _name_within("tokens", "llama"), _name_within("attn.weight", "llama.mlp")
    ('tokens', 'attn.weight')
    """
    parts = name.split(".")
    around = scope.split(".")
    for at in range(len(parts) - 1, 0, -1):
        if parts[:at] == around[-at:]:
            return ".".join(parts[at:])
    return name


def op_label(op: Op) -> str:
    """Return an op in few words: its value, or its name and its fields.

    >>> from luminal_lab.core.ops import Flip, SumReduce
    >>> op_label(SumReduce(1)), op_label(Flip((0,)))
    ('sum_reduce axis 1', 'flip axes [0]')
    >>> op_label(Reshard("- sum data", "-")), op_label(Move(0, 1)), op_label(Reshard("-", "data"))
    ('all_reduce over data', 'move to stage 1', 'own_part over data')
    """
    if isinstance(op, Constant):
        return number_text(op.value)
    if isinstance(op, Element):
        return LONG.sub(lambda number: f"{float(number[0]):.4g}", op.text)
    if isinstance(op, Reshard):
        return _sent(op)
    if isinstance(op, Move):
        return f"{op.name} to stage {op.new}"
    text = op_text(op)
    name, brace, rest = text.partition("{")
    if not brace or isinstance(op, (Reshape, Expand)):  # the type has the shape
        return name
    return f"{name} {rest.removesuffix('}').replace(' = ', ' ')}"


def _sent(op: Reshard) -> str:
    """Return what a change of layout takes."""
    old, new = parse_layout(op.old), parse_layout(op.new)
    return ", ".join(f"{step.sent} over {step.axis}" for step, _ in steps(old, new)) or op.name

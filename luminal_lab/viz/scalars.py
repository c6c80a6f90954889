"""Constants that need no node of their own: they stand in the label of each op that reads them.

mul × 0.5    add + 1e-5    less_than 0 < ·    where ·, 0, ·
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set as AbstractSet

from luminal_lab.core.op import Op
from luminal_lab.core.ops import Constant
from luminal_lab.viz.entries import GraphEntries, NodeEntry
from luminal_lab.viz.folded import rooted_in

SIGNS: Mapping[str, str] = {
    "add": "+",
    "mul": "×",
    "fused_mul": "×",
    "flushed_mul": "×",
    "mod": "%",
    "less_than": "<",
    "bit_and": "&",
    "bit_or": "|",
    "bit_xor": "^",
    "shift_left": "<<",
    "shift_right": ">>",
}
"""The sign between the operands of an op, by the op's name."""
OPERAND = "·"
"""An operand that is no scalar."""
FEW = 4
"""An op with more operands than this lists its scalars alone."""


def scalars_of(
    entries: GraphEntries, roots: Mapping[int, int], loud: AbstractSet[int]
) -> dict[int, str]:
    """Return the constants that stand in their readers, as text by key.

    `roots` says what each folded view is a view of. A result, a constant that nobody reads, and
    what was asked for by name are nodes.
    """
    texts = {
        entry.key: number_text(entry.node.op.value)
        for entry in entries.all
        if isinstance(entry.node.op, Constant)
        and entry.key not in entries.outputs
        and entry.key not in loud
    }
    if not texts:
        return texts
    read = {
        roots.get(source, source)
        for entry in entries.all
        if entry.key not in roots
        for source in entry.sources
    }
    return {key: text for key, text in texts.items() if key in read}


def operands_of(
    entry: NodeEntry, roots: Mapping[int, int], scalars: Mapping[int, str]
) -> list[str | None]:
    """Return the scalars that a node reads, in the order of its sources, None for other values."""
    now = entry.sources[: len(entry.node.sources)]  # behind them stand those that it once read
    return [scalars.get(rooted_in(source, roots)) for source in now]


def with_scalars(label: str, op: Op, operands: Sequence[str | None]) -> str:
    """Return the label of an op with the scalars that it reads.

    >>> from luminal_lab.core.ops import Add, LessThan, Mul, Where
    >>> with_scalars("mul", Mul(), [None, "0.5"]), with_scalars("add", Add(), [None, "-1"])
    ('mul × 0.5', 'add − 1')
    >>> with_scalars("less_than", LessThan(), ["0", None])
    'less_than 0 < ·'
    >>> with_scalars("where", Where(), [None, "0", None])
    'where ·, 0, ·'
    """
    known = [operand for operand in operands if operand is not None]
    if not known:
        return label
    sign = SIGNS.get(op.name)
    if sign and op.commutative and len(known) == 1:
        (value,) = known
        is_less = sign == "+" and value.startswith("-")
        return f"{label} − {value[1:]}" if is_less else f"{label} {sign} {value}"
    shown = [operand or OPERAND for operand in operands] if len(operands) <= FEW else known
    if sign:
        return f"{label} {f' {sign} '.join(shown)}"
    if op.commutative and len(known) == 1:
        return f"{label} {known[0]}"
    return f"{label} {', '.join(shown)}"


def number_text(value: object) -> str:
    """Return a constant in few digits.

    >>> number_text(0.7978845608028654), number_text(1e-05), number_text(True)
    ('0.797885', '1e-5', 'True')
    """
    if not isinstance(value, float):
        return str(value)
    text = f"{value:.6g}"
    digits, e, power = text.partition("e")
    return f"{digits}e{int(power)}" if e else text

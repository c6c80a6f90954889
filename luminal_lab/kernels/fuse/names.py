"""The names of kernels: after the pattern recognised in the region, or else after its ops.

attention       attention, attention_causal
contraction     matmul, matmul_add_gelu, convolution_relu
rows            softmax, log_softmax, layer_norm, rms_norm
whole           what the pass calls it that made it, and what follows: q4_k_by_int8_add
anything else   its first and its last ops: mul_add, max_less_than_where
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from luminal_lab.core.ir import Node
from luminal_lab.core.op import Elementwise, Reduce
from luminal_lab.core.ops import (
    Cast,
    Gather,
    Iota,
    LessThan,
    MaxReduce,
    Random,
    SumReduce,
    Window,
)

ROWS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("cross_entropy", ("max", "exp", "sum", "log2", "gather")),
    ("log_softmax", ("max", "exp", "sum", "log2")),
    ("softmax", ("max", "exp", "sum", "recip")),
    ("layer_norm", ("sum", "sum", "sqrt", "recip")),
    ("rms_norm", ("sum", "sqrt", "recip")),
)
"""Rows that have a name, by ops that occur in this order; the first that fits is taken."""
COMPUTING = Elementwise, Reduce, Gather, Random
"""What names mention."""
MOST_AFTER = 2
"""The most ops after a product that its name mentions."""


def kernel_name(rule: str, inside: Sequence[Node]) -> str:
    """Return a name for a kernel of these nodes, sources first, made by a rule of fusion.

    Most chains have no name of their own.
    """
    computing = [node for node in inside if isinstance(node.op, COMPUTING)]
    words = [_word(node) for node in computing]
    if rule == "chain":
        folds = [type(node.op) for node in inside if isinstance(node.op, Reduce)]
        is_attention = MaxReduce in folds and folds.count(SumReduce) > 2
        return "attention" * is_attention + "_causal" * (is_attention and _is_causal(inside))
    if rule == "contraction":
        return "_".join(_product(inside, computing, words))
    if rule == "rows":
        for name, parts in ROWS:
            left = iter([word.replace("exp2", "exp") for word in words])
            if all(part in left for part in parts):
                return name
    short = [*dict.fromkeys(words)]
    return "_".join(short[:2] + short[-2:] if len(short) > 4 else short) or "copy"


def _word(node: Node) -> str:
    return node.op.name.removeprefix("math.").removesuffix("_reduce")


def _product(inside: Sequence[Node], computing: list[Node], words: list[str]) -> Iterator[str]:
    """Yield the word for a sum of products, and the ops applied to it."""
    sums = [at for at, node in enumerate(computing) if isinstance(node.op, SumReduce)]
    yield "convolution" if any(isinstance(node.op, Window) for node in inside) else "matmul"
    yield from words_after(computing[sums[-1] + 1 :] if sums else [])


def words_after(nodes: Iterable[Node]) -> list[str]:
    """Return the words for what follows a product, the last ones."""
    computing = [node for node in nodes if isinstance(node.op, COMPUTING)]
    named = [_word(node) for node in computing if not isinstance(node.op, Cast)]
    return [*dict.fromkeys(named)][-MOST_AFTER:]


def _is_causal(inside: Sequence[Node]) -> bool:
    """Return whether two positions are compared, as a causal mask does."""
    nodes = {node.id: node for node in inside}

    def counts(id: int) -> bool:
        todo, has_iota = [id], False
        while todo:
            node = nodes.get(todo.pop())
            if node is None or isinstance(node.op, Reduce):
                return False
            has_iota |= isinstance(node.op, Iota)
            todo += node.sources
        return has_iota

    compared = [node for node in inside if isinstance(node.op, LessThan)]
    return any(all(map(counts, node.sources)) for node in compared)

"""Attention: values mixed by the softmax of the products of queries and keys.

    %s = matmul %q, %k                    q: [batch…, rows, d], k: [batch…, columns, d]
    %m = where %mask, -inf, %s            or the scores plus a mask, times a scale, or unchanged
    %w = softmax over columns of %m
    %y = matmul %w, %v                    v: [batch…, columns, features], summed over columns

A mask that counts positions alone (a causal one) is part of the region; any other is its input.
"""

from __future__ import annotations

from collections.abc import Iterator

from luminal_lab.core.ir import Node
from luminal_lab.core.ops import Add, Call, Mul, SumReduce, Where
from luminal_lab.passes.recognition.contraction import SumOfProducts
from luminal_lab.passes.recognition.matmul import MATMUL
from luminal_lab.passes.recognition.reading import Reading, RecognisedRegion, Recogniser
from luminal_lab.passes.recognition.softmax import SOFTMAX

STEPS = 4
"""The most masks and scales."""


def _find(reading: Reading, node: Node) -> Iterator[RecognisedRegion]:
    mixed = reading.at(MATMUL, node)
    for weights, values in (("a", "b"), ("b", "a")) if mixed is not None else ():
        assert mixed is not None
        share = reading.at(SOFTMAX, mixed.sources[weights])
        if share is None:
            continue
        why = "the softmax {} is over axes {}, and attention wants one"
        if not reading.holds(len(share.axes) == 1, share.root, why, share.root, [*share.axes]):
            continue
        for scores, masks in _scores(reading, share.x, STEPS):
            for queries, keys in (("a", "b"), ("b", "a")):
                fits = _fits(scores, queries, keys, share.axes[0], mixed, weights, values)
                why = "{} and {} are not keys and values of the same rows"
                pair = scores.sources[keys], mixed.sources[values]
                if reading.holds(fits, node, why, *pair):
                    q, k, v = scores.sources[queries], scores.sources[keys], mixed.sources[values]
                    yield from _yielded(reading, node, q, k, v, masks)


def _yielded(
    reading: Reading, node: Node, q: Node, k: Node, v: Node, masks: tuple[Node, ...]
) -> Iterator[RecognisedRegion]:
    """Yield the region with the scale of the queries inside, and one without it."""
    names = [f"mask{number + 1 if number else ''}" for number in range(len(masks))]
    for query in (*(x for x, scale in reading.pairs(q, Mul) if reading.is_known(scale)), q):
        sources = {"q": query, "k": k, "v": v, **dict(zip(names, masks, strict=True))}
        because = f"{v} mixed by the softmax of the products of {query} and {k}"
        yield RecognisedRegion("attention", node, sources, because=because)


def _scores(
    reading: Reading, node: Node, steps: int
) -> Iterator[tuple[SumOfProducts, tuple[Node, ...]]]:
    """Yield the product below the scales and masks of scores, and the sources of the masks."""
    product = reading.at(MATMUL, node)
    if product is not None:
        yield product, ()
    if product is not None or not steps:
        return
    for x, scale in reading.pairs(node, Mul):
        if reading.is_known(scale):
            yield from _scores(reading, x, steps - 1)
    for x, mask in (*reading.pairs(node, Add), *_hidden(reading, node)):
        for scores, masks in _scores(reading, x, steps - 1):
            read = () if reading.is_known(mask) else (reading.squeezed(reading.base(mask)),)
            yield scores, (*masks, *read)


def _hidden(reading: Reading, node: Node) -> Iterator[tuple[Node, Node]]:
    """Yield scores and the condition that sets some of them to -inf."""
    if isinstance(node.op, Where):
        condition, yes, no = reading.sources(node)
        for scores, hidden in ((yes, no), (no, yes)):
            if reading.is_number(hidden, float("-inf")):
                yield scores, condition


def _fits(
    scores: SumOfProducts,
    queries: str,
    keys: str,
    axis: int,
    mixed: SumOfProducts,
    weights: str,
    values: str,
) -> bool:
    """Return whether the softmax and the sum of values run over the same axis of keys."""
    column, along = scores.result[axis], mixed.labels[weights][axis]
    of_keys = column in scores.labels[keys] and column not in scores.labels[queries]
    if not of_keys or along is None or mixed.summed != frozenset({along}):
        return False
    for position, label in enumerate(scores.result):
        if position != axis and label is not None:
            # Each batch has its own keys and values; rows have neither.
            own = (
                label in scores.labels[keys],
                mixed.labels[weights][position] in mixed.labels[values],
            )
            if own[0] != own[1]:
                return False
    return True


ATTENTION = Recogniser("attention", (*MATMUL.roots, Call), _find, {SumReduce: 0, Call: 0})

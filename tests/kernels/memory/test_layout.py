"""Layouts in one block of memory: as low as they can be, for all sizes; and the arena."""

from typing import Any

import pytest
from hypothesis import given, strategies as st

from luminal_lab.kernels.memory import layout as memory_layout
from luminal_lab.kernels.memory.layout import LifeSpan as Span, arrange, most_live

SPANS = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), max_size=20)
SIZES = st.lists(st.integers(0, 500), min_size=20, max_size=20)


def meet(a: Span, b: Span) -> bool:
    return a.first <= b.last and b.first <= a.last


@given(SPANS, SIZES, SIZES)
def test_an_order_holds_for_all_sizes(pairs: Any, sizes: Any, others: Any):
    spans = [Span(min(pair), max(pair)) for pair in pairs]
    layout = arrange(spans, [sizes[: len(spans)]])
    for found in (sizes[: len(spans)], others[: len(spans)]):
        starts = layout.offsets(found)
        height = layout.height(found)
        assert most_live(spans, found) <= height <= sum(found)
        for i, one in enumerate(spans):
            assert starts[i] + found[i] <= height
            for j, other in enumerate(spans[:i]):
                apart = starts[i] + found[i] <= starts[j] or starts[j] + found[j] <= starts[i]
                assert apart or not meet(one, other)


@given(SPANS, SIZES)
def test_neighbours_that_are_found_by_blocks_are_all(pairs: Any, sizes: Any):
    spans = [Span(min(pair) * 20, max(pair) * 20) for pair in pairs]
    sizes = sizes[: len(spans)]
    order = sorted(range(len(spans)), key=lambda i: -sizes[i])
    whole = memory_layout.best_fit(spans, sizes, order)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(memory_layout, "FEW", 0)
        patch.setattr(memory_layout, "BLOCK", 7)
        assert memory_layout.best_fit(spans, sizes, order) == whole
        patch.setattr(memory_layout, "FEW", 1 << 20)
        assert memory_layout.best_fit(spans, sizes, order) == whole


def test_the_better_order_wins():
    # By size the two long ones have a gap of 10 between them; by length they are neighbours.
    spans = [Span(0, 1), Span(1, 3), Span(3, 4), Span(0, 4), Span(2, 2)]
    sizes = [30, 20, 30, 10, 10]
    assert arrange(spans, [sizes]).height(sizes) == most_live(spans, sizes) == 60


def test_a_stack_and_a_chain_are_laid_out_without_loss():
    stack = [Span(k, 40 - k) for k in range(20)]
    chain = [Span(k, k + 1) for k in range(40)]
    for spans in (stack, chain, [*stack, *chain]):
        sizes = [64 * (1 + k % 3) for k in range(len(spans))]
        assert arrange(spans, [sizes]).height(sizes) <= 1.01 * most_live(spans, sizes)

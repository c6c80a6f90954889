"""How wide text is, and that things have room for what is written in them."""

import pytest

from luminal_lab.viz.entries import entries_of
from luminal_lab.viz.folding import payload_of
from luminal_lab.viz.layout import sizes_of
from luminal_lab.viz.metrics import text_width
from luminal_lab.viz.sizes import LABEL_SIZE, NAME_SIZE, TYPE_SIZE, WORD_SIZE, name_of, type_of
from tests.viz.graphs import gpt2, trained_mlp


@pytest.mark.parametrize(
    ("text", "size", "width"),
    # frontend/tests/data/metrics.test.ts has the same numbers.
    [("max_reduce axis 1", 12.5, 111.2), ("%h.0.attn → f32[4, 8]", 10, 91.9), ("ж@…", 16, 44.4)],
)
def test_widths_are_those_of_a_table(text, size, width):
    assert text_width(text, size) == width


@pytest.mark.parametrize("make", [gpt2, trained_mlp])
def test_what_a_node_says_fits_into_it_near_by_and_from_further_away(make):
    payload = payload_of(entries_of(make().ir))
    for item, (width, _) in zip(payload.items, sizes_of(payload, True), strict=False):
        near = text_width(item.label, LABEL_SIZE) + text_width(name_of(item), NAME_SIZE)
        assert near < width
        assert text_width(type_of(item, True), TYPE_SIZE) < width
        assert text_width(item.label, WORD_SIZE) < width
        assert "…" not in item.label + type_of(item, True)

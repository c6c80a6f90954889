"""The KV cache: rows are written once, unused capacity costs nothing, two graphs share buffers."""

import numpy as np
import pytest

from luminal_lab.core.ops import SumReduce, Update
from luminal_lab.errors import ArgumentError, DimError, GraphError, ShapeError
from luminal_lab.nn.attention import MultiheadAttention
from luminal_lab.nn.cache import KVCache
from luminal_lab.nn.rope import RotaryEmbedding
from luminal_lab.nn.transformer import (
    TransformerDecoder,
    TransformerDecoderLayer,
    TransformerEncoder,
    TransformerEncoderLayer,
)
from luminal_lab.session import Graph
from tests.expect import error_of
from tests.nn.beside import close, value_of
from tests.tensor.against import draw


def decoder(norm_first=True):
    options = {"num_kv_heads": 2, "rope": RotaryEmbedding(4), "norm_first": norm_first}
    layers = [TransformerEncoderLayer(16, 4, 32, **options) for _ in range(2)]
    return TransformerEncoder(layers).initialise(0).eval()


@pytest.mark.parametrize("steps", [[1] * 9, [4, 1, 1, 3], [9], [2, 7]], ids=str)
def test_what_comes_in_parts_is_what_comes_at_once(steps):
    model, x = decoder(), draw((2, sum(steps), 16))
    whole = value_of(lambda x: model(x, is_causal=True), x)
    cx = Graph()
    given = cx.tensor((2, "seq", 16), name="x")
    y = model(given, is_causal=True, cache=KVCache(cx, 10)).retrieve()
    past = 0
    for count in steps:
        cx.set_dim("past", past)
        given.set(x[:, past : past + count])
        cx.execute()
        close(y.numpy(), whole[:, past : past + count], 2e-5, f"step at {past}")
        past += count


@pytest.mark.parametrize("passes", [None, "generic"])
def test_advance_moves_by_the_rows_of_the_last_run(passes):
    model, x = decoder(), draw((2, 10, 16))
    whole = value_of(lambda x: model(x, is_causal=True), x)
    cx = Graph()
    given = cx.tensor((2, "seq", 16), name="x")
    cache = KVCache(cx, 10)
    y = model(given, is_causal=True, cache=cache).retrieve()
    if passes:
        cx.compile(passes)
    for _ in range(2):  # the second text begins anew
        cache.begin()
        for start, end in ((0, 4), (4, 5), (5, 6), (6, 10)):
            cache.advance()
            cache.advance()  # before a run it is as good as once
            given.set(x[:, start:end])
            cx.execute()
            close(y.numpy(), whole[:, start:end], 2e-5, f"{start} to {end}")
        error = error_of(lambda: cache.advance(), ShapeError)
        assert error.message == "advance: the cache is full: 10 positions, and capacity = 10"
        assert "test_cache.py" in error.where


def test_a_run_that_fails_is_not_advanced_over():
    cx = Graph()
    x, cache = cx.tensor((1, "seq", 8)), KVCache(cx, 6)
    y = MultiheadAttention(8, 2)(x, is_causal=True, cache=cache)
    seen: list[int] = []

    def fail(value):
        if value.shape[1] == 3:
            raise KeyboardInterrupt
        return value

    cx.function(fail, y, shape=y.shape).retrieve()
    cache.begin()
    for rows in (2, 3, 1):
        cache.advance()
        x.set(draw((1, rows, 8)))
        seen.append(cx._set_dims["past"])
        if rows == 3:
            error_of(cx.execute, KeyboardInterrupt)
        else:
            cx.execute()
    cache.advance()
    assert [*seen, cx._set_dims["past"]] == [0, 2, 2, 3]


def test_advance_must_know_where_it_is():
    cx = Graph()
    cache = KVCache(cx, 4)
    error = error_of(cache.advance, GraphError)
    assert error.message == "advance: it is not known how many positions of the cache are filled"
    assert error.hint == (
        "call begin() before the first run of a text, or begin(at=…) after transfer"
    )
    error = error_of(KVCache(cx, 4, past=0).begin, GraphError)
    assert error.message == "begin: past is 0, which is not one symbol that could be set"
    error = error_of(lambda: cache.begin(5), DimError)
    assert error.message == "dim 'past': 5 is out of its bounds, which are 0 to 4"
    assert "test_cache.py" in error.where


def test_a_decoder_beside_an_encoder():
    layers = [TransformerDecoderLayer(16, 4, 32) for _ in range(2)]
    model, x, memory = (
        TransformerDecoder(layers).initialise(0).eval(),
        draw((2, 5, 16)),
        draw((2, 3, 16)),
    )
    whole = value_of(lambda x, m: model(x, m, is_causal=True), x, memory)
    cx = Graph()
    given, seen = cx.tensor((2, 1, 16)), cx.tensor((2, 3, 16)).set(memory)
    y = model(given, seen, is_causal=True, cache=KVCache(cx, 5)).retrieve()
    for k in range(5):
        cx.set_dim("past", k)
        given.set(x[:, k : k + 1])
        cx.execute()
        close(y.numpy(), whole[:, k : k + 1], 2e-5, f"step {k}")


def test_a_single_query_needs_no_mask():
    cx = Graph()
    module = MultiheadAttention(16, 4)
    module(cx.tensor((1, 1, 16)), is_causal=True, cache=KVCache(cx, 8))
    assert not [
        node for node in cx.ir if node.op.name in {"iota", "less_than"} and node.shape != (1,)
    ]


def test_a_mask_of_the_users_counts_too():
    module, x = MultiheadAttention(16, 4).initialise(0), draw((1, 5, 16))
    seen = np.array([True, False, True, True, True])
    whole = value_of(lambda x: module(x, is_causal=True, mask=seen), x)
    for first in (2, 4):
        cx = Graph()
        cache = KVCache(cx, 6)
        given = cx.tensor((1, "seq", 16))
        mask = cx.tensor(("past + seq",), "bool")
        y = module(given, is_causal=True, mask=mask, cache=cache).retrieve()
        for start, end in ((0, first), (first, 5)):
            cx.set_dim("past", start)
            mask.set(seen[:end])
            given.set(x[:, start:end])
            cx.execute()
            close(y.numpy(), whole[:, start:end], 2e-5, f"{start} to {end}")


def test_no_score_is_made_for_unused_capacity():
    cx = Graph()
    MultiheadAttention(16, 4)(cx.tensor((1, "seq", 16)), is_causal=True, cache=KVCache(cx, 1000))
    large = [node for node in cx.ir if 1000 in node.shape]
    assert {node.op.name for node in large} == {"input", "update"}
    assert all(1000 not in node.shape for node in cx.ir if isinstance(node.op, SumReduce))


def test_no_run_is_looked_into():
    cx = Graph()
    x = cx.tensor((1, "seq", 16))
    decoder()(x, is_causal=True, cache=KVCache(cx, 8))
    assert not cx._probes  # with which the buffers would be copied, or launched one by one


def test_buffers_are_updated_and_carried():
    cx = Graph()
    cache = KVCache(cx, 8, past="done")
    module = MultiheadAttention(16, 4, num_kv_heads=2)
    module(cx.tensor((3, "seq", 16)), is_causal=True, cache=cache)
    assert str(cache.past) == "done"
    ((keys, values),) = cache.buffers
    assert (keys.name, values.name) == ("cache.0.keys", "cache.0.values")
    assert keys.shape == (3, 2, 8, 4)
    updates = [node for node in cx.ir if isinstance(node.op, Update)]
    assert [node.op for node in updates] == [Update(2, cache.past)] * 2
    assert set(cx.ir.carries) == {
        (update.id, buffer.id) for update, buffer in zip(updates, (keys, values), strict=True)
    }


def test_only_the_new_rows_change():
    cx = Graph()
    cache = KVCache(cx, 6)
    module = MultiheadAttention(8, 2)
    x = cx.tensor((1, "seq", 8))
    module(x, is_causal=True, cache=cache)
    ((keys, _),) = cache.buffers
    x.set(draw((1, 3, 8)))
    cx.set_dim("past", 0)
    cx.execute()
    before = keys.numpy()
    assert before[:, :, :3].any()
    assert not before[:, :, 3:].any()
    x.set(draw((1, 1, 8), seed=1))
    cx.set_dim("past", 3)
    cx.execute()
    after = keys.numpy()
    np.testing.assert_array_equal(after[:, :, :3], before[:, :, :3])
    assert after[:, :, 3].any()
    assert not after[:, :, 4:].any()


@pytest.mark.parametrize("move", ["transfer", "swap"])
def test_prefill_and_decode_are_two_graphs_with_one_cache(move):
    model, x = decoder(), draw((1, 9, 16))
    whole = value_of(lambda x: model(x, is_causal=True), x)
    prefill, decode = Graph("prefill"), Graph("decode")
    text, token = prefill.tensor((1, "seq", 16)), decode.tensor((1, 1, 16))
    first, then = KVCache(prefill, 12, past=0), KVCache(decode, 12)
    y = model(text, is_causal=True, cache=first).retrieve()
    z = model(token, is_causal=True, cache=then).retrieve()
    for seq in (4, 6):  # the second text begins anew
        text.set(x[:, :seq])
        if move == "transfer":
            first.clear()
        prefill.execute()
        close(y.numpy(), whole[:, :seq], 2e-5, "prefill")
        getattr(decode, move)(first.buffers, then.buffers)
        then.begin(at=seq)
        for k in range(seq, 9):
            then.advance()
            token.set(x[:, k : k + 1])
            decode.execute()
            close(z.numpy(), whole[:, k : k + 1], 2e-5, f"step {k}")


def test_the_weights_of_two_graphs_are_one():
    model = decoder()
    graphs = Graph("prefill"), Graph("decode")
    for cx in graphs:
        model(cx.tensor((1, "seq", 16)), is_causal=True, cache=KVCache(cx, 4))
    assert graphs[0].parameters == graphs[1].parameters


def test_a_symbolic_batch_is_given_by_clear():
    module, x = MultiheadAttention(8, 2).initialise(0), draw((3, 4, 8))
    cx = Graph()
    cache = KVCache(cx, 4)
    given = cx.tensor(("batch", "seq", 8)).set(x)
    y = module(given, is_causal=True, cache=cache).retrieve()
    cx.set_dim("past", 0)
    assert "cache.0.keys was never set" in error_of(cx.execute).message
    cache.clear(batch=3)
    cx.execute()
    close(y.numpy(), value_of(lambda x: module(x, is_causal=True), x), 1e-6, "the value")


def test_stale_rows_are_never_read():
    module, x = MultiheadAttention(8, 2).initialise(0), draw((1, 3, 8))
    cx = Graph()
    cache = KVCache(cx, 6)
    given = cx.tensor((1, "seq", 8)).set(x)
    y = module(given, is_causal=True, cache=cache).retrieve()
    ((keys, values),) = cache.buffers
    for buffer in (keys, values):
        buffer.set(np.full((1, 2, 6, 4), np.nan))
    cx.set_dim("past", 0)
    cx.execute()
    assert np.isfinite(y.numpy()).all()


def test_a_cell_that_runs_again_takes_its_buffers_back():
    cx = Graph()
    cache, x = KVCache(cx, 4), cx.tensor((1, 1, 8))
    counts: set[int] = set()
    for _ in range(3):
        cx._begin("model")  # what the notebook calls before the cell with this id
        module = MultiheadAttention(8, 2)
        cx._begin("call")
        y = module(x, is_causal=True, cache=cache)
        assert [b.name for pair in cache.buffers for b in pair] == [
            "cache.0.keys",
            "cache.0.values",
        ]
        counts.add(len(cx.ir))
    assert len(counts) == 1
    assert y.shape == (1, 1, 8)
    assert repr(cache) == "<KVCache past=past, capacity=4, attentions=1>"


def test_a_half_precision_cache():
    cx = Graph()
    cache = KVCache(cx, 4)
    MultiheadAttention(8, 2, dtype="bfloat16")(cx.tensor((1, 1, 8), "bfloat16"), cache=cache)
    assert [x.dtype for pair in cache.buffers for x in pair] == ["bfloat16"] * 2


def test_errors():
    cx = Graph()
    wrong: object = 64
    error = error_of(lambda: KVCache(wrong, 64), ArgumentError)  # pyright: ignore[reportArgumentType]
    assert error.message == "kv_cache: 64 is not a graph"
    assert error.hint == "the graph comes first, as in KVCache(cx, capacity=1024)"
    assert error_of(lambda: KVCache(cx, 0), ShapeError).message == "kv_cache: capacity is 0"
    module, cache = MultiheadAttention(8, 2), KVCache(cx, 4)
    x = cx.tensor((1, "seq", 8)).set(draw((1, 3, 8)))
    module(x, is_causal=True, cache=cache)
    error = error_of(lambda: module(x, is_causal=True, cache=cache), GraphError)
    assert error.message == (
        "kv_cache: this attention has written into %cache.0.keys (1, 2, 4, 4) already"
    )
    assert error.hint == "make another KVCache for another call in the same graph"
    cx.set_dim("past", 2)
    error = error_of(cx.execute, ShapeError)
    assert error.message == (
        "update: 3 rows at 2 do not fit into axis 2 of the buffer (1, 2, 4, 4)"
    )
    assert error.hint == "make the buffer larger, or start earlier"
    assert "module(x, is_causal=True, cache=cache)" in error.where
    error = error_of(lambda: cx.set_dim("past", 5), DimError)
    assert error.message == "dim 'past': 5 is out of its bounds, which are 0 to 4"
    elsewhere = Graph().tensor((1, 1, 8), name="x")
    error = error_of(lambda: module(elsewhere, cache=cache), GraphError)
    assert error.message.endswith("(1, 2, 1, 4) belongs to another graph than the cache")
    with_too_many = cx.tensor((1, 5, 8))
    error = error_of(lambda: module(with_too_many, cache=KVCache(cx, 4, past=0)), ShapeError)
    assert error.message == "kv_cache: 5 rows at 0 are more than its capacity, 4"
    assert error.hint == "make the capacity larger, or give fewer at a time"
    assert "test_cache.py" in error.where
    cache = KVCache(Graph(), 4)
    module(cache.graph.tensor((1, 2, 8)), cache=cache)
    error = error_of(lambda: module(cache.graph.tensor((3, 2, 8)), cache=cache), ShapeError)
    assert error.message.endswith(
        "(3, 2, 2, 4) does not go into the buffer %cache.0.keys (1, 2, 4, 4)"
    )
    assert error.hint == "make a cache for each batch; only the number of rows may differ"
    error = error_of(lambda: KVCache(cx, 4, past=4), ShapeError)
    assert error.message == "kv_cache: past is 4 already, and the capacity is 4"
    assert "test_cache.py" in error_of(lambda: KVCache(cx, 4, past="a b")).where

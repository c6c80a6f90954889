"""Attention beside PyTorch's: masks, shared keys, rotated positions; values and gradients."""

from typing import Any

import numpy as np
import pytest

from luminal_lab.errors import ArgumentError, DTypeError, RangeError, ShapeError
from luminal_lab.nn.attention import MultiheadAttention, seen_from
from luminal_lab.nn.cache import KVCache
from luminal_lab.nn.rope import RotaryEmbedding
from luminal_lab.session import Graph
from tests.expect import error_of
from tests.nn.beside import beside, close, value_of
from tests.tensor.against import draw

MASK = np.array(
    [[1, 0, 1, 0, 1], [0, 1, 1, 1, 0], [1, 1, 1, 1, 1], [0, 0, 0, 0, 1], [1, 0, 0, 0, 0]], bool
)


def attention(torch, width=16, heads=4, **options):
    torch.manual_seed(0)
    witness = torch.nn.MultiheadAttention(width, heads, batch_first=True, **options)
    for name, weight in witness.named_parameters():
        if name.endswith("bias"):  # they begin as 0
            torch.nn.init.normal_(weight)
    return witness


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("shape", [(2, 5, 16), (1, 1, 16), (5, 16)])
def test_self_attention(torch, bias, shape):
    witness = attention(torch, bias=bias)
    beside(
        torch,
        MultiheadAttention(16, 4, bias=bias),
        witness,
        draw(shape),
        theirs=lambda x: witness(x, x, x, need_weights=False)[0],
    )


@pytest.mark.parametrize(
    ("kdim", "vdim"), [(None, None), (6, 10), (16, 8)], ids=["one width", "three", "two"]
)
def test_cross_attention(torch, kdim, vdim):
    witness = attention(torch, kdim=kdim, vdim=vdim)
    beside(
        torch,
        MultiheadAttention(16, 4, kdim=kdim, vdim=vdim),
        witness,
        draw((2, 3, 16)),
        draw((2, 7, kdim or 16), seed=1),
        draw((2, 7, vdim or 16), seed=2),
        theirs=lambda q, k, v: witness(q, k, v, need_weights=False)[0],
    )


def test_causal_attention(torch):
    witness = attention(torch)
    hidden = torch.ones(5, 5, dtype=torch.bool).triu(1)
    beside(
        torch,
        module := MultiheadAttention(16, 4),
        witness,
        draw((2, 5, 16)),
        ours=lambda x: module(x, is_causal=True),
        theirs=lambda x: witness(x, x, x, attn_mask=hidden, need_weights=False)[0],
    )


@pytest.mark.parametrize("causal", [False, True])
def test_a_mask_of_bools_is_true_where_a_key_is_seen(torch, causal):
    witness = attention(torch)
    seen = np.tril(MASK) | np.eye(5, dtype=bool) if causal else MASK
    beside(
        torch,
        module := MultiheadAttention(16, 4),
        witness,
        draw((2, 5, 16)),
        ours=lambda x: module(
            x, mask=MASK | np.eye(5, dtype=bool) if causal else MASK, is_causal=causal
        ),
        theirs=lambda x: witness(x, x, x, attn_mask=~torch.tensor(seen), need_weights=False)[0],
    )


def test_a_mask_of_floats_is_added(torch):
    witness, mask = attention(torch), draw((5, 5), seed=3)
    mask[1, 2] = -np.inf
    beside(
        torch,
        module := MultiheadAttention(16, 4),
        witness,
        draw((2, 5, 16)),
        ours=lambda x: module(x, mask=mask),
        theirs=lambda x: witness(x, x, x, attn_mask=torch.tensor(mask), need_weights=False)[0],
    )


def test_padding_is_a_mask_of_one_sample(torch):
    witness, there = attention(torch), np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]], bool)
    beside(
        torch,
        module := MultiheadAttention(16, 4),
        witness,
        draw((2, 5, 16)),
        ours=lambda x: module(x, mask=there[:, None, None, :]),
        theirs=lambda x: witness(
            x, x, x, key_padding_mask=~torch.tensor(there), need_weights=False
        )[0],
    )


def test_what_sees_nothing_is_the_bias_alone():
    module = MultiheadAttention(8, 2).initialise(1)
    module.load_state_dict({**module.state_dict(), "out_proj.bias": draw((8,))})
    mask = np.ones((3, 3), bool)
    mask[1] = False
    found = value_of(lambda x: module(x, mask=mask), draw((1, 3, 8)))
    np.testing.assert_array_equal(found[0, 1], draw((8,)))
    assert np.isfinite(found).all()


@pytest.mark.parametrize("kv_heads", [1, 2, 4])
def test_grouped_queries_are_repeated_keys(torch, kv_heads):
    # The same as with as many heads of keys, those of a group being equal.
    torch.manual_seed(0)
    weight, out = torch.randn(16 + 8 * kv_heads, 16), torch.randn(16, 16)

    class Witness(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.in_proj_weight = torch.nn.Parameter(weight * 0.3)
            self.out_proj = torch.nn.Linear(16, 16, bias=False)
            self.out_proj.weight = torch.nn.Parameter(out)

        def forward(self, x):
            sizes = [16, 4 * kv_heads, 4 * kv_heads]
            parts = (x @ self.in_proj_weight.T).split(sizes, -1)
            q, k, v = (y.unflatten(-1, (-1, 4)).transpose(1, 2) for y in parts)
            k, v = (y.repeat_interleave(4 // kv_heads, 1) for y in (k, v))
            mixed = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            return self.out_proj(mixed.transpose(1, 2).flatten(2))

    beside(
        torch,
        module := MultiheadAttention(16, 4, bias=False, num_kv_heads=kv_heads),
        Witness(),
        draw((2, 5, 16)),
        ours=lambda x: module(x, is_causal=True),
    )


def test_rotation_makes_scores_depend_on_the_distance():
    module = MultiheadAttention(16, 2, rope=RotaryEmbedding(8)).initialise(3)
    plain = MultiheadAttention(16, 2)
    plain.load_state_dict(module.state_dict())
    x = draw((1, 6, 16))
    shuffled = x[:, [0, 2, 1, 3, 4, 5]]
    # Without positions the last query does not know the order of what it sees.
    order = [value_of(plain, y)[0, -1] for y in (x, shuffled)]
    close(order[0], order[1], 1e-5, "without positions")
    order = [value_of(module, y)[0, -1] for y in (x, shuffled)]
    assert np.abs(order[0] - order[1]).max() > 1e-3


def test_dropout_drops_in_training_alone():
    module = MultiheadAttention(16, 4, dropout=0.5).initialise(0)
    x = draw((1, 8, 16))
    kept = MultiheadAttention(16, 4)
    kept.load_state_dict(module.state_dict())
    assert np.abs(value_of(module, x) - value_of(kept, x)).max() > 1e-2
    np.testing.assert_array_equal(value_of(module.eval(), x), value_of(kept, x))


def test_half_precision(torch):
    module = MultiheadAttention(16, 4, dtype="bfloat16").initialise(0)
    exact = MultiheadAttention(16, 4)
    state = {k: v.astype(np.float32) for k, v in module.state_dict().items()}
    x = torch.tensor(draw((1, 5, 16))).bfloat16().float().numpy()
    found = value_of(lambda x: module(x.cast("bfloat16"), is_causal=True), x)
    assert str(found.dtype) == "bfloat16"
    exact.load_state_dict(state)
    wanted = value_of(lambda x: exact(x, is_causal=True), x)
    close(found.astype(np.float32), wanted, 2e-2, "bfloat16")


def test_sizes_may_be_symbolic():
    cx, module = Graph(), MultiheadAttention(16, 4, num_kv_heads=2).initialise(0)
    x = cx.tensor(("batch", "seq", 16))
    y = module(x, is_causal=True).retrieve()
    for shape in ((2, 5, 16), (1, 1, 16), (3, 7, 16)):
        x.set(draw(shape))
        cx.execute()
        wanted = value_of(lambda x: module(x, is_causal=True), draw(shape))
        np.testing.assert_array_equal(y.numpy(), wanted)


@pytest.mark.parametrize("past", [0, 3])
@pytest.mark.parametrize("kind", ["none", "bool", "float"])
def test_the_mask_of_queries_that_begin_later(past, kind):
    cx = Graph()
    query = cx.tensor((1, 2, "seq", 4)).set(np.zeros((1, 2, 3, 4)))
    given = {"none": None, "bool": draw((3, 3 + past), "bool"), "float": draw((3, 3 + past))}[kind]
    mask = None if given is None else cx.tensor(given.shape, given.dtype).set(given)
    fixed = cx.tensor((1, 2, 3, 4))
    found = seen_from(past, fixed, mask).retrieve()
    free = seen_from(cx.dim("past", 0), query, None).retrieve()
    cx.set_dim("past", past)
    cx.execute()
    seen = np.tril(np.ones((3, 3 + past), bool), past)
    wanted = (
        seen
        if given is None
        else seen & given
        if kind == "bool"
        else np.where(seen, given, -np.inf)
    )
    np.testing.assert_array_equal(found.numpy(), wanted)
    np.testing.assert_array_equal(free.numpy(), seen)


def test_weights_are_named_as_pytorchs(torch):
    kinds: list[dict[str, Any]] = [{}, {"bias": False}, {"kdim": 6, "vdim": 10}]
    for options in kinds:
        ours, theirs = MultiheadAttention(16, 4, **options), attention(torch, **options)
        assert {k: v.shape for k, v in ours.state_dict().items()} == {
            k: tuple(v.shape) for k, v in theirs.state_dict().items()
        }


def test_first_weights():
    state = MultiheadAttention(64, 4).initialise(0).state_dict()
    assert not state["in_proj_bias"].any()
    assert not state["out_proj.bias"].any()
    assert np.abs(state["in_proj_weight"]).max() == pytest.approx((6 / (4 * 64)) ** 0.5, rel=0.01)
    assert np.abs(state["out_proj.weight"]).max() == pytest.approx(1 / 8, rel=0.01)


def test_scopes():
    cx = Graph()
    MultiheadAttention(8, 2)(cx.tensor((1, 3, 8)))
    scopes = {node.meta.scope for node in cx.ir}
    assert scopes == {"", "multihead_attention", "multihead_attention.out_proj"}


@pytest.mark.parametrize("past", [0, 3])
@pytest.mark.parametrize("window", [None, 1, 3, 50])
@pytest.mark.parametrize("slopes", [(), (0.5, 0.25)])
def test_windows_and_slopes(past, window, slopes):
    q, k, v = (draw((1, 7, 8), seed=seed) for seed in range(3))
    attention, cx = MultiheadAttention(8, 2), Graph()
    cache = KVCache(cx, 7)
    given = [cx.tensor((1, "seq", 8)) for _ in range(3)]
    options: Any = {"is_causal": True, "window": window, "slopes": slopes, "scale": 0.7}
    result = attention.attend(*given, cache=cache, **options).retrieve()
    cache.begin()
    rows: list[np.ndarray] = []
    for part in [slice(0, past), slice(past, 7)] if past else [slice(0, 7)]:
        cache.advance()
        for tensor, x in zip(given, (q, k, v), strict=True):
            tensor.set(x[:, part])
        cx.execute()
        rows.append(result.numpy().copy())
    apart = [x.reshape(7, 2, 4).swapaxes(0, 1).astype(float) for x in (q, k, v)]
    far = np.arange(7)[:, None] - np.arange(7)  # [queries, keys]
    scores = 0.7 * apart[0] @ apart[1].swapaxes(1, 2)
    scores -= np.array(slopes or (0, 0)).reshape(2, 1, 1) * far
    shares = np.where((far >= 0) & (far < (window or 50)), np.exp(scores), 0)
    wanted = (shares / shares.sum(-1, keepdims=True) @ apart[2]).swapaxes(0, 1).reshape(1, 7, 8)
    np.testing.assert_allclose(np.concatenate(rows, 1), wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("options", "kind", "message"),
    [
        ({"is_causal": True, "window": 0}, ShapeError, "attention: window is 0"),
        (
            {"is_causal": True, "slopes": (0.5,)},
            ShapeError,
            "attention: 1 slopes are given for 2 heads",
        ),
        (
            {"window": 3},
            ArgumentError,
            "attention: a window and slopes count positions before each query, and is_causal is "
            "False",
        ),
    ],
)
def test_windows_and_slopes_that_do_not_fit(options, kind, message):
    cx = Graph()
    x, before = cx.tensor((1, 5, 8)), str(cx)
    error = error_of(lambda: MultiheadAttention(8, 2).attend(x, x, x, **options), kind)
    assert error.message == message
    assert "MultiheadAttention(8, 2).attend" in str(error.where)
    assert str(cx) == before


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (
            lambda: MultiheadAttention(16, 3),
            ShapeError,
            "multihead_attention: heads is 3, which does not divide width, 16",
        ),
        (
            lambda: MultiheadAttention(16, 4, num_kv_heads=3),
            ShapeError,
            "multihead_attention: kv_heads is 3, which does not divide heads, 4",
        ),
        (lambda: MultiheadAttention(16, 0), ShapeError, "multihead_attention: heads is 0"),
        (
            lambda: MultiheadAttention(16, 4, 1.5),
            RangeError,
            "multihead_attention: p is 1.5, which is not a probability",
        ),
        (
            lambda: MultiheadAttention(16, 4)(Graph().tensor((2, 5, 8), name="x")),
            ShapeError,
            "multihead_attention: embed_dim is 16, but in %x (2, 5, 8) axis -1 has 8",
        ),
        (
            lambda: MultiheadAttention(16, 4, rope=RotaryEmbedding(16)),
            ShapeError,
            "multihead_attention: the rope turns 16 features, and a head has 4",
        ),
        (
            lambda: MultiheadAttention(16, 4, rope=RotaryEmbedding(4))(
                (x := Graph().tensor((5, 16))), x + 1
            ),
            ArgumentError,
            "multihead_attention: it has a rope, but queries and keys are two tensors",
        ),
        (
            lambda: MultiheadAttention(16, 4)(
                (cx := Graph()).tensor((5, 16)), mask=cx.tensor((5,), "int64", "there")
            ),
            DTypeError,
            "attention: the mask %there (5,) is int64",
        ),
    ],
)
def test_errors(call, kind, message):
    error = error_of(call, kind)
    assert error.message == message
    assert error.hint
    assert "MultiheadAttention(16" in str(error.where)

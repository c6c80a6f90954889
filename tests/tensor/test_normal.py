"""Normalisation, dropout and attention, against PyTorch."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from luminal_lab.errors import (
    ArgumentError,
    AxisError,
    DTypeError,
    LabError,
    RangeError,
    ShapeError,
)
from luminal_lab.session import Graph
from tests.expect import error_of
from tests.tensor.against import against, draw, interpret, same

INF, NAN = math.inf, math.nan
# Sums in another order, and a reciprocal where PyTorch divides.
LOOSE = {"rtol": 1e-5, "atol": 1e-6}
SHAPES = [(5,), (3, 4), (4, 4), (1, 3), (3, 1), (0, 3), (3, 0), (2, 3, 4), (2, 0, 3), (2, 1, 3, 2)]


def cases() -> list[tuple[tuple[int, ...], int]]:
    return [(shape, axis) for shape in SHAPES for axis in (*range(len(shape)), -1)]


# -- softmax ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["softmax", "log_softmax", "softmin", "logsumexp"])
def test_softmaxes(torch, name):
    functional = torch.nn.functional
    theirs = getattr(functional, name, None) or getattr(torch, name)
    for shape, axis in cases():
        against(
            torch,
            lambda x, k=axis: getattr(x, name)(k),
            lambda x, k=axis: theirs(x, k),
            draw(shape, low=-9, high=9),
            **LOOSE,
        )


@pytest.mark.parametrize("dtype", ["float64", "float16", "bfloat16"])
@pytest.mark.parametrize("name", ["softmax", "log_softmax", "logsumexp"])
def test_softmaxes_of_other_dtypes(torch, name, dtype):
    against(
        torch,
        lambda x: getattr(x, name)(-1),
        lambda x: getattr(torch, name)(x, -1),
        draw((3, 7), dtype, low=-9, high=9),
        atol=1e-2 if dtype == "bfloat16" else 1e-3 if dtype == "float16" else 1e-13,
    )


ROWS = [
    [-INF, 1, 2],
    [-INF, -INF, -INF],
    [-INF, -INF, 3],
    [INF, 1, 2],
    [INF, INF, 1],
    [INF, -INF, 0],
    [NAN, 1, 2],
    [NAN, -INF, INF],
    [1000, 1000, 999],
    [-1000, -1001, -1000],
    [3e38, 3e38, -3e38],
    [0.0, -0.0, 1e-38],
    [88.5, 0, -110],
]


@pytest.mark.parametrize("name", ["softmax", "log_softmax", "logsumexp"])
def test_rows_of_special_values(torch, name):
    x = np.array(ROWS, np.float32)
    against(torch, lambda t: getattr(t, name)(1), lambda t: getattr(torch, name)(t, 1), x, **LOOSE)


def test_softmax_of_views_and_integers(torch):
    x = draw((4, 6))
    softmax = torch.softmax
    against(torch, lambda t: t.T.softmax(0), lambda t: softmax(t.T, 0), x, **LOOSE)
    against(torch, lambda t: t[::2].softmax(dim=1), lambda t: softmax(t[::2], 1), x, **LOOSE)
    wide = lambda t: t.expand(3, 4, 6)  # noqa: E731
    against(torch, lambda t: wide(t).softmax(-2), lambda t: softmax(wide(t), -2), x, **LOOSE)
    whole = draw((3, 4), "int32")
    against(
        torch,
        lambda t: t.softmax(1, dtype="float64"),
        lambda t: softmax(t, 1, dtype=torch.float64),
        whole,
    )


def test_softmax_over_several_axes_is_that_of_the_flattened():
    x = draw((2, 3, 4))
    found = interpret(lambda t: t.softmax((0, 2)), x)
    flat = np.exp(np.moveaxis(x, 1, 0).reshape(3, 8).astype(np.float64))
    wanted = np.moveaxis((flat / flat.sum(1, keepdims=True)).reshape(3, 2, 4), 0, 1)
    same(found, wanted, rtol=1e-6)


def test_softmax_and_logsumexp_within_a_millionth_of_the_truth():
    x = draw((200, 50), low=-6, high=6).astype(np.float64)
    large = x + np.linspace(-1e4, 1e4, 200)[:, None]
    for given in (x.astype(np.float32), large.astype(np.float32)):
        wide = given.astype(np.float64)
        top = wide.max(1, keepdims=True)
        power = np.exp(wide - top)
        wanted = power / power.sum(1, keepdims=True)
        same(interpret(lambda t: t.softmax(1), given), wanted, rtol=2e-6)
        total = np.log(power.sum(1)) + top[:, 0]
        same(interpret(lambda t: t.logsumexp(1), given), total, rtol=1e-6)


# -- over axes ----------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
@pytest.mark.parametrize(("shape", "rank"), [((3, 8), 1), ((2, 3, 4), 2), ((0, 4), 1), ((2, 1), 1)])
def test_layer_norm_and_rms_norm(torch, shape, rank, dtype):
    functional, sizes = torch.nn.functional, shape[-rank:]
    axes = tuple(range(-rank, 0))
    x = draw(shape, dtype)
    weight, bias = draw(sizes, dtype, seed=1), draw(sizes, dtype, seed=2)
    tolerance = {"float32": 1e-5, "float64": 1e-12, "float16": 4e-3, "bfloat16": 4e-2}[dtype]
    near = {"rtol": tolerance, "atol": tolerance}
    against(
        torch,
        lambda t: t.layer_norm(axes),
        lambda t: functional.layer_norm(t, sizes),
        x,
        **near,
    )
    against(
        torch,
        lambda t, w, b: t.layer_norm(axes if rank > 1 else -1, 1e-3, w, b),
        lambda t, w, b: functional.layer_norm(t, sizes, w, b, 1e-3),
        *(x, weight, bias),
        **near,
    )
    for eps in (None, 1e-3):
        against(
            torch,
            lambda t, w, e=eps: t.rms_norm(axes, e, w),
            lambda t, w, e=eps: functional.rms_norm(t, sizes, w, e),
            *(x, weight),
            **near,
        )


def test_layer_norm_over_leading_axes_is_that_of_the_permuted(torch):
    layer_norm = torch.nn.functional.layer_norm
    x, weight = draw((4, 3, 2)), draw((4,), seed=1)
    against(
        torch,
        lambda t, w: t.layer_norm(0, weight=w),
        lambda t, w: layer_norm(t.permute(1, 2, 0), (4,), w).permute(2, 0, 1),
        *(x, weight),
        **LOOSE,
    )


def test_mean_norm_and_std_norm():
    x = draw((3, 4, 2))
    for axis in (0, -1, (0, 2), None):
        mean = x.mean(axis, keepdims=True)
        same(interpret(lambda t, k=axis: t.mean_norm(k), x), x - mean, rtol=1e-5, atol=1e-6)
        root = np.sqrt((x.astype(np.float64) ** 2).mean(axis, keepdims=True) + 0.1)
        same(interpret(lambda t, k=axis: t.std_norm(k, 0.1), x), x / root, rtol=1e-5)


def test_squares_of_large_halves_do_not_overflow(torch):
    x = np.array([[300.0, -400.0, 60000.0]], np.float16)
    layer_norm = torch.nn.functional.layer_norm
    against(torch, lambda t: t.layer_norm(1), lambda t: layer_norm(t, (3,)), x, rtol=2e-3)


@pytest.mark.parametrize("p", [2, 1, 3.0, INF])
def test_normalize(torch, p):
    normalize = torch.nn.functional.normalize
    for shape in ((3, 4), (2, 3, 4), (3, 0), (2, 1)):
        for axis in (0, 1, -1):
            if p == INF and 0 in shape:
                continue
            against(
                torch,
                lambda t, k=axis: t.normalize(p, k),
                lambda t, k=axis: normalize(t, p, k),
                draw(shape),
                **LOOSE,
            )
    zero = np.zeros((2, 3), np.float32)
    against(torch, lambda t: t.normalize(p), lambda t: normalize(t, p), zero)


# -- over channels ------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(2, 6), (2, 6, 5), (3, 6, 4, 2), (1, 6, 1, 3)])
def test_group_norm(torch, shape):
    x, weight, bias = draw(shape), draw((6,), seed=1), draw((6,), seed=2)
    group_norm = torch.nn.functional.group_norm
    for groups in (1, 2, 3):
        against(
            torch,
            lambda t, w, b, g=groups: t.group_norm(g, w, b),
            lambda t, w, b, g=groups: group_norm(t, g, w, b),
            *(x, weight, bias),
            **LOOSE,
        )


@pytest.mark.parametrize("shape", [(2, 3, 5), (2, 3, 4, 2)])
def test_instance_norm_and_local_response_norm(torch, shape):
    functional = torch.nn.functional
    x, weight, bias = draw(shape), draw((3,), seed=1), draw((3,), seed=2)
    against(
        torch,
        lambda t, w, b: t.instance_norm(w, b),
        lambda t, w, b: functional.instance_norm(t, weight=w, bias=b),
        *(x, weight, bias),
        **LOOSE,
    )
    for size in (1, 2, 3, 5):
        against(
            torch,
            lambda t, s=size: t.local_response_norm(s, 0.1, 0.6, 2.0),
            lambda t, s=size: functional.local_response_norm(t, s, 0.1, 0.6, 2.0),
            x,
            **LOOSE,
        )


@pytest.mark.parametrize("shape", [(4, 3), (2, 3, 5), (2, 3, 4, 2), (0, 3)])
def test_batch_norm(torch, shape):
    batch_norm = torch.nn.functional.batch_norm
    mean, weight, bias = (draw((3,), seed=k) for k in (1, 2, 3))
    spread = draw((3,), low=0.1, high=2)
    against(
        torch,
        lambda t, m, v, w, b: t.batch_norm(m, v, w, b),
        lambda t, m, v, w, b: batch_norm(t, m, v, w, b),
        *(draw(shape), mean, spread, weight, bias),
        **LOOSE,
    )


# -- distances ----------------------------------------------------------------------------------


def test_distances(torch):
    functional = torch.nn.functional
    a, b = draw((2, 3, 4)), draw((3, 4), seed=1)
    for axis in (1, 0, -1):
        against(
            torch,
            lambda x, y, k=axis: x.cosine_similarity(y, k),
            lambda x, y, k=axis: functional.cosine_similarity(x, y, k),
            *(a, b),
            **LOOSE,
        )
    for p, keepdim in ((2, False), (1, True), (3.0, False)):
        against(
            torch,
            lambda x, y, p=p, k=keepdim: x.pairwise_distance(y, p, keepdim=k),
            lambda x, y, p=p, k=keepdim: functional.pairwise_distance(x, y, p, keepdim=k),
            *(a, b),
            **LOOSE,
        )


# -- dropout ------------------------------------------------------------------------------------


def test_dropout():
    x = np.ones((200, 300), np.float32)
    found = interpret(lambda t: t.dropout(0.25), x)
    assert set(np.unique(found)) == {np.float32(0), np.float32(1 / 0.75)}
    assert abs((found == 0).mean() - 0.25) < 0.01
    same(interpret(lambda t: t.dropout(1.0), x), np.zeros_like(x), rtol=0)
    cx = Graph()
    t = cx.tensor((3,))
    assert t.dropout(0) is t
    assert t.dropout(0.5, training=False) is t


def test_dropouts_have_their_own_streams_and_change_from_run_to_run():
    cx = Graph(seed=3)
    x = cx.tensor((4, 50)).set(np.ones((4, 50)))
    one, two = x.dropout().retrieve(), x.dropout().retrieve()
    cx.execute()
    first = one.numpy().copy()
    assert (first != two.numpy()).any()
    cx.execute()
    assert (first != one.numpy()).any()
    again = Graph(seed=3)
    same_seed = again.tensor((4, 50)).set(np.ones((4, 50))).dropout().retrieve()
    again.execute()
    same(same_seed.numpy(), first, rtol=0)


def test_feature_dropout_drops_whole_channels():
    found = interpret(lambda t: t.dropout2d(0.5), np.ones((8, 16, 3, 3), np.float32))
    spread = found.reshape(128, 9)
    assert (spread == spread[:, :1]).all()
    assert set(np.unique(found)) == {np.float32(0), np.float32(2)}


# -- attention ----------------------------------------------------------------------------------


def attention(torch, ours: Callable, theirs: Callable, *arrays: np.ndarray, **near) -> None:
    against(
        torch,
        lambda q, k, v, *m: ours(q.scaled_dot_product_attention, k, v, *m),
        lambda q, k, v, *m: theirs(
            lambda *a, **b: torch.nn.functional.scaled_dot_product_attention(q, *a, **b), k, v, *m
        ),
        *arrays,
        **(LOOSE | near),
    )


def simple(f: Callable, *tensors: object, **settings: object) -> object:
    return f(*tensors, **settings)


@pytest.mark.parametrize("batch", [(), (2,), (2, 3), (1, 0)])
def test_attention(torch, batch):
    q, k, v = draw((*batch, 5, 8)), draw((*batch, 6, 8), seed=1), draw((*batch, 6, 4), seed=2)
    attention(torch, simple, simple, q, k, v)
    causal = lambda f, k, v: f(k, v, is_causal=True)  # noqa: E731
    attention(torch, causal, causal, q, k, v)
    scaled = lambda f, k, v: f(k, v, scale=0.3)  # noqa: E731
    attention(torch, scaled, scaled, q, k, v)
    mask = draw((5, 6), "bool", seed=3)
    mask[:, 0] = True
    attention(torch, simple, simple, q, k, v, mask)
    attention(torch, simple, simple, q, k, v, draw((5, 6), seed=4))


def test_a_query_that_sees_no_key_gets_zeros(torch):
    q, k, v = (draw((4, 8), seed=n) for n in range(3))
    mask = np.tril(np.ones((4, 4), bool))
    mask[1] = False
    attention(torch, simple, simple, q, k, v, mask)
    attention(torch, simple, simple, q, k, v, np.where(mask, 0, -INF).astype(np.float32))


@pytest.mark.parametrize("dtype", ["float64", "float16", "bfloat16"])
def test_attention_of_other_dtypes(torch, dtype):
    q, k, v = (draw((2, 4, 8), dtype, seed=n) for n in range(3))
    near = {"float64": 1e-12, "float16": 4e-3, "bfloat16": 4e-2}[dtype]
    attention(torch, simple, simple, q, k, v, rtol=near, atol=near)


def test_heads_of_a_key_are_shared(torch):
    q, k, v = draw((2, 6, 3, 4)), draw((2, 2, 5, 4), seed=1), draw((2, 2, 5, 4), seed=2)
    shared = lambda f, k, v: f(k, v, enable_gqa=True)  # noqa: E731
    attention(torch, shared, shared, q, k, v)


# -- symbolic dims ------------------------------------------------------------------------------


def test_symbolic_dims(torch):
    cx = Graph()
    x = cx.tensor(("batch", 4, "length", 8))
    values = draw((2, 4, 5, 8))
    x.set(values)
    attended = x.scaled_dot_product_attention(x, x, is_causal=True)
    across = x.transpose(2, 3).scaled_dot_product_attention(x.transpose(2, 3), x.transpose(2, 3))
    results = [attended, across, x.softmax(2), x.layer_norm((0, 2)), x.group_norm(2), x.dropout(0)]
    for tensor in results:
        tensor.retrieve()
    cx.execute()
    t = torch.tensor(values)
    attend, turned = torch.nn.functional.scaled_dot_product_attention, t.transpose(2, 3)
    near = {"rtol": 1e-5, "atol": 1e-6}
    same(attended.numpy(), attend(t, t, t, is_causal=True).numpy(), **near)
    same(across.numpy(), attend(turned, turned, turned).numpy(), **near)
    same(results[2].numpy(), torch.softmax(t, 2).numpy(), **near)
    moved = torch.nn.functional.layer_norm(t.permute(1, 3, 0, 2), (2, 5)).permute(2, 0, 3, 1)
    same(results[3].numpy(), moved.numpy(), **near)
    same(results[4].numpy(), torch.nn.functional.group_norm(t, 2).numpy(), **near)
    assert [str(dim) for dim in attended.shape] == ["batch", "4", "length", "8"]


# -- errors -------------------------------------------------------------------------------------


def test_errors():
    cx = Graph()
    x: Any = cx.tensor((2, 3), name="x")
    image: Any = cx.tensor((2, 6, 4), name="image")
    keys = cx.tensor((2, 4, 5, 8), name="keys")
    heads = cx.tensor((2, 6, 5, 8), name="heads")
    narrow = cx.tensor((2,), name="narrow")
    before = str(cx)

    def text(kind: type[LabError], call: Callable) -> str:
        with pytest.raises(kind) as caught:
            call()
        assert str(cx) == before, "the graph is as it was"
        return f"{caught.value.message}\nhint: {caught.value.hint}"

    assert text(AxisError, lambda: x.softmax(2)) == (
        "softmax: there is no axis 2 in %x (2, 3)\nhint: axes go from -2 to 1"
    )
    for name in ("softmax", "log_softmax", "layer_norm", "rms_norm", "mean_norm", "std_norm"):
        assert text(AxisError, lambda name=name: getattr(x, name)(())) == (
            f"{name}: no axis of %x (2, 3) is named\nhint: name one, such as -1"
        )
    assert text(AxisError, lambda: x.layer_norm((1, -1))) == (
        "layer_norm: axis 1 of %x (2, 3) is given twice: (1, -1)\nhint: name each axis once"
    )
    assert text(ShapeError, lambda: x.layer_norm(1, weight=narrow)) == (
        "layer_norm: weight is %narrow (2,), but there are (3,) values to give one each: "
        "axes (1,) of %x (2, 3)\nhint: give weight the shape (3,)"
    )
    assert text(ShapeError, lambda: image.group_norm(4)) == (
        "group_norm: the 6 channels of %image (2, 6, 4) cannot form 4 equal groups\n"
        "hint: num_groups must divide the size of axis 1"
    )
    assert text(ShapeError, lambda: x.instance_norm()) == (
        "instance_norm: %x (2, 3) has 2 axes, and needs 3 or more\n"
        "hint: axis 0 counts samples, and axis 1 channels"
    )
    assert text(RangeError, lambda: x.dropout(1.5)) == (
        "dropout: p is 1.5, which is not a probability\nhint: try p=0.5"
    )
    assert text(DTypeError, lambda: x.dropout("half")) == (
        "dropout: p is 'half' and not a number\nhint: give p as a float"
    )
    assert text(
        ShapeError, lambda: heads.scaled_dot_product_attention(keys, keys, enable_gqa=True)
    ) == (
        "scaled_dot_product_attention: %heads (2, 6, 5, 8) has 6 heads, and %keys (2, 4, 5, 8) 4\n"
        "hint: the heads of the query must be a multiple of those of the key"
    )
    for bad in (
        lambda: x.softmax("last"),
        lambda: x.softmax(1, dtype="float99"),
        lambda: x.log_softmax(True),
        lambda: x.std_norm(1, eps="small"),
        lambda: x.layer_norm(1, bias=3),
        lambda: x.rms_norm(1.5),
        lambda: x.normalize(p="two"),
        lambda: x.normalize(axis=2),
        lambda: x.batch_norm(narrow, narrow),
        lambda: image.group_norm(0),
        lambda: image.group_norm("two"),
        lambda: image.local_response_norm(2.5),
        lambda: x.cosine_similarity(narrow),
        lambda: x.scaled_dot_product_attention(narrow, narrow),
        lambda: x.scaled_dot_product_attention(keys, keys),
        lambda: x.scaled_dot_product_attention(x, x, attn_mask=x),
        lambda: x.scaled_dot_product_attention(1, 2),
        lambda: x.scaled_dot_product_attention(x, x, dropout_p=-1),
        lambda: x.scaled_dot_product_attention(x, x, scale="big"),
        lambda: x.scaled_dot_product_attention(x, x, soft_cap=0.0),
        lambda: x.scaled_dot_product_attention(x, x, soft_cap="low"),
        lambda: x.scaled_dot_product_attention(x, x, enable_gqa=True),
        lambda: x.dropout(NAN),
    ):
        with pytest.raises(LabError):
            bad()
        assert str(cx) == before


def test_scores_below_a_soft_cap():
    q, k, v = (draw((2, 3, 5, 4), seed=seed, low=-4.0, high=4.0) for seed in range(3))
    cx = Graph()
    given = [cx.tensor(x.shape).set(x) for x in (q, k, v)]
    found = given[0].scaled_dot_product_attention(given[1], given[2], is_causal=True, soft_cap=1.5)
    found.retrieve()
    cx.execute()
    scores = 1.5 * np.tanh(q @ k.swapaxes(-2, -1) / 2 / 1.5)
    shares = np.where(np.tri(5, dtype=bool), np.exp(scores), 0)
    wanted = shares / shares.sum(-1, keepdims=True) @ v
    np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-5, atol=1e-5)


def test_drawing_like_a_tensor():
    cx = Graph(seed=3)
    x = cx.tensor((4000,), "float64")
    drawn = [x.rand_like(), x.randn_like("float32"), x.randint_like(2, 5), x.bernoulli(0.25)]
    cx.retrieve(drawn)
    x.set(np.zeros(4000))
    cx.execute()
    uniform, normal, whole, coin = (t.numpy() for t in drawn)
    assert [str(t.dtype) for t in drawn] == ["float64", "float32", "float64", "float64"]
    assert 0 <= uniform.min() < uniform.max() < 1
    assert abs(uniform.mean() - 0.5) < 0.03
    assert (abs(normal.mean()) < 0.08, abs(normal.std() - 1) < 0.08) == (True, True)
    assert set(whole) == {2, 3, 4}
    assert abs(coin.mean() - 0.25) < 0.04
    error_of(lambda: x.randint_like(5, 2), RangeError)


def test_batch_norm_of_what_it_is_given(torch):
    x, w, b = draw((5, 3, 4)), draw((3,)), draw((3,), seed=1)
    theirs = lambda t, w, b: torch.nn.functional.batch_norm(  # noqa: E731
        t, None, None, w, b, training=True
    )
    ours = lambda t, w, b: t.batch_norm(None, None, w, b, training=True)  # noqa: E731
    against(torch, ours, theirs, x, w, b, rtol=1e-5, atol=1e-5)
    error = error_of(lambda: Graph().tensor((2, 3)).batch_norm(None, None), ArgumentError)
    assert error.message == "batch_norm: there is no running mean or variance"

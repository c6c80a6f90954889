"""Movement against PyTorch: orders, shapes, parts, margins, joining; symbolic dims; errors."""

import inspect
from collections.abc import Callable
from itertools import product
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from luminal_lab.core.dtypes import DType
from luminal_lab.errors import (
    AxisError,
    DTypeError,
    GraphError,
    LabError,
    RangeError,
    ShapeError,
)
from luminal_lab.session import Graph
from luminal_lab.tensor.joining import (
    concat,
    dstack,
    hstack,
    meshgrid,
    stack,
    vstack,
)
from tests.expect import error_of
from tests.tensor.against import INTS, against, draw, interpret, special, to_torch

Function = Callable[[Any], Any]


def case(ours: Function, theirs: Function | None, *shapes: tuple[int, ...], id: str) -> Any:
    return pytest.param(ours, theirs or ours, shapes, id=id)


def both(function: Function, *shapes: tuple[int, ...], id: str) -> Any:
    return case(function, None, *shapes, id=id)


ANY = ((), (3,), (0,), (1, 4), (3, 3), (2, 0, 3), (2, 3, 4), (2, 1, 3, 2))
MATRIX = ((3, 3), (2, 5), (4, 1), (0, 3), (2, 3, 4), (1, 2, 0))


@pytest.mark.parametrize(
    ("ours", "theirs", "shapes"),
    [
        both(lambda x: x.permute(2, 0, 1), (2, 3, 4), (0, 1, 2), id="permute"),
        both(lambda x: x.permute((-1, 0, -2)), (2, 3, 4), id="permute-tuple"),
        both(lambda x: x.permute([0, 1]), (3, 3), id="permute-nothing"),
        both(lambda x: x.transpose(0, -1), (2, 3, 4), (3,), (3, 3), id="transpose"),
        both(lambda x: x.swapaxes(1, -2), (2, 3, 4), (2, 1, 3, 2), id="swapaxes"),
        both(lambda x: x.movedim(0, -1), (2, 3, 4), (3,), id="movedim"),
        both(lambda x: x.movedim((0, -1), (1, 0)), (2, 3, 4), id="movedim-several"),
        both(lambda x: x.moveaxis((2, 0), (0, 2)), (2, 1, 3, 2), id="moveaxis"),
        case(lambda x: x.T, lambda x: x.permute(*range(x.ndim)[::-1]), *ANY[1:], id="T"),
        both(lambda x: x.mT, *MATRIX, id="mT"),
        both(lambda x: x.t(), (2, 3), (3,), id="t"),
        both(lambda x: x.reshape(-1), *ANY, id="reshape-flat"),
        both(lambda x: x.reshape(2, -1, 3), (2, 3, 4), (6,), (2, 1, 3, 2), id="reshape"),
        both(lambda x: x.reshape((0, 5)), (2, 0, 3), (0,), id="reshape-empty"),
        both(lambda x: x.view([1, -1]), *ANY, id="view"),
        case(lambda x: x.T.view(-1), lambda x: x.T.reshape(-1), (2, 3), id="view-of-T"),
        both(lambda x: x.reshape_as(x.flatten()), *ANY[1:], id="reshape-as"),
        both(lambda x: x.flatten(), *ANY, id="flatten"),
        both(lambda x: x.flatten(1), (2, 3, 4), (3, 0), id="flatten-from"),
        both(lambda x: x.flatten(0, -2), (2, 3, 4), (3, 1), id="flatten-to"),
        both(lambda x: x.ravel(), (2, 3), id="ravel"),
        both(lambda x: x.unflatten(-1, (2, -1)), (3, 4), (6,), id="unflatten"),
        both(lambda x: x.squeeze(), *ANY, id="squeeze"),
        both(lambda x: x.squeeze(1), (2, 1, 3, 2), (2, 3), id="squeeze-axis"),
        both(lambda x: x.squeeze((0, -1)), (1, 4), (1, 2, 1), id="squeeze-axes"),
        both(lambda x: x.unsqueeze(0), *ANY, id="unsqueeze"),
        both(lambda x: x.unsqueeze(-1), *ANY, id="unsqueeze-last"),
        both(lambda x: x.unsqueeze(dim=1), (2, 3), id="unsqueeze-dim"),
        both(lambda x: x.contiguous(), *ANY, id="contiguous"),
        both(lambda x: x.clone(), (2, 3), id="clone"),
        both(lambda x: x.expand(4, 3), (3,), (1, 3), (1, 1), id="expand"),
        both(lambda x: x.expand((2, -1, 5)), (3, 1), (1, 3, 1), (0, 1), id="expand-keep"),
        both(lambda x: x.expand(0, 3), (1, 3), (3,), id="expand-empty"),
        both(lambda x: x.expand(2, 2), (), id="expand-number"),
        both(lambda x: x.broadcast_to((2, 3)), (3,), id="broadcast-to"),
        both(lambda x: x.expand_as(x.unsqueeze(0)), (2, 3), id="expand-as"),
        case(
            lambda x: x.expand_dim(1, 4),
            lambda x: x.unsqueeze(1).expand(-1, 4, *x.shape[1:]),
            (2, 3),
            (2,),
            id="expand-dim",
        ),
        both(lambda x: x.repeat(2, 3), (2, 2), (3,), (1, 0), id="repeat"),
        both(lambda x: x.repeat((2, 1, 0)), (2, 2), id="repeat-never"),
        both(lambda x: x.tile(2), (2, 3), (3,), id="tile"),
        both(lambda x: x.tile((2, 1, 3)), (2, 2), id="tile-more"),
        both(lambda x: x.repeat_interleave(3), *ANY, id="repeat-interleave"),
        both(lambda x: x.repeat_interleave(2, dim=-1), (2, 3), (0, 2), id="interleave-axis"),
        case(lambda x: x.slice(((0, 2), (1, None))), lambda x: x[0:2, 1:], *MATRIX, id="slice"),
        case(lambda x: x.slice([(-2, None, 2)]), lambda x: x[-2::2], *MATRIX, id="slice-step"),
        case(lambda x: x.slice_along(-1, 1, -1), lambda x: x[..., 1:-1], *MATRIX, id="along"),
        case(
            lambda x: x.slice_along(-1, None, None, -2),
            lambda x: x.flip(-1)[..., ::2],
            *MATRIX,
            id="along-back",
        ),
        both(lambda x: x.narrow(1, 1, 2), (2, 3), (0, 4), id="narrow"),
        both(lambda x: x.narrow(0, -2, 1), (2, 3), (3,), id="narrow-back"),
        both(lambda x: x.select(1, -1), (2, 3), (0, 4), (3, 3, 2), id="select"),
        case(lambda x: list(x), lambda x: list(x.unbind(0)), (3, 2), (2,), (1, 0), id="iter"),
        both(lambda x: x.unbind(-1), (3, 2), (2,), (1, 0, 2), id="unbind"),
        both(lambda x: x.split(2, -1), (3, 5), (4,), (2, 0), (1, 2), id="split"),
        both(lambda x: x.split([1, 0, 2], 1), (2, 3), (0, 3), id="split-sizes"),
        both(lambda x: x.split(0), (0, 2), id="split-nothing"),
        both(lambda x: x.chunk(3, 1), (1, 7), (1, 2), (2, 6), (2, 0), (2, 4), id="chunk"),
        both(lambda x: x.tensor_split(3, 1), (1, 7), (1, 2), (2, 6), (2, 0), id="tensor-split"),
        both(lambda x: x.tensor_split((1, 4, 3)), (5, 2), (2,), id="tensor-split-places"),
        both(lambda x: x.flip(0), (3,), (2, 3), (0, 2), id="flip"),
        both(lambda x: x.flip(0, -1), (2, 3), (2, 3, 4), id="flip-several"),
        both(lambda x: x.flip((1, 0)), (2, 3), (1, 4), id="flip-tuple"),
        both(lambda x: x.fliplr(), (2, 3), (3, 3, 2), id="fliplr"),
        both(lambda x: x.flipud(), (2, 3), (3,), id="flipud"),
        *[both(lambda x, k=k: x.rot90(k), (2, 3), (3, 3), id=f"rot90-{k}") for k in range(-1, 5)],
        both(lambda x: x.rot90(1, (2, 0)), (2, 3, 4), id="rot90-axes"),
        both(lambda x: x.roll(1), *ANY[1:], id="roll"),
        both(lambda x: x.roll(-5, 0), (3,), (2, 3), (0, 2), id="roll-back"),
        both(lambda x: x.roll((1, 2), (0, -1)), (2, 3), (3, 3), id="roll-several"),
        both(lambda x: x.unfold(0, 2, 1), (3,), (4, 2), (2, 3, 4), id="unfold"),
        both(lambda x: x.unfold(-1, 3, 2), (2, 7), (3,), id="unfold-step"),
        case(lambda x: x.pool_last_dim(2, 3), lambda x: x.unfold(-1, 2, 3), (3, 8), id="pool"),
        case(
            lambda x: x.pool_last_dim(3, 1, 2),
            lambda x: x.unfold(-1, 5, 1)[..., ::2],
            (7,),
            (2, 5),
            id="pool-dilated",
        ),
        both(lambda x: x.tril(), *MATRIX, id="tril"),
        both(lambda x: x.tril(-1), *MATRIX, id="tril-below"),
        both(lambda x: x.tril(2), *MATRIX, id="tril-above"),
        both(lambda x: x.triu(), *MATRIX, id="triu"),
        both(lambda x: x.triu(1), *MATRIX, id="triu-above"),
        both(lambda x: x.triu(-2), *MATRIX, id="triu-below"),
        *[both(lambda x, k=k: x.diagonal(k), *MATRIX, id=f"diagonal{k}") for k in range(-3, 4)],
        both(lambda x: x.diagonal(1, -1, 0), (2, 3, 4), (3, 3), id="diagonal-axes"),
        *[both(lambda x, k=k: x.diag(k), (3, 3), (2, 4), (3,), id=f"diag{k}") for k in (-1, 0, 2)],
        *[both(lambda x, k=k: x.diag_embed(k), (3,), (2, 0), id=f"embed{k}") for k in (-1, 0, 2)],
        both(lambda x: x.diag_embed(1, 0, 2), (2, 3), id="diag-embed-axes"),
        both(lambda x: x.diag_embed(0, -1, 0), (2, 3), id="diag-embed-turned"),
    ],
)  # fmt: skip
def test_movement(torch: ModuleType, ours: Function, theirs: Function, shapes: Any):
    for shape in shapes:
        against(torch, ours, theirs, draw(shape, seed=len(shape)))


@pytest.mark.parametrize("dtype", ["bool", "float16", "bfloat16", "float64", *INTS])
def test_every_dtype_moves(torch: ModuleType, dtype: str):
    x = draw((3, 4), dtype, low=0 if dtype == "uint8" else -3)
    against(torch, lambda x: x.T.flip(0).reshape(2, 6).roll(1, 1).tril(), None, x)
    # PyTorch pads no bools.
    if dtype != "bool":
        ours = lambda x: x.pad(((1, 2), (0, 3)), 1)  # noqa: E731
        against(torch, ours, lambda x: torch.nn.functional.pad(x, (0, 3, 1, 2), value=1), x)
    against(torch, lambda x: concat([x, x]), lambda x: torch.cat([x, x]), x)
    against(torch, lambda x: stack([x, x], 1), lambda x: torch.stack([x, x], 1), x)


VIEWS: list[Function] = [
    lambda x: x,
    lambda x: x.T,
    lambda x: x[::2],
    lambda x: x.flip(0),
    lambda x: x[:, :1].expand(*x.shape),
]

CHAIN: list[Function] = [
    lambda x: x.flatten(),
    lambda x: x.diagonal(1),
    lambda x: x.roll(1, 1),
    lambda x: x.repeat(2, 1),
    lambda x: x.unfold(0, 2, 1),
    lambda x: x.triu(),
    lambda x: x.split(2, 0)[0],
    lambda x: x.rot90(),
]


@pytest.mark.parametrize(("one", "two"), [*product(DType, DType)])
def test_bits_read_as_another_dtype(torch: ModuleType, one: DType, two: DType):
    count = 16 // one.itemsize
    raw = np.random.default_rng(0).integers(0, 256, (3, 16), np.uint8)
    x = (raw & 1).astype(bool) if one is DType.bool_ else raw.view(one.numpy)
    if two is DType.bool_ is not one:
        wrong = error_of(lambda: interpret(lambda t: t.bitcast(two), x))
        assert wrong.message == f"bitcast: not every {one} has the bits of a bool"
        return
    found, wanted = interpret(lambda t: [t.bitcast(two), t.view(two)], x), x.view(two.numpy)
    for array in found:
        assert array.shape == wanted.shape == (3, count * one.itemsize // two.itemsize)
        assert array.tobytes() == wanted.tobytes()
    theirs = (
        torch.tensor(raw).view(getattr(torch, one))
        if one is not DType.bool_
        else to_torch(torch, x)
    )
    theirs = theirs.view(getattr(torch, two)).contiguous().view(torch.uint8)
    assert theirs.numpy().tobytes() == wanted.tobytes()


def test_bits_of_one_number_and_of_symbolic_axes():
    cx = Graph()
    one, n = cx.tensor((), name="one"), cx.dim("n", multiple_of=4)
    x, m = cx.tensor((2, n), "uint8", name="x"), cx.tensor((2, 3), "int16", name="m")
    assert one.bitcast("int32").shape == ()
    assert x.bitcast("float32").shape == (2, n // 4)
    assert x.view("int16").shape == (2, n // 2)
    assert m.view(3, 2).shape == m.view((3, 2)).shape == (3, 2)
    assert m.view(np.uint8).shape == m.view(np.dtype("u1")).shape == (2, 6)
    assert error_of(lambda: one.bitcast("int8")).message == (
        "bitcast: %one () is float32 and has no axis along which int8 could be"
    )
    assert error_of(lambda: m.bitcast("float32")).message == (
        "bitcast: the last axis of %m (2, 3) is no multiple of 2, the number of int16 in a float32"
    )


def test_views_of_views(torch: ModuleType):
    x = draw((4, 4))
    for first, second in product(VIEWS, CHAIN):
        ours = lambda x, a=first, b=second: b(a(x))  # noqa: E731
        against(torch, ours, None, x)


def test_views_keep_every_value(torch: ModuleType):
    x = special()
    for function in (lambda x: x.roll(3, 0), lambda x: x.flip(0), lambda x: x.repeat(2)):
        assert np.array_equal(bits(interpret(function, x)), bits(function(torch.tensor(x)).numpy()))


def bits(x: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(x).view(np.int32)


# -- margins ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [0, 2.5, -0.0, np.inf, -np.inf, np.nan])
def test_pad_with_a_value(value: float):
    x = special()[:12].reshape(3, 4)
    found = interpret(lambda x: x.pad(((1, 0), (2, 3)), value), x)
    wanted = np.pad(x, ((1, 0), (2, 3)), constant_values=np.float32(value))
    assert np.array_equal(bits(found), bits(wanted))


def test_pad_bools_and_ints():
    x = draw((2, 2), "bool")
    assert np.array_equal(
        interpret(lambda x: x.pad(((1, 1), (0, 0)), True), x),
        np.pad(x, ((1, 1), (0, 0)), constant_values=True),
    )
    y = draw((0, 2), "int64")
    assert np.array_equal(
        interpret(lambda x: x.pad_along(0, 1, 2, -7), y), np.full((3, 2), -7, np.int64)
    )


@pytest.mark.parametrize("mode", ["reflect", "replicate", "circular"])
def test_pad_modes(torch: ModuleType, mode: str):
    numpys = {"replicate": "edge", "circular": "wrap"}.get(mode, mode)
    for shape, pairs in [
        ((4,), ((3, 2),)),
        ((4,), ((0, 3),)),
        ((3, 5), ((2, 0), (1, 4))),
        ((1, 2, 3), ((0, 0), (1, 1), (2, 1))),
    ]:
        x = draw(shape)
        found = interpret(lambda x, p=pairs: x.pad(p, mode=mode), x)
        assert np.array_equal(found, np.pad(x, pairs, numpys))  # pyright: ignore
    images = draw((2, 3, 4, 5))
    against(
        torch,
        lambda x: x.pad(((0, 0), (0, 0), (2, 1), (3, 0)), mode=mode),
        lambda x: torch.nn.functional.pad(x, (3, 0, 2, 1), mode=mode),
        images,
    )


# -- joining ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("sizes", [(2, 3), (0, 2), (2, 0), (0, 0), (1,), (1, 2, 3), (0, 3, 0, 1)])
def test_concat(torch: ModuleType, sizes: tuple[int, ...]):
    for axis in (0, 1, -1):
        arrays = [draw((2, n) if axis else (n, 2), seed=n) for n in sizes]
        against(
            torch,
            lambda *xs, axis=axis: concat(xs, axis=axis),
            lambda *xs, axis=axis: torch.cat(xs, axis),
            *arrays,
        )


def test_concat_keeps_every_bit():
    x = special()
    found = interpret(lambda a, b, c: concat([a, b, c]), x, x[::-1].copy(), x)
    assert np.array_equal(bits(found), bits(np.concatenate([x, x[::-1], x])))


def test_concat_promotes_as_pytorch_does(torch: ModuleType):
    for a, b in product(
        ["float32", "bfloat16", "float16", "int64", "uint8", "int8", "bool"], repeat=2
    ):
        arrays = draw((2,), a, low=0), draw((3,), b, low=0)
        against(torch, lambda x, y: concat([x, y]), lambda x, y: torch.cat([x, y]), *arrays)


def test_joining(torch: ModuleType):
    x, y = draw((2, 3)), draw((2, 3), seed=1)
    for axis in (0, 1, 2, -1, -3):
        against(
            torch,
            lambda x, y, axis=axis: stack([x, y, x], dim=axis),
            lambda x, y, axis=axis: torch.stack([x, y, x], axis),
            x,
            y,
        )
    against(torch, lambda x, y: x.concat(y, 1), lambda x, y: torch.cat([x, y], 1), x, y)
    against(torch, lambda x, y: x.cat([y, x]), lambda x, y: torch.cat([x, y, x]), x, y)
    against(torch, lambda x, y: x.stack(y, -1), lambda x, y: torch.stack([x, y], -1), x, y)
    for shape in ((), (3,), (2, 3), (2, 3, 2)):
        a, b = draw(shape), draw(shape, seed=1)
        for ours, name in ((hstack, "hstack"), (vstack, "vstack"), (dstack, "dstack")):
            theirs = getattr(torch, name)
            against(torch, lambda a, b, f=ours: f([a, b]), lambda a, b, f=theirs: f([a, b]), a, b)
        for name in ("atleast_1d", "atleast_2d", "atleast_3d"):
            against(
                torch, lambda a, n=name: getattr(a, n)(), lambda a, n=name: getattr(torch, n)(a), a
            )


def test_concat_takes_arrays_too():
    cx = Graph()
    x = cx.tensor((2,), "int64").set([1, 2])
    y = concat([x, np.array([3, 4])]).retrieve()  # pyright: ignore[reportArgumentType]
    cx.execute()
    assert y.tolist() == [1, 2, 3, 4]


def test_meshgrid(torch: ModuleType):
    x, y, z = draw((2,)), draw((3,)), draw(())
    for indexing in ("ij", "xy"):
        against(
            torch,
            lambda *xs, i=indexing: meshgrid(*xs, indexing=i),
            lambda *xs, i=indexing: torch.meshgrid(*xs, indexing=i),
            x,
            y,
            z,
        )


def test_images(torch: ModuleType):
    functional = torch.nn.functional
    for shape in ((8, 2, 3), (2, 4, 1, 2), (1, 2, 4, 3, 3), (0, 4, 2, 2)):
        x = draw(shape)
        ours, theirs = lambda x: x.pixel_shuffle(2), lambda x: functional.pixel_shuffle(x, 2)
        against(torch, ours, theirs, x)
    x = draw((2, 3, 4, 6))
    against(torch, lambda x: x.pixel_unshuffle(2), lambda x: functional.pixel_unshuffle(x, 2), x)
    x = draw((2, 6, 3, 3))
    ours = lambda x: x.channel_shuffle(3)  # noqa: E731
    against(torch, ours, lambda x: torch.nn.functional.channel_shuffle(x, 3), x)


@pytest.mark.parametrize(
    ("size", "spacing", "cut"), [(6, 2, 1), (7, 2, 1), (8, 2, 1), (5, 3, 4), (1, 3, 1), (4, 1, 0)]
)
def test_excise(size: int, spacing: int, cut: int):
    x = draw((2, size, 2))
    kept = [k for k in range(size) if k % (spacing + cut) < spacing]
    assert np.array_equal(interpret(lambda x: x.excise(1, spacing, cut), x), x[:, kept])


# -- symbolic dims ---------------------------------------------------------------------------------


def run(shape: tuple[Any, ...], function: Function, x: np.ndarray) -> np.ndarray:
    """Run a function of a tensor with symbolic dims."""
    cx = Graph()
    y = function(cx.tensor(shape, name="x").set(x)).retrieve()
    cx.execute()
    return y.numpy()


SYMBOLIC: list[Any] = [
    pytest.param(lambda x: x.permute(1, 0), lambda x: x.T, id="permute"),
    pytest.param(lambda x: x.reshape(-1), lambda x: x.reshape(-1), id="reshape"),
    pytest.param(lambda x: x.flatten().unflatten(0, (-1, 6)), lambda x: x, id="unflatten"),
    pytest.param(lambda x: x.expand_dim(0, "n"), lambda x: np.stack([x] * len(x)), id="expand"),
    pytest.param(lambda x: x.repeat(2, "n"), lambda x: np.tile(x, (2, len(x))), id="repeat"),
    pytest.param(lambda x: x.repeat_interleave("n", 1), lambda x: x.repeat(len(x), 1), id="times"),
    pytest.param(lambda x: x.slice_along(0, 1, None), lambda x: x[1:], id="slice"),
    pytest.param(lambda x: x.slice_along(0, -2, None), lambda x: x[-2:], id="last"),
    pytest.param(lambda x: x.slice_along(0, 2, -1), lambda x: x[2:-1], id="middle"),
    pytest.param(lambda x: x.slice_along(0, None, 4), lambda x: x[:4], id="beyond"),
    pytest.param(lambda x: x.slice_along(0, None, None, -1), lambda x: x[::-1], id="back"),
    pytest.param(lambda x: x.slice_along(0, -2, 0, -2), lambda x: x[-2:0:-2], id="back-by-two"),
    pytest.param(lambda x: x.slice_along(0, 0, "n"), lambda x: x, id="whole"),
    pytest.param(lambda x: x.slice_along(1, "n", None), lambda x: x[:, len(x) :], id="from-n"),
    pytest.param(lambda x: x.narrow(1, "n-1", 2), lambda x: x[:, len(x) - 1 :][:, :2], id="narrow"),
    pytest.param(lambda x: x.select(0, -1), lambda x: x[-1], id="select"),
    pytest.param(lambda x: x.select(1, "n"), lambda x: x[:, len(x)], id="select-n"),
    pytest.param(lambda x: x.excise(0, 2, 1), lambda x: x[np.arange(len(x)) % 3 < 2], id="excise"),
    pytest.param(lambda x: x.split([1, x.shape[0] - 1])[1], lambda x: x[1:], id="split"),
    pytest.param(lambda x: x.split("n", 0)[0], lambda x: x, id="split-whole"),
    pytest.param(lambda x: x.flip(0), lambda x: x[::-1], id="flip"),
    pytest.param(lambda x: x.roll(1, 0), lambda x: np.roll(x, 1, 0), id="roll"),
    pytest.param(lambda x: x.roll(-4, 0), lambda x: np.roll(x, -4, 0), id="roll-back"),
    pytest.param(lambda x: x.pad(((1, "n"), (0, 2))), None, id="pad"),
    pytest.param(lambda x: x.pad(((1, 1), (0, 0)), mode="reflect"), None, id="reflect"),
    pytest.param(lambda x: concat([x, x, x]), lambda x: np.concatenate([x] * 3), id="concat"),
    pytest.param(lambda x: stack([x, x], 2), lambda x: np.stack([x, x], 2), id="stack"),
    pytest.param(lambda x: x.tril(-1), lambda x: np.tril(x, -1), id="tril"),
    pytest.param(lambda x: x.triu("n"), lambda x: np.triu(x, len(x)), id="triu"),
    pytest.param(lambda x: x.diagonal(1), lambda x: np.diagonal(x, 1), id="diagonal"),
    pytest.param(lambda x: x.diagonal(-1), lambda x: np.diagonal(x, -1), id="diagonal-below"),
    pytest.param(
        lambda x: x.select(1, 0).diag_embed(), lambda x: np.diag(x[:, 0]), id="diag-embed"
    ),
    pytest.param(
        lambda x: x.unfold(0, 2, 1),
        lambda x: np.lib.stride_tricks.sliding_window_view(x, 2, 0),
        id="unfold",
    ),
]


@pytest.mark.parametrize(("ours", "numpys"), SYMBOLIC)
def test_symbolic_dims(ours: Function, numpys: Function | None):
    for n in (2, 3, 5):
        x = draw((n, 6), seed=n)
        found = run(("n", 6), ours, x)
        if numpys is not None:
            assert np.array_equal(found, numpys(x))


def test_symbolic_margins():
    x = draw((3, 6))
    found = run(("n", 6), lambda x: x.pad(((1, "n"), (0, 2)), 7), x)
    assert np.array_equal(found, np.pad(x, ((1, 3), (0, 2)), constant_values=7))
    found = run(("n", 6), lambda x: x.pad(((2, 1), (0, 0)), mode="reflect"), x)
    assert np.array_equal(found, np.pad(x, ((2, 1), (0, 0)), mode="reflect"))


def test_symbolic_shapes_stay_simple():
    cx = Graph()
    n = cx.dim("n", 8, 64, multiple_of=8)
    x = cx.tensor((n, 4))
    assert x.slice_along(0, 1, -1).shape == (n - 2, 4)
    assert x.slice_along(0, 0, 4).shape == (4, 4)
    assert x.roll(3, 0).shape == x.shape
    assert x.reshape(8, -1).shape == (8, n // 2)
    assert [part.shape for part in x.chunk(2)] == [(n // 2, 4)] * 2
    assert concat([x, x]).shape == (2 * n, 4)
    assert x.tensor_split(4)[3].shape == (n // 4, 4)


def test_every_negative_slice_as_numpy_has_it():
    x = np.arange(4)
    ends = (None, -6, -4, -2, -1, 0, 1, 3, 4, 6)
    cx = Graph()
    t = cx.tensor((4,), "int64").set(x)
    u = cx.tensor(("n",), "int64").set(x)
    cases = [
        (slice(a, b, c), s.slice_along(0, a, b, c).retrieve())
        for a, b, c in product(ends, ends, (1, 2, 5, -1, -2, -5))
        for s in (t, u)
    ]
    cx.execute()
    for part, found in cases:
        assert found.tolist() == x[part].tolist(), part


# -- errors ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "function", "message"),
    [
        (
            AxisError,
            lambda x: x.permute(0, 0),
            "permute: (0, 0) does not name each axis of (2, 3) once\n"
            "hint: use each of (0, 1) once, in any order",
        ),
        (
            AxisError,
            lambda x: x.transpose(0, 2),
            "transpose: there is no axis 2 in %x (2, 3)\nhint: axes go from -2 to 1",
        ),
        (
            AxisError,
            lambda x: x.transpose(0, 1.0),
            "transpose: 1.0 is not an axis of %x (2, 3)\nhint: an axis is a whole number",
        ),
        (
            AxisError,
            lambda x: x.movedim((0, 1), 0),
            "movedim: (0, 1) to 0 does not give each moved axis of %x (2, 3) one place\n"
            "hint: name as many places as axes, and each once",
        ),
        (
            ShapeError,
            lambda x: x.reshape(4, 2),
            "reshape: %x (2, 3) has 6 elements, and (4, 2) has 8\n"
            "hint: the element counts must be equal; one dim may be -1 to be worked out",
        ),
        (
            ShapeError,
            lambda x: x.reshape(4, -1),
            "reshape: %x (2, 3) has 6 elements, and no single size for -1 makes (4, -1) have as "
            "many\nhint: the element counts must be equal; one dim may be -1 to be worked out",
        ),
        (
            ShapeError,
            lambda x: x.unflatten(1, (2, 2)),
            "unflatten: axis 1 of %x (2, 3) has 3 elements, and (2, 2) has 4\n"
            "hint: the element counts must be equal; one dim may be -1 to be worked out",
        ),
        (
            ShapeError,
            lambda x: x.reshape("two", 3),
            "reshape: %x (2, 3) has 6 elements, and (two, 3) has 3*two\n"
            "hint: the element counts must be equal; one dim may be -1 to be worked out",
        ),
        (
            AxisError,
            lambda x: x.flatten(1, 0),
            "flatten: axis 1 of %x (2, 3) comes after axis 0\nhint: the first axis comes first",
        ),
        (
            ShapeError,
            lambda x: x.expand(2, 4),
            "expand: %x (2, 3) cannot become (2, 4)\n"
            "hint: only size 1 can be repeated; -1 keeps a size, and new axes come first",
        ),
        (
            ShapeError,
            lambda x: x.repeat(2),
            "repeat: (2,) has 1 counts, and %x (2, 3) 2 axes\n"
            "hint: give a count for each axis, or use tile",
        ),
        (
            ShapeError,
            lambda x: x.slice(((0, 2), 1)),
            "slice: ((0, 2), 1) are not ranges of %x (2, 3)\n"
            "hint: give (start, stop) for each axis, as in x.slice(((0, 2), (1, None)))",
        ),
        (
            ShapeError,
            lambda x: x.slice_along(0, 0, 2, 0),
            "slice_along: the step is 0\nhint: use a step of 1 or -1",
        ),
        (
            ShapeError,
            lambda x: x.narrow(1, 2, 2),
            "narrow: 2 to 4 is not within axis 1 of %x (2, 3)\n"
            "hint: 0 <= start <= stop <= 3 must hold",
        ),
        (
            RangeError,
            lambda x: x.select(1, 3),
            "select: there is no position 3 on axis 1 of %x (2, 3)\n"
            "hint: positions go from -3 to 2",
        ),
        (
            ShapeError,
            lambda x: x.split([1, 1], 1),
            "split: the sizes (1, 1) make 2, and axis 1 of %x (2, 3) has 3\n"
            "hint: the sizes must add up to that of the axis",
        ),
        (
            ShapeError,
            lambda x: x.chunk(0),
            "chunk: the number of pieces is 0\nhint: give a whole number, and at least 1",
        ),
        (
            ShapeError,
            lambda x: x.unfold(1, 4, 1),
            "unfold: size 4, stride 1, dilation 1 spans 4, and axis 1 of (2, 3) has 3\n"
            "hint: pad the axis, or use a smaller window; all three must be at least 1",
        ),
        (
            ShapeError,
            lambda x: x.roll((1, 2), 0),
            "roll: 2 shifts are given for 1 axes of %x (2, 3)\nhint: give one shift for each axis",
        ),
        (
            ShapeError,
            lambda x: x.pad((1, 1)),
            "pad: (1, 1) is not a pair (before, after) for each axis of %x (2, 3)\n"
            "hint: as in x.pad(((0, 0), (1, 1)))",
        ),
        (
            ShapeError,
            lambda x: x.pad(((0, 0), (1, 3)), mode="reflect"),
            "pad: (1, 3) on axis 1 of %x (2, 3) is not for the mode 'reflect'\n"
            "hint: each side can be 0 to 2",
        ),
        (
            ShapeError,
            lambda x: x.pad(((0, 0), (1, 0)), mode="mirror"),
            "pad: there is no mode 'mirror'\n"
            "hint: one of 'constant', 'reflect', 'replicate', 'circular'",
        ),
        (
            ShapeError,
            lambda x: concat([x, x.T]),
            "concat: the shapes must be equal apart from axis 0, but they are %x (2, 3) and "
            "%1 (3, 2)\nhint: expand, pad or slice one of them first",
        ),
        (
            ShapeError,
            lambda x: stack([x, x.T]),
            "stack: the shapes must be equal, but they are %x (2, 3) and %1 (3, 2)\n"
            "hint: expand, pad or slice one of them first",
        ),
        (
            GraphError,
            lambda x: concat([]),
            "concat: there is no tensor in []\nhint: give a list of tensors",
        ),
        (
            AxisError,
            lambda x: x.select(0, 0).tril(),
            "tril: there is no axis -2 in %2 (3,)\nhint: axes go from -1 to 0",
        ),
        (
            ShapeError,
            lambda x: x.unsqueeze(0).diag(),
            "diag: %1 (1, 2, 3) has 3 axes, and must have one or two\n"
            "hint: use diagonal or diag_embed",
        ),
    ],
)
def test_errors(error: type[LabError], function: Function, message: str):
    cx = Graph()
    x = cx.tensor((2, 3), name="x")
    with pytest.raises(error) as found:
        function(x)
    found.value.where = None
    assert str(found.value) == message


BAD = [None, "a b", 1.5, [0.5], object(), (0, 0), -9, 9, np.array([0.5, 1.0])]


@pytest.mark.parametrize(
    "name",
    [
        "permute", "transpose", "movedim", "reshape", "flatten", "unflatten", "squeeze",
        "unsqueeze", "expand", "expand_as", "expand_dim", "repeat", "tile", "repeat_interleave",
        "slice", "slice_along", "narrow", "select", "excise", "unbind", "split", "chunk",
        "tensor_split", "unfold", "pool_last_dim", "flip", "rot90", "roll", "pad", "pad_along",
        "concat", "stack", "tril", "triu", "diagonal", "diag_embed", "diag", "pixel_shuffle",
        "pixel_unshuffle",
        "channel_shuffle",
    ],
)  # fmt: skip
def test_bad_arguments_get_an_error_of_ours(name: str):
    cx = Graph()
    x = cx.tensor((2, 3), name="x")
    text = str(cx)
    for arguments in [(a, b, 1)[:count] for a, b in product(BAD, BAD) for count in (1, 2, 3)]:
        method = getattr(x, name)
        try:
            inspect.signature(method).bind(*arguments)
        except TypeError:
            continue
        try:
            method(*arguments)
        except LabError:
            assert str(cx) == text
        cx = Graph()
        x = cx.tensor((2, 3), name="x")


def test_another_graph_is_refused():
    x, y = Graph("one").tensor((2,), name="x"), Graph("two").tensor((2,), name="y")
    with pytest.raises(GraphError, match=r"%y \(2,\) belongs to another graph"):
        concat([x, y])


def test_pad_value_must_be_a_number():
    x = Graph().tensor((2,), name="x")
    with pytest.raises(DTypeError, match="is not a number"):
        x.pad(((1, 1),), x)  # pyright: ignore[reportArgumentType]


def test_the_words_of_pytorch_for_axes(torch: ModuleType):
    for function in (
        lambda x: x.flatten(start_dim=1, end_dim=-1),
        lambda x: x.transpose(dim0=0, dim1=2),
        lambda x: x.diagonal(dim1=-2, dim2=-1),
        lambda x: x.flip(dims=(0, 1)),
        lambda x: x.roll(1, dims=1),
        lambda x: x.rot90(1, dims=(1, 2)),
        lambda x: x.squeeze(dim=1),
    ):
        against(torch, function, None, draw((2, 3, 4)))


@pytest.mark.parametrize(
    ("what", "nodes", "call"),
    [
        ("unbind", 2 << 40, lambda x: x.unbind()),
        ("split", 1 << 40, lambda x: x.split(1)),
        ("chunk", 1 << 40, lambda x: x.chunk(10**30)),
        ("tensor_split", 10**30, lambda x: x.tensor_split(10**30)),
        ("differences", 5 << 40, lambda x: x.differences(2**40)),
    ],
)
def test_what_would_fill_the_graph_is_refused_before_it_is_built(what, nodes, call):
    cx = Graph()
    error = error_of(lambda: call(cx.tensor((2**40,), name="x")), ShapeError)
    assert error.message == f"{what}: it would take {nodes:,} nodes, and 1,000,000 are the most"
    assert error.hint == "work along the axis as a whole, with unflatten, a scan or a reduction"
    assert len(cx.ir) == 1


def test_more_pieces_than_positions(torch):
    against(torch, lambda x: x.chunk(9), None, draw((4,)))
    against(torch, lambda x: x.chunk(10**12), None, draw((3,)))
    against(torch, lambda x: x.chunk(3), None, draw((0, 2)))


def test_margins_that_are_cut_off(torch):
    x = draw((2, 3, 5))
    for ends, mode in (
        ((-1, 2), "constant"), ((-2, -1), "constant"), ((-1, 2), "replicate"),
        ((2, -1), "reflect"), ((-1, 2), "circular"), ((-4, 5), "replicate"),
    ):  # fmt: skip
        against(
            torch,
            lambda t, e=ends, m=mode: t.pad(((0, 0), (0, 0), e), mode=m),
            lambda t, e=ends, m=mode: torch.nn.functional.pad(t, e, mode=m),
            x,
        )
    error = error_of(lambda: Graph().tensor((3,), name="x").pad(((-2, -2),)), ShapeError)
    assert error.message == "pad: (-2, -2) would cut more off axis 0 of %x (3,) than its 3"


def test_writing_where_the_place_is_known(torch):
    x = draw((4, 5))
    for call in (
        lambda t, m: m.select_scatter(t, t[0] * 2, 0, -1),
        lambda t, m: m.select_scatter(t, t[:, 0] * 2, 1, 2),
        lambda t, m: m.slice_scatter(t, t[:2] * 2, 0, 1, None, 2),
        lambda t, m: m.slice_scatter(t, t[:, :3] * 2, 1, -3, 99),
        lambda t, m: m.diagonal_scatter(t, t[0, :3] * 2, -1),
        lambda t, m: m.diagonal_scatter(t, t[0, :3] * 2, 2),
    ):
        against(torch, lambda t, c=call: c(t, type(t)), lambda t, c=call: c(t, torch), x)
    error = error_of(lambda: Graph().tensor((2, 3)).select_scatter([1.0, 2.0], 0, 0), ShapeError)
    assert error.message.startswith("select_scatter: ")


def test_repeats_for_each_slice(torch):
    x = draw((3, 2))
    for times, axis in (([2, 0, 1], 0), ([0, 0], 1), ([1, 3], -1)):
        against(
            torch,
            lambda t, n=times, a=axis: t.repeat_interleave(n, a),
            lambda t, n=times, a=axis: t.repeat_interleave(torch.tensor(n), a),
            x,
        )
    error = error_of(lambda: Graph().tensor((3,)).repeat_interleave([1, 2]), ShapeError)
    assert "2 numbers of times are given for the 3 slices" in error.message


def test_pieces_along_named_axes(torch):
    for x, name, given in (
        (draw((4, 6)), "hsplit", 3), (draw((6,)), "hsplit", [1, 4]), (draw((4, 2)), "vsplit", 2),
        (draw((2, 2, 6)), "dsplit", (2, 3)),
    ):  # fmt: skip
        both = lambda t, n=name, g=given: getattr(t, n)(g)  # noqa: E731
        against(torch, both, both, x)
    for call in (lambda x: x.hsplit(2), lambda x: x.vsplit(2), lambda x: x[None].dsplit(2)):
        error_of(lambda c=call: c(Graph().tensor((3,))), ShapeError)


def test_what_is_empty_is_nothing_beside_what_has_more_axes(torch):
    both = lambda a, b: torch.cat((a, b), 1)  # noqa: E731
    for x in (np.zeros((0,), np.float32), np.zeros((0,), np.int64)):
        against(torch, lambda a, b: concat([a, b], 1), both, x, np.arange(6).reshape(2, 3))
    x = Graph().tensor((1, 2))
    error_of(lambda: concat([x[0], x], 1), LabError)

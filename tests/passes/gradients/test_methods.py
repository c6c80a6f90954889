"""Gradients of the methods of tensors against PyTorch's: views, sums, products, indexing, norms."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import luminal_lab as ll
from tests.passes.gradients.against import against
from tests.tensor.against import draw

Case = tuple[Callable[..., Any], Callable[..., Any] | None, tuple[np.ndarray, ...]]


def wide(*shape: int, seed: int = 0, low: float = -3.0, high: float = 3.0) -> np.ndarray:
    return draw(shape, "float64", seed=seed, low=low, high=high)


def ints(*values: Any) -> np.ndarray:
    return np.array(values, "int64")


def square(size: int) -> np.ndarray:
    return wide(size, size)


X, CUBE, LONG = wide(3, 4), wide(2, 3, 4), wide(20)
PLACES = ints([2, 0, 1, 0], [1, 1, 0, 2])

# PyTorch's spelling follows where it is another one; `t` is torch.
MOVEMENT: dict[str, Case] = {
    "permute": (lambda x: x.permute(2, 0, 1), None, (CUBE,)),
    "transpose": (lambda x: x.transpose(0, 2), None, (CUBE,)),
    "movedim": (lambda x: x.movedim(0, -1), None, (CUBE,)),
    "T": (lambda x: x.T, None, (X,)),
    "mT": (lambda x: x.mT, None, (CUBE,)),
    "reshape": (lambda x: x.reshape(4, -1), None, (CUBE,)),
    "flatten": (lambda x: x.flatten(1), None, (CUBE,)),
    "unflatten": (lambda x: x.unflatten(2, (2, 2)), None, (CUBE,)),
    "squeeze": (lambda x: x.squeeze(1), None, (wide(3, 1, 2),)),
    "unsqueeze": (lambda x: x.unsqueeze(1), None, (X,)),
    "contiguous": (lambda x: x.T.contiguous(), None, (X,)),
    "expand": (lambda x: x.expand(5, 3, 4), None, (X,)),
    "expand two": (lambda x: x.expand(3, 4, 2), None, (wide(3, 1, 1),)),
    "expand ones": (lambda x: x.expand(1, 4), None, (wide(1, 1),)),
    "repeat": (lambda x: x.repeat(2, 3), None, (X,)),
    "tile": (lambda x: x.tile(3), lambda t, x: x.tile(3), (X,)),
    "repeat_interleave": (lambda x: x.repeat_interleave(3, 1), None, (X,)),
    "slice": (lambda x: x[1:, ::2], None, (wide(4, 7),)),
    "slice by three": (lambda x: x[2::3], None, (LONG,)),
    "slice of little": (lambda x: x[:2:5], None, (LONG,)),
    "slice from behind": (lambda x: x[::-2], lambda t, x: x.flip(0)[::2], (LONG,)),
    "slice of nothing": (lambda x: (x[3:3], x.sum()), None, (LONG,)),
    "select": (lambda x: x.select(1, 2), None, (X,)),
    "narrow": (lambda x: x.narrow(1, 1, 2), None, (X,)),
    "index": (lambda x: x[1], None, (X,)),
    "unbind": (lambda x: x.unbind(0), None, (X,)),
    "split": (lambda x: x.split(3), None, (LONG,)),
    "chunk": (lambda x: x.chunk(3), None, (LONG,)),
    "flip": (lambda x: x.flip(0, 1), None, (X,)),
    "rot90": (lambda x: x.rot90(), None, (X,)),
    "roll": (lambda x: x.roll((1, -2), (0, 1)), None, (X,)),
    "unfold": (lambda x: x.unfold(0, 4, 3), None, (LONG,)),
    "unfold far apart": (lambda x: x.unfold(0, 2, 5), None, (LONG,)),
    "unfold densely": (lambda x: x.unfold(1, 3, 1), None, (wide(3, 7),)),
    "pad": (lambda x: x.pad(((0, 0), (1, 2))), lambda t, x: t.nn.functional.pad(x, (1, 2)), (X,)),
    "pad with 7": (
        lambda x: x.pad(((0, 0), (1, 2)), 7.0),
        lambda t, x: t.nn.functional.pad(x, (1, 2)),
        (X,),
    ),
    "reflect": (
        lambda x: x.pad(((0, 0), (1, 2)), mode="reflect"),
        lambda t, x: t.nn.functional.pad(x, (1, 2), mode="reflect"),
        (X,),
    ),
    "circular": (
        lambda x: x.pad(((0, 0), (1, 2)), mode="circular"),
        lambda t, x: t.nn.functional.pad(x[None], (1, 2), mode="circular")[0],
        (X,),
    ),
    "replicate": (
        lambda x: x.pad(((0, 0), (1, 2)), mode="replicate"),
        lambda t, x: t.nn.functional.pad(x, (1, 2), mode="replicate"),
        (X,),
    ),
    "concat": (
        lambda x, y: ll.concat([x, y], 1),
        lambda t, x, y: t.cat([x, y], 1),
        (X, wide(3, 2)),
    ),
    "concat with itself": (
        lambda x: ll.concat([x, x, x], 0),
        lambda t, x: t.cat([x, x, x], 0),
        (X,),
    ),
    "stack": (lambda x, y: ll.stack([x, y], 1), lambda t, x, y: t.stack([x, y], 1), (X, X + 1)),
    "tril": (lambda x: x.tril(1), None, (X,)),
    "triu": (lambda x: x.triu(), None, (X,)),
    "diagonal": (lambda x: x.diagonal(1), None, (X,)),
    "diag_embed": (lambda x: x.diag_embed(1), None, (X,)),
    "trace": (lambda x: x.trace(), None, (square(3),)),
    "pixel_shuffle": (
        lambda x: x.pixel_shuffle(2),
        lambda t, x: t.pixel_shuffle(x, 2),
        (wide(1, 4, 2, 3),),
    ),
    "where": (
        lambda x, y: (x > 0).where(x, y),
        lambda t, x, y: t.where(x > 0, x, y),
        (X, X + 1),
    ),
    "masked_fill": (lambda x: x.masked_fill(x > 1, 3.0), None, (X,)),
    "clip": (lambda x: x.clip(-1.0, 1.0), None, (X,)),
    "cast": (lambda x: x.float().double(), None, (X,)),
}
REDUCTIONS: dict[str, Case] = {
    "sum": (lambda x: x.sum(), None, (X,)),
    "sum of an axis": (lambda x: x.sum(1), None, (CUBE,)),
    "sum kept": (lambda x: x.sum((0, 2), keepdim=True), None, (CUBE,)),
    "mean": (lambda x: x.mean(0), None, (CUBE,)),
    "nansum": (lambda x: x.nansum(0), None, (X,)),
    "nanmean": (lambda x: x.nanmean(0), None, (X,)),
    "var": (lambda x: x.var(1), None, (CUBE,)),
    "std": (lambda x: x.std((0, 1), correction=0), None, (CUBE,)),
    "var_mean": (lambda x: x.var(1) + x.mean(1), None, (X,)),
    "norm": (lambda x: x.norm(), None, (X,)),
    "norm of 1": (lambda x: x.norm(1, 1), None, (X,)),
    "norm of 3": (lambda x: x.norm(3, 1), None, (X,)),
    "norm of all": (lambda x: x.norm(float("inf"), 1), None, (X,)),
    "norm of nothing": (lambda x: x.norm(), None, (np.zeros((2, 3)),)),
    "logsumexp": (lambda x: x.logsumexp(1), None, (X,)),
    "max": (lambda x: x.amax(1), None, (X,)),
    "min": (lambda x: x.amin((0, 1)), None, (X,)),
    "max of ties": (lambda x: x.amax(1), None, (np.round(wide(3, 9)),)),
    "max of one": (lambda x: x.amax(1), None, (wide(3, 1),)),
    "prod": (lambda x: x.prod(1), None, (X,)),
    "prod with zeros": (lambda x: x.prod(0), None, (np.array([0.0, 2, 3, 0.5, 7]),)),
    "prod with two zeros": (lambda x: x.prod(0), None, (np.array([0.0, 2, 0.0, 0.5, 7]),)),
    "cumsum": (lambda x: x.cumsum(1), None, (wide(2, 20),)),
    "cumprod": (lambda x: x.cumprod(0), None, (wide(20, low=0.5, high=1.5),)),
    "cummax": (lambda x: x.cummax(0), lambda t, x: x.cummax(0)[0], (LONG,)),
    "logcumsumexp": (lambda x: x.logcumsumexp(0), None, (LONG,)),
    "differences": (lambda x: x.differences(2), lambda t, x: x.diff(2), (X,)),
    "trapezoid": (lambda x: x.trapezoid(), lambda t, x: t.trapezoid(x), (X,)),
}
PRODUCTS: dict[str, Case] = {
    "matmul": (lambda x, y: x @ y, None, (X, wide(4, 5, seed=1))),
    "matmul in batches": (lambda x, y: x @ y, None, (wide(2, 1, 3, 4), wide(5, 4, 2))),
    "matmul of vectors": (lambda x, y: x @ y, None, (wide(4), wide(4, seed=1))),
    "matmul with itself": (lambda x: x @ x.T, None, (X,)),
    "outer": (lambda x, y: x.outer(y), None, (wide(3), wide(4))),
    "einsum": (
        lambda x, y: ll.einsum("bij,bjk->bik", x, y),
        lambda t, x, y: t.einsum("bij,bjk->bik", x, y),
        (CUBE, wide(2, 4, 2)),
    ),
    "linear": (
        lambda x, w, b: x.linear(w, b),
        lambda t, x, w, b: t.nn.functional.linear(x, w, b),
        (CUBE, wide(5, 4), wide(5)),
    ),
    "kron": (lambda x, y: x.kron(y), None, (X, wide(2, 2))),
    "cross": (lambda x, y: x.cross(y, 0), None, (X, X * X)),
    "addmm": (
        lambda x, a, b: x.addmm(a, b, beta=2, alpha=3),
        None,
        (wide(3, 5), X, wide(4, 5)),
    ),
    "bilinear": (
        lambda x, y, w: x.bilinear(y, w),
        lambda t, x, y, w: t.nn.functional.bilinear(x, y, w),
        (X, wide(3, 2), wide(5, 4, 2)),
    ),
}
INDEXING: dict[str, Case] = {
    "gather": (lambda x, i: x.gather(0, i), None, (X, PLACES)),
    "take": (lambda x, i: x.take(i), None, (X, ints(0, 5, 5, 11))),
    "index_select": (lambda x, i: x.index_select(1, i), None, (X, ints(0, 3, 3))),
    "embedding": (
        lambda w, i: w.embedding(i),
        lambda t, w, i: t.nn.functional.embedding(i, w),
        (wide(5, 3), ints([1, 1], [4, 0])),
    ),
    "by tensors": (lambda x, i, j: x[i, j], None, (X, ints(0, 1, 1), ints(3, 3, 0))),
    "scatter": (lambda x, i, s: x.scatter(1, i, s), None, (X, ints([2], [0], [1]), wide(3, 1))),
    "scatter_add": (lambda x, i, s: x.scatter_add(0, i, s), None, (X, PLACES, wide(2, 4))),
    "scatter_reduce": (
        lambda x, i, s: x.scatter_reduce(0, i, s, "mean"),
        None,
        (X, PLACES, wide(2, 4)),
    ),
    "index_add": (lambda x, i, s: x.index_add(0, i, s), None, (X, ints(2, 2), wide(2, 4))),
    "index_copy": (lambda x, i, s: x.index_copy(0, i, s), None, (X, ints(2, 0), wide(2, 4))),
    "index_fill": (lambda x, i: x.index_fill(0, i, 3.0), None, (X, ints(2, 0))),
    "update": (
        lambda x, r: x.update(r, 1, 1),
        lambda t, x, r: x.slice_scatter(r, 1, 1, 3),
        (X, wide(3, 2)),
    ),
    "sort": (lambda x: x.sort(1)[0], None, (X,)),
    "topk": (lambda x: x.topk(2)[0], None, (X,)),
    "median": (lambda x: x.median(1)[0], None, (X,)),
    "kthvalue": (lambda x: x.kthvalue(2)[0], None, (X,)),
}
NORMS: dict[str, Case] = {
    "softmax": (lambda x: x.softmax(-1), None, (CUBE,)),
    "softmax of huge": (lambda x: x.softmax(-1), None, (CUBE * 300,)),
    "log_softmax": (lambda x: x.log_softmax(1), None, (CUBE,)),
    "layer_norm": (
        lambda x, w, b: x.layer_norm(-1, 1e-5, w, b),
        lambda t, x, w, b: t.nn.functional.layer_norm(x, (4,), w, b),
        (CUBE, wide(4), wide(4)),
    ),
    "rms_norm": (
        lambda x, w: x.rms_norm(-1, 1e-5, w),
        lambda t, x, w: t.nn.functional.rms_norm(x, (4,), w, 1e-5),
        (CUBE, wide(4)),
    ),
    "group_norm": (
        lambda x, w: x.group_norm(2, w),
        lambda t, x, w: t.nn.functional.group_norm(x, 2, w),
        (wide(2, 4, 3), wide(4)),
    ),
    "instance_norm": (
        lambda x: x.instance_norm(),
        lambda t, x: t.nn.functional.instance_norm(x),
        (wide(2, 3, 5),),
    ),
    "batch_norm": (
        lambda x, w: x.batch_norm(np.arange(3.0), np.arange(1.0, 4.0), w),
        lambda t, x, w: t.nn.functional.batch_norm(
            x, t.tensor([0.0, 1, 2]).double(), t.tensor([1.0, 2, 3]).double(), w
        ),
        (wide(2, 3, 4), wide(3)),
    ),
    "local_response_norm": (
        lambda x: x.local_response_norm(3),
        lambda t, x: t.nn.functional.local_response_norm(x, 3),
        (wide(2, 4, 3),),
    ),
    "normalize": (lambda x: x.normalize(), lambda t, x: t.nn.functional.normalize(x), (X,)),
    "cosine_similarity": (
        lambda x, y: x.cosine_similarity(y),
        lambda t, x, y: t.nn.functional.cosine_similarity(x, y),
        (X, X * X),
    ),
    "pairwise_distance": (
        lambda x, y: x.pairwise_distance(y),
        lambda t, x, y: t.nn.functional.pairwise_distance(x, y),
        (X, X * X),
    ),
    "attention": (
        lambda q, k, v: q.scaled_dot_product_attention(k, v, is_causal=True),
        lambda t, q, k, v: t.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True),
        (wide(2, 5, 4), wide(2, 5, 4, seed=1), wide(2, 5, 3)),
    ),
    "glu": (lambda x: x.glu(), lambda t, x: t.nn.functional.glu(x), (X,)),
    "prelu": (lambda x, w: x.prelu(w), lambda t, x, w: t.nn.functional.prelu(x, w), (X, wide(4))),
    "lerp": (lambda x, y, w: x.lerp(y, w), None, (X, X * X, wide(4, low=0, high=1))),
    "addcdiv": (lambda x, a, b: x.addcdiv(a, b, value=2), None, (X, X + 1, X * X + 1)),
}
TABLE = {**MOVEMENT, **REDUCTIONS, **PRODUCTS, **INDEXING, **NORMS}


@pytest.mark.parametrize("name", TABLE)
def test_methods(torch, name):
    ours, theirs, arrays = TABLE[name]
    theirs = theirs and partial(theirs, torch)
    against(torch, ours, theirs, *arrays, rtol=1e-6 if name == "cast" else 1e-8)

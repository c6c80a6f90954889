"""Gradients of the primitive ops and those beside them: finite differences, kinks, infinities."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import luminal_lab as ll
from luminal_lab.core import ops
from luminal_lab.core.op import OPS
from luminal_lab.errors import DTypeError
from luminal_lab.passes.gradients.rule import RULES
from tests.expect import error_of
from tests.passes.gradients.against import against, differences, ours_by
from tests.tensor.against import FLOATS, draw, same


def wide(*shape: int, seed: int = 0, low: float = -3.0, high: float = 3.0) -> np.ndarray:
    return draw(shape, "float64", seed=seed, low=low, high=high)


X, Y, ABOVE = wide(3, 4), wide(3, 4, seed=1), wide(3, 4, low=0.2)
INDEX = np.array([[2, 0, 2, 1], [2, 1, 0, 1]])
PRIMITIVES: dict[str, tuple[Callable[..., Any], tuple[np.ndarray, ...]]] = {
    "log2": (lambda x: x.apply(ops.Log2()), (ABOVE,)),
    "exp2": (lambda x: x.apply(ops.Exp2()), (X,)),
    "sin": (lambda x: x.apply(ops.Sin()), (X,)),
    "sqrt": (lambda x: x.apply(ops.Sqrt()), (ABOVE,)),
    "recip": (lambda x: x.apply(ops.Recip()), (ABOVE,)),
    "add": (lambda x, y: x.apply(ops.Add(), y), (X, Y)),
    "mul": (lambda x, y: x.apply(ops.Mul(), y), (X, Y)),
    "square": (lambda x: x.apply(ops.Mul(), x), (X,)),
    "mod": (lambda x, y: x.apply(ops.Mod(), y), (X, Y)),
    "less_than": (lambda x, y: x.apply(ops.LessThan(), y).where(x, y), (X, Y)),
    "sum_reduce": (lambda x: x.apply(ops.SumReduce(1)), (X,)),
    "max_reduce": (lambda x: x.apply(ops.MaxReduce(0)), (X,)),
    "contiguous": (lambda x: x.apply(ops.Contiguous()), (X,)),
    "cast": (lambda x: x.cast("float32").cast("float64"), (np.round(X * 64) / 64,)),
    "where": (lambda x, y: (x > y).apply(ops.Where(), x, y), (X, Y)),
    "gather": (lambda x, i: x.apply(ops.Gather(0), i), (X, INDEX)),
    "scatter set": (lambda x, i, v: x.apply(ops.Scatter(0, "set"), i, v), (X, INDEX, wide(2, 4))),
    "scatter add": (lambda x, i, v: x.apply(ops.Scatter(0, "add"), i, v), (X, INDEX, wide(2, 4))),
    "scatter along": (
        lambda x, i, v: x.apply(ops.Scatter(1, "set"), i, v),
        (wide(2, 3), INDEX, wide(2, 4)),
    ),
    "update": (lambda x, r: x.apply(ops.Update(1, 1), r), (X, wide(3, 2))),
    "permute": (lambda x: x.apply(ops.Permute((2, 0, 1))), (wide(2, 3, 4),)),
    "reshape": (lambda x: x.apply(ops.Reshape((2, 6))), (X,)),
    "expand": (lambda x: x.apply(ops.Expand((3, 2, 4))), (wide(3, 1, 1),)),
    "slice": (lambda x: x.apply(ops.Slice((1, 0), (3, 4), (1, 3))), (X,)),
    "pad": (lambda x: x.apply(ops.Pad((1, 0), (0, 2))), (X,)),
    "flip": (lambda x: x.apply(ops.Flip((1,))), (X,)),
    "window": (lambda x: x.apply(ops.Window(0, 3, 1, 1)), (wide(6, 2),)),
    "after": (lambda x, y: x.apply(ops.After(), y), (X, Y)),
    "graph_break": (lambda x: x.apply(ops.GraphBreak()), (X,)),
    "stop_gradient": (lambda x: x.apply(ops.StopGradient()) * 0.0 + x, (X,)),
}
NOT_HERE = {"input", "constant", "iota", "random", "call", "pick", "host_call", "custom_gradient"}
NOT_HERE |= {"stored"}  # passes make it, of what gradients were derived of before
NOT_HERE |= {"user_kernel"}  # its body is derived; tests/kernels/user/test_call.py

BITS = {"bit_and", "bit_or", "bit_xor", "shift_left", "shift_right"}  # of integers
NOT_HERE |= {*BITS, "bitcast"}  # which has none


@pytest.mark.parametrize("name", PRIMITIVES)
def test_small_steps_show_the_same(name):
    ours, arrays = PRIMITIVES[name]
    near = 2e-2 if name == "cast" else 2e-6
    differences(ours, *arrays, step=2**-6 if name == "cast" else 1e-5, near=near)


def test_every_op_has_been_thought_of():
    # What kernels have a function for is put in by compiles, behind all gradients.
    ours = {
        name
        for name, op in OPS.items()
        if op.__module__.startswith("luminal_lab.core") and "intrinsic" not in op.__module__
    }
    told = {name.split()[0] for name in PRIMITIVES} - {"square"}
    assert ours == told | NOT_HERE
    assert ours - set(RULES) == {
        *("less_than", "stop_gradient", "input", "constant", "iota", "random", "call", "pick"),
        *("host_call", "stored", "user_kernel"),
        *BITS,
    }


def test_bits_read_as_another_float_have_no_gradient():
    cx = ll.Graph()
    x = cx.tensor((2,), "float16", name="x")
    wrong = error_of(lambda: ll.grad(x.bitcast("bfloat16").sum(), x), DTypeError)
    assert wrong.message == ("grad: %1 reads the bits of float16 as bfloat16, and has no gradient")
    assert ll.grad(x.bitcast("float16").sum(), x).shape == (2,)


WINDOWS = [(3, 1, 1), (2, 2, 1), (2, 3, 1), (3, 2, 1), (3, 1, 2), (2, 3, 4), (1, 1, 1), (1, 4, 3)]


@pytest.mark.parametrize("given", [*WINDOWS, (11, 1, 1), (4, 2, 3), (11, 20, 1)], ids=str)
@pytest.mark.parametrize("axis", [0, 1])
def test_windows_of_every_kind(given, axis):
    x = wide(11, 2) if axis == 0 else wide(2, 11)
    differences(lambda x: x.apply(ops.Window(axis, *given)), x)


@pytest.mark.parametrize(
    "given", [(0, 11, 2), (3, 10, 3), (1, 11, 4), (5, 5, 2), (0, 1, 7)], ids=str
)
def test_slices_of_every_kind(given):
    start, stop, step = given
    differences(lambda x: (x.apply(ops.Slice((start,), (stop,), (step,))), x.sum()), wide(11))


# -- kinks, where PyTorch decides ------------------------------------------------------------------


def test_at_kinks_as_pytorch(torch):
    x = np.array([-2.0, -1, 0, 1, 2, 6])
    for name in ("relu", "abs", "relu6"):
        there = getattr(torch.nn.functional, name, None) or getattr(torch, name)
        against(torch, lambda x, n=name: getattr(x, n)(), there, x)
    against(torch, lambda x, y: x.maximum(y), None, x, np.abs(x))
    against(torch, lambda x, y: x.minimum(y), None, x, np.abs(x))
    ties = np.array([[1.0, 2, 2, 0], [3, 3, 3, 3], [-1, -1, -2, -np.inf]])
    for axis in (0, 1, (0, 1)):
        against(torch, lambda x, a=axis: x.amax(a), None, ties)
        against(torch, lambda x, a=axis: x.amin(a), None, ties)


def test_of_values_that_overwrite_each_other_the_last_counts():
    values = wide(2, 4)
    base, found = ours_by(lambda x, i, v: x.apply(ops.Scatter(0, "set"), i, v), X, INDEX, values)
    assert (found[0] == 0).tolist() == [True, False, False, True]
    assert (found[1] != 0).all()
    assert (base == 0).sum() == 6


# -- no NaN from branches not taken ----------------------------------------------------------------

SAFE: dict[str, Callable[..., Any]] = {
    "log": lambda x: (x > 0).where(x.log(), 0.0),
    "sqrt": lambda x: (x > 0).where(x.sqrt(), x),
    "quotient": lambda x: x.eq(0).where(1.0, x.sin() / x),
    "inner quotient": lambda x: (x > 0).where((1 / x).tanh() * 2 + x, -1.0),
    "nested": lambda x: (x > -1).where((x > 0).where((x * 3).log() * x, x), 0.0),
    "reshaped": lambda x: (x > 0).reshape(3, 2).where(x.log().reshape(3, 2).T.T, 0.0),
    "in two ways": lambda x: (x > 0).where(x.log() + x.sqrt() * x.log2(), 0.0),
    "padded": lambda x: (x > 0).pad(((1, 1),)).where(x.log().pad(((1, 1),)), 0.0),
    "other way": lambda x: (x < 0.1).where(0.0, (x < 0.2).where(x, x.log())),
    "both ways": lambda x: (x > 0).where((x < 0).where(x, (1 / x).sin() + x), 0.0),
    "ways mixed": lambda x: (x < 0.1).where(1.0, (x > 0).where(x.sqrt() * 2 + 1 / x, 0.0)),
    "moved and nested": lambda x: (
        (x > 0).reshape(2, 3).where((x > -1).where(x.log() * x, x).reshape(2, 3), 0.0)
    ),
    "many": lambda x: _many(x),
    "product": lambda x: (x > 0).where(x * (1 / x), 0.0),
}


def _many(x: Any) -> Any:
    for k in range(30):
        x = (x > 0).where(x.log() + k % 2 + 1, 0.0) * x.eq(0).where(1.0, x.sin() / x)
    return x


@pytest.mark.parametrize("name", SAFE)
def test_branches_not_taken_count_for_nothing(name):
    x = np.array([0.0, 1.0, 2.0, 0.0, -2.0, 0.5])
    (found,) = ours_by(SAFE[name], x)
    assert np.isfinite(found).all()
    inside = x > 0
    (alone,) = ours_by(SAFE[name], np.where(inside, x, 1.0))  # the branch is taken everywhere
    same(found[inside], alone[inside], rtol=1e-12)


@pytest.mark.parametrize("name", ["softmax", "logsumexp", "softmin"])
def test_masked_scores_have_finite_gradients(torch, name):
    x = wide(3, 4)
    x[0, 1:] = x[1, 0] = np.inf if name == "softmin" else -np.inf
    function = getattr(torch.nn.functional, name, None) or getattr(torch, name)
    assert all(np.isfinite(slope).all() for slope in ours_by(lambda x: getattr(x, name)(-1), x))
    against(torch, lambda x: getattr(x, name)(-1), lambda x: function(x, -1), x)


def test_a_log_softmax_of_masked_scores_is_finite_where_it_is_read(torch):
    x, seen = wide(3, 4), np.tril(np.ones((3, 4), bool))
    ours = lambda x: ll.where(seen, ll.where(seen, x, -np.inf).log_softmax(-1), 0.0)  # noqa: E731

    def theirs(x: Any) -> Any:
        mask = torch.tensor(seen)
        return x.masked_fill(~mask, -np.inf).log_softmax(-1).masked_fill(~mask, 0.0)

    against(torch, ours, theirs, x)


def test_attention_of_hidden_keys():
    q, k, v = wide(5, 4), wide(5, 4, seed=1), wide(5, 3)
    mask = np.tril(np.ones((5, 5), bool))
    mask[2] = False  # a query that sees nothing
    ours = lambda q, k, v: q.scaled_dot_product_attention(k, v, mask)  # noqa: E731
    for slope in ours_by(ours, q, k, v):
        assert np.isfinite(slope).all()


def test_conditions_cost_one_node_each_however_many_there_are():
    def nodes(count: int) -> int:
        cx = ll.Graph()
        y = x = cx.tensor((3,), name="x")
        weights = [cx.tensor((), name=f"w{k}") for k in range(count)]
        for w in weights:
            y = (y * w).relu()
        loss = y.sum()
        first = cx.next_id
        ll.grad(loss, [x, *weights])
        return cx.next_id - first

    assert nodes(40) - nodes(20) == nodes(60) - nodes(40)
    assert nodes(1100) > 1100, "and none of it is recursive"


# -- shapes and dtypes -----------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (1, 1), (), (1,), (0,)])
def test_empty_and_small_shapes(torch, shape):
    x = wide(*shape)
    against(torch, lambda x: x.sigmoid() * x, None, x)
    against(torch, lambda x: x.sum(), None, x)
    if x.ndim:
        against(torch, lambda x: x.softmax(-1), None, x)
        against(torch, lambda x: x.cumsum(0), None, x)
        against(torch, lambda x: x.flip(0)[:1], lambda x: x.flip(0)[:1], x)
    if x.size:
        against(torch, lambda x: x.amax(), None, x)


@pytest.mark.parametrize("dtype", FLOATS)
def test_each_op_keeps_the_dtype(torch, dtype):
    x = draw((3, 4), dtype, low=0.5, high=2)
    for name in ("sin", "sqrt", "exp2", "log2"):
        against(torch, lambda x, n=name: getattr(x, n)(), lambda x, n=name: getattr(torch, n)(x), x)
    against(torch, lambda x: 1 / x, None, x)
    against(torch, lambda x: x.amax(1), None, x)
    against(torch, lambda x, y: x % y, None, x, draw((3, 4), dtype, low=0.3, high=0.5, seed=1))


def test_sums_over_several_axes_of_halves_are_made_in_float32():
    x, y = np.ones((1, 1), "float16"), np.full((47, 67), 0.1, "float16")
    found, _ = ours_by(lambda x, y: (x.expand(47, 67) * y).cast("float32"), x, y)
    weights = ours_by(lambda y: y.cast("float32"), y)[0].astype(np.float32)
    wanted = (y * weights.astype(np.float16)).astype(np.float32).sum().astype(np.float16)
    assert found.item() == wanted

"""The interpreter: freeing, tiles that change no bit, calls, what is decided at run time."""

import gc
import textwrap
import tracemalloc
import weakref
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
from hypothesis import given, strategies as st

from luminal_lab.core import interpret as interpreter
from luminal_lab.core.dtypes import DType
from luminal_lab.core.edit import Edit
from luminal_lab.core.interpret import Environment, interpret
from luminal_lab.core.op import Elementwise, Op, TensorType
from luminal_lab.core.ops import Add, Call, Slice
from luminal_lab.core.parse import parse
from luminal_lab.errors import DeviceError, ShapeError, VerifyError
from luminal_lab.session import Graph


@pytest.fixture
def tiles(monkeypatch):
    """Make everything above a few hundred bytes large."""
    monkeypatch.setattr(interpreter, "LARGE", 256)
    monkeypatch.setattr(interpreter, "TILE", 128)


@dataclass(frozen=True, slots=True)
class Watched(Elementwise):
    """The same values in a new array that is watched."""

    name: ClassVar[str] = "watched_in_test"
    c_form: ClassVar[str] = "{0}"
    made: ClassVar[list[weakref.ref]] = []

    def infer(self, x: TensorType) -> TensorType:
        return x

    def eval(self, x):
        result = x.copy()
        self.made.append(weakref.ref(result))
        return result


@dataclass(frozen=True, slots=True)
class Liar(Op):
    """An op whose value is not what its type says."""

    name: ClassVar[str] = "liar_in_test"

    def infer(self, x: TensorType) -> TensorType:
        return x

    def eval(self, x):
        return x[:1]


def run(text, **data):
    ir = parse(textwrap.dedent(text))
    values = interpret(ir, Environment(lambda node: np.asarray(data[node.name], node.dtype.numpy)))
    return [values[id] for id in ir.output_ids]


# -- values ----------------------------------------------------------------------------------------


def test_values_are_freed_at_their_last_use():
    Watched.made.clear()
    alive = []
    cx = Graph()
    x = cx.tensor((4,)).set(np.arange(4.0))
    for _ in range(5):
        x = x.apply(Watched())

        def count(value):
            alive.append(sum(made() is not None for made in Watched.made))
            return value

        x = cx.function(count, x, shape=4, name="count")
    y = x.retrieve()
    cx.execute()
    gc.collect()
    assert max(alive) == 1
    assert sum(made() is not None for made in Watched.made) == 0
    assert y.tolist() == [0, 1, 2, 3]


def test_kept_values_stay_and_what_is_read_twice_is_freed_after_the_second():
    Watched.made.clear()
    cx = Graph()
    x = cx.tensor((4,)).set(np.arange(4.0))
    kept = x.apply(Watched()).keep()
    used = x.apply(Watched())
    y = (kept + used + used).retrieve()
    cx.execute()
    gc.collect()
    assert [made() is not None for made in Watched.made] == [True, False]
    assert y.tolist() == [0, 3, 6, 9]


def test_what_is_wanted_may_be_known_an_input_or_wanted_twice():
    ir = parse("""graph g(%x: f32[2]) -> (%x, %y, %y) {
      %y = sqrt %x : f32[2]
    }""")
    x = np.array([4, 9], np.float32)
    values = interpret(ir, Environment(lambda _: x))
    assert values.keys() == {ir["x"].id, ir["y"].id}
    assert not any(np.shares_memory(value, x) for value in values.values())
    known = {ir["y"].id: np.array([7, 7], np.float32)}
    again = interpret(ir, Environment(lambda _: x), wanted=[ir["y"].id], known=known)
    assert again[ir["y"].id] is known[ir["y"].id]


# -- tiles -----------------------------------------------------------------------------------------


def test_a_product_far_larger_than_memory_allows_needs_little(monkeypatch):
    monkeypatch.setattr(interpreter, "LARGE", 1 << 18)
    monkeypatch.setattr(interpreter, "TILE", 1 << 16)
    cx = Graph()
    a, b = (np.random.default_rng(0).random((n, m), np.float32) for n, m in [(96, 128), (128, 80)])
    y = cx.tensor((96, 128)).set(a).matmul(cx.tensor((128, 80)).set(b)).retrieve()
    tracemalloc.start()
    cx.execute()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 600_000  # the products alone are 4 MB
    np.testing.assert_allclose(y.numpy(), a @ b, rtol=1e-5)


def whole_and_tiled(build, monkeypatch, tile=128):
    """Return a result computed as a whole, and in tiles."""
    results = []
    for large in (1 << 40, 256):
        monkeypatch.setattr(interpreter, "LARGE", large)
        monkeypatch.setattr(interpreter, "TILE", tile)
        cx = Graph()
        outputs = build(cx)
        cx.retrieve(outputs)
        cx.execute()
        results.append([tensor.numpy() for tensor in outputs])
    return results


def source(cx, shape, dtype="float32"):
    data = np.random.default_rng(5).standard_normal(shape).astype(np.float32)
    return cx.tensor(tuple(shape), dtype).set(data.astype(DType(dtype).numpy))


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
@pytest.mark.parametrize(
    ("rows", "inner", "columns"),
    [(7, 200, 9), (1, 500, 33), (33, 300, 1), (1, 300, 1), (5, 1, 40), (64, 3, 2), (2, 9000, 3)],
)
def test_matrix_products_have_the_same_bits_in_tiles(rows, inner, columns, dtype, monkeypatch):
    def build(cx):
        a, b = source(cx, (rows, inner), dtype), source(cx, (inner, columns), dtype)
        return [a.matmul(b), b.T.matmul(a.T)]

    for whole, tiled in zip(*whole_and_tiled(build, monkeypatch), strict=True):
        np.testing.assert_array_equal(whole.view(np.uint8), tiled.view(np.uint8))


@given(
    st.lists(st.integers(1, 9), min_size=1, max_size=4),
    st.lists(st.tuples(st.integers(0, 3), st.sampled_from("sm")), min_size=1, max_size=4),
    st.permutations(range(4)),
    st.sampled_from([32, 128, 1024]),
)
def test_chains_of_reductions_have_the_same_bits_in_tiles(shape, reductions, order, tile):
    def build(cx):
        x = source(cx, shape)
        axes = tuple(axis for axis in order if axis < len(shape))
        y = (x.permute(axes) * 1.7).sin() + 0.3
        for axis, kind in reductions:
            axis %= len(shape)
            y = (y.sum(axis, keepdim=True) if kind == "s" else y.max(axis, keepdim=True)).sin()
        return [y]

    with pytest.MonkeyPatch.context() as patch:
        for whole, tiled in zip(*whole_and_tiled(build, patch, tile), strict=True):
            np.testing.assert_array_equal(whole.view(np.uint8), tiled.view(np.uint8))


def test_several_outputs_and_readers_in_tiles(tiles):
    cx = Graph()
    x = source(cx, (40, 30))
    big = x * 3
    twice = big * big
    a, b, c = big.sum(0), twice.sum(1), (twice + 1).sum(0).sum(0)
    cx.retrieve([a, b, c, big])
    cx.execute()
    wide = x.numpy() * np.float32(3)
    np.testing.assert_allclose(a.numpy(), wide.sum(0), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(b.numpy(), (wide * wide).sum(1), rtol=1e-5)
    np.testing.assert_allclose(c.numpy(), (wide * wide + 1).sum(), rtol=1e-5)
    np.testing.assert_array_equal(big.numpy(), wide)


def test_long_chains_in_tiles(tiles):
    cx = Graph()
    x = source(cx, (16, 16))
    y = x
    for _ in range(1500):
        y = y + x
    y = y.sum(0).retrieve()
    cx.execute()
    np.testing.assert_allclose(y.numpy(), 1501 * x.numpy().sum(0), rtol=1e-3)


def test_sources_of_what_is_made_in_tiles_are_freed():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(interpreter, "LARGE", 256)
        Watched.made.clear()
        cx = Graph()
        x = source(cx, (40, 30)).apply(Watched())
        total = (x * 2).exp2().sum(0)
        alive = []
        see = cx.function(
            lambda a: alive.append(Watched.made[0]() is not None) or a, total.reshape(30), shape=30
        ).retrieve()
        cx.execute()
        assert alive == [False]
        assert see.shape == (30,)


def test_probes_see_what_would_be_made_in_tiles(tiles):
    cx = Graph()
    big = source(cx, (40, 30)) * 2
    big.sum(0).retrieve()
    shapes = []
    cx.probe(big, lambda value: shapes.append(value.shape))
    cx.execute()
    assert shapes == [(40, 30)]


def test_empty_and_symbolic_values_in_tiles(tiles):
    cx = Graph()
    x = cx.tensor(("n", 50, 3), name="x")
    y = ((x * 2).sum(1) + 1).retrieve()
    for n in (1, 7):
        x.set(np.ones((n, 50, 3)))
        cx.execute()
        np.testing.assert_array_equal(y.numpy(), np.full((n, 3), 101))
    z = cx.tensor((0, 500)).set(np.zeros((0, 500)))
    total = (z * 2).sum(1).retrieve()
    cx.execute()
    assert total.tolist() == []


# -- calls -----------------------------------------------------------------------------------------


def test_calls_with_one_and_several_results():
    one = run(
        """
        graph g(%x: f32[3]) -> (%y) {
          %y = call{body = square} %x : f32[3]
        }
        graph square(%a: f32[3]) -> (%b) {
          %b = mul %a, %a : f32[3]
        }""",
        x=[1, 2, 3],
    )
    assert one[0].tolist() == [1, 4, 9]
    two = run(
        """
        graph g(%x: f32[3]) -> (%p, %q, %p) {
          %c = call{body = both} %x : (f32[3], f32[1])
          %q = pick{index = 1} %c : f32[1]
          %p = pick{index = 0} %c : f32[3]
        }
        graph both(%a: f32[3]) -> (%a, %s) {
          %s = sum_reduce{axis = 0} %a : f32[1]
        }""",
        x=[1, 2, 3],
    )
    assert [value.tolist() for value in two] == [[1, 2, 3], [6], [1, 2, 3]]


def test_random_numbers_in_a_call_follow_the_step():
    inner, outer = Graph("noise"), Graph()
    inner.rand(4, seed=3).named("r").retrieve()
    z = outer.rand(4, seed=3).named("z").retrieve()
    edit = Edit(outer.ir)
    y = edit.insert(Call(inner.ir), name="y")
    edit.insert(Add(), "z", y, name="sum")
    ir = edit.ir()
    seen = []
    for step in (0, 1):
        wanted = [ir["y"].id, ir["sum"].id, z.id]
        values = interpret(ir, Environment(lambda _: np.zeros(0), step=step), wanted=wanted)
        np.testing.assert_array_equal(values[z.id], values[y.id])
        np.testing.assert_array_equal(np.multiply(values[z.id], 2), values[ir["sum"].id])
        seen.append(values[z.id].tolist())
    assert seen[0] != seen[1]


def test_an_error_in_a_body_says_its_line():
    ir = parse(
        textwrap.dedent("""
        graph g(%x: f32[n]) -> (%y) {
          %y = call{body = first} %x : f32[4]
        }
        graph first(%a: f32[n]) -> (%b) {
          %b = slice{start = [0], stop = [4], step = [1]} %a : f32[4]
        }""")
    )
    with pytest.raises(ShapeError) as caught:
        interpret(ir, Environment(lambda _: np.zeros(3, np.float32), dims={"n": 3}))
    assert caught.value.where == "%b = slice{start = [0], stop = [4], step = [1]} %a : f32[4]"


def test_a_graph_that_an_edit_made_runs():
    cx = Graph()
    x = cx.tensor((3,), name="x").set([1, 2, 3])
    (x * x).named("y").retrieve()
    edit = Edit(cx.ir)
    cube = Graph("cube")
    a = cube.tensor((3,))
    (a * a * a).retrieve()
    edit.replace("y", edit.insert(Call(cube.ir), "x"))
    ir = edit.ir()
    values = interpret(ir, Environment(lambda _: np.array([1, 2, 3], np.float32)))
    assert values[ir.output_ids[0]].tolist() == [1, 8, 27]


# -- what is decided at run time -------------------------------------------------------------------


def test_symbolic_dims_are_checked_again_when_they_are_known():
    cx = Graph()
    x = cx.tensor(("n", "m"), name="x").set(np.ones((3, 4)))
    part = x.apply(Slice((0, 0), (2, 4), (1, 1))).retrieve()
    cx.execute()
    x.set(np.ones((3, 2)))
    with pytest.raises(ShapeError) as caught:
        cx.execute()
    lines = str(caught.value).splitlines()
    assert lines[0] == "slice: 0:4:1 is not within axis 1 of (3, 2)"
    assert lines[1] == "  %1 = slice{start = [0, 0], stop = [2, 4], step = [1, 1]} %x : f32[2, 4]"
    assert lines[2].endswith("part = x.apply(Slice((0, 0), (2, 4), (1, 1))).retrieve()")
    assert lines[3].startswith("hint: ")
    assert part.shape == (2, 4)


def test_deferred_nodes_are_checked_too(tiles):
    cx = Graph()
    x = cx.tensor(("n", 40)).set(np.ones((30, 40)))
    total = (x.apply(Slice((0, 0), (20, 40), (1, 1))) * 2).sum(0).retrieve()
    cx.execute()
    assert total.tolist() == [40] * 40
    x.set(np.ones((10, 40)))
    with pytest.raises(ShapeError, match=r"slice: 0:20:1 is not within axis 0 of \(10, 40\)"):
        cx.execute()


def test_an_op_whose_value_is_not_what_its_type_says():
    cx = Graph()
    cx.tensor((2,), name="x").set([1, 2]).apply(Liar()).named("y").retrieve()
    with pytest.raises(VerifyError) as caught:
        cx.execute()
    assert caught.value.message == (
        "liar_in_test: its value is float32(1,), but its type says float32(2,)"
    )
    assert str(caught.value.where).startswith("%y = liar_in_test %x : f32[2]\n")


@pytest.mark.parametrize(
    ("build", "what"),
    [
        (
            lambda cx: cx.ones((1 << 22, 1 << 22, 4)) * 2,
            "out of memory: %{} needs 281,474,976,710,656 bytes: it is "
            "(4194304, 4194304, 4) of float32",
        ),
        (
            lambda cx: cx.ones((1 << 22, 1 << 22, 4)),
            "out of memory: %{} needs 281,474,976,710,656 bytes: it is "
            "(4194304, 4194304, 4) of float32",
        ),
        (
            lambda cx: cx.ones((10**12, 10**12)),
            "out of memory: %{} needs 4,000,000,000,000,000,000,000,000 bytes: it is "
            "(1000000000000, 1000000000000) of float32",
        ),
        (
            lambda cx: cx.zeros((1,) * 64).unsqueeze(0),
            "%{} has 65 axes, and NumPy allows 64",
        ),
    ],
)
def test_what_is_too_large_is_named_with_its_size(build, what):
    cx = Graph()
    y = build(cx).retrieve()
    with pytest.raises(DeviceError) as caught:
        cx.execute()
    assert caught.value.message.startswith("execute: " + what.format(y.name))
    assert str(caught.value.hint).startswith("use smaller sizes, or ")
    assert "lambda cx: cx." in str(caught.value.where)
    assert cx.step == 0


def test_numpy_warns_of_nothing():
    cx = Graph()
    x = cx.tensor((4,)).set([0, -1, np.inf, 3e38])
    cx.retrieve([x.recip(), x.log2(), x * x, x.sin(), x.cast("int8"), x.cast("float16"), x.sqrt()])
    cx.execute()

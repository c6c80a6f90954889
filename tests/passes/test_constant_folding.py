"""`fold`: what comes out is what the interpreter computes, and what is not sure is left."""

import math

import numpy as np
import pytest
from hypothesis import given, strategies as st

from luminal_lab.core import ops
from luminal_lab.core.dims import Symbol
from luminal_lab.core.dtypes import DType
from luminal_lab.core.edit import Edit
from luminal_lab.core.ir import IR, Table
from luminal_lab.core.op import Op
from luminal_lab.core.ops import Constant
from luminal_lab.core.parse import parse
from luminal_lab.errors import RangeError, ShapeError
from tests.core.graphs import DIMS, graphs
from tests.expect import error_of
from tests.passes.running import check_pass, check_values, run_passes, values_of

FLOATS = [0.0, -0.0, 1.0, -1.0, 0.1, 2.5, 65504.0, 1e-45, 3e38, math.inf, -math.inf, math.nan]
INTS = [0, 1, -1, 2, 7, 100, 127, -128, 255, 1 << 15, 1 << 31, 1 << 62]


def constants_to(op: Op, *constants):
    """Return a graph of an op on constants."""
    edit = Edit(IR(Table(), (), ()))
    made = edit.insert(op, *[edit.insert(Constant(*constant)) for constant in constants])
    return IR(edit.table, (), (made.id,))


def folded(op: Op, *constants, licence=()):
    """Return the value to which an op on constants is folded, or None; bits are checked."""
    ir = constants_to(op, *constants)
    after = run_passes(ir, "fold", licence=licence).ir
    check_values(ir, after, licence)
    made = after.outputs[0].op
    return made.value if isinstance(made, Constant) else None


@given(graphs())
def test_random_graphs_keep_their_bits(ir):
    check_pass(ir, "fold", licence=(), dims=DIMS)


@given(graphs())
def test_random_graphs_keep_their_values_in_a_pipeline(ir):
    check_pass(ir, "fold, cse, dce", dims=DIMS)


VALUES = {"float": FLOATS, "int": INTS, "bool": [False, True]}
BINARY = [ops.Add(), ops.Mul(), ops.Mod(), ops.LessThan()]
UNARY = [ops.Log2(), ops.Exp2(), ops.Sin(), ops.Sqrt(), ops.Recip()]


@pytest.mark.share("dtype", DType, 4)
def test_every_elementwise_op_gives_the_bits_of_the_interpreter(dtype):
    values = VALUES[dtype.kind]
    if dtype.kind == "int":
        low, high = dtype.limits
        values = [value for value in values if low <= value <= high]
    cases = [(ops.Cast(to), [value]) for to in DType for value in values]
    if dtype.is_float:
        cases += [(op, [value]) for op in UNARY for value in values]
    binary = [op for op in BINARY if not (dtype is DType.bool_ and isinstance(op, ops.Mod))]
    cases += [(op, [x, y]) for op in binary for x in values for y in values]
    edit = Edit(IR(Table(), (), ()))
    outputs = [
        edit.insert(op, *[edit.insert(Constant(value, dtype, (3, 2))) for value in given_values]).id
        for op, given_values in cases
    ]
    ir = IR(edit.table, (), outputs)
    after = run_passes(ir, "fold", licence=()).ir
    assert all(isinstance(node.op, Constant) for node in after.outputs)
    check_values(ir, after, ())


def test_integers_wrap_around():
    assert folded(ops.Add(), (127, DType.int8, (2,)), (1, DType.int8, (2,))) == -128
    assert folded(ops.Mul(), (1 << 62, DType.int64, ()), (4, DType.int64, ())) == 0
    assert folded(ops.SumReduce(0), (200, DType.uint8, (3,))) == 600 % 256
    assert folded(ops.SumReduce(0), (-100, DType.int8, (3,))) == -300 % 256 - 256
    assert folded(ops.Mod(), (7, DType.int32, ()), (0, DType.int32, ())) == 0


@given(
    st.sampled_from([d for d in DType if d.is_float]),
    st.sampled_from(FLOATS) | st.floats(width=16),
    st.sampled_from([0, 1, 2, 3, 7, 10, 64, 65, 100]),
)
def test_a_sum_is_folded_to_the_bits_of_the_interpreter(dtype, value, size):
    folded(ops.SumReduce(1), (value, dtype, (2, size)))


@pytest.mark.parametrize(
    ("value", "size", "wanted"),
    [
        (0.1, 1, float(np.float32(0.1))),
        (0.1, 3, None),
        (0.5, 3, 1.5),
        (1.0, 1 << 24, float(1 << 24)),
        (1.0, (1 << 24) + 2, None),  # 2^24 + 1 is no float32, and might be a part of the sum
        (2.0**100, 1 << 24, 2.0**124),
        (2.0**110, 1 << 24, math.inf),
        (-0.0, 3, None),
    ],
)
def test_a_sum_that_may_round_is_left(value, size, wanted):
    # The size is more than this test wants to compute.
    ir = constants_to(ops.SumReduce(0), (value, DType.float32, (size,)))
    made = run_passes(ir, "fold", licence=()).ir.outputs[0].op
    assert getattr(made, "value", None) == wanted


def test_zeros_have_signs_unless_the_licence_says_otherwise():
    zero = (-0.0, DType.float32, (3,))
    assert folded(ops.SumReduce(0), zero) is None
    assert folded(ops.SumReduce(0), zero, licence=["no_signed_zero"]) == 0
    assert folded(ops.Pad((1,), (0,)), zero) is None
    assert folded(ops.Pad((1,), (0,)), zero, licence=["no_signed_zero"]) == 0
    assert repr(folded(ops.Pad((0,), (0,)), zero)) == "-0.0"
    n = Symbol("n", 0, 4)
    product = (n, DType.float32, (3,)), (-1.0, DType.float32, (3,))
    assert folded(ops.Mul(), *product) is None
    assert folded(ops.Mul(), *product, licence=["no_signed_zero"]) == -n


def test_whole_symbolic_numbers():
    n, m = Symbol("n", 1, 1 << 20), Symbol("m")
    f32, i32, half = DType.float32, DType.int32, DType.float16
    assert folded(ops.Add(), (n, f32, ()), (2.0, f32, ())) == n + 2
    assert folded(ops.Add(), (n, f32, ()), (0.5, f32, ())) is None
    assert folded(ops.Add(), (m, f32, ()), (2.0, f32, ())) is None
    assert folded(ops.Mul(), (n, f32, ()), (64.0, f32, ())) is None  # 26 bits
    assert folded(ops.Add(), (n, half, ()), (2.0, half, ())) is None
    assert folded(ops.Mul(), (m, i32, ()), (3, i32, ())) == m * 3
    assert folded(ops.Cast(f32), (m, i32, ())) is None
    assert folded(ops.Cast(f32), (n, i32, ())) == n
    assert folded(ops.Cast(DType.int8), (n, i32, ())) is None
    assert folded(ops.Cast(DType.bool_), (n, i32, ())) is True
    assert folded(ops.LessThan(), (n, i32, ()), (0, i32, ())) is False
    assert folded(ops.LessThan(), (n, i32, ()), (5, i32, ())) == (n < 5)
    assert folded(ops.Mod(), (n, i32, ()), (4, i32, ())) == n % 4
    assert folded(ops.Mod(), (n, i32, ()), (0, i32, ())) is None
    assert folded(ops.Recip(), (n, f32, ())) is None
    assert folded(ops.SumReduce(0), (2.0, f32, (Symbol("k", 0, 9),))) == 2 * Symbol("k", 0, 9)
    assert folded(ops.SumReduce(0), (2.0, f32, (m,))) is None
    assert folded(ops.SumReduce(0), (0.5, f32, (Symbol("k", 0, 9),))) is None
    assert folded(ops.SumReduce(0), (2, i32, (m,))) == 2 * m
    assert folded(ops.SumReduce(0), (n, i32, (4,))) == 4 * n
    assert folded(ops.SumReduce(0), (math.nan, f32, (Symbol("k", 0, 9),))) is None
    assert folded(ops.MaxReduce(0), (2.0, f32, (Symbol("k", 0, 9),))) is None
    assert folded(ops.MaxReduce(0), (2.0, f32, (n,))) == 2.0


def test_a_pad_of_symbolic_width():
    n, f32 = Symbol("n"), DType.float32
    assert folded(ops.Pad((n,), (0,)), (0.0, f32, (2,))) == 0.0
    assert folded(ops.Pad((n,), (0,)), (1.0, f32, (2,))) is None
    assert folded(ops.Pad((0, 0), (n, 0)), (1.0, f32, (2, 3))) is None
    assert folded(ops.Pad((0,), (0,)), (1.0, f32, (n,))) == 1.0


def test_an_error_at_run_time_is_not_folded_away():
    ir = constants_to(ops.Gather(0), (1.0, DType.float32, (3,)), (3, DType.int64, (2,)))
    assert run_passes(ir, "fold").ir is ir
    error_of(lambda: values_of(ir, {}, {}), RangeError)
    ir = parse("""graph g[n: 1..9]() -> (%y) {
  %x = constant{value = 1.0} : f32[n, 0]
  %y = slice{start = [0, 0], stop = [4, 0], step = [1, 1]} %x : f32[4, 0]
}""")
    assert run_passes(ir, "fold").ir is ir
    error_of(lambda: values_of(ir, {}, {"n": 3}), ShapeError)
    ir = parse("""graph g[n: 1..9]() -> (%y) {
  %x = constant{value = 0.0} : f32[4]
  %y = pad{before = [n - 3], after = [0]} %x : f32[n + 1]
}""")
    assert run_passes(ir, "fold").ir is ir
    error_of(lambda: values_of(ir, {}, {"n": 2}), ShapeError)


def test_a_choice_that_is_known_takes_the_node_chosen():
    ir = parse("""graph g(%x: f32[2], %y: f32[2]) -> (%a, %b) {
  %no = constant{value = false} : bool[2]
  %a = where %no, %x, %y : f32[2]
  %b = sin %a : f32[2]
}""")
    snapshot = run_passes(ir, "fold").snapshots[-1]
    assert [str(firing) for firing in snapshot.firings] == ["where-of-constants: %a → %y"]
    assert snapshot.ir.outputs[0] is ir["y"]

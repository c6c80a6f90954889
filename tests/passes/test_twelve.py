"""`to-twelve` and `from-twelve`: the same values in twelve ops, and the same graph again."""

import numpy as np
import pytest
from hypothesis import assume, given, strategies as st

from luminal_lab.core import ops
from luminal_lab.core.dims import Symbol
from luminal_lab.core.dtypes import DType
from luminal_lab.core.edit import Edit
from luminal_lab.core.ir import IR, Table
from luminal_lab.core.op import View
from luminal_lab.core.ops import Cast, Constant, Gather, Input, Iota, Random, Scatter, Update, Where
from luminal_lab.core.parse import parse
from luminal_lab.errors import RangeError
from luminal_lab.passes.pipeline import Pipeline
from luminal_lab.passes.proof import examine
from luminal_lab.passes.twelve import FromTwelve
from tests.core.graphs import graphs
from tests.expect import error_of
from tests.passes.running import check_pass, run_passes, same_values, values_of

ALL = ["no_nan", "no_inf", "no_signed_zero", "reassociate"]
THERE = Pipeline(["to-twelve"], licence=ALL)
BACK = Pipeline(["from-twelve"], licence=ALL)
TWELVE = (
    *(ops.Log2, ops.Exp2, ops.Sin, ops.Sqrt, ops.Recip, ops.Add, ops.Mul, ops.Mod, ops.LessThan),
    *(ops.SumReduce, ops.MaxReduce, ops.Contiguous),
)
N = Symbol("n", 1, 300)


def graph_of(op, *types):
    """Return the graph of one op on inputs."""
    edit = Edit(IR(Table(), (), ()))
    inputs = [edit.insert(Input(*type), name=f"i{k}") for k, type in enumerate(types)]
    node = edit.insert(op, *inputs)
    return IR(edit.table, [i.id for i in inputs], [node.id])


def spelled(ir):
    """Return the graph in the twelve, and check the way there and back."""
    there = run_passes(ir, THERE).ir
    for node in there:
        is_twelve = isinstance(node.op, (*TWELVE, View, Constant, Iota, Input, Random))
        assert is_twelve or (isinstance(node.op, Cast) and node.dtype is not DType.bool_), node.op
    assert run_passes(there, THERE).ir is there
    for way in ([BACK, "dce"], ["cse", BACK, "dce"]):
        assert run_passes(there, *way).ir == ir
    return there


@st.composite
def indexed(draw):
    """Draw a dtype, shapes of values and of indices along an axis, and data for both."""
    rank = draw(st.integers(1, 3))
    shape = draw(st.lists(st.integers(1, 3), min_size=rank, max_size=rank))
    axis = draw(st.integers(0, rank - 1))
    places = [*shape[:axis], draw(st.integers(0, 4)), *shape[axis + 1 :]]
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    index = rng.integers(0, shape[axis], places)
    return draw(st.sampled_from(list(DType))), tuple(shape), axis, index, rng


def numbers(rng, dtype, shape):
    """Return finite values, no zero among the floats that has a sign."""
    low = 0 if dtype.kind == "bool" or dtype.is_unsigned else -5
    return rng.integers(low, 2 if dtype.kind == "bool" else 9, shape).astype(dtype.numpy)


def same(ir, other, data):
    """Check that two graphs compute the same of data."""
    named = {f"i{k}": array for k, array in enumerate(data)}
    for old, new in zip(*[values_of(one, named, {}) for one in (ir, other)], strict=True):
        assert same_values(old, new, ["no_signed_zero"]), (old, new)


INDEX = st.sampled_from([DType.int64, DType.int32, DType.int8, DType.uint8])


@given(indexed(), INDEX)
def test_gathers(drawn, by):
    dtype, shape, axis, index, rng = drawn
    ir = graph_of(Gather(axis), (dtype, shape), (by, index.shape))
    same(ir, spelled(ir), [numbers(rng, dtype, shape), index.astype(by.numpy)])


@given(indexed(), INDEX, st.sampled_from(["set", "add"]))
def test_scatters_with_duplicates(drawn, by, mode):
    dtype, shape, axis, index, rng = drawn
    types = (dtype, shape), (by, index.shape), (dtype, index.shape)
    ir = graph_of(Scatter(axis, mode), *types)
    data = numbers(rng, dtype, shape), index.astype(by.numpy), numbers(rng, dtype, index.shape)
    same(ir, spelled(ir), data)


@pytest.mark.parametrize("dtype", list(DType))
def test_choices(dtype):
    ir = graph_of(Where(), (DType.bool_, (40,)), (dtype, (40,)), (dtype, (40,)))
    rng = np.random.default_rng(0)
    same(ir, spelled(ir), [rng.random(40) < 0.5, *(numbers(rng, dtype, 40) for _ in "xy")])


@pytest.mark.parametrize("dtype", list(DType))
@pytest.mark.parametrize(("axis", "at", "count"), [(0, 1, 2), (1, 0, 2), (1, 2, 1), (0, 3, 0)])
def test_updates(dtype, axis, at, count):
    rows = (count, 3) if axis == 0 else (4, count)
    ir = graph_of(Update(axis, at), (dtype, (4, 3)), (dtype, rows))
    rng = np.random.default_rng(0)
    same(ir, spelled(ir), [numbers(rng, dtype, (4, 3)), numbers(rng, dtype, rows)])


@pytest.mark.parametrize("dtype", [d for d in DType if d is not DType.bool_])
def test_questions_whether_a_number_is_0(dtype):
    ir = graph_of(Cast(DType.bool_), (dtype, (40,)))
    same(ir, spelled(ir), [numbers(np.random.default_rng(0), dtype, 40)])


@pytest.mark.parametrize("by", [DType.int64, DType.int32, DType.int8])
def test_positions_that_an_index_has_no_bits_for(by):
    """An int8 counts 0 … 127, -128, …: of 300 positions 0 and 256 would be one."""
    ir = graph_of(Gather(0), (DType.float32, (300,)), (by, (2,)))
    data = [np.arange(300).astype(np.float32), np.array([0, 44]).astype(by.numpy)]
    same(ir, spelled(ir), data)


def test_symbolic_sizes():
    f32, i32 = DType.float32, DType.int32
    for op, *types in (
        (Gather(1), (f32, (2, N)), (i32, (2, N * 2))),
        (Scatter(0, "set"), (f32, (N, 2)), (i32, (3, 2)), (f32, (3, 2))),
        (Scatter(0, "add"), (f32, (4,)), (i32, (N,)), (f32, (N,))),
        (Update(0, N - 1), (f32, (400, 2)), (f32, (N, 2))),
        (Where(), (DType.bool_, (N,)), (f32, (N,)), (f32, (N,))),
    ):
        ir = graph_of(op, *types)
        spelled(ir)
        check_pass(ir, "to-twelve", licence=ALL)


@given(graphs())
def test_random_graphs_come_back(ir):
    ir = run_passes(ir, "dce").ir
    # Rows that fill their buffer could have been put there along any axis.
    assume(not any(isinstance(n.op, Update) and n.type == ir.sources(n)[1].type for n in ir))
    there = run_passes(ir, THERE).ir
    assert run_passes(there, BACK, "dce").ir == run_passes(ir, BACK, "dce").ir


def test_what_is_assumed_is_refused_where_it_is_not_granted():
    for op, *types in (
        (Gather(0), (DType.float32, (2,)), (DType.int32, (2,))),
        (Cast(DType.bool_), (DType.float32, (2,))),
    ):
        ir = graph_of(op, *types)
        snapshot = run_passes(ir, "to-twelve").snapshots[-1]
        assert snapshot.ir is ir
        (refusal,) = snapshot.refusals
        assert "no_nan" in refusal.facts
    integers = graph_of(Gather(0), (DType.int32, (2,)), (DType.int32, (2,)))
    assert run_passes(integers, "to-twelve").ir is not integers
    scatter = graph_of(
        Scatter(0, "add"),
        *[(t, (2,)) for t in (DType.float32, DType.int32)] * 1,
        (DType.float32, (2,)),
    )
    finite = Pipeline(["to-twelve"], licence=ALL[:3])
    (refusal,) = run_passes(scatter, finite).snapshots[-1].refusals
    assert refusal.facts == {"reassociate"}


def test_an_infinity_that_is_not_chosen_shows_why():
    ir = graph_of(Where(), *[(d, (1,)) for d in (DType.bool_, DType.float32, DType.float32)])
    data = {"i0": np.array([True]), "i1": np.ones(1, "f4"), "i2": np.array([np.inf], "f4")}
    (value,) = values_of(spelled(ir), data, {})
    assert np.isnan(value).all()


def test_an_index_out_of_range_is_an_error_there_and_no_row_here():
    ir = graph_of(Gather(0), (DType.float32, (2,)), (DType.int64, (1,)))
    data = {"i0": np.ones(2, "f4"), "i1": np.array([5])}
    error_of(lambda: values_of(ir, data, {}), RangeError)
    assert values_of(spelled(ir), data, {})[0].tolist() == [0.0]


def test_the_price_is_said():
    ir = parse("""graph g(%x: f32[1000, 64], %i: i64[8, 64]) -> (%y) {
  %y = gather{axis = 0} %x, %i : f32[8, 64]
}""")
    (firing,) = run_passes(ir, THERE).snapshots[-1].firings
    assert firing.because == "8 ops of 6,154,048 bytes instead of 1 op of 2,048 bytes"


def test_of_two_sums_the_one_that_is_a_table_is_taken():
    """The right one only looks like a table: it asks twice whether the index is less."""
    table, looks = (
        f"""  %{n}1 = reshape{{shape = [2, 1]}} %{n} : i64[2, 1]
  %{n}2 = expand{{shape = [2, 3]}} %{n}1 : i64[2, 3]
  %{n}3 = less_than %{n}2, %p : bool[2, 3]
  %{n}4 = less_than {less} : bool[2, 3]
  %{n}5 = add %{n}3, %{n}4 : bool[2, 3]
  %{n}6 = less_than %{n}5, %true : bool[2, 3]
  %{n}7 = cast{{dtype = f32}} %{n}6 : f32[2, 3]
  %{n}8 = mul %{n}7, %v : f32[2, 3]
  %{n}9 = sum_reduce{{axis = 0}} %{n}8 : f32[1, 3]
  %{n}10 = reshape{{shape = [3]}} %{n}9 : f32[3]
"""
        for n, less in (("i", "%p, %i2"), ("j", "%j2, %p"))
    )
    ir = parse(f"""graph g(%i: i64[2], %j: i64[2], %w: f32[2]) -> (%y) {{
  %n = iota : i64[3]
  %m = reshape{{shape = [1, 3]}} %n : i64[1, 3]
  %p = expand{{shape = [2, 3]}} %m : i64[2, 3]
  %u = reshape{{shape = [2, 1]}} %w : f32[2, 1]
  %v = expand{{shape = [2, 3]}} %u : f32[2, 3]
  %true = constant{{value = true}} : bool[2, 3]
{table}{looks}  %y = add %i10, %j10 : f32[3]
}}""")
    after = check_pass(ir, BACK, licence=ALL).ir
    x, index, values = after.sources(after.outputs[0])
    assert (str(x), str(index), str(values)) == ("%j10", "%i", "%w")


def test_a_rule_can_be_switched_off():
    ir = graph_of(Where(), *[(d, (1,)) for d in (DType.bool_, DType.int32, DType.int32)])
    assert run_passes(ir, "to-twelve{without = [where-to-products]}").ir is ir


def spellings():
    """Return graphs of what `to-twelve` spells, of bools and numbers, by indices of all widths."""
    found = []
    for dtype in (DType.float32, DType.float16, DType.bool_, DType.int8, DType.uint8):
        # More rows than a byte can count are told apart in int64.
        for by, size in ((DType.int64, 3), (DType.int32, 2), (DType.uint8, 300), (DType.int8, 130)):
            x, index = (dtype, (size, 2)), (by, (4, 2))
            found.append(graph_of(Gather(0), x, index))
            found += [graph_of(Scatter(0, m), x, index, (dtype, (4, 2))) for m in ("set", "add")]
        for axis, rows in ((0, (2, 2)), (1, (4, 1))):
            found.append(graph_of(Update(axis, 1), (dtype, (4, 2)), (dtype, rows)))
        for shape in ((1,), (2, 3), (0, 3)):
            found.append(graph_of(Where(), (DType.bool_, shape), (dtype, shape), (dtype, shape)))
    return [run_passes(ir, THERE, "dce").ir for ir in found]


def test_each_rule_back_survives_what_the_rules_there_spell():
    graphs = spellings()
    for rule in FromTwelve.rule_set:
        tried, wrong = examine(rule, on=() if rule.name == "comparisons-to-cast" else graphs)
        assert wrong is None, str(wrong)
        assert tried > 1, f"{rule.name} matched {tried} graphs"

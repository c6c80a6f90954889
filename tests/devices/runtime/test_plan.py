"""Plans for sizes of dims: what fits, what a run needs, by the numbers that are worked out."""

import numpy as np
import pytest
from hypothesis import given, strategies as st

import luminal_lab as ll
from luminal_lab.core import ops
from luminal_lab.core.dims import Dim, Symbol, evaluate
from luminal_lab.core.dtypes import DType
from luminal_lab.core.op import Op, TensorType
from luminal_lab.devices.cpu.program import CPUSource
from luminal_lab.devices.runtime.plan import _limits
from luminal_lab.errors import LabError, ShapeError
from luminal_lab.kernels.definition.numbers import Numbers

N, M = Symbol("n", 0, 9), Symbol("m", 0, 9)
SIZES = st.sampled_from([0, 1, 3, 5, N, M, N + M, N + 1, 2 * M])
SHIFTED = st.sampled_from([0, 1, N, M, N - 2, M - N])


def f32(*shape: Dim) -> TensorType:
    return TensorType(DType.float32, shape)


def slices() -> st.SearchStrategy[tuple[Op, tuple[TensorType, ...]]]:
    axes = st.tuples(SHIFTED, SHIFTED, SIZES)
    return axes.map(lambda a: (ops.Slice((a[0],), (a[1],), (1,)), (f32(a[2]),)))


def updates() -> st.SearchStrategy[tuple[Op, tuple[TensorType, ...]]]:
    axes = st.tuples(SHIFTED, SIZES, SIZES)
    return axes.map(lambda a: (ops.Update(0, a[0]), (f32(a[1], 2), f32(a[2], 2))))


def constants() -> st.SearchStrategy[tuple[Op, tuple[TensorType, ...]]]:
    values = st.sampled_from([N, 40 * N, N - 5, -50 * M])
    dtypes = st.sampled_from([DType.int8, DType.uint8, DType.int64])
    drawn = st.tuples(values, dtypes, SIZES)
    return drawn.map(lambda a: (ops.Constant(a[0], a[1], (a[2],)), ()))


def pads() -> st.SearchStrategy[tuple[Op, tuple[TensorType, ...]]]:
    axes = st.tuples(SHIFTED, SHIFTED, SIZES)
    return axes.map(lambda a: (ops.Pad((a[0],), (a[1],)), (f32(a[2]),)))


def windows() -> st.SearchStrategy[tuple[Op, tuple[TensorType, ...]]]:
    axes = st.tuples(SIZES, SIZES, st.integers(1, 2))
    return axes.map(lambda a: (ops.Window(0, a[0], 1, a[2]), (f32(a[1]),)))


def indexed() -> st.SearchStrategy[tuple[Op, tuple[TensorType, ...]]]:
    axes = st.tuples(SIZES, SIZES, SIZES, st.booleans())

    def drawn(a: tuple[Dim, Dim, Dim, bool]) -> tuple[Op, tuple[TensorType, ...]]:
        index = TensorType(DType.int64, (a[1], a[2]))
        if a[3]:
            return ops.Gather(0), (f32(5, a[0]), index)
        return ops.Scatter(0, "add"), (f32(5, a[0]), index, f32(a[1], a[2]))

    return axes.map(drawn)


FITTED = slices() | updates() | constants() | pads() | windows() | indexed()


@given(FITTED, st.integers(0, 9), st.integers(0, 9))
def test_within_its_limits_an_op_fits_and_beyond_it_does_not(drawn, n: int, m: int):
    op, types = drawn
    sizes, numbers = {"n": n, "m": m}, Numbers()
    limits = [(numbers.place(dim), low, high) for dim, low, high in _limits(op, types) or ()]
    values = numbers.of(sizes)
    is_within = all(low <= values[place] <= high for place, low, high in limits)
    shapes = [[evaluate(dim, sizes) for dim in type.shape] for type in types]
    try:
        pairs = zip(types, shapes, strict=True)
        op.bind(sizes).infer(*[TensorType(type.dtype, tuple(shape)) for type, shape in pairs])
    except LabError:
        assert not is_within
    else:
        assert is_within


def test_a_binding_has_the_numbers_of_the_expressions():
    cx = ll.Graph()
    past = cx.dim("past", 0, 64)
    x = cx.tensor((1, "seq", 8), name="x")
    cache = cx.tensor((1, 64, 8), name="cache")
    rows = cx.carry(cache.update(x, past, 1), cache).slice_along(1, 0, past + x.shape[1])
    (x @ rows.permute(0, 2, 1)).softmax(-1).sum(-1).retrieve()
    ir = cx.compile(ll.GenericCompiler()).ir
    program = CPUSource(ir)
    plan = program.plan(ir.output_ids, dims={"past": 3, "seq": 2})
    for sizes in ({"past": p, "seq": s} for p in (0, 3, 17, 62) for s in (1, 2)):
        plan = program.plan(ir.output_ids, dims=sizes)
        bound = plan.bound(sizes)
        assert [*bound.numbers] == [evaluate(dim, sizes) for dim in plan.numbers._places]
        assert bound.memory.bytes == plan.plan.bind(sizes).bytes
        counts = np.abs(bound.tasks).reshape(len(plan.works), -1)
        for work, row in zip(plan.works, counts.tolist(), strict=True):
            kernel = plan.kernel_of(work)
            phases = () if kernel is None else kernel.phases
            tasks = [evaluate(phase.tasks, sizes) for phase in phases]
            assert row == [*tasks, *[0] * (len(row) - len(tasks))]
        assert all(shape == bound.shape_of(ir[id].type)[0] for id, _, shape, _ in bound.results)
    with pytest.raises(ShapeError, match="do not fit into axis 1 of the buffer"):
        plan.bound({"past": 63, "seq": 2})

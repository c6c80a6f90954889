"""What nodes ask for: operations, bytes in and out."""

import pytest

import luminal_lab as ll
from luminal_lab.core.dtypes import DType
from luminal_lab.core.parse import parse
from luminal_lab.kernels.definition.text import parse_definition
from luminal_lab.machines.rates import Limit, PeakRates
from luminal_lab.timing.measure import limit_of
from luminal_lab.timing.work import Work, is_work, work_of, work_of_definition

CASES = {
    "%y = mul %x, %x : f32[4, n]": (40, 160, 160),
    "%y = sum_reduce{axis = 1} %x : f32[4, 1]": (40, 160, 16),
    "%y = cast{dtype = f64} %x : f64[4, n]": (0, 160, 320),
    "%y = permute{axes = [1, 0]} %x : f32[n, 4]": (0, 0, 0),
    "%y = gather{axis = 0} %x, %i : f32[2, n]": (0, 160 + 80, 80),
    "%y = contiguous %x : f32[4, n]": (0, 160, 160),
}


@pytest.mark.parametrize("line", CASES)
def test_each_kind_of_op(line):
    ir = parse(f"graph g(%x: f32[4, n], %i: i64[2, n]) -> (%y) {{ {line} }}")
    flops, read, written = CASES[line]
    work = work_of(ir, ir["y"], {"n": 10})
    assert work[:3] == (flops, read, written)
    assert work.bytes == read + written
    assert is_work(ir["y"]) == bool(work.bytes)


def test_what_a_view_repeats_is_read_once():
    ir = parse(
        "graph g(%x: f32[1, 8]) -> (%y) {\n"
        "%e = expand{shape = [4, 8]} %x : f32[4, 8]\n"
        "%c = constant{value = 2.0} : f32[4, 8]\n"
        "%y = mul %e, %c : f32[4, 8] }"
    )
    assert work_of(ir, ir["y"], {}) == Work(32, 32, 128, DType.float32, 32)


def test_nodes_that_are_computed_together_are_one_piece_of_work():
    ir = parse(
        "graph g(%x: f32[4, 8]) -> (%y) {\n"
        "%m = mul %x, %x : f32[4, 8]\n"
        "%y = sum_reduce{axis = 1} %m : f32[4, 1] }"
    )
    assert work_of(ir, ir["y"], {}, inside={ir["m"].id}) == Work(64, 128, 16, DType.float32, 64)


def test_a_call_asks_for_what_its_definition_does_and_a_function_for_nobody_knows_what():
    cx = ll.Graph()
    x = cx.tensor((4, 8), name="x")
    x.softmax(-1).retrieve()
    cx.function(abs, x, shape=(4, 8)).retrieve()
    ir = cx.compile(ll.GenericCompiler()).ir
    (call,) = [node for node in ir if node.op.name == "call"]
    work = work_of(ir, call, {})
    assert (work.read, work.written) == (128, 128)
    assert (work.flops or 0) > 32
    (host,) = [node for node in ir if node.op.name == "host_call"]
    assert work_of(ir, host, {}) == Work(None, 128, 128, DType.float32)


@pytest.mark.parametrize(
    ("line", "moved"),
    [
        ('reshard{old = "data", new = "-"} %x : f32[4]', 0),
        ("move{old = 0, new = 1} %x : f32[4]", 0),
        ('all_reduce{axis = "data", kind = sum} %x : f32[4]', 32),
    ],
)
def test_what_is_sent_computes_nothing(line: str, moved: int):
    ir = parse(f"graph g(%x: f32[4]) -> (%y) {{ %y = {line} }}")
    work = work_of(ir, ir["y"], {})
    assert (work.flops, work.bytes if is_work(ir["y"]) else 0) == (0, moved)


def test_whole_numbers_have_no_limit_by_the_rate_of_floats():
    sums = "sum k < 8: f32(sum l < 1000: i32(a[i, k, l]) * i32(b[k, l])) * s[i, k]"
    definition = parse_definition(
        "kernel dots(a: i8[4, 8, 1000], b: i8[8, 1000], s: f32[4, 8]) -> (y: f32[4])\n"
        f"  y[i < 4] = {sums}"
    )
    work = work_of_definition(definition, {})
    assert (work.flops, work.floats) == (4 * 8 * (2 * 1000 + 2), 4 * 8 * 2)
    rates = PeakRates.stated("a laptop", gflops=1, gbytes=1000)
    assert limit_of(work, rates) == Limit(64e-9, "FMA")
    ir = parse("graph g(%x: i32[4], %z: f32[4]) -> (%y) { %y = mul %x, %x : i32[4] }")
    assert work_of(ir, ir["y"], {}) == Work(4, 16, 16, DType.int32, 0)

"""Memory plans: what lives where, what is written in whose place, how many bytes, and why."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

import luminal_lab as ll
from luminal_lab.bench.studies import gpt2
from luminal_lab.core.dims import Symbol
from luminal_lab.core.op import Elementwise, size_of
from luminal_lab.core.ops import Constant, Input
from luminal_lab.core.parse import parse
from luminal_lab.errors import DimError, GraphError
from luminal_lab.kernels.memory.check import check_bound
from luminal_lab.kernels.memory.plan import BoundPlan, MemoryPlan, plan
from luminal_lab.kernels.memory.program import MemoryStep as Step, MemoryValue as Value, ValueKind
from luminal_lab.passes.memory import ALIASES
from tests.expect import error_of

N = Symbol("n", 1, 100)
M = Symbol("m", 2, multiple_of=2)


def why_not(made: MemoryPlan) -> list[str]:
    return [one.why_not for one in made.in_place]


# -- one plan as a whole ---------------------------------------------------------------------------

CACHE = (
    [
        Value(0, 1 << 20, "input", name="cache"),
        Value(1, 4096, "input", name="x"),
        Value(2, 2048, "constant", name="w"),
        Value(3, 4096, name="k"),
        Value(4, 4096, alias_of=3, name="k.T"),
        Value(5, 1 << 20, "output", name="new"),
        Value(6, 8192, name="scores"),
        Value(7, 8192, name="soft"),
        Value(8, 100, name="sum"),
        Value(9, 4096, "output", name="y"),
    ],
    [
        Step((1, 2), (3,)),
        Step((0, 4), (5,)),
        Step((5, 1), (6,)),
        Step((6,), (8,)),
        Step((6, 8), (7,)),
        Step((7,), (9,)),
    ],
)


def test_a_plan_reads_well():
    values, steps = CACHE
    made = plan(values, steps, donated={5: 0}, in_place=[(5, 0), (7, 6), (3, 1)])
    assert str(made) == (
        """\
memory plan: 6 steps, 10 values
temporaries: 8,320 bytes in multiples of 64; 20,608 if none were reused; 8,320 are needed at once
inputs: 1,052,672 bytes; constants: 2,048 bytes; outputs: 4,096 bytes
value        bytes  kind       steps          place
%cache   1,048,576  input      0..5   ██████  its own
%x           4,096  input      0..5   ██████  its own
%w           2,048  constant   0..5   ██████  its own
%k           4,096  temporary  0..1   ██····  arena 0
%k.T         4,096  temporary  1..1   ·█····  arena 0, view of %k
%new     1,048,576  output     1..5   ·█████  place of %cache, in place of %cache
%scores      8,192  temporary  2..4   ··███·  arena 0
%soft        8,192  temporary  4..5   ····██  arena 0, in place of %scores
%sum           100  temporary  3..4   ···██·  arena 8,192
%y           4,096  output     5..5   ·····█  its own
%k is not in place of %x: %x is an input, and not donated
%new becomes %cache where it is"""
    )
    assert made.written_over == {5: 0, 7: 6}


def test_rows_are_plain():
    values = [
        Value(0, 4 * N, "input", name="x"),
        Value(1, 4 * N),
        Value(2, 8, "output", alias_of=1),
    ]
    made = plan([*values, Value(3, 16)], [Step((0,), (1, 3))])
    assert made.rows()[3] == {
        "value": "%3",
        "id": 3,
        "kind": "temporary",
        "bytes": 16,
        "first": 0,
        "last": 0,
        "place": 0,
        "lives_in": "arena",
        "offset": 0,
        "view_of": None,
        "written_over": None,
    }
    assert [row["bytes"] for row in made.rows()] == ["4*n", "4*n", 8, 16]
    assert [row["lives_in"] for row in made.rows()] == ["input", "output", "output", "arena"]
    assert [row["bytes"] for row in made.bind({"n": 3}).rows()] == [12, 12, 8, 16]


# -- what is written in place ----------------------------------------------------------------------


def test_a_buffer_that_is_read_later_is_not_updated_in_place():
    values = [Value(0, 64, "input", name="buf"), Value(1, 64, "output", name="new"), Value(2, 64)]
    steps = [Step((), ()), Step((0,), (1,)), Step((), ()), Step((0,), (2,))]
    made = plan(values, steps, donated={1: 0}, in_place=[(1, 0)])
    assert made.written_over == {}
    assert str(made).splitlines()[-2:] == [
        "%new is not in place of %buf: %buf is read by step 3, after step 1 writes %new",
        "%new becomes %buf by an exchange of their places: "
        "step 3 needs %buf, and step 1 writes %new",
    ]
    view = Value(3, 32, alias_of=0, name="row")
    made = plan([*values, view], [*steps[:3], Step((3,), (2,))], donated={1: 0}, in_place=[(1, 0)])
    assert why_not(made) == ["%buf is read by step 3 as %row, after step 1 writes %new"]


@pytest.mark.parametrize(
    ("values", "steps", "pairs", "reason"),
    [
        pytest.param(
            [Value(0, 64), Value(1, 32)],
            [Step((), (0,)), Step((0,), (1,))],
            [(1, 0)],
            "%1 has 32 bytes, and %0 has 64",
            id="bytes",
        ),
        pytest.param(
            [Value(0, 64, "constant"), Value(1, 64)],
            [Step((0,), (1,))],
            [(1, 0)],
            "%0 is a constant",
            id="constant",
        ),
        pytest.param(
            [Value(0, 64, "input"), Value(1, 64)],
            [Step((0,), (1,))],
            [(1, 0)],
            "%0 is an input, and not donated",
            id="input",
        ),
        pytest.param(
            [Value(0, 64, "output"), Value(1, 64)],
            [Step((), (0,)), Step((0,), (1,))],
            [(1, 0)],
            "%0 is an output",
            id="output",
        ),
        pytest.param(
            [Value(0, 64), Value(1, 64), Value(2, 64, "output", alias_of=0)],
            [Step((), (0,)), Step((0,), (1,))],
            [(1, 0)],
            "%0 is an output",
            id="output-by-a-view",
        ),
        pytest.param(
            [Value(0, 64), Value(1, 64), Value(2, 64, alias_of=0)],
            [Step((), (0,)), Step((0, 2), (1,))],
            [(1, 0)],
            "step 1 reads %0 as %2 too",
            id="two-names",
        ),
        pytest.param(
            [Value(0, 64), Value(1, 64)],
            [Step((), (0,)), Step((0, 0), (1,))],
            [(1, 0)],
            "step 1 reads %0 in 2 places",
            id="read-twice",
        ),
        pytest.param(
            [Value(0, 64), Value(1, 64), Value(2, 64)],
            [Step((), (0,)), Step((0,), (1, 2))],
            [(1, 0), (2, 0)],
            "%1 is in its place already",
            id="two-results",
        ),
        pytest.param(
            [Value(0, 64), Value(1, 64), Value(2, 64)],
            [Step((), (0, 1)), Step((0, 1), (2,))],
            [(2, 1), (2, 0)],
            "%2 is in place of another value already",
            id="two-sources",
        ),
    ],
)
def test_why_a_value_is_not_in_place(values: Any, steps: Any, pairs: Any, reason: str):
    made = plan(values, steps, in_place=pairs)
    assert [one.why_not for one in made.in_place] == ["", reason][-len(pairs) :]


def test_a_donated_place_is_for_its_own_output():
    values = [
        Value(0, 64, "input", name="a"),
        Value(1, 64, "input", name="b"),
        Value(2, 64, "output", name="a'"),
        Value(3, 64, "output", name="b'"),
    ]
    steps = [Step((0, 1), (2,)), Step((1,), (3,))]
    made = plan(values, steps, donated={2: 0, 3: 1}, in_place=[(2, 0), (3, 1)])
    assert why_not(made) == ["", ""]
    assert made.place_of[2] == made.place_of[0]
    swapped = [Step((0, 1), (2,)), Step((0,), (3,))]
    made = plan(values, swapped, donated={2: 0, 3: 1}, in_place=[(2, 1)])
    assert why_not(made) == ["the place of %b is for another output"]
    # %a is still needed when %a' is written; the place of %b is free by then.
    assert [carry.why_not for carry in made.carries] == [
        "step 1 needs %a, and step 0 writes %a'",
        "",
    ]


def test_the_place_of_a_donated_input_is_preferred():
    values = [Value(0, 64, "input"), Value(1, 64), Value(2, 64, "output")]
    steps = [Step((), (1,)), Step((1, 0), (2,))]
    made = plan(values, steps, donated={2: 0}, in_place=[(2, 1), (2, 0)])
    assert made.written_over == {2: 0}


def test_what_ends_as_an_output_begins_in_its_place():
    values = [Value(0, 64, "input"), Value(1, 64), Value(2, 64, "output")]
    made = plan(values, [Step((0,), (1,)), Step((1,), (2,))], in_place=[(2, 1)])
    assert made.arena == ()
    assert "%1        64  temporary  0..1   ██  place of %2" in str(made)


# -- programs that are none ------------------------------------------------------------------------

X, T = Value(0, 64, "input", name="x"), Value(1, 64, name="t")
OUT = Value(2, 64, "output", name="o")
VIEW = Value(3, 64, alias_of=0)
COPY = "\nhint: let a step copy it into a value of its own"


@pytest.mark.parametrize(
    ("values", "steps", "options", "text"),
    [
        ([X, X], [], {}, "two values have the id 0"),
        ([X], [((5,), ())], {}, "step 0 names the value 5, and there is none with this id"),
        ([X, T], [((1,), ())], {}, "step 0 reads %t, which no step before it writes"
         "\nhint: steps come in the order in which they run"),
        ([X, T], [((1,), (1,))], {}, "step 0 reads %t, which no step before it writes"
         "\nhint: steps come in the order in which they run"),
        ([X], [((), (0,))], {}, "step 0 writes %x, which is an input"),
        ([X, VIEW], [((), (3,))], {}, "step 0 writes %3, which is a view of %x"),
        ([T], [((), (1,)), ((), (1,))], {}, "%t is written by step 0 and by step 1"),
        ([Value(3, 1, alias_of=3)], [], {}, "%3 is another name of a view of it: %3"),
        ([Value(3, 1, alias_of=4)], [], {}, "%3 is another name of no value: %4"),
        ([Value(3, 1, "constant", 4)], [], {}, "%3 is a constant and another name of %4"),
        ([OUT], [], {}, "no step writes the output %o"),
        ([X, Value(3, 64, "output", 0)], [], {}, "the output %3 is a view of the input %x" + COPY),
        ([X, Value(4, 64, "constant"), Value(3, 64, "output", 4)], [], {"donated": {3: 0}},
         "the output %3, which is donated, is a view of the constant %4" + COPY),
        ([X, OUT, Value(3, 64, "output", 2)], [((), (2,))], {"donated": {2: 0}},
         "the output %o, which is donated, has the bytes of the output %3" + COPY),
        ([X, T], [((), (1,))], {"donated": {1: 0}},
         "%t is donated as an output, but it is a temporary"
         "\nhint: donated gives inputs by outputs"),
        ([OUT], [((), (2,))], {"donated": {2: 9}},
         "%9 is donated as an input, but it is no value\nhint: donated gives inputs by outputs"),
        ([Value(0, 4, "input"), OUT], [((), (2,))], {"donated": {2: 0}},
         "%o is donated to %0, but their places have 64 and 4 bytes"
         "\nhint: what grows is an input of its full size, whose rows are updated"),
        ([X, OUT, Value(3, 64, "output")], [((), (2, 3))], {"donated": {2: 0, 3: 0}},
         "two outputs are donated to one input"),
        ([X, T], [((), (1,))], {"in_place": [(1, 0)]},
         "%t cannot be in place of %x: no step reads the one and writes the other"
         "\nhint: in_place pairs what a step writes with what it reads"),
        ([X], [], {"alignment": 0}, "the alignment is 0, and must be at least 1"),
    ],
)  # fmt: skip
def test_what_is_no_program_is_said(values: Any, steps: Any, options: Any, text: str):
    error = error_of(lambda: plan(values, [Step(*s) for s in steps], **options), GraphError)
    assert str(error) == f"memory plan: {text}"


# -- symbolic sizes --------------------------------------------------------------------------------


def test_offsets_are_expressions_until_the_dims_are_bound():
    values = [Value(0, 4 * N), Value(1, 32 * M), Value(2, 8 * N), Value(3, 64)]
    steps = [Step((), (0, 1)), Step((0,), (2,)), Step((1, 2), (3,)), Step((3,), ())]
    made = plan(values, steps)
    assert str(made) == (
        """\
memory plan: 4 steps, 4 values
sizes are known when m and n are bound
value  bytes  kind       steps        place
%0       4*n  temporary  0..1   ██··  arena 64*((n + 7)//8) + 32*m
%1      32*m  temporary  0..2   ███·  arena 0
%2       8*n  temporary  1..2   ·██·  arena 32*m
%3        64  temporary  2..3   ··██  arena 64*((n + 7)//8) + 32*m"""
    )
    small, large = made.bind({"n": 1, "m": 2}), made.bind({"n": 100, "m": 50})
    assert (small.arena_bytes, small.least_bytes, small.unshared_bytes) == (192, 192, 256)
    assert large.arena_bytes == large.least_bytes == 32 * 50 + 448 + 832


def test_dims_are_held_to_their_bounds():
    made = plan([Value(0, 4 * N - 8)], [Step((), (0,))])
    assert "'n' is not bound, and 4*n - 8 needs it" in str(error_of(made.bind, DimError))
    assert "101 is out of its bounds" in str(error_of(lambda: made.bind({"n": 101}), DimError))
    assert str(error_of(lambda: made.bind({"n": 1}), DimError)) == (
        "memory plan: %0 has 4*n - 8 bytes, which is -4 with n = 1\n"
        "hint: a size cannot be negative; declare bounds with dim(name, low, high)"
    )
    assert made.bind({"n": 2}).arena_bytes == 0


# -- random programs, run with real bytes ----------------------------------------------------------

SIZES = [0, 1, 4, 64, 100, 256, 1000, 4 * N, 64 * N, 2 * M, N * M, (N + 7) // 8 * 32]


KINDS: list[ValueKind] = ["temporary", "temporary", "temporary", "output"]


@st.composite
def programs(draw: st.DrawFn) -> Any:
    """Draw the arguments of `plan`."""
    size = st.sampled_from(SIZES)
    values = [Value(k, draw(size), draw(st.sampled_from(["input", "constant"]))) for k in range(3)]
    there, steps, pairs = [0, 1, 2], [], []
    donated: dict[int, int] = {}
    for _ in range(draw(st.integers(0, 12))):
        for _ in range(draw(st.integers(0, 2))):
            source = draw(st.sampled_from(there))
            there.append(len(values))
            values.append(Value(len(values), draw(size), alias_of=source))
        reads = tuple(draw(st.lists(st.sampled_from(there), max_size=3)))
        writes: list[int] = []
        for _ in range(draw(st.integers(0, 2))):
            like = [values[id].bytes for id in reads] * 3
            wanted = draw(st.sampled_from([*like, *SIZES]))
            writes.append(len(values))
            pairs += [(len(values), id) for id in reads if draw(st.booleans())]
            kind = draw(st.sampled_from(KINDS))
            free = [v.id for v in values[:3] if v.kind == "input" and v.bytes == wanted]
            free = [id for id in free if id not in donated.values()]
            if kind == "output" and free and draw(st.booleans()):
                donated[len(values)] = draw(st.sampled_from(free))
            values.append(Value(len(values), wanted, kind))
        there += writes
        steps.append(Step(reads, tuple(writes)))
    return values, steps, donated, draw(st.permutations(pairs))


@given(programs(), st.integers(1, 100), st.integers(1, 40), st.sampled_from([1, 4, 64]))
def test_random_programs_find_their_values(program: Any, n: int, half: int, alignment: int):
    values, steps, donated, pairs = program
    made = plan(values, steps, donated=donated, in_place=pairs, alignment=alignment)
    bound = made.bind({"n": n, "m": 2 * half})
    check_bound(bound)
    assert bound.least_bytes <= bound.arena_bytes
    run(made, bound)


def run(made: MemoryPlan, bound: BoundPlan) -> None:
    """Run a program whose values are drawn bytes, and look at each when it is read."""
    program = made.program
    memory = Memory(made, bound, np.empty(bound.arena_bytes, np.uint8))
    for value in program.values:
        if value.kind in ("input", "constant"):
            memory.write(value.id)
    allowed = {(one.value, memory.root[one.source]) for one in made.in_place if not one.why_not}
    for reads, writes in program.steps:
        for id in reads:
            memory.look(id)
        for id in writes:
            memory.write(id)
        # A step reads while it writes, and all that it writes is there at its end.
        kept = {memory.root[id] for id in reads}
        for id in [*writes, *(id for id in kept if not allowed & {(new, id) for new in writes})]:
            memory.look(id)
    given = [id for id in range(3) if id not in program.donated.values()]
    for id in [*given, *(value.id for value in program.values if value.kind == "output")]:
        memory.look(id)


class Memory:
    """The bytes of all places, and what each value is in truth."""

    def __init__(self, made: MemoryPlan, bound: BoundPlan, arena: Any) -> None:
        self.place_of, self.truth, self.root = made.place_of, {}, {}
        self.places = [np.zeros(bound.bytes[p.values[0]], np.uint8) for p in made.places]
        for index, start in enumerate(bound.starts):
            size = self.places[index].size
            self.places[index] = arena[start : start + size]
            assert start % made.alignment == 0
            assert self.places[index].size == size
        for value in made.program.values:
            self.root[value.id] = value.id if value.alias_of is None else self.root[value.alias_of]
        self.draw = np.random.default_rng(0)

    def write(self, id: int) -> None:
        place = self.places[self.place_of[id]]
        place[:] = self.truth[id] = self.draw.integers(0, 256, place.size, np.uint8)

    def look(self, id: int) -> None:
        np.testing.assert_array_equal(self.places[self.place_of[id]], self.truth[self.root[id]])


# -- a model ---------------------------------------------------------------------------------------


def program_of(ir: Any) -> Any:
    """Make each node of a graph that is no view a step, elementwise ones in place."""
    needed = ir.ancestors(ir.output_ids)
    values, steps, pairs = [], [], []
    for node in [node for node in ir.nodes if node.id in needed]:
        size, name = size_of(node.shape) * node.dtype.itemsize, node.name
        if isinstance(node.op, (Input, Constant)):
            kind = "input" if isinstance(node.op, Input) else "constant"
            values.append(Value(node.id, size, kind, name=name))
            continue
        kind = "output" if node.id in ir.output_ids else "temporary"
        if isinstance(node.op, ALIASES):
            values.append(Value(node.id, size, kind, node.sources[0], name))
            continue
        values.append(Value(node.id, size, kind, name=name))
        steps.append(Step(node.sources, (node.id,)))
        if isinstance(node.op, Elementwise):
            pairs += [(node.id, id) for id in dict.fromkeys(node.sources)]
    return values, steps, pairs


@pytest.mark.parametrize("compiled", [False, True])
def test_gpt2_takes_little_more_than_what_is_needed_at_once(compiled: bool):
    cx = ll.Graph()
    config = gpt2.Config(layers=6)
    shapes = gpt2.weight_shapes(config)
    weights = {name: cx.tensor(shape, name=name) for name, shape in shapes.items()}
    gpt2.lab_logits(cx, weights, cx.tensor((1, 64), "int64"), config).retrieve()
    ir = cx.compile(ll.GenericCompiler()).ir if compiled else cx.ir
    values, steps, pairs = program_of(ir)
    for bound in (plan(values, steps).bind(), plan(values, steps, in_place=pairs).bind()):
        assert bound.arena_bytes <= 1.05 * bound.least_bytes
        assert bound.unshared_bytes > 1.5 * bound.arena_bytes


def test_a_graph_of_symbolic_size_keeps_its_order():
    ir = parse("""
    graph g(%x: f32[n, 8]) -> (%d) {
      %a = sin %x : f32[n, 8]
      %b = sum_reduce{axis = 1} %a : f32[n, 1]
      %e = expand{shape = [n, 8]} %b : f32[n, 8]
      %c = mul %a, %e : f32[n, 8]
      %d = sqrt %c : f32[n, 8]
    }
    """)
    values, steps, pairs = program_of(ir)
    made = plan(values, steps, in_place=pairs)
    assert made.written_over == {ir["c"].id: ir["a"].id, ir["d"].id: ir["c"].id}
    assert why_not(made)[0] == "%x is an input, and not donated"
    assert made.bind({"n": 100}).arena_bytes == 448  # %b alone: the rest is where %d will be

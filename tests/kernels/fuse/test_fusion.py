"""Fusion: what becomes one kernel, what is kept apart and why; values stay; equal layers."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
from hypothesis import given, strategies as st

import luminal_lab as ll
from luminal_lab import nn
from luminal_lab.core.ir import IR
from luminal_lab.core.op import Unary
from luminal_lab.core.ops import Call
from luminal_lab.core.ops.intrinsic import FusedMul
from luminal_lab.core.parse import parse
from luminal_lab.kernels.fuse.chains import FuseChains
from luminal_lab.kernels.fuse.fusion import fusion
from luminal_lab.kernels.fuse.reading import GraphReading
from luminal_lab.passes.compilation import Compilation
from luminal_lab.passes.compile import compile_ir
from luminal_lab.session import Graph
from luminal_lab.tensor.lazy import Lazy
from tests.conftest import Golden
from tests.core.graphs import graphs
from tests.passes.running import check_pass, check_values


def fused(ir: IR, *, attention: bool = False) -> Compilation:
    """Return a graph cut into kernels, as a device does it."""
    chains = [FuseChains()] if attention else []
    return compile_ir(ir, "(inline){rounds = 50}", "cse, dce", [*fusion(), *chains], "dce")


def kernels(compilation: Compilation) -> list[str]:
    """Return the names of the kernels that are launched."""
    return [node.op.body.name for node in compilation.ir if isinstance(node.op, Call)]


def told(compilation: Compilation) -> str:
    """Return a graph with the reasons for its kernels, and for what is kept apart, as comments."""
    found: list[str] = []
    for snapshot in compilation.snapshots:
        found += [f"# {firing}" for firing in snapshot.firings if firing.because]
        found += [f"# not {r.rule}: {r.because}" for r in snapshot.refusals if r.because]
    return "\n".join([str(compilation.ir), *dict.fromkeys(found)]) + "\n"


# -- golden graphs ---------------------------------------------------------------------------------


def chain(cx: Graph) -> list[Lazy]:
    x, y = cx.tensor(("n", 8), name="x"), cx.tensor(("n", 8), name="y")
    return [((x + y) * x).sin().transpose(0, 1)]


def optimiser(cx: Graph) -> list[Lazy]:
    """Three results of one shape, each of which reads the one before."""
    p, m, v, g = (cx.tensor((100,), name=name) for name in "pmvg")
    m = m * 0.9 + g * 0.1
    v = v * 0.99 + g * g * 0.01
    return [p - m * (v.sqrt() + 1e-8).reciprocal(), m, v]


def embedding(cx: Graph) -> list[Lazy]:
    table, ids = cx.tensor((100, 16), name="table"), cx.tensor("n", "int64", name="ids")
    return [table.embedding(ids) * 2 + cx.tensor((16,), name="at")]


def softmax(cx: Graph) -> list[Lazy]:
    return [(cx.tensor((4, "n"), name="x") * 0.5).softmax(-1).cast("float16")]


def norm_of_a_sum(cx: Graph) -> list[Lazy]:
    """The sum is a result as well: the kernel has two."""
    x, y = cx.tensor((4, 32), name="x"), cx.tensor((4, 32), name="y")
    return [(x + y).layer_norm(-1) * cx.tensor((32,), name="w"), x + y]


def losses(cx: Graph) -> list[Lazy]:
    x, target = cx.tensor(("b", 10), name="x"), cx.tensor("b", "int64", name="target")
    return [x.log_softmax(-1).gather(1, target.unsqueeze(1)).mean()]


def columns(cx: Graph) -> list[Lazy]:
    """A column is not read again: what follows is of its sums alone."""
    x = cx.tensor((64, 48), name="x")
    return [x - x.sin().sum(0) * 2]


def long_rows(cx: Graph) -> list[Lazy]:
    x = cx.tensor((4, 100_000), name="x")
    return [x.softmax(-1)]


def linear(cx: Graph) -> list[Lazy]:
    x, w, b = (cx.tensor(s, name=n) for s, n in (((8, 16), "x"), ((16, 32), "w"), (32, "b")))
    return [(x @ w + b).relu() + cx.tensor((8, 32), name="y")]


def stored_between(cx: Graph) -> list[Lazy]:
    """The sum with the bias is a result: what follows it is another kernel."""
    x, w, b = (cx.tensor(s, name=n) for s, n in (((8, 16), "x"), ((16, 32), "w"), (32, "b")))
    z = x @ w + b
    return [z, z.sin()]


def weights_of_eight_bits(cx: Graph) -> list[Lazy]:
    x, w = cx.tensor((8, 64), name="x"), cx.tensor((32, 2, 32), "int8", name="w")
    scale = cx.tensor((32, 2, 1), "float16", name="scale").cast("float32")
    return [x @ (w.cast("float32") * scale.expand((32, 2, 32))).reshape(32, 64).transpose(0, 1)]


def chosen_matrices(cx: Graph) -> list[Lazy]:
    """Each is read once, where it lies; a row that is looked up is copied for all its readers."""
    tables, rows = cx.tensor((6, 24, 16), name="tables"), cx.tensor((9, 16), name="rows")
    which, x = (cx.tensor((3,), "int64", name=name) for name in ("which", "x"))
    return [(tables.take(which, 0) @ rows.embedding(x).unsqueeze(-1)).squeeze(-1)]


def costly_operand(cx: Graph) -> list[Lazy]:
    return [cx.tensor((8, 16), name="x").exp2() @ cx.tensor((16, 32), name="w")]


def operand_of_two(cx: Graph) -> list[Lazy]:
    x, y = cx.tensor((8, 16), name="x"), cx.tensor((8, 16), name="y")
    return [(x + y) @ cx.tensor((16, 32), name="w")]


def convolution(cx: Graph) -> list[Lazy]:
    image, weight = cx.tensor((2, 3, 8, 8), name="image"), cx.tensor((4, 3, 3, 3), name="weight")
    bias = cx.tensor((4,), name="bias")
    return [(image.conv(weight, padding=1) + bias.reshape(1, 4, 1, 1)).relu().max_pool(2)]


def causal(cx: Graph) -> list[Lazy]:
    q, k, v = (cx.tensor((1, 4, "s", 16), name=name) for name in "qkv")
    return [q.scaled_dot_product_attention(k, v, is_causal=True)]


def grouped(cx: Graph) -> list[Lazy]:
    """Four heads read the same keys and values, and there are more of those than queries."""
    q = cx.tensor((2, 8, "s", 16), name="q")
    k, v = (cx.tensor((2, 2, "t", 16), name=name) for name in "kv")
    return [q.scaled_dot_product_attention(k, v, enable_gqa=True)]


def weights_read_twice(cx: Graph) -> list[Lazy]:
    """The weights of the attention are a result: they are in memory in any case."""
    q, k, v = (cx.tensor((4, 8, 16), name=name) for name in "qkv")
    weights = (q @ k.transpose(1, 2)).softmax(-1)
    return [weights @ v, weights]


CASES = [
    chain, optimiser, embedding, softmax, norm_of_a_sum, losses, columns, long_rows, linear,
    stored_between, weights_of_eight_bits, chosen_matrices, costly_operand, operand_of_two,
    convolution, causal, grouped, weights_read_twice,
]  # fmt: skip
Case = Callable[[Graph], list[Lazy]]


def built(case: Case) -> IR:
    cx = Graph()
    for result in case(cx):
        result.retrieve()
    cx.compile(ll.GenericCompiler())
    return cx.compilation.ir


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_what_becomes_a_kernel(case: Case, golden: Golden) -> None:
    compilation = fused(built(case), attention=True)
    golden(told(compilation), f"golden/fusion/{case.__name__}.ir")
    assert parse(str(compilation.ir)) == compilation.ir


@pytest.mark.parametrize("case", [case for case in CASES if case is not long_rows])
def test_the_values_stay(case: Case) -> None:
    before = built(case)
    facts = ("no_inf", "no_nan", "reassociate", "no_signed_zero")
    check_values(before, fused(before, attention=True).ir, facts)


@given(graphs())
def test_random_graphs_keep_their_values(ir: IR) -> None:
    check_values(ir, fused(ir, attention=True).ir, ("no_signed_zero", "no_inf"))


@given(graphs(), st.data())
def test_whatever_waits_for_a_kernel_waits_for_all_of_it(ir: IR, data: st.DataObject) -> None:
    reading = GraphReading(ir)
    for _ in range(4):
        open_ids = [node.id for node in reading.open()]
        if len(open_ids) < 2:
            return
        members = data.draw(st.lists(st.sampled_from(open_ids), min_size=2, unique=True))
        exits = members[: data.draw(st.integers(2, len(members)))]
        whole = 0
        for id in members:
            whole |= reading.behind[id]
        ends, before = reading.bits(exits), reading.behind.items()
        wanted = {id: bits | whole if bits & ends else bits for id, bits in before}
        reading.settle(members, exits, ())
        assert reading.behind == wanted


@given(graphs())
def test_what_is_fused_is_not_fused_again(ir: IR) -> None:
    check_pass(fused(ir).ir, fusion())


# -- what may not happen ---------------------------------------------------------------------------


def test_two_results_of_which_one_needs_a_kernel_in_between_are_two_kernels() -> None:
    """The sum over columns reads %a, and %y reads both: one kernel would wait for itself."""
    compilation = fused(
        parse("""graph g(%x: f32[64, 64]) -> (%y) {
      %a = sin %x : f32[64, 64]
      %t = permute{axes = [1, 0]} %a : f32[64, 64]
      %m = max_reduce{axis = 1} %t : f32[64, 1]
      %e = expand{shape = [64, 64]} %m : f32[64, 64]
      %y = add %a, %e : f32[64, 64]
    }""")
    )
    assert len(kernels(compilation)) == 2


def test_a_view_of_what_a_kernel_makes_is_made_there_as_well() -> None:
    """The sums of %t are of the kernel of %s, and %t is a result: from memory it would be late."""
    cx = Graph()
    t = cx.tensor((2, 3, "m", 7, 47)).sum(3)[..., :45].retrieve()
    (t - t.mean((1, 2, 3), keepdim=True)).retrieve()
    compilation = fused(cx.ir)
    assert kernels(compilation) == ["sum_recip_mul", "copy", "mul_add"]
    check_values(cx.ir, compilation.ir, ("reassociate", "no_inf", "no_nan"))


def test_what_memory_is_needed_for_is_stored_as_it_is() -> None:
    compilation = fused(
        parse("""graph g(%x: f32[4, 6], %i: i64[4, 6]) -> (%y) {
      %a = sin %x : f32[4, 6]
      %t = permute{axes = [1, 0]} %a : f32[6, 4]
      %r = reshape{shape = [4, 6]} %t : f32[4, 6]
      %y = scatter{axis = 0, mode = set} %x, %i, %r : f32[4, 6]
    }""")
    )
    assert kernels(compilation) == ["sin"]
    assert len(compilation.ir) == 4


def test_long_chains_are_kernels_of_a_size_that_compilers_are_fast_with() -> None:
    """A chain is longer than Python's stack is deep."""
    cx = Graph()
    x = z = cx.tensor((8,), name="x")
    for _ in range(600):
        z = (z + x).sin()
    z.retrieve()
    compilation = fused(cx.ir)
    bodies = [n.op.body for n in compilation.ir if isinstance(n.op, Call)]
    assert [len(body) - len(body.inputs) for body in bodies] == [176, 256, 256, 256, 256]
    assert len({*bodies}) == 2  # those of 256 ops are one kernel
    refused = [r.because for r in compilation.snapshots[-2].refusals]
    assert "would be op 257 of a kernel, and 256 are the most" in refused[0]


def test_sums_of_many_arrays_are_sums_of_sums() -> None:
    cx = Graph()
    first, *rest = [cx.tensor((8,), name=f"x{k}") for k in range(150)]
    sum(rest, first).retrieve()
    compilation = fused(cx.ir)
    assert [len(n.sources) for n in compilation.ir if isinstance(n.op, Call)] == [24, 64, 64]
    refused = [r.because for r in compilation.snapshots[-2].refusals]
    assert "a kernel would read 65 arrays, and 64 are the most" in refused[0]


@pytest.mark.parametrize(
    ("program", "products"),
    [
        pytest.param(lambda x, w: (x * w).sum(-1), 1, id="sum"),
        pytest.param(lambda x, w: (x * w).sum((0, 1)), 1, id="sums"),
        pytest.param(lambda x, w: (x * w).permute(1, 0).sum(0), 1, id="view"),
        pytest.param(lambda x, w: (x * w * x).sum(-1), 1, id="last of two"),
        pytest.param(lambda x, w: (x * w + x).sum(-1), 0, id="sum of sums"),
        pytest.param(lambda x, w: (x * w).max(-1), 0, id="maximum"),
        pytest.param(lambda x, w: x * w + x, 0, id="no sum"),
        pytest.param(lambda x, w: (x * w).sin().sum(-1), 0, id="function"),
        pytest.param(lambda x, w: (x * w).sum(-1) + (x * w).max(-1), 0, id="seen twice"),
        pytest.param(lambda x, w: (x * w).cast("float64").sum(-1), 0, id="cast"),
        pytest.param(lambda x, w: (x.cast("int32") * w.cast("int32")).sum(-1), 0, id="integers"),
    ],
)
def test_a_product_that_one_sum_reads_and_nothing_else_is_fused(
    program: Callable[[Lazy, Lazy], Lazy], products: int
) -> None:
    cx = Graph()
    program(cx.tensor((8, 40), name="x"), cx.tensor((8, 40), name="w")).retrieve()
    bodies = [n.op.body for n in fused(cx.ir).ir if isinstance(n.op, Call)]
    assert sum(node.op == FusedMul() for body in bodies for node in body) == products


# -- reasons ---------------------------------------------------------------------------------------


def test_why_and_why_not() -> None:
    cx = Graph()
    x, w = cx.tensor((8, 16), name="x"), cx.tensor((16, 32), name="w")
    (x.exp2() @ w).retrieve()
    compilation = compile_ir(cx.ir, "cse, dce", fusion(), "dce")
    power = next(node for node in compilation.written if node.op.name == "exp2")
    assert str(compilation.why_not("contraction", power)) == (
        f"contraction: {power} is apart from the kernel of %10: computing {power} again costs 10 "
        f"operations an element, and each would be computed 32×. Apart, {power} goes to memory and "
        "back, 1.02 kB; together it would be computed 32×, 40,960 operations instead of 1,280, "
        "which take as long as reading 20.5 kB from memory."
    )
    why = str(compilation.why(power))
    assert "fuse-contractions, made no contraction with it: kept apart: computing" in why
    (call,) = [n for n in compilation.ir if n.op.name == "call" and n.op.body.name == "matmul"]  # pyright: ignore[reportAttributeAccessIssue]
    assert "because 256 sums of 16 products" in str(compilation.why(call))


# -- models ----------------------------------------------------------------------------------------


def test_twelve_equal_layers_are_the_same_kernels_twelve_times() -> None:
    cx = Graph()
    model = nn.models.GPT2(layers=12, heads=2, width=8, vocab=11, context=16).initialise(0)
    model(cx.tensor((1, 6), "int64")).retrieve()
    cx.compile(ll.GenericCompiler())
    times = Counter(
        node.op.body for node in fused(cx.compilation.ir).ir if isinstance(node.op, Call)
    )
    # Nine a layer, of which the two norms are the same; the first norm looks its rows up.
    assert sorted(times.values()) == [1, 1, *[12] * 7, 24]


def test_a_step_of_training_keeps_its_values() -> None:
    cx = Graph()
    model = nn.models.MLP(4, 16, 3).initialise(0)
    x, target = cx.tensor((8, 4), name="x"), cx.tensor((8,), "int64", name="target")
    loss = nn.cross_entropy(model(x).gelu(), target).retrieve()
    nn.Adam(lr=0.01).minimise(loss)
    cx.compile(ll.GenericCompiler())
    before = cx.compilation.ir
    after = fused(before)
    check_values(before, after.ir, ("no_inf", "no_nan", "reassociate", "no_signed_zero"))
    assert len(kernels(after)) < 25


def test_an_op_without_a_form_in_c_is_part_of_no_kernel() -> None:
    @dataclass(frozen=True, slots=True)
    class Cube(Unary):
        """The third power."""

        name: ClassVar[str] = "test_fusion.cube"

    cx = Graph()
    ((cx.tensor((4,)) + 1).apply(Cube()) * 2).retrieve()
    compilation = fused(cx.ir)
    assert kernels(compilation) == ["add", "mul"]
    assert Cube() in [node.op for node in compilation.ir]


def test_what_makes_an_operand_is_not_computed_again_for_each_result():
    """The angles of a token's position were, in a graph that reads one token."""
    cx = Graph()
    q, angle = cx.tensor((16, 64), name="q"), cx.tensor((64,), name="angle")
    keys = cx.tensor((300, 64), name="keys")
    turned = q * angle.cos() + q.flip(1) * angle.sin()
    ((turned * 0.125) @ keys.T).retrieve()
    product = fused(cx.ir).ir.nodes[-1]
    assert isinstance(product.op, Call)
    assert not any(node.op.name in ("sin", "math.cos") for node in product.op.body.nodes)


def test_a_call_that_is_to_be_one_kernel_is_one():
    """With what follows it, but for functions that cost less on many neighbours at once."""
    blocks = ll.Blocks("q4_k", np.zeros((32, 144), "uint8"), (32, 256))
    layer = nn.Linear(256, 32, bias=False)
    layer.weight.set(blocks)
    cx = Graph()
    x, y = cx.tensor((1, 256), name="x"), cx.tensor((1, 32), name="y")
    ((layer(x) + y).silu()).retrieve()
    compilation = cx.compile(ll.Int8Activations(), ll.GenericCompiler(), *fusion())
    rounding, product, silu = (n for n in compilation.ir.nodes if isinstance(n.op, Call))
    assert len(rounding.types) == 3
    assert "y" in {source.name for source in compilation.ir.sources(product)}
    assert compilation.ir.sources(silu) == (product,)
    assert "is to be one kernel" in str(compilation.why(product))

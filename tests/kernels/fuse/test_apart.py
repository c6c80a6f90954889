"""Why nodes are apart, what each way costs, and which plan of a schedule was refused what."""

from typing import Any

import pytest

import luminal_lab as ll
from luminal_lab.core.ir import Node
from luminal_lab.core.ops import SumReduce
from luminal_lab.errors import GraphError, ScheduleError
from luminal_lab.kernels.kernel import Kernel
from luminal_lab.passes.compilation import Compilation
from tests.expect import error_of


def compiled(*compilers: Any) -> tuple[Compilation, dict[str, Node]]:
    """Return a product of powers, whose result a softmax and a sum of columns read."""
    cx = ll.Graph()
    x, w = cx.tensor((8, 16), name="x"), cx.tensor((16, 32), name="w")
    h = (x.exp2().named("p") @ w).named("h")
    (h.softmax(-1) + 1).named("y").retrieve()
    (h.sum(0).named("s") * 2).named("z").retrieve()
    compilation = cx.compile(ll.GenericCompiler(), *(compilers or (ll.CPUCompiler(threads=1),)))
    return compilation, {node.name: node for node in compilation.written}


def test_what_is_apart_is_told_with_both_costs():
    compilation, named = compiled()
    assert str(compilation.why_not("contraction", named["p"])) == (
        "contraction: %p is apart from the kernel of %h: computing %p again costs 10 operations an "
        "element, and each would be computed 32×. Apart, %p goes to memory and back, 1.02 kB; "
        "together it would be computed 32×, 40,960 operations instead of 1,280, which take as long "
        "as reading 20.5 kB from memory."
    )
    # The sum over columns reads rows in another order than the product makes them.
    total = next(node for node in compilation.written if node.op == SumReduce(0))
    told = str(compilation.why_not("contraction", total))
    assert "reads many elements of" in told
    assert told.endswith("goes to memory and back, 2.05 kB.")


def test_what_is_together_is_told_too():
    compilation, named = compiled()
    assert str(compilation.why_not("contraction", named["h"])).startswith(
        "contraction did fire: Pass "
    )
    told = str(compilation.why_not("fuse", named["z"])).splitlines()
    assert [line.split(":")[0].split()[0] for line in told] == [
        *("contraction", "rows", "elementwise", "one-pass")
    ]
    assert told[2] == "elementwise: %z is a kernel by then, a call of sum_mul."


@pytest.mark.parametrize(
    ("write", "expected"),
    [
        (lambda x: x.sin().sum(-1), "is sin, and a sum of products is wanted."),
        (lambda x: (x * x).sum(-1), "is read for more than one sum, so it is not a contraction."),
        (lambda x: (x * 2.5).sum(-1), "a factor of %2 is the same for all."),
    ],
)
def test_a_sum_that_is_no_contraction_says_where_it_stops(write, expected):
    cx = ll.Graph()
    write(cx.tensor((8, 16), name="x")).named("r").retrieve()
    compilation = cx.compile("dce", ll.CPUCompiler(threads=1))
    total = next(node for node in compilation.written if node.op.name == "sum_reduce")
    told = str(compilation.why_not("contraction", total))
    assert told.startswith("contraction gets ")
    assert told.endswith(expected), told


def test_plans_tell_what_they_were_refused():
    compilation, named = compiled()
    told = str(compilation.why_not("schedule", named["y"])).splitlines()
    assert told[0].startswith("softmax has a schedule of ")
    assert "  pass: the nest is not a pass with sums of products, as attention is." in told
    assert any(line.startswith("  general: fuse ") for line in told)
    plans = told.index("Plans that were refused:")
    steps = told.index("Optional steps that did not apply:")
    assert plans == 1
    assert all(line.startswith("  general: ") for line in told[steps + 1 :])
    assert not any(line.startswith("  general: ") for line in told[plans:steps])
    (kernel,) = [one for one in kernels_of(compilation) if one.name == "softmax"]
    assert str(compilation.why_not("schedule", kernel)) == "\n".join(told)
    assert "convolution" not in kernel.why_not("fuse")
    assert repr(kernel.why_not("tensorise")) == (
        "softmax: no plan has tried tensorise; why_not() tells what plans tried."
    )
    for line in kernel.why_not("simd").splitlines():
        assert "simd" in line or not line.startswith("  ")
    kinds = {refusal.plan: refusal.kind for refusal in kernel.refused}
    assert kinds == {
        "pass": "plan",
        "convolution": "plan",
        "contraction": "plan",
        "general": "step",
    }


def kernels_of(compilation: Compilation) -> list[Kernel]:
    """Return the kernels of a compile."""
    return [launch.kernel for launch in getattr(compilation.program, "launches", ())]


def test_plans_for_gpus_tell_it_too():
    compilation, named = compiled(ll.CUDACompiler(arch="sm_90"))
    told = str(compilation.why_not("schedule", named["h"]))
    assert "contraction: the nest is not a product of floats, 16 or more each way." in told
    assert "column: the sums of j are too short for 8 threads." in told
    assert told.splitlines()[1] == "Plans that were refused:"


def test_hostile_questions_about_schedules():
    cx = ll.Graph()
    y = (cx.tensor((2,), name="x") + 1).retrieve()
    plain = cx.compile()
    said = error_of(lambda: plain.why_not("schedule", y.id), GraphError)
    assert said.message == f"why_not: no kernel of this compile computes {y.id}"
    compilation, _ = compiled()
    kernel = kernels_of(compilation)[0]
    assert "why_not of 3" in str(error_of(lambda: kernel.why_not(3)))  # pyright: ignore[reportArgumentType]
    twice = ll.kernel("""
    // kernel twice(x: f32[n]) -> (y: f32[n])
    void twice(const float *x, float *y, long n) { for (long i = 0; i < n; i++) y[i] = 2 * x[i]; }
    """)
    own = ll.Graph()
    doubled = twice(own.tensor((4,), name="x")).retrieve()
    compilation = own.compile(ll.CPUCompiler(threads=1))
    error_of(lambda: compilation.why_not("schedule", doubled.id), ScheduleError)


def test_a_tensor_is_asked_for_as_its_node():
    cx = ll.Graph()
    y = (cx.tensor((2,), name="x") + 1).named("y").retrieve()
    compilation = cx.compile(ll.CPUCompiler(threads=1))
    tensor: Any = y
    assert str(compilation.why(tensor)) == str(compilation.why(y.id))


def test_an_update_is_apart_from_the_sum_of_its_gradient():
    cx = ll.Graph()
    x, weight = cx.tensor((8, 16), name="x"), cx.tensor((16,), name="w")
    loss = ((x * weight).sum(1) ** 2).mean()
    updates = ll.nn.SGD(0.1, 0.9).minimise(loss, [weight])
    compilation = cx.compile(ll.GenericCompiler(), ll.CPUCompiler(threads=1))
    (velocity,) = {new for new, _ in cx.ir.carries} - {updates["w"].node.id}
    told = str(compilation.why_not("contraction", compilation.written[velocity]))
    assert f"{compilation.written[velocity]} is an update, which comes last in a run." in told
    assert [kernel.name for kernel in cx.kernels][-2:] == ["matmul_2", "mul_add"]

"""From kernels and launches back to what was written, and kernels that compute something else."""

from typing import Any

import numpy as np
import pytest

import luminal_lab as ll
from luminal_lab.errors import GraphError, PassError, RangeError, UnknownNameError
from tests.expect import error_of

GENERIC, CPU = ll.GenericCompiler(), ll.CPUCompiler(threads=1)
WRONG = """
// kernel twice(x: f32[n]) -> (y: f32[n])
void twice(const float *x, float *y, long n) {
    for (long i = 0; i < n; i++) y[i] = 3 * x[i];
}
"""


def fused() -> tuple[ll.Graph, ll.Tensor, ll.Tensor]:
    cx = ll.Graph()
    a, b = (cx.tensor((8, 8), name=name).set(np.ones((8, 8))) for name in "ab")
    y = (a @ b).relu().retrieve()
    z = (y.softmax(-1) @ b).retrieve()
    cx.compile(GENERIC, CPU)
    return cx, y, z


def test_a_launch_is_followed_to_all_that_it_was_made_of():
    cx, y, _ = fused()
    trace = cx.trace(cx.launches[0].node)
    assert {"reshape", "expand", "mul", "sum_reduce", "where"} <= {n.op.name for n in trace.first}
    (last,) = cx.trace(y).last
    assert last.id == cx.launches[0].node
    product = next(node for node in cx.ir if node.op.name == "sum_reduce")
    assert [node.id for node in cx.trace(product).last] == [cx.launches[0].node]


def test_launches_and_kernels_stand_for_their_nodes():
    cx, _, _ = fused()
    launch = cx.launches[0]
    assert str(cx.trace(launch)) == str(cx.trace(launch.node)) == str(cx.trace(launch.kernel))
    story = cx.compilation.why(launch.node)
    assert cx.compilation.why(launch) == story == cx.compilation.why(launch.kernel)
    assert cx.compilation.why_not("mul-one", launch)
    nothing: Any = 3.5
    error = error_of(lambda: cx.trace(nothing), GraphError)
    assert error.message == "trace: 3.5 is not a node, launch or kernel of this compile"


def test_launches_are_found_by_what_is_known_of_them():
    cx, y, z = fused()
    launches = cx.launches
    first, last = launches[0], launches[-1]
    assert launches[y] == launches[first.name] == launches[f"%{first.name}"] == first
    assert launches[z] == launches[last.kernel] == launches[last.kernel.name] == last
    assert launches[:1] == (first,)
    assert repr(launches) == "<Launches: 3 launches; print(…) shows them>"
    assert str(launches).splitlines()[0] == f"   0  {first}"
    assert launches._repr_mimebundle_() == {"text/plain": str(launches)}
    error = error_of(lambda: launches[99], RangeError)
    assert error.message == "launches: there is no launch 99; there are 3"
    error = error_of(lambda: launches["nope"], GraphError)
    assert error.message == "launches: there is none called 'nope'"
    error = error_of(lambda: launches[cx["a"]], GraphError)
    assert error.message == "launches: there is none that makes %a"


def test_kernels_are_found_by_place_and_name():
    cx, _, _ = fused()
    assert cx.kernels[0] == cx.kernels[-3] == cx.kernels[cx.kernels[0].name]
    assert error_of(lambda: cx.kernels[5], RangeError).message == (
        "kernels: there is no kernel 5; there are 3"
    )
    assert repr(cx.kernels).startswith("<Kernels: 3 kernels; ")
    plain = ll.Graph()
    (plain.tensor((2,)) * 2).retrieve()
    hint = "a device makes them: cx.compile(ll.GenericCompiler(), ll.CPUCompiler())"
    assert error_of(lambda: plain.kernels["mul"], UnknownNameError).hint == hint
    assert error_of(lambda: plain.kernels[0], RangeError).hint == hint


def test_the_last_line_of_a_cell_is_text():
    cx, _, _ = fused()
    cx.execute()
    kernel, times = cx.kernels[0], cx.time(rounds=2)
    plan: Any = cx.compilation.runner
    shows: list[tuple[Any, str]] = [
        (kernel.definition, "kernel "),
        (kernel.nest, "nest "),
        (kernel.schedule, "split "),
        (kernel.steps, "nest "),
        (kernel.steps[0], "# split "),
        (cx.launches[0], "%"),
        (times[0], kernel.name),
        (plan.memory_plan, "memory plan: "),
    ]
    for shown, start in shows:
        text = shown._repr_mimebundle_()["text/plain"]
        assert text == str(shown)
        assert text.startswith(start)
        assert "\n" not in repr(shown)


def test_the_check_runs_the_device_and_names_a_wrong_kernel():
    twice = ll.kernel(WRONG, meaning=lambda x: 2 * x)
    cx = ll.Graph()
    x = cx.tensor((4,), name="x")
    (twice(x.exp()) + 1).retrieve()
    cx.compile(GENERIC, CPU)
    error: Any = error_of(lambda: cx.compile(GENERIC, CPU, check="values"), PassError)
    assert error.message.startswith(
        "pass cpu{threads = 1}: the kernel twice computes another value than its graph says: "
    )
    assert "at (0,), but the kernel makes it " in error.message
    assert "test_following.py" in error.where
    assert error.inputs["x"].shape == (4,)
    assert len(error.snapshots) > 1


@pytest.mark.parametrize("passes", [(), (ll.HalfPrecision(),)], ids=["float32", "float16"])
def test_the_check_passes_what_is_right(passes: tuple[Any, ...]):
    cx = ll.Graph()
    x = cx.tensor(("n", 8), name="x")
    w = cx.tensor((8, 8), name="w")
    y = (x @ w).softmax(-1)
    cx.retrieve([y, y.sum(), y.argmax(-1)])
    x.sum(0).retrieve()
    cx.compile(GENERIC, *passes, CPU, check="values")

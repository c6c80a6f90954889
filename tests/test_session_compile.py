"""What a session does with a compile: it runs what came out, and notices when it is old."""

import copy
import pickle
import warnings

import numpy as np
import pytest
from hypothesis import given

import luminal_lab as ll
from luminal_lab.errors import ArgumentError, GraphError, LabWarning, ParseError, PassError
from luminal_lab.session import Graph
from luminal_lab.tensor.parameter import Parameter
from tests.core.graphs import graphs
from tests.expect import error_of, state
from tests.passes import running

assert running  # imports all passes


def small():
    cx = Graph()
    x = cx.tensor((2,), name="x").set([1, 2])
    y = (x * 1 + 0).exp2().retrieve()
    return cx, x, y


def test_a_compile_needs_no_data_and_is_what_runs():
    cx = Graph()
    x = cx.tensor((2,), name="x")
    y = (x * 1 + 0).exp2().retrieve()
    compiled = cx.compile("simplify, dce")
    assert cx.compilation is compiled
    assert cx.snapshots is compiled.snapshots
    assert [s.name for s in cx.snapshots] == ["written", "simplify", "dce"]
    assert str(cx.snapshots[0].ir) == str(cx)
    x.set([1, 2])
    run = cx.execute(trace=True)
    assert run is not None
    assert [step.node.op.name for step in run.steps] == ["input", "exp2"]
    np.testing.assert_array_equal(y.numpy(), [2, 4])


def test_before_the_first_compile_there_is_the_graph_as_written():
    cx, x, _ = small()
    assert [s.name for s in cx.snapshots] == ["written"]
    assert cx.snapshots[0].ir == cx.ir
    assert str(cx.trace(x).last) == "(%x,)"


def test_without_passes_it_is_the_generic_compiler():
    cx, _, y = small()
    compiled = cx.compile()
    assert str(compiled.pipeline) == "generic"
    assert len(compiled.ir) == 2
    cx.execute()
    np.testing.assert_array_equal(y.numpy(), [2, 4])


def test_a_node_is_followed_from_the_handle():
    cx, _, y = small()
    cx.compile("simplify, dce")
    assert [node.op.name for node in cx.trace(y).last] == ["exp2"]
    line = cx.trace(y).lines[0]
    assert line.text == "y = (x * 1 + 0).exp2().retrieve()"
    assert [node.op.name for node in cx.trace(f"{line.file}:{line.line}").last] == [
        "input",
        "exp2",
    ]
    other = Graph().tensor((2,))
    assert "trace" in str(error_of(lambda: cx.trace(other), GraphError))


@pytest.mark.parametrize("change", ["build", "retrieve", "name", "carry"])
def test_what_is_written_later_is_compiled_too_and_it_says_so(change):
    cx, x, y = small()
    z = x + 1
    cx.compile("simplify, dce")
    if change == "build":
        z = (z * 1).retrieve()
    elif change == "retrieve":
        z.retrieve()
    elif change == "name":
        y.named("why")
    else:
        cx.carry(y, x)
    with pytest.warns(LabWarning, match="has changed since it was compiled, and is compiled again"):
        cx.execute()
    if change in ("build", "retrieve"):
        np.testing.assert_array_equal(z.numpy(), [2, 3])
    np.testing.assert_array_equal(y.numpy(), [2, 4])
    with warnings.catch_warnings(action="error"):
        cx.execute()
        x.set([3, 4])  # data is no change of the graph
        cx.execute()


def test_a_second_compile_starts_from_what_was_written():
    cx, _, y = small()
    cx.compile("simplify, dce")
    compiled = cx.compile("dce")
    assert len(compiled.ir) == len(cx.ir)
    assert [s.name for s in cx.snapshots] == ["written", "dce"]
    cx.execute()
    np.testing.assert_array_equal(y.numpy(), [2, 4])


def test_kept_values_and_probes_are_outputs_of_what_is_compiled():
    cx = Graph()
    x = cx.tensor((2,), name="x").set([1, 2])
    a = x * 1
    kept = (a + 0).keep()
    seen = []
    probed = a * 2
    cx.probe(probed, lambda value: seen.append(value.copy()))
    y = (kept * 3).retrieve()
    unneeded = (x - 5).keep()
    cx.compile("simplify, cse, dce")
    cx.execute()
    np.testing.assert_array_equal(kept.numpy(), [1, 2])
    np.testing.assert_array_equal(y.numpy(), [3, 6])
    np.testing.assert_array_equal(seen, [[2, 4]])
    assert "not retrieved" in str(error_of(unneeded.numpy))


def test_keep_all_keeps_what_passes_have_left():
    cx, x, y = small()
    inner = x + 5
    z = (inner * 2).retrieve()
    cx.compile("simplify, dce")
    cx.execute(keep_all=True)
    np.testing.assert_array_equal(inner.numpy(), [6, 7])
    np.testing.assert_array_equal(z.numpy(), [12, 14])
    np.testing.assert_array_equal(y.numpy(), [2, 4])


def test_carried_state_parameters_and_dims():
    cx = Graph()
    count = cx.tensor((), name="count").set(0)
    weight = Parameter((3,), value=[1, 2, 3])
    x = cx.tensor(("n", 3), name="x").set(np.ones((2, 3)))
    total = cx.carry(count * 1 + 1, count)
    y = (x * cx.parameter(weight) * 1).sum(-1).retrieve()
    cx.compile()
    for _ in range(3):
        cx.execute()
    assert total.item() == 3
    np.testing.assert_array_equal(y.numpy(), [6, 6])
    weight.set([0, 0, 1])
    x.set(np.ones((4, 3)))
    cx.execute()
    np.testing.assert_array_equal(y.numpy(), [1, 1, 1, 1])


def test_what_is_known_is_not_computed_again():
    cx, x, y = small()
    z = (x + 1).retrieve()
    cx.compile("simplify, dce")
    cx.execute()
    run = cx.execute(trace=True)
    assert run is not None
    assert run.steps == ()
    x.set([2, 2])
    again = cx.execute(trace=True)
    assert again is not None
    assert len(again.steps) >= 3
    np.testing.assert_array_equal(y.numpy() + z.numpy(), [7, 7])


FAILS = {
    "a pass that fails": (lambda cx: cx.compile("dce", breaking), PassError),
    "text": (lambda cx: cx.compile("dce, nothing-like-it"), ParseError),
    "a wrong rule": (lambda cx: cx.compile(WRONG, check="values"), PassError),
}


@ll.graph_pass
def breaking(ir, edit):
    """Drop the outputs."""
    edit.signature = edit.signature._replace(outputs=())


x = ll.variables("x")
WRONG = ll.Rule("wrong", x + 0, x * 2)


@pytest.mark.parametrize("name", FAILS)
def test_a_compile_that_fails_leaves_the_session_as_it_was(name):
    call, kind = FAILS[name]
    cx, _, y = small()
    before = cx.compile("simplify, dce")
    cx.execute()
    was = state(cx)
    error = error_of(lambda: call(cx), kind)
    assert state(cx) == was
    assert cx.compilation is before
    if kind is PassError:
        assert error.snapshots[0].ir == cx.ir
    np.testing.assert_array_equal(y.numpy(), [2, 4])


def test_nothing_to_compile():
    cx = Graph()
    cx.tensor((2,))
    told = str(error_of(cx.compile, GraphError))
    assert "compile: nothing is retrieved, so there is nothing to compute" in told


def test_the_check_takes_the_data_that_is_there():
    cx = Graph()
    index = cx.tensor((2,), "int64", name="index").set([3, 1])
    table = cx.tensor((4,), name="table").set([0, 1, 2, 3])
    called = []
    doubled = cx.function(lambda a: called.append(1) or a * 2, table, shape=(4,))
    y = (doubled.gather(0, index) * 1).retrieve()
    cx.compile("simplify, dce", check="values")
    assert called
    cx.execute()
    np.testing.assert_array_equal(y.numpy(), [6, 2])


@given(graphs())
def test_the_generic_compiler_passes_its_own_check(ir):
    ll.compile_ir(ir, ll.GenericCompiler(), check="values")


def test_the_next_run_computes_all_with_what_was_compiled():
    cx, _, y = small()
    middle = (y + 1).keep()
    z = (middle * 3).retrieve()
    cx.execute()
    cx.compile("simplify, dce")
    np.testing.assert_array_equal(y.numpy(), [2, 4])  # what is there can be read until then
    run = cx.execute(trace=True)
    assert run is not None
    assert {"exp2", "add", "mul"} <= {step.node.op.name for step in run.steps}
    assert str(run).startswith("       ms")
    np.testing.assert_array_equal(z.numpy(), [9, 15])
    idle = cx.execute(trace=True)
    assert idle is not None
    assert str(idle) == ("nothing was computed: all values are up to date")
    assert repr(idle) == "<Run: 0 steps, 0.000 ms; print(…) shows them>"


def test_after_a_compile_that_fails_the_next_run_says_once_what_runs():
    cx, _, y = small()
    error_of(lambda: cx.compile("dce", breaking), PassError)
    with pytest.warns(LabWarning, match="failed, and NumPy's interpreter runs what was written"):
        cx.execute()
    cx.execute()
    cx.compile("simplify, dce")
    cx.execute()
    error_of(lambda: cx.compile("dce", breaking), PassError)
    with pytest.warns(LabWarning, match="failed, and the program of the compile before it runs"):
        cx.execute()
    cx.execute()
    np.testing.assert_array_equal(y.numpy(), [2, 4])


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"b": "8"}, "compile: specialise gives the dim 'b' the size '8'"),
        ({"b": True}, "compile: specialise gives the dim 'b' the size True"),
        ({"b": 8.0}, "compile: specialise gives the dim 'b' the size 8.0"),
        ({"b": 1 << 65}, "compile: specialise gives the dim 'b' the size 36893488147419103232"),
        ([8, 16], "compile: specialise is [8, 16], which names no dim"),
        (8, "compile: specialise is 8, which names no dim"),
        (
            {"b": 8},
            "compile: specialise asks for kernels for b = 8, and there is no device to make them",
        ),
    ],
)
def test_what_cannot_be_specialised(given, message):
    cx = Graph()
    (cx.tensor(("b", 2), name="x") * 2).retrieve()
    error = error_of(lambda: cx.compile("simplify", specialise=given), ArgumentError)
    assert error.message == message
    assert error.hint


def test_one_device_runs_a_graph():
    cx, _, _ = small()
    twice = ll.CPUCompiler(threads=1), ll.CPUCompiler(threads=2)
    error = error_of(lambda: cx.compile(*twice), ArgumentError)
    assert error.message == (
        "compile: cpu{threads = 1} and cpu{threads = 2} are 2 devices, and only one can run "
        "the graph"
    )


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"rounds": 2.5}, "time: rounds is 2.5"),
        ({"rounds": 0}, "time: rounds is 0"),
        ({"warm_up": -1}, "time: warm_up is -1"),
        ({"model": "laptop"}, "time: the model is 'laptop'"),
    ],
)
def test_what_cannot_be_timed(given, message):
    cx, _, _ = small()
    error = error_of(lambda: cx.time(**given), ArgumentError)
    assert error.message == message
    assert error.hint


def test_a_copy_is_a_graph_of_its_own_that_compiles_anew():
    cx, x, y = small()
    y.named("y")
    cx.compile("simplify, dce")
    cx.execute()
    other = copy.deepcopy(cx)
    x.set([3, 4])
    cx.execute()
    assert other["x"].graph is other
    other["x"].set([0, 1])
    other.execute()
    assert [s.name for s in other.snapshots] == ["written", "simplify", "dce"]
    assert other.compilation is not cx.compilation
    assert other["y"].tolist() == [1, 2]
    assert y.tolist() == [8, 16]


@pytest.mark.parametrize("call", [pickle.dumps, copy.copy])
def test_a_graph_cannot_be_pickled(call):
    cx, _, _ = small()
    error = error_of(lambda: call(cx), GraphError)
    assert error.message == (
        "the graph 'main' cannot be pickled, or copied without its data: it holds functions, and "
        "memory that kernels use"
    )
    assert error.hint == "copy.deepcopy(cx) copies it; str(cx.ir) is its text, which ll.parse reads"

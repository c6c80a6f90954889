"""The CPU device gives what the interpreter gives: random graphs, special values, models."""

from collections.abc import Mapping
from operator import methodcaller
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

import luminal_lab as ll
from luminal_lab import nn
from luminal_lab.core.interpret import Environment, interpret
from luminal_lab.devices.cpu.compiler import CPUCompiler, CPUProgram
from luminal_lab.errors import DeviceError, LabError, RangeError
from luminal_lab.passes.compile import compile_ir
from luminal_lab.passes.judge import differences
from tests.core.graphs import graphs
from tests.expect import error_of
from tests.passes.running import data_of, dims_of

pytestmark = pytest.mark.needs("cc")
SPECIAL = np.array([0.0, -0.0, 1.0, -1.0, 0.5, 1e-40, 3e38, -7.25, np.inf, -np.inf, np.nan])


def check(calls: Mapping[str, Any], *data: np.ndarray) -> None:
    """Check that functions of tensors are, compiled as one program, what they are interpreted."""
    cx = ll.Graph()
    tensors = [cx.tensor(d.shape, d.dtype.name).set(d) for d in data]
    results = {name: call(*tensors).retrieve() for name, call in calls.items()}
    cx.execute()
    wanted = {name: result.numpy() for name, result in results.items()}
    cx.compile(CPUCompiler())
    for tensor, d in zip(tensors, data, strict=True):
        tensor.set(d)
    cx.execute()
    for name, result in results.items():
        same(name, result.numpy(), wanted[name])


def same(name: str, found: np.ndarray, wanted: np.ndarray) -> None:
    """Check that two arrays are equal up to rounding."""
    assert found.shape == wanted.shape, name
    assert found.dtype == wanted.dtype, name
    wrong: Any = differences(wanted, found, scaled=True)
    assert not wrong.any(), (name, wanted[wrong], found[wrong])


UNARY = ("exp2", "log2", "sin", "sqrt", "reciprocal", "exp", "log", "tanh", "sigmoid", "floor")


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
def test_functions(dtype):
    with np.errstate(all="ignore"):
        x = SPECIAL.astype(ll.DType(dtype).numpy)
    check({name: methodcaller(name) for name in UNARY}, x)


BINARY = {
    "add": lambda x, y: x + y,
    "mul": lambda x, y: x * y,
    "less": lambda x, y: x < y,
    "maximum": lambda x, y: x.maximum(y),
    "where": lambda x, y: (x < y).where(x, y),
    "sum": lambda x, y: x.sum() + y.sum(),
    "max": lambda x, y: x.max() + y.max(),
}


@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "uint8", "int32", "int64", "bool"])
def test_arithmetic(dtype):
    values = SPECIAL if "float" in dtype else np.array([0, 1, 2, 3, 100, 127, 0, 5, 1, 7, 2])
    with np.errstate(all="ignore"):
        x = values.astype(ll.DType(dtype).numpy)
    mod = {} if dtype == "bool" else {"mod": lambda x, y: x.remainder(y)}
    check(BINARY | mod, x, x[::-1].copy())


@pytest.mark.parametrize("of", ["float32", "float64", "float16", "int32", "int64", "bool"])
def test_casts(of):
    with np.errstate(all="ignore"):
        values = SPECIAL if "float" in of else np.arange(-5, 6) * 50
        x = values.astype(ll.DType(of).numpy)
    targets = ["float32", "float16", "bfloat16", "int8", "int64", "uint8", "bool"]
    check({to: methodcaller("cast", to) for to in targets}, x)


VIEWS = {
    "pad": lambda x: x.pad(((1, 2), (0, 1)), value=3.0),
    "slice": lambda x: x[1:, ::2] * 2,
    "flip": lambda x: x.flip(0) + x,
    "reshape": lambda x: x.T.reshape(3, 8) + 1,
    "window": lambda x: x.unfold(1, 2, 1).sum(-1),
    "concat": lambda x: ll.concat([x, x * 2], 0),
    "matmul": lambda x: x @ x.T,
    "softmax": lambda x: x.softmax(-1),
    "layer_norm": lambda x: x.layer_norm(-1, 1e-5),
    "cumsum": lambda x: x.cumsum(1),
    "sort": lambda x: x.sort(-1)[0],
    "topk": lambda x: x.topk(2, -1)[0],
    "scatter": lambda x: x.scatter(1, (x * 0).cast("int64"), x),
    "update": lambda x: x.update(x[:1] * 5, 2),
    "empty": lambda x: x[:0].sum(0),
}


def test_views_and_reductions():
    check(VIEWS, np.random.default_rng(0).standard_normal((4, 6)).astype("f"))


def test_random_numbers_are_the_same_bits():
    def drawn(compiled: bool) -> list[np.ndarray]:
        cx = ll.Graph(seed=7)
        y = (cx.rand((3, 5)) * 1).retrieve()
        if compiled:
            cx.compile(CPUCompiler())
        return [(cx.execute(), y.numpy())[1] for _ in range(2)]

    np.testing.assert_array_equal(drawn(True), drawn(False))


def test_symbolic_dims_are_arguments_of_the_kernels():
    cx = ll.Graph()
    x = cx.tensor(("n", "m"), name="x")
    y = (x.softmax(-1) @ x.T).retrieve()
    cx.compile(ll.GenericCompiler(), CPUCompiler())
    for n, m in ((2, 3), (5, 17), (1, 1), (4, 40)):
        data = np.random.default_rng(n).standard_normal((n, m)).astype("f")
        x.set(data)
        cx.execute()
        e = np.exp(data - data.max(-1, keepdims=True))
        np.testing.assert_allclose(y.numpy(), e / e.sum(-1, keepdims=True) @ data.T, rtol=1e-5)


def test_folds_of_all_of_a_symbolic_tensor():
    def found(*passes: Any) -> list[np.ndarray]:
        cx = ll.Graph()
        x, y = cx.tensor(("m",), name="x"), cx.tensor(("m", "n"), name="y")
        results = [
            x.softmax(0),
            x.log_softmax(0),
            x.logsumexp(0),
            (x - x.max()).exp().sum(),
            y.var(),
            y.std((0, 1), keepdim=True),
            (y - y.mean()).square().sum(),
        ]
        cx.retrieve(results)
        if passes:
            cx.compile(*passes)
        x.set(np.linspace(-2, 3, 131))
        y.set(np.linspace(-1, 1, 131 * 9).reshape(131, 9))
        cx.execute()
        return [one.numpy() for one in results]

    for wanted, one in zip(found(), found(ll.GenericCompiler(), CPUCompiler()), strict=True):
        np.testing.assert_allclose(one, wanted, rtol=2e-5)


@pytest.mark.share(2)
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
def test_what_is_computed_twice_is_equal(dtype):
    """A maximum is found where it was computed, in main loops as in tails, and by any kernel."""

    def found(*passes: Any) -> list[np.ndarray]:
        cx = ll.Graph()
        rng = np.random.default_rng(0)
        shapes = {"x": (33, 77), "b": (1, 77), "c": (33, 77), "d": (33, 1)}
        inputs = [
            cx.tensor(shape, dtype, name=name).set(rng.standard_normal(shape).astype("f"))
            for name, shape in shapes.items()
        ]
        x, b, c, d = inputs
        y = x * b + c * d
        pooled = y.reshape(1, 1, 33, 77).max_pool(2)
        results = [
            y.flip(1).argmax(1),
            y.max(1, keepdim=True).eq(y).sum(1),
            (y < y.graph_break()).sum(),
            ll.grad(y.max(1).sum(), x) != 0,
            ll.grad(y.relu().max(1).sum(), x) != 0,
            ll.grad(pooled.sum(), x) != 0,
            y,
        ]
        cx.retrieve(results[:-1] if dtype == "float16" else results)
        if passes:
            cx.compile(*passes)
        cx.execute()
        return [one.numpy() for one in results[:-1]]

    for place, (wanted, one) in enumerate(
        zip(found(), found(ll.GenericCompiler(), CPUCompiler()), strict=True)
    ):
        np.testing.assert_array_equal(one, wanted, f"result {place}")


def test_kernels_of_several_phases_have_names_that_no_kernel_has():
    cx = ll.Graph()
    a, w = cx.tensor((1, "m"), name="a"), cx.tensor(("m", "p"), name="w")
    b, c, v = cx.tensor(("m", "p")), cx.tensor((3, 5)), cx.tensor((5, 7))
    cx.retrieve([a @ w, c @ v, w @ b.T])
    cx.compile(CPUCompiler())
    functions = [phase.function for kernel in cx.kernels for phase in kernel.phases]
    assert [kernel.name for kernel in cx.kernels if kernel.name.endswith("_m1")]  # a single row's
    assert len(functions) > len(cx.kernels) > 3
    assert len({*functions}) == len(functions)


def test_dims_may_be_called_what_the_source_has_names_for():
    cx = ll.Graph()
    x = cx.tensor(("step", "dims"), name="buffers").set(np.ones((2, 3)))
    y = (x * 2).sum(-1).retrieve()
    cx.compile(CPUCompiler())
    cx.execute()
    assert y.tolist() == [6, 6]


@pytest.mark.parametrize("results", [1, 2])
def test_an_index_out_of_range_is_reported_as_by_the_interpreter(results: int):
    def run(*passes: Any) -> LabError:
        cx = ll.Graph()
        table = cx.tensor((4, 2), name="table").set(np.ones((4, 2)))
        ids = cx.tensor((3,), "int64", name="ids").set([0, 9, 1])
        rows = table.take(ids, 0)  # the line that met it
        (rows - rows.mean(-1, keepdim=True)).retrieve()
        if results == 2:
            rows.retrieve()
        if passes:
            cx.compile(*passes)
        return error_of(cx.execute, RangeError)

    compiled, interpreted = run(ll.GenericCompiler(), CPUCompiler()), run()
    assert compiled.message == interpreted.message
    # The kernel's own nodes say nothing to the user: the line alone is left.
    assert compiled.where == str(interpreted.where).splitlines()[-1]
    assert "# the line that met it" in str(compiled.where)


def test_a_call_to_the_host_and_a_probe():
    cx = ll.Graph()
    x = cx.tensor((3,), name="x").set([1, 2, 3])
    seen: list[float] = []
    doubled = cx.function(lambda a: a * 2, x + 1, shape=(3,))
    cx.probe(doubled, lambda value: seen.extend(value.tolist()))
    y = (doubled * 3).retrieve()
    cx.compile(CPUCompiler())
    cx.execute()
    assert y.tolist() == [12, 18, 24]
    assert seen == [4, 6, 8]


def test_models_and_a_step_of_training():
    cx = ll.Graph()
    model = nn.models.GPT2(layers=2, heads=2, width=8, vocab=11, context=16).initialise(0)
    tokens = cx.tensor(("batch", "seq"), "int64").set(np.arange(12).reshape(2, 6) % 11)
    logits = model(tokens)
    loss = nn.cross_entropy(logits.reshape(-1, 11), (tokens.reshape(-1) * 3).remainder(11))
    loss.retrieve()
    slopes = list(ll.grad(loss, model.parameters()).values())
    cx.retrieve(slopes)
    cx.execute()
    before = [loss.numpy(), *[slope.numpy() for slope in slopes]]
    cx.compile(ll.GenericCompiler(), CPUCompiler())
    tokens.set(np.arange(12).reshape(2, 6) % 11)
    cx.execute()
    for wanted, slope in zip(before, [loss, *slopes], strict=True):
        np.testing.assert_allclose(slope.numpy(), wanted, rtol=2e-4, atol=2e-6)


def test_a_loop_of_training_follows_the_interpreter():
    def losses(*passes: Any) -> list[float]:
        cx = ll.Graph()
        model = nn.models.MLP(4, 16, 3).initialise(0)
        x = cx.tensor((8, 4)).set(np.linspace(-1, 1, 32).reshape(8, 4))
        target = cx.tensor((8,), "int64").set(np.arange(8) % 3)
        loss = nn.cross_entropy(model(x), target).retrieve()
        nn.Adam(lr=0.01).minimise(loss)
        if passes:
            cx.compile(*passes)
        return [(cx.execute(), loss.item())[1] for _ in range(10)]

    np.testing.assert_allclose(losses(ll.GenericCompiler(), CPUCompiler()), losses(), rtol=1e-4)


@settings(max_examples=25)
@given(graphs())
def test_random_graphs(ir):
    compiled = compile_ir(ir, CPUCompiler())
    assert compiled.runner is not None
    dims = dims_of(ir)
    data = data_of(ir, dims, facts=["no_inf"])
    arrays = {node.id: data[node.name] for node in ir.inputs}

    def run(call: Any, graph: Any) -> Any:
        try:
            values = call(Environment(lambda node: arrays[node.id], dims, 0))
        except LabError as error:
            return type(error)
        return [values[id] for id in graph.output_ids]

    wanted = run(lambda environment: interpret(ir, environment), ir)
    last = compiled.ir
    runner = compiled.runner
    found = run(lambda e: runner.run(e, set(last.output_ids), {}), last)
    if isinstance(wanted, type):
        assert found is wanted or isinstance(found, list)
        return
    for a, b in zip(wanted, found, strict=True):
        same("output", b, a)


def test_a_compiler_that_is_not_there():
    cx = ll.Graph()
    (cx.tensor((2,)) * 2).retrieve()
    error = error_of(lambda: cx.compile(CPUCompiler(compiler="no-such-cc")), DeviceError)
    assert "no-such-cc" in str(error)
    assert [s.name for s in error.snapshots][-1] == "depth-first"


def test_kernels_of_equal_layers_are_one():
    cx = ll.Graph()
    x, w = cx.tensor((4, 8)), cx.tensor((8, 8))
    for _ in range(5):
        x = (x @ w).softmax(-1)
    x.retrieve()
    runner = cx.compile(ll.GenericCompiler(), CPUCompiler()).runner
    assert isinstance(runner, CPUProgram)
    assert len(runner.kernels) < len(runner.launches)
    assert "for (lab_i64 i = 0; i < 4; i++)" in runner.source


@pytest.mark.parametrize("size", [0, 1, 7])
def test_a_product_that_sums_over_a_dim_which_may_be_nothing(size: int) -> None:
    cx = ll.Graph()
    x = cx.tensor((cx.dim("z", 0, 10), 3), name="x").set(np.ones((size, 3)))
    y = (x.T @ x).retrieve()
    cx.compile(CPUCompiler())
    cx.execute()
    np.testing.assert_array_equal(y.numpy(), np.full((3, 3), size))

"""Runs of CPU programs: threads, memory in place, outputs that stay, Ctrl-C, forks, large sizes."""

import gc
import os
import re
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import luminal_lab as ll
from luminal_lab import nn
from luminal_lab.core.interpret import Environment, interpret
from luminal_lab.devices.cpu.compiler import CPUCompiler, CPUProgram
from luminal_lab.devices.runtime import blocks
from luminal_lab.errors import (
    ArgumentError,
    DeviceError,
    DimError,
    LabError,
    LabWarning,
    RangeError,
)
from luminal_lab.nn.cache import KVCache
from luminal_lab.passes.compile import compile_ir
from luminal_lab.tensor.versions import there
from tests.core.graphs import graphs
from tests.expect import error_of
from tests.passes.running import data_of, dims_of

pytestmark = pytest.mark.needs("cc")


def program_of(cx: ll.Graph) -> CPUProgram:
    runner = cx.compilation.runner
    assert isinstance(runner, CPUProgram)
    return runner


def run(program: CPUProgram, arrays: dict[str, Any], dims: Any = None, step: int = 0) -> list[Any]:
    environment = Environment(lambda node: arrays[node.name], dims or {}, step)
    values = program.run(environment, program.ir.output_ids, {})
    return [values[id] for id in program.ir.output_ids]


# -- threads ---------------------------------------------------------------------------------------


def test_any_number_of_threads_gives_the_same_bits():
    def found(threads: int) -> list[np.ndarray]:
        cx = ll.Graph()
        rng = np.random.default_rng(0)
        a = cx.tensor((130, 200)).set(rng.standard_normal((130, 200)))
        b = cx.tensor((200, 96)).set(rng.standard_normal((200, 96)))
        results = [
            (a @ b).softmax(-1),
            a.sum(0),
            a.layer_norm(-1, 1e-5),
            a.sin() * 2,
            (a.T @ a).sum(),
            a.scatter_add(0, (b[:130, :1] * 0).cast("int64").expand(130, 200), a),
        ]
        cx.retrieve(results)
        cx.compile(ll.GenericCompiler(), CPUCompiler(threads=threads))
        cx.execute()
        return [one.numpy() for one in results]

    once = found(1)
    for threads in (2, 3, 7):
        for one, other in zip(once, found(threads), strict=True):
            np.testing.assert_array_equal(one, other)


@settings(max_examples=15)
@given(graphs(), st.sampled_from([1, 2]))
def test_random_graphs_with_threads(ir, threads):
    compiled = compile_ir(ir, CPUCompiler(threads=threads))
    program = compiled.runner
    assert isinstance(program, CPUProgram)
    dims = dims_of(ir)
    data = data_of(ir, dims, facts=["no_inf"])
    by_id = {node.id: data[node.name] for node in ir.inputs}
    environment = Environment(lambda node: by_id[node.id], dims, 0)
    try:
        wanted = interpret(compiled.ir, environment)
    except LabError:
        return
    first = program.run(environment, compiled.ir.output_ids, {})
    kept = {id: value.copy() for id, value in first.items()}
    other = {id: np.ones_like(array) for id, array in by_id.items()}
    again = Environment(lambda node: other[node.id], dims, 1)
    with suppress(LabError):  # an index out of range, now that all are 1
        program.run(again, compiled.ir.output_ids, {})
    for id, value in wanted.items():
        assert first[id].shape == value.shape
        assert first[id].dtype == value.dtype
        np.testing.assert_array_equal(first[id], kept[id], "the next run wrote over it")


@pytest.mark.parametrize("threads", [0, -1, 5000])
def test_a_number_of_threads_that_cannot_be(threads):
    error = error_of(lambda: CPUCompiler(threads=threads), ArgumentError)
    assert str(error) == (
        f"cpu: the number of threads is {threads}\n"
        "hint: give 1 to 1024, or leave it out for all cores"
    )


def test_a_pipeline_of_text_says_the_threads():
    assert str(CPUCompiler(threads=2, reuse_outputs=True)) == (
        "cpu{threads = 2, reuse_outputs = true}"
    )


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_fork_after_the_threads_have_started():
    cx = ll.Graph()
    a = cx.tensor((300, 300)).set(np.ones((300, 300)))
    y = (a @ a).retrieve()
    cx.compile(CPUCompiler(threads=2))
    cx.execute()
    child = os.fork()
    if not child:
        status = 1
        try:
            a.set(np.full((300, 300), 2))
            cx.execute()
            status = int(not (y.numpy() == 1200).all())
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
    a.set(np.full((300, 300), 3))
    cx.execute()
    assert (y.numpy() == 2700).all()


def threads_of_this_process() -> set[int]:
    return {int(task.name) for task in Path("/proc/self/task").iterdir()}


@pytest.mark.skipif(
    sys.platform != "linux" or len(os.sched_getaffinity(0)) < 2, reason="needs two cores and Linux"
)
def test_a_thread_that_stands_behind_its_caller_is_sent_to_another_core():
    cores = os.sched_getaffinity(0)
    before = threads_of_this_process()
    cx = ll.Graph()
    a = cx.tensor((300, 300)).set(np.ones((300, 300)))
    y = (a @ a).retrieve()
    cx.compile(CPUCompiler(threads=2))
    cx.execute()
    (worker,) = threads_of_this_process() - before
    here = {min(cores)}
    try:
        os.sched_setaffinity(worker, here)
        os.sched_setaffinity(0, here)
        for step in range(1000):
            a.set(np.full((300, 300), step))
            cx.execute()
            assert (y.numpy() == 300 * step**2).all()
            if os.sched_getaffinity(worker) == cores:
                break
        assert os.sched_getaffinity(worker) == cores
    finally:
        os.sched_setaffinity(0, cores)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux says which cores a thread may have")
def test_more_threads_than_cores_that_they_may_have():
    cores = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, {min(cores)})
        cx = ll.Graph()
        a = cx.tensor((300, 300)).set(np.ones((300, 300)))
        y = (a @ a).retrieve()
        cx.compile(CPUCompiler(threads=3))
        for step in range(3):
            a.set(np.full((300, 300), step))
            cx.execute()
            assert (y.numpy() == 300 * step**2).all()
    finally:
        os.sched_setaffinity(0, cores)


# -- memory ----------------------------------------------------------------------------------------


def cached(length: int, *passes: Any) -> tuple[ll.Graph, Any, Any, Any]:
    """Return a graph with a cache of rows, of which a run writes one, and sums all."""
    cx = ll.Graph()
    rows = cx.tensor((length, 8), name="rows").set(np.zeros((length, 8)))
    row = cx.tensor((1, 8), name="row").set(np.zeros((1, 8)))
    at = cx.dim("at", 0, length - 1)
    new = cx.carry(rows.update(row + 1, at), rows)
    total = new.sum(0).retrieve()
    if passes:
        cx.compile(*passes)
    return cx, row, new, total


def test_a_cache_is_updated_in_place():
    cx, row, new, total = cached(64, ll.GenericCompiler(), CPUCompiler())
    plain, plain_row, plain_new, plain_total = cached(64)
    for step in range(5):
        for graph, one in ((cx, row), (plain, plain_row)):
            one.set(np.full((1, 8), step))
            graph.set_dim("at", 2 * step)
            graph.execute()
        np.testing.assert_array_equal(total.numpy(), plain_total.numpy())
        np.testing.assert_array_equal(new.numpy(), plain_new.numpy())
    # The cache has one block, and each of the sums that are alive another.
    assert program_of(cx).blocks.bytes == 64 * 8 * 4 + 2 * 8 * 4
    assert "%rows where it is" in str(program_of(cx).memory_plan)


def test_a_cache_that_counts_its_runs_is_updated_in_place():
    def step(*passes: Any) -> tuple[ll.Graph, KVCache, Any, Any]:
        cx = ll.Graph()
        rows, cache = cx.tensor((1, 2, 1, 8), name="rows"), KVCache(cx, 64)
        keys, values = cache.extend("layer", rows, rows * 2)
        total = (keys.sum(-2) - values.max(-2)).retrieve()
        if passes:
            cx.compile(*passes)
        cache.begin()
        return cx, cache, rows, total

    cx, cache, rows, total = step(ll.GenericCompiler(), CPUCompiler())
    plain, plain_cache, plain_rows, plain_total = step()
    places: list[tuple[int, ...]] = []
    for turn in range(6):
        for graph, counted, row in ((cx, cache, rows), (plain, plain_cache, plain_rows)):
            counted.advance()
            row.set(np.full((1, 2, 1, 8), turn))
            graph.execute()
        np.testing.assert_array_equal(total.numpy(), plain_total.numpy())
        ((keys, values),) = cache.buffers
        places.append(tuple(cx.owned(buffer).ctypes.data for buffer in (keys, values)))
        if turn == 3:
            held, copy = keys.numpy(), keys.numpy().copy()
    assert places[1] == places[2] == places[3]
    np.testing.assert_array_equal(held, copy)
    assert not np.shares_memory(held, cx.owned(keys))


@pytest.mark.parametrize("is_early", [True, False])
def test_what_a_probe_raises_leaves_carried_inputs_as_they_were(is_early):
    cx = ll.Graph()
    x = cx.tensor((64, 8), name="x").set(np.zeros((64, 8)))
    row = cx.tensor((1, 8), name="row").set(np.ones((1, 8)))
    seen = row * 3
    new = cx.carry(x.update(seen, 3, 0), x)
    limits = [np.inf]

    def check(value: np.ndarray) -> None:
        if value.max() > limits[0]:
            raise ValueError("too large")

    cx.probe(seen if is_early else new + 1, check)
    cx.compile(ll.GenericCompiler(), CPUCompiler())
    for turn in range(3):
        row.set(np.full((1, 8), turn))
        cx.execute()
    before = new.numpy().copy()
    limits[0] = 0
    row.set(np.full((1, 8), 5))
    with pytest.raises(ValueError, match="too large"):
        cx.execute()
    np.testing.assert_array_equal(cx["x"].numpy(), before)
    limits[0] = np.inf
    cx.execute()
    assert new.numpy()[3, 0] == 15
    plans = program_of(cx)._plans.values()
    assert [bool(plan.owned) for plan in plans] == [is_early] * len(plans)


def test_a_step_writes_bytes_that_do_not_depend_on_the_length_of_the_cache():
    def written(length: int) -> int:
        cx, *_ = cached(length, ll.GenericCompiler(), CPUCompiler())
        program = program_of(cx)
        return program.plan(program.ir.output_ids).bound({"at": 3}).bytes_written

    assert written(64) == written(4096) <= 3 * 8 * 4


@pytest.mark.parametrize("carried", [False, True])
@pytest.mark.parametrize(
    "twice",
    [
        pytest.param(lambda y, i: y.scatter_add(0, i, y), id="scatter-add"),
        pytest.param(lambda y, i: y.scatter(0, i, y.reshape(40)), id="scatter"),
        pytest.param(lambda y, i: y.update(y[2:5], 1, 0), id="update"),
        pytest.param(lambda y, i: y.graph_break().flip(0) * 2 + y, id="flip"),
        pytest.param(lambda y, i: y.contiguous().graph_break()[i] - y, id="gather"),
    ],
)
def test_what_a_kernel_reads_in_two_places_is_not_written_over(twice, carried):
    def found(*passes: Any) -> np.ndarray:
        cx = ll.Graph()
        x = cx.tensor((40,), name="x").set(np.arange(40))
        i = cx.tensor((40,), "int64", name="i").set((np.arange(40) + 1) % 40)
        y = cx.carry(twice(x, i), x) if carried else twice(x * 10, i).retrieve()
        if passes:
            cx.compile(*passes)
        cx.execute()
        if carried:
            cx.execute()
        return y.numpy()

    np.testing.assert_array_equal(found(ll.GenericCompiler(), CPUCompiler()), found())


def test_what_others_hold_of_a_carried_value_stays():
    cx, row, new, _ = cached(16, ll.GenericCompiler(), CPUCompiler())
    cx.set_dim("at", 0)
    cx.execute()
    other = cx.tensor((16, 8), name="other")
    cx.transfer(new, other)  # the same memory is another input's
    first = (other * 1).retrieve()
    row.set(np.full((1, 8), 5))
    cx["rows"].set(np.zeros((16, 8)))
    with pytest.warns(LabWarning, match="has changed"):
        cx.execute()
    assert first.numpy()[0, 0] == 1
    assert new.numpy()[0, 0] == 6


def test_carried_inputs_of_one_size_have_memory_of_their_own():
    cx = ll.Graph()
    x, y = (cx.tensor((16,), name=name).set(np.full(16, k)) for k, name in enumerate("xy", 2))
    new = cx.carry(x + y, x), cx.carry(y * 2, y)
    cx.compile(CPUCompiler())
    cx.execute()
    assert [one.numpy()[0] for one in new] == [5, 6]


def test_data_of_the_users_is_never_written_over():
    mine = np.zeros((16, 8), "f")
    cx, _, new, _ = cached(16, ll.GenericCompiler(), CPUCompiler())
    cx["rows"].borrow(mine)
    cx.set_dim("at", 0)
    cx.execute()
    cx.execute()
    assert not mine.any()
    assert new.numpy()[0].all()


def test_parameters_are_trained_in_place():
    cx = ll.Graph()
    model = nn.Linear(64, 64).initialise(0)
    x = cx.tensor((4, 64)).set(np.ones((4, 64)))
    loss = (model(x) * model(x)).sum().retrieve()
    nn.SGD(lr=1e-3).minimise(loss)
    cx.compile(ll.GenericCompiler(), CPUCompiler())
    places: list[set[int]] = []
    losses: list[float] = []
    for _ in range(4):
        x.set(np.ones((4, 64)))
        cx.execute()
        losses.append(loss.item())
        places.append({parameter.value.ctypes.data for parameter in model.parameters().values()})
    assert losses == sorted(losses, reverse=True)
    assert places[1] == places[2] == places[3]


def test_outputs_of_one_run_are_unchanged_after_the_next():
    cx = ll.Graph()
    x = cx.tensor((4,), name="x")
    (x * 2).retrieve()
    cx.compile(CPUCompiler())
    program = program_of(cx)
    (first,) = run(program, {"x": np.arange(4, dtype="f")})
    (second,) = run(program, {"x": np.ones(4, "f")})
    view = first[1:]
    address = second.ctypes.data
    del first, second
    (third,) = run(program, {"x": np.zeros(4, "f")})
    assert view.tolist() == [2, 4, 6]
    assert third.ctypes.data == address  # nobody holds the second any more


def test_outputs_that_are_written_over_if_that_is_asked_for():
    cx = ll.Graph()
    x = cx.tensor((4,), name="x")
    (x * 2).retrieve()
    cx.compile(CPUCompiler(reuse_outputs=True))
    program = program_of(cx)
    (first,) = run(program, {"x": np.arange(4, dtype="f")})
    (second,) = run(program, {"x": np.ones(4, "f")})
    assert first.tolist() == second.tolist() == [2, 2, 2, 2]
    (third,) = run(program, {"x": second})  # what is read is not written
    assert second.tolist() == [2, 2, 2, 2]
    assert third.tolist() == [4, 4, 4, 4]


def test_carried_outputs_that_are_written_over_take_turns_in_two_blocks(
    monkeypatch: pytest.MonkeyPatch,
):
    cx = ll.Graph()
    x = cx.tensor((4,), name="x").set(np.ones(4))
    y = cx.carry(x.flip(0) * 2, x)
    cx.compile(CPUCompiler(reuse_outputs=True))
    pool, sizes = program_of(cx).blocks, list[int]()
    make = pool.make
    monkeypatch.setattr(pool, "make", lambda size: (sizes.append(size), make(size))[1])
    for turn in range(6):
        cx.execute()
        assert y.tolist() == [2 ** (turn + 1)] * 4
    assert len(sizes) == 2


def test_an_output_that_is_an_input_or_another_output_has_memory_of_its_own():
    cx = ll.Graph()
    x = cx.tensor((2, 3), name="x").set(np.ones((2, 3)))
    same = x.reshape(6).retrieve()
    y = (x * 2).retrieve()
    flat = y.reshape(3, 2).retrieve()
    cx.compile(ll.GenericCompiler(), CPUCompiler())
    cx.execute()
    assert same.tolist() == [1] * 6
    assert y.shape == (2, 3)
    assert flat.tolist() == [[2, 2]] * 3
    values = [there(cx._values[one.id]) for one in (same, y, flat)]
    assert len({value.ctypes.data for value in values}) == 3


def test_temporaries_share_the_arena_and_it_grows_with_the_dims():
    cx = ll.Graph()
    x = cx.tensor(("n", 64), name="x")
    y = x
    for _ in range(6):
        y = (y @ y.T @ y) * 0.01
    y.retrieve()
    cx.compile(ll.GenericCompiler(), CPUCompiler())
    plan = program_of(cx).memory_plan
    assert plan.bind({"n": 32}).arena_bytes < plan.bind({"n": 32}).unshared_bytes / 2
    for n in (3, 40, 8):
        x.set(np.ones((n, 64)))
        cx.execute()
        assert y.numpy().shape == (n, 64)
    assert program_of(cx)._arena.bytes == plan.bind({"n": 40}).arena_bytes


def test_too_little_memory_names_the_largest_values(monkeypatch):
    cx = ll.Graph()
    x = cx.tensor(("n",), name="x")
    (x.sin().reshape(-1, 1) * 2).sum(0).retrieve()
    y = (x * 2).retrieve()
    cx.compile(CPUCompiler())
    x.set(np.zeros(1000))
    cx.execute()
    monkeypatch.setattr(blocks, "CAREFUL", 4096)
    monkeypatch.setattr(blocks, "available_memory", lambda: 5000)
    monkeypatch.setattr("luminal_lab.devices.cpu.run.available_memory", lambda: 5000)
    x.set(np.zeros(2000))
    error = error_of(cx.execute, DeviceError)
    assert error.message.endswith("for what is retrieved, and 5,000 are there")
    assert "the largest values:\n" in str(error)
    assert re.search(r"\n +8,000  %\d+: f32\[n\]\n", str(error))
    assert error.hint == "use smaller sizes, or keep and retrieve fewer values"
    x.set(np.zeros(10))
    cx.execute()
    assert y.tolist() == [0] * 10


@pytest.mark.parametrize("compiled", [False, True])
def test_too_little_memory_for_what_goes_in_or_comes_out_says_so(monkeypatch, compiled):
    cx = ll.Graph()
    x = cx.tensor((1000,), name="x").set(np.zeros(1000))
    y, z = (x * 2).retrieve(), (x * 2).sum().retrieve()
    passed = x.reshape(10, 100).retrieve()
    cx.compile("generic, cpu" if compiled else "generic")

    def refuse(*_: object, **__: object) -> None:
        raise MemoryError("Unable to allocate 3.91 KiB for an array with shape (1000,)")

    for _ in range(2):  # while a run is planned, and then while it goes on
        with monkeypatch.context() as patch:
            patch.setattr(np, "empty" if compiled else "multiply", refuse)
            first = error_of(cx.execute, DeviceError)
        assert first.message.startswith("execute: out of memory: ")
        cx.execute()
        x.set(np.zeros(1000))
    with monkeypatch.context() as patch:
        patch.setattr(np, "empty" if compiled else "multiply", refuse)
        error = error_of(cx.execute, DeviceError)
    assert error.message.startswith("execute: out of memory: ")
    assert "4,000" in error.message + str(error.where)
    assert error.hint == "use smaller sizes, or keep and retrieve fewer values"
    cx.execute()
    assert (y.tolist(), z.item(), passed.shape) == ([0] * 1000, 0, (10, 100))
    huge = np.broadcast_to(np.float32(1), (1 << 24, 1 << 24))
    w = cx.tensor(huge.shape, name="w")
    error = error_of(lambda: w.set(huge), DeviceError)
    assert error.message == ("set: %w: out of memory: its copy needs 1,125,899,906,842,624 bytes")
    assert error.hint == (
        "use smaller sizes, or borrow(...), which copies no array of the right dtype"
    )


# -- runs ------------------------------------------------------------------------------------------


def test_a_dim_out_of_its_bounds_at_run_time():
    cx = ll.Graph()
    n = cx.dim("n", 2, 8, multiple_of=2)
    x = cx.tensor((n,), name="x")
    (x * 2).retrieve()
    cx.compile(CPUCompiler())
    assert "9 is out of its bounds" in str(error_of(lambda: x.set(np.ones(9)), DimError))


def test_rows_that_do_not_fit_for_these_dims():
    def error(*passes: Any) -> str:
        cx = ll.Graph()
        rows = cx.tensor((8, 2)).set(np.zeros((8, 2)))
        rows.update(cx.tensor((3, 2)).set(np.ones((3, 2))), cx.dim("at", 0)).retrieve()
        if passes:
            cx.compile(*passes)
        cx.set_dim("at", 6)
        return error_of(cx.execute, LabError).message

    assert error(CPUCompiler()) == error()


def test_nan_and_inf_go_through():
    cx = ll.Graph()
    x = cx.tensor((4,)).set([np.nan, np.inf, -np.inf, 1])
    y = (x * 2 + 1).retrieve()
    cx.compile(CPUCompiler())
    cx.execute()
    np.testing.assert_array_equal(y.numpy(), [np.nan, np.inf, -np.inf, 3])


def test_values_on_the_way_are_kept_probed_and_traced():
    cx = ll.Graph()
    x = cx.tensor((3,), name="x").set([1, 2, 3])
    a = (x * 2).sum().keep()
    b = (a + x).keep()
    seen: list[np.ndarray] = []
    cx.probe(b, seen.append)
    y = (b * 10).retrieve()
    cx.compile(CPUCompiler())
    traced = cx.execute(trace=True)
    assert a.item() == 12
    assert b.tolist() == [13, 14, 15]
    assert y.tolist() == [130, 140, 150]
    x.set([0, 0, 1])
    cx.execute()
    assert [one.tolist() for one in seen] == [[13, 14, 15], [2, 2, 3]]
    assert traced is not None
    assert traced.seconds > 0
    assert {step.bytes for step in traced.steps} >= {12}


def test_a_run_stops_only_where_a_value_is_probed(monkeypatch: pytest.MonkeyPatch):
    cx = ll.Graph()
    x = cx.tensor((3, 4), name="x").set(np.ones((3, 4)))
    a = x.softmax(-1) @ x.T
    b = a.softmax(-1) @ x
    (b.softmax(-1) @ x.T).retrieve()
    seen: list[float] = []
    cx.probe(b, lambda value: seen.append(value.sum().item()))
    cx.compile(ll.GenericCompiler(), CPUCompiler())
    library, spans = program_of(cx).library, list[tuple[int, int]]()
    execute = library.execute

    def counted(run: int, first: int, last: int) -> int:
        spans.append((first, last))
        return execute(run, first, last)

    monkeypatch.setattr(library, "execute", counted)
    cx.execute()
    (_, probed), (again, last) = spans
    assert 1 < probed == again < last == len(program_of(cx).launches)
    np.testing.assert_allclose(seen, [12], rtol=1e-6)


def test_what_needs_no_new_run_is_known():
    cx = ll.Graph()
    x = cx.tensor((2,)).set([1, 2])
    z = cx.tensor((2,)).set([5, 5])
    y = (x * 2).retrieve()
    w = (y + z).retrieve()
    cx.compile(CPUCompiler())
    cx.execute()
    z.set([0, 1])
    cx.execute()
    assert (y.tolist(), w.tolist()) == ([2, 4], [2, 5])


def test_inputs_of_any_layout():
    cx = ll.Graph()
    x = cx.tensor((3, 4))
    y = (x + 1).retrieve()
    cx.compile(CPUCompiler())
    data = np.arange(24, dtype="f").reshape(4, 6)[:, ::2].T
    x.borrow(data)
    cx.execute()
    np.testing.assert_array_equal(y.numpy(), data + 1)
    odd = np.zeros(49, np.uint8)[1:].view("f").reshape(3, 4)
    odd[...] = 5
    x.borrow(odd)
    cx.execute()
    assert (y.numpy() == 6).all()


def test_an_index_out_of_range_after_a_cache_was_written_to():
    cx = ll.Graph()
    rows = cx.tensor((4, 2), name="rows").set(np.zeros((4, 2)))
    which = cx.tensor((1,), "int64", name="which").set([9])
    new = cx.carry(rows.update(rows[:1] * 0 + 1, 2), rows)
    new.take(which, 0).retrieve()
    cx.compile(ll.GenericCompiler(), CPUCompiler())
    error = error_of(cx.execute, RangeError)
    assert "9" in error.message
    assert error.__notes__ == ["before that the run had written to %rows: give data to it again"]
    which.set([2])
    rows.set(np.zeros((4, 2)))
    cx.execute()
    assert new.tolist()[2] == [1, 1]


@pytest.mark.skipif(sys.platform == "win32", reason="kill works otherwise there")
def test_ctrl_c_leaves_the_session_usable():
    cx = ll.Graph()
    a = cx.tensor((700, 700), name="a").set(np.eye(700))
    y = a
    for _ in range(400):
        y = y @ a
    y.retrieve()
    cx.compile(CPUCompiler())
    gc.collect()  # Python loses an interrupt that comes while what is dead is put away
    # From elsewhere: a thread of ours gets its turn just when Python gives way to C.
    presses = subprocess.Popen(["sh", "-c", f"sleep 0.05; kill -INT {os.getpid()}"])
    with pytest.raises(ll.Interrupted) as stopped:
        cx.execute()
    presses.wait()
    assert stopped.value.message == "execute: stopped by Ctrl-C; no value was changed"
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    b = cx.tensor((2,)).set([1, 2])
    cx.drop(y)
    z = (b * 2).retrieve()
    with pytest.warns(LabWarning, match="has changed"):
        cx.execute()
    assert z.tolist() == [2, 4]


@pytest.mark.skipif(sys.platform == "win32", reason="kill works otherwise there")
def test_ctrl_c_after_an_input_was_written_over_waits_until_the_values_are_kept():
    cx = ll.Graph()
    count = cx.tensor((4,), name="count").set(np.zeros(4))
    new = cx.carry(count + 1, count)
    cx.compile(CPUCompiler())
    cx.execute()
    program = program_of(cx)
    execute = program.library.execute

    def interrupted(run: int, first: int, last: int) -> int:
        done = execute(run, first, last)
        plan = program.plan(program.ir.output_ids)
        plan.bound({}).run.interrupted = 1
        return done

    program.library.execute = interrupted
    with pytest.raises(KeyboardInterrupt):
        cx.execute()
    program.library.execute = execute
    assert new.tolist() == [2] * 4
    cx.execute()
    assert new.tolist() == [3] * 4


# -- launches --------------------------------------------------------------------------------------


def test_launches_and_kernels_are_shown():
    cx = ll.Graph()
    x = cx.tensor((4, 8), name="x").set(np.ones((4, 8)))
    y = x.softmax(-1)
    z = (y.sum(0) * 2).retrieve()
    cx.compile(ll.GenericCompiler(), CPUCompiler())
    assert cx.launches
    last = cx.launches[-1]
    assert last.node == cx.compilation.ir.output_ids[0]
    assert last.kernel in cx.kernels
    assert last.kernel.source in program_of(cx).source
    assert last.flops() > 0
    assert last.bytes() > 0
    assert any(origin.file == __file__ for launch in cx.launches for origin in launch.origins)
    assert str(last).startswith(f"%{last.name}: f32[8] = ")
    cx.execute()
    assert z.shape == (8,)


def test_times_of_launches_change_nothing():
    cx, row, new, _ = cached(16, ll.GenericCompiler(), CPUCompiler())
    cx.set_dim("at", 1)
    cx.execute()
    before = new.numpy()
    row.set(np.full((1, 8), 3))
    environment = Environment(cx._input_value, {"at": 1}, 0)
    program = program_of(cx)
    timed = program.time_launches(environment, rounds=3)
    assert [launch for launch, _ in timed] == list(program.launches)
    assert all(len(samples) == 3 and min(samples) >= 0 for _, samples in timed)
    np.testing.assert_array_equal(cx._data[cx["rows"].id], before)


def test_kernels_for_sizes_that_compile_was_given():
    cx = ll.Graph()
    x = cx.tensor(("n", "m"), name="x")
    y = (x.softmax(-1) * 2).retrieve()
    cx.compile(ll.GenericCompiler(), CPUCompiler(), specialise={"m": 6})
    program = program_of(cx)
    assert any("f32[n, 6]" in str(kernel.definition) for kernel in cx.kernels)
    assert any("f32[n, m]" in str(kernel.definition) for kernel in cx.kernels)
    for n, m in ((2, 6), (3, 5), (4, 6)):
        data = np.random.default_rng(n).standard_normal((n, m)).astype("f")
        x.set(data)
        cx.execute()
        e = np.exp(data - data.max(-1, keepdims=True))
        np.testing.assert_allclose(y.numpy(), 2 * e / e.sum(-1, keepdims=True), rtol=1e-5)
        plan = program.plan(program.ir.output_ids, dims={"n": n, "m": m})
        assert (plan.asked.sizes == 0) == (m == 6)


def specialised_example(size: int = 8) -> tuple[ll.Graph, Any]:
    cx = ll.Graph()
    x = cx.tensor(("batch", 4), name="x").set(np.ones((size, 4)))
    w = cx.tensor((4, 3), name="w").set(np.ones((4, 3)))
    hidden = (x @ w).gelu().named("hidden").retrieve()
    (hidden.relu() @ w.T).named("y").retrieve()
    return cx, x


def test_launches_are_those_of_the_sizes_of_the_last_run():
    cx, x = specialised_example()
    cx.compile(ll.GenericCompiler(), CPUCompiler(), specialise={"batch": 8})
    names = [kernel.name for kernel in cx.kernels]
    assert names == ["matmul_gelu", "matmul_gelu_batch8", "matmul", "matmul_batch8"]
    general = [launch.kernel.name for launch in cx.launches]
    assert general == ["matmul_gelu", "matmul"]
    cx.execute()
    assert [launch.kernel.name for launch in cx.launches] == [f"{name}_batch8" for name in general]
    assert [launch.kernel.name for launch in cx.launches] == [
        row.kernel for row in cx.time(rounds=1)
    ]
    assert [launch.number for launch in cx.launches] == [0, 1]
    x.set(np.ones((7, 4)))
    cx.execute()
    assert [launch.kernel.name for launch in cx.launches] == general


def test_a_schedule_is_for_the_general_kernel_or_for_the_one_for_sizes():
    cx, _ = specialised_example()
    mine = CPUCompiler(schedules={"matmul_gelu": "parallel i"})
    cx.compile(ll.GenericCompiler(), mine, specialise={"batch": 8})
    assert str(cx.kernels["matmul_gelu"].schedule) == "parallel i"
    assert str(cx.kernels["matmul_gelu_batch8"].schedule) != "parallel i"
    mine = CPUCompiler(schedules={"matmul_gelu_batch8": "parallel i"})
    cx.compile(ll.GenericCompiler(), mine, specialise={"batch": 8})
    assert str(cx.kernels["matmul_gelu_batch8"].schedule) == "parallel i"


def test_a_kernel_has_no_number_that_makes_it_anothers_name():
    cx = ll.Graph()
    # The C of `sin` with a number would be that of the one of the user's.
    two = ll.kernel(
        "// kernel sin_2(x: f32[n]) -> (y: f32[n])\n"
        "void sin_2(const float *x, float *y, long n) {\n"
        "    for (long i = 0; i < n; i++) y[i] = x[i];\n}",
        meaning=lambda x: x,
    )
    a, b = (cx.tensor((size,), name=name).set(np.ones(size)) for name, size in (("a", 2), ("b", 3)))
    made = [a.sin().retrieve(), b.sin().retrieve(), two(a).retrieve(), two(b).retrieve()]
    cx.compile(ll.GenericCompiler(), CPUCompiler())
    # The order is that of the program.
    assert sorted(kernel.name for kernel in cx.kernels) == ["sin", "sin_2", "sin_2_2", "sin_3"]
    cx.execute()
    np.testing.assert_allclose(made[1].numpy(), np.sin(np.ones(3)), rtol=1e-6)


def test_a_kernel_of_the_users_may_have_unsigned_elements():
    high = ll.kernel(
        "#include <stdint.h>\n"
        "// kernel high(a: u16[n], b: u32[n], c: u64[n]) -> (x: u16[n], y: u32[n], z: u64[n])\n"
        "void high(const unsigned short *a, const unsigned int *b, const unsigned long long *c,\n"
        "          uint16_t *x, uint32_t *y, uint64_t *z, long n) {\n"
        "    for (long i = 0; i < n; i++) x[i] = a[i] >> 3, y[i] = b[i] >> 3, z[i] = c[i] >> 3;\n}",
        meaning=lambda a, b, c: (a >> 3, b >> 3, c >> 3),
    )
    cx = ll.Graph()
    arrays = [np.array([0, 9, 2**bits - 1], f"u{bits // 8}") for bits in (16, 32, 64)]
    given = [cx.tensor((3,), array.dtype).set(array) for array in arrays]
    made = [one.retrieve() for one in high(*given)]
    cx.compile(ll.GenericCompiler(), CPUCompiler())
    cx.execute()
    for one, array in zip(made, arrays, strict=True):
        np.testing.assert_array_equal(one.numpy(), array >> 3)


def test_a_kernel_of_the_users_takes_no_schedule():
    sq = ll.kernel(
        "// kernel sq(x: f32[n]) -> (y: f32[n])\n"
        "void sq(const float *x, float *y, long n) { for (long i = 0; i < n; i++) y[i] = x[i]; }",
        meaning=lambda x: x,
    )
    cx = ll.Graph()
    sq(cx.tensor((4,))).retrieve()
    error = error_of(lambda: cx.compile(CPUCompiler(schedules={"sq": "parallel i"})), LabError)
    assert error.message == ("kernel sq: it is C that no schedule made, and cannot be scheduled")
    assert error.hint == "kernels with steps are those whose k.schedule is not None"


def test_a_launch_says_what_the_kernel_calls_each_value():
    cx, _ = specialised_example()
    twice = ll.kernel(
        "// kernel twice(given: f32[n, m]) -> (made: f32[n, m])\n"
        "void twice(const float *given, float *made, long n, long m) {\n"
        "    for (long i = 0; i < n * m; i++) made[i] = 2 * given[i];\n}",
        meaning=lambda x: 2 * x,
    )
    (twice(cx["hidden"])).named("z").retrieve()
    cx.compile(ll.GenericCompiler(), CPUCompiler())
    assert sorted(str(launch) for launch in cx.launches) == [
        "%hidden: f32[batch, 3] = matmul_gelu(a=%x, b=%w).O",
        "%y: f32[batch, 4] = matmul(a=%hidden, b=%w).O",
        "%z: f32[batch, 3] = twice(given=%hidden).made",
    ]
    assert cx.launches[0].name == "hidden"


def test_the_memory_plan_is_beside_the_kernels():
    cx, _ = specialised_example()
    assert cx.memory_plan is None
    cx.compile(ll.GenericCompiler(), CPUCompiler())
    assert cx.memory_plan is program_of(cx).memory_plan
    assert "%hidden" in str(cx.memory_plan)


def test_specialise_names_a_dim_of_the_graph():
    cx = ll.Graph()
    x = cx.tensor((cx.dim("seq", 1, 8),), name="x")
    (x * 2).retrieve()
    error = error_of(lambda: cx.compile(CPUCompiler(), specialise={"sec": 4}), DimError)
    assert error.message == "compile: specialise names 'sec', and this graph has no such dim"
    assert error.hint == "did you mean 'seq'?"
    error = error_of(lambda: cx.compile(CPUCompiler(), specialise={"seq": 9}), DimError)
    assert "9 is out of its bounds" in error.message


def test_without_a_compiler_the_interpreter_runs(monkeypatch):
    monkeypatch.setattr("luminal_lab.devices.build.toolchain._command", lambda _: None)
    cx = ll.Graph()
    y = (cx.tensor((2,)).set([1, 2]) * 2).retrieve()
    with pytest.warns(LabWarning, match="no C compiler was found"):
        cx.compile(CPUCompiler())
    cx.execute()
    assert y.tolist() == [2, 4]
    assert cx.compilation.runner is None


# -- a single row ----------------------------------------------------------------------------------


def test_a_product_has_a_kernel_for_a_single_row_unasked():
    cx = ll.Graph()
    x = cx.tensor(("seq", 64), name="x")
    y = ll.nn.Linear(64, 32)(x).retrieve()
    (x * 2).retrieve()
    cx.compile(ll.GenericCompiler(), CPUCompiler())
    names = [kernel.name for kernel in cx.kernels]
    assert [name for name in names if name.endswith("_seq1")] == ["matmul_add_seq1"]
    program, values = program_of(cx), []
    rows = np.random.default_rng(0).standard_normal((5, 64)).astype(np.float32)
    for count in (5, 1):
        x.set(rows[:count])
        cx.execute()
        values.append(y.numpy())
        assert (program.ran_sizes == 0) == (count == 1)
    np.testing.assert_allclose(values[1], values[0][:1], rtol=1e-5, atol=1e-5)


def test_products_of_few_rows_have_kernels_that_read_weights_once_where_these_differ():
    cx = ll.Graph()
    x = cx.tensor(("batch", "seq", 64), name="x")
    y = (ll.nn.Linear(64, 128)(x) + 1).layer_norm(-1).retrieve()
    cx.compile(ll.GenericCompiler(), CPUCompiler())
    names = [kernel.name for kernel in cx.kernels]
    assert [name for name in names if "_to_16" in name] == [
        "matmul_add_batch_to_16_seq1",
        "matmul_add_batch1_seq_to_16",
    ]
    program, numbers = program_of(cx), []
    rows = np.random.default_rng(0).standard_normal((17, 17, 64)).astype(np.float32)
    right = None
    for batch, seq in ((17, 17), (1, 1), (16, 1), (1, 2), (1, 16), (1, 17), (2, 2)):
        x.set(rows[:batch, :seq])
        cx.execute()
        right = y.numpy() if right is None else right
        np.testing.assert_allclose(y.numpy(), right[:batch, :seq], rtol=1e-5, atol=1e-5)
        numbers.append(program.ran_sizes)
    assert numbers == [None, 0, 1, 2, 2, None, None]


def test_few_rows_have_no_kernel_where_there_are_never_more():
    cx = ll.Graph()
    ll.nn.Linear(64, 32)(cx.tensor((cx.dim("seq", 1, 16), 64))).retrieve()
    cx.compile(ll.GenericCompiler(), CPUCompiler())
    assert [kernel.name for kernel in cx.kernels] == ["matmul_add", "matmul_add_seq1"]


def test_rows_that_a_window_is_too_long_for_have_no_kernel():
    cx = ll.Graph()
    x = cx.tensor(("n", "n", "n", "n"), name="x")
    x.conv2d(cx.tensor((1, "n", 1, 3), name="w")).retrieve()
    cx.compile(ll.GenericCompiler(), CPUCompiler())
    assert [kernel.name for kernel in cx.kernels if kernel.name.endswith("n1")] == []


def test_a_dim_that_cannot_be_one_has_no_kernel_for_a_single_row():
    cx = ll.Graph()
    seq = cx.dim("seq", 2)
    ll.nn.Linear(64, 32)(cx.tensor((seq, 64))).retrieve()
    cx.compile(ll.GenericCompiler(), CPUCompiler())
    assert len(cx.kernels) == 1


def test_a_short_phase_is_run_by_one_thread_though_the_launch_is_long():
    cx = ll.Graph()
    x, w = cx.tensor((1, 128, 4), name="x"), cx.tensor((64, 128, 3), name="w")
    x.conv1d(w, stride=2, padding=1).retrieve()
    y = cx.tensor((1024, 1024), name="y")
    (y + 1).retrieve()
    cx.compile(ll.GenericCompiler(), CPUCompiler(threads=2))
    program = program_of(cx)
    plan = program.plan(program.ir.output_ids)
    tasks = plan.bound({}).tasks.reshape(-1, program.list.most_phases).tolist()
    kernels = [kernel.name for work in plan.works if (kernel := plan.kernel_of(work)) is not None]
    by_kernel = dict(zip(kernels, tasks, strict=True))
    border, products = by_kernel["convolution"]
    assert border < -1, "the border is copied in many tasks, by the caller alone"
    assert products > 1
    assert by_kernel["add"][0] > 1

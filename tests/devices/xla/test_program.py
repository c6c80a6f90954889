"""Programs of XLA's: sizes, random numbers, probes, what is carried, indices, text, export."""

from typing import Any, cast

import numpy as np
import pytest

import luminal_lab as ll
from luminal_lab import nn
from luminal_lab.devices.xla.program import XLAProgram
from luminal_lab.errors import (
    ArgumentError,
    DeviceError,
    DimError,
    LabError,
    RangeError,
    RecordingError,
)
from luminal_lab.nn.cache import KVCache
from tests.expect import error_of
from tests.needs import need

jax = need("jax")
XLA = ll.GenericCompiler(), ll.XLACompiler()


def compiled(cx: ll.Graph) -> XLAProgram:
    """Compile a graph for XLA, and return its program."""
    return cast("XLAProgram", cx.compile(*XLA).program)


def test_each_size_has_a_program_that_is_kept():
    cx = ll.Graph()
    x = cx.tensor(("n", 4), name="x")
    y = x.softmax(-1).named("y").retrieve()
    program = compiled(cx)
    for size in (2, 5, 2):
        data = np.arange(4 * size, dtype=np.float32).reshape(size, 4)
        x.set(data)
        cx.execute()
        np.testing.assert_allclose(y.numpy().sum(-1), 1, rtol=1e-6)
        assert f"tensor<{size}x4xf32>" in cx.compilation.stablehlo
    assert len(program._compiled) == 2


def test_without_sizes_there_is_no_text():
    cx = ll.Graph()
    cx.tensor(("n", 4), name="x").softmax(-1).retrieve()
    program = compiled(cx)
    error = error_of(lambda: program.stablehlo, DimError)
    assert error.message == "the dim 'n' has no size yet"
    assert error.hint == 'a run has one, and specialise={"n": …} gives one'
    assert "tensor<3x4xf32>" in cx.compile(*XLA, specialise={"n": 3}).stablehlo


def test_of_another_device_there_is_no_text():
    cx = ll.Graph("t")
    (cx.tensor((2,), name="x") * 2).retrieve()
    error = error_of(lambda: cx.compile("simplify").stablehlo, DeviceError)
    assert error.message == "stablehlo: t was not compiled for XLA"


def test_random_numbers_are_those_of_the_interpreter_in_each_run():
    def drawn(*passes):
        cx = ll.Graph()
        y = cx.rand((3, 5)).named("y").retrieve()
        cx.compile(*passes)
        runs = []
        for _ in range(2):
            cx.execute()
            runs.append(y.numpy().copy())
        return np.stack(runs)

    found = drawn(*XLA)
    np.testing.assert_array_equal(found, drawn("dce"))
    assert not np.array_equal(*found)


def test_64_bits_are_computed_and_the_users_settings_stay():
    before = jax.config.jax_enable_x64
    cx = ll.Graph()
    x = cx.tensor((2,), "int64", "x").set([2**40, -(2**50)])
    y = (x * 3 + 1).named("y").retrieve()
    cx.compile(*XLA)
    cx.execute()
    assert y.numpy().tolist() == [3 * 2**40 + 1, -3 * 2**50 + 1]
    assert jax.config.jax_enable_x64 == before
    assert jax.numpy.arange(3).dtype == (np.int64 if before else np.int32)


def test_probes_see_values_that_nobody_may_write_to():
    cx = ll.Graph()
    x = cx.tensor((3,), name="x").set([1.0, 2.0, 3.0])
    seen = []
    cx.probe(h := x * 2, seen.append)
    (h + 1).named("y").retrieve()
    cx.compile(*XLA)
    cx.execute()
    assert seen[0].tolist() == [2, 4, 6]
    assert not seen[0].flags.writeable


def test_an_index_out_of_range_names_its_line():
    cx = ll.Graph()
    table = cx.tensor((4, 2), name="table").set(np.ones((4, 2)))
    rows = cx.tensor((3,), "int64", "rows").set([0, 7, 1])
    y = table.take(rows, 0).named("y").retrieve()
    wanted = error_of(cx.execute, RangeError)
    cx.compile(*XLA)
    error = error_of(cx.execute, RangeError)
    assert error.message == wanted.message
    assert "table.take(rows, 0)" in str(error.where)
    rows.set([0, 3, 1])
    cx.execute()
    assert y.numpy().tolist() == [[1, 1]] * 3


def test_parameters_stay_on_the_device_until_they_change():
    layer = nn.Linear(4, 2, bias=False).initialise(0)
    cx = ll.Graph()
    y = layer(cx.tensor((1, 4), name="x").set(np.ones((1, 4)))).named("y").retrieve()
    program = compiled(cx)
    cx.execute()
    before = dict(program._resident)
    assert len(before) == 2
    cx["x"].set(np.ones((1, 4)))
    cx.execute()
    stay = {id for id, kept in before.items() if program._resident[id][1] is kept[1]}
    assert [program.ir[id].name for id in stay] == ["weight"]
    layer.weight.set(np.zeros((2, 4)))
    cx.execute()
    assert y.numpy().tolist() == [[0, 0]]


@pytest.mark.parametrize("passes", [(), (ll.HalfPrecision("bfloat16"),), (ll.Quantised(),)])
def test_decoding_carries_the_cache(passes):
    small: dict[str, Any] = {"layers": 1, "heads": 2, "width": 64, "vocab": 50}
    model = nn.models.Llama(**small, kv_heads=1, hidden=96, tied=True).initialise(0).eval()
    if passes and isinstance(passes[0], ll.Quantised):
        ll.quantise(model)

    def walked(*passes):
        cx = ll.Graph()
        token, cache = cx.tensor((1, 1), "int64", "token"), KVCache(cx, 8)
        logits = model(token, cache=cache).retrieve()
        cx.compile(*passes)
        cache.begin()
        rows = []
        for number in (3, 1, 4):
            cache.advance()
            token.set([[number]])
            cx.execute()
            rows.append(logits.numpy()[0, 0].copy())
        return np.stack(rows)

    wanted = walked(ll.GenericCompiler(), *passes)
    coarse = 1e-2 if passes and isinstance(passes[0], ll.HalfPrecision) else 1e-5
    found = walked(ll.GenericCompiler(), *passes, ll.XLACompiler())
    assert np.abs(found - wanted).max() < coarse * np.abs(wanted).max()


def counting(count: int) -> tuple[ll.Graph, ll.Tensor, ll.Tensor]:
    """A graph that adds 1 in each run to what it carries, which is read by an index."""
    cx = ll.Graph()
    total, at = cx.tensor((count,), name="total"), cx.tensor((1,), "int64", "at").set([0])
    new = cx.carry(total + 1, total)
    total.take(at, 0).named("y").retrieve()
    return cx, total, new


def test_what_is_carried_is_written_in_place():
    cx, total, new = counting(10_000)
    room = np.empty(10_000 * 4 + 64, np.uint8)
    begin = -room.ctypes.data % 64  # which JAX would use as it is
    mine = room[begin : begin + 40_000].view(np.float32)
    mine[:] = 1
    total.borrow(mine)
    program = compiled(cx)
    places = []
    for number in range(2, 6):
        cx.execute()
        assert (new.numpy() == number).all()
        assert (mine == 1).all()
        (_, there) = program._carried[program.ir["total"].id]
        places.append(there.unsafe_buffer_pointer())
    assert len({*places[1:]}) == 1
    held = new.numpy()
    cx.execute()
    assert (held == 5).all()
    total.set(np.zeros(10_000))
    cx.execute()
    assert (new.numpy() == 1).all()


def test_a_run_that_fails_leaves_what_is_carried():
    cx, total, new = counting(4)
    total.set([1, 2, 3, 4])
    compiled(cx)
    cx.execute()
    cx["at"].set([7])
    assert error_of(cx.execute, RangeError).message.startswith("gather: the index at")
    cx["at"].set([3])
    cx.execute()
    assert new.numpy().tolist() == [3, 4, 5, 6]


def test_axes_without_elements():
    def found(*passes):
        cx = ll.Graph()
        x, empty = cx.tensor((0, 3), name="x"), cx.tensor((2, 0), name="empty")
        values = [x.sum(0), empty.sum(1), empty @ x, x.softmax(-1), x.exp(), cx.rand((0, 2))]
        rows = cx.tensor((0,), "int64", "rows").set(np.zeros(0))
        table = cx.tensor((2, 3), name="table").set(np.ones((2, 3)))
        values += [table.take(rows, 0), table.index_add(0, rows, x)]
        values += [table.index_copy(0, rows, x), x.T.reshape(0), x.pad(((1, 1), (0, 0)))]
        for tensor, shape in ((x, (0, 3)), (empty, (2, 0))):
            tensor.set(np.zeros(shape))
        cx.retrieve(values)
        cx.compile(*passes)
        cx.execute()
        return [value.numpy() for value in values]

    for wanted, other in zip(found("dce"), found(*XLA), strict=True):
        np.testing.assert_array_equal(wanted, other)
        assert wanted.dtype == other.dtype


def test_what_jax_refuses_is_an_error_of_ours(monkeypatch):
    cx = ll.Graph()
    x = cx.tensor((2,), name="x").set([1, 2])
    (x * 2).named("y").retrieve()
    compiled(cx)

    def refuse(*_, **__):
        raise TypeError("float8 is not for this platform\nTraceback …")

    monkeypatch.setattr(jax, "jit", refuse)
    error = error_of(cx.execute, DeviceError)
    assert error.message == "xla: cpu: float8 is not for this platform"
    assert "compile it without XLACompiler()" in str(error.hint)


def test_more_memory_than_there_is_is_told_and_the_process_goes_on():
    cx = ll.Graph()
    y = cx.rand((1 << 20, 1 << 20)).named("y").retrieve()
    compiled(cx)
    error = error_of(cx.execute, DeviceError)
    assert error.message == (
        "execute: out of memory: RESOURCE_EXHAUSTED: Out of memory allocating 4398046511104 bytes."
    )
    assert error.hint == "use smaller sizes, or keep and retrieve fewer values"
    cx.drop(y)
    z = cx.rand((2, 2)).retrieve()
    compiled(cx)
    cx.execute()
    assert z.numpy().shape == (2, 2)


def test_a_kernel_of_the_users_is_computed_by_its_meaning():
    cx = ll.Graph()
    x = cx.tensor((4,), name="x").set([1, 2, 3, 4])
    source = """// kernel twice(x: f32[n]) -> (y: f32[n])
    void twice(const float *x, float *y, long n) {
        for (long i = 0; i < n; i++) y[i] = 2 * x[i];
    }"""
    by_graph = ll.kernel(source, meaning=lambda x: x * 2)(x + 1)
    by_host = ll.kernel(source, numpy=lambda x: x * 2)(by_graph)
    (by_host + 1).named("y").retrieve()
    program = compiled(cx)
    cx.execute()
    assert cx["y"].tolist() == [9, 13, 17, 21]
    assert len(program.calls) == 2
    assert "user_kernel" in error_of(lambda: program.export("f"), DeviceError).message


def test_a_training_step():
    def losses(*passes):
        cx = ll.Graph()
        model = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 3)).initialise(0)
        rng = np.random.default_rng(0)
        x = cx.tensor((32, 8), name="x").set(rng.standard_normal((32, 8)))
        labels = cx.tensor((32,), "int64", "labels").set(rng.integers(0, 3, 32))
        loss = nn.cross_entropy(model(x), labels).retrieve()
        nn.Adam(lr=1e-2).minimise(loss)
        cx.compile(ll.GenericCompiler(), *passes)
        found = []
        for _ in range(4):
            cx.execute()
            found.append(float(loss.numpy()))
        return found

    np.testing.assert_allclose(losses(ll.XLACompiler()), losses(), rtol=1e-5)


def test_values_are_checked_as_on_other_devices():
    cx = ll.Graph()
    x = cx.tensor((4, 8), name="x")
    (x.sqrt().recip() @ x.T).named("y").retrieve()
    cx.compile(*XLA, check="values")


# -- files -----------------------------------------------------------------------------------------


def test_a_file_runs_in_jax_alone(tmp_path):
    cx = ll.Graph("model")
    layer = nn.Linear(4, 2).initialise(0)
    x = cx.tensor(("rows", 4), name="x").set(np.ones((3, 4)))
    y = layer(x).softmax(-1).named("y").retrieve()
    program = compiled(cx)
    cx.execute()
    path = program.export(tmp_path / "model.jax")
    loaded = need("jax.export").deserialize(bytearray(path.read_bytes()))
    assert loaded.platforms == ("cpu", "cuda", "rocm", "tpu")
    inputs = {"x": np.ones((3, 4), np.float32), **layer.state_dict()}
    np.testing.assert_allclose(np.asarray(loaded.call(inputs)["y"]), y.numpy(), rtol=1e-6)


def test_a_platform_that_jax_does_not_export_for(tmp_path):
    cx = ll.Graph()
    (cx.tensor((2,), name="x") * 2).retrieve()
    program = compiled(cx)
    error = error_of(lambda: program.export(tmp_path / "f", ["cpu", "gpu"]), ArgumentError)
    assert error.message == "export: JAX exports for no platform 'gpu'"
    assert error.hint == "it has cpu, cuda, rocm, tpu"  # and not the nearest one, which is no GPU
    assert not (tmp_path / "f").exists()


@pytest.mark.parametrize("platforms", [[], 3, None])
def test_platforms_that_are_none(platforms, tmp_path):
    cx = ll.Graph()
    (cx.tensor((2,), name="x") * 2).retrieve()
    program = compiled(cx)
    error = error_of(lambda: program.export(tmp_path / "f", platforms), ArgumentError)
    assert error.message == f"export: JAX exports for no platform {platforms}"
    assert error.hint == "it has cpu, cuda, rocm, tpu"
    assert not (tmp_path / "f").exists()


@pytest.mark.parametrize(
    ("dims", "told"),
    [
        ({"n": 2.5}, "export: dims gives the dim 'n' the size 2.5"),
        ({"n": -1}, "dim 'n': -1 is out of its bounds, which are at least 1"),
        ({"m": 2}, "export: dims names 'm', and this graph has no such dim"),
        (3, "export: dims is 3, which names no dim"),
    ],
)
def test_sizes_that_no_file_has(dims, told, tmp_path):
    cx = ll.Graph()
    cx.tensor(("n", 4), name="x").sum().retrieve()
    program = compiled(cx)
    assert error_of(lambda: program.export(tmp_path / "f", dims=dims), LabError).message == told


def test_a_file_that_cannot_be_written_is_told(tmp_path):
    cx = ll.Graph()
    (cx.tensor((2,), name="x") * 2).retrieve()
    program = compiled(cx)
    error = error_of(lambda: program.export(tmp_path / "there" / "f"), RecordingError)
    assert error.message.endswith("cannot be written: there is no folder 'there'")
    assert "is not the name of a file" in error_of(lambda: program.export(3), ArgumentError).message  # pyright: ignore[reportArgumentType]


def test_a_file_without_sizes_says_which_it_needs(tmp_path):
    cx = ll.Graph()
    cx.tensor(("n", 4), name="x").sum().retrieve()
    program = compiled(cx)
    error = error_of(lambda: program.export(tmp_path / "f"), DimError)
    assert error.message == "the dim 'n' has no size yet"
    assert error.hint == 'a run has one, and dims={"n": …} gives one'
    assert program.export(tmp_path / "f", "tpu", dims={"n": 2}).is_file()


def test_a_call_to_the_host_is_not_exported(tmp_path):
    cx = ll.Graph()
    x = cx.tensor((2,), name="x").set([1, 2])
    cx.function(np.sort, x * 2, shape=(2,)).named("y").retrieve()
    program = compiled(cx)
    error = error_of(lambda: program.export(tmp_path / "f"), DeviceError)
    assert error.message == "export: XLA has no form of host_call, which NumPy computes here"
    assert "%y = host_call" in str(error.where)


# -- as kernels ------------------------------------------------------------------------------------


def test_its_programs_are_kernels_whose_source_is_stablehlo():
    cx = ll.Graph()
    x = cx.tensor(("n", 4), name="x")
    half = x.sin().graph_break()
    (half.sum(-1) + 1).named("y").retrieve()
    cx.compile(*XLA)
    first, second = cx.launches
    assert "= xla_2(" in str(second)
    assert first.kernel.source == (
        "// the dim 'n' has no size yet: a run has one, and specialise={\"n\": …} gives one"
    )
    assert first.flops({"n": 3}) == 12
    assert first.bytes({"n": 3}) == 96
    x.set(np.ones((3, 4)))
    cx.execute()
    assert "stablehlo.sine" in cx.kernels["xla"].source
    assert [kernel.dialect for kernel in cx.kernels] == ["stablehlo"] * 2


def test_the_workbench_shows_them():
    cx = ll.Graph()
    (cx.tensor((4,), name="x").set([1, 2, 3, 4]) * 2).named("y").retrieve()
    cx.compile(*XLA)
    facts = cx.workbench(cx.time(rounds=1)).subjects[0].facts
    (kernel,) = facts.kernels
    assert [(source.dialect, source.title) for source in kernel.sources] == [
        ("stablehlo", "StableHLO")
    ]
    assert "stablehlo.multiply" in kernel.sources[0].text
    assert [row.launch for row in facts.times[0].rows] == [0]

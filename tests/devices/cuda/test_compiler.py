"""The CUDA compiler: its text and options, what there is without a GPU, and the emulator's runs."""

import signal
from typing import Any

import numpy as np
import pytest

import luminal_lab as ll
from luminal_lab import nn
from luminal_lab.core.interpret import Environment
from luminal_lab.devices.cuda import driver as cuda_driver
from luminal_lab.devices.gpu.engine import EmulatorEngine
from luminal_lab.errors import (
    ArgumentError,
    DeviceError,
    Interrupted,
    RangeError,
    ScheduleError,
)
from tests.expect import error_of
from tests.needs import need

DEVICES = [ll.CUDACompiler(emulate=True), ll.MetalCompiler(emulate=True)]


def written() -> tuple[ll.Graph, Any, Any]:
    cx = ll.Graph()
    x = cx.tensor(("n", 8), name="x").set(np.arange(48).reshape(6, 8) / 10)
    y = (x * 2 + 1).softmax(-1).named("y").retrieve()
    return cx, x, y


# -- Hopper ----------------------------------------------------------------------------------------


def test_four_warps_multiply_in_a_program():
    cx = ll.Graph()
    random = np.random.default_rng(0)
    a, w, b, v = (
        (random.standard_normal(shape) / 8).astype(np.float16)
        for shape in ((1152, 128), (256, 128), (128,), (256, 128))
    )
    x, weight, bias, last = (cx.tensor(one.shape, "float16").set(one) for one in (a, w, b, v))
    y = (x @ weight.T @ last + bias).relu().retrieve()
    cx.compile(ll.GenericCompiler(), ll.CUDACompiler(arch="sm_90a", emulate=True))
    first, second = cx.kernels
    assert "lab_wgmma_f16_n64" in first.uses
    assert "lab_wgmma_f16_n64_rows" in second.uses
    cx.execute()
    hidden = (a.astype(np.float32) @ w.T.astype(np.float32)).astype(np.float16)
    want = np.maximum(hidden.astype(np.float32) @ v.astype(np.float32) + b, 0)
    np.testing.assert_allclose(y.numpy().astype(np.float32), want, rtol=2e-2, atol=2e-2)


# -- the compiler ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({}, "cuda"),
        ({"arch": "sm_90a", "tf32": True}, "cuda{arch = sm_90a, tf32 = true}"),
        ({"emulate": True}, "cuda{emulate = true}"),
        ({"cublas": False, "reuse_outputs": True}, "cuda{cublas = false, reuse_outputs = true}"),
    ],
)
def test_its_text_reads_back(options, text):
    made = ll.CUDACompiler(**options)
    assert str(made) == text
    assert ll.parse_pipeline(text).passes == (made,)


def test_what_it_compiles_for_needs_no_name():
    assert ll.CUDACompiler("sm_90") == ll.CUDACompiler(arch="sm_90")
    assert ll.MetalCompiler("m3-max") == ll.MetalCompiler(chip="m3-max")


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (
            {"arch": "hopper"},
            "cuda: the architecture is 'hopper'\n"
            'hint: give one such as "sm_90", or leave it out for the GPU of this machine',
        ),
        ({"tf32": "yes"}, "cuda: tf32 is 'yes'\nhint: give True or False"),
        ({"emulate": 1}, "cuda: emulate is 1\nhint: give True or False"),
        (
            {"schedules": "bind i to block"},
            "cuda: schedules is 'bind i to block', which says no schedule\n"
            'hint: give a dict, as in {"softmax": "bind i to block"}',
        ),
        (
            {"schedules": {3: "bind i to block"}},
            "cuda: schedules has one for 3, which is not a kernel's name\n"
            "hint: cx.kernels has the names of kernels",
        ),
    ],
)
def test_options_that_cannot_be(options, text):
    assert str(error_of(lambda: ll.CUDACompiler(**options), ArgumentError)) == text


def test_a_schedule_for_no_kernel():
    cx, *_ = written()
    device = ll.CUDACompiler(arch="sm_80", schedules={"nothing": "bind i to block"})
    error = error_of(lambda: cx.compile(device), ScheduleError)
    assert error.message == "cuda: there is a schedule for 'nothing', but no such kernel"


@pytest.mark.parametrize(
    ("device", "room"),
    [
        (ll.CUDACompiler(arch="sm_80"), "on sm_80 it may declare 49,152"),
        (ll.MetalCompiler(), "on Apple's GPUs it may have 32,768"),
        (ll.WebGPUCompiler(), "in WebGPU it may have 16,384"),
    ],
    ids=str,
)
def test_a_schedule_that_shares_more_than_a_block_may_have(device, room):
    cx = ll.Graph()
    (cx.tensor((128, 128), name="x") @ cx.tensor((128, 128), name="w")).retrieve()
    cx.compile(ll.GenericCompiler(), device)
    steps = "bind i to block\npack b before j over k, j as all\nplace all in shared"
    error = error_of(lambda: cx.kernels["matmul"].rescheduled(steps), ScheduleError)
    assert str(error) == (
        f"kernel matmul: a block has 65,536 bytes of shared memory, and {room}\n"
        "hint: all has 65,536 of them: make its tiles smaller, or place it in memory"
    )


@pytest.mark.parametrize(
    ("device", "where"),
    [
        (ll.CUDACompiler(arch="sm_80"), "on sm_80 it may have 1,024"),
        (ll.MetalCompiler(), "on Apple's GPUs it may have 1,024"),
        (ll.WebGPUCompiler(), "in WebGPU it may have 256"),
    ],
    ids=str,
)
def test_a_schedule_of_more_threads_than_a_block_may_have(device, where):
    cx = ll.Graph()
    (cx.tensor((64, 64), name="x") + 1).retrieve()
    cx.compile(ll.GenericCompiler(), device)
    steps = "bind i to thread\nbind j to thread"
    error = error_of(lambda: cx.kernels["add"].rescheduled(steps), ScheduleError)
    assert str(error) == (
        f"kernel add: a block has 4,096 threads, and {where}\n"
        "hint: split a loop, and bind the inner one to threads"
    )


def test_two_devices_are_refused():
    cx, *_ = written()
    error = error_of(lambda: cx.compile(ll.CUDACompiler(arch="sm_80"), ll.CPUCompiler()))
    assert error.message == (
        "compile: cuda{arch = sm_80} and cpu are 2 devices, and only one can run the graph"
    )


# -- without a GPU ---------------------------------------------------------------------------------


def test_what_there_is_without_a_gpu():
    cx, *_ = written()
    cx.compile(ll.GenericCompiler(), ll.CUDACompiler(arch="sm_80"))
    (launch,) = cx.launches
    kernel = launch.kernel
    assert str(launch) == f"%y: f32[n, 8] = {kernel.name}(a=%x).O"
    assert kernel.dialect == "cuda"
    assert kernel.definition is not None
    assert kernel.nest is not None
    assert kernel.schedule is not None
    assert all(phase.threads % 32 == 0 for phase in kernel.phases)
    assert kernel.bytes({"n": 6}) == 2 * 6 * 8 * 4
    assert kernel.flops({"n": 6}) > 0
    assert 'extern "C" __global__' in kernel.source
    assert kernel.name in cx.compilation.runner.source  # pyright: ignore[reportOptionalMemberAccess, reportAttributeAccessIssue]
    assert launch.origins
    assert cx.memory_plan is not None


def test_ptx_and_resources_need_no_gpu():
    need("cuda.bindings.nvrtc")
    cx, *_ = written()
    cx.compile(ll.CUDACompiler(arch="sm_80"))
    kernel = cx.kernels[0]
    assert ".target sm_80" in kernel.ptx
    assert kernel.resources.registers > 0
    assert kernel.resources.spills == 0


def test_no_gpu_is_said_by_execute_and_nothing_is_lost(monkeypatch):
    def no_count(calls: object) -> int:
        del calls
        return 0

    monkeypatch.setattr(cuda_driver, "gpu_count", no_count)
    cx, x, y = written()
    cx.compile(ll.CUDACompiler(arch="sm_80"))
    error = error_of(cx.execute, DeviceError)
    assert str(error).startswith("cuda: there is no NVIDIA GPU on this machine\n")
    assert error.hint == (
        "the source, PTX and resources of kernels are available without it; emulate=True runs "
        "small "
        "sizes on the CPU"
    )
    cx.compile(ll.CUDACompiler(arch="sm_80", emulate=True))
    cx.execute()
    np.testing.assert_allclose(y.numpy().sum(-1), np.ones(6), rtol=1e-6)
    assert x.numpy()[0, 1] == np.float32(0.1)


# -- in the emulator -------------------------------------------------------------------------------


@pytest.mark.parametrize("device", DEVICES, ids=str)
def test_sizes_that_change_and_state_that_is_carried(device):
    cx = ll.Graph()
    cache = cx.tensor((8, 4)).set(np.zeros((8, 4)))
    row = cx.tensor((1, 4))
    at = cx.dim("at", 0, 7)
    new = cache.update(row, at).retrieve()
    total = (new * 2).sum().retrieve()
    cx.carry(new, cache)
    cx.compile(ll.GenericCompiler(), device)
    for turn in range(4):
        cx.set_dim("at", turn)
        row.set(np.full((1, 4), turn + 1.0))
        cx.execute()
    np.testing.assert_array_equal(new.numpy()[:, 0], [1, 2, 3, 4, 0, 0, 0, 0])
    assert total.numpy() == 80


@pytest.mark.parametrize("device", DEVICES, ids=str)
def test_outputs_stay_as_they_are_when_the_next_run_comes(device):
    cx, x, y = written()
    cx.compile(device)
    cx.execute()
    first = cx.owned(y)
    kept = first.copy()
    x.set(np.ones((3, 8)))
    cx.execute()
    np.testing.assert_array_equal(first, kept)
    assert y.numpy().shape == (3, 8)


def test_outputs_may_be_written_over_where_that_is_wanted():
    cx, x, y = written()
    cx.compile(ll.CUDACompiler(emulate=True, reuse_outputs=True))
    cx.execute()
    first = cx.owned(y).ctypes.data
    x.set(np.ones((6, 8)))
    cx.execute()
    assert cx.owned(y).ctypes.data == first


@pytest.mark.parametrize("device", DEVICES, ids=str)
def test_an_index_out_of_range(device):
    cx = ll.Graph()
    table = cx.tensor((5, 2)).set(np.arange(10).reshape(5, 2))
    index = cx.tensor((3,), "int64", name="index").set([0, 4, 2])
    rows = table.gather(0, index.reshape(3, 1).expand(3, 2)).retrieve()
    cx.compile(device)
    cx.execute()
    index.set([0, 5, 2])
    error = error_of(cx.execute, RangeError)
    assert "the index 5" in str(error) or "5" in error.message
    index.set([0, 1, 2])
    cx.execute()
    np.testing.assert_array_equal(rows.numpy()[:, 0], [0, 2, 4])


@pytest.mark.parametrize("is_carried", [False, True])
def test_ctrl_c_stops_a_run_but_not_half_way_through_state(monkeypatch, is_carried):
    launch = EmulatorEngine.launch

    def interrupted(engine: Any, launches: Any, *args: Any, **named: Any) -> None:
        launch(engine, launches, *args, **named)
        if launches[-1].kernel.name == "update":
            signal.raise_signal(signal.SIGINT)

    cx = ll.Graph()
    state = cx.tensor((4,)).set(np.zeros(4))
    new = state.update(state[:1] + 1, 0).retrieve()
    if is_carried:
        cx.carry(new, state)
    cx.compile(ll.CUDACompiler(emulate=True))
    with monkeypatch.context() as patch:
        patch.setattr(EmulatorEngine, "launch", interrupted)
        error_of(cx.execute, Interrupted)
    cx.execute()
    assert new.numpy()[0] == (2 if is_carried else 1)


def test_kernels_for_sizes_and_values_that_are_checked():
    cx, x, y = written()
    passes = (ll.GenericCompiler(), ll.CUDACompiler(emulate=True))
    cx.compile(*passes, check="values", specialise={"n": 6})
    cx.execute()
    assert cx.launches[0].kernel.name.endswith("_n6")
    x.set(np.ones((2, 8)))
    cx.execute()
    assert not cx.launches[0].kernel.name.endswith("_n6")
    np.testing.assert_allclose(y.numpy(), np.full((2, 8), 1 / 8), rtol=1e-6)


def test_the_emulators_times_say_whose_they_are():
    cx, x, _ = written()
    cx.compile(ll.CUDACompiler(emulate=True))
    program: Any = cx.compilation.runner
    data = x.numpy()
    ((launch, times),) = program.time_launches(Environment(lambda _: data, {"n": 6}), 2)
    assert launch.name == "y"
    assert len(times) == 2
    assert program.clock == "perf_counter, of the emulator: no GPU's time"
    assert cx.time(rounds=1, warm_up=0).clock == program.clock


@pytest.mark.parametrize("device", DEVICES, ids=str)
def test_a_small_model(device):
    model = nn.models.GPT2(layers=1, heads=2, width=8, vocab=11, context=16).initialise(0)
    cx = ll.Graph()
    tokens = cx.tensor(("batch", "seq"), "int64").set(np.arange(12).reshape(2, 6) % 11)
    logits = model(tokens).retrieve()
    cx.execute()
    wanted = logits.numpy()
    cx.compile(ll.GenericCompiler(), device)
    tokens.set(np.arange(12).reshape(2, 6) % 11)
    cx.execute()
    np.testing.assert_allclose(logits.numpy(), wanted, rtol=2e-4, atol=2e-6)


@pytest.mark.parametrize("device", DEVICES, ids=str)
@pytest.mark.parametrize("precision", [ll.HalfPrecision(), ll.Quantised()], ids=str)
def test_precision_in_either_order(device, precision):
    layer = nn.Linear(32, 32)
    ll.quantise(layer)
    found: list[np.ndarray] = []
    for passes in ((precision, device), (device, precision)):
        cx = ll.Graph()
        x = cx.tensor((2, 32)).set(np.linspace(-1, 1, 64).reshape(2, 32))
        y = layer(x).relu().retrieve()
        cx.compile(ll.GenericCompiler(), *passes)
        cx.execute()
        found.append(y.numpy())
    np.testing.assert_array_equal(found[0], found[1])


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("norm", ["rms_norm", "layer_norm"])
def test_a_norm_is_stored_for_the_tensor_units_that_multiply_it(arch: str, norm: str):
    cx = ll.Graph()
    x, scale = cx.tensor((512, 256), "float16"), cx.tensor((256,), "float16")
    gate, up = (cx.tensor((256, 512), "float16") for _ in range(2))
    normed = getattr(x, norm)(-1) * scale
    ((normed @ gate).silu() * (normed @ up)).retrieve()
    cx.compile(ll.GenericCompiler(), ll.CUDACompiler(arch=arch))
    units = [any("mma_f16" in one for one in kernel.uses) for kernel in cx.kernels]
    assert units == [False, True, True], "the norm, and both products"

"""The Metal device against a stand-in for PyObjC: memory, launches, times, what fails."""

import re
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import luminal_lab as ll
from luminal_lab.core.interpret import Environment
from luminal_lab.devices.build import located
from luminal_lab.devices.gpu import plan as gpu_plan
from luminal_lab.devices.gpu.engine import Location
from luminal_lab.devices.metal import engine as metal_engine
from luminal_lab.errors import ArgumentError, DeviceError, UnknownNameError
from tests.devices.stand_ins.metal_stand_in import Metal
from tests.devices.stand_ins.refusing import Refused
from tests.expect import error_of

STILL = "the source of kernels is available without it; emulate=True runs small sizes on the CPU"


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Metal:
    """A Mac's GPU as PyObjC shows it."""
    metal = Metal()
    place = gpu_plan.GPUBound._placed

    def placed(*args: Any) -> Any:
        found = place(*args)
        for one in found:
            for argument in one.arguments:
                if isinstance(argument, Location):
                    metal.sizes[argument.address] = argument.bytes
        return found

    monkeypatch.setattr(metal_engine, "sys", SimpleNamespace(platform="darwin"))
    imports = SimpleNamespace(import_module={"Metal": metal.module}.__getitem__)
    monkeypatch.setattr(located, "importlib", imports)
    monkeypatch.setattr(gpu_plan.GPUBound, "_placed", placed)
    return metal


def random(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def written() -> tuple[ll.Graph, Any, Any]:
    cx = ll.Graph()
    x = cx.tensor((6, 8), name="x").set(random(6, 8))
    y = (x * 2 + 1).softmax(-1).retrieve()
    cx.compile(ll.GenericCompiler(), ll.MetalCompiler())
    return cx, x, y


def check(x: Any, y: Any) -> None:
    e = np.exp(x.numpy().astype(np.float64) * 2 + 1)
    np.testing.assert_allclose(y.numpy(), e / e.sum(-1, keepdims=True), rtol=1e-5)


def test_runs_with_one_command_buffer_each(gpu):
    cx, x, y = written()
    for turn in range(3):
        before = gpu.table.count("MTLCommandQueue.commandBuffer")
        x.set(random(6, 8) + turn)
        cx.execute()
        check(x, y)
        if turn:
            assert gpu.table.count("MTLCommandQueue.commandBuffer") == before + 1


def test_values_lie_where_both_see_them(gpu):
    cx = ll.Graph()
    cache = cx.tensor((8, 4)).set(np.zeros((8, 4)))
    row = cx.tensor((1, 4)).set(np.ones((1, 4)))
    new = cache.update(row, 3).retrieve()
    cx.carry(new, cache)
    cx.compile(ll.GenericCompiler(), ll.MetalCompiler())
    addresses: set[int] = set()
    for turn in range(4):
        row.set(np.full((1, 4), turn + 2.0))
        cx.execute()
        value = cx.owned(new)
        addresses.add(value.ctypes.data)
        assert value[3, 0] == turn + 2
        del value
    assert len(addresses) == 1, "it is updated in place"
    del gpu


def test_times_are_those_of_the_command_buffers(gpu):
    cx, x, _ = written()
    program: Any = cx.compilation.runner
    data = x.numpy()
    found = program.time_launches(Environment(lambda _: data), 2)
    phases = [len(launch.kernel.phases) * 0.5 for launch, _ in found]
    assert [times for _, times in found] == [(phase, phase) for phase in phases]
    assert program.clock == "GPUStartTime and GPUEndTime"
    assert program.device == "Stand-in"
    del gpu


def test_what_the_table_lacks_is_refused(gpu):
    device = gpu.module.MTLCreateSystemDefaultDevice()
    queue = device.newCommandQueue()
    encoder = queue.commandBuffer().computeCommandEncoder()
    for call in (
        lambda: device.newBuffer(),
        lambda: device.newLibraryWithSource_options_error_("text", None),
        lambda: encoder.setBuffer_offset_atIndex_(None, np.int64(0), 0),
        lambda: encoder.setBytes_length_atIndex_([1], 1, 0),
        lambda: setattr(encoder, "label", "x"),
    ):
        error_of(call, Refused)


# -- what fails ------------------------------------------------------------------------------------


def test_metal_on_linux():
    cx, *_ = written()
    assert cx.kernels[0].dialect == "metal"
    assert "kernel void" in cx.kernels[0].source
    error = error_of(cx.execute, DeviceError)
    assert re.fullmatch(r"metal: only Macs have Metal, and this is (linux|win32)", error.message)
    assert error.hint == STILL


def test_no_pyobjc(gpu, monkeypatch):
    def missing(name: str) -> None:
        raise ModuleNotFoundError(f"No module named {name!r}")

    cx, *_ = written()
    monkeypatch.setattr(located, "importlib", SimpleNamespace(import_module=missing))
    error = error_of(cx.execute, DeviceError)
    assert error.message == (
        "metal: PyObjC's Metal, which runs kernels, is not installed (No module named 'Metal')"
    )
    assert error.hint == f'pip install "luminal-lab[metal]"; {STILL}'
    del gpu


def test_no_gpu(gpu):
    gpu.has_device = False
    error = error_of(written()[0].execute, DeviceError)
    assert error.message == "metal: this Mac has no GPU that Metal can use"


def test_what_the_compiler_says(gpu):
    gpu.refuses = "program_source:3:1: error: unknown type"
    error = error_of(written()[0].execute, DeviceError)
    assert error.message == (
        "metal: the kernels are not compiled: program_source:3:1: error: unknown type"
    )


def test_too_many_threads(gpu):
    gpu.most_threads = 16
    cx, *_ = written()
    error = error_of(cx.execute, DeviceError)
    kernel = cx.kernels[0]
    assert error.message == (
        f"kernel {kernel.name}: a block has {kernel.phases[0].threads} threads, and with its "
        "registers this GPU runs 16"
    )


def test_a_kernel_that_the_gpu_stops(gpu):
    cx, x, y = written()
    gpu.stops = "Caused GPU Hang Error"
    error = error_of(cx.execute, DeviceError)
    assert error.message == (
        f"metal: kernel {cx.kernels[0].name} was stopped by the GPU: Caused GPU Hang Error"
    )
    cx.execute()
    check(x, y)


# -- the compiler ----------------------------------------------------------------------------------


def test_float64_is_refused_where_it_is_written():
    cx = ll.Graph()
    x = cx.tensor((4,), "float64", name="x")
    (x * 2).named("y").retrieve()
    error = error_of(lambda: cx.compile(ll.MetalCompiler()), DeviceError)
    assert error.message == "metal: %y is computed in float64, and Apple's GPUs have none"
    assert error.hint == ('x.cast("float32") of its inputs, or ll.CPUCompiler(), which has it')


def test_its_text():
    assert str(ll.MetalCompiler()) == "metal"
    shown = "metal{chip = m3-max, emulate = true, reuse_outputs = true}"
    assert str(ll.MetalCompiler(chip="m3-max", emulate=True, reuse_outputs=True)) == shown
    assert str(ll.parse_pipeline(shown)) == shown
    error = error_of(lambda: ll.MetalCompiler(chip=3), ArgumentError)  # pyright: ignore[reportArgumentType]
    assert str(error) == 'metal: the chip is 3\nhint: give its name, as in "m3-max"'
    error = error_of(lambda: ll.MetalCompiler(chip="m9"), UnknownNameError)
    assert str(error) == "specification: there is none for 'm9'\nhint: did you mean 'M4'?"
    error = error_of(lambda: ll.MetalCompiler(chip="h200"), ArgumentError)
    assert str(error) == (
        "metal: H200 is not a chip of Apple's: it is made by NVIDIA\n"
        'hint: give one such as "m3-max", or leave it out for the GPU of this Mac'
    )

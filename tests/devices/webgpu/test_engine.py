"""WebGPU's adapter: its name, its limits, what is missing, and what is lost."""

import os
import subprocess
import sys
from functools import cache
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import luminal_lab as ll
from luminal_lab.devices.gpu.engine import Location
from luminal_lab.devices.webgpu import engine
from luminal_lab.errors import DeviceError
from tests.expect import error_of

needs = pytest.mark.needs("wgpu", "vulkan")


def with_input(size: int = 8) -> tuple[ll.Graph, Any]:
    cx = ll.Graph()
    x = cx.tensor((size,), name="x").set(np.ones(size))
    (x * 2).named("y").retrieve()
    cx.compile(ll.GenericCompiler(), ll.WebGPUCompiler())
    return cx, x


def written(size: int = 8) -> ll.Graph:
    return with_input(size)[0]


@pytest.fixture(autouse=True)
def afresh():
    """Another device for whatever comes next, as here some are made up."""
    engine.webgpu_device.cache_clear()
    yield
    engine.webgpu_device.cache_clear()


def test_a_missing_package_is_told_and_the_notebook_goes_on(monkeypatch):
    monkeypatch.setitem(sys.modules, "wgpu", None)
    cx = written()
    assert "fn main(" in cx.kernels[0].source
    error = error_of(cx.execute, DeviceError)
    assert error.message.startswith("webgpu: wgpu, which runs kernels, is not installed (")
    assert error.hint is not None
    assert error.hint.startswith('pip install "luminal-lab[webgpu]"')
    cx.compile(ll.GenericCompiler())
    cx.execute()


class NoAdapter:
    """wgpu on a machine without a driver."""

    GPUError = GPUPipelineError = GPUOutOfMemoryError = ValueError

    class gpu:  # noqa: N801  # its name there
        @staticmethod
        def request_adapter_sync(power_preference: str) -> Any:
            raise RuntimeError(f"Request adapter failed (3): no {power_preference} adapter")


def test_a_missing_driver_is_told(monkeypatch):
    monkeypatch.setattr(engine, "import_wgpu", lambda: NoAdapter)
    error = error_of(ll.WebGPUCompiler().unless_here, DeviceError)
    assert error.message == (
        "webgpu: there is no adapter for WebGPU here: Request adapter failed (3): no "
        "high-performance adapter"
    )
    assert error.hint == engine.NO_ADAPTER


@needs
def test_a_software_adapter_says_that_it_is_one():
    _, device = engine.webgpu_device()
    info = {"device": "a card", "adapter_type": "DiscreteGPU"}
    assert engine.name_of(SimpleNamespace(info=info)) == "a card"
    software = SimpleNamespace(info={"device": "llvmpipe", "adapter_type": "CPU"})
    assert engine.name_of(software) == "llvmpipe, a software adapter"
    cx = written()
    program: Any = cx.compilation.runner
    assert program.device == engine.name_of(device.adapter)
    assert program.clock == "perf_counter, from submitting to the end"


@needs
def test_buffers_beyond_the_limits_are_told(monkeypatch):
    cx = written(1 << 12)
    wgpu, device = engine.webgpu_device()
    limits = {**device.limits, "max-storage-buffer-binding-size": 1 << 10}
    small = SimpleNamespace(**{n: getattr(device, n) for n in dir(device) if n[:6] == "create"})
    small.limits, small.adapter, small.queue = limits, device.adapter, device.queue
    monkeypatch.setattr(engine, "webgpu_device", cache(lambda: (wgpu, small)))
    error = error_of(cx.execute, DeviceError)
    name = engine.name_of(device.adapter)
    assert error.message == (
        f"webgpu: kernel mul has a buffer of 16,384 bytes, and the adapter allows 1,024: {name}"
    )
    assert error.hint == "use smaller sizes, or ll.CPUCompiler()"
    limits["max-buffer-size"] = 1 << 10
    error = error_of(written(1 << 12).execute, DeviceError)
    assert f"on {name} the program needs" in error.message


@needs
def test_a_lost_device_is_told_and_another_is_found():
    cx, x = with_input()
    cx.execute()
    _, device = engine.webgpu_device()
    device.destroy()
    x.set(np.arange(8.0))
    error = error_of(cx.execute, DeviceError)
    assert error.message.startswith("webgpu: ")
    assert error.hint == engine.LOST
    cx = written()
    cx.execute()
    assert engine.webgpu_device()[1] is not device


@needs
def test_bytes_come_back_whatever_their_number():
    cx = written()
    program: Any = cx.compilation.runner
    memory = program.engine.reserve(70)
    for size in (0, 1, 3, 4, 7):
        data = np.arange(size, dtype=np.uint8)
        location = Location(memory, 64, size)
        program.engine.upload(location, data)
        back = np.zeros(size, np.uint8)
        program.engine.download(location, back)
        assert (back == data).all()


@needs
def test_more_blocks_than_an_axis_has():
    cx = ll.Graph()
    x = cx.tensor((70_000,), name="x").set(np.arange(70_000))
    y = (x * 2).retrieve()
    cx.compile(ll.GenericCompiler(), ll.WebGPUCompiler(schedules={"mul": "bind i to block"}))
    cx.execute()
    assert (y.numpy() == 2 * x.numpy()).all()


@needs
def test_loops_that_the_driver_ends_early_are_found():
    cx = ll.Graph()
    x = cx.tensor((300_000,), name="x").set(np.ones(300_000))
    (x * 2).retrieve()
    cx.compile(ll.GenericCompiler(), ll.WebGPUCompiler(schedules={"mul": "split i by 2"}))
    program: Any = cx.compilation.runner
    if not program.engine.is_cut:
        pytest.skip("this driver runs loops to their end")
    error = error_of(cx.execute, DeviceError)
    assert "loops of a kernel end too early" in error.message
    assert error.hint is not None
    assert error.hint.startswith("bind more loops to threads in its schedule")


@pytest.mark.needs("wgpu", "vulkan", "pygraphviz")
def test_a_graph_that_was_laid_out_before_does_no_harm():
    code = """if True:
        import pygraphviz  # optional
        pygraphviz.AGraph("graph {a -- b}").layout("dot")
        import luminal_lab as ll
        cx = ll.Graph()
        y = (cx.tensor((2,), name="x").set([1, 2]) * 2).retrieve()
        cx.compile(ll.GenericCompiler(), ll.WebGPUCompiler())
        cx.execute()
        print(y.tolist())
    """
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "[2.0, 4.0]", done.stderr


@pytest.mark.needs("wgpu", "vulkan", "cc")
def test_without_a_driver_for_vulkan_a_script_is_told_and_goes_on():
    code = """if True:
        import luminal_lab as ll
        cx = ll.Graph()
        y = (cx.tensor((2,), name="x").set([1, 2]) * 2).retrieve()
        cx.compile(ll.GenericCompiler(), ll.WebGPUCompiler())
        try:
            cx.execute()
        except ll.errors.DeviceError as error:
            print(error)
        print([c.label for c in ll.compare(cx, [ll.CPU(), ll.WebGPU()], rounds=1).columns])
        cx.compile(ll.GenericCompiler(), ll.CPUCompiler())
        cx.execute()
        print(y.tolist())
    """
    nowhere = dict.fromkeys(("VK_ICD_FILENAMES", "VK_DRIVER_FILES"), "/nonexistent")
    done = subprocess.run(
        [sys.executable, "-W", "always", "-c", code],
        env={**os.environ, **nowhere},
        capture_output=True,
        text=True,
        check=False,
    )
    first, *_, hint, columns, values = done.stdout.splitlines()
    assert first.startswith("webgpu: there is no adapter for WebGPU here: Request adapter failed")
    assert "Caused by" not in first
    assert hint == f"hint: {engine.NO_ADAPTER}"
    assert (columns, values) == ("['this CPU']", "[2.0, 4.0]")
    assert "<string>:10: LabWarning: compare: WebGPU has no column: webgpu: there is" in done.stderr

"""WebGPU's adapter: its name, its limits, what is missing, and what is lost."""

import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
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


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"version_info": (0, 9, 1), "__version__": "0.9.1"}, "wgpu 0.9.1 is too old: it must be"),
        ({}, "wgpu does not start: "),  # another package of that name
        ({"version_info": (0, 40, 0), "gpu": SimpleNamespace()}, "wgpu does not start: "),
    ],
)
def test_another_version_of_wgpu_is_told(monkeypatch, fields, told):
    monkeypatch.setitem(sys.modules, "wgpu", SimpleNamespace(**fields))
    error = error_of(ll.WebGPUCompiler().unless_here, DeviceError)
    assert error.message.startswith(f"webgpu: {told}")
    assert error.hint == engine.RENEW


@needs
def test_an_adapter_that_was_chosen_and_is_not_here_is_told(monkeypatch):
    monkeypatch.setenv(engine.CHOSEN, "no such card")
    error = error_of(written().execute, DeviceError)
    assert "Adapter with name 'no such card' not found" in error.message
    assert str(error.hint).startswith(f"{engine.CHOSEN} in os.environ names one")


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
def test_a_device_that_is_lost_before_the_first_run_is_told():
    cx = written()
    engine.webgpu_device()[1].destroy()
    assert error_of(cx.execute, DeviceError).hint == engine.LOST
    cx.execute()  # on another one


@needs
def test_more_buffers_than_the_adapter_has_are_told():
    cx = ll.Graph()
    inputs = [cx.tensor((8,), name=f"x{k}").set(np.ones(8)) for k in range(1100)]
    sum(inputs[1:], inputs[0] * 3).named("y").retrieve()
    cx.compile(ll.GenericCompiler(), ll.WebGPUCompiler())
    error = error_of(cx.execute, DeviceError)
    assert re.search(r"has [\d,]+ buffers, and the adapter allows \d+: ", error.message)
    assert str(error.hint).startswith("a graph_break() of some of its values")


@needs
def test_16_bit_floats_as_a_type_that_the_adapter_lacks_are_told(monkeypatch):
    wgpu, device = engine.webgpu_device()
    less = SimpleNamespace(**{n: getattr(device, n) for n in dir(device) if n[:6] == "create"})
    less.limits, less.adapter, less.queue = device.limits, device.adapter, device.queue
    less.features = set()
    monkeypatch.setattr(engine, "webgpu_device", cache(lambda: (wgpu, less)))
    cx = ll.Graph()
    (cx.tensor((8,), "float16", "x").set(np.ones(8)) * 2).retrieve()
    cx.compile(ll.GenericCompiler(), ll.WebGPUCompiler(float16=True))
    error = error_of(cx.execute, DeviceError)
    assert error.message.startswith("webgpu: kernel mul has 16-bit floats as a type, and the ")
    assert error.hint == engine.AS_BITS
    cx.compile(ll.GenericCompiler(), ll.WebGPUCompiler())
    cx.execute()


@needs
def test_threads_share_an_adapter():
    def doubled(number: int) -> float:
        cx, x = with_input()
        x.set(np.full(8, number))
        cx.execute()
        return cx["y"].tolist()[0]

    with ThreadPoolExecutor(4) as threads:
        assert [*threads.map(doubled, range(8))] == [2.0 * number for number in range(8)]


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


FORKED = """if True:
    import os
    import luminal_lab as ll
    def made():
        cx = ll.Graph()
        y = (cx.tensor((2,), name="x").set([1, 2]) * 2).named("y").retrieve()
        cx.compile(ll.GenericCompiler(), ll.{}())
        return cx
    cx = made()
    cx.execute()
    for run in (cx.execute, lambda: made().execute()):
        child = os.fork()
        if not child:
            try:
                run()
            except ll.errors.DeviceError as error:
                print(error.message, "|", error.hint, flush=True)
            os._exit(0)
        os.waitpid(child, 0)
    print(cx["y"].tolist())
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no forks")
@pytest.mark.parametrize(
    ("compiler", "library"),
    [
        pytest.param("WebGPUCompiler", "wgpu", marks=needs),
        pytest.param("XLACompiler", "JAX", marks=pytest.mark.needs("jax")),
    ],
)
def test_a_fork_of_the_process_is_told_and_does_not_wait_for_ever(compiler, library):
    code = [sys.executable, "-W", "ignore", "-c", FORKED.format(compiler)]
    done = subprocess.run(code, capture_output=True, text=True, check=True, timeout=100)
    told = f"{library} does not run in a fork of a process that has used it | start processes by "
    first, second, last = done.stdout.splitlines()
    assert first.startswith(told)
    assert second.startswith(told)
    assert last == "[2.0, 4.0]"


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

"""WGSL in a page: kernels in Chromium, whose compiler is another one, on its software adapter."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from typing_extensions import override

import luminal_lab as ll
from luminal_lab import nn
from luminal_lab.core.dims import evaluate as size_of
from luminal_lab.core.dtypes import DType
from luminal_lab.devices.gpu.engine import Engine, Location, PlacedLaunch, bytes_of
from luminal_lab.devices.runtime.blocks import MemoryBlock
from luminal_lab.devices.webgpu.engine import modules
from luminal_lab.kernels.gpu import webgpu
from luminal_lab.kernels.kernel import Kernels
from luminal_lab.kernels.launch import numbers_of
from luminal_lab.testing.conformance import cases
from tests.kernels.judging import check_same
from tests.kernels.plans.test_gpu import given_to, kernel
from tests.needs import need

ARGUMENTS = "--no-sandbox", "--enable-unsafe-webgpu", "--use-webgpu-adapter=swiftshader"
ADDRESS = "https://lab.test/"
"""Of a page that never leaves this machine; pages without https have no WebGPU."""
KERNELS = (
    *("gelu", "softmax", "columns", "total", "matmul", "half_matmul", "convolution"),
    *("attention", "decode_attention", "one_pass", "mean"),
)
DIMS = {"n": 9, "m": 600}
WITHIN = 1e-5
SCRIPT = """
async ({buffers, launches, wanted}) => {
    const adapter = await navigator.gpu?.requestAdapter();
    if (!adapter) return null;
    const most = "maxStorageBuffersPerShaderStage";
    const requiredLimits = {[most]: adapter.limits[most]};
    const device = (globalThis.device ??= await adapter.requestDevice({requiredLimits}));
    const faults = [];
    device.onuncapturederror = event => faults.push(event.error.message);
    const {STORAGE, COPY_SRC, COPY_DST, UNIFORM, MAP_READ} = GPUBufferUsage;
    const made = (data, usage) => {
        const size = 16 * Math.max(1, Math.ceil(data.length / 4));
        const buffer = device.createBuffer({size, usage: usage | COPY_SRC | COPY_DST});
        device.queue.writeBuffer(buffer, 0, data);
        return buffer;
    };
    const all = buffers.map(words => made(Uint32Array.from(words), STORAGE));
    const encoder = device.createCommandEncoder();
    const pass = encoder.beginComputePass();
    for (const {code, bound, numbers, blocks} of launches) {
        const visibility = GPUShaderStage.COMPUTE;
        const given = [...bound.map(at => all[at]), made(Uint32Array.from(numbers), UNIFORM)];
        const entries = given.map((_, at) => ({binding: at, visibility,
            buffer: {type: at < bound.length ? "storage" : "uniform"}}));
        const layout = device.createBindGroupLayout({entries});
        const module = device.createShaderModule({code});
        for (const said of (await module.getCompilationInfo()).messages)
            if (said.type == "error") faults.push(`${said.lineNum}: ${said.message}`);
        pass.setPipeline(device.createComputePipeline({compute: {module, entryPoint: "main"},
            layout: device.createPipelineLayout({bindGroupLayouts: [layout]})}));
        pass.setBindGroup(0, device.createBindGroup({layout,
            entries: given.map((buffer, at) => ({binding: at, resource: {buffer}}))}));
        pass.dispatchWorkgroups(blocks);
    }
    pass.end();
    const copies = wanted.map(at => {
        const copy = device.createBuffer({size: all[at].size, usage: MAP_READ | COPY_DST});
        encoder.copyBufferToBuffer(all[at], 0, copy, 0, copy.size);
        return copy;
    });
    device.queue.submit([encoder.finish()]);
    const results = [];
    for (const copy of copies) {
        await copy.mapAsync(GPUMapMode.READ);
        results.push([...new Uint32Array(copy.getMappedRange())]);
    }
    [...all, ...copies].forEach(buffer => buffer.destroy());
    return {faults, results, name: adapter.info.architecture};
}
"""
"""Runs launches in a page, and returns the words of the buffers that are wanted."""


@pytest.fixture(scope="module")
def page(playwright: Any) -> Iterator[Any]:
    """A page that may ask for an adapter."""
    browser = playwright.chromium.launch(executable_path=need("chromium"), args=ARGUMENTS)
    made = browser.new_page()
    made.route(ADDRESS, lambda route: route.fulfill(body="", content_type="text/html"))
    made.goto(ADDRESS)
    yield made
    browser.close()


def words(array: np.ndarray) -> list[int]:
    data = array.reshape(-1).view(np.uint8)
    return np.pad(data, (0, -data.size % 4)).view(np.uint32).tolist()


@pytest.mark.parametrize("name", KERNELS)
def test_kernels_compute_the_same_in_a_page(page: Any, name: str) -> None:
    made = kernel(name, webgpu())
    given, want = given_to(name, DIMS)
    inner = [np.zeros(size_of(local.bytes, DIMS), np.uint8) for local in made.locals]
    buffers = [*given.values(), *inner, *map(np.zeros_like, want.values())]
    code, launches = modules(made), list[dict[str, Any]]()
    for phase in made.phases:
        blocks = size_of(phase.tasks, DIMS)
        numbers = [*map(int, numbers_of(made, DIMS)), blocks]
        launch = {"code": code[phase.function], "bound": [*range(len(buffers))]}
        launches.append({**launch, "numbers": numbers, "blocks": blocks})
    first = len(buffers) - len(want)
    wanted = [*range(first, len(buffers))]
    asked = {"buffers": [*map(words, buffers)], "launches": launches, "wanted": wanted}
    found = page.evaluate(SCRIPT, asked)
    if found is None:
        pytest.skip("this Chromium has no adapter for WebGPU")
    assert found["faults"] == []
    for array, result in zip(want.values(), found["results"], strict=True):
        got = np.array(result, np.uint32).view(array.dtype)[: array.size].reshape(array.shape)
        if array.dtype == np.float32:
            ours, theirs = got.astype(np.float64), array.astype(np.float64)
            np.testing.assert_allclose(ours, theirs, rtol=WITHIN, atol=WITHIN)
        else:
            check_same(got, array, exactly=False)


# -- whole graphs ----------------------------------------------------------------------------------


class PageEngine(Engine):
    """An adapter in a page: each launch takes its memory there, and brings it back."""

    name = "Chromium"
    clock = "none"
    page: Any

    def __init__(self, source: str, kernels: Kernels) -> None:
        self.code = {name: text for one in kernels for name, text in modules(one).items()}

    @override
    def reserve(self, size: int) -> MemoryBlock:
        return MemoryBlock(max(16, -(-size // 16) * 16))

    @override
    def free_bytes(self) -> int | None:
        return None

    @override
    def commit(self, launches: Sequence[PlacedLaunch]) -> None:
        for launch in launches:
            given = [one for one in launch.arguments if isinstance(one, Location)]
            numbers = [int(one) for one in launch.arguments if isinstance(one, np.generic)]
            if launch.phase.faults:
                numbers.append(0)  # its word begins its buffer here
            numbers = [number & 0xFFFFFFFF for number in [*numbers, launch.blocks]]
            # What is written over an input has a buffer of its own, and is brought back later.
            bound, code = [*range(len(given))], self.code[launch.phase.function]
            one = {"code": code, "bound": bound, "numbers": numbers, "blocks": launch.blocks}
            buffers = [words(bytes_of(place)) for place in given]
            found = self.page.evaluate(
                SCRIPT, {"buffers": buffers, "launches": [one], "wanted": bound}
            )
            if found is None:
                pytest.skip("this Chromium has no adapter for WebGPU")
            assert found["faults"] == []
            for place, result in zip(given, found["results"], strict=True):
                bytes_of(place)[...] = np.array(result, np.uint32).view(np.uint8)[: place.bytes]

    @override
    def wait(self) -> None:
        """Do nothing: a launch is done when the page answers."""


@pytest.fixture
def in_page(page: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a page run what is compiled for WebGPU."""
    monkeypatch.setattr(PageEngine, "page", page, raising=False)
    monkeypatch.setattr("luminal_lab.devices.webgpu.compiler.WebGPUEngine", PageEngine)


def random(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def searched_attention() -> tuple[ll.Graph, list[Any]]:
    cx = ll.Graph()
    q, k, v = (cx.tensor((1, 2, 20, 8), name=name).set(random(1, 2, 20, 8)) for name in "qkv")
    return cx, [((q @ k.transpose(-1, -2) * 0.25).softmax(-1) @ v).retrieve()]


def convolution() -> tuple[ll.Graph, list[Any]]:
    cx = ll.Graph()
    x = cx.tensor((2, 3, 12, 12), name="x").set(random(2, 3, 12, 12))
    return cx, [nn.Conv2d(3, 8, 3, padding=1).initialise(seed=1)(x).relu().retrieve()]


def small_gpt() -> tuple[ll.Graph, list[Any]]:
    cx = ll.Graph()
    tokens = cx.tensor(("batch", "seq"), "int64", "tokens")
    tokens.set([[3, 1, 4, 1, 5, 9]])
    model = nn.models.GPT2(layers=1, heads=2, width=16, vocab=20, context=8)
    return cx, [model.initialise(seed=1)(tokens).retrieve()]


# Seconds each, as Chromium's software adapter compiles slowly.
@pytest.mark.share("make", [searched_attention, convolution, small_gpt], 1)
def test_models_compute_the_same_in_a_page(in_page: None, make: Any) -> None:
    cx, outputs = make()
    cx.execute()
    wanted = [output.numpy() for output in outputs]
    cx.compile(ll.GenericCompiler(), ll.WebGPUCompiler(float16=False))
    cx.execute()
    for output, value in zip(outputs, wanted, strict=True):
        np.testing.assert_allclose(output.numpy(), value, rtol=WITHIN, atol=WITHIN)
    if make is searched_attention:
        assert "where (m, l, acc) = fold " in str(cx.kernels[0].definition)


IN_FLOAT32 = [case for case in cases() if {*case.dtypes} == {DType.float32}]


@pytest.mark.share("family", sorted({case.family for case in IN_FLOAT32}), 1)
def test_conformance_in_a_page(in_page: None, family: str) -> None:
    device = ll.WebGPUCompiler(float16=False)
    found = ll.devices.conformance(device, only=family, dtypes="float32")
    assert found.ok, str(found)
    assert not found.unsupported

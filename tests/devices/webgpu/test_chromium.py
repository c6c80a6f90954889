"""WGSL in a page: kernels in Chromium, whose compiler is another one, on its software adapter."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from luminal_lab.core.dims import evaluate as size_of
from luminal_lab.devices.webgpu.engine import modules
from luminal_lab.kernels.gpu import webgpu
from luminal_lab.kernels.launch import numbers_of
from tests.kernels.judging import check_same
from tests.kernels.plans.test_gpu import given_to, kernel
from tests.needs import need

ARGUMENTS = "--no-sandbox", "--enable-unsafe-webgpu", "--use-webgpu-adapter=swiftshader"
ADDRESS = "https://lab.test/"
"""Of a page that never leaves this machine; pages without https have no WebGPU."""
KERNELS = (
    *("gelu", "softmax", "columns", "total", "matmul", "half_matmul", "convolution"),
    *("attention", "decode_attention"),
)
DIMS = {"n": 9, "m": 600}
WITHIN = 1e-5
SCRIPT = """
async ({buffers, launches, wanted}) => {
    const adapter = await navigator.gpu?.requestAdapter();
    if (!adapter) return null;
    const device = await adapter.requestDevice();
    const faults = [];
    device.onuncapturederror = event => faults.push(event.error.message);
    const {STORAGE, COPY_SRC, COPY_DST, UNIFORM, MAP_READ} = GPUBufferUsage;
    const made = (data, usage) => {
        const size = 16 * Math.ceil(data.length / 4);
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

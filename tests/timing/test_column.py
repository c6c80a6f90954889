"""Columns of a comparison: XLA and WebGPU beside the CPU."""

import sys

import numpy as np
import pytest

import luminal_lab as ll
from luminal_lab.devices.webgpu.engine import webgpu_device
from luminal_lab.errors import DeviceError, LabWarning
from tests.expect import error_of


@pytest.mark.needs("cc", "jax")
def test_xla_stands_beside_the_cpu_as_whole_programs():
    cx = ll.Graph("t")
    x = cx.tensor((8, 16), name="x").set(np.ones((8, 16)))
    (x @ x.T).softmax(-1).named("y").retrieve()
    found = ll.compare(cx, [ll.CPU(), ll.XLA("cpu")], rounds=1)
    assert [(column.label, column.how) for column in found.columns] == [
        ("this CPU", "measured"),
        ("XLA, cpu", "measured"),
    ]
    (segment,) = found
    cpu, xla = segment.parts
    assert [part.kernel for part in xla] == ["xla"]
    assert not xla[0].is_host
    assert xla[0].covers >= set().union(*(part.covers for part in cpu))
    assert "XLA fuses by itself: a launch is a whole program" in str(found)


@pytest.mark.needs("cc", "wgpu", "vulkan")
def test_webgpu_stands_beside_the_cpu_launch_by_launch():
    cx = ll.Graph("t")
    x = cx.tensor((8, 16), name="x").set(np.ones((8, 16)))
    (x @ x.T).softmax(-1).named("y").retrieve()
    found = ll.compare(cx, [ll.CPU(), ll.WebGPU()], rounds=1)
    _, webgpu = found.columns
    assert (webgpu.label, webgpu.how) == ("WebGPU", "measured")
    assert all(part.seconds for part in webgpu.parts)
    assert len(webgpu.whole) == 1
    assert webgpu.whole[0] > 0
    cx.compile(ll.GenericCompiler(), ll.WebGPUCompiler())
    assert webgpu.device == getattr(cx.compilation.runner, "device", "")
    cx.execute()
    assert (
        str(cx.time(rounds=1))
        .splitlines()[0]
        .startswith(f"t: {len(cx.launches)} launches, measured on {webgpu.device}, 20")
    )


@pytest.mark.needs("cc")
@pytest.mark.parametrize(
    ("package", "device", "said"),
    [
        ("jax", ll.XLA(), "compare: XLA has no column: xla: JAX cannot be imported: "),
        ("wgpu", ll.WebGPU(), "compare: WebGPU has no column: webgpu: wgpu, which runs kernels, "),
    ],
)
def test_without_its_package_a_device_is_left_out_and_told(monkeypatch, package, device, said):
    monkeypatch.setitem(sys.modules, package, None)
    webgpu_device.cache_clear()
    cx = ll.Graph("t")
    (cx.tensor((4,), name="x").set(np.ones(4)) * 2).named("y").retrieve()
    with pytest.warns(LabWarning) as told:
        found = ll.compare(cx, [device, ll.CPU()], rounds=1)
    webgpu_device.cache_clear()
    assert [column.label for column in found.columns] == ["this CPU"]
    (warning,) = told
    assert warning.filename == __file__
    assert str(warning.message).startswith(said)
    assert 'hint: pip install "luminal-lab[' in str(warning.message)
    error = error_of(lambda: ll.compare(cx, [device]), DeviceError)
    assert "ll.compare(cx, [device])" in str(error.where)

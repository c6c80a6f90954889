"""Columns of a comparison: XLA and WebGPU beside the CPU."""

import numpy as np
import pytest

import luminal_lab as ll


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
    cx.compile(ll.GenericCompiler(), ll.WebGPUCompiler())
    assert webgpu.device == getattr(cx.compilation.runner, "device", "")
    cx.execute()
    assert (
        str(cx.time(rounds=1))
        .splitlines()[0]
        .startswith(f"t: {len(cx.launches)} launches, measured on {webgpu.device}, 20")
    )

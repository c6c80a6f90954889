"""What a page brings along for WebGPU: a launch for each of WebAssembly's, or why there is none."""

from typing import Any

import numpy as np
import pytest

import luminal_lab as ll
from luminal_lab.kernels.render.gpu.webgpu import MOST
from tests.viz.live.test_computing import header

pytestmark = pytest.mark.needs("ziglang")


def both(cx: ll.Graph) -> tuple[dict[str, Any], dict[str, Any]]:
    made = header(cx)
    return made, made["gpu"]


def test_each_launch_has_one_here_and_kernels_have_one_text() -> None:
    cx = ll.Graph()
    x = cx.tensor((3, 5), name="x")
    (x.exp().sum(-1) + x.exp().max(-1)).exp().named("y").retrieve()
    x.set(np.ones((3, 5), "float32"))
    made, gpu = both(cx)
    assert len(gpu["launches"]) == len(made["makes"])
    assert gpu["bytes"][:1] == [60]
    assert len(set(gpu["modules"])) == len(gpu["modules"])
    places = len(made["inputs"]) + len(made["outputs"]) + len(made["offsets"])
    for phases, reads, makes in zip(gpu["launches"], made["reads"], made["makes"], strict=True):
        for module, bound, numbers, x_blocks, y_blocks, copies, reports in phases:
            assert gpu["modules"][module].count("var<storage") == len(bound) + reports
            assert [at for at in bound if at < places] == [*reads, *makes]
            assert (numbers[-1], y_blocks, copies) == (x_blocks, 1, [])


def test_many_blocks_lie_in_rows() -> None:
    cx = ll.Graph()
    x = cx.tensor((1 << 21,), name="x")
    y = x.reshape(1 << 18, 8).sum(-1).named("y").retrieve()
    _, gpu = both(cx)
    grids = {(x_blocks, y_blocks) for w in gpu["launches"] for _, _, _, x_blocks, y_blocks, *_ in w}
    assert all(wide <= MOST for wide, _ in grids)
    assert y.shape == (1 << 18,)


def test_no_buffer_is_bound_twice() -> None:
    cx = ll.Graph()
    x = cx.tensor((2, 6), name="x")
    (x.reshape(6, 2) @ x).named("y").retrieve()
    cx.compile(ll.GenericCompiler(), ll.CPUCompiler())
    _, gpu = both(cx)
    phases = [phase for work in gpu["launches"] for phase in work]
    for _, bound, *_, copies, _ in phases:
        assert len({*bound}) == len(bound)
        assert all(gpu["bytes"][a] == gpu["bytes"][b] == 48 for a, b in copies)
    assert any(copies for *_, copies, _ in phases)


def test_what_wgsl_lacks_is_said() -> None:
    cx = ll.Graph()
    cx.tensor((3,), "float64", name="x").exp().named("y").retrieve()
    why = both(cx)[1]["why"]
    assert why.endswith(" is computed in float64, and WGSL has none")

"""An op in one file: what its class says is enough for every part of the package."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest
from typing_extensions import override

import luminal_lab as ll
from luminal_lab.core.dtypes import Array
from luminal_lab.kernels.fuse.reading import CHEAP


@dataclass(frozen=True, slots=True)
class Softsign(ll.Unary):
    """x / (1 + |x|)."""

    name: ClassVar[str] = "tests.softsign"
    c_form: ClassVar[str] = "({0} / (1 + fabs({0})))"
    cost: ClassVar[int] = 6

    @override
    def eval(self, x: Array) -> Array:
        return x / (1 + np.abs(x))


@ll.gradient(Softsign)
def softsign(node: Any, g: Any) -> Any:
    """Return g / (1 + |x|)²."""
    return g / (1 + node[0].abs()).square()


def written() -> tuple[ll.Graph, Any]:
    """Return a session whose only computation is the op of a product."""
    cx = ll.Graph("mine")
    x = cx.tensor((3,), name="x").set([-1.0, 0.0, 3.0])
    return cx, (x * 2).apply(Softsign()).named("y").retrieve()


def test_it_has_a_text_that_is_verified_and_runs():
    cx, y = written()
    assert "%y = tests.softsign %2 : f32[3]" in str(cx)
    assert ll.parse(str(cx)) == cx.ir
    cx.execute()
    np.testing.assert_allclose(y.numpy(), [-2 / 3, 0, 6 / 7], rtol=1e-6)


def test_it_is_fused_and_compiled_for_each_device():
    for device in (ll.CPUCompiler(), ll.CUDACompiler(arch="sm_90a"), ll.MetalCompiler()):
        cx, _ = written()
        cx.compile(ll.GenericCompiler(), device)
        (kernel,) = cx.kernels
        assert "fabs(" in str(kernel.source)


def test_every_step_of_a_compile_is_checked_on_drawn_values():
    cx, y = written()
    ((y * y).sum() + y).retrieve()
    cx.compile(ll.GenericCompiler(), ll.CPUCompiler(), check="values")
    cx.execute()
    np.testing.assert_allclose(y.numpy(), [-2 / 3, 0, 6 / 7], rtol=1e-6)


def test_its_gradient_is_derived():
    cx, y = written()
    slope = ll.grad(y.sum(), cx["x"]).retrieve()
    cx.compile(ll.GenericCompiler(), ll.CPUCompiler())
    cx.execute()
    np.testing.assert_allclose(slope.numpy(), [2 / 9, 2, 2 / 49], rtol=1e-5)


@pytest.mark.parametrize(
    "device", [ll.CPUCompiler(), ll.CUDACompiler(emulate=True)], ids=["cpu", "cuda"]
)
def test_devices_are_tried_on_it(device: Any):
    found = ll.devices.conformance(device, ops=Softsign)
    assert found.ok, str(found)
    assert len(found.rows) == 2 * 4, "special and drawn values of each float"


def test_a_device_with_another_function_is_found_out(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(Softsign, "c_form", "({0} / (2 + fabs({0})))")
    found = ll.devices.conformance(ll.CPUCompiler(), ops=Softsign(), dtypes="float32")
    assert {row.blamed for row in found.failed} == {"tests.softsign"}
    monkeypatch.setattr(Softsign, "ulps", 1 << 60)
    assert not ll.devices.conformance(
        ll.CPUCompiler(), ops="tests.softsign", dtypes="float32"
    ).failed


def test_what_is_costly_is_computed_once():
    for cost, kernels in ((1, 1), (CHEAP + 1, 2)):
        cx = ll.Graph("mine")
        y = cx.tensor((64, 64), name="x").apply(Softsign())
        (y @ y).retrieve()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Softsign, "cost", cost)
            cx.compile(ll.GenericCompiler(), ll.CPUCompiler())
        assert len(cx.kernels) == kernels

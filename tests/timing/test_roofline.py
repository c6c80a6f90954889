"""The roofline model: which bound is met, at which rate, and what it says that it ignores."""

from dataclasses import replace

import pytest

import luminal_lab as ll
from luminal_lab.devices.facts.specifications import specification, this_cpu
from luminal_lab.errors import ArgumentError, DeviceError, DimError
from luminal_lab.kernels.definition.text import parse_definition
from luminal_lab.kernels.kernel import Kernel, Phase
from luminal_lab.machines.rates import PeakRates, Rate
from luminal_lab.timing.roofline import modelled
from tests.expect import error_of

TWICE = parse_definition("""\
kernel twice(x: f32[n]) -> (y: f32[n])
  y[i < n] = x[i] + x[i]""")
PRODUCT = parse_definition("""\
kernel product(a: f16[n, n], b: f16[n, n]) -> (c: f16[n, n])
  c[i < n, j < n] = sum k < n: a[i, k] * b[k, j]""")
EXACT = parse_definition("""\
kernel exact(x: f64[n]) -> (y: f64[n])
  y[i < n] = x[i] * x[i]""")
H200, M3 = specification("h200"), specification("m3 max")


def test_bytes_bound_what_only_moves_them():
    found = modelled(TWICE, H200, {"n": 600_000_000})
    assert (found.bound, found.bytes, found.flops) == ("memory", 4_800_000_000, 600_000_000)
    assert found.seconds == pytest.approx(4.8e9 / 4.8e12)
    assert found.figure is H200.bandwidth


def test_operations_bound_a_large_product():
    found = modelled(PRODUCT, H200, {"n": 8192})
    assert (found.bound, found.unit) == ("compute", "float32")
    assert found.seconds == pytest.approx(2 * 8192**3 / 66.9e12)
    assert "tensor units, which a schedule for this device might use" in found.ignores


def test_a_small_launch_takes_as_long_as_being_launched():
    found = modelled(TWICE, H200, {"n": 8})
    assert (found.bound, found.seconds) == ("launch", H200.launch.value)
    assert found.figure.how == "assumed"


def test_tensor_units_count_only_where_the_code_uses_them():
    plain = Kernel("product", PRODUCT, "", (Phase("product"),), dialect="cuda")
    tensor = replace(plain, uses=frozenset(("lab_mma_f16",)))
    sizes = {"n": 8192}
    assert modelled(plain, H200, sizes).unit == "float32"
    found = modelled(tensor, H200, sizes)
    assert found.unit == "float16 (tensor)"
    assert found.seconds == pytest.approx(2 * 8192**3 / 989.4e12)
    assert "that not all of its operations are products" in found.ignores
    # Apple's have no rate of their own for products.
    assert modelled(tensor, M3, sizes).unit == "float32"


def test_each_phase_is_a_launch_on_a_gpu():
    one = Kernel("twice", TWICE, "", (Phase("a"),), dialect="cuda")
    three = replace(one, phases=(Phase("a"), Phase("b"), Phase("c")))
    times = [modelled(kernel, H200, {"n": 8}).seconds for kernel in (one, three)]
    assert times == pytest.approx([2e-6, 6e-6])


def test_float64_has_its_own_rate_and_metal_has_none():
    assert modelled(EXACT, H200, {"n": 8}).unit == "float64"
    error = error_of(lambda: modelled(EXACT, M3, {"n": 8}), DeviceError)
    assert error.message == "modelled: exact computes in float64, and M3 Max has none"
    assert error.hint == 'cast("float32") what it reads, or choose another device'


def test_measured_rates_know_what_fits_into_a_cache():
    rates = (
        Rate("fma", 1, 100.0, "float32"),
        Rate("read", 1, 50.0, size=1 << 20),
        Rate("read", 1, 10.0, size=1 << 26),
    )
    cpu = this_cpu(PeakRates("a laptop", 1, rates))
    near, far = (modelled(TWICE, cpu, {"n": n}) for n in (1 << 16, 1 << 22))
    assert (near.bound, far.bound) == ("cache", "memory")
    assert near.seconds == pytest.approx((8 << 16) / 50e9)
    assert far.seconds == pytest.approx((8 << 22) / 10e9)
    assert "what caches keep" not in near.ignores
    assert "what caches keep" in modelled(TWICE, H200, {"n": 8}).ignores


def test_a_launch_of_a_session_is_modelled_by_its_kernel(tmp_path, monkeypatch):
    cx = ll.Graph()
    x = cx.tensor((1024, 1024), name="x")
    (x + 1.0).retrieve()
    cx.compile(ll.GenericCompiler(), ll.CUDACompiler(arch="sm_80"))
    launch = cx.launches[0]
    assert modelled(launch, H200) == modelled(launch.kernel, H200)
    assert modelled(launch, H200).bytes == 8 << 20


def test_it_does_not_look_like_a_measured_time():
    text = str(modelled(TWICE, H200, {"n": 600_000_000}))
    assert text.splitlines()[0] == (
        "~1.000 ms modelled for H200, bound by memory: 4.47 GiB, 600,000,000 operations in float32"
    )
    assert text.splitlines()[1] == "figure: NVIDIA H200 Tensor Core GPU data sheet, SXM (stated)"
    assert text.splitlines()[2].startswith("ignores: what caches keep")
    assert repr(modelled(TWICE, H200, {"n": 8})) == "<Modelled ~0.002000 ms, bound by launch>"


def test_what_cannot_be_modelled():
    error = error_of(lambda: modelled(TWICE, H200), DimError)
    assert str(error) == (
        "modelled: the dim 'n' of twice has no size\nhint: give it one, as in dims={\"n\": 128}"
    )
    error = error_of(lambda: modelled(3, H200), ArgumentError)  # pyright: ignore[reportArgumentType]  # the mistake
    assert error.message == "modelled: 3 is not a launch, a kernel or a definition"
    error = error_of(lambda: modelled(TWICE, "h200"), ArgumentError)  # pyright: ignore[reportArgumentType]  # the mistake
    assert error.message == "modelled: 'h200' is not a specification of a device"

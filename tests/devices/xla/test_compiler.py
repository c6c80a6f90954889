"""The XLA compiler: its text, what becomes one program, its licence, what is refused."""

import sys

import numpy as np
import pytest

import luminal_lab as ll
from luminal_lab.core.interpret import Environment
from luminal_lab.errors import ArgumentError, DeviceError
from luminal_lab.passes.pipeline import LICENCE
from luminal_lab.testing.conformance import cases
from tests.expect import error_of
from tests.needs import need

pytestmark = pytest.mark.needs("jax")


def calls(cx: ll.Graph) -> list[str]:
    """The ops of the last graph, in order, without inputs and picks."""
    names = [node.op.name for node in cx.compilation.ir]
    return [name for name in names if name not in ("input", "pick")]


def test_its_text_reads_back():
    for compiler in (ll.XLACompiler(), ll.XLACompiler("cpu")):
        assert str(ll.parse_pipeline(str(compiler)).passes[0]) == str(compiler)


@pytest.mark.share("family", sorted({case.family for case in cases()}), 5)
def test_conformance(family):
    found = ll.devices.conformance(ll.XLACompiler(), only=family)
    assert found.ok, found
    assert not found.unsupported


def test_only_the_licence_excuses_small_numbers():
    assert set(ll.XLACompiler().licence or ()) == {*LICENCE, "no_subnormal"}

    class Strict:
        licence = LICENCE

        def run(self, ir, inputs):
            environment = Environment(lambda node: inputs[node.name])
            compiled = ll.compile_ir(ir, ll.XLACompiler())
            values = compiled.values(environment, {*compiled.ir.output_ids}, {}, None)
            return [values[id] for id in compiled.ir.output_ids]

    found = ll.devices.conformance(Strict(), only="elementwise", ops="sqrt", dtypes="float32")
    assert "special" in str(found.failed[0].case)
    assert len(found.failed) == 1


def test_a_graph_is_one_program():
    cx = ll.Graph("t")
    x = cx.tensor((4, 8), name="x")
    (x @ x.T).gelu().softmax(-1).named("y").retrieve()
    x.sum().named("total").retrieve()
    cx.compile(ll.GenericCompiler(), ll.XLACompiler())
    assert calls(cx) == ["call"]
    assert str(cx.compilation.ir).startswith("graph t(%x: f32[4, 8]) -> (%y, %total)")


def test_breaks_and_the_host_divide_it():
    cx = ll.Graph()
    x = cx.tensor((4,), name="x").set([1.0, 2.0, 3.0, 4.0])
    half = (x.sin() * 0.5).graph_break()
    tripled = cx.function(lambda array: 3 * array, half + 1, shape=(4,))
    y = (tripled + half).named("y").retrieve()
    cx.execute()
    wanted = y.numpy()
    cx.compile(ll.GenericCompiler(), ll.XLACompiler())
    assert calls(cx) == ["call", "call", "host_call", "call"]
    cx.execute()
    np.testing.assert_allclose(y.numpy(), wanted, rtol=1e-6)


def test_a_missing_package_is_told_and_the_notebook_goes_on(monkeypatch):
    monkeypatch.setitem(sys.modules, "jax", None)
    cx = ll.Graph()
    y = (cx.tensor((2,), name="x").set([1, 2]) * 2).retrieve()
    error = error_of(lambda: cx.compile(ll.GenericCompiler(), ll.XLACompiler()), DeviceError)
    assert error.message.startswith("xla: JAX cannot be imported: ")
    assert error.hint == (
        'pip install "luminal-lab[xla]"; other devices and the interpreter go without it'
    )
    with pytest.warns(ll.LabWarning, match="the last compile"):
        cx.execute()
    assert y.numpy().tolist() == [2, 4]


def refused(*, platform: str | None = None) -> DeviceError:
    """The error of a compile."""
    cx = ll.Graph()
    (cx.tensor((2,), name="x") * 2).retrieve()
    return error_of(lambda: cx.compile(ll.XLACompiler(platform)), DeviceError)


def test_an_old_package_is_told(monkeypatch):
    monkeypatch.setattr(need("jax"), "__version_info__", (0, 4, 30))
    monkeypatch.setattr(need("jax"), "__version__", "0.4.30")
    error = refused()
    assert error.message == "xla: JAX cannot be imported: 0.4.30 is too old: it must be 0.10"
    assert str(error.hint).startswith('pip install "luminal-lab[xla]"')


@pytest.mark.parametrize(
    ("failure", "told"),
    [
        (
            RuntimeError("Unable to initialize backend 'cuda'\n(set JAX_PLATFORMS='')"),
            "Unable to initialize backend 'cuda'",
        ),
        (AssertionError(), "it finds no device"),  # JAX_PLATFORMS names one that is not here
    ],
)
def test_a_package_that_does_not_start_is_told(monkeypatch, failure, told):
    def failing(platform: str | None) -> None:
        raise failure

    monkeypatch.setattr(need("jax"), "devices", failing)
    error = refused()
    assert error.message == f"xla: JAX cannot run on its own platform here: {told}"


def test_a_platform_that_is_not_here():
    error = refused(platform="quantum")
    assert error.message.startswith("xla: JAX cannot run on quantum here: Unknown backend")
    assert "program.export(path)" in str(error.hint)
    assert error_of(lambda: ll.XLACompiler(3), ArgumentError).message == (  # pyright: ignore[reportArgumentType]
        "xla: the platform is 3"
    )


def test_equal_programs_are_one():
    cx = ll.Graph()
    x = cx.tensor((4,), name="x").set([1.0, 2.0, 3.0, 4.0])
    for _ in range(3):
        x = (x.sin() * 0.5).graph_break()
    x.named("y").retrieve()
    cx.compile(ll.GenericCompiler(), ll.XLACompiler())
    assert calls(cx) == ["call"] * 4
    assert len(cx.kernels) == 3

"""ONNX's own tests by its own runner, compiled for the CPU: they pass, or are on the page."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from tests.importing import onnx_backend
from tests.needs import need

need("onnx")
DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(scope="module")
def onnx_page() -> ModuleType:
    """The script that makes docs/onnx_models.md."""
    spec = importlib.util.spec_from_file_location("onnx_models_page", DOCS / "onnx_models.py")
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def text() -> str:
    return (DOCS / "onnx_models.md").read_text(encoding="utf-8")


def said(page: ModuleType, kind: str, name: str) -> str:
    """Return what the page says why a test is not run; an empty text if it should pass."""
    reasons = page.results_in(text())[kind]
    return next((reason for reason, names in reasons.items() if name in names), "")


def test_the_page_is_up_to_date(onnx_page: ModuleType) -> None:
    assert text() == onnx_page.page(onnx_page.results_in(text())), "run python docs/onnx_models.py"


def test_the_sets_have_as_many_tests_as_the_page_says(long: bool) -> None:
    if not long:
        pytest.skip("loads all of them")
    counts = {kind: len(rows) for kind, rows in onnx_backend.cases().items()}
    assert counts == onnx_backend.COUNTS


@pytest.mark.share("at", range(onnx_backend.COUNTS["Node"]), 12)
def test_nodes(onnx_page: ModuleType, at: int) -> None:
    check(onnx_page, "Node", at)


@pytest.mark.share("at", range(onnx_backend.COUNTS["PyTorchConverted"]), 2)
def test_models_that_pytorch_exported(onnx_page: ModuleType, at: int) -> None:
    check(onnx_page, "PyTorchConverted", at)


@pytest.mark.share("at", range(onnx_backend.COUNTS["PyTorchOperator"]), 2)
def test_operators_of_pytorch(onnx_page: ModuleType, at: int) -> None:
    check(onnx_page, "PyTorchOperator", at)


@pytest.mark.share("at", range(onnx_backend.COUNTS["Simple"]), 2)
def test_simple_models(onnx_page: ModuleType, at: int) -> None:
    check(onnx_page, "Simple", at)


def check(page: ModuleType, kind: str, at: int) -> None:
    name, run = onnx_backend.cases()[kind][at]
    assert onnx_backend.why_not(name, run) == said(page, kind, name), name


@pytest.mark.parametrize(
    "name", [n for n, why in onnx_backend.OTHER.items() if why == onnx_backend.ROUNDED]
)
def test_what_is_rounded_otherwise_is_within_a_rounding(name: str) -> None:
    onnx_backend.cases()  # makes them, whatever NumPy warns of
    tests = need("onnx.backend.test.loader").load_model_tests(kind="node")
    (case,) = [case for case in tests if case.name == name]
    assert case.data_sets is not None
    inputs, wanted = case.data_sets[0]
    (got, *_) = onnx_backend.Compiled.prepare(case.model).run(inputs)
    step = 2.0**-10 if got.dtype == np.float16 else 2.0**-22
    assert np.allclose(got, wanted[0], rtol=step, atol=step * np.abs(wanted[0]).max())

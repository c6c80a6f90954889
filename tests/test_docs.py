"""The generated pages say what is so, and leave out nothing that PyTorch has."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

DOCS = Path(__file__).parents[1] / "docs"


@pytest.fixture(scope="module")
def pytorch_page() -> ModuleType:
    """The script that makes docs/pytorch.md."""
    spec = importlib.util.spec_from_file_location("pytorch_page", DOCS / "pytorch.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_is_up_to_date(pytorch_page: ModuleType) -> None:
    assert (DOCS / "pytorch.md").read_text(encoding="utf-8") == pytorch_page.page(), (
        "run python docs/pytorch.py"
    )


def test_every_method_of_a_torch_tensor_is_in_a_family(
    pytorch_page: ModuleType, torch: ModuleType
) -> None:
    listed = words(pytorch_page.METHODS) | words(pytorch_page.OUTSIDE)
    names = {n for n in dir(torch.Tensor) if not n.startswith("_") and not n.endswith("_")}
    assert names - listed == set()


def test_every_function_of_torch_is_in_a_family(
    pytorch_page: ModuleType, torch: ModuleType
) -> None:
    functional = torch.nn.functional
    plumbing = {"assert_int_or_pair", "boolean_dispatch", "handle_torch_function"}
    names = {
        name
        for name in dir(functional)
        if name[0].islower() and not name.endswith("_") and callable(getattr(functional, name))
    }
    names = {n for n in names if not n.startswith("has_torch_function")} - plumbing
    assert names - words(pytorch_page.FUNCTIONS) == set()


def words(families: dict[str, str]) -> set[str]:
    """Return all names in a table of families."""
    return {name for names in families.values() for name in names.split()}

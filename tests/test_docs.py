"""The generated pages say what is so, and leave out nothing that PyTorch has."""

import importlib.util
import inspect
import sys
from pathlib import Path
from types import ModuleType

import pytest

import luminal_lab as ll

DOCS = Path(__file__).parents[1] / "docs"


def script(name: str) -> ModuleType:
    """Return a script of docs/ as a module."""
    spec = importlib.util.spec_from_file_location(f"{name}_page", DOCS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def pytorch_page() -> ModuleType:
    """The script that makes docs/pytorch.md."""
    return script("pytorch")


@pytest.fixture(scope="module")
def reference() -> ModuleType:
    """The script that makes docs/reference/."""
    return script("reference")


def test_every_public_name_is_on_one_page_of_the_reference(reference: ModuleType) -> None:
    listed = [name for page in reference.PAGES for name in reference.names_of(page)]
    public = [
        f"{library}.{name}"
        for library, what in reference.LIBRARIES.items()
        for name in reference.public_names(what)
    ]
    assert sorted(listed) == sorted(public)


def test_every_public_name_has_a_sentence_and_an_example(reference: ModuleType) -> None:
    assert list(reference.lacking()) == []


def test_a_name_without_an_example_is_told(
    reference: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ll.Budget, "__doc__", "How much a search may spend")
    assert list(reference.lacking()) == [
        "ll.Budget has no sentence",
        "ll.Budget has no example",
    ]


def test_a_method_without_an_example_is_told(
    reference: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ll.Tensor.flip, "__doc__", "Return a view with axes reversed.")
    monkeypatch.setattr(inspect.unwrap(ll.Tensor.flip), "__doc__", None)
    assert list(reference.lacking()) == ["ll.Tensor.flip has no example"]


def test_a_method_is_excused_only_if_no_example_shows_it(
    reference: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    excused = " ".join(reference.UNSHOWN.values()).split()
    monkeypatch.setattr(reference, "UNSHOWN", {})
    assert sorted(reference.lacking()) == sorted(f"{name} has no example" for name in excused)


def test_every_method_of_tensors_and_graphs_is_in_a_family(reference: ModuleType) -> None:
    page = reference.page("tensor") + reference.page("graph")
    missing = [
        f"{cls.__name__}.{name}"
        for cls, names in ((ll.Tensor, dir(ll.Tensor)), (ll.Graph, dir(ll.Graph())))
        for name in names
        if name[0] != "_"
        and f"ll.{cls.__name__}.{name}" not in page
        # What has no lazy meaning only raises, and what a node is known by is in its class's text.
        and inspect.isfunction(found := getattr(cls, name, None))
        and "refuse" not in found.__qualname__
    ]
    assert missing == []


def test_docstrings_become_markdown(reference: ModuleType) -> None:
    def double(x: int, *, times: "int | None" = None) -> "list[int]":
        """Return x * 2, as in `x * 2`.

            %y = mul %x

        >>> 1 + 1
        2
        """
        return [x * (times or 2)]

    assert reference.signature(double) == "(x: int, *, times: int | None = None) -> list[int]"
    assert reference.described(double) == (
        "Return x \\* 2, as in `x * 2`.\n\n```text\n%y = mul %x\n```\n\n```pycon\n>>> 1 + 1\n2\n```"
    )


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

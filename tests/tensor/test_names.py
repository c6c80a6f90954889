"""What a tensor says of names that it has not."""

from typing import Any

import pytest

from luminal_lab import Graph
from luminal_lab.errors import UnknownNameError
from tests.expect import error_of


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("pile", "did you mean 'tile'?"),  # and not '_pile'
        ("qwxyz", None),
        ("compile", "the graph is compiled: cx.compile()"),
        ("execute", "the graph is executed: cx.execute()"),
        ("relu_", "nothing changes in place; use x = x.relu(...)"),
    ],
)
def test_a_name_that_is_not_there(name, hint):
    x: Any = Graph().tensor((2,), name="x")
    error = error_of(lambda: getattr(x, name), UnknownNameError)
    assert error.message == f"a tensor has no {name!r}"
    assert error.hint == hint
    assert "test_names.py" in error.where

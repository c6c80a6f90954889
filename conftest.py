"""What examples in docstrings begin with: `ll`, a new graph `cx`, and an empty `folder`."""

from typing import Any

import pytest

import luminal_lab as ll

NEEDED = {
    ".to_pandas(": "pandas",
    ".plot(": "plotly",
    ".to_dot(": "graphviz",
    ".safetensors": "safetensors",
}
"""The packages that examples with some calls need; without them they are skipped."""


@pytest.fixture(autouse=True)
def _begun(request: pytest.FixtureRequest, doctest_namespace: dict[str, Any]) -> None:
    if not isinstance(request.node, pytest.DoctestItem):
        return
    source = "".join(example.source for example in request.node.dtest.examples)
    for call, package in NEEDED.items():
        if call in source:
            pytest.importorskip(package)
    doctest_namespace.update(ll=ll, cx=ll.Graph())
    if "folder" in source:
        doctest_namespace["folder"] = request.getfixturevalue("tmp_path")

"""What examples in docstrings begin with: `import luminal_lab as ll` and `cx = ll.Graph()`."""

from typing import Any

import pytest

import luminal_lab as ll

NEEDED = {".to_pandas(": "pandas", ".plot(": "plotly", ".to_dot(": "graphviz"}
"""The packages that examples with some calls need; without them they are skipped."""


@pytest.fixture(autouse=True)
def _begun(request: pytest.FixtureRequest, doctest_namespace: dict[str, Any]) -> None:
    if isinstance(request.node, pytest.DoctestItem):
        source = "".join(example.source for example in request.node.dtest.examples)
        for call, package in NEEDED.items():
            if call in source:
                pytest.importorskip(package)
        doctest_namespace.update(ll=ll, cx=ll.Graph())

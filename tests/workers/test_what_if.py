"""What would be sent with other annotations: the same as a compile with them says."""

import pytest

import luminal_lab as ll
from luminal_lab.errors import GraphError, LabError
from luminal_lab.passes.compilation import Compilation
from luminal_lab.workers.what_if import what_if
from tests.io.test_worker_facts import megatron


def _bytes(compiled: Compilation) -> int:
    return sum(row.bytes for row in compiled.communication)


MESH = ll.Mesh(data=2, model=2)


@pytest.mark.parametrize(
    "changed",
    [
        {"w2": ("-", "-")},
        {"x": ("data", "-")},
        {"x": ("data", "-"), "w1": ("-", "-"), "w2": ("-", "-")},
        {"w1": ("data", "model")},
    ],
)
def test_it_says_what_a_compile_says(changed: dict[str, tuple[str, ...]]) -> None:
    cx, cut = megatron()
    compiled = cx.compile(ll.Sharded(ll.sharding(MESH, cut)))
    before = _bytes(compiled)
    told = what_if(compiled, changed)
    cy, _ = megatron()
    words = {name: tuple(w if w != "-" else None for w in ws) for name, ws in changed.items()}
    other = cy.compile(ll.Sharded(ll.sharding(MESH, cut | words))).communication
    assert [row.row[1:-1] for row in told] == [row.row[1:-1] for row in other]
    assert told.bytes == sum(row.bytes for row in other)
    assert _bytes(compiled) == before  # the compile is what it was


def test_what_cannot_be_is_said() -> None:
    cx, cut = megatron()
    compiled = cx.compile(ll.Sharded(ll.sharding(ll.Mesh(model=3), {})))
    with pytest.raises(LabError, match=r"w1: .*its size is 32"):
        what_if(compiled, {"w1": ("-", "model")})
    with pytest.raises(LabError, match="has no axis 'modle'"):
        what_if(compiled, {"w1": ("-", "modle")})
    with pytest.raises(LabError, match="cuts two axes over model") as caught:
        what_if(compiled, {"w1": ("model", "model")})
    assert caught.value.where is None  # nobody wrote a line
    with pytest.raises(LabError, match="has no value 'w3'"):
        what_if(compiled, {"w3": ("-",)})
    with pytest.raises(GraphError, match="was not compiled for a mesh"):
        what_if(cx.compile("simplify"), cut)  # pyright: ignore[reportArgumentType]

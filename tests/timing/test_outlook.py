"""Steps on meshes, on paper: what is sent, what fits, which mesh is best, what cannot be."""

from typing import Any

import pytest

import luminal_lab as ll
from luminal_lab.errors import ArgumentError, PassError, UnknownNameError
from luminal_lab.machines.figures import Figure
from luminal_lab.machines.links import Link
from luminal_lab.timing.outlook import MeshPlan
from tests.needs import need

CUT = {"x": ("data", None), "w1": (None, "model"), "w2": ("model", None)}
SLOW = Link("string", Figure(1e3, "two tins", "assumed"), Figure(1.0, "two tins", "assumed"))


def step(rows: int = 64) -> ll.Graph:
    cx = ll.Graph("step")
    x = cx.tensor((rows, 32), name="x")
    w1, w2 = cx.tensor((32, 48), name="w1"), cx.tensor((48, 32), name="w2")
    loss = ((x @ w1).relu() @ w2).square().mean().named("loss").retrieve()
    for w, slope in zip((w1, w2), ll.grad(loss, [w1, w2]), strict=True):
        cx.carry(w - 0.1 * slope, w)
    return cx


def on_paper(mesh: ll.Mesh, **how: Any) -> MeshPlan:
    return ll.plan(step(), mesh, CUT, **{"links": SLOW, "device": "h200", **how})


def test_bytes_are_those_of_the_communication() -> None:
    mesh = ll.Mesh(data=2, model=2)
    paper = ll.plan(step(), mesh, CUT, links="nvlink-4", device="h200")
    compiled = step().compile(ll.Sharded(ll.sharding(mesh, CUT), bucket=False))
    row = next(row for row in paper.estimates if row.mesh == mesh)
    sent = dict.fromkeys(mesh.sizes, 0)
    for sending in compiled.communication:
        assert isinstance(sending.bytes, int)
        sent[sending.axis] += sending.bytes
    assert {axis: one.bytes for axis, one in row.sent.items()} == sent


def test_seconds_are_latency_and_bytes_of_each_collective() -> None:
    paper = ll.plan(step(), ll.Mesh(data=2), {"x": ("data", None)}, links=SLOW, device="h200")
    (row,) = paper.estimates
    sent = row.sent["data"]
    assert sent.messages == 2  # one bucket: there and back around the ring of two
    assert sent.bytes == 4 * (32 * 48 + 48 * 32 + 1)
    assert sent.seconds == pytest.approx(2 * 1.0 + sent.bytes / 1e3)
    assert row.seconds == row.computing + row.sending
    assert sum(row.kernels.values()) == pytest.approx(row.computing)


def test_the_best_mesh_is_the_fastest_that_fits_and_the_reasons_name_the_others() -> None:
    paper = on_paper(ll.Mesh(data=4, model=1))
    assert paper.best is min(paper.estimates, key=lambda row: row.seconds)
    shown = {str(row.mesh) for row in paper.estimates}
    assert shown == {f"Mesh(data={n}, model={4 // n})" for n in (1, 2, 4)}
    assert len(paper.reasons) == 2
    assert all("sending" in reason for reason in paper.reasons)
    least = min(row.memory for row in paper.estimates)
    tight = on_paper(ll.Mesh(data=4, model=1), memory=least)
    assert tight.best.memory == least
    assert sum("a worker needs" in reason for reason in tight.reasons) == 2
    assert "on paper" in str(paper)
    assert "two tins" in str(paper)


def test_meshes_that_cannot_be_are_told_and_the_asked_one_raises() -> None:
    paper = ll.plan(
        step(6), ll.Mesh(data=2, model=8), {"x": ("data", None)}, links=SLOW, device="h200"
    )
    assert {str(mesh) for mesh in paper.refused} >= {"Mesh(data=4, model=4)"}
    assert any("its size is 6" in reason for reason in paper.reasons)
    with pytest.raises(PassError, match="its size is 6"):
        ll.plan(step(6), ll.Mesh(data=4), {"x": ("data", None)}, links=SLOW, device="h200")


def test_links_are_of_the_table_or_one_for_each_axis() -> None:
    with pytest.raises(UnknownNameError, match="no link is called 'nvlink-9'"):
        on_paper(ll.Mesh(data=2, model=1), links="nvlink-9")
    with pytest.raises(ArgumentError, match="model has no link"):
        on_paper(ll.Mesh(data=2, model=1), links={"data": "pcie-5"})
    paper = on_paper(ll.Mesh(data=2, model=2), links={"data": "pcie-5", "model": "nvlink-3"})
    assert [link.name for link in paper.links.values()] == ["pcie-5", "nvlink-3"]


def test_kernels_are_measured_here_and_threads_as_well() -> None:
    need("cc")
    paper = ll.plan(step(), ll.Mesh(data=2, model=1), CUT)
    assert {row.how for row in paper.estimates} == {"measured"}
    assert all(row.kernels for row in paper.estimates)
    assert all(link.is_shared for link in paper.links.values())


def test_a_step_with_numbers_among_its_inputs_is_measured() -> None:
    need("cc")
    cx = ll.Graph("step")
    y = cx.tensor((8, 4), name="x") * cx.tensor((), name="rate")
    y.sum(0).retrieve()
    paper = ll.plan(cx, ll.Mesh(data=2), {"x": ("data", None)}, links=SLOW)
    assert {row.how for row in paper.estimates} == {"measured"}


def test_no_mesh_is_the_best_where_none_has_the_memory() -> None:
    paper = on_paper(ll.Mesh(data=1, model=1), memory=10)
    assert str(paper).startswith("step on 1 worker, on paper")
    assert "best: none, as a worker has 10 B" in str(paper)
    for memory in ("16GB", 0, -1):
        with pytest.raises(ArgumentError, match=f"^plan: memory is {memory!r}"):
            on_paper(ll.Mesh(data=2, model=1), memory=memory)


def test_what_is_no_graph_is_told_of_plan() -> None:
    wrong: Any = ll.nn.Linear(3, 4)
    with pytest.raises(
        ArgumentError, match=r"(?s)^plan: Linear\(3, 4\).* is not a graph"
    ) as caught:
        ll.plan(wrong, ll.Mesh(data=2))
    assert caught.value.hint == "give the session: ll.plan(cx, …)"

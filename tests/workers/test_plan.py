"""Annotations that cannot be: the error names the annotation's line, before anything runs."""

from __future__ import annotations

import re
from typing import Any

import pytest

import luminal_lab as ll


def graph() -> ll.Graph:
    cx = ll.Graph("g")
    x, w = cx.tensor((6, 4), name="x"), cx.tensor((4, 8), name="w")
    (x @ w).named("y").retrieve()
    return cx


def refused(mesh: ll.Mesh, *annotations: dict[str, tuple[str | None, ...]]) -> str:
    """Return the error of a compile, whose place must be the line of the first annotation."""
    plan = ll.sharding(mesh, {k: v for one in annotations for k, v in one.items()})
    with pytest.raises(ll.PassError) as caught:
        graph().compile(ll.Sharded(plan))
    error = caught.value
    assert "test_plan.py" in str(error.where)
    assert "plan = ll.sharding(mesh" in str(error.where)
    return re.sub(r"^pass shard\{.*?\}: ", "", error.message) + f" · {error.hint}"


def test_an_axis_that_does_not_divide() -> None:
    assert refused(ll.Mesh(data=4), {"x": ("data", None)}) == (
        "x: (data, -) cuts axis 0 of %x into 4 parts, and its size is 6 · "
        "6 is not a multiple of 4: use another axis or another mesh"
    )


def test_an_annotation_that_names_nothing() -> None:
    assert refused(ll.Mesh(data=2), {"xx": ("data", None)}) == (
        "the annotation xx: (data, -) names nothing in g · did you mean '%x'?"
    )
    assert refused(ll.Mesh(data=2), {"*.weight": ("data", None)}) == (
        "the annotation *.weight: (data, -) names nothing in g · the inputs: x, w"
    )


def test_two_that_disagree() -> None:
    assert refused(ll.Mesh(data=2), {"x": ("data", None), "?": (None, "data")}) == (
        "%x is annotated twice: x: (data, -), and ?: (-, data) · "
        "keep one of them, or make the pattern narrower"
    )


def test_a_word_too_many() -> None:
    assert refused(ll.Mesh(data=2), {"x": ("data", None, None)}) == (
        "x: (data, -, -) has 3 words, and %x is f32[6, 4] · "
        "give one for each of its 2 axes: an axis of the mesh, or None"
    )


def test_a_size_that_is_not_known() -> None:
    cx = ll.Graph("g")
    cx.tensor(("batch", 4), name="x").sum(0).retrieve()
    plan = ll.sharding(ll.Mesh(data=2), {"x": ("data", None)})
    with pytest.raises(ll.PassError, match="axis 0 of %x, whose size batch is not known"):
        cx.compile(ll.Sharded(plan))


def test_an_axis_that_the_mesh_has_not() -> None:
    with pytest.raises(ll.ArgumentError, match="has no axis 'date'") as caught:
        ll.sharding(ll.Mesh(data=2), {"x": ("date", None)})
    assert caught.value.hint == "did you mean 'data'?"
    assert "test_plan.py" in str(caught.value.where)
    with pytest.raises(ll.ArgumentError, match="cuts two axes over data"):
        ll.sharding(ll.Mesh(data=2), {"x": ("data", "data")})


def test_a_tensor_of_another_graph() -> None:
    other = ll.Graph("other")
    x = other.tensor((6, 4), name="x")
    plan = ll.sharding(ll.Mesh(data=2), {x: ("data", None)})
    with pytest.raises(
        ll.PassError, match=r"annotation %0: \(data, -\) names nothing in g"
    ) as caught:
        graph().compile(ll.Sharded(plan))
    assert caught.value.hint == "it is f32[6, 4] in the graph other; the inputs: x, w"
    assert "plan = ll.sharding" in str(caught.value.where)


@pytest.mark.parametrize("words", [(("data", "model"), None), (0, None)])
def test_words_are_names_of_axes(words: Any) -> None:
    with pytest.raises(ll.ArgumentError, match=r"^sharding: x: the words are ") as caught:
        ll.sharding(ll.Mesh(data=2, model=2), {"x": words})
    assert caught.value.hint == "each is an axis of the mesh, as in 'data', or None"


def test_a_parameter_is_in_no_graph() -> None:
    model = ll.nn.Linear(4, 8)
    with pytest.raises(
        ll.ArgumentError, match=r"^sharding: a parameter belongs to no graph"
    ) as caught:
        ll.sharding(ll.Mesh(data=2), {model.weight: ("data", None)})
    assert "cx.parameters lists them" in str(caught.value.hint)


def test_a_number_is_no_key() -> None:
    with pytest.raises(ll.ArgumentError, match=r"^sharding: 0 is neither a name nor a tensor"):
        ll.sharding(ll.Mesh(data=2), {0: ("data", None)})


@pytest.mark.parametrize("name", ["", "-", "a b", "sum", "max"])
def test_an_axis_of_a_mesh_is_a_word(name: str) -> None:
    with pytest.raises(ll.ArgumentError, match=f"^Mesh: an axis is called {name!r}"):
        ll.Mesh(**{name: 2})


@pytest.mark.parametrize("engine", ["mpi", ll.engines.MPI, 3])
def test_an_engine_is_an_engine(engine: Any) -> None:
    for call in (
        lambda: ll.Sharded(ll.sharding(ll.Mesh(data=2)), engine=engine),
        lambda: ll.Pipelined({"a": 0}, batch="x", engine=engine),
    ):
        with pytest.raises(ll.ArgumentError, match=": the engine is ") as caught:
            call()
        assert "engine=ll.engines.MPI(cluster)" in str(caught.value.hint)


def test_a_device_has_no_workers_of_its_own() -> None:
    plan = ll.sharding(ll.Mesh(data=2))
    for call in (
        lambda device: ll.Sharded(plan, device),
        lambda device: ll.Pipelined({"a": 0}, device, batch="x"),
    ):
        for device in (ll.Sharded(plan), ll.Pipelined({"a": 0}, batch="x")):
            with pytest.raises(ll.ArgumentError, match="has workers of its own"):
                call(device)
    assert ll.Sharded(plan, ll.CUDACompiler(arch="sm_90", emulate=True)).device is not None


def test_a_mesh_larger_than_the_engine() -> None:
    plan = ll.sharding(ll.Mesh(data=65))
    with pytest.raises(ll.ArgumentError, match="has 65 workers, and threads are at most 64") as e:
        ll.Sharded(plan)
    assert "plan = ll.sharding(ll.Mesh(data=65))" in str(e.value.where)


@pytest.mark.parametrize("size", [0, -1, 2.5, True, "2"])
def test_a_mesh_has_whole_numbers(size: object) -> None:
    with pytest.raises(ll.ArgumentError, match="Mesh: the axis data has"):
        ll.Mesh(data=size)  # pyright: ignore[reportArgumentType]


def test_what_workers_cannot_do() -> None:
    cx = ll.Graph("g")
    x = cx.tensor((4,), name="x")
    cx.function(abs, x, shape=(4,)).retrieve()
    with pytest.raises(ll.PassError, match="calls a function of the host, which workers cannot"):
        cx.compile(ll.Sharded(ll.sharding(ll.Mesh(data=2))))
    with pytest.raises(ll.DeviceError, match="was not compiled for a mesh"):
        graph().compile().communication  # noqa: B018  # it raises


def test_tensors_name_themselves() -> None:
    cx = ll.Graph("g")
    x, w = cx.tensor((4, 2), name="x"), cx.tensor((2, 6), name="w")
    y = (x @ w).retrieve()
    plan = ll.sharding(ll.Mesh(data=2), {x: ("data", None), y: (None, "data")})
    rows = cx.compile(ll.Sharded(plan)).communication
    assert [(row.op, row.bytes) for row in rows] == [("all_to_all", 2 * 6 * 4 // 2)]

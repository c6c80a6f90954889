"""What a picture of a graph can be asked for: which nodes, which overlay, and before and after."""

import json

import pytest

import luminal_lab as ll
from luminal_lab.errors import ArgumentError, GraphError, RecordingError
from luminal_lab.viz.graphs import before_and_after, graph_picture
from tests.expect import error_of
from tests.timing.test_timings import TIMINGS
from tests.viz.graphs import gpt2, softmax, trained_mlp


def labels(picture):
    return [item.label for item in picture.payload.items]


def test_a_selection_is_by_name_id_tensor_scope_or_function():
    cx = softmax()
    total = cx["9"]
    for select in ("%9", "9", 9, total, total.node, [total], lambda node: node.id == 9):
        picture = cx.display(select=select)
        assert labels(picture) == ["sum_reduce axis 1", "exp2 %8"]
        assert [item.kind for item in picture.payload.items] == ["reduce", "outside"]
        assert picture.payload.shown == "1 of 13 nodes (2 views in the edges, 10 left out)"


def test_a_view_is_a_node_if_it_is_selected_by_name_and_not_by_scope():
    assert labels(softmax().display(select=["%4", "%5"])) == ["expand", "add", "mul %3", "x"]
    kinds = {item.kind for item in gpt2(2).display(select="gpt2.h.0").payload.items}
    assert "view" not in kinds


def test_a_selected_layer_stands_for_itself():
    picture = gpt2(4).display(select="gpt2.h.2")
    scopes = {item.scope for item in picture.payload.items if item.kind != "outside"}
    assert all(scope.startswith("gpt2.h.2") for scope in scopes)
    assert all(box.times == 1 for box in picture.payload.boxes)
    whole = gpt2(4).display(select="gpt2.h")
    assert max(box.times for box in whole.payload.boxes) == 4


def test_what_is_highlighted_has_a_ring_even_in_a_closed_box():
    picture = gpt2(2).display(highlight="gpt2.h.0.attn.c_attn", depth=0)
    assert [box.highlighted for box in picture.payload.boxes] == [True]
    assert picture.svg.count('class="r"') == 1
    assert softmax().display(highlight=["x", "%12"]).svg.count('class="r"') == 2


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (
            lambda cx: cx.display(select="%sum"),
            GraphError,
            "display: softmax has no node and no scope '%sum'\nhint: print(cx) shows all nodes",
        ),
        (
            lambda cx: cx.display(highlight=99),
            GraphError,
            "display: softmax has no node with the id 99\n"
            "hint: a pass may have replaced it: cx.trace(...) says what it became",
        ),
        (
            lambda cx: cx.display(select=[None]),
            ArgumentError,
            "display: None names no node\n"
            "hint: give names of nodes or scopes, tensors, or a function of a node",
        ),
        (
            lambda cx: cx.display(depth=-1),
            ArgumentError,
            "display: the depth is -1\nhint: give a whole number, 0 closes all scopes",
        ),
        (
            lambda cx: cx.display(overlay=3),
            ArgumentError,
            "display: 3 is not an overlay\n"
            "hint: give a dict of numbers by the names of nodes, timings, or a file of node data",
        ),
        (
            lambda cx: cx.display(overlay={"x": "much"}),
            ArgumentError,
            "display: the overlay says 'much' of 'x'\n"
            "hint: give finite numbers, and leave out the nodes that have none",
        ),
        (
            lambda cx: cx.display(overlay={"x": float("nan")}),
            ArgumentError,
            "display: the overlay says nan of 'x'\n"
            "hint: give finite numbers, and leave out the nodes that have none",
        ),
        (
            lambda cx: cx.display(overlay={"x": 10**5000}),
            ArgumentError,
            "display: the overlay says more than 1.8e+308 of 'x'\n"
            "hint: give finite numbers, and leave out the nodes that have none",
        ),
    ],
)
def test_what_cannot_be_shown_is_refused(call, kind, message):
    error = error_of(lambda: call(softmax()), kind)
    assert "test_graphs.py" in error.where
    assert f"{error.message}\nhint: {error.hint}" == message


def test_a_misspelt_name_gets_the_nearest():
    error = error_of(lambda: gpt2(1).display(select="gpt2.h.0.atn"), GraphError)
    assert error.hint == "did you mean 'gpt2.h.0.attn'?"


def test_the_picture_is_of_the_newest_snapshot_until_more_is_written():
    cx = softmax()
    assert cx.display().payload.title == "softmax as written"
    cx.compile("recognise, dce")
    assert cx.display().payload.title == "softmax after dce"
    assert labels(cx.display()) == ["x", "softmax"]
    cx["x"].sin().retrieve()
    assert cx.display().payload.title == "softmax as written"
    assert cx.snapshots[0].display().payload.title == "softmax as written"
    assert cx.snapshots[1].display().payload.title == "softmax after recognise"


def test_parameters_and_kept_values_are_known_in_a_session():
    kinds = {item.label: item.kind for item in trained_mlp().display(depth=9).payload.items}
    assert (kinds["x"], kinds["weight"]) == ("input", "parameter")


def test_launches_have_the_names_of_their_kernels():
    cx = softmax()
    cx.compile(ll.GenericCompiler(), ll.CPUCompiler())
    (launch,) = cx.launches
    found = next(item for item in cx.display().payload.items if item.kind == "launch")
    assert found.label == launch.kernel.name
    kinds = [item.kind for item in cx.snapshots[-1].display().payload.items]
    assert "call" in kinds


def test_numbers_are_laid_over_nodes():
    items = softmax().display(overlay={"%12": 3, "exp2": 1.0, "8": 1.5}).payload.items
    found = {item.name: (item.value, item.amount, item.heat) for item in items if item.value}
    assert found == {"12": ("3", 3.0, 1.0), "8": ("1.5", 1.5, 0.5)}
    svg = softmax().display(overlay={"%12": 3}).svg
    assert "bar: overlay" in svg


def test_times_are_laid_over_nodes_and_say_how_they_were_got():
    cx = ll.Graph()
    x = cx.tensor((2,), name="x")
    names = [row.node.removeprefix("%") for row in TIMINGS]
    (x * 2).retrieve()
    graph = ll.parse(str(cx.ir).replace("%2", f"%{names[0]}"))
    picture = graph_picture(graph, overlay=TIMINGS)
    found = next(item for item in picture.payload.items if item.value)
    assert found.amount == TIMINGS[0].seconds
    assert picture.payload.overlay.startswith("time, measured")


def test_node_data_of_model_explorer_goes_out_and_comes_in(tmp_path):
    shown = softmax().display(overlay={"%12": 3, "8": 1.5})
    data = shown.to_node_data()
    assert data == {"overlay": {"results": {"%8": {"value": 1.5}, "%12": {"value": 3.0}}}}
    path = tmp_path / "data.json"
    path.write_text(json.dumps(data))
    again = softmax().display(overlay=path)
    assert again.payload == shown.payload
    assert softmax().display(overlay=data).payload == shown.payload
    kinds = softmax().display().to_node_data()["softmax"]["results"]
    assert kinds["%x"] == {"value": "input"}


def test_what_is_no_node_data_is_refused(tmp_path):
    path = tmp_path / "data.json"
    path.write_text("{")
    graph = softmax().ir
    message = str(error_of(lambda: graph.display(overlay=path), RecordingError))
    assert message.startswith(f"display: {path} is not JSON: ")
    path.write_text("[1, 2]")
    assert str(error_of(lambda: graph.display(overlay=path), RecordingError)) == (
        "display: this is not node data of Model Explorer's\n"
        'hint: it looks like {"main": {"results": {"%y": {"value": 0.5}}}}'
    )
    missing = tmp_path / "none.json"
    assert str(error_of(lambda: graph.display(overlay=missing), RecordingError)) == (
        f"display: {missing} cannot be read: No such file or directory\n"
        "hint: give a file of Model Explorer's node data"
    )


def test_a_pair_says_what_changed_by_sign_outline_and_word():
    cx = softmax()
    cx.compile("recognise, dce")
    picture = ll.diff(cx.ir, cx.snapshots[-1].ir).display(theme="light")
    assert picture.text.endswith("1 added, 12 removed, 0 rewired.")
    for word in ("+ added", "− removed"):
        assert word in picture.svg
    assert 's op removed d"' in picture.svg


def test_before_and_after_are_two_pictures_of_one_size():
    cx = softmax()
    cx.compile("recognise, dce")
    before, after = before_and_after(ll.diff(cx.ir, cx.snapshots[-1].ir))
    assert (before.payload.title, after.payload.title) == ("softmax before", "softmax after")
    assert (before.width, before.where.height) == (after.width, after.where.height)
    assert (len(before.payload.items), len(after.payload.items)) == (11, 2)
    assert (before.payload.total, after.payload.total) == (13, 2)

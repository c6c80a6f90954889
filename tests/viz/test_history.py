"""Training curves: numbers by step, as a picture and a figure, live while a loop runs."""

import json
import math
import sys
import types
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest

import luminal_lab as ll
from luminal_lab.errors import ArgumentError, GraphError
from luminal_lab.viz import history as module
from luminal_lab.viz.history import MOST, curve_chart
from tests.expect import error_of
from tests.needs import need


def grown(count: int = 5) -> ll.History:
    history = ll.History("digits")
    for k in range(count):
        history.add(loss=2.0 / (k + 1))
    return history


def test_steps_count_on_and_names_may_come_later():
    history = grown(2)
    history.add(loss=0.5, accuracy=0.9)
    history.add(10, accuracy=0.95)
    assert history.steps == (0, 1, 2, 10)
    assert history.names == ("loss", "accuracy")
    np.testing.assert_array_equal(history["loss"], [2, 1, 0.5, math.nan])
    steps, values = history.curve("accuracy")
    assert (steps.tolist(), values.tolist()) == ([2, 10], [0.9, 0.95])
    history.add(loss=0.25)
    assert history.steps[-1] == 11
    history.add(11, accuracy=1)
    assert [dict(row) for _, row in history][-1] == {"loss": 0.25, "accuracy": 1.0}


def test_a_tensor_that_was_computed_is_a_number():
    cx = ll.Graph()
    loss = cx.tensor((3,), name="x").set([1, 2, 3]).sum().retrieve()
    cx.execute()
    history = ll.History()
    history.add(loss=loss, other=np.float32(2), whole=3)
    assert dict(next(iter(history))[1]) == {"loss": 6.0, "other": 2.0, "whole": 3.0}


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda h: h.add(loss="low"), "history: loss is 'low', and no number"),
        (lambda h: h.add(loss=np.ones(2)), "history: loss is array([1., 1.]), and no number"),
        (lambda h: h.add(8), "history: there is nothing to add"),
        (lambda h: h.add(1, loss=1), "history: step 1 comes after step 4"),
        (lambda h: h.add("last", loss=1), "history: the step is 'last'"),
    ],
)
def test_what_is_no_number_or_no_step_is_refused(call, text):
    assert error_of(lambda: call(grown()), ArgumentError).message == text


def test_a_name_that_is_not_there_gets_the_nearest():
    assert str(error_of(lambda: grown()["los"], GraphError)) == (
        "history: nothing was added under 'los'\nhint: did you mean 'loss'?"
    )


def test_words_say_the_last_number_the_least_and_where_it_went_wrong():
    history = grown()
    assert str(history) == "digits: 5 steps; loss 0.4, least 0.4 at step 4"
    assert repr(history) == "<History of digits: 5 steps; loss 0.4>"
    history.add(loss=math.nan)
    assert str(history) == (
        "digits: 6 steps; loss nan, least 0.4 at step 4, not finite from step 5"
    )
    assert repr(ll.History()) == "<History of training: 0 steps>"


def test_the_picture_needs_no_script_and_is_the_same_for_equal_numbers():
    history = grown()
    shown = history._repr_mimebundle_()
    assert set(shown) == {"text/html", "image/svg+xml", "text/plain"}
    assert shown["text/html"].startswith('<img decoding="sync" src="data:image/svg+xml;base64,')
    assert shown == grown()._repr_mimebundle_()
    root = ElementTree.fromstring(shown["image/svg+xml"])
    texts = ["".join(one.itertext()) for one in root.iter() if one.tag.endswith("}text")]
    assert {"digits", "step", "loss 0.4", "0", "4"} <= set(texts)


def test_a_single_number_and_none_at_all_are_pictures_too():
    assert "nothing was added yet" in ll.History().display().svg
    assert "h0.1" in grown(1).display().svg
    flat = ll.History()
    for _ in range(3):
        flat.add(loss=0.0)
    assert "nan" not in flat.display().svg


def test_many_points_are_thinned_and_no_peak_is_lost():
    history = ll.History()
    for k in range(10_000):
        history.add(loss=5.0 if k == 7_777 else math.sin(k / 500))
    svg = history.display().svg
    path = next(part for part in svg.split('d="')[1:] if part.count("L") > 50).partition('"')[0]
    assert path.count("L") <= MOST
    heights = [float(part.split()[1]) for part in path.replace("M", "L").split("L")[1:]]
    assert min(heights) < sorted(heights)[1] - 50
    assert len(svg) < 20_000


def test_curves_are_told_apart_by_dashes_as_well():
    history = ll.History()
    for k in range(3):
        history.add(a=k, b=2 * k, c=3 * k)
    data = curve_chart(history)["data"]
    assert len({one["line"]["dash"] for one in data}) == 3
    assert history.display().svg.count("stroke-dasharray") >= 2
    assert [one["name"] for one in curve_chart(history, ("b",))["data"]] == ["b"]
    assert json.loads(json.dumps(curve_chart(history))) == curve_chart(history)


def test_what_is_not_finite_is_a_gap():
    history = ll.History()
    for value in (1.0, math.inf, 3.0, math.nan):
        history.add(loss=value)
    assert curve_chart(history)["data"][0]["y"] == [1.0, None, 3.0, None]
    assert history.display().svg.count("inf") == history.display().svg.count("Infinity")


def test_a_table_has_a_row_for_each_step():
    need("pandas")
    history = grown(2)
    history.add(accuracy=0.5)
    table = history.to_pandas()
    assert list(table.columns) == ["step", "loss", "accuracy"]
    assert table["accuracy"].isna().tolist() == [True, True, False]


class Handle:
    def __init__(self, shown: list[str]) -> None:
        self.shown = shown

    def update(self, what) -> None:
        self.shown.append(str(what))


def test_a_notebook_shows_it_while_it_grows_and_not_all_the_time(monkeypatch):
    shown: list[str] = []
    now = [0.0]

    def display(what, display_id):
        assert display_id
        shown.append(str(what))
        return Handle(shown)

    monkeypatch.setattr(module, "outputs", lambda: display)
    monkeypatch.setattr(module, "monotonic", lambda: now[0])
    with ll.History() as history:
        for k in range(100):
            now[0] += 0.02
            history.add(loss=k)
    steps = [int(text.split()[1]) for text in shown]
    assert steps[0] == 0
    assert steps[-1] == 100
    assert len(steps) == 5 + 1  # at first, each half second of two, at the end
    history.add(loss=1)
    assert len(shown) == len(steps)


def test_ctrl_c_leaves_what_there_is(monkeypatch):
    shown: list[str] = []
    monkeypatch.setattr(module, "outputs", lambda: lambda what, display_id: Handle(shown))
    history = ll.History()
    with pytest.raises(KeyboardInterrupt), history:  # noqa: PT012  # what is inside raises
        history.add(loss=1)
        raise KeyboardInterrupt
    assert shown[-1].startswith("training: 1 step")


def test_outside_a_notebook_nothing_is_shown(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "IPython", types.SimpleNamespace(get_ipython=lambda: None))
    with ll.History() as history:
        history.add(loss=1)
    assert len(history) == 1
    assert capsys.readouterr() == ("", "")

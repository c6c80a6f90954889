"""Devices side by side: which launches share a row, what a cell says, what asks for nothing."""

import re
from dataclasses import dataclass, replace
from functools import partial
from inspect import currentframe
from pathlib import Path
from types import FrameType, SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

import luminal_lab as ll
from luminal_lab.core.interpret import NodeStep
from luminal_lab.devices.gpu.program import GPUProgram
from luminal_lab.errors import (
    ArgumentError,
    DeviceError,
    DimError,
    GraphError,
    InputError,
    LabWarning,
    RangeError,
)
from luminal_lab.nn import models
from luminal_lab.timing.compare import SideBySide
from luminal_lab.timing.subject import subject_of
from tests.devices import made_up
from tests.devices.made_up import RATES, Unfused, recording, rescheduled, written
from tests.expect import error_of, state
from tests.needs import need

T4, H200 = ll.devices.specification("t4"), ll.devices.specification("h200")


@pytest.fixture
def _compiler(tmp_path, monkeypatch):
    need("cc")
    monkeypatch.setattr("luminal_lab.timing.measure.peak_rates", lambda: RATES)


def line_of(name):
    """Return the line of the made-up session that names a value."""
    lines = Path(made_up.__file__).read_text(encoding="utf-8").splitlines()
    return 1 + next(k for k, line in enumerate(lines) if f'named("{name}")' in line)


# -- rows ------------------------------------------------------------------------------------------


def test_devices_that_fuse_alike_have_a_row_for_each_launch():
    found = ll.compare(written(), [T4, H200])
    assert [one.name for one in found] == ["%h", "%y", "%z"]
    assert [tuple(map(len, one.parts)) for one in found] == [(1, 1)] * 3
    assert [one.lines for one in found] == [(f"made_up.py:{line_of(k)}",) for k in "hyz"]


def test_a_row_is_what_lies_between_values_that_all_devices_hold():
    found = ll.compare(written(), [H200, Unfused()])
    assert [one.name for one in found] == ["%h", "%y", "%z"]
    fused, apart = zip(*(map(len, one.parts) for one in found), strict=True)
    assert fused == (1, 1, 1)
    assert min(apart) > 1
    # Nothing is lost, and nothing is listed twice.
    for place, column in enumerate(found.columns):
        parts = [part for one in found for part in one.parts[place]]
        assert sorted(map(str, parts)) == sorted(map(str, column.parts))
    assert found[0].seconds(1) == pytest.approx(1e-3 * apart[0])


def test_what_two_launches_compute_both_ties_no_rows_together():
    cx = ll.Graph()
    x = cx.tensor((64, 64), name="x")
    mask = cx.arange(64).unsqueeze(0) > cx.arange(64).unsqueeze(1)
    (x @ x).masked_fill(mask, 0.0).named("a").retrieve()
    (x.T @ x).masked_fill(mask, 1.0).named("b").retrieve()
    assert [one.name for one in ll.compare(cx, [T4, H200])] == ["%a", "%b"]


def test_equal_layers_are_one_kernel_and_rows_of_their_own():
    cx = ll.Graph()
    h = cx.tensor((32, 32), name="x")
    w = cx.tensor((32, 32), name="w")
    for k in range(3):
        h = (h @ w).relu().named(f"h{k}")
    h.retrieve()
    found = ll.compare(cx, [T4, H200])
    assert [one.name for one in found] == ["%h0", "%h1", "%h2"]
    assert len({part.kernel for one in found for part in one.parts[0]}) == 1


def test_a_model_has_a_row_for_each_launch_that_ends_in_its_value():
    model = models.GPT2(layers=3, heads=2, width=32, vocab=64, context=32)
    cx = ll.Graph()
    model(cx.tensor((1, 16), "int64", "tokens")).named("logits").retrieve()
    found = ll.compare(cx, [T4, H200])
    assert all(tuple(map(len, one.parts)) == (1, 1) for one in found)
    assert len({one.name for one in found}) == len(found) == len(found.columns[0].parts)
    assert found[-1].name == "%logits"
    scopes = [one.scope for one in found if one.parts[0][0].kernel == "attention_causal"]
    assert scopes == [f"gpt2.h.{k}.attn" for k in range(3)]


def test_rows_are_found_by_place_value_and_kernel():
    found = ll.compare(written(), [T4])
    assert found[0] is found["%h"] is found["h"] is found[found[0].parts[0][0].kernel]
    assert found[-1] is found["z"]
    error = error_of(lambda: found["hh"], GraphError)
    assert str(error) == "compare: there is no segment 'hh'\nhint: did you mean 'h'?"
    error = error_of(lambda: found[3], RangeError)
    assert error.message == "compare: there is no segment 3; there are 3"


def test_the_slowest_come_first_on_request():
    found = ll.compare(written(), [ll.Recorded(recording(written())), H200])
    for device in (0, "A", "a made-up machine"):
        assert [one.name for one in found.slowest(device)] == ["%y", "%z", "%h"]
    assert type(found.slowest()) is type(found)
    error = error_of(lambda: found.slowest("H100"), ArgumentError)
    assert str(
        error
    ) == "compare: 'H100' is none of the devices\nhint: they are a made-up machine, H200" or (
        "did you mean" in str(error)
    )


# -- how a time was got ----------------------------------------------------------------------------


def test_modelled_and_recorded_and_measured_never_look_alike():
    found = ll.compare(written(), [Unfused(), ll.Recorded(recording(written())), H200])
    lines = str(found).splitlines()
    assert lines[:4] == [
        "small: 3 segments",
        "  A  unfused (nothing): measured, 2026-01-02 03:04",
        "  B  a made-up machine: °recorded, 2026-01-02 03:04",
        "  C  H200: ~modelled",
    ]
    assert re.split(" {2,}", lines[4])[2] == "A ms"
    assert [word for word in lines[4].split() if word[-2:] == "ms"] == ["ms", "°ms", "~ms"]
    numbers = lines[5].split()
    assert sum(word[0] == "°" for word in numbers) == 2  # the time and its spread
    assert sum(word[0] == "~" for word in numbers) == 1
    need("pandas")
    table = found.to_pandas()
    assert list(table["how"][:3]) == ["measured", "recorded", "modelled"]
    assert table["spread"].isna().tolist()[:3] == [False, False, True]
    html = found._repr_html_()
    for word in (">measured<", ">°recorded<", ">~modelled<"):
        assert html.count(word) == 1


def test_every_style_of_the_table_is_a_list_of_declarations():
    found = ll.compare(written(), [Unfused(), H200])
    for style in set(re.findall(r'style="([^"]*)"', found._repr_html_())):
        for declaration in style.rstrip(";").split(";"):
            assert re.fullmatch(r"[a-z-]+:[^:;]+", declaration), style


def test_the_text_says_what_a_model_assumes_and_ignores_once_for_all_it_holds_of():
    lines = str(ll.compare(written(), [T4, H200])).splitlines()
    (assumed,) = [line for line in lines if "a launch takes at least 2 µs" in line]
    assert assumed.startswith("A, B: a launch takes at least 2 µs (assumed: ")
    assert sum("ignores" in line for line in lines) == 1


def test_totals_say_what_they_leave_out():
    both = [ll.Recorded(recording(written())), ll.Recorded(rescheduled(recording(written()), 0))]
    found = ll.compare(written(), both)
    (total,) = [line for line in str(found).splitlines() if line.startswith("all launches")]
    assert re.findall(r"°[\d.]+", total) == ["°6.000", "°5.000"]
    assert "without 1" in total
    assert [one.label for one in found.columns] == ["a made-up machine", "a made-up machine #2"]


def test_a_segment_opens_into_the_launches_of_each_device():
    lines = str(ll.compare(written(), [T4, Unfused()])["y"]).splitlines()
    assert lines[0] == f"%y  made_up.py:{line_of('y')}"
    assert lines[2].startswith("T4 ")
    assert "~" in lines[2]
    assert lines[3].startswith("unfused ")
    assert all(line.startswith("  ") for line in lines[4:])


@pytest.mark.usefixtures("_compiler")
def test_this_cpu_is_measured_and_the_session_stays_as_it_is():
    cx = written()
    cx.execute()
    before, values = state(cx), cx["y"].numpy()
    found = ll.compare(cx, [ll.CPU(threads=1), H200], rounds=3, warm_up=1)
    assert state(cx) == before
    assert np.array_equal(cx["y"].numpy(), values)
    measured, modelled = found.columns
    assert (measured.how, modelled.how) == ("measured", "modelled")
    assert measured.label == "this CPU, 1 thread"
    assert [len(part.samples) for part in measured.parts] == [3] * 3
    assert len(measured.whole) == 3
    assert [tuple(map(len, one.parts)) for one in found] == [(1, 1)] * 3
    assert all(one.share(0) for one in found)
    assert " ms for a whole run" in str(found)
    assert found._repr_html_().count(" ms for a whole run</small>") == 1
    assert {one.bound(0) for one in found} <= {"compute", "memory", "cache"}


# -- a table in a cell -----------------------------------------------------------------------------


def test_the_table_in_a_cell_is_static_and_takes_its_colours_from_around_it():
    html = ll.compare(written(), [Unfused(), H200])._repr_html_()
    assert "<script" not in html
    assert "<style" not in html
    assert not re.search(r"#[0-9a-fA-F]{3,6}\b", html)
    assert "javascript" not in html
    assert html.count("<details>") == 3
    for tag in ("div", "table", "tr", "td", "th", "details", "summary", "span", "small"):
        assert len(re.findall(rf"<{tag}\b", html)) == html.count(f"</{tag}>"), tag


def test_names_are_escaped():
    odd = replace(recording(written()), device="a<b>&c")
    html = ll.compare(written(), [ll.Recorded(odd)])._repr_html_()
    assert "a&lt;b&gt;&amp;c" in html
    assert "<b>&c" not in html


# -- devices that are not here ---------------------------------------------------------------------


@pytest.fixture
def _no_gpu(monkeypatch):
    """Hide what GPU there may be."""

    def device(self):
        raise DeviceError("cuda: there is no NVIDIA GPU on this machine")

    monkeypatch.setattr(GPUProgram, "device", property(device))


@pytest.mark.usefixtures("_no_gpu")
def test_a_gpu_that_is_not_here_is_modelled_and_says_so():
    found = ll.compare(written(rows=16), [ll.CUDA("h200"), ll.Metal("m3 max")])
    assert [column.how for column in found.columns] == ["modelled", "modelled"]
    assert [column.label for column in found.columns] == ["H200", "M3 Max"]
    why = "not measured: cuda: there is no NVIDIA GPU on this machine"
    assert [column.notes[0] for column in found.columns] == [why, why]
    assert all(part.samples for column in found.columns for part in column.parts)


@pytest.mark.usefixtures("_no_gpu")
def test_a_gpu_without_a_name_must_be_here():
    error = error_of(lambda: ll.compare(written(rows=16), [ll.CUDA()]), DeviceError)
    assert error.message == "cuda: there is no NVIDIA GPU on this machine"


@pytest.fixture
def _stand_in(monkeypatch):
    """A GPU that says it is an H200, and takes 1 ms for whatever it is asked; cuBLAS has a part."""

    def ran(self, environment, wanted, known, trace=None):
        if trace is not None:
            trace += [NodeStep(self.ir[launch.node], 1e-3, 0) for launch in self.launches]
        return {}

    def chosen(name):
        return "by cuBLAS: 1.0 µs" if name == "matmul_gelu" else ""

    engine = SimpleNamespace(name="NVIDIA H200", clock="a clock", chosen=chosen)
    monkeypatch.setattr(GPUProgram, "engine", engine)
    monkeypatch.setattr(GPUProgram, "is_running", True)
    monkeypatch.setattr(GPUProgram, "run", ran)


@pytest.mark.usefixtures("_stand_in")
def test_a_gpu_that_is_here_is_measured_by_its_own_clock():
    found = ll.compare(written(rows=16), [ll.CUDA(), ll.CUDA("h200")], rounds=3)
    for column in found.columns:
        assert (column.how, column.device) == ("measured", "NVIDIA H200")
        assert {part.samples for part in column.parts} == {(1e-3,) * 3}
        assert len(column.whole) == 3
        assert column.specification is ll.devices.specification("h200")
    assert found[0].share(0) == pytest.approx((found[0].parts[0][0].least or 0) / 1e-3)
    # What a library has computed is not taken for ours.
    (note,) = found.columns[0].notes
    assert note.endswith(": by cuBLAS: 1.0 µs")


@dataclass(frozen=True)
class Missing:
    """A device that is not here."""

    why: str
    name: str = "made-up"

    def column(self, subject, rounds, warm_up):
        raise DeviceError(f"{self.name}: {self.why}", hint="buy one")


def test_devices_that_are_not_here_have_no_column_and_are_told_at_the_users_line():
    with pytest.warns(LabWarning) as told:
        found = ll.compare(written(), [Missing("sold out"), T4, Missing("broken"), H200])
    line = cast("FrameType", currentframe()).f_lineno - 1
    assert [column.label for column in found.columns] == ["T4", "H200"]
    assert [str(one.message) for one in told] == [
        "compare: made-up has no column: made-up: sold out\nhint: buy one",
        "compare: made-up has no column: made-up: broken\nhint: buy one",
    ]
    assert {(one.filename, one.lineno) for one in told} == {(__file__, line)}


def test_where_no_device_is_here_the_first_says_why():
    devices = [Missing("sold out"), Missing("broken")]
    error = error_of(lambda: ll.compare(written(), devices), DeviceError)
    assert (error.message, error.hint) == ("made-up: sold out", "buy one")
    assert "ll.compare(written(), devices)" in str(error.where)


@pytest.mark.usefixtures("_stand_in")
def test_another_card_than_the_one_that_is_here_is_modelled():
    (column,) = ll.compare(written(rows=16), [ll.CUDA("t4")]).columns
    assert (column.how, column.label) == ("modelled", "T4")
    assert column.notes[0] == "not measured: the GPU here is NVIDIA H200"


def test_a_card_of_another_maker():
    error = error_of(lambda: ll.compare(written(), [ll.Metal("t4")]), ArgumentError)
    assert str(error) == (
        "compare: T4 is not a device for ll.Metal: it is made by NVIDIA\n"
        "hint: give its specification alone: ll.devices.specification('t4')"
    )


# -- what cannot be --------------------------------------------------------------------------------


def test_a_device_cannot_be_measured_without_data():
    cx = written()
    cx.reset()
    error = error_of(lambda: ll.compare(cx, [ll.CPU()]), InputError)
    assert error.message == (
        "compare: the CPU cannot be measured: the input %x was never set; it is f32[n, 64]"
    )
    error = error_of(lambda: ll.compare(cx, [H200]), DimError)
    assert error.message == "compare: the dim 'n' has no size, and without data none is known"
    assert "test_compare.py" in (error.where or "")
    assert error.hint == 'give it one, as in compare(cx, devices, dims={"n": 128})'
    assert len(ll.compare(cx, [H200], dims={"n": 128})) == 3


def test_two_sessions_have_another_comparison():
    cx = written()
    for other in (cx, cx.compile("dce")):
        error = error_of(partial(ll.compare, cx, cast("Any", [other])), ArgumentError)
        assert error.hint == (
            "two sessions are compared by first.time().beside(second.time()), and their passes "
            "by ll.beside(first, second)"
        )


@pytest.mark.parametrize(
    ("given", "kind", "message"),
    [
        ({"devices": []}, ArgumentError, "compare: there are no devices"),
        ({"devices": ["h200"]}, ArgumentError, "compare: 'h200' is not a device"),
        ({"devices": 3}, ArgumentError, "compare: 3 is not a device"),
        ({"cx": 3}, ArgumentError, "compare: 3 is not a graph"),
        (
            {"cx": ll.Graph()},
            GraphError,
            "compare: nothing is retrieved, so there is nothing to compute",
        ),
        ({"rounds": 0}, ArgumentError, "compare: rounds is 0"),
        ({"warm_up": -1}, ArgumentError, "compare: warm_up is -1"),
        ({"dims": {"m": 3}}, DimError, "compare: dims names 'm', and this graph has no such dim"),
        ({"dims": {"n": 1.5}}, ArgumentError, "compare: dims gives the dim 'n' the size 1.5"),
    ],
)
def test_arguments_that_cannot_be(given, kind, message):
    given = {"cx": written(), "devices": [H200], **given}
    error = error_of(lambda: ll.compare(given.pop("cx"), given.pop("devices"), **given), kind)
    assert error.message == message
    assert error.hint


def test_dims_that_the_data_contradicts():
    error = error_of(lambda: ll.compare(written(), [H200], dims={"n": 17}), DimError)
    assert error.message == (
        "compare: the data of %x is (16, 64), but it should be (17, 64) with n = 17 from set_dim"
    )
    assert error.hint == "leave dims out where data has the sizes"


def test_python_functions_are_not_measured():
    cx = written()
    cx.function(np.sort, cx["x"], shape=("n", 64), name="sort").retrieve()
    error = error_of(lambda: ll.compare(cx, [ll.CPU()]), DeviceError)
    assert error.message.startswith("compare: the CPU cannot be measured: %")
    assert error.message.endswith(" calls a Python function")
    found = ll.compare(cx, [H200])
    assert ("NumPy computes it, and nothing models that",) in [one.missing(0) for one in found]


def test_many_rows_are_cut_and_it_is_said():
    found = ll.compare(written(), [H200])
    many = replace(found, segments=found.segments * 20)
    assert isinstance(many, SideBySide)
    assert "  and 30 more segments, which the totals count" in str(many)
    assert repr(found) == "<SideBySide of small: 3 segments on H200; print(…) shows it>"


@pytest.mark.parametrize("rows", [4, "n"])
def test_weights_in_few_bits_are_compared_as_they_are(rows: int | str):
    cx = ll.Graph()
    layer = ll.nn.Linear(64, 32, bias=False).initialise(0)
    ll.quantise(layer, "q8_0")
    layer(cx.tensor((rows, 64), name="x").set(np.ones((4, 64), np.float32))).retrieve()
    environment = subject_of(cx).measurable("it")
    for node in cx.ir.inputs:
        data = environment.data(node)
        assert (data.dtype, data.shape[1]) == (node.dtype.numpy, node.shape[1])
    (segment,) = ll.compare(cx, [ll.CPU(threads=1)], rounds=1)
    assert segment.seconds(0)

"""What an opened recording is: parts, tables, pictures, pages."""

import re
from pathlib import Path

import pytest

import luminal_lab as ll
from luminal_lab.errors import PassError
from luminal_lab.io.gather import subject_of
from luminal_lab.io.opened import Opened
from luminal_lab.io.recording import save_recording
from tests.expect import error_of
from tests.io import recorded


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Opened:
    """A file of two compiles."""
    subjects = []
    for name in ("one", "two"):
        cx = ll.Graph(name)
        (cx.tensor((2,), name="x") * 1 + 0).named("y").retrieve()
        subjects.append(subject_of(cx.compile("simplify, dce")))
    path = tmp_path_factory.mktemp("opened") / "run.lab"
    save_recording(path, subjects)
    return ll.open(path)


def test_parts_are_found_by_number_and_by_title(run):
    assert [part.title for part in run] == ["one", "two"]
    assert run[1].title == run["two"].title == run[-1].title == "two"
    assert run["simplify"] is run.snapshots[1]
    assert run[1]["dce"] is not run["dce"]
    assert str(error_of(lambda: run[2])) == (
        "recording run.lab: there is no part 2; there are 2\n"
        "hint: they count from 0; run.snapshots has the passes"
    )
    assert "no pass 'simplifi' ran" in str(error_of(lambda: run["simplifi"]))


def test_a_recording_is_no_pass(run):
    cx = ll.Graph()
    cx.tensor((2,)).retrieve()
    told = str(error_of(lambda: cx.compile(run), PassError))
    assert told.startswith("pipeline: <Opened run.lab")
    assert "is not a pass" in told


def test_its_text_says_what_it_holds(run):
    one = "one, 5 → 1 nodes; 2 passes, 6 firings"
    assert repr(run) == f"<Opened run.lab: {one} and 1 more>"
    first, *rest = str(run).splitlines()
    assert first.startswith("run.lab: saved by luminal_lab ")
    assert rest == [f"  {one}", "  two, 5 → 1 nodes; 2 passes, 6 firings"]


@pytest.mark.needs("pandas")
def test_tables(run):
    table = run.to_pandas()
    assert [*table["pass"]] == ["written", "simplify", "dce"]
    assert [*table["firings"]] == [0, 2, 4]
    assert table.attrs == {"title": "one"}
    assert len(run.to_pandas("times")) == 0
    assert str(error_of(lambda: run.to_pandas("time"))) == (
        "recording: there is no table of 'time'\nhint: did you mean 'times'?"
    )


def test_it_is_shown_as_its_last_graph(run):
    shown = run._repr_mimebundle_()
    assert shown["text/plain"] == str(run)
    assert shown["image/svg+xml"] == run.snapshots[-1]._repr_mimebundle_()["image/svg+xml"]
    assert "1 of 1 node." in run.display().text


def test_parameters_and_kernels_look_as_in_the_session(tmp_path):
    cx = ll.Graph("g")
    weight = ll.Parameter((2,), name="w")
    (cx.tensor((2,), name="x") * cx.parameter(weight)).retrieve()
    cx.compile()
    cx.save(tmp_path / "run.lab")
    here = cx.display().svg.replace(f"{Path(__file__).parent}/", "")
    assert ll.open(tmp_path / "run.lab").display().svg == here


def test_it_is_saved_again_as_it_is(run, tmp_path):
    run.save(tmp_path / "again.lab")
    again = ll.open(tmp_path / "again.lab")
    assert [part.title for part in again] == ["one", "two"]
    assert [str(one.ir) for one in again.snapshots] == [str(one.ir) for one in run.snapshots]
    assert again.facts == run.facts


@pytest.mark.parametrize("until", ["rule add-zero", "%y", "add-zero"])
def test_where_a_compile_stopped_and_why_is_said_as_before(until, tmp_path):
    cx = ll.Graph("g")
    y = (cx.tensor((4, 8), name="x").softmax(-1) + 0).named("y").retrieve()
    stopped = cx.compile("recognise, simplify, dce", until=y if until == "%y" else until)
    assert stopped.stop is not None
    for save in (cx.save, stopped.save):
        save(tmp_path / "run.lab")
        run = ll.open(tmp_path / "run.lab")
        again = run.compilation.stop
        assert again is not None
        assert (str(again), again.asked) == (str(stopped.stop), stopped.stop.asked)
        assert str(run.compilation).splitlines()[-1] == str(stopped).splitlines()[-1]
        assert repr(run.compilation) == repr(stopped)
        assert again.reason in str(run)
        assert run.workbench().stage.index == again.snapshot.index
        run.save(tmp_path / "again.lab")
        third = ll.open(tmp_path / "again.lab").compilation.stop
        assert third is not None
        assert third.reason == again.reason


def test_a_compile_that_ran_to_its_end_says_nothing_of_it(run):
    assert run.compilation.stop is None
    assert "stopped" not in str(run) + repr(run.compilation)


@pytest.mark.parametrize(
    ("stop", "said"),
    [
        ({"snapshot": 9, "firing": 1}, "it stopped in pass 9; there are 1"),
        ({"snapshot": 0, "firing": 1}, "it stopped in pass 0; there are 1"),
        ({"snapshot": -1, "firing": 1}, "it stopped in pass -1; there are 1"),
        ({"snapshot": 1, "firing": 10**9}, "it stopped at firing 1000000000 of simplify, of 1"),
        ({"snapshot": 1, "firing": 0}, "it stopped at firing 0 of simplify, of 1"),
        ({"snapshot": 1, "firing": "1"}, "firing is '1', not a whole number"),
        ({"snapshot": 1, "firing": 1, "asked": ["x"]}, "asked is ['x'], not a text"),
        ({"snapshot": 1}, "lacks firing"),
        ([1, 1], "not an object"),
    ],
)
def test_a_stop_that_leads_nowhere_is_refused(stop, said, tmp_path):
    cx = ll.Graph("g")
    (cx.tensor((2,), name="x") + 0).named("y").retrieve()
    cx.compile("simplify, dce", until="rule add-zero")
    cx.save(tmp_path / "run.lab")

    def change(document):
        document["subjects"][0]["facts"]["stop"] = stop

    recorded.rewrite(tmp_path / "run.lab", change)
    with pytest.raises(ll.RecordingError, match=re.escape(said)):
        ll.open(tmp_path / "run.lab")

"""The page: what is kept of it, what is written anew, and that ours is what its rows say."""

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from luminal_lab.bench.page import BEGIN, END, chart, joined, page, placed, record, write_page
from luminal_lab.bench.rows import Report, read_report
from luminal_lab.bench.workloads import workloads
from luminal_lab.errors import ArgumentError
from tests.bench.test_rows import report, row
from tests.expect import error_of

DOCS = Path(__file__).parents[2] / "docs"


def measured(name="gelu", ours=(1.0, 1.2, 1.1), date="2026-01-02 03:04", **peers):
    made = row(name, ours, **(peers or {"NumPy": [2.0, 2.2, 2.1]}))
    made.minima = {name: min(times) for name, times in made.rounds.items()}
    made.date = date
    return made


def test_the_page_is_what_its_rows_say():
    kept = read_report(DOCS / "performance.json")
    text = (DOCS / "performance.md").read_text("utf-8")
    assert placed(text, page(kept, "images/performance.svg")) == text, "run make performance"
    assert (DOCS / "images" / "performance.svg").read_text("utf-8") == chart(kept)
    known = [one.name for one in workloads()]
    assert [row.name for row in kept.rows] + kept.left_out == sorted(
        known, key=lambda name: (name in kept.left_out, known.index(name))
    )


def test_a_page_keeps_what_is_written_by_hand(tmp_path):
    path = tmp_path / "speed.md"
    path.write_text(f"# Speed\n\nBefore.\n\n{BEGIN}\nold\n{END}\n\nAfter.\n", "utf-8")
    write_page(path, report(measured()))
    text = path.read_text("utf-8")
    assert text.startswith(
        f"# Speed\n\nBefore.\n\n{BEGIN}\n\nluminal_lab 0.1 on a laptop, 2 threads, "
    )
    assert text.endswith(f"Nothing.\n\n{END}\n\nAfter.\n")
    assert "| gelu | a thing | 1.1 | 1 | 2.1 | 2 | NumPy | 1.91 | 2.00 | 45% |" in text
    assert "![Our speed beside the fastest library's, row by row](images/speed.svg)" in text
    assert (tmp_path / "images" / "speed.svg").exists()
    first = {one.name: one.read_bytes() for one in tmp_path.rglob("*") if one.is_file()}
    write_page(path, read_report(tmp_path / "speed.json"))
    assert first == {one.name: one.read_bytes() for one in tmp_path.rglob("*") if one.is_file()}


def test_a_page_that_is_not_there_is_made(tmp_path):
    write_page(tmp_path / "new.md", report(measured()))
    assert (tmp_path / "new.md").read_text("utf-8").startswith(f"# Performance\n\n{BEGIN}\n")


def test_a_page_without_a_place_is_refused_before_anything_is_written(tmp_path):
    path = tmp_path / "other.md"
    path.write_text("# Other\n", "utf-8")
    error = error_of(lambda: write_page(path, report(measured())), ArgumentError)
    assert error.message == f"bench: {path} has no place for the table"
    assert [one.name for one in tmp_path.iterdir()] == ["other.md"]


def test_rows_that_were_not_run_stay_and_those_that_became_slower_say_so():
    then = report(measured("softmax"), measured("gelu", date="2026-01-01 00:00"))
    now = joined(report(measured("gelu", (3.0, 3.2, 3.1))), then)
    assert [(row.name, row.slower) for row in now.rows] == [
        (
            "gelu",
            "3.1 ms, and 1.1 ms then: 2.82 times as long (rounds of 3 to 3.2 ms; then rounds of "
            "1 to 1.2 ms); measured 2026-01-01 00:00",
        ),
        ("softmax", ""),
    ]
    text = page(now, "x.svg")
    assert "became slower since the last run\n\n- gelu: 3.1 ms, and 1.1 ms then: 2.82" in text
    assert "2026-01-02 03:04 to 03:04 UTC" in text


def test_workloads_that_were_never_run_are_named():
    now = joined(report(measured("gelu")), None)
    assert now.left_out[:2] == ["softmax", "layer-norm"]
    assert "Not measured yet: `softmax`, `layer-norm`, " in page(now, "x.svg")


def test_what_was_measured_under_load_has_a_mark():
    made = measured()
    made.busy = 0.7
    text = page(report(made), "x.svg")
    assert "kept at most 0.7 cores busy" in text
    assert "| gelu `*` |" in text


def test_a_record_is_read_back_as_far_as_the_page_goes():
    made = report(measured(), measured("softmax", ours=()))
    made.rows[0].unable = {"JAX": "it is not there"}
    text = record(made)
    assert len(text.splitlines()) == 2 + len(made.rows)
    assert "unable" not in json.loads(text)["rows"][0]
    again = Report.from_json(text)
    assert page(again, "x.svg") == page(made, "x.svg")
    assert record(Report.from_json(record(again))) == record(again)


@pytest.mark.parametrize("ours", [0.001, 1.0, 1000.0])
def test_the_chart_has_a_dot_and_a_ring_for_each_row_within_its_width(ours):
    made = report(measured("gelu", (ours,)), measured("softmax", ()))
    root = ElementTree.fromstring(chart(made))
    circles = [one for one in root.iter() if one.tag.endswith("circle")]
    assert len(circles) == 2
    assert all(172 <= float(one.attrib["cx"]) <= 680 for one in circles)
    assert ("ring" in circles[0].attrib["class"]) > ("ring" in circles[1].attrib["class"])
    assert ("bad" in circles[1].attrib["class"]) == (ours > 3)

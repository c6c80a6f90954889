"""Answers from recordings: what is found, what has changed since, what is not there."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import luminal_lab as ll
from luminal_lab.errors import ArgumentError, RecordingError
from luminal_lab.timing import recording as recordings
from tests.devices.made_up import RATES, recording, rescheduled, written
from tests.expect import error_of
from tests.needs import need


@pytest.fixture(scope="module")
def found():
    return recording(written())


def test_a_recorded_kernel_has_its_time_without_a_run(found, monkeypatch):
    monkeypatch.setattr("luminal_lab.devices.cpu.program.compile_library", None)  # nothing compiles
    times = ll.compare(written(), [ll.Recorded(found)])
    assert [one.seconds(0) for one in times] == pytest.approx(
        [1e-3, 3e-3, 2e-3]
    )  # rows are as written
    (column,) = times.columns
    assert (column.how, column.device, column.date) == (
        "recorded",
        "a made-up machine",
        "2026-01-02T03:04:05+00:00",
    )
    assert "a made-up machine: °recorded, 2026-01-02 03:04" in str(times)
    assert "°1.000" in str(times)


def test_a_changed_kernel_loses_its_recording_visibly(found):
    times = ll.compare(written(), [ll.Recorded(rescheduled(found, 1))])
    assert [one.seconds(0) is None for one in times] == [False, False, True]
    text = str(times)
    assert "no time" in text
    assert "without 1" in text
    kernel = found.kernels[1].name
    (line,) = [line for line in text.splitlines() if "no recording" in line]
    assert line.startswith(f"A: {kernel} %")
    assert "no recording: the schedule differs: step 1 was 'parallel q', and is '" in line
    assert "the schedule differs" in times._repr_html_()
    need("pandas")
    assert list(times.to_pandas()["missing"] != "") == [False, False, True]


def test_other_sizes_were_not_recorded(found):
    times = ll.compare(written(count=17), [ll.Recorded(found)])
    whys = {why for one in times for why in one.missing(0)}
    assert whys == {"no recording: the sizes differ: n = 16 then, n = 17 now"}


def test_what_names_no_recording():
    error = error_of(lambda: ll.Recorded(3), ArgumentError)  # pyright: ignore[reportArgumentType]
    assert str(error) == (
        "recorded: 3 is not a recording\n"
        "hint: give the path of a file that luminal-lab record has written"
    )


def test_no_data_is_needed_but_sizes(found):
    cx = written()
    cx.reset()
    times = ll.compare(cx, [ll.Recorded(found)], dims={"n": 16})
    assert times.columns[0].seconds == pytest.approx(6e-3)


def test_shares_are_of_the_recorded_machine(found):
    times = ll.compare(written(), [ll.Recorded(replace(found, rates=RATES))])
    least: Any = times[0].parts[0][0].least
    assert times[0].share(0) == pytest.approx(least / 1e-3)
    assert ll.compare(written(), [ll.Recorded(found)])[0].share(0) is None


def test_recordings_are_found_by_name_and_by_path(found, tmp_path, monkeypatch):
    found.save(tmp_path / "laptop.json")
    assert ll.Recorded(tmp_path / "laptop.json").recording == found
    monkeypatch.setattr(recordings, "FOLDER", tmp_path)
    assert ll.Recorded("Laptop").recording == found
    error = error_of(lambda: ll.Recorded("lapdop"), RecordingError)
    assert str(error) == (
        "recorded: there is no recording 'lapdop'; there are laptop\nhint: did you mean 'laptop'?"
    )


def test_none_that_nobody_made_is_shipped():
    for path in recordings.FOLDER.glob("*.json"):
        assert recordings.load(path).programs, path
    error = error_of(lambda: ll.Recorded("qqq"), RecordingError)
    assert error.hint.endswith("luminal-lab record makes a file to name here")


def test_a_machine_that_no_version_knows(found):
    odd = replace(found, target={"wings": 2})
    error = error_of(lambda: ll.compare(written(), [ll.Recorded(odd)]), RecordingError)
    assert error.message == (
        "recorded: the recording of a made-up machine is for {'wings': 2}, which is not a machine "
        "that this version knows"
    )


def test_a_recording_in_cuda_is_matched_with_the_kernels_of_its_architecture(found):
    cuda = replace(found, device="a made-up card", dialect="cuda", target={"arch": "sm_80"})
    times = ll.compare(written(), [ll.Recorded(cuda)])
    whys = {why for one in times for why in one.missing(0)}
    # The definitions are the CPU's, and so are the schedules: no time is taken from them.
    assert len(whys) == 3
    assert all(why.startswith("no recording: the schedule differs: ") for why in whys)


def test_what_numpy_computes_has_no_recording(found):
    cx = written()
    x = cx["x"]
    cx.function(np.sort, x, shape=("n", 64), name="sort").retrieve()
    times = ll.compare(cx, [ll.Recorded(found)])
    assert ("no recording: NumPy computes it",) in [one.missing(0) for one in times]

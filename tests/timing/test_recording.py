"""Recordings: what a file holds, by what a kernel is known, what a damaged one gets."""

import json
from dataclasses import replace

import pytest

from luminal_lab.errors import RecordingError
from luminal_lab.kernels.definition.text import parse_definition
from luminal_lab.kernels.make import make_kernel
from luminal_lab.machines.machine import Machine
from luminal_lab.timing.recording import (
    MOST_SAMPLES,
    Recording,
    hash_of,
    kept,
    key_of_kernel,
)
from tests.devices.made_up import RATES, recording, written
from tests.expect import error_of

TWICE = "kernel {name}({x}: f32[n]) -> ({y}: f32[n])\n  {y}[{i} < n] = {x}[{i}] + {x}[{i}]"


def kernel(name="twice", x="x", y="y", i="i"):
    text = TWICE.format(name=name, x=x, y=y, i=i)
    return make_kernel(parse_definition(text), name, Machine())


@pytest.fixture(scope="module")
def found():
    return recording(written())


def test_a_recording_is_read_as_it_was_written(found, tmp_path):
    with_rates = replace(found, rates=RATES)
    for one in (found, with_rates):
        one.save(tmp_path / "one.json")
        assert Recording.load(tmp_path / "one.json") == one
    # A line for each kernel: a change of one is a change of a line.
    lines = (tmp_path / "one.json").read_text(encoding="utf-8").splitlines()
    assert sum('"definition"' in line for line in lines) == len(found.kernels) == 3


def test_names_are_not_in_the_hash_and_what_is_computed_is():
    assert hash_of(kernel()) == hash_of(kernel("double", "input", "output", "place"))
    other = parse_definition(TWICE.format(name="t", x="x", y="y", i="i").replace("+", "*"))
    assert hash_of(kernel()) != hash_of(make_kernel(other, "t", Machine()))


def test_a_kernel_is_known_by_definition_schedule_dialect_version_and_sizes():
    key = key_of_kernel(kernel(), {"n": 8, "other": 3})
    assert (key.dialect, key.version, key.dims) == ("c", "1", (("n", 8),))
    assert key.schedule == str(kernel().schedule)
    other = key_of_kernel(kernel().rescheduled("split i by 4"), {"n": 8})
    assert (other.definition, other.schedule) == (key.definition, "split i by 4")
    assert key.schedule != other.schedule


def test_it_prints_with_the_mark_of_what_is_recorded(found):
    lines = str(found).splitlines()
    assert lines[0] == (
        "3 kernels of 1 programs, recorded on a made-up machine, 2026-01-02 03:04; cc 1.2.3; c 1"
    )
    assert lines[2].split()[:3] == ["°1.0000", "±", "°0.1000"]
    assert repr(found).startswith("<Recording of 3 kernels on a made-up machine, 2026-01-02")


def test_what_differs_is_named(found):
    key = found.key_of(found.kernels[0])
    steps = key.schedule.splitlines()
    cases = {
        key._replace(definition="other"): "this definition was not recorded",
        key._replace(schedule="\n".join(steps[:-1])): "the schedule differs: step "
        f"{len(steps)} was {steps[-1]!r}, and is nothing",
        key._replace(version="2"): "the dialect differs: c 1 then, c 2 now",
        key._replace(dims=(("n", 17),)): "the sizes differ: n = 16 then, n = 17 now",
    }
    for other, why in cases.items():
        assert found.find(other) is None
        assert found.why_not(other) == f"no recording: {why}"
    assert found.find(key) is found.kernels[0]


def test_a_file_keeps_some_samples_of_all():
    assert kept([1.0, 2.0]) == (1.0, 2.0)
    many = kept(range(1000))
    assert (len(many), many[0], many[-1]) == (MOST_SAMPLES, 0, 960)


def changed(found, change):
    given = json.loads(found.to_json())
    change(given)
    return json.dumps(given)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda g: g.update(schema=2),
            "recording: the schema is 2, and this version reads 1",
        ),
        (
            lambda g: g.update(what="timings"),
            "recording: it holds 'timings', and not 'luminal_lab times'",
        ),
        (lambda g: g.pop("device"), "recording: it is damaged: the file lacks device"),
        (
            lambda g: g.update(driver=3),
            "recording: it is damaged: the file.driver is 3, not a text",
        ),
        (
            lambda g: g.update(date="soon"),
            "recording: it is damaged: Invalid isoformat string: 'soon'",
        ),
        (
            lambda g: g["kernels"][0].update(samples=[]),
            "recording: it is damaged: samples are []",
        ),
        (
            lambda g: g["kernels"][0].update(samples=[-1.0]),
            "recording: it is damaged: samples are [-1.0]",
        ),
        (
            lambda g: g["programs"][0].update(launches=[0, 9]),
            "recording: it is damaged: a launch of kernel 9, and there are 3",
        ),
        (
            lambda g: g.update(kernels=7),
            "recording: it is damaged: the file.kernels is 7, not a list",
        ),
    ],
)
def test_what_is_damaged_or_of_another_version_is_said(found, change, message):
    error = error_of(lambda: Recording.from_json(changed(found, change)), RecordingError)
    assert error.message == message
    assert error.hint


def test_a_damaged_file_is_named(found, tmp_path):
    path = tmp_path / "half.json"
    path.write_text(found.to_json()[:200], encoding="utf-8")
    error = error_of(lambda: Recording.load(path), RecordingError)
    assert error.message.startswith(f"recording {path}: this is not JSON: ")
    assert error.hint == "the file is damaged, or cut short: get it again"
    error = error_of(lambda: Recording.load(tmp_path / "absent.json"), RecordingError)
    assert error.message == (
        f"recording: {tmp_path / 'absent.json'} cannot be read: No such file or directory"
    )
    error = error_of(lambda: found.save(tmp_path / "no" / "x.json"), RecordingError)
    assert error.hint == "give a file in a folder that is there and may be written to"

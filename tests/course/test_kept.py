"""Hold the file of progress: damaged, of another version, or not to be written."""

import json
import os
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest

from luminal_lab.course.kept import NAME, ExerciseRecord, ProgressFile, data_folder


def solve(kept: ProgressFile, id: str) -> None:
    kept.change(id, lambda one: replace(one, right=True, tries=one.tries + 1))


def test_what_one_keeps_another_finds(tmp_path: Path):
    solve(ProgressFile(tmp_path / "new" / "folder"), "04.2")
    other = ProgressFile(tmp_path / "new" / "folder")
    assert other.entry("04.2") == ExerciseRecord(right=True, tries=1)
    assert other.entry("04.3") == ExerciseRecord()
    assert [one.name for one in (tmp_path / "new" / "folder").iterdir()] == [NAME]
    assert not other.notes


def test_two_kernels_lose_nothing_of_each_other(tmp_path: Path):
    one, two = ProgressFile(tmp_path), ProgressFile(tmp_path)
    solve(one, "00.1")
    solve(two, "00.2")
    solve(one, "00.3")
    assert {"00.1", "00.2", "00.3"} == json.loads((tmp_path / NAME).read_text())["exercises"].keys()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "null",
        "{}",
        '{"format": "1", "exercises": {}}',
        '{"format": 1, "exercises": []}',
        '{"format": 1, "exercises": {"04.2": 3}}',
        '{"format": 1, "exercises": {"04.2": {"right": 1}}}',
        "[" * 100_000,
    ],
)
def test_a_damaged_file_is_set_aside_and_said(tmp_path: Path, text: str):
    (tmp_path / NAME).write_text(text)
    kept = ProgressFile(tmp_path)
    solve(kept, "04.2")
    note = (
        f"{tmp_path / NAME} was damaged: it is now progress.damaged-1.json, and a new one is begun"
    )
    assert kept.take_notes() == (note,)
    assert kept.take_notes() == ()
    assert (tmp_path / "progress.damaged-1.json").read_text() == text
    assert ProgressFile(tmp_path).entry("04.2").right


def test_one_that_is_no_text_is_set_aside_too(tmp_path: Path):
    (tmp_path / "progress.damaged-1.json").write_text("older")
    (tmp_path / NAME).write_bytes(b"\xff\xfe\x00")
    kept = ProgressFile(tmp_path)
    kept.read()
    assert "progress.damaged-2.json" in kept.take_notes()[0]


def test_a_file_of_a_newer_version_is_left_alone(tmp_path: Path):
    text = '{"format": 2, "people": []}'
    (tmp_path / NAME).write_text(text)
    kept = ProgressFile(tmp_path)
    solve(kept, "04.2")
    assert kept.entry("04.2").right
    assert kept.take_notes()[0] == (
        f"{tmp_path / NAME} is of a newer luminal_lab; it is left as it is, and not added to"
    )
    assert (tmp_path / NAME).read_text() == text


def test_where_nothing_can_be_written_it_goes_on_in_memory(tmp_path: Path):
    (tmp_path / "file").write_text("no folder")
    kept = ProgressFile(tmp_path / "file")
    solve(kept, "04.2")
    solve(kept, "04.3")
    assert kept.entry("04.2").right
    (note,) = (one for one in kept.take_notes() if one.startswith("progress is kept"))
    assert note.startswith("progress is kept until this kernel ends: ")


def test_a_read_only_folder_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(tempfile, "mkstemp", refuse)
    kept = ProgressFile(tmp_path)
    solve(kept, "04.2")
    assert kept.take_notes() == (
        f"progress is kept until this kernel ends: {tmp_path} cannot be written to "
        "(permission denied)",
    )
    assert kept.entry("04.2").right


def test_a_write_that_fails_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    kept = ProgressFile(tmp_path)
    solve(kept, "04.2")
    before = (tmp_path / NAME).read_text()

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    solve(kept, "04.3")
    assert (tmp_path / NAME).read_text() == before
    assert [one.name for one in tmp_path.iterdir()] == [NAME]
    assert kept.take_notes() == (
        f"progress is kept until this kernel ends: {tmp_path} cannot be written to "
        "(no space left on device)",
    )


def test_without_a_home_it_is_in_memory(monkeypatch: pytest.MonkeyPatch):
    def homeless() -> Path:
        raise RuntimeError

    monkeypatch.setattr(Path, "home", homeless)
    assert data_folder() is None
    kept = ProgressFile(None)
    solve(kept, "04.2")
    assert kept.entry("04.2").right
    assert kept.take_notes() == (
        "there is no home folder, so progress is kept until this kernel ends",
    )


@pytest.mark.parametrize(
    ("platform", "parts"),
    [
        ("linux", ".local/share"),
        ("darwin", "Library/Application Support"),
        ("win32", "AppData/Local"),
    ],
)
def test_each_platform_has_its_folder(
    platform: str, parts: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    monkeypatch.setattr(sys, "platform", platform)
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    assert data_folder() == tmp_path / parts / "luminal_lab" / "course"

"""Winners on disk: found again without measuring, refused where they are damaged or another's."""

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from luminal_lab.core.origin import LabWarning
from luminal_lab.devices.build import cache
from luminal_lab.search.loops import Budget, KernelSearch, search_kernel
from luminal_lab.search.winners import Winners
from tests.search.planted import guess, matmul, tiles


def never(job: str) -> str:
    raise AssertionError("something was measured")


def searched(folder: Path, worker: Callable[[str], str] = guess, n: int = 70) -> KernelSearch:
    return search_kernel(
        matmul(n, 60, 50),
        budget=Budget(candidates=16),
        winners=Winners(folder),
        plan=tiles,
        worker=worker,
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with one winner."""
    searched(tmp_path / "winners")
    return tmp_path / "winners"


def entry(folder: Path) -> Path:
    (path,) = (path for path in folder.iterdir() if not path.name.startswith("."))
    return path


def test_what_was_found_is_not_measured_again(folder: Path):
    first, again = searched(folder.parent / "other"), searched(folder, never)
    assert again.ended.startswith("found before (20")
    assert str(again.candidates) == str(first.candidates)
    assert again.best.text == (entry(folder) / "schedule.txt").read_text()
    assert sorted(path.name for path in entry(folder).iterdir()) == [
        "candidates.jsonl",
        "definition.txt",
        "entry.json",
        "forms.jsonl",
        "schedule.txt",
    ]
    assert (entry(folder) / "definition.txt").read_text().startswith("kernel kernel(a: f32[70, 60]")


def test_another_question_has_another_winner(folder: Path):
    searched(folder, n=71)
    assert len([*folder.iterdir()]) == 2


@pytest.mark.parametrize("name", ["schedule.txt", "definition.txt", "candidates.jsonl"])
def test_a_damaged_entry_is_refused_and_searched_again(folder: Path, name: str):
    path = entry(folder) / name
    path.write_bytes(path.read_bytes()[:-1] + b"!")
    with pytest.warns(LabWarning, match="refused, and searched for again: its bytes are not those"):
        search = searched(folder)
    assert search.ended == "the budget is spent"
    assert searched(folder, never).ended.startswith("found before")


def test_an_entry_that_others_may_write_is_refused(folder: Path):
    (entry(folder) / "schedule.txt").chmod(0o666)
    with pytest.warns(LabWarning, match=r"others may write there \(its mode is 666\)"):
        searched(folder)


def test_facts_that_cannot_be_read_are_refused(folder: Path):
    (entry(folder) / "entry.json").write_text("{")
    with pytest.warns(LabWarning, match="its facts cannot be read"):
        searched(folder)


def test_a_schedule_that_does_not_apply_is_refused(folder: Path):
    path = entry(folder)
    names = ("definition.txt", "schedule.txt", "candidates.jsonl", "forms.jsonl")
    files, facts = cache.read_files(path, names)
    cache.write_files(path, {**files, "schedule.txt": b"parallel nothing"}, facts)
    with pytest.warns(LabWarning, match="searched for again: kernel mm: parallel nothing"):
        searched(folder)
    cache.write_files(path, {**files, "definition.txt": b"kernel"}, facts)
    with pytest.warns(LabWarning, match="it is of another definition"):
        searched(folder)
    cache.write_files(path, files, {**facts, "machine": "another"})
    with pytest.warns(LabWarning, match="it is of another version or machine"):
        searched(folder)
    cache.write_files(path, {**files, "candidates.jsonl": b'{"draft": 1}'}, facts)
    with pytest.warns(LabWarning, match="refused, and searched again: Trial"):
        searched(folder)


def test_a_full_disk_keeps_the_search(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.warns(LabWarning, match="cannot be kept in .*winners: No space left on device"):
        search = searched(tmp_path / "winners")
    assert search.best.number
    assert [*(tmp_path / "winners").iterdir()] == []


def test_a_search_that_was_broken_off_keeps_nothing(tmp_path: Path):
    def stop(job: str) -> str:
        raise KeyboardInterrupt

    assert searched(tmp_path / "winners", stop).ended == "Ctrl-C"
    assert not (tmp_path / "winners").exists()

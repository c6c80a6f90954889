"""Winners on disk: found again without measuring, refused where they are damaged or another's."""

import errno
import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from luminal_lab.core.origin import LabWarning
from luminal_lab.devices.build import cache
from luminal_lab.search.loops import Budget, KernelSearch, replayed, search_kernel
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


def entries(folder: Path) -> list[Path]:
    return [path for path in folder.iterdir() if not path.name.startswith(".")]


def entry(folder: Path) -> Path:
    (path,) = entries(folder)
    return path


def test_what_was_found_is_not_measured_again(folder: Path):
    first, again = searched(folder.parent / "other"), searched(folder, never)
    assert again.ended.startswith("found before (20")
    assert str(again.candidates) == str(first.candidates)
    assert again.best.text == (entry(folder) / "schedule.txt").read_text()
    assert sorted(path.name for path in entry(folder).iterdir()) == [
        "answers.jsonl",
        "definition.txt",
        "entry.json",
        "forms.jsonl",
        "schedule.txt",
    ]
    assert (entry(folder) / "definition.txt").read_text().startswith("kernel kernel(a: f32[70, 60]")


def test_what_was_found_is_replayed_and_goes_on_as_if_it_had_not_ended(folder: Path):
    again = searched(folder, never)
    assert str(replayed(again, tiles).candidates) == str(again.candidates)
    again.worker = guess
    again.resume(Budget(candidates=32))
    whole = search_kernel(
        matmul(70, 60, 50), plan=tiles, worker=guess, budget=Budget(candidates=48)
    )
    assert [one.text for one in again.candidates] == [one.text for one in whole.candidates]
    assert str(replayed(again, tiles).candidates) == str(again.candidates)


def test_another_question_has_another_winner(folder: Path):
    searched(folder, n=71)
    assert len([*folder.iterdir()]) == 2


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def changed(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1] + b"!")


def replaced_by_a_link(path: Path) -> None:
    path.rename(path.parent.parent / ".elsewhere")
    path.symlink_to(path.parent.parent / ".elsewhere")


def replaced_by_a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def open_to_others(path: Path) -> None:
    path.chmod(0o666)


DAMAGES: list[tuple[Callable[[Path], None], str]] = [
    (cut, "its bytes are not those that were stored"),
    (changed, "its bytes are not those that were stored"),
    (Path.unlink, "No such file or directory"),
    (replaced_by_a_link, "it is not a file"),
    (replaced_by_a_folder, "it is not a file"),
    (open_to_others, "others may write there (its mode is 666)"),
]


def refused(folder: Path, why: str) -> None:
    """Assert that an entry is refused with a word, searched for again, and then in order."""
    with pytest.warns(LabWarning, match=re.escape(f"is refused, and searched for again: {why}")):
        search = searched(folder)
    assert search.ended == "the budget is spent"
    assert searched(folder, never).ended.startswith("found before")


@pytest.mark.parametrize("name", ["schedule.txt", "definition.txt", "answers.jsonl"])
@pytest.mark.parametrize(("damage", "why"), DAMAGES)
def test_a_damaged_entry_is_refused_and_searched_again(
    folder: Path, name: str, damage: Callable[[Path], None], why: str
):
    damage(entry(folder) / name)
    refused(folder, why)


def test_an_entry_that_is_a_link_is_refused(folder: Path):
    replaced_by_a_link(entry(folder))
    refused(folder, "it is not a folder")


def test_an_entry_of_somebody_else_is_refused(folder: Path):
    if os.geteuid():
        pytest.skip("only root gives a file away")
    os.chown(entry(folder) / "schedule.txt", 1, -1)
    refused(folder, "it is user 1's, and this is user 0")


def test_an_entry_that_cannot_be_read_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch):
    def unreadable(path: Path, most: int = 0) -> bytes:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))

    with monkeypatch.context() as patch:
        patch.setattr(cache, "read_plain", unreadable)
        with pytest.warns(LabWarning, match="searched for again: Permission denied"):
            searched(folder)
    assert searched(folder, never).ended.startswith("found before")


def test_an_entry_that_is_no_folder_is_searched_for_again(folder: Path):
    path = entry(folder)
    path.rename(folder / ".elsewhere")
    path.write_text("a file")
    assert searched(folder).ended == "the budget is spent"
    assert searched(folder, never).ended.startswith("found before")


def test_above_the_limit_what_was_not_used_for_longest_goes(
    folder: Path, monkeypatch: pytest.MonkeyPatch
):
    first = entry(folder)
    searched(folder, n=71)
    (second,) = {*entries(folder)} - {first}
    for path in entries(folder):
        os.utime(path / "entry.json", (0, 0))
    searched(folder)  # which finds the first one
    assert (first / "entry.json").stat().st_mtime > cache.FRESH
    size = sum(path.stat().st_size for path in first.iterdir())
    monkeypatch.setattr(cache, "LIMIT", 5 * size // 2)
    searched(folder, n=72)
    assert first in entries(folder)
    assert second not in entries(folder)
    assert len(entries(folder)) == 2


def test_facts_that_cannot_be_read_are_refused(folder: Path):
    (entry(folder) / "entry.json").write_text("{")
    with pytest.warns(LabWarning, match="its facts cannot be read"):
        searched(folder)


def test_a_schedule_that_does_not_apply_is_refused(folder: Path):
    path = entry(folder)
    names = ("definition.txt", "schedule.txt", "answers.jsonl", "forms.jsonl")
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
    cache.write_files(path, {**files, "answers.jsonl": b'{"batch": 1}'}, facts)
    with pytest.warns(LabWarning, match="refused, and searched again: Asked"):
        searched(folder)


def test_who_has_no_home_keeps_winners_in_a_folder_of_their_own(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(cache, "user_folder", lambda: None)
    assert Winners().folder == cache.spare_folder() / "winners"


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

"""What is kept on disk: found, told apart, and removed without touching anything else."""

import os
import time
from pathlib import Path
from typing import Any, cast

import pytest

import luminal_lab as ll
from luminal_lab.devices.build import cache
from luminal_lab.devices.build.cache import FACTS, FRESH, Cache, key_of, write_files
from luminal_lab.devices.facts import cached as module
from luminal_lab.devices.facts.cached import cached
from luminal_lab.errors import ArgumentError
from luminal_lab.machines.rates import PeakRates
from tests.expect import error_of


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    """A user's folders, empty."""
    libraries = tmp_path / "home" / "libraries"
    monkeypatch.setattr(cache, "user_folder", lambda: libraries)
    monkeypatch.setattr(cache, "spare_folder", lambda: tmp_path / "spare")
    return libraries.parent


def aged(path: Path, seconds: float) -> None:
    """Let something have been used so long ago."""
    then = time.time() - seconds
    os.utime(path, (then, then))


def put(text: bytes = b"/* softmax */\nint f;\n", seconds: float = 0) -> Path:
    """Store a library that was used so long ago."""
    path = Cache().store(key_of(text), text, b"code", "gcc 1.0").parent
    aged(path / FACTS, seconds)
    return path


def winner(home: Path) -> Path:
    """Store what a search found."""
    path = home / "winners" / key_of("winner")
    write_files(path, {"definition.txt": b"kernel k(a: f32[2])\n"}, {"seconds": 1.0})
    return path


def rates(home: Path) -> Path:
    """Store rates."""
    path = home / "libraries" / f"rates-{key_of('rates')}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(PeakRates.stated("a laptop", gflops=100, gbytes=20).to_json())
    return path


def test_each_kind_is_found_and_says_what_it_is_of(home):
    paths = {put(), winner(home), rates(home)}
    entries = cached()
    assert {entry.path for entry in entries} == paths
    assert {entry.kind: entry.about for entry in entries} == {
        "libraries": "/* softmax */",
        "winners": "kernel k(a: f32[2])",
        "rates": "a laptop, 1 thread",
    }
    assert entries.total.startswith("1 library, 1 winner, 1 file of rates; ")
    assert [entry.kind for entry in cached("winners")] == ["winners"]
    size = sum(file.stat().st_size for file in next(iter(cached("libraries"))).path.iterdir())
    assert cached("libraries").size == size


def test_nothing_is_cached():
    assert repr(cached()) == "nothing is cached"
    assert cached().clear() == ()


def test_the_last_used_come_first_and_age_chooses():
    old, new = put(b"old", 3 * 86400), put(b"new", 60)
    assert [entry.path for entry in cached()] == [new, old]
    assert [entry.age for entry in cached()] == ["1 minute", "3 days"]
    assert [entry.path for entry in cached(older=86400)] == [old]
    assert cached(older=7 * 86400) == ()


def test_what_a_process_may_be_about_to_load_is_told_apart():
    put(b"now")
    old = put(b"then", FRESH + 60)
    assert [entry.path for entry in cached().settled] == [old]


def test_clearing_removes_entries_and_nothing_else(home):
    put()
    winner(home)
    rates(home)
    kept = home / "libraries" / "notes.txt"
    kept.write_text("somebody's")
    assert len(cached().clear()) == 3
    assert [path for path in home.rglob("*") if path.is_file()] == [kept]
    assert cached() == ()


def test_a_link_goes_and_what_it_leads_to_stays(home, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "work.txt").write_text("x" * 10_000)
    (home / "libraries").mkdir(parents=True)
    link = home / "libraries" / f"lib-{key_of('link')}"
    link.symlink_to(outside)
    file = home / "libraries" / f"rates-{key_of('rates')}.json"
    file.symlink_to(outside / "work.txt")
    assert cached().size < 1000  # the links alone
    assert len(cached().clear()) == 2
    assert not link.is_symlink()
    assert not file.is_symlink()
    assert (outside / "work.txt").read_text() == "x" * 10_000


def test_what_another_process_has_removed_meanwhile_is_no_error():
    path = put()
    entries = cached()
    cache.remove(path)
    assert entries.clear() == ()


def test_what_cannot_be_read_is_listed_and_can_go(home):
    rates(home).write_text("{")
    entries = cached()
    assert [entry.about for entry in entries] == ["not readable"]
    assert len(entries.clear()) == 1


def test_an_unknown_kind_is_told():
    assert str(error_of(lambda: ll.devices.cached(cast("Any", "librarys")), ArgumentError)) == (
        "cached: there is no kind 'librarys'\nhint: did you mean 'libraries'?"
    )


def test_a_table_shows_all(home):
    put(seconds=7200)
    title, head, row = repr(cached()).splitlines()
    assert title.startswith("1 library; ")
    assert head.split() == ["kind", "size", "last", "used", "of"]
    assert row.split()[0] == "libraries"
    assert row.endswith("2 hours     /* softmax */")
    assert tuple(module.ABOUT) == module.KINDS

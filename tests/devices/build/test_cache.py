"""The cache of libraries: what is stored is found, and what is not as it was stored is not used."""

import errno
import os
import shutil
import sys
import tempfile
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from luminal_lab.devices.build import cache as module
from luminal_lab.devices.build.cache import (
    FACTS,
    LIBRARY,
    SOURCE,
    Cache,
    key_of,
    spare_folder,
    user_folder,
)
from luminal_lab.errors import DeviceError, LabWarning
from tests.expect import error_of
from tests.kept import clear, entries

TEXT = b"/* softmax */\nint f;\n"
KEY = key_of(TEXT)


@pytest.fixture(autouse=True)
def temporary(tmp_path, monkeypatch):
    """A folder of temporary files for each test, and with it a spare folder."""
    place = tmp_path / "temporary files"
    place.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    return place


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "home" / "libraries"


@pytest.fixture
def cache(folder):
    return Cache(folder)


def put(cache, text=TEXT, library=b"code"):
    return cache.store(key_of(text), text, library, "gcc 1.0")


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def warned(call, *args):
    """Return what a call returns and the one warning that it gives."""
    with pytest.warns(LabWarning) as caught:
        found = call(*args)
    assert len(caught) == 1
    return found, str(caught[0].message)


# -- store and find --------------------------------------------------------------------------------


def test_what_is_stored_is_found(cache, folder):
    assert cache.find(KEY, TEXT) is None
    path = put(cache)
    assert path == folder / f"lib-{KEY}" / LIBRARY == cache.find(KEY, TEXT)
    assert path.read_bytes() == b"code"
    assert (path.parent / SOURCE).read_bytes() == TEXT
    assert names(folder) == [f"lib-{KEY}"]
    assert names(path.parent) == [FACTS, LIBRARY, SOURCE]
    assert cache.find(KEY, b"another source") is None


def test_only_the_owner_can_read_and_write_what_is_stored(cache, folder):
    before = os.umask(0)
    try:
        path = put(cache)
    finally:
        os.umask(before)
    assert folder.stat().st_mode & 0o777 == path.parent.stat().st_mode & 0o777 == 0o700
    assert {p.stat().st_mode & 0o777 for p in path.parent.iterdir()} == {0o600}


def test_a_key_is_of_all_parts_and_where_they_end():
    assert key_of(TEXT.decode()) == KEY
    assert len({KEY, key_of(TEXT, ""), key_of("", TEXT), key_of("a", "bc"), key_of("ab", "c")}) == 5
    assert key_of("a \ud800 alone") != key_of("a \ud801 alone")


def test_a_new_format_leaves_old_entries_alone(monkeypatch):
    monkeypatch.setattr(module, "FORMAT", module.FORMAT + 1)
    assert key_of(TEXT) != KEY


def test_who_comes_second_takes_what_is_there(cache, folder):
    first = put(cache)
    identity = first.stat().st_ino
    assert put(cache, library=b"the same code, otherwise compiled") == first
    assert (first.stat().st_ino, first.read_bytes()) == (identity, b"code")
    assert names(folder) == [f"lib-{KEY}"]


def test_a_library_of_several_kernels_is_kept_once_if_it_is_the_same(cache):
    """Another process may have compiled one of them with others: its library lacks some of ours."""
    ours, theirs = b"both kernels", b"one kernel, and another one"
    first = cache.store(key_of("one"), b"one", theirs, "cc")
    found = cache.store(key_of("one"), b"one", ours, "cc")
    second = cache.store(key_of("two"), b"two", ours, "cc", same=found)
    third = cache.store(key_of("three"), b"three", ours, "cc", same=second)
    assert (found, found.read_bytes()) == (first, theirs)
    assert second.read_bytes() == third.read_bytes() == ours
    assert third.stat().st_ino == second.stat().st_ino != found.stat().st_ino


def test_an_entry_is_used_where_its_use_cannot_be_noted(cache, monkeypatch):
    path = put(cache)

    def refuse(*args):
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(os, "utime", refuse)
    assert cache.find(KEY, TEXT) == path


# -- damage ----------------------------------------------------------------------------------------


def flip(path):
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def another(entry):
    """Put the files of another sound entry into this one's place."""
    other = put(Cache(entry.parent), b"another").parent
    for name in (LIBRARY, SOURCE, FACTS):
        (other / name).replace(entry / name)
    other.rmdir()


def replace_by_link(entry):
    entry.rename(entry.parents[1] / "elsewhere")
    entry.symlink_to(entry.parents[1] / "elsewhere", target_is_directory=True)


def replace_by_file(entry):
    entry.rename(entry.parents[1] / "elsewhere")
    entry.write_text("hello")


DAMAGE = {
    "truncated": (
        lambda e: os.truncate(e / LIBRARY, 2),
        "its bytes are not those that were stored",
    ),
    "emptied": (lambda e: os.truncate(e / LIBRARY, 0), "its bytes are not those that were stored"),
    "flipped": (lambda e: flip(e / LIBRARY), "its bytes are not those that were stored"),
    "source": (lambda e: flip(e / SOURCE), "its bytes are not those that were stored"),
    "no-library": (
        lambda e: (e / LIBRARY).unlink(),
        "it is not whole (No such file or directory)",
    ),
    "no-facts": (lambda e: (e / FACTS).unlink(), "it is not whole (No such file or directory)"),
    "cut-facts": (
        lambda e: os.truncate(e / FACTS, 9),
        "it is not whole (its facts cannot be read)",
    ),
    "binary-facts": (
        lambda e: (e / FACTS).write_bytes(b"\xff\xfe\x00"),
        "it is not whole (its facts cannot be read)",
    ),
    "deep-facts": (
        lambda e: (e / FACTS).write_bytes(b"[" * 100_000),
        "it is not whole (its facts cannot be read)",
    ),
    "other-facts": (
        lambda e: (e / FACTS).write_text("[1]"),
        "it is not whole (its facts cannot be read)",
    ),
    "another-entry": (another, "it is another entry's"),
    "writable": (
        lambda e: (e / LIBRARY).chmod(0o666),
        "others may write there (its mode is 666)",
    ),
    "writable-folder": (lambda e: e.chmod(0o770), "others may write there (its mode is 770)"),
    "pipe": (
        lambda e: ((e / LIBRARY).unlink(), os.mkfifo(e / LIBRARY)),
        "it is not a file",
    ),
    "link": (replace_by_link, "it is not a folder"),
    "file": (replace_by_file, "it is not a folder"),
}


@pytest.mark.parametrize(("damage", "fault"), DAMAGE.values(), ids=DAMAGE)
def test_what_is_damaged_is_not_used_and_made_again(cache, folder, damage, fault):
    path = put(cache)
    damage(path.parent)
    assert cache.find(KEY, TEXT) is None
    assert [entry.fault for entry in entries(folder)] == [fault]
    found, text = warned(put, cache)
    assert text == f"cache: {path.parent} was damaged and is made again: {fault}"
    assert found == path == cache.find(KEY, TEXT)
    assert path.read_bytes() == b"code"
    assert names(folder) == [f"lib-{KEY}"]
    assert [entry.fault for entry in entries(folder)] == [None]


def test_what_was_made_whole_just_now_is_not_called_damaged(cache, folder, monkeypatch):
    path = put(cache)
    real, answers = module._fault, ["it is not whole"]
    monkeypatch.setattr(module, "_fault", lambda *of: answers.pop() if answers else real(*of))
    assert put(cache) == path == cache.find(KEY, TEXT)
    assert answers == []
    assert names(folder) == [f"lib-{KEY}"]


def test_what_a_damaged_entry_links_to_is_left_alone(cache, folder):
    path = put(cache)
    replace_by_link(path.parent)
    warned(put, cache)
    assert names(folder.parent / "elsewhere") == [FACTS, LIBRARY, SOURCE]


def test_an_empty_folder_with_an_entrys_name_is_no_obstacle(cache, folder):
    (folder / f"lib-{KEY}").mkdir(parents=True, mode=0o700)
    folder.chmod(0o700)
    assert cache.find(KEY, TEXT) is None
    assert put(cache) == cache.find(KEY, TEXT)


def test_what_another_user_wrote_is_not_run(cache, monkeypatch):
    path = put(cache)
    if os.geteuid() == 0:
        os.chown(path, 4711, -1)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: 4711)
    assert cache.find(KEY, TEXT) is None


# -- folders that cannot be used -------------------------------------------------------------------


def file_there(folder):
    folder.parent.mkdir()
    folder.write_text("")


def file_above(folder):
    folder.parent.write_text("")


def open_to_all(folder):
    folder.mkdir(parents=True)
    folder.chmod(0o777)


UNFIT = {
    "file-there": (file_there, "it is not a folder"),
    "file-above": (file_above, "Not a directory"),
    "open-to-all": (open_to_all, "others may write there (its mode is 777)"),
}


@pytest.mark.parametrize(("spoil", "reason"), UNFIT.values(), ids=UNFIT)
def test_another_folder_takes_the_place_of_one_that_cannot_be_used(cache, folder, spoil, reason):
    spoil(folder)
    assert cache.find(KEY, TEXT) is None
    path, text = warned(put, cache)
    assert text == (
        f"cache: libraries are kept in {spare_folder()}, because it cannot use {folder}: {reason}"
    )
    assert path == spare_folder() / f"lib-{KEY}" / LIBRARY == cache.find(KEY, TEXT)


def test_a_sound_entry_in_a_folder_open_to_all_is_not_run(cache, folder):
    put(cache)
    folder.chmod(0o777)
    assert cache.find(KEY, TEXT) is None


def test_a_folder_of_another_users_is_not_used(cache, folder, monkeypatch):
    folder.mkdir(parents=True)
    if os.geteuid() == 0:
        os.chown(folder, 4711, -1)
        told = "it is user 4711's, and this is user 0"
    else:
        monkeypatch.setattr(os, "geteuid", lambda: 4711)
        told = f"it is user {folder.stat().st_uid}'s, and this is user 4711"
    assert module._unfit(folder) == told


def test_a_folder_in_which_nothing_may_be_run_is_not_used(cache, folder, monkeypatch):
    real = os.statvfs
    noexec = SimpleNamespace(f_flag=getattr(os, "ST_NOEXEC", 8))
    monkeypatch.setattr(os, "statvfs", lambda path: noexec if path == folder else real(path))
    monkeypatch.setattr(sys, "platform", "linux")
    _, text = warned(put, cache)
    assert text.endswith("nothing in it may be run (its disk is mounted noexec)")


def full(monkeypatch, *places):
    """Have no room in some folders, once a file is begun."""
    real = Path.write_bytes

    def write(path, data):
        if any(place in path.parents for place in places):
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(path, data)

    monkeypatch.setattr(Path, "write_bytes", write)


def test_a_full_disk_leaves_nothing_behind(cache, folder, monkeypatch):
    full(monkeypatch, folder)
    path, text = warned(put, cache)
    assert path.parent.parent == spare_folder()
    assert text.endswith(f"because it cannot use {folder}: No space left on device")
    assert names(folder) == []


def test_a_folder_that_can_only_be_read_is_read(cache, folder, monkeypatch):
    path = put(cache)
    real = tempfile.mkdtemp

    def refuse(*args, dir, **kwargs):  # noqa: A002  # as the function has it
        if dir == folder:
            raise OSError(errno.EROFS, "Read-only file system")
        return real(*args, dir=dir, **kwargs)

    monkeypatch.setattr(tempfile, "mkdtemp", refuse)
    assert cache.find(KEY, TEXT) == path
    other, text = warned(put, cache, b"another")
    assert other.is_relative_to(spare_folder())
    assert text.endswith(f"because it cannot use {folder}: Read-only file system")
    assert clear(folder) == 1  # the one in the spare folder
    assert cache.find(KEY, TEXT) == path


def test_a_machine_without_temporary_files(folder, monkeypatch):
    def nowhere():
        raise FileNotFoundError(errno.ENOENT, "No usable temporary directory found")

    monkeypatch.setattr(tempfile, "gettempdir", nowhere)
    cache = Cache(folder)
    assert put(cache) == cache.find(KEY, TEXT)


def test_nowhere_to_keep_a_library(cache, folder, monkeypatch):
    full(monkeypatch, folder)
    spare_folder().write_text("")
    error = error_of(lambda: put(cache), DeviceError)
    assert error.message.splitlines() == [
        "cache: there is nowhere to keep a library",
        f"  {folder}: No space left on device",
        f"  {spare_folder()}: it is not a folder",
    ]
    assert error.hint == f"make room in {folder}, whose disk is full"
    assert names(folder) == []


def test_a_link_among_the_temporary_files_is_not_followed(cache, folder, tmp_path):
    file_there(folder)
    (tmp_path / "mine").mkdir(mode=0o700)
    spare_folder().symlink_to(tmp_path / "mine", target_is_directory=True)
    error = error_of(lambda: put(cache), DeviceError)
    assert f"{spare_folder()}: it is not a folder" in error.message
    assert names(tmp_path / "mine") == []


def test_ctrl_c_leaves_nothing_behind(cache, folder, monkeypatch):
    real = Path.write_bytes

    def write(path, data):
        real(path, data[:2])
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "write_bytes", write)
    error_of(lambda: put(cache), KeyboardInterrupt)
    assert names(folder) == []


@pytest.mark.parametrize(
    ("platform", "place"),
    [
        ("linux", ".cache/luminal_lab/libraries"),
        ("darwin", "Library/Caches/luminal_lab/libraries"),
        ("win32", "AppData/Local/luminal_lab/libraries"),
    ],
)
def test_each_platform_has_a_place_for_such_files(monkeypatch, tmp_path, platform, place):
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    monkeypatch.setattr(sys, "platform", platform)
    assert user_folder() == tmp_path / place
    assert Cache().folders == (tmp_path / place, spare_folder())


def test_a_user_without_a_home_has_the_spare_folder(monkeypatch):
    def nowhere():
        raise RuntimeError

    monkeypatch.setattr(Path, "home", nowhere)
    assert Cache().folders == (spare_folder(),)
    assert put(Cache()).parent.parent == spare_folder()


# -- what is kept, and for how long ----------------------------------------------------------------


def age(path, seconds):
    then = time.time() - seconds
    os.utime(path, (then, then))


def test_above_the_limit_what_was_not_used_for_longest_goes(folder):
    cache = Cache(folder)
    texts = [b"one", b"two", b"three", b"four"]
    for number, text in enumerate(texts[:3]):
        age(put(cache, text, b"x" * 10_000).parent / FACTS, 10_000 - number)
    assert cache.find(key_of(b"one"), b"one")  # used now
    put(Cache(folder, limit=35_000), b"four", b"x" * 10_000)
    assert [cache.find(key_of(t), t) is not None for t in texts] == [True, False, True, True]
    age(folder / f"lib-{key_of(b'three')}" / FACTS, 10_000)
    put(Cache(folder, limit=25_000), b"four", b"x" * 10_000)
    assert [cache.find(key_of(t), t) is not None for t in texts] == [True, False, False, True]


def test_what_was_used_a_moment_ago_stays_even_above_the_limit(folder):
    cache = Cache(folder, limit=1)
    put(cache, b"one")
    put(cache, b"two")
    assert cache.find(key_of(b"one"), b"one")
    age(folder / f"lib-{key_of(b'one')}" / FACTS, 10_000)
    put(cache, b"three")
    assert [e.source for e in entries(folder)] == ["three", "two"]


def test_what_is_stored_now_stays_whatever_the_clock_says(folder, monkeypatch):
    monkeypatch.setattr(module, "FRESH", -1e9)
    put(Cache(folder), b"one")
    path = put(Cache(folder, limit=1), b"two")
    assert [entry.path for entry in entries(folder)] == [path.parent]


def test_entries_are_not_all_looked_at_each_time(folder, monkeypatch):
    looked, whole = [], module._prune
    monkeypatch.setattr(module, "_room", {})
    monkeypatch.setattr(module, "_prune", lambda *how: looked.append(1) or whole(*how))
    for number in range(20):
        put(Cache(folder, limit=300_000), b"%d" % number, b"x" * 10_000)
        if number < 19:
            age(folder / f"lib-{key_of(b'%d' % number)}" / FACTS, 10_000)
    assert 1 < len(looked) < 12  # the fuller the folder, the more often
    for number in range(20, 60):
        path = put(Cache(folder, limit=300_000), b"%d" % number, b"x" * 10_000)
        age(path.parent / FACTS, 10_000 - number)
    assert sum(path.stat().st_size for path in folder.glob("lib-*/*")) <= 300_000


def test_drafts_that_nobody_finished_go(cache, folder, monkeypatch):
    put(cache)
    monkeypatch.setattr(module, "_room", {})
    (folder / ".draft-old").mkdir()
    (folder / ".draft-old" / "half").write_text("")
    (folder / ".draft-new").mkdir()
    age(folder / ".draft-old", 10_000)
    put(cache, b"two")
    assert [name for name in names(folder) if name[0] == "."] == [".draft-new"]


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0 B"), (999, "999 B"), (1000, "1.0 KB"), (2_500_000, "2.5 MB"), (3e9, "3,000.0 MB")],
)
def test_sizes(size, text):
    assert module.bytes_text(size) == text


def test_clear_removes_the_entries_and_nothing_else(cache, folder):
    put(cache)
    put(cache, b"two")
    replace_by_file(folder / f"lib-{KEY}")
    (folder / "notes.txt").write_text("somebody's")
    assert clear(folder) == 2
    assert names(folder) == ["notes.txt"]
    assert clear(folder) == 0
    assert clear(folder / "nowhere") == 0
    assert not (folder / "nowhere").exists()


# -- several at once -------------------------------------------------------------------------------


def test_what_is_found_is_whole_whatever_others_do(folder):
    texts = [b"one", b"two"]
    faults = []

    def work(turn):
        cache = Cache(folder)
        try:
            for step in range(30):
                text = texts[(turn + step) % 2]
                path = cache.find(key_of(text), text) or put(cache, text, text * 1000)
                try:
                    if path.read_bytes() != text * 1000:
                        faults.append(path)
                except FileNotFoundError:  # cleared since
                    pass
                if step % 7 == turn:
                    clear(folder)
        except Exception as error:
            faults.append(error)

    threads = [threading.Thread(target=work, args=(turn,)) for turn in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert faults == []
    assert [name for name in names(folder) if name[0] == "."] == []


def test_what_is_of_no_use_is_not_kept(cache, folder):
    def refuses(path):
        assert path.read_bytes() == b"library"
        raise DeviceError("no use")

    error = error_of(lambda: cache.store(KEY, TEXT, b"library", "gcc 1.0", refuses), DeviceError)
    assert error.message == "no use"
    assert list(folder.iterdir()) == []


def test_a_draft_that_is_removed_meanwhile_is_made_elsewhere(cache, folder):
    tried = []

    def check(path):
        tried.append(path)
        if len(tried) == 1:
            shutil.rmtree(folder)
        path.stat()

    with pytest.warns(LabWarning, match="it cannot use .*No such file or directory"):
        path = cache.store(KEY, TEXT, b"library", "gcc 1.0", check)
    assert path.parent.parent == spare_folder()

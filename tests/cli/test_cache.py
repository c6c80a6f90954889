"""`luminal-lab cache`: what is kept is listed, and goes only when somebody is sure."""

import json
import os
import time

import pytest

from luminal_lab.devices.build import cache
from luminal_lab.devices.build.cache import FACTS, Cache, key_of
from luminal_lab.devices.facts.cached import cached
from tests.cli.asking import ask


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    """A user's folders, empty."""
    libraries = tmp_path / "home" / "libraries"
    monkeypatch.setattr(cache, "user_folder", lambda: libraries)
    monkeypatch.setattr(cache, "spare_folder", lambda: tmp_path / "spare")
    return libraries.parent


def put(text, seconds):
    """Store a library that was used so long ago."""
    path = Cache().store(key_of(text), text, b"code", "gcc 1.0").parent
    then = time.time() - seconds
    os.utime(path / FACTS, (then, then))
    return path


def test_a_line_for_each_kind_and_where_it_is(capsys, home):
    put(b"one", 3600)
    put(b"two", 3 * 86400)
    status, out, err = ask(capsys, "cache", "list")
    assert (status, err) == (0, "")
    head, libraries, kernels, graphs, winners, rates, _, place = out.splitlines()
    assert " ".join(head.split()) == "kind entries size last used oldest use what it is"
    assert libraries.split()[:2] == ["libraries", "2"]
    assert "1 hour     3 days " in libraries
    assert kernels.split()[:2] == ["kernels", "0"]
    assert graphs.split()[:2] == ["graphs", "0"]
    assert winners.split()[:2] == ["winners", "0"]
    assert rates.split()[:2] == ["rates", "0"]
    assert place == f"in {home / 'libraries'}"


def test_each_of_a_kind(capsys):
    put(b"int f;", 3600)
    out = ask(capsys, "cache", "list", "libraries")[1]
    assert out.startswith("1 library; ")
    assert out.endswith("int f;\n")
    assert ask(capsys, "cache", "list", "winners") == (0, "nothing is cached\n", "")


def test_a_list_for_programs(capsys):
    path = put(b"int f;", 3600)
    found = json.loads(ask(capsys, "cache", "list", "--json")[1])
    (entry,) = found["entries"]
    assert (found["format"], entry["kind"], entry["path"]) == (1, "libraries", str(path))
    assert entry["of"] == "int f;"


def test_nothing_goes_without_yes(capsys):
    put(b"one", 3600)
    status, out, err = ask(capsys, "cache", "clear")
    assert (status, err) == (0, "")
    assert out.startswith("would remove 1 library; ")
    assert out.endswith("\nnothing is removed yet: --yes removes it\n")
    assert len(cached()) == 1


def test_what_is_in_use_stays_unless_asked_for(capsys):
    put(b"now", 0)
    put(b"then", 3600)
    status, out, _ = ask(capsys, "cache", "clear", "--yes")
    assert status == 0
    assert out.startswith("removed 1 library; ")
    assert "\n1 used within 10 minutes stays: a process may be about to load them" in out
    assert ask(capsys, "cache", "clear", "--older", "0", "--yes")[1].startswith("removed 1 lib")
    assert cached() == ()
    assert ask(capsys, "cache", "clear", "--yes") == (0, "nothing to remove\n", "")


def test_a_kind_and_an_age_choose(capsys):
    put(b"old", 40 * 86400)
    new = put(b"new", 3600)
    assert ask(capsys, "cache", "clear", "winners", "--yes")[1] == "nothing to remove\n"
    assert ask(capsys, "cache", "clear", "libraries", "--older", "30d", "--yes")[0] == 0
    assert [entry.path for entry in cached()] == [new]


def test_what_cannot_be_removed_is_told(capsys, monkeypatch):
    put(b"one", 3600)
    monkeypatch.setattr(cache, "remove", lambda path: False)
    assert ask(capsys, "cache", "clear", "--yes") == (
        1,
        "removed nothing\n",
        "1 could not be removed\n",
    )


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ["clear", "library"],
            "cache clear: it cannot be 'library'\nhint: did you mean 'libraries'?\n",
        ),
        (
            ["list", "--older", "soon"],
            "cache: --older cannot be 'soon'\nhint: give 30d, 12h or 2w; 30 is 30 days\n",
        ),
        (["lst"], "cache: it cannot be 'lst'\nhint: did you mean 'list'?\n"),
    ],
)
def test_a_wrong_word_is_told(capsys, words, said):
    assert ask(capsys, "cache", *words) == (2, "", said)


def test_alone_it_lists_its_choices(capsys):
    status, out, _ = ask(capsys, "cache")
    assert status == 0
    assert "\n    list " in out
    assert "\n    clear " in out

"""Models that Hugging Face's tools have fetched are found by their names."""

from pathlib import Path

import pytest

from luminal_lab.errors import InputError
from luminal_lab.language.hub import hub_folder, is_name, published_folder
from tests.expect import error_of

NAME = "Qwen/Qwen2.5-0.5B-Instruct"
VARIABLES = ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_HOME", "XDG_CACHE_HOME")


@pytest.fixture(autouse=True)
def _bare(monkeypatch, tmp_path):
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))


def fetched(hub: Path, name: str, *commits: str, main: str | None = None) -> Path:
    folder = hub / f"models--{name.replace('/', '--')}"
    for commit in commits:
        (folder / "snapshots" / commit).mkdir(parents=True)
    if main is not None:
        (folder / "refs").mkdir()
        (folder / "refs" / "main").write_text(main)
    return folder / "snapshots"


@pytest.mark.parametrize(
    ("variables", "hub"),
    [
        ({}, ".cache/huggingface/hub"),
        ({"XDG_CACHE_HOME": "a"}, "a/huggingface/hub"),
        ({"HF_HOME": "b", "XDG_CACHE_HOME": "a"}, "b/hub"),
        ({"HUGGINGFACE_HUB_CACHE": "c", "HF_HOME": "b"}, "c"),
        ({"HF_HUB_CACHE": "d", "HUGGINGFACE_HUB_CACHE": "c"}, "d"),
    ],
)
def test_the_folder_is_where_their_tools_have_it(monkeypatch, tmp_path, variables, hub):
    for name, value in variables.items():
        monkeypatch.setenv(name, str(tmp_path / value))
    assert hub_folder() == tmp_path / hub
    snapshots = fetched(tmp_path / hub, NAME, "0f1e", "2d3c", main="2d3c")
    assert published_folder(NAME, "load") == snapshots / "2d3c"


def test_the_only_commit_is_taken_where_none_is_named(tmp_path):
    snapshots = fetched(tmp_path / ".cache/huggingface/hub", "gpt2", "0f1e")
    assert published_folder("gpt2", "load") == snapshots / "0f1e"


@pytest.mark.parametrize("main", [None, "../..", "9999", "", "a\n/b", "x" * 2000])
def test_of_several_commits_one_must_be_named(tmp_path, main):
    fetched(tmp_path / ".cache/huggingface/hub", NAME, "0f1e", "2d3c", main=main)
    error = error_of(lambda: published_folder(NAME, "load"), InputError)
    hub = tmp_path / ".cache/huggingface/hub"
    assert error.message == (
        f"load: there is no {NAME}: it is neither a file or folder here, nor a model in {hub}"
    )
    assert error.hint is not None
    assert error.hint == (
        f"the current folder is {Path.cwd()}; hf download {NAME} fetches a model of that name, and "
        "nothing is fetched from here"
    )


@pytest.mark.parametrize("name", [NAME, "gpt2", "a-b/c_d.e"])
def test_these_may_be_names(name):
    assert is_name(name)


@pytest.mark.parametrize(
    "name", ["../x", "a/b/c", "/a/b", "./a", "a/../b", "~/a", "m.gguf", "a b/c", "a\\b", "", "ä/b"]
)
def test_these_are_none(name):
    assert not is_name(name)

"""`luminal-lab lab`: which notebooks are opened, and whose answers stay."""

import errno
import os
import subprocess
import sys

import pytest

from luminal_lab.cli import lab
from tests.cli.asking import ROOT, ask
from tests.needs import need
from tests.test_links import broken, prose


@pytest.fixture
def calls(monkeypatch, tmp_path):
    """What would be started."""
    found = []
    monkeypatch.setattr(lab, "THEIRS", tmp_path)

    def run(command, **how):
        found.append((command, how))
        return subprocess.CompletedProcess(command, 0)

    monkeypatch.setattr(lab.subprocess, "run", run)
    return found


@pytest.mark.needs("jupyterlab")
def test_a_checkout_s_notebooks_are_opened_in_place(capsys, calls):
    assert ask(capsys, "lab", "--", "--no-browser") == (0, "", "")
    [(command, how)] = calls
    root = f"--ServerApp.root_dir={ROOT}"
    first = "--LabApp.default_url=/lab/tree/notebooks/00_quickstart.ipynb"
    assert command == [sys.executable, "-P", "-m", "jupyterlab", root, first, "--no-browser"]
    assert how["cwd"] == ROOT


@pytest.mark.needs("jupyterlab")
def test_the_folder_of_a_checkout_is_opened_in_place_as_well(capsys, calls):
    for folder in (ROOT, ROOT / "notebooks"):
        assert ask(capsys, "lab", folder) == (0, "", "")
        assert calls.pop()[1]["cwd"] == ROOT


def test_jupyterlab_gets_our_defaults_where_nobody_gave_it_others(calls, monkeypatch, tmp_path):
    server = need("jupyterlab_server.settings_utils")
    monkeypatch.setattr(lab, "THEIRS", tmp_path / "settings")
    ours = f"--LabApp.app_settings_dir={lab.SETTINGS}"
    lab.opened(ROOT, [])
    assert ours in calls[-1][0]
    found, fault = server._get_overrides(str(lab.SETTINGS))
    assert not fault
    assert found["@jupyterlab/apputils-extension:notification"]["fetchNews"] == "false"
    viewers = found["@jupyterlab/docmanager-extension:plugin"]["defaultViewers"]
    assert viewers == {"markdown": "Markdown Preview"}
    lab.THEIRS.mkdir()
    lab.opened(ROOT, [])
    assert ours not in calls[-1][0]


def test_no_module_that_lies_in_the_folder_is_run(tmp_path):
    need("jupyterlab")
    (tmp_path / lab.FIRST).write_text("{}", "utf-8")
    for name in ("jupyterlab", "json"):
        (tmp_path / f"{name}.py").write_text("open('was-run', 'w')", "utf-8")
    assert lab.opened(tmp_path, ["--version"]) == 0
    assert not (tmp_path / "was-run").exists()


def test_copies_never_take_the_place_of_answers(capsys, tmp_path):
    folder = tmp_path / "mine"
    status, out, err = ask(capsys, "lab", folder, "--copy")
    count = len(list((folder / "notebooks").glob("*.ipynb")))
    assert (status, out, err) == (0, f"{count} notebooks copied to {folder}\n", "")
    (folder / "notebooks" / lab.FIRST).write_text("my answers")
    (folder / "notebooks" / "01_lazy_graphs.ipynb").unlink()
    (folder / "docs" / "cli.md").write_text("my notes")
    status, out, _ = ask(capsys, "lab", folder, "--copy")
    assert out == (
        f"1 notebook copied to {folder}; {count - 1} were there already, and stay as they are\n"
    )
    assert (folder / "notebooks" / lab.FIRST).read_text() == "my answers"
    assert (folder / "docs" / "cli.md").read_text() == "my notes"


def test_all_links_of_copies_lead_somewhere(capsys, tmp_path):
    folder = tmp_path / "mine"
    assert ask(capsys, "lab", folder, "--copy")[0] == 0
    pages = [*folder.rglob("*.ipynb"), *folder.rglob("*.md")]
    assert len(pages) > 30
    assert [bad for one in pages for bad in broken(one, prose(one), folder)] == []


@pytest.mark.needs("jupyterlab")
def test_a_folder_that_has_its_notebooks_at_the_top_keeps_them_there(capsys, calls, tmp_path):
    (tmp_path / lab.FIRST).write_text("my answers")
    assert ask(capsys, "lab", tmp_path)[0] == 0
    assert (tmp_path / lab.FIRST).read_text() == "my answers"
    assert (tmp_path / "01_lazy_graphs.ipynb").is_file()
    assert {path.suffix for path in tmp_path.iterdir()} == {".ipynb"}
    [(command, how)] = calls
    assert how["cwd"] == tmp_path
    assert f"--LabApp.default_url=/lab/tree/{lab.FIRST}" in command


def test_a_place_that_cannot_be_written_to(capsys, tmp_path):
    taken = tmp_path / "taken"
    taken.write_text("a file")
    assert ask(capsys, "lab", taken, "--copy") == (
        2,
        "",
        f"lab: {taken} cannot be written to: not a directory\n"
        "hint: name a folder of your own: luminal-lab lab my-course\n",
    )
    assert taken.read_text() == "a file"


def test_a_copy_that_fails_leaves_no_half_file(capsys, tmp_path, monkeypatch):
    def full(path, draft):
        draft.write_text("half")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(lab.shutil, "copyfile", full)
    status, _, err = ask(capsys, "lab", tmp_path, "--copy")
    assert (status, err.partition("\n")[0]) == (
        2,
        f"lab: {tmp_path} cannot be written to: no space left on device",
    )
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_without_jupyterlab_it_says_how_to_get_it(capsys, monkeypatch):
    monkeypatch.setattr(lab, "find_spec", lambda name: None)
    monkeypatch.setattr("sys.executable", "/env/bin/python")
    monkeypatch.chdir(ROOT)
    assert ask(capsys, "lab") == (
        2,
        "",
        "lab: JupyterLab is not installed\nhint: /env/bin/python -m pip install -e '.[lab]'\n",
    )


def test_an_installation_without_notebooks(capsys, monkeypatch, tmp_path):
    monkeypatch.setattr(lab, "stored", lambda package: None)
    assert ask(capsys, "lab", "--copy", tmp_path)[2] == (
        f"lab: there are no notebooks with this installation, and none in {tmp_path}\n"
        "hint: copy the folder notebooks of luminal_lab's repository there\n"
    )


def test_where_the_notebooks_are(tmp_path):
    package = tmp_path / "luminal_lab"
    assert lab.stored(package) is None
    for root in (tmp_path, package / "material"):
        (root / "notebooks").mkdir(parents=True)
        (root / "notebooks" / lab.FIRST).write_text("{}")
        assert lab.stored(package) == root

"""`luminal-lab lab`: which notebooks are opened, and whose answers stay."""

import subprocess
import sys

from luminal_lab.cli import lab
from tests.cli.asking import ROOT, ask


def test_a_checkout_s_notebooks_are_opened_in_place(capsys, monkeypatch):
    calls = []

    def run(command, **how):
        calls.append((command, how))
        return subprocess.CompletedProcess(command, 0)

    monkeypatch.setattr(lab.subprocess, "run", run)
    assert ask(capsys, "lab", "--", "--no-browser") == (0, "", "")
    command = [sys.executable, "-m", "jupyterlab", "00_quickstart.ipynb", "--no-browser"]
    assert calls == [(command, {"cwd": ROOT / "notebooks", "check": False})]


def test_copies_never_take_the_place_of_answers(capsys, tmp_path):
    folder = tmp_path / "mine"
    status, out, err = ask(capsys, "lab", folder, "--copy")
    count = len(list(folder.glob("*.ipynb")))
    assert (status, out, err) == (0, f"{count} notebooks copied to {folder}\n", "")
    (folder / lab.FIRST).write_text("my answers")
    (folder / "01_lazy_graphs.ipynb").unlink()
    status, out, _ = ask(capsys, "lab", folder, "--copy")
    assert out == (
        f"1 notebook copied to {folder}; {count - 1} were there already, and stay as they are\n"
    )
    assert (folder / lab.FIRST).read_text() == "my answers"


def test_without_jupyterlab_it_says_how_to_get_it(capsys, monkeypatch):
    monkeypatch.setattr(lab, "find_spec", lambda name: None)
    assert ask(capsys, "lab") == (
        2,
        "",
        'lab: JupyterLab is not installed\nhint: pip install "luminal-lab[lab]"\n',
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
    for folder in (tmp_path / "notebooks", package / "notebooks"):
        folder.mkdir(parents=True)
        (folder / lab.FIRST).write_text("{}")
        assert lab.stored(package) == folder

"""`luminal-lab trace`: what a script makes is recorded, however it ends."""

import pytest

import luminal_lab as ll
from tests.cli.asking import ask, recording

SCRIPT = """\
import sys
import luminal_lab as ll
from beside import FACTOR

if __name__ == "__main__":
    cx = ll.Graph("twice")
    y = (cx.tensor((2,), name="x") * FACTOR + 0).retrieve()
    cx.compile("simplify, dce")
    print(*sys.argv[1:])
{}
"""
SAVED = "recorded 1 compile\nsaved to {0}: luminal-lab open {0} shows it\n"


@pytest.fixture
def script(tmp_path):
    """Write a script that ends in some lines, and return its path and where it is recorded."""
    (tmp_path / "beside.py").write_text("FACTOR = 2\n")

    def write(end=""):
        path = tmp_path / "train.py"
        path.write_text(SCRIPT.format(end))
        return path, tmp_path / "run.lab"

    return write


@pytest.fixture(autouse=True)
def _modules_of_scripts(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "beside", None)
    monkeypatch.delitem(__import__("sys").modules, "beside")


def test_a_script_is_recorded(capsys, script):
    path, out = script()
    asked = "trace", path, "-o", out, "--", "--epochs", "3"
    assert ask(capsys, *asked) == (0, "--epochs 3\n", SAVED.format(out))
    run = ll.open(out)
    assert (run.title, run.pipeline, len(run)) == ("twice", "(simplify, dce)", 1)
    assert any("train.py" in cell.title for cell in run.facts.cells)


@pytest.mark.parametrize(
    ("end", "status", "said"),
    [
        ("raise SystemExit", 0, ""),
        ("sys.exit(3)", 1, "{} ended with status 3\n"),
        ("sys.exit('no data')", 1, "no data\n"),
        ("raise KeyboardInterrupt", 130, "stopped\n"),
    ],
)
def test_however_it_ends_what_it_made_is_saved(capsys, script, end, status, said):
    path, out = script(end)
    assert ask(capsys, "trace", path, "-o", out) == (
        status,
        "\n",
        said.format(path) + SAVED.format(out),
    )
    assert len(ll.open(out)) == 1


def test_what_is_no_text_is_no_script(capsys, tmp_path):
    path = tmp_path / "model.so"
    path.write_bytes(b"\x7fELF\0\0")
    status, out, err = ask(capsys, "trace", path, "-o", tmp_path / "run.lab")
    assert (status, out) == (2, "")
    assert err.startswith(f"trace: {path} is neither a recording nor a script: it is no text\n")


def test_an_error_is_shown_from_the_script_on(capsys, script):
    path, out = script("1 / 0")
    status, _, err = ask(capsys, "trace", path, "-o", out)
    assert status == 1
    assert err.startswith(
        f'Traceback (most recent call last):\n  File "{path}", line 10, in <module>'
    )
    assert err.endswith("ZeroDivisionError: division by zero\n" + SAVED.format(out))
    path, out = script("ll.Graph().tensor((2, 3)).reshape(7)")
    status, _, err = ask(capsys, "trace", path, "-o", out)
    assert status == 1
    assert err.startswith("ShapeError: ")
    assert 'train.py", line 10' in err
    assert "Traceback" not in err


def test_a_terminal_obeys_nothing_that_an_error_of_the_script_says(capsys, script):
    path, out = script('raise ValueError("\\x1b[2J")')
    status, _, said = ask(capsys, "trace", path, "-o", out)
    assert status == 1
    assert "ValueError: \\u001b[2J" in said
    assert "\x1b" not in said


def test_what_cannot_be_saved_there_is_saved_elsewhere(capsys, script, tmp_path, monkeypatch):
    spare = tmp_path / "spare"
    spare.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(spare))
    path, out = script(f"import shutil; shutil.rmtree({str(tmp_path / 'gone')!r})")
    out = tmp_path / "gone" / "run.lab"
    out.parent.mkdir()
    status, _, err = ask(capsys, "trace", path, "-o", out)
    [kept] = spare.glob("*/run.lab")
    assert status == 2
    assert err.startswith(f"recording: {out} cannot be written: there is no folder 'gone'\n")
    assert err.endswith(SAVED.format(kept))
    assert len(ll.open(kept)) == 1


def test_a_script_that_makes_nothing(capsys, tmp_path):
    path = tmp_path / "empty.py"
    path.write_text("")
    assert ask(capsys, "trace", path, "-o", tmp_path / "run.lab") == (
        1,
        "",
        f"trace: {path} has made no graph: nothing is saved\n",
    )


def test_a_recording_is_compiled_anew(capsys, tmp_path):
    path, out = recording(tmp_path / "model.lab"), tmp_path / "out.lab"
    status, _, _ = ask(capsys, "trace", path, "-o", out)
    assert (status, ll.open(out).pipeline) == (0, "(simplify, dce)")
    status, _, _ = ask(capsys, "trace", path, "--passes", "generic", "-o", out)
    assert (status, ll.open(out).pipeline) == (0, "generic")
    assert ll.open(out).written == ll.open(path).written


def test_what_cannot_be_done_is_said_before_the_script_runs(capsys, script, tmp_path):
    path, _ = script("print('ran')")
    notebook = tmp_path / "n.ipynb"
    notebook.write_text("{}")
    for words, said in (
        ((path, "-o", path), f"trace: {path} is what is read"),
        ((path, "-o", tmp_path / "no" / "x.lab"), "there is no folder"),
        ((path, "--passes", "dce"), "trace: --passes is for recordings"),
        ((notebook, "-o", tmp_path / "x.lab"), "is a notebook, which is run in Jupyter"),
        ((tmp_path / "trian.py",), "there is no such file\nhint: did you mean 'train.py'?"),
    ):
        status, out, err = ask(capsys, "trace", *words)
        assert (status, out) == (2, "")
        assert said in err

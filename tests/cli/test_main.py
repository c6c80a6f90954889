"""The command line as a whole: help, errors, exit statuses, Ctrl-C, pipes."""

import os
import runpy
import signal
import subprocess
import sys

import pytest

from luminal_lab import __version__, cli
from luminal_lab.cli.export_model import COMMAND as EXPORT
from luminal_lab.errors import ArgumentError
from tests.cli.asking import GRAPH, ROOT, ask, started


def test_version(capsys):
    assert ask(capsys, "--version") == (0, f"luminal_lab {__version__}\n", "")


@pytest.mark.parametrize("words", [[], ["-h"], ["--help"]])
def test_help_names_every_command(capsys, words):
    status, out, err = ask(capsys, *words)
    assert (status, err) == (0, "")
    assert out.startswith("usage: luminal-lab [-h] [--version] command ...\n")
    wide = max(map(len, cli.COMMANDS)) + 2
    for name, does in cli.COMMANDS.items():
        assert f"  {name:{wide}}{does}\n" in out
    assert "exit status: 0 if all went well" in out


@pytest.mark.parametrize("name", cli.COMMANDS)
def test_every_command_teaches_by_examples(capsys, name):
    status, out, err = ask(capsys, name, "--help")
    assert (status, err) == (0, "")
    assert out.startswith(f"usage: luminal-lab {name} ")
    assert f"examples:\n  luminal-lab {name}" in out
    assert "exit status: 0 if" in out
    assert max(map(len, out.splitlines())) <= 100


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ["benhc"],
            "luminal-lab: there is no command 'benhc'\nhint: did you mean 'bench'?\n",
        ),
        (
            ["--hlep"],
            "luminal-lab: it does not take '--hlep'\nhint: did you mean '--help'?\n",
        ),
        (
            ["--quiet"],
            "luminal-lab: it does not take '--quiet'\nhint: luminal-lab --help lists them\n",
        ),
        (
            ["open", "run.lab", "--port", "eighty"],
            "open: --port cannot be 'eighty'\nhint: give a whole number\n",
        ),
        (
            ["lab", "mine", "--port", "8889"],
            "lab: it does not take '--port'\n"
            "hint: put JupyterLab's own words after --: luminal-lab lab mine -- --port 8889\n",
        ),
        (
            ["lab", "--cpoy"],
            "lab: it does not take '--cpoy'\nhint: did you mean '--copy'?\n",
        ),
        (
            ["trace", "fit.py", "--epochs", "3"],
            "trace: it does not take '--epochs'\n"
            "hint: put the script's own words after --: luminal-lab trace fit.py -- --epochs 3\n",
        ),
        (
            ["open", "run.lab", "--prot", "3"],
            "open: it does not take '--prot'\nhint: did you mean '--port'?\n",
        ),
        (
            ["trace"],
            "trace: FILE is missing\nhint: luminal-lab trace --help says what it takes\n",
        ),
        (
            ["course", "solved"],
            "course solved: FOLDER, OUT are missing\n"
            "hint: luminal-lab course solved --help says what it takes\n",
        ),
        (
            ["doctor", "jsno"],
            "doctor: it does not take 'jsno'\nhint: did you mean '--json'?\n",
        ),
        (
            ["record", "--device", "xyz"],
            "record: --device cannot be 'xyz'\nhint: choose from cpu, cuda, metal, webgpu, xla\n",
        ),
        (
            ["passes", "sofmax"],
            "passes: there is no pass 'sofmax'\nhint: did you mean 'softmax'?\n",
        ),
        (
            ["record", "--device", "cdua"],
            "record: --device cannot be 'cdua'\nhint: did you mean 'cuda'?\n",
        ),
        (
            ["course", "grde", "x"],
            "course: it cannot be 'grde'\nhint: did you mean 'grade'?\n",
        ),
    ],
)
def test_a_wrong_word_is_told(capsys, words, said):
    assert ask(capsys, *words) == (2, "", said)


def test_the_package_is_run_as_the_command(capsys, monkeypatch):
    monkeypatch.setattr("sys.argv", ["luminal_lab", "--version"])
    with pytest.raises(SystemExit) as ended:
        runpy.run_module("luminal_lab", run_name="__main__")
    assert ended.value.code == 0
    assert capsys.readouterr().out == f"luminal_lab {__version__}\n"


def test_help_loads_no_command_and_nothing_heavy():
    script = (
        "import sys; from luminal_lab import cli; cli.main(['--help']); print(*sorted(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True
    )
    loaded = set(done.stdout.splitlines()[-1].split())
    assert {one for one in loaded if one.startswith("luminal_lab.cli")} == {
        "luminal_lab.cli",
        "luminal_lab.cli.command",
        "luminal_lab.cli.saying",
    }
    assert not {"luminal_lab.core.ir", "luminal_lab.session", "luminal_lab.kernels"} & loaded
    assert not {"numpy", "ml_dtypes", "pandas", "IPython"} & loaded


@pytest.mark.skipif(os.name != "posix", reason="signals are POSIX's")
def test_ctrl_c_ends_it_without_a_traceback(tmp_path):
    script = tmp_path / "endless.py"
    script.write_text("print('going', flush=True)\nwhile True:\n    pass\n")
    with started("trace", script, cwd=tmp_path) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "going\n"
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=30)
    assert (process.returncode, out) == (130, "")
    assert err == f"stopped\ntrace: {script} has made no graph: nothing is saved\n"


@pytest.mark.skipif(os.name != "posix", reason="a shell's pipe")
def test_a_pipe_that_nobody_reads_is_no_error():
    read, write = os.pipe()
    os.close(read)
    with started("--help", stdout=write) as process:
        os.close(write)
        _, err = process.communicate(timeout=30)
    assert (process.returncode, err) == (141, "")


def test_graphs_go_from_pipe_to_pipe():
    with started("run", "-", "--passes", "simplify, dce", stdin=subprocess.PIPE) as process:
        out, err = process.communicate(GRAPH, timeout=60)
    assert (process.returncode, err) == (0, "")
    assert out == "graph g(%x: f32[2]) -> (%y) {\n  %y = sin %x : f32[2]\n}\n"


def test_a_warning_that_no_line_led_to_is_a_note(tmp_path):
    code = (
        "import sys, warnings; from luminal_lab import LabWarning, cli;"
        "sys.argv = ['luminal-lab', 'course', 'list'];"
        "cli.main();"
        "warnings.warn_explicit('kept elsewhere', LabWarning, 'luminal-lab', 8);"
        "warnings.warn_explicit('compiled again', LabWarning, 'train.py', 3)"
    )
    done = subprocess.run(
        [sys.executable, "-W", "default", "-c", code], cwd=ROOT, capture_output=True, text=True,
        check=True,
    )  # fmt: skip
    assert done.stderr == "note: kept elsewhere\ntrain.py:3: LabWarning: compiled again\n"


@pytest.mark.parametrize(
    "words",
    [
        ["--sizes", "a=1", "b=2", "model.onnx", "out"],
        ["model.onnx", "--sizes", "a=1", "b=2", "out"],
        ["model.onnx", "out", "--sizes", "a=1", "b=2"],
    ],
    ids=" ".join,
)
def test_pairs_end_before_a_word_that_is_none(words):
    given = EXPORT.read(words)
    assert (str(given.file), str(given.folder), given.sizes) == (
        "model.onnx",
        "out",
        ["a=1", "b=2"],
    )


def test_words_that_are_missing_are_told():
    with pytest.raises(ArgumentError, match="export-model: FOLDER is missing"):
        EXPORT.read(["--sizes", "a=1", "model.onnx"])

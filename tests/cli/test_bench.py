"""`luminal-lab bench`: what it prints, what it asks for, its exit status."""

import json

import pytest

from luminal_lab.bench.peers.known import PEERS, Known
from luminal_lab.bench.rows import read_report
from luminal_lab.cli import bench
from tests.bench.planted import Wrong, known
from tests.cli.asking import ask


def test_help_of_the_benchmark_lists_the_workloads(capsys):
    _, out, _ = ask(capsys, "bench", "--help")
    assert "--against FILE" in out
    assert "llama-decode-q8" in out
    assert "decode-1024-q4_k_m" in out
    assert "pip install 'luminal-lab[bench]'" in out
    assert max(map(len, out.splitlines())) <= 100


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ["--only", "matmul-1025"],
            "bench: there is no workload 'matmul-1025'\nhint: did you mean 'matmul-1024'?\n",
        ),
        (
            ["--only", "gelu,qqq"],
            "bench: there is no workload 'qqq'\nhint: luminal-lab bench --help lists them\n",
        ),
        (
            ["--peers", "pytorhc"],
            "bench: there is no library 'pytorhc' to measure\nhint: did you mean 'pytorch'?\n",
        ),
        (
            ["--old", "HEAD", "--peers", "none"],
            "bench: --old and --peers are given, and --old has no other libraries\n"
            "hint: leave out --peers\n",
        ),
        (
            ["--old", "HEAD", "--limit", "3"],
            "bench: --old and --limit are given, and --old has no such limit\n"
            "hint: leave out --limit\n",
        ),
        (
            ["--quick", "--page", "page.md"],
            "bench: --page and --quick are given, and the page has full runs beside libraries\n"
            "hint: leave out --quick\n",
        ),
        (["--shape", "small"], "bench: --shape is given without --models\nhint: give both\n"),
        (
            ["--models", "--only", "decode-128-q8"],
            "bench: there is no workload 'decode-128-q8'\nhint: did you mean 'decode-128-q8_0'?\n",
        ),
        (
            ["--models", "--peers", "numpy"],
            "bench: there is no library 'numpy' to measure\n"
            "hint: they are llama.cpp, PyTorch, torch.compile, ONNX Runtime\n",
        ),
        (["--threads", "-1"], "bench: --threads is -1\nhint: give 1 or more\n"),
        (
            ["--json", "no/such/folder/rows.json"],
            "bench: no/such/folder/rows.json cannot be written: there is no folder no/such/folder\n"
            "hint: make it first, or give another file\n",
        ),
    ],
)
def test_what_cannot_be_done_is_said_before_anything_runs(capsys, arguments, said):
    status, out, err = ask(capsys, "bench", *arguments)
    assert (status, out, err) == (2, "", said)


def test_a_quick_run_is_printed_saved_and_compared(capsys, tmp_path):
    first, second = tmp_path / "first.json", tmp_path / "second.json"
    asked = "bench", "--quick", "--threads", "1", "--peers", "numpy", "--only", "sum-rows,gelu"
    status, out, _ = ask(capsys, *asked, "--json", str(first))
    assert status == 0
    names = [
        line.split()[0] for line in out.splitlines() if line.endswith("%") or " NumPy " in line
    ]
    assert [name for name in names if name in ("gelu", "sum-rows")] == ["gelu", "sum-rows"]
    assert [row.name for row in read_report(first).rows] == ["gelu", "sum-rows"]

    # What took no time then is slower now.
    given = json.loads(first.read_text("utf-8"))
    given["rows"][0]["rounds"]["luminal_lab"] = [1e-9] * 3
    first.write_text(json.dumps(given), encoding="utf-8")
    status, out, _ = ask(capsys, *asked, "--against", str(first), "--json", str(second))
    assert status == 0
    assert f"slower than in {first}:\n  gelu: " in out
    assert len(read_report(second).rows) == 2


def test_language_models_are_printed_with_their_tokens(capsys):
    asked = (
        "--models",
        "--quick",
        "--threads",
        "1",
        "--peers",
        "none",
        "--only",
        "decode-128-q4_k_m",
    )
    status, out, _ = ask(capsys, "bench", *asked)
    assert status == 0
    assert "\ndecode-128-q4_k_m " in out
    assert "\n  tokens/s: ours " in out


def test_a_library_that_disagrees_makes_it_fail(capsys, monkeypatch):
    absent = Known("Absent", "tests.bench.absent:Absent", ("no_such_package",))
    monkeypatch.setattr(bench, "PEERS", (known(Wrong), absent))
    status, out, _ = ask(capsys, "bench", "--quick", "--only", "gelu")
    assert status == 1
    assert "  ! Wrong disagrees: at (1, 2) of result 0" in out
    missing = "no_such_package is not installed: pip install 'luminal-lab[bench]'"
    assert f"without Absent: {missing}" in out


def test_usage_names_all_options(capsys):
    usage = ask(capsys, "bench", "--help")[1].partition("\n\n")[0]
    for option in (
        *("--quick", "--only", "--threads", "--peers", "--json", "--against", "--old"),
        *("--models", "--shape", "--limit"),
    ):
        assert option in usage


@pytest.mark.parametrize(
    ("given", "names"),
    [
        ("onnxruntime", ["ONNX Runtime"]),
        ("ONNX Runtime", ["ONNX Runtime"]),
        ("torch,JAX", ["PyTorch", "JAX"]),
        ("torch.compile", ["torch.compile"]),
        ("none", []),
    ],
)
def test_libraries_go_by_their_names_and_their_packages(given, names):
    assert [peer.name for peer in bench.chosen_peers(given, PEERS)] == names

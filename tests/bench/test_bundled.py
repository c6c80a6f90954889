"""What is recorded from a bundle: each program in a process, whatever becomes of it."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from luminal_lab import cli, trust
from luminal_lab.bench import bundled
from luminal_lab.bench.bundled import joined, make, record
from luminal_lab.devices.cuda.bundle import Bundle
from luminal_lab.devices.gpu import nvrtc
from luminal_lab.errors import ArgumentError, DeviceError, TrustError
from luminal_lab.machines.resources import CompiledCUDA
from luminal_lab.timing.recording import Recording
from tests.devices.cuda.test_engine import standing
from tests.devices.stand_ins.libcuda_stand_in import LibcudaStandIn
from tests.expect import error_of

ONLY = ["softmax", "op table: indexing"]


@pytest.fixture(autouse=True)
def _home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A user who has signed nothing, and a compiler that leaves sources as they are."""

    def compiled(source: str, arch: str) -> CompiledCUDA:
        return CompiledCUDA(arch, source, source.encode(), "", {})

    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setattr(trust, "_HERE", {})
    monkeypatch.setattr(nvrtc, "compile_cuda", compiled)
    monkeypatch.setattr(nvrtc, "version", lambda: (13, 0))
    monkeypatch.setattr(bundled, "check_arch", lambda arch: None)


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[LibcudaStandIn]:
    """A card whose driver is the stand-in; the processes of programs are calls."""

    def answered(bundle: Bundle, name: str, rounds: int, seconds: float) -> dict[str, Any]:
        return {
            "name": name,
            **bundled._answered(bundle.folder, name, bundle.foreign.digest, rounds),
        }

    monkeypatch.setattr(bundled, "_apart", answered)
    yield from standing(monkeypatch, LibcudaStandIn())


@pytest.fixture
def bundle(tmp_path: Path) -> Bundle:
    """A bundle that somebody else has made."""
    made = make(tmp_path / "b", ["sm_90"], ONLY, is_quick=True)
    assert made.failed == []
    trust.unsign([made.bundle.foreign])
    return made.bundle


def test_a_bundle_is_recorded_on_the_card(gpu: LibcudaStandIn, bundle: Bundle, tmp_path: Path):
    lines: list[str] = []
    with pytest.raises(TrustError, match="machine code for NVIDIA's GPUs"):
        record(bundle.folder)
    assert "cuModuleLoadData" not in gpu.given
    outcome = record(bundle.folder, trusted=True, rounds=2, told=lines.append)
    assert outcome.failed == []
    told = [json.loads(line) for line in lines]
    assert [line["name"] for line in told] == ["op table: indexing", "softmax"]
    found = outcome.recording
    assert [one.name for one in found.programs] == ["op table: indexing", "softmax"]
    assert found.target == {"arch": "sm_90"}
    assert all(len(one.cold) == len(one.samples) == 2 for one in found.kernels)
    assert "cold" in str(found).splitlines()[1]
    assert "cuModuleLoadData" in gpu.given
    found.save(tmp_path / "card.json")
    assert Recording.load(tmp_path / "card.json") == found
    assert joined([found, found]).kernels[0].samples == 2 * found.kernels[0].samples
    # Each line alone is a recording.
    assert joined([Recording.from_json(json.dumps(line["recording"])) for line in told]) == found


def test_a_program_that_fails_is_told_and_the_others_go_on(gpu: LibcudaStandIn, bundle: Bundle):
    gpu.fails["cuStreamQuery"] = [700]
    lines: list[str] = []
    outcome = record(bundle.folder, trusted=True, rounds=1, told=lines.append)
    first, second = (json.loads(line) for line in lines)
    assert "CUDA_ERROR_ILLEGAL_ADDRESS" in first["failed"]
    assert "recording" in second
    assert len(outcome.failed) == len(outcome.recording.programs) == 1
    gpu.fails["cuModuleLoadData"] = [209, 209]
    error = error_of(lambda: record(bundle.folder, rounds=1), DeviceError)
    assert error.message.startswith("record: none of 2 programs could be recorded; the first: ")


def test_what_cannot_run_here_is_said_before_anything_runs(
    gpu: LibcudaStandIn, bundle: Bundle, tmp_path: Path
):
    trust.allow([bundle.foreign])
    gpu.devices = 0
    error = error_of(lambda: record(bundle.folder), DeviceError)
    assert error.message == "record: cuda: there is no NVIDIA GPU on this machine"
    assert (error.hint or "").startswith("nvidia-smi shows the card and its driver")
    gpu.devices, gpu.version = 1, 12_020
    error = error_of(lambda: record(bundle.folder), DeviceError)
    assert error.message == "bundle: the driver knows CUDA 12.2, and CUDA 13.0 made the code"
    gpu.version, gpu.capability = 13_000, "80"
    error = error_of(lambda: record(bundle.folder), DeviceError)
    assert "bundle: it is for sm_90, and the card, " in error.message
    assert error.hint == "luminal-lab bundle --arch sm_80 -o FOLDER makes one"


def test_only_some_of_a_bundle_is_recorded(gpu: LibcudaStandIn, bundle: Bundle):
    found = record(bundle.folder, ["softmax"], trusted=True, rounds=1).recording
    assert [one.name for one in found.programs] == ["softmax"]
    error = error_of(lambda: record(bundle.folder, ["softmix"], trusted=True), ArgumentError)
    assert error.message == "record: the bundle has nothing called 'softmix'"
    assert error.hint == "did you mean 'softmax'?"


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("import time; time.sleep(600)", "it gave no answer in 2 s, and was ended: a kernel may"),
        ("import os; os.kill(os.getpid(), 11)", "its process ended by SIGSEGV: it said nothing"),
        ("print('hello'); 1 / 0", "its process ended with status 1: ZeroDivisionError: division"),
    ],
    ids=["hangs", "crashes", "breaks"],
)
def test_whatever_a_process_does_is_a_line(
    code: str, said: str, bundle: Bundle, monkeypatch: pytest.MonkeyPatch
):
    run = subprocess.run

    def started(command: list[str], **how: Any) -> Any:
        return run([sys.executable, "-c", code], **how)

    monkeypatch.setattr(bundled.subprocess, "run", started)
    line = bundled._apart(bundle, "softmax", 1, 2.0)
    assert line["name"] == "softmax"
    assert line["failed"].startswith(said)


def test_a_process_of_its_own_answers(bundle: Bundle, tmp_path: Path):
    line = bundled._apart(Bundle(tmp_path / "gone", bundle.manifest), "softmax", 1, 300.0)
    assert line["failed"].startswith(f"bundle: {tmp_path / 'gone'} is none: bundle.json: No such")


def test_a_bundle_goes_into_a_new_folder(bundle: Bundle):
    error = error_of(lambda: make(bundle.folder, ["sm_90"], ONLY), ArgumentError)
    assert error.message == f"bundle: {bundle.folder} is there, and is no empty folder"


def test_equal_sources_come_from_other_processes(bundle: Bundle):
    """A program finds its code by the source that it writes anew, in whichever process."""
    code = (
        "from luminal_lab.bench.bundled import _sources\n"
        "from luminal_lab.bench.record import chosen_tasks\n"
        "from luminal_lab.devices.cuda.bundle import digest_of\n"
        f"for task in chosen_tasks({ONLY!r}, is_quick=True):\n"
        "    for source in _sources(task, 'sm_90'): print(digest_of(source.encode()))\n"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert set(done.stdout.split()) == {one.source for one in bundle.manifest.programs}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--device", "cpu", "--bundle", "b"], "record: a bundle is for --device cuda, and has"),
        (["--device", "cuda", "--bundle", "b", "--quick"], "record: a bundle is for --device"),
        (["--device", "cuda", "--bundle", "b", "--seconds", "0"], "record: --seconds is 0"),
        (["--device", "cuda", "--bundle", "nowhere"], "bundle: nowhere is none: bundle.json"),
    ],
)
def test_the_words_of_record(words: list[str], said: str, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert cli.main(["record", *words]) == 2
    assert capsys.readouterr().err.startswith(said)


def test_the_words_of_bundle(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = ["bundle", "--arch", "sm_80,sm_90a", "-o", "both", "--quick", "--only", "softmax"]
    assert cli.main(words) == 0
    out = capsys.readouterr().out
    assert out.startswith("wrote 1 program for sm_80, sm_90a to both: machine code, ")
    assert "there: luminal-lab record --device cuda --bundle both --trust" in out
    assert cli.main(["trust", "both", "--show"]) == 0
    assert "machine code for NVIDIA's GPUs, trusted" in capsys.readouterr().out
    assert cli.main(["trust", "both", "--remove"]) == 0
    assert "not signed any more: machine code for NVIDIA's GPUs" in capsys.readouterr().out
    assert cli.main(["bundle", "--arch", "hopper", "-o", "c"]) == 2
    assert "cuda: the architecture is 'hopper'" in capsys.readouterr().err

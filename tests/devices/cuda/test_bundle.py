"""A bundle: what it holds, for which cards and drivers, and what of it may run."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import luminal_lab as ll
from luminal_lab import trust
from luminal_lab.devices.cuda import bundle as bundles
from luminal_lab.devices.cuda.bundle import Bundle, BundleWriter, digest_of, runs_on
from luminal_lab.devices.gpu import nvrtc
from luminal_lab.errors import ArgumentError, DeviceError, TrustError
from luminal_lab.machines.resources import CompiledCUDA
from tests.devices.cuda.test_engine import random, standing
from tests.devices.stand_ins.libcuda_stand_in import LibcudaStandIn
from tests.expect import error_of

SOURCE = 'extern "C" __global__ void kernel_k(float *y) { y[0] = 1.0f; }\n'


@pytest.fixture(autouse=True)
def _home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A user who has signed nothing, and a compiler that leaves sources as they are."""

    def compiled(source: str, arch: str) -> CompiledCUDA:
        return CompiledCUDA(arch, source, source.encode(), "", {})

    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setattr(trust, "_HERE", {})
    monkeypatch.setattr(nvrtc, "compile_cuda", compiled)
    monkeypatch.setattr(nvrtc, "version", lambda: (13, 5))


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[LibcudaStandIn]:
    yield from standing(monkeypatch, LibcudaStandIn())


def written(folder: Path, *archs: str, source: str = SOURCE) -> Bundle:
    """A bundle as another user made it: whoever opens it has not signed it."""
    writer = BundleWriter(folder)
    for arch in archs or ("sm_90a",):
        writer.add(source, arch)
    made = writer.close("0.1", ["k"], is_quick=True)
    trust.unsign([made.foreign])
    return made


def test_a_bundle_has_sources_and_machine_code(tmp_path: Path) -> None:
    made = written(tmp_path / "b", "sm_90a", "sm_80")
    opened = Bundle.open(tmp_path / "b")
    assert opened.manifest == made.manifest
    assert opened.manifest.archs == ("sm_80", "sm_90a")
    digest = digest_of(SOURCE.encode())
    assert (tmp_path / "b" / "sm_90a" / f"{digest}.cu").read_text("utf-8") == SOURCE
    with pytest.raises(TrustError, match="machine code for NVIDIA's GPUs: it comes from a bundle"):
        opened.image(SOURCE, "sm_90a", "90")
    trust.admit_bundle(opened.foreign, trust=True)
    assert opened.image(SOURCE, "sm_90a", "90") == SOURCE.encode()


def test_its_maker_has_signed_it(tmp_path: Path) -> None:
    writer = BundleWriter(tmp_path / "b")
    writer.add(SOURCE, "sm_90a")
    made = writer.close("0.1", ["k"], is_quick=True)
    assert trust.is_trusted(made.foreign)
    assert Bundle.open(tmp_path / "b").image(SOURCE, "sm_90a", "90")


def test_without_a_compiler_it_has_sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> tuple[int, int]:
        raise DeviceError("nvrtc: CUDA cannot be compiled")

    monkeypatch.setattr(nvrtc, "version", missing)
    made = written(tmp_path / "b")
    assert made.manifest.cuda == 0
    assert [path.suffix for path in (tmp_path / "b" / "sm_90a").iterdir()] == [".cu"]
    # Where it is copied, a compiler makes the code.
    monkeypatch.setattr(bundles, "compiled_image", lambda *given: b"made there")
    assert made.image(SOURCE, "sm_90a", "90") == b"made there"


def test_a_program_runs_on_the_code_of_a_bundle(gpu: LibcudaStandIn, tmp_path: Path) -> None:
    cx = ll.Graph()
    x = cx.tensor((6, 8), name="x").set(random(6, 8))
    y = (x * 2 + 1).retrieve()
    plain: Any = cx.compile(ll.GenericCompiler(), ll.CUDACompiler(arch="sm_90"))
    made = written(tmp_path / "b", "sm_90", source=plain.runner.source)
    cx.compile(
        ll.GenericCompiler(), ll.CUDACompiler(arch="sm_90", engine="driver", image=made.image)
    )
    with pytest.raises(TrustError, match="machine code"):
        cx.execute()
    assert "cuModuleLoadData" not in gpu.given
    trust.allow([made.foreign])
    cx.execute()
    assert (y.numpy() == x.numpy() * 2 + 1).all()
    z = (x * 3).retrieve()
    assert z is not None
    cx.compile(
        ll.GenericCompiler(), ll.CUDACompiler(arch="sm_90", engine="driver", image=made.image)
    )
    error = error_of(cx.execute, DeviceError)
    assert error.message.startswith("bundle: it has no such program for sm_90: luminal_lab 0.1 ")
    assert error.hint == "luminal-lab bundle --arch sm_90 -o FOLDER makes one"


def test_code_that_was_changed_does_not_run(tmp_path: Path) -> None:
    made = written(tmp_path / "b")
    trust.allow([made.foreign])
    code = tmp_path / "b" / "sm_90a" / f"{digest_of(SOURCE.encode())}.cubin"
    code.write_bytes(b"other code")
    error = error_of(lambda: made.image(SOURCE, "sm_90a", "90"), DeviceError)
    assert error.message.endswith("is damaged: bundle.json has another digest of it")
    # To have its digest in the manifest, too, makes it another bundle, which nobody trusts.
    text = (tmp_path / "b" / "bundle.json").read_text("utf-8")
    changed = text.replace(digest_of(SOURCE.encode()) + '"\n', digest_of(b"other code") + '"\n')
    assert changed != text
    (tmp_path / "b" / "bundle.json").write_text(changed, "utf-8")
    with pytest.raises(TrustError):
        Bundle.open(tmp_path / "b").image(SOURCE, "sm_90a", "90")
    # Nor does it help to say that there is no machine code.
    (tmp_path / "b" / "bundle.json").write_text(changed.replace("13050", "0"), "utf-8")
    with pytest.raises(TrustError):
        Bundle.open(tmp_path / "b").image(SOURCE, "sm_90a", "90")
    code.unlink()
    error = error_of(lambda: made.image(SOURCE, "sm_90a", "90"), DeviceError)
    assert "cannot be read: No such file or directory" in error.message


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"what": "another"}, "it is 'another', format 1"),
        ({"schema": 2}, "it is 'luminal_lab bundle', format 2"),
        ({"archs": "sm_90a"}, "bundle.json.archs is 'sm_90a', not a list"),
        ({"programs": [{"arch": "../..", "source": "a" * 64}]}, "is no program"),
        ({"programs": [{"arch": "sm_90a", "source": "../evil"}]}, "is no program"),
        ({"programs": [{"arch": "sm_90a", "source": "a" * 64, "code": "b"}]}, "is no program"),
    ],
)
def test_what_is_no_bundle_is_said(tmp_path: Path, change: dict[str, Any], why: str) -> None:
    written(tmp_path / "b")
    path = tmp_path / "b" / "bundle.json"
    path.write_text(json.dumps(json.loads(path.read_text("utf-8")) | change), "utf-8")
    error = error_of(lambda: Bundle.open(tmp_path / "b"), ArgumentError)
    assert error.message.startswith(f"bundle: {tmp_path / 'b'} is none: bundle.json: ")
    assert why in error.message
    assert error.hint == "luminal-lab bundle --arch sm_90a -o FOLDER makes one"


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    error = error_of(lambda: Bundle.open(tmp_path / "b"), ArgumentError)
    assert error.message.endswith("is none: bundle.json: No such file or directory")


@pytest.mark.parametrize(
    ("arch", "capability", "runs"),
    [
        ("sm_90a", "90", True),
        ("sm_90a", "100", False),
        ("sm_90", "90", True),
        ("sm_80", "86", True),
        ("sm_86", "80", False),
        ("sm_80", "90", False),
        ("sm_100", "103", True),
        ("sm_75", "120", False),
    ],
)
def test_which_cards_run_which_code(arch: str, capability: str, runs: bool) -> None:
    assert runs_on(arch, capability) is runs


def test_a_bundle_for_another_card_and_a_driver_that_is_too_old(tmp_path: Path) -> None:
    made = written(tmp_path / "b", "sm_80", "sm_86", "sm_90a")
    assert made.arch_for("89", "NVIDIA L4") == "sm_86"
    assert made.arch_for("90", "NVIDIA H200") == "sm_90a"
    error = error_of(lambda: made.arch_for("100", "NVIDIA B200"), DeviceError)
    assert error.message == (
        "bundle: it is for sm_80 and sm_86 and sm_90a, and the card, NVIDIA B200, is sm_100a"
    )
    assert error.hint == "luminal-lab bundle --arch sm_100a -o FOLDER makes one"
    made.check_driver(13_000)
    error = error_of(lambda: made.check_driver(12_040), DeviceError)
    assert error.message == "bundle: the driver knows CUDA 12.4, and CUDA 13.5 made the code"
    assert "install a newer driver" in (error.hint or "")

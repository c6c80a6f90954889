"""Searches for GPUs that are not here: compiled, right in the emulator, modelled, and said so."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import luminal_lab as ll
from luminal_lab.core.interpret import Environment, interpret
from luminal_lab.devices.gpu.compiler import GPUCompiler
from luminal_lab.errors import ArgumentError, DeviceError
from luminal_lab.kernels.gpu import apple, gpu_of
from luminal_lab.machines.resources import CompiledCUDA, Resources
from luminal_lab.search import compiling, modelled
from luminal_lab.search.driver import WRONG, Answer
from luminal_lab.search.graph import ProgramSearch
from luminal_lab.search.loops import KernelSearch, begun, search_kernel
from luminal_lab.search.modelled import ModelledPlace, answered
from luminal_lab.search.program import judged_programs
from tests.expect import error_of
from tests.needs import need
from tests.search.planted import faulty, job_of, matmul
from tests.search.written import attention, drawn, searched

AMPERE, HOPPER = ll.CUDACompiler(arch="sm_80"), ll.CUDACompiler(arch="sm_90a")
METAL = ll.MetalCompiler(chip="m3-max")
DEVICES = {"sm_80": AMPERE, "sm_90a": HOPPER, "metal": METAL}
HALF = matmul(256, 256, 256).replace("f32", "f16")


pytestmark = pytest.mark.needs("c++")


def search_of(definition: str, device: GPUCompiler, count: int = 3, **more: Any) -> KernelSearch:
    return search_kernel(definition, device, budget=ll.Budget(candidates=count), **more)


# -- what is said ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", DEVICES)
def test_what_is_modelled_says_so_everywhere(name: str):
    search = search_of(matmul(70, 60, 50), DEVICES[name])
    best, texts = search.best, [str(search), str(search.best), repr(search.best), repr(search)]
    assert search.ended == "the budget is spent"
    assert all(one.seconds is None for one in search.candidates)
    assert all("modelled" in one.state for one in search.candidates if one.error is None)
    assert best.modelled is not None
    assert best.modelled <= (search.default.modelled or 0)
    assert all("nothing was measured" in text for text in texts)
    assert ModelledPlace.of(DEVICES[name]).card.name in best.told
    assert "B shared, blocks of" in best.told
    assert ("__global__" in best.source) == (name != "metal")
    if name != "metal":
        need("cuda.bindings")  # it counts registers
    assert ("registers" in best.told) == (name != "metal")


def test_a_table_has_columns_for_the_model():
    need("pandas")
    table = search_of(matmul(70, 60, 50), AMPERE).candidates.to_pandas()
    assert table.seconds.isna().all()
    assert (table.modelled > 0).sum() == (table.why == "").sum()
    assert table.resources[0].split(",")[0].endswith("registers")
    assert (table.state.str.startswith("modelled fastest")).sum() == 1


def test_the_same_seed_gives_the_same_search():
    first, again = (str(search_of(matmul(70, 60, 50), AMPERE, 6).candidates) for _ in range(2))
    assert first == again


# -- what is refused -------------------------------------------------------------------------------


def answer(definition: str, faults: dict[int, str], count: int) -> Answer:
    search = begun(definition, AMPERE)
    batch = search.driver.ask(count)
    assert batch is not None
    make = faulty(faults, ModelledPlace.of(AMPERE).make)
    return answered(job_of(search.job(batch)), make)


def test_faults_are_results_with_their_reasons(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(modelled, "LIMIT", 1.0)
    told = answer(
        matmul(70, 60, 50),
        {
            1: "    c[0] = 7; return;",
            2: "    no_such_type x;",
            3: "    for (volatile int x = 1; x;) {}",
            4: "    *(volatile int *)0 = 1;",
        },
        5,
    )
    wrong, broken, hang, crash, right = told.outcomes
    assert wrong.why.startswith(f"{WRONG}c[0, 0] is ")
    assert "it does not compile" in broken.why or "in the emulator" in broken.why
    assert "in the emulator" in hang.why
    assert "in the emulator" in crash.why
    assert {one.state for one in (wrong, broken, hang, crash)} == {"failed"}
    assert right.state == "modelled"
    assert not right.samples
    assert right.seconds is None
    assert told.machine.startswith("modelled-")


SERIALISED = (
    "ptxas info    : (C7515) Potential Performance Loss: wgmma.mma_async instructions are "
    "serialized due to non wgmma instructions defining accumulator registers of a wgmma"
)


@pytest.mark.needs("cuda.bindings")
@pytest.mark.parametrize(
    ("resources", "log", "why"),
    [
        (Resources(255, 1024, spills=64), "", "it spills 64 bytes of registers: 255 registers"),
        (Resources(40, 200 << 10), "", "no block fits on A100 80 GB: 40 registers, 204,800 B"),
        (Resources(40, 1024), SERIALISED, "its wgmma.mma_async instructions are serialized due to"),
    ],
)
def test_what_spills_or_waits_or_has_no_room_is_refused(
    monkeypatch: pytest.MonkeyPatch, resources: Resources, log: str, why: str
):
    def compiled(kernel: Any, arch: str, folder: object) -> CompiledCUDA:
        is_first = kernel.name == "candidate_1"
        taken = resources if is_first else Resources(32, 1024)
        functions = {phase.function: taken for phase in kernel.phases}
        return CompiledCUDA(arch, "", b"", log if is_first else "", functions)

    monkeypatch.setattr(modelled, "compile_kernel", compiled)
    refused, other = answer(matmul(70, 60, 50), {}, 2).outcomes
    assert refused.state == "refused"
    assert refused.why.startswith(why)
    assert other.state == "modelled"


def test_a_race_is_found_in_the_last_batch():
    search = begun(matmul(64, 64, 64), AMPERE)
    batch = search.driver.ask(1)
    assert batch is not None
    job = replace(job_of(search.job(batch)), is_last=True)
    plain = ModelledPlace.of(AMPERE).make

    def racing(definition: Any, name: str, schedule: str) -> Any:
        kernel = plain(definition, name, schedule)
        if name == "candidate_1":
            head, wait, rest = kernel.source.rpartition("lab_sync();")
            assert wait
            return replace(kernel, source=f"{head}{rest}")
        return kernel

    (raced,) = answered(job, racing).outcomes
    assert raced.state == "failed"
    assert "in the emulator" in raced.why or raced.is_wrong


def test_words_for_gpus_that_cannot_be_searched():
    error = error_of(lambda: begun(HALF, ll.CUDACompiler(arch="sm_86")), ArgumentError)
    assert error.message == "search: there are no figures of a GPU of sm_86, and so no model"
    assert str(error.hint) == "there are some for sm_75, sm_80, sm_89, sm_90a"
    device: Any = ll.GenericCompiler()
    error = error_of(lambda: ll.Search(device), ArgumentError)
    assert "ll.CUDACompiler(…) or ll.MetalCompiler(…)" in str(error.hint)


def test_float64_on_apples_gpus_is_refused():
    cx = ll.Graph()
    (cx.tensor((40, 40), "float64") + 1).retrieve()
    with pytest.raises(DeviceError, match="computed in float64, and Apple's GPUs have none"):
        cx.search(METAL, budget=1)
    text = "kernel twice(x: f64[64]) -> (y: f64[64])\n  y[i < 64] = x[i] + x[i]"
    with pytest.raises(DeviceError, match="x is float64, which metal lacks"):
        search_of(text, METAL)


def test_without_nvrtc_registers_are_not_known(monkeypatch: pytest.MonkeyPatch):
    def missing() -> tuple[int, int]:
        raise DeviceError("nvrtc: CUDA cannot be compiled")

    monkeypatch.setattr(modelled, "version", missing)
    best = search_of(matmul(70, 60, 50), AMPERE, 1).best
    assert best.error is None
    assert "registers" not in best.resources


# -- graphs ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", DEVICES)
def test_a_graph_is_searched_and_runs_in_the_emulator(name: str):
    device = {
        "sm_80": ll.CUDACompiler(arch="sm_80", emulate=True),
        "sm_90a": ll.CUDACompiler(arch="sm_90a", emulate=True),
        "metal": ll.MetalCompiler(emulate=True),
    }[name]
    cx = ll.Graph()
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal((24, 40)), rng.standard_normal((40, 36))
    y = (cx.tensor((24, 40), name="x").set(x) @ cx.tensor((40, 36), name="w").set(w)).relu()
    y = y.softmax(-1).retrieve()
    search = cx.search(device, budget=ll.Budget(candidates=4))
    assert isinstance(search, ProgramSearch)
    assert search.best.seconds is None
    assert search.best.modelled is not None
    assert "nothing was measured" in str(search)
    assert "nothing was measured" in repr(search.best)
    cx.compile(ll.GenericCompiler(), search.best)
    cx.execute()
    expected = np.exp(np.maximum(x @ w, 0))
    np.testing.assert_allclose(y.numpy(), expected / expected.sum(-1, keepdims=True), rtol=1e-4)


def test_what_was_found_is_not_searched_again(monkeypatch: pytest.MonkeyPatch):
    cx = ll.Graph()
    (cx.tensor((24, 40)) @ cx.tensor((40, 36))).retrieve()
    device = ll.Search(AMPERE, budget=ll.Budget(candidates=2))
    cx.compile(ll.GenericCompiler(), device)
    source = cx.kernels[0].source
    monkeypatch.setattr(compiling, "search_program", None)
    cx.compile(ll.GenericCompiler(), device)
    assert cx.kernels[0].source == source


# -- programs --------------------------------------------------------------------------------------


@pytest.mark.parametrize("gpu", [gpu_of("sm_80"), gpu_of("sm_90a"), apple()], ids=[*DEVICES])
@pytest.mark.parametrize("causal", [False, True], ids=["attention", "causal"])
def test_attention_that_rules_found_is_right_in_the_emulator(gpu: Any, causal: bool):
    cx = attention(after=0.125, mask="causal" if causal else "")
    *_, program = judged_programs(searched(cx))
    assert not program.is_refused
    device = METAL if gpu.arch is None else ll.CUDACompiler(arch=gpu.arch)
    kernel = ModelledPlace.of(device).maker.kernel(program.definition, "found", None)
    data = drawn(cx.ir, {})
    emulated = kernel.emulate(data, trace=True)
    assert emulated.agrees
    assert not emulated.findings
    (output,) = cx.ir.outputs
    expected: Any = interpret(cx.ir, Environment(lambda node: data[node.name], {}))[output.id]
    value: Any
    (value,) = emulated.outputs.values()
    np.testing.assert_allclose(value, expected, rtol=3e-5, atol=3e-5)

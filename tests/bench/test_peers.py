"""Every workload in our form gives what NumPy's form gives, or PyTorch's where NumPy has none."""

import warnings

import numpy as np
import pytest

from luminal_lab.bench.measure import apart
from luminal_lab.bench.model_workloads import model_workloads, with_file
from luminal_lab.bench.peers.known import LLAMA_CPP
from luminal_lab.bench.peers.llamacpp import LlamaCpp
from luminal_lab.bench.peers.numpy import NumPy
from luminal_lab.bench.peers.onnxruntime import ONNXRuntime
from luminal_lab.bench.peers.ours import Ours
from luminal_lab.bench.peers.peer import MEMORY
from luminal_lab.bench.peers.torch import Torch
from luminal_lab.bench.workload import GRAPHS, USUAL
from luminal_lab.bench.workloads import workloads
from tests.needs import need

CHOSEN = [
    one
    for one in workloads(quick=True)
    if one.has_peers and not one.is_alone and one.family != GRAPHS
]


def results(peer, workload, data):
    ready = peer.prepare(workload, data)
    return [array for _ in range(workload.calls) for array in ready.read(ready.run())]


@pytest.mark.share(4)
@pytest.mark.parametrize("workload", CHOSEN, ids=lambda one: one.name)
def test_ours_agrees(workload, request):
    data = workload.data(workload.sizes, np.random.default_rng(0))
    for array in data.values():
        array.flags.writeable = False  # as in a run, where others read it too
    if NumPy.spells(workload.kind) and "NumPy" not in workload.left_out:
        witness = NumPy(1)
    else:
        request.getfixturevalue("torch")
        witness = Torch(1)
    with warnings.catch_warnings(action="ignore"):  # torch warns of arrays that it may not write
        theirs = results(witness, workload, data)
    for variant in ("", *workload.variants):
        ours = results(Ours(1, variant), workload, data)
        assert apart("the witness", theirs, ours, workload.tolerance) == []


@pytest.mark.share(4)
@pytest.mark.parametrize(
    "workload",
    [one for one in CHOSEN if one.family != USUAL and "ONNX Runtime" not in one.left_out],
    ids=lambda one: one.name,
)
def test_onnx_runtime_agrees(workload):
    need("onnxruntime", "onnx")
    data = workload.data(workload.sizes, np.random.default_rng(0))
    theirs, ours = (results(kind(1), workload, data) for kind in (ONNXRuntime, Ours))
    assert apart("the witness", theirs, ours, workload.tolerance) == []


# -- language models -------------------------------------------------------------------------------

WITNESSES = {
    "f32": (Torch, ONNXRuntime, LlamaCpp),
    "bf16": (Torch, LlamaCpp),
    "f16": (Torch, LlamaCpp),
    "q8_0": (ONNXRuntime, LlamaCpp),
    "q4_k_m": (LlamaCpp,),
}
MODULES = {Torch: "torch", ONNXRuntime: "onnxruntime", LlamaCpp: "llama_cpp"}
MODELS = [
    (row, kind)
    for row in model_workloads(quick=True)
    if row.form and not row.is_alone
    for kind in WITNESSES[row.form]
]


@pytest.mark.share(3)
@pytest.mark.parametrize(
    ("workload", "kind"), MODELS, ids=[f"{row.name}-{MODULES[kind]}" for row, kind in MODELS]
)
def test_a_model_gives_the_same_logits(workload, kind, tmp_path):
    if kind is not LlamaCpp:
        need(MODULES[kind], *(["onnx"] if kind is ONNXRuntime else []))
    elif LLAMA_CPP.missing:
        pytest.skip(LLAMA_CPP.missing)
    workload = with_file(workload, tmp_path)
    data = workload.data(workload.sizes, np.random.default_rng(0))
    with warnings.catch_warnings(action="ignore"):
        theirs = results(kind(1), workload, data)
    ours = results(Ours(1), workload, data)
    assert len(ours) == workload.calls
    assert apart("the witness", theirs, ours, workload.tolerance) == []


def test_a_first_token_takes_what_a_prompt_does_and_tells_of_its_memory(tmp_path):
    rows = {row.kind: row for row in model_workloads(quick=True) if row.form == "q8_0"}
    first, prompt = (with_file(rows[kind], tmp_path) for kind in ("first_token", "prefill"))
    data = first.data(first.sizes, np.random.default_rng(0))
    ready = Ours(1).prepare(first, data)
    (logits,) = ready.read(ready.run())
    (same,) = results(Ours(1), prompt, data)
    np.testing.assert_allclose(logits, same, rtol=1e-3, atol=1e-4)
    assert 20 < ready.facts()[MEMORY] < 20_000


# -- calls -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["call-step", "call-execute", "call-function"])
def test_a_call_is_timed_without_its_kernels(name):
    (row,) = (row for row in workloads(quick=True) if row.name == name)
    ready = Ours(1).prepare(row, row.data(row.sizes, np.random.default_rng(0)))
    assert ready.inner is not None
    first = ready.read(ready.run())
    assert ready.inner() > 0
    assert ready.inner() == 0
    assert ready.facts()["launches"] >= 1
    if name != "call-step":  # which goes on to the next position
        np.testing.assert_array_equal(ready.read(ready.run())[0], first[0])

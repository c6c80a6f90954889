"""The rows of language models: which there are, what they cost, what must be reached, the file."""

from importlib import import_module

import pytest

from luminal_lab.bench.model_files import SHAPES, bytes_of
from luminal_lab.bench.model_workloads import FORMS, model_workloads, with_file
from luminal_lab.bench.peers.known import MODEL_PEERS, OURS
from luminal_lab.bench.peers.peer import MEMORY

ROWS = {row.name: row for row in model_workloads()}
QUICK = {row.name: row for row in model_workloads(quick=True)}


def test_all_forms_have_prompts_and_steps_and_one_a_first_token():
    kinds = "prefill-128", "prefill-512", "decode-128", "decode-1024"
    wanted = {f"{kind}-{form}" for kind in kinds for form in FORMS}
    calls = {"call-step", "call-execute", "call-function"}
    assert {*ROWS} == wanted | calls | {"first-token-q8_0"}
    assert [*ROWS] == [*QUICK]
    forms = [row.form for row in ROWS.values()]
    assert forms == sorted(forms, key=lambda form: [*FORMS, ""].index(form))  # a file at a time


def test_every_library_has_a_form_of_every_row_or_says_why_not():
    for known in (OURS, *MODEL_PEERS):
        module, _, name = known.peer_class.partition(":")
        peer = getattr(import_module(module), name)
        for row in ROWS.values():
            if row.has_peers or known is OURS:
                assert (
                    known.name in row.left_out
                    or known.unable(row.kind) is None
                    or (not peer.spells(row.kind) and known.unable(row.kind))
                )


def test_costs():
    weights, norms, cache = 1_235_746_816, 33 * 2048, 4 * 16 * 8 * 64
    step, prompt = ROWS["decode-1024-f32"].cost, ROWS["prefill-128-q8_0"].cost
    assert step.read == 4 * (weights + norms) + 1024 * cache
    assert step.flops == 2 * weights + 4 * 2048 * 16 * 1025
    head = 128_256 * 2048
    assert prompt.flops == 2 * (128 * (weights - head) + head) + 4 * 2048 * 16 * (128 * 129 // 2)
    assert prompt.read == bytes_of(SHAPES["1b"], "q8_0") == weights * 34 // 32 + 4 * norms
    assert ROWS["decode-128-q4_k_m"].cost.read < 0.65 * prompt.read


def test_goals_are_of_libraries_that_are_asked():
    names = {known.name for known in MODEL_PEERS}
    for row in ROWS.values():
        for goal in row.goals.keys() - {"limit", "ms", MEMORY}:
            assert goal in names - row.left_out.keys()
        assert row.goals or row.name.startswith("call-")
    assert ROWS["first-token-q8_0"].goals[MEMORY] == pytest.approx(1.15 * 1313 + 200, rel=0.01)


def test_a_file_is_written_once_and_takes_the_place_of_another(tmp_path):
    first, second = (QUICK[f"{kind}-128-q8_0"] for kind in ("prefill", "decode"))
    there = with_file(first, tmp_path)
    assert there.path.endswith(".gguf")
    before = (tmp_path / "256-q8_0.gguf").stat().st_mtime_ns
    assert with_file(second, tmp_path).path == there.path
    assert (tmp_path / "256-q8_0.gguf").stat().st_mtime_ns == before
    with_file(QUICK["decode-128-q4_k_m"], tmp_path)
    assert [path.name for path in tmp_path.glob("*")] == ["256-q4_k_m.gguf"]
    call = QUICK["call-step"]
    assert with_file(call, tmp_path) is call

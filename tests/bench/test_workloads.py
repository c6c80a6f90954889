"""The table of workloads: what is in it, that everybody has a form or a reason, what it costs."""

import math
from importlib import import_module

import numpy as np
import pytest

from luminal_lab.bench.model_data import gpt2_shapes, llama_shapes
from luminal_lab.bench.peers.known import OURS, PEERS
from luminal_lab.bench.peers.ours import blocks
from luminal_lab.bench.workload import GRAPHS
from luminal_lab.bench.workloads import GPT2_SMALL, LLAMA_1B, workloads
from luminal_lab.nn.models import GPT2

FULL = {workload.name: workload for workload in workloads()}
QUICK = {workload.name: workload for workload in workloads(quick=True)}
NAMES = """
gelu softmax layer-norm rms-norm chain sum-rows sum-columns
matmul-256 matmul-512 matmul-1024 matmul-2048 matmul-128x768x3072 mlp linear-gelu
attention attention-causal conv gpt2 llama-decode llama-decode-q8 train-cnn train-gpt decode-cache
matmul-17x1000x999 matmul-100 matmul-4096x64x64 mlp-batch-1 mlp-batch-3 mlp-batch-64
softmax-50257 layer-norm-50257 sum-rows-50257 gelu-999x1001
softmax-axis-0 softmax-axis-1 layer-norm-axis-1 sum-axis-1 transpose
gelu-float16 gelu-bfloat16 softmax-float16 softmax-bfloat16 layer-norm-float16 layer-norm-bfloat16
matmul-float16 matmul-bfloat16 linear-gelu-bfloat16
small-add small-softmax small-chain small-mlp
call-step call-execute call-function
compile-cold compile-cached compile-kept
build-gpt2 import compile-ten-cold compile-unawaited compile-known compile-gpt2-train-cached
compile-gpt2-train-kept compile-snapshots compile-convnet-cold
""".split()  # noqa: SIM905  # a list of names reads better so


def test_all_are_there_in_both_sizes_in_order():
    assert [*FULL] == [*QUICK] == NAMES


@pytest.mark.parametrize("known", [OURS, *PEERS], ids=lambda known: known.name)
def test_every_library_has_a_form_of_every_kind_or_says_why_not(known):
    module, _, name = known.peer_class.partition(":")
    peer = getattr(import_module(module), name)
    kinds = {one.kind for one in FULL.values() if one.has_peers or known is OURS}
    for kind in kinds:
        assert (known.unable(kind) is None) == peer.spells(kind)
    assert not {kind for kind in peer.reasons if peer.spells(kind)} - {"compile_gpt2"}


def test_sizes_are_those_that_are_published():
    def count(shapes):
        return sum(math.prod(shape) for shape in shapes.values())

    assert count(gpt2_shapes(GPT2_SMALL)) == 124_439_808
    assert count(llama_shapes(LLAMA_1B)) == 1_235_814_400
    shapes = {name: one.shape for name, one in GPT2("gpt2").parameters().items()}
    assert gpt2_shapes(GPT2_SMALL) == shapes


def test_old_rows_are_counted_apart_from_what_users_run_besides():
    counted = [
        row for row in FULL.values() if row.has_peers and not row.is_alone and row.family != GRAPHS
    ]
    families = [row.family for row in counted]
    assert families[:22] == ["usual sizes"] * 22
    assert {*families[22:]} == {"odd sizes", "other axes", "half precision", "small graphs"}


@pytest.mark.parametrize(
    ("name", "flops", "read", "written"),
    [
        ("softmax", 5 * 2048 * 4096, 4 * 2048 * 4096, 4 * 2048 * 4096),
        ("matmul-1024", 2 * 1024**3, 8 * 1024**2, 4 * 1024**2),
        ("matmul-128x768x3072", 2 * 128 * 768 * 3072, None, 4 * 128 * 3072),
        ("softmax-bfloat16", 5 * 2048 * 4096, 2 * 2048 * 4096, 2 * 2048 * 4096),
        ("sum-axis-1", 64 * 128 * 999, 4 * 64 * 128 * 999, 4 * 64 * 999),
        ("transpose", 0, 4 * 2047 * 3001, 4 * 2047 * 3001),
        ("conv", 2 * 9 * 64 * 64 * 56 * 56, None, 4 * 64 * 56 * 56),
    ],
)
def test_costs(name, flops, read, written):
    cost = FULL[name].cost
    assert (cost.flops, cost.written) == (flops, written)
    assert read in (None, cost.read)


def test_a_decode_step_reads_all_weights_and_the_cache():
    weights, cache = 1_235_814_400, 4 * 16 * 2 * 8 * 64 * 512
    assert FULL["llama-decode"].cost.read == pytest.approx(4 * weights + cache, rel=1e-3)
    assert FULL["llama-decode-q8"].cost.read == pytest.approx(weights * 34 / 32 + cache, rel=1e-3)


@pytest.mark.parametrize("name", [n for n in NAMES if n not in ("compile-cached", "compile-kept")])
def test_data_is_the_same_each_time(name):
    one, other = (QUICK[name].data(QUICK[name].sizes, np.random.default_rng(3)) for _ in range(2))
    assert one.keys() == other.keys()
    for key, array in one.items():
        np.testing.assert_array_equal(array, other[key])
        assert array.flags.c_contiguous


def test_what_is_drawn_in_q8_0_is_what_its_floats_become_in_that_form():
    data = QUICK["llama-decode-q8"].data(QUICK["llama-decode-q8"].sizes, np.random.default_rng(0))
    name = "model.layers.0.mlp.up_proj.weight"
    q, scale = data[f"{name}.q"], data[f"{name}.scale"]
    assert (q.dtype, scale.dtype, q.shape, scale.shape) == ("int8", "float16", (128, 64), (128, 2))
    values = blocks(q, scale).value.reshape(128, 2, 32)
    again = (np.abs(values).max(-1) / np.float32(127)).astype(np.float16)
    np.testing.assert_array_equal(again, scale)
    found = np.rint(values / again.astype(np.float32)[..., None]).reshape(q.shape)
    np.testing.assert_array_equal(found, q)

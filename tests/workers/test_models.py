"""Whole models on a mesh: what is sent is what papers say, and the values stay the same."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping

import numpy as np
import pytest

import luminal_lab as ll
from luminal_lab import nn
from tests.needs import need

Made = tuple[ll.Graph, list[ll.Tensor]]
LLAMA = {
    **dict.fromkeys(("*q_proj.weight", "*k_proj.weight", "*v_proj.weight"), ("model", None)),
    **dict.fromkeys(("*gate_proj.weight", "*up_proj.weight"), ("model", None)),
    **dict.fromkeys(("*o_proj.weight", "*down_proj.weight"), (None, "model")),
}
"""Megatron's layout: by rows into the layer, by columns out of it."""
GPT2 = {
    "*mlp.c_fc.weight": (None, "model"),
    "*mlp.c_fc.bias": ("model",),
    "*c_proj.weight": ("model", None),
}


def seeded(model: nn.Module) -> nn.Module:
    rng = np.random.default_rng(0)
    for parameter in model.parameters().values():
        shape = [dim for dim in parameter.shape if isinstance(dim, int)]
        parameter.set((rng.standard_normal(shape) / 5).astype("float32"))
    return model


def decoder(model: nn.Module, *, trains: bool = False) -> Made:
    cx = ll.Graph("decoder")
    tokens, targets = cx.tensor((8, 4), "int64", name="tokens"), np.arange(32).reshape(8, 4)
    logits = model(tokens).named("logits")
    tokens.set(targets % 48)
    if not trains:
        return cx, [logits.retrieve()]
    wanted = cx.tensor((8, 4), "int64", name="targets").set(targets * 7 % 48)
    loss = nn.cross_entropy(logits.reshape(32, 48), wanted.reshape(32)).named("loss")
    slopes = ll.grad(loss, [*model.parameters().values()])
    return cx, [loss.retrieve(), *(slope.retrieve() for slope in slopes)]


def llama(*, trains: bool = False, layers: int = 2) -> Made:
    model = nn.models.Llama(
        layers=layers, heads=8, kv_heads=4, width=32, hidden=64, vocab=48, context=16
    )
    return decoder(seeded(model), trains=trains)


def gpt2(*, trains: bool = False, layers: int = 2) -> Made:
    model = nn.models.GPT2(layers=layers, heads=4, width=32, vocab=48, context=4)
    return decoder(seeded(model), trains=trains)


def held(
    made: Callable[[], Made],
    mesh: ll.Mesh,
    cut: Mapping[str, tuple[str | None, ...]],
    *passes: ll.Pipeline,
) -> ll.Compilation:
    """Return the compile for a mesh, after what it computes was held to the interpreter."""
    cx, outputs = made()
    cx.execute()
    expected = [output.numpy() for output in outputs]
    cx, outputs = made()
    device = ll.CPUCompiler(threads=1) if passes else None
    compiled = cx.compile(*passes, ll.Sharded(ll.sharding(mesh, cut), device))
    cx.execute()
    for output, value in zip(outputs, expected, strict=True):
        near = 1e-6 * max(1.0, float(abs(value).max()))
        np.testing.assert_allclose(output.numpy(), value, rtol=1e-6, atol=near)
    return compiled


def ops(compiled: ll.Compilation) -> Counter[tuple[str, str, ll.Dim]]:
    return Counter((row.op, row.axis, row.bytes) for row in compiled.communication)


@pytest.mark.parametrize("workers", [1, 2, 4])
def test_llama_sends_two_sums_a_layer(workers: int) -> None:
    compiled = held(llama, ll.Mesh(model=workers), LLAMA)
    size = 2 * (8 * 4 * 32 * 4) * (workers - 1) // workers
    expected = {("all_reduce", "model", size): 4} if workers > 1 else {}
    assert ops(compiled) == expected


def test_llama_on_a_device_after_the_generic_passes() -> None:
    made = lambda: llama(layers=1)  # noqa: E731  # a graph of its own each time
    compiled = held(made, ll.Mesh(model=2), LLAMA, ll.GenericCompiler())
    assert ops(compiled) == {("all_reduce", "model", 8 * 4 * 32 * 4): 2}


def test_a_step_of_a_llama_sends_two_sums_forward_and_two_back() -> None:
    compiled = held(lambda: llama(trains=True, layers=1), ll.Mesh(model=2), LLAMA)
    assert ops(compiled) == {("all_reduce", "model", 8 * 4 * 32 * 4): 4}


@pytest.mark.parametrize("workers", [2, 8])
def test_more_workers_than_heads_of_keys_gather_what_they_must(workers: int) -> None:
    compiled = held(llama, ll.Mesh(model=workers), LLAMA)
    kinds = {row.op for row in compiled.communication}
    assert kinds == ({"all_reduce"} if workers == 2 else {"all_reduce", "all_gather"})


@pytest.mark.parametrize("workers", [2, 4, 8])
def test_gpt2_sends_nothing_forward_and_each_gradient_once(workers: int) -> None:
    cut: dict[str, tuple[str | None, ...]] = {"tokens": ("data", None)}
    assert not held(gpt2, ll.Mesh(data=workers), cut).communication
    cut["targets"] = ("data", None)
    cx, outputs = gpt2(trains=True)
    compiled = held(lambda: gpt2(trains=True), ll.Mesh(data=workers), cut)
    assert {(row.op, row.axis) for row in compiled.communication} == {("all_reduce", "data")}
    ring = [  # with the loss, and the number of targets that it divides by
        2 * 4 * math.prod(dim for dim in output.shape if isinstance(dim, int))
        for output in (*outputs, outputs[0])
    ]
    expected = sorted(size * (workers - 1) // workers for size in ring)
    assert sorted(int(str(row.bytes)) for row in compiled.communication) == expected
    assert cx.name == compiled.ir.name


def test_gpt2s_queries_keys_and_values_in_one_are_gathered_and_said() -> None:
    cut = {"*c_attn.weight": (None, "model"), "*c_attn.bias": ("model",), **GPT2}
    compiled = held(lambda: gpt2(layers=1), ll.Mesh(model=2), cut)
    rows = [(row.op, row.why.split()[1:]) for row in compiled.communication]
    assert ("all_gather", ["slice", "needs", "axis", "2", "whole"]) in rows
    assert [op for op, _ in rows].count("all_reduce") == 2


def test_a_module_of_torch_is_cut_like_ours() -> None:
    need("torch")
    import torch  # optional

    class Block(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm = torch.nn.LayerNorm(16)
            self.up, self.down = torch.nn.Linear(16, 64), torch.nn.Linear(64, 16)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + self.down(torch.nn.functional.gelu(self.up(self.norm(x))))

    torch.manual_seed(0)
    module, x = Block(), torch.randn(4, 16)

    def made() -> Made:
        cx = ll.Graph("block")
        given = cx.tensor((4, 16), name="x").set(x.numpy())
        return cx, [ll.from_torch(module, (x,))(given).named("y").retrieve()]

    cut = {"*up.weight": ("model", None), "*up.bias": ("model",), "*down.weight": (None, "model")}
    compiled = held(made, ll.Mesh(model=4), cut)
    assert ops(compiled) == {("all_reduce", "model", 2 * 4 * 16 * 4 * 3 // 4): 1}

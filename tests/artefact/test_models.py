"""Models as folders: each gives the bits that a session gives, one thread, same compiler."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import luminal_lab as ll
from luminal_lab import nn
from luminal_lab.artefact.runner import Model
from luminal_lab.artefact.targets import EVERYWHERE
from luminal_lab.core.dtypes import Array
from luminal_lab.core.op import ints
from luminal_lab.nn.cache import KVCache
from luminal_lab.nn.models.decoders import from_config
from luminal_lab.passes.pipeline import PassLike

pytestmark = pytest.mark.needs("cc")
SMALL: dict[str, Any] = {"layers": 2, "heads": 4, "width": 32, "vocab": 60, "context": 24}
rng = np.random.default_rng(0)


def normal(*shape: int) -> Array:
    return rng.standard_normal(shape, "float32")


def tokens(*shape: int) -> Array:
    return rng.integers(0, 50, shape)


def check(cx: ll.Graph, folder: Path, *runs: dict[str, Array], before: tuple[PassLike, ...] = ()):
    """Export what a graph computes, and compare each run with the session's, bit by bit."""
    compiled = cx.compile(ll.GenericCompiler(), *before, ll.CPUCompiler(threads=1))
    model = Model(compiled.export(folder))
    outputs = [cx[one["name"]] for one in model.outputs]
    assert outputs
    for step, run in enumerate(runs):
        for name, array in run.items():
            cx[name].set(array)
        cx.execute()
        results = model(step, **{name: array.copy() for name, array in run.items()})
        for output, got in zip(outputs, results.values(), strict=True):
            want = output.numpy()
            assert (want.shape, want.dtype) == (got.shape, got.dtype)
            assert want.tobytes() == got.tobytes()
    return model


def mlp(cx: ll.Graph) -> list[dict[str, Array]]:
    nn.models.MLP(20, 16, 5)(cx.tensor(("batch", 20), name="x")).named("y").retrieve()
    return [{"x": normal(batch, 20)} for batch in (1, 7, 40)]


def cnn(cx: ll.Graph) -> list[dict[str, Array]]:
    nn.models.CNN()(cx.tensor(("batch", 8, 8), name="x")).named("y").retrieve()
    return [{"x": normal(batch, 8, 8)} for batch in (1, 3)]


def gpt2(cx: ll.Graph) -> list[dict[str, Array]]:
    model = nn.models.GPT2(**SMALL)
    model(cx.tensor((2, ll.Symbol("n", 1, 24)), "int64", name="words")).named("y").retrieve()
    return [{"words": tokens(2, n)} for n in (1, 5, 24)]


def llama(cx: ll.Graph) -> list[dict[str, Array]]:
    model = nn.models.Llama(**SMALL, kv_heads=2, hidden=48)
    model(cx.tensor((1, ll.Symbol("n", 1, 24)), "int64", name="words")).named("y").retrieve()
    return [{"words": tokens(1, n)} for n in (1, 20)]


def decoder(cx: ll.Graph) -> list[dict[str, Array]]:
    model = nn.models.Decoder(
        from_config(
            {"architectures": ["Qwen3ForCausalLM"], "hidden_size": 32, "num_hidden_layers": 2,
             "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16,
             "intermediate_size": 48, "vocab_size": 60}
        )
    )  # fmt: skip
    model(cx.tensor((1, ll.Symbol("n", 1, 24)), "int64", name="words")).named("y").retrieve()
    return [{"words": tokens(1, n)} for n in (1, 9)]


def encoder(cx: ll.Graph) -> list[dict[str, Array]]:
    config = nn.models.EncoderConfig(layers=2, heads=4, width=32, hidden=48, vocab=60, positions=24)
    model = nn.models.Encoder(config)
    model(cx.tensor((2, ll.Symbol("n", 1, 24)), "int64", name="words")).named("y").retrieve()
    return [{"words": tokens(2, n)} for n in (1, 9)]


def whisper(cx: ll.Graph) -> list[dict[str, Array]]:
    config = nn.models.WhisperConfig(
        16, 1, 1, 2, 2, 24, 24, vocab=50, bins=8, positions=15, context=20
    )
    sound, words = cx.tensor((1, 8, 30), name="sound"), cx.tensor((1, 4), "int64", name="words")
    nn.models.Whisper(config)(sound, words).named("y").retrieve()
    return [{"sound": normal(1, 8, 30), "words": tokens(1, 4)}]


def unet(cx: ll.Graph) -> list[dict[str, Array]]:
    config = nn.models.UNetConfig(
        widths=(8, 16),
        heads=(2, 4),
        down=(True, False),
        up=(False, True),
        layers=1,
        text=24,
        groups=4,
    )
    x, time = cx.tensor((1, 4, 8, 8), name="x"), cx.tensor((1,), "int64", name="time")
    text = cx.tensor((1, 5, 24), name="text")
    nn.models.UNet(config)(x, time, text).named("y").retrieve()
    given = {"x": normal(1, 4, 8, 8), "time": np.array([7]), "text": normal(1, 5, 24)}
    return [given]


MODELS = [mlp, cnn, gpt2, llama, decoder, encoder, whisper, unet]


@pytest.mark.share("write", MODELS, 3, ids=[write.__name__ for write in MODELS])
def test_a_model_gives_the_same_bits(
    write: Callable[[ll.Graph], list[dict[str, Array]]], tmp_path: Path
) -> None:
    cx = ll.Graph()
    check(cx, tmp_path / "model", *write(cx))


FLAGS = ["-std=c11", "-Wall", "-Wextra", "-Werror", *EVERYWHERE[1:]]
SANITIZERS = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"]


@pytest.mark.share("write", MODELS, 1, ids=[write.__name__ for write in MODELS])
def test_its_c_has_no_warnings_and_no_undefined_behaviour(
    write: Callable[[ll.Graph], list[dict[str, Array]]], tmp_path: Path
) -> None:
    cx = ll.Graph("model")
    write(cx)
    compiled = cx.compile(ll.GenericCompiler(), ll.CPUCompiler(threads=1))
    folder = compiled.export(tmp_path / "model")
    checked = ["-O0", "-g", *SANITIZERS, "main.c", "model.c", "-o", "program"]
    for how in (["-O1", "-c", "model.c"], checked):  # both at once take gcc minutes for a U-Net
        command = ["cc", *FLAGS, *how]
        made = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        assert (made.returncode, "warning" in made.stderr) == (0, False), made.stderr
    ran = subprocess.run(["./program"], cwd=folder, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout.startswith("y:")


def test_quantised_weights_go_out_as_they_are(tmp_path: Path) -> None:
    cx, layer = ll.Graph(), nn.Linear(64, 96)
    ll.quantise(layer, "q4_0")
    layer(cx.tensor(("rows", 64), name="x")).named("y").retrieve()
    check(cx, tmp_path / "packed", *({"x": normal(rows, 64)} for rows in (1, 9)))
    blocks = layer.weight.blocks
    assert blocks is not None
    assert blocks.raw.tobytes() in (tmp_path / "packed" / "weights.safetensors").read_bytes()


def test_weights_that_a_pass_stores_in_another_form_go_out_in_it(tmp_path: Path) -> None:
    cx = ll.Graph()
    nn.Linear(64, 96, dtype="float32")(cx.tensor((4, 64), name="x")).named("y").retrieve()
    check(cx, tmp_path / "bf16", {"x": normal(4, 64)}, before=(ll.HalfPrecision("bfloat16"),))


def test_a_cache_is_the_callers_buffer(tmp_path: Path) -> None:
    cx, rows = ll.Graph(), 10
    x, cache = cx.tensor((1, ll.Symbol("seq", 1, rows), 16), name="x"), KVCache(cx, rows)
    nn.MultiheadAttention(16, 4)(x, is_causal=True, cache=cache).named("y").retrieve()
    compiled = cx.compile(ll.GenericCompiler(), ll.CPUCompiler(threads=1))
    model = Model(compiled.export(tmp_path / "attention"))
    kept = [one for one in model.inputs if one["carried"]]
    assert len(kept) == 2
    buffers = {one["name"]: np.zeros(ints(cx[one["name"]].shape), "float32") for one in kept}
    cache.begin()
    past = 0
    for count in (3, 1, 1, 4):
        piece = normal(1, count, 16)
        x.set(piece)
        cx.execute()
        told = {dim["name"]: past for dim in model.dims if not dim["from"]}
        results = model(x=piece, **buffers, **told)
        assert results["y"].tobytes() == cx["y"].numpy().tobytes()
        for one in kept:
            assert results[one["carried"]] is buffers[one["name"]]
        past += count
        cache.advance()


def test_a_training_step_goes_out_with_weights_that_change(tmp_path: Path) -> None:
    cx, layer = ll.Graph(), nn.Linear(6, 1)
    x, t = cx.tensor((8, 6), name="x"), cx.tensor((8, 1), name="t")
    loss = (layer(x) - t).square().mean().named("loss").retrieve()
    weight = cx.parameter(layer.weight)
    cx.carry((weight - 0.1 * ll.grad(loss, weight)).named("next"), weight)
    compiled = cx.compile(ll.GenericCompiler(), ll.CPUCompiler(threads=1))
    model = Model(compiled.export(tmp_path / "step"))
    given, losses = {"x": normal(8, 6), "t": normal(8, 1)}, list[float]()
    kept: dict[str, Any] = {}
    (state,) = [one for one in model.inputs if one["carried"]]
    for step in range(3):
        results = model(step, **given, **kept)
        kept = {state["name"]: results["next"]}
        losses.append(float(results["loss"]))
        x.set(given["x"])
        t.set(given["t"])
        cx.execute()
        assert results["loss"].tobytes() == loss.numpy().tobytes()
    assert losses[2] < losses[0]


def test_outputs_that_are_inputs_or_each_other(tmp_path: Path) -> None:
    cx = ll.Graph()
    x = cx.tensor(("n", 2), name="x").retrieve()
    y = (x * 2).named("y").retrieve()
    y.reshape("n*2").named("z").retrieve()
    x.reshape("n*2").named("w").retrieve()
    check(cx, tmp_path / "many", {"x": normal(3, 2)}, {"x": normal(1, 2)})


def test_inputs_that_change_places(tmp_path: Path) -> None:
    cx = ll.Graph()
    a, b = cx.tensor((3,), name="a"), cx.tensor((3,), name="b")
    cx.carry(a, b)
    cx.carry((b * 1.5).named("b2"), a)
    compiled = cx.compile(ll.GenericCompiler(), ll.CPUCompiler(threads=1))
    model = Model(compiled.export(tmp_path / "places"))
    one, two = np.array([1, 2, 3], "float32"), np.array([10, 20, 30], "float32")
    model(a=one, b=two)
    assert (one.tolist(), two.tolist()) == ([15, 30, 45], [1, 2, 3])


def test_random_numbers_are_those_of_the_same_run(tmp_path: Path) -> None:
    cx = ll.Graph()
    (cx.tensor((4, 5), name="x") + cx.randn(4, 5)).named("y").retrieve()
    check(cx, tmp_path / "drawn", *({"x": normal(4, 5)} for _ in range(3)))


def test_half_precision_arrays_go_in_and_out(tmp_path: Path) -> None:
    cx = ll.Graph()
    (cx.tensor((5,), "float16", name="x") * 3).named("y").retrieve()
    check(cx, tmp_path / "half", {"x": normal(5).astype("float16")})


def test_names_that_are_no_names_in_c(tmp_path: Path) -> None:
    cx = ll.Graph()
    x = cx.tensor((2,), name="h.x") + cx.tensor((2,), name="h_x") + cx.tensor((2,), name="int")
    x.retrieve()
    compiled = cx.compile(ll.GenericCompiler(), ll.CPUCompiler(threads=1))
    model = Model(compiled.export(tmp_path / "class"))
    given = {one["name"]: np.array([1, 2], "float32") for one in model.inputs}
    assert model(0, **given)["out"].tolist() == [3, 6]

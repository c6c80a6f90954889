"""The generic compiler: numbers survive it, it ends, and running it again changes nothing."""

import ast
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given

import luminal_lab as ll
from luminal_lab import nn, passes
from luminal_lab.core.parse import parse
from luminal_lab.passes.base import Pass
from luminal_lab.passes.compile import compile_ir
from luminal_lab.passes.generic import GenericCompiler
from luminal_lab.passes.pipeline import known_passes
from tests.core.graphs import graphs
from tests.passes.running import check_pass

TINY = np.array([0.0, -0.0, 1e-30, -1e-30, 1e-12, -1e-9, 1e-7, 1e-5, -1e-4, 1e-3, 0.1], "f")
HUGE = np.array([1.0, -0.5, 3.0, 20.0, -20.0, 88.0, -100.0, 1e4, -1e4, 1e30, np.inf], "f")

EXACT = {
    "log1p": (lambda x: x.log1p(), np.log1p),
    "expm1": (lambda x: x.expm1(), np.expm1),
    "tanh": (lambda x: x.tanh(), np.tanh),
    "sigmoid": (lambda x: x.sigmoid(), lambda x: 1 / (1 + np.exp(-x))),
    "softplus": (lambda x: x.softplus(), lambda x: np.logaddexp(x, 0)),
}


def compiled(call: Any, *data: np.ndarray, before: bool = False) -> np.ndarray:
    """Return what a function of tensors is, run as written or compiled."""
    cx = ll.Graph()
    y = call(*[cx.tensor(d.shape, d.dtype.name).set(d) for d in data]).retrieve()
    if not before:
        cx.compile()
    cx.execute()
    return y.numpy()


@pytest.mark.parametrize("name", EXACT)
@pytest.mark.parametrize("x", [TINY, HUGE], ids=["tiny", "huge"])
def test_functions_stay_exact(name, x):
    ours, theirs = EXACT[name]
    with np.errstate(all="ignore"):
        wanted = theirs(x.astype(np.float64)).astype(np.float32)
    for before in (True, False):
        found = compiled(ours, x, before=before)
        same = (found == wanted) | (np.isnan(found) & np.isnan(wanted))
        with np.errstate(all="ignore"):
            near = abs(found.astype(float) - wanted) <= 1e-6 * abs(wanted.astype(float))
        assert (same | near).all(), (found, wanted)


SPECIAL = {
    "0 times inf": lambda x: x * 0,
    "x - x": lambda x: x - x,
    "x / x": lambda x: x / x,
    "x times 1 over x": lambda x: x * (1 / x),
    "a mask of -inf": lambda x: (x > 1).where(x, -np.inf).softmax(-1),
    "a mask of nothing but -inf": lambda x: (x * 0 - np.inf).softmax(-1),
    "a mask that is added": lambda x: (x + (x > 1).where(0.0, -np.inf)).exp().sum(-1),
    "the two largest": lambda x: (x < x.topk(2)[0].min(-1, keepdim=True)).where(-np.inf, x),
    "the largest, then": lambda x: (
        (x < x.topk(2)[0].min(-1, keepdim=True)).where(-np.inf, x).softmax(-1)
    ),
    "log of what may be 0": lambda x: (x > 0).where(x.log(), 0.0),
    "max with itself": lambda x: x.maximum(x),
}


@pytest.mark.parametrize("name", SPECIAL)
def test_special_values_survive(name):
    x = np.array([[0.0, -0.0, 1.0, np.inf], [1.0, -np.inf, 2.0, 3.0], [np.nan, 1, 2, -3]], "f")
    before, after = (compiled(SPECIAL[name], x, before=b) for b in (True, False))
    np.testing.assert_array_equal(after, before)
    # The sign of a zero is all that the default licence gives away.
    assert (np.signbit(after) == np.signbit(before))[after != 0].all()


def test_nothing_is_reassociated_unless_it_may_be():
    text = """graph g(%x: f32[4]) -> (%r) {
      %a = constant{value = 0.1} : f32[4]
      %b = constant{value = 0.7} : f32[4]
      %p = mul %x, %a : f32[4]
      %r = mul %p, %b : f32[4]
    }"""
    strict = compile_ir(parse(text), GenericCompiler())
    assert len(strict.ir) == 5
    assert strict["reassociate"].refused == {"mul-constants": 1}
    free = compile_ir(parse(text), GenericCompiler(licence=["reassociate", "no_nan", "no_inf"]))
    assert len(free.ir) == 3
    assert len(compile_ir(parse(text.replace("f32", "i32").replace("0.", "")), "generic").ir) == 3


MODELS = {
    "GPT-2": lambda x: nn.models.GPT2(layers=2, heads=2, width=8, vocab=11, context=16)(x),
    "Llama": lambda x: nn.models.Llama(
        layers=2, heads=4, kv_heads=2, width=16, hidden=24, vocab=11, context=16
    )(x),
}


@pytest.mark.parametrize("name", MODELS)
def test_models_keep_their_values_and_are_done_after_one_run(name):
    cx = ll.Graph()
    tokens = cx.tensor(("batch", "seq"), "int64", name="tokens")
    tokens.set(np.arange(12).reshape(2, 6) % 11)
    logits = MODELS[name](tokens).retrieve()
    cx.execute()
    before = logits.numpy()
    first = cx.compile(check="values")
    cx.execute(keep_all=True)
    np.testing.assert_allclose(logits.numpy(), before, rtol=1e-5, atol=1e-6)
    again = compile_ir(first.ir, GenericCompiler())
    assert again.ir is first.ir
    assert [s.title for s in again.snapshots if s.firings] == []
    kinds = {body.name for node in first.ir if (body := node.op.body_of()) is not None}
    assert {"matmul", "attention"} <= kinds
    assert len([node for node in first.ir if node.op.body_of()]) >= 2 * 5


def test_a_step_of_training_keeps_its_values():
    cx = ll.Graph()
    model = nn.models.MLP(4, 8, 3).initialise(0)
    x = cx.tensor((6, 4)).set(np.linspace(-1, 1, 24).reshape(6, 4))
    target = cx.tensor((6,), "int64").set([0, 1, 2, 0, 1, 2])
    loss = nn.cross_entropy(model(x), target).retrieve()
    nn.AdamW(lr=0.01).minimise(loss, clip_norm=1.0)
    result = cx.compile(check="values")
    bodies = [body.name for node in result.ir if (body := node.op.body_of()) is not None]
    assert bodies.count("matmul") == 5  # two forward, three backward
    losses = []
    for _ in range(5):
        cx.execute()
        losses.append(loss.item())
    assert losses == sorted(losses, reverse=True)


@given(graphs())
def test_random_graphs_keep_their_values_and_are_done_after_one_run(ir):
    check_pass(ir, GenericCompiler())


def test_files_of_passes_know_nothing_of_snapshots_verification_or_statistics():
    folder = Path(passes.__path__[0])
    manage = {"check", "compilation", "compile", "diff", "snapshot", "story"}
    ours = {cls for cls in known_passes().values() if issubclass(cls, Pass)}
    modules = {cls.__module__ for cls in ours if cls.__module__.startswith("luminal_lab.passes.")}
    modules -= {"luminal_lab.passes.rewrite"}  # what drives rules looks where they changed things
    assert len(modules) > 12
    for module in modules:
        path = folder.joinpath(*module.split(".")[2:]).with_suffix(".py")
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom):
                assert node.module not in {f"luminal_lab.passes.{m}" for m in manage}, path
                assert node.module != "luminal_lab.core.verify", path
            assert not (isinstance(node, ast.Attribute) and node.attr == "log"), path

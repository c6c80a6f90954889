"""Half precision: models near float32 in any order of passes, training, and what stays float32."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from typing_extensions import override

import luminal_lab as ll
from luminal_lab import Graph, nn
from luminal_lab.core.ir import IR
from luminal_lab.core.op import Reduce, View
from luminal_lab.core.ops import Call, Cast, Exp2, Input, Stored, Update
from luminal_lab.errors import PassError
from luminal_lab.nn.cache import KVCache
from luminal_lab.passes.pipeline import Pipeline, Runner
from luminal_lab.passes.stored import live
from tests.expect import error_of

TOLERANCE = {"bfloat16": 1.5e-2, "float16": 2e-3}
DIGITS = np.random.default_rng(1).normal(size=(4, 1, 8, 8)).astype(np.float32)
ROWS = np.random.default_rng(2).normal(size=(6, 64)).astype(np.float32)
TOKENS = np.array([[1, 5, 3, 49, 0], [7, 7, 2, 1, 30]])
SMALL: dict[str, Any] = {"layers": 2, "heads": 4, "width": 32, "vocab": 50}
MODELS: dict[str, tuple[Any, np.ndarray]] = {
    "mlp": (lambda: nn.models.MLP(64, 32, 10), ROWS),
    "cnn": (lambda: nn.models.CNN(), DIGITS),
    "gpt2": (lambda: nn.models.GPT2(**SMALL, context=16), TOKENS),
    "llama": (lambda: nn.models.Llama(**SMALL, kv_heads=2, hidden=64, tied=True), TOKENS),
}


def orders(dtype):
    half = ll.HalfPrecision(dtype)
    return {
        "alone": [half],
        "after": [ll.GenericCompiler(), half],
        "before": [half, ll.GenericCompiler()],
        "each run": [ll.GenericCompiler(), ll.HalfPrecision(dtype, weights=False)],
    }


def written(model, data):
    cx = Graph()
    x = cx.tensor(data.shape, str(data.dtype), "x").set(data)
    return cx, model(x).retrieve()


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("name", MODELS)
def test_a_model_is_near_what_it_is_in_float32(name, dtype):
    make, data = MODELS[name]
    model = make().initialise(0).eval()
    cx, result = written(model, data)
    cx.execute()
    exact = result.numpy()
    found = {}
    for order, passes in orders(dtype).items():
        cx, result = written(model, data)
        ir = cx.compile(*passes).ir
        assert any(node.dtype == dtype for node in ir)
        cx.execute()
        found[order] = result.numpy()
        assert found[order].dtype == np.float32
        difference = np.abs(found[order] - exact).max()
        assert 0 < difference < TOLERANCE[dtype] * np.abs(exact).max(), order
    np.testing.assert_array_equal(found["alone"], found["after"])
    np.testing.assert_array_equal(found["alone"], found["before"])


@pytest.mark.parametrize("name", ["gpt2", "llama"])
def test_a_decode_step_reads_halves_of_the_weights_and_the_cache_as_it_is(name):
    make, _ = MODELS[name]
    model = make().initialise(0).eval()
    said = []
    for passes in ([], [ll.GenericCompiler(), ll.HalfPrecision()]):
        cx = Graph()
        token = cx.tensor((1, 1), "int64", "token")
        cache = KVCache(cx, 16)
        result = model(token, cache=cache).retrieve()
        if passes:
            ir = cx.compile(*passes).ir
            read = [ir[id] for id in live(ir, ir.output_ids)]
            matrices = {
                n.name
                for n in read
                if isinstance(n.op, Input) and len(n.shape) == 2 and n.dtype == "float32"
            }
            assert matrices <= {"wpe.weight"}, "of which a slice is read"
            for node in read:
                if isinstance(node.op, Update):
                    assert not [one for one in _past_views(ir, node) if _rounds(one)]
        cache.begin()
        rows = []
        for number in (3, 1, 4, 1, 5):
            cache.advance()
            token.set([[number]])
            cx.execute()
            rows.append(result.numpy()[0, 0])
        said.append(np.stack(rows))
    exact, ours = said
    assert 0 < np.abs(ours - exact).max() < TOLERANCE["bfloat16"] * np.abs(exact).max()


def _past_views(ir: IR, node):
    for user in ir.users(node):
        if isinstance(user.op, View):
            yield from _past_views(ir, user)
        else:
            yield user


def _rounds(node):
    return isinstance(node.op, Cast) and node.dtype.is_half


def trained(name, *passes, steps=10):
    make, data = MODELS[name]
    model = make().initialise(0)
    classes = np.random.default_rng(3).integers(0, 10, data.shape[:2] if data.ndim == 2 else 4)
    classes = classes[:, 0] if name == "mlp" else classes
    cx, result = written(model, data)
    wanted = cx.tensor(classes.shape, "int64", "wanted").set(classes)
    loss = nn.cross_entropy(result, wanted, axis=-1).retrieve()
    nn.AdamW(1e-2).minimise(loss)
    compilation = cx.compile(*passes) if passes else None
    losses = []
    for _ in range(steps):
        cx.execute()
        losses.append(loss.item())
    return np.array(losses), compilation, model


@pytest.mark.parametrize("name", ["mlp", "cnn", "gpt2"])
def test_training_goes_as_in_float32(name):
    exact, _, _ = trained(name)
    ours, compilation, model = trained(name, ll.GenericCompiler(), ll.HalfPrecision())
    assert exact[-1] < 0.7 * exact[0]
    assert 0 < np.abs(ours - exact).max() < 2e-2 * exact[0]
    assert all(p.value.dtype == np.float32 for p in model.parameters().values())
    assert compilation is not None
    ir = compilation.ir
    # What is carried to the next run, weights and what the optimiser remembers, never was a half
    # but for the products' part in the gradients.
    assert not [node for node in ir if isinstance(node.op, Stored)]
    halves = {node.id for node in ir if node.dtype.is_half}
    assert halves
    products = {node.id for node in ir if isinstance(node.op, Call)}
    for new, _ in ir.carries:
        todo, seen = [new], set()
        while todo:
            id = todo.pop()
            if id not in seen and id not in products:
                seen.add(id)
                todo += ir[id].sources
        # Biases are the one exception: their gradients are sums of what the products read too.
        if len(ir[new].shape) > 1:
            updates = [id for id in seen & halves if ir[ir[id].sources[0]].shape == ir[new].shape]
            assert not updates, [str(ir[id]) for id in updates]


def test_the_loss_and_its_logits_stay_float32():
    _, compilation, _ = trained("mlp", ll.HalfPrecision(), steps=1)
    assert compilation is not None
    ir = compilation.ir
    kept = [n for n in ir if isinstance(n.op, Call) and n.op.body.name in ("log_softmax", "exp")]
    assert kept
    for node in kept:
        above = ir.ancestors([node]) - {n.id for n in ir if isinstance(n.op, Input)}
        logits = ir[node.sources[0]]
        assert logits.dtype == "float32"
        assert not isinstance(logits.op, Cast), above


def test_what_stays_float32():
    """Of a Llama: statistics, exponentials, tables, and all that is not a weight or an operand."""
    make, data = MODELS["llama"]
    cx, _ = written(make().initialise(0), data)
    ir = cx.compile(ll.GenericCompiler(), ll.HalfPrecision(), "inline").ir
    for node in ir:
        if isinstance(node.op, (Reduce, Exp2)):
            assert node.dtype == "float32"
    halves = [node for node in ir if node.dtype.is_half]
    assert {type(node.op).__name__ for node in halves} == {"Stored", "Cast", "Gather"}
    stored = {ir[node.sources[0]].name for node in halves if isinstance(node.op, Stored)}
    layers = [f"model.layers.{k}" for k in range(2)]
    matrices = [f"self_attn.{part}_proj" for part in "qkvo"]
    matrices += [f"mlp.{part}_proj" for part in ("gate", "up", "down")]
    assert stored == {
        "model.embed_tokens.weight",
        *(f"{layer}.{matrix}.weight" for layer in layers for matrix in matrices),
    }
    # In a layer: two norms, queries and keys before and behind their rotation, values, what
    # attention gives, the gated features, and twice the stream. And the last norm.
    assert sum(isinstance(node.op, Cast) for node in halves) == 2 * 11 + 1
    for name in ("model.norm.weight", *(f"{layer}.input_layernorm.weight" for layer in layers)):
        assert not any(user.dtype.is_half for user in ir.users(name))


def test_other_dtypes_and_drawn_numbers_are_left_alone():
    cx = Graph()
    a = cx.tensor((4, 8), "float64", "a")
    b = cx.tensor((8, 3), "float64", "b")
    (a @ b).retrieve()
    (cx.tensor((4, 8), "int32", "c") @ cx.tensor((8, 3), "int32", "d")).retrieve()
    cx.rand((4, 8)).retrieve()
    compilation = cx.compile(ll.HalfPrecision())
    assert not any(node.dtype.is_half for node in compilation.ir)
    assert compilation["halves"].firings == ()


def test_an_output_that_a_product_reads_is_not_rounded():
    cx = Graph()
    x = cx.tensor((4, 8), name="x").set(np.full((4, 8), 1 + 2.0**-12))
    h = (x + 1).retrieve()
    y = (h @ cx.tensor((8, 3), name="w").set(np.ones((8, 3)))).retrieve()
    cx.compile(ll.HalfPrecision())
    cx.execute()
    np.testing.assert_array_equal(h.numpy(), np.full((4, 8), 2 + 2.0**-12, np.float32))
    np.testing.assert_array_equal(y.numpy(), np.full((4, 3), 16, np.float32))


def test_a_value_times_itself_transposed_is_rounded_once():
    cx = Graph()
    x = cx.tensor((4, 8), name="x").set(np.full((4, 8), 0.5))
    h = x.sin()
    y = (h @ h.T).retrieve()
    ir = cx.compile(ll.HalfPrecision()).ir
    assert sum(node.dtype.is_half for node in ir) == 1
    cx.execute()
    assert y.numpy()[0, 0] == pytest.approx(8 * np.sin(0.5) ** 2, rel=1e-2)


def test_a_weight_in_another_form_is_left_as_it_is():
    cx = Graph()
    layer = nn.Linear(64, 32).initialise(0)
    ll.quantise(layer)
    layer(cx.tensor((3, 64), name="x").set(np.ones((3, 64)))).retrieve()
    for passes in (
        [ll.Quantised(), ll.HalfPrecision()],
        [ll.HalfPrecision(), ll.Quantised()],
    ):
        ir = cx.compile(*passes).ir
        stored = [str(node.type) for node in ir if isinstance(node.op, Stored)]
        assert stored == ["i8[32, 64]", "f16[32, 2]"]
        assert sum(_rounds(node) for node in ir) == 1, "the rows that are multiplied"


class Device(Pipeline):
    """A device that only says so."""

    @override
    def runner(self, ir: IR, specialise: Mapping[str, int] | None = None) -> Runner | None:
        """Return nothing, so that the interpreter runs it."""
        return None


def test_it_runs_before_a_device_wherever_it_stands():
    half, generic, device = ll.HalfPrecision(), ll.GenericCompiler(), Device(["cse"])
    cx, _ = written(nn.Linear(64, 3).initialise(0), ROWS)
    for passes, order in (
        ([generic, device, half], [generic, half, device]),
        ([[generic, device], "dce", half], [half, [generic, device], "dce"]),
        ([half, device, ll.Quantised(), "dce"], [half, ll.Quantised(), device, "dce"]),
        ([generic, half], [generic, half]),
    ):
        assert str(cx.compile(*passes).pipeline) == str(Pipeline(order))


def test_what_was_computed_before_a_compile_in_another_precision_is_computed_anew():
    cx, result = written(nn.Linear(64, 3).initialise(0), ROWS)
    cx.execute()
    exact = result.numpy().copy()
    for passes, is_same in (([ll.HalfPrecision()], False), ([ll.GenericCompiler()], True)):
        cx.compile(*passes)
        assert "not computed yet" in str(result)
        cx.execute()
        assert np.allclose(result.numpy(), exact, rtol=1e-6) == is_same


def test_errors_name_what_there_is():
    error = error_of(lambda: ll.HalfPrecision("float32"), PassError)
    assert error.message == "half: float32 is not a 16-bit float"
    assert error.hint == (
        'choose "bfloat16", with the range of float32, or "float16", which is finer'
    )
    error = error_of(lambda: ll.HalfPrecision("float8"), PassError)
    assert error.message == "half: there is no dtype 'float8'"

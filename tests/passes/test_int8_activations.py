"""Products of blocks and integers: what they round, that nothing else does, and what stays."""

from typing import Any

import numpy as np
import pytest

import luminal_lab as ll
from luminal_lab.core.interpret import Environment, interpret
from luminal_lab.passes.int8_activations import groups_of, products, rounding
from luminal_lab.tensor.blocks import ARRAYS, FORMS, BlockForm, Blocks

FEW_BITS = [name for name, form in FORMS.items() if form.apart and form.bytes < form.values]


def drawn(form: str, shape: tuple[int, int], seed: int = 0) -> Blocks:
    """Blocks of any bits whose 16-bit scales are of ordinary size."""
    kind = FORMS[form]
    raw = np.random.default_rng(seed).integers(0, 256, kind.raw_shape(shape)).astype(np.uint8)
    each = raw.reshape(-1, kind.bytes)
    for at in {"q6_k": (208,), "q3_k": (108,), "q2_k": (80, 82), "q4_0": (0,)}.get(form, (0, 2)):
        if at == 2 and form not in ("q4_1", "q5_1", "q4_k", "q5_k"):
            continue
        each[:, at : at + 2] = 0, 0x2C
    return Blocks(form, raw, shape)


def rounded(x: np.ndarray, group: int) -> np.ndarray:
    """What a row becomes: multiples of the largest magnitude of a group / 127."""
    each = x.reshape(-1, group).astype(np.float32)
    step = np.abs(each).max(1, keepdims=True) / np.float32(127)
    with np.errstate(divide="ignore", invalid="ignore"):
        near = np.where(step > 0, each / step, 0)
    return (np.sign(near) * np.floor(np.abs(near) + 0.5) * step).reshape(x.shape)


def graph(blocks: Blocks, x: np.ndarray, *passes: Any, device: bool = True) -> Any:
    layer = ll.nn.Linear(blocks.shape[1], blocks.shape[0], bias=False)
    layer.weight.set(blocks)
    cx = ll.Graph()
    y = layer(cx.tensor(x.shape, name="x").set(x)).retrieve()
    cx.compile(*passes, ll.GenericCompiler(), *([ll.CPUCompiler()] if device else []))
    cx.execute()
    return cx, y.numpy()


@pytest.mark.needs("cc")
@pytest.mark.parametrize("form", FEW_BITS)
def test_only_what_is_multiplied_is_rounded(form):
    """The product is that of the rounded row and the weight's values, in kernels and without."""
    blocks = drawn(form, (48, 512))
    x = np.random.default_rng(1).standard_normal((1, 512)).astype(np.float32)
    x[0, :64] = 0  # a group of zeros has no step
    weight: np.ndarray[Any, Any] = blocks.value.T
    expected = rounded(x, FORMS[form].values // groups_of(FORMS[form])) @ weight
    size = np.abs(expected).max()
    for device in (True, False):
        cx, y = graph(blocks, x, ll.Int8Activations(), device=device)
        np.testing.assert_allclose(y, expected, atol=2e-6 * size, rtol=1e-5)
        if device:
            assert len(cx.kernels) == 2
    assert np.abs(y - x @ weight).max() > 1e-4 * size  # something is rounded


@pytest.mark.needs("cc")
@pytest.mark.parametrize("form", ["q4_0", "q4_1", "q4_k", "q5_k", "q6_k"])
def test_kernels_add_up_bytes(form):
    cx, _ = graph(drawn(form, (48, 512)), np.ones((1, 512), "float32"), ll.Int8Activations())
    assert "lab_dots_u8(" in cx.kernels[-1].source
    assert [kernel.name for kernel in cx.kernels] == ["int8_activations", f"{form}_by_int8"]


def results(body: Any, given: dict[str, np.ndarray]) -> list[np.ndarray]:
    values = interpret(body, Environment(lambda node: given[node.meta.name or ""]))
    return [values[id] for id in body.output_ids]


@pytest.mark.parametrize("form", FEW_BITS)
def test_a_wrong_part_is_seen(form):
    """An integer, a step or a sum that is off by one would not pass the test above."""
    kind, shape = FORMS[form], (4, 256)
    blocks, group = drawn(form, shape), kind.values // groups_of(kind)
    x = np.random.default_rng(2).standard_normal(256).astype(np.float32)
    given = dict(
        zip(("integers", "step", "sums"), results(rounding(256, group), {"x": x}), strict=True),
        raw=blocks.raw,
    )
    body = products(kind, shape)
    (right,) = results(body, given)
    for name in ("integers", "step", "sums"):
        value = given[name].copy()
        value[3] += 1
        (wrong,) = results(body, {**given, name: value})
        is_seen = np.abs(wrong - right).max() > 1e-3
        assert is_seen == (name != "sums" or has_zero(kind))


def has_zero(kind: BlockForm) -> bool:
    """Whether 0 is not the integer 0 in a form."""
    parts = kind.parts(ARRAYS, np.zeros(kind.raw_shape((1, kind.values)), np.uint8))
    return bool(parts.zero) or parts.least is not None


@pytest.mark.parametrize(
    ("form", "rows", "why"),
    [
        ("q8_0", 1, "q8_0 has eight bits or more a value"),
        ("q4_k", 2, "has several rows"),
    ],
)
def test_what_stays_says_why(form, rows, why):
    x = np.ones((rows, 256), "float32")
    cx, _ = graph(drawn(form, (8, 256)), x, ll.Int8Activations(), device=False)
    refused = [
        refusal.because
        for snapshot in cx.snapshots
        for refusal in snapshot.refusals
        if refusal.rule == "int8_products"
    ]
    assert any(why in because for because in refused)


def test_a_row_is_rounded_once_for_all_its_products():
    blocks = [drawn("q4_k", (8, 256), seed) for seed in range(3)]
    cx = ll.Graph()
    x = cx.tensor((1, 256), name="x").set(np.ones((1, 256)))
    total = x
    for each in blocks:
        layer = ll.nn.Linear(256, 8, bias=False)
        layer.weight.set(each)
        total = total.sum(1, keepdim=True) * 0 + layer(x)
    total.retrieve()
    ir = cx.compile(ll.Int8Activations()).ir
    assert str(ir).count("call{body = int8_activations}") == 1


def test_it_is_a_pass_by_name_and_says_that_it_rounds():
    assert str(ll.parse_pipeline("int8_activations")) == "int8_activations"
    cx, _ = graph(drawn("q4_k", (8, 256)), np.ones((1, 256), "float32"), "int8_activations")
    assert cx.compilation.rounds

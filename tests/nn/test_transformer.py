"""Transformers beside PyTorch's: layers, stacks and the whole; values and gradients."""

import numpy as np
import pytest

from luminal_lab.errors import ArgumentError
from luminal_lab.nn.norm import LayerNorm
from luminal_lab.nn.rope import RotaryEmbedding
from luminal_lab.nn.transformer import (
    Transformer,
    TransformerDecoder,
    TransformerDecoderLayer,
    TransformerEncoder,
    TransformerEncoderLayer,
)
from luminal_lab.session import Graph
from tests.expect import error_of
from tests.nn.beside import beside, value_of
from tests.tensor.against import draw

SIZES = (16, 4, 24)
OPTIONS = [
    {},
    {"norm_first": True},
    {"activation": "gelu", "norm_first": True, "bias": False},
    {"activation": "gelu", "layer_norm_eps": 0.1},
]


def unlike(torch, witness):
    """Give norms and biases, which begin as 1 and 0, values that tell them apart."""
    for weight in witness.parameters():
        if weight.dim() == 1:
            torch.nn.init.normal_(weight, 1.0, 0.3)
    return witness


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("causal", [False, True])
def test_encoder_layer(torch, options, causal):
    torch.manual_seed(0)
    make = torch.nn.TransformerEncoderLayer
    witness = unlike(torch, make(*SIZES, dropout=0.0, batch_first=True, **options))
    hidden = torch.ones(5, 5, dtype=torch.bool).triu(1) if causal else None
    beside(
        torch,
        module := TransformerEncoderLayer(*SIZES, dropout=0.0, **options),
        witness,
        draw((2, 5, 16)),
        ours=lambda x: module(x, is_causal=causal),
        theirs=lambda x: witness(x, src_mask=hidden),
    )


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_decoder_layer(torch, options):
    torch.manual_seed(0)
    make = torch.nn.TransformerDecoderLayer
    witness = unlike(torch, make(*SIZES, dropout=0.0, batch_first=True, **options))
    hidden = torch.ones(3, 3, dtype=torch.bool).triu(1)
    seen = draw((3, 5), "bool")
    seen[:, 0] = True
    beside(
        torch,
        module := TransformerDecoderLayer(*SIZES, dropout=0.0, **options),
        witness,
        draw((2, 3, 16)),
        draw((2, 5, 16), seed=1),
        ours=lambda x, m: module(x, m, is_causal=True, memory_mask=seen),
        theirs=lambda x, m: witness(x, m, tgt_mask=hidden, memory_mask=~torch.tensor(seen)),
    )


@pytest.mark.parametrize("norm", [False, True])
def test_stacks(torch, norm):
    torch.manual_seed(0)
    layer = torch.nn.TransformerEncoderLayer(*SIZES, dropout=0.0, batch_first=True)
    last = torch.nn.LayerNorm(16) if norm else None
    witness = torch.nn.TransformerEncoder(layer, 2, last, enable_nested_tensor=False)
    layers = [TransformerEncoderLayer(*SIZES, dropout=0.0) for _ in range(2)]
    ours = TransformerEncoder(layers, LayerNorm(16) if norm else None)
    beside(torch, ours, witness, draw((2, 5, 16)))


def test_a_stack_of_decoders(torch):
    torch.manual_seed(0)
    layer = torch.nn.TransformerDecoderLayer(*SIZES, dropout=0.0, batch_first=True)
    witness = torch.nn.TransformerDecoder(layer, 2)
    ours = TransformerDecoder([TransformerDecoderLayer(*SIZES, dropout=0.0) for _ in range(2)])
    beside(torch, ours, witness, draw((2, 3, 16)), draw((2, 5, 16), seed=1))


@pytest.mark.filterwarnings("ignore:enable_nested_tensor")  # what torch warns about is not ours
@pytest.mark.parametrize("norm_first", [False, True])
def test_transformer(torch, norm_first):
    torch.manual_seed(0)
    sizes, options = (16, 4, 2, 1, 24), {"dropout": 0.0, "norm_first": norm_first}
    witness = unlike(torch, torch.nn.Transformer(*sizes, batch_first=True, **options))
    hidden = torch.ones(3, 3, dtype=torch.bool).triu(1)
    beside(
        torch,
        module := Transformer(*sizes, **options),
        witness,
        draw((2, 5, 16)),
        draw((2, 3, 16), seed=1),
        ours=lambda x, y: module(x, y, tgt_is_causal=True),
        theirs=lambda x, y: witness(x, y, tgt_mask=hidden),
        tolerance=5e-5,
    )


def test_masks_of_the_transformer(torch):
    torch.manual_seed(0)
    sizes = 16, 4, 1, 1, 24
    witness = torch.nn.Transformer(*sizes, dropout=0.0, batch_first=True)
    masks = [draw(shape, seed=k) for k, shape in enumerate([(5, 5), (3, 3), (3, 5)])]
    beside(
        torch,
        module := Transformer(*sizes, dropout=0.0),
        witness,
        draw((2, 5, 16)),
        draw((2, 3, 16), seed=1),
        ours=lambda x, y: module(x, y, *masks),
        theirs=lambda x, y: witness(x, y, *map(torch.tensor, masks)),
        tolerance=5e-5,
    )


def test_an_activation_may_be_a_function():
    named, given = (
        TransformerEncoderLayer(*SIZES, activation=how).initialise(0).eval()
        for how in ("silu", lambda x: x * x.sigmoid())
    )
    x = draw((1, 3, 16))
    np.testing.assert_allclose(value_of(named, x), value_of(given, x), rtol=1e-5, atol=1e-6)


def test_dropout_is_for_training():
    layer, x = TransformerEncoderLayer(*SIZES, dropout=0.5).initialise(0), draw((1, 3, 16))
    trained = value_of(layer, x)
    assert np.abs(trained - value_of(layer.eval(), x)).max() > 1e-2


def test_options_reach_the_attention():
    rope = RotaryEmbedding(4)
    layer = TransformerDecoderLayer(*SIZES, num_kv_heads=2, rope=rope, dtype="float64")
    assert layer.self_attn.rope is rope
    assert layer.multihead_attn.rope is None
    assert {str(p.dtype) for p in layer.parameters().values()} == {"float64"}
    assert layer.self_attn.in_proj_weight.shape == (32, 16)


def test_first_weights():
    state = Transformer(32, 4, 1, 1, 64).initialise(0).state_dict()
    for name, features in (("linear1", 96), ("self_attn.out_proj", 64), ("self_attn.in_proj", 128)):
        kind = "_weight" if name.endswith("in_proj") else ".weight"
        largest = np.abs(state[f"decoder.layers.0.{name}{kind}"]).max()
        assert largest == pytest.approx((6 / features) ** 0.5, rel=0.02)
    assert (state["encoder.norm.weight"] == 1).all()


def test_scopes_are_the_paths_of_the_parts():
    cx = Graph()
    x = cx.tensor((1, 3, 16))
    Transformer(16, 4, 1, 1, 24)(x, x, tgt_is_causal=True)
    scopes = {node.meta.scope for node in cx.ir}
    assert "transformer.encoder.layers.0.self_attn.out_proj" in scopes
    assert "transformer.decoder.layers.0.multihead_attn" in scopes
    assert "transformer.decoder.norm" in scopes


def test_an_unknown_activation():
    error = error_of(lambda: TransformerEncoderLayer(8, 2, activation="geluu"), ArgumentError)
    assert error.message == "activation: tensors have no 'geluu'"
    assert error.hint == "did you mean 'gelu'?"
    assert 'activation="geluu"' in str(error.where)

"""Layers that PyTorch calls as single ops where nothing is trained, beside PyTorch's values."""

from typing import Any

import pytest

pytestmark = [pytest.mark.needs("torch"), pytest.mark.filterwarnings("ignore::DeprecationWarning")]


def compare(torch: Any, call: Any, *given: Any) -> None:
    torch._dynamo.reset()
    with torch.no_grad():
        mine, wanted = torch.compile(call, backend="luminal_lab")(*given), call(*given)
    torch.testing.assert_close(mine, wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize("masked", [False, True])
def test_an_encoder_layer(torch, first, masked):
    torch.manual_seed(0)
    options = {"batch_first": True, "norm_first": first, "activation": "gelu" if first else "relu"}
    layer = torch.nn.TransformerEncoderLayer(32, 4, 64, **options).eval()
    padding = torch.zeros(2, 5, dtype=torch.bool)
    padding[0, 3:] = True
    x = torch.randn(2, 5, 32)
    compare(torch, lambda x: layer(x, src_key_padding_mask=padding if masked else None), x)


@pytest.mark.parametrize("words", [{}, {"need_weights": False}, {"average_attn_weights": False}])
def test_attention_of_several_heads(torch, words):
    torch.manual_seed(0)
    layer = torch.nn.MultiheadAttention(32, 4, batch_first=True).eval()
    compare(torch, lambda x: layer(x, x, x, **words), torch.randn(2, 5, 32))

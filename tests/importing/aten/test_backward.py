"""The gradients that PyTorch's autograd writes as ops of their own, beside PyTorch's values."""

from typing import Any

import pytest

pytestmark = [pytest.mark.needs("torch"), pytest.mark.filterwarnings("ignore::DeprecationWarning")]
LAYERS = {
    "conv1d": ("Conv1d(4, 6, 3, 2, 1, groups=2)", (2, 4, 9)),
    "conv2d": ("Conv2d(4, 6, (3, 2), 2, 1, dilation=2)", (2, 4, 9, 8)),
    "conv2d of one sample": ("Conv2d(4, 6, 3)", (4, 9, 8)),
    "transposed": ("ConvTranspose2d(4, 6, 3, 2, 1, 1)", (2, 4, 5, 4)),
    "max": ("MaxPool2d(3, 2, 1)", (2, 3, 8, 7)),
    "max3d": ("MaxPool3d(2)", (1, 2, 4, 4, 4)),
    "avg": ("AvgPool2d(3, 2, 1, count_include_pad=False)", (2, 3, 8, 7)),
    "adaptive": ("AdaptiveAvgPool2d((3, 2))", (2, 3, 8, 7)),
    "nearest": ("Upsample(scale_factor=2)", (2, 3, 4, 3)),
    "edges": ("ReplicationPad2d((1, 2, 0, 3))", (2, 3, 4, 3)),
}


def gradients(torch: Any, call: Any, *given: Any) -> Any:
    return torch.autograd.grad(call(*given).sin().sum(), given)


@pytest.mark.parametrize("name", LAYERS)
def test_a_layer_has_the_gradients_of_pytorch(torch, name):
    text, shape = LAYERS[name]
    torch._dynamo.reset()
    torch.manual_seed(0)
    layer = eval(f"nn.{text}", {"nn": torch.nn})
    weights = {k: v.detach().requires_grad_() for k, v in layer.named_parameters()}

    def call(x: Any, *values: Any) -> Any:
        return torch.func.functional_call(layer, dict(zip(weights, values, strict=True)), (x,))

    given = torch.randn(shape, requires_grad=True), *weights.values()
    mine = gradients(torch, torch.compile(call, backend="luminal_lab"), *given)
    torch.testing.assert_close(mine, gradients(torch, call, *given), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("causal", [False, True])
def test_attention_has_the_gradients_of_pytorch(torch, causal):
    torch._dynamo.reset()

    def call(q: Any, k: Any, v: Any) -> Any:
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)

    given = [torch.randn(2, 2, 5, 8, requires_grad=True) for _ in range(3)]
    mine = gradients(torch, torch.compile(call, backend="luminal_lab"), *given)
    torch.testing.assert_close(mine, gradients(torch, call, *given), rtol=1e-4, atol=1e-5)


def test_a_weight_that_comes_from_the_input_has_its_own_gradient(torch):
    torch._dynamo.reset()

    def call(x: Any) -> Any:
        return torch.nn.functional.conv1d(x, x[:, :, :3] * 2)

    x = torch.randn(2, 2, 8, requires_grad=True)
    mine = gradients(torch, torch.compile(call, backend="luminal_lab"), x)
    torch.testing.assert_close(mine, gradients(torch, call, x), rtol=1e-4, atol=1e-5)

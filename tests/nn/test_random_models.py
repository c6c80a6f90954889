"""Random stacks of layers, with a loss, beside PyTorch's on the same weights."""

from copy import deepcopy
from random import Random
from typing import Any

import numpy as np
import pytest

from luminal_lab import Graph, nn
from luminal_lab.passes.gradients import grad
from tests.nn.beside import close
from tests.tensor.against import draw

CLASSES = 3


def of_images(pick: Random, shape: tuple[int, ...]) -> tuple[str, tuple[Any, ...], dict[str, Any]]:
    """Return a layer of [batch, channels, height, width], as a name and arguments."""
    channels = shape[1]
    out = pick.choice([2, 4])
    return pick.choice(
        [
            ("Conv2d", (channels, out, 3), {"padding": 1, "stride": pick.choice([1, 2])}),
            ("Conv2d", (channels, out, (1, 2)), {"bias": False, "padding": 1}),
            ("Conv2d", (channels, channels, 3), {"groups": channels, "padding": "same"}),
            ("ConvTranspose2d", (channels, out, 2), {"stride": 2}),
            ("BatchNorm2d", (channels,), {}),
            ("GroupNorm", (pick.choice([1, 2]) if channels % 2 == 0 else 1, channels), {}),
            ("InstanceNorm2d", (channels,), {"affine": True}),
            ("MaxPool2d", (2,), {"stride": 1}),
            ("AvgPool2d", (2,), {"padding": 1}),
            ("AdaptiveAvgPool2d", ((3, 2),), {}),
            *of_anything(pick),
        ]
    )


def of_rows(pick: Random, shape: tuple[int, ...]) -> tuple[str, tuple[Any, ...], dict[str, Any]]:
    """Return a layer of [..., features]."""
    size = shape[-1]
    layers: list[Any] = [
        ("Linear", (size, pick.choice([3, 6])), {"bias": pick.random() < 0.7}),
        ("LayerNorm", (size,), {}),
        ("RMSNorm", (size,), {"eps": 1e-6}),
        ("Softmax", (-1,), {}),
        ("LogSoftmax", (-1,), {}),
        *of_anything(pick),
    ]
    if len(shape) == 2:
        layers.append(("BatchNorm1d", (size,), {"momentum": 0.3}))
    return pick.choice(layers)


def of_anything(pick: Random) -> list[tuple[str, tuple[Any, ...], dict[str, Any]]]:
    names = "ReLU GELU SiLU Tanh Sigmoid ELU Softplus Mish LeakyReLU Hardswish SELU Softsign"
    return [(pick.choice(names.split()), (), {})]


@pytest.mark.share(16)
@pytest.mark.parametrize("seed", range(50))
def test_values_and_gradients(torch, seed):
    pick = Random(seed)
    images = pick.random() < 0.5
    shape = (4, 2, 6, 5) if images else pick.choice([(4, 5), (4, 3, 4)])
    x = draw(shape, seed=seed, low=-1.0, high=1.0)
    kinds: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = []
    theirs = torch.nn.Sequential()
    now = torch.tensor(x)
    for _ in range(pick.randint(1, 6)):
        kinds.append((of_images if images else of_rows)(pick, tuple(now.shape)))
        name, args, options = kinds[-1]
        theirs.append(getattr(torch.nn, name)(*args, **options))
        now = theirs[-1](now)
    width = int(np.prod(now.shape[1:]))
    kinds += [("Flatten", (), {}), ("Linear", (width, CLASSES), {})]
    theirs.extend([torch.nn.Flatten(), torch.nn.Linear(width, CLASSES)])
    ours = nn.Sequential(*[getattr(nn, name)(*a, **options) for name, a, options in kinds])
    state = {
        name: draw(tuple(v.shape), seed=k) for k, (name, v) in enumerate(theirs.named_parameters())
    }
    theirs.load_state_dict({k: torch.tensor(v) for k, v in state.items()}, strict=False)
    ours.load_state_dict(theirs.state_dict())
    target = np.array([0, 2, 1, 2])

    def slopes_of(module, given):
        loss = torch.nn.functional.cross_entropy(module(given), torch.tensor(target))
        loss.backward()
        return loss, {"x": given.grad, **{k: p.grad for k, p in module.named_parameters()}}

    precise = deepcopy(theirs).double()
    wanted, expected = slopes_of(theirs, torch.tensor(x, requires_grad=True))
    _, true = slopes_of(precise, torch.tensor(x, dtype=torch.float64, requires_grad=True))
    cx = Graph()
    tensor = cx.tensor(shape, name="x").set(x)
    loss = nn.cross_entropy(ours(tensor), target).retrieve()
    slopes = grad(loss, {"x": tensor, **ours.parameters()})
    cx.retrieve(slopes)
    cx.execute()
    close(loss.numpy(), wanted.detach().numpy(), 1e-5, str(kinds))
    assert slopes.keys() == expected.keys()
    largest = max(float(slope.abs().max()) for slope in expected.values())
    for name, slope in slopes.items():
        # A bias before a norm has a gradient of 0: what is left of it is about the others' size.
        # A norm behind a norm of few numbers divides by what is nearly 0: PyTorch errs there, too.
        error = (expected[name] - true[name]).abs().max().item()
        np.testing.assert_allclose(
            slope.numpy(),
            true[name].numpy(),
            rtol=1e-3,
            atol=2e-5 * largest + 8 * error,
            err_msg=f"{name} {kinds}",
        )
    for name, value in theirs.named_buffers():
        close(ours.state_dict()[name], value.numpy(), 1e-5, f"{name} {kinds}")

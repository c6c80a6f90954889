"""Put modules beside PyTorch's: the same weights and arrays, values and all gradients."""

from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np

from luminal_lab.nn.module import Module
from luminal_lab.passes.gradients import grad
from luminal_lab.session import Graph
from tests.tensor.against import draw


def value_of(call: Callable[..., Any], *arrays: np.ndarray) -> np.ndarray:
    """Return what a module, or a function of tensors, makes of arrays."""
    cx = Graph()
    result = call(*[cx.tensor(array.shape, array.dtype).set(array) for array in arrays]).retrieve()
    cx.execute()
    assert result.numpy().shape == result.shape
    return result.numpy()


def beside(
    torch: ModuleType,
    module: Module,
    witness: Any,
    *arrays: np.ndarray,
    ours: Callable[..., Any] | None = None,
    theirs: Callable[..., Any] | None = None,
    load: bool = True,
    tolerance: float = 2e-5,
) -> None:
    """Fail unless a module and PyTorch's make equal values, and equal gradients of everything.

    `ours` and `theirs` call them, where that is not just `module(*tensors)`.
    """
    if load:
        module.load_state_dict(witness.state_dict())
    given = [torch.tensor(array, requires_grad=array.dtype.kind == "f") for array in arrays]
    wanted = (theirs or witness)(*given)
    slope = draw(tuple(wanted.shape), seed=99, low=-1.0, high=1.0)
    (wanted * torch.tensor(slope)).sum().backward()

    cx = Graph()
    tensors = [cx.tensor(array.shape, array.dtype).set(array) for array in arrays]
    found = (ours or module)(*tensors).retrieve()
    inputs = {str(k): x for k, x in enumerate(tensors) if x.dtype.is_float}
    slopes = grad((found * slope).sum(), {**inputs, **module.parameters()})
    cx.retrieve(slopes)
    cx.execute()

    expected = {str(k): x.grad for k, x in enumerate(given) if x.requires_grad}
    expected |= {name: weight.grad for name, weight in witness.named_parameters()}
    assert slopes.keys() == expected.keys()
    close(found.numpy(), wanted.detach().numpy(), tolerance, "the value")
    for name, slope in slopes.items():
        close(slope.numpy(), expected[name].numpy(), tolerance, f"the gradient of {name}")


def close(found: np.ndarray, wanted: np.ndarray, tolerance: float, what: str) -> None:
    """Fail unless arrays are equal but for a share of the largest finite value."""
    size = max(float(np.abs(wanted[np.isfinite(wanted)]).max(initial=0)), 1e-3)
    np.testing.assert_allclose(
        found, wanted, rtol=0, atol=tolerance * size, err_msg=f"{what} differs"
    )

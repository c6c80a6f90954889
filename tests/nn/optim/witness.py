"""Train a small function by an optimiser of ours and by PyTorch's, and compare every step."""

from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np

from luminal_lab import nn
from luminal_lab.session import Graph
from luminal_lab.tensor.parameter import Parameter

SIZES = (5, 4), (4,), ()


def weights(dtype: str = "float32") -> dict[str, Parameter]:
    """Return parameters of several ranks."""
    rng = np.random.default_rng(0)
    return {
        f"w{k}": Parameter(shape, dtype, value=rng.normal(size=shape), name=f"w{k}")
        for k, shape in enumerate(SIZES)
    }


def bowl(w: Any, x: Any) -> Any:
    """Return a loss whose gradients have many sizes, tiny ones and large ones."""
    hidden = (x @ w["w0"] + w["w1"]).tanh()
    return (
        (hidden * hidden * w["w2"]).sum() + 30 * (w["w1"] ** 2).sum() + 1e-4 * (w["w0"] ** 4).sum()
    )


def compare(
    torch: ModuleType,
    ours: Callable[[], nn.Optimiser],
    theirs: Callable[[list[Any]], Any],
    *,
    schedule: Callable[[Any], Any] | None = None,
    steps: int = 40,
    rtol: float = 2e-5,
    dtype: str = "float32",
    **options: Any,
) -> None:
    """Fail unless all weights after each step are those of PyTorch, within rtol of the largest."""
    w = weights(dtype)
    x = np.random.default_rng(1).normal(size=(3, 5)).astype(dtype)
    cx = Graph()
    loss = bowl({name: cx.parameter(p) for name, p in w.items()}, cx.tensor((3, 5), dtype).set(x))
    ours().minimise(loss, w, **options)
    t = {name: torch.tensor(p.value.copy(), requires_grad=True) for name, p in w.items()}
    optimiser = theirs(list(t.values()))
    scheduler = schedule and schedule(optimiser)
    for step in range(steps):
        cx.execute()
        optimiser.zero_grad()
        bowl(t, torch.tensor(x)).backward()
        if "clip_value" in options:
            torch.nn.utils.clip_grad_value_(t.values(), options["clip_value"])
        if "clip_norm" in options:
            torch.nn.utils.clip_grad_norm_(t.values(), options["clip_norm"])
        optimiser.step()
        if scheduler is not None:
            scheduler.step()
        for name, p in w.items():
            wanted = t[name].detach().numpy()
            np.testing.assert_allclose(
                np.asarray(p.value, np.float64),
                wanted,
                rtol=rtol,
                atol=rtol,  # the weights begin at about 1
                err_msg=f"{name} after step {step + 1}",
            )

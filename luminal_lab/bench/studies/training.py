"""How long training takes in the interpreter: a step of an MLP beside PyTorch's, a GPT and a page.

    python -m luminal_lab.bench.studies.training

Every figure is measured in this one run, on two cores at most; without torch its lines are absent.
"""
# pyright: basic

import statistics
import time
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

import luminal_lab as ll
from luminal_lab import nn
from luminal_lab.nn import models, schedules
from luminal_lab.nn.module import kind_of

BATCH, STEPS = 64, 100
PAGE = Path(__file__).parents[1] / "README.md"
RNG = np.random.default_rng(0)
X = RNG.normal(size=(BATCH, 64)).astype(np.float32)
Y = RNG.integers(0, 10, BATCH)


def main() -> None:
    """Print one line for each figure."""
    for name, optimiser in (("SGD, momentum", nn.SGD(0.1, 0.9)), ("AdamW", nn.AdamW())):
        ours(name, optimiser)
    if find_spec("torch"):
        theirs()
    page()


def median_ms(call: Callable[[], object]) -> float:
    """Return the median milliseconds of many calls."""
    times: list[float] = []
    for _ in range(STEPS):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return statistics.median(times) * 1e3


def ours(name: str, optimiser: nn.Optimiser) -> None:
    cx = ll.Graph()
    x, y = cx.tensor((BATCH, 64), name="x"), cx.tensor((BATCH,), "int64", "y")
    loss = nn.cross_entropy(models.MLP(64, 128, 10).initialise(seed=0)(x), y).retrieve()
    forward = len(cx.ir)
    updates = optimiser.minimise(loss)
    of_step = sum(node.meta.scope.startswith(kind_of(optimiser)) for node in cx.ir)
    gradients = len(cx.ir) - forward - of_step

    def step() -> None:
        x.set(X)
        y.set(Y)
        cx.execute()

    def traced() -> float:
        x.set(X)
        y.set(Y)
        run = cx.execute(trace=True)
        assert run is not None
        return run.seconds * 1e3

    nodes = f"{forward} forward, {gradients} gradient, {of_step} for {len(updates)} weights"
    inside = statistics.median(traced() for _ in range(STEPS))
    report(
        f"MLP 64-128-10, batch {BATCH}, {name}: ms a step ({nodes})",
        f"{median_ms(step):.2f}, of which {inside:.2f} in NumPy",
    )


def theirs() -> None:
    torch: Any = import_module("torch")  # optional

    torch.set_num_threads(1)
    model = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 10))
    x, y = torch.tensor(X), torch.tensor(Y)
    for name, optimiser in (
        ("SGD, momentum", torch.optim.SGD(model.parameters(), 0.1, 0.9)),
        ("AdamW", torch.optim.AdamW(model.parameters())),
    ):

        def step(optimiser: Any = optimiser) -> None:
            optimiser.zero_grad()
            torch.nn.functional.cross_entropy(model(x), y).backward()
            optimiser.step()

        report(f"the same in torch, one thread, {name}: ms a step", f"{median_ms(step):.2f}")


def page(letters: int = 800, context: int = 32, batch: int = 8, steps: int = 350) -> None:
    """Let a small GPT learn the beginning of README.md by heart."""
    text = PAGE.read_text(encoding="utf-8")[:letters]
    known = sorted(set(text))
    codes = np.array([known.index(letter) for letter in text])
    model = models.GPT2(layers=1, heads=4, width=64, vocab=len(known), context=context)
    model.initialise(seed=0)
    cx = ll.Graph()
    tokens = cx.tensor((batch, context), "int64", "tokens")
    following = cx.tensor((batch, context), "int64", "following")
    loss = nn.cross_entropy(model(tokens), following, axis=-1).retrieve()
    rate = schedules.Warmup(20, schedules.Cosine(0.005, steps - 20, 0.0005))
    nn.AdamW(rate).minimise(loss, clip_norm=1.0)
    losses: list[float] = []
    start = time.perf_counter()
    for _ in range(steps):
        at = RNG.integers(0, len(codes) - context, batch)[:, None] + np.arange(context)
        tokens.set(codes[at])
        following.set(codes[at + 1])
        cx.execute()
        losses.append(float(loss.item()))
    report(
        f"GPT of 1 layer, width 64: {letters} letters, {steps} steps of {batch}x{context}: s",
        f"{time.perf_counter() - start:.1f}, {len(cx.ir)} nodes, loss {losses[0]:.2f} to "
        f"{statistics.mean(losses[-20:]):.2f}",
    )


def report(title: str, value: str) -> None:
    print(f"{title:<96} {value}", flush=True)


if __name__ == "__main__":
    main()

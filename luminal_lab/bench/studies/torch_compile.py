"""`torch.compile`: 20 models by PyTorch alone, by Inductor and by this library, in turns.

    python -m luminal_lab.bench.studies.torch_compile [--rounds 15] [--train] [NAME …]

One process, as many threads for each side as there are cores; each round times all sides, one
after the other and first another one each time. What disturbs a round disturbs all of its turns,
so ratios are the medians over rounds.
"""
# pyright: basic

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from importlib import import_module
from typing import Any

from luminal_lab.bench.rows import geometric_mean
from luminal_lab.bench.studies.torch_models import MODELS
from luminal_lab.errors import LabError
from luminal_lab.machines.here import usable_cores
from luminal_lab.machines.load import Load

TURN = 0.02
"""The seconds of a turn."""
SIDES = "eager", "inductor", "luminal_lab"


def main() -> None:
    """Print a line for each model, and the geometric means."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("names", nargs="*", help=f"models: {', '.join(MODELS)}")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--train", action="store_true", help="a forward and a backward pass")
    asked = parser.parse_args()
    if unknown := [name for name in asked.names if name not in MODELS]:
        parser.error(f"there is no model {unknown[0]!r}; there are {', '.join(MODELS)}")
    torch: Any = import_module("torch")
    torch.set_num_threads(usable_cores())
    print(f"{'model':<20}" + "".join(f"{side:>14}" for side in SIDES) + "   ours is faster than")
    print(f"{'':<20}" + f"{'ms':>14}" * 3 + "    eager  inductor  others' cores")
    ratios: dict[str, list[float]] = {side: [] for side in SIDES[:-1]}
    for name in asked.names or MODELS:
        torch.manual_seed(0)
        module, inputs = MODELS[name](torch)
        calls = sides(torch, module.train(asked.train), inputs, asked.train)
        with Load() as load:
            times = measured(calls, asked.rounds)
        report(name, times, load.others, ratios)
    for side, each in ratios.items():
        if (mean := geometric_mean(each)) is not None:
            print(f"geometric mean of {len(each)} ratios to {side}: {mean:.2f}")


def sides(torch: Any, module: Any, inputs: Any, train: bool) -> dict[str, Callable[[], Any]]:
    """Return the sides that can do the work, each compiled and warm."""
    calls: dict[str, Callable[[], Any]] = {}
    for side in SIDES:
        torch.compiler.reset()
        compiled = module if side == "eager" else torch.compile(module, backend=side)

        def call(compiled: Any = compiled) -> Any:
            if not train:
                with torch.no_grad():
                    return compiled(*inputs)
            module.zero_grad()
            out = compiled(*inputs)
            out.square().mean().backward()
            return out

        try:
            calls_out = call()
            call()
        except (LabError, torch._dynamo.exc.TorchDynamoException) as error:
            print(f"{side}: {str(error).splitlines()[0]}", file=sys.stderr)
            continue
        if calls:
            wanted = calls["eager"]()
            torch.testing.assert_close(calls_out, wanted, rtol=1e-3, atol=1e-3)
        calls[side] = call
    return calls


def measured(calls: dict[str, Callable[[], Any]], rounds: int) -> dict[str, list[float]]:
    """Return the milliseconds of a call, by side and round."""
    times: dict[str, list[float]] = {side: [] for side in calls}
    names = [*calls]
    for k in range(rounds):
        for side in names[k % len(names) :] + names[: k % len(names)]:
            call, count, start = calls[side], 0, time.perf_counter()
            while count == 0 or time.perf_counter() - start < TURN:
                call()
                count += 1
            times[side].append((time.perf_counter() - start) / count * 1e3)
    return times


def report(
    name: str,
    times: dict[str, list[float]],
    others: float | None,
    ratios: dict[str, list[float]],
) -> None:
    """Print a line, and add its ratios."""
    ours = times.get(SIDES[-1])
    cells: list[str] = []
    for side in SIDES[:-1]:
        cell = "-"
        if ours is not None and side in times:
            each = [theirs / own for theirs, own in zip(times[side], ours, strict=True)]
            ratios[side].append(statistics.median(each))
            cell = f"{ratios[side][-1]:.2f}"
        cells.append(f"{cell:>9}")
    medians = [f"{statistics.median(times[s]):.3f}" if s in times else "-" for s in SIDES]
    load = "unknown" if others is None else f"{others:.1f}"
    print(f"{name:<20}" + "".join(f"{m:>14}" for m in medians) + "".join(cells) + f"{load:>12}")


if __name__ == "__main__":
    main()

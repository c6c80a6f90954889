"""A product by several checkouts and schedules, in turns: each side is a process of its own.

Times are those of the kernels alone, by the clock that their C reads.
"""
# pyright: basic

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median
from typing import Any

from luminal_lab.bench.measure import scratch
from luminal_lab.bench.paired import check_out, commit_of, package_root
from luminal_lab.bench.surroundings import own_home, surroundings
from luminal_lab.errors import DeviceError
from luminal_lab.machines.here import usable_cores

SIDE = """
import json, os, sys, warnings
os.environ.update({variables!r})
sys.path.insert(0, {package!r})
warnings.simplefilter("ignore")
answers = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)
import numpy as np
import luminal_lab as ll
for line in sys.stdin:
    asked = json.loads(line)
    if "shape" in asked:
        n, k, m = asked["shape"]
        draw = np.random.default_rng(0)
        a, b = (draw.standard_normal(shape, dtype="float32") for shape in ((n, k), (k, m)))
        cx = ll.Graph("product")
        c = (cx.tensor((n, k), name="a").set(a) @ cx.tensor((k, m), name="b").set(b)).retrieve()
        cx.compile(ll.GenericCompiler(), ll.CPUCompiler(schedules=asked["schedules"]))
        cx.execute()
        away = np.abs(c.numpy() - a.astype("float64") @ b.astype("float64")).max()
        answer = float(away / k ** 0.5)
    else:
        rows = [row.samples for row in cx.time(rounds=asked["rounds"], warm_up=1)]
        answer = [sum(samples) for samples in zip(*rows)]
    print(json.dumps(answer), file=answers, flush=True)
"""
"""What a side's process runs, with whichever package it has; both have these calls."""
WRONG = 1e-4
"""How far off a value may be, times the root of how many products it sums."""
TURN, MOST, ROUNDS = 0.02, 50, 40
"""The seconds of a turn, the runs in it at most, and the turns of each side."""


class CheckoutSide:
    """A process that computes products with one package."""

    def __init__(self, name: str, package: Path, folder: Path) -> None:
        self.name = name
        variables = own_home(surroundings(usable_cores(), folder), folder / f"home-{name}")
        code = SIDE.format(variables=variables, package=str(package))
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-c", code],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def _ask(self, **asked: Any) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(f"{json.dumps(asked)}\n")
            self._process.stdin.flush()
            return json.loads(self._process.stdout.readline())
        except (OSError, ValueError) as error:
            raise DeviceError(f"study: the side {self.name!r} has ended") from error

    def prepare(self, shape: tuple[int, int, int], schedule: str | None = None) -> None:
        """Compile a product, with its default schedule or another, and check its result."""
        away = self._ask(shape=shape, schedules=None if schedule is None else {"matmul": schedule})
        if not away < WRONG:
            raise DeviceError(f"study: the side {self.name!r} computes {shape} wrong, by {away:g}")
        self._rounds = min(MOST, max(1, int(TURN / max(1e-7, self.turn(3)))))

    def turn(self, rounds: int | None = None) -> float:
        """Return the least seconds of a turn."""
        return min(self._ask(rounds=rounds or self._rounds))

    def end(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.communicate()


@contextmanager
def sides(old: str, *others: str) -> Iterator[dict[str, CheckoutSide]]:
    """Yield a side of an old commit, "old", and some of this checkout, by name."""
    with scratch() as folder, ExitStack() as ends:
        check_out(commit_of(old), folder / "checkout")
        packages = {"old": folder / "checkout", **dict.fromkeys(others, package_root())}
        known: dict[str, CheckoutSide] = {}
        for name, package in packages.items():
            known[name] = CheckoutSide(name, package, folder)
            ends.callback(known[name].end)
        yield known


def turns(known: Mapping[str, CheckoutSide]) -> dict[str, list[float]]:
    """Return the seconds of each side in each round; the order changes from round to round."""
    times: dict[str, list[float]] = {name: [] for name in known}
    names = [*known]
    for number in range(ROUNDS):
        first = number % len(names)
        for name in names[first:] + names[:first]:
            times[name].append(known[name].turn())
    return times


def gain(times: Mapping[str, list[float]], name: str) -> tuple[float, float]:
    """Return how many times as fast as the old side another is: by minima, by medians of pairs."""
    pairs = zip(times["old"], times[name], strict=True)
    return min(times["old"]) / min(times[name]), median(a / b for a, b in pairs)

"""What a search finds on this machine: shares of the default's time, and candidates per minute.

    python -m luminal_lab.bench.studies.search [loops] [regions] [gpt2] [warm] [--seconds 30]
        [--old COMMIT]

`loops` are products of twelve shapes, searched from three plain loops; with `--old` the default of
an old commit, today's and the best found are timed in turns, each in a process of its own.
`regions` are attentions, in all their forms; `gpt2` is a model of 12 layers, run before and after
in turns; `warm` is the cost of compiling with what was found before, in turns with compiling
without a search, each in a process of its own. Nothing is taken from earlier searches. The load of
the machine is printed above the tables: times under load mean little.
"""
# pyright: basic

import argparse
import os
import subprocess
import sys
from contextlib import nullcontext
from math import exp, log
from statistics import median
from tempfile import TemporaryDirectory
from time import monotonic, perf_counter

import numpy as np

import luminal_lab as ll
from luminal_lab.bench.studies.defaults import definition_of
from luminal_lab.bench.studies.sides import gain, sides, turns
from luminal_lab.nn.models import GPT2
from luminal_lab.search.assembled import apart
from luminal_lab.search.candidates import seconds_text
from luminal_lab.search.graph import search_program
from luminal_lab.search.loops import search_kernel

SHAPES = (
    *((100, 100, 100), (256, 256, 256), (512, 512, 512), (1024, 1024, 1024)),
    *((17, 1000, 999), (4096, 64, 64), (64, 2048, 512), (1, 4096, 11008)),
    *((8, 4096, 4096), (128, 768, 3072), (3, 50, 70000), (333, 777, 55)),
)
"""Rows, sum and columns of products."""
ATTENTIONS = {
    "4 × 512 × 64": ((4, 512, 64), "dense"),
    "2 × 2048 × 64, causal": ((2, 2048, 64), "causal"),
    "1 × 4096 × 64, window of 256": ((1, 4096, 64), "window"),
    "1 × 4096 × 64": ((1, 4096, 64), "dense"),
}
WINDOW = 256
TURNS = 40
PROCESSES = 9
TRIES = 6
"""How often a graph is searched until all of it is found."""


def loops(seconds: float, old: str | None) -> None:
    """Search for the schedules of products."""
    with sides(old, "default", "best") if old else nullcontext({}) as known:
        title = "  of old: default, best (by minima, by pairs)" if old else ""
        print(
            f"\n{'rows × sum × columns':24} {'default':>9} {'GFLOP/s':>8} {'ratio':>6} "
            f"{'a minute':>9}{title}"
        )
        gains: dict[str, list[float]] = {}
        for n, k, m in SHAPES:
            begin = monotonic()
            search = search_kernel(definition_of("products", (n, k, m)), budget=seconds)
            rate = 60 * (len(search.candidates) - 1) / (monotonic() - begin)
            default, ratio = search.default.seconds, search.best.ratio or 1.0
            if default is None:
                print(f"{f'{n} × {k} × {m}':24} {search.ended}", flush=True)
                continue
            gains.setdefault("best over today's default", []).append(1 / ratio)
            speed = 2e-9 * n * k * m / (default * ratio)
            shown = (
                f"{f'{n} × {k} × {m}':24} {seconds_text(default):>9} {speed:8.0f} "
                f"{ratio:6.3f} {rate:9.0f}"
            )
            if known:
                for name, side in known.items():
                    side.prepare((n, k, m), search.best.text if name == "best" else None)
                times = turns(known)
                for name in ("default", "best"):
                    by_minima, by_pairs = gain(times, name)
                    gains.setdefault(f"{name} over old, by minima", []).append(by_minima)
                    gains.setdefault(f"{name} over old, by pairs", []).append(by_pairs)
                    shown += f"  {by_minima:.3f} {by_pairs:.3f}"
            print(shown, flush=True)
    for name, some in gains.items():
        mean = exp(sum(map(log, some)) / len(some))
        print(f"{name}: geometric mean {mean:.3f}, least {min(some):.3f}, most {max(some):.3f}")


def attention(shape: tuple[int, ...], kind: str) -> ll.Graph:
    """Return an attention written in ops of tensors."""
    cx = ll.Graph("attention")
    q, k, v = (cx.tensor(shape, name=name) for name in "qkv")
    scores = (q @ k.transpose(-1, -2)) * shape[-1] ** -0.5
    if kind != "dense":
        row, column = cx.arange(shape[1]).reshape(-1, 1), cx.arange(shape[1]).reshape(1, -1)
        is_later = row < column
        if kind == "window":
            is_later = is_later | (column + (WINDOW - 1) < row)
        scores = scores.masked_fill(is_later, float("-inf"))
    (scores.softmax(-1) @ v).retrieve()
    return cx


def regions(seconds: float, old: str | None) -> None:
    """Search for the forms and schedules of attentions."""
    print(
        f"\n{'attention':30} {'default':>9} {'unfused':>9} {'best':>9} {'a minute':>9}  best form"
    )
    for title, (shape, kind) in ATTENTIONS.items():
        cx, device = attention(shape, kind), ll.CPUCompiler()
        ir = ll.compile_ir(cx.ir, ll.GenericCompiler(), apart(device)).ir
        begin = monotonic()
        search = search_program(ir, device, budget=seconds)
        rate = 60 * len(search.candidates) / (monotonic() - begin)
        (region,) = search.kernels.values()
        times = (region.default, region.unfused, region.best)
        shown = " ".join(f"{seconds_text(c.seconds or 0.0):>9}" for c in times)
        print(f"{title:30} {shown} {rate:9.0f}  {region.best.form.name}")
        for form in region.forms:
            own = [c.ratio for c in region.candidates if c.form is form and c.ratio]
            print(f"{'':8} {form.name:40} {min(own, default=float('nan')):6.3f} of {len(own)}")


def gpt2(seconds: float, old: str | None) -> None:
    """Search for a model's regions, and run it before and after in turns."""
    tokens = np.arange(64).reshape(1, 64)
    sessions = []
    for is_searched in (False, True):
        cx = ll.Graph("gpt2")
        given = cx.tensor((1, 64), "int64", name="tokens").set(tokens)
        GPT2(layers=12).initialise(0)(given).retrieve()
        device = ll.CPUCompiler()
        if is_searched:
            begin = monotonic()
            ir = ll.compile_ir(cx.ir, ll.GenericCompiler(), apart(device)).ir
            search = search_program(ir, device, budget=seconds)
            print(f"\ngpt2: searched for {monotonic() - begin:.0f} s")
            print(search)
            device = search.best
        cx.compile(ll.GenericCompiler(), device)
        cx.execute()
        sessions.append((cx, given))
    ratios, times = [], ([], [])
    for _ in range(TURNS):
        for own, (cx, given) in zip(times, sessions, strict=True):
            given.set(tokens)  # otherwise nothing would be computed again
            begin = perf_counter()
            cx.execute()
            own.append(perf_counter() - begin)
        ratios.append(times[0][-1] / times[1][-1])
    before, after = (64 / min(own) for own in times)
    print(
        f"tokens a second: {before:.0f} before, {after:.0f} after; {median(ratios):.3f} × in turns"
    )


def model(title: str) -> ll.Graph:
    """Return a graph to compile."""
    if title == "gpt2":
        cx = ll.Graph(title)
        given = cx.tensor((1, 64), "int64", name="tokens")
        GPT2(layers=4).initialise(0)(given).retrieve()
        return cx
    if title == "attention":
        return attention((8, 256, 64), "dense")
    cx = ll.Graph(title)
    (cx.tensor((256, 256), name="a") @ cx.tensor((256, 256), name="b")).retrieve()
    return cx


def compiled(title: str, budget: float) -> None:
    """Print how long compiling takes; with a budget, it includes a search."""
    device = ll.Search(ll.CPUCompiler(), budget=budget) if budget else ll.CPUCompiler()
    first = ll.Graph("first")  # this loads all modules
    (first.tensor((9, 7), name="a") @ first.tensor((7, 5), name="b")).softmax(-1).retrieve()
    first.compile(ll.GenericCompiler(), ll.Search(ll.CPUCompiler(), budget=1) if budget else device)
    cx = model(title)
    begin = perf_counter()
    cx.compile(ll.GenericCompiler(), device)
    print(perf_counter() - begin)


def warm(seconds: float, old: str | None) -> None:
    """Compile with what a search has found before, and without a search."""
    print(f"\n{'graph':12} {'without':>9} {'with':>9} {'ratio':>6}  by minima, by pairs")
    with TemporaryDirectory() as home:

        def timed(title: str, budget: float) -> float:
            known = {"XDG_CACHE_HOME": home, "HOME": home}
            code = (
                f"import os; os.environ.update({known}); "
                f"from {__spec__.name} import compiled; compiled({title!r}, {budget})"
            )
            command = (sys.executable, "-c", code)
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            return float(done.stdout)

        for title in ("matmul", "attention", "gpt2"):
            for _ in range(TRIES):  # an unfinished search is not kept
                if timed(title, 4 * seconds) < seconds:
                    break
            pairs = [(timed(title, 0), timed(title, seconds)) for _ in range(PROCESSES + 1)][1:]
            without, best = (min(times) for times in zip(*pairs, strict=True))
            ratios = median(b / a for a, b in pairs)
            shown = f"{seconds_text(without):>9} {seconds_text(best):>9} {best / without:6.3f}"
            print(f"{title:12} {shown}  {ratios:.3f}", flush=True)


STUDIES = {"loops": loops, "regions": regions, "gpt2": gpt2, "warm": warm}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("studies", nargs="*", choices=[[], *STUDIES], default=[])
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--old")
    asked = parser.parse_args()
    print(f"load {os.getloadavg()[0]:.1f}, {asked.seconds:g} s each")
    for name in asked.studies or STUDIES:
        STUDIES[name](asked.seconds, asked.old)


if __name__ == "__main__":
    main()

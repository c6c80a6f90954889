"""Kernels that are wrong on purpose, in a search that measures: none wins, and none stops it.

    python -m luminal_lab.bench.studies.faults [--candidates 136]

All candidates of each batch but the last two begin with code that makes them faster and wrong; in
the second batch four hang, crash, write elsewhere or do not compile. The script prints how many
were planted, what became of them, how long each batch took, and whether one was chosen.
"""
# pyright: basic

import argparse
import json
import os
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from time import monotonic

import luminal_lab as ll
from luminal_lab.kernels.definition.definition import Definition
from luminal_lab.kernels.kernel import Kernel
from luminal_lab.plain import plain, read
from luminal_lab.reading import read_json
from luminal_lab.search.loops import search_kernel
from luminal_lab.search.worker import Job, Make, answered, scheduled

ROWS, SUM, COLUMNS = 48, 40, 64
SHAPES = f"(a: f32[{ROWS}, {SUM}], b: f32[{SUM}, {COLUMNS}]) -> (c: f32[{ROWS}, {COLUMNS}])"
PRODUCT = f"""kernel product{SHAPES}
  c[i < {ROWS}, j < {COLUMNS}] = sum k < {SUM}: a[i, k] * b[k, j]"""
COUNT = ROWS * COLUMNS
C, A = "((float *)lab_buffers[LAST])", "((const float *)lab_buffers[0])"
EACH = f"for (int n = 0; n < {COUNT}; n++)"
WRONG = (
    *("return;", f"{C}[0] = 0; return;", "static int calls; if (calls++) return;"),
    f"{EACH} {C}[n] = 0; return;",
    f"{EACH} {C}[n] = {A}[n % {ROWS * SUM}]; return;",
    f"{EACH} {C}[n] = -{C}[n]; return;",
    f"{EACH} {C}[n] = 1e-3f; return;",
    f"{EACH} {C}[n] = 1.0f / 0.0f; return;",
    f"{EACH} {C}[n] = {A}[n % {SUM}] * {A}[n % {ROWS}]; return;",
    *(f"if ({C}[{at}] != 0) return;" for at in (0, COUNT // 2, COUNT - 1)),
    f"if ({C}[0] == {C}[0]) return;",
    f"memset({C}, 0, {COUNT // 2} * sizeof(float)); return;",
)
"""Ways to be fast by leaving out part of a product."""
BROKEN = (
    "for (volatile int x = 1; x;) {}",
    "*(volatile int *)0 = 1;",
    f"{C}[{COUNT}] = 7;",
    "no C;",
)
"""A kernel that hangs, one that crashes, one that writes beyond its array, one that is not C."""
NUMBER = re.compile(r"-?[0-9]+([.,][0-9]+)*")


def planted(faults: Mapping[int, str]) -> Make:
    """Return a maker of kernels, some of which begin with other code, by their numbers."""

    def make(definition: Definition, name: str, schedule: str) -> Kernel:
        kernel = scheduled(definition, name, schedule)
        number = re.search("[0-9]+", name)
        fault = faults.get(int(number[0])) if number else None
        if fault is None:
            return kernel
        head, _, rest = kernel.source.partition("{\n")
        last = str(2 + len(kernel.locals))  # after its inputs and its own arrays
        return replace(kernel, source=f"{head}{{\n{fault.replace('LAST', last)}\n{rest}")

    return make


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--candidates", type=int, default=136)
    count = parser.parse_args().candidates
    wrong: dict[str, str] = {}
    seconds: list[float] = []

    def worker(text: str) -> str:
        job = read(Job, read_json(text, exact=True))
        faults = BROKEN if len(seconds) == 1 else WRONG
        known = {} if job.is_last else dict(enumerate(faults[: len(job.schedules) - 2], 1))
        wrong.update((job.schedules[number - 1], fault) for number, fault in known.items())
        begin = monotonic()
        answer = json.dumps(plain(answered(job, planted(known))))
        seconds.append(monotonic() - begin)
        return answer

    print(f"load {os.getloadavg()[0]:.1f}")
    search = search_kernel(PRODUCT, worker=worker, budget=ll.Budget(candidates=count))
    faulty = [candidate for candidate in search.candidates if candidate.text in wrong]
    states = Counter(candidate.state for candidate in faulty)
    print(f"{len(faulty)} planted: {', '.join(f'{n} {state}' for state, n in states.items())}")
    for why, times in Counter(
        re.sub(r"-?[0-9]+(\.[0-9]+)?", "#", candidate.why) for candidate in faulty
    ).most_common():
        print(f"  {times:4} {why[:90]}")
    for candidate in faulty:
        if candidate.error is None:
            print(f"  {candidate.told}, which begins with {wrong[candidate.text]}")
    print(f"batches took {', '.join(f'{each:.1f}' for each in seconds)} s")
    print(f"chosen: {search.best.told}; {int(search.best.text in wrong)} of those that are wrong")


if __name__ == "__main__":
    main()

"""The fuzzer: draws programs until its time is over, and writes what it finds, minimised.

    python -m tests.fuzz --minutes 60 --seed 7 --jobs 2 --checks cpu,torch

With `--programs` each process stops after so many, and a seed then always draws the same ones.

Each process draws programs of its own; one that dies or hangs costs nobody the others, and is a
finding as well. What is found goes into a folder as text that `tests/fuzz/test_fuzz.py` runs once
it lies in `tests/fuzz/corpus/`.
"""

from __future__ import annotations

import argparse
import math
import multiprocessing
import os
import sys
import textwrap
import time
from multiprocessing.connection import wait
from pathlib import Path
from random import SystemRandom

from tests.fuzz.checks import CHECKS, told
from tests.fuzz.drawing import drawn
from tests.fuzz.working import work

PATIENCE = 90.0
"""The seconds that one program may take by one check."""


SHOWN = 300
"""The characters of a line that are printed; the file has it whole."""


class Worker:
    """A process that fuzzes, and what it was at when it was last heard of."""

    def __init__(self, seed: str, until: float, most: float, checks: list[str]) -> None:
        context = multiprocessing.get_context("spawn")
        self.seed, self.until, self.most, self.checks = seed, until, most, checks
        self.pipe, theirs = context.Pipe(duplex=False)
        self.process = context.Process(
            target=work, args=(seed, until, most, checks, theirs), daemon=True
        )
        self.process.start()
        theirs.close()
        self.at = ("", "beginning")
        self.since = time.monotonic()
        self.count = 0

    def next(self, mark: str) -> Worker:
        """Return a process for what this one had yet to do when it died."""
        return Worker(self.seed + mark, self.until, self.most - self.count, self.checks)

    @property
    def is_stuck(self) -> bool:
        """Whether it has been at one thing for too long."""
        minimises = self.at[1].endswith("minimising")
        return time.monotonic() - self.since > PATIENCE * (5 if minimises else 1)


def main() -> int:
    """Fuzz; the exit status says whether something was found."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz")
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--programs", type=int, default=math.inf, help="of each process, at most")
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--checks", default=",".join(CHECKS))
    parser.add_argument("--out", type=Path, default=Path("build/fuzz"))
    given = parser.parse_args()
    seed = SystemRandom().randrange(1_000_000) if given.seed is None else given.seed
    checks = [name for name in given.checks.split(",") if name]
    unknown = [name for name in checks if name not in CHECKS]
    if unknown:
        parser.error(f"no check {unknown[0]!r}; there are {', '.join(CHECKS)}")
    os.environ["OMP_NUM_THREADS"] = "1"  # PyTorch's, in each of our processes
    print(f"fuzz: {given.minutes:g} minutes, --seed {seed}, {', '.join(checks)}", flush=True)
    until = time.monotonic() + 60 * given.minutes
    workers = [
        Worker(f"{seed}.{number}", until, given.programs, checks) for number in range(given.jobs)
    ]
    programs, found, restarts = 0, 0, 0
    while workers:
        for pipe in wait([one.pipe for one in workers], timeout=1.0):
            worker = next(one for one in workers if one.pipe is pipe)
            try:
                said = worker.pipe.recv()
            except EOFError:
                worker.process.join()
                workers.remove(worker)
                if worker.process.exitcode:
                    report(
                        given.out, *worker.at, f"the process died: {worker.process.exitcode}", ""
                    )
                    found += 1
                    restarts += 1
                    workers.append(worker.next(f"r{restarts}"))
                continue
            if said[0] == "begins":
                worker.at, worker.since = (said[1], said[2]), time.monotonic()
                worker.count += said[2] == "drawing"
                programs += said[2] == "drawing"
            elif said[0] == "found":
                found += 1
                report(given.out, *said[1:])
        for worker in [one for one in workers if one.is_stuck]:
            worker.process.kill()
            worker.process.join()
            workers.remove(worker)
            found += 1
            report(given.out, *worker.at, f"nothing for {PATIENCE:g} s", "")
            restarts += 1
            workers.append(worker.next(f"r{restarts}"))
    print(f"fuzz: {programs:,} programs, {found} findings", flush=True)
    return int(found > 0)


def report(folder: Path, key: str, check: str, wrong: str, text: str) -> None:
    """Print a finding, and write it as a program that tests can run."""
    text = text or _drawn_again(key)
    shown = "\n".join(textwrap.shorten(line, SHOWN, placeholder=" …") for line in text.splitlines())
    print(f"\nfound by {check}, seed {key!r}: {wrong}\n{shown}", flush=True)
    folder.mkdir(parents=True, exist_ok=True)
    name = f"{check.split(',', maxsplit=1)[0]}-{key.replace(' ', '-')}.txt"
    (folder / name).write_text(f"# {check}: {wrong}\n{text}", encoding="utf-8")


def _drawn_again(key: str) -> str:
    try:
        return str(drawn(key))
    except Exception as error:
        return f"# it cannot be drawn: {told(error)}\n"


if __name__ == "__main__":
    sys.exit(main())

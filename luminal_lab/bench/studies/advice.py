"""What `cx.advise()` promises, and what it comes to: planted models, and the same mended by hand.

    python -m luminal_lab.bench.studies.advice [NAME …]

The promise is that of the finding; what is obtained is the planted model beside the mended one, in
turns. A promise is kept if it lies within a factor of 1.5 of that.
"""

from __future__ import annotations

import linecache
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import luminal_lab as ll
from luminal_lab.advice.finding import Finding
from luminal_lab.advice.trial import Running
from luminal_lab.session import Graph
from luminal_lab.timing.subject import subject_of
from luminal_lab.timing.turns import Turns, in_turns

FACTOR = 1.5
"""How far a promise may be off."""
FILE = "planted.py"


def _as_a_users() -> Mapping[str, Any]:
    """Return the planted models, run as a file of a user's: lines of this package are none."""
    text = Path(__file__).with_name(FILE).read_text("utf-8")
    linecache.cache[FILE] = len(text), None, text.splitlines(keepends=True), FILE
    names: dict[str, Any] = {"__name__": __name__}
    exec(compile(text, FILE, "exec"), names)  # it is ours
    return names["PLANTED"]


PLANTED = _as_a_users()
"""The planted models, by name."""


def planted(
    write: Callable[[Graph, int], Any],
    n: int,
    specialise: Mapping[str, int] | None = None,
    threads: int | None = None,
) -> Graph:
    """Return a model as a session, compiled for the CPU."""
    cx = ll.Graph("planted")
    write(cx, n).retrieve()
    cx.compile(ll.GenericCompiler(), ll.CPUCompiler(threads=threads), specialise=specialise)
    return cx


def obtained(one: Any, n: int) -> Turns:
    """Return the planted model beside the mended one."""
    slow, mended = planted(one.slow, n), planted(one.mended, n, one.specialise)
    return in_turns(_run_of(slow), _run_of(mended))


def _run_of(cx: Graph) -> Callable[[], object]:
    """Return what runs a session's compile anew each time."""
    environment = subject_of(cx).environment
    assert environment is not None
    functions = {"tanh": np.tanh}
    return Running(cx.compilation, environment._replace(functions=functions)).run


def found(one: Any, n: int) -> Finding | None:
    """Return what is said of a planted model, if it is found."""
    advice = planted(one.slow, n).advise()
    return next((finding for finding in advice if finding.kind == one.kind), None)


def main(names: Sequence[str]) -> None:
    """Print promised and obtained ratios."""
    print(f"{'planted':<10} {'promised':>9} {'obtained':>9} {'ratio':>6}  95% within")
    kept = many = 0
    for name in names or PLANTED:
        one = PLANTED[name]
        finding, turns = found(one, 1024), obtained(one, 1024)
        many += 1
        if finding is None:
            print(f"{name:<10} {'not found':>9} {turns.ratio:>9.2f}")
            continue
        off = finding.gain.ratio / turns.ratio
        kept += 1 / FACTOR <= off <= FACTOR
        within = "" if turns.bounds is None else "{:.2f} to {:.2f}".format(*turns.bounds)
        load = f"  load {turns.busy:.1f}" if turns.busy is not None else ""
        print(
            f"{name:<10} {finding.gain.ratio:>9.2f} {turns.ratio:>9.2f} {off:>6.2f}  {within}{load}"
        )
    print(f"{kept} of {many} within a factor of {FACTOR}")


if __name__ == "__main__":
    main(sys.argv[1:])

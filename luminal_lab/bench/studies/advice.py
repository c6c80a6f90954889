"""What `cx.advise()` promises, and what is obtained: planted models beside the same ones mended.

    python -m luminal_lab.bench.studies.advice [NAME …]

The promise is that of the finding; what is obtained is the planted model beside the mended one, in
turns. A promise is kept if it is right within a factor of 1.5.
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
"""How far off a promise may be."""
FILE = "planted.py"


def _as_a_users() -> Mapping[str, Any]:
    """Return the planted models, run as a user's file: lines of this package count as nobody's."""
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


def obtained(model: Any, n: int) -> Turns:
    """Return the planted model beside the mended one."""
    slow, mended = planted(model.slow, n), planted(model.mended, n, model.specialise)
    return in_turns(_run_of(slow), _run_of(mended))


def _run_of(cx: Graph) -> Callable[[], object]:
    """Return a function that runs a session's compile anew each time."""
    environment = subject_of(cx).environment
    assert environment is not None
    functions = {"tanh": np.tanh}
    return Running(cx.compilation, environment._replace(functions=functions)).run


def found(model: Any, n: int) -> Finding | None:
    """Return the finding about a planted model, if there is one."""
    advice = planted(model.slow, n).advise()
    return next((finding for finding in advice if finding.kind == model.kind), None)


def main(names: Sequence[str]) -> None:
    """Print promised and obtained ratios."""
    print(f"{'planted':<10} {'promised':>9} {'obtained':>9} {'ratio':>6}  95% within")
    kept = many = 0
    for name in names or PLANTED:
        model = PLANTED[name]
        finding, turns = found(model, 1024), obtained(model, 1024)
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

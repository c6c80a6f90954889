"""Damaged texts of every kind: each is read, or refused with the error of its reader."""

import json
import random
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import luminal_lab as ll
from luminal_lab.bench.rows import Report
from luminal_lab.core.dims import parse_dim
from luminal_lab.core.parse import parse
from luminal_lab.course import notebooks
from luminal_lab.course.kept import ProgressFile
from luminal_lab.errors import (
    UNSEEN,
    ArgumentError,
    LabError,
    ParseError,
    RecordingError,
)
from luminal_lab.kernels.definition.text import parse_definition
from luminal_lab.kernels.nest.lowering import lower
from luminal_lab.kernels.nest.text import parse_nest
from luminal_lab.kernels.steps.schedule import parse_schedule
from luminal_lab.machines.rates import PeakRates
from luminal_lab.passes.generic import GenericCompiler
from luminal_lab.passes.pipeline import parse_pipeline
from luminal_lab.timing.recording import RecordedKernel, RecordedProgram, Recording
from luminal_lab.timing.timings import Limit, Timing, Timings
from luminal_lab.viz import overlays
from tests.damage import bytes_damaged, parts_damaged, places, words_damaged
from tests.io.test_damaged import in_time
from tests.needs import missing

HERE = Path(__file__).parent
GRAPHS = [path.read_text("utf-8") for path in sorted((HERE / "core" / "text").glob("*.ir"))]
DEFINITION = """
kernel softmax[n: 1..64 by 2](x: f32[n, 64], k: i64[n]) -> (y: f32[n, 64])
  s[i < n] = max j < 64: x[i, j] * 1.5
  t[i < n, j < 64] = let d = x[i, j] - s[i]; exp2(d * 1.442695) + [j < 8: d]
  u[i < n, j < 64] = x[at k[i], j] + random{3, 1}[i*64 + j]
  y[i < n, j < 64] = t[i, j] * recip(sum k_2 < 64: t[i, k_2]) + u[i, j]
"""
STEPS = """split i by 6
parallel i.block
reorder j, i.block
pack a before i over i.own, k as b
fetch a in i ahead 2 of j"""
PIPELINE = (
    "(simplify{limit = 10}, cse){rounds = 3}, inline{only = [a, b]}, "
    "cuda{arch = sm_90, tf32 = true}"
)
DIMS = [
    "(n + 1)//2*3 + m%4",
    "min(n, 2*m + 1, 7) - max(m, 3)",
    "n < 3 and not m < n or 2 <= n",
    "a.b*4 - 2",
]
RATES = PeakRates.stated("a laptop", gflops=100, gbytes=20)
TIMES = Timings(
    "main",
    (
        Timing(
            "a",
            "launch",
            "k",
            "%y",
            ("cell 1, line 2",),
            (0.1, 0.2),
            3,
            4,
            5,
            limit=Limit(0.1, "FMA"),
        ),
    ),
    rates=RATES,
)
KERNELS = Recording(
    "a card", "driver 5", "2026-01-02T03:04", "cuda", "1",
    (RecordedKernel("k", "0123", "split i by 6", {"n": 4}, (0.1, 0.2)),),
    (RecordedProgram("p", (0, 0), (0.3,), "values agree"),),
    {"arch": "sm_90"}, rates=RATES,
)  # fmt: skip
REPORT = Report("1", "2026", 2, False, RATES)
NOTEBOOK = {
    "cells": [
        {
            "cell_type": "code",
            "source": ["hint('01.1')\n", "x = 1"],
            "metadata": {"nbgrader": {"grade_id": "ex-01-1"}},
        },
        {"cell_type": "markdown", "source": "text", "metadata": {}},
    ],
    "nbformat": 4,
}
OVERLAY = {"main": {"results": {"%y": {"value": 0.5}, "%x": {"value": 3}}}}
KEPT = {
    "format": 1,
    "exercises": {"01.1": {"right": True, "tries": 2, "hints": 0, "looked": False}},
}


class Kind(NamedTuple):
    """A kind of text: right ones, what reads and looks at one, what it raises."""

    texts: list[str]
    read: Callable[[str, Path], object]
    errors: tuple[type[LabError], ...]


def graph(text: str) -> None:
    ir = parse(text)
    again = parse(str(ir))
    assert again == ir
    assert not UNSEEN.search(str(ir).replace("\n", ""))
    ll.verify(ir)


def dim(text: str) -> None:
    found = parse_dim(text, {}, declare=True)
    assert str(parse_dim(str(found), {}, declare=True)) == str(found)


def definition(text: str) -> None:
    found = parse_definition(text)
    assert parse_definition(str(found)) == found
    str(lower(found))


def times(text: str) -> None:
    found = Timings.from_json(text)
    str(found)
    repr(found)
    if not missing("pandas"):
        found.to_pandas()


def rates(text: str) -> None:
    found = PeakRates.from_json(text)
    str(found)
    found.limit(flops=100, read=100, written=3)


def report(text: str) -> None:
    for one in (found := Report.from_json(text)).rows:
        str(one.spread)
    found.to_json()


def recorded(text: str) -> None:
    found = Recording.from_json(text)
    str(found)
    repr(found)
    found.to_json()


def of_file(read: Callable[[Path], object]) -> Callable[[str, Path], object]:
    def call(text: str, folder: Path) -> object:
        path = folder / "progress.json"
        path.write_bytes(text.encode("utf-8", "surrogatepass"))
        return read(path)

    return call


def of_text(read: Callable[[str], object]) -> Callable[[str, Path], object]:
    return lambda text, _: read(text)


KINDS = {
    "graph": Kind(GRAPHS, of_text(graph), (ParseError,)),
    "dim": Kind(DIMS, of_text(dim), (ParseError, ll.ShapeError)),
    "definition": Kind(
        [DEFINITION], of_text(definition), (ParseError, ll.ScheduleError, ll.ShapeError)
    ),
    "nest": Kind(
        [str(lower(parse_definition(DEFINITION)))],
        of_text(lambda t: str(parse_nest(t))),
        (ParseError,),
    ),
    "schedule": Kind([STEPS], of_text(lambda t: str(parse_schedule(t))), (ParseError,)),
    "pipeline": Kind(
        [PIPELINE, str(GenericCompiler())], of_text(lambda t: str(parse_pipeline(t))), (ParseError,)
    ),
    "timings": Kind([TIMES.to_json()], of_text(times), (RecordingError,)),
    "rates": Kind([RATES.to_json()], of_text(rates), (RecordingError,)),
    "report": Kind([REPORT.to_json()], of_text(report), (RecordingError,)),
    "recording": Kind([KERNELS.to_json()], of_text(recorded), (RecordingError,)),
    "overlay": Kind(
        [json.dumps(OVERLAY)], of_file(overlays._of_file), (RecordingError, ArgumentError)
    ),
    "notebook": Kind(
        [json.dumps(NOTEBOOK)],
        of_file(lambda p: [*notebooks.places(notebooks.read(p))]),
        (ArgumentError,),
    ),
    "progress": Kind(
        [json.dumps(KEPT)], of_file(lambda p: ProgressFile(p.parent).entry("01.1")), ()
    ),
}


def damaged(drawn: random.Random, text: str) -> str:
    """Return a text that is damaged by letters, by words or, of JSON, by parts."""
    how = drawn.randrange(6)
    if text[:1] == "{" and how > 1:
        document: Any = json.loads(text)
        parts_damaged(drawn, document, list(places(document))[1:])
        return json.dumps(document)
    if how == 0:
        return bytes_damaged(drawn, text.encode()).decode("utf-8", "replace")
    return words_damaged(drawn, text)


@pytest.mark.sweep
@pytest.mark.parametrize("kind", KINDS)
def test_a_damaged_text_is_read_or_refused(kind: str, seed: int, long: bool, tmp_path: Path):
    texts, read, errors = KINDS[kind]
    count = 37_000 // len(KINDS) if long else 100
    refused = 0
    for case in range(count):
        drawn = random.Random(f"{seed} {kind} {case}")
        text = damaged(drawn, drawn.choice(texts))
        with in_time(), warnings.catch_warnings(action="error"):
            try:
                read(text, tmp_path)
            except errors as refusal:
                said = str(refusal)
                refused += 1
                if UNSEEN.search(said) or len(said) > 8_000:
                    pytest.fail(f"{said}\n--seed {seed}, {kind}, case {case}: {text}")
            except Exception as error:
                error.add_note(f"--seed {seed}, {kind}, case {case}: {text}")
                raise
    assert refused > count // 20 or not errors or kind == "schedule"


def test_what_is_right_is_read(tmp_path: Path):
    for kind, (texts, read, _) in KINDS.items():
        for text in texts:
            if kind != "schedule":
                read(text, tmp_path)

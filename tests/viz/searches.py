"""Searches for tests of what is shown of them: nothing is measured, and all states occur."""

import json
from hashlib import sha256

import luminal_lab as ll
from luminal_lab.devices.cpu.compiler import CPUCompiler
from luminal_lab.passes import compile as manager
from luminal_lab.plain import plain
from luminal_lab.search.assembled import apart
from luminal_lab.search.driver import WRONG, Answer, Outcome
from luminal_lab.search.graph import ProgramSearch, search_program
from luminal_lab.search.loops import Budget, KernelSearch, search_kernel
from luminal_lab.search.worker import Worker
from tests.search.planted import job_of, matmul, seconds_of, tiles

LARGE = "it has 3,412 lines of C, and may have 3,000"
BROKEN = "it does not compile: candidate_3.c:12: error: <b>x</b>"
STEP = "split j by 5 as tile, own"


def outcome(schedule: str) -> Outcome:
    """Return what becomes of a schedule: every state is some schedule's."""
    match sha256(schedule.encode()).digest()[1] % 12:
        case 0:
            return Outcome("failed", (), f"{WRONG}c[3, 4] is 1.25 and should be 1.5", STEP)
        case 1:
            return Outcome("refused", (), LARGE)
        case 2:
            return Outcome("failed", (), BROKEN)
        case 3:
            return Outcome("stopped", (seconds_of(schedule) * 3,))
        case _:
            return Outcome("measured", (seconds_of(schedule),))


def mixed(job: str) -> str:
    """Answer a job without measuring."""
    times = tuple(outcome(text) for text in job_of(job).schedules)
    return json.dumps(plain(Answer(Outcome("measured", (2e-4,)), times, "here")))


def of_a_kernel(count: int = 48) -> KernelSearch:
    """Return a search for the tiles of a product."""
    budget = Budget(candidates=count)
    return search_kernel(matmul(70, 60, 50), plan=tiles, worker=mixed, budget=budget)


def of_a_program(count: int = 24) -> ProgramSearch:
    """Return a search for the schedules of a product and a softmax, which have a result each."""
    cx = ll.Graph("head")
    x, w = cx.tensor((40, 30), name="x"), cx.tensor((30, 50), name="w")
    (x @ w).retrieve().softmax(-1).retrieve()
    return of(cx, count)


def of_a_region(count: int = 24) -> ProgramSearch:
    """Return a search for a product and a softmax, apart and as one kernel."""
    cx = ll.Graph("region")
    x, w = cx.tensor((40, 30), name="x"), cx.tensor((30, 50), name="w")
    (x @ w).softmax(-1).retrieve()
    return of(cx, count)


def of(cx: ll.Graph, count: int, worker: Worker = mixed) -> ProgramSearch:
    """Return a search for the kernels of a graph."""
    device = CPUCompiler()
    fused = manager.compile_ir(cx.ir, manager.GenericCompiler(), apart(device)).ir
    return search_program(fused, device, budget=Budget(candidates=count), worker=worker)

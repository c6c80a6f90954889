"""Memory: what a plan says, the least that any plan could say, what runs take, and PyTorch's.

    python -m luminal_lab.bench.studies.memory [NAME …]

For each model a process of its own. `arena` is what the memory plan gives to values on the way;
`least` the most of them that are needed at once, below which no planner gets; `plan` adds what is
returned, and what threads need for themselves. `peak` is what three runs took beyond what was there
before the first: weights, the state of an optimiser, code. `whole` has those, too, as PyTorch's
has: it is counted from before the model was made.
"""
# pyright: basic

import argparse
import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import luminal_lab as ll
from luminal_lab import nn
from luminal_lab.bench.peers.ours import Ours, gpt2_model
from luminal_lab.bench.peers.peer import Peer, ReadyWorkload
from luminal_lab.bench.peers.torch import Torch
from luminal_lab.bench.workload import Arrays, Unable, Workload
from luminal_lab.bench.workloads import workloads
from luminal_lab.devices.cpu.program import CPUProgram
from luminal_lab.machines.here import usable_cores

STATUS, RESET = Path("/proc/self/status"), Path("/proc/self/clear_refs")
NAMES = "mlp", "attention", "conv", "gpt2", "train-cnn", "train-gpt"
CHECKPOINTED = "train-gpt, checkpointed"
GOAL = 1.1
"""The largest share of the plan that runs may take, and of the least that the arena may."""


def main() -> None:
    """Print a line for each model."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("names", nargs="*", help=f"models: {', '.join((*NAMES, CHECKPOINTED))}")
    parser.add_argument("--peer", choices=PEERS, help="measure one side, and print it as JSON")
    asked = parser.parse_args()
    names = asked.names or [*NAMES, CHECKPOINTED]
    if unknown := [name for name in names if name not in (*NAMES, CHECKPOINTED)]:
        parser.error(f"there is no model {unknown[0]!r}; there are {', '.join(NAMES)}")
    if not RESET.exists():
        parser.error("only Linux can say what a process has taken at most since a moment")
    if asked.peer:
        print(json.dumps(measured(names[0], asked.peer)))
        return
    print(
        f"{'MB':<26}{'arena':>8}{'least':>8}{'share':>7}{'plan':>8}{'peak':>8}{'share':>7}"
        f"{'whole':>8}{'PyTorch':>9}{'share':>7}"
    )
    for name in names:
        own, theirs = apart(name, "ours"), apart(name, "PyTorch")
        arena, least, plan, peak = (own[key] for key in ("arena", "least", "plan", "peak"))
        whole, other = own["whole"], theirs.get("whole")
        print(
            f"{name:<26}{arena / 1e6:8.2f}{least / 1e6:8.2f}{arena / max(least, 1):7.3f}"
            f"{plan / 1e6:8.2f}{peak / 1e6:8.2f}{peak / plan:7.3f}{whole / 1e6:8.2f}"
            + (f"{other / 1e6:9.2f}{whole / other:7.2f}" if other else f"{'–':>9}"),
            flush=True,
        )


def apart(name: str, peer: str) -> dict[str, int]:
    """Return what a process of its own says about a model on one side."""
    command = [sys.executable, "-m", __spec__.name, name, "--peer", peer]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return json.loads(done.stdout.splitlines()[-1])


def measured(name: str, peer: str) -> dict[str, int]:
    """Return what runs of a model take in this process."""
    side = PEERS[peer]()
    try:
        # What either loads when it first computes anything counts for nobody.
        for quick in (True, False):
            workload = workload_of(name, quick=quick)
            data = workload.data(workload.sizes, np.random.default_rng(0))
            programs: list[CPUProgram] = []
            empty = held("VmRSS")
            ready = prepared(side, name, workload, data, programs)
            before = held("VmRSS")
            for turn in range(4):
                if turn == 1:  # what the first one writes over still lies where it was given
                    RESET.write_text("5")
                ready.run()
            most = held("VmHWM")
            plan = planned(programs[0]) if programs else {}
            said = {"peak": most - before, "whole": most - empty, **plan}
    except Unable:
        return {}
    return said


def workload_of(name: str, *, quick: bool) -> Workload:
    """Return a row of the benchmark; one that is checkpointed is that row, written so."""
    row = name.partition(",")[0]
    found = next(workload for workload in workloads(quick) if workload.name == row)
    return replace(found, name=name)


def prepared(
    side: Peer, name: str, workload: Workload, data: Arrays, programs: list[CPUProgram]
) -> ReadyWorkload:
    """Return a workload that is ready; of ours also the program."""
    if not isinstance(side, Ours):
        if name == CHECKPOINTED:
            raise Unable("the benchmark has no checkpointed model of PyTorch's")
        return side.prepare(workload, data)
    compiled = ll.Graph.compile

    def noted(self: ll.Graph, *passes: Any, **options: Any) -> Any:
        compilation = compiled(self, *passes, **options)
        for parameter in self.parameters.values():
            parameter.set(parameter.value)  # the system gives memory to zeros that are written
        assert isinstance(compilation.runner, CPUProgram)
        programs.append(compilation.runner)
        return compilation

    ll.Graph.compile = noted  # the benchmark keeps its graphs to itself
    try:
        return (
            checkpointed(workload, data) if name == CHECKPOINTED else side.prepare(workload, data)
        )
    finally:
        ll.Graph.compile = compiled


def checkpointed(workload: Workload, d: Arrays) -> ReadyWorkload:
    """Return a training step of a GPT that computes every block once more for the gradients."""
    model, cx = gpt2_model(workload.sizes, d, copy=True), ll.Graph()
    tokens = cx.tensor(d["tokens"].shape, "int64", "tokens")
    following = cx.tensor(d["following"].shape, "int64", "following")
    loss = nn.cross_entropy(model(tokens), following, axis=-1)
    blocks = [f"gpt2.h.{layer}" for layer in range(workload.sizes["layers"])]
    nn.AdamW(1e-3).minimise(loss, checkpoint=blocks)
    cx.compile(ll.GenericCompiler(), ll.CPUCompiler(threads=usable_cores(), reuse_outputs=True))

    def run() -> None:
        tokens.set(d["tokens"])
        following.set(d["following"])
        cx.execute()

    return ReadyWorkload(run, lambda _: [])


def planned(program: CPUProgram) -> dict[str, int]:
    """Return what the plan of a whole run says, in bytes."""
    bound = program.plan(program.ir.output_ids).bound({})
    memory = bound.memory
    returned = sum(size for _, size in bound.outputs)
    own = bound.scratch_bytes * program.threads
    plan = memory.arena_bytes + returned + own
    return {"arena": memory.arena_bytes, "least": memory.least_bytes, "plan": plan}


def held(what: str) -> int:
    """Return some bytes that the system counts for this process."""
    lines = STATUS.read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{what}:"))


PEERS: Mapping[str, Callable[[], Peer]] = {
    "ours": lambda: Ours(usable_cores()),
    "PyTorch": lambda: Torch(usable_cores()),
}


if __name__ == "__main__":
    main()

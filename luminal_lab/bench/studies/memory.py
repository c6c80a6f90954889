"""Memory: what a plan says, the least that any plan could say, what runs take, and PyTorch's.

    python -m luminal_lab.bench.studies.memory [NAME …] [--page docs/memory.md]

For each model a process of its own. `arena` is what the memory plan gives to values on the way;
`least` the most of them that are needed at once, below which no planner gets; `plan` adds what is
returned, and what threads need for themselves. `peak` is what three runs took beyond what was there
before the first. `made` was there: the graph and its compile, as Python has them, and of what
trains the weights. `whole` is what the process took since before the model was made, at most, and
`PyTorch` the same of PyTorch's. With a page, the table is written between its marks.
"""
# pyright: basic

import argparse
import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

import luminal_lab as ll
from luminal_lab import nn
from luminal_lab.bench.page import placed
from luminal_lab.bench.peers.ours import Ours, gpt2_model
from luminal_lab.bench.peers.peer import Peer, ReadyWorkload
from luminal_lab.bench.peers.torch import Torch
from luminal_lab.bench.workload import Arrays, Unable, Workload
from luminal_lab.bench.workloads import workloads
from luminal_lab.devices.cpu.program import CPUProgram
from luminal_lab.devices.facts.probe import cpu_name
from luminal_lab.machines.here import usable_cores
from luminal_lab.machines.load import Load, load_text
from luminal_lab.writing import write_bytes

STATUS, RESET = Path("/proc/self/status"), Path("/proc/self/clear_refs")
NAMES = "mlp", "attention", "conv", "gpt2", "train-cnn", "train-gpt"
CHECKPOINTED = "train-gpt, checkpointed"
BEGIN = "<!-- measured by luminal_lab.bench.studies.memory -->"
HEAD = (
    "| | arena | least | plan | peak | peak / plan | made | whole | PyTorch | whole / PyTorch |\n"
    "|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|"
)


def main() -> None:
    """Print a line for each model."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("names", nargs="*", help=f"models: {', '.join((*NAMES, CHECKPOINTED))}")
    parser.add_argument("--page", metavar="FILE", type=Path, help="write the table into this page")
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
    if asked.page is not None and BEGIN not in asked.page.read_text(encoding="utf-8"):
        parser.error(f"{asked.page} has no line {BEGIN}")
    lines = list[str]()
    with Load() as load:
        for name in names:
            lines.append(line(name, apart(name, "ours"), apart(name, "PyTorch")))
            print(lines[-1], flush=True)
    if asked.page is not None:
        text = asked.page.read_text(encoding="utf-8")
        table = "\n".join([where(load), "", HEAD, *lines])
        write_bytes("memory", asked.page, placed(text, f"{table}\n", BEGIN).encode())


def where(load: Load) -> str:
    """Return on which machine it was measured, beside what."""
    busy = load_text(load.others)
    cores = usable_cores()
    threads = f"{cores} thread{'s' * (cores > 1)}"
    return (
        f"In MB, on {cpu_name()}, {threads}, {datetime.now(UTC):%Y-%m-%d %H:%M} UTC, beside "
        f"PyTorch {version('torch')}{f'; {busy}' if busy else ''}."
    )


def line(name: str, own: Mapping[str, int], theirs: Mapping[str, int]) -> str:
    """Return the row of a model."""
    keys = "arena", "least", "plan", "peak", "made", "whole"
    sizes = [f"{own[key] / 1e6:.2f}" for key in keys]
    other = theirs.get("whole")
    sizes.insert(4, f"{own['peak'] / own['plan']:.3f}")
    sizes += [f"{other / 1e6:.2f}", f"{own['whole'] / other:.2f}"] if other else ["–", "–"]
    return f"| {name} | {' | '.join(sizes)} |"


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
            said = {"peak": most - before, "made": before - empty, "whole": most - empty, **plan}
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
        for parameter in self.parameters.values() if self.ir.carries else ():
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
    """Return what the plan of a whole run says, in bytes, with the copies that runs have kept."""
    bound = program.plan(program.ir.output_ids).bound({})
    memory = bound.memory
    returned = sum(size for _, size in bound.outputs)
    own = bound.scratch_bytes * program.threads
    plan = memory.arena_bytes + returned + own + program.kept_bytes
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

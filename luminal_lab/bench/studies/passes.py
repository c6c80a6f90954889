"""What passes cost: snapshots and verification beside the passes themselves, and whole pipelines.

    python -m luminal_lab.bench.studies.passes

Every figure is measured in this one run.
"""

import gc
import time
import tracemalloc
from collections.abc import Callable, Iterator
from typing import Any

import luminal_lab as ll
from luminal_lab.bench.studies import gpt2
from luminal_lab.core.edit import Edit
from luminal_lab.core.ir import IR
from luminal_lab.core.verify import verify
from luminal_lab.passes.compile import compile_ir
from luminal_lab.passes.generic import GenericCompiler
from luminal_lab.passes.pipeline import LICENCE, Pipeline

NODES = 10_000
# Each round drops some arithmetic, and then unread nodes: 30 passes, all with work.
THIRTY = Pipeline(["simplify{limit = 100}, cse, dce"] * 10)


def main() -> None:
    """Print one line for each figure."""
    for group in (snapshots, generic, gradients):
        for title, value in group():
            print(f"{title:<66} {value}", flush=True)


def best(call: Callable[[], object], rounds: int = 5) -> float:
    """Return the least seconds of several calls: what the work takes when nothing else runs."""
    times: list[float] = []
    for _ in range(rounds):
        gc.collect()
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return min(times)


def chain() -> IR:
    """Return a graph of 10,000 nodes, a tenth of which simplify drops, some hundred at a time."""
    cx = ll.Graph()
    x = cx.tensor((4, 8))
    y = cx.tensor((4, 8))
    while cx.next_id < NODES:
        for _ in range(7):
            x = (x + y).exp2()
        x = x * 1
    x.retrieve()
    return cx.ir


def passes_alone(ir: IR) -> IR:
    """Run the passes as the manager does, but keep no record of them."""
    for pass_ in THIRTY.flat():
        edit = Edit(ir.bare(), licence=LICENCE)
        pass_.run(edit.base, edit)
        ir = edit.ir().bare()
    return ir


def held(make: Callable[[], object]) -> int:
    """Return the bytes that the result of a call keeps alive."""
    gc.collect()
    tracemalloc.start()
    kept = make()
    gc.collect()
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    del kept
    return size


def snapshots() -> Iterator[tuple[str, str]]:
    """Compare 30 passes with and without their snapshots."""
    ir = chain()
    name = f"{len(ir):,} nodes, 30 passes: "
    # One after the other, so that the machine's moods affect both alike.
    pairs = [
        (
            best(lambda: passes_alone(ir), 1),
            best(lambda: compile_ir(ir, THIRTY, verifying=False), 1),
        )
        for _ in range(9)
    ]
    alone, managed = (min(column) for column in zip(*pairs, strict=True))
    yield f"{name}the passes alone", f"{alone * 1e3:.0f} ms"
    added = (managed - alone) / alone
    yield f"{name}snapshots add (goal: under 10%)", f"{added:+.1%}"
    verified = best(lambda: compile_ir(ir, THIRTY))
    yield f"{name}full verification adds", f"{(verified - managed) / alone:+.0%}"
    yield f"{name}one verification", f"{best(lambda: verify(ir.bare())) * 1e3:.0f} ms"
    graph = held(chain)
    kept = held(lambda: compile_ir(ir, THIRTY))
    ratio = kept / graph
    yield f"{name}snapshots keep, of one graph's bytes (goal: < 3)", f"{ratio:.2f}"
    compiled = compile_ir(ir, THIRTY)
    firings = sum(len(snapshot.firings) for snapshot in compiled.snapshots)
    yield f"{name}firings", f"{firings:,}"


def model(*, with_gradients: bool = False) -> ll.Graph:
    """Return GPT-2's graph of 12 layers, with a loss and its gradients if wanted."""
    config = gpt2.Config()
    cx = ll.Graph()
    weights = {
        name: cx.tensor(shape, name=name) for name, shape in gpt2.weight_shapes(config).items()
    }
    tokens = cx.tensor((1, 64), "int64", name="tokens")
    logits = gpt2.lab_logits(cx, weights, tokens, config)
    if with_gradients:
        slopes: Any = ll.grad(logits.mean(), weights)
        cx.retrieve(slopes)
    else:
        logits.retrieve()
    return cx


def generic() -> Iterator[tuple[str, str]]:
    """Time the generic compiler on GPT-2, and again on its own result."""
    ir = model().ir
    name = f"GPT-2, 12 layers, {len(ir):,} nodes: "
    compiled = compile_ir(ir, GenericCompiler())
    took = best(lambda: compile_ir(ir, GenericCompiler()), 3)
    yield f"{name}generic compiler (goal: under 2 s)", f"{took:.2f} s"
    yield f"{name}nodes after it, in {len(compiled.snapshots) - 1} passes", f"{len(compiled.ir):,}"
    again = compile_ir(compiled.ir, GenericCompiler())
    firings = sum(len(snapshot.firings) for snapshot in again.snapshots)
    yield f"{name}firings when it runs again (goal: 0)", f"{firings}"


def gradients() -> Iterator[tuple[str, str]]:
    """Time the building of the backward graph, and the generic compiler on both together."""
    forward = len(model().ir)
    took = best(lambda: model(with_gradients=True), 3) - best(model, 3)
    ir = model(with_gradients=True).ir
    name = "GPT-2, 12 layers, with gradients: "
    yield f"{name}nodes, of which {forward:,} forward", f"{len(ir):,}"
    yield f"{name}building the backward part", f"{took * 1e3:.0f} ms"
    compiled = compile_ir(ir, GenericCompiler())
    took = best(lambda: compile_ir(ir, GenericCompiler()), 1)
    yield f"{name}generic compiler, to {len(compiled.ir):,} nodes", f"{took:.2f} s"


if __name__ == "__main__":
    main()

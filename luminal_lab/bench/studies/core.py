"""How fast the core is: import, building, tracing beside peers, text, snapshots, the interpreter.

    DEV=NULL python -m luminal_lab.bench.studies.core

tinygrad reads DEV: tracing needs no device, and without a clang tinygrad has none.

Every figure is measured in this one run; a peer that is not installed is named as absent.
"""
# pyright: basic, reportMissingImports=false

import json
import statistics
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterator
from difflib import unified_diff
from importlib.util import find_spec

import numpy as np

import luminal_lab as ll
from luminal_lab.bench.studies import gpt2
from luminal_lab.core.ops import Add, Exp2

DEPENDENCIES = "numpy, numpy.lib.stride_tricks, ml_dtypes, typing_extensions"
TOKENS = 64


def main() -> None:
    """Print one line for each figure."""
    for group in (
        import_time,
        building,
        tracing,
        text,
        snapshots,
        local_edits,
        interpreter_memory,
    ):
        for title, value in group():
            print(f"{title:<66} {value}", flush=True)


def best(call: Callable[[], object], rounds: int = 5) -> float:
    """Return the least seconds of several calls: what the work takes when nothing else runs."""
    times: list[float] = []
    for _ in range(rounds):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return min(times)


def in_process(code: str) -> str:
    """Run code in a new Python, and return the last line that it prints."""
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    return done.stdout.strip().splitlines()[-1]


def import_time() -> Iterator[tuple[str, str]]:
    """Time the import beside the import of its own dependencies, each in new processes."""
    template = (
        "import time; a = time.perf_counter(); import {}; "
        "b = time.perf_counter(); import luminal_lab; print((b - a, time.perf_counter() - b))"
    )
    in_process("import luminal_lab; print(1)")
    pairs = [
        json.loads(in_process(template.format(DEPENDENCIES)).replace("(", "[").replace(")", "]"))
        for _ in range(9)
    ]
    base, added = (statistics.median(column) * 1e3 for column in zip(*pairs, strict=True))
    yield "import of the dependencies alone, median of 9", f"{base:.0f} ms"
    yield "import of luminal_lab adds (goal: under 60 ms)", f"{added:.0f} ms"


def building() -> Iterator[tuple[str, str]]:
    """Count the nodes that the API builds in a second, each with its origin."""
    count = 50_000

    def chain() -> None:
        cx = ll.Graph()
        x = cx.tensor((4, 8))
        y = cx.tensor((4, 8))
        for _ in range(count // 2):
            x = x + y
            x = x * y

    def mixed() -> int:
        cx = ll.Graph()
        x = cx.tensor((4, 8))
        for _ in range(count // 10):
            x = (x.exp2() + 1.5).sum(-1, keepdim=True).expand(4, 8).transpose(0, 1).T * x
        return cx.next_id

    yield "nodes built a second, x + y (goal: 150,000)", f"{count / best(chain):,.0f}"
    nodes = mixed()
    title = "nodes built a second, unary, scalar, reduction, views (goal: 150,000)"
    yield title, f"{nodes / best(mixed):,.0f}"


def lab_model(config: gpt2.Config, seq: int) -> tuple[ll.Graph, dict[str, ll.Tensor]]:
    """Build GPT-2's graph, without data."""
    cx = ll.Graph()
    weights = {
        name: cx.tensor(shape, name=name) for name, shape in gpt2.weight_shapes(config).items()
    }
    tokens = cx.tensor((1, seq), "int64", name="tokens")
    gpt2.lab_logits(cx, weights, tokens, config).retrieve()
    return cx, weights


def tracing() -> Iterator[tuple[str, str]]:
    """Time the building of a 12-layer GPT-2 forward graph, and the tracing of one by peers."""
    config = gpt2.Config()
    cx, _ = lab_model(config, TOKENS)
    name = "GPT-2, 12 layers: "
    ours = best(lambda: lab_model(config, TOKENS))
    yield f"{name}luminal_lab, {len(cx.ir):,} nodes", f"{ours * 1e3:.0f} ms"
    yield f"{name}nodes built a second (goal: 150,000)", f"{len(cx.ir) / ours:,.0f}"
    shapes = gpt2.weight_shapes(config)
    if find_spec("jax") is None:
        yield f"{name}jax.make_jaxpr", "absent"
    else:
        import jax

        jax.config.update("jax_platforms", "cpu")
        weights = {n: jax.ShapeDtypeStruct(s, np.float32) for n, s in shapes.items()}
        tokens = jax.ShapeDtypeStruct((1, TOKENS), np.int32)

        def trace() -> None:
            # A new function each time: JAX remembers what it has traced.
            jax.make_jaxpr(gpt2.jax_logits(config))(weights, tokens)

        trace()
        yield f"{name}jax.make_jaxpr, {jax.__version__}", f"{best(trace) * 1e3:.0f} ms"
    if find_spec("tinygrad") is None:
        yield f"{name}tinygrad", "absent"
    else:
        from tinygrad.dtype import dtypes
        from tinygrad.tensor import Tensor

        tensors = {n: Tensor.empty(*s) for n, s in shapes.items()}
        ids = Tensor.empty(1, TOKENS, dtype=dtypes.int32)
        lazy = best(lambda: gpt2.tinygrad_logits(tensors, ids, config))
        yield f"{name}tinygrad", f"{lazy * 1e3:.0f} ms"


def large_graph(nodes: int) -> ll.IR:
    """Return a graph of `nodes` nodes: elementwise, reductions, views, in many scopes."""
    cx = ll.Graph()
    x = cx.tensor((32, 64), name="x")
    y = x
    layer = 0
    while cx.next_id < nodes - 8:
        layer += 1
        with cx.scope(f"h{layer}"):
            y = (y * x + 0.5).sum(-1, keepdim=True).expand(32, 64) + y.exp2()
    y.retrieve()
    return cx.ir


def fresh(ir: ll.IR) -> ll.IR:
    """Return an equal graph without cached analyses."""
    return ll.IR(ir.table.copy(), ir.input_ids, ir.output_ids, name=ir.name)


def text() -> Iterator[tuple[str, str]]:
    """Time verify, print and parse of 50,000 nodes."""
    ir = large_graph(50_000)
    printed = str(ir)
    count = f"{len(ir):,} nodes"
    yield f"verify {count} (goal: under 0.3 s)", f"{best(lambda: ll.verify(fresh(ir)), 3):.3f} s"
    yield f"print {count} (goal: under 0.5 s)", f"{best(lambda: str(fresh(ir)), 3):.3f} s"
    yield f"parse {count} (goal: under 1.5 s)", f"{best(lambda: ll.parse(printed), 3):.3f} s"


def replace_near_inputs(ir: ll.IR) -> ll.Edit:
    """Return an editor that has replaced the first product of a graph by a sum."""
    edit = ll.Edit(ir)
    old = next(node for node in ir if node.op.name == "mul")
    new = edit.insert(Add(), *old.sources, like=old, rule="benchmark")
    edit.replace(old, new, rule="benchmark")
    return edit


def snapshots() -> Iterator[tuple[str, str]]:
    """Measure what one more snapshot of a 50,000-node graph costs after one edit."""
    edit = ll.Edit(large_graph(50_000))
    first = edit.ir()
    user = first.outputs[0]
    seconds: list[float] = []
    sizes: list[int] = []
    held = [first]
    for _ in range(50):
        edit.insert(Exp2(), user, rule="benchmark")
        tracemalloc.start()
        start = time.perf_counter()
        held.append(edit.ir())
        seconds.append(time.perf_counter() - start)
        sizes.append(tracemalloc.get_traced_memory()[0])
        tracemalloc.stop()
    yield (
        "snapshot of 50,000 nodes after one edit, median time",
        (f"{statistics.median(seconds) * 1e6:.0f} µs"),
    )
    yield (
        "snapshot of 50,000 nodes after one edit, median bytes",
        f"{statistics.median(sizes):,.0f}",
    )


def local_edits() -> Iterator[tuple[str, str]]:
    """Count what changes when a node near the inputs of 10,000 nodes is replaced."""
    ir = large_graph(10_000)
    edit = replace_near_inputs(ir)
    after = edit.ir()
    new = sum(1 for node in after if ir.table.get(node.id) is not node)
    lines = [
        line
        for line in unified_diff(str(ir).splitlines(), str(after).splitlines(), n=0, lineterm="")
        if line[0] in "+-" and line[:3] not in ("+++", "---")
    ]
    users = len(after.users(edit.log[-1].into or 0))
    yield "replacing a node near the inputs of 10,000: direct users", f"{users}"
    yield "  new records (the new node and its users)", f"{new}"
    yield "  changed lines (+ and -)", f"{len(lines)}"


PEAK = """
import resource, sys, time
from pathlib import Path
import numpy as np, luminal_lab as ll
from luminal_lab.bench.studies import core, gpt2
config = gpt2.Config()
cx, weights = core.lab_model(config, {tokens})
rng = np.random.default_rng(0)
size = 0
for name, tensor in weights.items():
    data = rng.standard_normal(tensor.shape, np.float32) * np.float32(0.02)
    size += data.nbytes
    tensor.borrow(data)
cx["tokens"].set(rng.integers(0, config.vocabulary, (1, {tokens})))
# What is resident now, in KiB; elsewhere than on Linux, the most that ever was.
status = Path("/proc/self/status")
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
if status.exists():
    before = int(status.read_text().partition("VmRSS:")[2].split()[0])
start = time.perf_counter()
cx.execute()
seconds = time.perf_counter() - start
after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print((after - before) / 2**20, size / 2**30, seconds)
"""


def interpreter_memory() -> Iterator[tuple[str, str]]:
    """Measure the memory that GPT-2 small's arithmetic takes in the interpreter."""
    code = PEAK.format(tokens=TOKENS)
    peak, weights, seconds = map(float, in_process(code).split())
    yield (
        f"GPT-2 small, {TOKENS} tokens, interpreter: peak beyond weights (goal: 4 GiB)",
        (f"{peak:.2f} GiB"),
    )
    yield "  its weights", f"{weights:.2f} GiB"
    yield "  its time", f"{seconds:.1f} s"


if __name__ == "__main__":
    main()

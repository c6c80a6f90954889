"""luminal_lab: built lazily, compiled by the generic compiler and the CPU's, and executed."""

from __future__ import annotations

# Tensors are of any type, those of lambdas too.
# pyright: reportUnknownLambdaType=false, reportUnknownMemberType=false
# pyright: reportUnknownArgumentType=false
from collections.abc import Callable, Mapping
from functools import partial
from itertools import cycle
from time import perf_counter
from typing import Any

import numpy as np
from typing_extensions import override

import luminal_lab as ll
from luminal_lab import nn
from luminal_lab.bench import compiles
from luminal_lab.bench.peers.peer import Peer, ReadyWorkload, memory
from luminal_lab.bench.rows import FLOATS, MODELLED, READING, ROUNDED, SHARE
from luminal_lab.bench.workload import Arrays, Sizes, Workload
from luminal_lab.bench.workloads import FILLED
from luminal_lab.core.dtypes import Array
from luminal_lab.core.ops import Stored
from luminal_lab.devices.cpu.program import CPUProgram
from luminal_lab.devices.facts.probe import peak_rates, reader
from luminal_lab.devices.facts.specifications import this_cpu
from luminal_lab.importing.model_file import model_file
from luminal_lab.language.decoding import Activations, Decoding
from luminal_lab.nn import models
from luminal_lab.nn.cache import KVCache
from luminal_lab.nn.models.decoder_weights import load_decoder
from luminal_lab.nn.models.decoders_gguf import from_gguf
from luminal_lab.passes.pipeline import LICENCE
from luminal_lab.tensor.blocks import Blocks
from luminal_lab.timing.roofline import modelled


class Ours(Peer):
    """Written, compiled and executed as in a notebook."""

    package = "luminal-lab"

    def __init__(self, threads: int, variant: str = "") -> None:
        super().__init__(threads)
        self.variant = variant
        """Empty, "any …" for a symbolic dim, or "specialised" for kernels of its size."""
        self.is_call, self.keeps = False, False
        self.licence = LICENCE

    @override
    def prepare(self, workload: Workload, data: Arrays) -> ReadyWorkload:
        assert not self.variant or self.variant in workload.variants
        self.is_call, self.licence = workload.is_call, workload.licence
        self.keeps = bool(workload.sizes.get("kept"))
        return super().prepare(workload, data)

    def dim(self, name: str, size: int) -> Any:
        """Return a size, or the symbol that a variant is compiled for instead."""
        return name if self.variant else size

    def compiled(
        self,
        cx: ll.Graph,
        output: Any,
        inputs: Arrays,
        *,
        symbols: Mapping[str, int] | None = None,
        dims: Mapping[str, int] | None = None,
    ) -> ReadyWorkload:
        """Compile for an output; each run is given its input anew, without a copy.

        `symbols` are the sizes for which kernels may be made; for `dims`, what a run writes is
        counted.
        """
        output.retrieve()
        given = {name: cx[name] for name in inputs}
        for name, array in inputs.items():
            given[name].borrow(array)
        # As with the others' `out=`, a result may overwrite the previous one.
        cpu = ll.CPUCompiler(threads=self.threads, reuse_outputs=True)
        specialise = symbols if self.variant == "specialised" else None
        passes = ll.GenericCompiler(), cpu
        cx.compile(*passes, specialise=specialise, licence=self.licence, keep=self.keeps)
        if self.is_call:
            function, arrays = cx.as_function(), [*inputs.values()]
            return ReadyWorkload(lambda: function(*arrays), lambda result: [result])
        # Only what has changed is computed again, and one changed input is enough.
        first, array = next((given[name], array) for name, array in inputs.items())

        def run() -> Any:
            first.borrow(array)
            cx.execute()
            return output

        def facts() -> dict[str, float]:
            program = cx.compilation.runner
            if not isinstance(program, CPUProgram):
                return {}
            sizes = {**(symbols or {}), **(dims or {})}
            cpu = this_cpu(peak_rates(self.threads))
            least = [modelled(launch, cpu, sizes).seconds for launch in program.launches]
            numbers = {MODELLED: 1e3 * sum(least)}
            if dims is not None:
                # The weights' other forms were made by the first run, and stay.
                stored_nodes = [node.id for node in program.ir if isinstance(node.op, Stored)]
                bound = program.plan(program.ir.output_ids, stored_nodes).bound(dims)
                numbers["bytes written"] = bound.bytes_written
            return numbers

        return ReadyWorkload(run, lambda result: [np.array(result.numpy())], facts)

    def of(
        self, d: Arrays, spelling: Callable[..., Any], *names: str, **symbols: int
    ) -> ReadyWorkload:
        """Compile what a function makes of inputs; `symbols` are the dims that a variant opens."""
        cx = ll.Graph()
        by_size = {size: self.dim(name, size) for name, size in symbols.items()}

        def shape(name: str) -> tuple[Any, ...]:
            known: tuple[int, ...] = d[name].shape
            if name == "tokens":
                return known[0], by_size.get(known[1], known[1])
            return (by_size.get(known[0], known[0]), *known[1:]) if name == "x" else known

        tensors = [cx.tensor(shape(name), str(d[name].dtype), name) for name in names]
        return self.compiled(cx, spelling(*tensors), {n: d[n] for n in names}, symbols=symbols)

    # -- elementwise operations and reductions -----------------------------------------------------

    def gelu(self, sizes: Sizes, d: Arrays) -> ReadyWorkload:
        return self.of(d, lambda x: x.gelu("tanh"), "x")

    def softmax(self, sizes: Sizes, d: Arrays) -> ReadyWorkload:
        return self.of(d, lambda x: x.softmax(-1), "x", rows=sizes["rows"])

    def layer_norm(self, sizes: Sizes, d: Arrays) -> ReadyWorkload:
        return self.of(
            d, lambda x, weight, bias: x.layer_norm(-1, 1e-5, weight, bias), "x", "weight", "bias"
        )

    def rms_norm(self, sizes: Sizes, d: Arrays) -> ReadyWorkload:
        return self.of(d, lambda x, weight: x.rms_norm(-1, 1e-5, weight), "x", "weight")

    def chain(self, sizes: Sizes, d: Arrays) -> ReadyWorkload:
        def spelling(x: Any, y: Any) -> Any:
            t = x * 1.5 + y
            t = (t * t).sqrt() - x
            t = t.relu() * y + 0.5
            return (t.exp() + 1.0).recip() * x

        return self.of(d, spelling, "x", "y")

    def sum_rows(self, sizes: Sizes, d: Arrays) -> ReadyWorkload:
        return self.of(d, lambda x: x.sum(1), "x")

    def sum_columns(self, sizes: Sizes, d: Arrays) -> ReadyWorkload:
        return self.of(d, lambda x: x.sum(0), "x")

    def add(self, sizes: Sizes, d: Arrays) -> ReadyWorkload:
        return self.of(d, lambda x, y: x + y, "x", "y")

    def transpose(self, sizes: Sizes, d: Arrays) -> ReadyWorkload:
        return self.of(d, lambda x: x.T.contiguous(), "x")

    # -- along the middle of three axes ------------------------------------------------------------

    def softmax_axis(self, sizes: Sizes, d: Arrays) -> ReadyWorkload:
        return self.of(d, lambda x: x.softmax(1), "x")

    def layer_norm_axis(self, sizes: Sizes, d: Arrays) -> ReadyWorkload:
        def spelling(x: Any, weight: Any, bias: Any) -> Any:
            return x.layer_norm(1, 1e-5, weight, bias)

        return self.of(d, spelling, "x", "weight", "bias")

    def sum_axis(self, sizes: Sizes, d: Arrays) -> ReadyWorkload:
        return self.of(d, lambda x: x.sum(1), "x")

    # -- products ----------------------------------------------------------------------------------

    def matmul(self, sizes: Sizes, d: Arrays) -> ReadyWorkload:
        return self.of(d, lambda a, b: a @ b, "a", "b")

    def mlp(self, sizes: Sizes, d: Arrays) -> ReadyWorkload:
        def spelling(x: Any, up: Any, up_bias: Any, down: Any, down_bias: Any) -> Any:
            return (x @ up + up_bias).gelu("tanh") @ down + down_bias

        names = "x", "up", "up_bias", "down", "down_bias"
        return self.of(d, spelling, *names, rows=sizes["rows"])

    def linear_gelu(self, sizes: Sizes, d: Arrays) -> ReadyWorkload:
        def spelling(x: Any, weight: Any, bias: Any) -> Any:
            return (x @ weight.T + bias).gelu("tanh")

        return self.of(d, spelling, "x", "weight", "bias", rows=sizes["rows"])

    def attention(self, sizes: Sizes, d: Arrays) -> ReadyWorkload:
        return self.of(
            d,
            lambda q, k, v: q.scaled_dot_product_attention(k, v, is_causal=bool(sizes["causal"])),
            *"qkv",
        )

    def conv(self, sizes: Sizes, d: Arrays) -> ReadyWorkload:
        return self.of(d, lambda x, weight: x.conv2d(weight, padding=1), "x", "weight")

    # -- models ------------------------------------------------------------------------------------

    def gpt2(self, sizes: Sizes, d: Arrays) -> ReadyWorkload:
        model = gpt2_model(sizes, d)
        return self.of(d, model, "tokens", seq=sizes["seq"])

    def build_gpt2(self, sizes: Sizes, d: Arrays) -> ReadyWorkload:
        model = gpt2_model(sizes, d)

        def run() -> ll.Graph:
            cx = ll.Graph()
            model(cx.tensor(d["tokens"].shape, "int64", "tokens")).retrieve()
            return cx

        return ReadyWorkload(run, no_results, lambda: {"nodes": len(run().ir)})

    def compile_gpt2(self, sizes: Sizes, d: Arrays) -> ReadyWorkload:
        model = gpt2_model(sizes, d)

        def run() -> Any:
            ready = self.of(d, model, "tokens")
            return ready.read(ready.run())

        return ReadyWorkload(run, lambda result: result)

    def compile_ten(self, sizes: Sizes, d: Arrays) -> ReadyWorkload:
        return self._compiling(lambda: compiles.ten_ops(sizes))

    def compile_unawaited(self, sizes: Sizes, d: Arrays) -> ReadyWorkload:
        return self._compiling(lambda: compiles.ten_ops(sizes), compiles.first_values)

    def compile_known(self, sizes: Sizes, d: Arrays) -> ReadyWorkload:
        *before, last = compiles.known_ops(sizes)
        for cx in before:
            compiles.compiled(cx, self.threads)
        return self._compiling(lambda: last)

    def compile_training(self, sizes: Sizes, d: Arrays) -> ReadyWorkload:
        compiled = partial(compiles.compiled, keep=self.keeps)
        return self._compiling(lambda: compiles.gpt2_training(sizes), compiled)

    def compile_snapshots(self, sizes: Sizes, d: Arrays) -> ReadyWorkload:
        cx, taken, whole = compiles.gpt2_training(sizes), [0.0], [0.0]

        def run() -> None:
            with compiles.counted(compiles.SNAPSHOTS, taken):
                whole[0] = compiles.timed(lambda: compiles.compiled(cx, self.threads))

        def facts() -> dict[str, float]:
            return {SHARE: 1e3 * taken[0] / whole[0]}

        # Only the snapshots count: the rest of the compile is another row's.
        return ReadyWorkload(run, no_results, facts, lambda: whole[0] - taken[0])

    def compile_convnet(self, sizes: Sizes, d: Arrays) -> ReadyWorkload:
        return self._compiling(lambda: compiles.convolutions(sizes))

    def _compiling(
        self,
        written: Callable[[], ll.Graph],
        compiled: Callable[[ll.Graph, int], ll.Graph] = compiles.compiled,
    ) -> ReadyWorkload:
        """Return a workload that writes a graph and compiles it."""
        made: list[ll.Graph] = []

        def run() -> None:
            made[:] = [compiled(written(), self.threads)]

        return ReadyWorkload(
            run, lambda _: [], lambda: {"kernels": len(made[0].kernels), **compiles.references()}
        )

    def importing(self, sizes: Sizes, d: Arrays) -> ReadyWorkload:
        compiles.import_seconds("luminal_lab")  # the first time it is compiled
        outside = [0.0]

        def run() -> None:
            # NumPy is there before, and Python has begun.
            start = perf_counter()
            seconds = compiles.import_seconds("luminal_lab", after="numpy, ml_dtypes")
            outside[0] = perf_counter() - start - seconds

        return ReadyWorkload(run, lambda _: [], compiles.references, lambda: outside[0])

    def llama(self, sizes: Sizes, d: Arrays) -> ReadyWorkload:
        return self._decode(sizes, d, sizes["capacity"] - 1)

    def llama_q8(self, sizes: Sizes, d: Arrays) -> ReadyWorkload:
        return self.llama(sizes, d)

    def decode_cache(self, sizes: Sizes, d: Arrays) -> ReadyWorkload:
        if self.variant:
            sizes = {**sizes, "capacity": sizes["capacity"] // 8}
            d = {n: a[:, :, : sizes["capacity"]] if n[:6] == "cache." else a for n, a in d.items()}
        return self._decode(sizes, d, FILLED - 1)

    def _decode(self, sizes: Sizes, d: Arrays, past: int) -> ReadyWorkload:
        model = llama_model(sizes, d)
        cx = ll.Graph()
        tokens = cx.tensor((1, 1), "int64", "tokens")
        cache = KVCache(cx, sizes["capacity"])
        logits = model(tokens, cache=cache)
        for layer, pair in enumerate(cache.buffers):
            for part, buffer in zip(("keys", "values"), pair, strict=True):
                buffer.set(d[f"cache.{layer}.{part}"])
        cache.begin(past)
        return self.compiled(cx, logits, {"tokens": d["tokens"]}, dims={"past": past})

    # -- language models from files ----------------------------------------------------------------

    def prefill(self, workload: Workload, d: Arrays) -> ReadyWorkload:
        tokens = d["tokens"].tolist()
        model = decoding(workload.path, len(tokens), self.threads, self._activations(workload))

        def run() -> Any:
            model.held.clear()
            return model.logits(tokens)

        return ReadyWorkload(run, read_last, lambda: launches(model.session))

    def _activations(self, workload: Workload) -> Activations:
        """Return what a row multiplies weights by."""
        rounded = ROUNDED.get((workload.kind, workload.form))
        return "float32" if rounded is None or self.variant == FLOATS else rounded

    def decode(self, workload: Workload, d: Arrays) -> ReadyWorkload:
        if self.variant == READING:
            return ReadyWorkload(
                reader(np.memmap(workload.path, mode="r"), self.threads), no_results
            )
        begin, steps = workload.sizes["past"], workload.sizes["steps"]
        tokens = d["tokens"].tolist()
        model = decoding(workload.path, begin + steps, self.threads, self._activations(workload))
        model.logits(tokens[:-1])
        texts = cycle([tokens + tokens[-1:] * step for step in range(steps)])

        def run() -> Any:
            return model.logits(next(texts))

        return ReadyWorkload(run, read_last, lambda: launches(model.session))

    def first_token(self, workload: Workload, d: Arrays) -> ReadyWorkload:
        def run() -> Any:
            return decoding(workload.path, 512, self.threads).logits(d["tokens"].tolist())

        return ReadyWorkload(run, read_last, memory)

    # -- what a call costs outside of the kernels --------------------------------------------------

    def outside(self, cx: ll.Graph, ready: ReadyWorkload) -> ReadyWorkload:
        """Return a workload in which the time in the program's library does not count."""
        program = cx.compilation.runner
        assert isinstance(program, CPUProgram)
        execute, inside = program.library.execute, [0.0]

        def timed(run: int, first: int, last: int) -> int:
            start = perf_counter()
            try:
                return execute(run, first, last)
            finally:
                inside[0] += perf_counter() - start

        def inner() -> float:
            seconds, inside[0] = inside[0], 0.0
            return seconds

        program.library.execute = timed
        return ready._replace(
            facts=lambda: {"launches": len(program.launches)},
            inner=inner,
        )

    def call_step(self, sizes: Sizes, d: Arrays) -> ReadyWorkload:
        model, cx = llama_model(sizes, d), ll.Graph()
        tokens = cx.tensor((1, "seq"), "int64", "tokens")
        cache = KVCache(cx, sizes["capacity"])
        logits = model(tokens, cache=cache).retrieve()
        cx.compile(ll.GenericCompiler(), ll.CPUCompiler(threads=self.threads))
        token, positions = d["tokens"], cycle(range(1, sizes["capacity"] - 1))
        cache.begin()

        def run() -> Any:
            cache.begin(next(positions))
            tokens.set(token)
            cx.execute()
            return logits

        return self.outside(cx, ReadyWorkload(run, lambda result: [result.numpy().copy()]))

    def call_execute(self, sizes: Sizes, d: Arrays) -> ReadyWorkload:
        cx = ll.Graph()
        x = cx.tensor(d["x"].shape, name="x")
        y = (x * 2 + 1).retrieve()
        cx.compile(ll.GenericCompiler(), ll.CPUCompiler(threads=self.threads))

        def run() -> Any:
            x.set(d["x"])
            cx.execute()
            return y

        return self.outside(cx, ReadyWorkload(run, lambda result: [result.numpy().copy()]))

    def call_function(self, sizes: Sizes, d: Arrays) -> ReadyWorkload:
        cx = ll.Graph()
        (cx.tensor(d["x"].shape, name="x") * 2 + 1).retrieve()
        cx.compile(ll.GenericCompiler(), ll.CPUCompiler(threads=self.threads))
        function, x = cx.as_function(), d["x"]
        return self.outside(cx, ReadyWorkload(lambda: function(x), lambda result: [result]))

    # -- training ----------------------------------------------------------------------------------

    def train_cnn(self, sizes: Sizes, d: Arrays) -> ReadyWorkload:
        model = models.CNN()
        give(model, d, copy=True)
        cx = ll.Graph()
        images = cx.tensor(d["images"].shape, name="images")
        labels = cx.tensor(d["labels"].shape, "int64", "labels")
        loss = nn.cross_entropy(model(images), labels)
        nn.SGD(0.01, 0.9).minimise(loss)
        return self.compiled(cx, loss, {"images": d["images"], "labels": d["labels"]})

    def train_gpt(self, sizes: Sizes, d: Arrays) -> ReadyWorkload:
        model = gpt2_model(sizes, d, copy=True)
        cx = ll.Graph()
        tokens = cx.tensor(d["tokens"].shape, "int64", "tokens")
        following = cx.tensor(d["following"].shape, "int64", "following")
        loss = nn.cross_entropy(model(tokens), following, axis=-1)
        nn.AdamW(1e-3).minimise(loss)
        return self.compiled(cx, loss, {n: d[n] for n in ("tokens", "following")})


def gpt2_model(sizes: Sizes, d: Arrays, *, copy: bool = False) -> models.GPT2:
    """Return our GPT-2 with the weights that were drawn."""
    model = models.GPT2(
        layers=sizes["layers"],
        heads=sizes["heads"],
        width=sizes["width"],
        vocab=sizes["vocab"],
        context=sizes["context"],
    )
    give(model, {n: w for n, w in d.items() if n not in ("tokens", "following")}, copy=copy)
    return model


def llama_model(sizes: Sizes, d: Arrays) -> models.Llama:
    """Return our Llama with the weights that were drawn."""
    model = models.Llama(
        layers=sizes["layers"],
        heads=sizes["heads"],
        kv_heads=sizes["kv_heads"],
        width=sizes["width"],
        hidden=sizes["hidden"],
        vocab=sizes["vocab"],
        context=sizes["capacity"],
        base=500_000.0,
        tied=True,
    )
    give(model, d)
    return model


def give(model: nn.Module, weights: Arrays, *, copy: bool = False) -> None:
    """Make a model use the drawn weights in place, unless they are for training or in blocks."""
    for name, parameter in model.parameters().items():
        if name in weights:
            parameter.set(weights[name], copy=copy)
        else:
            parameter.set(blocks(weights[f"{name}.q"], weights[f"{name}.scale"]))


def blocks(q: Any, scale: Any) -> Blocks:
    """Return int8 values [rows, columns] and their scales as blocks of Q8_0."""
    raw = np.concatenate(
        [scale[..., None].view(np.uint8), q.reshape(*scale.shape, -1).view(np.uint8)], -1
    )
    return Blocks("q8_0", raw.reshape(len(q), -1), q.shape)


def no_results(_: object) -> list[Array]:
    """Return no results."""
    return []


def read_last(logits: Array) -> list[Array]:
    """Return the logits of the last position."""
    return [np.array(logits)]


def decoding(
    path: str, capacity: int, threads: int, activations: Activations = "float32"
) -> Decoding:
    """Return a model from a file, compiled for any prompt and any step, and its cache."""
    file = model_file(path)
    model = load_decoder(from_gguf(file.entries, file), file)
    device = ll.CPUCompiler(threads=threads, reuse_outputs=True)
    decoding = Decoding(model, capacity, device, activations)
    decoding.compile()
    return decoding


def launches(cx: ll.Graph) -> dict[str, float]:
    """Return how many launches there are."""
    program = cx.compilation.runner
    return {"launches": len(program.launches)} if isinstance(program, CPUProgram) else {}

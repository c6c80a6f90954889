"""The table of workloads: one line each, in the sizes of a full run and of a quick one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import prod
from typing import Any, TypeAlias

import numpy as np

from luminal_lab.bench import model_data
from luminal_lab.bench.rows import SHARE
from luminal_lab.bench.workload import GRAPHS, Arrays, Cost, Sizes, Workload
from luminal_lab.core.dtypes import DType
from luminal_lab.passes.pipeline import LICENCE

F32, HALF = 4, 2
"""The bytes of a float32, and of a float of 16 bits."""
Data: TypeAlias = Callable[[Sizes, np.random.Generator], Arrays]
Shapes: TypeAlias = dict[str, tuple[int, ...]]


def workloads(quick: bool = False) -> tuple[Workload, ...]:
    """Return all workloads in the order of the table; `quick` gives them smaller sizes."""
    usual = _by_rows, _products, _mixing, _models
    parts = *usual, _odd, _axes, _halves, _small, calls, _compiling
    return tuple(workload for part in parts for workload in part(quick))


# -- data ------------------------------------------------------------------------------------------


def normal(shapes: Callable[[Sizes], Shapes]) -> Data:
    """Return a function that draws normal float32 numbers of some shapes."""

    def draw(sizes: Sizes, rng: np.random.Generator) -> Arrays:
        return {n: rng.standard_normal(s, np.float32) for n, s in shapes(sizes).items()}

    return draw


def uniform(shapes: Callable[[Sizes], Shapes]) -> Data:
    """Return a function that draws numbers between -1 and 1."""

    def draw(sizes: Sizes, rng: np.random.Generator) -> Arrays:
        return {n: rng.random(s, np.float32) * 2 - 1 for n, s in shapes(sizes).items()}

    return draw


def scaled(data: Data, names: str, factor: float) -> Data:
    """Return a function that draws the same, and makes some of it smaller, as weights are."""

    def draw(sizes: Sizes, rng: np.random.Generator) -> Arrays:
        drawn = data(sizes, rng)
        for name in names.split():
            drawn[name] = drawn[name] * np.float32(factor)
        return drawn

    return draw


def rounded(data: Data, dtype: str) -> Data:
    """Return a function that draws the same in another dtype."""

    def draw(sizes: Sizes, rng: np.random.Generator) -> Arrays:
        return {n: array.astype(DType(dtype).numpy) for n, array in data(sizes, rng).items()}

    return draw


# -- operations ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Form:
    """A kind of computation: its words, its arrays, and its operations."""

    about: str
    shapes: Callable[[Sizes], Shapes]
    result: Callable[[Sizes], tuple[int, ...]]
    flops: Callable[[Sizes], int]
    draw: Callable[[Callable[[Sizes], Shapes]], Data] = normal
    weights: str = ""
    """The arrays that are scaled as weights are, by the size of the `width`."""


def _table(s: Sizes) -> tuple[int, int]:
    return s["rows"], s["columns"]


def _block(s: Sizes) -> tuple[int, int, int]:
    return s["outer"], s["axis"], s["inner"]


def _flops(each: int) -> Callable[[Sizes], int]:
    """Return a function that counts so many operations for each element."""
    return lambda s: each * prod(_block(s) if "axis" in s else _table(s))


def _mlp(s: Sizes) -> Shapes:
    width, hidden = s["width"], s["hidden"]
    x = {"x": (s["rows"], width)}
    return x | {
        "up": (width, hidden),
        "up_bias": (hidden,),
        "down": (hidden, width),
        "down_bias": (width,),
    }


TABLE = "{rows}x{columns}"
BLOCK_OF = "axis 1 of {outer}x{axis}x{inner}"
FORMS: dict[str, Form] = {
    "add": Form(f"x + y of {TABLE}", lambda s: dict.fromkeys("xy", _table(s)), _table, _flops(1)),
    "gelu": Form(f"gelu (by tanh) over {TABLE}", lambda s: {"x": _table(s)}, _table, _flops(9)),
    "softmax": Form(
        f"softmax of each row over {TABLE}", lambda s: {"x": _table(s)}, _table, _flops(5)
    ),
    "layer_norm": Form(
        f"layer norm over {TABLE}",
        lambda s: {"x": _table(s)} | dict.fromkeys(("weight", "bias"), (s["columns"],)),
        _table,
        _flops(7),
    ),
    "rms_norm": Form(
        f"RMS norm over {TABLE}",
        lambda s: {"x": _table(s), "weight": (s["columns"],)},
        _table,
        _flops(4),
    ),
    "chain": Form(
        f"a chain of 12 elementwise operations over {TABLE}",
        lambda s: dict.fromkeys("xy", _table(s)),
        _table,
        _flops(12),
        uniform,
    ),
    "sum_rows": Form(
        f"sum of each row over {TABLE}",
        lambda s: {"x": _table(s)},
        lambda s: (s["rows"],),
        _flops(1),
    ),
    "sum_columns": Form(
        f"sum of each column over {TABLE}",
        lambda s: {"x": _table(s)},
        lambda s: (s["columns"],),
        _flops(1),
    ),
    "transpose": Form(
        f"a copy of {TABLE}, transposed",
        lambda s: {"x": _table(s)},
        lambda s: (s["columns"], s["rows"]),
        _flops(0),
    ),
    "softmax_axis": Form(
        f"softmax along {BLOCK_OF}", lambda s: {"x": _block(s)}, _block, _flops(5)
    ),
    "layer_norm_axis": Form(
        f"layer norm along {BLOCK_OF}",
        lambda s: {"x": _block(s)} | dict.fromkeys(("weight", "bias"), (s["axis"],)),
        _block,
        _flops(7),
    ),
    "sum_axis": Form(
        f"sum along {BLOCK_OF}",
        lambda s: {"x": _block(s)},
        lambda s: (s["outer"], s["inner"]),
        _flops(1),
    ),
    "matmul": Form(
        "matmul of {m}x{k} and {k}x{n}",
        lambda s: {"a": (s["m"], s["k"]), "b": (s["k"], s["n"])},
        lambda s: (s["m"], s["n"]),
        lambda s: 2 * s["m"] * s["k"] * s["n"],
    ),
    "mlp": Form(
        "two linear layers with gelu between, {rows}x{width} to {hidden} to {width}",
        _mlp,
        lambda s: (s["rows"], s["width"]),
        lambda s: 4 * s["rows"] * s["width"] * s["hidden"],
        weights="up down",
    ),
    "linear_gelu": Form(
        "a linear layer with gelu, x @ weight.T, {rows}x{width} to {hidden}",
        lambda s: {
            "x": (s["rows"], s["width"]),
            "weight": (s["hidden"], s["width"]),
            "bias": (s["hidden"],),
        },
        lambda s: (s["rows"], s["hidden"]),
        lambda s: (2 * s["width"] + 10) * s["rows"] * s["hidden"],
        weights="weight",
    ),
}
"""What the rows of plain operations compute; models have functions of their own."""


def operation(name: str, sizes: Sizes, kind: str = "", dtype: str = "", **more: Any) -> Workload:
    """Return a row for one of the `FORMS`, by default the one of its name."""
    kind = kind or name.replace("-", "_")
    form = FORMS[kind]
    data = form.draw(form.shapes)
    if form.weights:
        data = scaled(data, form.weights, sizes["width"] ** -0.5)
    if dtype:
        data = rounded(data, dtype)
    bytes_each = HALF if dtype else F32
    return Workload(
        name,
        kind,
        form.about.format(**sizes) + f", in {dtype}" * bool(dtype),
        sizes,
        data,
        Cost(
            form.flops(sizes),
            bytes_each * sum(map(prod, form.shapes(sizes).values())),
            bytes_each * prod(form.result(sizes)),
        ),
        **more,
    )


def _by_rows(quick: bool) -> Iterator[Workload]:
    sizes = {"rows": 64, "columns": 256} if quick else {"rows": 2048, "columns": 4096}
    yield operation("gelu", sizes)
    yield operation("softmax", sizes, variants=("any rows", "specialised"))
    for name in ("layer-norm", "rms-norm", "chain", "sum-rows"):
        yield operation(name, sizes)
    yield operation("sum-columns", sizes, tolerance=3e-5)


def _products(quick: bool) -> Iterator[Workload]:
    small = {"256": 32, "512": 48, "1024": 64, "2048": 96}
    for name in [*small, "128x768x3072"]:
        m, k, n = (int(size) for size in (name.split("x") * 3)[:3])
        if quick:
            m, k, n = (small[name],) * 3 if name in small else (32, 48, 80)
        sizes = {"m": m, "k": k, "n": n}
        yield operation(f"matmul-{name}", sizes, "matmul", is_call=name == "256")
    rows, width, hidden = (16, 32, 64) if quick else (128, 768, 3072)
    for name in ("mlp", "linear-gelu"):
        sizes = {"rows": rows, "width": width, "hidden": hidden}
        yield operation(name, sizes, variants=("any rows", "specialised"))


# -- what users run besides ------------------------------------------------------------------------

NO_HALVES = "NumPy computes halves one by one in software, and rounds every step to them"
NO_BFLOAT16 = "ONNX Runtime has no kernels for bfloat16 on a CPU"


def _odd(quick: bool) -> Iterator[Workload]:
    """Yield sizes that are no powers of two, batches of all kinds, and very long rows."""
    more: dict[str, Any] = {"family": "odd sizes", "seconds": 0.2, "is_call": True}
    for name in ("17x1000x999", "100", "4096x64x64"):
        m, k, n = (int(size) for size in (name.split("x") * 3)[:3])
        m, k, n = (min(m, 33), min(k, 50), min(n, 49)) if quick else (m, k, n)
        sizes = {"m": m, "k": k, "n": n}
        yield operation(f"matmul-{name}", sizes, "matmul", **more)
    for batch in (1, 3, 64):
        width, hidden = (32, 48) if quick else (768, 3072)
        sizes = {"rows": batch, "width": width, "hidden": hidden}
        yield operation(f"mlp-batch-{batch}", sizes, "mlp", **more)
    sizes = {"rows": 3, "columns": 257} if quick else {"rows": 64, "columns": 50_257}
    for name in ("softmax", "layer-norm", "sum-rows"):
        kind = name.replace("-", "_")
        yield operation(f"{name}-50257", sizes, kind, tolerance=3e-5, **more)
    sizes = {"rows": 5, "columns": 77} if quick else {"rows": 999, "columns": 1001}
    yield operation("gelu-999x1001", sizes, "gelu", **more)


def _axes(quick: bool) -> Iterator[Workload]:
    """Yield what runs along an axis that is not the last."""
    more: dict[str, Any] = {"family": "other axes", "seconds": 0.2}
    for name, outer, axis, inner in (
        ("softmax-axis-0", 1, 2048, 1000),
        ("softmax-axis-1", 16, 300, 512),
        ("layer-norm-axis-1", 8, 96, 3136),
        ("sum-axis-1", 64, 128, 999),
    ):
        sizes = {"outer": outer, "axis": axis, "inner": inner}
        if quick:
            sizes = {"outer": min(outer, 3), "axis": 20, "inner": 33}
        kind = name[:-2].replace("-", "_")
        yield operation(name, sizes, kind, tolerance=3e-5, **more)
    sizes = {"rows": 31, "columns": 65} if quick else {"rows": 2047, "columns": 3001}
    yield operation("transpose", sizes, **more)


def _halves(quick: bool) -> Iterator[Workload]:
    """Yield operations on numbers of 16 bits."""
    rows = {"rows": 16, "columns": 64} if quick else {"rows": 2048, "columns": 4096}
    product = dict.fromkeys("mkn", 32 if quick else 512)
    layers = {"rows": 8, "width": 32, "hidden": 64}
    layers = layers if quick else {"rows": 128, "width": 768, "hidden": 3072}
    for kind, sizes, dtypes in (
        ("gelu", rows, "float16 bfloat16"),
        ("softmax", rows, "float16 bfloat16"),
        ("layer-norm", rows, "float16 bfloat16"),
        ("matmul", product, "float16 bfloat16"),
        ("linear-gelu", layers, "bfloat16"),
    ):
        for dtype in dtypes.split():
            left_out = {"NumPy": NO_HALVES}
            left_out |= {"ONNX Runtime": NO_BFLOAT16} if dtype == "bfloat16" else {}
            yield operation(
                f"{kind}-{dtype}",
                sizes,
                kind.replace("-", "_"),
                dtype,
                family="half precision",
                seconds=0.2,
                # A few units in the last place, of which there are 11 bits, or 8.
                tolerance=2e-2 if dtype == "bfloat16" else 3e-3,
                left_out=left_out,
                # PyTorch's products of bfloat16 take subnormal numbers as 0.
                licence=(*LICENCE, "no_subnormal") if dtype == "bfloat16" else LICENCE,
            )


def _small(quick: bool) -> Iterator[Workload]:
    """Yield graphs so small that calls are what takes time."""
    rows = {"rows": 1, "columns": 64}
    for kind, sizes in (
        ("add", rows),
        ("softmax", rows),
        ("chain", rows),
        ("mlp", {"rows": 1, "width": 16, "hidden": 32}),
    ):
        yield operation(
            f"small-{kind}", sizes, kind, family="small graphs", seconds=0.1, is_call=True
        )


def _mixing(quick: bool) -> Iterator[Workload]:
    heads, length, size = (2, 32, 16) if quick else (12, 1024, 64)
    sizes = {"heads": heads, "length": length, "size": size}
    all_heads = (heads, length, size)
    bytes_each = F32 * prod(all_heads)
    for is_causal in (0, 1):
        pairs = length * (length + 1) // 2 if is_causal else length * length
        yield Workload(
            "attention-causal" if is_causal else "attention",
            "attention",
            f"{'causal ' * is_causal}attention, {heads} heads of {length}x{size}",
            {**sizes, "causal": is_causal},
            normal(lambda s: dict.fromkeys("qkv", all_heads)),
            Cost(heads * pairs * (4 * size + 5), 3 * bytes_each, bytes_each),
        )
    channels, side = (4, 8) if quick else (64, 56)
    shapes = {"x": (1, channels, side, side), "weight": (channels, channels, 3, 3)}
    yield Workload(
        "conv",
        "conv",
        f"convolution 3x3, {channels} to {channels} channels of {side}x{side}",
        {"channels": channels, "side": side},
        scaled(normal(lambda s: shapes), "weight", (9 * channels) ** -0.5),
        Cost(
            2 * 9 * channels * channels * side * side,
            F32 * sum(prod(shape) for shape in shapes.values()),
            F32 * channels * side * side,
        ),
    )


# -- models ----------------------------------------------------------------------------------------

GPT2_SMALL = {"layers": 12, "heads": 12, "width": 768, "vocab": 50257, "context": 1024, "seq": 128}
GPT2_QUICK = {"layers": 2, "heads": 2, "width": 32, "vocab": 64, "context": 32, "seq": 16}
LLAMA_1B = {
    "layers": 16,
    "heads": 32,
    "kv_heads": 8,
    "width": 2048,
    "hidden": 8192,
    "vocab": 128_256,
    "capacity": 512,
}
LLAMA_QUICK = {
    "layers": 2,
    "heads": 4,
    "kv_heads": 2,
    "width": 64,
    "hidden": 128,
    "vocab": 128,
    "capacity": 32,
}
FILLED = 16
EIGHTH = "an eighth of the cache"
BLOCK = 32
"""The weights that share a scale in Q8_0."""


def _models(quick: bool) -> Iterator[Workload]:
    gpt2 = GPT2_QUICK if quick else GPT2_SMALL
    yield Workload(
        "gpt2",
        "gpt2",
        f"GPT-2, {gpt2['layers']} layers of {gpt2['width']}, forward, {gpt2['seq']} tokens",
        gpt2,
        model_data.gpt2,
        model_data.gpt2_cost(gpt2),
        is_model=True,
        tolerance=1e-3,
        variants=("any seq", "specialised"),
        seconds=1.5,
    )
    llama = LLAMA_QUICK if quick else LLAMA_1B
    step = f"{llama['layers']} layers of {llama['width']}, cache of {llama['capacity']} tokens"
    yield Workload(
        "llama-decode",
        "llama",
        f"one decode step of a Llama of 1B's shape in float32, {step}",
        llama,
        model_data.llama,
        model_data.llama_cost(llama, weight_bytes=4.0),
        is_model=True,
        tolerance=1e-3,
        seconds=2.0,
    )
    yield Workload(
        "llama-decode-q8",
        "llama_q8",
        f"the same with weights in Q8_0 (int8, a scale for {BLOCK})",
        llama,
        model_data.llama_q8,
        model_data.llama_cost(llama, weight_bytes=1 + 2 / BLOCK),
        # Libraries may round what goes into a product to int8, too.
        is_model=True,
        tolerance=6e-2,  # ONNX Runtime rounds the other factor to eight bits, too
        seconds=2.0,
    )
    cnn = {"batch": 8 if quick else 64}
    yield Workload(
        "train-cnn",
        "train_cnn",
        f"a training step of the digits CNN, batch {cnn['batch']}, SGD with momentum",
        cnn,
        model_data.cnn,
        model_data.cnn_cost(cnn),
        is_model=True,
        tolerance=1e-3,
        calls=3,
    )
    gpt = {"layers": 4, "heads": 8, "width": 256, "vocab": 512, "context": 128, "batch": 4}
    if quick:
        gpt |= {"layers": 1, "heads": 2, "width": 16, "vocab": 32, "context": 16, "batch": 2}
    yield Workload(
        "train-gpt",
        "train_gpt",
        f"a training step of a GPT, {gpt['layers']} layers of {gpt['width']}, "
        f"batch {gpt['batch']}x{gpt['context']}, AdamW",
        gpt,
        model_data.gpt,
        model_data.gpt_cost(gpt),
        is_model=True,
        tolerance=1e-3,
        calls=3,
        seconds=1.5,
    )
    # Few layers: a step writes the same amount in each.
    few = {**LLAMA_QUICK, "capacity": 8 * llama["capacity"]}
    yield Workload(
        "decode-cache",
        "decode_cache",
        f"a decode step of a small Llama, {FILLED} tokens in a cache of {few['capacity']}",
        few,
        model_data.llama,
        model_data.llama_cost({**few, "capacity": FILLED}, weight_bytes=4.0),
        is_model=True,
        tolerance=1e-3,
        variants=(EIGHTH,),
        has_peers=False,
    )


def calls(quick: bool) -> Iterator[Workload]:
    """Yield the rows that measure what a call costs outside of the kernels."""
    deep = {**LLAMA_QUICK, "layers": 2 if quick else 30, "capacity": 512}
    rows = (
        (
            "call-step",
            f"a decode step of {deep['layers']} small layers, a new past each time",
            deep,
        ),
        ("call-execute", "x.set(…) and cx.execute() of a small graph", {"size": 64}),
        ("call-function", "cx.as_function() of a small graph, called", {"size": 64}),
    )
    for name, about, sizes in rows:
        yield Workload(
            name,
            name.replace("-", "_"),
            f"{about}, without the time in kernels",
            sizes,
            model_data.llama if name == "call-step" else normal(lambda s: {"x": (1, s["size"])}),
            Cost(0, 0, 0),
            is_model=name == "call-step",
            has_peers=False,
            tolerance=1e-3,
            goals={"ms": 0.3} if name == "call-step" else {},
        )


BY_ITSELF = "import", "compile-unawaited", "compile-snapshots"
"""The rows whose description is whole."""


def _compiling(quick: bool) -> Iterator[Workload]:
    gpt2 = GPT2_QUICK if quick else GPT2_SMALL
    for name, about, state, most in (
        ("cold", "nothing cached", {"cached": 0}, 1_500.0),
        ("cached", "from the cache on disk", {"cached": 1}, 400.0),
        ("kept", "from the cache on disk, with keep=True", {"cached": 1, "kept": 1}, 400.0),
    ):
        yield Workload(
            f"compile-{name}",
            "compile_gpt2",
            f"GPT-2 of {gpt2['layers']} layers from the model to its first result, {about}",
            {**gpt2, **state},
            model_data.gpt2,
            Cost(0, 0, 0),
            is_model=True,
            tolerance=1e-3,
            is_alone=True,
            goals={"ms": most},
        )
    small = {"size": 64, "cached": 0}
    net = {"channels": 8, "side": 8, "blocks": 2} if quick else {}
    net = net or {"channels": 64, "side": 28, "blocks": 24}
    rows = (
        ("import", "importing", "import luminal_lab, after NumPy", {"cached": 1}, 60.0),
        ("compile-ten-cold", "compile_ten", "a graph of ten ops, nothing cached", small, 250.0),
        (
            "compile-unawaited",
            "compile_unawaited",
            "the first values of a graph of ten ops, nothing cached, with wait=False",
            small,
            None,
        ),
        ("compile-known", "compile_known", "a new graph of kernels that are known", small, 50.0),
        (
            "compile-gpt2-train-cached",
            "compile_training",
            f"a training step of GPT-2 of {gpt2['layers']} layers, from the cache on disk",
            {**gpt2, "cached": 1},
            1000.0,
        ),
        (
            "compile-gpt2-train-kept",
            "compile_training",
            f"a training step of GPT-2 of {gpt2['layers']} layers, with keep=True, from the cache",
            {**gpt2, "cached": 1, "kept": 1},
            1000.0,
        ),
        (
            "compile-snapshots",
            "compile_snapshots",
            "what the snapshots take of compiling that training step",
            {**gpt2, "cached": 1},
            20.0,
        ),
        (
            "compile-convnet-cold",
            "compile_convnet",
            f"{3 * net['blocks']} convolutions of different sizes, nothing cached",
            {**net, "cached": 0},
            3000.0,
        ),
    )
    yield Workload(
        "build-gpt2",
        "build_gpt2",
        f"the graph of a GPT-2 of {gpt2['layers']} layers, written",
        gpt2,
        model_data.gpt2,
        Cost(0, 0, 0),
        is_model=True,
        family=GRAPHS,
        goals={"ms": 10.9},  # 2,179 nodes, 200,000 a second
    )
    for name, kind, about, sizes, most in rows:
        yield Workload(
            name,
            kind,
            about if name in BY_ITSELF else f"{about}, written and compiled",
            sizes,
            normal(lambda s: {"x": (1, 1)}),
            Cost(0, 0, 0),
            is_alone=True,
            has_peers=False,
            goals={} if most is None else {SHARE if name == "compile-snapshots" else "ms": most},
        )

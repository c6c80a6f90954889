"""The table of workloads: one line each, in the sizes of a full run and of a quick one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import prod

import numpy as np

from luminal_lab.bench import model_data
from luminal_lab.bench.workload import Arrays, Cost, Sizes, Workload

F32 = 4
"""The bytes of a float32."""
Data = Callable[[Sizes, np.random.Generator], Arrays]


def workloads(quick: bool = False) -> tuple[Workload, ...]:
    """Return all workloads in the order of the table; `quick` gives them smaller sizes."""
    parts = _by_rows, _products, _mixing, _models, calls, _compiling
    return tuple(workload for part in parts for workload in part(quick))


# -- data ------------------------------------------------------------------------------------------


def normal(shapes: Callable[[Sizes], dict[str, tuple[int, ...]]]) -> Data:
    """Return a function that draws normal float32 numbers of some shapes."""

    def draw(sizes: Sizes, rng: np.random.Generator) -> Arrays:
        return {n: rng.standard_normal(s, np.float32) for n, s in shapes(sizes).items()}

    return draw


def uniform(*names: str) -> Data:
    """Return a function that draws arrays [rows, columns] of numbers between -1 and 1."""

    def draw(sizes: Sizes, rng: np.random.Generator) -> Arrays:
        shape = sizes["rows"], sizes["columns"]
        return {name: rng.random(shape, np.float32) * 2 - 1 for name in names}

    return draw


def scaled(data: Data, names: str, factor: float) -> Data:
    """Return a function that draws the same, and makes some of it smaller, as weights are."""

    def draw(sizes: Sizes, rng: np.random.Generator) -> Arrays:
        drawn = data(sizes, rng)
        for name in names.split():
            drawn[name] = drawn[name] * np.float32(factor)
        return drawn

    return draw


# -- elementwise operations and reductions ---------------------------------------------------------


def _by_rows(quick: bool) -> Iterator[Workload]:
    rows, columns = (64, 256) if quick else (2048, 4096)
    sizes = {"rows": rows, "columns": columns}
    n, bytes_each = rows * columns, F32 * rows * columns
    plain = normal(lambda s: {"x": (s["rows"], s["columns"])})
    weighed = normal(lambda s: {"x": (s["rows"], s["columns"]), "weight": (s["columns"],)})
    both = normal(
        lambda s: {
            "x": (s["rows"], s["columns"]),
            "weight": (s["columns"],),
            "bias": (s["columns"],),
        }
    )
    of = f"over {rows}x{columns}"
    yield Workload(
        "gelu", "gelu", f"gelu (by tanh) {of}", sizes, plain, Cost(9 * n, bytes_each, bytes_each)
    )
    yield Workload(
        "softmax",
        "softmax",
        f"softmax of each row {of}",
        sizes,
        plain,
        Cost(5 * n, bytes_each, bytes_each),
        variants=("any rows", "specialised"),
    )
    yield Workload(
        "layer-norm",
        "layer_norm",
        f"layer norm {of}",
        sizes,
        both,
        Cost(7 * n, bytes_each, bytes_each),
    )
    yield Workload(
        "rms-norm",
        "rms_norm",
        f"RMS norm {of}",
        sizes,
        weighed,
        Cost(4 * n, bytes_each, bytes_each),
    )
    yield Workload(
        "chain",
        "chain",
        f"a chain of 12 elementwise operations {of}",
        sizes,
        uniform("x", "y"),
        Cost(12 * n, 2 * bytes_each, bytes_each),
    )
    yield Workload(
        "sum-rows",
        "sum_rows",
        f"sum of each row {of}",
        sizes,
        plain,
        Cost(n, bytes_each, F32 * rows),
    )
    yield Workload(
        "sum-columns",
        "sum_columns",
        f"sum of each column {of}",
        sizes,
        plain,
        Cost(n, bytes_each, F32 * columns),
        tolerance=3e-5,
    )


# -- products --------------------------------------------------------------------------------------


def _products(quick: bool) -> Iterator[Workload]:
    small = {"256": 32, "512": 48, "1024": 64, "2048": 96}
    for name in [*small, "128x768x3072"]:
        m, k, n = (int(size) for size in (name.split("x") * 3)[:3])
        if quick:
            m, k, n = (small[name],) * 3 if name in small else (32, 48, 80)
        sizes = {"m": m, "k": k, "n": n}
        yield Workload(
            f"matmul-{name}",
            "matmul",
            f"matmul of {m}x{k} and {k}x{n}",
            sizes,
            normal(lambda s: {"a": (s["m"], s["k"]), "b": (s["k"], s["n"])}),
            Cost(2 * m * k * n, F32 * (m * k + k * n), F32 * m * n),
        )
    rows, width, hidden = (16, 32, 64) if quick else (128, 768, 3072)
    shapes = {
        "x": (rows, width),
        "up": (width, hidden),
        "up_bias": (hidden,),
        "down": (hidden, width),
        "down_bias": (width,),
    }
    yield Workload(
        "mlp",
        "mlp",
        f"two linear layers with gelu between, {rows}x{width} to {hidden} to {width}",
        {"rows": rows, "width": width, "hidden": hidden},
        scaled(normal(lambda s: shapes), "up down", width**-0.5),
        Cost(
            4 * rows * width * hidden,
            F32 * sum(prod(shape) for shape in shapes.values()),
            F32 * rows * width,
        ),
        variants=("any rows", "specialised"),
    )
    shapes_of_linear = {"x": (rows, width), "weight": (hidden, width), "bias": (hidden,)}
    yield Workload(
        "linear-gelu",
        "linear_gelu",
        f"a linear layer with gelu, x @ weight.T, {rows}x{width} to {hidden}",
        {"rows": rows, "width": width, "hidden": hidden},
        scaled(normal(lambda s: shapes_of_linear), "weight", width**-0.5),
        Cost(
            (2 * width + 10) * rows * hidden,
            F32 * sum(prod(shape) for shape in shapes_of_linear.values()),
            F32 * rows * hidden,
        ),
        variants=("any rows", "specialised"),
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
        ("call-execute", "cx.execute() of a small graph", {"size": 64}),
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


def _compiling(quick: bool) -> Iterator[Workload]:
    gpt2 = GPT2_QUICK if quick else GPT2_SMALL
    for cached, about in enumerate(("nothing cached", "from the cache on disk")):
        yield Workload(
            "compile-cached" if cached else "compile-cold",
            "compile_gpt2",
            f"GPT-2 of {gpt2['layers']} layers from the model to its first result, {about}",
            {**gpt2, "cached": cached},
            model_data.gpt2,
            Cost(0, 0, 0),
            is_model=True,
            tolerance=1e-3,
            is_alone=True,
            goals={"ms": 400.0 if cached else 1_500.0},
        )
    small = {"size": 64, "cached": 0}
    net = {"channels": 8, "side": 8, "blocks": 2} if quick else {}
    net = net or {"channels": 64, "side": 28, "blocks": 24}
    rows = (
        ("import", "importing", "import luminal_lab, after NumPy", {"cached": 1}, 60.0),
        ("compile-ten-cold", "compile_ten", "a graph of ten ops, nothing cached", small, 250.0),
        ("compile-known", "compile_known", "a new graph of kernels that are known", small, 50.0),
        (
            "compile-gpt2-train-cached",
            "compile_training",
            f"a training step of GPT-2 of {gpt2['layers']} layers, from the cache on disk",
            {**gpt2, "cached": 1},
            1000.0,
        ),
        (
            "compile-convnet-cold",
            "compile_convnet",
            f"{3 * net['blocks']} convolutions of different sizes, nothing cached",
            {**net, "cached": 0},
            3000.0,
        ),
    )
    for name, kind, about, sizes, most in rows:
        yield Workload(
            name,
            kind,
            about if name == "import" else f"{about}, written and compiled",
            sizes,
            normal(lambda s: {"x": (1, 1)}),
            Cost(0, 0, 0),
            is_alone=True,
            has_peers=False,
            goals={"ms": most},
        )

"""ONNX Runtime: a graph of its own fused operators, its inputs and outputs bound to memory."""

from __future__ import annotations

# Results are of any type, those of lambdas too.
# pyright: reportUnknownLambdaType=false, reportUnknownMemberType=false
# pyright: reportUnknownArgumentType=false
from importlib import import_module
from itertools import cycle
from typing import Any

import numpy as np

from luminal_lab.bench.peers.numpy import turns
from luminal_lab.bench.peers.onnx_decoder import ENDS, DecoderWriter, empty_caches
from luminal_lab.bench.peers.peer import NO_GRAPH, Peer, ReadyWorkload
from luminal_lab.bench.workload import Arrays, Sizes, Workload
from luminal_lab.core.dtypes import Array

NO_TRAINING = "ONNX Runtime's package for training is another one, and has no wheels any more"
OPSET = 23
CONTRIB = "com.microsoft"
INNER = 1024
"""The bytes from which on a constant lies outside of the model."""


class GraphWriter:
    """An ONNX graph in the making: names for values, nodes between them."""

    def __init__(self) -> None:
        self.onnx: Any = import_module("onnx")
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self.outer: dict[str, Array] = {}
        """The large constants, whose memory a session takes as it is: a model has 2 GB at most."""
        self.inputs: dict[str, Array] = {}

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of outputs: that of the first input of floats."""
        floats = (array.dtype for array in self.inputs.values() if array.dtype.kind == "f")
        return next(floats, np.dtype(np.float32))

    def input(self, name: str, value: Array) -> str:
        """Declare an input, with the memory that it is bound to."""
        self.inputs[name] = value
        return name

    def constant(self, value: Array, name: str = "") -> str:
        """Declare a weight, which may be packed once and for all."""
        name, value = name or f"constant{len(self.constants)}", np.ascontiguousarray(value)
        if value.nbytes < INNER:
            self.constants.append(self.onnx.numpy_helper.from_array(value, name))
            return name
        self.outer[name] = value
        number = self.onnx.helper.np_dtype_to_tensor_dtype(value.dtype)
        tensor = self.onnx.TensorProto(name=name, data_type=number, dims=value.shape)
        tensor.data_location = self.onnx.TensorProto.EXTERNAL
        tensor.external_data.add(key="location", value=name)
        self.constants.append(tensor)
        return name

    def node(self, op: str, *sources: str, results: int = 1, **attributes: Any) -> Any:
        """Append a node, and return the name of its result, or the names of several."""
        names = [f"{op}{len(self.nodes)}_{k}" for k in range(results)]
        domain = (
            CONTRIB if op in ("MultiHeadAttention", "GroupQueryAttention", "MatMulNBits") else ""
        )
        node = self.onnx.helper.make_node(op, list(sources), names, domain=domain, **attributes)
        self.nodes.append(node)
        return names[0] if results == 1 else names

    def model(self, outputs: list[str], types: dict[str, Any]) -> bytes:
        """Return the model that computes some outputs."""
        helper, number = self.onnx.helper, self.onnx.helper.np_dtype_to_tensor_dtype
        inputs = [
            helper.make_tensor_value_info(name, number(value.dtype), value.shape)
            for name, value in self.inputs.items()
        ]
        wanted = [
            helper.make_tensor_value_info(name, number(self.dtype), types.get(name))
            for name in outputs
        ]
        graph = helper.make_graph(self.nodes, "benchmark", inputs, wanted, self.constants)
        opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid(CONTRIB, 1)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=11)
        return model.SerializeToString()


class ONNXRuntime(Peer):
    """ONNX Runtime on the CPU."""

    package = "onnxruntime"
    reasons = {
        "train_cnn": NO_TRAINING,
        "train_gpt": NO_TRAINING,
        "first_token": "ONNX Runtime reads no GGUF files",
        "build_gpt2": NO_GRAPH,
        "compile_gpt2": "ONNX Runtime starts from an exported graph, and has kernels ready",
    }

    def __init__(self, threads: int) -> None:
        super().__init__(threads)
        self.ort: Any = import_module("onnxruntime")

    def ready(
        self, written: GraphWriter, output: str, shape: tuple[int, ...], state: dict[str, str]
    ) -> ReadyWorkload:
        """Return a workload that runs a graph; `state` says which output replaces which input."""
        options = self.ort.SessionOptions()
        options.intra_op_num_threads = self.threads
        options.inter_op_num_threads = 1
        options.log_severity_level = 3
        options.graph_optimization_level = self.ort.GraphOptimizationLevel.ORT_ENABLE_ALL
        types = {output: shape} | {new: written.inputs[old].shape for new, old in state.items()}
        model = written.model([output, *state], types)
        value_of = self.ort.OrtValue.ortvalue_from_numpy
        outer = [value_of(value) for value in written.outer.values()]
        options.add_external_initializers([*written.outer], outer)
        session = self.ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        binding = session.io_binding()
        values = {name: value_of(value) for name, value in written.inputs.items()}
        for name, value in values.items():
            binding.bind_ortvalue_input(name, value)
        result = value_of(np.empty(shape, written.dtype))
        binding.bind_ortvalue_output(output, result)
        for new, old in state.items():
            binding.bind_ortvalue_output(new, values[old])

        def run(_outer: object = outer) -> Any:  # which must live as long as the session
            session.run_with_iobinding(binding)
            return result

        return ReadyWorkload(run, lambda result: [np.array(result.numpy())])

    def of(
        self, d: Arrays, op: str, *names: str, shape: tuple[int, ...] | None = None, **more: Any
    ) -> ReadyWorkload:
        """Return a workload that runs one operator; its first input is given, the rest weights."""
        written = GraphWriter()
        first, *rest = names
        sources = [written.input(first, d[first]), *(written.constant(d[n], n) for n in rest)]
        output = written.node(op, *sources, **more)
        return self.ready(written, output, d[first].shape if shape is None else shape, {})

    # -- elementwise operations and reductions -----------------------------------------------------

    def gelu(self, sizes: Sizes, d: Arrays) -> ReadyWorkload:
        return self.of(d, "Gelu", "x", approximate="tanh")

    def softmax(self, sizes: Sizes, d: Arrays) -> ReadyWorkload:
        return self.of(d, "Softmax", "x", axis=-1)

    def layer_norm(self, sizes: Sizes, d: Arrays) -> ReadyWorkload:
        return self.of(d, "LayerNormalization", "x", "weight", "bias", axis=-1, epsilon=1e-5)

    def rms_norm(self, sizes: Sizes, d: Arrays) -> ReadyWorkload:
        return self.of(d, "RMSNormalization", "x", "weight", axis=-1, epsilon=1e-5)

    def chain(self, sizes: Sizes, d: Arrays) -> ReadyWorkload:
        w = GraphWriter()
        x, y = (w.input(name, d[name]) for name in "xy")

        def number(value: float) -> str:
            return w.constant(np.array(value, np.float32))

        t = w.node("Add", w.node("Mul", x, number(1.5)), y)
        t = w.node("Sub", w.node("Sqrt", w.node("Mul", t, t)), x)
        t = w.node("Add", w.node("Mul", w.node("Relu", t), y), number(0.5))
        t = w.node("Reciprocal", w.node("Add", w.node("Exp", t), number(1.0)))
        return self.ready(w, w.node("Mul", t, x), d["x"].shape, {})

    def sum_rows(self, sizes: Sizes, d: Arrays) -> ReadyWorkload:
        return self._sum(d, 1, sizes["rows"])

    def sum_columns(self, sizes: Sizes, d: Arrays) -> ReadyWorkload:
        return self._sum(d, 0, sizes["columns"])

    def _sum(self, d: Arrays, axis: int, size: int) -> ReadyWorkload:
        axes = {**d, "axes": np.array([axis])}
        return self.of(axes, "ReduceSum", "x", "axes", shape=(size,), keepdims=0)

    def add(self, sizes: Sizes, d: Arrays) -> ReadyWorkload:
        w = GraphWriter()
        return self.ready(w, w.node("Add", *(w.input(n, d[n]) for n in "xy")), d["x"].shape, {})

    def transpose(self, sizes: Sizes, d: Arrays) -> ReadyWorkload:
        return self.of(d, "Transpose", "x", shape=(sizes["columns"], sizes["rows"]))

    # -- along the middle of three axes ------------------------------------------------------------

    def softmax_axis(self, sizes: Sizes, d: Arrays) -> ReadyWorkload:
        return self.of(d, "Softmax", "x", axis=1)

    def layer_norm_axis(self, sizes: Sizes, d: Arrays) -> ReadyWorkload:
        w = GraphWriter()
        turned = w.node("Transpose", w.input("x", d["x"]), perm=[0, 2, 1])
        parts = (w.constant(d[name], name) for name in ("weight", "bias"))
        normed = w.node("LayerNormalization", turned, *parts, axis=-1, epsilon=1e-5)
        return self.ready(w, w.node("Transpose", normed, perm=[0, 2, 1]), d["x"].shape, {})

    def sum_axis(self, sizes: Sizes, d: Arrays) -> ReadyWorkload:
        axes = {**d, "axes": np.array([1])}
        shape = sizes["outer"], sizes["inner"]
        return self.of(axes, "ReduceSum", "x", "axes", shape=shape, keepdims=0)

    # -- products ----------------------------------------------------------------------------------

    def matmul(self, sizes: Sizes, d: Arrays) -> ReadyWorkload:
        w = GraphWriter()
        output = w.node("MatMul", w.input("a", d["a"]), w.input("b", d["b"]))
        return self.ready(w, output, (sizes["m"], sizes["n"]), {})

    def mlp(self, sizes: Sizes, d: Arrays) -> ReadyWorkload:
        w = GraphWriter()
        x = w.input("x", d["x"])
        up, up_bias, down, down_bias = (
            w.constant(d[name], name) for name in ("up", "up_bias", "down", "down_bias")
        )
        bent = w.node("Gelu", w.node("Gemm", x, up, up_bias), approximate="tanh")
        return self.ready(w, w.node("Gemm", bent, down, down_bias), d["x"].shape, {})

    def linear_gelu(self, sizes: Sizes, d: Arrays) -> ReadyWorkload:
        w = GraphWriter()
        x = w.input("x", d["x"])
        weight, bias = (w.constant(d[name], name) for name in ("weight", "bias"))
        bent = w.node("Gelu", w.node("Gemm", x, weight, bias, transB=1), approximate="tanh")
        return self.ready(w, bent, (sizes["rows"], sizes["hidden"]), {})

    def attention(self, sizes: Sizes, d: Arrays) -> ReadyWorkload:
        w = GraphWriter()
        q, k, v = (w.input(name, d[name][None]) for name in "qkv")
        output = w.node("Attention", q, k, v, is_causal=sizes["causal"])
        ready = self.ready(w, output, (1, *d["q"].shape), {})
        return ReadyWorkload(ready.run, lambda result: [ready.read(result)[0][0]])

    def conv(self, sizes: Sizes, d: Arrays) -> ReadyWorkload:
        return self.of(d, "Conv", "x", "weight", pads=[1, 1, 1, 1], kernel_shape=[3, 3])

    # -- models ------------------------------------------------------------------------------------

    def gpt2(self, sizes: Sizes, d: Arrays) -> ReadyWorkload:
        w, seq, heads = GraphWriter(), sizes["seq"], sizes["heads"]

        def weight(name: str) -> str:
            return w.constant(d[name], name)

        def norm(x: str, name: str) -> str:
            parts = weight(f"{name}.weight"), weight(f"{name}.bias")
            return w.node("LayerNormalization", x, *parts, axis=-1, epsilon=1e-5)

        def linear(x: str, name: str) -> str:
            return w.node(
                "Add", w.node("MatMul", x, weight(f"{name}.weight")), weight(f"{name}.bias")
            )

        x = w.node("Gather", weight("wte.weight"), w.input("tokens", d["tokens"]))
        x = w.node("Add", x, w.constant(d["wpe.weight"][:seq]))
        for layer in range(sizes["layers"]):
            at = f"h.{layer}"
            qkv = linear(norm(x, f"{at}.ln_1"), f"{at}.attn.c_attn")
            q, k, v = w.node("Split", qkv, results=3, axis=-1, num_outputs=3)
            mixed = w.node("MultiHeadAttention", q, k, v, num_heads=heads, unidirectional=1)
            x = w.node("Add", x, linear(mixed, f"{at}.attn.c_proj"))
            up = linear(norm(x, f"{at}.ln_2"), f"{at}.mlp.c_fc")
            bent = w.node("Gelu", up, approximate="tanh")
            x = w.node("Add", x, linear(bent, f"{at}.mlp.c_proj"))
        head = w.constant(d["wte.weight"].T, "head")
        output = w.node("MatMul", norm(x, "ln_f"), head)
        return self.ready(w, output, (1, seq, sizes["vocab"]), {})

    def llama(self, sizes: Sizes, d: Arrays) -> ReadyWorkload:
        w = GraphWriter()

        def product(x: str, name: str) -> str:
            # As a constant, the weight would be packed, and be in memory twice.
            return w.node("Gemm", x, w.input(f"{name}.weight", d[f"{name}.weight"]), transB=1)

        name = "model.embed_tokens.weight"
        embedding = w.input(name, d[name])
        x = w.node("Gather", embedding, w.input("tokens", d["tokens"][0]))
        return self._decode(w, sizes, d, x, product)

    def llama_q8(self, sizes: Sizes, d: Arrays) -> ReadyWorkload:
        w = GraphWriter()

        def product(x: str, name: str) -> str:
            q, scale = d[f"{name}.weight.q"], d[f"{name}.weight.scale"]
            rows, columns = q.shape
            # It takes unsigned bytes, with 128 as zero.
            shifted = (q.view(np.uint8) ^ np.uint8(128)).reshape(rows, -1, 32)
            parts = w.constant(shifted), w.constant(scale.astype(np.float32).reshape(-1))
            sizes = {"N": rows, "K": columns, "bits": 8, "block_size": 32}
            return w.node("MatMulNBits", x, *parts, accuracy_level=4, **sizes)

        token, name = d["tokens"][0], "model.embed_tokens.weight"
        scale = d[f"{name}.scale"][token].astype(np.float32)
        row = d[f"{name}.q"][token].reshape(1, -1, 32) * scale[..., None]
        x = w.input("row", row.reshape(1, -1).astype(np.float32))
        return self._decode(w, sizes, d, x, product)

    def _decode(
        self, w: GraphWriter, sizes: Sizes, d: Arrays, x: str, product: Any
    ) -> ReadyWorkload:
        heads, kv_heads, width = sizes["heads"], sizes["kv_heads"], sizes["width"]
        last = sizes["capacity"] - 1
        angles = [turns(sizes, position) for position in range(sizes["capacity"])]
        cos, sin = (w.constant(np.stack([pair[k] for pair in angles])) for k in (0, 1))
        filled = w.constant(np.array([last], np.int32))
        total = w.constant(np.array(last + 1, np.int32))
        three = w.constant(np.array([1, 1, -1]))
        two = w.constant(np.array([1, -1]))
        state: dict[str, str] = {}

        def norm(x: str, name: str) -> str:
            weight = w.constant(d[f"{name}.weight"], f"{name}.weight")
            return w.node("RMSNormalization", x, weight, axis=-1, epsilon=1e-5)

        for layer in range(sizes["layers"]):
            at = f"model.layers.{layer}"
            y = norm(x, f"{at}.input_layernorm")
            qkv = [w.node("Reshape", product(y, f"{at}.self_attn.{c}_proj"), three) for c in "qkv"]
            caches = [
                w.input(f"cache.{layer}.{part}", d[f"cache.{layer}.{part}"].copy())
                for part in ("keys", "values")
            ]
            given = [*qkv, *caches, filled, total, cos, sin]
            options = {"num_heads": heads, "kv_num_heads": kv_heads, "do_rotary": 1}
            mixed, *new = w.node("GroupQueryAttention", *given, results=3, **options)
            state |= zip(new, caches, strict=True)
            mixed = w.node("Reshape", mixed, two)
            x = w.node("Add", x, product(mixed, f"{at}.self_attn.o_proj"))
            y = norm(x, f"{at}.post_attention_layernorm")
            gate = product(y, f"{at}.mlp.gate_proj")
            gate = w.node("Mul", gate, w.node("Sigmoid", gate))
            up = w.node("Mul", gate, product(y, f"{at}.mlp.up_proj"))
            x = w.node("Add", x, product(up, f"{at}.mlp.down_proj"))
        assert width == d["model.norm.weight"].size
        x = norm(x, "model.norm")
        name = "model.embed_tokens"
        if f"{name}.weight" in w.inputs:
            logits = w.node("Gemm", x, f"{name}.weight", transB=1)
        else:
            logits = product(x, name)
        ready = self.ready(w, logits, (1, sizes["vocab"]), state)
        return ReadyWorkload(ready.run, lambda result: [ready.read(result)[0][None]])

    # -- language models from files ----------------------------------------------------------------

    def prefill(self, workload: Workload, d: Arrays) -> ReadyWorkload:
        count = len(d["tokens"])
        caches = empty_caches(workload.sizes, count)
        return self._decoder(workload, d["tokens"], count, count, caches)[0]

    def decode(self, workload: Workload, d: Arrays) -> ReadyWorkload:
        begin, steps = workload.sizes["past"], workload.sizes["steps"]
        caches = empty_caches(workload.sizes, begin + steps)
        given = d["tokens"][:-1], begin, begin + steps, caches
        self._decoder(workload, *given)[0].run()
        given = d["tokens"][-1:], begin + 1, begin + steps, caches
        ready, ends = self._decoder(workload, *given)
        positions = cycle(range(begin, begin + steps))

        def run() -> Any:
            ends[0] = next(positions)
            return ready.run()

        return ready._replace(run=run)

    def _decoder(
        self,
        workload: Workload,
        tokens: Array,
        end: int,
        capacity: int,
        caches: dict[str, Array],
    ) -> tuple[ReadyWorkload, Array]:
        """Return a run over some tokens, and the array that says where they end."""
        written = GraphWriter()
        writer = DecoderWriter(written, workload, capacity)
        logits = writer.write(tokens, end, caches)
        ready = self.ready(written, logits, (1, workload.sizes["vocab"]), writer.state)

        def read(result: Any) -> list[Array]:
            return [ready.read(result)[0][0]]

        return ready._replace(read=read), written.inputs[ENDS]

"""ONNX files that are cut off, changed or made to harm: an error of ours, soon, and nothing run."""

import random
import time
import tracemalloc
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import luminal_lab as ll
from luminal_lab.errors import LabError
from tests.damage import check_error
from tests.importing.onnx_backend import Prepared
from tests.needs import need

onnx = need("onnx")
parser = need("onnx.parser")

MOST_SECONDS, MOST_MB = 10, 256
"""What an import may take here, in seconds of this process, whatever else the machine does."""

TEXTS = [
    """m (float[b, 3, 8, 8] x) => (float[b, 4] y)
    <float[4, 3, 3, 3] w = {W}, float[4] s = {1, 2, 3, 4}>
    { a = Conv<pads = [1, 1, 1, 1], strides = [2, 2]>(x, w)
      n = BatchNormalization(a, s, s, s, s)
      r = Relu(n)  p = MaxPool<kernel_shape = [2, 2]>(r)  g = GlobalAveragePool(p)
      y = Flatten(g) }""",
    """m (float[b, 3, 4] x) => (float[3, 1, b, 2] y)
    <float[1, 8, 4] w = {V}, float[1, 8, 2] r = {U}>
    { z = Transpose<perm = [1, 0, 2]>(x)
      y, h, c = LSTM<hidden_size = 2>(z, w, r) }""",
    """m (float[n, 4] x) => (float[n, 4] y, float[q, n, 4] all)
    { k = Constant<value = int64 {3}>()  yes = Constant<value = bool {1}>()
      y, all = Loop (k, yes, x) < body = step (int64 i, bool c, float[n, 4] s)
        => (bool on, float[n, 4] t, float[n, 4] u)
        { on = Identity(c)  t = Softmax(s)  u = Neg(t) } > }""",
    """m (float[n, m] x) => (float[p, q] y)
    { s = Shape(x)  i = Constant<value = int64 {1}>()  a = Gather(s, i)
      k = Constant<value = int64[1] {0}>()  u = Unsqueeze(a, k)
      j = Constant<value = int64[1] {-1}>()  z = Concat<axis = 0>(u, j)
      r = Reshape(x, z)  e = Einsum<equation = "ij->ji">(r)
      c = Cast<to = 1>(e)  y = ours.f<by = 2.0>(c) }""",
    """m (float[2, 3, 4] q, int64[2] t) => (float o, float[2, 3] y)
    { one = Constant<value = int64[3] {1, 1, 1}>()
      p = Pad<mode = "edge">(q, pads)  r = Resize<mode = "linear">(p, none, scales)
      m = ReduceMean<keepdims = 0, axes = [2]>(q)
      o = SoftmaxCrossEntropyLoss(m, t)
      v, w = TopK(m, two)  y = Tile(m, reps) }""",
    """m (float[1, 2, 3, 4] q, float[1, 5, 4] s, float[2, 3] l, int64[2] t) => (float[1, 2, 3, 4] y)
    { z = NegativeLogLikelihoodLoss(l, t)
      a, b, c = Attention<is_causal = 1>(q, q, q)
      r = RotaryEmbedding(a, cos, cos)
      d, e = LinearAttention<q_num_heads = 2, kv_num_heads = 2, update_rule = "linear">(s, s, s)
      f, g = CausalConvWithState(s, kernel)
      list = SequenceConstruct(r, q)
      twice = SequenceMap(list) < body = each (float[1, 2, 3, 4] i) => (float[1, 2, 3, 4] o)
        { o = Add(i, i) } >
      zero = Constant<value = int64 {0}>()  h = SequenceAt(twice, zero)
      u = Add(h, z)  v = ReduceSum(d)  w = ReduceSum(f)  x = Add(v, w)  y = Add(u, x) }""",
]


@cache
def models() -> list[Any]:
    """Return models of many ops, with their data."""
    made: list[Any] = []
    for text in TEXTS:
        text = text.replace("{W}", numbers(108)).replace("{V}", numbers(32))
        text = text.replace("{U}", numbers(16))
        functions = """<domain: "ours", opset_import: ["": 17]>
            f <by> (a) => (b) { c = Constant<value_float: float = @by>()  b = Mul(a, c) }"""
        newest = onnx.defs.onnx_opset_version() if "Attention" in text else 17
        head = f'<ir_version: 8, opset_import: ["": {newest}, "ours": 1]>\n'
        model = parser.parse_model(head + text + (functions if "ours.f" in text else ""))
        for name, array in HELD.items():
            if any(name in node.input for node in model.graph.node):
                model.graph.initializer.append(onnx.numpy_helper.from_array(array, name))
        made.append(model)
    return made


HELD = {
    "pads": np.array([0, 1, 1, 0, 1, 1]),
    "none": np.zeros(0, np.float32),
    "scales": np.array([1, 1, 2.5], np.float32),
    "two": np.array([2]),
    "cos": np.ones((1, 3, 2), np.float32),
    "kernel": np.ones((5, 1, 2), np.float32),
    "reps": np.array([1, 1]),
}


def numbers(count: int) -> str:
    return "{" + ", ".join(f"{at / 10:.1f}" for at in range(count)) + "}"


def mutated(rng: random.Random) -> bytes:
    """Return a model's bytes: cut off, changed in some bytes, or changed in some of its fields."""
    model = onnx.ModelProto()
    model.CopyFrom(rng.choice(models()))
    kind = rng.random()
    if kind < 0.6:
        for _ in range(rng.randint(1, 3)):
            change(rng, model)
        return model.SerializeToString()
    data = bytearray(model.SerializeToString())
    if kind < 0.7:
        return bytes(data[: rng.randrange(len(data))])
    for _ in range(rng.randint(1, 8)):
        at = rng.randrange(len(data))
        match rng.randrange(3):
            case 0:
                data[at] = rng.randrange(256)
            case 1:
                del data[at : at + rng.randint(1, 9)]
            case _:
                data[at:at] = data[rng.randrange(len(data)) :][: rng.randint(1, 40)]
    return bytes(data)


def change(rng: random.Random, model: Any) -> None:
    """Change one field somewhere in a model."""
    messages = [model]
    for message in messages:
        for field, value in message.ListFields():
            if field.message_type is not None:
                messages += value if field.is_repeated else [value]
    message = rng.choice(messages)
    fields = [field for field, _ in message.ListFields()] or list(message.DESCRIPTOR.fields)
    field = rng.choice(fields)
    if rng.random() < 0.2:
        message.ClearField(field.name)
    elif field.is_repeated:
        values = getattr(message, field.name)
        if values and rng.random() < 0.4:
            del values[rng.randrange(len(values))]
        elif field.message_type is not None:
            values.add().CopyFrom(rng.choice(values)) if values else values.add()
        else:
            values.append(value_for(rng, field, model))
    elif field.message_type is None:
        setattr(message, field.name, value_for(rng, field, model))


def value_for(rng: random.Random, field: Any, model: Any) -> Any:
    if field.cpp_type in (field.CPPTYPE_INT32, field.CPPTYPE_INT64):
        wide = 62 if field.cpp_type == field.CPPTYPE_INT64 else 30
        return rng.choice([0, 1, -1, 2, 7, 16, 1 << wide, -(1 << wide), rng.randrange(1 << 30)])
    if field.cpp_type in (field.CPPTYPE_UINT32, field.CPPTYPE_UINT64):
        return rng.randrange(1 << 30)
    if field.cpp_type in (field.CPPTYPE_FLOAT, field.CPPTYPE_DOUBLE):
        return rng.choice([0.0, -1.0, 1e30, float("nan"), float("inf")])
    if field.cpp_type == field.CPPTYPE_ENUM:
        return rng.choice(field.enum_type.values).number
    node = rng.choice(model.graph.node) if model.graph.node else None
    words = ["", "x", "y", "Loop", "If", "Einsum", "\x1b[2J", "a" * 300]
    words += [*node.input, node.op_type] if node is not None else []
    text = rng.choice(words)
    return text if field.type == field.TYPE_STRING else text.encode()


def attempt(data: bytes, path: Path) -> str:
    """Import a file, and write it once; return the error's text, or none."""
    path.write_bytes(data)
    started = time.process_time()
    try:
        model = ll.from_onnx(path)
        cx = ll.Graph()
        model(*[cx.tensor(type.shape, type.dtype) for type in model.types.values()] or [cx])
    except LabError as error:
        check_error(error, path.name)
        return str(error)
    finally:
        assert time.process_time() - started < MOST_SECONDS
    return ""


@pytest.mark.share("chunk", range(100), 1)
def test_a_changed_file_is_imported_or_refused(chunk: int, tmp_path: Path) -> None:
    for at in range(100):
        rng = random.Random(f"onnx {chunk} {at}")
        attempt(mutated(rng), tmp_path / "model.onnx")


def test_a_name_that_is_no_text_is_named(tmp_path: Path) -> None:
    data = models()[0].SerializeToString()
    assert data.count(b"x") >= 2
    said = attempt(data.replace(b"\x01x", b"\x01\xff"), tmp_path / "model.onnx")
    assert "model.onnx: the input of a NodeProto is b'\\xff', which is not UTF-8" in said


@pytest.mark.parametrize("at", range(len(TEXTS)))
def test_the_models_themselves_run(at: int, tmp_path: Path) -> None:
    model = models()[at]
    given = {
        value.name: np.ones(
            [dim.dim_value or 3 for dim in value.type.tensor_type.shape.dim],
            onnx.helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type),
        )
        for value in model.graph.input
    }
    outputs = Prepared(model, compiles=False).run(list(given.values()))
    assert len(outputs) == len(model.graph.output)


BOMBS = {
    "repeated": "m (float[1] x) => (float[n] y) { y = Tile(x, big) }",
    "filled": "m () => (float[n] y) { z = ConstantOfShape(big)  y = NonZero(z) }",
    "numbered": "m () => (int64[n] y) { y = Range(zero, huge, one) }",
    "spread": "m (float[1] x) => (float[n] y) { e = Expand(x, big)  y = Sin(e) }",
    "one_hot": "m (int64[2] i) => (float[2, n] y) { y = OneHot(i, huge, ends) }",
    "resized": "m (float[1, 1, 2] x) => (float[a, b, c] y) { y = Resize(x, none, larger) }",
    "block": "m (float[1, 4, 4] x) => (float[a, b, c] y) { y = Col2Im(x, image, big2) }",
    "mel": "m () => (float[a, b] y) { y = MelWeightMatrix(huge, huge, huge, f, f) }",
    "sequence": "m (float[4000000] x) => (float[1] y) { s = SplitToSequence(x) "
    "y = SequenceAt(s, zero) }",
    "known": "m () => (float[a, b] y) { z = ConstantOfShape(square)  p = MatMul(z, z) "
    "y = NonZero(p) }",
    "hann": "m () => (float[n] y) { y = HannWindow(huge) }",
    "matrix": "m (float[1, 100000, 1] x) => (float[a, b, c] y) { y = DFT(x) }",
}


@pytest.mark.parametrize("name", BOMBS)
def test_what_would_fill_memory_does_not(name: str, tmp_path: Path) -> None:
    huge = 1 << 40
    held = {
        "big": np.array([huge]),
        "huge": np.array(huge),
        "zero": np.array(0),
        "one": np.array(1),
        "ends": np.array([0, 1], np.float32),
        "none": np.zeros(0, np.float32),
        "larger": np.array([1, 1, 1e12], np.float32),
        "image": np.array([2, 2]),
        "big2": np.array([huge, huge]),
        "f": np.array(1.0, np.float32),
        "square": np.array([1 << 20, 1 << 20]),
    }
    model = parser.parse_model(f'<ir_version: 8, opset_import: ["": 18]>\n{BOMBS[name]}')
    for key, array in held.items():
        if any(key in node.input for node in model.graph.node):
            model.graph.initializer.append(onnx.numpy_helper.from_array(array, key))
    tracemalloc.start()
    try:
        attempt(model.SerializeToString(), tmp_path / "model.onnx")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < MOST_MB << 20

"""ONNX files as modules: names, sizes, what is known at import, and what is refused."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import luminal_lab as ll
from luminal_lab.errors import ArgumentError, DeviceError, LabError, ModelError, ShapeError
from luminal_lab.importing.imported import Imported
from tests.needs import need

onnx = need("onnx")
parser = need("onnx.parser")

Import = Callable[..., Imported]


def model_of(text: str, opset: int = 18, functions: str = "") -> Any:
    """Return a model of the package onnx, from its text."""
    imports = f'"": {opset}, "ours": 1' if functions else f'"": {opset}'
    return parser.parse_model(f"<ir_version: 8, opset_import: [{imports}]>\n{text}\n{functions}")


@pytest.fixture
def imported(tmp_path: Path) -> Import:
    """Write a model's text, or a model, to a file and import that."""

    def read(text: Any, opset: int = 18, functions: str = "", **options: Any) -> Imported:
        model = model_of(text, opset, functions) if isinstance(text, str) else text
        path = tmp_path / "model.onnx"
        path.write_bytes(model.SerializeToString())
        return ll.from_onnx(path, **options)

    return read


def run(model: Imported, *arrays: Any, compiled: bool = False) -> Any:
    """Return a model's results for arrays, in the interpreter or compiled."""
    cx = ll.Graph()
    tensors = [cx.tensor(np.shape(a), np.asarray(a).dtype).set(a) for a in arrays]
    made = model(*tensors) if tensors else model(cx)
    outputs = made if isinstance(made, tuple) else (made,)
    for output in outputs:
        output.retrieve()
    if compiled:
        cx.compile(ll.GenericCompiler(), ll.CPUCompiler())
    cx.execute()
    values = tuple(output.numpy() for output in outputs)
    return values if isinstance(made, tuple) else values[0]


def refused(read: Import, text: Any, **options: Any) -> str:
    """Return the message of the error that an import raises."""
    with pytest.raises(ModelError) as raised:
        read(text, **options)
    return str(raised.value)


MLP = """
mlp (float[batch, 3] x) => (float[batch, 2] y)
<float[3, 2] w = {1, 2, 3, 4, 5, 6}, float[2] b = {10, 20}>
{ h = MatMul(x, w)  y = Add(h, b) }
"""


def test_a_model_has_the_files_names_and_any_batch(imported: Import) -> None:
    model = imported(MLP)
    assert sorted(model.parameters()) == ["b", "w"]
    assert list(model.inputs) == ["x"]
    x = np.array([[1, 0, 0], [0, 1, 1]], np.float32)
    for compiled in (False, True):
        assert run(model, x, compiled=compiled).tolist() == [[11, 22], [18, 30]]
    cx = ll.Graph()
    assert str(model(cx.tensor(("n", 3))).shape) == "(n, 2)"
    assert type(model).__name__ == "model"


def test_nodes_have_scopes_and_steps_can_be_read(imported: Import) -> None:
    model = model_of(MLP)
    model.graph.node[0].name = "/mlp/up/MatMul"
    module = imported(model)
    assert str(module.steps[0]) == "%h = MatMul(%x, %w)    # mlp.up.MatMul"
    cx = ll.Graph()
    module(cx.tensor((1, 3)))
    assert "model.mlp.up.MatMul" in {node.meta.scope for node in cx.ir.nodes}


def test_a_model_trains_is_saved_and_loads(imported: Import, tmp_path: Path) -> None:
    model = imported(MLP)
    cx = ll.Graph()
    y = model(cx.tensor((4, 3)).set(np.ones((4, 3))))
    loss = y.square().mean()
    loss.backward()
    slope = model.parameters()["w"]
    assert cx.parameter(slope).grad.shape == (3, 2)
    model.save(tmp_path / "weights.safetensors")
    again = imported(MLP)
    again.parameters()["w"].set(np.zeros((3, 2)))
    again.load(tmp_path / "weights.safetensors")
    assert again.parameters()["w"].value.tolist() == [[1, 2], [3, 4], [5, 6]]


def test_shapes_that_a_model_calculates_stay_symbolic(imported: Import) -> None:
    model = imported("""
        heads (float[batch, seq, 6] x) => (float[batch, 2, seq, 3] y)
        {
            s = Shape(x)
            zero = Constant<value = int64 {0}>()  one = Constant<value = int64 {1}>()
            b = Gather(s, zero)  n = Gather(s, one)
            axis = Constant<value = int64[1] {0}>()
            b1 = Unsqueeze(b, axis)  n1 = Unsqueeze(n, axis)
            heads = Constant<value = int64[1] {2}>()  rest = Constant<value = int64[1] {-1}>()
            shape = Concat<axis = 0>(b1, n1, heads, rest)
            split = Reshape(x, shape)
            y = Transpose<perm = [0, 2, 1, 3]>(split)
        }""")
    cx = ll.Graph()
    assert str(model(cx.tensor(("a", "c", 6))).shape) == "(a, 2, c, 3)"
    x = np.arange(36, dtype=np.float32).reshape(2, 3, 6)
    assert np.array_equal(run(model, x), x.reshape(2, 3, 2, 3).transpose(0, 2, 1, 3))


def test_a_size_times_a_fraction_stays_symbolic(imported: Import) -> None:
    model = imported("""
        half (float[n] x) => (float[m] y)
        {
            s = Shape(x)
            f = Cast<to = 1>(s)
            c = Constant<value = float {0.5}>()
            p = Mul(f, c)
            d = Floor(p)
            end = Cast<to = 7>(d)
            start = Constant<value = int64[1] {0}>()
            y = Slice(x, start, end)
        }""")
    assert run(model, np.arange(7, dtype=np.float32)).tolist() == [0, 1, 2]
    assert run(model, np.arange(8, dtype=np.float32)).tolist() == [0, 1, 2, 3]
    assert "n//2" in str(model(ll.Graph().tensor(("n",))).shape)


def test_positions_go_as_far_as_a_dim(imported: Import) -> None:
    model = imported("""
        places (float[b, seq] x) => (int64[seq] y, float[b, seq] z)
        {
            s = Shape<start = 1>(x)
            axis = Constant<value = int64[1] {0}>()
            n = Squeeze(s, axis)
            zero = Constant<value = int64 {0}>()  one = Constant<value = int64 {1}>()
            y = Range(zero, n, one)
            f = Cast<to = 1>(n)
            r = Sqrt(f)
            z = Div(x, r)
        }""")
    assert model(ll.Graph().tensor((2, "t")))[0].shape[0] == ll.Graph().dim("t")
    places, scaled = run(model, np.full((1, 4), 6, np.float32))
    assert places.tolist() == [0, 1, 2, 3]
    assert scaled.tolist() == [[3, 3, 3, 3]]


def test_a_shape_may_be_chosen_by_comparisons(imported: Import) -> None:
    model = imported("""
        like (float[1, d] x, float[n, d] other) => (float[n, d] y)
        {
            s = Shape(other)
            two = Constant<value = int64[1] {2}>()
            ones = ConstantOfShape<value = int64[1] {1}>(two)
            less = Constant<value = int64 {-1}>()
            minus = Mul(ones, less)
            keeps = Equal(s, minus)
            shape = Where(keeps, ones, s)
            y = Expand(x, shape)
        }""")
    assert run(model, np.ones((1, 2), "f"), np.zeros((3, 2), "f")).shape == (3, 2)


def test_a_table_of_positions_is_read_as_far_as_a_dim(imported: Import) -> None:
    model = imported("""
        m (float[n] x) => (float[n] y)
        <float[4] table = {1, 2, 3, 4}, int64[1] zero = {0}>
        { end = Shape(x)  rows = Slice(table, zero, end)  y = Add(x, rows) }""")
    assert str(model(ll.Graph().tensor(("n",))).shape) == "(n,)"
    assert run(model, np.zeros(3, "f")).tolist() == [1, 2, 3]
    with pytest.raises(ShapeError):
        run(model, np.zeros(5, "f"))


def test_a_known_exponent_becomes_products_and_limits_become_numbers(imported: Import) -> None:
    model = imported("""
        m (float[n] x) => (float[n] y)
        <float low = {-1}, float two = {2}>
        { p = Pow(x, two)  y = Clip(p, low) }""")
    cx = ll.Graph()
    assert "log2" not in model(cx.tensor((3,))).op_counts()
    assert run(model, np.array([-3, 0.5], "f")).tolist() == [9, 0.25]


def test_dims_without_a_name_get_one(imported: Import) -> None:
    model = imported("any (float[?, 4] x) => (float[?, 4] y) { y = Relu(x) }")
    assert str(model.types["x"]) == "f32[x_0, 4]"
    assert model(ll.Graph().tensor(("rows", 4))).shape[1] == 4


IF = """
choose (float[n] x, int64 sr) => (float[n] y)
{
    k = Constant<value = int64 {16000}>()
    is16 = Equal(sr, k)
    y = If (is16) <
        then_branch = a () => (float[n] t) { t = Add(x, x) },
        else_branch = b () => (float[n] e) { e = Neg(x) }
    >
}"""


def test_a_branch_is_decided_by_what_is_known(imported: Import) -> None:
    x = np.array([1, 2], np.float32)
    model = imported(IF, known={"sr": 16000})
    assert list(model.inputs) == ["x"]
    assert run(model, x).tolist() == [2, 4]
    assert run(imported(IF, known={"sr": 8000}), x).tolist() == [-1, -2]
    with pytest.raises(ModelError) as raised:
        imported(IF)
    assert raised.value.needs == ("sr",)
    assert raised.value.message == (
        "from_onnx: model.onnx: If -> y: the condition 'is16' is not known at import"
    )
    assert raised.value.hint == "give the input 'sr' by known={…}"


def resizing(mode: str, scale: float, coordinates: str) -> str:
    return f"""
        up (float[1, 1, h, 4] x) => (float[1, 1, k, 4] y)
        {{
            none = Constant<value = float[0] {{}}>()
            scales = Constant<value = float[4] {{1, 1, {scale}, 1}}>()
            y = Resize<mode = "{mode}", coordinate_transformation_mode = "{coordinates}">(
                x, none, scales)
        }}"""


@pytest.mark.parametrize("mode", ["linear", "cubic"])
@pytest.mark.parametrize("scale", [1.5, 2.0, 0.5])
@pytest.mark.parametrize("coordinates", ["half_pixel", "asymmetric"])
def test_an_axis_of_any_size_is_resized_as_one_of_known_size(
    imported: Import, mode: str, scale: float, coordinates: str
) -> None:
    text = resizing(mode, scale, coordinates)
    x = np.random.default_rng(0).standard_normal((1, 1, 8, 4)).astype("f")
    free, fixed = imported(text), imported(text, known={"h": 8})
    assert np.allclose(run(free, x), run(fixed, x), atol=1e-5)
    session = need("onnxruntime").InferenceSession(
        model_of(text).SerializeToString(), providers=["CPUExecutionProvider"]
    )
    assert np.allclose(run(free, x), session.run(None, {"x": x})[0], atol=1e-5)


def test_known_may_fix_a_dim(imported: Import) -> None:
    text = resizing("nearest", 1.5, "half_pixel")
    assert "an axis of h is resized" in refused(imported, text)
    assert run(imported(text, known={"h": 4}), np.ones((1, 1, 4, 4), "f")).shape == (1, 1, 6, 4)
    assert "the model has no such input or dim" in refused(imported, text, known={"hh": 4})
    assert "did you mean 'h'?" in refused(imported, text, known={"hh": 4})
    assert "for the dim 'h'" in refused(imported, text, known={"h": -1})


LOOP = """
sums (float[2] x, int64 rounds) => (float[2] last, float[k, 2] all)
{
    yes = Constant<value = bool {1}>()
    last, all = Loop (rounds, yes, x) <
        body = step (int64 i, bool c, float[2] s) => (bool on, float[2] t, float[2] u)
        { on = Identity(c)  t = Add(s, x)  u = Identity(t) }
    >
}"""


def test_a_loop_of_known_rounds_is_unrolled(imported: Import) -> None:
    last, every = run(imported(LOOP, known={"rounds": 3}), np.array([1, 2], np.float32))
    assert last.tolist() == [4, 8]
    assert every.tolist() == [[2, 4], [3, 6], [4, 8]]
    assert "the number of its rounds is not known" in refused(imported, LOOP)
    assert "more than 4,096 nodes" in refused(imported, LOOP, known={"rounds": 1 << 40})


def test_functions_are_written_out(imported: Import) -> None:
    functions = """
        <domain: "ours", opset_import: ["": 18]>
        scaled <by> (a) => (b) { c = Constant<value_float: float = @by>()  b = Mul(a, c) }"""
    text = "m (float[2] x) => (float[2] y) { y = ours.scaled<by = 3.0>(x) }"
    assert run(imported(text, functions=functions), np.array([1, 2], np.float32)).tolist() == [3, 6]


def test_an_op_without_a_function_of_ours_is_written_as_onnx_composes_it(imported: Import) -> None:
    text = "m (float[2, 3] a, float[2, 3] b) => (float[2, 3] y) { y = SwiGLU(a, b) }"
    a, b = np.ones((2, 3), "f"), np.full((2, 3), 2, "f")
    assert np.allclose(run(imported(text, opset=28), a, b), 2 / (1 + np.exp(-1)), atol=1e-6)


def test_initialisers_are_parameters_and_buffers(imported: Import) -> None:
    model = imported("""
        look (int64[n] i) => (float[n, 2] y)
        <float[3, 2] table = {0, 1, 2, 3, 4, 5}, int64[3] order = {2, 1, 0}>
        { j = Gather(order, i)  y = Gather(table, j) }""")
    assert [*model.parameters()] == ["table"]
    assert [*model.buffers()] == ["order"]
    assert run(model, np.array([0, 2])).tolist() == [[4, 5], [0, 1]]
    assert [p.name for p in model.matrices()] == ["table"]


def test_weights_of_few_bits_are_read(imported: Import) -> None:
    helper, kind = onnx.helper, onnx.TensorProto.INT4
    weights = helper.make_tensor("w", kind, [4], [-8, 7, 1, 0])
    scale = helper.make_tensor("s", onnx.TensorProto.FLOAT, [], [0.5])
    node = helper.make_node("DequantizeLinear", ["w", "s"], ["y"])
    y = helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [4])
    graph = helper.make_graph([node], "g", [], [y], [weights, scale])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)])
    assert run(imported(model)).tolist() == [-4, 3.5, 0.5, 0]


def test_old_versions_are_read_as_they_were(imported: Import) -> None:
    old = model_of("m (float[2, 3] x, float[2] b) => (float[2, 3] y) { y = Add(x, b) }", opset=6)
    for name, value in (("broadcast", 1), ("axis", 0)):
        old.graph.node[0].attribute.append(onnx.helper.make_attribute(name, value))
    x = np.zeros((2, 3), "f")
    assert run(imported(old), x, np.array([1, 2], "f")).tolist() == [[1, 1, 1], [2, 2, 2]]
    text = "m (float[2, 2, 2] x) => (float[2, 2, 2] y) { y = Softmax<axis = 1>(x) }"
    y = run(imported(text, opset=12), np.zeros((2, 2, 2), "f"))
    assert y.tolist() == np.full((2, 2, 2), 0.25).tolist()


# -- files -----------------------------------------------------------------------------------------


def external(tmp_path: Path, **place: object) -> Path:
    """Write a model whose only weight is in another file."""
    model = model_of("m (float[2] x) => (float[2] y) <float[2] w = {1, 2}> { y = Add(x, w) }")
    tensor = model.graph.initializer[0]
    tensor.ClearField("float_data")
    tensor.ClearField("raw_data")
    tensor.data_location = onnx.TensorProto.EXTERNAL
    for key, value in place.items():
        entry = tensor.external_data.add()
        entry.key, entry.value = key, str(value)
    folder = tmp_path / "model"
    folder.mkdir(exist_ok=True)
    path = folder / "model.onnx"
    path.write_bytes(model.SerializeToString())
    (folder / "weights.bin").write_bytes(b"\0" * 8 + np.array([3, 4], "<f").tobytes())
    (tmp_path / "outside.bin").write_bytes(np.array([5, 6], "<f").tobytes())
    return path


def test_external_data_is_mapped(tmp_path: Path) -> None:
    model = ll.from_onnx(external(tmp_path, location="weights.bin", offset=8, length=8))
    assert run(model, np.zeros(2, "f")).tolist() == [3, 4]


@pytest.mark.parametrize(
    ("place", "said"),
    [
        ({"location": "../outside.bin"}, "is in '../outside.bin', outside the model's folder"),
        ({"location": "/etc/hostname"}, "outside the model's folder"),
        ({"location": "link.bin"}, "is in 'link.bin', outside the model's folder"),
        ({"location": ""}, "outside the model's folder"),
        ({"location": "a\0b"}, "outside the model's folder"),
        ({"location": "gone.bin"}, "is in 'gone.bin', which is missing"),
        ({"location": "weights.bin", "offset": 12}, "is at byte 12 of 'weights.bin'"),
        ({"location": "weights.bin", "offset": -8}, "is at byte -8 of 'weights.bin'"),
        ({"location": "weights.bin", "length": 1 << 60}, "takes 1,152,921,504,606,846,976 bytes"),
        ({"location": "weights.bin", "offset": "x"}, "has no valid place in 'weights.bin'"),
    ],
)
def test_external_data_elsewhere_is_refused(
    tmp_path: Path, place: dict[str, object], said: str
) -> None:
    path = external(tmp_path, **place)
    if place["location"] == "link.bin":
        try:
            (path.parent / "link.bin").symlink_to(tmp_path / "outside.bin")
        except OSError:
            pytest.skip("links need a right here")
    with pytest.raises(ModelError) as raised:
        ll.from_onnx(path)
    assert "the initialiser 'w'" in raised.value.message
    assert said in raised.value.message


def test_what_is_no_model_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "text.onnx"
    path.write_text("this is no model")
    with pytest.raises(ModelError, match=r"text\.onnx is no ONNX model"):
        ll.from_onnx(path)
    with pytest.raises(ModelError, match="cannot be read: No such file") as gone:
        ll.from_onnx(tmp_path / "gone.onnx")
    assert gone.value.hint == f"the current folder is {Path.cwd()}"
    with pytest.raises(ModelError, match="cannot be read: it is a folder"):
        ll.from_onnx(tmp_path)
    with pytest.raises(ArgumentError, match="is no path"):
        ll.from_onnx(7)  # pyright: ignore[reportArgumentType]
    (tmp_path / "empty.onnx").write_bytes(b"")
    with pytest.raises(ModelError, match="it is empty"):
        ll.from_onnx(tmp_path / "empty.onnx")


def test_without_the_package_the_error_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "onnx", None)
    with pytest.raises(DeviceError) as raised:
        ll.from_onnx(tmp_path / "model.onnx")
    assert raised.value.hint == "pip install 'luminal-lab[onnx]'"


REFUSED: Sequence[tuple[str, str]] = [
    ("m (float[2] x) => (float[2] y) { y = Nothing(x) }", "there is nothing to write this op with"),
    ("m (float[2] x) => (float[2] y) { y = Add(x, gone) }", "makes its input 'gone'"),
    ("m (float[2] x) => (float[2] y) { z = Neg(x) }", "no node makes its output 'y'"),
    ("m (string[2] x) => (string[2] y) { y = Identity(x) }", "is string, which is no dtype"),
    ("m (complex64[2] x) => (complex64[2] y) { y = Identity(x) }", "is complex64"),
    ("m (float[2] x) => (float[2] y) { y = Neg<odd = 3>(x) }", "the attribute 'odd' is not known"),
    ("m (float[2] x) => (float[2] y) { y = Neg(x, x) }", "it has 2 inputs, and takes 1"),
    ("m (float[2] x) => (float[2] y) { y = Add(x) }", "the input y is missing"),
    ("m (float[2] x) => (float[2] y) { y = LeakyRelu<alpha = 3>(x, x) }", "it has 2 inputs"),
    ("m (float[2, 3] x) => (float[2] y) { y = MatMul(x, x) }", "MatMul -> y: matmul: "),
    ("m (float[2] x) => (float[2] y) { y = ai.onnx.ml.Scaler(x) }", "its domain is 'ai.onnx.ml'"),
    ("m (float[2] x) => (float[2] y) { y = Cast<to = 99>(x) }", "there is no dtype 99"),
    ("m (float[2] x) => (float[2] y) { y = Cast<to = 17>(x) }", "float8_e4m3fn is not one of"),
    ("m (seq(float[2]) x) => (float[2] y) { y = Neg(x) }", "is sequence, and arguments must be"),
    ("m (float[2] x) => (int64[n, 1] y) { y = NonZero(x) }", "input x are not known at import"),
]


@pytest.mark.parametrize(("text", "said"), REFUSED)
def test_what_cannot_be_written_is_refused_by_name(imported: Import, text: str, said: str) -> None:
    message = refused(imported, text)
    assert message.startswith("from_onnx: model.onnx: ")
    assert said in message


def test_what_is_not_here_is_told_to_programs(imported: Import) -> None:
    for name in ("Zyzzyva", "ai.onnx.ml.Scaler"):
        with pytest.raises(ModelError) as caught:
            imported(f"m (float[2] x) => (float[2] y) {{ y = {name}(x) }}")
        assert caught.value.missing == [name]
        assert "luminal-lab models inspect" in (caught.value.hint or "")


def test_an_opset_that_is_newer_than_the_package_is_refused(imported: Import) -> None:
    model = model_of(MLP)
    model.opset_import[0].version = 999
    assert "its opset is 999, and the package onnx knows those up to" in refused(imported, model)


def test_functions_that_call_themselves_are_refused(imported: Import) -> None:
    functions = '<domain: "ours", opset_import: ["ours": 1]> f (a) => (b) { b = ours.f(a) }'
    text = "m (float[2] x) => (float[2] y) { y = ours.f(x) }"
    assert "the function 'f' calls itself" in refused(imported, text, functions=functions)


def test_functions_that_grow_without_end_are_refused(imported: Import) -> None:
    model = model_of("m (float[2] x) => (float[2] y) { y = ours.f9(x) }", functions="\n".join(
        f'<domain: "ours", opset_import: ["": 18, "ours": 1]> f{k} (a0) => (a9) {{ '
        + " ".join(
            f"a{at + 1} = {'Neg' if k == 0 else f'ours.f{k - 1}'}(a{at})" for at in range(9)
        )
        + " }"
        for k in range(10)
    ))  # fmt: skip
    assert "with its functions written out it has 3,486,784,401 nodes" in refused(imported, model)


def test_sizes_beyond_memory_cost_nothing(imported: Import) -> None:
    huge = 10**18
    model = imported(f"""
        m (float[n] x) => (float[{huge}] y)
        {{
            shape = Constant<value = int64[1] {{{huge}}}>()
            z = ConstantOfShape(shape)
            y = Sin(z)
        }}""")
    assert model.steps  # nothing was made
    text = f"m (float[2] x) => (float[2] y) <float[{huge}] w = {{1}}> {{ y = Add(x, w) }}"
    assert "the initialiser 'w' has the shape" in refused(imported, text)


def test_arguments_are_checked_as_those_of_other_modules(imported: Import) -> None:
    model = imported(MLP)
    with pytest.raises(ShapeError):
        model(ll.Graph().tensor((2, 4)))
    with pytest.raises(LabError, match="the argument x is missing"):
        model(ll.Graph())

"""What every importer makes: values by their names, and the steps of a forward as data."""

import numpy as np
import pytest

import luminal_lab as ll
from luminal_lab.core.origin import Origin
from luminal_lab.importing.imported import Imported, Ref, Step, graph_name, named, scope_name
from tests.needs import need

F32 = ll.DType.float32
LINE = Origin("model.py", 7, "y = self.fc(x)")


def linear(graph, x, weight, bias):
    return x.linear(weight, bias)


def count(graph, x):
    return x.shape[0]


def mlp(**more) -> Imported:
    """Return tanh(x @ weight.T + bias) in two parts, and the number of rows."""
    rng = np.random.default_rng(0)
    values = {
        "fc.weight": ll.Parameter((32, 64), value=rng.standard_normal((32, 64))),
        "fc.bias": ll.Parameter((32,), value=rng.standard_normal(32)),
    }
    steps = [
        Step(
            "Linear", linear, (Ref("x"), Ref("fc.weight"), Ref("fc.bias")), ("h",), {}, "fc", LINE
        ),
        Step("Tanh", lambda graph, x: x.tanh(), (Ref("h"),), ("y",), {}, "/act/Tanh"),
        Step("Size", count, (Ref("x"),), ("n",)),
    ]
    parts = {
        "inputs": {"x": Ref("x")},
        "types": {"x": ll.TensorType(F32, (ll.Symbol("n"), 64))},
        "steps": steps,
        "outputs": (Ref("y"), {"rows": Ref("n"), "none": None}),
        "parameters": values,
        "matrices": ["fc.weight"],
        "kinds": {"fc": "Linear"},
    }
    return named("TinyNet", **{**parts, **more})


def expected(model: Imported, x: np.ndarray) -> np.ndarray:
    state = model.state_dict()
    return np.tanh(x @ state["fc.weight"].T + state["fc.bias"])


def test_it_writes_its_steps_into_any_graph_at_any_size():
    model = mlp()
    for shape in [("rows", 64), (3, 64), ("rows", 64)]:
        cx = ll.Graph()
        data = np.random.default_rng(1).standard_normal((3, 64)).astype("float32")
        x = cx.tensor(shape).set(data)
        y, about = model(x)
        assert y.shape == (*x.shape[:1], 32)
        assert about == {"rows": x.shape[0], "none": None}
        again, _ = model(x * 2)
        y.retrieve()
        again.retrieve()
        cx.execute()
        np.testing.assert_allclose(y.numpy(), expected(model, data), rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(again.numpy(), expected(model, 2 * data), rtol=1e-5, atol=1e-6)
        assert len([node for node in cx.ir.nodes if node.type.shape == (32, 64)]) == 1


def test_nodes_have_the_authors_scopes_and_lines():
    y, _ = mlp()(ll.Graph().tensor((2, 64)))
    metas = {(n.meta.scope, n.meta.origin) for n in y.graph.ir.nodes if n.sources}
    assert metas == {("tiny_net.fc", LINE), ("tiny_net.act.Tanh", None)}


def test_it_is_a_module_like_others(tmp_path):
    model = mlp()
    assert repr(model) == (
        "TinyNet()  2,080 parameters\n"
        "  fc: Linear  2,080 parameters\n"
        "    weight (32, 64) float32\n"
        "    bias (32,) float32"
    )
    assert [*model.parameters()] == ["fc.weight", "fc.bias"]
    assert [*ll.quantise(model)] == ["fc.weight"]
    need("safetensors")
    model.save(tmp_path / "tiny.safetensors")
    other = mlp()
    other.parameters()["fc.bias"].set(np.zeros(32))
    other.load(tmp_path / "tiny.safetensors")
    assert (other.state_dict()["fc.bias"] == model.state_dict()["fc.bias"]).all()
    half = mlp().to("float16")
    y, _ = half(ll.Graph().tensor((2, 64), "float16"))
    assert (y.dtype, half.parameters()["fc.bias"].dtype) == ("float16", "float16")


def test_it_trains():
    model = mlp()
    cx = ll.Graph()
    data = np.random.default_rng(1).standard_normal((5, 64)).astype("float32")
    y, _ = model(cx.tensor((5, 64)).set(data))
    slope = ll.grad(y.sum(), cx.parameter(model.parameters()["fc.bias"])).retrieve()
    cx.execute()
    np.testing.assert_allclose(slope.numpy(), (1 - expected(model, data) ** 2).sum(0), atol=1e-5)


def test_a_buffer_moves_from_call_to_call():
    total = ll.Parameter((), value=1.0, trainable=False)
    steps = [
        Step("Add", lambda graph, a, b: a + b.sum(), (Ref("total"), Ref("x")), ("new",)),
        Step("Double", lambda graph, a: a * 2, (Ref("new"),), ("twice",)),
    ]
    model = Imported(
        inputs={"x": Ref("x")},
        types={"x": ll.TensorType(F32, (2,))},
        steps=steps,
        outputs=Ref("twice"),
        parameters={"total": total},
        updates={"total": "new"},
    )
    cx = ll.Graph()
    x = cx.tensor((2,)).set([1, 2])
    first, second = model(x).retrieve(), model(x).retrieve()
    cx.execute()
    assert (first.item(), second.item()) == (8, 14)
    cx.execute()
    assert (first.item(), second.item()) == (20, 26)


def test_hidden_values_are_used_and_not_saved():
    table = ll.Parameter((2,), value=[3, 4], trainable=False)
    step = Step("Add", lambda graph, a, b: a + b, (Ref("x"), Ref("table")), ("y",))
    model = Imported(
        inputs={"x": Ref("x")},
        types={"x": ll.TensorType(F32, (2,))},
        steps=[step],
        outputs=[Ref("y")],
        constants={"table": table},
    )
    assert model.state_dict() == {}
    (y,) = model(ll.Graph().tensor((2,)).set([1, 1]))
    y.retrieve().graph.execute()
    assert y.tolist() == [4, 5]


def test_a_model_without_inputs_takes_the_graph():
    step = Step("Ones", lambda graph, n: graph.ones((n,)), (2,), ("y",))
    cx = ll.Graph()
    model = Imported(inputs={}, types={}, steps=[step], outputs=Ref("y"))
    assert model(cx).shape == (2,)


WRONG = {
    "rank": (lambda cx: [cx.tensor((2, 3, 64))], ll.ShapeError, "has 3 axes, and the model"),
    "size": (lambda cx: [cx.tensor((2, 63))], ll.ShapeError, "is 63, and the model takes 64"),
    "symbol": (lambda cx: [cx.tensor((2, "m"))], ll.ShapeError, "is m, and the model takes 64"),
    "dtype": (lambda cx: [cx.tensor((2, 64), "int32")], ll.DTypeError, "is int32, and was"),
    "array": (lambda cx: [cx, np.zeros((2, 64))], ll.ArgumentError, "x is an array (2, 64), and"),
    "none": (lambda cx: [cx], ll.ArgumentError, "the argument x is missing"),
    "two": (
        lambda cx: [cx.tensor((2, 64))] * 2,
        ll.ArgumentError,
        "2 arguments given, and it takes 1",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_arguments_that_do_not_fit(case):
    make, kind, text = WRONG[case]
    with pytest.raises(kind) as caught:
        mlp()(*make(ll.Graph()))
    assert text in str(caught.value)
    assert __file__ in caught.value.where


def test_words_and_structures_of_arguments():
    step = Step("Add", lambda graph, a, b: a + b, (Ref("a"), Ref("b")), ("y",))
    type = ll.TensorType(F32, (ll.Symbol("n", high=8, multiple_of=2),))
    model = Imported(
        inputs={"pair": (Ref("a"), {"b": Ref("b")}), "scale": 2.0},
        types={"a": type, "b": type},
        steps=[step],
        outputs=Ref("y"),
    )
    cx = ll.Graph()
    a, b = cx.tensor((4,)), cx.tensor((4,))
    assert model((a, {"b": b})).shape == (4,)
    assert model(pair=(a, {"b": b}), scale=2.0).shape == (4,)
    n = cx.dim("n", high=6, multiple_of=2)
    assert model((cx.tensor((n,)), {"b": cx.tensor((n,))})).shape == (n,)
    for args, kwargs, text in [
        (((a,),), {}, "must be a sequence of 2"),
        (((a, {"c": b}),), {}, "must be a dict with the keys ['b']"),
        (((a, {"b": b}), 3.0), {}, "scale: is 3.0, and was exported as 2.0"),
        (((a, {"b": b}),), {"scael": 3.0}, "there is no argument 'scael'"),
        (((a, {"b": b}),), {"pair": 3.0}, "pair is given twice"),
        (((a, {"b": cx.tensor((6,))}),), {}, "is 6, and must be n, which is 4"),
        (((cx.tensor((3,)), {"b": cx.tensor((3,))}),), {}, "3 is not a multiple of 2"),
        (((cx.tensor((10,)), {"b": cx.tensor((10,))}),), {}, "10 is out of its bounds"),
        (((cx.tensor(("m",)), {"b": cx.tensor(("m",))}),), {}, "for at most 8, and m may be more"),
    ]:
        with pytest.raises(ll.LabError) as caught:
            model(*args, **kwargs)
        assert text in str(caught.value)


def test_a_step_that_fails_names_the_authors_line():
    steps = [
        Step("Cut", lambda graph, x: x.reshape(7), (Ref("x"),), ("y",), {}, "body", LINE),
    ]
    with pytest.raises(ll.ShapeError) as caught:
        mlp(steps=steps)(ll.Graph().tensor((2, 64)))
    assert caught.value.where == '"model.py", line 7:  y = self.fc(x)'
    assert caught.value.__notes__ == ["at Cut in body, a step of the imported tiny_net"]
    steps = [Step("Own", lambda graph, x: x.nothing, (Ref("x"),), ("y",))]
    with pytest.raises(ll.UnknownNameError):
        mlp(steps=steps)(ll.Graph().tensor((2, 64)))
    steps = [Step("Own", lambda graph, x: len(x.shape[1]), (Ref("x"),), ("y",), {}, "", LINE)]
    with pytest.raises(ll.ModelError, match="Own: object of type 'int' has no") as caught:
        mlp(steps=steps)(ll.Graph().tensor((2, 64)))
    assert caught.value.where == str(LINE)


def test_a_failed_call_leaves_the_graph_as_it_was():
    cx = ll.Graph()
    x = cx.tensor((2, 64))
    before = str(cx)
    with pytest.raises(ll.LabError):
        mlp(outputs=Ref("y"), steps=[*mlp().steps, Step("Bad", count, (3,), ("q",))])(x)
    assert str(cx) == before


def test_several_results_and_the_text_of_steps():
    step = Step(
        "Split",
        lambda graph, x, parts, *, axis: (x[:1], x[1:]),
        (Ref("x"), [1, Ref("m")]),
        ("a", ""),
        {"axis": 0},
        "cut",
        LINE,
    )
    assert str(step) == (
        '%a, _ = Split(%x, [1, %m], axis=0)    # cut; "model.py", line 7:  y = self.fc(x)'
    )
    assert [*step.refs()] == ["x", "m"]
    model = Imported(
        inputs={"x": Ref("x"), "m": Ref("m")},
        types={"x": ll.TensorType(F32, (3,)), "m": ll.TensorType(F32, ())},
        steps=[step],
        outputs=Ref("a"),
    )
    cx = ll.Graph()
    assert model(cx.tensor((3,)), cx.tensor(())).shape == (1,)


def test_names_from_elsewhere():
    names = "onnx::MatMul_12", "/model/x", "0.weight", "fc.weight", "übrig"
    assert [*map(graph_name, names)] == [
        "onnx_MatMul_12", "_model_x", "_0.weight", "fc.weight", "_brig",
    ]  # fmt: skip
    assert scope_name("/model/layers.0/MatMul") == "model.layers.0.MatMul"
    assert type(named("main graph", inputs={}, types={}, steps=[], outputs=())).__name__ == (
        "main_graph"
    )

"""`grad` and `backward`: what they take and return, what they leave, and their errors."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest
from typing_extensions import override

import luminal_lab as ll
from luminal_lab.core.edit import replay
from luminal_lab.core.op import Elementwise
from luminal_lab.core.ops import Constant, Recip
from luminal_lab.core.parse import parse
from luminal_lab.errors import ArgumentError, DTypeError
from luminal_lab.passes.diff import diff
from luminal_lab.passes.gradients.rule import RULES
from luminal_lab.passes.snapshot import Record, Snapshot
from tests.expect import error_of, state
from tests.tensor.against import draw, same


def square() -> tuple[Any, Any, Any]:
    cx = ll.Graph()
    x = cx.tensor((3,), name="x").set([1.0, 2.0, 3.0])
    return cx, x, (x * x).sum()


def run(cx: Any, *tensors: Any) -> list[list[float]]:
    cx.retrieve(list(tensors))
    cx.execute()
    return [tensor.tolist() for tensor in tensors]


# -- what it takes and returns ---------------------------------------------------------------------


def test_the_result_has_the_form_of_what_is_asked_for():
    cx, x, loss = square()
    y = cx.tensor((), name="y").set(2.0)
    loss = loss * y
    assert run(cx, ll.grad(loss, x)) == [[4, 8, 12]]
    assert run(cx, *ll.grad(loss, [y, x])) == [14, [4, 8, 12]]
    assert run(cx, *ll.grad(loss, (t for t in (x, x)))) == [[4, 8, 12]] * 2
    named = ll.grad(loss, {"a": x, 3: y})
    assert list(named) == ["a", 3]
    assert run(cx, named["a"], named[3]) == [[4, 8, 12], 14]
    assert ll.grad(loss, []) == []
    assert ll.grad(loss, {}) == {}


def test_parameters_stand_for_the_inputs_that_borrow_them():
    cx = ll.Graph()
    w = ll.Parameter((2,), value=[3.0, 4.0], name="w")
    loss = (cx.parameter(w) * cx.parameter(w)).sum()
    assert run(cx, ll.grad(loss, w), *ll.grad(loss, {"w": w}).values()) == [[6, 8], [6, 8]]


def test_by_values_on_the_way():
    cx, x, _ = square()
    y = x * 2
    z = y * y
    loss = z.sum()
    assert run(cx, *ll.grad(loss, [y, z, loss, x])) == [[4, 8, 12], [1, 1, 1], 1, [8, 16, 24]]


def test_what_does_not_reach_the_loss_has_zeros():
    cx, x, loss = square()
    other, later = cx.tensor(("n", 2), "float64", "other").set([[1, 2]]), loss * 3
    away = (x > 1).where(1.0, 0.0) + x.long().float() + x.detach()
    found = ll.grad(loss + away.sum(), [other, later, x])
    assert found[0].type == other.type
    assert run(cx, *found) == [[[0, 0]], 0, [2, 4, 6]]


def test_a_loss_may_have_axes_of_size_one():
    cx, x, loss = square()
    assert run(cx, ll.grad(loss.reshape(1, 1), x)) == [[2, 4, 6]]


def test_the_names_and_outputs_stay():
    cx, x, loss = square()
    loss.named("loss").retrieve()
    before = str(cx).splitlines()
    ll.grad(loss, x)
    after = str(cx).splitlines()
    assert after[: len(before) - 1] == before[:-1]
    assert parse(str(cx)) == cx.ir


def test_gradient_graphs_are_economical():
    cx, x, loss = square()
    first = cx.next_id
    ll.grad(loss, x)
    assert [cx.node(id).op.name for id in range(first, cx.next_id)] == [
        "constant", "reshape", "expand", "mul", "add",
    ]  # fmt: skip
    a, b, c = (cx.tensor((3, 4), name=name) for name in "abc")
    loss = ((a + b) * 2.0 + c).sum()
    first = cx.next_id
    ll.grad(loss, [a, b])  # nothing for the factor 2, nothing for c, nothing twice
    assert [cx.node(id).op.name for id in range(first, cx.next_id)] == [
        "constant", "reshape", "expand", "expand", "mul",
    ]  # fmt: skip


def test_a_transformers_block_has_few_more_nodes_backwards():
    cx = ll.Graph()
    x = cx.tensor((2, 8, 16))
    weights = [cx.tensor(shape) for shape in [(48, 16), (16, 16), (64, 16), (16, 64)]]
    qkv, out, up, down = weights
    q, k, v = x.layer_norm(-1).linear(qkv).split(16, -1)
    heads = [t.reshape(2, 8, 2, 8).permute(0, 2, 1, 3) for t in (q, k, v)]
    seen = heads[0].scaled_dot_product_attention(heads[1], heads[2], is_causal=True)
    h = x + seen.permute(0, 2, 1, 3).reshape(2, 8, 16).linear(out)
    loss = (h + h.layer_norm(-1).linear(up).gelu().linear(down)).square().mean()
    first = cx.next_id
    ll.grad(loss, [x, *weights])
    assert cx.next_id - first < 1.5 * first


# -- where it comes from ---------------------------------------------------------------------------


def test_each_node_knows_its_forward_node():
    cx = ll.Graph()
    x = cx.tensor((3,), name="x")
    with cx.scope("a"):
        y = x.exp2()
    with cx.scope("b"):
        z = y * x
    loss = z.sum()
    first = cx.next_id
    ll.grad(loss, x)
    nodes = [cx.node(id) for id in range(first, cx.next_id)]
    for node in nodes:
        made = node.meta.derivation
        assert made is not None
        forward = cx.node(made.parents[0])
        assert (node.meta.origin, node.meta.scope) == (forward.meta.origin, forward.meta.scope)
    rules = [(n.meta.derivation.rule, n.meta.derivation.parents[0], n.meta.scope) for n in nodes]  # pyright: ignore
    assert ("grad-mul", z.id, "b") in rules
    assert ("grad-exp2", y.id, "a") in rules
    assert ("grad-sum", x.id, "") in rules
    assert rules[0] == ("grad-loss", loss.id, "")


def test_the_record_is_a_log_from_which_a_snapshot_is_made():
    cx, x, loss = square()
    before, first = cx.ir, cx.next_id
    ll.grad(loss, x)
    (record,) = cx.derived
    assert (record.name, record.before, record.after) == ("grad", before, cx.ir)
    assert replay(record.before, record.log) == record.after
    assert record.added[loss.id] == (first, first + 1)
    made = [id for ids in record.added.values() for id in ids]
    assert sorted(made) == list(range(first, cx.next_id))
    snapshot = Snapshot(record.before, record.after, Record(record.name, record.log))
    rules = [firing.rule for firing in snapshot.firings]
    assert rules == ["grad-loss", "grad-reshape", "grad-sum_reduce", "grad-mul"]
    assert [node.op.name for node in snapshot.firings[-1].after] == ["mul", "add"]
    assert str(diff(record.before, record.after)).count("\n+") >= 5


# -- ends and own gradients ------------------------------------------------------------------------


def test_detached_values_are_seen_in_the_text():
    cx, x, _ = square()
    y = (x.detach() * x + ll.stop_gradient(x)).sum()
    assert run(cx, ll.grad(y, x), y) == [[1, 2, 3], 20]
    assert "= stop_gradient %x : f32[3]" in str(cx)
    assert parse(str(cx)) == cx.ir
    whole = x.long()
    assert whole.detach() is whole


def test_own_gradients():
    cx, x, _ = square()
    y = cx.tensor((3,), name="y").set([2.0, 2.0, 2.0])

    @ll.custom_gradient
    def product(a: Any, factor: float, b: Any) -> Any:
        """Multiply."""
        return a * b * factor, lambda g: (g * 10, g * b if factor else None)

    loss = (product(x * 1.0, 2.0, y) * 3).sum()
    assert product.__doc__ == "Multiply."
    assert run(cx, loss, *ll.grad(loss, [x, y])) == [72, [30, 30, 30], [6, 6, 6]]
    assert 'custom_gradient{function = "product"}' in str(cx)
    zero = product(x, 0.0, y).sum()
    assert run(cx, *ll.grad(zero, [x, y])) == [[10, 10, 10], [0, 0, 0]]


def test_own_gradients_are_themselves_derived():
    cx = ll.Graph()
    x = cx.tensor((), name="x").set(3.0)

    @ll.custom_gradient
    def cube(a: Any) -> Any:
        return a * a * a, lambda g: g * a * a * 3

    first = ll.grad(cube(x), x)
    assert run(cx, first, ll.grad(first, x)) == [27, 18]


def test_what_the_host_computes_has_the_gradient_it_is_given():
    cx, x, _ = square()

    @ll.custom_gradient
    def host(a: Any) -> Any:
        made = cx.function(lambda v: np.sin(v), a, shape=(3,))
        return made, lambda g: g * a.cos()

    (found,) = run(cx, ll.grad(host(x).sum(), x))
    same(np.array(found), np.cos([1, 2, 3]), rtol=1e-6)


def test_own_ops():
    @dataclass(frozen=True, slots=True)
    class Softsign(Elementwise):
        """x / (1 + |x|)."""

        name: ClassVar[str] = "own_softsign"
        c_form: ClassVar[str] = "({0} / (1 + fabs({0})))"

        @override
        def infer(self, x: ll.TensorType) -> ll.TensorType:
            return x

        @override
        def eval(self, x: Any) -> Any:
            return x / (1 + np.abs(x))

    cx, x, _ = square()
    loss = x.apply(Softsign()).sum()
    before = state(cx)
    error = error_of(lambda: ll.grad(loss, x), ll.GraphError)
    assert error.message == "grad: %4 is made by the op own_softsign, which has no gradient"
    assert "loss = x.apply(Softsign()).sum()" in error.where
    assert error.hint == ("register one with @ll.gradient(Softsign), or cut it off with detach()")
    assert state(cx) == before

    @ll.gradient(Softsign)
    def softsign(node: Any, g: Any) -> Any:
        return g / (1 + node[0].abs()).square()

    (found,) = run(cx, ll.grad(loss, x))
    same(np.array(found), 1 / (1 + np.array([1.0, 2, 3])) ** 2, rtol=1e-6)

    faults = {
        "returned 2 values, and own_softsign has 1 sources here": lambda node, g: (g, g),
        "for its source 0 is f32[1, 3], and the source is f32[3]": lambda node, g: g.unsqueeze(0),
        "for its source 0 is 3": lambda node, g: lambda: 3,
        "for its source 0 is 4": lambda node, g: 4,
        "for its source 0 is a parameter": lambda node, g: ll.Parameter((3,)),
    }
    for said, rule in faults.items():
        ll.gradient(Softsign)(rule)
        error = error_of(lambda: ll.grad(loss, x), ll.DefinitionError)
        assert said in error.message
        assert state(cx)[0] == str(cx)
    ll.gradient(Softsign)(lambda node, g: node[1] * g)
    error = error_of(lambda: ll.grad(loss, x), IndexError)
    assert error.message == (
        "grad: own_softsign has 1 source here, and its gradient asks for number 1"
    )
    error = error_of(lambda: ll.gradient(Softsign)(3), ll.DefinitionError)  # pyright: ignore
    assert error.message == "gradient of own_softsign: 3 is not a function"
    ll.gradient(Softsign)(lambda node, g: None)
    assert run(cx, ll.grad(loss, x)) == [[0, 0, 0]]


# -- backward --------------------------------------------------------------------------------------


def test_backward_derives_by_all_inputs():
    cx, x, _ = square()
    w = ll.Parameter((3,), value=[1.0, 1.0, 2.0], name="w")
    count, other = cx.tensor((3,), "int64", "count"), cx.tensor((3,), name="other")
    loss = (x * cx.parameter(w) * count.set([1, 1, 1])).sum()
    assert loss.backward() is None
    assert run(cx, x.grad, cx.parameter(w).grad) == [[1, 1, 2], [1, 2, 3]]
    assert run(cx, cx["w"].grad) == [[1, 2, 3]]
    for wrong in (count, other):
        assert error_of(lambda t=wrong: t.grad, ll.GraphError).hint == (
            "call backward() on a loss that it is computed from"
        )
    error = error_of(lambda: loss.grad, ll.GraphError)
    assert error.message.startswith(f"grad: {loss.label} has no gradient")
    assert error.hint == f"backward() is for inputs; for {loss.label} use ll.grad(loss, it)"


def test_backward_of_several_losses_adds_up_and_of_one_loss_once():
    cx, x, loss = square()
    loss.backward()
    (x * 10).sum().backward()
    assert run(cx, x.grad) == [[12, 14, 16]]
    loss.backward()
    assert run(cx, x.grad) == [[12, 14, 16]]


def test_a_cell_that_runs_again_takes_its_gradients_back():
    cx, x, loss = square()
    cx._begin("b")
    (loss * 1.0).backward()
    cx._begin("c")
    step = (x.grad * 0.5).retrieve()
    cx._begin("b")
    assert len(cx.derived) == 1, "it is still used"
    (loss * 3.0).backward()
    cx._begin("c")
    step = (x.grad * 0.5).retrieve()
    cx.execute()
    assert step.tolist() == [3, 6, 9]
    cx._begin("b")
    cx._begin("d")
    assert error_of(lambda: x.grad, ll.GraphError).message == "grad: %x (3,) has no gradient"


def test_a_parameter_in_two_graphs_has_a_gradient_in_each():
    w = ll.Parameter((), value=3.0)
    for factor in (1.0, 2.0):
        cx = ll.Graph()
        p = cx.parameter(w)
        (p * p * factor).backward()
        assert run(cx, p.grad) == [6 * factor]


def test_gradients_train():
    cx = ll.Graph()
    x, y = cx.tensor((8, 2), name="x"), cx.tensor((8,), name="y")
    w = cx.tensor((2,), name="w").set([0.0, 0.0])
    data = draw((8, 2))
    x.set(data)
    y.set(data @ np.array([1.0, -2.0], np.float32))
    loss = ((x @ w) - y).square().mean()
    loss.backward()
    cx.carry(w - w.grad * 0.1, w)
    for _ in range(200):
        cx.execute()
    same(w.numpy(), np.array([1.0, -2.0]), rtol=1e-3)


# -- errors ----------------------------------------------------------------------------------------


def test_errors():
    cx, x, loss = square()
    other = ll.Graph("other")
    theirs = other.tensor((3,), name="theirs")
    number, p = cx.tensor((3,), "int32", "number"), ll.Parameter((2,), name="p")
    total, one = number.sum().named("total"), cx.constant(1.0).named("one")
    before = state(cx)
    told = {
        "grad: the loss 3 is not a tensor": (
            lambda: ll.grad(3, x),  # pyright: ignore
            "the loss comes first",
        ),
        "grad: the loss %x (3,) is not one number": (
            lambda: ll.grad(x, x),
            "make it one with .sum() or .mean()",
        ),
        "grad: the loss %total () is int64, and only floats have gradients": (
            lambda: ll.grad(total, x),
            'compute it in floats, as in x.cast("float32")',
        ),
        "grad: %number (3,) is int32, and only floats have gradients": (
            lambda: ll.grad(loss, [x, number]),
            "leave it out",
        ),
        "grad: %theirs (3,) belongs to the graph 'other', and the loss to 'main'": (
            lambda: ll.grad(loss, theirs),
            "differentiate by tensors of the graph that the loss is in",
        ),
        "grad: 'x' is neither a tensor nor a parameter": (
            lambda: ll.grad(loss, "x"),  # pyright: ignore
            "give a tensor, a parameter, a list or a dict of them: ll.grad(loss, [w, b])",
        ),
        "grad: 7 is neither a tensor nor a parameter": (
            lambda: ll.grad(loss, [x, 7]),  # pyright: ignore
            "give a tensor, a parameter, a list or a dict of them: ll.grad(loss, [w, b])",
        ),
        "grad: the graph 'main' does not borrow parameter p": (
            lambda: ll.grad(loss, p),
            "a parameter is borrowed when it is used, or by cx.parameter(p)",
        ),
        "backward: the loss %one () is computed from no input that holds floats": (
            lambda: one.backward(),
            "what cx.tensor(...) and parameters give has gradients",
        ),
        "grad: Linear Linear(3, 2)  8 parameters … is neither a tensor nor a parameter": (
            lambda: ll.grad(loss, ll.nn.Linear(3, 2)),  # pyright: ignore
            "a module's are ll.grad(loss, module.parameters())",
        ),
        "grad: checkpoint is 3, and must be the names of scopes": (
            lambda: ll.grad(loss, x, checkpoint=3),  # pyright: ignore
            'give a list of them, as in checkpoint=["block0", "block1"]',
        ),
        "grad: checkpoint is [3], and must be the names of scopes": (
            lambda: ll.grad(loss, x, checkpoint=[3]),  # pyright: ignore
            'give a list of them, as in checkpoint=["block0", "block1"]',
        ),
        "stop_gradient: 3 is not a tensor": (
            lambda: ll.stop_gradient(3),  # pyright: ignore
            "make one with cx.tensor(...)",
        ),
        "gradient: 3 is not an op class": (
            lambda: ll.gradient(3),  # pyright: ignore
            "write @gradient(MyOp) above the function",
        ),
    }
    for message, (call, hint) in told.items():
        error = error_of(call)
        assert (error.message, error.hint) == (message, hint)
        assert "test_derive.py" in error.where
    assert state(cx)[:3] == before[:3]


def test_errors_of_own_gradients():
    cx, x, _ = square()

    def own(returned: Any) -> Any:
        return ll.custom_gradient(lambda a: returned)(x)

    for returned in (x, (x, 3), (x, lambda g: g, 1), [x, lambda g: g], (3, lambda g: g)):
        error = error_of(lambda r=returned: own(r), ll.DefinitionError)
        assert error.message.startswith("custom_gradient 'lambda': it returned ")
        assert error.hint == "return a pair: one tensor, and a function of its gradient"
    error = error_of(lambda: ll.custom_gradient(lambda a: (x, a))(3), ll.GraphError)
    assert error.message == "custom_gradient 'lambda': there is no tensor among its arguments"
    theirs = ll.Graph().tensor((3,))
    error = error_of(lambda: own((theirs, lambda g: g)), ll.GraphError)
    assert error.message == "custom_gradient 'lambda': its tensors belong to different graphs"
    y = own((x * 2, lambda g: (g, g)))
    error = error_of(lambda: ll.grad(y.sum(), x), ll.DefinitionError)
    assert error.message == (
        "custom_gradient 'lambda': it takes 1 tensors, and its backward returned 2 gradients"
    )
    cx.backwards.clear()
    error = error_of(lambda: ll.grad(y.sum(), x), ll.GraphError)
    assert error.message == ("grad: the graph 'main' does not know the custom gradient 'lambda'")


def test_a_host_call_has_none():
    cx, x, _ = square()
    y = cx.function(np.sin, x, shape=(3,))
    error = error_of(lambda: ll.grad(y.sum(), x), ll.GraphError)
    assert error.message == (
        f"grad: {y.node} is made by the Python function 'sin', which has no gradient"
    )
    assert error.hint == "give it one with @ll.custom_gradient, or cut it off with detach()"
    assert run(cx, ll.grad((y.detach() * x).sum(), x))[0][0] == pytest.approx(np.sin(1), rel=1e-6)


def test_a_run_cannot_be_derived_in_the_middle():
    cx, x, loss = square()
    cx.function(lambda _: ll.grad(loss, x).shape, x, shape=(1,)).retrieve()
    with pytest.raises(ll.GraphError, match="is running"):
        cx.execute()


def test_zeros_belong_to_what_they_are_for():
    cx, _, loss = square()
    other = cx.tensor((2,), name="other")
    zero = ll.grad(loss, other)
    assert zero.node.op == Constant(0.0, ll.DType.float32, (2,))
    assert zero.node.meta.derivation == ("grad-zero", (other.id,))


@pytest.mark.parametrize(
    "write", [lambda node, g: g * node, lambda node, g: node * g], ids=["behind", "before"]
)
def test_a_gradient_that_takes_the_node_for_its_value_is_told_its_result(write, monkeypatch):
    monkeypatch.setitem(RULES, "recip", RULES["recip"]._replace(write=write))
    _, x, _ = square()
    error = error_of(lambda: x.recip().sum().backward(), DTypeError)
    assert error.message == (
        "grad: the gradient of recip computes with the node itself, which is not a tensor"
    )
    assert error.hint == "node.result is its value, and node[0] that of its first source"


def test_a_node_that_is_returned_is_told_by_its_op(monkeypatch):
    monkeypatch.setitem(RULES, "recip", RULES["recip"]._replace(write=lambda node, g: node))
    _, x, _ = square()
    error = error_of(lambda: x.recip().sum().backward(), ll.errors.DefinitionError)
    assert error.message.endswith(" is the forward node of recip, whose value is node.result")


def test_the_record_of_derivations_derives_nothing():
    cx, x, loss = square()
    error = error_of(lambda: cx.gradients(loss, [x]), ArgumentError)
    assert error.message.startswith("gradients: it has a snapshot for each derivation so far")
    assert error.hint == (
        "ll.grad(loss, [x, y]) returns the gradients, and loss.backward() makes x.grad"
    )
    loss.backward()
    assert len(cx.gradients) == 1


def test_a_gradient_takes_a_node_and_the_gradient_of_its_result():
    before = RULES["recip"]
    error = error_of(lambda: ll.gradient(Recip)(lambda op, node, g: g), ll.errors.DefinitionError)  # pyright: ignore
    assert error.message == (
        "gradient of recip: its function takes (op, node, g), and is called with the forward node "
        "and the gradient of its result"
    )
    assert RULES["recip"] is before

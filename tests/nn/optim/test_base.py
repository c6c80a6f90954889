"""What all optimisers share: which weights, state, and several graphs."""

import copy
import pickle
from typing import Any

import numpy as np
import pytest

import luminal_lab as ll
from luminal_lab import nn
from tests.nn.optim.line import Line, task, values

# -- which weights --------------------------------------------------------------------------------


@pytest.mark.parametrize("given", ["nothing", "module", "dict", "list", "one"])
def test_weights_are_given_in_many_ways(given):
    cx, loss, line = task()
    weights = {
        "nothing": None,
        "module": line,
        "dict": {"slope": line.a},
        "list": [line.a],
        "one": line.a,
    }[given]
    updates = nn.SGD(0.01).minimise(loss, weights)
    assert list(updates) == {"nothing": ["a", "b"], "module": ["a", "b"], "dict": ["slope"]}.get(
        given, ["a"]
    )
    cx.execute()
    a, b, fixed, unused = values(line)
    # The gradients by a and b: the means of 2 y x and of 2 y, where y is 3, 5, 7.
    assert a == pytest.approx(2 - 0.01 * 2 * 34 / 3)
    assert b == pytest.approx(1 - 0.01 * 10 if len(updates) > 1 else 1)
    assert (fixed, unused) == (1, 7)


def test_inputs_can_be_weights():
    cx = ll.Graph()
    w = cx.tensor((2,), name="w").set([1.0, 2.0])
    nn.SGD(0.5, momentum=0.9).minimise((w * w).sum(), w)
    cx.execute()
    assert w.tolist() == [0, 0]


# -- state and graphs -----------------------------------------------------------------------------


def test_another_graph_sees_the_new_weights():
    cx, loss, line = task()
    other = ll.Graph("evaluation")
    y = line(other.tensor((1,)).set([1.0])).retrieve()
    other.execute()
    assert y.item() == 3
    nn.SGD(0.01).minimise(loss)
    loss.retrieve()
    for _ in range(3):
        cx.execute()
        other.execute()
        a, b, *_ = values(line)
        assert y.item() == np.float32(a) + np.float32(b)
    assert loss.item() < 20


def test_the_loss_is_retrieved_and_is_that_of_before_the_step():
    cx, loss, line = task()
    nn.SGD(0.01).minimise(loss)
    cx.execute()
    assert loss.item() == pytest.approx(83 / 3)
    first = values(line)
    cx.execute()
    assert values(line) != first


def test_the_state_is_that_of_a_module(tmp_path):
    cx, loss, line = task()
    optimiser = nn.Adam(nn.schedules.Exponential(0.1, 0.9))
    optimiser.minimise(loss)
    cx.execute()
    cx.execute()
    kept = optimiser.state_dict()
    shared = ["shared.step", "shared.mean_share", "shared.square_share"]
    of_weights = [f"state.{weight}.{name}" for weight in "ab" for name in ("mean", "square")]
    assert list(kept) == [*shared, *of_weights]
    assert kept["shared.step"] == 2
    assert kept["shared.mean_share"] == pytest.approx(1 - 0.9**2)
    assert str(optimiser).startswith("Adam(lr=Exponential(lr=0.1, factor=0.9), betas=(0.9, 0.999))")
    assert optimiser.parameters() == {}
    weights = line.state_dict()
    cx.execute()
    after = values(line)
    # Going back to what was kept, the same step follows.
    line.load_state_dict(weights)
    optimiser.load_state_dict(kept)
    cx.execute()
    assert values(line) == after
    optimiser.initialise()
    assert optimiser.state_dict()["shared.step"] == 0


def test_two_graphs_share_the_state():
    """A graph for each size of batches: one optimiser goes on in either."""
    line, optimiser = Line(), nn.SGD(0.01, momentum=0.9)
    graphs = []
    for size in (1, 1):
        cx = ll.Graph(f"of{size}")
        optimiser.minimise(nn.mse_loss(line(cx.tensor((size,)).set([1.0] * size)), [0.0] * size))
        graphs.append(cx)
    alone, single = Line(), nn.SGD(0.01, momentum=0.9)
    cx = ll.Graph()
    single.minimise(nn.mse_loss(alone(cx.tensor((1,)).set([1.0])), [0.0]))
    for k in range(4):
        graphs[k % 2].execute()
        cx.execute()
        assert values(line) == values(alone)
    assert list(optimiser.state_dict()) == ["state.a.momentum", "state.b.momentum"]


def test_gradients_in_one_graph_and_the_step_in_another():
    train, loss, line = task("train")
    weights = {"a": line.a, "b": line.b}
    gradients = ll.grad(loss, weights)
    train.retrieve(gradients)
    update = ll.Graph("update")
    handed = {name: update.tensor(p.shape, name=f"{name}.grad") for name, p in weights.items()}
    nn.Adam(0.1).step(weights, handed)
    together, other_loss, other = task()
    nn.Adam(0.1).minimise(other_loss)
    for _ in range(5):
        train.execute()
        train.transfer(gradients, handed)
        update.execute()
        together.execute()
        assert values(line) == values(other)
    assert values(line) != values(Line())


def test_unnamed_and_equally_named_weights():
    cx = ll.Graph()
    ws = [nn.Parameter((), value=1.0, name=name) for name in (None, "w", "w")]
    optimiser = nn.SGD(0.1, momentum=0.9)
    loss = sum(cx.parameter(w) * cx.parameter(w) for w in ws)
    assert isinstance(loss, ll.Tensor)
    optimiser.minimise(loss, ws)
    cx.execute()
    assert [w.value.item() for w in ws] == pytest.approx([0.8] * 3)
    assert list(optimiser.state_dict()) == [
        "state.0.momentum",
        "state.w.momentum",
        "state.w_2.momentum",
    ]


def test_a_rate_may_be_an_input():
    cx, loss, line = task()
    rate = cx.tensor((), name="rate").set(0.0)
    nn.SGD(rate).minimise(loss)
    cx.execute()
    assert values(line)[0] == 2
    rate.set(0.01)
    cx.execute()
    assert values(line)[0] < 2


def test_nodes_know_the_optimiser_and_the_weight():
    cx, loss, _ = task()
    nn.SGD(0.1).minimise(loss, clip_norm=1.0, clip_value=2.0)
    scopes = {node.meta.scope for node in cx.ir}
    assert {"sgd.a", "sgd.b", "clip_grad_norm", "clip_grad_value"} <= scopes


def test_what_is_worth_watching_has_a_name():
    cx, loss, _ = task()
    nn.Adam(nn.schedules.Exponential(0.1, 0.5)).minimise(loss, clip_norm=1.0)
    rate, norm = cx["adam.lr"].retrieve(), cx["grad_norm"].retrieve()
    seen = []
    for _ in range(3):
        cx.execute()
        seen.append(rate.item())
    assert seen == pytest.approx([0.1, 0.05, 0.025])
    assert norm.item() > 1


def test_dropping_the_updates_ends_the_training():
    cx, loss, line = task()
    loss.retrieve()
    updates = nn.SGD(0.01).minimise(loss)
    cx.execute()
    cx.drop(updates)
    before = values(line)
    cx.execute()
    assert values(line) == before
    nn.SGD(0.01).minimise(loss)
    cx.execute()
    assert values(line) != before


def test_an_optimiser_of_ones_own():
    class Halving(nn.Optimiser):
        def update(self, weight, gradient, state):
            state["seen"] = state["seen"] + 1
            return weight * 0.5

    cx, loss, line = task()
    optimiser = Halving()
    optimiser.minimise(loss)
    for _ in range(2):
        cx.execute()
    assert values(line)[:2] == [0.5, 0.25]
    assert optimiser.state_dict() == {"state.a.seen": 2, "state.b.seen": 2}


def test_a_cell_can_be_run_again():
    cx, loss, line = task()
    loss.retrieve()
    counts = []
    for rate in (0.01, 0.02, 0.03):
        cx._begin("the cell")  # what the notebook calls before the cell with this id
        nn.SGD(rate, momentum=0.9).minimise(loss)
        cx._begin("another")
        cx.execute()
        counts.append(len(cx.ir))
    assert counts[0] == counts[1] == counts[2]
    assert values(line)[0] < 2


def test_numbers_of_numpy_are_numbers():
    cx, loss, line = task()
    rate: Any = np.float32(0.25)
    most: Any = np.float32(9)
    nn.SGD(lr=rate).minimise(loss, clip_norm=np.float64(1e9), clip_value=most)
    cx.execute()
    assert values(line)[1] == 1.0 - 0.25 * 9


def test_a_state_made_of_another_dtype_goes_on_in_that_of_the_weights():
    cx, loss, line = task()
    adam = nn.Adam(lr=0.5)
    adam.minimise(loss)
    cx.execute()
    adam.to("float16")
    other = ll.Graph("other")
    adam.minimise(line(other.tensor((3,)).set([1, 2, 3])).square().sum())
    assert {p.dtype for p in adam.buffers().values()} == {ll.DType.float32}


def test_an_optimiser_is_copied_and_pickled():
    cx, loss, _ = task()
    adam = nn.Adam(lr=0.5)
    adam.minimise(loss)
    cx.execute()
    for again in (copy.deepcopy(adam), pickle.loads(pickle.dumps(adam))):
        assert again.state_dict() == adam.state_dict()

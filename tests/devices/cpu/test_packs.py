"""Copies of weights are kept while the weights stay, and made anew as soon as one changes."""

from typing import Any

import numpy as np
import pytest

import luminal_lab as ll
from luminal_lab.devices.cpu import packs
from luminal_lab.devices.cpu.packs import KeptPacks
from luminal_lab.devices.cpu.plan import CPUPlan
from luminal_lab.devices.cpu.program import CPUProgram
from tests.needs import need

RNG = np.random.default_rng(0)
IMAGE = (1, 16, 12, 12)


@pytest.fixture
def stages(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list that each run's stage is added to."""
    need("cc")
    stages: list[str] = []
    stage = KeptPacks.stage

    def noted(self: KeptPacks, *args: Any) -> Any:
        stages.append(stage(self, *args))
        return stages[-1]

    monkeypatch.setattr(KeptPacks, "stage", noted)
    return stages


def drawn(*shape: int) -> Any:
    return RNG.standard_normal(shape, "float32")


def kernel() -> Any:
    return drawn(16, 16, 3, 3) / 12


def convolved(weights: int = 1) -> tuple[ll.Graph, ll.Tensor, list[ll.Parameter], ll.Tensor]:
    """Return a compiled graph of convolutions, its image, its weights and its result."""
    cx = ll.Graph()
    image = cx.tensor(IMAGE, name="image").set(drawn(*IMAGE))
    given = [ll.Parameter((16, 16, 3, 3), value=kernel()) for _ in range(weights)]
    y = image
    for weight in given:
        y = y.conv(weight, padding=1)
    y = y.retrieve()
    cx.compile(ll.GenericCompiler(), ll.CPUCompiler())
    return cx, image, given, y


def expected(image: Any, weights: list[ll.Parameter]) -> Any:
    cx = ll.Graph()
    y = cx.tensor(IMAGE).set(image)
    for weight in weights:
        y = y.conv(cx.tensor(weight.shape).set(weight.value), padding=1)
    y.retrieve()
    cx.execute()
    return y.numpy()


def plan_of(cx: ll.Graph) -> CPUPlan:
    program = cx.compilation.runner
    assert isinstance(program, CPUProgram)
    (plan,) = program._plans.values()
    return plan


def close(value: Any, wanted: Any) -> None:
    np.testing.assert_allclose(value, wanted, rtol=1e-4, atol=1e-4)


def test_the_second_run_keeps_them_and_the_third_finds_them(stages):
    cx, image, weights, y = convolved(2)
    for _ in range(4):
        data = drawn(*IMAGE)
        image.set(data)
        cx.execute()
        close(y.numpy(), expected(data, weights))
    assert stages == ["passing", "kept now", "kept", "kept"]
    plan = plan_of(cx)
    assert [pack.phase[0] for pack in plan.packs.packs] == [0, 1]
    assert plan.packs.bytes == 2 * 16 * 16 * 9 * 4


def test_a_weight_that_changes_is_copied_again(stages):
    cx, image, weights, y = convolved(2)
    data = drawn(*IMAGE)
    for turn in range(3):
        for _ in range(3):
            image.set(data)
            cx.execute()
            close(y.numpy(), expected(data, weights))
        weights[turn % 2].set(kernel())
    assert stages == ["passing", "kept now", "kept"] * 3


def test_calls_of_a_function_keep_them_too(stages):
    cx, image, weights, y = convolved()
    function = cx.as_function()
    for _turn in range(2):
        for _ in range(3):
            data = drawn(*IMAGE)
            close(function(data), expected(data, weights))
        weights[0].set(kernel())
    assert stages == ["passing", "kept now", "kept"] * 2
    # A run of the session beside it does not take the function's copies for its own.
    data = drawn(*IMAGE)
    image.set(data)
    cx.execute()
    close(y.numpy(), expected(data, weights))
    close(function(data), expected(data, weights))
    assert stages[-2:] == ["passing", "passing"]


def test_weights_of_another_order_in_memory_are_copied_each_time(stages):
    cx, image, (own,), y = convolved()
    turned = np.ascontiguousarray(kernel().T).T
    for value in (turned, turned * 2, np.asfortranarray(turned * 3), kernel()):
        own.set(value, copy=False)
        for _ in range(3):
            data = drawn(*IMAGE)
            image.set(data)
            cx.execute()
            close(y.numpy(), expected(data, [own]))
    assert "kept" not in stages[:9]
    assert stages[-1] == "kept"


def test_data_that_is_no_parameter_is_copied_each_time(stages):
    cx = ll.Graph()
    image, weight = cx.tensor(IMAGE), cx.tensor((16, 16, 3, 3))
    y = image.conv(weight, padding=1).retrieve()
    cx.compile(ll.GenericCompiler(), ll.CPUCompiler())
    for _ in range(4):
        data, own = drawn(*IMAGE), ll.Parameter((16, 16, 3, 3), value=kernel())
        image.set(data)
        weight.set(own.value)
        cx.execute()
        close(y.numpy(), expected(data, [own]))
    assert {*stages} == {"passing"}


def test_what_a_run_writes_over_is_not_kept(stages):
    cx = ll.Graph()
    image = cx.tensor(IMAGE).set(drawn(*IMAGE))
    own = ll.Parameter((16, 16, 3, 3), value=kernel())
    loss = (image.conv(own, padding=1) ** 2).mean().retrieve()
    ll.nn.SGD(lr=0.1).minimise(loss)
    cx.compile(ll.GenericCompiler(), ll.CPUCompiler())
    losses = []
    for _ in range(4):
        cx.execute()
        losses.append(loss.item())
    assert losses == sorted(losses, reverse=True)
    read = {slot for pack in plan_of(cx).packs.packs for slot in pack.inputs}
    assert read <= {slot for node, slot in plan_of(cx).inputs if node.id == image.id}


def test_there_is_a_limit_to_their_memory(stages, monkeypatch):
    monkeypatch.setattr(packs, "available_memory", lambda: 64 * 16 * 16 * 9 * 4)
    cx, image, weights, y = convolved(2)
    for _ in range(4):
        data = drawn(*IMAGE)
        image.set(data)
        cx.execute()
        close(y.numpy(), expected(data, weights))
    assert len(plan_of(cx).packs.packs) == 1
    monkeypatch.setattr(packs, "available_memory", lambda: None)
    cx, image, weights, y = convolved()
    for _ in range(3):
        image.set(drawn(*IMAGE))
        cx.execute()
    assert plan_of(cx).packs.bytes == 0
    assert stages[-1] == "passing"


def test_times_and_traces_are_of_what_runs(stages):
    cx, image, weights, y = convolved(2)
    times = cx.time(rounds=3)
    assert len(times.rows) == len(cx.launches)
    cx.execute()
    close(y.numpy(), expected(image.numpy(), weights))

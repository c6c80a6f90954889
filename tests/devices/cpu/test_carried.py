"""What a run writes over: only what nobody but a session has."""

from copy import deepcopy

import numpy as np
import pytest

import luminal_lab as ll
from luminal_lab.devices.cpu import run
from luminal_lab.devices.cpu.program import CPUProgram
from luminal_lab.devices.cpu.run import CPURun
from luminal_lab.kernels.nest.nest import Nest
from tests.needs import need


def counting(layers: int = 3) -> tuple[ll.Graph, list[ll.Tensor], ll.Tensor]:
    """Return a compiled graph that adds x to each of some carried tables, in place."""
    need("cc")
    cx = ll.Graph()
    x = cx.tensor((4,), name="x").set(np.ones(4))
    tables = [cx.tensor((4,), name=f"table.{k}").set(np.full(4, k)) for k in range(layers)]
    for table in tables:
        cx.carry(table + x, table)
    total = sum(tables[1:], tables[0]).retrieve()
    cx.compile(ll.GenericCompiler(), ll.CPUCompiler())
    return cx, tables, total


def values(tables: list[ll.Tensor]) -> list[float]:
    return [float(table.numpy()[1]) for table in tables]


def test_steps_stay_in_place_and_count():
    cx, tables, total = counting()
    for step in range(1, 5):
        cx.execute()
        assert values(tables) == [k + step for k in range(3)]
        assert total.numpy()[2] == 3 * (step - 1) + 3
    program = cx.compilation.runner
    assert isinstance(program, CPUProgram)
    (plan,) = program._plans.values()
    before = plan.returned
    cx.execute()
    assert before is not None
    assert plan.returned is before  # which was found again as a whole
    assert len(before.nodes) == 3


def addresses(tables: list[ll.Tensor]) -> list[int]:
    return [table.numpy().ctypes.data for table in tables]


def test_the_memory_stays_the_same():
    cx, tables, _ = counting()
    cx.execute()
    cx.execute()
    before = addresses(tables)
    for _ in range(3):
        cx.execute()
        assert addresses(tables) == before


@pytest.fixture
def copied(monkeypatch):
    """Return the names of inputs that runs copy before they write over them."""
    names: list[str] = []
    copy = CPURun._copied

    def noted(self: CPURun, slot: int, array: np.ndarray) -> object:
        names.append(self.plan.list.slots[slot].name)
        return copy(self, slot, array)

    monkeypatch.setattr(CPURun, "_copied", noted)
    return names


def test_what_a_session_was_given_is_written_over_if_nobody_else_has_it(copied):
    cx, tables, _ = counting()
    data = np.full(4, 1, np.float32)
    tables[1].borrow(data)
    cx.execute()
    assert copied == ["table.1"]
    assert data.tolist() == [1] * 4
    assert values(tables) == [1, 2, 3]
    cx.execute()
    assert values(tables) == [2, 3, 4]
    assert copied == ["table.1"]


def test_a_parameter_is_written_over_if_nobody_else_has_its_value(copied):
    need("cc")
    weights = [ll.Parameter((4,), value=np.ones(4), name=f"w{k}") for k in range(2)]
    cx = ll.Graph()
    for weight in weights:
        tensor = cx.parameter(weight)
        cx.carry(tensor * 2, tensor)
    cx.compile(ll.GenericCompiler(), ll.CPUCompiler())
    view = weights[1].value
    cx.execute()
    assert copied == ["w1"]
    assert [weight.value.tolist() for weight in weights] == [[2] * 4] * 2
    assert view.tolist() == [1] * 4


def test_what_a_run_that_ended_early_would_have_written_over_is_as_it_was(copied, monkeypatch):
    cx, tables, _ = counting()

    def ends(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(run, "launch", ends)
        with pytest.raises(KeyboardInterrupt):
            cx.execute()
    assert values(tables) == [0, 1, 2]
    for step in range(1, 3):
        cx.execute()
        assert values(tables) == [k + step for k in range(3)]
    assert copied == []


@pytest.mark.parametrize(
    "kept", [lambda t: t.numpy(), lambda t: t.numpy()[1:], lambda t: memoryview(t.numpy())]
)
def test_what_somebody_holds_is_left_alone(kept):
    cx, tables, _ = counting()
    for _ in range(3):
        cx.execute()
    held = kept(tables[1])
    copy = np.array(held)
    for step in range(4, 7):
        cx.execute()
        assert (np.array(held) == copy).all()
        assert values(tables) == [k + step for k in range(3)]
    del held
    cx.execute()
    cx.execute()
    assert values(tables) == [k + 8 for k in range(3)]


def test_other_data_between_steps():
    cx, tables, _ = counting()
    for _ in range(3):
        cx.execute()
    tables[0].set(np.zeros(4))
    cx.execute()
    assert values(tables) == [1, 5, 6]
    cx.swap(tables[0], tables[2])
    cx.execute()
    assert values(tables) == [7, 6, 2]
    cx.swap(tables[0], tables[1])
    for _ in range(2):
        cx.execute()
    assert values(tables) == [8, 9, 4]


def test_two_sessions_of_one_compile_have_memory_of_their_own():
    cx, tables, _ = counting()
    cx.execute()
    cx.execute()
    other = deepcopy(cx)
    for step in range(3, 6):
        cx.execute()
        other.execute()
        assert values(tables) == [k + step for k in range(3)]
        assert values([other[t.name] for t in tables]) == [k + step for k in range(3)]


def test_a_timed_run_changes_nothing():
    cx, tables, _ = counting()
    for _ in range(3):
        cx.execute()
    cx.time(rounds=3)
    assert values(tables) == [3, 4, 5]
    cx.execute()
    assert values(tables) == [4, 5, 6]


def trained(
    device: ll.CPUCompiler | None = None, steps: int = 3
) -> tuple[ll.Graph, list[np.ndarray]]:
    """Return a graph that trains a model whose updates are kernels of three results."""
    cx = ll.Graph()
    x, wanted = cx.tensor((8, 5), name="x"), cx.tensor((8, 3), name="wanted")
    model = ll.nn.Linear(5, 3).initialise(seed=0)
    loss = ((model(ll.nn.LayerNorm(5)(x)).gelu() - wanted) ** 2).mean()
    updates = ll.nn.AdamW(0.1).minimise(loss)
    if device is not None:
        cx.compile(ll.GenericCompiler(), device)
    rng = np.random.default_rng(0)
    for _ in range(steps):
        x.set(rng.standard_normal((8, 5)))
        wanted.set(rng.standard_normal((8, 3)))
        cx.execute()
    return cx, [update.numpy().copy() for update in updates.values()]


def test_the_weights_and_the_state_of_an_optimiser_are_written_over():
    need("cc")
    cx, values = trained(ll.CPUCompiler())
    program = cx.compilation.runner
    assert isinstance(program, CPUProgram)
    assert [carry.why_not for carry in program.memory_plan.carries] == [""] * 14
    plan = program.plan(program.ir.output_ids)
    assert len(plan.works) - plan.no_return == 5  # of the two shared counts, and of four weights
    _, judged = trained()
    for value, wanted in zip(values, judged, strict=True):
        np.testing.assert_allclose(value, wanted, rtol=2e-4, atol=2e-6)


def test_a_result_written_over_what_is_still_needed_is_seen(monkeypatch):
    need("cc")

    def all_of_them(nest: Nest) -> dict[tuple[str, str], bool]:
        return {(new.name, old.name): False for new in nest.outputs for old in nest.inputs}

    cx = ll.Graph()
    table = cx.tensor((1000,), name="table").set(np.arange(1000))
    cx.carry(table.flip(0) * 2, table)
    monkeypatch.setattr(Nest, "overwritable", property(all_of_them))
    cx.compile(ll.GenericCompiler(), ll.CPUCompiler())
    cx.execute()
    assert (table.numpy() != np.arange(1000)[::-1] * 2).any()

"""Default numbers from a table: which nests find them, and that no number makes a kernel wrong."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import assume, given, strategies as st

from luminal_lab.algebra.one_pass import one_pass
from luminal_lab.core.op import ints
from luminal_lab.kernels.definition.text import parse_definition
from luminal_lab.kernels.nest.evaluate import evaluate_nest
from luminal_lab.kernels.nest.lowering import lower
from luminal_lab.kernels.nest.nest import Nest
from luminal_lab.kernels.nest.shape import shape_of
from luminal_lab.kernels.plans import cpu
from luminal_lab.kernels.plans.cpu import cpu_schedule
from luminal_lab.kernels.steps.schedule import Scheduling
from luminal_lab.machines.defaults import NONE, Defaults, DefaultsRow, Kind, Shape, shipped
from luminal_lab.machines.machine import Machine
from luminal_lab.search.validate import difference

MACHINE = Machine(vector_bytes=16, cores=2)
TEXTS = {
    "f32 ik,kj": """kernel product(a: f32[{n}, {k}], b: f32[{k}, {m}]) -> (c: f32[{n}, {m}])
  c[i < {n}, j < {m}] = sum k < {k}: a[i, k] * b[k, j]""",
    "f32 ik,jk": """kernel product(a: f32[{n}, {k}], b: f32[{m}, {k}]) -> (c: f32[{n}, {m}])
  c[i < {n}, j < {m}] = sum k < {k}: a[i, k] * b[j, k]""",
    "f32 ki,kj": """kernel product(a: f32[{k}, {n}], b: f32[{k}, {m}]) -> (c: f32[{n}, {m}])
  c[i < {n}, j < {m}] = math.gelu(sum k < {k}: a[k, i] * b[k, j])""",
    "f32 bik,bkj": """
kernel product(a: f32[3, {n}, {k}], b: f32[3, {k}, {m}]) -> (c: f32[3, {n}, {m}])
  c[h < 3, i < {n}, j < {m}] = sum k < {k}: a[h, i, k] * b[h, k, j]""",
    "f32 k,kj": """kernel product(a: f32[{k}], b: f32[{k}, {m}]) -> (c: f32[{m}])
  c[j < {m}] = sum k < {k}: a[k] * b[k, j]""",
    "f32 kj": """kernel sums(a: f32[{k}, {m}]) -> (c: f32[{m}])
  c[j < {m}] = sum k < {k}: a[k, j]""",
    "f32 jk": """kernel softmax(x: f32[{m}, {k}]) -> (y: f32[{m}, {k}])
  top[j < {m}] = max k < {k}: x[j, k]
  s[j < {m}, k < {k}] = exp2(x[j, k] - top[j])
  all[j < {m}] = sum k < {k}: s[j, k]
  y[j < {m}, k < {k}] = s[j, k] * recip(all[j])""",
    "f32 ikj": """kernel sums(a: f32[{n}, {k}, {m}]) -> (c: f32[{n}, {m}])
  c[i < {n}, j < {m}] = sum k < {k}: a[i, k, j]""",
    "f32 ijk": """kernel sums(a: f32[{n}, {m}, {k}]) -> (c: f32[{n}, {m}])
  c[i < {n}, j < {m}] = sum k < {k}: a[i, j, k]""",
    "f32 ij": """kernel sums(a: f32[{n}, {m}]) -> (c: f32[{n}, {m}])
  c[i < {n}, j < {m}] = math.exp(a[i, j]) + 1.0""",
    "f32 bj,bk": """
kernel attention(q: f32[2, {n}, {k}], k: f32[2, {m}, {k}], v: f32[2, {m}, 8]) -> (o: f32[2, {n}, 8])
  s[h < 2, i < {n}, j < {m}] = sum d < {k}: q[h, i, d] * k[h, j, d]
  top[h < 2, i < {n}] = max j < {m}: s[h, i, j]
  all[h < 2, i < {n}] = sum j < {m}: exp2(s[h, i, j] - top[h, i])
  o[h < 2, i < {n}, d < 8] = sum j < {m}: \
exp2(s[h, i, j] - top[h, i]) * recip(all[h, i]) * v[h, j, d]""",
}
"""A definition for each kind of nest."""


def nest_of(kind: str, n: object, k: object, m: object) -> Nest:
    text = TEXTS[kind].format(n=n, k=k, m=m).strip()
    return lower(one_pass(parse_definition(text)))


def table(row: DefaultsRow, machine: Machine = MACHINE) -> Defaults:
    return Defaults((Kind(machine, (row,)),))


def everywhere(kind: str, numbers: dict[str, int]) -> Defaults:
    """Return a table of numbers for all sizes of a kind of nest."""
    return table(DefaultsRow(kind, (1, 1 << 40), (1, 1 << 40), (1, 1 << 40), numbers))


@pytest.mark.parametrize("kind", TEXTS)
def test_nests_have_a_kind_and_sizes(kind: str):
    shape = shape_of(nest_of(kind, 17, 50, 70))
    assert shape is not None
    assert shape.nest == kind
    if kind == "f32 bj,bk":
        assert shape == (kind, 1, 2, 17), "70 keys are two blocks"
    else:
        assert shape == (kind, 17 if "i" in kind else 1, 50 if "k" in kind else 1, 70)


def test_windows_are_a_kind_of_their_own():
    text = """kernel convolution(x: f32[4, 20], w: f32[8, 4, 5]) -> (y: f32[8, 16])
  y[o < 8, i < 16] = sum c < 4: sum p < 5: w[o, c, p] * x[c, i + p]"""
    assert shape_of(lower(parse_definition(text))) == Shape("f32 ik,jk*", 8, 20, 16)


def test_a_size_without_a_number_has_no_row():
    assert shape_of(nest_of("f32 ik,kj", "n", 50, 70)) is None
    usual = cpu_schedule(
        nest_of("f32 ik,kj", "n", 50, 70), MACHINE, {}, everywhere("f32 ik,kj", {"tile_rows": 8})
    )
    assert usual.choices.values["tile_rows"] == 6


def test_numbers_of_the_table_are_usual_and_others_may_be_asked_for():
    nest, row = (
        nest_of("f32 ik,kj", 64, 64, 64),
        DefaultsRow("f32 ik,kj", (64, 64), (64, 64), (64, 64), {}),
    )
    row = replace(row, choices={"tile_rows": 8, "tile_vectors": 1})
    found = cpu_schedule(nest, MACHINE, {}, table(row)).choices
    assert (found.values["tile_rows"], found.values["tile_vectors"]) == (8, 1)
    assert found.values["block_tiles"] == 2, "what the row leaves open is the plan's own"
    assert str(found).endswith(
        "usual values: found on such a machine (16-byte vectors, 2 cores, 0.5 MB of second cache) "
        "for f32 ik,kj, 64 × 64 × 64"
    )
    near = replace(MACHINE, cores=3)
    assert "on a similar machine (16-byte" in str(cpu_schedule(nest, near, {}, table(row)).choices)
    asked = cpu_schedule(nest, MACHINE, {"tile_rows": 4}, table(row)).choices
    assert (asked.values["tile_rows"], asked.values["tile_vectors"]) == (4, 1)
    assert "4 is taken, where 8 is usual" in str(asked)
    for other in (nest_of("f32 ik,kj", 65, 64, 64), nest_of("f32 ik,jk", 64, 64, 64)):
        own = cpu_schedule(other, MACHINE, {}, table(row)).choices
        assert own.values["tile_rows"] == 6
        assert str(own).endswith("usual values: the plan's own")


def test_a_number_that_the_plan_does_not_offer_is_passed_over():
    nest = nest_of("f32 ik,kj", 64, 64, 64)
    found = cpu_schedule(nest, MACHINE, {}, everywhere("f32 ik,kj", {"tile_rows": 1000, "no": 3}))
    assert found.choices.values["tile_rows"] == 6


def test_numbers_that_a_step_refuses_give_way_to_the_plans_own(monkeypatch: pytest.MonkeyPatch):
    plan = cpu.contraction_plan

    def picky(scheduling: Scheduling, machine: Machine) -> bool:
        is_product = plan(scheduling, machine)
        if scheduling.usual.values:
            scheduling.do("split nothing by 3")
        return is_product

    nest = nest_of("f32 ik,kj", 64, 64, 64)
    own = cpu_schedule(nest, MACHINE, {}, NONE)
    monkeypatch.setattr(cpu, "contraction_plan", picky)
    found = cpu_schedule(nest, MACHINE, {}, everywhere("f32 ik,kj", {"tile_rows": 8}))
    assert found.steps == own.steps
    assert str(found.choices).endswith("usual values: the plan's own")


@given(st.data())
def test_a_kernel_is_right_with_any_numbers(data: st.DataObject):
    kind = data.draw(st.sampled_from([*TEXTS]))
    n, k, m = (data.draw(st.integers(1, 12)) for _ in range(3))
    nest, shape = nest_of(kind, n, k, m), shape_of(nest_of(kind, n, k, m))
    assume(shape)
    taken = cpu_schedule(nest, MACHINE, {}, NONE).choices
    numbers = {one.choice.name: data.draw(st.sampled_from(one.choice.values)) for one in taken}
    assert shape is not None
    scheduling = cpu_schedule(nest, MACHINE, {}, everywhere(shape.nest, numbers))
    values = scheduling.choices.values  # few_rows = 0 leads to another plan, with others
    assert all(numbers.get(name, value) == value for name, value in values.items())
    rng = np.random.default_rng(0)
    given = {
        name: rng.normal(size=ints(type.shape)).astype(np.float32) for name, type in nest.inputs
    }
    wanted, made = (evaluate_nest(one, given, {}) for one in (nest, scheduling.nest))
    assert difference(wanted, made) is None


KNOWN = [(kind.machine, row) for kind in shipped().kinds for row in kind.rows if row.choices]


@pytest.mark.share(12)
@pytest.mark.parametrize(("machine", "row"), KNOWN, ids=[str(row) for _, row in KNOWN])
def test_the_shipped_numbers_are_taken_at_every_corner_of_their_sizes(
    machine: Machine, row: DefaultsRow
):
    for n, k, m in product(*row.ranges):
        nest = nest_of(row.nest, *((m, 64, 64 * k) if row.nest == "f32 bj,bk" else (n, k, m)))
        assert shape_of(nest) == (row.nest, n, k, m)
        choices = cpu_schedule(nest, machine).choices
        assert row.choices.items() <= choices.values.items()
        assert f"for {row}" in str(choices)


def test_a_machine_without_rows_has_the_plans_own_numbers():
    machine = Machine(vector_bytes=32, cores=1 << 20)
    assert shipped().kind(machine) is None
    nest = nest_of("f32 ik,kj", 512, 512, 512)
    assert cpu_schedule(nest, machine).steps == cpu_schedule(nest, machine, {}, NONE).steps

"""Terms with other parts: what they share stays shared, or no memory would be large enough."""

from dataclasses import replace

from luminal_lab.core.dims import Symbol
from luminal_lab.core.dtypes import DType
from luminal_lab.core.ops import Add
from luminal_lab.kernels.definition.substitution import exchanged
from luminal_lab.kernels.definition.terms import Apply, Fold, Read, Term, passes, walk
from luminal_lab.kernels.nest.nest import Set, Statement, mapped
from luminal_lab.kernels.nest.text import parse_nest
from luminal_lab.kernels.plans.cpu import cpu_schedule
from luminal_lab.kernels.steps.step import with_body
from luminal_lab.machines.machine import Machine

I = Symbol("i", 0, 7)  # noqa: E741  # an axis


def doubled(term: Term, times: int = 100) -> Term:
    """Return a term that is added to itself again and again: 2 ** times of them, written out."""
    for _ in range(times):
        term = Apply(Add(), (term, term), term.dtype)
    return term


def test_what_is_shared_stays_shared() -> None:
    a, b = (Read(name, (I,), DType.float32) for name in "ab")
    made = exchanged(doubled(a), lambda one: b if one == a else None)
    parts = [*walk(made)]
    assert len(parts) == 101
    assert parts[-1] == b
    assert passes(made) == []


def test_the_bodies_of_folds_are_changed_too() -> None:
    a, b = (Read(name, (I,), DType.float32) for name in "ab")
    fold = Fold("sum", I, 8, a, DType.float32)
    assert str(exchanged(fold, lambda one: b if one == a else None)) == "sum i < 8: b[i]"


def test_the_default_steps_keep_what_is_shared() -> None:
    nest = parse_nest("""nest f(x: f32[8]) -> (y: f32[8])
  local t: f32[8] in memory
  for i < 8:
    t[i] = x[i] * 2.0
  for j < 8:
    y[j] = t[j]""")

    def longer(one: Statement) -> Statement:
        if isinstance(one, Set) and one.name == "y":
            return replace(one, term=doubled(one.term))
        return one

    made = cpu_schedule(with_body(nest, mapped(nest.body, longer)), Machine()).nest
    (last,) = [one for one in made.statements if isinstance(one, Set) and one.name == "y"]
    parts = [*walk(last.term)]
    assert len(parts) == 101
    assert str(parts[-1]) == "t[]"  # a scalar of each iteration

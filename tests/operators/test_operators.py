"""PyTorch's table of operators: each name is here, here in part or absent for a reason."""

from collections.abc import Sequence
from types import ModuleType

import pytest

from tests.operators import page
from tests.operators.reasons import ABSENT, DIFFERS
from tests.operators.spelling import SPELLED
from tests.operators.sweep import (
    Trial,
    compared,
    disagreement,
    disagreements,
    outcome,
    samples,
    small_sample,
    spelling,
    table,
)

PARTS = 64
BATCHES = 6
"""How many programs the samples of all names are compiled as."""
LARGE = ("linalg.tensorinv", "linalg.tensorsolve", "matrix_exp", "grid_sampler_3d")
"""Names all of whose samples are graphs of many nodes."""
ABSENT_NAMES = {name for names in ABSENT.values() for name in names.split()}


def test_every_name_is_here_or_absent_for_a_reason(torch: ModuleType) -> None:
    names = set(table(torch))
    spelled = {name for name in names if spelling(name) is not None}
    assert names - spelled == ABSENT_NAMES
    assert DIFFERS.keys() <= spelled
    assert SPELLED.keys() <= names
    assert len(spelled - DIFFERS.keys()) >= 400


def test_the_page_has_what_is_here(torch: ModuleType) -> None:
    found = page.listed(page.PAGE.read_text(encoding="utf-8"))
    spelled = {name for name in table(torch) if spelling(name) is not None}
    hint = "run python -m tests.operators"
    assert found["Not here"] == ABSENT_NAMES, hint
    assert found["Here in part"] == set(DIFFERS), hint
    assert found["Here"] == spelled - DIFFERS.keys(), hint


def test_the_numbers_of_a_page_can_be_read_again(torch: ModuleType) -> None:
    rows = {name: page.Row(name, spelling(name), 0, 0, ()) for name in table(torch)}
    text = page.PAGE.read_text(encoding="utf-8")
    assert page.page((rows | page.known(text, rows)).values()) == text


@pytest.mark.share("part", range(PARTS), 3)
def test_all_samples_on_the_interpreter(torch: ModuleType, part: int) -> None:
    wrong: list[str] = []
    for entry in list(table(torch).values())[part::PARTS]:
        found = outcome(torch, entry)
        if found.text is not None and bool(found.differ) != (entry.name in DIFFERS):
            wrong.append(f"{entry.name}: {found.agree} agree, and {dict(found.differ)} differ")
    assert wrong == []


@pytest.mark.share("batch", range(BATCHES), 2)
def test_a_sample_of_each_name_on_the_cpu(torch: ModuleType, batch: int, seed: int) -> None:
    left_out = {*DIFFERS, *LARGE}
    names = [name for name in table(torch) if spelling(name) and name not in left_out]
    assert disagreements(torch, trials_of(torch, names[batch::BATCHES], seed)) == {}


@pytest.mark.share("name", LARGE, 1)
def test_a_sample_of_a_large_graph_on_the_cpu(torch: ModuleType, name: str, seed: int) -> None:
    assert disagreements(torch, trials_of(torch, [name], seed)) == {}


def trials_of(torch: ModuleType, names: Sequence[str], seed: int) -> list[Trial]:
    """Return a sample of each name, drawn by a seed."""
    entries = [table(torch)[name] for name in names]
    return [Trial(e.name, spelling(e.name) or "", small_sample(torch, e, seed)) for e in entries]


def test_a_planted_fault_is_seen(torch: ModuleType) -> None:
    entry = table(torch)["add"]
    sample = next(samples(torch, entry))
    for text, fault in (
        ("x.add(*a, **k)", None),
        ("x.sub(*a, **k)", "values"),
        ("x.add(*a, **k).cast('float64')", "dtype"),
        ("x.add(*a, **k).unsqueeze(0)", "shape"),
        ("x.detach().add(*a, **k)", "gradient"),
        ("x.sud(*a, **k)", "UnknownNameError"),
        ("1 / 0", "INTERNAL"),
    ):
        found = disagreement(torch, Trial("add", text, sample))
        assert found is None if fault is None else fault in (found or "")


def test_infinities_and_nan_must_be_where_pytorch_has_them(torch: ModuleType) -> None:
    import numpy as np  # noqa: PLC0415  # for two lines

    ours = np.array([np.nan, np.inf, 1.0], np.float32)
    assert compared(ours, torch.tensor(ours), torch.float32) is None
    assert compared(ours, torch.tensor([0.0, np.inf, 1.0]), torch.float32) is not None
    assert compared(ours, torch.tensor([np.nan, -np.inf, 1.0]), torch.float32) is not None

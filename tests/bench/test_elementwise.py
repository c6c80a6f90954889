"""The table of elementwise functions: what counts as an error, and that ours are in it."""

from importlib import import_module
from types import ModuleType

import numpy as np
import pytest

from luminal_lab.tensor import Tensor
from tests.needs import need


@pytest.fixture(scope="module")
def study() -> ModuleType:
    """The study, which needs PyTorch."""
    need("torch")
    return import_module("luminal_lab.bench.studies.elementwise")


def test_errors_are_in_units_of_the_last_place(study):
    x = np.array([1, 2, 3, 4], np.float32)
    exact = np.array([1.0, 2.0, 3.0, 1e-45])
    y = exact.astype(np.float32)
    assert study.worst(x, y, exact).ulps < 0.5
    y[1] = np.nextafter(y[1], np.float32(3))
    assert study.worst(x, y, exact) == (1.0, 2.0)
    y[3] = 0
    assert study.worst(x, y, exact) == (1.0, 2.0)


def test_what_is_not_finite_must_be_the_same_but_for_the_largest_number(study):
    most = np.finfo(np.float32).max
    x = np.array([1, 2, 3], np.float32)
    with np.errstate(all="ignore"):
        right = np.array([np.nan, np.inf, -np.inf])
        assert study.worst(x, right.astype(np.float32), right).ulps == 0
        assert study.worst(x, np.array([np.nan, most, -np.inf], np.float32), right) == (1.0, 2.0)
        assert study.worst(x, np.array([0, np.inf, -np.inf], np.float32), right) == (np.inf, 1.0)
        assert study.worst(x, np.array([np.nan, np.inf, most], np.float32), right).ulps == np.inf


def test_the_sweep_has_all_sizes_and_both_signs(study):
    x = study.sweep()
    assert not np.isnan(x).any()
    assert len(x) > 4_000_000
    assert x.min() < -1e38
    assert x.max() > 1e38
    assert ((np.abs(x) > 0) & (np.abs(x) < 1e-38)).any()


def test_each_function_is_ours_too(study):
    for function in study.functions():
        name = function.name.partition("(")[0]
        assert hasattr(Tensor, name)

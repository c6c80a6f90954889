"""What a value is said to be like, against NumPy's own answers."""

import json

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, strategies as st
from hypothesis.extra import numpy as drawn

from luminal_lab.viz.live import statistics as module
from luminal_lab.viz.live.statistics import statistics

DTYPES = [np.float32, np.float64, np.float16, np.int32, np.int8, np.uint8, np.bool_]


@given(
    st.sampled_from(DTYPES).flatmap(
        lambda dtype: drawn.arrays(dtype, drawn.array_shapes(min_dims=0, min_side=0, max_side=5))
    )
)
def test_they_are_numpys(value: np.ndarray):
    found = statistics(value)
    wide = value.astype(np.float64).ravel()
    good = wide[np.isfinite(wide)]
    assert found["count"] == value.size
    assert found["nan"] == np.isnan(wide).sum()
    assert found["inf"] == np.isinf(wide).sum()
    assert found["zeros"] == (wide == 0).sum()
    assert not found["sampled"]
    if good.size:
        assert (found["min"], found["max"]) == (good.min(), good.max())
        if found["mean"] is not None and abs(good).max() < 1e100:
            assert found["mean"] == pytest.approx(good.mean(), rel=1e-9, abs=1e-9)
            assert found["std"] == pytest.approx(good.std(), rel=1e-6, abs=1e-9)
    else:
        assert (found["min"], found["max"], found["mean"], found["std"]) == (None,) * 4
    assert sum(found["bins"]) == good.size
    assert len(found["edges"]) == (len(found["bins"]) + 1 if good.size else 0)
    assert found["edges"] == sorted(found["edges"])
    json.dumps(found, allow_nan=False)


def test_a_sentence_says_it():
    value = np.array([[1, np.nan, np.inf], [0, -np.inf, -2]], np.float32)
    assert statistics(value)["text"] == (
        "6 numbers, float32(2, 3): -2 to 1, mean -0.3333 ± 1.247, 1 zeros, 1 NaN, 2 infinite"
    )
    assert statistics(np.array(3, np.float32))["text"] == (
        "1 number, float32(): 3 to 3, mean 3 ± 0"
    )
    assert statistics(np.zeros((0, 2)))["text"] == "float64(0, 2) has no numbers"


def test_few_whole_numbers_have_a_bin_each():
    found = statistics(np.array([1, 1, 3], np.int8))
    assert found["bins"] == [2, 0, 1]
    assert found["edges"] == [0.5, 1.5, 2.5, 3.5]
    assert statistics(np.array([True, False, True]))["bins"] == [1, 2]


def test_halves_of_all_kinds_are_read():
    value = np.array([1, 2, np.nan], ml_dtypes.bfloat16)
    assert (statistics(value)["max"], statistics(value)["nan"]) == (2.0, 1)


@pytest.mark.parametrize("huge", [1.7e308, 1e308])
def test_numbers_whose_difference_is_too_large(huge: float):
    found = statistics(np.array([huge, -huge, 0.0]))
    assert (found["min"], found["max"]) == (-huge, huge)
    assert sum(found["bins"]) == 3
    json.dumps(found, allow_nan=False)


def test_numbers_that_no_edge_parts():
    close = np.array([1.0, np.nextafter(1.0, 2)])
    assert statistics(close)["bins"] == [2]


def test_what_is_very_large_is_sampled(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "READ", 100)
    monkeypatch.setattr(module, "CHUNK", 7)
    value = np.arange(1001, dtype=np.float32)
    found = statistics(value)
    assert found["sampled"]
    assert (found["count"], sum(found["bins"])) == (1001, 91)
    assert found["text"].startswith("91 of 1,001 numbers, float32(1001,): 0 to 990, mean ")

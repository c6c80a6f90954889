"""Products of bfloat16 numbers on both sides: what is rounded, and what stays."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import luminal_lab as ll
from luminal_lab.language.decoding import FLUSHING
from luminal_lab.tensor.blocks import Blocks


def layer(rows: int, columns: int, seed: int = 0) -> ll.nn.Linear:
    made = ll.nn.Linear(columns, rows, bias=False)
    value = np.random.default_rng(seed).standard_normal((rows, columns))
    made.weight.set(Blocks("bf16", value.astype(ml_dtypes.bfloat16), (rows, columns)))
    return made


@pytest.mark.needs("cc")
@pytest.mark.parametrize("rows", [1, 7, 40])
def test_only_what_is_multiplied_is_rounded(rows):
    first = layer(48, 128)
    x = np.random.default_rng(1).standard_normal((rows, 128)).astype(np.float32)
    short = x.astype(ml_dtypes.bfloat16).astype(np.float32)
    expected: Any = short.astype(np.float64) @ first.weight.value.T.astype(np.float64)
    for device in ([], [ll.CPUCompiler()]):
        cx = ll.Graph()
        y = first(cx.tensor(x.shape, name="x").set(x)).retrieve()
        cx.compile(ll.Bfloat16Activations(), ll.GenericCompiler(), *device, licence=FLUSHING)
        cx.execute()
        result: Any = y.numpy()
        np.testing.assert_allclose(result, expected, atol=1e-5 * np.abs(expected).max())
        assert cx.compilation.rounds
    weight: Any = first.weight.value.T
    whole: Any = x @ weight
    assert np.abs(whole - expected).max() > 1e-4  # something is rounded


def test_what_several_products_read_is_rounded_once_and_results_are_not():
    first, second, third = layer(64, 64), layer(64, 64, 1), layer(64, 64, 2)
    cx = ll.Graph()
    x = cx.tensor((4, 64), name="x")
    (third(first(x)) + second(x)).retrieve()
    ir = cx.compile(ll.Bfloat16Activations()).ir
    assert str(ir).count("cast{dtype = bf16}") == 1
    refused = [r.because for snapshot in cx.snapshots for r in snapshot.refusals]
    assert any("is a product, perhaps the end of an attention" in because for because in refused)

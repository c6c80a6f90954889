"""Plain products as cuBLAS takes them: which kernels are one, and where its operands lie."""

from typing import Any

import numpy as np
import pytest

from luminal_lab.core.dtypes import DType
from luminal_lab.core.op import ints
from luminal_lab.devices.cuda.library import GemmOperand, product_of
from luminal_lab.kernels.definition.evaluate import evaluate
from luminal_lab.kernels.definition.text import parse_definition

KERNELS = {
    "rows by columns": (
        "(a: f32[5, 7], b: f32[7, 6]) -> (O: f32[5, 6])\n"
        "  O[i < 5, j < 6] = sum k < 7: fused(a[i, k] * b[k, j])"
    ),
    "factors exchanged": (
        "(b: f32[7, 6], a: f32[5, 7]) -> (O: f32[5, 6])\n"
        "  O[i < 5, j < 6] = sum k < 7: fused(b[k, j] * a[i, k])"
    ),
    "left transposed": (
        "(a: f32[7, 5], b: f32[7, 6]) -> (O: f32[5, 6])\n"
        "  O[i < 5, j < 6] = sum k < 7: fused(a[k, i] * b[k, j])"
    ),
    "right transposed": (
        "(a: f32[5, 7], b: f32[6, 7]) -> (O: f32[5, 6])\n"
        "  O[i < 5, j < 6] = sum k < 7: fused(a[i, k] * b[j, k])"
    ),
    "of one array": (
        "(a: f32[5, 7]) -> (O: f32[5, 5])\n  O[i < 5, j < 5] = sum k < 7: fused(a[i, k] * a[j, k])"
    ),
    "a batch": (
        "(a: f32[3, 5, 7], b: f32[3, 7, 6]) -> (O: f32[3, 5, 6])\n"
        "  O[s < 3, i < 5, j < 6] = sum k < 7: fused(a[s, i, k] * b[s, k, j])"
    ),
    "rows of two axes": (
        "(a: f32[3, 5, 7], b: f32[7, 6]) -> (O: f32[3, 5, 6])\n"
        "  O[s < 3, i < 5, j < 6] = sum k < 7: fused(a[s, i, k] * b[k, j])"
    ),
    "a part of a larger array": (
        "(a: f32[5, 9], b: f32[7, 8]) -> (O: f32[5, 6])\n"
        "  O[i < 5, j < 6] = sum k < 7: fused(a[i, k] * b[k, j])"
    ),
    "one row": (
        "(a: f32[1, 7], b: f32[7, 6]) -> (O: f32[1, 6])\n"
        "  O[i < 1, j < 6] = sum k < 7: fused(a[0, k] * b[k, j])"
    ),
}


@pytest.mark.parametrize("text", KERNELS.values(), ids=list(KERNELS))
def test_its_operands_give_the_product(text):
    definition = parse_definition(f"kernel p{text}")
    found = product_of(definition, {})
    assert found is not None
    rng = np.random.default_rng(0)
    inputs = {
        name: rng.standard_normal(ints(type.shape)).astype(np.float32)
        for name, type in definition.inputs
    }
    made = np.zeros(ints(definition.outputs[0].type.shape), np.float32)
    flat = [*(one.reshape(-1) for one in inputs.values()), made.reshape(-1)]

    def place(matrix: GemmOperand, batch: int, row: int, column: int) -> int:
        down, across = (matrix.step, 1) if matrix.op else (1, matrix.step)
        return batch * matrix.stride + row * down + column * across

    left, right, result = found.left, found.right, found.result
    for s, i, j in np.ndindex(found.batch, found.m, found.n):
        flat[result.argument][place(result, s, i, j)] = sum(
            flat[left.argument][place(left, s, i, k)] * flat[right.argument][place(right, s, k, j)]
            for k in range(found.k)
        )
    wanted: Any = evaluate(definition, inputs)["O"]
    np.testing.assert_allclose(made, wanted, rtol=1e-5, atol=1e-6)


OTHERS = {
    "a sum of more": "(a: f32[5, 7], b: f32[7, 6]) -> (O: f32[5, 6])\n"
    "  O[i < 5, j < 6] = (sum k < 7: fused(a[i, k] * b[k, j])) + 1.0",
    "a row sum": "(a: f32[5, 7]) -> (O: f32[5])\n  O[i < 5] = sum k < 7: fused(a[i, k] * 2.0)",
    "every other": "(a: f32[5, 14], b: f32[7, 12]) -> (O: f32[5, 6])\n"
    "  O[i < 5, j < 6] = sum k < 7: fused(a[i, 2*k] * b[k, 2*j])",
    "integers": "(a: i32[5, 7], b: i32[7, 6]) -> (O: i32[5, 6])\n"
    "  O[i < 5, j < 6] = sum k < 7: fused(a[i, k] * b[k, j])",
    "rounded products": "(a: f32[5, 7], b: f32[7, 6]) -> (O: f32[5, 6])\n"
    "  O[i < 5, j < 6] = sum k < 7: a[i, k] * b[k, j]",
    "a maximum": "(a: f32[5, 7], b: f32[7, 6]) -> (O: f32[5, 6])\n"
    "  O[i < 5, j < 6] = max k < 7: a[i, k] * b[k, j]",
    "another order": "(a: f32[2, 5, 4, 7]) -> (O: f32[2, 4, 5, 5])\n"
    "  O[s < 2, h < 4, i < 5, j < 5] = sum k < 7: fused(a[s, i, h, k] * a[s, j, h, k])",
}


@pytest.mark.parametrize("text", OTHERS.values(), ids=list(OTHERS))
def test_what_is_no_plain_product(text):
    assert product_of(parse_definition(f"kernel p{text}"), {}) is None


def test_sizes_that_are_zero_or_symbolic():
    definition = parse_definition(
        "kernel p(a: f32[n, 7], b: f32[7, 6]) -> (O: f32[n, 6])\n"
        "  O[i < n, j < 6] = sum k < 7: fused(a[i, k] * b[k, j])"
    )
    assert product_of(definition, {"n": 0}) is None
    found = product_of(definition, {"n": 40})
    assert found is not None
    assert (found.m, found.n, found.k) == (6, 40, 7)


def test_halves_are_added_up_in_float32():
    definition = parse_definition(
        "kernel p(a: bf16[5, 7], b: bf16[7, 6]) -> (O: bf16[5, 6])\n"
        "  O[i < 5, j < 6] = bf16(sum k < 7: f32(a[i, k]) * f32(b[k, j]))"
    )
    found = product_of(definition, {})
    assert found is not None
    assert (found.factor_dtype, found.result_dtype) == (DType.bfloat16, DType.bfloat16)

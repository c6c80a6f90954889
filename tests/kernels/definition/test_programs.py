"""What kernels compute in place of what is written: what a device takes, and what comes of it."""

from typing import Any

import numpy as np
import pytest

import luminal_lab as ll
from luminal_lab.errors import ArgumentError
from luminal_lab.kernels.definition.programs import read_programs
from luminal_lab.kernels.definition.text import parse_definition
from tests.expect import error_of

WRITTEN = """kernel twice(a: f32[n, 4]) -> (b: f32[n, 4])
  b[i < n, j < 4] = a[i, j] + a[i, j]"""
OTHER = WRITTEN.replace("a[i, j] + a[i, j]", "a[i, j] * 2.0").replace("twice", "doubled")


def test_texts_and_definitions_are_the_same():
    written, other = parse_definition(WRITTEN.replace("twice", "x")), parse_definition(OTHER)
    assert read_programs({WRITTEN: OTHER}, "cpu") == read_programs({written: other}, "cpu")
    assert read_programs({WRITTEN: None}, "cpu")[0][1] is None
    assert read_programs(None, "cpu") == ()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (3, "cpu: programs is 3, which has none"),
        ({3: OTHER}, "cpu: programs has 3, no definition"),
        ({WRITTEN: 3}, "cpu: programs has 3, no definition"),
        ({None: OTHER}, "cpu: programs has one for None"),
        (
            {WRITTEN: OTHER.replace("b: f32[n, 4]", "c: f32[n, 4]").replace("b[", "c[")},
            "cpu: the program for twice has other arrays\n"
            "  kernel twice(a: f32[n, 4]) -> (b: f32[n, 4])\n"
            "  kernel doubled(a: f32[n, 4]) -> (c: f32[n, 4])",
        ),
    ],
)
def test_words_for_what_is_no_program(given: Any, message: str):
    assert error_of(lambda: ll.CPUCompiler(programs=given), ArgumentError).message == message


def test_a_kernel_computes_what_its_program_says():
    cx = ll.Graph()
    x = cx.tensor((3, 4), name="x").set(np.arange(12.0).reshape(3, 4))
    y = (x + x * 3).retrieve()
    cx.compile(ll.GenericCompiler(), ll.CPUCompiler())
    (kernel,) = cx.kernels
    assert kernel.definition is not None
    other = str(kernel.definition).replace("\n", "\n", 1).rpartition("=")[0] + "= a[i, j] * 5.0"
    device = ll.CPUCompiler(programs={kernel.definition: other})
    cx.compile(ll.GenericCompiler(), device)
    cx.execute()
    assert str(device) == f"cpu{{programs = [{kernel.name}]}}"
    np.testing.assert_array_equal(y.numpy(), np.arange(12.0).reshape(3, 4) * 5)

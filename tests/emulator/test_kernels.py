"""`kernel.emulate`: data that is drawn, sizes that are small, what differs, what is refused."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import luminal_lab as ll
from luminal_lab.errors import (
    ArgumentError,
    DeviceError,
    DimError,
    InputError,
    RangeError,
    ScheduleError,
)
from tests.expect import error_of
from tests.needs import need


def kernels(write: Any, compiler: Any = None) -> Any:
    cx = ll.Graph()
    write(cx)
    cx.compile(ll.GenericCompiler(), compiler or ll.CUDACompiler())
    return cx.kernels


def product(cx: ll.Graph) -> None:
    (cx.tensor(("n", 20), name="x") @ cx.tensor((20, 8), name="w")).retrieve()


def test_inputs_are_drawn_and_sizes_are_small_unless_given():
    (kernel,) = kernels(product)
    seen = kernel.emulate()
    assert seen.dims == {"n": 17}
    assert seen.agrees
    assert seen.inputs["a"].shape == (17, 20)
    assert seen.trace is None
    assert kernel.emulate(dims={"n": 3}).outputs["O"].shape == (3, 8)
    seen = kernel.emulate({"a": np.ones((5, 20)), "b": np.ones((20, 8))})
    assert seen.dims == {"n": 5}
    assert (seen.outputs["O"] == 20).all()
    assert not kernel.emulate(dims={"n": 3}, trace=True).findings


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (
            {"inputs": [1, 2]},
            "inputs is a list, which names none of them\n"
            'hint: give a dict by their names, as in {"a": array}',
        ),
        (
            {"dims": 3},
            'dims is 3, which names none of them\nhint: give a dict, as in {"n": 8}',
        ),
        ({"trace": "yes"}, "trace is 'yes'\nhint: give True or False"),
        *(
            (
                {"limit": limit},
                f"limit is {limit!r}\nhint: give seconds, as in limit=60; they are above 0",
            )
            for limit in (0, -1, float("nan"), float("inf"), "60", True)
        ),
        ({"step": -1}, "step is -1\nhint: it counts runs, from 0"),
    ],
)
def test_arguments_that_cannot_be(given, text):
    (kernel,) = kernels(product)
    error = error_of(lambda: kernel.emulate(**given), ArgumentError)
    assert str(error) == f"kernel matmul: {text}"


def test_what_it_shows():
    (kernel,) = kernels(product, ll.MetalCompiler())
    seen = kernel.emulate(dims={"n": 3}, trace=True)
    text = str(seen)
    assert text.startswith("kernel matmul (metal) in the emulator, n = 3\n  kernel_matmul: ")
    assert "\n  O: float32(3, 8), as it should be\n" in text
    assert "accesses, nothing found\nline  accesses" in text
    assert repr(seen) == "<Emulated matmul: agrees, 0 findings; print(…) shows it>"
    lines = kernel.source.splitlines()
    assert all(lines[one - 1].strip() for one in seen.transactions)
    error = error_of(lambda: kernel.emulate(dims={"n": 3}).findings, DeviceError)
    assert str(error) == (
        "kernel matmul: its accesses were not recorded\n"
        "hint: kernel.emulate(trace=True) records them"
    )
    need("pandas")
    assert set(seen.to_pandas()["array"]) == {"a", "b", "O"}


def test_what_differs_is_counted_and_shown():
    (kernel,) = kernels(product)
    wrong = kernel.source.replace("] = t;", "] = 2.0f * t;")
    seen = replace(kernel, source=wrong).emulate(dims={"n": 2})
    assert not seen.agrees
    assert seen.wrong["O"].shape[1] == 2
    assert "wrong" in repr(seen)
    assert " of 16 are wrong: O[0, " in str(seen)


def test_indices_are_drawn_within_what_they_are_looked_up_in():
    def write(cx: ll.Graph) -> None:
        table = cx.tensor((5, 3), name="table")
        (table.embedding(cx.tensor(("n",), "int64", name="words")) * 2).retrieve()

    (kernel,) = kernels(write)
    seen = kernel.emulate(trace=True)
    assert seen.agrees
    assert not seen.findings
    words = next(name for name, array in seen.inputs.items() if array.dtype == np.int64)
    error = error_of(lambda: kernel.emulate({words: [0, 5]}), RangeError)
    assert "but a is (5, 3)" in error.message


@pytest.mark.parametrize("compiler", [ll.CUDACompiler(), ll.MetalCompiler()], ids=str)
def test_what_no_definition_says_is_compared_with_its_op(compiler: Any):
    def write(cx: ll.Graph) -> None:
        x = cx.tensor((6, 4), name="x")
        index = cx.tensor((3, 4), "int64", name="index")
        x.scatter_add(0, index, cx.tensor((3, 4), name="rows")).retrieve()
        x.update(cx.tensor((1, 4), name="row"), 2).retrieve()

    found = kernels(write, compiler)
    assert {kernel.name for kernel in found} >= {"scatter", "update"}
    for kernel in found:
        seen = kernel.emulate(trace=True)
        assert seen.expected
        assert seen.agrees
        assert not seen.findings


def test_what_would_take_long_is_refused_with_the_sizes_that_would_do():
    (kernel,) = kernels(product)
    error = error_of(lambda: kernel.emulate(dims={"n": 1_000_000}), DeviceError)
    assert str(error) == (
        "kernel matmul: it has about 348,000,160 operations with n = 1,000,000, and in 60 s the "
        "emulator does some 60,000,000\n"
        'hint: dims={"n": 125000} would do; or give it more time, with limit='
    )
    error = error_of(lambda: kernel.emulate(dims={"n": 10_000}, trace=True, limit=1), DeviceError)
    assert error.hint.startswith('dims={"n": 312} would do')

    def write(cx: ll.Graph) -> None:
        (cx.tensor((512, 512), name="x") @ cx.tensor((512, 512), name="w")).retrieve()

    error = error_of(lambda: kernels(write)[0].emulate(), DeviceError)
    assert error.hint == (
        "a graph whose sizes make it 5 times smaller would do; or give it more time, with limit="
    )


def test_what_it_is_given_must_fit():
    (kernel,) = kernels(product)
    error = error_of(lambda: kernel.emulate({"x": 1}), InputError)
    assert str(error) == "kernel matmul: it has no input 'x'\nhint: its inputs: a, b"
    error = error_of(lambda: kernel.emulate(dims={"m": 1}), DimError)
    assert str(error) == "kernel matmul: it has no dim 'm'\nhint: its dims: n"
    error = error_of(lambda: kernel.emulate(dims={"n": 2.5}), DimError)
    assert str(error) == "kernel matmul: n is 2.5\nhint: give a whole number"
    error = error_of(lambda: kernel.emulate({"a": np.ones((4, 21))}), InputError)
    assert error.message == (
        "kernel matmul: a is (4, 20), but the data is (4, 21), so that axis 1 has 21 and not 20"
    )
    error = error_of(lambda: kernel.emulate({"a": np.ones((4, 20))}, {"n": 5}), InputError)
    assert error.message.startswith("kernel matmul: a is (5, 20), but the data is (4, 20)")


def test_kernels_for_a_cpu_have_no_emulator():
    kernel, *_ = kernels(product, ll.CPUCompiler())
    error = error_of(kernel.emulate, DeviceError)
    assert str(error) == (
        "kernel matmul: it is C, for a CPU, and the emulator is for CUDA and Metal\n"
        "hint: ll.CUDACompiler() and ll.MetalCompiler() make some, on any machine"
    )


def test_another_schedule_of_the_same_kernel_is_emulated():
    (kernel,) = kernels(product)
    other = kernel.rescheduled("bind i to block\nbind j to thread")
    seen = other.emulate(trace=True)
    assert seen.agrees
    assert seen.launches[0].blocks == 17
    assert error_of(lambda: kernel.rescheduled("bind k to block"), ScheduleError)

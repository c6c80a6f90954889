"""A source is made ready with small changes, each line where it was."""

import pytest

from luminal_lab.devices.build.toolchain import find_cpp_compiler
from luminal_lab.emulator.library import stand_ins, with_lines
from luminal_lab.emulator.reading import KernelParameter, read
from luminal_lab.errors import DeviceError
from tests.expect import error_of


def test_shared_arrays_are_references():
    text = "void f() {\n  __shared__ __align__(16) float a[4][5],\n    b;\n  g();\n}\n"
    made = read(text, "cuda", frozenset())
    assert made.text.split("\n")[1] == (
        '  lab_same<float[4][5]> &a = lab_shared<lab_same<float[4][5]>, 16>(0, "a", 2); '
        'lab_same<float> &b = lab_shared<lab_same<float>, 16>(1, "b", 2);'
    )
    assert made.text.split("\n")[3] == "  g();"
    assert list(made.shared.values()) == ["a", "b"]


def test_pointers_to_shared_memory_stay():
    text = (
        "kernel void f(threadgroup float *s) { threadgroup float *p = s; h((threadgroup int *)p); }"
    )
    assert read(text, "metal", frozenset()).text == text


def test_parameters_of_kernels():
    text = 'extern "C" __global__ void __launch_bounds__(64) f(const float *x, int n) {}\n'
    assert read(text, "cuda", frozenset()).kernels == {
        "f": (KernelParameter("x"), KernelParameter("n"))
    }
    text = "kernel void f(device float *x [[buffer(3)]], uint i [[thread_position_in_grid]]) {}"
    assert read(text, "metal", frozenset()).kernels == {
        "f": (KernelParameter("x", "buffer", 3), KernelParameter("i", "thread_position_in_grid"))
    }


def test_literals_and_components_of_metal():
    text = "v.xy = 1.0 + 2.5h + a.wz + 1e3 + 7 + 0x1p3f;"
    assert read(text, "metal", frozenset()).text == (
        "v.set<0, 1>() = 1.0f + half(2.5f) + a.get<3, 2>() + 1e3f + 7 + 0x1p3f;"
    )


def test_functions_in_ptx_go_and_others_stay():
    text = (
        '__device__ void lab_copy_commit() {\n  asm volatile("cp.async.commit_group;");\n}\n'
        "__device__ void lab_copy_wait(int n) {}\n"
        "__global__ void f() { lab_copy_commit(); lab_copy_wait(0); lab_barrier_seen(); }\n"
    )
    made = read(text, "cuda", stand_ins())
    assert made.stand_ins == ("lab_barrier_seen", "lab_copy_commit")
    assert made.text.startswith("\n\n\n__device__ void lab_copy_wait")


def test_a_header_that_is_not_there():
    error = error_of(
        lambda: read('#include "cuda_fp16.h"\n#include <mma.h>\n', "cuda", frozenset()), DeviceError
    )
    assert error.message == "emulator: line 2: there is no header 'mma.h' in the emulator"


@pytest.mark.parametrize("call", ["call", "callq", "bl"])
def test_lines_behind_calls(call: str):
    text = (
        '\t.file 1 "program.c"\n\t.file 2 "other.h"\n\t.loc 1 7 0\n'
        f"\t{call}\tf\n\t.loc 2 9 0\n\t{call}\tg\n"
    )
    made = with_lines(text, "x86_64-linux-gnu").split("\n")
    assert made[4:8] == ["Llab_0:", "\t.loc 2 9 0", f"\t{call}\tg", "Llab_1:"]
    assert "\t.quad Llab_0, 7" in made
    assert "\t.quad Llab_1, 0" in made


def test_a_compiler_for_cpp_is_found():
    assert find_cpp_compiler().command[-2:] == ("-x", "c++")

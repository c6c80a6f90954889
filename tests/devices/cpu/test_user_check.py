"""A user's kernel on the CPU: compiled into the program, told what is wrong, tried alone."""

import numpy as np
import pytest

import luminal_lab as ll
from luminal_lab.devices.cpu.user_check import check_kernel
from luminal_lab.errors import ArgumentError, DefinitionError, DeviceError
from tests.expect import error_of

pytestmark = pytest.mark.needs("cc")


def kernel(body: str, **options):
    """Return a kernel with one line of C."""
    arguments = "const float *x, float *y, long n" + ", long task" * ("tasks" in options)
    head = "// kernel f(x: f32[n]) -> (y: f32[n])\n"
    return ll.kernel(f"{head}void f({arguments}) {{\n    {body}\n}}", **options)


RIGHT = "for (long i = 0; i < n; i++) y[i] = 2 * x[i];"
HELPERS = """
// kernel halved(x: f32[n, k]) -> (y: f32[n, k], total: f64[n])
#include <math.h>
#define HALF 0.5f
struct row { const float *at; };
static float half(struct row r, long i) { return fabsf(r.at[i]) * HALF; }
void halved(const float *x, float *y, double *total, long n, long k, long task) {
    struct row r = {x + task * k};
    total[task] = 0;
    for (long i = 0; i < k; i++) total[task] += y[task * k + i] = half(r, i);
}
"""


@pytest.mark.parametrize("threads", [1, 2])
def test_it_runs_within_a_program(threads):
    def meaning(x):
        y = x.abs() * 0.5
        return y, y.cast("float64").sum(-1)

    halved = ll.kernel(HELPERS, meaning=meaning, tasks="n")
    cx = ll.Graph()
    x = cx.tensor(("seq", 8), name="x").set(np.arange(40.0).reshape(5, 8) - 20)
    y, total = halved(x + 1)
    again, _ = halved(y[:, :4].contiguous())  # another size: the same source a second time
    results = [one.retrieve() for one in (y * 3, total, again)]
    cx.execute()
    wanted = [one.numpy().copy() for one in results]
    cx.compile(ll.GenericCompiler(), ll.CPUCompiler(threads=threads))
    for size in (5, 3):
        x.set(np.arange(40.0).reshape(5, 8)[:size] - 20)
        cx.execute()
        for one, meant in zip(results, wanted, strict=True):
            np.testing.assert_allclose(one.numpy(), meant[:size], rtol=1e-6)
    assert [k.name for k in cx.kernels].count("halved") == 1
    assert sum(launch.kernel.name.startswith("halved") for launch in cx.launches) == 2
    names = [row.name for row in cx.time(rounds=1)]
    assert {"halved", "halved_2"} <= set(names)


def test_without_a_meaning_the_cpu_runs_it():
    cx = ll.Graph()
    y = kernel(RIGHT)(cx.tensor((3,), name="x").set([1, 2, 3])).retrieve()
    cx.compile(ll.CPUCompiler())
    cx.execute()
    assert y.tolist() == [2, 4, 6]


def test_another_dialect_is_computed_by_its_meaning():
    cx = ll.Graph()
    header = "f(x: f32[n]) -> (y: f32[n])"
    source = "kernel void f(device const float *x, device float *y, constant long &n) { }"
    launch = {"dialect": "metal", "blocks": 1, "threads": 1}
    f = ll.kernel(source, header, **launch, meaning=lambda x: x + 1)
    y = f(cx.tensor((3,), name="x").set([1, 2, 3])).retrieve()
    cx.compile(ll.CPUCompiler())
    cx.execute()
    assert y.tolist() == [2, 3, 4]


def test_c_that_does_not_compile_is_told_in_the_users_lines():
    cx = ll.Graph()
    kernel("y[0] = z;")(cx.tensor((3,), name="x")).retrieve()
    error = error_of(lambda: cx.compile(ll.CPUCompiler()), DeviceError)
    first, *words = error.message.splitlines()
    assert first == "kernel f: its C does not compile"
    assert any(word.strip().startswith("f.c:3:") for word in words)
    assert (
        "    2 | void f(const float *x, float *y, long n) {\n  > 3 |     y[0] = z;\n    4 | }"
        in str(error)
    )
    assert "_Static_assert" not in str(error)
    assert error.hint == "fix the marked line; lines are counted from the first of the source"


def test_a_type_of_another_size_is_told_too():
    source = """
    // kernel f(x: f32[n]) -> (y: f32[n])
    typedef double real;
    void f(const real *x, real *y, long n) { }"""
    error = error_of(lambda: check_kernel(ll.kernel(source), [1.0]), DeviceError)
    assert "x is f32[n], but the size of real is another" in error.message


def test_a_right_kernel_returns_its_outputs():
    (y,) = check_kernel(kernel(RIGHT, meaning=lambda x: x + x), [1, 2, 3])
    assert y.tolist() == [2, 4, 6]
    (y,) = check_kernel(kernel(RIGHT, numpy=lambda x: x + x), np.ones(3))
    assert y.tolist() == [2, 2, 2]
    (y,) = check_kernel(kernel(RIGHT), np.ones(0))
    assert y.shape == (0,)
    (y,) = check_kernel(kernel("y[task] = 2 * x[task];", tasks="n"), np.ones(5))
    assert y.tolist() == [2] * 5


WRONG = {
    "for (long i = 1; i < n; i++) y[i] = x[i];": "kernel f: y[0] is not written",
    "for (long i = 0; i <= n; i++) y[i] = x[i];": "kernel f: it reads x[3], and x has 3 elements",
    RIGHT + "y[n] = 0;": "kernel f: it writes y[3], and y has 3 elements",
    "y[-1] = 0;" + RIGHT: "kernel f: it writes before y",
    RIGHT + "((float *)x)[0] = 7;": "kernel f: it changes its input x",
    "for (long i = 0; i < n; i++) y[i] += x[i];": (
        "kernel f: y[0] is different when it runs again"
    ),
    RIGHT.replace("2 *", "3 *"): "kernel f: y[0] is 3.0, and its meaning has 2.0",
    RIGHT.replace("2 * x[i]", "1.0f / 0"): "kernel f: y[0] is inf, and its meaning has 2.0",
}


@pytest.mark.parametrize("body", WRONG)
def test_a_wrong_kernel_is_found_out(body):
    wrong = kernel(body, meaning=lambda x: 2 * x)
    error = error_of(lambda: check_kernel(wrong, [1.0, 2.0, 3.0]), DefinitionError)
    assert error.message == WRONG[body]
    assert error.hint


def test_tasks_that_depend_on_each_other_are_found_out():
    wrong = kernel("y[task] = task ? y[task - 1] + x[task] : x[0];", tasks="n")
    error = error_of(lambda: check_kernel(wrong, [1.0, 2.0, 3.0]), DefinitionError)
    assert error.message == "kernel f: y[1] is different when it runs again"


def test_arguments_that_cannot_be():
    error = error_of(lambda: check_kernel(kernel(RIGHT)), ArgumentError)
    assert error.message == "kernel f: it takes 1 array, and is given 0"


CUDA = """
// kernel f(x: f32[n]) -> (y: f32[n])
extern "C" __global__ void f(const float *x, float *y, long long n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    BODY
}
"""
WRONG_CUDA = {
    "if (i < n - 1) y[i] = 2 * x[i];": "kernel f: y[2] is not written",
    "y[i] = 2 * x[i];": (
        "kernel f: out of bounds: thread 3 of block 0 reads x[3], and x has 3 elements (29 times)\n"
        "  line 4: y[i] = 2 * x[i];"
    ),
    "if (i < n) y[0] = x[i];": (
        "kernel f: race: thread 1 of block 0 writes y[0], which thread 0 writes with no barrier "
        "between (2 times)\n  line 4: if (i < n) y[0] = x[i];\n  line 4: if (i < n) y[0] = x[i];"
    ),
    "if (i < n) y[i] += x[i];": (
        "kernel f: unwritten: thread 0 of block 0 reads y[0], which nobody has written (3 times)\n"
        "  line 4: if (i < n) y[i] += x[i];"
    ),
    "if (i < n) y[i] = 3 * x[i];": "kernel f: y[0] is 3.0, and its meaning has 2.0",
    "if (i < n) y[i] = 1.0f / 0;": "kernel f: y[0] is inf, and its meaning has 2.0",
}


def in_cuda(body, **more):
    return ll.kernel(
        CUDA.replace("BODY", body), dialect="cuda", blocks="(n + 31) // 32", threads=32, **more
    )


def test_a_kernel_for_a_gpu_is_tried_in_the_emulator():
    right = in_cuda("if (i < n) y[i] = 2 * x[i];", meaning=lambda x: 2 * x)
    (y,) = check_kernel(right, np.arange(100.0))
    np.testing.assert_array_equal(y, 2 * np.arange(100.0))


@pytest.mark.parametrize("way", ["meaning", "numpy"])
@pytest.mark.parametrize("body", WRONG_CUDA)
def test_a_wrong_kernel_for_a_gpu_is_found_out(body, way):
    wrong = in_cuda(body, **{way: lambda x: 2 * x})
    error = error_of(lambda: check_kernel(wrong, [1.0, 2.0, 3.0]), DefinitionError)
    # A finding says where, with the lines of the source.
    assert error.message == WRONG_CUDA[body]
    assert error.hint

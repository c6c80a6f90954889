"""Machine code without names: what counts as the same, and what does not."""

import subprocess

import pytest

from luminal_lab.bench.machine_code import functions, machine_code
from luminal_lab.errors import DeviceError
from tests.expect import error_of
from tests.needs import need

FIRST = """
static float table[4] = {1, 2, 3, 4};
__attribute__((noinline)) float inner(float x) { return x * table[(int)x & 3]; }
float outer(const float *x, int n) {
    float sum = 0;
    for (int k = 0; k < n; k++) sum += inner(x[k]);
    return sum;
}
"""


@pytest.fixture
def code(tmp_path):
    need("cc", "objdump")

    def compiled(source):
        path = tmp_path / f"{len(list(tmp_path.iterdir()))}.c"
        path.write_text(source, encoding="utf-8")
        library = path.with_suffix(".so")
        subprocess.run(["cc", "-O2", "-shared", "-fPIC", path, "-o", library], check=True)
        return machine_code([library], "")

    return compiled


def test_names_do_not_count_nor_where_a_function_lies(code):
    renamed = FIRST.replace("inner", "the_function_within").replace("outer", "a")
    before = "int before_it(int x) { return 3 * x + 7; }\n"
    assert code(FIRST) == code(renamed)
    assert code(before + FIRST) == code(renamed + before)
    assert code(before + FIRST) != code(FIRST)


def test_functions_are_chosen_by_their_names():
    assembly = "0010 <kernel_f>:\n  10:  ret\n0020 <lab_pool>:\n  20:  nop\n  21:  leave"
    assert functions(assembly, "kernel_") == ["ret"]
    assert functions(assembly, "lab_") == ["leave"]


@pytest.mark.parametrize(
    ("old", "new"),
    [("sum += inner", "sum -= inner"), ("k < n", "k < n - 1"), ("x * table", "x + table")],
)
def test_another_instruction_does(code, old, new):
    assert code(FIRST) != code(FIRST.replace(old, new))


def test_a_jump_counts_by_the_instruction_that_it_goes_to():
    one = "0010 <f>:\n  10:  jmp    18 <f+0x8>\n  12:  nopl   (%rax)\n  18:  ret\n  19:  nop"
    other = "0030 <g>:\n  30:  jmp    32 <g+0x2>\n  32:  ret"
    assert functions(one) == functions(other) == ["jmp 1\nret"]
    assert functions(other.replace("32 <g+0x2>", "30 <g>")) == ["jmp 0\nret"]


def test_what_is_no_library_is_said(tmp_path):
    path = tmp_path / "library.so"
    path.write_bytes(b"no library")
    error = error_of(lambda: machine_code([path]), DeviceError)
    assert error.message.startswith("bench: the machine code of library.so cannot be read: ")
    assert error.hint == "install objdump, which is in binutils, beside the compiler"

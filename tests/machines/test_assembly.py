"""Assembly: functions found, directives gone, lines of the source kept."""

from luminal_lab.machines.assembly import assembly_of, disassembly_of

GCC = """\
\t.file "kernel.c"
\t.text
\t.globl other
other:
\t.loc 1 12 1
\tret
\t.cfi_endproc
kernel_f__0:
.LFB0:
\t.loc 1 9 1
\tpushq\t%rbp
\t.cfi_startproc
\t.loc 1 11 3 is_stmt 1
.L3:
\taddq\t$1, %rax
#APP
\tjne\t.L3
\t.loc 1 4 3
\tret
\t.cfi_endproc
kernel_f__0.cold:
\t.loc 1 12 3
\tcall\tabort
\t.cfi_endproc
kernel_g:
\tnop
"""


def test_a_function_with_its_cold_part_and_the_labels_that_are_jumped_to():
    found = assembly_of(GCC, ["kernel_f__0"], 10, 5, "cc -S")
    assert found.text.splitlines() == [
        "kernel_f__0:",
        "        pushq   %rbp",
        ".L3:",
        "        addq    $1, %rax",
        "        jne     .L3",
        "        ret",
        "kernel_f__0.cold:",
        "        call    abort",
    ]
    # Line 9 is before the kernel's source, and line 4 too.
    assert found.lines == ((4, 2), (5, 2), (8, 3))
    assert found.of(2) == (4, 5)
    assert found.of(1) == ()
    assert repr(found) == "<Assembly: 8 lines by cc -S; print(…) shows it>"


def test_a_mac_writes_strokes_before_names():
    assert assembly_of("_kernel_f:\n\tret\n", ["kernel_f"], 1, 1).text == "_kernel_f:\n        ret"


def test_a_disassembly_has_the_functions_and_no_lines():
    text = "0000 <kernel_f>:\n    0:\tret\n\n0001 <g>:\n    1:\tnop\n"
    found = disassembly_of(text, ["kernel_f"], "objdump")
    assert (found.text, found.lines, found.by) == ("kernel_f:\n    0: ret", (), "objdump")

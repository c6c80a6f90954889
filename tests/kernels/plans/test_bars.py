"""How long default schedules are, how they read, and the numbers that they leave open."""

import re
from pathlib import Path

import pytest

import luminal_lab as ll
from luminal_lab.errors import ArgumentError, RangeError, ScheduleError, UnknownNameError
from luminal_lab.kernels.definition.text import parse_definition
from luminal_lab.kernels.kernel import Kernel
from luminal_lab.kernels.make import make_kernel
from luminal_lab.kernels.steps.choices import Choice
from luminal_lab.machines.machine import Machine
from tests.expect import error_of

PLANS = Path(ll.__file__).parent / "kernels" / "plans"
GPUS = {"sm_80": 30, "sm_90a": 25}
IDENTIFIER = re.compile(r"\b[a-z]\w*_\w+\b")


def product(arch: str | None, dtype: str = "float16", size: int = 1024) -> Kernel:
    cx = ll.Graph()
    a, b = (cx.tensor((size, size), dtype, name=name) for name in "ab")
    (a @ b).retrieve()
    device = ll.CPUCompiler() if arch is None else ll.CUDACompiler(arch=arch)
    cx.compile(ll.GenericCompiler(), device)
    return cx.kernels[0]


@pytest.mark.parametrize(("arch", "most"), [*GPUS.items(), (None, 15)])
def test_a_product_takes_few_short_steps(arch: str | None, most: int) -> None:
    kernel = product(arch, "float32" if arch is None else "float16")
    assert kernel.schedule is not None
    assert 10 < len(kernel.schedule) <= most
    assert [str(step) for step in kernel.schedule if len(str(step)) > 80] == []
    assert kernel.name == "matmul"


def test_names_in_source_are_an_axis_a_part_and_a_level() -> None:
    for arch in GPUS:
        kernel = product(arch)
        assert kernel.nest is not None
        for name in kernel.nest.loops:
            axis, _, level = name.partition(".")
            assert len(axis.split("_")) <= 3, name
            assert "_" not in level, name
            assert (
                f"{axis}_{level}" in kernel.source or "." not in name or name not in kernel.source
            )


def test_no_plan_puts_the_name_of_a_loop_together() -> None:
    for path in PLANS.glob("*.py"):
        text = path.read_text(encoding="utf-8")
        assert "[:-2]" not in text, path.name
        assert re.findall(r'f"\{\w+\}_[oi2-9]|_[oi]\b"', text) == [], path.name
        assert re.findall(r'(?:Split|Fission|Reorder|Bind|Unroll)\(+f"', text) == [], path.name
        assert "cpu" not in path.name or "plans.gpu" not in text
        assert "gpu" not in path.name or "plans.cpu" not in text, path.name


def test_the_plans_are_short() -> None:
    lines = [len(path.read_text(encoding="utf-8").splitlines()) for path in PLANS.glob("*.py")]
    assert sum(lines) <= 2000


def test_a_gpu_plan_knows_nothing_of_a_cpu_and_no_plan_of_a_kernels_name() -> None:
    for path in PLANS.glob("*.py"):
        text = path.read_text(encoding="utf-8")
        assert "gpu" not in path.name or "cpu" not in text, path.name
        assert not re.search(r"nest\.name (?:==|in)", text), path.name


def test_what_is_open_for_rows_on_a_cpu() -> None:
    text = """kernel sums(a: f32[4096, 4096]) -> (b: f32[4096])
  b[i < 4096] = sum k < 4096: a[i, k]"""
    kernel = make_kernel(parse_definition(text), "sums", Machine())
    assert str(kernel.choices).splitlines() == [
        "task_work: 16384, 4096 or 65536; 16384 is taken",
        "lanes: 32, 8, 16 or 64; 32 is taken",
        "stream_bytes: 0, 8192, 4096 or 16384; 0 is taken",
        "usual values: the plan's own",
    ]
    assert "by 64" in str(kernel.rescheduled(choices={"lanes": 64}).schedule)


def test_what_is_open_is_shown_and_can_be_taken_otherwise() -> None:
    kernel = product("sm_90a", size=512)
    assert str(kernel.choices).splitlines()[0] == "rows: 64 or 128; 64 is taken"
    other = kernel.rescheduled(choices={"rows": 128})
    assert str(other.choices).splitlines()[0] == "rows: 64 or 128; 128 is taken, where 64 is usual"
    assert "split i by 128, 64 as block, group, own" in str(other.schedule)
    assert kernel.rescheduled(choices={"rows": 64}) == kernel
    assert str(Choice("rows", 8)) == "rows: 8"


def test_a_choice_that_there_is_not() -> None:
    kernel = product("sm_90a", size=192)
    error = error_of(lambda: kernel.rescheduled(choices={"row": 64}), UnknownNameError)
    assert (error.message, error.hint) == (
        "kernel matmul: there is no choice 'row'",
        "did you mean 'rows'?",
    )
    error = error_of(lambda: kernel.rescheduled(choices={"rows": 96}), RangeError)
    assert error.message == "kernel matmul: rows cannot be 96"
    error = error_of(lambda: kernel.rescheduled("", choices={"rows": 64}), ArgumentError)
    assert error.message.startswith("kernel matmul: a schedule leaves nothing open")


def test_a_choice_that_does_not_fit_the_machine() -> None:
    kernel = product("sm_80", "float32", size=1024)
    asked = {"rows": 32, "thread_rows": 2, "columns": 32, "thread_columns": 8}
    assert len(kernel.rescheduled(choices=asked).schedule or ()) > 10
    asked = {"rows": 128, "thread_rows": 2, "columns": 128, "thread_columns": 2}
    error = error_of(lambda: kernel.rescheduled(choices=asked), ScheduleError)
    assert error.message.startswith("kernel matmul: ")

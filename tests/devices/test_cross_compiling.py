"""The C of every op and of small models compiles for Arm, macOS, Windows and other vectors.

One source has all of them. zig compiles it without optimisation, in a second for each target: what
is looked for is a header, a builtin or a vector type that a target does not have.
"""

import subprocess
import sys
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

import luminal_lab as ll
from luminal_lab import nn
from luminal_lab.core.ir import IR
from luminal_lab.devices.build.toolchain import flags_for
from luminal_lab.devices.runtime.worklist import Worklist
from luminal_lab.kernels.render.c.program import pool_source, program_source
from luminal_lab.machines.machine import Machine
from luminal_lab.passes.compile import compile_ir
from luminal_lab.testing.conformance import cases, merged

# Each target, what its processor has beside what all of its kind have, and its vectors' bytes.
pytestmark = pytest.mark.needs("ziglang")
TARGETS = {
    "aarch64-linux-gnu": ("aarch64-linux-gnu", (), 16),
    "aarch64-macos": ("aarch64-macos", (), 16),
    "x86_64-windows-gnu": ("x86_64-windows-gnu", (), 16),
    "x86_64-baseline": ("x86_64-linux-gnu", ("-mcpu=x86_64",), 16),
    "x86_64-avx512": ("x86_64-linux-gnu", ("-mcpu=x86_64_v4",), 64),
}


def models() -> list[IR]:
    """Return small models, a step of training among them."""
    classes = ll.Graph()
    x, labels = classes.tensor((8, 4)), classes.tensor((8,), "int64")
    loss = nn.cross_entropy(nn.models.MLP(4, 16, 3)(x), labels).retrieve()
    nn.Adam(lr=0.01).minimise(loss)
    pictures = ll.Graph()
    nn.models.CNN(classes=10)(pictures.tensor(("n", 1, 8, 8))).retrieve()
    language, again = ll.Graph(), ll.Graph()
    gpt = nn.models.GPT2(layers=1, heads=2, width=8, vocab=11, context=16)
    gpt(language.tensor(("batch", "seq"), "int64")).retrieve()
    llama = nn.models.Llama(layers=1, heads=2, kv_heads=1, width=8, hidden=16, vocab=11, context=16)
    llama(again.tensor(("batch", "seq"), "int64")).retrieve()
    return [classes.ir, pictures.ir, language.ir, again.ir]


@cache
def graph() -> IR:
    """Return all ops on their dtypes, what is symbolic, and the models, fused, as one graph."""
    chosen = {
        (case.op, case.dtypes) if case.op else case.name: case.ir
        for case in reversed(cases())  # the first of each
        if case.op or case.family in ("symbolic", "model")
    }
    whole, _ = merged([*chosen.values(), *models()])
    return compile_ir(whole, *ll.CPUCompiler(), verifying=False).ir


@cache
def source(vector_bytes: int) -> str:
    """Return the C of all that for a machine with such vectors."""
    work = Worklist(graph(), replace(Machine(), vector_bytes=vector_bytes), {})
    return program_source(work.kernels.values(), work.uses)


@pytest.mark.share("name", TARGETS, 2)
def test_all_that_is_generated_compiles(name: str, tmp_path: Path) -> None:
    target, flags, width = TARGETS[name]
    # Ours, but for what is about linking, and about this very machine.
    ours = [f for f in flags_for(target) if f[:5] in ("-std=", "-fope", "-ffp-", "-fno-")]
    command = [sys.executable, "-m", "ziglang", "cc", "-target", target, *flags, *ours, "-w"]
    # zig checks for undefined behaviour where nothing is optimised, which takes it a minute.
    command += ["-O0", "-fno-sanitize=undefined", "-c", "program.c", "-o", "program.o"]
    for text, size in ((source(width), 100_000), (pool_source(), 2_000)):
        (tmp_path / "program.c").write_text(text, encoding="utf-8")
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr[:3000]
        assert (tmp_path / "program.o").stat().st_size > size


def test_what_a_target_does_not_have_is_noticed(tmp_path: Path) -> None:
    """The check is able to fail: Windows has no such header, and Arm no such builtin."""
    for target, text in {
        "x86_64-windows-gnu": "#include <sys/mman.h>\n",
        "aarch64-macos": "void f(void) { __builtin_ia32_pause(); }\n",
    }.items():
        (tmp_path / "program.c").write_text(text)
        command = [sys.executable, "-m", "ziglang", "cc", "-target", target, "-c", "program.c"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode != 0

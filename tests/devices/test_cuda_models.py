"""Every kernel that the test models become, compiled for three generations of cards without one."""

import re
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import pytest

import luminal_lab as ll
from luminal_lab import nn
from luminal_lab.core.ir import IR
from luminal_lab.devices.gpu.nvrtc import compile_cuda
from luminal_lab.kernels.kernel import Kernel
from luminal_lab.kernels.render.gpu.program import gpu_source
from luminal_lab.machines.resources import card_of, occupancy
from luminal_lab.passes.compile import compile_ir
from luminal_lab.passes.pipeline import PassLike
from luminal_lab.testing.conformance import cases

pytestmark = pytest.mark.needs("cuda.bindings")
ARCHS = {"sm_75": "T4", "sm_80": "A100", "sm_90a": "H100"}
SMALL: dict[str, Any] = {"layers": 1, "heads": 4, "width": 64, "vocab": 96, "context": 64}


def words(model: Callable[[ll.Tensor], ll.Tensor], batch: int) -> IR:
    cx = ll.Graph()
    model(cx.tensor((batch, "n"), "int64", name="words")).retrieve()
    return cx.ir


def rows(model: Callable[[ll.Tensor], ll.Tensor], *shape: int) -> IR:
    cx = ll.Graph()
    model(cx.tensor(("batch", *shape), name="rows")).retrieve()
    return cx.ir


def product() -> IR:
    cx = ll.Graph()
    a, b = cx.tensor((256, 200), name="a"), cx.tensor((200, 192), name="b")
    ((a @ b).relu() @ b.T).retrieve()
    return cx.ir


def wide() -> IR:
    """Products of so many rows and columns that four warps multiply them, where they can."""
    cx = ll.Graph()
    x = cx.tensor((1024, 512), name="x")
    h = nn.Linear(512, 1024)(x).relu() @ cx.tensor((1024, 256), name="w")
    (h.reshape(2, 512, 256) @ cx.tensor((2, 256, 512), name="b")).retrieve()
    return cx.ir


def eight_bits() -> IR:
    cx = ll.Graph()
    layer = nn.Linear(64, 96)
    ll.quantise(layer)
    layer(cx.tensor((2, 64), name="x")).retrieve()
    layer(cx.tensor((32, 64), name="z")).retrieve()
    return cx.ir


@cache
def graphs() -> tuple[tuple[IR, tuple[PassLike, ...], bool], ...]:
    """The test models, each with the passes before the device's, and whether tf32 may be used."""
    plain: tuple[PassLike, ...] = (ll.GenericCompiler(),)
    gpt2 = words(nn.models.GPT2(**SMALL), 2)
    llama = words(nn.models.Llama(**SMALL, kv_heads=2, hidden=96), 2)
    return (
        *((case.ir, plain, False) for case in cases() if case.family == "model"),
        (gpt2, plain, False),
        (gpt2, (*plain, ll.HalfPrecision("float16")), False),
        (llama, plain, False),
        (llama, (*plain, ll.HalfPrecision("bfloat16")), False),
        (rows(nn.models.CNN(), 8, 8), plain, False),
        (rows(nn.models.MLP(64, 32, 10), 64), plain, False),
        (product(), plain, True),
        (product(), (*plain, ll.HalfPrecision("float16")), False),
        (wide(), (*plain, ll.HalfPrecision("float16")), False),
        (wide(), (*plain, ll.HalfPrecision("bfloat16")), False),
        (eight_bits(), (*plain, ll.Quantised()), False),
    )


def kernels(arch: str) -> list[Kernel]:
    """Return the distinct kernels of all models, each with functions of names of its own."""
    found: dict[str, Kernel] = {}
    for ir, before, tf32 in graphs():
        program: Any = compile_ir(ir, (*before, ll.CUDACompiler(arch=arch, tf32=tf32))).runner
        for kernel in program.kernels:
            own = f"kernel_{len(found)}_"
            source = re.sub(r"\bkernel_", own, kernel.source)
            phases = [
                replace(phase, function=phase.function.replace("kernel_", own, 1))
                for phase in kernel.phases
            ]
            found.setdefault(kernel.source, replace(kernel, source=source, phases=tuple(phases)))
    return [*found.values()]


# Ten seconds each, for about a hundred kernels, which are compiled as one program. What they call
# is compiled for each card by `gpu/test_nvrtc.py`.
@pytest.mark.share(("arch", "card"), ARCHS.items(), 1)
def test_every_kernel_of_the_models_compiles_and_fits(arch: str, card: str) -> None:
    made = kernels(arch)
    compiled = compile_cuda(gpu_source(made), arch)
    functions = [phase for kernel in made for phase in kernel.phases]
    assert len(compiled.resources) == len(functions) > 90
    asked = {phase.function: phase.shared for phase in functions}
    for name, taken in compiled.resources.items():
        whole = replace(taken, shared=taken.shared + asked[name])
        fits = occupancy(whole, taken.threads, card_of(card))
        assert fits.blocks, f"{name}: {fits}"
        assert taken.spills <= 64
    units = {name for kernel in made for name in kernel.uses if name.startswith("lab_mma_")}
    assert (
        units == {"lab_mma_f16"}
        if arch == "sm_75"
        else {"lab_mma_f16", "lab_mma_bf16", "lab_mma_tf32"}
    )
    # The assembler says where it has products of four warps wait that did not.
    assert "wgmma" not in compiled.log
    groups = {name for kernel in made for name in kernel.uses if name.startswith("lab_wgmma_")}
    assert {name.split("_")[2] for name in groups} == (
        {"keep", "begin", "commit", "wait", "matrix", "f16", "bf16"} if arch == "sm_90a" else set()
    )

"""Every kernel of the op table and of small models, traced: right, with no race and no fault.

This is also where both compilers for GPUs are held to the conformance kit.
"""

import random
from collections.abc import Callable, Hashable, Iterator, Sequence
from fnmatch import fnmatchcase
from typing import Any

import numpy as np
import pytest

import luminal_lab as ll
from luminal_lab import nn
from luminal_lab.devices.gpu import program as gpu_program
from luminal_lab.devices.gpu.engine import EmulatorEngine, Location, PlacedLaunch, _given
from luminal_lab.emulator import Call, Finding, emulate
from luminal_lab.emulator.kernels import meaning_of
from luminal_lab.kernels.render.gpu.program import gpu_source
from luminal_lab.passes.compile import compile_ir
from luminal_lab.passes.judge import differences
from luminal_lab.testing.conformance import cases

COMPILERS: dict[str, Callable[[], Any]] = {
    "cuda": lambda: ll.CUDACompiler(emulate=True),
    "metal": lambda: ll.MetalCompiler(emulate=True),
}
SMALL: dict[str, Any] = {"layers": 2, "heads": 2, "width": 16, "vocab": 30, "context": 32}
MODELS: dict[str, Callable[[], Any]] = {
    "GPT-2": lambda: nn.models.GPT2(**SMALL),
    "Llama": lambda: nn.models.Llama(**SMALL, kv_heads=1, hidden=24),
}


def traced_call(launched: PlacedLaunch) -> Call:
    """A launch; before its kernel's first phase its locals and outputs hold nothing."""
    kernel, given = launched.kernel, launched.arguments
    meaning = meaning_of(kernel)
    first, last = len(meaning.inputs), len(kernel.locals) + len(meaning.outputs)
    read = {one.address for one in given[:first] if isinstance(one, Location)}
    # What is written over an input holds that.
    fresh = [
        first + k
        for k, one in enumerate(given[first : first + last])
        if isinstance(one, Location) and one.address not in read
    ]
    return Call(
        launched.phase.function,
        launched.blocks,
        launched.phase.threads,
        [_given(one) for one in given],
        fresh=tuple(fresh) if launched.phase.function == kernel.phases[0].function else (),
    )


@pytest.fixture
def findings(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Finding]]:
    """What traces of all that is emulated find."""
    found: list[Finding] = []
    seen = [0]

    def launch(
        self: EmulatorEngine, launches: Sequence[PlacedLaunch], key: Hashable, *, careful: bool
    ) -> None:
        calls = [traced_call(one) for one in launches]
        trace = emulate(self.source, self.dialect.name, calls, trace=True)  # pyright: ignore
        assert trace is not None
        found.extend(trace.findings)
        seen[0] += trace.accesses

    monkeypatch.setattr(EmulatorEngine, "launch", launch)
    yield found
    assert seen[0] > 1000


FAMILIES = {
    "ops": ("elementwise", "bits", "cast", "source", "error"),
    "axes": ("reduction", "indexing", "view"),
    "graphs": ("symbolic", "structure", "chain", "drawn"),
    "models": ("model",),
}


def test_the_families_are_all():
    traced = {name for names in FAMILIES.values() for name in names}
    assert traced | {"product"} == {case.family for case in cases()}


UNITS = {
    "f16": "mma.sync.aligned.m16n8k16.row.col.f32.f16",
    "bf16": "mma.sync.aligned.m16n8k16.row.col.f32.bf16",
    "tf32": "mma.sync.aligned.m16n8k8.row.col.f32.tf32",
    "copies": "cp.async.cg.shared.global",
    "group f16": "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16",
    "group bf16": "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16",
    "tiles": "cp.async.bulk.tensor.2d",
    "metal": "simdgroup_multiply_accumulate",
}
PATHS: dict[str, dict[str, tuple[str, ...]]] = {
    "sm_75": {"* float16": ("f16",)},
    "sm_80": {
        "edges float16": ("f16",),
        "* float16": ("f16", "copies"),
        "* bfloat16": ("bf16", "copies"),
    },
    "sm_80 tf32": {
        "edges float16": ("f16",),
        "edges float32": ("tf32",),
        "* float16": ("f16", "copies"),
        "* bfloat16": ("bf16", "copies"),
        "* float32": ("tf32", "copies"),
    },
    "sm_90a": {
        "edges float16": ("f16",),
        "* float16": ("group f16", "tiles"),
        "* bfloat16": ("group bf16", "tiles"),
    },
    "metal": {"* float16": ("metal",), "* bfloat16": ("metal",)},
}
"""What instructions multiply and copy in each target's products: the first pattern that fits the
name of a case says it; without one, no tensor unit multiplies. One row never has one."""


def product_device(path: str) -> Any:
    """The compiler of a target among `PATHS`."""
    arch, _, tf32 = path.partition(" ")
    if path == "metal":
        return ll.MetalCompiler(emulate=True)
    return ll.CUDACompiler(arch=arch, tf32=bool(tf32), emulate=True)


# Too many accesses for a trace; the traced kernels of tiles are in tests/kernels.
@pytest.mark.parametrize("path", PATHS)
def test_products_reach_every_path_and_are_right(
    path: str, seed: int, monkeypatch: pytest.MonkeyPatch
):
    reached: dict[str, set[str]] = {}
    wanted: dict[str, set[str]] = {}
    for case in (case for case in cases() if case.family == "product"):
        name = case.name.removeprefix("product ")
        patterns = {"one row *": (), **PATHS[path]}
        wanted[name] = {*next((patterns[p] for p in patterns if fnmatchcase(name, p)), ())}
        program: Any = compile_ir(case.ir, ll.GenericCompiler(), product_device(path)).runner
        assert len(program.launches) == 1, f"{name}: the product is one kernel"
        reached[name] = {unit for unit, text in UNITS.items() if text in program.source}
    assert reached == wanted
    for order in ["late"] if path == "metal" else ["late", seed if seed % 2 else "early"]:
        monkeypatch.setattr(EmulatorEngine, "order", order)
        made = ll.devices.conformance(product_device(path), only="product")
        assert made.ok, f"{order}: {made}"


# Seconds, in which the kernels of hundreds of graphs are compiled for the emulator: each family for
# the dialect that is drawn, and for both in `make test-long`.
@pytest.mark.sweep
@pytest.mark.parametrize("family", FAMILIES)
def test_every_op_and_small_models(family: str, findings: list[Finding], long: bool, seed: int):
    dialects = list(COMPILERS)
    for dialect in dialects if long else random.Random(f"{seed} {family}").sample(dialects, 1):
        made = ll.devices.conformance(COMPILERS[dialect](), only=FAMILIES[family])
        assert made.ok, str(made)
        assert not findings, "\n".join(map(str, findings))


@pytest.mark.parametrize("dialect", COMPILERS)
@pytest.mark.parametrize("name", MODELS)
def test_language_models(name: str, dialect: str, findings: list[Finding]):
    cx = ll.Graph()
    words = cx.tensor((1, "n"), "int64", name="words")
    y = MODELS[name]().initialise(0)(words).retrieve()
    words.set([[3, 1, 4, 1, 5, 9, 2]])
    cx.execute()
    want = y.numpy().copy()
    cx.compile(ll.GenericCompiler(), COMPILERS[dialect]())
    cx.execute()
    assert not differences(want, y.numpy(), scaled=True).any()
    assert not findings, "\n".join(map(str, findings))


def test_a_barrier_that_is_left_out_is_noticed(
    findings: list[Finding], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(
        gpu_program, "gpu_source", lambda *given: gpu_source(*given).replace("lab_sync();", ";")
    )
    cx = ll.Graph()
    x = cx.tensor((2, 900), name="x")
    (x * x).sum(-1).retrieve()
    x.set(np.ones((2, 900)))
    cx.compile(ll.GenericCompiler(), ll.CUDACompiler(emulate=True))
    cx.execute()
    assert "race" in {one.kind for one in findings}

"""CUDA is compiled without a GPU: every function of the prelude, for every kind of card."""

import re
import struct
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import luminal_lab as ll
from luminal_lab.devices.build import cache
from luminal_lab.devices.gpu import nvrtc
from luminal_lab.devices.gpu.nvrtc import (
    architectures,
    compile_cuda,
    compile_kernel,
    resources_of,
    version,
)
from luminal_lab.errors import DeviceError
from luminal_lab.kernels.definition.text import parse_definition
from luminal_lab.kernels.gpu import gpu_of
from luminal_lab.kernels.make import make_gpu_kernel
from luminal_lab.kernels.prelude.files import paragraphs
from luminal_lab.kernels.prelude.prelude import known_in, prelude
from luminal_lab.kernels.render.gpu.program import gpu_source
from luminal_lab.machines.resources import Resources
from luminal_lab.testing.conformance import selected
from tests.expect import error_of
from tests.kept import entries

pytestmark = pytest.mark.needs("cuda.bindings")
ARCHS = ("sm_75", "sm_80", "sm_90a")
WORD = re.compile(r"\b(?:lab|LAB)_\w+")
HEAD = re.compile(r"__forceinline__ ([\w ]+?) \**(lab_\w+|floor\w+)\(\s*([^)]*)\)")
SOURCE = """\
// kernel k(x: f32[n]) -> (y: f32[n])
extern "C" __global__ void __launch_bounds__(64) kernel_k(float *y) {
    __shared__ float t[2000];
    t[threadIdx.x] = 1.0f;
    __syncthreads();
    y[threadIdx.x] = t[threadIdx.x ^ 1];
}
"""


@pytest.fixture(autouse=True)
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A cache of a test's own, on disk and in the process."""
    folder = tmp_path_factory.mktemp("cache")
    nvrtc._known.cache_clear()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cache, "user_folder", lambda: folder)
        yield folder
    nvrtc._known.cache_clear()


def nvrtc_is() -> str:
    return "NVRTC {}.{}".format(*version())


PRODUCT = """\
kernel product(a: f16[64, 128], b: f16[64, 128]) -> (c: f32[64, 64])
  c[i < 64, j < 64] = sum k < 128: f32(a[i, k]) * f32(b[j, k])"""


def test_the_assembler_tells_of_products_that_are_used_too_early() -> None:
    few = replace(gpu_of("sm_90a"), cores=1)
    source = gpu_source([make_gpu_kernel(parse_definition(PRODUCT), "product", few)])
    assert "wgmma" not in compile_cuda(source, "sm_90a").log
    assert not compile_cuda(source, "sm_90a").serialised
    head, name, body = source.partition("kernel_product(")
    early = head + name + body.replace("lab_wgmma_wait(0);", "t[0] += 1.0f;")
    assert "wgmma.wait_group is injected" in compile_cuda(early, "sm_90a").log
    assert "wgmma.wait_group is injected" in compile_cuda(early, "sm_90a").serialised


def test_no_product_of_the_conformance_kit_is_serialised() -> None:
    device: Any = ll.CUDACompiler(arch="sm_90a")
    met = 0
    for case in selected("product"):
        program: Any = ll.compile_ir(case.ir, ll.GenericCompiler(), device).runner
        for launch in program.launches:
            compiled = compile_kernel(launch.kernel, "sm_90a")
            met += "wgmma" in compiled.ptx
            assert not compiled.serialised, case.name
            assert not compiled.most.spills, case.name
    assert met == 6


def test_registers_are_handed_from_warps_to_warps() -> None:
    body = """
extern "C" __global__ void __launch_bounds__(384, 1) k(float *y) {
    if (threadIdx.x < 128) lab_registers_fall_40();
    else lab_registers_rise_232();
    y[threadIdx.x] = 1.0f;
}
"""
    uses = {"lab_registers_fall_40", "lab_registers_rise_232"}
    ptx = compile_cuda(prelude("cuda", uses) + body, "sm_90a").ptx
    assert "setmaxnreg.dec.sync.aligned.u32 40;" in ptx
    assert "setmaxnreg.inc.sync.aligned.u32 232;" in ptx


# -- the prelude -----------------------------------------------------------------------------------


def calls(text: str) -> Iterator[str]:
    """Yield a call of each function of a prelude, its arguments taken from what a kernel has."""
    for result, name, taken in HEAD.findall(text):
        given: list[str] = []
        for place, one in enumerate(filter(None, map(str.strip, taken.split(",")))):
            kind, _, variable = one.rpartition(" ")
            if "*" not in one:
                waits = name.endswith("_wait") and "barrier" not in name
                given.append("1" if waits else f"({kind})x[{place}]")
            elif one == "float *c":
                given.append("c")
            elif "lab_u32 *" in one:
                given.append("words")
            elif "lab_tensor_map" in one:
                given.append("&map")
            else:
                given.append(f"({kind} *){'memory' if variable == '*from' else 'shared'}")
        call = f"{name}({', '.join(given)});"
        yield call if result == "void" else f"*y++ = (double){call}"


def caller(name: str, lines: list[str]) -> str:
    """Return a kernel that does these calls, so that none of them is left out."""
    body = "\n    ".join(lines)
    sums = 128 if "wgmma" in body else 4
    return f"""extern "C" __global__ void __launch_bounds__(128) {name}(
    const double *x, double *y, char *memory, const __grid_constant__ lab_tensor_map map) {{
    __shared__ __align__(1024) char shared[4096];
    float c[{sums}];
    lab_u32 words[4];
    for (int i = 0; i < {sums}; i++) c[i] = x[i];
    for (int i = 0; i < 4; i++) words[i] = x[i];
    {body}
    for (int i = 0; i < {sums}; i++) *y++ = c[i];
    for (int i = 0; i < 4; i++) *y++ = words[i];
    *y = shared[threadIdx.x];
}}
"""


# Two seconds each, for some 250 functions: all that a kernel may call is compiled at least once.
@pytest.mark.parametrize("arch", ARCHS)
def test_every_function_of_the_prelude_compiles(arch: str) -> None:
    hopper = {name for paragraph in paragraphs("hopper.cu") for name in paragraph.names}
    names = {*known_in("cuda")} - hopper | {"lab_tensor_map"}
    if arch == "sm_90a":
        names |= hopper
        for unit, ways in (("f16", ("", "_rows")), ("tf32", ("",))):
            names |= {f"lab_wgmma_{unit}_n{n}{way}" for n in (8, 64) for way in ways}
        names.add("lab_wgmma_bf16_n256")
    text = prelude("cuda", names)
    lines = list(calls(text))
    called = set(WORD.findall("\n".join(lines)))
    assert {name for name in names if f" {name}(" in text and f"define {name}" not in text} <= {
        *called,
        *re.findall(r"floor\w+", "\n".join(lines)),
    }
    lines.append("LAB_STORE(lab_f32x4, memory, 0, LAB_LOAD(lab_f32x4, memory, 16));")
    lines.append("c[0] = lab_block_max_f32(c[threadIdx.x % 4], (float *)shared, 64);")
    kernels = [caller(f"k{at}", lines[at : at + 12]) for at in range(0, len(lines), 12)]
    text = prelude("cuda", {*names, "lab_f32x4"})
    compiled = compile_cuda("\n\n".join([text, *kernels]), arch)
    assert len(compiled.resources) == len(kernels)


def test_no_function_for_floats_needs_memory_of_its_own() -> None:
    names = [n for n in known_in("cuda") if re.fullmatch(r"lab_[a-z0-2_]+_f32|lab_random", n)]
    text = prelude("cuda", [*names, "lab_tensor_map"])
    lines = [line for line in calls(text) if not re.search("tile|mma|f64", line)]
    kernels = [caller(f"k{at}", lines[at : at + 12]) for at in range(0, len(lines), 12)]
    most = compile_cuda("\n\n".join([text, *kernels]), "sm_80").most
    assert (most.stack, most.spills) == (0, 0)


def opcodes(cubin: bytes) -> dict[str, list[int]]:
    """Return the operations of each function: the lowest bits of each 16 bytes of its code."""
    (start,) = struct.unpack_from("<Q", cubin, 0x28)
    size, count, names = struct.unpack_from("<HHH", cubin, 0x3A)
    parts = [struct.unpack_from("<IIQQQQ", cubin, start + at * size) for at in range(count)]
    found: dict[str, list[int]] = {}
    for part in parts:
        at = parts[names][4] + part[0]
        name = cubin[at : cubin.index(b"\0", at)].decode()
        if name.startswith(".text."):
            code = cubin[part[4] : part[4] + part[5]]
            words = (struct.unpack_from("<H", code, place)[0] for place in range(0, len(code), 16))
            found[name.removeprefix(".text.")] = [word & 0x1FF for word in words]
    return found


@pytest.mark.parametrize("arch", ARCHS)
def test_no_product_is_fused_with_a_sum_but_where_it_says_so(arch: str) -> None:
    kernel = """
extern "C" __global__ void {name}(const float *x, float *y) {{ y[0] = {sum}; }}
"""
    text = prelude("cuda", {"lab_fma_f32"})
    text += kernel.format(name="fused", sum="lab_fma_f32(x[0], x[1], x[2])")
    text += kernel.format(name="apart", sum="x[0] * x[1] + x[2]")
    found = opcodes(compile_cuda(text, arch).cubin)
    multiply, add, fused = 0x20, 0x21, 0x23
    assert fused in found["fused"]
    assert fused not in found["apart"]
    assert {multiply, add} <= set(found["apart"])


def test_tiles_of_aligned_arrays_are_read_as_rows_alone() -> None:
    body = """
extern "C" __global__ void __launch_bounds__(128) k(const lab_f16 *x, float *y) {
    __shared__ ALIGNED lab_f16 tile[64 * 72];
    for (int i = threadIdx.x; i < 64 * 72; i += 128) tile[i] = x[i];
    lab_sync();
    float c[4] = {};
    lab_u32 a[4], b[2];
    for (int k = 0; k < 4; k++) {
        lab_tile_a_f16(a, tile + 16 * (threadIdx.x / 32) * 72 + 16 * k, 72);
        lab_tile_b_f16(b, tile + 16 * k * 72, 72, 1);
        lab_mma_f16(c, a, b);
    }
    for (int e = 0; e < 4; e++) y[4 * threadIdx.x + e] = c[e];
}
"""
    source = prelude("cuda", set(WORD.findall(body))) + body
    ptx = compile_cuda(source.replace("ALIGNED", "__align__(16)"), "sm_80").ptx
    assert "ldmatrix" in ptx
    assert "ld.shared.u16" not in ptx
    assert "ld.shared.u16" in compile_cuda(source.replace("ALIGNED ", ""), "sm_80").ptx


# -- compiling -------------------------------------------------------------------------------------


def test_a_source_becomes_ptx_and_code_and_says_what_it_takes() -> None:
    compiled = compile_cuda(SOURCE, "sm_80")
    assert ".visible .entry kernel_k(" in compiled.ptx
    assert compiled.cubin.startswith(b"\x7fELF")
    taken = compiled.resources["kernel_k"]
    assert (taken.shared, taken.spills, taken.stack, taken.threads) == (8000, 0, 0, 64)
    assert 0 < taken.registers < 32
    assert compiled.most == taken
    assert taken.occupancy("A100").blocks == 18


def test_what_the_assembler_says_is_read_of_each_function() -> None:
    log = """\
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'a' for 'sm_75'
ptxas info    : Function properties for a
    16 bytes stack frame, 4 bytes spill stores, 8 bytes spill loads
ptxas info    : Function properties for called
    32 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 40 registers, used 1 barriers, 512 bytes smem, 376 bytes cmem[0], 8 bytes cmem
ptxas info    : Compiling entry function 'b' for 'sm_75'
ptxas info    : Function properties for b
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 10 registers"""
    ptx = ".visible .entry a(\n\t.param .u64 a_param_0\n)\n.maxntid 32, 4, 1\n{"
    assert resources_of(log, ptx) == {
        "a": Resources(40, 512, 4, 384, 16, 128),
        "b": Resources(10),
    }


def test_equal_sources_are_compiled_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = compile_cuda(SOURCE, "sm_80")
    assert compile_cuda(SOURCE, "sm_80") is first
    assert compile_cuda(SOURCE, "sm_90").arch == "sm_90"
    nvrtc._known.cache_clear()  # as in another process
    monkeypatch.setattr(nvrtc, "_compile", lambda *_: pytest.fail("it is on disk"))
    assert compile_cuda(SOURCE, "sm_80") == first
    one, two = (entry for entry in entries() if entry.path.parent == folder)
    assert {one.made_by, two.made_by} == {f"{nvrtc_is()} for sm_80", f"{nvrtc_is()} for sm_90"}


def test_what_cannot_be_read_on_disk_is_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(nvrtc, "_packed", lambda _: b"something else")
        first = compile_cuda(SOURCE, "sm_80")
    nvrtc._known.cache_clear()
    assert compile_cuda(SOURCE, "sm_80") == first
    nvrtc._known.cache_clear()
    monkeypatch.setattr(nvrtc, "_compile", lambda *_: pytest.fail("it is on disk"))
    assert compile_cuda(SOURCE, "sm_80") == first


@pytest.mark.parametrize("arch", ARCHS)
def test_a_kernel_of_ours_has_ptx_and_resources(arch: str) -> None:
    definition = parse_definition(
        "kernel scaled(x: f32[n, 64]) -> (y: f32[n, 64])\n  y[i < n, j < 64] = exp2(x[i, j])\n"
    )
    made = make_gpu_kernel(definition, "scaled", gpu_of(arch))
    kernel = replace(made, compile=partial(compile_kernel, arch=arch))
    assert f".target {arch}" in kernel.ptx
    assert kernel.resources.registers > 0
    assert kernel.schedule is not None
    assert kernel.rescheduled(kernel.schedule).ptx == kernel.ptx


# -- what it refuses -------------------------------------------------------------------------------


def refused(source: str, **options: Any) -> str:
    return str(error_of(lambda: compile_cuda(source, "sm_80", **options), DeviceError))


def test_an_architecture_that_is_not_known_is_an_error() -> None:
    known = ", ".join(architectures())
    for arch in ("sm_60", "sm_80a", "compute_80", "ampere", ""):
        error = error_of(lambda arch=arch: compile_cuda(SOURCE, arch), DeviceError)
        assert error.message == f"compile: {nvrtc_is()} does not know the architecture {arch!r}"
        assert error.hint == f"it knows {known}, and from sm_90 on those with an a, as sm_90a"


def test_a_line_that_does_not_compile_is_marked_with_its_definition() -> None:
    source = SOURCE.replace("t[threadIdx.x] = 1.0f", "t[threadIdx.x] = unknown")
    assert (
        refused(source, name="k")
        == f"""\
kernel k: {nvrtc_is()} refuses it for sm_80
  program.cu(4): error: identifier "unknown" is undefined
  1 error detected in the compilation of "program.cu".
    1 | // kernel k(x: f32[n]) -> (y: f32[n])
    2 | extern "C" __global__ void __launch_bounds__(64) kernel_k(float *y) {{
    3 |     __shared__ float t[2000];
  > 4 |     t[threadIdx.x] = unknown;
    5 |     __syncthreads();
    6 |     y[threadIdx.x] = t[threadIdx.x ^ 1];
    7 | }}
  in kernel_k, which computes
    kernel k(x: f32[n]) -> (y: f32[n])
hint: fix the marked line, if it is yours; {nvrtc.WHAT_WORKS}"""
    )


def test_ptx_that_is_no_ptx_is_shown() -> None:
    text = refused(SOURCE.replace("__syncthreads();", 'asm("bogus.f32 %0;" : : "f"(y[1]));'))
    assert text.startswith(f"compile: {nvrtc_is()} refuses it for sm_80\n  ptxas application ptx")
    assert "Not a name of any known instruction: 'bogus'" in text
    assert re.search(r"\n  in its PTX:\n(.*\n)*  > \d+ \| \tbogus.f32 %f\d+;\n", text)


def test_too_much_shared_memory_is_said_with_both_numbers() -> None:
    text = refused(SOURCE.replace("2000", "20000"), name="k").splitlines()
    assert text[0] == (
        "kernel k: kernel_k declares 80,000 bytes of shared memory, and sm_80 allows 49,152 that "
        "are declared"
    )
    assert "  > 2 | extern" in "\n".join(text)
    assert text[-1] == (
        "hint: smaller tiles in its schedule; extern __shared__ memory may be larger"
    )


@pytest.fixture
def without(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Let the module through which NVRTC is called be another, or an error."""
    for one in (nvrtc._library, nvrtc.architectures):
        one.cache_clear()

    def install(found: object) -> None:
        def load(name: str) -> object:
            assert name == "cuda.bindings.nvrtc"
            if isinstance(found, Exception):
                raise found
            return found

        monkeypatch.setattr(nvrtc.importlib, "import_module", load)

    yield install
    monkeypatch.undo()
    for one in (nvrtc._library, nvrtc.architectures):
        one.cache_clear()


HINT = (
    'pip install "luminal-lab[cuda]"; the source can be read, and run in the emulator, without it'
)


def test_a_missing_package_is_named(without: Any) -> None:
    without(ModuleNotFoundError("No module named 'cuda'"))
    error = error_of(lambda: compile_cuda(SOURCE, "sm_80"), DeviceError)
    assert error.message == (
        "nvrtc: CUDA cannot be compiled, since the package cuda-bindings is not installed"
    )
    assert error.hint == HINT


def test_a_missing_library_is_named(without: Any) -> None:
    def fail() -> None:
        raise RuntimeError('Failure finding "libnvrtc.so": No such file\nand more')

    without(SimpleNamespace(nvrtcVersion=fail))
    error = error_of(lambda: compile_cuda(SOURCE, "sm_80"), DeviceError)
    assert error.message == (
        "nvrtc: CUDA cannot be compiled, since its library cannot be loaded: Failure finding "
        '"libnvrtc.so": No such file'
    )
    assert error.hint == HINT


def test_a_function_of_nvrtc_that_fails_is_named(without: Any) -> None:
    without(
        SimpleNamespace(
            nvrtcVersion=lambda: (0, 13, 5),
            nvrtcGetSupportedArchs=lambda: (7,),
            nvrtcGetErrorString=lambda _: (0, b"NVRTC_ERROR_OUT_OF_MEMORY"),
        )
    )
    error = error_of(lambda: compile_cuda(SOURCE, "sm_80"), DeviceError)
    assert error.message == "nvrtc: nvrtcGetSupportedArchs failed: NVRTC_ERROR_OUT_OF_MEMORY"

"""The CUDA device against stand-ins: copies, launches, graphs, cuBLAS, what fails."""

import ctypes
import gc
import re
import signal
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import luminal_lab as ll
from luminal_lab import nn
from luminal_lab.core.interpret import Environment
from luminal_lab.devices.build import located
from luminal_lab.devices.build.located import device_error
from luminal_lab.devices.cuda import (
    driver as cuda_driver,
    engine as cuda_engine,
    libcuda,
    library as cuda_library,
)
from luminal_lab.devices.cuda.engine import CUDAEngine
from luminal_lab.devices.cuda.library import MeasuredChoice
from luminal_lab.devices.gpu import plan as gpu_plan
from luminal_lab.devices.gpu.engine import Location
from luminal_lab.errors import ArgumentError, DeviceError, Interrupted, RangeError
from luminal_lab.machines.resources import CompiledCUDA
from luminal_lab.nn import models
from tests.devices.stand_ins.cupy_stand_in import (
    TABLE,
    CUBLASError,
    CUDADriverError,
    CUDARuntimeError,
    CuPy,
)
from tests.devices.stand_ins.libcuda_stand_in import HEADER, LibcudaStandIn
from tests.devices.stand_ins.refusing import Refused
from tests.expect import error_of
from tests.needs import need


@pytest.fixture
def gpu(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A GPU as CuPy shows it, or on both engines by itself."""
    kind = getattr(request, "param", "cupy")
    yield from standing(monkeypatch, CuPy() if kind == "cupy" else LibcudaStandIn())


ON_BOTH = pytest.mark.parametrize("gpu", ["cupy", "driver"], indirect=True)


def standing(monkeypatch: pytest.MonkeyPatch, gpu: Any) -> Iterator[Any]:
    """Have the engine call a stand-in, whose kernels are their own source."""
    library = gpu.library if isinstance(gpu, CuPy) else gpu

    def compiled(source: str, arch: str) -> CompiledCUDA:
        return CompiledCUDA(arch, source, source.encode(), "", {})

    def missing(name: str) -> None:
        raise ModuleNotFoundError(f"No module named {name!r}")

    place, sizes = gpu_plan.GPUBound._placed, getattr(gpu, "sizes", {})

    def placed(*args: Any) -> Any:
        found = place(*args)
        for one in found:
            for argument in one.arguments:
                if isinstance(argument, Location):
                    sizes[argument.address] = argument.bytes
                    sizes[one.phase.function, argument.address] = argument.bytes
        return found

    imported = gpu.imported if isinstance(gpu, CuPy) else missing
    imports = SimpleNamespace(import_module=imported)
    monkeypatch.setattr(located, "importlib", imports)
    monkeypatch.setattr(cuda_library, "importlib", imports)
    monkeypatch.setattr(cuda_driver, "compile_cuda", compiled)
    monkeypatch.setattr(libcuda, "library", lambda: library)
    monkeypatch.setattr(libcuda, "_threads", SimpleNamespace())
    monkeypatch.setattr(gpu_plan.GPUBound, "_placed", placed)
    caches = cuda_driver.load_module, libcuda.tensor_map, libcuda._typed, libcuda._context
    for cache in caches:
        cache.cache_clear()
    yield gpu
    cuda_driver.load_module.cache_clear()
    gc.collect()  # what is released is released by this driver
    for cache in caches:
        cache.cache_clear()
    assert not library.refused, library.refused[0]


def random(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def library_of(gpu: Any) -> LibcudaStandIn:
    """Return the driver's library, which CuPy calls as well."""
    return gpu.library if isinstance(gpu, CuPy) else gpu


class Sums:
    """A graph of a few small kernels: y = softmax(x * 2 + 1), z = the sum of x."""

    def __init__(self, **options: Any) -> None:
        self.cx = ll.Graph()
        self.x = self.cx.tensor((6, 8)).set(random(6, 8))
        self.y = (self.x * 2 + 1).softmax(-1).retrieve()
        self.z = self.x.sum().retrieve()
        self.cx.compile(ll.GenericCompiler(), ll.CUDACompiler(arch="sm_90", **options))

    def check(self) -> None:
        x = self.x.numpy().astype(np.float64)
        e = np.exp(x * 2 + 1)
        np.testing.assert_allclose(self.y.numpy(), e / e.sum(-1, keepdims=True), rtol=1e-5)
        np.testing.assert_allclose(self.z.numpy(), x.sum(), rtol=1e-4)

    @property
    def engine(self) -> CUDAEngine:
        engine = self.cx.compilation.runner.engine  # pyright: ignore[reportOptionalMemberAccess, reportAttributeAccessIssue]
        assert isinstance(engine, CUDAEngine)
        return engine


# -- the table -------------------------------------------------------------------------------------


def test_the_table_is_that_of_the_package():
    cupy = need("cupy")
    places = {"cuda.Module": "cuda.function.Module", "cuda.Event": "cuda.stream.Event"}
    compared = 0
    for line in TABLE.strip().splitlines():
        name, given = re.fullmatch(r"([\w.]+)\((.*)\)", line).groups()  # pyright: ignore[reportOptionalMemberAccess]
        if name.startswith("cublas.") or name == "cuda.Function.__call__":
            continue  # which have no text of their own without a GPU
        found: Any = cupy
        head, _, rest = name.rpartition(".")
        for word in f"{places.get(head, head)}.{rest}".split("."):
            found = getattr(found, word)
        text = found.__doc__ or ""
        if isinstance(found, type):
            text = "\n".join([text, found.__init__.__doc__ or ""])
        if name == "cuda.runtime.memGetInfo" or f"{rest}(" not in text:
            text = next((w for w in text.splitlines() if "(" in w), text) + f"\n{rest}({given})"
        short = re.search(rf"(?:{rest}|__init__)\((.*?)\)", text)
        assert short, (name, text)
        mine = [one.split("=")[0].split()[-1] for one in given.split(",") if one and one != "self"]
        theirs = [one.split("=")[0].split()[-1] for one in short[1].split(",") if one.strip()]
        assert mine == [one for one in theirs if one != "self"], name
        compared += 1
    assert compared > 15


def test_what_the_table_lacks_is_refused(gpu):
    cuda = gpu.module.cuda
    for call in (
        lambda: cuda.runtime.deviceReset(),
        lambda: cuda.runtime.memcpyAsync(1, 2, 3, 4),
        lambda: cuda.runtime.memcpyAsync(1, 2, np.int64(3), 4, 5),
        lambda: cuda.Module().load("text"),
        lambda: cuda.Stream(blocking=True),
    ):
        error_of(call, Refused)


# -- runs ------------------------------------------------------------------------------------------


def test_a_run_computes_and_is_replayed_as_a_graph(gpu):
    sums = Sums()
    assert not gpu.table.given, "compile asks nothing of a GPU whose architecture is given"
    for turn in range(5):
        sums.x.set(random(6, 8) + turn)
        sums.cx.execute()
        sums.check()
    assert gpu.table.count("cuda.Stream.begin_capture") == 1
    assert gpu.table.count("cuda.graph.Graph.launch") == 3


def test_memory_is_allocated_once(gpu):
    sums = Sums()
    sums.cx.execute()
    allocated = gpu.table.count("cuda.Memory"), gpu.table.count("cuda.malloc_managed")
    for turn in range(3):
        sums.x.set(random(6, 8) * turn)
        sums.cx.execute()
    assert allocated == (gpu.table.count("cuda.Memory"), gpu.table.count("cuda.malloc_managed"))


def test_equal_sources_are_loaded_once(gpu):
    for _ in range(2):
        Sums().cx.execute()
    assert gpu.table.count("cuda.Module.load") == 1


def test_inputs_are_copied_when_they_change(gpu):
    cx = ll.Graph()
    x, w = cx.tensor((4, 8)).set(random(4, 8)), cx.tensor((4, 8)).set(random(8, 4).T)
    y = (x * w).retrieve()
    cx.compile(ll.CUDACompiler(arch="sm_90"))
    cx.execute()
    before = gpu.table.count("cuda.runtime.memcpyAsync")
    x.set(random(4, 8) + 1)
    cx.execute()
    assert gpu.table.count("cuda.runtime.memcpyAsync") - before == 2  # x goes in, y comes out
    np.testing.assert_allclose(y.numpy(), x.numpy() * w.numpy(), rtol=1e-6)


@pytest.mark.parametrize("shares", [True, False])
def test_what_is_carried_stays_on_the_device(monkeypatch, shares):
    for gpu in standing(monkeypatch, CuPy(shares=shares)):
        cx = ll.Graph()
        cache = cx.tensor((8, 4)).set(np.zeros((8, 4)))
        row = cx.tensor((1, 4)).set(np.ones((1, 4)))
        new = cache.update(row, 3).retrieve()
        total = (new + 1).sum().retrieve()
        cx.carry(new, cache)
        cx.compile(ll.GenericCompiler(), ll.CUDACompiler(arch="sm_90"))
        cx.execute()
        before = gpu.table.count("cuda.runtime.memcpyAsync")
        for turn in range(3):
            row.set(np.full((1, 4), turn + 2.0))
            cx.execute()
            assert total.numpy() == 32 + 4 * (turn + 2)
        each = (gpu.table.count("cuda.runtime.memcpyAsync") - before) / 3
        # The row goes in and the total comes out; without memory that both see the cache does too.
        assert each == (2 if shares else 4)
        assert new.numpy()[3, 0] == 4.0
        assert new.numpy()[0, 0] == 0.0


@ON_BOTH
def test_sizes_of_dims_change(gpu):
    cx = ll.Graph()
    x = cx.tensor(("n", 4))
    y = (x * 3).sum(-1).retrieve()
    cx.compile(ll.CUDACompiler(arch="sm_90"))
    for n in (2, 9, 2, 300, 9, 9, 9):
        x.set(random(n, 4))
        cx.execute()
        np.testing.assert_allclose(y.numpy(), x.numpy().sum(-1) * 3, rtol=1e-4)
    del gpu


@ON_BOTH
def test_what_numpy_does_stands_between_launches_and_probes_see_values(gpu):
    cx = ll.Graph()
    x = cx.tensor((3, 4)).set(random(3, 4))
    y = cx.function(lambda a: np.sort(a, -1), x * 2, shape=(3, 4))
    seen: list[np.ndarray] = []
    z = (y + 1).retrieve()
    cx.compile(ll.CUDACompiler(arch="sm_90"))
    for turn in range(4):
        if turn == 3:
            cx.probe(y, lambda value: seen.append(value.copy()))
            cx.compile(ll.CUDACompiler(arch="sm_90"))
        x.set(random(3, 4) + turn)
        cx.execute()
        np.testing.assert_allclose(z.numpy(), np.sort(x.numpy() * 2, -1) + 1, rtol=1e-6)
    np.testing.assert_allclose(seen[0], z.numpy() - 1, rtol=1e-6)
    del gpu


def test_parameters_that_are_trained_stay_on_the_device(gpu):
    cx = ll.Graph()
    weight = ll.Parameter((4,), value=np.ones(4, np.float32))
    w = cx.parameter(weight)
    x = cx.tensor((4,)).set(np.ones(4))
    new = (w - x * 0.5).retrieve()
    cx.carry(new, w)
    cx.compile(ll.GenericCompiler(), ll.CUDACompiler(arch="sm_90"))
    copies: list[int] = []
    for turn in range(4):
        before = gpu.table.count("cuda.runtime.memcpyAsync")
        cx.execute()
        copies.append(gpu.table.count("cuda.runtime.memcpyAsync") - before)
        np.testing.assert_array_equal(weight.value, np.ones(4) - 0.5 * (turn + 1))
    assert copies == [2, 0, 0, 0]  # x and w, once
    weight.set(np.zeros(4))
    cx.execute()
    np.testing.assert_array_equal(weight.value, np.full(4, -0.5))


@ON_BOTH
def test_random_numbers_are_new_in_each_replay(gpu):
    cx = ll.Graph()
    x = cx.tensor((64,)).set(np.ones(64))
    y = x.dropout(0.5).retrieve()
    z = (x * 2).sum().retrieve()
    cx.compile(ll.CUDACompiler(arch="sm_90"))
    seen: list[bytes] = []
    for _ in range(4):
        x.set(np.ones(64))
        cx.execute()
        seen.append(y.numpy().tobytes())
        assert z.numpy() == 128
    assert len(set(seen)) == 4
    del gpu


@ON_BOTH
def test_a_model_and_its_precision_in_either_order(gpu):
    layer = nn.Linear(8, 8)
    found: list[np.ndarray] = []
    for passes in (
        (ll.HalfPrecision(), ll.CUDACompiler(arch="sm_90")),
        (ll.CUDACompiler(arch="sm_90"), ll.HalfPrecision()),
    ):
        cx = ll.Graph()
        x = cx.tensor((4, 8)).set(random(4, 8))
        y = layer(x).relu().retrieve()
        cx.compile(ll.GenericCompiler(), *passes)
        cx.execute()
        found.append(y.numpy())
    np.testing.assert_array_equal(found[0], found[1])
    del gpu


# -- times -----------------------------------------------------------------------------------------


@ON_BOTH
def test_launches_are_timed_by_events(gpu):
    sums = Sums()
    sums.cx.execute()
    program: Any = sums.cx.compilation.runner
    data = sums.x.numpy()
    found = program.time_launches(Environment(lambda _: data), 2)
    assert [times for _, times in found] == [(0.00025, 0.00025)] * len(sums.cx.launches)
    assert program.clock == "CUDA events"
    assert program.device == "Stand-in"
    del gpu


@ON_BOTH
def test_a_launch_is_timed_with_the_cache_full_and_empty(gpu, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(cuda_engine, "FLUSHED", 4096)
    sums = Sums()
    sums.cx.execute()
    program: Any = sums.cx.compilation.runner
    data, fills = sums.x.numpy(), list[int]()
    environment = Environment(lambda _: data)
    fill = program.engine.driver.fill

    def filled(to: int, size: int) -> None:
        fills.append(size)
        fill(to, size)

    monkeypatch.setattr(program.engine.driver, "fill", filled)
    counts = dict[str, int]()
    for caches in ("run", "hot", "cold"):
        before = len(gpu.launched), fills.count(4096)
        found = program.time_launches(environment, 1, warm_up=0, caches=caches)
        assert len(found) == len(sums.cx.launches)
        counts[caches] = len(gpu.launched) - before[0]
        assert fills.count(4096) - before[1] == (counts["run"] if caches == "cold" else 0)
    assert counts["hot"] == 2 * counts["run"]
    assert counts["cold"] == counts["run"]
    assert program.engine.caches == "run"

    def full(size: int) -> None:
        raise MemoryError

    monkeypatch.setattr(program.engine.driver, "allocate", full)
    program.engine._flushed = None
    error = error_of(
        lambda: program.time_launches(environment, 1, warm_up=0, caches="cold"), DeviceError
    )
    assert error.message == "cuda: 0 MiB to empty the GPU's cache are not there"
    sums.check()


# -- cuBLAS ----------------------------------------------------------------------------------------

SHAPES = [
    ((5, 7), (7, 6), lambda a, b: a @ b),
    ((7, 5), (7, 6), lambda a, b: a.T @ b),
    ((5, 7), (6, 7), lambda a, b: a @ b.T),
    ((3, 5, 7), (7, 6), lambda a, b: a @ b),
    ((3, 5, 7), (3, 7, 6), lambda a, b: a @ b),
    ((1, 7), (7, 6), lambda a, b: a @ b),
]


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "float64"])
def test_cublas_computes_what_the_kernel_does(gpu, monkeypatch, dtype):
    monkeypatch.setattr(MeasuredChoice, "is_library", True)
    cx = ll.Graph()
    results = []
    for left, right, call in SHAPES:
        a = cx.tensor(left, dtype).set(random(*left))
        b = cx.tensor(right, dtype).set(random(*right))
        results.append(call(a, b).retrieve())
    cx.execute()
    wanted = [one.numpy().astype(np.float64) for one in results]
    cx.compile(ll.CUDACompiler(arch="sm_90"))
    a.set(random(*left))
    cx.execute()
    near = {"float32": 1e-5, "float64": 1e-12, "float16": 2e-3, "bfloat16": 2e-2}[dtype]
    for one, want in zip(results, wanted, strict=True):
        np.testing.assert_allclose(one.numpy().astype(np.float64), want, rtol=near, atol=near)
    assert [name for name, *_ in gpu.launched].count("cublas") >= len(SHAPES)


def test_the_faster_of_two_is_taken_and_shown(gpu):
    cx = ll.Graph()
    a, b = cx.tensor((5, 7)).set(random(5, 7)), cx.tensor((7, 6)).set(random(7, 6))
    (a @ b).named("y").retrieve()
    cx.compile(ll.CUDACompiler(arch="sm_90"))
    assert "cuBLAS" not in str(cx.launches)
    cx.execute()
    program: Any = cx.compilation.runner
    assert program.engine.products.choices == {("matmul", ()): MeasuredChoice(0.00025, 0.00025)}
    assert str(cx.launches) == (
        "   0  %y: f32[5, 6] = matmul(a=%0, b=%1).O  # 250.0 µs, where cuBLAS takes 250.0"
    )
    assert str(MeasuredChoice(30e-6, 20e-6)) == "by cuBLAS: 20.0 µs, where its own code takes 30.0"
    # Outside of a graph a launch takes longer than that.
    assert str(MeasuredChoice(3e-6, 2e-6)) == "3.0 µs, where cuBLAS takes 2.0"
    del gpu


def test_without_cublas_kernels_do_it(gpu):
    gpu.cublas = None
    cx = ll.Graph()
    a, b = cx.tensor((5, 7)).set(random(5, 7)), cx.tensor((7, 6)).set(random(7, 6))
    y = (a @ b).retrieve()
    cx.compile(ll.CUDACompiler(arch="sm_90"))
    cx.execute()
    np.testing.assert_allclose(y.numpy(), a.numpy() @ b.numpy(), rtol=1e-4, atol=1e-5)
    program: Any = cx.compilation.runner
    assert program.engine.products.why_not == "cuBLAS is not there: no libcublas.so"


def test_a_product_that_cublas_does_not_take_is_a_kernels(gpu):
    gpu.table.fails["cublas.gemmEx"] = [CUBLASError(15, "CUBLAS_STATUS_NOT_SUPPORTED")]
    cx = ll.Graph()
    a, b = cx.tensor((5, 7)).set(random(5, 7)), cx.tensor((7, 6)).set(random(7, 6))
    y = (a @ b).retrieve()
    cx.compile(ll.CUDACompiler(arch="sm_90"))
    cx.execute()
    np.testing.assert_allclose(y.numpy(), a.numpy() @ b.numpy(), rtol=1e-4, atol=1e-5)
    assert "cuBLAS" not in str(cx.launches)
    program: Any = cx.compilation.runner
    assert program.engine.products.why_not == (
        "kernel matmul: cuBLAS failed: CUBLAS_STATUS_NOT_SUPPORTED: error 15"
    )


class Halves:
    """A product of 16-bit floats that four warps multiply, with its maps of both operands."""

    def __init__(self) -> None:
        self.cx = ll.Graph()
        a, b = (random(*shape).astype(np.float16) for shape in ((576, 128), (128, 256)))
        self.want = a.astype(np.float32) @ b.astype(np.float32)
        x, w = (self.cx.tensor(one.shape, "float16").set(one) for one in (a, b))
        self.y = (x @ w).retrieve()
        device = ll.CUDACompiler(arch="sm_90a", cublas=False)
        self.cx.compile(ll.GenericCompiler(), device)


@ON_BOTH
def test_bulk_copies_are_given_maps_and_room_for_their_tiles(gpu):
    made = Halves()
    for _ in range(4):  # from the third run on as a graph
        made.cx.execute()
        assert np.allclose(made.y.numpy().astype(np.float32), made.want, rtol=1e-2, atol=0.1)
    places = [matrix[1:6] for matrix in library_of(gpu).maps]
    assert places == [(128, 576, 256, 64, 64), (256, 128, 512, 64, 64)]
    assert gpu.launched[-1][1:] == (36, 128)


@ON_BOTH
def test_a_map_that_the_driver_does_not_make(gpu, monkeypatch):
    made = Halves()
    monkeypatch.setattr(library_of(gpu), "map_status", 1)
    error = error_of(made.cx.execute, DeviceError)
    assert error.message == ("cuda: the driver makes no tensor map of a, 576 rows of 128: status 1")
    assert error.hint == 'arch="sm_90" has kernels that need none'


def test_cublas_is_no_candidate_where_that_is_asked(gpu):
    cx = ll.Graph()
    a, b = cx.tensor((5, 7)).set(random(5, 7)), cx.tensor((7, 6)).set(random(7, 6))
    (a @ b).retrieve()
    cx.compile(ll.CUDACompiler(arch="sm_90", cublas=False))
    cx.execute()
    assert not gpu.table.count("cublas.gemmEx")


# -- what fails ------------------------------------------------------------------------------------

STILL = (
    "the source, PTX and resources of kernels are available without it; emulate=True runs small "
    "sizes "
    "on the CPU"
)


def test_no_cupy(gpu, monkeypatch):
    def missing(name: str) -> None:
        raise ModuleNotFoundError(f"No module named {name!r}")

    sums = Sums(engine="cupy")
    monkeypatch.setattr(located, "importlib", SimpleNamespace(import_module=missing))
    error = error_of(sums.cx.execute, DeviceError)
    assert error.message == (
        "cuda: CuPy, which runs kernels, is not installed (No module named 'cupy')"
    )
    assert error.hint == f'pip install "luminal-lab[cuda]"; {STILL}'
    assert sums.cx.kernels[0].source
    del gpu


def test_no_driver(gpu):
    gpu.driver = 0
    error = error_of(Sums().cx.execute, DeviceError)
    assert error.message == (
        "cuda: there is no NVIDIA driver on this machine, and so no GPU to run on"
    )
    assert error.hint == STILL


def test_a_driver_that_is_too_old(gpu):
    gpu.driver = 12_020
    gpu.table.fails["cuda.runtime.getDeviceCount"] = [CUDARuntimeError(35)]
    error = error_of(Sums().cx.execute, DeviceError)
    assert error.message == "cuda: the driver knows CUDA 12.2, and CuPy is made for 13.2"
    assert error.hint == f"install a newer driver, or CuPy for the older CUDA; {STILL}"


def test_no_gpu(gpu):
    gpu.table.fails["cuda.runtime.getDeviceCount"] = [CUDARuntimeError(100)]
    error = error_of(Sums().cx.execute, DeviceError)
    assert error.message == "cuda: there is no NVIDIA GPU on this machine"


def test_the_architecture_is_that_of_the_gpu(gpu):
    cx = ll.Graph()
    (cx.tensor((4,)) * 2).retrieve()
    cx.compile(ll.CUDACompiler())
    assert gpu.table.count("cuda.Device") == 1
    gpu.devices = 0
    cx.compile(ll.CUDACompiler())


@ON_BOTH
def test_out_of_memory(gpu):
    cx = ll.Graph()
    x = cx.tensor((1000, 100)).set(random(1000, 100))
    (x * 2).named("big").retrieve()
    cx.compile(ll.CUDACompiler(arch="sm_90"))
    gpu.left = 500_001  # an arena of nothing has a byte
    error = error_of(cx.execute, DeviceError)
    assert error.message == (
        "execute: out of memory: on Stand-in the program needs 400,000 bytes for inputs, 0 for "
        "what is computed on the way and 400,000 for what is retrieved, and 100,000 are left"
    )
    assert error.where == (
        "the largest values:\n"
        "         400,000  %0: f32[1000, 100]\n"
        "         400,000  %big: f32[1000, 100]"
    )
    assert error.hint == "use smaller sizes, keep and retrieve fewer values, or ll.HalfPrecision"


def test_a_faulting_kernel_has_a_name_on_the_first_run(gpu):
    sums = Sums()
    gpu.table.fails["cuda.Stream.synchronize"] = [None] * 2 + [CUDARuntimeError(700, "illegal")]
    error = error_of(sums.cx.execute, DeviceError)
    assert re.fullmatch(r"kernel \w+: the GPU stopped it: illegal: error 700", error.message)
    assert error.hint == (
        "the GPU's context is lost, and with it what was carried there: restart Python (the "
        "notebook's kernel) to go on; with emulate=True the emulator finds the line"
    )
    again = error_of(sums.cx.execute, DeviceError)
    assert again.message == error.message


@ON_BOTH
def test_ctrl_c_comes_through_where_a_kernel_does_not_end(gpu):
    sums = Sums()
    sums.cx.execute()
    sums.x.set(random(6, 8))
    asked = [0]

    def hangs() -> int:
        asked[0] += 1
        if asked[0] == 5:
            signal.raise_signal(signal.SIGINT)
        return 600 if asked[0] > 1 else 0  # the first wait is for the input

    gpu.hangs = hangs
    error = error_of(sums.cx.execute, Interrupted)
    names = ", ".join(kernel.name for kernel in sums.cx.kernels)
    assert error.message == (
        f"kernels {names}: stopped by Ctrl-C, and the GPU is still busy with it"
    )
    assert error.hint == (
        "the next run waits for it; if it never ends, restart Python (the notebook's kernel): what "
        "was carried on the GPU goes with it. With emulate=True the emulator stops it, and says "
        "where its threads stand"
    )
    gpu.hangs = lambda: 0
    sums.cx.execute()
    sums.check()


def test_later_the_kernels_that_may_have_failed_are_named(gpu):
    sums = Sums()
    sums.cx.execute()
    sums.x.set(random(6, 8))
    # The first wait is for the input.
    gpu.table.fails["cuda.Stream.synchronize"] = [None, CUDARuntimeError(719, "launch failure")]
    error = error_of(sums.cx.execute, DeviceError)
    names = ", ".join(kernel.name for kernel in sums.cx.kernels)
    assert error.message == (
        f"cuda: the GPU stopped one of the kernels {names}: launch failure: error 719"
    )


@pytest.mark.parametrize("call", ["cuda.Function.__call__", "cuda.Module.get_function"])
def test_what_the_driver_refuses_has_the_kernels_name(gpu, call):
    sums = Sums()
    gpu.table.fails[call] = [CUDADriverError(701, "too many resources")]
    error = error_of(sums.cx.execute, DeviceError)
    assert re.fullmatch(
        r"kernel \w+: the GPU did not take it: too many resources: error 701", error.message
    )
    sums.cx.execute()
    sums.check()


CALLS = (
    "cuda.Device",
    "cuda.runtime.getDeviceCount",
    "cuda.runtime.getDeviceProperties",
    "cuda.runtime.deviceGetAttribute",
    "cuda.runtime.memcpyAsync",
    "cuda.runtime.memsetAsync",
    "cuda.Memory",
    "cuda.Stream",
    "cuda.Stream.synchronize",
    "cuda.Module.load",
    "cuda.Module.get_function",
    "cuda.Function.__call__",
    "cuda.Event",
    "cuda.Event.record",
    "cuda.get_elapsed_time",
    "cuda.graph.Graph.launch",
)


@pytest.mark.parametrize("call", CALLS)
def test_each_call_that_fails_is_an_error_of_ours_after_which_a_run_works(gpu, call):
    sums = Sums()
    data = sums.x.numpy()

    def all_that_there_is() -> None:
        for turn in range(3):
            sums.x.set(data + turn)
            sums.cx.execute()
        program: Any = sums.cx.compilation.runner
        program.time_launches(Environment(lambda _: data), 1)

    gpu.table.fails[call] = [CUDARuntimeError(1, "cudaErrorInvalidValue")]
    error = error_of(all_that_there_is, DeviceError)
    assert "cudaErrorInvalidValue" in str(error)
    assert "test_engine.py" in error.where
    all_that_there_is()
    sums.check()


def test_a_driver_that_records_no_graphs(gpu):
    sums = Sums()
    gpu.table.fails["cuda.Stream.begin_capture"] = [CUDARuntimeError(801, "not supported")]
    for turn in range(4):
        sums.x.set(random(6, 8) + turn)
        sums.cx.execute()
        sums.check()
    assert gpu.table.count("cuda.graph.Graph.launch") == 0


def test_code_for_another_gpu(gpu):
    gpu.capability = "75"
    gpu.table.fails["cuda.Module.load"] = [CUDADriverError(209, "no kernel image")]
    error = error_of(Sums().cx.execute, DeviceError)
    assert error.message == (
        "cuda: the kernels are for sm_90, the GPU is sm_75, and the driver does not take them: "
        "no kernel image: error 209"
    )
    assert error.hint == f'give arch="sm_75", or leave it out; {STILL}'


@ON_BOTH
def test_an_index_out_of_range_has_its_place(gpu):
    cx = ll.Graph()
    table = cx.tensor((5, 4)).set(random(5, 4))
    index = cx.tensor((3, 4), "int64").set(np.array([[0] * 4, [1] * 4, [4] * 4]))
    y = (table.gather(0, index) * 2).retrieve()
    cx.compile(ll.CUDACompiler(arch="sm_90"))
    cx.execute()
    kept = y.numpy().copy()
    index.set(np.array([[0] * 4, [7] * 4, [4] * 4]))
    error = error_of(cx.execute, RangeError)
    assert "7" in str(error)
    index.set(np.array([[0] * 4, [1] * 4, [4] * 4]))
    cx.execute()
    np.testing.assert_array_equal(y.numpy(), kept)
    del gpu


# -- the driver alone ------------------------------------------------------------------------------


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch) -> Iterator[LibcudaStandIn]:
    """A GPU with nothing but its driver."""
    yield from standing(monkeypatch, LibcudaStandIn())


def test_the_drivers_calls_are_those_of_its_header():
    header = Path("/usr/local/cuda/include/cuda.h")
    paths = [header, *sorted(Path("/usr/local").glob("cuda-*/include/cuda.h"))]
    path = next((path for path in paths if path.exists()), None)
    if path is None:
        pytest.skip("cuda.h is not on this machine")
    text = re.sub(r"/\*.*?\*/", "", path.read_text("utf-8", "replace"), flags=re.DOTALL)
    for name in libcuda.CALLS:
        plain = re.sub("_v2$|WithFlags$", "", name)
        found = re.search(rf"CUresult CUDAAPI {plain}(?:_v2)?\(([^;]*?)\);", text)
        assert found, name
        given = [one for one in found[1].split(",") if one.strip() != "void"]
        mine, theirs = libcuda.CALLS[name], HEADER[name]
        assert len(given) == len(mine) == len(theirs), name
        for parameter, one, other in zip(given, mine, theirs, strict=True):
            assert ctypes.sizeof(one) == ctypes.sizeof(other) == _size_of(parameter), name


def _size_of(parameter: str) -> int:
    kind = " ".join(parameter.replace("*", " * ").split()[:-1]).removeprefix("const ")
    if "*" in kind or kind in HANDLES:
        return 8
    return {"unsigned char": 1, "size_t": 8, "unsigned long long": 8, "cuuint64_t": 8}.get(kind, 4)


HANDLES = {
    *("CUcontext", "CUdeviceptr", "CUstream", "CUmodule", "CUfunction", "CUevent", "CUgraph"),
    *("CUgraphExec", "CUgraphNode"),
}


def test_the_driver_alone_replays_graphs_and_gives_back_all_it_holds(bare):
    sums = Sums()
    for turn in range(5):
        sums.x.set(random(6, 8) + turn)
        sums.cx.execute()
        sums.check()
    assert bare.count("cuGraphInstantiateWithFlags") == 1
    assert bare.count("cuGraphLaunch") == 3
    del sums
    cuda_driver.load_module.cache_clear()
    gc.collect()
    assert not bare.memory
    assert {*bare._kinds.values()} == {"context"}


class Decoding:
    """A small decoder, token by token behind its cache."""

    def __init__(self, *passes: Any) -> None:
        self.cx = ll.Graph()
        model = models.GPT2(layers=1, heads=2, width=16, vocab=50, context=32).initialise(1)
        self.tokens = self.cx.tensor((1, 1), "int64", "tokens")
        self.cache = nn.KVCache(self.cx, capacity=32)
        self.logits = model(self.tokens, cache=self.cache).retrieve()
        if passes:
            self.cx.compile(ll.GenericCompiler(), *passes)
        self.cache.begin()

    def step(self, token: int) -> np.ndarray:
        self.cache.advance()
        self.tokens.set([[token]])
        self.cx.execute()
        return self.logits.numpy().copy()


def test_one_graph_is_replayed_while_a_cache_is_filled(bare):
    decoding, reference = Decoding(ll.CUDACompiler(arch="sm_90")), Decoding()
    waits: list[int] = []
    for token in range(8):
        before = bare.count("cuStreamSynchronize")
        got = decoding.step(token)
        waits.append(bare.count("cuStreamSynchronize") - before)
        np.testing.assert_allclose(got, reference.step(token), rtol=1e-3, atol=1e-4)
    launches = len(decoding.cx.launches)
    assert waits[0] > launches
    assert max(waits[1:]) <= 4, "for what goes in, for the launches, and for what comes out"
    # What comes before the cache is written, and what comes after it.
    assert bare.count("cuGraphInstantiateWithFlags") == 2
    assert bare.count("cuGraphLaunch") == 12
    assert bare.count("cuLaunchKernel") <= 3 * launches
    assert 0 < bare.count("cuGraphExecKernelNodeSetParams_v2") < 5 * launches


def test_a_driver_without_graphs_launches_one_by_one(bare):
    bare.missing |= {"cuGraphAddKernelNode_v2"}
    sums = Sums()
    for turn in range(4):
        sums.x.set(random(6, 8) + turn)
        sums.cx.execute()
        sums.check()
    assert not bare.count("cuGraphLaunch")


def test_no_driver_at_all(monkeypatch, bare):
    def missing() -> None:
        raise device_error("cuda: there is no NVIDIA driver on this machine", hint=STILL)

    sums = Sums()
    monkeypatch.setattr(libcuda, "library", missing)
    error = error_of(sums.cx.execute, DeviceError)
    assert error.message == "cuda: there is no NVIDIA driver on this machine"
    del bare


def test_no_gpu_behind_the_driver(bare):
    bare.devices = 0
    error = error_of(Sums().cx.execute, DeviceError)
    assert error.message == "cuda: there is no NVIDIA GPU on this machine"


def test_the_arch_is_what_the_driver_says(bare):
    assert cuda_driver.present() == ("sm_90a", 132)
    bare.capability = "75"
    assert cuda_driver.present() == ("sm_75", 132)


DRIVERS_CALLS = (
    *("cuDeviceGetCount", "cuDeviceGetName", "cuDeviceGetAttribute", "cuStreamCreate"),
    *("cuMemcpyAsync", "cuMemsetD8Async", "cuMemAlloc_v2", "cuStreamSynchronize"),
    *("cuModuleLoadData", "cuModuleGetFunction", "cuLaunchKernel", "cuGraphLaunch"),
    *("cuEventCreate", "cuEventRecord", "cuEventElapsedTime", "cuStreamQuery"),
)


@pytest.mark.parametrize("call", DRIVERS_CALLS)
def test_each_of_the_drivers_calls_that_fails_is_an_error_of_ours(bare, call):
    sums = Sums()
    data = sums.x.numpy()

    def all_that_there_is() -> None:
        for turn in range(3):
            sums.x.set(data + turn)
            sums.cx.execute()
        program: Any = sums.cx.compilation.runner
        program.time_launches(Environment(lambda _: data), 1)

    bare.fails[call] = [1]
    error = error_of(all_that_there_is, DeviceError)
    assert f"{call}: CUDA_ERROR_INVALID_VALUE: error 1" in str(error)
    assert "test_engine.py" in error.where
    all_that_there_is()
    sums.check()


def test_a_lost_context_is_lost_for_good_on_the_driver(bare):
    sums = Sums()
    bare.fails["cuStreamSynchronize"] = [0, 0, 700]
    error = error_of(sums.cx.execute, DeviceError)
    said = "cuStreamSynchronize: CUDA_ERROR_ILLEGAL_ADDRESS: error 700"
    assert re.fullmatch(rf"kernel \w+: the GPU stopped it: {said}", error.message)
    assert error_of(sums.cx.execute, DeviceError).message == error.message


def test_engines_have_names():
    with pytest.raises(ArgumentError, match="cuda: the engine is 'cupi'"):
        ll.CUDACompiler(engine="cupi")  # pyright: ignore[reportArgumentType]
    assert str(ll.CUDACompiler(arch="sm_90", engine="driver")) == (
        "cuda{arch = sm_90, engine = driver}"
    )

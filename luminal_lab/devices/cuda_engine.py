"""An NVIDIA GPU, through CuPy: memory, copies, launches, graphs of launches, events, cuBLAS.

CuPy is imported when something is to run, and only here. A first run waits behind each launch, so
that what fails has a name; from the third on with the same memory launches are replayed as CUDA
graphs. CuPy refuses to record cuBLAS in a graph, so those calls stand between graphs, as do kernels
that are given the count of runs.
"""

from __future__ import annotations

import ctypes
import functools
import importlib
from collections.abc import Callable, Generator, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import groupby, pairwise
from statistics import median
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from luminal_lab.core.dtypes import Array, DType
from luminal_lab.core.origin import here
from luminal_lab.devices.cpu_blocks import Block
from luminal_lab.devices.cuda_product import (
    COMPUTE_32F,
    COMPUTE_32F_TF32,
    COMPUTE_64F,
    TYPES,
    Product,
    product_of,
)
from luminal_lab.devices.gpu_engine import Argument, Launched, Place
from luminal_lab.devices.nvrtc import compile_cuda
from luminal_lab.errors import DeviceError
from luminal_lab.kernels.kernel import Kernels

if TYPE_CHECKING:
    from luminal_lab.kernels.kernel import Kernel

STILL: Final = (
    "the source, PTX and resources of kernels are there without it; emulate=True runs small sizes "
    "on the CPU"
)
"""What works where nothing runs."""
NO_DEVICE, OLD_DRIVER, NO_MEMORY, NO_BINARY = 100, 35, 2, 209
KEPT: Final = {701, 704, 705, 708, 711, 712, 713}
"""Statuses from 700 on after which the context can still be used."""
TRIED: Final = 5
"""How often each candidate for a product is timed."""
MOST_GRAPHS: Final = 8
"""How many graphs a range of a program has: for as many choices of its memory."""
SHOWN: Final = 4


def import_cupy() -> Any:  # noqa: ANN401  # CuPy has no types
    """Return CuPy, or say that it is not there."""
    try:
        return importlib.import_module("cupy")
    except ImportError as error:
        raise DeviceError(
            f"cuda: CuPy, which runs kernels, is not installed ({error})",
            where=str(here() or "") or None,
            hint=f'pip install "luminal-lab[cuda]"; {STILL}',
        ) from error


def _count() -> int:
    """Return how many GPUs there are, or say why none can be used."""
    runtime = import_cupy().cuda.runtime
    driver: int = runtime.driverGetVersion()
    if not driver:
        raise DeviceError(
            "cuda: there is no NVIDIA driver on this machine, and so no GPU to run on",
            where=str(here() or "") or None,
            hint=STILL,
        )
    try:
        return int(runtime.getDeviceCount())
    except runtime.CUDARuntimeError as error:
        if error.status == OLD_DRIVER:
            raise DeviceError(
                f"cuda: the driver knows CUDA {_version(driver)}, and CuPy is made for "
                f"{_version(runtime.runtimeGetVersion())}",
                where=str(here() or "") or None,
                hint=f"install a newer driver, or CuPy for the older CUDA; {STILL}",
            ) from error
        if error.status == NO_DEVICE:
            return 0
        raise DeviceError(
            f"cuda: the driver finds no GPU that can be used: {error}",
            where=str(here() or "") or None,
            hint=STILL,
        ) from error


def _version(number: int) -> str:
    return f"{number // 1000}.{number % 1000 // 10}"


def card_arch() -> str | None:
    """Return the architecture of the GPU that is there, if one is."""
    try:
        if not _count():
            return None
    except DeviceError:
        return None
    capability = str(import_cupy().cuda.Device().compute_capability)
    # What only this generation has, such as products of whole warp groups, has an a.
    return f"sm_{capability}a" if int(capability) >= 90 else f"sm_{capability}"


class DeviceMemory:
    """Memory of the GPU alone; it goes when nobody needs it any more."""

    def __init__(self, owner: Any, size: int) -> None:  # noqa: ANN401  # CuPy's
        self.owner = owner
        self.bytes = size
        self.address = int(owner.ptr)


class ManagedBlock(Block):
    """Memory that host and GPU see, and whose pages lie where they were last used."""

    __slots__ = ("owner",)

    def __init__(self, owner: Any, size: int) -> None:  # noqa: ANN401  # CuPy's
        self.owner = owner
        self.bytes = size
        self.address = int(owner.ptr)
        self.offset = 0
        self.given = None
        seen: Any = (ctypes.c_ubyte * max(1, size)).from_address(self.address)
        seen.owner = owner  # whoever has an array of it keeps the memory
        self.raw = np.frombuffer(seen, np.uint8)


class Choice(NamedTuple):
    """Which of two candidates computes a product, and the seconds that were measured of each."""

    ours: float
    library: float

    @property
    def is_library(self) -> bool:
        """Whether cuBLAS is faster."""
        return self.library < self.ours

    def __str__(self) -> str:
        first, second = ("cuBLAS", "its own code") if self.is_library else ("", "cuBLAS")
        fast, slow = sorted((self.ours, self.library))
        text = f"{fast * 1e6:.1f} µs, where {second} takes {slow * 1e6:.1f}"
        return f"by {first}: {text}" if first else text


class _Graph(NamedTuple):
    """Launches that are replayed as one."""

    launches: tuple[Launched, ...]
    graph: Any


class CuPyEngine:
    """The GPU on which one program runs."""

    clock = "CUDA events"
    sees_all = False

    def __init__(self, source: str, arch: str, kernels: Kernels, *, tf32: bool) -> None:
        if not _count():
            raise DeviceError(
                "cuda: there is no NVIDIA GPU on this machine",
                where=str(here() or "") or None,
                hint=STILL,
            )
        del kernels
        self.cupy = import_cupy()
        cuda = self.cupy.cuda
        self.runtime = cuda.runtime
        self.errors: tuple[type[Exception], ...] = (
            cuda.runtime.CUDARuntimeError,
            cuda.driver.CUDADriverError,
        )
        self.lost: str = ""
        """What has ended the context; nothing can be launched after it."""
        self.tf32 = tf32
        self.device = cuda.Device()
        number = int(self.device.id)
        properties: Mapping[str, bytes] = self.runtime.getDeviceProperties(number)
        self.name = properties["name"].decode()
        with self._named("cuda: no stream could be made"):
            self.stream = cuda.Stream(non_blocking=True)
            shares = self.runtime.cudaDevAttrConcurrentManagedAccess
            self.can_share = bool(self.runtime.deviceGetAttribute(shares, number))
        self.module = _module(number, str(self.device.compute_capability), arch, source)
        self.functions: dict[str, Any] = {}
        self.choices: dict[tuple[str, tuple[tuple[str, int], ...]], Choice] = {}
        """What computes plain products, by kernels and sizes of dims."""
        self.why_not = ""
        """Why cuBLAS is no candidate, where it is none."""
        self._graphs: dict[Hashable, list[_Graph]] = {}
        self._seen: dict[Hashable, tuple[Launched, ...]] = {}
        self._records = True
        self._open: list[str] = []
        """The kernels that were launched since it was last waited for them."""

    # -- errors ------------------------------------------------------------------------------------

    @contextmanager
    def _named(self, what: str) -> Generator[None]:
        """Make of an error of CuPy's one of ours."""
        if self.lost:
            raise self._is_lost()
        try:
            yield
        except self.errors as error:
            status = int(getattr(error, "status", 0))
            if status == NO_MEMORY:
                raise MemoryError(str(error)) from error
            if status >= 700 and status not in KEPT:
                self.lost = f"{what}: {error}"
                raise self._is_lost() from error
            raise DeviceError(
                f"{what}: {error}", where=str(here() or "") or None, hint=STILL
            ) from error
        except self.cupy.cuda.memory.OutOfMemoryError as error:
            raise MemoryError(str(error)) from error

    def _is_lost(self) -> DeviceError:
        return DeviceError(
            self.lost,
            where=str(here() or "") or None,
            hint="the GPU's context is lost, and with it what was carried there: restart Python "
            "(the notebook's kernel) to go on; with emulate=True the emulator finds the line",
        )

    # -- memory ------------------------------------------------------------------------------------

    def reserve(self, size: int) -> DeviceMemory:
        """Return memory of the GPU's."""
        with self._named("cuda: no memory could be had"):
            return DeviceMemory(self.cupy.cuda.Memory(max(1, size)), size)

    def shared(self, size: int) -> Block:
        """Return memory whose pages go where they are used."""
        with self._named("cuda: no shared memory could be had"):
            return ManagedBlock(self.cupy.cuda.malloc_managed(max(1, size)), size)

    def free_bytes(self) -> int | None:
        """Return how much memory the GPU has left."""
        with self._named("cuda: the memory that is left is not known"):
            free, _ = self.runtime.memGetInfo()
        return int(free)

    def upload(self, place: Place, array: Array) -> None:
        """Copy an array to the GPU."""
        if array.nbytes:
            begin: int = array.ctypes.data
            self._copy(place.address, begin, array.nbytes, self.runtime.memcpyDefault)
            self.wait()  # the array may go

    def download(self, place: Place, array: Array) -> None:
        """Copy from the GPU, behind all that was launched."""
        if array.nbytes:
            begin: int = array.ctypes.data
            self._copy(begin, place.address, array.nbytes, self.runtime.memcpyDefault)
        self.wait()

    def _copy(self, to: int, of: int, size: int, kind: int) -> None:
        with self._named("cuda: a copy failed"):
            self.runtime.memcpyAsync(to, of, size, kind, self.stream.ptr)

    # -- launches ----------------------------------------------------------------------------------

    def launch(self, launches: Sequence[Launched], key: Hashable, *, careful: bool) -> None:
        """Launch in order; what is launched again with the same memory is replayed."""
        if careful or key is None:
            for work in _works(launches):
                self._choose(work)
                self._direct(work)
                self.wait()
            return
        whole = tuple(launches)
        seen, self._seen[key] = self._seen.get(key), whole
        again = seen is not None and _are_same(seen, whole)
        for place, (is_graph, part) in enumerate(self._parts(whole)):
            if is_graph and self._records and self._replay((key, place), part, again=again):
                continue
            for work in _works(part):
                self._direct(work)

    def _parts(self, launches: Sequence[Launched]) -> Iterator[tuple[bool, tuple[Launched, ...]]]:
        """Yield what can be one graph, and what stands between graphs."""

        def can_be(work: Sequence[Launched]) -> bool:
            return all(one.repeats for one in work) and not self._by_library(work)

        for is_graph, group in groupby(_works(launches), can_be):
            yield is_graph, tuple(one for work in group for one in work)

    def _replay(self, key: Hashable, launches: tuple[Launched, ...], *, again: bool) -> bool:
        """Launch a graph, if there is one or it is time to record it; return if so."""
        graphs = self._graphs.setdefault(key, [])
        found = next((one for one in graphs if _are_same(one.launches, launches)), None)
        if found is None:
            if not again or len(launches) < 2:
                return False
            graph = self._record(launches)
            if graph is None:
                return False
            del graphs[: max(0, len(graphs) + 1 - MOST_GRAPHS)]
            found = _Graph(launches, graph)
            graphs.append(found)
        with self._named(_among([one.kernel.name for one in launches])):
            found.graph.launch(self.stream)
        self._open += [one.kernel.name for one in launches]
        return True

    def _record(self, launches: Sequence[Launched]) -> Any:  # noqa: ANN401  # CuPy's graph
        """Return a graph of launches; None where the driver cannot record them."""
        try:
            self.stream.begin_capture()
            try:
                for one in launches:
                    self._call(one)
            finally:
                graph = self.stream.end_capture()
        except self.errors:
            self._records = False
            return None
        return graph

    def _direct(self, work: Sequence[Launched]) -> None:
        if self._by_library(work):
            product = product_of(work[0].kernel.definition, dict(work[0].sizes))
            assert product is not None
            self._multiply(product, work[-1])
            return
        for one in work:
            with self._named(f"kernel {one.kernel.name}: the GPU did not take it"):
                self._call(one)
            self._open.append(one.kernel.name)

    def _call(self, one: Launched) -> None:
        function = self.functions.get(one.function)
        if function is None:
            function = self.functions[one.function] = self.module.get_function(one.function)
        given = tuple(map(_passed, one.arguments))
        function((one.blocks,), (one.threads,), given, stream=self.stream)

    def wait(self) -> None:
        """Wait for all that was launched."""
        names, self._open = self._open, []
        with self._named(_among(names)):
            self.stream.synchronize()

    # -- times -------------------------------------------------------------------------------------

    def seconds(self, groups: Sequence[Sequence[Launched]]) -> list[float]:
        """Launch groups, and return how long the GPU took for each, by its own clock."""
        return self._timed([functools.partial(self._group, group) for group in groups])

    def _group(self, group: Sequence[Launched]) -> None:
        for work in _works(group):
            self._direct(work)

    def _timed(self, calls: Sequence[Callable[[], None]]) -> list[float]:
        with self._named("cuda: no time could be taken"):
            events = [self.cupy.cuda.Event() for _ in range(len(calls) + 1)]
            events[0].record(self.stream)
        for event, call in zip(events[1:], calls, strict=True):
            call()
            with self._named("cuda: no time could be taken"):
                event.record(self.stream)
        self.wait()
        elapsed = self.cupy.cuda.get_elapsed_time
        with self._named("cuda: no time could be taken"):
            return [float(elapsed(a, b)) * 1e-3 for a, b in pairwise(events)]

    # -- cuBLAS ------------------------------------------------------------------------------------

    @functools.cached_property
    def _library(self) -> Any:  # noqa: ANN401  # CuPy's
        """The functions of cuBLAS, if its library is there."""
        try:
            return importlib.import_module("cupy_backends.cuda.libs.cublas")
        except ImportError as error:
            self.why_not = f"cuBLAS is not there: {str(error).splitlines()[0]}"
            return None

    def chosen(self, kernel: str) -> str:
        """Return what computes a plain product, and what the other candidate would take."""
        found = [str(one) for (name, _), one in self.choices.items() if name == kernel]
        return found[-1] if found else ""

    def _by_library(self, work: Sequence[Launched]) -> bool:
        found = self.choices.get((work[0].kernel.name, work[0].sizes))
        return found is not None and found.is_library

    def _choose(self, work: Sequence[Launched]) -> None:
        """Time a plain product of our own and of cuBLAS's, the first time that it is met."""
        key = work[0].kernel.name, work[0].sizes
        if key in self.choices:
            return
        product = product_of(work[0].kernel.definition, dict(work[0].sizes))
        if product is None or not _is_apart(work[0]) or self._library is None:
            return

        def mine() -> None:
            for one in work:
                self._call(one)

        def theirs() -> None:
            self._multiply(product, work[-1])

        found: list[float] = []
        for call in (mine, theirs):
            self._timed([call])
            found.append(median(self._timed([call] * TRIED)))
        self.choices[key] = Choice(*found)

    def _multiply(self, product: Product, one: Launched) -> None:
        """Have cuBLAS do what a kernel does."""
        library = self._library
        is_double = product.given is DType.float64
        compute = COMPUTE_64F if is_double else COMPUTE_32F
        if product.given is DType.float32 and self.tf32:
            compute = COMPUTE_32F_TF32
        numbers = np.array([1, 0], np.float64 if is_double else np.float32)
        begin: int = numbers.ctypes.data
        places = [
            _address(one.arguments, which, one.kernel)
            for which in (product.left.argument, product.right.argument, product.result.argument)
        ]
        kinds = TYPES[product.given], TYPES[product.made]
        a, b, c = product.left, product.right, product.result
        with self._named(f"kernel {one.kernel.name}: cuBLAS failed"), self.stream:
            handle = self.device.cublas_handle
            size = product.m, product.n, product.k
            if product.batch == 1:
                library.gemmEx(
                    handle, a.op, b.op, *size,
                    begin, places[0], kinds[0], a.step, places[1], kinds[0], b.step,
                    begin + numbers.itemsize, places[2], kinds[1], c.step, compute, -1,
                )  # fmt: skip
            else:
                library.gemmStridedBatchedEx(
                    handle, a.op, b.op, *size,
                    begin, places[0], kinds[0], a.step, a.stride,
                    places[1], kinds[0], b.step, b.stride,
                    begin + numbers.itemsize, places[2], kinds[1], c.step, c.stride,
                    product.batch, compute, -1,
                )  # fmt: skip
        self._open.append(f"{one.kernel.name} (cuBLAS)")


@functools.lru_cache(maxsize=64)
def _module(device: int, capability: str, arch: str, source: str) -> Any:  # noqa: ANN401  # CuPy's
    """Return a source compiled and loaded; equal ones are one."""
    del device
    compiled = compile_cuda(source, arch)
    cupy = import_cupy()
    module = cupy.cuda.Module()
    plain = arch.removeprefix("sm_").rstrip("af")
    # Machine code is for one generation; PTX is for all later ones, and compiled by the driver.
    same = plain[:-1] == capability[:-1] and int(plain) <= int(capability)
    image = compiled.cubin if same else compiled.ptx.encode()
    try:
        module.load(image)
    except (cupy.cuda.driver.CUDADriverError, cupy.cuda.runtime.CUDARuntimeError) as error:
        status = int(getattr(error, "status", 0))
        if status == NO_MEMORY:
            raise MemoryError(str(error)) from error
        raise DeviceError(
            f"cuda: the kernels are for {arch}, the GPU is sm_{capability}, and the driver does "
            f"not take them: {error}",
            where=str(here() or "") or None,
            hint=f'give arch="sm_{capability}", or leave it out; {STILL}',
        ) from error
    return module


def _passed(argument: Argument) -> np.generic:
    return np.uint64(argument.address) if isinstance(argument, Place) else argument


def _works(launches: Sequence[Launched]) -> list[tuple[Launched, ...]]:
    """Return launches by the works that they are of."""
    return [tuple(group) for _, group in groupby(launches, lambda one: one.work)]


def _are_same(some: Sequence[Launched], others: Sequence[Launched]) -> bool:
    return len(some) == len(others) and all(
        a is b or (a.function == b.function and a.arguments == b.arguments)
        for a, b in zip(some, others, strict=True)
    )


def _among(names: Sequence[str]) -> str:
    """Say which kernels something that went wrong is of."""
    distinct = list(dict.fromkeys(names))
    if not distinct:
        return "cuda: the GPU stopped"
    if len(distinct) == 1:
        return f"kernel {distinct[0]}: the GPU stopped it"
    listed = ", ".join(distinct[:SHOWN])
    more = f" and {len(distinct) - SHOWN} more" if len(distinct) > SHOWN else ""
    return f"cuda: the GPU stopped one of the kernels {listed}{more}"


def _address(arguments: Sequence[Argument], which: int, kernel: Kernel) -> int:
    """Return where an operand is; its number counts inputs, and then the result."""
    assert kernel.definition is not None
    at = which if which < len(kernel.definition.inputs) else which + len(kernel.locals)
    place = arguments[at]
    assert isinstance(place, Place)
    return place.address


def _is_apart(one: Launched) -> bool:
    """Return whether the result lies over none of the inputs, so that it can be computed twice."""
    assert one.kernel.definition is not None
    count = len(one.kernel.definition.inputs)
    result = _address(one.arguments, count, one.kernel)
    return all(_address(one.arguments, k, one.kernel) != result for k in range(count))

"""An NVIDIA GPU for a program: launches, graphs of launches, waits, times, and what fails.

A first run waits after each launch, so that a failure has a name; from the third run on with the
same memory, launches are replayed as CUDA graphs. Where sizes alone are new, as with each token
behind a cache, a graph is changed where it differs, if whoever calls the driver can do that. CuPy
refuses to record cuBLAS in a graph, so those calls stand between graphs, as do kernels that take
the number of runs.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Generator, Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby
from statistics import median
from time import sleep
from typing import Any, Final

import numpy as np

from luminal_lab.core.dtypes import Array
from luminal_lab.core.origin import here
from luminal_lab.devices.build.located import device_error
from luminal_lab.devices.cuda.calls import (
    NO_MEMORY,
    STILL,
    DeviceMemory,
    Graph,
    Sized,
    version_text,
)
from luminal_lab.devices.cuda.driver import (
    Calls,
    Image,
    compiled_image,
    driver_class,
    load_module,
    unless_present,
)
from luminal_lab.devices.cuda.library import Products
from luminal_lab.devices.gpu.engine import Argument, Caches, Engine, Location, PlacedLaunch
from luminal_lab.devices.runtime.blocks import MemoryBlock
from luminal_lab.errors import DeviceError, Interrupted
from luminal_lab.interrupts import look
from luminal_lab.kernels.gpu import DECLARED
from luminal_lab.kernels.kernel import Kernels
from luminal_lab.trust import admit

KEPT: Final = {701, 704, 705, 708, 711, 712, 713}
"""Statuses from 700 on after which the context can still be used."""
TRIED: Final = 5
"""How often each candidate for a product is timed."""
FLUSHED: Final = 256 << 20
"""The bytes set to empty the GPU's cache, of which no card has as many."""
AHEAD: Final = 64 << 20
"""The bytes set per memset that keeps the GPU busy while timed launches queue up."""
SETS: Final = 2
"""Memsets for each launch, which take longer than Python needs to launch it."""
MOST_GRAPHS: Final = 8
"""How many graphs a range of a program has: one for each choice of its memory."""
SHOWN: Final = 4
LONGEST: Final = 1e-3
"""The most seconds between two checks whether all is done."""


@dataclass
class _Replayed:
    """Launches that are replayed as one."""

    launches: tuple[PlacedLaunch, ...]
    graph: Graph


class CUDAEngine(Engine):
    """The GPU on which one program runs."""

    sees_all = False
    can_flush = True

    def __init__(
        self,
        source: str,
        arch: str,
        kernels: Kernels,
        *,
        tf32: bool,
        cublas: bool,
        calls: Calls | None = None,
        image: Image = compiled_image,
    ) -> None:
        admit(source)
        unless_present(calls)
        kind = driver_class(calls)
        self.driver = driver = kind()
        self.clock = driver.clock
        self.lost: str = ""
        """The error that destroyed the context; no launch is possible after it."""
        self.arch = arch
        self.knows = f"CUDA {version_text(driver.version)}"
        """The newest CUDA that the driver knows."""
        with self._named("cuda: the GPU does not say what it is"):
            driver.find()
        self.name = driver.name
        with self._named("cuda: no stream could be made"):
            driver.begin()
        self.can_share = driver.can_share
        given = driver.number, driver.capability, arch, source
        self.module = load_module(kind, *given, image)
        self.functions: dict[str, Any] = {}
        self.products = Products(
            driver, self._named, tf32=tf32, is_asked=cublas and driver.has_cublas
        )
        """What computes plain products."""
        self._graphs: dict[Hashable, list[_Replayed]] = {}
        self._seen: dict[Hashable, tuple[PlacedLaunch, ...]] = {}
        self._ahead: DeviceMemory | None = None
        self._flushed: DeviceMemory | None = None
        self._records = True
        self._open: list[str] = []
        """The kernels launched since the last wait."""

    # -- errors ------------------------------------------------------------------------------------

    @contextmanager
    def _named(self, subject: str) -> Generator[None]:
        """Turn an error from the driver into one of ours."""
        if self.lost:
            raise self._is_lost()
        try:
            yield
        except self.driver.errors as error:
            status = int(getattr(error, "status", 0))
            if status == NO_MEMORY:
                raise MemoryError(str(error)) from error
            if status >= 700 and status not in KEPT:
                self.lost = f"{subject}: {error}"
                raise self._is_lost() from error
            raise device_error(f"{subject}: {error}", hint=STILL) from error

    def _is_lost(self) -> DeviceError:
        return device_error(
            self.lost,
            hint="the GPU's context is lost, and with it what was carried there: restart Python "
            "(the notebook's kernel) to go on; with emulate=True the emulator finds the line",
        )

    # -- memory ------------------------------------------------------------------------------------

    def reserve(self, size: int) -> DeviceMemory:
        """Return memory on the GPU."""
        with self._named("cuda: no memory could be allocated"):
            return self.driver.allocate(size)

    def shared(self, size: int) -> MemoryBlock:
        """Return memory whose pages move to where they are used."""
        with self._named("cuda: no shared memory could be allocated"):
            return self.driver.share(size)

    def free_bytes(self) -> int | None:
        """Return how much memory the GPU has left."""
        with self._named("cuda: the memory that is left is not known"):
            return self.driver.free_bytes()

    def upload(self, location: Location, array: Array) -> None:
        """Copy an array to the GPU."""
        if array.nbytes:
            begin: int = array.ctypes.data
            self._copy(location.address, begin, array.nbytes)
            self.wait()  # the array may be released

    def download(self, location: Location, array: Array) -> None:
        """Copy from the GPU, after everything that was launched."""
        if array.nbytes:
            begin: int = array.ctypes.data
            self._copy(begin, location.address, array.nbytes)
        self.wait()

    def _copy(self, to: int, of: int, size: int) -> None:
        with self._named("cuda: a copy failed"):
            self.driver.copy(to, of, size)

    # -- launches ----------------------------------------------------------------------------------

    def launch(self, launches: Sequence[PlacedLaunch], key: Hashable, *, careful: bool) -> None:
        """Launch in order; what is launched again with the same memory is replayed."""
        careful = careful or key is None
        if careful or any(map(self.products.is_new, _works(launches))):
            for work in _works(launches):
                self.products.choose(work, functools.partial(self._mine, work), self._seconds)
                self._direct(work)
                if careful:
                    self.wait()
            return
        all_launches = tuple(launches)
        seen, self._seen[key] = self._seen.get(key), all_launches
        again = seen is not None and _are_alike(seen, all_launches)
        for number, (is_graph, part) in enumerate(self._parts(all_launches)):
            if is_graph and self._records and self._replay((key, number), part, again=again):
                continue
            for work in _works(part):
                self._direct(work)

    def _parts(
        self, launches: Sequence[PlacedLaunch]
    ) -> Iterator[tuple[bool, tuple[PlacedLaunch, ...]]]:
        """Yield what can be one graph, and what stands between graphs."""

        def can_be(work: Sequence[PlacedLaunch]) -> bool:
            draws = any(launch.phase.draws for launch in work)
            return not draws and not self.products.is_by_library(work)

        for is_graph, group in groupby(_works(launches), can_be):
            yield is_graph, tuple(launch for work in group for launch in work)

    def _replay(self, key: Hashable, launches: tuple[PlacedLaunch, ...], *, again: bool) -> bool:
        """Launch a graph, if there is one or it is time to record it; return whether it was."""
        graphs = self._graphs.setdefault(key, [])
        recorded = next((graph for graph in graphs if _are_same(graph.launches, launches)), None)
        if recorded is None:
            if not again or len(launches) < 2:
                return False
            recorded = self._changed(graphs, launches) or self._record(graphs, launches)
            if recorded is None:
                return False
        with self._named(_among([launch.kernel.name for launch in launches])):
            recorded.graph.launch()
        self._open += [launch.kernel.name for launch in launches]
        return True

    def _changed(
        self, graphs: Sequence[_Replayed], launches: tuple[PlacedLaunch, ...]
    ) -> _Replayed | None:
        """Return a graph with the same functions and memory, to which other sizes were given."""
        for graph in graphs:
            if not graph.graph.can_change or not _are_alike(graph.launches, launches):
                continue
            pairs = list(zip(graph.launches, launches, strict=True))
            if any(_memory(a) != _memory(b) for a, b in pairs):
                continue
            graph.launches = ()  # until all is changed
            try:
                for at, (a, b) in enumerate(pairs):
                    if not _is_same(a, b):
                        graph.graph.change(at, self._sized(b))
            except self.driver.errors:
                return None
            graph.launches = launches
            return graph
        return None

    def _record(
        self, graphs: list[_Replayed], launches: tuple[PlacedLaunch, ...]
    ) -> _Replayed | None:
        """Return a new graph of launches; None if the driver cannot record them."""
        try:
            graph = self.driver.graph([self._sized(launch) for launch in launches])
        except self.driver.errors:
            self._records = False
            return None
        del graphs[: max(0, len(graphs) + 1 - MOST_GRAPHS)]
        graphs.append(_Replayed(launches, graph))
        return graphs[-1]

    def _direct(self, work: Sequence[PlacedLaunch]) -> None:
        if self.products.is_by_library(work):
            self.products.multiply(work)
            self._open.append(work[0].kernel.name)
        else:
            self._mine(work)

    def _mine(self, work: Sequence[PlacedLaunch]) -> None:
        for launch in work:
            with self._named(f"kernel {launch.kernel.name}: the GPU did not take it"):
                self._call(launch)
            self._open.append(launch.kernel.name)

    def _call(self, launch: PlacedLaunch) -> None:
        self.driver.launch(self._sized(launch))

    def _sized(self, launch: PlacedLaunch) -> Sized:
        """Return a launch as the driver takes it."""
        name, shared = launch.phase.function, launch.phase.shared
        function = self.functions.get(name)
        if function is None:
            most = shared if shared > DECLARED else None
            function = self.functions[name] = self.driver.function(self.module, name, most)
        return Sized(function, launch.blocks, launch.phase.threads, shared, launch.arguments)

    def wait(self) -> None:
        """Wait for everything that was launched."""
        names, self._open = self._open, []
        with self._named(_among(names)):
            try:
                self._await()
            except KeyboardInterrupt:
                raise _still_running(names) from None
            self.driver.wait()

    def _await(self) -> None:
        """Ask repeatedly until all is done, so that Ctrl-C works even if a kernel never ends."""
        pause = 0.0
        while self.driver.is_busy():
            sleep(pause)
            look()
            pause = min(LONGEST, pause + LONGEST / 100)

    # -- times -------------------------------------------------------------------------------------

    def seconds(self, groups: Sequence[Sequence[PlacedLaunch]]) -> list[float]:
        """Launch groups, and return how long the GPU took for each, by its own clock."""
        calls = [functools.partial(self._group, group) for group in groups]
        return self._timed(calls, self.caches)

    def _group(self, group: Sequence[PlacedLaunch]) -> None:
        for work in _works(group):
            self._direct(work)

    def _timed(self, calls: Sequence[Callable[[], None]], caches: Caches = "run") -> list[float]:
        flushed = self._room() if caches == "cold" else None
        with self._named("cuda: no time could be measured"):
            self._set_ahead(len(calls))
            events = [(self.driver.event(), self.driver.event()) for _ in calls]
            for (first, last), call in zip(events, calls, strict=True):
                if caches == "hot":
                    call()
                if flushed is not None:
                    self.driver.fill(flushed.address, flushed.bytes)
                self.driver.note(first)
                call()
                self.driver.note(last)
            self.wait()
            return [self.driver.seconds(first, last) for first, last in events]

    def _room(self) -> DeviceMemory:
        """Return memory that takes the whole cache when it is set."""
        if self._flushed is None:
            try:
                self._flushed = self.reserve(FLUSHED)
            except MemoryError as error:
                raise device_error(
                    f"cuda: {FLUSHED >> 20} MiB to empty the GPU's cache are not there",
                    hint="end other programs that take its memory, or give smaller sizes",
                ) from error
        return self._flushed

    def _seconds(self, call: Callable[[], None]) -> float:
        """Return how long the GPU takes for something, after doing it once before."""
        self._timed([call])
        return median(self._timed([call] * TRIED))

    def _set_ahead(self, launches: int) -> None:
        """Keep the GPU busy for longer than Python takes for some launches, if there is room.

        Otherwise it would wait for Python between short launches, and the waiting would be timed.
        """
        try:
            memory = self._ahead or self.reserve(AHEAD)
        except MemoryError:
            return
        self._ahead = memory
        for _ in range(SETS * launches):
            self.driver.fill(memory.address, memory.bytes)

    def chosen(self, kernel: str) -> str:
        """Return what computes a plain product, and how long the other candidate would take."""
        return self.products.chosen(kernel)


def _works(launches: Sequence[PlacedLaunch]) -> list[tuple[PlacedLaunch, ...]]:
    """Return launches grouped by the works that they belong to."""
    return [tuple(group) for _, group in groupby(launches, lambda launch: launch.work)]


def _is_same(a: PlacedLaunch, b: PlacedLaunch) -> bool:
    return a is b or (a.blocks == b.blocks and a.arguments == b.arguments)


def _memory(launch: PlacedLaunch) -> list[Argument]:
    return [given for given in launch.arguments if not isinstance(given, np.generic)]


def _are_alike(some: Sequence[PlacedLaunch], others: Sequence[PlacedLaunch]) -> bool:
    """Return whether launches are of the same functions, for whatever sizes and memory."""
    return len(some) == len(others) and all(
        a is b or a.phase.function == b.phase.function for a, b in zip(some, others, strict=True)
    )


def _are_same(some: Sequence[PlacedLaunch], others: Sequence[PlacedLaunch]) -> bool:
    return _are_alike(some, others) and all(map(_is_same, some, others))


def _still_running(names: Sequence[str]) -> Interrupted:
    """Return the error for Ctrl-C while the GPU is busy: nothing can take a kernel off it."""
    kernels = _kernels_of(names)
    return Interrupted(
        f"{kernels}: stopped by Ctrl-C, and the GPU is still busy with it"
        if kernels
        else "cuda: stopped by Ctrl-C, and the GPU is still busy",
        where=str(here() or "") or None,
        hint="the next run waits for it; if it never ends, restart Python (the notebook's kernel): "
        "what was carried on the GPU goes with it. With emulate=True the emulator stops it, and "
        "says where its threads stand",
    )


def _kernels_of(names: Sequence[str]) -> str:
    """Return the names' kernels, only the first few of many."""
    distinct = list(dict.fromkeys(names))
    listed = ", ".join(distinct[:SHOWN])
    more = f" and {len(distinct) - SHOWN} more" if len(distinct) > SHOWN else ""
    return f"kernel{'s' * (len(distinct) > 1)} {listed}{more}" if distinct else ""


def _among(names: Sequence[str]) -> str:
    """Say which kernels an error may be about."""
    kernels = _kernels_of(names)
    if not kernels:
        return "cuda: the GPU stopped"
    if kernels.startswith("kernels "):
        return f"cuda: the GPU stopped one of the {kernels}"
    return f"{kernels}: the GPU stopped it"

"""A program's kernels in libraries: cached one by one, and the missing ones compiled together.

    mul      cached in lib-1f…
    softmax  missing    unit 1    softmax and sum in one library, cached as lib-8a… and lib-c0…
    matmul   missing    unit 2    matmul in another, which a second compiler makes meanwhile
    sum      missing    unit 1

A kernel is cached under its C without its name, so that any program finds it. To start a compiler
takes longer than to compile a small kernel; so a unit has several of them, and its library is the
entry of each.

A compile waits for its units, unless it was told not to: then threads compile them, as many as
there are cores, while the program runs what it has. A unit that no program wants any more is not
begun, and one that several programs want is compiled once.

Kernels that had to be planned go to compilers ahead, while the next ones are planned: whenever a
core has none, compilers take all that have come since, in units as above.
"""

from __future__ import annotations

import atexit
import os
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Lock, Thread, current_thread
from typing import Final, Self
from weakref import ReferenceType, WeakValueDictionary, ref

from luminal_lab.core.origin import warn
from luminal_lab.devices.build.cache import Cache
from luminal_lab.devices.build.toolchain import (
    Behind,
    Compiler,
    build_all,
    cached_library,
    check_of,
    encoded,
    library_key,
)
from luminal_lab.errors import DeviceError, Interrupted
from luminal_lab.interrupts import look
from luminal_lab.kernels.kernel import Kernel
from luminal_lab.kernels.render.c.program import (
    POOL,
    nameless_source,
    pool_source,
    unit_source,
)
from luminal_lab.machines.here import usable_cores
from luminal_lab.progress import progress
from luminal_lab.trust import admit

WORTH: Final = 4_000
"""The characters of C that are worth another compiler, which takes a moment to start."""
WAITING: Final = 0.05
"""The seconds between two looks for Ctrl-C."""
TURNS: Final = 2
"""The units for each core: more take longer in all, and fewer may leave a core idle at the end."""


@dataclass(frozen=True)
class KernelLibrary:
    """A library, and the name under which it exports the functions of a kernel."""

    path: Path
    export: str


@dataclass(frozen=True)
class Libraries:
    """What a program is run with."""

    kernels: dict[str, KernelLibrary]
    """The libraries of kernels, by the kernels' names."""
    pool: Path
    """The threads that run any program."""


@dataclass(frozen=True)
class _Missing:
    """Something that no library has: a kernel, or the pool if there is none."""

    kernel: Kernel | None
    key: str
    source: bytes
    exports: tuple[str, ...]

    @property
    def weight(self) -> int:
        """Roughly how long it takes to compile it."""
        return len(self.kernel.source) if self.kernel else 0


class Unit:
    """What one library is made of, and what became of it."""

    def __init__(
        self, parts: Sequence[_Missing], compiler: Compiler, behind: Behind | None
    ) -> None:
        self.parts, self.compiler, self._behind = parts, compiler, behind
        self.made: dict[str, Path] = {}
        """The libraries of its parts, by their keys."""
        self.error: Exception | None = None
        """Why there are none."""
        self._ended, self._process = Event(), os.getpid()
        self._warnings: list[str] = []

    @property
    def source(self) -> str:
        """Its C."""
        exports = {part.exports[0]: part.kernel for part in self.parts if part.kernel is not None}
        return unit_source(exports) if exports else pool_source()

    @property
    def has_ended(self) -> bool:
        """Whether it is known what became of it."""
        return self._ended.is_set()

    def store(self, library: bytes) -> None:
        """Keep its library as the entry of each part."""
        same: Path | None = None
        for part in self.parts:
            given = part.key, part.source, library, self.compiler.version
            check = check_of(self.compiler, part.exports)
            same = Cache().store(*given, check, same, warning=self._warnings.append)
            self.made[part.key] = same
        self._ended.set()

    def tell(self) -> None:
        """Issue the warnings of its end, of which a thread would not know the user's line."""
        while self._warnings:
            warn(self._warnings.pop(0))

    def compile(self, stop: Event) -> None:
        """Compile and store it, and note an error."""
        try:
            (library,) = build_all([self.source], self.compiler, behind=self._behind, stop=stop)
            self.store(library)
        except (Exception, Interrupted) as error:  # for the next run to raise
            self.error = error if isinstance(error, Exception) else None
        finally:
            self._ended.set()

    def wait(self) -> None:
        """Wait for its end."""
        if self._process != os.getpid() and not self.has_ended:
            self.compile(Event())  # a fork has none of the threads
        while not self._ended.wait(WAITING):
            look()


class Workers:
    """Threads that compile units while the process does something else."""

    def __init__(self) -> None:
        self._lock, self._stop = Lock(), Event()
        self._queue: deque[ReferenceType[Unit]] = deque()
        self._threads: set[Thread] = set()
        self._by_key: WeakValueDictionary[str, Unit] = WeakValueDictionary()

    def unit_of(self, key: str) -> Unit | None:
        """Return the unit that is being compiled and has a part with this key."""
        unit = self._by_key.get(key)
        return None if unit is None or unit.has_ended else unit

    def begin(self, units: Sequence[Unit]) -> None:
        """Have units compiled, after those that were begun before."""
        with self._lock:
            self._by_key.update((part.key, unit) for unit in units for part in unit.parts)
            self._queue += map(ref, units)
            for _ in range(min(usable_cores() - len(self._threads), len(self._queue))):
                thread = Thread(target=self._work, name="luminal_lab compiler", daemon=True)
                self._threads.add(thread)
                thread.start()

    def _work(self) -> None:
        while (unit := self._next()) is not None:
            unit.compile(self._stop)
            del unit  # which may be the last that knows of it

    def _next(self) -> Unit | None:
        with self._lock:
            while self._queue and not self._stop.is_set():
                unit = self._queue.popleft()()
                if unit is not None:
                    return unit
            self._threads.discard(current_thread())
            return None

    def end(self) -> None:
        """End all compilers, since nothing that Python starts may outlive it."""
        self._stop.set()
        for thread in [*self._threads]:
            thread.join()


WORKERS: Final = Workers()
atexit.register(WORKERS.end)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=lambda: Workers.__init__(WORKERS))


class Ahead:
    """Kernels that are compiled while others are planned.

    They are found in the cache afterwards. What a compiler refuses is not, and is given to one
    again, with what it was made from.
    """

    def __init__(self, compiler: Compiler) -> None:
        self._compiler, self._workers, self._cache = compiler, Workers(), Cache()
        self._known = set[str]()
        self._parts: list[_Missing] = []
        """What no compiler has yet."""
        self._units: list[Unit] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._workers.end()

    def add(self, kernel: Kernel) -> None:
        """Take a kernel, and give it to a compiler if a core has none."""
        if not self._known:
            self._note(None)
            self._begin()
        self._note(kernel)
        busy = sum(not unit.has_ended for unit in self._units)
        if busy < usable_cores() and sum(part.weight for part in self._parts) >= WORTH:
            self._begin(*_units(self._parts))

    def finish(self, kernels: Iterable[Kernel]) -> None:
        """Wait for all of a program's kernels, if there were any to be compiled ahead."""
        if not self._known:
            return
        for kernel in kernels:
            self._note(kernel)
        self._begin(*_units(self._parts))
        with progress("the compiler") as bar:
            for unit in self._units:
                bar.now("the compiler")
                unit.wait()
                unit.tell()

    def _note(self, kernel: Kernel | None) -> None:
        want = _wanted(kernel, self._compiler)
        if want.key not in self._known and _library_of(want, self._cache) is None:
            self._parts.append(want)
        self._known.add(want.key)

    def _begin(self, *units: Sequence[_Missing]) -> None:
        parts = units or (self._parts,)
        begun = [Unit(unit, self._compiler, None) for unit in parts if unit]
        self._units += begun
        self._parts = []
        self._workers.begin(begun)


class ProgramLibraries:
    """The libraries of a program: those in the cache, and those that are being compiled."""

    def __init__(
        self,
        kernels: Sequence[Kernel],
        compiler: Compiler,
        behind: Behind | None = None,
        *,
        wait: bool = True,
    ) -> None:
        cache = Cache()
        self._wanted: list[_Missing] = []
        self._paths: dict[str, Path] = {}
        for kernel in (*kernels, None):
            self._wanted.append(want := _wanted(kernel, compiler))
            path = _library_of(want, cache)
            if path is not None:
                self._paths[want.key] = path
        missing = {want.key: want for want in self._wanted if want.key not in self._paths}
        others = {key: unit for key in missing if (unit := WORKERS.unit_of(key)) is not None}
        parts = [want for key, want in missing.items() if key not in others]
        units = [Unit(unit, compiler, behind) for unit in _units(parts)]
        self._units: list[Unit] = [*dict.fromkeys(others.values()), *units]
        if not wait:  # nothing can be launched without the pool
            WORKERS.begin(sorted(units, key=lambda unit: unit.parts[0].kernel is not None))
        elif units:
            sources = [unit.source for unit in units]
            built = build_all(sources, compiler, at_once=usable_cores(), behind=behind)
            for unit, library in zip(units, built, strict=True):
                unit.store(library)

    @property
    def awaited(self) -> frozenset[str]:
        """The kernels that cannot be launched yet, by name: all of them without the pool."""
        made = {key for unit in self._units if unit.has_ended for key in unit.made}
        keys = made | self._paths.keys()
        keys = keys if self._wanted[-1].key in keys else set[str]()
        return frozenset(w.kernel.name for w in self._wanted if w.kernel and w.key not in keys)

    def so_far(self) -> Libraries | None:
        """Return the libraries that are there, if the pool is; raise an error of the compiler."""
        for unit in [unit for unit in self._units if unit.has_ended]:
            unit.tell()
            if unit.error is not None:
                raise unit.error.with_traceback(None)
            self._paths |= unit.made
            self._units.remove(unit)
        found = [(want, self._paths.get(want.key)) for want in self._wanted]
        own = {w.kernel.name: KernelLibrary(p, *w.exports) for w, p in found if w.kernel and p}
        pool = found[-1][1]
        return None if pool is None else Libraries(own, pool)

    def whole(self) -> Libraries:
        """Return all libraries, once they are there."""
        for unit in self._units:
            unit.wait()
        libraries = self.so_far()
        if libraries is None or self.awaited:
            raise DeviceError("compile: the compilers were ended", hint="compile it again")
        return libraries


def _wanted(kernel: Kernel | None, compiler: Compiler) -> _Missing:
    """Return what a library must have for a kernel, or for the pool."""
    source = pool_source() if kernel is None else nameless_source(kernel)
    admit(source)
    key = library_key(source, compiler)
    return _Missing(kernel, key, encoded(source), POOL if kernel is None else (f"lab_{key}",))


def _library_of(want: _Missing, cache: Cache) -> Path | None:
    return cached_library(cache, want.key, want.source, want.exports)


def _units(missing: Sequence[_Missing]) -> list[list[_Missing]]:
    """Return what is compiled together, the longest unit first."""
    kernels = sorted((one for one in missing if one.kernel), key=lambda one: -one.weight)
    count = sum(one.weight for one in kernels) // WORTH
    count = min(len(kernels), max(1, count), TURNS * usable_cores())
    units: list[list[_Missing]] = [[] for _ in range(count)]
    weights = [0] * count
    for one in kernels:
        least = weights.index(min(weights))
        units[least].append(one)
        weights[least] += one.weight
    order = sorted(range(count), key=lambda number: -weights[number])
    return [units[number] for number in order] + [[one] for one in missing if not one.kernel]

"""A program's kernels in libraries: cached one by one, and the missing ones compiled together.

    mul      cached in lib-1f…
    softmax  missing    unit 1    softmax and sum in one library, cached as lib-8a… and lib-c0…
    matmul   missing    unit 2    matmul in another, which a second compiler makes meanwhile
    sum      missing    unit 1

A kernel is cached under its C without its name, so that any program finds it. To start a compiler
takes longer than to compile a small kernel; so a unit has several of them, and its library is the
entry of each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

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
from luminal_lab.kernels.kernel import Kernel
from luminal_lab.kernels.render.c.program import (
    POOL,
    nameless_source,
    pool_source,
    unit_source,
)
from luminal_lab.machines.here import usable_cores
from luminal_lab.trust import admit

WORTH: Final = 4_000
"""The characters of C that are worth another compiler, which takes a moment to start."""
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


def libraries_of(
    kernels: Sequence[Kernel], compiler: Compiler, behind: Behind | None = None
) -> Libraries:
    """Return the libraries that have these kernels, and the pool; missing ones are compiled."""
    cache = Cache()
    paths: list[Path | None] = []
    wanted: list[_Missing] = []
    for kernel in (*kernels, None):
        source = pool_source() if kernel is None else nameless_source(kernel)
        admit(source)
        key = library_key(source, compiler)
        exports = POOL if kernel is None else (f"lab_{key}",)
        wanted.append(_Missing(kernel, key, encoded(source), exports))
        paths.append(cached_library(cache, key, wanted[-1].source, exports))
    pairs = zip(wanted, paths, strict=True)
    units = _units([*{want.key: want for want, path in pairs if path is None}.values()])
    made: dict[str, Path] = {}
    if units:
        sources = [_source(unit) for unit in units]
        built = build_all(sources, compiler, at_once=usable_cores(), behind=behind)
        for unit, library in zip(units, built, strict=True):
            same: Path | None = None
            for part in unit:
                given = part.key, part.source, library, compiler.version
                same = cache.store(*given, check_of(compiler, part.exports), same)
                made[part.key] = same
    found = [path or made[want.key] for want, path in zip(wanted, paths, strict=True)]
    pairs = zip(wanted, found, strict=True)
    own = {w.kernel.name: KernelLibrary(path, *w.exports) for w, path in pairs if w.kernel}
    return Libraries(own, found[-1])


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


def _source(unit: Sequence[_Missing]) -> str:
    exports = {part.exports[0]: part.kernel for part in unit if part.kernel is not None}
    return unit_source(exports) if exports else pool_source()

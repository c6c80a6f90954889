"""The CPU's peak rates, measured in about a second and kept: FMA, and bytes from caches and memory.

A short C program goes through registers, or through memory, with the requested number of threads;
the best of several samples counts, since other programs can only slow it down. Without a compiler
NumPy does something similar, and the result says that it is an estimate.
"""

from __future__ import annotations

import ctypes
import os
import platform
import re
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from itertools import product
from pathlib import Path
from statistics import median
from time import monotonic, perf_counter
from typing import Final, Literal, NamedTuple

import numpy as np

from luminal_lab.core.dtypes import Array
from luminal_lab.core.origin import here
from luminal_lab.devices.build.cache import Cache, key_of, write_whole
from luminal_lab.devices.build.toolchain import (
    Compiler,
    compile_library,
    find_compiler,
    function_of,
    load,
    machine,
)
from luminal_lab.errors import ArgumentError, DeviceError, RecordingError
from luminal_lab.interrupts import held
from luminal_lab.machines.here import this_machine, usable_cores
from luminal_lab.machines.load import Load, load_text
from luminal_lab.machines.rates import PeakRates, Rate
from luminal_lab.progress import progress
from luminal_lab.reading import read_plain
from luminal_lab.tensor.arguments import told_class

told_class(PeakRates)  # `machines/` is below what tells of wrong calls

METHOD = 4
"""The version of the method, raised whenever it changes, so that rates are measured again."""
SMALL = 128 << 10, 1 << 20
"""The working sets of each thread that are in its own caches or close to them."""
LEAST, MOST = 192 << 20, 1 << 30
"""Bytes for what is beyond all caches: four times the last one, within these limits."""
LEAST_ROUNDS = 2
BUDGET = 0.8
"""The seconds for sampling all rates, in at least a few rounds."""
PATIENCE = 60.0
"""The seconds for which rates stand after they were measured again in vain."""
_TRIED: dict[str, float] = {}
"""When rates were last measured in this process, by the name of their file."""
SHORTEST = 2e-3
"""The least seconds of a sample, so that its start does not count."""

ALIGNED = 1024
"""The unit by which parts are cut, so that each begins and ends where vectors do."""

SOURCE = Path(__file__).with_name("probe.c").read_text("utf-8")
Move = Callable[[Array, Array, int], None]
"""Reads its first array, or copies it into the second, a number of times."""
Work = Callable[[int, int], object]
"""Does the work of the thread with a given number, a number of times."""


def peak_rates(
    threads: int | None = None, *, fresh: bool = False, folder: str | Path | None = None
) -> PeakRates:
    """Return this machine's peak rates, with one thread and with all of them.

    They are measured when first requested, and then kept on disk; `fresh=True` measures again, and
    so does the first request on a quiet machine after a measurement under load.

    >>> import luminal_lab as ll
    >>> rates = ll.devices.peak_rates()
    >>> rates.gflops() > 0, rates.gbytes() > 0
    (True, True)
    """
    count = usable_cores() if threads is None else threads
    if count < 1:
        raise ArgumentError(
            f"peak_rates: threads is {threads}",
            where=str(here() or "") or None,
            hint="give 1 or more, or leave it out",
        )
    compiler = _compiler()
    cache, name = Cache(folder), _entry(count, compiler)
    before = _kept(cache, name)
    if before is not None and not fresh and not _is_worth_another_try(before, name):
        return before
    rates = _measured(count, compiler, folder)
    _TRIED[name] = monotonic()
    if before is not None:
        rates = rates.or_better(before)
    for folder_ in cache.folders:
        with suppress(OSError):
            write_whole(folder_ / name, rates.to_json())
            break
    return rates


def better_rates(known: PeakRates) -> PeakRates:
    """Measure again the rates just exceeded; at most once in a while, and never for the worse."""
    if known.how != "measured":
        return known
    name = _entry(known.threads, _compiler())
    if monotonic() - _TRIED.get(name, float("-inf")) < PATIENCE:
        return known
    return peak_rates(known.threads, fresh=True)


def _is_worth_another_try(rates: PeakRates, name: str) -> bool:
    """Return whether rates were measured under load, and the machine is quiet now."""
    if not rates.is_doubtful or monotonic() - _TRIED.get(name, float("-inf")) < PATIENCE:
        return False
    _TRIED[name] = monotonic()
    with Load() as load:
        pass
    return not load_text(load.others)


def known_rates(
    threads: int | None = None, *, folder: str | Path | None = None
) -> PeakRates | None:
    """Return the rates that were measured here before; None if nobody has asked for them yet."""
    return _kept(Cache(folder), _entry(threads or usable_cores(), _compiler()))


def _compiler() -> Compiler | None:
    try:
        return find_compiler()
    except DeviceError:
        return None


def _entry(count: int, compiler: Compiler | None) -> str:
    """Return the name of the file that keeps the rates."""
    by = "NumPy" if compiler is None else compiler.version
    return f"rates-{key_of(SOURCE, machine(), by, str(count), str(METHOD))}.json"


def _kept(cache: Cache, name: str) -> PeakRates | None:
    """Return the rates that were measured before, if they can be read."""
    for folder in cache.folders:
        with suppress(OSError, UnicodeDecodeError, RecordingError):
            return PeakRates.from_json(read_plain(folder / name).decode("utf-8"))
    return None


def cpu_name() -> str:
    """Return the maker's name for this machine's processor."""
    line = re.search(r"^model name\s*:\s*(.+)", machine(), re.MULTILINE)
    # A Mac gives its name first, and then its features.
    mac_name = machine().splitlines()[3] if sys.platform == "darwin" else ""
    named = line[1] if line else mac_name
    return named.strip() or platform.processor() or platform.machine()


class _Question(NamedTuple):
    """A requested rate, and the ways to work at it, each with the amount of one repetition."""

    rate: Rate
    ways: list[tuple[Work, float]]


def _measured(count: int, compiler: Compiler | None, folder: str | Path | None) -> PeakRates:
    probe = None if compiler is None else _Probe(compiler, folder)
    counts = sorted({1, count})
    questions: list[_Question] = []
    for dtype, threads in product(("float32", "float64"), counts if probe else [count]):
        way = _matmul(dtype) if probe is None else probe.fma(dtype, threads)
        questions.append(_Question(Rate("fma", threads, 0.0, dtype=dtype), [way]))
    cache = this_machine().l3
    memory = _aligned(min(max(4 * cache, LEAST), MOST))
    for threads in counts:
        sizes = [size * threads for size in SMALL]
        sizes += [size for size in (cache * 3 // 4, memory.nbytes) if size > sizes[-1]]
        for size, what in product(sizes, ("read", "copy")):
            moves = _numpy_moves(what) if probe is None else probe.moves(what)
            ways = [_through(move, what, memory[: size // 8], threads) for move in moves]
            questions.append(_Question(Rate(what, threads, 0.0, size=size), ways))
    with Load() as load:
        rates = _answers(questions, alone=probe is None)
    date = datetime.now(UTC).isoformat(timespec="seconds")
    dated = tuple(replace(rate, busy=load.others, date=date) for rate in rates)
    how = "estimated" if probe is None else "measured"
    by = "NumPy, for there is no C compiler" if compiler is None else compiler.version
    return PeakRates(cpu_name(), count, dated, how, by, date)


def _answers(questions: list[_Question], *, alone: bool) -> tuple[Rate, ...]:
    """Return the rates. All are sampled in turn, so that a short disturbance spoils none."""
    start = perf_counter()
    samples: list[list[float]] = [[] for _ in questions]
    often: dict[tuple[int, int], int] = {}
    rounds = 0
    with progress("this machine's rates", BUDGET, "s") as bar:
        while rounds < LEAST_ROUNDS or perf_counter() - start < BUDGET:
            for number, (rate, ways) in enumerate(questions):
                # NumPy's matmul brings threads of its own.
                threads = 1 if alone and rate.what == "fma" else rate.threads
                for way, (work, amount) in enumerate(ways):
                    key = number, way
                    if key not in often:
                        often[key] = _calibrated(work)
                    seconds = _together(work, threads, often[key])
                    samples[number].append(amount * often[key] / seconds / 1e9)
                    if seconds < SHORTEST / 2:  # what held it up before is over
                        often[key] *= 2
                bar.reach(round(min(perf_counter() - start, BUDGET), 1))
            rounds += 1
    rates: list[Rate] = []
    for (rate, _), measured in zip(questions, samples, strict=True):
        best = max(measured)
        spread = round(1 - median(measured) / best, 4)
        rates.append(replace(rate, best=best, samples=tuple(measured), spread=spread))
    return tuple(rates)


def _through(
    move: Move, what: Literal["read", "copy"], data: Array, threads: int
) -> tuple[Work, float]:
    """Return how threads go through an array, each through its part, and the bytes of that."""
    share = data.size // threads // ALIGNED * ALIGNED
    parts = [data[k * share : (k + 1) * share] for k in range(threads)]
    # A copy's working set is what it reads plus what it writes.
    halves = [(part[: share // 2], part[share // 2 :]) for part in parts]
    pairs = [(part, part) for part in parts] if what == "read" else halves

    def work(thread: int, times: int) -> None:
        source, target = pairs[thread]
        move(source, target, times)

    return work, 8 * share * threads


def reader(data: Array, threads: int) -> Callable[[], float]:
    """Return what reads an array with so many threads, and returns the seconds.

    >>> import numpy as np
    >>> from luminal_lab.devices.facts.probe import reader
    >>> reader(np.zeros(1 << 16), 1)() > 0
    True
    """
    probe = _compiler()
    moves = _numpy_moves("read") if probe is None else _Probe(probe, None).moves("read")
    whole = data.reshape(-1).view(np.uint8)
    words = whole[: whole.size // (8 * ALIGNED * threads) * (8 * ALIGNED * threads)]
    work, _ = _through(moves[0], "read", words.view(np.float64), threads)
    return lambda: _together(work, threads, 1)


def _aligned(size: int) -> Array:
    """Return memory aligned for vectors; it is written once, so that it really exists."""
    whole = np.ones(size // 8 + ALIGNED)
    start = -whole.ctypes.data // 8 % ALIGNED
    return whole[start : start + size // 8]


def _calibrated(work: Work) -> int:
    """Return how often one thread does some work in a sample; the faster of two tries counts."""
    times = 1
    while True:
        seconds = min(_together(work, 1, times) for _ in range(2))
        if seconds >= SHORTEST:
            return times
        times *= 2 if seconds > SHORTEST / 4 else 8


def _together(work: Work, threads: int, times: int) -> float:
    """Return the seconds from the start of the first thread to the end of the last."""
    if threads == 1:
        start = perf_counter()
        work(0, times)
        return perf_counter() - start
    spans: list[tuple[float, float]] = []
    barrier = threading.Barrier(threads)
    cores = _cores()

    def run_share(thread: int) -> None:
        # Systems that pack threads onto one core would make them share it for most of a sample.
        if threads <= len(cores):
            os.sched_setaffinity(0, {cores[thread]})
        barrier.wait()
        start = perf_counter()
        work(thread, times)
        spans.append((start, perf_counter()))

    others = [threading.Thread(target=run_share, args=(k,)) for k in range(1, threads)]
    # It is over soon; until then the others wait for this thread, which runs where it was sent.
    with held():
        for thread in others:
            thread.start()
        try:
            run_share(0)
        finally:
            if threads <= len(cores):
                os.sched_setaffinity(0, cores)
        for thread in others:
            thread.join()
    return max(end for _, end in spans) - min(start for start, _ in spans)


def _cores() -> list[int]:
    """Return the cores that threads can be sent to, if the system allows that."""
    return sorted(os.sched_getaffinity(0)) if sys.platform == "linux" else []


class _Probe:
    """The C program, loaded; its functions are called without Python's lock."""

    def __init__(self, compiler: Compiler, folder: str | Path | None) -> None:
        names = ["fma_f32", "fma_f64", "read_all", "copy_words", "copy_bytes"]
        path = compile_library(SOURCE, compiler, entries=names, folder=folder)
        self.library: Final = load(path, *names)

    def fma(self, dtype: str, threads: int) -> tuple[Work, float]:
        """Return how threads multiply and add, and the operations of one repetition."""
        name = "fma_f32" if dtype == "float32" else "fma_f64"
        long, pointer = ctypes.c_long, ctypes.c_void_p
        function = function_of(self.library, name, long, long, ctypes.c_double, pointer)
        sinks = (ctypes.c_double * (8 * threads))()  # each in a cache line of its own

        def work(thread: int, times: int) -> int:
            return function(times * 1000, 0.5, ctypes.addressof(sinks) + 64 * thread)

        return work, 1000.0 * work(0, 0) * threads

    def moves(self, what: Literal["read", "copy"]) -> list[Move]:
        names = ["read_all"] if what == "read" else ["copy_words", "copy_bytes"]
        return [self._move(name) for name in names]

    def _move(self, name: str) -> Move:
        pointer, counts = ctypes.c_void_p, (ctypes.c_longlong, ctypes.c_long)
        function = function_of(self.library, name, None, pointer, pointer, *counts, pointer)

        def move(source: Array, target: Array, times: int) -> None:
            sink = ctypes.c_double(0)
            where = source.ctypes.data, target.ctypes.data
            function(*where, source.nbytes, times, ctypes.byref(sink))

        return move


# -- without a compiler ----------------------------------------------------------------------------


def _matmul(dtype: str) -> tuple[Work, float]:
    """Return NumPy's matmul, which uses as many threads as it likes, and its operations."""
    a = np.ones((512, 512), dtype)

    def work(_: int, times: int) -> None:
        for _ in range(times):
            np.matmul(a, a)

    return work, 2.0 * 512**3


def _numpy_moves(what: Literal["read", "copy"]) -> list[Move]:
    def move(source: Array, target: Array, times: int) -> None:
        for _ in range(times):
            source.max() if what == "read" else np.copyto(target, source)

    return [move]

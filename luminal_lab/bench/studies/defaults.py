"""Find the default numbers for plans on this machine, and write them into the table.

    python -m luminal_lab.bench.studies.defaults [products] [transposed] …  [--seconds 15]
        [--shape products:17x1000x999] [--again] [--table FILE]

Shapes are grouped in classes: sizes between two powers of four. Values for the open numbers of a
plan are tried at all shapes of a class, for some seconds a shape. The best are then timed for long,
in turns with the plan's own numbers, which stay unless others take at most 0.98 of the time at
every shape, twice. If no numbers win the whole class, its parts get rows of their own.

The table is written after each class. Classes already in it are skipped, unless `--again` is given:
after Ctrl-C the same command continues.
"""
# pyright: basic

import argparse
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from itertools import groupby
from math import exp, inf, log
from pathlib import Path
from random import Random
from statistics import median
from time import monotonic, sleep
from typing import Any

import luminal_lab as ll
from luminal_lab.kernels.definition.definition import Definition
from luminal_lab.kernels.nest.shape import shape_of
from luminal_lab.kernels.plans.cpu import cpu_schedule
from luminal_lab.machines.defaults import (
    NONE,
    TABLE,
    Defaults,
    DefaultsRow,
    Kind,
    Range,
    Shape,
    read_defaults,
)
from luminal_lab.machines.here import this_machine
from luminal_lab.machines.load import Load
from luminal_lab.passes.pipeline import Pipeline
from luminal_lab.search.draws import Loops, ScheduleDraft, pick, values_of
from luminal_lab.search.driver import BATCH, GAIN, Answer, Batch, Outcome, noise_of
from luminal_lab.search.loops import KernelSearch, begun
from luminal_lab.search.target import program_of
from luminal_lab.search.worker import answer_of
from luminal_lab.writing import write_bytes

Sizes = tuple[int, int, int]
"""Rows, sum and columns."""
SPELLINGS: Mapping[str, Callable[[Any], Any]] = {
    "products": lambda of: of("a n k") @ of("b k m"),
    "transposed": lambda of: of("a n k") @ of("b m k").T,
    "gradients": lambda of: of("a k n").T @ of("b k m"),
    "batches": lambda of: of("a 12 n k") @ of("b 12 k m"),
    "attentions": lambda of: of("q 12 n k").scaled_dot_product_attention(
        of("k 12 m k"), of("v 12 m k")
    ),
    "columns": lambda of: of("a k m").sum(0),
    "rows": lambda of: of("a n k").softmax(-1),
    "elements": lambda of: of("a n m").gelu("tanh"),
}
"""What is computed, by name, from tensors given by a name and a shape."""
SHAPES: Mapping[str, tuple[Sizes, ...]] = {
    "products": (
        *((100, 100, 100), (256, 256, 256), (70, 200, 130)),
        *((512, 512, 512), (1024, 1024, 1024), (300, 700, 900)),
        *((17, 1000, 999), (64, 768, 768), (32, 512, 512)),
        *((64, 768, 3072), (24, 1000, 2000)),
        *((4096, 64, 64), (1500, 40, 50)),
        *((64, 2048, 512), (20, 3072, 768)),
        *((1, 4096, 11008), (1, 2000, 5000)),
        *((8, 4096, 4096), (16, 2048, 1500), (5, 1100, 4000)),
        *((128, 768, 3072), (200, 300, 2000)),
        *((128, 3072, 768), (256, 2000, 300)),
        *((512, 768, 3072), (1000, 512, 2048)),
        *((3, 50, 70000), (4, 64, 100000)),
        *((333, 777, 55), (512, 512, 64)),
    ),
    "transposed": ((256, 256, 256), (100, 100, 100), (512, 512, 512), (1000, 700, 900)),
    "gradients": ((512, 512, 512), (768, 300, 768)),
    "batches": ((128, 64, 128), (200, 128, 100), (512, 64, 512), (300, 50, 700)),
    "attentions": ((512, 64, 512), (300, 64, 700), (2048, 64, 2048)),
    "columns": ((1, 4096, 4096), (1, 2000, 1500)),
    "rows": ((4096, 1024, 1), (2000, 700, 1)),
    "elements": ((4096, 1, 4096), (2000, 1, 3000)),
}
"""The shapes searched for unless others are requested."""
BASES = 4, 2
"""The sizes of a class lie between two powers of the first; those of its parts, of the second."""
FINALISTS = 4
"""How many numbers are timed for long."""
PARENTS, EDITED = 6, 0.7
"""How many of the best numbers are edited to make others, and the share of edits."""
TRIES = 200
"""How often to try to make new numbers before concluding that there are none."""
WORSE = 1.25
"""Numbers this many times as slow as the plan's own at one shape are not tried at the next."""
IDLE = 0.5
"""The seconds for which the load of the machine is observed."""
Numbers = tuple[tuple[str, int], ...]


class OpenNumbers(Loops):
    """The schedules that a plan makes by its open numbers alone, which a table can hold."""

    def of(self, numbers: Numbers) -> ScheduleDraft | None:
        """Return the schedule for some numbers, the plan's own for the rest; None if refused."""
        scheduling = self._planned(dict(numbers))
        return scheduling and ScheduleDraft(str(scheduling.schedule), numbers, "asked")


@dataclass
class Tried:
    """A shape of a class, and the times of numbers there as shares of the plan's own time."""

    sizes: Sizes
    shape: Shape
    search: KernelSearch
    loops: OpenNumbers
    ratios: dict[Numbers, float] = field(default_factory=dict)
    noise: float = 0.0

    @property
    def title(self) -> str:
        """Its sizes in words."""
        return " × ".join(map(str, self.sizes))

    def time(self, candidates: Iterable[Numbers], *, is_last: bool = False) -> None:
        """Time numbers in turns with the plan's own; the last ones for long."""
        drafts = {numbers: draft for numbers in candidates if (draft := self.loops.of(numbers))}
        batch = Batch(0, tuple(drafts.values()), min(self.ratios.values(), default=0.0), is_last)
        answer: Answer = answer_of(self.search.worker(self.search.job(batch)))
        if is_last:
            self.noise = max(self.noise, noise_of(answer.reference.samples))
        for numbers, outcome in zip(drafts, answer.outcomes, strict=True):
            self.ratios[numbers] = ratio(answer.reference, outcome, paired=is_last)


def ratio(reference: Outcome, outcome: Outcome, *, paired: bool) -> float:
    """Return a time as a share of the reference's: of least times, or of pairs if that is more."""
    if outcome.state == "failed" or not outcome.samples or not reference.samples:
        return inf
    least = min(outcome.samples) / min(reference.samples)
    if not paired:
        return least
    pairs = zip(outcome.samples, reference.samples, strict=True)
    return max(least, median(a / b for a, b in pairs))


def definition_of(name: str, sizes: Sizes) -> Definition:
    """Return the definition of a kernel that users get for some sizes."""
    cx, numbers = ll.Graph("defaults"), dict(zip("nkm", sizes, strict=True))

    def tensor(text: str) -> Any:
        name, *axes = text.split()
        return cx.tensor(tuple(numbers.get(axis) or int(axis) for axis in axes), name=name)

    SPELLINGS[name](tensor).retrieve()
    device = ll.CPUCompiler()
    passes = Pipeline(device.passes, rounds=device.rounds)  # without its own end, which compiles C
    ir = ll.compile_ir(cx.ir, ll.GenericCompiler(), passes).ir
    (kernel,) = program_of(device, ir).list.kernels.values()
    assert kernel.definition is not None, "only C of the user's has none"
    return kernel.definition


def begin(name: str, sizes: Sizes) -> Tried | None:
    """Return a shape that is not searched yet; None if its plan leaves nothing open."""
    plan = partial(cpu_schedule, defaults=NONE)
    search = begun(definition_of(name, sizes), plan=plan)
    ((known,),) = search.driver.draws.forms
    loops, shape = OpenNumbers(known.nest, this_machine(), plan), shape_of(known.nest)
    return Tried(sizes, shape, search, loops) if shape and loops.open else None


def cell(shape: Shape, base: int) -> tuple[Range, Range, Range]:
    """Return the sizes between powers of a base, around a shape.

    >>> cell(Shape("product", 1, 64, 65), 4)
    ((1, 1), (17, 64), (65, 256))
    """

    def around(size: int) -> Range:
        power = 1
        while power < size:
            power *= base
        return power // base + 1 if power > 1 else 1, power

    return around(shape.rows), around(shape.sum), around(shape.columns)


def classes(tried: Iterable[Tried], base: int) -> Iterator[list[Tried]]:
    """Yield the shapes of each class."""

    def key(case: Tried) -> Any:
        return case.shape.nest, cell(case.shape, base)

    for _, group in groupby(sorted(tried, key=key), key):
        yield [*group]


def gain(numbers: Numbers, tried: Iterable[Tried]) -> float:
    """Return the share of the time that numbers take, as a geometric mean over some shapes."""
    logs = [log(case.ratios.get(numbers, inf)) for case in tried]
    return exp(sum(logs) / len(logs))


class Exploration:
    """The numbers tried for a class: winners elsewhere, random ones, and edits of the best."""

    def __init__(self, tried: list[Tried], winners: Iterable[Mapping[str, int]] = ()) -> None:
        self.tried, self.random = tried, Random(0)
        opens = [{taken.choice.name: values_of(taken) for taken in c.loops.open} for c in tried]
        self.values = {
            name: values
            for name, values in opens[0].items()
            if all(name in other for other in opens)
        }
        self.first = list(dict.fromkeys(map(self._numbers, winners)))
        self.known: set[Numbers] = {()}
        self.good: list[Numbers] = []

    def run(self, seconds: float) -> None:
        """Try numbers for some seconds, or until there are no new ones."""
        end = monotonic() + seconds
        while monotonic() < end and (new := self._new()):
            for case in self.tried:
                case.time(new)
                new = [numbers for numbers in new if case.ratios.get(numbers, inf) < WORSE]
            self.good = sorted([*self.good, *new], key=partial(gain, tried=self.tried))[:PARENTS]

    def _new(self) -> list[Numbers]:
        new: list[Numbers] = []
        for _ in range(TRIES if self.values else 0):
            numbers = self.first.pop() if self.first else self._next()
            if numbers not in self.known and all(case.loops.of(numbers) for case in self.tried):
                new.append(numbers)
            self.known.add(numbers)
            if len(new) == BATCH:
                break
        return new

    def _next(self) -> Numbers:
        return self._edited() if self.random.random() < EDITED else self._drawn()

    def _drawn(self) -> Numbers:
        # None leaves a number to the plan.
        some = {name: (None,) * len(by) + by for name, by in self.values.items()}
        return self._numbers({name: pick(self.random, by) for name, by in some.items()})

    def _edited(self) -> Numbers:
        name = pick(self.random, [*self.values])
        value = pick(self.random, (None, *self.values[name]))
        return self._numbers({**dict(pick(self.random, self.good or [()])), name: value})

    def _numbers(self, numbers: Mapping[str, int | None]) -> Numbers:
        return tuple((name, by) for name in self.values if (by := numbers.get(name)) is not None)


def settled(tried: list[Tried], bases: tuple[int, ...] = BASES) -> list[DefaultsRow]:
    """Return the rows of a class: what wins all of it, or else what wins its parts."""
    candidates = [n for n in tried[0].ratios if gain(n, tried) < 1]
    candidates = sorted(candidates, key=partial(gain, tried=tried))[:FINALISTS]
    for _ in range(2):  # luck in the first round does not last through the second
        for case in tried if candidates else ():
            case.time(candidates, is_last=True)
        good = [n for n in candidates if max(case.ratios[n] for case in tried) <= 1 - GAIN]
        candidates = sorted(good, key=partial(gain, tried=tried))[:1]
    row = DefaultsRow(
        tried[0].shape.nest,
        *cell(tried[0].shape, bases[0]),
        {},
        spread=round(max(case.noise for case in tried), 3),
        tried=tuple(case.title for case in tried),
        date=datetime.now(UTC).date().isoformat(),
    )
    for numbers in candidates:
        ratios = [case.ratios[numbers] for case in tried]
        print(f"  {dict(numbers)}: {', '.join(f'{share:.3f}' for share in ratios)}", flush=True)
        gains = {"ratio": round(max(ratios), 3), "mean": round(gain(numbers, tried), 3)}
        return [replace(row, choices=dict(numbers), **gains)]
    if len(tried) == 1 or not bases[1:]:
        print(f"  the plan's own numbers stay for {', '.join(case.title for case in tried)}")
        return [row]
    parts = [settled(part, bases[1:]) for part in classes(tried, bases[1])]
    return [row, *(part for rows in parts for part in rows if part.choices)]


def replaced(table: Defaults, rows: list[DefaultsRow]) -> Defaults:
    """Return a table in which this machine's kind has other rows for the class of the first."""
    kinds = {kind.machine: kind for kind in table.kinds}
    known = kinds.get(this_machine(), Kind(this_machine(), ()))
    whole = rows[0]
    kept = [row for row in known.rows if row.nest != whole.nest or not within(row, whole)]
    ordered = sorted([*kept, *rows], key=lambda row: (row.nest, row.ranges))
    kinds[known.machine] = Kind(known.machine, tuple(ordered))
    return Defaults(tuple(kinds.values()))


def within(row: DefaultsRow, whole: DefaultsRow) -> bool:
    """Return whether a row holds only where another does."""
    pairs = zip(row.ranges, whole.ranges, strict=True)
    return all(low <= a and b <= high for (a, b), (low, high) in pairs)


def has(table: Defaults, case: Tried) -> bool:
    """Return whether a table has a row for the class of a shape, on this very machine."""
    rows = [row for kind in table.kinds if kind.machine == this_machine() for row in kind.rows]
    return any(row.nest == case.shape.nest and row.ranges == cell(case.shape, 4) for row in rows)


def load_now() -> float | None:
    """Return how many cores other programs keep busy while nothing is done here."""
    with Load() as load:
        sleep(IDLE)
    return load.others


def find(asked: Mapping[str, Iterable[Sizes]], seconds: float, path: Path, *, again: bool) -> None:
    """Search class by class, and write the table after each."""
    table = read_defaults(path) if path.exists() else NONE
    shapes = [(name, sizes) for name in asked for sizes in asked[name]]
    tried = [case for name, sizes in shapes if (case := begin(name, sizes)) is not None]
    for group in classes(tried, BASES[0]):
        title = f"{group[0].shape.nest}: {', '.join(case.title for case in group)}"
        if not again and has(table, group[0]):
            print(f"{title}: known")
            continue
        print(title, flush=True)
        start, loads = monotonic(), [load_now()]
        kinds = [kind for kind in table.kinds if kind.machine == this_machine()]
        winners = [row.choices for kind in kinds for row in kind.rows]
        Exploration(group, winners).run(seconds * len(group))
        loads.append(load_now())
        known = [load for load in loads if load is not None]
        load = round(max(known), 2) if known else None
        rows = [replace(row, load=load) for row in settled(group)]
        table = replaced(table, rows)
        write_bytes("defaults", path, str(table).encode())
        print(f"  {monotonic() - start:.0f} s, load {load}", flush=True)


def sizes_of(text: str) -> tuple[str, Sizes]:
    """Read a shape: a name of SPELLINGS, a colon, and rows x sum x columns."""
    name, _, numbers = text.rpartition(":")
    rows, over, columns = (int(number) for number in numbers.split("x"))
    if (name or "products") not in SPELLINGS or min(rows, over, columns) < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a shape")
    return name or "products", (rows, over, columns)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kinds", nargs="*", choices=[[], *SPELLINGS], default=[])
    parser.add_argument("--seconds", type=float, default=15)
    parser.add_argument("--shape", type=sizes_of, action="append", default=[])
    parser.add_argument("--table", type=Path, default=TABLE)
    parser.add_argument("--again", action="store_true")
    given = parser.parse_args()
    asked: dict[str, list[Sizes]] = {}
    for name, sizes in given.shape:
        asked.setdefault(name, []).append(sizes)
    if not asked:
        asked = {name: [*SHAPES[name]] for name in given.kinds or SHAPES}
    print(f"{this_machine().told}; {given.seconds:g} s for each shape; {given.table}", flush=True)
    try:
        find(asked, given.seconds, given.table, again=given.again)
    except KeyboardInterrupt:
        print(f"Ctrl-C: {given.table} has the classes that were finished")


if __name__ == "__main__":
    main()

"""A schedule: the steps from a definition's plain loops to the nest that runs, as data.

    split i by 6
    split j by 16
    reorder i.block, j.block, i.own, j.own
    …

It is written one step a line, can be edited, and applied again; every step is checked, and a
refused step leaves the nest as it was.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal, NamedTuple, TypeAlias, TypeVar, cast

from typing_extensions import override

from luminal_lab.core.dims import Dim, Symbol, symbols
from luminal_lab.core.dims.expression import Quotient
from luminal_lab.core.dtypes import DType
from luminal_lab.core.op import size_of
from luminal_lab.core.printer import unique
from luminal_lab.display import Displayed
from luminal_lab.errors import ParseError, ScheduleError
from luminal_lab.kernels.definition.cost import COSTLY
from luminal_lab.kernels.definition.terms import (
    Apply,
    Count,
    Guarded,
    Read,
    Term,
    free,
    walk as walk_terms,
)
from luminal_lab.kernels.nest.nest import (
    FOLDS,
    Fetch,
    Local,
    Loop,
    Nest,
    Set,
    accesses,
    assignments,
    axes_in,
    every,
    reads_of,
    terms_in,
    walk,
)
from luminal_lab.kernels.nest.sizes import (
    RUN,
    about,
    at_most,
    atoms,
    divides,
    divisors_of,
    groups_of,
    is_plain,
    is_turned,
    iterations,
    names_in,
    perfect,
    stride,
    work_of,
)
from luminal_lab.kernels.steps.ahead import FetchAhead, Stream
from luminal_lab.kernels.steps.arrays import Copy, Hold, Pack, Pad, Share
from luminal_lab.kernels.steps.choices import NO_CHOICES, Choice, Choices, Taken, misfit
from luminal_lab.kernels.steps.kinds import Bind, Clamp, Guard, Round
from luminal_lab.kernels.steps.loops import Cut, Fission, Fuse, Merge, Reorder, Split, together
from luminal_lab.kernels.steps.step import Step, extent, parse_step, read_step, steps
from luminal_lab.kernels.steps.sums import Lanes
from luminal_lab.machines.defaults import NO_USUAL, Usual
from luminal_lab.machines.machine import Machine
from luminal_lab.scanner import Scanner
from luminal_lab.tensor.arguments import told_object

T = TypeVar("T")
MOST_LETTERS = 1 << 20
"""The longest schedule as text: a million characters."""
ELSE = "the plan is for others"
AT_HAND = 128
"""How many cache lines stay in a core's first cache, wherever they lie."""
WRITTEN_OUT = 16
"""The most groups of elements within a larger group that are written out."""
PIECE = 16
"""How many columns of a row are fetched at once."""
NARROW = 32
"""The bytes of vectors that a processor adds up no faster than it fetches them by itself."""
BYTES = 4
"""So many products of bytes are added up at once."""
FEWEST = 2
"""The least number of blocks for which rows are added up in blocks."""


@told_object("schedule")
@dataclass(frozen=True, repr=False)
class Schedule(Displayed):
    """Steps in order."""

    steps: tuple[Step, ...] = ()

    @override
    def __str__(self) -> str:
        return "\n".join(map(str, self.steps))

    @override
    def __repr__(self) -> str:
        return f"<Schedule: {len(self)} step{'s' * (len(self) != 1)}; print(…) shows it>"

    def __iter__(self) -> Iterator[Step]:
        return iter(self.steps)

    def __len__(self) -> int:
        return len(self.steps)

    def apply(self, nest: Nest) -> Nest:
        """Return the nest after all steps."""
        return self.nests(nest)[-1]

    def nests(self, nest: Nest) -> list[Nest]:
        """Return the nest before the first step, and after each."""
        nests = [nest]
        for step in self.steps:
            nests.append(step.applied_to(nests[-1]))
        return nests


def parse_schedule(text: str) -> Schedule:
    """Return the schedule that a text says, one step a line.

    >>> print(parse_schedule("split i by 6\\nparallel i.block"))
    split i by 6
    parallel i.block
    """
    if len(text) > MOST_LETTERS:
        raise ParseError(f"schedule: it has {len(text):,} letters, and may have {MOST_LETTERS:,}")
    scanner, steps = Scanner(text), list[Step]()
    while scanner.pos < len(text):
        steps.append(read_step(scanner))
    return Schedule(tuple(steps))


WIDTH = 80
"""The longest step as text."""


class Handle(str):
    """A loop or a local array of a nest that is being changed; it is usable wherever its name is.

    It stays the same loop wherever later steps move it. Once a step has made other loops of it,
    using it is an error that names that step.
    """

    __slots__ = ("born", "scheduling")

    def __new__(cls, name: str, scheduling: Scheduling) -> Handle:
        """Return the handle of the current loop or array of that name."""
        handle = super().__new__(cls, name)
        handle.scheduling = scheduling
        handle.born = scheduling.nest
        return handle

    scheduling: Scheduling
    born: Nest

    @property
    def loop(self) -> Loop:
        """The loop as it is now."""
        self.scheduling.check(self)
        return self.scheduling.nest.loops[self]

    @property
    def local(self) -> Local:
        """The local array as it is now."""
        self.scheduling.check(self)
        return self.scheduling.nest.locals[self]

    @property
    def size(self) -> Dim:
        """How many iterations the loop has; its last block may have fewer."""
        return self.loop.size

    @property
    def is_whole(self) -> bool:
        """Whether all blocks of the loop have the same number of iterations."""
        return self.size == extent(self.loop.axis)

    @property
    def is_innermost(self) -> bool:
        """Whether the loop contains no other loop."""
        return not axes_in(self.loop.body)

    @property
    def is_plain(self) -> bool:
        """Whether the loop contains only assignments."""
        return is_plain(self.loop)

    @property
    def is_loops(self) -> bool:
        """Whether the loop contains only loops, apart from its local arrays."""
        return all(isinstance(statement, (Local, Loop)) for statement in self.loop.body)

    @property
    def inner(self) -> list[Handle]:
        """The loop, and the loops perfectly nested in it."""
        return [Handle(loop.name, self.scheduling) for loop in perfect(self.loop)]

    @property
    def parts(self) -> list[Handle]:
        """The loops directly in the loop's body."""
        return [
            Handle(loop.name, self.scheduling) for loop in self.loop.body if isinstance(loop, Loop)
        ]


class StepResult(NamedTuple):
    """The new loops of a step, the outermost first, and its new local arrays."""

    loops: tuple[Handle, ...]
    locals: tuple[Handle, ...]


def word_of(plan: Callable[..., object]) -> str:
    """Return the name of a plan in a word."""
    return plan.__name__.strip("_").removesuffix("_plan")


Tried: TypeAlias = Literal["plan", "step"]
"""A plan as a whole, or optional steps of one."""


class PlanRefusal(NamedTuple):
    """What a plan could not do."""

    plan: str
    """In a word."""
    why: str
    kind: Tried = "plan"
    """Whether the plan as a whole was refused, or an optional step of it did not apply."""


class Scheduling:
    """A nest that is being changed, and the steps so far."""

    def __init__(
        self,
        nest: Nest,
        why: str = "",
        asked: Mapping[str, int] = NO_CHOICES,
        usual: Usual = NO_USUAL,
        refused: list[PlanRefusal] | None = None,
        plan: str = "",
    ) -> None:
        self.nests = [nest]
        """The nest before the first step, and after each."""
        self.steps: list[Step] = []
        self.why = why
        """Why a preferred plan did not apply; the kernel's source shows it."""
        self.asked = asked
        """The values asked for, by the names of open numbers."""
        self.usual = usual
        """The values taken unless others are asked for, if a choice has them."""
        self.taken: dict[str, Taken] = {}
        self.plan = plan
        """The plan that is being tried, in a word."""
        self.refused: list[PlanRefusal] = [] if refused is None else refused
        """What plans could not do so far; attempts share the list."""

    @contextmanager
    def by(self, plan: Callable[..., object]) -> Generator[None, None, None]:
        """Name the plan to which refusals inside the block belong."""
        outer, self.plan = self.plan, word_of(plan)
        try:
            yield
        finally:
            self.plan = outer

    def declined(self, why: str, kind: Tried = "plan") -> Literal[False]:
        """Note why a plan does not fit this nest; return False, as the plan then does."""
        self.refused.append(PlanRefusal(self.plan, why, kind))
        return False

    def choose(self, choice: Choice, default: int | None = None) -> int:
        """Return the value of an open number: the one asked for, or the default."""
        usual = choice.values[0] if default is None else default
        known = self.usual.values.get(choice.name, usual)
        usual = known if known in choice.values else usual
        value = self.asked.get(choice.name, usual)
        self.taken[choice.name] = Taken(choice, value, usual)
        if value not in choice.values and value != usual:
            raise ScheduleError(f"{choice.name} cannot be {value}")
        return value

    def options(self, choice: Choice) -> tuple[int, ...]:
        """Return the values to try for an open number, the best first, or the one asked for."""
        asked = self.asked.get(choice.name)
        return choice.values if asked is None else (asked,)

    @property
    def choices(self) -> Choices:
        """The open numbers, and the values taken."""
        return Choices(tuple(self.taken.values()), self.usual.source)

    @property
    def nest(self) -> Nest:
        """The nest as it is now."""
        return self.nests[-1]

    def do(self, step: Step | str) -> StepResult:
        """Apply a step, and return its new loops and arrays."""
        step = parse_step(step) if isinstance(step, str) else step
        for name in step.names:
            self.check(name, step)
        step = step.by_names()
        old, new = self.nest, step.applied_to(self.nest)
        self.nests.append(new)
        self.steps.append(step)
        return StepResult(
            tuple(Handle(name, self) for name in new.loops if name not in old.loops),
            tuple(Handle(name, self) for name in new.locals if name not in old.locals),
        )

    def attempt(self, kind: Tried = "step") -> Attempt:
        """Return a context for `with` that keeps all steps of its block or none of them.

        `kind` says what is attempted: a whole plan, or optional steps of one.
        """
        return Attempt(self, kind)

    def allows(self, *steps: Step) -> bool:
        """Return whether steps could be applied, without applying them."""
        with self.attempt() as attempt:
            for step in steps:
                self.do(step)
        held = attempt.held
        attempt.undo()
        return held

    def attempted(self, *steps: Step) -> bool:
        """Apply all of some steps or none; return whether they were applied."""
        with self.attempt() as attempt:
            for step in steps:
                self.do(step)
        return attempt.held

    def first(self, steps: Callable[[T], object], values: Iterable[T]) -> bool:
        """Take the steps for the first value with which all are allowed; return whether any is."""
        for value in values:
            with self.attempt() as attempt:
                steps(value)
            if attempt.held:
                return True
        return False

    # -- several steps at once ---------------------------------------------------------------------

    def run(self, kind: str, names: Sequence[str], *, where_allowed: bool = False) -> None:
        """Make loops run in one way, either all of them or those that may."""

        own = cast("Callable[..., Step] | None", steps().get(kind))

        def step(*names: str) -> Step:
            return own(names) if own else Bind(names, kind)

        self.for_each(
            step, [name for name in names if not where_allowed or self.allows(step(name))]
        )

    def simd(self, *others: str) -> None:
        """Make innermost loops run as vectors where that is allowed, except for some."""
        plain = [loop for loop in self.loops if loop.loop.kind == "for" and loop not in others]
        self.run("simd", [loop for loop in plain if loop.is_innermost], where_allowed=True)

    def for_each(self, step: Callable[..., Step], names: Sequence[str]) -> None:
        """Apply a step to names, in as few lines as they fit on."""
        line: list[str] = []
        for name in names:
            if line and len(str(step(*line, name))) > WIDTH:
                self.do(step(*line))
                line = []
            line.append(name)
        if line:
            self.do(step(*line))

    def reorder(self, wanted: Sequence[str]) -> None:
        """Bring perfectly nested loops into an order, with the shortest step."""
        first = next(name for name in self.nest.loops if name in wanted)
        now = [loop.name for loop in perfect(self.nest.loops[first])][: len(wanted)]
        same = next((n for n, (a, b) in enumerate(zip(now, wanted, strict=True)) if a != b), None)
        if same is None:
            return
        now, left = now[same:], list(wanted[same:])
        count = next(
            n
            for n in range(len(left))
            if left[n:] == [name for name in now if name not in left[:n]]
        )
        # The outermost loop that moves is named, as the step reaches no further out.
        step = Reorder(tuple(left[: max(count, left.index(now[0]) + 1)]))
        if len(str(step)) <= WIDTH:
            self.do(step)
            return
        for name in reversed(left[:count]):
            now = [loop.name for loop in perfect(self.nest.loops[now[0]])]
            if name != now[0]:
                self.do(Reorder((name, now[0])))
                now[0] = name

    def merge(self, names: Sequence[str]) -> Handle:
        """Merge perfectly nested loops into one."""
        if len(names) == 1:
            return self.loop(names[0])
        into = unique(together(names), self.nest.names)
        step = Merge(tuple(names), "" if into == together(names) else into)
        return self.do(step).loops[0]

    def join(self, names: Sequence[str]) -> Handle:
        """Merge as many loops, from the innermost out, as are contiguous in memory."""
        for first in range(len(names) - 1):
            whole: list[Handle] = []
            with self.attempt() as attempt:
                whole.append(self.merge(names[first:]))
            if attempt.held and not divides(self.nest, whole[0]):
                return whole[0]
            attempt.undo()
        return self.loop(names[-1])

    def share(self, loops: Sequence[Handle]) -> None:
        """Fuse consecutive loops, and then the loops in them, wherever that is allowed."""
        first = None
        for loop in loops:
            if first is None or not self.attempted(Fuse(loop, first)):
                first = loop
                continue
            outer = first
            while outer.is_loops and len(outer.parts) == 2:
                inner, second = outer.parts
                if not self.attempted(Fuse(second, inner)):
                    break
                outer = inner

    def share_rows(self) -> None:
        """Fuse loops so that the elements of a row are read while they are at hand."""
        for first in [loop for loop in self.nest.loops.values() if isinstance(loop.body[0], Set)]:
            if first.name not in self.nest.loops:
                continue  # it has been fused with another
            written = {use.name for use in accesses(first.body) if use.how == "="}
            rows = written & self.nest.locals.keys()
            for second in list(self.nest.loops.values()):
                used = {use.name for use in accesses(second.body) if use.how == "read"}
                if second.name != first.name and rows & used:
                    self.attempted(Fuse(second.name, first.name))

    def groups(self, among: Iterable[str]) -> tuple[Handle, ...]:
        """Split off a loop over groups where an array is read at the same place for a whole group.

        Return the loops over groups and over the members of one; none if no loop is such.
        """
        loops = self.nest.loops
        for access in accesses(self.nest.body):
            flat = 0 if access.index is None else self.nest.flat(access.name, access.index)
            for atom in atoms((flat,)):
                match atom:
                    case Quotient(x=Symbol(name=name), d=int(size)) if (
                        name in among and loops[name].size % size == 0
                    ):
                        return self.do(Split((name,), (size,), ("group", "each"))).loops
                    case _:
                        pass
        return ()

    def digits(self) -> None:
        """Split loops whose axis is only ever divided by a number: 5 by 5 places, say, in a row."""
        for loop in list(self.nest.loops.values()):
            dims = [dim for each in assignments((loop,)) for dim in each.index]
            dims += [dim for part in terms_in((loop,)) for dim in part.places]
            by = {*divisors_of(dims, loop.name)}
            if len(by) == 1 and 1 < min(by) < about(loop.size) and loop.size % min(by) == 0:
                self.do(Split((loop.name,), (*by,), ("group", "each")))

    def repeats(self) -> bool:
        """Split the loops around the last sum along which arrays repeat, as where an image grows.

        Each place in a group has a loop further out, in which no array repeats anything, so that
        its reads lie side by side. Return whether there are such loops.
        """
        path = self.tops[-1].inner if self.tops else []
        path = path if path and path[-1].parts else []
        groups, each = list[Handle](), list[Handle]()
        while parts := self.groups(path):
            groups.append(parts[0])
            each.append(parts[1])
        if each:
            *rest, last = [loop for loop in self.tops[-1].inner if loop not in each]
            outer = [loop for loop in rest if loop in groups]
            self.reorder([*outer, *each, *(loop for loop in rest if loop not in outer), last])
        return bool(each)

    def packed(
        self, term: Term, axes: Sequence[str], path: Sequence[str], into: str, dtype: str = ""
    ) -> list[Handle]:
        """Copy a factor of a sum as far out of some loops as its axes allow.

        Return the outermost loop of the copy if it is outside all of them.
        """
        array, _ = next(iter(reads_of(term)))
        pack = Pack(array, path[-1], tuple(axes), into, dtype)
        known = {*axes, *path, *self.nest.dims}
        sums = [each for each in walk((self.nest.loops[path[-1]],)) if isinstance(each, Set)]
        terms = {part for each in sums for part in pack.read(each.term, known, set())}
        if len(terms) != 1:
            raise ScheduleError(f"{array} is read in several ways")
        needed = {*free(terms.pop())} - {*axes}
        last = max([depth for depth, name in enumerate(path) if name in needed], default=-1)
        loops = self.do(replace(pack, loop=path[last + 1])).loops
        return [loops[0]] if last < 0 else []

    def whole(self, step: type[Round | Clamp], *names: str) -> None:
        """Run loops to the end of their blocks, unless they are known to end there."""
        short = tuple(name for name in names if not self.loop(name).is_whole)
        if short:
            self.do(step(short))

    def computed(self, array: str, loops: tuple[str, str], into: str) -> list[Handle]:
        """Compute costly functions of an array before loops store them, so that they get vectors.

        Return the innermost loop that does so; none if nothing is costly or a step is refused.
        """
        outer, inner = loops
        sets = [each for each in walk((self.nest.loops[outer],)) if isinstance(each, Set)]
        terms = [*walk_terms(*(each.term for each in sets))]
        reads = [term for term in terms if isinstance(term, Read)]
        # What may end within the block is copied first: a guard would keep the loop from being a
        # vector.
        ends = () if self.loop(outer).is_whole else [r for r in reads if inner not in free(r)]
        if any(isinstance(term, Apply) and term.op.cost >= COSTLY for term in terms):
            with self.attempt():
                for name in dict.fromkeys(read.buffer for read in ends if outer in free(read)):
                    own = unique(f"{name}_{into}", self.nest.names)
                    self.do(Pack(name, outer, (outer,), own))
                for name in dict.fromkeys(r.buffer for r in reads if self._is_across(r, *loops)):
                    own = unique(f"{name}_{into}", self.nest.names)
                    across, along = self.do(Copy(name, outer, loops, own)).loops
                    self.reorder([along, across])
                    self.run("simd", [across])
                return [self.do(Pack(array, outer, loops, into)).loops[-1]]
        return []

    def _is_across(self, read: Read, outer: str, inner: str) -> bool:
        """Return whether what an inner loop reads is far apart, and what an outer one reads not."""
        own = read.buffer in self.nest.locals
        far = stride(self.nest, read, inner)
        return not own and stride(self.nest, read, outer) == 1 and far not in (0, 1)

    def turns(self, loop: str, threads: int) -> tuple[Handle, Handle]:
        """Cut a loop into turns of all threads; return the loops over turns and over threads."""
        outer, inner = self.do(Split((loop,), (threads,), ("turn", "thread"))).loops
        if inner.size != threads:
            self.do(Guard(inner, inner))
        return outer, inner

    def bordered(self, path: Sequence[str], folds: set[str], term: Term) -> None:
        """Copy images with their borders, so that no term of a sum over windows asks for it."""
        for part in [part for part in walk_terms(term) if isinstance(part, Guarded)]:
            reads = [*reads_of(part)]
            dims = [names_in(dim) for _, index in reads for dim in index or ()]
            along = set[str]().union(*(names for names in dims if names & folds))
            if at := next((loop for loop in path if loop in along), None):
                self.attempted(Pad(reads[0][0], at, unique("padded", self.nest.names)))

    def side_by_side(self, loop: str, sums: Sequence[Set], choice: Choice) -> Handle:
        """Cut a loop to run several partial sums side by side; return the loop over blocks."""
        block, own, *_ = self.do(Cut(loop, self.choose(choice))).loops
        for addition in sums:
            self.lanes(addition.name, own, block, "lanes")
        return block

    def lanes(
        self, array: str, lane: Handle, outer: Handle, word: str
    ) -> tuple[str, Handle, Handle]:
        """Sum side by side; return the array of sums, and the loops that begin and join them."""
        into = unique(f"{array}_{word}", self.nest.names)
        loops = self.do(Lanes(array, lane, outer, into)).loops
        return into, loops[0], loops[len(loops) // 2]

    def grouped(self, loop: str, sums: str = "", side: int = 0) -> list[Handle]:
        """Cut a loop into groups that share values (scales, say); return the loop in a group.

        They are computed once for each group. Its sums, if any, run side by side, those of several
        groups too, up to a number of elements. Where there are groups within larger ones, those of
        one are written out: what tells them apart (how far bits are shifted, say) is then known to
        the compiler. Sums of products of bytes within it are taken apart from what is made of them.
        """
        terms = [s.term for s in walk((self.nest.loops[loop],)) if isinstance(s, Set)]
        size = self.loop(loop).size
        inside = self.loop(loop).parts
        least = RUN // 2 if inside else RUN
        sizes = [group for group in groups_of(loop, *terms, least=least) if size % group == 0]
        if not sizes:
            return []
        inner = sizes[0]
        outer = max(group for group in sizes if group <= WRITTEN_OUT * inner)
        is_beside = inner < side <= outer and outer % side == 0 == side % inner
        by = sorted({outer, inner, *([side] if is_beside else ())}, reverse=True)
        words = {1: ("group",), 2: ("block", "group"), 3: ("block", "side", "group")}[len(by)]
        first, *groups, own = self.do(Split((loop,), (*by,), (*words, "each"))).loops
        if sums:
            into, *_ = self.lanes(sums, own, first, "lanes")
            if is_beside:
                self.lanes(into, groups[-1], first, "lanes")
        names = [name for term in terms for name, _ in reads_of(term)]
        self.made_once((*(() if sums else (first,)), *groups, own), names)
        is_short = not sums and about(first.size) <= WRITTEN_OUT
        self.run("unroll", groups or [first] * is_short)
        if inside:
            self.do(Fission((own,)))
        return [own]

    def made_once(self, loops: Iterable[Handle], names: Iterable[str]) -> None:
        """Compute before loops what they make of arrays, where it is the same each time."""
        for loop in loops:
            for name in dict.fromkeys(names):
                while self.attempted(Share(name, loop, unique("shared", self.nest.names))):
                    pass

    def unpacked(self) -> None:
        """Compute before innermost loops what they make of bytes, if it is always the same."""
        names = [name for name, type in self.nest.inputs if type.dtype is DType.uint8]
        self.made_once([loop for loop in self.loops if loop.is_innermost], names)

    def written_out(self, loop: Handle, most: int) -> None:
        """Write out the groups of a short loop whose number decides what is computed."""
        terms = [s.term for s in loop.loop.body if isinstance(s, Set) and s.how == "="]
        counts = [part for part in walk_terms(*terms) if isinstance(part, Count)]
        if loop.is_plain and groups_of(loop, *counts) and at_most(loop.size) <= most:
            with self.attempt():
                self.grouped(loop)

    def streamed(self, choice: Choice, machine: Machine) -> None:
        """Fetch ahead what folds read: matrices of products from fewer bytes on than others.

        The processor by itself prefetches rows less far, and hardly if others are read again
        beside them. What lies near comes soon enough. With narrow vectors, numbers of 32 bits and
        more need nothing: the processor then keeps up.
        """
        near, far = machine.l2 // 4, machine.l2 * machine.cores
        keeps_up = machine.vector_bytes <= NARROW
        fetched = {fetch.name for fetch in every(self.nest.body, Fetch)}
        for name, type in self.nest.inputs:
            count = size_of(type.shape)
            size = count * type.dtype.itemsize if isinstance(count, int) else 0
            if size >= near and name not in fetched:
                beside = 1 if size >= far else 2
                is_enough = keeps_up and type.dtype.itemsize >= DType.float32.itemsize
                usual = choice.first(0) if is_enough else choice
                for loop in self.loops:  # the outermost that can
                    ahead = self.choose(usual) if _folds(loop.loop, name, beside) else 0
                    if ahead and self.attempted(Stream(name, loop, ahead)):
                        break

    def at_once(
        self, rows: Handle, choice: Choice, most: int, fetched: Choice, near: int, room: int
    ) -> None:
        """Add several rows to sums of columns at once, which then stay in registers meanwhile.

        Terms may take so much work at most: for others, loads and stores do not matter. If blocks
        of columns cut the rows of an array of at least `near` bytes, the processor has to find the
        beginning of each piece: meanwhile those of the next rows are fetched, if there is room.
        """
        if rows not in self.nest.loops:  # it was cut with the rows around it
            return
        *around, last = rows.inner
        sums = [s for s in last.loop.body if isinstance(s, Set) and s.how in FOLDS]
        own = {s.name: [symbol.name for dim in s.index for symbol in symbols(dim)] for s in sums}
        is_across = all({*axes} & {*rows.inner} == {*around[1:], last} for axes in own.values())
        if not around or rows.loop.kind != "for" or len(sums) != len(last.loop.body):
            return
        blocks = at_most(rows.size) / choice.values[0]
        if not is_across or work_of(last.loop.body) > most or blocks < FEWEST:
            return
        count, between = self.choose(choice), around[1:]
        is_short = between and at_most(iterations(between)) <= WRITTEN_OUT
        if count == 1:
            return
        with self.attempt():
            terms, ahead = count * at_most(iterations(between)), count * at_most(last.size) * BYTES
            is_piece = terms <= PIECE and ahead <= room  # more take longer than what they read
            pieces = self.pieces(rows, last, near) if is_piece else []
            pieces = pieces if pieces and self.choose(fetched) else []
            block, each, *_ = self.do(Cut(rows, count, ("block", "each", "rest"))).loops
            inner = [last, *between] if is_short else [*between, last]
            self.reorder([block, *inner, each])
            piece = last
            if pieces:
                piece, last = self.do(Split((last,), (PIECE,), ("piece", "each"))).loops
            for name in own:
                self.do(Hold(name, each, unique(f"{name}_column", self.nest.names)))
            self.run("unroll", [*(between if is_short else ()), each])
            self.run("simd", [last])
            for name in pieces:
                self.do(FetchAhead(name, piece, 1, block))

    def pieces(self, rows: Handle, column: Handle, near: int) -> list[str]:
        """Return the inputs of so many bytes whose rows a loop over columns reads in part."""
        found: list[str] = []
        for name, type in self.nest.inputs if column.is_whole and column.size % PIECE == 0 else ():
            count = size_of(type.shape)
            if not isinstance(count, int) or count * type.dtype.itemsize < near:
                continue
            indices = {use.index for use in accesses((column.loop,)) if use.name == name}
            reads = [Read(name, index, type.dtype) for index in indices if index]
            for read in reads if len(indices) == 1 else ():
                apart = stride(self.nest, read, rows)
                is_cut = isinstance(apart, int) and at_most(column.size) < apart
                if is_cut and stride(self.nest, read, column) == 1:
                    found.append(name)
        return found

    def turned(self, top: Handle, block: Choice) -> None:
        """Copy a transposed array in blocks, so that a cache line is read while it is at hand."""
        for rows, column in pairwise(top.inner[-2:]):
            if is_turned(self.nest, rows.loop, column.loop, AT_HAND):
                with self.attempt():
                    blocks, *_ = self.do(Split((column,), (self.choose(block),))).loops
                    self.do(Reorder((blocks, rows)))

    # -- the current nest --------------------------------------------------------------------------

    def loop(self, name: str) -> Handle:
        """Return the handle of a loop."""
        return Handle(name, self)

    @property
    def tops(self) -> list[Handle]:
        """The outermost loops."""
        return [Handle(loop.name, self) for loop in self.nest.body if isinstance(loop, Loop)]

    @property
    def loops(self) -> list[Handle]:
        """All loops."""
        return [Handle(name, self) for name in self.nest.loops]

    def check(self, name: str, step: Step | None = None) -> None:
        """Refuse a loop or array that an earlier step has consumed."""
        born = name.born if isinstance(name, Handle) and name.scheduling is self else None
        since = next((at for at, nest in enumerate(self.nests) if nest is born), None)
        if born is None and self.nest.makes(name):
            return
        if since is None and any(loop.partition(".")[0] == name for loop in self.nest.loops):
            return  # an axis, which stands for all its levels
        if born is not None and since is None:
            raise ScheduleError(f"{step or name}: {name} is gone: what made it was taken back")
        if since is None and name in self.nest.names:
            return
        prefix = f"{step}: " if step is not None else ""
        for at in range(len(self.steps) - 1, (since or 0) - 1, -1):
            before, after = self.nests[at : at + 2]
            if before.makes(name) and not after.makes(name):
                raise consumed(prefix, name, self.steps[at], before, after)

    @property
    def schedule(self) -> Schedule:
        """The steps so far, as a schedule."""
        return Schedule(tuple(self.steps))


def _folds(loop: Loop, array: str, least: int) -> bool:
    """Return whether a loop adds up terms that read an array, and so many in all at least."""
    sums = (each for each in walk((loop,)) if isinstance(each, Set) and each.how in FOLDS)
    arrays = ({name for name, _ in reads_of(each.term)} for each in sums)
    return loop.kind == "for" and any(array in names and len(names) >= least for names in arrays)


def consumed(prefix: str, name: str, by: Step, before: Nest, after: Nest) -> ScheduleError:
    """Return the error that names the step that consumed a loop."""
    new_names = [name for name in after.names if name not in before.names]
    hint = f"it made {', '.join(sorted(new_names))}" if new_names else "name it before that step"
    return ScheduleError(f"{prefix}{name} is gone: `{by}` consumed it", hint=hint)


def chosen(
    plan: Callable[[Mapping[str, int]], Scheduling], asked: Mapping[str, int], kernel: str
) -> Scheduling:
    """Return a plan's scheduling of a kernel with the open numbers asked for."""
    if asked:
        plan(NO_CHOICES).choices.check(asked, kernel)
    scheduling = plan(asked)
    if not asked.items() <= scheduling.choices.values.items():
        raise misfit(kernel, asked, scheduling.why or "its plan refuses it")
    return scheduling


class Attempt:
    """Steps that are all kept or all taken back; a ScheduleError ends them and goes no further."""

    def __init__(self, scheduling: Scheduling, kind: Tried) -> None:
        self.scheduling = scheduling
        self.kind: Tried = kind
        self.count = len(scheduling.steps)
        self.taken = {**scheduling.taken}
        self.held = False
        """Whether the steps were kept."""
        self.why = ""
        """Why they were refused."""

    def __enter__(self) -> Attempt:
        """Begin."""
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        """Take the steps back if one was refused."""
        self.held = error is None
        if error is not None:
            self.undo()
        self.why = error.message if isinstance(error, ScheduleError) else ""
        if self.why and self.why != ELSE:
            self.scheduling.declined(self.why, self.kind)
        return isinstance(error, ScheduleError)

    def undo(self) -> None:
        """Take the steps back."""
        self.held = False
        del self.scheduling.steps[self.count :]
        del self.scheduling.nests[self.count + 1 :]
        self.scheduling.taken = {**self.taken}

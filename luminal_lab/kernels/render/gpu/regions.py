"""What the threads of a block do in a region, as source: which threads, where, after which waiting.

thread i < 16:              if (threadIdx.x < 64) {
  thread j < 4:                 const int i = threadIdx.x / 4;
    y[4*i + j] = …      →       const int j = threadIdx.x % 4;
across l < 64:                  y[4*i + j] = …;
  t += part[l]              }
                            t += lab_block_sum_f32(part, lab_shared_f32, 128);
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import partial

from luminal_lab.core.dims import Dim, Symbol
from luminal_lab.core.dtypes import DType
from luminal_lab.kernels.nest.lowering import least
from luminal_lab.kernels.nest.nest import Loop, Set, alone, arrays_written, private
from luminal_lab.kernels.render.code import Declare
from luminal_lab.kernels.render.exact import exact_terms
from luminal_lab.kernels.render.gpu.arrays import ThreadArrays
from luminal_lab.kernels.render.gpu.nest import WARP, Along, ThreadRegion
from luminal_lab.kernels.render.gpu.threads import Threads
from luminal_lab.kernels.render.gpu.waiting import NONE, Touch, Waits, touches
from luminal_lab.kernels.render.index import LESS
from luminal_lab.kernels.render.terms import Text, number_c
from luminal_lab.kernels.render.values import c_type
from luminal_lab.kernels.render.writer import FOLDED


class Regions:
    """Writes what threads do in each region, and what they exchange."""

    def __init__(self, writer: Threads, arrays: ThreadArrays, waits: Waits) -> None:
        self.writer, self.arrays, self.waits = writer, arrays, waits
        self.phase, self.code = arrays.phase, arrays.code
        self.dialect = self.code.dialect
        self.exchanges: dict[str, Declare] = {}
        """The shared memory through which threads exchange values."""
        self.bytes = 0
        """Its size in bytes."""

    # -- what threads do ---------------------------------------------------------------------------

    def region(self, region: ThreadRegion) -> None:
        """Write what each thread does."""
        if region.size == 0:
            return
        self.waits.wait_for(touches(self.phase, region.body, region))
        if region.fold is not None:
            self.exchange(region, region.fold)
            return
        with self.waits.copying():
            self.work(region)

    def work(self, region: ThreadRegion) -> None:
        """Write what each thread does by itself."""
        inside = private(region.body)
        sets = arrays_written(region.body) - inside
        kept = {name for name in sets if self.phase.is_kept(name)}
        guards = self.guards(region)
        if guards and not kept:
            asked = self.code.branch(" && ".join(guards))
            with asked, self.positions(region, is_guarded=True):
                self.writer.statements(region.body)
            return
        self.writer.first = " && ".join(guards) if sets - kept else ""
        with self.positions(region), self.writer.warps.multiplying(region):
            self.writer.statements(region.body)
        self.writer.first = ""

    def guards(self, region: ThreadRegion) -> list[str]:
        """Return the conditions for the first threads, which do the work of a region."""
        guards: list[str] = []
        above = self.phase.threads
        for along in self.digits(region):
            text = self.thread(above)
            if along.end != above or along.room:
                text = text if along.stride == 1 else f"{text} / {along.stride}"
                guards.append(f"{text} < {along.size}")
            above = along.stride
        if above > region.lanes:
            guards.append(f"{self.thread(above)} == 0")
        return guards

    def digits(self, region: ThreadRegion) -> list[Along]:
        """Return the parts of the axes of a region, the slowest first."""
        digits = [along for along in self.phase.places(region).values() if along.size > 1]
        return sorted(digits, key=lambda along: -along.stride)

    def thread(self, below: int) -> str:
        """Return the number of the thread modulo `below`."""
        text = self.dialect.thread
        return text if below == self.phase.threads else f"{text} % {below}"

    def positions(
        self, region: ThreadRegion, *, is_guarded: bool = False
    ) -> AbstractContextManager[None]:
        """Declare the positions of a thread that are mentioned by what is added meanwhile."""
        along_of, digits = self.phase.places(region), self.digits(region)

        def position(loop: Loop) -> str:
            along = along_of[loop.name]
            if along.size == 1:
                return "0"
            text = self.dialect.thread
            text = text if along.stride == 1 else f"{text} / {along.stride}"
            is_last = along == digits[0] and (is_guarded or along.end == self.phase.threads)
            text = text if is_last else f"{text} % {along.room or along.size}"
            return f"{text} % {along.size}" if along.room and not is_guarded else text

        positions = {loop.name: partial(position, loop) for loop in region.loops}
        return self.code.constants("int", positions)

    # -- exchanges ---------------------------------------------------------------------------------

    def exchange(self, region: ThreadRegion, fold: Loop) -> None:
        """Make threads add up their values, so that each has the sum."""
        update = alone(region.body, Set)
        if update is None or update.how == "=":
            raise self.phase.nest.fault(
                f"across {fold.name} does more than adding up", "fission takes it apart"
            )
        if not self.phase.is_kept(update.name):
            raise self.phase.nest.fault(
                f"across {fold.name} adds to {update.name}, which is not in registers",
                f"stage {update.name} in a loop around it",
            )
        dtype = self.arrays.types[update.name].dtype
        near = DType.float32 if dtype.is_half else dtype
        along = self.phase.places(region)[fold.name]
        is_wide = along.stride > 1 or WARP % along.size != 0
        is_alone = along.stride == 1 and all(loop.size == 1 for loop in region.axes)
        with self.positions(region):
            if along.size == 1:
                self.writer.set(update)
            elif is_wide and not is_alone:
                self.by_slots(region, update, along, near)
            else:
                self.by_words(update, along, near, is_wide=is_wide)

    def by_words(self, update: Set, along: Along, near: DType, *, is_wide: bool) -> None:
        """Make the threads of a warp, or of a block, hand each other their values."""
        which = "sum" if update.how == "+=" else "max"
        value, threads = self.value_of(update), self.phase.threads
        # Threads hand each other words: narrower values travel as one.
        word = DType.int32 if near.itemsize < DType.int32.itemsize else near
        has_shuffles = self.dialect.has_shuffles
        count = max(1, threads // WARP) if has_shuffles else threads
        slots = self.slots("shared", word, count) if is_wide or not has_shuffles else ""
        if not is_wide:
            exchanged = self.code.call(f"lab_warp_{which}_{word.short}", value.text, along.size)
        else:
            text = value.text
            if along.size < threads:
                none = number_c(0 if which == "sum" else least(near), word, self.code.uses).text
                text = f"{self.dialect.thread} < {along.size} ? {value.at(LESS)} : {none}"
            given = (text, slots, threads) if has_shuffles else (text, threads)
            exchanged = self.code.call(f"lab_block_{which}_{word.short}", *given)
        self.joined(update, near, exchanged, value.ops)
        if is_wide and threads > WARP:
            self.waits.open = NONE  # all have waited in it

    def by_slots(self, region: ThreadRegion, update: Set, along: Along, near: DType) -> None:
        """Let each thread of a group read what the others have left in shared memory."""
        value = self.value_of(update)
        slots = self.slots("slots", near, self.phase.threads)
        self.waits.wait_for(frozenset([Touch(slots, is_write=True)]))
        self.code.assign(f"{slots}[{self.dialect.thread}]", value.text, ops=value.ops)
        self.waits.wait_for(frozenset([Touch(slots, is_write=False)]))
        along_of, name = self.phase.places(region), self.code.fresh()
        at: Dim = Symbol(name, 0) * along.stride
        for loop in region.axes:
            at = at + Symbol(loop.name, 0) * along_of[loop.name].stride
        with self.code.repeat("int", name, along.size):
            self.joined(update, near, f"{slots}[{self.code.index(at)}]", ())

    def joined(self, update: Set, near: DType, value: str, ops: tuple[str, ...]) -> None:
        """Write how a sum or maximum takes in the threads' values."""
        target, ops = self.arrays.place(update.name, update.index), (*ops, *FOLDED[update.how])
        if update.how == "+=" and near.is_float:
            self.code.assign(target, value, "+=", ops)
        else:
            self.code.assign(target, self.writer.joined(update, near, Text(value)), ops=ops)

    def value_of(self, update: Set) -> Text:
        """Return the value of a statement, rounded if it decides where something jumps."""
        return self.writer.terms.text(update.term, exact_terms(update, self.writer.exact))

    def slots(self, word: str, dtype: DType, count: int) -> str:
        """Return the shared memory through which threads exchange values."""
        name = f"lab_{word}_{dtype.short}"
        self.bytes += 0 if name in self.exchanges else count * dtype.itemsize
        self.exchanges[name] = Declare(c_type(dtype), name, size=count, space="shared")
        return name

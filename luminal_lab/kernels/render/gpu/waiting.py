"""Where the threads of a block wait for each other: before one needs what another did.

    thread l < 64:                        tile[l] = …
      tile[l] = x[i, l]              →    lab_sync();
    thread l_2 < 64:                      y[64*i + l_2] = tile[63 - l_2];
      y[i, l_2] = tile[63 - l_2]

If a thread alone has written what it reads, it needs no waiting. Nor does what is in another slot
of an array with a slot for each of some turns of a loop: s[(k + 1)%2] is not s[k%2].
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Set as AbstractSet
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeAlias

from luminal_lab.core.dims import Dim, Shape, Symbol, substitute, symbols
from luminal_lab.core.dims.expression import Remainder
from luminal_lab.kernels.nest.nest import Access, Statement, accesses, axes_in, private
from luminal_lab.kernels.render.code import Code
from luminal_lab.kernels.render.gpu.nest import NestLaunch, ThreadRegion
from luminal_lab.kernels.steps.step import apart

Mine: TypeAlias = "Shape | None"
"""A thread's own elements, by the parts of its number; None: others may touch them too."""


class Turn(NamedTuple):
    """The slot of an array that is used: that of an iteration, this far behind or ahead."""

    loop: str
    ahead: int
    places: int
    wraps: bool = True
    """Whether later iterations use the same slots again."""

    @property
    def next(self) -> Turn:
        """The same slot for the next iteration."""
        if self.wraps:
            return self._replace(ahead=(self.ahead - 1) % self.places)
        return self._replace(ahead=max(self.ahead - 1, -self.places))

    def is_apart(self, other: Turn) -> bool:
        """Return whether two slots of one array are different."""
        if (self.loop, self.places) != (other.loop, other.places):
            return False
        if self.wraps or other.wraps:
            return (self.ahead - other.ahead) % self.places != 0
        return self.ahead != other.ahead


@dataclass(frozen=True)
class Touch:
    """A read or a write by threads of an array that others see."""

    array: str
    is_write: bool
    mine: Mine = None
    turn: Turn | None = None
    arrives: bool = False
    """Whether it is an asynchronous copy, for which a barrier does not wait."""

    def meets(self, other: Touch) -> bool:
        """Return whether another thread may have to wait between the two."""
        return (
            self.array == other.array
            and (self.is_write or other.is_write)
            and (self.arrives or self.mine is None or self.mine != other.mine)
            and (self.turn is None or other.turn is None or not self.turn.is_apart(other.turn))
        )


Touches: TypeAlias = frozenset[Touch]
NONE: Touches = frozenset()


def meet(before: Touches, after: Touches) -> bool:
    """Return whether threads must wait between earlier and later touches."""
    return any(touch.meets(other) for touch in before for other in after)


def turned(before: Touches, loop: str, *, is_last: bool = False) -> Touches:
    """Return what is open as the next iteration of a loop sees it, or what follows the loop.

    After it, nobody knows which iteration was the last.
    """
    return frozenset(
        replace(touch, turn=None if is_last else touch.turn.next)
        if touch.turn and touch.turn.loop == loop
        else touch
        for touch in before
    )


def turn_of(phase: NestLaunch, use: Access, inside: set[str]) -> Turn | None:
    """Return the slot that is used, among those for the turns of an outer loop, if there is one."""
    if not use.index:
        return None
    first, size = use.index[0], phase.nest.types[use.name].shape[0]
    wraps = isinstance(first, Remainder)
    at, slots = first.arguments if isinstance(first, Remainder) else (first, size)
    used = symbols(at)
    if slots != size or not isinstance(slots, int) or len(used) != 1:
        return None
    (symbol,) = used
    ahead = at - symbol
    if symbol.name in inside or symbol.name not in phase.nest.loops or not isinstance(ahead, int):
        return None
    return Turn(symbol.name, ahead % slots if wraps else ahead, slots, wraps)


def touches(
    phase: NestLaunch, block: Iterable[Statement], region: ThreadRegion | None = None
) -> Touches:
    """Return what a piece, or what each thread of a region, does to arrays that others see."""
    touched: set[Touch] = set()
    block = tuple(block)
    inside, given = private(block), {buffer.name for buffer in phase.nest.inputs}
    own = axes_in(block) | {loop.name for loop in (region.loops if region else ())}
    for use in accesses(block):
        if use.name in inside or use.name in given or phase.is_kept(use.name):
            continue
        mine = None if region is None else _mine(phase, region, use)
        turn = turn_of(phase, use, own)
        touched.add(Touch(use.name, use.how != "read", mine, turn))
        if use.how in ("+=", "max="):
            touched.add(Touch(use.name, False, mine, turn))
    return frozenset(touched)


def _mine(phase: NestLaunch, region: ThreadRegion, use: Access) -> Mine:
    """Return the indices of a use, if different threads have different ones."""
    if use.index is None or region.fold is not None or region.lanes > 1:
        return None
    fixed = {loop.name for loop in phase.blocks}
    own = axes_in(region.body)
    along_of = phase.places(region)
    names: dict[str, Dim] = {}
    for symbol in (symbol for dim in use.index for symbol in symbols(dim)):
        if symbol.name in along_of:
            along = along_of[symbol.name]
            names[symbol.name] = Symbol(f"thread{along.stride}", 0, max(0, along.size - 1))
        elif symbol.name in own:
            names.setdefault(symbol.name, Symbol(f"turn{len(names)}", symbol.low, symbol.high))
        elif symbol.name in phase.nest.loops and symbol.name not in fixed:
            return None  # another slot in each turn of an outer loop
    for loop in region.loops:
        if loop.size != 1 and not apart(phase.nest, use, use, loop.axis, fixed):
            return None
    return tuple(substitute(dim, names) for dim in use.index)


class Waits:
    """Writes where threads wait, and knows what they have done since."""

    def __init__(self, phase: NestLaunch, code: Code) -> None:
        self.phase, self.code = phase, code
        self.open: Touches = NONE
        """What threads have read and written since they last waited for each other."""
        self.ahead: AbstractSet[str] = frozenset()
        """The arrays that asynchronous copies fill."""
        self.begun = False
        """Whether such copies have begun since they were last made a group."""

    def group(self) -> None:
        """Make a group of the copies that have begun, so that threads can wait for them."""
        if self.begun:
            self.code.invoke("lab_copy_commit")
            self.begun = False

    def wait_for(self, comes: Touches) -> None:
        """Make threads wait for each other if the next step needs what others did."""
        if self.phase.threads > 1 and meet(self.open, comes):
            if any(touch.arrives for touch in self.open):
                self.group()
                self.code.invoke("lab_copy_wait", 0)
            self.code.wait()
            self.open = NONE
        self.open |= comes

    @contextmanager
    def copying(self) -> Generator[None]:
        """Treat copies made meanwhile as asynchronous."""
        begun, self.begun = self.begun, False
        yield
        if self.begun:
            self.open = frozenset(
                replace(
                    touch, arrives=touch.arrives or (touch.is_write and touch.array in self.ahead)
                )
                for touch in self.open
            )
        self.begun |= begun

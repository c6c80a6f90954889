"""Where the inputs of a run are: found once, and again only where they have changed.

A step of a decoder has hundreds of weights that stay what they are. To ask for each, and NumPy
for its address, takes as long as the kernels of a small model.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Final

import numpy as np

from luminal_lab.core.dtypes import Array
from luminal_lab.core.interpret import Environment
from luminal_lab.core.ir import Node
from luminal_lab.devices.runtime.blocks import address_of
from luminal_lab.tensor.versions import Versions, at_next_change

IN_ORDER: Final = np.empty(0).flags.num & 0x101  # C_CONTIGUOUS and ALIGNED, as NumPy numbers them
UNKNOWN: Final = object()
"""A version that equals no version."""


class InputPointers:
    """The addresses of some inputs, as of the last run that read them."""

    def __init__(self, inputs: Sequence[tuple[Node, int]]) -> None:
        self._nodes = [node for node, _ in inputs]
        self._ids = [node.id for node in self._nodes]
        self._all = range(len(inputs))
        self.slots = np.array([slot for _, slot in inputs], np.int64)
        self._place_of = {slot: at for at, (_, slot) in enumerate(inputs)}
        self.addresses = np.zeros(len(inputs), np.uintp)
        self.bases = [0] * len(inputs)
        """The ids of the arrays that they are views of."""
        self._owners: list[Callable[[], Array | None]] = [lambda: None] * len(inputs)
        self._versions: list[object] = [UNKNOWN] * len(inputs)
        self._source: object = None
        self._steady: object = None
        self._held: tuple[Array | None, ...] | None = None
        """What parameters lie in, until one of them changes."""
        self._others: Sequence[int] = ()
        """The inputs to look at while none does."""

    def find(self, environment: Environment) -> Sequence[object]:
        """Find those that have changed; return what must live for as long as the run."""
        if environment.data != self._source:  # versions of one session mean nothing in another
            self._versions, self._source = [UNKNOWN] * len(self._ids), environment.data
            self.let_go()
        versions, held = environment.versions, self._held  # which a thread may take away now
        if not isinstance(versions, Versions) or versions.steady is None:
            return self._found(self._all, environment)
        is_steady, self._steady = versions.steady == self._steady, versions.steady
        if held is not None and is_steady:
            return [held, *self._found(self._others, environment)]
        owners = self._found(self._all, environment)
        if is_steady:
            self._hold(owners, versions.lent)
        return owners

    def let_go(self) -> None:
        """Keep no value of a parameter alive any longer."""
        self._held = None

    def _hold(self, owners: list[Array | None], lent: Collection[int]) -> None:
        """Look at no parameter again until one has changed."""
        pairs = enumerate(zip(self._ids, self._versions, strict=True))
        others = [at for at, (id, old) in pairs if id not in lent or old is UNKNOWN]
        if len(others) < len(owners):
            self._others, apart = others, {*others}
            self._held = tuple([own for at, own in enumerate(owners) if at not in apart])
            at_next_change(self.let_go)

    def _found(self, places: Sequence[int], environment: Environment) -> list[Array | None]:
        """Find those of some inputs that have changed; return what all of them lie in."""
        versions, found = environment.versions, list[Array | None]()
        for at in places:
            owner, version = self._owners[at](), versions.get(self._ids[at])
            if owner is None or version != self._versions[at]:
                owner = self._find(at, version, environment, owner)
            found.append(owner)
        return found

    def key_of(self, slots: Iterable[int]) -> object:
        """Return what is equal for as long as inputs stay what they are; None if nobody knows."""
        versions = [self._versions[self._place_of[slot]] for slot in slots]
        return None if UNKNOWN in versions else (self._source, versions)

    def _find(
        self, at: int, version: object, environment: Environment, before: Array | None
    ) -> Array:
        """Find one input, and note its version for the next run to compare."""
        array = environment.data(self._nodes[at])
        if array.flags.num & IN_ORDER != IN_ORDER:
            # Nobody but this run knows the copy, so the next one makes its own.
            array, version = np.require(array, requirements=("C", "A")), None
        base = array.base
        # What is frozen, or given out, is a new view of the same data each time.
        owner = base if isinstance(base, np.ndarray) and base.nbytes == array.nbytes else array
        if owner is not before:
            self._owners[at] = weakref.ref(owner)
            self.addresses[at] = address_of(array)
            self.bases[at] = id(base)
        self._versions[at] = UNKNOWN if version is None else version
        return owner

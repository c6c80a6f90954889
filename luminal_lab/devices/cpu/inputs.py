"""Where the inputs of a run are: found once, and again only where they have changed.

A step of a decoder has hundreds of weights that stay what they are. To ask for each, and NumPy
for its address, takes as long as the kernels of a small model.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import Final

import numpy as np

from luminal_lab.core.dtypes import Array
from luminal_lab.core.interpret import Environment
from luminal_lab.core.ir import Node
from luminal_lab.devices.runtime.blocks import address_of

IN_ORDER: Final = np.empty(0).flags.num & 0x101  # C_CONTIGUOUS and ALIGNED, as NumPy numbers them
UNKNOWN: Final = object()
"""A version that equals no version."""


class InputPointers:
    """The addresses of some inputs, as of the last run that read them."""

    def __init__(self, inputs: Sequence[tuple[Node, int]]) -> None:
        self._nodes = [node for node, _ in inputs]
        self._ids = [node.id for node in self._nodes]
        self.slots = np.array([slot for _, slot in inputs], np.int64)
        self._place_of = {slot: at for at, (_, slot) in enumerate(inputs)}
        self.addresses = np.zeros(len(inputs), np.uintp)
        self.bases = [0] * len(inputs)
        """The ids of the arrays that they are views of."""
        self._owners: list[Callable[[], Array | None]] = [lambda: None] * len(inputs)
        self._died: list[object] = []
        """The references to arrays that are no more."""
        self._versions: list[object] = [UNKNOWN] * len(inputs)
        self._source: object = None

    def find(self, environment: Environment) -> list[Array | None]:
        """Find those that have changed; return what must live for as long as the run."""
        if environment.data != self._source:  # versions of one session mean nothing in another
            self._versions, self._source = [UNKNOWN] * len(self._ids), environment.data
        versions: list[object] = [*map(environment.versions.get, self._ids)]
        owners = [owner() for owner in self._owners]
        if versions == self._versions and not self._died:
            return owners
        pairs = zip(versions, self._versions, owners, strict=True)
        self._died.clear()
        for at in [at for at, (new, old, own) in enumerate(pairs) if own is None or new != old]:
            versions[at] = self._find(at, versions[at], environment, owners)
        self._versions = versions
        return owners

    def key_of(self, slots: Iterable[int]) -> object:
        """Return what is equal for as long as inputs stay what they are; None if nobody knows."""
        versions = [self._versions[self._place_of[slot]] for slot in slots]
        return None if UNKNOWN in versions else (self._source, versions)

    def _find(
        self, at: int, version: object, environment: Environment, owners: list[Array | None]
    ) -> object:
        """Find one input; return the version that the next run compares."""
        array = environment.data(self._nodes[at])
        if array.flags.num & IN_ORDER != IN_ORDER:
            # Nobody but this run knows the copy, so the next one makes its own.
            array, version = np.require(array, requirements=("C", "A")), None
        base = array.base
        # What is frozen, or given out, is a new view of the same data each time.
        owner = base if isinstance(base, np.ndarray) and base.nbytes == array.nbytes else array
        if owner is not owners[at]:
            self._owners[at] = weakref.ref(owner, self._died.append)
            self.addresses[at] = address_of(array)
            self.bases[at] = id(base)
            owners[at] = owner
        return UNKNOWN if version is None else version

"""The machine that kernels are made for: vectors, cores, caches."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Machine:
    """What a schedule asks about a machine; sizes are in bytes, and caches those of one core.

    >>> Machine(vector_bytes=16).lanes(4)
    4
    """

    vector_bytes: int = 32
    cores: int = 1
    l1: int = 32 << 10
    l2: int = 512 << 10
    l3: int = 8 << 20
    """The last cache, which cores share."""
    dot: int = 1
    """How many products of bfloat16 numbers a lane adds up in one instruction."""

    @property
    def told(self) -> str:
        """What distinguishes it, in words.

        >>> Machine(vector_bytes=64, cores=2, l2=1 << 20).told
        '64-byte vectors, 2 cores, 1 MB of second cache'
        """
        cores = "1 core" if self.cores == 1 else f"{self.cores} cores"
        return f"{self.vector_bytes}-byte vectors, {cores}, {self.l2 / 2**20:g} MB of second cache"

    def lanes(self, itemsize: int) -> int:
        """Return how many elements of a size a vector holds."""
        return max(1, self.vector_bytes // itemsize)

"""What the machine that kernels are made for has: vectors, cores, caches."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Machine:
    """What a schedule asks of a machine; sizes are in bytes, caches those of one core.

    >>> Machine(vector_bytes=16).lanes(4)
    4
    """

    vector_bytes: int = 32
    cores: int = 1
    l1: int = 32 << 10
    l2: int = 512 << 10
    l3: int = 8 << 20
    """The last cache, which cores share."""

    def lanes(self, itemsize: int) -> int:
        """Return how many elements of a size a vector holds."""
        return max(1, self.vector_bytes // itemsize)

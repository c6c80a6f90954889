"""Counter-based random numbers: the same bits for the same counter, on every device.

The generator is Threefry-2x32 with 20 rounds (Salmon et al., "Parallel random numbers: as easy
as 1, 2, 3", 2011): add, rotate and xor on 32-bit words, which every backend supports.
"""

import numpy as np
import numpy.typing as npt

Words = npt.NDArray[np.uint32]

ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
PARITY = 0x1BD11BDA
MASK = 0xFFFFFFFF


def threefry(key: tuple[int, int], x0: Words, x1: Words) -> tuple[Words, Words]:
    """Encrypt the counter words `x0, x1` under two key words.

    >>> a, b = threefry((0, 0), np.zeros(1, np.uint32), np.zeros(1, np.uint32))
    >>> hex(int(a[0])), hex(int(b[0]))
    ('0x6b200159', '0x99ba4efe')
    """
    schedule = [np.uint32(word & MASK) for word in (*key, key[0] ^ key[1] ^ PARITY)]
    x0, x1 = x0 + schedule[0], x1 + schedule[1]
    for group in range(5):
        for turn in ROTATIONS[group % 2]:
            x0 = x0 + x1
            x1 = (x1 << np.uint32(turn)) | (x1 >> np.uint32(32 - turn))
            x1 = x1 ^ x0
        x0 = x0 + schedule[(group + 1) % 3]
        # The last key word is added modulo 2^32, as all sums here.
        x1 = x1 + np.uint32((int(schedule[(group + 2) % 3]) + group + 1) & MASK)
    return x0, x1


def uniform(
    seed: int, stream: int, step: int, positions: npt.NDArray[np.integer]
) -> npt.NDArray[np.float32]:
    """Return the multiples of 2^-24 in [0, 1) that stand at some positions."""
    low = positions.reshape(-1).astype(np.uint32)  # without axes it would be a number, which warns
    # The high word of the seed goes into the stream's key word; the step is the second counter.
    key = seed & MASK, (stream & MASK) ^ ((int(seed) >> 32 & MASK) * 0x9E3779B9 & MASK)
    bits, _ = threefry(key, low, np.full_like(low, step & MASK))
    numbers = (bits >> np.uint32(8)).astype(np.float32) * np.float32(2.0**-24)
    return numbers.reshape(positions.shape)

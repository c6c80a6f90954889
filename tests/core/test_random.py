"""The random generator: published vectors, and what a uniform source must look like."""

import itertools

import numpy as np
import pytest

from luminal_lab.core.random import threefry, uniform

COUNT = 1 << 16


# From the reference implementation's file of known answers, Threefry-2x32 with 20 rounds.
@pytest.mark.parametrize(
    ("counter", "key", "answer"),
    [
        ((0, 0), (0, 0), (0x6B200159, 0x99BA4EFE)),
        ((0xFFFFFFFF, 0xFFFFFFFF), (0xFFFFFFFF, 0xFFFFFFFF), (0x1CB996FC, 0xBB002BE7)),
        ((0x243F6A88, 0x85A308D3), (0x13198A2E, 0x03707344), (0xC4923A9C, 0x483DF7A0)),
    ],
)
def test_known_answers(counter: tuple[int, int], key: tuple[int, int], answer: tuple[int, int]):
    words = threefry(key, *(np.full(3, word, np.uint32) for word in counter))
    for word, want in zip(words, answer, strict=True):
        assert word.dtype == np.uint32
        assert word.tolist() == [want] * 3


def test_the_values_are_multiples_in_zero_to_one():
    values = uniform(0, 0, 0, np.arange(COUNT))
    assert values.dtype == np.float32
    assert values.min() >= 0
    assert values.max() < 1
    steps = values.astype(np.float64) * 2**24
    assert (steps == np.floor(steps)).all()


def test_the_first_values():
    # The high 24 bits of the first word of each counter.
    assert uniform(0, 0, 0, np.arange(1))[0] == np.float32(0x6B2001 / 2**24)
    assert uniform(0, 0, 0, np.arange(0)).shape == (0,)


@pytest.mark.parametrize(
    ("seed", "stream", "step"), [(0, 0, 0), (1, 0, 0), (7, 3, 1000), (2**40, 1, 2)]
)
def test_uniform(seed: int, stream: int, step: int):
    values = uniform(seed, stream, step, np.arange(COUNT)).astype(np.float64)
    # Five standard deviations of what a uniform source would show.
    assert abs(values.mean() - 1 / 2) < 5 * (1 / 12 / COUNT) ** 0.5
    assert abs(values.var() - 1 / 12) < 5 * (1 / 180 / COUNT) ** 0.5
    bins, _ = np.histogram(values, 256, (0, 1))
    chi_square = ((bins - COUNT / 256) ** 2 / (COUNT / 256)).sum()
    assert abs(chi_square - 255) < 5 * (2 * 255) ** 0.5
    bits = (values * 2**24).astype(np.int64)
    for bit in range(24):
        assert abs((bits >> bit & 1).mean() - 1 / 2) < 5 * (1 / 4 / COUNT) ** 0.5
    for lag in (1, 2, 64):
        assert abs(correlation(values[lag:], values[:-lag])) < 5 / COUNT**0.5


def correlation(x: np.ndarray, y: np.ndarray) -> float:
    return float(np.corrcoef(x, y)[0, 1])


def test_seeds_streams_and_steps_are_independent():
    numbers = (0, 1, 2, 2**31, 2**32 - 1)
    sources = {(seed, stream, step) for seed, stream, step in itertools.product(numbers, repeat=3)}
    sources |= {(2**32, 0, 0), (2**33, 0, 0), (2**32 + 1, 0, 0), (-1, 0, 0)}
    sources -= {(2**32 - 1, 0, 0)}  # two's complement of -1, but for the high word
    firsts = {uniform(*source, np.arange(4)).tobytes() for source in sources}
    assert len(firsts) == len(sources)
    near = [
        uniform(*source, np.arange(COUNT))
        for source in ((0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1))
    ]
    for one, two in itertools.combinations(near, 2):
        assert abs(correlation(one, two)) < 5 / COUNT**0.5


def test_the_same_counter_gives_the_same_bits_however_many_are_drawn():
    few, many = uniform(5, 2, 9, np.arange(10)), uniform(5, 2, 9, np.arange(1000))
    np.testing.assert_array_equal(few, many[:10])
    np.testing.assert_array_equal(many, uniform(5, 2, 9, np.arange(1000)))

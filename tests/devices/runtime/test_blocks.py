"""Blocks of memory are given again when nobody holds an array of theirs, and only then."""

import weakref

import numpy as np
import pytest

from luminal_lab.devices.runtime import blocks
from luminal_lab.devices.runtime.blocks import BlockPool, MemoryBlock

F32 = np.dtype(np.float32)


def test_blocks_are_aligned_and_arrays_lie_in_them():
    block = MemoryBlock(100)
    assert block.address % 64 == 0
    array = block.array((5, 5), F32)
    assert array.ctypes.data == block.address
    assert block.array((4,), F32, 16).ctypes.data == block.address + 16
    assert block.holders == 1


def test_a_block_is_given_again_when_nobody_holds_it():
    blocks = BlockPool()
    first = blocks.take(64)
    array = first.array((16,), F32)
    view = array[2:]
    del array
    assert blocks.take(64) is not first
    del view
    assert blocks.take(64) is first
    assert blocks.bytes == 128


def test_idle_blocks_are_given_back():
    blocks = BlockPool()
    kept = [blocks.take(size) for size in (64, 128)]
    array = kept[0].array((1,), F32)
    del kept
    blocks.trim()
    assert blocks.bytes == 64
    assert blocks.owner(array) is not None
    assert blocks.owner(np.zeros(3)) is None


def test_many_sizes_do_not_pile_up():
    blocks = BlockPool()
    for size in range(1, 200):
        blocks.take(1000 * size)
    assert blocks.bytes < 20 * 200_000


def test_who_else_holds_a_carried_array_is_seen():
    block = MemoryBlock(64)
    session = {"input": block.array((4,), F32)}
    session["output"] = session["input"]
    block.given = weakref.ref(session["input"])
    given = session["input"]
    assert block.is_kept_alone(id(given))
    other = given
    assert not block.is_kept_alone(id(given))
    del other
    view = given[1:]
    assert not block.is_kept_alone(id(given))
    del view, given
    frozen = session["input"].view()
    assert block.is_kept_alone(id(frozen))


def test_more_than_there_is_is_refused(monkeypatch):
    monkeypatch.setattr(blocks, "CAREFUL", 1000)
    monkeypatch.setattr(blocks, "available_memory", lambda: 5000)
    with pytest.raises(MemoryError, match=r"6,000 bytes, and 5,000 are there"):
        MemoryBlock(6000)

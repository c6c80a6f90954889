"""The collector of cycles is as it was behind what is made without it."""

import gc

import pytest

from luminal_lab.passes.collector import uncollected


def test_it_is_off_within_and_on_behind():
    with uncollected():
        assert not gc.isenabled()
        with uncollected():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()


def test_an_error_leaves_it_on():
    with pytest.raises(ValueError, match="stop"), uncollected():
        raise ValueError("stop")
    assert gc.isenabled()


def test_what_was_off_stays_off():
    gc.disable()
    try:
        with uncollected():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()

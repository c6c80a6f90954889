"""The collector of cycles is as it was behind what is made without it."""

import gc

import pytest

from luminal_lab.passes.collector import uncollected


@uncollected
def is_on() -> bool:
    return gc.isenabled()


@uncollected
def nested() -> list[bool]:
    return [gc.isenabled(), is_on(), gc.isenabled()]


@uncollected
def failing() -> None:
    raise ValueError("stop")


def test_it_is_off_within_and_on_behind():
    assert nested() == [False, False, False]
    assert gc.isenabled()


def test_an_error_leaves_it_on():
    with pytest.raises(ValueError, match="stop"):
        failing()
    assert gc.isenabled()


def test_what_was_off_stays_off():
    gc.disable()
    try:
        assert not is_on()
        assert not gc.isenabled()
    finally:
        gc.enable()

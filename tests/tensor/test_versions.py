"""Who asks to be told of a change of a parameter is told once, if it still exists."""

import gc

import luminal_lab as ll
from luminal_lab.tensor import versions
from luminal_lab.tensor.versions import at_next_change, tell_of_change


class Looker:
    def __init__(self) -> None:
        self.seen = 0

    def look(self) -> None:
        self.seen += 1


def test_each_change_is_told_once():
    looker, weight = Looker(), ll.Parameter((1,), provider=lambda: [1])
    at_next_change(looker.look)
    weight.unload()
    weight.set([2])
    assert looker.seen == 1
    at_next_change(looker.look)
    weight.set([3])
    assert looker.seen == 2


def test_nothing_is_kept_for_those_who_are_gone():
    tell_of_change()
    for _ in range(9):
        at_next_change(Looker().look)
    gc.collect()
    assert not versions._TOLD
    tell_of_change()

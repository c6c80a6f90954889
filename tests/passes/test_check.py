"""The judge of values: what it draws, what it lets pass, what it accuses, and what stops it."""

from collections.abc import Callable
from typing import Any

import pytest

import luminal_lab as ll
from luminal_lab.core import ops
from luminal_lab.errors import Interrupted, PassError
from luminal_lab.passes.proof import counterexample
from luminal_lab.passes.rule import Rule
from tests.expect import error_of

# -- Ctrl-C ----------------------------------------------------------------------------------------


class Asked:
    """A host function that is stopped by Ctrl-C when it is called for the nth time."""

    def __init__(self, stop: int = -1) -> None:
        self.calls = 0
        self.stop = stop

    def __call__(self, x: Any) -> Any:
        """Return what is given, or stop."""
        self.calls += 1
        if self.calls == self.stop:
            raise KeyboardInterrupt
        return x


def asking(passes: tuple[Any, ...], asked: Asked) -> Callable[[], object]:
    cx = ll.Graph()
    x = cx.tensor((2,), name="x")
    y = cx.function(asked, x * 1, shape=2)
    (y * 2 + y).retrieve()
    return lambda: cx.compile(*passes, check="values")


def wrong_by_half() -> Any:
    """Return a pass whose fourth firing, and no other, is wrong: bisection has to look for it."""

    @ll.graph_pass
    def steps(ir: Any, edit: Any) -> None:
        """Rewrite a constant, again and again."""
        node = next(n for n in ir if isinstance(n.op, ops.Constant) and n.op.value == 2)
        for value in (2.0, 2.0, 2.0, 3.0, 3.0, 3.0, 3.0):
            new = edit.insert(ops.Constant(value, node.dtype, node.shape), like=node, rule="step")
            edit.replace(node, new, rule="step")
            node = new

    return steps


ASKING = {
    "a right pass": ("simplify",),
    "a wrong pass and its bisection": (wrong_by_half(),),
    "a device": (ll.GenericCompiler(), ll.CPUCompiler()),
}


@pytest.mark.parametrize("name", ASKING)
def test_ctrl_c_comes_out_of_a_check_wherever_it_strikes(name):
    counted = Asked()
    check = asking(ASKING[name], counted)
    if "wrong" in name:
        error = error_of(check, PassError)
        assert "firing 4 of 7" in str(error)
    else:
        check()
    assert counted.calls > 5
    for stop in range(1, counted.calls + 1):
        assert type(error_of(asking(ASKING[name], Asked(stop)), BaseException)) is Interrupted


def test_ctrl_c_comes_out_of_a_proof():
    x = ll.variables("x")

    def stopped(x: object) -> bool:
        raise Interrupted("stopped")

    error_of(lambda: Rule("mul-one", x * 1, x, condition=stopped), Interrupted)
    armed = False

    def later(x: object) -> bool:
        if armed:
            raise Interrupted("stopped")
        return True

    rule = Rule("mul-one", x * 1, x, condition=later)
    armed = True
    error_of(lambda: counterexample(rule), Interrupted)

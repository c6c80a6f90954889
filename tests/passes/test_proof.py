"""How rules are put to the test: what is told, what passes through, and faults planted in it."""

from typing import Any

import numpy as np
import pytest

from luminal_lab.core.dtypes import DType
from luminal_lab.core.parse import parse
from luminal_lab.errors import DTypeError, Interrupted, LabWarning
from luminal_lab.passes import enclosure, proof, trials
from luminal_lab.passes.corners import corners, exactly, simple
from luminal_lab.passes.pattern import constants, recip, variables, where
from luminal_lab.passes.proof import counterexample, examine
from luminal_lab.passes.reassociation import REASSOCIATE, add_constants
from luminal_lab.passes.rule import Rule
from tests.passes.wrong_rules import RIGHT, WRONG

x, y, b = variables("x y b")
c = constants("c")
F16 = DType.float16

# -- what is told ----------------------------------------------------------------------------------


def test_the_dtype_the_inputs_and_both_sides_are_told():
    tenth = Rule("tenth", (x * 0.1) * 10, x, condition=lambda x: x.dtype is F16)
    assert str(counterexample(tenth)) == (
        "tenth: (x * 0.1) * 10 → x\n"
        "is wrong for float16: with x = 3.0 the left side is 2.998, but the right side is 3.0"
    )
    whole = Rule("whole", x + 1, x, condition=lambda x: x.dtype is DType.int64)
    assert str(counterexample(whole)).endswith(
        "is wrong for int64: with x = 0 the left side is 1, but the right side is 0"
    )


@pytest.mark.parametrize("name", ["a factor that is wrong by a thousandth", "add-zero, at -0.0"])
def test_what_is_told_is_wrong_when_it_is_typed_in_again(name):
    rule = WRONG[name].rule
    found = counterexample(rule)
    assert found is not None
    typed: Any = np.asarray(float(str(found.given["x"])), found.dtype.numpy)
    sides = (typed * 3, typed * 3.003) if "factor" in name else (typed + 0, typed)
    assert [str(exactly(np.asarray(side, found.dtype.numpy))) for side in sides] == [
        str(found.left),
        str(found.right),
    ]


def test_an_array_without_elements_is_told_by_its_type():
    assert proof._shown(np.zeros((0, 3), np.float16)) == "f16[0, 3]"
    assert proof._shown(np.zeros((1, 2), np.float16)) == [[0.0, 0.0]]


def test_a_rule_that_matches_nothing_is_told_to_be_untried():
    never = Rule("never", x * c, x, condition=lambda c: False)
    assert examine(never) == (0, None)
    with pytest.warns(
        LabWarning,
        match=r"^rule 'never' was not tested: none of the small graphs .* matches x \* c, or",
    ):
        assert counterexample(never) is None


def test_what_fails_is_told():
    def failing(c):
        return 1 / c > 0

    found = counterexample(Rule("fails", x * c, x * c, condition=failing))
    assert found is not None
    assert found.right == "refused: ZeroDivisionError('float division by zero')"
    assert str(found.given["x"]) == "f32[1]"


def test_dtypes_can_be_left_out():
    wrong = WRONG["squares below 10^8 are finite, in all dtypes but float16"].rule
    assert counterexample(wrong, {DType.float32, DType.int8}) is None
    assert counterexample(wrong, {F16}) is not None


def test_dtypes_are_called_by_their_names():
    half = Rule("half", (x * 0.5) * 2, x)
    assert str(counterexample(half, "float32")).endswith(
        "for float32: with x = 1e-45 the left side is 0.0, but the right side is 1e-45"
    )
    assert (
        str(counterexample(half, ["f64", "int8"]))
        .partition("\n")[2]
        .startswith("is wrong for float64: with x = 5e-324")
    )
    with pytest.raises(DTypeError, match="'float33' is not a dtype"):
        counterexample(half, "float33")


def test_graphs_can_be_given():
    ir = parse("graph g(%x: f32[3]) -> (%r) { %n = exp2 %x : f32[3] %r = add %n, %n : f32[3] }")
    tried, wrong = examine(Rule("r", y + y, y), on=[ir])
    assert tried == 1
    assert wrong is not None
    assert wrong.dtype is DType.float32


@pytest.mark.parametrize("interrupt", [KeyboardInterrupt, Interrupted("execute: stopped")])
@pytest.mark.parametrize("place", ["condition", "calculation", "_values", "enclosures"])
def test_an_interrupt_passes_through(interrupt, place, monkeypatch):
    rule = Rule("r", (x * c) * 3, lambda x, c: x * (c * 3), assumes={"reassociate"})
    armed = []

    def stop(*_, **__):
        if armed:  # a rule tries its pattern on some types when it is made
            raise interrupt
        return True

    if place == "condition":
        rule = Rule("r", x * 1, x, condition=lambda x: stop())
    elif place == "calculation":
        rule = Rule("r", x * c, lambda c: stop())
    else:
        monkeypatch.setattr(proof, place, stop)
    armed.append(True)
    with pytest.raises((KeyboardInterrupt, Interrupted)):
        examine(rule)


# -- facts -----------------------------------------------------------------------------------------


def test_a_fact_excuses_what_the_left_side_breaks_alone():
    assert (
        counterexample(Rule("r", x * 2, (x + x) * recip(y * 0 + 1), assumes={"no_inf"})) if 0 else 1
    )
    facts = {"no_inf", "no_nan", "reassociate"}
    made = Rule("r", x * 1, x * recip(0), assumes=facts, condition=lambda x: x.dtype.is_float)
    assert counterexample(made) is not None
    rooted = Rule("r", where(b, x, x), x, assumes={"no_nan"})
    assert counterexample(rooted) is None


def test_nothing_divides_by_zero_where_that_is_assumed():
    assert counterexample(Rule("r", (x % y) < y, True, condition=lambda x: x.dtype is DType.uint8))
    whole = Rule(
        "r", (x % y) < y, True, assumes={"nonzero"}, condition=lambda x: x.dtype is DType.uint8
    )
    assert counterexample(whole) is None


# -- values ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DType)
def test_corners_have_the_ends_and_their_neighbours(dtype):
    found = {one.tobytes() for one in corners(dtype)}
    assert len(found) == len(corners(dtype))
    if dtype.is_float:
        wanted = [0.0, -0.0, 1.0, -1.0, 0.5, 1.5, 2.5, np.inf, -np.inf]
        top = np.finfo(np.float32 if dtype is DType.bfloat16 else dtype.numpy)
        ends = [] if dtype is DType.bfloat16 else [top.max, -top.max, top.tiny]
        values = np.asarray([*wanted, *ends]).astype(dtype.numpy)
        assert {one.tobytes() for one in values} <= found
        assert np.isnan(corners(dtype)).any()
    else:
        low, high = dtype.limits
        ends = [low, high, 0, 1] + ([low + 1, high - 1, high // 2] if high > 1 else [])
        assert {np.asarray(end, dtype.numpy).tobytes() for end in ends} <= found


@pytest.mark.parametrize("dtype", [DType.float16, DType.bfloat16])
def test_each_value_is_shown_as_what_makes_it_when_typed_in(dtype):
    values = np.arange(1 << 16, dtype=np.uint16).view(dtype.numpy)
    with np.errstate(all="ignore"):
        values = values[np.isfinite(values)]
        again = np.asarray([float(repr(exactly(one))) for one in values]).astype(dtype.numpy)
    assert again.tobytes() == values.tobytes()


# -- planted faults --------------------------------------------------------------------------------

same, broken, explained = proof._same, proof._broken, proof._is_explained
instance, lanes, step = proof._instance, proof._lanes, enclosure._step


def numbers_only(rule, a, b):
    return same(rule, a, b) | (np.isnan(a) | np.isnan(b) if a.dtype.kind not in "iub" else False)


def zeros_alike(rule, a, b):
    return same(rule, a, b) | np.equal(a, b)


def excuses_infinity(rule, node, values):
    found = broken(rule, node, values)
    return found | np.isinf(values[node.id]) if node.dtype.is_float else found


def excuses_nan(rule, node, values):
    found = broken(rule, node, values)
    return found | np.isnan(values[node.id]) if node.dtype.is_float else found


def infinity_is_near(rule, made, values, *, lanes):
    x, y = values[made.left.id], values[made.right.id]
    return explained(rule, made, values, lanes=lanes) | np.isinf(x) | np.isinf(y)


def both_sides_excuse(rule, trial):
    made = instance(rule, trial)
    if made is None:
        return None
    return made._replace(behind=frozenset(node.id for node in made.ir.nodes))


def nothing_near(dtype, numbers):
    return np.zeros(0, dtype.numpy)


def without_minus_zero(pool):
    def given(dtype):
        values = pool(dtype)
        if values is None or not dtype.is_float:
            return values
        return values[~((values == 0) & np.signbit(values))]

    return given


FAULTS = {
    "NaN is whatever it is compared with": (
        {"proof._same": numbers_only},
        "the smaller one, with NaN",
    ),
    "zeros are alike": ({"proof._same": zeros_alike}, "add-zero, at -0.0"),
    "infinity is excused unasked": (
        {"proof._broken": excuses_infinity},
        "doubled and halved, at the largest",
    ),
    "NaN is excused unasked": (
        {"proof._broken": excuses_nan},
        "a power of two times 0, where it is infinite",
    ),
    "infinity is near everything": (
        {"proof._is_explained": infinity_is_near},
        "doubled and halved, though roundings may differ",
    ),
    "roundings explain everything": (
        {"proof._is_explained": lambda rule, made, values, *, lanes: np.ones(1, bool)},
        "a factor taken out of a sum, which may be a zero of another sign",
    ),
    "the right side excuses itself": (
        {"proof._instance": both_sides_excuse},
        "a right side that is never a number, though no value is NaN",
    ),
    "the right side excuses its infinities": (
        {"proof._instance": both_sides_excuse},
        "a right side that overflows, though no value is infinite",
    ),
    "roundings are large": (
        {"enclosure._step": lambda *given: 1e13 * step(*given)},
        "a factor that is wrong by a thousandth",
    ),
    "there is no -0.0": (
        {"corners.corners": without_minus_zero(corners)} | {
            f"proof.{pool}": without_minus_zero(getattr(proof, pool))
            for pool in ("simple", "corners", "every")},
        "the logarithm and back, at -0.0",
    ),
    "corners are few": (
        {"proof.corners": simple, "corners.corners": simple, "proof.near": nothing_near},
        "squares of int32 are not negative, but for one that is let through",
    ),
    "not all values are tried": (
        {"proof._lanes": lambda rule, trial, inputs: lanes(
            rule, trials.Trial(trial.dtype, trial.edit, trial.left), inputs)},
        "all but one integer",
    ),
    "what is easy to read is all": (
        {"trials.CHOICES": 0, "trials._choices": lambda *_: ()},
        "halved and doubled, for subnormals of float64",
    ),
    "nothing is empty": (
        {"trials.EMPTY": ((1, 1),), "trials.SIZES": (1, 2, 3)},
        "a sum along at most one position",
    ),
    "nothing has three axes": ({"trials.RANKS": (2,)}, "permutations of three axes"),
    "no positions are skipped": (
        {"trials.FITTING": {}, "trials.PER_FIELD": {
            **trials.PER_FIELD, (trials.Slice, "step"): ((1, 1),)}},
        "slices of slices with steps",
    ),
    "there is no float16": (
        {"trials.DTYPES": tuple(one for one in trials.DTYPES if one is not F16)},
        "squares below 10^8 are finite, in all dtypes but float16",
    ),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_in_the_judge_lets_a_wrong_rule_through(fault, monkeypatch):
    """So that its test, in `test_wrong_rules`, fails."""
    changes, name = FAULTS[fault]
    assert examine(WRONG[name].rule).wrong is not None
    for place, value in changes.items():
        monkeypatch.setattr(f"luminal_lab.passes.{place}", value)
    assert examine(WRONG[name].rule).wrong is None


ACCUSING = {
    "roundings move nothing": (
        {"enclosure._step": lambda end, *_: np.zeros(end.shape)},
        add_constants,
    ),
    "what overflows on the way is not excused": (
        {"proof.enclosures": lambda *given, overflows, **more: enclosure.enclosures(
            *given, overflows=True, **more)},
        REASSOCIATE["factor"],
    ),
    "no fact excuses anything": (
        {"proof._broken": lambda rule, node, values: np.zeros(values[node.id].shape, bool)},
        RIGHT["what is doubled without overflow is halved without rounding"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("fault", ACCUSING)
def test_a_fault_in_the_judge_accuses_a_right_rule(fault, monkeypatch):
    changes, rule = ACCUSING[fault]
    floats = DType.float32, F16
    assert examine(rule, floats).wrong is None
    for place, value in changes.items():
        monkeypatch.setattr(f"luminal_lab.passes.{place}", value)
    assert examine(rule, floats).wrong is not None

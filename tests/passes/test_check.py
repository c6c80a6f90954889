"""The judge of values: what it draws, what it lets pass, what it accuses, and what stops it."""

import random
from collections.abc import Callable
from typing import Any

import pytest

import luminal_lab as ll
from luminal_lab.core import ops
from luminal_lab.core.dtypes import as_dtype
from luminal_lab.core.parse import parse
from luminal_lab.errors import DeviceError, Interrupted, PassError
from luminal_lab.passes.compile import compile_ir
from luminal_lab.passes.proof import counterexample
from luminal_lab.passes.rule import Rule
from tests.expect import error_of

# -- memory ----------------------------------------------------------------------------------------


class Starved:
    """A host function that finds no memory when it is called for the nth time."""

    def __init__(self, at: int) -> None:
        self.left = at

    def __call__(self, x: Any) -> Any:
        """Return what is given, or find no memory."""
        self.left -= 1
        if not self.left:
            raise MemoryError
        return x


@pytest.mark.parametrize("at", range(1, 40, 3))
def test_no_memory_drops_no_draw_and_accuses_nobody(at):
    passes = (ll.GenericCompiler(), ll.CPUCompiler(threads=1))
    starved = Starved(at)
    compiling = asking(passes, starved)  # pyright: ignore[reportArgumentType]  # it is called alike
    error = error_of(compiling, DeviceError)
    assert error.message.startswith("execute: out of memory: ")


@pytest.mark.parametrize(("kind", "what"), [(MemoryError, "memory"), (RecursionError, "stack")])
def test_no_memory_and_no_stack_accuse_no_rule(kind, what):
    x = ll.variables("x")
    is_starving = False

    def starved(x: Any) -> bool:
        if is_starving:
            raise kind("none left")
        return True

    rule = Rule("mul-one", x * 1, x, condition=starved)
    is_starving = True
    error = error_of(lambda: counterexample(rule), PassError)
    assert error.message == (
        f"rule 'mul-one': it could not be put to the test: Python ran out of {what}: none left"
    )


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


@pytest.mark.sweep
@pytest.mark.parametrize("name", ASKING)
def test_ctrl_c_comes_out_of_a_check_wherever_it_strikes(name: str, long: bool, seed: int):
    counted = Asked()
    check = asking(ASKING[name], counted)
    if "wrong" in name:
        error = error_of(check, PassError)
        assert "firing 4 of 7" in str(error)
    else:
        check()
    assert counted.calls > 5
    stops = range(1, counted.calls + 1)
    for stop in stops if long else random.Random(seed).sample(stops, -(-counted.calls // 6)):
        stopped = error_of(asking(ASKING[name], Asked(stop)), Interrupted)
        assert stopped.message.startswith("compile: stopped by Ctrl-C after ")
        assert stopped.message.endswith("; the graph is as it was")


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


# -- kernels that are wrong in one corner ----------------------------------------------------------

CORNERS = {
    "everywhere infinite": ("f32", "1.0f / 0"),
    "NaN": ("f32", "x[i] != x[i] ? 0 : 2 * x[i]"),
    "infinity": ("f32", "x[i] > 3.4e38f ? 3.4e38f : 2 * x[i]"),
    "minus infinity": ("f32", "2 * x[i] < -3.4e38f ? 1.0f / 0 : 2 * x[i]"),
    "what overflows": ("f32", "x[i] > 1e38f && x[i] < 3.4028235e38f ? 1e38f : 2 * x[i]"),
    "the largest": ("f32", "x[i] == 3.4028234664e38f ? 2 : 2 * x[i]"),
    "subnormal numbers": ("f32", "x[i] > -1e-38f && x[i] < 1e-38f ? 0 : 2 * x[i]"),
    "the last place": ("f64", "2 * x[i] * 1.0000001"),
    "large integers": ("i32", "x[i] > 1000 ? 0 : x[i] + x[i]"),
    "negative integers": ("i64", "x[i] < -1 ? 0 : x[i] + x[i]"),
    "the least integer": ("i8", "x[i] == -128 ? 1 : x[i] + x[i]"),
    "the largest byte": ("u8", "x[i] == 255 ? 1 : x[i] + x[i]"),
    "one row": ("f32", "n == 1 ? 0 : 2 * x[i]"),
    "what follows the first block": ("f32", "i < 256 ? 2 * x[i] : x[i]"),
    "what follows the first task": ("f32", "i < 16384 ? 2 * x[i] : x[i]"),
}
C_TYPES = {
    "f32": "float",
    "f64": "double",
    "i32": "int",
    "i64": "long long",
    "i8": "signed char",
    "u8": "unsigned char",
}


def by_kernel(short: str, value: str, **how: Any) -> Callable[[], object]:
    """Return what compiles and checks a kernel that doubles, or so it says."""
    kind = C_TYPES[short]
    head = f"// kernel twice(x: {short}[n]) -> (y: {short}[n])"
    source = f"""{head}
    void twice(const {kind} *x, {kind} *y, long n) {{
        for (long i = 0; i < n; i++) y[i] = {value};
    }}"""
    twice = ll.kernel(source, meaning=lambda x: x + x)
    cx = ll.Graph()
    twice(cx.tensor(("n",), as_dtype(short), name="x")).retrieve()
    return lambda: cx.compile(ll.CPUCompiler(), check="values", **how)


@pytest.mark.parametrize("corner", CORNERS)
def test_a_kernel_that_is_wrong_in_one_corner_is_named(corner):
    error = error_of(by_kernel(*CORNERS[corner]), PassError)
    assert "the kernel twice computes another value than its graph says" in error.message


@pytest.mark.parametrize("short", C_TYPES)
def test_a_kernel_that_is_right_in_all_corners_passes(short):
    by_kernel(short, "x[i] + x[i]")()


ROWS: dict[str, tuple[Callable[[Any], Any], str, str]] = {
    "a maximum that begins at a number": (
        lambda x: x.amax(-1),
        "float t = -3.4e38f;",
        "t = x[j] != x[j] || t < x[j] ? x[j] : t; if (t != t) break;",
    ),
    "an infinity for a large number": (
        lambda x: (x == x.amax(-1, keepdim=True)).sum(-1).cast("float32"),
        "float t = -1.0f / 0, most = 0; for (long j = 0; j < 32; j++) "
        "if (!(x[j] <= t)) { t = x[j]; if (t != t) break; } if (t > 3e38f) t = 3e38f;",
        "most += x[j] == t; if (j == 31) t = most;",
    ),
    "a NaN among numbers": (
        lambda x: x.abs().amax(-1),
        "float t = 0;",
        "if (t < __builtin_fabsf(x[j])) t = __builtin_fabsf(x[j]);",
    ),
    "a small result": (
        lambda x: x.mean(-1),
        "float t = 0;",
        "t += x[j]; if (j == 31) { t *= 0.03125f; if (__builtin_fabsf(t) < 1.17e-38f) t = 0; }",
    ),
}


@pytest.mark.parametrize("corner", ROWS)
def test_a_kernel_that_is_wrong_for_some_rows_is_named(corner):
    meaning, first, each = ROWS[corner]
    source = f"""// kernel rows(x: f32[n, 32]) -> (y: f32[n])
    void rows(const float *x, float *y, long n) {{
        for (long i = 0; i < n; i++, x += 32) {{
            {first}
            for (long j = 0; j < 32; j++) {{ {each} }}
            y[i] = t;
        }}
    }}"""
    cx = ll.Graph()
    ll.kernel(source, meaning=meaning)(cx.tensor(("n", 32), name="x")).retrieve()
    error = error_of(lambda: cx.compile(ll.CPUCompiler(), check="values"), PassError)
    assert "the kernel rows computes another value than its graph says" in error.message


def test_values_are_compared_as_finely_as_their_own_dtypes_are():
    source = "// kernel hundredth(x: f32[9]) -> (y: f32[9])\n" + (
        "void hundredth(const float *x, float *y) { for (int i = 0; i < 9; i++) y[i] = V; }"
    )
    cx = ll.Graph()
    x = cx.tensor((9,), name="x")
    x.cast("bfloat16").retrieve()  # has few digits, and the other output has nothing of it
    off = ll.kernel(
        source.replace("V", "(x[i] < 1 || x[i] > 9 ? 2 : 2.02f) * x[i]"), meaning=lambda x: 2 * x
    )
    off(x).retrieve()
    error = error_of(lambda: cx.compile(ll.CPUCompiler(), check="values"), PassError)
    assert "the kernel hundredth computes another value than its graph says" in error.message


def test_the_sign_of_a_zero_counts_unless_the_licence_grants_that_it_does_not():
    by_kernel("f32", "2 * x[i] + 0.0f")()
    error = error_of(by_kernel("f32", "2 * x[i] + 0.0f", licence=()), PassError)
    assert "but the kernel makes it 0.0" in error.message
    by_kernel("f32", "2 * x[i]", licence=())()


def test_what_an_empty_array_comes_to_is_checked():
    source = """// kernel total(x: f32[n]) -> (y: f32[1])
    void total(const float *x, float *y, long n) {
        y[0] = n ? 0 : 7;
        for (long i = 0; i < n; i++) y[0] += x[i];
    }"""
    total = ll.kernel(source, meaning=lambda x: x.sum(0, keepdim=True))
    cx = ll.Graph()
    total(cx.tensor((cx.dim("n", 0),), name="x")).retrieve()
    error = error_of(lambda: cx.compile(ll.CPUCompiler(), check="values"), PassError)
    assert "is 0.0 at (0,), but the kernel makes it 7.0" in error.message
    assert error.inputs["x"].shape == (0,)


def test_a_kernel_that_is_wrong_for_squares_is_named():
    source = """// kernel turned(x: f32[n, m]) -> (y: f32[m, n])
    void turned(const float *x, float *y, long n, long m) {
        for (long i = 0; i < n; i++)
            for (long j = 0; j < m; j++) y[j * n + i] = n == m ? x[j * m + i] : x[i * m + j];
    }"""
    turned = ll.kernel(source, meaning=lambda x: x.T)
    cx = ll.Graph()
    turned(cx.tensor(("n", "m"), name="x")).retrieve()
    error_of(lambda: cx.compile(ll.CPUCompiler(), check="values"), PassError)


def test_what_is_rounded_exactly_decides_as_it_does_in_the_interpreter():
    source = """// kernel whole(x: f32[n]) -> (y: f32[n])
    #include <math.h>
    void whole(const float *x, float *y, long n) {
        for (long i = 0; i < n; i++) y[i] = rintf(x[i]);
    }"""
    half_up = ll.kernel(source, meaning=lambda x: x.floor() + (x - x.floor() >= 0.5))
    cx = ll.Graph()
    half_up(cx.tensor(("n",), name="x")).retrieve()
    error = error_of(lambda: cx.compile(ll.CPUCompiler(), check="values"), PassError)
    assert "the kernel whole computes another value" in error.message


NEEDED_BY_NOBODY = {
    "a slice": lambda x, i: x.index_select(1, i)[:, :1],
    "equal columns": lambda x, i: x[:, :1].expand(3, 4).index_select(1, i),
    "one row": lambda x, i: x[:, :1].T.index_select(0, i),
}


@pytest.mark.parametrize("what", NEEDED_BY_NOBODY)
def test_an_index_that_no_output_depends_on_may_go_unseen(what):
    cx = ll.Graph()
    x, i = cx.tensor((3, 2), name="x"), cx.tensor((2,), "int64", name="i")
    NEEDED_BY_NOBODY[what](x, i).retrieve()
    cx.compile(ll.GenericCompiler(), ll.CPUCompiler(), check="values")


def test_a_kernel_that_takes_an_index_that_is_out_of_range_is_named():
    source = """// kernel rows(x: f32[n], i: i64[k]) -> (y: f32[k])
    void rows(const float *x, const long long *i, float *y, long n, long k) {
        for (long at = 0; at < k; at++) y[at] = x[i[at] < 0 ? 0 : i[at] < n ? i[at] : n - 1];
    }"""
    rows = ll.kernel(source, meaning=lambda x, i: x.gather(0, i))
    cx = ll.Graph()
    rows(cx.tensor((4,), name="x"), cx.tensor((5,), "int64", name="i")).retrieve()
    error = error_of(lambda: cx.compile(ll.CPUCompiler(), check="values"), PassError)
    assert "what it compiled takes an index that is out of range" in error.message


# -- passes ----------------------------------------------------------------------------------------

x, y = ll.variables("x y")
MASK = """graph g(%b: bool[4]) -> (%r) {
  %x = cast{dtype = f32} %b : f32[4]
  %c = constant{value = -1.0} : f32[4]
  %p = mul %x, %c : f32[4]
  %r = add %x, %p : f32[4]
}"""
SUB_SELF = Rule("sub-self", x - x, 0)


def test_a_rule_that_has_fired_is_proved_even_if_no_input_shows_that_it_is_wrong():
    error = error_of(lambda: compile_ir(parse(MASK), SUB_SELF, check="values"), PassError)
    assert error.message.startswith("pass sub-self: the rule 'sub-self' is wrong for float32: with")
    assert "the left side is nan, but the right side is 0.0" in error.message
    assert "; it has fired (firing 1 of 1), though no inputs drawn for this graph" in error.message
    assert str(error.where).startswith("%r = add %x, %p : f32[4]")
    assert error.hint == f"the rule is {SUB_SELF}"
    assert len(compile_ir(parse(MASK), "simplify", "dce", check="values").snapshots) == 3


def test_a_rule_that_has_not_fired_is_not_asked():
    text = "graph g(%x: f32[4]) -> (%r) { %r = add %x, %x : f32[4] }"
    compile_ir(parse(text), SUB_SELF, check="values")


FINITE = {"no_nan", "no_inf"}
SELF = MASK.replace("bool[4]", "f32[4]").replace("cast{dtype = f32} %b", "sin %b")


def test_inputs_that_break_what_the_licence_grants_accuse_nobody():
    granted = Rule("sub-self", x - x, 0, assumes=FINITE)
    found = compile_ir(parse(SELF), granted, licence=FINITE, check="values")
    assert "values equal" in str(found.snapshots[1])
    assert found.snapshots[1].firings
    wrong = Rule("sub-self", x - x, 1, assumes=FINITE)
    error = error_of(
        lambda: compile_ir(parse(SELF), wrong, licence=FINITE, check="values"), PassError
    )
    assert "the rule 'sub-self' changes what the graph computes" in error.message


def test_where_no_input_keeps_to_the_licence_that_is_said():
    text = SELF.replace("sin %b", "constant{value = inf}")
    with pytest.warns(ll.LabWarning) as caught:
        found = compile_ir(parse(text), "simplify", licence=FINITE, check="values")
    assert str(caught[0].message) == (
        "check: the licence grants that no value is NaN and no value is infinite, which holds for "
        "none of the 18 inputs drawn: values are not compared"
    )
    assert "values equal" not in str(found.snapshots[1])


def test_a_pass_that_rounds_otherwise_is_accused_unless_the_licence_grants_it():
    text = """graph g(%x: f32[64]) -> (%r) {
      %c = constant{value = 0.1} : f32[64]
      %p = mul %x, %c : f32[64]
      %d = constant{value = 0.7} : f32[64]
      %r = mul %p, %d : f32[64]
    }"""

    @ll.graph_pass
    def at_once(ir: Any, edit: Any) -> None:
        """Multiply once."""
        last = ir.outputs[0]
        both = edit.insert(ops.Constant(0.07, last.dtype, last.shape), like=last, rule="at-once")
        new = edit.insert(ops.Mul(), ir.inputs[0], both, like=last, rule="at-once")
        edit.replace(last, new, rule="at-once")

    error = error_of(lambda: compile_ir(parse(text), at_once, check="values"), PassError)
    assert "the rule 'at-once' changes what the graph computes" in error.message
    compile_ir(parse(text), at_once, check="values", licence={"reassociate"})


def test_integers_above_seven_are_tried():
    @ll.graph_pass
    def small(ir: Any, edit: Any) -> None:
        """Forget a remainder."""
        edit.replace(ir.outputs[0], ir.inputs[0], rule="small")

    text = """graph g(%x: i32[4]) -> (%r) {
      %c = constant{value = 100} : i32[4]
      %r = mod %x, %c : i32[4]
    }"""
    error = error_of(lambda: compile_ir(parse(text), small, check="values"), PassError)
    assert "the rule 'small' changes what the graph computes" in error.message


def test_no_inputs_are_left_out_because_the_stack_is_full():
    def endless(a: Any) -> Any:
        return endless(a) if abs(a).max(initial=0) > 100 else a

    cx = ll.Graph()
    cx.function(endless, cx.tensor((8,), name="x"), shape=(8,)).retrieve()
    error = error_of(lambda: cx.compile("dce", check="values"), RecursionError)
    assert "host_call" in "".join(error.__notes__)

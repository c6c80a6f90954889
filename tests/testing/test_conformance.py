"""The kit for new devices: a wrong op is named, what is missing is listed, the CPU passes it."""

import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import luminal_lab as ll
from luminal_lab.core import ops
from luminal_lab.core.dtypes import Array, DType
from luminal_lab.core.interpret import Environment, interpret
from luminal_lab.core.ir import IR
from luminal_lab.core.op import ints
from luminal_lab.core.parse import parse
from luminal_lab.devices import conformance
from luminal_lab.devices.webgpu.engine import webgpu_device
from luminal_lab.errors import ArgumentError, DeviceError
from luminal_lab.passes.pattern import variables
from luminal_lab.testing.conformance import bound, cases, merged, wrong_places
from tests.expect import error_of
from tests.needs import need

x, y = variables("x y")
Eval = Callable[..., Any]


class Toy:
    """A device as somebody begins one: a table of functions, and a loop over the nodes."""

    name = "toy"

    def __init__(self, **changed: Eval) -> None:
        self.changed = changed

    def run(self, ir: IR, inputs: Mapping[str, Array]) -> Sequence[Array]:
        values: dict[int, Array] = {}
        with np.errstate(all="ignore"):
            for node in ir:
                given = [values[id] for id in node.sources]
                if isinstance(node.op, ops.Input):
                    values[node.id] = inputs[node.name]
                elif isinstance(node.op, ops.HostCall):
                    values[node.id] = given[0][::-1].copy()
                else:
                    values[node.id] = self.changed.get(node.op.name, node.op.eval)(*given)
                    assert values[node.id].shape == node.shape
        return [values[id] for id in ir.output_ids]


# -- a stack machine: what an afternoon gives ------------------------------------------------------

FUNCTIONS: dict[str, Callable[..., Any]] = {
    "log2": lambda a: math.log2(a) if a > 0 else -math.inf if a == 0 else math.nan,
    "exp2": lambda a: 2.0**a if a < 1024 else math.inf if a >= 1024 else math.nan,
    "sin": lambda a: math.sin(a) if math.isfinite(a) else math.nan,
    "sqrt": lambda a: math.sqrt(a) if a >= 0 else math.nan,
    "recip": lambda a: 1 / a if a else math.copysign(math.inf, a),
    "add": lambda a, b: a + b,
    "mul": lambda a, b: a * b,
    "less_than": lambda a, b: a < b,
    "where": lambda c, a, b: a if c else b,
}


@dataclass
class StackMachine:
    """Pushes numbers, and applies functions to those on top; for float64, without symbols."""

    unsupported = {"symbolic": "sizes are numbers here"}  # noqa: RUF012  # as a user writes it

    def run(self, ir: IR, inputs: Mapping[str, Array]) -> list[Array]:
        memory: dict[int, Array] = {}
        for node in ir:
            if isinstance(node.op, ops.Input):
                memory[node.id] = inputs[node.name]
                continue
            if node.op.name not in FUNCTIONS:
                raise NotImplementedError(f"{node.op.name} is not there yet")
            result = np.empty(ints(node.shape), node.dtype.numpy)
            for place in np.ndindex(*result.shape):
                stack = [memory[id][place].item() for id in node.sources]
                result[place] = FUNCTIONS[node.op.name](*stack)
            memory[node.id] = result
        return [memory[id] for id in ir.output_ids]


def test_a_stack_machine_shows_how_far_it_is():
    found = conformance(StackMachine(), dtypes=["float64", "bool"])
    assert found.ok, str(found)
    assert {row.case.op for row in found.passed} == {*FUNCTIONS, "input"}
    reasons = {row.reason for row in found.unsupported}
    assert "max_reduce is not there yet" in reasons
    assert "not supported: permute is not there yet" in str(found)


def test_a_declaration_covers_what_it_names():
    found = conformance(StackMachine(), only="symbolic")
    assert {row.reason for row in found.rows} == {"symbolic: sizes are numbers here"}
    assert found.summary.endswith("0 of 13 cases passed, 13 not supported")
    found = conformance("dce", ops="sqrt", unsupported={"bfloat16": "no such type"})
    assert [row.case.name for row in found.unsupported] == [
        "sqrt bf16[3390] special",
        "sqrt bf16[100]",
    ]
    assert found.ok


# -- wrong devices ---------------------------------------------------------------------------------


def spoilt(name: str) -> Eval:
    """Return what an op is, but for one element."""

    def call(value: Any) -> Any:
        value = np.array(value)
        if value.size:
            value.flat[-1] = not value.flat[-1] if value.dtype == bool else value.flat[-1] + 3
            if value.dtype.kind in "fV" and not np.isfinite(value.flat[-1].astype(float)):
                value.flat[-1] = 0.25
        return value

    return call


class SpoiltToy(Toy):
    """A device with one op that is wrong."""

    def __init__(self, wrong: str) -> None:
        super().__init__()
        self.wrong = wrong

    def run(self, ir: IR, inputs: Mapping[str, Array]) -> Sequence[Array]:
        spoil = spoilt(self.wrong)
        values: dict[int, Array] = {}
        with np.errstate(all="ignore"):
            for node in ir:
                given = [values[id] for id in node.sources]
                if isinstance(node.op, ops.Input):
                    value = inputs[node.name]
                elif isinstance(node.op, ops.HostCall):
                    value = given[0][::-1].copy()
                else:
                    value = node.op.eval(*given)
                values[node.id] = spoil(value) if node.op.name == self.wrong else value
        return [values[id] for id in ir.output_ids]


class InfiniteToy(Toy):
    """A device that makes every float infinite, and all else right."""

    def run(self, ir: IR, inputs: Mapping[str, Array]) -> Sequence[Array]:
        class Everywhere(dict[str, Eval]):
            def get(self, name: str, right: Any = None) -> Any:
                def call(*given: Any) -> Array:
                    value = np.asarray(right(*given))
                    return value if value.dtype.kind in "iub" else np.full_like(value, np.inf)

                return call

        self.changed = Everywhere()
        return super().run(ir, inputs)


@pytest.mark.parametrize("family", ["chain", "model"])
def test_infinity_is_near_to_nothing(family):
    found = conformance(InfiniteToy(), only=family)
    assert not found.passed
    assert len(found.failed) == len(found.rows) > 5


OPS = sorted({case.op for case in cases() if case.op})
OTHERS = ["graph_break", "after", "stop_gradient", "host_call"]


@pytest.mark.parametrize("name", [*OPS, *OTHERS])
def test_the_op_that_is_wrong_is_named_and_no_other(name):
    only, chosen = ("structure", ()) if name in OTHERS else ((), name)
    found = conformance(SpoiltToy(name), only=only, ops=chosen)
    assert found.wrong_ops == (name,)
    assert f"to be fixed: {name}\n" in str(found)


def test_in_whole_graphs_too_the_wrong_op_is_named():
    only = ["model", "chain", "drawn", "symbolic", "structure"]
    for name in ("mul", "max_reduce", "permute"):
        found = conformance(SpoiltToy(name), only=only)
        assert found.wrong_ops == (name,)
        assert len(found.failed) > 10


def at(where: Eval, wrong: Any, right: Eval) -> Eval:
    """Return a function that is wrong for float32 where some condition holds."""

    def call(x: Array) -> Array:
        made = right(x)
        return np.where(where(x), made.dtype.type(wrong), made) if x.dtype == np.float32 else made

    return call


HALF, SINGLE = np.dtype(np.float16), np.dtype(np.float32)


class Signed(Toy):
    """A toy that may assume nothing."""

    licence = ()


def without_signs(right: Eval) -> Eval:
    """Return a function that gives +0 where it should give -0."""

    def call(*given: Array) -> Array:
        made = right(*given)
        return np.where(made == 0, np.zeros_like(made), made) if made.dtype.kind == "f" else made

    return call


SIGNED = ["add", "mul", "mod", "sqrt", "sin", "where"]


@pytest.mark.parametrize("name", SIGNED)
def test_the_signs_of_zeros_count_where_the_licence_says_so(name):
    wrong = {name: without_signs(getattr(ops, name.title())().eval)}
    assert conformance(Toy(**wrong), only="elementwise").ok
    found = conformance(Signed(**wrong), only="elementwise")
    assert found.wrong_ops == (name,)
    assert "is 0.0, and should be -0.0" in str(found)


def test_a_device_that_keeps_all_signs_passes_without_a_licence():
    found = conformance(Signed())
    assert found.ok, str(found)


def test_the_licence_is_that_of_the_pipeline():
    zeros = Crowded("zeros")
    assert conformance(zeros, ops="sqrt").ok
    assert conformance(ll.Pipeline([zeros], licence=()), ops="sqrt").wrong_ops == ("sqrt",)
    assert conformance(ll.Pipeline([zeros], licence="no_signed_zero"), ops="sqrt").ok
    assert conformance(ll.Pipeline(licence=())).ok


CORNERS: dict[str, tuple[str, Eval]] = {
    "what is subnormal becomes 0": ("exp2", at(lambda x: x < -126, 0, ops.Exp2().eval)),
    "it overflows too early": ("exp2", at(lambda x: x > 127, np.inf, ops.Exp2().eval)),
    "the only element": ("where", lambda c, x, y: x if c.size == 1 else np.where(c, x, y)),
}


@pytest.mark.parametrize("what", CORNERS)
def test_an_op_that_is_wrong_in_one_corner_is_named(what):
    name, wrong = CORNERS[what]
    assert conformance(Toy(**{name: wrong}), only="elementwise").wrong_ops == (name,)


def test_casts_that_round_twice_or_to_the_nearest_integer_are_found():
    class Casts(Toy):
        def run(self, ir: IR, inputs: Mapping[str, Array]) -> Sequence[Array]:
            (x,) = inputs.values()
            target = ir.outputs[0].dtype.numpy
            with np.errstate(all="ignore"):
                return [self.changed["cast"](x, target)]

    def twice(x: Array, target: Any) -> Array:
        return (x.astype(SINGLE) if target == HALF else x).astype(target)

    def nearest(x: Array, target: Any) -> Array:
        return ops.Cast(DType(target.name)).eval(np.rint(x) if x.dtype.kind == "f" else x)

    def exactly(x: Array, target: Any) -> Array:
        return ops.Cast(DType(target.name)).eval(x)

    for wrong, dtypes in ((twice, "float64 float16"), (nearest, "float32 int32")):
        found = conformance(Casts(cast=wrong), only="cast", dtypes=dtypes.split())
        assert found.wrong_ops == ("cast",)
        assert conformance(Casts(cast=exactly), only="cast", dtypes=dtypes.split()).ok


def test_a_device_whose_ops_are_all_right_passes():
    found = conformance(Toy())
    assert found.ok, str(found)
    assert len(found.passed) == len(cases())
    assert not found.unsupported
    assert repr(found) == (
        f"<conformance of toy: all {len(cases())} cases passed; print(…) shows it>"
    )


def test_how_a_failure_is_told():
    found = conformance(Toy(add=lambda a, b: a - b), only="add f32[[]7]*")
    (row,) = found.failed
    assert row.run is not None
    data = list(row.run.data.values())
    text = str(row)
    a, b = data[0][0], data[1][0]
    assert text.splitlines()[0] == (
        f"failed add f32[7], f32[7]: %2[0] is {a - b!s}, and should be {a + b!s} "
        f"where %0 is {a!s} and %1 is {b!s} (7 of 7 are wrong)"
    )
    assert "  graph case(%0: f32[7], %1: f32[7]) -> (%2) {" in text
    assert "  with %1 = [" in text
    assert "  expected %2 = [" in text
    assert "  got %2 = [" in text
    assert text.splitlines()[-1] == (
        'hint: add needs fixing: it is “x + y; integers wrap around, bools are "or".”'
    )
    shown = "\n".join(text.splitlines()[1:4])
    assert parse(shown) == row.case.ir


WRONG: dict[str, tuple[Toy, str]] = {
    "error": (Toy(sqrt=lambda a: 1 // 0), "ZeroDivisionError: integer division or modulo by zero"),
    "dtype": (
        Toy(sqrt=lambda a: a.astype("f2")),
        "%1 is float16(100,), and should be float32(100,)",
    ),
}


@pytest.mark.parametrize(("toy", "told"), WRONG.values(), ids=WRONG)
def test_a_device_that_fails_otherwise(toy, told):
    (row,) = conformance(toy, only="sqrt f32[[]100]").failed
    assert (row.reason, row.blamed) == (told, "sqrt")


def test_an_output_that_is_missing():
    class Lazy(Toy):
        def run(self, ir: IR, inputs: Mapping[str, Array]) -> Sequence[Array]:
            return super().run(ir, inputs)[:1]

    found = conformance(Lazy(), only="an output*")
    assert {row.reason for row in found.failed} == {"it has 2 outputs, and 1 came"}


def test_an_index_out_of_range_must_be_an_error():
    def clipped(*of: Any) -> Array:
        return of[0][:1]

    found = conformance(Toy(gather=clipped), only="error")
    assert {row.blamed for row in found.failed} == {"gather"}
    assert "should have ended in an error" in found.failed[0].reason
    assert conformance(Toy(), only="error").ok


# -- devices that compile --------------------------------------------------------------------------


def test_a_wrong_pass_is_found_by_the_op_that_it_changes():
    wrong = ll.Rule("mul-is-add", x * y, x + y)
    found = conformance(wrong, only=["elementwise", "model"])
    assert found.wrong_ops == ("mul",)
    assert {row.label for row in found.failed} >= {"mul", "model"}


def test_what_is_wrong_only_when_fused_is_told_so():
    class Fused(Toy):
        def run(self, ir: IR, inputs: Mapping[str, Array]) -> Sequence[Array]:
            found: list[Any] = [np.array(value) for value in super().run(ir, inputs)]
            if len(found) == 1:
                found[0] += 1
            return found

    found = conformance(Fused(), only="after")
    (row,) = found.failed
    assert (row.blamed, row.note) == (None, "right where each node is an output; wrong if fused")
    assert not found.wrong_ops


@dataclass(frozen=True, init=False, repr=False)
class Crowded(ll.Pipeline):
    """A device that is wrong in large graphs, and overwrites or raises, if it is told so."""

    name = "crowded"
    how: str = ""

    def __init__(self, how: str = "") -> None:
        super().__init__()
        object.__setattr__(self, "how", how)

    def runner(self, ir: IR, specialise: Any = None) -> Any:
        if self.how == "compile" and any(isinstance(node.op, ops.Sqrt) for node in ir):
            raise DeviceError("compile: no square roots")
        return _Runner(ir, self.how)


class _Runner:
    def __init__(self, ir: IR, how: str) -> None:
        self.ir, self.how = ir, how

    def run(self, environment: Environment, wanted: Any, known: Any, trace: Any = None) -> Any:
        found: dict[int, Any] = interpret(self.ir, environment, wanted=wanted, known=known)
        if self.how == "crowd" and len(self.ir.output_ids) > 5:
            last = self.ir.output_ids[-1]
            found[last] = found[last] + 1
        if (
            self.how == "overwrite"
            and len(self.ir.inputs)
            and any(isinstance(node.op, ops.Sqrt) for node in self.ir)
        ):
            environment.data(self.ir.inputs[0])[-1:] = 0
        if self.how == "zeros":
            found = {
                id: np.where(value == 0, np.zeros_like(value), value) for id, value in found.items()
            }
        return found


def test_what_is_wrong_beside_others_alone_is_told_so():
    found = conformance(Crowded("crowd"), ops="sqrt")
    (row,) = found.failed
    assert row.note == "right alone, but wrong as one of 8 in one graph"
    assert row.blamed is None
    assert "  right alone, but wrong as one of 8 in one graph\n" in str(row)


def test_a_compile_that_fails_is_halved_to_the_case():
    found = conformance(Crowded("compile"), ops=["sqrt", "sin"], dtypes="float32")
    assert [row.case.op for row in found.failed] == ["sqrt"] * 2
    assert {row.reason for row in found.failed} == {"DeviceError: compile: no square roots"}


def test_data_that_is_overwritten_is_found():
    found = conformance(Crowded("overwrite"), ops=["sqrt", "sin"], dtypes="float64")
    assert {row.case.op for row in found.failed} == {"sqrt"}
    assert "the data of the input %0 was overwritten" in found.failed[0].reason


@pytest.mark.parametrize("family", sorted({case.family for case in cases()}))
def test_the_cpu_passes(family):
    for threads in (1, 2):
        found = conformance(ll.CPUCompiler(threads=threads), only=family)
        assert found.ok, str(found)
        assert not found.unsupported


@pytest.mark.parametrize("device", ["webgpu", ["generic", "webgpu"]])
def test_a_device_by_its_name_declares_what_it_does_not_support(device, monkeypatch):
    monkeypatch.setattr(ll.WebGPUCompiler, "unless_here", lambda self: None)
    found = conformance(device, ops="sqrt", dtypes="float64")
    assert {row.reason for row in found.unsupported} == {"float64: WGSL has none"}
    assert len(found.rows) == len(found.unsupported)


@pytest.mark.needs("jax")
def test_a_device_by_its_name_has_its_licence():
    assert conformance("generic, xla", only="elementwise", ops="mul").ok


@pytest.mark.parametrize(
    ("device", "package"), [("webgpu", "wgpu"), ("generic, xla", "jax"), (ll.XLACompiler(), "jax")]
)
def test_a_device_that_is_not_here_is_no_row_of_failures(device, package, monkeypatch):
    monkeypatch.setitem(sys.modules, package, None)
    webgpu_device.cache_clear()
    error = error_of(lambda: conformance(device, ops="sqrt"), DeviceError)
    assert str(error.hint).startswith('pip install "luminal-lab[')


# -- choosing --------------------------------------------------------------------------------------


def test_cases_are_chosen():
    chosen = [row.case for row in conformance("dce", ops=ops.Sin, dtypes=("f32", "f16")).rows]
    assert {case.op for case in chosen} == {"sin"}
    assert {str(dtype) for case in chosen for dtype in case.dtypes} == {"float32", "float16"}
    chosen = [row.case.name for row in conformance("dce", only="sum_reduce i8*").rows]
    assert len(chosen) == 3
    assert all(name.startswith("sum_reduce i8") for name in chosen)


CHOICES: dict[str, tuple[dict[str, Any], str, str]] = {
    "op": ({"ops": "sine"}, "conformance: there is no op 'sine'", "did you mean 'sin'?"),
    "family": ({"only": "veiw"}, "conformance: no case is chosen", "did you mean 'view'?"),
    "word": (
        {"unsupported": {"floot64": "why"}},
        "conformance: 'floot64' is declared as unsupported, but is no op, dtype or family",
        "did you mean 'float64'?",
    ),
}


@pytest.mark.parametrize(("chosen", "message", "hint"), CHOICES.values(), ids=CHOICES)
def test_a_choice_that_is_none(chosen, message, hint):
    error = error_of(lambda: conformance("dce", **chosen), ArgumentError)
    assert (error.message, error.hint) == (message, hint)


def test_the_table_is_the_same_each_time():
    cases.cache_clear()
    first = [(case.name, case.ir, case.runs) for case in cases()]
    cases.cache_clear()
    for (name, ir, runs), case in zip(first, cases(), strict=True):
        assert (name, ir) == (case.name, case.ir)
        for one, other in zip(runs, case.runs, strict=True):
            assert {k: v.tobytes() for k, v in one.data.items()} == {
                k: v.tobytes() for k, v in other.data.items()
            }


def test_the_table_has_every_op_and_dtype():
    names = {name for case in cases() for name in case.ops}
    own = {cls.name for cls in vars(ops).values() if isinstance(cls, type) and hasattr(cls, "name")}
    # What sessions and users put there stands for graphs of other ops.
    assert own - names == {"input", "custom_gradient", "stored", "user_kernel"}
    assert len({case.name for case in cases()}) == len(cases())


def test_a_table_of_pandas():
    pd = need("pandas")
    table = conformance("dce", ops="sqrt").to_pandas()
    assert isinstance(table, pd.DataFrame)
    assert set(table["status"]) == {"passed"}
    assert len(table) == 8


# -- pieces ----------------------------------------------------------------------------------------


def test_near_enough():
    one = np.array([1.0, np.nan, 0.0], "f4")
    assert not wrong_places(0, one, np.array([1.0, np.nan, -0.0], "f4")).any()
    near = np.array([1 + 2.0**-22, np.nan, 0.0], "f4")
    assert wrong_places(0, one, near).tolist() == [True, False, False]
    assert not wrong_places(4, one, near).any()
    far = np.array([1 + 2.0**-19, np.nan, 1e-40], "f4")
    assert wrong_places(4, one, far).tolist() == [True, False, True]
    assert not wrong_places(None, one, far).any()
    assert wrong_places(None, one, one.astype("f8")).all()


def test_graphs_are_merged_and_bound():
    one = parse("graph a(%x: f32[2]) -> (%r) { %r = sin %x : f32[2] }")
    whole, inputs = merged([one, one])
    assert inputs == [{0: "x"}, {2: "x"}]
    assert str(whole).count("sin") == 2
    text = "graph a(%x: f32[n]) -> (%r) { %r = call{body = b} %x : f32[n] }\n"
    text += "graph b(%x: f32[n]) -> (%r) { %r = pad{before = [n], after = [0]} %x : f32[2*n] }"
    made = bound(
        parse(text.replace("%r = call{body = b} %x : f32[n]", "%r = call{body = b} %x : f32[2*n]")),
        {"n": 3},
    )
    assert not made.symbols
    assert "pad{before = [3], after = [0]} %x : f32[6]" in str(made)


def test_a_primitive_op_of_any_file_of_ours_is_tried(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(ops.Sin, "__module__", f"{ops.__name__}.waves")
    tried = {case.op for case in cases() if case.family == "elementwise"}
    assert {"sin", "exp2"} <= tried
    assert not [op for op in tried if op and (op.startswith("math.") or op == "fused_mul")]

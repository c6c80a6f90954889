"""Functions that C has: found where tensors spell them, equal to what was spelled, right in C."""

import ctypes
import subprocess
from collections import Counter

import numpy as np
import pytest

import luminal_lab as ll
from luminal_lab.core.dtypes import DType
from luminal_lab.core.op import OPS
from luminal_lab.core.ops.intrinsic import PREFIX, Intrinsic
from luminal_lab.kernels.definition.define import define
from luminal_lab.kernels.definition.text import parse_definition
from luminal_lab.kernels.fuse.intrinsics import Intrinsics, spelled
from luminal_lab.kernels.prelude.prelude import prelude
from luminal_lab.kernels.prelude.rows import C_TYPES
from luminal_lab.kernels.render.values import function_of
from luminal_lab.passes.compile import compile_ir
from luminal_lab.tensor.running import run
from tests.needs import need

OPS_IN_C = [cls for cls in OPS.values() if issubclass(cls, Intrinsic)]
COMPOSED = [cls.name.removeprefix(PREFIX) for cls in OPS_IN_C]
METHODS = [n for n in COMPOSED if n not in ("gelu_tanh", "maximum", "minimum")]
PASSES = "(inline){rounds = 50}", "cse, dce", Intrinsics(), "dce"
NUMBERS = [0, 1e-30, 1e-3, 0.3, 0.5, 1, 1.5, 2.5, 5, 9.5, 20, 60, 87, 88.6, 89, 104, 200, np.inf]
SPECIAL = np.array([*NUMBERS, *(-x for x in NUMBERS), np.nan])


@pytest.fixture(autouse=True)
def special_values():
    """NumPy's warnings of them are not what is tested."""
    with np.errstate(all="ignore"):
        yield


def compiled(write, dtype="float32", *first):
    """The graph after the pass, and the ops in it but for constants and inputs."""
    cx = ll.Graph()
    write(cx.tensor((SPECIAL.size,), dtype, name="x")).retrieve()
    ir = compile_ir(cx.ir, *first, *PASSES).snapshots[-1].ir
    names = (node.op.name for node in ir if node.sources)
    return ir, Counter(name.removeprefix(PREFIX) for name in names)


# -- what is found -----------------------------------------------------------------------------


@pytest.mark.parametrize("first", [(), (ll.GenericCompiler(),)], ids=["written", "generic"])
@pytest.mark.parametrize("method", METHODS)
def test_what_a_method_spells_is_one_op(method, first):
    assert compiled(lambda x: getattr(x, method)(), "float32", *first)[1] == {method: 1}


def test_what_takes_two_values_and_other_forms_are_found_too():
    assert compiled(lambda x: x.gelu("tanh"))[1] == {"gelu_tanh": 1}
    assert compiled(lambda x: x.maximum(2.0))[1] == {"maximum": 1}
    assert compiled(lambda x: x.minimum(x.sin()))[1] == {"minimum": 1, "sin": 1}
    assert compiled(lambda x: x.elu())[1]["expm1"] == 1


@pytest.mark.parametrize("method", ["sigmoid", "silu", "exp"])
def test_a_sign_that_has_gone_into_the_spelling_is_taken_out_again(method):
    _, ops = compiled(lambda x: getattr(-x, method)(), "float32", ll.GenericCompiler())
    assert ops == {"mul": 1, method: 1}


def test_sixteen_bit_floats_are_computed_between_casts_or_as_they_are():
    assert compiled(lambda x: x.tanh(), "float16")[1] == {"cast": 2, "tanh": 1}
    assert compiled(lambda x: x.floor(), "bfloat16")[1] == {"floor": 1}


def test_in_float64_gelu_stays_as_it_is_spelled():
    assert "gelu" not in compiled(lambda x: x.gelu(), "float64")[1]
    assert compiled(lambda x: x.erf(), "float64")[1] == {"erf": 1}


def test_a_near_miss_is_left_alone():
    def nearly_exp(x):
        return x.exp2() * ((x * 0.25).exp2() * ((x * 0.125).exp2() * (x * 0.0677).exp2()))

    assert compiled(nearly_exp)[1]["exp2"] == 4


def test_a_region_stays_whose_inner_power_others_read():
    def both(x):
        power = x.exp2()
        rest = (x * 0.125).exp2() * (x * (np.log2(np.e) - 1.375)).exp2()
        return power * ((x * 0.25).exp2() * rest), power

    assert compiled(lambda x: both(x)[0])[1] == {"exp": 1}
    assert compiled(lambda x: ll.concat([y.sum(0, keepdim=True) for y in both(x)]))[1]["exp2"] == 4


def test_each_is_a_firing_that_says_what_it_is():
    cx = ll.Graph()
    (cx.tensor((4,)).tanh() + cx.tensor((4,)).gelu()).retrieve()
    cx.compile(*PASSES)
    firings = next(s for s in cx.snapshots if s.name == "intrinsics").firings
    assert sorted(firing.rule for firing in firings) == ["gelu", "tanh"]


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_values_stay_as_they_were(dtype):
    x = SPECIAL.astype(dtype)
    rough = {"float32": 1e-5, "float64": 1e-12, "float16": 2e-3}[dtype]
    for name, ir in spelled(DType(dtype)):
        made = compile_ir(ir, *PASSES).snapshots[-1].ir
        assert len(made) < len(ir)
        for start in range(x.size):
            places = [np.arange(2) + start, np.arange(2) + 7 * start]
            rows = [x[place % x.size] for place in places]
            if name == "expm1":  # one of its two forms is for x below 0
                rows = [np.minimum(row, 80) for row in rows]
            data = dict(zip((node.name for node in ir.inputs), rows, strict=False))
            before, after = (np.asarray(run(each, data)[0], float) for each in (ir, made))
            np.testing.assert_allclose(after, before, rough, 1e-38, err_msg=name)


# -- the ops -----------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["abs", "ceil", "trunc", "round", "maximum", "minimum"])
def test_where_the_sign_of_zeros_is_asked_for_c_does_not_give_another_one(method):
    cx = ll.Graph()
    x, *others = (cx.tensor((60,), name=name) for name in "xy")
    many = others if method in ("maximum", "minimum") else []
    getattr(x, method)(*many).retrieve()
    x.set(np.tile([0.0, -0.0, -0.48, 0.48, -1.5, 0.0], 10))
    others[0].set(np.tile([-0.0, 0.0, 1.0], 20))
    exact = cx.compile(ll.GenericCompiler(), Intrinsics(), licence=(), check="values")
    assert PREFIX + method not in [node.op.name for node in exact.ir]
    loose = cx.compile(ll.GenericCompiler(), Intrinsics(), check="values")
    assert PREFIX + method in [node.op.name for node in loose.ir]


def test_each_op_has_a_function_in_c():
    assert {function_of(cls()) for cls in OPS_IN_C} == set(COMPOSED)


def test_a_definition_with_one_is_its_text():
    ir, _ = compiled(lambda x: x.tanh() * x.maximum(1.0))
    definition = define(ir)
    assert "math.tanh(x[i]) * math.maximum(x[i], 1.0)" in str(definition)
    assert parse_definition(str(definition)) == definition


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    """A loop over each function."""
    cc = need("cc")
    text = prelude("c", [f"lab_{name}_{short}" for name in COMPOSED for short in ("f32", "f64")])
    for name in COMPOSED:
        for dtype in (DType.float32, DType.float64):
            c, short = C_TYPES[dtype], dtype.short
            value = f"lab_{name}_{short}(x[i]{', y[i]' if name in ('maximum', 'minimum') else ''})"
            head = f"void {name}_{short}(long n, const {c} *x, const {c} *y, {c} *z)"
            text += f"{head} {{ (void)y; for (long i = 0; i < n; i++) z[i] = {value}; }}\n"
    folder = tmp_path_factory.mktemp("intrinsics")
    (folder / "maths.c").write_text(text, encoding="utf-8")
    flags = ["-O3", "-march=native", "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math"]
    made = [cc, *flags, "-w", "-shared", "-fPIC", "-o", folder / "maths.so", folder / "maths.c"]
    subprocess.run([*made, "-lm"], check=True)
    return ctypes.CDLL(str(folder / "maths.so"))


EXACT = ("floor", "ceil", "trunc", "round", "abs", "maximum", "minimum")
ULPS = {"gelu": 8, "gelu_tanh": 8, "erf": 4.5, "silu": 3.5, "tanh": 2.5, "sigmoid": 2.5}
"""Where it is more than 2."""


def allowed(name, x, dtype):
    """How many ulps a value may be off; in gelu the rounding of an exponent is felt."""
    size = np.minimum(np.abs(np.nan_to_num(x.astype(np.float64))), 40)
    grown = {"gelu": size**2, "gelu_tanh": 4 * size + size**3 / 2}.get(name, 0)
    # What the op means is computed in float64, and in float64 is not exact itself.
    wide = 20 if name == "gelu" else 2
    return ULPS.get(name, 2) + grown + (wide + 2 * size + grown) * (dtype is DType.float64)


@pytest.mark.parametrize("dtype", [DType.float32, DType.float64])
@pytest.mark.parametrize("cls", OPS_IN_C)
def test_c_computes_what_the_op_means(library, cls, dtype):
    op, rng = cls(), np.random.default_rng(0)
    x = np.concatenate([SPECIAL, rng.uniform(-6, 20, 4000), rng.normal(size=4000) ** 9])
    x = x.astype(dtype.numpy)
    given = [x, np.roll(x, 1)] if op.commutative else [x]
    z = np.empty_like(x)
    pointers = [ctypes.c_void_p(array.ctypes.data) for array in (x, given[-1], z)]
    name = op.name.removeprefix(PREFIX)
    library[f"{name}_{dtype.short}"](ctypes.c_long(x.size), *pointers)
    wanted = op.eval(*given)
    fine = (z == wanted) | (np.isnan(z) & np.isnan(wanted))
    if name not in EXACT:
        gap = np.maximum(np.spacing(np.abs(wanted)), 1e-300)
        fine |= np.abs(z.astype(np.float64) - wanted) <= allowed(name, x, dtype) * gap
    assert fine.all(), (x[~fine][:5], z[~fine][:5], wanted[~fine][:5])

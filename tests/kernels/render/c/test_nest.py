"""Nests as C: what the source looks like, what it computes, and what comes out as vector code."""

import platform
import re
import subprocess
from pathlib import Path

import numpy as np
import pytest
from hypothesis import Phase, given, settings, strategies as st

from luminal_lab.core.dims import Symbol, evaluate as size_of
from luminal_lab.core.dtypes import DType
from luminal_lab.core.ir import IR
from luminal_lab.devices.build.toolchain import find_compiler
from luminal_lab.errors import ScheduleError
from luminal_lab.kernels.definition.define import define
from luminal_lab.kernels.definition.evaluate import evaluate
from luminal_lab.kernels.definition.text import parse_definition
from luminal_lab.kernels.kernel import Kernel
from luminal_lab.kernels.make import make_kernel
from luminal_lab.kernels.nest.text import parse_nest
from luminal_lab.kernels.prelude.prelude import prelude
from luminal_lab.kernels.render.c.nest import render_nest
from luminal_lab.kernels.render.index import condition_c, index_c
from luminal_lab.machines.machine import Machine
from tests.conftest import Golden
from tests.core.graphs import DIMS, data_for
from tests.kernels.judging import check_same, definable, interpreted
from tests.kernels.running import run_together, source_of
from tests.needs import need

AVX2, SSE = Machine(vector_bytes=32, cores=2), Machine(vector_bytes=16, cores=2)
TEXTS = {
    "matmul": """\
kernel matmul(a: f32[128, 64], b: f32[64, 96]) -> (c: f32[128, 96])
  c[i < 128, j < 96] = sum k < 64: fused(a[i, k] * b[k, j])""",
    "softmax": """\
kernel softmax(x: f32[n, 64]) -> (y: f32[n, 64])
  m[i < n] = max j < 64: x[i, j]
  e[i < n, j < 64] = exp2((x[i, j] - m[i]) * 1.442695)
  y[i < n, j < 64] = e[i, j] * recip(sum k < 64: e[i, k])""",
    "layer_norm": """\
kernel layer_norm(x: f32[n, 64], g: f32[64], b: f32[64]) -> (y: f32[n, 64])
  m[i < n] = (sum j < 64: x[i, j]) * 0.015625
  v[i < n] = (sum j < 64: fused((x[i, j] - m[i]) * (x[i, j] - m[i]))) * 0.015625
  y[i < n, j < 64] = (x[i, j] - m[i]) * recip(sqrt(v[i] + 1e-05)) * g[j] + b[j]""",
    "conv": """\
kernel conv(x: f32[2, 9, 9], w: f32[8, 2, 3, 3]) -> (y: f32[8, 9, 9])
  y[o < 8, i < 9, j < 9] = sum c < 2: sum p < 3: sum q < 3: fused(w[o, c, p, q] * \
[0 < i + p and i + p < 10 and 0 < j + q and j + q < 10: x[c, i + p - 1, j + q - 1]])""",
    "gelu": """\
kernel gelu(x: f32[n]) -> (y: f32[n])
  y[i < n] = let a = x[i] * (x[i] * x[i] * 0.044715 + 1.0); \
x[i] * recip(exp2(a * -2.302208) + 1.0)""",
    "total": """\
kernel total(x: f32[n, m]) -> (y: f32[])
  y[] = sum i < n: sum j < m: x[i, j]""",
    "embedding": """\
kernel embedding(t: i64[n], w: f32[100, 32]) -> (y: f32[n, 32])
  y[i < n, j < 32] = w[t[i], j]""",
    "bf16_dot": """\
kernel bf16_dot(x: bf16[n], y: bf16[n]) -> (z: bf16[])
  z[] = bf16(sum i < n: fused(f32(x[i]) * f32(y[i])))""",
}


def kernel(text: str, machine: Machine = AVX2, name: str | None = None) -> Kernel:
    definition = parse_definition(text)
    return make_kernel(definition, name or definition.name, machine)


# -- how it looks ----------------------------------------------------------------------------------


SOURCES = [*((name, AVX2) for name in TEXTS), ("matmul", SSE), ("softmax", SSE)]
"""Narrow vectors are seen in these two."""


@pytest.mark.parametrize(("name", "machine"), SOURCES)
def test_the_source_of_a_kernel(name: str, machine: Machine, golden: Golden) -> None:
    source = kernel(TEXTS[name], machine).source
    assert max(map(len, source.splitlines())) <= 100
    golden(source + "\n", f"golden/c/{name}{'' if machine is AVX2 else '_sse'}.c")


def body(text: str, header: str = "x: f32[n], y: f32[n]) -> (z: f32[n]") -> str:
    """Return the lines that a nest's statement becomes."""
    nest = parse_nest(f"nest k({header})\n  for i < n:\n    {text}")
    lines = render_nest(nest, "k").text.splitlines()
    return "\n".join(line.strip() for line in lines[lines.index(
        "    for (lab_i64 i = 0; i < n; i++) {") + 1 : -2])  # fmt: skip


@pytest.mark.parametrize(
    ("text", "c"),
    [
        ("z[i] = x[i] - y[i]", "z[i] = x[i] - y[i];"),
        ("z[i] = x[i] * -1.0 + y[i]", "z[i] = y[i] - x[i];"),
        ("z[i] = x[i] * -1.0", "z[i] = -x[i];"),
        ("z[i] = x[i] + -2.0", "z[i] = x[i] - 2.0f;"),
        ("z[i] = x[i] - (y[i] - 1.0)", "z[i] = x[i] - (y[i] - 1.0f);"),
        ("z[i] = x[i] - -0.0", "z[i] = x[i] + 0.0f;"),
        ("z[i] = x[i] * (y[i] + 1.0) * y[0]", "z[i] = x[i] * (y[i] + 1.0f) * y[0];"),
        ("z[i] = x[i] + (y[i] + 1.0)", "z[i] = x[i] + (y[i] + 1.0f);"),
        ("z[i] = where(x[i] < inf, nan, -inf)", "z[i] = x[i] < LAB_INF ? LAB_NAN : -LAB_INF;"),
        ("z[i] = [0 < i: x[i - 1]]", "z[i] = 0 < i ? x[i - 1] : 0;"),
        ("z[i] max= x[n - 1 - i]", "z[i] = lab_max_f32(x[n - i - 1], z[i]);"),
        ("z[i] = let a = exp2(x[i]) + 1.0; a * a", "const float v0 = lab_exp2_f32(x[i]) + 1.0f;\n"
         "z[i] = v0 * v0;"),
    ],
)  # fmt: skip
def test_statements_look_as_one_would_write_them(text: str, c: str) -> None:
    assert body(text) == c


@pytest.mark.parametrize(
    ("dtype", "loops", "read", "is_hidden"),
    [
        ("f32", "j < 12", "j < 5: x[j]", True),
        ("f32", "j < 12", "j < 5: x[11 - j]", True),
        ("f32", "j < 12", "j < 5: x[j // 2]", True),
        ("f32", "j < 12", "j < 5: x[2*j]", False),
        ("f32", "j < 12", "j < 5: x[2*(j // 2)]", False),
        ("f32", "j < 12", "j < 5: x[4*(j // 2) + j % 2]", False),
        ("f32", "j < 3", "j < 2: x[j]", False),
        ("f32", "j < 4", "j < 2: x[j]", True),
        ("i16", "j < 4", "j < 2: x[j]", False),
        ("i16", "j < 8", "j < 2: x[j]", True),
        ("f32", "i < 4, j < 3", "i + j < 2: x[3*i + j]", True),
        ("f32", "i < 4, j < 3", "i + j < 2: x[4*i + j]", False),
        ("f32", "i < 17, j < 12", "i + j < 2: x[j]", False),
        ("f32", "i < 17, j < 12", "i < 2 and j < 2: x[j]", True),
        ("f32", "j < n", "j < 5: x[j]", False),
    ],
)
def test_a_condition_is_hidden_only_where_a_vector_could_be_read(
    dtype: str, loops: str, read: str, is_hidden: bool
) -> None:
    lines = [f"for {loop}:" for loop in loops.split(", ")] + [f"y[j] = [{read}]"]
    body = "".join(f"\n{'  ' * depth}{line}" for depth, line in enumerate(lines, 1))
    nest = parse_nest(f"nest k[n: 1..64](x: {dtype}[64]) -> (y: {dtype}[64]){body}")
    assert ("LAB_HIDE" in render_nest(nest, "k").text) == is_hidden


def test_index_arithmetic() -> None:
    i, n, at = Symbol("i", 0, 9), Symbol("n"), Symbol("int")
    assert index_c(64 - 6 * i) == "64 - 6*i"
    assert index_c(-i) == "-i"
    assert index_c(i + 1000 * n + 2 * i * n) == "2*i*n + 1000*n + i"
    assert index_c(-2 * (i // 3)) == "-2*(i / 3)"
    assert index_c((i // 3) * (i % 2)) == "(i % 2)*(i / 3)"
    assert index_c((i - n) // 4) == "floordiv(i - n, 4)"
    assert index_c((i + n) // (n + 1)) == "(i + n) / (n + 1)"
    assert index_c(at + 1) == "int_ + 1"
    assert index_c(n * (1 << 40)) == "1099511627776LL*n"
    assert condition_c((2 * i < n) * (n < 7)) == "2*i < n && n < 7"


@given(st.data())
def test_index_arithmetic_is_the_same_in_c_and_in_python(data: st.DataObject) -> None:
    names = {name: Symbol(name, 0, 20) for name in "ij"} | {"n": Symbol("n", 1, 20)}
    values = {name: data.draw(st.integers(1, 20)) for name in names}
    dim = data.draw(st.sampled_from(list(names.values())))
    for _ in range(data.draw(st.integers(1, 8))):
        other = data.draw(st.one_of(st.integers(1, 9), st.sampled_from(list(names.values()))))
        how = data.draw(st.sampled_from("+-*/%<r"))
        match how:
            case "+":
                dim = dim + other
            case "-":
                dim = dim - other
            case "*":
                dim = dim * other
            case "/":
                dim = dim // other
            case "%":
                dim = dim % other
            case "<":
                dim = (dim < other) + 0
            case _:
                dim = other - dim
    text = re.sub(r"(\d)LL", r"\1", index_c(dim))
    # What C divides is not negative, so that Python's division is the same.
    text = re.sub(r"(?<!/) / ", " // ", text)
    scope = {**values, "floordiv": lambda a, b: a // b, "floormod": lambda a, b: a % b}
    assert eval(text, {}, scope) == size_of(dim, values)


def test_each_line_knows_the_ops_behind_it() -> None:
    nest = parse_nest(
        "nest k(x: f32[n], t: i64[n]) -> (z: f32[])\n"
        "  local a: f32[] in registers\n  a = 0.0\n"
        "  for i < n:\n    a += exp2(x[i] - 1.0) * x[t[i]]\n  z = sqrt(a)"
    )
    found = render_nest(nest, "k")
    lines = found.text.splitlines()
    assert len(lines) == len(found.ops_of_line)
    ops = {line.strip(): ops for line, ops in zip(lines, found.ops_of_line, strict=True) if ops}
    assert ops == {
        "a += lab_exp2_f32(x[i] - 1.0f) * x[v0];": ("add", "exp2", "gather", "mul", "sum_reduce"),
        "z[0] = lab_sqrt_f32(a);": ("sqrt",),
    }
    made = kernel(TEXTS["softmax"])
    assert len(made.ops_of_line) == len(made.source.splitlines())
    assert {"exp2", "max_reduce", "sum_reduce", "recip"} <= {o for x in made.ops_of_line for o in x}


def test_names_that_c_or_the_source_have() -> None:
    text = """\
kernel I(for: f32[int, 4], lab_step: f32[4], I: f32[int]) -> (y: f32[int, 4], while: f32[int])
  y[auto < int, v0 < 4] = for[auto, v0] * lab_step[v0] + exp2(for[auto, v0] - I[auto])
  while[auto < int] = max short < 4: for[auto, short]"""
    made = kernel(text, name="I")
    (running,) = run_together([made])
    data = np.arange(12, dtype=np.float32).reshape(3, 4)
    given = {"for": data, "lab_step": data[1], "I": data[:, 0].copy()}
    want = evaluate(parse_definition(text), given, {"int": 3})
    got = running(given, {"int": 3})
    check_same(got["y"], want["y"], exactly=False)
    assert got["while"].tolist() == want["while"].tolist()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("z[j + 8*i] = exp2(x[j])", "vector j: exp2(x[j]) has no form for vectors"),
        ("z[2*j] = x[j]", "vector j: neighbours along it do not lie side by side in z"),
        ("z[j] max= x[j]", "vector j: the maximum in z has no form for vectors"),
    ],
)
def test_what_no_vectors_can_do(text: str, message: str) -> None:
    nest = parse_nest(
        f"nest k(x: f32[8]) -> (z: f32[64])\n  for i < 8:\n    vector j < 8:\n      {text}"
    )
    with pytest.raises(ScheduleError) as caught:
        render_nest(nest, "k")
    assert str(caught.value) == f"{message}\nhint: a simd loop leaves it to the compiler"


def test_an_array_of_vectors_is_read_lane_by_lane_elsewhere() -> None:
    text = """\
nest k(x: f32[64]) -> (z: f32[64])
  for i < 4:
    local t: f32[16] in registers
    for j < 2:
      vector l < 8:
        t[l + 8*j] = x[l + 8*j + 16*i] + 1.0
    t[3] = 0.5
    for q < 16:
      z[q + 16*i] = t[q]"""
    lines = render_nest(parse_nest(text), "k").text
    assert "z[16*i + q] = t[q / 8][q % 8];" in lines
    assert "t[0][3] = 0.5f;" in lines
    with pytest.raises(ScheduleError, match="vector q: it has 16 lanes, and t is in vectors of 8"):
        render_nest(parse_nest(text.replace("for q", "vector q")), "k")


# -- what it computes ------------------------------------------------------------------------------

DTYPES = [d for d in DType if d is not DType.bool_]


def cases(dtype: DType) -> list[str]:
    """Return definitions for a dtype."""
    d = dtype.short
    found = [
        f"kernel copy(x: {d}[n, 5]) -> (y: {d}[5, n])\n  y[i < 5, j < n] = x[j, i]",
        f"kernel sums(x: {d}[n, 5]) -> (y: {d}[n], z: {d}[5], a: {d}[])\n"
        "  y[i < n] = sum j < 5: x[i, j]\n  z[j < 5] = sum i < n: x[i, j]\n"
        "  a[] = sum i < n: sum j < 5: x[i, j]",
        f"kernel tops(x: {d}[n, 5]) -> (y: {d}[n], z: {d}[5])\n"
        "  y[i < n] = max j < 5: x[i, j]\n  z[j < 5] = max i < n: x[i, j]",
        f"kernel dots(x: {d}[n, 5], w: {d}[5, 9]) -> (y: {d}[n, 9])\n"
        "  y[i < n, j < 9] = sum k < 5: x[i, k] * w[k, j]",
        f"kernel chain(x: {d}[n, 5]) -> (y: {d}[n, 5], l: bool[n, 5], c: {d}[n])\n"
        "  y[i < n, j < 5] = where(x[i, j] < x[i, 0], x[i, j] + x[i, 1], x[i, j] * x[i, j])\n"
        "  l[i < n, j < 5] = x[i, j] < x[0, j]\n"
        f"  c[i < n] = [1 < i: x[i - 2, 0]] + {d}[i]",
        f"kernel rows(t: i32[4], x: {d}[n, 5]) -> (y: {d}[4, 5])\n  y[i < 4, j < 5] = x[t[i], j]",
    ]
    if dtype.is_float:
        found.append(
            f"kernel soft(x: {d}[n, 5]) -> (y: {d}[n, 5])\n  m[i < n] = max j < 5: x[i, j]\n"
            "  y[i < n, j < 5] = exp2(x[i, j] - m[i]) * recip(sum k < 5: exp2(x[i, k] - m[i]))"
        )
    return found


def data(text: str, n: int) -> dict[str, np.ndarray]:
    """Return inputs for a definition."""
    random = np.random.default_rng(1)
    found: dict[str, np.ndarray] = {}
    for name, type in parse_definition(text).inputs:
        shape = [size_of(size, {"n": n}) for size in type.shape]
        if name == "t":
            found[name] = random.integers(0, n, shape).astype(type.dtype.numpy)
        elif type.dtype.is_float:
            found[name] = random.standard_normal(shape).astype(type.dtype.numpy)
        else:
            low, high = type.dtype.limits
            found[name] = random.integers(max(low, -99), min(high, 99), shape).astype(
                type.dtype.numpy
            )
    return found


def agree(compiler: str | None, dtypes: list[DType], machine: Machine) -> None:
    texts = [text for dtype in dtypes for text in cases(dtype)]
    kernels = [kernel(text, machine, f"k{place}") for place, text in enumerate(texts)]
    for text, running in zip(texts, run_together(kernels, compiler), strict=True):
        for n in (1, 7, 13):
            given = data(text, n)
            want = evaluate(parse_definition(text), given, {"n": n})
            for name, got in running(given, {"n": n}).items():
                check_same(got, want[name], exactly=got.dtype.kind not in "fV")


@pytest.mark.parametrize("machine", [AVX2, SSE], ids=["avx2", "sse"])
def test_all_dtypes_come_out_as_defined(machine: Machine) -> None:
    agree(None, DTYPES, machine)


def test_clang_computes_the_same() -> None:
    need("ziglang")
    agree("ziglang", [DType.float32, DType.bfloat16, DType.int8], AVX2)


@settings(max_examples=4, phases=[Phase.generate])
@given(st.lists(definable(), min_size=6, max_size=6), st.sampled_from([AVX2, SSE]))
def test_random_graphs_come_out_the_same(graphs: list[IR], machine: Machine) -> None:
    definitions = [define(ir) for ir in graphs]
    kernels = [make_kernel(d, f"k{place}", machine) for place, d in enumerate(definitions)]
    for ir, definition, running in zip(graphs, definitions, run_together(kernels), strict=True):
        values = data_for(ir)
        names = [buffer.name for buffer in definition.inputs]
        given = {name: values[node.name] for name, node in zip(names, ir.inputs, strict=True)}
        found = running(given, DIMS)
        for output, theirs in zip(definition.outputs, interpreted(ir, values), strict=True):
            check_same(found[output.name], theirs, exactly=False)


# -- what the compiler makes of it -----------------------------------------------------------------


@pytest.mark.parametrize("name", ["softmax", "layer_norm", "gelu"])
def test_simd_loops_become_vector_code(name: str, tmp_path: Path) -> None:
    compiler = find_compiler()
    told = subprocess.run([*compiler.command, "--version"], capture_output=True, text=True)
    if "Free Software Foundation" not in told.stdout:
        pytest.skip("only gcc says what it made vector code of")
    source = source_of(kernel(TEXTS[name]))
    path = tmp_path / "kernel.c"
    path.write_text(source)
    flags = ["-std=gnu11", "-O3", "-fopenmp-simd", "-fno-math-errno", "-fno-trapping-math", "-c"]
    said = subprocess.run(
        [*compiler.command, *flags, "-fopt-info-vec", "-o", str(tmp_path / "k.o"), str(path)],
        capture_output=True, text=True, check=True,
    ).stderr  # fmt: skip
    vectorised = {
        int(line) for line in re.findall(r"kernel\.c:(\d+):\d+: optimized: loop vect", said)
    }
    lines = source.splitlines()
    loops = [at for at, line in enumerate(lines, 1) if line.startswith("#pragma omp simd")]
    assert loops
    for at in loops:
        end = next(n for n, line in enumerate(lines[at:], at + 1) if line.endswith("    }"))
        assert any(at <= line <= end for line in vectorised), (
            lines[at - 1 : end],
            sorted(vectorised),
        )


@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="AVX2 is of x86")
@pytest.mark.parametrize(
    ("function", "count", "reads", "writes"),
    [
        ("lab_widen_i8", ", 32", "lab_i8", "float"),
        ("lab_widen_u8", ", 32", "lab_u8", "float"),
        ("lab_widen_f16", ", 32", "lab_f16", "float"),
        ("lab_widen_bf16", ", 32", "lab_bf16", "float"),
        ("lab_words_i8", ", 8", "lab_i8", "lab_i32"),
        ("lab_words_u8", ", 4", "lab_u8", "lab_i32"),
        ("lab_fours_f32", "", "float", "float"),
        ("lab_across_f32", "", "float", "float"),
    ],
)
def test_values_stay_in_registers_with_avx2(
    function: str, count: str, reads: str, writes: str, tmp_path: Path
) -> None:
    # A load of 16 bytes of which 8 have just been stored waits longer than all else takes.
    given = "y, 8, x, 16, 6, 16" if function == "lab_across_f32" else f"y, x{count}"
    source = f"""{prelude("c", {function})}
void widen({writes} *restrict y, const {reads} *restrict x) {{ {function}({given}); }}"""
    (tmp_path / "k.c").write_text(source)
    flags = ["-std=gnu11", "-O3", "-march=haswell", "-fomit-frame-pointer", "-S", "-o", "k.s"]
    subprocess.run([*find_compiler().command, *flags, "k.c"], cwd=tmp_path, check=True)
    code = (tmp_path / "k.s").read_text()
    assert "mm0" in code
    assert not re.findall(r"\(%[re](?:sp|bp)\)", code.partition("widen:")[2].partition("ret")[0])


def test_loops_of_one_iteration_are_left_out():
    nest = parse_nest("""nest one(x: f32[n, 4]) -> (y: f32[n, 4])
  for i < n:
    for a < 1:
      unroll b < 1:
        simd j < 4:
          y[a + i, j] = x[i, 4*b + j]""")
    text = render_nest(nest, "one").text
    assert re.findall(r"for \(.*\)", text) == [
        "for (lab_i64 i = 0; i < n; i++)",
        "for (lab_i64 j = 0; j < 4; j++)",
    ]
    assert "y[4*i + j] = x[4*i + j];" in text


PAIR = "z[i] = bit_or(u16(x[2*i]), shift_left(u16({}), {}_u16))"
BYTES = "x: u8[2*n], y: u8[2*n]) -> (z: u16[n]"


def test_two_neighbouring_bytes_are_read_as_a_word() -> None:
    assert body(PAIR.format("x[2*i + 1]", 8), BYTES) == "z[i] = lab_pair(x + 2*i);"
    for other in ("y[2*i + 1]", 8), ("x[2*i]", 8), ("x[2*i + 1]", 7):
        assert "lab_pair" not in body(PAIR.format(*other), BYTES)


@pytest.mark.parametrize("dtype", ["f16", "bf16", "i8"])
def test_what_is_narrow_is_made_float32_ahead_of_a_loop_that_adds_it_up(dtype: str):
    text = f"""nest dot(x: {dtype}[8, 64], w: {dtype}[64]) -> (y: f32[8])
  for i < 8:
    local p: f32[32] in scratch
    simd j < 32:
      p[j] = 0.0
    for k < 2:
      simd j_2 < 32:
        p[j_2] += f32(x[i, 32*k + j_2]) * f32(w[32*k + j_2])
    for j_3 < 32:
      y[i] = p[j_3]"""
    source = render_nest(parse_nest(text), "dot").text
    assert f"lab_widen_{dtype}(v0, x + (64*i + 32*k), 32);" in source
    assert "p[j_2] += v0[j_2] * v1[j_2];" in source
    # Not what is read only where something holds, nor what does not lie side by side.
    other = text.replace("f32(w[32*k + j_2])", "f32(w[2*j_2])")
    assert render_nest(parse_nest(other), "dot").text.count(f"lab_widen_{dtype}") == 1
    other = text.replace("f32(w[32*k + j_2])", "[j_2 < i: f32(w[32*k + j_2])]")
    assert render_nest(parse_nest(other), "dot").text.count(f"lab_widen_{dtype}") == 1
    # Nor what is more than made a float, unless it is bytes of bytes.
    other = text.replace("f32(w[", "f32(w[32*k + j_2] + w[")
    assert render_nest(parse_nest(other), "dot").text.count("lab_widen_i8") == 2 * (dtype == "i8")


ZEROS = """nest k(x: f32[64]) -> (z: f32[64])
  for i < 4:
    local t: f32[2, 8] in registers
    for j < 2:
      simd l < 8:
        t[j, l] = 0.0
    t[1, 3] = x[i]
    for m < 2:
      for n < 8:
        z[16*i + 8*m + n] = t[m, n]"""


@pytest.mark.parametrize(
    ("old", "new", "is_declared"),
    [
        ("", "", True),
        ("= 0.0", "= -0.0", False),
        ("= 0.0", "= x[l]", False),
        ("= 0.0", "+= 0.0", False),
        ("t[j, l]", "t[0, l]", False),
        ("t: f32[2, 8]", "t: f32[3, 8]", False),
        ("simd l < 8", "simd l < 7", False),
        ("simd l", "for l", False),
        ("    for j", "    t[0, 0] = 1.0\n    for j", False),
    ],
)
def test_an_array_that_begins_with_zeros_is_declared_so(
    old: str, new: str, is_declared: bool
) -> None:
    lines = render_nest(parse_nest(ZEROS.replace(old, new, 1)), "k").text
    assert ("t[16] LAB_ALIGNED = {0};" in lines) == is_declared
    assert ("#pragma omp simd" in lines) == (not is_declared and new != "for l")


def test_a_large_array_is_filled_by_a_loop() -> None:
    text = ZEROS.replace("t: f32[2, 8]", "t: f32[2, 40]").replace("simd l < 8", "simd l < 40")
    assert "= {0}" not in render_nest(parse_nest(text), "k").text


SUM_OF = """nest total(x: f32[4, 64]) -> (y: f32[4])
  for i < 4:
    simd j < {size}:
      y[i] {how} {term}"""


@pytest.mark.parametrize(
    ("size", "how", "term", "is_call"),
    [
        (32, "+=", "x[i, j + 8]", True),
        (24, "+=", "x[i, j]", False),
        (32, "max=", "x[i, j]", False),
        (32, "+=", "x[i, 2*j]", False),
        (32, "+=", "x[i, j] * 2.0", False),
    ],
)
def test_neighbours_are_added_up_by_halves(size: int, how: str, term: str, is_call: bool) -> None:
    nest = parse_nest(SUM_OF.format(size=size, how=how, term=term))
    source = render_nest(nest, "total").text
    assert ("y[i] += lab_joined_f32(x + (64*i + 8), 32);" in source) == is_call
    assert ("lab_joined" in source) == is_call


ACROSS = """nest turn(x: f32[6, 16]) -> (y: f32[16, 20])
  for j < 16:
    {kind} i < {rows}:
      y[{column}, i] = {term}"""


@pytest.mark.parametrize(
    ("kind", "rows", "column", "term", "is_call"),
    [
        ("simd", "6", "j", "x[i, j]", True),
        ("for", "6", "j", "x[i, j]", False),
        ("simd", "1", "j", "x[i, j]", False),
        ("simd", "6", "0", "x[i, j]", False),
        ("simd", "6", "j", "x[i, j] * 2.0", False),
        ("simd", "6", "j", "x[j // 4, i]", False),
        ("simd", "6", "j + i", "x[i, j]", False),
    ],
)
def test_rows_become_columns_in_one_go(
    kind: str, rows: str, column: str, term: str, is_call: bool
) -> None:
    nest = parse_nest(ACROSS.format(kind=kind, rows=rows, column=column, term=term))
    source = render_nest(nest, "turn").text
    assert ("lab_across_f32(y, 20, x, 16, 6, 16);" in source) == is_call
    assert ("lab_across" in source) == is_call


@pytest.mark.parametrize("rows", [2, 3, 4, 5, 6, 7, 8, 12])
def test_the_last_rows_become_columns_as_well(rows: int) -> None:
    need("cc")
    text = """kernel turn(x: f32[n, 12]) -> (y: f32[12, n])
  y[j < 12, i < n] = x[i, j]"""
    schedule = f"split i by {rows} as block, own\nreorder i.block, j, i.own\nsimd i.own"
    turned = kernel(text).rescheduled(schedule)
    assert f", x + {12 * rows}*i_block, 12, {rows}, 12);" in turned.source
    (running,) = run_together([turned])
    for size in (1, rows, 2 * rows + 1, 3 * rows - 1):
        x = np.random.default_rng(rows).standard_normal((size, 12), "float32")
        np.testing.assert_array_equal(running({"x": x}, {"n": size})["y"], x.T)


BITS = """nest dot(x: u8[8, 64], w: f32[64]) -> (y: f32[8])
  for i < 8:
    local p: f32[32] in scratch
    simd j < 32:
      p[j] = 0.0
    for k < 2:
      simd j_2 < 32:
        p[j_2] += f32(bit_and(shift_right(x[i, 32*k + j_2], u8[k] * 4_u8), 15_u8)) * w[j_2]
    for j_3 < 32:
      y[i] = p[j_3]"""


def test_bytes_are_made_of_bytes_in_words_and_then_widened():
    source = render_nest(parse_nest(BITS), "dot").text
    made, widened, added = (
        source.index(text)
        for text in (
            "v1[j_2] = ",
            "lab_widen_u8(v0, (const lab_u8 *)v1, 32);",
            "p[j_2] += v0[j_2] * w[j_2];",
        )
    )
    assert made < widened < added
    assert "lab_u64 v1[4] LAB_ALIGNED;" in source
    # What words cannot do is done byte by byte.
    sums = BITS.replace("bit_and(shift", "x[i, j_2] + bit_and(shift")
    source = render_nest(parse_nest(sums), "dot").text
    assert "lab_u8 v1[32] LAB_ALIGNED;" in source
    assert "lab_widen_u8(v0, v1, 32);" in source
    # Not what lies apart, nor what is read only where something holds.
    for old, new in (("x[i, 32*k + j_2]", "x[i, 2*j_2]"), ("f32(bit", "[j_2 < i: f32(bit")):
        other = BITS.replace(old, new).replace(") * w", ")] * w" if new[0] == "[" else ") * w")
        assert "lab_widen" not in render_nest(parse_nest(other), "dot").text


def test_a_condition_that_is_the_same_for_all_of_a_row_is_asked_before_the_row():
    nest = parse_nest("""nest wide(x: f16[6, 16]) -> (y: f32[8, 16])
  for i < 8:
    simd j < 16:
      y[i, j] = [i < 6: f32(x[i, j])]""")
    source = render_nest(nest, "wide").text
    assert source.count("if (i < 6)") == source.count("} else {") == 1
    assert "lab_widen_f16(v0, x + 16*i, 16);" in source


def test_a_few_bytes_become_integers_before_their_bits_are_taken_apart():
    nest = parse_nest("""nest few(x: u8[8, 12]) -> (y: f32[8, 4])
  for i < 8:
    simd j < 4:
      y[i, j] = f32(bit_and(i32(x[i, j + 4]), 63_i32))""")
    source = render_nest(nest, "few").text
    assert "lab_words_u8(v0, x + (12*i + 4), 4);" in source
    assert "y[4*i + j] = lab_cast_i32_f32(v0[j] & 63);" in source


def test_one_half_outside_of_loops_of_vectors_is_widened_by_an_instruction():
    nest = parse_nest("""nest scaled(x: f16[8], w: f32[8, 16]) -> (y: f32[8, 16])
  for i < 8:
    local s: f32[] in registers
    s = f32(x[i])
    simd j < 16:
      y[i, j] = w[i, j] * s * f32(x[0])""")
    source = render_nest(nest, "scaled").text
    assert "s = lab_one_f16_f32(x[i]);" in source
    assert "lab_cast_f16_f32(x[0])" in source

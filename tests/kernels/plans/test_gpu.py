"""The default schedules of GPUs: what they choose, what it computes, and how it reads."""

from collections.abc import Mapping

import numpy as np
import pytest

from luminal_lab.core.dims import evaluate as size_of
from luminal_lab.core.dtypes import Array, DType
from luminal_lab.core.op import TensorType
from luminal_lab.emulator import Call, Trace, emulate
from luminal_lab.errors import ScheduleError
from luminal_lab.kernels.definition.evaluate import evaluate
from luminal_lab.kernels.definition.terms import Apply, Fold, walk
from luminal_lab.kernels.definition.text import parse_definition
from luminal_lab.kernels.gpu import GPU, apple, gpu_of, webgpu
from luminal_lab.kernels.kernel import Kernel
from luminal_lab.kernels.make import make_gpu_kernel
from luminal_lab.kernels.nest.evaluate import evaluate_nest
from luminal_lab.kernels.nest.nest import Nest
from luminal_lab.kernels.nest.text import parse_nest
from luminal_lab.kernels.render.gpu.program import gpu_source
from luminal_lab.kernels.steps.schedule import parse_schedule
from tests.conftest import Golden
from tests.kernels.judging import check_same

TEXTS = {
    "gelu": """\
kernel gelu(x: f32[n, 64], b: f32[64]) -> (y: f32[n, 64])
  y[i < n, j < 64] = let a = x[i, j] + b[j]; a * recip(exp2(a * -2.302208) + 1.0)""",
    "softmax": """\
kernel softmax(x: f32[n, 160]) -> (y: f32[n, 160])
  m[i < n] = max j < 160: x[i, j]
  e[i < n, j < 160] = exp2((x[i, j] - m[i]) * 1.442695)
  y[i < n, j < 160] = e[i, j] * recip(sum k < 160: e[i, k])""",
    "one_pass": """\
kernel one_pass(x: f32[n, 160]) -> (y: f32[n, 160])
  y[i < n, j < 160] = exp2(x[i, j] - m) * recip(l) where (m, l) = \
fold k < 160 from (-3.4028235e+38, 0.0): \
let a = math.maximum(m, x[i, k]); (a, l * exp2(m - a) + exp2(x[i, k] - a))""",
    "moments": """\
kernel moments(x: f32[n, 64]) -> (y: f32[n])
  y[i < n] = acc - l * l * 0.015625 where (l, acc) = \
fold j < 64 from (0.0, 0.0): (l + x[i, j], acc + x[i, j] * x[i, j])""",
    "decay": """\
kernel decay(x: f32[n, 64]) -> (y: f32[n])
  y[i < n] = l where (l) = fold j < 64 from (1.0): (l * 0.5 + x[i, j])""",
    "rms_norm": """\
kernel rms_norm(x: bf16[n, 64], g: bf16[64]) -> (y: bf16[n, 64])
  m[i < n] = (sum j < 64: fused(f32(x[i, j]) * f32(x[i, j]))) * 0.015625
  y[i < n, j < 64] = bf16(f32(x[i, j]) * recip(sqrt(m[i] + 1e-05))) * g[j]""",
    "columns": """\
kernel columns(x: f32[n, 72]) -> (y: f32[72])
  y[j < 72] = sum i < n: x[i, j]""",
    "total": """\
kernel total(x: f32[n, 256]) -> (y: f32[])
  y[] = sum i < n: sum j < 256: x[i, j]""",
    "matmul": """\
kernel matmul(a: f32[n, 40], b: f32[40, 48]) -> (c: f32[n, 48])
  c[i < n, j < 48] = (sum k < 40: fused(a[i, k] * b[k, j])) * 2.0""",
    "half_matmul": """\
kernel half_matmul(a: f16[n, 40], b: f16[48, 40], z: f16[48]) -> (c: f16[n, 48])
  c[i < n, j < 48] = (sum k < 40: fused(a[i, k] * b[j, k])) + z[j]""",
    "deep_matmul": """\
kernel deep_matmul(a: bf16[n, 136], b: bf16[136, 48]) -> (c: f32[n, 48])
  c[i < n, j < 48] = sum k < 136: fused(f32(a[i, k]) * f32(b[k, j]))""",
    "quantised": """\
kernel quantised(x: f32[64], w: i8[96, 64], s: f16[96, 2]) -> (y: f32[96])
  y[i < 96] = sum k < 64: fused(x[k] * f32(w[i, k]) * f32(s[i, k//32]))""",
    "convolution": """\
kernel convolution(x: f32[16, 9, 9], w: f32[16, 16, 3, 3]) -> (y: f32[16, 9, 9])
  y[o < 16, i < 9, j < 9] = sum c < 16: sum p < 3: sum q < 3: fused(w[o, c, p, q] * \
[0 < i + p and i + p < 10 and 0 < j + q and j + q < 10: x[c, i + p - 1, j + q - 1]])""",
    "attention": """\
kernel attention(q: f32[2, n, 16], k: f32[2, n, 16], v: f32[2, n, 16]) -> (O: f32[2, n, 16])
  s[h < 2, i < n, j < n] = where(i32[i] < i32[j], -inf, \
sum d < 16: fused(q[h, i, d] * k[h, j, d]))
  m[h < 2, i < n] = max j < n: s[h, i, j]
  l[h < 2, i < n] = sum j < n: exp2((s[h, i, j] - m[h, i]) * 1.442695)
  O[h < 2, i < n, d < 16] = sum j < n: fused(exp2((s[h, i, j] - m[h, i]) * 1.442695) * \
recip(l[h, i]) * v[h, j, d])""",
    "decode_attention": """\
kernel decode_attention(q: f32[2, 16], k: f32[2, m, 16], v: f32[2, m, 16]) -> (O: f32[2, 16])
  s[h < 2, j < m] = where(i64[j] < 3, -inf, sum d < 16: fused(q[h, d] * k[h, j, d]))
  t[h < 2] = max j < m: s[h, j]
  l[h < 2] = sum j < m: exp2((s[h, j] - t[h]) * 1.442695)
  O[h < 2, d < 16] = sum j < m: \
fused(exp2((s[h, j] - t[h]) * 1.442695) * recip(l[h]) * v[h, j, d])""",
    "mean": """\
kernel mean(s: f32[n, m], v: f32[m, 24]) -> (O: f32[n, 24])
  O[i < n, d < 24] = acc * recip(l) where (m_2, l, acc) = \
fold j < m from (-3.4028235e+38, 0.0, 0.0): let a = math.maximum(m_2, s[i, j]); \
let b = exp2((a - m_2) * -1.0); let c = exp2(s[i, j] - a); \
(a, l * b + c, acc * b + fused(c * v[j, d]))""",
    "powers": """\
kernel powers(x: f32[n, 24], w: f32[24, m]) -> (O: f32[n, m])
  O[i < n, j < m] = (sum k < 24: fused(x[i, k] * w[k, j])) - t - log2(l) where (t, l) = \
fold p < m from (-3.4028235e+38, 0.0): \
let a = math.maximum(t, sum k < 24: fused(x[i, k] * w[k, p])); \
(a, l * exp2((a - t) * -1.0) + exp2((sum k < 24: fused(x[i, k] * w[k, p])) - a))""",
    "norm_matmul": """\
kernel norm_matmul(x: f32[n, 64], w: f32[64, 48]) -> (O: f32[n, 48])
  s[i < n] = recip(sqrt((sum j < 64: fused(x[i, j] * x[i, j])) * 0.015625 + 1e-05))
  O[i < n, k < 48] = s[i] * (sum j < 64: fused(x[i, j] * w[j, k]))""",
    "decode": """\
kernel decode(x: f32[64], w: f32[64, 48]) -> (y: f32[48])
  y[j < 48] = sum k < 64: fused(x[k] * w[k, j])""",
    "embedding": """\
kernel embedding(t: i64[n], w: f32[10, 32]) -> (y: f32[n, 32])
  y[i < n, j < 32] = w[t[i], j]""",
    "dropout": """\
kernel dropout(x: f32[n]) -> (y: f32[n])
  y[i < n] = where(random{0, 3}[i] < 0.5, 0.0, x[i])""",
    "cumulative": """\
kernel cumulative(x: i32[n, 5]) -> (y: i32[n, 5])
  y[i < n, j < 5] = sum k < 5: [3 < j + k: x[i, j + k - 4]]""",
    "by_itself": """\
kernel by_itself(x: f32[7]) -> (y: f32[7])
  s[] = sum i < 7: x[i]
  y[i < 7] = x[i] * recip(s[])""",
}
GOLDEN = (
    "gelu",
    "softmax",
    "rms_norm",
    "columns",
    "total",
    "matmul",
    "half_matmul",
    "deep_matmul",
    "attention",
    "decode_attention",
)
LARGE, SMALL = {"n": 37}, {"n": 3}
SLOW = {"softmax": (SMALL,), "one_pass": (SMALL,), "rms_norm": ({"n": 9},)}
"""What takes long in Python: as few rows as it has cases for, whole blocks and a part of one."""
H200 = gpu_of("sm_90")


def kernel(name: str, gpu: GPU = H200) -> Kernel:
    return make_gpu_kernel(parse_definition(TEXTS[name]), name, gpu)


def data(type: TensorType, dims: dict[str, int], random: np.random.Generator) -> Array:
    shape = [size_of(dim, dims) for dim in type.shape]
    if not type.dtype.is_float:
        return random.integers(0, 10, shape).astype(type.dtype.numpy)
    return random.standard_normal(shape).astype(type.dtype.numpy)


def given_to(name: str, dims: dict[str, int]) -> tuple[dict[str, Array], dict[str, Array]]:
    """Return data for a kernel, and what it computes of them by its definition."""
    definition = parse_definition(TEXTS[name])
    random = np.random.default_rng(0)
    given = {buffer.name: data(buffer.type, dims, random) for buffer in definition.inputs}
    return given, evaluate(definition, given, dims)


TILES = {
    *("matmul", "half_matmul", "deep_matmul", "convolution", "attention", "decode_attention"),
    *("mean", "powers", "norm_matmul"),
}
"""What the emulator computes, and Python element by element would for a minute."""
EMULATED = "columns", "decay", "moments", "one_pass", "quantised", "rms_norm", "total"
"""What both compute."""


@pytest.mark.parametrize("name", sorted(TEXTS.keys() - TILES))
def test_a_schedule_computes_what_the_definition_says(name: str) -> None:
    nests = set[Nest]()
    for made in (kernel(name), kernel(name, apple())):
        assert made.nest is not None
        assert parse_nest(str(made.nest)) == made.nest
        assert made.schedule is not None
        assert parse_schedule(str(made.schedule)) == made.schedule
        nests.add(made.nest)
    for nest in nests:  # one, where both have the same
        for dims in SLOW.get(name, (SMALL, LARGE)):
            given, want = given_to(name, dims)
            for output, got in evaluate_nest(nest, given, dims).items():
                check_same(got, want[output], exactly=False)
            if "n" not in nest.dims:
                break


@pytest.mark.parametrize("name", GOLDEN)
def test_how_a_nest_and_its_sources_read(name: str, golden: Golden) -> None:
    made = kernel(name)
    golden(f"{made.nest}\n", f"golden/gpu/{name}.nest")
    for one, end in ((made, "cu"), (kernel(name, apple()), "metal")):
        assert max(map(len, one.source.splitlines())) <= 100
        assert len(one.ops_of_line) == len(one.source.splitlines())
        golden(f"{one.source}\n", f"golden/gpu/{name}.{end}")


@pytest.mark.share(6)
@pytest.mark.parametrize("gpu", [H200, apple()], ids=["cuda", "metal"])
@pytest.mark.parametrize("name", [*sorted(TILES), *EMULATED])
def test_an_emulated_launch_has_no_races_and_the_same_results(name: str, gpu: GPU) -> None:
    check_emulated(kernel(name, gpu), name, gpu)


@pytest.mark.parametrize(
    ("name", "choices"),
    [
        ("attention", {"across": 8, "groups": 8}),
        ("rms_norm", {"rows": 4, "access_bytes": 4}),
        ("columns", {"columns": 64, "height": 4}),
        ("total", {"piece": 4096, "threads": 64}),
    ],
)
def test_other_numbers_compute_the_same(name: str, choices: Mapping[str, int]) -> None:
    made = kernel(name)
    other = made.rescheduled(choices=choices)
    assert other.source != made.source
    check_emulated(other, name, H200)


@pytest.mark.parametrize("name", ["columns", "gelu", "powers", "quantised", "total"])
def test_each_number_that_is_open_goes_with_some_of_the_others(name: str) -> None:
    """A block of WebGPU has at most 256 threads: no number is open that alone takes more."""
    made = kernel(name, webgpu())
    numbers = [
        (taken.choice.name, value) for taken in made.choices for value in taken.choice.values
    ]

    def is_possible(choices: Mapping[str, int]) -> bool:
        try:
            return made.rescheduled(choices=choices).choices.values.items() >= choices.items()
        except ScheduleError:
            return False

    for number in numbers:
        assert any(is_possible(dict([other, number])) for other in [number, *numbers]), number


def check_emulated(made: Kernel, name: str, gpu: GPU) -> None:
    dims = {"n": 9, "m": 200 if name == "powers" else 600}  # it reads all columns for each tile
    want = given_to(name, dims)[1]
    trace, got = emulated(made, name, gpu, dims)
    assert trace is not None
    assert not trace.findings
    for output, array in got.items():
        check_same(array, want[output], exactly=False)


def emulated(
    made: Kernel, name: str, gpu: GPU, dims: dict[str, int], *, trace: bool = True
) -> tuple[Trace | None, dict[str, Array]]:
    """Emulate a kernel, and return the trace and the results."""
    given, want = given_to(name, dims)
    assert made.definition is not None
    inner = [
        np.zeros(size_of(one.bytes, dims) // 4, np.float32) for one in made.locals
    ]  # all of them are float32
    got = {output: np.zeros_like(array) for output, array in want.items()}
    sizes = [np.int64(dims[one]) for one in made.definition.dims]
    arguments = [*given.values(), *inner, *got.values(), *sizes]
    calls = [
        Call(
            phase.function,
            size_of(phase.tasks, dims),
            phase.threads,
            [*arguments, *[np.uint32(0)] * phase.draws, *[np.zeros(1, np.int32)] * phase.faults],
        )
        for phase in made.phases
    ]
    dialect = "cuda" if gpu.dialect.name == "cuda" else "metal"
    return emulate(gpu_source([made], gpu.dialect), dialect, calls, trace=trace), got


@pytest.mark.parametrize(
    ("name", "launches"),
    [
        ("gelu", [("(n + 15)//16", 256)]),  # four neighbours a thread
        ("softmax", [("n", 128)]),  # a block a row
        ("rms_norm", [("(n + 7)//8", 256)]),  # a warp a row
        ("columns", [("3", 256)]),  # 32 columns a block, 8 threads a column
        ("total", [("(n + 31)//32", 256), ("1", 32)]),  # pieces, and their sum
        ("decode", [("2", 256)]),
        ("quantised", [("12", 256)]),
        ("attention", [("2*((n + 63)//64)", 256)]),
        ("decode_attention", [("2*((m + 255)//256)", 256), ("2", 32)]),  # pieces of keys
        ("mean", [("(n + 63)//64", 128)]),  # 8 threads a row, as there are 24 columns
        ("powers", [("(n + 63)//64", 256)]),
        ("norm_matmul", [("(n + 7)//8", 256), ("2*((n + 31)//32)", 256)]),  # rows, then tiles
    ],
)
def test_what_is_launched(name: str, launches: list[tuple[str, int]]) -> None:
    assert [(str(one.tasks), one.threads) for one in kernel(name).phases] == launches


def test_a_pass_has_fewer_rows_in_a_block_where_most_cores_would_have_none() -> None:
    def blocks(rows: int) -> object:
        text = TEXTS["mean"].replace("[n,", f"[{rows},").replace("i < n", f"i < {rows}")
        return make_gpu_kernel(parse_definition(text), "mean", H200).phases[0].tasks

    assert (blocks(128), blocks(1024), blocks(8192)) == (8, 64, 128)


def test_tensor_units_multiply_what_they_can() -> None:
    def uses(name: str, gpu: GPU) -> set[str]:
        return {one for one in kernel(name, gpu).uses if one.startswith("lab_mma")}

    assert uses("half_matmul", H200) == {"lab_mma_f16"}
    assert uses("half_matmul", gpu_of("sm_75")) == {"lab_mma_f16"}
    assert uses("deep_matmul", gpu_of("sm_75")) == set()
    assert uses("half_matmul", apple()) == {"lab_mma_f16"}
    assert uses("matmul", H200) == set()
    assert uses("matmul", gpu_of("sm_80", tf32=True)) == {"lab_mma_tf32"}


def test_operands_are_copied_ahead_where_the_card_does_that() -> None:
    def copies(name: str, gpu: GPU) -> list[str]:
        made = kernel(name, gpu)
        steps = [str(step) for step in made.schedule or () if str(step).startswith("ahead ")]
        assert ("lab_copy_async_16" in made.uses) is bool(steps)
        return steps

    assert copies("half_matmul", H200) == ["ahead k.step by 1"]  # it has but two steps
    assert copies("deep_matmul", H200) == ["ahead k.step by 2"]
    assert copies("half_matmul", gpu_of("sm_75")) == copies("half_matmul", apple()) == []


@pytest.mark.parametrize("gpu", [H200, apple()], ids=["cuda", "metal"])
@pytest.mark.parametrize("name", sorted(TEXTS))
def test_each_line_knows_the_ops_that_it_computes(name: str, gpu: GPU) -> None:
    made = kernel(name, gpu)
    assert made.definition is not None
    wanted = {
        {"sum": "sum_reduce", "max": "max_reduce"}[part.kind]
        if isinstance(part, Fold)
        else part.op.name.removeprefix("fused_")
        for line in made.definition.lines
        for part in walk(line.term)
        if isinstance(part, Apply) or (isinstance(part, Fold) and part.kind != "pass")
    }
    lines = made.source.splitlines()
    assert len(made.ops_of_line) == len(lines)
    # Elements become other dtypes where they are loaded, by the units themselves.
    units = {"cast"} if any(one.startswith("lab_mma") for one in made.uses) else set()
    computed = {op for ops in made.ops_of_line for op in ops}
    if "max_reduce" in computed:  # the maximum so far of a pass is one in a block
        wanted.discard("math.maximum")
    assert wanted - units <= computed
    assert not any(ops for line, ops in zip(lines, made.ops_of_line, strict=True) if "//" in line)


@pytest.mark.parametrize("name", ["half_matmul", "deep_matmul"])
def test_tiles_are_read_without_conflicts_of_banks(name: str) -> None:
    made = kernel(name)
    assert made.nest is not None
    shapes = {one.name: one.type.shape for one in made.nest.locals.values()}
    for array in ("rows", "columns"):
        row = shapes[array][-1]
        assert isinstance(row, int)
        # Eight rows of 16 bytes are read at once, from 32 banks of 4 bytes.
        banks = {(2 * row * at // 4 + word) % 32 for at in range(8) for word in range(4)}
        assert len(banks) == 32


def test_metal_lacks_float64() -> None:
    text = "kernel double(x: f64[n]) -> (y: f64[n])\n  y[i < n] = x[i] * x[i]"
    with pytest.raises(ScheduleError) as caught:
        make_gpu_kernel(parse_definition(text), "double", apple())
    assert str(caught.value) == (
        "kernel kernel_double: x is float64, which metal lacks\n"
        "hint: cast it to float32, as in x.cast('float32')"
    )


def test_a_kernel_can_have_another_schedule() -> None:
    made = kernel("gelu").rescheduled("bind i to block\nbind j to thread")
    assert [(str(one.tasks), one.threads) for one in made.phases] == [("n", 64)]
    assert "const int j = threadIdx.x;" in made.source
    given, want = given_to("gelu", SMALL)
    assert made.nest is not None
    check_same(evaluate_nest(made.nest, given, SMALL)["y"], want["y"], exactly=False)
    assert DType.float32 in {one.type.dtype for one in made.nest.inputs}

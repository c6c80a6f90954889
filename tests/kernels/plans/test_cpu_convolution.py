"""Convolutions on a CPU: what they are cut into, and the same values for every kind of window."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

import luminal_lab as ll
from luminal_lab.core.dims import evaluate
from luminal_lab.core.dtypes import Array
from luminal_lab.kernels.definition.definition import Definition
from luminal_lab.kernels.definition.evaluate import evaluate as value_of
from luminal_lab.kernels.definition.text import parse_definition
from luminal_lab.kernels.make import make_kernel
from luminal_lab.kernels.nest.lowering import lower
from luminal_lab.kernels.plans.cpu import cpu_schedule
from luminal_lab.kernels.plans.cpu_contraction import convolution_plan
from luminal_lab.kernels.steps.schedule import Scheduling
from luminal_lab.machines.machine import Machine
from tests.kernels.judging import check_same
from tests.kernels.running import Running, run_together

SIZES = {"n": 2, "h": 5}
PADDED = """\
kernel f(x: f32[n, 3, h, 6], w: f32[5, 3, 3, 3]) -> (y: f32[n, 5, h, 6])
  y[n_ < n, o < 5, i < h, j < 6] = sum c < 3: sum p < 3: sum q < 3: \
[0 < i + p and 0 < j + q and i + p < h + 1 and j + q < 7: x[n_, c, i + p - 1, j + q - 1]] * \
w[o, c, p, q]"""
BESIDE = {
    "beside": PADDED.replace("h, 6]", "h, 16]").replace("j < 6", "j < 16").replace("< 7:", "< 17:"),
    "beside, in place": """\
kernel f(x: f32[2, 3, 6, 10], w: f32[9, 3, 3, 3]) -> (y: f32[2, 9, 4, 8])
  y[n < 2, o < 9, i < 4, j < 8] = sum c < 3: sum p < 3: sum q < 3: x[n, c, i + p, j + q] * \
w[o, c, p, q]""",
    "beside, apart": """\
kernel f(x: f32[3, 9, 15], w: f32[5, 3, 3, 3]) -> (y: f32[5, 5, 8])
  y[o < 5, i < 5, j < 8] = sum c < 3: sum p < 3: sum q < 3: w[o, c, p, q] * \
[0 < 2*i + p and 0 < 2*j + q and 2*i + p < 10 and 2*j + q < 16: x[c, 2*i + p - 1, 2*j + q - 1]]""",
    "beside, three apart": """\
kernel f(x: f64[3, 40], w: f64[7, 3, 5]) -> (y: f64[7, 12])
  y[o < 7, j < 12] = sum c < 3: sum q < 5: w[o, c, q] * x[c, 3*j + q]""",
    "beside, one channel": """\
kernel f(x: f32[1, 18], w: f32[20, 1, 3]) -> (y: f32[20, 16])
  y[o < 20, j < 16] = sum q < 3: w[o, 0, q] * x[0, j + q]""",
}
"""Windows that are lanes themselves."""
KINDS = {
    **BESIDE,
    "padded": PADDED,
    "double": PADDED.replace("f32", "f64"),
    "whole": """\
kernel f(x: f32[2, 3, 8, 8], w: f32[9, 3, 3, 3]) -> (y: f32[2, 9, 6, 6])
  y[n < 2, o < 9, i < 6, j < 6] = sum c < 3: sum p < 3: sum q < 3: x[n, c, i + p, j + q] * \
w[o, c, p, q]""",
    "strided": """\
kernel f(x: f32[3, 9, 9], w: f32[5, 3, 3, 3]) -> (y: f32[5, 5, 5])
  y[o < 5, i < 5, j < 5] = sum c < 3: sum p < 3: sum q < 3: w[o, c, p, q] * \
[0 < 2*i + p and 0 < 2*j + q and 2*i + p < 10 and 2*j + q < 10: x[c, 2*i + p - 1, 2*j + q - 1]]""",
    "dilated": """\
kernel f(x: f32[3, 7, 7], w: f32[8, 3, 3, 3]) -> (y: f32[8, 7, 7])
  y[o < 8, i < 7, j < 7] = sum c < 3: sum p < 3: sum q < 3: w[o, c, p, q] * \
[1 < i + 2*p and 1 < j + 2*q and i + 2*p < 9 and j + 2*q < 9: x[c, i + 2*p - 2, j + 2*q - 2]]""",
    "both": """\
kernel f(x: f32[3, 9, 9], w: f32[5, 3, 3, 3]) -> (y: f32[5, 5, 5])
  y[o < 5, i < 5, j < 5] = sum c < 3: sum p < 3: sum q < 3: w[o, c, p, q] * \
[0 < i + p and 0 < j + q and i + p < 5 and j + q < 5: x[c, 2*i + 2*p - 2, 2*j + 2*q - 2]]""",
    "groups": """\
kernel f(x: f32[6, 7], w: f32[8, 3, 3]) -> (y: f32[8, 7])
  y[o < 8, j < 7] = sum c < 3: sum q < 3: w[o, c, q] * \
[0 < j + q and j + q < 8: x[3*(o//4) + c, j + q - 1]]""",
    "odd groups": """\
kernel f(x: f32[6, 7], w: f32[10, 3, 3]) -> (y: f32[10, 7])
  y[o < 10, j < 7] = sum c < 3: sum q < 3: w[o, c, q] * \
[0 < j + q and j + q < 8: x[3*(o//5) + c, j + q - 1]]""",
    "flipped": """\
kernel f(x: f32[3, 7], w: f32[8, 3, 3]) -> (y: f32[8, 7])
  y[o < 8, j < 7] = sum c < 3: sum q < 3: w[o, c, q] * \
[q < j + 2 and j < q + 6: x[c, j - q + 1]]""",
    "patches": """\
kernel f(x: f32[3, 8, 8], w: f32[9, 3, 4, 4]) -> (y: f32[9, 2, 2])
  y[o < 9, i < 2, j < 2] = sum c < 3: sum p < 4: sum q < 4: w[o, c, p, q] * \
x[c, 4*i + p, 4*j + q]""",
}


def data(definition: Definition) -> Mapping[str, Array]:
    draw = np.random.default_rng(0)
    return {
        name: draw.standard_normal([evaluate(d, SIZES) for d in type.shape]).astype(
            type.dtype.numpy
        )
        for name, type in definition.inputs
    }


@pytest.fixture(scope="module")
def kernels() -> dict[str, Running]:
    machine = Machine(vector_bytes=16, cores=2)
    made = [make_kernel(parse_definition(text), name, machine) for name, text in KINDS.items()]
    return dict(zip(KINDS, run_together(made), strict=True))


@pytest.mark.share(4)
@pytest.mark.parametrize("kind", KINDS)
def test_all_kinds_of_windows_have_the_values_of_their_definition(
    kind: str, kernels: dict[str, Running]
) -> None:
    definition = parse_definition(KINDS[kind])
    given = data(definition)
    want = value_of(definition, given, SIZES)["y"]
    check_same(kernels[kind](given, SIZES)["y"], want, exactly=False)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in ("both", "odd groups")])
def test_they_are_cut_by_the_plan_of_convolutions(kind: str) -> None:
    made = Scheduling(lower(parse_definition(KINDS[kind])))
    assert convolution_plan(made, Machine(vector_bytes=16, cores=2))
    steps = cpu_schedule(lower(parse_definition(KINDS[kind])), Machine(vector_bytes=16, cores=2))
    assert steps.schedule == made.schedule
    padded = [step for step in map(str, made.steps) if step.startswith("pad ")]
    assert len(padded) == (
        kind not in ("whole", "patches", "beside, in place", "beside, one channel")
    )
    # Windows apart lie in as many parts, in each of which neighbours are neighbours.
    assert ("parts" in padded[0]) == ("apart" in kind) if padded else "apart" not in kind
    is_beside = kind in BESIDE or kind == "double"  # six places are three vectors of two
    assert (" as columns" in str(made.schedule)) == (not is_beside)


def image(width: int, *, step: int = 1, images: str = "2", element: str = "{}") -> str:
    """Return a convolution of images of 40 lines, or of twice as many for windows apart."""
    high, wide = 40 * step, width * step
    i, j = ("i", "j") if step == 1 else (f"{step}*i", f"{step}*j")
    inside = f"0 < {i} + p and 0 < {j} + q and {i} + p < {high + 1} and {j} + q < {wide + 1}"
    x = element.format(f"x[n_, c, {i} + p - 1, {j} + q - 1]")
    return (
        f"kernel f(x: f32[{images}, 3, {high}, {wide}], w: f32[9, 3, 3, 3]) -> "
        f"(y: f32[{images}, 9, 40, {width}])\n"
        f"  y[n_ < {images}, o < 9, i < 40, j < {width}] = sum c < 3: sum p < 3: sum q < 3: "
        f"[{inside}: {x}] * w[o, c, p, q]"
    )


IMAGES = {
    "merged": image(10),
    "beside": image(16),
    "apart": image(16, step=2),
    "many": image(10, images="n"),
    "computed": image(10, element="exp2({})"),
}


@pytest.mark.parametrize("kind", IMAGES)
def test_tasks_copy_the_lines_of_an_image_that_the_cache_does_not_hold(kind: str) -> None:
    definition = parse_definition(IMAGES[kind])
    size = 4 * 3 * 40 * (10 if kind != "beside" else 16) * (4.8 if kind == "apart" else 1)
    made = {
        l2: make_kernel(definition, f"f_{l2}", Machine(vector_bytes=16, cores=2, l2=l2))
        for l2 in (int(0.9 * size), 1 << 20)
    }
    local, whole = [str(kernel.schedule).splitlines() for kernel in made.values()]
    assert any(line.startswith("split i by ") and "line" in line for line in local)
    assert not any("line" in line for line in whole)
    assert any(line.startswith("parallel ") and "padded" in line for line in whole)
    assert any(line.startswith("parallel i.block") and "padded" not in line for line in local)
    given = data(definition)
    want = value_of(definition, given, SIZES)["y"]
    results = [running(given, SIZES)["y"] for running in run_together([*made.values()])]
    for result in results:
        check_same(result, want, exactly=False)


def test_shares_of_lines_are_even_and_held_by_the_cache() -> None:
    def lines(width: int, cores: int, l2: int) -> int:
        machine = Machine(vector_bytes=16, cores=cores, l2=l2)
        choices = make_kernel(parse_definition(image(width)), "f", machine).choices
        return {each.choice.name: each.value for each in choices}["lines"]

    assert lines(10, 2, 4000) == lines(11, 2, 4000) == 4  # ten tasks, five for a thread
    assert lines(16, 7, 7000) == 6  # seven tasks
    assert lines(16, 7, 3000) == 3  # six lines with their border are more than half of it
    assert lines(16, 2, 1000) == 0


@pytest.mark.parametrize(("width", "narrow", "wide"), [(20, 5, 10), (12, 6, 12), (14, 6, 12)])
def test_tiles_end_where_lines_of_windows_do_if_they_lose_little(
    width: int, narrow: int, wide: int
) -> None:
    text = f"""\
kernel f(x: f32[3, 22, {width + 2}], w: f32[64, 3, 3, 3]) -> (y: f32[64, 20, {width}])
  y[o < 64, i < 20, j < {width}] = sum c < 3: sum p < 3: sum q < 3: x[c, i + p, j + q] * \
w[o, c, p, q]"""
    for vector_bytes, height in ((32, narrow), (64, wide)):
        machine = Machine(vector_bytes=vector_bytes, cores=2)
        choices = make_kernel(parse_definition(text), "f", machine).choices
        assert {each.choice.name: each.value for each in choices}["tile_rows"] == height


def test_the_number_of_cores_changes_no_bit() -> None:
    text = PADDED.replace("[n, 3, h, 6]", "[2, 3, 40, 6]").replace("[n, 5, h, 6]", "[2, 5, 40, 6]")
    text = text.replace("n_ < n", "n_ < 2").replace("i < h", "i < 40").replace("h + 1", "41")
    definition = parse_definition(text)
    made = [
        make_kernel(definition, f"on_{cores}", Machine(vector_bytes=32, cores=cores))
        for cores in (1, 2, 64)
    ]
    assert len({str(kernel.schedule) for kernel in made}) > 1
    given = data(definition)
    first, *rest = [running(given)["y"] for running in run_together(made)]
    for other in rest:
        assert np.array_equal(first, other)


@pytest.mark.parametrize(
    "text",
    [
        "kernel f(a: f32[8, 9], b: f32[9, 7]) -> (c: f32[8, 7])\n"
        "  c[i < 8, j < 7] = sum k < 9: a[i, k] * b[k, j]",
        # One channel is no vector of channels.
        PADDED.replace("[5, 3, 3, 3]", "[1, 3, 3, 3]")
        .replace("[n, 5, h, 6]", "[n, 1, h, 6]")
        .replace("o < 5", "o < 1"),
    ],
    ids=["matmul", "one channel"],
)
def test_other_sums_have_other_plans(text: str) -> None:
    made = Scheduling(lower(parse_definition(text)))
    assert not convolution_plan(made, Machine(vector_bytes=16, cores=2))


JOINED: Mapping[str, Callable[[Any], Any]] = {
    "channels": lambda new: ll.concat([new(1, 2, 5, 5), new(1, 3, 5, 5)], 1).conv2d(
        new(4, 5, 3, 3), padding=1
    ),
    "many channels": lambda new: ll.concat([new(2, 16, 9, 9), new(2, 16, 9, 9)], 1).conv2d(
        new(32, 32, 3, 3), padding=1
    ),
    "rows, in strides": lambda new: ll.concat([new(1, 5, 2, 7), new(1, 5, 3, 7)], 2).conv2d(
        new(4, 5, 3, 3), stride=2, padding=1
    ),
    "groups": lambda new: ll.concat([new(1, 2, 5, 5), new(1, 2, 5, 5)], 1).conv2d(
        new(4, 2, 3, 3), padding=1, groups=2
    ),
    "a sum": lambda new: (new(1, 4, 5, 5) + new(1, 4, 5, 5)).conv2d(new(4, 4, 3, 3), padding=1),
    "along one axis": lambda new: ll.concat([new(1, 2, 9), new(1, 3, 9)], 1).conv1d(
        new(4, 5, 3), padding=1
    ),
    "transposed": lambda new: ll.concat([new(1, 2, 5, 5), new(1, 3, 5, 5)], 1).conv_transpose2d(
        new(5, 4, 3, 3), stride=2, padding=1
    ),
}


@pytest.mark.parametrize("name", JOINED)
def test_windows_of_several_arrays(name):
    cx, random = ll.Graph(), np.random.default_rng(0)

    def new(*shape: int) -> ll.Tensor:
        return cx.tensor(shape).set(random.standard_normal(shape).astype(np.float32))

    result = JOINED[name](new).retrieve()
    cx.execute()
    wanted = result.numpy()
    cx.compile(ll.GenericCompiler(), ll.CPUCompiler())
    cx.execute()
    np.testing.assert_allclose(result.numpy(), wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("stride", "sizes"), [(1, (20, 20)), (1, (3, 80)), (2, (9, 33))])
def test_a_depthwise_convolution_reads_an_image_with_a_border(stride, sizes):
    cx, random = ll.Graph(), np.random.default_rng(0)
    x = cx.tensor((2, 6, "h", "w")).set(random.standard_normal((2, 6, *sizes), "float32"))
    w = cx.tensor((6, 1, 5, 5)).set(random.standard_normal((6, 1, 5, 5), "float32"))
    y = x.conv2d(w, stride=stride, padding=2, groups=6).relu().retrieve()
    cx.execute()
    wanted = y.numpy()
    cx.compile(ll.GenericCompiler(), ll.CPUCompiler())
    cx.execute()
    assert "\npad a before " in str(cx.kernels[0].schedule)
    np.testing.assert_allclose(y.numpy(), wanted, rtol=1e-4, atol=1e-4)

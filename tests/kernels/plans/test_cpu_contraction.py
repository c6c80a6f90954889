"""How products run on a CPU: what is computed with whole vectors before it is stored."""

from typing import Any

import numpy as np
import pytest

import luminal_lab as ll
from luminal_lab.core.dims import evaluate as number_of
from luminal_lab.kernels.definition.definition import Definition
from luminal_lab.kernels.definition.evaluate import evaluate
from luminal_lab.kernels.definition.text import parse_definition
from luminal_lab.kernels.make import make_kernel
from luminal_lab.machines.machine import Machine
from tests.kernels.running import Running
from tests.tensor.test_blocks import drawn

HEADER = "kernel k(a: f32[n, 24], b: f32[m, 24], c: f32[m], r: f32[n, m]) -> (y: f32[n, m])\n"
SUM = "(sum k < 24: fused(a[i, k] * b[j, k]))"
ENDS = {
    "a function": (f"math.gelu({SUM})", True),
    "a function of what has a bias": (f"math.silu({SUM} + c[j])", True),
    "a sum that is read twice": (f"let d = {SUM} + c[j]; d * exp2(d)", True),
    "a function beside another array": (f"r[i, j] + math.tanh({SUM} + c[j])", True),
    "arithmetic": (f"({SUM} + c[j]) * 2.0", False),
}
"""What is stored, and whether it is worth whole vectors."""


@pytest.mark.needs("cc")
@pytest.mark.parametrize("kind", ENDS)
def test_functions_take_whole_vectors_before_short_rows_are_stored(
    kind: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    term, is_costly = ENDS[kind]
    definition = parse_definition(f"{HEADER}  y[i < n, j < m] = {term}")
    # The second operand, which is the longer one, stays as it is: its axis has the rows.
    kernel = make_kernel(definition, "k", Machine(), choices={"swapped": 1})
    assert ("\npack tile before " in str(kernel.schedule)) == is_costly
    # No vector of the functions asks whether it exists: a bias is copied before.
    assert "if (" not in kernel.source.partition("done[")[2] or "r[" in term
    # What lies in rows is read in rows, and not in the columns of the tile.
    assert ("\ncopy r before " in str(kernel.schedule)) == ("r[" in term)
    run = Running(kernel)
    for n, m in [(1, 1), (7, 90), (37, 25), (64, 120)]:
        sizes, draw = {"n": n, "m": m}, np.random.default_rng(0)
        inputs = {
            name: draw.standard_normal([number_of(size, sizes) for size in type.shape]).astype("f4")
            for name, type in definition.inputs
        }
        expected: Any = evaluate(definition, inputs, sizes)["y"]
        np.testing.assert_allclose(run(inputs, sizes)["y"], expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("form", ["q8_0", "q4_0", "q4_k", "q6_k"])
@pytest.mark.parametrize("rows", [1, 24])
def test_packed_weights_are_widened_once_for_all_rows(form: str, rows: int):
    cx = ll.Graph()
    layer = ll.nn.Linear(512, 41, bias=False)  # no multiple of a tile
    ll.quantise(layer, form)
    x = cx.tensor((rows, 512), name="x")
    x.set(np.random.default_rng(0).standard_normal((rows, 512)))
    y = layer(x).retrieve()
    cx.execute()
    wanted = y.numpy()
    cx.compile(ll.GenericCompiler(), ll.CPUCompiler())
    text = str(cx.kernels["matmul"].schedule)
    assert "share" in text  # a group's scale
    assert rows == 1 or " as rows" in text
    cx.execute()
    np.testing.assert_allclose(y.numpy(), wanted, rtol=2e-5, atol=2e-5)


WRITTEN = {
    "q4_0": ("by 32, 16 as block, group, each", True),
    "q4_1": ("by 32, 16 as block, group, each", True),
    "q5_0": ("by 32, 16 as block, group, each", True),
    "q5_1": ("by 32, 16 as block, group, each", True),
    "q8_0": ("by 32 as group, each", False),
    "q4_k": ("by 256, 32 as block, group, each", False),
    "q5_k": ("by 256, 32 as block, group, each", False),
    "q6_k": ("by 256, 32, 16 as block, side, group, each", True),
    "q2_k": ("by 256, 32, 16 as block, side, group, each", True),
    "q3_k": ("by 256, 32, 16 as block, side, group, each", True),
}
"""How the sum of one row is cut, and whether groups are so short that two are summed at once."""


@pytest.mark.needs("cc")
@pytest.mark.parametrize("form", WRITTEN)
def test_groups_within_groups_are_written_out(form: str):
    weights = drawn(form, (7, 512))
    layer = ll.nn.Linear(512, 7, bias=False)
    layer.weight.set(weights)
    given = np.random.default_rng(1).standard_normal((33, 512)).astype(np.float32)
    wanted = given.astype(np.float64) @ weights.value.astype(np.float64).T
    for rows in (1, 33):
        cx = ll.Graph()
        x = cx.tensor((rows, 512), name="x").set(given[:rows])
        y = layer(x).retrieve()
        cx.compile(ll.GenericCompiler(), ll.CPUCompiler())
        steps, (cut, is_beside) = str(cx.kernels["matmul"].schedule), WRITTEN[form]
        assert rows > 1 or cut in steps
        assert rows > 1 or steps.count("\nlanes ") == 1 + is_beside
        # Nothing that takes more bytes than the blocks is kept.
        nest = cx.kernels["matmul"].nest
        assert nest is not None
        assert (7, 512) not in [local.type.shape for local in nest.locals.values()]
        cx.execute()
        bound = 2e-6 * np.abs(given[:rows]) @ np.abs(weights.value).T
        assert (np.abs(y.numpy() - wanted[:rows]) <= bound).all()


GROWN = """\
kernel k(a: f32[n, 24, h, w], b: f32[24, {m}, 2, 2], c: f32[{m}]) -> (y: f32[n, {m}, 2*h, 2*w])
  y[o < n, i < {m}, j < 2*h, k < 2*w] =
    let t = sum q < 24: fused(a[o, q, j//2, k//2] * b[q, i, j%2, k%2]);
    math.relu(t + c[i])"""
"""A transposed convolution whose windows stand side by side."""


@pytest.mark.needs("cc")
@pytest.mark.parametrize(("channels", "has_tiles"), [(20, True), (1, False)])
def test_an_image_that_grows_is_a_product_for_each_place_in_a_window(
    channels: int, has_tiles: bool
) -> None:
    definition = parse_definition(GROWN.format(m=channels))
    kernel = make_kernel(definition, "k", Machine())
    steps = str(kernel.schedule)
    assert "split k by 2 as group, each" in steps
    assert ("as tile, own" in steps) == has_tiles
    assert "%" not in str(kernel.nest).partition("\n")[2]
    run = Running(kernel)
    for n, h, w in [(1, 1, 1), (2, 7, 5), (1, 3, 40)]:
        sizes, draw = {"n": n, "h": h, "w": w}, np.random.default_rng(0)
        inputs = {
            name: draw.standard_normal([number_of(size, sizes) for size in type.shape]).astype("f4")
            for name, type in definition.inputs
        }
        expected: Any = evaluate(definition, inputs, sizes)["y"]
        np.testing.assert_allclose(run(inputs, sizes)["y"], expected, rtol=1e-4, atol=1e-5)


def few(rows: int | str, q: str = "q", m: str = "m") -> Definition:
    return parse_definition(
        f"kernel k(a: f32[{rows}, {q}], b: f32[{q}, {m}]) -> (y: f32[{rows}, {m}])\n"
        f"  y[i < {rows}, j < {m}] = sum k < {q}: fused(a[i, k] * b[k, j])"
    )


@pytest.mark.needs("cc")
@pytest.mark.parametrize("rows", [1, 2, 3, 8, 16])
def test_few_rows_meet_columns_where_they_lie(rows: int) -> None:
    definition = few(rows)
    kernel = make_kernel(definition, "k", Machine())
    assert "pack" not in str(kernel.schedule)
    assert rows == 1 or "\nunroll i_sum, k.each\n" in str(kernel.schedule)
    tiles = kernel.rescheduled(choices={"few_rows": 0} if rows > 1 else {})
    assert ("pack b " in str(tiles.schedule)) == (rows > 1)
    run = Running(kernel)
    for q, m in [(1, 1), (9, 90), (37, 25), (64, 700)]:
        draw = np.random.default_rng(0)
        a, b = (draw.standard_normal(shape).astype("f4") for shape in ((rows, q), (q, m)))
        sizes = {"q": q, "m": m}
        expected: Any = evaluate(definition, {"a": a, "b": b}, sizes)["y"]
        made = run({"a": a, "b": b}, sizes)["y"]
        np.testing.assert_allclose(made, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("rows", "is_few"), [("16", True), ("17", False), ("n", False)])
def test_rows_are_few_if_their_number_is_known(rows: str, is_few: bool) -> None:
    kernel = make_kernel(few(rows, "64", "256"), "k", Machine())
    assert ("few_rows" in str(kernel.choices)) == is_few


BLOCKS = [(3, 2, 768), (3, 4, 768), (8, 2, 320), (16, 2, 160), (3, 64, 64)]
"""Rows, cores, and the columns of a block."""


def test_blocks_of_few_rows_stay_in_the_first_cache_and_are_enough_for_all_cores() -> None:
    for rows, cores, block in BLOCKS:
        machine = Machine(vector_bytes=64, cores=cores)
        kernel = make_kernel(few(rows, "768", "3072"), "k", machine)
        assert f"split j by {block} as block, own" in str(kernel.schedule)


FETCHED = "fetch b in j_sum.piece ahead 1 of k.block"


@pytest.mark.needs("cc")
def test_pieces_of_the_next_rows_of_columns_are_fetched() -> None:
    definition = few(3, "320", "512")
    kernel = make_kernel(definition, "k", Machine(cores=2, l2=64 << 10))
    assert FETCHED in str(kernel.schedule)
    rng = np.random.default_rng(0)
    given = {"a": rng.standard_normal((3, 320)), "b": rng.standard_normal((320, 512))}
    given = {name: array.astype("f4") for name, array in given.items()}
    result = Running(kernel)(given, {})["y"]
    plain = Running(kernel.rescheduled(choices={"rows_fetched": 0}))(given, {})["y"]
    assert result.tobytes() == plain.tobytes()


@pytest.mark.parametrize(
    ("rows", "columns", "machine"),
    [
        (3, "512", Machine(cores=2, l2=4 << 20)),  # they are near
        (3, "500", Machine(cores=2, l2=64 << 10)),  # the last block is shorter
        (8, "512", Machine(cores=2, l2=64 << 10)),  # sums take longer than loads
        (3, "m", Machine(cores=2, l2=64 << 10)),  # nobody knows
    ],
)
def test_where_it_is_of_no_use_no_piece_is_fetched(
    rows: int, columns: str, machine: Machine
) -> None:
    assert "fetch" not in str(make_kernel(few(rows, "320", columns), "k", machine).schedule)


TASKS = [
    ((100, 100, 100), [7]),  # 7 columns of tiles, which copy their own
    ((1500, 40, 50), [4]),
    ((120, 300, 40), [3, 2]),  # 3 would leave a core waiting: 20 rows of tiles, 10 a task
    ((4096, 64, 64), [4, 43]),  # not all rows fit into the cache
]
"""Rows, sum and columns, and the tasks of each phase for two cores."""


def test_tasks_are_equal_shares() -> None:
    for (m, k, n), tasks in TASKS:
        text = f"kernel k(a: f32[{m}, {k}], b: f32[{k}, {n}]) -> (y: f32[{m}, {n}])\n"
        text += f"  y[i < {m}, j < {n}] = sum k < {k}: fused(a[i, k] * b[k, j])"
        kernel = make_kernel(parse_definition(text), "k", Machine(cores=2))
        assert [phase.tasks for phase in kernel.phases] == tasks

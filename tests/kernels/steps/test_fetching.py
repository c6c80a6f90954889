"""What is brought near for a later iteration: where, when a CPU's schedule does it, and why not."""

import numpy as np
import pytest

import luminal_lab as ll
from luminal_lab.errors import ParseError
from luminal_lab.kernels.definition.text import parse_definition
from luminal_lab.kernels.make import make_kernel
from luminal_lab.kernels.nest.text import parse_nest
from luminal_lab.kernels.plans.cpu import cpu_schedule
from luminal_lab.kernels.render.c.nest import render_nest
from luminal_lab.kernels.steps.ahead import FetchAhead
from luminal_lab.kernels.steps.schedule import parse_schedule
from luminal_lab.machines.machine import Machine
from tests.kernels.running import run_together
from tests.kernels.steps.test_schedule import after, nest, refused, values

ROWS = """\
kernel rows(x: f32[n, m]) -> (y: f32[n, m])
  y[i < n, j < m] = exp2(x[i, j])"""
CUT = ["split j by 32"]
SOFTMAX = """\
kernel softmax(x: f32[2048, 4096]) -> (y: f32[2048, 4096])
  s[i < 2048] = max j < 4096: x[i, j]
  t[i < 2048, j < 4096] = exp2(x[i, j] - s[i])
  u[i < 2048] = recip(sum k < 4096: t[i, k])
  y[i < 2048, j < 4096] = t[i, j] * u[i]"""
NORM = """\
kernel norm(x: f32[2048, 4096]) -> (y: f32[2048, 4096])
  m[i < 2048] = (sum j < 4096: x[i, j]) * 0.000244140625
  v[i < 2048] = (sum j < 4096: (x[i, j] - m[i]) * (x[i, j] - m[i])) * 0.000244140625
  r[i < 2048] = recip(sqrt(v[i]))
  y[i < 2048, j < 4096] = (x[i, j] - m[i]) * r[i]"""


def test_there_is_a_fetch_for_each_line_of_memory() -> None:
    made = after(ROWS, *CUT, "fetch x in j.block ahead 1 of i", "fetch y in j.block ahead 2 of i")
    assert [line.strip() for line in str(made).splitlines() if "fetch" in line] == [
        "fetch y[i + 2, 32*j.block]",
        "fetch y[i + 2, 32*j.block + 16]",
        "fetch x[i + 1, 32*j.block]",
        "fetch x[i + 1, 32*j.block + 16]",
    ]
    assert parse_nest(str(made)) == made
    values(ROWS, made, n=3, m=37)  # the last rows fetch what is not there


def test_rows_that_are_written_out_have_lines_of_their_own() -> None:
    text = "kernel k(b: f32[n, m]) -> (y: f32[m])\n  y[j < m] = max i < n: b[i, j]"
    steps = (
        "split j by 16",
        "fission j.own as start, max, end",
        "reorder i, j_max.own",
        "cut i by 2",
    )
    last = "fetch b in i.block ahead 1 of j.block"
    made = after(text, *steps, last)
    assert [line.strip() for line in str(made).splitlines() if "fetch" in line] == [
        "fetch b[2*i.block, 16*j.block + 16]",
        "fetch b[2*i.block + 1, 16*j.block + 16]",
    ]
    values(text, made, n=5, m=40)
    wide = *steps[:-1], "cut i by 32", last
    assert refused(text, *wide).startswith(f"{last}: i.block uses 32 lines of b at a time")


def test_later_steps_move_fetches_along() -> None:
    made = after(
        ROWS,
        *CUT,
        "fetch x in j.block ahead 1 of i",
        "split i by 4",
        "parallel i.block",
        "simd j.own",
    )
    assert "fetch x[4*i.block + i.own + 1, 32*j.block + 16]" in str(made)
    values(ROWS, made, n=7, m=37)


@pytest.mark.parametrize(
    ("text", "c"),
    [
        ("fetch x[i + 1]", "LAB_FETCH(x, i + 1, 0);"),
        ("fetch y[i - 1]", "LAB_FETCH(y, i - 1, 1);"),
    ],
)
def test_what_a_fetch_is_in_c(text: str, c: str) -> None:
    made = parse_nest(f"nest k(x: f32[n]) -> (y: f32[n])\n  for i < n:\n    {text}\n    y[i] = 0.0")
    assert f"        {c}\n" in render_nest(made, "k").text


def test_an_array_that_is_only_fetched_is_known() -> None:
    made = parse_nest(
        "nest k(x: f32[n, m], t: f32[4]) -> (y: f32[4])\n  for i < 4:\n    fetch x[i, 3]"
    )
    lines = render_nest(made, "k").text.splitlines()
    assert lines[1:4] == [
        "    const float *restrict x = lab_buffers[0];",
        "    const lab_i64 m = lab_dims[0];",
        "    for (lab_i64 i = 0; i < 4; i++) {",
    ]


def test_fetches_change_no_bit() -> None:
    plain, *steps = (
        "simd j.own",
        *CUT,
        "fetch x in j.block ahead 1 of i",
        "fetch y in j.block ahead 9 of i",
    )
    definition = parse_definition(ROWS)
    kernels = [
        make_kernel(definition, name, Machine(), parse_schedule("\n".join(lines)))
        for name, lines in (("with", [*steps, plain]), ("without", [*CUT, plain]))
    ]
    given = {"x": np.random.default_rng(0).standard_normal((5, 100)).astype(np.float32)}
    one, other = (run(given, {"n": 5, "m": 100}) for run in run_together(kernels))
    assert one["y"].tobytes() == other["y"].tobytes()


FAR = Machine(cores=2, l3=8 << 20)


def fetched(text: str, machine: Machine = FAR) -> list[str]:
    made = cpu_schedule(nest(text), machine)
    return [str(step) for step in made.steps if isinstance(step, FetchAhead)]


def test_rows_of_a_softmax_come_while_the_costly_loop_runs() -> None:
    assert fetched(SOFTMAX) == [
        "fetch x in j_2.block ahead 1 of i.own",
        "fetch y in j_2.block ahead 1 of i.own",
    ]


def test_rows_that_are_read_three_times_come_while_the_last_is_written() -> None:
    assert fetched(NORM) == ["fetch x in j_3.block ahead 1 of i.own"]


@pytest.mark.parametrize(
    ("text", "machine"),
    [
        (SOFTMAX, Machine(cores=2, l3=1 << 30)),  # all of it is in the cache
        (SOFTMAX, Machine(cores=2, l2=32 << 10)),  # a row is not
        (SOFTMAX.replace("2048", "n"), FAR),  # nobody knows
        (SOFTMAX.replace("exp2", ""), FAR),  # nothing takes long
        (
            SOFTMAX.partition("\n")[0] + "\n  y[i < 2048, j < 4096] = exp2(x[i, j])",
            FAR,
        ),  # each element is read once
    ],
)
def test_where_it_is_of_no_use_nothing_is_fetched(text: str, machine: Machine) -> None:
    assert fetched(text, machine) == []


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        (
            ["fetch z in j ahead 1 of i"],
            "z is not there, and only inputs and outputs are worth a fetch",
        ),
        (["fetch x in i ahead 1 of j"], "i is not within j"),
        (["fetch x in j ahead 0 of i"], "what is used now needs no fetch"),
        (
            ["simd j", "fetch x in j ahead 1 of i"],
            "j is a simd loop, all of whose iterations are one",
        ),
        (
            ["split i by 4", "fetch x in i.block ahead 1 of i.block"],
            "i.block is not within i.block",
        ),
        (
            ["split i by 4", "split i.own by 2 as two, one", "fetch x in i.two ahead 1 of i.block"],
            "what i.two uses of x is not so many neighbours",
        ),
        (["fetch x in k ahead 1 of i"], "there is no loop k"),
    ],
)
def test_what_cannot_be_fetched(steps: list[str], message: str) -> None:
    assert refused(ROWS, *steps).startswith(f"{steps[-1]}: {message}")


def test_what_is_looked_up_or_not_used_cannot_be_fetched() -> None:
    text = "kernel k(t: i64[n], w: f32[9, 8]) -> (y: f32[n, 8])\n  y[i < n, j < 8] = w[t[i], j]"
    last = "fetch w in j ahead 1 of i"
    assert refused(text, last).startswith(
        f"{last}: w is looked up there, at places that are values"
    )
    inner = "kernel k(x: f32[n], z: f32[n]) -> (y: f32[n, 8])\n  y[i < n, j < 8] = x[i]"
    last = "fetch z in j ahead 1 of i"
    assert refused(inner, last).startswith(f"{last}: j does not use z")
    text = "kernel k(x: f32[n]) -> (y: f32[n])\n  t[i < n] = x[i]\n  y[i < n] = t[n - 1 - i]"
    last = "fetch t in i ahead 1 of i"
    assert refused(text, last).startswith(f"{last}: t is a local, and only inputs and outputs")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("fetch t[i]", "'t' is neither an input nor an output, and only those are fetched"),
        ("fetch x", "x is f32[n], so that it is fetched at 1 places, and not at 0"),
    ],
)
def test_a_fetch_that_cannot_be_read(line: str, message: str) -> None:
    head = "nest k(x: f32[n]) -> (y: f32[n])\n  for i < n:\n"
    text = f"{head}    local t: f32[] in registers\n    {line}"
    with pytest.raises(ParseError) as caught:
        parse_nest(text)
    assert caught.value.message.endswith(message)


PRODUCT = """\
kernel product(a: f32[64], b: f16[n, 2112]) -> (y: f32[n])
  y[i < n] = sum k < 2048: a[k//32] * f32(b[i, k//32*33 + k%32 + 1]) * f32(b[i, k//32*33])"""


def test_a_stream_is_fetched_line_by_line_across_the_ends_of_rows() -> None:
    made = after(PRODUCT, "split k by 128, 32 as block, group, each", "stream b in k.block by 4096")
    assert [line.strip() for line in str(made).splitlines() if "fetch" in line] == [
        f"fetch b[i, 132*k.block + {2048 + at}]" for at in (0, 32, 64, 96, 128)
    ]
    assert parse_nest(str(made)) == made
    values(PRODUCT, made, n=3)  # the last rows fetch what is not there


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        (["stream z in k by 4096"], "z is not there, and only inputs and outputs are worth"),
        (["stream b in k by 63"], "what is used now needs no fetch"),
        (["stream y in k by 4096"], "k does not use y at known places"),
        (["stream b in i by 4096"], "i does not go through b from neighbour to neighbour"),
        (["stream a in k by 4096"], "k does not go through a from neighbour to neighbour"),
        (["split k by 8", "simd k.own", "stream b in k.own by 64"], "k.own is a simd loop"),
    ],
)
def test_what_cannot_be_streamed(steps: list[str], message: str) -> None:
    assert refused(PRODUCT, *steps).startswith(f"{steps[-1]}: {message}")


def test_no_element_has_a_fetch_of_its_own() -> None:
    text = "kernel k(b: f32[n, 64]) -> (y: f32[n])\n  y[i < n] = sum k < 64: b[i, k]"
    message = "stream b in k by 4096: k goes on by one element, and would fetch for each\n"
    assert refused(text, "stream b in k by 4096").startswith(message)


@pytest.mark.parametrize(
    ("rows", "is_streamed"),
    [(2048, True), (2, False)],  # of 2 kB: far more than the caches have, and far less
)
def test_a_product_of_rows_fetches_its_matrix(rows: int, is_streamed: bool) -> None:
    text = f"kernel k(a: f32[512], b: f32[{rows}, 512]) -> (y: f32[{rows}])\n"
    text += f"  y[i < {rows}] = sum k < 512: a[k] * b[i, k]"
    schedule = cpu_schedule(nest(text), Machine(vector_bytes=64, cores=2, l2=1 << 20)).schedule
    assert ("stream b in k.block by 8192" in str(schedule)) == is_streamed
    assert "stream a" not in str(schedule)


@pytest.mark.parametrize(("rows", "is_streamed"), [(4096, True), (200, False)])
@pytest.mark.parametrize("how", ["sum", "max"])
def test_rows_are_fetched_ahead_if_they_exceed_all_second_caches(
    how: str, rows: int, is_streamed: bool
) -> None:
    text = f"kernel k(b: f32[{rows}, 512]) -> (y: f32[{rows}])\n"
    wide = Machine(vector_bytes=64)
    schedule = cpu_schedule(nest(f"{text}  y[i < {rows}] = {how} k < 512: b[i, k]"), wide)
    assert ("stream b in k.block by 8192" in str(schedule.schedule)) == is_streamed


@pytest.mark.parametrize(
    ("dtype", "value", "is_streamed"),
    [
        ("f32", "b[i, k]", False),  # nothing but reading, which narrow vectors do not outrun
        ("f32", "a[k] * b[i, k]", False),
        ("i8", "f32(b[i, k])", True),
    ],
)
def test_with_narrow_vectors_floats_need_no_fetch(
    dtype: str, value: str, is_streamed: bool
) -> None:
    text = f"kernel k(a: f32[4096], b: {dtype}[8192, 4096]) -> (y: f32[8192])\n"
    text += f"  y[i < 8192] = sum k < 4096: {value}"
    schedule = cpu_schedule(nest(text), Machine(vector_bytes=32)).schedule
    assert ("stream b in " in str(schedule)) == is_streamed


def test_what_is_fetched_with_the_next_row_is_not_fetched_twice() -> None:
    cx = ll.Graph()
    cx.tensor((2048, 4096), name="x").softmax(-1).retrieve()
    cx.compile(ll.GenericCompiler(), ll.CPUCompiler())
    schedule = str(cx.kernels[0].schedule)
    assert "fetch a in j_2.block ahead 1 of i.own" in schedule
    assert "stream" not in schedule

"""Copies that go on while threads work: where they begin, and who waits for them when."""

import numpy as np
import pytest

from luminal_lab.emulator import Call, Trace, emulate
from luminal_lab.kernels.dialect import CUDA, METAL, Dialect
from luminal_lab.kernels.nest.text import parse_nest
from luminal_lab.kernels.prelude.files import NAME
from luminal_lab.kernels.prelude.prelude import prelude
from luminal_lab.kernels.render.gpu.render import render_gpu
from luminal_lab.kernels.steps.schedule import parse_schedule
from tests.kernels.steps.test_ahead import TURNED


def source(count: int, dialect: Dialect = CUDA, text: str = TURNED) -> str:
    nest = parse_schedule(f"ahead k by {count}").apply(parse_nest(text))
    found = render_gpu(nest, "turned", ("n",), dialect)
    return f"{prelude(dialect.name, NAME.findall(found.text))}\n\n{found.text}\n"


def run(text: str, n: int, dialect: Dialect = CUDA) -> tuple[Trace, bool]:
    """Return what a trace of it finds, and whether its result is right."""
    x = np.random.default_rng(n).standard_normal((n, 64)).astype(np.float32)
    y = np.zeros(64, np.float32)
    call = Call("turned", 1, 64, [x, y, np.int64(n)])
    trace = emulate(text, "metal" if dialect is METAL else "cuda", [call], trace=True)
    assert trace is not None
    return trace, np.allclose(y, x[:, ::-1].sum(0), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dialect", [CUDA, METAL], ids=["cuda", "metal"])
@pytest.mark.parametrize("count", [1, 2, 3])
def test_it_is_right_and_without_races(count: int, dialect: Dialect) -> None:
    text = source(count, dialect)
    assert ("lab_copy_async_16(&" in text) is (dialect is CUDA)
    for n in (1, 2, 3, 7):
        trace, is_right = run(text, n, dialect)
        assert not trace.findings
        assert is_right


@pytest.mark.parametrize("count", [1, 2, 3])
def test_an_iteration_has_one_barrier_and_waits_for_what_it_needs(count: int) -> None:
    text = source(count).partition("turned(")[2]
    inside = text.partition("for (lab_i64 k = 0;")[2]
    assert text.count("lab_sync();") == 1
    assert inside.splitlines()[1:3] == [
        f"        lab_copy_wait({count - 1});",
        "        lab_sync();",
    ]
    assert inside.index("lab_copy_async_16(") < inside.index("lab_copy_commit();")
    assert text.count("lab_copy_commit();") == 2


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("lab_copy_wait(1);", "lab_copy_wait(2);"),
        ("lab_copy_wait(1);", ""),
        ("        lab_sync();", ""),
        ("(k + 2) % 3", "(k + 1) % 3"),
    ],
)
def test_what_is_planted_wrong_is_found(old: str, new: str) -> None:
    text = source(2)
    assert text.count(old) == 1
    trace, _ = run(text.replace(old, new), 7)
    assert trace.findings


def test_what_others_use_too_is_waited_for_as_ever() -> None:
    nest = parse_schedule("ahead k by 1").apply(parse_nest(TURNED))
    text = str(nest).replace("y[l_4] = part[l_4]", "y[l_4] = part[l_4] + s[0, l_4] * 0.0")
    found = render_gpu(parse_nest(text), "turned", ("n",), CUDA)
    assert "lab_copy" not in found.text
    trace, is_right = run(f"{prelude('cuda', NAME.findall(found.text))}\n\n{found.text}\n", 5)
    assert not trace.findings
    assert is_right


def test_other_copies_than_16_bytes_are_waited_for_as_ever() -> None:
    text = TURNED.replace("vector c < 4", "for c < 4")
    made = source(2, text=text)
    assert "lab_copy_async" not in made
    for n in (1, 2, 5):
        trace, is_right = run(made, n)
        assert not trace.findings
        assert is_right

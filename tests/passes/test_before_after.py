"""The pictures in the docstrings of passes, before → after, are what the passes do."""

import pytest

from luminal_lab.core.parse import parse
from luminal_lab.passes import (
    constant_folding,
    dead_code,
    inlining,
    schedule,
    subexpressions,
)
from tests.passes.running import run_passes

PIPELINES = [
    (dead_code, "dce"),
    (subexpressions, "cse"),
    (constant_folding, "fold, dce"),
    (schedule, "depth-first"),
    (inlining, "inline"),
]


def columns(picture: str) -> tuple[str, str]:
    """Return what stands left and right of the arrow."""
    lines = picture.splitlines()
    split = next(line.index("graph", line.index("graph") + 1) for line in lines if "graph" in line)
    return (
        "\n".join(line[:split].replace("→", "") for line in lines),
        "\n".join(line[split:] for line in lines),
    )


@pytest.mark.parametrize(("module", "pipeline"), PIPELINES, ids=lambda one: str(one)[:8])
def test_the_picture_is_true(module, pipeline):
    picture = next(part for part in module.__doc__.split("\n\n") if "→" in part)
    before, after = map(parse, columns(picture))
    made = run_passes(before, pipeline).ir
    assert made == after, str(made)
    assert [n.op for n in made] == [n.op for n in after], "the order differs"

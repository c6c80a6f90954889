"""Golden files of the passes that round: `# run: half`, `# weights: w`, a graph, what comes out.

Behind what comes out stand the reasons of the steps, and why a weight was left alone. The values
are those of the graph as it was, but for rounding.
"""

import re
from pathlib import Path

import numpy as np
import pytest

from luminal_lab.core.ir import IR
from luminal_lab.core.op import ints
from luminal_lab.core.parse import parse
from luminal_lab.passes.compile import compile_ir
from luminal_lab.passes.draws import Given
from luminal_lab.passes.pipeline import parse_pipeline
from tests.passes.running import values_of
from tests.tensor.against import draw

FOLDER = Path(__file__).parent / "precision"
FILES = sorted(path.name for path in FOLDER.glob("*.ir"))
BETWEEN = "\n# ---\n"


def came_out(text: str) -> str:
    """Return what a golden file must be, for what it asks."""
    asked = text.partition(BETWEEN)[0].rstrip("\n")
    run = re.match(r"# run: (.*)\n(?:# weights: (.*)\n)?", asked)
    assert run, "the first line must say what is run, as in '# run: half'"
    pipeline = parse_pipeline(run.group(1))
    assert str(parse_pipeline(str(pipeline))) == str(pipeline)
    before = parse(asked)
    weights = {before[name].id: "" for name in (run.group(2) or "").split(", ") if name}
    compilation = compile_ir(before, pipeline, given=Given(weights=weights))
    after = compilation.ir
    assert parse(str(after)) == after
    check_near(before, after)
    again = compile_ir(after, pipeline, given=Given(weights=weights))
    assert again.ir is after, again.snapshots[-1].firings
    notes = [f"# {f.rule}: {f.because}" for s in compilation.snapshots[2:] for f in s.firings]
    notes += [
        f"# refused {one.rule} at {before[one.node]}: {one.because}"
        for snapshot in compilation.snapshots
        for one in snapshot.refusals
    ]
    return f"{asked}{BETWEEN}" + "\n".join([str(after), *dict.fromkeys(notes)]) + "\n"


def check_near(before: IR, after: IR) -> None:
    """Check that two graphs compute the same but for rounding."""
    data = {
        node.name: draw(ints(node.shape), str(node.dtype), seed=node.id, low=-1.0 + 1.0 * whole)
        for node in before.inputs
        for whole in [node.dtype.kind == "int"]  # an index
    }
    ours, theirs = (values_of(ir, data, {}) for ir in (before, after))
    for old, new in zip(ours, theirs, strict=True):
        assert (old.dtype, old.shape) == (new.dtype, new.shape)
        one, other = old.astype(np.float64), new.astype(np.float64)
        assert np.abs(one - other).max() < 0.02 * np.abs(one).max()


@pytest.mark.parametrize("file", FILES)
def test_golden(file, golden):
    golden(came_out((FOLDER / file).read_text(encoding="utf-8")), f"precision/{file}")


def test_there_are_golden_files():
    assert FILES

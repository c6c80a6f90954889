"""Golden files of passes: `# run: dce, cse`, a graph, `# ---`, the graph that must come out.

What comes out has comments behind it: the reasons that steps gave, and which rules were refused
because the pipeline's licence does not grant what they assume.
"""

import re
from pathlib import Path

import pytest

from luminal_lab.core.parse import parse
from luminal_lab.passes.pipeline import parse_pipeline
from tests.passes.running import check_values, facts_of, notes_of, run_passes

FOLDER = Path(__file__).parent / "golden"
FILES = sorted(path.relative_to(FOLDER).as_posix() for path in FOLDER.rglob("*.ir"))
BETWEEN = "\n# ---\n"


def came_out(text: str) -> str:
    """Return what a golden file must be, for what it asks."""
    asked = text.partition(BETWEEN)[0].rstrip("\n")
    run = re.match(r"# run: (.*)\n", asked)
    assert run, "the first line must say what is run, as in '# run: dce, cse'"
    pipeline = parse_pipeline(run.group(1))
    assert str(parse_pipeline(str(pipeline))) == str(pipeline)
    before = parse(asked)
    compilation = run_passes(before, pipeline)
    after = compilation.ir
    assert parse(str(after)) == after
    check_values(before, after, facts_of(compilation.pipeline))
    return f"{asked}{BETWEEN}" + "\n".join([str(after), *notes_of(compilation)]) + "\n"


@pytest.mark.parametrize("file", FILES)
def test_golden(file, golden):
    golden(came_out((FOLDER / file).read_text(encoding="utf-8")), f"golden/{file}")


def test_there_are_golden_files():
    assert FILES


def test_a_wrong_value_is_found():
    x = "graph g(%x: f32[2]) -> (%y) {\n"
    one, other = (parse(f"{x}  %y = {op} %x : f32[2]\n}}") for op in ("sin", "sqrt"))
    with pytest.raises(AssertionError, match="output 0 of g, draw 0"):
        check_values(one, other)


def test_the_sign_of_zero_counts_unless_it_is_granted():
    plus, minus = (
        parse(f"graph g() -> (%y) {{ %y = constant{{value = {zero}}} : f32[2] }}")
        for zero in ("0.0", "-0.0")
    )
    check_values(plus, minus)
    with pytest.raises(AssertionError, match="output 0"):
        check_values(plus, minus, ())

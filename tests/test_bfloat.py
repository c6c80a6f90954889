"""Without ml_dtypes everything works but bfloat16, which says what it needs."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
HIDDEN = """\
import sys
sys.modules["ml_dtypes"] = None
import numpy as np
import luminal_lab as ll
"""


def said(code: str) -> str:
    """Return what a Python prints that has no ml_dtypes."""
    done = subprocess.run(
        [sys.executable, "-c", HIDDEN + code], cwd=ROOT, check=False, timeout=120, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8",
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    return done.stdout


def test_the_quickstart_runs():
    code = """
import doctest, runpy
readme = runpy.run_path("tests/readme.py")
text = readme["README"].read_text(encoding="utf-8")
found = readme["examples"](text.partition("## Quickstart")[2].partition("\\n## ")[0])
test = doctest.DocTest(found, {}, "README.md", None, 0, text)
failed = doctest.DocTestRunner().run(test).failed
assert "ml_dtypes" not in {name for name, module in sys.modules.items() if module}
print(failed)
"""
    assert said(code) == "0\n"


def test_all_passes_and_values_are_checked():
    code = """
from luminal_lab import nn
cx = ll.Graph()
x = cx.tensor((3, 4), name="x").set(np.ones((3, 4)))
y = nn.Linear(4, 2)(x).softmax(-1).cast("float16").retrieve()
cx.compile(ll.GenericCompiler(), check="values")
cx.execute()
print(y.numpy().shape)
"""
    assert said(code) == "(3, 2)\n"


ASKED = (
    'cx.tensor((2,), dtype="bfloat16")',
    'cx.tensor((2,), dtype="bf16")',
    "cx.tensor((2,), dtype=ll.DType.bfloat16)",
    'x.cast("bfloat16")',
    "x.bfloat16()",
    'll.parse("graph main(%a: bf16[2]) -> (%a) {}")',
)


def test_bfloat16_says_what_it_needs():
    code = f"""
cx = ll.Graph()
x = cx.tensor((2,), name="x")
for asked in {ASKED!r}:
    try:
        eval(asked)
    except ll.DTypeError as error:
        print(error.message, error.hint, sep="; ")
"""
    words = "bfloat16 needs the package ml_dtypes, which is not installed; pip install"
    assert said(code).count(words) == len(ASKED)


def test_doctor_says_so():
    code = """
from luminal_lab.cli import checks
print(checks.packages().text)
"""
    assert "no ml_dtypes, so no bfloat16" in said(code.replace(".text", ""))

"""What was saved is opened by a process that has loaded nothing before."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

WRITE = """
from dataclasses import dataclass
import numpy as np
import luminal_lab as ll
from luminal_lab import Unary

@dataclass(frozen=True, slots=True)
class Doubled(Unary):
    "Twice its operand."
    name = "doubled"
    def eval(self, x):
        return x + x

cx = ll.Graph("g")
if "own" in SHAPES:
    for size in (2, 3):
        cx.tensor((size,)).apply(Doubled()).retrieve()
    cx.compile("dce")
else:
    x, w, v = (cx.tensor(shape) for shape in ((8, 16), (16, 64), (64, 10)))
    (x @ w @ v).retrieve()
    cx.compile(DEVICE)
cx.save(LAB)
open(IR, "w").write(str(cx.compilation.ir))
"""
READ = """
import luminal_lab as ll
run = ll.open(LAB)
print([str(snapshot.ir) for snapshot in run.snapshots][-1] == open(IR).read())
print(str(ll.parse(open(IR).read())) == open(IR).read() if "own" not in SHAPES else True)
"""


def ran(script: str, **given: str) -> str:
    head = "".join(f"{name} = {value!r}\n" for name, value in given.items())
    done = subprocess.run(
        [sys.executable, "-c", head + script], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert not done.returncode, done.stderr
    return done.stdout


@pytest.mark.parametrize("device", ["generic, cpu", "generic, cuda{arch = sm_80}", "own"])
def test_a_recording_of_any_compile_opens_in_another_process(device, tmp_path):
    given = {"LAB": str(tmp_path / "m.lab"), "IR": str(tmp_path / "m.ir")}
    given |= {"DEVICE": device, "SHAPES": device}
    ran(WRITE, **given)
    assert ran(READ, **given).split() == ["True", "True"]

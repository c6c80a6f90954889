"""What tests of the command line share: asking it in this process, and as a program."""

import subprocess
import sys
from pathlib import Path

import luminal_lab as ll
from luminal_lab import cli

ROOT = Path(__file__).resolve().parents[2]
GRAPH = """\
graph g(%x: f32[2]) -> (%y) {
  %c = constant{value = 1.0} : f32[2]
  %z = mul %x, %c : f32[2]
  %y = sin %z : f32[2]
}
"""


def ask(capsys, *arguments):
    """Return the exit status, what is said, and what is said of errors."""
    status = cli.main([str(one) for one in arguments])
    said = capsys.readouterr()
    return status, said.out, said.err


def started(*arguments, **how):
    """Start it as a program."""
    command = [sys.executable, "-m", "luminal_lab", *map(str, arguments)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **how}
    folder = pipes.pop("cwd", ROOT)
    return subprocess.Popen(command, cwd=folder, text=True, **pipes)


def recording(path):
    """Write a recording of a small compile, and return its path."""
    cx = ll.Graph("twice")
    (cx.tensor((2,), name="x") * 2 + 0).retrieve()
    cx.compile("simplify, dce")
    cx.save(path)
    return path

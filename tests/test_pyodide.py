"""The browser's Python, as npm has it: all files compile there, and it has the modules they name.

npm's package is Pyodide's core alone, without NumPy, so that nothing of ours runs on it.
"""

import json
import subprocess
from pathlib import Path

from tests.needs import need

ROOT = Path(__file__).resolve().parents[1]
PYODIDE = ROOT / "frontend" / "node_modules" / "pyodide"
LATE = {
    "resource": {
        "luminal_lab/bench/studies/core.py",
        "luminal_lab/bench/studies/shapes.py",
        "luminal_lab/course/isolated.py",
        "luminal_lab/machines/here.py",
    }
}
"""What the browser lacks, and who imports it where there are processes, which a browser has not."""


def test_all_files_compile_there_and_name_nothing_that_is_missing():
    need("pyodide")
    command = [need("node"), str(ROOT / "tests" / "pyodide.mjs"), str(PYODIDE), str(ROOT)]
    done = subprocess.run(
        command, capture_output=True, text=True, encoding="utf-8", timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout)
    assert found["platform"] == "emscripten"
    assert found["files"] == len([*(ROOT / "luminal_lab").rglob("*.py")])
    assert found["broken"] == []
    assert {module: {*places} for module, places in found["missing"].items()} == LATE

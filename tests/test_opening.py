"""What other places make of this checkout by their conventions is there, and names what exists."""

import os
import re
import subprocess
import tomllib
from pathlib import Path

from packaging.requirements import Requirement

from tests.needs import need

ROOT = Path(__file__).resolve().parents[1]
BINDER = ROOT / "binder"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = {
    name: [Requirement(one) for one in needs]
    for name, needs in PROJECT["optional-dependencies"].items()
}


def test_binder_has_what_repo2docker_looks_for_and_nothing_that_would_replace_it() -> None:
    assert {path.name for path in BINDER.iterdir()} == {
        *("apt.txt", "postBuild", "requirements.txt", "runtime.txt"),
    }
    python = (BINDER / "runtime.txt").read_text().strip()
    assert re.fullmatch(r"python-3\.1[1-9]", python)
    for line in (BINDER / "requirements.txt").read_text().splitlines():
        assert line.startswith("#") or Requirement(line).name


def test_binders_last_step_is_a_program_of_the_shell() -> None:
    step = BINDER / "postBuild"
    assert step.read_text().startswith("#!/usr/bin/env bash\n")
    assert os.access(step, os.X_OK) or os.name == "nt"
    need("bash")
    subprocess.run(["bash", "-n", str(step)], check=True)


def test_a_browser_is_asked_for_nothing_that_has_to_be_compiled() -> None:
    there = {"sys_platform": "emscripten", "platform_machine": "wasm32"}
    asked = {one.name for one in EXTRAS["lab"] if one.marker is None or one.marker.evaluate(there)}
    assert asked == {"pandas", "plotly", "tqdm"}
    here = {"sys_platform": "linux", "platform_machine": "x86_64"}
    assert all(one.marker is None or one.marker.evaluate(here) for one in EXTRAS["lab"])


def test_all_has_what_the_commands_ask_for() -> None:
    (everything,) = EXTRAS["all"]
    assert everything.extras == {"lab", "lm", "onnx", "serve", "zig"}
    page = (ROOT / "README.md").read_text(encoding="utf-8")
    assert not [name for name in everything.extras if f"`{name}`" not in page]


def test_what_make_installs_is_an_extra() -> None:
    made = set(re.findall(r"\.venv/\.installed-([a-z]+)", (ROOT / "Makefile").read_text()))
    assert made - {"core"} <= set(EXTRAS)


def test_the_page_names_the_pyodide_that_jupyterlite_takes() -> None:
    constants = need("jupyterlite_pyodide_kernel.constants")
    page = (ROOT / "docs" / "where_it_opens.md").read_text(encoding="utf-8")
    assert f"Pyodide {constants.PYODIDE_VERSION}," in page

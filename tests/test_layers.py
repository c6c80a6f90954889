"""Hold the layers: who may import whom, what stays out of the core, which names are not used."""

import ast
import graphlib
import re
import subprocess
import sys
import textwrap
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

ROW = re.compile(r"^\| `luminal_lab/([\w/]+?)(?:/|\.py)` \| .* \| (.*) \|$", re.MULTILINE)
"""A row of ARCHITECTURE's tables: a place, what lives there, what it imports."""


def read_layers(text: str) -> dict[str, list[str]]:
    """Return the places of ARCHITECTURE's tables, each with the places that it may import."""
    rows = {
        name.replace("/", "."): re.findall(r"[\w.]+", given) for name, given in ROW.findall(text)
    }
    for place, allowed in rows.items():
        whole = place.partition(".")[0]
        if whole != place:  # a room: it names others of its house
            beside = [f"{whole}.{name}" for name in allowed]
            rows[place] = [b if b in rows else a for a, b in zip(allowed, beside, strict=True)]
    return rows


LAYERS = read_layers((ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8"))
FILES = {place for place in LAYERS if (ROOT / "luminal_lab" / f"{place}.py").is_file()}

CORE_LIBRARIES = {"numpy", "ml_dtypes", "typing_extensions"}
LIGHT = CORE_LIBRARIES | sys.stdlib_module_names
PICTURE_LIBRARIES = {"IPython", "anywidget", "graphviz", "ipywidgets", "matplotlib", "plotly"}
PICTURE_LIBRARIES |= {"altair", "bokeh", "networkx", "pydot", "pygraphviz", "seaborn", "traitlets"}
VAGUE = {"common", "handler", "helper", "manager", "util"}
READERS = {
    *("luminal_lab.devices.build.toolchain", "luminal_lab.devices.webgpu.engine"),
    *("luminal_lab.language.hub", "luminal_lab.cli.serve"),
}
"""What starts compilers in its own environment, but for where temporary files go; what leaves the
choice of a GPU to Mesa where it was asked to choose; what looks where Hugging Face's tools have put
models; and what takes the key of an endpoint, which no list of processes should show."""
ENVIRONMENT = {"environ", "environb", "getenv", "getenvb"}
# What is read to understand the graph; the catalogue of ops is looked things up in.
CORE_LINES = 3_400
XLA_LINES = 300
XLA = "luminal_lab/devices/xla"
"""A device to read as an example."""
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass(frozen=True)
class Import:
    """One import of one module, and where it stands."""

    module: str
    line: int
    typing_only: bool


def place_of(module: str) -> str:
    """Return the row of the tables that a module of ours belongs to: the innermost."""
    if "." not in module:
        return "__init__"
    words = module.split(".")[1:]
    places = (".".join(words[:count]) for count in range(len(words), 0, -1))
    return next((place for place in places if place in LAYERS), words[0])


def may_import(place: str, other: str) -> bool:
    """Return whether a place may import another one."""
    whole = place.partition(".")[0]
    allowed = [place, *LAYERS.get(place, [])]
    if other in allowed:
        return True
    if other.partition(".")[0] == whole:
        return place == whole  # its own rooms; a room has others only if it names them
    everywhere = allowed if place == whole else [*allowed, *LAYERS[whole]]
    return other in everywhere or other.partition(".")[0] in everywhere


def faults(sources: Mapping[str, str]) -> list[str]:
    """Return one sentence for each breach of the layers in `{module name: source}`."""
    found: list[str] = []
    imports: dict[str, list[Import]] = {}
    core = 0
    for module, source in sources.items():
        tree = ast.parse(source, module)  # and no longer kept: a hundred thousand lines are large
        found += name_faults(module)
        nodes = [*ast.walk(tree)]
        found += tree_faults(module, nodes)
        imports[module] = sorted(imports_of(nodes, sources), key=lambda one: one.line)
        found += import_faults(module, imports[module])
        if place_of(module) == "core" and not f"{module}.".startswith("luminal_lab.core.ops."):
            core += code_lines(source, tree)
    graph = {
        module: {i.module for i in imported if i.module in sources and not i.typing_only}
        for module, imported in imports.items()
    }
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        # graphlib lists a cycle against the direction of its edges.
        found.append("an import cycle: " + " -> ".join(reversed(error.args[1])))
    found += room_faults(imports, sources)
    if core > CORE_LINES:
        found.append(f"core has {core:,} lines without docstrings; {CORE_LINES:,} are its limit")
    return found


def room_of(module: str) -> str:
    """Return the room of a module; a file that stands in no room is one itself."""
    place = place_of(module)
    has_rooms = any(other.startswith(f"{place}.") for other in LAYERS)
    return module if has_rooms else place


def room_faults(imports: Mapping[str, list[Import]], sources: Mapping[str, str]) -> Iterator[str]:
    """Yield a circle of rooms that import each other, be it for types alone."""
    rooms: dict[str, set[str]] = {}
    for module, imported in imports.items():
        room = room_of(module)
        others = {room_of(one.module) for one in imported if one.module in sources}
        rooms.setdefault(room, set()).update(others - {room})
    try:
        graphlib.TopologicalSorter(rooms).prepare()
    except graphlib.CycleError as error:
        yield "a circle of rooms: " + " -> ".join(reversed(error.args[1]))


def name_faults(module: str) -> Iterator[str]:
    """Yield what is wrong with a module's name."""
    if place_of(module) not in LAYERS:
        yield f"{module}: {place_of(module)} is not in the table of layers"
    for word in module.replace("_", ".").split("."):
        if word.removesuffix("s") in VAGUE:
            yield f"{module}: a module is named after its job, and {word!r} names none"


def tree_faults(module: str, nodes: Sequence[ast.AST]) -> Iterator[str]:
    """Yield the relative imports of a module, and where it reads the environment."""
    for node in nodes:
        match node:
            case ast.ImportFrom(level=level) if level:
                yield f"{module}:{node.lineno}: a relative import"
            case ast.ImportFrom(module="os", names=names):
                for name in ENVIRONMENT.intersection(name.name for name in names):
                    yield f"{module}:{node.lineno}: reads the environment (os.{name})"
            case ast.Attribute(attr=name, value=ast.Name()) if (
                name in ENVIRONMENT and module not in READERS
            ):
                yield f"{module}:{node.lineno}: reads the environment (os.{name})"
            case _:
                pass


def import_faults(module: str, imports: list[Import]) -> Iterator[str]:
    """Yield the imports that a module's place does not allow."""
    place = place_of(module)
    for imported in imports:
        at = f"{module}:{imported.line}: imports {imported.module}, and {place}"
        library = imported.module.split(".")[0]
        if library == "luminal_lab":
            if not may_import(place, place_of(imported.module)):
                allowed = ", ".join(LAYERS.get(place, []))
                yield f"{at} may import {allowed or 'nothing of ours'}"
        elif library in PICTURE_LIBRARIES and place != "viz":
            yield f"{at} draws nothing: pictures and widgets belong to viz"
        elif place in {"errors", "core", "tensor"} and library not in LIGHT:
            yield f"{at} may import, of others, {', '.join(sorted(CORE_LIBRARIES))}"


def imports_of(nodes: Sequence[ast.AST], sources: Mapping[str, str]) -> Iterator[Import]:
    """Yield every import of a module, those by a constant `import_module(…)` included."""
    for_types = {
        id(inner)
        for node in nodes
        if isinstance(node, ast.If) and is_for_types(node.test)
        for statement in node.body
        for inner in ast.walk(statement)
    }
    for node in nodes:
        match node:
            case ast.Import(names=names):
                targets = [name.name for name in names]
            case ast.ImportFrom(module=str(package), level=0, names=names):
                targets = [from_target(package, name.name, sources) for name in names]
            case ast.Call(
                func=ast.Name(id=name) | ast.Attribute(attr=name),
                args=[ast.Constant(value=str(target)), *_],
            ) if name in {"import_module", "__import__"}:
                targets = [target]
            case _:
                continue
        for target in targets:
            yield Import(target, node.lineno, id(node) in for_types)


def from_target(package: str, name: str, sources: Mapping[str, str]) -> str:
    """Return the module that `from package import name` is about: a submodule or the package."""
    module = f"{package}.{name}"
    is_place = package == "luminal_lab" and name in LAYERS
    return module if is_place or module in sources else package


def is_for_types(test: ast.expr) -> bool:
    """Return whether what a condition guards is only there for type checkers."""
    name = test.attr if isinstance(test, ast.Attribute) else getattr(test, "id", "")
    return name == "TYPE_CHECKING"


def code_lines(source: str, tree: ast.AST) -> int:
    """Return how many lines of a module there are to read: not docstrings, not empty ones."""
    said = {
        line
        for node in ast.walk(tree)
        if isinstance(node, DOCUMENTED) and ast.get_docstring(node) is not None
        for line in range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1)
    }
    lines = enumerate(source.splitlines(), 1)
    return sum(1 for number, line in lines if line.strip() and number not in said)


def package_sources(folder: Path) -> dict[str, str]:
    """Return `{module name: source}` of a package's folder."""
    sources: dict[str, str] = {}
    for path in sorted(folder.rglob("*.py")):
        parts = path.relative_to(folder.parent).with_suffix("").parts
        if parts[-1] == "__init__":
            parts = parts[:-1]
        sources[".".join(parts)] = path.read_text(encoding="utf-8")
    return sources


def test_the_package_keeps_its_layers():
    found = faults(package_sources(ROOT / "luminal_lab"))
    assert not found, "\n".join(found)


def test_the_device_of_xla_stays_small():
    files = [path.read_text(encoding="utf-8") for path in (ROOT / XLA).glob("*.py")]
    assert sum(code_lines(source, ast.parse(source)) for source in files) <= XLA_LINES


def test_pyright_is_strict_on_every_place_but_viz():
    config = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    houses = {place.partition(".")[0] for place in LAYERS.keys() - FILES}
    folders = {f"luminal_lab/{house}" for house in houses - {"viz"}}
    assert set(config["tool"]["pyright"]["strict"]) == {"luminal_lab/*.py", *folders}


def test_importing_luminal_lab_brings_in_the_core_and_nothing_heavier():
    script = """if True:
        import sys
        import ml_dtypes, numpy, typing_extensions
        before = set(sys.modules)
        import luminal_lab
        print(*sorted(sys.modules.keys() - before), sep="\\n")
    """
    command = [sys.executable, "-W", "error", "-c", script]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert not done.returncode, done.stderr
    modules = done.stdout.split()
    assert "luminal_lab" in modules
    ours = re.compile(
        r"luminal_lab(\.(errors|bfloat|interrupts|display|listeners|trust|session(_compile)?|core(\..+)?|tensor(\..+)?))?"
    )
    heavy = [m for m in modules if m.split(".")[0] not in LIGHT and not ours.fullmatch(m)]
    assert not heavy


LAWFUL = {
    "luminal_lab": """
        from typing import TYPE_CHECKING
        from luminal_lab import errors
        from luminal_lab.core import IR
        if TYPE_CHECKING:
            from luminal_lab.viz.widget import Explorer
        """,
    "luminal_lab.errors": "import difflib",
    "luminal_lab.core": "from luminal_lab.core.ir import IR",
    "luminal_lab.core.ir": """
        import os
        import numpy as np
        from luminal_lab.core import ops
        from luminal_lab.errors import LabError
        home = os.fspath('.')
        """,
    "luminal_lab.core.ops": """
        import typing
        if typing.TYPE_CHECKING:
            from luminal_lab.core.ir import IR
        """,
    "luminal_lab.passes.dce": "from luminal_lab.core import IR",
    "luminal_lab.viz.widget": "import anywidget\nfrom luminal_lab.kernels.nest import nest",
}


def sources(planted: Mapping[str, str]) -> dict[str, str]:
    return {module: textwrap.dedent(source) for module, source in {**LAWFUL, **planted}.items()}


def test_lawful_sources_have_no_faults():
    assert faults(sources({})) == []


@pytest.mark.parametrize(
    ("module", "source", "fault"),
    [
        pytest.param(
            "luminal_lab.core.ir",
            "from luminal_lab.passes import dce",
            "luminal_lab.core.ir:1: imports luminal_lab.passes.dce, and core may import errors, "
            "bfloat, interrupts, display, trust, scanner",
            id="upward",
        ),
        pytest.param(
            "luminal_lab.core.ir",
            "from luminal_lab import passes",
            "luminal_lab.core.ir:1: imports luminal_lab.passes, and core may import errors, "
            "bfloat, interrupts, display, trust, scanner",
            id="upward-place",
        ),
        pytest.param(
            "luminal_lab.core.ir",
            "import luminal_lab as ll",
            "luminal_lab.core.ir:1: imports luminal_lab, and core may import errors, bfloat, "
            "interrupts, display, trust, scanner",
            id="upward-to-the-top",
        ),
        pytest.param(
            "luminal_lab.core.ir",
            "import typing\nif typing.TYPE_CHECKING:\n    import luminal_lab.passes.dce",
            "luminal_lab.core.ir:3: imports luminal_lab.passes.dce, and core may import errors, "
            "bfloat, interrupts, display, trust, scanner",
            id="upward-for-types",
        ),
        pytest.param(
            "luminal_lab.core.ir",
            "import importlib\nimportlib.import_module('luminal_lab.passes.dce')",
            "luminal_lab.core.ir:2: imports luminal_lab.passes.dce, and core may import errors, "
            "bfloat, interrupts, display, trust, scanner",
            id="upward-by-name",
        ),
        pytest.param(
            "luminal_lab.nn.linear",
            "def f():\n    from luminal_lab.kernels.nest import nest",
            "luminal_lab.nn.linear:2: imports luminal_lab.kernels.nest, and nn may import "
            "errors, interrupts, display, reading, plain, core, tensor, passes",
            id="sideways-in-a-function",
        ),
        pytest.param(
            "luminal_lab.errors",
            "from luminal_lab.core import IR",
            "luminal_lab.errors:1: imports luminal_lab.core, and errors may import nothing of ours",
            id="errors",
        ),
        pytest.param(
            "luminal_lab.core.ops",
            "from luminal_lab.core.ir import IR",
            "an import cycle: luminal_lab.core.ir -> luminal_lab.core.ops -> luminal_lab.core.ir",
            id="cycle",
        ),
        pytest.param(
            "luminal_lab.core.ir",
            "import plotly.graph_objects as go",
            "luminal_lab.core.ir:1: imports plotly.graph_objects, and core draws nothing: "
            "pictures and widgets belong to viz",
            id="plotly",
        ),
        pytest.param(
            "luminal_lab.session",
            "def show():\n    from IPython.display import display",
            "luminal_lab.session:2: imports IPython.display, and session draws nothing: "
            "pictures and widgets belong to viz",
            id="widgets-in-a-function",
        ),
        pytest.param(
            "luminal_lab.core.ir",
            "import scipy.special",
            "luminal_lab.core.ir:1: imports scipy.special, and core may import, of others, "
            "ml_dtypes, numpy, typing_extensions",
            id="third-party",
        ),
        pytest.param(
            "luminal_lab.core.ir",
            "from . import ops",
            "luminal_lab.core.ir:1: a relative import",
            id="relative",
        ),
        pytest.param(
            "luminal_lab.passes.dce",
            "import os\nDEBUG = os.environ.get('DEBUG')",
            "luminal_lab.passes.dce:2: reads the environment (os.environ)",
            id="environment",
        ),
        pytest.param(
            "luminal_lab.passes.dce",
            "from os import getenv",
            "luminal_lab.passes.dce:1: reads the environment (os.getenv)",
            id="environment-by-name",
        ),
        pytest.param(
            "luminal_lab.passes.graph_utils",
            "",
            "luminal_lab.passes.graph_utils: a module is named after its job, "
            "and 'utils' names none",
            id="vague",
        ),
        pytest.param(
            "luminal_lab.plugins.cuda",
            "",
            "luminal_lab.plugins.cuda: plugins is not in the table of layers",
            id="unknown-place",
        ),
        pytest.param(
            "luminal_lab.core.long",
            '"""A docstring\nof two lines."""\n' + "x = 1\n" * 3_400,
            "core has 3,406 lines without docstrings; 3,400 are its limit",
            id="too-long",
        ),
    ],
)
def test_a_planted_fault_is_named(module: str, source: str, fault: str):
    assert fault in faults(sources({module: source}))


FOR_TYPES = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    "


@pytest.mark.parametrize(
    ("planted", "fault"),
    [
        pytest.param(
            {
                "luminal_lab.devices.cpu.run": "def f():\n    import luminal_lab.devices.cpu.plan",
                "luminal_lab.devices.cpu.plan": "from luminal_lab.devices.cpu.run import CPURun",
            },
            "an import cycle: luminal_lab.devices.cpu.plan -> luminal_lab.devices.cpu.run -> "
            "luminal_lab.devices.cpu.plan",
            id="in-a-function",
        ),
        pytest.param(
            {
                "luminal_lab.kernels.nest.nest": FOR_TYPES + "import luminal_lab.kernels.plans.cpu",
                "luminal_lab.kernels.plans.cpu": "from luminal_lab.kernels.nest.nest import Nest",
            },
            "a circle of rooms: kernels.nest -> kernels.plans -> kernels.nest",
            id="rooms-for-types",
        ),
        pytest.param(
            {
                "luminal_lab.kernels.kernel": FOR_TYPES + "import luminal_lab.kernels.launch",
                "luminal_lab.kernels.launch": "from luminal_lab.kernels.kernel import Kernel",
            },
            "a circle of rooms: luminal_lab.kernels.kernel -> luminal_lab.kernels.launch -> "
            "luminal_lab.kernels.kernel",
            id="files-in-no-room",
        ),
        pytest.param(
            {
                "luminal_lab.devices": FOR_TYPES + "from luminal_lab.devices.cpu.run import CPURun",
                "luminal_lab.devices.cpu.run": "import luminal_lab.devices",
            },
            "a circle of rooms: luminal_lab.devices -> devices.cpu -> luminal_lab.devices",
            id="room-and-its-house",
        ),
    ],
)
def test_a_planted_circle_is_named(planted: Mapping[str, str], fault: str):
    found = faults(sources(planted))
    start, *others = fault.partition(": ")[2].split(" -> ")[:-1]
    circle = [start, *others]
    said = {" -> ".join([*circle[k:], *circle[:k], circle[k]]) for k in range(len(circle))}
    assert any(line.endswith(tuple(said)) and line.startswith(fault[:4]) for line in found), found


def test_types_of_one_room_may_know_each_other():
    planted = {
        "luminal_lab.devices.cpu.run": FOR_TYPES + "import luminal_lab.devices.cpu.plan",
        "luminal_lab.devices.cpu.plan": "from luminal_lab.devices.cpu.run import CPURun",
    }
    assert faults(sources(planted)) == []

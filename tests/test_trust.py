"""Code that a file brings along: no way in runs it unless somebody said so."""

from __future__ import annotations

import ast
import io
import os
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import luminal_lab as ll
from luminal_lab import cli, devices, trust
from luminal_lab.cli.open import page_of
from luminal_lab.core.ops import user_kernels
from luminal_lab.devices.build.toolchain import build, compile_library, find_compiler
from luminal_lab.devices.gpu.nvrtc import compile_cuda
from luminal_lab.devices.metal.engine import MetalEngine
from luminal_lab.errors import LabError, TrustError
from luminal_lab.io.opened import Opened
from luminal_lab.kernels.kernel import Kernels
from luminal_lab.passes.pipeline import Pipeline
from luminal_lab.search.graph import search_program
from luminal_lab.viz.live.held import Held
from luminal_lab.viz.live.replies import ASKS, Replies
from luminal_lab.viz.live.shown import FORMATTERS
from tests.foreign import Foreign
from tests.kept import entries
from tests.needs import need
from tests.search.planted import guess
from tests.sources import texts, trees

DEVICES: dict[str, Pipeline] = {
    "c": ll.CPUCompiler(threads=1),
    "cuda": ll.CUDACompiler(emulate=True),
    "metal": ll.MetalCompiler(emulate=True),
}


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A user who has signed nothing, and has compiled nothing."""
    folder = tmp_path / "home"
    folder.mkdir()
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.setenv("USERPROFILE", str(folder))
    return folder


# -- every way in ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Way:
    """A way that a file goes: what is done with it, and whether its code runs where it is trusted.

    `go` is given the file, and whether it is trusted.
    """

    go: Callable[[Foreign, bool], object]
    runs: bool = False
    dialect: str = "c"


def served(given: Foreign, is_trusted: bool) -> None:
    """Make the page that `open` serves."""
    need("script")
    page_of(opened(given, is_trusted))


def exported(given: Foreign, is_trusted: bool) -> None:
    """Write a page."""
    need("script")
    command("export", "LAB", "-o", "OUT", asks="")(given, is_trusted)


def command(*words: str, asks: str = "--trust", pipe: bool = False) -> Callable[..., None]:
    """Return what asks the command line; a file's name stands for the file."""

    def go(given: Foreign, is_trusted: bool) -> None:
        files = {"IR": given.file, "LAB": given.recording(), "OUT": given.folder / "out.html"}
        asked = [str(files.get(word, word)) for word in words]
        with pytest.MonkeyPatch.context() as patch:
            if pipe:
                stdin = io.TextIOWrapper(io.BytesIO(given.text.encode()))
                patch.setattr(sys, "stdin", stdin)
            status = cli.main([*asked, *([asks] if is_trusted and asks else [])])
        assert status == (0 if is_trusted or not asks else 2)

    return go


def compiled(dialect: str) -> Way:
    """Return the way through a device, with all that a compile can be asked for."""

    def go(given: Foreign, is_trusted: bool) -> None:
        ir = ll.parse(given.text, trust=is_trusted)
        ll.compile_ir(ir, "generic", DEVICES[dialect], check="values")

    return Way(go, runs=True, dialect=dialect)


def by_xla(given: Foreign, is_trusted: bool) -> None:
    need("jax")
    ir = ll.parse(given.text, trust=is_trusted)
    ll.compile_ir(ir, "generic", ll.XLACompiler(), check="values")


def kernel_of(given: Foreign, is_trusted: bool) -> Any:
    """Return the kernel of a compile that nothing has run yet."""
    ir = ll.parse(given.text, trust=is_trusted)
    made: Any = ll.compile_ir(ir, DEVICES[given.dialect])
    return made.runner.kernels[0]


def in_a_session(given: Foreign, is_trusted: bool) -> None:
    """Put an op from a file into a graph of this session's, compile and run it."""
    (op,) = user_kernels(ll.parse(given.text, trust=is_trusted))
    cx = ll.Graph()
    x = cx.tensor((4,), name="x").set([1.0, 2, 3, 4])
    y = x.apply(op).retrieve()
    cx.compile(DEVICES["c"])
    cx.execute()
    assert y.numpy().tolist() == [2, 4, 6, 8]


def searched(given: Foreign, is_trusted: bool) -> None:
    """Search the other kernels of a graph; workers are sent those alone."""
    (op,) = user_kernels(ll.parse(given.text, trust=is_trusted))
    cx = ll.Graph()
    x = cx.tensor((4,), name="x").set([1.0, 2, 3, 4])
    y = (x.apply(op).reshape(1, 4) @ cx.tensor((4, 2), name="w").set(np.ones((4, 2)))).retrieve()
    ir = ll.compile_ir(cx.ir, ll.Pipeline(DEVICES["c"].passes)).ir
    jobs: list[str] = []
    search = search_program(
        ir,
        ll.CPUCompiler(threads=1),
        budget=ll.Budget(candidates=1),
        worker=lambda job: jobs.append(job) or guess(job),
    )
    assert "no schedule makes it" in search.skipped.values()
    assert jobs
    assert not any(op.source in job for job in jobs)
    cx.compile(search.best)
    cx.execute()
    assert y.numpy().tolist() == [[20, 20]]


def compared(given: Foreign, is_trusted: bool) -> None:
    """Hold devices side by side."""
    (op,) = user_kernels(ll.parse(given.text, trust=is_trusted))
    cx = ll.Graph()
    x = cx.tensor((4,), name="x").set([1.0, 2, 3, 4])
    x.apply(op).retrieve()
    ll.compare(cx, [ll.CPU(threads=1)], rounds=1)


def opened(given: Foreign, is_trusted: bool, **how: Any) -> Opened:
    return ll.open(given.recording(**how), trust=is_trusted)


def recompiled(given: Foreign, is_trusted: bool) -> None:
    """Compile again what a recording holds."""
    ll.compile_ir(opened(given, is_trusted).written, DEVICES["c"])


def program(given: Foreign, name: str = "no-compiler") -> str:
    """Put a program that is no compiler where programs are, and return its name."""
    path = given.folder / name
    path.write_text(f"#!/bin/sh\ntouch {given.mark}\necho 1\n", encoding="utf-8")
    path.chmod(0o755)
    return path.name


def by_its_compiler(given: Foreign, is_trusted: bool) -> None:
    """Compile a recording anew by passes of its own, which name a program."""
    path = given.recording(f"cpu{{compiler = {program(given)}}}")
    words = ["trace", path, "-o", given.folder / "out.lab", *["--trust"] * is_trusted]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", str(given.folder), prepend=os.pathsep)
        assert cli.main([str(word) for word in words]) == 2  # it is no compiler


def by_passes_of_a_file(given: Foreign, is_trusted: bool) -> None:
    """Compile what a recording holds by passes of its own, which name a program."""
    run = opened(given, is_trusted, pipeline=f"cpu{{compiler = {program(given, 'no-cc')}}}")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", str(given.folder), prepend=os.pathsep)
        if is_trusted:  # it is no compiler
            with pytest.raises(LabError):
                ll.compile_ir(run.written, run.pipeline)
        else:
            ll.compile_ir(run.written, f"{run.pipeline}, dce")


COMMANDS: dict[str, list[Way] | str] = {
    "run": [
        Way(command("run", "IR", "--passes", "generic, cpu"), runs=True),
        Way(command("run", "-", "--passes", "cpu", "--check", pipe=True), runs=True),
        Way(command("run", "IR", "--passes", "cuda{emulate = true}", "--check"), True, "cuda"),
        Way(command("run", "IR", "--passes", "metal{emulate = true}", "--check"), True, "metal"),
        Way(command("run", "IR", asks="")),
        Way(command("run", "IR", "--passes", "generic, cuda", asks=""), dialect="cuda"),
    ],
    "trace": [
        Way(command("trace", "LAB", "-o", "OUT"), runs=True),
        Way(command("trace", "LAB", "-o", "OUT", "--passes", "cpu"), runs=True),
        Way(command("trace", "LAB", "-o", "OUT", "--passes", "generic", asks="")),
        Way(by_its_compiler, runs=True),
    ],
    "open": [
        Way(command("open", "LAB", "--text", asks="")),
        Way(command("open", "LAB", "--json", asks="")),
        Way(served),
    ],
    "export": [Way(exported)],
    "trust": [
        Way(command("trust", "LAB", asks="")),
        Way(command("trust", "IR", asks="")),
        Way(command("trust", "LAB", "--show", asks="")),
        Way(command("trust", "IR", "--remove", asks="")),
    ],
    "lab": "it opens the notebooks that come with the course, in Jupyter, which runs them",
    "course": "to grade is to run: the help, the page and the chapter on teaching say so",
    "doctor": "it reads no file",
    "cache": "it lists and deletes what is kept, and loads none of it",
    "passes": "it reads no file",
    "conformance": "it reads no graph; --load: somebody asked for this file",
    "models": "no kernels come in by it; it asks before PyTorch unpickles a .pt2",
    "bench": "what --against reads is numbers and names",
    "record": "of a bundle, machine code for cards: tests/devices/cuda/test_bundle.py",
    "bundle": "it reads no file",
    "export-model": "no kernels come in by it; it asks before PyTorch unpickles a .pt2",
    "serve": "of a folder, a library: tests/serving/test_library.py; no kernels come in by others",
    "generate": "no kernels come in by it; tests/language has its files",
    "transcribe": "the same",
}


def named(reason: str, *names: str) -> dict[str, str]:
    """Return why names are no ways in."""
    return dict.fromkeys(" ".join(names).split(), reason)


PUBLIC: dict[str, list[Way] | str] = {
    **named(
        "an error",
        "ArgumentError AxisError DTypeError DefinitionError DeviceError DimError GraphError",
        "InputError Interrupted LabError LabWarning ModelError NotComputedError ParseError",
        "PassError",
        "RangeError RecordingError ScheduleError ShapeError TrustError UnknownNameError",
        "VerifyError errors",
    ),
    **named("a live picture, whose page asks as in PAGE", "beside predict story"),
    **named(
        "a value, which runs nothing",
        "Binary Blocks Budget DType Dim Edit Elementwise Expr IR Mesh Node Op Reduce Source Symbol",
        "TensorType Unary View Diff Firing History Snapshot Trace Run sharding",
    ),
    **named(
        "it makes passes, rules or nodes of Python that runs already",
        "Rule RuleSet Pass constants fields op rule variables graph_pass Quantised HalfPrecision",
        "Int8Activations Bfloat16Activations",
        "GenericCompiler custom_gradient gradient grad stop_gradient nn quantise",
    ),
    **named(
        "a device or passes by themselves; compile_ir and compare use them",
        "CPU CUDA XLA CPUCompiler CUDACompiler MetalCompiler WebGPUCompiler XLACompiler Metal",
        "WebGPU Pipeline Search Sharded Pipelined",
    ),
    **named(
        "of a session's graph",
        "Tensor Parameter concat stack einsum where block_diag broadcast_tensors cartesian_prod",
        "cdist column_stack dstack fft full_like hstack isin linalg maximum meshgrid minimum",
        "ones_like rand_like randn_like tril triu vstack zeros_like",
    ),
    "load": "no kernels come in by it; tests/language has its folders",
    "Embedder": "the same",
    "LanguageModel": "the same",
    "from_onnx": "no kernels come in by it; tests/importing/test_onnx_hostile.py has its files",
    "from_torch": "no kernels come in by it; tests/importing/test_torch_export.py has its own file",
    "counterexample": "its graphs are those of a rule",
    "minimise": "compile_ir compiles what it tries",
    "plan": "the same, on every mesh",
    "engines": "Sharded runs by them; their kernels are admitted before they are sent",
    "devices": "see DEVICE_NAMES",
    "search": "it rewrites definitions, and evaluates them in NumPy; nothing is compiled",
    "kernel": "its source is the caller's: whoever calls it runs it, as with exec",
    "trace": "it listens to this process",
    "Recorded": "a file of times; they are numbers and names",
    "Graph": [Way(in_a_session, runs=True), Way(searched, runs=True)],
    "Compilation": [Way(lambda given, _: everything(ll.compile_ir(given.ir, "generic")))],
    "Opened": [Way(lambda given, is_trusted: everything(opened(given, is_trusted)))],
    "compare": [Way(compared, runs=True)],
    "compile_ir": [
        *map(compiled, DEVICES),
        Way(by_xla),
        Way(lambda given, is_trusted: kernel_of(given, is_trusted).emulate(), True, "cuda"),
        Way(lambda given, is_trusted: kernel_of(given, is_trusted).emulate(), True, "metal"),
        Way(lambda given, is_trusted: kernel_of(given, is_trusted).source, False, "metal"),
    ],
    "parse_pipeline": [Way(by_passes_of_a_file, runs=True)],
    "diff": [Way(lambda given, _: ll.diff(given.ir, given.ir))],
    "open": [Way(recompiled, runs=True)],
    "parse": [Way(lambda given, is_trusted: everything(ll.parse(given.text, trust=is_trusted)))],
    "run": [
        Way(in_a_session, runs=True),
        Way(lambda given, _: ll.compile_ir(given.ir, "generic", check="values")),
    ],
    "verify": [Way(lambda given, _: ll.verify(given.ir))],
}
DEVICE_NAMES: dict[str, str] = {
    "Conformance": "a table of what came out",
    "Device": "what conformance is given: Python that runs already",
    "PeakRates": "numbers",
    "Recording": "a file of times; they are numbers and names",
    "Specification": "numbers",
    "Timings": "numbers",
    "cached": "it lists and deletes what is kept, and loads none of it",
    "check_kernel": "it takes a kernel that ll.kernel has made",
    "conformance": "its graphs are its own",
    "known_devices": "names",
    "modelled": "numbers",
    "peak_rates": "it measures with kernels of its own",
    "specification": "numbers",
}


def everything(subject: Any) -> None:
    """Ask something for all that it says without an argument, and show all that can be shown."""
    for name in dir(type(subject)):
        if name[0] == "_" or name == "settle":
            continue
        try:
            found = getattr(subject, name)
            if callable(found):
                found()
        except (TypeError, LabError):
            continue
    str(subject)
    for name, maker in FORMATTERS.items():
        if name.partition(".")[0] == type(subject).__name__:
            live = maker(subject)
            live.static()
            assert live.data


def ask_page(*questions: dict[str, Any], dialect: str = "c", runs: bool = False) -> Way:
    """Return the way through the page of a recording: these questions, one after another.

    Where code is refused, somebody who trusts it says yes to what is shown.
    """

    def go(given: Foreign, is_trusted: bool) -> None:
        held = Held(FORMATTERS["Opened.workbench"](opened(given, False))._held.all)
        replies = Replies(held, lambda: None)
        for question in questions:
            if question["ask"] == "drop":
                data = given.recording().read_bytes()
                question = {**question, "name": "run.lab", "size": len(data), "at": 0, "data": data}
            reply = replies.answer({"run": len(held.all) - 1, **question})
            if "carried" in reply:
                shown = [one["source"] for one in reply["carried"]]
                assert shown in ([given.source.strip("\n")], ["no-compiler"]) or (
                    shown[0] in given.source
                )
                if is_trusted:
                    yes = [one["digest"] for one in reply["carried"]]
                    reply = replies.answer({"run": len(held.all) - 1, **question, "trust": yes})
                    assert "carried" not in reply

    return Way(go, runs, dialect)


def again(passes: str) -> dict[str, Any]:
    return {"ask": "rerun", "from": 0, "passes": [{"text": passes}]}


EMULATED = [again("cuda{emulate = true}"), {"ask": "time"}]
PAGE: dict[str, list[Way]] = {
    "advise": [ask_page({"ask": "advise"}), ask_page(again("cse"), {"ask": "advise"})],
    "assembly": [ask_page({"ask": "assembly", "kernel": 0})],
    "board": [ask_page({"ask": "board", "kernel": 0, "schedule": "parallel i"})],
    "drop": [
        ask_page({"ask": "drop"}, again("generic, cpu"), runs=True),
        ask_page({"ask": "drop"}, {"ask": "values", "id": 1}),
    ],
    "rest": [ask_page({"ask": "rest"})],
    "rerun": [
        ask_page(again("generic, cpu"), runs=True),
        ask_page(again("cpu{compiler = no-compiler}")),
        ask_page(again("cuda"), dialect="cuda"),
    ],
    "time": [ask_page(*EMULATED, dialect="cuda", runs=True), ask_page({"ask": "time"})],
    "error_overlay": [
        ask_page(EMULATED[0], {"ask": "error_overlay"}, dialect="cuda", runs=True),
        ask_page({"ask": "error_overlay"}),
    ],
    "values": [ask_page({"ask": "values", "id": 1})],
    "why": [ask_page({"ask": "why", "id": 1}), ask_page(again("cse"), {"ask": "why", "id": 1})],
    "why_not": [ask_page(again("cse"), {"ask": "why_not", "id": 1, "rule": "add-zero"})],
    "minimise": [ask_page(again("cse"), {"ask": "minimise", "id": 1, "rule": "duplicate"})],
    "sources": [
        ask_page(again("cuda"), {"ask": "sources", "dialect": "cuda"}, dialect="cuda"),
        ask_page(again("cse"), {"ask": "sources", "dialect": "c"}),
    ],
    "what_if": [ask_page(again("cse"), {"ask": "what_if", "changed": {"x": ["data"]}})],
    "ptx": [ask_page(again("cuda"), {"ask": "ptx", "kernel": 0}, dialect="cuda")],
}


def ways() -> Iterator[Any]:
    for table in (COMMANDS, PUBLIC, PAGE):
        for name, found in table.items():
            for number, way in enumerate(found if isinstance(found, list) else ()):
                yield pytest.param(way, id=f"{name}-{number}")


def test_every_way_in_is_in_a_table():
    assert COMMANDS.keys() == cli.COMMANDS.keys()
    assert PUBLIC.keys() == {*ll.__all__, "open"}
    assert DEVICE_NAMES.keys() == set(devices.__all__)
    assert PAGE.keys() == ASKS.keys()


@pytest.mark.parametrize("way", list(ways()))
def test_a_files_code_is_not_run_unless_it_is_trusted(
    way: Way, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    given = Foreign(tmp_path, way.dialect, f"evil_{way.dialect}")
    with suppress(TrustError):
        way.go(given, False)
    assert not given.was_run
    # Nor is it kept, to be loaded some other time.
    assert not any(given.mark.name in entry.source for entry in entries())
    signing = [one for one in COMMANDS["trust"] if isinstance(one, Way)]
    assert way in signing or not trust.signed()
    if way.runs:
        way.go(given, True)
        assert given.was_run, "the way does not lead to the code, and shows nothing"


# -- the gate --------------------------------------------------------------------------------------


def marked(dialect: str = "c") -> str:
    """Return generated code with a stranger's in it."""
    op = next(user_kernels(Foreign(Path("/nowhere"), dialect).ir))
    return f"int before;\n{trust.mark(op)}\nint behind;"


@pytest.mark.parametrize(
    "compiles",
    [
        lambda source: compile_library(source, find_compiler()),
        lambda source: build(source, find_compiler()),
        lambda source: compile_cuda(source, "sm_80"),
        lambda source: MetalEngine(source, Kernels()),
    ],
    ids=["compile_library", "build", "compile_cuda", "MetalEngine"],
)
def test_every_compiler_asks_the_gate_first(compiles: Callable[[str], object]):
    with pytest.raises(TrustError, match=r"^kernel evil in C: it comes from a file"):
        compiles(marked())


STARTS = {
    *("exec", "eval", ".run_path", ".run_module", ".Popen", ".CDLL", ".WinDLL", ".PyDLL"),
    *(".newLibraryWithSource_options_error_", "nvrtcCompileProgram", "module.load"),
    *("cuModuleLoadData",),
    *("os.system", "os.popen", "os.execv", "os.spawnv", "pickle.load", "pickle.loads"),
    *("subprocess.run", "subprocess.call", "subprocess.check_output"),
}
REASONS = {
    "artefact/runner.py CDLL": "the library beside it, which somebody calls by Model(folder)",
    "cli/checks.py CDLL": "the GPU's driver",
    "cli/lab.py subprocess.run": "Jupyter",
    "cli/run.py run_path": "--load: somebody asked for this file",
    "cli/trace.py run_path": "a script: somebody asked for it",
    "bench/machine_code.py subprocess.run": "objdump, which reads a library",
    "bench/paired.py subprocess.run": "git, on the checkout that we run from",
    "bench/process.py Popen": "this Python, on our own module, or a commit's that somebody names",
    "bench/studies/advice.py exec": "our own planted models, as a file of a user's",
    "bench/studies/core.py subprocess.run": "this Python, on our own module",
    "bench/studies/exported.py subprocess.run": "what it exported of our own model; this Python",
    "bench/studies/maths.py CDLL": "what it compiled from our own functions",
    "bench/studies/maths.py subprocess.run": "the compiler, on our own functions",
    "bench/studies/maths_speed.py CDLL": "what it compiled from our own functions",
    "bench/studies/maths_speed.py subprocess.run": "the compiler, on our own functions",
    "bench/studies/memory.py subprocess.run": "this Python, on our own module",
    "bench/studies/serving.py Popen": "this Python, on our own module, or uvicorn's",
    "bench/studies/serving.py subprocess.run": "this Python, on a line of ours",
    "bench/studies/search.py subprocess.run": "this Python, on our own module",
    "bench/studies/sides.py Popen": "this Python, on our own lines, or a commit's",
    "bench/compiles.py subprocess.run": "this Python, on our own lines",
    "bench/bundled.py subprocess.run": "this Python, on our own module",
    "bench/process.py pickle.load": "the pipe to that process",
    "course/chapters/ch04.py exec": "text of the chapter's own",
    "course/grading.py Popen": "this Python, on our own module, with a student's answers",
    "course/worker.py exec": "a student's answers: somebody asked for grades",
    "devices/cuda/libcuda.py CDLL": "the GPU's driver",
    "devices/cuda/libcuda.py cuModuleLoadData": "made by compile_cuda, or in a trusted bundle",
    "devices/cuda/through_cupy.py module.load": "the same",
    "machines/here.py subprocess.run": "a tool of the system's, by its name",
    "devices/metal/engine.py newLibraryWithSource_options_error_": "behind the gate",
    "devices/gpu/nvrtc.py nvrtcCompileProgram": "behind the gate, in compile_cuda",
    "devices/cpu/planned.py pickle.loads": "what this user's processes have kept, with its digest",
    "kernels/definition/numbers.py exec": "arithmetic on sizes, written from dims",
    "serving/library.py CDLL": "behind the gate, in admit_library",
    "devices/cpu/assembly.py subprocess.run": "a disassembler, on what has passed the gate",
    "devices/gpu/sass.py subprocess.run": "a disassembler, on what NVRTC has made",
    "devices/cpu/trial.py Popen": "what compile_library has made, behind the gate",
    "search/on_gpu.py Popen": "our own child, whose kernels pass the gate there",
    "devices/build/toolchain.py CDLL": "what compile_library has made, behind the gate",
    "devices/build/toolchain.py WinDLL": "the system's own",
    "devices/build/toolchain.py Popen": "compilers, on what has passed the gate, and our own child",
    "magic.py exec": "a cell that somebody runs",
    "viz/picture.py subprocess.run": "a browser, on our own picture without a script",
}


def starters() -> Iterator[str]:
    """Yield each place in the package that starts a program or code, and what it does it by."""
    words = {name.strip(".").partition(".")[0] for name in STARTS}
    for place, tree in trees({*words, r"nvrtc\w*", r"cuModule\w*"}):
        for node in ast.walk(tree):
            names: list[str] = []
            match node:
                case ast.Call(func=ast.Attribute(value=of, attr=name)):
                    names = [f".{name}", f"{of.id}.{name}" if isinstance(of, ast.Name) else ""]
                case ast.Call(func=ast.Name(id=name)):
                    names = [name, f".{name}"]
                case ast.Constant(value=str(name)) if name[:5] == "nvrtc" or name[:8] == "cuModule":
                    names = [name]
                case ast.Attribute(attr=name) if name[:5] == "nvrtc" or name[:8] == "cuModule":
                    names = [name]
                case _:
                    pass
            found = (one.removeprefix(".") for one in names if one in STARTS)
            yield from (f"{place} {one}" for one in found)


def test_what_starts_code_is_known_and_has_a_reason():
    assert {*starters()} == {*REASONS}


def test_only_what_marks_it_reads_a_kernels_source():
    """Whoever puts a user's text into generated code puts the mark there."""
    found = {place for place, text in texts().items() if "op.source" in text}
    # user_check cuts its own lines out of what a compiler says.
    assert found == {"kernels/user/kernel.py", "kernels/user/gpu.py", "devices/cpu/user_check.py"}
    for dialect, device in DEVICES.items():
        given = Foreign(Path("/nowhere"), dialect)
        if dialect == "c":
            continue
        made: Any = ll.compile_ir(given.ir, device)
        (op,) = user_kernels(given.ir)
        assert made.runner.source.count(trust.mark(op)) == 1


# -- who is trusted --------------------------------------------------------------------------------

TWICE = """
// kernel twice(x: f32[n]) -> (y: f32[n])
void twice(const float *x, float *y, long n) {{ for (long i = 0; i < n; i++) y[i] = {} * x[i]; }}
"""


def written(number: str, path: Path | None = None) -> str:
    """Return the text of a graph of this process's, and save a recording of it."""
    cx = ll.Graph("own")
    kernel = ll.kernel(TWICE.format(number), meaning=lambda x: 2 * x)
    kernel(cx.tensor((4,), name="x")).retrieve()
    cx.compile(DEVICES["c"])
    if path is not None:
        cx.save(path)
    return str(cx.ir)


def as_if_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget what this process has written, as another process does not know it."""
    monkeypatch.setattr(trust, "_HERE", {})


def test_what_this_process_wrote_runs_by_whatever_way_it_comes_back():
    ll.compile_ir(ll.parse(written("2.0f")), DEVICES["c"])


def test_what_a_user_has_saved_runs_in_other_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    text = written("2", tmp_path / "own.lab")
    as_if_elsewhere(monkeypatch)
    ll.compile_ir(ll.open(tmp_path / "own.lab").written, DEVICES["c"])
    ll.compile_ir(ll.parse(text), DEVICES["c"])
    path = trust.trusted_file()
    assert path is not None
    if os.name == "posix":
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_another_users_recording_is_another_matter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    written("2", tmp_path / "own.lab")
    as_if_elsewhere(monkeypatch)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    with pytest.raises(TrustError):
        ll.compile_ir(ll.open(tmp_path / "own.lab").written, DEVICES["c"])


def test_to_save_what_was_trusted_once_signs_nothing(tmp_path: Path):
    given = Foreign(tmp_path)
    ll.open(given.recording(), trust=True).save(tmp_path / "copy.lab")
    assert not trust.signed()


@pytest.mark.parametrize(
    ("part", "other"),
    [
        ("2.0f *", "3.0f *"),
        ('tasks = "1"', 'tasks = "2"'),
        ('header = "kernel twice(x', 'header = "kernel  twice(x'),
        ("dialect = c", "dialect = cuda"),
    ],
)
def test_trust_is_in_all_that_a_kernel_does_to_memory(part: str, other: str):
    text = written("2.0f")
    assert part in text
    (op,) = user_kernels(ll.parse(text.replace(part, other)))
    assert not trust.is_trusted(trust.foreign_of(op))


@pytest.mark.parametrize(
    ("part", "other", "said"),
    [
        ("dims = [4]", "dims = [400]", r"twice: x is f32\[400\] for these sizes, and the "),
        ("dims = [4]", "dims = []", "twice: its dims are n, and the graph gives 0 sizes"),
        (
            "dims = [4]",
            "dims = [4, 4]",
            "twice: its dims are n, and the graph gives 2 sizes",
        ),
    ],
)
def test_a_trusted_kernel_is_not_led_out_of_its_arrays(part: str, other: str, said: str):
    """A file cannot sign a kernel, but may call one that is signed."""
    ir = ll.parse(written("2.0f").replace(part, other))
    with pytest.raises(LabError, match=said):
        ll.compile_ir(ir, DEVICES["c"])


def test_an_opened_recording_says_what_it_brings(tmp_path: Path):
    given = Foreign(tmp_path)
    lab = given.recording()
    run = ll.open(lab)
    assert repr(run).endswith(", 1 unsigned kernel>")
    assert str(run).splitlines()[-2:] == [
        "  brings 1 kernel that nobody here has signed: kernel evil in C",
        f"  nothing of that runs until you say so: luminal-lab trust {run.name} --show",
    ]
    assert "unsigned" not in repr(ll.open(lab, trust=True))


def test_after_a_refusal_all_else_works(tmp_path: Path):
    given = Foreign(tmp_path)
    with pytest.raises(TrustError) as refused:
        ll.compile_ir(given.ir, "generic", DEVICES["c"])
    assert str(refused.value) == (
        "kernel evil in C: it comes from a file, and no user here has allowed it\n"
        "  __attribute__((constructor)) static void told(void) { fclos…\n"
        "hint: read it first: luminal-lab trust FILE --show; then trust=True of ll.open and "
        "ll.parse, or --trust, runs it, and luminal-lab trust FILE signs it for good"
    )
    assert [one.title for one in refused.value.snapshots][:1] == ["written"]
    made = ll.compile_ir(given.ir, "generic", check="values")
    assert "user_kernel" in str(made.ir)
    assert "Graph g" in str(made.ir.display())
    cuda: Any = ll.compile_ir(Foreign(tmp_path, "cuda").ir, ll.CUDACompiler())
    assert "fopen" in cuda.runner.source  # which is read, and not compiled


def test_a_text_of_passes_names_no_program_that_nobody_knows():
    cx = ll.Graph()
    (cx.tensor((2,)) * 2).retrieve()
    with pytest.raises(TrustError) as refused:
        cx.compile("cpu{compiler = a-strangers-program}")
    assert str(refused.value).splitlines() == [
        "a program to run as the compiler: a text of passes names it, and no user here has "
        "allowed it",
        "  a-strangers-program",
        'hint: ll.CPUCompiler(compiler="…") runs what you name there; of a file, read it first: '
        "luminal-lab trust FILE --show; then trust=True of ll.open and ll.parse, or --trust, runs "
        "it, and luminal-lab trust FILE signs it for good",
    ]


def test_no_python_comes_from_a_file():
    """A function is called by its name only in the session that was given it."""
    text = "graph g(%x: f32[4]) -> (%y) {\n  %y = host_call{function = system} %x : f32[4]\n}"
    ir = ll.parse(text.replace("system", '"system"'))
    with pytest.raises(ll.LabError, match="there is no function 'system' here"):
        ll.compile_ir(ir, "generic", check="values")


@pytest.mark.parametrize("answer", ["yes", 1, None, "False"])
def test_nothing_but_true_is_true(answer: Any, tmp_path: Path):
    given = Foreign(tmp_path)
    for reads in (lambda: ll.parse(given.text, trust=answer), lambda: ll.open("no", trust=answer)):
        with pytest.raises(ll.ArgumentError, match="trust is"):
            reads()


@pytest.mark.skipif(os.name != "posix", reason="the modes are a system's that has them")
@pytest.mark.parametrize("which", ["file", "folder"])
def test_a_list_that_others_can_write_to_is_not_read(which: str, tmp_path: Path):
    given = Foreign(tmp_path)
    assert trust.sign(map(trust.foreign_of, user_kernels(given.ir)))
    ll.compile_ir(given.ir, DEVICES["c"])
    path = trust.trusted_file()
    assert path is not None
    (path if which == "file" else path.parent).chmod(0o777)
    with pytest.raises(TrustError):
        ll.compile_ir(Foreign(tmp_path).ir, DEVICES["c"])


def test_where_nothing_can_be_written_nothing_is_signed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "no-folder").touch()
    monkeypatch.setenv("HOME", str(tmp_path / "no-folder"))
    monkeypatch.setenv("USERPROFILE", str(tmp_path / "no-folder"))
    cx = ll.Graph("own")
    ll.kernel(TWICE.format("2.0f"), meaning=lambda x: 2 * x)(cx.tensor((4,), name="x")).retrieve()
    cx.save(tmp_path / "own.lab")
    assert ll.open(tmp_path / "own.lab").title == "own"
    assert not trust.sign([trust.program_of("gcc")])


def test_what_was_not_signed_is_not_said_to_be_taken_back(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    path = Foreign(tmp_path).recording()
    for options, said in (
        (["--remove"], "was not signed"),
        ([], "signed"),
        (["--remove"], "not signed any more"),
        (["--remove"], "was not signed"),
    ):
        assert cli.main(["trust", str(path), *options]) == 0
        assert capsys.readouterr().out.startswith(f"{said}: kernel ")


def test_an_empty_list_and_a_file_without_kernels_are_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(trust, "signed", dict)
    assert cli.main(["trust", "--list"]) == 0
    assert capsys.readouterr().out == "nothing is signed: luminal-lab trust FILE signs kernels\n"
    (tmp_path / "empty").mkdir()
    assert cli.main(["trust", str(tmp_path / "empty")]) == 2
    said = capsys.readouterr().err
    words = f"trust: {tmp_path / 'empty'} is neither an exported model nor a bundle for GPUs\n"
    assert said.startswith(f"{words}hint: an exported model has model.json in its folder, ")
    page = tmp_path / "page.html"
    page.write_text("<html></html>", encoding="utf-8")
    assert cli.main(["trust", str(page)]) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"trust: {page} is neither a recording nor a graph as text: line 1, ")
    assert "hint: kernels come in recordings, as cx.save writes them, and in graphs" in said


def test_damage_to_the_list_loses_what_is_damaged(tmp_path: Path):
    kernels = [next(user_kernels(Foreign(tmp_path, name=name).ir)) for name in ("one", "two")]
    trust.sign(map(trust.foreign_of, kernels))
    path = trust.trusted_file()
    assert path is not None
    digest = trust.foreign_of(kernels[0]).digest.encode()
    path.write_bytes(path.read_bytes().replace(digest[:8], b"\xff\x00"))
    assert [trust.is_trusted(trust.foreign_of(one)) for one in kernels] == [False, True]


@pytest.mark.parametrize(
    "told",
    [
        "// lab_user",
        "// lab_user evil c",
        f"// lab_user evil c {'0' * 63}",
        f"// lab_user evil java {'0' * 64}",
        f"/* lab_user evil c {'0' * 64} */",
        f"x // lab_user e\u0301vil c {'0' * 64}",
    ],
)
def test_a_mark_that_says_nothing_is_refused(told: str):
    with pytest.raises(TrustError):
        trust.admit(f"int x;\n{told}\nint y;")
    trust.admit("int lab_users; // lab_use r")


def test_a_source_cannot_speak_for_itself(tmp_path: Path):
    """A stranger's text may claim to be what is trusted, or begin a comment around the mark."""
    own = trust.mark(next(user_kernels(ll.parse(written("2.0f")))))
    for more in (own, f"{own}\n/*", f"{own} \\", "/*", "\\", "#if 0", 'R"('):
        kernel = next(user_kernels(Foreign(tmp_path).ir))
        kernel = type(kernel)(
            kernel.body, kernel.header, f"{kernel.source}{more}", "c", kernel.tasks, kernel.dims
        )
        with pytest.raises(TrustError):
            trust.admit(f"{own}\n{kernel.source}\n{trust.mark(kernel)}\n{own}")
        assert trust.mark(kernel).count("\n") == 0
        assert not trust.mark(kernel).endswith("\\")

"""luminal_lab: a deep-learning compiler you can see through, for notebooks.

import luminal_lab as ll

cx = ll.Graph()
x = cx.tensor(("batch", 4), name="x")
y = x.softmax(-1).retrieve()
x.set([[1.0, 2.0, 3.0, 4.0]])
cx.execute()
print(y)

cx.compile(ll.GenericCompiler(), ll.CPUCompiler())  # from here on, kernels run
cx.workbench()                                      # what each pass did, down to the kernels
cx.time(), cx.advise()                              # what is slow, and what helps
"""

from importlib import import_module
from importlib.util import find_spec
from threading import Event, RLock
from typing import TYPE_CHECKING

from luminal_lab import errors
from luminal_lab.display import DISPLAYS, Shown
from luminal_lab.errors import (
    ArgumentError,
    AxisError,
    DefinitionError,
    DeviceError,
    DimError,
    DTypeError,
    GraphError,
    InputError,
    Interrupted,
    LabError,
    LabWarning,
    ModelError,
    NotComputedError,
    ParseError,
    PassError,
    RangeError,
    RecordingError,
    ScheduleError,
    ShapeError,
    TrustError,
    UnknownNameError,
    VerifyError,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from luminal_lab import devices, nn, search
    from luminal_lab.core.dims import Dim, Expr, Symbol
    from luminal_lab.core.dtypes import DType
    from luminal_lab.core.edit import Edit
    from luminal_lab.core.ir import IR, Node
    from luminal_lab.core.op import Binary, Elementwise, Op, Reduce, Source, TensorType, Unary, View
    from luminal_lab.core.parse import parse
    from luminal_lab.core.verify import verify
    from luminal_lab.devices.cpu.compiler import CPUCompiler
    from luminal_lab.devices.cuda.compiler import CUDACompiler
    from luminal_lab.devices.metal.compiler import MetalCompiler
    from luminal_lab.devices.webgpu.compiler import WebGPUCompiler
    from luminal_lab.devices.xla.compiler import XLACompiler
    from luminal_lab.importing.onnx import from_onnx
    from luminal_lab.importing.torch_export import from_torch
    from luminal_lab.io.opened import Opened, open as open  # noqa: A004  # users call it ll.open
    from luminal_lab.kernels.user.call import kernel
    from luminal_lab.language.embedder import Embedder
    from luminal_lab.language.load import load
    from luminal_lab.language.model import LanguageModel
    from luminal_lab.nn.quantise import quantise
    from luminal_lab.passes.base import Pass, graph_pass
    from luminal_lab.passes.bfloat16_activations import Bfloat16Activations
    from luminal_lab.passes.compilation import Compilation, Trace
    from luminal_lab.passes.compile import compile_ir
    from luminal_lab.passes.diff import Diff, diff
    from luminal_lab.passes.generic import GenericCompiler
    from luminal_lab.passes.gradients import custom_gradient, grad, gradient, stop_gradient
    from luminal_lab.passes.half import HalfPrecision
    from luminal_lab.passes.int8_activations import Int8Activations
    from luminal_lab.passes.minimise import minimise
    from luminal_lab.passes.pattern import constants, fields, op, variables
    from luminal_lab.passes.pipeline import Pipeline, parse_pipeline
    from luminal_lab.passes.proof import counterexample
    from luminal_lab.passes.quantised import Quantised
    from luminal_lab.passes.rule import Rule, RuleSet, rule
    from luminal_lab.passes.snapshot import Firing, Snapshot
    from luminal_lab.search.compiling import Search
    from luminal_lab.search.loops import Budget
    from luminal_lab.session import Graph
    from luminal_lab.tensor import Tensor, fft, linalg
    from luminal_lab.tensor.arithmetic import where
    from luminal_lab.tensor.blocks import Blocks
    from luminal_lab.tensor.called import (
        cdist,
        full_like,
        isin,
        maximum,
        minimum,
        ones_like,
        rand_like,
        randn_like,
        tril,
        triu,
        zeros_like,
    )
    from luminal_lab.tensor.joining import (
        block_diag,
        broadcast_tensors,
        cartesian_prod,
        column_stack,
        concat,
        dstack,
        hstack,
        meshgrid,
        stack,
        vstack,
    )
    from luminal_lab.tensor.parameter import Parameter
    from luminal_lab.tensor.product import einsum
    from luminal_lab.tensor.running import Run, run
    from luminal_lab.timing.column import CPU, CUDA, XLA, Metal, WebGPU
    from luminal_lab.timing.compare import compare
    from luminal_lab.timing.outlook import plan
    from luminal_lab.timing.recording import Recorded
    from luminal_lab.tracing import trace
    from luminal_lab.viz.history import History
    from luminal_lab.viz.live.beside import beside
    from luminal_lab.viz.live.predict import predict
    from luminal_lab.viz.live.story import story
    from luminal_lab.workers import engines
    from luminal_lab.workers.compiler import Sharded
    from luminal_lab.workers.mesh import Mesh
    from luminal_lab.workers.pipelined import Pipelined
    from luminal_lab.workers.plan import sharding

__version__ = "0.2.0"

__all__ = [
    "CPU",
    "CUDA",
    "IR",
    "XLA",
    "ArgumentError",
    "AxisError",
    "Bfloat16Activations",
    "Binary",
    "Blocks",
    "Budget",
    "CPUCompiler",
    "CUDACompiler",
    "Compilation",
    "DType",
    "DTypeError",
    "DefinitionError",
    "DeviceError",
    "Diff",
    "Dim",
    "DimError",
    "Edit",
    "Elementwise",
    "Embedder",
    "Expr",
    "Firing",
    "GenericCompiler",
    "Graph",
    "GraphError",
    "HalfPrecision",
    "History",
    "InputError",
    "Int8Activations",
    "Interrupted",
    "LabError",
    "LabWarning",
    "LanguageModel",
    "Mesh",
    "Metal",
    "MetalCompiler",
    "ModelError",
    "Node",
    "NotComputedError",
    "Op",
    "Opened",
    "Parameter",
    "ParseError",
    "Pass",
    "PassError",
    "Pipeline",
    "Pipelined",
    "Quantised",
    "RangeError",
    "Recorded",
    "RecordingError",
    "Reduce",
    "Rule",
    "RuleSet",
    "Run",
    "ScheduleError",
    "Search",
    "ShapeError",
    "Sharded",
    "Snapshot",
    "Source",
    "Symbol",
    "Tensor",
    "TensorType",
    "Trace",
    "TrustError",
    "Unary",
    "UnknownNameError",
    "VerifyError",
    "View",
    "WebGPU",
    "WebGPUCompiler",
    "XLACompiler",
    "beside",
    "block_diag",
    "broadcast_tensors",
    "cartesian_prod",
    "cdist",
    "column_stack",
    "compare",
    "compile_ir",
    "concat",
    "constants",
    "counterexample",
    "custom_gradient",
    "devices",
    "diff",
    "dstack",
    "einsum",
    "engines",
    "errors",
    "fft",
    "fields",
    "from_onnx",
    "from_torch",
    "full_like",
    "grad",
    "gradient",
    "graph_pass",
    "hstack",
    "isin",
    "kernel",
    "linalg",
    "load",
    "maximum",
    "meshgrid",
    "minimise",
    "minimum",
    "nn",
    "ones_like",
    "op",
    "parse",
    "parse_pipeline",
    "plan",
    "predict",
    "quantise",
    "rand_like",
    "randn_like",
    "rule",
    "run",
    "search",
    "sharding",
    "stack",
    "stop_gradient",
    "story",
    "trace",
    "tril",
    "triu",
    "variables",
    "verify",
    "vstack",
    "where",
    "zeros_like",
]

FIRST = {
    "core.dims": "Dim Expr Symbol",
    "core.dtypes": "DType",
    "core.edit": "Edit",
    "core.ir": "IR Node",
    "core.op": "Binary Elementwise Op Reduce Source TensorType Unary View",
    "session": "Graph",
    "tensor": "Tensor",
    "tensor.arithmetic": "where",
    "tensor.blocks": "Blocks",
    "tensor.called": "cdist full_like isin maximum minimum ones_like rand_like randn_like tril "
    "triu zeros_like",
    "tensor.joining": "block_diag broadcast_tensors cartesian_prod column_stack concat dstack "
    "hstack meshgrid stack vstack",
    "tensor.parameter": "Parameter",
    "tensor.product": "einsum",
    "tensor.running": "Run run",
    "workers.ops": "",  # a text may have them
    "workers.pipe_ops": "",  # these, too
}
"""What is loaded together, with the first name that anybody asks for."""
LATE = {
    "CPU": "timing.column",
    "Budget": "search.loops",
    "CPUCompiler": "devices.cpu.compiler",
    "CUDA": "timing.column",
    "CUDACompiler": "devices.cuda.compiler",
    "Compilation": "passes.compilation",
    "Diff": "passes.diff",
    "Embedder": "language.embedder",
    "Firing": "passes.snapshot",
    "GenericCompiler": "passes.generic",
    "HalfPrecision": "passes.half",
    "Bfloat16Activations": "passes.bfloat16_activations",
    "Int8Activations": "passes.int8_activations",
    "History": "viz.history",
    "LanguageModel": "language.model",
    "Mesh": "workers.mesh",
    "Metal": "timing.column",
    "MetalCompiler": "devices.metal.compiler",
    "Opened": "io.opened",
    "Pass": "passes.base",
    "Pipeline": "passes.pipeline",
    "Pipelined": "workers.pipelined",
    "Quantised": "passes.quantised",
    "Recorded": "timing.recording",
    "Rule": "passes.rule",
    "RuleSet": "passes.rule",
    "Search": "search.compiling",
    "Sharded": "workers.compiler",
    "Snapshot": "passes.snapshot",
    "Trace": "passes.compilation",
    "WebGPU": "timing.column",
    "WebGPUCompiler": "devices.webgpu.compiler",
    "XLA": "timing.column",
    "XLACompiler": "devices.xla.compiler",
    "beside": "viz.live.beside",
    "compare": "timing.compare",
    "compile_ir": "passes.compile",
    "constants": "passes.pattern",
    "counterexample": "passes.proof",
    "custom_gradient": "passes.gradients",
    "diff": "passes.diff",
    "fields": "passes.pattern",
    "from_onnx": "importing.onnx",
    "from_torch": "importing.torch_export",
    "grad": "passes.gradients",
    "gradient": "passes.gradients",
    "graph_pass": "passes.base",
    "kernel": "kernels.user.call",
    "load": "language.load",
    "minimise": "passes.minimise",
    "op": "passes.pattern",
    "open": "io.opened",
    "parse": "core.parse",
    "parse_pipeline": "passes.generic",
    "plan": "timing.outlook",
    "predict": "viz.live.predict",
    "quantise": "nn.quantise",
    "rule": "passes.rule",
    "sharding": "workers.plan",
    "stop_gradient": "passes.gradients",
    "story": "viz.live.story",
    "trace": "tracing",
    "variables": "passes.pattern",
    "verify": "core.verify",
}
"""Names loaded on first use, with the module that defines each."""


PARTS = {
    **{name: name for name in ("devices", "nn", "search")},
    **{name: f"tensor.{name}" for name in ("fft", "linalg")},
    "engines": "workers.engines",
}
"""The parts that are modules, by the names that users have for them."""

_lock, _begun = RLock(), Event()


def _begin() -> None:
    """Load what graphs are written with, once anybody asks for a name: the command line need not.

    The classes of the core know nothing of how a wrong call is answered.
    """
    from luminal_lab.tensor.arguments import told_public  # noqa: PLC0415  # loaded when used

    with _lock:
        for module, names in FIRST.items():
            loaded = import_module(f"luminal_lab.{module}")
            for name in names.split():
                globals()[name] = told_public(getattr(loaded, name), "ll.")
        _begun.set()


def _shown_by(name: str, table: str = "viz.shown") -> "Callable[..., Shown]":
    """Return the function that draws a class; `viz` is loaded on first use."""

    def shown(*things: object, **how: object) -> Shown:
        return import_module(f"luminal_lab.{table}").FORMATTERS[name](*things, **how)

    return shown


for _name in """
    Board BoundPlan Derivation Diff IR JoinedDerivation Kernel Lanes MemoryPlan Opened
    RecordedBoard Schedule Snapshot Space Timings Try
""".split():  # noqa: SIM905  # a list of names reads better so
    DISPLAYS[_name] = _shown_by(_name)
for _name in ("Compilation", "Derivation", "JoinedDerivation", "Opened", "Space"):
    for _how in ("explore", "workbench"):
        DISPLAYS[f"{_name}.{_how}"] = _shown_by(f"{_name}.{_how}", "viz.live.shown")
for _name in ("BoundPlan", "Compilation", "MemoryPlan", "MeshPlan", "SideBySide", "Timings"):
    DISPLAYS[f"{_name}.plot"] = _shown_by(f"{_name}.plot", "viz.plots")
for _name in """
    Diff.to_pandas IR.to_pandas Snapshot.to_pandas Space.to_pandas Timings.roofline
    SideBySide.roofline SideBySide.html
""".split():  # noqa: SIM905  # likewise
    DISPLAYS[_name] = _shown_by(_name, "viz.plots")
for _name in """
    Candidate Candidates KernelSearch Program ProgramCandidate ProgramSearch RecordedSearch
""".split():  # noqa: SIM905  # likewise
    DISPLAYS[_name] = _shown_by(_name, "viz.search_pages")
for _name in """
    KernelSearch.explore ProgramSearch.explore ProgramSearch.meanwhile RecordedSearch.explore
""".split():  # noqa: SIM905  # likewise
    DISPLAYS[_name] = _shown_by(_name, "viz.live.search")
for _name in ("KernelSearch.save", "ProgramSearch.save", "RecordedSearch.save"):
    DISPLAYS[_name] = _shown_by(_name, "io.recorded_search")
DISPLAYS["Compilation.save"] = _shown_by("Compilation.save", "io.gather")
DISPLAYS["Compilation.export"] = _shown_by("Compilation.export", "artefact.folder")
DISPLAYS["Kernel.beside"] = _shown_by("Kernel.beside")
DISPLAYS["Snapshot.explore"] = _shown_by("Snapshot.explore", "viz.live.shown")
DISPLAYS["Opened.story"] = _shown_by("Opened.story", "viz.live.story")
DISPLAYS["file.look_at"] = _shown_by("file.look_at", "opening")
DISPLAYS["accesses"] = _shown_by("accesses")
DISPLAYS["accesses.explore"] = _shown_by("accesses.explore", "viz.live.accesses")


TORCH_DTYPES = {"double": "float64", "half": "float16", "long": "int64"}
"""What PyTorch calls some dtypes as well."""


def __getattr__(name: str) -> object:
    """Load names on first use."""
    if name[:1] == "_":  # nobody has it from here, and pytest asks each module for some
        raise AttributeError(name)
    if not _begun.is_set():
        if name not in __all__ and name.isidentifier() and find_spec(f"luminal_lab.{name}"):
            return import_module(f"luminal_lab.{name}")  # as `from luminal_lab import cli` asks
        _begin()
        if name in globals():
            return globals()[name]
    if name in PARTS:
        return import_module(f"luminal_lab.{PARTS[name]}")
    if name in LATE:
        from luminal_lab.passes.collector import uncollected  # noqa: PLC0415  # loaded when used
        from luminal_lab.tensor.arguments import told_public  # noqa: PLC0415  # likewise

        late = getattr(uncollected(import_module)(f"luminal_lab.{LATE[name]}"), name)
        value = globals()[name] = told_public(late, "ll.")
        return value
    from luminal_lab.core.origin import here  # noqa: PLC0415  # it is not a name of this package

    word = TORCH_DTYPES.get(name, name)
    meant = f"tensors have it as a method: x.{name}(...)" if hasattr(Tensor, name) else None
    if hasattr(import_module("luminal_lab.core.ops"), name):
        meant = f"from luminal_lab.core.ops import {name}"
    if word in [*DType]:
        meant = f'a dtype is a word, as in dtype="{word}"'
    raise UnknownNameError(
        f"luminal_lab has no {name!r}",
        where=str(here() or "") or None,
        hint=meant
        or errors.nearest(name, __all__)
        or errors.nearest(f"x.{name}", [f"x.{word}" for word in dir(Tensor)]),
    )


def load_ipython_extension(shell: object) -> None:
    """Give a notebook the cell magic `%%lab`; `%load_ext luminal_lab` calls this."""
    import_module("luminal_lab.magic").register(shell)


def __dir__() -> list[str]:
    """Return the public names for completion, loaded or not."""
    own = (name for name in globals() if name[:2] == "__")
    return sorted({*own, *__all__, "open"})

"""A file as something live to look at: a recording, somebody's model, or weights alone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from luminal_lab.core.builder import Transaction
from luminal_lab.core.ir import NO_META
from luminal_lab.devices.cpu.compiler import CPUCompiler
from luminal_lab.errors import InputError
from luminal_lab.importing.detect import FileKind, supported
from luminal_lab.importing.imported import Imported, graph_name, leaves_of
from luminal_lab.importing.onnx import from_onnx
from luminal_lab.importing.torch_export import from_torch
from luminal_lab.importing.weights import read_weights
from luminal_lab.io.opened import open as open_recording
from luminal_lab.passes.generic import GenericCompiler
from luminal_lab.session import Graph
from luminal_lab.tensor import Tensor
from luminal_lab.viz.live.alive import Live
from luminal_lab.viz.live.shown import recording_workbench

VALUES_ALONE = (FileKind.SAFETENSORS, FileKind.GGUF, FileKind.INDEX, FileKind.FOLDER)


def look_at(path: str | Path, *, trust: bool = False) -> Live:
    """Return a workbench of a recording or a model, and of weights alone an explorer.

    A model is compiled for this machine's CPU. Nothing in the file is run, except with
    `trust=True` what PyTorch unpickles in a `.pt2`, and kernels that a recording brings along.

    >>> from tempfile import TemporaryDirectory
    >>> from luminal_lab.opening import look_at
    >>> with TemporaryDirectory() as folder:
    ...     ll.nn.Linear(2, 3).save(f"{folder}/head.safetensors")
    ...     look_at(f"{folder}/head.safetensors").title
    'head'
    """
    path = Path(path)
    kind = supported(path)
    if kind is FileKind.RECORDING:
        return recording_workbench(open_recording(path, trust=trust))
    cx = session_of(path, kind, trust=trust)
    return cx.explore() if kind in VALUES_ALONE else cx.workbench()


def session_of(path: Path, kind: FileKind, *, trust: bool = False) -> Graph:
    """Return a session with the model of a file, compiled, or with weights that come without one.

    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from luminal_lab.importing.detect import FileKind
    >>> from luminal_lab.opening import session_of
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder, "head.safetensors")
    ...     ll.nn.Linear(2, 3).save(path)
    ...     print(session_of(path, FileKind.SAFETENSORS).ir)
    graph head(%bias: f32[3], %weight: f32[3, 2]) -> (%bias, %weight) {
    }
    """
    cx = Graph(graph_name(path.stem))
    if kind in VALUES_ALONE:
        model = read_weights(path)
        if not model.parameters():
            raise InputError(
                f"open: {path} has no values, so that there is nothing to see",
                hint="fetch it again, as it was published",
            )
    elif kind is FileKind.ONNX:
        model = from_onnx(path)
    else:
        model = from_torch(path, trust=trust)
    with Transaction(cx, NO_META):  # whoever called this has written none of its nodes
        written = model.write(cx)
    if (
        isinstance(model, Imported) and kind is FileKind.ONNX
    ):  # whose users know its results by name
        model.name_results(written)
    cx.retrieve([leaf for leaf in leaves_of(written) if isinstance(leaf, Tensor)])
    if kind in VALUES_ALONE:
        return cx
    cx.compile(GenericCompiler(), CPUCompiler())
    return cx


FORMATTERS: dict[str, Callable[[Path], Live]] = {"file.look_at": look_at}
"""What live pictures call for a file that is dropped onto them."""

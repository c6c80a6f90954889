"""The model in a file, as a session: for the commands that show one, or say what it needs."""

from __future__ import annotations

from pathlib import Path

import luminal_lab
from luminal_lab.importing.detect import FileKind
from luminal_lab.importing.imported import graph_name, leaves_of
from luminal_lab.importing.weights import read_weights
from luminal_lab.session import Graph
from luminal_lab.tensor import Tensor

VALUES_ALONE = (FileKind.SAFETENSORS, FileKind.INDEX, FileKind.FOLDER)


def session_of(path: Path, kind: FileKind) -> Graph:
    """Return a session with the model of a file, or with weights that come without one."""
    cx = luminal_lab.Graph(graph_name(path.stem))
    if kind in VALUES_ALONE:
        cx.retrieve(read_weights(path).write(cx))
        return cx
    model = luminal_lab.from_onnx(path) if kind is FileKind.ONNX else luminal_lab.from_torch(path)
    cx.retrieve([leaf for leaf in leaves_of(model.write(cx)) if isinstance(leaf, Tensor)])
    return cx

"""The table of libraries: the name of each, where its file is, and which package it needs."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import NamedTuple, cast

from luminal_lab.bench.peers.peer import Peer

EXTRA = "pip install 'luminal-lab[bench]'"
"""The command that installs all of them."""


class Known(NamedTuple):
    """A library that can be measured."""

    name: str
    peer_class: str
    """Its module and class."""
    modules: tuple[str, ...]
    """Modules that must be importable."""
    extra: str = EXTRA
    """The command that installs it."""
    distribution: str = ""
    """Its package, if that has another name than its module."""

    @property
    def package(self) -> str:
        """Its name for pip."""
        return self.distribution or self.modules[0]

    @property
    def missing(self) -> str | None:
        """The missing packages, and how to install them; None if all are there."""
        absent = [module for module in self.modules if find_spec(module) is None]
        if not absent:
            return None
        names = " and ".join(absent)
        return f"{names} {'is' if len(absent) == 1 else 'are'} not installed: {self.extra}"

    def unable(self, kind: str) -> str | None:
        """Why it cannot run a kind of workload; None if it can."""
        module, _, name = self.peer_class.partition(":")
        peer = cast("type[Peer]", getattr(import_module(module), name))
        return None if peer.spells(kind) else peer.reasons[kind]


def _known(name: str, module: str, kind: str, *needs: str) -> Known:
    return Known(name, f"luminal_lab.bench.peers.{module}:{kind}", needs or (module,))


OURS = _known("luminal_lab", "ours", "Ours", "luminal_lab")
PEERS = (
    _known("NumPy", "numpy", "NumPy"),
    _known("PyTorch", "torch", "Torch"),
    _known("torch.compile", "torch", "TorchCompile"),
    _known("JAX", "jax", "JAX"),
    _known("ONNX Runtime", "onnxruntime", "ONNXRuntime", "onnxruntime", "onnx"),
    _known("tinygrad", "tinygrad", "TinyGrad"),
)
LLAMA_CPP = Known(
    "llama.cpp",
    "luminal_lab.bench.peers.llamacpp:LlamaCpp",
    ("llama_cpp",),
    "CMAKE_ARGS=-DGGML_NATIVE=ON pip install llama-cpp-python, which compiles llama.cpp",
    "llama-cpp-python",
)
MODEL_PEERS = (
    LLAMA_CPP,
    *(peer for peer in PEERS if peer.name in ("PyTorch", "torch.compile", "ONNX Runtime")),
)
"""The libraries that can run language models."""

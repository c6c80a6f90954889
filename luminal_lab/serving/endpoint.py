"""An endpoint of a model: where it listens, what it serves, and how it ends."""

from __future__ import annotations

import errno
import gc
import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from luminal_lab.errors import ArgumentError, DeviceError, InputError, LabError
from luminal_lab.serving.app import App, Served
from luminal_lab.serving.batching import BATCH, Batches
from luminal_lab.serving.http import LARGEST
from luminal_lab.serving.inference import Inference
from luminal_lab.serving.library import Exported, is_exported
from luminal_lab.serving.metrics import Metrics

PORT: Final = 8000
HOST: Final = "127.0.0.1"
GRAPHS: Final = (".onnx", ".pt2")
"""The files of graphs that have their weights with them."""
LANGUAGE: Final = ("config.json", "modules.json", "*.gguf")
"""What the folder of a model of language has one of."""
FOLDERS: Final = (
    "a folder of luminal-lab export-model has model.json, one of a model of language config.json; "
    "a graph is named itself, as in digits.onnx"
)
SHORTEST: Final = 16
"""The fewest letters of a key."""


def listening(host: str, port: int, key: str | None) -> socket.socket:
    """Return a socket that listens, or raise an error that says why not."""
    if not 0 <= port < 1 << 16:
        raise ArgumentError(f"serve: there is no port {port}", hint="give 0 to 65535; 0 is any")
    try:
        (family, kind, proto, _, address), *_ = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
    except (OSError, UnicodeError):
        raise ArgumentError(
            f"serve: {host!r} is no address of this machine",
            hint="leave --host out for this machine alone",
        ) from None
    is_local = str(address[0]).startswith("127.") or address[0] == "::1"
    if not is_local and key is None:
        raise ArgumentError(
            f"serve: others can reach {host}, and there is no key",
            hint="set LUMINAL_LAB_KEY, or give --key KEY; or leave --host out",
        )
    sock = socket.socket(family, kind, proto)
    try:
        if os.name == "posix":  # on Windows this would let another program take over the port
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(address)
        sock.listen(1024)
    except OSError as error:
        sock.close()
        whys = {errno.EADDRINUSE: "is in use", errno.EACCES: "is not for everybody"}
        why = whys.get(error.errno or 0, f"cannot be had: {error.strerror or error}")
        if error.errno == errno.EADDRNOTAVAIL:
            raise ArgumentError(f"serve: {host} is no address of this machine") from None
        raise DeviceError(
            f"serve: port {port} {why}", hint="--port 0 takes one that is free"
        ) from None
    return sock


def opened(
    path: Path,
    metrics: Metrics,
    *,
    name: str | None = None,
    batch: int = BATCH,
    texts: int = 4,
    context: int | None = None,
    trust: bool = False,
) -> Served:
    """Return the model of a path, ready to answer."""
    if name is not None and (not name or "/" in name or not name.isprintable()):
        raise ArgumentError(
            f"serve: --name cannot be {name!r}: it is a part of paths, as in /v2/models/NAME",
            hint="give at least a letter, and no slash; or leave --name out for the folder's name",
        )
    if is_exported(path):
        model = Exported(path, trust=trust)
        called = name or path.resolve().name
        return Inference(called, model, Batches(model, metrics, batch))
    if path.suffix in GRAPHS and path.is_file():
        return _of_graph(path, metrics, name or path.stem, batch, trust=trust)
    if path.is_dir() and not any(any(path.glob(name)) for name in LANGUAGE):
        raise InputError(f"serve: there is no model in {path}", hint=FOLDERS)
    return _of_language(path, metrics, name, texts, context)


def _of_graph(path: Path, metrics: Metrics, name: str, batch: int, *, trust: bool) -> Served:
    """Return the model of a graph with its weights, which is exported first."""
    from tempfile import TemporaryDirectory  # noqa: PLC0415  # a folder needs none of it

    from luminal_lab.importing.detect import supported  # noqa: PLC0415  # likewise
    from luminal_lab.opening import session_of  # noqa: PLC0415  # likewise

    cx = session_of(path, supported(path, "serve"), trust=trust)
    with TemporaryDirectory(prefix="luminal-lab-") as folder:
        cx.compilation.export(Path(folder, "model"))
        model = Exported(Path(folder, "model"))  # what is loaded and mapped stays
    return Inference(name, model, Batches(model, metrics, batch))


def _of_language(
    path: Path, metrics: Metrics, name: str | None, texts: int, context: int | None
) -> Served:
    """Return a model of language; what it needs is loaded here."""
    from luminal_lab.language.load import load  # noqa: PLC0415  # a folder needs none of it
    from luminal_lab.serving.completions import Completions  # noqa: PLC0415  # likewise
    from luminal_lab.serving.turns import Turns  # noqa: PLC0415  # likewise

    try:
        lm = load(path, kind="text", context=context)
    except LabError as error:
        error.message = f"serve: {error.message.removeprefix('load: ')}"
        raise
    lm.decoding().prepare(2)
    called = name or (path.stem if path.is_file() else path.resolve().name)
    return Completions(called, lm, Turns(lm, metrics, texts))


def run(app: App, sock: socket.socket, ready: Callable[[], object], **more: Any) -> None:
    """Serve until Ctrl-C, which is raised when all has ended."""
    was_enabled = gc.isenabled()
    gc.disable()  # what an import makes stays: to walk over it takes a third of its time
    try:
        from luminal_lab.serving.connections import serve  # noqa: PLC0415  # it needs the package
    except ImportError:
        raise DeviceError(
            "serve: the package uvicorn, which listens, is not installed",
            hint='pip install "luminal-lab[serve]"',
        ) from None
    finally:
        gc.freeze()
        if was_enabled:
            gc.enable()
    try:
        serve(app, [sock], ready, **more).run(sockets=[sock])
    finally:
        app.close()
        sock.close()


__all__ = ["HOST", "LARGEST", "PORT", "SHORTEST", "listening", "opened", "run"]

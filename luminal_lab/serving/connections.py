"""uvicorn, with a limit to how slowly a client may send or read, and an end that leaves nothing.

Only `listen` imports this module, as it needs the package uvicorn.
"""

# ruff: noqa: D102  # what is overridden here has its sentence in uvicorn, and `override` loads a lot

from __future__ import annotations

import asyncio
import socket
import sys
from collections.abc import Callable
from importlib.util import find_spec, module_from_spec
from typing import Any, Final

import h11

from luminal_lab.serving.app import App


def _shorten(package: str) -> None:
    """Let parts of a package be imported without its own file, which runs when it is asked for.

    uvicorn's has its command line, with click and processes, for a sixth of our start.
    """
    spec = None if package in sys.modules else find_spec(package)
    if spec is None or spec.loader is None:
        return
    loader, module = spec.loader, module_from_spec(spec)

    def whole(name: str) -> object:
        del module.__getattr__
        loader.exec_module(module)
        return getattr(module, name)

    module.__getattr__ = whole
    sys.modules[package] = module


_shorten("uvicorn")
from uvicorn.config import Config  # noqa: E402, TID253  # whoever imports this has it
from uvicorn.protocols.http.h11_impl import H11Protocol  # noqa: E402, TID253  # likewise
from uvicorn.server import Server  # noqa: E402, TID253  # likewise

PATIENCE: Final = 20.0
"""The seconds that a client may take to ask, to take what it gets, or to ask again."""
AT_ONCE: Final = 512
"""The most connections."""
ENDING: Final = 2
"""The seconds that answers under way may take once the server is stopped."""


class Patient(H11Protocol):
    """A connection that is cut if nothing whole comes of it in time."""

    patience: float = PATIENCE
    _deadline: asyncio.TimerHandle | None = None
    _drain: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:
        super().connection_made(transport)
        self._watch()

    def data_received(self, data: bytes) -> None:
        try:
            super().data_received(data)
        except h11.ProtocolError:  # what came cannot be answered any more
            self.transport.abort()
        self._watch()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._watch()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._drain = self.loop.call_later(self.patience, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._stop("_drain")

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop("_deadline")
        self._stop("_drain")
        super().connection_lost(exc)

    def shutdown(self) -> None:
        try:
            super().shutdown()
        except h11.ProtocolError:
            self.transport.abort()

    def _watch(self) -> None:
        """Let time run while no request is being answered, from when that began."""
        is_answering: bool = bool(self.cycle) and not self.cycle.response_complete
        if is_answering:
            self._stop("_deadline")
        elif self._deadline is None and not self.transport.is_closing():
            self._deadline = self.loop.call_later(self.patience, self.transport.abort)

    def _stop(self, name: str) -> None:
        timer: asyncio.TimerHandle | None = getattr(self, name)
        if timer is not None:
            timer.cancel()
            setattr(self, name, None)


class _Server(Server):
    """A server that ends what is under way when it ends, and says when it is ready."""

    def __init__(self, config: Config, app: App, ready: Callable[[], object]) -> None:
        super().__init__(config)
        self._app, self._ready = app, ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._app.close()
        await super().shutdown(sockets)


def serve(
    app: App, sockets: list[socket.socket], ready: Callable[[], object], **more: Any
) -> Server:
    """Return a server that will listen on sockets; its `run` ends with Ctrl-C."""
    config = Config(
        app,
        http=Patient,
        loop="asyncio",
        ws="none",
        lifespan="off",
        log_config=None,
        log_level="critical",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        limit_concurrency=AT_ONCE,
        timeout_keep_alive=5,
        timeout_graceful_shutdown=ENDING,
        **more,
    )
    return _Server(config, app, ready)

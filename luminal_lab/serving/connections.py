"""uvicorn, with a limit to how slowly a client may send or read, and an end that leaves nothing.

Only `listen` imports this module, as it needs the package uvicorn.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import Any, Final

import h11
from typing_extensions import override
from uvicorn import Config, Server  # noqa: TID253  # whoever imports this has it
from uvicorn.protocols.http.h11_impl import H11Protocol  # noqa: TID253  # likewise

from luminal_lab.serving.app import App

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

    @override
    def connection_made(self, transport: asyncio.Transport) -> None:
        super().connection_made(transport)
        self._watch()

    @override
    def data_received(self, data: bytes) -> None:
        try:
            super().data_received(data)
        except h11.ProtocolError:  # what came cannot be answered any more
            self.transport.abort()
        self._watch()

    @override
    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._watch()

    @override
    def pause_writing(self) -> None:
        super().pause_writing()
        self._drain = self.loop.call_later(self.patience, self.transport.abort)

    @override
    def resume_writing(self) -> None:
        super().resume_writing()
        self._stop("_drain")

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self._stop("_deadline")
        self._stop("_drain")
        super().connection_lost(exc)

    @override
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

    @override
    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._ready()

    @override
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

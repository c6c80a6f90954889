"""A single page on this machine's loopback, for anyone who knows its address.

The address holds a token that cannot be guessed, and nothing else is answered: no other path, no
writing method, no request for another host, as a foreign page would make.
"""

from __future__ import annotations

import hmac
import os
import secrets
import sys
from errno import EACCES, EADDRINUSE
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import TCPServer
from threading import Thread
from types import TracebackType
from typing import Any, ClassVar, Self

from typing_extensions import override

from luminal_lab.errors import ArgumentError

HOST = "127.0.0.1"
HOSTS = (HOST, "localhost")
PATIENCE = 30.0
"""The seconds that a browser may take for its request."""
HEADERS = {
    "Content-Type": "text/html; charset=utf-8",
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}


class Serving:
    """A page, served while this is open.

    >>> with Serving(b"<!doctype html>") as served:
    ...     served.address.startswith("http://127.0.0.1:")
    True
    """

    def __init__(self, page: bytes, port: int = 0) -> None:
        if not 0 <= port < 1 << 16:
            raise ArgumentError(f"open: there is no port {port}", hint="give 1 to 65535, or none")
        self.path = f"/{secrets.token_urlsafe(24)}/"
        self.note = ""
        """A note about a request that could not be met."""
        kind = type("_Answer", (_Answer,), {"page": page, "path_of_page": self.path})
        try:
            self._server = _Server((HOST, port), kind)
        except OSError as error:
            if error.errno not in (EADDRINUSE, EACCES) or not port:
                raise
            self._server = _Server((HOST, 0), kind)
            why = "is in use" if error.errno == EADDRINUSE else "is not for everybody"
            self.note = f"port {port} {why}: this is another one"
        self._thread = Thread(target=self._server.serve_forever, args=(0.1,), daemon=True)

    @property
    def port(self) -> int:
        """The port in use."""
        return self._server.server_port

    @property
    def address(self) -> str:
        """The address of the page."""
        return f"http://{HOST}:{self.port}{self.path}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._server.server_close()

    def wait(self) -> None:
        """Serve the page until Ctrl-C."""
        while self._thread.is_alive():
            self._thread.join(0.5)  # without a limit Ctrl-C would not come through on Windows


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    # On Windows this would let another program take over the port.
    allow_reuse_address = os.name == "posix"

    @override
    def server_bind(self) -> None:
        TCPServer.server_bind(self)  # HTTPServer's looks up this machine's name, which may be slow
        self.server_name, self.server_port = HOST, self.socket.getsockname()[1]

    @override
    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exc_info()[1], OSError):  # a browser that left is no error
            super().handle_error(request, client_address)


class _Answer(BaseHTTPRequestHandler):
    page: ClassVar[bytes]
    path_of_page: ClassVar[str]
    server_version = "luminal-lab"
    sys_version = ""
    timeout = PATIENCE

    def do_GET(self) -> None:  # as http.server calls it
        if self._is_asked():
            self.wfile.write(self.page)

    def do_HEAD(self) -> None:  # as http.server calls it
        self._is_asked()

    def _is_asked(self) -> bool:
        """Send the headers of the page, or of a refusal; return whether it is the page."""
        host = (self.headers.get("Host") or "").rpartition(":")[0]
        asked, known = self.path.encode("utf-8", "replace"), self.path_of_page.encode()
        is_asked = host in HOSTS and hmac.compare_digest(asked, known)
        self.send_response(HTTPStatus.OK if is_asked else HTTPStatus.NOT_FOUND)
        for name, value in HEADERS.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(self.page) if is_asked else 0))
        self.end_headers()
        return is_asked

    @override
    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""

"""A single page on this machine's loopback, for anyone who knows its address.

The address holds a token that cannot be guessed, and nothing else is answered: no other path, no
request for another host, as a foreign page would make. A live page asks its questions there too:

    POST address          {"ask": "why", …}, a line break, and the bytes that belong to it
    GET  addressdata      the bundle, after an answer that said `changed`
"""

from __future__ import annotations

import hmac
import json
import os
import re
import secrets
import sys
from collections.abc import Callable, Mapping
from errno import EACCES, EADDRINUSE
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import TCPServer
from threading import Lock, Thread
from types import TracebackType
from typing import Any, ClassVar, Protocol, Self, cast

from typing_extensions import override

from luminal_lab.errors import ArgumentError
from luminal_lab.reading import read_json

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
NUMBER = re.compile("[0-9]{1,12}")
LARGEST = 1 << 26
"""The most bytes of a question, with what belongs to it."""


class Answering(Protocol):
    """A live picture, as explorers and workbenches are."""

    @property
    def data(self) -> bytes:
        """The bundle that its page reads."""
        ...

    def answers(self, changed: Callable[[], None]) -> Callable[[Mapping[str, Any]], dict[str, Any]]:
        """Return what answers questions; `changed` is called when the bundle changes."""
        ...


class Serving:
    """A page, served while this is open.

    >>> with Serving(b"<!doctype html>") as served:
    ...     served.address.startswith("http://127.0.0.1:")
    True
    """

    def __init__(self, page: bytes, port: int = 0, live: Answering | None = None) -> None:
        if not 0 <= port < 1 << 16:
            raise ArgumentError(f"open: there is no port {port}", hint="give 1 to 65535, or none")
        self.path = f"/{secrets.token_urlsafe(24)}/"
        self.note = ""
        """A note about a request that could not be met."""
        behind = None if live is None else _Behind(live)
        known = {"page": page, "path_of_page": self.path, "behind": behind}
        kind = type("_Answer", (_Answer,), known)
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


class _Behind:
    """A live picture, which answers one question at a time."""

    def __init__(self, live: Answering) -> None:
        self._live = live
        self._lock = Lock()
        self._changed = False
        self._answer = live.answers(self._change)

    def _change(self) -> None:
        self._changed = True

    @property
    def data(self) -> bytes:
        with self._lock:
            return self._live.data

    def answer(self, body: bytes) -> bytes:
        """Return the answer to a question as JSON; whatever is wrong with either is in it."""
        head, _, data = body.partition(b"\n")
        try:
            question = read_json(head, exact=True)
            if not isinstance(question, dict):
                raise ValueError("it is no object")
        except ValueError as error:
            return json.dumps({"error": f"The question cannot be read: {error}"}).encode()
        with self._lock:
            self._changed = False
            reply = self._answer({**cast("dict[str, Any]", question), "data": data})
            changed = {"changed": True} if self._changed else {}
        try:
            return json.dumps({**reply, **changed}, allow_nan=False).encode()
        except ValueError:
            return json.dumps({"error": "The answer has a number that no page can read."}).encode()


class _Answer(BaseHTTPRequestHandler):
    page: ClassVar[bytes]
    path_of_page: ClassVar[str]
    behind: ClassVar[_Behind | None]
    server_version = "luminal-lab"
    sys_version = ""
    timeout = PATIENCE

    def do_GET(self) -> None:  # as http.server calls it
        self.wfile.write(self._told())

    def do_HEAD(self) -> None:  # as http.server calls it
        self._told()

    def do_POST(self) -> None:  # as http.server calls it
        length = self.headers.get("Content-Length") or ""
        if self.behind is None or not self._is_for_us() or not NUMBER.fullmatch(length):
            self.close_connection = True  # its body is not read
            self._tell(None)
            return
        if int(length) > LARGEST:
            self.close_connection = True
            self._tell(None, HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
            return
        answer = self.behind.answer(self.rfile.read(int(length)))
        self._tell(answer, HTTPStatus.OK, "application/json")
        self.wfile.write(answer)

    def _told(self) -> bytes:
        """Send the headers of what is asked for, or of a refusal; return the body."""
        if self._is_for_us():
            return self._tell(self.page)
        if self.behind is not None and self._is_for_us("data"):
            return self._tell(self.behind.data, kind="application/octet-stream")
        return self._tell(None)

    def _is_for_us(self, behind: str = "") -> bool:
        host = (self.headers.get("Host") or "").rpartition(":")[0]
        asked, known = self.path.encode("utf-8", "replace"), (self.path_of_page + behind).encode()
        return host in HOSTS and hmac.compare_digest(asked, known)

    def _tell(
        self, body: bytes | None, status: HTTPStatus | None = None, kind: str | None = None
    ) -> bytes:
        """Send the headers of a body, or of a refusal."""
        usual = HTTPStatus.NOT_FOUND if body is None else HTTPStatus.OK
        self.send_response(status or usual)
        for name, value in {**HEADERS, **({"Content-Type": kind} if kind else {})}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body or b"")))
        self.end_headers()
        return body or b""

    @override
    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""

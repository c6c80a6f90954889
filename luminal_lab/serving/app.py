"""Who may ask, and which route answers: an application that any ASGI server runs.

Without a key only this machine may ask, and no page of another site through its browser: the host
that a request names must be this machine, and so must its origin, if it has one.
"""

from __future__ import annotations

import hmac
from collections.abc import Awaitable, Callable
from time import perf_counter
from traceback import print_exc
from typing import Final, Protocol

from luminal_lab.reading import shown_json
from luminal_lab.serving.http import (
    LARGEST,
    Answer,
    GoneError,
    ProblemError,
    Receive,
    Request,
    Room,
    Scope,
    Send,
    as_json,
)
from luminal_lab.serving.metrics import KIND, Metrics

LOCAL: Final = ("127.0.0.1", "localhost", "::1")
OPEN: Final = ("/v2/health/live", "/v2/health/ready")
"""What those may ask, too, who have no key: whether it is alive."""
Route = tuple[str, Callable[[Request], Awaitable[Answer]]]


class Served(Protocol):
    """A model with its routes."""

    name: str

    def metadata(self) -> dict[str, object]:
        """Return what the Open Inference Protocol says about it."""
        ...

    def routes(self) -> dict[str, Route]:
        """Return its routes: the method and the function by the path."""
        ...

    def close(self) -> None:
        """End what is under way."""
        ...


class App:
    """An application that serves a model."""

    def __init__(
        self, model: Served, metrics: Metrics, *, key: str | None = None, largest: int = LARGEST
    ) -> None:
        self._model, self._metrics, self._key = model, metrics, key
        self._room = Room(largest)
        self._asking = 0
        metrics.gauge("requests_now", "Requests under way.", lambda: self._asking)
        metrics.gauge("body_bytes", "Bytes of bodies that are here.", lambda: self._room.taken)
        self._at = at = f"/v2/models/{model.name}"
        self._routes: dict[str, Route] = {
            "/v2": ("GET", _says(about())),
            "/v2/health/live": ("GET", _says({"live": True})),
            "/v2/health/ready": ("GET", _says({"ready": True})),
            at: ("GET", _says(model.metadata())),
            f"{at}/ready": ("GET", _says({"name": model.name, "ready": True})),
            "/metrics": ("GET", self._metered),
            **model.routes(),
        }

    async def _metered(self, request: Request) -> Answer:
        return Answer(self._metrics.text().encode(), kind=KIND)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, as ASGI has it."""
        if scope["type"] == "lifespan":
            await _live(receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1003})
            return
        begin = perf_counter()
        request = Request(scope, receive, self._room)
        path = request.path = self._plain(request.path)
        path = path if path in self._routes else "other"
        status = 499  # as others write it down, if the client does not wait
        self._asking += 1
        try:
            try:
                answer = await self._answer(request)
            except ProblemError as problem:
                answer = told(problem, request.path)
            except GoneError:
                raise
            except Exception:  # a mistake of ours: whoever serves sees it, and the client a word
                print_exc()
                answer = told(ProblemError(500, "a mistake of the server's"), request.path)
            status = answer.status
            await answer.send(send, with_body=request.method != "HEAD")
        except GoneError:
            status = 499
        finally:
            request.release()
            self._asking -= 1
            self._metrics.count("requests", "Requests.", path=path, status=str(status))
            spent = perf_counter() - begin
            self._metrics.observe("request_seconds", "Seconds of a request.", spent, path=path)

    async def _answer(self, request: Request) -> Answer:
        self._admit(request)
        route = self._routes.get(request.path)
        if route is None:
            raise ProblemError(404, self._missing(request.path))
        method, answer = route
        if request.method not in (method, "HEAD" if method == "GET" else method):
            raise ProblemError(405, f"this path takes {method}")
        return await answer(request)

    def _plain(self, path: str) -> str:
        """Return a path without what makes no difference: a slash at its end, the version 1."""
        path = path.rstrip("/") or path
        version = f"{self._at}/versions/1"
        if path == version or path.startswith(f"{version}/"):
            return self._at + path.removeprefix(version)
        return path

    def _missing(self, path: str) -> str:
        """Return what is not at a path."""
        words, own = path.split("/"), self._model.name
        if path.startswith("/v2/models/") and words[3]:
            if words[3] != own:
                return f"there is no model {shown_json(words[3])}: there is {own}"
            if words[4:5] == ["versions"] and words[5:]:
                return f"there is no version {shown_json(words[5])} of {own}: there is 1"
        return f"there is nothing at this path; there are {', '.join(self._routes)}"

    def _admit(self, request: Request) -> None:
        """Raise unless whoever asks may ask."""
        if self._key is None:
            origin = request.headers.get("origin", "http://localhost").partition("//")[2]
            if not _is_local(request.headers.get("host", "")) or not _is_local(origin):
                raise ProblemError(403, "only this machine may ask: serve with --key for others")
        elif request.path not in OPEN:
            scheme, _, given = request.headers.get("authorization", "").partition(" ")
            is_key = hmac.compare_digest(given.encode(), self._key.encode())
            if scheme.lower() != "bearer" or not is_key:
                raise ProblemError(
                    401,
                    "the key is missing or wrong: Authorization: Bearer KEY",
                    headers={"www-authenticate": "Bearer"},
                    code="invalid_api_key",
                )

    def close(self) -> None:
        """End what is under way."""
        self._model.close()


def about() -> dict[str, object]:
    """Return what a server says of itself."""
    from luminal_lab import __version__  # noqa: PLC0415  # a name of the package's

    return {"name": "luminal_lab", "version": __version__, "extensions": []}


def told(problem: ProblemError, path: str) -> Answer:
    """Return a refusal, in the form that clients of a path expect."""
    if path.startswith("/v1/"):
        kind = "server_error" if problem.status >= 500 else "invalid_request_error"
        more = {"param": None, "code": None, **problem.more}
        answer = as_json(
            {"error": {"message": problem.message, "type": kind, **more}}, problem.status
        )
    else:
        answer = as_json({"error": problem.message}, problem.status)
    answer.headers.update(problem.headers)
    if problem.closes:
        answer.headers["connection"] = "close"
    return answer


def _is_local(place: str) -> bool:
    """Return whether a host with its port is this machine."""
    host = place.rpartition(":")[0] if place.rpartition(":")[2].isdigit() else place
    return host.strip("[]") in LOCAL


def _says(value: object) -> Callable[[Request], Awaitable[Answer]]:
    async def says(request: Request) -> Answer:
        return as_json(value)

    return says


async def _live(receive: Receive, send: Send) -> None:
    while True:
        message = await receive()
        await send({"type": f"{message['type']}.complete"})
        if message["type"] == "lifespan.shutdown":
            return
